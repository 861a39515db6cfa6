// A user's kind of fill job out of a shared library. dlopen runs the library's constructors before anything of it can
// be checked, so the file is checked first; and it happens only in a worker process, never in the rank.
#pragma once

#include <string>

#include <pipefill/fill_job.h>

namespace pipefill {

/// Loads the library (RTLD_NOW | RTLD_LOCAL; never unloaded) and returns its kind. `path` is absolute, or relative to
/// `base_directory`. FileError 66: not there; 65: not a regular file, writable by everybody (or its directory is), no
/// kind in it, or built for another version of the ABI.
const pipefill_fill_kind* load_plugin(const std::string& path, const std::string& base_directory);

/// Throws FileError 65 naming `what` unless the table is complete and of this ABI.
void check_kind(const pipefill_fill_kind* kind, const std::string& what);

}  // namespace pipefill
