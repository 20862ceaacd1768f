#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long training stands still for torch.save of a model and its AdamW state, as DistributedDataParallel's users save: one process
writes, the others wait for it. The shapes are those of a safetensors file; prints one JSON line, the median in milliseconds."""
import argparse
import json
import pathlib
import statistics
import struct
import time

import torch

TYPES = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "U8": torch.uint8}


def shapes(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    return {name: (TYPES[entry["dtype"]], entry["shape"]) for name, entry in header.items() if name != "__metadata__"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", help="a safetensors file")
    parser.add_argument("folder", type=pathlib.Path, help="where to save")
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = {name: torch.randn(shape).to(dtype) for name, (dtype, shape) in shapes(options.weights).items()}
    trained = [t for name, t in model.items() if t.is_floating_point() and "running_" not in name]
    state = {i: {"step": torch.tensor(1.0), "exp_avg": torch.randn_like(t), "exp_avg_sq": torch.rand_like(t)} for i, t in enumerate(trained)}
    document = {"model": model, "optimizer": {"state": state, "param_groups": [{"lr": 0.1, "params": list(state)}]}}
    path, milliseconds = options.folder / "checkpoint.pt", []
    for _ in range(1 + options.times):  # the first warms up
        start = time.monotonic()
        torch.save(document, path)
        milliseconds.append(1e3 * (time.monotonic() - start))
    size = path.stat().st_size
    path.unlink()
    print(json.dumps({"ms": statistics.median(milliseconds[1:]), "bytes": size}))


if __name__ == "__main__":
    main()
