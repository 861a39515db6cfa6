// The one tree of errors. Each kind has its exit code (README, "Exit codes"); main holds the one catch.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace pipefill {

/// Exit codes of the program; stable, documented, all below 126 so that mpirun passes them through.
enum class ExitCode : int {
  finished = 0,
  usage = 64,
  damaged_data = 65,  ///< damaged data or checkpoint
  missing_input = 66,
  no_device = 69,
  bug = 70,
  cannot_create = 73,  ///< cannot create a file or directory; run directory in use
  input_output = 74,
  stopped_early = 75,  ///< resumable
  lost_peer = 76,      ///< a rank died or hangs
  deck = 78,           ///< deck or schedule
  diverged = 79,
};

/// What went wrong, why it matters and what to do, in one text; `where` is the throwing line.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& text, std::source_location where = std::source_location::current())
      : std::runtime_error(text), code_(code), where_(where) {}
  ExitCode code() const { return code_; }
  const std::source_location& where() const { return where_; }

 private:
  ExitCode code_;
  std::source_location where_;
};

struct UsageError : Error {
  explicit UsageError(const std::string& text, std::source_location where = std::source_location::current())
      : Error(ExitCode::usage, text, where) {}
};
struct DeckError : Error {
  explicit DeckError(const std::string& text, std::source_location where = std::source_location::current())
      : Error(ExitCode::deck, text, where) {}
};
struct ScheduleError : Error {
  explicit ScheduleError(const std::string& text, std::source_location where = std::source_location::current())
      : Error(ExitCode::deck, text, where) {}
};
struct DeviceError : Error {
  explicit DeviceError(const std::string& text, std::source_location where = std::source_location::current())
      : Error(ExitCode::no_device, text, where) {}
};
/// A peer that is lost or hangs.
struct TransportError : Error {
  explicit TransportError(const std::string& text, std::source_location where = std::source_location::current())
      : Error(ExitCode::lost_peer, text, where) {}
};
struct DivergedError : Error {
  explicit DivergedError(const std::string& text, std::source_location where = std::source_location::current())
      : Error(ExitCode::diverged, text, where) {}
};

/// One that all ranks throw together, having agreed on it: rank 0 alone tells it.
struct SharedError : Error {
  using Error::Error;
};

/// A file that is damaged (65), missing (66), cannot be made (73) or failed while reading or writing (74).
class FileError : public Error {
 public:
  FileError(ExitCode code, const std::string& path, const std::string& text,
            std::source_location where = std::source_location::current())
      : Error(code, path + ": " + text, where), path_(path) {}
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace pipefill
