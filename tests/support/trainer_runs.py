# SPDX-License-Identifier: Apache-2.0
"""What the tests of the whole program share: starting the trainer, alone or under mpirun, watching
it, hurting it, and comparing runs. A test script ends with `main()` and is called as

    PYTHONPATH=tests/support python3 tests/fault/test_X.py --trainer build/.../trainer [unittest's]

The Python has to have h5py, as apt's has (third_party/apt-test.txt).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid
from pathlib import Path
from typing import Any, Callable

import h5py

# Every rank gets samples of uneven number, several micro-batches, random augmentation and dropout.
CONFIG = """\
run: {seed: 3}
model: {name: mlp, hidden: [64], dropout: 0.2}
data: {name: synthetic, samples: 300, shape: [3, 8, 8], flip: random, crop_padding: 1,
       validation_fraction: 0.1}
optimizer: {name: adamw, lr: 0.001}
schedule: {name: cosine}
train: {epochs: 4, global_batch: 31, micro_batch: 8}   # 9 steps an epoch
checkpoint: {every_steps: 7, keep: 3}
"""
STEPS_PER_EPOCH = 9
PATIENCE_SECONDS = 120  # for anything that has to happen; generous, for loaded machines
MARK = "TRIREME_TEST_MARK"  # in the environment of all processes of one test
JOB_SCRIPT = Path(__file__).resolve().parents[2] / "slurm" / "job.sh"
MEASURED = ("step", "epoch", "loss", "accuracy", "lr", "grad_norm", "samples",
            "sample_hash", "split")


def wait_until(happened: Callable[[], Any], what: str) -> Any:
    """Looks until `happened` gives something true, and returns that."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not (result := happened()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {PATIENCE_SECONDS} s: {what}")
        time.sleep(0.001)
    return result


class Run:
    """A run directory, read as a user would."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Of metrics.jsonl. A last line that is just being written is left out."""
        try:
            lines = (self.path / "metrics.jsonl").read_text().split("\n")[:-1]
        except FileNotFoundError:
            return []
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def last_step(self) -> int:
        return self.events("step")[-1]["step"] if self.events("step") else 0

    def curve(self) -> list[dict[str, Any]]:
        """All that was measured, without times and places."""
        measured = self.events("step") + self.events("eval")
        return [{k: e[k] for k in MEASURED if k in e} for e in measured]

    def table(self) -> list[dict[str, str]]:
        with (self.path / "metrics.csv").open() as file:
            return [
                {k: row[k] for k in MEASURED if k in row} for row in csv.DictReader(file)
            ]

    def state(self) -> dict[str, Any]:
        return json.loads((self.path / "state.json").read_text())

    def latest(self) -> Path:
        return (self.checkpoints / "latest").resolve()

    def steps(self) -> list[int]:
        """Of the committed checkpoints."""
        return sorted(int(path.name[5:]) for path in self.checkpoints.glob("step-*"))


