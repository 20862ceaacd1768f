#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that are written behind training: failures of the disk, memory, files of earlier versions."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
from pathlib import Path

import h5py

from trainer_runs import Run, TrainerTest, main, wait_until

FORMAT_1 = Path(__file__).parents[1] / "unit" / "checkpoint" / "format-1"


class Disk(TrainerTest):
    def test_a_failed_write_ends_all_ranks_and_keeps_the_checkpoint_before(self) -> None:
        run = self.run_dir("full")
        length = ("train.epochs=16", "checkpoint.every_steps=5")
        job = self.start(self.config, f"run.dir={run.path}", *length, ranks=3)
        rank_0 = job.rank(0)
        wait_until(run.steps, "a checkpoint is committed")
        # Files that this process makes end after 8 kB from now on: before its model.h5 does.
        resource.prlimit(rank_0, resource.RLIMIT_FSIZE, (8192, 8192))
        done = self.finish(job, 4)
        self.assert_error_once(done, "File too large (errno 27)", "model.h5", "bytes free there")
        self.assertEqual([path.name for path in run.checkpoints.glob(".tmp-*")], [])
        self.assertEqual(run.latest().name, f"step-{run.steps()[-1]:08}")
        self.assertEqual(run.state()["status"], "failed")
        self.call("resume", "runs/full", ranks=3)
        self.assert_same_run(run, self.train("undisturbed", *length, ranks=3))


class Slow(TrainerTest):
    def test_a_write_longer_than_the_time_out_loses_neither_an_error_of_all_ranks_nor_the_checkpoint(self) -> None:
        """Nobody is told to stand still, either."""
        done = self.call(self.config, "run.dir=runs/run", "run.timeout=4", "checkpoint.every_steps=3",
                         "--enable-fault-injection", "--inject", "rank=0,point=checkpoint.written,hit=1,action=sleep=3",
                         "--inject", "rank=0,point=checkpoint.rename,hit=1,action=sleep=3",
                         "--inject", "rank=1,point=forward,hit=9,action=nan", ranks=2, code=5)
        self.assert_error_once(done, "rank 1: loss nan for samples")
        self.assertNotIn("has not come on", done.stderr)
        run = self.run_dir("run")
        self.assertEqual(run.steps(), [3])
        self.assertEqual(run.state()["status"], "failed")


class EarlierFormats(TrainerTest):
    def test_a_checkpoint_of_format_1_is_resumed_evaluated_and_followed_by_newer_ones(self) -> None:
        run = self.run_dir("old")
        shutil.copytree(FORMAT_1, run.checkpoints / "step-00000002")
        with h5py.File(FORMAT_1 / "model.h5") as file:
            self.assertEqual(dict(file.attrs), {"trireme_format": 1, "step": 2})
            (run.path / "config.yaml").write_text(json.loads(file["state"][()])["config"])
        self.call("eval", "runs/old")
        done = self.call("resume", "runs/old", "train.max_steps=5", "checkpoint.keep=3", ranks=2)
        self.assertIn("(step 2, made by 1 rank)", done.stdout)
        self.assertEqual(run.steps(), [2, 4, 5])
        with h5py.File(run.latest() / "model.h5") as file:
            self.assertEqual(dict(file.attrs), {"trireme_format": 2})
            self.assertEqual(file["step"][()], 5)


class Memory(TrainerTest):
    """What saving takes: one image of the checkpoint that the ranks share, and buffers."""

    RANKS = 4
    BUFFER = 10e6  # bytes

    def measured(self, name: str, *overrides: str) -> tuple[list[int], int]:
        """After some steps, while all ranks are stopped: the most memory of each so far, and what they have of
        memory that they share, in bytes."""
        run = self.run_dir(name)
        job = self.start(self.config, f"run.dir={run.path}", "model.hidden=[700,700,700,700,700,700,700,700]", "train.epochs=100",
                         "train.eval_every_epochs=0", "data.validation_fraction=0", *overrides, ranks=self.RANKS)
        pids = [job.rank(rank) for rank in range(self.RANKS)]
        self.wait_for_step(run, 12)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        most = [self.number(Path(f"/proc/{pid}/status").read_text(), "VmHWM") for pid in pids]
        shared = sum(self.shared(pid) for pid in pids)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        job.finish()
        return most, shared

    def number(self, text: str, name: str) -> int:
        return sum(int(line.split()[1]) * 1024 for line in text.split("\n") if line.startswith(f"{name}:"))

    def shared(self, pid: int) -> int:
        """This process's part of all memory files: what several have touched counts once in all."""
        text, ours = Path(f"/proc/{pid}/smaps").read_text(), False
        lines = []
        for line in text.split("\n"):
            if "-" in line.split(" ")[0]:  # the first line of a mapping
                ours = "/memfd:trireme" in line
            elif ours:
                lines.append(line)
        return self.number("\n".join(lines), "Pss")

    def test_of_saves_is_one_image_for_the_node_and_buffers(self) -> None:
        never, shared = self.measured("never", "checkpoint.every_steps=0")  # the image is there all the same
        often, shared_often = self.measured("often", "checkpoint.every_steps=3")
        size = (self.run_dir("often").latest() / "model.h5").stat().st_size
        self.assertGreater(size, 3 * self.BUFFER)
        rises = [after - before for before, after in zip(never, often)]
        self.assertLess(rises[0], size + self.BUFFER, "rank 0 reads the whole image")
        for rise in rises[1:]:
            self.assertLess(rise, self.BUFFER, rises)
        # Parameters are a third of what AdamW saves. They lie there once, the gradients once a rank.
        trained = (1 + self.RANKS) * size / 3
        for found in (shared, shared_often):
            self.assertGreater(found, trained + 0.9 * size)
            self.assertLess(found, trained + size + 2 * self.BUFFER)


if __name__ == "__main__":
    main()
