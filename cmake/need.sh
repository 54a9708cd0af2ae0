#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs what a command of the Makefile needs, through apt-get.
#
#   need.sh PURPOSE THING:PACKAGE...     THING is a program, or a file by its absolute path
#
# Says first what is missing. Without root, or without apt-get, it says so and stops with exit
# status 77.
set -eu
purpose=$1
shift
missing=""
for pair; do
  thing=${pair%:*}
  case $thing in
    /*) [ -e "$thing" ] || missing="$missing ${pair##*:}" ;;
    *) command -v "$thing" >/dev/null 2>&1 || missing="$missing ${pair##*:}" ;;
  esac
done
[ -z "$missing" ] && exit 0
echo "$purpose needs packages that are not installed:$missing"
if ! command -v apt-get >/dev/null 2>&1; then
  echo "There is no apt-get here: install them, by the names that they have on this system."
  exit 77
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "Installing them needs root: sudo apt-get install$missing"
  exit 77
fi
echo "Installing them with apt-get ..."
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086  # a list of words
apt-get install -y -qq --no-install-recommends $missing
