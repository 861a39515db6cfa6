"""pipefill doctor: what it says of this machine is so."""
import json
import os
import subprocess
import unittest

PROGRAM = os.path.abspath(os.environ["PIPEFILL"])
HAS_CUDA = os.environ["PIPEFILL_HAS_CUDA"] == "1"


def doctor(*arguments, **options):
    return subprocess.run([PROGRAM, "doctor", *arguments], capture_output=True, text=True, timeout=60, check=True, **options)


def findings(**options):
    return {f["what"]: f for f in json.loads(doctor("--json", **options).stdout)["findings"]}


class Doctor(unittest.TestCase):
    def test_text_and_json_say_the_same(self):
        text = doctor().stdout
        for what, finding in findings().items():
            if what != "memory":  # its free part changes
                self.assertIn(f"{what:<12} {finding['fact']}", text)

    def test_cores_are_those_it_may_use(self):
        first = min(os.sched_getaffinity(0))
        one = findings(preexec_fn=lambda: os.sched_setaffinity(0, {first}))["cores"]
        self.assertTrue(one["fact"].startswith("1 may be used"), one)
        self.assertIn("advice", one)
        if len(os.sched_getaffinity(0)) > 1:
            self.assertNotIn("advice", findings()["cores"])

    def test_few_open_files_are_told(self):
        import resource
        few = findings(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128)))["open files"]
        self.assertEqual(few["fact"], "128")
        self.assertIn("ulimit -n", few["advice"])

    def test_cuda_as_it_is_here(self):
        found = findings()
        if not HAS_CUDA:
            self.assertIn("built without CUDA", found["CUDA"]["fact"])
            return
        self.assertTrue(found["CUDA"]["fact"].startswith("runtime 1"), found["CUDA"])
        if not os.path.exists("/proc/driver/nvidia/version"):
            self.assertIn("no NVIDIA driver", found["CUDA"]["advice"])
            self.assertIn("driver none", found["CUDA"]["fact"])
        else:
            self.assertIn("GPU-", found["device 0"]["fact"])

    @unittest.skipUnless(HAS_CUDA, "built without CUDA")
    def test_a_module_that_is_not_there_or_not_ours(self):
        import pathlib
        import shutil
        import tempfile
        with tempfile.TemporaryDirectory() as scratch:
            program = pathlib.Path(scratch, "bin/pipefill")
            program.parent.mkdir()
            shutil.copy2(PROGRAM, program)
            ask = lambda: {f["what"]: f for f in json.loads(subprocess.run(
                [program, "doctor", "--json"], capture_output=True, text=True, timeout=60, check=True).stdout)["findings"]}
            self.assertIn("cannot load the CUDA module", ask()["CUDA"]["advice"])
            module = pathlib.Path(os.environ["PIPEFILL_CUDA_MODULE"])
            place = pathlib.Path(scratch, module.relative_to(os.environ["PIPEFILL_BINARY_DIR"]))
            place.parent.mkdir(parents=True)
            place.write_bytes(b"not a library")
            self.assertIn("cannot load the CUDA module", ask()["CUDA"]["advice"])
            shutil.copy2(module, place)
            self.assertTrue(ask()["CUDA"]["fact"].startswith("runtime 1"))


if __name__ == "__main__":
    unittest.main()
