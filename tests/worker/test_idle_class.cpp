// What an idle worker takes from a busy thread on the same core, against a worker of the normal class measured in the
// same minute: next to nothing. This breaks when the worker gets a session, and with it a scheduling group, of its own.
#include <sched.h>
#include <unistd.h>

#include "fill_jobs/process_tree.hpp"
#include "worker_fixture.hpp"

namespace pipefill::testing {
namespace {

class IdleClass : public WorkerTest {
 protected:
  /// CPU time that a worker in an endless grant gets while this thread, on the same core, burns 300 ms of its own.
  Nanoseconds stolen(WorkerPriority priority, const std::string& name) {
    const std::string job = make_job(name, "counting", "{chunks: 100000000, chunk_us: 100}");
    Supervisor supervisor(settings(), make_null_log());
    supervisor.assign(job, "");
    bubbles(supervisor, [&] { return supervisor.job().done > 0; });
    if (priority == WorkerPriority::idle) {  // only now: on cores busy with other tests it would take long to get ready
      const sched_param none{};
      EXPECT_EQ(::sched_setscheduler(supervisor.worker_pid(), SCHED_IDLE, &none), 0);
    }
    ProcessFacts before, after;
    EXPECT_TRUE(read_process(supervisor.worker_pid(), before));
    supervisor.grant(kNoDeadline, Bytes{1 << 30});
    timespec start{}, time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do {
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    } while ((time.tv_sec - start.tv_sec) * 1'000'000'000LL + time.tv_nsec - start.tv_nsec < 300'000'000);
    EXPECT_TRUE(read_process(supervisor.worker_pid(), after));
    EXPECT_EQ(before.group, supervisor.worker_pid());
    EXPECT_EQ(::getsid(supervisor.worker_pid()), ::getsid(0));
    supervisor.stop();
    return after.cpu - before.cpu;
  }
};

TEST_F(IdleClass, IsThatOfEveryWorkerFromItsStart) {
  SupervisorSettings s = settings();
  s.priority = WorkerPriority::idle;
  Supervisor supervisor(s, make_null_log());
  supervisor.start();
  for (const Nanoseconds limit = now() + 30s; supervisor.worker_pid() == 0 && now() < limit;)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(::sched_getscheduler(supervisor.worker_pid()), SCHED_IDLE);
}

TEST_F(IdleClass, TakesNextToNothingFromABusyThread) {
  cpu_set_t old, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof old, &old), 0);
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &old)) {
      CPU_SET(core, &one);
      break;
    }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);  // the helper thread and the workers inherit it
  const Nanoseconds normal = stolen(WorkerPriority::normal, "normal");
  const Nanoseconds idle = stolen(WorkerPriority::idle, "idle");
  ::sched_setaffinity(0, sizeof old, &old);
  EXPECT_GT(normal, 50ms) << "a worker of the normal class takes its share";
  EXPECT_LT(idle * 10, normal);
}

}  // namespace
}  // namespace pipefill::testing
