#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the batch scripts of slurm/ decide, without Slurm: programs of the test's own stand for
mpirun, srun, scontrol, nproc and the trainer."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from trainer_runs import TrainerTest, main

SLURM = Path(__file__).resolve().parents[2] / "slurm"
SCRIPTS = {"mpirun": "train.sbatch", "srun": "train_srun.sbatch"}
LOST = ("1", "6", "134", "137", "139", "143", "205")  # what mpirun and srun return then
FAILED = ("2", "3", "4", "5", "70")

# Saves what SAVES names, and is told to end, as the job, where CANCELS is set.
LAUNCHER = """\
echo "$(basename "$0")" >>calls
if [[ ${SAVES:-} ]]; then mkdir -p "$RUN/checkpoints" && ln -sfn "$SAVES" "$RUN/checkpoints/latest"; fi
if [[ ${CANCELS:-} ]]; then
  trap 'exit "$CODE"' TERM
  kill -TERM "$PPID"
  while true; do sleep 0.1; done
fi
exit "$CODE"
"""
PROGRAMS = {
    "mpirun": LAUNCHER,
    "srun": LAUNCHER,
    # Slurm ends the job before scontrol has the answer.
    "scontrol": 'kill -TERM $$ "$PPID"; echo "$*" >>calls; echo asked; exit "${SCONTROL_CODE:-0}"\n',
    "squeue": "date --iso-8601=seconds\n",
    "nproc": 'echo "${CORES:-2}"\n',
    "trainer": '[[ ! ${NO_CONFIG:-} ]] || exit 2\nprintf "model:\\n  dir: other\\nrun:\\n  dir: \\"%s\\"  # from a.yaml:1:1\\n" "$RUN"\n',
}


