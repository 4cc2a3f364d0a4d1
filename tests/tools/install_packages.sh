#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install_packages.sh run|check: installs what packages.txt names and this machine has not, as root or through sudo. Services among
# them, such as nginx and Prometheus, which listen on all addresses, are neither started nor enabled: tests start their own.
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
installed() { dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p' | sort; }
policy=/usr/sbin/policy-rc.d
before=$(mktemp)
made=
clean_up() {
	rm -f "$before"
	[ -z "$made" ] || $as_root rm -f $policy
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM
installed >"$before"
# A policy of this machine's own may start them; it stays.
if [ ! -e $policy ]; then
	made=1
	printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null
	$as_root chmod 0755 $policy
fi
# On standard error: what ./run and ./check print last is read by programs.
$as_root env DEBIAN_FRONTEND=noninteractive apt-get $wait update -q >&2
$as_root env DEBIAN_FRONTEND=noninteractive apt-get $wait install -q -y --no-install-recommends $missing >&2

command -v systemctl >/dev/null || exit 0
off=
for package in $(installed | comm -13 "$before" -); do
	for unit in $(dpkg -L "$package" | sed -nE 's,^(/usr)?/lib/systemd/system/([^/@]*\.(service|socket))$,\2,p'); do
		[ "$(systemctl is-enabled "$unit" 2>/dev/null)" = enabled ] || continue
		$as_root systemctl disable --quiet "$unit" >&2
		off="$off $unit"
	done
done
[ -z "$off" ] || echo "not started and not enabled, systemctl enable --now has them:$off" >&2
