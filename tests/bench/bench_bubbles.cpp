// Question: does a pipeline take as long, and wait as long, as `price` says for the costs measured in the same run?
// Four stages that sleep for a set time instead of computing, so that two cores are enough for true bubbles: the model
// is tiny and the transport's progress(), which a stage calls between its layers, sleeps.
//   bench_bubbles [steps]            P=4, M=8, GPipe and 1F1B, threads over loopback
// Two stages that really compute, one core each: tests/bench/bubbles_of_two_stages.sh.
#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/temporary_directory.hpp"
#include "engine/measured_costs.hpp"
#include "support/pipeline_run.hpp"

namespace pipefill {
namespace {

using namespace testing_support;

/// Every call of progress() sleeps; all else is passed on.
class SleepyTransport final : public Transport {
 public:
  SleepyTransport(Transport& inner, Nanoseconds nap) : inner_(inner), nap_(nap) {}
  RankId rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  Request send(RankId to, Tag tag, std::span<const std::byte> message) override {
    return inner_.send(to, tag, message);
  }
  Request receive(RankId from, Tag tag, std::span<std::byte> message) override {
    return inner_.receive(from, tag, message);
  }
  bool test(Request& request) override { return inner_.test(request); }
  void progress() override {
    inner_.progress();
    std::this_thread::sleep_for(nap_);
  }
  Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                     std::vector<std::int64_t> counts) override {
    return inner_.all_gather(mine, all, std::move(counts));
  }
  Request all_reduce_max(std::int64_t value, std::int64_t& result) override {
    return inner_.all_reduce_max(value, result);
  }
  bool abandon(Request& request) noexcept override { return inner_.abandon(request); }
  void abort(int exit_code) override { inner_.abort(exit_code); }

 private:
  Transport& inner_;
  Nanoseconds nap_;
};

void measure(const std::string& schedule, std::int64_t steps) {
  constexpr int kStages = 4, kMicrobatches = 8;
  RunConfig config = small_run(kStages, 1, kMicrobatches, schedule);
  config.model.layers = 4;
  config.parallel.layers = {1, 1, 1, 1};
  config.run.steps = steps;
  config.device.wait = WaitChoice::sleep;
  TemporaryDirectory scratch;
  config.run.directory = scratch / schedule;
  Hdf5Thread hdf5;
  run_loopback(kStages, [&](Transport& transport) {
    SleepyTransport sleepy(transport, std::chrono::milliseconds(4));
    run_rank(config, sleepy, hdf5, [&](Trainer& trainer, const RunPlan& plan) {
      const CostModel costs =
          gather_measured_costs(plan.training, trainer.profiler(), Nanoseconds{0}, trainer.services());
      if (transport.rank().value != 0) return;
      const Timeline priced = price(plan.training, costs);
      const double step = to_milliseconds(trainer.profiler().step_time());
      const double bubbles = to_milliseconds(trainer.bubbles()) / (step * kStages);
      fmt::print(
          "{:6} P={} M={}: step {:.1f} ms, priced {:.1f} ms ({:+.1f}%); bubble fraction {:.4f}, priced {:.4f} "
          "({:+.1f}%)\n",
          schedule, kStages, kMicrobatches, step, to_milliseconds(priced.makespan),
          100 * (step / to_milliseconds(priced.makespan) - 1), bubbles, priced.bubble_fraction,
          100 * (bubbles / priced.bubble_fraction - 1));
    });
  });
}

}  // namespace
}  // namespace pipefill

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 12;
  for (const char* schedule : {"gpipe", "1f1b"}) pipefill::measure(schedule, steps);
}
