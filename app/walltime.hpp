// --max-time: how long this start may run.
#pragma once

#include <string>

#include "base/units.hpp"

namespace pipefill {

/// "3:50:00" and other durations; "auto": what Slurm has left for this job (squeue; Slurm 22.05 tells it no other way),
/// zero without one or without a limit. UsageError for anything else.
Nanoseconds parse_max_time(const std::string& text);

/// The text squeue prints for a time left, "1-02:03:04", "3:50:00", "12:30"; zero for UNLIMITED, INVALID and the like.
Nanoseconds parse_slurm_time(const std::string& text);

}  // namespace pipefill
