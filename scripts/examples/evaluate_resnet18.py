#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Evaluates a resnet18 of Trireme in PyTorch: loads what `trainer export RUN_DIR NAME.pt` has written into a model of
plain torch.nn, and prints its loss and accuracy on images in the IDX format (MNIST and alike), as `trainer eval` does.

Wants Python with torch and numpy. For model.stem: cifar, and pixels scaled to [0, 1] (no data.mean and data.std)."""

import argparse
from pathlib import Path

import numpy
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class BasicBlock(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = None
        if stride > 1 or channels_in != channels:
            self.downsample = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False),
                                            nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """torchvision's, with the stem for small images; the names of its parameters are those of the export."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        widths = [64, 64, 128, 256, 512]
        for i, (before, after) in enumerate(zip(widths, widths[1:])):
            stage = nn.Sequential(BasicBlock(before, after, 1 if i == 0 else 2), BasicBlock(after, after, 1))
            self.add_module(f"layer{i + 1}", stage)
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        for i in range(4):
            x = self.get_submodule(f"layer{i + 1}")(x)
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def read_idx(path: Path) -> Tensor:
    """An array of bytes: 0, 0, 8, number of dimensions, each as four bytes, the elements."""
    content = path.read_bytes()
    dimensions = content[3]
    shape = numpy.frombuffer(content, ">u4", dimensions, 4).tolist()
    return torch.from_numpy(numpy.frombuffer(content, "u1", offset=4 + 4 * dimensions).reshape(shape).copy())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path, help="a file that ends in .pt")
    parser.add_argument("images", type=Path, help="t10k-images-idx3-ubyte")
    parser.add_argument("labels", type=Path, help="t10k-labels-idx1-ubyte")
    arguments = parser.parse_args()

    state = torch.load(arguments.weights, weights_only=True)
    model = ResNet18(state["conv1.weight"].shape[1], state["fc.weight"].shape[0])
    model.load_state_dict(state)  # strict: every parameter and buffer, and no other
    model.eval()
    images = read_idx(arguments.images).unsqueeze(1).float() / 255
    labels = read_idx(arguments.labels).long()
    with torch.no_grad():
        output = torch.cat([model(batch) for batch in images.split(500)])
    print(f"loss {F.cross_entropy(output, labels).item():.9g}")
    print(f"accuracy {(output.argmax(1) == labels).float().mean().item():.9g}")


if __name__ == "__main__":
    main()
