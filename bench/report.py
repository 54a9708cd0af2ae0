# SPDX-License-Identifier: MIT
"""From raw runs to the table: medians, spreads, ratios, geometric means, ratio to the best.

`runs` is a list of dictionaries with `program`, `allocator` and the figures of one run. A pair of
program and allocator with a single failed run is not quoted at all: a figure beside a crash would
be read as a result. An allocator is compared with the best one of each program:
the geometric mean over the programs, and the worst.
"""

from statistics import geometric_mean, median

import instructions
from allocators import OURS

METRICS = {
    "wall": ("wall time, s", lambda r: r["wall"]),
    "cpu": ("processor time (user + system), s", lambda r: r["user"] + r["sys"]),
    "rss": ("peak resident memory, MiB", lambda r: r["rss_kib"] / 1024),
    "faults": ("page faults", lambda r: r["minor_faults"] + r["major_faults"]),
    "switches": ("context switches",
                 lambda r: r["voluntary_switches"] + r["involuntary_switches"]),
}


def in_order(values):
    return list(dict.fromkeys(values))


class Table:
    """Medians of one metric: `cells[program][allocator]` is (median, spread) or None."""

    def __init__(self, runs, metric):
        self.metric = metric
        self.title, value = METRICS[metric]
        self.programs = in_order(r["program"] for r in runs)
        self.allocators = in_order(r["allocator"] for r in runs)
        self.cells = {p: {a: None for a in self.allocators} for p in self.programs}
        for program in self.programs:
            for allocator in self.allocators:
                own = [r for r in runs if (r["program"], r["allocator"]) == (program, allocator)]
                if own and not any("failed" in r for r in own):
                    values = [value(r) for r in own]
                    middle = median(values)
                    spread = (max(values) - min(values)) / middle if middle else 0.0
                    self.cells[program][allocator] = (middle, spread)

    def ratio(self, program, allocator, to=None):
        """To the best allocator of the program, or to the one named `to`."""
        cells = self.cells[program]
        if cells[allocator] is None:
            return None
        if to is not None:
            base = cells[to][0] if cells.get(to) else None
        else:
            base = min(c[0] for c in cells.values() if c)
        return cells[allocator][0] / base if base else None

    def ratios(self, allocator, to=None):
        """The ratios over the programs that the allocator finished (the table shows how many)."""
        return [r for r in (self.ratio(p, allocator, to) for p in self.programs) if r]

    def summary(self):
        """Per allocator: geometric mean to ours, geometric mean to the best, worst to the best."""
        result = {}
        for allocator in self.allocators:
            best = self.ratios(allocator)
            ours = self.ratios(allocator, OURS) if OURS in self.allocators else []
            result[allocator] = {
                "to_ours": geometric_mean(ours) if ours else None,
                "to_best_mean": geometric_mean(best) if best else None,
                "to_best_worst": max(best) if best else None,
                "programs": len(best),
            }
        return result


def number(value):
    return f"{value:.3f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def format_table(table):
    width = max([len(p) for p in table.programs] + [20])
    column = max([len(a) for a in table.allocators] + [24])
    lines = [f"{table.title}: median (spread) ratio to the best / to {OURS}",
             " " * width + "".join(f"{a:>{column}}" for a in table.allocators)]
    for program in table.programs:
        cells = []
        for allocator in table.allocators:
            cell = table.cells[program][allocator]
            if cell is None:
                cells.append("failed")
                continue
            to_ours = table.ratio(program, allocator, OURS)
            text = f"{number(cell[0])} ({cell[1] * 100:.0f}%) {table.ratio(program, allocator):.2f}"
            cells.append(text + (f"/{to_ours:.2f}" if to_ours else "/-"))
        lines.append(f"{program:<{width}}" + "".join(f"{c:>{column}}" for c in cells))
    summary = table.summary()
    for key, label in (("to_ours", f"geo. mean to {OURS}"),
                       ("to_best_mean", "to the best, geo. mean"),
                       ("to_best_worst", "to the best, worst")):
        cells = ["-" if summary[a][key] is None else f"{summary[a][key]:.3f}"
                 for a in table.allocators]
        lines.append(f"{label:<{width}}" + "".join(f"{c:>{column}}" for c in cells))
    counts = [str(summary[a]["programs"]) for a in table.allocators]
    lines.append(f"{'programs counted':<{width}}" + "".join(f"{c:>{column}}" for c in counts))
    return "\n".join(lines)


def format_figures(runs):
    """What programs measured themselves (latencies, memory at night): medians over the rounds."""
    allocators = in_order(r["allocator"] for r in runs)
    rows = {}
    for run in runs:
        for name, (value, unit) in run.get("figures", {}).items():
            row = rows.setdefault((run["program"], f"{name}, {unit}"), {})
            row.setdefault(run["allocator"], []).append(value)
    if not rows:
        return ""
    broken = {(r["program"], r["allocator"]) for r in runs if "failed" in r}
    width = max(len(f"{p} {n}") for p, n in rows) + 2
    lines = ["figures that programs measured themselves: median",
             " " * width + "".join(f"{a:>12}" for a in allocators)]
    for (program, name), row in rows.items():
        cells = [number(median(row[a])) if a in row and (program, a) not in broken else "-"
                 for a in allocators]
        lines.append(f"{program + ' ' + name:<{width}}" + "".join(f"{c:>12}" for c in cells))
    return "\n".join(lines)


def headline(results):
    machine = results["machine"]
    versions = ", ".join(f"{name}: {text}" for name, text in results["allocators"].items())
    return (f"{results['when']}, {machine['processors']} x {machine['processor']}, "
            f"{machine['system']}, Linux {machine['kernel']}\n{versions}\n"
            f"{results['rounds']} rounds, work x {results['scale']}; "
            f"run.py {' '.join(results['arguments'])}")


def full_text(results, metrics):
    runs = results["runs"]
    parts = [headline(results)]
    parts += [format_table(Table(runs, metric)) for metric in metrics]
    parts.append(format_figures(runs))
    if results.get("instructions"):
        parts.append(instructions.format_counts(results["instructions"]))
    return "\n\n".join(part for part in parts if part)


def failures(runs):
    return in_order(f"{r['program']} under {r['allocator']}: {r['failed']}" for r in runs
                    if "failed" in r)
