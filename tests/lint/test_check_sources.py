#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
import tempfile
import unittest
from pathlib import Path

import check_sources

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"


class SourcesTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "framework/src").mkdir(parents=True)

    def breaches(self, file: str, text: str) -> list[str]:
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return check_sources.breaches(self.root)

    def test_accepts_earlier_layers_and_own_headers(self) -> None:
        text = SPDX + '#include "data/loader.hpp"\n#include "comm/agree.hpp"\n#include <vector>\n'
        self.assertEqual(self.breaches("framework/src/data/loader.cpp", text), [])

    def test_names_the_line_that_includes_a_later_layer(self) -> None:
        found = self.breaches("framework/src/comm/a.cpp", SPDX + '\n#include "data/loader.hpp"\n')
        self.assertEqual(found,
                         ["framework/src/comm/a.cpp:3: comm may not include data: data/loader.hpp"])

    def test_keeps_torch_out_of_the_first_layers_directly_and_by_the_public_api(self) -> None:
        for header in ("<torch/types.h>", "<ATen/core/Tensor.h>", '"trireme/registry.hpp"'):
            found = self.breaches("framework/src/data/a.hpp", SPDX + f"#include {header}\n")
            self.assertEqual(len(found), 1, header)
        self.assertEqual(
            self.breaches("framework/src/data/a.hpp", SPDX + '#include "trireme/dataset.hpp"\n'), [])

    def test_follows_own_headers_to_torch(self) -> None:
        self.breaches("framework/include/trireme/tensor.hpp", SPDX + "#include <torch/types.h>\n")
        self.breaches("framework/src/base/a.hpp", SPDX + '#include "trireme/tensor.hpp"\n')
        found = self.breaches("framework/src/data/b.cpp", SPDX + '\n#include "base/a.hpp"\n')
        self.assertIn("framework/src/data/b.cpp:3: data builds without torch: "
                      "base/a.hpp > trireme/tensor.hpp > torch/types.h", found)

    def test_keeps_other_libraries_out_of_the_public_api(self) -> None:
        for header in ("<boost/any.hpp>", "<sys/mman.h>", '"base/text.hpp"', "<fmt.h>"):
            found = self.breaches("framework/include/trireme/a.hpp", SPDX + f"#include {header}\n")
            self.assertEqual(len(found), 1, header)
        text = SPDX + '#include <vector>\n#include <torch/types.h>\n#include "trireme/b.hpp"\n'
        self.assertEqual(self.breaches("framework/include/trireme/a.hpp", text), [])

    def test_allows_five_conditions_in_the_framework(self) -> None:
        text = SPDX + "#if A\n#endif\n" * 5
        self.assertEqual(self.breaches("framework/src/base/a.cpp", text), [])
        found = self.breaches("framework/src/comm/b.cpp", SPDX + "# ifdef B\n#endif\n")
        self.assertEqual(len(found), 1)
        self.assertIn("6 times #if", found[0])

    def test_keeps_headers_of_others_in_their_layer(self) -> None:
        self.assertEqual(self.breaches("framework/src/comm/a.cpp", SPDX + "#include <mpi.h>\n"), [])
        self.assertEqual(
            len(self.breaches("framework/src/train/b.cpp", SPDX + "#include <mpi.h>\n")), 1)

    def test_models_see_the_public_api_only(self) -> None:
        found = self.breaches("models/a.cpp", SPDX + '#include "train/step.hpp"\n')
        self.assertEqual(len(found), 1)

    def test_wants_a_licence_line_and_files_that_are_not_long(self) -> None:
        self.assertEqual(len(self.breaches("models/a.cpp", "int a;\n")), 1)
        self.assertEqual(len(self.breaches("models/a.cpp", SPDX + "\n" * 400)), 1)

    def test_wants_to_know_every_layer(self) -> None:
        found = self.breaches("framework/src/misc/a.cpp", SPDX)
        self.assertEqual(found, ["framework/src/misc: no known layer"])


if __name__ == "__main__":
    unittest.main()
