#include "engine/executor.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "engine/signals.hpp"

namespace pipefill {

Executor::Executor(const Schedule& schedule, Stage& stage, TokenBatch& batch, StageUpdate* update,
                   RankServices& services, SpanRecorder& spans, Profiler& profiler, ExecutorMode mode)
    : schedule_(schedule),
      program_(schedule.programs[static_cast<std::size_t>(services.stage().value)]),
      stage_(stage),
      batch_(batch),
      update_(update),
      services_(services),
      spans_(spans),
      profiler_(profiler),
      mode_(mode),
      bubbles_(services, spans, profiler),
      links_(services.transport, services.layout, stage.message_elements() * static_cast<std::int64_t>(sizeof(float)),
             services.doorbells),
      progress_([this] {
        if (end_at_once().load(std::memory_order_relaxed))
          throw Error(ExitCode::stopped_early, "ended at once by a second signal; nothing was saved");
        links_.progress();
        if (update_ != nullptr) update_->progress();
      }),
      losses_(static_cast<std::size_t>(schedule.microbatches)) {
  if (mode_ == ExecutorMode::train && services_.fill != nullptr)
    services_.fill->set_at_rest([this] { return links_.sends_done() && (update_ == nullptr || update_->at_rest()); });
}

void Executor::run(std::int64_t step) {
  spans_.set_step(step);
  links_.begin_step(step);
  if (services_.board != nullptr) services_.board->step(step);
  std::fill(losses_.begin(), losses_.end(), 0.0);
  for (position_ = 0; position_ < static_cast<int>(program_.size()); ++position_)
    std::visit(*this, program_[static_cast<std::size_t>(position_)]);
  services_.waiter.wait_until([this] { return links_.sends_done(); },
                              WaitSubject{.kind = WaitKind::send, .step = step});
  spans_.close(mode_ == ExecutorMode::train ? EventKind::transfer : EventKind::validation);
}

double Executor::loss_sum() const {
  double sum = 0;
  for (const double loss : losses_) sum += loss;
  return sum;
}

void Executor::operator()(const Forward& forward) {
  const auto [chunk, microbatch] = forward;
  const ModelChunkId next{chunk.value + 1};
  const std::span<const float> in = input(Channel::activation, chunk, microbatch);
  const bool needs_tokens = chunk.value == 0 || !exists(next);
  Nanoseconds time{0};
  if (needs_tokens && !batch_.is_loaded(microbatch)) {
    announce(ActivityKind::data, chunk, microbatch);
    batch_.tokens(microbatch);
    time += close(EventKind::data, chunk, microbatch);
  }
  const StageTokens tokens = needs_tokens ? batch_.tokens(microbatch) : StageTokens{};
  announce(ActivityKind::forward, chunk, microbatch);
  stage_.forward(chunk, microbatch, tokens, in, output(Channel::activation, next, microbatch), progress_,
                 mode_ == ExecutorMode::train ? ForwardMode::training : ForwardMode::validation);
  if (!exists(next)) losses_[static_cast<std::size_t>(microbatch.value)] = stage_.loss(microbatch);
  time += close(EventKind::forward, chunk, microbatch);
  if (mode_ == ExecutorMode::train) profiler_.add_forward(chunk, time);
  release_input(Channel::activation, chunk, microbatch);
  pass_on(Channel::activation, next, microbatch);
}

void Executor::backward_input(EventKind kind, ModelChunkId chunk, MicrobatchId microbatch) {
  const ModelChunkId previous{chunk.value - 1};
  const std::span<const float> gradient = input(Channel::gradient, chunk, microbatch);
  const std::span<float> out = output(Channel::gradient, previous, microbatch);
  if (kind == EventKind::backward) {
    announce(ActivityKind::backward, chunk, microbatch);
    stage_.backward(chunk, microbatch, gradient, out, progress_);
    profiler_.add_backward(chunk, close(kind, chunk, microbatch));
  } else {
    announce(ActivityKind::backward_input, chunk, microbatch);
    stage_.backward_input(chunk, microbatch, gradient, out, progress_);
    profiler_.add_backward_input(chunk, close(kind, chunk, microbatch));
  }
  release_input(Channel::gradient, chunk, microbatch);
  pass_on(Channel::gradient, previous, microbatch);
}

void Executor::operator()(const Backward& backward) {
  backward_input(EventKind::backward, backward.chunk, backward.microbatch);
}

void Executor::operator()(const BackwardInput& backward) {
  backward_input(EventKind::backward_input, backward.chunk, backward.microbatch);
}

void Executor::operator()(const BackwardWeight& backward) {
  announce(ActivityKind::backward_weight, backward.chunk, backward.microbatch);
  stage_.backward_weight(backward.chunk, backward.microbatch, progress_);
  profiler_.add_backward_weight(backward.chunk, close(EventKind::backward_weight, backward.chunk, backward.microbatch));
}

void Executor::operator()(const SendActivation& send) {
  links_.send({Channel::activation, send.chunk.value + 1, send.microbatch}, send.peer);
}

void Executor::operator()(const RecvActivation& receive) {
  links_.post_receive({Channel::activation, receive.chunk.value, receive.microbatch}, receive.peer);
}

void Executor::operator()(const SendGradient& send) {
  links_.send({Channel::gradient, send.chunk.value - 1, send.microbatch}, send.peer);
}

void Executor::operator()(const RecvGradient& receive) {
  links_.post_receive({Channel::gradient, receive.chunk.value, receive.microbatch}, receive.peer);
}

void Executor::operator()(const ReduceGradients& reduce) { update_->start_reduction(reduce.chunk, links_.step()); }

void Executor::operator()(const OptimizerStep&) {
  update_->run(links_.step(), loss_sum(), free_memory(), {position_, BubbleClass::step_boundary});
}

void Executor::operator()(const Bubble& bubble) {
  slot_ = {position_, bubble.why};
  if (update_ != nullptr) update_->note_slot(slot_);
}

std::span<const float> Executor::input(Channel channel, ModelChunkId chunk, MicrobatchId microbatch) {
  const ModelChunkId source{channel == Channel::activation ? chunk.value - 1 : chunk.value + 1};
  if (!exists(source)) return {};
  const Tag tag{channel, chunk.value, microbatch};
  Incoming& in = links_.incoming(tag);
  if (in.from != links_.me()) {
    announce(ActivityKind::bubble, chunk, microbatch);
    const WaitSubject subject{WaitKind::receive, in.from, tag, links_.step()};
    const auto arrived = [&] { return in.message.test(); };
    if (mode_ == ExecutorMode::evaluate) {
      services_.waiter.wait_until(arrived, subject);
    } else {
      bubbles_.wait(slot_, subject, free_memory(), EventKind::transfer, arrived,
                    [&] { return services_.arrivals.of(in.message.header(), in.from); });
    }
  }
  return in.message.payload<float>();
}

std::span<float> Executor::output(Channel channel, ModelChunkId consumer, MicrobatchId microbatch) {
  if (!exists(consumer)) return {};
  return links_.output({channel, consumer.value, microbatch}).payload<float>();
}

void Executor::release_input(Channel channel, ModelChunkId chunk, MicrobatchId microbatch) {
  const ModelChunkId source{channel == Channel::activation ? chunk.value - 1 : chunk.value + 1};
  if (exists(source)) links_.release({channel, chunk.value, microbatch});
}

void Executor::pass_on(Channel channel, ModelChunkId consumer, MicrobatchId microbatch) {
  if (exists(consumer) && schedule_.stage_of_chunk[static_cast<std::size_t>(consumer.value)] == services_.stage())
    links_.hand_over({channel, consumer.value, microbatch});
}

void Executor::announce(ActivityKind kind, ModelChunkId chunk, MicrobatchId microbatch) {
  if (services_.board != nullptr)
    services_.board->doing({kind, chunk.value, microbatch.value,
                            mode_ == ExecutorMode::evaluate ? Purpose::validation : Purpose::training});
}

Nanoseconds Executor::close(EventKind kind, ModelChunkId chunk, MicrobatchId microbatch) {
  if (mode_ == ExecutorMode::evaluate) kind = EventKind::validation;
  return spans_.close(Event{.kind = kind,
                            .model_chunk = static_cast<std::int16_t>(chunk.value),
                            .microbatch = static_cast<std::int16_t>(microbatch.value)});
}

Bytes Executor::free_memory() const {
  return services_.device.memory().free() + stage_.activation_bytes_reserved() - stage_.activation_bytes_in_use();
}

}  // namespace pipefill
