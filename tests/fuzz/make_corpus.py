#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what fuzzing starts from: DIRECTORY/TARGET/NAME for each target of tests/fuzz, small whole
and slightly broken inputs, the same ones each time; and DIRECTORY/TARGET.dict, words to try.
"""
from __future__ import annotations

import argparse
import gzip
import io
import json
import random
import re
import shutil
import struct
from pathlib import Path
from typing import Iterator

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
Inputs = Iterator[tuple[str, bytes]]
VALID = b"""\
model: {name: mlp, hidden: [64, 32], dropout: 0.5}
data: {name: synthetic, samples: 100, mean: [0.5], std: [0.25]}
optimizer:
  name: adamw
  lr: 0.1
  groups: [{match: "*.bias", weight_decay: 0}, {match: a, lr: 1e-3}]
train: {epochs: 2, global_batch: 32}
network: {transport: tcp, interfaces: [lo]}
"""


def config() -> Inputs:
    yield "small", VALID
    for path in sorted((ROOT / "configs").rglob("*.yaml")):
        yield path.stem, path.read_bytes()
    for number, text in enumerate((b"", b"\n---\n", b"a: &a [*a]", b"model: {<<: *b}", b"\xef\xbb\xbfmodel:\n",
                                   b"optimizer: {lr: .nan}", b"run: {seed: 010}", b"model:\n\tname: mlp",
                                   b"a: !!binary x\n...\nb: |\n  c\n", b"{" * 40, b"[" * 40)):
        yield f"odd-{number}", text


def overrides() -> Inputs:
    yield "all", (b"optimizer.lr=0.1\ndata.mean=[0.5, 0.25]\noptimizer.groups=[{match: a}]\n"
                  b"optimizer.groups.0.lr=1e-3\nmodel.hidden=[4]\nrun.name=-x")
    for number, line in enumerate((b"=", b"a", b"train.epochs=", b"model.name=convnet", b"optimizer.groups.9.lr=1",
                                   b"rank=1,point=checkpoint.rename,hit=3+,action=kill",
                                   b"rank=all,point=end,action=sleep=0.5")):
        yield f"line-{number}", line


def idx() -> Inputs:
    labels = struct.pack(">II", 0x801, 4) + bytes([0, 9, 3, 1])
    images = struct.pack(">IIII", 0x803, 4, 3, 2) + bytes(range(24))
    huge = struct.pack(">IIII", 0x803, 2**32 - 1, 2**32 - 1, 2**32 - 1) + bytes(8)
    for packed in range(4):
        parts = [gzip.compress(labels, mtime=0) if packed & 1 else labels,
                 gzip.compress(images, mtime=0) if packed & 2 else images]
        yield f"good-{packed}", bytes([packed]) + struct.pack(">H", len(parts[0])) + b"".join(parts)
    for packed, content in ((0, huge), (2, gzip.compress(huge, mtime=0)), (0, images[:-1]), (0, b"")):
        yield f"broken-{packed}-{len(content)}", bytes([packed]) + struct.pack(">H", len(labels)) + labels + content


def cifar() -> Inputs:
    draw = random.Random(2)
    for label_bytes in (1, 2):
        record = bytes(label_bytes) + draw.randbytes(3072)
        yield f"one-{label_bytes}", record
        yield f"two-{label_bytes}", record * 2
        yield f"short-{label_bytes}", record[:-1]
        yield f"label-{label_bytes}", b"\xff" * label_bytes + record[label_bytes:]


def image() -> Inputs:
    draw = random.Random(3)
    for mode, bands in (("L", 1), ("RGB", 3), ("RGBA", 4), ("1", 1), ("P", 1), ("I;16", 2), ("CMYK", 4)):
        for width, height in ((5, 4), (1, 40), (17, 1)):
            pixels = draw.randbytes(width * height * bands)
            picture = Image.frombytes("L" if mode in ("1", "P") else mode, (width, height), pixels)
            picture = picture.convert(mode)
            for kind in ("PNG", "JPEG"):
                if (kind, mode) in (("PNG", "CMYK"), ("JPEG", "RGBA"), ("JPEG", "P"), ("JPEG", "I;16")):
                    continue
                file = io.BytesIO()
                picture.save(file, kind, **({"progressive": width == 5} if kind == "JPEG" else {}))
                name = f"{kind}-{mode.replace(';', '')}-{width}x{height}"
                yield name, b"\x07" + file.getvalue()
                yield name + "-cut", b"\x07" + file.getvalue()[:len(file.getvalue()) * 2 // 3]


def text() -> Inputs:
    yield "words", b"\x04" + b"To be, or not to be. " * 8
    yield "short", b"\xffabc"
    yield "empty", b"\x00"


def manifest() -> Inputs:
    whole = (b'{\n  "format": "trireme-checkpoint",\n  "version": 1,\n  "step": 120,\n  "files": [\n    {\n'
             b'      "name": "model.h5",\n      "size_bytes": 134217728,\n'
             b'      "xxh3_128": "0123456789abcdef0123456789abcdef"\n    }\n  ]\n}\n')
    yield "whole", whole
    for number, (old, new) in enumerate(((b"120", b"-1"), (b"120", b"1e300"), (b"134217728", b"18446744073709551615"),
                                         (b"1,", b"1e99,"), (b"[", b"{"), (b'"model.h5"', b'"../x\\u0007"'),
                                         (b"120", b"null"), (b"}\n  ]", b"}, {}\n  ]"))):
        yield f"other-{number}", whole.replace(old, new, 1)
    yield "deep", b"[" * 3000


def safetensors() -> Inputs:
    good = {"b": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
            "a": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]},
            "__metadata__": {"format": "pt"}}
    text_of_good = json.dumps(good)
    others = [text_of_good.replace(old, new) for old, new in (
        ("[2, 3]", "[4294967296, 4294967296]"), ("[2, 3]", "[-1]"), ("[2, 3]", "[1e300]"), ("24]", "18446744073709551615]"),
        ("[24, 26]", "[26, 24]"), ("F32", "F4\\u0007"), ('"pt"', "1"), ('"a"', '"b"'), ("[]", "null"))]
    for number, header in enumerate((text_of_good, "{}", "", "[" * 2000, *others)):
        yield f"header-{number}", struct.pack("<Q", len(header)) + header.encode() + bytes(26)
    yield "long", struct.pack("<Q", 2**64 - 1) + b"{}"
    yield "short", b"abc"


TARGETS = {make.__name__: make for make in (config, overrides, idx, cifar, image, text, manifest, safetensors)}


def words(name: str) -> set[str]:
    """For libFuzzer's dictionary: what stands in the seeds and is too long to be guessed."""
    if name in ("idx", "cifar", "image", "text"):
        return set()
    text_of_seeds = b" ".join(content for _, content in TARGETS[name]()).decode(errors="ignore")
    return set(re.findall(r"[A-Za-z_][A-Za-z_0-9]{2,}", text_of_seeds)) | {": ", "- ", "[{", "}]", ".inf", "1e308"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("target", nargs="*", choices=[[], *TARGETS])
    arguments = parser.parse_args()
    for name in arguments.target or TARGETS:
        folder = arguments.directory / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for seed, content in TARGETS[name]():
            (folder / seed).write_bytes(content)
        lines = [f'"{word}"\n' for word in sorted(words(name))]
        (arguments.directory / f"{name}.dict").write_text("".join(lines))


if __name__ == "__main__":
    main()
