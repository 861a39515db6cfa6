#include "comm/loopback_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "base/clock.hpp"
#include "base/contract.hpp"
#include "base/error.hpp"

namespace pipefill {
namespace {

struct Sent {
  std::span<const std::byte> data;
  std::vector<std::byte> copy;  ///< buffered mode
  Nanoseconds visible_at{};
  bool done = false;
  bool withdrawn = false;
};

struct Posted {
  std::span<std::byte> into;
  bool done = false;
  bool withdrawn = false;
  std::string error;
};

/// All messages of one (sender, receiver, tag), in order, and the receives that wait for them.
struct Lane {
  std::deque<std::shared_ptr<Sent>> sent;
  std::deque<std::shared_ptr<Posted>> posted;
};

void take(Sent& sent, Posted& posted) {
  if (sent.data.size() != posted.into.size()) {
    posted.error = fmt::format(
        "a message of {} bytes came where {} were expected: sender and receiver run different "
        "programs",
        sent.data.size(), posted.into.size());
  } else if (!sent.data.empty()) {
    std::memcpy(posted.into.data(), sent.data.data(), sent.data.size());
  }
  sent.done = posted.done = true;
}

void match(Lane& lane) {
  for (;;) {
    while (!lane.sent.empty() && lane.sent.front()->withdrawn) lane.sent.pop_front();
    while (!lane.posted.empty() && lane.posted.front()->withdrawn) lane.posted.pop_front();
    if (lane.sent.empty() || lane.posted.empty() || lane.sent.front()->visible_at > now()) return;
    take(*lane.sent.front(), *lane.posted.front());
    lane.sent.pop_front();
    lane.posted.pop_front();
  }
}

/// One collective call: what each rank brought.
struct Gathering {
  std::vector<std::vector<std::byte>> parts;
  int arrived = 0;
  int taken = 0;
};

}  // namespace

struct LoopbackHub::State {
  using LaneKey = std::tuple<RankId, RankId, Tag>;

  mutable std::mutex mutex;
  int size = 0;
  LoopbackOptions options;
  int abort_code = 0;
  std::map<LaneKey, Lane> lanes;
  std::map<std::int64_t, Gathering> gatherings;  ///< by the number of the call
};

namespace {

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(std::shared_ptr<LoopbackHub::State> hub, RankId rank) : hub_(std::move(hub)), rank_(rank) {}

  ~LoopbackTransport() override {
    const std::lock_guard lock(hub_->mutex);
    for (Operation& operation : operations_) operation.withdraw();
  }

  RankId rank() const override { return rank_; }
  int size() const override { return hub_->size; }

  Request send(RankId to, Tag tag, std::span<const std::byte> message) override {
    PF_EXPECT(to.value >= 0 && to.value < hub_->size);
    const std::lock_guard lock(hub_->mutex);
    auto sent = std::make_shared<Sent>();
    sent->data = message;
    const LoopbackFault fault = hub_->options.fault ? hub_->options.fault(rank_, to, tag) : LoopbackFault{};
    if (fault.delay.count() > 0) sent->visible_at = now() + fault.delay;
    if (hub_->options.send == SendMode::buffered) {
      sent->copy.assign(message.begin(), message.end());
      sent->data = sent->copy;
      sent->done = true;  // for the sender; the receiver's copy is still to come
    }
    Lane& lane = hub_->lanes[{rank_, to, tag}];
    if (!fault.drop) {
      lane.sent.push_back(sent);
      match(lane);
    }
    return add({&lane, sent, nullptr, -1, {}});
  }

  Request receive(RankId from, Tag tag, std::span<std::byte> message) override {
    PF_EXPECT(from.value >= 0 && from.value < hub_->size);
    const std::lock_guard lock(hub_->mutex);
    auto posted = std::make_shared<Posted>();
    posted->into = message;
    Lane& lane = hub_->lanes[{from, rank_, tag}];
    lane.posted.push_back(posted);
    match(lane);
    return add({&lane, nullptr, posted, -1, {}});
  }

  bool test(Request& request) override {
    PF_EXPECT(request.pending());
    const std::lock_guard lock(hub_->mutex);
    throw_if_aborted();
    Operation& operation = operations_[static_cast<std::size_t>(request.handle)];
    if (operation.lane) match(*operation.lane);
    if (!finish(operation)) return false;
    const std::string error = operation.posted ? operation.posted->error : "";
    release(request);
    if (!error.empty()) throw TransportError(error);
    return true;
  }

  void progress() override {
    const std::lock_guard lock(hub_->mutex);
    throw_if_aborted();
    for (Operation& operation : operations_) {
      if (operation.lane) match(*operation.lane);
    }
  }

