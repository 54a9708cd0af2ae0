# SPDX-License-Identifier: MIT
"""Builds the suite's own programs with CMake."""

import os
import subprocess
import sys
from pathlib import Path

import allocators

ROOT = allocators.ROOT


def add_arguments(parser):
    parser.add_argument("--out", default=ROOT / "out" / "bench", type=Path, metavar="DIR",
                        help="where results go (default: out/bench)")
    parser.add_argument("--build", default=ROOT / "out" / "bench-build", type=Path, metavar="DIR",
                        help="where the programs are built (default: out/bench-build)")


def programs(directory):
    allocators.need_tool("cmake", "cmake", "building the programs")
    for tool in ("cc", "c++"):
        allocators.need_tool(tool, "g++", "building the programs")
    for command in (["cmake", "-S", ROOT / "bench", "-B", directory],
                    ["cmake", "--build", directory, "--parallel", str(os.cpu_count() or 1)]):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            sys.exit(f"bench: building the programs failed:\n{result.stdout}{result.stderr}")
