#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tells how much the tests would notice: changes the source in one place and runs them.

  mutate.py [--sample N | --count N] [--seed N] [--minutes N] [--jobs N] [--quick]
            [--tests NAME,...] [--sources] [--survivors] [--least PERCENT] [--table FILE] [--no-run] [FILE|FOLDER...]

FILE is a .c or .h of src, FOLDER one of its folders; all but os are tried where nothing is named. Mutants: a condition negated, a comparison off by one, a statement dropped,
operands exchanged, an order of memory weakened, a return in place of a function's end. A mutant is
compiled once for each build, linked with the other objects, which are kept, into a shared library, and
the test programs, which are kept as well, run on that: of a release, a debug and a secure build, the
last first for what that alone has. Where the compiler makes the same of it in all builds it is no mutant. A changed header is compiled with all of the
library. The first test that fails, crashes or takes four times as long as without a change has killed
the mutant; those that killed others of the file come first. A test that fails without a change
is left out. --quick leaves out tests that take more than 1.5 s of processor time, --sources headers.

--sample takes N mutants of all files together, one of each file first, then any; --count N of each
file: the same ones for the same --seed. Without either all are tried, until --minutes are over.
Results are kept in out/mutate: a run that was stopped goes on where it was; a changed file begins
anew, and what survived is tried again when tests have changed. tools/equivalent.txt lists the changes
that change nothing: no test runs on them, and they do not count as survivors.

Prints a table by file of these mutants, with --survivors the changes that nobody noticed; --table writes one into a
document, by folder and, of the folders base to alloc, by file. Exit status 0; 1 where less than --least percent were killed, or nothing was tried.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "mutate"
EQUIVALENT = ROOT / "tools" / "equivalent.txt"
MARKS = "<!-- mutants: begin (written by `tools/mutate.py --table`) -->\n", "<!-- mutants: end -->\n"
FOLDERS = ("base", "mem", "arena", "page", "heap", "alloc", "host", "service", "api", "profile", "override")
CORE_FOLDERS = FOLDERS[:FOLDERS.index("alloc") + 1]
CC = os.environ.get("CC", "gcc").split()
CXX = os.environ.get("CXX", "g++").split()
BUILDS = {"release": ["-DNDEBUG", "-DMI_BUILD_RELEASE"], "debug": ["-DMI_DEBUG=2"],
          "secure": ["-DNDEBUG", "-DMI_BUILD_RELEASE", "-DMI_SECURE=4"]}
FLAGS = ["-O1", "-w", "-D_GNU_SOURCE", "-fno-builtin-malloc"]
FLAGS_OF = {".c": [*CC, "-std=gnu11", "-Werror=implicit-function-declaration"], ".cpp": [*CXX, "-std=gnu++17"]}
LIBRARY_FLAGS = ["-fPIC", "-ftls-model=initial-exec", "-DMI_STATIC_LIB"]
LINKED = ["-lm", "-lpthread", "-ldl", "-Wl,--build-id=none"]
LINKED_CXX = ["-lstdc++"]
# Of a library to test on: what of the sources is not in it, what else is, and how it is compiled.
KINDS = {"inner": (r"override/", [], []),
         "mocked": (r"override/|os/(linux|libc)\.c", ["test/stress/os/mock_os.c"], []),
         "override": (r"^$", [], ["-DMI_MALLOC_OVERRIDE=1"]),
         "explored": (r"(?!(base|mem|arena|page|heap|alloc|test)/|os/(lock|pause)\.c)",
                      sorted(str(file.relative_to(ROOT)) for file in (ROOT / "test/explore").glob("*.c")
                             if file.name != "engine.c"),
                      ["-fsanitize=thread", "-DMX_EXPLORE", "-include",
                       str(ROOT / "test/explore/atomic_explore.h")])}
# What of a kind is compiled in another way for it.
OWN_FLAGS = {"override": r"(override|api|alloc|service)/",
             "explored": r"(?!test/explore/(model|hooks)\.c)"}
LAYERS = {"fuzz": "model", "api": "api", "unit": "unit", "debug": "unit"}


@dataclasses.dataclass(frozen=True)
class Test:
    """A program of test/ and what runs it: {program} and {library} are put in."""
    name: str
    kind: str = "inner"
    command: tuple = ("{program}",)
    preload: bool = False
    builds: tuple = ("debug", "release", "secure")
    flags: tuple = ()
    static: bool = False  # names that a shared library hides are used
    of_orders: bool = False  # for changes of what orders memory, and for no others
    suffix: str = ".c"
    beside: tuple = ()  # its other sources

    def sources(self):
        return [self.name + self.suffix, *self.beside]

    def texts(self):
        """What it is made of, and compares with."""
        read = [ROOT / "test" / s for s in self.sources()] + [ROOT / c for c in self.command if c.endswith(".txt")]
        return [file.read_text() for file in read]


