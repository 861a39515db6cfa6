// What a rank's engine is handed: the seams it works through. All outlive it; several sets may live in one process.
#pragma once

#include "base/log.hpp"
#include "comm/doorbells.hpp"
#include "comm/liveness_board.hpp"
#include "comm/process_layout.hpp"
#include "comm/transport.hpp"
#include "comm/wait.hpp"
#include "device/device.hpp"
#include "engine/arrival_clock.hpp"
#include "trace/trace.hpp"

namespace pipefill {

class BubbleFill;
class FillDesk;

struct RankServices {
  ProcessLayout layout;
  Transport& transport;
  Waiter& waiter;
  Device& device;
  Trace& trace;
  const ArrivalClock& arrivals;
  LivenessBoard* board = nullptr;  ///< null in tests without one
  Doorbells* doorbells = nullptr;  ///< null where nobody listens for them
  BubbleFill* fill = nullptr;      ///< null: nothing fills the bubbles
  FillDesk* desk = nullptr;        ///< null as fill is
  Log log = make_null_log();       ///< rank 0's lines are for people; the others' only warn

  RankId rank() const { return transport.rank(); }
  StageId stage() const { return layout.stage_of(rank()); }
  ReplicaId replica() const { return layout.replica_of(rank()); }
};

}  // namespace pipefill
