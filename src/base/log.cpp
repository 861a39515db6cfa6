#include "base/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <vector>

namespace pipefill {
namespace {

/// Info lines only; warnings and errors have their own sink on stderr.
class InfoToStdout : public spdlog::sinks::stdout_sink_mt {
 public:
  void log(const spdlog::details::log_msg& message) override {
    if (message.level < spdlog::level::warn) spdlog::sinks::stdout_sink_mt::log(message);
  }
};

}  // namespace

Log make_log(const std::string& name, ConsoleInfo console, const std::string& file) {
  std::vector<spdlog::sink_ptr> sinks;
  auto errors = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  errors->set_level(spdlog::level::warn);
  errors->set_pattern("pipefill: %l: [%n] %v");
  sinks.push_back(errors);
  if (console == ConsoleInfo::print) {
    auto lines = std::make_shared<InfoToStdout>();
    lines->set_pattern("%v");
    sinks.push_back(lines);
  }
  if (!file.empty()) {
    auto lines = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
    lines->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z [%n] %l: %v");
    sinks.push_back(lines);
  }
  auto log = std::make_shared<spdlog::logger>(name, sinks.begin(), sinks.end());
  log->flush_on(spdlog::level::info);
  return log;
}

Log make_null_log() {
  return std::make_shared<spdlog::logger>("null", std::make_shared<spdlog::sinks::null_sink_mt>());
}

}  // namespace pipefill
