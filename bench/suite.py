# SPDX-License-Identifier: MIT
"""The programs of the suite: name, command, and which argument is the amount of work.

Every entry runs about one to three seconds with glibc's malloc on a present-day machine. A run
with `--quick` or `--smoke` multiplies the argument at `work` by a factor and leaves the rest
alone, so that the pattern stays the same and only the length changes.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    name: str
    executable: str
    arguments: tuple
    work: int = 1  # position of the amount of work in `arguments`
    group: str = "stress"
    seconds: float = 1.0  # expectation, for the time left before anything was measured

    def command(self, build, scale):
        arguments = list(self.arguments)
        if scale != 1:
            arguments[self.work] = max(1, int(arguments[self.work] * scale))
        return [build / self.executable, *arguments]


def own(name, executable, *arguments, work=1, group="stress"):
    return Program(name, executable, arguments, work, group)


PROGRAMS = [
    own("cfrac-1", "cfrac", 1, 8, 150, group="work"),
    own("cfrac-2", "cfrac", 2, 5, 150, group="work"),
    own("larson-1", "larson", 1, 100),
    own("larson-2", "larson", 2, 100),
    own("xmalloc-test-1", "xmalloc-test", 1, 10000),
    own("xmalloc-test-2", "xmalloc-test", 2, 10000),
    own("random-small-1", "random", 1, 40000000, 16, 1024, 8192),
    own("random-small-2", "random", 2, 20000000, 16, 1024, 8192),
    own("random-large-1", "random", 1, 4000000, 16, 131072, 1024),
    own("random-large-2", "random", 2, 2000000, 16, 131072, 1024),
    own("batch-1", "batch", 1, 1000, 4000, 1024, 0),
    own("batch-2", "batch", 2, 1000, 4000, 1024, 0),
]
