#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The pages of symbol files, byte for byte as tests/data/offmap/pages.txt has their hashes, with lookup = covering and
# nearest: of the kept cases, of random files, and of the large ones in SHARED_DATA, if that is there. A change of these
# bytes needs a new OFFMAP_VERSION; then `golden=write` before the command writes the hashes anew. An automake test:
# $srcdir is the source tree, the current directory the build; TOOL may be another symlookup.
set -eu
python=/usr/bin/python3
[ -x $python ] || exit 77
zstd=$(command -v zstd || true)
export PYTHONDONTWRITEBYTECODE=1
top=${srcdir:-.} data=${SHARED_DATA:-${srcdir:-.}/../shared/data}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/sym" "$folder/random" "$folder/large"
cp "$top"/tests/data/sym/*.sym "$folder/sym"
$python "$top/tests/tools/random_sym.py" "$folder/random" --seed 1 --count 200 > /dev/null
for name in libc.so.6 dump_syms ceph-osd; do
	[ -z "$zstd" ] || [ ! -e "$data/$name.sym.zst" ] || "$zstd" -qd "$data/$name.sym.zst" -o "$folder/large/$name.sym"
done

# A line for each file: its name and two hashes; a file that cannot be read has "corrupt".
hashes() {
	(cd "$folder" && ls -d ./*/*.sym | sed 's|^\./||' | LC_ALL=C sort) > "$folder/names"
	sed "s|.*|$folder/& --hash 0\n$folder/& --hash --nearest 0|" "$folder/names" |
		"${TOOL:-./tests/tools/symlookup}" --batch |
		awk 'BEGIN { RS = ""; FS = "\n" } { printf "%s%s", $2 ~ /^[0-9a-f]+$/ ? $2 : "corrupt", NR % 2 ? " " : "\n" }' |
		paste -d ' ' "$folder/names" -
}

golden=${golden:-read}
hashes > "$folder/found"
if [ "$golden" = write ]; then
	cp "$folder/found" "$top/tests/data/offmap/pages.txt"
	exit
fi
# without SHARED_DATA its files are left out
if [ ! -e "$folder/large/ceph-osd.sym" ]; then
	echo "left out: the files of SHARED_DATA, which is not there"
	grep -v '^large/' "$top/tests/data/offmap/pages.txt" > "$folder/expected"
else
	cp "$top/tests/data/offmap/pages.txt" "$folder/expected"
fi
diff "$folder/expected" "$folder/found"
wc -l < "$folder/found"
