// Inserts and removes explicit Bubbles.
#include "schedule/bubbles.hpp"

#include <algorithm>

#include "schedule/dependencies.hpp"

namespace pipefill {
namespace {

bool is_forward(const Instruction& i) { return std::holds_alternative<Forward>(i); }
bool is_backward(const Instruction& i) {
  return std::holds_alternative<Backward>(i) || std::holds_alternative<BackwardInput>(i);
}

Program with_bubbles(const Schedule& schedule, const Program& program) {
  auto forwards_left = std::count_if(program.begin(), program.end(), is_forward);
  bool backward_done = false;
  bool reduces = false;
  Program result;
  for (const Instruction& instruction : program) {
    if (waits_for_message(schedule, instruction)) {
      const BubbleClass why = is_forward(instruction) && !backward_done        ? BubbleClass::warm_up
                              : is_backward(instruction) && forwards_left == 0 ? BubbleClass::cool_down
                                                                               : BubbleClass::steady;
      result.push_back(Bubble{why});
    }
    if (std::holds_alternative<OptimizerStep>(instruction)) {
      if (reduces) result.push_back(Bubble{BubbleClass::collective});
      if (schedule.stages() > 1) result.push_back(Bubble{BubbleClass::step_boundary});
    }
    forwards_left -= is_forward(instruction);
    backward_done |= is_backward(instruction);
    reduces |= std::holds_alternative<ReduceGradients>(instruction);
    result.push_back(instruction);
  }
  return result;
}

}  // namespace

Schedule with_bubbles(const Schedule& schedule) {
  Schedule result = without_bubbles(schedule);
  for (Program& program : result.programs) program = with_bubbles(result, program);
  return result;
}

Schedule without_bubbles(const Schedule& schedule) {
  Schedule result = schedule;
  for (Program& program : result.programs) {
    std::erase_if(program, [](const Instruction& i) { return std::holds_alternative<Bubble>(i); });
  }
  return result;
}

}  // namespace pipefill
