#!/bin/sh
# SPDX-License-Identifier: MIT
# Searches with libFuzzer for so many seconds, guided by coverage, and says what to do with what it finds.
#
#   search.sh SECONDS PROGRAM FOLDER KEPT [OPTION...]
#
# Inputs that reach something new are kept in FOLDER/new, from where the next search goes on, beside
# those of the folder KEPT, where there is one; inputs that end the program in FOLDER/found, where they stay
# until somebody takes them away. Exit status 0: nothing was found, and some inputs ran.
seconds=$1 program=$2 folder=$3 kept=$4
shift 4
mkdir -p "$folder/new" "$folder/found" || exit 2
[ -d "$kept" ] && set -- "$@" "$kept"
before=$(ls "$folder/found")
"$program" -max_total_time="$seconds" -max_len=2048 -rss_limit_mb=3000 -verbosity=0 -print_final_stats=1 \
  "-artifact_prefix=$folder/found/" "$folder/new" "$@"
status=$?
if [ "$(ls "$folder/found")" != "$before" ]; then
  echo "What was found is in $folder/found. The newest of them, made small and kept for every later test:"
  newest=$(ls -t "$folder/found" | head -n 1)
  echo "  $program -minimize_crash=1 -max_total_time=300 -exact_artifact_path=$folder/small $folder/found/$newest"
  echo "  cp $folder/small $kept/found-$newest"
  [ "$status" -ne 0 ] || status=1
fi
exit "$status"
