#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks with h5py that a checkpoint of h5py_test.cpp holds what it should."""
import argparse
import json

import h5py
import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="model.h5")
    with h5py.File(parser.parse_args().model, "r") as file:
        assert sorted(file) == ["buffers", "optimizer", "parameters", "state", "step"], list(file)
        assert dict(file.attrs) == {"trireme_format": 2}, dict(file.attrs)
        assert file["step"].dtype == np.int64 and file["step"][()] == 120, file["step"]
        weight = file["parameters/convs.0.weight"]
        assert weight.dtype == np.float32 and weight.shape == (2, 3), weight
        assert (weight[...] == np.arange(6).reshape(2, 3)).all(), weight[...]
        batches = file["buffers/bn1.num_batches_tracked"]
        assert batches.dtype == np.int64 and batches.shape == () and batches[()] == 7, batches
        moment = file["optimizer/exp_avg/convs.0.weight"]
        assert moment.dtype == np.float64 and moment.shape == (0, 3), moment
        assert json.loads(file["state"][()]) == {"step": 120, "name": "é"}, file["state"][()]


if __name__ == "__main__":
    main()
