# SPDX-License-Identifier: MIT
"""What environment.py runs: the environments, and the programs in each."""
import pathlib
import platform
import re

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = [HERE.parent.parent / "src" / floor for floor in ("os", "host")]

# (environment, program): why the library does worse there than glibc. docs/environments.md says so.
WORSE = {
  ("RTLD_DEEPBIND", "late deep"):
    "the module asks for glibc's free; so it is with every preloaded allocator: see ignore_deepbind",
}


class Row:
  """One environment and one program."""

  def __init__(self, place, program, command, *, ways=(), enter="", options=None, ours=None,
               measures=None, heavy=False, is_linked=False, is_foreign=False, is_api={},
               is_silent=False, raised=False, debug=None, is_made=False, note="", seconds=90):
    self.place, self.program, self.command, self.ours = place, program, command, ours
    self.ways, self.enter, self.options = list(ways), enter, options or {}
    self.measures, self.heavy, self.seconds = measures or {}, heavy, seconds
    self.is_linked, self.is_foreign, self.is_api = is_linked, is_foreign, is_api
    self.is_silent, self.raised, self.debug = is_silent, raised, debug
    self.is_made, self.note = is_made, note

  def describe(self):
    words = [f"MIMALLOC_{k.upper()}={v}" for k, v in self.options.items()]
    words += [f"ENTER={self.enter}"] if self.enter else []
    return " ".join(words + ["launch", *self.ways, "--", *(self.ours or self.command)])


# ---- programs ----------------------------------------------------------------------------------

PERL = """my %h; for my $i (1..30000) { $h{"key $i"} = "x" x ($i % 300); delete $h{"key " . ($i - 2000)}; }
my @l = sort map { length } values %h; my $s = join ",", @l; print length($s), " ", scalar(@l), "\\n";"""
PYTHON = """import json, threading
rows = {str(i): ["text %d" % i] * (i % 20) for i in range(8000)}
text = json.dumps(rows)
found = []
def work(n): found.append(sum(len(json.loads(text)) for _ in range(2)))
threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
for t in threads: t.start()
for t in threads: t.join()
print(len(text), sum(found))"""
# How much its threads hold at once is chance.
EIGHT = """served=0; for n in 1 2 3 4 5 6 7 8; do
[ "$(/usr/bin/python3 -c "$0")" = "1057195 48000" ] && served=$((served+1)); done; echo served=$served"""
SHELL = """s=; i=0; while [ $i -lt 300 ]; do s="$s line-$i"; i=$((i+1)); done
for k in 1 2 3 4 5; do x=$(echo "$s" | wc -w); done; echo "$x ${#s}" """

LOAD = ["load"]
FOREIGN = {
  "perl": ["perl", "-e", PERL],
  "bash": ["bash", "-c", SHELL],
}
FOREIGN_HEAVY = {
  "python3": ["/usr/bin/python3", "-c", PYTHON],
  "sort": ["bash", "-c", "seq 1 60000 | sort --parallel=2 -S 4M -r | sha256sum"],
  "awk": ["awk", 'BEGIN { for (i = 0; i < 50000; i++) a[i] = i "x"; print length(a) }'],
  "cc": ["cc", "-O2", "-S", "-o", "-", "SOURCE"],
  "sqlite3": ["sqlite3", ":memory:", """create table t as with recursive n(i) as (select 1 union all
select i + 1 from n where i < 40000) select i, 'text ' || i as x from n; create index k on t(x);
select count(*), max(length(x)), sum(i) from t where x > 'text 3';"""],
  "lua": ["lua5.4", "-e", """local t = {} for i = 1, 60000 do t[i] = ("x"):rep(i % 200) end
for i = 1, 60000, 2 do t[i] = nil end collectgarbage() print(#table.concat({("y"):rep(1000)}), t[60000])"""],
}
STRESS = {f"stress-{name}": [f"stress-{name}-dynamic", "0.3", "1", "3"]
          for name in ("wander", "pipes", "grow", "onepage", "forks")}
API = {f"api-{name}": [f"api-{name}"]
       for name in ("basic", "aligned", "heap", "posix", "moved", "heap-threads", "subproc")}


# Of these, what is content with little memory.
SMALL_API = {name: API[name] for name in ("api-basic", "api-posix")}


