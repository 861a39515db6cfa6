"""Every header compiles alone. A header that is the first include of the .cpp beside it is proven by the build; the
others are compiled here with the flags of a .cpp of their folder. Usage: headers.py ROOT COMPILE_COMMANDS"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

import source


def is_proven(root, header):
    """Is it the first include of the .cpp with its name?"""
    implementation = (root / header).with_suffix(".cpp")
    if not implementation.exists():
        return False
    first = next(source.includes(implementation.read_text()), None)
    return first is not None and header.as_posix().endswith(first[1])


def flags(command):
    """Compiler and flags of a compile command, without what names its files or a launcher."""
    words = shlex.split(command)
    if os.path.basename(words[0]) in {"ccache", "sccache"}:
        words = words[1:]
    kept = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in {"-o", "-MT", "-MF", "-c"}:
            skip = True
        elif word != "-MD":
            kept.append(word)
    return kept


def commands_by_folder(root, database):
    """The flags of one file for each folder."""
    folders = {}
    for entry in json.loads(pathlib.Path(database).read_text()):
        folder = pathlib.Path(entry["file"]).parent
        if root in folder.parents:
            folders.setdefault(folder.relative_to(root), flags(entry["command"]))
    return folders


def compile_alone(root, header, command):
    """The compiler's complaint, or none."""
    text = f'#include "{header.as_posix()}"\n#include "{header.as_posix()}"\n'
    result = subprocess.run([*command, f"-I{root}", "-fsyntax-only", "-x", "c++", "-"], input=text, cwd=root,
                            capture_output=True, text=True)
    return f"{header} does not compile alone:\n{result.stderr}" if result.returncode else None


def main(root, database):
    root = pathlib.Path(root).resolve()
    commands = commands_by_folder(root, database)
    jobs = []
    for header in source.files(root, {".hpp"}, ("src", "kernels", "app")):
        if is_proven(root, header):
            continue
        near = [f for f in [header.parent, *header.parents] if f in commands]
        below = [f for f in sorted(commands) if header.parent in f.parents]
        any_folder = sorted(commands)[:1]
        jobs.append((root, header, commands[(near + below + any_folder)[0]]))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = [e for e in pool.map(lambda job: compile_alone(*job), jobs) if e]
    print(f"{len(jobs)} headers compiled alone")
    source.report("headers", errors)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
