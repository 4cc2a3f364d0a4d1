#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# version.sh [--commit]: the version of this checkout or tarball, or its commit.
#
# That of configure.ac where the commit has its tag, such as v2.0.0, or nothing is known of a commit; else with the time and commit
# behind it, 2.0.0+git20261128.135759.71a1dee: later commits have higher versions, also for dpkg. A tarball has both in files.
set -eu
cd "$(dirname "$0")/../.."
release=$(sed -n 's/^AC_INIT(\[symbolicated\], \[\(.*\)\])$/\1/p' configure.ac)

# A checkout of another user is as good as one's own here.
of_git() { [ -e .git ] && TZ=UTC0 git -c safe.directory='*' "$@" 2>/dev/null; }

if [ "${1-}" = --commit ]; then
	cat commit 2>/dev/null || of_git rev-parse --short=12 HEAD || :
elif [ -f version ]; then
	cat version
elif of_git tag --points-at HEAD | grep -qx "v$release"; then
	echo "$release"
elif made=$(of_git log -1 --abbrev=7 --date=format-local:%Y%m%d.%H%M%S --format=%cd.%h); then
	echo "$release+git$made"
else
	echo "$release"
fi
