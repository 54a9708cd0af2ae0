# SPDX-License-Identifier: MIT
"""The records of the library as they were when they were read: arenas, pages, heaps, threads.

A process that goes on changes them meanwhile. What does not fit together is left out.
"""

import struct

from . import Refusal

MASK64 = (1 << 64) - 1


class Page:
    """A page of blocks, or one with a huge block."""

    __slots__ = ("at", "start", "block_size", "used", "capacity", "reserved", "bin", "lend", "owner",
                 "free", "remote", "theap", "heap", "arena", "first", "slices", "key", "guarded",
                 "next", "live_map", "is_torn", "is_huge", "number", "known")

    @property
    def is_owned(self):
        return self.remote & 1

    @property
    def is_a_threads(self):
        """Not so pages of theaps whose threads ended, which wait for the next threads."""
        return self.is_owned and self.owner != 0

    @property
    def blocks_made(self):
        return min(self.capacity, 1) if self.is_huge else self.capacity

    def blocks_live(self, layout):
        """How many; for pages in use one more or less."""
        if self.is_huge:
            return self.blocks_made
        rests = self.lend & layout["page_rests"]
        freed = (1 if self.is_owned and not rests else 0)
        # What other threads freed counts as used until the page's thread collects it.
        if layout["remote_count_shift"]:
            freed += self.remote >> layout["remote_count_shift"]
        return min(max(self.used - freed, 0), self.capacity)


SPARES_MOST = 8  # of a bin, as in alloc/slow.c


class Arena:
    __slots__ = ("at", "start", "slices", "id", "free", "dirty", "committed", "purgeable", "present",
                 "records", "records_key", "meta_size", "is_pinned", "pages", "mapping")


def bits(data, index):
    return data[index >> 3] >> (index & 7) & 1


