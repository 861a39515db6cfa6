"""Stopping and starting again: signals, a time limit, halt, status, --resume, a run directory in use."""

import json
import os
import signal
import time

from harness import CANNOT_CREATE, FINISHED, LONG_RUN, MISSING, STOPPED, USAGE, RunTest, call, rank_pids


class Signals(RunTest):
    def stopped(self, job, output_code):
        """What must hold after a stop that saved: 75, the checkpoint is of the last step, it can be resumed."""
        code, output = output_code
        self.assertEqual(code, STOPPED, output)
        status = job.run.status()
        self.assertEqual((status["state"], status["exit_code"]), ("stopped", STOPPED), output)
        last = job.run.lines()[-1]["step"]
        self.assertEqual((status["step"], status["last_checkpoint"]), (last, last))
        self.assertEqual(job.run.manifest(last)["step"], last)  # one manifest of all ranks' shards: they agreed
        self.assertIn(f"stopped after step {last} of", output)
        return last

    def test_usr1_saves_and_goes_on_usr2_to_one_rank_saves_and_stops(self):
        run = self.new_run()
        job = self.start(run, *LONG_RUN)
        job.until_step(3)
        os.kill(job.pid_of(1), signal.SIGUSR1)
        job.until(run.checkpoints, "a checkpoint after USR1")
        job.until_step(run.checkpoints()[0] + 3)
        self.assertEqual(len(run.checkpoints()), 1)
        os.kill(job.pid_of(1), signal.SIGUSR2)
        last = self.stopped(job, job.end())
        self.assertEqual(run.checkpoints()[-1], last)
        self.assertIn("another rank", run.status()["reason"])

        job = self.start(run, *LONG_RUN)
        job.until_step(last + 3, attempt=2)
        os.kill(job.process.pid, signal.SIGUSR2)  # mpirun passes it on
        second = self.stopped(job, job.end())
        self.assertIn("USR2", run.status()["reason"])
        self.assertEqual([line["step"] for line in run.lines()], list(range(1, second + 1)))
        straight = self.new_run("straight")
        job = self.start(straight, *LONG_RUN, f"checkpoint.every={second}", ranks=1)
        job.until(lambda: second in straight.checkpoints(), f"checkpoint {second}", timeout=90)
        job.kill()
        self.assertEqual(run.hashes(second), straight.hashes(second))
        losses = straight.losses()
        self.assertEqual(run.losses(), {step: losses[step] for step in run.losses()})

    def test_a_long_validation_is_broken_off(self):
        run = self.new_run()
        job = self.start(run, *LONG_RUN, "data.validation_tokens=1000000000", "data.validation_every=3")
        job.until_step(3)
        time.sleep(0.5)
        os.kill(job.pid_of(1), signal.SIGUSR2)
        self.assertEqual(self.stopped(job, job.end()), 3)
        self.assertIn("its validation was broken off", run.log())

    def test_a_signal_during_a_checkpoint(self):
        run = self.new_run()
        job = self.start(run, *LONG_RUN, "checkpoint.every=1")  # most of the time is that of checkpoints
        job.until_step(2)
        os.kill(job.pid_of(0), signal.SIGUSR1)
        job.until_step(run.lines()[-1]["step"] + 2)
        os.kill(job.pid_of(1), signal.SIGUSR2)
        self.stopped(job, job.end())

    def test_term_to_one_rank_stops_with_a_checkpoint(self):
        for name in ("TERM", "INT"):
            run = self.new_run(name)
            job = self.start(run, *LONG_RUN)
            job.until_step(3)
            os.kill(job.pid_of(0), getattr(signal, f"SIG{name}"))
            code, output = job.end()
            self.assertEqual(code, STOPPED, output)
            self.assertEqual((run.status()["state"], run.status()["reason"]), ("stopped", "signal TERM or INT"))
            if run.checkpoints():  # saved, where the disk is fast enough for the grace
                self.assertEqual(run.checkpoints(), [run.status()["step"]])
            else:
                self.assertIn("is not saved", output)

    def test_a_signal_before_the_first_step_ends_the_run_there(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
            run = self.new_run(number.name)
            # Weights that take seconds to draw, so that the signal comes while they are.
            job = self.start(run, "run.steps=9", "model.channels=768", "model.layers=24", "model.heads=12")
            job.until(lambda: (run.path / "status.json").exists(), "the start of the run")
            os.kill(job.pid_of(1), number)
            code, output = job.end(timeout=20)
            self.assertEqual(code, STOPPED, output)
            status = run.status()
            self.assertEqual((status["state"], status["step"], status["exit_code"]), ("stopped", 0, STOPPED), output)
            self.assertIn("before the first step", status["reason"])
            self.assertEqual((run.lines(), run.checkpoints()), ([], []))
        code, output = run.train()  # and it can be started again
        self.assertEqual(code, FINISHED, output)

    def test_a_second_term_ends_at_once(self):
        run = self.new_run()
        job = self.start(run, *LONG_RUN, "checkpoint.every=2")
        job.until(run.checkpoints, "a checkpoint")
        os.kill(job.pid_of(1), signal.SIGSTOP)  # so that no step boundary comes: only the second signal can end it
        pid = job.pid_of(0)
        os.kill(pid, signal.SIGTERM)
        time.sleep(0.1)
        os.kill(pid, signal.SIGTERM)
        code, output = job.end(timeout=20)
        self.assertEqual(code, STOPPED, output)
        self.assertEqual((run.status()["state"], run.status()["exit_code"]), ("stopped", STOPPED), output)
        self.assertIn("second", run.status()["reason"])
        self.assertEqual(run.status()["last_checkpoint"], run.checkpoints()[-1])


class Limits(RunTest):
    def test_max_time_stops_before_it_with_a_checkpoint(self):
        run = self.new_run()
        code, output = run.train(*LONG_RUN, "--max-time", "8s")
        self.assertEqual(code, STOPPED, output)
        status = run.status()
        self.assertEqual((status["state"], status["reason"]), ("stopped", "walltime"), output)
        self.assertEqual(run.checkpoints(), [status["step"]])
        self.assertGreater(status["step"], 0)

    def test_halt_and_status(self):
        run = self.new_run()
        code, output = call("status", run.path)
        self.assertEqual(code, MISSING, output)
        job = self.start(run, *LONG_RUN)
        job.until_step(3)
        code, output = call("status", run.path)
        self.assertEqual(code, FINISHED)
        self.assertIn("running, step", output)
        code, output = call("halt", run.path)
        self.assertEqual(code, FINISHED, output)
        code, output = job.end()
        self.assertEqual(code, STOPPED, output)
        status = run.status()
        self.assertEqual((status["state"], status["reason"]), ("stopped", "halt"), output)
        self.assertEqual(run.checkpoints(), [status["step"]])
        code, output = call("status", run.path, "--json")
        self.assertEqual(json.loads(output), status)
        code, output = call("halt", run.path)
        self.assertEqual((code, "not running" in output), (FINISHED, True), output)
        job = self.start(run, *LONG_RUN)  # the old wish is not obeyed again
        job.until_step(status["step"] + 3, attempt=2)

    def test_status_knows_a_killed_run_and_the_next_start_says_so(self):
        run = self.new_run()
        job = self.start(run, *LONG_RUN)
        job.until_step(2)
        job.kill()
        self.assertEqual(run.status()["state"], "running")  # nobody was left to say otherwise
        code, output = call("status", run.path)
        self.assertEqual(code, FINISHED)
        self.assertIn("killed", output)
        self.assertEqual(json.loads(call("status", run.path, "--json")[1])["state"], "killed")
        code, output = run.train()
        self.assertEqual(code, FINISHED, output)
        self.assertIn("was killed", output)
        self.assertIn("there is no checkpoint, starting afresh", output)


class Resume(RunTest):
    def test_what_becomes_of_a_finished_run(self):
        run = self.trained("run", "checkpoint.every=2", "checkpoint.keep=9")
        before = run.lines(), run.hashes()
        code, output = run.train()
        self.assertEqual(code, FINISHED, output)
        self.assertIn("nothing to run", output)
        self.assertEqual((run.lines(), run.hashes()), before)
        self.assertEqual(run.status()["state"], "finished")

        code, output = run.train("--resume", "never")
        self.assertEqual(code, CANNOT_CREATE, output)
        self.assertIn("--resume is never", output)
        self.assertEqual(output.count("error:"), 1, output)
        code, output = run.train("--resume", "sometimes")
        self.assertEqual(code, USAGE, output)
        code, output = run.train("--resume", "3")
        self.assertNotEqual(code, FINISHED, output)
        self.assertIn("step-00000003", output)
        (run.path / "status.json").unlink()  # its checkpoints still make it a used directory
        code, output = run.train("--resume", "never")
        self.assertEqual(code, CANNOT_CREATE, output)
        self.assertEqual((run.lines(), run.hashes()), before)

        code, output = run.train("run.steps=8")  # more steps: it goes on
        self.assertEqual(code, FINISHED, output)
        self.assertEqual([line["step"] for line in run.lines()[len(before[0]):]], [7, 8])

        code, output = run.train("run.steps=9", "model.channels=32")
        self.assertEqual(code, 78, output)
        self.assertIn("model.channels is 32, was 16", output)

    def test_a_run_directory_in_use_is_refused(self):
        run = self.new_run()
        job = self.start(run, *LONG_RUN)
        job.until_step(2)
        code, output = run.train(*LONG_RUN)
        self.assertEqual(code, CANNOT_CREATE, output)
        self.assertIn(str(run.path), output)
        self.assertIn(str(job.pid_of(0)), output)
        step = run.lines()[-1]["step"]
        job.until_step(step + 2)  # the first one does not notice
        self.assertEqual(len(rank_pids(job.process.pid)), 2)
