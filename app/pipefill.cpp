// main: the command line, one catch, the exit code.
#include <cstdio>

#include "base/error.hpp"

int main() {
  try {
    return 0;
  } catch (const pipefill::Error& error) {
    std::fprintf(stderr, "pipefill: error: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
