#include "engine/links.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "comm/activity.hpp"

namespace pipefill {

StageLinks::StageLinks(Transport& transport, ProcessLayout layout, std::int64_t payload_bytes, Doorbells* doorbells)
    : transport_(transport),
      layout_(layout),
      me_(transport.rank()),
      payload_bytes_(payload_bytes),
      doorbells_(doorbells) {}

Message StageLinks::take_message() {
  if (free_.empty()) sends_done();
  if (free_.empty()) return Message(payload_bytes_);
  Message message = std::move(free_.back());
  free_.pop_back();
  return message;
}

void StageLinks::post_receive(Tag tag, StageId from) {
  const RankId sender = layout_.rank_of(from, layout_.replica_of(me_));
  Incoming& in = incoming_.insert_or_assign(tag, Incoming{take_message(), sender}).first->second;
  in.message.receive(transport_, sender, tag, step_);
}

Incoming& StageLinks::incoming(Tag tag) {
  const auto found = incoming_.find(tag);
  if (found == incoming_.end())
    throw ScheduleError(
        fmt::format("stage {} needs an input of chunk {}, microbatch {}, that its program never receives",
                    layout_.stage_of(me_).value, tag.item, tag.microbatch.value));
  return found->second;
}

void StageLinks::release(Tag tag) {
  const auto found = incoming_.find(tag);
  if (doorbells_ != nullptr && found->second.from != me_) doorbells_->answer(me_);
  free_.push_back(std::move(found->second.message));
  incoming_.erase(found);
}

Message& StageLinks::output(Tag tag) { return outputs_.insert_or_assign(tag, take_message()).first->second; }

void StageLinks::send(Tag tag, StageId to) {
  const auto found = outputs_.find(tag);
  if (found == outputs_.end())
    throw ScheduleError(fmt::format("stage {} sends the input of chunk {}, microbatch {}, before computing it",
                                    layout_.stage_of(me_).value, tag.item, tag.microbatch.value));
  Message& message = sending_.emplace_back(std::move(found->second));
  outputs_.erase(found);
  const RankId receiver = layout_.rank_of(to, layout_.replica_of(me_));
  message.send(transport_, receiver, tag, step_);
  if (doorbells_ != nullptr) doorbells_->ring(receiver);
}

void StageLinks::hand_over(Tag tag) {
  const auto found = outputs_.find(tag);
  incoming_.insert_or_assign(tag, Incoming{std::move(found->second), me_});
  outputs_.erase(found);
}

bool StageLinks::sends_done() {
  for (auto message = sending_.begin(); message != sending_.end();) {
    if (!message->test()) {
      ++message;
      continue;
    }
    free_.push_back(std::move(*message));
    message = sending_.erase(message);
  }
  return sending_.empty();
}

}  // namespace pipefill
