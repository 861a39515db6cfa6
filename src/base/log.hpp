// The log of a rank: lines for people, to the console and to log.txt. Machines read metrics.jsonl and status.json.
// There is no global logger; whoever logs is handed a Log.
#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <string>

namespace pipefill {

/// Usage: log->info("step {}", step). Never null.
using Log = std::shared_ptr<spdlog::logger>;

/// Lines to stderr (warnings and errors of every rank) and, where `file` is not empty, appended to it as well.
/// Throws FileError (73) where `file` cannot be opened; a line that cannot be written later is lost, which is told
/// once. `console` chooses whether info lines go to stdout too (rank 0) or nowhere (other ranks).
enum class ConsoleInfo { print, drop };
Log make_log(const std::string& name, ConsoleInfo console, const std::string& file);

/// A log that drops everything, for tests and tools.
Log make_null_log();

}  // namespace pipefill
