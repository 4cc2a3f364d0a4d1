#!/bin/sh
# The programs have what configure promises: position independent, all relocations read-only before main, guarded stacks, checked
# functions, no memory that is both written and executed. Run in the build directory.
set -eu
LC_ALL=C
export LC_ALL

flags=$(sed -n 's/^HARDENING = //p; s/^HARDENING_LDFLAGS = //p' Makefile | tr '\n' ' ')
case $flags in
*-pie*) ;;
*) exit 77 ;; # a sanitizer build, or --disable-hardening
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

for program in symbolicated symbolicated-keys; do
	head=$(readelf -hlW $program)
	dynamic=$(readelf -dW $program)
	symbols=$(readelf -W --dyn-syms $program)
	has 'Type: *DYN' "$head" || complain $program 'not position independent'
	has 'FLAGS_1.*NOW.*PIE' "$dynamic" || complain $program 'no BIND_NOW or no PIE'
	has 'GNU_RELRO' "$head" || complain $program 'no RELRO'
	has 'GNU_STACK.* RW ' "$head" || complain $program 'an executable stack'
	! has ' RWE ' "$head" || complain $program 'a segment that is written and executed'
	has '__stack_chk_fail' "$symbols" || complain $program 'no guarded stacks'
	case $flags in
	*-D_FORTIFY_SOURCE*) has '_chk@' "$symbols" || complain $program 'no checked functions' ;;
	esac
done
case $flags in
*-fcf-protection*) has 'IBT, SHSTK' "$(readelf -nW src/auth.o)" || complain src/auth.o 'no marked branch targets' ;;
esac
exit $failed
