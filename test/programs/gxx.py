# SPDX-License-Identifier: MIT
"""g++ compiles a large generated C++ file: compiler, assembler and linker on the library.

The object file must be the very bytes that the compiler writes on the system's malloc, and the
program linked from it must print the sums that this script works out by itself. A second pass
makes the compiler reject the file, since error paths free in another order.
"""
import os

from gxx_source import answer, source
from harness import OUTPUT, expect, main, same


def test(session):
  gxx = session.need("g++")
  units = 36 if session.heavy else 5
  path = session.path("large.cc")
  with open(path, "w", encoding="ascii") as f:
    f.write(source(units))
  flags = ["-std=c++20", "-O2", "-pipe", "-ftemplate-depth=2000"]
  ours = session.both([gxx, *flags, "-g1", "-c", path, "-o", OUTPUT], timeout=900)
  session.say(f"the same object file on both, {os.path.getsize(ours.file)} bytes in "
              f"{ours.seconds:.1f} s")
  os.rename(ours.file, session.path("large.o"))
  session.run([gxx, session.path("large.o"), "-o", session.path("large"), "-pthread"])
  result = session.run([session.path("large")])
  same("sums of the compiled program", [int(x) for x in result.out.split()],
       [answer(n) for n in range(units)])
  broken = session.path("broken.cc")
  with open(broken, "w", encoding="ascii") as f:
    f.write(source(1) + "long x = std::sort(std::map<Key<1>, int>(), 1);\n")
  rejected = session.run([gxx, *flags, "-fsyntax-only", broken], status=1)
  expect("error: " in rejected.err, "the broken file was not rejected with an error")


main(test)
