#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The n-th system call of a run fails, or the process dies there: for each n of a short run on three
ranks, of those that change its directory and of those that take memory which the node shares.

Each ends with the right exit code, a message with errno and path, no process and no temporary file
left, and goes on to the bits of a run that nobody disturbed. `Sample` takes some n, from a seed that
it prints; `EveryCall` all of them. The library that makes calls fail is nth_call.cpp.
"""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Iterable, NamedTuple

from trainer_runs import Run, TrainerTest, main

RANKS = 3
# 9 steps; checkpoints of steps 4, 8 and 9, of which one stays.
OVERRIDES = ("train.epochs=1", "checkpoint.every_steps=4", "checkpoint.keep=1")
LOGS = re.compile(r"/(log\.txt|metrics\.(csv|jsonl)|\.tmp-(metrics\.csv|state\.json)-[^/]*)$")


class Mode(NamedTuple):
    error: int  # errno; 0: SIGKILL
    for_good: bool = False


ONCE, FOR_GOOD, KILL = Mode(errno.ENOSPC), Mode(errno.EIO, for_good=True), Mode(0)
NO_MEMORY = Mode(errno.ENOMEM, for_good=True)  # one that comes back is asked again


class Call(NamedTuple):
    name: str
    path: str


class NthCallTest(TrainerTest):
    def setUp(self) -> None:
        super().setUp()
        self.library = self.trainer.parent / "tests/fault/libnth_call.so"
        self.assertTrue(self.library.is_file(), self.library)
        self.undisturbed = self.train("undisturbed", *OVERRIDES, ranks=RANKS)

    def calls(self) -> list[Call]:
        lines = (self.root / "calls").read_text().splitlines()
        return [Call(*line.split(" ", 1)) for line in lines]

    def fresh_run(self) -> Run:
        run = self.run_dir("run")
        shutil.rmtree(run.path, ignore_errors=True)  # of a case that failed
        return run

    def run_with(self, run: Run, kind: str, rank: int, n: int, mode: Mode) -> subprocess.CompletedProcess[str]:
        (self.root / "calls").unlink(missing_ok=True)
        variables = {"LD_PRELOAD": self.library, "NTH_CALL_KIND": kind, "NTH_CALL_RANK": rank, "NTH_CALL_N": n,
                     "NTH_CALL_DIRECTORY": run.path, "NTH_CALL_LIST": self.root / "calls",
                     "NTH_CALL_ERROR": mode.error, "NTH_CALL_FOR_GOOD": int(mode.for_good)}
        job = self.start_command([self.mpirun, "--oversubscribe", "-np", RANKS, "env",
                                  *(f"{name}={value}" for name, value in variables.items()), self.trainer, self.config,
                                  f"run.dir={run.path}", *OVERRIDES])
        done = job.finish()
        self.finish(job, done.returncode)
        return done

    def count(self, kind: str, rank: int) -> int:
        run = self.run_dir("counted")
        self.assertEqual(self.run_with(run, kind, rank, 0, KILL).returncode, 0)
        self.assert_same_run(run, self.undisturbed)
        shutil.rmtree(run.path)
        return len(self.calls())

    def go_on(self, run: Run, whole_curve: bool) -> None:
        self.call(self.config, f"run.dir={run.path}", *OVERRIDES, "--resume", "auto", ranks=RANKS)
        self.assert_same_arrays(run, self.undisturbed)
        if whole_curve:
            self.assert_same_curve(run, self.undisturbed)
        # What a start left that came to no run is removed by the run's first resume.
        if self.temporaries(run):
            self.call("resume", run.path, ranks=RANKS)
        self.assertEqual(self.temporaries(run), [])
        shutil.rmtree(run.path)

    def temporaries(self, run: Run) -> list[str]:
        return sorted(path.name for path in run.path.rglob(".*") if path.name != ".lock")

    def hit_file(self, n: int, mode: Mode) -> None:
        with self.subTest(kind="files", n=n, mode=mode):
            run = self.fresh_run()
            done = self.run_with(run, "files", 0, n, mode)
            calls = self.calls()
            failed = calls[n - 1:] if mode.for_good else calls[n - 1:n]
            if mode == KILL:
                self.assertEqual(done.returncode, 137 if failed else 0, done.stderr)
                self.go_on(run, whole_curve=True)
                return
            vital = [call for i, call in enumerate(failed, n - 1) if self.is_vital(calls, i)]
            self.assertEqual(done.returncode, 4 if vital else 0, f"{failed[:1]}\n{done.stderr}")
            if vital:
                self.assert_refused(done.stderr, run, mode)
            elif failed and failed[0].name != "close":  # nothing is told of a log that lost its last line then
                self.assertIn(f"(errno {mode.error})", done.stderr)
                self.assertLessEqual(done.stderr.count("training goes on"), 3, done.stderr)  # once a file
            if not mode.for_good:
                kept = [name for name in self.temporaries(run) if not name.startswith((".tmp-delete-", ".replaced-"))]
                self.assertEqual(kept, [], f"{failed}")
            self.go_on(run, whole_curve=bool(vital) and not mode.for_good)

    def is_vital(self, calls: list[Call], i: int) -> bool:
        """Whether a run must not go on after the failure of this call."""
        call = calls[i]
        if LOGS.search(call.path) or call == ("close", str(self.run_dir("run").path / ".lock")):
            return False
        if call == ("fsync", str(self.run_dir("run").path)):  # after the rename of one of its files
            return not LOGS.search(calls[i - 1].path)
        return True

    def assert_refused(self, text: str, run: Run, mode: Mode) -> None:
        self.assertEqual(text.count("trireme: error"), 1, text)
        error = text.split("trireme: error", 1)[1].splitlines()[0]
        self.assertIn(str(run.path), error)
        self.assertIn(f"(errno {mode.error})", error)

    def hit_memory(self, rank: int, n: int, mode: Mode) -> None:
        with self.subTest(kind="memory", rank=rank, n=n, mode=mode):
            run = self.fresh_run()
            done = self.run_with(run, "memory", rank, n, mode)
            self.assertGreaterEqual(len(self.calls()), n)
            if mode == KILL:
                self.assertEqual(done.returncode, 137, done.stderr)
            elif done.returncode == 0:  # found before training: nothing is shared then
                self.assertIn(f"travels as messages: rank {rank}: memory shared on this node", done.stdout)
            else:
                self.assertEqual(done.returncode, 6, done.stderr)
                self.assertRegex(done.stderr, rf"trireme: error.*rank {rank}\b.*memory shared on this node: .*"
                                 + re.escape(os.strerror(mode.error)))
            self.go_on(run, whole_curve=True)


class Sample(NthCallTest):
    def numbers(self, count: int, every: int) -> Iterable[int]:
        seed = random.randrange(every)
        print(f"of {count} calls every {every}th, from {seed + 1}", flush=True)
        return range(seed + 1, count + 1, every)

    def test_of_files(self) -> None:
        for i, n in enumerate(self.numbers(self.count("files", 0), 13)):
            self.hit_file(n, (ONCE, FOR_GOOD, KILL)[i % 3])

    def test_of_shared_memory(self) -> None:
        for rank in (0, 1):
            for i, n in enumerate(self.numbers(self.count("memory", rank), 9)):
                self.hit_memory(rank, n, (NO_MEMORY, KILL)[i % 2])


class EveryCall(NthCallTest):
    def test_of_files_that_fails_once(self) -> None:
        for n in range(1, self.count("files", 0) + 1):
            self.hit_file(n, ONCE)

    def test_of_files_that_fails_for_good(self) -> None:
        for n in range(1, self.count("files", 0) + 1):
            self.hit_file(n, FOR_GOOD)

    def test_of_files_at_which_the_process_dies(self) -> None:
        for n in range(1, self.count("files", 0) + 1):
            self.hit_file(n, KILL)

    def test_of_shared_memory(self) -> None:
        for rank in (0, 1):
            for n in range(1, self.count("memory", rank) + 1):
                for mode in (NO_MEMORY, KILL):
                    self.hit_memory(rank, n, mode)


if __name__ == "__main__":
    main()
