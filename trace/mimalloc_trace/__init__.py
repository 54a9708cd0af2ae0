# SPDX-License-Identifier: MIT
"""Records what a program asks of malloc, and replays it with other allocators."""


class Refusal(Exception):
    """What cannot be done, and why, in words for the user."""
