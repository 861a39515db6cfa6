#include "engine/measured_costs.hpp"

namespace pipefill {
namespace {

/// One rank's durations of one chunk, as sent.
struct ChunkReport {
  std::int64_t forward_ns = 0, backward_input_ns = 0, backward_weight_ns = 0, optimizer_ns = 0;
};

}  // namespace

CostModel gather_measured_costs(const Schedule& schedule, const Profiler& profiler, Nanoseconds hop,
                                RankServices& services) {
  const auto chunks = static_cast<std::size_t>(schedule.chunks());
  std::vector<ChunkReport> mine(chunks), all(chunks * static_cast<std::size_t>(services.layout.ranks()));
  for (std::size_t c = 0; c < chunks; ++c) {
    const ChunkCost cost = profiler.chunk_cost({static_cast<int>(c)});
    mine[c] = {cost.forward.count(), cost.backward_input.count(), cost.backward_weight.count(),
               profiler.optimizer().count()};
  }
  const auto bytes = static_cast<std::int64_t>(chunks * sizeof(ChunkReport));
  Request request = services.transport.all_gather(
      std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)),
      std::vector<std::int64_t>(static_cast<std::size_t>(services.layout.ranks()), bytes));
  services.waiter.wait(services.transport, request, WaitSubject{.kind = WaitKind::collective});

  CostModel costs = uniform_costs(schedule, {}, {}, {});
  costs.hop = hop;
  for (std::size_t c = 0; c < chunks; ++c) {
    const StageId stage = schedule.stage_of_chunk[c];
    const RankId rank = services.layout.rank_of(stage, {0});
    const ChunkReport& report = all[static_cast<std::size_t>(rank.value) * chunks + c];
    costs.chunks[c].forward = Nanoseconds{report.forward_ns};
    costs.chunks[c].backward_input = Nanoseconds{report.backward_input_ns};
    costs.chunks[c].backward_weight = Nanoseconds{report.backward_weight_ns};
    costs.stages[static_cast<std::size_t>(stage.value)].optimizer = Nanoseconds{report.optimizer_ns};
  }
  return costs;
}

}  // namespace pipefill
