#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the programs that the tests of this folder run, from the distribution (Debian, Ubuntu).
#
# Says first what is missing. Without root it stops there, exit status 77. Servers that come with
# the packages are not started: a policy file that refuses it stands while apt works, and goes
# again; an existing one is left alone. `install.sh --list` only prints what is missing, and
# `install.sh --more` installs what the tests of the label programs-more need as well: 4 GB.
set -eu

list=no
more=no
for argument in "$@"; do
  case $argument in
    --list) list=yes ;;
    --more) more=yes ;;
    *)
      echo "install.sh: unknown argument $argument" >&2
      exit 1
      ;;
  esac
done

if ! command -v apt-get >/dev/null 2>&1; then
  echo "install.sh: no apt-get here; install the programs listed below yourself" >&2
  exit 77
fi

missing=""
# want PACKAGE PATH...: the package is missing unless one of the paths exists.
want() {
  package=$1
  shift
  for path in "$@"; do
    for found in $path; do
      [ -e "$found" ] && return 0
    done
  done
  missing="$missing $package"
}

want python3 /usr/bin/python3
want g++ /usr/bin/g++
want git /usr/bin/git
want sqlite3 /usr/bin/sqlite3
want redis-server /usr/bin/redis-server
want perl /usr/bin/perl
want ruby /usr/bin/ruby
want lua5.4 /usr/bin/lua5.4
want nodejs /usr/bin/node /usr/local/bin/node
want postgresql "/usr/lib/postgresql/*/bin/initdb"
want nginx-light /usr/sbin/nginx
want apache2-utils /usr/bin/ab
want xz-utils /usr/bin/xz
want zstd /usr/bin/zstd
want ghostscript /usr/bin/gs
want imagemagick /usr/bin/magick /usr/bin/convert
want ffmpeg /usr/bin/ffmpeg

if [ "$more" = yes ]; then
  want fakeroot /usr/bin/fakeroot
  want faketime "/usr/lib/*/faketime/libfaketimeMT.so.1"
  want eatmydata "/usr/lib/*/libeatmydata.so"
  want nocache /usr/lib/nocache/nocache.so
  want snoopy "/lib/*/libsnoopy.so"
  want libnss-wrapper "/usr/lib/*/libnss_wrapper.so"
  want libuid-wrapper "/usr/lib/*/libuid_wrapper.so"
  want libsocket-wrapper "/usr/lib/*/libsocket_wrapper.so"
  want default-jdk-headless /usr/bin/javac
  want php-cli /usr/bin/php
  want php-gd "/etc/php/*/cli/conf.d/*gd.ini"
  want r-base-core /usr/bin/Rscript
  want octave /usr/bin/octave-cli
  want erlang-base /usr/bin/erl
  want ocaml-nox /usr/bin/ocamlopt.opt
  want ghc /usr/bin/ghc
  want mariadb-server /usr/sbin/mariadbd
  want memcached /usr/bin/memcached
  want apache2 /usr/sbin/apache2
  want libreoffice-writer-nogui "/usr/lib/libreoffice/program/libswlo.so"
  want inkscape /usr/bin/inkscape
  want gdb /usr/bin/gdb
  want clang /usr/bin/clang++
  want lld /usr/bin/ld.lld
  want rustc /usr/bin/rustc
  want golang-go /usr/bin/go
  want povray /usr/bin/povray
  want openscad /usr/bin/openscad
  want chromium /usr/bin/chromium /usr/bin/google-chrome
  want firefox-esr /usr/bin/firefox-esr /usr/bin/firefox
  want emacs-nox /usr/bin/emacs
  want guile-3.0 /usr/bin/guile
  want openssh-server /usr/sbin/sshd
  want openssh-client /usr/bin/ssh
  want tor /usr/sbin/tor /usr/bin/tor
  want blender /usr/bin/blender
  want python3-venv "/usr/lib/python3.*/ensurepip/__init__.py"
  want libglib2.0-tests /usr/libexec/installed-tests/glib
  want dbus-daemon /usr/bin/dbus-daemon
  want gdk-pixbuf-tests "/usr/libexec/installed-tests/gdk-pixbuf"
  want mariadb-test /usr/share/mysql/mysql-test/mariadb-test-run.pl
fi

# Python's own tests are a package of their own, named after the minor version.
if ! /usr/bin/python3 -c 'import test.test_dict' >/dev/null 2>&1; then
  minor=$(/usr/bin/python3 -c 'import sys; print("3.%d" % sys.version_info[1])' 2>/dev/null ||
          apt-cache depends python3 2>/dev/null | sed -n 's/.*Depends: python\(3\.[0-9]*\)$/\1/p')
  missing="$missing libpython$minor-testsuite"
fi

if [ -z "$missing" ]; then
  echo "install.sh: everything is installed"
  exit 0
fi
echo "install.sh: missing:$missing"
[ "$list" = yes ] && exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "install.sh: not root; install them with: sudo apt-get install$missing" >&2
  exit 77
fi

policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  trap 'exit 1' INT TERM
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
fi
echo "install.sh: installing them with apt-get"
export DEBIAN_FRONTEND=noninteractive
apt-get update
# shellcheck disable=SC2086 # a list of words
apt-get install -y --no-install-recommends $missing
