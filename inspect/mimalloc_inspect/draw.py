# SPDX-License-Identifier: MIT
"""A picture of the heap: a square for each slice of each arena, by bin and fullness."""

from html import escape

from .report import amount

SIDE, GAP, ACROSS, LEFT, TOP = 11, 1, 64, 12, 58


def colour(number, bins, fullness):
    """A hue for the bin, pale when most of the page is free."""
    return f"hsl({(number * 300 // max(bins, 1)) % 360},65%,{90 - 48 * fullness:.0f}%)"


def squares(heap, arena):
    """For each slice: colour and description; None for slices that were never used."""
    from .heap import bits
    layout, cells, used = heap.layout, [], {}
    for page in arena.pages:
        first = (page.first - arena.start) // heap.slice
        live = page.blocks_live(layout)
        for i in range(page.slices):
            used[first + i] = (page, live, i)
    for i in range(arena.slices):
        if i in used:
            page, live, part = used[i]
            if heap.is_huge(page):
                cells.append(("#607080", f"huge block of {amount(page.block_size)}"
                              if page.capacity else "a huge block kept for the next"))
                continue
            fullness = live / max(page.reserved, 1)
            text = (f"{live} of {page.reserved} blocks of {page.block_size} bytes, "
                    f"{heap.heap_name(page)}, {heap.thread_name(page)}")
            cells.append((colour(page.bin, layout["bin_huge"], fullness), text))
        elif not bits(arena.free, i):
            cells.append(("#404040", "in use, no page"))
        elif bits(arena.purgeable, i):
            cells.append(("#f0d890", "free, waits to be given back"))
        elif bits(arena.dirty, i):
            cells.append(("#e8e0c8", "free, holds memory"))
        else:
            cells.append(None)
    return cells


def svg(heap):
    parts, y = [], TOP
    for arena in heap.arenas:
        cells = squares(heap, arena)
        while cells and cells[-1] is None:
            cells.pop()
        parts.append(f'<text x="{LEFT}" y="{y}">arena {arena.id}: {arena.start:#x}, '
                     f'{amount(arena.slices * heap.slice)}</text>')
        y += 8
        for i, cell in enumerate(cells):
            if cell is None:
                continue
            x = LEFT + i % ACROSS * (SIDE + GAP)
            row = y + i // ACROSS * (SIDE + GAP)
            parts.append(f'<rect x="{x}" y="{row}" width="{SIDE}" height="{SIDE}" '
                         f'fill="{cell[0]}"><title>{escape(cell[1])}</title></rect>')
        y += (len(cells) + ACROSS - 1) // ACROSS * (SIDE + GAP) + 26
    width = 2 * LEFT + ACROSS * (SIDE + GAP)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" '
            f'font-family="sans-serif" font-size="12">\n'
            f'<rect width="{width}" height="{y}" fill="white"/>\n'
            f'<text x="{LEFT}" y="20" font-size="15">{escape(heap.memory.title)}</text>\n'
            f'<text x="{LEFT}" y="38">a square is {amount(heap.slice)}: hue by size of blocks, '
            f'pale where free; grey a huge block; yellow free memory</text>\n'
            + "\n".join(parts) + "\n</svg>\n")
