#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults at every point that --inject knows: the exit code, who is named, no process left, and a
resume that ends bitwise as a run that nobody disturbed.

`Sample` takes each point with one of the actions that make sense everywhere, and with each one of
its own; `EveryAction` takes all of them.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import NamedTuple

from trainer_runs import Run, TrainerTest, main

RANKS = 3
EVERYWHERE = ("kill", "throw", "exit=7", "sleep=0.2", "stop")
# 18 steps; checkpoints of steps 4, 8, 9 (the first evaluation, which is the best one), 12, 16, 18.
OVERRIDES = ("train.epochs=2", "checkpoint.every_steps=4", "checkpoint.keep=2", "run.timeout=4")
LAST = "step-00000018"


class Place(NamedTuple):
    """Where a run is hit: well inside it, and after the first checkpoint where that can be."""

    rank: int
    hit: int


PLACES = {
    "start.launch": Place(1, 1),
    "start.ready": Place(2, 1),
    "data.open": Place(1, 1),
    "data.decode": Place(1, 100),
    "data.next": Place(2, 21),
    "forward": Place(1, 21),
    "backward": Place(0, 22),
    "gradient.post": Place(1, 21),
    "collective.wait": Place(2, 150),
    "progress.step": Place(1, 500),
    "agree": Place(0, 10),
    "update": Place(1, 10),
    "update.done": Place(2, 10),
    "eval.batch": Place(1, 1),
    "checkpoint.begin": Place(1, 2),
    "checkpoint.open": Place(0, 2),
    "checkpoint.write": Place(0, 3),
    "checkpoint.fsync": Place(0, 4),
    "checkpoint.written": Place(0, 2),
    "checkpoint.manifest": Place(0, 2),
    "checkpoint.rename": Place(0, 2),
    "checkpoint.latest": Place(0, 2),
    "checkpoint.best": Place(0, 1),
    "checkpoint.rotate": Place(0, 1),
    "checkpoint.delete": Place(0, 1),
    "resume.read": Place(1, 1),
    "log.write": Place(0, 20),
    "end": Place(1, 1),
}
# Nobody can tell how long a rank may be silent before the configuration is read: 600 s then.
NOT_STOPPED = {"start.launch"}


class Point(NamedTuple):
    name: str
    code_of_throw: int
    extra: list[str]  # actions that make sense here and not everywhere


def parse_reference(table: str) -> list[Point]:
    """What `trainer faults` prints."""
    points = []
    for line in table.splitlines()[2:]:
        _, name, _, code, extra, _ = (cell.strip() for cell in line.split("|"))
        points.append(Point(name.strip("`"), int(code), re.findall("`([^`]+)`", extra)))
    return points


