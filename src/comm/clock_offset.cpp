#include "comm/clock_offset.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/contract.hpp"

namespace pipefill {
namespace {

constexpr int kRounds = 40;
constexpr Tag kTag{Channel::probe, 0, {0}};

/// One 8-byte message each way; waits by yielding, since a sleep would swamp what is measured.
class Exchange {
 public:
  Exchange(Transport& transport, Waiter& waiter, RankId peer) : transport_(transport), waiter_(waiter), peer_(peer) {}

  void send(Nanoseconds stamp) {
    outgoing_ = stamp.count();
    Request request = transport_.send(peer_, kTag, std::as_bytes(std::span(&outgoing_, 1)));
    waiter_.wait(transport_, request, {WaitKind::send, peer_, kTag, 0}, *pause_);
  }
  Nanoseconds receive() {
    Request request = transport_.receive(peer_, kTag, std::as_writable_bytes(std::span(&incoming_, 1)));
    waiter_.wait(transport_, request, {WaitKind::receive, peer_, kTag, 0}, *pause_);
    return Nanoseconds{incoming_};
  }

 private:
  Transport& transport_;
  Waiter& waiter_;
  RankId peer_;
  std::unique_ptr<Pause> pause_ = make_pause(WaitMethod::yield);
  std::int64_t outgoing_ = 0, incoming_ = 0;
};

}  // namespace

ClockReading best_reading(const std::vector<ClockRound>& rounds) {
  PF_EXPECT(!rounds.empty());
  const ClockRound& best =
      *std::ranges::min_element(rounds, {}, [](const ClockRound& r) { return r.received - r.sent; });
  const Nanoseconds half = (best.received - best.sent) / 2;
  const Nanoseconds middle = best.sent + half;
  return {best.remote - middle, half, middle};
}

std::vector<ClockReading> measure_clock_offsets(Transport& transport, Waiter& waiter,
                                                const std::vector<std::string>& clock_domains) {
  PF_EXPECT(std::ssize(clock_domains) == transport.size());
  const int mine = transport.rank().value;
  ClockReading reading{{}, {}, now()};
  for (int r = 1; r < transport.size(); ++r) {
    if (clock_domains[static_cast<std::size_t>(r)] == clock_domains[0]) continue;
    if (mine == 0) {
      Exchange exchange(transport, waiter, {r});
      for (int i = 0; i < kRounds; ++i) {
        (void)exchange.receive();
        exchange.send(now());
      }
    } else if (mine == r) {
      Exchange exchange(transport, waiter, {0});
      std::vector<ClockRound> rounds;
      for (int i = 0; i < kRounds; ++i) {
        const Nanoseconds sent = now();
        exchange.send(sent);
        const Nanoseconds remote = exchange.receive();
        rounds.push_back({sent, remote, now()});
      }
      reading = best_reading(rounds);
    }
  }

  const auto ranks = static_cast<std::size_t>(transport.size());
  std::vector<ClockReading> readings(ranks);
  Request request =
      transport.all_gather(std::as_bytes(std::span(&reading, 1)), std::as_writable_bytes(std::span(readings)),
                           std::vector<std::int64_t>(ranks, sizeof(ClockReading)));
  waiter.wait(transport, request, {WaitKind::collective, {-1}, kTag, 0});
  return readings;
}

Nanoseconds ClockModel::convert(Nanoseconds time, RankId from, RankId to) const {
  return time + offset(from) - offset(to);
}

Nanoseconds ClockModel::offset(RankId rank) const {
  const auto r = static_cast<std::size_t>(rank.value);
  return r < readings_.size() ? readings_[r].offset : Nanoseconds{0};
}

}  // namespace pipefill
