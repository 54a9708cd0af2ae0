#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The package as its users meet it: fetched from a clone of the repository and built as docs/zig.md
says, and the shared library that `zig build -Dlibs` makes, under real programs.

Skipped (77) where Zig or a clone cannot be had.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

import run as zig

GATES = pathlib.Path(__file__).resolve().parent.parent / "gates"
FINGERPRINT = re.compile(r"use this value: (0x[0-9a-f]+)")

BUILD = """
const std = @import("std");

pub fn build(b: *std.Build) void {
    const target = b.standardTargetOptions(.{});
    const optimize = b.standardOptimizeOption(.{});
    const exe = b.addExecutable(.{ .name = "user", .root_module = b.createModule(.{
        .root_source_file = b.path("main.zig"),
        .target = target,
        .optimize = optimize,
    }) });
%s
    b.installArtifact(exe);
    b.step("run", "").dependOn(&b.addRunArtifact(exe).step);
}
"""

MANIFEST = """.{
    .name = .user,
    .version = "0.0.1",
    .fingerprint = %s,
    .paths = .{ "build.zig", "build.zig.zon", "main.zig" },
}
"""


def run(command, cwd, environment, **more):
    print("+", " ".join(map(str, command[-6:])), flush=True)
    return subprocess.run(list(map(str, command)), cwd=cwd, env=environment, check=True, **more)


def sample(document):
    """What the document tells a user to write: in build.zig, and in main."""
    blocks = re.findall(r"```zig\n(.*?)```", document.read_text(), re.DOTALL)
    build = next(block for block in blocks if "b.dependency" in block)
    main = next(block for block in blocks if "pub fn main" in block)
    return build, main


def check_user(command, source, folder, environment):
    clone, user = folder / "clone", folder / "user"
    for old in (clone, user):
        shutil.rmtree(old, ignore_errors=True)
    cloned = subprocess.run(["git", "clone", "--quiet", "--depth", "1", source.as_uri(), clone],
                            check=False)
    if cloned.returncode != 0:
        print("skipped: the source is no git repository")
        return zig.SKIP
    user.mkdir()
    build, main = sample(source / "docs" / "zig.md")
    (user / "build.zig").write_text(BUILD % build)
    (user / "main.zig").write_text(main)
    # Only Zig knows a fingerprint for a name, and says one when it is not pleased.
    (user / "build.zig.zon").write_text(MANIFEST % "0x1")
    said = subprocess.run(command + ["build"], cwd=user, env=environment, check=False,
                          capture_output=True, text=True)
    (user / "build.zig.zon").write_text(MANIFEST % FINGERPRINT.search(said.stderr)[1])
    run(command + ["fetch", "--save", clone], user, environment)
    for mode in ("Debug", "ReleaseFast"):
        run(command + ["build", "run", f"-Doptimize={mode}", "--summary", "none"], user, environment)
    program = (user / "zig-out" / "bin" / "user")
    run(command + ["build", "-Doptimize=ReleaseFast"], user, environment)
    if b"mx_zig_alloc" not in program.read_bytes():
        print("the program of docs/zig.md has no mimalloc in it")
        return 1
    return 0


def check_library(command, source, folder, environment):
    out = folder / "library"
    build = command + ["build", "-Doptimize=ReleaseFast", "-Dlibs"]
    # For another processor of this system, whose headers are the same.
    run(build + ["-Dcpu=baseline", "--prefix", folder / "baseline"], source, environment)
    run(build + ["--prefix", out], source, environment)
    library = out / "lib" / "libmimalloc.so"
    run([sys.executable, GATES / "check_symbols.py", "--shared", library], source, environment)
    preloaded = dict(os.environ, LD_PRELOAD=str(library), MIMALLOC_VERBOSE="1")
    work = "print(len({i: str(i) * 9 for i in range(200000)}))"
    for program in ([sys.executable, "-c", work], ["sort", "-n", source / "docs" / "zig.md"]):
        done = run(program, source, preloaded, capture_output=True)
        if b"mimalloc" not in done.stderr:
            print("the library does not say that it runs:", done.stderr)
            return 1
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path, help="where compilers and caches go")
    parser.add_argument("--version", default="0.15.2")
    parser.add_argument("--only", choices=["user", "library"])
    args = parser.parse_args()
    source, folder = args.source.resolve(), args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    command = zig.compiler(args.version, folder)
    if command is None:
        return zig.SKIP
    cache = folder / f"cache-{args.version}"
    environment = dict(os.environ, ZIG_GLOBAL_CACHE_DIR=str(cache / "global"),
                       ZIG_LOCAL_CACHE_DIR=str(cache / "local"))
    checks = {"library": check_library, "user": check_user}
    results = [check(command, source, folder, environment)
               for name, check in checks.items() if args.only in (None, name)]
    return max(results, key=lambda result: (result == 1, result))


if __name__ == "__main__":
    sys.exit(main())
