// The queue of the HDF5 thread.
#include "storage/hdf5_thread.hpp"

namespace pipefill {

Hdf5Thread::Hdf5Thread() : thread_([this] { serve(); }) {}

Hdf5Thread::~Hdf5Thread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Hdf5Thread::enqueue(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void Hdf5Thread::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();          // a packaged_task: what it throws goes to its future
    work = nullptr;  // what it holds ends here, outside the lock
    lock.lock();
  }
}

}  // namespace pipefill
