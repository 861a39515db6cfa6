// A directory of one's own under the system's temporary one, gone with the object.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/error.hpp"

namespace pipefill {

class TemporaryDirectory {
 public:
  /// FileError (73) where none can be made.
  TemporaryDirectory() {
    std::error_code error;
    std::string name = (std::filesystem::temp_directory_path(error) / "pipefill-XXXXXX").string();
    if (error) throw FileError(ExitCode::cannot_create, "TMPDIR", "is no directory: " + error.message());
    if (::mkdtemp(name.data()) == nullptr)
      throw FileError(ExitCode::cannot_create, name, std::string("cannot make directory: ") + std::strerror(errno));
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace pipefill
