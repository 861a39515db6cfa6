// Between chunks live the residual stream (in two buffers, read one, write the other), the keys and values of every
// position (each written once, by the chunk of its position), the logits, and the tokens chosen so far.
#include "fill_jobs/generate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "device/cpu/cpu_device.hpp"
#include "fill_jobs/batches.hpp"
#include "fill_jobs/cpp_kind.hpp"
#include "fill_jobs/generate_plan.hpp"
#include "fill_jobs/half_layer.hpp"
#include "fill_jobs/job_state.hpp"
#include "fill_jobs/output.hpp"
#include "fill_jobs/sample_token.hpp"
#include "fill_jobs/transformer_source.hpp"
#include "kernels/attention_step/attention_step.hpp"
#include "kernels/embedding/embedding.hpp"
#include "kernels/layernorm/layernorm.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/residual/residual.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

constexpr int kByteVocab = 256;
constexpr std::int64_t kMostText = std::int64_t{1} << 31;  // bytes of a part's output

struct State {
  StateHead* head;
  float* parameters;
  float *keys, *values;            ///< (L,B,S,C), S positions
  std::array<float*, 2> prefill;   ///< (B, longest prefill, C) residual stream
  std::array<float*, 2> residual;  ///< (B,C)
  float* logits;                   ///< (B, logit_stride)
  std::int32_t* chosen;            ///< (sequences, tokens)

  static State carve(Carver& carver, const ParameterLayout& layout, const GeneratePlan& plan, std::int64_t sequences,
                     std::int64_t tokens) {
    const std::int64_t C = layout.shape.channels, cache = layout.shape.layers * plan.batch * plan.positions * C;
    std::int64_t rows = 0;
    for (const GenerateBatch& b : plan.batches) rows = std::max(rows, b.count * b.prefill);
    State s{};
    s.head = StateHead::carve(carver);
    s.parameters = carver.take<float>(layout.floats);
    s.keys = carver.take<float>(cache);
    s.values = carver.take<float>(cache);
    for (float*& buffer : s.prefill) buffer = carver.take<float>(rows * C);
    for (float*& buffer : s.residual) buffer = carver.take<float>(plan.batch * C);
    s.logits = carver.take<float>(plan.batch * layout.shape.logit_stride());
    s.chosen = carver.take<std::int32_t>(sequences * tokens);
    return s;
  }
};

struct Scratch {
  AttentionActivations attention;
  MlpActivations mlp;
  std::array<float*, 2> residual;  ///< (B,C)

  static Scratch carve(Carver& carver, const ModelShape& shape, const GeneratePlan& plan) {
    std::int64_t attention_rows = plan.batch, mlp_rows = plan.batch;
    for (const GenerateBatch& b : plan.batches) {
      for (const GeneratePiece& piece : *b.prefill_pieces) {
        if (piece.part == GeneratePart::attention)
          attention_rows = std::max(attention_rows, piece.range.count * b.prefill);
        if (piece.part == GeneratePart::mlp) mlp_rows = std::max(mlp_rows, piece.range.count);
      }
    }
    Scratch s{};
    s.attention = AttentionActivations::carve(carver, shape, attention_rows);
    s.mlp = MlpActivations::carve(carver, shape, mlp_rows);
    for (float*& buffer : s.residual) buffer = carver.take<float>(plan.batch * shape.channels);
    return s;
  }
};

class Generate final : public DivisibleWork {
 public:
  explicit Generate(const pipefill_fill_setup& setup) : Generate(setup, JobParameters(setup)) {}

  std::vector<pipefill_fill_configuration> configurations() const override {
    std::vector<pipefill_fill_configuration> all;
    for (const GeneratePlan& plan : plans_) {
      Carver state;
      State::carve(state, layout_, plan, sequences(), tokens_);
      pipefill_fill_configuration c = named_configuration(fmt::format("batch={}", plan.batch));
      c.chunks = plan.chunks;
      c.state_bytes = state.taken().count;
      c.memory_bytes = memory(plan);
      c.samples = sequences() * tokens_;
      all.push_back(c);
    }
    return all;
  }

  pipefill_fill_chunk plan(int configuration, std::int64_t chunk) const override {
    const GeneratePlan& plan = plans_.at(static_cast<std::size_t>(configuration));
    const GeneratePlace at = plan.place(chunk);
    return {sizeof(pipefill_fill_chunk),
            at.piece->cost_class,
            at.piece->cost.flops,
            at.piece->cost.bytes,
            memory(plan),
            static_cast<double>(at.batch->count * tokens_) * at.piece->cost.chunks() / at.batch->cost};
  }

