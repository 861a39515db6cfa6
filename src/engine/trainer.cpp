#include "engine/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/text.hpp"
#include "engine/fill_desk.hpp"
#include "engine/signals.hpp"

namespace pipefill {
namespace {

constexpr Nanoseconds kStatusInterval = std::chrono::seconds(1);
constexpr Nanoseconds kFirstDeadline = std::chrono::minutes(10);  // before a step's length is known
constexpr Nanoseconds kGrace = std::chrono::seconds(1);           // Open MPI's, from TERM to KILL
constexpr int kSlowSteps = 8;                                     // a step this many times its p99 is taken for a hang
// Limits a wait lasts where a watchdog sees every rank: it tells slow from hung, a wait cannot.
constexpr int kWatchedPatience = 6;

bool is_due(std::int64_t step, std::int64_t every) { return every > 0 && step % every == 0; }

/// The same number on all ranks: sums of what each rank counted.
std::vector<double> add_over_ranks(const std::vector<double>& mine, RankServices& services) {
  const auto ranks = static_cast<std::size_t>(services.layout.ranks());
  std::vector<double> all(mine.size() * ranks);
  const auto bytes = static_cast<std::int64_t>(mine.size() * sizeof(double));
  Request request = services.transport.all_gather(
      std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)), std::vector<std::int64_t>(ranks, bytes));
  services.waiter.wait(services.transport, request, WaitSubject{.kind = WaitKind::collective});
  std::vector<double> sums(mine.size());
  for (std::size_t r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < mine.size(); ++i) sums[i] += all[r * mine.size() + i];
  return sums;
}

}  // namespace

Trainer::Trainer(const TrainerSettings& settings, RunState state, Stage& stage, const TokenData& data,
                 RankServices& services, SpanRecorder& spans, Checkpointer* checkpointer, RunReporter* reporter,
                 Watchdog* watchdog)
    : settings_(settings),
      state_(std::move(state)),
      stage_(stage),
      data_(data),
      services_(services),
      spans_(spans),
      checkpointer_(checkpointer),
      reporter_(reporter),
      watchdog_(watchdog),
      update_(settings_.update, stage, services, spans, profiler_),
      training_batch_(settings_.batch, services.replica(),
                      [&data](std::int64_t sample, std::span<std::int32_t> out) { data.read_training(sample, out); }),
      validation_batch_(
          settings_.batch, services.replica(),
          [&data](std::int64_t sample, std::span<std::int32_t> out) { data.read_validation(sample, out); }),
      executor_(settings_.training, stage, training_batch_, &update_, services, spans, profiler_, ExecutorMode::train),
      evaluator_(settings_.evaluation, stage, validation_batch_, nullptr, services, spans, profiler_,
                 ExecutorMode::evaluate),
      display_(settings_.progress, settings_.log_every, services.log) {
  services_.waiter.set_deadline(kFirstDeadline);
}

TrainingResult Trainer::run() {
  TrainingResult result;
  step_start_ = spans_.cursor();
  if (state_.step == settings_.steps) {  // stopped in its last validation
    Control agreed;
    if (settings_.validation_tokens > 0) result.validation = validate(agreed);
    if (!result.validation) result.stop_reason = obey(agreed);
  }
  while (state_.step < settings_.steps && result.stop_reason.empty()) {
    Control agreed = train_step();
    if (services_.desk != nullptr && update_.outcome().fill_news) meet_about_fill();
    const bool last = state_.step == settings_.steps;
    const bool validates = settings_.validation_tokens > 0 && (last || is_due(state_.step, settings_.validation_every));
    if (validates) result.validation = validate(agreed);
    if (is_due(state_.step, settings_.checkpoint_every) && !last) save();
    const bool broken_off = validates && !result.validation && agreed.stops();
    if (!last || broken_off) result.stop_reason = obey(agreed);
    step_start_ = spans_.cursor();
  }
  if (result.finished() && saved_step_ != state_.step) save_the_last();
  display_.finish();
  result.loss = state_.training_loss.value_or(update_.outcome().loss);
  result.state = state_;
  return result;
}