def around(place, *, heavy_foreign=True, quick=("load",), api=API, stress=True, **ways):
  """Rows for one environment: the quick programs in every run, the others in the heavy one."""
  found = [Row(place, "load", LOAD, heavy="load" not in quick, **ways)]
  for name, command in {**FOREIGN, **(FOREIGN_HEAVY if heavy_foreign else {})}.items():
    found.append(Row(place, name, command, is_foreign=True, heavy=name not in quick, **ways))
  for name, command in (STRESS if stress else {}).items():
    found.append(Row(place, name, command, heavy=name not in quick, seconds=60, **ways))
  for name, command in api.items():
    found.append(Row(place, name, command, is_api=True, is_linked=True, heavy=name not in quick,
                     seconds=120, **ways))
  return found


# ---- bounds ------------------------------------------------------------------------------------

def at_most(extra):
  def check(key, glibc, ours):
    if ours[key] > glibc.get(key, 0) + extra:
      return f"{key} {ours[key]}, with glibc {glibc.get(key)}"
    return None
  return check


def at_least(share):
  def check(key, glibc, ours):
    if ours[key] < glibc.get(key, 0) * share:
      return f"{key} {ours[key]}, with glibc {glibc.get(key)}"
    return None
  return check


def exactly(value):
  def check(key, _glibc, ours):
    return None if ours.get(key) == value else f"{key} is {ours.get(key)}, not {value}"
  return check


# ---- limits ------------------------------------------------------------------------------------

def eight_times(place, ways):
  yield Row(place, "python3, eight times", ["bash", "-c", EIGHT, PYTHON], ways=ways,
            measures={"served": at_least(1)})


def limits():
  for mib in (30, 64, 140, 200, 1000, 4000):
    place = f"RLIMIT_AS {mib} MB"
    ways = [f"as={mib}"]
    big = mib >= 1000
    yield from around(place, ways=ways, api=SMALL_API if big else {}, heavy_foreign=mib >= 64,
                      quick=("load", "perl", "api-basic"), stress=mib >= 300)
    yield Row(place, "load until", ["load", "until=40", "small"], ways=ways, heavy=big,
              measures={"until": at_least(0.6), "again": at_least(0.6)}, seconds=60)
    if mib in (140, 200):
      yield Row(place, "load crowd", ["load", "crowd=4"], ways=ways)
    if mib == 64:
      yield from eight_times(place, ways)
  for mib in (20, 50, 60, 72, 90, 300):
    place = f"RLIMIT_DATA {mib} MB"
    ways = [f"data={mib}"]
    yield from around(place, ways=ways, api=SMALL_API if mib >= 300 else {},
                      quick=("load", "perl", "api-basic", *(["python3"] if mib == 90 else [])),
                      heavy_foreign=mib >= 72, stress=mib >= 90)
    for kib in (1, 40, 900):
      yield Row(place, f"load until={kib}", ["load", f"until={kib}", "small"], ways=ways,
                measures={"until": at_least(0.6), "again": at_least(0.6)}, heavy=kib == 900)
    yield Row(place, "load blocks", ["load", "small", "large", "large", "grow", "large"], ways=ways)
    if mib in (60, 72):
      yield from eight_times(place, ways)
  for kib in (64, 256):
    yield from around(f"RLIMIT_STACK {kib} KB", ways=[f"stack={kib}"],
                      quick=("load", "bash", "api-basic"))
  yield from around("RLIMIT_NOFILE 4", ways=["nofile=4"], api={}, heavy_foreign=False,
                    stress=False)
  yield from around("all descriptors closed", ways=["fds=closed"], heavy_foreign=False,
                    quick=("load", "api-basic"))
  yield Row("all descriptors closed", "load files", ["load", "files", "small", "threads", "fork",
            "files"], ways=["fds=closed"])


def running_limits():
  """setrlimit by the program itself, in the middle of it."""
  for steps in (["as=64", "threads", "small"], ["as=200", "threads", "large"],
                ["as=1000", "threads", "grow", "fork"], ["data=40", "threads", "large"]):
    yield Row(f"setrlimit {steps[0]} while it runs", "load", ["load", "small", "zero", *steps])


# ---- locked memory -----------------------------------------------------------------------------

# What takes the least address space.
SMALL_TABLE = {"max_vabits": 33, "arena_reserve": "32MiB"}


