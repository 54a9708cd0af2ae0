#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what is written about the library.

  check_docs.py --work DIR [--archive FILE] [--build DIR] WAY

  samples   each sample of C, C++ and CMake in README.md, docs and the manual pages: compiled
            without a warning, linked and run with the archive, configured with an installation of
            the build; and every environment variable that is named is an option
  man       the manual pages, by man and mandoc; they name every function with its parameters, and
            every option
  doxygen   the pages of the public interface, without a warning

Exit status 0: all as it should be; 1: not; 77: the program that a way needs is not installed. CC
and CXX name the compilers.
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
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"^\.EX\n(.*?)^\.EE", re.MULTILINE | re.DOTALL)
# Samples that are checked elsewhere, and those that are none: commands, and what they print.
OTHERS = {"", "zig", "rust", "toml"}
VARIABLE = re.compile(r"\bMIMALLOC_([A-Z_]+)\b")
# In the guide's table of options the prefix is left out.
ROW = re.compile(r"`((?:[A-Z]+_[A-Z_]+=[^\s`]+ ?)+)`")
PROTOTYPE = re.compile(r"mi_decl_export\b([^;{}]*);")


class Skip(Exception):
    """Something that the way needs is not there."""


def run(*command, cwd=None, text_in=None, env=None, complaints=False):
    """Runs a command that must succeed; returns what it printed, or only its complaints."""
    command = [str(part) for part in command]
    print("$", " ".join(command), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, input=text_in, cwd=cwd,
                          stderr=subprocess.PIPE if complaints else subprocess.STDOUT,
                          env={**os.environ, **(env or {})}, timeout=600, errors="replace")
    if done.returncode != 0:
        raise RuntimeError(f"status {done.returncode}\n{done.stdout}{done.stderr or ''}")
    return done.stderr if complaints else done.stdout


# ---- what the documents hold --------------------------------------------------------------------

def documents():
    return sorted([SOURCE / "README.md", SOURCE / "SECURITY.md", SOURCE / "CONTRIBUTING.md",
                   *(SOURCE / "docs").glob("*.md"),
                   *manual()])


def manual():
    return sorted((SOURCE / "docs" / "man").glob("*.[37]"))


def plain(text):
    """A line of a manual page's example, without its escapes."""
    return text.replace("\\-", "-").replace("\\&", "").replace("\\(aq", "'").replace("\\e", "\\")


def samples(path, text):
    """Pairs of a language and a text."""
    if path.suffix == ".md":
        yield from FENCE.findall(text)
        return
    for example in EXAMPLE.findall(text):
        yield ("c" if example.startswith("#include") else "", plain(example))


def options(header):
    """The options by name, older names included."""
    return set(re.findall(r"\bmi_option_(\w+)", header))


def unknown_variables(text, known):
    named = VARIABLE.findall(text)
    for row in ROW.findall(text):
        named += [word.split("=")[0] for word in row.split()]
    return {name for name in named if name.lower() not in known
            and not name.startswith(("MI_", "LD_", "CMAKE_", "MIMALLOC_"))}


def normal(declaration):
    """A declaration without attributes, conditions and spaces."""
    text = re.sub(r"^\s*#.*$|//[^\n]*", "", declaration, flags=re.MULTILINE)
    text = re.sub(r"\bmi_decl_\w+|\bmi_attr_\w+(\([^)]*\))?", " ", text)
    return re.sub(r"\s+", "", text)


def declared(header):
    found = (normal(text) for text in PROTOTYPE.findall(header))
    # In version 3 this one's heap is not constant.
    return {text.replace("constmi_heap_t*heap,boolvisit_blocks", "mi_heap_t*heap,boolvisit_blocks")
            for text in found if re.search(r"mi_\w+\(", text)}


def described(page):
    """The prototypes of a manual page: lines of .BI, continued until a semicolon."""
    parts = [re.sub(r'"([^"]*)"|\s+', r"\1", line[4:]) for line in page.splitlines()
             if line.startswith(".BI ")]
    return {re.sub(r"\s+", "", text) for text in "".join(parts).split(";") if "mi_" in text}


# ---- the ways -----------------------------------------------------------------------------------

def compile_sample(language, text, name, opts):
    """Compiles a sample as a source file of its own, and runs it if it is a program."""
    cxx = language == "cpp"
    source = opts.work / f"{name}.{'cpp' if cxx else 'c'}"
    source.write_text(text)
    compiler = os.environ.get("CXX" if cxx else "CC") or ("c++" if cxx else "cc")
    flags = ["-std=gnu++17" if cxx else "-std=gnu11", "-O1", *WARNINGS, f"-I{SOURCE / 'include'}"]
    if "int main(" not in text:
        run(compiler, *flags, "-c", source, "-o", opts.work / f"{name}.o")
        return
    program = opts.work / name
    run(compiler, *flags, source, opts.archive, "-pthread", "-o", program)
    run(program)


