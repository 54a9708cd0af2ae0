#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the commands of the README on machines that have nothing else: new minimal systems.

  fresh.py [--list] [--folder DIR] [--cache DIR] [--keep] [--nice N] [ROW...]

A row is a system, a user, and a command:

  run          Debian 12, `make run` by root
  user         Debian 12, `make run` by an ordinary user: before CMake is there it says what is missing
               and stops; afterwards it runs. `make test` by that user says what is missing
  bullseye     Debian 11, `make run` by root
  trixie       Debian 13, `make run` by root
  sid          the newest packages that Debian has, `make run` by root
  test         Debian 12, `make test` by root: no test fails, and none is skipped (the better part of an
               hour). `test-no-real` is the same without the real programs, `test-trixie` and
               `test-sid` are that with the compilers and C libraries of these systems

Without ROWs all but the tests are tried. A system is what debootstrap makes with --variant=minbase
and make, gcc, libc6-dev, ca-certificates and git. It lies in a new folder under DIR (the system's
folder for temporary files) and is gone afterwards, unless --keep is given; --cache keeps the packages
for the next time. It takes packages from where this machine does, through the same proxy, with the same
keys and certificates; a machine that is no Debian takes debootstrap's own choice.

Needs root, and the right to mount. Exit status 0: all rows are as they should be; 1: not; 77: no such
system can be made here.
"""

import argparse
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = "make,gcc,libc6-dev,ca-certificates,git"
USER = "somebody"
# Mounts and processes of a command end with it, however it ends.
SPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
# What a machine behind a proxy or a mirror says in its environment, or in files of root's home.
PASSED = re.compile(r"(?i)^(https?|ftp|all|no)_proxy$|^(SSL_CERT_FILE|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE|"
                    r"GIT_SSL_CAINFO|NODE_EXTRA_CA_CERTS)$|^CARGO_(HTTP|NET|REGISTR|SOURCE)|"
                    r"^PIP_(INDEX_URL|EXTRA_INDEX_URL|CERT|PROXY|TRUSTED_HOST|DEFAULT_TIMEOUT)$")
SETTINGS = ["/etc/pip.conf", "~/.config/pip/pip.conf", "~/.pip/pip.conf", "~/.cargo/config.toml"]
APT_SETTINGS = re.compile(r"^Acquire::(?!IndexTargets|CompressionTypes|Languages|GzipIndexes|Changelogs)"
                          r"\S+ \"[^\"]+\";$", re.M)


class Failed(Exception):
    """A row is not as it should be."""


class Impossible(Exception):
    """No such system can be made here."""


def output_of(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          check=False)
    return done.stdout


def mirror():
    """Where this machine takes the packages of Debian from, and the keys to them, or neither."""
    with contextlib.suppress(OSError):
        release = dict(line.split("=", 1) for line in
                       pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
        if release.get("ID") == "debian":
            listed = output_of("apt-get", "indextargets", "--format",
                               "$(REPO_URI) $(RELEASE) $(COMPONENT) $(SIGNED_BY)",
                               "Created-By: Packages")
            for line in listed.splitlines():
                uri, suite, component, *keys = line.split()
                if suite == release.get("VERSION_CODENAME", "").strip('"') and component == "main":
                    return uri, next((k for k in keys if os.path.isfile(k)), None)
    return None, None


def proxies():
    """For debootstrap, which does not read apt's settings."""
    found = {}
    for scheme in ("http", "https"):
        text = output_of("apt-config", "dump", "--format", "%v%n", f"Acquire::{scheme}::Proxy").strip()
        if text and text.upper() != "DIRECT":
            found[f"{scheme}_proxy"] = text
    return found


