// Layer normalisation and the embedding against their oracles.
#include "kernels/embedding/embedding.hpp"
#include "kernels/layernorm/layernorm.hpp"
#include "kernels/residual/residual.hpp"
#include "support.hpp"

namespace pipefill::test {
namespace {

TEST(Layernorm, EqualsTheOracle) {
  for (const int threads : kThreadCounts) {
    const KernelContext ctx(threads);
    for (const auto& [N, C] : {std::array<std::int64_t, 2>{3, 1}, {1, 31}, {31, 33}, {257, 257}, {33, 1000}}) {
      SCOPED_TRACE(testing::Message() << "N " << N << " C " << C);
      const Floats x = random_floats(N * C, 1, 2.0F, 3.0F), gamma = random_floats(C, 2), beta = random_floats(C, 3);
      const Floats dy = random_floats(N * C, 4);
      const auto rows = static_cast<std::size_t>(N);
      Floats y(x.size()), mean(rows), rstd(rows), y_expected(x.size()), mean_expected(rows), rstd_expected(rows);
      layernorm_forward(ctx, y.data(), mean.data(), rstd.data(), x.data(), gamma.data(), beta.data(), N, C);
      reference::layernorm_forward(y_expected.data(), mean_expected.data(), rstd_expected.data(), x.data(),
                                   gamma.data(), beta.data(), N, C);
      expect_close(y, y_expected, 1e-5, "y");
      expect_close(mean, mean_expected, 1e-6, "mean");
      expect_close(rstd, rstd_expected, 1e-6, "rstd");
      Aligned<Bf16> h(x.size());
      layernorm_forward(ctx, h.data(), mean.data(), rstd.data(), x.data(), gamma.data(), beta.data(), N, C);
      expect_same_bits(h, rounded(y), "bf16 y");
      for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes}) {
        Floats dx = random_floats(N * C, 5);
        Floats dx_expected = dx;
        layernorm_backward_input(ctx, dx.data(), dy.data(), x.data(), mean.data(), rstd.data(), gamma.data(), N, C,
                                 accumulate);
        reference::layernorm_backward_input(dx_expected.data(), dy.data(), x.data(), mean.data(), rstd.data(),
                                            gamma.data(), N, C, accumulate);
        // One column: rstd is 316 and the terms cancel to nothing.
        expect_close(dx, dx_expected, C == 1 ? 1e-3 : 1e-5, "dx");
      }
      Floats dgamma = random_floats(C, 6), dbeta = random_floats(C, 7);
      Floats dgamma_expected = dgamma, dbeta_expected = dbeta;
      layernorm_backward_weight(ctx, dgamma.data(), dbeta.data(), dy.data(), x.data(), mean.data(), rstd.data(), N, C);
      reference::layernorm_backward_weight(dgamma_expected.data(), dbeta_expected.data(), dy.data(), x.data(),
                                           mean.data(), rstd.data(), N, C);
      expect_close(dgamma, dgamma_expected, 2e-5, "dgamma");
      expect_close(dbeta, dbeta_expected, 2e-5, "dbeta");
    }
  }
}

TEST(Layernorm, BehindAResidualHasTheBitsOfTheTwoOps) {
  const std::int64_t N = 65, C = 385;
  const Floats a = random_floats(N * C, 1), b = random_floats(N * C, 2), bias = random_floats(C, 3);
  const Floats gamma = random_floats(C, 4), beta = random_floats(C, 5);
  const auto rows = static_cast<std::size_t>(N);
  for (const float* with : {bias.data(), static_cast<const float*>(nullptr)}) {
    const KernelContext one(1), two(2);
    Floats sum(a.size()), y(a.size()), mean(rows), rstd(rows), sum2(a.size()), y2(a.size()), mean2(rows), rstd2(rows);
    residual_layernorm_forward(two, sum.data(), y.data(), mean.data(), rstd.data(), a.data(), b.data(), with,
                               gamma.data(), beta.data(), N, C);
    residual_add(one, sum2.data(), a.data(), b.data(), with, N, C);
    layernorm_forward(one, y2.data(), mean2.data(), rstd2.data(), sum2.data(), gamma.data(), beta.data(), N, C);
    expect_same_bits(sum, sum2, "sum");
    expect_same_bits(y, y2, "y");
    expect_same_bits(mean, mean2, "mean");
    expect_same_bits(rstd, rstd2, "rstd");
    Aligned<Bf16> h(a.size());
    Floats in_place = a;
    residual_layernorm_forward(two, in_place.data(), h.data(), mean.data(), rstd.data(), in_place.data(), b.data(),
                               with, gamma.data(), beta.data(), N, C);
    expect_same_bits(in_place, sum, "sum in place");
    expect_same_bits(h, rounded(y), "bf16 y");
  }
}

TEST(Embedding, EqualsTheOracleBitForBitAtAnyThreadCount) {
  for (const int threads : kThreadCounts) {
    const KernelContext ctx(threads);
    for (const auto& [B, T, C, V] : {std::array<std::int64_t, 4>{1, 1, 1, 1},
                                     {3, 31, 33, 7},
                                     {2, 257, 100, 1000},
                                     {2, 33, 17, 50257},
                                     {2, 3, 1000, 5}}) {
      const Aligned<std::int32_t> tokens = random_ids(B * T, static_cast<int>(V), 1);
      const Floats wte = random_floats(V * C, 2), wpe = random_floats(T * C, 3), dout = random_floats(B * T * C, 4);
      Floats out(dout.size()), expected(dout.size());
      embedding_forward(ctx, out.data(), tokens.data(), wte.data(), wpe.data(), B, T, C);
      reference::embedding_forward(expected.data(), tokens.data(), wte.data(), wpe.data(), B, T, C);
      expect_same_bits(out, expected, "out");
      Floats dwte = wte, dwpe = wpe, dwte_expected = wte, dwpe_expected = wpe;
      embedding_backward(ctx, dwte.data(), dwpe.data(), dout.data(), tokens.data(), B, T, C);
      reference::embedding_backward(dwte_expected.data(), dwpe_expected.data(), dout.data(), tokens.data(), B, T, C);
      expect_same_bits(dwte, dwte_expected, "dtoken_table");
      expect_same_bits(dwpe, dwpe_expected, "dposition_table");
    }
  }
}

}  // namespace
}  // namespace pipefill::test
