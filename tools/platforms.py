#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds and tests what this machine can for other platforms, and prints a table.

  platforms.py [--list] [--minutes M] [--jobs N] [ROW...]

Without ROWs all are tried. Nothing is installed: a row whose tools are missing is not run, and the
table says which packages they are in. `zig` is taken from PATH or from the Python package ziglang.

A row builds into out/platforms/ROW and has M minutes (3) for its tests: first those of single
functions and of the interface, then the override and stress programs. What did not get its turn
counts as not run. Under emulation by qemu, stress is left out but for three programs, and the
programs that compare times or start themselves anew.

Exit status 0 when all that was run passed, 1 otherwise.
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
LINE = re.compile(r"Test\s+#\d+: (\S+) \.*\s*(Passed|\*\*\*[\w ]+?)\s+\d")


def cross(processor, triple):
    return {"toolchain": f"linux-{processor}", "stress": "onepage|churn|heaps",
            "needs": [f"{triple}-gcc:gcc-{triple}", f"{triple}-g++:g++-{triple}",
                      f"qemu-{processor}-static:qemu-user-static"]}


MUSL = {"toolchain": "linux-musl", "needs": ["musl-gcc:musl-tools"]}
ROWS = {
    "linux-x86_64": {},
    "linux-clang": {"toolchain": "../clang", "needs": ["clang-19|clang:clang"]},
    "linux-16k-pages": {"args": ["-DMI_EXTRA_CPPDEFS=MI_OS_PAGE_SIZE=16384"]},
    "linux-64k-pages": {"args": ["-DMI_EXTRA_CPPDEFS=MI_OS_PAGE_SIZE=65536"]},
    "linux-posix": {"args": ["-DMI_EXTRA_CPPDEFS=MI_OS_POSIX"]},
    "linux-musl": MUSL,
    "linux-musl-static": {**MUSL, "args": ["-DCMAKE_EXE_LINKER_FLAGS=-static"]},
    "linux-musl-static-pie": {**MUSL, "args": ["-DCMAKE_EXE_LINKER_FLAGS=-static-pie"]},
    "linux-i386": {"toolchain": "linux-i386", "needs": [
        "i686-linux-gnu-gcc:gcc-i686-linux-gnu", "i686-linux-gnu-g++:g++-i686-linux-gnu",
        "/lib/ld-linux.so.2:libc6-i386", "/usr/lib32/libstdc++.so.6:lib32stdc++6"]},
    "linux-aarch64": cross("aarch64", "aarch64-linux-gnu"),
    "linux-arm": cross("arm", "arm-linux-gnueabihf"),
    "linux-riscv64": cross("riscv64", "riscv64-linux-gnu"),
    "linux-ppc64le": cross("ppc64le", "powerpc64le-linux-gnu"),
    "linux-s390x": cross("s390x", "s390x-linux-gnu"),
    "windows-x86_64": {"toolchain": "windows-x86_64", "needs": [
        "x86_64-w64-mingw32-gcc:mingw-w64", "wine:wine"]},
    "wasi": {"wasm": "wasi", "needs": ["zig:", "node:nodejs"]},
    "emscripten": {"wasm": "emscripten", "needs": ["emcc:emscripten", "node:nodejs"]},
    "macos-arm64": {"zig": "aarch64-macos", "needs": ["zig:"]},
    "macos-x86_64": {"zig": "x86_64-macos", "needs": ["zig:"]},
    "freebsd-x86_64": {"zig": "x86_64-freebsd", "needs": ["zig:"]},
    "netbsd-x86_64": {"zig": "x86_64-netbsd", "needs": ["zig:"]},
    "android-arm64": {"never": "needs the NDK, which is not packaged"},
}
# Without threads and processes these remain.
WASM_TESTS = ["unit/test_os.c", "unit/test_fmt.c", "unit/test_stats.c", "unit/test_api_service.c",
              "unit/test_macos_zone.c", "api/basic.c", "api/heap.c", "api/posix.c",
              "api/new_in_c.c"]
C_FLAGS = ["-std=gnu11", "-O2", "-DNDEBUG", "-DMI_BUILD_RELEASE", "-D_GNU_SOURCE", "-Wall",
           "-Wextra", "-Wno-date-time", "-fno-builtin-malloc", "-I" + str(ROOT / "include"),
           "-I" + str(ROOT / "src")]


class Result:
    def __init__(self, built="no", passed=0, failed=(), left=0, note=""):
        self.built, self.passed, self.failed = built, passed, list(failed)
        self.left, self.note = left, note

    def columns(self):
        ran = self.passed + len(self.failed)
        note = "; ".join(filter(None, [" ".join(self.failed), self.note]))
        return [self.built, str(ran), str(self.passed), str(len(self.failed)), str(self.left), note]


# ---- tools ------------------------------------------------------------------------------------

def zig():
    if shutil.which("zig"):
        return ["zig"]
    return [sys.executable, "-m", "ziglang"] if importlib.util.find_spec("ziglang") else None


def missing(row):
    """The packages of the tools that are not there."""
    packages = []
    for need in row.get("needs", []):
        things, package = need.rsplit(":", 1)
        if things == "zig":
            if zig() is None:
                packages.append("ziglang (PyPI)")
        elif things.startswith("/"):
            if not os.path.exists(things):
                packages.append(package)
        elif not any(shutil.which(t) for t in things.split("|")):
            packages.append(package)
    return sorted(set(packages))


