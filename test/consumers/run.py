#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Uses the library in one of the ways in which programs use it, from outside the build.

  run.py --build DIR --work DIR [--suffix -debug] WAY

  install      cmake --install into WORK/prefix, which most other ways then use; the documented
               tree must be there, and nothing else
  package      find_package with each version request that documents name, and the targets
  pkg-config   compile and link with what mimalloc.pc says, shared and static
  bare         configured where there are a C compiler, CMake and make, and nothing else: no C++,
               no Python, no program that a test could use; then again where there are
  subproject   add_subdirectory, and FetchContent
  source       src/static.c alone, with each C and C++ compiler
  object       mimalloc.o linked first, also in -static and -static-pie programs
  archive      libmimalloc.a, also in -static and -static-pie programs
  header       mimalloc-override.h and mimalloc-new-delete.h
  preload      LD_PRELOAD
  dlopen       four copies of the shared library opened in one process, with and without one
               preloaded
  musl         src/static.c in programs of another C library
  toplevel     an installation with MI_INSTALL_TOPLEVEL
  deb          the Debian packages: nothing in them that another version's package has, too; a
               program built from their files
  rust         the tests of the Rust crate, without its features and with all of them

Exit status 0: all as it should be; 1: not; 77: something that this way needs is not installed,
and the last line says what. CC and CXX name the compilers.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
SKIPPED = 77
TIMEOUT = 600
VERSION = "3.5"
WANTED = ["1.0", "1.4", "1.6", "1.7", "1.8", "2.0", "2.1", "3.0", "3.5", "3.5.0", "1.0...3.9"]
REFUSED = ["0.9", "3.6", "4.0", "1.0...2.9"]
# Where how the library is built does not matter, only that it is: the time goes to optimisation.
QUICKLY = ["-DCMAKE_BUILD_TYPE=MinSizeRel", "-DCMAKE_C_FLAGS_MINSIZEREL=-O0 -DNDEBUG"]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


class Skip(Exception):
    """Something that the way needs is not there."""


