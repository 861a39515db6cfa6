// The rules of a valid schedule, one function each.
#include "schedule/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "schedule/bubbles.hpp"
#include "schedule/dry_run.hpp"
#include "schedule/place_table.hpp"
#include "schedule/text.hpp"

namespace pipefill {
namespace {

enum class Kind {
  forward,
  backward,
  backward_input,
  backward_weight,
  send_activation,
  recv_activation,
  send_gradient,
  recv_gradient
};
constexpr int kKinds = static_cast<int>(Kind::recv_gradient) + 1;

/// Chunk, microbatch and (messages) peer of an instruction about one microbatch.
struct Subject {
  Kind kind;
  int chunk;
  int microbatch;
  std::optional<int> peer;
};

std::optional<Subject> subject_of(const Instruction& instruction) {
  const auto compute = [](Kind kind, const auto& i) {
    return std::optional(Subject{kind, i.chunk.value, i.microbatch.value, std::nullopt});
  };
  const auto message = [](Kind kind, const auto& i) {
    return std::optional(Subject{kind, i.chunk.value, i.microbatch.value, i.peer.value});
  };
  using Result = std::optional<Subject>;
  return std::visit(Overloaded{
                        [&](const Forward& i) { return compute(Kind::forward, i); },
                        [&](const Backward& i) { return compute(Kind::backward, i); },
                        [&](const BackwardInput& i) { return compute(Kind::backward_input, i); },
                        [&](const BackwardWeight& i) { return compute(Kind::backward_weight, i); },
                        [&](const SendActivation& i) { return message(Kind::send_activation, i); },
                        [&](const RecvActivation& i) { return message(Kind::recv_activation, i); },
                        [&](const SendGradient& i) { return message(Kind::send_gradient, i); },
                        [&](const RecvGradient& i) { return message(Kind::recv_gradient, i); },
                        [](const ReduceGradients&) { return Result{}; },
                        [](const OptimizerStep&) { return Result{}; },
                        [](const Bubble&) { return Result{}; },
                    },
                    instruction);
}

class Validator {
 public:
  explicit Validator(const Schedule& schedule)
      : schedule_(schedule), trains_(has_backward(schedule)), where_(schedule, kKinds) {}

  std::vector<Violation> operator()() {
    check_shape();
    if (!found_.empty()) return found_;  // nothing below makes sense without stages, chunks and microbatches
    check_each_instruction();
    check_compute_counts();
    check_messages();
    check_reductions();
    check_optimizer_steps();
    if (indices_in_range_) check_bubbles();
    check_local_order();
    if (found_.empty()) check_that_it_runs();
    return found_;
  }

 private:
  template <class... Arguments>
  void report(Place place, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    found_.push_back({place, fmt::format(format, std::forward<Arguments>(arguments)...)});
  }
  const Instruction& at(Place place) const {
    return schedule_.programs[static_cast<std::size_t>(place.stage)][static_cast<std::size_t>(place.index)];
  }
  int stage_of(int chunk) const { return schedule_.stage_of_chunk[static_cast<std::size_t>(chunk)].value; }
  template <class Visit>
  void for_each(Visit visit) const {
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      const auto size = static_cast<int>(schedule_.programs[static_cast<std::size_t>(stage)].size());
      for (int index = 0; index < size; ++index) visit(Place{stage, index});
    }
  }

  void check_shape() {
    if (schedule_.stages() < 1) report({-1, -1}, "has no stages");
    if (schedule_.chunks() < 1) report({-1, -1}, "has no chunks");
    if (schedule_.microbatches < 1) report({-1, -1}, "has {} microbatches, needs at least 1", schedule_.microbatches);
    if (schedule_.microbatches > kMostMicrobatches) {
      report({-1, -1}, "has {} microbatches, at most {} are possible", schedule_.microbatches, kMostMicrobatches);
    }
    for (int chunk = 0; chunk < schedule_.chunks(); ++chunk) {
      if (stage_of(chunk) < 0 || stage_of(chunk) >= schedule_.stages()) {
        report({-1, -1}, "puts chunk {} on stage {}, but has {} stages", chunk, stage_of(chunk), schedule_.stages());
      }
    }
    std::size_t instructions = 0;
    for (const Program& program : schedule_.programs) instructions += program.size();
    if (schedule_.microbatches > 0 && static_cast<std::size_t>(schedule_.microbatches) > instructions) {
      report({-1, -1}, "has {} microbatches, but only {} instructions", schedule_.microbatches, instructions);
    }
  }

