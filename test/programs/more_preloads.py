# SPDX-License-Identifier: MIT
"""Libraries that are preloaded beside an allocator and come between a program and its C library:
each in front of it and behind it."""
import glob

from harness import Skipped, expect

FOLDERS = ["/usr/lib/*-linux-gnu", "/lib/*-linux-gnu", "/usr/lib"]
# What makes each of them do something.
LIBRARIES = {
  "libeatmydata.so": {},
  "faketime/libfaketimeMT.so.1": {"FAKETIME": "@2008-12-24 08:15:42", "FAKETIME_DONT_FAKE_MONOTONIC": "1"},
  "nocache/nocache.so": {},
  "libsnoopy.so": {},
  "libnss_wrapper.so": {"NSS_WRAPPER_PASSWD": "passwd", "NSS_WRAPPER_GROUP": "group"},
  "libuid_wrapper.so": {"UID_WRAPPER": "1", "UID_WRAPPER_ROOT": "1"},
  "libsocket_wrapper.so": {"SOCKET_WRAPPER_DIR": ".", "SOCKET_WRAPPER_DEFAULT_IFACE": "10"},
}
# Threads, a fork, a program that is started, a socket, the time, an account and a file that is written out.
WORK = """import os, pwd, socket, subprocess, sys, threading, time
def work(n): found.append(sum(len(str(i) * (i % 90)) for i in range(20000)))
found = []
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for t in threads: t.start()
child = os.fork()
if child == 0:
  work(0)
  os._exit(len(found) > 0 and 7)
for t in threads: t.join()
status = os.waitpid(child, 0)[1]
said = subprocess.run(["/bin/echo", "said"], stdout=subprocess.PIPE, check=True).stdout
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
other = server.accept()[0]
other.sendall(b"x" * 50000); other.close()
got = 0
while True:
  part = client.recv(4096)
  if not part: break
  got += len(part)
with open("written", "wb") as f:
  f.write(b"y" * 300000); f.flush(); os.fsync(f.fileno())
print(set(found), status, said, got, os.stat("written").st_size, pwd.getpwnam("root").pw_dir, os.getuid(),
      time.time() < 1300000000)
"""
# The owners that tar writes down are those that were asked for.
ROOT = """mkdir -p d/a && chown 123:456 d d/a && chmod 4755 d/a && seq 1 20000 > d/x && chown 7:8 d/x &&
tar -cf d.tar d && tar --numeric-owner -tvf d.tar | awk '{print $1, $2, $3, $6}' && id -u"""


def find(name):
  return next((path for folder in FOLDERS for path in glob.glob(f"{folder}/{name}")), None)


def preloads(side):
  found = {name: find(name) for name in LIBRARIES}
  if missing := [name for name, path in found.items() if path is None]:
    raise Skipped(f"not installed: {' '.join(missing)}")
  python = side.need("/usr/bin/python3")
  side.write("work.py", WORK)
  side.write("passwd", "root:x:0:0:root:/elsewhere:/bin/sh\n")
  side.write("group", "root:x:0:\n")
  answers = []
  for name, env in LIBRARIES.items():
    for order in f"{found[name]}:$LD_PRELOAD", f"$LD_PRELOAD:{found[name]}":
      answer = side.run(["/bin/sh", "-c", f'LD_PRELOAD="{order}" exec {python} work.py'], env=env)
      expect(answer.endswith(b"\n") and b"1792 b'said\\n' 50000 300000" in answer,
             f"{name}: {answer.decode()}")
      expect((b"/elsewhere" in answer) == ("nss" in name), f"{name} does nothing: {answer.decode()}")
      expect((b" True" in answer) == ("faketime" in name), f"{name} does nothing: {answer.decode()}")
      answers.append(answer)
  fakeroot = side.need("fakeroot")
  answers.append(side.run([fakeroot, "sh", "-c", ROOT]))
  expect(b"123/456" in answers[-1] and answers[-1].endswith(b"\n0\n"), answers[-1].decode())
  return answers


PROGRAMS = {"preloads": preloads}
