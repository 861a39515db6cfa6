#include "engine/update.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "engine/fill_desk.hpp"

namespace pipefill {
namespace {

/// What each rank tells all others at the end of a step, before its sums of squares.
struct StepReportHeader {
  std::int64_t ready_ns = 0;
  std::int64_t bubbles_ns = 0;
  double loss_sum = 0;
  std::int64_t fill_news = 0;
};

}  // namespace

StageUpdate::StageUpdate(const UpdateSettings& settings, Stage& stage, RankServices& services, SpanRecorder& spans,
                         Profiler& profiler)
    : settings_(settings),
      stage_(stage),
      services_(services),
      spans_(spans),
      profiler_(profiler),
      bubbles_(services, spans, profiler),
      adamw_(settings.adamw, stage, services.device) {
  const ProcessLayout layout = services_.layout;
  for (int rank = 0; rank < layout.ranks(); ++rank)
    blocks_of_rank_.push_back(
        norm_blocks(stage_.table(), settings_.chunks_of_stage[static_cast<std::size_t>(layout.stage_of({rank}).value)],
                    layout.replica_of({rank}), layout.replicas));
  const bool shard = settings_.adamw.shard == OptimizerShard::yes;
  if (layout.replicas > 1)
    for (const ModelChunkId chunk : stage_.setup().chunks) {
      const SumDelivery delivery = shard ? SumDelivery::keep : SumDelivery::broadcast;
      reductions_.push_back({chunk, ReplicaReduction(services_.transport, group_of(chunk), delivery, chunk.value)});
      if (shard)
        broadcasts_.emplace_back(services_.transport, group_of(chunk), Channel::replica_parameter, chunk.value);
    }
  if (const auto tied = stage_.tied_gradient(); tied.other_is_remote) {
    const ModelChunkId last{stage_.setup().cut.last()};
    const bool has_lookup = stage_.setup().chunks.front().value == 0;
    const ModelChunkId other = has_lookup ? last : ModelChunkId{0};
    for (int s = 0; s < layout.stages; ++s)
      if (std::ranges::count(settings_.chunks_of_stage[static_cast<std::size_t>(s)], other) > 0)
        tied_.emplace(services_.transport, layout.rank_of({s}, services_.replica()),
                      has_lookup ? TiedRole::lookup : TiedRole::head, static_cast<std::int64_t>(tied.own.size()));
  }
}

std::vector<StageUpdate::ChunkTensor> StageUpdate::tensors_of(ModelChunkId chunk) {
  std::vector<ChunkTensor> tensors;
  const Stage::TiedGradient tied = stage_.tied_gradient();
  for (const StageTensor& tensor : stage_.tensors()) {
    if (!tensor.spec.on(chunk)) continue;
    const bool holds_lookup_too = !tied.own.empty() && !tied.other_is_remote && tensor.spec.tied_chunk.has_value();
    if (tensor.spec.chunk == chunk || !holds_lookup_too) tensors.push_back({&tensor, tensor.gradient});
    if (holds_lookup_too && tensor.spec.tied_chunk == chunk) tensors.push_back({&tensor, tied.other});
  }
  return tensors;
}

ReplicaGroup StageUpdate::group_of(ModelChunkId chunk) {
  const ProcessLayout layout = services_.layout;
  ReplicaGroup group;
  group.mine = services_.replica();
  const std::vector<ChunkTensor> tensors = tensors_of(chunk);
  for (int r = 0; r < layout.replicas; ++r) {
    group.ranks.push_back(layout.rank_of(services_.stage(), {r}));
    SliceList& owned = group.owned.emplace_back();
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const TensorSpec& spec = tensors[t].tensor->spec;
      const RowRange rows = owned_rows(spec, {r}, layout.replicas);
      if (rows.count > 0) owned.push_back({t, rows.first * spec.columns(), rows.count * spec.columns()});
    }
  }
  return group;
}

void StageUpdate::begin_step(std::int64_t step) {
  for (ChunkReduction& r : reductions_) r.reduction.post(step);
  if (tied_) tied_->post(step);
}

void StageUpdate::start_reduction(ModelChunkId chunk, std::int64_t step) {
  for (ChunkReduction& r : reductions_) {
    if (r.chunk != chunk) continue;
    TensorList gradients;
    for (const ChunkTensor& tensor : tensors_of(chunk)) gradients.push_back(tensor.gradient);
    r.reduction.start(std::move(gradients), step);
  }
}

void StageUpdate::progress() {
  for (ChunkReduction& r : reductions_) r.reduction.test();
}

bool StageUpdate::at_rest() {
  return (!tied_ || tied_->sent()) &&
         std::ranges::all_of(reductions_, [](ChunkReduction& r) { return r.reduction.test(); });
}

void StageUpdate::note_slot(BubbleSlot slot) {
  if (slot.why == BubbleClass::collective) collective_slot_ = slot;
  if (slot.why == BubbleClass::step_boundary) boundary_slot_ = slot;
}

