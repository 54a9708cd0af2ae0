# SPDX-License-Identifier: MIT
"""What a guest finds when it starts: an initial file system with programs of this machine at
the paths that they have here, and what they need to run."""

import ast
import functools
import lzma
import os
import pathlib
import re
import stat
import subprocess
import sys

FOLDERS = ("dev", "proc", "sys", "tmp", "etc", "lib")


class Image:
    """An archive in the form that the kernel unpacks (cpio, "newc", not compressed)."""

    def __init__(self, compiler, build):
        self.compiler, self.build = compiler, build
        self.entries = {}  # path in the guest: (mode, bytes or the file that has them)
        for folder in FOLDERS:
            self.folder(folder)
        self.text("etc/passwd", "root:x:0:0:root:/tmp:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n")

    def folder(self, path):
        parent = os.path.dirname(path)
        if parent and parent not in self.entries:
            self.folder(parent)
        self.entries.setdefault(path, (stat.S_IFDIR | 0o1777 if path == "tmp" else
                                       stat.S_IFDIR | 0o755, b""))

    def text(self, path, text):
        self.entries[path] = (stat.S_IFREG | 0o644, text.encode())

    def file(self, source, path=None):
        """A file by its path here, or another."""
        path = str(path or source).lstrip("/")
        self.folder(os.path.dirname(path) or ".")
        self.entries[path] = (stat.S_IFREG | 0o755, pathlib.Path(source))

    def program(self, path):
        """A program or a shared library, and the libraries and the loader that it needs."""
        self.file(path)
        for name in needed(str(path)):
            self.library(name)

    def library(self, name):
        """A shared library by its name, or a loader by its path."""
        path = name.lstrip("/") if name.startswith("/") else f"lib/{name}"
        if path in self.entries:
            return
        source = find_library(self.compiler, os.path.basename(name), str(self.build))
        self.file(source, path)
        for other in needed(source):
            self.library(other)

    def script(self, path):
        """A script in Python, the interpreter, and those of its modules that it imports."""
        self.file(path)
        program, files, extensions, paths = interpreter(str(path))
        self.program(program)
        for one in files:
            self.file(one)
        for one in extensions:
            self.program(one)
        return program, paths

    def with_programs(self, tree, names, path):
        """Another image, which has programs of an unpacked system and all of its libraries at a path."""
        other = Image(self.compiler, self.build)
        other.entries.update(self.entries)
        for source in sorted(tree.rglob("*")):
            inside = source.relative_to(tree)
            if not (".so" in source.name or source.is_symlink() or str(inside) in names):
                continue
            if source.is_symlink():
                target = f"{path}/{inside}"
                other.folder(os.path.dirname(target))
                link = os.readlink(source)
                link = f"/{path}{link}" if link.startswith("/") else link
                other.entries[target] = (stat.S_IFLNK | 0o777, link.encode())
            elif source.is_file():
                other.file(source, f"{path}/{inside}")
        return other

    def modules(self, folder, names):
        """Modules of a kernel and those that they depend on; their paths in the order of loading."""
        paths = []

        def add(name):
            source = next(iter(sorted(folder.rglob(f"{name.replace('_', '[_-]')}.ko*"))), None)
            path = f"modules/{name}.ko"
            if source is None or f"/{path}" in paths:
                return  # what others depend on may be part of the kernel itself
            data = source.read_bytes()
            data = lzma.decompress(data) if source.suffix == ".xz" else data
            for other in re.search(rb"\0depends=([^\0]*)\0", data).group(1).decode().split(","):
                if other:
                    add(other)
            self.folder("modules")
            self.entries[path] = (stat.S_IFREG | 0o644, data)
            paths.append(f"/{path}")
        for name in names:
            add(name)
        return paths

    def write(self, path, extra):
        """The archive with some more texts, each {path: text}."""
        entries = {**self.entries, **{name: (stat.S_IFREG | 0o644, text.encode())
                                      for name, text in extra.items()}}
        with open(path, "wb") as out:
            for number, (name, (mode, data)) in enumerate(sorted(entries.items()), 1):
                append(out, number, name, mode, data)
            append(out, 0, "TRAILER!!!", 0, b"")


def append(out, number, name, mode, data):
    if isinstance(data, pathlib.Path):
        data = data.read_bytes()
    name = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08x" % x for x in fields) + name
    out.write(head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4))


@functools.lru_cache(maxsize=None)
def needed(path):
    """What the ELF file asks for: the loader's path, and names of libraries."""
    text = subprocess.run(["readelf", "-W", "-l", "-d", path], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL, check=False).stdout
    return tuple(re.findall(r"program interpreter: ([^\]]+)\]", text) +
                 re.findall(r"\(NEEDED\).*\[(.+)\]", text))


@functools.lru_cache(maxsize=None)
def find_library(compiler, name, build):
    own = pathlib.Path(build) / name
    if own.exists():
        return str(own)
    path = subprocess.run([compiler, f"-print-file-name={name}"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.strip()
    if not os.path.isabs(path):
        # Beside the interpreter, which may have come with libraries of its own.
        path = next((str(p) for p in pathlib.Path(sys.base_prefix).glob(f"lib*/{name}")), path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"the library {name} that a program of the tests needs")
    return os.path.realpath(path)


@functools.lru_cache(maxsize=None)
def interpreter(script):
    """The program, its files, those that are shared libraries, and where modules are looked for."""
    tree = ast.parse(pathlib.Path(script).read_text(encoding="utf-8"))
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import)
               for alias in node.names}
    modules |= {node.module for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and node.module}
    # Those that lie beside the script are found there, in the guest as well.
    folder = str(pathlib.Path(script).resolve().parent)
    probe = ("import importlib, sys, encodings.utf_8, encodings.ascii\n"
             f"sys.path.insert(0, {folder!r})\n"
             f"for name in {sorted(modules)!r}: importlib.import_module(name)\n"
             "files = [getattr(m, '__file__', None) for m in list(sys.modules.values())]\n"
             "print(sys.executable, sys.base_prefix, *filter(None, files), sep='\\n')\n")
    done = subprocess.run([sys.executable, "-I", "-S", "-c", probe], stdout=subprocess.PIPE, text=True,
                          check=True)
    program, prefix, *files = done.stdout.split("\n")[:-1]
    extensions = [f for f in files if ".so" in os.path.basename(f)]
    files = [f for f in files if f.endswith(".py")]
    return os.path.realpath(program), files, extensions, prefix
