// Lowers compute to compute with communication.
#include "schedule/communication.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "schedule/dry_run.hpp"
#include "schedule/validate.hpp"

namespace pipefill {
namespace {

const Instruction& at(const Schedule& schedule, Place place) {
  return schedule.programs[static_cast<std::size_t>(place.stage)][static_cast<std::size_t>(place.index)];
}

/// The message that a compute instruction waits for or makes, when it crosses from one stage to another.
class Messages {
 public:
  explicit Messages(const Schedule& schedule) : schedule_(schedule) {}

  std::optional<Instruction> receive_for(const Instruction& consumer) const {
    if (const auto* i = std::get_if<Forward>(&consumer)) return message<RecvActivation>(*i, -1);
    if (const auto* i = std::get_if<Backward>(&consumer)) return message<RecvGradient>(*i, +1);
    if (const auto* i = std::get_if<BackwardInput>(&consumer)) return message<RecvGradient>(*i, +1);
    return std::nullopt;
  }
  std::optional<Instruction> send_after(const Instruction& producer) const {
    if (const auto* i = std::get_if<Forward>(&producer)) return message<SendActivation>(*i, +1);
    if (const auto* i = std::get_if<Backward>(&producer)) return message<SendGradient>(*i, -1);
    if (const auto* i = std::get_if<BackwardInput>(&producer)) return message<SendGradient>(*i, -1);
    return std::nullopt;
  }

 private:
  template <class Message>
  std::optional<Instruction> message(const auto& i, int direction) const {
    const int other = i.chunk.value + direction;
    if (other < 0 || other >= schedule_.chunks()) return std::nullopt;
    const StageId peer = schedule_.stage_of_chunk[static_cast<std::size_t>(other)];
    if (peer == schedule_.stage_of_chunk[static_cast<std::size_t>(i.chunk.value)]) return std::nullopt;
    return Message{i.chunk, i.microbatch, peer};
  }
  const Schedule& schedule_;
};

/// [stage][k]: the receives to post before compute instruction k.
///
/// Why this is safe under synchronous sends: in the order of the dry run every receive stands after what its stage had
/// run when the message was made, or before. So executing the lowered programs in that order never blocks, and posting
/// a receive earlier than that can only help.
std::vector<std::vector<Program>> place_receives(const Schedule& compute, const std::vector<Place>& order) {
  const Dependencies dependencies = find_dependencies(compute);
  const Messages messages(compute);
  std::vector<std::vector<std::optional<Place>>> consumers;
  for (const Program& program : compute.programs) consumers.emplace_back(program.size());
  const auto consumer_of = [&](Place place) -> std::optional<Place>& {
    return consumers[static_cast<std::size_t>(place.stage)][static_cast<std::size_t>(place.index)];
  };
  for (const Place place : order) {
    for (const Dependency& dependency :
         dependencies[static_cast<std::size_t>(place.stage)][static_cast<std::size_t>(place.index)]) {
      if (dependency.link == Link::message) consumer_of(dependency.on) = place;
    }
  }

  std::vector<std::vector<Program>> receives;
  for (const Program& program : compute.programs) receives.emplace_back(program.size());
  std::vector<int> already_run(compute.programs.size(), 0);
  for (const Place place : order) {
    ++already_run[static_cast<std::size_t>(place.stage)];
    const std::optional<Place> consumer = consumer_of(place);
    if (!consumer) continue;
    const auto stage = static_cast<std::size_t>(consumer->stage);
    const int before = std::min(already_run[stage], std::max(consumer->index - 1, 0));
    receives[stage][static_cast<std::size_t>(before)].push_back(*messages.receive_for(at(compute, *consumer)));
  }
  return receives;
}

/// [chunk] -> index of its last weight gradient in the program of its stage.
std::map<ModelChunkId, int> last_weight_gradients(const Program& program) {
  std::map<ModelChunkId, int> last;
  for (int index = 0; index < static_cast<int>(program.size()); ++index) {
    const Instruction& instruction = program[static_cast<std::size_t>(index)];
    if (const auto* i = std::get_if<Backward>(&instruction)) last[i->chunk] = index;
    if (const auto* i = std::get_if<BackwardWeight>(&instruction)) last[i->chunk] = index;
  }
  return last;
}

void refuse_lowered(const Schedule& schedule) {
  for (const Program& program : schedule.programs) {
    if (!std::all_of(program.begin(), program.end(), is_compute)) {
      throw ScheduleError(
          fmt::format("schedule '{}' has more than compute instructions already; communication added twice would run "
                      "twice",
                      schedule.name));
    }
  }
}

}  // namespace

Schedule with_communication(const Schedule& compute, Replicas replicas) {
  refuse_lowered(compute);
  validate(compute);
  const auto receives = place_receives(compute, dry_run(compute).order);
  const Messages messages(compute);
  const bool trains = has_backward(compute);

  Schedule result = compute;
  for (std::size_t stage = 0; stage < compute.programs.size(); ++stage) {
    const Program& program = compute.programs[stage];
    const auto last = last_weight_gradients(program);
    Program lowered;
    for (std::size_t index = 0; index < program.size(); ++index) {
      lowered.insert(lowered.end(), receives[stage][index].begin(), receives[stage][index].end());
      lowered.push_back(program[index]);
      if (const auto send = messages.send_after(program[index])) lowered.push_back(*send);
      if (replicas == Replicas::one) continue;
      for (const auto& [chunk, last_index] : last) {
        if (last_index == static_cast<int>(index)) lowered.push_back(ReduceGradients{chunk});
      }
    }
    if (trains) lowered.push_back(OptimizerStep{});
    result.programs[stage] = std::move(lowered);
  }
  return result;
}

}  // namespace pipefill
