// The linear layer on the CPU: a matrix product, with the bias beside it.
#include "kernels/linear/linear.hpp"
#include "kernels/parallel.hpp"

namespace pipefill {

namespace {

void add_bias(const KernelContext& ctx, float* y, const float* bias, std::int64_t N, std::int64_t OC) {
  if (bias == nullptr) return;
  parallel_parts(ctx, N, 1, OC, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      float* row = y + n * OC;
      for (std::int64_t o = 0; o < OC; ++o) row[o] += bias[o];
    }
  });
}

float value(float x) { return x; }
float value(Bf16 x) { return to_float(x); }

/// Columns are shared out, so that each is summed by one thread in ascending row order.
template <class T>
void add_column_sums(const KernelContext& ctx, float* sums, const T* dy, std::int64_t N, std::int64_t OC) {
  if (sums == nullptr) return;
  parallel_parts(ctx, OC, 16, N, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = 0; n < N; ++n) {
      const T* row = dy + n * OC;
      for (std::int64_t o = begin; o < end; ++o) sums[o] += value(row[o]);
    }
  });
}

template <class T>
void forward(const KernelContext& ctx, float* y, const T* x, const T* weight, const float* bias, std::int64_t N,
             std::int64_t C, std::int64_t OC) {
  matmul(ctx, y, x, weight, {.m = N, .n = OC, .k = C, .b = Transpose::yes});
  add_bias(ctx, y, bias, N, OC);
}

template <class T>
void backward_input(const KernelContext& ctx, float* dx, const T* dy, const T* weight, std::int64_t N, std::int64_t C,
                    std::int64_t OC, Accumulate accumulate) {
  matmul(ctx, dx, dy, weight, {.m = N, .n = C, .k = OC, .accumulate = accumulate});
}

template <class T>
void backward_weight(const KernelContext& ctx, float* dweight, float* dbias, const T* x, const T* dy, std::int64_t N,
                     std::int64_t C, std::int64_t OC) {
  matmul(ctx, dweight, dy, x, {.m = OC, .n = C, .k = N, .a = Transpose::yes, .accumulate = Accumulate::yes});
  add_column_sums(ctx, dbias, dy, N, OC);
}

}  // namespace

void linear_forward(const KernelContext& ctx, float* y, const float* x, const float* weight, const float* bias,
                    std::int64_t N, std::int64_t C, std::int64_t OC) {
  forward(ctx, y, x, weight, bias, N, C, OC);
}
void linear_forward(const KernelContext& ctx, float* y, const Bf16* x, const Bf16* weight, const float* bias,
                    std::int64_t N, std::int64_t C, std::int64_t OC) {
  forward(ctx, y, x, weight, bias, N, C, OC);
}

void linear_backward_input(const KernelContext& ctx, float* dx, const float* dy, const float* weight, std::int64_t N,
                           std::int64_t C, std::int64_t OC, Accumulate accumulate) {
  backward_input(ctx, dx, dy, weight, N, C, OC, accumulate);
}
void linear_backward_input(const KernelContext& ctx, float* dx, const Bf16* dy, const Bf16* weight, std::int64_t N,
                           std::int64_t C, std::int64_t OC, Accumulate accumulate) {
  backward_input(ctx, dx, dy, weight, N, C, OC, accumulate);
}

void linear_backward_weight(const KernelContext& ctx, float* dweight, float* dbias, const float* x, const float* dy,
                            std::int64_t N, std::int64_t C, std::int64_t OC) {
  backward_weight(ctx, dweight, dbias, x, dy, N, C, OC);
}
void linear_backward_weight(const KernelContext& ctx, float* dweight, float* dbias, const Bf16* x, const Bf16* dy,
                            std::int64_t N, std::int64_t C, std::int64_t OC) {
  backward_weight(ctx, dweight, dbias, x, dy, N, C, OC);
}

}  // namespace pipefill
