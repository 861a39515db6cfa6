// Names and families of event kinds.
#include "trace/event.hpp"

#include <array>

namespace pipefill {
namespace {

constexpr std::array kNames{"forward",
                            "backward",
                            "backward_input",
                            "backward_weight",
                            "optimizer",
                            "transfer",
                            "collective",
                            "checkpoint",
                            "data",
                            "validation",
                            "start_up",
                            "bubble_warm_up",
                            "bubble_steady",
                            "bubble_cool_down",
                            "bubble_collective",
                            "bubble_step_boundary",
                            "hand_over",
                            "other",
                            "fill",
                            "overrun",
                            "exclusive"};
static_assert(kNames.size() == kEventKinds);

}  // namespace

const char* event_kind_name(EventKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return index < kNames.size() ? kNames[index] : "unknown";
}

bool is_bubble(EventKind kind) { return kind >= EventKind::bubble_warm_up && kind <= EventKind::bubble_step_boundary; }

bool is_fill_work(EventKind kind) { return kind >= EventKind::fill; }

}  // namespace pipefill
