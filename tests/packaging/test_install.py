#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An own trainer, built outside the tree from an installed copy, learns, is saved and resumed.

The copy is moved before it is used: a path of the build or of the first installation would show.
"""
import argparse
import csv
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Runs a command to its end; on failure shows its output and ends this test."""
    print("+", *command, flush=True)
    done = subprocess.run([str(word) for word in command], cwd=cwd, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nexit code {done.returncode}; expected 0")
    return done.stdout


def training_losses(run_dir: Path) -> list[tuple[int, float]]:
    """(step, loss) of each training step in metrics.csv, in the order of its lines."""
    with open(run_dir / "metrics.csv", newline="") as file:
        return [(int(row["step"]), float(row["loss"])) for row in csv.DictReader(file)]


def expect(condition: bool, message: str) -> None:
    if not condition:
        sys.exit(message)


def install_and_move(build_dir: Path, work: Path) -> Path:
    run("cmake", "--install", build_dir, "--prefix", work / "first")
    shutil.move(work / "first", work / "moved")
    return work / "moved"


def build_example(example: Path, prefix: Path, launcher: str, work: Path) -> Path:
    shutil.copytree(example, work / "example")
    run("cmake", "-S", work / "example", "-B", work / "build", "-G", "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
    run("cmake", "--build", work / "build")
    return work / "build" / "own_trainer"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build-dir", type=Path, required=True, help="a finished build of Trireme")
    parser.add_argument("--example", type=Path, required=True)
    parser.add_argument("--launcher", default="", help="CMAKE_CXX_COMPILER_LAUNCHER")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        prefix = install_and_move(arguments.build_dir, work)
        expect("trireme 0.1" in run(prefix / "bin" / "trainer", "--version"),
               "the installed trainer does not say its version")
        trainer = build_example(arguments.example, prefix, arguments.launcher, work)

        home = work / "example"
        run(trainer, "config.yaml", cwd=home)
        losses = training_losses(home / "runs" / "own")
        expect([step for step, _ in losses] == list(range(1, 65)),
               f"expected steps 1 to 64: {losses}")
        first, last = losses[0][1], sum(loss for _, loss in losses[-8:]) / 8
        expect(last < first / 2, f"the loss went from {first} to {last}; expected less than half")

        expect((home / "runs/own/checkpoints/latest").resolve().name == "step-00000064",
               "the last step has no checkpoint")
        expect("test after step 64" in run(trainer, "eval", "runs/own", cwd=home),
               "eval did not take the checkpoint of the last step")
        for name in ("own_model", "own_points", "own_huber", "own_absolute_error"):
            expect(f'"{name}"' in run(trainer, "schema"), f"the schema does not know {name}")

        run(trainer, "resume", "runs/own", "train.epochs=6", cwd=home)
        losses = training_losses(home / "runs" / "own")
        expect([step for step, _ in losses] == list(range(1, 97)),
               f"expected steps 1 to 96 after the resumption, each once: {losses}")


if __name__ == "__main__":
    main()
