#!/bin/sh
# The reader of the service against the plain one: the kept cases, then files at the limits of the format and random ones. An
# automake test: $srcdir is the source tree, the current directory the build.
set -eu
python=/usr/bin/python3
[ -x $python ] || exit 77
export PYTHONDONTWRITEBYTECODE=1

corpus() {
	compare --corpus "${srcdir:-.}/tests/data/sym" "$@"
}

random() {
	count=$1 seed=$2
	shift 2
	compare --count "$count" --seed "$seed" "$@"
}

compare() {
	$python "${srcdir:-.}/tests/tools/differential.py" --tool ./tests/tools/symlookup "$@"
}

whole_maps() {
	corpus --options="" --options="--values --codec zstd"
	random 300 1
	random 100 1001 --options="--values --codec lz4"
	compare --extremes --options="" --options="--values --codec lz4" --options="--asked 1" --options="--asked 4" --options="--threaded"
}

maps_for_a_few_offsets_and_threads() {
	corpus --options="--asked 1"
	random 100 2001 --options="--asked 1"
	random 200 3001 --options="--asked 4"
	random 100 4001 --options="--threaded"
}

# At the same time: it is the longest of the tests.
whole_maps &
one=$!
maps_for_a_few_offsets_and_threads &
two=$!
failed=0
wait $one || failed=1
wait $two || failed=1
exit $failed
