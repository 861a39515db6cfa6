"""Fill work in the bubbles of a real run: whatever a fill job does, the main job's losses and weights stay the same bits;
a fill job's output is that of the same job run alone, also through kills; the queue of a running job."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import time

from harness import DECK, FINISHED, RunTest, call

PLUGIN = os.environ["PIPEFILL_TEST_PLUGIN"]
REPEATS = int(os.environ.get("PIPEFILL_FAULT_REPEATS", "1"))
# Bubbles of milliseconds; the main job waits in them for the other stage. On a machine busy with other things the guard
# would hold the slowdown by selling nothing at all, and then no job comes to its end.
WORDS = ["trace.enabled=true", "model.channels=64", "model.context=64", "schedule.microbatch_size=4", "fill.profile=3",
         "fill.block=2", "fill.audit=0.2", "fill.max_slowdown=0.9"]
SHAPE = "layers: 2, channels: 32, heads: 2, context: 16, vocab: 32"
JOBS = {
    "score": f"kind: score\nwith: {{{SHAPE}, synthetic: 40, batch: 2}}\n",
    "generate": f"kind: generate\nwith: {{{SHAPE}, prompt_tokens: [\"1 2 3\", \"4 5\"], tokens: 9, batch: 1}}\n",
    "train": f"kind: train\nwith: {{{SHAPE}, steps: 6, microbatch_size: 2}}\n",
}
OUTPUTS = {"score": ["nll.h5"], "generate": ["texts.jsonl"], "train": ["weights.h5", "loss.jsonl"]}


# What a job's state says of each way to fail.
MESSAGES = {"segv": "signal 11", "abort": "signal 6", "exit": "exit", "fail": "told to", "leak": "memory",
            "flood": "File size limit", "disk": "limits.disk", "fork": "cannot fork", "throw": "", "kill": "signal 9"}
# Where two limits are near each other, either may come first.
ALSO = {"flood": ["limits.output"], "fork": ["limits.processes", "limits.memory"]}


class FillTest(RunTest):
    def job_file(self, name, text):
        path = self.scratch / f"{name}.yaml"
        path.write_text(f"name: {name}\n{text}")
        return path

    def plugin(self, name, **parameters):
        words = ", ".join(f"{key}: {value}" for key, value in ({"chunks": 20000, "chunk_us": 100} | parameters).items())
        return self.job_file(name, f"kind: plugin\nwith: {{library: {PLUGIN}, {words}}}\n")

    def filled(self, run, *jobs, steps=40, words=()):
        code, output = run.train(*WORDS, *words, f"run.steps={steps}", f"fill.jobs=[{', '.join(map(str, jobs))}]")
        self.assertEqual(code, FINISHED, output)
        return output

    def state(self, run, name):
        return json.loads((run.path / "fill" / name / "state.json").read_text())

    def records(self, run, name):
        """Bytes of state.bin that say how many chunks were done are the worker's; the trace has its own count."""
        code, output = call("trace", "summary", run.path, "--json")
        self.assertEqual(code, FINISHED, output)
        return next((job for job in json.loads(output)["fill"]["jobs"] if job["name"] == name), None)


class SameBits(FillTest):
    def test_whatever_the_fill_job_does(self):
        plain = self.new_run("plain")
        self.filled(plain)
        for name, parameters in (("good", {}), ("crashing", {"fault": "segv", "fault_at": 20}),
                                 ("hanging", {"fault": "hang", "fault_at": 20})):
            run = self.new_run(name)
            self.filled(run, self.plugin(name, **parameters))
            self.assert_same_run(run, plain, name)
            self.assertGreaterEqual(self.records(run, name)["done"], 20, name)
        self.assertEqual(self.state(self.new_run("crashing"), "crashing")["failures"] > 0, True)

    def test_whatever_the_strategy(self):
        plain = self.new_run("plain")
        self.filled(plain, words=["fill.strategy=none"])
        for strategy in ("naive", "idle-priority", "freeride", "pipefill", "adaptive"):
            run = self.new_run(strategy)
            self.filled(run, self.plugin(strategy), words=[f"fill.strategy={strategy}"])
            self.assert_same_run(run, plain, strategy)

    def test_in_process(self):
        plain, run = self.new_run("plain"), self.new_run("in-process")
        self.filled(plain)
        self.filled(run, self.job_file("score", JOBS["score"]), words=["fill.isolation=in-process"])
        self.assert_same_run(run, plain)
        self.assertGreater(self.records(run, "score")["done"], 0)


