#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL of a rank at random moments while a checkpoint is written, again and again: what is
committed is, bit for bit, the undisturbed run's checkpoint of its step, and so is the end.

A run saves after each step, so that most of its time is saving. `Some` kills 20 times, `TwoHundred`
two hundred times. The moments come from a seed that is printed; a failure can still not be repeated,
as the machine's own timing is part of them.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time

from trainer_runs import Run, TrainerTest, arrays, main, wait_until

RANKS = 3
STEPS = 60
OVERRIDES = ("model.hidden=[256]", f"train.max_steps={STEPS}", "train.epochs=0", "train.eval_every_epochs=0",
             "checkpoint.every_steps=1", "data.validation_fraction=0")


class KillSaving(TrainerTest):
    def setUp(self) -> None:
        super().setUp()
        self.undisturbed = self.train("undisturbed", *OVERRIDES, f"checkpoint.keep={STEPS}", ranks=RANKS)
        self.assertEqual(self.undisturbed.steps(), list(range(1, STEPS + 1)))
        seconds = sorted(event["seconds"] for event in self.undisturbed.events("checkpoint"))
        self.save_seconds = seconds[len(seconds) // 2]
        seed = random.randrange(2**32)
        print(f"seed {seed}, a save takes {self.save_seconds * 1e3:.1f} ms", flush=True)
        self.draw = random.Random(seed)

    def saves_begun(self, run: Run) -> set[str]:
        """Names of what is being written, or was when a rank died."""
        return {path.name for path in run.checkpoints.glob(".tmp-step-*")}

    def kill_in_a_save(self, run: Run) -> bool:
        """False: the run came to its end first. The moment is random, within a save or just behind it."""
        begun = self.saves_begun(run)
        steps = run.steps()
        job = self.start(self.config, f"run.dir={run.path}", *OVERRIDES, "checkpoint.keep=3", "--resume", "auto",
                         ranks=RANKS)
        pid = job.rank(0 if self.draw.random() < 0.8 else self.draw.randrange(RANKS))
        # Some saves later, so that the runs get on.
        after = (steps[-1] if steps else 0) + self.draw.randrange(1, 4)
        wait_until(lambda: job.process.poll() is not None
                   or (self.saves_begun(run) - begun and run.steps() and run.steps()[-1] >= after),
                   "a checkpoint is being written")
        # Not waiting for any state: the moment of the kill is what is varied.
        time.sleep(self.draw.uniform(0, 1.5 * self.save_seconds))
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            self.finish(job, 0)
            return False
        done = job.finish()
        self.assertIn(done.returncode, (0, 137), done.stderr)
        self.finish(job, done.returncode)
        return done.returncode == 137

    def check_committed(self, run: Run) -> None:
        step = run.steps()[-1]
        expected = arrays(self.undisturbed.checkpoints / f"step-{step:08}")
        found = arrays(run.checkpoints / f"step-{step:08}")
        self.assertEqual(found.keys(), expected.keys())
        self.assertEqual([name for name in expected if found[name] != expected[name]], [], f"step {step}")

    def kill(self, times: int) -> None:
        killed = leftovers = finished = 0
        run = self.run_dir("killed")
        while killed < times:
            if self.kill_in_a_save(run):
                killed += 1
                leftovers += bool(self.saves_begun(run))
            if run.steps():
                self.check_committed(run)
            if run.steps() and run.steps()[-1] == STEPS:
                self.end(run)
                finished += 1
        if run.path.exists():
            self.end(run)
        print(f"{killed} kills, {leftovers} of them left a half checkpoint, {finished} runs came to their end")
        self.assertGreater(leftovers, 0, "no kill fell into a save")

    def end(self, run: Run) -> None:
        self.call(self.config, f"run.dir={run.path}", *OVERRIDES, "checkpoint.keep=3", "--resume", "auto", ranks=RANKS)
        self.assert_same_run(run, self.undisturbed)
        self.assertEqual(self.saves_begun(run), set())
        shutil.rmtree(run.path)


class Some(KillSaving):
    def test_at_twenty_random_moments(self) -> None:
        self.kill(20)


class TwoHundred(KillSaving):
    def test_at_two_hundred_random_moments(self) -> None:
        self.kill(200)


if __name__ == "__main__":
    main()