Control Trainer::train_step() {
  const std::int64_t step = state_.step + 1;
  spans_.set_step(step);
  if (services_.fill != nullptr) services_.fill->begin_step(step);
  std::int64_t word = 0;
  Request agreement = services_.transport.all_reduce_max(my_wishes().encode(), word);
  update_.begin_step(step);
  training_batch_.begin_step(state_.next_sample);
  spans_.close(EventKind::other);
  stage_.begin_step();
  profiler_.add_optimizer(spans_.close(EventKind::optimizer));
  executor_.run(step);
  services_.waiter.wait(services_.transport, agreement, WaitSubject{.kind = WaitKind::collective, .step = step});
  spans_.close(EventKind::collective);

  state_.step = step;
  state_.next_sample += settings_.batch.samples_per_step();
  state_.training_loss = update_.outcome().loss;
  const Nanoseconds step_time = spans_.cursor() - step_start_;
  update_.set_bubbles(profiler_.end_step(step_time));
  const StepOutcome& outcome = update_.outcome();
  if (outcome.bubbles.count() > 0) bubbles_.add(outcome.bubbles);
  BlockSchedule::Step audit;
  if (services_.fill != nullptr) {
    audit = services_.fill->audit(step);
    if (services_.fill->end_step(step_time) == GuardMove::suspended) report_suspension();
  }
  services_.trace.finish_step({.step = step,
                               .start = step_start_,
                               .end = spans_.cursor(),
                               .tokens = settings_.batch.tokens_per_step(),
                               .loss = outcome.loss,
                               .learning_rate = outcome.learning_rate,
                               .gradient_norm = outcome.gradient_norm,
                               .filled = services_.fill == nullptr          ? -1
                                         : services_.fill->step_is_filled() ? 1
                                                                            : 0,
                               .pair = audit.pair});
  report_step(step_time);
  last_step_time_ = step_time;
  adapt_deadlines();
  return Control::decode(word);
}

void Trainer::meet_about_fill() {
  services_.desk->meet(state_.step, profiler_.step_time());
  spans_.close(EventKind::collective);
}

Control Trainer::my_wishes() {
  Control wish;
  wish.checkpoint_time =
      checkpointer_ != nullptr ? checkpointer_->predicted_time(services_.device.memory().in_use) : Nanoseconds{0};
  const SignalCounts signals = signals_seen();
  if (signals.checkpoint > 0) wish.request = ControlRequest::checkpoint, clear_checkpoint_signals();
  if (reporter_ != nullptr && reporter_->asked_to_halt())
    wish.request = ControlRequest::checkpoint_and_stop, my_reason_ = "halt";
  const Nanoseconds needed = now() - settings_.started + profiler_.longest_step() * 2 + wish.checkpoint_time;
  if (reporter_ != nullptr && settings_.max_time.count() > 0 && needed >= settings_.max_time)
    wish.request = ControlRequest::checkpoint_and_stop, my_reason_ = "walltime";
  if (signals.stop > 0) wish.request = ControlRequest::checkpoint_and_stop, my_reason_ = "signal USR2";
  if (signals.terminate > 0) wish.request = ControlRequest::terminate, my_reason_ = "signal TERM or INT";
  return wish;
}

std::string Trainer::obey(const Control& agreed) {
  const char* const elsewhere = agreed.request == ControlRequest::terminate ? "signal TERM or INT to another rank"
                                                                            : "signal USR2 to another rank";
  const std::string reason = my_reason_.empty() ? elsewhere : my_reason_;
  switch (agreed.request) {
    case ControlRequest::none:
      return {};
    case ControlRequest::checkpoint:
      if (saved_step_ != state_.step) save();
      return {};
    case ControlRequest::checkpoint_and_stop:
      if (saved_step_ != state_.step) save();
      return reason;
    case ControlRequest::terminate: {
      const std::int64_t good = checkpointer_ != nullptr ? checkpointer_->last_good_step().value_or(0) : 0;
      if (agreed.checkpoint_time <= kGrace && saved_step_ != state_.step)
        save();
      else if (saved_step_ != state_.step)
        services_.log->warn(
            "step {} is not saved: a checkpoint takes about {} and the grace is {}; the last good one is "
            "of step {} (send USR2 to save and stop)",
            state_.step, format_duration(agreed.checkpoint_time), format_duration(kGrace), good);
      return reason;
    }
  }
  return {};
}

