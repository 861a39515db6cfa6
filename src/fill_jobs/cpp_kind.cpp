// Exceptions as results.
#include "fill_jobs/cpp_kind.hpp"

#include <fmt/format.h>

#include <cstring>
#include <new>
#include <string_view>

#include "base/error.hpp"

namespace pipefill {
namespace {

/// As much as fits, ended by a zero byte; line ends become spaces.
template <std::size_t Size>
void put(char (&into)[Size], std::string_view text) {
  const std::size_t count = std::min(text.size(), Size - 1);
  for (std::size_t i = 0; i < count; ++i) into[i] = text[i] == '\n' || text[i] == '\0' ? ' ' : text[i];
  into[count] = '\0';
}

std::int32_t result_of(ExitCode code) {
  switch (code) {
    case ExitCode::no_device:
      return PIPEFILL_FILL_OUT_OF_MEMORY;
    case ExitCode::usage:
    case ExitCode::deck:
    case ExitCode::damaged_data:
    case ExitCode::missing_input:
    case ExitCode::diverged:
      return PIPEFILL_FILL_INVALID;
    default:
      return PIPEFILL_FILL_FAILED;
  }
}

}  // namespace

std::int32_t fill_result(pipefill_fill_error* error) noexcept {
  const auto say = [&](std::string_view text) {
    if (error != nullptr) put(error->text, text);
  };
  try {
    throw;
  } catch (const Error& e) {
    say(e.what());
    return result_of(e.code());
  } catch (const std::bad_alloc&) {
    say("out of memory");
    return PIPEFILL_FILL_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    say(e.what());
  } catch (...) {
    say("an exception of unknown type");
  }
  return PIPEFILL_FILL_FAILED;
}

pipefill_fill_configuration named_configuration(std::string_view name) {
  pipefill_fill_configuration configuration{};
  configuration.struct_bytes = sizeof configuration;
  put(configuration.name, name);
  return configuration;
}

std::span<std::byte> prepared_state(void* state, std::int64_t bytes) {
  if (state == nullptr || reinterpret_cast<std::uintptr_t>(state) % 64 != 0)
    throw Error(ExitCode::bug, fmt::format("the state of a fill job lies at {}, not at a multiple of 64", state));
  constexpr std::size_t kPage = 4096;
  const std::span<std::byte> all(static_cast<std::byte*>(state), static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < all.size(); i += kPage) {
    volatile std::byte* page = &all[i];
    *page = *page;
  }
  return all;
}

}  // namespace pipefill
