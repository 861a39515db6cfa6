// Trace files over storage/h5_file: root attributes, extendible tables, blocks of rows.
#include "trace/trace_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <utility>

#include "base/error.hpp"
#include "base/host.hpp"
#include "storage/atomic_file.hpp"
#include "trace/seal.hpp"

namespace pipefill {
namespace {

constexpr std::size_t kLongestText = 60'000;  // an attribute in the old format, which old readers want, ends at 64 KiB
constexpr std::uint64_t kMostRows = std::uint64_t{1} << 40;
constexpr unsigned kGzipLevel = 1;

std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  return path.parent_path() / fmt::format(".{}.tmp", path.filename().string());
}

H5File create_anew(const std::filesystem::path& path, const TraceFileOptions& options) {
  ::unlink(path.c_str());  // a leftover of a killed process; its absence is the usual case
  return H5File::create(path, {.sync = options.sync, .hash = HashOnClose::xxh3, .inject = options.inject});
}

H5File open_checked(const std::filesystem::path& path) {
  check_seal(path);
  return H5File::open(path);
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm broken{};
  ::localtime_r(&now, &broken);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S %z", &broken);
  return text.data();
}

}  // namespace

TraceFileWriter::TraceFileWriter(std::filesystem::path path, const RunDescription& run, TraceFileOptions options)
    : path_(std::move(path)),
      temporary_(temporary_beside(path_)),
      options_(std::move(options)),
      file_(create_anew(temporary_, options_)) {
  try {
    write_root(run);
    make_table(table<EventRow>());
    make_table(table<StepRow>());
    make_table(table<RankRow>());
    make_table(table<FillJobRow>());
    if (options_.content == TraceContent::run) make_table(table<BubbleRow>());
  } catch (...) {
    ::unlink(temporary_.c_str());
    throw;
  }
}

TraceFileWriter::~TraceFileWriter() {
  if (!finished_) ::unlink(temporary_.c_str());
}

void TraceFileWriter::write_root(const RunDescription& run) {
  const std::int32_t version[] = {kTraceVersionMajor, kTraceVersionMinor};
  attribute("filetype", kTraceFiletype);
  file_.write_attribute("/", "version", std::span<const std::int32_t>(version));
  attribute("software", "pipefill");
  attribute("softwareVersion", run.software_version);
  attribute("softwareDependencies", "HDF5 " + hdf5_version());
  attribute("date", date_now());
  attribute("machine", host_name());
  attribute("comment", options_.content == TraceContent::run
                           ? "All ranks of a run, times on rank 0's clock; merged from the segments beside it"
                           : "One rank's part of a run, times on its own clock; `pipefill trace merge` joins them");
  attribute("content", options_.content == TraceContent::run ? "run" : "segment");
  attribute("run_id", run.run_id);
  attribute("config_yaml", run.config_yaml.substr(0, kLongestText));
  attribute("build", run.build.substr(0, kLongestText));
  attribute("schedule", run.schedule);
  attribute("attempt", static_cast<std::int64_t>(run.attempt));
  attribute("ranks", static_cast<std::int64_t>(run.ranks));
  attribute("stages", static_cast<std::int64_t>(run.stages));
  attribute("replicas", static_cast<std::int64_t>(run.replicas));
  attribute("microbatches", static_cast<std::int64_t>(run.microbatches));
  attribute("bubble_fraction_closed_form", run.bubble_fraction_closed_form);
  attribute("flops_per_token", run.flops_per_token);
  attribute("flops_formula", run.flops_formula);
  attribute("peak_flops_per_rank", run.peak_flops_per_rank);
}

void TraceFileWriter::make_table(const Table& table) {
  const std::string where = temporary_.string() + ":" + table.name;
  const hsize_t none = 0, unlimited = H5S_UNLIMITED, chunk = table.chunk_rows;
  const H5Handle space(H5Screate_simple(1, &none, &unlimited), H5Sclose, "H5Screate_simple", where);
  const H5Handle how(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "H5Pcreate", where);
  check_h5(H5Pset_chunk(how.get(), 1, &chunk), "H5Pset_chunk", where);
  check_h5(H5Pset_shuffle(how.get()), "H5Pset_shuffle", where);
  check_h5(H5Pset_deflate(how.get(), kGzipLevel), "H5Pset_deflate", where);
  check_h5(H5Pset_fletcher32(how.get()), "H5Pset_fletcher32", where);

  OpenTable& open = tables_[table.name];
  open.memory = memory_type(table);
  const H5Handle type = file_type(table);
  open.set = H5Handle(H5Dcreate2(file_.id(), table.name, type.get(), space.get(), H5P_DEFAULT, how.get(), H5P_DEFAULT),
                      H5Dclose, "H5Dcreate2", where);
  file_.write_attribute(table.name, "description", table.description);
  for (const Field& field : table.fields) {
    const std::string name = field.name;
    file_.write_attribute(table.name, name + "_description", field.description);
    if (*field.units == '\0') continue;
    file_.write_attribute(table.name, name + "_units", field.units);
    file_.write_attribute(table.name, name + "_unitSI", unit_si(field.units));
  }
}

