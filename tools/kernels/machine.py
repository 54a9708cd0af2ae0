# SPDX-License-Identifier: MIT
"""The emulated machines: how one is started, and what its console says."""

import glob
import os
import re
import selectors
import signal
import subprocess
import time

# What each architecture is emulated by, and where its kernels write to.
SYSTEMS = {
    "amd64": {"program": "qemu-system-x86_64", "console": "ttyS0", "machine": "pc",
              # QEMU 7.2 spoils the flags register by a cmpxchg16b without a lock prefix, which kernels
              # use where they have it: double faults, traps of single steps, returns to nowhere.
              # A busy machine's emulated timer may be late when the kernel looks for it.
              "cpu": "max,la57=off,-cx16", "parameters": ["no_timer_check"]},
    "arm64": {"program": "qemu-system-aarch64", "console": "ttyAMA0", "machine": "virt",
              "cpu": "max,pauth-impdef=on"},
}
# A kernel that has not come up after these is taken as hanging. Seconds for which the emulator waited
# for a processor, which others had, do not count.
BOOT_SECONDS = 90


class Run:
    """What a guest told: {test: (status, seconds, output)}, in the order in which they ran."""

    def __init__(self):
        self.results = {}
        self.refused, self.troubles = [], []  # instructions that failed; what the kernel said
        self.begun = self.done = False
        self.unfinished = None


class Console:
    """Reads the lines of init.c, and what the kernel says between."""

    def __init__(self, run, progress):
        self.run, self.progress, self.output = run, progress, []

    def line(self, text):
        run = self.run
        if text == "@begin":
            run.begun = True
        elif text == "@done":
            run.done = True
        elif text.startswith("@failed "):
            run.refused.append(text[8:])
        elif text.startswith("@run "):
            run.unfinished, self.output = text[5:], []
        elif found := re.fullmatch(r"(.*?)@end (\S+) (\S+) ([\d.]+)", text):
            status, seconds = found.group(3), float(found.group(4))
            run.results[found.group(2)] = (status, seconds, self.output)
            run.unfinished = None
            self.progress(found.group(2), status, seconds, self.output)
        else:
            self.output.append(text)
            if re.search(r"Kernel panic|BUG:|Oops", text):
                run.troubles.append(text.strip())


def command(architecture, kernel, archive, machine):
    """The emulator's command line. `machine` may change what a plain one has."""
    system = SYSTEMS[architecture]
    parameters = [f"console={system['console']}", "panic=-1", "loglevel=3", "rdinit=/init",
                  *system.get("parameters", []), *machine.get("parameters", [])]
    return [system["program"], "-accel", "tcg,thread=multi", "-machine",
            machine.get("machine", system["machine"]), "-cpu", machine.get("cpu", system["cpu"]),
            "-smp", str(machine.get("processors", 2)), "-m", str(machine.get("memory", 4000)),
            "-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot",
            "-kernel", str(kernel), "-initrd", str(archive), "-append", " ".join(parameters),
            *machine.get("devices", [])]


def boot(arguments, seconds, silence, log, progress):
    """Runs a guest until it turns itself off, for so many seconds, or until it has been silent for
    so long that it must hang."""
    run = Run()
    with open(log, "ab") as out:
        out.write((" ".join(arguments) + "\n").encode())
        process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            watch(process, Console(run, progress), time.monotonic() + seconds, silence, out)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
    return run


def waited(pid):
    """Seconds for which the thread of a process that waited longest was kept from the processors; 0
    where the system does not tell."""
    most = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        try:
            with open(path, encoding="ascii") as file:
                most = max(most, int(file.read().split()[1]))
        except (OSError, ValueError, IndexError):  # the thread is gone
            pass
    return most / 1e9


def watch(process, console, end, silence, out):
    selector = selectors.DefaultSelector()
    selector.register(process.stdout, selectors.EVENT_READ)
    begin, rest = time.monotonic(), b""
    heard = 0  # seconds that it had of its own until then
    while not console.run.done:
        now = time.monotonic()
        own = now - begin - waited(process.pid)
        if now > end or own > (heard + silence if console.run.begun else BOOT_SECONDS):
            return
        if not selector.select(1):
            continue
        data = os.read(process.stdout.fileno(), 65536)
        if not data:
            return
        heard = own
        out.write(data)
        out.flush()
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            console.line(line.decode(errors="replace").rstrip("\r"))
    try:  # it may hang on its way down, which is nobody's concern
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        pass
