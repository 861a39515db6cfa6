// The cache of oneDNN matmul primitives (bf16 products): making one takes about a millisecond, running it only
// computes. It belongs to one KernelContext, so it needs no lock.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

namespace pipefill {

class MatmulPrimitives {
 public:
  /// m, n, k, row_a, row_b, row_c, transposes and accumulation, threads.
  using Key = std::array<std::int64_t, 8>;

  /// One shape's primitive; the memory objects are bound to the caller's pointers before each run.
  struct Product {
    dnnl::matmul primitive;
    dnnl::memory a, b, c, scratchpad;
  };

  dnnl::engine& engine() {
    if (!engine_) engine_.emplace(dnnl::engine::kind::cpu, 0);
    return *engine_;
  }
  dnnl::stream& stream() {
    if (!stream_) stream_.emplace(engine());
    return *stream_;
  }
  std::map<Key, Product>& products() { return products_; }

 private:
  std::optional<dnnl::engine> engine_;
  std::optional<dnnl::stream> stream_;
  std::map<Key, Product> products_;
};

}  // namespace pipefill
