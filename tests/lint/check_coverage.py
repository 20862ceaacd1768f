#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sees to it that every test that tests/fault/COVERAGE.md names exists.

    check_coverage.py ROOT
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

GTEST = re.compile(r"(?:TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P)\(\s*(\w+),\s*(\w+)")


def missing(root: Path) -> list[str]:
    """What the page names and the sources do not have."""
    page = (root / "tests/fault/COVERAGE.md").read_text()
    tests = root / "tests"
    in_python = {
        (path.name, name)
        for path in tests.rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text())
    }
    in_cpp = {
        f"{suite}.{name}"
        for path in tests.rglob("*.cpp")
        for suite, name in GTEST.findall(path.read_text())
    }
    found = [
        f"{file}: {name}"
        for file, name in re.findall(r"(test_\w+\.py): (test_\w+)", page)
        if (file, name) not in in_python and name != "test_NAME"
    ]
    named = re.findall(r"`(\w+\.[A-Z]\w+)`", page)
    found += [name for name in named if name not in in_cpp and name != "Suite.Name"]
    return found


def main() -> int:
    absent = missing(Path(sys.argv[1]))
    for name in absent:
        print(f"tests/fault/COVERAGE.md names {name}, which is in no test", file=sys.stderr)
    return 1 if absent else 0


if __name__ == "__main__":
    sys.exit(main())
