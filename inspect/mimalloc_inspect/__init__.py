# SPDX-License-Identifier: MIT
"""Looks at the heap of a process, a core dump or a program in gdb from outside."""


class Refusal(Exception):
    """What cannot be looked at, and why, in words for the user."""
