#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves the layers of framework/docs/DESIGN.md from the includes, and a few rules of form.

Prints a line for each breach: FILE:LINE: what is wrong. Silent when all is well.
"""
import argparse
import re
import sys
from pathlib import Path

# What a layer may include besides itself. The order is that of the build.
LAYERS: dict[str, set[str]] = {
    "base": set(),
    "config": {"base"},
    "comm": {"base"},
    "device": {"base"},
    "data": {"base", "config", "comm"},
    "optim": {"base", "config"},
    "checkpoint": {"base", "comm"},
    "observe": {"base", "config"},
    "parallel": {"base", "config", "comm", "optim"},
    "train": {"base", "config", "comm", "device", "data", "optim", "parallel", "checkpoint",
              "observe"},
    "app": {"base", "config", "comm", "device", "data", "optim", "parallel", "checkpoint", "observe",
            "train"},
}
WITHOUT_TORCH = {"base", "config", "comm", "data", "checkpoint", "observe"}
TORCH = re.compile(r"(torch|ATen|c10)/|trireme/(model|registry|app)\.hpp")
# Headers of others that stay in their layers.
ONLY_IN: list[tuple[re.Pattern[str], set[str]]] = [
    (re.compile(r"mpi\.h|nccl\.h"), {"comm"}),
    (re.compile(r"cuda_runtime"), {"comm", "device"}),
    (re.compile(r"yaml-cpp/"), {"config"}),
    (re.compile(r"hdf5\.h|H5"), {"checkpoint"}),
    (re.compile(r"turbojpeg\.h|png\.h|zlib\.h"), {"data"}),
    (re.compile(r"CLI/"), {"app"}),
    (re.compile(r"xxhash\.h"), {"checkpoint", "train", "app"}),
    (re.compile(r"nlohmann/"), {"config", "checkpoint", "observe", "train", "app"}),
]
# Headers of others that the public API may include.
PUBLIC_OTHERS = re.compile(r"(torch|ATen|c10)/")
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef)\b")
MAX_CONDITIONS = 5
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
MAX_LINES = 400


def breaches_of_include(layer: str, header: str) -> list[str]:
    """layer: a folder of framework/src, or 'models', or 'include' for the public API."""
    found = []
    target = header.split("/")[0]
    if target in LAYERS and target != layer and target not in LAYERS.get(layer, set()):
        found.append(f"{layer} may not include {target}: {header}")
    if layer in WITHOUT_TORCH and TORCH.match(header):
        found.append(f"{layer} builds without torch: {header}")
    public = header.startswith("trireme/") or PUBLIC_OTHERS.match(header)
    other = re.search(r"[./]", header) and target not in LAYERS and not public
    if layer == "include" and other:
        found.append(f"the public API includes only its own headers and torch's: {header}")
    for pattern, layers in ONLY_IN:
        if pattern.match(header) and layer not in layers:
            found.append(f"{header} stays in {', '.join(sorted(layers))}")
    return found


def torch_by(root: Path, header: str, seen: frozenset[str] = frozenset()) -> str:
    """How one of our own headers comes to include torch: "a.hpp > torch/types.h"; "" where not."""
    if TORCH.match(header):
        return header
    path = next((root / folder / header for folder in ("framework/include", "framework/src")
                 if (root / folder / header).is_file()), None)
    if path is None or header in seen:
        return ""
    for line in path.read_text().splitlines():
        include = INCLUDE.match(line)
        if include and (way := torch_by(root, include[1], seen | {header})):
            return f"{header} > {way}"
    return ""


def conditions(root: Path) -> list[str]:
    """Places of the conditional compilation in framework/."""
    return [f"{path.relative_to(root)}:{number}"
            for pattern in ("*.hpp", "*.cpp")
            for path in sorted((root / "framework").rglob(pattern))
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if CONDITION.match(line)]


def breaches(root: Path) -> list[str]:
    found = []
    if len(places_of_conditions := conditions(root)) > MAX_CONDITIONS:
        found.append(f"framework: {len(places_of_conditions)} times #if, at most {MAX_CONDITIONS}: "
                     + ", ".join(places_of_conditions))
    places = [(root / "framework/src" / layer, layer) for layer in LAYERS]
    places += [(root / "models", "models"), (root / "framework/include", "include")]
    for folder, layer in places:
        for path in sorted([*folder.rglob("*.hpp"), *folder.rglob("*.cpp")]):
            lines = path.read_text().splitlines()
            name = path.relative_to(root)
            for number, line in enumerate(lines, 1):
                if include := INCLUDE.match(line):
                    found += [f"{name}:{number}: {text}"
                              for text in breaches_of_include(layer, include[1])]
                    way = torch_by(root, include[1]) if layer in WITHOUT_TORCH else ""
                    if " > " in way:
                        found.append(f"{name}:{number}: {layer} builds without torch: {way}")
            found += breaches_of_form(str(name), lines)
    unknown = {path.name for path in (root / "framework/src").iterdir()} - set(LAYERS)
    return found + [f"framework/src/{name}: no known layer" for name in sorted(unknown)]


def breaches_of_form(name: str, lines: list[str]) -> list[str]:
    found = []
    if not lines or lines[0] != "// SPDX-License-Identifier: Apache-2.0":
        found.append(f"{name}:1: expected '// SPDX-License-Identifier: Apache-2.0'")
    if len(lines) > MAX_LINES:
        found.append(f"{name}:{len(lines)}: {len(lines)} lines; at most {MAX_LINES}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path, help="the checkout")
    found = breaches(parser.parse_args().root)
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
