#include "worker/channel.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <type_traits>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace pipefill {
namespace {

constexpr std::uint64_t kMagic = 0x6c6c69666570'6970;  // "pipefill"
constexpr std::uint32_t kVersion = 2;
constexpr const char* kName = "channel of a fill worker";

static_assert(std::is_trivially_copyable_v<JobReport> && std::is_trivially_copyable_v<ChunkRecord>);
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

constexpr std::int64_t kTellAll = -1;

template <class E>
E load(const std::atomic<std::uint32_t>& word) {
  return static_cast<E>(word.load(std::memory_order_seq_cst));
}

}  // namespace

/// What the rank writes and what the worker writes lie on different cache lines.
struct ChannelBlock {
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t bytes = 0;

  alignas(64) FutexWord wake{0};
  std::atomic<std::uint64_t> grant_sequence{0};
  ChunkRule rule;  ///< written before any worker attaches
  std::atomic<std::int64_t> deadline_ns{0};
  std::atomic<std::int64_t> memory_bytes{0};
  std::atomic<std::uint64_t> stop_sequence{0};
  std::atomic<std::int64_t> stop_ns{0};
  std::atomic<std::int64_t> stopped_ns{0};
  std::atomic<std::uint64_t> records_read{0};
  std::atomic<std::int64_t> heard{kTellAll};

  alignas(64) std::atomic<std::uint32_t> command_sequence{0};
  WorkerCommand command = WorkerCommand::none;
  std::uint64_t command_serial = 0;
  std::array<char, 64> configuration = {};
  std::array<char, 4096> directory = {};

  alignas(64) FutexWord news{0};
  std::atomic<std::uint32_t> phase{0};
  std::atomic<std::uint32_t> park_reason{0};
  std::atomic<std::uint64_t> parked_sequence{0};
  std::atomic<std::int64_t> parked_ns{0};
  std::atomic<std::uint32_t> command_answered{0};
  std::atomic<std::int64_t> done{0};
  std::atomic<std::int64_t> chunk_began_ns{0};
  std::atomic<std::int64_t> next_budget_ns{-1};  ///< -1: unknown
  std::atomic<std::int64_t> next_memory_bytes{0};
  std::atomic<std::int32_t> program_group{0};
  std::atomic<std::uint64_t> reports_written{0};
  std::atomic<std::uint64_t> records_written{0};
  std::array<JobReport, 2> reports = {};
  std::array<ChunkRecord, kChannelRecords> records = {};
};

