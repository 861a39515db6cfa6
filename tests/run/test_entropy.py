"""The embedded deck, full length: the held-out loss must reach what is known of its source (a few minutes: long)."""

from harness import FINISHED, SOURCE_DIR, Run, RunTest


class Entropy(RunTest):
    def test_the_held_out_loss_reaches_the_entropy_rate(self):
        run = Run(self.scratch / "tiny", SOURCE_DIR / "inputs" / "tiny.yaml")
        code, output = run.train(ranks=2, timeout=1500)
        self.assertEqual(code, FINISHED, output)
        held_out = [line for line in run.all_lines() if "validation_loss" in line][-1]
        loss, error, rate = (held_out[key] for key in ("validation_loss", "validation_standard_error", "entropy_rate"))
        print(f"\nheld-out loss {loss:.4f} +- {error:.4f} over {held_out['validation_tokens']} tokens, entropy rate {rate:.4f}")
        self.assertGreaterEqual(held_out["validation_tokens"], 100000)
        self.assertGreater(loss, rate - 3 * error)
        self.assertLess(loss, 1.02 * rate)
