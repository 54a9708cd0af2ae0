# SPDX-License-Identifier: MIT
"""Servers: each is started on the malloc under test and driven by clients that are not."""
import glob
import hashlib
import os
import random
import shutil
import signal
import socket
import threading
import zlib

from harness import Skipped, expect, same, wait_for

QUERIES = """
CREATE DATABASE t; USE t;
CREATE TABLE a (i INT PRIMARY KEY, k INT, s VARCHAR(200), b BLOB, INDEX (k)) ENGINE=InnoDB;
INSERT INTO a SELECT seq, seq * 7919 % 10007, REPEAT(MD5(seq), seq % 5 + 1), REPEAT('b', seq % 900)
  FROM seq_1_to_40000;
SELECT COUNT(*), SUM(k), SUM(LENGTH(s)), SUM(LENGTH(b)) FROM a;
SELECT LEFT(s, 2) AS p, COUNT(*), MAX(i) FROM a GROUP BY p ORDER BY p LIMIT 40;
SELECT COUNT(*) FROM a JOIN a AS c ON a.k = c.i WHERE c.s LIKE '%abc%';
CREATE TABLE m ENGINE=Aria AS SELECT k, GROUP_CONCAT(i ORDER BY i) AS l FROM a GROUP BY k;
SELECT COUNT(*), SUM(LENGTH(l)), MD5(GROUP_CONCAT(l ORDER BY k)) FROM m WHERE k < 500;
UPDATE a SET s = UPPER(s) WHERE k % 3 = 0; DELETE FROM a WHERE i % 7 = 0;
SELECT JSON_LENGTH(JSON_ARRAYAGG(s)) FROM a WHERE i < 2000;
SELECT COUNT(*) FROM a WHERE s REGEXP '^[0-9]{3}.*[A-F]$';
ALTER TABLE a ADD COLUMN z INT DEFAULT 5, ADD FULLTEXT (s); CHECK TABLE a, m;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 900)
  SELECT SUM(n) FROM r;
"""
THREAD = "USE t; SELECT COUNT(*), SUM(i) FROM a WHERE k > {k} ORDER BY MD5(s);" * 20


def in_threads(count, run):
  """Calls run(k) for each k below count, each in a thread of its own."""
  threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
  for t in threads:
    t.start()
  for t in threads:
    t.join()


def mariadb(side):
  """A fresh data folder, queries of many kinds, eight clients at once, an orderly end."""
  server, install, client = side.need("mariadbd", "mariadb-install-db", "mariadb")
  data, sock = side.path("data"), side.path("s")
  who = ["--user=root"] if os.geteuid() == 0 else []
  side.run([install, "--no-defaults", *who, f"--datadir={data}", "--auth-root-authentication-method"
            "=normal", "--skip-test-db"], watch=False)
  process = side.server([server, "--no-defaults", *who, f"--datadir={data}", f"--socket={sock}",
                         "--skip-networking", "--innodb-buffer-pool-size=32M",
                         "--innodb-flush-log-at-trx-commit=0", f"--pid-file={side.path('pid')}"])
  ask = [client, "--no-defaults", "-uroot", f"--socket={sock}", "-N"]
  wait_for("the server answers", lambda: process.poll() is not None or os.path.exists(sock) and
           side.tool(ask + ["-e", "SELECT 1"], status=None) == b"1\n")
  out = side.tool(ask, feed=QUERIES)
  parts = [b""] * 8

  def query(k):
    parts[k] = side.tool(ask, feed=THREAD.format(k=k * 1000))

  in_threads(8, query)
  side.stop(process, signal.SIGTERM)
  return out, parts


def memcached(side):
  """Values of all sizes set, read back, counted up, expired and evicted over six connections."""
  program, path = side.need("memcached"), side.path("m")
  process = side.server([program, "-s", path, "-m", "128", "-t", "4", "-I", "2m"] +
                        (["-u", "root"] if os.geteuid() == 0 else []))
  wait_for("the server listens", lambda: os.path.exists(path))
  sums = [0] * 6

  def client(k):
    pick = random.Random(k)
    with socket.socket(socket.AF_UNIX) as link:
      link.connect(path)
      stream = link.makefile("rwb")
      for i in range(6000):
        size = pick.randrange(1, 3000 if i % 100 else 200000)
        data = bytes([i % 251]) * size
        stream.write(b"set %d:%d 0 0 %d\r\n%s\r\nget %d:%d\r\n" % (k, i % 900, size, data, k, i % 900))
        stream.flush()
        same("answer", stream.readline(), b"STORED\r\n")
        head = stream.readline().split()
        same("size", int(head[3]), size)
        sums[k] = zlib.crc32(stream.read(size + 2), sums[k])
        same("end", stream.readline(), b"END\r\n")

  in_threads(6, client)
  side.stop(process, signal.SIGTERM)
  expect(all(sums), "a client stopped early")
  return sums


APACHE = """
ServerRoot "{root}"
ServerName localhost
PidFile "{root}/pid"
ErrorLog "{root}/errors"
Mutex file:{root}
TypesConfig /dev/null
ServerLimit 4
MaxRequestWorkers 64
Listen 127.0.0.1:{port}
{modules}
{user}
StartServers 2
ThreadsPerChild 16
DocumentRoot "{root}/site"
<Directory "{root}/site">
  Require all granted
  Options +Includes +Indexes
  AddOutputFilter INCLUDES;DEFLATE .html
  AddType text/html .html
</Directory>
"""
MODULES = "mpm_event authz_core authn_core dir mime filter deflate include rewrite autoindex".split()


def free_port():
  with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    return s.getsockname()[1]


