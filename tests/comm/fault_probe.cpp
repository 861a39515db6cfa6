// A rank that trains nothing: messages round a ring, a liveness board and a watchdog, and one planned fault.
// rank_loss.py runs it under mpirun. Usage: comm_fault_probe FAULT; steps take 20 ms, the fault comes to rank 1 in
// step 10.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string_view>
#include <thread>

#include "base/error.hpp"
#include "comm/cluster.hpp"
#include "comm/liveness_board.hpp"
#include "comm/mpi_transport.hpp"
#include "comm/wait.hpp"
#include "comm/watchdog.hpp"

namespace pipefill {
namespace {

using namespace std::chrono_literals;

void ring_step(Transport& transport, Waiter& waiter, std::int64_t step) {
  const int size = transport.size(), mine = transport.rank().value;
  const RankId next{(mine + 1) % size}, previous{(mine + size - 1) % size};
  const Tag tag{Channel::activation, 0, {3}};
  std::vector<std::byte> out(1000), in(1000);
  Request receive = transport.receive(previous, tag, in);
  Request send = transport.send(next, tag, out);
  waiter.wait(transport, receive, {WaitKind::receive, previous, tag, step});
  waiter.wait(transport, send, {WaitKind::send, next, tag, step});
}

int run(std::string_view fault) {
  Cluster cluster;
  if (fault == "refused-by-all") throw DeckError("every rank sees this");
  const ProcessLayout layout{cluster.size(), 1};
  const bool victim = cluster.rank() == RankId{1};
  if (fault == "refused-by-one" && victim) throw DeckError("only rank 1 sees this");
  if (fault == "abort-while-inside-mpi") {
    std::thread([] {
      std::this_thread::sleep_for(300ms);
      end_all_ranks(static_cast<int>(ExitCode::lost_peer));
    }).detach();
    if (victim) std::this_thread::sleep_for(30s);  // so that the others' barrier never ends
    cluster.barrier();
  }

  const Log log = make_log(fmt::format("rank {}", cluster.rank().value), ConsoleInfo::drop, "");
  LivenessBoard board(cluster);
  MpiTransport transport;
  Waiter waiter(layout, cluster.rank(), {WaitMethod::sleep, 30s, nullptr}, &board);
  Watchdog watchdog(board, layout, log, [&](const Loss&) { transport.abort(static_cast<int>(ExitCode::lost_peer)); });
  watchdog.set_limit(2s);
  for (std::int64_t step = 1; step <= 20; ++step) {
    board.step(step);
    board.doing({ActivityKind::forward, 0, 3});
    std::this_thread::sleep_for(20ms);
    if (victim && step == 10) {
      std::this_thread::sleep_for(500ms);  // the others wait for it by now, also on a busy machine
      if (fault == "killed") raise(SIGKILL);
      if (fault == "crashed") raise(SIGSEGV);
      if (fault == "stopped") raise(SIGSTOP);
      if (fault == "endless-loop") std::this_thread::sleep_for(30s);
      if (fault == "slow-checkpoint") {
        board.doing({ActivityKind::checkpoint});
        std::this_thread::sleep_for(4s);
      }
    }
    if (fault == "all-stopped" && step == 10) raise(SIGSTOP);  // rank_loss.py sends CONT
    ring_step(transport, waiter, step);
  }
  board.finish();
  cluster.barrier();
  return 0;
}

}  // namespace
}  // namespace pipefill

int main(int argc, char** argv) {
  try {
    return pipefill::run(argc > 1 ? argv[1] : "");
  } catch (const pipefill::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    // After an error that all ranks shared MPI is finalized by now, and this merely exits.
    pipefill::end_all_ranks(static_cast<int>(error.code()));
  }
}
