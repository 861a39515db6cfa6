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

namespace pipefill {
namespace {

// What the worker itself may take beside the job: stacks, buffers, the page tables of both.
constexpr Bytes kBesides{16 << 20};

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

/// Where this process is counted, and below which group others with this controller can be made for it; empty: nowhere.
/// Of v2 that is its own one or the one around it, whichever hands the controller down.
struct Place {
  std::string home, parent;
};

Place place_of_groups(const std::string& controller) {
  std::ifstream groups("/proc/self/cgroup");
  std::string unified;
  for (std::string line; std::getline(groups, line);) {  // "4:pids:/path" or "0::/path"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (lists(controllers, controller, ",")) {
      const std::string group = "/sys/fs/cgroup/" + controllers + path;
      return {group, group};
    }
    if (controllers.empty()) unified = "/sys/fs/cgroup" + path;
  }
  if (unified.empty()) return {};
  for (const std::string& group : {unified, std::filesystem::path(unified).parent_path().string()})
    if (lists(content(group + "/cgroup.subtree_control"), controller, " \n")) return {unified, group};
  return {};
}

std::string group_of(const std::string& parent, int worker_pid) {
  return fmt::format("{}/pipefill-fill-{}", parent, worker_pid);
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
  const std::string parent = place_of_groups(controller).parent;
  return !parent.empty() && ::access(parent.c_str(), W_OK) == 0;
}

JobGroup::JobGroup(const FillLimits& limits) {
  if (limits.processes > 0) {
    const std::int64_t most = limits.processes + threads_of_this_process() + 1;  // the watching thread
    limit("pids", {{"pids.max", fmt::format("{}\n", most)}});
  }
  if (limits.memory.count > 0) {
    const std::string most = fmt::format("{}\n", (limits.memory + kBesides).count);
    counts_memory_ = limit("memory", {{"memory.max", most}, {"memory.swap.max", "0\n"}}) ||
                     limit("memory", {{"memory.limit_in_bytes", most}, {"memory.swappiness", "0\n"}});
  }
}

/// The first of the values must be taken, the others may be unknown to the kernel.
bool JobGroup::limit(const std::string& controller, const std::vector<std::pair<std::string, std::string>>& values) {
  const Place place = place_of_groups(controller);
  if (place.parent.empty()) return false;
  const std::string path = group_of(place.parent, ::getpid());
  const bool made_here = ::mkdir(path.c_str(), 0755) == 0;
  if (!made_here && errno != EEXIST) return false;  // it exists: v2, made for the other controller
  bool good = true;
  for (std::size_t i = 0; i < values.size(); ++i)
    good &= write_line(path + "/" + values[i].first, values[i].second) || i > 0;
  good = good && write_line(path + "/cgroup.procs", fmt::format("{}\n", ::getpid()));
  if (good && made_here)
    groups_.push_back({place.home, path});
  else if (made_here)
    ::rmdir(path.c_str());
  return good;
}

JobGroup::~JobGroup() {
  for (const Group& group : groups_) {
    write_line(group.home + "/cgroup.procs", fmt::format("{}\n", ::getpid()));
    ::rmdir(group.path.c_str());
  }
}

std::int64_t JobGroup::killed_for_memory() const {
  std::int64_t sum = 0;
  for (const Group& group : groups_) sum += out_of_memory_kills(group.path);
  return sum;
}

std::int64_t JobGroup::killed_for_memory(int worker_pid) {
  return out_of_memory_kills(group_of(place_of_groups("memory").parent, worker_pid));
}

void JobGroup::remove_of(int worker_pid) {
  for (const char* controller : {"pids", "memory"})
    if (const std::string parent = place_of_groups(controller).parent; !parent.empty())
      ::rmdir(group_of(parent, worker_pid).c_str());
}

}  // namespace pipefill
