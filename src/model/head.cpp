// Final norm, logits in pieces, cross entropy.
#include "model/head.hpp"

#include <algorithm>

#include "base/contract.hpp"
#include "kernels/cross_entropy/cross_entropy.hpp"
#include "kernels/layernorm/layernorm.hpp"
#include "kernels/matmul/matmul.hpp"

namespace pipefill {
namespace {

/// Columns of the logits per product: small enough for messages to progress every few tens of milliseconds, large
/// enough for full speed.
constexpr std::int64_t kPiece = 4096;

template <class Visit>
void for_each_piece(std::int64_t vocab, const Progress& progress, Visit visit) {
  for (std::int64_t first = 0; first < vocab; first += kPiece) {
    visit(first, std::min(kPiece, vocab - first));
    progress();
  }
}

/// The logits' gradient as a factor: fp32 in place, or bf16 in the first half of every row.
struct RowsOfFloat {
  const float* data;
  std::int64_t stride;
};
struct RowsOfBf16 {
  const Bf16* data;
  std::int64_t stride;
};
RowsOfFloat gradient_rows(const ChunkShape& shape, const ChunkActivations<float>& a) {
  return {a.logits, shape.logit_stride};
}
RowsOfBf16 gradient_rows(const ChunkShape& shape, const ChunkActivations<Bf16>& a) {
  return {reinterpret_cast<const Bf16*>(a.logits), 2 * shape.logit_stride};
}

void cross_entropy(const KernelContext& ctx, const ChunkShape& shape, ChunkActivations<float>& a, float scale) {
  cross_entropy_forward_backward(ctx, a.losses, a.logits, a.targets, scale, shape.tokens(), shape.V,
                                 shape.logit_stride);
}
void cross_entropy(const KernelContext& ctx, const ChunkShape& shape, ChunkActivations<Bf16>& a, float scale) {
  cross_entropy_forward_backward_bf16(ctx, a.losses, a.logits, a.targets, scale, shape.tokens(), shape.V,
                                      shape.logit_stride);
}

}  // namespace

template <class Factor>
HeadWeights<Factor> head_weights(const ParameterStore& store) {
  PF_EXPECT(store.head() != nullptr);
  return {norm_weights(store, "final_norm"), store.factor(*store.head(), Factor{}), store.head_gradient().data()};
}

template <class Factor>
double head_forward(const KernelContext& ctx, const ChunkShape& shape, const HeadWeights<Factor>& w,
                    ChunkActivations<Factor>& a, float gradient_scale, const Progress& progress) {
  const std::int64_t N = shape.tokens(), C = shape.C;
  layernorm_forward(ctx, a.norm, a.mean, a.rstd, a.input, w.norm.gamma, w.norm.beta, N, C);
  for_each_piece(shape.V, progress, [&](std::int64_t first, std::int64_t count) {
    matmul(ctx, a.logits + first, a.norm, w.weight + first * C,
           {.m = N, .n = count, .k = C, .b = Transpose::yes, .ldc = shape.logit_stride});
  });
  cross_entropy(ctx, shape, a, gradient_scale);
  progress();
  double sum = 0;
  for (std::int64_t n = 0; n < N; ++n) sum += static_cast<double>(a.losses[n]);
  return sum;
}

template <class Factor>
void head_backward_input(const KernelContext& ctx, const ChunkShape& shape, const HeadWeights<Factor>& w,
                         const ChunkActivations<Factor>& a, ChunkGradients<Factor>& g, float* residual,
                         const Progress& progress) {
  const std::int64_t N = shape.tokens(), C = shape.C;
  const auto rows = gradient_rows(shape, a);
  for_each_piece(shape.V, progress, [&](std::int64_t first, std::int64_t count) {
    matmul(
        ctx, g.norm, rows.data + first, w.weight + first * C,
        {.m = N, .n = C, .k = count, .lda = rows.stride, .accumulate = first == 0 ? Accumulate::no : Accumulate::yes});
  });
  layernorm_backward_input(ctx, residual, g.norm, a.input, a.mean, a.rstd, w.norm.gamma, N, C);
}

template <class Factor>
void head_backward_weight(const KernelContext& ctx, const ChunkShape& shape, const HeadWeights<Factor>& w,
                          const ChunkActivations<Factor>& a, const ChunkGradients<Factor>& g, Accumulate accumulate,
                          const Progress& progress) {
  const std::int64_t N = shape.tokens(), C = shape.C;
  const auto rows = gradient_rows(shape, a);
  for_each_piece(shape.V, progress, [&](std::int64_t first, std::int64_t count) {
    matmul(ctx, w.dweight + first * C, rows.data + first, a.norm,
           {.m = count, .n = C, .k = N, .a = Transpose::yes, .lda = rows.stride, .accumulate = accumulate});
  });
  layernorm_backward_weight(ctx, w.norm.dgamma, w.norm.dbeta, g.norm, a.input, a.mean, a.rstd, N, C);
}

template HeadWeights<float> head_weights<float>(const ParameterStore&);
template HeadWeights<Bf16> head_weights<Bf16>(const ParameterStore&);
template double head_forward(const KernelContext&, const ChunkShape&, const HeadWeights<float>&,
                             ChunkActivations<float>&, float, const Progress&);
template double head_forward(const KernelContext&, const ChunkShape&, const HeadWeights<Bf16>&, ChunkActivations<Bf16>&,
                             float, const Progress&);
template void head_backward_input(const KernelContext&, const ChunkShape&, const HeadWeights<float>&,
                                  const ChunkActivations<float>&, ChunkGradients<float>&, float*, const Progress&);
template void head_backward_input(const KernelContext&, const ChunkShape&, const HeadWeights<Bf16>&,
                                  const ChunkActivations<Bf16>&, ChunkGradients<Bf16>&, float*, const Progress&);
template void head_backward_weight(const KernelContext&, const ChunkShape&, const HeadWeights<float>&,
                                   const ChunkActivations<float>&, const ChunkGradients<float>&, Accumulate,
                                   const Progress&);
template void head_backward_weight(const KernelContext&, const ChunkShape&, const HeadWeights<Bf16>&,
                                   const ChunkActivations<Bf16>&, const ChunkGradients<Bf16>&, Accumulate,
                                   const Progress&);

}  // namespace pipefill
