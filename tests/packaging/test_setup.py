#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/setup in a checkout of its own, without a network: a tiny wheel stands for LibTorch."""
import hashlib
import os
import shutil
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]


def make_wheel(folder: Path) -> str:
    """A wheel with the files that setup looks for; returns its line for a requirements list."""
    path = folder / "fake_torch-1.0-py3-none-any.whl"
    info = "fake_torch-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("torch/lib/libtorch_cpu.so", "not a library")
        wheel.writestr("torch/include/ATen/Tensor.h", "")
        wheel.writestr(f"{info}/METADATA",
                       "Metadata-Version: 2.1\nName: fake-torch\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL",
                       "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return f"fake-torch==1.0 --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


class SetupTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "check out"  # a space, as users have them
        self.wheels = Path(folder.name) / "wheels"
        self.wheels.mkdir()
        shutil.copytree(SOURCE / "scripts", self.root / "scripts")
        self.lists = self.root / "third_party"
        self.lists.mkdir()
        for name in ("apt.txt", "apt-test.txt"):
            (self.lists / name).write_text("# present everywhere\nbash\n")
        self.requirement = make_wheel(self.wheels)
        for name in ("requirements-cpu.txt", "requirements-cuda.txt"):
            (self.lists / name).write_text(self.requirement)
        self.home = self.lists / "installed" / "libtorch"

    def setup_script(self, *options: str) -> "subprocess.CompletedProcess[str]":
        # PIP_NO_CACHE_DIR: what an earlier test installed must not help this one.
        pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), "PIP_NO_CACHE_DIR": "1"}
        return subprocess.run([str(self.root / "scripts" / "setup"), *options],
                              env=os.environ | pip, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)

    def assert_installed(self, done: "subprocess.CompletedProcess[str]", home: Path) -> None:
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual((home / "torch/lib/libtorch_cpu.so").read_text(), "not a library")

    def test_installs_once_and_then_needs_no_wheel(self) -> None:
        self.assert_installed(self.setup_script(), self.home)
        shutil.rmtree(self.wheels)
        again = self.setup_script("--tests")
        self.assert_installed(again, self.home)
        self.assertEqual(again.stdout, "")

    def test_replaces_a_folder_that_was_not_finished(self) -> None:
        library = self.home / "torch/lib/libtorch_cpu.so"
        library.parent.mkdir(parents=True)
        library.write_text("half")
        self.assert_installed(self.setup_script(), self.home)

    def test_takes_up_a_finished_folder_that_was_not_renamed(self) -> None:
        self.assert_installed(self.setup_script(), self.home)
        self.home.rename(self.home.with_name("libtorch.partial"))
        shutil.rmtree(self.wheels)
        self.assert_installed(self.setup_script(), self.home)

    def test_installs_anew_when_the_list_changes(self) -> None:
        self.assert_installed(self.setup_script(), self.home)
        (self.home / "torch/lib/libtorch_cpu.so").write_text("of the old list")
        (self.lists / "requirements-cpu.txt").write_text("# another version\n" + self.requirement)
        self.assert_installed(self.setup_script(), self.home)

    def test_does_without_a_package_that_only_other_systems_have(self) -> None:
        (self.lists / "apt-test.txt").write_text("bash\nno-system-has-this-package?\n")
        self.assert_installed(self.setup_script(), self.home)
        done = self.setup_script("--tests")
        self.assert_installed(done, self.home)
        self.assertEqual(done.stdout, "")

    def test_refuses_a_wheel_with_another_hash(self) -> None:
        wrong = f"fake-torch==1.0 --hash=sha256:{'0' * 64}\n"
        (self.lists / "requirements-cpu.txt").write_text(wrong)
        done = self.setup_script()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("DO NOT MATCH THE HASHES", done.stdout)
        self.assertFalse(self.home.exists())

    def test_puts_cuda_beside_it(self) -> None:
        done = self.setup_script("--cuda")
        self.assert_installed(done, self.home.with_name("libtorch-cuda"))
        self.assertFalse(self.home.exists())

    def test_takes_an_own_libtorch_and_installs_none(self) -> None:
        self.assert_installed(self.setup_script(), self.home)
        own = self.root / "own"
        self.home.rename(own)
        done = self.setup_script("--torch", str(own / "torch"))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertFalse(self.home.exists())

    def test_says_what_an_own_libtorch_lacks(self) -> None:
        done = self.setup_script("--torch", str(self.root))
        self.assertEqual(done.returncode, 1)
        self.assertIn("Expected: lib/libtorch_cpu.so and include/ATen", done.stdout)

    def test_unknown_options_show_the_usage(self) -> None:
        for script in ("setup", "quickstart", "test", "fuzz"):
            done = subprocess.run([str(self.root / "scripts" / script), "--nonsense"],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"usage: scripts/{script}", done.stderr)


if __name__ == "__main__":
    unittest.main()
