"""Bad input and full disks: each gets its exit code and a message that says what and where; nothing is started or lost."""

import os
import resource
import shutil
import signal
import struct
import subprocess
import time
import unittest

from harness import (CANNOT_CREATE, DAMAGED, DECK, DECK_TEXT, FINISHED, INPUT_OUTPUT, LONG_RUN, MISSING, NO_DEVICE,
                     STOPPED, USAGE, RunTest, call, launch, rank_pids)


def llmc_shard(path, tokens, promised=None):
    header = [20240520, 1, promised or len(tokens)] + [0] * 253
    path.write_bytes(struct.pack("<256i", *header) + struct.pack(f"<{len(tokens)}H", *tokens))


class Refused(RunTest):
    def refuses(self, code, texts, *words, ranks=2, run=None):
        """The start fails with `code`, all `texts` are in the output once or more, and nothing was written."""
        run = run or self.new_run()
        found, output = run.train(*words, ranks=ranks)
        self.assertEqual(found, code, output)
        for text in texts:
            self.assertIn(text, output)
        self.assertEqual(output.count("error:"), 1, output)  # told once, not once a rank
        self.assertFalse(run.lines())
        self.assertFalse(run.checkpoints())
        return output

    def test_decks(self):
        self.deck.write_text(DECK_TEXT.replace("heads: 2", "haeds: 2").replace("steps: 6", "steps: many"))
        output = self.refuses(DECK, [f"{self.deck}:1:", f"{self.deck}:2:", "haeds", "heads", "run.steps", "many"])
        self.assertEqual(call("check", self.deck)[0], DECK)
        self.assertFalse((self.new_run().path).exists(), output)
        self.deck.write_text(DECK_TEXT)
        self.refuses(DECK, ["run.stepz", "run.steps"], "run.stepz=3")
        self.refuses(DECK, ["optimizer.beta2"], "optimizer.beta2=1.5")
        self.refuses(DECK, ["4", "2"], "parallel.stages=4")
        self.refuses(DECK, ["parallel.layers", "add up to 5", "model.layers is 4"], "parallel.layers=[2,3]")
        self.refuses(DECK, ["parallel.stages: 3 stages", "there are 2"], "parallel.layers=[2,1,1]")
        self.refuses(DECK, ["replicas"], "parallel.replicas=3")
        output = self.refuses(USAGE, ["--max-time banana: expected"], "--max-time", "banana")
        self.assertNotIn("MPI Error", output)
        self.assertNotIn("MPI_ABORT", output)
        self.assertFalse(self.new_run().path.exists())
        code, output = call("train", self.scratch / "none.yaml", ranks=2)
        self.assertEqual(code, MISSING, output)
        self.assertIn("none.yaml", output)
        code, output = call("train", self.deck, "--resum", "auto")
        self.assertEqual((code, "--resume" in output), (USAGE, True), output)

    def test_data(self):
        tokens = [index % 11 for index in range(4000)]
        shard = self.scratch / "shard.bin"
        words = ["data.source=llmc", f"data.files=[{shard}]"]
        self.refuses(MISSING, ["shard.bin"], *words)
        llmc_shard(shard, tokens, promised=5000)
        self.refuses(DAMAGED, [str(shard), "5000"], *words)
        shard.write_bytes(shard.read_bytes()[:100])
        self.refuses(DAMAGED, [str(shard), "100 bytes"], *words)
        numbers = self.scratch / "train.bin"
        numbers.write_bytes(struct.pack("<4000H", *(tokens[:1500] + [999] + tokens[1501:])))
        run = self.new_run("vocab")
        for ranks, extra in ((2, []), (2, ["parallel.replicas=2"])):
            code, output = run.train("data.source=nanogpt", f"data.files=[{numbers}]", "model.vocab=11", *extra,
                                     "run.steps=1000", ranks=ranks)
            self.assertEqual(code, DAMAGED, output)
            for text in (str(numbers), "999", "11", "1500"):
                self.assertIn(text, output)
            self.assertNotEqual(run.status()["state"], "running")

    def test_a_device_that_this_build_has_not(self):
        self.refuses(NO_DEVICE, ["computes on CPUs only"], "device.kind=cuda")

    def test_a_fifo_is_no_data(self):
        fifo = self.scratch / "fifo"
        os.mkfifo(fifo)
        for source in ("bytes", "llmc", "nanogpt"):
            self.refuses(INPUT_OUTPUT, ["fifo", "not a regular file"], f"data.source={source}", f"data.files=[{fifo}]")

    def test_a_file_of_the_kernel_is_no_data(self):
        for source in ("bytes", "llmc", "nanogpt"):
            self.refuses(INPUT_OUTPUT, ["/proc/cpuinfo", "its size is 0"], f"data.source={source}",
                         "data.files=[/proc/cpuinfo]")

    def test_a_step_that_no_64_bit_number_holds(self):
        self.refuses(DECK, ["schedule.microbatch_size"], "schedule.microbatch_size=65536", "model.channels=1024",
                     "model.heads=1", "model.context=1048576")

    def test_directories(self):
        below_a_file = self.new_run("deck.yaml/run")
        self.assertEqual(below_a_file.train()[0], CANNOT_CREATE)
        self.refuses(CANNOT_CREATE, [str(below_a_file.path), "run.directory"], run=self.new_run("deck.yaml/run"))


