"""A folder includes only itself and folders on lower floors. Usage: floors.py ROOT"""

import pathlib
import sys

import source

FLOORS = {
    "app": 8,
    "config": 7,
    "engine": 6, "simulate": 6,
    "worker": 5,
    "fill_jobs": 4,
    "model": 3, "checkpoint": 3,
    "fill": 2, "comm": 2, "data": 2, "trace": 2,
    "schedule": 1, "device": 1, "storage": 1,
    "base": 0, "kernels": 0,  # kernels stand beside the house: they need nothing and anyone above base may use them
}
# The papers: values in, values out.
PURE = {"schedule", "fill", "simulate"}
IMPURE_HEADERS = ("mpi.h", "hdf5.h", "yaml-cpp/", "cuda", "nccl", "cublas")


def folder_of(path):
    """src/data/corpus.hpp -> data, kernels/sgemm/sgemm.hpp -> kernels, data/corpus.hpp (an include) -> data."""
    parts = pathlib.PurePosixPath(path).parts
    return parts[1] if parts[0] == "src" and len(parts) > 1 else parts[0]


def check(path, text):
    """Errors of one file, given its path relative to the root."""
    folder = folder_of(path.as_posix())
    if folder not in FLOORS:
        return [f"{path}: the folder '{folder}' has no floor; give it one in tests/style/floors.py and in the README"]
    errors = []
    for line, name, quoted in source.includes(text):
        where = f"{path}:{line}"
        if folder in PURE and name.startswith(IMPURE_HEADERS):
            errors.append(f"{where}: {folder} takes values and gives values; it never includes {name}")
        target = folder_of(name)
        if target == folder or target not in FLOORS:
            if quoted and target not in FLOORS and "/" in name:
                errors.append(f"{where}: '{name}' is in no folder of the house; write <...> for other people's headers")
            continue
        if not quoted:
            errors.append(f"{where}: write our own '{name}' in quotes")
        if FLOORS[target] >= FLOORS[folder]:
            errors.append(f"{where}: {folder} (floor {FLOORS[folder]}) includes {name} from {target} "
                          f"(floor {FLOORS[target]}); only lower floors may be included")
    return errors


def main(root):
    errors = []
    for path in source.files(root, source.CODE, ("src", "kernels", "app")):
        errors += check(path, (pathlib.Path(root) / path).read_text())
    source.report("floors", errors)


if __name__ == "__main__":
    main(sys.argv[1])