  void check_each_instruction() {
    for_each([&](Place place) {
      if (const auto* i = std::get_if<ReduceGradients>(&at(place))) check_chunk(place, i->chunk.value);
      const auto subject = subject_of(at(place));
      if (!subject) return;
      check_chunk(place, subject->chunk);
      if (subject->microbatch < 0 || subject->microbatch >= schedule_.microbatches) {
        indices_in_range_ = false;
        report(place, "microbatch {} is outside 0..{}", subject->microbatch, schedule_.microbatches - 1);
      }
      if (const auto first = where_.add(subject->kind, subject->chunk, subject->microbatch, place)) {
        report(place, "is there a second time, first on stage {} at {}", first->stage, first->index);
      }
    });
  }

  void check_chunk(Place place, int chunk) {
    if (chunk < 0 || chunk >= schedule_.chunks()) {
      indices_in_range_ = false;
      report(place, "chunk {} is outside 0..{}", chunk, schedule_.chunks() - 1);
    } else if (stage_of(chunk) != place.stage) {
      report(place, "chunk {} is on stage {}", chunk, stage_of(chunk));
    }
  }

  bool exists(Kind kind, int chunk, int microbatch) const { return where_.find(kind, chunk, microbatch).has_value(); }

  void check_compute_counts() {
    for (int chunk = 0; chunk < schedule_.chunks(); ++chunk) {
      for (int m = 0; m < schedule_.microbatches; ++m) {
        const bool full = exists(Kind::backward, chunk, m);
        const bool input = exists(Kind::backward_input, chunk, m), weight = exists(Kind::backward_weight, chunk, m);
        const Place place{stage_of(chunk), -1};
        if (!exists(Kind::forward, chunk, m)) report(place, "{}F{} is missing", chunk, m);
        if (full && (input || weight))
          report(place, "{0}B{1} and its parts {0}I{1} or {0}W{1} are both there", chunk, m);
        if (full || !trains_) continue;
        if (!input && !weight) report(place, "{0}B{1} (or {0}I{1} and {0}W{1}) is missing", chunk, m);
        if (input && !weight) report(place, "{0}W{1} is missing: {0}I{1} is only half a backward", chunk, m);
        if (weight && !input) report(place, "{0}I{1} is missing: {0}W{1} is only half a backward", chunk, m);
      }
    }
  }

  /// What the other side of a message kind is called, and where the other chunk lies.
  struct Partner {
    Kind kind;
    Kind other;
    int direction;
    const char* name;  ///< text of the other side
  };
  static constexpr std::array<Partner, 4> kPartners{{
      {Kind::send_activation, Kind::recv_activation, +1, "RECV_F"},
      {Kind::recv_activation, Kind::send_activation, -1, "SEND_F"},
      {Kind::send_gradient, Kind::recv_gradient, -1, "RECV_B"},
      {Kind::recv_gradient, Kind::send_gradient, +1, "SEND_B"},
  }};

  /// Every message has a sender and a receiver that name each other; when any is there, all that are needed are.
  void check_messages() {
    for_each([&](Place place) {
      const auto subject = subject_of(at(place));
      if (!subject || !subject->peer) return;
      const Partner& partner = *std::find_if(kPartners.begin(), kPartners.end(),
                                             [&](const Partner& entry) { return entry.kind == subject->kind; });
      const std::int64_t other = std::int64_t{subject->chunk} + partner.direction;
      if (other < 0 || other >= schedule_.chunks()) {
        return report(place, "there is no chunk {} to exchange with", other);
      }
      const int peer = stage_of(static_cast<int>(other));
      if (peer == place.stage) return report(place, "chunk {} is on the same stage: nothing to exchange", other);
      if (peer != *subject->peer) {
        return report(place, "names stage {}, but chunk {} is on stage {}", *subject->peer, other, peer);
      }
      if (!exists(partner.other, static_cast<int>(other), subject->microbatch)) {
        report(place, "stage {} has no {}{}{} for it", peer, other, partner.name, subject->microbatch);
      }
    });
    if (!has_communication(schedule_)) return;
    for (int chunk = 0; chunk + 1 < schedule_.chunks(); ++chunk) {
      if (stage_of(chunk) == stage_of(chunk + 1)) continue;
      for (int m = 0; m < schedule_.microbatches; ++m) {
        const int after = chunk + 1;
        if (!exists(Kind::send_activation, chunk, m) && !exists(Kind::recv_activation, after, m)) {
          report({stage_of(chunk), -1}, "{}SEND_F{} and {}RECV_F{} are missing", chunk, m, after, m);
        }
        if (trains_ && !exists(Kind::send_gradient, after, m) && !exists(Kind::recv_gradient, chunk, m)) {
          report({stage_of(after), -1}, "{}SEND_B{} and {}RECV_B{} are missing", after, m, chunk, m);
        }
        const auto gradient = where_.find(Kind::send_gradient, after, m);
        if (!trains_ && gradient) report(*gradient, "no backward makes this gradient");
      }
    }
  }

