# SPDX-License-Identifier: MIT
"""The programs of the suite: name, command, and which argument is the amount of work.

Every entry takes about one to three seconds with glibc's malloc on a present-day machine. A run
with `--quick` or `--smoke` multiplies the argument at `work` by a factor and leaves the rest
alone, so that the pattern stays the same and only the length changes.
"""

from dataclasses import dataclass
from fnmatch import fnmatch

from real import JOBS, TOOLS, Job


@dataclass(frozen=True)
class Program:
    """One of the suite's own programs with its arguments."""

    name: str
    executable: str
    arguments: tuple
    work: int = 1  # position of the amount of work in `arguments`
    group: str = "stress"
    seconds: float = 1.0  # a first guess, for the time left

    def missing(self):
        return set()

    def job(self, build, _directory, scale):
        arguments = list(self.arguments)
        arguments[self.work] = max(1, int(arguments[self.work] * scale))
        return Job([build / self.executable, *arguments], "\n")

    def probe(self, build):
        """A short command that shows whose malloc the program calls."""
        arguments = list(self.arguments)
        arguments[self.work] = 1
        return [build / self.executable, *arguments]

    def describe(self):
        return " ".join(map(str, (self.executable, *self.arguments)))


def own(name, executable, *arguments, work=1, group="stress"):
    return Program(name, executable, arguments, work, group)


WORK = [
    own("cfrac-1", "cfrac", 1, 8, 150, group="work"),
    own("cfrac-2", "cfrac", 2, 5, 150, group="work"),
    own("espresso-1", "espresso", 1, 60, 12, group="work"),
    own("espresso-2", "espresso", 2, 40, 12, group="work"),
    own("barnes", "barnes", 163840, 3, group="work"),
]

STRESS = [
    own("larson-1", "larson", 1, 250),
    own("larson-2", "larson", 2, 150),
    own("larson-sized-1", "larson-sized", 1, 250),
    own("larson-sized-2", "larson-sized", 2, 150),
    own("mstress-1", "mstress", 1, 1500000, 16, 10000),
    own("mstress-2", "mstress", 2, 1000000, 16, 10000),
    own("rptest-1", "rptest", 1, 5000),
    own("rptest-2", "rptest", 2, 3000),
    own("alloc-test-1", "alloc-test", 1, 30000000),
    own("alloc-test-2", "alloc-test", 2, 30000000),
    own("sh6bench-1", "sh6bench", 1, 1000),
    own("sh6bench-2", "sh6bench", 2, 700),
    own("sh8bench-1", "sh8bench", 1, 100000),
    own("sh8bench-2", "sh8bench", 2, 60000),
    own("xmalloc-test-1", "xmalloc-test", 1, 15000),
    own("xmalloc-test-2", "xmalloc-test", 2, 10000),
    own("cache-scratch-1", "cache", 1, 1, 2500, 100000, work=2),
    own("cache-scratch-2", "cache", 1, 2, 2500, 100000, work=2),
    own("cache-thrash-1", "cache", 0, 1, 2500, 100000, work=2),
    own("cache-thrash-2", "cache", 0, 2, 2500, 100000, work=2),
    own("glibc-simple", "glibc-loops", 0, 1, 300, work=2),
    own("glibc-thread-1", "glibc-loops", 1, 1, 30000, work=2),
    own("glibc-thread-2", "glibc-loops", 1, 2, 30000, work=2),
    own("malloc-large-1", "malloc-large", 1, 500),
    own("malloc-large-2", "malloc-large", 2, 250),
    own("thread-churn-1", "thread-churn", 1, 10000),
    own("thread-churn-2", "thread-churn", 2, 10000),
    own("realloc-grow-1", "realloc-grow", 1, 80000),
    own("realloc-grow-2", "realloc-grow", 2, 50000),
    own("lifetimes-1", "lifetimes", 1, 24, 150, work=2),
    own("lifetimes-2", "lifetimes", 2, 24, 70, work=2),
    own("random-small-1", "random", 1, 40000000, 16, 1024, 8192),
    own("random-small-2", "random", 2, 20000000, 16, 1024, 8192),
    own("random-steady-1", "random", 1, 10000000, 16, 80, 300000),
    own("random-steady-2", "random", 2, 8000000, 16, 515, 60000),
    own("random-large-1", "random", 1, 6000000, 16, 131072, 1024),
    own("random-large-2", "random", 2, 3000000, 16, 131072, 1024),
    own("batch-1", "batch", 1, 2500, 4000, 1024, 0),
    own("batch-2", "batch", 2, 2000, 4000, 1024, 0),
    own("batch-lifo-1", "batch", 1, 6000, 4000, 128, 1),
    own("batch-shuffled-1", "batch", 1, 3000, 4000, 256, 2),
    own("latency-1", "latency", 1, 5000000),
    own("latency-2", "latency", 2, 4000000),
]

# As many threads as the machine has processors, where that is more than the two above.
SCALABLE = [
    own(f"larson-{JOBS}", "larson", JOBS, 60),
    own(f"mstress-{JOBS}", "mstress", JOBS, 500000, 16, 10000),
    own(f"rptest-{JOBS}", "rptest", JOBS, 1500),
    own(f"alloc-test-{JOBS}", "alloc-test", JOBS, 30000000),
    own(f"sh8bench-{JOBS}", "sh8bench", JOBS, 30000),
    own(f"xmalloc-test-{JOBS}", "xmalloc-test", JOBS, 3000),
    own(f"cache-scratch-{JOBS}", "cache", 1, JOBS, 2500, 100000, work=2),
    own(f"cache-thrash-{JOBS}", "cache", 0, JOBS, 2500, 100000, work=2),
] if JOBS > 2 else []

PROGRAMS = WORK + TOOLS + STRESS + SCALABLE

# Loads drawn by a number, which run where they are named: others than those by which something was
# found out about the library.
DRAWN = [own(f"drawn-{seed}", "drawn", seed, 100, group="drawn")
         for seed in range(201, 241)]


def matching(patterns):
    """The programs of these names, patterns or groups, in the suite's order."""
    def matches(program, pattern):
        return program.group == pattern or fnmatch(program.name, pattern)

    if not patterns:
        return PROGRAMS
    known = PROGRAMS + DRAWN
    for pattern in patterns:
        if not any(matches(p, pattern) for p in known):
            raise SystemExit(f"bench: no program is called {pattern}; --list shows them")
    return [p for p in known if any(matches(p, pattern) for pattern in patterns)]
