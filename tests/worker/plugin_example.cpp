// A user's plug-in for tests: three chunks that add their numbers, and their sum in DIRECTORY/sum.
#include <pipefill/fill_job.h>

#include <cstdio>
#include <cstring>
#include <string>

struct pipefill_fill_job {
  std::string directory;
  int64_t* sums;  // sums[i]: of the chunks before i
};

namespace {

int32_t create(const pipefill_fill_setup* setup, pipefill_fill_job** job, pipefill_fill_error* error) noexcept {
  for (uint64_t i = 0; i < setup->parameter_count; ++i)
    if (std::strcmp(setup->parameters[i].name, "library") == 0) {
      std::snprintf(error->text, sizeof error->text, "the host's own parameter came through");
      return PIPEFILL_FILL_INVALID;
    }
  *job = new pipefill_fill_job{setup->directory, nullptr};
  return PIPEFILL_FILL_OK;
}

int32_t configurations(pipefill_fill_job*, pipefill_fill_configuration* out, int32_t room, int32_t* count,
                       pipefill_fill_error*) noexcept {
  *count = 1;
  if (room > 0) *out = {sizeof *out, "only", 3, 4 * sizeof(int64_t), 0, 3};
  return PIPEFILL_FILL_OK;
}

int32_t plan(pipefill_fill_job*, int32_t, int64_t, int64_t count, pipefill_fill_chunk* out,
             pipefill_fill_error*) noexcept {
  for (int64_t i = 0; i < count; ++i) out[i] = {sizeof *out, 0, 1, 8, 0, 1};
  return PIPEFILL_FILL_OK;
}

int32_t restore(pipefill_fill_job* job, int32_t, void* state, int64_t, pipefill_fill_error*) noexcept {
  job->sums = static_cast<int64_t*>(state);
  return PIPEFILL_FILL_OK;
}

int32_t run(pipefill_fill_job* job, int64_t chunk, const pipefill_fill_grant*, pipefill_fill_error*) noexcept {
  job->sums[chunk + 1] = job->sums[chunk] + 10 * (chunk + 1);
  return PIPEFILL_FILL_OK;
}

int32_t save(pipefill_fill_job* job, int64_t done, pipefill_fill_error*) noexcept {
  const std::string path = job->directory + "/sum";
  if (std::FILE* file = std::fopen((path + ".tmp").c_str(), "w")) {
    std::fprintf(file, "%lld", static_cast<long long>(job->sums[done]));
    std::fclose(file);
  }
  return std::rename((path + ".tmp").c_str(), path.c_str()) == 0 ? PIPEFILL_FILL_OK : PIPEFILL_FILL_FAILED;
}

void destroy(pipefill_fill_job* job) noexcept { delete job; }

constexpr pipefill_fill_kind kind{PIPEFILL_FILL_JOB_ABI,
                                  sizeof(pipefill_fill_kind),
                                  "example",
                                  create,
                                  configurations,
                                  plan,
                                  restore,
                                  run,
                                  save,
                                  destroy,
                                  nullptr};

}  // namespace

extern "C" const pipefill_fill_kind* pipefill_fill_kind_v1(void) noexcept { return &kind; }
