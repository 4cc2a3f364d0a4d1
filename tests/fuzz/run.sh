#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh TARGET MINUTES: builds tests/fuzz/fuzz_TARGET.c with libFuzzer and sanitizers in build/fuzz and runs it from the
# kept inputs for so many minutes of processor time. New inputs go to build/fuzz/corpus/TARGET, what ends the process to
# build/fuzz/found. The last line has the minutes, also after an interrupt, the runs, and whether something was found.
# COMPILER=gcc takes gcc's sanitizers, in build/fuzz-gcc, with the same inputs.
set -eu
target=$1 minutes=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/fuzz
inputs=$build/corpus/$target found_in=$build/found
compiler=${COMPILER:-clang} watched=-fsanitize=fuzzer-no-link fuzzer_library=-fsanitize=fuzzer coverage=
cd "$root"
if [ "$compiler" = gcc ]; then
	build=$root/build/fuzz-gcc watched=-fsanitize-coverage=trace-pc,trace-cmp
	coverage=$build/gcc_coverage.o
	fuzzer_library="-Wl,--wrap=__sanitizer_cov_trace_pc $(clang -print-file-name="libclang_rt.fuzzer-$(uname -m).a") -lstdc++ -lm"
	mkdir -p "$build"
	gcc -std=c11 -O2 -c tests/fuzz/gcc_coverage.c -o "$coverage"
fi
case $target in
# libfcgi loses 48 bytes for each management record that it does not know; no web server sends one
front)
	more=tests/unit/fcgi_client.c size=4096
	export ASAN_OPTIONS=detect_leaks=0
	;;
request_json) more=tests/unit/request_oracle.c size=4096 ;;
sym) more="tests/fuzz/plain_map.c tests/fuzz/plain_sym.c tests/tools/indexed_map.c" size=2048 ;;
helper) more="src/helper/job.c src/helper/memory.c" size=65536 ;;
cabinet | view) more= size=131072 ;;
*) more= size=4096 ;;
esac
# Of executables; the others need nothing of symbtool.
own=libsymbolicated.a dwarf=
case $target in
cabinet | dwp | gopclntab | helper | pdb_sources | sections | undecorate | view | xz) own="libsymbtool.a libsymbolicated.a" dwarf="$(pkg-config --libs libdw libelf liblzma) -lZydis -lcapstone -liberty" ;;
esac
libs=$(pkg-config --libs libcurl libmemcached jansson zlib liblz4 libzstd libxxhash libcrypto expat libarchive; pkg-config --libs libisal 2>/dev/null || :)
if [ ! -e "$build/Makefile" ]; then
	[ -x configure ] || autoreconf -i
	mkdir -p "$build"
	(cd "$build" && ../../configure -q --enable-sanitizer=address "CC=$compiler")
fi
compile() {
	make -s -C "$build" "CFLAGS=-O2 -g $watched" "LDFLAGS=$coverage" "$@"
}
# shellcheck disable=SC2086
compile $own
commit=$(git rev-parse --short HEAD)
# shellcheck disable=SC2086
"$compiler" -std=c11 -O2 -g -pthread $watched -fsanitize=address,undefined -fno-sanitize-recover=undefined -I"$build" -Isrc \
	"tests/fuzz/fuzz_$target.c" $more $(for a in $own; do echo "$build/$a"; done) $coverage $dwarf $libs -lfcgi $fuzzer_library -o "$build/fuzz_$target"
mkdir -p "$inputs" "$found_in"
# Pages of another format are refused at their first bytes.
if [ "$target" = page ]; then
	compile tests/fuzz/page_seeds
	"$build/tests/fuzz/page_seeds" "$inputs" tests/data/sym/*.sym tests/data/offmap/*.sym
fi
set -- "$inputs" "tests/fuzz/corpus/$target"
[ "$target" != sym ] || set -- "$@" tests/data/sym
[ "$target" != stacks ] || set -- "$@" tests/data/text/crash tests/data/text/windows
[ "${target#symbfile}" = "$target" ] || set -- "$@" tests/data/symbfile/corner
dictionary=tests/fuzz/${target%_map}.dict
[ ! -e "$dictionary" ] || set -- "-dict=$dictionary" "$@"
log=$build/$target.log
nice -n "${NICE:-19}" "$build/fuzz_$target" -max_len="$size" -timeout=20 -rss_limit_mb=2048 \
	-artifact_prefix="$found_in/$target-" -print_final_stats=1 "$@" >"$log" 2>&1 &
fuzzer=$!
trap 'kill -TERM $fuzzer 2>/dev/null || :' INT TERM
seconds=0
# libFuzzer's own limits are of the clock; SIGUSR1 ends it with its figures.
while now=$(sed 's/.*) //' "/proc/$fuzzer/stat" 2>/dev/null | awk -v hz="$(getconf CLK_TCK)" '$1 != "Z" { print int(($12 + $13) / hz) }') && [ -n "$now" ]; do
	seconds=$now
	[ "$seconds" -lt $((minutes * 60)) ] || kill -USR1 $fuzzer 2>/dev/null || :
	sleep 2 || :
done
found=0
wait $fuzzer || found=$?
case $found in
0) ;;
72) # libFuzzer was interrupted
	found=0
	;;
*)
	found=1
	tail -n 40 "$log"
	;;
esac
runs=$(sed -n 's/^stat::number_of_executed_units: //p' "$log" | head -n 1)
echo "| $target | $commit | $(((seconds + 30) / 60)) | ${runs:-?} | $found |"
exit $found
