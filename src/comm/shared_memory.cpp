#include "comm/shared_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace pipefill {

void* map_shared_memory(int descriptor, std::size_t size, std::string_view purpose) {
  const int flags = MAP_SHARED | (descriptor < 0 ? MAP_ANONYMOUS : 0);
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (memory == MAP_FAILED)
    throw Error(ExitCode::input_output,
                fmt::format("cannot map {} bytes of shared memory for {}: {}", size, purpose, std::strerror(errno)));
  return memory;
}

}  // namespace pipefill
