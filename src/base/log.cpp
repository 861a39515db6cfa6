#include "base/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "base/error.hpp"

namespace pipefill {
namespace {

/// Info lines only; warnings and errors have their own sink on stderr.
class InfoToStdout : public spdlog::sinks::stdout_sink_mt {
 public:
  void log(const spdlog::details::log_msg& message) override {
    if (message.level < spdlog::level::warn) spdlog::sinks::stdout_sink_mt::log(message);
  }
};

/// Appended to; FileError (73) where it cannot be opened.
spdlog::sink_ptr log_file(const std::string& file) {
  try {
    return std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
  } catch (const spdlog::spdlog_ex& error) {
    throw FileError(ExitCode::cannot_create, file, error.what());
  }
}

/// A full disk fails every line: told once, and not by way of the log.
std::function<void(const std::string&)> tell_once() {
  return [told = std::make_shared<std::atomic<bool>>(false)](const std::string& text) {
    if (!told->exchange(true))
      std::fprintf(stderr, "pipefill: warning: lines of the log are lost, and later ones may be; the run goes on: %s\n",
                   text.c_str());
  };
}

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
    const spdlog::sink_ptr lines = log_file(file);
    lines->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z [%n] %l: %v");
    sinks.push_back(lines);
  }
  auto log = std::make_shared<spdlog::logger>(name, sinks.begin(), sinks.end());
  log->flush_on(spdlog::level::info);
  log->set_error_handler(tell_once());
  return log;
}

Log make_null_log() {
  return std::make_shared<spdlog::logger>("null", std::make_shared<spdlog::sinks::null_sink_mt>());
}

}  // namespace pipefill
