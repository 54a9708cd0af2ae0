#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fetches a program from another release of Debian, and leaves this system as it is.

  borrow.py --suite NAME --into FOLDER PROGRAM PACKAGE...

For tools that the release here does not have. apt fetches the PACKAGEs, which must be all that the
program needs, libc6 and its kin included, into a folder of its own, and verifies them as it always
does; they are unpacked under FOLDER, and FOLDER/PROGRAM starts the program with its own libraries.
Needs no root. Exit status 0: it is there; 1: it could not be fetched; 77: this is no Debian.
"""

import argparse
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

import fresh

LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}


def settings(folder, suite, uri, keys):
    """apt's own for this call: one source, and lists, packages and status of its own."""
    for name in ("lists/partial", "archives/partial", "state"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    signed = f"[signed-by={keys}] " if keys else ""
    (folder / "sources.list").write_text(f"deb {signed}{uri} {suite} main\n")
    (folder / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{folder}/sources.list";\nDir::Etc::sourceparts "-";\n'
        f'Dir::State "{folder}/state";\nDir::State::status "{folder}/status";\n'
        f'Dir::State::lists "{folder}/lists";\nDir::Cache "{folder}";\n'
        f'Dir::Cache::archives "{folder}/archives";\nAPT::Sandbox::User "";\n')
    return {**os.environ, "APT_CONFIG": str(folder / "apt.conf")}


def run(command, **named):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **named)
    if done.returncode != 0:
        sys.exit(f"borrow: {' '.join(map(str, command))}:\n{done.stdout[-1000:]}")


def write_starter(folder, program, root):
    libraries = root / f"usr/lib/{platform.machine()}-linux-gnu"
    loader = libraries / LOADERS[platform.machine()]
    starter = folder / program
    starter.write_text(f'#!/bin/sh\nexec "{loader}" --library-path "{libraries}:{root}/usr/lib" '
                       f'"{root}/usr/bin/{program}" "$@"\n')
    starter.chmod(0o755)


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("-h", "--help", action="help")
    parser.add_argument("--suite", required=True)
    parser.add_argument("--into", required=True)
    parser.add_argument("program")
    parser.add_argument("packages", nargs="+")
    options = parser.parse_args()
    uri, keys = fresh.mirror()
    if uri is None or platform.machine() not in LOADERS:
        print("borrow: only for Debian")
        return 77
    into = pathlib.Path(options.into).resolve()
    root = into / "root"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        environment = settings(folder, options.suite, uri, keys)
        run(["apt-get", "update", "-qq"], env=environment)
        run(["apt-get", "download", "-qq", *options.packages], env=environment, cwd=folder / "archives")
        for package in sorted((folder / "archives").glob("*.deb")):
            run(["dpkg", "-x", package, root])
    write_starter(into, options.program, root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
