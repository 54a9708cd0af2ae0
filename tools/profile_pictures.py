#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the pictures of docs/profiles: a Python server and redis under load, by pprof.

  profile_pictures.py LIBRARY

It needs pprof (go install github.com/google/pprof@latest), graphviz, redis-server with
redis-benchmark, and a python3 with symbols.
"""

import http.client
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PICTURES = pathlib.Path(__file__).resolve().parent.parent / "docs" / "profiles"
SERVER = """
import http.server, json, sys
sessions, index = {}, {}
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        user = self.path
        sessions.setdefault(user, []).append(json.loads('{"seen": [%s]}' % ",".join(map(str, range(1000, 1200)))))
        for word in (user + str(i) for i in range(50)):
            index.setdefault(word, set()).add(user)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def environment(library, file):
    return dict(os.environ, LD_PRELOAD=str(library), MIMALLOC_PROF="1", MIMALLOC_PROF_SIGNAL="12",
                MIMALLOC_PROF_RATE="64KiB", MIMALLOC_PROF_FILE=str(file), PYTHONMALLOC="malloc",
                MIMALLOC_BACKGROUND_PURGE="1")


def connect(port):
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(.05)
    raise RuntimeError("the server does not answer")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def profile_of(process, file, poke):
    process.send_signal(signal.SIGUSR2)
    for _ in range(200):
        poke()
        if file.exists():
            process.terminate()
            process.wait()
            return file
        time.sleep(.05)
    raise RuntimeError("there is no profile")


def python_server(library, work):
    port, file = free_port(), work / "python.pb.gz"
    python = os.path.realpath(sys.executable)
    process = subprocess.Popen([python, "-c", SERVER, str(port)], env=environment(library, file))
    connect(port)

    def ask(user):
        connection.request("GET", f"/user{user}")
        connection.getresponse().read()

    connection = http.client.HTTPConnection("127.0.0.1", port)
    for i in range(3000):
        ask(i % 1000)
    return python, profile_of(process, file, lambda: ask(0))


def redis(library, work):
    port, file = free_port(), work / "redis.pb.gz"
    program = shutil.which("redis-server")
    process = subprocess.Popen([program, "--port", str(port), "--save", "", "--dir", str(work)],
                               env=environment(library, file), stdout=subprocess.DEVNULL)
    connect(port)

    def load(*tests, count):
        subprocess.run(["redis-benchmark", "-p", str(port), "-q", "-r", "1000000", "-n", str(count),
                        "-d", "200", "-P", "16", "-t", ",".join(tests)], check=True,
                       stdout=subprocess.DEVNULL)

    load("set", "hset", "sadd", "lpush", "zadd", count=200000)
    return program, profile_of(process, file, lambda: load("set", count=1000))


def draw(name, program, profile):
    picture = PICTURES / f"{name}.svg"
    # As `pprof -svg`, but without a script in it and without what tells of the machine.
    graph = subprocess.run(["pprof", "-dot", "-nodecount=30", program, profile], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    graph = re.sub(r"Build ID: \w+\\l|Time: [^\\]*\\l", "", graph)
    subprocess.run(["dot", "-Tsvg", "-Gsize=16,12", "-o", picture], input=graph, text=True, check=True)
    print(picture)


def main():
    library = pathlib.Path(sys.argv[1]).resolve()
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        draw("python-server", *python_server(library, pathlib.Path(scratch)))
        draw("redis", *redis(library, pathlib.Path(scratch)))


if __name__ == "__main__":
    main()
