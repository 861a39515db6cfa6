// What this program is made of, for `pipefill --version`, the log and the trace's root attributes.
#pragma once

#include <string>

namespace pipefill {

/// "0.1.0"
std::string program_version();
/// "Open MPI 4.1.4; HDF5 1.10.8; yaml-cpp 0.7.0; oneDNN 2.6.3; GCC 12.2.0": what was loaded at run time, where it can
/// tell.
std::string dependency_versions();
/// Several lines: the program, its dependencies, compiler and build type. Needs no MPI_Init.
std::string version_text();

}  // namespace pipefill