void StageUpdate::run(std::int64_t step, double loss_sum, Bytes free_memory, BubbleSlot inside) {
  if (services_.board != nullptr) services_.board->doing({.kind = ActivityKind::optimizer});
  finish_reductions(step, free_memory);
  exchange_tied(step, free_memory);
  // A slot is one wait a step, or it has no length to learn.
  gather_norm(step, loss_sum, free_memory, tied_ ? inside : boundary_slot_);
  if (!std::isfinite(outcome_.loss) || !std::isfinite(outcome_.gradient_norm))
    throw DivergedError(
        fmt::format("step {}: loss {}, gradient norm {}: the run has diverged; the parameters are those "
                    "after step {}. Resume from a checkpoint with a lower optimizer.learning_rate",
                    step, outcome_.loss, outcome_.gradient_norm, step - 1));
  outcome_.learning_rate = settings_.learning_rate.at(step);
  adamw_.update(step, outcome_.learning_rate, clip_scale(outcome_.gradient_norm, settings_.clip));
  profiler_.add_optimizer(spans_.close(EventKind::optimizer));
  share_parameters(step);
}

void StageUpdate::finish_reductions(std::int64_t step, Bytes free_memory) {
  if (reductions_.empty()) return;
  bubbles_.wait(
      collective_slot_, WaitSubject{.kind = WaitKind::reduction, .step = step}, free_memory, EventKind::collective,
      [this] { return std::ranges::all_of(reductions_, [](ChunkReduction& r) { return r.reduction.test(); }); },
      [this] {
        Arrival last{};
        for (const ChunkReduction& r : reductions_)
          r.reduction.for_each_contribution([&](RankId from, const MessageHeader& header) {
            const Arrival one = services_.arrivals.of(header, from);
            last = {std::max(last.ready, one.ready), std::max(last.arrival, one.arrival)};
          });
        return last;
      });
}

void StageUpdate::exchange_tied(std::int64_t step, Bytes free_memory) {
  if (!tied_) {
    stage_.add_tied_gradients();
    return;
  }
  tied_->start(stage_.tied_gradient().own, step);
  if (services_.doorbells != nullptr) services_.doorbells->ring(tied_->peer());
  const WaitSubject subject{WaitKind::receive, tied_->peer(), kTiedGradient, step};
  bubbles_.wait(
      boundary_slot_, subject, free_memory, EventKind::collective, [this] { return tied_->test(); },
      [this] { return services_.arrivals.of(tied_->received_header(), tied_->peer()); });
  if (services_.doorbells != nullptr) services_.doorbells->answer(services_.rank());
}

void StageUpdate::gather_norm(std::int64_t step, double loss_sum, Bytes free_memory, BubbleSlot slot) {
  const std::vector<double> mine = adamw_.block_square_sums();
  profiler_.add_optimizer(spans_.close(EventKind::optimizer));

  std::vector<std::byte> sending(sizeof(StepReportHeader) + mine.size() * sizeof(double));
  const bool news = services_.desk != nullptr && services_.desk->has_news();
  const StepReportHeader header{now().count(), my_bubbles_.count(), loss_sum, news ? 1 : 0};
  std::memcpy(sending.data(), &header, sizeof header);
  if (!mine.empty()) std::memcpy(sending.data() + sizeof header, mine.data(), mine.size() * sizeof(double));
  std::vector<std::int64_t> counts;
  std::int64_t total = 0;
  for (const auto& blocks : blocks_of_rank_)
    total += counts.emplace_back(static_cast<std::int64_t>(sizeof(StepReportHeader) + blocks.size() * sizeof(double)));
  std::vector<std::byte> all(static_cast<std::size_t>(total));

  Request request = services_.transport.all_gather(sending, all, counts);
  std::vector<double> sums(static_cast<std::size_t>(total_blocks(stage_.table())));
  StepOutcome outcome;
  bubbles_.wait(
      slot, WaitSubject{.kind = WaitKind::collective, .step = step}, free_memory, EventKind::collective,
      [&] { return services_.transport.test(request); },
      [&] {
        Arrival last{};
        const std::byte* at = all.data();
        for (int rank = 0; rank < services_.layout.ranks(); ++rank) {
          StepReportHeader told;
          std::memcpy(&told, at, sizeof told), at += sizeof told;
          const Nanoseconds ready = services_.arrivals.at(Nanoseconds{told.ready_ns}, {rank});
          last = {std::max(last.ready, ready), std::max(last.arrival, ready)};
          outcome.loss += told.loss_sum;
          outcome.bubbles += Nanoseconds{told.bubbles_ns};
          outcome.fill_news |= told.fill_news != 0;
          for (const std::int64_t block : blocks_of_rank_[static_cast<std::size_t>(rank)])
            std::memcpy(&sums[static_cast<std::size_t>(block)], at, sizeof(double)), at += sizeof(double);
        }
        return last;
      });
  outcome.loss /= static_cast<double>(settings_.tokens_per_step);
  outcome.gradient_norm = global_norm(stage_.table(), sums);
  outcome_ = outcome;
}

void StageUpdate::share_parameters(std::int64_t step) {
  if (broadcasts_.empty()) return;
  for (std::size_t i = 0; i < broadcasts_.size(); ++i) {
    TensorList values;
    for (const ChunkTensor& tensor : tensors_of(reductions_[i].chunk)) values.push_back(tensor.tensor->values);
    broadcasts_[i].start(std::move(values), step);
  }
  services_.waiter.wait_until(
      [this] { return std::ranges::all_of(broadcasts_, [](SliceBroadcast& b) { return b.test(); }); },
      WaitSubject{.kind = WaitKind::reduction, .step = step});
  spans_.close(EventKind::collective);
}

}  // namespace pipefill
