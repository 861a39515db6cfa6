#include "engine/fill_session.hpp"

namespace pipefill {
namespace {

std::unique_ptr<FillClerk> hire_clerk(const FillClerkSettings& settings, const RankGroup& ranks, const Log& log) {
  std::unique_ptr<FillClerk> clerk;
  all_or_none(ranks, [&] {
    if (ranks.rank == 0) clerk = std::make_unique<FillClerk>(settings, log);
  });
  return clerk;
}

SupervisorSettings with_doorbell(SupervisorSettings settings, const RankServices& services) {
  if (services.doorbells != nullptr) settings.doorbell = services.doorbells->place(services.rank());
  return settings;
}

}  // namespace

FillSession::FillSession(const FillSettings& settings, const FillClerkSettings& clerk, const Program& program,
                         RankGroup ranks, RankServices& services)
    : clerk_(hire_clerk(clerk, ranks, services.log)),
      crew_(with_doorbell(settings.worker, services), services.log),
      bubbles_(settings.bubbles, program, crew_, services.trace, {services.doorbells, services.rank()}),
      desk_(settings.desk, services.layout, ranks, clerk_.get(), bubbles_, services.trace, services.log) {
  const std::vector<std::string> jobs = ranks.gather(clerk_ != nullptr && clerk_->has_jobs() ? "jobs" : "");
  if (!jobs.front().empty()) crew_.start();  // the rank is small yet
  services.fill = &bubbles_;
  services.desk = &desk_;
}

}  // namespace pipefill
