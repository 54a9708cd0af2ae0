# SPDX-License-Identifier: MIT
"""One measured run of one program under one allocator.

The work of measuring is done by the small static program `launch`, since the peak resident memory
that the kernel reports includes what the parent had at the moment of exec. Here are the pieces
around it: a clean environment, the output kept in a file, the verdict whether the run counts, and
the proof that a program's malloc is really the one that it is said to be.
"""

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

TIMEOUT = 300

# Set for every run, so that hash seeds and locales do not differ between rounds.
FIXED_ENVIRONMENT = {"LC_ALL": "C", "PYTHONHASHSEED": "0", "PYTHONMALLOC": "malloc",
                     "PYTHONDONTWRITEBYTECODE": "1"}


def clean_environment():
    drop = ("LD_", "MALLOC_", "GLIBC_TUNABLES", "MIMALLOC_", "TCMALLOC_", "TBB_", "JE_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(drop)}
    kept.update(FIXED_ENVIRONMENT)
    return kept


def run(launcher, job, library, directory, timeout=TIMEOUT):
    """Runs a job with `library` preloaded. Returns the figures as a dictionary, with the key
    `failed` (a sentence) when the run must not be quoted and `output` (its last 64 KiB)."""
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        result_path = Path(scratch) / "result"
        output_path = Path(scratch) / "output"
        command = [str(launcher), str(result_path), str(timeout), library,
                   *map(str, job.command)]
        measured = {}
        with open(output_path, "wb") as output, open(job.stdin or os.devnull, "rb") as given:
            process = subprocess.Popen(
                command, stdin=given, stdout=output, stderr=subprocess.STDOUT, cwd=directory,
                env={**clean_environment(), **job.environment})
            try:
                if job.driver:
                    measured = job.driver()
                if "failed" in measured:
                    process.terminate()
                status = process.wait()
            finally:
                # The launcher kills the program when it is told to end.
                if process.poll() is None:
                    process.terminate()
                    process.wait()
        text = output_path.read_bytes()[-65536:].decode(errors="replace")
        if status != 0 or not result_path.exists():
            return {"failed": "the launcher failed", "output": text}
        figures = {**json.loads(result_path.read_text()), "output": text}
    verdict = measured.get("failed") or why_failed(figures, job.expected, timeout)
    figures.update(measured)
    if verdict:
        figures["failed"] = verdict
    named = re.findall(r"^figure (\S+) ([\d.]+) (\S+)$", text, re.MULTILINE)
    if named:
        figures["figures"] = {name: [float(value), unit] for name, value, unit in named}
    return figures


def why_failed(figures, expected, timeout):
    if figures["timed_out"]:
        return f"no end after {timeout} s"
    if figures["signal"]:
        return f"killed by signal {figures['signal']}"
    if figures["exit"] != 0:
        return f"exit code {figures['exit']}"
    if expected not in figures["output"]:
        return "wrong output"
    if "cannot be preloaded" in figures["output"]:
        return "the library could not be preloaded"
    return ""


def malloc_providers(command, library, directory):
    """The files that `malloc` and `free` are bound to in a program, as the dynamic linker says."""
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        environment = {**clean_environment(), "LD_DEBUG": "bindings", "LD_BIND_NOW": "1",
                       "LD_DEBUG_OUTPUT": str(Path(scratch) / "log")}
        if library:
            environment["LD_PRELOAD"] = library
        subprocess.run(list(map(str, command)), env=environment, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=directory,
                       timeout=60, check=False)
        text = "".join(p.read_text(errors="replace") for p in sorted(Path(scratch).iterdir()))
    bindings = re.findall(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol "
                          r"`(?:malloc|free)'", text)
    # An allocator may look up the functions that it replaces, for blocks from before its time.
    return {os.path.realpath(path) for caller, path in bindings
            if not library or os.path.realpath(caller) != os.path.realpath(library)}


def preload_for(command, allocator_library, system_shim, directory):
    """What to preload so that a program really uses the allocator, and "" or why it does not.

    Nothing preloaded means the system's malloc, unless the program brings an allocator of its
    own: then the shim that forwards to the C library is preloaded."""
    library = allocator_library
    providers = malloc_providers(command, library, directory)
    if not providers:
        return library, "its calls of malloc could not be traced"
    if not library:
        foreign = [p for p in providers if not re.match(r"(libc|ld)[.-]", Path(p).name)]
        if not foreign:
            return "", ""
        if not system_shim.exists():
            return "", f"malloc is bound to {foreign[0]}"
        library = str(system_shim)
        providers = malloc_providers(command, library, directory)
    strangers = sorted(providers - {os.path.realpath(library)})
    return library, f"malloc is bound to {strangers[0]}" if strangers else ""
