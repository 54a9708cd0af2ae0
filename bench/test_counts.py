# SPDX-License-Identifier: MIT
"""Tests of what counts and compares: shared.py, baseline.py and the counted library.

The counted library is worth what it sees, so small programs whose read-modify-writes and moves are
known run on it: MIMALLOC_COUNTED names it (`ctest -R baseline-control` sets it).
"""

import os
import subprocess
import tempfile
import unittest
import unittest.mock
from collections import Counter
from pathlib import Path

import baseline
import latency
import shared
import suite

COUNTED = os.environ.get("MIMALLOC_COUNTED", "")

# Ends as trace replayers do, without destructors.
SHORT_END = """
#include <stdlib.h>
#include <unistd.h>
int main(void) {
  for (int i = 0; i < 1000; i++) free(malloc(48));
  _exit(0);
}
"""

# Blocks that one thread allocates and another frees, and as many frees by the thread itself.
HANDED = """
#include <pthread.h>
#include <stdlib.h>
static void* blocks[BLOCKS];
static void* free_all(void* unused) {
  for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
  return unused;
}
int main(void) {
  for (int i = 0; i < BLOCKS; i++) blocks[i] = malloc(48);
  pthread_t thread;
  if (REMOTE && pthread_create(&thread, NULL, free_all, NULL) != 0) return 1;
  if (REMOTE) pthread_join(thread, NULL);
  else free_all(NULL);
  return 0;
}
"""


def account(calls, *variables):
    made = shared.Account()
    made.calls = Counter(calls)
    for name, operation, sums in variables:
        made.variables[name, operation] = Counter(sums)
    return made


class Names(unittest.TestCase):
    def test_as_the_verb_has_it(self):
        frames = [("mx_remote_push", "page/remote.h", 30), ("mx_free", "alloc/free.c", 9)]
        self.assertEqual(shared.variable_of("&page->remote", frames), "page->remote")

    def test_as_it_is_handed_on(self):
        lines = shared.source("arena/presence.c")
        number = next(i for i, line in enumerate(lines, 1) if "mx_bits_set(arena->present" in line)
        frames = [("mx_bits_set", "mem/bitmap.c", 70), ("mx_arena_touch", "arena/presence.c", number)]
        self.assertEqual(shared.variable_of("&a[p.word]", frames), "arena->present")

    def test_operations(self):
        for name, operation in (("mi_malloc", "allocate"), ("_Znwm", "allocate"), ("free", "free"),
                                ("_ZdlPvm", "free"), ("thread_ended", "other")):
            self.assertEqual(shared.operation_of(name), operation)


class Accounts(unittest.TestCase):
    def test_difference_and_bound(self):
        long = account({"allocate": 3000, "free": 3000}, ("in_use", "allocate", {"rmws": 25}),
                       ("page->remote", "free", {"rmws": 3000}), ("keep", "free", {"stores": 2}))
        short = account({"allocate": 1000, "free": 1000}, ("in_use", "allocate", {"rmws": 5}))
        steady = long.less(short)
        self.assertEqual(steady.calls["free"], 2000)
        self.assertEqual(steady.process_wide(1.0), [(5.0, "in_use")])
        self.assertEqual(steady.per_thousand("allocate", "rmws"), 10.0)

    def test_cut_short(self):
        with self.assertRaises(SystemExit):
            shared.read_rows("10 0 10 1 0 0 0 0 0 \n")
        with self.assertRaises(SystemExit):
            shared.read_rows("end 3\n")

    def test_problems(self):
        handed = account({"free": 1000},
                         ("page->remote", "free", {"rmws": 2000, "record_moves": 1060}))
        self.assertEqual(len(shared.problems_of(shared.HANDED[0], handed, 1.0)), 2)
        quiet = account({"free": 1000},
                        ("page->remote", "free", {"rmws": 1000, "record_moves": 1010}))
        self.assertEqual(shared.problems_of(shared.HANDED[0], quiet, 1.0), [])
        loud = account({"free": 1000}, ("in_use", "free", {"rmws": 2}))
        self.assertEqual(len(shared.problems_of(shared.STEADY[0], loud, 1.0)), 1)


@unittest.skipUnless(COUNTED, "no counted library is named")
class Counted(unittest.TestCase):
    def count(self, **values):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "handed"
            subprocess.run(["cc", "-O1", "-fno-builtin", "-pthread", "-o", program, "-x", "c", "-",
                            *(f"-D{k}={v}" for k, v in values.items())], input=HANDED, text=True,
                           check=True)
            rows = shared.run_once(COUNTED, suite.Job([program]), folder)
        return shared.account_of(rows, COUNTED)

    def test_remote_frees(self):
        few, many = (self.count(BLOCKS=n, REMOTE=1) for n in (1000, 3000))
        steady = many.less(few)
        self.assertEqual(steady.calls["free"], 2000)
        self.assertEqual(steady.variables["page->remote", "free"]["rmws"], 2000)
        # A thread that takes a page over has it: nothing moves back and forth.
        self.assertLess(steady.per_thousand("free", "record_moves"), 10)

    def test_own_frees(self):
        few, many = (self.count(BLOCKS=n, REMOTE=0) for n in (1000, 3000))
        steady = many.less(few)
        self.assertEqual(steady.calls["free"], 2000)
        self.assertEqual(steady.variables["page->remote", "free"]["rmws"], 0)
        self.assertEqual(many.per_thousand("free", "record_moves"), 0)
        self.assertEqual(many.per_thousand("allocate", "block_moves"), 0)


