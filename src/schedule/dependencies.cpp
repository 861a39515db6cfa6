// Finds every instruction's dependencies by looking up who makes what.
#include "schedule/dependencies.hpp"

#include <cstdint>
#include <optional>

#include "schedule/place_table.hpp"

namespace pipefill {
namespace {

/// What an instruction puts into the world; each made once per chunk and microbatch.
enum class Product { output, input_gradient, weight_gradient, sent_activation, activation, sent_gradient, gradient };
constexpr int kProducts = static_cast<int>(Product::gradient) + 1;

/// The first place where each product is made.
class Makers {
 public:
  explicit Makers(const Schedule& schedule) : makers_(schedule, kProducts) {
    for (int stage = 0; stage < schedule.stages(); ++stage) {
      const Program& program = schedule.programs[static_cast<std::size_t>(stage)];
      for (int index = 0; index < static_cast<int>(program.size()); ++index) {
        add(program[static_cast<std::size_t>(index)], {stage, index});
      }
    }
  }
  std::optional<Place> find(Product product, std::int64_t chunk, MicrobatchId microbatch) const {
    return makers_.find(product, chunk, microbatch.value);
  }
  /// The places that make this product of a chunk, for every microbatch.
  std::vector<Place> find_all(Product product, std::int64_t chunk) const { return makers_.find_all(product, chunk); }

 private:
  void add(const Instruction& instruction, Place place) {
    const auto makes = [&](Product product, const auto& i) {
      (void)makers_.add(product, i.chunk.value, i.microbatch.value, place);
    };
    std::visit(Overloaded{
                   [&](const Forward& i) { makes(Product::output, i); },
                   [&](const Backward& i) {
                     makes(Product::input_gradient, i);
                     makes(Product::weight_gradient, i);
                   },
                   [&](const BackwardInput& i) { makes(Product::input_gradient, i); },
                   [&](const BackwardWeight& i) { makes(Product::weight_gradient, i); },
                   [&](const SendActivation& i) { makes(Product::sent_activation, i); },
                   [&](const RecvActivation& i) { makes(Product::activation, i); },
                   [&](const SendGradient& i) { makes(Product::sent_gradient, i); },
                   [&](const RecvGradient& i) { makes(Product::gradient, i); },
                   [](const ReduceGradients&) {},
                   [](const OptimizerStep&) {},
                   [](const Bubble&) {},
               },
               instruction);
  }

  PlaceTable<Product> makers_;
};

/// Everything the optimizer step of any stage waits for: all stages' last instructions before theirs, all reductions.
std::vector<Dependency> all_gradients(const Schedule& schedule) {
  std::vector<Dependency> result;
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const Program& program = schedule.programs[static_cast<std::size_t>(stage)];
    std::optional<Place> last;
    for (int index = 0; index < static_cast<int>(program.size()); ++index) {
      const Instruction& instruction = program[static_cast<std::size_t>(index)];
      if (std::holds_alternative<OptimizerStep>(instruction)) break;
      if (std::holds_alternative<ReduceGradients>(instruction)) result.push_back({{stage, index}, Link::reduction});
      if (!std::holds_alternative<Bubble>(instruction)) last = Place{stage, index};
    }
    if (last) result.push_back({*last, Link::local});
  }
  return result;
}

class Finder {
 public:
  Finder(const Schedule& schedule, SendMode mode)
      : mode_(mode), makers_(schedule), all_gradients_(all_gradients(schedule)) {}

  std::vector<Dependency> operator()(const Instruction& instruction, int stage) {
    found_.clear();
    stage_ = stage;
    std::visit(
        Overloaded{
            [&](const Forward& i) {
              message(Product::activation, i, Product::sent_activation, Product::output, chunk_before(i));
            },
            [&](const Backward& i) { backward(i); },
            [&](const BackwardInput& i) { backward(i); },
            [&](const BackwardWeight& i) { local(makers_.find(Product::input_gradient, i.chunk.value, i.microbatch)); },
            [&](const SendActivation& i) {
              local(makers_.find(Product::output, i.chunk.value, i.microbatch));
              posted(makers_.find(Product::activation, chunk_after(i), i.microbatch));
            },
            [&](const SendGradient& i) {
              local(makers_.find(Product::input_gradient, i.chunk.value, i.microbatch));
              posted(makers_.find(Product::gradient, chunk_before(i), i.microbatch));
            },
            [](const RecvActivation&) {},
            [](const RecvGradient&) {},
            [&](const ReduceGradients& i) {
              for (const Place place : makers_.find_all(Product::weight_gradient, i.chunk.value)) local(place);
            },
            [&](const OptimizerStep&) { found_ = all_gradients_; },
            [](const Bubble&) {},
        },
        instruction);
    return found_;
  }

