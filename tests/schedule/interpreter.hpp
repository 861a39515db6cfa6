// A second, independent reading of a lowered schedule, for tests: stages with hands and letterboxes instead of a
// dependency graph. What the validator accepts must run here to its end with every microbatch exactly once.
#pragma once

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "schedule/schedule.hpp"

namespace pipefill::test {

class Interpreter {
 public:
  enum class Sends { eager, synchronous };
  explicit Interpreter(const Schedule& schedule, Sends sends = Sends::eager) : schedule_(schedule), sends_(sends) {}

  /// True when every program ran to its end.
  bool run() {
    std::vector<std::size_t> next(schedule_.programs.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t stage = 0; stage < next.size(); ++stage) {
        const Program& program = schedule_.programs[stage];
        // Runs a stage as far as it comes: another order than the library's dry run.
        while (next[stage] < program.size() && step(program[next[stage]], static_cast<int>(stage))) {
          ++next[stage];
          moved = true;
        }
      }
    }
    for (std::size_t stage = 0; stage < next.size(); ++stage) {
      if (next[stage] != schedule_.programs[stage].size()) return false;
    }
    return true;
  }

  /// How often (kind, chunk, microbatch) was computed; kinds F, B, I, W.
  int computed(char kind, int chunk, int microbatch) const {
    const auto found = count_.find({kind, chunk, microbatch});
    return found == count_.end() ? 0 : found->second;
  }

 private:
  enum class Item { activation, gradient };
  using Letter = std::tuple<Item, int, int>;  ///< item, receiving chunk, microbatch

  int stage_of(int chunk) const { return schedule_.stage_of_chunk.at(static_cast<std::size_t>(chunk)).value; }

  /// The input is there: made on this stage, or sent by the other one and received here.
  bool has_input(Item item, int chunk, int source, int microbatch, int stage) const {
    if (source < 0 || source >= schedule_.chunks()) return true;
    const Letter letter{item, chunk, microbatch};
    if (stage_of(source) == stage) return local_.contains(letter);
    return posted_.contains(letter) && sent_.contains(letter);
  }
  bool backward(char kind, int chunk, int microbatch, int stage) {
    if (computed('F', chunk, microbatch) == 0) return false;
    if (!has_input(Item::gradient, chunk, chunk + 1, microbatch, stage)) return false;
    local_.insert({Item::gradient, chunk - 1, microbatch});
    ++count_[{kind, chunk, microbatch}];
    return true;
  }
  bool send(Item item, int to_chunk, int microbatch, bool made) {
    const Letter letter{item, to_chunk, microbatch};
    if (!made || (sends_ == Sends::synchronous && !posted_.contains(letter))) return false;
    sent_.insert(letter);
    return true;
  }

  bool step(const Instruction& instruction, int stage) {
    return std::visit(
        Overloaded{
            [&](const Forward& i) {
              if (!has_input(Item::activation, i.chunk.value, i.chunk.value - 1, i.microbatch.value, stage))
                return false;
              local_.insert({Item::activation, i.chunk.value + 1, i.microbatch.value});
              ++count_[{'F', i.chunk.value, i.microbatch.value}];
              return true;
            },
            [&](const Backward& i) { return backward('B', i.chunk.value, i.microbatch.value, stage); },
            [&](const BackwardInput& i) { return backward('I', i.chunk.value, i.microbatch.value, stage); },
            [&](const BackwardWeight& i) {
              if (computed('I', i.chunk.value, i.microbatch.value) == 0) return false;
              ++count_[{'W', i.chunk.value, i.microbatch.value}];
              return true;
            },
            [&](const SendActivation& i) {
              const int to = i.chunk.value + 1;
              return send(Item::activation, to, i.microbatch.value,
                          computed('F', i.chunk.value, i.microbatch.value) > 0);
            },
            [&](const SendGradient& i) {
              const int made =
                  computed('B', i.chunk.value, i.microbatch.value) + computed('I', i.chunk.value, i.microbatch.value);
              return send(Item::gradient, i.chunk.value - 1, i.microbatch.value, made > 0);
            },
            [&](const RecvActivation& i) {
              return posted_.insert({Item::activation, i.chunk.value, i.microbatch.value}).second;
            },
            [&](const RecvGradient& i) {
              return posted_.insert({Item::gradient, i.chunk.value, i.microbatch.value}).second;
            },
            [&](const ReduceGradients&) { return true; },
            [&](const OptimizerStep&) { return true; },
            [&](const Bubble&) { return true; },
        },
        instruction);
  }

  const Schedule& schedule_;
  Sends sends_;
  std::set<Letter> local_, posted_, sent_;
  std::map<std::tuple<char, int, int>, int> count_;
};

}  // namespace pipefill::test
