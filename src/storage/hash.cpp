// XXH3-128 over memory, streams and files; see hash.hpp.
#include "storage/hash.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <new>
#include <vector>

#include "base/error.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

std::string hex_of(XXH128_hash_t hash) { return fmt::format("{:016x}{:016x}", hash.high64, hash.low64); }

}  // namespace

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::add(std::span<const std::byte> bytes) { XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size()); }
std::string Hasher::hex() const { return hex_of(XXH3_128bits_digest(state_->xxh)); }

std::string hash_bytes(std::span<const std::byte> bytes) { return hex_of(XXH3_128bits(bytes.data(), bytes.size())); }
std::string hash_text(std::string_view text) { return hash_bytes(std::as_bytes(std::span(text))); }

FileDigest digest_range(int descriptor, std::int64_t offset, std::int64_t bytes, const std::string& path) {
  constexpr std::int64_t kBlock = 256 * 1024;  // stays in the second-level cache between the copy and the hash
  std::vector<std::byte> block(static_cast<std::size_t>(std::clamp<std::int64_t>(bytes, 1, kBlock)));
  Hasher hasher;
  std::int64_t done = 0;
  while (done < bytes) {
    const auto want = static_cast<std::size_t>(std::min(bytes - done, kBlock));
    const ssize_t got = ::pread(descriptor, block.data(), want, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw FileError(ExitCode::input_output, path, system_text("cannot read", errno));
    if (got == 0) break;
    hasher.add(std::span(block).first(static_cast<std::size_t>(got)));
    done += got;
  }
  return {done, hasher.hex()};
}

FileDigest digest_file(const std::string& path) {
  const FileDescriptor file = open_to_read(path);
  return digest_range(file.get(), 0, std::numeric_limits<std::int64_t>::max(), path);
}

}  // namespace pipefill
