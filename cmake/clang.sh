#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the name of the newest clang here that can link the thread sanitizer and the fuzzer, or
# fails: not every clang comes with their libraries.
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
echo "int LLVMFuzzerTestOneInput(const char* p, unsigned long n) { return p == 0 && n; }" >"$folder/fuzz.c"
echo "int main(void) { return 0; }" >"$folder/main.c"
version=30
while [ "$version" -ge 11 ]; do
  name=clang-$version
  [ "$version" -gt 11 ] || name=clang
  if command -v "$name" >/dev/null 2>&1 &&
     "$name" -fsanitize=thread "$folder/main.c" -o "$folder/a" >/dev/null 2>&1 &&
     "$name" -fsanitize=fuzzer,undefined "$folder/fuzz.c" -o "$folder/a" >/dev/null 2>&1; then
    echo "$name"
    exit 0
  fi
  version=$((version - 1))
done
exit 1
