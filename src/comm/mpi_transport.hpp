// The transport over host MPI, funnelled through the rank's main thread, on communicators of its own.
#pragma once

#include <memory>

#include "comm/transport.hpp"

namespace pipefill {

struct MpiTransportOptions {
  /// Messages are cut into full parts of this many bytes and one shorter (perhaps empty) last part, so that a receive
  /// of another size is noticed, never matched with the next message.
  std::int64_t largest_part = std::int64_t{1} << 30;
};

class MpiTransport final : public Transport {
 public:
  /// Collective over all ranks. Needs a living Cluster.
  explicit MpiTransport(MpiTransportOptions options = {});
  /// Abandons what is still open: cancels receives, gives sends a second to leave. If something still hangs then, MPI
  /// keeps pointers to those buffers and only end_all_ranks may follow.
  ~MpiTransport() override;

  RankId rank() const override;
  int size() const override;
  Request send(RankId to, Tag tag, std::span<const std::byte> message) override;
  Request receive(RankId from, Tag tag, std::span<std::byte> message) override;
  bool test(Request& request) override;
  void progress() override;
  bool abandon(Request& request) noexcept override;
  Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                     std::vector<std::int64_t> counts) override;
  Request all_reduce_max(std::int64_t value, std::int64_t& result) override;
  [[noreturn]] void abort(int exit_code) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pipefill
