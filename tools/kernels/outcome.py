# SPDX-License-Identifier: MIT
"""Owns what came of a row of tools/kernels.py: the tests' results, and whether that will do."""


class Outcome:
    """{test: status}, where 0 is passed and 77 says that it did not apply."""

    def __init__(self):
        self.kernel, self.notes, self.seconds = "-", [], 0.0
        self.results, self.wanted = {}, 0
        self.has_begun = self.is_late = False  # the first process ran; the time was over

    def named(self, *states):
        return [name for name, status in self.results.items() if status in states]

    def failed(self):
        return [name for name, status in self.results.items() if status not in ("0", "77")]

    def verdict(self, always=None):
        """What the row comes to: "passed", "failed", or "too slow" where only some tests, `always`,
        have to have run, and the guest came up but had no time for all of these. What never came
        up, or stopped before its time, is a failure."""
        if self.failed() or not self.has_begun:
            return "failed"
        missing = [name for name in always or [] if name not in self.results]
        if always is None:
            return "passed" if 0 < self.wanted == len(self.results) else "failed"
        if missing:
            return "too slow" if self.is_late else "failed"
        return "passed"

    def columns(self, name):
        left = self.wanted - len(self.results)
        notes = [f"{n} ({self.results[n]})" for n in self.failed()]
        if self.named("77"):
            notes.append("skipped: " + " ".join(self.named("77")))
        if left:
            notes.append(f"{left} out of time")
        if not self.has_begun:
            notes.append("never came up")
        return [name, self.kernel, str(len(self.named("0"))), str(len(self.failed())),
                str(len(self.named("77")) + left), f"{self.seconds:.0f}",
                "; ".join([*notes, *self.notes])]
