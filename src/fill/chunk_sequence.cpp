#include "fill/chunk_sequence.hpp"

namespace pipefill {
namespace {

constexpr std::size_t kLongestPattern = 64;  // runs; a transformer's batch has few

}  // namespace

void ChunkSequence::append(ChunkRun run) {
  PF_EXPECT(run.count >= 1);
  size_ += run.count;
  if (!tail_.empty()) {
    ChunkRun last = tail_.back();
    last.count = run.count;
    if (last == run) {
      tail_.back().count += run.count;
      return;
    }
  }
  tail_.push_back(run);
  fold();
}

std::size_t ChunkSequence::stored_runs() const {
  std::size_t runs = tail_.size();
  for (const Group& group : groups_) runs += group.runs.size();
  return runs;
}

void ChunkSequence::add_group(std::size_t runs, std::int64_t repeats) {
  Group group{{tail_.begin(), tail_.begin() + static_cast<std::ptrdiff_t>(runs)}, 0, repeats};
  for (const ChunkRun& run : group.runs) group.chunks += run.count;
  groups_.push_back(std::move(group));
  tail_.erase(tail_.begin(), tail_.begin() + static_cast<std::ptrdiff_t>(runs * static_cast<std::size_t>(repeats)));
}

bool ChunkSequence::repeats_at_front(std::size_t length) const {
  const auto middle = tail_.begin() + static_cast<std::ptrdiff_t>(length);
  return length >= 1 && 2 * length < tail_.size() && std::equal(tail_.begin(), middle, middle);
}

/// Takes from the tail what repeats. The last run may still grow, so it never takes part.
void ChunkSequence::fold() {
  const std::size_t closed = tail_.size() - 1;
  if (repeats_at_front(closed / 2)) {
    add_group(closed / 2, 2);
  } else if (closed > 2 * kLongestPattern) {  // no pattern starts here: give the first run up, look behind it
    add_group(1, 1);
    for (std::size_t length = 1; length <= kLongestPattern; ++length)
      if (repeats_at_front(length)) {
        add_group(length, 2);
        break;
      }
  }
  while (!groups_.empty()) {
    const std::vector<ChunkRun>& runs = groups_.back().runs;
    if (tail_.size() <= runs.size() || !std::equal(runs.begin(), runs.end(), tail_.begin())) break;
    ++groups_.back().repeats;
    tail_.erase(tail_.begin(), tail_.begin() + static_cast<std::ptrdiff_t>(runs.size()));
  }
}

}  // namespace pipefill
