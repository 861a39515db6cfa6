#include "version.hpp"

#include <dnnl.h>
#include <fmt/format.h>
#include <mpi.h>

#include <array>
#include <vector>

#include "storage/h5_handle.hpp"

namespace pipefill {
namespace {

struct Dependency {
  std::string name, version;
};

std::string mpi_version() {  // "Open MPI v4.1.4, package: ..." -> its first part; allowed before MPI_Init
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "unknown";
  const std::string all(text.data(), static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

std::vector<Dependency> dependencies() {
  return {{"MPI", mpi_version()},
          {"HDF5", hdf5_version()},
          {"yaml-cpp", PIPEFILL_YAML_CPP_VERSION},
          {"oneDNN", onednn_version()},
          {"compiler", fmt::format("GCC {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__)}};
}

}  // namespace

std::string program_version() { return PIPEFILL_VERSION; }

std::string dependency_versions() {
  std::string text;
  for (const Dependency& dependency : dependencies())
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", dependency.name, dependency.version);
  return text;
}

std::string version_text() {
  std::string text = fmt::format("pipefill {}\n", program_version());
  for (const Dependency& dependency : dependencies())
    text += fmt::format("  {:<10} {}\n", dependency.name, dependency.version);
  text += fmt::format("  {:<10} {}\n", "build", PIPEFILL_BUILD_TYPE);
  return text;
}

}  // namespace pipefill
