// Matrix products against the plain ones: layouts, odd shapes, padded rows, accumulation, bf16.
#include "kernels/linear/linear.hpp"
#include "kernels/matmul/matmul.hpp"
#include "support.hpp"

namespace pipefill::test {
namespace {

struct Case {
  std::int64_t m, n, k, pad;
};
const Case kCases[] = {{1, 1, 1, 0},    {1, 31, 33, 3},     {31, 1, 257, 0},   {33, 257, 31, 5},
                       {257, 33, 1, 1}, {64, 48, 1000, 16}, {1000, 31, 64, 0}, {130, 1100, 70, 2}};

template <class T>
struct Operands {
  MatmulShape shape;
  Aligned<T> a, b;
  Floats c;
};

Operands<float> operands(const Case& x, Transpose ta, Transpose tb, Accumulate accumulate) {
  MatmulShape s{.m = x.m, .n = x.n, .k = x.k, .a = ta, .b = tb, .accumulate = accumulate};
  s.lda = s.row_a() + x.pad;
  s.ldb = s.row_b() + x.pad;
  s.ldc = s.row_c() + x.pad;
  const std::int64_t rows_a = ta == Transpose::no ? x.m : x.k;
  const std::int64_t rows_b = tb == Transpose::no ? x.k : x.n;
  return {s, random_floats(rows_a * s.lda, 1), random_floats(rows_b * s.ldb, 2), random_floats(x.m * s.ldc, 3)};
}

template <class Check>
void for_all_layouts(const Check& check) {
  for (const Case& x : kCases) {
    for (const Transpose ta : {Transpose::no, Transpose::yes}) {
      for (const Transpose tb : {Transpose::no, Transpose::yes}) {
        for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes}) {
          SCOPED_TRACE(testing::Message() << x.m << "x" << x.n << "x" << x.k << " layout " << static_cast<int>(ta)
                                          << static_cast<int>(tb) << " accumulate " << static_cast<int>(accumulate));
          check(operands(x, ta, tb, accumulate));
        }
      }
    }
  }
}

TEST(Matmul, Fp32EqualsThePlainProductAndLeavesThePaddingAlone) {
  for (const int threads : kThreadCounts) {
    const KernelContext ctx(threads);
    for_all_layouts([&](Operands<float> o) {
      Floats expected = o.c;
      reference::matmul(expected.data(), o.a.data(), o.b.data(), o.shape);
      matmul(ctx, o.c.data(), o.a.data(), o.b.data(), o.shape);
      expect_close(o.c, expected, 1e-6 * std::sqrt(static_cast<double>(o.shape.k)) + 1e-6, "c");
    });
  }
}

TEST(Matmul, Bf16IsTheExactProductOfTheRoundedInputs) {
  const KernelContext ctx(2);
  for_all_layouts([&](Operands<float> o) {
    const Aligned<Bf16> a = rounded(o.a);
    const Aligned<Bf16> b = rounded(o.b);
    Floats expected = o.c;
    reference::matmul(expected.data(), a.data(), b.data(), o.shape);
    matmul(ctx, o.c.data(), a.data(), b.data(), o.shape);
    expect_close(o.c, expected, 1e-6 * std::sqrt(static_cast<double>(o.shape.k)) + 1e-6, "c");
  });
}

TEST(Matmul, Bf16PanelsCoverSumsLongerThanOnePanel) {
  const KernelContext ctx(1);
  const MatmulShape s{.m = 5, .n = 7, .k = 2500, .accumulate = Accumulate::yes};
  const Aligned<Bf16> a = rounded(random_floats(s.m * s.k, 1));
  const Aligned<Bf16> b = rounded(random_floats(s.k * s.n, 2));
  Floats c = random_floats(s.m * s.n, 3);
  Floats expected = c;
  reference::matmul(expected.data(), a.data(), b.data(), s);
  matmul(ctx, c.data(), a.data(), b.data(), s);
  expect_close(c, expected, 5e-5, "c");
}

