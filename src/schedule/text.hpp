// The text form of instructions and schedules: what logs, errors, golden files and users' files show. Round trip exact.
//
//   0F3 0B3 0I3 0W3            chunk 0, microbatch 3: forward, full backward, its input part, its weight part
//   0SEND_F3>1  1RECV_F3<0     activation of microbatch 3 leaves chunk 0 for stage 1; reaches chunk 1 from stage 0
//   1SEND_B3>0  0RECV_B3<1     the gradient on its way back
//   0REDUCE_GRAD  STEP  BUBBLE(warm_up)
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "schedule/schedule.hpp"

namespace pipefill {

std::string to_text(const Instruction& instruction);
std::string_view to_text(BubbleClass why);  ///< "warm_up", "steady", "cool_down", "collective", "step_boundary"

/// The whole of `text` is one instruction, or nothing is returned.
std::optional<Instruction> parse_instruction(std::string_view text);

/// One line "schedule NAME microbatches M", one "stage_of_chunk S S ...", then per stage "stage S: ...".
std::string to_text(const Schedule& schedule);
/// Parses all of `text` or throws ScheduleError with line, column and the text found there. Says nothing about whether
/// the schedule can run: that is validate().
Schedule parse_schedule(std::string_view text);

}  // namespace pipefill
