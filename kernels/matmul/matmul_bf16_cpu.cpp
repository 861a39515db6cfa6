// bf16 x bf16 -> fp32 products: oneDNN's matmul primitive where the CPU has bf16 instructions; elsewhere panels
// converted to fp32 (exact) and multiplied by sgemm, so that the result is as good, only not faster than fp32.
#include <algorithm>
#include <string>

#include "kernels/matmul/matmul_primitives.hpp"
#include "kernels/matmul/sgemm.hpp"
#include "kernels/parallel.hpp"
#include "kernels/team_size.hpp"

namespace pipefill {

namespace {

using dnnl::memory;
using Type = memory::data_type;

memory::desc matrix(std::int64_t rows, std::int64_t columns, std::int64_t row_stride, Transpose transpose, Type type) {
  const memory::dims strides = transpose == Transpose::no ? memory::dims{row_stride, 1} : memory::dims{1, row_stride};
  return {memory::dims{rows, columns}, type, strides};
}

MatmulPrimitives::Product make_product(MatmulPrimitives& cache, const MatmulShape& s) {
  const memory::desc a = matrix(s.m, s.k, s.row_a(), s.a, Type::bf16);
  const memory::desc b = matrix(s.k, s.n, s.row_b(), s.b, Type::bf16);
  const memory::desc c = matrix(s.m, s.n, s.row_c(), Transpose::no, Type::f32);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (s.accumulate == Accumulate::yes) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc description(cache.engine(), a, b, c, attributes);
#else
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), attributes, cache.engine());
#endif
  return {dnnl::matmul(description), memory(a, cache.engine(), nullptr), memory(b, cache.engine(), nullptr),
          memory(c, cache.engine(), nullptr), memory(description.scratchpad_desc(), cache.engine())};
}

void run_primitive(const KernelContext& ctx, float* c, const Bf16* a, const Bf16* b, const MatmulShape& s) {
  MatmulPrimitives& cache = ctx.matmul_primitives();
  const std::int64_t flags =
      (s.a == Transpose::yes ? 1 : 0) + (s.b == Transpose::yes ? 2 : 0) + (s.accumulate == Accumulate::yes ? 4 : 0);
  const MatmulPrimitives::Key key{s.m, s.n, s.k, s.row_a(), s.row_b(), s.row_c(), flags, ctx.threads()};
  const TeamSize team(ctx.threads());
  auto found = cache.products().find(key);
  if (found == cache.products().end()) found = cache.products().emplace(key, make_product(cache, s)).first;
  MatmulPrimitives::Product& product = found->second;
  product.a.set_data_handle(const_cast<Bf16*>(a));
  product.b.set_data_handle(const_cast<Bf16*>(b));
  product.c.set_data_handle(c);
  product.primitive.execute(cache.stream(), {{DNNL_ARG_SRC, product.a},
                                             {DNNL_ARG_WEIGHTS, product.b},
                                             {DNNL_ARG_DST, product.c},
                                             {DNNL_ARG_SCRATCHPAD, product.scratchpad}});
  cache.stream().wait();
}

constexpr std::int64_t kPanel = 1024;  // rows and columns converted at a time: 4 MiB of fp32

/// out (rows, columns) = the part of a stored bf16 matrix that begins at `in`, as it lies in memory.
void widen(const KernelContext& ctx, float* out, const Bf16* in, std::int64_t rows, std::int64_t columns,
           std::int64_t row_stride) {
  parallel_parts(ctx, rows, 1, columns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* __restrict to = out + r * columns;
      const Bf16* __restrict from = in + r * row_stride;
      for (std::int64_t c = 0; c < columns; ++c) to[c] = to_float(from[c]);
    }
  });
}

void run_panels(const KernelContext& ctx, float* c, const Bf16* a, const Bf16* b, const MatmulShape& s) {
  auto* wide_a = reinterpret_cast<float*>(ctx.scratch(2 * kPanel * kPanel * static_cast<std::int64_t>(sizeof(float))));
  float* wide_b = wide_a + kPanel * kPanel;
  for (std::int64_t i = 0; i < s.m; i += kPanel) {
    const std::int64_t m = std::min(kPanel, s.m - i);
    for (std::int64_t l = 0; l < s.k; l += kPanel) {
      const std::int64_t k = std::min(kPanel, s.k - l);
      if (s.a == Transpose::no) {
        widen(ctx, wide_a, a + i * s.row_a() + l, m, k, s.row_a());
      } else {
        widen(ctx, wide_a, a + l * s.row_a() + i, k, m, s.row_a());
      }
      for (std::int64_t j = 0; j < s.n; j += kPanel) {
        const std::int64_t n = std::min(kPanel, s.n - j);
        if (s.b == Transpose::no) {
          widen(ctx, wide_b, b + l * s.row_b() + j, k, n, s.row_b());
        } else {
          widen(ctx, wide_b, b + j * s.row_b() + l, n, k, s.row_b());
        }
        sgemm(ctx.threads(), c + i * s.row_c() + j, wide_a, wide_b,
              {.m = m,
               .n = n,
               .k = k,
               .a = s.a,
               .b = s.b,
               .ldc = s.row_c(),
               .accumulate = l > 0 ? Accumulate::yes : s.accumulate});
      }
    }
  }
}

}  // namespace

bool cpu_has_fast_bf16() { return dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core_bf16; }

void matmul(const KernelContext& ctx, float* c, const Bf16* a, const Bf16* b, const MatmulShape& s) {
  if (s.m == 0 || s.n == 0 || s.k == 0) {
    MatmulShape empty = s;
    empty.k = 0;
    sgemm(ctx.threads(), c, nullptr, nullptr, empty);
    return;
  }
  try {
    if (cpu_has_fast_bf16()) {
      run_primitive(ctx, c, a, b, s);
    } else {
      run_panels(ctx, c, a, b, s);
    }
  } catch (const dnnl::error& e) {
    throw KernelError("oneDNN refused a bf16 product of m " + std::to_string(s.m) + ", n " + std::to_string(s.n) +
                      ", k " + std::to_string(s.k) + ": " + e.what());
  }
}

}  // namespace pipefill