  void restore(int configuration, std::span<std::byte> state, std::int64_t /*done*/) override {
    plan_ = &plans_.at(static_cast<std::size_t>(configuration));
    Carver carver(state), size;
    state_ = State::carve(carver, layout_, *plan_, sequences(), tokens_);
    state_.head->fill_once(identity_, [&] {
      source_.fill(layout_, {state_.parameters, static_cast<std::size_t>(layout_.floats)}, device_.kernels().threads());
    });
    Scratch::carve(size, layout_.shape, *plan_);
    memory_ = device_.allocate(size.taken(), "the activations of a fill job");
    Carver scratch(memory_);
    scratch_ = Scratch::carve(scratch, layout_.shape, *plan_);
    warm_up(device_.kernels());
  }

  void run(std::int64_t chunk) override {
    const GeneratePlace at = plan_->place(chunk);
    const GenerateBatch& batch = *at.batch;
    const Range& range = at.piece->range;
    const std::int64_t C = layout_.shape.channels;
    switch (at.piece->part) {
      case GeneratePart::embedding:
        return embed_prompts(batch);
      case GeneratePart::attention:
        return prefill_attention(batch, at.piece->layer, range);
      case GeneratePart::mlp:
        return mlp_half(device_.kernels(), layout_.shape, state_.parameters, layer(at.piece->layer), scratch_.mlp,
                        state_.prefill[0] + range.first * C, state_.prefill[1] + range.first * C, range.count);
      case GeneratePart::token:
        return token_units_of(at);
    }
  }

