"""The promise of determinism, under mpirun: the same loss at every step and the same weights and moments at the end, bit
for bit, for every number of stages and every schedule, and through a resume."""

import unittest

from harness import FINISHED, RunTest


class LayoutTest(RunTest):
    def compare(self, microbatches, layouts):
        words = [f"schedule.microbatches={microbatches}"]
        alone = self.trained("alone", *words, ranks=1)
        self.assertEqual(len(alone.losses()), 6)
        for stages, schedule in layouts:
            run = self.trained(f"{stages}-{schedule}", *words, f"schedule.name={schedule}", ranks=stages)
            self.assertEqual(run.manifest()["layout"]["stages"], stages)
            self.assert_same_run(run, alone, f"M={microbatches} P={stages} {schedule}")


class SameBits(LayoutTest):
    def test_three_microbatches(self):
        self.compare(3, [(2, "gpipe"), (4, "1f1b")])

    def test_another_seed_is_another_run(self):
        one, other = self.trained("one", ranks=1), self.trained("other", "run.seed=4", ranks=1)
        self.assertEqual(one.hashes().keys(), other.hashes().keys())
        self.assertNotEqual(one.hashes(), other.hashes())
        self.assertNotEqual(one.losses(), other.losses())


class Replicas(RunTest):
    def test_two_replicas_give_the_losses_of_one(self):
        words = ["run.steps=20"]
        one = self.trained("one", *words, "schedule.microbatches=4", ranks=1)
        two = self.trained("two", *words, "schedule.microbatches=2", "parallel.replicas=2", ranks=2)
        self.assertEqual(sorted(one.losses()), list(range(1, 21)))
        for step, loss in one.losses().items():
            self.assertLess(abs(float(two.losses()[step]) / float(loss) - 1), 1e-6, f"step {step}")

    def test_sharding_the_optimizer_changes_no_bit(self):
        words = ["parallel.replicas=2"]
        whole = self.trained("whole", *words)
        sharded = self.trained("sharded", *words, "optimizer.shard=true")
        self.assertEqual(sharded.losses(), whole.losses())
        weights = [{key: value for key, value in run.hashes().items() if key[0] == "parameters"} for run in (whole, sharded)]
        self.assertEqual(*weights)


class Resume(RunTest):
    def in_two_halves(self, name, first, second):
        """Three steps over `first` ranks, the rest over `second`. The deck says six from the start: the learning rate
        follows from it, so the first half is ended by a checkpoint that the second one names."""
        run = self.new_run(name)
        code, output = run.train("checkpoint.every=3", "checkpoint.keep=9", ranks=first)
        self.assertEqual(code, FINISHED, output)
        self.assertEqual(run.checkpoints(), [3, 6])
        code, output = run.train("--resume", "3", ranks=second)
        self.assertEqual(code, FINISHED, output)
        self.assertIn("attempt 2: going on from", output)
        self.assertEqual([line["step"] for line in run.lines() if line["attempt"] == 2 and "loss" in line], [4, 5, 6])
        return run

    def test_three_and_three_steps_are_six(self):
        straight = self.trained("straight", ranks=1)
        self.assert_same_run(self.in_two_halves("4-2", 4, 2), straight, "P=4, then P=2")
        self.assert_same_run(self.in_two_halves("2-4", 2, 4), straight, "P=2, then P=4")


class Grid(LayoutTest):
    """Every M by every P by every schedule: long."""

    def test_every_layout_and_schedule(self):
        root = self.scratch
        for microbatches in (1, 2, 3, 8):
            with self.subTest(microbatches=microbatches):
                self.scratch = root / str(microbatches)
                self.compare(microbatches, [(stages, schedule) for stages in (1, 2, 4) for schedule in ("gpipe", "1f1b")])


if __name__ == "__main__":
    unittest.main()