  /// None at all (one replica), or one per chunk.
  void check_reductions() {
    std::map<int, Place> reduced;
    for_each([&](Place place) {
      const auto* i = std::get_if<ReduceGradients>(&at(place));
      if (i == nullptr) return;
      if (!trains_) report(place, "there are no gradients in a forward-only schedule");
      if (!reduced.try_emplace(i->chunk.value, place).second) report(place, "is there a second time");
    });
    for (int chunk = 0; chunk < schedule_.chunks() && !reduced.empty(); ++chunk) {
      if (!reduced.contains(chunk)) {
        report({stage_of(chunk), -1}, "{}REDUCE_GRAD is missing, other chunks have theirs", chunk);
      }
    }
  }

  /// None at all (compute only, evaluation), or one per stage as its last instruction.
  void check_optimizer_steps() {
    std::vector<int> steps(schedule_.programs.size(), 0);
    bool any = false, reduces = false;
    for_each([&](Place place) {
      reduces |= std::holds_alternative<ReduceGradients>(at(place));
      if (!std::holds_alternative<OptimizerStep>(at(place))) return;
      any = true;
      if (++steps[static_cast<std::size_t>(place.stage)] > 1) report(place, "is there a second time");
      if (!trains_) report(place, "there is nothing to update in a forward-only schedule");
      const auto size = schedule_.programs[static_cast<std::size_t>(place.stage)].size();
      if (place.index + 1 != static_cast<int>(size)) report(place, "must be the last instruction of its stage");
    });
    for (int stage = 0; stage < schedule_.stages() && (any || reduces); ++stage) {
      if (steps[static_cast<std::size_t>(stage)] == 0) report({stage, -1}, "STEP is missing");
    }
  }

  /// When there are Bubbles, they are exactly those of with_bubbles().
  void check_bubbles() {
    if (schedule_ == without_bubbles(schedule_)) return;
    const Schedule expected = with_bubbles(schedule_);
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      const Program& have = schedule_.programs[static_cast<std::size_t>(stage)];
      const Program& want = expected.programs[static_cast<std::size_t>(stage)];
      const auto [mine, other] = std::mismatch(have.begin(), have.end(), want.begin(), want.end());
      if (mine == have.end() && other == want.end()) continue;
      report({stage, static_cast<int>(mine - have.begin())}, "expected {} here, so that every wait has its Bubble",
             other == want.end() ? std::string("the end") : to_text(*other));
    }
  }

  void check_local_order() {
    const Dependencies dependencies = find_dependencies(schedule_);
    for_each([&](Place place) {
      for (const Dependency& dependency :
           dependencies[static_cast<std::size_t>(place.stage)][static_cast<std::size_t>(place.index)]) {
        if (dependency.on.stage != place.stage || dependency.on.index <= place.index) continue;
        report(place, "comes before {} at {}, which it needs", to_text(at(dependency.on)), dependency.on.index);
      }
    });
  }

  void check_that_it_runs() {
    const DryRun run = dry_run(schedule_);
    if (!run.complete()) report(run.stuck.front(), "the stages wait for each other for ever: {}", run.cycle);
  }

  const Schedule& schedule_;
  bool trains_;
  bool indices_in_range_ = true;
  PlaceTable<Kind> where_;
  std::vector<Violation> found_;
};

}  // namespace

std::vector<Violation> find_violations(const Schedule& schedule) { return Validator(schedule)(); }

void validate(const Schedule& schedule) {
  const auto violations = find_violations(schedule);
  if (violations.empty()) return;
  std::string text = fmt::format("schedule '{}' cannot be run, {} found:", schedule.name,
                                 violations.size() == 1 ? "1 mistake" : fmt::format("{} mistakes", violations.size()));
  for (const auto& [place, what] : violations) {
    text += "\n  ";
    if (place.stage < 0) {
      text += "the schedule";
    } else if (place.index < 0) {
      text += fmt::format("stage {}:", place.stage);
    } else {
      const Program& program = schedule.programs[static_cast<std::size_t>(place.stage)];
      const auto index = static_cast<std::size_t>(place.index);
      text += fmt::format("stage {} at {} ({}):", place.stage, place.index,
                          index < program.size() ? to_text(program[index]) : "end");
    }
    text += ' ' + what;
  }
  throw ScheduleError(text);
}

}  // namespace pipefill
