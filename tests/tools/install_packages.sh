#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install_packages.sh run|check: installs what packages.txt names and this machine has not, as root or through sudo.
set -eu
list=$(dirname "$0")/../../packages.txt

if ! command -v dpkg-query >/dev/null; then
	echo "This is not Debian: $list names what is needed; going on with what is there." >&2
	exit 0
fi

kinds='build|run'
[ "$1" = check ] && kinds='build|run|check'
missing=
for package in $(sed -nE "s/^([a-z0-9.+-]+) +($kinds)\$/\\1/p" "$list"); do
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

echo "installing$missing" >&2
if [ "$(id -u)" = 0 ]; then
	as_root=
elif command -v sudo >/dev/null; then
	as_root=sudo
else
	echo "These packages are missing, and there is no sudo. As root: apt-get install$missing" >&2
	exit 1
fi
# Another apt that runs has the lock for a while.
# shellcheck disable=SC2086 # lists of words
wait="-o DPkg::Lock::Timeout=600"
# On standard error: what ./run and ./check print last is read by programs.
$as_root env DEBIAN_FRONTEND=noninteractive apt-get $wait update -q >&2
$as_root env DEBIAN_FRONTEND=noninteractive apt-get $wait install -q -y --no-install-recommends $missing >&2
