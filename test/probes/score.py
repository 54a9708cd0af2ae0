#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Scores allocators by the heap crimes that they notice.

Compiles the probes beside this file, runs each one innocent and guilty under every library
(loaded with LD_PRELOAD) and writes how many crimes were caught, by kind, as Markdown and JSON.

  score.py                                     every peer and every build of ours that is found
  score.py --lib mine=path/to/lib.so --only    one library
  score.py --lib mine=... --min-caught 95 --set basic     a gate: exit status 1 when below
  score.py --contents                          rewrite the table of contents in README.md

What counts is said in README.md. Every fact about a probe (kind, sizes, what a catch is) is read
from the head of its source, so there is no second list to keep. Exit status: 0 done, 1 a gate
failed, 2 nothing could be measured.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import platform
import re
import resource
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
KINDS = ["double-free", "invalid-free", "overflow", "underflow", "memcpy", "write-after-free",
         "zero-size", "old-data", "reuse", "new-delete", "realloc", "usable-size", "arguments"]
PEERS = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4",
         "tcmalloc-debug": "libtcmalloc_minimal_debug.so.4",
         "tbbmalloc": "libtbbmalloc_proxy.so.2", "mimalloc-debian": "libmimalloc.so.2.0"}
OURS = ["release", "debug", "secure", "secure-full"]
FLAGS = ["-O0", "-g", "-fno-builtin", "-fno-stack-protector", "-U_FORTIFY_SOURCE",
         "-D_GNU_SOURCE", "-pthread"]
