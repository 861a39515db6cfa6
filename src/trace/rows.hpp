// The rows of the trace file's tables as they lie in memory; trace_layout names, describes and types each field.
// Text is cut to fit and ends with zero bytes. -1 (text: empty, reals: NaN) stands where a field does not apply.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace pipefill {

template <std::size_t N>
using FixedText = std::array<char, N>;

template <std::size_t N>
void assign(FixedText<N>& to, std::string_view text) {
  to.fill('\0');
  std::memcpy(to.data(), text.data(), text.size() < N ? text.size() : N - 1);
}
template <std::size_t N>
std::string text(const FixedText<N>& from) {
  return std::string(from.data(), ::strnlen(from.data(), N));
}

/// One event (trace/event.hpp). In a segment times are the rank's own clock; in trace.h5 and behind a TraceSink they
/// are nanoseconds since the run's first start, on rank 0's clock. Without padding, so that memory and file agree on a
/// little-endian machine and HDF5 need not convert row by row, which would take longer than all else in writing it.
struct EventRow {
  std::int16_t attempt = 1;
  std::int16_t kind = 0;
  std::int32_t rank = 0;
  std::int32_t step = -1;
  std::int32_t slot = -1;
  std::int32_t job = -1;
  std::int32_t fill_chunk = -1;
  std::int16_t stage = -1;
  std::int16_t model_chunk = -1;
  std::int16_t microbatch = -1;
  std::int16_t cost_class = -1;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t transfer_ns = 0;
  std::int64_t granted_ns = 0;
  std::int64_t bytes = 0;
};

static_assert(sizeof(EventRow) == 6 * 2 + 5 * 4 + 5 * 8);

/// One completed step as one rank saw it.
struct StepRow {
  std::int32_t attempt = 1;
  std::int32_t rank = 0;
  std::int64_t step = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t tokens = 0;
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
  std::int32_t filled = -1;
  std::int64_t pair = -1;
};

/// One rank of one attempt, with the layout it ran in.
struct RankRow {
  std::int32_t attempt = 1;
  std::int32_t rank = 0;
  std::int32_t stage = 0;
  std::int32_t replica = 0;
  std::int32_t stages = 1;
  std::int32_t replicas = 1;
  std::int32_t microbatches = 1;
  FixedText<32> schedule{};
  FixedText<64> host{};
  std::int64_t pid = 0;
  FixedText<64> device{};
  std::int32_t threads = 1;
  FixedText<64> cores{};
  std::int64_t start_ns = 0;
  std::int64_t end_ns = -1;            ///< -1: the rank did not close its trace (killed, or still running)
  std::int64_t last_event_ns = -1;     ///< end of the last event written so far
  double start_wall_s = 0;             ///< seconds since 1970
  std::int64_t clock_start_at_ns = 0;  ///< own clock when measured
  std::int64_t clock_start_offset_ns = 0;
  std::int64_t clock_start_uncertainty_ns = 0;
  std::int64_t clock_end_at_ns = -1;
  std::int64_t clock_end_offset_ns = 0;
  std::int64_t clock_end_uncertainty_ns = -1;
  std::int64_t events_dropped = 0;
};

/// One slot of one stage's program: what its bubbles were like, over all replicas and steps.
struct BubbleRow {
  std::int32_t stage = 0;
  std::int32_t slot = -1;
  std::int16_t kind = 0;  ///< one of the bubble kinds: its class
  std::int64_t count = 0;
  double mean_ns = 0;
  std::int64_t p10_ns = 0;
  std::int64_t median_ns = 0;
  std::int64_t p90_ns = 0;
  std::int64_t p99_ns = 0;
  double mean_transfer_ns = 0;
  std::int64_t free_memory_min_bytes = 0;
  double mean_granted_ns = 0;  ///< over the filled steps, like the next; NaN: none was filled
  double mean_filled_ns = 0;
};

/// One fill job in one attempt: who it is, as a segment has it, and in trace.h5 also what it did. -1: not known.
struct FillJobRow {
  std::int32_t attempt = 1;
  std::int32_t job = 0;
  FixedText<64> name{};
  FixedText<32> kind{};
  FixedText<64> configuration{};
  std::int64_t chunks = -1;
  double samples = 0;
  std::int64_t done = 0;
  std::int64_t done_alone = 0;
  std::int64_t fill_ns = 0;
  std::int64_t overrun_ns = 0;
  std::int64_t exclusive_ns = 0;
  std::int64_t unpriced = 0;
};

}  // namespace pipefill