def replay(name, count):
    corpus = ROOT / "test/fuzz/corpus" / name
    return Test(f"fuzz/{name}", beside=("fuzz/replay.c",), command=("{program}", *([str(corpus)] if corpus.exists() else []),
                                         "--random", str(count), "1"))


def preloaded(name, *arguments, **more):
    return Test(name, kind="override", preload=True, builds=("release", "secure"), command=(*command_of(name), *arguments),
                **{"flags": ("-fno-builtin",), **more})


def by_script(name, script, *arguments, **more):
    return Test(name, kind="override", flags=("-fno-builtin", "-fno-optimize-sibling-calls"), command=(
        sys.executable, str(ROOT / "test" / script), *(arguments or ["{program}"])), **more)


def plain(*names):
    return [Test(name, static=name.startswith(("unit/", "debug/", "memory/")), command=command_of(name))
            for name in names]


def command_of(name):
    """Those that run as long as they are told are run for a moment."""
    return ("{program}", "0.5") if name.startswith("stress/") else ("{program}",)


UNIT = plain(*(f"unit/test_{n}" for n in (
    "bits", "mitigations", "bitmap", "fmt", "reciprocal", "color", "os", "stats", "fields", "options", "log", "api_service", "lock",
    "reentry", "fork_repair", "scavenger", "many_pages", "kept", "claim", "counters", "poisson",
    "dense", "map", "visits", "filters", "host", "zero", "recent", "parked", "parts", "fork_locks", "signals", "runs", "steady", "read_only", "arenas", "search", "valid", "gaps", "places", "accept", "reports", "seldom",
    "retained", "larger", "transfer", "resized", "limits", "refaults", "far", "idle_pages", "fork_later",
    "presence", "spare", "passed", "common", "inside")))
UNIT += [Test("unit/test_table_growth", static=True,
              command=("env", "MIMALLOC_MAX_VABITS=33", "{program}"))]
GUARDED = plain("api/guarded_calls", "api/guarded_handlers")
SAMPLED = plain("api/guarded_sampling")
API = plain(*(f"api/{n}" for n in (
    "basic", "aligned", "edges", "pointers", "zero_sized", "posix", "heap", "arena", "subproc", "hooks",
    "moved", "mappings", "canary", "quarantine", "ends", "resting", "heap_threads", "heap_many", "remote_ring", "cleared",
    "partition", "odd_blocks", "half_freed", "said_sizes", "colors", "common_pages")))
MODEL = [replay("calls", 3), replay("threads", 20), replay("numbers", 30)]
DEBUG = [Test(f"debug/{n}", builds=("debug",), static=True) for n in ("bins", "told", "misuse", "leaks")]
DEBUG += [Test("debug/leaks", builds=("debug",), flags=("-DDYNAMIC",))]
MOCKED = [Test(f"stress/os/{n}", kind="mocked", static=True, builds=("debug",))
          for n in ("refused", "pretended", "slices", "pressure", "newcomer", "guards", "oom")]
MOCKED += [Test("stress/os/hardened", kind="mocked", static=True)]
MOCKED += [Test(f"stress/os/{n}", kind="mocked", static=True) for n in ("times", "rounds")]
COUNTS = ROOT / "test/stress/os/counts.txt"
MOCKED += [Test("stress/os/counts", kind="mocked", static=True, builds=("release", "secure"),
                beside=("stress/os/courses.c",), command=("{program}", str(COUNTS)))]
MOCKED += [Test("stress/os/large", kind="mocked", static=True, builds=("debug", "secure"))]
MOCKED += [Test("stress/os/lent", kind="mocked", static=True, builds=("release",))]
MOCKED += [Test(f"stress/os/{n}", kind="mocked", static=True, builds=builds,
                command=("env", *where, "{program}", "0"))
           for n, where, builds in (("replay", (), Test.builds), ("replay", ("MOCK_SCARCE=1",), ("debug",)),
                                    ("refused", ("MOCK_SCARCE=1",), ("debug",)))]
INSIDE = plain(*(f"stress/api/{n}" for n in ("heaps", "reenter", "subprocs", "requests", "exclusive")),
               "memory/cgroup_test", "memory/remote_sizes")
INSIDE += [Test(f"memory/{n}", builds=("release",), static=True) for n in ("holes_stress", "huge_stress")]
PRELOADED = [preloaded(f"stress/{n}") for n in ("model", "moves", "odd_threads", "grow", "churn", "wander",
                                               "forks", "blowup", "onepage", "pipes")]
