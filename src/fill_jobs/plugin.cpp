#include "fill_jobs/plugin.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "base/error.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

/// A file that everybody may replace would let everybody run code as this user. A sticky directory (/tmp) protects the
/// files in it from being replaced.
void refuse_if_writable_by_all(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    const ExitCode code = errno == ENOENT || errno == ENOTDIR ? ExitCode::missing_input : ExitCode::input_output;
    throw FileError(code, path, system_text("cannot open the plug-in", errno));
  }
  const bool protected_directory = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0;
  if ((info.st_mode & S_IWOTH) != 0 && !protected_directory)
    throw FileError(ExitCode::damaged_data, path,
                    "is writable by everybody, so a plug-in from there is not loaded; `chmod o-w` it");
}

}  // namespace

void check_kind(const pipefill_fill_kind* kind, const std::string& what) {
  if (kind == nullptr) throw FileError(ExitCode::damaged_data, what, "gives no kind of fill job");
  if (kind->abi != PIPEFILL_FILL_JOB_ABI)
    throw FileError(ExitCode::damaged_data, what,
                    fmt::format("is built for version {} of the fill job interface, this program has version {}; "
                                "build it again with this program's pipefill/fill_job.h",
                                kind->abi, PIPEFILL_FILL_JOB_ABI));
  const bool complete = kind->struct_bytes >= offsetof(pipefill_fill_kind, merge) && kind->name != nullptr &&
                        kind->create != nullptr && kind->configurations != nullptr && kind->plan != nullptr &&
                        kind->restore != nullptr && kind->run != nullptr && kind->save != nullptr &&
                        kind->destroy != nullptr;
  if (!complete) throw FileError(ExitCode::damaged_data, what, "its kind of fill job lacks functions");
}

const pipefill_fill_kind* load_plugin(const std::string& path, const std::string& base_directory) {
  const std::filesystem::path given(path);
  std::error_code error;
  // The real file: a link must not lead around the checks.
  const std::filesystem::path file =
      std::filesystem::canonical(given.is_absolute() ? given : std::filesystem::path(base_directory) / given, error);
  if (error) throw FileError(ExitCode::missing_input, path, system_text("cannot open the plug-in", error.value()));
  if (!std::filesystem::is_regular_file(file))
    throw FileError(ExitCode::damaged_data, file.string(), "is not a regular file");
  refuse_if_writable_by_all(file.string());
  refuse_if_writable_by_all(file.parent_path().string());
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    throw FileError(ExitCode::damaged_data, file.string(),
                    fmt::format("cannot load: {}", why != nullptr ? why : "unknown reason"));
  }
  void* symbol = ::dlsym(library, PIPEFILL_FILL_KIND_SYMBOL);
  if (symbol == nullptr)
    throw FileError(ExitCode::damaged_data, file.string(),
                    "exports no " PIPEFILL_FILL_KIND_SYMBOL "; it is no fill job plug-in of this version");
  const auto make = reinterpret_cast<decltype(&pipefill_fill_kind_v1)>(symbol);
  const pipefill_fill_kind* kind = make();
  check_kind(kind, file.string());
  return kind;
}

}  // namespace pipefill
