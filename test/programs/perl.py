# SPDX-License-Identifier: MIT
"""perl runs load/strings.pl: strings, hashes, regular expressions, threads that clone the whole
interpreter, and forks. The output must be what the system's malloc gives, and known sums right."""
from harness import main, same


def test(session):
  perl = session.need("perl")
  words = 400000 if session.heavy else 200000
  lines = session.load([perl], "strings.pl", words, env={"PERL_HASH_SEED": "0"})
  same("sum", lines["sum"], str(words * (words + 1) // 2))
  same("words", lines["words"], str(words))
  same("threads", lines["threads"], " ".join(["20000"] * 4))
  same("forks", lines["forks"], "0 0 0")


main(test)
