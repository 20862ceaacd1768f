#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`model.init_from` and `model.freeze`: a run that starts from the weights of another one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import h5py
import numpy
from trainer_runs import CONFIG, Run, TrainerTest, arrays, main
from weights import read_safetensors, write_safetensors

SHORT = ("train.max_steps=16",)
# Another task: four classes instead of ten, so that the last layer does not fit.
TUNED = ("data.classes=4", "run.seed=5", "model.init_strict=false", "model.freeze=[layers.0.*]", "schedule.duration=4",
         "optimizer.lr=0.1", "data.flip=none", "data.crop_padding=0")
BODY = ("parameters/layers.0.weight", "parameters/layers.0.bias")


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


class FineTuning(TrainerTest):
    def test_trains_a_new_head_on_frozen_layers_of_another_run_and_resumes_bitwise(self) -> None:
        source = self.train("source", *SHORT)
        self.call("export", "runs/source", "body.safetensors")
        tuned = (*TUNED, "model.init_from=body.safetensors")
        done = self.call(self.config, "run.dir=runs/tuned", *tuned, ranks=2)
        self.assertIn(
            "weights start from body.safetensors: 2 arrays; not taken over:\n"
            "  layers.1.weight: model f32 [4, 64], file f32 [10, 64]\n"
            "  layers.1.bias: model f32 [4], file f32 [10]\n",
            done.stdout,
        )
        run = self.run_dir("tuned")
        before, after = arrays(source.latest()), arrays(run.latest())
        for name in BODY:
            self.assertEqual(after[name], before[name], name)
        self.assertEqual({name.rpartition("/")[2] for name in after if name.startswith("optimizer/")},
                         {"layers.1.weight", "layers.1.bias"})
        losses = [event["loss"] for event in run.events("step")]
        self.assertLess(sum(losses[-9:]) / 9, 0.85 * losses[0])  # of the last epoch

        cut = self.train("cut", *tuned, "train.max_steps=13", ranks=2)
        (self.root / "body.safetensors").unlink()  # it is read once
        self.call("resume", "runs/cut", "train.max_steps=0", ranks=2)
        self.assertEqual(arrays(cut.latest()), after)
        # The shorter run evaluated at its own end, too.
        steps = [event for event in cut.curve() if "split" not in event]
        self.assertEqual(steps, [event for event in run.curve() if "split" not in event])
        environment = json.loads((cut.path / "env.json").read_text())
        self.assertEqual(environment["init_from"]["path"], "body.safetensors")
        self.assertEqual(environment["init_from"]["arrays"], 2)
        self.assertRegex(environment["init_from"]["xxh3_128"], "^[0-9a-f]{32}$")
        with h5py.File(run.latest() / "model.h5") as file:
            stored = json.loads(file["state"][()])["environment"]["init_from"]
        self.assertEqual(stored, environment["init_from"])

    def test_starts_from_a_checkpoint_a_run_and_a_file_alike(self) -> None:
        source = self.train("source", *SHORT)
        best = (source.checkpoints / "best").resolve()
        self.assertNotEqual(best, source.latest())
        self.call("export", best, "best.safetensors")
        step = ("train.max_steps=2", "run.seed=9")
        starts = ("runs/source", best, "best.safetensors", "runs/source/checkpoints/best")
        runs = [self.train(f"run{i}", *step, f"model.init_from={start}") for i, start in enumerate(starts)]
        for run in runs[1:]:
            self.assert_same_run(run, runs[0])
        fresh = self.train("fresh", *step)
        newest = self.train("newest", *step, f"model.init_from={source.latest()}")
        losses = {run.path.name: run.events("step")[0]["loss"] for run in (runs[0], fresh, newest)}
        self.assertEqual(len(set(losses.values())), 3, losses)
        self.assertLess(losses["run0"], losses["fresh"])

    def test_from_its_own_weights_with_nothing_learned_gives_the_same_weights_again(self) -> None:
        source = self.train("source", *SHORT, "optimizer.weight_decay=0")
        run = self.train("run", "train.max_steps=1", "model.init_from=runs/source/checkpoints/latest",
                         "model.freeze=['layers.?.weight', layers.0.bias]", ranks=3)
        before, after = arrays(source.latest()), arrays(run.latest())
        same = [name for name in after if name.startswith("parameters/") and after[name] == before[name]]
        self.assertEqual(same, [*reversed(BODY), "parameters/layers.1.weight"])

    def test_that_does_not_fit_is_an_error_with_a_table(self) -> None:
        self.train("source", *SHORT)
        self.call("export", "runs/source", "w.safetensors")
        array = dict(read_safetensors(self.root / "w.safetensors"))
        array["extra"] = array.pop("layers.0.bias")
        array["layers.1.bias"] = array["layers.1.bias"].astype("<f8")
        array["layers.1.weight"] = array["layers.1.weight"][:, :63].copy()
        write_safetensors(self.root / "other.safetensors", array)
        rows = (
            "  layers.0.bias: model f32 [64], file none\n",
            "  layers.1.weight: model f32 [10, 64], file f32 [10, 63]\n",
            "  layers.1.bias: model f32 [10], file f64 [10]\n",
            "  extra: model none, file f32 [64]\n",
        )
        self.assert_error_once(
            self.call(self.config, "run.dir=runs/run", "model.init_from=other.safetensors", ranks=2, code=4),
            *rows, "other.safetensors does not fit the model",
        )
        self.assertFalse((self.root / "runs" / "run" / "config.yaml").exists())
        out = self.call("validate", self.config, "model.init_from=other.safetensors", "model.init_strict=false").stdout
        self.assertIn("2 arrays, 1 of them converted f64 -> f32; not taken over:\n" + rows[0] + rows[1] + rows[3], out)
        self.call("validate", self.config, "model.init_from=other.safetensors", code=4)
        self.call(self.config, "--dry-run", "model.init_from=other.safetensors", code=4)

    def test_from_which_nothing_fits_is_an_error_however_lax(self) -> None:
        write_safetensors(self.root / "w.safetensors", {"x": numpy.zeros(3, "<f4")})
        done = self.call(self.config, "run.dir=runs/run", "model.init_from=w.safetensors", "model.init_strict=false", code=4)
        self.assert_error_once(done, "nothing in w.safetensors fits", "x: model none, file f32 [3]")

    def test_from_damaged_missing_and_foreign_files_is_an_error(self) -> None:
        source = self.train("source", *SHORT)
        self.call("export", "runs/source", "w.safetensors")
        whole = (self.root / "w.safetensors").read_bytes()
        (self.root / "cut.safetensors").write_bytes(whole[:-1])
        (self.root / "text.safetensors").write_text("These are no tensors, but words.")
        damage(source.latest() / "model.h5")
        for path, words in (
            ("cut.safetensors", "cut.safetensors: tensor"),
            ("text.safetensors", "is no safetensors file"),
            ("none.safetensors", "model.init_from: none.safetensors does not exist"),
            (source.latest(), "model.h5 is damaged"),
            ("runs/nowhere", "model.init_from: runs/nowhere does not exist"),
            ("small.yaml", "model.init_from: small.yaml is no checkpoint and no run directory"),
        ):
            with self.subTest(path=path):
                done = self.call(self.config, "run.dir=runs/run", f"model.init_from={path}", ranks=2, code=4)
                self.assert_error_once(done, words)

    def test_from_pickles_is_an_error_that_says_how_to_make_a_file_that_is_read(self) -> None:
        (self.root / "here.bin").write_bytes(b"PK")
        for path, words in (("nope.pt", "nope.pt does not exist"),
                            ("dir/nope.pth", "dir/nope.pth does not exist"),
                            ("here.bin", "here.bin is no checkpoint and no run directory")):
            with self.subTest(path=path):
                done = self.call("validate", self.config, f"model.init_from={path}", code=4)
                made = str(Path(path).with_suffix(".safetensors"))
                self.assert_error_once(done, f"model.init_from: {words}; ", "pickles, which are not read",
                                       f"`trainer export RUN {made}`", f'torch.load("{path}"')
                [save] = re.findall(r"^  (safetensors\.torch\.save_file.*)$", done.stderr, re.M)
                self.assertTrue(save.endswith(f'"{made}")'), save)
        done = self.call("validate", self.config, "model.init_from=runs/nowhere", code=4)
        self.assertNotIn("pickle", done.stderr)

    def test_converts_halves_and_says_so(self) -> None:
        self.train("source", *SHORT)
        self.call("export", "runs/source", "w.safetensors")
        full = read_safetensors(self.root / "w.safetensors")
        halves = {name: array.astype("<f2") if "weight" in name else (array.view("<u4") >> 16).astype("<u2")
                  for name, array in full.items()}
        write_safetensors(self.root / "half.safetensors", halves, {n: "BF16" for n in halves if "bias" in n})
        done = self.call(self.config, "run.dir=runs/run", "model.init_from=half.safetensors", "train.max_steps=1",
                         "model.freeze=[layers.0.*, layers.1.weight]")
        self.assertIn("4 arrays, 2 of them converted bf16 -> f32, 2 of them converted f16 -> f32\n", done.stdout)
        found = arrays(self.run_dir("run").latest())
        for name in ("layers.0.weight", "layers.1.weight"):
            self.assertEqual(found["parameters/" + name][2], halves[name].astype("<f4").tobytes())
        bias = halves["layers.0.bias"].astype("<u4") << 16
        self.assertEqual(found["parameters/layers.0.bias"][2], bias.tobytes())


