#!/bin/sh
# SPDX-License-Identifier: MIT
# Whether apt need not be asked for CBMC: it is here, or this distribution has none, so that
# test/prove/prove.py fetches one from another release.
command -v cbmc >/dev/null 2>&1 && exit 0
[ -x "$(dirname "$0")/../out/tools/cbmc/cbmc" ] && exit 0
command -v apt-cache >/dev/null 2>&1 || exit 1
[ -z "$(apt-cache policy cbmc 2>/dev/null | grep 'Candidate: [^(]')" ]
