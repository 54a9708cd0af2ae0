#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The metrics are pages of the formats that docs/report.md says.

  check_metrics.py SITUATIONS

SITUATIONS is the program of situations.c. The report by itself is a page of OpenMetrics; behind the
numbers of mi_stats_print_prometheus it is one of the text format 0.0.4. Where there is Python's
prometheus_client it reads both. Exit status 0, 1.
"""

import re
import subprocess
import sys

ROW = re.compile(r'([a-z_]+)(\{[a-z_]+="[^"]*"(?:,[a-z_]+="[^"]*")*\})? ([0-9.]+)')


def expect(condition, text):
    if not condition:
        print(text)
        sys.exit(1)


def families(page, comments):
    """Types by the name of the family; each row follows the head of its own."""
    found, name = {}, None
    for line in page.splitlines():
        head = re.fullmatch(r"# TYPE (\S+) (\S+)", line)
        if head:
            name = head[1]
            expect(name not in found, f"{name} twice")
            found[name] = head[2]
        elif line.startswith("#"):
            expect(line.split()[1] in comments, line)
        else:
            row = ROW.fullmatch(line)
            expect(row and row[1] == name, f"{line} in {name}")
    return found


def page_of(program, situation):
    """The numbers of the statistics and those of the report."""
    done = subprocess.run([program, situation, "metrics"], stdout=subprocess.PIPE, text=True)
    return None if done.returncode == 77 else done.stdout.split("\0\n")


def check(program, situation):
    pages = page_of(program, situation)
    if pages is None:
        return
    stats, report = pages
    types = families(report, ("UNIT", "HELP", "EOF"))
    expect(set(types.values()) == {"gauge"} and report.endswith("\n# EOF\n"), report)
    expect(("mimalloc_report_resident_bytes" in types) == (situation == "idle"),
           f"{situation}: the resident size")
    # Of the statistics, too; the peak is known without files.
    of_stats = families(stats, ("HELP",))
    expect(("mimalloc_resident_bytes" in of_stats) == (situation == "idle"),
           f"{situation}: the resident size of the statistics")
    expect("mimalloc_resident_peak_bytes" in of_stats, f"{situation}: the peak")
    types = families(stats + report, ("UNIT", "HELP", "EOF"))
    for name, kind in types.items():
        # In 0.0.4 a counter is named as its rows are, in OpenMetrics without the ending.
        expect((kind == "counter") == name.endswith("_total"), f"{name} is a {kind}")
    try:
        from prometheus_client import parser
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as read
    except ImportError:
        print(f"{situation}: good; no prometheus_client")
        return
    expect(len(list(read(report))) == len(families(report, ("UNIT", "HELP", "EOF"))), "OpenMetrics")
    both = list(parser.text_string_to_metric_families(stats + report))
    expect(len(both) >= len(types), "the text format 0.0.4")
    try:
        list(read(stats + report))
    except ValueError:
        print(f"{situation}: good, read by prometheus_client")
    else:
        expect(False, "both are a page of OpenMetrics: docs/report.md says they are not")


for one in ("idle", "no_file"):
    check(sys.argv[1], one)
