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
# must TEXT PROGRAM WHAT: the text that comes in holds WHAT
must() {
	if ! grep -q -- "$1"; then
		echo "$2: $3" >&2
		failed=1
	fi
}

for program in symbolicated symbolicated-keys; do
	readelf -hW $program | must 'Type: *DYN' $program 'not position independent'
	readelf -dW $program | must 'FLAGS_1.*NOW.*PIE' $program 'no BIND_NOW or no PIE'
	readelf -lW $program | must 'GNU_RELRO' $program 'no RELRO'
	readelf -lW $program | must 'GNU_STACK.* RW ' $program 'an executable stack'
	if readelf -lW $program | grep -q ' RWE '; then
		echo "$program: a segment that is written and executed" >&2
		failed=1
	fi
	readelf -sW --dyn-syms $program | must '__stack_chk_fail' $program 'no guarded stacks'
	case $flags in
	*-D_FORTIFY_SOURCE*) readelf -sW --dyn-syms $program | must '__[a-z]*_chk\(@\| \|$\)' $program 'no checked functions' ;;
	esac
done
case $flags in
*-fcf-protection*) readelf -nW src/auth.o | must 'IBT, SHSTK' src/auth.o 'no marked branch targets' ;;
esac
exit $failed
