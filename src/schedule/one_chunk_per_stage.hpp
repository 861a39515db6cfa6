// The empty schedule that builders with one chunk per stage start from, and the range they accept.
#pragma once

#include <string>

#include "schedule/schedule.hpp"

namespace pipefill {

/// Chunk c on stage c, empty programs. ScheduleError unless stages >= 1 and microbatches >= 1.
Schedule one_chunk_per_stage(std::string name, int stages, int microbatches);

}  // namespace pipefill
