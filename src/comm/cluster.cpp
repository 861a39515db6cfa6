#include "comm/cluster.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/mpi_check.hpp"

namespace pipefill {
namespace {

/// What a rank tells all others at start; fixed size, gathered as bytes.
struct RankCard {
  char host[256];
  char clock_domain[128];
  char core_mask[1024];
  int pid;
  int host_leader;
  int local_rank;
  int local_size;
};

template <std::size_t N>
void copy_text(char (&to)[N], const std::string& from) {
  const std::size_t length = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

std::string clock_domain(const std::string& host) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  if (boot.empty()) boot = host;
  struct stat name_space {};
  const bool known = stat("/proc/self/ns/time", &name_space) == 0;
  return fmt::format("{}/{}", boot, known ? static_cast<unsigned long long>(name_space.st_ino) : 0ULL);
}

/// This process's affinity, which a launcher may have narrowed to some cores of its own for every rank.
std::string core_mask() {
  const std::string key = "Cpus_allowed_list:";
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == key && status >> word) return word;
  return "";
}

/// True when all ranks come here within the time.
bool all_arrive_within(Nanoseconds limit) {
  MPI_Request barrier = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(MPI_COMM_WORLD, &barrier) != MPI_SUCCESS) return false;
  const Nanoseconds start = now();
  int done = 0;
  while (!done && now() - start < limit) {
    if (MPI_Test(&barrier, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return done != 0;
}

bool mpi_is_up() {
  int initialised = 0, finalized = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalized);
  return initialised && !finalized;
}

}  // namespace

Cluster::Cluster() {
  int provided = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "initialise");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "set an error handler");
  int size = 0;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_.value), "read the rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "read the number of ranks");
  if (provided < MPI_THREAD_FUNNELED) {
    throw TransportError(
        "this MPI gives no MPI_THREAD_FUNNELED, which a rank with a watchdog and an I/O thread needs; use an MPI built "
        "with thread support");
  }

  RankCard card{};
  char host[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  check_mpi(MPI_Get_processor_name(host, &length), "read the host's name");
  copy_text(card.host, host);
  copy_text(card.clock_domain, clock_domain(host));
  copy_text(card.core_mask, core_mask());
  card.pid = getpid();
  MPI_Comm local = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_.value, MPI_INFO_NULL, &local),
            "find the ranks of this host");
  check_mpi(MPI_Comm_rank(local, &card.local_rank), "read the local rank");
  check_mpi(MPI_Comm_size(local, &card.local_size), "read the number of local ranks");
  card.host_leader = rank_.value;
  check_mpi(MPI_Bcast(&card.host_leader, 1, MPI_INT, 0, local), "agree on the host's first rank");
  check_mpi(MPI_Comm_free(&local), "free a communicator");

  std::vector<RankCard> cards(static_cast<std::size_t>(size));
  check_mpi(MPI_Allgather(&card, sizeof card, MPI_BYTE, cards.data(), sizeof card, MPI_BYTE, MPI_COMM_WORLD),
            "gather the ranks' hosts");
  for (int r = 0; r < size; ++r) {
    const RankCard& c = cards[static_cast<std::size_t>(r)];
    ranks_.push_back({{r}, c.host, c.pid, {c.host_leader}, c.local_rank, c.local_size, c.clock_domain, c.core_mask});
  }
}

Cluster::~Cluster() {
  if (!mpi_is_up()) return;
  if (std::uncaught_exceptions() > 0 && !all_arrive_within(std::chrono::seconds(1))) return;
  MPI_Finalize();
}

std::vector<RankId> Cluster::local_ranks() const {
  std::vector<RankId> local;
  for (const RankInfo& info : ranks_) {
    if (info.host_leader == mine().host_leader) local.push_back(info.rank);
  }
  return local;
}

void Cluster::barrier() const { check_mpi(MPI_Barrier(MPI_COMM_WORLD), "meet at a barrier"); }

int Cluster::open_host_memory(const std::string& purpose, std::int64_t size) const {
  MPI_Comm local = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_.value, MPI_INFO_NULL, &local),
            "find the ranks of this host");
  char name[128] = "";
  int fd = -1;
  int error = 0;
  if (mine().local_rank == 0) {
    copy_text(name, fmt::format("/pipefill-{}-{}-{}", purpose, getpid(), now().count()));
    fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, size) != 0) error = errno;
  }
  check_mpi(MPI_Bcast(name, sizeof name, MPI_CHAR, 0, local), "share a name");
  if (mine().local_rank != 0) {
    fd = shm_open(name, O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) error = errno;
  }
  int worst = 0;
  check_mpi(MPI_Allreduce(&error, &worst, 1, MPI_INT, MPI_MAX, local), "agree on shared memory");
  if (mine().local_rank == 0) shm_unlink(name);
  check_mpi(MPI_Comm_free(&local), "free a communicator");
  if (worst != 0) {
    if (fd >= 0) close(fd);
    throw Error(ExitCode::input_output,
                fmt::format("cannot make {} bytes of shared memory ({}) on {}: {}; is /dev/shm mounted and not full?",
                            size, purpose, mine().host, strerror(worst)));
  }
  return fd;
}

std::string placement_table(const std::vector<RankInfo>& ranks, ProcessLayout layout) {
  std::size_t width = 4;
  for (const RankInfo& info : ranks) width = std::max(width, info.host.size());
  std::string table = fmt::format("rank  {:<{}}  local     pid  stage  replica\n", "host", width);
  for (const RankInfo& info : ranks) {
    table +=
        fmt::format("{:>4}  {:<{}}  {:>5}  {:>6}  {:>5}  {:>7}\n", info.rank.value, info.host, width, info.local_rank,
                    info.pid, layout.stage_of(info.rank).value, layout.replica_of(info.rank).value);
  }
  return table;
}

void end_all_ranks(int exit_code) {
  std::fflush(stdout);
  std::fflush(stderr);
  if (mpi_is_up()) {
    std::thread([exit_code] { MPI_Abort(MPI_COMM_WORLD, exit_code); }).detach();
    std::this_thread::sleep_for(std::chrono::seconds(2));
  }
  _exit(exit_code);
}

}  // namespace pipefill
