// All that one rank needs to fill its bubbles, put together: worker, hand-over, desk, and on rank 0 the clerk.
#pragma once

#include <memory>
#include <optional>

#include "engine/fill_desk.hpp"
#include "engine/rank_services.hpp"
#include "schedule/schedule.hpp"

namespace pipefill {

struct FillSettings {
  bool runs_jobs = false;  ///< false: no strategy that fills, or a pipeline without bubbles
  BubbleFillSettings bubbles;
  SupervisorSettings worker;
  FillDeskSettings desk;
};

class FillSession {
 public:
  /// All ranks together, before the model is allocated. `clerk` settings count on rank 0. A job file of the deck that
  /// is wrong or missing is an error on all ranks. Hooks itself into `services`, which must outlive it.
  FillSession(const FillSettings& settings, const FillClerkSettings& clerk, const Program& program, RankGroup ranks,
              RankServices& services);

  FillDesk& desk() { return desk_; }

 private:
  std::unique_ptr<FillClerk> clerk_;
  FillCrew crew_;
  BubbleFill bubbles_;
  FillDesk desk_;
};

}  // namespace pipefill