def locked():
  bounds = {"VmRSS": at_most(10240), "VmPTE": at_most(2048), "cpu": at_most(100)}
  yield Row("mlockall before the first malloc", "load", ["load", "small", "status"],
            enter="mlockall", measures=bounds)
  yield Row("mlockall after malloc", "load", ["load", "small", "lock", "small", "status"],
            measures=bounds)
  # Nothing lies ready behind pages that grow.
  yield Row("mlockall before the first malloc", "load, blocks of many sizes",
            ["load", "sizes=3000", "status"], enter="mlockall", measures=bounds)
  yield Row("mlockall after malloc", "load, blocks of many sizes",
            ["load", "sizes=2500", "lock", "sizes=1250", "status"], measures=bounds)
  yield Row("mlockall after malloc", "load threads", ["load", "small", "lock", "threads", "large",
            "status"], measures={"cpu": at_most(200)})
  for kib in (8192, 65536):
    place = f"RLIMIT_MEMLOCK {kib // 1024} MB"
    ways = [f"memlock={kib}", "user=any"]
    yield from around(place, ways=ways, api={}, heavy_foreign=False, stress=False)
    yield Row(place, "mlockall", ["load", "zero", "lock", "align"], ways=ways)
    yield Row(place, "mlockall before", ["load", "align"], ways=ways, enter="mlockall")
    yield Row(place, "mlockall, small", ["load", "zero", "lock", "small"], ways=ways)
    yield Row(place, "mlockall, small table", ["load", "zero", "lock", "align"], ways=ways,
              options=SMALL_TABLE)
    yield Row(place, "mlockall before, small table", ["load", "align"], ways=ways,
              enter="mlockall", options=SMALL_TABLE)


# ---- mappings ----------------------------------------------------------------------------------

def mappings():
  for left in (0, 1, 2, 3, 4, 8, 16):
    place = f"vm.max_map_count, {left} left"
    for scene in ("small", "large", "grow", "give", "bulk=100", "threads"):
      yield Row(place, scene, ["load", "small", f"maps={left}", scene, "maps=off", "large", "fork"],
                heavy=left in (1, 4, 16))
    for thp in (1, 2):
      yield Row(place, f"large, allow_thp={thp}",
                ["load", "small", f"maps={left}", "large", "maps=off", "large"],
                options={"allow_thp": thp})
    yield Row(place, "free", ["load", "bulk=50", f"maps={left}", "give", "bulk=40", "maps=off",
              "small"], options={"purge_delay": 0}, heavy=left in (1, 4, 16))


# ---- sandboxes ---------------------------------------------------------------------------------

SAMPLED = {"guarded_sample_rate": 20}
BACKGROUND = {"background_purge": 1, "purge_delay": 1}
# Options under which the library makes the call, where it does not by itself.
CALLS = {
  "madvise": {}, "mremap": {}, "getrandom": SAMPLED, "openat": {"cgroup_limit": 1},
  "read": {"cgroup_limit": 1}, "close": {"cgroup_limit": 1}, "write": {"verbose": 1},
  "getcpu": {"arena_is_numa_local": 1, "use_numa_nodes": 2}, "futex": BACKGROUND,
  "mbind": {"arena_is_numa_local": 1, "use_numa_nodes": 2}, "prctl": BACKGROUND,
  "getrusage": {"show_stats": 1}, "ioctl": {"show_report": 1}, "lseek": {"show_report": 1},
  "rt_sigaction": SAMPLED, "rt_sigprocmask": BACKGROUND,
  "msync": {"prof": 1, "prof_rate": 4096},
}
if platform.machine() not in ("x86_64", "i686"):
  CALLS["membarrier"] = {"background_purge": 1, "purge_delay": 1}
# Made where OS pages of zeros are present.
SCENES = {"ioctl": ["load", "small", "read=16"]}
# Made by the library through the C library, so that they do not stand in src/os and src/host as SYS_.
THROUGH_LIBC = {"prctl", "rt_sigaction", "rt_sigprocmask"}
# Made by the library as it is built for programs without a C library.
BARE_CALLS = ("clock_gettime", "get_robust_list", "getpid", "getppid", "gettid", "kcmp",
              "set_robust_list", "tgkill", "getrandom", "openat")
# What they make and no row refuses.
NOT_REFUSED = {
  "mmap": "no memory without it", "munmap": "as mmap", "mprotect": "as mmap",
  "exit_group": "the end of a process, and nothing behind it",
  "sched_yield": "made where two threads wait for one lock, which no program can bring about at will",
  "membarrier": "not on x86-64", "mincore": "not made where a filter lies",
}
ADVICE = {"DONTNEED": {"purge_delay": 0}, "FREE": {"purge_decommits": 0, "purge_delay": 0},
          "HUGEPAGE": {"allow_thp": 2}, "NOHUGEPAGE": {}, "GUARD_INSTALL": {}}
