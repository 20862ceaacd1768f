#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`mpirun -np 16 trainer configs/cifar.yaml`, on images of noise."""

from __future__ import annotations

import random
import resource
from pathlib import Path

from trainer_runs import TrainerTest, main

CONFIGURATION = Path(__file__).resolve().parents[2] / "configs" / "cifar.yaml"
IMAGE_BYTES = 3 * 32 * 32


class SixteenRanks(TrainerTest):
    def write_records(self, name: str, records: int) -> None:
        noise = random.Random(name)
        (self.root / "images").mkdir(exist_ok=True)
        with (self.root / "images" / name).open("wb") as file:
            for record in range(records):
                file.write(bytes([record % 10]) + noise.randbytes(IMAGE_BYTES))

    def test_train_the_cifar_configuration(self) -> None:
        for batch in range(1, 6):
            self.write_records(f"data_batch_{batch}.bin", 400)
        self.write_records("test_batch.bin", 100)
        done = self.call(CONFIGURATION, "run.dir=runs/cifar", "data.path=images",
                         "data.any_length=true", "train.global_batch=400",
                         "train.micro_batch=25", "train.max_steps=2",
                         ranks=16)
        self.assertIn("16 ranks on 1 node, 1 thread a rank; cifar10 -> cifar_net", done.stdout)
        run = self.run_dir("cifar")
        self.assertEqual([event["samples"] for event in run.events("step")], [400, 400])
        self.assertEqual(run.events("eval")[-1]["samples"], 100)
        self.assertEqual(run.latest().name, "step-00000002")
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        print(f"peak memory of the largest rank: {peak / 1e3:.0f} MB")


if __name__ == "__main__":
    main()
