#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the sources keep to their floors and to the limits of the house.

  check_floors.py SOURCE OBJECTS     SOURCE is the src folder, OBJECTS a folder of a build in which
                                     SOURCE/FLOOR/NAME.c has become FLOOR/NAME.c.o

  includes   a file includes files of its own floor and of lower ones, never a .c file (static.c
             does nothing else), and no headers include each other in a circle, nor do parts, which
             are a source and the header of its name
  objects    what an object file needs is defined on its own floor or on a lower one, and no object
             files need each other in a circle; every source has an object file
  lists      the build's list of sources and static.c name every source, floor by floor
  shape      at most 600 lines in a file, 100 columns in a line, 60 lines in a function; the licence
             comes first; #if only where the compiler, the build or the system is decided
  checks     floors whose state is asserted have so many assertions in a thousand lines of code,
             those that are blank or only a comment left out

Prints one line for each violation; exit status 0 without one, 1 with some, 2 when nothing could be
checked. NM names another nm.
"""

import os
import pathlib
import re
import subprocess
import sys

FLOORS = ["base", "os", "mem", "arena", "page", "heap", "alloc", "host", "profile", "service", "api", "override"]
MAX_LINES, MAX_COLUMNS, MAX_FUNCTION = 600, 100, 60
# Files that decide what compiler, processor, build or system this is; all others see constants.
CONDITIONAL = {"base/config.h", "base/compiler.h", "base/defaults.h", "base/atomic.h",
               "base/bits.h"}
CONDITIONAL_FLOORS = {"os", "host", "override"}
# Floors that keep the state of pages, arenas, heaps and blocks, and assertions in 1,000 lines.
CHECKED_FLOORS, LEAST_CHECKS = ["arena", "page", "heap", "alloc"], 44
CHECK = re.compile(r"\bmx_check(?:_slow)?\(")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b")
LIST_ENTRY = re.compile(r"^\s*((?:%s)/[\w./-]+\.c)\s*\)?\s*$" % "|".join(FLOORS))
# How a failed assertion of a debug build ends: the message is made far above. And the C library's
# dlopen, in front of which that of the override floor stands and calls it. One file asks malloc by
# name whose it is.
UPWARD = {"mx_assert_fail", "dlopen"}
BY_NAME = {("api/process_life.c", "malloc"), ("api/process_life.c", "free")}
OURS = re.compile(r"^_?m[ix]_")


def floor_of(name):
    """The number of the floor of a path below the source folder."""
    return FLOORS.index(name.split("/")[0])


def sources(root):
    """Paths below the source folder of all C files, headers too, that lie on a floor."""
    found = (p for floor in FLOORS for p in sorted((root / floor).glob("*.[ch]")))
    return [p.relative_to(root).as_posix() for p in found]


def cycles(edges):
    """Strongly connected parts of more than one node, and nodes that point at themselves."""
    index, low, stack, on_stack, result = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        for target in sorted(edges.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in on_stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            part = []
            while not part or part[-1] != node:
                part.append(stack.pop())
                on_stack.discard(part[-1])
            if len(part) > 1 or node in edges.get(node, ()):
                result.append(sorted(part))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return result


# ---- includes ---------------------------------------------------------------------------------

def included(root, name):
    """Pairs of line number and path, below the source folder where it is one, of the includes."""
    for number, line in enumerate((root / name).read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            path = (root / name).parent / match.group(1)
            yield number, pathlib.Path(os.path.normpath(path))


def check_includes(root):
    edges = {}
    for name in sources(root):
        edges[name] = set()
        for number, path in included(root, name):
            where = f"{name}:{number}"
            if path.suffix == ".c":
                yield f"{where}: includes the source {path.name}"
            try:
                target = path.relative_to(root).as_posix()
            except ValueError:
                continue  # A public header, which stands beside the floors.
            if target.split("/")[0] not in FLOORS:
                yield f"{where}: {target} lies on no floor"
            elif floor_of(target) > floor_of(name):
                yield f"{where}: includes {target}, which lies above it"
            else:
                edges[name].add(target)
    headers = cycles(edges)
    for part in headers:
        yield "includes in a circle: " + ", ".join(part)
    for part in cycles(parts_of(edges)) if not headers else []:
        yield "parts include each other: " + ", ".join(part)


def parts_of(edges):
    """The same edges between parts: a source and the header of its name are one."""
    parts = {}
    for name, targets in edges.items():
        part = name.rpartition(".")[0]
        found = {target.rpartition(".")[0] for target in targets} - {part}
        parts.setdefault(part, set()).update(found)
    return parts


# ---- objects ----------------------------------------------------------------------------------

def symbols(path):
    """The global symbols that an object file defines and those that it needs."""
    nm = os.environ.get("NM", "nm")
    listing = subprocess.run([nm, "-g", "-P", str(path)], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    rows = [line.split()[:2] for line in listing.splitlines() if line.strip()]
    needs = {name for name, kind in rows if kind in "Uwv"}
    return {name for name, kind in rows if kind not in "Uwv"}, needs


def check_objects(root, objects):
    names = [n for n in sources(root) if n.endswith(".c")]
    defines, needs, owner = {}, {}, {}
    for name in names:
        path = objects / (name + ".o")
        if not path.is_file():
            yield f"{name}: not compiled: no {path}"
            continue
        defines[name], needs[name] = symbols(path)
        for symbol in defines[name]:
            if OURS.match(symbol) and symbol in owner:
                yield f"{symbol}: defined by {owner[symbol]} and by {name}"
            owner[symbol] = name
    edges = {name: set() for name in needs}
    for name, wanted in needs.items():
        for symbol in sorted(wanted):
            target = owner.get(symbol)
            if target is None:
                if OURS.match(symbol):
                    yield f"{name}: needs {symbol}, which nobody defines"
            elif symbol in UPWARD or (name, symbol) in BY_NAME:
                continue
            elif floor_of(target) > floor_of(name):
                yield f"{name}: needs {symbol} of {target}, which lies above it"
            else:
                edges[name].add(target)
    for part in cycles(edges):
        yield "object files need each other: " + ", ".join(part)
    if not any(edges.values()):
        yield f"{objects}: no object file needs another: these are not the library's"


# ---- lists ------------------------------------------------------------------------------------

def check_lists(root):
    names = [n for n in sources(root) if n.endswith(".c")]
    static = [os.path.relpath(p, root) for _, p in included(root, "static.c")]
    listing = root.parent / "cmake" / "mimalloc-sources.cmake"
    matches = (LIST_ENTRY.match(line) for line in listing.read_text().splitlines())
    for where, listed in [("static.c", static), (listing.name, [m.group(1) for m in matches if m])]:
        for name in names:
            if name not in listed:
                yield f"{where}: does not name {name}"
        for name in listed:
            if name not in names:
                yield f"{where}: names {name}, which does not exist"
        if len(set(listed)) != len(listed):
            yield f"{where}: names a source twice"
        floors = [floor_of(name) for name in listed if name in names]
        if floors != sorted(floors):
            yield f"{where}: the sources are not in the order of the floors"


# ---- shape ------------------------------------------------------------------------------------

def is_guard(lines, number):
    """The #ifndef of an include guard: the #define of the same name is the next line."""
    words, following = lines[number].split(), lines[number + 1].split() if number + 1 < len(
        lines) else []
    return words[0] == "#ifndef" and following[:1] == ["#define"] and following[1:] == words[1:2]


