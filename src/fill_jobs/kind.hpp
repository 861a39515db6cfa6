// The kinds of fill jobs that this program knows by name, all behind the public C ABI.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <pipefill/fill_job.h>

namespace pipefill {

/// The kind called `name`, or null. `plugin` is not one of them: its kind is in a user's library (plugin.hpp).
const pipefill_fill_kind* find_kind(std::string_view name);
/// How a worker finds kinds; tests hand in their own.
using FindKind = const pipefill_fill_kind* (*)(std::string_view name);

/// Whether its jobs can be divided into parts.
bool can_divide(const pipefill_fill_kind& kind);

/// Names for messages, "plugin" included.
std::vector<std::string> kind_names();

}  // namespace pipefill
