#include "engine/status_file.hpp"

#include "base/error.hpp"

namespace pipefill {
namespace {

bool is_end(RunPhase phase) { return phase != RunPhase::starting && phase != RunPhase::running; }

}  // namespace

bool StatusFile::end_is_told(int attempt) const {
  try {
    const RunStatus told = read_status(run_);
    return is_end(told.phase) && told.attempt == attempt;
  } catch (const FileError&) {
    return false;  // there is none, or none that can be read
  }
}

void StatusFile::write(const RunStatus& status) {
  const std::lock_guard lock(mutex_);
  if (!is_end(status.phase) && (ended_ || end_is_told(status.attempt))) return;
  ended_ = ended_ || is_end(status.phase);
  write_status(run_, status);
}

}  // namespace pipefill
