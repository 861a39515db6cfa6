// Which fill jobs run on which rank. Rank 0's clerk knows the jobs, every rank knows its bubbles and its workers; where
// one of them has news, all ranks meet between two steps: states go to rank 0, decisions come back. News is a job that
// came, is over or is to be taken back, and a stage whose jobs leave much of its bubbles unused: more may share it.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/rank_group.hpp"
#include "comm/process_layout.hpp"
#include "engine/bubble_fill.hpp"
#include "engine/fill_clerk.hpp"

namespace pipefill {

struct FillDeskSettings {
  PolicySettings policy{};
  std::size_t most_jobs = 1;  ///< that share a stage, at most kMostSharing
  /// How long a job runs with the main job absent, before the first step and after the last one, to learn what its
  /// chunks cost alone.
  Nanoseconds alone{300'000'000};
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

  /// Numbers of the jobs this rank has, in the order of their claim.
  std::vector<std::int32_t> jobs() const;
  /// For the checkpoint's manifest; "{}" on other ranks than 0.
  std::string progress() { return clerk_ != nullptr ? clerk_->progress() : "{}"; }

 private:
  bool has_room();
  std::string tell_state();
  FillExecutor hear(int rank, const std::string& text, nlohmann::json& drop, std::vector<ClerkJob>& stay);
  std::string decide(const std::vector<std::string>& states, std::int64_t step, Nanoseconds step_time);
  void obey(const std::string& orders);

  FillDeskSettings settings_;
  ProcessLayout layout_;
  RankGroup ranks_;
  FillClerk* clerk_;
  BubbleFill& fill_;
  Trace& trace_;
  Log log_;

  // For has_room: coverage is looked at over so many steps at a time.
  int steps_ = 0;
  FillFigures seen_;
  std::optional<double> told_coverage_;  ///< since the jobs last changed
};

}  // namespace pipefill
