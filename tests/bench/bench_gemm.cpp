// Question: which library multiplies fastest at the shapes of a transformer, and how far is each from its own rate at
// 2048 cubed? Command: bench_gemm [threads]. Prints GFLOP/s, the fastest of several runs, libraries interleaved.
//
// Result, 2026-11-30, EPYC (Zen 3, AVX2) with both cores shared by other work, oneDNN 2.6.3 against OpenBLAS 0.3.21,
// one thread: 2048 cubed 68 and 72; NT 65-78 and 62-74; NN 64-77 and 57-75; TN+= 53-70 and 60-74; head 76/68/70 and
// 69/71/70; attention tiles 71-87 and 60-77. Neither is ahead by more than the noise except on NT and tiles (oneDNN)
// and the small TN (OpenBLAS), so one library is kept.
#include <cblas.h>

#include <cstdio>
#include <cstdlib>

#include "bench_support.hpp"
#include "kernels/matmul/matmul.hpp"

extern "C" void openblas_set_num_threads(int threads);

using namespace pipefill;
using namespace pipefill::bench;

namespace {

struct Case {
  const char* name;
  MatmulShape shape;
};

void blas(float* c, const float* a, const float* b, const MatmulShape& s) {
  const auto i = [](std::int64_t x) { return static_cast<blasint>(x); };
  cblas_sgemm(CblasRowMajor, s.a == Transpose::yes ? CblasTrans : CblasNoTrans,
              s.b == Transpose::yes ? CblasTrans : CblasNoTrans, i(s.m), i(s.n), i(s.k), 1.0F, a, i(s.row_a()), b,
              i(s.row_b()), s.accumulate == Accumulate::yes ? 1.0F : 0.0F, c, i(s.row_c()));
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const KernelContext ctx(threads);
  openblas_set_num_threads(threads);
  const std::int64_t N = 1024, C = 384, V = 50304, T = 256, D = 64;
  const auto yes = Transpose::yes;
  const auto add = Accumulate::yes;
  const Case cases[] = {
      {"2048 cubed (NN)", {.m = 2048, .n = 2048, .k = 2048}},
      {"qkv forward (NT)", {.m = N, .n = 3 * C, .k = C, .b = yes}},
      {"qkv dx (NN)", {.m = N, .n = C, .k = 3 * C}},
      {"qkv dw (TN +=)", {.m = 3 * C, .n = C, .k = N, .a = yes, .accumulate = add}},
      {"projection forward (NT)", {.m = N, .n = C, .k = C, .b = yes}},
      {"projection dx (NN)", {.m = N, .n = C, .k = C}},
      {"projection dw (TN +=)", {.m = C, .n = C, .k = N, .a = yes, .accumulate = add}},
      {"up forward (NT)", {.m = N, .n = 4 * C, .k = C, .b = yes}},
      {"up dx (NN)", {.m = N, .n = C, .k = 4 * C}},
      {"up dw (TN +=)", {.m = 4 * C, .n = C, .k = N, .a = yes, .accumulate = add}},
      {"down forward (NT)", {.m = N, .n = C, .k = 4 * C, .b = yes}},
      {"down dx (NN)", {.m = N, .n = 4 * C, .k = C}},
      {"down dw (TN +=)", {.m = C, .n = 4 * C, .k = N, .a = yes, .accumulate = add}},
      {"head forward (NT)", {.m = N, .n = V, .k = C, .b = yes}},
      {"head dx (NN)", {.m = N, .n = C, .k = V}},
      {"head dw (TN +=)", {.m = V, .n = C, .k = N, .a = yes, .accumulate = add}},
      {"head forward, 128 rows", {.m = 128, .n = V, .k = C, .b = yes}},
      {"head dx, 128 rows", {.m = 128, .n = C, .k = V}},
      {"head dw, 128 rows", {.m = V, .n = C, .k = 128, .a = yes, .accumulate = add}},
      {"scores 64 x 256 (NT)", {.m = 64, .n = T, .k = D, .b = yes, .lda = 3 * C, .ldb = 3 * C, .ldc = 272}},
      {"values 64 x 256 (NN)", {.m = 64, .n = D, .k = T, .lda = 272, .ldb = 3 * C, .ldc = C}},
      {"dv 64 x 256 (TN +=)",
       {.m = T, .n = D, .k = 64, .a = yes, .lda = 272, .ldb = C, .ldc = 3 * C, .accumulate = add}},
  };
  const Buffer<float> a = random_buffer(N * V), b = random_buffer(N * V), c(N * V);
  std::printf("%d thread(s), GFLOP/s        %10s %10s\n", threads, "oneDNN", "OpenBLAS");
  for (const Case& x : cases) {
    const double flops =
        2e-9 * static_cast<double>(x.shape.m) * static_cast<double>(x.shape.n) * static_cast<double>(x.shape.k);
    double ours = 1e30, theirs = 1e30;
    for (int i = 0; i < 4; ++i) {
      ours = std::min(ours, fastest([&] { matmul(ctx, c, a, b, x.shape); }, threads, 0.04));
      theirs = std::min(theirs, fastest([&] { blas(c, a, b, x.shape); }, threads, 0.04));
    }
    std::printf("%-28s %10.1f %10.1f\n", x.name, flops / ours, flops / theirs);
    std::fflush(stdout);
  }
}
