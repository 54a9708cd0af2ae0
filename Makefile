# SPDX-License-Identifier: MIT
# The short way to what one does with mimalloc. CMake is the build underneath and can be used on
# its own; `make help` lists the commands.
#
# Each command installs what it needs through apt-get and says so first; without root it says what
# is missing and stops.

CC ?= cc
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
PYTHON ?= python3
# Further arguments for CMake, and for bench/run.py.
CMAKE_ARGS ?=
BENCH_ARGS ?=
# The rows of tools/fresh.py that `make fresh` tries; all but the longest if none are named.
FRESH ?=
# Options and compilers for tools/compilers.py.
COMPILERS ?=
# How long `make fuzz-afl` searches, its targets together.
MINUTES ?= 5
# What `make nightly` runs, one after another, and for how long mutants are tried.
NIGHT ?= fuzz prove options environment soak mutants
NIGHT_MINUTES ?= 360
# `make test REAL=no` leaves out the tests with real programs, and their installation.
REAL ?= yes
# What `make run` runs: the C compiler compiles the library that serves it.
PROGRAM ?= $(CC) -O2 -Iinclude -S -o out/run/static.s src/static.c

# The Makefiles that CMake writes are not part of this one.
CMAKE := env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL cmake
LIBRARY := out/release/libmimalloc.so
BUILD_NEEDS := cmake:cmake $(firstword $(CC)):gcc
TEST_NEEDS := $(BUILD_NEEDS) c++:g++ python3:python3 nm:binutils pkg-config:pkg-config file:file \
  git:git strace:strace gdb:gdb cpio:cpio man:man-db mandoc:mandoc doxygen:doxygen \
  cargo:cargo-web|cargo-1.80|cargo qemu-system-x86_64:qemu-system-x86 \
  import=ensurepip:python3-venv import=elftools:python3-pyelftools valgrind:valgrind \
  /usr/include/valgrind/memcheck.h:valgrind \
  /usr/lib/debug/.build-id:libc6-dbg musl-gcc:musl-tools google-pprof:google-perftools \
  jeprof:libjemalloc-dev dot:graphviz \
  run=cbmc.sh:cbmc run=clang.sh:clang-19,libclang-rt-19-dev|clang-18,libclang-rt-18-dev|clang
# The other platforms that `make test` tries.
TEST_PLATFORMS := linux-musl linux-i386 linux-aarch64 windows-x86_64 wasi

.PHONY: build help run test-needs test environment probes bench bench-traces bench-quick baseline prove coverage fuzz-afl nightly platforms kernels fresh compilers docs install clean

build: $(LIBRARY)
	@echo "Built $(LIBRARY). \`make help\` lists what else can be made."

help:
	@echo "make              builds the release library, $(LIBRARY)"
	@echo "make run          runs a real program on it, with messages and statistics;"
	@echo "                  make run PROGRAM='python3 my.py' runs yours"
	@echo "make test         builds release, debug and secure and tests each, and other systems"
	@echo "make environment  programs under limits, sandboxes, debuggers and in crowds: what the library"
	@echo "                  does in each, beside the system's malloc"
	@echo "make probes       misuse of the heap, and the same programs without it, on our builds and on"
	@echo "                  other allocators; writes the tables of docs/hardening.md"
	@echo "make prove        proves properties of the source by bounded model checking (an hour), and"
	@echo "                  judges the protocols between threads by herd7"
	@echo "make coverage     which branches the tests take, as pages: out/coverage/pages/index.html"
	@echo "make fuzz-afl     searches with AFL++ for what the fuzz targets do not hold: MINUTES=5 in all"
	@echo "make nightly      what takes hours: an hour of search for each fuzz target and build, soaks of six hours,"
	@echo "                  all proofs, all option values, all environments, and mutants for NIGHT_MINUTES=360;"
	@echo "                  make nightly NIGHT='fuzz soak' these only"
	@echo "make bench        the benchmark suite against other allocators"
	@echo "make bench-traces replays recordings of programs with all of these allocators"
	@echo "make bench-quick  the same in a few minutes"
	@echo "make baseline     writes test/baseline/baseline.json anew: what repeatable programs cost"
	@echo "make platforms    builds and tests what this machine can for other platforms"
	@echo "make kernels      boots real kernels in emulated machines and runs the tests on them;"
	@echo "                  make kernels ROWS='bookworm sid' these only"
	@echo "make fresh        make run on new minimal systems: Debian 11, 12, 13 and sid; with FRESH=test"
	@echo "                  make test on Debian 12"
	@echo "make compilers    gcc 9 to 16 and clang 13 to 23 with many options, each on such a system"
	@echo "make docs         makes pages of the documents and the interface: out/doc/html/index.html"
	@echo "make install      installs under PREFIX ($(PREFIX))"
	@echo "make clean        removes what was built"