class InjectTest(TrainerTest):
    def setUp(self) -> None:
        super().setUp()
        self.cases = 0

    def command(self, name: str, *more: str) -> tuple[object, ...]:
        """Starts the run, or goes on with it."""
        return (self.config, f"run.dir=runs/{name}", *OVERRIDES, "--resume", "auto", *more)

    def inject(self, *faults: str) -> list[str]:
        words = ["--enable-fault-injection"]
        for fault in faults:
            words += ["--inject", fault]
        return words

    def expected_code(self, point: Point, action: str) -> int:
        if point.name == "log.write" and action in ("throw", "enospc"):
            return 0  # a log that cannot be written is no reason to stop
        return {"kill": 137, "stop": 6, "throw": point.code_of_throw, "exit=7": 7, "sleep=0.2": 0,
                "nan": 5, "enospc": 4, "bitflip": 0}[action]

    def hit(self, point: Point, action: str) -> None:
        """One fault, what is said of it, and the way on from there."""
        self.cases += 1
        name, place = f"case-{self.cases}", PLACES[point.name]
        with self.subTest(point=point.name, action=action):
            if point.name == "resume.read":
                self.call(*self.command(name, *self.inject("rank=0,point=update,hit=10,action=kill")),
                          ranks=RANKS, code=137)
            fault = f"rank={place.rank},point={point.name},hit={place.hit},action={action}"
            code = self.expected_code(point, action)
            done = self.call(*self.command(name, *self.inject(fault)), ranks=RANKS, code=code)
            self.assertIn(f"fault injection: {fault}\n", done.stdout)
            happened = f"fault injected on rank {place.rank} at {point.name}, hit {place.hit}: {action}\n"
            self.assertEqual(done.stderr.count(happened), 1, done.stderr)
            self.check_message(done.stderr, point, action, code, place.rank)
            if code != 0:
                self.call(*self.command(name), ranks=RANKS)
            self.check_end(self.run_dir(name), point, action)
            shutil.rmtree(self.run_dir(name).path)

    def check_message(self, text: str, point: Point, action: str, code: int, rank: int) -> None:
        if action == "stop":
            self.assertRegex(text, rf"trireme: error on rank \d .*waiting for rank {rank}\b")
        elif code in (0, 7, 137):
            self.assertNotIn("trireme: error", text)
            if point.name == "log.write" and action in ("throw", "enospc"):
                self.assertEqual(text.count("training goes on"), 1, text)
        else:
            self.assertEqual(text.count("trireme: error"), 1, text)
            reason = {"throw": rf"rank {rank}\b.*injected fault at {re.escape(point.name)}",
                      "enospc": r"rank 0: cannot .*runs/.*No space left on device \(errno 28\)",
                      "nan": rf"step \d+:.*( rank {rank}: loss nan for samples|the gradient is not finite)"}
            self.assertRegex(text, reason[action])

    def check_end(self, run: Run, point: Point, action: str) -> None:
        self.assertEqual(run.latest().name, LAST)
        self.assertEqual(sorted(path.name for path in run.checkpoints.glob(".*")), [], "leftovers")
        if action == "bitflip":
            return  # of these there are tests of their own
        if point.name == "log.write" and self.expected_code(point, action) == 0 and action != "sleep=0.2":
            self.assert_same_arrays(run, self.undisturbed)  # a line is missing, nothing else
        else:
            self.assert_same_run(run, self.undisturbed)

    def points(self) -> list[Point]:
        points = parse_reference(self.call("faults").stdout)
        self.assertEqual([point.name for point in points], list(PLACES), "each point has its place here")
        self.undisturbed = self.train("undisturbed", *OVERRIDES, ranks=RANKS)
        self.assertEqual(self.undisturbed.latest().name, LAST)
        return points


class Sample(InjectTest):
    def test_each_point_with_some_action_ends_as_it_should(self) -> None:
        for number, point in enumerate(self.points()):
            self.hit(point, EVERYWHERE[number % 4])
            for action in point.extra:
                self.hit(point, action)

    def test_a_rank_that_stands_still_is_named(self) -> None:
        for point in self.points():
            # Not "end": there mpirun 4.1.4 itself crashes now and then while it prints what MPI_Abort has to say
            # (ORTE_ERROR_LOG in show_help.c, then SIGSEGV of mpirun). EveryAction has it.
            if point.name in ("forward", "checkpoint.write"):
                self.hit(point, "stop")


class EveryAction(InjectTest):
    def test_at_every_point_ends_as_it_should(self) -> None:
        for point in self.points():
            for action in (*EVERYWHERE, *point.extra):
                if action != "stop" or point.name not in NOT_STOPPED:
                    self.hit(point, action)


