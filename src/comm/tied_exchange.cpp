#include "comm/tied_exchange.hpp"

#include <algorithm>

#include "base/contract.hpp"

namespace pipefill {

void add_tied(std::span<const float> lookup, std::span<const float> head, std::span<float> sum) {
  PF_EXPECT(lookup.size() == sum.size() && head.size() == sum.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = lookup[i] + head[i];
}

TiedExchange::TiedExchange(Transport& transport, RankId peer, TiedRole mine, std::int64_t elements)
    : transport_(&transport),
      peer_(peer),
      mine_(mine),
      incoming_(elements * static_cast<std::int64_t>(sizeof(float))),
      outgoing_(elements * static_cast<std::int64_t>(sizeof(float))) {}

void TiedExchange::post(std::int64_t step) {
  PF_EXPECT(!posted_);
  incoming_.receive(*transport_, peer_, kTiedGradient, step);
  posted_ = true;
}

void TiedExchange::start(std::span<float> accumulator, std::int64_t step) {
  PF_EXPECT(!started_ && accumulator.size() == outgoing_.payload<float>().size());
  if (!posted_) post(step);
  accumulator_ = accumulator;
  std::ranges::copy(accumulator, outgoing_.payload<float>().begin());
  outgoing_.send(*transport_, peer_, kTiedGradient, step);
  started_ = true;
  added_ = false;
}

bool TiedExchange::test() {
  if (!started_) return true;
  if (!added_ && incoming_.test()) {
    const std::span<const float> other = incoming_.payload<float>();
    if (mine_ == TiedRole::lookup) {
      add_tied(accumulator_, other, accumulator_);
    } else {
      add_tied(other, accumulator_, accumulator_);
    }
    added_ = true;
  }
  if (!outgoing_.test() || !added_) return false;
  posted_ = started_ = false;
  return true;
}

}  // namespace pipefill
