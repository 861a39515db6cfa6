// A fill job as its owner writes it: job.yaml, strict YAML. What is wrong in it is refused with file:line:column, all
// of it in one go, before anything is started.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.hpp"

namespace pipefill {

/// What a job may use. 0: no limit of that sort.
struct FillLimits {
  Bytes memory{0};             ///< all its processes together, the state included
  Bytes disk{0};               ///< everything in its directory
  Bytes output{64 << 20};      ///< stdout and stderr together
  std::int64_t processes = 0;  ///< at a time, threads counted where the pids cgroup does it
  Nanoseconds cpu{0};          ///< of each process
  int tries = 3;               ///< failures after which it is quarantined
};

struct FillJobSpec {
  std::string name;  ///< letters, digits and . _ -; also its directory's
  std::string kind;
  std::vector<std::pair<std::string, std::string>> parameters;  ///< `with`; a list is one pair per element
  double priority = 0;                                          ///< more is sooner
  std::optional<Nanoseconds> deadline;                          ///< after its submission
  std::string owner;
  FillLimits limits;
  std::string configuration;  ///< empty: the kind's, or the planner's, choice
  std::int64_t shards = 1;    ///< into how many parts it may be split at most
  std::uint64_t seed = 1;
};

inline constexpr std::int64_t kMaxJobFile = 1 << 20;  ///< bytes

/// `kinds` are those known; empty: any. Throws DeckError with every problem on a line of its own: "job.yaml:3:7:
/// limits.memory: expected ...".
FillJobSpec parse_fill_job(std::string_view text, const std::string& file, const std::vector<std::string>& kinds);
/// Missing: FileError 66; larger than kMaxJobFile or no regular file: 65; otherwise as parse_fill_job.
FillJobSpec read_fill_job(const std::string& path, const std::vector<std::string>& kinds);

}  // namespace pipefill
