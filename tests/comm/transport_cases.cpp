#include "tests/comm/transport_cases.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "base/error.hpp"
#include "comm/clock_offset.hpp"
#include "comm/replica_reduction.hpp"
#include "comm/tied_exchange.hpp"
#include "comm/transfer_time.hpp"
#include "comm/wait.hpp"
#include "tests/comm/transport_tools.hpp"

namespace pipefill {
namespace {

void one_tag_is_first_in_first_out(Transport& t) {
  constexpr int kMessages = 20;
  std::vector<Buffer> outgoing, incoming(kMessages, Buffer(300));
  std::vector<Request> requests;
  for (Buffer& buffer : incoming) requests.push_back(t.receive(previous(t), {Channel::activation, 1, {2}}, buffer));
  for (int i = 0; i < kMessages; ++i) {
    outgoing.push_back(pattern(300, t.rank().value, i));
    requests.push_back(t.send(next(t), {Channel::activation, 1, {2}}, outgoing.back()));
  }
  for (Request& request : requests) finish(t, request);
  for (int i = 0; i < kMessages; ++i) {
    EXPECT_EQ(incoming[static_cast<std::size_t>(i)], pattern(300, previous(t).value, i)) << "message " << i;
  }
}

void tags_do_not_mix(Transport& t) {
  std::vector<Tag> tags;
  for (const Channel channel : {Channel::activation, Channel::gradient}) {
    for (int item = 0; item < 2; ++item) {
      for (int microbatch = 0; microbatch < 3; ++microbatch) tags.push_back({channel, item, {microbatch}});
    }
  }
  std::vector<Buffer> outgoing(tags.size()), incoming(tags.size(), Buffer(64));
  std::vector<Request> requests;
  for (std::size_t i = tags.size(); i-- > 0;) {  // sent in the opposite order of the receives
    outgoing[i] = pattern(64, t.rank().value, static_cast<int>(i));
    requests.push_back(t.send(next(t), tags[i], outgoing[i]));
  }
  for (std::size_t i = 0; i < tags.size(); ++i) requests.push_back(t.receive(previous(t), tags[i], incoming[i]));
  for (Request& request : requests) finish(t, request);
  for (std::size_t i = 0; i < tags.size(); ++i) {
    EXPECT_EQ(incoming[i], pattern(64, previous(t).value, static_cast<int>(i))) << "tag " << i;
  }
}

// BUGS A15: neighbours that send to each other before either receives, far above any eager limit.
void criss_cross_sends_end(Transport& t) {
  constexpr std::size_t kSize = 4 << 20;
  const Buffer outgoing = pattern(kSize, t.rank().value, 0);
  Buffer from_next(kSize), from_previous(kSize);
  std::vector<Request> requests;
  requests.push_back(t.send(next(t), {Channel::activation, 0, {0}}, outgoing));
  requests.push_back(t.send(previous(t), {Channel::gradient, 0, {0}}, outgoing));
  requests.push_back(t.receive(next(t), {Channel::gradient, 0, {0}}, from_next));
  requests.push_back(t.receive(previous(t), {Channel::activation, 0, {0}}, from_previous));
  for (Request& request : requests) finish(t, request);
  EXPECT_EQ(from_next, pattern(kSize, next(t).value, 0));
  EXPECT_EQ(from_previous, pattern(kSize, previous(t).value, 0));
}

// BUGS A17: sizes around a part limit of 1000 (which the MPI run sets), back to back on one tag.
void sizes_around_the_part_limit(Transport& t) {
  const std::vector<std::size_t> sizes{0, 1, 999, 1000, 1001, 2000, 2500};
  std::vector<Buffer> outgoing, incoming;
  std::vector<Request> requests;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    outgoing.push_back(pattern(sizes[i], t.rank().value, static_cast<int>(i)));
    incoming.emplace_back(sizes[i]);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    requests.push_back(t.send(next(t), {Channel::gradient, 0, {0}}, outgoing[i]));
    requests.push_back(t.receive(previous(t), {Channel::gradient, 0, {0}}, incoming[i]));
  }
  for (Request& request : requests) finish(t, request);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(incoming[i], pattern(sizes[i], previous(t).value, static_cast<int>(i))) << sizes[i] << " bytes";
  }
}

