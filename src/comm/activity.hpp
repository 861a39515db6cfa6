// What a rank is doing and what it waits for, small enough for one atomic word each on the liveness board, and as text.
#pragma once

#include <cstdint>
#include <string>

#include "comm/process_layout.hpp"
#include "comm/transport.hpp"

namespace pipefill {

enum class ActivityKind : std::uint8_t {
  starting,  ///< reading, building, measuring before the first step
  forward,
  backward,
  backward_input,
  backward_weight,
  optimizer,
  bubble,
  data,
  validation,
  checkpoint,
  finishing,
};

/// What a step's work is done for.
enum class Purpose : std::uint8_t { training, validation };

/// `chunk` and `microbatch` are -1 where they do not apply.
struct Activity {
  ActivityKind kind = ActivityKind::starting;
  int chunk = -1;
  int microbatch = -1;
  Purpose purpose = Purpose::training;
  bool operator==(const Activity&) const = default;
};

/// True for what may lawfully take much longer than a step; the watchdog expects no progress from it.
bool may_take_long(ActivityKind kind);

enum class WaitKind : std::uint8_t { none, receive, send, collective, reduction };

/// What a wait is for. `peer` -1: all ranks, and then the tag says nothing. A reduction waits for all replicas'
/// messages of all chunks.
struct WaitSubject {
  WaitKind kind = WaitKind::none;
  RankId peer{-1};
  Tag tag{};
  std::int64_t step = 0;
  bool operator==(const WaitSubject&) const = default;
};

// 16 bits per number; step is not packed (the board keeps it apart).
std::uint64_t pack(const Activity& activity);
Activity unpack_activity(std::uint64_t word);
std::uint64_t pack(const WaitSubject& subject);
WaitSubject unpack_wait(std::uint64_t word);

std::string describe(const Activity& activity);  ///< "forward of microbatch 3 in chunk 2", "validation, forward of ..."
std::string describe(const WaitSubject& subject,
                     ProcessLayout layout);  ///< "the activation of microbatch 3 for chunk 2 from rank 1 (stage 1)"
std::string describe(RankId rank, ProcessLayout layout);  ///< "rank 5 (stage 1, replica 1)"

}  // namespace pipefill
