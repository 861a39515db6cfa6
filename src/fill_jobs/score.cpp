// A batch of sequences goes through the layers in pieces: embedding, halves of layers, columns of the logits. Between
// pieces lives the residual stream, in two buffers that each half reads from one and writes to the other.
#include "fill_jobs/score.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "base/contract.hpp"
#include "base/error.hpp"
#include "device/cpu/cpu_device.hpp"
#include "fill_jobs/batches.hpp"
#include "fill_jobs/cpp_kind.hpp"
#include "fill_jobs/half_layer.hpp"
#include "fill_jobs/job_state.hpp"
#include "fill_jobs/output.hpp"
#include "fill_jobs/score_plan.hpp"
#include "fill_jobs/text_source.hpp"
#include "fill_jobs/transformer_source.hpp"
#include "kernels/cross_entropy/cross_entropy.hpp"
#include "kernels/embedding/embedding.hpp"
#include "kernels/layernorm/layernorm.hpp"
#include "kernels/matmul/matmul.hpp"

namespace pipefill {
namespace {

struct Settings {
  std::string name, directory;
  int threads;
  std::int64_t first = 0, sequences = 0;  ///< of this shard
  std::vector<std::int64_t> batches;
};

struct State {
  StateHead* head;
  float* parameters;
  std::int32_t *inputs, *targets;  ///< (B,T)
  float* residual[2];              ///< (N,C)
  float* log_sum_exp;              ///< (head pieces, N)
  float* target_logit;             ///< (N)
  double* nll;                     ///< (sequences of the shard)

  static State carve(Carver& carver, const ParameterLayout& layout, const ScorePlan& plan, std::int64_t sequences) {
    const std::int64_t N = plan.batch * layout.shape.context, C = layout.shape.channels;
    State s{};
    s.head = StateHead::carve(carver);
    s.parameters = carver.take<float>(layout.floats);
    s.inputs = carver.take<std::int32_t>(N);
    s.targets = carver.take<std::int32_t>(N);
    for (float*& buffer : s.residual) buffer = carver.take<float>(N * C);
    s.log_sum_exp = carver.take<float>(std::max(plan.head_pieces(0), std::int64_t{1}) * N);
    s.target_logit = carver.take<float>(N);
    s.nll = carver.take<double>(sequences);
    return s;
  }
};

/// Memory whose contents no chunk leaves to the next. One half uses it at a time, but their buffers lie side by side.
struct Scratch {
  AttentionActivations attention;
  MlpActivations mlp;
  float *norm, *mean, *rstd, *logits, *losses, *log_sum_exp;

  static Scratch carve(Carver& carver, const ModelShape& shape, const ScorePlan& plan) {
    std::int64_t sequences = 1, rows = 1, columns = 1;
    for (const ScorePiece& piece : plan.full) {
      if (piece.part == ScorePart::attention) sequences = std::max(sequences, piece.range.count);
      if (piece.part == ScorePart::mlp) rows = std::max(rows, piece.range.count);
      if (piece.part == ScorePart::head) columns = std::max(columns, piece.range.count);
    }
    const std::int64_t N = plan.batch * shape.context;
    Scratch s{};
    s.attention = AttentionActivations::carve(carver, shape, sequences * shape.context);
    s.mlp = MlpActivations::carve(carver, shape, rows);
    s.norm = carver.take<float>(N * shape.channels);
    s.mean = carver.take<float>(N);
    s.rstd = carver.take<float>(N);
    s.logits = carver.take<float>(N * ((columns + 15) / 16 * 16));
    s.losses = carver.take<float>(N);
    s.log_sum_exp = carver.take<float>(N);
    return s;
  }
};

class Score final : public DivisibleWork {
 public:
  explicit Score(const pipefill_fill_setup& setup) : Score(setup, JobParameters(setup)) {}

  std::vector<pipefill_fill_configuration> configurations() const override {
    std::vector<pipefill_fill_configuration> all;
    for (const std::int64_t batch : settings_.batches) {
      const ScorePlan plan(layout_.shape, settings_.sequences, batch);
      Carver state, scratch;
      State::carve(state, layout_, plan, settings_.sequences);
      Scratch::carve(scratch, layout_.shape, plan);
      pipefill_fill_configuration c = named_configuration(name_of(plan));
      c.chunks = plan.chunks();
      c.state_bytes = state.taken().count;
      c.memory_bytes = scratch.taken().count + kLibraryMemory;
      c.samples = settings_.sequences;
      all.push_back(c);
    }
    return all;
  }

  pipefill_fill_chunk plan(int configuration, std::int64_t chunk) const override {
    const ScorePlan& plan = plans_.at(static_cast<std::size_t>(configuration));
    const ScorePiece& piece = plan.piece(chunk);
    Cost batch;
    for (const ScorePiece& other : plan.pieces(plan.batch_of(chunk))) batch += other.cost;
    Carver scratch;
    Scratch::carve(scratch, layout_.shape, plan);
    return {sizeof(pipefill_fill_chunk),
            piece.cost_class,
            piece.cost.flops,
            piece.cost.bytes,
            scratch.taken().count + kLibraryMemory,
            static_cast<double>(plan.size_of(plan.batch_of(chunk))) * piece.cost.flops / batch.flops};
  }

