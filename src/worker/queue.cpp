#include "worker/queue.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/error.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

namespace fs = std::filesystem;
constexpr int kFormat = 1;
/// A job file as JSON text may be twice as long as it was, and has some keys around it.
constexpr std::int64_t kMaxEntry = 6 * kMaxJobFile + 65536;

void make_if_missing(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw FileError(ExitCode::cannot_create, path, system_text("cannot make directory", error.value()));
}

/// 42 of "00000042-name.json"; none of anything else.
std::optional<std::int64_t> number_of(std::string_view file) {
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(file.data(), file.data() + file.size(), number);
  const bool whole = end == file.data() + file.size() || *end == '-';
  return status == std::errc{} && whole && number > 0 ? std::optional(number) : std::nullopt;
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  if (error) throw FileError(ExitCode::input_output, directory, system_text("cannot list", error.value()));
  return names;
}

/// Submitters take turns; the kernel lets go of it when they end.
FileDescriptor take_turn(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (file.get() < 0) throw FileError(ExitCode::cannot_create, path, system_text("cannot open", errno));
  while (::flock(file.get(), LOCK_EX) != 0)
    if (errno != EINTR) break;  // no locks here: the exclusive rename below still keeps entries apart
  return file;
}

}  // namespace

FillQueue::FillQueue(const std::string& run_directory, std::vector<std::string> kinds)
    : fill_(run_directory + "/fill"), path_(fill_ + "/queue"), kinds_(std::move(kinds)) {
  for (const char* part : {"", "/taken", "/cancel", "/names", "/refused"}) make_if_missing(path_ + part);
}

std::string FillQueue::file_of(const QueueEntry& entry) const {
  return fmt::format("{}/{}{:08}-{}.json", path_, entry.taken ? "taken/" : "", entry.number, entry.name);
}

QueueEntry FillQueue::submit(std::string_view job_text, const std::string& file, const std::string& base_directory) {
  if (static_cast<std::int64_t>(job_text.size()) > kMaxJobFile)
    throw FileError(ExitCode::damaged_data, file,
                    fmt::format("has {} bytes; a job file has at most {}", job_text.size(), kMaxJobFile));
  QueueEntry entry;
  entry.spec = parse_fill_job(job_text, file, kinds_);
  entry.name = entry.spec.name;
  entry.job_text = job_text;
  entry.base_directory = base_directory;
  entry.submitted_ns =
      std::chrono::duration_cast<Nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();

  const FileDescriptor turn = take_turn(path_ + "/.lock");
  const std::string last = path_ + "/.last", name_taken = path_ + "/names/" + entry.name;
  if (last_number_ == 0)  // the file may be lost, or older than the entries after a power cut
    for (const char* part : {"", "/taken"})
      for (const std::string& name : names_in(path_ + part))
        last_number_ = std::max(last_number_, number_of(name).value_or(0));
  if (fs::exists(last)) last_number_ = std::max(last_number_, number_of(read_file(last, 64)).value_or(0));
  if (fs::exists(name_taken) || fs::exists(job_directory(entry)))
    throw FileError(ExitCode::cannot_create, job_directory(entry),
                    fmt::format("there is a job '{}' in this run already; give yours another name", entry.name));
  entry.number = ++last_number_;
  const nlohmann::ordered_json json{{"format", kFormat},
                                    {"number", entry.number},
                                    {"submitted_ns", entry.submitted_ns},
                                    {"base_directory", entry.base_directory},
                                    {"job", entry.job_text}};
  replace_file(last, fmt::format("{}", entry.number), Durability::cached);
  replace_file(file_of(entry), json.dump(1) + "\n");
  replace_file(name_taken, "", Durability::cached);  // last: killed before it, the entry is there and may be cancelled
  return entry;
}

bool FillQueue::is_known(const std::string& name) const {
  return fs::exists(path_ + "/names/" + name) || fs::exists(fill_ + "/" + name);
}

std::optional<QueueEntry> FillQueue::read(const std::string& path, bool taken) const {
  const std::string file = fs::path(path).filename().string();
  try {
    const nlohmann::json json = nlohmann::json::parse(read_file(path, kMaxEntry));
    if (json.at("format").get<int>() != kFormat)
      throw std::invalid_argument(fmt::format("it has format {}", json.at("format").dump()));
    QueueEntry entry;
    entry.number = json.at("number");
    entry.submitted_ns = json.at("submitted_ns");
    entry.base_directory = json.at("base_directory");
    entry.job_text = json.at("job");
    entry.taken = taken;
    if (static_cast<std::int64_t>(entry.job_text.size()) > kMaxJobFile)
      throw std::invalid_argument(
          fmt::format("its job file has {} bytes, at most {} are allowed", entry.job_text.size(), kMaxJobFile));
    entry.spec = parse_fill_job(entry.job_text, file, kinds_);
    entry.name = entry.spec.name;
    if (path != file_of(entry)) throw std::invalid_argument("its name does not go with what is in it");
    return entry;
  } catch (const FileError& e) {
    if (e.code() == ExitCode::missing_input) return std::nullopt;  // taken or removed meanwhile
    if (e.code() != ExitCode::damaged_data) throw;                 // the disk's trouble, not the file's
    refuse(path, e.what());
  } catch (const std::exception& e) {
    refuse(path, e.what());
  }
  return std::nullopt;
}