def apache(side):
  """Threads of two processes serve files, included parts, listings and compressed text."""
  server, ab = side.need("apache2", "ab")
  folder = "/usr/lib/apache2/modules"
  if not os.path.isdir(folder):
    raise Skipped(f"{folder} not found")
  root, port = side.path("apache"), free_port()
  os.makedirs(root + "/site/list")
  for n in range(200):
    with open(f"{root}/site/list/file{n}", "w", encoding="ascii") as f:
      f.write(f"{n} " * n)
  for n in range(20):
    with open(f"{root}/site/page{n}.html", "w", encoding="ascii") as f:
      f.write(f'<p>{"word " * (n * 300)}<!--#include virtual="/list/file{n + 9}" --></p>\n' * 3)
  modules = "\n".join(f"LoadModule {m}_module {folder}/mod_{m}.so" for m in MODULES)
  user = "User www-data\nGroup www-data" if os.geteuid() == 0 else ""
  for path in (os.path.dirname(side.folder), side.folder):
    os.chmod(path, 0o755)
  with open(root + "/conf", "w", encoding="ascii") as f:
    f.write(APACHE.format(root=root, port=port, modules=modules, user=user))
  process = side.server([server, "-DFOREGROUND", "-f", root + "/conf"])
  url = f"http://127.0.0.1:{port}"

  def fetch(path, *more):
    with socket.create_connection(("127.0.0.1", port), 20) as link:
      link.sendall("\r\n".join([f"GET {path} HTTP/1.0", *more, "", ""]).encode())
      return b"".join(iter(lambda: link.recv(65536), b""))

  def answers():
    try:
      return b"200 OK" in fetch("/page1.html") or process.poll() is not None
    except OSError:
      return process.poll() is not None

  wait_for("the server answers", answers)
  digests = []
  for n in range(20):
    head, body = fetch(f"/page{n}.html").split(b"\r\n\r\n", 1)
    expect(b"200 OK" in head, f"page {n}: {head[:200]}")
    digests.append(hashlib.md5(body).hexdigest())
    packed = fetch(f"/page{n}.html", "Accept-Encoding: gzip").split(b"\r\n\r\n", 1)[1]
    same("inflated page", zlib.decompress(packed, 31) if n else b"", body if n else b"")
  digests.append(fetch("/list/").count(b'href="file'))
  for path, extra in (("/page9.html", ["-H", "Accept-Encoding: gzip"]), ("/list/file150", ["-k"])):
    # A server whose threads get no processor closes connections that are kept, on any malloc.
    for _ in range(8):
      out = side.tool([ab, "-q", "-n", "3000", "-c", "20", *extra, url + path]).decode()
      if "Failed requests:        0" in out:
        break
    expect("Complete requests:      3000" in out and "Failed requests:        0" in out, out)
  expect(glob.glob(f"/proc/{process.pid}/task/*/children"), "no worker processes")
  side.stop(process, signal.SIGTERM)
  shutil.rmtree(root)
  return digests


SSHD = """Port {port}
ListenAddress 127.0.0.1
HostKey {root}/host
AuthorizedKeysFile {root}/user.pub
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
"""


def sshd(side):
  """Three logins: what talks to a stranger runs in a sandbox, where an unknown system call is the end."""
  server, keys, client = side.need("sshd", "ssh-keygen", "ssh")
  if os.geteuid() != 0:
    raise Skipped("only root may change to the user who has no rights")
  for name in ("host", "user"):
    side.tool([keys, "-q", "-t", "ed25519", "-N", "", "-f", side.path(name)])
  os.makedirs("/run/sshd", exist_ok=True)
  port = free_port()
  process = side.server([server, "-D", "-e", "-f",
                         side.write("conf", SSHD.format(port=port, root=side.folder))])
  cmd = [client, "-p", str(port), "-i", side.path("user"), "-o", "UserKnownHostsFile=/dev/null", "-o",
         "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR", "root@127.0.0.1"]
  wait_for("the server answers", lambda: process.poll() is not None or
           side.tool([*cmd, "echo up"], status=None) == b"up\n")
  answers = [side.tool([*cmd, f"seq {n * 20000}"]) for n in range(1, 4)]
  side.stop(process, signal.SIGTERM)
  return [hashlib.md5(answer).hexdigest() for answer in answers]


TOR = """DataDirectory {root}
SocksPort 0
ControlPort unix:{root}/c
DisableNetwork 1
Sandbox 1
"""


def tor(side):
  """Tor without a network, in its sandbox of system calls, is asked and told to read its settings anew."""
  program, root = side.need("tor"), side.path("tor")
  os.mkdir(root, 0o700)
  process = side.server([program, "--hush", "-f", side.write("torrc", TOR.format(root=root))])
  wait_for("the server listens", lambda: process.poll() is not None or os.path.exists(root + "/c"))
  answers = []
  with socket.socket(socket.AF_UNIX) as link:
    link.settimeout(60)
    link.connect(root + "/c")
    stream = link.makefile("rwb")
    orders = ["AUTHENTICATE", *["SIGNAL RELOAD", "GETINFO version"] * 20, "GETCONF Sandbox", "SIGNAL HALT"]
    for order in orders:
      stream.write(order.encode() + b"\r\n")
      stream.flush()
      lines = [stream.readline()]
      while lines[-1][3:4] == b"-":
        lines.append(stream.readline())
      answers.append(lines)
  # Signals may be blocked at random: the sandbox refuses what glibc's pthread_create asks for with
  # SIG_BLOCK, and what it sets back then was never filled in, whatever the malloc.
  side.stop(process, None)
  expect(answers[-2] == [b"250 Sandbox=1\r\n"], "no sandbox: " + repr(answers[-2]))
  return answers


PROGRAMS = {"mariadb": mariadb, "memcached": memcached, "apache": apache, "sshd": sshd, "tor": tor}
