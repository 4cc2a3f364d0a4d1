#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install [--prefix PATH] [--force] [FOLDER]
#
# Puts symbolicated's nginx files into FOLDER: /etc/nginx/snippets, or where nginx.conf is. They replace those of an older version once
# nginx has accepted all of them (`nginx -t` with a copy of its configuration); until then, and if somebody has changed one, all stay
# as they are: exit code 1. The first line of each has its version and checksum. What is yours to change is in FOLDER/symbolicated.d,
# which is made if it is missing and never touched again. Reload nginx afterwards.
#
#   --prefix   all paths begin with this, such as /symbols; it is kept until another is given ("" for none)
#   --force    replace changed files too; they are kept as NAME.conf.old
set -eu
version=@VERSION@
ours="http location server page errors root each"
here=$(cd "$(dirname "$0")" && pwd)
folder=/etc/nginx/snippets force='' prefix='' prefix_given=''
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help)
		sed -n '3,/^set -eu/s/^# \{0,1\}//p' "$0"
		exit 0
		;;
	--force) force=1 ;;
	--prefix)
		shift
		prefix=${1?--prefix needs a path} prefix_given=1
		;;
	-*)
		echo "install: no option $1; see --help" >&2
		exit 2
		;;
	*) folder=${1%/} ;;
	esac
	shift
done
case $prefix in
'' | /[A-Za-z0-9]*) ;;
*)
	echo "install: a prefix begins with a slash and a letter or digit: $prefix" >&2
	exit 2
	;;
esac
case $prefix in
*[!A-Za-z0-9_/-]* | */)
	echo "install: a prefix has letters, digits, _, - and / only, and no slash at its end: $prefix" >&2
	exit 2
	;;
esac
# What the files say before the names of others: nginx reads those from where nginx.conf is.
case $folder in
*/snippets) configuration=$(dirname "$folder") before=snippets/ ;;
*) configuration=$folder before='' ;;
esac

checksum() { sha256sum | cut -d ' ' -f 1; }

# Is this file as this program, or the package of version 1.0, has put it there?
untouched() {
	sum=$(sed -n '1s/^# symbolicated .* sha256=\([0-9a-f]*\).*/\1/p' "$1")
	if [ -n "$sum" ]; then
		[ "$(tail -n +2 "$1" | checksum)" = "$sum" ]
	else
		command -v dpkg-query >/dev/null &&
			dpkg-query -W -f '${Conffiles}\n' symbolicated 2>/dev/null | grep -qF " $1 $(md5sum <"$1" | cut -d ' ' -f 1)"
	fi
}

# The files of this version, into a folder.
make_files() {
	[ -n "$prefix_given" ] || [ ! -e "$folder/symbolicated-http.conf" ] ||
		prefix=$(sed -n '1s/^# symbolicated .* prefix=\([^ :]*\).*/\1/p' "$folder/symbolicated-http.conf")
	for name in $ours; do
		sed -E -e "s,^([[:space:]]*include )(symbolicated[-.]),\\1$before\\2," -e "s,/usr/local/share/symbolicated/web/,$web/," \
			"$here/symbolicated-$name.conf" >"$1/$name"
		if [ -n "$prefix" ]; then
			case $name in
			server | each) sed -Ei "s,^(\\t?)location (= |\\^~ |~ \\^)/([^_]|__),\\1location \\2$prefix/\\3," "$1/$name" ;;
			http) sed -i "s,^\\tdefault \\\$request_uri;,&\\n\\t~^$prefix(?<symbolicated_path>/.*)\$ \$symbolicated_path;," "$1/$name" ;;
			esac
		fi
		{
			echo "# symbolicated $version sha256=$(checksum <"$1/$name")${prefix:+ prefix=$prefix}: the next upgrade replaces this file"
			cat "$1/$name"
		} >"$1/symbolicated-$name.conf"
		rm "$1/$name"
	done
}

# nginx's configuration, into a folder: also files that links lead to, if they are small. Links to other large things, and to
# folders elsewhere, lead to the same as before.
copy_configuration() {
	cp -a "$configuration/." "$1" 2>/dev/null || :
	own=$(readlink -f "$configuration")
	find "$1" -type l >"$1.links"
	while IFS= read -r link; do
		target=$(readlink -f "$configuration/${link#"$1"/}") || continue
		rm "$link"
		case $target in
		"$own"/*) copied=$1/${target#"$own"/} ;;
		*) copied=$target ;;
		esac
		if [ -f "$target" ] && [ "$(stat -c %s "$target")" -lt 1048576 ]; then
			cp "$target" "$link"
		else
			ln -s "$copied" "$link"
		fi
	done <"$1.links"
}

# Does nginx take its configuration with the files of $1 in it? What it says goes to $1/said.
accepted() {
	mkdir "$1/etc"
	copy_configuration "$1/etc"
	mkdir -p "$1/etc/$before"
	cp "$1"/symbolicated-*.conf "$1/etc/$before"
	[ -d "$1/etc/${before}symbolicated.d" ] || cp -r "$here/symbolicated.d" "$1/etc/$before"
	grep -rlIZF "$configuration/" "$1/etc" | xargs -0r sed -i "s,$configuration/,$1/etc/,g"
	nginx -t -c "$1/etc/nginx.conf" >"$1/said" 2>&1
}

web=$(cd "$here/../web" && pwd)
mkdir -p "$folder"
present='' changed=''
for name in $ours; do
	file=$folder/symbolicated-$name.conf
	if [ -e "$file" ]; then
		present=1
		untouched "$file" || changed="$changed $file"
	fi
done
if [ -n "$changed" ] && [ -z "$force" ]; then
	echo "symbolicated: nginx's files of version $version are not put into $folder, as these were changed:" >&2
	printf '  %s\n' $changed >&2
	echo "nginx goes on with all files of before. Move your changes to $folder/symbolicated.d, then run $here/install --force $folder" >&2
	exit 1
fi

new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
trap 'exit 1' HUP INT TERM
make_files "$new"
if command -v nginx >/dev/null && [ -e "$configuration/nginx.conf" ] && ! accepted "$new"; then
	if ! nginx -t -q -c "$configuration/nginx.conf" >"$new/before" 2>&1; then
		# files that are there already are not replaced while nobody can tell whether nginx takes the new ones
		if [ -n "$present" ]; then
			echo "symbolicated: nginx's configuration is wrong already; the files of before stay. Mend it, then run $here/install $folder" >&2
			cat "$new/before" >&2
			exit 1
		fi
	else
		echo "symbolicated: nginx does not take its files of version $version; those of before stay:" >&2
		sed "s,$new/etc/,$configuration/,g" "$new/said" >&2
		exit 1
	fi
fi

[ -d "$folder/symbolicated.d" ] || cp -r "$here/symbolicated.d" "$folder"
for file in $changed; do
	cp -a "$file" "$file.old"
done
# All or none: room for each is there before the first is replaced, and then no signal ends this.
trap 'rm -rf "$new"; rm -f "$folder"/symbolicated-*.conf.new' EXIT
for name in $ours; do
	cp "$new/symbolicated-$name.conf" "$folder/symbolicated-$name.conf.new"
done
trap '' HUP INT TERM
for name in $ours; do
	mv "$folder/symbolicated-$name.conf.new" "$folder/symbolicated-$name.conf"
done
