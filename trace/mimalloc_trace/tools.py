# SPDX-License-Identifier: MIT
"""Where the compiled parts are, and the files: a trace is what the packer writes, packed by xz."""

import lzma
import os
import pathlib
import shutil
import struct
import sys

from . import Refusal

RECORDER = "libmimalloc-trace-record.so"
PACKER = "mimalloc-trace-pack"
REPLAYER = "mimalloc-trace-replay"
MAGIC = 0x3145434152544d4d
XZ = b"\xfd7zXZ\0"
COLUMNS = ("calls", "threads", "sizes", "blocks", "pages", "aligns")
HEAD = struct.Struct("<7Q6Q256s")


def tool(name):
    """The path of a compiled part: in MIMALLOC_TRACE_TOOLS, where `make install` puts it, or in the
    newest build under out/."""
    named = os.environ.get("MIMALLOC_TRACE_TOOLS")
    if named:
        found = [pathlib.Path(named) / name]
    else:
        start = pathlib.Path(sys.argv[0]).resolve().parent.parent
        found = [path for pattern in ("lib*/mimalloc*/trace", "lib/*/mimalloc*/trace", "out/*")
                 for path in start.glob(f"{pattern}/{name}")]
    found = [path for path in found if path.is_file()]
    if not found:
        raise Refusal(f"{name} is not there; build it, and say where by MIMALLOC_TRACE_TOOLS")
    return str(max(found, key=lambda path: path.stat().st_mtime).resolve())


def compress(plain, path):
    """Packs `plain`, so that `path` is either whole or not there."""
    part = pathlib.Path(f"{path}.part")
    try:
        with open(plain, "rb") as source, lzma.open(part, "wb", preset=6) as target:
            shutil.copyfileobj(source, target, 1 << 20)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise Refusal(f"{path}: {error.strerror}") from None


def is_packed(path):
    """Whether there is a file of that name, packed as traces are."""
    try:
        with open(path, "rb") as file:
            return file.read(len(XZ)) == XZ
    except OSError:
        return False


def unpack(path, plain):
    """Unpacks a trace into a file; refuses what is none, or not whole."""
    try:
        with lzma.open(path, "rb") as source, open(plain, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
    except EOFError:
        raise Refusal(f"{path}: the trace is cut short") from None
    except lzma.LZMAError:
        raise Refusal(f"{path}: not a trace, or a damaged one") from None
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}") from None
    return head(path, plain)


def head(path, plain):
    """What the head of an unpacked trace says."""
    with open(plain, "rb") as file:
        return told_by(path, file.read(HEAD.size))


def head_of_packed(path):
    """The same of one that is packed, of which no more is unpacked."""
    with lzma.open(path, "rb") as file:
        return told_by(path, file.read(HEAD.size))


def told_by(path, data):
    """What the first bytes of a trace say."""
    if len(data) < HEAD.size:
        raise Refusal(f"{path}: not a trace")
    magic, calls, blocks, threads, unknown, cut, peak, *rest = HEAD.unpack(data)
    if magic != MAGIC:
        raise Refusal(f"{path}: not a trace")
    return {"program": rest[-1].split(b"\0")[0].decode(errors="replace"), "calls": calls,
            "blocks": blocks, "threads": threads, "left_out": unknown, "cut": bool(cut),
            "peak_bytes": peak, "column_bytes": dict(zip(COLUMNS, rest))}
