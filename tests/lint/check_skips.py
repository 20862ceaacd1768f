#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when every test of a label was skipped: such a label proves nothing.

Reads the labels from `ctest --show-only=json-v1` and the outcome from what `ctest --output-junit`
wrote. Labels of which no test was selected are left alone. Silent when all is well.
"""
import argparse
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def labels_of_tests(build_dir: Path) -> dict[str, list[str]]:
    """Labels [test name]."""
    listing = subprocess.run(
        ["ctest", "--test-dir", str(build_dir), "--show-only=json-v1"],
        check=True, capture_output=True, text=True)
    labels: dict[str, list[str]] = {}
    for test in json.loads(listing.stdout)["tests"]:
        for entry in test.get("properties", []):
            if entry["name"] == "LABELS":
                labels[test["name"]] = entry["value"]
    return labels


def wholly_skipped(labels: dict[str, list[str]], junit: Path) -> dict[str, list[str]]:
    """Names of the tests [label], of labels all of whose tests were skipped."""
    outcomes: dict[str, dict[str, bool]] = {}  # [label][test name]: skipped?
    for case in ElementTree.parse(junit).iter("testcase"):
        skipped = case.find("skipped") is not None
        for label in labels.get(case.attrib["name"], []):
            outcomes.setdefault(label, {})[case.attrib["name"]] = skipped
    return {label: sorted(tests) for label, tests in outcomes.items() if all(tests.values())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build_dir", type=Path)
    parser.add_argument("junit", type=Path, help="what ctest --output-junit wrote")
    arguments = parser.parse_args()
    skipped = wholly_skipped(labels_of_tests(arguments.build_dir), arguments.junit)
    for label, tests in sorted(skipped.items()):
        print(f"label '{label}': all {len(tests)} tests were skipped ({', '.join(tests)}).\n"
              f"  Their output says why: ctest --test-dir {arguments.build_dir} -L '^{label}$' -V",
              file=sys.stderr)
    return 1 if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