class Outputs(FillTest):
    def alone(self, name):
        code, output = call("fill", "run", self.job_file(name, JOBS[name]), "--directory", self.scratch / "alone")
        self.assertEqual(code, FINISHED, output)
        return self.scratch / "alone/fill" / name

    def same_outputs(self, name, run):
        self.assertEqual(self.state(run, name)["status"], "finished", self.state(run, name))
        for file in OUTPUTS[name]:
            self.assertEqual((run.path / "fill" / name / file).read_bytes(), (self.alone(name) / file).read_bytes(), file)

    def test_in_bubbles_as_alone(self):
        run = self.new_run()
        self.filled(run, *(self.job_file(name, text) for name, text in JOBS.items()), steps=400)
        for name in JOBS:
            self.same_outputs(name, run)

    def test_through_kills_and_resumes(self):
        run = self.new_run()
        job = f"fill.jobs=[{self.job_file('score', JOBS['score'])}]"
        for _ in range(2):
            main = self.start(run, *WORDS, job, "run.steps=100000", "checkpoint.every=5")
            steps = len(run.lines())
            main.until(lambda: len(run.lines()) > steps + 8, "eight more steps")
            os.kill(main.pid_of(0), signal.SIGKILL)
            main.end()
        self.filled(run, self.job_file("score", JOBS["score"]), steps=400)
        self.same_outputs("score", run)


class Sharing(FillTest):
    def test_two_jobs_on_one_stage(self):
        """One job's chunks are too long for some of its stage's bubbles; another one has those."""
        jobs, kinds = [], {"long": {"chunks": 230, "chunk_us": 2000}, "short": {"chunks": 300, "chunk_us": 200}}
        for kind, parameters in kinds.items():
            for i in range(2):
                job = self.plugin(f"{kind}{i}", **parameters)
                job.write_text(job.read_text() + f"priority: {0 if kind == 'long' else -9}\n")
                jobs.append(job)
        plain, run = self.new_run("plain"), self.new_run("shared")
        words = ["schedule.microbatches=4"]
        self.filled(plain, steps=250, words=[*words, "fill.strategy=none"])
        self.filled(run, *jobs, steps=250, words=words)
        self.assert_same_run(run, plain)
        decisions = {}
        for line in (run.path / "fill/decisions.jsonl").read_text().splitlines():
            decision = json.loads(line)
            decisions[decision["job"]] = decision
        self.assertEqual(decisions["long0"]["step"], 0)
        for job in ("short0", "short1"):
            self.assertLess(decisions[job]["step"], 100, "while the long ones run")
        self.assertNotEqual(decisions["short0"]["rank"], decisions["short1"]["rank"], decisions)
        for job in jobs:
            name = job.stem
            self.assertEqual(self.state(run, name)["status"], "finished", self.state(run, name))
            self.assertGreater(self.records(run, name)["fill_s"], 0, name)
            code, output = call("fill", "run", job, "--directory", self.scratch / "alone")
            self.assertEqual(code, FINISHED, output)
            self.assertEqual((run.path / "fill" / name / "result").read_bytes(),
                             (self.scratch / "alone/fill" / name / "result").read_bytes(), name)


class Queue(FillTest):
    def test_a_job_for_a_running_main_job(self):
        run = self.new_run()
        main = self.start(run, *WORDS, "run.steps=100000")
        main.until_step(10)
        job = self.job_file("late", JOBS["score"])
        self.assertEqual(call("fill", "submit", run.path, job)[0], FINISHED)
        main.until(lambda: (run.path / "fill/late/state.json").exists() and
                   self.state(run, "late")["status"] == "finished", "the job is finished")
        decision = json.loads((run.path / "fill/decisions.jsonl").read_text().splitlines()[0])
        self.assertEqual(decision["job"], "late")
        self.assertTrue(decision["reason"])

    def test_what_is_refused(self):
        run = self.new_run()
        for text, reason in (("kind: score\n", "name"), ("name: a\nkind: scorre\n", "score"),
                             ("name: [\n", ""), ("name: a\nkind: score\nwith: {}\nwhat: 1\n", "what")):
            path = self.scratch / "bad.yaml"
            path.write_text(text)
            code, output = call("fill", "submit", run.path, path)
            self.assertEqual(code, DECK, output)
            self.assertIn("bad.yaml:", output)
            self.assertIn(reason, output)
        (self.scratch / "big.yaml").write_text("# " + "x" * (1 << 20))
        self.assertEqual(call("fill", "submit", run.path, self.scratch / "big.yaml")[0], 65)
        good = self.job_file("good", JOBS["score"])
        self.assertEqual(call("fill", "submit", run.path, good)[0], FINISHED)
        self.assertEqual(call("fill", "submit", run.path, good)[0], 73, "the same name again")
        (run.path / "fill/queue/00000009-junk.json").write_text("{")
        output = self.filled(run)
        self.assertEqual(self.state(run, "good")["name"], "good")
        code, output = call("fill", "list", run.path)
        self.assertEqual(code, FINISHED)
        self.assertIn("refused 00000009-junk.json", output)

    def test_cancel(self):
        run = self.new_run()
        endless = self.plugin("endless")
        main = self.start(run, *WORDS, "run.steps=100000", f"fill.jobs=[{endless}]")
        main.until_step(12)
        self.assertEqual(call("fill", "cancel", run.path, "endless")[0], FINISHED)
        main.until(lambda: self.state(run, "endless")["status"] == "cancelled", "cancelled")
        steps = len(run.lines())
        main.until(lambda: len(run.lines()) > steps + 5, "the main job goes on")


