#include "engine/progress.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/text.hpp"

namespace pipefill {
namespace {

bool has_width(int descriptor) {
  winsize size = {};
  return isatty(descriptor) == 1 && ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
}

std::string tokens_per_second(const StepReport& report) {
  const double rate = static_cast<double>(report.tokens) / to_seconds(report.step_time);
  return rate >= 1e4 ? fmt::format("{:.1f}k", rate / 1e3) : fmt::format("{:.0f}", rate);
}

constexpr int kLinesAlwaysShown = 5;
constexpr int kBarWidth = 30;

}  // namespace

std::string step_line(const StepReport& report) {
  std::string line = fmt::format("step {}/{} loss {:.4f} gnorm {:.3f} lr {:.1e} | {} {} tok/s", report.step,
                                 report.steps, report.loss, report.gradient_norm, report.learning_rate,
                                 format_duration(report.step_time), tokens_per_second(report));
  if (report.bubble_fraction) line += fmt::format(" | bubble {:.1f}%", 100 * *report.bubble_fraction);
  if (report.fill_coverage) line += fmt::format(" filled {:.0f}%", 100 * *report.fill_coverage);
  if (report.slowdown) line += fmt::format(" slowdown {:+.2f}%", 100 * *report.slowdown);
  return line + fmt::format(" | eta {}", format_clock(report.eta));
}

bool terminal_is_watched() {
  if (std::getenv("SLURM_JOB_ID") != nullptr) return false;
  if (has_width(STDOUT_FILENO)) return true;
  const int launcher = open(fmt::format("/proc/{}/fd/1", getppid()).c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  if (launcher < 0) return false;
  const bool watched = has_width(launcher);
  close(launcher);
  return watched;
}

ProgressDisplay::ProgressDisplay(ProgressStyle style, std::int64_t every, Log log)
    : style_(style), every_(every), log_(std::move(log)) {
  if (style_ == ProgressStyle::automatic) style_ = terminal_is_watched() ? ProgressStyle::bar : ProgressStyle::plain;
}

void ProgressDisplay::show(const StepReport& report) {
  if (style_ == ProgressStyle::none) return;
  const std::string line = step_line(report);
  if (style_ == ProgressStyle::bar) {
    const auto filled = static_cast<std::size_t>(kBarWidth * report.step / report.steps);
    std::printf("\r\033[K[%s%s] %s", std::string(filled, '#').c_str(), std::string(kBarWidth - filled, '.').c_str(),
                line.c_str());
    std::fflush(stdout);
  } else if (shown_ < kLinesAlwaysShown || report.step % every_ == 0 || report.step == report.steps) {
    log_->info("{}", line);
  }
  ++shown_;
}

void ProgressDisplay::finish() {
  if (style_ == ProgressStyle::bar && shown_ > 0) std::printf("\n"), std::fflush(stdout);
}

}  // namespace pipefill
