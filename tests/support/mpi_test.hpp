// The one Cluster of a gtest binary that runs under mpirun (mpi_test_main makes it).
#pragma once

#include "comm/cluster.hpp"

namespace pipefill {

const Cluster& test_cluster();

}  // namespace pipefill