# Without a size of its own a probe is still given a sound one.
NO_SIZE = 8
# A line on standard error is a report when it names what was called, or a pointer.
REPORT = re.compile(r"\b(m|c|re)?alloc|\bfree|\bdelete|mem(cpy|move|set)|pointer|heap|overflow"
                    r"|corrupt|0x[0-9a-f]{4,}", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Probe:
    """One source file: a crime, with the sizes and distances it is committed at."""
    name: str
    kind: str
    source: pathlib.Path
    basic: bool
    sizes: tuple
    bys: tuple
    about: str
    catch: str

    def cases(self):
        return [Case(self, size, by) for by in self.bys for size in self.sizes]


@dataclasses.dataclass(frozen=True)
class Case:
    """One probe at one size: the unit of scoring."""
    probe: Probe
    size: object
    by: object

    @property
    def label(self):
        parts = [self.probe.name]
        parts += [f"size={self.size}"] if self.size is not None else []
        parts += [f"by={self.by}"] if self.by is not None else []
        return " ".join(parts)

    def argv(self, binaries, mode):
        size = NO_SIZE if self.size is None else self.size
        return [str(binaries[self.probe.name]), mode, str(size), str(self.by or 0)]


@dataclasses.dataclass(frozen=True)
class Library:
    """What to score: a library to preload, nothing (the C library), or a tool to run under."""
    name: str
    path: object = None
    prefix: tuple = ()


# --- the set ------------------------------------------------------------------------------------

def numbers(text):
    return tuple(None if t == "-" else int(t) for t in text.split(","))


def read_probe(source):
    comment = []
    for line in source.read_text().splitlines():
        if not line.startswith("//"):
            break
        comment.append(line[2:].strip())
    spec = [line for line in comment if line.startswith("probe:")]
    text = " ".join(line for line in comment[1:] if line and not line.startswith("probe:"))
    about, _, catch = text.partition("A catch: ")
    if len(spec) != 1 or not about or not catch:
        sys.exit(f"{source}: the head does not describe a probe")
    fields = dict(field.split("=", 1) for field in spec[0].split()[1:])
    if fields.get("set") not in ("basic", "more"):
        sys.exit(f"{source}: set is neither basic nor more")
    kind = source.parent.name
    return Probe(f"{kind}/{source.stem}", kind, source, fields["set"] == "basic",
                 numbers(fields["size"]), numbers(fields.get("by", "-")), about.strip(), catch)


def read_set():
    # The twins are a set of their own; what Python compiles ends in .cpython-311.pyc.
    found = {s.parent.name for s in HERE.glob("*/*.c*")} - {"twins", "__pycache__"}
    if found != set(KINDS):
        sys.exit(f"kinds and folders differ: {sorted(found ^ set(KINDS))}")
    probes = [read_probe(s) for k in KINDS for s in sorted((HERE / k).glob("*.c*"))]
    return sorted(probes, key=lambda p: (KINDS.index(p.kind), not p.basic, p.name))


def compile_all(probes, folder, jobs):
    """Compiles every probe and the control; returns the program of each by name."""
    def build(name, source):
        out = folder / name.replace("/", "-")
        if source.suffix == ".cpp":
            command = [os.environ.get("CXX", "c++"), "-std=c++17", "-fsized-deallocation"]
        else:
            command = [os.environ.get("CC", "cc"), "-std=c11"]
        subprocess.run(command + FLAGS + ["-o", str(out), str(source), "-ldl"], check=True)
        return name, out
    todo = [(p.name, p.source) for p in probes] + [("control", HERE / "control.c")]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return dict(pool.map(lambda item: build(*item), todo))


# --- running ------------------------------------------------------------------------------------

def execute(argv, library, extra_env, timeout):
    """Runs one program; returns (status or None when it hung, standard output, standard error)."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("MIMALLOC_", "MALLOC_", "GLIBC_TUNABLES", "LD_"))}
    env.update(extra_env)
    if library.path:
        env["LD_PRELOAD"] = str(library.path)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(list(library.prefix) + argv, stdout=out, stderr=err, env=env,
                                 stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            status = child.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            status = None
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read(65536).decode("utf-8", "replace"))
    return status, texts[0], texts[1]


def check_control(library, binaries, options):
    """Returns why the library cannot be scored, or None."""
    case = [str(binaries["control"]), "innocent", "8", "0"]
    status, out, err = execute(case, library, options.env, 4 * options.timeout)
    if status != 0 or "INNOCENT" not in out:
        said = (out + err).strip()[:200]
        return f"an honest program does not survive it (status {status}): {said}"
    loaded = re.search(r"^MALLOC_FROM (.*)$", out, re.MULTILINE).group(1)
    if library.path and os.path.realpath(loaded) != os.path.realpath(library.path):
        return f"malloc came from {loaded}, not from {library.path}"
    return None


def how_it_ended(status):
    if status < 0:
        return signal.Signals(-status).name
    return f"exit {status}"


def judge(status, out, err):
    """One guilty run as a record: outcome, how it ended, whether a report was printed."""
    record = {"report": bool(REPORT.search(err)), "message": err.strip()[:300]}
    if "SETUP_FAILED" in out:
        return {**record, "outcome": "error", "how": "setup"}
    if "NOT_CAUGHT" in out:
        how = "hung at exit" if status is None else how_it_ended(status)
        outcome = "reported" if record["report"] else "missed"
        return {**record, "outcome": outcome, "how": how}
    if status is None:
        return {**record, "outcome": "hang", "how": "timeout"}
    if "REFUSED" in out:
        why = out.partition("REFUSED: ")[2].strip()
        return {**record, "outcome": "caught", "how": f"refused: {why}"}
    return {**record, "outcome": "caught", "how": how_it_ended(status)}


# From worst to best: of several runs the worst counts, since a catch by luck is no protection.
ORDER = ["error", "missed", "reported", "hang", "caught"]


def run_case(library, case, binaries, options):
    """Runs a case innocent once and guilty as often as asked."""
    status, out, err = execute(case.argv(binaries, "innocent"), library, options.env,
                               options.timeout)
    innocent = status == 0 and "INNOCENT" in out and not REPORT.search(err)
    runs = [judge(*execute(case.argv(binaries, "guilty"), library, options.env, options.timeout))
            for _ in range(options.repeat)]
    worst = min(runs, key=lambda run: ORDER.index(run["outcome"]))
    caught = sum(run["outcome"] == "caught" for run in runs)
    result = {**worst, "runs": len(runs), "runs_caught": caught, "false_alarm": not innocent}
    if not innocent:
        result["innocent"] = {"status": status, "out": out[:100], "err": err.strip()[:200]}
    return result


def score(library, cases, binaries, options):
    problem = check_control(library, binaries, options)
    if problem:
        return {"problem": problem}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda c: run_case(library, c, binaries, options), cases))
    return {"path": str(library.path) if library.path else None,
            "cases": {c.label: r for c, r in zip(cases, results)}}


def version_of(library):
    """The file behind a library, as its name often carries the version."""
    if library.prefix:
        return " ".join(library.prefix)
    if library.path is None:
        return " ".join(platform.libc_ver())
    return os.path.basename(os.path.realpath(library.path))


# --- tables -------------------------------------------------------------------------------------

def count(result, cases, outcome="caught"):
    return sum(result["cases"][c.label]["outcome"] == outcome for c in cases)


def markdown_row(cells):
    return "| " + " | ".join(str(c) for c in cells) + " |"


def table_by_kind(scores, cases, title):
    kinds = [k for k in KINDS if any(c.probe.kind == k for c in cases)]
    per_kind = {k: [c for c in cases if c.probe.kind == k] for k in kinds}
    rows = [f"### {title}", "",
            markdown_row([""] + [f"{k} ({len(per_kind[k])})" for k in kinds]
                         + [f"**caught of {len(cases)}**"]),
            markdown_row(["---"] + ["---:"] * (len(kinds) + 1))]
    good = [n for n in scores if "cases" in scores[n]]
    for name in sorted(good, key=lambda n: -count(scores[n], cases)):
        rows.append(markdown_row([name] + [count(scores[name], per_kind[k]) for k in kinds]
                                 + [f"**{count(scores[name], cases)}**"]))
    return rows + [""]


def table_of_outcomes(scores, cases):
    rows = ["### How each run ended", "",
            markdown_row(["", "caught", "of them with a report", "of them refused",
                          "reported, went on", "hang", "missed", "error", "false alarms",
                          "library"]),
            markdown_row(["---"] + ["---:"] * 8 + ["---"])]
    for name, result in scores.items():
        if "problem" in result:
            rows.append(markdown_row([name] + ["–"] * 8 + [result["problem"]]))
            continue
        records = [result["cases"][c.label] for c in cases]
        caught = [r for r in records if r["outcome"] == "caught"]
        refused = [r for r in caught if r["how"].startswith("refused")]
        rows.append(markdown_row(
            [name, len(caught), sum(r["report"] for r in caught), len(refused)]
            + [count(result, cases, o) for o in ("reported", "hang", "missed", "error")]
            + [sum(r["false_alarm"] for r in records), result["version"]]))
    return rows + [""]


SIGNS = {"caught": "●", "reported": "◐", "hang": "∞", "missed": "·", "error": "?"}


def table_by_case(scores, cases):
    good = [n for n in scores if "cases" in scores[n]]
    rows = ["### Every probe", "",
            "● caught, ◐ reported but let go on, ∞ hang, · missed, ? could not be run", "",
            markdown_row(["probe", "set"] + good), markdown_row(["---"] * (2 + len(good)))]
    for c in cases:
        signs = [SIGNS[scores[n]["cases"][c.label]["outcome"]] for n in good]
        rows.append(markdown_row([c.label, "basic" if c.probe.basic else ""] + signs))
    return rows + [""]


def caught_by_nobody(scores, cases):
    good = [r for r in scores.values() if "cases" in r]
    missed = [c.label for c in cases
              if not any(r["cases"][c.label]["outcome"] == "caught" for r in good)]
    if len(good) < 2 or not missed:
        return []
    return [f"### Caught under no library: {len(missed)}", "", ", ".join(missed) + ".", ""]


def report(scores, cases, options):
    basic = [c for c in cases if c.probe.basic]
    rows = ["## Heap crimes caught", "",
            f"Written by `score.py` on {platform.machine()}, Linux {platform.release()};"
            f" {options.repeat} run(s) of each probe, the worst counts."
            + "".join(f" `{k}={v}`" for k, v in options.env.items()), ""]
    if basic:
        rows += table_by_kind(scores, basic, "The basic set")
    if len(basic) < len(cases):
        rows += table_by_kind(scores, cases, "The whole set")
    rows += table_of_outcomes(scores, cases) + caught_by_nobody(scores, cases)
    if options.matrix:
        rows += table_by_case(scores, cases)
    return "\n".join(rows)


# --- table of contents --------------------------------------------------------------------------

BEGIN, END = "<!-- contents: begin -->", "<!-- contents: end -->"


def contents(probes):
    cases = [c for p in probes for c in p.cases()]
    basic = sum(c.probe.basic for c in cases)
    rows = [BEGIN, f"{len(cases)} probes from {len(probes)} programs; {basic} of them, from "
            f"{sum(p.basic for p in probes)} programs, are the basic set.", ""]
    for kind in KINDS:
        mine = [p for p in probes if p.kind == kind]
        runs = sum(len(p.cases()) for p in mine)
        basic = sum(len(p.cases()) for p in mine if p.basic)
        rows += [f"### {kind}: {runs}, {basic} basic", "",
                 markdown_row(["program", "set", "sizes", "by", "the crime", "a catch"]),
                 markdown_row(["---"] * 6)]
        for p in mine:
            listed = [", ".join("–" if v is None else str(v) for v in vs)
                      for vs in (p.sizes, p.bys)]
            link = f"[{p.source.stem}]({kind}/{p.source.name})"
            rows.append(markdown_row([link, "basic" if p.basic else "more"] + listed
                                     + [p.about, p.catch]))
        rows.append("")
    return "\n".join(rows[:-1] + [END])


def update_contents(probes, write):
    readme = HERE / "README.md"
    text = readme.read_text()
    head, rest = text.split(BEGIN)
    fresh = head + contents(probes) + rest.split(END)[1]
    if fresh == text:
        return 0
    if write:
        readme.write_text(fresh)
        return 0
    print("README.md: the table of contents is stale; run score.py --contents", file=sys.stderr)
    return 1


# --- command line -------------------------------------------------------------------------------

def pair(text):
    name, sign, value = text.partition("=")
    if not sign or not name or not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--lib", type=pair, action="append", default=[], metavar="NAME=PATH",
        help="a further library to score; may be repeated")
    add("--only", action="store_true", help="score nothing but the --lib libraries")
    add("--memcheck", action="store_true",
        help="score valgrind's memcheck too, which shows that the crimes are crimes; slow")
    add("--set", choices=["all", "basic"], default="all", help="which probes to run")
    add("--kind", choices=KINDS, action="append", help="run only this kind; may be repeated")
    add("--min-caught", type=int, metavar="N",
        help="fail when a --lib library catches fewer than N; implies --only")
    add("--repeat", type=int, default=1, metavar="N", help="runs of each probe; the worst counts")
    add("--timeout", type=float, default=10.0, metavar="SECONDS",
        help="after which a run is a hang")
    add("--env", type=pair, action="append", default=[], metavar="NAME=VALUE",
        help="an environment variable for the probes")
    add("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    add("--json", type=pathlib.Path, metavar="FILE", help="write every result here")
    add("--markdown", type=pathlib.Path, metavar="FILE", help="write the tables here too")
    add("--matrix", action="store_true", help="add the table of every probe")
    add("--build-dir", type=pathlib.Path, metavar="DIR", help="keep the compiled probes here")
    add("--contents", action="store_true", help="rewrite the contents of README.md and stop")
    add("--check-contents", action="store_true", help="fail when the contents are stale and stop")
    options = parser.parse_args()
    if options.min_caught is not None:
        options.only = True
    if options.only and not options.lib:
        parser.error("--only and --min-caught need a --lib")
    if options.repeat < 1 or options.jobs < 1:
        parser.error("--repeat and --jobs are at least 1")
    options.env = dict(options.env)
    return options


def find_peer(file):
    """A library by its file name in the places that the dynamic linker searches."""
    listing = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True)
    for line in listing.stdout.splitlines():
        if line.split(" ")[0].strip() == file:
            return pathlib.Path(line.split("=> ")[1].strip())
    found = sorted(pathlib.Path("/usr/lib").glob(f"*/{file}"))
    return found[0] if found else None


def our_library(build):
    """The allocator in the folder of a build, where libraries of its tests may lie, too; or None."""
    names = ("libmimalloc.so", "libmimalloc-secure.so", "libmimalloc-debug.so")
    return next((build / name for name in names if (build / name).exists()), None)


def libraries(options):
    found = []
    if not options.only:
        found.append(Library("glibc"))
        for name, file in PEERS.items():
            path = find_peer(file)
            if path:
                found.append(Library(name, path))
        for build in OURS:
            path = our_library(PROJECT / "out" / build)
            found += [Library(build, path)] if path else []
    found += [Library(name, pathlib.Path(path).absolute()) for name, path in options.lib]
    if options.memcheck:
        prefix = ("valgrind", "-q", "--leak-check=no", "--error-exitcode=99",
                  "--exit-on-first-error=yes")
        found.append(Library("memcheck", None, prefix))
    names = [library.name for library in found]
    if len(set(names)) < len(names):
        sys.exit(f"a name is given twice: {', '.join(names)}")
    return found


def gate(scores, cases, options):
    """The exit status: 2 when a library could not be scored, 1 when one scored too low."""
    status = 0
    for name, _ in options.lib:
        result = scores[name]
        if "problem" in result:
            print(f"{name}: {result['problem']}", file=sys.stderr)
            return 2
        caught = count(result, cases)
        alarms = [label for label, r in result["cases"].items() if r["false_alarm"]]
        errors = count(result, cases, "error")
        for label in alarms:
            print(f"{name}: false alarm in the innocent run of {label}", file=sys.stderr)
        if errors:
            print(f"{name}: {errors} probes could not be run", file=sys.stderr)
        if options.min_caught is not None and caught < options.min_caught:
            print(f"{name}: {caught} of {len(cases)} caught, at least {options.min_caught}"
                  " are required", file=sys.stderr)
            status = 1
        if options.min_caught is not None and (alarms or errors):
            status = 1
    return status


def main():
    options = parse_arguments()
    probes = read_set()
    if options.contents or options.check_contents:
        return update_contents(probes, options.contents)
    if options.kind:
        probes = [p for p in probes if p.kind in options.kind]
    if options.set == "basic":
        probes = [p for p in probes if p.basic]
    cases = [c for p in probes for c in p.cases()]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(prefix="probes-") as scratch:
        folder = options.build_dir or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        binaries = compile_all(probes, folder, options.jobs)
        scores = {}
        for library in libraries(options):
            scores[library.name] = score(library, cases, binaries, options)
            scores[library.name]["version"] = version_of(library)
    text = report(scores, cases, options)
    if options.markdown:
        options.markdown.write_text(text)
    if options.json:
        options.json.write_text(json.dumps({"env": options.env, "repeat": options.repeat,
                                            "probes": len(cases), "libraries": scores}, indent=1))
    print(text, end="")
    return gate(scores, cases, options)


if __name__ == "__main__":
    sys.exit(main())
