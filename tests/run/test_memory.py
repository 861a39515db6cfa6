"""The memory that plan prints is what a run takes, stage by stage."""

import re

from harness import FINISHED, RunTest, call

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
SHAPES = {
    "gpipe, tied": (2, ["schedule.name=gpipe", "schedule.microbatches=4", "model.channels=64", "model.context=64"]),
    "1f1b, not tied, bf16": (2, ["model.tied=false", "model.compute=bf16", "schedule.microbatches=3", "data.vocab=500",
                                 "model.channels=64", "model.context=48"]),
    "two replicas, sharded": (2, ["parallel.replicas=2", "optimizer.shard=true", "model.channels=96"]),
}


class Memory(RunTest):
    def planned(self, ranks, words):
        """The total of each stage, and half the last digit that is printed."""
        code, output = call("plan", self.deck, "--ranks", ranks, *words)
        self.assertEqual(code, FINISHED, output)
        rows = re.findall(r"^\d+ +\d+ .* ([\d.]+) (\w+)$", output, re.MULTILINE)
        self.assertTrue(rows, output)
        return [(float(number) * UNITS[unit], 0.05 * UNITS[unit]) for number, unit in rows]

    def test_the_plan_is_what_a_run_takes(self):
        for name, (ranks, words) in SHAPES.items():
            with self.subTest(name):
                run = self.trained(name.replace(" ", "-").replace(",", ""), *words, ranks=ranks)
                line = next(line for line in run.all_lines() if "peak_memory_bytes" in line)
                plan = self.planned(ranks, words)
                print(f"\n{name}: plan {plan}, run {line}", flush=True)
                self.assertEqual(len(plan), len(line["peak_memory_bytes"]))
                for (total, rounding), started_with, peak in zip(plan, line["planned_memory_bytes"],
                                                                 line["peak_memory_bytes"]):
                    self.assertGreaterEqual(total + rounding, peak)
                    self.assertGreaterEqual(peak, 0.9 * total)
                    self.assertGreaterEqual(started_with, peak)
                    self.assertGreaterEqual(peak, 0.9 * started_with)
                self.assertNotIn("of memory were planned", run.log())