NAMES = str(ROOT / "test/gates/override-symbols.txt")
OVERRIDE = [*(preloaded(f"override/{n}", NAMES, suffix=suffix) for n, suffix in (
                ("override", ".c"), ("own_malloc", ".c"), ("override", ".cpp"), ("own_new", ".cpp"))),
            preloaded("override/own_new", NAMES, suffix=".cpp", flags=("-fno-builtin", "-DOWN_ALIGNED")),
            Test("override/mallopt", kind="override", preload=None, builds=("release",), flags=("-fno-builtin",),
                 command=("{program}", "{library}")),
            Test("fuzz/surface", kind="override", beside=("fuzz/replay.c",), preload=None, flags=("-fno-builtin",),
                 command=("env", "FUZZ_LIBRARY={library}", "{program}", "--random", "40", "1"))]
MEMORY = [by_script("memory/option_effects", "memory/options_test.py", builds=("release",)),
          by_script("memory/patterns", "memory/memory_test.py", preload=None, builds=("release",),
                    beside=("memory/replaced.c", "memory/many.c"))]
REPORT = [by_script("report/situations", "report/check_report.py"),
          by_script("report/situations", "report/check_signal.py")]
PROFILE = [*plain("profile/calls", "profile/callbacks", "profile/failing", "profile/damaged"),
           by_script("profile/sites", "profile/check_formats.py", "--library", "{library}", "--without",
                     "{program}", "--with", "{program}", preload=None),
           by_script("profile/pins", "profile/check_pins.py", builds=("release",)),
           by_script("profile/traced", "profile/check_probes.py", "--library", "{library}", "--program",
                     "{program}", preload=None),
           by_script("profile/scenes", "profile/check_triggers.py", "--library", "{library}", "--program",
                     "{program}", preload=None)]
OPTIONS = [Test("options/option_values", command=("{program}", "quick"), static=True)]
EXPLORED = [Test("explore/engine", kind="explored", builds=("release",), static=True, of_orders=True,
                 command=("{program}", "--limit", "0.3", "--random", "0.1"))]
CORE = [*UNIT, *API, *GUARDED, *MODEL[:2], *DEBUG, *MOCKED, *EXPLORED, *INSIDE, *PRELOADED]
# What reaches a file: all of the longest beginning of its name, in this order.
REACHED_BY = {
    "": CORE,
    "alloc/realloc": [*CORE, *PROFILE],
    "alloc/sample": [*CORE, *SAMPLED, *PROFILE],
    "alloc/guarded": [*CORE, *SAMPLED],
    "alloc/harden": [*CORE, *SAMPLED, *PROFILE],
    "arena/purge": [*CORE, *MEMORY],
    "heap/subproc": [*CORE, *PROFILE],
    "heap/fork": [*CORE, Test("api/fork_threads"), preloaded("stress/forks_inside")],
    "heap/trim": [*CORE, *MEMORY],
    "page/pins": [*CORE, *PROFILE],
    "page/holes": [*CORE, *MEMORY],
    **dict.fromkeys(("host", "service", "api", "profile"), [
        *UNIT, *API, Test("api/cxx", suffix=".cpp"), *GUARDED, *MODEL, *DEBUG, *MOCKED, *INSIDE, *REPORT, *PROFILE,
        *OPTIONS, *OVERRIDE, *MEMORY]),
    "override": [*OVERRIDE, *PRELOADED],
}
WANT_PARTS = ("unit/test_log", "unit/test_options")
# What a secure build alone has.
HARDENED = ("base/mitigations", "alloc/guarded", "alloc/harden", "alloc/sample", "alloc/verify",
            "alloc/zero_sized", "arena/partition", "arena/plots", "arena/scatter", "heap/adopt.h",
            "heap/huge_cache", "heap/own_ranges", "heap/resting", "mem/random", "mem/settings",
            "page/blocks", "page/clear", "page/delay", "page/ends",
            "page/freelist", "page/live", "page/padding", "page/slack", "page/state")


# ---- mutants -----------------------------------------------------------------------------------

def exchanged(line):
    """Operands of - in their other order."""
    found = re.search(r"(\b\w[\w>.-]*) - (\w[\w>.-]*\b)(?![\w(\[])", line)
    if found:
        yield line[:found.start()] + f"{found[2]} - {found[1]}" + line[found.end():]


