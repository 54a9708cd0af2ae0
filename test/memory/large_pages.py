# SPDX-License-Identifier: MIT
"""What the system says of transparent large pages."""

import ctypes
import pathlib

FOLDER = pathlib.Path("/sys/kernel/mm/transparent_hugepage")
PR_SET_THP_DISABLE = 41
PR_GET_THP_DISABLE = 42


def refuse_folios():
    """Where it gives pages of less than 2 MiB to everybody (Linux 6.8), has it give none to this
    process and its children: what is resident is no longer counted in OS pages then."""
    choices = [f.read_text(encoding="ascii") for f in FOLDER.glob("hugepages-*/enabled")]
    if any("[always]" in choice for choice in choices):
        ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def are_given(when):
    """Whether that is its choice: always, madvise or never. False where it has none, or gives this
    process none."""
    if ctypes.CDLL(None).prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1:
        return False
    try:
        return f"[{when}]" in (FOLDER / "enabled").read_text(encoding="ascii")
    except OSError:
        return False
