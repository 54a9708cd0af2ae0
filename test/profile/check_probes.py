#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A tracer of the probes: finds them by the notes in the library, as tracers do, sets breakpoints,
raises the semaphore in the middle of the program's life and reads the arguments.

  check_probes.py --library LIBRARY --program PROGRAM

PROGRAM is traced.c. Only on x86-64, where a no-op is a byte, as a breakpoint is.
"""

import argparse
import collections
import ctypes
import os
import platform
import re
import signal
import struct
import subprocess
import sys
import tempfile

SIZE, COUNT, SMALL, SMALL_COUNT = 4 << 20, 20, 100, 400000
RATE = 64 << 10
TRACEME, PEEK, CONT, KILL, GETREGS, SETOPTIONS, GETEVENTMSG = 0, 2, 7, 8, 12, 0x4200, 0x4201
OPTION_FORK, OPTION_EXEC, OPTION_EXITKILL = 2, 16, 0x100000
EVENT_FORK, EVENT_EXEC = 1, 4
REGISTERS = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss "
             "fs_base gs_base ds es fs gs").split()

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long

Probe = collections.namedtuple("Probe", "name address semaphore operands")
Event = collections.namedtuple("Event", "pid name arguments")
failures = 0


def expect(holds, what):
    global failures
    if not holds:
        failures += 1
        print(f"FAIL: {what}", flush=True)


def ptrace(request, pid, address=0, data=0):
    if libc.ptrace(request, pid, address, data) < 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request}")


def tool(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def probes_of(library):
    """The probes of a file, at addresses as it is loaded, relative to its start."""
    notes = tool("readelf", "-nW", library)
    found = []
    for block in re.split(r"^\s+stapsdt\s", notes, flags=re.MULTILINE)[1:]:
        provider, name = re.search(r"Provider: (\S+)\s+Name: (\S+)", block).groups()
        expect(provider == "otel_memory", f"provider {provider}")
        at, base, semaphore = (int(x, 16) for x in re.search(
            r"Location: 0x(\w+), Base: 0x(\w+), Semaphore: 0x(\w+)", block).groups())
        operands = re.search(r"Arguments: (.*)", block).group(1).split()
        found.append((Probe(name, at, semaphore, operands), base))
    sections = tool("readelf", "-SW", library)
    real = int(re.search(r"\.stapsdt\.base\s+PROGBITS\s+(\w+)", sections).group(1), 16)
    start, offset, size, flags = re.search(
        r"\.probes\s+PROGBITS\s+(\w+) (\w+) (\w+) \w+\s+(\w+)", sections).groups()
    expect(flags == "WA", f".probes has the flags {flags}")
    for probe, base in found:
        expect(base == real, "the file was not moved since it was linked")
        inside = int(start, 16) <= probe.semaphore < int(start, 16) + int(size, 16)
        expect(inside == (probe.name in ("alloc", "free")), f"semaphore of {probe.name}")
    return [probe for probe, _ in found]


class Tracer:
    def __init__(self, library, program, output):
        self.library = os.path.realpath(library)
        self.probes = probes_of(library)
        self.at = {}
        self.events = []
        self.pid = os.fork()
        if self.pid == 0:
            libc.ptrace(TRACEME, 0, 0, 0)
            os.dup2(output.fileno(), 1)
            environment = dict(os.environ, LD_PRELOAD=self.library, MIMALLOC_PROF_RATE=str(RATE))
            environment.pop("MIMALLOC_PROF", None)
            os.execve(program, [program], environment)
        os.waitpid(self.pid, 0)
        ptrace(SETOPTIONS, self.pid, 0, OPTION_FORK | OPTION_EXITKILL)

    def write(self, pid, address, data):
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(address)
            memory.write(data)

    def read(self, pid, address, size):
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)

    def start_of_library(self):
        with open(f"/proc/{self.pid}/maps") as maps:
            return min(int(line.split("-")[0], 16) for line in maps if self.library in line)

    def set_breakpoints(self):
        self.start = self.start_of_library()
        for probe in self.probes:
            address = self.start + probe.address
            expect(self.read(self.pid, address, 1) == b"\x90", f"{probe.name} is a no-op")
            self.write(self.pid, address, b"\xcc")
            self.at[address] = probe

    def raise_semaphores(self, by):
        for address in {p.semaphore for p in self.probes if p.semaphore != 0}:
            value, = struct.unpack("<H", self.read(self.pid, self.start + address, 2))
            self.write(self.pid, self.start + address, struct.pack("<H", value + by))

    def trapped(self, pid):
        buffer = (ctypes.c_ulong * len(REGISTERS))()
        ptrace(GETREGS, pid, 0, ctypes.addressof(buffer))
        registers = dict(zip(REGISTERS, buffer))
        probe = self.at.get(registers["rip"] - 1)
        if probe is None:
            raise RuntimeError(f"a trap at {registers['rip']:#x}")
        values = []
        for operand in probe.operands:
            size, register = re.fullmatch(r"(8)@%(r\w+)", operand).groups()
            values.append(registers[register])
        self.events.append(Event(pid, probe.name, values))

    def run_to_stop(self):
        """Until the program stops itself; False: until it ends."""
        ptrace(CONT, self.pid)
        while True:
            pid, status = os.waitpid(-1, 0x40000000)  # __WALL
            if not os.WIFSTOPPED(status):
                if pid == self.pid:
                    expect(status == 0, f"the program ends with {status}")
                    return False
                continue
            signum, deliver = os.WSTOPSIG(status), 0
            if signum == signal.SIGTRAP and status >> 16 == 0:
                self.trapped(pid)
            elif signum == signal.SIGSTOP and pid == self.pid:
                return True
            elif signum not in (signal.SIGTRAP, signal.SIGSTOP):
                deliver = signum  # SIGSTOP of another: a child that begins
            ptrace(CONT, pid, 0, deliver)

    def take(self):
        taken, self.events = self.events, []
        return taken


def named(events, name, pid=None):
    return [e.arguments for e in events if e.name == name and (pid is None or e.pid == pid)]


def check_quiet(events, when):
    expect(not named(events, "alloc") and not named(events, "free"), f"{when}: samples are told of")
    expect(named(events, "mmap"), f"{when}: no mmap is told of")


def check_heard(events, pid, addresses):
    allocs, frees = named(events, "alloc", pid), named(events, "free", pid)
    large = {user: (size, weight) for user, size, weight in allocs if size == SIZE}
    expect(set(large) == addresses, "the large blocks are told of, by their addresses")
    expect(all(w == SIZE for _, w in large.values()), "each stands for itself")
    small = [weight for _, size, weight in allocs if size == SMALL]
    truth = SMALL * SMALL_COUNT
    expect(abs(sum(small) - truth) < 5 * truth * (RATE / truth) ** 0.5,
           f"{len(small)} samples stand for {sum(small)} bytes, not {truth}")
    expect(len(set(small)) == 1 and small[0] >= RATE, "the weight is S / p")
    # Each that was told of is freed once, and nothing else is.
    live = collections.Counter()
    for event in events:
        if event.pid != pid or event.name not in ("alloc", "free"):
            continue
        live[event.arguments[0]] += 1 if event.name == "alloc" else -1
        expect(live[event.arguments[0]] in (0, 1), f"{event} of a block that is not so")
    expect(not any(live.values()), f"{sum(live.values())} blocks do not end")
    for size_of in (SIZE + 2, SIZE + 3):
        expect(any(size == size_of for _, size, _ in allocs), "a realloc is an allocation")
    expect(len(frees) == len(allocs), "frees and allocations")
    others = [e for e in events if e.pid != pid and e.name in ("alloc", "free")]
    own = [e.arguments[:2] for e in others if e.name == "alloc"]
    expect([size for _, size in own] == [SIZE + 1], f"the child's allocations: {own}")
    expect(named(others, "free") == [[own[0][0]]] if own else False,
           "the child frees what is its own")
    mapped = named(events, "mmap", pid)
    expect(any(size >= SIZE for _, size in mapped), "mappings have their size")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--program", required=True)
    options = parser.parse_args()
    if platform.machine() != "x86_64" or ctypes.sizeof(ctypes.c_long) != 8:
        return 77
    with tempfile.TemporaryFile("w+") as output:
        tracer = Tracer(options.library, options.program, output)
        expect({p.name for p in tracer.probes} == {"alloc", "free", "mmap", "munmap"},
               f"the probes are {[p.name for p in tracer.probes]}")
        expect(tracer.run_to_stop(), "the program stops first")
        tracer.set_breakpoints()
        tracer.run_to_stop()
        check_quiet(tracer.take(), "before anybody listens")
        tracer.raise_semaphores(1)
        output.truncate(0)
        output.seek(0)
        tracer.run_to_stop()
        output.seek(0)
        heard = tracer.take()
        check_heard(heard, tracer.pid, {int(line, 16) for line in output.read().split()})
        tracer.raise_semaphores(-1)
        expect(not tracer.run_to_stop(), "the program ends")
        check_quiet(tracer.take(), "when nobody listens any more")
    print(f"{len(named(heard, 'alloc'))} samples told of, {len(named(heard, 'mmap'))} mappings, "
          f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
