#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The parts of tools/kernels.py that need no emulator: what it reads, and what it writes."""

import gzip
import importlib.util
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools"))
from kernels import image, machine, outcome, packages, rows  # noqa: E402

# The script has the name of its package.
SPEC = importlib.util.spec_from_file_location(
    "kernels_script", pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "kernels.py")
script = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(script)


class Programs(unittest.TestCase):
    def test_targets(self):
        known = "... mimalloc\n... mimalloc-memory-patterns\nmimalloc-stress-steps: phony\n"
        self.assertEqual(script.program_of("stress-steps", known), "mimalloc-stress-steps")
        self.assertEqual(script.program_of("stress-steps-in-new-ways", known), "mimalloc-stress-steps")
        self.assertEqual(script.program_of("memory", known), "mimalloc-memory-patterns")
        with self.assertRaises(script.Failure):
            script.program_of("stress-other", known)


class Scripts(unittest.TestCase):
    def test_modules_of_a_script(self):
        """What every script of the tests imports is found, with what lies beside it."""
        tests = pathlib.Path(__file__).resolve().parent.parent
        for path in sorted(tests.glob("memory/*_test.py")):
            files = image.interpreter(str(path))[1]
            self.assertIn(str(path.parent / "large_pages.py"), files)
            self.assertTrue(any(os.path.basename(f) == "subprocess.py" for f in files))


