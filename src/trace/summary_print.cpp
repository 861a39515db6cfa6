// The summary as text for people and as JSON for programs.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "trace/fill_print.hpp"
#include "trace/print_numbers.hpp"
#include "trace/summary.hpp"

namespace pipefill {
namespace {

constexpr std::size_t kColumns = 8;  // stages side by side

/// One row of the time table: the kinds it adds up.
struct TableRow {
  const char* key;  ///< in JSON, before "_s"
  const char* label;
  std::vector<EventKind> kinds;
};

const std::vector<TableRow>& table_rows() {
  static const std::vector<TableRow> rows{
      {"forward", "forward", {EventKind::forward}},
      {"backward", "backward", {EventKind::backward, EventKind::backward_input, EventKind::backward_weight}},
      {"optimizer", "optimizer", {EventKind::optimizer}},
      {"transfer", "transfer", {EventKind::transfer}},
      {"collective", "collective", {EventKind::collective}},
      {"checkpoint", "checkpoint", {EventKind::checkpoint}},
      {"data", "data", {EventKind::data}},
      {"validation", "validation", {EventKind::validation}},
      {"start_up", "start-up", {EventKind::start_up}},
      {"bubble_warm_up", "bubble: warm-up", {EventKind::bubble_warm_up}},
      {"bubble_steady", "bubble: steady", {EventKind::bubble_steady}},
      {"bubble_cool_down", "bubble: cool-down", {EventKind::bubble_cool_down}},
      {"bubble_collective", "bubble: collective", {EventKind::bubble_collective}},
      {"bubble_step_boundary", "bubble: step boundary", {EventKind::bubble_step_boundary}},
      {"hand_over", "hand-over after fill", {EventKind::hand_over}},
      {"other", "other", {EventKind::other}},
  };
  return rows;
}

double seconds(const StageSummary& stage, const TableRow& row) {
  double sum = 0;
  for (const EventKind kind : row.kinds) sum += stage.seconds[static_cast<std::size_t>(kind)];
  return sum;
}

/// Fill work lies over the rows above: told apart, no part of the sum.
struct WorkRow {
  const char* key;
  const char* label;
  EventKind kind;
};
constexpr WorkRow kWorkRows[] = {{"in_bubbles", "fill work in bubbles", EventKind::fill},
                                 {"overrun", "fill work overrun", EventKind::overrun},
                                 {"alone", "fill work alone", EventKind::exclusive}};

std::string bubble_class(std::int16_t kind) {
  return std::string(event_kind_name(static_cast<EventKind>(kind))).substr(std::string("bubble_").size());
}

void print_head(std::string& out, const Summary& summary) {
  const RunDescription& run = summary.run;
  out += fmt::format("run {}: {} rank{} = {} stage{} x {} replica{}, schedule {}, {} microbatch{} a step", run.run_id,
                     summary.ranks, summary.ranks == 1 ? "" : "s", run.stages, run.stages == 1 ? "" : "s", run.replicas,
                     run.replicas == 1 ? "" : "s", run.schedule, run.microbatches, run.microbatches == 1 ? "" : "es");
  if (summary.attempts > 1) out += fmt::format(", in {} attempts (started, then resumed)", summary.attempts);
  out += '\n';
  const StepsSummary& steps = summary.steps;
  if (steps.count > 0) {
    out += fmt::format("steps {} to {}: median {} (p10 {}, p90 {}), {} tokens/s, loss {} -> {}\n", steps.first,
                       steps.last, time_text(steps.time_median_s), time_text(steps.time_p10_s),
                       time_text(steps.time_p90_s), number_text(steps.tokens_per_s, 0),
                       number_text(steps.loss_first, 4), number_text(steps.loss_last, 4));
  } else {
    out += "no step was completed\n";
  }
  if (!std::isnan(summary.model_flops_per_s)) {
    out += fmt::format("model FLOP rate: {} GFLOP/s ({}), MFU {}\n", number_text(1e-9 * summary.model_flops_per_s, 1),
                       run.flops_formula,
                       std::isnan(summary.mfu) ? "n/a (the device's peak is not known)" : percent_text(summary.mfu));
  }
  out += fmt::format("\nbubble fraction: {} of the step time (median step {}); the schedule's closed form: {}\n",
                     percent_text(summary.bubble_fraction), percent_text(summary.bubble_fraction_median),
                     percent_text(run.bubble_fraction_closed_form));
  out += "  (a bubble is the time a stage has nothing to run until its next input has arrived)\n";
}

void print_times(std::string& out, const Summary& summary) {
  out += "\nwhere the wall time went, in seconds and percent of it (mean over a stage's ranks):\n";
  for (std::size_t first = 0; first < summary.stages.size(); first += kColumns) {
    const auto last = std::min(first + kColumns, summary.stages.size());
    const auto line = [&](const std::string& label, auto&& cell) {
      out += fmt::format("  {:<22}", label);
      for (std::size_t i = first; i < last; ++i) out += cell(summary.stages[i]);
      out += '\n';
    };
    const auto amount = [](double value, double whole) {
      if (std::abs(value) < 5e-7 * whole) value = 0;  // the rounding of a sum, which would show as -0.000
      return fmt::format("{:>10.3f} {:>5.1f}%", value, whole > 0 ? 100 * value / whole : 0.0);
    };
    line("", [](const StageSummary& stage) { return fmt::format("{:>17}", fmt::format("stage {}", stage.stage)); });
    for (const TableRow& row : table_rows()) {
      line(row.label, [&](const StageSummary& stage) { return amount(seconds(stage, row), stage.wall_s); });
    }
    line("not recorded", [&](const StageSummary& stage) { return amount(stage.unrecorded_s, stage.wall_s); });
    line("wall time", [&](const StageSummary& stage) { return amount(stage.wall_s, stage.wall_s); });
    for (const WorkRow& row : kWorkRows) {
      const auto index = static_cast<std::size_t>(row.kind);
      const auto ran = [&](const StageSummary& stage) { return stage.seconds[index] > 0; };
      if (std::none_of(summary.stages.begin(), summary.stages.end(), ran)) continue;
      line(row.label, [&](const StageSummary& stage) { return amount(stage.seconds[index], stage.wall_s); });
    }
    line("bubble fraction",
         [](const StageSummary& stage) { return fmt::format("{:>17}", percent_text(stage.bubble_fraction)); });
  }
}

void print_bubbles(std::string& out, const Summary& summary) {
  if (summary.bubbles.empty()) return;
  out += "\nbubbles by slot (position in the stage's program, - outside of it), in ms:\n";
  out += fmt::format("  {:>5} {:>5}  {:<14}{:>8}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}{:>14}", "stage", "slot", "class",
                     "count", "p10", "median", "p90", "p99", "mean", "transfer", "free memory");
  const bool filled = summary.fill.filled_steps > 0;  // then also means over the filled steps
  out += filled ? fmt::format("{:>10}{:>10}\n", "sold", "filled") : "\n";
  const auto ms = [](double ns) { return 1e-6 * ns; };
  for (const BubbleRow& row : summary.bubbles) {
    out += fmt::format("  {:>5} {:>5}  {:<14}{:>8}{:>10.3f}{:>10.3f}{:>10.3f}{:>10.3f}{:>10.3f}{:>12.3f}{:>14}",
                       row.stage, row.slot < 0 ? "-" : std::to_string(row.slot), bubble_class(row.kind), row.count,
                       ms(static_cast<double>(row.p10_ns)), ms(static_cast<double>(row.median_ns)),
                       ms(static_cast<double>(row.p90_ns)), ms(static_cast<double>(row.p99_ns)), ms(row.mean_ns),
                       ms(row.mean_transfer_ns), format_bytes(Bytes{row.free_memory_min_bytes}));
    out += filled ? fmt::format("{:>10}{:>10}\n", number_text(ms(row.mean_granted_ns), 3),
                                number_text(ms(row.mean_filled_ns), 3))
                  : "\n";
  }
}

void print_notes(std::string& out, const Summary& summary) {
  out += fmt::format("\n{} events; clocks of different ranks agree to +-{}\n", summary.events,
                     time_text(summary.clock_uncertainty_s));
  if (summary.events_dropped > 0) {
    out += fmt::format("note: {} events were dropped while the trace could not be written; the times above lack them\n",
                       summary.events_dropped);
  }
  if (summary.unclosed_ranks > 0) {
    out += fmt::format(
        "note: {} rank(s) did not close their trace (killed, or still running); their wall time ends with the last "
        "event that reached the disk\n",
        summary.unclosed_ranks);
  }
  for (const std::string& problem : summary.problems) out += "note: " + problem + '\n';
}

}  // namespace

std::string summary_text(const Summary& summary) {
  std::string out;
  print_head(out, summary);
  print_times(out, summary);
  print_bubbles(out, summary);
  out += fill_text(summary.fill);
  print_notes(out, summary);
  return out;
}

std::string summary_json(const Summary& summary) {
  using Json = nlohmann::ordered_json;
  const RunDescription& run = summary.run;
  Json stages = Json::array();
  for (const StageSummary& stage : summary.stages) {
    Json row{{"stage", stage.stage}, {"ranks", stage.ranks}, {"wall_s", stage.wall_s}};
    for (const TableRow& kind : table_rows()) row[std::string(kind.key) + "_s"] = seconds(stage, kind);
    row["unrecorded_s"] = stage.unrecorded_s;
    Json work;
    for (const WorkRow& kind : kWorkRows)
      work[std::string(kind.key) + "_s"] = stage.seconds[static_cast<std::size_t>(kind.kind)];
    row["fill_work"] = std::move(work);
    row["bubble_fraction"] = stage.bubble_fraction;
    row["bubble_fraction_median"] = stage.bubble_fraction_median;
    stages.push_back(std::move(row));
  }
  Json bubbles = Json::array();
  for (const BubbleRow& row : summary.bubbles) {
    bubbles.push_back({{"stage", row.stage},
                       {"slot", row.slot},
                       {"class", bubble_class(row.kind)},
                       {"count", row.count},
                       {"mean_ns", row.mean_ns},
                       {"p10_ns", row.p10_ns},
                       {"median_ns", row.median_ns},
                       {"p90_ns", row.p90_ns},
                       {"p99_ns", row.p99_ns},
                       {"mean_transfer_ns", row.mean_transfer_ns},
                       {"free_memory_min_bytes", row.free_memory_min_bytes},
                       {"mean_granted_ns", row.mean_granted_ns},
                       {"mean_filled_ns", row.mean_filled_ns}});
  }
  const StepsSummary& steps = summary.steps;
  const Json out{{"run_id", run.run_id},
                 {"attempts", summary.attempts},
                 {"schedule", run.schedule},
                 {"layout",
                  {{"ranks", summary.ranks},
                   {"stages", run.stages},
                   {"replicas", run.replicas},
                   {"microbatches", run.microbatches}}},
                 {"bubble_fraction", summary.bubble_fraction},
                 {"bubble_fraction_median", summary.bubble_fraction_median},
                 {"bubble_fraction_closed_form", run.bubble_fraction_closed_form},
                 {"stages", std::move(stages)},
                 {"bubbles", std::move(bubbles)},
                 {"steps",
                  {{"count", steps.count},
                   {"first", steps.first},
                   {"last", steps.last},
                   {"time_mean_s", steps.time_mean_s},
                   {"time_median_s", steps.time_median_s},
                   {"time_p10_s", steps.time_p10_s},
                   {"time_p90_s", steps.time_p90_s},
                   {"tokens_per_s", steps.tokens_per_s},
                   {"loss_first", steps.loss_first},
                   {"loss_last", steps.loss_last}}},
                 {"model_flops_per_s", summary.model_flops_per_s},
                 {"flops_formula", run.flops_formula},
                 {"mfu", summary.mfu},
                 {"fill", fill_json(summary.fill)},
                 {"events", {{"count", summary.events}, {"dropped", summary.events_dropped}}},
                 {"unclosed_ranks", summary.unclosed_ranks},
                 {"clock_uncertainty_s", summary.clock_uncertainty_s},
                 {"problems", summary.problems}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace pipefill
