# SPDX-License-Identifier: MIT
"""Arrays and frames: what numpy and pandas take from malloc in large blocks and in small objects."""
import hashlib
import io
import threading

import numpy
import pandas

rng = numpy.random.default_rng(7)
a = rng.standard_normal((500, 500))
print(f"{numpy.abs(numpy.linalg.solve(a, a @ numpy.ones(500))).sum():.4f}")
print(f"{numpy.abs(numpy.fft.fft2(a)).sum():.6g}", numpy.sort(a, axis=None)[:2].round(6))
total = 0
for n in range(1, 3000):
  b = numpy.arange(n * 7 % 5000 + 1)
  total += int(numpy.concatenate([b, b[::-1]]).sum()) + len(numpy.unique(b % 17))
print(total)
words = numpy.array([f"word {i * 7919 % 10007}" for i in range(100000)], dtype=object)
d = pandas.DataFrame({"k": words, "n": numpy.arange(100000), "x": rng.standard_normal(100000)})
g = d.groupby("k").agg({"n": "sum", "x": ["mean", "count"]})
print(len(g), int(g[("n", "sum")].sum()), int(g[("x", "count")].max()))
text = d.head(30000).to_csv(index=False)
back = pandas.read_csv(io.StringIO(text))
print(hashlib.md5(text.encode()).hexdigest(), len(back), back["k"].str.len().sum())
m = d.merge(g["n"].reset_index(), on="k", how="left").sort_values(["k", "n"])
print(m.shape, m["k"].iloc[0], m.iloc[::1000]["n"].sum())
sums = [0] * 4


def work(k):
  for i in range(200):
    c = numpy.ones((i % 60 + 1, 500 + k))
    sums[k] += float((c @ c.T).sum())


threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
for t in threads:
  t.start()
for t in threads:
  t.join()
print(sums)