class JobTest(TrainerTest):
    def setUp(self) -> None:
        super().setUp()
        self.programs = self.root / "programs"
        self.programs.mkdir()
        for name, text in PROGRAMS.items():
            (self.programs / name).write_text(f"#!/usr/bin/env bash\n{text}")
            (self.programs / name).chmod(0o755)

    def calls(self) -> list[str]:
        """Of the launchers and scontrol, since the last look."""
        try:
            return (self.root / "calls").read_text().splitlines()
        finally:
            (self.root / "calls").unlink(missing_ok=True)

    def script(self, name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Both outputs are in stdout, in their order."""
        variables = {"SLURM_JOB_ID": "77", "SLURM_NTASKS": "4", "SLURM_JOB_NUM_NODES": "2",
                     "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_CPUS_PER_TASK": "1", "TRIREME_HOME": str(SLURM.parent),
                     "TRIREME_TRAINER": str(self.programs / "trainer"), "RUN": "runs/a b",
                     "PATH": f"{self.programs}:{os.environ['PATH']}", **environment}
        return subprocess.run(["bash", str(SLURM / name), str(self.config), *arguments], cwd=self.root, check=False,
                              env=self.environment(**variables), text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60)

    def job(self, launcher: str, code: str, **environment: str) -> tuple[bool, str]:
        """A job whose training ends with this code: whether it is queued again, and what it prints."""
        done = self.script(SCRIPTS[launcher], CODE=code, **environment)
        self.assertEqual(done.returncode, int(code), done.stdout)
        calls = self.calls()
        asked = calls == [launcher, "requeue 77"]
        self.assertTrue(asked or calls == [launcher], calls)
        self.assertEqual("requeued" in done.stdout, asked and "SCONTROL_CODE" not in environment, done.stdout)
        return asked, done.stdout


class Requeue(JobTest):
    def test_what_was_stopped_is_queued_again_and_says_so_when_it_is(self) -> None:
        for launcher in SCRIPTS:
            queued, output = self.job(launcher, "75", SLURM_RESTART_COUNT="2")
            self.assertTrue(queued)
            self.assertEqual(output, "asked\njob 77: stopped before its end; requeued (restart 3)\n")

    def test_where_slurm_refuses_the_job_ends_with_the_code_of_its_training(self) -> None:
        for launcher in SCRIPTS:
            queued, output = self.job(launcher, "75", SCONTROL_CODE="1")
            self.assertTrue(queued)
            self.assertIn("job 77: stopped before its end, and scontrol could not queue it again;", output)

    def test_what_lost_a_rank_is_queued_again_if_it_has_saved_since_it_was_started(self) -> None:
        for launcher in SCRIPTS:
            for i, code in enumerate(LOST):
                with self.subTest(launcher=launcher, code=code):
                    run = f"runs/{launcher} {i}"
                    for saves, expected in (("", False), ("step-1", True), ("", False), ("step-1", False),
                                            ("step-2", True)):
                        queued, output = self.job(launcher, code, RUN=run, SAVES=saves)
                        self.assertEqual(queued, expected, saves)
                        self.assertIn(f"lost a rank, a node or a link (exit code {code})", output)
                        self.assertEqual("no checkpoint since this start: not queued again" in output, not expected)

    def test_what_fails_is_never_queued_again(self) -> None:
        for launcher in SCRIPTS:
            for code in ("0", *FAILED):
                with self.subTest(launcher=launcher, code=code):
                    self.assertEqual(self.job(launcher, code, RUN=f"runs/{launcher}-{code}", SAVES="step-1"), (False, ""))

    def test_all_restarts_are_counted_and_bounded(self) -> None:
        for code in ("75", "137"):
            limits = {"TRIREME_MAX_RESTARTS": "3", "RUN": f"runs/{code}"}
            self.assertTrue(self.job("mpirun", code, SAVES="step-1", SLURM_RESTART_COUNT="2", **limits)[0])
            queued, output = self.job("mpirun", code, SAVES="step-2", SLURM_RESTART_COUNT="3", **limits)
            self.assertFalse(queued)
            self.assertIn("restarted 3 times already (TRIREME_MAX_RESTARTS); submit it again to go on", output)

    def test_a_cancelled_job_is_not_queued_again(self) -> None:
        for launcher in SCRIPTS:
            for code in ("75", "143"):
                queued, output = self.job(launcher, code, SAVES="step-1", CANCELS="1", RUN=f"runs/{launcher}-{code}")
                self.assertFalse(queued)
                self.assertIn("job 77: cancelled; submit it again to go on", output)

    def test_without_a_configuration_only_what_was_stopped_is_queued_again(self) -> None:
        queued, output = self.job("mpirun", "137", SAVES="step-1", NO_CONFIG="1")
        self.assertFalse(queued)
        self.assertIn("--print-config did not say where its checkpoints lie: not queued again", output)
        self.assertTrue(self.job("mpirun", "75", NO_CONFIG="1")[0])

    def test_the_trainer_says_where_its_checkpoints_lie(self) -> None:
        for words, run in ((("run.name=named",), "runs/named"), (("run.dir=in a/it's",), "in a/it's")):
            done = self.script("train.sbatch", *words, CODE="137", SAVES="step-1", RUN=run,
                               TRIREME_TRAINER=str(self.trainer))
            self.assertEqual(self.calls(), ["mpirun", "requeue 77"], done.stdout)


class Cores(JobTest):
    def test_ranks_of_one_core_on_a_large_node_are_warned_of(self) -> None:
        warning = "warning: 2 ranks on this node have one core each, and it has 64 processors: sbatch --cpus-per-task=N"
        for launcher in SCRIPTS:
            self.assertIn(warning, self.job(launcher, "0", CORES="64")[1])
            self.assertEqual(self.job(launcher, "0", CORES="64", SLURM_CPUS_PER_TASK="32")[1], "")
            self.assertEqual(self.job(launcher, "0", CORES="4")[1], "")


class Scaling(JobTest):
    def refused(self, expected: str, **environment: str) -> None:
        done = self.script("scaling.sbatch", CODE="0", **environment)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(expected, done.stdout)
        self.assertFalse((self.root / "calls").exists())

    def test_too_few_steps_are_refused(self) -> None:
        for steps in ("10", "-20", "many"):
            self.refused(f"SCALING_STEPS is '{steps}'; expected a number above 10", SCALING_STEPS=steps)

    def test_a_second_start_into_the_same_folder_is_refused(self) -> None:
        (self.root / "measured").mkdir()
        self.refused("measured is there already, and is not overwritten", SCALING_DIR="measured")


if __name__ == "__main__":
    main()