def run(command, log, limit, **options):
    """The status of a command whose output goes to a log; None when its time was over."""
    with open(log, "ab") as out:
        out.write((" ".join(map(str, command)) + "\n").encode())
        out.flush()
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT,
                                   start_new_session=True, **options)
        try:
            return process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None


# ---- rows that CMake builds -------------------------------------------------------------------

def count_tests(folder, selection):
    listing = subprocess.run(["ctest", "-N", *selection], cwd=folder, text=True,
                             stdout=subprocess.PIPE, check=False).stdout
    match = re.search(r"Total Tests: (\d+)", listing)
    return int(match.group(1)) if match else 0


def cmake_row(name, row, options):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "platform.log"
    log.unlink(missing_ok=True)
    configure = ["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
                 "-DMI_TEST_REAL=no", *row.get("args", [])]
    if "toolchain" in row:
        configure.append(f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/toolchains/{row['toolchain']}.cmake")
    if run(configure, log, 600) != 0 or run(
            ["cmake", "--build", folder, "--parallel", str(options.jobs)], log, 3600) != 0:
        return Result(note=f"see {log.relative_to(ROOT)}")
    stress = row.get("stress", ".")
    rounds = [["-L", "^(unit|api|gates|override|windows)$", "-E", "^(api-headers|gate-.*)$"],
              ["-L", "^stress$", "-R", f"({stress})"]]
    end = time.monotonic() + options.minutes * 60
    result = Result(built="yes")
    left_by_choice = count_tests(folder, ["-L", "^stress$"]) - count_tests(folder, rounds[1])
    for selection in rounds:
        part = folder / "ctest.log"
        part.unlink(missing_ok=True)
        limit = max(1, end - time.monotonic())
        run(["ctest", "--timeout", "120", "-j", str(options.jobs), *selection], part, limit,
            cwd=folder)
        seen = LINE.findall(part.read_text(errors="replace"))
        result.passed += sum(state == "Passed" for _, state in seen)
        skipped = [test for test, state in seen if "Skipped" in state]
        result.failed += [t for t, state in seen if state != "Passed" and t not in skipped]
        result.left += count_tests(folder, selection) - len(seen) + len(skipped)
    result.left += left_by_choice
    if result.left:
        result.note = "the others need more time, or more than the emulator has" if (
            left_by_choice) else "skipped, or out of time"
    return result


# ---- WebAssembly ------------------------------------------------------------------------------

def wasm_row(name, row, options):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "platform.log"
    log.unlink(missing_ok=True)
    if row["wasm"] == "wasi":
        compiler, suffix = [*zig(), "cc", "-target", "wasm32-wasi", "-fno-sanitize=undefined"], "wasm"
        link = ["-Wl,-z,stack-size=1048576"]
        # node 20 crashes now and then in any program that grows its memory, unless it has one thread.
        start = ["node", "--no-warnings", "--single-threaded", str(ROOT / "tools" / "wasi.mjs")]
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
    for test in WASM_TESTS:
        program = folder / (pathlib.Path(test).stem + "." + suffix)
        stem = pathlib.Path(test).stem
        if time.monotonic() > end:
            result.left += 1
        elif run([*compiler, *C_FLAGS, ROOT / "test" / test, library, *link, "-o", program],
                 log, 300) != 0 or run([*start, program], log, 120) != 0:
            result.failed.append(stem)
        else:
            result.passed += 1
    return result


# ---- what can only be compiled ----------------------------------------------------------------

def zig_row(name, row, options):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "platform.log"
    log.unlink(missing_ok=True)
    flags = ["-DMI_MALLOC_OVERRIDE=1", "-DMI_OSX_ZONE=1", "-DMI_OSX_INTERPOSE=1", "-DMI_SHARED_LIB",
             "-DMI_SHARED_LIB_EXPORT", "-Werror", "-fPIC", "-fvisibility=hidden",
             "-fno-sanitize=undefined"]
    compiler = [*zig(), "cc", "-target", row["zig"]]
    done = run([*compiler, *C_FLAGS, *flags, "-shared", ROOT / "src" / "static.c", "-o",
                folder / "libmimalloc.shared"], log, 900) == 0
    return Result(built="yes" if done else "no",
                  note="compiled and linked, not run" if done else f"see {log.relative_to(ROOT)}")


def try_row(name, options):
    row = ROWS[name]
    if "never" in row:
        return Result(built="-", note=row["never"])
    packages = missing(row)
    if packages:
        return Result(built="-", note="not run: needs " + " ".join(packages))
    kind = wasm_row if "wasm" in row else zig_row if "zig" in row else cmake_row
    return kind(name, row, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    options = parser.parse_args()
    unknown = [name for name in options.rows if name not in ROWS]
    if unknown:
        parser.error("no such row: " + " ".join(unknown))
    if options.list:
        print("\n".join(ROWS))
        return 0
    failed = False
    print("| platform | built | run | passed | failed | not run | |\n"
          "| --- | --- | ---: | ---: | ---: | ---: | --- |")
    for name in options.rows or ROWS:
        result = try_row(name, options)
        failed = failed or result.built == "no" or bool(result.failed)
        print(f"| {name} | " + " | ".join(result.columns()) + " |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
