#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mimalloc-inspect on a process, on core dumps and in gdb tells what a known program has.

  check_inspect.py LIBRARY SUBJECT INSPECT WAY

LIBRARY is preloaded, or "-" where the subject holds it; SUBJECT is the program of subject.c,
INSPECT the folder of mimalloc-inspect. WAY is live, busy, core, crash, gdb, refusals, time,
sampled, absent, copies. Exit status 0, 1; 77: the system lacks what the way needs.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

LIBRARY, SUBJECT, INSPECT, WAY = sys.argv[1:5]
# The system's packages are of its own interpreter, which need not be the first in PATH.
READERS = [p for p in (sys.executable, "/usr/bin/python3") if os.path.exists(p) and
           subprocess.run([p, "-c", "import elftools"], stderr=subprocess.DEVNULL).returncode == 0]
TOOL = [*(READERS or [sys.executable])[:1], f"{INSPECT}/mimalloc-inspect"]
SKIPPED = 77
MIB = 1 << 20
SETTINGS = {"MIMALLOC_PROF": "1", "MIMALLOC_PROF_RATE": "1"} if WAY == "sampled" else {}


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def environment(library=LIBRARY):
    return {**os.environ, **SETTINGS, **({"LD_PRELOAD": library} if library != "-" else {})}


@contextlib.contextmanager
def subject(*arguments, library=LIBRARY):
    """The running program, and the addresses that it tells."""
    process = subprocess.Popen([SUBJECT, *arguments], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, env=environment(library))
    try:
        lines = [process.stdout.readline().split() for _ in range(5)]
        if [] in lines and process.wait() == SKIPPED:
            print("the system does not let us")
            sys.exit(SKIPPED)
        told = dict(lines)
        yield process, told
    finally:
        process.kill()
        process.communicate()


def inspect(what, *arguments):
    done = subprocess.run([*TOOL, str(what), *arguments], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.PIPE, timeout=120)
    expect(done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}")
    return done.stdout