void wrong_sizes_are_errors(Transport& t) {
  // (sent, expected): shorter and longer, in the first part and beyond it, and a whole number of parts.
  const std::vector<std::pair<std::size_t, std::size_t>> cases{
      {10, 20}, {20, 10}, {1000, 2500}, {2500, 1000}, {2000, 999}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Tag tag{Channel::activation, 0, {static_cast<int>(i)}};
    const Buffer outgoing(cases[i].first);
    Buffer incoming(cases[i].second);
    Request receive = t.receive(previous(t), tag, incoming);
    Request send = t.send(next(t), tag, outgoing);
    Waiter waiter = make_waiter(t);
    EXPECT_THROW(waiter.wait(t, receive, {WaitKind::receive, previous(t), tag, 0}), TransportError)
        << cases[i].first << " bytes into " << cases[i].second;
    meet(t);  // nobody gives a send up that is still wanted
    (void)t.abandon(send);
  }
}

void all_gather_of_uneven_parts(Transport& t) {
  std::vector<std::int64_t> counts;
  std::int64_t total = 0;
  for (int r = 0; r < t.size(); ++r) {
    counts.push_back(r == 1 ? 0 : 100 * (r + 1) + r);
    total += counts.back();
  }
  const auto mine = static_cast<std::size_t>(t.rank().value);
  for (int round = 0; round < 3; ++round) {
    const Buffer part = pattern(static_cast<std::size_t>(counts[mine]), t.rank().value, round);
    Buffer all(static_cast<std::size_t>(total));
    finish(t, t.all_gather(part, all, counts), WaitKind::collective);
    Buffer expected;
    for (int r = 0; r < t.size(); ++r) {
      const Buffer other = pattern(static_cast<std::size_t>(counts[static_cast<std::size_t>(r)]), r, round);
      expected.insert(expected.end(), other.begin(), other.end());
    }
    EXPECT_EQ(all, expected);
  }
}

// Until it is tested a collective writes nothing: its caller's memory may be gone by then, when an error unwinds.
void collectives_under_way_together(Transport& t) {
  std::int64_t first = -7, second = -7;
  const std::int64_t mine = t.rank().value;
  std::vector<std::int64_t> all(static_cast<std::size_t>(t.size()), -7);
  Request a = t.all_reduce_max(-mine, first);
  Request b = t.all_reduce_max((std::int64_t{1} << 40) + mine, second);
  Request c = t.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                           std::vector<std::int64_t>(all.size(), sizeof mine));
  meet(t);  // everybody has started all three
  for (int i = 0; i < 10'000; ++i) t.progress();
  EXPECT_EQ(std::min({first, second, all.front(), all.back()}), -7);
  EXPECT_EQ(std::max({first, second, all.front(), all.back()}), -7);
  finish(t, c, WaitKind::collective);
  finish(t, b, WaitKind::collective);
  finish(t, a, WaitKind::collective);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, (std::int64_t{1} << 40) + t.size() - 1);
  EXPECT_EQ(all.back(), t.size() - 1);
}

// BUGS A20: a stop that one rank alone notices, at any time, stops all ranks after the same step.
void one_ranks_stop_is_agreed(Transport& t) {
  std::mt19937 random(static_cast<unsigned>(t.rank().value));
  for (int trial = 0; trial < 4; ++trial) {
    const int whose = trial % t.size();
    std::int64_t stop = 0;
    int step = 0;
    while (stop == 0 && step < 50) {
      ++step;
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
      const std::int64_t flag = t.rank().value == whose && step >= 3 + trial ? 1 : 0;
      finish(t, t.all_reduce_max(flag, stop), WaitKind::collective);
    }
    EXPECT_EQ(step, 3 + trial);
  }
}

