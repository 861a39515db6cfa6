// The table of schedules by name.
#include "schedule/build.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "schedule/gpipe.hpp"
#include "schedule/one_f_one_b.hpp"

namespace pipefill {
namespace {

double ramp_fraction(int stages, int microbatches) { return (stages - 1.0) / (microbatches + stages - 1.0); }

struct Entry {
  std::string_view name;
  Schedule (*build)(int stages, int microbatches);
  double (*bubble_fraction)(int stages, int microbatches);  ///< closed form, null where there is none
};
constexpr std::array kSchedules{
    Entry{"1f1b", one_f_one_b, ramp_fraction},
    Entry{"gpipe", gpipe, ramp_fraction},
};

const Entry* find_entry(const std::string& name) {
  const auto entry = std::find_if(kSchedules.begin(), kSchedules.end(), [&](auto& e) { return e.name == name; });
  return entry == kSchedules.end() ? nullptr : &*entry;
}

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kSchedules) names.emplace_back(entry.name);
  return names;
}

Schedule build_schedule(const std::string& name, int stages, int microbatches) {
  if (const Entry* entry = find_entry(name)) return entry->build(stages, microbatches);
  const auto names = schedule_names();
  const auto near = nearest(name, names);
  throw ScheduleError(fmt::format("there is no schedule '{}'{}; valid names: {}", name,
                                  near ? fmt::format(", did you mean '{}'?", *near) : "", fmt::join(names, ", ")));
}

std::optional<double> closed_form_bubble_fraction(const std::string& name, int stages, int microbatches) {
  const Entry* entry = find_entry(name);
  if (entry == nullptr || entry->bubble_fraction == nullptr) return std::nullopt;
  return entry->bubble_fraction(stages, microbatches);
}

}  // namespace pipefill
