#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists what `trainer export RUN_DIR NAME.safetensors` has written.

Wants Python with safetensors and numpy (`pip install safetensors numpy`)."""

import argparse

from safetensors import safe_open


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", help="a file that ends in .safetensors")
    arguments = parser.parse_args()
    with safe_open(arguments.weights, framework="numpy") as file:
        for key, value in sorted((file.metadata() or {}).items()):
            print(f"{key}: {value}")
        for name in sorted(file.keys()):
            array = file.get_tensor(name)
            print(f"{name}  {array.dtype}  {list(array.shape)}  mean {array.mean():.6g}")


if __name__ == "__main__":
    main()
