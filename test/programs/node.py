# SPDX-License-Identifier: MIT
"""node runs load/churn.js: buffers handed between worker threads, compression on its thread pool,
hashes, maps of strings. The output must be what the system's malloc gives, and known sums right."""
import os

from harness import main, same


def test(session):
  node = session.need("node")
  script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "load", "churn.js")
  rounds = 40 if session.heavy else 8
  ours = session.both([node, script, str(rounds)])
  lines = dict(x.split(" ", 1) for x in ours.out.decode().splitlines())
  same("sum of the buffers", lines["buffers"], str(sum(range(rounds * 4000))))
  same("workers", lines["workers"], f"4 {4 * rounds * 500}")
  same("round trips through zlib", lines["zlib"].split()[0], str(rounds * 8))
  same("end", lines["end"], "ok")


main(test)
