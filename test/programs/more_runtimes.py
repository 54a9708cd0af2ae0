# SPDX-License-Identifier: MIT
"""Language run-times and compilers: each runs or compiles a file of the folder load."""
import os
import re
import shutil
import subprocess

import gxx_source
from harness import Skipped, expect

HERE = os.path.dirname(os.path.abspath(__file__))


def load(side, name):
  """A file of the folder load, copied to this side's folder."""
  return shutil.copy(os.path.join(HERE, "load", name), side.path(name))


def java(side):
  """A JVM compiles a program and runs it: threads, direct buffers, deflate streams."""
  javac, program = side.need("javac", "java")
  side.run([javac, "-J-Xmx256m", "-d", side.folder, load(side, "Churn.java")], probe=["-version"])
  return side.run([program, "-Xmx256m", "-cp", side.folder, "Churn"])


def php(side):
  """PHP opens its modules with RTLD_DEEPBIND, so it needs the option; without it glibc's free ends
  it, which is the proof that the option is what helps."""
  program = side.need("php")
  if side.preload:
    side.note("with `MIMALLOC_IGNORE_DEEPBIND=1`")
  answer = side.run([program, load(side, "gd.php")], env={"MIMALLOC_IGNORE_DEEPBIND": "1"})
  expect(answer.startswith(b"gd\n"), "PHP has no gd module")
  return answer


def rscript(side):
  return side.run([side.need("Rscript"), "--vanilla", load(side, "frames.R")])


def octave(side):
  return side.run([side.need("octave-cli"), "--norc", "--quiet", load(side, "matrices.m")])


def erlang(side):
  erl, erlc = side.need("erl", "erlc")
  side.tool([erlc, load(side, "ring.erl")])
  return side.run([erl, "-noshell", "-s", "ring", "main"])


def ocaml(side):
  """The compiler, and what it made."""
  compiler = side.need("ocamlopt.opt")
  side.run([compiler, "-o", "trees", load(side, "trees.ml")], probe=["-version"])
  return side.run([side.path("trees")])


def ghc(side):
  compiler = side.need("ghc")
  side.run([compiler, "-v0", "-O1", "-threaded", "-rtsopts", load(side, "Forest.hs"), "-o", "forest"])
  return side.run([side.path("forest"), "+RTS", "-N4", "-A1m"])


def clang(side):
  """Clang compiles four files for link-time optimisation, and lld links them."""
  compiler = side.need("clang++")
  side.need("ld.lld")
  names = []
  for n in range(4):
    text = gxx_source.source(1).replace("int main()", f"int main{n}()")
    text = text.replace("unit0()", f"unit0_{n}()").rstrip()[:-1] + "  return 0;\n}\n"
    names.append(os.path.basename(side.write(f"part{n}.cc", text)))
  side.write("main.cc", "".join(f"int main{n}();\n" for n in range(4)) +
             "int main() { return " + " + ".join(f"main{n}()" for n in range(4)) + "; }\n")
  flags = ["-std=c++20", "-O1", "-flto=full", "-fvisibility=hidden"]
  for name in names + ["main.cc"]:
    side.run([compiler, *flags, "-c", name], probe=["--version"] if name == "main.cc" else None)
  side.run([compiler, *flags, "-fuse-ld=lld", *(x[:-2] + "o" for x in names + ["main.cc"]),
            "-o", "whole"])
  return side.read("whole"), side.tool([side.path("whole")])


def rustc(side):
  compiler = "/usr/bin/rustc" if os.path.exists("/usr/bin/rustc") else side.need("rustc")
  side.run([compiler, "-O", "--edition", "2021", load(side, "churn.rs"), "-o", "churn"],
           env=rust_home())
  return side.run([side.path("churn")])


def rust_home():
  """A compiler that rustup installed finds its parts through the caller's home folder."""
  home = os.path.expanduser("~")
  return {"RUSTUP_HOME": os.environ.get("RUSTUP_HOME", home + "/.rustup"),
          "CARGO_HOME": os.environ.get("CARGO_HOME", home + "/.cargo")}


def golang(side):
  """Go's run-time has a heap of its own; what comes from C, and glibc in it, is malloc's."""
  go = side.need("go")
  side.write("go.mod", "module cgo\n\ngo 1.19\n")
  load(side, "cgo.go")
  side.tool([go, "build", "-o", "cgo"], timeout=900,
            env={"GOCACHE": side.kept("gocache"), "CGO_ENABLED": "1", "GOFLAGS": "-mod=mod",
                 "GOTOOLCHAIN": "local", "GOPATH": side.path("gopath"),
                 "TMPDIR": side.kept("gotmp")})
  return side.run([side.path("cgo")])


def python(side):
  """numpy and pandas from PyPI, with Python's objects on malloc as well."""
  folder = side.kept("python")
  program = os.path.join(folder, "bin", "python")
  try:
    if not os.path.exists(os.path.join(folder, "done")):
      side.tool(["/usr/bin/python3", "-m", "venv", folder])
      side.tool([program, "-m", "pip", "-q", "install", "numpy==1.26.4", "pandas==2.2.2",
                 "pytest==8.3.3", "hypothesis==6.112.1"], timeout=900)
      with open(os.path.join(folder, "done"), "w", encoding="ascii"):
        pass
  except Exception as why:
    raise Skipped(f"no numpy and pandas from PyPI: {str(why).splitlines()[0]}") from why
  return side.run([program, load(side, "frames.py")], env={"PYTHONMALLOC": "malloc"})


def gdb(side):
  """GDB reads a C++ program's symbols, and runs it, which then is on the library too."""
  debugger, compiler = side.need("gdb", "g++")
  side.write("shown.cc", gxx_source.source(1))
  side.tool([compiler, "-std=c++20", "-g", "-O0", "shown.cc", "-o", "shown"])
  orders = ["break unit0", "run", "bt", "ptype Shape0", "finish", "info types Key",
            "info functions ^unit[0-9]", "python print(len(gdb.execute('info line main', False, True)) > 0)",
            "delete", "continue"]
  side.write("orders", "\n".join(["set pagination off", "set width 0", *orders]) + "\n")
  out = side.run([debugger, "-nx", "-batch", "-x", "orders", side.path("shown")]).decode()
  expect("Breakpoint 1, unit0" in out and "exited" in out, "GDB did not run the program:\n" + out)
  return re.sub(r"0x[0-9a-f]+|process \d+|ours|glibc", "X", out).replace(side.folder, "")


def emacs(side):
  return side.run([side.need("emacs"), "--batch", "-Q", "-l", load(side, "batch.el")])


def guile(side):
  return side.run([side.need("guile"), "--no-auto-compile", load(side, "trees.scm")])


PROGRAMS = {
  "java": java, "php": php, "R": rscript, "octave": octave, "erlang": erlang, "ocaml": ocaml,
  "ghc": ghc, "clang-lto": clang, "rustc": rustc, "go-cgo": golang, "numpy-pandas": python,
  "gdb": gdb, "emacs": emacs, "guile": guile,
}
