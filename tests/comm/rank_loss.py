"""Ranks that die, hang or fail under a real mpirun (FAULTS: rank dies, hang). Usage: rank_loss.py MPIRUN PROBE"""

import os
import signal
import subprocess
import sys
import time
import unittest

MPIRUN, PROBE = sys.argv[1:3]


def children(pid):
    """Pids below `pid`, by /proc."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append((int(entry), fields[0]))
    return found


def start(fault, ranks=3):
    return subprocess.Popen([MPIRUN, "--timeout", "60", "-n", str(ranks), PROBE, fault], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def run(fault, ranks=3):
    began = time.monotonic()
    process = start(fault, ranks)
    output = process.communicate()[0]
    return process.returncode, output, time.monotonic() - began


class RankLoss(unittest.TestCase):
    def names_rank_1(self, output, verb):
        lines = [line for line in output.splitlines() if "rank 1 (stage 1), pid" in line and verb in line]
        self.assertTrue(lines, output)
        for line in lines:
            self.assertIn("step 10, forward of microbatch 3 in chunk 0", line)
        waiting = "waiting for the activation of microbatch 3 for chunk 0 from rank 1 (stage 1)"
        self.assertTrue(any(waiting in line and "rank 2 (stage 2)" in line for line in lines), output)

    def test_a_killed_rank_is_named_before_mpirun_ends_the_job(self):
        code, output, took = run("killed")
        self.assertIn(code, (76, 137), output)
        self.names_rank_1(output, "died")
        self.assertLess(took, 5 + 3)

    def test_a_crashed_rank_is_named(self):
        code, output, _ = run("crashed")
        self.assertIn(code, (76, 139), output)
        self.names_rank_1(output, "died")

    def test_a_stopped_rank_is_named(self):
        code, output, _ = run("stopped")
        self.assertEqual(code, 76, output)
        self.names_rank_1(output, "hung (its process is stopped)")

    def test_a_rank_in_an_endless_loop_is_named(self):
        code, output, _ = run("endless-loop")
        self.assertEqual(code, 76, output)
        self.names_rank_1(output, "hung;")

    def test_a_slow_checkpoint_is_no_hang(self):
        code, output, _ = run("slow-checkpoint")
        self.assertEqual(code, 0, output)

    def test_a_job_that_was_stopped_as_a_whole_goes_on(self):
        process = start("all-stopped")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            ranks = children(process.pid)
            if len(ranks) == 3 and all(state == "T" for _, state in ranks):
                break
            time.sleep(0.05)
        else:
            self.fail("the ranks did not stop")
        time.sleep(4)  # twice the limit
        for pid, _ in ranks:
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.3)
        output = process.communicate()[0]
        self.assertEqual(process.returncode, 0, output)

    def test_an_undisturbed_run_ends_quietly(self):
        code, output, _ = run("none")
        self.assertEqual((code, output), (0, ""))

    def test_an_error_of_all_ranks_ends_without_an_abort(self):
        code, output, _ = run("refused-by-all")
        self.assertEqual(code, 78, output)
        self.assertGreaterEqual(output.count("every rank sees this"), 1)  # mpirun may end a rank before its text is out
        self.assertNotIn("MPI_ABORT", output)

    def test_an_error_of_one_rank_leaves_none_waiting(self):
        code, output, took = run("refused-by-one")
        self.assertEqual(code, 78, output)
        self.assertLess(took, 10)

    def test_abort_works_while_the_main_thread_is_inside_mpi(self):
        code, output, took = run("abort-while-inside-mpi")
        self.assertEqual(code, 76, output)
        self.assertLess(took, 10)


unittest.main(argv=sys.argv[:1], verbosity=2)
