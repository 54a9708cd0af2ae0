#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs `zig build test` on the package, in each mode that is asked for, and `zig cc` on its C.

The compiler is the package `ziglang`, installed by pip into a folder of the build; where that
cannot be had the test is skipped (77), and says so.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import venv

SKIP = 77


def compiler(version, folder):
    """A command that runs this version of Zig; None when it cannot be had."""
    home = folder / f"zig-{version}"
    python = home / "bin" / "python"
    command = [str(python), "-m", "ziglang"]
    if not python.exists():
        venv.create(home, with_pip=True)
    if subprocess.run(command + ["version"], capture_output=True, check=False).returncode == 0:
        return command
    print(f"installing ziglang {version} into {home}", flush=True)
    install = [str(python), "-m", "pip", "install", "--quiet", f"ziglang=={version}"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"skipped: there is no ziglang {version} to be had:\n{done.stderr}")
        return None
    return command


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path, help="where compilers and caches go")
    parser.add_argument("--version", default="0.17.0")
    parser.add_argument("--mode", action="append", help="default: all four")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    command = compiler(args.version, args.folder)
    if command is None:
        return SKIP
    cache = args.folder / f"cache-{args.version}"
    environment = dict(os.environ, ZIG_GLOBAL_CACHE_DIR=str(cache / "global"))
    print(f"== {args.version} cc -c src/static.c", flush=True)
    whole = ["cc", "-O2", f"-I{args.source / 'include'}", "-c", str(args.source / "src/static.c"),
             "-o", str(args.folder / "static.o")]
    if subprocess.run(command + whole, env=environment, check=False).returncode != 0:
        return 1
    modes = args.mode or ["Debug", "ReleaseSafe", "ReleaseFast", "ReleaseSmall"]
    for mode in modes:
        print(f"== {args.version} {mode}", flush=True)
        build = ["build", "test", f"-Doptimize={mode}", "--cache-dir", str(cache / "local")]
        done = subprocess.run(command + build, cwd=args.source, env=environment, check=False)
        if done.returncode != 0:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
