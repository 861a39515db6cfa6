// A Tag's item and microbatch as one MPI tag; the channel is a communicator.
#pragma once

#include "comm/transport.hpp"

namespace pipefill {

/// Unique for every (item, microbatch) and at most `largest` (MPI_TAG_UB, at least 32767 by the standard,
/// section 8.1.2): a third of the bits for the item, the rest for the microbatch. TransportError when one does not fit.
int encode_tag(Tag tag, int largest);

}  // namespace pipefill
