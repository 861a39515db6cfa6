// The elementwise ops, the casts, the norm and AdamW against their oracles; the exponential against libm.
#include "kernels/adamw/adamw.hpp"
#include "kernels/bias_gelu/bias_gelu.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "kernels/norm/norm.hpp"
#include "kernels/residual/residual.hpp"
#include "kernels/simd.hpp"
#include "support.hpp"

namespace pipefill::test {
namespace {

const std::int64_t kSizes[] = {1, 31, 33, 257, 1000, 70001};

float exp_of(float x) {
  float out[simd::kLanes];
  simd::store(out, simd::exp(simd::all(x)));
  return out[0];
}

TEST(Exp, IsWithinTwoUnitsInTheLastPlaceOfLibm) {
  for (float x = -86.9F; x < 88.72F; x += 0.00137F) {
    const double expected = std::exp(static_cast<double>(x));
    ASSERT_LE(std::abs(exp_of(x) / expected - 1.0), 2.0 * 1.2e-7) << "x = " << x;
  }
  EXPECT_EQ(exp_of(0.0F), 1.0F);
}

TEST(Exp, KeepsTheSpecialValues) {
  EXPECT_EQ(exp_of(-INFINITY), 0.0F);
  EXPECT_EQ(exp_of(-200.0F), 0.0F);
  EXPECT_EQ(exp_of(INFINITY), INFINITY);
  EXPECT_EQ(exp_of(89.5F), INFINITY);
  EXPECT_TRUE(std::isnan(exp_of(NAN)));
}

TEST(Cast, RoundsToNearestEvenAndBack) {
  EXPECT_EQ(to_bf16(1.0F).bits, 0x3f80);
  EXPECT_EQ(to_bf16(1.00390625F).bits, 0x3f80);  // halfway between 0x3f80 and 0x3f81: to even
  EXPECT_EQ(to_bf16(1.01171875F).bits, 0x3f82);  // halfway between 0x3f81 and 0x3f82: to even
  EXPECT_EQ(to_bf16(1.003907F).bits, 0x3f81);    // just above halfway
  EXPECT_EQ(to_bf16(3.4e38F).bits, 0x7f80);      // beyond the largest bf16: infinity
  EXPECT_EQ(to_bf16(-INFINITY).bits, 0xff80);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(NAN))));
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001U)))));
  for (const int threads : kThreadCounts) {
    const KernelContext ctx(threads);
    for (const std::int64_t n : kSizes) {
      Floats x = random_floats(n, 1, 100.0F);
      x[0] = NAN;
      Aligned<Bf16> h(x.size());
      cast(ctx, h.data(), x.data(), n);
      expect_same_bits(h, rounded(x), "bf16");
      Floats back(x.size()), expected(x.size());
      cast(ctx, back.data(), h.data(), n);
      reference::cast(expected.data(), h.data(), n);
      expect_same_bits(back, expected, "fp32");
    }
  }
}

TEST(Elementwise, FillAddScale) {
  for (const int threads : kThreadCounts) {
    const KernelContext ctx(threads);
    for (const std::int64_t n : kSizes) {
      Floats x = random_floats(n, 1);
      Floats expected = x;
      const Floats y = random_floats(n, 2);
      add_into(ctx, x.data(), y.data(), n);
      scale(ctx, x.data(), 0.37F, n);
      reference::add_into(expected.data(), y.data(), n);
      reference::scale(expected.data(), 0.37F, n);
      expect_same_bits(x, expected, "x");
      fill(ctx, x.data(), 2.5F, n);
      EXPECT_TRUE(std::all_of(x.begin(), x.end(), [](float v) { return v == 2.5F; }));
    }
  }
}

TEST(Norm, EqualsThePlainSumAndDoesNotDependOnTheThreads) {
  for (const std::int64_t n : {1L, 31L, 4096L, 4097L, 200003L}) {
    const Floats x = random_floats(n, 1);
    const double one = squared_norm(KernelContext(1), x.data(), n);
    EXPECT_NEAR(one, reference::squared_norm(x.data(), n), 1e-12 * one);
    for (const int threads : {2, 3}) EXPECT_EQ(one, squared_norm(KernelContext(threads), x.data(), n));
  }
  EXPECT_EQ(squared_norm(KernelContext(1), nullptr, 0), 0.0);
}

