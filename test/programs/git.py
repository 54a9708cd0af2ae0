# SPDX-License-Identifier: MIT
"""git imports, packs, checks, logs and diffs a generated repository of thousands of commits.

The same fixed history is built once on the library and once on the system's malloc; commit ids,
log, diffs and blame must agree byte for byte, and `git fsck` must find nothing after an
aggressive gc with two packing threads.
"""
import hashlib
import os
import random
import threading

from harness import Failed, main, same

WORDS = """page arena slice bin block heap thread purge commit abandon reclaim list node table
return static const struct size count offset pointer align reserve release owner state""".split()


def line(rng):
  return " ".join(rng.choice(WORDS) for _ in range(rng.randint(3, 9))) + "\n"


def history(commits, files):
  """A stream for `git fast-import`: each commit edits a few of the files, some branch off."""
  rng = random.Random(20231)
  content = [[line(rng) for _ in range(rng.randint(20, 200))] for _ in range(files)]
  parts = []
  for n in range(commits):
    message = f"Change {n}\n\n" + line(rng) * 3
    parts.append(f"commit refs/heads/main\nmark :{n + 1}\n"
                 f"author A <a@example.org> {1600000000 + n * 60} +0000\n"
                 f"committer C <c@example.org> {1600000000 + n * 60} +0000\n"
                 f"data {len(message)}\n{message}\n")
    if n:
      parts.append(f"from :{n}\n")
    if n > 20 and n % 17 == 0:
      parts.append(f"merge :{n - rng.randint(2, 15)}\n")
    for f in range(files) if n == 0 else rng.sample(range(files), 4):
      for _ in range(3):
        content[f][rng.randrange(len(content[f]))] = line(rng)
      content[f].insert(rng.randrange(len(content[f])), line(rng))
      text = "".join(content[f])
      parts.append(f"M 100644 inline src/part{f % 12}/file{f}.txt\ndata {len(text)}\n{text}\n")
  return "".join(parts).encode()


def build(session, git, name, stream, preload):
  """Makes the repository and returns what its commands print."""
  folder, outputs = session.path(name), []
  plain = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CEILING_DIRECTORIES": session.work}
  settings = ["-c", "pack.threads=2", "-c", "gc.auto=0", "-c", "core.pager=cat",
              "-c", "gc.autoDetach=false"]

  def command(*arguments, feed=None):
    done = session.run([git, *settings, *arguments], preload=preload, feed=feed, env=plain,
                       cwd=folder)
    outputs.append(hashlib.sha256(done.out).hexdigest() + f" git {' '.join(arguments[:2])}")
    return done.out

  os.mkdir(folder)
  command("init", "-q", "-b", "main")
  command("fast-import", "--quiet", feed=stream)
  head = command("rev-parse", "main").strip()
  command("gc", "--quiet", "--aggressive", "--prune=now")
  command("fsck", "--full", "--strict", "--no-dangling", "--no-progress")
  log = command("log", "-p", "--stat", "-M", "main")
  command("diff", "--patience", "--word-diff", "main~200", "main")
  command("log", "--graph", "--format=%H %an %s", "--topo-order", "main")
  command("blame", "-w", "-M", "main", "--", "src/part0/file0.txt")
  command("grep", "-c", "-E", "arena (slice|purge).*owner", "main")
  command("shortlog", "-s", "-e", "main")
  command("clone", "--quiet", "--no-local", ".", "../" + name + ".clone")
  folder += ".clone"
  same("head of the clone", command("rev-parse", "HEAD").strip(), head)
  command("diff-tree", "-r", "main~20", "main")
  return outputs, log.count(b"\ncommit ") + log.startswith(b"commit "), \
      int(command("rev-list", "--count", "main"))


def test(session):
  git = session.need("git")
  commits, files = (8000, 400) if session.heavy else (2000, 100)
  stream = history(commits, files)
  session.say(f"{commits} commits of {files} files, {len(stream) >> 20} MiB of history")
  done = {}

  def run(name, preload):
    try:
      done[name] = build(session, git, name, stream, preload)
    except Failed as problem:
      done[name] = problem

  other = threading.Thread(target=run, args=("theirs", False))
  other.start()
  run("ours", True)
  other.join()
  for result in done.values():
    if isinstance(result, Failed):
      raise result
  (ours, logged, counted), (theirs, _, _) = done["ours"], done["theirs"]
  same("commits counted", counted, commits)
  # `log -p` prints every commit, merges without their patch.
  same("commits logged", logged, commits)
  for got, want in zip(ours, theirs):
    same("output of" + got[64:], got, want)
  same("commands that ran", len(ours), len(theirs))
  session.say(f"{len(ours)} commands gave the same output as on the system's malloc")


main(test)
