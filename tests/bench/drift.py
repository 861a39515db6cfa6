#!/usr/bin/env python3
"""Question: how soon does what is sold follow bubbles that change in mid-run?

    tests/bench/drift.py [--program build/release/app/pipefill] [--runs 3] [--schedule gpipe]

Runs inputs/fill.yaml over 2 ranks, every step filled. From step 60 on a busy loop takes half of stage 1's cores, so that
stage 0 waits longer; from step 100 on it has them for itself again. Prints, for both changes and each of stage 0's bubbles
that changed by a third or more, the medians of its length before and after; of those that grew, how many steps after the
change it began that four of the next five were sold (`granted_ns`, at most the length, so that it tells nothing of those
that shrank) to within a quarter of the new length, or a millisecond; and, of all bubbles of stage 0 before and after, which
share was filled and how long fill work ran over their end, which is what is lost on those that shrank. Needs two quiet
cores and a minute a run."""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import h5py
import numpy

from fill_strategies import ROOT, end, start

SLOWED, RELEASED, STEPS = 60, 100, 140


def step_now(directory):
    try:
        text = (directory / "metrics.jsonl").read_text()
    except FileNotFoundError:
        return 0
    lines = text[:text.rfind("\n") + 1].splitlines()
    return json.loads(lines[-1]).get("step", 0) if lines else 0


def wait_for_step(main, directory, step):
    while step_now(directory) < step:
        if main.poll() is not None:
            raise SystemExit(f"the run ended with {main.returncode} before step {step}")
        time.sleep(0.02)
    return step_now(directory)


def cores_of_rank(main, rank):
    for pid in pathlib.Path(f"/proc/{main.pid}/task/{main.pid}/children").read_text().split():
        if f"OMPI_COMM_WORLD_RANK={rank}\0".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes():
            return os.sched_getaffinity(int(pid))
    raise SystemExit("the ranks are not found below mpirun")


def run(options, directory):
    """Runs it; the steps at which the loop had begun and ended."""
    main = start(options.program, directory, options.schedule, STEPS, "fill.audit=0")
    wait_for_step(main, directory, SLOWED)
    cores = cores_of_rank(main, 1)
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.sched_setaffinity(0, cores))
    slowed = step_now(directory) + 1
    try:
        wait_for_step(main, directory, RELEASED)
    finally:
        loop.send_signal(signal.SIGKILL)
        loop.wait()
    released = step_now(directory) + 1
    end(main)
    return slowed, released


def within(sold, length):
    return numpy.abs(sold - length) < max(0.25 * length, 1e6)


def report(directory, what, change):
    with h5py.File(directory / "trace/trace.h5") as file:
        kinds = h5py.check_enum_dtype(file["events"].dtype["kind"])
        events = file["events"][:]
    events = events[events["rank"] == 0]
    lengths = events["end_ns"] - events["start_ns"]
    is_bubble = numpy.isin(events["kind"], [number for name, number in kinds.items() if name.startswith("bubble_")])
    # The step in which the change came is neither before nor after.
    for slot in sorted(set(events["slot"][is_bubble])):
        mine = is_bubble & (events["slot"] == slot)
        before = mine & (events["step"] >= change - 20) & (events["step"] < change)
        after = mine & (events["step"] > change) & (events["step"] <= change + 30)
        old, new = numpy.median(lengths[before]), numpy.median(lengths[after])
        if max(old, new) < 2e6 or max(old, new) < 4 / 3 * min(old, new):
            continue
        told = ""
        if new > old:
            good = within(events["granted_ns"][after], new)
            followed = next((i for i in range(len(good) - 4) if numpy.sum(good[i:i + 5]) >= 4), None)
            told = f", sold so {'not within 25' if followed is None else followed} steps later"
        print(f"    {what}, slot {slot}: {old / 1e6:.1f} -> {new / 1e6:.1f} ms{told}")
    for name, first, last in (("before", change - 10, change - 1), ("steps 1 to 5 after", change + 1, change + 5),
                              ("steps 6 to 15 after", change + 6, change + 15)):
        here = (events["step"] >= first) & (events["step"] <= last)
        bubbles = lengths[here & is_bubble].sum()
        filled = lengths[here & (events["kind"] == kinds["fill"])].sum()
        overrun = lengths[here & (events["kind"] == kinds["overrun"])].sum()
        print(f"    {what}, {name}: {filled / bubbles:.3f} of the bubbles filled, overrun {overrun / bubbles:.4f} of them")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/release/app/pipefill")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--schedule", default="gpipe")
    options = parser.parse_args()
    for i in range(options.runs):
        with tempfile.TemporaryDirectory(prefix="pipefill-drift-") as scratch:
            directory = pathlib.Path(scratch, "run")
            slowed, released = run(options, directory)
            print(f"run {i + 1}, stage 1 slowed in step {slowed}, released in step {released}", flush=True)
            report(directory, "slowed", slowed)
            report(directory, "released", released)


if __name__ == "__main__":
    main()