 private:
  static std::int64_t chunk_before(const auto& i) { return std::int64_t{i.chunk.value} - 1; }
  static std::int64_t chunk_after(const auto& i) { return std::int64_t{i.chunk.value} + 1; }

  void local(std::optional<Place> place) {
    if (place) found_.push_back({*place, Link::local});
  }
  void posted(std::optional<Place> place) {
    if (mode_ == SendMode::synchronous) local(place);
  }
  void message(Product received, const auto& i, Product sent, Product made, std::int64_t other_chunk) {
    local(makers_.find(received, i.chunk.value, i.microbatch));
    auto source = makers_.find(sent, other_chunk, i.microbatch);
    if (!source) source = makers_.find(made, other_chunk, i.microbatch);
    if (source) found_.push_back({*source, source->stage == stage_ ? Link::local : Link::message});
  }
  void backward(const auto& i) {
    local(makers_.find(Product::output, i.chunk.value, i.microbatch));
    message(Product::gradient, i, Product::sent_gradient, Product::input_gradient, chunk_after(i));
  }

  SendMode mode_;
  Makers makers_;
  std::vector<Dependency> all_gradients_;
  std::vector<Dependency> found_;
  int stage_ = 0;
};

template <class Predicate>
bool any_instruction(const Schedule& schedule, Predicate predicate) {
  for (const Program& program : schedule.programs) {
    for (const Instruction& instruction : program) {
      if (predicate(instruction)) return true;
    }
  }
  return false;
}

}  // namespace

Dependencies find_dependencies(const Schedule& schedule, SendMode mode) {
  Finder find(schedule, mode);
  Dependencies result;
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    auto& of_stage = result.emplace_back();
    of_stage.reserve(schedule.programs[static_cast<std::size_t>(stage)].size());
    for (const Instruction& instruction : schedule.programs[static_cast<std::size_t>(stage)]) {
      of_stage.push_back(find(instruction, stage));
    }
  }
  return result;
}

bool is_compute(const Instruction& instruction) {
  return std::holds_alternative<Forward>(instruction) || std::holds_alternative<Backward>(instruction) ||
         std::holds_alternative<BackwardInput>(instruction) || std::holds_alternative<BackwardWeight>(instruction);
}

bool has_communication(const Schedule& schedule) {
  return any_instruction(schedule, [](const Instruction& i) {
    return std::holds_alternative<SendActivation>(i) || std::holds_alternative<RecvActivation>(i) ||
           std::holds_alternative<SendGradient>(i) || std::holds_alternative<RecvGradient>(i);
  });
}

bool has_backward(const Schedule& schedule) {
  return any_instruction(schedule, [](const Instruction& i) {
    return std::holds_alternative<Backward>(i) || std::holds_alternative<BackwardInput>(i) ||
           std::holds_alternative<BackwardWeight>(i);
  });
}

bool waits_for_message(const Schedule& schedule, const Instruction& instruction) {
  const auto other_stage = [&](ModelChunkId chunk, int neighbour) {
    return neighbour >= 0 && neighbour < schedule.chunks() &&
           schedule.stage_of_chunk[static_cast<std::size_t>(neighbour)] !=
               schedule.stage_of_chunk[static_cast<std::size_t>(chunk.value)];
  };
  if (const auto* i = std::get_if<Forward>(&instruction)) return other_stage(i->chunk, i->chunk.value - 1);
  if (const auto* i = std::get_if<Backward>(&instruction)) return other_stage(i->chunk, i->chunk.value + 1);
  if (const auto* i = std::get_if<BackwardInput>(&instruction)) return other_stage(i->chunk, i->chunk.value + 1);
  return false;
}

}  // namespace pipefill
