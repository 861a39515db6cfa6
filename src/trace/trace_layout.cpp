// Every field of every table, and the HDF5 types made from them.
#include "trace/trace_layout.hpp"

#include <cstddef>
#include <cstring>

#include "trace/event.hpp"

namespace pipefill {
namespace {

constexpr const char* kTimes =
    "nanoseconds; in trace.h5 since the run's first start, on rank 0's clock; in a segment on the rank's own clock";

H5Handle integer_or_text(FieldType type, bool in_file) {
  const auto copy = [](hid_t id) { return H5Handle(H5Tcopy(id), H5Tclose, "H5Tcopy"); };
  const auto fixed_text = [&](std::size_t bytes) {
    H5Handle text = copy(H5T_C_S1);
    check_h5(H5Tset_size(text.get(), bytes), "H5Tset_size");
    check_h5(H5Tset_strpad(text.get(), H5T_STR_NULLTERM), "H5Tset_strpad");
    return text;
  };
  switch (type) {
    case FieldType::int16:
      return copy(in_file ? H5T_STD_I16LE : H5T_NATIVE_INT16);
    case FieldType::int32:
      return copy(in_file ? H5T_STD_I32LE : H5T_NATIVE_INT32);
    case FieldType::int64:
      return copy(in_file ? H5T_STD_I64LE : H5T_NATIVE_INT64);
    case FieldType::real:
      return copy(in_file ? H5T_IEEE_F64LE : H5T_NATIVE_DOUBLE);
    case FieldType::text32:
      return fixed_text(32);
    case FieldType::text64:
      return fixed_text(64);
    case FieldType::kind:
      break;
  }
  H5Handle kinds(H5Tenum_create(H5T_STD_I16LE), H5Tclose, "H5Tenum_create");
  for (std::int16_t kind = 0; kind < kEventKinds; ++kind) {
    check_h5(H5Tenum_insert(kinds.get(), event_kind_name(static_cast<EventKind>(kind)), &kind), "H5Tenum_insert");
  }
  return kinds;
}

H5Handle compound(const Table& table, bool in_file) {
  std::vector<H5Handle> types;
  std::size_t packed = 0;
  for (const Field& field : table.fields) {
    types.push_back(integer_or_text(field.type, in_file));
    packed += H5Tget_size(types.back().get());
  }
  H5Handle result(H5Tcreate(H5T_COMPOUND, in_file ? packed : table.row_bytes), H5Tclose, "H5Tcreate");
  std::size_t offset = 0;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const Field& field = table.fields[i];
    check_h5(H5Tinsert(result.get(), field.name, in_file ? offset : field.offset, types[i].get()), "H5Tinsert");
    offset += H5Tget_size(types[i].get());
  }
  return result;
}

}  // namespace

// clang-format off
template <>
const Table& table<EventRow>() {
  using F = FieldType;
  using R = EventRow;
  static const Table result{"events",
    "What took time on each rank, back to back; fill, overrun and exclusive lie over other events", sizeof(R), 4096, {
    {"attempt", F::int16, offsetof(R, attempt), "1", "start of the program, from 1; a resumed run has several"},
    {"kind", F::kind, offsetof(R, kind), "", "what the rank did"},
    {"rank", F::int32, offsetof(R, rank), "1", "MPI process, from 0"},
    {"step", F::int32, offsetof(R, step), "1", "training step, from 1; -1 outside of steps"},
    {"slot", F::int32, offsetof(R, slot), "1", "bubbles: position in the stage's program; -1 none"},
    {"job", F::int32, offsetof(R, job), "1", "fill job; -1 none"},
    {"fill_chunk", F::int32, offsetof(R, fill_chunk), "1", "fill job's piece; -1 none"},
    {"stage", F::int16, offsetof(R, stage), "1", "position in the pipeline, from 0"},
    {"model_chunk", F::int16, offsetof(R, model_chunk), "1", "contiguous layers, in the model's order; -1 none"},
    {"microbatch", F::int16, offsetof(R, microbatch), "1", "part of the step, from 0; -1 none"},
    {"cost_class", F::int16, offsetof(R, cost_class), "1",
     "fill work: of the chunk that this event finished; -1: none, it goes on in a later event"},
    {"start_ns", F::int64, offsetof(R, start_ns), "ns", kTimes},
    {"end_ns", F::int64, offsetof(R, end_ns), "ns", kTimes},
    {"transfer_ns", F::int64, offsetof(R, transfer_ns), "ns",
     "bubbles: the part after the sender was ready, the message under way"},
    {"granted_ns", F::int64, offsetof(R, granted_ns), "ns",
     "bubbles: of their length, sold to fill work; fill work of a program without chunks: the CPU time it got"},
    {"bytes", F::int64, offsetof(R, bytes), "bytes", "bubbles: free memory; transfers: payload"},
  }};
  return result;
}

