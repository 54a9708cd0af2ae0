#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Starts correct programs on hardened builds: none may be stopped, or hear a word of it.

  starts.py --lib NAME=FILE... [--starts N] [--jobs N]

N starts (10,000) under each library, of the PROGRAMS that are installed in turn, each a short piece of
real work. As places, keys and order are drawn anew at each start, a false alarm of one in thousands is
only seen so. A start is as it should be if status, output and messages are those of the program
without the library. Exit status 0: all are; 1: some are not, and each is printed; 77: too few of the
programs are installed.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import score

PYTHON = """
import collections, json, re, zlib
words = [w * (i % 7) for i, w in enumerate("a bee cee dee eff gee aitch".split() * 300)]
text = json.dumps(collections.Counter(words), sort_keys=True)
print(len(json.loads(text)), zlib.crc32(zlib.decompress(zlib.compress(text.encode()))))
print(re.sub("e+", "E", text)[:60])
"""
PERL = """my %h; $h{$_ % 997} .= chr(65 + $_ % 26) for 1..20000;
my @k = sort { $a <=> $b } keys %h; print scalar(@k), " ", length(join "", @h{@k}), "\\n";"""
SQL = """create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)
insert into t select i, printf('%x-%d', i * 7919, i) from n;
create index u on t(b); select count(*), max(b), sum(length(b)) from t where b > '5';"""
LUA = """local t = {} for i = 1, 20000 do t[i % 1009] = tostring(i) .. (t[i % 211] or ""):sub(1, 40) end
local n = 0 for _, v in pairs(t) do n = n + #v end print(n)"""
AWK = "{ for (i = 1; i <= NF; i++) n[$i]++ } END { for (w in n) s += n[w] * length(w); print s }"
C = """#include <stddef.h>
static int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }
int main(void) { return f(5) + (int)offsetof(struct { int a; char b; }, b); }
"""
# What each is called with: {file} is a text, {code} a C source, {folder} a place for files.
PROGRAMS = [
    ["python3", "-c", PYTHON], ["perl", "-e", PERL], ["sqlite3", ":memory:", SQL],
    ["lua5.4", "-e", LUA], ["awk", AWK, "{file}"], ["gcc", "-S", "-O1", "-o", "/dev/null", "{code}"],
    ["bash", "-c", "a=(); for i in {1..2000}; do a+=($((i * i))); done; echo ${#a[*]} ${a[*]: -3}"],
    ["git", "diff", "--no-index", "--stat", "{file}", "{code}"],
    ["git", "hash-object", "{file}", "{code}"],
    ["sed", "-E", "s/([a-z]+) ([a-z]+)/\\2 \\1/g;20q", "{file}"], ["sort", "-rn", "{file}"],
    ["tar", "-cf", "/dev/null", "{folder}"], ["grep", "-cE", "(a|b)+c?[0-9]{2}", "{file}"],
    ["gzip", "-9cn", "{file}"], ["xz", "-c", "{file}"], ["make", "-s", "-f", "/dev/null", "-v"],
    ["objdump", "-f", "/bin/true"], ["openssl", "dgst", "-sha256", "{file}"],
    ["ruby", "-e", "puts (1..9999).map(&:to_s).group_by(&:size).map { |k, v| [k, v.size] }.to_s"],
    ["curl", "--version"], ["c++filt", "_ZNSt6vectorIiSaIiEE9push_backERKi"],
]
LEAST = 6


def installed(folder):
    """The commands of those programs that are there, with their files."""
    text = folder / "text"
    text.write_text("".join(f"{i * 7919 % 1000} abc{i % 90 + 10} word{i}\n" for i in range(2000)))
    code = folder / "code.c"
    code.write_text(C)
    names = {"{file}": str(text), "{code}": str(code), "{folder}": str(folder)}
    return [[names.get(word, word) for word in command] for command in PROGRAMS
            if shutil.which(command[0])]


def start(command, library):
    return score.execute(command, library, {"LC_ALL": "C"}, 120)


def try_library(library, commands, wanted, options):
    """The starts that were not as they should be."""
    def one(number):
        command = commands[number % len(commands)]
        said = start(command, library)
        return None if said == wanted[number % len(commands)] else (number, command[0], said)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        return [bad for bad in pool.map(one, range(options.starts)) if bad]


def is_loaded(library):
    """A library that the loader leaves out raises no alarm either."""
    status, out, err = score.execute(["cat", "/proc/self/maps"], library, {}, 60)
    return status == 0 and os.path.realpath(library.path) in out and not err


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("-h", "--help", action="help")
    parser.add_argument("--lib", type=score.pair, action="append", required=True)
    parser.add_argument("--starts", type=int, default=10000)
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args()
    status = 0
    with tempfile.TemporaryDirectory(prefix="starts-") as name:
        commands = installed(pathlib.Path(name))
        plain = score.Library("none")
        wanted = [start(command, plain) for command in commands]
        # Such as say the same each time.
        same = [i for i, command in enumerate(commands) if start(command, plain) == wanted[i]]
        commands, wanted = [commands[i] for i in same], [wanted[i] for i in same]
        if len(commands) < LEAST:
            print(f"only {len(commands)} of the programs are installed")
            return 77
        for called, path in options.lib:
            library = score.Library(called, pathlib.Path(path).absolute())
            if not is_loaded(library):
                print(f"{called}: it is not loaded")
                return 1
            bad = try_library(library, commands, wanted, options)
            print(f"{called}: {options.starts} starts of {len(commands)} programs, "
                  f"{len(bad)} not as they should be")
            for number, program, (ended, out, err) in bad[:20]:
                print(f"  start {number}, {program}: status {ended}: {(err or out).strip()[:400]}")
            status = 1 if bad else status
    return status


if __name__ == "__main__":
    sys.exit(main())
