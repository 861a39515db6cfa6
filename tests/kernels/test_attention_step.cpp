// One step of attention over a cache: against the oracle, and against the whole attention it continues.
#include "kernels/attention/attention.hpp"
#include "kernels/attention_step/attention_step.hpp"
#include "support.hpp"

namespace pipefill::test {
namespace {

TEST(AttentionStep, EqualsTheOracleAtAnyThreadCount) {
  struct Case {
    std::int64_t B, S, t, C, H;
  };
  for (const Case& x : {Case{1, 1, 0, 1, 1}, Case{2, 40, 30, 33, 3}, Case{3, 40, 39, 64, 2}, Case{1, 260, 256, 100, 5},
                        Case{4, 300, 255, 256, 4}}) {
    SCOPED_TRACE(testing::Message() << "B " << x.B << " S " << x.S << " t " << x.t << " C " << x.C << " H " << x.H);
    const Floats qkv = random_floats(x.B * 3 * x.C, 1);
    Floats keys = random_floats(x.B * x.S * x.C, 2), values = random_floats(x.B * x.S * x.C, 3);
    for (std::int64_t b = 0; b < x.B; ++b)  // what lies behind t is not there yet
      for (std::int64_t i = (b * x.S + x.t + 1) * x.C; i < (b + 1) * x.S * x.C; ++i)
        keys[static_cast<std::size_t>(i)] = values[static_cast<std::size_t>(i)] = NAN;
    Floats expected(static_cast<std::size_t>(x.B * x.C));
    reference::attention_step(expected.data(), qkv.data(), keys.data(), values.data(), x.B, x.S, x.t, x.C, x.H);
    std::vector<Floats> outs;
    for (const int threads : kThreadCounts) {
      const KernelContext ctx(threads);
      Floats out(expected.size(), NAN);
      attention_step(ctx, out.data(), qkv.data(), keys.data(), values.data(), x.B, x.S, x.t, x.C, x.H);
      expect_close(out, expected, 5e-6, "out");
      outs.push_back(out);
    }
    expect_same_bits(outs[0], outs[1], "1 and 2 threads");
    expect_same_bits(outs[0], outs[2], "1 and 3 threads");
  }
}

TEST(AttentionStep, IsTheLastRowOfTheWholeAttention) {
  const KernelContext ctx(1);
  const std::int64_t T = 37, C = 48, H = 3;
  const Floats qkv = random_floats(T * 3 * C, 4);
  Floats whole(static_cast<std::size_t>(T * C)), lse(static_cast<std::size_t>(H * T)), keys = whole, values = whole;
  attention_forward(ctx, whole.data(), lse.data(), qkv.data(), 1, T, C, H);
  for (std::int64_t s = 0; s < T; ++s) {
    std::copy_n(qkv.data() + s * 3 * C + C, C, keys.data() + s * C);
    std::copy_n(qkv.data() + s * 3 * C + 2 * C, C, values.data() + s * C);
  }
  Floats out(static_cast<std::size_t>(C));
  attention_step(ctx, out.data(), qkv.data() + (T - 1) * 3 * C, keys.data(), values.data(), 1, T, T - 1, C, H);
  expect_close(out, Floats(whole.end() - C, whole.end()), 5e-6, "last row");
}

}  // namespace
}  // namespace pipefill::test
