#include "comm/activity.hpp"

#include <fmt/format.h>

namespace pipefill {
namespace {

constexpr std::uint64_t field(int value) { return static_cast<std::uint16_t>(value); }
constexpr int number(std::uint64_t word, int shift) { return static_cast<std::int16_t>(word >> shift); }

const char* name(ActivityKind kind) {
  switch (kind) {
    case ActivityKind::starting:
      return "start-up";
    case ActivityKind::forward:
      return "forward";
    case ActivityKind::backward:
      return "backward";
    case ActivityKind::backward_input:
      return "input part of backward";
    case ActivityKind::backward_weight:
      return "weight part of backward";
    case ActivityKind::optimizer:
      return "optimizer";
    case ActivityKind::bubble:
      return "bubble";
    case ActivityKind::data:
      return "fetching data";
    case ActivityKind::validation:
      return "validation";
    case ActivityKind::checkpoint:
      return "checkpoint";
    case ActivityKind::finishing:
      return "finishing";
  }
  return "?";
}

/// "the activation of microbatch 3 for chunk 2"
std::string describe(Tag tag) {
  switch (tag.channel) {
    case Channel::activation:
      return fmt::format("the activation of microbatch {} for chunk {}", tag.microbatch.value, tag.item);
    case Channel::gradient:
      return fmt::format("the gradient of microbatch {} for chunk {}", tag.microbatch.value, tag.item);
    case Channel::replica_gradient:
      return fmt::format("the replica's gradients of chunk {}", tag.item);
    case Channel::replica_parameter:
      return fmt::format("the replica's parameters of chunk {}", tag.item);
    case Channel::tied_gradient:
      return "the tied embedding's gradient";
    case Channel::probe:
      return "a timing probe";
  }
  return "?";
}

}  // namespace

bool may_take_long(ActivityKind kind) {
  return kind == ActivityKind::starting || kind == ActivityKind::data || kind == ActivityKind::validation ||
         kind == ActivityKind::checkpoint || kind == ActivityKind::finishing;
}

std::uint64_t pack(const Activity& a) {
  return static_cast<std::uint64_t>(a.kind) | static_cast<std::uint64_t>(a.purpose) << 8 | field(a.chunk) << 16 |
         field(a.microbatch) << 32;
}

Activity unpack_activity(std::uint64_t word) {
  return {static_cast<ActivityKind>(word & 0xff), number(word, 16), number(word, 32),
          static_cast<Purpose>(word >> 8 & 0xff)};
}

std::uint64_t pack(const WaitSubject& s) {
  return static_cast<std::uint64_t>(s.kind) | static_cast<std::uint64_t>(s.tag.channel) << 8 |
         field(s.peer.value) << 16 | field(s.tag.item) << 32 | field(s.tag.microbatch.value) << 48;
}

WaitSubject unpack_wait(std::uint64_t word) {
  return {static_cast<WaitKind>(word & 0xff),
          {number(word, 16)},
          {static_cast<Channel>(word >> 8 & 0xff), number(word, 32), {number(word, 48)}},
          0};
}

std::string describe(const Activity& a) {
  std::string text = a.purpose == Purpose::validation ? "validation, " : "";
  text += name(a.kind);
  if (a.microbatch >= 0) text += fmt::format(" of microbatch {}", a.microbatch);
  if (a.chunk >= 0) text += fmt::format(" in chunk {}", a.chunk);
  return text;
}

std::string describe(RankId rank, ProcessLayout layout) {
  if (rank.value < 0) return "all ranks";
  std::string text = fmt::format("rank {} (stage {}", rank.value, layout.stage_of(rank).value);
  if (layout.replicas > 1) text += fmt::format(", replica {}", layout.replica_of(rank).value);
  return text + ")";
}

std::string describe(const WaitSubject& s, ProcessLayout layout) {
  switch (s.kind) {
    case WaitKind::none:
      return "nothing";
    case WaitKind::receive:
      return fmt::format("{} from {}", describe(s.tag), describe(s.peer, layout));
    case WaitKind::send:
      if (s.peer.value < 0) return "its last messages to be taken";
      return fmt::format("{} to be taken by {}", describe(s.tag), describe(s.peer, layout));
    case WaitKind::collective:
      return "a collective of all ranks";
    case WaitKind::reduction:
      return "the sums over the replicas";
  }
  return "?";
}

}  // namespace pipefill