template <>
const Table& table<StepRow>() {
  using F = FieldType;
  using R = StepRow;
  static const Table result{"steps",
    "One row per completed step and rank", sizeof(R), 4096, {
    {"attempt", F::int32, offsetof(R, attempt), "1", "start of the program, from 1"},
    {"rank", F::int32, offsetof(R, rank), "1", "MPI process, from 0"},
    {"step", F::int64, offsetof(R, step), "1", "training step, from 1"},
    {"start_ns", F::int64, offsetof(R, start_ns), "ns", kTimes},
    {"end_ns", F::int64, offsetof(R, end_ns), "ns", kTimes},
    {"tokens", F::int64, offsetof(R, tokens), "1", "tokens of the whole global batch"},
    {"loss", F::real, offsetof(R, loss), "1",
     "mean over the global batch, nats a token; NaN on ranks that do not know it"},
    {"learning_rate", F::real, offsetof(R, learning_rate), "1", "of this step; NaN unknown"},
    {"gradient_norm", F::real, offsetof(R, gradient_norm), "1", "global norm before clipping; NaN unknown"},
    {"filled", F::int32, offsetof(R, filled), "1", "1: bubbles were sold to fill work; 0: not; -1: there was none"},
    {"pair", F::int64, offsetof(R, pair), "1", "filled and unfilled steps of one number are compared; -1: in no pair"},
  }};
  return result;
}

template <>
const Table& table<BubbleRow>() {
  using F = FieldType;
  using R = BubbleRow;
  static const Table result{"bubbles",
    "Per bubble slot of a stage's program, over all replicas and completed steps", sizeof(R), 1024, {
    {"stage", F::int32, offsetof(R, stage), "1", "position in the pipeline, from 0"},
    {"slot", F::int32, offsetof(R, slot), "1", "position of the bubble in the stage's program"},
    {"class", F::kind, offsetof(R, kind), "", "why the stage waited"},
    {"count", F::int64, offsetof(R, count), "1", "bubbles measured"},
    {"mean_ns", F::real, offsetof(R, mean_ns), "ns", "mean duration"},
    {"p10_ns", F::int64, offsetof(R, p10_ns), "ns", "10 % were shorter"},
    {"median_ns", F::int64, offsetof(R, median_ns), "ns", "half were shorter"},
    {"p90_ns", F::int64, offsetof(R, p90_ns), "ns", "90 % were shorter"},
    {"p99_ns", F::int64, offsetof(R, p99_ns), "ns", "99 % were shorter"},
    {"mean_transfer_ns", F::real, offsetof(R, mean_transfer_ns), "ns", "mean of the part after the sender was ready"},
    {"free_memory_min_bytes", F::int64, offsetof(R, free_memory_min_bytes), "bytes", "least free device memory seen"},
    {"mean_granted_ns", F::real, offsetof(R, mean_granted_ns), "ns",
     "filled steps: mean time sold to fill work; NaN: no step was filled"},
    {"mean_filled_ns", F::real, offsetof(R, mean_filled_ns), "ns",
     "filled steps: mean time in which chunks ran; NaN: no step was filled"},
  }};
  return result;
}

