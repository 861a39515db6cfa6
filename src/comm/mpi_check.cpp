#include "comm/mpi_check.hpp"

#include <fmt/format.h>

#include <string>

#include "base/error.hpp"

namespace pipefill {

void check_mpi(int result, const char* what, std::source_location where) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw TransportError(fmt::format("MPI failed to {}: {}", what, std::string(text, static_cast<std::size_t>(length))),
                       where);
}

MPI_Comm duplicate(MPI_Comm parent) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(parent, &copy), "duplicate a communicator");
  check_mpi(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "set an error handler");
  return copy;
}

}  // namespace pipefill