class System:
    """A minimal system in a folder of its own; `with` it, and it is gone at the end."""

    def __init__(self, suite, options, include=INCLUDE):
        self.suite, self.include, self.options = suite, include, options
        self.path = None

    def __enter__(self):
        if os.geteuid() != 0:
            raise Impossible("making a system needs root")
        if subprocess.run([*SPACES, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            raise Impossible("there is no right to mount here, which a system of its own needs")
        self.path = pathlib.Path(tempfile.mkdtemp(prefix=f"fresh-{self.suite}-", dir=self.options.folder))
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # Its mounts were in name spaces of their own and went with the commands.
        if self.path is not None and not self.options.keep:
            shutil.rmtree(self.path, ignore_errors=True)

    def make(self):
        uri, keys = mirror()
        command = ["debootstrap", "--variant=minbase", f"--include={self.include}"]
        if keys:
            command.append(f"--keyring={keys}")
        if self.options.cache:
            os.makedirs(self.options.cache, exist_ok=True)
            command.append(f"--cache-dir={os.path.abspath(self.options.cache)}")
        self.path.chmod(0o755)
        done = subprocess.run([*nice(self.options), *SPACES, *command, self.suite, self.path, *([uri] if uri else [])],
                              env={**os.environ, **proxies()}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        if done.returncode != 0:
            raise Failed(f"debootstrap {self.suite}: {done.stdout[-600:]}")
        self.take_settings()
        self.do("update-ca-certificates && useradd --create-home " + USER)

    def take_settings(self):
        apt = self.path / "etc/apt"
        settings = APT_SETTINGS.findall(output_of("apt-config", "dump"))
        (apt / "apt.conf.d" / "90machine").write_text("\n".join(settings) + "\n")
        # What a crash would leave half written goes anyway.
        (self.path / "etc/dpkg/dpkg.cfg.d/quick").write_text("force-unsafe-io\n")
        self.take("/etc/apt/auth.conf")
        for folder in ("/etc/apt/auth.conf.d", "/usr/local/share/ca-certificates"):
            if os.path.isdir(folder):
                shutil.copytree(folder, self.path / folder[1:], dirs_exist_ok=True)
        for name in ("/etc/resolv.conf", "/etc/hosts"):
            self.take(name)
        for name in SETTINGS:
            self.take(os.path.expanduser(name), name.replace("~", "/root"))

    def take(self, name, to=None):
        if os.path.isfile(name):
            there = self.path / (to or name)[1:]
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(name, there)

    def environment(self, user):
        home = f"/home/{user}" if user else "/root"
        path = ("" if user else "/usr/local/sbin:/usr/sbin:/sbin:") + "/usr/local/bin:/usr/bin:/bin"
        passed = {name: value for name, value in os.environ.items() if PASSED.search(name)}
        for value in passed.values():
            if os.path.isfile(value) and not (self.path / value[1:]).exists():
                self.take(value)
        return {**passed, "PATH": path, "HOME": home, "LANG": "C.UTF-8"}

    def run(self, script, user=None, limit=900, log=None):
        """Status and output of a shell's script; status None when its time was over."""
        inner = ('mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && '
                 'mount --rbind /sys "$0/sys" && { [ -d "$0/dev/shm" ] || mkdir "$0/dev/shm"; } && '
                 'mount -t tmpfs tmpfs "$0/dev/shm" && exec "$@"')
        who = [f"--userspec={user}"] if user else []
        command = [*nice(self.options), *SPACES, "sh", "-c", inner, self.path, shutil.which("chroot"), *who, self.path, "/bin/sh", "-c", script]
        with open(log, "w+b") if log else tempfile.TemporaryFile() as out:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT,
                                       stdin=subprocess.DEVNULL, env=self.environment(user))
            try:
                status = process.wait(timeout=limit)
            except BaseException as reason:
                process.kill()
                process.wait()
                if not isinstance(reason, subprocess.TimeoutExpired):
                    raise
                status = None
            out.seek(0)
            return status, out.read().decode(errors="replace")

    def do(self, script, **how):
        """Runs a script that must succeed; returns what it wrote."""
        status, text = self.run(script, **how)
        if status != 0:
            raise Failed(f"{self.suite}: `{script}` ends with {status}:\n{text[-3000:]}")
        return text

    def take_project(self, home, user=None):
        """The project as it lies here, a repository if it is one."""
        there = self.path / home[1:] / "mimalloc"
        if (ROOT / ".git").exists():
            subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, there], check=True)
            listed = output_of("git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others",
                               "--exclude-standard")
            for name in filter(None, listed.split("\0")):
                if (ROOT / name).is_file():
                    (there / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / name, there / name)
        else:
            shutil.copytree(ROOT, there, ignore=shutil.ignore_patterns("out"))
        self.do(f"chown -R {user or 'root'} {home}/mimalloc")


