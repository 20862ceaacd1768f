#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that stand still, crash, or keep the others waiting: who tells of it, where, and once."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from trainer_runs import Job, TrainerTest, main, wait_until

LONG = ("train.epochs=10000", "train.eval_every_epochs=0", "checkpoint.every_steps=0",
        "log.ranks_every_steps=0")


class Ranks(TrainerTest):
    def start_logged(self, *arguments: object, ranks: int) -> tuple[Job, Path]:
        """stderr goes to a file that can be read meanwhile."""
        command = ["sh", "-c", 'exec "$@" 2>said', "sh", self.mpirun, "--oversubscribe", "-np", ranks,
                   self.trainer, *arguments]
        return self.start_command(command), self.root / "said"

    def wait_for_words(self, said: Path, words: str) -> None:
        wait_until(lambda: words in said.read_text(), f"{words!r} is said")

    def test_that_are_stopped_are_named_by_their_neighbours_and_end_the_run_at_the_limit(self) -> None:
        run = self.run_dir("run")
        job, said = self.start_logged(self.config, "run.dir=runs/run", "run.timeout=6", *LONG, ranks=3)
        pid = job.rank(1)
        self.wait_for_step(run, 5)
        os.kill(pid, signal.SIGSTOP)
        self.wait_for_words(said, "has waited for")
        self.wait_for_words(said, "does not run")
        self.assertNotIn("trireme: error", said.read_text())
        self.finish(job, 6)
        self.assertEqual(run.state()["status"], "failed")
        self.assertRegex(run.state()["reason"], r"waiting for rank 1[^$]*\n  rank 1 .* is stopped, by SIGSTOP")
        log = (run.path / "log.txt").read_text()
        self.assertRegex(log, r"warning: rank 1 .* does not run")
        self.assertRegex(log, r"error: step \d+: ")
        text = said.read_text()
        self.assertRegex(text, r"warning: rank 0 \(.+, pid \d+\) has waited for [\d.]+ s in step \d+, "
                         r"(gradients|agreement|update): .+ waits for rank 1; the run ends when run.timeout "
                         r"\(6\.0 s\) is over")
        self.assertRegex(text, rf"warning: rank 1 \(.+, pid {pid}\) does not run: stopped, by SIGSTOP, a terminal or a "
                         r"debugger; it was in step \d+, \w+")
        self.assertEqual(text.count("does not run"), 1, text)
        self.assertEqual(text.count("trireme: error"), 1, text)
        self.assertRegex(text, r"step \d+: ((gradients|parameters) of bucket \d+ of \d+ \('|"
                         r"agreeing on loss and norm: all_reduce #\d+)")
        self.assertRegex(text, r"not complete after 6000 ms; waiting for rank 1, which is stopped, lost, "
                         r"slower than the time-out allows, or waits for another itself")
        self.assertRegex(text, rf"\n  rank 1 \(.+, pid {pid}\) is stopped, by SIGSTOP, a terminal or a debugger, "
                         r"in step \d+, \w+")

    def test_that_go_on_after_a_warning_lose_nothing(self) -> None:
        run = self.run_dir("run")
        few = ("train.epochs=0", "train.max_steps=40", "checkpoint.every_steps=0")
        job, said = self.start_logged(self.config, "run.dir=runs/run", "run.timeout=100", *few, ranks=3)
        pid = job.rank(2)
        self.wait_for_step(run, 3)
        os.kill(pid, signal.SIGSTOP)
        try:
            self.wait_for_words(said, "does not run")
        finally:
            os.kill(pid, signal.SIGCONT)
        self.finish(job, 0)
        self.assertIn("does not run", (run.path / "log.txt").read_text())
        self.assert_same_run(run, self.train("undisturbed", *few, ranks=3))

    def test_that_stand_still_themselves_tell_where_with_their_stack(self) -> None:
        done = self.call(self.config, "run.dir=runs/run", "run.timeout=10", "train.epochs=0", "train.max_steps=20",
                         "--enable-fault-injection", "--inject", "rank=1,point=backward,hit=7,action=sleep=3", ranks=3)
        warning = re.search(r"warning: rank 1 \(.+, pid \d+\) has not come on for [\d.]+ s, in step \d+, backward; "
                            r"its stack:\n((?:  #\d+ .*\n)+)", done.stderr)
        self.assertIsNotNone(warning, done.stderr)
        self.assertIn("trireme::TrainingStep::run(", warning.group(1))
        self.assertEqual(done.stderr.count("has not come on"), 1, done.stderr)
        self.assertRegex(done.stderr, r"warning: rank 0 \(.+\) has waited for .* waits for rank 1")

    def test_that_crash_print_their_stack_and_end_the_others(self) -> None:
        run = self.run_dir("run")
        job = self.start(self.config, "run.dir=runs/run", *LONG, ranks=3)
        pid = job.rank(2)
        self.wait_for_step(run, 3)
        os.kill(pid, signal.SIGSEGV)
        done = self.finish(job, 128 + signal.SIGSEGV)
        self.assertRegex(done.stderr, r"trireme: rank 2 \(.+\) crashed: SIGSEGV")
        self.assertEqual(done.stderr.count(" crashed: "), 1, done.stderr)
        # Functions of the trainer have names, if not demangled ones.
        self.assertIn("_ZN7trireme3run", done.stderr.split("the stack", 1)[1])

    def test_have_a_table_of_times(self) -> None:
        run = self.train("run", "train.epochs=0", "train.max_steps=12", "log.ranks_every_steps=5", ranks=3)
        events = run.events("ranks")
        self.assertEqual([(event["step"], event["steps"]) for event in events], [(5, 5), (10, 5), (12, 2)])
        for event in events:
            for name in ("compute_ms", "input_ms", "waited_ms", "late_ms"):
                self.assertEqual(len(event[name]), 3)
                self.assertTrue(all(number >= 0 for number in event[name]), event)
            self.assertTrue(all(number > 0 for number in event["compute_ms"]), event)
        log = (run.path / "log.txt").read_text()
        self.assertIn("times of all ranks in steps 6-10, ms a step:", log)
        self.assertRegex(log, r"  rank 2 \(.+\)  compute \d+\.\d  input \d+\.\d  waiting for others \d+\.\d  late \d+\.\d")

    def test_alone_have_none(self) -> None:
        run = self.train("run", "train.epochs=0", "train.max_steps=3")
        self.assertEqual(run.events("ranks"), [])


if __name__ == "__main__":
    main()
