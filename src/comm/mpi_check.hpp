// Every MPI result goes through check_mpi. Private to comm: this header includes mpi.h.
#pragma once

#include <mpi.h>

#include <source_location>

namespace pipefill {

/// TransportError with MPI's text for `result` unless it is MPI_SUCCESS; `what` says what was being done.
void check_mpi(int result, const char* what, std::source_location where = std::source_location::current());

/// A duplicate of `parent` whose errors are returned, not fatal.
MPI_Comm duplicate(MPI_Comm parent);

}  // namespace pipefill
