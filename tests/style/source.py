"""The source tree as the style checks see it: which files there are, and what they include."""

import pathlib
import re
import sys

CODE = {".cpp", ".hpp", ".h", ".cu", ".cuh"}
TEXT = CODE | {".sh", ".py", ".md", ".yaml", ".cmake"}
FOLDERS = ("src", "kernels", "app", "tests", "inputs", "jobscripts", "cmake", "docs", ".ci")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def files(root, suffixes, folders=FOLDERS):
    """Files below the folders with one of the suffixes, as paths relative to root, sorted."""
    root = pathlib.Path(root)
    found = (p for folder in folders for p in (root / folder).rglob("*") if p.suffix in suffixes and p.is_file())
    return sorted(p.relative_to(root) for p in found)


def includes(text):
    """(line number, name, is_quoted) for every include line."""
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1) or match.group(2), match.group(1) is not None


def report(what, errors):
    """Prints the errors and ends the check."""
    for error in errors:
        print(error)
    print(f"{what}: {len(errors)} errors")
    sys.exit(1 if errors else 0)
