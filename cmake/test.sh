#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds each of the given presets and runs its tests; `make test` calls it.
#
#   test.sh JOBS CMAKE_ARGUMENTS PRESET...
#
# tsan, asan, ubsan and asan-ubsan, which is both in one build, build and run a bounded selection
# only, of programs with many threads; so does secure-full, the secure build with all mitigations.
# MI_PLATFORMS are the rows that platforms has tools/platforms.py run.
# A failure does not keep the other builds from being tested. Ends with the closing lines of each
# ctest; the whole output of each is in out/PRESET/test.log.
set -u
jobs=$1
arguments=$2
shift 2
cd "$(dirname "$0")/.." || exit 1
failed=0
closing=""

sanitized="api-heap-threads stress-wander stress-onepage stress-pipes stress-heaps stress-subprocs
           stress-reenter stress-grow"

# What depends on the guard pages and the quarantine of secure-full.
guarded="unit-bits api-aligned api-edges api-fork-threads api-heap-threads api-moved stress-replay
         stress-grow"

# Whether the compiler's other sanitizers can be linked.
has_asan() {
  mkdir -p out/asan-ubsan
  echo "int main(void) { return 0; }" >out/asan-ubsan/probe.c
  "${CC:-cc}" -fsanitize=address,undefined -o out/asan-ubsan/probe out/asan-ubsan/probe.c >/dev/null 2>&1
}

# Shows a log as it grows into a file; the status is that of the command.
logged() {
  log=$1
  shift
  { "$@" 2>&1; echo $? >"$log.status"; } | tee "$log"
  return "$(cat "$log.status")"
}

for preset; do
  out=out/$preset
  mkdir -p "$out"
  if [ "$preset" = platforms ]; then
    # shellcheck disable=SC2086  # a list of words
    timeout 200 python3 tools/platforms.py --quick --minutes 1 --jobs "$jobs" $MI_PLATFORMS \
      >"$out/table.txt" 2>&1
    status=$?
    closing="$closing
== platforms
$(cat "$out/table.txt")"
    case $status in
      0) ;;
      124) closing="$closing
stopped after 200 seconds; the rows that are not named were not run" ;;
      *) failed=1 ;;
    esac
    continue
  fi
  if [ "$preset" = tsan ] && ! clang=$(cmake/clang.sh); then
    closing="$closing
== tsan: left out, there is no clang with a thread sanitizer (packages clang-19, libclang-rt-19-dev)"
    continue
  fi
  if [ "$preset" = asan-ubsan ] && ! has_asan; then
    closing="$closing
== asan-ubsan: left out, this compiler cannot link the address sanitizer"
    continue
  fi
  targets=""
  selection=""
  echo "== $preset: building"
  case $preset in
    # The real programs run on the libraries that are meant for them: release and secure.
    debug) type="-DCMAKE_BUILD_TYPE=Debug -DMI_TEST_REAL=no" ;;
    secure) type="-DCMAKE_BUILD_TYPE=Release -DMI_SECURE=ON" ;;
    tsan)
      type="-DCMAKE_BUILD_TYPE=Debug -DMI_DEBUG_TSAN=ON -DMI_OVERRIDE=OFF"
      type="$type -DCMAKE_C_COMPILER=$clang -DCMAKE_CXX_COMPILER=clang++${clang#clang}"
      ;;
    secure-full) type="-DCMAKE_BUILD_TYPE=Release -DMI_SECURE_FULL=ON" ;;
    asan) type="-DCMAKE_BUILD_TYPE=Debug -DMI_TRACK_ASAN=ON -DMI_OVERRIDE=OFF" ;;
    asan-ubsan) type="-DCMAKE_BUILD_TYPE=Debug -DMI_TRACK_ASAN=ON -DMI_DEBUG_UBSAN=ON -DMI_OVERRIDE=OFF" ;;
    ubsan) type="-DCMAKE_BUILD_TYPE=Debug -DMI_DEBUG_UBSAN=ON" ;;
    *) type="-DCMAKE_BUILD_TYPE=Release" ;;
  esac
  chosen=""
  case $preset in
    *san) chosen=$sanitized ;;
    secure-full) chosen=$guarded ;;
  esac
  case $preset in
    *san | secure-full)
      targets="--target"
      for name in $chosen; do
        targets="$targets mimalloc-$name"
        selection="$selection|$name"
      done
      if [ "$preset" = secure-full ]; then
        targets="$targets mimalloc"
        selection="$selection|probes-twins|probes-starts"
      fi
      selection="-R ^(${selection#|})\$"
      ;;
  esac
  # Not by --preset, which CMake knows only from 3.21 on.
  # shellcheck disable=SC2086  # lists of words
  if ! cmake -S . -B "$out" $arguments $type >"$out/build.log" 2>&1 ||
     ! cmake --build "$out" --parallel "$jobs" $targets >>"$out/build.log" 2>&1; then
    echo "== $preset: the build failed"
    grep -E -B2 -A8 "error|undefined reference|CMake Error" "$out/build.log" | head -n 60
    closing="$closing
== $preset: the build failed, see $out/build.log"
    failed=1
    continue
  fi
  echo "== $preset: testing"
  if ! (cd "$out" && logged test.log ctest --output-on-failure -j "$jobs" $selection); then failed=1; fi
  closing="$closing
== $preset
$(sed -n '/% tests passed/,$p' "$out/test.log")"
done
echo "$closing"
exit $failed
