// The protocol of a save, step by step; see save.hpp.
#include "checkpoint/save.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/directory.hpp"
#include "checkpoint/master_file.hpp"
#include "checkpoint/shard.hpp"
#include "storage/atomic_file.hpp"
#include "storage/hdf5_thread.hpp"

namespace pipefill {
namespace {

/// Throws FileError 74 when the file system has less than a tenth more than what is to be written.
void expect_space(const std::string& directory, std::int64_t bytes) {
  struct statvfs info {};
  if (::statvfs(directory.c_str(), &info) != 0) return;  // the writing itself will tell
  const double available = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize);
  if (available >= 1.1 * static_cast<double>(bytes)) return;
  throw FileError(ExitCode::input_output, directory,
                  fmt::format("not enough space for a checkpoint: it needs {}, the disk has {} left",
                              format_bytes({bytes}), format_bytes({static_cast<std::int64_t>(available)})));
}

/// Room for the new checkpoint. What a failed save or prune left behind goes first.
void prepare(const std::string& directory, const std::string& temporary, std::int64_t bytes) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw FileError(ExitCode::cannot_create, directory, "cannot make directory: " + error.message());
  prune_leftovers(directory);
  expect_space(directory, bytes);
  make_directory(temporary);
}

void write_manifest(const std::string& temporary, const Manifest& manifest) {
  const std::string path = temporary + "/" + kManifestName;
  FileDescriptor file = create_exclusive(path);
  const std::string text = manifest_text(manifest);
  write_all(file.get(), std::as_bytes(std::span(text)), path);
  if (::fsync(file.get()) != 0) throw FileError(ExitCode::input_output, path, system_text("cannot sync", errno));
  file.close(path);
  sync_directory(temporary);
}

/// Gives `temporary` its final name. A checkpoint of that name (of an abandoned attempt, or a damaged one) changes
/// places with it in one step where the file system can do that, and is then removed.
void publish(const std::string& temporary, const std::string& path) {
  if (::rename(temporary.c_str(), path.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) {
    throw FileError(ExitCode::input_output, temporary, system_text("cannot rename to " + path, errno));
  }
  const std::filesystem::path name(path);
  const std::string trash = (name.parent_path() / (".trash-" + name.filename().string())).string();
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) {
    rename_path(temporary, trash);
  } else {
    rename_path(path, trash);
    rename_path(temporary, path);
  }
}

std::int64_t number_of(const std::string& text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

SaveReport save_checkpoint(const RankGroup& ranks, Hdf5Thread& hdf5, const SaveRequest& request,
                           std::set<std::string>& known_good) {
  const Nanoseconds start = now();
  const bool first = ranks.rank == 0;
  const std::string name = step_name(request.state.step);
  const std::string temporary = request.directory + "/" + temporary_name(request.state.step, request.state.attempt);
  SaveReport report;
  report.path = request.directory + "/" + name;
  try {
    std::int64_t predicted = 0;
    for (const std::string& bytes : ranks.gather(std::to_string(predicted_bytes(request.slices)))) {
      predicted += number_of(bytes);
    }
    all_or_none(ranks, [&] {
      if (first) prepare(request.directory, temporary, predicted);
    });

    std::string record;  // of this rank's shard; "": it owns nothing
    all_or_none(ranks, [&] {
      if (request.slices.empty()) return;
      const Nanoseconds begin = now();
      record = record_text(
          hdf5.run([&] { return write_shard(temporary, shard_name(ranks.rank), request.slices, request.inject); }));
      report.write = now() - begin;
    });
    Manifest manifest{request.state, {}};
    for (const std::string& text : ranks.gather(record)) {
      if (!text.empty()) manifest.files.push_back(parse_record(text));
    }
    report.bytes = {manifest.bytes()};

    all_or_none(ranks, [&] {
      if (!first) return;
      const std::string error = coverage_error(manifest.files);
      if (!error.empty()) throw Error(ExitCode::bug, "checkpoint: " + error);
      manifest.files.push_back(hdf5.run([&] { return write_master_file(temporary, manifest); }));
      write_manifest(temporary, manifest);
      publish(temporary, report.path);
      sync_directory(request.directory);
    });
  } catch (const TransportError&) {
    throw;  // the next start removes the temporary directory
  } catch (const Error& error) {
    std::error_code ignored;
    if (first) std::filesystem::remove_all(temporary, ignored);
    if (error.code() == ExitCode::bug) throw;
    report.error = error.what();
    report.total = now() - start;
    return report;
  }
  if (first) {
    known_good.insert(name);
    try {
      prune_leftovers(request.directory);
      report.pruned = prune_checkpoints(request.directory, request.keep, known_good);
    } catch (const Error& error) {
      report.warning = error.what();
    }
  }
  report.total = now() - start;
  return report;
}

}  // namespace pipefill
