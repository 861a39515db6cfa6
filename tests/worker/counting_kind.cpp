#include "counting_kind.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "fill_jobs/kind.hpp"

namespace pipefill::testing {
namespace {

std::uint64_t link(std::uint64_t before, std::int64_t chunk) {
  std::uint64_t x = before ^ (static_cast<std::uint64_t>(chunk) * 0x9e3779b97f4a7c15ULL);
  x ^= x >> 31;
  return x * 0xbf58476d1ce4e5b9ULL + 1;
}

struct CountingJob {
  std::map<std::string, std::string> with;
  std::string directory;
  std::uint64_t* state = nullptr;  ///< two links: chunk i reads one and writes the other
  std::int64_t number(const char* name, std::int64_t otherwise) const {
    const auto found = with.find(name);
    return found == with.end() ? otherwise : std::stoll(found->second);
  }
};

void burn(Nanoseconds time) {
  for (const Nanoseconds end = now() + time; now() < end;) {
  }
}

Nanoseconds thread_cpu_time() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + Nanoseconds(used.tv_nsec);
}

int32_t misbehave(const CountingJob& job, const std::string& fault, pipefill_fill_error* error) {
  if (job.number("fault_once", 0) != 0) {
    const std::string mark = job.directory + "/faulted";
    if (std::ifstream(mark).good()) return PIPEFILL_FILL_OK;
    std::ofstream(mark) << "x";
  }
  if (fault == "segv") {
    signal(SIGSEGV, SIG_DFL);  // not to a sanitizer
    const auto* of_nobody =
        static_cast<volatile int*>(::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (*of_nobody != 0) ::_exit(1);
  }
  if (fault == "abort") std::abort();
  if (fault == "exit") ::_exit(0);
  if (fault == "kill") ::kill(::getpid(), SIGKILL);
  if (fault == "throw") throw 1;
  if (fault == "hang")
    for (;;) burn(Nanoseconds{1'000'000});
  if (fault == "slow")  // 60 ms of CPU time, however long it is stopped meanwhile
    for (const Nanoseconds end = thread_cpu_time() + Nanoseconds{60'000'000}; thread_cpu_time() < end;) {
    }
  if (fault == "flood")
    for (const std::string line(65536, 'x');;) std::fwrite(line.data(), 1, line.size(), stdout);
  if (fault == "disk")
    for (int i = 0;; ++i) {
      std::ofstream file(job.directory + "/big" + std::to_string(i));
      const std::vector<char> block(1 << 20, 'x');
      for (int k = 0; k < 4; ++k) file.write(block.data(), static_cast<std::streamsize>(block.size()));
      file.flush();
      burn(Nanoseconds{5'000'000});
    }
  if (fault == "fork")
    for (int i = 0;; ++i) {
      const pid_t child = i < 200 ? ::fork() : 1;
      if (child == 0) {
        ::pause();
        ::_exit(0);
      }
      if (child < 0) {
        std::snprintf(error->text, sizeof error->text, "cannot fork");
        return PIPEFILL_FILL_FAILED;
      }
      burn(Nanoseconds{1'000'000});
    }
  if (fault == "leak")
    for (;;) {
      auto* block = static_cast<char*>(std::malloc(4 << 20));
      if (block == nullptr) {
        std::snprintf(error->text, sizeof error->text, "no memory left");
        return PIPEFILL_FILL_OUT_OF_MEMORY;
      }
      std::memset(block, 1, 4 << 20);
    }
  if (fault == "fail" || fault == "invalid") {
    std::snprintf(error->text, sizeof error->text, "told to");
    return fault == "fail" ? PIPEFILL_FILL_FAILED : PIPEFILL_FILL_INVALID;
  }
  return PIPEFILL_FILL_OK;
}

CountingJob* of(pipefill_fill_job* job) { return reinterpret_cast<CountingJob*>(job); }

constexpr pipefill_fill_kind kCounting{
    .abi = PIPEFILL_FILL_JOB_ABI,
    .struct_bytes = sizeof(pipefill_fill_kind),
    .name = "counting",
    .create = [](const pipefill_fill_setup* setup, pipefill_fill_job** job,
                 pipefill_fill_error* error) noexcept -> int32_t {
      auto* made = new CountingJob;
      made->directory = setup->directory;
      for (std::uint64_t i = 0; i < setup->parameter_count; ++i)
        made->with[setup->parameters[i].name] = setup->parameters[i].value;
      if (made->with["fault"] == "create_hang")
        for (;;) burn(Nanoseconds{1'000'000});
      if (made->with["fault"] == "create") {
        std::snprintf(error->text, sizeof error->text, "a bad parameter");
        delete made;
        return PIPEFILL_FILL_INVALID;
      }
      *job = reinterpret_cast<pipefill_fill_job*>(made);
      return PIPEFILL_FILL_OK;
    },
    .configurations = [](pipefill_fill_job* job, pipefill_fill_configuration* out, int32_t room, int32_t* count,
                         pipefill_fill_error*) noexcept -> int32_t {
      *count = 2;
      for (int i = 0; i < 2 && i < room; ++i) {
        out[i] = {.struct_bytes = sizeof *out,
                  .name = {},
                  .chunks = of(job)->number("chunks", 10) * (i + 1),
                  .state_bytes = 16,
                  .memory_bytes = (2 - i) << 20,
                  .samples = 100};
        std::snprintf(out[i].name, sizeof out[i].name, "batch=%d", 2 - i);
      }
      return PIPEFILL_FILL_OK;
    },
    .plan = [](pipefill_fill_job* job, int32_t, int64_t first, int64_t count, pipefill_fill_chunk* out,
               pipefill_fill_error*) noexcept -> int32_t {
      for (int64_t i = 0; i < count; ++i)
        out[i] = {.struct_bytes = sizeof *out,
                  .cost_class = (first + i) % 5 == 4 ? 1 : 0,
                  .flops = static_cast<double>(of(job)->number("flops", 1000)),
                  .bytes = 0,
                  .memory_bytes = 1 << 20,
                  .samples = 100.0 / static_cast<double>(of(job)->number("chunks", 10))};
      return PIPEFILL_FILL_OK;
    },
    .restore = [](pipefill_fill_job* job, int32_t, void* state, int64_t, pipefill_fill_error*) noexcept -> int32_t {
      if (of(job)->with["fault"] == "restore_hang")
        for (;;) ::pause();
      of(job)->state = static_cast<std::uint64_t*>(state);
      return PIPEFILL_FILL_OK;
    },
    .run = [](pipefill_fill_job* raw, int64_t chunk, const pipefill_fill_grant*,
              pipefill_fill_error* error) noexcept -> int32_t {
      CountingJob& job = *of(raw);
      if (job.number("quiet", 0) != 0) {  // a bench wants no file in the chunk
        burn(Nanoseconds{job.number("chunk_us", 0) * 1000});
        job.state[(chunk + 1) % 2] = link(job.state[chunk % 2], chunk);
        return PIPEFILL_FILL_OK;
      }
      const int runs = ::open((job.directory + "/runs").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
      (void)!::write(runs, "x", 1);
      ::close(runs);
      if (job.with.contains("fault") && chunk == job.number("fault_at", 0)) {
        const int32_t result = misbehave(job, job.with["fault"], error);
        if (result != PIPEFILL_FILL_OK) return result;
      }
      const bool longer =
          (job.with["fault"] == "uneven" && chunk % 3 == 2) || (job.with["fault"] == "slow_start" && chunk < 15);
      burn(Nanoseconds{job.number("chunk_us", 0) * (longer ? 100'000 : 1000)});
      job.state[(chunk + 1) % 2] = link(job.state[chunk % 2], chunk);
      return PIPEFILL_FILL_OK;
    },
    .save = [](pipefill_fill_job* raw, int64_t done, pipefill_fill_error*) noexcept -> int32_t {
      const CountingJob& job = *of(raw);
      const std::string path = job.directory + "/result";
      std::ofstream(path + ".tmp") << job.state[done % 2];
      ::rename((path + ".tmp").c_str(), path.c_str());
      return PIPEFILL_FILL_OK;
    },
    .destroy = [](pipefill_fill_job* job) noexcept { delete of(job); },
    .merge = nullptr,
};

}  // namespace

const pipefill_fill_kind* counting_kind() { return &kCounting; }

std::uint64_t expected_result(std::int64_t chunks) {
  std::uint64_t value = 0;
  for (std::int64_t i = 0; i < chunks; ++i) value = link(value, i);
  return value;
}

}  // namespace pipefill::testing
