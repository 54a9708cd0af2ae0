# SPDX-License-Identifier: MIT
"""The commands."""

import argparse
import json
import os
import sys
import tempfile

from . import Refusal, plot, record, replay, tools

USAGE = """mimalloc-trace records what a program asks of malloc and replays it with other allocators.

  mimalloc-trace record [-o FILE] [--children] [--limit CALLS] -- PROGRAM [ARGUMENT...]
  mimalloc-trace info FILE...
  mimalloc-trace replay FILE... --allocator [NAME=]LIB[,OPTION=VALUE...]...
                        [--rounds N] [--json FILE] [--plot FILE.svg]

LIB is a shared library that has malloc and free, or `system`; several may follow one --allocator,
and --allocator may stand several times.
"""


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(usage=USAGE, add_help=False)
    parser.add_argument("-h", "--help", action="help")
    commands = parser.add_subparsers(dest="what", required=True)
    one = commands.add_parser("record", usage=USAGE)
    one.add_argument("-o", "--output", metavar="FILE")
    one.add_argument("--children", action="store_true")
    one.add_argument("--limit", type=positive, default=record.LIMIT)
    one.add_argument("command", nargs="+")
    one = commands.add_parser("info", usage=USAGE)
    one.add_argument("files", nargs="+")
    one = commands.add_parser("replay", usage=USAGE)
    one.add_argument("files", nargs="*")
    one.add_argument("--allocator", action="extend", nargs="+", required=True)
    one.add_argument("--rounds", type=positive, default=5)
    one.add_argument("--json", metavar="FILE")
    one.add_argument("--plot", metavar="FILE")
    options = parser.parse_args(arguments)
    if options.what == "replay":
        sort_out(options)
        if not options.files:
            one.error("no trace is named")
    return options


def sort_out(options):
    """Traces behind an --allocator are traces all the same, and no more allocators."""
    options.files += filter(tools.is_packed, options.allocator)
    options.allocator = [text for text in options.allocator if text not in options.files]
    if not options.allocator:
        raise Refusal("no allocator is named")


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("takes a number above 0")
    return number


def info(path):
    with tempfile.TemporaryDirectory() as folder:
        told = tools.unpack(path, os.path.join(folder, "trace"))
    size = os.path.getsize(path)
    each = f", {size / told['calls']:.2f} a call" if told["calls"] else ""
    yield f"{path}: {told['program']}"
    yield f"  {told['calls']} calls, {told['blocks']} blocks, {told['threads']} thread(s)"
    yield f"  at most {replay.mib(told['peak_bytes'])} MiB asked for at once"
    yield f"  {told['left_out']} calls left out, of blocks that the recording does not know"
    yield f"  {size} bytes{each}"
    if told["cut"]:
        yield "  the recording stopped before the program did"


def write_json(results, path):
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(results, file)
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}") from None


def write_plot(results, path):
    try:
        plot.draw(results, path)
    except ImportError:
        raise Refusal("the picture needs matplotlib (Debian's python3-matplotlib)") from None
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}") from None


def play(options):
    allocators = [replay.parse(text) for text in options.allocator]
    if len({allocator.name for allocator in allocators}) < len(allocators):
        raise Refusal("two allocators have the same name; NAME=LIB gives each its own")
    results = []
    for path in options.files:
        results.append(replay.replay(path, allocators, options.rounds))
        print("\n".join(replay.table(results[-1])), flush=True)
    if options.json:
        write_json(results, options.json)
    if options.plot:
        write_plot(results, options.plot)
    return 1 if any("failed" in a for r in results for a in r["allocators"].values()) else 0


def main(arguments=None):
    try:
        options = parse_arguments(arguments)
        if options.what == "record":
            return record.record(options.command, options.output, options.children, options.limit)
        if options.what == "replay":
            return play(options)
        for path in options.files:
            print("\n".join(info(path)))
        return 0
    except Refusal as refusal:
        print(f"mimalloc-trace: {refusal}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
