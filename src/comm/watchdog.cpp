#include "comm/watchdog.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/host.hpp"
#include "base/text.hpp"

namespace pipefill {
namespace {

constexpr Nanoseconds kTick = std::chrono::milliseconds(100);
/// A gap between two of my own ticks beyond this means that I was the one who stood still.
constexpr Nanoseconds kOwnGap = std::chrono::seconds(1);
constexpr Nanoseconds kFirstLimit = std::chrono::seconds(10);
/// mpirun's TERM comes one second after a death.
constexpr Nanoseconds kReportPatience = std::chrono::milliseconds(500);

/// Stillness shorter than this is not looked into: /proc costs some microseconds a look.
constexpr Nanoseconds kUnexamined = std::chrono::seconds(1);

/// The state letter of the main thread; '?' when it cannot be read.
char process_state(int pid) {
  const std::string stat = process_stat(pid);
  return stat.empty() ? '?' : stat.front();
}

/// Processor time of a process's main thread so far (/proc/PID/schedstat, first number).
std::optional<Nanoseconds> processor_time(int pid) {
  std::ifstream file(fmt::format("/proc/{}/schedstat", pid));
  std::int64_t time = 0;
  if (!(file >> time)) return std::nullopt;
  return Nanoseconds{time};
}

/// What is remembered about one other rank.
struct Peer {
  RankId rank;
  int pidfd = -1;     ///< -1 also where its pid means nothing here
  bool gone = false;  ///< left on purpose
  std::uint64_t heart_beats = 0, progress = 0;
  Nanoseconds silent{}, idle{};  ///< time without a heart beat, without progress, as far as the rank is to blame for it
  std::optional<Nanoseconds> processor;  ///< at the last look, while it stands still

  explicit Peer(const RankState& state) : rank(state.rank) {}
  Peer(Peer&& other) noexcept { *this = std::move(other); }
  Peer& operator=(Peer&& other) noexcept {
    std::swap(pidfd, other.pidfd);
    rank = other.rank;
    gone = other.gone;
    heart_beats = other.heart_beats;
    progress = other.progress;
    silent = other.silent;
    idle = other.idle;
    processor = other.processor;
    return *this;
  }
  ~Peer() {
    if (pidfd >= 0) close(pidfd);
  }

  /// After `elapsed` more time.
  void look(const RankState& state, Nanoseconds elapsed) {
    const bool beats = state.heart_beats != std::exchange(heart_beats, state.heart_beats);
    const bool excused = state.waiting.kind != WaitKind::none || may_take_long(state.activity.kind);
    const bool moves = state.progress != std::exchange(progress, state.progress) || excused;
    if (beats && moves) {
      silent = idle = {};
      processor.reset();
      return;
    }
    const Nanoseconds fault = std::max(silent, idle) < kUnexamined ? elapsed : fault_of(state.pid, elapsed);
    silent = beats ? Nanoseconds{} : silent + fault;
    idle = moves ? Nanoseconds{} : idle + fault;
  }

  /// The part of `elapsed` for which the rank itself stood still. A main thread that is ready but given no processor (a
  /// crowded or throttled machine) or that the kernel keeps waiting for a disk is not hung.
  Nanoseconds fault_of(int pid, Nanoseconds elapsed) {
    if (pidfd < 0) return elapsed;
    const std::optional<Nanoseconds> before = std::exchange(processor, processor_time(pid));
    switch (process_state(pid)) {
      case 'D':
        return {};
      case 'R':
        return before && processor ? std::min(elapsed, *processor - *before) : Nanoseconds{};
      default:
        return elapsed;
    }
  }
};

}  // namespace

Watchdog::Watchdog(LivenessBoard& board, ProcessLayout layout, Log log, std::function<void(const Loss&)> on_loss)
    : board_(&board),
      layout_(layout),
      log_(std::move(log)),
      on_loss_(std::move(on_loss)),
      limit_ns_(0),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_ < 0) {
    throw Error(ExitCode::input_output, fmt::format("cannot make an eventfd for the watchdog: {}", strerror(errno)));
  }
  thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() {
  const std::uint64_t one = 1;
  if (write(wake_, &one, sizeof one) == sizeof one) {
    thread_.join();
  } else {
    thread_.detach();  // an eventfd that takes no 1 cannot happen; better a live thread than a hang here
  }
  close(wake_);
}

