#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line: what works without training, and how wrong input is answered."""

from __future__ import annotations

import json

from trainer_runs import CONFIG, TrainerTest, main


class WithoutTraining(TrainerTest):
    """All of it by itself, without mpirun."""

    def test_version_names_the_libraries(self) -> None:
        out = self.call("--version").stdout
        for name in ("trireme 0.", "LibTorch ", "MPI ", "Open MPI", "HDF5 ", "CUDA ", "NCCL "):
            self.assertIn(name, out)

    def test_help_of_the_program_and_of_each_command(self) -> None:
        out = self.call("--help").stdout
        commands = ("train", "resume", "eval", "validate", "bench comm", "doctor", "schema", "reference",
                    "faults")
        for command in commands:
            words = command.split()
            self.assertIn(f"\n  {words[0]} ", out)
            of_command = self.call(*words, "--help").stdout
            self.assertIn("Examples:", of_command)
            self.assertIn("trainer", of_command)

    def test_help_under_mpirun_is_printed_once(self) -> None:
        self.assertEqual(self.call("--help", ranks=2).stdout.count("Exit codes:"), 1)

    def test_schema_is_json_that_knows_each_section(self) -> None:
        schema = json.loads(self.call("schema").stdout)
        self.assertIn("$schema", schema)
        self.assertLessEqual(
            {"run", "model", "data", "optimizer", "schedule", "loss", "train", "network", "checkpoint",
             "log"},
            set(schema["properties"]),
        )

    def test_reference_lists_sections_and_keys(self) -> None:
        out = self.call("reference").stdout
        for text in ("# Configuration reference", "## train", "| `global_batch` |", "| `hidden` |"):
            self.assertIn(text, out)

    def test_validate_accepts_a_good_configuration_and_leaves_nothing(self) -> None:
        self.assertIn("small.yaml: valid", self.call("validate", "small.yaml").stdout)
        self.assertEqual([path.name for path in self.root.iterdir()], ["small.yaml"])

    def test_print_config_shows_values_and_their_origin(self) -> None:
        for command in ((), ("train",), ("validate",)):
            out = self.call(*command, "small.yaml", "optimizer.lr=0.5", "--print-config").stdout
            self.assertRegex(out, "lr: 0.5 +#.*command line")
            self.assertRegex(out, "global_batch: 31 +#.*small.yaml:7")
            self.assertRegex(out, "clip_norm: 0 +#.*default")
        self.assertEqual([path.name for path in self.root.iterdir()], ["small.yaml"])

    def test_dry_run_tells_size_and_length_and_leaves_nothing(self) -> None:
        # 192 -> 64 -> 10: 12352 + 650 parameters.
        out = self.call("small.yaml", "--dry-run", ranks=2).stdout
        for text in ("13002 trained", "36 (9 an epoch)", "checkpoint ", "memory a rank"):
            self.assertEqual(out.count(text), 1, out)
        self.assertEqual([path.name for path in self.root.iterdir()], ["small.yaml"])


