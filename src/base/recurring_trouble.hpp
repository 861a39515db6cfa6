// One kind of trouble that may come back every second for hours, such as a full disk: told when it begins and when it
// is over, not each time.
#pragma once

#include <cstdint>
#include <string>

#include "base/log.hpp"

namespace pipefill {

/// For one thread at a time.
class RecurringTrouble {
 public:
  /// `what` begins the lines, such as a file's name; `meanwhile` ends the warning: what it means for the run.
  RecurringTrouble(std::string what, std::string meanwhile)
      : what_(std::move(what)), meanwhile_(std::move(meanwhile)) {}

  /// An attempt failed for this reason.
  void failed(const Log& log, const std::string& reason);
  /// An attempt went well.
  void went_well(const Log& log);

 private:
  std::string what_, meanwhile_;
  std::int64_t failures_ = 0;  ///< since it last went well
};

}  // namespace pipefill
