// Names in RUN/checkpoints, their order, and their removal; see directory.hpp.
#include "checkpoint/directory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <system_error>
#include <tuple>

#include "base/error.hpp"
#include "checkpoint/verify.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

constexpr std::string_view kStep = "step-", kTemporary = ".tmp-", kTrash = ".trash-";

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entries(directory, error);
  if (error == std::errc::no_such_file_or_directory) return names;
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    names.push_back(entries->path().filename().string());
  }
  if (error) throw FileError(ExitCode::input_output, directory, "cannot list: " + error.message());
  std::sort(names.begin(), names.end());
  return names;
}

void remove_tree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) throw FileError(ExitCode::input_output, path, "cannot remove: " + error.message());
}

}  // namespace

std::string step_name(std::int64_t step) { return fmt::format("{}{:08}", kStep, step); }

std::string temporary_name(std::int64_t step, int attempt) {
  return fmt::format("{}{}-{}", kTemporary, step_name(step), attempt);
}

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kStep)) return {};
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kStep.size(), end, step);
  if (error != std::errc() || stop != end || step < 0 || name != step_name(step)) return {};
  return step;
}

std::vector<CheckpointEntry> list_checkpoints(const std::string& directory) {
  std::vector<CheckpointEntry> entries;
  for (const std::string& name : names_in(directory)) {
    const std::optional<std::int64_t> step = step_of(name);
    if (!step) continue;
    const std::string path = directory + "/" + name;
    std::vector<Damage> damage;
    const std::optional<Manifest> manifest = check_manifest(path, damage);
    entries.push_back({path, *step, manifest ? std::optional(manifest->state.attempt) : std::nullopt});
  }
  std::sort(entries.begin(), entries.end(), [](const CheckpointEntry& a, const CheckpointEntry& b) {
    const auto rank = [](const CheckpointEntry& entry) {
      return std::tuple(entry.attempt.value_or(std::numeric_limits<int>::max()), entry.step);
    };
    return rank(a) > rank(b);
  });
  return entries;
}

std::vector<std::string> list_leftovers(const std::string& directory) {
  std::vector<std::string> names = names_in(directory);
  std::erase_if(names,
                [](const std::string& name) { return !name.starts_with(kTemporary) && !name.starts_with(kTrash); });
  return names;
}

std::vector<std::string> prune_leftovers(const std::string& directory) {
  std::vector<std::string> names = list_leftovers(directory);
  for (const std::string& name : names) remove_tree(directory + "/" + name);
  return names;
}

std::vector<std::string> prune_checkpoints(const std::string& directory, int keep, std::set<std::string>& known_good) {
  const int wanted = std::max(2, keep);
  int whole = 0;
  std::vector<std::string> removed;
  std::vector<CheckpointEntry> unreadable;
  std::int64_t oldest_kept = std::numeric_limits<std::int64_t>::max();
  const auto remove = [&](const CheckpointEntry& entry) {
    const std::string name = std::filesystem::path(entry.path).filename().string();
    const std::string trash = directory + "/" + std::string(kTrash) + name;
    remove_tree(trash);  // of an earlier, interrupted prune
    rename_path(entry.path, trash);
    known_good.erase(name);
    removed.push_back(name);
    remove_tree(trash);
  };
  for (const CheckpointEntry& entry : list_checkpoints(directory)) {
    if (!entry.attempt) {
      unreadable.push_back(entry);
    } else if (whole == wanted) {
      remove(entry);
    } else {
      const std::string name = std::filesystem::path(entry.path).filename().string();
      oldest_kept = std::min(oldest_kept, entry.step);
      if (!known_good.contains(name) && verify_checkpoint(entry.path).empty()) known_good.insert(name);
      if (known_good.contains(name)) ++whole;
    }
  }
  if (whole < wanted) return removed;
  for (const CheckpointEntry& entry : unreadable) {
    if (entry.step < oldest_kept) remove(entry);
  }
  return removed;
}

}  // namespace pipefill