class Evaluation(TrainerTest):
    def test_of_run_and_checkpoint_and_split_gives_what_training_measured(self) -> None:
        run = self.train("run")
        best = [e for e in run.events("eval") if e["best"]][-1]
        last = {e["split"]: e for e in run.events("eval")}
        self.assertNotEqual(best["step"], 36)  # else this would not tell best and newest apart
        self.check("runs/run --split validation", "validation", best)
        self.check("runs/run/checkpoints/step-00000036", "test", last["test"])
        latest = "runs/run/checkpoints/latest --split=validation"
        self.check(latest, "validation", last["validation"])

    def check(self, arguments: str, split: str, event: dict[str, float]) -> None:
        with self.subTest(arguments=arguments):
            out = self.call("eval", *arguments.split(), ranks=2).stdout
            self.assertIn(f"{split} after step {event['step']} ", out)
            self.assertIn(f"loss {event['loss']:.4f}  accuracy {event['accuracy']:.4f}", out)
            self.assertIn(f"({event['samples']} samples", out)

    def test_of_a_split_that_is_not_there_is_a_usage_error(self) -> None:
        self.train("run", "data.validation_fraction=0", "train.epochs=1")
        done = self.call("eval", "runs/run", "--split", "validation", ranks=2, code=2)
        self.assert_error_once(done, "no validation split", "--split test")

    def test_never_takes_training_samples_for_a_validation_split(self) -> None:
        self.train("run", "train.epochs=1")
        split = ("eval", "runs/run", "--split", "validation")
        for change in ("data.validation_fraction=0.2", "run.seed=4"):
            self.assert_error_once(self.call(*split, change, code=2), "trained on")

    def test_beside_a_run_that_removes_its_checkpoints(self) -> None:
        run = self.run_dir("run")
        job = self.start(self.config, "run.dir=runs/run", "train.epochs=40", "checkpoint.keep=1",
                         "checkpoint.every_steps=1", "data.validation_fraction=0")
        self.wait_for_step(run, 5)
        while job.process.poll() is None:
            done = self.start("eval", "runs/run").finish()
            self.assertEqual(done.returncode, 0, done.stderr)
        self.finish(job, 0)

    def test_of_what_is_no_checkpoint(self) -> None:
        self.assert_error_once(self.call("eval", "small.yaml", ranks=2, code=4), "no checkpoint")


