# SPDX-License-Identifier: Apache-2.0
"""Weights of other programs, read without them: each format in its few lines, as its specification has it."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy

SAFETENSORS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "U8": "u1"}
STORAGES = {"DoubleStorage": "<f8", "FloatStorage": "<f4", "LongStorage": "<i8", "ByteStorage": "u1"}


def safetensors_header(path: Path) -> tuple[dict[str, Any], int]:
    """The header, and where the data begin."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), end


def read_safetensors(path: Path) -> dict[str, numpy.ndarray]:
    header, begin = safetensors_header(path)
    data = path.read_bytes()[begin:]
    header.pop("__metadata__", None)
    return {name: numpy.frombuffer(data[slice(*entry["data_offsets"])], SAFETENSORS[entry["dtype"]])
            .reshape(entry["shape"]) for name, entry in header.items()}


def write_safetensors(path: Path, arrays: dict[str, numpy.ndarray], dtypes: dict[str, str] | None = None) -> None:
    """dtypes: the format's name of an array's type where numpy has no such type (BF16 in uint16)."""
    header, data = {}, b""
    for name, array in arrays.items():
        kind = next(k for k, v in SAFETENSORS.items() if v == array.dtype) if name not in (dtypes or {}) else dtypes[name]
        end = len(data) + array.nbytes
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), end]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def read_torch_file(path: Path) -> dict[str, numpy.ndarray]:
    """What torch.load does, with numpy in the place of torch; refuses every other call that a pickle may make."""
    archive = zipfile.ZipFile(path)
    assert archive.testzip() is None, "checksums"

    def rebuild(storage: numpy.ndarray, offset: int, shape: tuple[int, ...], strides: tuple[int, ...],
                requires_grad: bool, hooks: OrderedDict[str, Any]) -> numpy.ndarray:
        assert not requires_grad and not hooks
        in_bytes = [stride * storage.itemsize for stride in strides]
        return numpy.lib.stride_tricks.as_strided(storage[offset:], shape, in_bytes)

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if module == "torch" and name in STORAGES:
                return STORAGES[name]
            return {("torch._utils", "_rebuild_tensor_v2"): rebuild,
                    ("collections", "OrderedDict"): OrderedDict}[module, name]

        def persistent_load(self, pid: tuple[str, str, str, str, int]) -> numpy.ndarray:
            kind, dtype, key, device, elements = pid
            assert (kind, device) == ("storage", "cpu")
            storage = numpy.frombuffer(archive.read(f"archive/data/{key}"), dtype)
            assert storage.size == elements
            return storage

    with archive.open("archive/data.pkl") as file:
        return Unpickler(file).load()