class Consumer:
    """One run: where the library was built, where it is installed, and how to compile."""

    def __init__(self, options):
        self.build = options.build.resolve()
        self.work = options.work.resolve()
        self.suffix = options.suffix
        self.prefix = self.work / "prefix"
        self.cc = os.environ.get("CC") or "cc"
        self.cxx = os.environ.get("CXX") or "c++"
        self.scratch = self.work / options.way
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)

    # ---- commands -----------------------------------------------------------------------------

    def run(self, *command, env=None, cwd=None):
        """Runs a command that must succeed; returns its standard output."""
        command = [str(part) for part in command]
        print("$", " ".join(command), flush=True)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, **(env or {})}, cwd=cwd, timeout=TIMEOUT,
                              errors="replace")
        if done.returncode != 0:
            raise RuntimeError(f"status {done.returncode}\n{done.stdout}")
        return done.stdout

    def expect(self, word, *command, env=None):
        """The program's last line must be the word."""
        text = self.run(*command, env=env)
        if text.split("\n")[-2:] != [word, ""]:
            raise RuntimeError(f"said {text!r}, not {word}")
        print(f"  {word}")

    def need(self, program):
        path = shutil.which(program)
        if path is None:
            raise Skip(f"{program} is not installed")
        return path

    # ---- files --------------------------------------------------------------------------------

    @property
    def include(self):
        return self.prefix / "include" / f"mimalloc-{VERSION}"

    @property
    def versioned(self):
        return self.prefix / "lib" / f"mimalloc-{VERSION}"

    @property
    def object(self):
        return self.versioned / f"mimalloc{self.suffix}.o"

    @property
    def archive(self):
        return self.versioned / f"libmimalloc{self.suffix}.a"

    @property
    def shared(self):
        return self.prefix / "lib" / f"libmimalloc{self.suffix}.so"

    def compile(self, name, source, *arguments, compiler=None):
        """Compiles and links a consumer; what comes after the source is given in that order."""
        is_cxx = source.endswith(".cpp")
        compiler = compiler or (self.cxx if is_cxx else self.cc)
        program = self.scratch / name
        self.run(compiler, "-std=gnu++17" if is_cxx else "-std=gnu11", "-O1", *WARNINGS,
                 "-fno-builtin", HERE / source, *arguments, "-pthread", "-o", program)
        return program

    def cmake(self, folder, name, *arguments, build=True):
        out = self.scratch / name
        self.run("cmake", "-S", folder, "-B", out, f"-DCMAKE_C_COMPILER={self.cc}",
                 f"-DCMAKE_CXX_COMPILER={self.cxx}", *arguments)
        if build:
            self.run("cmake", "--build", out, "--parallel", "2")
        return out

    # ---- the ways -----------------------------------------------------------------------------

    def install(self):
        shutil.rmtree(self.prefix, ignore_errors=True)
        self.run("cmake", "--install", self.build, "--prefix", self.prefix)
        lib, s, v = "lib", self.suffix, VERSION
        documented = {f"{lib}/libmimalloc{s}.so", f"{lib}/libmimalloc{s}.so.3",
                      f"{lib}/libmimalloc{s}.so.{v}", f"{lib}/mimalloc-{v}/libmimalloc{s}.a",
                      f"{lib}/mimalloc-{v}/mimalloc{s}.o",
                      f"{lib}/mimalloc-{v}/mimalloc-override{s}.o", f"{lib}/pkgconfig/mimalloc.pc"}
        documented |= {f"{lib}/cmake/mimalloc-{v}/{name}.cmake" for name in
                       ("mimalloc", "mimalloc-config", "mimalloc-config-version")}
        documented |= {"share/man/man3/mimalloc.3", "share/man/man7/mimalloc.7"}
        documented |= {f"include/mimalloc-{v}/mimalloc{name}.h" for name in
                       ("", "-override", "-new-delete", "-prof", "-stats")}
        tool = f"share/mimalloc-{v}/inspect"
        documented |= {"bin/mimalloc-inspect", f"{tool}/mimalloc-gdb.py"}
        documented |= {f"{tool}/mimalloc_inspect/{path.name}"
                       for path in (SOURCE / "inspect" / "mimalloc_inspect").glob("*.py")}
        parts = ("libmimalloc-trace-record.so", "mimalloc-trace-pack", "mimalloc-trace-replay")
        if (self.build / parts[1]).exists():
            documented |= {"bin/mimalloc-trace", *(f"{lib}/mimalloc-{v}/trace/{p}" for p in parts)}
            documented |= {f"share/mimalloc-{v}/trace/mimalloc_trace/{path.name}"
                           for path in (SOURCE / "trace" / "mimalloc_trace").glob("*.py")}
        found = {p.relative_to(self.prefix).as_posix() for p in self.prefix.rglob("*")
                 if not p.is_dir()}
        extra = {name for name in found - documented
                 if not re.fullmatch(rf"{lib}/cmake/mimalloc-{v}/mimalloc-\w+\.cmake", name)}
        if documented - found or extra:
            raise RuntimeError(f"missing {sorted(documented - found)}, unknown {sorted(extra)}")
        print(f"  {len(found)} files as documented")

    def package(self):
        out = self.cmake(HERE / "package", "build", f"-DPREFIX={self.prefix}",
                         f"-DSUFFIX={self.suffix}", f"-DWANTED={';'.join(WANTED)}",
                         f"-DREFUSED={';'.join(REFUSED)}", "-DCMAKE_BUILD_TYPE=Release")
        for name in ("use-shared", "use-static", "use-shared-named", "use-static-named", "use-cxx"):
            self.expect("used", out / name)
        for name in ("override-shared", "override-static", "override-object"):
            self.expect("served", out / name)

    def pkg_config(self):
        self.need("pkg-config")
        env = {"PKG_CONFIG_PATH": str(self.prefix / "lib" / "pkgconfig")}
        flags = self.run("pkg-config", "--cflags", "--libs", "mimalloc", env=env).split()
        program = self.compile("shared", "use.c", *flags)
        self.expect("used", program, env={"LD_LIBRARY_PATH": str(self.prefix / "lib")})
        flags = self.run("pkg-config", "--static", "--cflags", "--libs", "mimalloc",
                         env=env).split()
        self.expect("used", self.compile("static", "use.c", "-static", *flags))
        version = self.run("pkg-config", "--modversion", "mimalloc", env=env).strip()
        if version != VERSION:
            raise RuntimeError(f"mimalloc.pc says version {version}")

    def subproject(self):
        for name, fetch, how in (("added", "OFF", []), ("fetched", "ON", QUICKLY)):
            out = self.cmake(HERE / "subproject", name, f"-DMIMALLOC_SOURCE={SOURCE}",
                             f"-DFETCH={fetch}", "-DMI_BUILD_OBJECT=OFF", *how)
            self.expect("used", out / "use-static")
            self.expect("used", out / "use-shared")

    def bare(self):
        def tests_of(kind, env, *arguments):
            out = self.scratch / kind
            self.run("cmake", "-G", "Unix Makefiles", "-S", SOURCE, "-B", out,
                     f"-DCMAKE_C_COMPILER={self.need(self.cc)}", f"-DCMAKE_BUILD_TYPE={kind}",
                     f"-DCMAKE_MAKE_PROGRAM={self.need('make')}", *arguments, env=env)
            listed = self.run("ctest", "-N", cwd=out)
            return set(re.findall(r"^ +Test +#\d+: (\S+)", listed, re.M))

        # CMake finds what it is told of, and of the rest only what lies beside the compiler.
        def found(answer):
            return [f"-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH={answer}",
                    f"-DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH={answer}",
                    f"-DCMAKE_DISABLE_FIND_PACKAGE_Python3={'OFF' if answer == 'ON' else 'ON'}"]

        more = {"api-cxx", "consumers-install", "zig"}
        for kind in ("Debug", "Release"):
            tests = tests_of(kind, {"CXX": "/nowhere/c++"}, *found("OFF"))
            if not {"api-basic", "unit-fmt"} <= tests or tests & more:
                raise RuntimeError(f"the tests are {sorted(tests)}")
            print(f"  {kind}: {len(tests)} tests need a C compiler only")
        tests = tests_of(kind, {"CXX": self.cxx}, *found("ON"))
        if not more <= tests:
            raise RuntimeError(f"what was installed later is not found: {sorted(tests)}")

    def static_source(self, name, compiler, *flags):
        out = self.scratch / f"{name}.o"
        self.run(compiler, "-O2", f"-I{SOURCE / 'include'}", *WARNINGS, *flags, "-c",
                 SOURCE / "src" / "static.c", "-o", out)
        return out

    def source(self):
        include = f"-I{SOURCE / 'include'}"
        newest = next(filter(shutil.which, (f"clang-{v}" for v in range(30, 11, -1))), "clang")
        found = {os.path.realpath(shutil.which(c)): c for c in (newest, "clang", "gcc", self.cc)
                 if shutil.which(c)}
        for compiler in found.values():
            name = pathlib.Path(compiler).name
            plain = self.static_source(f"{name}-plain", compiler)
            self.expect("used", self.compile(f"{name}-use", "use.c", include, plain,
                                             compiler=compiler))
            full = self.static_source(f"{name}-full", compiler, "-DMI_MALLOC_OVERRIDE", "-DNDEBUG")
            self.expect("served", self.compile(f"{name}-override", "override.c", full,
                                               compiler=compiler))
            self.static_source(f"{name}-cxx", compiler, "-std=gnu++17", "-x", "c++",
                               "-DMI_MALLOC_OVERRIDE", "-DMI_SHARED_LIB", "-DMI_SHARED_LIB_EXPORT",
                               "-fPIC", "-DNDEBUG")
        plain = self.static_source("cxx", self.cxx, "-std=gnu++17", "-x", "c++", "-DNDEBUG")
        self.expect("used", self.compile("cxx-use", "use.cpp", include, plain))

    def linked(self, *first):
        """Programs that override malloc by a file that is linked, for each kind of executable."""
        for name, flags in (("dynamic", []), ("static", ["-static"]),
                            ("static-pie", ["-static-pie", "-fPIE"])):
            for source in ("override.c", "override.cpp"):
                program = self.compile(f"{name}-{source}.exe", source, *first, *flags)
                self.expect("served", program)

    def linked_object(self):
        self.linked(self.object)

    def linked_archive(self):
        self.linked(self.archive)

    def header(self):
        include = f"-I{self.include}"
        for name, libraries in (("static", [self.archive]),
                                ("shared", [self.shared, f"-Wl,-rpath,{self.prefix / 'lib'}"])):
            self.expect("served", self.compile(f"c-{name}", "header.c", include, *libraries))
            self.expect("served", self.compile(f"cpp-{name}", "header.cpp", include, *libraries))

    def preload(self):
        program = self.compile("program", "override.c", "-DLOOK_UP", "-ldl")
        self.expect("served", program, env={"LD_PRELOAD": str(self.shared)})
        # The test would be worth nothing if the program were content without the library.
        done = subprocess.run([program], stdout=subprocess.PIPE, text=True)
        if done.returncode != 1 or "not in this process" not in done.stdout:
            raise RuntimeError("the program is content without the library")

    def dlopen(self):
        program = self.compile("copies", "copies.c", "-ldl")
        copies = [self.scratch / f"copy{i}.so" for i in range(4)]
        for copy in copies:
            # The loader knows a library by its file.
            shutil.copy(self.shared, copy)
        self.expect("4 copies", program, *copies)
        self.expect("4 copies", program, *copies, env={"LD_PRELOAD": str(self.shared)})

    def musl(self):
        compiler = self.need("musl-gcc")
        full = self.static_source("musl", compiler, "-DMI_MALLOC_OVERRIDE", "-DNDEBUG",
                                  "-DMI_LIBC_MUSL=1", "-fPIC")
        for name, flags in (("dynamic", []), ("static", ["-static"]),
                            ("static-pie", ["-static-pie", "-fPIE"])):
            self.expect("served", self.compile(name, "override.c", full, *flags,
                                               compiler=compiler))
            self.expect("used", self.compile(f"{name}-use", "use.c", f"-I{SOURCE / 'include'}",
                                             full, *flags, compiler=compiler))

    def toplevel(self):
        out = self.cmake(SOURCE, "build", "-DMI_INSTALL_TOPLEVEL=ON", "-DMI_BUILD_TESTS=OFF",
                         *QUICKLY)
        prefix = self.scratch / "prefix"
        self.run("cmake", "--install", out, "--prefix", prefix)
        for name in ("include/mimalloc.h", "lib/libmimalloc.a", "lib/mimalloc.o",
                     "lib/cmake/mimalloc/mimalloc-config.cmake", "lib/libmimalloc.so"):
            if not (prefix / name).exists():
                raise RuntimeError(f"{name} is not installed")
        # As would a user who knows no folders: the compiler's -I and -L and nothing else.
        program = self.compile("plain", "use.c", f"-I{prefix / 'include'}", f"-L{prefix / 'lib'}",
                               "-lmimalloc")
        self.expect("used", program, env={"LD_LIBRARY_PATH": str(prefix / "lib")})
        env = {"PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
        if shutil.which("pkg-config"):
            flags = self.run("pkg-config", "--cflags", "--libs", "mimalloc", env=env).split()
            self.compile("pkg-config", "use.c", *flags)
        user = self.cmake(HERE / "package", "user", f"-DPREFIX={prefix}", "-DSUFFIX=",
                          "-DWANTED=1.4", "-DCMAKE_BUILD_TYPE=Release")
        self.expect("used", user / "use-static")

    def deb(self):
        self.need("dpkg-deb")
        self.run("cpack", "-G", "DEB", "-B", self.scratch, cwd=self.build)
        packages = sorted(self.scratch.glob("*.deb"))
        names = [p.name.split("_")[0] for p in packages]
        if names != [f"libmimalloc3{self.suffix}", f"libmimalloc3{self.suffix}-dev"] and \
           names != [f"libmimalloc3{self.suffix}-dev", f"libmimalloc3{self.suffix}"]:
            raise RuntimeError(f"packages: {names}")
        root = self.scratch / "root"
        for package in packages:
            self.run("dpkg-deb", "-x", package, root)
        files = [p.relative_to(root).as_posix() for p in root.rglob("*") if not p.is_dir()]
        for name in files:
            own = re.search(rf"mimalloc-{re.escape(VERSION)}|/libmimalloc[\w-]*\.so\.3", name)
            if own is None:
                raise RuntimeError(f"/{name}: another version's package may have this file, too")
        lib = next(root.rglob(f"libmimalloc{self.suffix}.so.3")).parent
        env = {"PKG_CONFIG_PATH": str(lib / "pkgconfig"), "LD_LIBRARY_PATH": str(lib)}
        flags = self.run("pkg-config", "--cflags", "--libs", f"mimalloc-{VERSION}", env=env).split()
        self.expect("used", self.compile("program", "use.c", *flags), env=env)
        print(f"  {len(files)} files, all of this version's own")

    def rust(self):
        cargo = self.need("cargo")
        wanted = re.search(r'rust-version = "1[.](\d+)"', (SOURCE / "rust/Cargo.toml").read_text())
        version = self.run(cargo, "--version")
        if int(re.search(r" 1[.](\d+)", version).group(1)) < int(wanted.group(1)):
            raise Skip(f"{version.strip()} is too old: the crate is for 1.{wanted.group(1)} or later")
        manifest = ["--locked", "--manifest-path", SOURCE / "rust" / "Cargo.toml"]
        try:
            self.run(cargo, "fetch", *manifest)
        except RuntimeError as why:
            raise Skip(f"the crates that the build needs cannot be had: {why}") from why
        env = {"CARGO_TARGET_DIR": str(self.scratch), "CARGO_NET_OFFLINE": "true", "CC": self.cc}
        for features in ([], ["--all-features"]):
            text = self.run(cargo, "test", *manifest, *features, "--jobs", "2", env=env)
            passed = sum(map(int, re.findall(r"^test result: ok\. (\d+) passed", text, re.M)))
            if passed < 15:
                raise RuntimeError(f"only {passed} tests ran\n{text}")
            print(f"  {passed} tests passed")


WAYS = {"install": Consumer.install, "package": Consumer.package,
        "pkg-config": Consumer.pkg_config, "bare": Consumer.bare,
        "subproject": Consumer.subproject, "source": Consumer.source, "object": Consumer.linked_object,
        "archive": Consumer.linked_archive, "header": Consumer.header,
        "preload": Consumer.preload, "dlopen": Consumer.dlopen, "musl": Consumer.musl,
        "toplevel": Consumer.toplevel, "deb": Consumer.deb, "rust": Consumer.rust}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--suffix", default="")
    parser.add_argument("way", choices=WAYS)
    options = parser.parse_args()
    try:
        WAYS[options.way](Consumer(options))
    except Skip as why:
        print(f"{options.way}: skipped: {why}")
        return SKIPPED
    except (RuntimeError, subprocess.TimeoutExpired, OSError) as problem:
        print(f"{options.way}: FAILED: {problem}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