# CMake knows best what is out of date.
.PHONY: $(LIBRARY)
$(LIBRARY):
	@cmake/need.sh "Building" $(BUILD_NEEDS)
	@mkdir -p out/release
	@$(CMAKE) -S . -B out/release -DCMAKE_BUILD_TYPE=Release $(CMAKE_ARGS) >out/release/configure.log \
	  || { cat out/release/configure.log; exit 1; }
	@$(CMAKE) --build out/release --parallel $(JOBS) --target mimalloc

run: $(LIBRARY)
	@mkdir -p out/run
	$(info LD_PRELOAD=$(LIBRARY) MIMALLOC_VERBOSE=1 MIMALLOC_SHOW_STATS=1 $(PROGRAM))
	@env LD_PRELOAD="$(CURDIR)/$(LIBRARY)" MIMALLOC_VERBOSE=1 MIMALLOC_SHOW_STATS=1 $(PROGRAM)

# Says at once all that is missing, or installs it.
test-needs:
	@status=0; cmake/need.sh "Testing" $(foreach need,$(TEST_NEEDS),'$(need)') || status=$$?; \
	if [ "$(REAL)" != no ]; then test/programs/install.sh || { status=$$?; \
	  echo "make test REAL=no leaves out the tests with these programs."; }; fi; \
	if command -v $(PYTHON) >/dev/null 2>&1; then \
	  $(PYTHON) test/prove/prove.py --get --list >/dev/null; \
	  $(PYTHON) test/prove/litmus.py --get --list >/dev/null; \
	  $(PYTHON) tools/platforms.py --prepare $(TEST_PLATFORMS) || status=$$?; fi; \
	exit $$status

test: test-needs
	@env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL MI_PLATFORMS="$(TEST_PLATFORMS)" cmake/test.sh $(JOBS) \
	  "-DMI_TEST_REAL=$(REAL) $(CMAKE_ARGS)" release debug secure secure-full tsan asan-ubsan platforms

# What `make test` runs of it in a minute or two, and all the rest.
environment:
	@cmake/need.sh "Testing environments" $(BUILD_NEEDS) c++:g++ python3:python3 gdb:gdb perl:perl \
	  sqlite3:sqlite3 lua5.4:lua5.4 /usr/bin/python3:python3
	@mkdir -p out/release
	@$(CMAKE) -S . -B out/release -DCMAKE_BUILD_TYPE=Release $(CMAKE_ARGS) >out/release/configure.log \
	  || { cat out/release/configure.log; exit 1; }
	@$(CMAKE) --build out/release --parallel $(JOBS) --target mimalloc-environment
	$(PYTHON) test/environment/environment.py --build out/release/test --library $(LIBRARY) --heavy \
	  --table out/environments.md

# cargo, clang and the packages of allocators are not asked for: who is not there is named.
probes:
	@cmake/need.sh "Running the probes" $(BUILD_NEEDS) c++:g++ $(PYTHON):python3
	@for build in release secure secure-full; do \
	  case $$build in secure) level=-DMI_SECURE=ON ;; secure-full) level=-DMI_SECURE_FULL=ON ;; *) level= ;; esac; \
	  mkdir -p out/$$build; \
	  { $(CMAKE) -S . -B out/$$build -DCMAKE_BUILD_TYPE=Release $$level $(CMAKE_ARGS) && \
	    $(CMAKE) --build out/$$build --parallel $(JOBS) --target mimalloc; } >out/$$build/probes.log 2>&1 \
	    || { cat out/$$build/probes.log; exit 1; }; \
	done
	-$(PYTHON) bench/peers/peers.py --kind secure
	$(PYTHON) test/probes/twins.py --keep out/peers/twins.json --table docs/hardening.md
	$(PYTHON) test/probes/starts.py --lib secure=out/secure/libmimalloc-secure.so \
	  --lib full=out/secure-full/libmimalloc-secure.so

bench: $(LIBRARY)
	@cmake/need.sh "Benchmarking" $(PYTHON):python3
	$(PYTHON) bench/run.py $(BENCH_ARGS)

bench-traces: $(LIBRARY)
	@cmake/need.sh "Benchmarking" $(PYTHON):python3
	@$(CMAKE) --build out/release --parallel $(JOBS) --target mimalloc-trace-replay
	$(PYTHON) bench/traces.py $(BENCH_ARGS)