class Faults(FillTest):
    """Each way to fail, again and again: the main job's bits stay the same and the job's state tells what happened."""

    def test_every_fault(self):
        plain = self.new_run("plain")
        self.filled(plain)
        for fault in ("segv", "abort", "exit", "fail", "hang", "leak", "flood", "disk", "fork", "throw", "kill", "slow"):
            with self.subTest(fault):
                run = self.new_run(fault)
                limits = "limits: {memory: 256MiB, disk: 16MiB, output: 1MiB, processes: 64}\n"
                job = self.plugin(fault, fault=fault, fault_at=15)
                job.write_text(job.read_text() + limits)
                began = time.monotonic()
                self.filled(run, job)
                print(f"{fault}: {time.monotonic() - began:.1f} s, {self.state(run, fault)['message']!r}", flush=True)
                self.assert_same_run(run, plain, fault)
                if fault not in ("hang", "slow"):
                    self.assertGreater(self.state(run, fault)["failures"], 0, fault)
                    self.assertIn(MESSAGES[fault], self.state(run, fault)["message"])

    def test_all_faults_in_one_run_often(self):
        """All of them beside each other in the bubbles of two ranks, PIPEFILL_FAULT_REPEATS times."""
        steps, limits = 800, "limits: {memory: 256MiB, disk: 16MiB, output: 1MiB, processes: 64, tries: 1}\n"
        plain = self.new_run("plain")
        self.filled(plain, steps=steps)
        for repeat in range(REPEATS):
            run, jobs, began = self.new_run(f"run-{repeat}"), [], time.monotonic()
            for fault in (*MESSAGES, "slow", "hang"):
                job = self.plugin(fault, fault=fault, fault_at=15, chunks=300 if fault == "slow" else 20000)
                job.write_text(job.read_text() + limits)
                jobs.append(job)
            self.filled(run, *jobs, steps=steps)
            self.assert_same_run(run, plain, repeat)
            for fault, message in MESSAGES.items():
                state = self.state(run, fault)
                self.assertEqual((state["status"], state["failures"]), ("quarantined", 1), f"{fault}: {state}")
                allowed = (message, *ALSO.get(fault, ()))
                self.assertTrue(any(text in state["message"] for text in allowed), f"{fault}: {state['message']}")
                self.assertIn(state["done"], (15, 16), fault)
            self.assertEqual(self.state(run, "slow")["status"], "finished", self.state(run, "slow"))
            self.assertNotEqual(self.state(run, "hang")["status"], "finished")
            print(f"{repeat + 1} of {REPEATS}: {time.monotonic() - began:.1f} s", flush=True)
            shutil.rmtree(run.path)


def worker_pids(rank_pid):
    """Fill workers of a rank."""
    pids = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            parent = int(pathlib.Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[1])
            command = pathlib.Path("/proc", entry, "cmdline").read_bytes()
            if parent == rank_pid and b"fill-worker" in command:
                pids.append(int(entry))
    return pids


class Parts(FillTest):
    def test_divided_over_two_stages_through_kills(self):
        """Workers are killed while they work on their parts, then a whole rank; the output is that of the job in one."""
        text = ("kind: score\nwith: {layers: 2, channels: 128, heads: 4, context: 64, vocab: 256, synthetic: 5000, "
                "batch: 2}\n")
        whole = self.job_file("job", text)
        code, output = call("fill", "run", whole, "--directory", self.scratch / "alone")
        self.assertEqual(code, FINISHED, output)
        run = self.new_run()
        job = self.job_file("job", text + "shards: 2\nlimits: {tries: 20}\n")
        words = [*WORDS, f"fill.jobs=[{job}]", "run.steps=100000", "checkpoint.every=20"]
        parts = [run.path / "fill/job" / f"part-{i}" for i in range(2)]
        main = self.start(run, *words)
        main.until(lambda: all((part / "state.bin").exists() for part in parts), "both parts have begun")
        for rank in (0, 1, 0, 1):
            steps = len(run.lines())
            main.until(lambda: len(run.lines()) > steps + 10, "some steps")
            for pid in worker_pids(main.pid_of(rank)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.assertFalse((run.path / "fill/job/nll.h5").exists(), "killed too late to show anything")
        code, output = call("fill", "show", run.path, "job")
        self.assertEqual(code, FINISHED, output)
        self.assertIn("running, in 2 parts", output)
        done, chunks = map(int, re.search(r"(\d+) of (\d+) chunks done", output).groups())
        self.assertTrue(0 < done < chunks, output)
        os.kill(main.pid_of(0), signal.SIGKILL)
        main.end()
        main = self.start(run, *words)
        main.until(lambda: self.state(run, "job")["status"] != "running", "the job is over", timeout=150)
        self.assertEqual(self.state(run, "job")["status"], "finished", self.state(run, "job"))
        self.assertEqual((run.path / "fill/job/nll.h5").read_bytes(),
                         (self.scratch / "alone/fill/job/nll.h5").read_bytes())
        main.until(lambda: not any(part.exists() for part in parts), "the parts are removed")
        ranks = {json.loads(line)["rank"] for line in (run.path / "fill/decisions.jsonl").read_text().splitlines()[:2]}
        self.assertEqual(ranks, {0, 1})
