#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gradients are reduced while backward still runs."""

from __future__ import annotations

import statistics

from trainer_runs import TrainerTest, main

# A bucket a layer, and enough samples that a layer's backward outlasts its bucket's reduction.
OVERRIDES = (
    "model.hidden=[512,512,512,512,512,512,512,512,512,512]",
    "data.shape=[3,16,16]",
    "data.samples=2048",
    "data.validation_fraction=0",
    "train.global_batch=1024",
    "train.micro_batch=0",
    "train.epochs=8",
    "train.eval_every_epochs=0",
    "parallel.bucket_mb=1",
)


class Overlap(TrainerTest):
    def test_most_buckets_are_reduced_before_backward_ends(self) -> None:
        """comm_overlap is an order of events (reduced before the last hook fired), not a time."""
        run = self.train("run", *OVERRIDES, ranks=2)
        shares = [event["comm_overlap"] for event in run.events("step")]
        self.assertEqual(len(shares), 16)
        print("comm_overlap of each step:", *(f"{share:.2f}" for share in shares))
        self.assertGreaterEqual(statistics.median(shares), 0.5)


if __name__ == "__main__":
    main()
