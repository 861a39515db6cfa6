"""A user's plug-in: built out of tree against an install that was moved, then run by the moved program."""

import os
import shutil
import subprocess

from harness import FINISHED, SOURCE_DIR, RunTest

BINARY_DIR = os.environ["PIPEFILL_BINARY_DIR"]


class Plugin(RunTest):
    def do(self, *command, **options):
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=200, **options)
        self.assertEqual(done.returncode, FINISHED, done.stdout)
        return done.stdout

    def test_the_example_against_a_moved_install(self):
        first, prefix = self.scratch / "first", self.scratch / "moved"
        self.do("cmake", "--install", BINARY_DIR, "--prefix", first)
        first.rename(prefix)
        example = self.scratch / "example"
        shutil.copytree(SOURCE_DIR / "examples/fill_plugin", example)
        self.do("cmake", "-G", "Ninja", "-S", example, "-B", example / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
                "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
        self.do("cmake", "--build", example / "build")
        program = prefix / "bin/pipefill"
        self.do(program, "fill", "run", example / "primes.yaml", "--directory", self.scratch / "run")
        self.assertEqual((self.scratch / "run/fill/primes/primes.txt").read_text(), "78498\n")
        self.assertIn("pipefill 0.1.0", self.do(program, "--version"))
