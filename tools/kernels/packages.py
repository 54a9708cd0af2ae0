# SPDX-License-Identifier: MIT
"""Kernels of the distribution's suites, by apt, unpacked into a folder; nothing is installed.

Each suite and architecture has an apt root of its own below the folder of the build, with the
configuration, the keys and the mirror of this machine, and the suite's name in the place of the
machine's own.
"""

import functools
import gzip
import os
import pathlib
import re
import shutil
import struct
import subprocess

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SOURCES = [pathlib.Path("/etc/apt/sources.list"), *sorted(pathlib.Path(
    "/etc/apt/sources.list.d").glob("*"))]
SUITES = r"bullseye|bookworm|trixie|forky|sid|oldoldstable|oldstable|stable|testing|unstable"
KERNEL_PARTS = re.compile(r"^\s*Depends: (linux-(?:image|binary|modules)-[0-9]\S*)", re.M)


class Unavailable(Exception):
    """What is needed cannot be had here."""


@functools.lru_cache(maxsize=None)
def mirror():
    """Where this machine takes the distribution from, and the key file that the entry names."""
    for path in SOURCES:
        if path.suffix not in (".list", ".sources") or not os.access(path, os.R_OK):
            continue
        text = path.read_text(errors="replace")
        for stanza in re.split(r"\n\s*\n", text) if path.suffix == ".sources" else []:
            fields = dict(re.findall(r"^([\w-]+):[ \t]*(.+)$", stanza, re.M | re.I))
            suites = fields.get("Suites", "").split()
            if any(re.fullmatch(SUITES, s) for s in suites) and fields.get("URIs"):
                return fields["URIs"].split()[0], fields.get("Signed-By", KEYRING)
        for options, uri in re.findall(
                rf"^deb\s+(?:\[(.*?)\]\s+)?(\S+)\s+(?:{SUITES})\s", text, re.M):
            key = re.search(r"signed-by=(\S+)", options)
            return uri, key.group(1) if key else KEYRING
    raise Unavailable("no mirror of Debian among the sources of apt")


class Suite:
    """One suite for one architecture."""

    def __init__(self, folder, suite, architecture, log, patience=900):
        self.folder = pathlib.Path(folder) / f"{suite}-{architecture}"
        self.suite, self.architecture, self.log = suite, architecture, log
        self.patience = patience  # seconds that one run of apt may take

    def apt(self, program, *arguments, folder=None):
        root = self.folder / "apt"
        options = {
            "Dir::Etc::SourceList": root / "sources.list", "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::Preferences": "/dev/null", "Dir::Etc::PreferencesParts": "/dev/null",
            "Dir::State": root, "Dir::State::status": root / "status", "Dir::Cache": root / "cache",
            "APT::Architecture": self.architecture, "APT::Architectures": self.architecture,
            "Acquire::Languages": "none", "Acquire::Retries": "3",
            "Acquire::http::Timeout": "20", "Acquire::https::Timeout": "20", "Debug::NoLocking": "true",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
        }
        if os.geteuid() == 0:
            options["APT::Sandbox::User"] = "root"
        flags = [f"-o{name}={value}" for name, value in options.items()]
        with open(self.log, "a", encoding="utf-8") as log:
            try:
                done = subprocess.run([program, *flags, *arguments], stdout=subprocess.PIPE, stderr=log,
                                      text=True, cwd=folder or root, check=False,
                                      timeout=self.patience)
            except (OSError, subprocess.TimeoutExpired) as reason:
                raise Unavailable(f"{program} {arguments[0]} for {self.suite}: {reason}") from reason
            log.write(done.stdout)
        if done.returncode != 0:
            raise Unavailable(f"{program} {arguments[0]} for {self.suite} failed: see {self.log}")
        return done.stdout

    def prepare(self):
        """Brings the lists of packages."""
        root = self.folder / "apt"
        for name in ("lists/partial", "cache/archives/partial"):
            (root / name).mkdir(parents=True, exist_ok=True)
        uri, key = mirror()
        (root / "status").touch()
        (root / "sources.list").write_text(
            f"deb [signed-by={key}] {uri} {self.suite} main\n", encoding="utf-8")
        self.apt("apt-get", "update", "-q")

    def parts(self, package):
        """The packages of one kernel, of which the given one depends on some and those on others."""
        found, ahead = {package}, [package]
        while ahead:
            for part in KERNEL_PARTS.findall(self.apt("apt-cache", "depends", ahead.pop())):
                if part not in found:
                    found.add(part)
                    ahead.append(part)
        return sorted(found)

    def fetch(self, packages, destination):
        """Unpacks packages into a folder."""
        debs = self.folder / "debs"
        shutil.rmtree(debs, ignore_errors=True)
        debs.mkdir(parents=True)
        self.apt("apt-get", "download", "-q", *packages, folder=debs)
        for deb in sorted(debs.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", deb, destination], check=True)
            deb.unlink()

    def unpacked(self, name, packages_of, update):
        """A folder with a package and what packages_of finds that it needs, made once."""
        tree = self.folder / name
        if update or not (tree / "complete").exists():
            shutil.rmtree(tree, ignore_errors=True)
            tree.mkdir(parents=True)
            self.prepare()
            self.fetch(packages_of(name), tree)
            (tree / "complete").touch()
        return tree

    def installed_with(self, package):
        """The packages that are installed when the given one is, with it."""
        plan = self.apt("apt-get", "install", "-s", "-q", "--no-install-recommends", package)
        return re.findall(r"^Inst (\S+)", plan, re.M)

    def programs(self, name, update=False):
        """A folder with the programs of a package and all libraries that they need."""
        return self.unpacked(name, self.installed_with, update)

    def kernel(self, meta, update=False):
        """The newest kernel that a package stands for: release, image, folder of its modules."""
        tree = self.unpacked(meta, self.parts, update)
        images = [*tree.glob("boot/vmlinu?-*"), *tree.glob("usr/lib/modules/*/vmlinuz")]
        modules = [*tree.glob("usr/lib/modules/*"), *tree.glob("lib/modules/*")]
        if not images or not modules:
            raise Unavailable(f"no kernel in the packages of {meta} of {self.suite}")
        return modules[0].name, plain_image(images[0]), modules[0]


def plain_image(path):
    """An image that unpacks itself through EFI, as an image that qemu loads."""
    image = path.read_bytes()
    if image[4:8] != b"zimg":
        return path
    start, size = struct.unpack("<II", image[8:16])
    if not image[24:32].startswith(b"gzip"):
        raise Unavailable(f"{path.name} is packed with {image[24:32].rstrip(bytes(1)).decode()}")
    plain = path.with_name("image")
    plain.write_bytes(gzip.decompress(image[start:start + size]))
    return plain
