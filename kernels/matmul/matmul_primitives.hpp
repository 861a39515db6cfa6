// The cache of oneDNN matmul primitives (bf16 products): making one takes about a millisecond, running it only
// computes. Belongs to one KernelContext, so it needs no lock.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include <oneapi/dnnl/dnnl.hpp>

namespace pipefill {

class MatmulPrimitives {
 public:
  /// m, n, k, row_a, row_b, row_c, flags (transposes, accumulation), threads.
  using Key = std::array<std::int64_t, 8>;

  /// What is cached of one shape; `memory` objects are bound to the caller's pointers before each run.
  struct Product {
    dnnl::matmul primitive;
    dnnl::memory a, b, c, scratchpad;
  };

  dnnl::engine& engine() {
    if (!engine_) {
      engine_.emplace(dnnl::engine::kind::cpu, 0);
      stream_.emplace(*engine_);
    }
    return *engine_;
  }
  dnnl::stream& stream() { return engine(), *stream_; }
  std::map<Key, Product>& products() { return products_; }

 private:
  std::optional<dnnl::engine> engine_;
  std::optional<dnnl::stream> stream_;
  std::map<Key, Product> products_;
};

}  // namespace pipefill
