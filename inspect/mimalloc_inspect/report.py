# SPDX-License-Identifier: MIT
"""The report of docs/report.md, made from outside: the same rows, read from the same records."""

GROUPS = ("in use by the program", "free, in pages of blocks", "free, outside of them",
          "the library's own", "the rest of the process")


def amount(count):
    """Bytes as the library prints them."""
    for unit in ("  B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            return f"{count} {unit}" if unit == "  B" else f"{count:.1f} {unit}"
        count /= 1024
    return ""


def row_fields(layout):
    """Name, label and group of each row, from the library's own table."""
    rows = []
    size = layout["sizeof.report_field"]
    for i in range(layout["report_rows"]):
        at = layout.address["report_fields"] + i * size
        name = layout.text(layout.at_field(at, "report_field.name"))
        label = layout.text(layout.at_field(at, "report_field.label"))
        rows.append((name, label or name, layout.at_field(at, "report_field.group")))
    return rows


class Report:
    """Rows in bytes; by bin: live blocks, their bytes, free bytes. Where the system does not say what
    is present (core dumps), what the library has touched counts."""

    def __init__(self, heap):
        self.heap, self.layout = heap, heap.layout
        self.rows, self.bins, self.by_heap = {}, {}, {}
        self.presence = heap.memory.presence()
        self.zeros_are = None
        self.smaps = heap.memory.smaps()
        self.sleeping = {n for n, (_, state) in heap.memory.threads().items()
                         if state not in "R?"}
        self.resident = None
        self.shared_is_zero = not self.shares()
        for arena in heap.arenas:
            self.take_arena(arena)
        for page in heap.pages:
            if page.arena == 0 and page.guarded is None:
                self.take_huge(page, None)
        self.take_own()
        if self.smaps is not None:
            self.take_rest()

    def shares(self):
        """Whether the process has anonymous memory in common with another, after a fork."""
        return any(sizes.get("Shared_Clean", 0) + sizes.get("Shared_Dirty", 0)
                   for mapping, sizes in self.smaps or () if not mapping.name.startswith("/")
                   and "s" not in mapping.access and not mapping.name.startswith("[v"))

    # ---- what is present -----------------------------------------------------------------------

    def present(self, start, size, arena=None):
        if size <= 0:
            return 0
        unit = self.heap.unit
        if self.presence is not None:
            states = self.presence.states(start, size)
            if not self.shared_is_zero:
                states = states.replace(b"\2", b"\1")
            count = states.count(1)
            if count == len(states):
                return size
            bytes_ = count * unit
            if states and states[0] == 1:
                bytes_ -= start % unit
            if states and states[-1] == 1 and (start + size) % unit:
                bytes_ -= unit - (start + size) % unit
            return bytes_
        if arena is None:
            return size
        from .heap import bits
        offset, found = start - arena.start, 0
        while size > 0:
            part = min(unit - offset % unit, size)
            found += part * bits(arena.present, offset // unit)
            offset += part
            size -= part
        return found

    def add(self, row, count):
        if count:
            self.rows[row] = self.rows.get(row, 0) + count

    # ---- pages ---------------------------------------------------------------------------------

    def row_of_free(self, page, live):
        layout = self.layout
        if page.is_a_threads and not page.lend & layout["page_rests"]:
            return "free_current"
        if live == 0:
            return "free_empty"
        if page.lend & layout["page_holes"]:
            return "free_pinned"
        if not page.is_a_threads:
            return "free_abandoned"
        number = self.heap.theaps.get(page.theap, (0, 0, 0))[1]
        return "free_sleeping" if number in self.sleeping else "free_partial"

    def note(self, page, blocks, live, free):
        count = self.bins.setdefault(page.bin, [0, 0, 0])
        for i, value in enumerate((blocks, live, free)):
            count[i] += value
        count = self.by_heap.setdefault(page.heap, [0, 0])
        count[0] += live
        count[1] += free

    def take_page(self, page, arena):
        size = page.slices * self.heap.slice
        front = page.start - page.first
        carved = page.capacity * page.block_size
        if page.bin == 0 or front + carved > size:
            self.add("rounding", self.present(page.first, size, arena))
            return
        blocks = page.blocks_live(self.layout)
        body = self.present(page.start, carved, arena)
        unused = carved - blocks * page.block_size
        free = max(unused - (carved - body), 0)
        live = body - free
        pads = min(blocks * self.layout["pad"], live)
        self.add("rounding", pads + self.present(page.first, front, arena))
        self.add("live", live - pads)
        self.add(self.row_of_free(page, blocks), free)
        self.note(page, blocks, live - pads, free)
        end = min(max(front + page.reserved * page.block_size, front + carved), size)
        self.add("uncarved", self.present(page.start + carved, end - front - carved, arena))
        self.add("rounding", self.present(page.first + end, size - end, arena))

    def take_huge(self, page, arena):
        size = page.slices * self.heap.slice
        if page.capacity == 0:
            self.add("huge_kept", self.present(page.first, size, arena))
            return
        used = min(page.start - page.first + page.block_size, size)
        live = self.present(page.first, used, arena)
        self.add("live_huge", live)
        self.note(page, 1, live, 0)
        self.add("rounding", self.present(page.first + used, size - used, arena))

    def take_arena(self, arena):
        self.add("records", self.present(arena.at, arena.meta_size) if self.presence else 0)
        for page in arena.pages:
            (self.take_huge if self.heap.is_huge(page) else self.take_page)(page, arena)
        # Runs of free slices of one kind.
        runs, i = [], 0
        from .heap import bits
        while i < arena.slices:
            if i & 63 == 0 and arena.free[i >> 3:(i >> 3) + 8] == b"\xff" * 8 and \
               not any(arena.committed[i >> 3:(i >> 3) + 8]):
                i += 64
                continue
            if bits(arena.free, i) and bits(arena.committed, i):
                row = ("waiting" if bits(arena.purgeable, i) else
                       "kept" if bits(arena.dirty, i) else "fresh")
                if runs and runs[-1][0] == row and runs[-1][1] + runs[-1][2] == i:
                    runs[-1][2] += 1
                else:
                    runs.append([row, i, 1])
            i += 1
        for row, first, count in runs:
            self.add(row, self.present(arena.start + first * self.heap.slice,
                                       count * self.heap.slice, arena))

    # ---- the rest ------------------------------------------------------------------------------

    def take_own(self):
        for record in self.heap.guarded:
            self.add("live_guarded" if record["is_live"] else "guarded_freed",
                     self.present(record["data"], max(record["data_size"], record["used_size"])))
        if self.presence is None:
            return
        for at, size in self.heap.chunks:
            self.add("records", self.present(at, size))
        self.add("page_map", self.present(self.heap.table, self.heap.near_size))
        size = (1 << self.layout["far_bits"] - self.layout["slice_shift"]) * self.layout.word
        for _, at in self.heap.far:
            self.add("page_map", self.present(at, size))

    def ours_in(self, start, end):
        found = 0
        for arena in self.heap.arenas:
            for at, size in ((arena.start, arena.slices * self.heap.slice),
                             (arena.at, arena.meta_size)):
                low, high = max(at, start), min(at + size, end)
                found += self.present(low, high - low) if low < high else 0
        for at, size in self.heap.chunks:
            low, high = max(at, start), min(at + size, end)
            found += self.present(low, high - low) if low < high else 0
        return found

    def kind(self, mapping, tids):
        name = mapping.name
        if name.startswith("[stack"):
            return "stacks"
        if name == "[heap]":
            return "brk"
        if name.startswith(("[v", "[uprobes")):
            return "system"
        if "s" in mapping.access and (not name or name.startswith("[")) or \
           name.startswith(("/memfd:", "/SYSV", "/dev/shm/", "/dev/zero")):
            return "shared"
        if name and not name.startswith("["):
            return "files"
        return "stacks" if any(mapping.start <= t < mapping.end for t in tids) else "anonymous"

    def take_rest(self):
        ours = sum(self.rows.values())
        main = getattr(self.heap.memory, "pid", None)
        tids = [tid for _, number, tid in self.heap.theaps.values() if number != main]
        code = next((m.name for m, _ in self.smaps if m.name.startswith("/") and
                     m.start <= self.layout.at < m.end and ".so" in m.name), None)
        total = anonymous = apart = 0
        last = None
        for mapping, sizes in self.smaps:
            resident = sizes.get("Rss", 0)
            total += resident
            is_own = code and (mapping.name == code or
                               last and not mapping.name and mapping.start == last)
            last = mapping.end if is_own and mapping.name else None
            row = "code" if is_own else self.kind(mapping, tids)
            if row == "anonymous":
                anonymous += resident
                continue
            inside = min(self.ours_in(mapping.start, mapping.end), resident) if resident else 0
            apart += inside
            self.add(row, resident - inside)
        self.add("anonymous", max(anonymous - (ours - apart), 0))
        self.resident = total

    # ---- print-outs ----------------------------------------------------------------------------

    def lines(self):
        all_bytes = self.resident or sum(self.rows.values()) or 1
        yield f"memory report of {self.heap.memory.title}"
        kind = "resident" if self.resident is not None else "touched by the library"
        yield f"  {kind:<32}{amount(all_bytes):>12}   100.0 %"
        fields = row_fields(self.layout)
        for group, title in enumerate(GROUPS):
            rows = [(label, self.rows.get(name, 0)) for name, label, g in fields if g == group]
            total = sum(count for _, count in rows)
            if not total:
                continue
            yield f"  {title:<32}{amount(total):>12}{100 * total / all_bytes:8.1f} %"
            for label, count in rows:
                if count:
                    yield f"    {label:<30}{amount(count):>12}{100 * count / all_bytes:8.1f} %"

    def histogram(self):
        yield f"  {'blocks of size':<18}{'number':>12}{'live':>12}{'free':>12}"
        for number, (blocks, live, free) in sorted(self.bins.items()):
            name = "huge" if number == self.layout["bin_huge"] else self.heap.bin_size(number)
            bar = "#" * round(30 * live / max(max(c[1] for c in self.bins.values()), 1))
            yield (f"    {name!s:<16}{blocks:>12}{amount(live):>12}{amount(free):>12}  "
                   f"{bar}").rstrip()
        if len(self.by_heap) > 1:
            yield f"  {'heap':<30}{'live':>12}{'free':>12}"
            for at, (live, free) in sorted(self.by_heap.items(), key=lambda i: -i[1][0]):
                name = self.heap.heaps.get(at, ("gone", 0))[0]
                yield f"    {name!s:<28}{amount(live):>12}{amount(free):>12}"

    def data(self):
        size = {n: 0 if n == self.layout["bin_huge"] else self.heap.bin_size(n) for n in self.bins}
        return {"resident": self.resident, "rows": self.rows, "other_copies": self.heap.others,
                "bins": [{"block_size": size[n], "blocks": c[0], "live": c[1], "free": c[2]}
                         for n, c in sorted(self.bins.items())],
                "heaps": [{"id": self.heap.heaps.get(at, (-1, 0))[0], "live": c[0], "free": c[1]}
                          for at, c in self.by_heap.items()]}
