#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is extracted from executables: kept ones with their answers, ones that are compiled here, damaged ones. An automake test:
# $srcdir is the source tree, the current directory the build. More programs are looked for in $SHARED_DATA.
set -eu
python=/usr/bin/python3
[ -x $python ] && [ -x ./tests/tools/extract_dump ] || exit 77
export PYTHONDONTWRITEBYTECODE=1
tests="${srcdir:-.}/tests"
more=${SHARED_DATA:-${srcdir:-.}/../shared/data}/symbfile
if [ -d "$more" ]; then
	$python "$tests/tools/check_extract.py" --tool ./tests/tools/extract_dump --data "$more" --only data
else
	echo "left out: programs of SHARED_DATA, which is not there"
fi
$python "$tests/tools/check_extract.py" --tool ./tests/tools/extract_dump --data "$tests/data/symbfile" --sources "$tests/data/symbfile/src"
