#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds src/static.c with many compilers, each in many ways, runs the tests of the interface on every
build, and prints a table.

  compilers.py [--list] [--here] [--way WAY]... [--jobs N] [COMPILER...]

The compilers are those of Debian 11, 12, 13 and unstable; each of these systems is made anew by
tools/fresh.py, whose options --folder, --cache, --keep and --nice are options here, too, and what runs
in it has its C library. --here takes compilers of this machine instead: those that are named, or cc.

A way is a set of options; without --way all are tried. A cell of the table is the number of tests that
passed; what did not, and warnings of -Wall -Wextra -pedantic, are named below the table. Those of the
C tests of test/api are run that have a name in TESTS, fork_threads in the ways O2 and m32 only, and in
the way lto three, since each is compiled with the library anew.

Exit status 0: all passed without a warning; 1: not; 77: no such system can be made here.
"""

import argparse
import concurrent.futures
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile

import fresh

ROOT = pathlib.Path(__file__).resolve().parent.parent
# System: its compilers.
SUITES = {
    "bullseye": ["gcc-9", "gcc-10"],
    "bookworm": ["gcc-11", "gcc-12", "clang-13", "clang-14", "clang-15", "clang-16"],
    "trixie": ["gcc-13", "gcc-14", "clang-17", "clang-18", "clang-19"],
    "sid": ["gcc-15", "gcc-16", "clang-23"],
}
CHECKED = "-DNDEBUG -DMI_MALLOC_OVERRIDE "
UBSAN = "-fsanitize=undefined -fno-sanitize-recover=undefined"
# What is said to the compiler for the library, and what of it for the tests.
WAYS = {
    "O0": (CHECKED + "-O0", ""),
    "O1": (CHECKED + "-O1", ""),
    "O2": (CHECKED + "-O2", ""),
    "O3": (CHECKED + "-O3", ""),
    "Os": (CHECKED + "-Os", ""),
    "lto": (CHECKED + "-O2 -flto", "-O2 -flto"),
    "ubsan": (CHECKED + "-O1 " + UBSAN, UBSAN),
    "x86-64-v3": (CHECKED + "-O2 -march=x86-64-v3", ""),
    "m32": (CHECKED + "-O2 -m32", "-m32"),
    "cf-protection": (CHECKED + "-O2 -fcf-protection", "-fcf-protection"),
    "no-NDEBUG": ("-O2", ""),
}
TESTS = ("aligned arena basic edges guarded_calls guarded_sampling heap heap_many heap_threads hooks moved "
         "new_in_c posix subproc")
MORE = {"O2": TESTS + " fork_threads", "m32": TESTS + " fork_threads", "lto": "basic edges heap_threads"}
# way NAME LIBRARY_FLAGS TEST_FLAGS TESTS: the tests' objects serve all ways with the same options.
SCRIPT = r"""
cd "$PROJECT" && rm -rf "$OUT" && mkdir -p "$OUT" || exit 1
way() {
  echo "way $1"
  defines=
  case $2 in *-DNDEBUG*) defines="-DNDEBUG -DMI_BUILD_RELEASE" ;; esac
  objects=$OUT/objects$(echo "$3$defines" | tr -dc A-Za-z0-9=)
  mkdir -p "$objects"
  $CC $2 -Iinclude -Wall -Wextra -pedantic -c src/static.c -o "$OUT/static.o" >"$OUT/warnings" 2>&1 ||
    echo "result library not compiled"
  sed 's/^/warning /' "$OUT/warnings"
  link=
  case $CC$2 in *clang*-flto*) link=-fuse-ld=lld ;; esac
  for name in $4; do
    [ -e "$objects/$name.o" ] || $CC -std=gnu11 -O1 -Iinclude -Isrc -D_GNU_SOURCE -fno-builtin-malloc -w \
      $defines $3 -c "test/api/$name.c" -o "$objects/$name.o"
    rm -f "$OUT/program"
    if $CC $3 $link "$objects/$name.o" "$OUT/static.o" -pthread -ldl -o "$OUT/program" 2>"$OUT/said"; then
      timeout 300 "$OUT/program" >"$OUT/said" 2>&1
      status=$?
    else
      status="not linked"
    fi
    echo "result $name $status"
    [ "$status" = 0 ] || tail -n 12 "$OUT/said"
  done
}
"""


def script_of(compiler, ways, project, out):
    lines = [f"CC={compiler} PROJECT={project} OUT={out}", SCRIPT]
    for way in ways:
        library, tests = WAYS[way]
        if compiler in ("gcc-9", "gcc-10"):  # older than the names of levels
            library = library.replace("-march=x86-64-v3", "-march=haswell")
        if compiler.startswith("gcc"):
            # Its sanitizer's library brings that of C++ along, which tests of plain C must not have.
            library, tests = (text.replace("-fno-sanitize-recover=undefined",
                                           "-fsanitize-undefined-trap-on-error")
                              for text in (library, tests))
        lines.append("way " + " ".join(map(shlex.quote, (way, library, tests, MORE.get(way, TESTS)))))
    return "\n".join([*lines, 'rm -rf "$OUT"', ""])


class Cell:
    """What came of one compiler in one way."""

    def __init__(self, text):
        self.text = text
        results = re.findall(r"^result (\S+) (.+)$", text, re.M)
        self.passed = sum(status == "0" for _, status in results)
        self.failed = [f"{name}: {status}" for name, status in results if status != "0"]
        self.warnings = re.findall(r"^warning (.*(?:warning|error):.*)$", text, re.M)
        if not results:
            self.failed = ["nothing ran"]

    def is_good(self):
        return not self.failed and not self.warnings

    def __str__(self):
        said = [str(self.passed)]
        if self.failed:
            said.append(f"{len(self.failed)} failed")
        if self.warnings:
            said.append(f"{len(self.warnings)} warnings")
        return ", ".join(said)


# ---- where they run -----------------------------------------------------------------------------

class Here:
    """This machine, in the place of a system made by fresh.py."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="compilers-")

    def said(self, compiler, ways):
        script = script_of(compiler, ways, ROOT, f"{self.folder.name}/{compiler.replace('/', '-')}")
        return subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", check=False).stdout


