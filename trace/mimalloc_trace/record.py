# SPDX-License-Identifier: MIT
"""Runs a program with the recorder and packs what it wrote."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from . import Refusal, tools

LIMIT = 20_000_000


def say(text):
    print(f"mimalloc-trace: {text}", file=sys.stderr)


def must_be_writable(path):
    """Before the program runs, not after an hour of it."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}") from None
    if path.is_dir():
        raise Refusal(f"{path}: a folder")


def run(command, folder, limit):
    """The process number and the exit status, as a shell has it."""
    preload = " ".join(filter(None, [tools.tool(tools.RECORDER), os.environ.get("LD_PRELOAD")]))
    environment = {**os.environ, "LD_PRELOAD": preload, "MIMALLOC_TRACE_INTO": folder,
                   "MIMALLOC_TRACE_LIMIT": str(limit)}
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise Refusal(f"{command[0]}: {error.strerror}") from None
    # The terminal sends these to the program, too; it decides.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    status = process.wait()
    signal.signal(signal.SIGINT, before)
    if status < 0:
        say(f"the program was ended by signal {-status}; what it did until then is recorded")
    return process.pid, status if status >= 0 else 128 - status


def about(raw):
    done = subprocess.run([tools.tool(tools.PACKER), "--about", raw], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        return None
    pid, events, program = done.stdout.rstrip("\n").split("\t", 2)
    return {"raw": raw, "pid": int(pid), "events": int(events), "program": program}


def pack(recorded, path):
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "trace")
        done = subprocess.run([tools.tool(tools.PACKER), recorded["raw"], plain],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Refusal(done.stderr.strip().removeprefix("mimalloc-trace: "))
        told = tools.head(path, plain)
        tools.compress(plain, path)
    size = path.stat().st_size
    each = f", {size / told['calls']:.2f} bytes a call" if told["calls"] else ""
    say(f"{path}: {told['calls']} calls of {told['threads']} thread(s) of {told['program']}{each}")


def numbered(path, number):
    """prog.trace becomes prog-2.trace."""
    return path.with_name(f"{path.stem}-{number}{path.suffix}")


def record(command, path, with_children, limit):
    """Records `command` into `path`; the program's exit status."""
    path = pathlib.Path(path or pathlib.Path(command[0]).name + ".trace").resolve()
    must_be_writable(path)
    folder = tempfile.mkdtemp(prefix="mimalloc-trace-")
    try:
        pid, status = run(command, folder, limit)
        files = sorted(pathlib.Path(folder).iterdir(),
                       key=lambda file: (file.stat().st_ctime_ns, file.name))
        found = list(filter(None, map(about, map(str, files))))
        # A process may start one program after another: the last one is meant.
        own = [r for r in found if r["pid"] == pid]
        if not own:
            raise Refusal("nothing was recorded: the program is static, has raised rights, or "
                          "clears its environment")
        pack(own[-1], path)
        rest = [r for r in found if r is not own[-1] and r["events"] > 0]
        if rest and not with_children:
            say(f"{len(rest)} more program(s) ran in it; --children records those, too")
        for number, recorded in enumerate(rest if with_children else [], 2):
            pack(recorded, numbered(path, number))
    finally:
        shutil.rmtree(folder)
    return status
