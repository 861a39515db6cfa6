// Builds the forward-only schedule.
#include "schedule/forward_only.hpp"

#include "schedule/one_chunk_per_stage.hpp"

namespace pipefill {

Schedule forward_only(int stages, int microbatches) {
  Schedule schedule = one_chunk_per_stage("forward_only", stages, microbatches);
  for (int stage = 0; stage < stages; ++stage) {
    Program& program = schedule.programs[static_cast<std::size_t>(stage)];
    for (int m = 0; m < microbatches; ++m) program.push_back(Forward{ModelChunkId{stage}, MicrobatchId{m}});
  }
  return schedule;
}

}  // namespace pipefill
