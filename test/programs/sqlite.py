# SPDX-License-Identifier: MIT
"""sqlite3 fills, indexes, joins, sorts and shrinks a table of a million rows.

All answers are known beforehand: row i holds i and (i * 7919) mod 1000003, which are different
for every i since the modulus is prime, and a text made from both. The database lies in a file
with a small page cache, and once more in memory, where every page of it is a block of ours.
"""
from harness import expect, main, same

PRIME = 1000003

SCRIPT = """
PRAGMA cache_size = 2000; PRAGMA temp_store = memory;
CREATE TABLE t(i INTEGER PRIMARY KEY, k INTEGER NOT NULL, s TEXT NOT NULL);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
  INSERT INTO t SELECT i, k, printf('row %d of key %08x', i, k)
  FROM (SELECT i, (i * 7919) % {prime} AS k FROM n);
COMMIT;
CREATE UNIQUE INDEX by_key ON t(k);
CREATE INDEX by_text ON t(s);
SELECT 'count', count(*), sum(i), sum(length(s) > 0) FROM t;
SELECT 'keys', count(DISTINCT k), sum(k) FROM t;
SELECT 'groups', count(*), min(c), max(c), sum(total) FROM
  (SELECT k % 1000 AS g, count(*) AS c, sum(i) AS total FROM t GROUP BY g);
SELECT 'sorted', group_concat(i) FROM (SELECT i FROM t ORDER BY s || k DESC LIMIT 3);
SELECT 'joined', count(*) FROM t AS a JOIN t AS b ON b.k = (a.k + 1) % {prime} WHERE a.i % 10 = 0;
SELECT 'text', length(group_concat(s, '')) FROM (SELECT s FROM t WHERE i <= {part} ORDER BY k);
SELECT 'json', json_array_length(json_group_array(json_object('i', i, 's', s))) FROM t
  WHERE i <= {part};
UPDATE t SET s = s || s WHERE i % 3 = 0;
DELETE FROM t WHERE i % 2 = 0;
SELECT 'left', count(*), sum(i) FROM t;
VACUUM;
PRAGMA integrity_check;
"""


def answers(rows, part):
  """The lines that the script must print."""
  keys = {i: i * 7919 % PRIME for i in range(1, rows + 1)}
  text = {i: f"row {i} of key {k:08x}" for i, k in keys.items()}
  groups = {}
  for k in keys.values():
    groups[k % 1000] = groups.get(k % 1000, 0) + 1
  total, values = rows * (rows + 1) // 2, set(keys.values())
  last = sorted(keys, key=lambda i: text[i] + str(keys[i]), reverse=True)[:3]
  joined = sum((keys[i] + 1) % PRIME in values for i in range(10, rows + 1, 10))
  odd = (rows + 1) // 2
  return [f"count|{rows}|{total}|{rows}", f"keys|{len(values)}|{sum(values)}",
          f"groups|{len(groups)}|{min(groups.values())}|{max(groups.values())}|{total}",
          "sorted|" + ",".join(map(str, last)), f"joined|{joined}",
          f"text|{sum(len(text[i]) for i in range(1, part + 1))}", f"json|{part}",
          f"left|{odd}|{odd * odd}", "ok"]


def test(session):
  sqlite = session.need("sqlite3")
  for name, rows in (("rows.db", 1000000), (":memory:", 1000000 if session.heavy else 200000)):
    script = SCRIPT.format(rows=rows, part=rows // 5, prime=PRIME)
    ours = session.run([sqlite, "-bail", name], feed=script.encode())
    for got, want in zip(ours.out.decode().splitlines(), answers(rows, rows // 5)):
      same(f"{name}, {want.split('|')[0]}", got, want)
    expect(len(ours.out.splitlines()) == 9, f"{name}: {len(ours.out.splitlines())} answers of 9")
    session.say(f"{name}: {rows} rows, 9 answers right in {ours.seconds:.1f} s")


main(test)
