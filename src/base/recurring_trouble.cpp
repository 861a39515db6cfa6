#include "base/recurring_trouble.hpp"

#include <utility>

namespace pipefill {

void RecurringTrouble::failed(const Log& log, const std::string& reason) {
  if (++failures_ == 1) log->warn("{}: {}; {}", what_, reason, meanwhile_);
}

void RecurringTrouble::went_well(const Log& log) {
  const std::int64_t failures = std::exchange(failures_, 0);
  if (failures > 0) log->info("{}: it works again, after {} failures", what_, failures);
}

}  // namespace pipefill
