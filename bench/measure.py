# SPDX-License-Identifier: MIT
"""One measured run of one program under one allocator.

The work of measuring is done by the small static program `launch`, since the peak resident memory
that the kernel reports includes what the parent had at the moment of exec. Here are the pieces
around it: a clean environment, the output kept in a file, the verdict whether the run counts.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

TIMEOUT = 300

# Set for every run, so that hash seeds and locales do not differ between rounds.
FIXED_ENVIRONMENT = {"LC_ALL": "C", "PYTHONHASHSEED": "0", "PYTHONMALLOC": "malloc"}


def clean_environment():
    drop = ("LD_PRELOAD", "LD_LIBRARY_PATH", "MALLOC_", "GLIBC_TUNABLES", "MIMALLOC_", "TCMALLOC_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(drop)}
    kept.update(FIXED_ENVIRONMENT)
    return kept


def run(launcher, command, library, directory, environment=None, timeout=TIMEOUT, stdin=None):
    """Runs `command` with `library` preloaded. Returns the figures as a dictionary, with the key
    `failed` (a sentence) when the run must not be quoted and `output` (its last 64 KiB)."""
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        result_path = Path(scratch) / "result"
        output_path = Path(scratch) / "output"
        with open(output_path, "wb") as output, open(stdin or os.devnull, "rb") as given:
            launched = subprocess.run(
                [str(launcher), str(result_path), str(timeout), library, *map(str, command)],
                stdin=given, stdout=output, stderr=subprocess.STDOUT, cwd=directory,
                env={**clean_environment(), **(environment or {})}, check=False)
        text = output_path.read_bytes()[-65536:].decode(errors="replace")
        if launched.returncode != 0 or not result_path.exists():
            return {"failed": "the launcher failed", "output": text}
        figures = json.loads(result_path.read_text())
    figures["output"] = text
    verdict = why_failed(figures, timeout)
    if not verdict and "cannot be preloaded" in text:
        verdict = "the library could not be preloaded"
    if verdict:
        figures["failed"] = verdict
    return figures


def why_failed(figures, timeout):
    if figures["timed_out"]:
        return f"no end after {timeout} s"
    if figures["signal"]:
        return f"killed by signal {figures['signal']}"
    if figures["exit"] != 0:
        return f"exit code {figures['exit']}"
    return ""
