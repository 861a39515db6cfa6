// What a trace says once per run and once per rank, as plain values: the root attributes and the rows of /ranks.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "base/units.hpp"

namespace pipefill {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// The same on every rank of an attempt (one start of the program; a resumed run has several).
struct RunDescription {
  std::string run_id;
  std::string config_yaml;  ///< the resolved deck
  std::string software_version;
  std::string build;     ///< compiler, flags, commit, libraries
  std::string schedule;  ///< its name
  int attempt = 1;       ///< counted from 1, as in metrics.jsonl
  int ranks = 1;
  int stages = 1;
  int replicas = 1;
  int microbatches = 1;
  double bubble_fraction_closed_form = kUnknown;  ///< of the schedule; NaN: there is none
  double flops_per_token = kUnknown;              ///< of the model, forward and backward
  std::string flops_formula;                      ///< how flops_per_token was computed, for people
  double peak_flops_per_rank = kUnknown;          ///< FLOP/s; NaN: unknown, then MFU is not available
};

/// A rank's clock against rank 0's: rank-0 time = own time + offset, known to +- uncertainty.
struct ClockOffset {
  Nanoseconds measured_at{};  ///< own clock
  Nanoseconds offset{};
  Nanoseconds uncertainty{};
};

struct RankDescription {
  int rank = 0;
  int stage = 0;
  int replica = 0;
  std::string host;
  std::int64_t pid = 0;
  std::string device;
  int threads = 1;
  std::string cores;        ///< those it is bound to, "0-3,8"
  Nanoseconds started{};    ///< own clock: where the rank's wall time begins; its first event starts here
  double started_wall = 0;  ///< wall clock at `started`, seconds since 1970, for people
  ClockOffset clock;        ///< measured at the start
};

/// One completed step as a rank saw it, from the end of the step before (or the end of what lay between) to its own
/// end.
struct StepRecord {
  std::int64_t step = 0;  ///< counted from 1
  Nanoseconds start{};
  Nanoseconds end{};
  std::int64_t tokens = 0;  ///< of the whole global batch
  double loss = kUnknown;   ///< mean over the global batch; NaN on ranks that do not know it
  double learning_rate = kUnknown;
  double gradient_norm = kUnknown;  ///< global, before clipping
  int filled = -1;                  ///< 1: bubbles were sold; 0: not, for comparison or to measure; -1: no fill work
  std::int64_t pair = -1;  ///< filled and unfilled steps of one number are compared; -1: in no pair, because something
                           ///< else disturbed it, or because no pair means anything (more ranks than cores)
};

/// Which job a number in events means.
struct FillJobDescription {
  int job = 0;
  std::string name{};  ///< of the run's directory for it; jobs of one name in several attempts are one
  std::string kind{};
  std::string configuration{};  ///< in which it is pinned; empty: not yet known
  std::int64_t chunks = -1;     ///< of the whole job; -1: not known
  double samples = 0;           ///< of the whole job
};

}  // namespace pipefill
