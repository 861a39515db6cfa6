// Question: what does each op of a training step cost, and how far are they together from a machine that only
// multiplies matrices? GPT-2 shape L6 C384 H6 T256 V50304, batch 4 (1024 tokens). Command: bench_kernels [threads].
// Prints op, time of one call, GFLOP/s or GB/s, share of the step; last the model FLOP rate of the sum against oneDNN's
// sgemm at 2048 cubed (FLOPs: 6 (12 L C^2 + V C) + 12 L T C per token).
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench_support.hpp"
#include "kernels/adamw/adamw.hpp"
#include "kernels/attention/attention.hpp"
#include "kernels/bias_gelu/bias_gelu.hpp"
#include "kernels/cross_entropy/cross_entropy.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "kernels/embedding/embedding.hpp"
#include "kernels/layernorm/layernorm.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/norm/norm.hpp"
#include "kernels/residual/residual.hpp"

using namespace pipefill;
using namespace pipefill::bench;

namespace {

struct Row {
  std::string op;
  double seconds;
  double amount;     // FLOPs or bytes of one call
  const char* unit;  // "GFLOP/s" or "GB/s"
  int calls;         // in one step
};

constexpr std::int64_t L = 6, C = 384, H = 6, T = 256, V = 50304, B = 4, N = B * T;
constexpr std::int64_t kParameters = 12 * L * C * C + V * C;

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const KernelContext ctx(threads);
  std::vector<Row> rows;
  const auto time = [&](const char* op, int calls, double amount, const char* unit, const auto& work) {
    rows.push_back({op, fastest(work, threads, 0.05), amount, unit, calls});
  };
  const Buffer<float> big = random_buffer(N * V), table = random_buffer(V * C, 0.05F), dtable(V * C);
  const Buffer<float> x = random_buffer(N * 4 * C), y = random_buffer(N * 4 * C), z(N * 4 * C),
                      w = random_buffer(4 * C * C, 0.05F);
  const Buffer<float> dw(4 * C * C), bias = random_buffer(4 * C), dbias(4 * C), mean(N), rstd(N), lse(B * H * T),
                                     loss(N);
  const Buffer<float> m(V * C), v(V * C);
  Buffer<std::int32_t> ids(N);
  for (std::int64_t i = 0; i < N; ++i) ids[i] = static_cast<std::int32_t>(i * 7919 % 50257);

