#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Negative controls of the fuzz targets: a library with a deliberate mistake, one for each of some kinds,
has to fail inputs by chance that the library as it is passes.

  test_controls.py [TARGET...]

A mistake is a change of one place of the source. The library is compiled anew with it as one file, with
the target and the program that replays inputs; `surface` loads it beside the C library. `options` begins
from the kept inputs, which all pass: it is a changed one that has to find the mistake.
Exit status 0: each was found, and the unchanged library passes; 1: not.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CC = os.environ.get("CC", "cc").split()
FLAGS = ["-std=gnu11", "-O1", "-w", "-D_GNU_SOURCE", "-DNDEBUG", "-DMI_BUILD_RELEASE", "-fPIC",
         "-fno-builtin-malloc", "-ftls-model=initial-exec"]
INPUTS, SEED = 60, 3
INPUTS_OF = {"options": 30000}

# What is wrong, where, the text there and what stands in its place.
CONTROLS = {
    "threads": [
        ("a free by another thread counts for two", "page/remote.h",
         "count * MX_REMOTE_COUNT_ONE", "2 * count * MX_REMOTE_COUNT_ONE"),
        ("a collection releases pages in use", "heap/theap.c",
         "if (page->used == 0) {\n    mx_page_release(page);", "if (true) {\n    mx_page_release(page);"),
        ("the child of a fork has its parent's locks", "os/lock.c", "return mx_fork_let_go(lock);",
         "return (lock->fork_level = 0) == 0;"),
    ],
    "options": [
        ("a value of an option ends the process", "service/option_names.c",
         "const bool negative = (*text == '-');", "if (text[0] == '7' && text[1] == '3') __builtin_abort();\n  const bool negative = (*text == '-');"),
        ("a value that is twice too long ends the process", "service/option_names.c",
         "    if (++length > VALUE_MAX) return false;", "    if (++length > 2 * VALUE_MAX) __builtin_abort();"),
    ],
    "surface": [
        ("an alignment of three is none", "api/api_posix.c",
         " || alignment % sizeof(void*) != 0 || !mx_is_pow2(alignment)) return EINVAL;", ") return EINVAL;"),
        ("posix_memalign changes errno", "api/api_posix.c", "  errno = saved;\n", ""),
        ("calloc of too much answers a small block", "alloc/slow.c",
         "if (mx_mul_overflow(count, size, &total)) total = SIZE_MAX;", "(void)mx_mul_overflow(count, size, &total);"),
        ("realloc keeps a byte less", "alloc/realloc.c", "mx_vmem_copy(fresh, p, keep);", "memcpy(fresh, p, keep - (keep > 0));"),
    ],
}


def changed(folder, control):
    """Sources with the mistake, which must apply exactly once."""
    sources = folder / "src"
    shutil.rmtree(sources, ignore_errors=True)
    shutil.copytree(ROOT / "src", sources)
    if control is not None:
        what, name, text, other = control
        file = sources / name
        before = file.read_text()
        if before.count(text) != 1:
            raise SystemExit(f"{what}: its text occurs {before.count(text)} times in {name}")
        file.write_text(before.replace(text, other))
    return sources


def compiled(folder, target, control):
    """The command that runs the target on this library, and its environment."""
    sources, program = changed(folder, control), folder / target
    include = folder / "include"
    if not include.exists():
        include.symlink_to(ROOT / "include")
    common = [*CC, *FLAGS, "-I", include, "-I", sources]
    own = [HERE / f"{target}.c", HERE / "replay.c"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MIMALLOC_")}
    if target == "surface":
        library = folder / "library.so"
        subprocess.run([*common, "-fvisibility=hidden", "-DMI_SHARED_LIB", "-DMI_SHARED_LIB_EXPORT",
                        "-DMI_MALLOC_OVERRIDE=1", "-shared", "-o", library, sources / "static.c", "-lpthread"], check=True)
        subprocess.run([*common, "-fno-builtin", "-o", program, *own, "-ldl"], check=True)
        environment["FUZZ_LIBRARY"] = str(library)
    else:
        if target == "options":  # it brings one of the sources itself, and looks for it beside its own folder
            library = sources / "static.c"
            library.write_text(library.read_text().replace('#include "service/option_names.c"\n', ""))
            own[0] = folder / "test/fuzz/options.c"
            own[0].parent.mkdir(parents=True, exist_ok=True)
            for name in ("options.c", "fuzz.h"):
                shutil.copy(HERE / name, own[0].parent)
        subprocess.run([*common, "-DMI_STATIC_LIB", "-o", program, *own, sources / "static.c", "-lpthread"], check=True)
    kept = ["--words", HERE / "words/options.dict", HERE / "corpus/options"] if target == "options" else []
    return [program, *kept, "--random", str(INPUTS_OF.get(target, INPUTS)), str(SEED)], environment


def missing_words():
    """Options that the words of `options` do not have."""
    words = (HERE / "words/options.dict").read_text()
    names = re.findall(r"^  X\(\w+, (\w+), ", (ROOT / "src/base/options.h").read_text(), re.M)
    return [name for name in names if f'"MIMALLOC_{name}="\n' not in words] if names else ["all"]


def outcome(folder, target, control):
    """What ended it; None: nothing did."""
    command, environment = compiled(folder, target, control)
    try:
        done = subprocess.run(command, env=environment, cwd=folder, timeout=60 if control else 300, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    except subprocess.TimeoutExpired:
        return "it never ended"
    if done.returncode == 0:
        return None
    if target == "options" and not (folder / "fuzz-found").exists():
        raise SystemExit("a kept input finds it, which says nothing of changed ones")
    said = [line for line in done.stderr.splitlines() if re.search(r"\S", line) and not re.search("fuzz-found|/corpus/", line)]
    return f"status {done.returncode}: {said[-1][:100] if said else 'it stopped'}"


def main():
    bad = 0
    for target in sys.argv[1:] or CONTROLS:
        for control in [None, *CONTROLS[target]]:
            with tempfile.TemporaryDirectory() as name:
                ended = outcome(pathlib.Path(name), target, control)
            what = control[0] if control else "the library as it is"
            good = (ended is None) == (control is None)
            bad += not good
            print(f"{'ok' if good else 'FAIL':4} {target}: {what}: {ended or 'all inputs pass'}", flush=True)
    for name in missing_words():
        print(f"FAIL words/options.dict: no {name}")
        bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
