// Causal attention against the oracle, and what causality and determinism mean for it.
#include "kernels/attention/attention.hpp"
#include "support.hpp"

namespace pipefill::test {
namespace {

struct Case {
  std::int64_t B, T, C, H;
};

TEST(Attention, EqualsTheOracle) {
  for (const int threads : kThreadCounts) {
    const KernelContext ctx(threads);
    for (const Case& x : {Case{1, 1, 1, 1}, Case{2, 31, 33, 3}, Case{1, 33, 64, 2}, Case{2, 64, 31, 1},
                          Case{1, 65, 100, 5}, Case{1, 257, 64, 2}}) {
      SCOPED_TRACE(testing::Message() << "B " << x.B << " T " << x.T << " C " << x.C << " H " << x.H);
      const Floats qkv = random_floats(x.B * x.T * 3 * x.C, 1), dout = random_floats(x.B * x.T * x.C, 2);
      Floats out(dout.size()), lse(static_cast<std::size_t>(x.B * x.H * x.T)), out_expected = out, lse_expected = lse;
      attention_forward(ctx, out.data(), lse.data(), qkv.data(), x.B, x.T, x.C, x.H);
      reference::attention_forward(out_expected.data(), lse_expected.data(), qkv.data(), x.B, x.T, x.C, x.H);
      expect_close(out, out_expected, 5e-6, "out");
      expect_close(lse, lse_expected, 5e-6, "lse");
      Floats dqkv(qkv.size(), NAN), expected(qkv.size());
      attention_backward(ctx, dqkv.data(), dout.data(), qkv.data(), out.data(), lse.data(), x.B, x.T, x.C, x.H);
      reference::attention_backward(expected.data(), dout.data(), qkv.data(), out.data(), lse.data(), x.B, x.T, x.C,
                                    x.H);
      expect_close(dqkv, expected, 2e-5, "dqkv");
    }
  }
}

TEST(Attention, HasTheSameBitsAtAnyThreadCount) {
  const Case x{3, 130, 96, 3};
  const Floats qkv = random_floats(x.B * x.T * 3 * x.C, 1), dout = random_floats(x.B * x.T * x.C, 2);
  std::vector<Floats> outs, gradients;
  for (const int threads : kThreadCounts) {
    const KernelContext ctx(threads);
    Floats out(dout.size()), lse(static_cast<std::size_t>(x.B * x.H * x.T)), dqkv(qkv.size());
    attention_forward(ctx, out.data(), lse.data(), qkv.data(), x.B, x.T, x.C, x.H);
    attention_backward(ctx, dqkv.data(), dout.data(), qkv.data(), out.data(), lse.data(), x.B, x.T, x.C, x.H);
    outs.push_back(out);
    gradients.push_back(dqkv);
  }
  expect_same_bits(outs[0], outs[1], "out, 1 and 2 threads");
  expect_same_bits(outs[0], outs[2], "out, 1 and 3 threads");
  expect_same_bits(gradients[0], gradients[1], "dqkv, 1 and 2 threads");
  expect_same_bits(gradients[0], gradients[2], "dqkv, 1 and 3 threads");
}

TEST(Attention, NeverLooksAtTheFuture) {
  const KernelContext ctx(2);
  const Case x{1, 100, 32, 2};
  Floats qkv = random_floats(x.T * 3 * x.C, 1);
  Floats out(static_cast<std::size_t>(x.T * x.C)), lse(static_cast<std::size_t>(x.H * x.T)), later = out;
  attention_forward(ctx, out.data(), lse.data(), qkv.data(), x.B, x.T, x.C, x.H);
  const std::int64_t from = 70;
  for (std::int64_t i = from * 3 * x.C; i < x.T * 3 * x.C; ++i) qkv[static_cast<std::size_t>(i)] += 5.0F;
  attention_forward(ctx, later.data(), lse.data(), qkv.data(), x.B, x.T, x.C, x.H);
  EXPECT_EQ(0, std::memcmp(out.data(), later.data(), static_cast<std::size_t>(from * x.C) * sizeof(float)));
}

TEST(Attention, SurvivesScoresFarApart) {
  const KernelContext ctx(1);
  const Case x{1, 40, 16, 1};
  const Floats qkv = random_floats(x.T * 3 * x.C, 1, 30.0F), dout = random_floats(x.T * x.C, 2);
  Floats out(dout.size()), lse(static_cast<std::size_t>(x.T)), expected = out, lse_expected = lse;
  attention_forward(ctx, out.data(), lse.data(), qkv.data(), x.B, x.T, x.C, x.H);
  reference::attention_forward(expected.data(), lse_expected.data(), qkv.data(), x.B, x.T, x.C, x.H);
  expect_close(out, expected, 3e-3, "out");  // scores of about 3600 carry an fp32 error of 2e-4
  expect_close(lse, lse_expected, 1e-5, "lse");
}

TEST(Attention, RefusesHeadsThatDoNotDivideTheWidth) {
  float x[1] = {};
  EXPECT_THROW(attention_forward(KernelContext(1), x, x, x, 1, 1, 10, 3), KernelError);
}

}  // namespace
}  // namespace pipefill::test
