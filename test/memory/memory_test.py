#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the library keeps and gives back, seen from outside: by the system's numbers.

  memory_test.py PATTERNS [NAME...]     PATTERNS is the program of patterns.c; the library's path is
                                        in MI_LIB. Without a name all tests run, with names that
                                        begin with "-" all others.

Each test runs PATTERNS on the preloaded library and compares what it printed with a bound; those
that say so run it on the system's malloc as well. Exit status 0, 1 (a bound is exceeded), 77
(nothing could be measured).
"""

import os
import subprocess
import sys
import time

import large_pages

LIB = os.environ.get("MI_LIB", "")
PATTERNS = ""


def run(*arguments, preload=True, **options):
    """What PATTERNS printed, as numbers by key; options are MIMALLOC_ variables."""
    env = {k: v for k, v in os.environ.items() if not k.upper().startswith("MIMALLOC_")}
    env.update({"MIMALLOC_" + k.upper(): str(v) for k, v in options.items()})
    if preload:
        env["LD_PRELOAD"] = LIB
    done = subprocess.run([PATTERNS, *map(str, arguments)], env=env, capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{arguments} ended with {done.returncode}: {done.stderr.strip()}")
    result = {"stderr": done.stderr}
    for line in done.stdout.splitlines():
        key, separator, value = line.partition("=")
        if separator:
            result[key] = float(value)
    return result


def expect(condition, text):
    if not condition:
        raise AssertionError(text)
    print("    " + text)


def returned(r, after):
    return 100 * (r["peak"] - r[after]) / (r["peak"] - r["start"])


# ---- giving back -------------------------------------------------------------------------------

def test_all_freed_background():
    r = run("free", 0, 0, 3, background_purge=1)
    share = returned(r, "idle")
    expect(share >= 95, f"{share:.1f} % of 280 MB returned after 3 s without a call")


def test_all_freed_no_thread():
    r = run("free", 0, 0, 0)
    share = returned(r, "freed")
    expect(share >= 90, f"{share:.1f} % returned by the frees themselves, without a thread")


def test_purge_off_returns_nothing():
    r = run("free", 0, 0, 0, purge_delay=-1)
    share = returned(r, "freed")
    expect(share < 10, f"{share:.1f} % returned with purge_delay=-1: the test can fail")


def test_survivors_collect():
    r = run("free", 20, 1, 0)
    expect(r["freed"] <= 80_000_000 / 1024, f"{r['freed']:.0f} KiB kept with 1 in 20 alive")


def test_survivors_background():
    r = run("free", 20, 0, 3, background_purge=1)
    expect(r["peak"] > 200_000, f"{r['peak']:.0f} KiB before, {r['freed']:.0f} after the frees")
    expect(r["idle"] <= 80_000_000 / 1024, f"{r['idle']:.0f} KiB after 3 s without a call")


def test_survivors_without_holes():
    r = run("free", 20, 1, 0, purge_holes=0)
    expect(r["freed"] > 150_000, f"{r['freed']:.0f} KiB kept with purge_holes=0")


def test_idle_threads():
    r = run("threads", 8, background_purge=1)
    share = 100 * (r["peak"] - r["idle"]) / r["peak"]
    expect(share >= 60, f"{share:.1f} % returned of what 8 sleeping threads own")


# A page for each size that a thread uses would be 26 OS pages for each. Beside its blocks a thread has its
# stack, its storage, and what the library and the C library note of it.
def test_many_threads_with_few_blocks():
    r = run("many", 200, 30)
    most = r["first_live"] + 5 * r["os_page"] + 12
    expect(r["first_each"] <= most, f"{r['first_each']:.0f} KiB for each of 200 threads with {r['first_live']:.0f} "
                                    f"KiB in 30 blocks to 1,024 bytes, {most:.0f} at most")
    expect(r["first_shared"] + r["second_shared"] == 0, "no two threads have blocks in one line of the caches")


# ---- steady loads ------------------------------------------------------------------------------

def steady(most, share, **options):
    """The faults of a run of which the delay is one part in `share`, also on a busy machine, where
    it takes longer."""
    delay = 4000 / share
    for _ in range(6):
        r = run("steady", 4, purge_delay=round(delay), **options)
        msecs = 4000 + max(0, r["late"])
        if r["faults"] <= most or msecs < 1.5 * share * delay:
            break
        delay = msecs / share
    return r["faults"]


def test_steady_faults():
    # Runs differ by 6 %, by where the first blocks lie.
    off = max(run("steady", 4, purge_delay=-1)["faults"] for _ in range(3))
    on = steady(off * 1.05, 4)
    behind = steady(off * 1.05, 4, background_purge=1)
    short = steady(off * 1.10, 40, background_purge=1)
    expect(on <= off * 1.05, f"steady load: {on:.0f} faults, {off:.0f} with purging off")
    expect(behind <= off * 1.05, f"the same with the thread: {behind:.0f}")
    expect(short <= off * 1.10, f"and a delay of a fortieth of the run: {short:.0f}")


def test_cycles_learn():
    off = run("cycles", 12, 64, purge_delay=-1)
    on = run("cycles", 12, 64)
    most = off["rest"] + 0.05 * 10 * on["first"]
    expect(on["rest"] <= most, f"10 cycles of 64 MiB: {on['rest']:.0f} faults after the second, "
                               f"{off['rest']:.0f} with purging off ({on['first']:.0f} at first)")


def test_sizes_that_leave_survivors():
    r = run("sizes", 5, 40)
    most = run("sizes", 5, 40, purge_holes=0)
    expect(r["peak"] <= 2.2 * 40 * 1024 and most["peak"] > 4 * 40 * 1024,
           f"{r['peak'] / 1024:.0f} MiB at most for 40 MiB alive, {most['peak'] / 1024:.0f} MiB "
           "without holes")


def test_sizes_in_a_loop():
    r = run("sizes", 40, 40)
    most = run("sizes", 40, 40, purge_holes=0)
    expect(r["faults"] <= most["faults"] + 0.2 * 25 * 40 * 256,
           f"25 more turns of it: {r['faults']:.0f} faults, {most['faults']:.0f} without holes, for "
           f"{25 * 40 * 256} OS pages")


def test_large_blocks_that_follow():
    r = run("follow", 400, 28)
    expect(r["after"] <= 1.3 * r["before"],
           f"{r['after'] / 1024:.1f} MiB with 28 MiB in large blocks, {r['before'] / 1024:.1f} MiB with as "
           "much in smaller ones before")


def test_tables_that_stay_empty():
    r = run("tables", 6, 64)
    grown = (r["most"] - r["before"]) / 1024
    expect(grown <= 8, f"{grown:.1f} MiB more with the last of six empty tables of 64 MiB")


# Each begins elsewhere: what one leaves must not gather in those that follow.
def test_vast_blocks_hardly_used():
    r = run("vast", 300, 32)
    expect(r["most"] <= 1.5 * r["live"] + 16 * 1024,
           f"{r['most'] / 1024:.0f} MiB at most with {r['live'] / 1024:.0f} MiB used of 20 blocks")


# A process may have 65,530 mappings: what moves does so in pieces that are the larger the more there is.
def test_pieces_that_move():
    few = run("pieces", 0, 0, 200)["pieces"]
    many = run("pieces", 120, 500, 200)["pieces"]
    expect(many <= 0.75 * few or few < 100, f"{many:.0f} mappings of 16 blocks beside 60 GB, {few:.0f} alone")


def test_few_blocks_of_many_sizes():
    r = run("slack", 10)
    most = run("slack", 10, purge_holes=0)
    saved = (most["after"] - r["after"]) / 1024
    expect(saved >= 1, f"{saved:.1f} MiB less kept behind few blocks of 64 sizes")


# What is free between live blocks has an end, however often they are replaced.
def test_replaced_at_random():
    r = run("replaced", 1, 100, 6)
    expect(r["replaced"] <= 1.08 * r["made"], f"{r['made'] / 1024:.0f} MiB in blocks to 2,000 bytes, "
                                              f"{r['replaced'] / 1024:.0f} MiB after six replacements of each")


# Two threads that take memory side by side take none for nothing. Large pages bring some unasked.
def test_made_side_by_side():
    r = run("replaced", 2, 100, 1)
    most = 1.2 if large_pages.are_given("always") else 1.12
    expect(r["made"] <= most * r["live"], f"{r['made'] / 1024:.0f} MiB for two threads with "
                                          f"{r['live'] / 1024:.0f} MiB in blocks to 2,000 bytes")


# Blocks that others free serve whoever allocates, and do not gather with whoever freed them.
def test_passed_to_others():
    r = run("passed", 2, 20)
    expect(r["passed"] <= 48 * 1024,
           f"{r['passed'] / 1024:.0f} MiB for two threads with 100,000 blocks of 64 and 256 bytes each, of "
           "which one in ten is freed by the other thread")


# A few blocks of all sizes have no memory for each size, nor is it given back and taken anew.
# One run ends at a moment of its own: from 17 to 26 MiB, of which the middle of three says what is usual.
# It takes no second here, but half a minute in an emulated machine. Of empty pages that were kept for a
# quarter of a second some memory goes back, which needs faults by time and not by replacements: 1,600 a second,
# where the program is stopped for twenty times as long as it runs.
def test_few_blocks_replaced():
    runs = []
    for _ in range(3):
        begun = time.monotonic()
        runs.append(run("wide", 100, 1000000) | {"seconds": int(time.monotonic() - begun)})
    r = sorted(runs, key=lambda r: r["after"])[1]
    expect(r["faults"] <= 40000 + 1600 * r["seconds"] and r["after"] <= 24 * 1024,
           f"{r['after'] / 1024:.0f} MiB for a hundred blocks of 48 to 200,000 bytes, {r['faults']:.0f} "
           "faults for a million replacements")


# What blocks of a size left free that is no longer asked for serves others, and goes when asked to.
def test_large_blocks_that_drift():
    r = run("drift", 40)
    expect(r["after"] <= 1.7 * r["live"],
           f"{r['after'] / 1024:.0f} MiB while blocks of 400,000 bytes became ones of 20,000, of which some stay, "
           f"with {r['live'] / 1024:.0f} MiB live")
    expect(r["trimmed"] <= 1.4 * r["rest"], f"{r['trimmed'] / 1024:.1f} MiB after malloc_trim with "
                                            f"{r['rest'] / 1024:.1f} MiB of them left")


# What goes back and is needed again after so many looks goes later and later, however many these are.
def test_large_blocks_needed_again():
    kept = run("again", 200, purge_delay=0, purge_holes=0)["faults"]
    given = run("again", 200, purge_delay=0)["faults"]
    expect(given <= 2 * kept, f"{given:.0f} page faults in 200 rounds of blocks of 9,000 to 473,000 bytes "
                              f"with 840 buffers between two rounds, {kept:.0f} without holes")


def test_huge_loop():
    r = run("huge", 10000, 8)
    expect(r["calls"] <= 10, f"{r['calls']:.0f} system calls in 10000 turns of 8 MiB")
    expect(r["faults"] <= 100, f"{r['faults']:.0f} page faults, {r['ns']:.0f} ns a turn")


def test_growth_is_linear():
    ours, system = [], []
    for _ in range(5):  # a busy machine may need some tries
        ours.append(run("grow", 512)["ms"])
        system.append(run("grow", 512, preload=False)["ms"])
        if min(ours) <= 2 * min(system) + 50:
            break
    expect(min(ours) <= 2 * min(system) + 50, f"512 MiB by 1 MiB steps in {min(ours):.0f} ms, "
                                              f"{min(system):.0f} ms with the system's malloc")


# ---- statistics --------------------------------------------------------------------------------

def test_committed_is_true():
    r = run("committed")
    expect(r["samples"] >= 20, f"{r['samples']:.0f} comparisons with smaps")
    expect(r["worst_percent"] <= 2, f"committed is {r['worst_percent']:.2f} % off at worst")


# ---- limits ------------------------------------------------------------------------------------

def test_limit_hard():
    r = run("limit", 200, memory_limit="64MiB", memory_limit_hard=1)
    expect(50 <= r["got_mib"] <= 64, f"{r['got_mib']:.0f} MiB got below a hard limit of 64 MiB")
    expect(r["errno"] == 12, "then errno is ENOMEM")
    expect(r["again"] == r["wanted"], f"{r['again']:.0f} of {r['wanted']:.0f} small blocks fit into "
                                      "what is free between the large ones")
    expect(r["large"] == 1, "what was used and is free serves a large block")
    r = run("limit", 200, memory_limit="64MiB", memory_limit_hard=1, purge_delay=-1)
    expect(r["large"] == 1, "also where free memory is kept for ever")


def test_limit_soft():
    r = run("limit", 200, memory_limit="64MiB")
    expect(r["got_mib"] == 200, "a soft limit lets all pass")


def test_limit_soft_purges():
    late = {"background_purge": 1, "purge_delay": 600_000}
    free, limited = run("free", 0, 0, 0, **late), run("free", 0, 0, 0, memory_limit="100MiB", **late)
    expect(returned(free, "freed") < 10 and returned(limited, "freed") >= 50,
           f"near a limit frees purge: {returned(limited, 'freed'):.0f} % returned at once, "
           f"{returned(free, 'freed'):.0f} % without a limit")


def test_limit_impossible():
    r = run("free", 0, 0, 0, memory_limit="3KiB", verbose=1)
    expect("memory_limit" in r["stderr"], "a limit that no program can keep is warned of by name")


def test_cgroup_limit():
    root = "/sys/fs/cgroup/memory"
    group = f"{root}/mimalloc-test-{os.getpid()}"
    try:
        os.mkdir(group)
        with open(group + "/memory.limit_in_bytes", "w", encoding="ascii") as f:
            f.write(str(100 << 20))
    except OSError as error:
        print(f"    skipped: no control group can be made ({error.strerror})")
        return
    script = f'echo $$ > {group}/cgroup.procs && exec "$0" limit 400'
    env = dict(os.environ, LD_PRELOAD=LIB, MIMALLOC_CGROUP_LIMIT="1", MIMALLOC_MEMORY_LIMIT_HARD="1")
    try:
        done = subprocess.run(["sh", "-c", script, PATTERNS], env=env, capture_output=True,
                              text=True, check=False)
    finally:
        os.rmdir(group)
    expect(done.returncode == 0, f"in a group of 100 MiB the program ends by itself "
                                 f"({done.returncode}) {done.stderr.strip()}")
    got = int(done.stdout.partition("got_mib=")[2].split()[0])
    expect(60 <= got <= 100, f"and gets {got} MiB")


def main():
    global PATTERNS
    if len(sys.argv) < 2 or not os.path.exists(LIB):
        print("memory_test.py PATTERNS [NAME...], with MI_LIB", file=sys.stderr)
        return 77
    PATTERNS = os.path.abspath(sys.argv[1])
    tests = {k[5:]: v for k, v in globals().items() if k.startswith("test_")}
    large_pages.refuse_folios()
    failed = []
    left_out = {name[1:] for name in sys.argv[2:] if name.startswith("-")}
    names = [name for name in sys.argv[2:] if not name.startswith("-")]
    for name in names or [name for name in tests if name not in left_out]:
        print(name)
        try:
            tests[name]()
        except AssertionError as error:
            print(f"    FAILED: {error}")
            failed.append(name)
    print(f"{len(failed)} failed" + (": " + ", ".join(failed) if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