def changes_of(line):
    """(kind, changed line) for one line of code."""
    for found in re.finditer(r"\b(if|while) \(", line):
        end = closing(line, found.end() - 1)
        if end is not None:
            yield "negate", line[:found.end()] + "!(" + line[found.end():end] + ")" + line[end:]
    for old, new in (("<=", "<"), (">=", ">"), (" < ", " <= "), (" > ", " >= "), (" == ", " != "),
                     (" && ", " || "), (" || ", " && ")):
        at = line.find(old)
        if at >= 0 and not line[at - 1:at + 4].strip().startswith(("<<", ">>", "->")):
            yield "compare", line[:at] + new + line[at + len(old):]
    found = re.search(r" ([+-]) 1\b", line)
    if found:
        yield "off by one", line[:found.start()] + line[found.end():]
    if re.fullmatch(r" +[\w>.*\[\]()-]+(\(.*\)| [+|&-]?= [^;]*|\+\+|--);", line) and "return" not in line:
        yield "drop", re.sub(r"^( *)(.*)$", r"\1;  // \2", line)
    for changed in exchanged(line):
        yield "exchange", changed
    for old, new in (("load_acquire(", "load_relaxed("), ("store_release(", "store_relaxed(")):
        if old in line:
            yield "weaken", line.replace(old, new, 1)
    found = re.match(r"( +)return (?!0|NULL|false)(.+);$", line)
    if found:
        yield "answer", f"{found[1]}return 0;"


def closing(line, at):
    depth = 0
    for i in range(at, len(line)):
        depth += {"(": 1, ")": -1}.get(line[i], 0)
        if depth == 0:
            return i
    return None


@dataclasses.dataclass(frozen=True)
class Mutant:
    file: str
    number: int
    kind: str
    changed: str

    def key(self):
        return f"{self.number + 1}: {self.kind}: {self.changed.strip()}"

    def orders(self):
        return self.kind == "weaken" or "mx_fence" in self.changed or "mx_cas" in self.changed


def mutants_of(file):
    for number, line in enumerate((ROOT / "src" / file).read_text().splitlines()):
        code = line.split("//")[0].rstrip()
        # Assertions are tests themselves: a release has none of them. Memory tools are told in other builds.
        if not line.startswith(" ") or re.match(r" *(static const|\{\"|\*|mx_(static_|build_)?(assert|check)|mx_track_|.*\bdefined\(|$)", code):
            continue
        for kind, changed in changes_of(code):
            if changed != code:  # a - a
                yield Mutant(file, number, kind, changed)


def files_of(names):
    """Files of src, of those that this system compiles."""
    found = []
    for name in names or FOLDERS:
        path = ROOT / "src" / name.split("src/")[-1]
        files = sorted([*path.glob("*.c"), *path.glob("*.h")]) if path.is_dir() else [path]
        found += [f.relative_to(ROOT / "src").as_posix() for f in files]
    return [f for f in found if path_is_ours(f) and next(mutants_of(f), None)]


def path_is_ours(file):
    return not re.search(r"windows|macos|wasm|nolibc|missing|override/dlopen|base/(config|compiler|check)\.h", file)


def order_of(files, options):
    """The mutants to try, in order."""
    whole = {}
    for file in files:
        whole[file] = list(mutants_of(file))
        random.Random(f"{options.seed} {file}").shuffle(whole[file])
    if options.sample is None:
        return whole, [m for file in files for m in whole[file][:options.count]]
    first = [whole[file][0] for file in files]
    rest = [m for file in files for m in whole[file][1:]]
    for part in (first, rest):
        random.Random(options.seed).shuffle(part)
    return whole, (first + rest)[:options.sample]


# ---- building ----------------------------------------------------------------------------------

def digest(*parts):
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def headers_of(*folders):
    """Changes with every header: objects are made anew then."""
    return digest(*(f.read_text() for folder in folders for f in sorted((ROOT / folder).rglob("*.h"))))


STAMP, TEST_STAMP = headers_of("src", "include"), headers_of("test")
LOCK, MEASURING = threading.Lock(), threading.Lock()
QUICK = 1.5  # processor seconds of a test that --quick runs, at most
STILL = 40  # seconds in which a test has to do something
BYTES_MOST = 2 << 30  # that a test may touch


