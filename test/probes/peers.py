#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds allocators to compare with, from packages for Rust, as libraries that can be preloaded.

  peers.py [--into FOLDER] [NAME...]

cargo fetches and compiles a package as it is; what comes out is linked whole into FOLDER (out/peers)
/NAME.so, with the names of malloc and the operators of C++ where the package leaves them out
(peer_names.c). Nobody needs to look into the package. A peer that cannot be built is named, and the
others are built. Exit status 0: all are there; 1: some are not; 77: there is no cargo.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
# The package, its version and features, its archive, what peer_names.c has to add.
PEERS = {
    "hardened_malloc": ("hardened-malloc-sys", "=16.0.2026071503", [], "libhardened_malloc.a",
                        ["-DSIZED_DELETE=free_sized"]),
    "mimalloc-secure": ("libmimalloc-sys", "=0.1.49", ["secure", "override"], "libmimalloc.a", None),
    "snmalloc-checks": ("snmalloc-sys", "=0.7.6", ["check", "build_cmake", "libc-api"],
                        "libsnmallocshim-checks-rust.a",
                        ["-DPREFIX=sn_", "-DSIZED_DELETE=sn_free_sized"]),
}
MANIFEST = """[package]
name = "peer-{name}"
version = "0.0.0"
edition = "2021"
[lib]
crate-type = ["staticlib"]
[dependencies]
{package} = {{ version = "{version}", features = [{features}] }}
"""


def run(command, **named):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **named)
    return done.returncode


def compiler(name):
    """hardened_malloc is C23: the newest clang has it where the system's gcc does not."""
    if name != "hardened_malloc":
        return os.environ.get("CC", "cc")
    found = subprocess.run([PROJECT / "cmake/clang.sh"], capture_output=True, text=True)
    return shutil.which(found.stdout.strip()) or os.environ.get("CC", "cc")


def archive_of(folder, file):
    """The newest: older ones are of other versions and features."""
    found = folder.glob(f"target/release/build/*/out/**/{file}")
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def build(name, into):
    package, version, features, file, names = PEERS[name]
    folder = into / "build" / name
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "src" / "lib.rs").write_text("")
    (folder / "Cargo.toml").write_text(MANIFEST.format(
        name=name, package=package, version=version, features=", ".join(f'"{f}"' for f in features)))
    cc = compiler(name)
    if run(["cargo", "build", "--release", "--quiet"], cwd=folder, env={**os.environ, "CC": cc}) != 0:
        return "cargo cannot build it"
    archive = archive_of(folder, file)
    if archive is None:
        return f"there is no {file} in it"
    more = [] if names is None else [*names, str(HERE / "peer_names.c")]
    link = [cc, "-O2", "-shared", "-fPIC", "-fno-builtin", "-o", str(into / f"{name}.so"), *more,
            "-Wl,--whole-archive", str(archive), "-Wl,--no-whole-archive", "-Wl,-z,defs",
            "-lpthread", "-lstdc++"]
    return None if run(link) == 0 else "it cannot be linked"


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("-h", "--help", action="help")
    parser.add_argument("--into", type=pathlib.Path, default=PROJECT / "out" / "peers")
    parser.add_argument("names", nargs="*", choices=[*PEERS, []])
    options = parser.parse_args()
    if shutil.which("cargo") is None:
        print("peers: there is no cargo")
        return 77
    into = options.into.resolve()
    into.mkdir(parents=True, exist_ok=True)
    status = 0
    for name in options.names or PEERS:
        problem = build(name, into)
        print(f"{name}: {problem or into / (name + '.so')}")
        status = 1 if problem else status
    return status


if __name__ == "__main__":
    sys.exit(main())
