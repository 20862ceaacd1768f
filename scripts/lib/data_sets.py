# SPDX-License-Identifier: Apache-2.0
"""The data sets of scripts/get_data, which imports this: where each comes from, what it holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CIFAR_PLANES_BYTES = 3 * 32 * 32


@dataclass(frozen=True)
class Dataset:
    place: str  # below --dir: its folder, or the file itself of a data set that is one file
    files: dict[str, int]  # name -> bytes, decoded where it is a .gz
    url: str  # of the folder that holds the downloads
    md5: dict[str, str]  # download -> checksum: one archive or text, or each of the files
    packaged: Path | None = None  # where a distribution's package puts the files
    from_images: bool = False  # can be made from them

    @property
    def one_file(self) -> bool:
        return self.place in self.files


MNIST_FILES = {
    "train-images-idx3-ubyte.gz": 16 + 60000 * 28 * 28,
    "train-labels-idx1-ubyte.gz": 8 + 60000,
    "t10k-images-idx3-ubyte.gz": 16 + 10000 * 28 * 28,
    "t10k-labels-idx1-ubyte.gz": 8 + 10000,
}
CIFAR10_FILES = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]

DATASETS = {
    "cifar10": Dataset(
        place="cifar-10-batches-bin",
        files=dict.fromkeys(CIFAR10_FILES, 10000 * (1 + CIFAR_PLANES_BYTES)),
        url="https://www.cs.toronto.edu/~kriz/",
        md5={"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"},
        from_images=True,
    ),
    "cifar100": Dataset(
        place="cifar-100-binary",
        files={
            "train.bin": 50000 * (2 + CIFAR_PLANES_BYTES),
            "test.bin": 10000 * (2 + CIFAR_PLANES_BYTES),
        },
        url="https://www.cs.toronto.edu/~kriz/",
        md5={"cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8"},
    ),
    "mnist": Dataset(
        place="mnist",
        files=MNIST_FILES,
        url="https://ossci-datasets.s3.amazonaws.com/mnist/",
        md5={
            "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
    ),
    "fashion_mnist": Dataset(
        place="fashion_mnist",
        files=MNIST_FILES,
        url="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        md5={
            "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        },
        packaged=Path("/usr/share/datasets/fashion-mnist"),
    ),
    "tinyshakespeare": Dataset(
        place="tinyshakespeare.txt",
        files={"tinyshakespeare.txt": 1115394},
        url="https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/",
        md5={"input.txt": "6fb458f1232090904fb40fe944165e91"},
    ),
}