NUMBERS = {"DONTNEED": 4, "FREE": 8, "HUGEPAGE": 14, "NOHUGEPAGE": 15, "GUARD_INSTALL": 102}
# Given where the process has as many mappings as it may have.
AT_LIMIT = {"DOFORK": 11, "DODUMP": 17, "KEEPONFORK": 19}
BARE_ADVICE = {"NORMAL": 0, "WIPEONFORK": 18}
NOT_ADVISED = {"POPULATE_WRITE": "nobody asks for it",
               "GUARD_REMOVE": "asked for only where GUARD_INSTALL was granted"}
LARGE_PAGES = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
if not LARGE_PAGES.exists() or not LARGE_PAGES.read_text(encoding="ascii").startswith("[always]"):
  del ADVICE["NOHUGEPAGE"]
  NOT_ADVISED["NOHUGEPAGE"] = "made only where the system gives large pages unasked"


def named_in_os(pattern):
  text = "".join(path.read_text(encoding="utf-8") for floor in SOURCES for path in sorted(floor.glob("*.[ch]")))
  return set(re.findall(pattern, text))


# A ground floor that adapts to limits asks for them.
if "prlimit64" in named_in_os(r"\bSYS_([a-z][a-z0-9_]*)"):
  CALLS["prlimit64"] = {}


def check_calls():
  """Every system call in SOURCES, and every advice, is refused in some row, or there is a reason why
  not; and no row refuses what is not used there."""
  called = named_in_os(r"\bSYS_([a-z][a-z0-9_]*)") | THROUGH_LIBC
  advised = named_in_os(r"\bMADV_([A-Z_]+)")
  calls, advices = {*CALLS, *BARE_CALLS, *NOT_REFUSED}, {*ADVICE, *AT_LIMIT, *BARE_ADVICE, *NOT_ADVISED}
  wrong = [("calls that no row refuses", called - calls), ("not made any more", calls - called - set(NOT_REFUSED)),
           ("advice that no row refuses", advised - advices),
           ("not advised any more", advices - advised - set(NOT_ADVISED))]
  for what, names in wrong:
    if names:
      raise SystemExit(f"rows.py: src/os, src/host: {what}: {', '.join(sorted(names))}")


# Threads before it, since glibc asks once how many processors there are.
BOX = ["load", "small", "threads", "box", "small", "grow", "zero", "align", "apart", "give", "threads",
       "fork", "waves=300"]
# And before anything but the start was done, by one thread.
BOX_FIRST = ["load", "box", "small", "grow", "zero", "align", "apart", "give", "waves=300"]


def sandboxes(is_secure):
  if is_secure:
    # Filters end processes for calls that they do not know: those that are newer than they are.
    yield Row("seccomp: mseal, KILL", "load", LOAD, enter="refuse=mseal:KILL")
  # The rest is made for large blocks: see docs/environments.md.
  yield Row("seccomp: KILL for what glibc's malloc does not call", "load, entered later", BOX)
  yield Row("seccomp: KILL for what glibc's malloc does not call", "load, entered first", BOX_FIRST)
  for call, options in CALLS.items():
    for error in ("EPERM", "ENOSYS"):
      place = f"seccomp: {call}, {error}"
      step = f"refuse={call}:{error}"
      yield Row(place, "load", SCENES.get(call, LOAD), enter=step, options=options, is_made=error == "EPERM")
      for name, command in {**FOREIGN, **FOREIGN_HEAVY}.items():
        yield Row(place, name, command, is_foreign=True, enter=step, options=options, heavy=True)
      # Without futexes glibc itself ends a process in which two threads want one lock.
      for name, command in ({} if call == "futex" else API).items():
        yield Row(place, name, command, is_api=True, is_foreign=True, is_linked=True, enter=step,
                  heavy=True, seconds=120)
  for name, options in ADVICE.items():
    for error in ("EPERM", "ENOSYS", "EAGAIN", "EINVAL", "ENOMEM"):
      if name.startswith("GUARD") and not is_secure:
        continue
      yield Row(f"seccomp: madvise {name}, {error}", "load", LOAD, options=options,
                is_made=error == "EPERM", enter=f"refuse=madvise/{NUMBERS[name]}:{error}",
                heavy=error in ("EINVAL", "ENOMEM"))
  for name, number in AT_LIMIT.items():
    for error in ("EPERM", "EAGAIN", "EINVAL"):
      yield Row(f"seccomp: madvise {name}, {error}, no mapping left", "load",
                ["load", "small", "maps=0", "bulk=100", "maps=off", "large"],
                is_made=error == "EPERM", enter=f"refuse=madvise/{number}:{error}")
  bare = [*BARE_CALLS, *(f"madvise/{number}" for number in BARE_ADVICE.values())]
  for call in bare:
    for error in ("EPERM", "ENOSYS"):
      yield Row(f"no C library; seccomp: {call}, {error}", "load", LOAD, ours=["bare"],
                is_linked=True, enter=f"refuse={call}:{error}", is_made=error == "EPERM",
                options=SAMPLED if call == "getrandom" else {}, heavy=error == "ENOSYS")