def run_quietly(command, **more):
    return subprocess.run([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          stdin=subprocess.DEVNULL, **more).returncode == 0


def compile_one(source, output, flags, sources=ROOT / "src"):
    """Wherever the sources lie the object is the same."""
    flags = [*flags, f"-ffile-prefix-map={sources}={ROOT / 'src'}"]
    return run_quietly([*FLAGS_OF[source.suffix], *FLAGS, *flags, "-I", ROOT / "include", "-I", sources, "-I", sources.parent, "-c", source, "-o", output])


def kept(name, key, make):
    """A file of out/mutate, made by make(path) where it is not there."""
    output = OUT / "kept" / f"{name.replace('/', '-')}-{key}"
    if not output.exists():
        output.parent.mkdir(parents=True, exist_ok=True)
        part = output.with_name(f"{output.name}.{os.getpid()}-{threading.get_ident()}.part")
        if not make(part):
            raise SystemExit(f"does not compile or link: {name}")
        part.rename(output)
    return output


def fresh_object(source, build, flags):
    more = TEST_STAMP if source.is_relative_to(ROOT / "test") else ""
    if source.name in ("static.c", "mocked.c"):
        more = digest(TEST_STAMP, (ROOT / "test/stress/os/mock_os.c").read_text(),
                      *(f.read_text() for f in sorted((ROOT / "src").rglob("*.c"))))
    key = digest(source.read_text(), STAMP + more, build, *FLAGS, *flags)
    return kept(source.relative_to(ROOT).as_posix() + ".o", key,
                lambda part: compile_one(source, part, [*BUILDS[build], *flags]))


def objects_of(build, kind, without=()):
    left_out, more, flags = KINDS[kind]
    for source in [*sorted((ROOT / "src").glob("*/*.c")), *(ROOT / m for m in more)]:
        name = source.relative_to(ROOT / "src" if source.is_relative_to(ROOT / "src") else ROOT).as_posix()
        if name not in without and not re.match(left_out, name):
            own = flags if re.match(OWN_FLAGS.get(kind, ""), name) else []
            yield fresh_object(source, build, [*LIBRARY_FLAGS, *own])


def archive_of(objects):
    """The objects as an archive, of which a program takes what it needs, as those of the build do."""
    return kept("objects.a", digest(*map(str, objects)), lambda part: run_quietly(["ar", "rcsT", part, *objects]))


def link_library(own, objects, folder):
    """A folder with the library, and a list of what programs are linked with that have it inside."""
    folder.mkdir(parents=True, exist_ok=True)
    inside = own
    if objects:  # programs that want parts take a changed one as they take the others: if they need it
        changed = folder / "changed.a"
        if own and not run_quietly(["ar", "rcsT", changed, *own]):
            return False
        inside = ["-Wl,--start-group", *([changed] if own else []), archive_of(objects), "-Wl,--end-group"]
    (folder / "inside").write_text("\n".join(map(str, inside)))
    return run_quietly([*CC, "-shared", "-o", folder / "libunder.so", *own, *objects, *LINKED])


def whole_source(kind, sources):
    """The source that includes all others of a kind."""
    if kind != "mocked":
        return sources / "static.c"
    lines = (ROOT / "src/static.c").read_text().splitlines()
    left_out = re.compile(f'#include "({KINDS[kind][0]})')
    text = "\n".join([*(line for line in lines if not left_out.match(line)),
                      *(f'#include "{m}"' for m in KINDS[kind][1])]) + "\n"
    source = OUT / "mocked.c"
    if not source.exists() or source.read_text() != text:
        source.write_text(text)
    return source


def plain_library(build, kind, is_whole=False):
    """A folder with the library as it is; as one object, as it is tried with a changed header."""
    objects = [fresh_object(whole_source(kind, ROOT / "src"), build, [*LIBRARY_FLAGS, *KINDS[kind][2]])] if is_whole else \
        list(objects_of(build, kind))
    folder = OUT / "kept" / f"plain-{build}-{kind}-{digest(*map(str, objects))}"
    with LOCK:
        if not (folder / "libunder.so").exists() and not link_library([], objects, folder):
            raise SystemExit(f"does not link: {build} {kind}")
    return folder


def compiled_with_change(source, flags):
    output = source.with_suffix(".o")
    if not compile_one(source, output, flags, source.parents[2] / "src"):
        raise SystemExit(f"does not compile: {source}")
    return output


def copy_tests(header, target, sources):
    """Tests that include this header, with the changed sources where they look for them."""
    (target / "src").symlink_to(sources)
    (target / "include").symlink_to(ROOT / "include")
    found = [test for test in (ROOT / "test").glob("*/*.c") if f"/src/{header}" in test.read_text()]
    beside = [file for test in found for file in test.parent.glob("*.h")]
    for file in {*found, *beside, *(ROOT / "test").glob("*.h")}:
        own = target / "test" / file.relative_to(ROOT / "test")
        own.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, own)


class Unlinked(SystemExit):
    """The library has what a program does not link with."""


