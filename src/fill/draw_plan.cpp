#include "fill/draw_plan.hpp"

#include <algorithm>

namespace pipefill {
namespace {

bool is_sold(const TimedBubble& bubble) { return bubble.slot >= 0 && bubble.duration() > Nanoseconds{0}; }

}  // namespace

BubbleCycle priced_cycle(const StageTimeline& stage, Bytes memory) {
  BubbleCycle cycle;
  for (const TimedBubble& bubble : stage.bubbles)
    if (is_sold(bubble)) cycle.push_back({bubble.slot, bubble.why, bubble.duration(), memory});
  return cycle;
}

std::vector<DrawnWork> drawn_plan(const FillPlan& plan, const std::vector<const FillJobInfo*>& jobs, int stage,
                                  const StageTimeline& timeline) {
  std::vector<DrawnWork> drawn;
  std::size_t index = 0;
  for (const TimedBubble& bubble : timeline.bubbles) {
    if (!is_sold(bubble)) continue;
    Nanoseconds at = bubble.start;
    for (const PlannedChunks& run : plan.bubbles.at(index++).runs) {
      const auto job = std::ranges::find(jobs, run.job, &FillJobInfo::id);
      const char mark = static_cast<char>('a' + std::min<std::ptrdiff_t>(job - jobs.begin(), 25));
      const FillConfiguration& configuration = (*job)->configurations[static_cast<std::size_t>(run.configuration)];
      std::int64_t left = run.count;
      configuration.chunks.walk(run.first, [&](const ChunkRun& chunks, std::int64_t count) {
        const Nanoseconds each = configuration.price(chunks).time;
        const std::int64_t taken = std::min(count, left);
        drawn.push_back({stage, at, each, taken, mark});
        at += each * taken;
        left -= taken;
        return left > 0;
      });
    }
  }
  return drawn;
}

}  // namespace pipefill