void an_abandoned_receive_takes_no_later_message(Transport& t) {
  const Tag tag{Channel::gradient, 3, {1}};
  Buffer never(128, std::byte{0x55});
  Request request = t.receive(previous(t), tag, never);
  EXPECT_FALSE(t.test(request));
  EXPECT_TRUE(t.abandon(request));
  EXPECT_FALSE(request.pending());
  meet(t);
  const Buffer outgoing = pattern(128, t.rank().value, 9);
  Buffer incoming(128);
  Request send = t.send(next(t), tag, outgoing);
  finish(t, t.receive(previous(t), tag, incoming));
  finish(t, send, WaitKind::send);
  EXPECT_EQ(incoming, pattern(128, previous(t).value, 9));
  EXPECT_EQ(never, Buffer(128, std::byte{0x55}));
}

void a_deadline_names_who_waits_for_what(Transport& t) {
  const Tag tag{Channel::activation, 2, {5}};
  Buffer incoming(64);
  Request request = t.receive(previous(t), tag, incoming);
  Waiter waiter = make_waiter(t, std::chrono::milliseconds(30));
  try {
    waiter.wait(t, request, {WaitKind::receive, previous(t), tag, 17});
    ADD_FAILURE() << "a message that nobody sent arrived";
  } catch (const TransportError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(fmt::format("rank {} (stage {})", t.rank().value, t.rank().value)), text.npos) << text;
    EXPECT_NE(text.find(fmt::format("the activation of microbatch 5 for chunk 2 from rank {}", previous(t).value)),
              text.npos)
        << text;
    EXPECT_NE(text.find("step 17"), text.npos) << text;
  }
  EXPECT_TRUE(t.abandon(request));
  meet(t);
}

/// Replica r's gradient: values whose sum depends on the order of the additions.
float gradient(int replica, int tensor, std::int64_t i, int step) {
  std::mt19937 random(static_cast<unsigned>(replica * 7919 + tensor * 104729 + step * 15485863 + static_cast<int>(i)));
  return std::ldexp(static_cast<float>(random() % 2000) - 1000.0F, static_cast<int>(random() % 24) - 12);
}

struct ReplicaData {
  std::vector<std::vector<float>> tensors;
  TensorList spans() {
    TensorList list;
    for (auto& tensor : tensors) list.emplace_back(tensor);
    return list;
  }
};

const std::vector<std::int64_t> kTensorSizes{1000, 17, 1};

ReplicaData gradients(int replica, int step) {
  ReplicaData data;
  for (std::size_t k = 0; k < kTensorSizes.size(); ++k) {
    data.tensors.emplace_back();
    for (std::int64_t i = 0; i < kTensorSizes[k]; ++i) {
      data.tensors.back().push_back(gradient(replica, static_cast<int>(k), i, step));
    }
  }
  return data;
}

/// Uneven on purpose: rank 1 owns nothing, the last owns a middle piece of tensor 0 and all of tensor 1.
ReplicaGroup uneven_group(const Transport& t) {
  ReplicaGroup group;
  for (int r = 0; r < t.size(); ++r) group.ranks.push_back({r});
  group.mine = {t.rank().value};
  group.owned.resize(static_cast<std::size_t>(t.size()));
  const std::size_t last = static_cast<std::size_t>(t.size()) - 1;
  group.owned[0] = {{0, 0, 100}, {2, 0, 1}};
  if (last > 1) group.owned[1] = {};
  group.owned[last].push_back({0, 100, 550});
  group.owned[last].push_back({1, 0, 17});
  group.owned[last > 2 ? 2 : 0].push_back({0, 650, 350});
  return group;
}

bool owns(const ReplicaGroup& group, std::size_t tensor, std::int64_t i) {
  const SliceList& mine = group.owned[static_cast<std::size_t>(group.mine.value)];
  return std::ranges::any_of(
      mine, [&](const Slice& s) { return s.tensor == tensor && i >= s.first && i < s.first + s.count; });
}