class Freezing(TrainerTest):
    def test_leaves_weights_as_they_are_and_buffers_counting(self) -> None:
        self.config.write_text(CONFIG.replace("name: mlp, hidden: [64], dropout: 0.2", "name: resnet18, stem: cifar"))
        first = self.train("first", "train.max_steps=1", "model.freeze=[conv1.*, bn1.*]")
        run: Run = self.train("run", "train.max_steps=3", "model.freeze=[conv1.*, bn1.*]", "schedule.name=constant")
        before, after = arrays(first.latest()), arrays(run.latest())
        for name in ("conv1.weight", "bn1.weight", "bn1.bias"):
            self.assertEqual(after["parameters/" + name], before["parameters/" + name], name)
            self.assertNotIn("optimizer/exp_avg/" + name, after)
        self.assertNotEqual(after["parameters/fc.weight"], before["parameters/fc.weight"])
        self.assertNotEqual(after["buffers/bn1.running_mean"], before["buffers/bn1.running_mean"])
        self.assertEqual(numpy.frombuffer(after["buffers/bn1.num_batches_tracked"][2], "<i8").tolist(), [3 * 4])

    def test_what_is_not_there_is_an_error_with_suggestions(self) -> None:
        done = self.call(self.config, "model.freeze=[layer.0.*, layers.1.weihgt]", code=2)
        self.assert_error_once(done, "model.freeze: 'layer.0.*' matches no parameter of the model; did you mean 'layers.0.*'",
                               "model.freeze: 'layers.1.weihgt' matches no parameter")
        self.assertIn("'layers.1.weight'", done.stderr)

    def test_everything_is_an_error(self) -> None:
        self.assert_error_once(self.call(self.config, "model.freeze=['*']", ranks=2, code=2),
                               "has no parameter left to train: check model.freeze")

    def test_another_set_of_layers_on_resume_is_refused(self) -> None:
        self.train("run", *SHORT, "model.freeze=[layers.0.*]")
        self.assert_error_once(self.call("resume", "runs/run", "model.freeze=[]", code=2), 'model.freeze: ["layers.0.*"] -> []')


if __name__ == "__main__":
    main()
