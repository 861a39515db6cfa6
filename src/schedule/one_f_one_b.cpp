// Builds 1F1B.
#include "schedule/one_f_one_b.hpp"

#include <algorithm>

#include "schedule/one_chunk_per_stage.hpp"

namespace pipefill {

Schedule one_f_one_b(int stages, int microbatches) {
  Schedule schedule = one_chunk_per_stage("1f1b", stages, microbatches);
  for (int stage = 0; stage < stages; ++stage) {
    const ModelChunkId chunk{stage};
    Program& program = schedule.programs[static_cast<std::size_t>(stage)];
    const int warm_up = std::min(stages - stage - 1, microbatches);
    for (int m = 0; m < warm_up; ++m) program.push_back(Forward{chunk, MicrobatchId{m}});
    for (int m = 0; m < microbatches; ++m) {
      if (m + warm_up < microbatches) program.push_back(Forward{chunk, MicrobatchId{m + warm_up}});
      program.push_back(Backward{chunk, MicrobatchId{m}});
    }
  }
  return schedule;
}

}  // namespace pipefill
