// The same bits on every repetition and from several host threads at once, each with its own context.
#include <thread>

#include "kernels/attention/attention.hpp"
#include "kernels/bias_gelu/bias_gelu.hpp"
#include "kernels/cross_entropy/cross_entropy.hpp"
#include "kernels/layernorm/layernorm.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/norm/norm.hpp"
#include "support.hpp"

namespace pipefill::test {
namespace {

/// A small block's worth of ops, forward and backward; everything it computes in one vector.
Floats run_everything(const KernelContext& ctx) {
  const std::int64_t B = 2, T = 100, C = 96, H = 3, N = B * T, V = 1000, Vp = 1024;
  const Floats x = random_floats(N * C, 1), gamma = random_floats(C, 2), beta = random_floats(C, 3);
  const Floats wqkv = random_floats(3 * C * C, 4, 0.1F), whead = random_floats(Vp * C, 5, 0.1F);
  const auto targets = random_ids(N, static_cast<int>(V), 6);
  const auto rows = static_cast<std::size_t>(N);
  Floats all;
  const auto keep = [&all](const Floats& y) { all.insert(all.end(), y.begin(), y.end()); };

  Floats y(x.size()), mean(rows), rstd(rows), qkv(rows * 3 * 96), out(x.size()),
      lse(static_cast<std::size_t>(B * H * T));
  layernorm_forward(ctx, y.data(), mean.data(), rstd.data(), x.data(), gamma.data(), beta.data(), N, C);
  linear_forward(ctx, qkv.data(), y.data(), wqkv.data(), nullptr, N, C, 3 * C);
  attention_forward(ctx, out.data(), lse.data(), qkv.data(), B, T, C, H);
  bias_gelu_forward(ctx, out.data(), out.data(), beta.data(), N, C);
  Floats logits(rows * 1024), loss(rows);
  linear_forward(ctx, logits.data(), out.data(), whead.data(), nullptr, N, C, Vp);
  cross_entropy_forward_backward(ctx, loss.data(), logits.data(), targets.data(), 1.0F, N, V, Vp);
  keep(loss);
  Floats dout(out.size()), dwhead(whead.size()), dqkv(qkv.size()), dw(wqkv.size()), db(3 * 96), dx(x.size());
  linear_backward_input(ctx, dout.data(), logits.data(), whead.data(), N, C, Vp);
  linear_backward_weight(ctx, dwhead.data(), nullptr, out.data(), logits.data(), N, C, Vp);
  attention_backward(ctx, dqkv.data(), dout.data(), qkv.data(), out.data(), lse.data(), B, T, C, H);
  linear_backward_weight(ctx, dw.data(), db.data(), y.data(), dqkv.data(), N, C, 3 * C);
  linear_backward_input(ctx, dx.data(), dqkv.data(), wqkv.data(), N, C, 3 * C);
  layernorm_backward_input(ctx, dx.data(), dx.data(), x.data(), mean.data(), rstd.data(), gamma.data(), N, C);
  keep(dwhead);
  keep(dw);
  keep(db);
  keep(dx);
  const Aligned<Bf16> xh = rounded(x), wh = rounded(wqkv);
  linear_forward(ctx, qkv.data(), xh.data(), wh.data(), nullptr, N, C, 3 * C);
  keep(qkv);
  all.push_back(static_cast<float>(squared_norm(ctx, all.data(), static_cast<std::int64_t>(all.size()))));
  return all;
}

TEST(Determinism, RepeatsHaveTheSameBits) {
  for (const int threads : {1, 2}) {
    const KernelContext ctx(threads);
    const Floats first = run_everything(ctx);
    for (int i = 0; i < 4; ++i) expect_same_bits(first, run_everything(ctx), "repeat");
    expect_same_bits(first, run_everything(KernelContext(threads)), "fresh context");
  }
}

TEST(Determinism, ConcurrentHostThreadsDoNotDisturbEachOther) {
  for (const int threads : {1, 2}) {
    const Floats expected = run_everything(KernelContext(threads));
    std::vector<Floats> results(4);
    std::vector<std::thread> hosts;
    for (Floats& result : results) {
      hosts.emplace_back([&result, threads] {
        const KernelContext ctx(threads);
        for (int i = 0; i < 3; ++i) result = run_everything(ctx);
      });
    }
    for (std::thread& host : hosts) host.join();
    for (const Floats& result : results) expect_same_bits(expected, result, "host thread");
  }
}

TEST(Context, ScratchIsAlignedAndKept) {
  const KernelContext ctx(1);
  const std::byte* big = ctx.scratch(100000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(big) % 64, 0U);
  EXPECT_EQ(ctx.scratch(10), big);
  EXPECT_THROW(KernelContext(0), KernelError);
}

}  // namespace
}  // namespace pipefill::test
