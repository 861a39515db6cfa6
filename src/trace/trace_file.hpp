// One trace file, segment or whole: written beside its place and renamed when complete; read back in blocks. It ends in
// a seal (size and XXH3-128 of all before it, one line of text behind the last byte that HDF5 knows of), which is
// checked before HDF5 parses anything: a cut or changed file is refused instead of crashing the library.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "storage/h5_file.hpp"
#include "trace/description.hpp"
#include "trace/trace_layout.hpp"

namespace pipefill {

/// What a file holds: one rank's part on its own clock, or all of a run on rank 0's.
enum class TraceContent { segment, run };

struct TraceFileOptions {
  TraceContent content = TraceContent::segment;
  SyncOnClose sync = SyncOnClose::none;  ///< a segment outlives its process in the page cache; its seal tells the rest
  std::function<int(const char* call)> inject = {};  ///< tests only: makes system calls of the file driver fail
};

/// Call on the HDF5 thread. Trouble is a FileError (74 for a full disk); then, or without finish(), nothing is left
/// behind.
class TraceFileWriter {
 public:
  TraceFileWriter(std::filesystem::path path, const RunDescription& run, TraceFileOptions options = {});
  ~TraceFileWriter();
  TraceFileWriter(const TraceFileWriter&) = delete;
  TraceFileWriter& operator=(const TraceFileWriter&) = delete;

  template <class Row>
  void append(std::span<const Row> rows) {
    append_raw(table<Row>(), rows.data(), rows.size());
  }
  template <class T>
  void attribute(const std::string& name, const T& value) {
    file_.write_attribute("/", name, value);
  }
  /// Closes, seals and renames into place.
  void finish();

 private:
  struct OpenTable {
    H5Handle set, memory;
    std::uint64_t rows = 0;
  };
  void make_table(const Table& table);
  void append_raw(const Table& table, const void* rows, std::size_t count);
  void write_root(const RunDescription& run);

  std::filesystem::path path_, temporary_;
  TraceFileOptions options_;
  H5File file_;
  std::map<std::string, OpenTable> tables_;
  bool finished_ = false;
};

/// Call on the HDF5 thread. Everything wrong with the file is a FileError 65 (66 when it is not there) that names it.
class TraceFileReader {
 public:
  explicit TraceFileReader(const std::filesystem::path& path);

  const RunDescription& run() const { return run_; }
  TraceContent content() const { return content_; }
  std::int64_t integer_attribute(const std::string& name) const {
    return file_.read_attribute<std::int64_t>("/", name);
  }
  std::string text_attribute(const std::string& name) const { return file_.read_text_attribute("/", name); }

  template <class Row>
  std::uint64_t count() const {
    return count_raw(table<Row>());
  }
  /// At most `limit` rows from `first` on.
  template <class Row>
  std::vector<Row> read(std::uint64_t first, std::uint64_t limit) const {
    const std::uint64_t all = count<Row>();
    std::vector<Row> rows(first >= all ? 0 : std::min(limit, all - first));
    if (!rows.empty()) read_raw(table<Row>(), first, rows.size(), rows.data());
    return rows;
  }

 private:
  std::uint64_t count_raw(const Table& table) const;
  void read_raw(const Table& table, std::uint64_t first, std::uint64_t count, void* rows) const;
  void read_root();

  H5File file_;
  RunDescription run_;
  TraceContent content_ = TraceContent::segment;
};

}  // namespace pipefill
