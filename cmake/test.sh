#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds each of the given presets and runs its tests; `make test` calls it.
#
#   test.sh JOBS CMAKE_ARGUMENTS PRESET...
#
# A failure does not keep the other builds from being tested. Ends with the closing lines of each
# ctest; the whole output of each is in out/PRESET/test.log.
set -u
jobs=$1
arguments=$2
shift 2
cd "$(dirname "$0")/.." || exit 1
failed=0
closing=""

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
  echo "== $preset: building"
  case $preset in
    # The real programs run on the libraries that are meant for them: release and secure.
    debug) type="-DCMAKE_BUILD_TYPE=Debug -DMI_TEST_REAL=no" ;;
    secure) type="-DCMAKE_BUILD_TYPE=Release -DMI_SECURE=ON" ;;
    *) type="-DCMAKE_BUILD_TYPE=Release" ;;
  esac
  # Not by --preset, which CMake knows only from 3.21 on.
  # shellcheck disable=SC2086  # lists of words
  if ! cmake -S . -B "$out" $arguments $type >"$out/build.log" 2>&1 ||
     ! cmake --build "$out" --parallel "$jobs" >>"$out/build.log" 2>&1; then
    echo "== $preset: the build failed"
    grep -E -B2 -A8 "error|undefined reference|CMake Error" "$out/build.log" | head -n 60
    closing="$closing
== $preset: the build failed, see $out/build.log"
    failed=1
    continue
  fi
  echo "== $preset: testing"
  if ! (cd "$out" && logged test.log ctest --output-on-failure -j "$jobs"); then failed=1; fi
  closing="$closing
== $preset
$(sed -n '/% tests passed/,$p' "$out/test.log")"
done
echo "$closing"
exit $failed
