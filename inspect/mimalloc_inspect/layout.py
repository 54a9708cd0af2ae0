# SPDX-License-Identifier: MIT
"""The library's own description of its records (src/service/layout.h), found in a process."""

import re
import struct

from . import Refusal

MAGIC = b"mimalloc-layout\0"
VERSION = 1
HEAD = struct.Struct("<16sIIIIIII")
LOOK_MOST = 64 << 20  # bytes of a mapping that are looked through


class Layout:
    def __init__(self, memory, at):
        self.memory, self.at = memory, at
        head = memory.read(at, HEAD.size)
        (_, version, self.library, self.word, fields, addresses, fields_at,
         addresses_at) = HEAD.unpack(head)
        if version != VERSION:
            raise Refusal(f"the library in {memory.title} describes itself in version {version}; "
                          f"this program knows version {VERSION}: take that of the library's "
                          "release")
        if self.word not in (4, 8) or fields > 1000 or addresses > 100:
            raise Refusal("the description of the library is damaged")
        self.field, self.size, self.address = {}, {}, {}
        data = memory.read(at + fields_at, fields * 32)
        for name, value, size in struct.iter_unpack("<24sII", data):
            name = name.split(b"\0")[0].decode()
            self.field[name], self.size[name] = value, size
        letter = "Q" if self.word == 8 else "I"
        step = struct.calcsize(f"<24s{letter}")
        data = memory.read(at + addresses_at, addresses * step)
        for name, address in struct.iter_unpack(f"<24s{letter}", data):
            self.address[name.split(b"\0")[0].decode()] = address

    def __getitem__(self, name):
        return self.field[name]

    def uint(self, data, offset, size):
        return int.from_bytes(data[offset:offset + size], "little")

    def of(self, data, name):
        """The field of that name in the bytes of a record."""
        offset = self.field[name]
        return int.from_bytes(data[offset:offset + self.size[name]], "little")

    def at_field(self, record, name):
        """The same of a record at an address; 0 if it cannot be read."""
        data = self.memory.read(record + self.field[name], self.size[name])
        return int.from_bytes(data, "little") if data else 0

    def pointer(self, address):
        data = self.memory.read(address, self.word)
        return int.from_bytes(data, "little") if data else 0

    def text(self, address):
        for size in (64, 16):
            data = self.memory.read(address, size) if address else None
            if data:
                return data.split(b"\0")[0].decode(errors="replace")
        return ""


def likely(mapping):
    """Where the description is soonest: in the library, in the program, elsewhere."""
    name = mapping.name
    return (0 if "mimalloc" in name else 1 if name.startswith("/") else 2, "x" in mapping.access)


def places(memory, is_thorough):
    """Where a description begins, and in which mapping. What was never touched is looked at only
    where it has to be: that reads whole files, and makes them a part of the process."""
    for mapping in sorted(memory.mappings(), key=likely):
        size = mapping.end - mapping.start
        if not mapping.access.startswith("r") or size > LOOK_MOST or mapping.name.startswith("["):
            continue
        if not mapping.name and memory.names_files:
            continue
        parts = [(mapping.start, mapping.end, True)] if is_thorough else \
            memory.parts(mapping.start, mapping.end)
        for low, high in [part[:2] for part in parts if part[2]]:
            data = memory.read(low, high - low) or b""
            for match in re.finditer(re.escape(MAGIC), data):
                yield low + match.start(), mapping


def copies(memory, is_thorough):
    """The descriptions of the copies of the library in a process; and why one was refused."""
    found, refused = [], None
    for at, mapping in places(memory, is_thorough):
        try:
            found.append(Layout(memory, at))
        except (Refusal, TypeError, ValueError, struct.error) as error:
            refused = error if isinstance(error, Refusal) else refused
            continue
        found[-1].name = mapping.name or f"what lies at {at:#x}"
    return found, refused


def none_found(memory):
    names = sorted({m.name for m in memory.mappings() if "mimalloc" in m.name})
    return Refusal(f"{memory.title} has no mimalloc that describes itself (3.5 or later)"
                   + (f"; it has {', '.join(names)}" if names else ""))
