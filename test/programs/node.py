# SPDX-License-Identifier: MIT
"""node runs load/churn.js: buffers handed between worker threads, compression on its thread pool,
hashes, maps of strings. The output must be what the system's malloc gives, and known sums right."""
from harness import main, same


def test(session):
  node = session.need("node")
  rounds = 40 if session.heavy else 8
  lines = session.load([node], "churn.js", rounds)
  same("sum of the buffers", lines["buffers"], str(sum(range(rounds * 4000))))
  same("workers", lines["workers"], f"4 {4 * rounds * 500}")
  same("round trips through zlib", lines["zlib"].split()[0], str(rounds * 8))


main(test)