std::string Watchdog::describe_loss(LossKind kind, const RankState& peer, Nanoseconds silent) const {
  std::string text = fmt::format("{}, pid {}, ", describe(peer.rank, layout_), peer.pid);
  if (kind == LossKind::died) {
    text += "died";
  } else {
    const bool stopped = process_state(peer.pid) == 'T';
    text += fmt::format("has made no progress for {} and counts as hung{}", format_duration(silent),
                        stopped ? " (its process is stopped)" : "");
  }
  text += fmt::format("; it was last in step {}, {}", peer.step, describe(peer.activity));
  if (peer.waiting.kind != WaitKind::none) text += fmt::format(", waiting for {}", describe(peer.waiting, layout_));
  const RankState mine = board_->state(board_->mine());
  text += fmt::format(". This rank, {}, was in step {}, {}", describe(mine.rank, layout_), mine.step,
                      describe(mine.activity));
  if (mine.waiting.kind != WaitKind::none) text += fmt::format(", waiting for {}", describe(mine.waiting, layout_));
  return text + ". The run is ended; start it again to resume from the last checkpoint";
}

void Watchdog::await_other_reports(RankId lost) const {
  const Nanoseconds start = now();
  for (const RankId rank : board_->ranks()) {
    if (rank == lost) continue;
    while (now() - start < kReportPatience) {
      const RankState other = board_->state(rank);
      if (other.reported || other.finished) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

void Watchdog::run() {
  const std::uint64_t name_space = board_->state(board_->mine()).pid_namespace;
  bool reported = false;
  const auto report = [&](LossKind kind, const RankState& state, Nanoseconds silent) {
    reported = true;
    const Loss loss{kind, state, describe_loss(kind, state, silent)};
    log_->error("{}", loss.text);
    board_->report();
    await_other_reports(state.rank);
    on_loss_(loss);
  };

  std::vector<Peer> peers;
  for (const RankId rank : board_->ranks()) {
    if (rank == board_->mine()) continue;
    const RankState state = board_->state(rank);
    Peer& peer = peers.emplace_back(state);
    // Within another pid namespace (a container a rank) the number means nothing here: only heart beats are left.
    if (state.pid != getpid() && state.pid_namespace == name_space) {
      peer.pidfd = static_cast<int>(syscall(SYS_pidfd_open, state.pid, 0U));
      if (peer.pidfd < 0 && errno == ESRCH && !board_->state(rank).finished && !reported) {
        report(LossKind::died, state, {});
      }
    }
  }

  for (Nanoseconds last = now();;) {
    board_->beat();
    std::vector<pollfd> polled{{wake_, POLLIN, 0}};
    for (const Peer& peer : peers) polled.push_back({peer.gone ? -1 : peer.pidfd, POLLIN, 0});
    const auto tick = static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(kTick).count());
    if (poll(polled.data(), polled.size(), tick) < 0) polled.assign(polled.size(), {-1, 0, 0});  // EINTR: a mere tick
    if (polled[0].revents) return;

    const Nanoseconds time = now();
    const Nanoseconds elapsed = time - std::exchange(last, time);
    const Nanoseconds limit{limit_ns_.load(std::memory_order_relaxed)};
    for (std::size_t i = 0; i < peers.size() && !reported; ++i) {
      Peer& peer = peers[i];
      if (peer.gone) continue;
      const RankState state = board_->state(peer.rank);
      if (state.finished) {
        peer.gone = true;
        continue;
      }
      if (polled[i + 1].revents) {
        report(LossKind::died, state, {});
        break;
      }
      peer.look(state, elapsed > kOwnGap ? Nanoseconds{} : elapsed);
      if (peer.silent + kTick > (limit.count() > 0 ? limit : kFirstLimit)) {
        report(LossKind::hung, state, peer.silent);
      } else if (limit.count() > 0 && peer.idle > limit) {
        report(LossKind::hung, state, peer.idle);
      }
    }
  }
}

}  // namespace pipefill
