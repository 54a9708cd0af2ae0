#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program with raised rights takes no orders from the environment of the user who started it.

  raised.py PROGRAM     PROGRAM is raised.c, linked to the archive

Copies of the program, of which one is set-user-id root, one set-group-id and one has a capability,
are run by an ordinary user with MIMALLOC_ variables. The plain copy obeys them; the others behave
like one that has none of them, and say nothing. Needs root and a folder without `nosuid`: ends with
77 where there is none.
"""

import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile

USER = 65534
ORDERS = {
    "MIMALLOC_VERBOSE": "2",
    "MIMALLOC_SHOW_ERRORS": "1",
    "MIMALLOC_SHOW_STATS": "1",
    "mimalloc_purge_delay": "77",
    "MIMALLOC_STATS": "1",
    "MIMALLOC_RESET_DELAY": "11",
    "MIMALLOC_DISALLOW_OS_ALLOC": "0",
    "MIMALLOC_MEMORY_LIMIT": "garbage",
    "MIMALLOC_ARENA_RESERVE": "64MiB",
    "MIMALLOC_ABORT_ON_ERROR": "1",
    "MIMALLOC_LEAK_REPORT": "2",
}
# VFS_CAP_REVISION_2 and effective; CAP_NET_BIND_SERVICE permitted, nothing inheritable.
CAPABILITY = struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0)


def can_be_entered(folder):
    """Whether any user comes here, and set-user-id means something."""
    if os.statvfs(folder).f_flag & os.ST_NOSUID:
        return False
    while True:
        if not os.stat(folder).st_mode & stat.S_IXOTH:
            return False
        if folder == "/":
            return True
        folder = os.path.dirname(folder)


def place(beside):
    for parent in (beside, "/var/tmp", "/tmp", "/usr/local", "/opt"):
        try:
            folder = tempfile.mkdtemp(prefix="mimalloc-raised-", dir=parent)
        except OSError:
            continue
        os.chmod(folder, 0o755)
        if can_be_entered(folder):
            return folder
        shutil.rmtree(folder)
    return None


def run(program, variables):
    done = subprocess.run([program], env=variables, user=USER, group=USER, extra_groups=[],
                          capture_output=True, text=True, timeout=60, check=False)
    values = dict(line.split("=") for line in done.stdout.splitlines() if "=" in line)
    return done.returncode, values.pop("raised", "none"), values, done.stderr


def copies(program, folder):
    """The plain copy, and those with more rights than their user, by kind."""
    def copy(name):
        path = os.path.join(folder, name)
        shutil.copyfile(program, path)
        os.chmod(path, 0o755)
        return path

    plain, raised = copy("plain"), {}
    path = copy("set-user-id")
    os.chown(path, 0, 0)
    os.chmod(path, 0o4755)
    raised["set-user-id"] = path
    path = copy("set-group-id")
    os.chown(path, 0, 0)
    os.chmod(path, 0o2755)
    raised["set-group-id"] = path
    path = copy("capability")
    try:
        os.setxattr(path, "security.capability", CAPABILITY)
        raised["file capability"] = path
    except OSError as error:
        print(f"no file capabilities here: {error}")
    return plain, raised


def check(plain, raised):
    failed = 0
    code, is_raised, defaults, said = run(plain, {})
    assert (code, is_raised, said) == (0, "0", ""), (code, is_raised, said)
    code, is_raised, obeyed, said = run(plain, ORDERS)
    assert (code, is_raised) == (0, "0") and obeyed != defaults and "process done" in said, said
    seen = 0
    for kind, path in raised.items():
        code, is_raised, values, said = run(path, ORDERS)
        if is_raised == "0":
            print(f"{kind}: the system gives no rights here")
            continue
        seen += 1
        changed = [f"option {k}: {v} for {defaults[k]}" for k, v in values.items()
                   if v != defaults[k]]
        if code != 0 or is_raised != "1" or changed or said:
            print(f"{kind}: status {code}, {', '.join(changed)}; said {said[:300]!r}")
            failed += 1
        else:
            print(f"{kind}: takes no orders")
    return failed, seen


def main():
    program = sys.argv[1]
    if os.geteuid() != 0:
        print("only root can give away rights")
        return 77
    folder = place(os.path.dirname(os.path.abspath(program)))
    if folder is None:
        print("every folder for all users is mounted nosuid")
        return 77
    try:
        failed, seen = check(*copies(program, folder))
    finally:
        shutil.rmtree(folder)
    if seen == 0:
        print("no copy got more rights: no_new_privs, perhaps")
        return 77
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