def configure_sample(text, name, opts):
    """Configures a project that consists of a sample, and builds it if that is quick."""
    folder = opts.work / name
    (folder / "third_party").mkdir(parents=True)
    (folder / "third_party" / "mimalloc").symlink_to(SOURCE)
    shutil.copy(SOURCE / "test" / "consumers" / "use.c", folder)
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(sample C)\nadd_executable(myapp use.c)\n" +
        text)
    prefix = opts.work / "prefix"
    if not prefix.exists():
        run("cmake", "--install", opts.build, "--prefix", prefix)
    run("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    if "find_package" in text:
        run("cmake", "--build", folder / "build")
        run(folder / "build" / "myapp")


def check_samples(opts):
    known = options((SOURCE / "include" / "mimalloc.h").read_text())
    known |= set(re.findall(r"`(\w+)(?:=0)?`", (SOURCE / "docs" / "options.md").read_text()))
    known |= {"name", "glibc_tunables"}
    count = 0
    for path in documents():
        text = path.read_text()
        unknown = unknown_variables(text, known)
        if unknown:
            raise RuntimeError(f"{path.name}: no such option: {', '.join(sorted(unknown))}")
        for language, sample in samples(path, text):
            name = f"{path.name.replace('.', '-')}-{count}"
            if language in ("c", "cpp"):
                compile_sample(language, sample, name, opts)
            elif language == "cmake":
                configure_sample(sample, name, opts)
            elif language in OTHERS:
                continue
            else:
                raise RuntimeError(f"{path.name}: nothing checks samples of {language}")
            count += 1
    print(f"  {count} samples")
    if count < 10:
        raise RuntimeError("there should be more samples")


def check_versions(header):
    number = int(re.search(r"define MI_MALLOC_VERSION (\d+)", header).group(1))
    version = f"{number // 10000}.{number // 100 % 100}"
    for path, sign in ((SOURCE / "docs" / "Doxyfile", f"PROJECT_NUMBER         = {version}\n"),
                       *((path, f'"mimalloc {version}"') for path in manual())):
        if sign not in path.read_text():
            raise RuntimeError(f"{path.name} is not of version {version}")


def check_man(opts):
    header = "".join((SOURCE / "include" / name).read_text()
                     for name in ("mimalloc.h", "mimalloc-prof.h", "mimalloc-stats.h"))
    check_versions(header)
    wanted, found = declared(header), described((SOURCE / "docs/man/mimalloc.3").read_text())
    if wanted != found:
        raise RuntimeError(f"mimalloc.3: missing {sorted(wanted - found)}, "
                           f"unknown {sorted(found - wanted)}")
    page = (SOURCE / "docs/man/mimalloc.7").read_text()
    for listed in re.findall(r"mi_option_(\w+),\s+///< (?!no effect)", header):
        if not re.search(rf"\b{listed}\b", page):
            raise RuntimeError(f"mimalloc.7: no word of the option {listed}")
    tools = [tool for tool in ("man", "mandoc") if shutil.which(tool)]
    for path in manual():
        for tool in tools:
            if tool == "man":
                text = run("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", path,
                           env={"LC_ALL": "C.UTF-8", "MANROFFSEQ": "", "MANWIDTH": "80"},
                           complaints=True)
            else:
                text = run("mandoc", "-T", "lint", "-W", "warning", path)
            if text.strip():
                raise RuntimeError(text)
    print(f"  {len(found)} functions")
    if not tools:
        raise Skip("neither man nor mandoc is installed")


def check_doxygen(opts):
    if not shutil.which("doxygen"):
        raise Skip("doxygen is not installed")
    settings = (SOURCE / "docs" / "Doxyfile").read_text()
    text = run("doxygen", "-", cwd=SOURCE,
               text_in=f"{settings}\nOUTPUT_DIRECTORY = {opts.work}\n").strip()
    if text:
        raise RuntimeError(text)
    pages = opts.work / "html"
    if "mi_heap_malloc_aligned_at" not in (pages / "group__heap.html").read_text():
        raise RuntimeError("the pages lack the group of heaps")
    print(f"  {len(list(pages.glob('group__*.html')))} groups")


WAYS = {"samples": check_samples, "man": check_man, "doxygen": check_doxygen}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--archive", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("way", choices=WAYS)
    opts = parser.parse_args()
    opts.work = opts.work.resolve() / opts.way
    shutil.rmtree(opts.work, ignore_errors=True)
    opts.work.mkdir(parents=True)
    try:
        WAYS[opts.way](opts)
    except Skip as why:
        print(f"{opts.way}: skipped: {why}")
        return SKIPPED
    except (RuntimeError, subprocess.TimeoutExpired, OSError) as problem:
        print(f"{opts.way}: FAILED: {problem}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
