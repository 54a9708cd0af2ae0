# SPDX-License-Identifier: MIT
"""A program under gdb: what its user does between start and end, and whether it then ends well."""
import os
import shutil
import signal
import subprocess
import time

IMPOSSIBLE = 75
COMMON = ["-batch", "-nx", "-iex", "set debuginfod enabled off", "-ex", "set pagination off"]
# Where it all begins: behind the dynamic linker, which allocates, too.
START = ["tbreak main", "run", "info sharedlibrary"]
SCENES = {
  # Stops in malloc and free, looks at the stack, goes on.
  "breakpoints": START + ["break malloc", "break free", *["continue", "backtrace 4"] * 8, "delete",
                          "continue"],
  # Through malloc, free and what they call, instruction by instruction.
  "stepping": START + ["tbreak realloc", "continue", "stepi 3000", "backtrace 4", "finish",
                       "continue"],
  # The debugger calls malloc and free of the stopped program, in the middle of it.
  "calls": START + ["break free", "ignore 2 20", "continue", "delete",
                    "set $p = ((void*(*)(unsigned long))malloc)(5000)", "print $p != 0",
                    "call ((void(*)(void*))free)($p)", "continue"],
  # It follows the child of a fork to its end.
  "fork": ["set follow-fork-mode child", "set detach-on-fork on", *START, "break free", "continue",
           "delete", "continue"],
}


def gdb(arguments, seconds=60):
  done = subprocess.run([shutil.which("gdb"), *COMMON, *arguments], text=True, errors="replace",
                        capture_output=True, timeout=seconds, stdin=subprocess.DEVNULL, check=False)
  return done.stdout + done.stderr


def attach(command, env):
  """Attached three times while the program's threads allocate, and detached: it ends as if nothing had
  been."""
  process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             text=True)
  try:
    for _ in range(3):
      time.sleep(0.3)
      text = gdb(["-p", str(process.pid), "-ex", "thread apply all backtrace 5", "-ex", "stepi 200",
                  "-ex", "detach"])
      if "Could not attach to process" in text or "ptrace: Operation not permitted" in text:
        return IMPOSSIBLE, "", "this machine lets nobody attach"
      if "detached" not in text:
        return 1, "", text[-2000:]
    process.send_signal(signal.SIGUSR1)
    _, err = process.communicate(timeout=60)
    return process.returncode, "", err
  finally:
    process.kill()
    process.wait()


def run(scene, command, library):
  """Status, output and errors of the program under one scene."""
  if shutil.which("gdb") is None:
    return IMPOSSIBLE, "", "gdb is not there"
  env = {k: v for k, v in os.environ.items() if not k.startswith(("LD_", "MIMALLOC_"))}
  preload = [] if library is None else ["-ex", f"set environment LD_PRELOAD {library}"]
  try:
    if scene == "attach":
      if library is not None:
        env["LD_PRELOAD"] = library
      return attach(command, env)
    steps = [part for step in SCENES[scene] for part in ("-ex", step)]
    text = gdb(["-ex", "set startup-with-shell off", *preload, *steps, "--args", *command])
  except subprocess.TimeoutExpired:
    return "hangs", "", "no end under gdb"
  if "Could not trace the inferior" in text or "ptrace: Operation not permitted" in text:
    return IMPOSSIBLE, "", "this machine lets nobody trace"
  served = library is None or os.path.basename(library) in text
  ended = "exited normally" in text and "SIG" not in text
  return (0 if ended and served else 1), "", "" if ended and served else text[-3000:]
