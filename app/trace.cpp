// pipefill trace summary|merge: where a run's time went, and its ranks' segments joined into one file. Needs no MPI.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "commands.hpp"
#include "trace/merge.hpp"
#include "trace/summary.hpp"

namespace pipefill {
namespace {

struct TraceArguments {
  std::string run;
  bool json = false;
};

/// A damaged part was passed over: the result stands, but the exit code says that it is not all.
ExitCode exit_code(const TraceProblems& problems) {
  return problems.damaged.empty() ? ExitCode::finished : ExitCode::damaged_data;
}

ExitCode summary(const TraceArguments& arguments) {
  Summarizer summarizer;
  const TraceProblems problems = read_trace(arguments.run, summarizer);
  Summary result = summarizer.finish();
  result.problems = problems.all();
  std::fputs((arguments.json ? summary_json(result) : summary_text(result)).c_str(), stdout);
  return exit_code(problems);
}

ExitCode merge(const TraceArguments& arguments) {
  const MergeReport report = merge_trace(arguments.run);
  fmt::print("{}: {} events from {} segments\n", report.file.string(), report.events, report.segments);
  for (const std::string& problem : report.problems.all()) fmt::print("note: {}\n", problem);
  return exit_code(report.problems);
}

}  // namespace

void add_trace_command(CLI::App& app, Command& chosen) {
  CLI::App* group = app.add_subcommand("trace", "where a run's time went");
  group->require_subcommand(1);
  auto arguments = std::make_shared<TraceArguments>();

  CLI::App* summary_command =
      group->add_subcommand("summary", "time table per stage, bubbles, steps; also of a crashed or running run");
  summary_command->add_option("RUN", arguments->run, "run directory, its trace directory or a trace file")->required();
  summary_command->add_flag("--json", arguments->json, "print JSON for programs");
  summary_command->callback([arguments, &chosen] { chosen = [arguments] { return summary(*arguments); }; });

  CLI::App* merge_command = group->add_subcommand(
      "merge", "join all ranks' segments into trace/trace.h5, which h5py, pandas and h5dump read");
  merge_command->add_option("RUN", arguments->run, "run directory or its trace directory")->required();
  merge_command->callback([arguments, &chosen] { chosen = [arguments] { return merge(*arguments); }; });
}

}  // namespace pipefill
