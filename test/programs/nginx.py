# SPDX-License-Identifier: MIT
"""nginx with two workers serves a load of kept-alive and new connections, compressing and proxying
to itself, reloads its configuration meanwhile, and writes one line in its log for every request.

Every answer of a second pass is compared byte for byte with the file served. Workers are forked,
not executed anew, so they are looked at in /proc; the old generation must end by itself.
"""
import gzip
import os
import random
import re
import signal
import socket
import threading
import urllib.request

from harness import children, expect, main, same, wait_for

CONFIG = """
worker_processes 2;
daemon off;
{user}
pid nginx.pid;
error_log stderr warn;
events {{ worker_connections 512; }}
http {{
  access_log access.log;
  types {{ text/plain txt; text/html html; }}
  gzip on; gzip_types text/plain; gzip_min_length 100; gzip_comp_level 4;
  client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp;
  scgi_temp_path tmp; keepalive_requests 200; sendfile off; output_buffers 4 64k;
  server {{
    listen 127.0.0.1:{port};
    location / {{ root files; }}
    location /proxied/ {{ proxy_pass http://127.0.0.1:{port}/; proxy_buffers 16 8k; }}
  }}
}}
"""


def free_port():
  """A port that nobody listens on now."""
  with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    return s.getsockname()[1]


def make_files(session):
  """Files of a few sizes, from one line to megabytes, and the folders of the server."""
  rng, sizes = random.Random(3), {"small": 200, "page": 9000, "medium": 150000, "large": 3000000}
  root = session.path("files")
  for folder in (root, session.path("tmp")):
    os.mkdir(folder)
    os.chmod(folder, 0o777)
  os.chmod(session.work, 0o755)
  for name, size in sizes.items():
    text = "".join(f"{rng.randint(0, 10 ** 9)} line of {name}\n" for _ in range(size // 16))
    with open(os.path.join(root, name + ".txt"), "w", encoding="ascii") as f:
      f.write(text[:size])
  return sizes


def fetch(port, path, packed):
  """One answer, unpacked when it came packed."""
  request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}")
  if packed:
    request.add_header("Accept-Encoding", "gzip")
  with urllib.request.urlopen(request, timeout=30) as answer:
    body = answer.read()
    same(f"encoding of {path}", answer.headers.get("Content-Encoding"), "gzip" if packed else None)
  return gzip.decompress(body) if packed else body


def load(session, ab, port, path, count, headers):
  """One run of ab; all requests must succeed."""
  done = session.run([ab, "-q", "-n", str(count), "-c", "40", *headers,
                      f"http://127.0.0.1:{port}/{path}"], preload=False)
  text = done.out.decode()
  numbers = {k: int(v) for k, v in re.findall(r"(Complete|Failed|Non-2xx) \w+:\s+(\d+)", text)}
  same(f"requests of {path}", (numbers.get("Complete"), numbers.get("Failed"),
                               numbers.get("Non-2xx", 0)), (count, 0, 0))
  return count


def test(session):
  nginx, ab = session.need("nginx", "ab")
  sizes, port = make_files(session), free_port()
  user = "user root;" if os.geteuid() == 0 else ""  # A build tree may be closed to others.
  with open(session.path("nginx.conf"), "w", encoding="ascii") as f:
    f.write(CONFIG.format(port=port, user=user))
  server = session.daemon([nginx, "-p", session.work + "/", "-c", "nginx.conf", "-e", "stderr"])
  first = wait_for("two workers with the library", lambda: sorted(
    pid for pid in children(server.pid) if session.maps_library(pid))[1:] and children(server.pid))
  wait_for("the server listens", lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
  total, unit = 0, 40000 if session.heavy else 8000
  packed = ["-H", "Accept-Encoding: gzip"]
  reload = threading.Timer(0.3, server.send_signal, [signal.SIGHUP])
  for path, count, headers in (("small.txt", unit * 5, ["-k"]),
                               ("medium.txt", unit // 2, packed + ["-k"]),
                               ("page.txt", unit * 2, packed), ("large.txt", unit // 40, packed),
                               ("proxied/medium.txt", unit // 4, []),
                               ("proxied/page.txt", unit, packed)):
    if path == "page.txt":  # Connections that are not kept lose nothing when workers change.
      reload.start()
    total += load(session, ab, port, path, count, headers) * (2 if "proxied" in path else 1)
  reload.join()
  wait_for("the first workers ended", lambda: not set(first) & set(children(server.pid)))
  expect(all(session.maps_library(pid) for pid in children(server.pid)), "a worker of the second "
         "generation does not map the library")
  for name in sizes:
    with open(session.path("files", name + ".txt"), "rb") as f:
      wanted = f.read()
    for prefix, zipped in (("", False), ("", True), ("proxied/", False)):
      same(f"{prefix}{name}", fetch(port, f"{prefix}{name}.txt", zipped) == wanted, True)
      total += 2 if prefix else 1
  session.stop(server, signal.SIGQUIT)
  with open(session.path("access.log"), "rb") as f:
    same("lines in the log", sum(1 for line in f if b'" 200 ' in line), total)
  session.say(f"{total} requests served and logged, workers replaced once under load")


main(test)
