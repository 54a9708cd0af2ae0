# SPDX-License-Identifier: MIT
"""What points where: a conservative look at all memory in which a pointer can lie.

A word that is an address inside of a block counts as a pointer to it. Blocks have numbers, page
after page, and what is known of each stands in arrays: a million are nothing out of the ordinary.
"""

from array import array
from bisect import bisect_right
from collections import namedtuple
from itertools import accumulate, chain

CHUNK = 1 << 20
KEYS_MOST = 16
DENSE = 12  # with a word that looks like an address among so many, each is looked at by itself

# Words from `low` to below `high`. The parts of them above `shift` bits are `keys`, which are few.
Span = namedtuple("Span", "low high shift keys")


class Edges:
    """Which blocks each block points to: the targets of all stand in one array, in the order of the
    blocks, those of a block from `firsts` of its number on."""

    def __init__(self, count):
        self.degree, self.targets = array("I", bytes(4 * count)), array("I")
        self.firsts = None

    def close(self):
        self.firsts = array("Q", chain((0,), accumulate(self.degree)))
        self.degree = None


class Reached:
    """Blocks that can be reached from those that were added: a mark for each."""

    def __init__(self, edges, count):
        self.edges, self.marks, self.waiting = edges, bytearray(count), []

    def add(self, block):
        if not self.marks[block]:
            self.marks[block] = 1
            self.waiting.append(block)

    def add_all_of(self, page):
        for block in range(page.number, page.number + page.blocks_made):
            self.add(block)

    def of(self, page):
        return self.marks[page.number:page.number + page.blocks_made]

    def follow(self):
        marks, waiting = self.marks, self.waiting
        firsts, targets = self.edges.firsts, self.edges.targets
        while waiting:
            source = waiting.pop()
            for block in targets[firsts[source]:firsts[source + 1]]:
                if not marks[block]:
                    marks[block] = 1
                    waiting.append(block)