class Sources(unittest.TestCase):
    def mirror(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.write_text(text, encoding="utf-8")
            packages.SOURCES[:] = [path]
            packages.mirror.cache_clear()
            return packages.mirror()

    def test_stanzas(self):
        text = ("# one\nTypes: deb\nURIs: http://other/x\nSuites: nodistro\n\n"
                "Types: deb\n# two\nURIs: http://mirror/debian\nSuites: bookworm bookworm-updates\n"
                "Components: main\nSigned-By: /key.gpg\n")
        self.assertEqual(self.mirror("a.sources", text), ("http://mirror/debian", "/key.gpg"))

    def test_lines(self):
        text = ("deb-src http://src/debian trixie main\ndeb https://cloud/x cloud main\n"
                "deb [arch=amd64 signed-by=/k.gpg] http://mirror/debian trixie main contrib\n")
        self.assertEqual(self.mirror("sources.list", text), ("http://mirror/debian", "/k.gpg"))

    def test_none(self):
        with self.assertRaises(packages.Unavailable):
            self.mirror("sources.list", "deb http://archive/ubuntu noble main\n")

    def test_silent_mirror(self):
        """What does not answer is not there."""
        with tempfile.TemporaryDirectory() as folder:
            suite = packages.Suite(folder, "sid", "amd64", pathlib.Path(folder) / "log", patience=0.2)
            (suite.folder / "apt").mkdir(parents=True)
            silent = pathlib.Path(folder) / "silent"
            silent.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
            silent.chmod(0o755)
            with self.assertRaisesRegex(packages.Unavailable, "timed out"):
                suite.apt(silent, "update")
            with self.assertRaises(packages.Unavailable):
                suite.apt("/no/such/program", "x")

    def test_parts(self):
        text = ("linux-image-x\n  Depends: linux-image-6.1.0-50-x\n  Depends: kmod\n"
                "  Suggests: linux-doc-6.1\n")
        self.assertEqual(packages.KERNEL_PARTS.findall(text), ["linux-image-6.1.0-50-x"])


class Images(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def test_archive(self):
        """Another reader of the format finds all entries, with their contents."""
        if not shutil.which("cpio"):
            self.check_by_hand()
            return
        self.write()
        out = self.folder / "out"
        out.mkdir()
        with open(self.folder / "a.cpio", "rb") as archive:
            subprocess.run(["cpio", "-i", "-d", "--quiet"], cwd=out, stdin=archive, check=True)
        self.assertEqual((out / "plan").read_text(), "one\n")
        self.assertEqual((out / "opt/x/file").read_bytes(), b"12345")

    def write(self):
        one = self.folder / "file"
        one.write_bytes(b"12345")
        made = image.Image("cc", self.folder)
        made.file(one, "/opt/x/file")
        made.write(self.folder / "a.cpio", {"plan": "one\n"})

    def check_by_hand(self):
        self.write()
        data = (self.folder / "a.cpio").read_bytes()
        names, at = [], 0
        while not names or names[-1] != "TRAILER!!!":
            self.assertEqual(data[at:at + 6], b"070701")
            fields = [int(data[at + 6 + 8 * i:at + 14 + 8 * i], 16) for i in range(13)]
            names.append(data[at + 110:at + 109 + fields[11]].decode())
            at += -(-(110 + fields[11]) // 4) * 4 + -(-fields[6] // 4) * 4
        self.assertLess(names.index("opt"), names.index("opt/x"))
        self.assertLess(names.index("opt/x"), names.index("opt/x/file"))
        self.assertEqual(at, len(data))

    def test_packed_kernel(self):
        plain = b"the kernel" * 100
        packed = gzip.compress(plain)
        head = b"MZ\0\0zimg" + struct.pack("<II", 64, len(packed)) + bytes(8) + b"gzip\0\0\0\0"
        path = self.folder / "vmlinuz"
        path.write_bytes(head.ljust(64, b"\0") + packed + b"rest")
        self.assertEqual(packages.plain_image(path).read_bytes(), plain)
        path.write_bytes(b"MZ\0\0\0\0\0\0 an image")
        self.assertEqual(packages.plain_image(path), path)


class Consoles(unittest.TestCase):
    def told(self, text):
        run, seen = machine.Run(), []
        console = machine.Console(run, lambda *what: seen.append(what))
        for line in text.split("\n"):
            console.line(line)
        return run, seen

    def test_results(self):
        run, seen = self.told("SeaBIOS\n@begin\n@run a:b\n@end a:b 0 1.5\n@run a:c\n  why\n"
                              "[ 1.0] noise@end a:c 139 0.1\n@failed write /x: No such file\n@done")
        self.assertTrue(run.begun and run.done)
        self.assertEqual(run.results["a:b"], ("0", 1.5, []))
        self.assertEqual(run.results["a:c"], ("139", 0.1, ["  why"]))
        self.assertEqual(run.refused, ["write /x: No such file"])
        self.assertEqual([s[0] for s in seen], ["a:b", "a:c"])

    def test_death(self):
        run, _ = self.told("@begin\n@run a:b\n[ 2.0] Kernel panic - not syncing: x")
        self.assertEqual(run.unfinished, "a:b")
        self.assertFalse(run.done)
        self.assertEqual(len(run.troubles), 1)
        self.assertFalse(self.told("[ 1.0] Oops: int3\n")[0].begun)


class Patience(unittest.TestCase):
    """Whether a guest hangs is judged by the time that its emulator had."""

    def boot(self, waited):
        script = "sleep 2; printf '@begin\\n@done\\n'"
        with tempfile.TemporaryDirectory() as folder, \
             unittest.mock.patch.object(machine, "BOOT_SECONDS", 0.5), \
             unittest.mock.patch.object(machine, "waited", waited):
            return machine.boot(["sh", "-c", script], 60, 30, f"{folder}/log", lambda *_: None)

    def test_hangs(self):
        self.assertFalse(self.boot(lambda _: 0).begun)

    def test_starves(self):
        begin = time.monotonic()
        run = self.boot(lambda _: time.monotonic() - begin)
        self.assertTrue(run.begun and run.done)

    def test_waited(self):
        self.assertEqual(machine.waited(0), 0)
        try:
            told = int(pathlib.Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
        except OSError:
            self.skipTest("the kernel does not tell which thread waits")
        self.assertGreaterEqual(machine.waited(os.getpid()), told)


class Verdicts(unittest.TestCase):
    def outcome(self, results, wanted=2, has_begun=True, is_late=False):
        one = outcome.Outcome()
        one.results, one.wanted, one.has_begun, one.is_late = results, wanted, has_begun, is_late
        return one

    def test_whole(self):
        self.assertEqual(self.outcome({"a": "0", "b": "77"}).verdict(), "passed")
        self.assertEqual(self.outcome({"a": "0"}, is_late=True).verdict(), "failed")
        self.assertEqual(self.outcome({"a": "0", "b": "139"}).verdict(), "failed")
        self.assertEqual(self.outcome({}, 0).verdict(), "failed")

    def test_quick(self):
        """Only a guest that came up, with nothing failed and no time left, is too slow."""
        self.assertEqual(self.outcome({"a": "0"}).verdict(["a"]), "passed")
        self.assertEqual(self.outcome({"a": "0"}, is_late=True).verdict(["a", "b"]), "too slow")
        self.assertEqual(self.outcome({"a": "0"}).verdict(["a", "b"]), "failed")
        self.assertEqual(self.outcome({"a": "timeout"}, is_late=True).verdict(["a", "b"]), "failed")
        self.assertEqual(self.outcome({}, has_begun=False, is_late=True).verdict(["a"]), "failed")
        self.assertEqual(self.outcome({"b": "1", "a": "0"}).verdict(["a"]), "failed")


class Rows(unittest.TestCase):
    def test_guest_tests(self):
        """Each program of this folder is run by a row, and each that rows name exists."""
        here = pathlib.Path(__file__).resolve().parent
        programs = {"kernels-" + p.stem.replace("_", "-") for p in here.glob("*.c")}
        named = {name for row in rows.ROWS.values() for name in row.get("guest", {})}
        self.assertEqual(programs, named)

    def test_quick(self):
        self.assertIn(rows.QUICK_ROW, rows.ROWS)
        self.assertFalse(set(rows.QUICK_ALWAYS) & set(rows.QUICK_THEN))


if __name__ == "__main__":
    unittest.main()
