# SPDX-License-Identifier: MIT
"""perl runs load/strings.pl: strings, hashes, regular expressions, threads that clone the whole
interpreter, and forks. The output must be what the system's malloc gives, and known sums right."""
import os

from harness import main, same


def test(session):
  perl = session.need("perl")
  script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "load", "strings.pl")
  words = 400000 if session.heavy else 200000
  ours = session.both([perl, script, str(words)], env={"PERL_HASH_SEED": "0"})
  lines = dict(x.split(" ", 1) for x in ours.out.decode().splitlines())
  same("sum", lines["sum"], str(words * (words + 1) // 2))
  same("words", lines["words"], str(words))
  same("threads", lines["threads"], " ".join(["20000"] * 4))
  same("forks", lines["forks"], "0 0 0")
  same("end", lines["end"], "ok")


main(test)
