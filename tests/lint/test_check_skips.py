#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
import tempfile
import unittest
from pathlib import Path

import check_skips


class WhollySkippedTest(unittest.TestCase):
    def outcome(self, cases: str, labels: dict[str, list[str]]) -> dict[str, list[str]]:
        with tempfile.TemporaryDirectory() as folder:
            junit = Path(folder) / "tests.xml"
            junit.write_text(f"<testsuite>{cases}</testsuite>")
            return check_skips.wholly_skipped(labels, junit)

    def test_names_a_label_of_which_all_tests_skip(self) -> None:
        cases = ('<testcase name="a" status="notrun"><skipped message="x"/></testcase>'
                 '<testcase name="b" status="notrun"><skipped message="x"/></testcase>'
                 '<testcase name="c" status="run"/>')
        self.assertEqual(self.outcome(cases, {"a": ["fault"], "b": ["fault"], "c": ["unit"]}),
                         {"fault": ["a", "b"]})

    def test_accepts_a_label_of_which_one_test_ran(self) -> None:
        cases = ('<testcase name="a" status="notrun"><skipped message="x"/></testcase>'
                 '<testcase name="b" status="run"/>')
        self.assertEqual(self.outcome(cases, {"a": ["fault"], "b": ["fault"]}), {})

    def test_leaves_labels_alone_that_were_not_selected(self) -> None:
        self.assertEqual(self.outcome('<testcase name="c" status="run"/>',
                                      {"a": ["fault"], "c": ["unit"]}), {})


if __name__ == "__main__":
    unittest.main()
