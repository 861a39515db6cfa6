// When a message was there to be used, on this rank's clock. MPI tells no arrival: it is the sender's ready stamp,
// corrected for the clocks' offset, plus the measured transfer time (DESIGN section 5, "bubble").
#pragma once

#include <vector>

#include "comm/clock_offset.hpp"
#include "comm/transfer_time.hpp"

namespace pipefill {

struct Arrival {
  Nanoseconds ready;    ///< the sender had the payload complete
  Nanoseconds arrival;  ///< it could be used here
};

class ArrivalClock {
 public:
  /// One host, no transfer time (tests).
  ArrivalClock() = default;
  /// `transfer` by rank, as measure_transfer_times returns it.
  ArrivalClock(RankId me, ClockModel clocks, std::vector<TransferTime> transfer)
      : me_(me), clocks_(std::move(clocks)), transfer_(std::move(transfer)) {}

  Arrival of(const MessageHeader& header, RankId from) const {
    const Nanoseconds ready = at(Nanoseconds{header.ready_ns}, from);
    if (transfer_.empty()) return {ready, ready};
    const Bytes size{header.payload_bytes + static_cast<std::int64_t>(sizeof(MessageHeader))};
    return {ready, ready + transfer_[static_cast<std::size_t>(from.value)](size)};
  }
  /// A time of another rank's clock on this one's.
  Nanoseconds at(Nanoseconds time, RankId from) const {
    return transfer_.empty() ? time : clocks_.convert(time, from, me_);
  }

 private:
  RankId me_;
  ClockModel clocks_;
  std::vector<TransferTime> transfer_;
};

}  // namespace pipefill
