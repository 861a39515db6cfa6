// Chunks are counted as they stream past and priced at the end: what one takes alone is known only then.
#include "trace/fill_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pipefill {
namespace {

double seconds(std::int64_t ns) { return 1e-9 * static_cast<double>(ns); }
double ratio(double part, std::int64_t whole) { return whole > 0 ? part / static_cast<double>(whole) : kUnknown; }

/// A job is the same in all attempts when it has the same name; without one it is its number's.
std::string identity(const FillJobRow& row) {
  const std::string name = text(row.name);
  return name.empty() ? fmt::format("job {} of attempt {}", row.job, row.attempt) : name;
}

}  // namespace

void FillAccount::Amount::add(std::int64_t value, Where where) {
  all += value;
  if (where.in_step) in_steps += value;
  if (where.filled) in_filled += value;
}

FillAccount::JobTotals& FillAccount::totals(std::int32_t attempt, std::int32_t job) {
  JobTotals& found = jobs_[{attempt, job}];
  found.row.attempt = attempt;
  found.row.job = job;
  return found;
}

void FillAccount::name(const FillJobRow& row) {
  FillJobRow& known = totals(row.attempt, row.job).row;
  known.name = row.name;
  known.kind = row.kind;
  if (!text(row.configuration).empty()) known.configuration = row.configuration;
  if (row.chunks < 0) return;  // from a rank that knows less than another
  known.chunks = row.chunks;
  known.samples = row.samples;
}

void FillAccount::lowest_ranks_step(const StepRow& row) {
  if (row.filled == 1) ++filled_steps_;
  if (row.pair < 0 || row.filled < 0) return;
  if (pairs_.empty() || pairs_.back().attempt != row.attempt || pairs_.back().number != row.pair)
    pairs_.push_back({.attempt = row.attempt, .number = row.pair});
  Pair& pair = pairs_.back();
  (row.filled == 1 ? pair.filled_ns : pair.unfilled_ns) += row.end_ns - row.start_ns;
  ++(row.filled == 1 ? pair.filled : pair.unfilled);
}

void FillAccount::bubble(const EventRow& event, Where where) {
  const std::int64_t length = event.end_ns - event.start_ns;
  if (where.in_step) bubble_ns_in_steps_ += length;
  if (!where.filled) return;
  bubble_ns_ += length;
  granted_ns_ += event.granted_ns;
}

void FillAccount::work(const EventRow& event, Where where) {
  JobTotals& job = totals(event.attempt, event.job);
  const std::int64_t length = event.end_ns - event.start_ns;
  const auto kind = static_cast<EventKind>(event.kind);
  if (kind == EventKind::fill) {
    job.row.fill_ns += length;
    job.cpu.add(event.granted_ns, where);
    if (where.filled) fill_ns_ += length;
  }
  if (kind == EventKind::overrun) {
    job.row.overrun_ns += length;
    if (where.filled) overrun_ns_ += length;
  }
  if (event.cost_class < 0) return;
  ++job.row.done;
  job.chunks[{event.rank, event.cost_class}].add(1, where);
  if (kind != EventKind::exclusive) return;
  ++job.row.done_alone;
  Alone& alone = alone_[{identity(job.row), event.cost_class}];
  alone.by_rank[event.rank].add(length);
  alone.on_all.add(length);
}

std::optional<double> FillAccount::price(const std::string& who, std::int16_t cost_class, std::int32_t rank) const {
  const auto found = alone_.find({who, cost_class});
  if (found == alone_.end()) return std::nullopt;
  const auto own = found->second.by_rank.find(rank);
  return (own == found->second.by_rank.end() ? found->second.on_all : own->second).quantile(0.5);
}

