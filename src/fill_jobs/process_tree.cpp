#include "fill_jobs/process_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>

namespace pipefill {
namespace {

/// A small file of /proc; empty when it is gone.
std::string slurp(const std::string& path) {
  std::string text;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  char buffer[4096];
  for (ssize_t got; (got = ::read(file, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  ::close(file);
  return text;
}

Nanoseconds from_ticks(std::uint64_t ticks) {
  static const auto per_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return Nanoseconds{static_cast<std::int64_t>(ticks * (1'000'000'000 / per_second))};
}

/// Of the process itself to the nanosecond, where /proc counts ticks.
bool own_cpu(int pid, Nanoseconds& cpu) {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return false;
  cpu = Nanoseconds{time.tv_sec * 1'000'000'000LL + time.tv_nsec};
  return true;
}

void add_children(int pid, std::vector<ProcessFacts>& found) {
  const std::string tasks = fmt::format("/proc/{}/task", pid);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(tasks.c_str()), ::closedir);
  if (!directory) return;
  while (const dirent* entry = ::readdir(directory.get())) {
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) == 0) continue;
    const std::string children = slurp(tasks + "/" + entry->d_name + "/children");
    for (const char* at = children.c_str(); *at != '\0';) {
      char* end = nullptr;
      const long child = std::strtol(at, &end, 10);
      if (end == at) break;
      at = end + std::strspn(end, " \n");
      ProcessFacts facts;
      if (read_process(static_cast<int>(child), facts)) found.push_back(facts);
    }
  }
}

}  // namespace

bool read_process(int pid, ProcessFacts& facts) {
  const std::string text = slurp(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = text.rfind(')');  // the name may hold anything, also brackets
  if (name_end == std::string::npos) return false;
  unsigned long long user = 0, system = 0, started = 0;
  long long child_user = 0, child_system = 0, pages = 0;
  int parent = 0, group = 0;
  char state = '?';
  // proc(5): 3 state, 4 ppid, 5 pgrp, 14 utime, 15 stime, 16 cutime, 17 cstime, 22 starttime, 24 rss
  const int read = std::sscanf(text.c_str() + name_end + 1,
                               " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %lld %lld %*d %*d %*d %*d %llu "
                               "%*u %lld",
                               &state, &parent, &group, &user, &system, &child_user, &child_system, &started, &pages);
  if (read != 9) return false;
  Nanoseconds own{0};
  if (!own_cpu(pid, own)) own = from_ticks(user + system);
  facts.name = {pid, started};
  facts.parent = parent;
  facts.group = group;
  facts.state = state;
  facts.cpu = own + from_ticks(static_cast<std::uint64_t>(child_user + child_system));
  facts.resident = Bytes{pages * ::sysconf(_SC_PAGESIZE)};
  return true;
}

std::vector<ProcessFacts> descendants(int pid) {
  std::vector<ProcessFacts> found;
  add_children(pid, found);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const int parent = found[i].name.pid;
    add_children(parent, found);
  }
  return found;
}

void kill_descendants(int pid) {
  for (int pass = 0; pass < 200; ++pass) {
    const std::vector<ProcessFacts> left = descendants(pid);
    if (left.empty()) return;
    for (const ProcessFacts& process : left) {
      // Stopped first, all of them: whoever is stopped forks no more.
      if (pass == 0)
        ::kill(process.name.pid, SIGSTOP);
      else if (process.state != 'Z')
        ::kill(process.name.pid, SIGKILL);
      if (process.parent == ::getpid()) ::waitpid(process.name.pid, nullptr, WNOHANG);
    }
    if (pass > 0) ::poll(nullptr, 0, 1);
  }
}

void signal_process(const ProcessName& process, int signal) {
  ProcessFacts facts;
  if (read_process(process.pid, facts) && facts.name == process) ::kill(process.pid, signal);
}

}  // namespace pipefill
