#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`trainer ckpt ls|show|verify|diff`: what they say of good, damaged and differing checkpoints."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import h5py
import numpy
from trainer_runs import Run, TrainerTest, arrays, main

SHORT = ("train.max_steps=16",)  # checkpoints after steps 9 (best), 14 and 16


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


class Ls(TrainerTest):
    def test_lists_each_checkpoint_with_step_size_time_and_marks(self) -> None:
        run = self.train("run", *SHORT)
        listing = self.call("ckpt", "ls", "runs/run").stdout
        lines = listing.splitlines()
        self.assertEqual(lines[0].split(), ["checkpoint", "step", "size", "written", "marks"])
        self.assertEqual([int(line.split()[1]) for line in lines[1:]], run.steps())
        best = (run.checkpoints / "best").resolve().name
        for line in lines[1:]:
            name = line.split()[0]
            self.assertRegex(line, r" \d+(\.\d+)? [kM]B +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
            self.assertEqual("latest" in line, name == run.latest().name)
            self.assertEqual("best" in line, name == best)
        self.assertEqual(self.call("ckpt", "ls", run.checkpoints).stdout, listing)

    def test_with_verify_marks_the_damaged_one_and_ends_with_4(self) -> None:
        run = self.train("run", *SHORT)
        self.assertEqual(
            self.call("ckpt", "ls", "runs/run", "--verify").stdout.count(" ok "), len(run.steps())
        )
        damage(run.latest() / "model.h5")
        done = self.call("ckpt", "ls", "runs/run", "--verify", code=4)
        [line] = [line for line in done.stdout.splitlines() if "DAMAGED" in line]
        self.assertIn(run.latest().name, line)
        self.assertIn("model.h5 is damaged: its XXH3-128 is", done.stdout)
        self.call("ckpt", "ls", "runs/run")  # hashes nothing

    def test_of_a_run_without_checkpoints_says_so_and_of_no_run_is_an_error(self) -> None:
        folder = self.root / "runs" / "early" / "checkpoints"
        folder.mkdir(parents=True)
        self.assertIn("no checkpoint yet", self.call("ckpt", "ls", "runs/early").stdout)
        no_run = "is no checkpoint and no run directory"
        for path, words in (("nowhere", "does not exist"), ("small.yaml", no_run), ("runs", no_run)):
            self.assert_error_once(self.call("ckpt", "ls", path, code=4), f"{path} {words}")


class Show(TrainerTest):
    def test_prints_what_the_checkpoint_holds(self) -> None:
        run = self.train("run", *SHORT, ranks=2)
        text = self.call("ckpt", "show", run.latest()).stdout
        with h5py.File(run.latest() / "model.h5") as file:
            state = json.loads(file["state"][()])
        self.assertRegex(text, r"step +16\n")
        self.assertIn("2 ranks on 1 node", text)
        self.assertIn(f"after step {state['best_step']}", text)
        self.assertRegex(text, r"parameters +4 arrays, ")
        self.assertRegex(text, r"optimizer +8 arrays, ")
        self.assertIn("name: adamw", text)
        environment = json.loads(text.split("\nenvironment\n")[1])
        self.assertEqual(environment, state["environment"])
        self.assertNotIn("layers.0.weight", text)
        # A run directory means its newest; a link is followed.
        self.assertEqual(text.splitlines()[1:], self.call("ckpt", "show", "runs/run").stdout.splitlines()[1:])
        best = self.call("ckpt", "show", run.checkpoints / "best").stdout
        self.assertRegex(best, rf"step +{state['best_step']}\n")

    def test_with_arrays_lists_each_with_type_shape_and_bytes(self) -> None:
        run = self.train("run", *SHORT)
        text = self.call("ckpt", "show", "runs/run", "--arrays").stdout
        found = {
            name: (kind, json.loads(shape), int(size))
            for name, kind, shape, size in re.findall(
                r"^  (\S+/\S+) +(\w+) (\[.*\]) +(\d+) bytes$", text, re.M
            )
        }
        kinds = {"float32": "f32", "int64": "i64"}
        self.assertEqual(
            found,
            {
                name: (kinds[kind], list(shape), len(data))
                for name, (kind, shape, data) in arrays(run.latest()).items()
            },
        )

    def test_of_a_damaged_checkpoint_is_an_error(self) -> None:
        run = self.train("run", *SHORT)
        damage(run.latest() / "manifest.json")
        self.assert_error_once(self.call("ckpt", "show", run.latest(), code=4), "manifest.json")


class Verify(TrainerTest):
    def test_names_each_checkpoint_and_changes_nothing(self) -> None:
        run = self.train("run", *SHORT)
        before = contents(run.path)
        done = self.call("ckpt", "verify", "runs/run")
        for step in run.steps():
            self.assertIn(f"step-{step:08}: ok, ", done.stdout)
        self.assertEqual(self.call("ckpt", "verify", run.latest()).stdout.count(": ok, "), 1)
        self.assertEqual(contents(run.path), before)

    def test_finds_each_kind_of_damage_and_goes_on_to_the_others(self) -> None:
        run = self.train("run", *SHORT)
        latest, kept = run.latest(), self.root / "kept"
        shutil.copytree(latest, kept)
        others = len(run.steps()) - 1

        def cut(path: Path) -> None:
            path.write_bytes(path.read_bytes()[:-1])

        for name, hurt, word in (
            ("model.h5", damage, "XXH3-128"),
            ("model.h5", cut, "bytes"),
            ("model.h5", Path.unlink, "model.h5"),
            ("manifest.json", damage, "manifest.json"),
            ("manifest.json", Path.unlink, "manifest.json"),
        ):
            with self.subTest(name=name, hurt=hurt.__name__):
                hurt(latest / name)
                done = self.call("ckpt", "verify", "runs/run", code=4)
                self.assertEqual(done.stdout.count(": ok, "), others)
                [line] = [l for l in done.stdout.splitlines() if l.startswith("DAMAGED: ")]
                self.assertIn(str(Path("checkpoints") / latest.name), line)
                self.assertIn(word, line)
                self.assert_error_once(done, "1 problem in runs/run")
                self.assert_error_once(self.call("ckpt", "verify", latest, code=4))
            shutil.rmtree(latest)
            shutil.copytree(kept, latest)
        self.call("ckpt", "verify", "runs/run")

    def test_finds_a_link_that_leads_nowhere(self) -> None:
        run = self.train("run", *SHORT)
        shutil.rmtree(run.latest())
        done = self.call("ckpt", "verify", "runs/run", code=4)
        self.assertIn("checkpoints/latest leads to step-00000016, which is not there", done.stdout)

    def test_under_mpirun_one_rank_speaks_and_all_end_with_its_code(self) -> None:
        run = self.train("run", *SHORT)
        done = self.call("ckpt", "verify", "runs/run", ranks=2)
        self.assertEqual(done.stdout.count(": ok, "), len(run.steps()))
        damage(run.latest() / "model.h5")
        self.assert_error_once(self.call("ckpt", "verify", "runs/run", ranks=2, code=4), "1 problem")


class Diff(TrainerTest):
    def test_of_a_run_and_its_repetition_is_equal(self) -> None:
        self.train("a", *SHORT)
        self.train("b", *SHORT)
        done = self.call("ckpt", "diff", "runs/a", "runs/b")
        self.assertIn("arrays and training state are equal", done.stdout)
        self.assertRegex(done.stdout, r"run\.dir +runs/a -> runs/b")
        self.assertNotIn("training state\n", done.stdout)

    def test_counts_and_measures_what_differs(self) -> None:
        a = self.train("a", *SHORT)
        b = self.train("b", *SHORT, "optimizer.lr=0.002")
        done = self.call("ckpt", "diff", "runs/a", "runs/b", code=4)
        self.assert_error_once(done, "runs/a and runs/b differ")
        self.assertRegex(done.stdout, r"optimizer\.lr +0\.001 -> 0\.002")
        left, right = arrays(a.latest()), arrays(b.latest())
        for name, (kind, _, data) in left.items():
            x = numpy.frombuffer(data, kind).astype(numpy.float64)
            y = numpy.frombuffer(right[name][2], kind).astype(numpy.float64)
            line = re.search(rf"^  {re.escape(name)} +(\d+) of (\d+) elements? differ, by at most (\S+)$",
                             done.stdout, re.M)
            assert line, f"{name} in\n{done.stdout}"
            self.assertEqual(int(line[1]), numpy.count_nonzero(x != y))
            self.assertEqual(int(line[2]), x.size)
            self.assertAlmostEqual(float(line[3]), abs(x - y).max(), delta=1e-5 * abs(x - y).max())

    def test_shows_missing_arrays_and_both_shapes(self) -> None:
        self.train("a", *SHORT)
        self.train("b", *SHORT, "model.hidden=[32]", "optimizer.name=sgd", "optimizer.momentum=0.5")
        out = self.call("ckpt", "diff", "runs/a", "runs/b", code=4).stdout
        self.assertRegex(out, r"parameters/layers\.0\.weight +f32 \[64, 192\] -> f32 \[32, 192\]\n")
        self.assertRegex(out, r"optimizer/exp_avg/layers\.0\.bias +f32 \[64\] -> none\n")
        self.assertRegex(out, r"optimizer/momentum/layers\.0\.bias +none -> f32 \[32\]\n")
        self.assertRegex(out, r"model\.hidden +\[64\] -> \[32\]\n")
        self.assertRegex(out, r"parameters/layers\.1\.bias +10 of 10 elements differ")

    def test_of_two_steps_shows_the_training_state(self) -> None:
        run = self.train("run", *SHORT)
        first = Run(run.path).checkpoints / f"step-{run.steps()[0]:08}"
        out = self.call("ckpt", "diff", first, run.latest(), code=4).stdout
        self.assertRegex(out, rf"\n  step +{run.steps()[0]} -> 16\n")
        self.assertNotIn("configuration", out)

    def test_of_equal_arrays_that_a_resume_would_go_on_from_otherwise_is_not_equal(self) -> None:
        self.train("a", *SHORT)
        self.train("b", *SHORT, "train.eval_every_epochs=0")  # its best one is another
        done = self.call("ckpt", "diff", "runs/a", "runs/b", code=4)
        self.assertNotIn("arrays\n", done.stdout)
        self.assertIn("training state\n", done.stdout)
        self.assertRegex(done.stdout, r"\n  (best_step|evaluations_without_best) +\d+ -> \d+\n")

    def test_of_a_damaged_checkpoint_is_an_error_that_compares_nothing(self) -> None:
        run = self.train("run", *SHORT)
        damage(run.latest() / "model.h5")
        done = self.call("ckpt", "diff", run.checkpoints / "best", run.latest(), code=4)
        self.assert_error_once(done, "model.h5 is damaged")
        self.assertEqual(done.stdout, "")


class AnotherModel(TrainerTest):
    """A checkpoint that is whole, but of another model: the table names what differs."""

    def test_on_resume_is_an_error_with_a_table_of_both_shapes_and_types(self) -> None:
        run = self.train("run", *SHORT)
        changes = (
            ("model.hidden=[32]", "  parameters/layers.0.weight: model f32 [32, 192], checkpoint f32 [64, 192]\n"),
            ("model.hidden=[64,64]", "  parameters/layers.2.weight: model f32 [10, 64], checkpoint none\n"),
            ("model.hidden=[]", "  parameters/layers.1.bias: model none, checkpoint f32 [10]\n"),
            ("train.precision=fp64", "  parameters/layers.1.bias: model f64 [10], checkpoint f32 [10]\n"),
            ("optimizer.name=sgd", "  optimizer/exp_avg/layers.1.bias: model none, checkpoint f32 [10]\n"),
        )
        before = contents(run.checkpoints)
        for change, row in changes:
            with self.subTest(change=change):
                done = self.call("resume", "runs/run", change, "train.max_steps=20", "--allow-changes", ranks=2, code=4)
                self.assert_error_once(done, row, "step-00000016: belongs to another model")
        self.assertEqual(contents(run.checkpoints), before)

    def test_on_evaluation_is_an_error_with_the_table(self) -> None:
        self.train("run", *SHORT)
        done = self.call("eval", "runs/run", "model.hidden=[32]", code=4)
        self.assert_error_once(done, "  parameters/layers.1.weight: model f32 [10, 32], checkpoint f32 [10, 64]\n")


if __name__ == "__main__":
    main()
