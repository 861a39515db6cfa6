// A whole pipeline in one thread: stages called in order, their messages handed over as buffers, the tied embedding's
// gradients exchanged. What the engine does, in its simplest form, so that the model can be tested without it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/cpu/cpu_device.hpp"
#include "model/adamw.hpp"
#include "model/stage.hpp"

namespace pipefill::testing_support {

enum class BackwardKind { whole, split };  ///< B, or all I of the step and then all W

struct PipelineSetup {
  ModelShape shape{.layers = 4, .channels = 12, .heads = 3, .context = 5, .vocab = 37};
  std::vector<int> layers{4};  ///< per chunk
  int stages = 1;              ///< chunk c lies on stage c % stages
  int microbatches = 1;
  int microbatch_size = 2;
  BackwardKind kind = BackwardKind::whole;
  int threads = 1;
  AdamwSettings adamw{};
};

class Pipeline {
 public:
  explicit Pipeline(const PipelineSetup& setup);

  /// Forward and backward of all microbatches on the step's tokens; tied gradients exchanged and added.
  void run_gradients(std::int64_t step);
  /// Norm over all stages; the scale applied is clip_scale(norm, clip).
  double update(std::int64_t step, double learning_rate, double clip);

  double loss() const { return loss_; }  ///< mean over the step's tokens
  std::map<std::string, std::vector<float>> gradients() const;
  std::map<std::string, std::vector<float>> values() const;
  std::vector<std::int32_t> inputs(std::int64_t step, int microbatch) const;
  std::vector<std::int32_t> targets(std::int64_t step, int microbatch) const;

  Stage& stage(int s) { return *stages_[static_cast<std::size_t>(s)]; }
  Stage& stage_of(ModelChunkId chunk) { return stage(chunk.value % setup_.stages); }
  Adamw& optimizer(int s) { return *optimizers_[static_cast<std::size_t>(s)]; }
  CpuDevice& device(int s) { return *devices_[static_cast<std::size_t>(s)]; }
  const LayerCut& cut() const { return cut_; }
  int progress_calls() const { return progress_calls_; }
  void forward_all(std::int64_t step, MicrobatchId microbatch, ForwardMode mode);

 private:
  PipelineSetup setup_;
  LayerCut cut_;
  std::vector<std::unique_ptr<CpuDevice>> devices_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<std::unique_ptr<Adamw>> optimizers_;
  Progress progress_;
  int progress_calls_ = 0;
  double loss_ = 0;
};

}  // namespace pipefill::testing_support
