// The metrics of a run and their formulas: the one place that defines them (README links to here).
//
// bubble: an event of a bubble kind, from the end of a stage's previous main-job instruction to the arrival of the
// input of its next one. Its transfer part: since the sender was ready.
//
// step time: of a rank, its step's end - start as it recorded them itself, apart from the events.
//
// bubble fraction: sum of the bubbles of all ranks in completed steps / sum of those steps' times over all ranks, which
// is bubbles / (ranks x step time). Median: per rank the median over its steps of bubbles / (all main-job events of
// that step), averaged over the ranks; unlike the mean it does not feel the first steps. Closed form: what the schedule
// has with equal stages and no transfer time.
//
// time table: per stage and kind, sum of end - start over all events of the stage's ranks / number of its ranks.
//
// wall time: of a rank, end - start of its run, read from its clock apart from the events. Per stage the mean over its
// ranks, added over attempts. Of a rank that did not close: up to its last event.
//
// unrecorded: wall time - the sum of all main-job events. Shown, never spread over other rows.
//
// tokens/s: tokens of the completed steps / sum of their times, on the lowest rank.
//
// model FLOP/s: FLOPs per token (formula in flops_formula) x tokens/s, all ranks together.
//
// MFU: model FLOP/s / (ranks x peak of a rank); not available without a known peak.
//
// fill: conversion = exclusive-device time of completed chunks / bubble time, over filled steps; yield = the same over
// the whole run; coverage = chunk time inside bubbles / bubble time; slowdown = median over pairs of adjacent filled
// and unfilled blocks of the step-time ratio, minus 1. Not available while nothing is filled.
//
// Bubble figures and step figures are those of the attempts that ran in the layout (stages, replicas, microbatches,
// schedule) of the last one; the time table is that of all.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "trace/distribution.hpp"
#include "trace/event.hpp"
#include "trace/trace_stream.hpp"

namespace pipefill {

using TimesByKind = std::array<std::int64_t, kEventKinds>;  ///< ns

struct StageSummary {
  int stage = 0;
  int ranks = 0;  ///< in the last attempt that had this stage
  double wall_s = 0;
  std::array<double, kEventKinds> seconds{};
  double unrecorded_s = 0;
  double bubble_fraction = kUnknown;
  double bubble_fraction_median = kUnknown;
};

struct StepsSummary {
  std::int64_t count = 0;  ///< as the lowest rank saw them, steps done again after a resume counted again
  std::int64_t first = 0, last = 0;
  double time_mean_s = kUnknown, time_median_s = kUnknown, time_p10_s = kUnknown, time_p90_s = kUnknown;
  double tokens_per_s = kUnknown;
  double loss_first = kUnknown, loss_last = kUnknown;
};

struct Summary {
  RunDescription run;
  int attempts = 0;
  int ranks = 0;           ///< of the last attempt
  int unclosed_ranks = 0;  ///< over all attempts
  std::int64_t events = 0;
  std::int64_t events_dropped = 0;
  double clock_uncertainty_s = 0;  ///< largest
  double bubble_fraction = kUnknown;
  double bubble_fraction_median = kUnknown;
  double model_flops_per_s = kUnknown;
  double mfu = kUnknown;
  StepsSummary steps;
  std::vector<StageSummary> stages;
  std::vector<BubbleRow> bubbles;     ///< by stage, slot, class
  std::vector<std::string> problems;  ///< what the source could not read
};

/// Adds up a trace as it streams past.
class Summarizer final : public TraceSink {
 public:
  void begin(const RunDescription& run) override;
  void ranks(std::span<const RankRow> rows) override;
  void steps(std::span<const StepRow> rows) override;
  void events(std::span<const EventRow> rows) override;

  std::vector<BubbleRow> bubbles() const;
  Summary finish() const;

 private:
  struct RankTotals {
    RankRow row;
    bool same_layout = false;  ///< as the last attempt
    std::int64_t first_step = -1, last_step = -1;
    std::int64_t step_ns = 0;    ///< sum over completed steps
    std::int64_t bubble_ns = 0;  ///< inside completed steps
    TimesByKind times{};
    // The step being added up, for the median of its bubble fraction.
    std::int64_t open_step = -1, open_bubble_ns = 0, open_total_ns = 0;
    Distribution fractions;  ///< in parts per 10^9
    void close_step();
  };
  struct SlotTotals {
    Distribution times;
    double transfer_ns = 0;
    std::int64_t free_memory_min = 0;
  };

  RankTotals& totals(std::int32_t attempt, std::int32_t rank);
  void add(const EventRow& event);
  StageSummary stage_summary(int stage) const;

  RunDescription run_;
  std::map<std::pair<std::int32_t, std::int32_t>, RankTotals> ranks_;                 ///< by attempt, rank
  std::map<std::tuple<std::int16_t, std::int32_t, std::int16_t>, SlotTotals> slots_;  ///< by stage, slot, kind
  std::int64_t events_ = 0;
  StepsSummary steps_;
  Distribution step_times_;
  std::int64_t tokens_ = 0;
  std::int32_t lowest_rank_ = 0;
};

/// For people: what a newcomer to the run understands.
std::string summary_text(const Summary& summary);
/// For programs; NaN becomes null.
std::string summary_json(const Summary& summary);

}  // namespace pipefill
