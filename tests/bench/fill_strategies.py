#!/usr/bin/env python3
"""Question: how much of the bubble time does each strategy turn into useful work, and what does it cost the main job?

    tests/bench/fill_strategies.py [--program build/release/app/pipefill] [--runs 5] [--steps 420] [--only adaptive ...]

Runs inputs/fill.yaml over 2 ranks, GPipe and 1F1B, strategy after strategy with `none` among them, round after round, and
prints every run as it ends; at the end of a schedule each strategy's median over its runs of what fill_figures.py computes
from the traces: conversion, coverage, the block pairs' slowdown with the interval of its median, and the step time of the
filled steps against whole runs of `none` (a constant cost would hide in alternating blocks). Half of the steps are filled,
one by one in turn. Needs two quiet cores and, for all of it, an hour."""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from fill_figures import figures

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAIRS = ["fill.audit=0.5", "fill.block=1"]  # every second step is filled
STRATEGIES = ["none", "naive", "idle-priority", "freeride", "pipefill", "adaptive"]
# As jobscripts/mpirun_settings.sh.
SETTINGS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
            "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "PRTE_MCA_hwloc_default_binding_policy": "none"}


JOBS = [ROOT / "inputs/jobs/score.yaml", ROOT / "inputs/jobs/score_b.yaml"]


def start(program, directory, schedule, steps, *words, jobs=JOBS, **options):
    """inputs/fill.yaml over 2 ranks, in the background."""
    return subprocess.Popen(["mpirun", "-n", "2", program, "train", ROOT / "inputs/fill.yaml", f"run.directory={directory}",
                             f"run.steps={steps}", f"schedule.name={schedule}", "log.progress=none",
                             f"fill.jobs=[{', '.join(map(str, jobs))}]", *words],
                            stdout=subprocess.DEVNULL, env=os.environ | SETTINGS, **options)


def end(main):
    if main.wait() != 0:
        raise SystemExit(f"a run ended with {main.returncode}")


def run(options, directory, schedule, strategy):
    end(start(options.program, directory, schedule, options.steps, f"fill.strategy={strategy}", *PAIRS, *options.words))
    return figures(directory)


def line(schedule, strategy, f, plain):
    against = f"{100 * (f['step_ms'] / plain - 1):+.2f} %" if plain else ""
    return (f"{schedule:8} {strategy:14} {f['conversion']:10.3f} {f['coverage']:8.3f} {100 * f['slowdown']:+8.2f} % "
            f"({100 * f['low']:+.2f} .. {100 * f['high']:+.2f} %, {f['pairs']:.0f} pairs)  {f['step_ms']:.1f} ms {against}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/release/app/pipefill")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=420)
    parser.add_argument("--only", nargs="*", default=STRATEGIES)
    parser.add_argument("--schedules", nargs="*", default=["gpipe", "1f1b"])
    parser.add_argument("words", nargs="*", help="key.path=value for every run")
    options = parser.parse_args()
    strategies = list(dict.fromkeys(["none", *options.only]))
    print("schedule strategy       conversion coverage  slowdown (interval, pairs)  step, against none", flush=True)
    for schedule in options.schedules:
        seen = {strategy: [] for strategy in strategies}
        for _ in range(options.runs):
            for strategy in strategies:
                with tempfile.TemporaryDirectory(prefix="pipefill-fill-") as scratch:
                    seen[strategy].append(run(options, f"{scratch}/run", schedule, strategy))
                print("   ", line(schedule, strategy, seen[strategy][-1], None), flush=True)
        plain = statistics.median(f["step_ms"] for f in seen["none"])
        for strategy in strategies:
            median = {key: statistics.median(f[key] for f in seen[strategy]) for key in seen[strategy][0]}
            print(line(schedule, strategy, median, plain), flush=True)


if __name__ == "__main__":
    sys.exit(main())
