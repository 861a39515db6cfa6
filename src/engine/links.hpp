// The messages of one stage in one step: posted receives, sends under way, and the buffers of both. All messages have
// one size, so a buffer freed by one serves the next; after the first step nothing is allocated.
#pragma once

#include <list>
#include <map>
#include <vector>

#include "comm/doorbells.hpp"
#include "comm/message.hpp"
#include "comm/process_layout.hpp"
#include "comm/transport.hpp"

namespace pipefill {

/// A chunk's input: an activation, or the gradient of its output. `tag.item` is the chunk that consumes it.
struct Incoming {
  Message message;  ///< test(): the payload is complete
  RankId from;      ///< this rank itself: handed over, nothing to wait for
};

class StageLinks {
 public:
  /// `doorbells`: rung for whoever is sent something; null: nobody listens for them.
  StageLinks(Transport& transport, ProcessLayout layout, std::int64_t payload_bytes, Doorbells* doorbells);

  void begin_step(std::int64_t step) { step_ = step; }
  std::int64_t step() const { return step_; }

  void post_receive(Tag tag, StageId from);
  /// What was posted, or handed over on this stage; ScheduleError if it was neither.
  Incoming& incoming(Tag tag);
  /// The consumer is done with it: its buffer is free again.
  void release(Tag tag);

  /// The buffer that a chunk writes its output into. Then either send() it, or hand_over() to a chunk of this stage.
  Message& output(Tag tag);
  void send(Tag tag, StageId to);
  void hand_over(Tag tag);

  /// Moves traffic along; call between layers.
  void progress() { transport_.progress(); }
  /// True when no send is under way; frees the buffers of those that are done.
  bool sends_done();
  RankId me() const { return me_; }

 private:
  Message take_message();

  Transport& transport_;
  ProcessLayout layout_;
  RankId me_;
  std::int64_t payload_bytes_;
  Doorbells* doorbells_;
  std::int64_t step_ = 0;
  std::map<Tag, Incoming> incoming_;
  std::map<Tag, Message> outputs_;
  std::list<Message> sending_;  // a list: a message must not move while it is under way
  std::vector<Message> free_;
};

}  // namespace pipefill
