// Runs all programs together without durations, and names who waits for whom when they do not end.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/dry_run.hpp"
#include "schedule/text.hpp"

namespace pipefill {
namespace {

std::string describe(const Schedule& schedule, Place place) {
  const Program& program = schedule.programs[static_cast<std::size_t>(place.stage)];
  return fmt::format("stage {} at {} ({})", place.stage, place.index,
                     to_text(program[static_cast<std::size_t>(place.index)]));
}

/// Which instructions have run: those before each stage's next one.
struct Progress {
  std::vector<int> next;
  bool done(Place place) const { return place.index < next[static_cast<std::size_t>(place.stage)]; }
};

const Dependency* first_missing(const std::vector<Dependency>& dependencies, const Progress& progress) {
  const auto missing = std::find_if(dependencies.begin(), dependencies.end(),
                                    [&](const Dependency& dependency) { return !progress.done(dependency.on); });
  return missing == dependencies.end() ? nullptr : &*missing;
}

}  // namespace

DryRun dry_run(const Schedule& schedule, SendMode mode) {
  const Dependencies dependencies = find_dependencies(schedule, mode);
  Progress progress{std::vector<int>(schedule.programs.size(), 0)};
  DryRun run;
  const auto length = [&](int stage) {
    return static_cast<int>(schedule.programs[static_cast<std::size_t>(stage)].size());
  };
  const auto standing = [&](int stage) { return Place{stage, progress.next[static_cast<std::size_t>(stage)]}; };
  const auto waits_for = [&](Place place) {
    return first_missing(dependencies[static_cast<std::size_t>(place.stage)][static_cast<std::size_t>(place.index)],
                         progress);
  };

  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < schedule.stages(); ++stage) {
      const Place place = standing(stage);
      if (place.index == length(stage) || waits_for(place) != nullptr) continue;
      run.order.push_back(place);
      ++progress.next[static_cast<std::size_t>(stage)];
      moved = true;
    }
  }
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    if (standing(stage).index < length(stage)) run.stuck.push_back(standing(stage));
  }
  if (run.complete()) return run;

  // Whoever is stuck waits for a stage that is stuck itself, so following the waits must come back: that is the cycle.
  std::vector<Place> path;
  Place place = run.stuck.front();
  while (std::find(path.begin(), path.end(), place) == path.end()) {
    path.push_back(place);
    place = standing(waits_for(place)->on.stage);
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), place));
  for (const Place at : path) {
    const Place needed = waits_for(at)->on;
    run.cycle += fmt::format("{}{} waits for {}", run.cycle.empty() ? "" : ", ", describe(schedule, at),
                             describe(schedule, needed));
  }
  return run;
}

SendSafety is_safe_under_synchronous_sends(const Schedule& schedule) {
  SendSafety safety{dry_run(schedule, SendMode::synchronous).stuck, ""};
  for (const Place place : safety.stuck) {
    safety.text += (safety.text.empty() ? "unsafe under synchronous sends: " : ", ") + describe(schedule, place);
  }
  return safety;
}

}  // namespace pipefill
