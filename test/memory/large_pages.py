# SPDX-License-Identifier: MIT
"""What the system says of transparent large pages."""


def are_given(when):
    """Whether that is its choice: always, madvise or never. False where it has none."""
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="ascii") as f:
            return f"[{when}]" in f.read()
    except OSError:
        return False
