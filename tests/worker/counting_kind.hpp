// A kind of fill job for tests: its chunks compute a chain of numbers in which every link depends on the one before, so
// that a lost, repeated-with-effect or reordered chunk shows; and it can be told to misbehave at one of them.
#pragma once

#include <pipefill/fill_job.h>

#include <cstdint>
#include <string_view>

namespace pipefill::testing {

/// Parameters: chunks, chunk_us (busy time of each), fault (segv, abort, exit, fail, invalid, hang, leak, flood, disk,
/// fork, throw, kill, slow, create, create_hang, restore_hang, uneven, slow_start), fault_at (chunk), fault_once ("1":
/// only while DIRECTORY/faulted is missing). Each run of a chunk appends a byte to DIRECTORY/runs (unless quiet is 1);
/// save writes DIRECTORY/result.
const pipefill_fill_kind* counting_kind();

/// counting, plus the real kinds.
const pipefill_fill_kind* find_test_kind(std::string_view name);

/// What DIRECTORY/result holds after `chunks` chunks.
std::uint64_t expected_result(std::int64_t chunks);

}  // namespace pipefill::testing
