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

# What follows needs also gfortran gdc gnat ruby libopenmpi-dev openmpi-bin libtorch-dev libbackward-cpp-dev nodejs systemd-coredump, Zig
# 0.17 (the PyPI package ziglang, as zig) and Python 3.14 (of a later Debian, as python3.14).

cat > preload.c <<'END'
#include "maps.h"
__attribute__((constructor)) static void at_start(void) { print_maps(); }
END
gcc -shared -fPIC -o preload.so preload.c
with_map() { LD_PRELOAD=$place/preload.so "$@" 2>&1 | cat; ours; }

cat > py.py <<'END'
import ctypes, faulthandler
faulthandler.enable()
ctypes.CDLL("/opt/crash/libcrash.so").crash()
END
python3.14 -I py.py > python.txt 2>&1

cat > fortran.f90 <<'END'
program fortran
  use iso_c_binding
  interface
    integer(c_int) function crash() bind(c)
      import
    end function
  end interface
  print *, crash()
end program
END
gfortran -O1 -fno-omit-frame-pointer -o fortran fortran.f90 $flags && with_map ./fortran > gfortran.txt

cat > thrown.d <<'END'
extern(C) int enter(int function());
extern(C) int f() { throw new Exception("no way"); }
void main() { enter(&f); }
END
gdc -O1 -o thrown thrown.d $flags && with_map ./thrown > d.txt

cat > raised.adb <<'END'
with Interfaces.C; use Interfaces.C;
procedure Raised is
   type Call is access function return int with Convention => C;
   function Enter (F : Call) return int with Import, Convention => C, External_Name => "enter";
   function Show return int with Convention => C;
   function Show return int is begin raise Constraint_Error with "no way"; return 1; end Show;