class Bits(InjectTest):
    """What a flipped bit leads to."""

    def test_in_a_checkpoint_is_found_when_it_is_read(self) -> None:
        undisturbed = self.train("undisturbed", *OVERRIDES, ranks=RANKS)
        faults = self.inject("rank=0,point=checkpoint.written,hit=4,action=bitflip",
                             "rank=1,point=update,hit=14,action=kill")
        self.call(*self.command("run", *faults), ranks=RANKS, code=137)
        run = self.run_dir("run")
        self.assertEqual(run.steps()[-1], 12)
        done = self.call("resume", "runs/run", ranks=RANKS)
        self.assertRegex(done.stderr, "passing over checkpoint step-00000012: .*model.h5 is damaged")
        self.assertIn("resumed from runs/run/checkpoints/step-00000009", done.stdout)
        self.assert_same_run(run, undisturbed)

    def test_in_the_parameters_of_a_node_is_found_before_they_are_saved(self) -> None:
        nodes = ("--ranks-per-node", "1")
        undisturbed = self.train("undisturbed", *OVERRIDES, *nodes, ranks=RANKS)
        fault = "rank=1,point=update.done,hit=6,action=bitflip"
        done = self.call(*self.command("run", *nodes, *self.inject(fault)), ranks=RANKS, code=6)
        self.assert_error_once(done, "ranks differ in the parameters after step 8", "' on rank 1;")
        run = self.run_dir("run")
        self.assertEqual(run.steps(), [4])
        self.call("resume", "runs/run", *nodes, ranks=RANKS)
        self.assert_same_run(run, undisturbed)


class Links(InjectTest):
    def test_to_the_last_checkpoint_is_made_by_a_resume_where_a_kill_came_before_it(self) -> None:
        fault = "rank=0,point=checkpoint.latest,hit=6,action=kill"  # after step 18, the last one
        self.call(*self.command("run", *self.inject(fault)), ranks=RANKS, code=137)
        run = self.run_dir("run")
        self.assertEqual((run.steps()[-1], run.latest().name), (18, "step-00000016"))
        self.call("resume", "runs/run", ranks=RANKS)
        self.assertEqual(run.latest().name, LAST)


class Injection(InjectTest):
    def test_is_refused_unless_it_is_enabled(self) -> None:
        done = self.call("small.yaml", "--inject", "rank=0,point=end,action=kill", code=2)
        self.assertIn("--enable-fault-injection", done.stderr)
        self.assertFalse((self.root / "runs").exists())

    def test_of_a_misspelt_point_is_answered_with_a_suggestion(self) -> None:
        fault = "rank=0,point=checkpoint.renam,action=kill"
        done = self.call("small.yaml", *self.inject(fault), ranks=2, code=2)
        self.assertEqual(done.stderr.count("did you mean 'checkpoint.rename'"), 1, done.stderr)

    def test_on_a_rank_that_there_is_not_is_refused_once(self) -> None:
        done = self.call("small.yaml", *self.inject("rank=2,point=end,action=kill"), ranks=2, code=2)
        self.assert_error_once(done, "rank=2; there are 2 ranks")
        self.assertFalse((self.root / "runs").exists())

    def test_stands_in_the_log_and_what_did_not_happen_is_said(self) -> None:
        fault = "rank=1,point=checkpoint.rename,hit=1,action=kill"  # which rank 0 does
        done = self.call(*self.command("run", *self.inject(fault)), ranks=2)
        self.assertEqual(done.stderr.count(f"the run has not come to the fault {fault}"), 1)
        log = (self.run_dir("run").path / "log.txt").read_text()
        self.assertEqual(log.count(f"fault injection: {fault}"), 1, log)

    def test_of_a_slow_rank_changes_nothing_but_the_time(self) -> None:
        undisturbed = self.train("undisturbed", *OVERRIDES, ranks=RANKS)
        slow = self.inject("rank=1,point=backward,hit=1+,action=sleep=0.01")
        done = self.call(*self.command("run", *slow), ranks=RANKS)
        self.assertGreater(done.stderr.count("fault injected on rank 1 at backward"), 30)
        self.assert_same_run(self.run_dir("run"), undisturbed)

    def test_is_documented_as_the_trainer_prints_it(self) -> None:
        page = Path(__file__).parents[2] / "framework/docs/FAULTS.md"
        self.assertIn(self.call("faults").stdout, page.read_text())


if __name__ == "__main__":
    main()
