#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The programs have what docs/security.md promises: position independent, all relocations read-only before main, guarded stacks,
# checked functions, no memory that is both written and executed. Only a build that was asked to do without goes without: what
# configure did not find is missed here. Run in the build directory.
set -eu
LC_ALL=C
export LC_ALL

# of NAME: a variable of the Makefile
of() {
	sed -n "s/^$1 = *//p" Makefile
}

case $(of enable_sanitizer)/$(of enable_hardening) in
/no | no/no) exit 77 ;;
/* | no/*) ;;
*) exit 77 ;; # a sanitizer
esac

failed=0
complain() {
	echo "$1: $2" >&2
	failed=1
}

# has PATTERN TEXT
has() {
	printf '%s\n' "$2" | grep -q -- "$1"
}

# Without optimisation there are no checked functions.
# shellcheck disable=SC2046
optimised=$(echo | $(of CC) $(of CPPFLAGS) $(of CFLAGS) -dM -E - | grep -c '__OPTIMIZE__' || :)
# With link-time optimisation objects hold no code: what is looked for in them is then left out.
case " $(of CFLAGS) $(of CC) " in *" -flto"*) lto=yes ;; *) lto=no ;; esac
machine=$(readelf -hW src/main.o | sed -n 's/ *Machine: *//p')

flags=" $(of HARDENING) $(of HARDENING_LDFLAGS) "
wanted='-fstack-protector-strong -fstack-clash-protection -fPIE -pie -Wl,-z,relro,-z,now -Wl,-z,noexecstack'
[ "$optimised" = 0 ] || wanted="$wanted -D_FORTIFY_SOURCE=3"
case $machine in *X86-64) wanted="$wanted -fcf-protection" ;; esac
for flag in $wanted; do
	has " $flag " "$flags" || complain Makefile "no $flag"
done

# program NAME OBJECT: the object is of its main
program() {
	head=$(readelf -hlW "$1")
	dynamic=$(readelf -dW "$1")
	symbols=$(readelf -W --dyn-syms "$1")
	has 'Type: *DYN' "$head" || complain "$1" 'not position independent'
	has 'FLAGS_1.*NOW.*PIE' "$dynamic" || complain "$1" 'no BIND_NOW or no PIE'
	has 'GNU_RELRO' "$head" || complain "$1" 'no RELRO'
	has 'GNU_STACK.* RW ' "$head" || complain "$1" 'an executable stack'
	! has ' RWE ' "$head" || complain "$1" 'a segment that is written and executed'
	has '__stack_chk_fail' "$symbols" || complain "$1" 'no guarded stacks'
	[ "$optimised" = 0 ] || has '_chk@' "$symbols" || complain "$1" 'no checked functions'
	case $machine in
	*X86-64)
		[ $lto = yes ] || has 'IBT, SHSTK' "$(readelf -nW "$2")" || complain "$2" 'no marked branch targets'
		# how gcc touches each page of a large frame; clang's instruction is an ordinary one
		case $(of CC) in
		*clang*) ;;
		*) objdump -d "$1" | grep -Eq 'or[lq] +\$0x0,\(%rsp\)' || complain "$1" 'large stack frames are not touched page by page' ;;
		esac
		;;
	esac
}

program symbolicated src/main.o
program symbolicated-keys src/keys/keys_main.o
program symbolicated-store src/uploads/store_main.o
[ ! -e symbtool ] || program symbtool src/symbtool/symbtool-main.o
[ ! -e symbolicated-extract ] || program symbolicated-extract src/helper/symbolicated_extract-main.o

# In these files there is nothing that level 2 could check: what the copies go to has a length that is known at run time only.
if [ "$optimised" != 0 ] && [ $lto = no ]; then
	has '__mem[a-z]*_chk' "$(nm -u src/sym/reader.o src/records/pages.o)" ||
		complain src/sym/reader.o 'fortified, but not at level 3'
fi
exit $failed