  void save(std::int64_t done) override {
    const std::int64_t count = plan_->finished(done);
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return prompt(a).index < prompt(b).index; });
    std::string lines;
    for (const std::int64_t i : order) {
      const std::vector<std::int32_t>& given = prompt(i).tokens;
      const std::vector<std::int32_t> chosen(state_.chosen + i * tokens_, state_.chosen + (i + 1) * tokens_);
      nlohmann::ordered_json line{{"index", prompt(i).index}};
      if (layout_.shape.vocab <= kByteVocab) {
        line["prompt"] = std::string(given.begin(), given.end());
        line["text"] = std::string(chosen.begin(), chosen.end());
      }
      line["prompt_tokens"] = given;
      line["tokens"] = chosen;
      lines += line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    }
    replace_file(directory_ + "/texts.jsonl", lines);
  }

  /// The parts' lines in the order of the prompts' numbers, each as it was written.
  void merge(const std::string& /*configuration*/, const std::vector<std::string>& parts) override {
    std::map<std::int64_t, std::string> lines;
    for (const std::string& part : parts) {
      std::istringstream text(read_file(part + "/texts.jsonl", kMostText));
      for (std::string line; std::getline(text, line);) {
        const auto index = nlohmann::json::parse(line).at("index").get<std::int64_t>();
        if (!lines.emplace(index, line).second)
          throw FileError(ExitCode::damaged_data, part, fmt::format("has prompt {} of another part", index));
      }
    }
    if (std::ssize(lines) != sequences())
      throw FileError(ExitCode::damaged_data, directory_,
                      fmt::format("its parts have {} prompts of {}", lines.size(), sequences()));
    std::string text;
    for (const auto& [index, line] : lines) text += line + "\n";
    replace_file(directory_ + "/texts.jsonl", text);
  }

 private:
  Generate(const pipefill_fill_setup& setup, JobParameters parameters)
      : directory_(setup.directory),
        identity_(parameters.identity()),
        sampling_{parameters.number("temperature", 1, 0, 1e6), parameters.integer("top_k", 0, 0, INT64_MAX),
                  static_cast<std::uint64_t>(
                      parameters.integer("seed", static_cast<std::int64_t>(setup.seed), 0, INT64_MAX))},
        tokens_(parameters.integer("tokens", 32, 1, 1 << 20)),
        source_(parameters, setup, sampling_.seed, kByteVocab),
        layout_(source_.shape()),
        device_(setup.threads, Bytes{0}),
        prompts_(read_prompts(parameters, layout_.shape.vocab)) {
    std::vector<std::int64_t> sizes = parameters.integers("batch", 1, 1024);
    parameters.refuse_others();
    for (const Prompt& p : prompts_)
      if (static_cast<std::int64_t>(p.tokens.size()) + tokens_ - 1 > layout_.shape.context)
        throw DeckError(fmt::format("prompt {} has {} tokens, and {} more would go beyond the model's context of {}",
                                    p.index, p.tokens.size(), tokens_, layout_.shape.context));
    std::stable_sort(prompts_.begin(), prompts_.end(),
                     [](const Prompt& a, const Prompt& b) { return a.tokens.size() < b.tokens.size(); });
    if (sizes.empty()) sizes = {1, 4, 8};
    const ShardedBatches mine = sharded_batches(std::move(sizes), sequences(), setup.shard, setup.shards);
    prompts_ = {prompts_.begin() + mine.shard.first, prompts_.begin() + mine.shard.end()};
    for (const std::int64_t size : mine.sizes) plans_.emplace_back(layout_.shape, prompts_, tokens_, size);
  }

  std::int64_t sequences() const { return static_cast<std::int64_t>(prompts_.size()); }
  const Prompt& prompt(std::int64_t sequence) const { return prompts_[static_cast<std::size_t>(sequence)]; }
  const LayerOffsets& layer(int l) const { return layout_.layers[static_cast<std::size_t>(l)]; }
  std::int64_t memory(const GeneratePlan& plan) const {
    Carver scratch;
    Scratch::carve(scratch, layout_.shape, plan);
    return scratch.taken().count + kLibraryMemory;
  }

  /// Where the cache keeps position `t` of sequence `b` of the batch.
  std::int64_t cached(int l, std::int64_t b, std::int64_t t) const {
    return ((l * plan_->batch + b) * plan_->positions + t) * layout_.shape.channels;
  }

  /// The token at a position that is known: the prompt's, or one chosen earlier.
  std::int32_t token(std::int64_t sequence, std::int64_t position) const {
    const std::vector<std::int32_t>& given = prompt(sequence).tokens;
    const auto length = static_cast<std::int64_t>(given.size());
    if (position < length) return given[static_cast<std::size_t>(position)];
    // A sequence that has all its tokens runs on beside the longer ones of its batch; what it makes is not kept.
    return state_.chosen[sequence * tokens_ + std::min(position - length, tokens_ - 1)];
  }

  void embed_prompts(const GenerateBatch& batch) {
    std::vector<std::int32_t> tokens;
    for (std::int64_t b = 0; b < batch.count; ++b)
      for (std::int64_t t = 0; t < batch.prefill; ++t) tokens.push_back(token(batch.first + b, t));
    embedding_forward(device_.kernels(), state_.prefill[0], tokens.data(), state_.parameters + layout_.token_embedding,
                      state_.parameters + layout_.position_embedding, batch.count, batch.prefill,
                      layout_.shape.channels);
  }

  void prefill_attention(const GenerateBatch& batch, int l, const Range& sequences) {
    const std::int64_t C = layout_.shape.channels, T = batch.prefill, at = sequences.first * T * C;
    attention_half(device_.kernels(), layout_.shape, state_.parameters, layer(l), scratch_.attention,
                   state_.prefill[1] + at, state_.prefill[0] + at, sequences.count, T);
    for (std::int64_t b = 0; b < sequences.count; ++b)
      for (std::int64_t t = 0; t < T; ++t)
        keep(l, sequences.first + b, t, scratch_.attention.qkv + (b * T + t) * 3 * C);
  }

  void keep(int l, std::int64_t b, std::int64_t t, const float* qkv) {
    const std::int64_t C = layout_.shape.channels;
    std::copy_n(qkv + C, C, state_.keys + cached(l, b, t));
    std::copy_n(qkv + 2 * C, C, state_.values + cached(l, b, t));
  }

  /// Runs the piece's units of one token; the residual stream comes from the piece before and goes to the next.
  void token_units_of(const GeneratePlace& at) {
    const GenerateBatch& batch = *at.batch;
    const std::int64_t C = layout_.shape.channels, B = batch.count, halves = 2 * batch.units.layers;
    const float* x = state_.residual[static_cast<std::size_t>(at.index) % 2];
    std::size_t free = 0;
    const auto next = [&] { return scratch_.residual[free++ % 2]; };
    if (at.index == 0) {
      float* embedded = next();
      embed_position(batch, at.position, embedded);
      x = embedded;
    }
    for (std::int64_t u = at.piece->range.first; u < at.piece->range.end(); ++u) {
      if (u < halves) {
        const int l = static_cast<int>(u / 2);
        float* out = next();
        if (u % 2 == 0)
          attend(batch, l, at.position, out, x);
        else
          mlp_half(device_.kernels(), layout_.shape, state_.parameters, layer(l), scratch_.mlp, out, x, B);
        x = out;
      } else if (u + 1 < batch.units.count()) {
        logits_of(batch.units.columns[static_cast<std::size_t>(u - halves)], x, B);
      } else {
        choose(batch, at.position);
      }
    }
    std::copy_n(x, B * C, state_.residual[static_cast<std::size_t>(at.index + 1) % 2]);
  }

  void embed_position(const GenerateBatch& batch, std::int64_t t, float* out) {
    std::vector<std::int32_t> tokens;
    for (std::int64_t b = 0; b < batch.count; ++b) tokens.push_back(token(batch.first + b, t));
    const std::int64_t C = layout_.shape.channels;
    embedding_forward(device_.kernels(), out, tokens.data(), state_.parameters + layout_.token_embedding,
                      state_.parameters + layout_.position_embedding + t * C, batch.count, 1, C);
  }

  /// attention_half with the earlier positions' keys and values from the cache.
  void attend(const GenerateBatch& batch, int l, std::int64_t t, float* out, const float* in) {
    const KernelContext& ctx = device_.kernels();
    const std::int64_t C = layout_.shape.channels, B = batch.count;
    const AttentionActivations& a = scratch_.attention;
    const float* p = state_.parameters;
    const LayerOffsets& w = layer(l);
    layernorm_forward(ctx, a.norm, a.mean, a.rstd, in, p + w.attention_norm.weight, p + w.attention_norm.bias, B, C);
    linear_forward(ctx, a.qkv, a.norm, p + w.qkv.weight, p + w.qkv.bias, B, C, 3 * C);
    for (std::int64_t b = 0; b < B; ++b) keep(l, b, t, a.qkv + b * 3 * C);
    attention_step(ctx, a.mixed, a.qkv, state_.keys + cached(l, 0, 0), state_.values + cached(l, 0, 0), B,
                   plan_->positions, t, C, layout_.shape.heads);
    linear_forward(ctx, out, a.mixed, p + w.projection.weight, nullptr, B, C, C);
    residual_add(ctx, out, in, out, p + w.projection.bias, B, C);
  }

  void logits_of(const Range& columns, const float* x, std::int64_t B) {
    const std::int64_t C = layout_.shape.channels;
    const AttentionActivations& a = scratch_.attention;
    const float* p = state_.parameters;
    layernorm_forward(device_.kernels(), a.norm, a.mean, a.rstd, x, p + layout_.final_norm.weight,
                      p + layout_.final_norm.bias, B, C);
    matmul(device_.kernels(), state_.logits + columns.first, a.norm, p + layout_.head + columns.first * C,
           {.m = B, .n = columns.count, .k = C, .b = Transpose::yes, .ldc = layout_.shape.logit_stride()});
  }

  void choose(const GenerateBatch& batch, std::int64_t t) {
    for (std::int64_t b = 0; b < batch.count; ++b) {
      const std::int64_t sequence = batch.first + b;
      const std::int64_t place = t + 1 - static_cast<std::int64_t>(prompt(sequence).tokens.size());
      if (place < 0 || place >= tokens_) continue;
      const float* logits = state_.logits + b * layout_.shape.logit_stride();
      state_.chosen[sequence * tokens_ + place] = sample_token({logits, static_cast<std::size_t>(layout_.shape.vocab)},
                                                               sampling_, prompt(sequence).index, t + 1);
    }
  }

  std::string directory_;
  std::uint64_t identity_;
  Sampling sampling_;
  std::int64_t tokens_;
  TransformerSource source_;
  ParameterLayout layout_;
  CpuDevice device_;
  std::vector<Prompt> prompts_;
  std::vector<GeneratePlan> plans_;

  const GeneratePlan* plan_ = nullptr;
  State state_{};
  Buffer memory_;
  Scratch scratch_{};
};

constexpr pipefill_fill_kind kGenerate = cpp_kind::table<Generate>("generate");

}  // namespace

const pipefill_fill_kind* generate_kind() { return &kGenerate; }

}  // namespace pipefill
