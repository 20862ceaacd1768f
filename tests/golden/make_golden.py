#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the golden losses: what PyTorch computes for four small trainings, as tests/golden/NAME.json.

  make_golden.py [--out FOLDER] [NAME ...]

Wants Python with torch; the tests themselves read the JSON only. Each file holds
  config   the training in Trireme's keys (without data); this script reads its numbers from there, too
  data     what the samples are made of: see `samples`
  float64  twenty losses (mean over the batch, before each update) in float64
  float32  the first three in float32

Weights and samples come from one formula that tests/support/golden_fill.hpp repeats:
  hash(name, i)  = splitmix64(fnv1a64(name) + i)                        64 bits, all arithmetic modulo 2^64
  value(name, i) = (hash >> 11) * 2^-52 - 1                             [-1, 1), exact in float64
A parameter `name` of the model is filled element by element in its logical order, in float64, then rounded to the
training's type:
  two and more dimensions   value / sqrt(elements / size of the first dimension)
  weight of a norm          1 + 0.1 * value                             one dimension, name ends in "weight"
  anything else             0.1 * value
"""
import argparse
import json
import math
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

STEPS = 20
MASK = 2**64 - 1
Config = dict[str, dict[str, Any]]

NORMALISE = {"mean": [0.4914, 0.4822, 0.4465], "std": [0.2470, 0.2435, 0.2616]}
IMAGES = {"input_shape": [3, 32, 32], "num_classes": 10, **NORMALISE}
# In float32 a ReLU or pooling near its kink may fall to either side, by instruction set and threads. These cases were
# chosen so that none does in the first three steps: with 1 and 2 threads, with oneDNN and without, and with AVX-512, AVX2
# and SSE4.1, PyTorch's float32 losses then lie within 4e-6 of float64's.
CASES: dict[str, tuple[Config, dict[str, Any]]] = {
    "mlp": (
        {
            "model": {"name": "mlp", "hidden": [32, 24]},
            "optimizer": {"name": "adamw", "lr": 0.02, "weight_decay": 0.1, "beta2": 0.95},
            "schedule": {"name": "cosine", "unit": "steps", "warmup": 5, "final_fraction": 0.1},
            "train": {"max_steps": STEPS, "global_batch": 16, "clip_norm": 0.5},
        },
        {**IMAGES, "num_samples": 64},
    ),
    "resnet18": (
        {
            "model": {"name": "resnet18", "stem": "cifar"},
            "optimizer": {"name": "sgd", "lr": 0.0005, "momentum": 0.9, "nesterov": True, "weight_decay": 5e-4},
            "schedule": {"name": "constant"},
            "train": {"max_steps": STEPS, "global_batch": 8},
        },
        {**IMAGES, "input_shape": [3, 8, 8], "num_samples": 32},  # float64 convolutions are slow
    ),
    "gpt": (
        {
            "model": {"name": "gpt", "layers": 2, "width": 32, "heads": 4},
            "optimizer": {
                "name": "adamw", "lr": 0.01, "weight_decay": 0.1, "beta2": 0.99,
                "groups": [{"match": "*.bias", "weight_decay": 0.0}, {"match": "*ln?.*", "weight_decay": 0.0},
                           {"match": "norm.*", "weight_decay": 0.0}],
            },
            "schedule": {"name": "constant"},
            "train": {"max_steps": STEPS, "global_batch": 8},
        },
        {"input_shape": [16], "num_classes": 256, "num_samples": 40},
    ),
    "cifar_net": (
        {
            "model": {"name": "cifar_net", "width": 8, "whiten_samples": 0, "channels_last": True},
            "optimizer": {
                "name": "sgd", "lr": 0.053, "momentum": 0.85, "nesterov": True, "weight_decay": 0.000604,
                "muon_steps": 3, "muon_normalize_weights": True,
                "groups": [{"match": "whiten.bias", "duration": 1.5},
                           {"match": "groups.*.bias"},
                           {"match": "head.weight", "lr": 0.67, "weight_decay": 0.0000478},
                           {"match": "groups.*.conv?.weight", "name": "muon", "lr": 0.24, "momentum": 0.6,
                            "weight_decay": 0.0}],
            },
            "schedule": {"name": "linear", "unit": "epochs"},
            "loss": {"name": "cross_entropy", "reduction": "sum", "label_smoothing": 0.2},
            "train": {"max_steps": STEPS, "global_batch": 8},
        },
        {**IMAGES, "num_samples": 64},
    ),
}


def hash64(name: str, first: int, count: int) -> list[int]:
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 & MASK
    result = []
    for i in range(first, first + count):
        z = seed + i + 0x9E3779B97F4A7C15 & MASK
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        result.append(z ^ z >> 31)
    return result


def fill(name: str, parameter: Tensor) -> None:
    values = torch.tensor([(h >> 11) * 2.0**-52 - 1 for h in hash64(name, 0, parameter.numel())], dtype=torch.float64)
    values = values.reshape(parameter.shape)
    if parameter.ndim >= 2:
        values = values / math.sqrt(parameter.numel() // parameter.shape[0])
    else:
        values = 0.1 * values
        values = 1 + values if name.endswith("weight") else values
    parameter.data.copy_(values)


def samples(data: dict[str, Any], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Images: byte i of all images together is the top byte of hash("image", i), scaled to [0, 1] and normalised; the
    label of sample s is hash("label", s) % num_classes. Tokens: token i of the text is the top byte of hash("token", i);
    sample s is tokens s * T .. s * T + T - 1, its targets the tokens one later."""
    n, shape = data["num_samples"], data["input_shape"]
    if len(shape) == 1:
        (length,) = shape
        text = torch.tensor([h >> 56 for h in hash64("token", 0, n * length + 1)])
        return text[:-1].reshape(n, length), text[1:].reshape(n, length)
    pixels = torch.tensor([h >> 56 for h in hash64("image", 0, n * math.prod(shape))], dtype=torch.uint8)
    labels = torch.tensor([h % data["num_classes"] for h in hash64("label", 0, n)])
    # As the loader: scaled and normalised in float32, whatever the training's precision.
    mean, std = (torch.tensor(data[key], dtype=torch.float32)[:, None, None] for key in ("mean", "std"))
    return ((pixels.reshape(n, *shape).float() / 255 - mean) / std).to(dtype), labels


