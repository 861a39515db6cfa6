#include "fill_jobs/kind.hpp"

#include <array>
#include <cstddef>

#include "fill_jobs/command.hpp"
#include "fill_jobs/generate.hpp"
#include "fill_jobs/score.hpp"
#include "fill_jobs/train.hpp"

namespace pipefill {
namespace {

/// The one table; whoever adds a kind adds it here.
const auto& all_kinds() {
  static const std::array kinds{score_kind(), generate_kind(), train_kind(), command_kind()};
  return kinds;
}

}  // namespace

const pipefill_fill_kind* find_kind(std::string_view name) {
  for (const pipefill_fill_kind* kind : all_kinds())
    if (name == kind->name) return kind;
  return nullptr;
}

bool can_divide(const pipefill_fill_kind& kind) {
  return kind.struct_bytes >= offsetof(pipefill_fill_kind, merge) + sizeof kind.merge && kind.merge != nullptr;
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const pipefill_fill_kind* kind : all_kinds()) names.emplace_back(kind->name);
  names.emplace_back("plugin");
  return names;
}

}  // namespace pipefill
