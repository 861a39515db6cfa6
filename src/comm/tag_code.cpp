#include "comm/tag_code.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstdint>

#include "base/error.hpp"

namespace pipefill {

int encode_tag(Tag tag, int largest) {
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(largest) + 1)) - 1;
  const int item_bits = bits / 3;
  const int microbatch_bits = bits - item_bits;
  const bool fits = tag.item >= 0 && tag.item < (1 << item_bits) && tag.microbatch.value >= 0 &&
                    tag.microbatch.value < (1 << microbatch_bits);
  if (!fits) {
    throw TransportError(fmt::format(
        "microbatch {} of chunk {} has no MPI tag: this MPI's tags end at {}, enough for {} chunks and {} microbatches",
        tag.microbatch.value, tag.item, largest, 1 << item_bits, 1 << microbatch_bits));
  }
  return tag.item << microbatch_bits | tag.microbatch.value;
}

}  // namespace pipefill
