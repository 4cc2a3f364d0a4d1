#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The reader of the service against the plain one: the kept cases, then files at the limits of the format and random ones. An
# automake test: $srcdir is the source tree, the current directory the build.
set -eu
python=/usr/bin/python3
[ -x $python ] || exit 77
export PYTHONDONTWRITEBYTECODE=1

random() {
	count=$1 seed=$2
	shift 2
	compare --count "$count" --seed $((seed + ${SEED:-0} * 10000)) "$@"
}

compare() {
	$python "${srcdir:-.}/tests/tools/differential.py" --tool ./tests/tools/symlookup "$@"
}

compare --corpus "${srcdir:-.}/tests/data/sym" --options="" --options="--values zstd" --options="--shuffle 7 --values lz4 --page-text 1"
compare --extremes --options="" --options="--values lz4" --options="--shuffle 1 --threads 4"
random 300 1
random 200 5001 --options="--shuffle 1 --threads 4 --page-text 100"
random 100 1001 --options="--values lz4"
random 100 2001 --options="--shuffle 2 --page-text 1"
random 200 3001 --options="--chunk 7 --threads 2"
