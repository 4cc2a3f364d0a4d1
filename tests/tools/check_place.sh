#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_place.sh run|check: says at once, instead of in the middle, that ./run or ./check cannot work in this place: in this
# directory, or with this TMPDIR. CHECK_PLACE_KIB replaces the room that ./check needs, for the test of this script.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
temporary=${TMPDIR:-/tmp}
# Paths of sockets end at 107 bytes; these follow in the directory of ./run, and of the tests.
case $1 in
run) longest=65 needed=${CHECK_PLACE_KIB:-10000} ;;
*) longest=60 needed=${CHECK_PLACE_KIB:-1000000} ;;
esac

complain() {
	echo "./$name: $1" >&2
	exit 1
}
name=$1

# What configure and make refuse in the name of a directory; blanks are fine.
case $root in
*[\\\"\#\$\&\'\`:%=\;\<\>\|\*\?\(\)\[\]\~]* | *'
'*) complain "cannot build in $root: make takes no such character in a path; move it" ;;
esac
mkdir -p "$root/build" 2>/dev/null && [ -w "$root" ] && [ -w "$root/build" ] ||
	complain "cannot write to $root; copy it to where you can, or see README, \"Building by hand\", for a build elsewhere"
[ -d "$temporary" ] && [ -w "$temporary" ] || complain "TMPDIR: $temporary is no directory that can be written to"
[ "$(printf %s "$temporary" | wc -c)" -le $longest ] || complain "TMPDIR: $temporary is too long for paths of sockets: at most $longest bytes"
room=$(df -Pk "$temporary" | awk 'END { print $(NF - 2) }')
[ "$room" -ge "$needed" ] || complain "TMPDIR: $temporary has room for $((room / 1000)) MB; $((needed / 1000)) MB are needed"
