// The tables of a trace file: each field's name, type, unit and meaning. Format version 1.0; a new field or kind makes
// a new minor version, which older readers accept; anything else a new major one, which they refuse.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "storage/h5_handle.hpp"
#include "trace/rows.hpp"

namespace pipefill {

inline constexpr std::int32_t kTraceVersionMajor = 1;
inline constexpr std::int32_t kTraceVersionMinor = 0;
inline constexpr const char* kTraceFiletype = "pipefill-trace";

enum class FieldType { int16, int32, int64, real, kind, text32, text64 };

struct Field {
  const char* name;
  FieldType type;
  std::size_t offset;  ///< in the row in memory
  const char* units;   ///< "ns", "bytes", "s", "1" (a pure number), "" (text, kind)
  const char* description;
};

struct Table {
  const char* name;  ///< of the dataset
  const char* description;
  std::size_t row_bytes;     ///< in memory
  std::uint64_t chunk_rows;  ///< 64 KiB to 1 MiB in the file
  std::vector<Field> fields;
};

/// Defined for EventRow, StepRow, BubbleRow, FillJobRow and RankRow.
template <class Row>
const Table& table();

/// SI value of a unit: 1e-9 for "ns", 1 otherwise.
double unit_si(const char* units);
/// The row in memory, and the same fields packed and little-endian as they lie in the file.
H5Handle memory_type(const Table& table);
H5Handle file_type(const Table& table);

}  // namespace pipefill
