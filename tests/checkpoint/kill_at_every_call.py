"""Kills a save at each of its system calls (strace injection) and looks at what is left: the newest whole checkpoint is
the new one or the one before, its content is right, and nothing needs a hand. With --all also the first save, a save that
replaces a step, and calls that fail with ENOSPC, EIO or EDQUOT instead of killing. Needs root and strace, else skipped (77)."""
import collections, os, re, shutil, subprocess, sys, tempfile

CALLS = ["openat", "write", "pwrite64", "pread64", "fsync", "close", "mkdir", "rename", "renameat2", "unlink", "unlinkat",
         "ftruncate", "fstat", "newfstatat", "getdents64", "sync_file_range", "statfs", "lseek", "read", "rmdir"]
FAILING = {"openat": "ENOSPC", "write": "ENOSPC", "pwrite64": "ENOSPC", "fsync": "EIO", "mkdir": "ENOSPC",
           "rename": "EIO", "ftruncate": "EIO", "unlinkat": "EIO"}
QUOTA = ("openat", "write", "pwrite64", "fsync", "mkdir", "rename")


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def save(program, directory, step, attempt, injection=None, log=None):
    """One save under strace, attached once the program is ready. Returns (output, exit status)."""
    child = subprocess.Popen([program, directory, "save", str(step), str(attempt)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    command = ["strace", "-f", "-p", str(child.pid), "-e", "trace=" + ",".join(CALLS), "-o", log or "/dev/null"]
    if injection:
        command += ["-e", "inject=" + injection]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    threads = len(os.listdir("/proc/%d/task" % child.pid))
    attached = 0
    while attached < threads:
        line = tracer.stderr.readline()
        if not line:
            child.kill()
            child.wait()
            skip("strace cannot attach here")
        found = re.search(r"attached(?: with (\d+) threads)?", line)
        if found:
            attached += int(found.group(1) or 1)
    output, _ = child.communicate("go\n", timeout=60)
    tracer.wait(timeout=60)
    tracer.stderr.close()
    return output, child.returncode


def newest(program, directory):
    """(step, attempt) of the newest whole checkpoint, () for none; None when something is wrong."""
    result = subprocess.run([program, directory, "check"], capture_output=True, text=True, timeout=60)
    text = result.stdout.strip()
    if result.returncode != 0:
        print("  check:", result.returncode, text, result.stderr)
        return None
    return () if text == "none" else tuple(int(word) for word in text.split())


def count_calls(program, base, work, step, attempt):
    """How often the save's busiest thread makes each call."""
    shutil.copytree(base, work + "/run")
    output, _ = save(program, work + "/run", step, attempt, log=work + "/log")
    assert output == "saved\n", output
    per_thread = collections.Counter()
    for line in open(work + "/log"):
        match = re.match(r"(\d+)\s+(\w+)\(", line)
        if match:
            per_thread[match.groups()] += 1
    shutil.rmtree(work + "/run")
    totals = collections.Counter()
    for (_, call), count in per_thread.items():
        totals[call] = max(totals[call], count)
    return totals


def situation(program, work, name, base_steps, step, attempt, actions):
    base = work + "/base"
    os.mkdir(base)
    for i, before in enumerate(base_steps):
        assert save(program, base, before, 1)[0] == "saved\n"
    before = newest(program, base)
    totals = count_calls(program, base, work, step, attempt)
    points = bad = committed = 0
    for action in actions:
        for call, count in sorted(totals.items()):
            if (action == "fail" and call not in FAILING) or (action == "quota" and call not in QUOTA):
                continue
            what = {"kill": "signal=KILL", "fail": "error=" + FAILING.get(call, ""), "quota": "error=EDQUOT"}[action]
            for nth in range(1, count + 1):
                run = work + "/run"
                shutil.copytree(base, run)
                output, status = save(program, run, step, attempt, "%s:%s:when=%d" % (call, what, nth))
                after = newest(program, run)
                points += 1
                new = (step, attempt)
                right = after in (before, new) and (after == new or output != "saved\n")
                right = right and status == (-9 if action == "kill" else 0)
                leftovers = [n for n in os.listdir(run) if n.startswith(".")]
                again = save(program, run, step, attempt + 1)[0] == "saved\n"
                again = again and newest(program, run) == (step, attempt + 1)
                committed += after == new
                if not right or leftovers or not again:
                    bad += 1
                    print("BAD: %s, %s at %s %d: newest %s, status %s, output %r, left %s, saves again: %s" %
                          (name, what, call, nth, after, status, output, leftovers, again))
                shutil.rmtree(run)
    print("%s: %d points, %d of them after the commit, %d bad" % (name, points, committed, bad), flush=True)
    shutil.rmtree(base)
    return points, bad


def main():
    program, everything = sys.argv[1], "--all" in sys.argv
    if os.geteuid() != 0:
        skip("not root")
    if not shutil.which("strace"):
        skip("no strace")
    with tempfile.TemporaryDirectory(prefix="pipefill-kill-") as work:
        results = [situation(program, work, "third save, with pruning", [1, 2], 3, 1, ["kill"])]
        if everything:
            results.append(situation(program, work, "third save, failing calls", [1, 2], 3, 1, ["fail", "quota"]))
            results.append(situation(program, work, "first save", [], 1, 1, ["kill", "fail", "quota"]))
            results.append(situation(program, work, "second save", [1], 2, 1, ["kill"]))
            results.append(situation(program, work, "a step saved again", [1, 2], 2, 2, ["kill", "fail", "quota"]))
    points, bad = (sum(column) for column in zip(*results))
    print("%d points, %d bad" % (points, bad))
    wanted = 500 if everything else 100
    if points < wanted:
        print("expected at least", wanted)
    sys.exit(0 if bad == 0 and points >= wanted else 1)


main()