TEST(Matmul, EmptyInnerDimensionIsZeroOrNothing) {
  const KernelContext ctx(1);
  Floats c = {3.0F, 4.0F};
  matmul(ctx, c.data(), static_cast<const float*>(nullptr), nullptr,
         {.m = 1, .n = 2, .k = 0, .accumulate = Accumulate::yes});
  EXPECT_EQ(c, (Floats{3.0F, 4.0F}));
  matmul(ctx, c.data(), static_cast<const Bf16*>(nullptr), nullptr, {.m = 1, .n = 2, .k = 0});
  EXPECT_EQ(c, (Floats{0.0F, 0.0F}));
}

TEST(Linear, EqualsThePlainLayer) {
  for (const int threads : kThreadCounts) {
    const KernelContext ctx(threads);
    for (const auto& [N, C, OC] : {std::array<std::int64_t, 3>{1, 31, 33}, {257, 33, 31}, {33, 64, 1000}}) {
      const Floats x = random_floats(N * C, 1);
      const Floats w = random_floats(OC * C, 2);
      const Floats bias = random_floats(OC, 3);
      const Floats dy = random_floats(N * OC, 4);
      Floats y(static_cast<std::size_t>(N * OC));
      Floats y_expected = y;
      for (const float* b : {bias.data(), static_cast<const float*>(nullptr)}) {
        linear_forward(ctx, y.data(), x.data(), w.data(), b, N, C, OC);
        reference::linear_forward(y_expected.data(), x.data(), w.data(), b, N, C, OC);
        expect_close(y, y_expected, 2e-5, "y");
      }
      for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes}) {
        Floats dx = random_floats(N * C, 5);
        Floats dx_expected = dx;
        linear_backward_input(ctx, dx.data(), dy.data(), w.data(), N, C, OC, accumulate);
        reference::linear_backward_input(dx_expected.data(), dy.data(), w.data(), N, C, OC, accumulate);
        expect_close(dx, dx_expected, 1e-4, "dx");
      }
      Floats dw = random_floats(OC * C, 6);
      Floats db = random_floats(OC, 7);
      Floats dw_expected = dw;
      Floats db_expected = db;
      linear_backward_weight(ctx, dw.data(), db.data(), x.data(), dy.data(), N, C, OC);
      reference::linear_backward_weight(dw_expected.data(), db_expected.data(), x.data(), dy.data(), N, C, OC);
      expect_close(dw, dw_expected, 2e-5, "dw");
      expect_close(db, db_expected, 2e-5, "db");
    }
  }
}

TEST(Linear, Bf16StaysWithinTheRoundingOfItsInputs) {
  const KernelContext ctx(2);
  const std::int64_t N = 33, C = 257, OC = 31;
  const Floats x = random_floats(N * C, 1);
  const Floats w = random_floats(OC * C, 2);
  const Floats dy = random_floats(N * OC, 4);
  const Aligned<Bf16> xh = rounded(x), wh = rounded(w), dyh = rounded(dy);
  const auto bound = [](std::int64_t terms) { return 4.0 * std::sqrt(static_cast<double>(terms)) / 256.0; };
  Floats y(static_cast<std::size_t>(N * OC)), y_expected = y;
  linear_forward(ctx, y.data(), xh.data(), wh.data(), nullptr, N, C, OC);
  reference::linear_forward(y_expected.data(), x.data(), w.data(), nullptr, N, C, OC);
  expect_close(y, y_expected, bound(C), "y");
  Floats dx(static_cast<std::size_t>(N * C)), dx_expected = dx;
  linear_backward_input(ctx, dx.data(), dyh.data(), wh.data(), N, C, OC);
  reference::linear_backward_input(dx_expected.data(), dy.data(), w.data(), N, C, OC);
  expect_close(dx, dx_expected, bound(OC), "dx");
  Floats dw(static_cast<std::size_t>(OC * C)), dw_expected = dw, db(static_cast<std::size_t>(OC)), db_expected = db;
  linear_backward_weight(ctx, dw.data(), db.data(), xh.data(), dyh.data(), N, C, OC);
  reference::linear_backward_weight(dw_expected.data(), db_expected.data(), x.data(), dy.data(), N, C, OC);
  expect_close(dw, dw_expected, bound(N), "dw");
  expect_close(db, db_expected, bound(N), "db");
}

}  // namespace
}  // namespace pipefill::test
