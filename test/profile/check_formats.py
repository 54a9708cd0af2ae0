#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Profiles of programs whose call stacks are known, in every format, read by independent readers.

  check_formats.py --library LIBRARY --without PROGRAM --with PROGRAM

The programs are sites.c, built without and with frame pointers.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pprof

failures = 0


def expect(holds, what):
    global failures
    if not holds:
        failures += 1
        print(f"FAIL: {what}", flush=True)


def run(options, program, folder, name, **extra):
    """Runs a program under the profiler; the folder's files afterwards, and what it said."""
    environment = {key: value for key, value in os.environ.items()
                   if not key.lower().startswith("mimalloc_")}
    environment.update(LD_PRELOAD=str(options.library), MIMALLOC_PROF="1",
                       MIMALLOC_PROF_RATE="64KiB", MIMALLOC_SHOW_ERRORS="1")
    if name is not None:
        environment["MIMALLOC_PROF_FILE"] = str(folder / name)
    environment.update(extra)
    result = subprocess.run([program, "4"], env=environment, stderr=subprocess.PIPE, text=True)
    expect(result.returncode == 0, f"{program} {name} {extra}: ends with {result.returncode}")
    return sorted(p.name for p in folder.iterdir()), result.stderr


class Symbols:
    """The functions of a program by their place in its file."""

    def __init__(self, program):
        listing = subprocess.run(["nm", program], check=True, text=True, stdout=subprocess.PIPE)
        rows = [line.split() for line in listing.stdout.splitlines()]
        self.starts = sorted((int(row[0], 16), row[2]) for row in rows if len(row) == 3)
        headers = subprocess.run(["readelf", "-lW", program], check=True, text=True,
                                 stdout=subprocess.PIPE).stdout
        self.segments = [(int(offset, 16), int(address, 16)) for offset, address in
                         re.findall(r"LOAD\s+(0x\w+) (0x\w+) .* R E", headers)]

    def name(self, place):
        return max((s for s in self.starts if s[0] <= place), default=(0, "?"))[1]


def named_stacks(profile, program):
    """The samples with names for the addresses of the program, the innermost first."""
    symbols = Symbols(program)
    path = os.path.realpath(program)
    own = [m for m in profile.mappings if os.path.realpath(m.path) == path]
    expect(own and profile.mappings[0] == own[0], "the program's is the first mapping")

    def name(address):
        for m in own:
            if m.start <= address < m.limit:
                base = m.start - m.offset
                for offset, virtual in symbols.segments:
                    return symbols.name(address - base - offset + virtual)
        return "-"
    return [([name(a) for a in s.stack], s.values) for s in profile.samples]


# What sites.c keeps with an argument of 4, by the function that calls, and passes through.
TRUTH = {"keep_small": (4 * 20000, 4 * 20000 * 200), "keep_large": (40, 40 * (3 << 20)),
         "pass_through": (0, 0), "keep_others": (16000, 4000 * (5000 + 5000 + 5056 + 8192)),
         "keep_varying": (16000, 16000 * 3000)}
BELOW = {"keep_others": [], "keep_varying": ["inner", "beside"]}
PASSED = 4 * 20000 * 1000


def check_sums(stacks, where):
    sums = {}
    for names, values in stacks:
        callers = [n for n in TRUTH if n in names]
        expect(len(callers) == 1, f"{where}: a stack without its caller: {names}")
        if len(callers) != 1:
            continue
        at = names.index(callers[0])
        wanted = BELOW.get(callers[0], ["inner"])
        expect(names[:at] == wanted, f"{where}: innermost are {names[:at]}")
        expect(names[at:at + 3] == [callers[0], "outer", "main"], f"{where}: then {names[at:]}")
        total = sums.setdefault(callers[0], [0, 0, 0, 0])
        for i, value in enumerate(values):
            total[i] += value
    expect(set(sums) == set(TRUTH), f"{where}: stacks of {sorted(sums)}")
    for caller, (objects, size) in TRUTH.items():
        got = sums.get(caller, [0, 0, 0, 0])
        # Of n samples the sum is off by a share of 5/sqrt(n) once in two million times.
        most = 5 / max(size / 65536, 1) ** 0.5
        expect(abs(got[3] - size) <= most * size, f"{where}: {caller} holds {got[3]} of {size}")
        if caller == "keep_large":
            expect(got[2] == objects, f"{where}: {got[2]} large blocks of {objects}")
    passed = sums.get("pass_through", [0, 0, 0, 0])
    expect(abs(passed[1] - PASSED) < 0.15 * PASSED, f"{where}: {passed[1]} passed of {PASSED}")
    return sums


def build_id(program):
    notes = subprocess.run(["readelf", "-n", program], text=True, stdout=subprocess.PIPE).stdout
    found = re.search(r"Build ID: (\w+)", notes)
    return found.group(1) if found else ""


def check_pprof(options, program, name):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        files, said = run(options, program, folder, name)
        expect(files == [name] and said == "", f"{name}: {files} {said}")
        data = (folder / name).read_bytes()
    expect((data[:2] == b"\x1f\x8b") == name.endswith(".gz"), f"{name}: the format")
    profile = pprof.read_pprof(data)
    expect(profile.types == [("alloc_objects", "count"), ("alloc_space", "bytes"),
                             ("inuse_objects", "count"), ("inuse_space", "bytes")], "types")
    expect(profile.default == "inuse_space" and profile.period_type == ("space", "bytes") and
           profile.period == 65536 and profile.time_nanos > 1e18, "head")
    expect(profile.mappings[0].build_id == build_id(program), "the program's build id")
    expect(any(m.path.endswith("libc.so.6") and m.build_id for m in profile.mappings), "libc")
    return check_sums(named_stacks(profile, program), name)