TEST(Residual, AddsWithAndWithoutBias) {
  const KernelContext ctx(2);
  const std::int64_t N = 37, C = 1000;
  const Floats a = random_floats(N * C, 1), b = random_floats(N * C, 2), bias = random_floats(C, 3);
  for (const float* with : {bias.data(), static_cast<const float*>(nullptr)}) {
    Floats out(a.size()), expected(a.size());
    residual_add(ctx, out.data(), a.data(), b.data(), with, N, C);
    reference::residual_add(expected.data(), a.data(), b.data(), with, N, C);
    expect_same_bits(out, expected, "out");
    Floats in_place = a;
    residual_add(ctx, in_place.data(), in_place.data(), b.data(), with, N, C);
    expect_same_bits(in_place, expected, "in place");
  }
}

TEST(BiasGelu, EqualsTheOracleAlsoFarOutAndInPlace) {
  for (const int threads : kThreadCounts) {
    const KernelContext ctx(threads);
    for (const std::int64_t C : {1L, 31L, 33L, 257L, 1000L}) {
      const std::int64_t N = 5;
      Floats x = random_floats(N * C, 1, 3.0F);
      x[0] = -30.0F;
      x.back() = 1e4F;
      x[x.size() / 2] = -1e4F;
      const Floats bias = random_floats(C, 2), dy = random_floats(N * C, 3);
      Floats y(x.size()), expected(x.size());
      bias_gelu_forward(ctx, y.data(), x.data(), bias.data(), N, C);
      reference::bias_gelu_forward(expected.data(), x.data(), bias.data(), N, C);
      expect_close(y, expected, 1e-6, "y");
      Aligned<Bf16> h(x.size());
      bias_gelu_forward(ctx, h.data(), x.data(), bias.data(), N, C);
      expect_same_bits(h, rounded(y), "bf16 y");
      Floats dx = dy;
      bias_gelu_backward(ctx, dx.data(), dx.data(), x.data(), bias.data(), N, C);
      reference::bias_gelu_backward(expected.data(), dy.data(), x.data(), bias.data(), N, C);
      expect_close(dx, expected, 2e-6, "dx");
    }
  }
}

TEST(Adamw, EqualsTheOracleOverSeveralSteps) {
  for (const int threads : kThreadCounts) {
    const KernelContext ctx(threads);
    for (const std::int64_t n : kSizes) {
      Floats p = random_floats(n, 1), m(p.size()), v(p.size());
      Floats pe = p, me = m, ve = v;
      for (int step = 1; step <= 4; ++step) {
        const Floats g = random_floats(n, 10U + static_cast<unsigned>(step), 0.1F);
        const AdamwStep s{
            .learning_rate = 3e-3F, .weight_decay = step % 2 == 0 ? 0.1F : 0.0F, .gradient_scale = 0.5F, .step = step};
        adamw_update(ctx, p.data(), m.data(), v.data(), g.data(), n, s);
        reference::adamw_update(pe.data(), me.data(), ve.data(), g.data(), n, s);
      }
      expect_close(p, pe, 2e-6, "master");
      expect_close(m, me, 1e-6, "m");
      expect_close(v, ve, 1e-6, "v");
    }
  }
}

TEST(Adamw, TheCutOfATensorDoesNotChangeItsBits) {
  const KernelContext one(1), three(3);
  const std::int64_t n = 40009;
  const Floats g = random_floats(n, 2);
  Floats p = random_floats(n, 1), m(p.size()), v(p.size());
  Floats pc = p, mc = m, vc = v;
  const AdamwStep s{.learning_rate = 1e-3F, .weight_decay = 0.1F, .step = 3};
  adamw_update(three, p.data(), m.data(), v.data(), g.data(), n, s);
  for (std::int64_t at = 0, length = 1; at < n; at += length, length = length * 3 % 4001 + 1) {
    length = std::min(length, n - at);
    adamw_update(one, pc.data() + at, mc.data() + at, vc.data() + at, g.data() + at, length, s);
  }
  expect_same_bits(p, pc, "master");
  expect_same_bits(m, mc, "m");
  expect_same_bits(v, vc, "v");
}

}  // namespace
}  // namespace pipefill::test