def check_conditions(name, lines):
    if name in CONDITIONAL or name.split("/")[0] in CONDITIONAL_FLOORS:
        return
    for number, line in enumerate(lines):
        if CONDITION.match(line) and not is_guard(lines, number):
            yield f"{name}:{number + 1}: a condition of the preprocessor: {line.strip()}"


def check_functions(name, lines):
    """A function is what stands between a line that begins with a word and ends, perhaps lines
    later, in `) {`, and the next line that is a closing brace."""
    head = None
    inside = False
    for number, line in enumerate(lines, 1):
        if not inside and re.match(r"[A-Za-z]", line):
            head = number
        if not inside and head is not None:
            inside = re.search(r"\)\s*\{$", line) is not None
            if not inside and re.search(r"[;}]$", line):
                head = None
        elif inside and line == "}":
            if number - head + 1 > MAX_FUNCTION:
                yield f"{name}:{head}: a function of {number - head + 1} lines"
            head, inside = None, False


def check_shape(root):
    for name in sources(root) + ["static.c"]:
        lines = (root / name).read_text().splitlines()
        if len(lines) > MAX_LINES:
            yield f"{name}: {len(lines)} lines"
        if not lines or lines[0] != "// SPDX-License-Identifier: MIT":
            yield f"{name}: does not begin with the licence"
        for number, line in enumerate(lines, 1):
            if len(line) > MAX_COLUMNS:
                yield f"{name}:{number}: {len(line)} columns"
        yield from check_conditions(name, lines)
        yield from check_functions(name, lines)


def check_checks(root):
    for floor in CHECKED_FLOORS:
        lines = [line.strip() for path in sorted((root / floor).glob("*.[ch]"))
                 for line in path.read_text().splitlines()]
        code = [line for line in lines if line and not line.startswith("//")]
        count = sum(len(CHECK.findall(line)) for line in code)
        least = len(code) * LEAST_CHECKS // 1000
        if count < least:
            yield f"{floor}: {count} assertions in {len(code)} lines of code, not {least}"


def check_all(root, objects):
    """All violations, as lines of text."""
    return [*check_includes(root), *check_objects(root, objects), *check_lists(root),
            *check_shape(root), *check_checks(root)]


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    root, objects = (pathlib.Path(a).resolve() for a in sys.argv[1:])
    names = sources(root)
    if not names:
        print(f"{root}: no sources on any floor", file=sys.stderr)
        return 2
    found = check_all(root, objects)
    for line in found:
        print(line)
    print(f"{len(names)} files on {len(FLOORS)} floors, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