FillAccount::Worth FillAccount::worth(const JobTotals& job) const {
  Worth result;
  if (job.cpu.all > 0) {
    result.all = static_cast<double>(job.cpu.all);
    result.in_steps = static_cast<double>(job.cpu.in_steps);
    result.in_filled = static_cast<double>(job.cpu.in_filled);
    return result;
  }
  const std::string who = identity(job.row);
  for (const auto& [key, count] : job.chunks) {
    const std::optional<double> each = price(who, key.second, key.first);
    if (!each) {
      result.unpriced.all += count.all;
      result.unpriced.in_steps += count.in_steps;
      result.unpriced.in_filled += count.in_filled;
      continue;
    }
    result.all += *each * static_cast<double>(count.all);
    result.in_steps += *each * static_cast<double>(count.in_steps);
    result.in_filled += *each * static_cast<double>(count.in_filled);
  }
  return result;
}

std::vector<FillJobRow> FillAccount::jobs() const {
  std::vector<FillJobRow> rows;
  for (const auto& [key, job] : jobs_) {
    const Worth brought = worth(job);
    rows.push_back(job.row);
    rows.back().exclusive_ns = std::llround(brought.all);
    rows.back().unpriced = brought.unpriced.all;
  }
  return rows;
}

/// One number per pair. A pair that a stop or disturbed steps cut to less than half of a block on either side is left
/// out; the block is the longest side there is.
std::vector<double> FillAccount::slowdowns() const {
  std::int64_t block = 0;
  for (const Pair& pair : pairs_) block = std::max({block, pair.filled, pair.unfilled});
  std::vector<double> result;
  for (const Pair& pair : pairs_) {
    const std::int64_t least = std::min(pair.filled, pair.unfilled);
    if (least == 0 || 2 * least < block || pair.unfilled_ns <= 0) continue;
    result.push_back(ratio(static_cast<double>(pair.filled_ns), pair.filled) /
                         ratio(static_cast<double>(pair.unfilled_ns), pair.unfilled) -
                     1);
  }
  return result;
}

FillSummary FillAccount::finish() const {
  FillSummary result;
  std::map<std::string, std::size_t> places;
  double filled_worth = 0, steps_worth = 0;
  bool priced = false;
  for (const auto& [key, job] : jobs_) {
    const Worth brought = worth(job);
    filled_worth += brought.in_filled;
    steps_worth += brought.in_steps;
    result.unpriced += brought.unpriced.in_steps;
    priced = priced || brought.in_steps > 0;

    const auto [place, is_new] = places.try_emplace(identity(job.row), result.jobs.size());
    if (is_new) result.jobs.emplace_back();
    FillJobSummary& sum = result.jobs[place->second];
    sum.name = place->first;
    sum.kind = text(job.row.kind);
    sum.configuration = text(job.row.configuration);
    sum.chunks = std::max(sum.chunks, job.row.chunks);
    sum.done += job.row.done;
    sum.done_alone += job.row.done_alone;
    sum.fill_s += seconds(job.row.fill_ns);
    sum.overrun_s += seconds(job.row.overrun_ns);
    sum.unpriced += brought.unpriced.all;
    if (brought.all > 0) sum.exclusive_s = 1e-9 * brought.all + (std::isnan(sum.exclusive_s) ? 0 : sum.exclusive_s);
    if (sum.chunks > 0) sum.samples = job.row.samples * ratio(static_cast<double>(sum.done), sum.chunks);
  }

  if (const std::vector<double> ratios = slowdowns(); !ratios.empty()) result.slowdown = median_interval(ratios);
  result.filled_steps = filled_steps_;
  if (filled_steps_ == 0) return result;
  result.sold = ratio(static_cast<double>(granted_ns_), bubble_ns_);
  result.coverage = ratio(static_cast<double>(fill_ns_), bubble_ns_);
  if (priced || result.unpriced == 0) {
    result.conversion = ratio(filled_worth, bubble_ns_);
    result.yield = ratio(steps_worth, bubble_ns_in_steps_);
  }
  result.overrun = ratio(static_cast<double>(overrun_ns_), step_ns_);
  result.overrun_s = seconds(overrun_ns_);
  result.hand_overs = hand_overs_.count();
  if (result.hand_overs > 0) {
    result.hand_over_p50_s = 1e-9 * hand_overs_.quantile(0.5);
    result.hand_over_p99_s = 1e-9 * hand_overs_.quantile(0.99);
  }
  return result;
}

}  // namespace pipefill
