"""pipefill check and the command line: exit codes, where the text goes, and that nothing is written."""
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = os.path.abspath(os.environ["PIPEFILL"])
INPUTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "inputs")


class CheckTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def deck(self, text, name="deck.yaml"):
        with open(os.path.join(self.directory.name, name), "w", encoding="utf-8") as file:
            file.write(text)
        return name

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], cwd=self.directory.name, capture_output=True, text=True, timeout=60)

    def expect(self, code, text, *arguments):
        """Runs; an error goes to stderr with nothing on stdout, and the directory stays as it was."""
        before = sorted(os.listdir(self.directory.name))
        result = self.run_program(*arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        if code == 0:
            self.assertEqual(result.stderr, "")
            self.assertIn(text, result.stdout)
        else:
            self.assertEqual(result.stdout, "")
            self.assertTrue(result.stderr.startswith("pipefill: error: "), result.stderr)
            self.assertIn(text, result.stderr)
        self.assertEqual(sorted(os.listdir(self.directory.name)), before)
        return result

    def test_good_decks(self):
        self.expect(0, "embedded deck: the deck is valid", "check")
        self.expect(0, "tiny.yaml: the deck is valid", "check", os.path.join(INPUTS, "tiny.yaml"))
        self.expect(0, "layers of each stage: 3, 1", "check", "--ranks", "2", "parallel.layers=[3, 1]")
        licences = 'data.files=["/usr/share/common-licenses/*"]'
        if os.path.isdir("/usr/share/common-licenses"):
            self.expect(0, "vocabulary 256", "check", "data.source=bytes", licences)

    def test_resolved_deck_is_a_deck(self):
        first = self.expect(0, "steps: 12", "check", "--resolved", "run.steps=12").stdout
        again = self.expect(0, "steps: 12", "check", "--resolved", self.deck(first)).stdout
        self.assertEqual(first, again)

    def test_bad_decks(self):
        deck = self.deck("run:\n  stesp: 5\nmodel:\n  tied: yes\n")
        result = self.expect(78, "deck.yaml:2:3: run.stesp: unknown key; did you mean 'run.steps'?", "check", deck, "log.every=0")
        self.assertIn("3 errors in the deck deck.yaml", result.stderr)
        self.assertIn("    2 |   stesp: 5\n      |   ^\n", result.stderr)
        self.assertIn("deck.yaml:4:9: model.tied: expected true or false, got yes", result.stderr)
        self.assertIn("command line: log.every=0: log.every: ", result.stderr)

    def test_what_a_deck_names(self):
        self.expect(66, "nowhere.yaml", "check", "nowhere.yaml")
        self.expect(69, "this version computes on CPUs only; set device.kind to auto or cpu", "check", "device.kind=cuda")
        self.expect(66, "/nowhere/", "check", "data.source=bytes", "data.files=[/nowhere/*]")
        self.expect(78, "2 stages x 1 replica need 2 ranks, there are 4", "check", "--ranks", "4", "parallel.stages=2")
        self.expect(78, "the deck does not fit 4 ranks", "check", "--ranks", "4", "parallel.stages=2")
        self.expect(78, "", "check", "--ranks", "64")  # more stages than four layers can be cut into

    def test_what_is_no_deck(self):
        """Nothing waits, nothing fills the memory, and a file from another system is read."""
        good = "run: {steps: 3}\nmodel: {layers: 2}\n"
        for name, content in {"bom": b"\xef\xbb\xbf" + good.encode(), "crlf": good.replace("\n", "\r\n").encode()}.items():
            with open(os.path.join(self.directory.name, name), "wb") as file:
                file.write(content)
            self.expect(0, "model: 2 layers", "check", name)
        wrong = {"empty": (b"", "empty:1:1: empty"), "large": (b"# x\n" * 25_000_000, "are more than the 1048576 allowed"),
                 "zeros": (bytes(1000), "control character 0x00"), "utf16": (good.encode("utf-16"), "not UTF-8"),
                 "program": (pathlib.Path(PROGRAM).read_bytes()[:100_000], "not UTF-8")}
        for name, (content, text) in wrong.items():
            with open(os.path.join(self.directory.name, name), "wb") as file:
                file.write(content)
            self.expect(78, text, "check", name)
        self.expect(66, "this is a directory", "check", self.directory.name)
        os.mkfifo(os.path.join(self.directory.name, "fifo"))
        for name in ("fifo", "/dev/zero"):
            self.expect(66, "this is not a regular file", "check", name)
        self.expect(66, "fifo: this is not a regular file", "plan", "fifo", "--ranks", "2")
        self.expect(74, "File name too long", "trace", "merge", "x" * 5000)

    def test_output_that_cannot_be_written_is_an_error(self):
        commands = [["check"], ["check", "--resolved"], ["check", "--reference"], ["plan", "--ranks", "2"], ["--version"],
                    ["--help"], ["plan", "--help"]]
        for words in commands:
            for redirect in (">/dev/full", ">&-"):
                with self.subTest(words=words, redirect=redirect):
                    result = subprocess.run(["sh", "-c", f'exec "$@" {redirect}', "sh", PROGRAM, *words], timeout=60,
                                            cwd=self.directory.name, stderr=subprocess.PIPE, text=True)
                    self.assertEqual(result.returncode, 74, result.stderr)
                    self.assertIn("standard output: not all of the result could be written", result.stderr)

    def test_usage(self):
        self.expect(64, "'pipefill' needs a command: train, check, plan, status, halt, checkpoint, trace, fill, doctor.")
        self.expect(64, "'pipefill trace' needs a command: summary, merge.", "trace")
        self.expect(64, "did you mean 'check'?", "chekc")
        self.expect(64, "did you mean '--ranks'?", "check", "--rank=3")
        for wrong in ("0", "many"):
            self.expect(64, f"--ranks: Value {wrong} not in range", "check", "--ranks", wrong)
        self.expect(64, "two decks given", "check", "a.yaml", "b.yaml")
        for words in (["check", ""], ["check", "", "run.steps=3"], ["status", ""]):
            self.expect(64, "is empty; an unset variable?", *words)

    def test_help_and_version(self):
        self.expect(0, "check", "--help")
        self.expect(0, "--ranks", "check", "--help")
        version = self.expect(0, "pipefill ", "--version").stdout
        for name in ("MPI", "HDF5", "yaml-cpp", "oneDNN", "compiler", "build"):
            self.assertIn(name, version)


if __name__ == "__main__":
    unittest.main()
