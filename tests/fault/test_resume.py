#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What may be resumed, how, and what is refused."""

from __future__ import annotations

import os
import shutil
import signal

from trainer_runs import Run, TrainerTest, main


def damage(checkpoint_name: str, run: Run) -> None:
    path = run.checkpoints / checkpoint_name / "model.h5"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


class Resume(TrainerTest):
    def test_with_more_epochs_goes_on_as_one_longer_run(self) -> None:
        undisturbed = self.train("longer", "train.epochs=6", "schedule.duration=4")
        run = self.train("run", "schedule.duration=4")
        self.call("resume", "runs/run", "train.epochs=6")
        self.assertEqual(run.latest().name, "step-00000054")
        # The shorter run evaluated the test set at its own end, too.
        steps = [e for e in run.curve() if "split" not in e]
        self.assertEqual(steps, [e for e in undisturbed.curve() if "split" not in e])

    def test_with_less_than_it_has_done_is_refused(self) -> None:
        run = self.train("run")
        config = (run.path / "config.yaml").read_text()
        for change in ("train.epochs=3", "train.max_steps=5"):
            self.assert_error_once(
                self.call("resume", "runs/run", change, ranks=2, code=2), "has done 36 steps"
            )
        self.assertEqual((run.path / "config.yaml").read_text(), config)

    def test_with_another_length_warns_that_the_schedule_changes(self) -> None:
        self.train("run")
        self.assertIn("schedule.duration", self.call("resume", "runs/run", "train.epochs=5").stderr)
        self.train("fixed", "schedule.duration=4")
        done = self.call("resume", "runs/fixed", "train.epochs=5")
        self.assertNotIn("schedule.duration", done.stderr)

    def test_with_another_rate_is_refused_unless_allowed(self) -> None:
        run = self.train("run")
        before = run.latest()
        change = ("resume", "runs/run", "optimizer.lr=0.25", "train.epochs=5")
        self.assert_error_once(
            self.call(*change, code=2), "optimizer.lr: 0.001 -> 0.25", "--allow-changes"
        )
        self.assertEqual(run.latest(), before)
        self.assertEqual(run.last_step(), 36)
        self.call(*change, "--allow-changes")
        self.assertEqual(run.last_step(), 45)
        self.assertIn("lr: 0.25", (run.path / "config.yaml").read_text())

    def test_on_other_numbers_of_ranks_repeats_and_loses_no_sample(self) -> None:
        sgd = ("optimizer.name=sgd", "optimizer.momentum=0.9", "optimizer.lr=0.01")
        undisturbed = self.train("undisturbed", *sgd, "train.epochs=6", "schedule.duration=6")
        run = self.train("run", *sgd, "train.epochs=2.4", "schedule.duration=6", ranks=2)
        done = self.call("resume", "runs/run", "train.epochs=4.6", ranks=3)
        self.assertIn("step-00000022 (step 22, made by 2 ranks)", done.stdout)
        self.call("resume", "runs/run", "train.epochs=6")
        steps, expected = run.events("step"), undisturbed.events("step")
        self.assertEqual([e["step"] for e in steps], [e["step"] for e in expected])
        for event, other in zip(steps, expected):
            self.assertEqual(event["samples"], other["samples"])
            self.assertAlmostEqual(event["loss"], other["loss"], delta=1e-4 * other["loss"])

    def test_as_a_dry_run_may_look_at_a_run_that_is_training(self) -> None:
        run = self.run_dir("run")
        job = self.start(self.config, "run.dir=runs/run", "train.epochs=20")
        self.wait_for_step(run, 10)
        os.kill(job.process.pid, signal.SIGSTOP)
        done = self.start("resume", "runs/run", "--dry-run").finish()
        os.kill(job.process.pid, signal.SIGCONT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("parameters", done.stdout)
        self.finish(job, 0)

    def test_of_a_finished_run_says_so_and_changes_nothing(self) -> None:
        run = self.train("run")
        before, curve = run.latest().stat().st_ino, run.curve()
        done = self.call("resume", "runs/run", ranks=2)
        self.assertIn("the run had finished already", done.stdout)
        self.assertIn("finished after 36 steps", done.stdout)
        self.assertEqual(run.latest().stat().st_ino, before)
        self.assertEqual(run.curve(), curve)

    def test_falls_back_from_a_damaged_checkpoint_and_says_so(self) -> None:
        undisturbed = self.train("undisturbed", ranks=2)
        run = self.train("run", ranks=2)
        damage("step-00000036", run)
        done = self.call("resume", "runs/run", ranks=2)
        self.assertEqual(done.stderr.count("step-00000036/model.h5"), 1, done.stderr)
        self.assertIn("resumed from runs/run/checkpoints/step-00000035 (step 35", done.stdout)
        self.assert_same_curve(run, undisturbed)
        self.call("eval", "runs/run/checkpoints/step-00000036")  # it was written again

    def test_from_damaged_checkpoints_only_never_starts_over(self) -> None:
        run = self.train("run")
        for step in run.steps():
            damage(f"step-{step:08}", run)
        for command in (("resume", "runs/run"), (self.config, "run.dir=runs/run", "--resume=auto")):
            with self.subTest(command=command):
                done = self.call(*command, ranks=2, code=4)
                self.assert_error_once(done)
                for step in run.steps():
                    self.assertIn(f"step-{step:08}/model.h5", done.stderr)
                self.assertIn("starting over would lose the run", done.stderr)
        # Who only reads them is not told to remove them.
        (run.checkpoints / "best").unlink()
        for command in (("eval", "runs/run"), ("ckpt", "show", "runs/run"), ("export", "runs/run", "w.safetensors"),
                        (self.config, "run.dir=runs/new", "model.init_from=runs/run/checkpoints")):
            with self.subTest(command=command):
                done = self.call(*command, code=4)
                self.assert_error_once(done, "no checkpoint in runs/run/checkpoints verifies:\n")
                self.assertNotIn("starting over", done.stderr)
                self.assertNotIn("remove", done.stderr)
        self.assertEqual(run.last_step(), 36)
        self.assert_error_once(
            self.call("eval", run.checkpoints / "step-00000036", code=4), "step-00000036/model.h5"
        )

    def test_from_an_older_checkpoint_once_the_newer_ones_are_moved_away(self) -> None:
        run = self.train("run", "train.epochs=3", "schedule.duration=4")
        aside = run.path / "aside"
        aside.mkdir()
        newer = run.steps()[1:]
        for step in newer:
            shutil.move(run.checkpoints / f"step-{step:08}", aside)
        [older] = run.steps()
        best = run.checkpoints / "best"
        best.unlink()
        best.symlink_to(f"step-{newer[-1]:08}")  # it may be among them
        done = self.call("resume", "runs/run", "optimizer.lr=0.01", "--allow-changes", ranks=2)
        self.assertIn(f"resumed from runs/run/checkpoints/step-{older:08}", done.stdout)
        self.assertEqual([event["step"] for event in run.events("step")], list(range(1, 28)))
        self.assertEqual(run.latest().name, "step-00000027")
        rates = [event["lr"] for event in run.events("step")]
        self.assertGreater(rates[older], 5 * rates[older - 1])

    def test_of_a_moved_run_directory(self) -> None:
        undisturbed = self.train("undisturbed")
        run = self.train("run")
        damage("step-00000036", run)
        moved = self.root / "elsewhere" / "it is here"
        moved.parent.mkdir()
        shutil.move(run.path, moved)
        self.call("resume", moved)
        self.assert_same_run(Run(moved), undisturbed)
        self.assertFalse(run.path.exists())

    def test_of_what_holds_no_run_is_refused(self) -> None:
        (self.root / "empty").mkdir()
        for path in ("empty", "nowhere", "small.yaml"):
            self.assert_error_once(self.call("resume", path, code=4), f"{path} holds no run")


class ResumeAuto(TrainerTest):
    """`trainer CONFIG --resume auto`: one command for the first start and for all later ones."""

    def setUp(self) -> None:
        super().setUp()
        self.command = (self.config, "run.dir=runs/run", "--resume", "auto")

    def test_starts_anew_where_there_is_no_run(self) -> None:
        undisturbed = self.train("undisturbed")
        self.call(*self.command, ranks=2)
        self.assertEqual(self.run_dir("run").last_step(), undisturbed.last_step())

    def test_starts_anew_where_the_run_has_no_checkpoint(self) -> None:
        undisturbed = self.train("undisturbed")
        run = self.run_dir("run")
        job = self.start(self.config, "run.dir=runs/run", "train.epochs=0",
                         "train.max_steps=100000000", "train.eval_every_epochs=0",
                         "checkpoint.every_steps=0", "schedule.duration=4")
        self.wait_for_step(run, 50)
        job.process.kill()
        self.finish(job, -signal.SIGKILL)
        self.assertEqual(run.steps(), [])
        self.assert_error_once(
            self.call("resume", "runs/run", code=4), "holds no checkpoint yet", "--resume auto"
        )
        self.call(*self.command, "schedule.duration=4", ranks=0)
        self.assert_same_run(run, undisturbed)

    def test_goes_on_from_the_newest_checkpoint(self) -> None:
        undisturbed = self.train("undisturbed")
        run = self.train("run", "train.max_steps=20", "schedule.duration=4")
        done = self.call(*self.command, "schedule.duration=4")
        self.assertIn("resumed from runs/run/checkpoints/step-00000020", done.stdout)
        steps = [e for e in run.curve() if "split" not in e]
        self.assertEqual(steps, [e for e in undisturbed.curve() if "split" not in e])

    def test_never_starts_over_in_a_run_whose_configuration_was_lost(self) -> None:
        run = self.train("run")
        steps = run.steps()
        (run.path / "config.yaml").write_text("")
        self.assert_error_once(self.call(*self.command, code=2), "config.yaml", "empty")
        self.assertEqual((run.steps(), run.last_step()), (steps, 36))

    def test_never_starts_over_where_the_checkpoints_are_gone(self) -> None:
        run = self.train("run", "train.epochs=1")
        lines = (run.path / "metrics.jsonl").read_text()
        for entry in run.checkpoints.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
        for links in ("dangling", "gone"):
            if links == "gone":
                for link in run.checkpoints.iterdir():
                    link.unlink()
            done = self.call(self.config, "run.dir=runs/run", "--resume", "auto", code=4)
            self.assert_error_once(done, "the folder was emptied, or is not mounted")
            self.assertEqual((run.path / "metrics.jsonl").read_text(), lines)

    def test_refuses_a_configuration_that_has_changed(self) -> None:
        self.train("run")
        self.assert_error_once(
            self.call(*self.command, "model.hidden=[32]", code=2), "model.hidden: [64] -> [32]"
        )


class InUse(TrainerTest):
    def test_a_directory_of_a_living_run_is_refused_and_that_run_not_harmed(self) -> None:
        undisturbed = self.train("undisturbed", "train.epochs=12")
        run = self.run_dir("run")
        job = self.start(self.config, "run.dir=runs/run", "train.epochs=12", ranks=2)
        pid = job.rank(0)
        self.wait_for_step(run, 1)
        os.kill(pid, signal.SIGSTOP)  # it is alive for as long as this takes
        new, more = (self.config, "run.dir=runs/run"), ("resume", "runs/run", "train.epochs=50")
        for command in (new, (*new, "--resume", "auto"), more):
            with self.subTest(command=command):
                other = self.start(*command).finish()
                self.assertEqual(other.returncode, 4, other.stderr)
                self.assert_error_once(other, "runs/run is in use by pid", "run.dir")
        os.kill(pid, signal.SIGCONT)
        self.finish(job, 0)
        self.assertEqual(run.last_step(), undisturbed.last_step())

    def test_a_directory_of_an_earlier_run_is_refused_for_a_new_one(self) -> None:
        run = self.train("run")
        curve = run.curve()
        done = self.call(self.config, "run.dir=runs/run", ranks=2, code=4)
        self.assert_error_once(done, "runs/run holds a run already", "trainer resume runs/run")
        self.assertEqual(run.curve(), curve)
        self.assertEqual(run.state()["status"], "finished")


if __name__ == "__main__":
    main()