class Mlp(nn.Module):
    def __init__(self, hidden: list[int], inputs: int, classes: int) -> None:
        super().__init__()
        widths = [inputs, *hidden, classes]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        for i, layer in enumerate(self.layers):
            x = layer(x if i == 0 else F.relu(x))
        return x


class BasicBlock(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        same = cin == cout and stride == 1
        self.downsample = None if same else nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """torchvision's, with the stem for small images."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        widths = [64, 64, 128, 256, 512]
        for i, (cin, cout) in enumerate(zip(widths, widths[1:])):
            stage = nn.Sequential(BasicBlock(cin, cout, 1 if i == 0 else 2), BasicBlock(cout, cout, 1))
            self.add_module(f"layer{i + 1}", stage)
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        for i in range(4):
            x = self.get_submodule(f"layer{i + 1}")(x)
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class GptBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, t, width = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(n, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, width)
        x = x + self.proj(y)
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, context: int, vocabulary: int) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[GptBlock(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token(ids) + self.position(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


class CifarGroup(nn.Module):
    def __init__(self, cin: int, cout: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.norm1, self.norm2 = (nn.BatchNorm2d(cout, eps=1e-12, momentum=0.4) for _ in range(2))
        for norm in (self.norm1, self.norm2):
            norm.weight.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(x)))


class CifarNet(nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        self.whiten.weight.requires_grad_(False)
        self.groups = nn.Sequential(CifarGroup(24, width), CifarGroup(width, 4 * width), CifarGroup(4 * width, 4 * width))
        self.head = nn.Linear(4 * width, classes, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.groups(F.gelu(self.whiten(x)))
        return self.head(F.max_pool2d(x, 3).flatten(1)) / 256


def make_model(options: dict[str, Any], data: dict[str, Any]) -> nn.Module:
    classes, shape = data["num_classes"], data["input_shape"]
    if options["name"] == "mlp":
        return Mlp(options["hidden"], math.prod(shape), classes)
    if options["name"] == "resnet18":
        return ResNet18(classes)
    if options["name"] == "gpt":
        return Gpt(options["layers"], options["width"], options["heads"], shape[0], classes)
    return CifarNet(options["width"], classes)


class Muon(torch.optim.Optimizer):
    """As in the CIFAR-10 recipe: weights are normalised, three iterations in full precision."""

    def __init__(self, params: list[Tensor], lr: float, momentum: float, steps: int) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "steps": steps})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("momentum", torch.zeros_like(p))
                m.mul_(group["momentum"]).add_(p.grad)
                p.mul_(len(p) ** 0.5 / p.norm())
                p.sub_(self.update(p.grad + group["momentum"] * m, group["steps"]), alpha=group["lr"])

    @staticmethod
    def update(gradient: Tensor, steps: int) -> Tensor:
        x = gradient.reshape(len(gradient), -1)
        x = x / (x.norm() + 1e-7)
        tall = x.shape[0] > x.shape[1]
        x = x.T if tall else x
        for _ in range(steps):
            y = x @ x.T
            x = 3.4445 * x + (-4.7750 * y + 2.0315 * y @ y) @ x
        return (x.T if tall else x).reshape(gradient.shape)


def make_optimizer(settings: dict[str, Any], params: list[Tensor]) -> torch.optim.Optimizer:
    lr, momentum, decay = settings["lr"], settings.get("momentum", 0.0), settings.get("weight_decay", 0.0)
    if settings["name"] == "sgd":
        return torch.optim.SGD(params, lr=lr, momentum=momentum, weight_decay=decay, nesterov=settings["nesterov"])
    if settings["name"] == "adamw":
        return torch.optim.AdamW(params, lr=lr, betas=(0.9, settings["beta2"]), weight_decay=decay)
    return Muon(params, lr, momentum, settings["muon_steps"])


def factor(schedule: dict[str, Any], duration: float, step: int) -> float:
    """The rate over its base rate; duration in steps."""
    warmup = schedule.get("warmup", 0)
    if schedule["name"] == "constant":
        return 1.0
    if step < warmup:
        return (step + 1) / warmup
    t = min(1.0, (step - warmup) / (duration - warmup))
    if schedule["name"] == "linear":
        return 1 - t
    last = schedule["final_fraction"]
    return last + (1 - last) * (1 + math.cos(math.pi * t)) / 2


Part = tuple[torch.optim.Optimizer, float, Callable[[int], float]]


def make_parts(config: Config, model: nn.Module, steps_per_epoch: int) -> list[Part]:
    """Each group's optimizer, base rate and factor of the rate: the first group that matches takes a parameter."""
    optimizer = dict(config["optimizer"])
    groups = [*optimizer.pop("groups", []), {"match": "*"}]
    left = {name: p for name, p in model.named_parameters() if p.requires_grad}
    parts: list[Part] = []
    for group in groups:
        params = [left.pop(name) for name in list(left) if fnmatchcase(name, group["match"])]
        if not params:
            continue
        settings = {**optimizer, **group}
        duration = group["duration"] * steps_per_epoch if "duration" in group else float(STEPS)
        rate = lambda step, duration=duration: factor(config["schedule"], duration, step)  # noqa: E731
        parts.append((make_optimizer(settings, params), settings["lr"], rate))
    return parts


def clip(params: list[Tensor], limit: float) -> None:
    """Scales to the limit where the norm is above it; torch's clip_grad_norm_ adds 1e-6 to the norm."""
    norm = torch.stack([p.grad.norm() for p in params]).norm()
    if norm > limit:
        for p in params:
            p.grad.mul_(limit / norm)


def losses(config: Config, data: dict[str, Any], dtype: torch.dtype, steps: int) -> list[float]:
    model = make_model(config["model"], data).to(dtype)
    for name, parameter in model.named_parameters():
        fill(name, parameter)
    if config["model"].get("channels_last", False):
        model = model.to(memory_format=torch.channels_last)
    inputs, targets = samples(data, dtype)
    batch, train = config["train"]["global_batch"], config["train"]
    steps_per_epoch = data["num_samples"] // batch
    parts = make_parts(config, model, steps_per_epoch)
    loss = config.get("loss", {})
    summed = loss.get("reduction", "mean") == "sum"
    result = []
    for step in range(steps):
        first = step % steps_per_epoch * batch
        x, y = inputs[first : first + batch], targets[first : first + batch].flatten()
        value = F.cross_entropy(model(x), y, label_smoothing=loss.get("label_smoothing", 0.0))
        result.append(value.item())
        model.zero_grad()
        (value * len(y) if summed else value).backward()
        if "clip_norm" in train:
            clip([p for p in model.parameters() if p.requires_grad], train["clip_norm"])
        for optimizer, lr, rate in parts:
            for group in optimizer.param_groups:
                group["lr"] = lr * rate(step)
            optimizer.step()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="default: beside this script")
    arguments = parser.parse_args()
    for name in arguments.names or CASES:
        config, data = CASES[name]
        golden = {
            "made_by": f"make_golden.py, PyTorch {torch.__version__}",
            "config": config,
            "data": data,
            "float64": losses(config, data, torch.float64, STEPS),
            "float32": losses(config, data, torch.float32, 3),
        }
        path = arguments.out / f"{name}.json"
        path.write_text(json.dumps(golden, indent=1) + "\n")
        print(path, golden["float64"][0], "->", golden["float64"][-1])


if __name__ == "__main__":
    main()
