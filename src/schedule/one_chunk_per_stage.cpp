// The start of every builder with one chunk per stage.
#include "schedule/one_chunk_per_stage.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"

namespace pipefill {

Schedule one_chunk_per_stage(std::string name, int stages, int microbatches) {
  if (stages < 1 || microbatches < 1) {
    throw ScheduleError(
        fmt::format("schedule '{}' needs at least 1 stage and 1 microbatch, got {} stages and {} "
                    "microbatches",
                    name, stages, microbatches));
  }
  if (microbatches > kMostMicrobatches || stages > kMostStageMicrobatches / microbatches) {
    throw ScheduleError(fmt::format(
        "schedule '{}' of {} stages and {} microbatches is too long: at most {} microbatches, and {} stages times "
        "microbatches, are possible",
        name, stages, microbatches, kMostMicrobatches, kMostStageMicrobatches));
  }
  Schedule schedule;
  schedule.name = std::move(name);
  schedule.microbatches = microbatches;
  for (int stage = 0; stage < stages; ++stage) schedule.stage_of_chunk.push_back(StageId{stage});
  schedule.programs.resize(static_cast<std::size_t>(stages));
  return schedule;
}

}  // namespace pipefill
