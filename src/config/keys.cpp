#include "config/keys.hpp"

#include <algorithm>
#include <limits>

#include "schedule/build.hpp"
#include "schedule/schedule.hpp"

namespace pipefill {
namespace {

constexpr double kAny = std::numeric_limits<double>::infinity();
constexpr double kMaxCount = 1e12;
constexpr double kMaxSeconds = 100 * 86400;
constexpr double kMaxBytes = 1125899906842624;  // 1 PiB

constexpr Range at_least(double low, double high = kMaxCount) { return {low, high}; }
constexpr Range kFree{-kAny, kAny};

template <class Section, class Member>
std::function<Field(RunConfig&)> at(Section RunConfig::*section, Member Section::*member) {
  return [section, member](RunConfig& config) -> Field {
    Member* place = &(config.*section.*member);
    if constexpr (std::is_enum_v<Member>)
      return EnumField{[place] { return static_cast<int>(*place); },
                       [place](int value) { *place = static_cast<Member>(value); }};
    else
      return place;
  };
}

std::vector<Key> make_keys() {
  using C = RunConfig;
  // clang-format off
  return {
      {"run.directory", at(&C::run, &RunSection::directory), kFree, "auto", {},
       "where the run writes; auto: runs/<name of the deck>, in the working directory"},
      {"run.steps", at(&C::run, &RunSection::steps), at_least(1), "", {}, "optimizer updates to train for"},
      {"run.seed", at(&C::run, &RunSection::seed), {0, 9.2e18}, "", {},
       "of the initial weights and the order of the samples"},
      {"run.max_time", at(&C::run, &RunSection::max_time), {1, kMaxSeconds}, "none", {},
       "stop with a checkpoint (exit code 75) before this much time has passed"},
      {"run.hang_timeout", at(&C::run, &RunSection::hang_timeout), {0.1, kMaxSeconds}, "", {},
       "a peer that is silent for this long, or 8 times the 99th percentile of a step if that is more, is lost (76)"},

      {"model.layers", at(&C::model, &ModelSection::layers), at_least(1, 10000), "", {}, "transformer blocks, L"},
      {"model.channels", at(&C::model, &ModelSection::channels), at_least(1, 65536), "", {},
       "width of the residual stream, C; a multiple of the heads"},
      {"model.heads", at(&C::model, &ModelSection::heads), at_least(1, 65536), "", {}, "attention heads, H"},
      {"model.context", at(&C::model, &ModelSection::context), at_least(1, 1048576), "", {}, "tokens of a sample, T"},
      {"model.vocab", at(&C::model, &ModelSection::vocab), at_least(2, 16777216), "auto", {},
       "symbols of the embedding, V; auto: what the data source has"},
      {"model.tied", at(&C::model, &ModelSection::tied), kFree, "", {}, "the head uses the embedding's weights"},
      {"model.compute", at(&C::model, &ModelSection::compute), kFree, "", {"fp32", "bf16"},
       "type of the matrix products' inputs; they accumulate in fp32, master weights are fp32"},

      {"data.source", at(&C::data, &DataSection::source),
       kFree, "", {"bytes", "llmc", "nanogpt", "megatron", "synthetic"},
       "format of the token files; synthetic: a seeded Markov source with a known entropy rate"},
      {"data.files", at(&C::data, &DataSection::files), kFree, "", {},
       "paths or globs, from the working directory; sorted bytewise, each file once; empty for synthetic"},
      {"data.vocab", at(&C::data, &DataSection::vocab), at_least(2, MarkovSource::kMaximumVocab), "", {},
       "symbols of the synthetic source"},
      {"data.validation_fraction", at(&C::data, &DataSection::validation_fraction), {0, 0.9}, "", {},
       "part of the files that is held out, at their end"},
      {"data.validation_every", at(&C::data, &DataSection::validation_every), at_least(0), "", {},
       "steps between two validations; 0: only at the end"},
      {"data.validation_tokens", at(&C::data, &DataSection::validation_tokens), at_least(0), "", {},
       "tokens of one validation, rounded up to whole microbatches; 0: no validation"},

      {"parallel.stages", at(&C::parallel, &ParallelSection::stages), at_least(1, kMostStages), "auto", {},
       "pipeline stages, P; auto: ranks / replicas"},
      {"parallel.replicas", at(&C::parallel, &ParallelSection::replicas), at_least(1, 65536), "", {},
       "data-parallel copies of the pipeline, R"},
      {"parallel.layers", at(&C::parallel, &ParallelSection::layers), at_least(0, 10000), "auto", {},
       "layers of each stage, e.g. [3, 3, 2]; 0 is allowed; auto: cut by cost"},

      {"schedule.name", at(&C::schedule, &ScheduleSection::name), kFree, "", schedule_names(),
       "order of the work"},
      {"schedule.microbatches", at(&C::schedule, &ScheduleSection::microbatches), at_least(1, kMostMicrobatches), "", {},
       "microbatches of a step on each replica, M; times the stages at most 1048576"},
      {"schedule.microbatch_size", at(&C::schedule, &ScheduleSection::microbatch_size), at_least(1, 65536), "", {},
       "samples of a microbatch, B"},

      {"optimizer.learning_rate", at(&C::optimizer, &OptimizerSection::learning_rate), {0, 100}, "", {},
       "AdamW's rate after warm-up"},
      {"optimizer.final_fraction", at(&C::optimizer, &OptimizerSection::final_fraction), {0, 1}, "", {},
       "of the learning rate, reached at the last step; not for constant"},
      {"optimizer.warm_up", at(&C::optimizer, &OptimizerSection::warm_up), at_least(0), "", {},
       "steps over which the rate rises linearly from zero"},
      {"optimizer.decay", at(&C::optimizer, &OptimizerSection::decay),
       kFree, "", {"constant", "linear", "cosine", "wsd"},
       "how the rate falls after warm-up; wsd: constant, then a fall over the last fifth"},
      {"optimizer.beta1", at(&C::optimizer, &OptimizerSection::beta1), {0, 1, Bound::included, Bound::excluded}, "", {},
       "of the first moment"},
      {"optimizer.beta2", at(&C::optimizer, &OptimizerSection::beta2), {0, 1, Bound::included, Bound::excluded}, "", {},
       "of the second moment"},
      {"optimizer.epsilon", at(&C::optimizer, &OptimizerSection::epsilon), {0, 1, Bound::excluded}, "", {},
       "added to the root of the second moment"},
      {"optimizer.weight_decay", at(&C::optimizer, &OptimizerSection::weight_decay), {0, 10}, "", {},
       "decoupled, on matrices only"},
      {"optimizer.clip", at(&C::optimizer, &OptimizerSection::clip), {0, 1e9}, "", {},
       "limit of the gradients' global norm; 0: no clipping"},
      {"optimizer.shard", at(&C::optimizer, &OptimizerSection::shard), kFree, "", {},
       "split the optimizer's state over the replicas (ZeRO-1)"},

      {"checkpoint.every", at(&C::checkpoint, &CheckpointSection::every), at_least(0), "", {},
       "steps between two checkpoints; 0: only when the run stops"},
      {"checkpoint.keep", at(&C::checkpoint, &CheckpointSection::keep), at_least(2, 1000000), "", {},
       "newest verified checkpoints to keep; older ones are removed"},

      {"trace.enabled", at(&C::trace, &TraceSection::enabled), kFree, "", {}, "write trace/trace.h5"},
      {"trace.segment", at(&C::trace, &TraceSection::segment), {0.01, kMaxSeconds}, "", {},
       "time after which a rank's events are closed into a file; a crash loses at most this much"},

      {"fill.strategy", at(&C::fill, &FillSection::strategy),
       kFree, "", {"none", "naive", "idle-priority", "freeride", "pipefill", "adaptive"},
       "what fill jobs may do in bubbles; all but none and adaptive are there for comparison"},
      {"fill.jobs", at(&C::fill, &FillSection::jobs), kFree, "", {},
       "job files to run in the bubbles; more can be submitted while the run goes on"},
      {"fill.max_slowdown", at(&C::fill, &FillSection::max_slowdown), {0, 1, Bound::excluded}, "", {},
       "of the main job's step, 0.01 is 1 %; the measured slowdown's interval is kept under it"},
      {"fill.profile", at(&C::fill, &FillSection::profile), at_least(1), "", {},
       "first steps that run unfilled, to measure the bubbles"},
      {"fill.audit", at(&C::fill, &FillSection::audit), {0, 0.5}, "", {},
       "share of the steps that run unfilled afterwards, to compare with; 0: never, then nothing holds the slowdown"},
      {"fill.block", at(&C::fill, &FillSection::block), at_least(1, 100000), "", {},
       "steps in a row that run unfilled for it"},
      {"fill.isolation", at(&C::fill, &FillSection::isolation), kFree, "", {"process", "in-process"},
       "process: a fill job's crash, hang or leak stays in its worker; in-process: for jobs that are trusted"},
      {"fill.most_jobs", at(&C::fill, &FillSection::most_jobs), {1, kMostSharing}, "", {},
       "strategy adaptive: jobs that share a stage when one alone leaves much of its bubbles unused; each has its own worker"},
      {"fill.policy", at(&C::fill, &FillSection::policy),
       kFree, "", {"fifo", "sjf", "makespan", "fair", "weighted", "deadline"},
       "which job goes to a stage that is free; weighted: the sum of the four weights' terms"},
      {"fill.weight_waiting", at(&C::fill, &FillSection::weight_waiting), {0, 1e6}, "", {},
       "policy weighted: time in the queue / the longest such time"},
      {"fill.weight_shortness", at(&C::fill, &FillSection::weight_shortness), {0, 1e6}, "", {},
       "policy weighted: the shortest job's processing time / this job's"},
      {"fill.weight_makespan", at(&C::fill, &FillSection::weight_makespan), {0, 1e6}, "", {},
       "policy weighted: end of all jobs now / with this job placed here"},
      {"fill.weight_fairness", at(&C::fill, &FillSection::weight_fairness), {0, 1e6}, "", {},
       "policy weighted: 1 - the owner's share of the fill time so far"},
      {"fill.ageing", at(&C::fill, &FillSection::ageing), {1, kMaxSeconds}, "", {},
       "time in the queue that weighs as much as the best score or a priority of 1"},
      {"fill.fraction", at(&C::fill, &FillSection::fraction), {0, 1, Bound::excluded}, "", {},
       "strategy pipefill: the part of each bubble that is filled"},

      {"device.kind", at(&C::device, &DeviceSection::kind), kFree, "", {"auto", "cpu", "cuda"},
       "where the stages compute; auto: cpu; cuda is refused (69): this version computes on CPUs only"},
      {"device.threads", at(&C::device, &DeviceSection::threads), at_least(1, 4096), "auto", {},
       "OpenMP threads of a rank; auto: its share of the allowed cores"},
      {"device.bind", at(&C::device, &DeviceSection::bind), kFree, "", {},
       "pin local rank i of n to the i-th share of the allowed cores"},
      {"device.memory", at(&C::device, &DeviceSection::memory), {1048576, kMaxBytes}, "auto", {},
       "memory a rank may use; auto: its share of the host's"},
      {"device.wait", at(&C::device, &DeviceSection::wait), kFree, "", {"auto", "spin", "yield", "sleep"},
       "how a rank waits for a message; auto: spin, or yield where ranks share cores"},

      {"log.every", at(&C::log, &LogSection::every), at_least(1), "", {},
       "steps between two lines of the log; the first five are always shown"},
      {"log.progress", at(&C::log, &LogSection::progress), kFree, "", {"auto", "bar", "plain", "none"},
       "progress on the console; auto: a bar on a terminal, else lines"},
  };
  // clang-format on
}

}  // namespace

const std::vector<Key>& deck_keys() {
  static const std::vector<Key> keys = make_keys();
  return keys;
}

const Key* find_key(const std::string& path) {
  const auto found = std::ranges::find(deck_keys(), path, &Key::path);
  return found == deck_keys().end() ? nullptr : &*found;
}

std::vector<std::string> deck_sections() {
  std::vector<std::string> sections;
  for (const Key& key : deck_keys())
    if (sections.empty() || sections.back() != key.section()) sections.push_back(key.section());
  return sections;
}

}  // namespace pipefill