def program_of(test, build, folder):
    """The program, linked with the library of this folder."""
    flags = [*BUILDS[build], *test.flags]
    changed = folder / "test"  # that includes a changed header
    own = [compiled_with_change(changed / s, flags) if (changed / s).exists() else
           fresh_object(ROOT / "test" / s, build, test.flags) for s in test.sources()]
    if test.static:
        program = folder / test.name.replace("/", "-")
        part = program.with_name(f"{program.name}.{threading.get_ident()}.part")  # others may run it
        if not run_quietly([*CC, "-rdynamic", "-o", part, *own, f"@{folder / 'inside'}", *LINKED]):
            raise (SystemExit if OUT in folder.parents else Unlinked)(f"does not link: {test.name}")
        return part.rename(program)
    more = LINKED_CXX if test.suffix == ".cpp" else []
    linked = [] if test.preload is not False else ["-L", plain_library(build, test.kind), "-lunder"]
    return kept(test.name, digest(build, *flags, *map(str, own), *map(str, linked)), lambda part: run_quietly(
        [*CC, "-rdynamic", "-o", part, *own, *linked, *LINKED, *more]))


# ---- running -----------------------------------------------------------------------------------

def limits(seconds):
    """None of memory, under which the library commits as it does where the system does not overcommit:
    one that takes too much is ended, and before all others where memory is out."""
    def set_them():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        pathlib.Path("/proc/self/oom_score_adj").write_text("1000")
        os.setpgid(0, 0)
    return set_them


def has_too_much(pid):
    try:
        pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return False
    return pages * resource.getpagesize() > BYTES_MOST


def used_by(group):
    """Processor seconds of the processes of a group, as far as they live."""
    ticks = 0
    for file in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def wait_for(child):
    """(status, processor seconds); one that sleeps for long is ended: by the clock alone a busy machine
    and a deadlock look alike."""
    used, since, pause = -1.0, time.monotonic(), 0.005
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid != 0:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode, usage.ru_utime + usage.ru_stime
        if has_too_much(child.pid):
            os.killpg(child.pid, 9)
        if time.monotonic() - since > STILL:
            before, used, since = used, used_by(child.pid), time.monotonic()
            if abs(used - before) < 0.03:
                os.killpg(child.pid, 9)
        time.sleep(pause)
        pause = min(0.2, pause * 1.5)


def run_test(test, build, folder, processor):
    """(whether it passes on the library of this folder, or None where it cannot say; seconds)."""
    library = folder / "libunder.so"
    command = [c.format(program=program_of(test, build, folder), library=library) for c in test.command]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MIMALLOC_")}
    environment.update(LD_LIBRARY_PATH=str(folder), MI_LIB=str(library))
    if test.preload:
        environment["LD_PRELOAD"] = str(library)
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
                             stdin=subprocess.DEVNULL, cwd=folder, preexec_fn=limits(processor))
    status, took = wait_for(child)
    try:
        os.killpg(child.pid, 9)  # what it left behind
    except ProcessLookupError:
        pass
    return None if status == 77 else status == 0, took


TIMES, MEASURED = {}, OUT / "times.json"


def seconds_of(test, build, is_whole):
    """How long a test takes as it is; None: it fails, or has nothing to say here."""
    own = digest(*test.texts())
    key = f"{test.name} {test.command[0:2]} {build} {is_whole} {own} {digest(STAMP + TEST_STAMP)}"
    with LOCK:
        if not TIMES and MEASURED.exists():
            TIMES.update(json.loads(MEASURED.read_text()))
    if key not in TIMES:
        with MEASURING:
            measure(key, test, build, is_whole)
    return TIMES[key]


def measure(key, test, build, is_whole):
    if key in TIMES:  # by now
        return
    good, took, tries = False, 0, 3 * (build in test.builds)
    while good is False and tries > 0:  # a busy machine may fail one
        good, took = run_test(test, build, plain_library(build, test.kind, is_whole), 60)
        tries -= 1
    with LOCK:
        TIMES[key] = took if good else None
        MEASURED.write_text(json.dumps(TIMES, indent=1))
    if good is False and build in test.builds:
        print(f"{test.name} ({build}) fails without any change: left out", file=sys.stderr)


def builds_of(file):
    return ("secure", "debug", "release") if file.startswith(HARDENED) else ("release", "debug", "secure")


def explored_library(build, folder, sources):
    """What the explorer runs, with a changed header: all of it is compiled anew."""
    left_out, more, flags = KINDS["explored"]
    shutil.copytree(ROOT / "test/explore", folder / "test/explore")
    (folder / "src").symlink_to(sources)
    (folder / "include").symlink_to(ROOT / "include")
    objects = []
    for source in [*sorted(sources.glob("*/*.c")), *(folder / m for m in more)]:
        name = source.relative_to(sources if source.is_relative_to(sources) else folder).as_posix()
        if not re.match(left_out, name):
            objects.append(folder / (name.replace("/", "-") + ".o"))
            own = flags if re.match(OWN_FLAGS["explored"], name) else []
            if not compile_one(source, objects[-1], [*BUILDS[build], *LIBRARY_FLAGS, *own], sources):
                return None
    return folder if link_library(objects, [], folder) else None


