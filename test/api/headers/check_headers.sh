#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks the public headers: complete, and without a warning in every C and C++ standard.
#
#   check_headers.sh [include-directory [library]]
#
# 1. The functions that mimalloc.h and mimalloc-stats.h declare, those of functions.h, and those of
#    ../public-symbols.txt are the same.
# 2. Every macro of the headers is used by one of the test sources.
# 3. The test sources compile with -Wall -Wextra -Wpedantic -Werror in each standard, with each
#    compiler that is installed, for both generations of the interface. With a library, the programs
#    that use all of the present one are linked with it and run.
# 4. What mimalloc-override.h redirects refers to mi_ functions only.
#
# By default those are gcc, clang and the newest clang that has its sanitizers.
# CCS and CXXS name other compilers to use (none if empty), EXTRA_FLAGS further options, such as
# -stdlib=libc++, JOBS how many compilers run at a time. Exits with 1 if anything failed.
set -u
LC_ALL=C
export LC_ALL

here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" = --job ]; then
  is_job=1
  shift
else
  is_job=0
  HEADERS_INCLUDE=${1:-$here/../../../include}
  HEADERS_LIBRARY=${2:-}
  export HEADERS_INCLUDE HEADERS_LIBRARY
  newest=$("$here/../../../cmake/clang.sh")
  CCS=${CCS-gcc clang $newest}
  CXXS=${CXXS-g++ clang++ ${newest:+clang++${newest#clang}}}
fi
include=$HEADERS_INCLUDE
symbols=$here/../public-symbols.txt
flags="-Wall -Wextra -Wpedantic -Werror -I$include -I$here ${EXTRA_FLAGS:-}"
temp=$(mktemp -d) || exit 1
trap 'rm -rf "$temp"' EXIT
trap 'exit 1' HUP INT TERM

# Reports one check, in one piece since several may at a time; its output is in $temp/log.
report() {
  if [ "$1" -eq 0 ]; then
    printf 'pass  %s\n' "$2"
  else
    printf 'FAIL  %s\n%s\n' "$2" "$(head -n 20 "$temp/log" | sed 's/^/      /')"
  fi
}

skip() {
  printf 'skip  %s\n' "$1"
}

# Compiles one file: compiler, standard, language, generation, file. The programs that use all of
# the present generation are linked and run, too.
compile() {
  case $4$5 in
    3use_all.*) program=$HEADERS_LIBRARY ;;
    *) program= ;;
  esac
  if [ -n "$program" ]; then
    # shellcheck disable=SC2086  # the flags are several words
    "$1" "-std=$2" -x "$3" $flags "-DMI_API_VERSION=$4" -O0 "$here/$5" -x none \
      "$HEADERS_LIBRARY" -pthread -o "$temp/program" >"$temp/log" 2>&1 &&
      "$temp/program" >>"$temp/log" 2>&1
  else
    # shellcheck disable=SC2086  # the flags are several words
    "$1" "-std=$2" -x "$3" $flags "-DMI_API_VERSION=$4" -fsyntax-only "$here/$5" >"$temp/log" 2>&1
  fi
  report $? "$1 -std=$2 MI_API_VERSION=$4 $5"
}

if [ "$is_job" -eq 1 ]; then
  compile "$@"
  exit 0
fi

knows_standard() {
  echo 'int main(void);' | "$1" "-std=$2" -x "$3" -fsyntax-only - >/dev/null 2>&1
}

# All standards of a language with one compiler: compiler, language, standards, files; and the
# standards and files of the older generation, which has the same redirections and operators.
matrix() {
  if ! command -v "$1" >/dev/null 2>&1; then
    skip "$1 (not installed)"
    return
  fi
  for std in $3; do
    if ! knows_standard "$1" "$std" "$2"; then
      skip "$1 -std=$std (unknown to this compiler)"
      continue
    fi
    for file in $4; do echo "$1 $std $2 3 $file" >>"$temp/jobs"; done
    case " $5 " in
      *" $std "*) for file in $6; do echo "$1 $std $2 2 $file" >>"$temp/jobs"; done ;;
    esac
  done
}

