"""Runs the real program on small decks: starts it under mpirun, watches what it writes, signals its ranks, reads what is
left. The environment names the program (PIPEFILL), mpirun (MPIRUN) and the sources (PIPEFILL_SOURCE_DIR)."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

PIPEFILL = os.environ["PIPEFILL"]
MPIRUN = os.environ["MPIRUN"]
SOURCE_DIR = pathlib.Path(os.environ["PIPEFILL_SOURCE_DIR"])

FINISHED, USAGE, DAMAGED, MISSING, NO_DEVICE, CANNOT_CREATE, INPUT_OUTPUT = 0, 64, 65, 66, 69, 73, 74
STOPPED, LOST_PEER, DECK, DIVERGED = 75, 76, 78, 79

# A step of some milliseconds on a quiet core; no checkpoint but the last.
DECK_TEXT = """\
run: {steps: 6, seed: 3}
model: {layers: 4, channels: 16, heads: 2, context: 8}
data: {source: synthetic, vocab: 11, validation_tokens: 0}
schedule: {name: 1f1b, microbatches: 2, microbatch_size: 2}
optimizer: {warm_up: 2}
trace: {enabled: false}
device: {threads: 1}
"""
LONG_RUN = ["run.steps=100000", "model.channels=32", "model.context=32"]  # never ends by itself in a test's time


def launch(words, ranks):
    """The command line for these words; without mpirun for no ranks."""
    return ([MPIRUN, "--timeout", "900", "-n", str(ranks)] if ranks else []) + [PIPEFILL, *map(str, words)]


def call(*words, ranks=0, timeout=120, **options):
    """Exit code and all output of the program run to its end."""
    done = subprocess.run(launch(words, ranks), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=timeout, **options)
    return done.returncode, done.stdout


def rank_pids(mpirun_pid):
    """Pid of each rank below this mpirun, by rank."""
    pids = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            parent = pathlib.Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == mpirun_pid:
                environment = pathlib.Path("/proc", entry, "environ").read_bytes()
                found = re.search(rb"\bOMPI_COMM_WORLD_RANK=(\d+)", environment)
                if found:
                    pids[int(found.group(1))] = int(entry)
    return pids


def is_alive(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


class Job:
    """A train command that runs in the background."""

    def __init__(self, run, ranks, words, **options):
        self.run = run
        self.ranks = ranks
        self.process = subprocess.Popen(launch(["train", run.deck, f"run.directory={run.path}", *words], ranks),
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)

    def pid_of(self, rank):
        return rank_pids(self.process.pid)[rank]

    def until(self, condition, what, timeout=60):
        """Waits until `condition()` gives something; fails when the job ends or the time passes first."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode} before {what}:\n{self.process.stdout.read()}")
            time.sleep(0.004)
        raise AssertionError(f"not within {timeout} s: {what}")

    def until_step(self, step, attempt=None):
        self.until(lambda: any(line["step"] >= step and attempt in (None, line["attempt"])
                               for line in self.run.lines()[-3:]), f"step {step}")

    def end(self, timeout=60):
        """Exit code and output, once it has ended."""
        output = self.process.communicate(timeout=timeout)[0]
        return self.process.returncode, output

    def kill(self):
        if self.process.stdout.closed:
            return
        if self.process.poll() is None:
            pids = rank_pids(self.process.pid)
            self.process.kill()
            for pid in pids.values():
                with contextlib.suppress(OSError):
                    os.kill(pid, 9)
        self.process.communicate()


class Run:
    """A run directory and the deck it comes from."""

    def __init__(self, path, deck):
        self.path = pathlib.Path(path)
        self.deck = deck

    def train(self, *words, ranks=2, **options):
        return call("train", self.deck, f"run.directory={self.path}", *words, ranks=ranks, **options)

    def all_lines(self):
        """metrics.jsonl so far; half a line at its end is left out."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            text = (self.path / "metrics.jsonl").read_text()
            return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]
        return []

    def lines(self):
        """The training lines so far."""
        return [line for line in self.all_lines() if "loss" in line and "step" in line]

    def losses(self):
        """The last attempt's loss of each step, as text: equal text is equal bits."""
        losses = {}
        with contextlib.suppress(FileNotFoundError):
            for line in (self.path / "metrics.jsonl").read_text().splitlines():
                found = re.search(r'"loss":([^,}]+)', line)
                if found and '"step":' in line:
                    losses[json.loads(line)["step"]] = found.group(1)
        return losses

    def status(self):
        return json.loads((self.path / "status.json").read_text())

    def log(self):
        return (self.path / "log.txt").read_text()

    def checkpoints(self):
        """Steps of the checkpoints, oldest first."""
        folder = self.path / "checkpoints"
        return sorted(int(entry.name[5:]) for entry in folder.glob("step-*")) if folder.exists() else []

    def checkpoint(self, step):
        return self.path / "checkpoints" / f"step-{step:08d}"

    def manifest(self, step=None):
        return json.loads((self.checkpoint(step or self.checkpoints()[-1]) / "MANIFEST.json").read_text())

    def hashes(self, step=None):
        """Hash of each parameter and moment, by group and name, whatever the layout that wrote them."""
        return {(record["group"], record["tensor"], *record["rows"]): record["xxh3_128"]
                for file in self.manifest(step)["files"] for record in file.get("tensors", [])}


class RunTest(unittest.TestCase):
    """A test with a scratch directory and jobs that are ended with it."""

    maxDiff = 2000

    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="pipefill-run-"))
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.deck = self.scratch / "deck.yaml"
        self.deck.write_text(DECK_TEXT)

    def new_run(self, name="run"):
        return Run(self.scratch / name, self.deck)

    def start(self, run, *words, ranks=2, **options):
        job = Job(run, ranks, words, **options)
        self.addCleanup(job.kill)
        return job

    def trained(self, name, *words, ranks=2):
        """A run of the deck to its end."""
        run = self.new_run(name)
        code, output = run.train(*words, ranks=ranks)
        self.assertEqual(code, FINISHED, output)
        return run

    def assert_same_run(self, run, expected, what=""):
        """The same losses at the same steps, the same weights and moments at the end, bit for bit."""
        self.assertEqual(run.losses(), expected.losses(), what)
        self.assertEqual(run.hashes(), expected.hashes(), what)
