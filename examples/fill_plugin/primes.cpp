// A fill job that counts the primes below 1,000,000, ten thousand numbers a chunk: a whole kind in 30 lines.
#include <pipefill/fill_job.h>

#include <cstdint>
#include <fstream>
#include <string>

struct pipefill_fill_job {
  std::string directory;
  int64_t* counts;  // counts[i]: primes in chunk i; in the state, so a killed run loses only the chunk in flight
};
using Job = pipefill_fill_job;
using Error = pipefill_fill_error;

static bool is_prime(int64_t n) {
  for (int64_t d = 2; d * d <= n; ++d)
    if (n % d == 0) return false;
  return n > 1;
}
static int32_t create(const pipefill_fill_setup* setup, Job** job, Error*) noexcept {
  *job = new Job{setup->directory, nullptr};
  return PIPEFILL_FILL_OK;
}
static int32_t configurations(Job*, pipefill_fill_configuration* out, int32_t room, int32_t* count, Error*) noexcept {
  if (room > 0) *out = {sizeof *out, "only", 100, 100 * sizeof(int64_t), 0, 1'000'000};
  return *count = 1, PIPEFILL_FILL_OK;
}
static int32_t plan(Job*, int32_t, int64_t, int64_t count, pipefill_fill_chunk* out, Error*) noexcept {
  for (int64_t i = 0; i < count; ++i) out[i] = {sizeof *out, 0, 2e6, 0, 0, 10'000};
  return PIPEFILL_FILL_OK;
}
static int32_t restore(Job* job, int32_t, void* state, int64_t, Error*) noexcept {
  return job->counts = static_cast<int64_t*>(state), PIPEFILL_FILL_OK;
}
static int32_t run(Job* job, int64_t chunk, const pipefill_fill_grant*, Error*) noexcept {
  int64_t primes = 0;
  for (int64_t n = chunk * 10'000; n < (chunk + 1) * 10'000; ++n) primes += is_prime(n);
  return job->counts[chunk] = primes, PIPEFILL_FILL_OK;
}
static int32_t save(Job* job, int64_t done, Error*) noexcept {
  int64_t sum = 0;
  for (int64_t i = 0; i < done; ++i) sum += job->counts[i];
  const std::string path = job->directory + "/primes.txt";
  std::ofstream(path + ".new") << sum << '\n';
  return std::rename((path + ".new").c_str(), path.c_str()) == 0 ? PIPEFILL_FILL_OK : PIPEFILL_FILL_FAILED;
}
static void destroy(Job* job) noexcept { delete job; }

extern "C" const pipefill_fill_kind* pipefill_fill_kind_v1() noexcept {
  static const pipefill_fill_kind kind{
      PIPEFILL_FILL_JOB_ABI, sizeof kind, "primes", create, configurations, plan, restore, run, save, destroy, nullptr};
  return &kind;
}
