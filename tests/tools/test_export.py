#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`trainer export`: other programs read what it writes. With --torch-python, a Python that has torch and safetensors,
these packages read it, too, and a model of PyTorch has the trainer's loss."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy
from trainer_runs import CONFIG, Run, TrainerTest, arrays, main
from weights import read_safetensors, read_torch_file, safetensors_header

EXAMPLES = Path(__file__).resolve().parents[2] / "scripts" / "examples"
SHORT = ("train.max_steps=16",)


def weights(checkpoint: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Parameters and buffers under the model's names."""
    return {name.partition("/")[2]: array for name, array in arrays(checkpoint).items()
            if name.startswith(("parameters/", "buffers/"))}


def described(found: dict[str, numpy.ndarray]) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {name: (str(array.dtype), array.shape, array.tobytes()) for name, array in found.items()}


class Export(TrainerTest):
    def train_resnet18(self) -> Run:
        """A model with buffers, of floating and of whole numbers."""
        self.config.write_text(CONFIG.replace("name: mlp, hidden: [64], dropout: 0.2", "name: resnet18, stem: cifar"))
        return self.train("run", "train.max_steps=3")

    def test_to_safetensors_holds_parameters_and_buffers_bit_for_bit(self) -> None:
        run = self.train_resnet18()
        out = self.root / "w.safetensors"
        done = self.call("export", "runs/run", out)
        self.assertIn("checkpoints/step-00000003 -> ", done.stdout)
        expected = weights(run.latest())
        self.assertEqual(described(read_safetensors(out)), expected)
        self.assertIn(("int64", ()), {array[:2] for array in expected.values()})
        header, begin = safetensors_header(out)
        self.assertEqual(header.pop("__metadata__"), {"format": "pt", "model": "resnet18", "step": "3"})
        for name, entry in header.items():
            size = {"F32": 4, "I64": 8}[entry["dtype"]]
            self.assertEqual((begin + entry["data_offsets"][0]) % size, 0, name)
        again = self.root / "again.safetensors"
        self.call("export", "runs/run", again)
        self.assertEqual(out.read_bytes(), again.read_bytes())

    def test_to_pt_holds_parameters_and_buffers_bit_for_bit(self) -> None:
        run = self.train_resnet18()
        self.call("export", run.latest(), self.root / "w.pt")
        self.assertEqual(described(read_torch_file(self.root / "w.pt")), weights(run.latest()))

    def test_in_double_precision(self) -> None:
        run = self.train("run", *SHORT, "train.precision=fp64")
        for name, read in (("w.safetensors", read_safetensors), ("w.pt", read_torch_file)):
            self.call("export", "runs/run", name)
            self.assertEqual(described(read(self.root / name)), weights(run.latest()))

    def test_takes_the_best_checkpoint_where_it_is_told_to(self) -> None:
        run = self.train("run", *SHORT)
        best = (run.checkpoints / "best").resolve()
        self.assertNotEqual(best, run.latest())
        self.call("export", "runs/run", "best.pt", "--best")
        self.assertEqual(described(read_torch_file(self.root / "best.pt")), weights(best))
        self.call("export", best, "w.safetensors")
        self.assertEqual(described(read_safetensors(self.root / "w.safetensors")), weights(best))
        self.train("none", *SHORT, "data.validation_fraction=0")
        self.assert_error_once(self.call("export", "runs/none", "n.pt", "--best", code=4), "no best checkpoint")

    def test_replaces_a_file_only_where_it_is_told_to(self) -> None:
        self.train("run", *SHORT)
        for name in ("w.pt", "w.safetensors"):
            out = self.root / name
            out.write_text("mine")
            self.assert_error_once(self.call("export", "runs/run", name, code=4), f"{name} exists already")
            self.assertEqual(out.read_text(), "mine")
            self.call("export", "runs/run", name, "--force")
            self.assertNotEqual(out.read_bytes(), b"mine")

    def test_refuses_other_names_and_damaged_checkpoints_and_leaves_nothing_behind(self) -> None:
        run = self.train("run", *SHORT)
        before = sorted(self.root.iterdir())
        for name in ("w", "w.h5", "safetensors"):
            self.assert_error_once(self.call("export", "runs/run", name, code=2), "expected a name that ends in .safetensors")
        self.assert_error_once(self.call("export", "runs/run", "missing/w.pt", code=4), "missing/")
        model = run.latest() / "model.h5"
        content = bytearray(model.read_bytes())
        content[len(content) // 2] ^= 1
        model.write_bytes(content)
        for name in ("w.pt", "w.safetensors"):
            self.assert_error_once(self.call("export", run.latest(), name, code=4), "model.h5 is damaged")
        self.assertEqual(sorted(self.root.iterdir()), before)

    def test_on_a_full_disk_is_an_error_and_leaves_nothing_behind(self) -> None:
        self.train("run", *SHORT)
        before = sorted(self.root.iterdir())
        for name in ("w.pt", "w.safetensors"):
            job = self.start_command(["bash", "-c", f"ulimit -f 4; exec {self.trainer} export runs/run {name}"])
            self.assert_error_once(self.finish(job, 4), "File too large (errno 27)")
        self.assertEqual(sorted(self.root.iterdir()), before)

    def test_under_mpirun_writes_once(self) -> None:
        run = self.train("run", *SHORT)
        done = self.call("export", "runs/run", "w.pt", ranks=2)
        self.assertEqual(done.stdout.count(" -> w.pt: "), 1)
        self.assertEqual(described(read_torch_file(self.root / "w.pt")), weights(run.latest()))


def write_idx(path: Path, values: numpy.ndarray) -> None:
    shape = b"".join(extent.to_bytes(4, "big") for extent in values.shape)
    path.write_bytes(bytes([0, 0, 8, values.ndim]) + shape + values.tobytes())


class Examples(TrainerTest):
    def setUp(self) -> None:
        super().setUp()
        if not self.torch_python:
            self.skipTest("no Python with torch and safetensors: configure with -DTRIREME_TORCH_PYTHON=PATH")

    def run_example(self, name: str, *arguments: object) -> str:
        command = [self.torch_python, EXAMPLES / name, *arguments]
        done = subprocess.run([str(word) for word in command], cwd=self.root, env=self.environment(), text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_package_safetensors_reads_the_export(self) -> None:
        run = self.train("run", *SHORT)
        self.call("export", "runs/run", "w.safetensors")
        lines = self.run_example("load_safetensors.py", "w.safetensors").splitlines()
        self.assertEqual(lines[:3], ["format: pt", "model: mlp", "step: 16"])
        self.assertEqual(
            [line.split("  mean ")[0] for line in lines[3:]],
            [f"{name}  {kind}  {list(shape)}" for name, (kind, shape, _) in sorted(weights(run.latest()).items())],
        )

    def test_a_model_of_pytorch_has_the_loss_and_accuracy_of_the_trainer(self) -> None:
        random = numpy.random.default_rng(1)
        data = self.root / "data"
        data.mkdir()
        patterns = random.integers(0, 200, (10, 8, 8))
        for split, count in (("train", 96), ("t10k", 64)):
            labels = random.integers(0, 10, count, dtype=numpy.uint8)
            images = patterns[labels] + random.integers(0, 50, (count, 8, 8))
            write_idx(data / f"{split}-images-idx3-ubyte", images.astype(numpy.uint8))
            write_idx(data / f"{split}-labels-idx1-ubyte", labels)
        self.config.write_text("""\
model: {name: resnet18, stem: cifar}
data: {name: idx, path: data}
optimizer: {name: adamw, lr: 0.001}
train: {max_steps: 50, global_batch: 32}
""")
        run: Run = self.train("run")
        self.call("export", "runs/run", "w.pt")
        text = self.run_example("evaluate_resnet18.py", "w.pt", data / "t10k-images-idx3-ubyte",
                                data / "t10k-labels-idx1-ubyte")
        [loss] = re.findall(r"^loss (.*)$", text, re.M)
        [accuracy] = re.findall(r"^accuracy (.*)$", text, re.M)
        trained = run.events("eval")[-1]
        self.assertEqual(trained["split"], "test")
        self.assertAlmostEqual(float(loss), trained["loss"], delta=1e-4 * trained["loss"])
        self.assertAlmostEqual(float(accuracy), trained["accuracy"], delta=1e-6)
        self.assertGreater(trained["accuracy"], 0.5)  # it has learned: weights matter


if __name__ == "__main__":
    main()
