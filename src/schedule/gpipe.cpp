// Builds GPipe.
#include "schedule/gpipe.hpp"

#include "schedule/one_chunk_per_stage.hpp"

namespace pipefill {

Schedule gpipe(int stages, int microbatches) {
  Schedule schedule = one_chunk_per_stage("gpipe", stages, microbatches);
  for (int stage = 0; stage < stages; ++stage) {
    Program& program = schedule.programs[static_cast<std::size_t>(stage)];
    for (int m = 0; m < microbatches; ++m) program.push_back(Forward{ModelChunkId{stage}, MicrobatchId{m}});
    for (int m = 0; m < microbatches; ++m) program.push_back(Backward{ModelChunkId{stage}, MicrobatchId{m}});
  }
  return schedule;
}

}  // namespace pipefill
