// main: the command line, one catch, the exit code. Under MPI the catch ends all ranks, so that none is left waiting.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>

#include "base/error.hpp"
#include "comm/cluster.hpp"
#include "command_line.hpp"
#include "commands.hpp"
#include "device/cpu/openmp_team.hpp"
#include "standard_streams.hpp"
#include "version.hpp"
#include "worker/planner.hpp"
#include "worker/worker_main.hpp"

namespace {

using namespace pipefill;

ExitCode run(int argc, char** argv) {
  CLI::App app{"Pipeline-parallel training that measures its bubbles and runs other work in them.", "pipefill"};
  app.set_version_flag("--version", version_text, "print the version of the program and of what it is built on");
  app.require_subcommand(1);
  app.footer(
      "First steps:  mpirun -n 2 pipefill train            train the embedded deck, inputs/tiny.yaml\n"
      "              pipefill trace summary runs/tiny      where its time went\n"
      "              pipefill check --reference            all keys of a deck\n"
      "Every command has --help.");
  Command chosen;
  add_train_command(app, chosen);
  add_check_command(app, chosen);
  add_plan_command(app, chosen);
  add_status_command(app, chosen);
  add_halt_command(app, chosen);
  add_checkpoint_command(app, chosen);
  add_trace_command(app, chosen);
  add_fill_command(app, chosen);
  add_doctor_command(app, chosen);
  if (parse_command_line(app, argc, argv) == Parsed::printed) return run_printing([] { return ExitCode::finished; });
  if (app.got_subcommand("train")) return chosen();  // what it prints is in log.txt too: not worth the run
  return run_printing(chosen);
}

/// Prints the error with the rank it came from; does not return where other ranks would wait for this one.
/// An empty text: another rank tells it.
int fail(ExitCode code, const std::string& text) {
  int started = 0, ended = 0, rank = 0;
  const bool with_mpi =
      MPI_Initialized(&started) == MPI_SUCCESS && MPI_Finalized(&ended) == MPI_SUCCESS && started && !ended;
  if (with_mpi) (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (text.empty())  // mpirun ends the job at the first exit: leave the rank that tells it the time to do so
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  else if (with_mpi)
    std::fprintf(stderr, "pipefill: rank %d: error: %s\n", rank, text.c_str());
  else
    std::fprintf(stderr, "pipefill: error: %s\n", text.c_str());
  if (with_mpi) end_all_ranks(static_cast<int>(code));
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    pipefill::open_closed_streams();
    const std::string_view first = argc > 1 ? argv[1] : "";
    if (first == "train") pipefill::ensure_sleeping_team(argv);
    // What a run starts for itself; no user's command.
    if (first == "fill-worker") return pipefill::worker_main(argc, argv);
    if (first == "fill-planner" && argc == 3) return pipefill::plan_job(argv[2]), 0;
    if (first == "fill-joiner" && argc == 3) return pipefill::join_job(argv[2]), 0;
    return static_cast<int>(run(argc, argv));
  } catch (const pipefill::Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::filesystem::filesystem_error& error) {  // a name too long, a loop of links, a dead mount
    return fail(ExitCode::input_output, error.what());
  } catch (const std::exception& error) {
    return fail(ExitCode::bug, std::string("this is a bug of pipefill: ") + error.what());
  }
}
