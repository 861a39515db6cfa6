#include "worker/job_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"

namespace pipefill {
namespace {

constexpr std::array<std::pair<JobStatus, std::string_view>, 6> kNames{{{JobStatus::submitted, "submitted"},
                                                                        {JobStatus::running, "running"},
                                                                        {JobStatus::finished, "finished"},
                                                                        {JobStatus::failed, "failed"},
                                                                        {JobStatus::quarantined, "quarantined"},
                                                                        {JobStatus::cancelled, "cancelled"}}};
constexpr int kFormat = 1;
constexpr std::int64_t kMaxState = 1 << 20;

JobStatus status_of(const std::string& name) {
  for (const auto& [status, its_name] : kNames)
    if (name == its_name) return status;
  throw std::invalid_argument(fmt::format("unknown status '{}'", name));
}

}  // namespace

std::string_view status_name(JobStatus status) { return kNames.at(static_cast<std::size_t>(status)).second; }

JobDirectory JobDirectory::create(const std::string& path, std::string_view job_text, const JobState& first) {
  make_directory(path);
  JobDirectory directory(path);
  replace_file(directory.file("job.yaml"), job_text);
  directory.write_state(first);  // last: a directory without it was never finished
  return directory;
}

JobDirectory JobDirectory::open(const std::string& path) {
  if (!std::filesystem::is_directory(path)) throw FileError(ExitCode::missing_input, path, "there is no such fill job");
  return JobDirectory(path);
}

FillJobSpec JobDirectory::read_spec(const std::vector<std::string>& kinds) const {
  return read_fill_job(file("job.yaml"), kinds);
}

JobState JobDirectory::read_state() const {
  const std::string path = file("state.json");
  try {
    const nlohmann::json json = nlohmann::json::parse(read_file(path, kMaxState));
    if (json.at("format").get<int>() != kFormat)
      throw std::invalid_argument(
          fmt::format("has format {}, this program reads {}", json.at("format").dump(), kFormat));
    JobState state;
    state.status = status_of(json.at("status"));
    state.name = json.at("name");
    state.kind = json.at("kind");
    state.owner = json.at("owner");
    state.base_directory = json.at("base_directory");
    state.shard = json.at("shard");
    state.shards = json.at("shards");
    state.configuration = json.at("configuration");
    state.threads = json.at("threads");
    state.chunks = json.at("chunks");
    state.done = json.at("done");
    state.samples = json.at("samples");
    state.failures = json.at("failures");
    state.message = json.at("message");
    state.cpu_time = Nanoseconds{json.at("cpu_time_ns").get<std::int64_t>()};
    state.chunk_time = Nanoseconds{json.at("chunk_time_ns").get<std::int64_t>()};
    state.failed_at = json.at("failed_at");
    return state;
  } catch (const nlohmann::json::exception& e) {
    throw FileError(ExitCode::damaged_data, path, fmt::format("is damaged: {}", e.what()));
  } catch (const std::invalid_argument& e) {
    throw FileError(ExitCode::damaged_data, path, fmt::format("is damaged: {}", e.what()));
  }
}

void JobDirectory::write_state(const JobState& state) const {
  const nlohmann::ordered_json json{{"format", kFormat},
                                    {"status", status_name(state.status)},
                                    {"name", state.name},
                                    {"kind", state.kind},
                                    {"owner", state.owner},
                                    {"base_directory", state.base_directory},
                                    {"shard", state.shard},
                                    {"shards", state.shards},
                                    {"configuration", state.configuration},
                                    {"threads", state.threads},
                                    {"chunks", state.chunks},
                                    {"done", state.done},
                                    {"samples", state.samples},
                                    {"failures", state.failures},
                                    {"failed_at", state.failed_at},
                                    {"message", state.message},
                                    {"cpu_time_ns", state.cpu_time.count()},
                                    {"chunk_time_ns", state.chunk_time.count()}};
  // A message may hold any bytes a job wrote: what is no UTF-8 is replaced.
  replace_file(file("state.json"), json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

Bytes JobDirectory::size() const {
  Bytes sum;
  std::error_code error;
  using Walk = std::filesystem::recursive_directory_iterator;
  for (Walk at(path_, std::filesystem::directory_options::skip_permission_denied, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code gone;
    if (!at->is_regular_file(gone) || at->is_symlink(gone) || at->path().filename() == "plan.json") continue;
    const std::uintmax_t bytes = at->file_size(gone);
    if (!gone) sum += Bytes{static_cast<std::int64_t>(bytes)};
  }
  return sum;
}

JobLock JobLock::take(const JobDirectory& directory) {
  const std::string path = directory.file("lock");
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (file.get() < 0) throw FileError(ExitCode::cannot_create, path, system_text("cannot open", errno));
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      throw FileError(ExitCode::cannot_create, path, "another worker runs this job; wait for it or cancel it there");
    throw FileError(ExitCode::cannot_create, path, system_text("cannot lock", errno));
  }
  return JobLock(std::move(file));
}

}  // namespace pipefill
