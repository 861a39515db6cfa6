// main of the worker's tests. A worker process is this same binary, started as `test_worker fill-worker ...`.
#include <gtest/gtest.h>

#include <string_view>

#include "counting_kind.hpp"
#include "worker/worker_main.hpp"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "fill-worker")
    return pipefill::worker_main(argc, argv, pipefill::testing::find_test_kind);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
