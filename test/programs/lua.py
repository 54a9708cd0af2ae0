# SPDX-License-Identifier: MIT
"""lua runs load/strings.lua: Lua takes every object, string and table straight from realloc. The
output must be what the system's malloc gives, and known sums right."""
import os

from harness import main, same


def test(session):
  lua = session.need("lua5.4")
  script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "load", "strings.lua")
  words = 2000000 if session.heavy else 500000
  ours = session.both([lua, script, str(words)])
  lines = dict(x.split(" ", 1) for x in ours.out.decode().splitlines())
  same("sum", lines["sum"], str(words * (words + 1) // 2))
  same("words", lines["words"], str(words))
  same("coroutines", lines["coroutines"], str(2000 * 50))
  same("end", lines["end"], "ok")


main(test)
