# SPDX-License-Identifier: MIT
"""What points where: a conservative look at all memory in which a pointer can lie.

A word that is an address inside of a block counts as a pointer to it. Memory is searched for the upper
halves of the addresses that blocks have, which are few, so most words are never looked at.
"""

CHUNK = 4 << 20


def key(page, address):
    """Of the block of a page that has the address."""
    return page.at, (address - page.start) // page.block_size


class Reached:
    """Blocks that can be reached from those that were added."""

    def __init__(self, edges):
        self.edges, self.keys, self.waiting = edges, set(), []

    def add(self, page, number):
        if (page.at, number) not in self.keys:
            self.keys.add((page.at, number))
            self.waiting.append((page.at, number))

    def add_all_of(self, page, heap):
        for number in range(len(heap.live(page))):
            self.add(page, number)

    def follow(self):
        while self.waiting:
            for page, number in self.edges.get(self.waiting.pop(), ()):
                self.add(page, number)

    def pointed_to_by_others(self):
        return {(page.at, number) for source, targets in self.edges.items()
                if source not in self.keys for page, number in targets}


class Scan:
    def __init__(self, heap):
        self.heap, self.layout = heap, heap.layout
        self.word = heap.layout.word
        self.low, self.keys = self.spans()
        self.unread = 0  # bytes of pages of blocks

    def spans(self):
        """The upper halves (two bytes of 32-bit addresses) of all addresses of pages."""
        shift = 32 if self.word == 8 else 16
        keys = set()
        for page in self.heap.pages:
            first, last = page.first, page.first + page.slices * self.heap.slice - 1
            keys.update(range(first >> shift, (last >> shift) + 1))
        return shift // 8, sorted(keys)

    def words(self, data):
        """Places in `data` (which begins at a multiple of words) and their words, of those that may
        be addresses of pages."""
        half, word = self.low, self.word
        if word == 4:
            table = memoryview(data)[:len(data) // 4 * 4].cast("I")
            least, most = self.keys[0] << 16, (self.keys[-1] << 16) + 0xffff
            for i, value in enumerate(table):
                if least <= value <= most:
                    yield i * 4, value
            return
        for key in self.keys:
            pattern = key.to_bytes(word - half, "little")
            at = data.find(pattern)
            while at >= 0:
                if at % word == half:
                    yield at - half, int.from_bytes(data[at - half:at - half + word], "little")
                at = data.find(pattern, at + 1)

    def pointers_in(self, start, data):
        """(address of the word, page, number of the block) of pointers to live blocks."""
        for at, value in self.words(data):
            page = self.heap.page_of(value)
            if page is None:
                continue
            block = self.heap.block_of(page, value)
            if block is not None and self.heap.live(page)[block[0]]:
                yield start + at, page, block[0]

    def ranges(self):
        """Writable memory that is not the library's: data of programs, stacks, other mappings."""
        own = [(a.start, a.start + a.slices * self.heap.slice) for a in self.heap.arenas]
        own += [(a.at, a.at + a.meta_size) for a in self.heap.arenas]
        own += [(at, at + size) for at, size in self.heap.chunks]
        own += [(p.first, p.first + p.slices * self.heap.slice) for p in self.heap.pages
                if p.arena == 0]
        own.append((self.heap.table, self.heap.table + self.heap.near_size))
        size = (1 << self.layout["far_bits"] - self.layout["slice_shift"]) * self.word
        own += [(at, at + size) for _, at in self.heap.far]
        own.sort()
        for mapping in self.heap.memory.mappings():
            if "w" not in mapping.access or mapping.name.startswith(("[v", "/dev/")):
                continue
            at = mapping.start
            for start, end in own:
                if end <= at or start >= mapping.end:
                    continue
                if start > at:
                    yield at, start, mapping
                at = max(at, end)
            if at < mapping.end:
                yield at, mapping.end, mapping

    def read(self, start, end):
        """The memory of a range in parts, what cannot be read left out."""
        while start < end:
            size = min(CHUNK, end - start)
            data = self.heap.memory.read(start, size)
            if data is None and size > 4096:
                for at in range(start, start + size, 65536):
                    data = self.heap.memory.read(at, min(65536, start + size - at))
                    if data:
                        yield at, data
            elif data:
                yield start, data
            start += size

    def roots(self):
        """Pointers from outside of the heap: (where, page, number)."""
        half = self.word
        for value in self.heap.memory.registers():
            page = self.heap.page_of(value)
            block = self.heap.block_of(page, value) if page else None
            if block and self.heap.live(page)[block[0]]:
                yield None, page, block[0]
        for start, end, _ in self.ranges():
            start = -(-start // half) * half
            for at, data in self.read(start, end):
                yield from self.pointers_in(at, data)

    def page_pointers(self, page):
        """Pointers in the live blocks of a page: (address of the word, page, number)."""
        live, size = self.heap.live(page), page.block_size
        if not any(live):
            return
        end = page.start + (page.block_size if self.heap.is_huge(page)
                            else page.capacity * size)
        read = 0
        for at, data in self.read(page.start, end):
            read += len(data)
            for where, target, number in self.pointers_in(at, data):
                own = (where - page.start) // size
                if own < len(live) and live[own]:
                    yield where, target, number
        self.unread += end - page.start - read

    # ---- answers -------------------------------------------------------------------------------

    def leaks(self):
        """Live blocks that cannot be reached from outside of the heap: (start, size, whether other
        such blocks point to it), and how many live blocks there are. Those of pages that changed
        meanwhile are neither, and all that they point to counts as reached."""
        reached = Reached(self.edges())
        for page in self.heap.pages:
            self.heap.live(page)
            if page.is_torn:
                reached.add_all_of(page, self.heap)
        for _, page, number in self.roots():
            reached.add(page, number)
        reached.follow()
        # What points to a block was read later than its page.
        for page in {page.at: page for _, _, page in self.unreached(reached)}.values():
            if self.heap.has_changed(page):
                page.is_torn = True
                reached.add_all_of(page, self.heap)
        reached.follow()
        pointed = reached.pointed_to_by_others()
        lost = [(start, size, key(page, start) in pointed)
                for start, size, page in self.unreached(reached)]
        return lost, sum(not page.is_torn for _, _, page in self.heap.live_blocks())

    def edges(self):
        """For each block that points to others: which."""
        found = {}
        for page in self.heap.pages:
            for where, target, number in self.page_pointers(page):
                if key(page, where) != (target.at, number):
                    found.setdefault(key(page, where), []).append((target, number))
        return found

    def unreached(self, reached):
        for start, size, page in self.heap.live_blocks():
            if not page.is_torn and key(page, start) not in reached.keys:
                yield start, size, page

    def pointing_to(self, page, number, most=20):
        """Words that are addresses inside of a block: (where, what that is in words)."""
        found = []
        start = page.start + number * page.block_size
        for value in self.heap.memory.registers():
            if start <= value < start + page.block_size:
                found.append((None, "a register"))
        for low, high, mapping in self.ranges():
            low = -(-low // self.word) * self.word
            for at, data in self.read(low, high):
                for where, value in self.words(data):
                    if start <= value < start + page.block_size:
                        found.append((at + where, mapping.name or "a stack or another mapping"))
        for other in self.heap.pages:
            for where, target, index in self.page_pointers(other):
                if target is page and index == number:
                    found.append((where, f"block {where - (where - other.start) % other.block_size:#x}"
                                  f" of {other.block_size} bytes"))
            if len(found) > most:
                break
        return found[:most]
