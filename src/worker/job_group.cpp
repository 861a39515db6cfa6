#include "worker/job_group.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "worker/limits.hpp"

namespace pipefill {
namespace {

bool write_line(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(file);
  return written;
}

std::string content(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Whether `words`, apart by `separators`, has `word` in it.
bool lists(const std::string& words, const std::string& word, const char* separators) {
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find_first_of(separators, at), words.size());
    if (words.compare(at, end - at, word) == 0) return true;
    at = end + 1;
  }
  return false;
}

/// The group in which this process is counted, if others with this controller can be made below it; empty: they cannot.
/// Never beside it: whatever limits this process has by a job of Slurm or a service, its fill jobs have too.
std::string own_group(const std::string& controller) {
  std::ifstream groups("/proc/self/cgroup");
  std::string unified;
  for (std::string line; std::getline(groups, line);) {  // "4:pids:/path" or "0::/path"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (lists(controllers, controller, ",")) return "/sys/fs/cgroup/" + controllers + path;
    if (controllers.empty()) unified = "/sys/fs/cgroup" + path;
  }
  const bool handed_down = !unified.empty() && lists(content(unified + "/cgroup.subtree_control"), controller, " \n");
  return handed_down ? unified : "";
}

std::string group_of(const std::string& parent, int worker_pid) {
  return fmt::format("{}/pipefill-fill-{}", parent, worker_pid);
}

/// Its processes have been killed; that they are gone takes them a while.
void remove_group(const std::string& path) {
  for (int i = 0; i < 500 && ::rmdir(path.c_str()) != 0 && errno == EBUSY; ++i) ::usleep(1000);
}

std::int64_t out_of_memory_kills(const std::string& group) {
  for (const char* name : {"/memory.events", "/memory.oom_control"}) {
    std::istringstream lines(content(group + name));
    std::string key;
    for (std::int64_t count = 0; lines >> key >> count;)
      if (key == "oom_kill") return count;
  }
  return 0;
}

std::int64_t threads_of_this_process() {
  std::int64_t count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/task", error), end; !error && at != end; at.increment(error))
    ++count;
  return count;
}

}  // namespace

bool JobGroup::may_be_made(const std::string& controller) {
  const std::string home = own_group(controller);
  return !home.empty() && ::access(home.c_str(), W_OK) == 0;
}

JobGroup::JobGroup(const FillLimits& limits) {
  // Both before this process moves: of v2 it is one group for both, and from within it nothing is handed down.
  const std::string pids = own_group("pids"), memory = own_group("memory");
  if (limits.processes > 0) {
    const std::int64_t most = limits.processes + threads_of_this_process() + 1;  // the watching thread
    limit(pids, {{"pids.max", fmt::format("{}\n", most)}});
  }
  if (limits.memory.count > 0) {
    const std::string most = fmt::format("{}\n", (limits.memory + kWorkerMemory).count);
    counts_memory_ = limit(memory, {{"memory.max", most}, {"memory.swap.max", "0\n"}}) ||
                     limit(memory, {{"memory.limit_in_bytes", most}, {"memory.swappiness", "0\n"}});
  }
}

/// The first of the values must be taken, the others may be unknown to the kernel.
bool JobGroup::limit(const std::string& home, const std::vector<std::pair<std::string, std::string>>& values) {
  if (home.empty()) return false;
  const std::string path = group_of(home, ::getpid());
  const bool is_there = std::ranges::find(groups_, path, &Group::path) != groups_.end();
  if (!is_there) {
    remove_group(path);  // of a process that had this number
    if (::mkdir(path.c_str(), 0755) != 0) return false;
  }
  bool good = true;
  for (std::size_t i = 0; i < values.size(); ++i)
    good &= write_line(path + "/" + values[i].first, values[i].second) || i > 0;
  if (is_there) return good;
  good = good && write_line(path + "/cgroup.procs", fmt::format("{}\n", ::getpid()));
  if (good)
    groups_.push_back({home, path});
  else
    ::rmdir(path.c_str());
  return good;
}

JobGroup::~JobGroup() {
  for (const Group& group : groups_) {
    write_line(group.home + "/cgroup.procs", fmt::format("{}\n", ::getpid()));
    remove_group(group.path);
  }
}

std::int64_t JobGroup::killed_for_memory() const {
  std::int64_t sum = 0;
  for (const Group& group : groups_) sum += out_of_memory_kills(group.path);
  return sum;
}

std::int64_t JobGroup::killed_for_memory(int worker_pid) {
  return out_of_memory_kills(group_of(own_group("memory"), worker_pid));
}

void JobGroup::remove_of(int worker_pid) {
  for (const char* controller : {"pids", "memory"})
    if (const std::string home = own_group(controller); !home.empty()) remove_group(group_of(home, worker_pid));
}

}  // namespace pipefill