  const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    const double flops = 2.0 * static_cast<double>(N * in * out);
    time((name + " forward").c_str(), L, flops, "GFLOP/s", [&] { linear_forward(ctx, z, x, w, bias, N, in, out); });
    time((name + " dx").c_str(), L, flops, "GFLOP/s", [&] { linear_backward_input(ctx, z, y, w, N, in, out); });
    time((name + " dw, db").c_str(), L, flops, "GFLOP/s",
         [&] { linear_backward_weight(ctx, dw, dbias, x, y, N, in, out); });
  };
  double machine = 1e30;
  const auto sgemm_rate = [&] {
    machine = std::min(
        machine, fastest([&] { matmul(ctx, big, table, table, {.m = 2048, .n = 2048, .k = 2048}); }, threads, 0.3));
  };
  sgemm_rate();
  linear("qkv", C, 3 * C);
  linear("projection", C, C);
  linear("up", C, 4 * C);
  linear("down", 4 * C, C);
  const double head = 2.0 * static_cast<double>(N * C * V);
  time("head forward", 1, head, "GFLOP/s", [&] { linear_forward(ctx, big, x, table, nullptr, N, C, V); });
  time("head dx", 1, head, "GFLOP/s", [&] { linear_backward_input(ctx, z, big, table, N, C, V); });
  time("head dw", 1, head, "GFLOP/s", [&] { linear_backward_weight(ctx, dtable, nullptr, x, big, N, C, V); });
  sgemm_rate();
  const double attention = 4.0 * static_cast<double>(B * T * T * C);  // the whole square, as the model's FLOPs count it
  time("attention forward", L, attention, "GFLOP/s", [&] { attention_forward(ctx, z, lse, x, B, T, C, H); });
  time("attention backward", L, 2 * attention, "GFLOP/s",
       [&] { attention_backward(ctx, z, y, x, x, lse, B, T, C, H); });
  const auto bytes = [](std::int64_t floats) { return 4.0 * static_cast<double>(floats); };
  time("layernorm forward", 2 * L + 1, bytes(2 * N * C), "GB/s",
       [&] { layernorm_forward(ctx, z, mean, rstd, x, bias, bias, N, C); });
  time("layernorm dx", 2 * L + 1, bytes(4 * N * C), "GB/s",
       [&] { layernorm_backward_input(ctx, z, y, x, mean, rstd, bias, N, C, Accumulate::yes); });
  time("layernorm dw", 2 * L + 1, bytes(2 * N * C), "GB/s",
       [&] { layernorm_backward_weight(ctx, dbias, dw, y, x, mean, rstd, N, C); });
  time("residual add", 2 * L, bytes(3 * N * C), "GB/s", [&] { residual_add(ctx, z, x, y, bias, N, C); });
  time("bias gelu forward", L, bytes(2 * N * 4 * C), "GB/s", [&] { bias_gelu_forward(ctx, z, x, bias, N, 4 * C); });
  time("bias gelu dx", L, bytes(3 * N * 4 * C), "GB/s", [&] { bias_gelu_backward(ctx, z, y, x, bias, N, 4 * C); });
  time("embedding forward", 1, bytes(2 * N * C), "GB/s", [&] { embedding_forward(ctx, z, ids, table, x, B, T, C); });
  time("embedding dw", 1, bytes(4 * N * C), "GB/s", [&] { embedding_backward(ctx, dtable, z, x, ids, B, T, C); });
  time("cross entropy forward", 0, bytes(N * V), "GB/s",
       [&] { cross_entropy_forward(ctx, loss, rstd, big, ids, N, 50257, V); });
  time("cross entropy dx", 0, bytes(2 * N * V), "GB/s",
       [&] { cross_entropy_backward(ctx, big, rstd, ids, 1.0F, N, 50257, V); });
  time("cross entropy fused", 1, bytes(2 * N * V), "GB/s",
       [&] { cross_entropy_forward_backward(ctx, loss, big, ids, 1.0F, N, 50257, V); });
  time("squared norm of the table", 0, bytes(V * C), "GB/s",
       [&] { loss[0] = static_cast<float>(squared_norm(ctx, dtable, V * C)); });
  time("fill the table", 0, bytes(V * C), "GB/s", [&] { fill(ctx, dtable, 0.0F, V * C); });
  time("adamw of the table", 0, bytes(7 * V * C), "GB/s",
       [&] { adamw_update(ctx, table, m, v, dtable, V * C, {.learning_rate = 1e-4F}); });
  const double whole = static_cast<double>(kParameters) / static_cast<double>(V * C);
  for (std::size_t i = rows.size() - 3, last = rows.size(); i < last; ++i) {
    rows.push_back({rows[i].op.substr(0, rows[i].op.find(" the") + 1) + "all parameters", rows[i].seconds * whole,
                    rows[i].amount * whole, rows[i].unit, 1});
  }
  sgemm_rate();

  double step = 0, products = 0;
  for (const Row& r : rows) {
    step += r.seconds * r.calls;
    if (r.unit == std::string("GFLOP/s")) products += r.seconds * r.calls;
  }
  std::printf("%d thread(s)\n%-28s %10s %9s %-8s %6s %7s\n", threads, "op", "ms a call", "rate", "", "calls", "share");
  for (const Row& r : rows) {
    std::printf("%-28s %10.3f %9.1f %-8s %6d %6.2f%%\n", r.op.c_str(), 1e3 * r.seconds, 1e-9 * r.amount / r.seconds,
                r.unit, r.calls, 100 * r.seconds * r.calls / step);
  }
  const double flops =
      static_cast<double>(N) * (6.0 * static_cast<double>(kParameters) + 12.0 * static_cast<double>(L * T * C));
  const double sgemm_gflops = 2e-9 * 2048.0 * 2048.0 * 2048.0 / machine;
  std::printf(
      "step %.1f ms (products and attention %.1f, the rest %.1f): %.0f tokens/s, %.1f GFLOP/s = %.1f %% of sgemm's "
      "%.1f\n",
      1e3 * step, 1e3 * products, 1e3 * (step - products), static_cast<double>(N) / step, 1e-9 * flops / step,
      100e-9 * flops / step / sgemm_gflops, sgemm_gflops);
}