void replica_sums(Transport& t, SumDelivery delivery) {
  const ReplicaGroup group = uneven_group(t);
  ReplicaReduction reduction(t, group, delivery, 4);
  Waiter waiter = make_waiter(t);
  std::mt19937 random(static_cast<unsigned>(t.rank().value) + 100);
  bool order_matters = false;
  for (int step = 1; step <= 5; ++step) {
    ReplicaData mine = gradients(t.rank().value, step);
    const ReplicaData before = mine;
    reduction.post(step);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));  // any order of arrival
    reduction.start(mine.spans(), step);
    waiter.wait_until([&] { return reduction.test(); },
                      {WaitKind::reduction, {-1}, {Channel::replica_gradient, 4, {0}}, step});
    for (std::size_t k = 0; k < kTensorSizes.size(); ++k) {
      for (std::int64_t i = 0; i < kTensorSizes[k]; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (delivery == SumDelivery::keep && !owns(group, k, i)) {
          ASSERT_EQ(mine.tensors[k][at], before.tensors[k][at]) << "not mine, must be untouched";
          continue;
        }
        float forward = gradient(0, static_cast<int>(k), i, step);
        for (int r = 1; r < t.size(); ++r) forward += gradient(r, static_cast<int>(k), i, step);
        float backward = gradient(t.size() - 1, static_cast<int>(k), i, step);
        for (int r = t.size() - 2; r >= 0; --r) backward += gradient(r, static_cast<int>(k), i, step);
        order_matters = order_matters || forward != backward;
        ASSERT_EQ(mine.tensors[k][at], forward) << "tensor " << k << " element " << i << " step " << step;
      }
    }
  }
  EXPECT_TRUE(order_matters || t.size() == 2 || delivery == SumDelivery::keep) << "these values test nothing";
}

void replica_sums_are_in_replica_order(Transport& t) { replica_sums(t, SumDelivery::broadcast); }
void replica_sums_stay_with_their_owner(Transport& t) { replica_sums(t, SumDelivery::keep); }

void updated_slices_reach_everybody(Transport& t) {
  SliceBroadcast broadcast(t, uneven_group(t), Channel::replica_parameter, 1);
  Waiter waiter = make_waiter(t);
  const ReplicaGroup group = uneven_group(t);
  for (int step = 1; step <= 3; ++step) {
    ReplicaData mine = gradients(t.rank().value, step);
    broadcast.start(mine.spans(), step);
    waiter.wait_until([&] { return broadcast.test(); },
                      {WaitKind::reduction, {-1}, {Channel::replica_parameter, 1, {0}}, step});
    for (int r = 0; r < t.size(); ++r) {
      for (const Slice& slice : group.owned[static_cast<std::size_t>(r)]) {
        for (std::int64_t i = slice.first; i < slice.first + slice.count; ++i) {
          ASSERT_EQ(mine.tensors[slice.tensor][static_cast<std::size_t>(i)],
                    gradient(r, static_cast<int>(slice.tensor), i, step));
        }
      }
    }
  }
}

void tied_accumulators_are_swapped(Transport& t) {
  const RankId first{0}, last{t.size() - 1};
  if (t.rank() != first && t.rank() != last) return;
  const TiedRole role = t.rank() == first ? TiedRole::lookup : TiedRole::head;
  TiedExchange exchange(t, t.rank() == first ? last : first, role, 500);
  Waiter waiter = make_waiter(t);
  for (int step = 1; step <= 3; ++step) {
    std::vector<float> accumulator(500);
    for (std::int64_t i = 0; i < 500; ++i) {
      accumulator[static_cast<std::size_t>(i)] = gradient(role == TiedRole::lookup ? 0 : 1, 0, i, step);
    }
    exchange.start(accumulator, step);
    waiter.wait_until([&] { return exchange.test(); },
                      {WaitKind::reduction, {-1}, {Channel::tied_gradient, 0, {0}}, step});
    for (std::int64_t i = 0; i < 500; ++i) {
      ASSERT_EQ(accumulator[static_cast<std::size_t>(i)], gradient(0, 0, i, step) + gradient(1, 0, i, step));
    }
  }
}

