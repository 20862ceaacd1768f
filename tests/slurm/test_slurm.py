#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The batch scripts of slurm/ under a real Slurm: jobs that are stopped before their time is over,
cancelled, or fail. mpirun and srun side by side."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

from slurm_cluster import Cluster, missing
from trainer_runs import CONFIG, TrainerTest, main, processes, wait_until

HOME = Path(__file__).resolve().parents[2]
SCRIPTS = {"mpirun": HOME / "slurm/train.sbatch", "srun": HOME / "slurm/train_srun.sbatch"}
# Steps of some milliseconds, and rates that do not follow from the length, of which there is none.
# (The time limit is for jobs whose test was killed.)
ENDLESS = CONFIG
for old, new in (("seed: 3", "seed: 3, time_limit: 100, time_margin: 2"), ("hidden: [64]", "hidden: [768, 512]"),
                 ("epochs: 4", "max_steps: 1000000, eval_every_epochs: 0"), ("cosine", "constant"),
                 ("every_steps: 7", "every_steps: 0")):
    assert old in ENDLESS
    ENDLESS = ENDLESS.replace(old, new)
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


class SlurmTest(TrainerTest):
    NODES = 1
    cluster: Cluster

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster(cls.NODES)
        cls.addClassCleanup(cls.cluster.close)

    def setUp(self) -> None:
        super().setUp()
        self.numbers: dict[str, str] = {}  # of jobs, by the script's name
        self.addCleanup(self.cancel_all)

    def cancel_all(self) -> None:
        for number in self.numbers.values():
            self.cluster.call("scancel", number, check=False)

    def submit(self, name: str, *arguments: object, options: tuple[str, ...] = (), **environment: str) -> None:
        """A job of two ranks, with a configuration and a run directory of this name."""
        config = self.root / f"{name}.yaml"
        config.write_text(ENDLESS)
        done = self.cluster.call(
            "sbatch", "--parsable", f"--output={self.root}/{name}.txt", "--ntasks-per-node=2", *options,
            SCRIPTS[name], config, f"run.dir=runs/{name}", *arguments, cwd=self.root,
            **self.environment(TRIREME_HOME=str(HOME), TRIREME_TRAINER=str(self.trainer),
                               TRIREME_MAPPING="--oversubscribe --bind-to none", **environment))
        self.numbers[name] = done.stdout.strip()

    def job(self, name: str) -> dict[str, str]:
        return self.cluster.job(self.numbers[name])

    def output(self, name: str) -> str:
        return (self.root / f"{name}.txt").read_text()

    def wait_for_job(self, name: str, happened: Callable[[dict[str, str]], Any], what: str) -> None:
        """happened: of what Slurm says about the job."""
        def look() -> bool:
            time.sleep(0.1)
            return bool(happened(self.job(name)))

        try:
            wait_until(look, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.job(name)}\n{self.output(name)}\n{self.cluster.logs()}") from error

    def wait_for_end(self, name: str, state: str, code: str, restarts: int = 0) -> None:
        self.wait_for_job(name, lambda job: job["JobState"] in ENDED, "the job has ended")
        job = self.job(name)
        self.assertEqual((job["JobState"], job["ExitCode"], job["Restarts"]), (state, code, str(restarts)),
                         self.output(name))
        self.assertEqual(self.output(name).count("requeued"), restarts, self.output(name))

    def assert_stopped(self, name: str) -> int:
        """Saved after its last step; returns that."""
        run = self.run_dir(name)
        step = run.last_step()
        self.assertEqual((run.state()["status"], run.latest().name), ("stopped", f"step-{step:08}"))
        return step

    def both(self, *arguments: object, options: tuple[str, ...] = (), **environment: str) -> None:
        for name in SCRIPTS:
            self.submit(name, *arguments, options=options, **environment)
        for name in SCRIPTS:
            self.wait_for_job(name, lambda job: self.run_dir(name).events("step") or job["JobState"] in ENDED,
                              "the run has begun")


