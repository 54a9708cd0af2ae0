#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tells which branches of the library the tests take: builds it with gcc's counters, runs tests, and
writes pages of all sources, out/coverage/pages/index.html.

  coverage.py [--build NAME]... [--label REGEX] [--exclude REGEX] [--timeout SECONDS] [--jobs N]
              [--no-run] [--untaken FOLDER|FILE]... [--table FILE] [--least FOLDER=PERCENT]...

The builds are release and secure, and with the tests of units and calls only full and debug (whose
assertions are no branches, as it has those of the lowest level alone); all without optimization. Each runs
the tests of --label that do not match --exclude, each for --timeout seconds at most if it has no limit of
its own; what a test counts is kept however it ends, unless it is killed (see coverage_ends.c). --no-run
reports what earlier runs counted. An inlined function is one here, and so are the builds: whoever takes a
branch takes it for all. Of a line of which some builds have more conditions than others, that of the most
counts. What the macro of messages asks counts once, where that is defined. --untaken lists the
lines of which not all branches were taken: + for one that was.

Prints a table by folder of src; --table writes it into a document. tools/untaken.txt lists lines whose
branches cannot all be taken here, with the reason; those that it lists in vain are told. Exit status 0; 1
where nothing was counted, or a folder of --least has a smaller share of branches taken or listed.
"""

import argparse
import collections
import concurrent.futures
import html
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "coverage"
BUILDS = {"release": [], "secure": ["-DMI_SECURE=ON"], "full": ["-DMI_SECURE_FULL=ON"], "debug": ["-DMI_DEBUG=ON"]}
UNTAKEN = ROOT / "tools" / "untaken.txt"
# Those that are there for what the others do not have run the quick tests of it.
FEW = ("full", "debug")
FEW_LABELS = "unit|api|debug|mocked"
FEW_TARGETS = r"mimalloc-(unit|api|debug|stress)-.*"
FEW_EXCLUDED = "stress-oom"
LABELS = "unit|api|override|stress|fuzz|memory|options|profile|report|guarded"
# Rows of time and of other builds, and what runs none of these objects.
EXCLUDED = "fuzz-(calls|options|numbers)|explore|cost|instructions|headers|kernels|soak|forks?-faults|heavy"
TARGETS = r"(mimalloc|mimalloc-(?!cost|pairs|scale|inner-|soak|trace|subject|steps).*|deepbind-.*)"
MARKS = "<!-- coverage: begin (written by `make coverage`) -->\n", "<!-- coverage: end -->\n"
FOLDERS = ("base", "os", "mem", "arena", "page", "heap", "alloc", "host", "service", "api", "profile", "override")


# ---- building and running ----------------------------------------------------------------------

def build(name, jobs):
    """Not of the type Release, whose files have options of their own. What is inlined always is a function
    here, so that each of its branches is one."""
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    ends = folder / "coverage_ends.o"
    subprocess.run(["cc", "-O1", "-fPIC", "-c", ROOT / "tools" / "coverage_ends.c", "-o", ends], check=True)
    subprocess.run(
        ["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
         "-DCMAKE_C_FLAGS=--coverage -fprofile-update=atomic -Dalways_inline=__unused__",
         "-DCMAKE_CXX_FLAGS=--coverage", *(f"-DCMAKE_{kind}_LINKER_FLAGS={ends}" for kind in ("EXE", "SHARED")),
         "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O0 -DNDEBUG", "-DMI_BUILD_STATIC=OFF", "-DMI_BUILD_OBJECT=OFF",
         "-DMI_TEST_REAL=OFF", *BUILDS[name]], check=True, stdout=subprocess.DEVNULL)
    known = subprocess.run(["ninja", "-C", folder, "-t", "targets", "all"], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    targets = FEW_TARGETS if name in FEW else TARGETS
    wanted = [t for t in re.findall(r"^(\S+): phony$", known, re.M) if re.fullmatch(targets, t)]
    subprocess.run(["ninja", "-C", folder, "-j", str(jobs), *wanted], check=True)


def run(name, options):
    """Tests that fail here may do so because of the counters: their own build judges them."""
    for old in (OUT / name).rglob("*.gcda"):
        old.unlink()
    label = FEW_LABELS if name in FEW else options.label
    exclude = f"{options.exclude}|{FEW_EXCLUDED}" if name in FEW else options.exclude
    subprocess.run(["ctest", "--test-dir", OUT / name, "-L", label, "-E", exclude,
                    "--timeout", str(options.timeout), "-j", str(options.jobs)], check=False)


# ---- reading -----------------------------------------------------------------------------------

def counted(notes):
    """What gcov says of one object: [((file, line, function), count, [branch counts])]."""
    done = subprocess.run(["gcov", "--json-format", "--branch-probabilities", "--stdout", notes],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=notes.parent, check=False)
    found = []
    for text in done.stdout.splitlines():
        told = json.loads(text)
        for file in told["files"]:
            # Whatever the compiler was told of its folder: a cache may have compiled it elsewhere.
            name = os.path.normpath(file["file"].split("src/")[-1])
            if not (ROOT / "src" / name).is_file():
                continue
            for line in file["lines"]:
                place = name, line["line_number"], line.get("function_name", "")
                found.append((place, line["count"], [b["count"] for b in line["branches"]]))
    return found


def line_of(variants):
    """(count, [branch counts]) of a function's line, of which builds may have conditions that others have not:
    {(whether of FEW, how many branches): (count, counts)}. Of those that ran the one with the most branches
    counts, one of FEW where no other build ran it, or as many as another has."""
    count = sum(c for c, _ in variants.values())
    ran = [key for key, (c, _) in variants.items() if c > 0 or count == 0]
    is_few, width = max(ran, key=lambda key: (not key[0], key[1]))
    same = [counts for (_, n), (_, counts) in variants.items() if n == width]
    return count, [sum(c) for c in zip(*same)]


MESSAGE = re.compile(r"\bmx_(error|warning|verbose)\(")


def split_message(source, branches):
    """(the line's own branches, those of the macro of messages): whether somebody takes messages is asked
    wherever one is sent, and once in the source."""
    found = MESSAGE.search(source)
    if not found or len(branches) < 2 or source.lstrip().startswith("#"):
        return branches, []
    behind = 2 * len(re.findall(r"&&|\|\||\?", re.sub(r'"[^"]*"', "", source[found.end():])))
    at = max(0, len(branches) - 2 - behind)
    return branches[:at] + branches[at + 2:], branches[at:at + 2]


HOOK = "base/hooks.h", re.compile(r"if \(mx_hooks\.message != NULL\)")


def hook_line():
    for number, source in enumerate((ROOT / "src" / HOOK[0]).read_text().splitlines(), 1):
        if HOOK[1].search(source):
            return number
    raise SystemExit("no macro of messages")


def apart(merged):
    """The same with the macro's branches where the macro is."""
    asked = [0, 0]
    for file, lines in merged.items():
        source = (ROOT / "src" / file).read_text().splitlines()
        for line, (count, branches) in lines.items():
            own, macro = split_message(source[line - 1], branches)
            lines[line] = count, own
            asked = [a + b for a, b in zip(asked, macro)] if macro else asked
    merged[HOOK[0]][hook_line()] = sum(asked), asked
    return merged


def read(names, jobs):
    """{file: {line: (count, [branch counts])}} of all builds together."""
    notes = [(name in FEW, n) for name in names for n in (OUT / name).rglob("*.gcno") if "/src/" in str(n)]
    lines = collections.defaultdict(dict)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for (is_few, _), part in zip(notes, pool.map(lambda n: counted(n[1]), notes)):
            for place, count, branches in part:
                variants, key = lines[place], (is_few, len(branches))
                old_count, old = variants.get(key, (0, [0] * len(branches)))
                variants[key] = old_count + count, [a + b for a, b in zip(old, branches)]
    merged = collections.defaultdict(dict)
    for (file, line, _), variants in sorted(lines.items()):
        old_count, old = merged[file].get(line, (0, []))
        count, branches = line_of(variants)
        merged[file][line] = old_count + count, old + branches
    return apart(merged)


# ---- the table ---------------------------------------------------------------------------------

def sums(files):
    """Lines, lines run, branches, branches taken."""
    lines = [entry for file in files for entry in file.values()]
    branches = [count for _, counts in lines for count in counts]
    return len(lines), sum(c > 0 for c, _ in lines), len(branches), sum(b > 0 for b in branches)


def listed():
    """{(file, source line)} of tools/untaken.txt."""
    entries = [line.split(": ", 1) for line in UNTAKEN.read_text().splitlines() if line and line[0] not in "# "]
    return {(file, source.strip()) for file, source in entries}


def lines_listed(merged, known):
    """{file: {line}} of those in the list of which not all branches were taken; and what it lists in vain."""
    found, vain = collections.defaultdict(set), set(known)
    for file, lines in merged.items():
        source = (ROOT / "src" / file).read_text().splitlines()
        for number, (_, counts) in lines.items():
            key = file, source[number - 1].strip()
            if key in known and not all(counts):
                found[file].add(number)
                vain.discard(key)
    return found, vain


def excused(merged, found, folder):
    """Branches of listed lines that were not taken."""
    return sum(b == 0 for name in merged if name.startswith(folder + "/") for number in found[name]
               for b in merged[name][number][1])


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else ""


def table(merged, found):
    rows = ["| folder | lines | run | branches | taken | or listed |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for folder in FOLDERS:
        lines, run_lines, branches, taken = sums([f for n, f in merged.items() if n.startswith(folder + "/")])
        known = taken + excused(merged, found, folder)
        rows.append(f"| {folder} | {lines} | {share(run_lines, lines)} | {branches} | {share(taken, branches)} "
                    f"| {share(known, branches)} |")
    return "\n".join(rows) + "\n"


def write_table(path, text):
    document = pathlib.Path(path).read_text()
    head, rest = document.split(MARKS[0])
    pathlib.Path(path).write_text(head + MARKS[0] + text + MARKS[1] + rest.split(MARKS[1])[1])


# ---- the pages ---------------------------------------------------------------------------------

STYLE = """<!doctype html><meta charset=utf-8><title>{0}</title><style>
body{{font-family:sans-serif}}pre{{margin:0}}td{{padding:0 1em;text-align:right}}td:first-child{{text-align:left}}
.no{{background:#fbb}}.part{{background:#fe9}}.n{{color:#888}}</style><h1>{0}</h1>
"""


def page_of(name, lines):
    text = [STYLE.format(name), "<pre>"]
    for number, source in enumerate((ROOT / "src" / name).read_text().splitlines(), 1):
        count, branches = lines.get(number, (None, []))
        missed = sum(b == 0 for b in branches)
        kind = "no" if count == 0 else ("part" if missed else "")
        told = "" if count is None else f"{count}"
        if branches:
            told += f" {len(branches) - missed}/{len(branches)}"
        text.append(f'<span class=n>{number:5} {told:>16} </span><span class="{kind}">{html.escape(source)}</span>')
    return "\n".join([*text, "</pre>"])


def write_pages(merged):
    folder = OUT / "pages"
    folder.mkdir(parents=True, exist_ok=True)
    index = [STYLE.format("Coverage"), "<table><tr><th>file<th>lines<th>run<th>branches<th>taken"]
    for name in sorted(merged):
        lines, run_lines, branches, taken = sums([merged[name]])
        page = name.replace("/", "-") + ".html"
        (folder / page).write_text(page_of(name, merged[name]))
        index.append(f"<tr><td><a href={page}>{name}</a><td>{lines}<td>{share(run_lines, lines)}"
                     f"<td>{branches}<td>{share(taken, branches)}")
    (folder / "index.html").write_text("\n".join([*index, "</table>"]))
    return folder / "index.html"


def too_little(merged, found, wanted):
    bad = []
    for bound in wanted:
        folder, least = bound.split("=")
        _, _, branches, taken = sums([f for n, f in merged.items() if n.startswith(folder + "/")])
        known = taken + excused(merged, found, folder)
        if not branches or 100 * known / branches < float(least):
            bad.append(f"{folder}: {known} of {branches} branches, less than {least} %")
    return bad


def untaken(merged, found, names):
    """FILE:LINE, what each branch of it was taken, and the line, of files whose names begin so; not of lines
    that are listed."""
    for file in sorted(f for f in merged if f.startswith(tuple(names))):
        source = (ROOT / "src" / file).read_text().splitlines()
        for line, (count, branches) in sorted(merged[file].items()):
            if not all(branches) and line not in found[file]:
                taken = "".join("+" if b else "-" for b in branches) if count else "never"
                print(f"{file}:{line}: {taken}: {source[line - 1].strip()}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("-h", "--help", action="help")
    parser.add_argument("--build", action="append", choices=BUILDS)
    parser.add_argument("--label", default=LABELS)
    parser.add_argument("--exclude", default=EXCLUDED)
    parser.add_argument("--timeout", type=int, default=600)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--no-run", action="store_true")
    parser.add_argument("--table")
    parser.add_argument("--untaken", action="append", default=[])
    parser.add_argument("--least", action="append", default=[])
    options = parser.parse_args()
    names = options.build or list(BUILDS)
    for name in [] if options.no_run else names:
        build(name, options.jobs)
        run(name, options)
    merged = read(names, options.jobs)
    if not any(count for lines in merged.values() for count, _ in lines.values()):
        print("Nothing was counted.")
        return 1
    found, vain = lines_listed(merged, listed())
    text = table(merged, found)
    print(text)
    print(f"Pages: {write_pages(merged)}")
    untaken(merged, found, options.untaken)
    for file, source in sorted(vain):
        print(f"listed in vain: {file}: {source}")
    if options.table:
        write_table(options.table, text)
    bad = too_little(merged, found, options.least)
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
