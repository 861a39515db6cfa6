// The run: step after step until it is done or told to stop. What the ranks of a run decide, they decide together.
#pragma once

#include <optional>
#include <string>

#include "comm/watchdog.hpp"
#include "data/token_data.hpp"
#include "engine/checkpointing.hpp"
#include "engine/control.hpp"
#include "engine/executor.hpp"
#include "engine/progress.hpp"
#include "engine/run_reporter.hpp"
#include "engine/update.hpp"

namespace pipefill {

struct TrainerSettings {
  std::int64_t steps = 1;
  BatchShape batch;
  UpdateSettings update;
  Schedule training;                   ///< with communication and bubbles
  Schedule evaluation;                 ///< forward only, the same way
  std::int64_t validation_every = 0;   ///< steps; 0: only at the end
  std::int64_t validation_tokens = 0;  ///< at least, as far as the held-out data reach; 0: never
  std::int64_t checkpoint_every = 0;   ///< steps; 0: only when the run stops
  Nanoseconds max_time{0};             ///< 0: no limit
  Nanoseconds started{};               ///< what max_time counts from
  Nanoseconds hang_timeout{10'000'000'000};
  ProgressStyle progress = ProgressStyle::automatic;
  std::int64_t log_every = 10;
};

/// Mean held-out loss over whole batches.
struct Validation {
  double loss = 0;
  double standard_error = 0;  ///< of the mean, from the spread between microbatches
  std::int64_t tokens = 0;
};

struct TrainingResult {
  RunState state;           ///< after the last step
  std::string stop_reason;  ///< empty: all steps were done
  double loss = 0;
  std::optional<Validation> validation;
  bool finished() const { return stop_reason.empty(); }
};

class Trainer {
 public:
  /// All references outlive the trainer. `state` says where the run stands: fresh, or as loaded.
  Trainer(const TrainerSettings& settings, RunState state, Stage& stage, const TokenData& data, RankServices& services,
          SpanRecorder& spans, Checkpointer* checkpointer, RunReporter* reporter, Watchdog* watchdog);

  /// Until settings.steps are done or a stop was agreed. Throws as its parts do.
  TrainingResult run();

  StageUpdate& update() { return update_; }
  Profiler& profiler() { return profiler_; }
  RankServices& services() { return services_; }
  /// Bubble time of all ranks together in a step, median of the last ones.
  Nanoseconds bubbles() const { return bubbles_.median(); }

 private:
  Control train_step();
  void meet_about_fill();
  Control my_wishes();
  void report_step(Nanoseconds step_time);
  void report_fill(StepReport& report) const;
  void report_suspension() const;
  void adapt_deadlines();
  /// None where the held-out text is too short, or where a stop was agreed before or during it. `agreed` grows by what
  /// is asked for meanwhile: a validation may take long, and nobody shall wait for its end to stop the run.
  std::optional<Validation> validate(Control& agreed);
  void save();
  /// SharedError (74) where it fails: no later step will try again, and a finished run without its result is none.
  void save_the_last();
  /// Empty: go on. Otherwise why the run stops; saves where that is wanted.
  std::string obey(const Control& agreed);
  void write_status_now_and_then(bool now);

  TrainerSettings settings_;
  RunState state_;
  Stage& stage_;
  const TokenData& data_;
  RankServices& services_;
  SpanRecorder& spans_;
  Checkpointer* checkpointer_;
  RunReporter* reporter_;
  Watchdog* watchdog_;
  Profiler profiler_;
  StageUpdate update_;
  TokenBatch training_batch_;
  TokenBatch validation_batch_;
  Executor executor_;
  Executor evaluator_;
  ProgressDisplay display_;
  RecentDurations bubbles_;
  Nanoseconds step_start_{};
  Nanoseconds last_step_time_{};  ///< of the step before, whose bubbles all ranks know by now
  Nanoseconds last_status_{};
  std::string my_reason_;
  std::optional<std::int64_t> saved_step_;
};

}  // namespace pipefill
