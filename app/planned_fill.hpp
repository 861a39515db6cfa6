// What the deck's fill jobs will do in the bubbles of a planned run: who gets which job, which chunks run where. Jobs
// are planned in a temporary directory, their kinds in a process of their own; nothing of the run is touched.
#pragma once

#include <string>
#include <vector>

#include "fill/draw_plan.hpp"
#include "planned_run.hpp"

namespace pipefill {

/// Of one stage.
struct PlannedFillStage {
  BubbleCycle cycle;
  std::vector<const FillJobInfo*> jobs;  ///< in the order of their claim; point into PlannedFill::jobs
  FillPlan plan;
};

struct PlannedFill {
  std::vector<FillJobInfo> jobs;  ///< of the deck, as far as they could be planned
  std::vector<PlannedFillStage> stages;
  std::vector<std::string> troubles;  ///< a line for each job that could not
};

/// Chunks are priced by their FLOPs and bytes at the main job's nominal rate, so that they go with its bubbles.
/// DeckError and FileError for job files that train would refuse.
PlannedFill predict_fill(const RunConfig& config, const PlannedRun& run);

/// For the drawing of the schedule.
std::vector<DrawnWork> drawn_work(const PlannedFill& fill, const PlannedRun& run);
/// For people: the jobs, bubble by bubble their chunks, and the conversion to expect.
std::string fill_lines(const PlannedFill& fill, const PlannedRun& run, const RunConfig& config);

}  // namespace pipefill