  void restore(int configuration, std::span<std::byte> state, std::int64_t /*done*/) override {
    plan_ = &plans_.at(static_cast<std::size_t>(configuration));
    Carver carver(state), size;
    state_ = State::carve(carver, layout_, *plan_, settings_.sequences);
    state_.head->fill_once(identity_, [&] {
      source_.fill(layout_, {state_.parameters, static_cast<std::size_t>(layout_.floats)}, settings_.threads);
    });
    Scratch::carve(size, layout_.shape, *plan_);
    memory_ = device_.allocate(size.taken(), "the activations of a fill job");
    Carver scratch(memory_);
    scratch_ = Scratch::carve(scratch, layout_.shape, *plan_);
    warm_up(device_.kernels());
  }

  void run(std::int64_t chunk) override {
    const ScorePiece& piece = plan_->piece(chunk);
    const std::int64_t batch = plan_->batch_of(chunk), T = layout_.shape.context, C = layout_.shape.channels;
    switch (piece.part) {
      case ScorePart::embedding:
        return embed(batch);
      case ScorePart::attention: {
        const std::int64_t at = piece.range.first * T * C;
        return attention_half(device_.kernels(), layout_.shape, state_.parameters, layer(piece), scratch_.attention,
                              state_.residual[1] + at, state_.residual[0] + at, piece.range.count, T);
      }
      case ScorePart::mlp: {
        const std::int64_t at = piece.range.first * C;
        return mlp_half(device_.kernels(), layout_.shape, state_.parameters, layer(piece), scratch_.mlp,
                        state_.residual[0] + at, state_.residual[1] + at, piece.range.count);
      }
      case ScorePart::head:
        return head(batch, piece, &piece - plan_->pieces(batch).data());
    }
  }

  void save(std::int64_t done) override {
    write({state_.nll, static_cast<std::size_t>(plan_->finished(done))}, *plan_);
  }

  void merge(const std::string& configuration, const std::vector<std::string>& parts) override {
    const auto plan = std::ranges::find(plans_, configuration, name_of);
    if (plan == plans_.end()) throw DeckError(fmt::format("there is no configuration '{}'", configuration));
    std::vector<double> nll;
    for (const std::string& part : parts) {
      const H5File file = H5File::open(part + "/nll.h5");
      const std::vector<std::int64_t> sequence = file.read<std::int64_t>("/sequence");
      const std::vector<double> more = file.read<double>("/nll");
      for (std::size_t i = 0; i < sequence.size(); ++i)
        if (sequence[i] != std::ssize(nll) + static_cast<std::int64_t>(i))
          throw FileError(ExitCode::damaged_data, part + "/nll.h5", "does not begin where the part before it ends");
      nll.insert(nll.end(), more.begin(), more.end());
    }
    if (std::ssize(nll) != settings_.sequences)
      throw FileError(ExitCode::damaged_data, settings_.directory,
                      fmt::format("its parts have {} sequences of {}", nll.size(), settings_.sequences));
    write(nll, *plan);
  }

 private:
  static std::string name_of(const ScorePlan& plan) { return fmt::format("batch={}", plan.batch); }

  void write(std::span<const double> nll, const ScorePlan& plan) const {
    const auto count = std::ssize(nll);
    std::vector<std::int64_t> sequence(nll.size()), tokens(nll.size(), layout_.shape.context);
    std::iota(sequence.begin(), sequence.end(), settings_.first);
    write_h5(settings_.directory, "nll.h5", [&](H5File& file) {
      file.write_attribute("/", "filetype", "pipefill-scores");
      file.write_attribute("/", "version", std::int32_t{1});
      file.write_attribute("/", "job", settings_.name);
      file.write_attribute("/", "configuration", name_of(plan));
      file.write_attribute("/", "model", source_.describe());
      file.write_attribute("/", "sequences", settings_.sequences);
      file.write<std::int64_t>("/sequence", sequence, {count});
      file.write<double>("/nll", nll, {count});
      file.write<std::int64_t>("/tokens", tokens, {count});
      file.write_attribute("/sequence", "description", "number of the sequence in the text");
      file.write_attribute("/nll", "description", "negative log-likelihood of the sequence's targets, summed");
      file.write_attribute("/nll", "unit", "nats");
      file.write_attribute("/tokens", "description", "targets of the sequence");
    });
  }