class There:
    """A system of its own, with the compilers in it."""

    def __init__(self, system, compilers):
        self.system = system
        packages = {"gcc-multilib"}  # has start files for clang, and the headers of 32 bits
        for compiler in compilers:
            version = compiler.split("-")[1]
            if compiler.startswith("gcc"):
                packages |= {compiler, f"{compiler}-multilib"}
            else:
                rt = "common" if version in ("13", "15") else "rt"
                packages |= {compiler, f"lld-{version}", f"libclang-{rt}-{version}-dev"}
        system.do("export DEBIAN_FRONTEND=noninteractive; apt-get update -qq && apt-get install -y -qq "
                  f"--no-install-recommends {' '.join(sorted(packages))} >/dev/null", limit=1800)
        system.take_project("/root")

    def said(self, compiler, ways):
        script = script_of(compiler, ways, "/root/mimalloc", f"/tmp/{compiler}")
        status, text = self.system.run(script, limit=2 * 3600)
        return text if status is not None else text + "\nresult all out of time\n"


def rows_of(place, compilers, ways, jobs):
    """The rows of one system, several at a time; the cells that are not as they should be."""
    bad = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for compiler, text in zip(compilers, pool.map(lambda c: place.said(c, ways), compilers)):
            parts = dict(re.findall(r"^way (\S+)\n(.*?)(?=^way |\Z)", text, re.M | re.S))
            cells = {way: Cell(parts.get(way, text)) for way in ways}
            print(f"| {compiler} | " + " | ".join(map(str, cells.values())) + " |", flush=True)
            bad += [(compiler, way, cell) for way, cell in cells.items() if not cell.is_good()]
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    fresh.add_options(parser)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--way", action="append", choices=WAYS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("compilers", nargs="*", metavar="COMPILER")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    known = [compiler for compilers in SUITES.values() for compiler in compilers]
    if options.list:
        print("\n".join(known))
        return 0
    unknown = [] if options.here else [c for c in options.compilers if c not in known]
    if unknown:
        parser.error("no such compiler: " + " ".join(unknown))
    ways = options.way or list(WAYS)
    print("| compiler | " + " | ".join(ways) + " |\n| --- |" + " ---: |" * len(ways), flush=True)
    bad = []
    try:
        if options.here:
            bad = rows_of(Here(), options.compilers or ["cc"], ways, options.jobs)
        for suite, compilers in SUITES.items() if not options.here else ():
            chosen = [c for c in compilers if not options.compilers or c in options.compilers]
            if chosen:
                with fresh.System(suite, options, "ca-certificates") as system:
                    bad += rows_of(There(system, chosen), chosen, ways, options.jobs)
    except fresh.Impossible as reason:
        print(f"compilers: {reason}")
        return 77
    except fresh.Failed as reason:
        print(f"compilers: {reason}")
        return 1
    for compiler, way, cell in bad:
        log = ROOT / "out" / "compilers" / f"{pathlib.Path(compiler).name}-{way}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(cell.text)
        print(f"\n{compiler}, {way}: see {log.relative_to(ROOT)}\n"
              + "\n".join((cell.failed + cell.warnings)[:8]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