# The names that the headers declare, without inline functions.
declared() {
  cat "$include/mimalloc.h" "$include/mimalloc-prof.h" "$include/mimalloc-stats.h" |
    sed -e '/^ *#/d' -e 's://.*::' | tr '\n' ' ' | tr ';{}' '\n\n\n' |
    sed -n 's/.*mi_decl_export//p' | grep -o '\bmi_[a-z0-9_]*(' | grep -v '^mi_attr_' |
    tr -d '(' | sort -u
}

check_names() {
  declared >"$temp/declared"
  sed -n 's/^MI_FUN([^,]*, \(mi_[a-z0-9_]*\),.*/\1/p' "$here/functions.h" | sort >"$temp/listed"
  diff "$temp/declared" "$temp/listed" >"$temp/log" 2>&1
  report $? "functions.h lists the $(wc -l <"$temp/declared") functions that the headers declare"
  diff "$temp/declared" "$symbols" >"$temp/log" 2>&1
  report $? "public-symbols.txt lists the same functions"
}

# A macro counts as used where its name occurs; guards, renamed functions and helpers that start
# with an underscore are no interface.
check_macros() {
  sed -n 's/^ *# *define  *\([A-Za-z_][A-Za-z0-9_]*\).*/\1/p' "$include"/mimalloc*.h | sort -u |
    grep -v -e '^MIMALLOC_.*_H$' -e '^MIMALLOC_H$' -e '^_mi_' >"$temp/macros"
  : >"$temp/log"
  while read -r macro; do
    grep -q -x -e "$macro" "$temp/declared" && continue
    [ "$macro" = mi_arena_id_t ] || [ "$macro" = mi_subproc_id_t ] && continue
    cat "$here"/use_* "$here"/checks.h | grep -q -w -e "$macro" ||
      echo "$macro is not used" >>"$temp/log"
  done <"$temp/macros"
  [ ! -s "$temp/log" ]
  report $? "the tests use all $(wc -l <"$temp/macros") macros of the headers"
}

check_redirected() {
  if ! command -v "$1" >/dev/null 2>&1 || ! command -v nm >/dev/null 2>&1; then
    skip "$1: names that use_override.c leaves alone (no $1, or no nm)"
    return
  fi
  # shellcheck disable=SC2086  # the flags are several words
  "$1" -x "$2" $flags -O0 -c "$here/use_override.c" -o "$temp/override.o" >"$temp/log" 2>&1 &&
    nm -u "$temp/override.o" | sed 's/^ *U *//' | grep -v -e '^mi_' -e '^_GLOBAL_OFFSET_TABLE_$' \
      >"$temp/log"
  [ -f "$temp/override.o" ] && [ ! -s "$temp/log" ]
  report $? "$1: use_override.c refers to mi_ functions only"
  rm -f "$temp/override.o"
}

check_all() {
  check_names
  check_macros
  : >"$temp/jobs"
  for cc in $CCS; do
    matrix "$cc" c "c99 c11 c17 c2x" "use_all.c use_override.c" \
      "c99 c11 c17 c2x" "use_all.c use_override.c"
  done
  for cxx in $CXXS; do
    matrix "$cxx" c++ "c++98 c++11 c++14 c++17 c++20 c++23" \
      "use_all.cpp use_override.c use_new_delete.cpp" "c++98 c++11 c++23" use_all.cpp
  done
  xargs -P "${JOBS:-$(nproc 2>/dev/null || echo 2)}" -L 1 sh "$0" --job <"$temp/jobs"
  for cc in $CCS; do check_redirected "$cc" c; done
  for cxx in $CXXS; do check_redirected "$cxx" c++; done
}

check_all | tee "$temp/results"
passed=$(grep -c '^pass' "$temp/results")
failed=$(grep -c '^FAIL' "$temp/results")
skipped=$(grep -c '^skip' "$temp/results")
if [ "$passed" -lt "$(wc -l <"$temp/jobs")" ] && [ "$failed" -eq 0 ]; then
  echo "FAIL  some compilers did not run"
  failed=1
fi
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