def arrays(checkpoint: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Name -> type, shape and bytes of parameters, buffers and optimizer state."""
    found: dict[str, tuple[str, tuple[int, ...], bytes]] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and "/" in name:  # not the step and the state
            found[name] = (str(item.dtype), item.shape, item[()].tobytes())

    with h5py.File(checkpoint / "model.h5", "r") as file:
        file.visititems(visit)
    return found


def processes(mark: str) -> dict[int, dict[str, str]]:
    """Process id -> environment of all living processes that a test started."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "environ").read_bytes().decode(errors="replace")
            if f"{MARK}={mark}" in text and "zombie" not in (folder / "status").read_text():
                found[int(folder.name)] = dict(
                    entry.split("=", 1) for entry in text.split("\0") if "=" in entry
                )
        except (OSError, ValueError):
            continue  # it has just ended, or is another user's
    return found


def catches(pid: int, *numbers: signal.Signals) -> bool:
    """Whether a living process has handlers of these signals."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = int(next(line for line in lines if line.startswith("SigCgt")).split()[1], 16)
    return all(caught & 1 << (number - 1) for number in numbers)


class Job:
    """A trainer that is running, under mpirun where it has ranks."""

    def __init__(self, process: subprocess.Popen[str], mark: str) -> None:
        self.process = process
        self.mark = mark

    def rank(self, rank: int) -> int:
        """The process id of a rank."""

        def look() -> int:
            for pid, environment in processes(self.mark).items():
                if environment.get("OMPI_COMM_WORLD_RANK") == str(rank):
                    return pid
            return 0

        return wait_until(look, f"rank {rank} runs")

    def finish(self) -> subprocess.CompletedProcess[str]:
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        return subprocess.CompletedProcess(self.process.args, self.process.returncode, out, err)


class TrainerTest(unittest.TestCase):
    trainer = Path()
    mpirun = ""
    torch_python = ""  # a Python with torch and safetensors; empty: there is none

    def setUp(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="trireme-test-"))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.mark = uuid.uuid4().hex
        self.jobs: list[Job] = []
        self.addCleanup(self.end_all)
        self.config = self.root / "small.yaml"
        self.config.write_text(CONFIG)

    def end_all(self) -> None:
        for pid in processes(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for job in self.jobs:
            job.process.communicate()

    def run_dir(self, name: str) -> Run:
        return Run(self.root / "runs" / name)

    def environment(self, **more: str) -> dict[str, str]:
        return {
            **os.environ,
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMP_NUM_THREADS": "1",
            MARK: self.mark,
            **more,
        }

    def start(self, *arguments: object, ranks: int = 0) -> Job:
        """ranks: 0 starts the trainer by itself. Paths are relative to self.root."""
        launcher = [self.mpirun, "--oversubscribe", "-np", str(ranks)] if ranks else []
        return self.start_command([*launcher, self.trainer, *arguments])

    def start_command(self, command: list[object], **environment: str) -> Job:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=self.root,
            env=self.environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.jobs.append(Job(process, self.mark))
        return self.jobs[-1]

    def start_by_script(self, *arguments: object, ranks: int = 2) -> Job:
        """A training under slurm/job.sh, as the batch scripts start it. Returns when that takes signals."""
        body = f'source "{JOB_SCRIPT}"; run_training "$@"'
        words = [self.mpirun, "--oversubscribe", "-np", ranks, self.trainer, self.config, *arguments]
        job = self.start_command(["bash", "-c", body, "job", *words], TMPDIR=str(self.root))
        wait_until(lambda: catches(job.process.pid, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM),
                   "the script takes signals")
        return job

    def finish(self, job: Job, code: int) -> subprocess.CompletedProcess[str]:
        """Waits for the end, and that nothing is left running."""
        done = job.finish()
        self.assertEqual(done.returncode, code, f"{done.args}\n{done.stdout}\n{done.stderr}")
        wait_until(lambda: not processes(self.mark), "all processes of the job have ended")
        return done

    def call(
        self, *arguments: object, ranks: int = 0, code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        return self.finish(self.start(*arguments, ranks=ranks), code)

    def train(self, name: str, *overrides: str, ranks: int = 0) -> Run:
        """A run that nobody disturbs."""
        self.call(self.config, f"run.dir=runs/{name}", *overrides, ranks=ranks)
        return self.run_dir(name)

    def wait_for_step(self, run: Run, step: int) -> None:
        wait_until(lambda: run.last_step() >= step, f"step {step} is logged")

    def assert_error_once(self, done: subprocess.CompletedProcess[str], *parts: str) -> None:
        """One error message, by one rank, with these parts; on stderr."""
        self.assertEqual(done.stderr.count("trireme: error"), 1, done.stderr)
        self.assertNotIn("trireme: error", done.stdout)
        for part in parts:
            self.assertEqual(done.stderr.count(part), 1, f"{part!r} in\n{done.stderr}")

    def assert_same_run(self, run: Run, undisturbed: Run) -> None:
        """Bitwise the same parameters, optimizer and curve, each step logged once and in order."""
        self.assert_same_arrays(run, undisturbed)
        self.assert_same_curve(run, undisturbed)

    def assert_same_arrays(self, run: Run, undisturbed: Run) -> None:
        self.assertEqual(run.latest().name, undisturbed.latest().name)
        found, expected = arrays(run.latest()), arrays(undisturbed.latest())
        self.assertTrue(any(name.startswith("optimizer/") for name in expected))
        self.assertEqual(sorted(found), sorted(expected))
        self.assertEqual([n for n in expected if found[n] != expected[n]], [], "these differ")

    def assert_same_curve(self, run: Run, undisturbed: Run) -> None:
        logged = [event["step"] for event in run.events("step")]
        self.assertEqual(logged, list(range(1, undisturbed.last_step() + 1)))
        self.assertEqual(run.curve(), undisturbed.curve())
        self.assertEqual(run.table(), undisturbed.table())


def main() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--trainer", type=Path, required=True)
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--torch-python", default="")
    ours, others = parser.parse_known_args()
    TrainerTest.trainer, TrainerTest.mpirun = ours.trainer.resolve(), ours.mpirun
    TrainerTest.torch_python = ours.torch_python
    unittest.main(argv=[sys.argv[0], *others])
