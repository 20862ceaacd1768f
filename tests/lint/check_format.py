#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a C++ file is not as clang-format writes it; silent when all is well.

Exits with 77, which ctest counts as skipped, where there is no clang-format.
"""
import argparse
import shutil
import subprocess
import sys
from pathlib import Path

FOLDERS = ("framework", "models", "tests")
SKIPPED = 77


def sources(root: Path) -> list[Path]:
    return sorted(path for folder in FOLDERS for pattern in ("*.hpp", "*.cpp")
                  for path in (root / folder).rglob(pattern))


def unformatted(clang_format: str, root: Path) -> list[str]:
    """Names of the files that clang-format would change."""
    return [str(path.relative_to(root)) for path in sources(root)
            if subprocess.run([clang_format, "--dry-run", "--Werror", str(path)],
                              capture_output=True).returncode != 0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path, help="the checkout")
    root = parser.parse_args().root
    clang_format = shutil.which("clang-format-14")
    if clang_format is None:
        print("skipped: clang-format-14 is not installed", file=sys.stderr)
        return SKIPPED
    found = unformatted(clang_format, root)
    if found:
        print("not formatted; run: clang-format-14 -i " + " ".join(found), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
