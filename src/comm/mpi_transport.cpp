#include "comm/mpi_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <thread>

#include "base/clock.hpp"
#include "base/contract.hpp"
#include "base/error.hpp"
#include "comm/cluster.hpp"
#include "comm/mpi_check.hpp"
#include "comm/tag_code.hpp"

namespace pipefill {
namespace {

struct Part {
  MPI_Request request = MPI_REQUEST_NULL;
  int expected = -1;  ///< bytes of a receive; -1: nothing to check
};

/// Objects are reused, so that a message in the steady state costs no allocation.
struct Operation {
  std::vector<Part> parts;
  std::size_t next = 0;  ///< the first part not yet done
  RankId peer{-1};
  Tag tag;

  // A collective works in memory of its own until it is done: the caller's may be gone by then, when an error unwinds.
  std::int64_t value = 0, largest = 0;  ///< all_reduce_max
  std::int64_t* result = nullptr;
  std::vector<std::byte> mine, all;  ///< all_gather
  std::vector<int> counts, starts;
  std::span<std::byte> gathered;

  /// Gives the caller what the collective brought.
  void deliver() const {
    if (result != nullptr) *result = largest;
    std::ranges::copy(all, gathered.begin());
  }
};

}  // namespace

struct MpiTransport::State {
  MpiTransportOptions options;
  RankId rank;
  int size = 0;
  int largest_tag = 32767;
  std::array<MPI_Comm, kChannels> channels{};
  MPI_Comm collectives = MPI_COMM_NULL;
  MPI_Comm self = MPI_COMM_NULL;
  /// A receive that nobody ever matches: testing it makes MPI move everything along, which testing a request that
  /// happens to be done, or MPI_Iprobe with a message at hand, does not.
  MPI_Request pump = MPI_REQUEST_NULL;
  char pump_byte = 0;

  std::vector<std::unique_ptr<Operation>> operations;
  std::vector<std::int64_t> free;
  Nanoseconds patience = std::chrono::seconds(1);  ///< left for abandoned operations, all together
  bool abandoned = false;                          ///< MPI still points to a caller's buffer

  Operation& at(Request request) {
    PF_EXPECT(request.pending());
    return *operations[static_cast<std::size_t>(request.handle)];
  }

  Request open(RankId peer, Tag tag) {
    if (free.empty()) {
      operations.push_back(std::make_unique<Operation>());
      free.push_back(static_cast<std::int64_t>(operations.size()) - 1);
    }
    const Request request{free.back()};
    free.pop_back();
    Operation& operation = at(request);
    operation.parts.clear();
    operation.next = 0;
    operation.peer = peer;
    operation.tag = tag;
    operation.result = nullptr;
    operation.all.clear();
    operation.gathered = {};
    return request;
  }

  void close(Request& request) {
    free.push_back(request.handle);
    request = {};
  }

  /// Calls post(offset, count, request) for each part of a message. MPI matches the parts of one (peer, tag) in order.
  template <class Post>
  void split(Operation& operation, std::size_t bytes, Post post) {
    const auto limit = static_cast<std::size_t>(options.largest_part);
    for (std::size_t offset = 0;; offset += limit) {
      const std::size_t count = std::min(limit, bytes - offset);
      operation.parts.emplace_back();
      post(offset, static_cast<int>(count), operation.parts.back());
      if (count < limit) return;
    }
  }

  void fail(const Operation& operation, Request& request, const std::string& what) {
    const std::string text = fmt::format("rank {}: message with rank {} (channel {}, chunk {}, microbatch {}): {}",
                                         rank.value, operation.peer.value, static_cast<int>(operation.tag.channel),
                                         operation.tag.item, operation.tag.microbatch.value, what);
    // Parts behind the failed one may still be open.
    (void)give_up(request);
    throw TransportError(text);
  }

  /// Tests the parts in order until one is open. Throws when a part failed or has the wrong size.
  bool test(Request& request) {
    Operation& operation = at(request);
    for (; operation.next < operation.parts.size(); ++operation.next) {
      Part& part = operation.parts[operation.next];
      int done = 0;
      MPI_Status status;
      const int result = MPI_Test(&part.request, &done, &status);
      if (result != MPI_SUCCESS) {
        int error_class = MPI_SUCCESS;
        MPI_Error_class(result, &error_class);
        fail(operation, request,
             error_class == MPI_ERR_TRUNCATE
                 ? fmt::format("longer than the {} bytes expected: sender and receiver run different programs",
                               part.expected)
                 : fmt::format("MPI error class {}", error_class));
      }
      if (!done) return false;
      if (part.expected >= 0) {
        int count = 0;
        check_mpi(MPI_Get_count(&status, MPI_BYTE, &count), "read the size of a message");
        if (count != part.expected) {
          fail(operation, request,
               fmt::format("{} bytes came where {} were expected: sender and receiver run different programs", count,
                           part.expected));
        }
      }
    }
    operation.deliver();
    close(request);
    return true;
  }