void Trainer::report_step(Nanoseconds step_time) {
  if (reporter_ == nullptr) return;
  const StepOutcome& outcome = update_.outcome();
  StepReport report;
  report.step = state_.step, report.steps = settings_.steps;
  report.loss = outcome.loss, report.gradient_norm = outcome.gradient_norm,
  report.learning_rate = outcome.learning_rate;
  report.step_time = step_time;
  report.tokens = settings_.batch.tokens_per_step();
  if (outcome.bubbles.count() > 0)
    report.bubble_fraction = to_seconds(outcome.bubbles) / (to_seconds(last_step_time_) * services_.layout.ranks());
  if (services_.fill != nullptr) report_fill(report);
  report.eta = profiler_.step_time() * (settings_.steps - state_.step);
  display_.show(report);

  nlohmann::json line{{"schema", 1},
                      {"attempt", state_.attempt},
                      {"step", state_.step},
                      {"loss", outcome.loss},
                      {"gradient_norm", outcome.gradient_norm},
                      {"learning_rate", outcome.learning_rate},
                      {"step_time_ns", step_time.count()},
                      {"tokens", report.tokens},
                      {"tokens_per_second", static_cast<double>(report.tokens) / to_seconds(step_time)}};
  if (report.bubble_fraction) line["bubble_fraction_last_step"] = *report.bubble_fraction;
  reporter_->append_metrics(std::move(line));
  reporter_->status.eta = report.eta;
  write_status_now_and_then(state_.step <= 1);
  spans_.close(EventKind::other);
}

void Trainer::report_fill(StepReport& report) const {
  const FillFigures figures = services_.fill->figures();
  if (figures.chunks.count() > 0) report.fill_coverage = to_seconds(figures.chunks) / to_seconds(figures.bubbles);
  if (figures.slowdown.pairs > 0) report.slowdown = figures.slowdown.median;
}

void Trainer::report_suspension() const {
  const GuardController::Cause& seen = services_.fill->cause();
  services_.log->warn(
      "step {}: steps with fill work took at least {:.1f} % more time than those without in the last {} pairs of them: "
      "this rank's bubbles are not filled for a while, then tried again",
      state_.step, 100 * seen.slowdown, seen.pairs);
}

void Trainer::write_status_now_and_then(bool now_please) {
  RunStatus& status = reporter_->status;
  status.phase = RunPhase::running;
  if (!now_please && now() - last_status_ < kStatusInterval) return;
  last_status_ = now();
  status.step = state_.step;
  if (checkpointer_ != nullptr) status.last_checkpoint = checkpointer_->last_good_step();
  reporter_->write_status_later();
}

void Trainer::adapt_deadlines() {
  const Nanoseconds limit = std::max(settings_.hang_timeout, profiler_.longest_step() * kSlowSteps);
  if (watchdog_ != nullptr) watchdog_->set_limit(limit);
  // A watchdog tells more about a hang than a wait can, so a wait's own deadline comes after it.
  const bool all_watched = watchdog_ != nullptr && services_.board != nullptr &&
                           std::ssize(services_.board->ranks()) == services_.layout.ranks();
  services_.waiter.set_deadline(limit * (all_watched ? kWatchedPatience : watchdog_ != nullptr ? 2 : 1));
}