  Score(const pipefill_fill_setup& setup, JobParameters parameters)
      : settings_{setup.name, setup.directory, setup.threads, 0, 0, {}},
        identity_(parameters.identity()),
        seed_(static_cast<std::uint64_t>(
            parameters.integer("seed", static_cast<std::int64_t>(setup.seed), 0, INT64_MAX))),
        synthetic_(parameters.integer("synthetic", 0, 0, 1 << 30)),
        description_(data_description(parameters, "text", seed_)),
        source_(parameters, setup, seed_, own_vocab(description_)),
        layout_(source_.shape()),
        device_(setup.threads, Bytes{0}),
        data_(open(description_, layout_.shape)) {
    if ((description_.format == TokenFormat::synthetic) != (synthetic_ > 0))
      throw DeckError("a score job needs either with.text, a list of files, or with.synthetic, a number of sequences");
    std::vector<std::int64_t> sizes = parameters.integers("batch", 1, 1024);
    parameters.refuse_others();
    if (sizes.empty()) sizes = {1, 2, 4};
    const std::int64_t all = synthetic_ > 0 ? synthetic_ : data_.training_samples().value();
    const ShardedBatches mine = sharded_batches(std::move(sizes), all, setup.shard, setup.shards);
    settings_.first = mine.shard.first;
    settings_.sequences = mine.shard.count;
    settings_.batches = mine.sizes;
    for (const std::int64_t batch : settings_.batches) plans_.emplace_back(layout_.shape, settings_.sequences, batch);
  }

  static TokenData open(DataDescription description, const ModelShape& shape) {
    description.vocab = shape.vocab;
    return open_data(description, shape.context);
  }

  const LayerOffsets& layer(const ScorePiece& piece) const {
    return layout_.layers[static_cast<std::size_t>(piece.layer)];
  }

  void embed(std::int64_t batch) {
    const std::int64_t T = layout_.shape.context, B = plan_->size_of(batch);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(T + 1));
    for (std::int64_t b = 0; b < B; ++b) {
      data_.read_in_order(settings_.first + batch * plan_->batch + b, tokens);
      std::copy_n(tokens.begin(), T, state_.inputs + b * T);
      std::copy_n(tokens.begin() + 1, T, state_.targets + b * T);
    }
    embedding_forward(device_.kernels(), state_.residual[0], state_.inputs, state_.parameters + layout_.token_embedding,
                      state_.parameters + layout_.position_embedding, B, T, layout_.shape.channels);
  }

  /// Columns of the logits: their log-sum-exp per row, and the logits of the targets among them. The last piece joins
  /// all pieces' sums.
  void head(std::int64_t batch, const ScorePiece& piece, std::int64_t index) {
    const KernelContext& ctx = device_.kernels();
    const std::int64_t N = plan_->size_of(batch) * layout_.shape.context, C = layout_.shape.channels;
    const std::int64_t stride = (piece.range.count + 15) / 16 * 16;
    const std::int64_t first_head = static_cast<std::int64_t>(plan_->pieces(batch).size()) - plan_->head_pieces(batch);
    float* mine = state_.log_sum_exp + (index - first_head) * N;
    layernorm_forward(ctx, scratch_.norm, scratch_.mean, scratch_.rstd, state_.residual[0],
                      state_.parameters + layout_.final_norm.weight, state_.parameters + layout_.final_norm.bias, N, C);
    matmul(ctx, scratch_.logits, scratch_.norm, state_.parameters + layout_.head + piece.range.first * C,
           {.m = N, .n = piece.range.count, .k = C, .b = Transpose::yes, .ldc = stride});
    const std::vector<std::int32_t> any(static_cast<std::size_t>(N), 0);
    cross_entropy_forward(ctx, scratch_.losses, mine, scratch_.logits, any.data(), N, piece.range.count, stride);
    for (std::int64_t n = 0; n < N; ++n) {
      const std::int64_t column = state_.targets[n] - piece.range.first;
      if (column >= 0 && column < piece.range.count) state_.target_logit[n] = scratch_.logits[n * stride + column];
    }
    if (index + 1 == static_cast<std::int64_t>(plan_->pieces(batch).size())) join(batch);
  }

  void join(std::int64_t batch) {
    const std::int64_t T = layout_.shape.context, N = plan_->size_of(batch) * T;
    for (std::int64_t b = 0; b < plan_->size_of(batch); ++b) {
      double sum = 0;
      for (std::int64_t n = b * T; n < (b + 1) * T; ++n) {
        double most = -INFINITY, total = 0;
        for (std::int64_t k = 0; k < plan_->head_pieces(batch); ++k)
          most = std::max(most, static_cast<double>(state_.log_sum_exp[k * N + n]));
        for (std::int64_t k = 0; k < plan_->head_pieces(batch); ++k)
          total += std::exp(static_cast<double>(state_.log_sum_exp[k * N + n]) - most);
        sum += most + std::log(total) - static_cast<double>(state_.target_logit[n]);
      }
      state_.nll[batch * plan_->batch + b] = sum;
    }
  }

  Settings settings_;
  std::uint64_t identity_, seed_;
  std::int64_t synthetic_;
  DataDescription description_;
  TransformerSource source_;
  ParameterLayout layout_;
  CpuDevice device_;
  TokenData data_;
  std::vector<ScorePlan> plans_;

  const ScorePlan* plan_ = nullptr;
  State state_{};
  Buffer memory_;
  Scratch scratch_{};
};

constexpr pipefill_fill_kind kScore = cpp_kind::table<Score>("score");

}  // namespace

const pipefill_fill_kind* score_kind() { return &kScore; }

}  // namespace pipefill
