# SPDX-License-Identifier: MIT
"""ruby runs load/strings.rb: strings, symbols, hashes, regular expressions, threads, fork and a
collector that frees in bulk. The output must be what the system's malloc gives, and known sums
right."""
from harness import main, same


def test(session):
  ruby = session.need("ruby")
  words = 1200000 if session.heavy else 300000
  lines = session.load([ruby, "--disable-gems"], "strings.rb", words)
  same("sum", lines["sum"], str(words * (words + 1) // 2))
  same("words", lines["words"], str(words))
  same("threads", lines["threads"], " ".join(["20000"] * 4))
  same("fork", lines["fork"], "true")


main(test)
