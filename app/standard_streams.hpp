// The three streams that the program is started with, where the caller closed some or has no room left behind them.
#pragma once

#include <functional>

#include "base/error.hpp"

namespace pipefill {

/// Puts something under each of descriptors 0, 1 and 2 that is closed (`>&-`), so that no file of the run is opened
/// there and written into by mistake. What is written to such an output fails, and is noticed below.
void open_closed_streams();

/// Runs a command whose output is its result. Throws FileError (74) where not all of it could be written.
ExitCode run_printing(const std::function<ExitCode()>& command);

}  // namespace pipefill
