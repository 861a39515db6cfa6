// A kind of fill job written in C++: a class behind the C table of <pipefill/fill_job.h>, with one catch per function.
#pragma once

#include <pipefill/fill_job.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace pipefill {

/// One job. Constructed from a pipefill_fill_setup; every function may throw (see fill_result).
class FillWork {
 public:
  virtual ~FillWork() = default;
  virtual std::vector<pipefill_fill_configuration> configurations() const = 0;
  virtual pipefill_fill_chunk plan(int configuration, std::int64_t chunk) const = 0;
  /// `state` has the configuration's state_bytes, 64-byte aligned.
  virtual void restore(int configuration, std::span<std::byte> state, std::int64_t done) = 0;
  virtual void run(std::int64_t chunk) = 0;
  virtual void save(std::int64_t done) = 0;
};

/// One that can be divided: see pipefill_fill_kind::merge.
class DivisibleWork : public FillWork {
 public:
  /// Of a whole job that is not restored.
  virtual void merge(const std::string& configuration, const std::vector<std::string>& parts) = 0;
};

/// What the exception in flight means to the host, its text in `error` as one line: no memory (DeviceError, bad_alloc)
/// OUT_OF_MEMORY; a wrong description, missing or damaged input, a diverged training INVALID; anything else FAILED.
std::int32_t fill_result(pipefill_fill_error* error) noexcept;

/// A configuration whose name is cut to what the struct holds; the other members are left zero.
pipefill_fill_configuration named_configuration(std::string_view name);

/// The state as the kernels need it: throws unless it is 64-byte aligned; touches every page, so that no chunk pays for
/// the page faults of a file's mapping (measured: 15 ms in the first chunk that writes a megabyte of new pages).
std::span<std::byte> prepared_state(void* state, std::int64_t bytes);

namespace cpp_kind {

inline FillWork& work(pipefill_fill_job* job) { return *reinterpret_cast<FillWork*>(job); }

template <class Call>
std::int32_t guarded(pipefill_fill_error* error, const Call& call) noexcept {
  try {
    call();
    return PIPEFILL_FILL_OK;
  } catch (...) {
    return fill_result(error);
  }
}

template <class Work>
std::int32_t create(const pipefill_fill_setup* setup, pipefill_fill_job** job, pipefill_fill_error* error) noexcept {
  return guarded(error, [&] {
    FillWork* made = new Work(*setup);
    *job = reinterpret_cast<pipefill_fill_job*>(made);
  });
}

inline std::int32_t configurations(pipefill_fill_job* job, pipefill_fill_configuration* out, std::int32_t room,
                                   std::int32_t* count, pipefill_fill_error* error) noexcept {
  return guarded(error, [&] {
    const std::vector<pipefill_fill_configuration> all = work(job).configurations();
    *count = static_cast<std::int32_t>(all.size());
    std::copy_n(all.begin(), std::min(*count, std::max(room, 0)), out);
  });
}

inline std::int32_t plan(pipefill_fill_job* job, std::int32_t configuration, std::int64_t first, std::int64_t count,
                         pipefill_fill_chunk* out, pipefill_fill_error* error) noexcept {
  return guarded(error, [&] {
    for (std::int64_t i = 0; i < count; ++i) out[i] = work(job).plan(configuration, first + i);
  });
}

inline std::int32_t restore(pipefill_fill_job* job, std::int32_t configuration, void* state, std::int64_t done,
                            pipefill_fill_error* error) noexcept {
  return guarded(error, [&] {
    const auto bytes = work(job).configurations().at(static_cast<std::size_t>(configuration)).state_bytes;
    work(job).restore(configuration, prepared_state(state, bytes), done);
  });
}

inline std::int32_t run(pipefill_fill_job* job, std::int64_t chunk, const pipefill_fill_grant* /*grant*/,
                        pipefill_fill_error* error) noexcept {
  return guarded(error, [&] { work(job).run(chunk); });
}

inline std::int32_t save(pipefill_fill_job* job, std::int64_t done, pipefill_fill_error* error) noexcept {
  return guarded(error, [&] { work(job).save(done); });
}

inline void destroy(pipefill_fill_job* job) noexcept { delete &work(job); }

template <class Work>
std::int32_t merge(const pipefill_fill_setup* setup, const char* configuration, const char* const* parts,
                   std::int64_t count, pipefill_fill_error* error) noexcept {
  return guarded(error, [&] { Work(*setup).merge(configuration, std::vector<std::string>(parts, parts + count)); });
}

/// The table of a kind whose jobs are `Work`s.
template <class Work>
constexpr pipefill_fill_kind table(const char* name) {
  pipefill_fill_kind kind{PIPEFILL_FILL_JOB_ABI,
                          sizeof(pipefill_fill_kind),
                          name,
                          create<Work>,
                          configurations,
                          plan,
                          restore,
                          run,
                          save,
                          destroy,
                          nullptr};
  if constexpr (std::is_base_of_v<DivisibleWork, Work>) kind.merge = merge<Work>;
  return kind;
}

}  // namespace cpp_kind
}  // namespace pipefill
