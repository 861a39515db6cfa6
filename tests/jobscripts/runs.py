"""Shared by the tests of the job scripts: a small deck in a directory of its own, and waiting with a limit."""

import json
import os
import pathlib
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIPEFILL = os.environ.get("PIPEFILL", str(ROOT / "build/release/app/pipefill"))

DECK = """
run:
  steps: {steps}
model:
  layers: 2
  channels: 32
  heads: 2
  context: 32
data:
  source: synthetic
  vocab: 16
  validation_tokens: 512
schedule:
  microbatches: 2
  microbatch_size: 1
optimizer:
  warm_up: 2
"""
ENDLESS = 100_000_000


class Runs(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="pipefill-jobscripts-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def write_deck(self, name, steps):
        (self.directory / f"{name}.yaml").write_text(DECK.format(steps=steps))
        return f"{name}.yaml"

    def status(self, name):
        """status.json of runs/<name>, or {} while there is none."""
        try:
            return json.loads((self.directory / "runs" / name / "status.json").read_text())
        except FileNotFoundError:
            return {}

    def wait_until(self, what, condition, seconds, explain=lambda: ""):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                self.fail(f"after {seconds} s still not: {what}\n{explain()}")
            time.sleep(0.1)
