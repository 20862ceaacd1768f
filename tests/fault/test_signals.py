#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests to stop: the step that is under way is finished and saved, the exit code is 75, and
resuming ends as if nothing had happened."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from trainer_runs import Job, Run, TrainerTest, main, processes, wait_until

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

    def test_in_a_checkpoint_it_is_completed(self) -> None:
        """The process is stopped where a temporary checkpoint lies, and goes on with the signal."""
        run = self.run_dir("stopped")
        job = self.start(self.config, "run.dir=runs/stopped", "checkpoint.every_steps=1", *LENGTH[:2])
        pid = job.process.pid
        self.wait_for_step(run, 1)

        def caught_saving() -> bool:
            os.kill(pid, signal.SIGSTOP)
            if list(run.checkpoints.glob(".tmp-step-*")):
                return True
            os.kill(pid, signal.SIGCONT)
            return False

        wait_until(caught_saving, "it is stopped while it saves")
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)
        self.finish(job, 75)
        self.assertEqual(run.latest().name, f"step-{run.last_step():08}")
        self.assertEqual(list(run.checkpoints.glob(".tmp-*")), [])
        self.call("resume", "runs/stopped")
        self.assert_same_run(run, self.train("undisturbed", *LENGTH))

    def test_sigterm_to_mpirun_ends_within_its_grace(self) -> None:
        """mpirun gives its ranks a second, and ends with 1 whatever they say."""
        run = self.run_dir("stopped")
        job = self.start(self.config, "run.dir=runs/stopped", *LENGTH[:2], ranks=3)
        self.wait_for_step(run, 13)
        job.process.terminate()
        self.finish(job, 1)
        self.assertGreaterEqual(run.steps()[-1], 7)
        self.call("resume", "runs/stopped", ranks=3)
        self.assert_same_run(run, self.train("undisturbed", *LENGTH[:2], ranks=3))

    def test_ranks_end_when_mpirun_is_killed(self) -> None:
        run = self.run_dir("orphans")
        job = self.start(self.config, "run.dir=runs/orphans", "train.epochs=100000", *LENGTH[1:], ranks=3)
        self.wait_for_step(run, 5)
        job.process.kill()
        self.finish(job, -signal.SIGKILL)

    def interrupt(self, job: Job) -> None:
        """Sends SIGINT and waits until a thread has taken it."""
        job.process.send_signal(signal.SIGINT)
        status = Path(f"/proc/{job.process.pid}/status")

        def taken() -> bool:
            line = next(x for x in status.read_text().splitlines() if x.startswith("ShdPnd"))
            return not int(line.split()[1], 16) & 1 << (signal.SIGINT - 1)

        wait_until(taken, "SIGINT was delivered")


class Saving(TrainerTest):
    def test_sigusr2_saves_and_goes_on(self) -> None:
        for ranks in (0, 2):
            with self.subTest(ranks=ranks):
                name = f"saved-{ranks}"
                run = self.run_dir(name)
                job = self.start(self.config, f"run.dir=runs/{name}", *LENGTH, ranks=ranks)
                self.wait_for_step(run, 1)
                for _ in range(3):
                    before = len(run.events("checkpoint"))
                    job.process.send_signal(signal.SIGUSR2)
                    wait_until(lambda: len(run.events("checkpoint")) > before, "it is saved")
                self.finish(job, 0)
                self.assert_same_run(run, self.train(f"undisturbed-{ranks}", *LENGTH, ranks=ranks))


class TimeLimit(TrainerTest):
    ENDLESS = ("train.epochs=100000", "train.eval_every_epochs=0", "checkpoint.every_steps=0")

    def test_of_the_run_or_its_job_stops_it_in_time(self) -> None:
        own = ("run.time_limit=1m2s", "run.time_margin=1m")
        job = ("run.time_margin=1m",)
        for name, words, environment in (("own", own, {}),
                                         ("job", job, {"SLURM_JOB_END_TIME": str(int(time.time()) + 70)})):
            with self.subTest(name):
                run = self.run_dir(name)
                command = [self.mpirun, "--oversubscribe", "-np", 2, self.trainer, self.config,
                           f"run.dir=runs/{name}", *words, *self.ENDLESS]
                done = self.finish(self.start_command(command, **environment), 75)
                self.assertIn("stops by itself in ", done.stdout)
                self.assertEqual(run.state()["status"], "stopped")
                self.assertEqual(run.latest().name, f"step-{run.last_step():08}")
                # The next start has its own time, and may have more.
                self.call("resume", f"runs/{name}", "run.time_limit=2", "run.time_margin=1", code=75, ranks=2)

    def test_that_leaves_nothing_to_train_is_refused_before_the_data_is_read(self) -> None:
        end = str(int(time.time()) + 60)
        command = [self.mpirun, "--oversubscribe", "-np", 2, self.trainer, self.config, "run.dir=runs/run"]
        done = self.finish(self.start_command(command, SLURM_JOB_END_TIME=end), 2)
        self.assert_error_once(done, "nothing could be trained", "run.time_margin: ")
        self.assertFalse(self.run_dir("run").path.exists())


class AtAnyMoment(TrainerTest):
    """Through slurm/job.sh, as the batch scripts do; mpirun and a rank that starts up would die."""

    def storm(self, job: Job, *numbers: signal.Signals) -> None:
        """Sends each every 50 ms until the job has ended."""
        while job.process.poll() is None:
            for number in numbers:
                job.process.send_signal(number)
            time.sleep(0.05)

    def test_a_storm_of_sigusr1_stops_and_saves(self) -> None:
        long = ("train.epochs=100", *LENGTH[1:])
        run = self.run_dir("stopped")
        job = self.start_by_script("run.dir=runs/stopped", *long)
        self.storm(job, signal.SIGUSR1)
        self.finish(job, 75)
        self.assertEqual(run.latest().name, f"step-{run.last_step():08}")
        self.call("resume", "runs/stopped", ranks=2)
        self.assert_same_run(run, self.train("undisturbed", *long, ranks=2))

    def test_a_storm_of_sigusr2_changes_nothing(self) -> None:
        run = self.run_dir("saved")
        job = self.start_by_script("run.dir=runs/saved", *LENGTH)
        self.storm(job, signal.SIGUSR2)
        self.finish(job, 0)
        self.assertGreater(len(run.events("checkpoint")), 2)
        self.assert_same_run(run, self.train("undisturbed", *LENGTH, ranks=2))

    def test_what_comes_when_nothing_is_left_to_do_is_dropped(self) -> None:
        """Both from the last step on, in which the run is over; until the job's end, and beyond."""
        self.train("run", "train.epochs=1", ranks=2)
        job = self.start_by_script("run.dir=runs/run", "--resume", "auto", "train.epochs=1")
        self.storm(job, signal.SIGUSR1, signal.SIGUSR2)
        self.assertIn("finished already", self.finish(job, 0).stdout)

    def test_sigterm_ends_before_the_run_is_ready(self) -> None:
        job = self.start_by_script("run.dir=runs/run", *LENGTH)
        job.process.send_signal(signal.SIGUSR1)
        job.process.send_signal(signal.SIGTERM)
        done = job.finish()
        self.assertNotEqual(done.returncode, 0)
        wait_until(lambda: not processes(self.mark), "all processes of the job have ended")


if __name__ == "__main__":
    main()
