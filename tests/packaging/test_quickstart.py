#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What scripts/quickstart says and returns, with stand-ins for setup, build and training."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]

# Stands for mpirun and the trainer: writes what TEST_RUN says, and shows its arguments.
MPIRUN = """#!/usr/bin/python3
import json, os, sys
from pathlib import Path
run = json.loads(os.environ["TEST_RUN"])
print("mpirun", *sys.argv[1:])
name = next(word for word in sys.argv if word.startswith("run.name=")).partition("=")[2]
folder = Path("runs") / name
folder.mkdir(parents=True)
folder.joinpath("state.json").write_text(json.dumps({"status": run["status"]}, indent=2))
events = [{"event": "eval", "split": "test", "accuracy": value} for value in run["accuracies"]]
folder.joinpath("metrics.jsonl").write_text("".join(json.dumps(e) + "\\n" for e in events))
sys.exit(run["code"])
"""


class QuickstartTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "checkout"
        shutil.copytree(SOURCE / "scripts", self.root / "scripts")
        self.stand_in(self.root / "scripts" / "setup", "#!/bin/sh\n")
        self.programs = Path(folder.name) / "bin"
        self.programs.mkdir()
        self.stand_in(self.programs / "cmake", "#!/bin/sh\n")
        self.stand_in(self.programs / "mpirun", MPIRUN)

    @staticmethod
    def stand_in(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def quickstart(self, *words: str, accuracies: tuple[float, ...] = (0.915,),
                   status: str = "finished", code: int = 0) -> "subprocess.CompletedProcess[str]":
        run = json.dumps({"accuracies": accuracies, "status": status, "code": code})
        environment = os.environ | {"PATH": f"{self.programs}:{os.environ['PATH']}", "TEST_RUN": run}
        return subprocess.run([str(self.root / "scripts" / "quickstart"), *words], env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)

    def test_shows_the_last_accuracy_and_how_to_go_on(self) -> None:
        done = self.quickstart(accuracies=(0.85, 0.9188))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("Test accuracy: 91.88 %", done.stdout)
        self.assertRegex(done.stdout, r"mpirun -np 2.* build/cpu-release/trainer resume runs/quickstart")

    def test_fails_below_what_it_promises(self) -> None:
        done = self.quickstart(accuracies=(0.9099,))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("test accuracy is 90.99 %; expected at least 91.0 %", done.stdout)
        self.assertEqual(self.quickstart(accuracies=(0.005,)).returncode, 1)

    def test_promises_nothing_for_other_settings(self) -> None:
        done = self.quickstart("train.epochs=1", accuracies=(0.85,))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("run.name=quickstart train.epochs=1", done.stdout)

    def test_each_run_gets_a_name_of_its_own(self) -> None:
        self.quickstart()
        self.assertIn("run.name=quickstart-2", self.quickstart().stdout)
        done = self.quickstart("run.name=other")
        self.assertEqual(done.returncode, 1)
        self.assertIn("quickstart names its runs itself", done.stdout)

    def test_a_stopped_run_can_go_on_whatever_mpirun_returns(self) -> None:
        for code in (75, 1):
            done = self.quickstart(accuracies=(), status="stopped", code=code)
            self.assertEqual(done.returncode, 75, done.stdout)
            self.assertRegex(done.stdout, "Stopped on request. To go on: .* resume runs/quickstart")

    def test_hands_on_the_code_of_a_failed_training(self) -> None:
        done = self.quickstart(accuracies=(), status="failed", code=5)
        self.assertEqual(done.returncode, 5, done.stdout)
        self.assertIn("training ended with exit code 5", done.stdout)


if __name__ == "__main__":
    unittest.main()