class BatchScripts(SlurmTest):
    def test_a_job_that_is_signalled_before_its_limit_is_requeued_once_and_goes_on_exactly(self) -> None:
        # The signal comes some seconds after 5 seconds, as Slurm looks at the time that often.
        self.both(options=("--time=1", "--signal=B:USR1@55"))
        self.cluster.start_jobs(False)
        for name in SCRIPTS:
            self.wait_for_job(name, lambda job: job["Restarts"] == "1", "the job is requeued")
            step = self.assert_stopped(name)
            config = self.root / f"{name}.yaml"
            config.write_text(ENDLESS.replace("1000000", str(step + 20)))
            # The second time it has no time to be signalled again.
            self.cluster.call("scontrol", "update", f"JobId={self.numbers[name]}", "TimeLimit=60")
        self.cluster.start_jobs(True)
        for name in SCRIPTS:
            self.wait_for_end(name, "COMPLETED", "0:0", restarts=1)
            self.assertIn(" before the job ends (SLURM_JOB_END_TIME)", self.output(name))
            self.call(self.root / f"{name}.yaml", f"run.dir=runs/undisturbed-{name}", ranks=2)
            self.assert_same_run(self.run_dir(name), self.run_dir(f"undisturbed-{name}"))

    def test_a_job_saves_on_request_and_is_cancelled_after_a_checkpoint(self) -> None:
        self.both()
        for name, number in self.numbers.items():
            self.cluster.call("scancel", "--batch", "--signal=USR2", number)
            wait_until(lambda: self.run_dir(name).events("checkpoint"), "a checkpoint is made")
            self.assertEqual(self.job(name)["JobState"], "RUNNING")
        for number in self.numbers.values():
            self.cluster.call("scancel", number)
        for name in SCRIPTS:
            self.wait_for_job(name, lambda job: job["JobState"] in ENDED, "the job has ended")
            job = self.job(name)
            self.assertEqual((job["JobState"], job["Restarts"]), ("CANCELLED", "0"))
            self.assertNotIn("requeued", self.output(name))
            self.assert_stopped(name)
        wait_until(lambda: not processes(self.mark), "all processes of the jobs have ended")

    def test_a_job_is_requeued_as_often_as_allowed(self) -> None:
        self.both(TRIREME_MAX_RESTARTS="0")
        for number in self.numbers.values():
            self.cluster.call("scancel", "--batch", "--signal=USR1", number)
        for name in SCRIPTS:
            self.wait_for_end(name, "FAILED", "75:0")
            self.assertIn("restarted 0 times already (TRIREME_MAX_RESTARTS)", self.output(name))
            self.assert_stopped(name)

    def test_a_job_that_fails_is_not_requeued(self) -> None:
        self.both("optimizer.lr=fast")
        for name in SCRIPTS:
            self.wait_for_end(name, "FAILED", "2:0")

    def kill_rank_1(self) -> None:
        for pid, environment in processes(self.mark).items():
            if "1" in (environment.get("OMPI_COMM_WORLD_RANK"), environment.get("PMIX_RANK")):
                os.kill(pid, signal.SIGKILL)

    def test_a_job_of_which_a_rank_is_killed_fails_at_once_if_it_has_saved_nothing(self) -> None:
        self.both()
        self.kill_rank_1()
        for name in SCRIPTS:
            self.wait_for_end(name, "FAILED", "137:0")
            self.assertIn("has saved no checkpoint since this start", self.output(name))
        wait_until(lambda: not processes(self.mark), "all processes of the jobs have ended")

    def test_a_job_of_which_a_rank_is_killed_is_requeued_if_it_has_saved(self) -> None:
        self.both()
        self.cluster.start_jobs(False)
        self.addCleanup(self.cluster.start_jobs, True)
        for name, number in self.numbers.items():
            self.cluster.call("scancel", "--batch", "--signal=USR2", number)
            wait_until((self.run_dir(name).checkpoints / "latest").is_symlink, "a checkpoint is committed")
        self.kill_rank_1()
        for name in SCRIPTS:
            self.wait_for_job(name, lambda job: job["JobState"] in ("PENDING", *ENDED), "the job is queued or has ended")
            self.assertEqual((self.job(name)["JobState"], self.job(name)["Restarts"]), ("PENDING", "1"), self.output(name))
            self.assertIn("(exit code 137); requeued (restart 1)", self.output(name))
        wait_until(lambda: not processes(self.mark), "all processes of the jobs have ended")


