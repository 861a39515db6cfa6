// The first version of every op: the plain one.
#include <vector>

#include "kernels/adamw/adamw.hpp"
#include "kernels/attention/attention.hpp"
#include "kernels/bias_gelu/bias_gelu.hpp"
#include "kernels/cast/cast.hpp"
#include "kernels/cross_entropy/cross_entropy.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "kernels/embedding/embedding.hpp"
#include "kernels/layernorm/layernorm.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/norm/norm.hpp"
#include "kernels/residual/residual.hpp"

namespace pipefill {
using I = std::int64_t;
using K = const KernelContext&;
void matmul(K, float* c, const Bf16* a, const Bf16* b, const MatmulShape& s) { reference::matmul(c, a, b, s); }
bool cpu_has_fast_bf16() { return false; }
static void add_bias(float* y, const float* bias, I N, I OC) {
  for (I i = 0; bias != nullptr && i < N * OC; ++i) y[i] += bias[i % OC];
}
void linear_forward(K ctx, float* y, const float* x, const float* w, const float* bias, I N, I C, I OC) {
  matmul(ctx, y, x, w, {.m = N, .n = OC, .k = C, .b = Transpose::yes});
  add_bias(y, bias, N, OC);
}
void linear_forward(K ctx, float* y, const Bf16* x, const Bf16* w, const float* bias, I N, I C, I OC) {
  matmul(ctx, y, x, w, {.m = N, .n = OC, .k = C, .b = Transpose::yes});
  add_bias(y, bias, N, OC);
}
void linear_backward_input(K ctx, float* dx, const float* dy, const float* w, I N, I C, I OC, Accumulate acc) {
  matmul(ctx, dx, dy, w, {.m = N, .n = C, .k = OC, .accumulate = acc});
}
void linear_backward_input(K ctx, float* dx, const Bf16* dy, const Bf16* w, I N, I C, I OC, Accumulate acc) {
  matmul(ctx, dx, dy, w, {.m = N, .n = C, .k = OC, .accumulate = acc});
}
void linear_backward_weight(K ctx, float* dw, float* db, const float* x, const float* dy, I N, I C, I OC) {
  matmul(ctx, dw, dy, x, {.m = OC, .n = C, .k = N, .a = Transpose::yes, .accumulate = Accumulate::yes});
  for (I i = 0; db != nullptr && i < N * OC; ++i) db[i % OC] += dy[i];
}
void linear_backward_weight(K ctx, float* dw, float* db, const Bf16* x, const Bf16* dy, I N, I C, I OC) {
  matmul(ctx, dw, dy, x, {.m = OC, .n = C, .k = N, .a = Transpose::yes, .accumulate = Accumulate::yes});
  for (I i = 0; db != nullptr && i < N * OC; ++i) db[i % OC] += to_float(dy[i]);
}
void bias_gelu_forward(K, float* y, const float* x, const float* b, I N, I C) {
  reference::bias_gelu_forward(y, x, b, N, C);
}
void bias_gelu_forward(K, Bf16* y, const float* x, const float* b, I N, I C) {
  std::vector<float> t(static_cast<std::size_t>(N * C));
  reference::bias_gelu_forward(t.data(), x, b, N, C);
  reference::cast(y, t.data(), N * C);
}
void bias_gelu_backward(K, float* dx, const float* dy, const float* x, const float* b, I N, I C) {
  reference::bias_gelu_backward(dx, dy, x, b, N, C);
}
void layernorm_forward(K, float* y, float* m, float* r, const float* x, const float* g, const float* b, I N, I C) {
  reference::layernorm_forward(y, m, r, x, g, b, N, C);
}
void layernorm_forward(K, Bf16* y, float* m, float* r, const float* x, const float* g, const float* b, I N, I C) {
  std::vector<float> t(static_cast<std::size_t>(N * C));
  reference::layernorm_forward(t.data(), m, r, x, g, b, N, C);
  reference::cast(y, t.data(), N * C);
}
void residual_layernorm_forward(K, float* s, float* y, float* m, float* r, const float* a, const float* br,
                                const float* bi, const float* g, const float* b, I N, I C) {
  reference::residual_layernorm_forward(s, y, m, r, a, br, bi, g, b, N, C);
}
void residual_layernorm_forward(K, float* s, Bf16* y, float* m, float* r, const float* a, const float* br,
                                const float* bi, const float* g, const float* b, I N, I C) {
  std::vector<float> t(static_cast<std::size_t>(N * C));
  reference::residual_layernorm_forward(s, t.data(), m, r, a, br, bi, g, b, N, C);
  reference::cast(y, t.data(), N * C);
}
void layernorm_backward_input(K, float* dx, const float* dy, const float* x, const float* m, const float* r,
                              const float* g, I N, I C, Accumulate acc) {
  reference::layernorm_backward_input(dx, dy, x, m, r, g, N, C, acc);
}
void layernorm_backward_weight(K, float* dg, float* db, const float* dy, const float* x, const float* m, const float* r,
                               I N, I C) {
  reference::layernorm_backward_weight(dg, db, dy, x, m, r, N, C);
}
void residual_add(K, float* o, const float* a, const float* b, const float* bias, I N, I C) {
  reference::residual_add(o, a, b, bias, N, C);
}
void embedding_forward(K, float* o, const std::int32_t* t, const float* w, const float* p, I B, I T, I C) {
  reference::embedding_forward(o, t, w, p, B, T, C);
}
void embedding_backward(K, float* dw, float* dp, const float* d, const std::int32_t* t, I B, I T, I C) {
  reference::embedding_backward(dw, dp, d, t, B, T, C);
}
void attention_forward(K, float* o, float* l, const float* qkv, I B, I T, I C, I H) {
  reference::attention_forward(o, l, qkv, B, T, C, H);
}
void attention_backward(K, float* dq, const float* d, const float* qkv, const float* o, const float* l, I B, I T, I C,
                        I H) {
  reference::attention_backward(dq, d, qkv, o, l, B, T, C, H);
}
void cross_entropy_forward(K, float* loss, float* lse, const float* l, const std::int32_t* t, I N, I V, I Vp) {
  reference::cross_entropy_forward(loss, lse, l, t, N, V, Vp);
}
void cross_entropy_backward(K, float* l, const float* lse, const std::int32_t* t, float s, I N, I V, I Vp) {
  reference::cross_entropy_backward(l, lse, t, s, N, V, Vp);
}
static Bf16* halve(float* l, I N, I Vp) {
  auto* out = reinterpret_cast<Bf16*>(l);
  for (I n = 0; n < N; ++n) {
    for (I v = 0; v < Vp; ++v) out[n * 2 * Vp + v] = to_bf16(l[n * Vp + v]);
  }
  return out;
}
Bf16* cross_entropy_backward_bf16(K, float* l, const float* lse, const std::int32_t* t, float s, I N, I V, I Vp) {
  reference::cross_entropy_backward(l, lse, t, s, N, V, Vp);
  return halve(l, N, Vp);
}
void cross_entropy_forward_backward(K, float* loss, float* l, const std::int32_t* t, float s, I N, I V, I Vp) {
  std::vector<float> lse(static_cast<std::size_t>(N));
  reference::cross_entropy_forward(loss, lse.data(), l, t, N, V, Vp);
  reference::cross_entropy_backward(l, lse.data(), t, s, N, V, Vp);
}
Bf16* cross_entropy_forward_backward_bf16(K ctx, float* loss, float* l, const std::int32_t* t, float s, I N, I V,
                                          I Vp) {
  cross_entropy_forward_backward(ctx, loss, l, t, s, N, V, Vp);
  return halve(l, N, Vp);
}
void adamw_update(K, float* p, float* m, float* v, const float* g, Bf16* c, I n, const AdamwStep& s) {
  reference::adamw_update(p, m, v, g, c, n, s);
}
double squared_norm(K, const float* x, I n) { return reference::squared_norm(x, n); }
void fill(K, float* x, float v, I n) { reference::fill(x, v, n); }
void add_into(K, float* s, const float* x, I n) { reference::add_into(s, x, n); }
void scale(K, float* x, float f, I n) { reference::scale(x, f, n); }
void cast(K, Bf16* o, const float* i, I n) { reference::cast(o, i, n); }
void cast(K, float* o, const Bf16* i, I n) { reference::cast(o, i, n); }
}  // namespace pipefill