def cost(what, *arguments):
    """What the tool says, and takes: seconds of processor time, bytes."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen([*TOOL, str(what), *arguments], stdout=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        said.seek(0)
        text = said.read()
    expect(status == 0, f"{arguments}: {text}")
    return text, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def check(ask, told, is_live_process):
    """What every way must tell. `ask` gives the text of a command."""
    text = ask("address", told["kept"])
    expect(" is a live block of 3" in text and "pointed to by" in text, text)
    text = ask("address", told["inner"])
    expect(re.search(r"live block of \d+ bytes at \w+, \d+ bytes into it", text), text)
    text = ask("address", told["huge"])
    expect("huge page" in text and "live block" in text and "1 made, 1 live" in text, text)
    text = ask("address", told["last"])
    expect(" is a live block of " in text and
           re.search(r"pointed to by block \w+ of 6[3-9]\d{4} bytes", text), text)
    text = ask("address", told["freed"])
    expect(" is a free block " in text, text)
    text = ask("address", "0x10")
    expect("in no page" in text, text)
    text = ask("histogram")
    rows = {r[0]: int(r[1]) for r in re.findall(r"^ +(\d+) +(\d+) ", text, re.MULTILINE)}
    expect(any(300 <= int(size) <= 352 and 1000 <= n <= 1040 for size, n in rows.items()), text)
    expect(any(700 <= int(size) <= 800 and 740 <= n <= 770 for size, n in rows.items()), text)
    text = ask("leaks")
    match = re.match(r"(\d+) of (\d+) live blocks cannot be reached", text)
    expect(match and 44 <= int(match[1]) <= 60 and int(match[2]) > 2800, text)
    expect(re.search(r"(4[4-9]|50) of 5\d\d\d bytes", text), text)
    expect("cannot be read" not in text, text)
    text = ask("report")
    expect("live blocks" in text and "in use by the program" in text, text)
    expect(not is_live_process or "of threads that sleep" in text, text)


def live():
    with subject("wait") as (process, told):
        check(lambda *a: inspect(process.pid, *a), told, True)
        data = json.loads(inspect(process.pid, "report", "--json"))
        told_by_system = int(re.search(r"Rss:\s+(\d+)", pathlib.Path(
            f"/proc/{process.pid}/smaps_rollup").read_text())[1]) * 1024
        total = sum(data["rows"].values())
        expect(abs(total - told_by_system) < .02 * told_by_system,
               f"rows {total}, the system says {told_by_system}")
        expect(0 <= data["rows"]["live_huge"] - 3 * MIB - 634880 <= 65536, data["rows"])
        with tempfile.TemporaryDirectory() as folder:
            inspect(process.pid, "draw", f"{folder}/heap.svg")
            picture = xml.etree.ElementTree.parse(f"{folder}/heap.svg")
            expect(sum(1 for _ in picture.iter("{http://www.w3.org/2000/svg}title")) > 40,
                   "a picture without pages")
        expect(inspect(process.pid, "top").count("memory report of") == 2, "top")


def busy():
    """What changes while it is read is not taken for lost."""
    with subject("busy") as (process, _):
        time.sleep(.5)
        for _ in range(3):
            text = inspect(process.pid, "leaks")
            lost, count = map(int, re.match(r"(\d+) of (\d+) live blocks", text).groups())
            expect(count > 1500 and 40 <= lost <= 60 + count / 20, text)
            expect("pages changed meanwhile" in text, text)
        for _ in range(8):
            stop(process)
            text = inspect(process.pid, "leaks")
            if "changed" not in text:
                return
            # A thread stands in the midst of a call.
            os.kill(process.pid, signal.SIGCONT)
            time.sleep(.02)
        expect(False, text)


def stop(process):
    """Returns when each thread stands still."""
    os.kill(process.pid, signal.SIGSTOP)
    states = pathlib.Path(f"/proc/{process.pid}/task")
    while any(f.read_text().rsplit(")", 1)[1].split()[0] != "T" for f in states.glob("*/stat")):
        time.sleep(.001)


def need_elftools():
    if not READERS:
        print("no pyelftools")
        sys.exit(SKIPPED)


def check_core(path, told):
    check(lambda *a: inspect(path, *a), told, False)


def core():
    need_elftools()
    if not shutil.which("gcore"):
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder, subject("wait") as (process, told):
        done = subprocess.run(["gcore", "-o", f"{folder}/core", str(process.pid)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        path = f"{folder}/core.{process.pid}"
        if not os.path.exists(path):
            print(done.stdout)
            sys.exit(SKIPPED)
        if "Memory read failed" in done.stdout and "no page" in inspect(path, "address",
                                                                        told["kept"]):
            # Level 5 has guards in the mappings of records.
            print("gdb leaves out mappings in which it cannot read every page")
            sys.exit(SKIPPED)
        check_core(path, told)
        with open(path, "r+b") as file:
            file.truncate(os.path.getsize(path) // 2)
        done = subprocess.run([*TOOL, path], stderr=subprocess.PIPE, text=True)
        expect(done.returncode == 1 and "cut short" in done.stderr, done.stderr)


def crash():
    """The kernel's own dump, of a thread that died in malloc."""
    need_elftools()
    if pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip() not in ("core", "core.%p"):
        print("dumps go elsewhere")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([SUBJECT, "crash"], stdout=subprocess.PIPE, text=True, cwd=folder,
                              stderr=subprocess.DEVNULL, env=environment())
        expect(done.returncode < 0, "it did not crash")
        told = dict(line.split() for line in done.stdout.splitlines())
        found = sorted(pathlib.Path(folder).glob("core*"))
        if not found:
            print("no dump is written here")
            sys.exit(SKIPPED)
        text = inspect(found[0], "address", told["kept"])
        expect("live block" in text and "pointed to by" in text, text)
        expect("live blocks" in inspect(found[0]), "no report")
        # Without what the program wrote to memory of its own.
        found[0].unlink()
        subprocess.run(["sh", "-c", 'echo 0x32 > /proc/self/coredump_filter; exec "$0" crash', SUBJECT],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder,
                       env=environment())
        for path in pathlib.Path(folder).glob("core*"):
            done = subprocess.run([*TOOL, path, "leaks"], stderr=subprocess.PIPE, text=True)
            expect(done.returncode == 1 and "coredump_filter" in done.stderr, done.stderr)


