// What every kernel is handed: where it runs (a number of OpenMP threads; a CUDA stream will stand here as well) and
// the scratch memory and cached primitives it may use. Nothing about the tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>

namespace pipefill {

/// A library refused an operation; says which and why.
struct KernelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Accumulate { no, yes };  ///< overwrite the output, or add to what it holds

class MatmulPrimitives;

/// One per host thread that calls kernels: a context must not be used by two threads at once, several contexts may.
/// Kernels change none of its settings; its scratch grows in the first calls at a shape and is kept, so that a kernel
/// allocates nothing once it is warm.
class KernelContext {
 public:
  /// `threads` >= 1: size of the OpenMP team of every kernel called with this context, matrix products included.
  explicit KernelContext(int threads = 1);
  ~KernelContext();
  KernelContext(const KernelContext&) = delete;
  KernelContext& operator=(const KernelContext&) = delete;

  int threads() const { return threads_; }

  /// At least `bytes` of memory, 64-byte aligned, contents undefined, valid until the next call of scratch().
  std::byte* scratch(std::int64_t bytes) const;

  MatmulPrimitives& matmul_primitives() const { return *primitives_; }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  int threads_;
  mutable std::unique_ptr<std::byte, Free> scratch_;
  mutable std::int64_t scratch_bytes_ = 0;
  std::unique_ptr<MatmulPrimitives> primitives_;
};

}  // namespace pipefill
