"""jobscripts/workstation.sh: it passes the run's exit code on, and a signal to it ends in a checkpoint from which the
next start goes on."""

import os
import shutil
import signal
import subprocess
import unittest

import runs


class Workstation(runs.Runs):
    def start(self, *arguments):
        script = str(runs.ROOT / "jobscripts/workstation.sh")
        return subprocess.Popen([script, *arguments], cwd=self.directory, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env=os.environ | {"PIPEFILL": runs.PIPEFILL})

    def finish(self, process, expected):
        output, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, expected, output)
        return output

    def test_a_run_that_finishes(self):
        output = self.finish(self.start(self.write_deck("short", 3), "2"), 0)
        self.assertIn("runs/short: finished at step 3, exit code 0", output)

    def test_the_exit_code_of_a_bad_deck(self):
        output = self.finish(self.start(self.write_deck("short", 3), "2", "model.layerss=3"), 78)
        self.assertEqual(output.count("unknown key"), 1, output)

    def test_a_run_that_does_not_start(self):
        output = self.finish(self.start(self.write_deck("short", 3), "2", "parallel.stages=3"), 78)
        self.assertIn("runs/short: did not start, exit code 78", output)

    def test_the_run_directory_is_the_decks_or_an_overrides(self):
        deck = self.write_deck("placed", 3)
        text = (self.directory / deck).read_text().replace("run:", "run:\n  directory: my runs/of the deck")
        (self.directory / deck).write_text(text)
        self.assertIn("my runs/of the deck: finished at step 3", self.finish(self.start(deck, "2"), 0))
        self.assertIn("elsewhere: finished at step 3",
                      self.finish(self.start(deck, "2", "run.directory=elsewhere"), 0))
        self.assertEqual(sorted(path.name for path in self.directory.iterdir()),
                         ["elsewhere", "my runs", "placed.yaml"])

    def test_an_installed_copy_finds_its_program(self):
        scripts, program = self.directory / "share/pipefill/jobscripts", self.directory / "bin/pipefill"
        shutil.copytree(runs.ROOT / "jobscripts", scripts)
        program.parent.mkdir()
        shutil.copy("/bin/true", program)
        environment = {key: value for key, value in os.environ.items() if key != "PIPEFILL"}
        found = subprocess.run(["bash", "-c", f". {scripts}/run_state.sh && find_pipefill"], env=environment, check=True,
                               capture_output=True, text=True).stdout.strip()
        self.assertTrue(os.path.samefile(found, program), found)

    def test_stopping_and_going_on(self):
        deck = self.write_deck("long", runs.ENDLESS)
        for stop in (signal.SIGTERM, signal.SIGINT):
            before = self.status("long").get("step", 0)
            process = self.start(deck, "2")
            self.addCleanup(process.kill)
            self.wait_until("ten steps on", lambda: self.status("long").get("step", 0) >= before + 10, 60)
            process.send_signal(stop)
            output = self.finish(process, 75)
            status = self.status("long")
            self.assertEqual(status["state"], "stopped", output)
            self.assertIn("signal USR2", status["reason"])  # mpirun passes it on to all ranks; one is the first to see it
            self.assertEqual(status["last_checkpoint"], status["step"])
        self.assertEqual(status["attempt"], 2)

    def test_a_signal_during_the_start_is_not_lost(self):
        process = self.start(self.write_deck("early", runs.ENDLESS), "2")
        self.addCleanup(process.kill)
        # Open MPI 5's mpirun turns into prterun.
        self.wait_until("mpirun", lambda: subprocess.run(["pgrep", "-P", str(process.pid), "-x", "mpirun|prterun"],
                                                         stdout=subprocess.DEVNULL).returncode == 0, 20)
        process.send_signal(signal.SIGTERM)
        self.finish(process, 75)
        self.assertEqual(self.status("early")["state"], "stopped")


if __name__ == "__main__":
    unittest.main()
