#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare.py runs, pairs and sums up. The peer is a fake that prints a fixed time: no time is asserted."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

from trainer_runs import TrainerTest, main

COMPARE = pathlib.Path(__file__).resolve().parent / "compare.py"


class Compare(TrainerTest):
    def compare(self, *arguments: str) -> list[dict]:
        fake = pathlib.Path(self.root) / "fake-python"
        fake.write_text('#!/bin/sh\necho \'{"us": 50.0, "ms": 100.0, "step_ms": {"median": 100.0}}\'\n')
        fake.chmod(0o755)
        build = pathlib.Path(self.trainer).parent
        command = [sys.executable, str(COMPARE), "--pairs", "2", "--build", str(build), "--python", str(fake),
                   "--peers", str(self.root), *arguments]
        result = subprocess.run(command, capture_output=True, text=True, timeout=280)
        self.assertEqual(result.returncode, 0, result.stderr)
        first, *lines = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(first["cases"], [argument for argument in arguments if argument.isidentifier()])
        self.assertGreater(first["cores"], 0)
        return lines

    def test_a_step_is_paired_with_the_best_of_the_peer(self) -> None:
        lines = self.compare("step_mlp")
        self.assertEqual(set(lines[0]["peer_ms_by_bucket_mb"]), {"1", "5", "25", "100"})
        result = lines[-1]
        self.assertEqual(result["pairs"], 2)
        self.assertEqual(result["peer_median"], 100.0)
        self.assertGreater(result["ours_median"], 0)
        self.assertLessEqual(result["ratio_min"], result["ratio_max"])

    def test_the_stall_of_a_checkpoint_and_its_whole_cost(self) -> None:
        lines = self.compare("checkpoint", "checkpoint_overhead", "--steps=3", "--models=resnet18", "--pairs=1")
        stalls, *others = [line for line in lines if "stall_ms" in line]
        self.assertEqual(len(stalls["stall_ms"]), 4)
        self.assertGreater(min(stalls["stall_ms"]), 0)
        self.assertEqual(len(others), 1, "one for the shapes and one a pair")
        stall, whole = [line for line in lines if "pairs" in line]
        self.assertEqual(stall["peer_median"], 100.0)
        self.assertGreater(whole["ours_median"], 0)
        self.assertIn("percent_at_one_every_30_s", lines[-1])

    def test_hosts_are_those_that_the_given_script_makes(self) -> None:
        fake = pathlib.Path(self.root) / "fake-cluster"
        fake.write_text(f'#!/bin/sh\n[ "$1" = mpirun ] || exit 0\nshift\nexec {self.mpirun} --oversubscribe -np "$@"\n')
        fake.chmod(0o755)
        lines = self.compare("hosts_all_reduce", "--cluster", str(fake))
        results = [line for line in lines if "pairs" in line]
        self.assertEqual(len(results), 3)
        for result in results:
            self.assertGreater(result["ratio_median"], 0)

    def test_an_unknown_case_is_named(self) -> None:
        result = subprocess.run([sys.executable, str(COMPARE), "nonsense"], capture_output=True, text=True)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("nonsense", result.stderr)


if __name__ == "__main__":
    main()