begin
   if Enter (Show'Unrestricted_Access) = 7 then null; end if;
end Raised;
END
gnatmake-12 -q -O1 raised.adb -bargs -E -largs $flags && with_map ./raised > ada.txt

cat > panic.zig <<'END'
const std = @import("std");
extern fn enter(f: *const fn () callconv(.c) c_int) c_int;
fn show() callconv(.c) c_int { @panic("no way"); }
pub fn main() void { _ = enter(&show); }
END
zig build-exe panic.zig -lc -L. -lcrash -rpath $place && with_map ./panic > zig.txt

{ echo '#include "maps.h"'; sed 's/int main(void) {/& print_maps();/' heap.c; } > grows.c
gcc -O1 -fno-omit-frame-pointer -o grows grows.c $flags && valgrind -q --tool=massif --detailed-freq=1 --massif-out-file=massif.out ./grows
{ ms_print massif.out | grep -B2 -A3 '??? (in .*libcrash' | tail -7; ours; } > massif.txt

cat > handled.cc <<'END'
#include "maps.h"
#include <backward.hpp>
backward::SignalHandling handling;
extern "C" int crash(void);
int main() { print_maps(); return crash(); }
END
g++ -O1 -o handled handled.cc $flags && { ./handled 2>&1 | cat; ours; } > backward.txt

cat > check.cc <<'END'
#include <c10/util/Exception.h>
#include <iostream>
extern "C" int enter(int (*)(void));
static int check(void) { try { TORCH_CHECK(false, "no way"); } catch (const c10::Error &e) { std::cout << e.what(); } return 1; }
int main() { return enter(check) == 7; }
END
g++ -O1 -o check check.cc -lc10 $flags && ./check > torch.txt

cat > mpi.c <<'END'
#include <mpi.h>
int crash(void);
int main(int n, char **v) { MPI_Init(&n, &v); return crash(); }
END
mpicc -O1 -o mpi mpi.c $flags && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n 1 ./mpi 2>&1 | grep '^\[' > openmpi.txt

cat > fiddle.rb <<'END'
require "fiddle"
Fiddle::Function.new(Fiddle.dlopen("/opt/crash/libcrash.so")["crash"], [], Fiddle::TYPE_INT).call
END
ruby fiddle.rb > maps 2>&1
{ sed -n '/^-- C level/,/^$/p' maps; grep -A1 '^\* Process memory map' maps; grep '^[0-9a-f-]* .* \(/opt/\|/usr/bin\)' maps; } > ruby.txt

cat > addon.c <<'END'
#include <stddef.h>
typedef void *napi_env, *napi_value;
int napi_create_function(napi_env, const char *, size_t, napi_value (*)(napi_env, napi_value), void *, napi_value *);
void napi_fatal_error(const char *, size_t, const char *, size_t);
int enter(int (*)(void));
static int end(void) { napi_fatal_error("here", 4, "no way", 6); return 1; }
static napi_value call(napi_env e, napi_value i) { (void)e; (void)i; enter(end); return NULL; }
napi_value napi_register_module_v1(napi_env e, napi_value x) { (void)x; napi_value f; napi_create_function(e, "call", 4, call, NULL, &f); return f; }
END
gcc -O1 -fno-omit-frame-pointer -shared -fPIC -o addon.node addon.c $flags
node -e 'const a = require("./addon.node"); const fs = require("fs"); fs.writeFileSync("maps", fs.readFileSync("/proc/self/maps")); a()' 2>&1 | sed -n '/^FATAL/,/JavaScript/p' > node.txt
grep 'addon\|libcrash' maps >> node.txt
node --report-on-fatalerror --report-filename=report.json -e 'const a = require("./addon.node"); const fs = require("fs"); fs.writeFileSync("maps", fs.readFileSync("/proc/self/maps")); a()' > out 2>&1
{ printf '{\n'; sed -n '/^  "nativeStack"/,/^  \],/p; /^  "sharedObjects"/,/^  \]/p' report.json; printf '}\n'; grep 'addon\|libcrash' maps; } > node-report.txt

# Sentry's SDK: crates sentry 0.49.5 (features backtrace, debug-images) and serde_json.
mkdir -p sentried/src && cat > sentried/Cargo.toml <<'END'
[package]
name = "sentried"
version = "0.1.0"
edition = "2021"
[dependencies]
sentry = { version = "=0.49.5", default-features = false, features = ["backtrace", "contexts", "debug-images", "panic"] }
serde_json = "1"
END
echo 'fn main() { println!("cargo:rustc-link-search=/opt/crash\ncargo:rustc-link-arg=-Wl,-rpath,/opt/crash"); }' > sentried/build.rs
cat > sentried/src/main.rs <<'END'
use std::sync::Arc;
struct Writer;
impl sentry::Transport for Writer {
    fn send_envelope(&self, e: sentry::Envelope) {
        if let Some(event) = e.event() { std::fs::write("event.json", serde_json::to_string_pretty(event).unwrap()).unwrap(); }
    }
}
#[link(name = "crash")]
extern "C" { fn enter(call: extern "C" fn() -> i32) -> i32; }
extern "C" fn say() -> i32 { sentry::capture_message("no way", sentry::Level::Error); 1 }
fn main() {
    let options = sentry::ClientOptions::new().dsn("http://a@127.0.0.1/1").attach_stacktrace(true);
    let _guard = sentry::init(options.transport(|_: &sentry::ClientOptions| -> Arc<dyn sentry::Transport> { Arc::new(Writer) }));
    unsafe { enter(say); }
}
END
(cd sentried && cargo build -q && strip target/debug/sentried && target/debug/sentried)
# without what it says about the machine, and without other images
python3 -c 'import json; e = json.load(open("sentried/event.json")); del e["contexts"], e["server_name"]; m = e["debug_meta"]
m["images"] = [i for i in m["images"] if "libcrash" in i["name"] or "sentried" in i["name"]]; json.dump(e, open("sentry.json", "w"), indent=2)'

# The kernel hands the core to systemd-coredump, by its sysctl file; without systemd, these two stand in for its units.
/lib/systemd/systemd-journald & journald=$!
systemd-socket-activate --seqpacket --accept -l /run/systemd/coredump /lib/systemd/systemd-coredump & listener=$!
sleep 1; ./app; sleep 5; coredumpctl --no-pager -1 info > coredumpctl.txt
kill $journald $listener

# What follows needs also boost's headers, linux-perf, elfutils, bpftrace, redis-server and tor: a signal's handler above the crash.
cat > handled.c <<'END'
#include <signal.h>
#include <unistd.h>
int crash(void);
static void on(int n) { (void)n; getppid(); for (unsigned long volatile i = 0; i < 3000000000u; i++); _exit(1); }
int main(void) { signal(SIGSEGV, on); return crash(); }
END
gcc -O1 -fno-omit-frame-pointer -o handled handled.c $flags
./handled & sleep 0.3
lldb-14 --batch -p $! -o 'thread backtrace' -o 'image list' 2>/dev/null | sed -n '/^(lldb) thread/,$p' > lldb-handler.txt
{ eu-stack -p $!; grep 'handled$\|libcrash' /proc/$!/maps; } > eu-stack.txt
{ eu-stack -p $!; eu-unstrip -n -p $!; } > eu-unstrip.txt
{ eu-stack -b -p $!; grep 'handled$\|libcrash' /proc/$!/maps; } > eu-stack-b.txt
gdb -nx --batch -p $! -ex 'bt full' -ex 'info proc mappings' 2>/dev/null | sed -n '/^#0/,$p' | grep -v 'libc.so\|ld-linux' > gdb-full.txt
kill $!
strace -k -e trace=getppid ./handled 2>&1 | sed -n '/^getppid/,$p' > strace-handler.txt
timeout 1 perf record -q -e cpu-clock:u --call-graph=dwarf -F 9 -o perf.data ./handled; perf script -i perf.data | tac | sed '/^handled/q' | tac > perf-handler.txt

cat > boosted.cc <<'END'
#include "maps.h"
#include <boost/stacktrace.hpp>
#include <iostream>
#include <signal.h>
#include <unistd.h>
extern "C" int crash(void);
static void on(int) { std::cout << boost::stacktrace::stacktrace() << std::flush; print_maps(); _exit(1); }
int main() { signal(SIGSEGV, on); return crash(); }
END
g++ -O1 -fno-omit-frame-pointer -o boosted boosted.cc -ldl $flags && { ./boosted; ours; } > boost-handler.txt

cat > spin.c <<'END'
int enter(int (*)(void));
static int turn(void) { for (unsigned long volatile i = 0; i < 6000000000u; i++); return 1; }
int main(void) { return enter(turn) == 7; }
END
gcc -O1 -fno-omit-frame-pointer -o spin spin.c $flags && strip spin
./spin & sleep 0.3; grep 'spin$\|libcrash' /proc/$!/maps > maps
{ timeout 1 bpftrace -e 'profile:hz:19 /comm == "spin"/ { printf("%s\n", ustack(perf)); exit(); }'; } > bpftrace.txt
timeout 2 perf record -q -e cpu-clock:u --call-graph=fp -F 9 -o perf.data ./spin; perf script -i perf.data -F +srcline | sed '/^$/q' > perf-srcline.txt
wait; cat maps >> bpftrace.txt

cat > boom.c <<'END'
#include <pthread.h>
#include <unistd.h>
int crash(void);
static void *run(void *arg) { sleep(2); return (void *)(long)(crash() + (arg != 0)); }
__attribute__((constructor)) static void start(void) { pthread_t t; pthread_create(&t, 0, run, 0); }
END
gcc -O1 -fno-omit-frame-pointer -shared -fPIC -o boom.so boom.c $flags
LD_PRELOAD=$place/boom.so redis-server --port 0 --unixsocket $place/redis.sock 2>&1 | sed -n '/STACK TRACE/,/^$/p;/^Backtrace/,/^$/p' > redis.txt
LD_PRELOAD=$place/boom.so tor --SocksPort 0 --DisableNetwork 1 --DataDirectory $place/tor 2>&1 | sed -n '/^=====/,$p' > tor.txt

# Windows programs need also wine and gcc-mingw-w64-x86-64.
# As symbols(), of a Windows program, where nm tells no sizes.
pe_symbols() {
	python3 - "$1" <<-'END'
	import re, subprocess, sys
	name, tools = sys.argv[1], "x86_64-w64-mingw32-"
	ask = lambda tool, *words: subprocess.run([tools + tool, *words], capture_output=True, text=True).stdout
	base = int(re.search(r"ImageBase\s+(\w+)", ask("objdump", "-p", name)).group(1), 16)
	rows = [line.split() for line in ask("nm", "-n", name).splitlines() if line.split()[1] in "tT"]
	print(f"MODULE Linux x86_64 000000000000000000000000000000000 {name.split('.')[0]}\nFILE 0 libcrash.c\nFILE 1 app.c")
	for (start, _, function), (end, _, _) in zip(rows, rows[1:]):
	    start, end = int(start, 16), int(end, 16)
	    lines = ask("addr2line", "-e", name, *(hex(a) for a in range(start, end))).splitlines() if end > start else []
	    lines = [(at, *re.match(r".*(libcrash|app)\.c:(\d+)", line).groups()) for at, line in enumerate(lines, start - base) if re.match(r".*(libcrash|app)\.c:\d", line)]
	    if lines:
	        print(f"FUNC {start - base:x} {end - start:x} 0 {function}")
	    for at, file, line in lines:
	        print(f"{at:x} 1 {line} {0 if file == 'libcrash' else 1}")
	END
}
x86_64-w64-mingw32-gcc -g -O1 -fno-omit-frame-pointer -shared -o crash.dll libcrash.c
x86_64-w64-mingw32-gcc -g -O1 -fno-omit-frame-pointer -o prog.exe app.c crash.dll
pe_symbols crash.dll > crash.sym
pe_symbols prog.exe > prog.sym
x86_64-w64-mingw32-strip crash.dll prog.exe
WINEPREFIX=$place/wine WINEDEBUG=-all wine prog.exe 2>&1 | sed -n '/^Unhandled exception/,/^Threads/p' | sed '/^Register dump/,/^Backtrace/{/^Backtrace/!d};/^0x/d' > wine.txt

cp {libcrash,app,crash,prog}.sym {gdb,lldb,strace,kernel,glog,absl,boost,tcmalloc,jemalloc,valgrind,rust,hs_err}.txt \
	{python,gfortran,d,ada,zig,massif,backward,torch,openmpi,ruby,node,node-report,coredumpctl}.txt sentry.json \
	{lldb-handler,eu-stack,eu-stack-b,eu-unstrip,gdb-full,perf-srcline,strace-handler,perf-handler,boost-handler,bpftrace,redis,tor,wine}.txt "$here"
