// Cross entropy against the oracle: odd and padded vocabularies, in place, bf16, separate and fused.
#include "kernels/cross_entropy/cross_entropy.hpp"
#include "support.hpp"

namespace pipefill::test {
namespace {

struct Case {
  std::int64_t N, V, Vp;
};
const Case kCases[] = {{1, 1, 1}, {31, 31, 32}, {33, 257, 320}, {5, 1000, 1000}, {3, 2049, 2064}, {4, 50257, 50304}};

/// Logits whose padding is NaN: whoever reads it shows it.
Floats padded_logits(const Case& x, float deviation = 3.0F) {
  Floats logits = random_floats(x.N * x.Vp, 1, deviation);
  for (std::int64_t n = 0; n < x.N; ++n) {
    for (std::int64_t v = x.V; v < x.Vp; ++v) logits[static_cast<std::size_t>(n * x.Vp + v)] = NAN;
  }
  return logits;
}

/// The bf16 gradient lies over the first half of each fp32 row.
Aligned<Bf16> bf16_rows(const Bf16* rows, const Case& x) {
  Aligned<Bf16> dense(static_cast<std::size_t>(x.N * x.Vp));
  for (std::int64_t n = 0; n < x.N; ++n) {
    std::memcpy(static_cast<void*>(dense.data() + n * x.Vp), rows + n * 2 * x.Vp,
                static_cast<std::size_t>(x.Vp) * sizeof(Bf16));
  }
  return dense;
}

TEST(CrossEntropy, LossAndGradientEqualTheOracle) {
  for (const int threads : kThreadCounts) {
    const KernelContext ctx(threads);
    for (const Case& x : kCases) {
      SCOPED_TRACE(testing::Message() << "N " << x.N << " V " << x.V << " Vp " << x.Vp);
      const Floats logits = padded_logits(x);
      const auto targets = random_ids(x.N, static_cast<int>(x.V), 2);
      const auto rows = static_cast<std::size_t>(x.N);
      Floats loss(rows), lse(rows), loss_expected(rows), lse_expected(rows);
      cross_entropy_forward(ctx, loss.data(), lse.data(), logits.data(), targets.data(), x.N, x.V, x.Vp);
      reference::cross_entropy_forward(loss_expected.data(), lse_expected.data(), logits.data(), targets.data(), x.N,
                                       x.V, x.Vp);
      expect_close(loss, loss_expected, 1e-6, "loss");
      expect_close(lse, lse_expected, 1e-6, "lse");

      const float factor = 3.0F;  // probabilities near 1, so that the tolerance means something
      Floats gradient = logits, expected = logits;
      cross_entropy_backward(ctx, gradient.data(), lse.data(), targets.data(), factor, x.N, x.V, x.Vp);
      reference::cross_entropy_backward(expected.data(), lse.data(), targets.data(), factor, x.N, x.V, x.Vp);
      expect_close(gradient, expected, 2e-6, "gradient");

      Floats in_place = logits;
      const Bf16* half =
          cross_entropy_backward_bf16(ctx, in_place.data(), lse.data(), targets.data(), factor, x.N, x.V, x.Vp);
      expect_same_bits(bf16_rows(half, x), rounded(gradient), "bf16 gradient");

      Floats fused = logits, fused_loss(rows);
      cross_entropy_forward_backward(ctx, fused_loss.data(), fused.data(), targets.data(), factor, x.N, x.V, x.Vp);
      expect_close(fused_loss, loss_expected, 1e-6, "fused loss");
      expect_close(fused, expected, 5e-6, "fused gradient");

      in_place = logits;
      half = cross_entropy_forward_backward_bf16(ctx, fused_loss.data(), in_place.data(), targets.data(), factor, x.N,
                                                 x.V, x.Vp);
      expect_same_bits(bf16_rows(half, x), rounded(fused), "fused bf16 gradient");
    }
  }
}

TEST(CrossEntropy, PaddingHasNoLossAndNoGradient) {
  const KernelContext ctx(1);
  const Case plain{7, 100, 100}, padded{7, 100, 128};
  const Floats a = padded_logits(plain);
  Floats b(static_cast<std::size_t>(padded.N * padded.Vp), 1e30F);
  for (std::int64_t n = 0; n < plain.N; ++n) std::copy_n(a.data() + n * 100, 100, b.data() + n * 128);
  const auto targets = random_ids(7, 100, 3);
  Floats loss_a(7), loss_b(7);
  Floats da = a, db = b;
  cross_entropy_forward_backward(ctx, loss_a.data(), da.data(), targets.data(), 1.0F, 7, 100, 100);
  cross_entropy_forward_backward(ctx, loss_b.data(), db.data(), targets.data(), 1.0F, 7, 100, 128);
  expect_same_bits(loss_a, loss_b, "loss");
  for (std::size_t n = 0; n < 7; ++n) {
    EXPECT_EQ(0, std::memcmp(&da[n * 100], &db[n * 128], 100 * sizeof(float)));
    for (std::size_t v = 100; v < 128; ++v) EXPECT_EQ(db[n * 128 + v], 0.0F);
  }
}

TEST(CrossEntropy, SurvivesLogitsFarApartInAnyOrderOfBlocks) {
  const KernelContext ctx(1);
  const Case x{2, 5000, 5008};
  Floats logits = padded_logits(x, 200.0F);
  for (std::int64_t v = 0; v < x.V; ++v) {
    logits[static_cast<std::size_t>(v)] += 0.2F * static_cast<float>(v);         // largest in the last block
    logits[static_cast<std::size_t>(x.Vp + v)] -= 0.2F * static_cast<float>(v);  // largest in the first
  }
  const Aligned<std::int32_t> targets = {4999, 17};
  Floats loss(2), lse(2), loss_expected(2), lse_expected(2);
  cross_entropy_forward(ctx, loss.data(), lse.data(), logits.data(), targets.data(), x.N, x.V, x.Vp);
  reference::cross_entropy_forward(loss_expected.data(), lse_expected.data(), logits.data(), targets.data(), x.N, x.V,
                                   x.Vp);
  expect_close(loss, loss_expected, 1e-6, "loss");
  Floats gradient = logits, fused = logits;
  reference::cross_entropy_backward(gradient.data(), lse_expected.data(), targets.data(), 1.0F, x.N, x.V, x.Vp);
  cross_entropy_forward_backward(ctx, loss.data(), fused.data(), targets.data(), 1.0F, x.N, x.V, x.Vp);
  expect_close(loss, loss_expected, 1e-6, "fused loss");
  expect_close(fused, gradient, 2e-4, "fused gradient");  // the oracle's lse is rounded to fp32 near 1500
}

TEST(CrossEntropy, ANaNAmongTheLogitsReachesTheLoss) {
  const KernelContext ctx(1);
  Floats logits = random_floats(64, 1);
  logits[5] = NAN;
  const Aligned<std::int32_t> targets = {9};
  Floats loss(1), lse(1);
  cross_entropy_forward(ctx, loss.data(), lse.data(), logits.data(), targets.data(), 1, 64, 64);
  EXPECT_TRUE(std::isnan(loss[0]));
}

}  // namespace
}  // namespace pipefill::test
