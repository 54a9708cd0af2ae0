# SPDX-License-Identifier: MIT
"""The commands, for the shell and for gdb."""

import argparse
import contextlib
import json
import sys
import time

from . import Refusal
from .draw import svg
from .heap import Heap
from .layout import copies, none_found
from .memory import Core, Live
from .report import Report, amount
from .scan import Scan

USAGE = """mimalloc-inspect looks at the heap of a program that uses mimalloc, from outside: the
program goes on, and need not be prepared.

  mimalloc-inspect PID|CORE [COMMAND]

  report [--json]   where the memory is (the default)
  histogram         live and free blocks by size and by heap
  address 0x...     what is there: block, page, heap, thread, and what points to it
  leaks             live blocks that nothing points to
  top               the report again every second
  draw FILE.svg     a picture of arenas and pages
"""


def open_heap(memory):
    """Of a process with several copies of the library, the heap of the one that it uses: with the
    most live blocks. `others` has the names of the rest."""
    heaps, refused = [], None
    for is_thorough in (False, True):
        layouts, refused = copies(memory, is_thorough)
        heaps = [Heap(memory, layout) for layout in layouts]
        if any(heap.blocks_live() for heap in heaps):
            break
    if not heaps:
        raise refused or none_found(memory)
    best = max(heaps, key=lambda heap: (heap.blocks_live(), len(heap.arenas), len(heap.heaps)))
    best.others = [heap.layout.name for heap in heaps if heap is not best]
    return best


def others_line(heap):
    if heap.others:
        yield (f"the library is there {len(heap.others) + 1} times: shown is {heap.layout.name}, "
               f"which has the most live blocks, and not {', '.join(heap.others)}")


def answer(heap, command, arguments):
    """The lines of a command."""
    if arguments != ["--json"]:
        yield from others_line(heap)
    yield from COMMANDS[command](heap, arguments)


@contextlib.contextmanager
def looking_at(memory):
    """What was read of a process that ended meanwhile may be anything: nothing is said of it then."""
    try:
        yield
    except Exception:
        if not memory.has_ended():
            raise
    if memory.has_ended():
        raise Refusal(f"{memory.title} has ended while it was looked at")


def lines_of(memory, command, arguments):
    with looking_at(memory):
        return list(answer(open_heap(memory), command, arguments))


def report(heap, arguments):
    found = Report(heap)
    if arguments == ["--json"]:
        yield json.dumps(found.data())
        return
    yield from found.lines()


def histogram(heap, arguments):
    yield from Report(heap).histogram()


def parse_address(text):
    try:
        return int(text, 0)
    except ValueError:
        raise Refusal(f"{text} is no address") from None


def stack_lines(title, frames):
    if frames:
        yield f"  {title}: " + " ".join(f"{f:#x}" for f in frames)


def address(heap, arguments):
    if len(arguments) != 1:
        raise Refusal("address takes one address, as 0x7f0012345678")
    value = parse_address(arguments[0])
    page = heap.page_of(value)
    if page is None:
        yield f"{value:#x} is in no page of mimalloc"
        return
    block = heap.block_of(page, value)
    kind = "huge page" if heap.is_huge(page) else f"page of {page.reserved} blocks"
    where = (f"  {kind} of {page.block_size} bytes at {page.start:#x}, "
             f"{page.slices} slice{'s' if page.slices != 1 else ''}, {page.capacity} made, "
             f"{page.blocks_live(heap.layout)} live; {heap.heap_name(page)}, "
             f"{heap.thread_name(page)}")
    if block is None:
        yield f"{value:#x} is in a page, but in none of its blocks"
        yield where
        return
    number, start = block
    is_live = bool(heap.live(page)[number])
    inside = f", {value - start} bytes into it" if value != start else ""
    yield (f"{value:#x} is {'a live' if is_live else 'a free'} block of {page.block_size} bytes "
           f"at {start:#x}{inside}")
    yield where
    if page.guarded:
        yield f"  guarded, asked for with {page.guarded['size']} bytes"
        yield from stack_lines("allocated by", page.guarded["stacks"][0])
    note = heap.note_of(page)
    if note:
        yield f"  sampled by the profiler, asked for with {note[0]} bytes"
        yield from stack_lines("allocated by", note[1])
    if is_live:
        found = Scan(heap).pointing_to(page, number)
        for at, text in found:
            yield f"  pointed to by {text}" + (f" at {at:#x}" if at else "")
        if not found:
            yield "  nothing points to it"


def leaks(heap, arguments):
    scan = Scan(heap)
    lost, count = scan.leaks()
    total = sum(size * number for size, (number, _) in lost.items())
    blocks = sum(number for number, _ in lost.values())
    yield f"{blocks} of {count} live blocks cannot be reached: {amount(total).strip()}"
    for size, (number, starts) in sorted(lost.items(), key=lambda g: -g[0] * g[1][0])[:30]:
        some = " ".join(f"{s:#x}" for s in starts[:4])
        yield f"  {number} of {size} bytes: {some}{' ...' if number > 4 else ''}"
    torn = sum(page.is_torn for page in heap.pages)
    if torn:
        yield (f"{torn} of {len(heap.pages)} pages changed meanwhile: their blocks are left out (of "
               "a process that stands still only those of pages that a thread was at work on)")
    if scan.unread:
        yield (f"{amount(scan.unread).strip()} of pages cannot be read: what only these point to "
               "counts as not reached")


def draw(heap, arguments):
    if len(arguments) != 1 or not arguments[0].endswith(".svg"):
        raise Refusal("draw takes the name of the picture, as heap.svg")
    try:
        with open(arguments[0], "w") as file:
            file.write(svg(heap))
    except OSError as error:
        raise Refusal(f"{arguments[0]}: {error.strerror}") from None
    yield f"{arguments[0]}: {len(heap.arenas)} arenas, {len(heap.pages)} pages"


COMMANDS = {"report": report, "histogram": histogram, "address": address, "leaks": leaks,
            "draw": draw}


def top(memory, arguments):
    """A screen of the report, again every second until q."""
    if not sys.stdout.isatty():
        for _ in range(2):
            print("\n".join(lines_of(memory(), "report", [])), flush=True)
            time.sleep(1)
        return
    import curses

    def run(screen):
        curses.use_default_colors()
        curses.curs_set(0)
        screen.timeout(1000)
        before = {}
        while True:
            subject = memory()
            with looking_at(subject):
                heap = open_heap(subject)
                found = Report(heap)
                lines = [*others_line(heap), *found.lines(), "", *found.histogram()]
            screen.erase()
            height, width = screen.getmaxyx()
            for y, line in enumerate(lines[:height - 1]):
                bold = curses.A_BOLD if before and line not in before else 0
                screen.addnstr(y, 0, line, width - 1, bold)
            screen.addnstr(height - 1, 0, "q: end; bold: changed", width - 1, curses.A_REVERSE)
            before = set(lines)
            screen.refresh()
            if screen.getch() in (ord("q"), 27):
                return

    curses.wrapper(run)


def main():
    parser = argparse.ArgumentParser(usage=USAGE, add_help=True)
    parser.add_argument("subject")
    parser.add_argument("command", nargs="?", default="report",
                        choices=[*COMMANDS, "top"])
    options, rest = parser.parse_known_args()

    def memory():
        return Live(int(options.subject)) if options.subject.isdigit() else Core(options.subject)

    try:
        if options.command == "top":
            top(memory, rest)
            return 0
        print("\n".join(lines_of(memory(), options.command, rest)))
    except Refusal as refusal:
        print(f"mimalloc-inspect: {refusal}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
