#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The same sources give the same bytes, in whatever folder and whenever they are built.

  check_reproducible.py SOURCE BUILD [--compiler C] [--set NAME=VALUE] [TARGET...]

Copies the sources to two places whose paths have other lengths, builds the targets (default: all)
in build folders of other names, configured as BUILD is, but for --compiler and --set; and compares
the libraries and the object file byte by byte. Exit status 0 or 1.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PARTS = ("CMakeLists.txt", "LICENSE", "cmake", "include", "src", "trace", "docs/man")
PRODUCTS = ("*.so*", "*.a", "*.o")
# Of the cache of a build: what decides on the bytes.
SETTINGS = re.compile(r"^(MI_\w+|CMAKE_BUILD_TYPE|CMAKE_C_FLAGS\w*|CMAKE_C_COMPILER|CMAKE_AR):"
                      r"(?:BOOL|STRING|FILEPATH|PATH|UNINITIALIZED)=(.*)$", re.M)


def settings_of(build):
    text = (build / "CMakeCache.txt").read_text()
    chosen = {name: value for name, value in SETTINGS.findall(text)
              if not name.startswith(("MI_TEST", "MI_HAVE", "MI_CLANG", "MI_VALGRIND_PROGRAM"))}
    chosen["MI_BUILD_TESTS"] = "OFF"
    return chosen


def build_at(source, place, folder, settings, targets):
    home = place / "sources"
    for part in PARTS:
        if (source / part).is_dir():
            shutil.copytree(source / part, home / part)
        elif (source / part).exists():
            (home / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / part, home / part)
    out = home / folder if folder[0] != "/" else place / folder[1:]
    configure = ["cmake", "-S", str(home), "-B", str(out)]
    configure += [f"-D{name}={value}" for name, value in settings.items()]
    for command in (configure, ["cmake", "--build", str(out), "--parallel", "2"] +
                    (["--target", *targets] if targets else [])):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return {file.name: file.read_bytes() for pattern in PRODUCTS for file in out.glob(pattern)
            if file.is_file() and not file.is_symlink()}, out


def difference(a, b):
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return f"{len(a)} and {len(b)} bytes, different from byte {at}: {a[at-40:at+40]!r}"


def compare(first, second):
    """What is wrong, line by line."""
    if not first or first.keys() != second.keys():
        return [f"built were {sorted(first)} and {sorted(second)}"]
    return [f"{name}: {difference(first[name], second[name])}"
            for name in sorted(first) if first[name] != second[name]]


def names_its_place(products, place):
    """A path of the machine would be the same in a build at the same place."""
    return [f"{name}: has the path of its sources" for name, data in products.items()
            if str(place).encode() in data]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--compiler")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("targets", nargs="*")
    args = parser.parse_intermixed_args()
    settings = settings_of(args.build)
    if args.compiler:
        settings["CMAKE_C_COMPILER"] = args.compiler
    settings.update(entry.split("=", 1) for entry in args.set)
    with tempfile.TemporaryDirectory(prefix="mimalloc-same-") as folder:
        one, two = pathlib.Path(folder) / "a", pathlib.Path(folder) / "another-place" / "deeper"
        one.mkdir(parents=True)
        two.mkdir(parents=True)
        first, _ = build_at(args.source, one, "out/build", settings, args.targets)
        second, _ = build_at(args.source, two, "/elsewhere", settings, args.targets)
        wrong = compare(first, second) + names_its_place(first, folder)
    for line in wrong:
        print(line)
    print(f"{len(first)} files built twice, {len(wrong)} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