void TraceFileWriter::append_raw(const Table& table, const void* rows, std::size_t count) {
  if (count == 0) return;
  const std::string where = temporary_.string() + ":" + table.name;
  OpenTable& open = tables_.at(table.name);
  const hsize_t first = open.rows, more = count, all = first + more;
  check_h5(H5Dset_extent(open.set.get(), &all), "H5Dset_extent", where);
  const H5Handle there(H5Dget_space(open.set.get()), H5Sclose, "H5Dget_space", where);
  check_h5(H5Sselect_hyperslab(there.get(), H5S_SELECT_SET, &first, nullptr, &more, nullptr), "H5Sselect_hyperslab",
           where);
  const H5Handle here(H5Screate_simple(1, &more, nullptr), H5Sclose, "H5Screate_simple", where);
  check_h5(H5Dwrite(open.set.get(), open.memory.get(), here.get(), there.get(), H5P_DEFAULT, rows), "H5Dwrite", where);
  open.rows = all;
  file_.check_written();
}

void TraceFileWriter::finish() {
  for (auto& [name, open] : tables_) open.set.close(temporary_.string() + ":" + name);
  const FileDigest content = file_.close();
  const Durability durability = options_.sync == SyncOnClose::fsync ? Durability::synced : Durability::cached;
  append_seal(temporary_, content, durability);
  rename_path(temporary_, path_);
  finished_ = true;
  if (durability == Durability::synced) sync_directory(path_.parent_path());
}

TraceFileReader::TraceFileReader(const std::filesystem::path& path) : file_(open_checked(path)) {
  try {
    read_root();
    count<EventRow>();
    count<StepRow>();
    count<RankRow>();
    count<FillJobRow>();
  } catch (const FileError& error) {
    if (error.code() == ExitCode::damaged_data) throw;
    throw FileError(ExitCode::damaged_data, path,
                    fmt::format("is not a trace that this program reads ({})", error.what()));
  }
}

void TraceFileReader::read_root() {
  const std::string& path = file_.path();
  if (text_attribute("filetype") != kTraceFiletype) {
    throw FileError(ExitCode::damaged_data, path, "is an HDF5 file, but not a trace of pipefill");
  }
  std::array<std::int32_t, 2> version{};
  const H5Handle attribute(H5Aopen(file_.id(), "version", H5P_DEFAULT), H5Aclose, "H5Aopen", path);
  const H5Handle space(H5Aget_space(attribute.get()), H5Sclose, "H5Aget_space", path);
  if (H5Sget_simple_extent_npoints(space.get()) != 2) {
    throw FileError(ExitCode::damaged_data, path, "states no format version");
  }
  check_h5(H5Aread(attribute.get(), H5T_NATIVE_INT32, version.data()), "H5Aread", path);
  if (version[0] != kTraceVersionMajor) {
    throw FileError(
        ExitCode::damaged_data, path,
        fmt::format("has format version {}.{}; this program reads {}.x: use the pipefill that wrote it or a later one",
                    version[0], version[1], kTraceVersionMajor));
  }
  content_ = text_attribute("content") == "run" ? TraceContent::run : TraceContent::segment;
  run_.run_id = text_attribute("run_id");
  run_.config_yaml = text_attribute("config_yaml");
  run_.software_version = text_attribute("softwareVersion");
  run_.build = text_attribute("build");
  run_.schedule = text_attribute("schedule");
  run_.attempt = static_cast<int>(integer_attribute("attempt"));
  run_.ranks = static_cast<int>(integer_attribute("ranks"));
  run_.stages = static_cast<int>(integer_attribute("stages"));
  run_.replicas = static_cast<int>(integer_attribute("replicas"));
  run_.microbatches = static_cast<int>(integer_attribute("microbatches"));
  run_.bubble_fraction_closed_form = file_.read_attribute<double>("/", "bubble_fraction_closed_form");
  run_.flops_per_token = file_.read_attribute<double>("/", "flops_per_token");
  run_.flops_formula = text_attribute("flops_formula");
  run_.peak_flops_per_rank = file_.read_attribute<double>("/", "peak_flops_per_rank");
}

std::uint64_t TraceFileReader::count_raw(const Table& table) const {
  const std::vector<std::int64_t> shape = file_.shape(table.name);
  if (shape.size() != 1 || shape[0] < 0 || static_cast<std::uint64_t>(shape[0]) > kMostRows) {
    throw FileError(ExitCode::damaged_data, file_.path(), fmt::format("has a table {} of impossible size", table.name));
  }
  return static_cast<std::uint64_t>(shape[0]);
}

void TraceFileReader::read_raw(const Table& table, std::uint64_t first, std::uint64_t count, void* rows) const {
  const std::string where = file_.path() + ":" + table.name;
  try {
    const H5Handle set = file_.open_dataset(table.name);
    const H5Handle type = memory_type(table);
    const hsize_t start = first, length = count;
    const H5Handle there(H5Dget_space(set.get()), H5Sclose, "H5Dget_space", where);
    check_h5(H5Sselect_hyperslab(there.get(), H5S_SELECT_SET, &start, nullptr, &length, nullptr), "H5Sselect_hyperslab",
             where);
    const H5Handle here(H5Screate_simple(1, &length, nullptr), H5Sclose, "H5Screate_simple", where);
    check_h5(H5Dread(set.get(), type.get(), here.get(), there.get(), H5P_DEFAULT, rows), "H5Dread", where);
  } catch (const FileError& error) {
    throw FileError(ExitCode::damaged_data, where, fmt::format("cannot be read ({})", error.what()));
  }
}

}  // namespace pipefill
