// The `with:` section of a fill job: typed values with their defaults and bounds, and no name that nobody asked for.
#pragma once

#include <pipefill/fill_job.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace pipefill {

/// Every function throws DeckError that names the key, what stands there and what would do. Integers are decimal.
class JobParameters {
 public:
  explicit JobParameters(const pipefill_fill_setup& setup);

  bool has(const std::string& name) const;
  std::optional<std::string> text(const std::string& name);
  std::vector<std::string> list(const std::string& name);
  std::int64_t integer(const std::string& name, std::int64_t otherwise, std::int64_t least, std::int64_t most);
  std::vector<std::int64_t> integers(const std::string& name, std::int64_t least, std::int64_t most);
  double number(const std::string& name, double otherwise, double least, double most);
  bool truth(const std::string& name, bool otherwise);
  /// A relative path starts at the job file's base directory.
  std::string path(const std::string& value) const;

  /// After all keys were asked for: refuses the others, with the nearest known name.
  void refuse_others() const;

  /// Tells two descriptions of work apart: hash of all parameters, seed, threads and shard.
  std::uint64_t identity() const { return identity_; }

 private:
  std::optional<std::string> only(const std::string& name);

  std::vector<std::pair<std::string, std::string>> values_;
  std::set<std::string> asked_;
  std::string base_directory_;
  std::uint64_t identity_;
};

}  // namespace pipefill
