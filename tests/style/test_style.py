"""The checks find what they are for: each is given a small offender and a small innocent."""

import pathlib
import tempfile
import unittest

import floors
import headers
import rules
import source


class Floors(unittest.TestCase):
    def errors(self, path, text):
        return floors.check(pathlib.PurePosixPath(path), text)

    def test_lower_floors_are_allowed(self):
        self.assertEqual(self.errors("src/engine/trainer.cpp", '#include "base/id.hpp"\n#include "model/stage.hpp"\n'), [])
        self.assertEqual(self.errors("src/data/corpus.cpp", '#include "data/corpus.hpp"\n#include <vector>\n'), [])
        self.assertEqual(self.errors("src/model/block.cpp", '#include "kernels/sgemm/sgemm.hpp"\n'), [])
        self.assertEqual(self.errors("app/train.cpp", '#include "config/run_config.hpp"\n#include "train_parts.hpp"\n'), [])

    def test_upward_and_sideways_are_not(self):
        for path, name in [("src/data/corpus.hpp", "config/run_config.hpp"), ("src/data/corpus.hpp", "comm/cluster.hpp"),
                           ("src/base/log.cpp", "storage/h5_file.hpp"), ("kernels/sgemm/sgemm.cpp", "base/error.hpp"),
                           ("src/schedule/build.cpp", "device/device.hpp")]:
            errors = self.errors(path, f'// head\n#include "{name}"\n')
            self.assertEqual(len(errors), 1, errors)
            self.assertIn(f"{path}:2", errors[0])

    def test_nor_through_angle_brackets_or_blanks(self):
        self.assertTrue(self.errors("src/data/a.cpp", "  #  include <config/run_config.hpp>\n"))
        self.assertTrue(self.errors("src/data/a.cpp", "#include <base/id.hpp>\n"))

    def test_papers_stay_pure(self):
        for header in ("<mpi.h>", "<hdf5.h>", "<yaml-cpp/yaml.h>", "<cuda_runtime.h>"):
            self.assertTrue(self.errors("src/schedule/price.cpp", f"#include {header}\n"), header)
        self.assertEqual(self.errors("src/comm/cluster.cpp", "#include <mpi.h>\n"), [])

    def test_unknown_folders(self):
        self.assertTrue(self.errors("src/utilities/a.hpp", ""))
        self.assertTrue(self.errors("src/data/a.cpp", '#include "utilities/a.hpp"\n'))


class Rules(unittest.TestCase):
    def errors(self, path, text):
        return rules.check(pathlib.PurePosixPath(path), text)

    def test_left_for_later(self):
        later = "TO" "DO"
        self.assertTrue(self.errors("src/a.cpp", f"// head\n// {later}: soon\n"))
        self.assertTrue(self.errors("a.sh", f"# {later}\n"))
        self.assertEqual(self.errors("src/a.cpp", f"// head\n// {later} (#12): soon\n"), [])

    def test_head_length_and_guard(self):
        self.assertEqual(self.errors("src/a.hpp", "// head\n#pragma once\n"), [])
        self.assertTrue(self.errors("src/a.hpp", "// head\n"))
        self.assertTrue(self.errors("src/a.cpp", "int x;\n"))
        self.assertTrue(self.errors("src/a.cpp", '#include "b.hpp"\n'))
        self.assertEqual(self.errors("src/a.cpp", '#include "a.hpp"\n'), [])
        self.assertTrue(self.errors("src/a.cpp", "// head\n" * 401))


class Headers(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        (self.root / "src/data").mkdir(parents=True)

    def write(self, name, text):
        (self.root / "src/data" / name).write_text(text)
        return pathlib.Path("src/data") / name

    def test_compiling_alone(self):
        good = self.write("good.hpp", "#pragma once\n#include <vector>\ninline std::vector<int> f() { return {}; }\n")
        bad = self.write("bad.hpp", "#pragma once\ninline std::vector<int> f() { return {}; }\n")
        twice = self.write("twice.hpp", "#include <vector>\ninline std::vector<int> f() { return {}; }\n")
        self.assertIsNone(headers.compile_alone(self.root, good, ["c++"]))
        self.assertIn("bad.hpp", headers.compile_alone(self.root, bad, ["c++"]))
        self.assertIsNotNone(headers.compile_alone(self.root, twice, ["c++"]))

    def test_proven_by_the_build(self):
        header = self.write("a.hpp", "")
        self.assertFalse(headers.is_proven(self.root, header))
        self.write("a.cpp", '// head\n#include "data/a.hpp"\n#include <vector>\n')
        self.assertTrue(headers.is_proven(self.root, header))
        self.write("a.cpp", '// head\n#include <vector>\n#include "data/a.hpp"\n')
        self.assertFalse(headers.is_proven(self.root, header))

    def test_flags_of_a_command(self):
        command = "ccache /usr/bin/c++ -DX=1 -Isrc -std=c++20 -MD -MT a.o -MF a.o.d -o a.o -c /x/a.cpp"
        self.assertEqual(headers.flags(command), ["/usr/bin/c++", "-DX=1", "-Isrc", "-std=c++20"])


class Source(unittest.TestCase):
    def test_include_lines(self):
        text = '#include <a>\n// #include "no.hpp"\n\n#include "b/c.hpp"  // why\n'
        self.assertEqual(list(source.includes(text)), [(1, "a", False), (4, "b/c.hpp", True)])


if __name__ == "__main__":
    unittest.main()
