// AdamW (Loshchilov & Hutter 2019) over the rows a replica owns: all of them, or its ZeRO-1 share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/id.hpp"
#include "device/device.hpp"
#include "model/row_blocks.hpp"
#include "model/stage.hpp"

namespace pipefill {

enum class OptimizerShard { no, yes };  ///< yes: ZeRO-1, each replica updates the rows it owns

struct AdamwSettings {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;  ///< on matrices only
  OptimizerShard shard = OptimizerShard::no;
  ReplicaId replica;
  int replicas = 1;
};

/// Moments of the rows owned here, in the tensor's own element order.
struct Moments {
  RowRange rows;
  std::span<float> first;
  std::span<float> second;
};

class Adamw {
 public:
  /// Allocates moments (zero) for the owned rows of every tensor of the stage. Stage and device outlive it.
  Adamw(const AdamwSettings& settings, Stage& stage, Device& device);

  /// Sums of squares of the gradients, one per block of norm_blocks(table, stage's chunks, replica, replicas), in that
  /// order. The gradients are the step's: added over replicas, tied sides added.
  std::vector<double> block_square_sums() const;

  /// One update of the owned rows. `step` counts from 1. `gradient_scale` is clip_scale(...).
  void update(std::int64_t step, double learning_rate, double gradient_scale);

  /// Per tensor of stage.tensors(), in that order; rows.count may be 0.
  std::span<const Moments> moments() const { return moments_; }

 private:
  AdamwSettings settings_;
  Stage& stage_;
  const KernelContext& kernels_;
  Buffer storage_;
  std::vector<Moments> moments_;
};

}  // namespace pipefill
