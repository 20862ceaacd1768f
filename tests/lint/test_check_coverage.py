# SPDX-License-Identifier: Apache-2.0
"""Tests of check_coverage.py."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from check_coverage import missing


class Coverage(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "tests/fault").mkdir(parents=True)
        (self.root / "tests/unit").mkdir()
        (self.root / "tests/fault/test_kill.py").write_text("def test_of_a_rank(self) -> None:\n")
        (self.root / "tests/unit/a_test.cpp").write_text("TEST_F(Suite,\n       Works) {}\n")

    def page(self, text: str) -> list[str]:
        (self.root / "tests/fault/COVERAGE.md").write_text(text)
        return missing(self.root)

    def test_names_that_exist_pass(self) -> None:
        self.assertEqual(self.page("| x | test_kill.py: test_of_a_rank; `Suite.Works` |"), [])

    def test_names_that_do_not_are_found(self) -> None:
        self.assertEqual(
            self.page("| x | test_kill.py: test_of_two; test_other.py: test_of_a_rank; `Suite.Fails` |"),
            ["test_kill.py: test_of_two", "test_other.py: test_of_a_rank", "Suite.Fails"],
        )


if __name__ == "__main__":
    unittest.main()
