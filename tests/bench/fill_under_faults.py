#!/usr/bin/env python3
"""Question: what do fill jobs that crash, hang, leak, flood, fork and overrun cost the main job?

    tests/bench/fill_under_faults.py [--program ...] [--plugin ...] [--runs 3] [--steps 420]

Runs inputs/fill.yaml over 2 ranks, alternately without fill work and with jobs of the tests' faulty plug-in queued, one
for each fault, tried three times each with back-off, beside the deck's own jobs. Prints for each run the slowdown of the
pairs with the interval of its median (half of the steps are filled, one by one in turn), the jobs' states, and whether
losses and weights are those of the runs without fill work, bit for bit. Exit code 1 where they are not. Needs two quiet
cores and, for three runs of 420 steps, ten minutes."""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

from fill_figures import figures
from fill_strategies import JOBS, PAIRS, ROOT, end, start

FAULTS = ["segv", "abort", "exit", "fail", "leak", "flood", "disk", "fork", "throw", "kill", "slow", "hang"]
JOB = """name: {fault}
kind: plugin
with: {{library: {plugin}, chunks: 200000, chunk_us: 500, fault: {fault}, fault_at: 15}}
limits: {{memory: 256MiB, disk: 16MiB, output: 1MiB, processes: 64}}
"""


def run(options, directory, jobs, strategy):
    end(start(options.program, directory, options.schedule, options.steps, f"fill.strategy={strategy}", *PAIRS, jobs=jobs,
              stderr=subprocess.DEVNULL))


def bits(directory):
    """Loss of every step and hash of every tensor of the last checkpoint."""
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line and "step" in line]
    last = sorted((directory / "checkpoints").glob("step-*"))[-1]
    manifest = json.loads((last / "MANIFEST.json").read_text())
    return losses, {(t["group"], t["tensor"], *t["rows"]): t["xxh3_128"]
                    for file in manifest["files"] for t in file.get("tensors", [])}


def states(directory):
    """How many of the faulty jobs are in which state, and how often all of them failed."""
    found = [json.loads((directory / "fill" / fault / "state.json").read_text()) for fault in FAULTS]
    counts = collections.Counter(state["status"] for state in found)
    return ", ".join(f"{n} {status}" for status, n in counts.items()), sum(state["failures"] for state in found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/release/app/pipefill")
    parser.add_argument("--plugin", default=ROOT / "build/release/tests/run/librun_test_plugin.so")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=420)
    parser.add_argument("--schedule", default="gpipe")
    options = parser.parse_args()
    same = True
    with tempfile.TemporaryDirectory(prefix="pipefill-faults-") as scratch:
        scratch = pathlib.Path(scratch)
        faulty = []
        for fault in FAULTS:
            faulty.append(scratch / f"{fault}.yaml")
            faulty[-1].write_text(JOB.format(fault=fault, plugin=options.plugin))
        for i in range(options.runs):
            plain, filled = scratch / f"plain-{i}", scratch / f"filled-{i}"
            run(options, plain, JOBS, "none")
            run(options, filled, [*faulty, *JOBS], "adaptive")
            f, without, equal = figures(filled), figures(plain), bits(plain) == bits(filled)
            same &= equal
            counts, failures = states(filled)
            print(f"slowdown {100 * f['slowdown']:+.2f} % ({100 * f['low']:+.2f} .. {100 * f['high']:+.2f} %, "
                  f"{f['pairs']} pairs), step {f['step_ms']:.1f} ms, without fill work {without['step_ms']:.1f} ms, "
                  f"coverage {f['coverage']:.3f}; {failures} failures: {counts}; bits {'same' if equal else 'DIFFERENT'}",
                  flush=True)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
