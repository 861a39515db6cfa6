"""The house's small rules: files of at most 400 lines that open with a comment (a .cpp may open with its own header,
which has one), headers with #pragma once, nothing left for later without an issue's number, scripts that shellcheck
likes. Usage: rules.py ROOT"""

import pathlib
import re
import shutil
import subprocess
import sys

import source

LONGEST = 400
LATER = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")  # split, so that this line does not find itself
ISSUE = re.compile(r"#\d+")


def check(path, text):
    """Errors of one file."""
    errors = []
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if LATER.search(line) and not ISSUE.search(line):
            errors.append(f"{path}:{number}: left for later without an issue number: {line.strip()}")
    if path.suffix not in source.CODE:
        return errors
    if len(lines) > LONGEST:
        errors.append(f"{path}: {len(lines)} lines; a file with one job needs {LONGEST} at most")
    speaks_for_header = text.startswith("#include") and f"{path.stem}.hpp" in lines[0]
    if not text.startswith(("//", "/*")) and not speaks_for_header:
        errors.append(f"{path}:1: the file must open with a comment that says what it answers for")
    if path.suffix in {".hpp", ".cuh"} and "#pragma once" not in text:
        errors.append(f"{path}: a header needs #pragma once")
    return errors


def check_scripts(root):
    """What shellcheck says of every shell script, where there is shellcheck."""
    if shutil.which("shellcheck") is None:
        print("shellcheck is not installed: scripts not checked")
        return []
    root = pathlib.Path(root)
    scripts = [root / "bootstrap.sh", root / ".ci/run"] + [root / p for p in source.files(root, {".sh"})]
    result = subprocess.run(["shellcheck", "-x", "-P", str(root), *scripts], cwd=root, capture_output=True, text=True)
    return [result.stdout + result.stderr] if result.returncode else []


def main(root):
    errors = []
    for path in source.files(root, source.TEXT):
        errors += check(path, (pathlib.Path(root) / path).read_text())
    source.report("rules", errors + check_scripts(root))


if __name__ == "__main__":
    main(sys.argv[1])