class TwoNodes(SlurmTest):
    """Two slurmd of one machine: their ranks share no memory, and find each other over TCP. (Not for srun:
    both would use the same folders for PMIx.)"""

    NODES = 2
    TCP = {"OMPI_MCA_btl": "tcp,self"}

    def test_a_signal_reaches_the_ranks_of_all_nodes(self) -> None:
        self.submit("mpirun", options=("--nodes=2",), TRIREME_MAX_RESTARTS="0", **self.TCP)
        self.wait_for_job("mpirun", lambda job: self.run_dir("mpirun").events("step") or job["JobState"] in ENDED,
                          "the run has begun")
        self.cluster.call("scancel", "--batch", "--signal=USR1", self.numbers["mpirun"])
        self.wait_for_end("mpirun", "FAILED", "75:0")
        self.assertIn("trireme 4 ranks on ", self.output("mpirun"))
        self.assertIn("over 4 ranks on 2 nodes", self.output("mpirun"))
        self.assert_stopped("mpirun")

    def test_scaling_prints_a_table_of_node_counts(self) -> None:
        output = self.root / "scaling.txt"
        done = self.cluster.call(
            "sbatch", "--parsable", "--wait", f"--output={output}", "--nodes=2", HOME / "slurm/scaling.sbatch",
            self.config, "optimizer.lr=0.01", cwd=self.root, check=False,
            **self.environment(TRIREME_HOME=str(HOME), TRIREME_TRAINER=str(self.trainer), SCALING_STEPS="12",
                               SCALING_DIR="runs/scaling", TRIREME_MAPPING="--map-by ppr:2:node --bind-to none",
                               **self.TCP))
        self.assertEqual(done.returncode, 0, output.read_text())
        table = [line.split() for line in (self.root / "runs/scaling/scaling.txt").read_text().splitlines() if line]
        self.assertEqual(table[0][:5], ["scaling", "nodes", "ranks", "global_batch", "samples/s"])
        self.assertEqual([row[:4] for row in table[1:]],
                         [["strong", "1", "2", "31"], ["strong", "2", "4", "31"],
                          ["weak", "1", "2", "31"], ["weak", "2", "4", "62"]])
        for row in table[1:]:
            self.assertRegex(" ".join(row[4:]), r"^\d+ \d+\.\d\d \d+% \d+%$")
        for row in table[1::2]:
            self.assertEqual(row[5:7], ["1.00", "100%"])
        self.assertEqual(self.run_dir("scaling/weak-2").last_step(), 12)
        self.assertIn("lr: 0.01", (self.root / "runs/scaling/weak-2/config.yaml").read_text())


class WrongLauncher(SlurmTest):
    def test_srun_without_pmix_is_refused_once(self) -> None:
        done = self.cluster.call("srun", "--ntasks=3", "--mpi=none", self.trainer, self.config, "run.dir=runs/run",
                                 cwd=self.root, check=False, **self.environment())
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assert_error_once(done, "srun started 3 ranks", "`srun --mpi=pmix")
        self.assertFalse(self.run_dir("run").path.exists())

    def test_one_rank_needs_no_launcher_in_a_job_of_several(self) -> None:
        done = self.cluster.call("srun", "--ntasks=1", "--mpi=none", self.trainer, self.config, "run.dir=runs/run",
                                 "train.epochs=1", cwd=self.root, check=False, **self.environment())
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    if why := missing():
        print(why)
        sys.exit(77)  # skipped, to ctest
    main()
