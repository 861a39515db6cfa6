// The sums behind the metrics; the formulas stand in the header.
#include "trace/summary.hpp"

#include <algorithm>
#include <iterator>
#include <set>

namespace pipefill {
namespace {

constexpr double kParts = 1e9;  // fractions are kept as whole numbers of this part

double seconds(std::int64_t ns) { return 1e-9 * static_cast<double>(ns); }
double ratio(double part, double whole) { return whole > 0 ? part / whole : kUnknown; }
EventKind kind_of(const EventRow& event) { return static_cast<EventKind>(event.kind); }

bool between_steps(EventKind kind) { return kind == EventKind::checkpoint || kind == EventKind::validation; }

bool runs_in_layout(const RankRow& row, const RankRow& other) {
  return row.stages == other.stages && row.replicas == other.replicas && row.microbatches == other.microbatches &&
         row.schedule == other.schedule;
}

}  // namespace

void Summarizer::RankTotals::close_step() {
  if (open_step >= first_step && open_step <= last_step && open_step >= 1 && open_total_ns > 0) {
    fractions.add(static_cast<std::int64_t>(
        kParts * ratio(static_cast<double>(open_bubble_ns), static_cast<double>(open_total_ns))));
  }
  open_bubble_ns = open_total_ns = 0;
}

FillAccount::Where Summarizer::RankTotals::where(std::int64_t step) const {
  if (!same_layout || step < 1 || step < first_step || step > last_step) return {};
  const auto after = filled_from.upper_bound(step);
  return {.in_step = true, .filled = after != filled_from.begin() && std::prev(after)->second == 1};
}

void Summarizer::begin(const RunDescription& run) { run_ = run; }

void Summarizer::ranks(std::span<const RankRow> rows) {
  for (const RankRow& row : rows) totals(row.attempt, row.rank).row = row;
  if (ranks_.empty()) return;
  const RankRow last = ranks_.rbegin()->second.row;  // the highest rank of the last attempt
  for (auto& [key, rank] : ranks_) rank.same_layout = runs_in_layout(rank.row, last);
  lowest_rank_ = std::min_element(ranks_.begin(), ranks_.end(), [](const auto& a, const auto& b) {
                   return a.first.second < b.first.second;
                 })->first.second;
}

Summarizer::RankTotals& Summarizer::totals(std::int32_t attempt, std::int32_t rank) {
  RankTotals& found = ranks_[{attempt, rank}];
  found.row.attempt = attempt;
  found.row.rank = rank;
  return found;
}

void Summarizer::fill_jobs(std::span<const FillJobRow> rows) {
  for (const FillJobRow& row : rows) fill_.name(row);
}

void Summarizer::steps(std::span<const StepRow> rows) {
  for (const StepRow& row : rows) {
    RankTotals& rank = totals(row.attempt, row.rank);
    rank.first_step = rank.first_step < 0 ? row.step : std::min<std::int64_t>(rank.first_step, row.step);
    rank.last_step = std::max<std::int64_t>(rank.last_step, row.step);
    rank.step_ns += row.end_ns - row.start_ns;
    if (!std::isnan(row.loss)) {
      if (std::isnan(steps_.loss_first)) steps_.loss_first = row.loss;
      if (row.step >= steps_.last) steps_.loss_last = row.loss;
    }
    if (steps_.first == 0) steps_.first = row.step;
    steps_.last = std::max<std::int64_t>(steps_.last, row.step);
    if (rank.filled_from.empty() || rank.filled_from.rbegin()->second != row.filled)
      rank.filled_from.emplace(row.step, row.filled);
    if (!rank.same_layout) continue;
    if (row.filled == 1) fill_.filled_step(row.end_ns - row.start_ns);
    if (row.rank != lowest_rank_) continue;
    fill_.lowest_ranks_step(row);
    ++steps_.count;
    step_times_.add(row.end_ns - row.start_ns);
    tokens_ += row.tokens;
  }
}

void Summarizer::events(std::span<const EventRow> rows) {
  for (const EventRow& event : rows) add(event);
}

void Summarizer::add(const EventRow& event) {
  if (event.kind < 0 || event.kind >= kEventKinds) return;  // a kind of a later minor version: unknown here
  ++events_;
  const EventKind kind = kind_of(event);
  const std::int64_t length = event.end_ns - event.start_ns;
  RankTotals& rank = totals(event.attempt, event.rank);
  rank.times[event.kind] += length;
  if (is_fill_work(kind)) return add_fill_work(event, rank);

  if (event.step != rank.open_step) {
    rank.close_step();
    rank.open_step = event.step;
  }
  if (!between_steps(kind)) rank.open_total_ns += length;
  if (kind == EventKind::hand_over && rank.where(event.step).filled) fill_.hand_over(event);
  if (is_bubble(kind)) add_bubble(event, rank);
}

void Summarizer::add_bubble(const EventRow& event, RankTotals& rank) {
  const std::int64_t length = event.end_ns - event.start_ns;
  const FillAccount::Where where = rank.where(event.step);
  rank.open_bubble_ns += length;
  rank.open_slot = nullptr;
  if (!where.in_step) return;
  rank.bubble_ns += length;
  fill_.bubble(event, where);

  SlotTotals& slot = slots_[{event.stage, event.slot, event.kind}];
  slot.free_memory_min = slot.times.count() == 0 ? event.bytes : std::min(slot.free_memory_min, event.bytes);
  slot.times.add(length);
  slot.transfer_ns += static_cast<double>(event.transfer_ns);
  if (!where.filled) return;
  ++slot.sold;
  slot.granted_ns += static_cast<double>(event.granted_ns);
  rank.open_slot = &slot;
  rank.open_slot_end_ns = event.end_ns;
}

void Summarizer::add_fill_work(const EventRow& event, RankTotals& rank) {
  fill_.work(event, rank.where(event.step));
  if (event.kind == static_cast<int>(EventKind::fill) && rank.open_slot != nullptr &&
      event.start_ns < rank.open_slot_end_ns)
    rank.open_slot->filled_ns += static_cast<double>(event.end_ns - event.start_ns);
}

std::vector<BubbleRow> Summarizer::bubbles() const {
  std::vector<BubbleRow> rows;
  for (const auto& [key, slot] : slots_) {
    const auto quantile = [&](double q) { return static_cast<std::int64_t>(std::llround(slot.times.quantile(q))); };
    BubbleRow row;
    row.stage = std::get<0>(key);
    row.slot = std::get<1>(key);
    row.kind = std::get<2>(key);
    row.count = slot.times.count();
    row.mean_ns = slot.times.mean();
    row.p10_ns = quantile(0.1);
    row.median_ns = quantile(0.5);
    row.p90_ns = quantile(0.9);
    row.p99_ns = quantile(0.99);
    row.mean_transfer_ns = slot.transfer_ns / static_cast<double>(row.count);
    row.free_memory_min_bytes = slot.free_memory_min;
    row.mean_granted_ns = ratio(slot.granted_ns, static_cast<double>(slot.sold));
    row.mean_filled_ns = ratio(slot.filled_ns, static_cast<double>(slot.sold));
    rows.push_back(row);
  }
  return rows;
}

StageSummary Summarizer::stage_summary(int stage) const {
  StageSummary result;
  result.stage = stage;
  std::map<std::int32_t, std::vector<const RankTotals*>> by_attempt;
  for (const auto& [key, rank] : ranks_)
    if (rank.row.stage == stage) by_attempt[key.first].push_back(&rank);

  double bubble_ns = 0, step_ns = 0, medians = 0;
  int with_median = 0;
  for (const auto& [attempt, ranks] : by_attempt) {
    const auto share = 1.0 / static_cast<double>(ranks.size());
    result.ranks = static_cast<int>(ranks.size());
    for (const RankTotals* rank : ranks) {
      const std::int64_t end = rank->row.end_ns >= 0 ? rank->row.end_ns : rank->row.last_event_ns;
      result.wall_s += share * seconds(std::max<std::int64_t>(0, end - rank->row.start_ns));
      for (int kind = 0; kind < kEventKinds; ++kind) result.seconds[kind] += share * seconds(rank->times[kind]);
      if (!rank->same_layout) continue;
      bubble_ns += static_cast<double>(rank->bubble_ns);
      step_ns += static_cast<double>(rank->step_ns);
      RankTotals last = *rank;
      last.close_step();
      if (last.fractions.count() == 0) continue;
      medians += last.fractions.quantile(0.5) / kParts;
      ++with_median;
    }
  }
  result.unrecorded_s = result.wall_s;
  for (int kind = 0; kind < kEventKinds; ++kind)
    if (!is_fill_work(static_cast<EventKind>(kind))) result.unrecorded_s -= result.seconds[kind];
  result.bubble_fraction = ratio(bubble_ns, step_ns);
  result.bubble_fraction_median = ratio(medians, with_median);
  return result;
}

Summary Summarizer::finish() const {
  Summary result;
  result.run = run_;
  result.events = events_;
  result.bubbles = bubbles();
  result.fill = fill_.finish();

  std::set<int> attempts, stages;
  double bubble_ns = 0, step_ns = 0;
  const std::int32_t last_attempt = ranks_.empty() ? 0 : ranks_.rbegin()->first.first;
  for (const auto& [key, rank] : ranks_) {
    attempts.insert(key.first);
    stages.insert(rank.row.stage);
    result.ranks += key.first == last_attempt;
    result.unclosed_ranks += rank.row.end_ns < 0;
    result.events_dropped += rank.row.events_dropped;
    result.clock_uncertainty_s = std::max({result.clock_uncertainty_s, seconds(rank.row.clock_start_uncertainty_ns),
                                           seconds(rank.row.clock_end_uncertainty_ns)});
    if (!rank.same_layout) continue;
    bubble_ns += static_cast<double>(rank.bubble_ns);
    step_ns += static_cast<double>(rank.step_ns);
  }
  result.attempts = static_cast<int>(attempts.size());
  result.bubble_fraction = ratio(bubble_ns, step_ns);

  double medians = 0;
  int weight = 0;
  for (const int stage : stages) {
    result.stages.push_back(stage_summary(stage));
    const StageSummary& last = result.stages.back();
    if (std::isnan(last.bubble_fraction_median)) continue;
    medians += last.bubble_fraction_median * last.ranks;
    weight += last.ranks;
  }
  result.bubble_fraction_median = ratio(medians, weight);

  result.steps = steps_;
  if (step_times_.count() > 0) {
    result.steps.time_mean_s = 1e-9 * step_times_.mean();
    result.steps.time_median_s = 1e-9 * step_times_.quantile(0.5);
    result.steps.time_p10_s = 1e-9 * step_times_.quantile(0.1);
    result.steps.time_p90_s = 1e-9 * step_times_.quantile(0.9);
    result.steps.tokens_per_s = ratio(static_cast<double>(tokens_), 1e-9 * step_times_.sum());
  }
  result.model_flops_per_s = run_.flops_per_token * result.steps.tokens_per_s;
  result.mfu = result.model_flops_per_s / (run_.peak_flops_per_rank * result.ranks);
  return result;
}

}  // namespace pipefill
