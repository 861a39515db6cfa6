"""The code is as clang-format 16 writes it. Skipped (77) without that version, since others write differently.
Usage: format.py ROOT"""

import re
import shutil
import subprocess
import sys

import source

VERSION = "16"


def find_clang_format():
    """clang-format of the one version, under either name."""
    for name in (f"clang-format-{VERSION}", "clang-format"):
        if shutil.which(name):
            text = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
            if re.search(rf"version {VERSION}\.", text):
                return name
    return None


def main(root):
    program = find_clang_format()
    if program is None:
        print(f"skipped: no clang-format {VERSION} here")
        sys.exit(77)
    names = [p.as_posix() for p in source.files(root, source.CODE)]
    result = subprocess.run([program, "--dry-run", "-Werror", *names], cwd=root, capture_output=True, text=True)
    wrong = sorted({line.split(":")[0] for line in result.stderr.splitlines() if "[-Wclang-format" in line})
    if wrong:
        print(f"{program} -i {' '.join(wrong)}")
    source.report("format", wrong if wrong or not result.returncode else [result.stderr])


if __name__ == "__main__":
    main(sys.argv[1])
