# SPDX-License-Identifier: MIT
"""ruby runs load/strings.rb: strings, symbols, hashes, regular expressions, threads, fork and a
collector that frees in bulk. The output must be what the system's malloc gives, and known sums
right."""
import os

from harness import main, same


def test(session):
  ruby = session.need("ruby")
  script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "load", "strings.rb")
  words = 1200000 if session.heavy else 300000
  ours = session.both([ruby, "--disable-gems", script, str(words)])
  lines = dict(x.split(" ", 1) for x in ours.out.decode().splitlines())
  same("sum", lines["sum"], str(words * (words + 1) // 2))
  same("words", lines["words"], str(words))
  same("threads", lines["threads"], " ".join(["20000"] * 4))
  same("fork", lines["fork"], "true")
  same("end", lines["end"], "ok")


main(test)