class Heap:
    def __init__(self, memory, layout):
        self.memory, self.layout = memory, layout
        if memory.leaves_out(layout.address["subproc_main"]):
            raise Refusal("the core dump lacks what the program wrote to memory: coredump_filter "
                          "has to have its first bit set, see core(5)")
        self.slice = 1 << layout["slice_shift"]
        address = layout.address
        self.unit = layout.at_field(address["facts"], "facts.os_page") or 4096
        self.table = layout.pointer(address["pagemap_table"])
        self.near = layout.pointer(address["pagemap_near"])
        self.near_size = layout.pointer(address["pagemap_near_size"])
        self.arenas, self.pages, self.heaps, self.theaps = [], [], {}, {}
        self.guarded, self.chunks, self.far = [], [], []
        self.others = []  # names of the copies of the library that this is not the heap of
        self.by_slice, self.spares, self.spares_of = {}, set(), {}
        for subproc in self.chain(address["subproc_main"], "subproc.next", 10000):
            self.take_subproc(subproc)
        self.take_guarded()
        self.take_own()
        for page in self.pages:
            first = page.first >> layout["slice_shift"]
            for i in range(page.slices):
                self.by_slice[first + i] = page
        for at in self.spares:
            page = self.page_of(at)
            if page:
                self.spares_of.setdefault(page.at, []).append(at)

    # ---- reading -------------------------------------------------------------------------------

    def chain(self, at, field, most):
        """Records that are linked by a field; a circle ends."""
        seen = set()
        while at and at not in seen and len(seen) < most:
            seen.add(at)
            yield at
            at = self.layout.at_field(at, field)

    def take_subproc(self, subproc):
        layout = self.layout
        arenas = subproc + layout["subproc.arenas"]
        count = min(layout.at_field(arenas, "arenas.count"), 4096)
        items = self.memory.read(arenas + layout["arenas.items"], count * layout.word) or b""
        for (at,) in struct.iter_unpack("<Q" if layout.word == 8 else "<I", items):
            if at:
                self.take_arena(at)
        for at in self.chain(layout.at_field(subproc, "subproc.os_pages"), "page.next", 1 << 22):
            self.take_page(at, None)
        for heap in self.chain(layout.at_field(subproc, "subproc.heaps"), "heap.next", 1 << 20):
            self.heaps[heap] = (layout.at_field(heap, "heap.id"), layout.at_field(heap, "heap.tag"))
            for theap in self.chain(layout.at_field(heap, "heap.theaps"), "theap.next_in_heap",
                                    1 << 20):
                first = layout.at_field(theap, "theap.first")
                self.theaps[theap] = (heap, layout.at_field(first, "theap.number"),
                                      layout.at_field(theap, "theap.tid"))
                self.take_spares(theap)

    def take_spares(self, theap):
        """To their pages these are in use, but they wait for the thread's next request."""
        layout = self.layout
        if "theap.spares" not in layout.field or layout["debug"] or layout["secure"]:
            return
        slots, mask = layout.at_field(theap, "theap.spares"), (1 << 8 * layout.word) - 1
        while slots:
            at = slots & mask  # the first word of two
            for _ in range(SPARES_MOST):
                if at == 0 or at in self.spares:
                    break
                self.spares.add(at)
                at = layout.pointer(at)
            slots >>= 2 * 8 * layout.word

    def take_arena(self, at):
        layout = self.layout
        data = self.memory.read(at, layout["sizeof.arena"])
        if data is None:
            return
        arena = Arena()
        arena.at, arena.pages = at, []
        for name in ("start", "slices", "id", "records", "records_key", "meta_size", "is_pinned",
                     "mapping"):
            setattr(arena, name, layout.of(data, "arena." + name))
        if arena.slices > 1 << 32:
            return
        length = layout.of(data, "arena.words") * 8
        for name in ("free", "dirty", "committed", "purgeable"):
            setattr(arena, name, self.memory.read(layout.of(data, "arena." + name), length)
                    or bytes(length))
        length *= self.slice // self.unit
        arena.present = self.memory.read(layout.of(data, "arena.present"), length) or bytes(length)
        self.arenas.append(arena)
        self.take_pages(arena)

    def record_number(self, arena, index):
        """As mx_arena_record_number does."""
        size = self.layout["scatter_group"]
        groups, group = arena.slices // size, index // size
        if arena.records_key == 0 or group == groups:
            return index
        x = (arena.records_key ^ group) * 0x9E3779B97F4A7C15 & MASK64
        random = ((x ^ x >> 32) * 0xD6E8FEB86659FD93 & MASK64) >> 32
        place = 1 + (random * self.layout["scatter_places"] >> 32)
        return (index - place) % size * groups + group

    def take_pages(self, arena):
        stride, index = self.layout["page_record_stride"], 0
        # So many that are mapped together, or lie on one OS page.
        free, step = arena.free, 64 if arena.records_key else 256
        block, block_at = b"", 0
        while index < arena.slices:
            if index & 63 == 0 and free[index >> 3:(index >> 3) + 8] == b"\xff" * 8:
                index += 64
                continue
            if bits(free, index):
                index += 1
                continue
            number = self.record_number(arena, index)
            if not block_at <= number < block_at + len(block) // stride:
                block_at, count = number, min(step - number % step, arena.slices - number)
                block = self.memory.read(arena.records + number * stride, count * stride) or b""
                if not block:
                    block = self.memory.read(arena.records + number * stride, stride)
                    if not block:
                        index += 1
                        continue
            offset = (number - block_at) * stride
            page = self.take_page(arena.records + number * stride, arena,
                                  block[offset:offset + self.layout["page_record_size"]], index)
            index += max(page.slices, 1) if page else 1

    def page_from(self, at, data):
        layout, of = self.layout, self.layout.of
        page = Page()
        page.at, page.guarded, page.live_map, page.is_torn = at, None, None, False
        for name in ("start", "block_size", "used", "capacity", "reserved", "bin", "lend", "owner",
                     "free", "remote", "heap", "arena", "key", "next"):
            setattr(page, name, of(data, "page." + name))
        # Builds that have something else in its place keep it behind the record.
        page.theap = (0 if page.bin == layout["bin_huge"] else layout.at_field(at, "page.theap"))
        page.is_huge = page.bin == layout["bin_huge"]
        page.slices = of(data, "page.slice_count")
        page.first = page.start - page.start % self.slice
        return page

    def take_page(self, at, arena, data=None, index=None):
        of = self.layout.of
        data = data or self.memory.read(at, self.layout["page_record_size"])
        if data is None:
            return None
        page = self.page_from(at, data)
        if arena is not None:
            # A slice in use that is the start of no page, or about to become one.
            if of(data, "page.slice_index") != index or page.arena != arena.at or \
               page.first != arena.start + index * self.slice or page.slices == 0:
                return None
            arena.pages.append(page)
        if page.block_size == 0 or page.slices > 1 << 28:
            return None
        self.pages.append(page)
        return page

    def take_guarded(self):
        layout = self.layout
        records = layout.pointer(layout.address["guarded_records"])
        if not records:
            return
        size = layout["sizeof.guarded"]
        data = self.memory.read(records, size * layout["guarded_records"]) or b""
        for i in range(len(data) // size):
            one = data[i * size:(i + 1) * size]
            if not layout.of(one, "guarded.mapping") or not layout.of(one, "guarded.page"):
                continue
            at = layout.of(one, "guarded.page")
            owner = layout.at_field(at, "page.owner")
            record = {n: layout.of(one, "guarded." + n)
                      for n in ("data", "data_size", "block", "size", "used_size")}
            record["is_live"] = owner == layout["owner_huge"]
            record["stacks"] = [self.words(one, "guarded.alloc_stack"),
                                self.words(one, "guarded.free_stack")]
            self.guarded.append(record)
            if record["is_live"]:
                page = self.take_page(at, None)
                if page:
                    page.guarded = record

    def note_of(self, page):
        """What the profiler has of a page's block: the size asked for and the stack; or None."""
        layout = self.layout
        if not self.is_huge(page) or not page.lend & layout["page_noted"]:
            return None
        note = layout.at_field(page.at, "page.note")
        site = layout.at_field(note, "note.site") if note else 0
        if not site:
            return None
        depth = min(layout.at_field(site, "site.depth"), 128)
        data = self.memory.read(site + layout["site.frames"], depth * layout.word) or b""
        letter = "<Q" if layout.word == 8 else "<I"
        return (layout.at_field(note, "note.size"),
                [frame for (frame,) in struct.iter_unpack(letter, data)])

    def words(self, data, name):
        offset, size = self.layout[name], self.layout.size[name]
        letter = "<Q" if self.layout.word == 8 else "<I"
        return [w for (w,) in struct.iter_unpack(letter, data[offset:offset + size]) if w]

    def take_own(self):
        layout, address = self.layout, self.layout.address
        for at in self.chain(layout.pointer(address["meta_chunks"]), "meta_chunk.next", 1 << 20):
            self.chunks.append((at, layout.at_field(at, "meta_chunk.size")))
        table = self.memory.read(address["pagemap_far"], layout["far_tables"] * layout.word) or b""
        for i, (at,) in enumerate(struct.iter_unpack("<Q" if layout.word == 8 else "<I", table)):
            if at:
                self.far.append((i, layout.at_field(at, "far_table.entries")))

    # ---- blocks --------------------------------------------------------------------------------

    def bin_size(self, number):
        small = self.layout["small_bins"]
        if number <= small:
            return number * self.layout["align"]
        k = number - small - 1
        return (9 + (k & 7)) << (7 + (k >> 3))

    def page_of(self, address):
        return self.by_slice.get(address >> self.layout["slice_shift"])

    def is_huge(self, page):
        return page.is_huge

    def block_of(self, page, address):
        """The number of the block at an address in a page, and its start; None where there is none."""
        offset = address - page.start
        if self.is_huge(page):
            return (0, page.start) if page.capacity and 0 <= offset < page.block_size else None
        index = offset // page.block_size
        if offset < 0 or index >= page.capacity:
            return None
        return index, page.start + index * page.block_size

    def live(self, page):
        """A byte for each carved block of a page: 1 if it is live."""
        if page.live_map is None:
            page.live_map = self.find_live(page)
        return page.live_map

    def find_live(self, page):
        layout = self.layout
        if self.is_huge(page):
            return bytearray(b"\1" if page.capacity else b"")
        if page.bin == 0:
            return bytearray(page.capacity)
        if layout["live_bits"]:
            return self.live_by_bits(page)
        data = self.memory.read(page.start - layout["pad"],
                                page.capacity * page.block_size + layout["pad"])
        if layout["padding"]:
            return self.live_by_canaries(page, data)
        return self.live_by_lists(page, data)

    def has_changed(self, page):
        """Whether other blocks of a page are free than when it was looked at."""
        data = self.memory.read(page.at, self.layout["page_record_size"])
        if data is None:
            return True
        now = self.page_from(page.at, data)
        return any(getattr(now, name) != getattr(page, name)
                   for name in ("start", "block_size", "capacity", "used", "free", "remote")) or \
            self.live(now) != self.live(page) or now.is_torn

    def live_by_bits(self, page):
        """A pair of words for each 64 places where a block can begin: live, and freed by others."""
        layout, align = self.layout, self.layout["align"]
        base = page.at + layout["page_record_size"] + layout["page_extra_size"]
        size = 2 * (self.slice // align // 8)
        places = []  # a character for each of all slices
        for number in range(page.slices):
            table = self.memory.read(base + number * layout["page_record_stride"],
                                     size) or bytes(size)
            for live, gone in struct.iter_unpack("<QQ", table):
                places.append(f"{live & ~gone:064b}"[::-1])
        first = (page.start - page.first) // align
        found = "".join(places)[first::page.block_size // align][:page.capacity]
        return bytearray(c == "1" for c in found.ljust(page.capacity, "0"))

    def live_by_canaries(self, page, data):
        shift, width = self.layout["pad_state_shift"], self.layout["pad_state_bits"]
        found = bytearray(page.capacity)
        if not data:
            return found
        first, key, size = self.layout["pad_first_size"], page.key, page.block_size
        pads = memoryview(data).cast("Q")[::size // 8]
        for i in range(page.capacity):
            pad, place = pads[i], (page.start + i * size) << 24
            twice = pad ^ key ^ place & MASK64
            once = (twice ^ twice << width) & MASK64
            state = ((once << (64 - shift) | once >> shift) - first) & MASK64
            found[i] = state < MASK64 - 3  # above are the states of free blocks
        return found

    def live_by_lists(self, page, data):
        """All blocks, less those on the page's lists. Where these do not fit together with its count
        the page changed while it was read."""
        found = bytearray(b"\1") * page.capacity
        if data is None:
            return found
        others = 0  # free, but in use to the page
        word = self.layout.word
        encoded = self.layout["encodes_links"]
        # In front of the list's address is how many blocks it has, where there is room.
        address = (1 << (self.layout["remote_count_shift"] or 8 * word)) - 1
        for at, is_remote in (page.free, False), (page.remote & address & ~1, True):
            for _ in range(page.capacity + 1):
                if not at:
                    break
                offset = at - page.start
                if offset % page.block_size or \
                   not 0 <= offset < page.capacity * page.block_size or \
                   not found[offset // page.block_size]:
                    page.is_torn = True
                    break
                found[offset // page.block_size] = 0
                others += is_remote
                link = int.from_bytes(data[offset:offset + word], "little")
                if encoded:
                    link ^= (page.key ^ at << 24) & ((1 << 8 * word) - 1)
                at = link
        if page.lend & self.layout["page_holes"]:
            self.leave_holes_out(page, found)
        for at in self.spares_of.get(page.at, ()):
            if 0 <= at - page.start < page.capacity * page.block_size:
                number = (at - page.start) // page.block_size
                others += found[number]
                found[number] = 0
        # A current page counts itself as well.
        page.is_torn |= not 0 <= page.used - found.count(1) - others <= 1
        return found

    def leave_holes_out(self, page, found):
        arena = next((a for a in self.arenas if a.at == page.arena), None)
        for i in range(page.capacity if arena else 0):
            start = page.start + i * page.block_size - arena.start
            last = start + page.block_size - 1
            if not all(bits(arena.present, n)
                       for n in range(start // self.unit, last // self.unit + 1)):
                found[i] = 0

    def blocks_live(self):
        return sum(page.blocks_live(self.layout) for page in self.pages)

    # ---- names ---------------------------------------------------------------------------------

    def heap_name(self, page):
        found = self.heaps.get(page.heap)
        return f"heap {found[0]}" + (f" (tag {found[1]})" if found[1] else "") if found else \
            "a heap that is gone"

    def thread_name(self, page):
        if self.is_huge(page):
            return "no thread"
        if not page.is_a_threads:
            return "no thread: abandoned"
        theap = self.theaps.get(page.theap)
        if theap is None:
            return "a thread that is not known"
        number = theap[1]
        known = self.memory.threads()
        if number in known:
            return f"thread {number} {known[number][0]}".rstrip()
        return f"thread {number}" if number else f"thread {theap[2]:#x}"
