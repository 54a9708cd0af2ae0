#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what the built library shows to the programs that use it.

  check_symbols.py --shared LIBRARY [--static ARCHIVE] [--no-override] [--max-text BYTES]
                   [--objects FOLDER --part NAME=PATTERN=BYTES...]

The shared library exports exactly the functions of test/api/public-symbols.txt and, unless
--no-override is given, the names of override-symbols.txt; needs no library but the C library;
bears the SONAME libNAME.so.3; and its text, code and constants without what the linker and the
unwinder need, is at most --max-text bytes, without the objects below FOLDER whose path matches the
pattern of a part, as `service/report_.*`: those have a bound of their own. The archive defines, as global symbols, these names and
names that begin with mx_.

Prints one line for each violation; exit status 0 without one, 1 with some. NM, READELF and SIZE
name other tools.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PUBLIC = HERE.parent / "api" / "public-symbols.txt"
OVERRIDE = HERE / "override-symbols.txt"
# The C library in its parts and forms; the loader is one of them.
LIBC = re.compile(r"^(libc\.so|libgcc_s\.so|libc\.musl|libpthread\.so|librt\.so|libatomic\.so|ld-)")
# Text of the library that most programs never call: it is on the disk, but seldom in memory.
OBJECT_SECTION = re.compile(r"^\.(?:text|rodata)\S*\s+(\d+)", re.MULTILINE)
TEXT_SECTION = re.compile(r"^\.(?:text|rodata|plt|init|fini)\S*\s+(\d+)", re.MULTILINE)
# What the linker adds of its own.
LINKER = {"_init", "_fini", "__bss_start", "_edata", "_end"}
# A 32-bit size_t is an unsigned int in the names of the operators.
SIZE_OF_OPERATOR = re.compile(r"^(_Zn[wa]|_Zd[la]Pv)m")


def tool(name, *arguments):
    command = [os.environ.get(name.upper(), name), *map(str, arguments)]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def listed(path):
    lines = (line for line in path.read_text().splitlines() if not line.startswith("#"))
    return set(" ".join(lines).split())


def optional(override):
    """The names of override-symbols.txt that end in a question mark: some builds have them."""
    return {name[:-1] for name in listed(OVERRIDE) if name.endswith("?")} if override else set()


def expected(override, bits):
    names = {name for name in listed(OVERRIDE) if not name.endswith("?")} if override else set()
    if bits == 32:
        names = {SIZE_OF_OPERATOR.sub(r"\1j", name) for name in names}
    return listed(PUBLIC) | names


def defined(listing):
    """The names of `nm -P`, without versions."""
    rows = (line.split() for line in listing.splitlines())
    return {row[0].split("@")[0] for row in rows if len(row) >= 2 and row[1] not in "Uwv"}


def check_parts(folder, parts):
    """Violations of the bounds of parts, and the text of all of them."""
    found, total = [], 0
    for part in parts:
        name, pattern, bound = part.rsplit("=", 2) if part.count("=") == 2 else ("", "", "0")
        objects = [p for p in sorted(folder.rglob("*.o"))
                   if re.fullmatch(pattern, p.relative_to(folder).as_posix().split(".")[0])]
        if not objects:
            found.append(f"{part}: no object file is of that part")
        text = sum(int(size) for p in objects for size in OBJECT_SECTION.findall(tool("size", "-A", p)))
        print(f"{name}: {text} bytes of text in {len(objects)} objects")
        if text > int(bound):
            found.append(f"{name}: {text} bytes of text, more than {bound}")
        total += text
    return found, total


def check_shared(path, wanted, max_text, may=frozenset(), apart=0):
    exported = defined(tool("nm", "-D", "-P", "--defined-only", path)) - LINKER
    for name in sorted(wanted - exported):
        yield f"{path.name}: does not export {name}"
    for name in sorted(exported - wanted - may):
        yield f"{path.name}: exports {name}, which is not public"
    dynamic = tool("readelf", "-d", "-W", path)
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if not LIBC.match(name):
            yield f"{path.name}: needs {name}"
    soname = re.search(r"\(SONAME\).*\[(.*)\]", dynamic)
    if soname is None or soname.group(1) != path.name.split(".so")[0] + ".so.3":
        yield f"{path.name}: bears the name {soname and soname.group(1)}"
    if "TEXTREL" in dynamic:
        yield f"{path.name}: relocates its text"
    if max_text is not None:
        text = sum(int(size) for size in TEXT_SECTION.findall(tool("size", "-A", path))) - apart
        print(f"{path.name}: {text} bytes of text")
        if text > max_text:
            yield f"{path.name}: {text} bytes of text, more than {max_text}"


def check_static(path, wanted):
    for name in sorted(defined(tool("nm", "-g", "-P", "--defined-only", path)) - wanted):
        # Position-independent code of 32-bit x86 has little functions that the linker shares.
        # Static probes have one that every file shares.
        if not name.startswith(("mx_", "__x86.get_pc_thunk.", "_.stapsdt.base")):
            yield f"{path.name}: defines {name}, which is not public"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=pathlib.Path)
    parser.add_argument("--static", type=pathlib.Path)
    parser.add_argument("--no-override", action="store_true")
    parser.add_argument("--bits", type=int, choices=(32, 64), default=64)
    parser.add_argument("--max-text", type=int)
    parser.add_argument("--objects", type=pathlib.Path)
    parser.add_argument("--part", action="append", default=[])
    options = parser.parse_args()
    if not (options.shared or options.static):
        parser.error("nothing to check")
    wanted = expected(not options.no_override, options.bits)
    found, apart = check_parts(options.objects, options.part)
    may = optional(not options.no_override)
    if options.shared:
        found += check_shared(options.shared, wanted, options.max_text, may, apart)
    if options.static:
        found += check_static(options.static, wanted | may)
    for line in found:
        print(line)
    print(f"{len(wanted)} public symbols, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
