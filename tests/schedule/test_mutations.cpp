// Random damage to valid schedules: refused, or still complete with every microbatch exactly once. Judged by the
// independent interpreter, not by the library.
#include <gtest/gtest.h>

#include <random>

#include "interpreter.hpp"
#include "schedule/bubbles.hpp"
#include "schedule/build.hpp"
#include "schedule/communication.hpp"
#include "schedule/dry_run.hpp"
#include "schedule/text.hpp"
#include "schedule/validate.hpp"

namespace pipefill {
namespace {

class Damage {
 public:
  explicit Damage(unsigned seed) : random_(seed) {}

  int below(std::size_t n) { return static_cast<int>(std::uniform_int_distribution<std::size_t>(0, n - 1)(random_)); }

  Schedule operator()(Schedule schedule) {
    Program& program = schedule.programs[static_cast<std::size_t>(below(schedule.programs.size()))];
    const auto at = program.begin() + below(program.size());
    const Instruction taken = *at;
    switch (below(6)) {
      case 0:  // gone
        program.erase(at);
        break;
      case 1:  // twice
        program.insert(program.begin() + below(program.size() + 1), taken);
        break;
      case 2:  // moved within its stage
        program.erase(at);
        program.insert(program.begin() + below(program.size() + 1), taken);
        break;
      case 3: {  // moved to any stage
        program.erase(at);
        Program& other = schedule.programs[static_cast<std::size_t>(below(schedule.programs.size()))];
        other.insert(other.begin() + below(other.size() + 1), taken);
        break;
      }
      case 4:  // with its neighbour exchanged
        if (at + 1 != program.end()) std::swap(*at, *(at + 1));
        break;
      default:  // a digit or letter of its text changed
        std::string text = to_text(taken);
        text[static_cast<std::size_t>(below(text.size()))] = "0123456789FBIW<>"[below(16)];
        if (const auto changed = parse_instruction(text)) *at = *changed;
    }
    return schedule;
  }

 private:
  std::mt19937 random_;
};

void expect_exactly_once(const Schedule& schedule) {
  test::Interpreter interpreter(schedule);
  ASSERT_TRUE(interpreter.run());
  for (int chunk = 0; chunk < schedule.chunks(); ++chunk) {
    for (int m = 0; m < schedule.microbatches; ++m) {
      EXPECT_EQ(interpreter.computed('F', chunk, m), 1);
      EXPECT_EQ(interpreter.computed('B', chunk, m) + interpreter.computed('I', chunk, m), 1);
      EXPECT_EQ(interpreter.computed('I', chunk, m), interpreter.computed('W', chunk, m));
    }
  }
}

TEST(Mutations, AreRefusedOrStillRight) {
  Damage damage(20240917);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 1500; ++round) {
    const auto names = schedule_names();
    const std::string name = names[static_cast<std::size_t>(damage.below(names.size()))];
    const int stages = 2 + damage.below(3), microbatches = 1 + damage.below(5);
    Schedule schedule = with_communication(build_schedule(name, stages, microbatches),
                                           round % 2 == 0 ? Replicas::one : Replicas::several);
    if (round % 3 == 0) schedule = with_bubbles(schedule);
    for (int hits = 1 + damage.below(2); hits > 0; --hits) schedule = damage(schedule);
    if (!find_violations(schedule).empty()) {
      ++refused;
      continue;
    }
    SCOPED_TRACE(to_text(schedule));
    ++accepted;
    EXPECT_TRUE(dry_run(schedule).complete());
    expect_exactly_once(schedule);
    // What is called safe under synchronous sends must be, and the other way round.
    test::Interpreter synchronous(schedule, test::Interpreter::Sends::synchronous);
    EXPECT_EQ(synchronous.run(), static_cast<bool>(is_safe_under_synchronous_sends(schedule)));
    if (HasFailure()) return;
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace pipefill
