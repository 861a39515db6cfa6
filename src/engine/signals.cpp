#include "engine/signals.hpp"

#include <signal.h>

#include <atomic>
#include <initializer_list>

namespace pipefill {
namespace {

std::atomic<int> g_checkpoint{0};
std::atomic<int> g_stop{0};
std::atomic<int> g_terminate{0};
std::atomic<bool> g_end_at_once{false};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch lock-free state");

void count_signal(int signal) {
  if (signal == SIGUSR1) g_checkpoint.fetch_add(1, std::memory_order_relaxed);
  if (signal == SIGUSR2) g_stop.fetch_add(1, std::memory_order_relaxed);
  if ((signal == SIGTERM || signal == SIGINT) && g_terminate.fetch_add(1, std::memory_order_relaxed) > 0)
    g_end_at_once.store(true, std::memory_order_relaxed);
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = count_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM, SIGINT}) sigaction(signal, &action, nullptr);
  // A write beyond the limit on the size of files, or to a reader that has left (`| head`), shall fail like one to a
  // full disk, not end the process.
  action.sa_handler = SIG_IGN;
  for (const int signal : {SIGXFSZ, SIGPIPE}) sigaction(signal, &action, nullptr);
}

SignalCounts signals_seen() {
  return {g_checkpoint.load(std::memory_order_relaxed), g_stop.load(std::memory_order_relaxed),
          g_terminate.load(std::memory_order_relaxed)};
}

const std::atomic<bool>& end_at_once() { return g_end_at_once; }

void clear_checkpoint_signals() { g_checkpoint.store(0, std::memory_order_relaxed); }

}  // namespace pipefill
