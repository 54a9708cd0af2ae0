# SPDX-License-Identifier: MIT
"""The rows of tools/kernels.py: kernels, and machines that differ from the plain one.

A row may have these entries beside `suite`, `package` and `architecture`:

  machine, cpu, processors, memory, devices   what the emulator is told
  parameters    words of the kernel's command line
  modules       modules of the kernel that are loaded first
  setup         further instructions of the plan (see init.c), before the tests
  tests         the tests that are run, all by default: a regular expression
  environment   what these get
  guest         tests of test/kernels that want this machine: their environment and arguments
  packages      packages of the suite, and the programs of each that the guest has, with all
                libraries, in a folder of the package's name
"""

# What shows in two minutes whether a kernel does something that others do not: the first ones are
# run however long it takes, the others as long as they begin in time.
QUICK_ROW = "bookworm"
QUICK_SECONDS = 75
QUICK_LIMIT = 90  # for each test: many times of what the longest takes
QUICK_ALWAYS = ["stress-moves", "unit-os", "api-edges", "api-arena"]
QUICK_THEN = ["stress-model", "api-basic", "stress-heaps", "memory-huge", "api-heap", "api-posix",
              "stress-forks", "unit-reentry", "api-subproc", "memory-cgroup"]

KERNELS = {
    "bullseye": {"suite": "bullseye", "package": "linux-image-cloud-amd64"},
    "bookworm": {"suite": "bookworm", "package": "linux-image-cloud-amd64"},
    "trixie": {"suite": "trixie", "package": "linux-image-cloud-amd64"},
    "sid": {"suite": "sid", "package": "linux-image-cloud-amd64"},
    "bookworm-arm64": {"suite": "bookworm", "package": "linux-image-arm64",
                       "architecture": "arm64"},
    "trixie-arm64-16k": {"suite": "trixie", "package": "linux-image-arm64-16k",
                         "architecture": "arm64"},
}

NODES = ["-numa", "node,nodeid=0,cpus=0,memdev=a", "-numa", "node,nodeid=1,cpus=1,memdev=b",
         "-object", "memory-backend-ram,id=a,size=3G", "-object", "memory-backend-ram,id=b,size=3G"]
# The tests that a machine may make a difference to.
SYSTEM = (r"unit-(os|fork-repair)|memory.*|stress-(moves|model|wander|forks|heaps|grow|churn)"
          r"|api-.*|environment-.*")
MACHINES = {
    "bookworm-arm64-mte": {"on": "bookworm-arm64", "machine": "virt,mte=on"},
    "trixie-processors": {"on": "trixie", "processors": 8, "tests": r"stress-.*|api-.*threads"},
    "trixie-numa": {"on": "trixie", "memory": 6144, "devices": NODES, "tests": SYSTEM,
                    "guest": {"kernels-numa": ([], [])}},
    # Two pages of 1 GiB are one on each node.
    "trixie-huge-pages": {
        "on": "trixie", "memory": 6144, "devices": NODES, "tests": "api-arena|memory-options|unit-os",
        "parameters": ["hugepagesz=1G", "hugepages=2", "hugepagesz=2M", "hugepages=64"],
        "guest": {"kernels-huge-pages": ([], [])}},
    "bullseye-huge-pages": {
        "on": "bullseye", "memory": 6144, "devices": NODES, "tests": "api-arena|unit-os",
        "parameters": ["hugepagesz=1G", "hugepages=2", "hugepagesz=2M", "hugepages=64"],
        "guest": {"kernels-huge-pages": ([], [])}},
    "trixie-la57": {"on": "trixie", "cpu": "max,la57=on,-cx16", "tests": SYSTEM,
                    "guest": {"kernels-high-addresses": ([], [])}},
    "trixie-group": {
        "on": "trixie", "tests": r"api-basic|memory-(cgroup|options)|stress-(moves|model)",
        "setup": [["write", "/sys/fs/cgroup/cgroup.subtree_control", "+memory +pids"],
                  ["group", "limited"],
                  ["write", "/sys/fs/cgroup/limited/memory.max", str(400 << 20)],
                  ["write", "/sys/fs/cgroup/limited/pids.max", "3000"]],
        "guest": {"kernels-group": (["MIMALLOC_CGROUP_LIMIT=1", "MIMALLOC_MEMORY_LIMIT_HARD=1"],
                                    [])}},
    "trixie-swap": {
        "on": "trixie", "memory": 700, "modules": ["zram"], "tests": r"stress-(model|moves|wander)",
        "setup": [["write", "/sys/block/zram0/disksize", str(1 << 30)], ["swap", "/dev/zram0"]],
        "guest": {"kernels-swap": ([], [])}},
    "trixie-overcommit": {
        # Two want blocks of more than there is.
        "on": "trixie", "memory": 1500, "tests": f"(?!api-(heap|subproc)$)({SYSTEM})",
        "setup": [["write", "/proc/sys/vm/overcommit_ratio", "90"],
                  ["write", "/proc/sys/vm/overcommit_memory", "2"]],
        "guest": {"kernels-overcommit": ([], [])}},
    "trixie-thp-always": {
        "on": "trixie", "parameters": ["transparent_hugepage=always"], "tests": SYSTEM,
        "guest": {"kernels-thp": ([], ["always"])}},
    "trixie-thp-never": {
        "on": "trixie", "parameters": ["transparent_hugepage=never"], "tests": SYSTEM,
        "guest": {"kernels-thp": ([], ["never"])}},
    "trixie-folios": {
        "on": "trixie", "tests": SYSTEM,
        "parameters": ["transparent_hugepage=madvise", "thp_anon=64K:always"],
        "guest": {"kernels-folios": ([], [])}},
    "bookworm-bpftrace": {
        "on": "bookworm", "tests": "(?!)", "packages": {"bpftrace": ["usr/bin/bpftrace"]},
        "guest": {"kernels-bpftrace": ([], ["/bpftrace"])}},
}

ROWS = {name: {"architecture": "amd64", **kernel} for name, kernel in KERNELS.items()}
ROWS.update({name: {**ROWS[machine["on"]], **machine} for name, machine in MACHINES.items()})
