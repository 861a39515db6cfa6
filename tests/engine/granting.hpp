// A crew whose workers really run, and steps with bubbles of given lengths.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "fill_fixture.hpp"

namespace pipefill::testing {

// Two bubbles, at positions 0 and 2.
inline const Program kProgram{Bubble{BubbleClass::steady}, Forward{{0}, {0}}, Bubble{BubbleClass::cool_down},
                              Backward{{0}, {0}}};
inline constexpr Bytes kMemory{1 << 30};

/// A worker that really runs, as a thread of this process.
class Granting : public FillTest {
 protected:
  Granting() : crew_(worker(), make_null_log()) { add(7, "chunks: 100000, chunk_us: 200"); }
  void add(int number, const std::string& with) {
    crew_.assign({.number = number, .directory = job_directory("job-" + std::to_string(number), with)});
    ASSERT_TRUE(eventually([&] { return member(number).worker->job().state == AssignedState::ready; }));
  }
  CrewMember& member(int number) { return *crew_.find(number); }
  static BubbleFillSettings settings() {
    BubbleFillSettings s;
    s.audit = {.first_step = 2, .block = 1, .audit = 0};
    s.guard.start = Nanoseconds{0};
    return s;
  }
  /// One step with a bubble of these lengths at each position; what was sold of it in all.
  Nanoseconds step(BubbleFill& fill, std::int64_t number, Nanoseconds first = 10ms, Nanoseconds second = 10ms) {
    Nanoseconds sold{0};
    fill.begin_step(number);
    for (const int position : {0, 2}) {
      const Nanoseconds begin = now(), length = position == 0 ? first : second;
      Pause& pause = fill.enter(position, begin, kMemory, {-1});
      pause.begin();
      while (now() < begin + length) pause.pause();
      fill.leave();
      sold += fill.record(position, begin, begin + length, kMemory);
    }
    fill.end_step(first + second);
    return sold;
  }
  std::int64_t done(int number = 7) { return member(number).worker->job().done; }

  FillCrew crew_;
};

}  // namespace pipefill::testing
