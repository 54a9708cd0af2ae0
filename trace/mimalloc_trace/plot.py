# SPDX-License-Identifier: MIT
"""A picture of replays: for each trace, resident memory over its course beside what was asked for.

  python3 plot.py RESULT.json PICTURE.svg
"""

import json
import sys


def draw(results, path):
    import matplotlib  # pylint: disable=import-outside-toplevel

    matplotlib.use("svg")
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel

    matplotlib.rcParams["svg.hashsalt"] = "trace"
    matplotlib.rcParams["font.size"] = 8
    columns = min(2, len(results))
    rows = -(-len(results) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(5.5 * columns, 2.6 * rows),
                                   squeeze=False)
    for axis in axes.flat[len(results):]:
        axis.set_axis_off()
    for axis, result in zip(axes.flat, results):
        draw_one(axis, result)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def draw_one(axis, result):
    drawn = {name: a["samples"] for name, a in result["allocators"].items() if "failed" not in a}
    for name, samples in drawn.items():
        axis.plot([s[0] for s in samples], [s[2] / (1 << 20) for s in samples], label=name,
                  linewidth=0.9)
    if drawn:
        samples = next(iter(drawn.values()))
        axis.fill_between([s[0] for s in samples], [s[1] / (1 << 20) for s in samples],
                          color="#dddddd", label="asked for")
    axis.set_title(result["trace"].rsplit("/", 1)[-1])
    axis.set_xlabel("calls")
    axis.set_ylabel("resident, MiB")
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False, fontsize=6)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as source:
        draw(json.load(source), sys.argv[2])