class AnotherDeck(RunTest):
    def test_a_checkpoint_refuses_it_by_name(self):
        self.trained("run")
        code, output = self.new_run().train("run.steps=8", "data.source=bytes", f"data.files=[{self.deck}]")
        self.assertEqual(code, DECK, output)
        self.assertIn("data.source is bytes, was synthetic", output)


class DamagedCheckpoint(RunTest):
    def test_the_one_before_is_taken_and_none_is_refused_or_started_afresh(self):
        run = self.trained("run", "checkpoint.every=2", "checkpoint.keep=9")
        self.assertEqual(run.checkpoints(), [2, 4, 6])
        losses, hashes = run.losses(), run.hashes()
        shard = run.checkpoint(6) / "shard-0001.h5"
        damaged = bytearray(shard.read_bytes())
        damaged[len(damaged) // 2] ^= 4
        shard.write_bytes(damaged)
        (run.checkpoint(4) / "MANIFEST.json").unlink()
        code, output = run.train("run.steps=7")
        self.assertEqual(code, FINISHED, output)
        self.assertIn(f"{run.checkpoint(6)} is damaged", output)
        self.assertIn("shard-0001.h5", output)
        self.assertIn(f"{run.checkpoint(4)} is damaged", output)
        self.assertIn(f"going on from {run.checkpoint(2)}", output)
        self.assertEqual([line["step"] for line in run.lines() if line["attempt"] == 2], [3, 4, 5, 6, 7])

        for step in run.checkpoints():
            (run.checkpoint(step) / "shard-0000.h5").write_bytes(b"")
        lines = run.lines()
        code, output = run.train("run.steps=9")
        self.assertEqual(code, DAMAGED, output)  # to start afresh would destroy what may still be saved by hand
        self.assertIn("shard-0000.h5", output)
        self.assertEqual(run.lines(), lines)
        self.assertTrue(losses and hashes)


class LostOutput(RunTest):
    """Standard output that nobody takes: an error of a command that prints its result, nothing to a training run."""

    def shell(self, redirect, *words):
        done = subprocess.run(["bash", "-c", f'"$@" {redirect}; exit ${{PIPESTATUS[0]}}', "bash", *launch(words, 0)],
                              stderr=subprocess.PIPE, text=True, timeout=120)
        return done.returncode, done.stderr

    def test_of_commands(self):
        run = self.trained("run", "trace.enabled=true")
        for words in (["status"], ["status", "--json"], ["trace", "summary"], ["trace", "summary", "--json"],
                      ["trace", "merge"], ["checkpoint", "list"], ["checkpoint", "show"], ["checkpoint", "verify"],
                      ["fill", "list"], ["halt"]):
            for redirect in (">/dev/full", ">&-"):
                with self.subTest(words=words, redirect=redirect):
                    code, errors = self.shell(redirect, *words, run.path)
                    self.assertEqual((code, errors.count("error:")), (INPUT_OUTPUT, 1), errors)
                    self.assertIn("standard output: not all of the result could be written", errors)

    def test_of_a_training_run(self):
        expected = self.trained("expected", ranks=0)
        for name, redirect in {"full": ">/dev/full", "closed": ">&-", "all closed": "<&- >&- 2>&-", "left": "| head -1"}.items():
            with self.subTest(name):
                run = self.new_run(name)
                code, errors = self.shell(redirect, "train", self.deck, f"run.directory={run.path}", "trace.enabled=true")
                self.assertEqual(code, FINISHED, errors)
                self.assert_same_run(run, expected)
                self.assertIn("finished 6 steps", run.log())
                self.assertEqual(call("checkpoint", "verify", run.path)[0], FINISHED)
                self.assertEqual(call("trace", "summary", run.path)[0], FINISHED)


class FullDisk(RunTest):
    def gives_up(self, job):
        code, output = job.end()
        self.assertEqual(code, INPUT_OUTPUT, output)
        self.assertIn("1 of 3 in a row", output)
        self.assertIn("the run goes on", output)
        self.assertIn("3 of 3 in a row", output)
        self.assertEqual(output.count("error:"), 1, output)
        return output

    def small_disk(self):
        if os.geteuid() != 0:
            self.skipTest("mounting a small file system needs root")
        disk = self.scratch / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", disk], check=False).returncode:
            self.skipTest("no tmpfs can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        return disk

    def fill_up(self, disk, room):
        """Leaves so many bytes free."""
        filler = disk / "filler"
        with filler.open("ab", buffering=0) as file:
            with self.assertRaises(OSError):
                while True:
                    file.write(bytes(4096))
        with filler.open("r+b") as file:
            file.truncate(filler.stat().st_size - room)
        return filler

    def test_a_small_file_system(self):
        disk = self.small_disk()
        run = self.new_run("disk/run")
        code, output = run.train("checkpoint.every=3", "run.steps=6")
        self.assertEqual(code, FINISHED, output)
        good = {path.name: path.read_bytes() for path in run.checkpoint(6).iterdir()}
        filler = self.fill_up(disk, 65536)  # room for logs, not for a checkpoint
        output = self.gives_up(self.start(run, "run.steps=100000", "checkpoint.every=5"))
        self.assertIn("the last good one is of step 6", output)
        self.assertIn(str(run.path), output)
        self.assertEqual({path.name: path.read_bytes() for path in run.checkpoint(6).iterdir()}, good)
        self.assertEqual(run.lines()[-1]["step"], 6 + 4 + 5 * 2)
        filler.unlink()
        code, output = run.train("run.steps=30")  # with room again it goes on
        self.assertEqual(code, FINISHED, output)
        self.assertIn("(step 6)", output)

    def test_a_result_that_cannot_be_saved_is_no_finished_run(self):
        disk = self.small_disk()
        run = self.new_run("disk/run")
        code, output = run.train("run.steps=3")
        self.assertEqual(code, FINISHED, output)
        filler = self.fill_up(disk, 65536)
        for _ in range(2):  # and the start after it does not take it for one either
            code, output = run.train("run.steps=5")
            self.assertEqual(code, INPUT_OUTPUT, output)
            self.assertEqual(output.count("error:"), 1, output)
            self.assertIn("all 5 steps are done, but their result could not be saved", output)
            status = run.status()
            self.assertEqual((status["state"], status["exit_code"], status["step"], status["last_checkpoint"]),
                             ("failed", INPUT_OUTPUT, 5, 3))
        filler.unlink()
        code, output = run.train("run.steps=5")
        self.assertEqual(code, FINISHED, output)
        self.assertEqual(run.checkpoints()[-1], 5)

    def test_no_room_at_all_ends_nothing_and_is_told_once(self):
        disk = self.small_disk()
        run = self.new_run("disk/run")
        job = self.start(run, *LONG_RUN, "trace.enabled=true", "trace.segment=1s", "device.wait=yield")
        job.until_step(5)
        filler = self.fill_up(disk, 0)
        time.sleep(4)  # a segment of the trace, some states and many lines of metrics
        filler.unlink()
        seen = len(run.lines())
        job.until(lambda: len(run.lines()) > seen + 2, "lines again")
        job.until(lambda: "status.json: it works again" in run.log(), "status.json again")
        os.kill(job.process.pid, signal.SIGUSR2)
        code, output = job.end()
        self.assertEqual(code, STOPPED, output)
        self.assertEqual(run.checkpoints(), [run.status()["step"]])
        for name in ("metrics.jsonl", "status.json"):
            self.assertEqual(output.count(f"{name}: it works again"), 1, output)
        self.assertEqual(output.count("its lines are lost until that is over"), 1, output)
        self.assertEqual(output.count("it stays as it was until that is over"), 1, output)
        self.assertLessEqual(output.count("lines of the log are lost"), 2, output)  # once a rank
        self.assertEqual(call("trace", "summary", run.path)[0], FINISHED)

    def test_a_limit_on_the_size_of_files(self):
        run = self.new_run()
        limit = 200000  # bytes: below a shard's size, above that of the log
        job = self.start(run, *LONG_RUN, "checkpoint.every=100")
        job.until_step(1)
        for pid in rank_pids(job.process.pid).values():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, limit))
        self.gives_up(job)
        self.assertEqual(list((run.path / "checkpoints").iterdir()), [])
        self.assertGreater(run.lines()[-1]["step"], 299)


