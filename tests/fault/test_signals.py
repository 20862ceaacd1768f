#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests to stop: the step that is under way is finished and saved, the exit code is 75, and
resuming ends as if nothing had happened."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from trainer_runs import Job, Run, TrainerTest, main, wait_until

LENGTH = ("train.epochs=20", "train.eval_every_epochs=5", "checkpoint.every_steps=0")


class Signals(TrainerTest):
    def stop_and_resume(self, number: signal.Signals, ranks: int) -> None:
        run = self.run_dir("stopped")
        job = self.start(self.config, "run.dir=runs/stopped", *LENGTH, ranks=ranks)
        self.wait_for_step(run, 13)
        os.kill(job.process.pid, number)
        done = self.finish(job, 75)
        self.assertNotIn("error", done.stderr)
        self.assert_stopped(run)
        self.call("resume", "runs/stopped", ranks=ranks)
        self.assert_same_run(run, self.train("undisturbed", *LENGTH, ranks=ranks))

    def assert_stopped(self, run: Run) -> None:
        """After its last step, before its end, with a checkpoint of just that step."""
        step = run.last_step()
        self.assertIn(step, range(13, 180))
        self.assertEqual(run.latest().name, f"step-{step:08}")
        state = run.state()
        self.assertEqual((state["status"], state["step"]), ("stopped", step))
        self.assertEqual(run.events("end")[-1]["status"], "stopped")

    def test_sigterm_to_one_rank_by_hand(self) -> None:
        self.stop_and_resume(signal.SIGTERM, 0)

    def test_sigint_to_one_rank_by_hand(self) -> None:
        self.stop_and_resume(signal.SIGINT, 0)

    def test_sigusr1_to_one_rank_by_hand(self) -> None:
        self.stop_and_resume(signal.SIGUSR1, 0)

    def test_sigusr1_to_mpirun(self) -> None:
        self.stop_and_resume(signal.SIGUSR1, 2)

    def test_in_an_evaluation_it_is_cut_off_and_repeated(self) -> None:
        """The evaluation after the last step takes seconds; the signal comes in it."""
        long = ("train.epochs=0", "train.max_steps=3", "data.samples=12000", "train.eval_batch=1")
        run = self.run_dir("stopped")
        job = self.start(self.config, "run.dir=runs/stopped", *long, ranks=2)
        self.wait_for_step(run, 3)
        os.kill(job.rank(1), signal.SIGTERM)
        self.finish(job, 75)
        self.assertEqual(run.state()["status"], "stopped")
        self.assertEqual(run.events("eval"), [])
        self.assertEqual(run.latest().name, "step-00000003")
        done = self.call("resume", "runs/stopped", ranks=2)
        self.assertNotIn("finished already", done.stdout)
        self.assertEqual([e["split"] for e in run.events("eval")], ["validation", "test"])
        self.assertEqual((run.checkpoints / "best").resolve(), run.latest())
        self.assertEqual(run.state()["status"], "finished")
        self.assertIn("finished already", self.call("resume", "runs/stopped", ranks=2).stdout)

    def test_a_second_sigint_ends_at_once(self) -> None:
        """The first one comes in a step of seconds, the second as soon as the first was taken."""
        run = self.run_dir("long_step")
        job = self.start(self.config, "run.dir=runs/long_step", "model.hidden=[4096,4096,4096]",
                         "data.samples=4000", "train.global_batch=3000", "train.micro_batch=3000")
        wait_until((run.path / "state.json").exists, "training has begun")
        self.interrupt(job)
        self.interrupt(job)
        self.finish(job, -signal.SIGINT)
        self.assertEqual(run.steps(), [])

    def interrupt(self, job: Job) -> None:
        """Sends SIGINT and waits until a thread has taken it."""
        job.process.send_signal(signal.SIGINT)
        status = Path(f"/proc/{job.process.pid}/status")

        def taken() -> bool:
            line = next(x for x in status.read_text().splitlines() if x.startswith("ShdPnd"))
            return not int(line.split()[1], 16) & 1 << (signal.SIGINT - 1)

        wait_until(taken, "SIGINT was delivered")


if __name__ == "__main__":
    main()
