#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Searches with AFL++ for what the fuzz targets of this folder do not hold.

  afl.py [--minutes N] [--out FOLDER] [TARGET...]

Each TARGET (calls, threads, options, numbers; all of them if none is named) is compiled with the library by
afl-clang-fast, as a release, and searched for its share of the minutes from the kept inputs on. An
input that crashes or hangs is kept in OUT/TARGET/found, where the replaying program of the target takes it from.
The commands that make one small (afl-tmin), and keep it in the corpus for every later test, are printed.
Exit status 0: nothing was found; 1: something was, or a target did not run; 77: there is no AFL++.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGETS = ("calls", "threads", "options", "numbers")
FLAGS = ["-std=gnu11", "-O1", "-g", "-w", "-fsanitize=fuzzer", "-D_GNU_SOURCE", "-DMI_STATIC_LIB", "-DNDEBUG",
         "-DMI_BUILD_RELEASE", "-fno-builtin-malloc"]
# It asks for no settings of the machine, which are not ours to change.
SETTINGS = {"AFL_NO_UI": "1", "AFL_SKIP_CPUFREQ": "1", "AFL_NO_AFFINITY": "1", "AFL_QUIET": "1",
            "AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES": "1"}


def compiled(target, folder):
    """The target with the library as one file; `options` brings one of its sources itself."""
    library = (ROOT / "src/static.c").read_text()
    if target == "options":
        library = library.replace('#include "service/option_names.c"\n', "")
    source, program = folder / "library.c", folder / target
    source.write_text(library)
    subprocess.run(["afl-clang-fast", *FLAGS, "-I", ROOT / "include", "-I", ROOT / "src", source,
                    HERE / f"{target}.c", "-o", program, "-lpthread"], check=True,
                   env=dict(os.environ, AFL_QUIET="1"))
    return program


def search(target, program, folder, seconds):
    """What is known of the search; None: it did not run."""
    found, words = folder / "found", HERE / f"words/{target}.dict"
    dictionary = ["-x", words] if words.exists() else []
    shutil.rmtree(found, ignore_errors=True)
    with open(folder / "log", "w", encoding="utf-8") as log:
        subprocess.run(["afl-fuzz", "-i", HERE / "corpus" / target, "-o", found, "-V", str(seconds), "-t", "10000",
                        "-G", "2048", *dictionary, "--", program], env=dict(os.environ, **SETTINGS), stdin=subprocess.DEVNULL,
                       stdout=log, stderr=log, check=False)
    told = found / "default/fuzzer_stats"
    if not told.exists():
        print("".join((folder / "log").read_text().splitlines(keepends=True)[-12:]))
        return None
    return dict(re.findall(r"^(\w+) +: (.*)$", told.read_text(), re.M))


def say_what_next(target, program, folder):
    """How the first of what was found becomes a test."""
    files = sorted(f for kind in ("crashes", "hangs") for f in (folder / "found/default" / kind).glob("id:*"))
    if files:
        print(f"  afl-tmin -i '{files[0]}' -o {folder}/small -- {program}\n"
              f"  cp {folder}/small {HERE}/corpus/{target}/found-afl-$(sha1sum <{folder}/small | cut -c1-8)")


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("-h", "--help", action="help")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out/afl")
    parser.add_argument("targets", nargs="*")
    options = parser.parse_args()
    if shutil.which("afl-fuzz") is None or shutil.which("afl-clang-fast") is None:
        print("There is no AFL++ here: `make fuzz-afl` gets it.")
        return 77
    targets = options.targets or TARGETS
    seconds = max(int(60 * options.minutes / len(targets)), 1)
    bad = 0
    for target in targets:
        folder = options.out.resolve() / target
        folder.mkdir(parents=True, exist_ok=True)
        program = compiled(target, folder)
        told = search(target, program, folder, seconds)
        if told is None or int(told["execs_done"]) == 0:
            print(f"FAIL {target}: it did not run", flush=True)
            bad += 1
            continue
        wrong = int(told["saved_crashes"]) + int(told["saved_hangs"])
        bad += wrong > 0
        print(f"{'FAIL' if wrong else 'ok':4} {target}: {told['execs_done']} inputs, {told['corpus_count']} kept, "
              f"{told['edges_found']} of {told['total_edges']} edges, {told['saved_crashes']} crashes, "
              f"{told['saved_hangs']} hangs", flush=True)
        say_what_next(target, program, folder)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
