// Memory that ranks of a host share.
#pragma once

#include <cstddef>
#include <string_view>

namespace pipefill {

/// Maps `size` bytes behind `descriptor`, or of no file where that is -1 (threads, forked children). Zero at first.
/// Error 74, naming `purpose`. To be given back by munmap.
void* map_shared_memory(int descriptor, std::size_t size, std::string_view purpose);

}  // namespace pipefill
