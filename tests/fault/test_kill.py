#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL of a rank: the job ends, and resuming ends as if nothing had happened."""

from __future__ import annotations

import os
import random
import signal
import subprocess

from trainer_runs import Run, TrainerTest, main, wait_until

EPOCHS = 16  # long enough to be hit in the middle
LAST_STEP = EPOCHS * 9


class Kill(TrainerTest):
    def setUp(self) -> None:
        super().setUp()
        self.overrides = (f"train.epochs={EPOCHS}", "train.eval_every_epochs=5")

    def resume_and_compare(self, name: str, ranks: int) -> subprocess.CompletedProcess[str]:
        done = self.call("resume", f"runs/{name}", "data.workers=3", ranks=ranks)
        undisturbed = self.train("undisturbed", *self.overrides, ranks=ranks)
        self.assertEqual(undisturbed.last_step(), LAST_STEP)
        self.assert_same_run(self.run_dir(name), undisturbed)
        self.assertEqual(self.run_dir(name).state()["status"], "finished")
        return done

    def killed(self, ranks: int, victim: int, step: int) -> None:
        with self.subTest(ranks=ranks, victim=victim, step=step):
            run = self.run_dir("killed")
            job = self.start(self.config, f"run.dir={run.path}", *self.overrides, ranks=ranks)
            pid = job.rank(victim)
            self.wait_for_step(run, step)
            wait_until(run.steps, "a checkpoint is committed")  # behind its step
            os.kill(pid, signal.SIGKILL)
            self.finish(job, 137)
            self.assertGreater(run.steps()[-1], 0)
            self.resume_and_compare("killed", ranks)

    def test_of_any_of_two_ranks_at_any_step(self) -> None:
        self.killed(2, random.randrange(2), random.randrange(10, LAST_STEP // 2))

    def test_of_any_of_three_ranks_at_any_step(self) -> None:
        self.killed(3, random.randrange(3), random.randrange(10, LAST_STEP // 2))

    def test_of_rank_0_while_it_saves(self) -> None:
        """It is stopped where a temporary checkpoint lies, and killed if that still lies there."""
        run = self.run_dir("killed")
        job = self.start(self.config, f"run.dir={run.path}", *self.overrides, ranks=2)
        pid = job.rank(0)
        wait_until(run.steps, "a checkpoint is committed")

        def caught_saving() -> bool:
            wait_until(lambda: self.temporaries(run), "a checkpoint is being written")
            os.kill(pid, signal.SIGSTOP)
            if self.temporaries(run):
                return True
            os.kill(pid, signal.SIGCONT)
            return False

        wait_until(caught_saving, "rank 0 is stopped while it saves")
        os.kill(pid, signal.SIGKILL)
        self.finish(job, 137)
        leftovers = self.temporaries(run)
        self.assertEqual(len(leftovers), 1)
        self.call("resume", "runs/killed", "--dry-run", ranks=2)
        self.assertEqual(self.temporaries(run), leftovers, "a dry run changes nothing")
        done = self.resume_and_compare("killed", 2)
        self.assertEqual(done.stderr.count(leftovers[0]), 1, done.stderr)
        self.assertEqual(self.temporaries(run), [])

    def temporaries(self, run: Run) -> list[str]:
        return [path.name for path in run.checkpoints.glob(".tmp-*")]


if __name__ == "__main__":
    main()
