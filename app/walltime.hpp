// --max-time: how long this start may run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace pipefill {

/// "3:50:00" and other durations; "auto": what Slurm has left for this job (squeue; Slurm 22.05 tells it no other way),
/// zero without one or without a limit, or when squeue does not answer within 15 s. UsageError for anything else.
Nanoseconds parse_max_time(const std::string& text);

/// What a program writes to its stdout, without the line feed at the end; empty when there is no such program, nothing
/// when it does not end within `patience` (then it is killed). A controller that hangs must not hang the run.
std::optional<std::string> output_of(const std::vector<std::string>& words, Nanoseconds patience);

/// The text squeue prints for a time left, "1-02:03:04", "3:50:00", "12:30"; zero for UNLIMITED, INVALID and the like.
Nanoseconds parse_slurm_time(const std::string& text);

}  // namespace pipefill
