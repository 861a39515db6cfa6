// main of the gtest binaries that run under mpirun: every rank runs all tests, rank 0 prints, failures of the others go
// to stderr with their rank, and every rank returns the worst result.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <memory>

#include "tests/support/mpi_test.hpp"

namespace pipefill {
namespace {

std::unique_ptr<Cluster>& holder() {
  static std::unique_ptr<Cluster> cluster;
  return cluster;
}

class FailuresToStderr : public testing::EmptyTestEventListener {
 public:
  explicit FailuresToStderr(int rank) : rank_(rank) {}
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", rank_, result.file_name() ? result.file_name() : "?",
                 result.line_number(), result.message());
  }

 private:
  int rank_;
};

int run(int argc, char** argv) {
  holder() = std::make_unique<Cluster>();
  const int rank = test_cluster().rank().value;
  // Before InitGoogleTest: it prints from within when asked for a list.
  if (rank != 0 && !std::freopen("/dev/null", "w", stdout)) return 1;
  testing::InitGoogleTest(&argc, argv);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (rank != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresToStderr(rank));
  }
  int result = RUN_ALL_TESTS();
  int worst = result;
  MPI_Allreduce(&result, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  holder().reset();
  return worst;
}

}  // namespace

const Cluster& test_cluster() { return *holder(); }

}  // namespace pipefill

int main(int argc, char** argv) { return pipefill::run(argc, argv); }