class Scan:
    def __init__(self, heap):
        self.heap, self.layout = heap, heap.layout
        self.word = heap.layout.word
        self.letter = "Q" if self.word == 8 else "I"
        self.missing = 0  # bytes that could not be read
        self.unread = 0   # those of pages of blocks
        self.count = 0
        for page in heap.pages:
            page.number = self.count
            self.count += page.blocks_made
        self.span = self.span_of([(p.first, p.first + p.slices * heap.slice) for p in heap.pages],
                                 32)

    def span_of(self, ranges, shift):
        keys = set()
        for first, end in ranges:
            keys.update(range(first >> shift, (end - 1 >> shift) + 1))
        return Span(min((r[0] for r in ranges), default=0), max((r[1] for r in ranges), default=0),
                    shift, sorted(keys))

    def hits(self, data, span):
        """Of the words of `data`, those in a span: (number of the word, its value), in order."""
        low, high = span.low, span.high
        if self.word == 8:
            sparse = self.sparse_hits(data, span)
            if sparse is not None:
                return sparse
        words = memoryview(data)[:len(data) // self.word * self.word].cast(self.letter)
        return ((i, value) for i, value in enumerate(words) if low <= value < high)

    def sparse_hits(self, data, span):
        """The same by a search for the keys; None where that is no faster."""
        size = 8 - span.shift // 8
        if len(span.keys) > KEYS_MOST:
            return None
        patterns = [key.to_bytes(size, "little") for key in span.keys]
        if sum(map(data.count, patterns)) > len(data) // 8 // DENSE:
            return None
        found, find, place = [], data.find, 8 - size
        words = memoryview(data)[:len(data) & -8].cast("Q")
        for pattern in patterns:
            at = find(pattern)
            while at >= 0:
                if at & 7 == place and span.low <= words[at >> 3] < span.high:
                    found.append((at >> 3, words[at >> 3]))
                at = find(pattern, at + 1)
        if len(patterns) > 1:
            found.sort()
        return found

    def block_at(self, value):
        """The page and the number of the live block that an address lies in, or None."""
        page = self.heap.page_of(value)
        block = self.heap.block_of(page, value) if page else None
        return (page, block[0]) if block and self.heap.live(page)[block[0]] else None

    # ---- memory --------------------------------------------------------------------------------

    def own(self):
        """The library's memory, sorted, what lies side by side in one piece."""
        slice_ = self.heap.slice
        own = [(a.start, a.start + a.slices * slice_) for a in self.heap.arenas]
        own += [(a.at, a.at + a.meta_size) for a in self.heap.arenas]
        own += [(at, at + size) for at, size in self.heap.chunks]
        own += [(p.first, p.first + p.slices * slice_) for p in self.heap.pages if p.arena == 0]
        own.append((self.heap.table, self.heap.table + self.heap.near_size))
        size = (1 << self.layout["far_bits"] - self.layout["slice_shift"]) * self.word
        own += [(at, at + size) for _, at in self.heap.far]
        joined = []
        for start, end in sorted(own):
            if joined and start <= joined[-1][1]:
                joined[-1][1] = max(joined[-1][1], end)
            else:
                joined.append([start, end])
        return joined

    def ranges(self):
        """Writable memory that is not the library's: data of programs, stacks, other mappings."""
        own = self.own()
        starts = [start for start, _ in own]
        for mapping in self.heap.memory.mappings():
            if "w" not in mapping.access or mapping.name.startswith(("[v", "/dev/")):
                continue
            at = mapping.start
            for start, end in own[max(bisect_right(starts, at) - 1, 0):]:
                if start >= mapping.end:
                    break
                if end <= at:
                    continue
                if start > at:
                    yield at, start, mapping
                at = end
            if at < mapping.end:
                yield at, mapping.end, mapping

    def read(self, start, end):
        """The memory of a range in parts, less what cannot be read and what was never touched."""
        for low, high, is_there in self.heap.memory.parts(start, end):
            if not is_there:
                self.missing += high - low
                continue
            for at in range(low, high, CHUNK):
                yield from self.read_part(at, min(at + CHUNK, high))

    def read_part(self, start, end):
        data = self.heap.memory.read(start, end - start)
        if data is not None:
            yield start, data
            return
        # Half by half, down to single OS pages.
        unit = self.heap.unit
        middle = start + (end - start) // 2
        middle = next((m for m in (-(-middle // unit) * unit, middle // unit * unit)
                       if start < m < end), None)
        if middle is None:
            self.missing += end - start
            return
        yield from self.read_part(start, middle)
        yield from self.read_part(middle, end)

    def outside(self):
        """The same of all memory that is not the library's, with its mapping."""
        for start, end, mapping in self.ranges():
            for at, data in self.read(-(-start // self.word) * self.word, end):
                yield at, data, mapping

    def of_page(self, page):
        """And of the blocks of a page, as far as they are the program's."""
        live = self.heap.live(page)
        if not any(live):
            return
        before = self.missing
        # The canary of a block that lies apart is in front of it, and its mapping ends with it.
        end = page.start + page.block_size * page.blocks_made - self.layout["pad"]
        if page.guarded:
            end = min(end, page.guarded["data"] + max(page.guarded["data_size"],
                                                      page.guarded["used_size"]))
        yield from self.read(page.start, end)
        self.unread += self.missing - before

    # ---- answers -------------------------------------------------------------------------------

    def leaks(self):
        """Live blocks that cannot be reached from outside of the heap, by size: how many, and the
        addresses of some; and how many live blocks there are. Those of pages that changed meanwhile
        are neither, and all that they point to counts as reached."""
        reached = Reached(self.edges(), self.count)
        for page in self.heap.pages:
            if page.is_torn:
                reached.add_all_of(page)
        self.add_roots(reached)
        reached.follow()
        # What points to a block was read later than its page.
        for page, _ in self.unreached(reached):
            if self.heap.has_changed(page):
                page.is_torn = True
                reached.add_all_of(page)
        reached.follow()
        lost = {}
        for page, blocks in self.unreached(reached):
            group = lost.setdefault(page.block_size, [0, []])
            group[0] += len(blocks)
            group[1] += [page.start + i * page.block_size for i in blocks[:5 - len(group[1])]]
        return lost, sum(self.heap.live(page).count(1) for page in self.heap.pages
                         if not page.is_torn)

    def edges(self):
        edges = Edges(self.count)
        for page in self.heap.pages:
            live = self.heap.live(page)
            page.known = (page.start, page.block_size, len(live), page.number, live)
        for page in self.heap.pages:
            self.add_edges(edges, page)
        edges.close()
        return edges

    def add_edges(self, edges, page):
        """The innermost loop of all: it runs once for each pointer."""
        page_at, shift, word = self.heap.by_slice.get, self.layout["slice_shift"], self.word
        degree, add = edges.degree, edges.targets.append
        start, size, _, number, live = page.known
        for at, data in self.of_page(page):
            offset = at - start
            for i, value in self.hits(data, self.span):
                target = page_at(value >> shift)
                if target is None:
                    continue
                first, length, made, target_number, target_live = target.known
                index = (value - first) // length
                if 0 <= index < made and target_live[index]:
                    source = (offset + i * word) // size
                    if live[source] and source + number != index + target_number:
                        degree[source + number] += 1
                        add(index + target_number)

    def add_roots(self, reached):
        for value in self.heap.memory.registers():
            block = self.block_at(value)
            if block:
                reached.add(block[0].number + block[1])
        for _, data, _ in self.outside():
            for _, value in self.hits(data, self.span):
                block = self.block_at(value)
                if block:
                    reached.add(block[0].number + block[1])

    def unreached(self, reached):
        """Pages that stood still with the numbers of their live blocks that were not reached."""
        for page in self.heap.pages:
            live = self.heap.live(page)
            if page.is_torn or live == reached.of(page):
                continue
            blocks = [i for i, (is_live, mark) in enumerate(zip(live, reached.of(page)))
                      if is_live and not mark]
            if blocks:
                yield page, blocks

    def pointing_to(self, page, number, most=20):
        """Words that are addresses inside of a block: (where, what that is in words)."""
        start = page.start + number * page.block_size
        span = self.span_of([(start, start + page.block_size)],
                            16 if page.block_size < 1 << 18 else 32)
        found = [(None, "a register") for value in self.heap.memory.registers()
                 if span.low <= value < span.high]
        for at, data, mapping in self.outside():
            found += [(at + i * self.word, mapping.name or "a stack or another mapping")
                      for i, _ in self.hits(data, span)]
        for other in self.heap.pages:
            for at, data in self.of_page(other):
                for i, _ in self.hits(data, span):
                    where = at + i * self.word
                    index = (where - other.start) // other.block_size
                    if self.heap.live(other)[index]:
                        found.append((where, f"block {other.start + index * other.block_size:#x} "
                                             f"of {other.block_size} bytes"))
            if len(found) > most:
                break
        return found[:most]
