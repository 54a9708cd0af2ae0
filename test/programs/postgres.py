# SPDX-License-Identifier: MIT
"""PostgreSQL makes a cluster (initdb), serves pgbench from forked backends, and checks itself.

pgbench adds the same amount to an account, its teller and its branch in each transaction, so
afterwards the three sums and the sum of the history must agree, and the history must have
exactly clients times transactions rows. Parallel queries, sorts that spill, an index check and
a dump follow. The server refuses to run as root: then the test runs as another user.
"""
import glob
import os
import signal

from harness import MapsWatch, Skipped, expect, main, same, wait_for

CONFIG = """
listen_addresses = ''
unix_socket_directories = '.'
fsync = off
shared_buffers = 64MB
work_mem = 1MB
max_parallel_workers_per_gather = 2
min_parallel_table_scan_size = 0
parallel_setup_cost = 0
log_min_messages = warning
"""

CHECK = """
SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(tbalance) FROM pgbench_tellers),
  (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(bbalance) FROM pgbench_branches),
  (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history),
  (SELECT count(*) FROM pgbench_history), (SELECT count(*) FROM pgbench_accounts);
"""

INDEXES = """
CREATE EXTENSION amcheck;
SELECT count(bt_index_check(c.oid, true)) > 50 FROM pg_class c JOIN pg_am a ON a.oid = c.relam
  WHERE a.amname = 'btree' AND c.relkind = 'i' AND c.relpersistence = 'p';
"""

QUERIES = """
CREATE TABLE big AS SELECT i, (i::bigint * 7919) % 1000003 AS k, md5(i::text) AS s
  FROM generate_series(1, {rows}) AS i;
ANALYZE big;
SELECT count(*), sum(i), count(DISTINCT k) FROM big;
SELECT count(*) FROM big AS a JOIN big AS b ON a.k = b.k;
SELECT min(s), max(s) FROM (SELECT s FROM big ORDER BY s DESC OFFSET 10) AS sorted;
SELECT sum(n) FROM (SELECT left(s, 2) AS p, count(*) AS n, string_agg(s, ',') FROM big GROUP BY p)
  AS grouped;
SELECT length(json_agg(row_to_json(big))::text) > {rows} * 5 FROM big WHERE i % 10 = 0;
DO $$ DECLARE t text := ''; BEGIN
  FOR n IN 1..20000 LOOP t := t || md5(n::text); END LOOP;
  IF length(t) <> 640000 THEN RAISE 'lost text'; END IF;
END $$;
"""


def programs(session):
  """The newest installed server's programs."""
  folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"),
                   key=lambda p: float(p.split("/")[4]))
  if not folders:
    raise Skipped("PostgreSQL not found (test/programs/install.sh installs it)")
  return [session.need(os.path.join(folders[-1], p))
          for p in ("initdb", "postgres", "pgbench", "psql", "pg_dump")]


def queries(session, ask, rows):
  """Heavy queries with answers known beforehand."""
  out = [x for x in ask(QUERIES.format(rows=rows)).splitlines() if x != "DO"]
  same("sums", out[0], f"{rows}|{rows * (rows + 1) // 2}|{rows}")
  same("join", out[1], str(rows))
  expect(len(out[2]) == 65, f"sort: {out[2]}")
  same("groups", out[3:5], [str(rows), "t"])


def test(session):
  initdb, postgres, pgbench, psql, dump = programs(session)
  data, env = session.path("data"), {"PGHOST": session.path("data"), "PGUSER": "test",
                                     "PGDATABASE": "postgres", "PGPORT": "5432"}
  made = session.run([initdb, "-D", data, "-U", "test", "-A", "trust", "-E", "UTF8", "-N"])
  expect(b"Success." in made.out, "initdb did not say that it succeeded")
  session.say(f"initdb done in {made.seconds:.1f} s")
  with open(os.path.join(data, "postgresql.conf"), "a", encoding="ascii") as f:
    f.write(CONFIG)
  server = session.daemon([postgres, "-D", data], cwd=data)

  def ask(text):
    done = session.run([psql, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"], preload=False,
                       feed=text.encode(), env=env)
    return done.out.decode().strip()

  wait_for("the server answers", lambda: session.run(
    [psql, "-X", "-c", "SELECT 1"], preload=False, env=env, status=None).status == 0)
  scale, clients, each = (20, 8, 10000) if session.heavy else (2, 4, 2500)
  session.run([pgbench, "-i", "-q", "-s", str(scale)], env=env)
  watch = MapsWatch(session, server.pid)
  watch.start()
  ran = session.run([pgbench, "-n", "-c", str(clients), "-j", "2", "-t", str(each),
                     "--random-seed=1"], env=env)
  watch.stop()
  # The server, its standing helpers and one backend a client, all forked, none executed anew.
  expect(len(watch.seen) > clients + 4, f"only {len(watch.seen)} server processes on the library")
  want = f"{clients * each}/{clients * each}".encode()
  expect(want in ran.out, f"pgbench did not process {want}:\n{ran.out.decode()}")
  same("balances and rows", ask(CHECK), f"t|t|t|{clients * each}|{scale * 100000}")
  session.say(f"{clients * each} transactions in {ran.seconds:.1f} s, all balances agree; "
              f"{len(watch.seen)} server processes seen to map the library")
  queries(session, ask, 1000000 if session.heavy else 150000)
  same("index check", ask(INDEXES), "t")
  dumped = session.run([dump, "--inserts", "-t", "pgbench_history"], env=env)
  same("rows dumped", dumped.out.count(b"\nINSERT INTO"), clients * each)
  session.stop(server, signal.SIGINT)


main(test, unprivileged=True)
