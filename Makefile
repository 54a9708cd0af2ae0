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
# `make test REAL=no` leaves out the tests with real programs, and their installation.
REAL ?= yes
# What `make run` runs: the C compiler compiles the library that serves it.
PROGRAM ?= $(CC) -O2 -Iinclude -S -o out/run/static.s src/static.c

# The Makefiles that CMake writes are not part of this one.
CMAKE := env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL cmake
LIBRARY := out/release/libmimalloc.so
BUILD_NEEDS := cmake:cmake $(firstword $(CC)):gcc
TEST_NEEDS := $(BUILD_NEEDS) c++:g++ python3:python3 nm:binutils pkg-config:pkg-config \
  valgrind:valgrind /usr/include/valgrind/memcheck.h:valgrind \
  /usr/lib/debug/.build-id:libc6-dbg musl-gcc:musl-tools

.PHONY: build help run test bench bench-quick platforms install clean

build: $(LIBRARY)
	@echo "Built $(LIBRARY). \`make help\` lists what else can be made."

help:
	@echo "make              builds the release library, $(LIBRARY)"
	@echo "make run          runs a real program on it, with messages and statistics;"
	@echo "                  make run PROGRAM='python3 my.py' runs yours"
	@echo "make test         builds release, debug and secure and tests each, and other systems"
	@echo "make bench        the benchmark suite against the allocators of the distribution"
	@echo "make bench-quick  the same in a few minutes"
	@echo "make platforms    builds and tests what this machine can for other platforms"
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

test:
	@cmake/need.sh "Testing" $(TEST_NEEDS)
ifneq ($(REAL),no)
	@if [ -x test/programs/install.sh ]; then test/programs/install.sh || { \
	  echo "make test REAL=no leaves out the tests with these programs."; exit 1; }; fi
endif
	@env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL cmake/test.sh $(JOBS) "-DMI_TEST_REAL=$(REAL) $(CMAKE_ARGS)" release debug secure secure-full tsan asan-ubsan platforms

bench: $(LIBRARY)
	@cmake/need.sh "Benchmarking" $(PYTHON):python3
	$(PYTHON) bench/run.py $(BENCH_ARGS)

bench-quick: $(LIBRARY)
	@cmake/need.sh "Benchmarking" $(PYTHON):python3
	$(PYTHON) bench/run.py --quick $(BENCH_ARGS)

platforms:
	@cmake/need.sh "Building for other platforms" $(BUILD_NEEDS) $(PYTHON):python3
	$(PYTHON) tools/platforms.py

install:
	@cmake/need.sh "Building" $(BUILD_NEEDS)
	@$(CMAKE) -S . -B out/release -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=$(PREFIX) \
	  $(CMAKE_ARGS)
	@$(CMAKE) --build out/release --parallel $(JOBS)
	$(CMAKE) --install out/release

clean:
	rm -rf out
