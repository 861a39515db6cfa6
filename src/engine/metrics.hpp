// metrics.jsonl: one JSON object a line, units in the key names, appended and flushed line by line, so that a killed
// run loses at most the line being written.
#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

namespace pipefill {

class MetricsFile {
 public:
  /// Opens for appending; cuts off an unfinished last line that a killed run left. Throws FileError (73).
  explicit MetricsFile(const std::filesystem::path& path);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// Appends one line; empty, or why it is lost. Never throws that: a full disk must not end the training.
  [[nodiscard]] std::string append(const nlohmann::json& line);

 private:
  int descriptor_ = -1;
};

}  // namespace pipefill
