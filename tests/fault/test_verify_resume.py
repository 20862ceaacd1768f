#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`trainer verify-resume`: what it proves, and that it sees what is not so."""

from __future__ import annotations

import gzip
import random
import re
import struct
from pathlib import Path

from trainer_runs import TrainerTest, main, processes, wait_until

CONFIGURATIONS = Path(__file__).resolve().parents[2] / "configs"


class Proofs(TrainerTest):
    def prove(self, config: object, *arguments: object, ranks: int, code: int = 0):
        launch = f"{self.mpirun} --oversubscribe -np {ranks}" if ranks else ""
        return self.call("verify-resume", config, "--launch", launch, "--dir", "proof", *arguments, code=code)

    def assert_proven(self, out: str) -> None:
        self.assertRegex(out, r"killed with SIGKILL after the checkpoint of step \d+ and resumed: after step \d+ "
                         r"weights, optimizer and training state are those of the undisturbed run, bit for bit; so "
                         r"are the losses, metrics, rates and samples of all steps")


class Small(Proofs):
    def test_holds_on_three_ranks_and_leaves_nothing(self) -> None:
        done = self.prove(self.config, "--steps", "6+7", ranks=3)
        self.assert_proven(done.stdout)
        self.assertIn("of step 6 and resumed: after step 13 ", done.stdout)
        self.assertRegex(done.stdout, r"^undisturbed: 13 steps \.\.\.\nkilled: 6 steps \.\.\.\nresumed: 7 steps \.\.\.\n")
        self.assertFalse((self.root / "proof").exists())

    def test_holds_on_one_rank_and_keeps_its_runs_where_asked(self) -> None:
        self.assert_proven(self.prove(self.config, "--keep", ranks=0).stdout)
        for name in ("undisturbed.txt", "killed.txt", "resumed.txt", "undisturbed/metrics.jsonl", "killed/log.txt"):
            self.assertTrue((self.root / "proof" / name).exists(), name)
        self.assertIn("inject", (self.root / "proof/killed.txt").read_text())

    def test_sees_a_resumed_run_that_trains_otherwise(self) -> None:
        wrapper = self.root / "otherwise"
        wrapper.write_text('#!/bin/sh\nif [ "$2" = resume ]; then exec "$@" --allow-changes optimizer.lr=0.002; fi\n'
                           'exec "$@"\n')
        wrapper.chmod(0o755)
        done = self.call("verify-resume", self.config, "--launch", wrapper, "--dir", "proof", code=4)
        self.assert_error_once(done, "the resumed run is not the undisturbed one")
        self.assertIn("parameters/layers.0.weight", done.stdout)
        self.assertRegex(done.stdout, r"metrics.jsonl differs:\n  undisturbed: \{.*\n  resumed:     \{")
        self.assertTrue((self.root / "proof/killed").exists())

    def test_tells_why_a_run_failed(self) -> None:
        done = self.call("verify-resume", self.config, "--dir", "proof", "data.path=/nowhere", "data.name=idx",
                         "--set", "data.samples=", code=2)
        # The run's own error, which it quotes, is the second.
        self.assertEqual(done.stderr.count("the run 'undisturbed' ended with exit code 2"), 1, done.stderr)
        self.assertIn("data.samples", done.stderr)
        done = self.call("verify-resume", self.config, "--dir", "proof", code=2)
        self.assert_error_once(done, "proof exists already")
        done = self.call("verify-resume", self.config, "--steps", "5", code=2)
        self.assert_error_once(done, "expected K+M")
        done = self.call("verify-resume", self.config, "--launch", "no-such-launcher -np 2", "--dir", "none", code=6)
        self.assert_error_once(done, "cannot start no-such-launcher")
        self.assertFalse((self.root / "none").exists())

    def test_passes_on_the_code_of_a_run_and_of_a_launcher(self) -> None:
        wrapper = self.root / "launcher"
        for run, verb, code in (("undisturbed", "train", 9), ("resumed", "resume", 3)):
            with self.subTest(run=run):
                wrapper.write_text(f'#!/bin/sh\nif [ "$2" = {verb} ]; then exit {code}; fi\nexec "$@"\n')
                wrapper.chmod(0o755)
                done = self.call("verify-resume", self.config, "--launch", wrapper, "--dir", run, code=code)
                self.assert_error_once(done, f"the run '{run}' ended with exit code {code}")
                self.assertTrue((self.root / run / f"{run}.txt").exists())

    def test_takes_strange_directories_as_they_are_and_refuses_what_it_sets_itself(self) -> None:
        self.assert_proven(self.call("verify-resume", self.config, "--steps", "2+2", "--dir", "x #y: [z").stdout)
        done = self.call("verify-resume", self.config, "--dir", "no/parent", code=2)
        self.assert_error_once(done, "cannot be made")
        done = self.call("verify-resume", self.config, "run.dir=elsewhere", code=2)
        self.assert_error_once(done, "--dir and --steps")

    def test_ends_its_runs_when_it_is_asked_to_end(self) -> None:
        job = self.start("verify-resume", self.config, "--steps", "100000+1", "--dir", "proof", "--launch",
                         f"{self.mpirun} --oversubscribe -np 2")
        wait_until(lambda: (self.root / "proof/undisturbed/metrics.jsonl").exists(), "the first run trains")
        job.process.terminate()
        self.assertNotEqual(job.finish().returncode, 0)
        wait_until(lambda: not processes(self.mark), "nothing is left running")

    def test_is_not_to_be_started_by_a_launcher(self) -> None:
        done = self.call("verify-resume", self.config, ranks=2, code=2)
        self.assertIn("--launch", done.stderr)


class Shipped(Proofs):
    """Every configuration that is shipped, on small stand-ins of its data."""

    def test_configurations_resume_exactly(self) -> None:
        noise = random.Random(1)
        images = self.root / "images"
        images.mkdir()
        for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
            (images / name).write_bytes(b"".join(bytes([i % 10]) + noise.randbytes(3072) for i in range(300)))
        digits = self.root / "digits"
        digits.mkdir()
        for split, count in (("train", 600), ("t10k", 100)):
            with gzip.open(digits / f"{split}-images-idx3-ubyte.gz", "wb") as file:
                file.write(struct.pack(">IIII", 0x803, count, 28, 28) + noise.randbytes(count * 784))
            with gzip.open(digits / f"{split}-labels-idx1-ubyte.gz", "wb") as file:
                file.write(struct.pack(">II", 0x801, count) + bytes(i % 10 for i in range(count)))
        (self.root / "text.txt").write_text("To be, or not to be, that is the question. " * 3000)
        changes = {
            "cifar": ["data.path=images", "data.any_length=true", "train.global_batch=100", "train.micro_batch=25"],
            "fashion_mnist": ["data.path=digits", "train.global_batch=50"],
            "gpt_char": ["data.path=text.txt", "schedule.warmup=2", "train.global_batch=4"],
            "mlp": [],
        }
        shipped = sorted(path.stem for path in CONFIGURATIONS.glob("*.yaml"))
        self.assertEqual(shipped, sorted(changes), "each configuration is proven here")
        for name in shipped:
            with self.subTest(name):
                done = self.prove(CONFIGURATIONS / f"{name}.yaml", "--steps", "3+4", *changes[name], ranks=2)
                self.assert_proven(done.stdout)
                self.assertIsNone(re.search("differ", done.stdout))


if __name__ == "__main__":
    main()