bench-quick: $(LIBRARY)
	@cmake/need.sh "Benchmarking" $(PYTHON):python3
	$(PYTHON) bench/run.py --quick $(BENCH_ARGS)

# What ctest -L baseline compares with.
baseline:
	@cmake/need.sh "Counting" $(BUILD_NEEDS) c++:g++ $(PYTHON):python3 valgrind:valgrind strace:strace
	@mkdir -p out/release
	@$(CMAKE) -S . -B out/release -DCMAKE_BUILD_TYPE=Release $(CMAKE_ARGS) >out/release/configure.log \
	  || { cat out/release/configure.log; exit 1; }
	@$(CMAKE) --build out/release --parallel $(JOBS) --target mimalloc mimalloc-trace-replay baseline-programs
	$(PYTHON) bench/baseline.py --write

# The tables of docs/proofs.md and docs/concurrency.md are written anew.
prove:
	@cmake/need.sh "Proving" $(BUILD_NEEDS) $(PYTHON):python3 run=cbmc.sh:cbmc
	$(PYTHON) test/prove/litmus.py --get --table docs/concurrency.md
	$(PYTHON) test/prove/prove.py --get --jobs $(JOBS) --table docs/proofs.md

coverage:
	@cmake/need.sh "Counting branches" $(BUILD_NEEDS) ninja:ninja-build gcov:gcc $(PYTHON):python3
	$(PYTHON) tools/coverage.py --jobs $(JOBS) --table docs/testing.md

fuzz-afl:
	@cmake/need.sh "Searching with AFL++" afl-clang-fast:afl++ $(PYTHON):python3
	$(PYTHON) test/fuzz/afl.py --minutes $(MINUTES)

# A part that fails does not keep the others from being run. The build is one of its own, in which clang's fuzzer
# goes on from the inputs of the nights before; results of mutants are kept as well (out/mutate), so that some nights
# try them all.
nightly:
	@cmake/need.sh "Testing for hours" $(TEST_NEEDS) afl-clang-fast:afl++
	@mkdir -p out/nightly
	@$(CMAKE) -S . -B out/nightly -DCMAKE_BUILD_TYPE=Release -DMI_TEST_HEAVY=ON $(CMAKE_ARGS) \
	  >out/nightly/configure.log || { cat out/nightly/configure.log; exit 1; }
	@$(CMAKE) --build out/nightly --parallel $(JOBS) >out/nightly/build.log || { tail -n 40 out/nightly/build.log; exit 1; }
	@status=0; for part in $(NIGHT); do echo "== nightly: $$part"; \
	  if [ $$part = mutants ]; then \
	    $(PYTHON) tools/mutate.py --minutes $(NIGHT_MINUTES) --jobs $(JOBS) --survivors || status=1; \
	  else \
	    [ $$part != prove ] || $(PYTHON) test/prove/prove.py --get --list >/dev/null; \
	    ctest --test-dir out/nightly -L "^$$part(-users)?-heavy\$$" --output-on-failure || status=1; \
	  fi; \
	done; exit $$status

platforms:
	@cmake/need.sh "Building for other platforms" $(BUILD_NEEDS) $(PYTHON):python3
	$(PYTHON) tools/platforms.py

kernels:
	@cmake/need.sh "Building the tests" $(BUILD_NEEDS) c++:g++ $(PYTHON):python3
	$(PYTHON) tools/kernels.py --install --jobs $(JOBS) $(ROWS)

SYSTEM_NEEDS := debootstrap:debootstrap $(PYTHON):python3 \
  /usr/share/keyrings/debian-archive-keyring.gpg:debian-archive-keyring

fresh:
	@cmake/need.sh "Making a new system" $(SYSTEM_NEEDS)
	$(PYTHON) tools/fresh.py $(FRESH)

compilers:
	@cmake/need.sh "Making systems with other compilers" $(SYSTEM_NEEDS)
	$(PYTHON) tools/compilers.py $(COMPILERS)

docs:
	@cmake/need.sh "Making the pages" doxygen:doxygen
	@mkdir -p out/doc
	@doxygen docs/Doxyfile 2>out/doc/warnings.log; cat out/doc/warnings.log; test ! -s out/doc/warnings.log
	@echo "out/doc/html/index.html"

install:
	@cmake/need.sh "Building" $(BUILD_NEEDS)
	@$(CMAKE) -S . -B out/release -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=$(PREFIX) \
	  $(CMAKE_ARGS)
	@$(CMAKE) --build out/release --parallel $(JOBS)
	$(CMAKE) --install out/release

clean:
	rm -rf out