template <>
const Table& table<FillJobRow>() {
  using F = FieldType;
  using R = FillJobRow;
  static const Table result{"fill_jobs",
    "Per fill job and attempt; in a segment only who it is; empty without fill work", sizeof(R), 1024, {
    {"attempt", F::int32, offsetof(R, attempt), "1", "start of the program, from 1"},
    {"job", F::int32, offsetof(R, job), "1", "its number in this attempt, as in events"},
    {"name", F::text64, offsetof(R, name), "", "its name; empty: not recorded"},
    {"kind", F::text32, offsetof(R, kind), "", "what kind of work"},
    {"configuration", F::text64, offsetof(R, configuration), "", "in which it ran"},
    {"chunks", F::int64, offsetof(R, chunks), "1", "chunks of the whole job; -1: not known"},
    {"samples", F::real, offsetof(R, samples), "1", "samples of the whole job"},
    {"done", F::int64, offsetof(R, done), "1", "chunks finished in this attempt"},
    {"done_alone", F::int64, offsetof(R, done_alone), "1", "of these, with the main job absent"},
    {"fill_ns", F::int64, offsetof(R, fill_ns), "ns", "time it ran inside bubbles"},
    {"overrun_ns", F::int64, offsetof(R, overrun_ns), "ns", "time it ran beside the main job's work"},
    {"exclusive_ns", F::int64, offsetof(R, exclusive_ns), "ns",
     "time that the finished chunks take with the device to themselves"},
    {"unpriced", F::int64, offsetof(R, unpriced), "1",
     "finished chunks that exclusive_ns lacks: none of their cost class ran alone"},
  }};
  return result;
}

template <>
const Table& table<RankRow>() {
  using F = FieldType;
  using R = RankRow;
  static const Table result{"ranks",
    "One row per rank and attempt; rank-0 time = own time + offset, +- uncertainty", sizeof(R), 256, {
    {"attempt", F::int32, offsetof(R, attempt), "1", "start of the program, from 1"},
    {"rank", F::int32, offsetof(R, rank), "1", "MPI process, from 0"},
    {"stage", F::int32, offsetof(R, stage), "1", "position in the pipeline, from 0"},
    {"replica", F::int32, offsetof(R, replica), "1", "data-parallel copy, from 0"},
    {"stages", F::int32, offsetof(R, stages), "1", "stages of the attempt"},
    {"replicas", F::int32, offsetof(R, replicas), "1", "replicas of the attempt"},
    {"microbatches", F::int32, offsetof(R, microbatches), "1", "microbatches a step of the attempt"},
    {"schedule", F::text32, offsetof(R, schedule), "", "schedule of the attempt"},
    {"host", F::text64, offsetof(R, host), "", "host name"},
    {"pid", F::int64, offsetof(R, pid), "1", "process id"},
    {"device", F::text64, offsetof(R, device), "", "where the work ran"},
    {"threads", F::int32, offsetof(R, threads), "1", "threads of the rank's team"},
    {"cores", F::text64, offsetof(R, cores), "", "cores it is bound to"},
    {"start_ns", F::int64, offsetof(R, start_ns), "ns", "where the rank's wall time begins"},
    {"end_ns", F::int64, offsetof(R, end_ns), "ns", "where it ends; -1: the rank did not close its trace"},
    {"last_event_ns", F::int64, offsetof(R, last_event_ns), "ns", "end of the last event written; -1: none"},
    {"start_wall_s", F::real, offsetof(R, start_wall_s), "s", "wall clock at start_ns, seconds since 1970 UTC"},
    {"clock_start_at_ns", F::int64, offsetof(R, clock_start_at_ns), "ns", "first clock measurement, own clock"},
    {"clock_start_offset_ns", F::int64, offsetof(R, clock_start_offset_ns), "ns", "its offset"},
    {"clock_start_uncertainty_ns", F::int64, offsetof(R, clock_start_uncertainty_ns), "ns", "its uncertainty"},
    {"clock_end_at_ns", F::int64, offsetof(R, clock_end_at_ns), "ns", "last clock measurement, own clock; -1: none"},
    {"clock_end_offset_ns", F::int64, offsetof(R, clock_end_offset_ns), "ns", "its offset"},
    {"clock_end_uncertainty_ns", F::int64, offsetof(R, clock_end_uncertainty_ns), "ns", "its uncertainty; -1: none"},
    {"events_dropped", F::int64, offsetof(R, events_dropped), "1", "events that could not be written"},
  }};
  return result;
}
// clang-format on

double unit_si(const char* units) { return std::strcmp(units, "ns") == 0 ? 1e-9 : 1.0; }
H5Handle memory_type(const Table& table) { return compound(table, false); }
H5Handle file_type(const Table& table) { return compound(table, true); }

}  // namespace pipefill