void FillQueue::refuse(const std::string& path, const std::string& reason) const {
  const std::string file = fs::path(path).filename().string();
  replace_file(path_ + "/refused/" + file + ".reason", reason + "\n", Durability::cached);
  rename_path(path, path_ + "/refused/" + file);
}

void FillQueue::scan_directory(const std::string& directory, bool taken) {
  std::unordered_set<std::int64_t> have, there;
  for (const QueueEntry& entry : entries_)
    if (entry.taken == taken) have.insert(entry.number);
  for (const std::string& name : names_in(directory)) {
    if (name.front() == '.' || !name.ends_with(".json")) {
      const bool ours =
          name.front() == '.' || name == "taken" || name == "cancel" || name == "names" || name == "refused";
      if (!ours) refuse(directory + "/" + name, "it is no entry of the queue");
      continue;
    }
    const auto number = number_of(name);
    if (number && have.contains(*number)) {
      there.insert(*number);
    } else if (auto entry = read(directory + "/" + name, taken)) {
      there.insert(entry->number);
      entries_.push_back(std::move(*entry));
    }
  }
  std::erase_if(entries_, [&](const QueueEntry& e) { return e.taken == taken && !there.contains(e.number); });
}

const std::vector<QueueEntry>& FillQueue::scan() {
  scan_directory(path_ + "/taken", true);
  scan_directory(path_, false);
  std::ranges::sort(entries_, {}, &QueueEntry::number);
  std::unordered_set<std::int64_t> unwanted;
  for (const std::string& name : names_in(path_ + "/cancel"))
    if (const auto number = number_of(name)) unwanted.insert(*number);
  for (QueueEntry& entry : entries_) entry.cancelled = unwanted.contains(entry.number);
  return entries_;
}

QueueEntry FillQueue::find(std::string_view number_or_name) {
  std::int64_t number = 0;
  const auto [end, status] =
      std::from_chars(number_or_name.data(), number_or_name.data() + number_or_name.size(), number);
  const bool numeric = status == std::errc{} && end == number_or_name.data() + number_or_name.size();
  for (const QueueEntry& entry : scan())
    if (entry.name == number_or_name || (numeric && entry.number == number)) return entry;
  throw FileError(ExitCode::missing_input, path_, fmt::format("there is no job '{}' in the queue", number_or_name));
}

bool FillQueue::cancel(const QueueEntry& entry) {
  const std::string marker = fmt::format("{}/cancel/{:08}", path_, entry.number);
  if (fs::exists(marker)) return false;
  replace_file(marker, "");
  return true;
}

QueueEntry& FillQueue::known(std::int64_t number) {
  const auto found = std::ranges::find(entries_, number, &QueueEntry::number);
  if (found == entries_.end())
    throw FileError(ExitCode::missing_input, path_, fmt::format("there is no job {} in the queue", number));
  return *found;
}

void FillQueue::take(std::int64_t number) {
  QueueEntry& entry = known(number);
  if (entry.taken) return;
  const std::string from = file_of(entry);
  entry.taken = true;
  rename_path(from, file_of(entry));
}

void FillQueue::remove(std::int64_t number) {
  const QueueEntry& entry = known(number);
  std::error_code ignored;
  fs::remove(file_of(entry), ignored);
  fs::remove(fmt::format("{}/cancel/{:08}", path_, number), ignored);
  std::erase_if(entries_, [number](const QueueEntry& e) { return e.number == number; });
}

std::vector<RefusedEntry> FillQueue::refused() const {
  std::vector<RefusedEntry> all;
  for (const std::string& name : names_in(path_ + "/refused")) {
    if (name.ends_with(".reason")) continue;
    std::string reason;
    try {
      reason = read_file(path_ + "/refused/" + name + ".reason", kMaxEntry);
    } catch (const FileError&) {
      reason = "unknown";
    }
    while (reason.ends_with('\n')) reason.pop_back();
    all.push_back({name, std::move(reason)});
  }
  std::ranges::sort(all, {}, &RefusedEntry::file);
  return all;
}

}  // namespace pipefill
