#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Boots real kernels in emulated machines, runs the tests on them, and prints a table.

  kernels.py [--list] [--quick] [--install] [--update] [--programs FOLDER] [--builds NAME,...]
             [--tests REGEX] [--minutes M] [--jobs N] [--wrap COMMAND] [ROW...]

A row is a kernel of a suite of the distribution on a machine: `bookworm` is that suite's kernel on
two processors with 4,000 MB, `trixie-numa` another one on two NUMA nodes. Without ROWs all are run.
The programs are built on this machine, release and secure, into out/kernels/ARCHITECTURE-BUILD, or
are those of FOLDER, a build that has them; --builds chooses among them. The kernels come by apt from the mirror that this
machine uses, into out/kernels/packages, and stay there; --update looks for newer ones. --install
has apt-get bring the emulators and compilers that are missing.

The guests have no disk: programs, libraries and a small first process are in the initial file
system. No hardware acceleration is used, so a test takes five to twenty times as long as here; tests
of stress run for a second each. A kernel that panics while it boots, which the emulator brings about
now and then, is booted again, as is one that dies under a test, which then begins with that test;
twice the same is a failure. A row has M minutes (40). --quick is one row of a few tests, of which
some are left out where the machine is too slow for two minutes. The console of a row is in
out/kernels/ROW.log.

Exit status 0 when all that was run passed, 77 when nothing could be run, or by --quick nothing failed
but the machine was too slow for the tests that have to be run; 1 otherwise.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from kernels import image, machine, packages
from kernels.outcome import Outcome
from kernels.rows import QUICK_ALWAYS, QUICK_LIMIT, QUICK_ROW, QUICK_SECONDS, QUICK_THEN, ROWS

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "kernels"
LABELS = r"unit|api|stress|memory|environment|kernels"
# Those of these labels that look at a system of their own, and not at this one; nor do scripts, which
# judge the build by this machine's tools, but for those of a folder. Ten thousand threads with guards
# take minutes where each change of a mapping is emulated.
LEFT_OUT = r"unit-macos-zone|guarded-faults|stress-((oom|replay)(-scarce)?|churn-sampled)"
SCRIPTS = str(ROOT / "test" / "memory")
CONFIGURE = {"release": ["-DCMAKE_BUILD_TYPE=Release"],
             "secure": ["-DCMAKE_BUILD_TYPE=Release", "-DMI_SECURE=ON"]}
