// Chunk i is piece i modulo the step's pieces of step i / pieces.
#include "fill_jobs/train.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "device/cpu/cpu_device.hpp"
#include "fill_jobs/cpp_kind.hpp"
#include "fill_jobs/output.hpp"
#include "fill_jobs/text_source.hpp"
#include "fill_jobs/train_step.hpp"
#include "fill_jobs/transformer_source.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

LearningRateDecay decay_named(const std::string& name) {
  constexpr std::array<std::pair<const char*, LearningRateDecay>, 4> kDecays{{{"constant", LearningRateDecay::constant},
                                                                              {"linear", LearningRateDecay::linear},
                                                                              {"cosine", LearningRateDecay::cosine},
                                                                              {"wsd", LearningRateDecay::wsd}}};
  for (const auto& [known, decay] : kDecays)
    if (name == known) return decay;
  throw DeckError(fmt::format("with.decay is '{}'; it needs constant, linear, cosine or wsd", name));
}

TrainSettings train_settings(JobParameters& parameters) {
  TrainSettings s;
  s.sizes.B = parameters.integer("microbatch_size", 4, 1, 4096);
  s.sizes.M = parameters.integer("microbatches", 1, 1, 4096);
  s.sizes.steps = parameters.integer("steps", 100, 1, 1 << 24);
  s.rate.peak = parameters.number("learning_rate", 3e-3, 0, 1e3);
  s.rate.final_fraction = parameters.number("final_fraction", 0.1, 0, 1);
  s.rate.warm_up = parameters.integer("warm_up", 0, 0, 1 << 24);
  s.rate.steps = s.sizes.steps;
  s.rate.decay = decay_named(parameters.text("decay").value_or("constant"));
  s.beta1 = parameters.number("beta1", 0.9, 0, 1);
  s.beta2 = parameters.number("beta2", 0.95, 0, 1);
  s.weight_decay = parameters.number("weight_decay", 0.1, 0, 1e3);
  s.clip = parameters.number("clip", 1.0, 0, 1e9);
  return s;
}

class Train final : public FillWork {
 public:
  explicit Train(const pipefill_fill_setup& setup) : Train(setup, JobParameters(setup)) {}

  std::vector<pipefill_fill_configuration> configurations() const override {
    Carver state;
    TrainState::carve(state, layout_, settings_.sizes, norm_pieces_);
    pipefill_fill_configuration c = named_configuration("default");
    c.chunks = settings_.sizes.steps * per_step();
    c.state_bytes = state.taken().count;
    c.memory_bytes = memory();
    c.samples = settings_.sizes.steps * sequences_per_step();
    return {c};
  }

  pipefill_fill_chunk plan(int /*configuration*/, std::int64_t chunk) const override {
    const TrainPiece& piece = this->piece(chunk);
    return {sizeof(pipefill_fill_chunk),
            piece.cost_class,
            piece.cost.flops,
            piece.cost.bytes,
            memory(),
            static_cast<double>(sequences_per_step()) * piece.cost.chunks() / step_cost_};
  }

  void restore(int /*configuration*/, std::span<std::byte> state, std::int64_t /*done*/) override {
    Carver carver(state);
    state_ = TrainState::carve(carver, layout_, settings_.sizes, norm_pieces_);
    state_.head->fill_once(identity_, [&] {
      source_.fill(layout_, {state_.parameters[0].values, static_cast<std::size_t>(layout_.floats)}, threads_);
    });
    step_ = std::make_unique<TrainStep>(layout_, settings_, data_, device_, state_, norm_pieces_);
    warm_up(device_.kernels());
  }

  void run(std::int64_t chunk) override {
    const TrainPiece& piece = this->piece(chunk);
    const auto first =
        std::find_if(pieces_.begin(), pieces_.end(), [&](const auto& p) { return p.part == piece.part; });
    step_->run(piece, chunk / per_step() + 1, &piece - &*first);
  }

  void save(std::int64_t done) override {
    const std::int64_t steps = done / per_step();
    std::string lines;
    for (std::int64_t s = 1; s <= steps; ++s) {
      lines += nlohmann::ordered_json{{"step", s},
                                      {"loss", state_.losses[s - 1]},
                                      {"learning_rate", settings_.rate.at(s)},
                                      {"gradient_norm", state_.norms[s - 1]}}
                   .dump() +
               "\n";
    }
    const float* values = state_.parameters[static_cast<std::size_t>(steps % 2)].values;
    write_h5(directory_, "weights.h5", [&](H5File& file) {
      file.write_attribute("/", "filetype", "pipefill-weights");
      file.write_attribute("/", "version", std::int32_t{1});
      file.write_attribute("/", "job", name_);
      file.write_attribute("/", "model", source_.describe());
      file.write_attribute("/", "step", steps);
      file.write_attribute("/", "heads", std::int32_t{layout_.shape.heads});
      for (std::size_t t = 0; t < layout_.table.size(); ++t) {
        const TensorSpec& tensor = layout_.table[t];
        file.write<float>("/parameters/" + tensor.name,
                          {values + layout_.offsets[t], static_cast<std::size_t>(tensor.elements())}, tensor.shape);
      }
    });
    replace_file(directory_ + "/loss.jsonl", lines);
  }

 private:
  Train(const pipefill_fill_setup& setup, JobParameters parameters)
      : name_(setup.name),
        directory_(setup.directory),
        threads_(setup.threads),
        identity_(parameters.identity()),
        seed_(static_cast<std::uint64_t>(
            parameters.integer("seed", static_cast<std::int64_t>(setup.seed), 0, INT64_MAX))),
        description_(data_description(parameters, "files", seed_)),
        source_(parameters, setup, seed_, own_vocab(description_)),
        layout_(source_.shape()),
        settings_(train_settings(parameters)),
        device_(setup.threads, Bytes{0}),
        data_(open(description_, layout_.shape)),
        pieces_(cut_step(layout_, settings_.sizes.B, settings_.sizes.M)),
        norm_pieces_(std::count_if(pieces_.begin(), pieces_.end(),
                                   [](const TrainPiece& p) { return p.part == TrainPart::norm; })) {
    parameters.refuse_others();
    if (setup.shards != 1) throw DeckError("a train job is one training; it cannot be divided into shards");
    for (const TrainPiece& piece : pieces_) step_cost_ += piece.cost.chunks();
  }

  static TokenData open(DataDescription description, const ModelShape& shape) {
    description.vocab = shape.vocab;
    return open_data(description, shape.context);
  }

  std::int64_t per_step() const { return static_cast<std::int64_t>(pieces_.size()); }
  const TrainPiece& piece(std::int64_t chunk) const { return pieces_[static_cast<std::size_t>(chunk % per_step())]; }
  std::int64_t sequences_per_step() const { return settings_.sizes.B * settings_.sizes.M; }
  std::int64_t memory() const { return TrainStep::memory(layout_, settings_.sizes.B) + kLibraryMemory; }

  std::string name_, directory_;
  int threads_;
  std::uint64_t identity_, seed_;
  DataDescription description_;
  TransformerSource source_;
  ParameterLayout layout_;
  TrainSettings settings_;
  CpuDevice device_;
  TokenData data_;
  std::vector<TrainPiece> pieces_;
  std::int64_t norm_pieces_;
  double step_cost_ = 0;

  TrainState state_{};
  std::unique_ptr<TrainStep> step_;
};

constexpr pipefill_fill_kind kTrain = cpp_kind::table<Train>("train");

}  // namespace

const pipefill_fill_kind* train_kind() { return &kTrain; }

}  // namespace pipefill
