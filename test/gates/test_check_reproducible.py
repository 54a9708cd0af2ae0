#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The control of check_reproducible.py: a build that tells when or where it was made is found."""

import pathlib
import tempfile

import check_reproducible

LIST = """cmake_minimum_required(VERSION 3.18)
project(control C)
add_library(control STATIC src/control.c)
"""
SETTINGS = {"CMAKE_BUILD_TYPE": "Release"}


def build_twice(text):
    """What is found wrong with a library of this one source."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "from" / "src").mkdir(parents=True)
        (root / "from" / "CMakeLists.txt").write_text(LIST)
        (root / "from" / "src" / "control.c").write_text(text)
        products = []
        for place in ("one", "another/place"):
            (root / place).mkdir(parents=True)
            built, _ = check_reproducible.build_at(root / "from", root / place, "/out", SETTINGS, [])
            products.append(built)
        return (check_reproducible.compare(*products) +
                check_reproducible.names_its_place(products[0], root))


def main():
    assert not build_twice("int one(void) { return 1; }\n")
    wrong = build_twice("const char* file(void) { return __FILE__; }\n")
    assert any("different from byte" in line for line in wrong), wrong
    assert any("the path of its sources" in line for line in wrong), wrong
    assert check_reproducible.compare({"a": b"12:00:01"}, {"a": b"12:00:02"})
    assert check_reproducible.compare({"a": b""}, {}) and check_reproducible.compare({}, {})
    print("a time and a path are found")


if __name__ == "__main__":
    main()
