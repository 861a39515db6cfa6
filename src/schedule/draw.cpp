// Draws a priced schedule in characters.
#include "schedule/draw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>

#include "base/text.hpp"
#include "schedule/build.hpp"
#include "schedule/dependencies.hpp"

namespace pipefill {
namespace {

/// [chunk] -> its position among the chunks of its stage, none when it is the only one.
using Positions = std::vector<std::optional<int>>;

Positions positions_on_stages(const Schedule& schedule) {
  std::vector<int> held(schedule.programs.size(), 0);
  Positions positions;
  for (const StageId stage : schedule.stage_of_chunk)
    positions.emplace_back(held[static_cast<std::size_t>(stage.value)]++);
  for (std::size_t chunk = 0; chunk < positions.size(); ++chunk) {
    if (held[static_cast<std::size_t>(schedule.stage_of_chunk[chunk].value)] == 1) positions[chunk].reset();
  }
  return positions;
}

/// What an instruction looks like: a label, then its pad to the end; an empty label is not drawn.
struct Look {
  std::string label;
  char pad = ' ';
};

Look look_of(const Positions& positions, const Instruction& instruction) {
  const auto compute = [&](char kind, char pad, const auto& i) {
    const std::optional<int> position = positions[static_cast<std::size_t>(i.chunk.value)];
    return Look{fmt::format("{}{}{}", kind, i.microbatch.value, position ? fmt::format(".{}", *position) : ""), pad};
  };
  return std::visit(Overloaded{
                        [&](const Forward& i) { return compute('F', ' ', i); },
                        [&](const Backward& i) { return compute('B', '-', i); },
                        [&](const BackwardInput& i) { return compute('I', '-', i); },
                        [&](const BackwardWeight& i) { return compute('W', '=', i); },
                        [](const OptimizerStep&) {
                          return Look{"O", '#'};
                        },
                        [](const auto&) { return Look{}; },
                    },
                    instruction);
}

/// Turns times into columns.
struct Scale {
  Nanoseconds time{1};  ///< this much time ...
  int columns = 1;      ///< ... is this many columns
  bool exact = false;