@unittest.skipUnless(COUNTED, "no counted library is named")
class EndWithoutDestructors(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        subprocess.run(["cc", "-O1", "-fno-builtin", "-o", self.folder / "program", "-x", "c", "-"],
                       input=SHORT_END, text=True, check=True)
        (self.folder / baseline.CLOCK).symlink_to(Path(COUNTED).with_name("libmimalloc-steps.so"))

    def test_counted_all_the_same(self):
        (self.folder / baseline.COUNTED).symlink_to(COUNTED)
        self.assertGreater(baseline.count_rmws(["./program"], self.folder), 0)

    def test_no_account(self):
        (self.folder / baseline.COUNTED).symlink_to(self.folder / baseline.CLOCK)
        with self.assertRaisesRegex(RuntimeError, "no account"):
            baseline.count_rmws(["./program"], self.folder)


class Latency(unittest.TestCase):
    RUNS = [{"allocator": name, "threads": 1,
             "figures": {**{f"{call}-{point}": value for call in ("malloc", "free")
                            for point in latency.POINTS}, "malloc-alone": 2, "free-alone": 1}}
            for name, value in (("mimalloc", 3000.0), ("mimalloc", 1500.0), ("other", 1000.0))]

    def test_least_of_rounds(self):
        row = latency.rows_of(self.RUNS, ["mimalloc", "other"])[0]
        self.assertEqual(row, (1, "malloc", "p99.9", {"mimalloc": 1500.0, "other": 1000.0}))
        self.assertEqual(latency.beyond(row), 1.5)

    def test_table(self):
        lines = latency.table(self.RUNS, ["mimalloc", "other"]).splitlines()
        self.assertEqual(lines[2], "| 1, malloc, 99.9 % | 1.50 | 1.00 | 1.50 |")
        self.assertEqual(lines[-1], "| 1, alone beyond 50 µs, calls | 6 | 3 | |")


class Baseline(unittest.TestCase):
    THEN = {"a": {"instructions": 1000, "rmws": 10, "calls": 20, "faults": 100, "peak": 1000}}

    def compare(self, left_out=(), **now):
        return baseline.compare(self.THEN, {"a": {**self.THEN["a"], **now}}, left_out)

    def test_more_and_less(self):
        self.assertEqual(self.compare(), ([], 5))
        self.assertEqual(self.compare(instructions=1010)[0], [])
        self.assertEqual(self.compare(instructions=1011)[0],
                         ["a: instructions 1,000 -> 1,011 +1.1 %"])
        self.assertEqual(len(self.compare(instructions=989)[0]), 1)
        self.assertEqual(self.compare(rmws=14, calls=16)[0], [])
        self.assertEqual(len(self.compare(rmws=15, calls=15)[0]), 2)

    def test_slack(self):
        self.assertEqual(self.compare(faults=108, peak=1010)[0], [])
        self.assertEqual(len(self.compare(faults=109, peak=1011)[0]), 2)

    def test_slack_of_the_least(self):
        """In no committed program more than a tenth of a figure is without meaning."""
        told = baseline.json.loads(baseline.BASELINE.read_text(encoding="utf-8"))["programs"]
        for name, row in told.items():
            for metric, slack in baseline.SLACK.items():
                self.assertLessEqual(slack, row[metric] / 10, f"{name}: {metric}")

    def test_slack_as_documented(self):
        text = (baseline.ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
        slack = baseline.SLACK
        self.assertIn(f"{slack['faults']} page faults, {slack['peak']} KiB of peak memory, "
                      f"{slack['rmws']} read-modify-writes or {slack['calls']} system calls",
                      " ".join(text.split()))

    def test_what_cannot_be_compared(self):
        other = {"instructions": "another compiler"}
        lines, compared = self.compare(left_out=other, instructions=5)
        self.assertEqual((lines, compared), ([], 4))
        lines, compared = baseline.compare(self.THEN, {"b": self.THEN["a"]}, {})
        self.assertEqual((lines, compared), (["b: not in the baseline"], 0))

    def test_strangers(self):
        here = {metric: {"libc": "glibc 2.36"} for metric in baseline.METRICS}
        self.assertEqual(baseline.strangers(here, here), {})
        there = {**here, "instructions": {"libc": "glibc 2.41"}}
        self.assertEqual(baseline.strangers(there, here),
                         {"instructions": "libc glibc 2.36 and not glibc 2.41"})

    def test_written_and_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "baseline.json"
            baseline.write(path, self.THEN, {"rmws": {"libc": "x"}})
            told = baseline.json.loads(path.read_text())
        self.assertEqual(told, {"conditions": {"rmws": {"libc": "x"}}, "programs": self.THEN})

    def test_committed_one_has_all(self):
        told = baseline.json.loads(baseline.BASELINE.read_text(encoding="utf-8"))
        names = {*baseline.PROGRAMS, *(f"trace-{name}" for name in baseline.TRACES)}
        self.assertEqual(set(told["programs"]), names)
        for row in told["programs"].values():
            self.assertEqual(set(row), set(baseline.METRICS))
            self.assertGreater(min(row.values()), 0, "nothing was counted")

    def test_waiting_does_not_count(self):
        with tempfile.TemporaryDirectory() as folder:
            log = ('1  futex(0x1, FUTEX_WAIT) = 0\n1  mmap(NULL, 4) = 0\n'
                   '2  madvise(0x1 <unfinished ...>\n2  <... madvise resumed>) = 0\n'
                   '1  +++ exited\n')
            (Path(folder) / "calls").write_text(log)
            with unittest.mock.patch("baseline.run"):
                self.assertEqual(baseline.count_calls([], folder), 2)


if __name__ == "__main__":
    unittest.main()