class WrongInput(TrainerTest):
    def test_a_misspelt_key_is_answered_once_with_its_place_and_a_suggestion(self) -> None:
        self.config.write_text(CONFIG.replace("global_batch", "globl_batch"))
        for ranks in (0, 2):
            done = self.call("small.yaml", ranks=ranks, code=2)
            self.assert_error_once(done, "small.yaml:7:20: ", "globl_batch", "did you mean")

    def test_all_errors_of_a_file_come_at_once(self) -> None:
        text = CONFIG.replace("seed: 3", "seed: many").replace("lr: 0.001", "lr: -1")
        self.config.write_text(text)
        done = self.call("validate", "small.yaml", code=2)
        self.assert_error_once(done, "small.yaml:1:13: ", "small.yaml:5:30: ", "run.seed",
                               "optimizer.lr")

    def test_overrides_that_are_none(self) -> None:
        for override, part in {
            "optimizer.lr": "expected key=value",
            "=3": "expected key=value",
            "optimizer.leer=1": "optimizer.leer",
            "optimizer.lr=fast": "optimizer.lr",
            "optimizer.lr=[1": "optimizer.lr",
            "train.epochs=-1": "train.epochs",
            "model.hidden.0.x=1": "model.hidden",
        }.items():
            with self.subTest(override=override):
                done = self.call("small.yaml", override, code=2)
                self.assertIn(part, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_unknown_options_and_commands(self) -> None:
        for arguments in (("small.yaml", "--frobnicate"), ("resume",), (), ("--frobnicate",),
                          ("eval", "x", "--split=y"), ("small.yaml", "--resume=newest")):
            with self.subTest(arguments=arguments):
                done = self.call(*arguments, code=2)
                self.assertNotEqual(done.stderr, "")
                self.assertEqual(done.stdout, "")

    def test_an_unknown_option_under_mpirun_is_answered_once(self) -> None:
        done = self.call("small.yaml", "--frobnicate", ranks=2, code=2)
        self.assertEqual(done.stderr.count("--frobnicate"), 1)

    def test_a_compression_that_starts_after_the_run_is_found_before_training(self) -> None:
        late = ("parallel.compression=powersgd", "parallel.powersgd_start=36")
        for words in (("train", "small.yaml", *late), ("validate", "small.yaml", *late),
                      ("train", "small.yaml", "--dry-run", *late)):
            done = self.call(*words, ranks=2, code=2)
            self.assert_error_once(done, "parallel.powersgd_start: 36 has no effect: the run has 36 steps")
        self.assertFalse((self.root / "runs").exists())
        self.call("validate", "small.yaml", "parallel.compression=powersgd", "parallel.powersgd_start=35")

    def test_averages_that_hardly_come_are_worth_a_warning(self) -> None:
        words = ("validate", "small.yaml", "data.drop_last=true")
        often = self.call(*words, "parallel.sync_every=8")
        self.assertNotIn("sync_every", often.stderr)
        rare = self.call(*words, "parallel.sync_every=9", ranks=2)
        self.assertEqual(rare.stderr.count("parallel.sync_every 9 is more than the 8 steps of an epoch"), 1, rare)

    def test_a_long_run_that_saves_nothing_on_its_way_is_worth_a_warning(self) -> None:
        unsaved = ("small.yaml", "data.validation_fraction=0", "checkpoint.every_steps=0", "train.epochs=0")
        warning = "warning: nothing is saved before the last of 1000 steps: a kill loses the whole run; " \
                  "set checkpoint.every_steps"
        for command in (unsaved, ("validate", *unsaved)):
            done = self.call(*command, "train.max_steps=1000", "train.eval_every_epochs=0", ranks=2)
            self.assertEqual(done.stderr.count(warning), 1, done.stderr)
        for changes in (("train.max_steps=999",), ("train.max_steps=1000", "checkpoint.every_steps=500"),
                        ("train.max_steps=1000", "data.validation_fraction=0.1")):
            self.assertNotIn("nothing is saved", self.call("validate", *unsaved, *changes).stderr)

    def test_a_missing_configuration(self) -> None:
        done = self.call("absent.yaml", ranks=2, code=2)
        self.assert_error_once(done, "absent.yaml")

    def test_missing_data_are_answered_once_with_where_to_get_them(self) -> None:
        self.config.write_text(CONFIG.replace(
            "name: synthetic, samples: 300, shape: [3, 8, 8]", "name: cifar10, path: nowhere"))
        done = self.call("small.yaml", ranks=2, code=3)
        self.assert_error_once(done, "nowhere/data_batch_1.bin", "scripts/get_data cifar10")
        self.assertEqual([path.name for path in self.root.iterdir()], ["small.yaml"])

    def test_a_run_directory_that_cannot_be_made_is_found_before_training(self) -> None:
        (self.root / "file").write_text("")
        done = self.call("small.yaml", "run.dir=file/run", ranks=2, code=4)
        self.assert_error_once(done, "file/run")


class WrongLauncher(TrainerTest):
    """As srun without PMIx sets the environment of its tasks."""

    def test_is_refused_before_anything_is_read_and_said_by_one_rank(self) -> None:
        for rank in ("0", "1"):
            job = self.start_command([self.trainer, "missing.yaml"], SLURM_STEP_NUM_TASKS="2", SLURM_PROCID=rank)
            done = self.finish(job, 6)
            if rank == "0":
                self.assert_error_once(done, "srun started 2 ranks", "`srun --mpi=pmix")
            else:
                self.assertEqual(done.stderr, "")


class Devices(TrainerTest):
    """A machine without a GPU, or a build without CUDA."""

    def setUp(self) -> None:
        super().setUp()
        done = self.start("small.yaml", "run.device=cuda", "train.max_steps=1").finish()
        if done.returncode == 0:
            self.skipTest("this build and this machine have a GPU")
        self.answer = done

    def test_cuda_that_is_not_there_is_an_error_that_leaves_nothing(self) -> None:
        self.assertEqual(self.answer.returncode, 6)
        self.assert_error_once(self.answer, "run.device is cuda", "run.device=cpu")
        self.assertEqual([path.name for path in self.root.iterdir()], ["small.yaml"])

    def test_all_ranks_say_so_together(self) -> None:
        done = self.call("small.yaml", "run.device=cuda", ranks=2, code=6)
        self.assert_error_once(done, "run.device is cuda")

    def test_what_computes_nothing_wants_no_gpu(self) -> None:
        self.assertIn("valid", self.call("validate", "small.yaml", "run.device=cuda").stdout)
        out = self.call("small.yaml", "run.device=cuda", "--dry-run").stdout
        self.assertIn("13002 trained", out)


if __name__ == "__main__":
    main()