def mutant_library(mutant, build, kind, folder):
    """A folder with the library with this change, or None: it does not compile."""
    target = folder / build / kind
    sources = folder / "src"
    changed = sources / mutant.file
    flags = [*BUILDS[build], *LIBRARY_FLAGS, *KINDS[kind][2]]
    own = folder / f"{build}-{kind}.o"
    if mutant.file.endswith(".h") and kind == "explored":
        return explored_library(build, target, sources)
    if mutant.file.endswith(".h"):
        source, objects = whole_source(kind, sources), []
        for extra in KINDS[kind][1]:
            (folder / extra).parent.mkdir(parents=True, exist_ok=True)
            for file in [ROOT / extra, *(ROOT / extra).parent.glob("*.h")]:
                shutil.copy(file, (folder / extra).parent)
    else:
        source, objects = changed, list(objects_of(build, kind, (mutant.file,)))
    if not compile_one(source, own, flags, sources):
        return None
    as_it_is = fresh_object(ROOT / "src" / source.relative_to(sources) if source.is_relative_to(sources) else source,
                            build, flags[len(BUILDS[build]):])
    if own.read_bytes() == as_it_is.read_bytes():
        return SAME
    if not link_library([own], objects, target):
        return None
    if mutant.file.endswith(".h"):
        copy_tests(mutant.file, target, sources)
    return target


SAME = "same"  # the compiler makes the same of the change as of the source
KILLS = collections.defaultdict(collections.Counter)


def tests_of(file, build, options):
    tests, is_whole = REACHED_BY[max((p for p in REACHED_BY if file.startswith(p)), key=len)], file.endswith(".h")
    if options.tests:
        tests = [t for t in tests if t.name in options.tests.split(",")]
    if is_whole:  # one object has all, and starts at once
        tests = [t for t in tests if (t.kind in ("inner", "override", "mocked") and t.name not in WANT_PARTS) or t.of_orders]
    named = pathlib.Path(file).stem
    return sorted(tests, key=lambda t: (-KILLS[file][t.name], named not in t.name, "counts" not in t.name,
                                        0 if t.of_orders else seconds_of(t, build, is_whole) or 0))