  bool abandon(Request& request) noexcept override {
    const std::lock_guard lock(hub_->mutex);
    operations_[static_cast<std::size_t>(request.handle)].withdraw();
    release(request);
    return true;
  }

  Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                     std::vector<std::int64_t> counts) override {
    return collect(mine, [all, counts = std::move(counts)](const Gathering& gathering) {
      std::size_t at = 0;
      for (std::size_t r = 0; r < gathering.parts.size(); ++r) {
        const auto& part = gathering.parts[r];
        if (static_cast<std::int64_t>(part.size()) != counts[r] || at + part.size() > all.size()) {
          throw TransportError(
              fmt::format("rank {} gave {} bytes to an all-gather where {} were expected", r, part.size(), counts[r]));
        }
        std::copy(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(at));
        at += part.size();
      }
    });
  }

  Request all_reduce_max(std::int64_t value, std::int64_t& result) override {
    return collect(std::as_bytes(std::span(&value, 1)), [&result](const Gathering& gathering) {
      for (std::size_t r = 0; r < gathering.parts.size(); ++r) {
        std::int64_t other = 0;
        std::memcpy(&other, gathering.parts[r].data(), sizeof other);
        result = r == 0 ? other : std::max(result, other);
      }
    });
  }

  void abort(int exit_code) override {
    const std::lock_guard lock(hub_->mutex);
    if (hub_->abort_code == 0) hub_->abort_code = exit_code;
  }

 private:
  struct Operation {
    Lane* lane = nullptr;  ///< std::map never moves its nodes
    std::shared_ptr<Sent> sent;
    std::shared_ptr<Posted> posted;
    std::int64_t call = -1;  ///< collectives
    std::function<void(const Gathering&)> unpack;

    void withdraw() {
      // A buffered message is under way and arrives; one without a copy must not be read any more.
      if (sent && sent->copy.empty()) sent->withdrawn = true;
      if (posted) posted->withdrawn = true;
    }
  };

  Request collect(std::span<const std::byte> mine, std::function<void(const Gathering&)> unpack) {
    const std::lock_guard lock(hub_->mutex);
    Gathering& gathering = hub_->gatherings[calls_];
    gathering.parts.resize(static_cast<std::size_t>(hub_->size));
    gathering.parts[static_cast<std::size_t>(rank_.value)].assign(mine.begin(), mine.end());
    ++gathering.arrived;
    return add({nullptr, nullptr, nullptr, calls_++, std::move(unpack)});
  }

  bool finish(Operation& operation) {
    if (operation.sent) return operation.sent->done;
    if (operation.posted) return operation.posted->done;
    Gathering& gathering = hub_->gatherings.at(operation.call);
    if (gathering.arrived < hub_->size) return false;
    operation.unpack(gathering);
    if (++gathering.taken == hub_->size) hub_->gatherings.erase(operation.call);
    return true;
  }

  Request add(Operation operation) {
    if (free_.empty()) {
      operations_.push_back(std::move(operation));
      return {static_cast<std::int64_t>(operations_.size()) - 1};
    }
    const std::int64_t handle = free_.back();
    free_.pop_back();
    operations_[static_cast<std::size_t>(handle)] = std::move(operation);
    return {handle};
  }

  void release(Request& request) {
    operations_[static_cast<std::size_t>(request.handle)] = {};
    free_.push_back(request.handle);
    request = {};
  }

  void throw_if_aborted() const {
    if (hub_->abort_code != 0) {
      throw TransportError(fmt::format("the run was ended by another rank with exit code {}", hub_->abort_code));
    }
  }

  std::shared_ptr<LoopbackHub::State> hub_;
  RankId rank_;
  std::vector<Operation> operations_;
  std::vector<std::int64_t> free_;
  std::int64_t calls_ = 0;
};

}  // namespace

LoopbackHub::LoopbackHub(int size, LoopbackOptions options) : state_(std::make_shared<State>()) {
  state_->size = size;
  state_->options = std::move(options);
}

std::unique_ptr<Transport> LoopbackHub::endpoint(RankId rank) {
  return std::make_unique<LoopbackTransport>(state_, rank);
}

void LoopbackHub::abort(int exit_code) {
  const std::lock_guard lock(state_->mutex);
  if (state_->abort_code == 0) state_->abort_code = exit_code;
}

int LoopbackHub::abort_code() const {
  const std::lock_guard lock(state_->mutex);
  return state_->abort_code;
}

void run_loopback(int size, const std::function<void(Transport&)>& body, LoopbackOptions options) {
  LoopbackHub hub(size, std::move(options));
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      const auto transport = hub.endpoint({r});
      try {
        body(*transport);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        hub.abort(static_cast<int>(ExitCode::lost_peer));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace pipefill
