#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every option that means something shows an effect.

  options_test.py EFFECTS [NAME...]     EFFECTS is the program of option_effects.c, linked to the
                                        library under test

Each test is named like its option and compares two runs that differ in its value. Options whose
effect others see best (background_purge, memory_limit, memory_limit_hard, cgroup_limit,
purge_holes) are tested by memory_test.py, ignore_deepbind by override/deepbind.c. Exit status 0 or
1.
"""

import os
import shutil
import subprocess
import sys

import large_pages

EFFECTS = ""
MIB = 1 << 20


def run(scene, prefix=(), program=None, **options):
    env = {k: v for k, v in os.environ.items() if not k.upper().startswith("MIMALLOC_")}
    env.update({"MIMALLOC_" + k.upper(): str(v) for k, v in options.items()})
    done = subprocess.run([*prefix, program or EFFECTS, scene], env=env, capture_output=True, text=True,
                          check=False)
    result = {"code": done.returncode, "err": done.stderr, "out": done.stdout}
    for line in done.stdout.splitlines():
        key, separator, value = line.partition("=")
        if separator and value.lstrip("-").isdigit():
            result[key] = int(value)
    return result


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def more(scene, key, low, high):
    """The run with `high` shows more of `key` than that with `low`."""
    a, b = run(scene, **low)[key], run(scene, **high)[key]
    expect(a < b, f"{key}: {a} with {low}, {b} with {high}")


def lines(text, word):
    return sum(word in line for line in text.splitlines())


def errors(**options):
    """What ten mistakes print where none ends the process."""
    return run("errors", abort_on_error=0, **options)["err"]


def test_show_errors():
    expect(lines(errors(show_errors=0), "error") == 0, "quiet")
    expect(lines(errors(show_errors=1), "mimalloc: error") == 10, "ten errors")


def test_max_errors():
    expect(lines(errors(show_errors=1, max_errors=3), "mimalloc: error") == 3, "three")


def test_max_warnings():
    expect(lines(errors(show_errors=1), "warning") == 10, "ten warnings")
    expect(lines(errors(show_errors=1, max_warnings=4), "warning") == 4, "four")


def test_abort_on_error():
    expect(run("errors", abort_on_error=0)["code"] == 0, "goes on")
    expect(run("errors", abort_on_error=1)["code"] == -6, "SIGABRT")


def test_show_report():
    expect("memory report" not in run("start", show_report=0)["err"], "quiet")
    expect("live blocks" in run("start", show_report=1)["err"], "a report at the end")


def test_show_stats():
    expect("subproc 0" not in run("start")["err"], "no statistics unless asked for")
    expect("subproc 0" in run("start", show_stats=1)["err"], "statistics at the end")


def test_verbose():
    err = run("start", verbose=1)["err"]
    for word in ("process init: 0x", "option 'purge_delay': 1000", "secure level:", "process done"):
        expect(word in err, f"`{word}` in {err[:300]}")


def test_purge_decommits():
    r = run("delay", purge_delay=10, purge_decommits=0)
    expect(r["reset_calls"] > 0 and r["purge_calls"] == 0, "reset only")
    r = run("delay", purge_delay=10, purge_decommits=1)
    expect(r["reset_calls"] == 0 and r["purge_calls"] > 0, "purged")


def test_purge_delay():
    more("delay", "purged", {"purge_delay": 1_000_000}, {"purge_delay": 10})
    more("delay", "purged", {"purge_delay": -1}, {"purge_delay": 0})


def test_arena_purge_mult():
    more("delay", "purged", {"purge_delay": 10, "arena_purge_mult": 100_000}, {"purge_delay": 10})


def test_minimal_purge_size():
    more("delay", "purged", {"purge_delay": 10, "minimal_purge_size": "64MiB"}, {"purge_delay": 10})


def test_arena_reserve():
    more("sizes", "reserved", {"arena_reserve": "128MiB"}, {"arena_reserve": "2GiB"})


def test_arena_eager_commit():
    # 1 GiB of writable address space, in KiB
    more("sizes", "VmData", {"arena_eager_commit": 2}, {"arena_eager_commit": 1})


def test_arena_max_object_size():
    # Hardened builds lay large blocks apart in any case.
    options = {"arena_max_object_size": "1MiB"}
    if run("errors")["code"] != 0:
        expect(run("sizes")["apart"] == 1 and run("sizes", **options)["apart"] == 1, "apart")
    else:
        more("sizes", "apart", {}, options)


def test_max_vabits():
    # Before anything is allocated: what that maps depends on the random places of a debug build.
    more("start", "reserved", {"max_vabits": 32}, {})


def test_pagemap_commit():
    # What else is committed at the start depends on the random places of a hardened build.
    more("sizes", "set_aside", {"pagemap_commit": 1}, {})


def test_reserve_os_memory():
    # Hardened builds make an arena at the start, if they may.
    more("start", "arenas", {"disallow_os_alloc": 1},
         {"disallow_os_alloc": 1, "reserve_os_memory": "64MiB"})


def test_disallow_os_alloc():
    expect(run("sizes", disallow_os_alloc=1)["failed"] == 1, "nothing without an arena")
    expect(run("sizes", disallow_os_alloc=1, reserve_os_memory="128MiB")["failed"] == 0,
           "something from the one that is there")


def test_disallow_arena_alloc():
    expect(run("sizes", disallow_arena_alloc=1)["failed"] == 0, "memory comes from the system")
    free, not_free = run("given", arena_reserve=0), run("given", disallow_arena_alloc=1)
    expect(free["in_shared"] > 0, f"an arena that the program brought serves: {free}")
    expect(not_free["in_shared"] == 0, f"it serves nobody: {not_free}")
    for r in (free, not_free):
        expect(r["null"] == 0 and r["in_exclusive"] == 20000, f"a heap in its own arena: {r}")


def test_reserve_huge_os_pages():
    r = run("start", reserve_huge_os_pages=1, reserve_huge_os_pages_at=0, show_errors=1)
    expect(r["arenas"] >= 1 or "reserve_huge_os_pages" in r["err"], "an arena, or a warning")


def test_reserve_huge_os_pages_at():
    r = run("start", reserve_huge_os_pages=1, reserve_huge_os_pages_at=0, verbose=1)
    expect("option 'reserve_huge_os_pages_at': 0" in r["err"], "the node is taken over")


def test_allow_large_os_pages():
    path = "/proc/sys/vm/nr_hugepages"
    try:
        with open(path, encoding="ascii") as f:
            before = int(f.read())
        with open(path, "w", encoding="ascii") as f:
            f.write("80")
        with open(path, encoding="ascii") as f:
            there = int(f.read())
    except OSError:
        there = 0
    try:
        if there < 80:
            print("    skipped: the system has no large OS pages to give")
            expect(run("sizes", allow_large_os_pages=1)["failed"] == 0, "falls back")
            return
        expect(run("sizes")["small_ht"] == 0, "none unless asked for")
        expect(run("sizes", allow_large_os_pages=1)["small_ht"] == 1, "a large OS page")
    finally:
        if there:
            with open(path, "w", encoding="ascii") as f:
                f.write(str(before))


def test_allow_thp():
    r = [run("sizes", allow_thp=n) for n in range(3)]
    seen = [(x["small_hg"], x["large_hg"]) for x in r]
    expect(seen == [(0, 0), (0, 0), (1, 1)], f"small and huge blocks for 0, 1, 2: {seen}")
    names = ("first", "filled", "small", "many", "sparse")
    for n, wanted in ((0, (0, 0, 0, 0, 0)), (1, (0, 1, 0, 60, 0))):
        r = run("filled", allow_thp=n)
        seen = tuple(r[name] for name in names)
        expect(seen == wanted, f"blocks in large pages with allow_thp={n}: {seen}")


def test_allow_thp_growth():
    if not large_pages.are_given("madvise"):
        return
    lies_apart = "secure level: 0" not in run("start", verbose=1)["err"]
    r = run("growth")
    expect(r["small"] == 0, f"a heap of 40 MiB grew by large pages at {r['small']} of 40 places")
    expect(r["dense"] == 0 if lies_apart else r["dense"] >= 20, f"a large one at {r['dense']}")
    expect(r["large"] == 0 or not lies_apart, f"{r['large']} KiB in large pages")
    none = run("growth", allow_thp=0)
    expect(lies_apart or r["mappings"] < none["mappings"] + 12,
           f"{r['mappings']} mappings, {none['mappings']} without")
    expect(none["large"] == 0 and none["dense"] == 40, f"large pages with allow_thp=0: {none}")
    r = run("small growth", allow_thp=2)
    expect(lies_apart or not r["exist"] or r["large"] >= 12 * 1024,
           f"of 24 MiB {r['large']} KiB in large pages with allow_thp=2")
    r = run("unused growth")
    expect(lies_apart or not r["exist"] or r["found"], "large pages in a heap of 160 MiB")
    expect(not r["found"] or r["left"] < 448, f"{r.get('left')} of 512 OS pages left by mi_collect")
    dense = run("growth", memory_limit="48MiB")["dense"]
    expect(dense == 0, f"large pages beyond a memory limit at {dense}")
    r = run("sparse growth")
    expect(r["filled"] or r["sparse"] == 0, f"blocks that are hardly used: at {r['sparse']} places")


def test_use_numa_nodes():
    expect("numa nodes: 3" in run("start", use_numa_nodes=3, show_stats=1)["err"], "three nodes")


def test_destroy_on_exit():
    if shutil.which("strace") is None:
        print("    skipped: no strace")
        return
    trace = ("strace", "-e", "trace=munmap", "-qq")
    beside = EFFECTS + "-beside"  # its malloc is the system's
    for program, values in (beside, (0, 1)), (EFFECTS, (1, 2)):
        count = [run("end", trace, program, destroy_on_exit=n)["err"].count("munmap(")
                 for n in values]
        expect(count[0] < count[1], f"unmappings, {values}: {count}")
    # The C library looks at it last of all.
    expect(run("stream", destroy_on_exit=1)["code"] == 0, "a stream that is open at the end")


def test_generic_collect():
    more("collect", "pages", {"generic_collect": 20}, {"generic_collect": 1000000})


def test_page_reclaim_on_free():
    more("reclaim", "reclaim_on_free", {"page_reclaim_on_free": -1}, {"page_reclaim_on_free": 1})


def test_page_cross_thread_max_reclaim():
    more("reclaim", "reclaim_on_free", {"page_cross_thread_max_reclaim": 0}, {})


def test_page_full_retain():
    more("full", "reclaim_on_free", {"page_full_retain": 32}, {"page_full_retain": 0})


def test_theap_retain():
    few = run("threads", theap_retain=1, verbose=1)
    if "theap_retain has no effect" in few["err"]:
        return
    # What a thread leaves is kept for a quarter of a second: the next one may not run before that.
    all_new = run("threads", theap_retain=0)["made"]
    made = [run("threads")["made"] for _ in range(5)]
    expect(min(made) < all_new, f"made: {made} by default, {all_new} with theap_retain=0")


def test_page_max_candidates():
    one, many = (run("candidates", page_max_candidates=n) for n in (1, 8))
    expect(one["from_sparse"] == 1, "one candidate: the page that was freed into first")
    expect(many["from_dense"] == 1, "many: one that is not nearly empty")


def test_zero_on_free():
    if "zero_on_free has no effect" in run("zero", zero_on_free=1, verbose=1)["err"]:
        expect(run("zero", zero_on_free=1)["zeros"] == 0, "a build that says it has no effect")
    else:
        more("zero", "zeros", {"zero_on_free": 0}, {"zero_on_free": 1})


def main():
    global EFFECTS
    EFFECTS = os.path.abspath(sys.argv[1])
    tests = {k[5:]: v for k, v in globals().items() if k.startswith("test_")}
    large_pages.refuse_folios()
    failed = []
    for name in sys.argv[2:] or tests:
        try:
            tests[name]()
            print(f"{name}: ok")
        except (AssertionError, KeyError) as error:
            print(f"{name}: FAILED: {error}")
            failed.append(name)
    print(f"{len(tests)} options, {len(failed)} failed: {' '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
