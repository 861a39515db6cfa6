// Output files of fill jobs, whole or not at all; and what a kernel context does once before it is timed.
#pragma once

#include <functional>
#include <string>

#include "kernels/context.hpp"
#include "storage/h5_file.hpp"

namespace pipefill {

/// Writes DIRECTORY/NAME under another name, closes and syncs it, and renames it over an older one. The same values
/// give the same bytes. Call it on the process's one thread that uses HDF5.
void write_h5(const std::string& directory, const std::string& name, const std::function<void(H5File&)>& write);

/// Lets oneDNN make the code of its fp32 products (some milliseconds, once per process), so that no chunk pays it.
void warm_up(const KernelContext& kernels);

}  // namespace pipefill