class LostDirectory(RunTest):
    def test_removed_under_the_run(self):
        run = self.new_run()
        job = self.start(run, *LONG_RUN, "trace.enabled=true", "trace.segment=1s", "device.wait=yield")
        job.until_step(5)
        shutil.rmtree(run.path)
        time.sleep(2)
        os.kill(job.process.pid, signal.SIGUSR2)
        code, output = job.end()
        self.assertEqual(code, STOPPED, output)
        self.assertEqual(output.count("the file was removed while the run writes to it"), 1, output)
        self.assertEqual(output.count("there is no directory"), 1, output)
        self.assertLessEqual(output.count("the queue of fill jobs"), 1, output)
        self.assertEqual(run.checkpoints(), [run.status()["step"]])  # what counts is there again
        code, output = run.train(f"run.steps={run.checkpoints()[0] + 2}", *LONG_RUN[1:])
        self.assertEqual(code, FINISHED, output)

    def test_checkpoints_that_cannot_be_written(self):
        run = self.new_run()
        job = self.start(run, *LONG_RUN, "checkpoint.every=200", "device.wait=yield")
        job.until_step(5)
        (run.path / "checkpoints").rmdir()
        (run.path / "checkpoints").write_text("no directory\n")
        code, output = job.end()
        self.assertEqual(code, INPUT_OUTPUT, output)
        self.assertIn("3 of 3 in a row", output)
        status = run.status()  # not `running`, though nobody can tell which checkpoint is the newest
        self.assertEqual((status["state"], status["exit_code"], status["last_checkpoint"]), ("failed", INPUT_OUTPUT, None))
        self.assertEqual(status["step"], run.lines()[-1]["step"])
        self.assertIn("checkpoint of step", status["reason"])


if __name__ == "__main__":
    unittest.main()
