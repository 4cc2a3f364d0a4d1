#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes the samples in this directory with the real programs, on Debian 12, in /opt/crash. It needs gcc gdb lldb-14 lld strace valgrind rustc
# openjdk-17-jdk-headless libgoogle-glog-dev libboost-dev libabsl-dev libgoogle-perftools-dev libjemalloc2, and a readable kernel log.
set -u
here=$(cd "$(dirname "$0")" && pwd)
place=/opt/crash
mkdir -p $place && cp "$here"/*.c $place && cd $place || exit 1

gcc -g -O1 -fno-omit-frame-pointer -shared -fPIC -Wl,--build-id=sha1 -o libcrash.so libcrash.c
gcc -g -O1 -fno-omit-frame-pointer -Wl,--build-id=sha1 -o app app.c -L. -lcrash -Wl,-rpath,'$ORIGIN'

# A symbol file: nm says where functions are, addr2line which line each byte of them is of.
symbols() {
	python3 - "$1" <<-'END'
	import subprocess, sys
	name = sys.argv[1]
	print(f"MODULE Linux x86_64 000000000000000000000000000000000 {name}\nFILE 0 lib\nFILE 1 app" .replace("FILE 0 lib", "FILE 0 libcrash.c").replace("FILE 1 app", "FILE 1 app.c"))
	rows = [line.split() for line in subprocess.run(["nm", "-S", "--defined-only", name], capture_output=True, text=True).stdout.splitlines()]
	for start, size, _, function in sorted(row for row in rows if len(row) == 4 and row[2] in "tT"):
	    start, size = int(start, 16), int(size, 16)
	    print(f"FUNC {start:x} {size:x} 0 {function}")
	    places = subprocess.run(["addr2line", "-e", name, *(hex(a) for a in range(start, start + size))], capture_output=True, text=True).stdout.splitlines()
	    for at, place in enumerate(places):
	        file, line = place.split()[0].rsplit(":", 1)
	        if line != "?":
	            print(f"{start + at:x} 1 {line} {0 if 'libcrash' in file else 1}")
	END
}
symbols libcrash.so > libcrash.sym
symbols app > app.sym
strip app libcrash.so

cat > maps.h <<'END'
#include <stdio.h>
#include <stdlib.h>
static void print_maps(void) { FILE *in = fopen("/proc/self/maps", "r"), *out = fopen("maps", "w"); int c; while ((c = fgetc(in)) != EOF) fputc(c, out); fclose(out); fclose(in); }
END
flags="-L. -lcrash -Wl,-rpath,\$ORIGIN"
ours() { grep -v "\.so\.\|ld-linux\|\.so$" maps; grep "/libcrash.so$" maps; } # the map, without the system's libraries

gdb --batch -ex run -ex bt -ex 'info proc mappings' ./app > gdb.txt 2>&1
lldb-14 --batch -o run -k 'thread backtrace' -k 'image list' ./app > lldb.txt 2>/dev/null
strace -k -e trace=none ./app > strace.txt 2>&1
./app; dmesg | grep 'app\[.*libcrash' | tail -1 > kernel.txt

cat > glog.cc <<'END'
#include "maps.h"
#include <glog/logging.h>
extern "C" int crash(void);
int main(int, char **v) { google::InitGoogleLogging(v[0]); google::InstallFailureSignalHandler(); print_maps(); return crash(); }
END
g++ -O1 -o glog glog.cc -lglog $flags && { ./glog 2>&1 | cat; ours; } > glog.txt

cat > absl.cc <<'END'
#include "absl/debugging/failure_signal_handler.h"
#include "maps.h"
extern "C" int crash(void);
int main() { absl::InstallFailureSignalHandler({}); print_maps(); return crash(); }
END
g++ -O1 -o absl absl.cc -labsl_failure_signal_handler -labsl_examine_stack -labsl_stacktrace -labsl_symbolize -labsl_debugging_internal \
	-labsl_demangle_internal -labsl_raw_logging_internal -labsl_base -labsl_malloc_internal -labsl_spinlock_wait -lpthread $flags &&
	{ ./absl 2>&1 | cat; ours; } > absl.txt

cat > boost.cc <<'END'
#include "maps.h"
#include <boost/stacktrace.hpp>
#include <iostream>
extern "C" int enter(int (*)(void));
static int show(void) { std::cout << boost::stacktrace::stacktrace(); return 1; }
int main() { print_maps(); return enter(show) == 7; }
END
g++ -O1 -o boost boost.cc -ldl $flags && { ./boost; ours; } > boost.txt

cat > heap.c <<'END'
#include <stdlib.h>
int enter(int (*)(void));
void *kept[100];
static int grab(void) { for (int i = 0; i < 100; i++) kept[i] = malloc(100000); return 1; }
int main(void) { return enter(grab) == 7; }
END
gcc -O1 -fno-omit-frame-pointer -o heap heap.c $flags
HEAPPROFILE=$place/tc HEAP_PROFILE_ALLOCATION_INTERVAL=1000000 LD_PRELOAD=libtcmalloc.so ./heap 2>/dev/null
cp tc.0010.heap maps; ours > tcmalloc.txt
MALLOC_CONF=prof:true,prof_final:true,lg_prof_sample:10,prof_prefix:$place/je LD_PRELOAD=libjemalloc.so.2 ./heap
cp je.*.f.heap maps; ours > jemalloc.txt

cat > valgrind.c <<'END'
#include "maps.h"
int crash(void);
int main(void) { print_maps(); return crash(); }
END
gcc -O1 -fno-omit-frame-pointer -o vg valgrind.c $flags && { valgrind -q ./vg 2>&1 | cat; ours; } > valgrind.txt

cat > rust.rs <<'END'
#[link(name = "crash")]
extern "C" { fn enter(call: extern "C" fn() -> i32) -> i32; }
extern "C" fn show() -> i32 { std::process::exit({ eprintln!("{:?}", std::panic::catch_unwind(|| panic!("no way")).is_err()); 0 }) }
fn main() { std::fs::write("maps", std::fs::read("/proc/self/maps").unwrap()).unwrap(); unsafe { enter(show); } }
END
rustc -O -L . -C link-arg=-Wl,-rpath,'$ORIGIN' rust.rs && { RUST_BACKTRACE=full ./rust 2>&1 | cat; ours; } > rust.txt

cat > Crash.java <<'END'
public class Crash { static native int die(); public static void main(String[] a) { System.load(a[0]); die(); } }
END
cat > jni.c <<'END'
int crash(void);
int Java_Crash_die(void *env, void *class) { (void)env; (void)class; return crash() + 3; }
END
gcc -O1 -fno-omit-frame-pointer -shared -fPIC -o libjni.so jni.c $flags
javac Crash.java && java -XX:ErrorFile=./hs_err.log Crash $place/libjni.so > /dev/null 2>&1
# without what it says about the machine
sed -n '1,/^siginfo/p' hs_err.log > hs_err.txt
sed -n '/^Dynamic libraries:/,/^$/p' hs_err.log | grep "^Dynamic\|libjni\|libcrash\|libjvm" >> hs_err.txt

cp libcrash.sym app.sym {gdb,lldb,strace,kernel,glog,absl,boost,tcmalloc,jemalloc,valgrind,rust,hs_err}.txt "$here"
