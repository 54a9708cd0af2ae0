# SPDX-License-Identifier: MIT
"""ImageMagick makes, filters, turns, resizes and re-encodes a generated picture with two threads.

The raw pixels must be those that the system's malloc gives; lossless steps that undo each other
must give back the picture they began with.
"""
import os
import random

from harness import checksum, expect, main, same


def make(path, width, height):
  """A picture of gradients and noise."""
  rng = random.Random(11)
  noise = rng.randbytes(4096)
  with open(path, "wb") as f:
    f.write(b"P6\n%d %d\n255\n" % (width, height))
    for y in range(height):
      f.write(bytes(v for x in range(width) for v in (
        (x * 255 // width) ^ noise[(x * y) & 4095] & 15, y * 255 // height,
        (x * x + y * y >> 8) & 255)))


def tool(session):
  """ImageMagick's converter; a `convert` elsewhere on the path may be another program."""
  for name in ("/usr/bin/magick", "/usr/bin/convert"):
    if os.path.exists(name):
      return name
  return session.need("convert-im6.q16")


def test(session):
  convert, picture = tool(session), session.path("picture.ppm")
  make(picture, *((2400, 1800) if session.heavy else (900, 700)))
  limits = ["-limit", "thread", "2", "-limit", "memory", "1GiB"]
  chains = [["-resize", "150%", "-blur", "0x3", "-sharpen", "0x1", "-rotate", "30"],
            ["-colorspace", "Lab", "-median", "3", "-modulate", "110,80,90", "-colorspace", "sRGB"],
            ["-distort", "Barrel", "0.1 0.0 0.0 0.9", "-liquid-rescale", "60%x100%"],
            ["(", "+clone", "-edge", "2", "-negate", ")", "-compose", "Multiply", "-composite",
             "-quantize", "RGB", "-colors", "64"]]
  for chain in chains:
    ours = session.both([convert, *limits, picture, *chain, "-depth", "8", "rgb:-"], timeout=600)
    expect(len(ours.out) > 100000, f"{chain[0]}: only {len(ours.out)} bytes of pixels")
  begun = checksum(picture)
  current = picture
  for n, (suffix, step) in enumerate(((".png", ["-flip"]), (".tiff", ["-flop"]),
                                      (".png", ["-flip"]), (".ppm", ["-flop"]))):
    following = session.path(f"step{n}{suffix}")
    session.run([convert, *limits, current, *step, "-depth", "8", following])
    current = following
  same("picture after four undone steps", checksum(current), begun)
  session.say(f"{len(chains)} chains of filters gave the same pixels, four lossless steps undone")


main(test)
