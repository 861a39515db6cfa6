// The scratch memory and the primitive cache of a context.
#include "kernels/context.hpp"

#include <new>
#include <string>

#include "kernels/matmul/matmul_primitives.hpp"

namespace pipefill {

namespace {
constexpr std::align_val_t kAlignment{64};
}

void KernelContext::Free::operator()(std::byte* p) const { ::operator delete(p, kAlignment); }

KernelContext::KernelContext(int threads) : threads_(threads), primitives_(std::make_unique<MatmulPrimitives>()) {
  if (threads < 1) {
    throw KernelError("a kernel context needs at least 1 thread, not " + std::to_string(threads));
  }
}

KernelContext::~KernelContext() = default;

std::byte* KernelContext::scratch(std::int64_t bytes) const {
  if (bytes > scratch_bytes_) {
    scratch_.reset();
    scratch_bytes_ = 0;
    scratch_.reset(static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), kAlignment)));
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

}  // namespace pipefill
