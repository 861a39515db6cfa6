// The one thread of a process that calls HDF5. The library is not thread-safe as distributions build it, so whatever
// touches it (checkpoint, trace) hands a closure over to here; closures run one after another in the order posted.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

namespace pipefill {

class Hdf5Thread {
 public:
  Hdf5Thread();
  /// Runs what is still queued, then joins.
  ~Hdf5Thread();
  Hdf5Thread(const Hdf5Thread&) = delete;
  Hdf5Thread& operator=(const Hdf5Thread&) = delete;

  /// Queues `work` and returns at once; the future carries its result or its exception. Dropping the future is fine:
  /// it does not wait.
  template <class Work>
  auto post(Work work) -> std::future<std::invoke_result_t<Work&>> {
    using Result = std::invoke_result_t<Work&>;
    auto task = std::make_shared<std::packaged_task<Result()>>(std::move(work));
    std::future<Result> result = task->get_future();
    enqueue([task] { (*task)(); });
    return result;
  }

  /// Queues `work`, waits for it and returns its result or throws its exception. Called on the thread itself, it runs
  /// `work` right there.
  template <class Work>
  auto run(Work work) -> std::invoke_result_t<Work&> {
    if (std::this_thread::get_id() == thread_.get_id()) return work();
    return post(std::move(work)).get();
  }

 private:
  void enqueue(std::function<void()> work);
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::thread thread_;  ///< last: starts when the rest is ready
};

}  // namespace pipefill