  bool give_up(Request& request) noexcept {
    Operation& operation = at(request);
    for (std::size_t i = operation.next; i < operation.parts.size(); ++i) {
      Part& part = operation.parts[i];
      if (part.request != MPI_REQUEST_NULL && part.expected >= 0) MPI_Cancel(&part.request);
    }
    const Nanoseconds start = now();
    bool all_done = false;
    for (;;) {
      all_done = true;
      for (std::size_t i = operation.next; i < operation.parts.size(); ++i) {
        int done = 0;
        const int result = MPI_Test(&operation.parts[i].request, &done, MPI_STATUS_IGNORE);
        if (result == MPI_SUCCESS && !done) all_done = false;
      }
      if (all_done || now() - start >= patience) break;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    patience -= std::min(patience, now() - start);
    if (all_done) {
      close(request);
    } else {
      request = {};  // its slot stays taken: MPI still uses the operation
      abandoned = true;
    }
    return all_done;
  }
};

MpiTransport::MpiTransport(MpiTransportOptions options) : state_(std::make_unique<State>()) {
  State& s = *state_;
  PF_EXPECT(options.largest_part > 0 && options.largest_part <= std::numeric_limits<int>::max());
  s.options = options;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &s.rank.value), "read the rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &s.size), "read the number of ranks");
  for (MPI_Comm& channel : s.channels) channel = duplicate(MPI_COMM_WORLD);
  s.collectives = duplicate(MPI_COMM_WORLD);
  s.self = duplicate(MPI_COMM_SELF);
  int* largest = nullptr;
  int known = 0;
  check_mpi(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &known), "read the largest tag");
  if (known) s.largest_tag = *largest;
  check_mpi(MPI_Irecv(&s.pump_byte, 1, MPI_BYTE, 0, 0, s.self, &s.pump), "post a receive");
}

MpiTransport::~MpiTransport() {
  State& s = *state_;
  std::vector<bool> open(s.operations.size(), true);
  for (const std::int64_t handle : s.free) open[static_cast<std::size_t>(handle)] = false;
  if (!s.abandoned) {
    for (std::size_t i = 0; i < open.size(); ++i) {
      Request request{static_cast<std::int64_t>(i)};
      if (open[i]) (void)s.give_up(request);
    }
  }
  if (s.abandoned) {
    (void)state_.release();  // MPI still points into it
    return;
  }
  MPI_Cancel(&s.pump);
  MPI_Wait(&s.pump, MPI_STATUS_IGNORE);
  // Freeing is collective: not while an error unwinds, which other ranks may not share.
  if (std::uncaught_exceptions() > 0) return;
  for (MPI_Comm& channel : s.channels) MPI_Comm_free(&channel);
  MPI_Comm_free(&s.collectives);
  MPI_Comm_free(&s.self);
}

RankId MpiTransport::rank() const { return state_->rank; }
int MpiTransport::size() const { return state_->size; }

Request MpiTransport::send(RankId to, Tag tag, std::span<const std::byte> message) {
  State& s = *state_;
  const int mpi_tag = encode_tag(tag, s.largest_tag);
  const Request request = s.open(to, tag);
  s.split(s.at(request), message.size(), [&](std::size_t offset, int count, Part& part) {
    check_mpi(MPI_Isend(message.data() + offset, count, MPI_BYTE, to.value, mpi_tag,
                        s.channels[static_cast<std::size_t>(tag.channel)], &part.request),
              "send a message");
  });
  return request;
}

Request MpiTransport::receive(RankId from, Tag tag, std::span<std::byte> message) {
  State& s = *state_;
  const int mpi_tag = encode_tag(tag, s.largest_tag);
  const Request request = s.open(from, tag);
  s.split(s.at(request), message.size(), [&](std::size_t offset, int count, Part& part) {
    part.expected = count;
    check_mpi(MPI_Irecv(message.data() + offset, count, MPI_BYTE, from.value, mpi_tag,
                        s.channels[static_cast<std::size_t>(tag.channel)], &part.request),
              "post a receive");
  });
  return request;
}

bool MpiTransport::test(Request& request) { return state_->test(request); }

void MpiTransport::progress() {
  int done = 0;
  check_mpi(MPI_Test(&state_->pump, &done, MPI_STATUS_IGNORE), "move messages along");
}

bool MpiTransport::abandon(Request& request) noexcept { return state_->give_up(request); }

Request MpiTransport::all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                                 std::vector<std::int64_t> counts) {
  State& s = *state_;
  std::int64_t total = 0;
  for (const std::int64_t count : counts) total += count;
  if (std::ssize(counts) != s.size || total != std::ssize(all) ||
      counts[static_cast<std::size_t>(s.rank.value)] != std::ssize(mine)) {
    throw TransportError(fmt::format("all-gather of {} bytes from {} ranks into {} bytes: the sizes do not fit", total,
                                     counts.size(), all.size()));
  }
  if (total > std::numeric_limits<int>::max()) {
    throw TransportError(fmt::format("all-gather of {} bytes: MPI takes at most {} in one call", total,
                                     std::numeric_limits<int>::max()));
  }
  const Request request = s.open({-1}, {});
  Operation& operation = s.at(request);
  operation.counts.assign(counts.begin(), counts.end());
  operation.starts.assign(counts.size(), 0);
  for (std::size_t r = 1; r < counts.size(); ++r) {
    operation.starts[r] = operation.starts[r - 1] + operation.counts[r - 1];
  }
  operation.mine.assign(mine.begin(), mine.end());
  operation.all.resize(all.size());
  operation.gathered = all;
  operation.parts.emplace_back();
  check_mpi(MPI_Iallgatherv(operation.mine.data(), static_cast<int>(mine.size()), MPI_BYTE, operation.all.data(),
                            operation.counts.data(), operation.starts.data(), MPI_BYTE, s.collectives,
                            &operation.parts.back().request),
            "start an all-gather");
  return request;
}

Request MpiTransport::all_reduce_max(std::int64_t value, std::int64_t& result) {
  State& s = *state_;
  const Request request = s.open({-1}, {});
  Operation& operation = s.at(request);
  operation.value = value;
  operation.result = &result;
  operation.parts.emplace_back();
  check_mpi(MPI_Iallreduce(&operation.value, &operation.largest, 1, MPI_INT64_T, MPI_MAX, s.collectives,
                           &operation.parts.back().request),
            "start an all-reduce");
  return request;
}

void MpiTransport::abort(int exit_code) { end_all_ranks(exit_code); }

}  // namespace pipefill
