#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds allocators to compare with, from packages for Rust, as libraries that can be preloaded.

  peers.py [--into FOLDER] [--kind fast|secure] [NAME...]

cargo fetches and compiles a package as it is; what comes out is linked whole into FOLDER (out/peers)
/NAME.so, with the names of malloc and the operators of C++ where the package leaves them out
(names.c). Nobody needs to look into the package. Each peer is a cargo project of its own: in one
workspace the two versions of mimalloc would be one package with the features of both. A peer that
is there already is not built again, one that cannot be built is named, and the others are built.
Exit status 0: all are there; 1: some are not; 77: there is no cargo.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
FOLDER = PROJECT / "out" / "peers"


@dataclass(frozen=True)
class Peer:
    kind: str  # fast: as its makers ship it; secure: with the checks that it has
    package: str
    version: str
    features: tuple
    archive: str  # the static library that the package's build leaves
    names: tuple = None  # how names.c is compiled for it; None: it needs nothing of it


PEERS = {
    "mimalloc3": Peer("fast", "rustfs-mimalloc-sys", "0.7.3", ("override",), "libmimalloc.a"),
    "mimalloc2": Peer("fast", "libmimalloc-sys", "0.1.49", ("v2", "override"), "libmimalloc.a"),
    "snmalloc": Peer("fast", "snmalloc-sys", "0.7.6", ("build_cmake", "libc-api"),
                     "libsnmallocshim-rust.a",
                     ("-DPREFIX=sn_", "-DSIZED_DELETE=sn_free_sized")),
    "jemalloc": Peer("fast", "tikv-jemalloc-sys", "0.7.1",
                     ("unprefixed_malloc_on_supported_platforms",), "libjemalloc_pic.a",
                     ("-DSIZED_DELETE=free_sized",)),
    "rpmalloc": Peer("fast", "rpmalloc-sys", "0.2.3", ("preload", "thread_cache", "global_cache"),
                     "librpmalloc.a", ("-DPREFIX=rp",)),
    "hardened_malloc": Peer("secure", "hardened-malloc-sys", "16.0.2026071503", (),
                            "libhardened_malloc.a", ("-DSIZED_DELETE=free_sized",)),
    "mimalloc-secure": Peer("secure", "libmimalloc-sys", "0.1.49", ("secure", "override"),
                            "libmimalloc.a"),
    "snmalloc-checks": Peer("secure", "snmalloc-sys", "0.7.6", ("check", "build_cmake", "libc-api"),
                            "libsnmallocshim-checks-rust.a",
                            ("-DPREFIX=sn_", "-DSIZED_DELETE=sn_free_sized")),
}
MANIFEST = """[package]
name = "peer-{name}"
version = "0.0.0"
edition = "2021"
[lib]
crate-type = ["staticlib"]
[dependencies]
{package} = {{ version = "={version}", features = [{features}] }}
"""


def run(command, **named):
    """None, or the end of what the command said when it failed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **named)
    return done.stdout.strip()[-1000:] or "without a word" if done.returncode != 0 else None


def compiler(name):
    """hardened_malloc is C23: the newest clang has it where the system's gcc does not."""
    if name != "hardened_malloc":
        return os.environ.get("CC", "cc")
    found = subprocess.run([PROJECT / "cmake/clang.sh"], capture_output=True, text=True, check=False)
    return shutil.which(found.stdout.strip()) or os.environ.get("CC", "cc")


def archive_of(folder, file):
    """The newest: older ones are of other versions and features."""
    found = folder.glob(f"target/release/build/*/out/**/{file}")
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def write_where_new(path, text):
    """Whether the file said something else before."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return True


def build(name, into):
    peer = PEERS[name]
    folder, library = into / "build" / name, into / f"{name}.so"
    write_where_new(folder / "src" / "lib.rs", "")
    features = ", ".join(f'"{feature}"' for feature in peer.features)
    manifest = MANIFEST.format(name=name, package=peer.package, version=peer.version,
                               features=features)
    changed = write_where_new(folder / "Cargo.toml", manifest)
    if library.exists() and not changed:
        return None
    library.unlink(missing_ok=True)
    cc = compiler(name)
    problem = run(["cargo", "build", "--release", "--quiet", "--ignore-rust-version"], cwd=folder,
                  env={**os.environ, "CC": cc})
    if problem:
        return f"cargo cannot build it: {problem}"
    archive = archive_of(folder, peer.archive)
    if archive is None:
        return f"there is no {peer.archive} in it"
    more = [] if peer.names is None else [*peer.names, str(HERE / "names.c")]
    link = [cc, "-O2", "-shared", "-fPIC", "-fno-builtin", "-o", str(library), *more,
            "-Wl,--whole-archive", str(archive), "-Wl,--no-whole-archive", "-Wl,-z,defs",
            "-lpthread", "-ldl", "-lm", "-lstdc++"]
    problem = run(link)
    return f"it cannot be linked: {problem}" if problem else None


def build_all(names, into):
    """Builds the peers that are named; what it says about each: None, or why it is not there."""
    into = into.resolve()
    into.mkdir(parents=True, exist_ok=True)
    return {name: build(name, into) for name in names}


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("-h", "--help", action="help")
    parser.add_argument("--into", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--kind", choices=sorted({peer.kind for peer in PEERS.values()}))
    parser.add_argument("names", nargs="*", choices=[*PEERS, []])
    options = parser.parse_args()
    if shutil.which("cargo") is None:
        print("peers: there is no cargo")
        return 77
    names = options.names or [name for name, peer in PEERS.items()
                              if options.kind in (None, peer.kind)]
    problems = build_all(names, options.into)
    for name, problem in problems.items():
        print(f"{name}: {problem or options.into / (name + '.so')}")
    return 1 if any(problems.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
