#include "worker/limits.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/text.hpp"
#include "fill_jobs/process_tree.hpp"

namespace pipefill {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool write_line(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(file);
  return written;
}

/// Directory of the cgroup that counts this process, v2 or v1; empty when there is none.
std::string pids_cgroup() {
  std::ifstream groups("/proc/self/cgroup");
  std::string unified;
  for (std::string line; std::getline(groups, line);) {  // "4:pids:/path" or "0::/path"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers == "pids") return "/sys/fs/cgroup/pids" + path;
    if (controllers.empty()) unified = "/sys/fs/cgroup" + path;
  }
  const bool delegated =
      !unified.empty() && first_line(unified + "/cgroup.subtree_control").find("pids") != std::string::npos;
  return delegated ? unified : "";
}

std::string group_name(int worker_pid) { return fmt::format("pipefill-fill-{}", worker_pid); }

std::int64_t threads_of_this_process() {
  std::int64_t count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/task", error), end; !error && at != end; at.increment(error))
    ++count;
  return count;
}

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
    saved_->lower(RLIMIT_AS, (address_space() + state + limits.memory + Bytes{16 << 20}).count);  // stacks, buffers
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

PidsGroup::PidsGroup(std::int64_t processes) {
  if (processes == 0) return;
  parent_ = pids_cgroup();
  if (parent_.empty()) return;
  const std::string path = parent_ + "/" + group_name(::getpid());
  if (::mkdir(path.c_str(), 0755) != 0) return;
  const std::int64_t most = processes + threads_of_this_process() + 1;  // the watching thread
  if (write_line(path + "/pids.max", fmt::format("{}\n", most)) &&
      write_line(path + "/cgroup.procs", fmt::format("{}\n", ::getpid())))
    path_ = path;
  else
    ::rmdir(path.c_str());
}

PidsGroup::~PidsGroup() {
  if (path_.empty()) return;
  write_line(parent_ + "/cgroup.procs", fmt::format("{}\n", ::getpid()));
  ::rmdir(path_.c_str());
}

void PidsGroup::remove_of(int worker_pid) {
  const std::string parent = pids_cgroup();
  if (!parent.empty()) ::rmdir((parent + "/" + group_name(worker_pid)).c_str());
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
