# SPDX-License-Identifier: MIT
"""redis-server under redis-benchmark, with saves by a forked child in the middle of the load.

Redis may be linked with an allocator of its own under the plain names; the proof of the bindings
shows that the library stands in front of it. Counters and lists have known lengths afterwards,
the file that the child saved must check clean, and the whole data set, saved and loaded by a
second server on the system's malloc, must have the same digest. Lazy freeing is on, so that
blocks are freed by another thread than the one that made them.
"""
import subprocess
import threading

from harness import children, expect, main, same, wait_for

SERVER = ["--port", "0", "--unixsocket", "redis.sock", "--save", "", "--dir", ".",
          "--enable-debug-command", "yes", "--lazyfree-lazy-user-del", "yes",
          "--lazyfree-lazy-server-del", "yes", "--hash-max-listpack-entries", "16"]


class Client:
  """Talks to the server through redis-cli."""

  def __init__(self, session, program):
    self.session, self.program = session, program

  def __call__(self, *words):
    return subprocess.run([self.program, "-s", "redis.sock", *words], cwd=self.session.work,
                          capture_output=True, text=True, check=False).stdout.strip()

  def info(self, field):
    lines = self("INFO").splitlines()
    return next((x.split(":", 1)[1].strip() for x in lines if x.startswith(field + ":")), None)

  def ready(self):
    wait_for("the server answers", lambda: self("PING") == "PONG", 30)


def save_by_child(session, ask, server, saves, loaded):
  """Starts saves as long as the load lasts, and sees their children at work."""
  while not loaded.is_set():
    before = ask.info("rdb_last_save_time")
    expect("started" in ask("BGSAVE"), "BGSAVE did not start")
    seen = []
    while ask.info("rdb_bgsave_in_progress") == "1":
      for pid in children(server.pid):
        if session.maps_library(pid) and pid not in seen:
          seen.append(pid)
    same("status of the forked save", ask.info("rdb_last_bgsave_status"), "ok")
    saves.append((before, seen))
    loaded.wait(0.3)


def load(session, bench, total, size):
  """Runs the load; returns the names of the commands that it did."""
  options = ["-s", "redis.sock", "-c", "40", "-P", "16", "-d", str(size), "--csv"]
  names = []
  for tests, count, keys in (("set,hset,sadd,zadd", total, total), ("incr,lpush,rpush", total, 0),
                             ("lpop,rpop,lrange_100", total // 20, 0), ("get,set", total, total)):
    spread = ["-r", str(keys)] if keys else []
    done = session.run([bench, *options, *spread, "-n", str(count), "-t", tests], preload=False)
    names += [x.split(",")[0].strip('"') for x in done.out.decode().splitlines()[1:]]
  return names


def test(session):
  redis, bench, cli, check = session.need("redis-server", "redis-benchmark", "redis-cli",
                                          "redis-check-rdb")
  total = 640000 if session.heavy else 240000  # Full pipelines: multiples of 16 * 20.
  ask = Client(session, cli)
  server = session.daemon([redis, *SERVER])
  ask.ready()
  loaded, saves, names = threading.Event(), [], []

  def client():
    try:
      names.extend(load(session, bench, total, 180))
    finally:
      loaded.set()

  worker = threading.Thread(target=client)
  worker.start()
  loaded.wait(0.3)
  save_by_child(session, ask, server, saves, loaded)
  worker.join()
  expect({"SET", "HSET", "SADD", "ZADD", "INCR", "LPUSH", "RPUSH", "LPOP", "RPOP", "GET"}
         <= set(names), f"redis-benchmark did not finish: {names}")
  expect(any(seen for _, seen in saves), "no forked child was seen to map the library")
  session.say(f"{total} requests a command, {len(saves)} saves by a forked child during them")
  # Two pushes of `total` each, two pops of a twentieth each, and the pushes before LRANGE.
  pushed = 2 * total - 2 * (total // 20) + total // 20
  same("length of the list", ask("LLEN", "mylist"), str(pushed))
  same("counter", ask("GET", "counter:__rand_int__"), str(total))
  session.run([check, "dump.rdb"])
  digest = ask("DEBUG", "DIGEST")
  expect(len(digest) == 40 and digest != "0" * 40, f"no digest: {digest}")
  same("save", ask("SAVE"), "OK")
  same("reload", ask("DEBUG", "RELOAD"), "OK")
  same("digest after a reload", ask("DEBUG", "DIGEST"), digest)
  same("flush", ask("FLUSHALL", "ASYNC"), "OK")
  same("keys after the flush", ask("DBSIZE"), "0")
  ask("SHUTDOWN", "NOSAVE")
  session.stop(server, number=None)
  other = session.daemon([redis, *SERVER], preload=False)
  ask.ready()
  same("digest on the system's malloc", ask("DEBUG", "DIGEST"), digest)
  ask("SHUTDOWN", "NOSAVE")
  session.stop(other, number=None)


main(test)