COMPILERS = {"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}
TOOLS = {"amd64": ["qemu-system-x86_64:qemu-system-x86", "x86_64-linux-gnu-gcc:gcc",
                   "readelf:binutils"],
         "arm64": ["qemu-system-aarch64:qemu-system-arm",
                   "aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu",
                   "aarch64-linux-gnu-g++:g++-aarch64-linux-gnu", "readelf:binutils"]}
# What makes tests shorter that have more to do than a kernel is tried by; stress takes seconds.
# The background thread takes a hundredth of the time at most, so it is late where all takes long: what
# has to happen within seconds is not asked of a guest.
ARGUMENTS = {"api-fork-threads": ["8"], "memory-holes": ["2", "1"],
             "memory": ["-survivors_background", "-all_freed_background", "-idle_threads",
                        "-steady_faults"]}
# Programs that are not named after their test.
TARGETS = {"memory": "mimalloc-memory-patterns", "memory-options": "mimalloc-option-effects",
           **{f"environment-{name}": "mimalloc-environment-load"
              for name in ("scenes", "limits", "maps", "waves")}}
MOST_BOOTS = 12
# Loops that repeat themselves end after so many seconds: the slower the guest, the fewer rounds.
ROUNDS = "MI_TEST_SECONDS=20"
SLOWER = 2  # of the time limits, which leave room enough for machines that are not emulated
WRAP = []


class Failure(Exception):
    """Something that should have worked."""


def run(command, log):
    with open(log, "ab") as out:
        out.write((" ".join(map(str, command)) + "\n").encode())
        out.flush()
        return subprocess.run([*WRAP, *command], stdout=out, stderr=subprocess.STDOUT,
                              check=False).returncode


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- tools and programs ------------------------------------------------------------------------

def need(row, architecture, install):
    """The tools of an architecture, by apt-get if wanted."""
    def missing():
        return [t for t in TOOLS[architecture] if not shutil.which(t.split(":")[0])]
    if missing() and install:
        log = OUT / "install.log"
        status = run([ROOT / "cmake" / "need.sh", f"Booting {row}", *missing()], log)
        if status not in (0, 77):
            raise Failure(f"apt-get failed, see {log.relative_to(ROOT)}")
    if missing():
        raise packages.Unavailable("needs " + " ".join(t.split(":")[1] for t in missing()))


def program_of(name, known):
    """The target of a test's program; `known` are all. Tests that share one have names that go on."""
    target = TARGETS.get(name, f"mimalloc-{name}")
    words = set(re.findall(r"[\w-]+", known))
    while target not in words:
        target = target.rpartition("-")[0]
        if target in ("", "mimalloc"):
            raise Failure(f"no program is known for {name}")
    return target


def build(architecture, name, is_wanted, jobs):
    """Builds the programs of the tests that are wanted; the folder that has them."""
    folder = OUT / f"{architecture}-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "build.log"
    log.unlink(missing_ok=True)
    configure = ["cmake", "-S", ROOT, "-B", folder, *CONFIGURE[name], "-DMI_TEST_REAL=no",
                 "-DMI_TEST_GUEST=ON", "-DMI_TEST_FOLDERS=kernels|environment|memory|stress(/(api|os))?"]
    if architecture != "amd64":
        configure.append(f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/toolchains/linux-aarch64.cmake")
    failed = run(configure, log)
    if not failed:
        known = subprocess.run(["cmake", "--build", folder, "--target", "help"], check=True,
                               stdout=subprocess.PIPE, universal_newlines=True).stdout
        targets = sorted({program_of(test["name"], known) for test, _ in listed(folder)
                          if is_wanted(test["name"])})
        failed = run(["cmake", "--build", folder, "--parallel", str(jobs), "--target", "mimalloc",
                      *targets], log)
    if failed:
        raise Failure(f"the build failed, see {log.relative_to(ROOT)}")
    return folder


def listed(folder):
    """The tests of a build that say something about a kernel, with their properties."""
    text = subprocess.run(["ctest", "--show-only=json-v1"], cwd=folder, stdout=subprocess.PIPE,
                          check=True).stdout
    for test in json.loads(text)["tests"]:
        properties = {p["name"]: p["value"] for p in test["properties"]}
        label = "|".join(properties.get("LABELS", []))
        scripts = [w for w in test.get("command", []) if w.endswith((".py", ".sh"))]
        if re.fullmatch(LABELS, label) and not re.fullmatch(LEFT_OUT, test["name"]) and all(
                script.startswith(SCRIPTS) for script in scripts):
            yield test, properties


def built(folder, is_wanted):
    """Those that are wanted: name, words of the command, environment, seconds that they may take."""
    for test, properties in listed(folder):
        if not is_wanted(test["name"]):
            continue
        words = test.get("command", [])
        # What a cross build would start them by is not needed on the real thing.
        own = [i for i, word in enumerate(words) if word.startswith((str(folder), str(ROOT / "test")))]
        if not own or not os.path.exists(words[own[0]]):
            raise Failure(f"{test['name']} is not built in {folder}")
        yield (test["name"], words[own[0]:], properties.get("ENVIRONMENT", []),
               SLOWER * properties.get("TIMEOUT", 300))


# ---- what a guest gets -------------------------------------------------------------------------

def pack(architecture, builds, is_wanted):
    """An image with the wanted programs of the builds, and the lines of the plan that run them."""
    compiler = COMPILERS[architecture]
    init = OUT / f"init-{architecture}"
    if run([compiler, "-O2", "-Wall", "-static", "-o", init, ROOT / "tools/kernels/init.c"],
           OUT / "init.log") != 0:
        raise Failure("the first process of the guests cannot be built, see out/kernels/init.log")
    tests = {}
    archive = None
    for build_name, folder in builds.items():
        archive = archive or image.Image(compiler, folder)
        archive.build = folder
        for name, words, environment, seconds in built(folder, is_wanted):
            if words[0].endswith(".py"):
                if architecture != "amd64":
                    continue  # there is no interpreter for it here
                program, home = archive.script(words[0])
                words = [program, "-S", *words, *ARGUMENTS.get(name, [])]
                environment = [*environment, f"PYTHONHOME={home}", "PYTHONDONTWRITEBYTECODE=1"]
            else:
                words = [*words, *ARGUMENTS.get(name, ["1"] if name.startswith("stress-") else [])]
            for word in [*words, *(e.split("=", 1)[1] for e in environment)]:
                if os.path.isfile(word) and not word.endswith(".py"):
                    archive.program(word)
            tests[f"{build_name}:{name}"] = (seconds, [*environment, ROUNDS], words)
    for name in ("libgcc_s.so.1", "libstdc++.so.6"):  # the former is opened by libpthread
        archive.library(name)
    archive.file(init, "init")
    return archive, tests


def wish(options):
    """Which tests are of interest, by their names."""
    if options.quick:
        return lambda name: name in (*QUICK_ALWAYS, *QUICK_THEN)
    return lambda name: not options.tests or re.search(options.tests, name)


def chosen(tests, row):
    """The tests of a row, those first that were made for its machine."""
    own = row.get("guest", {})
    names = sorted(tests, key=lambda name: name.split(":")[1] not in own)
    for name in names:
        seconds, environment, words = tests[name]
        plain = name.split(":")[1]
        if plain in own:
            yield name, seconds, environment + own[plain][0], words + own[plain][1]
        elif not plain.startswith("kernels-") and re.fullmatch(row.get("tests", ".*"), plain):
            yield name, seconds, environment + row.get("environment", []), words


def quick(tests):
    """The few that show most, the most important ones first. One that hangs is told as such."""
    for name in [*QUICK_ALWAYS, *QUICK_THEN]:
        _, environment, words = tests[f"release:{name}"]
        yield f"release:{name}", QUICK_LIMIT, environment, words


def plan_of(row, modules, wanted, after=None):
    """What the guest does. `after` some seconds the tests of QUICK_THEN do not begin any more."""
    lines = [["module", path] for path in modules] + row.get("setup", [])
    for name, seconds, environment, words in wanted:
        if after and name.split(":")[1] in QUICK_THEN:
            lines.append(["until", str(after)])
            after = None
        lines.append(["run", name, str(int(seconds)), *environment, *words])
    return "".join("\t".join(line) + "\n" for line in lines)


# ---- rows --------------------------------------------------------------------------------------

def tell(name, status, seconds, output):
    if status not in ("0", "77"):
        say("\n".join([f"  {name}: {status} after {seconds} s", *output]))


def boot_all(row, kernel, modules, archive, wanted, outcome, log, end, after=None):
    """Boots as often as it takes until each of the tests has a result."""
    loaded = archive.modules(modules, row.get("modules", []))
    initial = log.with_suffix(".cpio")
    deadly = None
    for boots in range(1, MOST_BOOTS + 1):
        left = [test for test in wanted if test[0] not in outcome.results]
        seconds = end - time.monotonic()
        if not left or seconds < 5:
            break
        archive.write(initial, {"plan": plan_of(row, loaded, left, after)})
        silence = 60 + max(test[1] for test in left)
        told = machine.boot([*WRAP, *machine.command(row["architecture"], kernel, initial, row)],
                            seconds, silence, log, tell)
        initial.unlink()
        outcome.results.update((name, status) for name, (status, _, _) in told.results.items())
        outcome.notes = [f"booted {boots} times"] if boots > 1 else []
        outcome.has_begun = outcome.has_begun or told.begun
        if told.troubles:
            say("\n".join(["  the kernel or the first process said:", *told.troubles]))
        if told.done:
            if told.refused:
                raise Failure("not set up: " + "; ".join(told.refused))
            break
        if told.unfinished and time.monotonic() < end:
            if told.unfinished == deadly:
                outcome.results[deadly] = "the kernel died twice"
            deadly = told.unfinished
    outcome.is_late = time.monotonic() > end - 5


def try_row(name, options, images):
    row = ROWS[name]
    architecture = row["architecture"]
    outcome = Outcome()
    need(name, architecture, options.install)
    if architecture not in images:
        is_wanted = wish(options)
        if options.programs:
            folders = {"release": options.programs.resolve()}
        else:
            folders = {b: build(architecture, b, is_wanted, options.jobs) for b in options.builds}
        images[architecture] = pack(architecture, folders, is_wanted)
    archive, tests = images[architecture]
    suite = packages.Suite(OUT / "packages", row["suite"], architecture, OUT / "packages.log",
                           60 if options.quick else 900)
    outcome.kernel, kernel, modules = suite.kernel(row["package"], options.update)
    for package, programs in row.get("packages", {}).items():
        tree = suite.programs(package, options.update)
        archive = archive.with_programs(tree, programs, package)
    wanted = list(quick(tests) if options.quick else chosen(tests, row))
    outcome.wanted = len(wanted)
    log = OUT / f"{name}.log"
    log.unlink(missing_ok=True)
    begin = time.monotonic()
    try:
        boot_all(row, kernel, modules, archive, wanted, outcome, log, begin + options.minutes * 60,
                 QUICK_SECONDS if options.quick else None)
    finally:
        outcome.seconds = time.monotonic() - begin
    return outcome


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("--list", "--quick", "--install", "--update"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--programs", type=pathlib.Path)
    parser.add_argument("--builds", type=lambda text: text.split(","), default=list(CONFIGURE))
    parser.add_argument("--tests")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--wrap", type=str.split, default=[])
    parser.add_argument("rows", nargs="*", metavar="ROW")
    options = parser.parse_args()
    unknown = [name for name in options.rows if name not in ROWS]
    unknown += [name for name in options.builds if name not in CONFIGURE]
    if unknown:
        parser.error("no such row or build: " + " ".join(unknown))
    options.rows = options.rows or ([QUICK_ROW] if options.quick else list(ROWS))
    options.minutes = options.minutes or (3.5 if options.quick else 40)
    if options.programs or options.quick:
        options.builds = ["release"]
    return options


def main():
    options = arguments()
    if options.list:
        print("\n".join(ROWS))
        return 0
    WRAP[:] = options.wrap
    OUT.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(124))  # takes what it started along
    verdicts, images = set(), {}
    always = [f"release:{name}" for name in QUICK_ALWAYS] if options.quick else None
    print("| row | kernel | passed | failed | not run | seconds | |\n"
          "| --- | --- | ---: | ---: | ---: | ---: | --- |", flush=True)
    for name in options.rows:
        say(f"== {name}")
        try:
            outcome = try_row(name, options, images)
            verdict = outcome.verdict(always)
            columns = outcome.columns(name)
            columns[-1] = "; ".join(filter(None, [verdict == "too slow" and verdict, columns[-1]]))
        except (packages.Unavailable, Failure) as reason:
            # Without rights or without a mirror there is nothing that one could do about it here.
            verdict = "failed" if isinstance(reason, Failure) else "not run"
            columns = [name, "-", "0", "0", "all", "0", str(reason)]
        verdicts.add(verdict)
        print("| " + " | ".join(columns) + " |", flush=True)
    return 1 if "failed" in verdicts else 0 if "passed" in verdicts else 77


if __name__ == "__main__":
    sys.exit(main())
