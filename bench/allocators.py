# SPDX-License-Identifier: MIT
"""The allocators that the suite compares: where each library lies and which package brings it.

An allocator is a name and a shared library to preload (none for the system's own malloc). Peers
of the distribution are found by file name, through the dynamic linker's cache and the usual library
directories, so no path of one machine is written down. What is missing is installed from Debian's
or Ubuntu's packages, after saying so. Newer ones are built from packages for Rust where cargo is
there (peers/peers.py).
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
import peers  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
OURS = "mimalloc"  # this project's library; "ours" on the command line means the same
SYSTEM = "glibc"


@dataclass(frozen=True)
class Allocator:
    name: str
    library: str = ""  # absolute path; empty: the system's malloc
    package: str = ""
    built: str = ""  # its name in peers.PEERS


# name, file name of the library, Debian package
PEERS = [
    ("jemalloc", "libjemalloc.so.2", "libjemalloc2"),
    ("tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
    ("tbbmalloc", "libtbbmalloc_proxy.so.2", "libtbbmalloc2"),
    ("mimalloc2", "libmimalloc.so.2.0", "libmimalloc2.0"),
]
# Built ones are told from Debian's by this word.
NEW = {f"{name}-new": name for name, peer in peers.PEERS.items() if peer.kind == "fast"}


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
    known = [OURS, SYSTEM] + [name for name, _, _ in PEERS] + list(NEW)
    extra_names = [name for name, _ in extra]
    wanted = names or known + extra_names
    for name in wanted:
        if name not in known + extra_names:
            sys.exit(f"bench: unknown allocator {name}; known: {', '.join(known + extra_names)}")
    missing = {package for name, file_name, package in PEERS
               if name in wanted and not find_library(file_name)}
    install(missing, "the comparison with other allocators")
    absent = build_new([name for name in wanted if name in NEW])
    if absent and names:
        sys.exit(f"bench: {', '.join(absent)} cannot be built")
    chosen = []
    for name in list(wanted) + [n for n in extra_names if n not in wanted]:
        if name in absent:
            continue
        if name == SYSTEM:
            chosen.append(Allocator(SYSTEM))
        elif name == OURS:
            chosen.append(Allocator(OURS, existing(ours)))
        elif name in extra_names:
            chosen.append(Allocator(name, existing(dict(extra)[name])))
        elif name in NEW:
            library = str(peers.FOLDER / f"{NEW[name]}.so")
            chosen.append(Allocator(name, library, built=NEW[name]))
        else:
            file_name, package = next((f, p) for n, f, p in PEERS if n == name)
            chosen.append(Allocator(name, find_library(file_name), package))
    return chosen


def build_new(names):
    """Builds the peers that packages for Rust bring; which of them are not to be had."""
    if names and shutil.which("cargo") is None:
        print("bench: there is no cargo, so only the distribution's allocators are compared",
              file=sys.stderr)
        return names
    built = [NEW[name] for name in names]
    if not all((peers.FOLDER / f"{name}.so").exists() for name in built):
        print(f"bench: building {', '.join(built)} with cargo", file=sys.stderr, flush=True)
    problems = peers.build_all(built, peers.FOLDER)
    for name in names:
        if problems[NEW[name]]:
            print(f"bench: without {name}: {problems[NEW[name]]}", file=sys.stderr)
    return [name for name in names if problems[NEW[name]]]


def need_tool(executable, package, purpose):
    if shutil.which(executable) is None:
        install({package}, purpose)


def add_arguments(parser):
    parser.add_argument("-a", "--allocators", metavar="A,B",
                        help="comma-separated; known: ours, glibc, "
                        + ", ".join([n for n, _, _ in PEERS] + list(NEW)) + " and each --peer")
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
    if allocator.built:
        peer = peers.PEERS[allocator.built]
        return f"{peer.package} {peer.version}{own_version(allocator.library)}"
    if allocator.name == SYSTEM:
        return " ".join(os.confstr("CS_GNU_LIBC_VERSION").split())
    return Path(allocator.library).name


def own_version(library):
    """What mimalloc's own function says, for packages whose version is not the allocator's."""
    ask = ("import ctypes, sys; v = ctypes.CDLL(sys.argv[1]).mi_version(); "
           "print(v // 10000, v // 100 % 100, v % 100, sep='.') if v > 9999 else "
           "print(v // 100, v // 10 % 10, v % 10, sep='.')")
    done = subprocess.run([sys.executable, "-c", ask, library], capture_output=True, text=True,
                          check=False, env={**os.environ, "LD_PRELOAD": library})
    return f" (mimalloc {done.stdout.strip()})" if done.returncode == 0 else ""
