#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build.sh DIRECTORY [CONFIGURE-ARGUMENT...]: builds everything out of tree in DIRECTORY. Quiet unless it fails; what was printed is
# in DIRECTORY/build.log. With BUILD_TESTS=1 the tests are built too, or only the programs that it names. With BUILD_PROGRESS=1 it
# says every five seconds how far it is.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
cd "$1"
shift

build() {
	[ -x "$root/configure" ] || (cd "$root" && autoreconf -i) || return
	# Configure again when asked for something else than last time; make itself notices changed sources of configure.
	if [ ! -f Makefile ] || [ "$*" != "$(cat configured 2>/dev/null)" ]; then
		# By a relative path: an absolute one may have a blank, which configure does not take.
		"$(realpath --relative-to=. "$root")/configure" "$@" || return
		[ ! -f configured ] || make clean || return
		echo "$*" >configured
	fi
	case ${BUILD_TESTS:-} in
	"") make -j "$(nproc)" ;;
	1) make -j "$(nproc)" check TESTS= ;;
	*) make -j "$(nproc)" check TESTS= check_PROGRAMS="$BUILD_TESTS" check_LIBRARIES= ;;
	esac
}

if [ -n "${BUILD_PROGRESS:-}" ]; then
	: >build.log
	while sleep 5; do echo "$(grep -c '^  CC ' build.log) files compiled" >&2; done &
	trap 'kill $! 2>/dev/null' EXIT
fi
if ! build "$@" >build.log 2>&1; then
	tail -n 60 build.log >&2
	echo "The build failed; all of it is in $PWD/build.log" >&2
	exit 1
fi