WorkerChannel WorkerChannel::create() {
  FileDescriptor memory(::memfd_create("pipefill-fill-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory.get() < 0 || ::ftruncate(memory.get(), sizeof(ChannelBlock)) != 0)
    throw FileError(ExitCode::input_output, kName, system_text("cannot make shared memory", errno));
  // A worker that shortened the file would end the rank by SIGBUS.
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw FileError(ExitCode::input_output, kName, system_text("cannot seal shared memory", errno));
  void* at = ::mmap(nullptr, sizeof(ChannelBlock), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (at == MAP_FAILED) throw FileError(ExitCode::input_output, kName, system_text("cannot map", errno));
  auto* block = new (at) ChannelBlock;
  block->bytes = sizeof(ChannelBlock);
  return {std::move(memory), block};
}

WorkerChannel WorkerChannel::attach(FileDescriptor memory) {
  struct stat info {};
  if (::fstat(memory.get(), &info) != 0 || info.st_size != static_cast<off_t>(sizeof(ChannelBlock)))
    throw FileError(ExitCode::damaged_data, kName, "the inherited descriptor is not a channel of this program version");
  void* at = ::mmap(nullptr, sizeof(ChannelBlock), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (at == MAP_FAILED) throw FileError(ExitCode::input_output, kName, system_text("cannot map", errno));
  auto* block = static_cast<ChannelBlock*>(at);
  if (block->magic != kMagic || block->version != kVersion || block->bytes != sizeof(ChannelBlock)) {
    ::munmap(at, sizeof(ChannelBlock));
    throw FileError(ExitCode::damaged_data, kName, "the inherited descriptor is not a channel of this program version");
  }
  return {std::move(memory), block};
}

WorkerChannel WorkerChannel::share() const {
  return attach(FileDescriptor(::fcntl(memory_.get(), F_DUPFD_CLOEXEC, 0)));
}

WorkerChannel::WorkerChannel(WorkerChannel&& other) noexcept
    : memory_(std::move(other.memory_)), block_(std::exchange(other.block_, nullptr)), doorbell_(other.doorbell_) {}

WorkerChannel::~WorkerChannel() {
  if (block_ != nullptr) ::munmap(block_, sizeof(ChannelBlock));
}

bool WorkerChannel::post(WorkerCommand command, std::uint64_t serial, const std::string& directory,
                         const std::string& configuration) {
  if (!answered()) return false;
  if (directory.size() >= block_->directory.size() || configuration.size() >= block_->configuration.size())
    throw FileError(ExitCode::cannot_create, directory,
                    "the path of a fill job, or its configuration's name, is too long");
  block_->command = command;
  block_->command_serial = serial;
  copy_text(block_->directory, directory);
  copy_text(block_->configuration, configuration);
  block_->command_sequence.fetch_add(1, std::memory_order_acq_rel);
  futex_bump(block_->wake);
  return true;
}

bool WorkerChannel::answered() const {
  return block_->command_answered.load(std::memory_order_acquire) ==
         block_->command_sequence.load(std::memory_order_relaxed);
}

std::uint64_t WorkerChannel::grant(Nanoseconds deadline, Bytes memory) {
  block_->deadline_ns.store(deadline.count(), std::memory_order_relaxed);
  block_->memory_bytes.store(memory.count, std::memory_order_relaxed);
  block_->heard.store(kTellAll, std::memory_order_relaxed);
  const std::uint64_t sequence = block_->grant_sequence.load(std::memory_order_relaxed) + 1;
  block_->grant_sequence.store(sequence, std::memory_order_release);
  futex_bump(block_->wake);
  return sequence;
}

void WorkerChannel::set_heard(std::optional<std::uint32_t> heard) {
  block_->heard.store(heard ? std::int64_t{*heard} : kTellAll, std::memory_order_relaxed);
}

void WorkerChannel::stop() {
  const std::uint64_t sequence = block_->grant_sequence.load(std::memory_order_relaxed);
  if (must_stop(sequence)) return;
  block_->stop_ns.store(now().count(), std::memory_order_relaxed);
  block_->stop_sequence.store(sequence, std::memory_order_seq_cst);
  futex_bump(block_->wake);  // for work that sleeps itself: a program's host
}

bool WorkerChannel::stopped() const { return must_stop(block_->grant_sequence.load(std::memory_order_relaxed)); }

bool WorkerChannel::parked() const {
  return block_->parked_sequence.load(std::memory_order_acquire) >=
         block_->grant_sequence.load(std::memory_order_relaxed);
}

ParkReason WorkerChannel::park_reason() const { return load<ParkReason>(block_->park_reason); }
Nanoseconds WorkerChannel::parked_at() const { return Nanoseconds{block_->parked_ns.load(std::memory_order_acquire)}; }
WorkerPhase WorkerChannel::phase() const { return load<WorkerPhase>(block_->phase); }
std::int64_t WorkerChannel::done() const { return block_->done.load(std::memory_order_acquire); }
Nanoseconds WorkerChannel::chunk_began() const {
  return Nanoseconds{block_->chunk_began_ns.load(std::memory_order_acquire)};
}

std::optional<NextChunk> WorkerChannel::next_chunk() const {
  const std::int64_t budget = block_->next_budget_ns.load(std::memory_order_acquire);
  if (budget < 0) return std::nullopt;
  return NextChunk{Nanoseconds{budget}, Bytes{block_->next_memory_bytes.load(std::memory_order_relaxed)}};
}

std::uint32_t WorkerChannel::ticket() const { return block_->news.load(std::memory_order_acquire); }
FutexWake WorkerChannel::wait_news(std::uint32_t ticket, Nanoseconds timeout) const {
  return futex_wait(block_->news, ticket, timeout);
}
void WorkerChannel::announce() { futex_bump(block_->news); }

void WorkerChannel::drain(std::vector<ChunkRecord>& records) {
  std::uint64_t next = block_->records_read.load(std::memory_order_relaxed);
  const std::uint64_t end = block_->records_written.load(std::memory_order_acquire);
  // A worker writes over its own counters only by damage; what it says then is not worth reading.
  if (end - next <= kChannelRecords)
    for (; next != end; ++next) records.push_back(block_->records[next % kChannelRecords]);
  block_->records_read.store(end, std::memory_order_release);
}

JobReport WorkerChannel::report() const {
  // Two slots in turn: the slot read is written again only by the report after the next.
  JobReport report;
  for (int tries = 0; tries < 100; ++tries) {
    const std::uint64_t before = block_->reports_written.load(std::memory_order_acquire);
    report = block_->reports[before % 2];
    std::atomic_thread_fence(std::memory_order_acquire);
    if (block_->reports_written.load(std::memory_order_relaxed) == before) break;
  }
  report.configuration.back() = '\0';
  report.message.back() = '\0';
  return report;
}

std::uint64_t WorkerChannel::reports() const { return block_->reports_written.load(std::memory_order_acquire); }
Nanoseconds WorkerChannel::stopped_at() const { return Nanoseconds{block_->stop_ns.load(std::memory_order_relaxed)}; }
void WorkerChannel::add_stopped(Nanoseconds time) {
  block_->stopped_ns.fetch_add(time.count(), std::memory_order_relaxed);
}
int WorkerChannel::program_group() const { return block_->program_group.load(std::memory_order_acquire); }

void WorkerChannel::reset_worker() {
  block_->phase.store(static_cast<std::uint32_t>(WorkerPhase::starting), std::memory_order_relaxed);
  block_->program_group.store(0, std::memory_order_relaxed);
  block_->chunk_began_ns.store(0, std::memory_order_relaxed);
  block_->next_budget_ns.store(-1, std::memory_order_relaxed);
  block_->command_answered.store(block_->command_sequence.load(std::memory_order_acquire), std::memory_order_release);
  const std::uint64_t granted = block_->grant_sequence.load(std::memory_order_acquire);
  block_->parked_ns.store(now().count(), std::memory_order_relaxed);
  block_->parked_sequence.store(granted, std::memory_order_release);
  announce();
}

void WorkerChannel::set_phase(WorkerPhase phase) {
  // Sequentially consistent with stop(): either the rank sees `running`, or the worker then sees the stop.
  block_->phase.store(static_cast<std::uint32_t>(phase), std::memory_order_seq_cst);
  if (phase != WorkerPhase::running) futex_bump(block_->news);
}

std::optional<WorkerChannel::Posted> WorkerChannel::posted() const {
  if (answered()) return std::nullopt;
  // The pair of command_sequence's release in post(): the fields were written before it.
  std::atomic_thread_fence(std::memory_order_acquire);
  return Posted{block_->command, block_->command_serial, block_->directory.data(), block_->configuration.data()};
}

void WorkerChannel::answer() {
  block_->command_answered.store(block_->command_sequence.load(std::memory_order_acquire), std::memory_order_release);
  futex_bump(block_->news);
}

void WorkerChannel::set_rule(const ChunkRule& rule) { block_->rule = rule; }
ChunkRule WorkerChannel::rule() const { return block_->rule; }

OpenGrant WorkerChannel::granted() const {
  OpenGrant grant;
  do {
    grant.sequence = block_->grant_sequence.load(std::memory_order_acquire);
    grant.deadline = Nanoseconds{block_->deadline_ns.load(std::memory_order_relaxed)};
    grant.memory = Bytes{block_->memory_bytes.load(std::memory_order_relaxed)};
    std::atomic_thread_fence(std::memory_order_acquire);
  } while (block_->grant_sequence.load(std::memory_order_relaxed) != grant.sequence);
  return grant;
}

bool WorkerChannel::must_stop(std::uint64_t sequence) const {
  return block_->stop_sequence.load(std::memory_order_seq_cst) >= sequence;
}

std::uint32_t WorkerChannel::wake_ticket() const { return block_->wake.load(std::memory_order_acquire); }
FutexWake WorkerChannel::wait_wake(std::uint32_t ticket, Nanoseconds timeout) const {
  return futex_wait(block_->wake, ticket, timeout);
}

bool WorkerChannel::room_for_record() const {
  return block_->records_written.load(std::memory_order_relaxed) -
             block_->records_read.load(std::memory_order_acquire) <
         kChannelRecords;
}

void WorkerChannel::record(const ChunkRecord& record) {
  const std::uint64_t at = block_->records_written.load(std::memory_order_relaxed);
  block_->records[at % kChannelRecords] = record;
  block_->records_written.store(at + 1, std::memory_order_release);
  const std::int64_t heard = block_->heard.load(std::memory_order_relaxed);
  const bool sleeps_on =
      doorbell_ != nullptr && heard != kTellAll && std::int64_t{doorbell_->load(std::memory_order_acquire)} == heard;
  if (!sleeps_on) futex_bump(block_->news);
}

void WorkerChannel::set_done(std::int64_t done) { block_->done.store(done, std::memory_order_release); }
void WorkerChannel::set_chunk_began(Nanoseconds start) {
  block_->chunk_began_ns.store(start.count(), std::memory_order_release);
}

void WorkerChannel::set_next_chunk(const std::optional<NextChunk>& next) {
  if (next) block_->next_memory_bytes.store(next->memory.count, std::memory_order_relaxed);
  block_->next_budget_ns.store(next ? next->budget.count() : -1, std::memory_order_release);
}

void WorkerChannel::park(std::uint64_t sequence, ParkReason reason, WorkerPhase phase) {
  block_->park_reason.store(static_cast<std::uint32_t>(reason), std::memory_order_relaxed);
  block_->parked_ns.store(now().count(), std::memory_order_relaxed);
  block_->phase.store(static_cast<std::uint32_t>(phase), std::memory_order_relaxed);
  block_->parked_sequence.store(sequence, std::memory_order_release);
  futex_bump(block_->news);
}

void WorkerChannel::write_report(const JobReport& report) {
  const std::uint64_t next = block_->reports_written.load(std::memory_order_relaxed) + 1;
  block_->reports[next % 2] = report;
  block_->reports_written.store(next, std::memory_order_release);
  futex_bump(block_->news);
}

Nanoseconds WorkerChannel::stopped_time() const {
  return Nanoseconds{block_->stopped_ns.load(std::memory_order_relaxed)};
}
void WorkerChannel::set_program_group(int group) { block_->program_group.store(group, std::memory_order_release); }

}  // namespace pipefill
