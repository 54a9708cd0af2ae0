#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What has profiles written without a call: a signal, bytes, peaks, memory that runs out.

  check_triggers.py --library LIBRARY --program PROGRAM

PROGRAM is scenes.c.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import pprof

WAIT = 30  # seconds in which a profile must come; it takes a few ms
KEPT = 1 << 20
failures = 0


def expect(holds, what):
    global failures
    if not holds:
        failures += 1
        print(f"FAIL: {what}", flush=True)


class Scene:
    def __init__(self, options, name, **settings):
        self.options, self.name = options, name
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.said = tempfile.TemporaryFile("w+")
        environment = {k: v for k, v in os.environ.items() if not k.lower().startswith("mimalloc_")}
        settings = {"prof": 1, "prof_rate": "64KiB", "prof_at_exit": 0, "show_errors": 1,
                    "prof_file": self.folder / "%n.pb.gz", **settings}
        environment.update({"MIMALLOC_" + k.upper(): str(v) for k, v in settings.items()
                            if v is not None})
        environment["LD_PRELOAD"] = str(options.library.resolve())
        self.process = subprocess.Popen([os.path.abspath(options.program), name], env=environment, text=True,
                                        stdout=subprocess.PIPE, stderr=self.said, cwd=self.folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for path in self.folder.iterdir():
            path.unlink()
        self.folder.rmdir()

    def wait(self):
        self.process.communicate(timeout=WAIT)
        expect(self.process.returncode == 0, f"{self.name}: ends with {self.process.returncode}")

    def has_open(self, path):
        for entry in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                if os.readlink(entry) == str(path):
                    return True
            except FileNotFoundError:
                pass
        return False

    def files(self):
        return sorted(p for p in self.folder.iterdir() if p.suffix != ".part")

    def wait_for(self, count):
        end = time.time() + WAIT
        while len(self.files()) < count and time.time() < end:
            time.sleep(.02)
        return len(self.files())

    def text(self):
        """Without a seek: the process writes where the file is at, which both have in common."""
        file = self.said.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode()

    def check_files(self, least, most, what, kept=KEPT / 4):
        """Whole profiles that hold what is kept; nothing else is in the folder."""
        files = self.files()
        expect(least <= len(files) <= most, f"{what}: {[p.name for p in files]} {self.text()}")
        expect(len(files) == len(list(self.folder.iterdir())), f"{what}: parts of files are left")
        profiles = [pprof.read_pprof(p.read_bytes()) for p in files]
        for profile in profiles:
            live = sum(s.values[3] for s in profile.samples)
            expect(live > kept, f"{what}: {live} bytes are live")
        return [sum(s.values[3] for s in p.samples) for p in profiles]


def check_signal(options):
    with Scene(options, "busy", prof_signal=12) as scene:
        scene.process.stdout.readline()
        for count in (1, 2):
            scene.process.send_signal(signal.SIGUSR2)
            expect(scene.wait_for(count) == count, "a signal brings a profile")
        expect(scene.process.poll() is None, "the program goes on")
        scene.check_files(2, 2, "signal")
    with Scene(options, "idle", prof_signal=12, background_purge=1) as scene:
        scene.process.stdout.readline()
        scene.process.send_signal(signal.SIGUSR2)
        expect(scene.wait_for(1) == 1, "a program that sleeps writes a profile, too")
        scene.check_files(1, 1, "idle")
    # The same signal for both.
    with Scene(options, "busy", prof_signal=12, report_signal=12) as scene:
        scene.process.stdout.readline()
        scene.process.send_signal(signal.SIGUSR2)
        expect(scene.wait_for(1) == 1, "one signal for both: the profile")
        expect("memory report" in scene.text(), "one signal for both: the report")
    with Scene(options, "own", prof_signal=12) as scene:
        scene.wait()
        scene.check_files(0, 0, "a handler of the program's")
    with Scene(options, "grow", prof_signal=9) as scene:
        scene.wait()
        expect("option prof_signal: signal 9 cannot be taken" in scene.text(), "SIGKILL is refused")
    with Scene(options, "busy", prof_signal=12, prof=None) as scene:
        scene.process.stdout.readline()
        scene.process.send_signal(signal.SIGUSR2)
        end = time.time() + WAIT
        while "never started" not in scene.text() and time.time() < end:
            time.sleep(.02)
        expect("never started" in scene.text(), f"without samples: {scene.text()}")
        scene.check_files(0, 0, "without samples")
    with Scene(options, "busy", prof_signal=12, prof_file=None) as scene:
        scene.process.stdout.readline()
        scene.process.send_signal(signal.SIGUSR2)
        expect(scene.wait_for(1) == 1, "without a name")
        expect(scene.files()[0].name == f"mimalloc.{scene.process.pid}.0.pb.gz", "the name")
    with Scene(options, "busy", prof_signal=12, prof_file="/nowhere/%n.pb") as scene:
        scene.process.stdout.readline()
        scene.process.send_signal(signal.SIGUSR2)
        end = time.time() + WAIT
        while "unable to write" not in scene.text() and time.time() < end:
            time.sleep(.02)
        expect("unable to write" in scene.text(), "a folder that is not there is said")
        expect(scene.process.poll() is None, "and the program goes on")


def check_places(options):
    """What is no file of its own is written to, and stays what it is."""
    with tempfile.TemporaryDirectory() as folder:
        pipe, link, target, full = (pathlib.Path(folder) / name
                                    for name in ("p.pb.gz", "l.pb.gz", "t", "full"))
        os.mkfifo(pipe)
        link.symlink_to(target)
        full.symlink_to("/dev/full")
        with Scene(options, "grow", prof_at_exit=1, prof_file=pipe) as scene:
            scene.wait()
            expect("unable to write" in scene.text(), "a pipe that nobody reads")
        expect(pipe.is_fifo(), "a pipe stays one")
        reads = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        with Scene(options, "grow", prof_at_exit=1, prof_file=pipe) as scene:
            scene.wait()  # so much fits into a pipe
        expect(pprof.read_pprof(os.read(reads, 1 << 16)).samples, "a pipe")
        os.close(reads)
        # The reader leaves when it is full: the signal for that ends no program.
        reads = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        writes = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        try:
            while True:
                os.write(writes, bytes(1 << 12))
        except BlockingIOError:
            os.close(writes)
        with Scene(options, "grow", prof_at_exit=1, prof_file=pipe) as scene:
            end = time.time() + WAIT
            while not scene.has_open(pipe) and time.time() < end:
                time.sleep(.02)
            os.close(reads)
            scene.wait()
            expect("unable to write" in scene.text(), "a pipe that is left")
        with Scene(options, "grow", prof_at_exit=1, prof_file=link) as scene:
            scene.wait()
        expect(link.is_symlink() and pprof.read_pprof(target.read_bytes()).samples, "a link")
        with Scene(options, "grow", prof_at_exit=1, prof_file=full) as scene:
            scene.wait()
            expect("unable to write" in scene.text(), "a device that is full")
        expect(full.is_symlink(), "the way to a device stays one")
        expect(len(list(pathlib.Path(folder).iterdir())) == 4, "nothing is left beside them")


def check_bytes(options):
    # It allocates 129 MiB, and 65 MiB are the peak.
    with Scene(options, "grow", prof_interval="16MiB") as scene:
        scene.wait()
        scene.check_files(6, 9, "interval")
    with Scene(options, "grow", prof_peak="16MiB") as scene:
        scene.wait()
        sizes = scene.check_files(3, 5, "peak")
        expect(all(b - a >= 15 << 20 for a, b in zip(sizes, sizes[1:])), f"peaks: {sizes}")
    with Scene(options, "grow") as scene:
        scene.wait()
        scene.check_files(0, 0, "nothing")
    with Scene(options, "stack", prof_peak="1") as scene:
        scene.wait()
        scene.check_files(10, 200, "a small stack", 0)


def check_limit(options):
    with Scene(options, "out", prof_at_limit=1) as scene:
        scene.wait()
        sizes = scene.check_files(1, 1, "memory runs out")
        expect(sizes and sizes[0] > 100 << 20, f"what was live then: {sizes}")
    with Scene(options, "out") as scene:
        scene.wait()
        scene.check_files(0, 0, "memory runs out, and nobody asks")
    for hard in (0, 1):
        with Scene(options, "grow", prof_at_limit=1, memory_limit="32MiB",
                   memory_limit_hard=hard) as scene:
            scene.wait()
            # It may be reached at the begin of the second round, while the first one's blocks wait to be
            # purged; then there is no more than what is kept, 16 blocks, of which some are sampled.
            scene.check_files(1, 1, f"the limit is reached, hard {hard}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True, type=pathlib.Path)
    parser.add_argument("--program", required=True)
    options = parser.parse_args()
    check_signal(options)
    check_places(options)
    check_bytes(options)
    check_limit(options)
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
