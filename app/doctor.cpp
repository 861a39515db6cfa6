// pipefill doctor: what this machine has of what a run needs, and what to do where it lacks something. Changes nothing,
// asks MPI for nothing but its version, and makes no context on any device.
#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/host.hpp"
#include "base/text.hpp"
#include "commands.hpp"
#include "device/cpu/binding.hpp"
#include "device/cpu/cpu_device.hpp"
#include "device/cuda/load.hpp"
#include "version.hpp"
#include "worker/job_group.hpp"

namespace pipefill {
namespace {

/// One thing looked at. `advice` is empty where all is well.
struct Finding {
  std::string what;
  std::string fact;
  std::string advice{};
};

constexpr std::int64_t kLeastSharedMemory = std::int64_t{64} << 20;  // Open MPI's, of a few ranks, and ours
constexpr rlim_t kLeastFiles = 256;

Finding look_at_cores() {
  const std::vector<int> cores = allowed_cores();
  return {
      "cores", fmt::format("{} may be used: {}", cores.size(), format_cores(cores)),
      cores.size() < 2 ? "two ranks share one core: their bubbles are no true ones, and slowdown is not measured" : ""};
}

Finding look_at_memory() {
  const std::int64_t free = std::int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  return {"memory", fmt::format("{}, {} unused", format_bytes(host_memory()), format_bytes(Bytes{free}))};
}

Finding look_at_shared_memory() {
  struct statvfs room {};
  if (::statvfs("/dev/shm", &room) != 0)
    return {"/dev/shm", "not there", "ranks of a host talk through it; mount a tmpfs at /dev/shm"};
  const Bytes free{static_cast<std::int64_t>(room.f_bavail * room.f_frsize)};
  return {
      "/dev/shm", fmt::format("{} free", format_bytes(free)),
      free.count < kLeastSharedMemory ? "too small for MPI's shared memory; enlarge it (containers: --shm-size)" : ""};
}

Finding look_at_limit(const char* what, decltype(RLIMIT_NOFILE) resource, rlim_t least, const char* advice) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  return {what, limit.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt::format("{}", limit.rlim_cur),
          limit.rlim_cur < least ? advice : ""};
}

/// What keeps fill work harmless (docs/fill_jobs.md): found by trying, without a trace.
std::vector<Finding> look_at_containment() {
  const long pidfd = ::syscall(SYS_pidfd_open, ::getpid(), 0);
  if (pidfd >= 0) ::close(static_cast<int>(pidfd));
  bool idle = false;
  std::thread([&idle] {  // a thread that ends: nothing is left changed
    const sched_param none{};
    idle = ::sched_setscheduler(0, SCHED_IDLE, &none) == 0;
  })
      .join();
  std::vector<Finding> found{
      {"pidfd", pidfd >= 0 ? "yes" : "no",
       pidfd >= 0 ? "" : "a dead fill worker is not noticed: needs Linux 5.3, and a container that allows pidfd_open"},
      {"idle class", idle ? "yes" : "no", idle ? "" : "fill work would compete with the main job"}};
  for (const char* controller : {"pids", "memory"})
    found.push_back({fmt::format("{} cgroup", controller), JobGroup::may_be_made(controller)
                                                               ? "may be made"
                                                               : "may not be made: the processes of a fill job are "
                                                                 "looked at twenty times a second instead"});
  return found;
}

std::vector<Finding> look_at_cuda(const CudaState& cuda) {
  if (!cuda.built) return {{"CUDA", cuda.trouble}};
  if (cuda.module.empty()) return {{"CUDA", "no module", cuda.trouble}};
  std::vector<Finding> found{{"CUDA",
                              fmt::format("runtime {}, driver {}", cuda_version_text(cuda.runtime_version),
                                          cuda.driver_version > 0 ? cuda_version_text(cuda.driver_version) : "none"),
                              cuda.trouble.empty() ? "" : cuda.trouble + "; runs compute on the CPU"}};
  for (std::size_t i = 0; i < cuda.devices.size(); ++i) {
    const pipefill_cuda_device& d = cuda.devices[i];
    found.push_back(
        {fmt::format("device {}", i), fmt::format("{}, {}, compute {}.{}, {} multiprocessors, {}, at {}", d.name,
                                                  format_bytes(Bytes{d.memory_bytes}), d.compute_major, d.compute_minor,
                                                  d.multiprocessors, d.uuid, d.pci)});
  }
  return found;
}

nlohmann::json to_json(const std::vector<Finding>& findings) {
  nlohmann::json all = nlohmann::json::array();
  for (const Finding& f : findings) {
    nlohmann::json one{{"what", f.what}, {"fact", f.fact}};
    if (!f.advice.empty()) one["advice"] = f.advice;
    all.push_back(std::move(one));
  }
  return all;
}

struct DoctorOptions {
  bool json = false;
};

ExitCode examine(const DoctorOptions& options) {
  std::vector<Finding> findings{{"host", host_name()},
                                look_at_cores(),
                                look_at_memory(),
                                look_at_shared_memory(),
                                look_at_limit("open files", RLIMIT_NOFILE, kLeastFiles, "raise it: ulimit -n 1024")};
  const auto add = [&](std::vector<Finding> more) {
    findings.insert(findings.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  add(look_at_containment());
  add(look_at_cuda(look_for_cuda()));
  if (options.json) {
    fmt::print("{}\n", nlohmann::json{{"version", program_version()}, {"findings", to_json(findings)}}.dump(2));
    return ExitCode::finished;
  }
  fmt::print("{}\n", version_text());
  for (const Finding& f : findings) {
    fmt::print("{:<12} {}\n", f.what, f.fact);
    if (!f.advice.empty()) fmt::print("{:<12} ! {}\n", "", f.advice);
  }
  return ExitCode::finished;
}

}  // namespace

void add_doctor_command(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("doctor", "what this machine has of what a run needs");
  auto options = std::make_shared<DoctorOptions>();
  command->add_flag("--json", options->json, "the same for programs");
  command->footer("Run it where the ranks will run: mpirun -n 1 pipefill doctor, srun pipefill doctor.");
  command->callback([options, &chosen] { chosen = [options] { return examine(*options); }; });
}

}  // namespace pipefill
