#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
import shutil
import tempfile
import unittest
from pathlib import Path

import check_format

CLANG_FORMAT = shutil.which("clang-format-14")


@unittest.skipIf(CLANG_FORMAT is None, "clang-format-14 is not installed")
class FormatTest(unittest.TestCase):
    def test_names_the_files_that_would_change_and_no_others(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / ".clang-format").write_text("BasedOnStyle: Google\n")
            (root / "models").mkdir()
            (root / "models/good.cpp").write_text("int a = 1;\n")
            (root / "models/bad.cpp").write_text("int  a=1;\n")
            self.assertEqual(check_format.unformatted(CLANG_FORMAT, root), ["models/bad.cpp"])


if __name__ == "__main__":
    unittest.main()
