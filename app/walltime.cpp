#include "walltime.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/error.hpp"
#include "base/text.hpp"

namespace pipefill {
namespace {

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  char block[256];
  while (pipe && std::fgets(block, sizeof block, pipe.get()) != nullptr) text += block;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace

Nanoseconds parse_slurm_time(const std::string& text) {
  const std::size_t dash = text.find('-');
  const std::string clock = dash == std::string::npos ? text : text.substr(dash + 1);
  const auto time = parse_duration(clock);
  if (!time) return Nanoseconds{0};
  const std::int64_t days = dash == std::string::npos ? 0 : std::strtoll(text.c_str(), nullptr, 10);
  return *time + std::chrono::hours(24 * days);
}

Nanoseconds parse_max_time(const std::string& text) {
  if (text == "auto") {
    const char* job = std::getenv("SLURM_JOB_ID");
    if (job == nullptr || std::string(job).find_first_not_of("0123456789") != std::string::npos) return Nanoseconds{0};
    return parse_slurm_time(output_of(fmt::format("squeue -h -j {} -o %L 2>/dev/null", job)));
  }
  const auto time = parse_duration(text);
  if (!time || time->count() <= 0)
    throw UsageError(fmt::format("--max-time {}: expected auto or a time such as 3:50:00, 90min or 30s", text));
  return *time;
}

}  // namespace pipefill