def gdb():
    if not shutil.which("gdb"):
        sys.exit(SKIPPED)
    with subject("wait") as (process, told):
        def ask(*command):
            done = subprocess.run(
                ["gdb", "-nx", "-batch", "-p", str(process.pid), "-ex",
                 f"source {INSPECT}/mimalloc-gdb.py", "-ex", "mimalloc " + " ".join(command)],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
            if "ptrace" in done.stdout or "Scripting in the \"Python\"" in done.stdout:
                print(done.stdout)
                sys.exit(SKIPPED)
            lines = done.stdout.splitlines()
            # What gdb itself says comes first.
            starts = [i for i, l in enumerate(lines) if re.match(
                r"(0x\w+ is |\d+ of \d+ live|memory report|  blocks of size)", l)]
            return "\n".join(lines[starts[-1]:]) if starts else done.stdout
        check(ask, told, False)


def refused(*arguments):
    done = subprocess.run([*TOOL, *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    expect(done.returncode == 1 and "Traceback" not in done.stderr, done.stderr)
    return done.stderr


def of_another_user():
    """What is said of a process of root's; root asks as somebody else, from a copy of the tool."""
    if os.getuid() != 0:
        return refused(1)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(INSPECT, f"{folder}/inspect")
        os.chmod(folder, 0o755)
        python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
        done = subprocess.run([python, "-B", f"{folder}/inspect/mimalloc-inspect", str(os.getpid())],
                              stderr=subprocess.PIPE, text=True, cwd="/",
                              preexec_fn=lambda: (os.setgroups([]), os.setgid(65534), os.setuid(65534)))
    expect(done.returncode == 1 and "Traceback" not in done.stderr, done.stderr)
    return done.stderr


def refusals():
    expect("no process" in refused(2 ** 22 + 1), "a process that there is not")
    expect("has no mimalloc" in refused(os.getpid()), "a process without the library")
    expect("not yours" in of_another_user(), "somebody else's process")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "core"
        expect("No such file" in refused(path), "a file that there is not")
        word = "no core dump" if READERS else "pyelftools"
        path.write_bytes(b"\x7fELF and no more")
        expect(word in refused(path), "no dump")
        path.write_bytes(b"")
        expect(word in refused(path), "an empty file")
        expect(word in refused("/bin/true"), "a program")
    with subject("wait") as (process, _):
        expect("no address" in refused(process.pid, "address", "here"), "no address")
        expect("takes one" in refused(process.pid, "address"), "none at all")
        expect("heap.svg" in refused(process.pid, "draw"), "no name")
        expect("heap.svg" in refused(process.pid, "draw", f"{tempfile.gettempdir()}/x.png"), "no SVG")
        expect("No such file" in refused(process.pid, "draw", "/no/such/folder/x.svg"), "no folder")
    ends_meanwhile()
    other_version()


def ends_meanwhile():
    """A process that ends while it is looked at, and is waited for or not yet."""
    sys.path.insert(0, INSPECT)
    from mimalloc_inspect import Refusal, cli
    from mimalloc_inspect.memory import Live

    for is_waited_for in (False, True):
        for command in ("report", "histogram", "leaks"):
            with subject("wait") as (process, _):
                memory = Live(process.pid)
                process.kill()
                os.waitid(os.P_PID, process.pid, os.WEXITED | (0 if is_waited_for else os.WNOWAIT))
                try:
                    lines = cli.lines_of(memory, command, [])
                except Refusal as refusal:
                    expect("has ended" in str(refusal), str(refusal))
                else:
                    raise AssertionError(f"{command} of a process that is gone: {lines}")


def other_version():
    """A library that describes itself in a version of the future."""
    sys.path.insert(0, INSPECT)
    from mimalloc_inspect import Refusal, cli, layout
    from mimalloc_inspect.memory import Mapping

    class Memory:
        title, names_files = "a test", True

        def __init__(self, version):
            self.data = layout.HEAD.pack(layout.MAGIC, version, 30500, 8, 0, 0, 36, 36) + bytes(64)

        def read(self, at, size):
            return self.data[at - 4096:at - 4096 + size].ljust(size, b"\0") if at >= 4096 else None

        def mappings(self):
            return [Mapping(4096, 4096 + len(self.data), "r--p", "/lib/libmimalloc.so")]

        def parts(self, start, end):
            return [(start, end, True)]

        def smaps(self):
            return []

    try:
        cli.open_heap(Memory(layout.VERSION + 1))
    except Refusal as refusal:
        expect("version 2" in str(refusal), str(refusal))
    else:
        raise AssertionError("another version is taken")


def sampled():
    """Each block has a note, which says where it was allocated."""
    with subject("wait") as (process, told):
        maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
        code = [(int(a, 16), int(b, 16)) for a, b in re.findall(
            rf"^(\w+)-(\w+) r-xp .* {re.escape(os.path.realpath(SUBJECT))}$", maps, re.MULTILINE)]
        for what in ("kept", "huge"):
            text = inspect(process.pid, "address", told[what])
            match = re.search(r"sampled by the profiler, asked for with (\d+) bytes\n"
                              r"  allocated by: (.*)", text)
            expect(match, text)
            expect(int(match[1]) == (3 * MIB if what == "huge" else int(match[1])), text)
            frames = [int(f, 16) for f in match[2].split()]
            expect(len(frames) >= 2 and all(any(a <= f < b for a, b in code) for f in frames[:2]),
                   text)
        text = inspect(process.pid, "address", told["freed"])
        expect(" is a live block" in text or "sampled" not in text, text)  # used again or not


def in_time():
    with subject("grow", "1024") as (process, _):
        start = time.time()
        text = inspect(process.pid, "histogram")
        took = time.time() - start
        expect(re.search(r"^ +(64|80) +16\d{6} ", text, re.MULTILINE), text)
        expect(took < 10, f"{took:.1f} s for 1 GiB")
        print(f"{took:.1f} s for 1 GiB of blocks of 64 bytes")
    with subject("grow", "128") as (process, _):
        text, took, memory = cost(process.pid, "leaks")
        lost, count = map(int, re.match(r"(\d+) of (\d+) live blocks", text).groups())
        expect(count > 2 * MIB and 44 <= lost <= 60, text)
        expect(took < 10 and memory < 200 * MIB, f"leaks takes {took:.1f} s and {memory} bytes")
        print(f"{took:.1f} s and {memory // MIB} MiB for the search for leaks in 2 million blocks")


def table_size(process):
    """Bytes of the page tables of a process."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmPTE:\s+(\d+) kB", status)[1]) * 1024


def absent():
    """Memory that a program never touched is not looked at, and stays absent."""
    with subject("absent") as (process, told):
        before = table_size(process)
        for arguments in (("leaks",), ("address", told["kept"])):
            text, took, _ = cost(process.pid, *arguments)
            expect(took < 8, f"{arguments[0]} takes {took:.1f} s for memory that is absent")
            expect("cannot be read" not in text, text)
        grown = table_size(process) - before
        expect(grown < MIB, f"the page tables grew by {grown} bytes")


def copies():
    """Of two copies of the library the one that is used is shown, whichever is found first."""
    with tempfile.TemporaryDirectory() as folder:
        other = shutil.copy(LIBRARY, f"{folder}/libmimalloc-other.so")
        used = os.path.realpath(LIBRARY)
        for first, second in ((used, other), (other, used)):
            with subject("wait", library=f"{first}:{second}") as (process, told):
                for command in (["leaks"], ["report"], ["address", told["kept"]]):
                    text = inspect(process.pid, *command)
                    line, _, rest = text.partition("\n")
                    expect(line.startswith(f"the library is there 2 times: shown is {first},") and
                           line.endswith(f"not {second}"), text)
                    expect(command != ["leaks"] or int(rest.split()[2]) > 2800, text)
                data = json.loads(inspect(process.pid, "report", "--json"))
                expect(data["other_copies"] == [second], data)
    with subject("wait") as (process, _):
        expect("times" not in inspect(process.pid), "there is one copy")
        expect(json.loads(inspect(process.pid, "report", "--json"))["other_copies"] == [], "one")


try:
    {"live": live, "core": core, "crash": crash, "gdb": gdb, "refusals": refusals,
     "time": in_time, "sampled": sampled, "busy": busy, "absent": absent, "copies": copies}[WAY]()
except AssertionError as failure:
    print(f"{WAY}: {failure}")
    sys.exit(1)
print(f"{WAY}: good")
