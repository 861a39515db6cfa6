#include "comm/transfer_time.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/contract.hpp"

namespace pipefill {
namespace {

constexpr int kWarmUps = 2;

/// Ping-pong of one pair; the lower rank leads, measures and tells the other.
class Pair {
 public:
  Pair(Transport& transport, Waiter& waiter, RankId peer) : transport_(transport), waiter_(waiter), peer_(peer) {}

  TransferTime measure(const std::vector<Bytes>& sizes, int repeats) {
    const bool leads = transport_.rank() < peer_;
    std::vector<std::int64_t> times;
    for (const Bytes size : sizes) {
      std::vector<std::byte> buffer(static_cast<std::size_t>(size.count));
      std::vector<std::int64_t> round_trips;
      for (int i = 0; i < kWarmUps + repeats; ++i) {
        const Nanoseconds start = now();
        if (leads) {
          send(buffer);
          receive(buffer);
        } else {
          receive(buffer);
          send(buffer);
        }
        if (i >= kWarmUps) round_trips.push_back((now() - start).count());
      }
      const auto middle = round_trips.begin() + std::ssize(round_trips) / 2;
      std::ranges::nth_element(round_trips, middle);
      times.push_back(*middle / 2);
    }
    const auto bytes = std::as_writable_bytes(std::span(times));
    leads ? send(bytes) : receive(bytes);

    std::vector<TransferTime::Point> points;
    for (std::size_t i = 0; i < sizes.size(); ++i) points.push_back({sizes[i], Nanoseconds{times[i]}});
    return TransferTime(std::move(points));
  }

 private:
  void send(std::span<const std::byte> bytes) {
    Request request = transport_.send(peer_, kTag, bytes);
    waiter_.wait(transport_, request, {WaitKind::send, peer_, kTag, 0}, *pause_);
  }
  void receive(std::span<std::byte> bytes) {
    Request request = transport_.receive(peer_, kTag, bytes);
    waiter_.wait(transport_, request, {WaitKind::receive, peer_, kTag, 0}, *pause_);
  }

  static constexpr Tag kTag{Channel::probe, 1, {0}};
  Transport& transport_;
  Waiter& waiter_;
  RankId peer_;
  std::unique_ptr<Pause> pause_ = make_pause(WaitMethod::yield);
};

}  // namespace

TransferTime::TransferTime(std::vector<Point> points) : points_(std::move(points)) {
  std::ranges::sort(points_, {}, &Point::size);
  for (std::size_t i = 1; i < points_.size(); ++i) points_[i].time = std::max(points_[i].time, points_[i - 1].time);
}

Nanoseconds TransferTime::operator()(Bytes size) const {
  if (points_.empty()) return {};
  if (points_.size() == 1 || size <= points_.front().size) return points_.front().time;
  auto upper = std::ranges::lower_bound(points_, size, {}, &Point::size);
  if (upper == points_.end()) --upper;
  const Point& a = *std::prev(upper);
  const Point& b = *upper;
  if (a.size == b.size) return b.time;
  const double share = static_cast<double>((size - a.size).count) / static_cast<double>((b.size - a.size).count);
  return a.time + Nanoseconds{static_cast<std::int64_t>(share * static_cast<double>((b.time - a.time).count()))};
}

std::vector<TransferTime> measure_transfer_times(Transport& transport, Waiter& waiter, ProcessLayout layout,
                                                 const std::vector<Bytes>& sizes, int repeats) {
  PF_EXPECT(layout.ranks() == transport.size() && repeats > 0);
  std::vector<TransferTime> result(static_cast<std::size_t>(transport.size()));
  const int stages = layout.stages;
  const int stage = layout.stage_of(transport.rank()).value;
  const ReplicaId replica = layout.replica_of(transport.rank());
  const auto measure = [&](int other) {
    const RankId peer = layout.rank_of({other}, replica);
    result[static_cast<std::size_t>(peer.value)] = Pair(transport, waiter, peer).measure(sizes, repeats);
  };
  for (const int parity : {0, 1}) {
    const int other = stage % 2 == parity ? stage + 1 : stage - 1;
    if (other >= 0 && other < stages) measure(other);
  }
  if (stages > 2 && stage == 0) measure(stages - 1);
  if (stages > 2 && stage == stages - 1) measure(0);
  return result;
}

}  // namespace pipefill
