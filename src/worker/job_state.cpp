#include "worker/job_state.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <pipefill/fill_job.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

constexpr std::size_t kHeadBytes = 4096;
constexpr char kMagic[16] = "pipefill state\n";
constexpr std::int64_t kMaxState = std::int64_t{1} << 46;

struct Head {
  char magic[16];
  std::uint32_t format, abi;
  char kind[32];
  char configuration[64];
  std::int64_t chunks, state_bytes;
  std::atomic<std::int64_t> done;
  std::atomic<std::int64_t> cpu_ns;
  std::atomic<std::int64_t> chunk_ns;
};
static_assert(sizeof(Head) <= kHeadBytes && std::atomic<std::int64_t>::is_always_lock_free);
constexpr std::uint32_t kFormat = 1;

Head* head_of(void* at) { return static_cast<Head*>(at); }

template <std::size_t N>
void put(char (&to)[N], const std::string& text) {
  std::memset(to, 0, N);
  std::memcpy(to, text.data(), std::min(text.size(), N - 1));
}
template <std::size_t N>
std::string get(const char (&from)[N]) {
  return {from, ::strnlen(from, N)};
}

void make(const std::string& path, const JobStateKey& key) {
  const std::string temporary = path + ".tmp";
  ::unlink(temporary.c_str());  // of a killed worker: the job's lock is held, nobody else writes here
  const FileDescriptor file = create_exclusive(temporary);
  const auto bytes = static_cast<off_t>(kHeadBytes) + key.state_bytes;
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.format = kFormat;
  head.abi = PIPEFILL_FILL_JOB_ABI;
  put(head.kind, key.kind);
  put(head.configuration, key.configuration);
  head.chunks = key.chunks;
  head.state_bytes = key.state_bytes;
  const int error = ::posix_fallocate(file.get(), 0, bytes);
  const bool written = error == 0 && ::pwrite(file.get(), &head, sizeof head, 0) == sizeof head;
  if (!written || ::fsync(file.get()) != 0) {
    const int why = error != 0 ? error : errno;
    ::unlink(temporary.c_str());
    throw FileError(ExitCode::input_output, path,
                    system_text(fmt::format("cannot reserve {} bytes for the job's state", bytes), why));
  }
  rename_path(temporary, path);
  sync_directory(std::filesystem::path(path).parent_path().string());
}

/// What is wrong with a head for a file of `size` bytes; empty: nothing.
std::string check_head(const Head& head, std::int64_t size) {
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) return "is no state of a fill job";
  if (head.format != kFormat) return fmt::format("has format {}, this program reads {}", head.format, kFormat);
  if (head.state_bytes < 0 || head.state_bytes > kMaxState ||
      size != static_cast<std::int64_t>(kHeadBytes) + head.state_bytes)
    return fmt::format("is damaged: {} bytes where its head says {} + {}", size, kHeadBytes, head.state_bytes);
  const std::int64_t done = head.done.load(std::memory_order_relaxed);
  if (head.chunks < 0 || done < 0 || done > head.chunks)
    return fmt::format("is damaged: {} of {} chunks done", done, head.chunks);
  return "";
}

}  // namespace

JobStateFile JobStateFile::open(const std::string& path, const JobStateKey& key) {
  if (key.state_bytes < 0 || key.state_bytes > kMaxState || key.chunks < 0)
    throw FileError(ExitCode::damaged_data, path,
                    fmt::format("the kind asks for {} bytes of state and {} chunks", key.state_bytes, key.chunks));
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (file.get() < 0 && errno == ENOENT) {
    make(path, key);
    file = FileDescriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  }
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0)
    throw FileError(ExitCode::input_output, path, system_text("cannot open", errno));
  if (info.st_size < static_cast<off_t>(kHeadBytes)) throw FileError(ExitCode::damaged_data, path, "is cut short");
  const auto bytes = static_cast<std::size_t>(info.st_size);
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) throw FileError(ExitCode::input_output, path, system_text("cannot map", errno));
  JobStateFile mapped(path, at, bytes);
  const Head& head = *head_of(at);
  if (const std::string wrong = check_head(head, info.st_size); !wrong.empty())
    throw FileError(ExitCode::damaged_data, path, wrong);
  if (get(head.kind) != key.kind.substr(0, 31) || get(head.configuration) != key.configuration.substr(0, 63) ||
      head.abi != PIPEFILL_FILL_JOB_ABI || head.chunks != key.chunks || head.state_bytes != key.state_bytes)
    throw FileError(
        ExitCode::damaged_data, path,
        fmt::format("belongs to another job: {} in configuration {} with {} chunks and {} bytes (interface {}), not {} "
                    "in {} with {} and {}; was its job file or its input changed? Submit a new job instead",
                    get(head.kind), get(head.configuration), head.chunks, head.state_bytes, head.abi, key.kind,
                    key.configuration, key.chunks, key.state_bytes));
  return mapped;
}

JobStateFile::JobStateFile(JobStateFile&& other) noexcept
    : path_(std::move(other.path_)), at_(std::exchange(other.at_, nullptr)), bytes_(other.bytes_) {}

JobStateFile::~JobStateFile() {
  if (at_ != nullptr) ::munmap(at_, bytes_);
}

void* JobStateFile::state() const { return static_cast<char*>(at_) + kHeadBytes; }
std::int64_t JobStateFile::done() const { return head_of(at_)->done.load(std::memory_order_acquire); }
void JobStateFile::set_done(std::int64_t done) { head_of(at_)->done.store(done, std::memory_order_release); }
Nanoseconds JobStateFile::cpu_time() const { return Nanoseconds{head_of(at_)->cpu_ns.load()}; }
Nanoseconds JobStateFile::chunk_time() const { return Nanoseconds{head_of(at_)->chunk_ns.load()}; }
void JobStateFile::add_times(Nanoseconds cpu, Nanoseconds chunk) {
  head_of(at_)->cpu_ns.fetch_add(cpu.count(), std::memory_order_relaxed);
  head_of(at_)->chunk_ns.fetch_add(chunk.count(), std::memory_order_relaxed);
}

void JobStateFile::sync() const {
  if (::msync(at_, bytes_, MS_SYNC) != 0)
    throw FileError(ExitCode::input_output, path_, system_text("cannot sync the job's state", errno));
}

std::int64_t read_done(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file.get() < 0 && errno == ENOENT) return 0;
  struct stat info {};
  Head head{};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0)
    throw FileError(ExitCode::input_output, path, system_text("cannot open", errno));
  if (::pread(file.get(), static_cast<void*>(&head), sizeof head, 0) != sizeof head)
    throw FileError(ExitCode::damaged_data, path, "is cut short");
  if (const std::string wrong = check_head(head, info.st_size); !wrong.empty())
    throw FileError(ExitCode::damaged_data, path, wrong);
  return head.done.load();
}

}  // namespace pipefill
