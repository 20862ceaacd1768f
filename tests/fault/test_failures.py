#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Errors while training and at its start that all ranks agree on."""

from __future__ import annotations

import os

from trainer_runs import TrainerTest, main


class NotFinite(TrainerTest):
    def test_names_step_and_rank_once_and_keeps_the_last_checkpoint(self) -> None:
        # Each step multiplies the weights by about -1e12, which float32 stands for few steps.
        done = self.call(self.config, "run.dir=runs/run", "optimizer.name=sgd", "optimizer.lr=1e6",
                         "optimizer.weight_decay=1e6", "schedule.name=constant",
                         "checkpoint.every_steps=1", ranks=2, code=5)
        run = self.run_dir("run")
        step = run.last_step()
        self.assertGreater(step, 0)
        self.assert_error_once(done, f"step {step + 1}: ", f"after step {step};", "optimizer.lr")
        self.assertRegex(done.stderr, "rank [01]: loss (-?nan|inf) for samples [0-9]+")
        self.assertEqual(run.latest().name, f"step-{step:08}")
        self.assertEqual(run.state()["status"], "failed")
        self.assertIn(f"step {step + 1}: ", run.state()["reason"])
        self.call("eval", "runs/run")  # the checkpoint is whole


class Ranks(TrainerTest):
    def test_with_unequal_threads_are_refused_before_the_first_step(self) -> None:
        command: list[object] = [self.mpirun, "--oversubscribe"]
        for threads in (1, 2):
            command += [*(":" * (threads - 1)), "-np", 1, "env", f"OMP_NUM_THREADS={threads}",
                        self.trainer, self.config, "run.dir=runs/run"]
        done = self.finish(self.start_command(command), 6)
        self.assert_error_once(done, "1 threads a rank", "2 threads a rank")
        self.assertFalse(self.run_dir("run").path.exists())

    def test_with_unequal_configurations_are_refused_before_the_first_step(self) -> None:
        command: list[object] = [self.mpirun, "--oversubscribe"]
        for rank in (0, 1):
            command += [*(":" * rank), "-np", 1, self.trainer, self.config, "run.dir=runs/run",
                        f"optimizer.lr=0.{rank + 1}"]
        done = self.finish(self.start_command(command), 6)
        self.assert_error_once(done, "optimizer.lr: 0.1", "optimizer.lr: 0.2")
        self.assertFalse(self.run_dir("run").path.exists())

    def test_that_do_not_see_the_same_run_directory_are_refused_before_data_is_read(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root can give a process other mounts")
        (self.root / "runs").mkdir()
        apart = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none runs && exec "$@"', "sh"]

        def train(name: str, *more: str, code: int):
            command: list[object] = [self.mpirun, "--oversubscribe"]
            for rank in (0, 1):
                command += [*(":" * rank), "-np", 1, *(apart * rank), self.trainer, self.config, f"run.dir=runs/{name}",
                            "train.max_steps=2", "--ranks-per-node", 1, *more]
            return self.finish(self.start_command(command), code)

        done = train("refused", code=4)
        self.assert_error_once(done, "rank 1: run directory runs/refused", "run.shared: false")
        self.assertFalse(self.run_dir("refused").path.exists())
        train("apart", "run.shared=false", code=0)
        self.assertEqual(self.run_dir("apart").steps(), [2])


if __name__ == "__main__":
    main()