def judge(mutant, options):
    """The test that kills a mutant: BUILD TEST; "compiler", or None."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copytree(ROOT / "src", folder / "src")
        (folder / "include").symlink_to(ROOT / "include")
        file = folder / "src" / mutant.file
        lines = file.read_text().splitlines()
        lines[mutant.number] = mutant.changed
        file.write_text("\n".join(lines) + "\n")
        is_same = True
        for build in builds_of(mutant.file):
            libraries = {}
            for test in tests_of(mutant.file, build, options):
                if test.of_orders and not mutant.orders():
                    continue
                took = seconds_of(test, build, mutant.file.endswith(".h") and not test.of_orders)
                if took is None or (options.quick and took > QUICK and not test.of_orders):
                    continue
                if test.kind not in libraries:
                    libraries[test.kind] = mutant_library(mutant, build, test.kind, folder)
                if libraries[test.kind] is None:
                    return "compiler"
                if libraries[test.kind] == SAME:
                    continue
                # Twice: on a busy machine one may fail by itself.
                if all(run_test(test, build, libraries[test.kind], int(4 * took + 3))[0] is False
                       for _ in range(2)):
                    KILLS[mutant.file][test.name] += 1
                    return f"{build} {test.name}"
            is_same = is_same and set(libraries.values()) == {SAME}
    return "compiler" if is_same else None


# ---- all of them -------------------------------------------------------------------------------

class Results:
    """What is known of a file's mutants: {key: [what killed it or None, the tests' state]}."""

    def __init__(self, file, options):
        self.path = OUT / "results" / (file.replace("/", "-") + ".json")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.state = digest(STAMP, (ROOT / "src" / file).read_text())
        tests = REACHED_BY[max((p for p in REACHED_BY if file.startswith(p)), key=len)]
        self.tests = digest(TEST_STAMP, str(builds_of(file)), str(options.quick), options.tests or "", *(
            text for t in tests for text in t.texts()))
        known = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.found = known.get("found", {}) if known.get("state") == self.state else {}
        for by, _ in self.found.values():
            if by and by != "compiler":
                KILLS[file][by.split()[1]] += 1

    def is_known(self, key):
        return key in self.found and (self.found[key][0] or self.found[key][1] == self.tests)

    def add(self, key, by):
        with LOCK:
            self.found[key] = [by, self.tests]
            self.path.write_text(json.dumps({"state": self.state, "found": self.found}, indent=1))


def equivalents():
    """{(file, changed line)} of those that change nothing."""
    found = set()
    for line in EQUIVALENT.read_text().splitlines() if EQUIVALENT.exists() else []:
        parts = line.split(": ", 1)
        if not line.startswith(("#", " ")) and len(parts) == 2:
            found.add((parts[0], parts[1].strip()))
    return found


def try_all(todo, results, options):
    same = equivalents()
    end = time.monotonic() + options.minutes * 60 if options.minutes else None

    def one(mutant):
        known = results[mutant.file]
        if not known.is_known(mutant.key()) and not options.no_run and (end is None or time.monotonic() < end):
            start, is_same = time.monotonic(), (mutant.file, mutant.changed.strip()) in same
            try:
                # What is listed has a reason for which no test notices it: none is run.
                by = None if is_same else judge(mutant, options)
            except Unlinked:
                by = "compiler"
            known.add(mutant.key(), by)
            print(f"{mutant.file}:{mutant.key()}: {by or ('changes nothing' if is_same else 'SURVIVED')} ({time.monotonic() - start:.0f} s)",
                  file=sys.stderr, flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in [pool.submit(one, m) for m in todo]:
            done.result()


@dataclasses.dataclass
class Row:
    whole: int = 0
    tried: int = 0
    same: int = 0
    by: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    survived: list = dataclasses.field(default_factory=list)

    def add(self, other):
        self.whole += other.whole
        self.tried += other.tried
        self.same += other.same
        self.by += other.by
        self.survived += other.survived

    def cells(self):
        killed = sum(self.by.values())
        asked = killed + len(self.survived)
        share = f"{killed} ({100 * killed / asked:.0f} %)" if asked else "0"
        by = ", ".join(f"{name} {n}" for name, n in self.by.most_common())
        return f"{self.whole} | {self.tried} | {self.same} | {share} | {len(self.survived)} | {by}"


def row_of(file, whole, chosen, results):
    row, same = Row(len(whole)), equivalents()
    for mutant in chosen:
        known = results.found.get(mutant.key())
        if known is None or known[0] == "compiler":
            continue
        row.tried += 1
        if known[0]:
            name = known[0].split()[1]
            row.by[LAYERS.get(name.split("/")[0], name.split("/")[0])] += 1
        elif (file, mutant.changed.strip()) in same:
            row.same += 1
        else:
            row.survived.append(f"{file}:{mutant.key()}")
    return row


HEAD = "mutants | tried | change nothing | killed | survived | by |\n| --- | ---: | ---: | ---: | ---: | ---: | --- |\n"


def write_table(path, rows):
    text, by_file = "| folder | " + HEAD, "\n| file | " + HEAD
    for folder in FOLDERS:
        total = Row()
        for file, row in rows.items():
            if file.startswith(folder + "/"):
                total.add(row)
                if folder in CORE_FOLDERS and row.tried:
                    by_file += f"| {file} | {row.cells()} |\n"
        text += f"| {folder} | {total.cells()} |\n"
    text += by_file
    document = pathlib.Path(path).read_text()
    before, rest = document.split(MARKS[0])
    pathlib.Path(path).write_text(before + MARKS[0] + text + MARKS[1] + rest.split(MARKS[1])[1])


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("-h", "--help", action="help")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tests")
    parser.add_argument("--sources", action="store_true")
    parser.add_argument("--survivors", action="store_true")
    parser.add_argument("--least", type=float, default=0)
    parser.add_argument("--table")
    parser.add_argument("--no-run", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    files = [f for f in files_of(options.names) if not (options.sources and f.endswith(".h"))]
    whole, todo = order_of(files, options)
    results = {file: Results(file, options) for file in files}
    try_all(todo, results, options)
    rows, total = {file: row_of(file, whole[file], [m for m in todo if m.file == file], results[file])
                   for file in files}, Row()
    print("| file | " + HEAD, end="")
    for file, row in rows.items():
        total.add(row)
        if row.tried:
            print(f"| {file} | {row.cells()} |")
    print(f"| all | {total.cells()} |")
    if options.survivors:
        print("\n".join(total.survived))
    if options.table:
        write_table(options.table, rows)
    killed = sum(total.by.values())
    return 0 if killed and 100 * killed >= options.least * (killed + len(total.survived)) else 1


if __name__ == "__main__":
    sys.exit(main())
