// Short tables that say what each figure means.
#include "trace/fill_print.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "trace/print_numbers.hpp"

namespace pipefill {
namespace {

std::string slowdown_text(const MedianInterval& slowdown) {
  if (slowdown.count == 0) return "of the main job: no filled and unfilled steps could be compared";
  const std::string interval =
      std::isfinite(slowdown.low) && std::isfinite(slowdown.high)
          ? fmt::format("95 % interval {} to {}", percent_text(slowdown.low), percent_text(slowdown.high))
          : "too few for an interval";
  return fmt::format("of the main job's step time: median of {} pair{} of filled and unfilled blocks, {}",
                     slowdown.count, slowdown.count == 1 ? "" : "s", interval);
}

void print_figures(std::string& out, const FillSummary& fill) {
  const auto line = [&](const char* name, const std::string& value, const std::string& meaning) {
    out += fmt::format("  {:<12}{:>10}  {}\n", name, value, meaning);
  };
  out += fmt::format("\nfill work in the bubbles of the {} filled step{}, all ranks together:\n", fill.filled_steps,
                     fill.filled_steps == 1 ? "" : "s");
  line("sold", percent_text(fill.sold), "of the bubble time was granted to fill work");
  line("coverage", percent_text(fill.coverage), "of it a fill chunk was running");
  line("conversion", percent_text(fill.conversion),
       "of it became useful work: what the finished chunks take when alone");
  line("yield", percent_text(fill.yield), "the same over all steps, measuring and comparing included");
  line("overrun", percent_text(fill.overrun), "of the step time fill work ran beside the main job's own");
  line("hand-over", time_text(fill.hand_over_p50_s),
       fmt::format("median from the input's arrival to the main job going on (p99 {}, {} times)",
                   time_text(fill.hand_over_p99_s), fill.hand_overs));
  line("slowdown", percent_text(fill.slowdown.median), slowdown_text(fill.slowdown));
  if (fill.unpriced > 0) {
    out += fmt::format(
        "  note: chunks finished but not in conversion and yield: {} (no chunk like them ran with the main job "
        "absent)\n",
        fill.unpriced);
  }
}

void print_jobs(std::string& out, const FillSummary& fill) {
  std::size_t width = 4;
  for (const FillJobSummary& job : fill.jobs) width = std::max(width, job.name.size());
  out +=
      fmt::format("\nfill jobs: chunks finished in this run, and the seconds these took in bubbles and take alone:\n");
  out += fmt::format("  {:<{}}  {:<10}{:<18}{:>16}{:>12}{:>12}{:>12}{:>12}\n", "name", width, "kind", "configuration",
                     "chunks", "samples", "in bubbles", "overrun", "alone");
  for (const FillJobSummary& job : fill.jobs) {
    const std::string chunks =
        job.chunks < 0 ? fmt::format("{}", job.done) : fmt::format("{} of {}", job.done, job.chunks);
    out += fmt::format("  {:<{}}  {:<10}{:<18}{:>16}{:>12}{:>12.3f}{:>12.3f}{:>12}\n", job.name, width, job.kind,
                       job.configuration, chunks, number_text(job.samples, 0), job.fill_s, job.overrun_s,
                       number_text(job.exclusive_s, 3));
  }
}

}  // namespace

std::string fill_text(const FillSummary& fill) {
  std::string out;
  if (fill.filled_steps > 0)
    print_figures(out, fill);
  else
    out += "\nfill work: no step was filled (conversion, coverage, yield and slowdown: n/a)\n";
  if (!fill.jobs.empty()) print_jobs(out, fill);
  return out;
}

nlohmann::ordered_json fill_json(const FillSummary& fill) {
  using Json = nlohmann::ordered_json;
  Json jobs = Json::array();
  for (const FillJobSummary& job : fill.jobs) {
    jobs.push_back({{"name", job.name},
                    {"kind", job.kind},
                    {"configuration", job.configuration},
                    {"chunks", job.chunks < 0 ? Json() : Json(job.chunks)},
                    {"done", job.done},
                    {"done_alone", job.done_alone},
                    {"samples", job.samples},
                    {"fill_s", job.fill_s},
                    {"overrun_s", job.overrun_s},
                    {"exclusive_s", job.exclusive_s},
                    {"unpriced", job.unpriced}});
  }
  const MedianInterval& slowdown = fill.slowdown;
  return {{"conversion", fill.conversion},
          {"coverage", fill.coverage},
          {"yield", fill.yield},
          {"slowdown",
           {{"median", slowdown.median}, {"low", slowdown.low}, {"high", slowdown.high}, {"pairs", slowdown.count}}},
          {"sold", fill.sold},
          {"overrun", fill.overrun},
          {"overrun_s", fill.overrun_s},
          {"hand_over", {{"count", fill.hand_overs}, {"p50_s", fill.hand_over_p50_s}, {"p99_s", fill.hand_over_p99_s}}},
          {"filled_steps", fill.filled_steps},
          {"unpriced", fill.unpriced},
          {"jobs", std::move(jobs)}};
}

}  // namespace pipefill
