# SPDX-License-Identifier: MIT
"""The allocators that the suite compares: where each library lies and which package brings it.

An allocator is a name and a shared library to preload (none for the system's own malloc). Peers
are found by file name, through the dynamic linker's cache and the usual library directories, so
no path of one machine is written down. What is missing is installed from Debian's or Ubuntu's
packages, after saying so.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OURS = "mimalloc"  # this project's library; "ours" on the command line means the same
SYSTEM = "glibc"


@dataclass(frozen=True)
class Allocator:
    name: str
    library: str = ""  # absolute path; empty: the system's malloc
    package: str = ""


# name, file name of the library, Debian package
PEERS = [
    ("jemalloc", "libjemalloc.so.2", "libjemalloc2"),
    ("tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
    ("tbbmalloc", "libtbbmalloc_proxy.so.2", "libtbbmalloc2"),
    ("mimalloc2", "libmimalloc.so.2.0", "libmimalloc2.0"),
]


def find_library(file_name):
    """The absolute path of a shared library by its file name, or an empty string."""
    listing = subprocess.run(
        [shutil.which("ldconfig") or "/sbin/ldconfig", "-p"],
        capture_output=True, text=True, check=False,
    ).stdout
    match = re.search(r"^\s*%s \(.*=> (\S+)$" % re.escape(file_name), listing, re.MULTILINE)
    if match:
        return match.group(1)
    for pattern in ("usr/lib/*-linux-*", "usr/lib64", "usr/lib", "usr/local/lib", "lib/*-linux-*"):
        for path in sorted(Path("/").glob(f"{pattern}/{file_name}")):
            return str(path)
    return ""


def install(packages, purpose):
    """Installs Debian packages, saying so first; without root it says what is missing and stops."""
    if not packages:
        return
    names = " ".join(sorted(packages))
    command = ["apt-get", "install", "-y", "--no-install-recommends", *sorted(packages)]
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        sys.exit(f"bench: {purpose} needs these packages, please install them: {names}")
    print(f"bench: {purpose} needs packages; installing with apt-get: {names}", flush=True)
    # RUNLEVEL=1 keeps a package's server from being started by its installation.
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive", RUNLEVEL="1")
    environment.pop("LD_PRELOAD", None)
    for attempt in (["apt-get", "update"], command):
        result = subprocess.run(attempt, env=environment, capture_output=True, text=True,
                                check=False)
        if result.returncode != 0:
            sys.exit(f"bench: {' '.join(attempt)} failed:\n{result.stderr}")


def default_library():
    return ROOT / "out" / "release" / "libmimalloc.so"


def choose(names, ours, extra):
    """The allocators of a run: `names` or all, plus `extra` (name, path) pairs."""
    names = [OURS if name == "ours" else name for name in names or []]
    known = [OURS, SYSTEM] + [name for name, _, _ in PEERS]
    extra_names = [name for name, _ in extra]
    wanted = names or known + extra_names
    for name in wanted:
        if name not in known + extra_names:
            sys.exit(f"bench: unknown allocator {name}; known: {', '.join(known + extra_names)}")
    missing = {package for name, file_name, package in PEERS
               if name in wanted and not find_library(file_name)}
    install(missing, "the comparison with other allocators")
    chosen = []
    for name in list(wanted) + [n for n in extra_names if n not in wanted]:
        if name == SYSTEM:
            chosen.append(Allocator(SYSTEM))
        elif name == OURS:
            chosen.append(Allocator(OURS, existing(ours)))
        elif name in extra_names:
            chosen.append(Allocator(name, existing(dict(extra)[name])))
        else:
            file_name, package = next((f, p) for n, f, p in PEERS if n == name)
            chosen.append(Allocator(name, find_library(file_name), package))
    return chosen


def need_tool(executable, package, purpose):
    if shutil.which(executable) is None:
        install({package}, purpose)


def add_arguments(parser):
    parser.add_argument("-a", "--allocators", metavar="A,B",
                        help="comma-separated; known: ours, glibc, "
                        + ", ".join(n for n, _, _ in PEERS) + " and each --peer")
    parser.add_argument("--ours", default=default_library(), metavar="LIB",
                        help="our library (default: out/release/libmimalloc.so)")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=LIB",
                        help="one more library to compare; may be repeated")


def from_arguments(options, names=None):
    """The allocators that the command line asks for; `names` stands where it says nothing."""
    extra = [tuple(peer.split("=", 1)) for peer in options.peer]
    if any(len(peer) != 2 for peer in extra):
        sys.exit("bench: --peer takes NAME=/path/of/library.so")
    if options.allocators:
        names = options.allocators.split(",")
    return choose(names, options.ours, extra)


def existing(path):
    path = Path(path).resolve()
    if not path.is_file():
        sys.exit(f"bench: there is no library {path}; build it first, or choose another")
    return str(path)


def version(allocator):
    """What the package manager or the library itself says about its version."""
    if allocator.package:
        text = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", allocator.package],
            capture_output=True, text=True, check=False).stdout.strip()
        return f"{allocator.package} {text}"
    if allocator.name == SYSTEM:
        return " ".join(os.confstr("CS_GNU_LIBC_VERSION").split())
    return Path(allocator.library).name
