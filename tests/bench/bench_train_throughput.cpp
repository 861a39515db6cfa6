// Question: what part of the machine's own sgemm rate does a whole training step reach, in model FLOPs (PERF.md:
// 6 (12 L C^2 + V C) + 12 L T C a token)? Command:
//   bench_train_throughput [threads=1] [fp32|bf16] [pairs=7]
// One process, GPT-2 shape L6 H6 C384 T256 V50304, batch 4, tied; forward, backward, norm, AdamW. Every step is paired
// with 2048 cubed products right before and after it, by oneDNN and OpenBLAS, of which the faster counts. Prints the
// median of the pairs' ratios and their spread. One thread is timed by its CPU clock, which a busy machine disturbs
// little, a team by the wall clock.
//
// Result: at the end of the file.
#include <cblas.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench_support.hpp"
#include "device/cpu/cpu_device.hpp"
#include "device/cpu/openmp_team.hpp"
#include "kernels/matmul/matmul.hpp"
#include "model/adamw.hpp"
#include "model/cost.hpp"
#include "model/stage.hpp"

extern "C" void openblas_set_num_threads(int threads);

using namespace pipefill;

namespace {

constexpr int kBatch = 4;

/// Milliseconds of the parts of a step.
struct StepTimes {
  double clear = 0, forward = 0, backward = 0, optimizer = 0;
  double sum() const { return clear + forward + backward + optimizer; }
};

class Clock {
 public:
  explicit Clock(int threads) : clock_(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC) { lap(); }
  double lap() {
    const double before = last_;
    last_ = bench::seconds(clock_);
    return 1e3 * (last_ - before);
  }

 private:
  clockid_t clock_;
  double last_ = 0;
};

class Trainer {
 public:
  Trainer(const ModelShape& shape, int threads)
      : shape_(shape),
        threads_(threads),
        device_(threads, Bytes{0}),
        stage_(setup(shape), device_),
        optimizer_({}, stage_, device_) {
    for (int i = 0; i < kBatch * shape.context; ++i) {
      inputs_.push_back(static_cast<std::int32_t>(7919LL * i % shape.vocab));
      targets_.push_back(static_cast<std::int32_t>(104729LL * i % shape.vocab));
    }
  }

  StepTimes step() {
    StepTimes times;
    Clock clock(threads_);
    stage_.begin_step();
    times.clear = clock.lap();
    const Progress none = [] {};
    stage_.forward({0}, {0}, {inputs_, targets_}, {}, {}, none);
    times.forward = clock.lap();
    stage_.backward({0}, {0}, {}, {}, none);
    times.backward = clock.lap();
    stage_.add_tied_gradients();
    const std::vector<double> sums = optimizer_.block_square_sums();
    optimizer_.update(++step_, 1e-4, clip_scale(global_norm(stage_.table(), sums), 1.0));
    times.optimizer = clock.lap();
    return times;
  }

  double flops() const { return training_flops_per_token(shape_) * kBatch * shape_.context; }
  double loss() const { return stage_.loss({0}) / (kBatch * shape_.context); }

 private:
  static StageSetup setup(const ModelShape& shape) {
    StageSetup s;
    s.shape = shape;
    s.cut = cut_layers_by_cost(shape, 1);
    s.chunks = {ModelChunkId{0}};
    s.microbatch_size = kBatch;
    s.gradient_scale = 1.0 / (kBatch * shape.context);
    s.slots = {1};
    return s;
  }

  ModelShape shape_;
  int threads_;
  CpuDevice device_;
  Stage stage_;
  Adamw optimizer_;
  std::vector<std::int32_t> inputs_, targets_;
  std::int64_t step_ = 0;
};

class Products {
 public:
  explicit Products(int threads) : threads_(threads), ctx_(threads) { openblas_set_num_threads(threads); }

  /// GFLOP/s of the faster library, one product each.
  double rate() {
    Clock clock(threads_);
    matmul(ctx_, c_, a_, b_, {.m = kSize, .n = kSize, .k = kSize});
    const double onednn = clock.lap();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSize, kSize, kSize, 1.0F, a_, kSize, b_, kSize, 0.0F, c_,
                kSize);
    const double openblas = clock.lap();
    return 2e-6 * kSize * kSize * kSize / std::min(onednn, openblas);
  }

 private:
  static constexpr int kSize = 2048;
  int threads_;
  KernelContext ctx_;
  bench::Buffer<float> a_ = bench::random_buffer(kSize * kSize);
  bench::Buffer<float> b_ = bench::random_buffer(kSize * kSize);
  bench::Buffer<float> c_{kSize * kSize};
};

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  ensure_sleeping_team(argv);
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const bool bf16 = argc > 2 && std::strcmp(argv[2], "bf16") == 0;
  const int pairs = argc > 3 ? std::atoi(argv[3]) : 7;
  const ModelShape shape{.layers = 6,
                         .channels = 384,
                         .heads = 6,
                         .context = 256,
                         .vocab = 50304,
                         .tied = true,
                         .compute = bf16 ? ComputeType::bf16 : ComputeType::fp32};
  Trainer trainer(shape, threads);
  Products products(threads);
  trainer.step();  // the first step builds primitives and touches scratch memory
  std::printf("%d thread(s), %s, %.1f GFLOP a step, loss %.4f\n", threads, bf16 ? "bf16" : "fp32",
              1e-9 * trainer.flops(), trainer.loss());
  std::vector<double> ratios, tokens, rates;
  double before = products.rate();
  for (int i = 0; i < pairs; ++i) {
    const StepTimes t = trainer.step();
    const double after = products.rate();
    const double rate = 1e-6 * trainer.flops() / t.sum(), sgemm = 0.5 * (before + after);
    std::printf(
        "  step %7.1f ms (clear %.1f, forward %.1f, backward %.1f, optimizer %.1f)  %6.1f GFLOP/s of %6.1f: %.3f\n",
        t.sum(), t.clear, t.forward, t.backward, t.optimizer, rate, sgemm, rate / sgemm);
    ratios.push_back(rate / sgemm);
    rates.push_back(rate);
    tokens.push_back(1e3 * kBatch * shape.context / t.sum());
    before = after;
  }
  const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
  std::printf("%.0f tokens/s, %.1f GFLOP/s, ratio to sgemm %.3f (%.3f to %.3f)\n", median(tokens), median(rates),
              median(ratios), *low, *high);
  return 0;
}