  std::size_t column(Nanoseconds t) const {
    return static_cast<std::size_t>(
        std::llround(static_cast<double>(t.count()) * columns / static_cast<double>(time.count())));
  }
};

Scale choose_scale(const Schedule& schedule, const Positions& positions, const Timeline& timeline, int columns) {
  std::int64_t unit = 0;
  std::size_t longest_label = 0;
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    const auto& instructions = timeline.stages[stage].instructions;
    for (std::size_t index = 0; index < instructions.size(); ++index) {
      unit = std::gcd(unit, instructions[index].start.count());
      unit = std::gcd(unit, instructions[index].end.count());
      longest_label = std::max(longest_label, look_of(positions, schedule.programs[stage][index]).label.size());
    }
  }
  if (unit == 0) return {Nanoseconds{1}, 1, false};  // everything lasts no time
  const auto cell = static_cast<std::int64_t>(longest_label + 1);
  if (timeline.makespan.count() / unit <= columns / cell) return {Nanoseconds{unit}, static_cast<int>(cell), true};
  return {timeline.makespan, std::max(columns, 1), false};
}

/// "F = 1, B = 2 units" or "F = 1.3 ms, B = 2.6 ms on average".
std::string durations(const Schedule& schedule, const CostModel& costs, const Scale& scale) {
  ChunkCost sum;
  bool uniform = true;
  for (const ChunkCost& chunk : costs.chunks) {
    sum.forward += chunk.forward, sum.backward_input += chunk.backward_input;
    sum.backward_weight += chunk.backward_weight;
    uniform = uniform && chunk.forward == costs.chunks.front().forward &&
              chunk.backward_input == costs.chunks.front().backward_input &&
              chunk.backward_weight == costs.chunks.front().backward_weight;
  }
  const auto show = [&](Nanoseconds total) {
    const Nanoseconds mean = total / static_cast<std::int64_t>(costs.chunks.size());
    if (!scale.exact || !uniform) return format_duration(mean);
    return fmt::format("{:g}", static_cast<double>(mean.count()) / static_cast<double>(scale.time.count()));
  };
  std::string text = "F = " + show(sum.forward);
  bool full = false, split = false;
  for (const Program& program : schedule.programs) {
    for (const Instruction& i : program) {
      full |= std::holds_alternative<Backward>(i);
      split |= std::holds_alternative<BackwardInput>(i);
    }
  }
  if (full) text += ", B = " + show(sum.backward());
  if (split) text += ", I = " + show(sum.backward_input) + ", W = " + show(sum.backward_weight);
  if (!uniform) return text + " on average";
  return scale.exact ? text + " units" : text;
}

std::string title(const Schedule& schedule, const CostModel& costs, const Timeline& timeline, const Scale& scale) {
  std::string name = schedule.name;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string text = fmt::format("{:<37}{}, dots = bubble, fraction ",
                                 fmt::format("{}   P={} M={}", name, schedule.stages(), schedule.microbatches),
                                 durations(schedule, costs, scale));
  const auto ideal = closed_form_bubble_fraction(schedule.name, schedule.stages(), schedule.microbatches);
  if (!ideal) return text + fmt::format("{:.4f}", timeline.bubble_fraction);
  const std::string formula = fmt::format("(P-1)/(M+P-1) = {:.4f}", *ideal);
  if (std::abs(*ideal - timeline.bubble_fraction) < 5e-5) return text + formula;
  return text + fmt::format("{:.4f}, equal stages {}", timeline.bubble_fraction, formula);
}

/// Over the dots only: rounding to columns must not hide an instruction.
void draw_work(std::string& line, const DrawnWork& work, const Scale& scale) {
  for (std::size_t at = scale.column(work.start); at < scale.column(work.start + work.each * work.count); ++at)
    if (at < line.size() && line[at] == '.') line[at] = '~';
  std::size_t last = line.size();
  for (std::int64_t i = 0; i < work.count; ++i) {
    const std::size_t at = scale.column(work.start + work.each * i);
    if (at >= line.size() || at == last || line[at] != '~') continue;
    line[at] = work.mark;
    last = at;
  }
}

}  // namespace

std::string draw(const Schedule& schedule, const CostModel& costs, const Timeline& timeline, int max_width,
                 const std::vector<DrawnWork>& work) {
  const auto digits = fmt::formatted_size("{}", schedule.stages() - 1);
  const auto frame = static_cast<int>(std::string_view("stage  ||").size() + digits);
  const Positions positions = positions_on_stages(schedule);
  const Scale scale = choose_scale(schedule, positions, timeline, max_width - frame);
  std::string drawing = title(schedule, costs, timeline, scale) + '\n';
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    std::string line(scale.column(timeline.makespan), '.');
    const auto& instructions = timeline.stages[stage].instructions;
    for (std::size_t index = 0; index < instructions.size(); ++index) {
      const Look look = look_of(positions, schedule.programs[stage][index]);
      if (look.label.empty()) continue;
      const std::size_t begin = scale.column(instructions[index].start);
      const std::size_t width = scale.column(instructions[index].end) - begin;
      std::string cell(width, look.pad);
      const std::size_t fits = look.label.size() <= width ? look.label.size() : 1;  // a cut number would mislead
      std::copy_n(look.label.begin(), std::min(width, fits), cell.begin());
      line.replace(begin, width, cell);
    }
    for (const DrawnWork& piece : work)
      if (piece.stage == static_cast<int>(stage)) draw_work(line, piece, scale);
    drawing += fmt::format("stage {:<{}} |{}|\n", stage, digits, line);
  }
  return drawing;
}

}  // namespace pipefill
