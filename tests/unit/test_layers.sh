#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Includes run downwards only, as docs/design.md says: each folder of src/ may include its own headers and those of the folders named
# here. A folder that is not named here fails, as does a header outside a folder.
set -eu
cd "${srcdir:-.}/src"

allowed() {
	case $1 in
	main) echo elf api modules symfiles front keys cache uploads objects text json sym records symbfile map base ;;
	api) echo modules symfiles front keys cache elf uploads objects text json sym records symbfile map base ;;
	modules) echo symfiles cache elf uploads objects sym records symbfile map base ;;
	symfiles) echo keys cache uploads objects sym records map base ;;
	cache) echo uploads objects sym records symbfile map base ;;
	uploads) echo objects symbfile map base ;;
	front | keys | objects) echo base ;;
	elf) echo objects symbfile map base ;;
	helper) echo elf extract symbfile base ;;
	symbtool) echo symfiles objects extract text json sym records symbfile map base ;;
	extract) echo symbfile base ;;
	json | records) echo map base ;;
	symbfile) echo records map base ;;
	sym) echo records map base ;;
	text) echo json base ;;
	map) echo base ;;
	base) ;;
	*) return 1 ;;
	esac
}

failed=0
for file in *.[ch] */*.[ch]; do
	folder=${file%/*}
	[ "$folder" != "$file" ] || folder=main
	below=$(allowed "$folder") || { echo "src/$file: no row of $0 names this folder" >&2; exit 1; }
	for header in $(sed -n 's/^#include "\(.*\)"/\1/p' "$file"); do
		case " $folder $below " in
		*" ${header%/*} "*) ;;
		*) echo "src/$file includes $header, which does not lie below it" >&2; failed=1 ;;
		esac
	done
done
[ -e main.c ] || { echo "no sources in $PWD" >&2; failed=1; }
exit $failed
