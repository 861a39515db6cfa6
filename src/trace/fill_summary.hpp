// What fill work brought and what it cost: the sums behind the fill figures, whose formulas stand in summary.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/median_interval.hpp"
#include "trace/description.hpp"
#include "trace/distribution.hpp"
#include "trace/event.hpp"
#include "trace/rows.hpp"

namespace pipefill {

/// One job over all attempts.
struct FillJobSummary {
  std::string name;
  std::string kind;
  std::string configuration;
  std::int64_t chunks = -1;     ///< of the whole job; -1: not known
  std::int64_t done = 0;        ///< finished in this run
  std::int64_t done_alone = 0;  ///< of these, with the main job absent
  double samples = kUnknown;    ///< of the finished chunks, if all have as many
  double fill_s = 0;
  double overrun_s = 0;
  double exclusive_s = kUnknown;
  std::int64_t unpriced = 0;
};

/// NaN where nothing was filled.
struct FillSummary {
  std::int64_t filled_steps = 0;  ///< of the lowest rank
  double sold = kUnknown;
  double coverage = kUnknown;
  double conversion = kUnknown;
  double yield = kUnknown;
  double overrun = kUnknown;
  double overrun_s = kUnknown;
  std::int64_t hand_overs = 0;
  double hand_over_p50_s = kUnknown, hand_over_p99_s = kUnknown;
  MedianInterval slowdown{kUnknown, kUnknown, kUnknown, 0};  ///< count: pairs
  std::int64_t unpriced = 0;  ///< chunks that conversion and yield lack: none of their cost class ran alone
  std::vector<FillJobSummary> jobs;
};

/// Adds up what a Summarizer hands it.
class FillAccount {
 public:
  /// Of something that took time: in a completed step of the layout the summary is for, and whether that was filled.
  struct Where {
    bool in_step = false;
    bool filled = false;  ///< implies in_step
  };

  void name(const FillJobRow& row);
  void filled_step(std::int64_t step_ns) { step_ns_ += step_ns; }  ///< of any rank
  void lowest_ranks_step(const StepRow& row);
  void bubble(const EventRow& event, Where where);
  void hand_over(const EventRow& event) { hand_overs_.add(event.end_ns - event.start_ns); }
  void work(const EventRow& event, Where where);

  /// By attempt and job.
  std::vector<FillJobRow> jobs() const;
  FillSummary finish() const;

 private:
  using Job = std::pair<std::int32_t, std::int32_t>;  ///< attempt, number
  struct Amount {
    std::int64_t all = 0, in_steps = 0, in_filled = 0;
    void add(std::int64_t value, Where where);
  };
  struct JobTotals {
    FillJobRow row;  ///< names, and what can be added up as it comes
    Amount cpu;      ///< ns, of a program without chunks
    /// Finished chunks, by rank and cost class.
    std::map<std::pair<std::int32_t, std::int16_t>, Amount> chunks;
  };
  struct Alone {
    std::map<std::int32_t, Distribution> by_rank;
    Distribution on_all;
  };
  /// Useful time in ns, and the chunks it lacks.
  struct Worth {
    double all = 0, in_steps = 0, in_filled = 0;
    Amount unpriced;
  };
  struct Pair {
    std::int32_t attempt = 0;
    std::int64_t number = -1;
    std::int64_t filled_ns = 0, unfilled_ns = 0, filled = 0, unfilled = 0;
  };

  JobTotals& totals(std::int32_t attempt, std::int32_t job);
  std::optional<double> price(const std::string& who, std::int16_t cost_class, std::int32_t rank) const;
  Worth worth(const JobTotals& job) const;
  std::vector<double> slowdowns() const;

  std::map<Job, JobTotals> jobs_;
  std::map<std::pair<std::string, std::int16_t>, Alone> alone_;  ///< by job, cost class
  std::vector<Pair> pairs_;
  Distribution hand_overs_;
  std::int64_t filled_steps_ = 0, step_ns_ = 0;  ///< in filled steps, as all below but the next
  std::int64_t bubble_ns_in_steps_ = 0;
  std::int64_t bubble_ns_ = 0, granted_ns_ = 0, fill_ns_ = 0, overrun_ns_ = 0;
};

}  // namespace pipefill
