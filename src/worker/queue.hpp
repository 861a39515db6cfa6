// The queue of fill jobs of a run: a spool directory RUN/fill/queue/ on a file system that all hosts share. One file
// per job, made whole or not at all (written aside, synced, renamed), so that anybody may submit at any time and a
// damaged file harms nobody but itself: it is moved to refused/ with its reason.
//
//   queue/00000042-NAME.json     waiting; the number is the order of submission
//   queue/cancel/00000042        somebody wants job 42 gone
//   queue/names/NAME             this name was used in this run
//   queue/refused/...            what could not be read, and FILE.reason
//   queue/taken/00000042-NAME.json   handed to the scheduler; its directory is RUN/fill/NAME
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/job_file.hpp"

namespace pipefill {

struct QueueEntry {
  std::int64_t number = 0;
  std::string name;
  std::string job_text;           ///< job.yaml as submitted
  std::string base_directory;     ///< where relative paths in it start
  std::int64_t submitted_ns = 0;  ///< since 1970, this host's clock: for people and for deadlines
  FillJobSpec spec;
  bool taken = false;
  bool cancelled = false;  ///< somebody wants it gone
};

struct RefusedEntry {
  std::string file, reason;
};

class FillQueue {
 public:
  /// `run_directory`/fill/queue, made if it is missing. `kinds` are those a job may have. FileError 73 or 74.
  FillQueue(const std::string& run_directory, std::vector<std::string> kinds);

  /// Checks the job (DeckError) and puts it in. Its name must not be in use in this run (FileError 73). Any process,
  /// any time.
  QueueEntry submit(std::string_view job_text, const std::string& file, const std::string& base_directory);
  /// Whether a job of this name was ever submitted in this run.
  bool is_known(const std::string& name) const;
  /// Reads what is new since the last call; entries that cannot be read are moved to refused/. By number.
  const std::vector<QueueEntry>& scan();
  /// Found by number or, if it is no number, by name. None: FileError 66.
  QueueEntry find(std::string_view number_or_name);
  /// Leaves the wish; whoever owns the job sees it at its next scan. False when it was left before.
  bool cancel(const QueueEntry& entry);
  /// The scheduler has made the job's directory: it stands in taken/ from now on.
  void take(std::int64_t number);
  /// It is over (finished, cancelled, ...): out of the queue.
  void remove(std::int64_t number);
  std::vector<RefusedEntry> refused() const;

  const std::string& path() const { return path_; }
  /// RUN/fill/NAME.
  std::string job_directory(const QueueEntry& entry) const { return fill_ + "/" + entry.name; }

 private:
  std::optional<QueueEntry> read(const std::string& path, bool taken) const;
  void refuse(const std::string& path, const std::string& reason) const;
  std::string file_of(const QueueEntry& entry) const;
  QueueEntry& known(std::int64_t number);
  void scan_directory(const std::string& directory, bool taken);

  std::string fill_, path_;
  std::vector<std::string> kinds_;
  std::int64_t last_number_ = 0;     ///< 0: not looked yet
  std::vector<QueueEntry> entries_;  ///< as of the last scan, by number
};

}  // namespace pipefill