// All ranks share one clock here, so a measured offset must contain zero; claimed domains make it measure.
void measured_clock_offsets_hold_their_uncertainty(Transport& t) {
  std::vector<std::string> domains;
  for (int r = 0; r < t.size(); ++r) domains.push_back(r == 1 ? "elsewhere" : "here");
  Waiter waiter = make_waiter(t);
  const std::vector<ClockReading> readings = measure_clock_offsets(t, waiter, domains);
  ASSERT_EQ(std::ssize(readings), t.size());
  for (int r = 0; r < t.size(); ++r) {
    const ClockReading& reading = readings[static_cast<std::size_t>(r)];
    if (r == 1) {
      EXPECT_GT(reading.uncertainty.count(), 0);
      EXPECT_LE(std::abs(reading.offset.count()), reading.uncertainty.count());
    } else {
      EXPECT_EQ(reading.offset.count(), 0);
      EXPECT_EQ(reading.uncertainty.count(), 0);
    }
  }
}

void transfer_times_grow_with_size(Transport& t) {
  Waiter waiter = make_waiter(t);
  const std::vector<Bytes> sizes{{64}, {64 << 10}, {1 << 20}};
  const auto times = measure_transfer_times(t, waiter, pipeline(t), sizes, 5);
  ASSERT_EQ(std::ssize(times), t.size());
  for (int r = 0; r < t.size(); ++r) {
    const int distance = std::abs(r - t.rank().value);
    const bool neighbour = distance == 1 || (t.size() > 2 && distance == t.size() - 1);
    const TransferTime& time = times[static_cast<std::size_t>(r)];
    ASSERT_EQ(time.points().size(), neighbour ? 3U : 0U) << "rank " << r;
    if (!neighbour) continue;
    EXPECT_GT(time(Bytes{64}).count(), 0);
    EXPECT_LE(time(Bytes{64}), time(Bytes{1 << 20}));
  }
  // Both sides of a pair know the same times.
  std::int64_t mine = times[static_cast<std::size_t>(next(t).value)](Bytes{1 << 20}).count();
  std::int64_t theirs = 0;
  Request send = t.send(next(t), {Channel::activation, 0, {0}}, std::as_bytes(std::span(&mine, 1)));
  finish(t, t.receive(previous(t), {Channel::activation, 0, {0}}, std::as_writable_bytes(std::span(&theirs, 1))));
  finish(t, send, WaitKind::send);
  EXPECT_EQ(theirs, times[static_cast<std::size_t>(previous(t).value)](Bytes{1 << 20}).count());
}

constexpr TransportCase kCases[] = {
    {"OneTagIsFirstInFirstOut", one_tag_is_first_in_first_out},
    {"TagsDoNotMix", tags_do_not_mix},
    {"CrissCrossSendsEnd", criss_cross_sends_end},
    {"SizesAroundThePartLimit", sizes_around_the_part_limit},
    {"WrongSizesAreErrors", wrong_sizes_are_errors},
    {"AllGatherOfUnevenParts", all_gather_of_uneven_parts},
    {"CollectivesUnderWayTogether", collectives_under_way_together},
    {"OneRanksStopIsAgreed", one_ranks_stop_is_agreed},
    {"AnAbandonedReceiveTakesNoLaterMessage", an_abandoned_receive_takes_no_later_message},
    {"ADeadlineNamesWhoWaitsForWhat", a_deadline_names_who_waits_for_what},
    {"ReplicaSumsAreInReplicaOrder", replica_sums_are_in_replica_order},
    {"ReplicaSumsStayWithTheirOwner", replica_sums_stay_with_their_owner},
    {"UpdatedSlicesReachEverybody", updated_slices_reach_everybody},
    {"TiedAccumulatorsAreSwapped", tied_accumulators_are_swapped},
    {"MeasuredClockOffsetsHoldTheirUncertainty", measured_clock_offsets_hold_their_uncertainty},
    {"TransferTimesGrowWithSize", transfer_times_grow_with_size},
};

}  // namespace

std::span<const TransportCase> transport_cases() { return kCases; }

}  // namespace pipefill
