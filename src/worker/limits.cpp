#include "worker/limits.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/text.hpp"
#include "fill_jobs/process_tree.hpp"

namespace pipefill {
namespace {

Bytes address_space() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t pages = 0;
  statm >> pages;
  return Bytes{pages * ::sysconf(_SC_PAGESIZE)};
}

Bytes size_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? Bytes{info.st_size} : Bytes{0};
}

}  // namespace

struct ProcessLimits::Saved {
  std::vector<std::pair<int, rlimit>> limits;

  void lower(int which, std::int64_t to) {
    rlimit limit{};
    if (::getrlimit(static_cast<__rlimit_resource_t>(which), &limit) != 0) return;
    limits.emplace_back(which, limit);
    limit.rlim_cur = std::min(static_cast<rlim_t>(to), limit.rlim_max);
    ::setrlimit(static_cast<__rlimit_resource_t>(which), &limit);
  }
};

ProcessLimits::ProcessLimits(const FillLimits& limits, Bytes state) : saved_(std::make_unique<Saved>()) {
  saved_->lower(RLIMIT_CORE, 0);
  if (limits.memory.count > 0)
    saved_->lower(RLIMIT_AS, (address_space() + state + limits.memory + kWorkerMemory).count);
  if (limits.disk.count > 0) saved_->lower(RLIMIT_FSIZE, limits.disk.count);
  if (limits.cpu.count() > 0) {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    saved_->lower(RLIMIT_CPU,
                  used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1 + static_cast<std::int64_t>(to_seconds(limits.cpu)));
  }
}

ProcessLimits::~ProcessLimits() {
  for (const auto& [which, limit] : saved_->limits) ::setrlimit(static_cast<__rlimit_resource_t>(which), &limit);
}

class LimitWatch::Impl {
 public:
  Impl(const JobDirectory& directory, const FillLimits& limits, std::function<void(const std::string&)> violated)
      : directory_(directory), limits_(limits), violated_(std::move(violated)), thread_([this] { watch(); }) {}
  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      end_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

 private:
  void watch();
  std::optional<std::string> look(int round) const;

  JobDirectory directory_;
  FillLimits limits_;
  std::function<void(const std::string&)> violated_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool end_ = false;
  std::thread thread_;  // last: it uses the others
};

void LimitWatch::Impl::watch() {
  for (int round = 0;; ++round) {
    if (const auto over = look(round)) return violated_(*over);
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, std::chrono::milliseconds(50), [this] { return end_; })) return;
  }
}

std::optional<std::string> LimitWatch::Impl::look(int round) const {
  const Bytes output = size_of(directory_.file("stdout")) + size_of(directory_.file("stderr"));
  if (limits_.output.count > 0 && output > limits_.output)
    return fmt::format("limits.output: it wrote {} to stdout and stderr, {} are allowed", format_bytes(output),
                       format_bytes(limits_.output));
  if (limits_.processes > 0 || limits_.memory.count > 0) {
    const std::vector<ProcessFacts> children = descendants(::getpid());
    if (limits_.processes > 0 && static_cast<std::int64_t>(children.size()) > limits_.processes)
      return fmt::format("limits.processes: it started {} processes, {} are allowed", children.size(),
                         limits_.processes);
    Bytes resident;
    for (const ProcessFacts& child : children) resident += child.resident;
    if (limits_.memory.count > 0 && resident > limits_.memory)
      return fmt::format("limits.memory: its processes use {}, {} are allowed", format_bytes(resident),
                         format_bytes(limits_.memory));
  }
  if (limits_.disk.count > 0 && round % 4 == 0) {
    const Bytes disk = directory_.size();
    if (disk > limits_.disk)
      return fmt::format("limits.disk: its directory holds {}, {} are allowed", format_bytes(disk),
                         format_bytes(limits_.disk));
  }
  return std::nullopt;
}

LimitWatch::LimitWatch(const JobDirectory& directory, const FillLimits& limits,
                       std::function<void(const std::string&)> violated)
    : impl_(std::make_unique<Impl>(directory, limits, std::move(violated))) {}
LimitWatch::~LimitWatch() = default;

}  // namespace pipefill