def hidden():
  yield from around("no /proc, no /sys", ways=["proc=none"], heavy_foreign=False,
                    quick=("load", "perl", "api-basic", "stress-wander"))
  yield Row("no /proc, no /sys", "load, all options", LOAD, ways=["proc=none"],
            options={"cgroup_limit": 1, "background_purge": 1, "show_stats": 1,
                     "arena_is_numa_local": 1, "allow_large_os_pages": 1})
  for seconds in (100000,):
    yield from around("a time namespace", ways=[f"time={seconds}"], api={},
                      heavy_foreign=False, quick=("load",), options=BACKGROUND)


# ---- ways to come into a process ---------------------------------------------------------------

HARD_LIMIT = {"verbose": 1, "show_stats": 1, "show_errors": 1, "memory_limit": "1MiB",
              "memory_limit_hard": 1}


def ways_in():
  yield Row("set-user-id", "load", ["load", "secure", "small", "large", "threads"],
            ours=["linked", "secure", "small", "large", "threads"], ways=["user=65534"],
            is_linked=True, raised=True, options=HARD_LIMIT, is_silent=True,
            measures={"secure": exactly(1)})
  for form in ("static", "static-pie"):
    yield Row(form, "load", [f"{form}-plain"], ours=[f"{form}-ours"], is_linked=True)
    yield Row(form, "load waves", [f"{form}-plain", "waves=1000"],
              ours=[f"{form}-ours", "waves=1000"], is_linked=True)
  yield Row("no C library", "load", LOAD, ours=["bare"], is_linked=True)
  yield Row("no C library", "load waves", ["load", "waves=3000", "status"],
            ours=["bare", "waves=3000", "status"], is_linked=True, measures={"VmRSS": at_most(8192)})
  yield Row("linked first", "linked load", LOAD, ours=["linked"], is_linked=True)
  yield Row("dlmopen", "late copies, preloaded", ["late", "copies", "GLIBC"],
            ours=["late", "copies", "LIBRARY"])
  yield Row("dlmopen", "late copies", ["late", "copies", "GLIBC"],
            ours=["late", "copies", "LIBRARY"], is_linked=True)
  yield Row("dlmopen", "late copies of libc", ["late", "copies", "GLIBC"])
  yield Row("RTLD_DEEPBIND", "late deep", ["late", "deep", "MODULE"])
  yield Row("RTLD_DEEPBIND", "late deep, ignore_deepbind", ["late", "deep", "MODULE"],
            options={"ignore_deepbind": 1})
  plain = ["late", "reload", "MODULE", "100"]
  yield Row("dlopen and dlclose, 100 times", "late reload", plain,
            ours=["late", "reload", "LIBRARY", "100"], is_linked=True, seconds=60)
  yield Row("dlopen and dlclose, 100 times", "late reload, background_purge", plain,
            ours=["late", "reload", "LIBRARY", "100"], is_linked=True, options=BACKGROUND,
            seconds=60)
  yield Row("dlopen and dlclose, 100 times", "late reload of a module", plain, seconds=60)
  for scene in ("breakpoints", "stepping", "calls", "fork"):
    yield Row("a debugger", f"gdb {scene}", ["load", "small", "grow", "fork"], debug=scene,
              seconds=60)
  yield Row("a debugger", "gdb attach", ["load", "traced", "long=50"], debug="attach", seconds=60)


def crowds():
  for options in ({}, BACKGROUND):
    words = "".join(f", {name}" for name in options if name == "background_purge")
    yield Row("the first thread ends before others", f"load{words}", ["load", "small", "leave"],
              options=options, seconds=30)
  memory = {"VmRSS": at_most(8192)}
  yield Row("30,000 threads, 200 at a time", "load", ["load", "waves=30000", "status"],
            measures=memory, seconds=120)
  yield Row("30,000 threads at once", "load", ["load", "once=30000", "small"],
            measures={"once": at_least(0.99)}, seconds=120, heavy=True)
  yield Row("5,000 threads at once", "load", ["load", "once=5000", "small"],
            measures={"once": at_least(0.99)}, seconds=120)


def every(heavy, is_secure):
  groups = (limits(), running_limits(), locked(), mappings(), hidden(), sandboxes(is_secure),
            ways_in(), crowds())
  return [row for group in groups for row in group if heavy or not row.heavy]
