// Saves or checks a checkpoint whose values follow from its step and attempt; run by kill_at_every_call.py.
//   save_step DIR save STEP ATTEMPT   says "ready", waits for a line, saves (keep 2), prints "saved" or "failed: ..."
//   save_step DIR check               prints the newest whole checkpoint's step and attempt; status 1 when its content
//   is wrong
// A save runs entirely on the HDF5 thread, so that the n-th system call of a kind is the same one every time.
#include <cstdio>
#include <iostream>
#include <string>

#include "base/error.hpp"
#include "checkpoint/directory.hpp"
#include "example.hpp"

using namespace pipefill;
using namespace pipefill::testing;

namespace {

Example example_of(std::int64_t step, int attempt) { return Example(static_cast<unsigned>(step * 1000 + attempt)); }

int save_step(const std::string& directory, std::int64_t step, int attempt) {
  const Example example = example_of(step, attempt);
  const std::vector<TensorSlice> slices = example.owned_by(0, {});
  const SaveRequest request{
      .directory = directory, .state = state_at(step, attempt), .slices = slices, .keep = 2, .inject = {}};
  Hdf5Thread hdf5;
  std::printf("ready\n");
  std::fflush(stdout);
  std::string line;
  std::getline(std::cin, line);
  const SaveReport report = hdf5.run([&] {
    std::set<std::string> known_good;
    return save_checkpoint(single_rank(), hdf5, request, known_good);
  });
  std::printf("%s\n", report.saved() ? "saved" : ("failed: " + report.error).c_str());
  return 0;
}

int check(const std::string& directory) {
  prune_leftovers(directory);
  const CheckpointSearch search = find_checkpoint(single_rank(), directory);
  if (!search.damaged.empty()) return std::printf("damaged: %s\n", search.damaged[0].damage[0].text.c_str()), 1;
  if (!search.found) return std::printf("none\n"), 0;
  const RunState& state = search.found->manifest.state;
  if (!holds(*search.found, example_of(state.step, state.attempt))) return std::printf("wrong content\n"), 1;
  std::printf("%lld %d\n", static_cast<long long>(state.step), state.attempt);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[2]) == "check") return check(argv[1]);
  if (argc == 5 && std::string(argv[2]) == "save") return save_step(argv[1], std::stoll(argv[3]), std::stoi(argv[4]));
  std::fprintf(stderr, "usage: save_step DIR save STEP ATTEMPT | save_step DIR check\n");
  return 64;
}
