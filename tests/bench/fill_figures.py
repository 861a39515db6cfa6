"""Conversion, coverage and slowdown of a run, computed from /events and /steps of its trace.h5 alone, apart from the
program's own summary. The formulas are those of src/trace/summary.hpp. Usage: fill_figures.py RUN [RUN ...]"""

import collections
import math
import sys

import h5py
import numpy


def load(run):
    with h5py.File(f"{run}/trace/trace.h5") as file:
        kinds = h5py.check_enum_dtype(file["events"].dtype["kind"])
        return file["events"][:], file["steps"][:], kinds


def conversion_and_coverage(events, steps, kinds):
    """Over filled steps: exclusive time of the finished chunks, and chunk time in bubbles, by bubble time."""
    filled = {(s["rank"], s["step"]) for s in steps if s["filled"] == 1}
    alone = collections.defaultdict(list)
    for e in events[events["kind"] == kinds["exclusive"]]:
        alone[e["rank"], e["job"], e["cost_class"]].append(e["end_ns"] - e["start_ns"])
    price = {key: float(numpy.median(times)) for key, times in alone.items()}
    bubble_kinds = [number for name, number in kinds.items() if name.startswith("bubble_")]
    bubbles = useful = covered = 0.0
    for e in events:
        if (e["rank"], e["step"]) not in filled:
            continue
        if e["kind"] in bubble_kinds:
            bubbles += e["end_ns"] - e["start_ns"]
        elif e["kind"] in (kinds["fill"], kinds["overrun"]):
            covered += (e["end_ns"] - e["start_ns"]) * (e["kind"] == kinds["fill"])
            useful += price.get((e["rank"], e["job"], e["cost_class"]), 0.0) if e["cost_class"] >= 0 else 0.0
    return (useful / bubbles, covered / bubbles) if bubbles else (float("nan"), float("nan"))


def slowdowns(steps):
    """One number per pair: mean filled step / mean unfilled step - 1, on rank 0."""
    sides = collections.defaultdict(lambda: ([], []))
    for s in steps[(steps["rank"] == 0) & (steps["pair"] >= 0)]:
        sides[int(s["pair"])][int(s["filled"])].append(s["end_ns"] - s["start_ns"])
    return numpy.array([numpy.mean(f) / numpy.mean(u) - 1 for u, f in sides.values() if u and f])


def median_interval(values, confidence=0.95):
    """The order statistics between which the median lies with this confidence; infinite for too few values."""
    ordered, n, below = sorted(values), len(values), 0.0
    for k in range(n // 2):
        below += math.comb(n, k) / 2**n
        if 2 * below > 1 - confidence:
            return (ordered[k - 1], ordered[n - k]) if k > 0 else (-math.inf, math.inf)
    return (ordered[n // 2 - 1], ordered[n - n // 2]) if n > 1 else (-math.inf, math.inf)


def figures(run):
    events, steps, kinds = load(run)
    conversion, coverage = conversion_and_coverage(events, steps, kinds)
    pairs = slowdowns(steps)
    mine = steps[(steps["rank"] == 0) & (steps["step"] > 10)]
    mine = mine[mine["filled"] == 1] if (mine["filled"] == 1).any() else mine
    step = float(numpy.median(mine["end_ns"] - mine["start_ns"])) / 1e6
    low, high = median_interval(pairs)
    return {"conversion": conversion, "coverage": coverage, "pairs": len(pairs), "step_ms": step, "low": low, "high": high,
            "slowdown": float(numpy.median(pairs)) if len(pairs) else float("nan")}


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(path, figures(path))
