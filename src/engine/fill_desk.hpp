// Which fill job runs on which rank. Rank 0's clerk knows the jobs, every rank knows its bubbles and its worker; where
// one of them has news, all ranks meet between two steps: states go to rank 0, decisions come back.
#pragma once

#include <memory>
#include <optional>

#include "checkpoint/rank_group.hpp"
#include "comm/process_layout.hpp"
#include "engine/bubble_fill.hpp"
#include "engine/fill_clerk.hpp"

namespace pipefill {

struct FillDeskSettings {
  PolicySettings policy;
  Nanoseconds alone{
      100'000'000};  ///< how long a job runs with the main job absent, to learn what its chunks cost alone
};

class FillDesk {
 public:
  /// `clerk`: rank 0's, null elsewhere. All outlive the desk.
  FillDesk(FillDeskSettings settings, ProcessLayout layout, RankGroup ranks, FillClerk* clerk, BubbleFill& fill,
           Trace& trace, Log log);

  /// Before the first step, all ranks: the jobs that are there are given out, and run alone for a while.
  void open();
  /// After a step: whether this rank wants to meet.
  bool has_news();
  /// All ranks: who has a job, who gets one. `step` is the last one done, `step_time` the median.
  void meet(std::int64_t step, Nanoseconds step_time);
  /// After the last step, all ranks: unfinished jobs run alone for a while, then rest.
  void close();

  std::int32_t job() const { return job_ ? static_cast<std::int32_t>(*job_) : -1; }
  /// For the checkpoint's manifest; "{}" on other ranks than 0.
  std::string progress() { return clerk_ != nullptr ? clerk_->progress() : "{}"; }

 private:
  std::string tell_state();
  std::string decide(const std::vector<std::string>& states, std::int64_t step, Nanoseconds step_time);
  void obey(const std::string& orders);

  FillDeskSettings settings_;
  ProcessLayout layout_;
  RankGroup ranks_;
  FillClerk* clerk_;
  BubbleFill& fill_;
  Trace& trace_;
  Log log_;
  std::optional<std::int64_t> job_;
  Nanoseconds told_{};  ///< fill time that the clerk knows of
};

}  // namespace pipefill
