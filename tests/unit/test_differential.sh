#!/bin/sh
# The reader of the service against the plain one: the kept cases, then files at the limits of the format and random ones. An
# automake test: $srcdir is the source tree, the current directory the build.
set -eu
python=/usr/bin/python3
[ -x $python ] || exit 77
export PYTHONDONTWRITEBYTECODE=1
differential="${srcdir:-.}/tests/tools/differential.py"
tool=./tests/tools/symlookup
$python "$differential" --tool $tool --corpus "${srcdir:-.}/tests/data/sym"
$python "$differential" --tool $tool --corpus "${srcdir:-.}/tests/data/sym" --options="--values --codec zstd"
$python "$differential" --tool $tool --count 300 --seed 1
$python "$differential" --tool $tool --count 100 --seed 1001 --options="--values --codec lz4"
$python "$differential" --tool $tool --count 100 --seed 4001 --options="--threaded"
# maps for a few offsets
$python "$differential" --tool $tool --corpus "${srcdir:-.}/tests/data/sym" --options="--asked 1"
$python "$differential" --tool $tool --count 100 --seed 2001 --options="--asked 1"
$python "$differential" --tool $tool --count 200 --seed 3001 --options="--asked 4"
