# SPDX-License-Identifier: MIT
"""The commands of mimalloc-inspect in gdb: `source mimalloc-gdb.py`, then `mimalloc report`."""

import os
import sys

import gdb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from mimalloc_inspect import Refusal  # noqa: E402
from mimalloc_inspect.cli import COMMANDS, answer, open_heap  # noqa: E402
from mimalloc_inspect.memory import Gdb  # noqa: E402


class Command(gdb.Command):
    """mimalloc report | histogram | address EXPRESSION | leaks | draw FILE"""

    def __init__(self):
        super().__init__("mimalloc", gdb.COMMAND_DATA)

    def complete(self, text, word):
        return [name for name in COMMANDS if name.startswith(word)]

    def invoke(self, text, from_tty):
        name, _, rest = text.partition(" ")
        name, arguments = name or "report", rest.split()
        if name not in COMMANDS:
            raise gdb.GdbError("mimalloc " + " | ".join(COMMANDS))
        try:
            if name == "address" and rest:
                arguments = [hex(int(gdb.parse_and_eval(rest).cast(gdb.lookup_type("unsigned long")))
                                 & (1 << 64) - 1)]
            for line in answer(open_heap(Gdb(gdb)), name, arguments):
                gdb.write(line + "\n")
        except Refusal as refusal:
            raise gdb.GdbError(str(refusal)) from None


Command()
