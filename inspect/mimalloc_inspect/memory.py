# SPDX-License-Identifier: MIT
"""Memory to read from: of a running process, of a core dump, of the program in gdb.

Each has: read(address, size), the bytes, or None where there are none; parts(start, end), the parts
of a range that may have something other than zeros, and whether they can be read; mappings(), what
there is at which addresses; threads(), names of threads by the number that the system gives them;
registers(), the words of registers; leaves_out(address), whether what the program wrote there is
missing; has_ended(), whether what was read may be of nothing; names_files, whether mappings without a
name are of no file, which dumps may not say.
"""

import os
import re
import struct
from bisect import bisect_right
from collections import namedtuple

from . import Refusal

Mapping = namedtuple("Mapping", "start end access name")


def parse_maps(text):
    for line in text.splitlines():
        match = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)", line)
        if match:
            yield Mapping(int(match[1], 16), int(match[2], 16), match[3], match[4])


class Live:
    """A running process, which goes on meanwhile."""

    names_files = True

    def __init__(self, pid):
        self.pid = pid
        self.title = f"process {pid}"
        if not os.path.isdir(f"/proc/{pid}"):
            raise Refusal(f"there is no process {pid}")
        try:
            self.file = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
            self.maps = list(parse_maps(open(f"/proc/{pid}/maps").read()))
        except PermissionError:
            raise Refusal(f"process {pid} is not yours to read: that takes its user or root, and "
                          "where /proc/sys/kernel/yama/ptrace_scope is not 0, root") from None
        except (FileNotFoundError, ProcessLookupError):
            raise Refusal(f"process {pid} has ended") from None
        if not self.maps:
            raise Refusal(f"process {pid} has no memory: it has ended, or is the kernel's")
        self.shared = [m for m in self.maps if "s" in m.access]
        self.pagemap = self.presence()

    def read(self, address, size):
        try:
            data = os.pread(self.file, size, address) if address < 1 << 63 else b""
        except OSError:
            return None
        return data if len(data) == size else None

    def parts(self, start, end):
        """Not the OS pages that are absent, which a look at would make present. Those of shared
        mappings may be in memory all the same."""
        if self.pagemap is None or any(m.start < end and start < m.end for m in self.shared):
            yield start, end, True
            return
        for low, high in self.pagemap.touched(start, end):
            yield low, high, True

    def has_ended(self):
        try:
            with open(f"/proc/{self.pid}/maps") as maps:
                return maps.read(1) == ""
        except (FileNotFoundError, ProcessLookupError):
            return True

    def leaves_out(self, address):
        return False

    def mappings(self):
        return self.maps

    def threads(self):
        found = {}
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            try:
                text = open(f"/proc/{self.pid}/task/{tid}/stat").read()
            except OSError:
                continue
            name, rest = text[text.index("(") + 1:].rsplit(")", 1)
            found[int(tid)] = (name, rest.split()[0])
        return found

    def registers(self):
        return []

    def smaps(self):
        """Mappings with what is resident of each, in bytes."""
        found, sizes = [], {}
        try:
            text = open(f"/proc/{self.pid}/smaps").read()
        except OSError:
            return None
        for line in text.splitlines():
            mapping = next(parse_maps(line), None)
            if mapping:
                sizes = {}
                found.append((mapping, sizes))
            else:
                key, _, value = line.partition(":")
                if value.strip().endswith("kB"):
                    sizes[key] = int(value.split()[0]) * 1024
        return found

    def presence(self):
        try:
            return Pagemap(self.pid)
        except OSError:
            return None


