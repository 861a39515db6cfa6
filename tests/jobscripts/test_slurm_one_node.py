"""jobscripts/slurm_one_node.sh under a real Slurm of one node: a run that finishes; one that is longer than its time
limit, is warned, saves, goes back into the queue and goes on; and `pipefill halt`, which is not put back."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import runs

SLURM = str(runs.ROOT / "tests/support/slurm_one_node.sh")


def setUpModule():
    global state, environment
    state = tempfile.TemporaryDirectory(prefix="pipefill-slurm-")
    environment = os.environ | {"SLURM_CONF": state.name + "/slurm.conf", "PIPEFILL_HOME": str(runs.ROOT),
                                "PIPEFILL": runs.PIPEFILL}
    unittest.addModuleCleanup(state.cleanup)
    unittest.addModuleCleanup(subprocess.run, [SLURM, "down", state.name], check=True, timeout=60)
    subprocess.run([SLURM, "up", state.name], check=True, timeout=90, stdout=subprocess.DEVNULL)


class SlurmOneNode(runs.Runs):
    def slurm(self, *command):
        return subprocess.run(command, cwd=self.directory, env=environment, check=True, capture_output=True, text=True,
                              timeout=60).stdout

    def submit(self, deck, *options):
        text = self.slurm("sbatch", "--parsable", *options, str(runs.ROOT / "jobscripts/slurm_one_node.sh"), deck)
        job = text.strip()
        self.addCleanup(subprocess.run, ["scancel", job], env=environment, timeout=60)
        return job

    def job(self, job, key):
        """A field of the job. Asked again where the controller does not answer, as has been seen while it requeued a job
        (scontrol died of SIGPIPE): a busy controller is no fault of the job script."""
        for _ in range(30):
            shown = subprocess.run(["scontrol", "show", "job", job], env=environment, capture_output=True, text=True,
                                   timeout=60)
            if shown.returncode == 0:
                return re.search(rf"\b{key}=(\S+)", shown.stdout).group(1)
            time.sleep(1)
        controller = pathlib.Path(state.name, "slurmctld.log").read_text()
        self.fail(f"scontrol ended with {shown.returncode}: {shown.stderr}\nslurmctld: {controller[-4000:]}")

    def log(self, job):
        path = self.directory / f"slurm-{job}.log"
        return path.read_text() if path.exists() else "no log"

    def wait_for_state(self, job, states, seconds):
        self.wait_until(f"job in {states}", lambda: self.job(job, "JobState") in states, seconds, lambda: self.log(job))

    def test_a_run_that_finishes(self):
        job = self.submit(self.write_deck("short", 3))
        self.wait_for_state(job, {"COMPLETED", "FAILED"}, 60)
        self.assertEqual(self.job(job, "ExitCode"), "0:0", self.log(job))
        self.assertEqual(self.status("short")["step"], 3)
        self.assertIn("finished at step 3, exit code 0", self.log(job))

    def test_a_run_longer_than_its_limit(self):
        # Slurm warns up to a minute early: here it may do so at any moment of the first half minute.
        job = self.submit(self.write_deck("long", runs.ENDLESS), "--time=2", "--signal=B:USR2@90")
        self.wait_until("requeued", lambda: self.job(job, "Restarts") == "1", 240, lambda: self.log(job))
        first = self.status("long")
        if first:  # unless the warning came before the run could start
            self.assertEqual((first["state"], first["exit_code"]), ("stopped", 75))
            self.assertIn("signal USR2", first["reason"])  # mpirun passes it on to all ranks; one is the first to see it
            self.assertEqual(first["last_checkpoint"], first["step"])
            self.assertIn(f"stopped early at step {first['step']}; requeued", self.log(job))

        goal = first.get("step", 0) + 10
        self.wait_until("going on", lambda: self.job(job, "JobState") == "RUNNING" and
                        self.status("long").get("state") == "running" and
                        self.status("long").get("step", 0) >= goal, 240, lambda: self.log(job))
        self.assertEqual(self.status("long")["attempt"], 2 if first else 1)

        self.slurm(runs.PIPEFILL, "halt", "runs/long")
        self.wait_for_state(job, {"FAILED"}, 60)
        self.assertEqual(self.job(job, "ExitCode"), "75:0", self.log(job))
        self.assertEqual(self.status("long")["reason"], "halt")
        self.assertIn("not requeued", self.log(job))


if __name__ == "__main__":
    missing = [p for p in ("slurmctld", "slurmd", "munged") if not shutil.which(p, path="/usr/sbin")]
    if missing or os.geteuid() != 0:
        print(f"skipped: a Slurm of one's own needs root and {', '.join(missing) or 'nothing else'}")
        sys.exit(77)
    unittest.main()
