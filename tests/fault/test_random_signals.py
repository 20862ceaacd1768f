#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One run that is disturbed at twenty random moments, from its start on, by signals of all kinds:
each time it ends, leaves no process and a checkpoint that loads, and in the end it equals a run that
nobody disturbed."""

from __future__ import annotations

import os
import random
import signal
import time

from trainer_runs import TrainerTest, main

TIMES = 20
LENGTH = ("train.epochs=400", "train.eval_every_epochs=20")  # 3600 steps
CODES = {signal.SIGUSR1: (75,), signal.SIGTERM: (1, 75, 143), signal.SIGKILL: (137,)}


class RandomSignals(TrainerTest):
    def disturb(self, seconds: float, number: signal.Signals) -> int:
        """Returns the exit code. SIGKILL is for a rank, if there is one yet; the others for the script."""
        job = self.start_by_script("run.dir=runs/run", "--resume", "auto", *LENGTH, ranks=3)
        time.sleep(seconds)
        os.kill(job.rank(random.randrange(3)) if number == signal.SIGKILL else job.process.pid, number)
        code = job.finish().returncode
        self.finish(job, code)  # nothing is left running
        return code

    def test_at_twenty_moments(self) -> None:
        run = self.run_dir("run")
        for time_of_all in range(TIMES):
            number = random.choice(list(CODES))
            seconds = random.uniform(0, 1.5)
            with self.subTest(time=time_of_all, signal=number.name, seconds=seconds):
                self.assertIn(self.disturb(seconds, number), (*CODES[number], 0))
                if run.steps():
                    self.call("eval", run.latest())
        self.call(self.config, "run.dir=runs/run", "--resume", "auto", *LENGTH, ranks=3)
        self.assert_same_run(run, self.train("undisturbed", *LENGTH, ranks=3))


if __name__ == "__main__":
    main()
