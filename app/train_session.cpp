#include "train_session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "base/text.hpp"
#include "checkpoint/directory.hpp"
#include "config/parts.hpp"
#include "config/print.hpp"
#include "engine/signals.hpp"
#include "model/cost.hpp"
#include "place_on_host.hpp"
#include "plan_comparison.hpp"
#include "schedule/build.hpp"
#include "trace/merge.hpp"
#include "trace/summary.hpp"
#include "version.hpp"

namespace pipefill {
namespace {

double wall_clock_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The step that a rank is in is done when what comes after a step is under way.
std::int64_t steps_done(const RankState& rank) {
  const ActivityKind doing = rank.activity.kind;
  const bool after = rank.activity.purpose == Purpose::validation || doing == ActivityKind::validation ||
                     doing == ActivityKind::checkpoint || doing == ActivityKind::finishing;
  return after ? rank.step : rank.step - 1;
}

/// None too where the directory cannot be read, which must not keep back what else there is to tell.
std::optional<std::int64_t> newest_checkpoint(const RunDirectory& run) {
  try {
    const std::vector<CheckpointEntry> found = list_checkpoints(run.checkpoints());
    if (!found.empty()) return found.front().step;
  } catch (const FileError&) {
  }
  return std::nullopt;
}

}  // namespace

TrainSession::TrainSession(Cluster& cluster, const RunConfig& config, ResumeChoice resume, Nanoseconds started)
    : cluster_(cluster),
      config_(config),
      resume_(resume),
      started_(started),
      started_wall_(wall_clock_s() - to_seconds(now() - started)),
      layout_{config.parallel.stages, config.parallel.replicas},
      directory_{config.run.directory},
      log_(make_log(fmt::format("rank {}", cluster.rank().value), ConsoleInfo::drop, "")),
      cores_(claim_cores(cluster, config.device.bind)),
      board_(std::make_unique<LivenessBoard>(cluster)),
      waiter_(layout_, cluster.rank(),
              {.method = wait_method(config.device.wait, cores_),
               .deadline = std::chrono::minutes(2),
               .stop = &end_at_once()},
              board_.get()),
      ranks_(ranks_over(transport_, waiter_)),
      status_file_(directory_) {
  open_run_directory();
  watchdog_ = std::make_unique<Watchdog>(*board_, layout_, log_, [this](const Loss& loss) {
    tell_failure(loss.text, ExitCode::lost_peer);
    board_->finish();  // a stopped rank that mpirun wakes to end it must not blame this one and write over the reason
    transport_.abort(static_cast<int>(ExitCode::lost_peer));
  });
  start_up_watch_.emplace([this] { stop_before_first_step(); });
}

void TrainSession::stop_before_first_step() {
  const char* const reason = "signal USR2, TERM or INT before the first step";
  log_->info("stopped by {}; the same command starts again", reason);
  if (status_is_of_this_start_) tell_failure(reason, ExitCode::stopped_early);
  board_->finish();
  transport_.abort(static_cast<int>(ExitCode::stopped_early));
}

/// However this rank leaves, it leaves on purpose: its peers must not take it for a lost one and write over the reason.
TrainSession::~TrainSession() { board_->finish(); }

void TrainSession::open_run_directory() {
  all_or_none(ranks_, [this] {
    if (!is_first()) return;
    create_run_directory(directory_);
    lock_.emplace(RunLock::take(directory_.root));
    remove_temporaries(directory_.root);
    std::error_code ignored;
    std::filesystem::remove(directory_.halt(), ignored);  // it was meant for an earlier start
  });
  all_or_none(ranks_, [this] {
    const std::string name = fmt::format("rank {}", cluster_.rank().value);
    log_ = make_log(name, is_first() ? ConsoleInfo::print : ConsoleInfo::drop, directory_.log());
  });
  if (lock_ && !lock_->weakness().empty())
    log_->warn("{}; do not start two runs in this directory at the same time", lock_->weakness());
  status_.steps = config_.run.steps;
  status_.host = cluster_.mine().host;
  status_.pid = cluster_.mine().pid;
}

ExitCode TrainSession::run() {
  const StartingPoint start = find_start(ranks_, directory_, config_, resume_, log_);
  if (start.finished) {
    if (is_first())
      log_->info("{}: all {} steps were done before; nothing to run", directory_.root.string(), config_.run.steps);
    summarise_trace();
    board_->finish();
    return ExitCode::finished;
  }
  {
    const std::lock_guard lock(status_mutex_);
    status_.attempt = start.attempt;
    if (start.checkpoint) status_.step = start.checkpoint->manifest.state.step, status_.last_checkpoint = status_.step;
  }
  try {
    all_or_none(ranks_, [this] {  // from here on a killed start is seen, and `halt` finds the run
      const std::lock_guard lock(status_mutex_);
      if (is_first()) status_file_.write(status_);
    });
    status_is_of_this_start_ = true;
    return run_from(start);
  } catch (const Error& error) {
    const bool asked = end_at_once().load();
    const ExitCode code = asked ? ExitCode::stopped_early : error.code();
    tell_failure(asked ? "a second TERM or INT ended the run at once" : error.what(), code);
    if (asked) throw Error(code, "ended at once by a second signal; the newest checkpoint is what is left");
    throw;
  } catch (const std::exception& error) {
    tell_failure(error.what(), ExitCode::bug);
    throw;
  }
}

ExitCode TrainSession::run_from(const StartingPoint& start) {
  // Order: everything that follows from the deck alone.
  const TokenData data = open_tokens();
  const RunPlan plan = plan_run(config_, data.vocab());
  log_start(start, plan);
  if (is_first()) log_->info("{}", data.describe());

  // Build, once: device, trace, fill worker, stage.
  CpuDevice device(threads(), memory_limit(config_, cluster_));
  const ArrivalClock arrivals = measure_network(plan.batch.microbatch_size * plan.batch.context * plan.shape.channels *
                                                static_cast<std::int64_t>(sizeof(float)));
  const std::unique_ptr<Trace> trace = open_trace(plan, start.attempt);
  SpanRecorder spans(*trace, started_);
  RankServices services{.layout = layout_,
                        .transport = transport_,
                        .waiter = waiter_,
                        .device = device,
                        .trace = *trace,
                        .arrivals = arrivals,
                        .board = board_.get(),
                        .log = log_};
  std::optional<Doorbells> doorbells;
  std::optional<FillSession> fill;
  open_fill(doorbells, fill, plan, services);
  std::optional<Stage> stage;
  const Bytes planned = build_stage(stage, plan, device);
  const RunState state = first_state(config_, plan, start);
  std::optional<RunReporter> reporter;
  open_reporter(reporter, state, start);
  Checkpointer checkpointer(directory_.checkpoints(), config_.checkpoint.keep, ranks_, hdf5_);
  TrainerSettings settings = trainer_settings(config_, plan, layout_.replica_of(cluster_.rank()));
  settings.started = started_;
  RunReporter* const report = reporter ? &*reporter : nullptr;
  Trainer trainer(settings, state, *stage, data, services, spans, &checkpointer, report, watchdog_.get());
  if (start.checkpoint) {
    load_tensors(ranks_, *start.checkpoint, rows_to_load(*stage, trainer.update().adamw()));
    checkpointer.note_good(*start.checkpoint);
  }
  if (fill) fill->desk().open();
  spans.close(EventKind::start_up);

  start_up_watch_.reset();
  // Train, and measure while training.
  const TrainingResult result = trainer.run();
  if (fill) fill->desk().close();

  board_->doing({.kind = ActivityKind::finishing});
  compare_times(plan, trainer, hop_, report, log_);
  compare_memory(ranks_, {layout_.stage_of(cluster_.rank()).value, planned, device.memory().peak}, report, log_);
  close_trace(*trace, spans);
  reporter.reset();
  return end_run(result, checkpointer.last_good_step());
}

TokenData TrainSession::open_tokens() {
  std::optional<TokenData> opened;
  all_or_none(ranks_, [&] { opened.emplace(open_data(data_description(config_), config_.model.context)); });
  return std::move(*opened);
}

std::unique_ptr<Trace> TrainSession::open_trace(const RunPlan& plan, int attempt) {
  if (!config_.trace.enabled) return std::make_unique<Trace>();
  return std::make_unique<Trace>(TraceOptions{.directory = directory_.trace(), .segment = config_.trace.segment},
                                 describe_run(plan, attempt), describe_rank(clocks_at_start_), hdf5_, log_);
}

void TrainSession::close_trace(Trace& trace, SpanRecorder& spans) {
  const std::vector<ClockReading> clocks = measure_clock_offsets(transport_, waiter_, clock_domains());
  const ClockReading& mine = clocks[static_cast<std::size_t>(cluster_.rank().value)];
  const Nanoseconds ended = now();
  spans.close(EventKind::other, ended);
  trace.close(ended, ClockOffset{mine.at, mine.offset, mine.uncertainty});
}

void TrainSession::open_fill(std::optional<Doorbells>& doorbells, std::optional<FillSession>& fill, const RunPlan& plan,
                             RankServices& services) {
  const FillSettings filling = fill_settings(config_, plan, waiter_.method(), threads());
  if (!filling.runs_jobs) return;
  if (std::ssize(cluster_.local_ranks()) == cluster_.size()) services.doorbells = &doorbells.emplace(cluster_);
  fill.emplace(filling, FillClerkSettings{.run_directory = directory_.root.string(), .deck_jobs = config_.fill.jobs},
               plan.training.programs[static_cast<std::size_t>(services.stage().value)], ranks_, services);
}

Bytes TrainSession::build_stage(std::optional<Stage>& stage, const RunPlan& plan, CpuDevice& device) {
  const StageId id = layout_.stage_of(cluster_.rank());
  const StageSetup setup = stage_setup(plan, id, config_.run.seed);
  const OptimizerShard shard = config_.optimizer.shard ? OptimizerShard::yes : OptimizerShard::no;
  const Bytes planned = planned_memory(plan, setup, shard);
  all_or_none(ranks_, [&] {
    device.expect_room(planned, fmt::format("stage {}", id.value));
    stage.emplace(setup, device);
  });
  return planned;
}

void TrainSession::open_reporter(std::optional<RunReporter>& reporter, const RunState& state,
                                 const StartingPoint& start) {
  if (!is_first()) return;
  replace_file(directory_.deck(), state.deck);
  reporter.emplace(directory_, status_file_, status_, hdf5_, log_);
  if (start.checkpoint) reporter->status.last_checkpoint = state.step;
}

ExitCode TrainSession::end_run(const TrainingResult& result, std::optional<std::int64_t> last_checkpoint) {
  const ExitCode code = result.finished() ? ExitCode::finished : ExitCode::stopped_early;
  board_->finish();
  (void)ranks_.gather("");  // all traces are closed; unlike a barrier it has a deadline
  if (!is_first()) return code;
  RunStatus status = status_;
  status.phase = result.finished() ? RunPhase::finished : RunPhase::stopped;
  status.step = result.state.step;
  status.last_checkpoint = last_checkpoint;
  status.reason = result.stop_reason;
  status.exit_code = static_cast<int>(code);
  status_file_.write(status);
  if (signals_seen().terminate == 0) summarise_trace();  // after TERM there may be a second left
  if (result.finished())
    log_->info("finished {} steps, loss {:.4f}{}", result.state.step, result.loss,
               result.validation ? fmt::format(", held-out loss {:.4f} +- {:.4f}", result.validation->loss,
                                               result.validation->standard_error)
                                 : "");
  else
    log_->info("stopped after step {} of {} ({}); the same command goes on from {}", result.state.step,
               config_.run.steps, result.stop_reason,
               last_checkpoint == result.state.step ? std::string("there")
               : last_checkpoint                    ? fmt::format("step {}, the last one saved", *last_checkpoint)
                                                    : std::string("the beginning: nothing is saved"));
  log_->info("everything is in {}: metrics.jsonl, trace/trace.h5, checkpoints/", directory_.root.string());
  return code;
}

void TrainSession::log_start(const StartingPoint& start, const RunPlan& plan) const {
  if (!is_first()) return;
  log_->info("pipefill {} ({})", program_version(), dependency_versions());
  log_->info("{}", placement_table(cluster_.ranks(), layout_));
  log_->info("{} x {}, {}, M={} microbatches of {} x {} tokens; cores of rank 0: {}{}",
             counted(layout_.stages, "stage"), counted(layout_.replicas, "replica"), config_.schedule.name,
             plan.batch.microbatches, plan.batch.microbatch_size, plan.batch.context, format_cores(cores_.cores),
             cores_.ranks_per_core > 1
                 ? fmt::format(", shared by {} ranks: the bubbles are not true ones", cores_.ranks_per_core)
                 : "");
  if (start.checkpoint)
    log_->info("attempt {}: going on from {} (step {})", start.attempt, start.checkpoint->path,
               start.checkpoint->manifest.state.step);
  else if (start.attempt > 1)
    log_->info("attempt {}: there is no checkpoint, starting afresh", start.attempt);
}

ArrivalClock TrainSession::measure_network(std::int64_t message_bytes) {
  clocks_at_start_ = measure_clock_offsets(transport_, waiter_, clock_domains());
  const Bytes message{message_bytes + static_cast<std::int64_t>(sizeof(MessageHeader))};
  std::vector<TransferTime> transfer =
      measure_transfer_times(transport_, waiter_, layout_, {Bytes{sizeof(MessageHeader)}, Bytes{4096}, message});
  for (const TransferTime& time : transfer)
    if (!time.points().empty()) hop_ = time(message);
  return ArrivalClock(cluster_.rank(), ClockModel(clocks_at_start_), std::move(transfer));
}

std::vector<std::string> TrainSession::clock_domains() const {
  std::vector<std::string> domains;
  for (const RankInfo& rank : cluster_.ranks()) domains.push_back(rank.clock_domain);
  return domains;
}

RunDescription TrainSession::describe_run(const RunPlan& plan, int attempt) const {
  RunDescription run;
  run.run_id = directory_.root.string();
  run.config_yaml = print_deck(config_);
  run.software_version = program_version();
  run.build = version_text();
  run.schedule = config_.schedule.name;
  run.attempt = attempt;
  run.ranks = layout_.ranks(), run.stages = layout_.stages, run.replicas = layout_.replicas;
  run.microbatches = plan.batch.microbatches;
  run.bubble_fraction_closed_form =
      closed_form_bubble_fraction(config_.schedule.name, layout_.stages, plan.batch.microbatches).value_or(kUnknown);
  run.flops_per_token = training_flops_per_token(plan.shape);
  run.flops_formula = kTrainingFlopsFormula;
  return run;
}

int TrainSession::threads() const {
  return config_.device.threads > 0 ? config_.device.threads : static_cast<int>(cores_.cores.size());
}

RankDescription TrainSession::describe_rank(const std::vector<ClockReading>& clocks) const {
  const ClockReading& clock = clocks[static_cast<std::size_t>(cluster_.rank().value)];
  RankDescription rank;
  rank.rank = cluster_.rank().value;
  rank.stage = layout_.stage_of(cluster_.rank()).value;
  rank.replica = layout_.replica_of(cluster_.rank()).value;
  rank.host = cluster_.mine().host;
  rank.pid = cluster_.mine().pid;
  rank.device = "cpu";
  rank.threads = threads();
  rank.cores = format_cores(cores_.cores);
  rank.started = started_;
  rank.started_wall = started_wall_;
  rank.clock = {clock.at, clock.offset, clock.uncertainty};
  return rank;
}

void TrainSession::tell_failure(const std::string& reason, ExitCode code) noexcept {
  try {
    const std::lock_guard lock(status_mutex_);
    RunStatus status = status_;
    status.phase = code == ExitCode::stopped_early ? RunPhase::stopped : RunPhase::failed;
    status.reason = reason;
    status.exit_code = static_cast<int>(code);
    status.step = std::max(status.step, steps_done(board_->state(cluster_.rank())));
    status.last_checkpoint = newest_checkpoint(directory_);
    status_file_.write(status);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pipefill: could not write %s: %s\n", directory_.status().c_str(), error.what());
  }
}

void TrainSession::summarise_trace() {
  if (!is_first() || !config_.trace.enabled) return;
  try {
    hdf5_.run([this] {
      merge_trace(directory_.root);
      Summarizer summarizer;
      const TraceProblems problems = read_trace(directory_.root, summarizer);
      Summary summary = summarizer.finish();
      summary.problems = problems.all();
      log_->info("{}", summary_text(summary));
    });
  } catch (const FileError& error) {
    log_->warn("no summary of the trace: {}", error.what());
  }
}

}  // namespace pipefill
