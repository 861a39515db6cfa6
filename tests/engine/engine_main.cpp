// main of the engine's tests. A fill worker and a planner of fill jobs are this same binary, with other arguments.
#include <gtest/gtest.h>

#include <string_view>

#include "counting_kind.hpp"
#include "worker/planner.hpp"
#include "worker/worker_main.hpp"

int main(int argc, char** argv) {
  using pipefill::testing::find_test_kind;
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "fill-worker") return pipefill::worker_main(argc, argv, find_test_kind);
  try {
    if (first == "fill-planner") return pipefill::plan_job(argv[2], find_test_kind), 0;
    if (first == "fill-joiner") return pipefill::join_job(argv[2], find_test_kind), 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
