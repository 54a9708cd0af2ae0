# SPDX-License-Identifier: MIT
"""lua runs load/strings.lua: Lua takes every object, string and table straight from realloc. The
output must be what the system's malloc gives, and known sums right."""
from harness import main, same


def test(session):
  lua = session.need("lua5.4")
  words = 2000000 if session.heavy else 500000
  lines = session.load([lua], "strings.lua", words)
  same("sum", lines["sum"], str(words * (words + 1) // 2))
  same("words", lines["words"], str(words))
  same("coroutines", lines["coroutines"], str(2000 * 50))


main(test)
