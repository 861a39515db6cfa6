// The summary as text for people and as JSON for programs.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
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
      {"other", "other", {EventKind::other}},
  };
  return rows;
}

double seconds(const StageSummary& stage, const TableRow& row) {
  double sum = 0;
  for (const EventKind kind : row.kinds) sum += stage.seconds[static_cast<std::size_t>(kind)];
  return sum;
}

std::string bubble_class(std::int16_t kind) {
  return std::string(event_kind_name(static_cast<EventKind>(kind))).substr(std::string("bubble_").size());
}

std::string number(double value, int decimals) {
  return std::isnan(value) ? "n/a" : fmt::format("{:.{}f}", value, decimals);
}
std::string percent(double value) { return std::isnan(value) ? "n/a" : fmt::format("{:.2f} %", 100 * value); }
std::string time(double seconds) {
  if (std::isnan(seconds)) return "n/a";
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.3f} ms", 1e3 * seconds) : fmt::format("{:.1f} us", 1e6 * seconds);
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
                       steps.last, time(steps.time_median_s), time(steps.time_p10_s), time(steps.time_p90_s),
                       number(steps.tokens_per_s, 0), number(steps.loss_first, 4), number(steps.loss_last, 4));
  } else {
    out += "no step was completed\n";
  }
  if (!std::isnan(summary.model_flops_per_s)) {
    out += fmt::format("model FLOP rate: {} GFLOP/s ({}), MFU {}\n", number(1e-9 * summary.model_flops_per_s, 1),
                       run.flops_formula,
                       std::isnan(summary.mfu) ? "n/a (the device's peak is not known)" : percent(summary.mfu));
  }
  out += fmt::format("\nbubble fraction: {} of the step time (median step {}); the schedule's closed form: {}\n",
                     percent(summary.bubble_fraction), percent(summary.bubble_fraction_median),
                     percent(run.bubble_fraction_closed_form));
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
    line("bubble fraction",
         [](const StageSummary& stage) { return fmt::format("{:>17}", percent(stage.bubble_fraction)); });
  }
}

void print_bubbles(std::string& out, const Summary& summary) {
  if (summary.bubbles.empty()) return;
  out += "\nbubbles by slot (position in the stage's program, - outside of it), in ms:\n";
  out += fmt::format("  {:>5} {:>5}  {:<14}{:>8}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}{:>14}\n", "stage", "slot", "class",
                     "count", "p10", "median", "p90", "p99", "mean", "transfer", "free memory");
  const auto ms = [](double ns) { return 1e-6 * ns; };
  for (const BubbleRow& row : summary.bubbles) {
    out += fmt::format("  {:>5} {:>5}  {:<14}{:>8}{:>10.3f}{:>10.3f}{:>10.3f}{:>10.3f}{:>10.3f}{:>12.3f}{:>14}\n",
                       row.stage, row.slot < 0 ? "-" : std::to_string(row.slot), bubble_class(row.kind), row.count,
                       ms(static_cast<double>(row.p10_ns)), ms(static_cast<double>(row.median_ns)),
                       ms(static_cast<double>(row.p90_ns)), ms(static_cast<double>(row.p99_ns)), ms(row.mean_ns),
                       ms(row.mean_transfer_ns), format_bytes(Bytes{row.free_memory_min_bytes}));
  }
}

void print_notes(std::string& out, const Summary& summary) {
  out += fmt::format("\nfill work: none in this run (conversion, coverage, yield and slowdown: n/a)\n");
  out += fmt::format("{} events; clocks of different ranks agree to +-{}\n", summary.events,
                     time(summary.clock_uncertainty_s));
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
                       {"free_memory_min_bytes", row.free_memory_min_bytes}});
  }
  const StepsSummary& steps = summary.steps;
  const Json none;
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
                 {"fill",
                  {{"conversion", none},
                   {"coverage", none},
                   {"yield", none},
                   {"slowdown", {{"median", none}, {"low", none}, {"high", none}}}}},
                 {"events", {{"count", summary.events}, {"dropped", summary.events_dropped}}},
                 {"unclosed_ranks", summary.unclosed_ranks},
                 {"clock_uncertainty_s", summary.clock_uncertainty_s},
                 {"problems", summary.problems}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace pipefill
