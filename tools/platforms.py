#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds and tests what this machine can for other platforms, and prints a table.

  platforms.py [--list] [--quick] [--install] [--prepare] [--minutes M] [--jobs N] [--wrap COMMAND] [ROW...]

Without ROWs all are tried. A row whose tools are missing is not run, and the table says which
packages they are in; --install has apt-get bring them first. `zig` is taken from PATH or from the
Python package ziglang, which --install puts into out/platforms/venv. --prepare does only that: it
brings what the rows need, and ends with status 77 and a list where it cannot. --quick builds and runs a few
tests of each row: the basic calls, the model and a stress program with threads, and all tests of
the interface where nothing is emulated.

A row builds into out/platforms/ROW and has M minutes (5) for the tests of single functions, of the
interface and of overriding, and as many for the stress programs. What did not get its turn counts
as not run. Under emulation by qemu four stress programs are run (one more, churn, starts thousands
of threads, whose memory that emulator keeps, whatever malloc there is). COMMAND is put before each
build and each run of tests: --wrap "nice -n 19".

Exit status 0 when all that was run passed, 1 otherwise; what tests printed that failed goes to the
error output.
"""

import argparse
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "platforms"
ZIGLANG = "ziglang (PyPI)"
# "Passed", "***Failed", "***Skipped", "Subprocess aborted***Exception:" ...
LINE = re.compile(r"Test\s+#\d+: (\S+) \.*\s*(Passed|[\w ]*\*\*\*[^\d\n]+?)\s+\d")


def cross(processor, triple):
    return {"toolchain": f"linux-{processor}", "stress": "model|onepage|pipes|heaps",
            "quick": "api-basic|stress-model|stress-heaps",
            "needs": [f"{triple}-gcc:gcc-{triple}", f"{triple}-g++:g++-{triple}",
                      f"qemu-{processor}-static|qemu-{processor}:qemu-user-static|qemu-user"]}


QUICK = "api-.*|stress-model|stress-heaps"
MUSL = {"toolchain": "linux-musl", "needs": ["musl-gcc:musl-tools"]}
ROWS = {
    "linux-x86_64": {},
    "linux-clang": {"toolchain": "../clang", "needs": ["clang-19|clang:clang"]},
    "linux-16k-pages": {"args": ["-DMI_EXTRA_CPPDEFS=MI_OS_PAGE_SIZE=16384"]},
    "linux-64k-pages": {"args": ["-DMI_EXTRA_CPPDEFS=MI_OS_PAGE_SIZE=65536"]},
    "linux-posix": {"args": ["-DMI_EXTRA_CPPDEFS=MI_OS_POSIX"]},
    "linux-musl": MUSL,
    "linux-musl-static": {**MUSL, "args": [
        "-DCMAKE_EXE_LINKER_FLAGS=-static", "-DMI_BUILD_SHARED=OFF"]},
    "linux-musl-static-pie": {**MUSL, "args": [
        "-DCMAKE_EXE_LINKER_FLAGS=-static-pie", "-DMI_BUILD_SHARED=OFF"]},
    "linux-i386": {"toolchain": "linux-i386", "needs": [
        "i686-linux-gnu-gcc:gcc-i686-linux-gnu", "i686-linux-gnu-g++:g++-i686-linux-gnu",
        "/lib/ld-linux.so.2:libc6-i386", "/usr/lib32/libstdc++.so.6:lib32stdc++6"]},
    "linux-aarch64": cross("aarch64", "aarch64-linux-gnu"),
    "linux-arm": cross("arm", "arm-linux-gnueabihf"),
    "linux-riscv64": cross("riscv64", "riscv64-linux-gnu"),
    "linux-ppc64le": cross("ppc64le", "powerpc64le-linux-gnu"),
    "linux-s390x": cross("s390x", "s390x-linux-gnu"),
    "windows-x86_64": {
        "toolchain": "windows-x86_64",
        "quick": "api-basic|stress-model|stress-model-dynamic|stress-heaps|windows-.*",
        "targets": ["minject", "other", "redirect", "mimalloc-windows-dll"],
        # Two programs that are wine's first ones are in each other's way.
        "first": ["wineboot", "--init"],
        "needs": ["x86_64-w64-mingw32-gcc-posix:gcc-mingw-w64-x86-64-posix",
                  "x86_64-w64-mingw32-g++-posix:g++-mingw-w64-x86-64-posix", "wine:wine"]},
    "windows-x86": {"one": ["i686-w64-mingw32-gcc-posix", "-static-libgcc", "-DMI_WIN_REDIRECT=1"],
                    "needs": ["i686-w64-mingw32-gcc-posix:gcc-mingw-w64-i686-posix"]},
    "wasi": {"wasm": "wasi", "needs": ["zig:", "node:nodejs"]},
    "emscripten": {"wasm": "emscripten", "needs": ["emcc:emscripten", "node:nodejs"]},
    "macos-arm64": {"zig": "aarch64-macos", "needs": ["zig:"]},
    "macos-x86_64": {"zig": "x86_64-macos", "needs": ["zig:"]},
    "freebsd-x86_64": {"zig": "x86_64-freebsd", "needs": ["zig:"]},
    "netbsd-x86_64": {"zig": "x86_64-netbsd", "needs": ["zig:"]},
    "android-arm64": {"never": "needs the NDK, which is not packaged"},
}
# Without threads and processes these remain.
WASM_TESTS = ["api/basic.c", "stress/model.c", "api/heap.c", "unit/test_os.c", "unit/test_fmt.c",
              "unit/test_stats.c", "unit/test_api_service.c", "unit/test_macos_zone.c",
              "api/posix.c", "api/moved.c", "api/new_in_c.c"]
WASM_QUICK = WASM_TESTS[:3]
C_FLAGS = ["-std=gnu11", "-O2", "-DNDEBUG", "-DMI_BUILD_RELEASE", "-D_GNU_SOURCE", "-Wall",
           "-Wextra", "-Wno-date-time", "-fno-builtin-malloc", "-I" + str(ROOT / "include"),
           "-I" + str(ROOT / "src")]


MOST_PRINTED = 4000
# What a test that failed printed: behind its line, to the next test's or the end.
FAILED = re.compile(r"^ *\d+/\d+ Test +#\d+: \S+ \.*[\w ]*\*\*\*(?!Skipped).*?"
                    r"(?=^ *\d+/\d+ Test|^ +Start +\d+|^\d+% tests passed|\Z)", re.M | re.S)


class Result:
    def __init__(self, built="no", passed=0, failed=(), left=0, note=""):
        self.built, self.passed, self.failed = built, passed, list(failed)
        self.left, self.skipped, self.note = left, 0, note
        self.output = []  # of tests that failed

    def columns(self):
        ran = self.passed + len(self.failed)
        note = "; ".join(filter(None, [" ".join(self.failed), self.note.strip()]))
        return [self.built, str(ran), str(self.passed), str(len(self.failed)),
                str(self.left + self.skipped), note]


# ---- tools ------------------------------------------------------------------------------------

def zig():
    if shutil.which("zig"):
        return ["zig"]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang"]
    own = OUT / "venv" / "bin" / "python3"
    return [own, "-m", "ziglang"] if own.exists() else None


def install(purpose, packages):
    """Brings packages of the distribution, and those of PyPI into a folder of the build."""
    wanted = [p for p in packages if p != ZIGLANG]
    if ZIGLANG in packages and importlib.util.find_spec("ensurepip") is None:
        wanted.append("python3-venv")
    status = 0
    if wanted:
        status = subprocess.call([ROOT / "cmake" / "need.sh", purpose,
                                  *(f"/no/such/file/{p}:{p}" for p in wanted)], stdout=sys.stderr)
    if ZIGLANG in packages and status == 0:
        OUT.mkdir(parents=True, exist_ok=True)
        log, venv = OUT / "install.log", OUT / "venv"
        if run([sys.executable, "-m", "venv", venv], log, 120) != 0 or run(
                [venv / "bin" / "pip", "install", "-q", "ziglang==0.15.2"], log, 300) != 0:
            shutil.rmtree(venv, ignore_errors=True)


def missing(row):
    """The packages of the tools that are not there."""
    packages = []
    for need in row.get("needs", []):
        things, package = need.rsplit(":", 1)
        if things == "zig":
            if zig() is None:
                packages.append(ZIGLANG)
        elif things.startswith("/"):
            if not os.path.exists(things):
                packages.append(package)
        elif not any(shutil.which(t) for t in things.split("|")):
            packages.append(package)
    return sorted(set(packages))


WRAP = []


def run(command, log, limit, **options):
    """The status of a command whose output goes to a log; None when its time was over."""
    with open(log, "ab") as out:
        out.write((" ".join(map(str, command)) + "\n").encode())
        out.flush()
        process = subprocess.Popen([*WRAP, *command], stdout=out, stderr=subprocess.STDOUT,
                                   start_new_session=True, **options)
        try:
            return process.wait(timeout=limit)
        except BaseException as reason:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(reason, subprocess.TimeoutExpired):
                return None
            raise


# ---- rows that CMake builds -------------------------------------------------------------------

def tests_of(folder, selection):
    listing = subprocess.run(["ctest", "-N", *selection], cwd=folder, text=True,
                             stdout=subprocess.PIPE, check=False).stdout
    return re.findall(r"Test +#\d+: (\S+)", listing)


def fresh_folder(name):
    """Where a row builds, and its log, which begins anew."""
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "platform.log"
    log.unlink(missing_ok=True)
    return folder, log


def cmake_row(name, row, options):
    folder, log = fresh_folder(name)
    configure = ["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
                 "-DMI_TEST_REAL=no", "-DMI_TEST_FOLDERS=override|windows|stress(/api)?",
                 *row.get("args", [])]
    if "toolchain" in row:
        configure.append(f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/toolchains/{row['toolchain']}.cmake")
    failed = Result(note=f"see {log.relative_to(ROOT)}")
    if run(configure, log, 600) != 0:
        return failed
    headers = ["-E", "^(api-headers|api-cost|api-instructions|gate-.*)$"]
    stress = row.get("stress", ".*")
    rounds = [["-L", "^(unit|api|gates|override|windows)$", *headers],
              ["-L", "^stress$", "-R", f"^stress-({stress})(-dynamic|-background)?$"]]
    build = ["cmake", "--build", folder, "--parallel", str(options.jobs)]
    if options.quick:
        rounds = [["-R", f"^({row.get('quick', QUICK)})$", *headers]]
        tests = [t for t in tests_of(folder, rounds[0]) if not t.startswith("windows-")]
        build += ["--target", *(f"mimalloc-{t}" for t in tests), *row.get("targets", [])]
        if "targets" in row:
            build.append("mimalloc-windows-code")
    if run(build, log, 3600) != 0:
        return failed
    if "first" in row:
        run(row["first"], log, 300)
    result = Result(built="yes")
    chosen = sum(len(tests_of(folder, selection)) for selection in rounds)
    left_by_choice = len(tests_of(folder, headers)) - chosen
    for selection in rounds:
        part = folder / "ctest.log"
        part.unlink(missing_ok=True)
        run(["ctest", "--output-on-failure", "--timeout", "300", "-j", str(options.jobs),
             *selection], part, options.minutes * 60, cwd=folder)
        printed = part.read_text(errors="replace")
        seen = LINE.findall(printed)
        result.output += FAILED.findall(printed)
        result.passed += sum(state == "Passed" for _, state in seen)
        skipped = [test for test, state in seen if "Skipped" in state]
        result.failed += [t for t, state in seen if state != "Passed" and t not in skipped]
        result.left += len(tests_of(folder, selection)) - len(seen)
        result.skipped += len(skipped)
        if skipped:
            result.note += "skipped: " + " ".join(skipped) + " "
    if left_by_choice and not options.quick:
        result.note += f"{left_by_choice} stress tests left out "
    if result.left:
        result.note += f"{result.left} out of time"
    if not options.quick:
        result.left += left_by_choice
    return result


# ---- WebAssembly ------------------------------------------------------------------------------

def wasm_row(name, row, options):
    folder, log = fresh_folder(name)
    if row["wasm"] == "wasi":
        compiler = [*zig(), "cc", "-target", "wasm32-wasi", "-fno-sanitize=undefined"]
        suffix = "wasm"
        link = ["-Wl,-z,stack-size=1048576"]
        # node 20 crashes now and then in any program that grows its memory, unless it is told to
        # have one thread.
        start = ["node", "--no-warnings", "--single-threaded",
                 "--experimental-wasi-unstable-preview1", str(ROOT / "tools" / "wasi.mjs")]
    else:
        compiler, suffix = ["emcc"], "js"
        link = ["-O1", "-sALLOW_MEMORY_GROWTH=1", "-sTOTAL_STACK=1048576", "-sEXIT_RUNTIME=1"]
        start = ["node", "--no-experimental-fetch"]
    # The override is in the library, so the programs' own malloc is it, too.
    library = folder / "mimalloc.o"
    if run([*compiler, *C_FLAGS, "-DMI_MALLOC_OVERRIDE=1", "-c", ROOT / "src" / "static.c", "-o",
            library], log, 900) != 0:
        return Result(note=f"see {log.relative_to(ROOT)}")
    result = Result(built="yes", note="one thread; tests with threads or processes are left out")
    end = time.monotonic() + options.minutes * 60 * 2
    # Stress programs call malloc; a C library that is linked as a whole may have it first.
    by_name = [x for name in ("stdlib.h", "string.h", "malloc.h", "mimalloc-override.h")
               for x in ("-include", name)]
    for test in WASM_QUICK if options.quick else WASM_TESTS:
        program = folder / (pathlib.Path(test).stem + "." + suffix)
        stem = pathlib.Path(test).stem
        if time.monotonic() > end:
            result.left += 1
        elif run([*compiler, *C_FLAGS, *(by_name if test.startswith("stress") else []),
                  ROOT / "test" / test, library, *link, "-o", program],
                 log, 300) != 0 or run([*start, program], log, 120) != 0:
            result.failed.append(stem)
        else:
            result.passed += 1
    return result


# ---- what can only be compiled ----------------------------------------------------------------

def compiled_row(name, row, options):
    folder, log = fresh_folder(name)
    flags = ["-DMI_MALLOC_OVERRIDE=1", "-DMI_OSX_ZONE=1", "-DMI_OSX_INTERPOSE=1", "-DMI_SHARED_LIB",
             "-DMI_SHARED_LIB_EXPORT", "-Werror"]
    libraries = []
    if "zig" in row:
        compiler = [*zig(), "cc", "-target", row["zig"], "-fno-sanitize=undefined", "-fPIC",
                    "-fvisibility=hidden"]
    else:
        compiler, libraries = row["one"], ["-ladvapi32"]
    done = run([*compiler, *C_FLAGS, *flags, "-shared", ROOT / "src" / "static.c", "-o",
                folder / "libmimalloc.shared", *libraries], log, 900) == 0
    return Result(built="yes" if done else "no",
                  note="compiled and linked, not run" if done else f"see {log.relative_to(ROOT)}")


def try_row(name, options):
    row = ROWS[name]
    if "never" in row:
        return Result(built="-", note=row["never"])
    packages = missing(row)
    if packages and options.install:
        install(f"The platform {name}", packages)
        packages = missing(row)
    if packages:
        return Result(built="-", note="not run: needs " + " ".join(packages))
    if "wasm" in row:
        return wasm_row(name, row, options)
    if "zig" in row or "one" in row:
        return compiled_row(name, row, options)
    return cmake_row(name, row, options)


def prepare(rows):
    install("Testing other platforms", sorted({p for name in rows for p in missing(ROWS[name])}))
    packages = sorted({p for name in rows for p in missing(ROWS[name])})
    if packages:
        print(f"Not installed for other platforms: {' '.join(packages)}")
    return 77 if packages else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--wrap", type=str.split, default=[])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    options = parser.parse_args()
    WRAP[:] = options.wrap
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(124))  # takes what it started along
    unknown = [name for name in options.rows if name not in ROWS]
    if unknown:
        parser.error("no such row: " + " ".join(unknown))
    if options.list:
        print("\n".join(ROWS))
        return 0
    if options.prepare:
        return prepare(options.rows or ROWS)
    failed = False
    print("| platform | built | run | passed | failed | not run | |\n"
          "| --- | --- | ---: | ---: | ---: | ---: | --- |")
    for name in options.rows or ROWS:
        result = try_row(name, options)
        failed = failed or result.built == "no" or bool(result.failed)
        print(f"| {name} | " + " | ".join(result.columns()) + " |", flush=True)
        for text in result.output:
            print(text[-MOST_PRINTED:].rstrip(), file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