std::optional<Validation> Trainer::validate(Control& agreed) {
  const std::int64_t per_batch = settings_.batch.samples_per_step();
  std::int64_t batches =
      (settings_.validation_tokens + settings_.batch.tokens_per_step() - 1) / settings_.batch.tokens_per_step();
  if (const auto held_out = data_.validation_samples()) batches = std::min(batches, *held_out / per_batch);
  if (batches == 0) {
    if (services_.rank().value == 0)
      services_.log->warn(
          "no validation: {} held-out sequences are fewer than one global batch of {}; raise "
          "data.validation_fraction or lower the batch",
          data_.validation_samples().value_or(0), per_batch);
    return std::nullopt;
  }
  if (services_.board != nullptr) services_.board->doing({.kind = ActivityKind::validation});
  stage_.begin_step();
  std::vector<double> sums(3);  // of microbatch means, of their squares, their number
  const double microbatch_tokens = static_cast<double>(settings_.batch.microbatch_size) * settings_.batch.context;
  for (std::int64_t b = 0; b < batches; ++b) {
    if (agreed.stops()) {
      spans_.close(EventKind::validation);
      if (services_.rank().value == 0)
        services_.log->warn("step {} has no held-out loss: its validation was broken off to stop", state_.step);
      return std::nullopt;
    }
    std::int64_t word = 0;
    Request agreement = services_.transport.all_reduce_max(my_wishes().encode(), word);
    validation_batch_.begin_step(b * per_batch);
    evaluator_.run(state_.step);
    services_.waiter.wait(services_.transport, agreement,
                          WaitSubject{.kind = WaitKind::collective, .step = state_.step});
    agreed = Control::decode(std::max(word, agreed.encode()));
    if (!evaluator_.holds_last_chunk()) continue;
    for (const double loss : evaluator_.losses()) {
      const double mean = loss / microbatch_tokens;
      sums[0] += mean, sums[1] += mean * mean, sums[2] += 1;
    }
  }
  sums = add_over_ranks(sums, services_);
  spans_.close(EventKind::validation);
  Validation result;
  result.loss = sums[0] / sums[2];
  result.standard_error =
      std::sqrt(std::max(0.0, sums[1] / sums[2] - result.loss * result.loss) / std::max(1.0, sums[2] - 1));
  result.tokens = static_cast<std::int64_t>(sums[2] * microbatch_tokens);
  state_.validation_loss = result.loss;
  if (reporter_ != nullptr) {
    nlohmann::json line{{"schema", 1},
                        {"attempt", state_.attempt},
                        {"step", state_.step},
                        {"validation_loss", result.loss},
                        {"validation_standard_error", result.standard_error},
                        {"validation_tokens", result.tokens}};
    if (const auto entropy = data_.entropy_rate()) line["entropy_rate"] = *entropy;
    reporter_->append_metrics(std::move(line));
    display_.finish();
    services_.log->info(
        "step {} held-out loss {:.4f} +- {:.4f} over {} tokens{}", state_.step, result.loss, result.standard_error,
        result.tokens,
        data_.entropy_rate() ? fmt::format(" (entropy rate of the source {:.4f})", *data_.entropy_rate()) : "");
  }
  return result;
}

void Trainer::save_the_last() {
  save();
  if (checkpointer_ != nullptr && saved_step_ != state_.step)
    throw SharedError(
        ExitCode::input_output,
        fmt::format("all {} steps are done, but their result could not be saved: {}. With that put right, the "
                    "same command goes on from the last good checkpoint",
                    state_.step, checkpointer_->trouble()));
}

void Trainer::save() {
  if (checkpointer_ == nullptr) return;
  spans_.close(EventKind::other);
  if (services_.board != nullptr) services_.board->doing({.kind = ActivityKind::checkpoint});
  if (services_.desk != nullptr) {
    services_.desk->meet(state_.step, profiler_.step_time());
    state_.fill_jobs = services_.desk->progress();
  }
  checkpointer_->save(state_,
                      slices_to_save(stage_, update_.adamw(), services_.replica(), settings_.update.adamw.shard),
                      services_.log);
  if (checkpointer_->last_good_step() == state_.step) saved_step_ = state_.step;
  if (reporter_ != nullptr) write_status_now_and_then(true);
  spans_.close(EventKind::checkpoint);
}

}  // namespace pipefill
