// The text all-gather over one rank or a transport; see rank_group.hpp.
#include "checkpoint/rank_group.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/error.hpp"
#include "comm/wait.hpp"

namespace pipefill {
namespace {

/// Sets a waiter's deadline for a while.
class LongerDeadline {
 public:
  LongerDeadline(Waiter& waiter, Nanoseconds deadline) : waiter_(waiter), before_(waiter.deadline()) {
    waiter_.set_deadline(deadline);
  }
  ~LongerDeadline() { waiter_.set_deadline(before_); }
  LongerDeadline(const LongerDeadline&) = delete;
  LongerDeadline& operator=(const LongerDeadline&) = delete;

 private:
  Waiter& waiter_;
  Nanoseconds before_;
};

/// Sizes first, then the texts themselves.
std::vector<std::string> gather_over(Transport& transport, Waiter& waiter, const std::string& mine) {
  const auto size = static_cast<std::size_t>(transport.size());
  const WaitSubject subject{.kind = WaitKind::collective, .peer = {-1}, .tag = {}, .step = 0};
  const auto length = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> lengths(size);
  Request request =
      transport.all_gather(std::as_bytes(std::span(&length, 1)), std::as_writable_bytes(std::span(lengths)),
                           std::vector<std::int64_t>(size, sizeof(std::int64_t)));
  waiter.wait(transport, request, subject);
  std::size_t total = 0;
  for (const std::int64_t bytes : lengths) total += static_cast<std::size_t>(bytes);
  std::string joined(total, '\0');
  request = transport.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(joined)), lengths);
  waiter.wait(transport, request, subject);
  std::vector<std::string> texts;
  std::size_t begin = 0;
  for (const std::int64_t bytes : lengths) {
    texts.push_back(joined.substr(begin, static_cast<std::size_t>(bytes)));
    begin += static_cast<std::size_t>(bytes);
  }
  return texts;
}

}  // namespace

RankGroup single_rank() {
  return {0, 1, [](const std::string& mine) { return std::vector<std::string>{mine}; }};
}

RankGroup ranks_over(Transport& transport, Waiter& waiter, Nanoseconds deadline) {
  return {transport.rank().value, transport.size(), [&transport, &waiter, deadline](const std::string& mine) {
            const LongerDeadline longer(waiter, deadline);
            return gather_over(transport, waiter, mine);
          }};
}

void all_or_none(const RankGroup& ranks, const std::function<void()>& work) {
  std::string mine;  // "": went well; otherwise the exit code, a blank and the text
  try {
    work();
  } catch (const TransportError&) {
    throw;  // a lost peer cannot be told anything
  } catch (const Error& error) {
    mine = fmt::format("{} {}", static_cast<int>(error.code()), error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    mine = fmt::format("{} {}", static_cast<int>(ExitCode::input_output), error.what());
  } catch (const std::exception& error) {
    mine = fmt::format("{} {}", static_cast<int>(ExitCode::bug), error.what());
  }
  const std::vector<std::string> all = ranks.gather(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    int code = static_cast<int>(ExitCode::bug);
    const std::string& text = all[rank];
    std::from_chars(text.data(), text.data() + text.size(), code);
    const std::string reason = text.substr(text.find(' ') + 1);
    throw SharedError(static_cast<ExitCode>(code), ranks.size == 1 ? reason : fmt::format("rank {}: {}", rank, reason));
  }
}

}  // namespace pipefill
