#include "standard_streams.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <system_error>

namespace pipefill {
namespace {

/// Also what std::cout printed: the texts of CLI11.
void expect_output() {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return;
  throw FileError(ExitCode::input_output, "standard output",
                  "not all of the result could be written; is the disk full, or the output closed?");
}

}  // namespace

void open_closed_streams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    // The lowest free number is taken: `descriptor`, as all below it are open. Opened to read: each write fails.
    if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) return;
}

ExitCode run_printing(const std::function<ExitCode()>& command) {
  try {
    const ExitCode code = command();
    expect_output();
    return code;
  } catch (const std::system_error&) {  // fmt::print throws it at a failed write
    expect_output();
    throw;
  }
}

}  // namespace pipefill
