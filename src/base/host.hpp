// What the kernel knows of this host and of its processes, asked in one place.
#pragma once

#include <string>

namespace pipefill {

std::string host_name();

/// /proc/PID/stat from field 3 on, the one-letter state ('T' stopped, 'Z' zombie, 'D' waiting for a disk); empty when
/// there is no such process.
std::string process_stat(long pid);

}  // namespace pipefill