def check_heap_v2(options, program, name, read):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        run(options, program, folder, name)
        rate, total, samples, maps = read((folder / name).read_text())
    expect(rate == 65536 and total[0] > 0, "heap_v2: head")
    found = re.search(r"^(\w+)-(\w+) r-xp (\w+) .*%s$" % re.escape(os.path.realpath(program)), maps,
                      re.MULTILINE)
    expect(found is not None, "heap_v2: the program's mapping")
    start, limit, offset = (int(n, 16) for n in found.groups())
    mapping = pprof.Mapping(start, limit, offset, program, "")
    profile = pprof.Profile([], "", 0, 0, samples, [mapping], [], "", 0)
    check_sums(named_stacks(profile, program), name)


def check_folded(options, program):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        files, _ = run(options, program, folder, "%p.%n.%%.folded")
        expect(len(files) == 1 and re.fullmatch(r"\d+\.0\.%\.folded", files[0]), f"name: {files}")
        lines = pprof.read_folded((folder / files[0]).read_text())
    expect(any(names[-4:] == ["main", "outer", "keep_small", "inner"] for names, _ in lines),
           f"folded: {lines}")
    total = sum(value for _, value in lines)
    truth = sum(size for _, size in TRUTH.values())
    expect(abs(total - truth) < 0.05 * truth, f"folded: {total} of {truth}")


def check_full_disk(options, program):
    """A file system of 8 KiB, where this user may mount one."""
    with tempfile.TemporaryDirectory() as folder:
        script = (f"mount -t tmpfs -o size=8k none {folder} || exit 99; cd {folder}; head -c 6000 /dev/zero "
                  f'>there; LD_PRELOAD={options.library} "$0" 4; echo "ends with $?"; ls')
        environment = dict(os.environ, MIMALLOC_PROF="1", MIMALLOC_PROF_RATE="4KiB",
                           MIMALLOC_PROF_FILE=f"{folder}/full.heap", MIMALLOC_SHOW_ERRORS="1")
        try:
            done = subprocess.run(["unshare", "--map-root-user", "--mount", "sh", "-c", script,
                                   os.path.abspath(program)], env=environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except FileNotFoundError:
            return print("no unshare: no file system that is full")
    if "ends with" not in done.stdout:
        return print(f"no file system that is full: {done.stdout}")
    expect("unable to write" in done.stdout and "error 28" in done.stdout and
           done.stdout.endswith("ends with 0\nthere\n"), f"a full disk: {done.stdout}")


def check_bad_input(options, program):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        files, said = run(options, program, folder, "none/a.pb")
        expect(files == [] and "unable to write the profile" in said, f"no folder: {files} {said}")
        limited = ["sh", "-c", 'ulimit -f 0; trap "" XFSZ; exec "$0" 4', program]
        environment = dict(os.environ, LD_PRELOAD=str(options.library), MIMALLOC_PROF="1",
                           MIMALLOC_PROF_FILE=str(folder / "full.pb"), MIMALLOC_SHOW_ERRORS="1")
        result = subprocess.run(limited, env=environment, stderr=subprocess.PIPE, text=True)
        expect(result.returncode == 0 and "unable to write" in result.stderr,
               f"a full disk: {result}")
        expect(list(folder.iterdir()) == [], "a full disk leaves a part of a file")
        for rate in ("0", "9223372036854775808", "-5", "many", "18446744073709551616GiB"):
            run(options, program, folder, "rate.pb", MIMALLOC_PROF_RATE=rate)
            profile = pprof.read_pprof((folder / "rate.pb").read_bytes())
            expect(profile.period in (65536, 524288, 1 << 30), f"rate {rate}: {profile.period}")
        _, said = run(options, program, folder, "x" * 2000)
        expect("too long" in said, f"a long name: {said}")
        files, _ = run(options, program, folder, None)
        expect(files == ["rate.pb"], f"without a name: {files}")
        (folder / "rate.pb").unlink()
        files, _ = run(options, program, folder, "off.pb", MIMALLOC_PROF_AT_EXIT="0")
        expect(files == [], f"not at exit: {files}")
        files, _ = run(options, program, folder, "off.pb", MIMALLOC_PROF="0")
        expect(files == [], f"off: {files}")
        # So little memory for records that most is dropped, which the profile says.
        run(options, program, folder, "small.pb", MIMALLOC_PROF_MEMORY="256KiB",
            MIMALLOC_PROF_RATE="256")
        profile = pprof.read_pprof((folder / "small.pb").read_bytes())
        expect(any("dropped" in c for c in profile.comments), f"dropped: {profile.comments}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True, type=pathlib.Path)
    parser.add_argument("--without", required=True, help="the program without frame pointers")
    parser.add_argument("--with", dest="pointers", required=True, help="and that with them")
    options = parser.parse_args()
    for program in (options.without, options.pointers):
        for name in ("a.pb", "a.pb.gz"):
            check_pprof(options, program, name)
        check_heap_v2(options, program, "a.heap", pprof.read_heap_v2)
        check_heap_v2(options, program, "a.gperf", pprof.read_gperf)
        check_folded(options, program)
    check_bad_input(options, options.without)
    check_full_disk(options, options.without)
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
