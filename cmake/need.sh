#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs what a command of the Makefile needs, through apt-get.
#
#   need.sh PURPOSE THING:PACKAGES...
#
# THING is a program; a file by its absolute path, in which * stands for any part of a name;
# import=MODULE of Python; or run=SCRIPT of this folder, which is content where it is there. PACKAGES
# are joined by commas; after | follow others, for distributions that do not have the former.
#
# Says first what is missing. Without root, or without apt-get, it says so and stops with exit
# status 77. What no package has here is named and left out: whoever cannot do without it says so.
set -eu
here=$(dirname "$0")
purpose=$1
shift

is_there() {
  case $1 in
    import=*) python3 -c "import ${1#import=}" >/dev/null 2>&1 ||
              /usr/bin/python3 -c "import ${1#import=}" >/dev/null 2>&1 ;;
    run=*) "$here/${1#run=}" >/dev/null 2>&1 ;;
    /*) for found in $1; do [ -e "$found" ] && return 0; done; return 1 ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
  esac
}

# Whether the distribution has all of them.
has_packages() {
  # shellcheck disable=SC2086  # a list of words
  [ "$(LC_ALL=C apt-cache policy $1 2>/dev/null | grep -c 'Candidate: [^(]')" -eq "$(echo "$1" | wc -w)" ]
}

# The first of PACKAGES|PACKAGES... that the distribution has; the last of all where none is known.
choose() {
  rest=$1
  while [ -n "$rest" ]; do
    choice=$(echo "${rest%%|*}" | tr , ' ')
    if [ "$rest" = "${rest#*|}" ] || has_packages "$choice"; then
      echo "$choice"
      return
    fi
    rest=${rest#*|}
  done
}

missing=""
for pair; do
  is_there "${pair%:*}" || missing="$missing ${pair##*:}"
done
[ -z "$missing" ] && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
  echo "$purpose needs what is not installed:$missing"
  echo "There is no apt-get here: install it, by the names that it has on this system."
  exit 77
fi
if [ "$(id -u)" -eq 0 ]; then apt-get update -qq; fi
packages=""
for wanted in $missing; do
  for package in $(choose "$wanted"); do
    case " $packages " in *" $package "*) ;; *) packages="$packages $package" ;; esac
  done
done
echo "$purpose needs packages that are not installed:$packages"
if [ "$(id -u)" -ne 0 ]; then
  echo "Installing them needs root: sudo apt-get install$packages"
  exit 77
fi
there=
for package in $packages; do
  # What others provide has no version of its own.
  if has_packages "$package" || apt-get install -s -qq "$package" >/dev/null 2>&1; then
    there="$there $package"
  else
    echo "Left out, as this system has no such package: $package"
  fi
done
packages=$there
[ -z "$packages" ] && exit 0
echo "Installing them with apt-get ..."
export DEBIAN_FRONTEND=noninteractive
# Servers that come along are not started; what apt says is of interest only where it fails.
policy=/usr/sbin/policy-rc.d
log=$(mktemp)
made=
trap 'rm -f "$log" $made' EXIT
trap 'exit 1' INT TERM
if [ ! -e "$policy" ]; then
  made=$policy
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
fi
# shellcheck disable=SC2086  # a list of words
apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends $packages >"$log" 2>&1 || {
  cat "$log"
  exit 1
}