class Pagemap:
    """Which OS pages of a running process are present."""

    PRESENT, FILE, EXCLUSIVE = 1 << 63, 1 << 61, 1 << 56
    # What the last byte of an entry says: 1 if the page is present or swapped out.
    IS_TOUCHED = bytes(int(byte >= 0x40) for byte in range(256))
    WINDOW = 1 << 15

    def __init__(self, pid):
        self.file = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY)
        self.unit = os.sysconf("SC_PAGE_SIZE")
        self.shared_count = 0

    def states(self, start, size):
        """For each OS page that the range overlaps: 0 absent, 1 present, 2 present and shared, as a
        page of zeros is, too."""
        first, last = start // self.unit, (start + size - 1) // self.unit
        data = os.pread(self.file, (last - first + 1) * 8, first * 8)
        table = bytearray(last - first + 1)
        for i, (entry,) in enumerate(struct.iter_unpack("<Q", data)):
            if entry & self.PRESENT:
                table[i] = 1 if entry & (self.FILE | self.EXCLUSIVE) else 2
        return table


    def touched(self, start, end):
        """The parts of a range that are present or swapped out."""
        unit = self.unit
        for first in range(start // unit, -(-end // unit), self.WINDOW):
            count = min(self.WINDOW, -(-end // unit) - first)
            marks = os.pread(self.file, count * 8, first * 8)[7::8].translate(self.IS_TOUCHED)
            at = marks.find(1)
            while at >= 0:
                behind = marks.find(0, at)
                behind = len(marks) if behind < 0 else behind
                yield max(start, (first + at) * unit), min(end, (first + behind) * unit)
                at = marks.find(1, behind)


class Core:
    """A core dump, and the files that were mapped when it was made."""

    names_files = False

    def __init__(self, path):
        try:
            self.file = open(path, "rb")
        except OSError as error:
            raise Refusal(f"{path}: {error.strerror}") from None
        try:
            from elftools.elf.elffile import ELFFile
            from elftools.common.exceptions import ELFError
        except ImportError:
            raise Refusal("core dumps take the Python library pyelftools: Debian's "
                          "python3-pyelftools, or pip install pyelftools") from None
        self.title = f"core dump {path}"
        try:
            elf = ELFFile(self.file)
            kind = elf["e_type"]
            self.word = elf.elfclass // 8
            self.segments, self.files, self.regs, self.names = [], [], [], {}
            size = os.fstat(self.file.fileno()).st_size
            for segment in elf.iter_segments():
                self.take(segment, size, kind)
        except OSError as error:
            raise Refusal(f"{path}: {error.strerror}") from None
        except (ELFError, ValueError, KeyError, struct.error):
            raise Refusal(f"{path} is no core dump, or cut short") from None
        if kind != "ET_CORE":
            raise Refusal(f"{path} is an ELF file, but no core dump")
        self.segments.sort()
        self.opened = {}

    def take(self, segment, size, kind):
        if kind != "ET_CORE":
            return
        head = segment.header
        if head.p_offset + head.p_filesz > size:
            raise Refusal(f"the core dump is cut short: {size} bytes of at least "
                          f"{head.p_offset + head.p_filesz}")
        if head.p_type == "PT_LOAD":
            self.segments.append((head.p_vaddr, head.p_memsz, head.p_filesz, head.p_offset,
                                  head.p_flags))
        elif head.p_type == "PT_NOTE":
            for note in segment.iter_notes():
                self.note(note)

    def note(self, note):
        data, unit = note["n_desc"], note["n_type"]
        if unit == "NT_FILE":
            for entry, name in zip(data["Elf_Nt_File_Entry"], data["filename"]):
                self.files.append((entry["vm_start"], entry["vm_end"],
                                   entry["page_offset"] * data["page_size"], os.fsdecode(name)))
        elif unit == "NT_PRSTATUS":
            raw = data if isinstance(data, bytes) else data.encode("latin-1")
            # The registers stand behind signal, masks, process numbers and times; every word of it
            # that is an address of a block is one.
            letter = "Q" if self.word == 8 else "I"
            count = len(raw) // self.word
            self.regs += struct.unpack_from(f"<{count}{letter}", raw)
            self.names[struct.unpack_from("<I", raw, 32 if self.word == 8 else 24)[0]] = ("", "?")

    def segment_at(self, address):
        at = bisect_right(self.segments, (address, float("inf")))
        if at == 0:
            return None
        segment = self.segments[at - 1]
        return segment if address < segment[0] + segment[1] else None

    def read(self, address, size):
        data = b""
        while size > 0:
            part = self.read_part(address, size)
            if not part:
                return None
            data += part
            address += len(part)
            size -= len(part)
        return data

    def parts(self, start, end):
        """Where the dump has nothing of a range its files may."""
        while start < end:
            segment = self.segment_at(start)
            if segment and start - segment[0] < segment[2]:
                high, is_there = segment[0] + segment[2], True
            else:
                high = self.next_segment(start)
                file = next((f for f in self.files if f[0] <= start < f[1]), None)
                is_there = file is not None
                if file:
                    high = min(high, file[1])
                else:
                    high = min([high] + [f[0] for f in self.files if f[0] > start])
            high = min(high, end)
            yield start, high, is_there
            start = high

    def next_segment(self, address):
        """The start of the first one above an address."""
        at = bisect_right(self.segments, (address, float("inf")))
        return self.segments[at][0] if at < len(self.segments) else 1 << 64

    def read_part(self, address, size):
        segment = self.segment_at(address)
        if segment and address - segment[0] < segment[2]:
            size = min(size, segment[0] + segment[2] - address)
            return os.pread(self.file.fileno(), size, segment[3] + address - segment[0])
        for start, end, offset, name in self.files:
            if start <= address < end:
                return self.from_file(name, offset + address - start, min(size, end - address))
        return None

    def has_ended(self):
        return False

    def leaves_out(self, address):
        """Whether the dump has nothing there, also where a file's contents could be read."""
        segment = self.segment_at(address)
        return segment is None or segment[2] == 0

    def from_file(self, name, offset, size):
        """What was not changed is not in the dump, but still in its file."""
        if name not in self.opened:
            try:
                self.opened[name] = os.open(name, os.O_RDONLY)
            except OSError:
                self.opened[name] = None
        file = self.opened[name]
        data = b"" if file is None else os.pread(file, size, offset)
        return data + bytes(size - len(data)) if data else None

    def mappings(self):
        named = [(start, end, name) for start, end, _, name in self.files]
        for start, size, _, _, flags in self.segments:
            name = next((n for s, e, n in named if s <= start < e), "")
            access = ("r" if flags & 4 else "-") + ("w" if flags & 2 else "-") + \
                ("x" if flags & 1 else "-")
            yield Mapping(start, start + size, access + "p", name)

    def threads(self):
        return self.names

    def registers(self):
        return self.regs

    def smaps(self):
        return None

    def presence(self):
        return None


class Gdb:
    """The program that gdb has: running, stopped, or a core dump."""

    def __init__(self, gdb):
        self.gdb = gdb
        self.inferior = gdb.selected_inferior()
        self.title = "the program in gdb"
        if not self.inferior.threads():
            raise Refusal("gdb has no process: run the program, attach to one, or load a core dump")
        self.live = None
        if self.inferior.pid and os.path.isdir(f"/proc/{self.inferior.pid}"):
            try:
                self.live = Live(self.inferior.pid)
            except Refusal:
                pass
        self.names_files = self.live is not None

    def has_ended(self):
        return False

    def leaves_out(self, address):
        return False

    def parts(self, start, end):
        return self.live.parts(start, end) if self.live else [(start, end, True)]

    def read(self, address, size):
        try:
            return bytes(self.inferior.read_memory(address, size))
        except (self.gdb.error, OverflowError):
            return None

    def mappings(self):
        if self.live:
            return self.live.mappings()
        text = self.gdb.execute("info proc mappings", to_string=True)
        found = []
        for line in text.splitlines():
            match = re.match(r"\s*0x([0-9a-f]+)\s+0x([0-9a-f]+)\s+0x\S+\s+0x\S+\s*(?:[rwxps-]{4}\s+)?(.*)",
                             line)
            if match:
                found.append(Mapping(int(match[1], 16), int(match[2], 16), "rw-p", match[3]))
        sections = self.gdb.execute("maintenance info sections", to_string=True)
        for match in re.finditer(r"0x([0-9a-f]+)->0x([0-9a-f]+) at \S+: load\S*", sections):
            start, end = int(match[1], 16), int(match[2], 16)
            if not any(m.start <= start < m.end for m in found):
                found.append(Mapping(start, end, "rw-p", ""))
        return sorted(found)

    def threads(self):
        return {t.ptid[1] or t.ptid[0]: (t.name or "", "?") for t in self.inferior.threads()}

    def registers(self):
        words, chosen = [], self.gdb.selected_thread()
        for thread in self.inferior.threads():
            thread.switch()
            text = self.gdb.execute("info registers", to_string=True)
            words += [int(w, 16) for w in re.findall(r"^\S+\s+(0x[0-9a-f]+)", text, re.MULTILINE)]
        chosen.switch()
        return words

    def smaps(self):
        return self.live.smaps() if self.live else None

    def presence(self):
        return self.live.presence() if self.live else None
