// Every op with a gradient against central differences of its own forward.
#include <cmath>

#include "kernels/attention/attention.hpp"
#include "kernels/bias_gelu/bias_gelu.hpp"
#include "kernels/cross_entropy/cross_entropy.hpp"
#include "kernels/embedding/embedding.hpp"
#include "kernels/layernorm/layernorm.hpp"
#include "kernels/linear/linear.hpp"
#include "support.hpp"

namespace pipefill::test {
namespace {

constexpr double kStep = 1e-2;
constexpr double kTolerance = 2e-3;

TEST(Gradients, Linear) {
  const KernelContext ctx(2);
  const std::int64_t N = 5, C = 19, OC = 23;
  Floats x = random_floats(N * C, 1), w = random_floats(OC * C, 2), b = random_floats(OC, 3);
  const Floats dy = random_floats(N * OC, 4);
  const auto loss = [&] {
    Floats y(dy.size());
    linear_forward(ctx, y.data(), x.data(), w.data(), b.data(), N, C, OC);
    return weighted_sum(y, dy);
  };
  Floats dx(x.size()), dw(w.size()), db(b.size());
  linear_backward_input(ctx, dx.data(), dy.data(), w.data(), N, C, OC);
  linear_backward_weight(ctx, dw.data(), db.data(), x.data(), dy.data(), N, C, OC);
  expect_gradient(x, dx, loss, kStep, kTolerance, "x");
  expect_gradient(w, dw, loss, kStep, kTolerance, "weight");
  expect_gradient(b, db, loss, kStep, kTolerance, "bias");
}

TEST(Gradients, BiasGelu) {
  const KernelContext ctx(1);
  const std::int64_t N = 5, C = 29;
  Floats x = random_floats(N * C, 1), b = random_floats(C, 2);
  const Floats dy = random_floats(N * C, 3);
  const auto loss = [&] {
    Floats y(dy.size());
    bias_gelu_forward(ctx, y.data(), x.data(), b.data(), N, C);
    return weighted_sum(y, dy);
  };
  Floats dx(x.size()), db(b.size());
  bias_gelu_backward(ctx, dx.data(), dy.data(), x.data(), b.data(), N, C);
  for (std::size_t i = 0; i < dx.size(); ++i) db[i % db.size()] += dx[i];
  expect_gradient(x, dx, loss, kStep, kTolerance, "x");
  expect_gradient(b, db, loss, kStep, kTolerance, "bias");
}

TEST(Gradients, Layernorm) {
  const KernelContext ctx(2);
  const std::int64_t N = 4, C = 37;
  Floats x = random_floats(N * C, 1, 1.5F, 0.5F), gamma = random_floats(C, 2), beta = random_floats(C, 3);
  const Floats dy = random_floats(N * C, 4);
  Floats mean(4), rstd(4);
  const auto loss = [&] {
    Floats y(dy.size());
    layernorm_forward(ctx, y.data(), mean.data(), rstd.data(), x.data(), gamma.data(), beta.data(), N, C);
    return weighted_sum(y, dy);
  };
  loss();
  Floats dx(x.size()), dgamma(gamma.size()), dbeta(beta.size());
  layernorm_backward_input(ctx, dx.data(), dy.data(), x.data(), mean.data(), rstd.data(), gamma.data(), N, C);
  layernorm_backward_weight(ctx, dgamma.data(), dbeta.data(), dy.data(), x.data(), mean.data(), rstd.data(), N, C);
  expect_gradient(x, dx, loss, kStep, kTolerance, "x");
  expect_gradient(gamma, dgamma, loss, kStep, kTolerance, "gamma");
  expect_gradient(beta, dbeta, loss, kStep, kTolerance, "beta");
}

TEST(Gradients, Embedding) {
  const KernelContext ctx(1);
  const std::int64_t B = 2, T = 5, C = 7, V = 4;
  const auto tokens = random_ids(B * T, static_cast<int>(V), 1);
  Floats wte = random_floats(V * C, 2), wpe = random_floats(T * C, 3);
  const Floats dout = random_floats(B * T * C, 4);
  const auto loss = [&] {
    Floats out(dout.size());
    embedding_forward(ctx, out.data(), tokens.data(), wte.data(), wpe.data(), B, T, C);
    return weighted_sum(out, dout);
  };
  Floats dwte(wte.size()), dwpe(wpe.size());
  embedding_backward(ctx, dwte.data(), dwpe.data(), dout.data(), tokens.data(), B, T, C);
  expect_gradient(wte, dwte, loss, kStep, kTolerance, "token table");
  expect_gradient(wpe, dwpe, loss, kStep, kTolerance, "position table");
}

TEST(Gradients, Attention) {
  const KernelContext ctx(2);
  const std::int64_t B = 1, T = 70, C = 12, H = 2;
  Floats qkv = random_floats(B * T * 3 * C, 1);
  const Floats dout = random_floats(B * T * C, 2);
  Floats out(dout.size()), lse(static_cast<std::size_t>(B * H * T));
  const auto loss = [&] {
    attention_forward(ctx, out.data(), lse.data(), qkv.data(), B, T, C, H);
    return weighted_sum(out, dout);
  };
  loss();
  Floats dqkv(qkv.size());
  attention_backward(ctx, dqkv.data(), dout.data(), qkv.data(), out.data(), lse.data(), B, T, C, H);
  expect_gradient(qkv, dqkv, loss, kStep, kTolerance, "qkv");
}

TEST(Gradients, CrossEntropy) {
  const KernelContext ctx(1);
  const std::int64_t N = 3, V = 41, Vp = 48;
  Floats logits = random_floats(N * Vp, 1);
  const auto targets = random_ids(N, static_cast<int>(V), 2);
  Floats losses(3), lse(3);
  const auto loss = [&] {
    cross_entropy_forward(ctx, losses.data(), lse.data(), logits.data(), targets.data(), N, V, Vp);
    return (static_cast<double>(losses[0]) + losses[1] + losses[2]) / 3.0;
  };
  loss();
  Floats gradient = logits;
  cross_entropy_backward(ctx, gradient.data(), lse.data(), targets.data(), 1.0F / 3.0F, N, V, Vp);
  expect_gradient(logits, gradient, loss, kStep, kTolerance, "logits");
}

}  // namespace
}  // namespace pipefill::test
