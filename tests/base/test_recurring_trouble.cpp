// One trouble told at its two ends.
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <memory>
#include <sstream>

#include "base/recurring_trouble.hpp"

namespace pipefill {
namespace {

TEST(RecurringTrouble, IsToldWhenItBeginsAndWhenItIsOver) {
  std::ostringstream told;
  auto sink = std::make_shared<spdlog::sinks::ostream_sink_st>(told);
  sink->set_pattern("%l %v");
  const auto log = std::make_shared<spdlog::logger>("test", sink);
  RecurringTrouble trouble("status.json", "the run goes on");
  trouble.went_well(log);
  EXPECT_EQ(told.str(), "");
  for (int i = 0; i < 3; ++i) trouble.failed(log, "the disk is full");
  EXPECT_EQ(told.str(), "warning status.json: the disk is full; the run goes on\n");
  told.str("");
  for (int i = 0; i < 3; ++i) trouble.went_well(log);
  EXPECT_EQ(told.str(), "info status.json: it works again, after 3 failures\n");
  told.str("");
  trouble.failed(log, "removed");
  EXPECT_EQ(told.str(), "warning status.json: removed; the run goes on\n");
}

}  // namespace
}  // namespace pipefill