def nice(options):
    return ["nice", "-n", str(options.nice)] if options.nice else []


# ---- the rows -----------------------------------------------------------------------------------

def check_run(text):
    for sign in ("LD_PRELOAD=", "mimalloc: process init", "committed", "mimalloc: process done"):
        if sign not in text:
            raise Failed(f"`make run` does not say {sign!r}:\n{text[-2000:]}")


def run_by_root(system):
    system.take_project("/root")
    check_run(system.do("cd ~/mimalloc && make run"))
    # Whatever it refers to must be there, at once; old C libraries are several.
    system.do("cd ~/mimalloc && LD_BIND_NOW=1 LD_PRELOAD=$PWD/out/release/libmimalloc.so ls / >/dev/null")


def refused(system, command, *signs):
    """The user may not install anything: it says so, with each sign, and stops with status 77."""
    status, text = system.run(f"cd ~/mimalloc && {command}", user=USER)
    if status in (0, None) or "Error 77" not in text:
        raise Failed(f"`{command}` by an ordinary user ends with {status}:\n{text[-2000:]}")
    for sign in ("needs root", *signs):
        if sign not in text:
            raise Failed(f"`{command}` by an ordinary user does not say {sign!r}:\n{text[-2000:]}")


def run_by_user(system):
    system.take_project(f"/home/{USER}", USER)
    refused(system, "make run", "cmake")
    refused(system, "make test", "cmake", "g++", "python3", "valgrind", "clang", "sqlite3", "cargo")
    system.take_project("/root")
    system.do("cd ~/mimalloc && make run")
    check_run(system.do("cd ~/mimalloc && make run", user=USER))


def test_by_root(system, how=""):
    system.take_project("/root")
    log = ROOT / "out" / "fresh-test.log"
    log.parent.mkdir(exist_ok=True)
    status, text = system.run(f"cd ~/mimalloc && make test {how}", limit=4 * 3600, log=log)
    skipped = sorted(set(re.findall(r"^\t *\d+ - (\S+) \(Skipped\)", text, re.M)))
    left_out = re.findall(r"^.*(?:left out|not run: needs).*$", text, re.M)
    if status != 0 or skipped or left_out:
        raise Failed(f"`make test` ends with {status}; skipped: {' '.join(skipped) or 'none'}\n"
                     + "\n".join(left_out) + f"\n{text[-3000:]}\nThe whole is in {log}")


def test_without_programs(system):
    test_by_root(system, "REAL=no")


ROWS = {
    "run": ("bookworm", "root", "make run", run_by_root),
    "user": ("bookworm", "a user", "make run, make test", run_by_user),
    "bullseye": ("bullseye", "root", "make run", run_by_root),
    "trixie": ("trixie", "root", "make run", run_by_root),
    "sid": ("sid", "root", "make run", run_by_root),
    "test": ("bookworm", "root", "make test", test_by_root),
    "test-no-real": ("bookworm", "root", "make test REAL=no", test_without_programs),
    "test-trixie": ("trixie", "root", "make test REAL=no", test_without_programs),
    "test-sid": ("sid", "root", "make test REAL=no", test_without_programs),
}
LONG = [name for name in ROWS if name.startswith("test")]


def add_options(parser):
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--cache")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--nice", type=int, default=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("rows", nargs="*", metavar="ROW")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # takes the system along
    if options.list:
        print("\n".join(ROWS))
        return 0
    unknown = [name for name in options.rows if name not in ROWS]
    if unknown:
        parser.error("no such row: " + " ".join(unknown))
    bad = 0
    print("| system | by | command | result | seconds |\n| --- | --- | --- | --- | ---: |")
    for name in options.rows or [n for n in ROWS if n not in LONG]:
        suite, who, command, check = ROWS[name]
        begin, why = time.monotonic(), None
        try:
            with System(suite, options) as system:
                check(system)
        except Impossible as reason:
            print(f"fresh: {reason}")
            return 77
        except Failed as reason:
            why = reason
        print(f"| {suite} | {who} | `{command}` | {'FAILED' if why else 'as it should be'} | "
              f"{time.monotonic() - begin:.0f} |", flush=True)
        if why:
            print(why, flush=True)
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
