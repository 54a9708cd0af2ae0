# SPDX-License-Identifier: MIT
"""xz and zstd compress and expand a generated file with several threads.

The compressed bytes must be those that the system's malloc gives (both formats are deterministic
for a given block or job size), and the expanded file the one that went in. Long-distance zstd and
high xz levels ask for single blocks of tens of megabytes.
"""
import hashlib
import random

from harness import checksum, main, same


def make(path, megabytes):
  """Text of repeated words, runs of zeros and noise."""
  rng = random.Random(7)
  words = [bytes(rng.choices(b"abcdefghijklmnop ", k=rng.randint(2, 12))) for _ in range(5000)]
  with open(path, "wb") as f:
    for n in range(megabytes):
      if n % 8 == 6:
        f.write(rng.randbytes(1 << 20))
      elif n % 8 == 7:
        f.write(bytes(1 << 20))
      else:
        f.write(b" ".join(rng.choices(words, k=200000))[:1 << 20])


def test(session):
  xz, zstd = session.need("xz", "zstd")
  plain = session.path("plain")
  make(plain, 24 if session.heavy else 12)
  wanted = checksum(plain)
  runs = [("xz", [xz, "-1", "-T2", "--block-size=4MiB", "-c", plain], [xz, "-d", "-T2", "-c"]),
          ("zstd -5", [zstd, "-q", "-5", "-T2", "-c", plain], [zstd, "-q", "-d", "-c"]),
          ("zstd -12 --long", [zstd, "-q", "-12", "--long=24", "-T2", "-c", plain],
           [zstd, "-q", "-d", "--long=24", "-c"])]
  if session.heavy:
    runs += [("xz -6", [xz, "-6", "-T2", "-c", plain], [xz, "-d", "-c"]),
             ("zstd -15", [zstd, "-q", "-15", "-T2", "-c", plain],
              [zstd, "-q", "-d", "-c"])]
  for name, pack, unpack in runs:
    packed = session.both(pack)
    path = session.path("packed")
    with open(path, "wb") as f:
      f.write(packed.out)
    back = session.run([*unpack, path])
    same(f"{name}: expanded file", hashlib.sha256(back.out).hexdigest(), wanted)
    session.say(f"{name}: {len(packed.out)} bytes, the same as on the system's malloc, and back")


main(test)
