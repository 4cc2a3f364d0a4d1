# SPDX-License-Identifier: Apache-2.0
"""symbtool symbolicate --filter: text in, names out. Samples are made by the real program wherever it runs here; others have
the form that docs/stack-text.md names, with offsets of a program that was compiled here."""

import glob
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid

import pytest

from client import Client
from stack import DAEMON, ROOT, Stack, wait_for
from symbols import debug_id

SYMBTOOL = os.environ.get("SYMBTOOL", os.path.join(os.path.dirname(os.path.abspath(DAEMON[-1])), "symbtool"))
BOUND = 120  # seconds for one command

pytestmark = pytest.mark.skipif(not os.path.exists(SYMBTOOL), reason="symbtool was not built")

# The line of each call stands behind it.
SOURCE = """\
#include <execinfo.h>
#include <stdlib.h>
#include <unistd.h>

static inline __attribute__((always_inline)) int inlined(volatile int *p)
{
	return p[4]; /* inlined */
}
__attribute__((noinline)) int faulty(volatile int *p)
{
	int n = inlined(p); /* faulty */
	return n + 1;
}
__attribute__((noinline)) int show(void)
{
	void *stack[16];
	int n = backtrace(stack, 16); /* show */
	backtrace_symbols_fd(stack, n, STDOUT_FILENO);
	return n;
}
int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1)
		return show() == 0; /* main shows */
	int *p = malloc(16);
	int n = faulty(p); /* main */
	free(p);
	return n == 77;
}
"""

LEAK = """\
#include <stdlib.h>
char *volatile kept;
__attribute__((noinline)) void lose(void)
{
	kept = malloc(77); /* lose */
}
int main(void)
{
	lose(); /* main */
	kept = NULL;
	return 0;
}
"""

RACE = """\
#include <pthread.h>
int shared;
static void *race(void *arg)
{
	shared++; /* race */
	return arg;
}
int main(void)
{
	pthread_t threads[2];
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, race, NULL); /* main */
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
"""

OVERFLOW = """\
#include <limits.h>
__attribute__((noinline)) int over(int n)
{
	return n + INT_MAX; /* over */
}
int main(int argc, char **argv)
{
	(void)argv;
	return over(argc) == 0; /* main */
}
"""

HOT = """\
volatile unsigned turns;
__attribute__((noinline)) void hot(void)
{
	for (unsigned i = 0; i < 400000000; i++)
		turns++; /* hot */
}
int main(void)
{
	hot(); /* main */
	return 0;
}
"""

UNSET = """\
#include <stdlib.h>
__attribute__((noinline)) int use(int *p)
{
	if (*p) /* use */
		return 1;
	return 0;
}
int main(void)
{
	return use(malloc(4)); /* main */
}
"""

# handle() is llvm::sys::PrintStackTraceOnErrorSignal(StringRef, bool).
SIGNALLED = """\
#include <stddef.h>
#include <string.h>
void handle(const char *name, size_t len, _Bool no) __asm__("_ZN4llvm3sys28PrintStackTraceOnErrorSignalENS_9StringRefEb");
__attribute__((noinline)) static int die(volatile int *p)
{
	return *p; /* die */
}
int main(int argc, char **argv)
{
	handle(argv[0], strlen(argv[0]), 0);
	return die((int *)(size_t)(argc - 1)) + 1; /* main */
}
"""


def line_of(source, mark):
    return next(i for i, line in enumerate(source.splitlines(), 1) if f"/* {mark} */" in line)


def compile_c(directory, name, source, *options, compiler="gcc"):
    path = os.path.join(directory, name)
    with open(path + ".c", "w", encoding="utf-8") as f:
        f.write(source)
    subprocess.run([compiler, "-g", "-fno-omit-frame-pointer", *options, "-o", path, path + ".c"], check=True, timeout=BOUND)
    return path


def run_filter(text, *arguments, code=0, cwd=None):
    text = text.encode() if isinstance(text, str) else text
    done = subprocess.run([SYMBTOOL, "symbolicate", "--filter", *arguments], input=text, capture_output=True, timeout=BOUND, cwd=cwd)
    assert done.returncode == code, f"{done.returncode}\n{done.stdout[-2000:]!r}\n{done.stderr[-2000:]!r}"
    return done


def filtered(text, *arguments, **more):
    return run_filter(text, *arguments, **more).stdout.decode()


def tally(done):
    return [line for line in done.stderr.decode().splitlines() if re.match(r"symbtool: \d+ frames?, ", line)][-1]


def crash(program, variable=None, *arguments):
    """What the program writes, its sanitizer's report unsymbolized."""
    env = {**os.environ}
    if variable:
        env[variable] = "symbolize=0:print_stacktrace=1:abort_on_error=0"
    done = subprocess.run([program, *arguments], capture_output=True, timeout=BOUND, env=env, cwd=os.path.dirname(program))
    return (done.stdout + done.stderr).decode()


def symbol_address(program, name):
    out = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    return next(int(line.split()[0], 16) for line in out.splitlines() if line.endswith(f" T {name}") or line.endswith(f" t {name}"))


def call_in(program, caller, callee):
    """Addresses of a call in a function: of the instruction, and the one to which it returns."""
    out = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], capture_output=True, text=True, check=True).stdout
    body = re.search(rf"^[0-9a-f]+ <{caller}>:\n((?:.+\n)+)", out, re.M).group(1).splitlines()
    at = next(i for i, line in enumerate(body) if "call" in line and f"<{callee}" in line)
    return int(body[at].split(":")[0], 16), int(body[at + 1].split(":")[0], 16)


def build_id(program):
    out = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout
    return re.search(r"Build ID: ([0-9a-f]+)", out).group(1)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_c(str(tmp_path_factory.mktemp("program")), "program", SOURCE)


def expect_places(text, source, *places):
    """In this order: a function, and the line that bears a mark."""
    at = 0
    for function, mark in places:
        place = re.compile(rf"\b{function}\b[^\n]*\.c:{line_of(source, mark)}\b")
        found = place.search(text, at)
        assert found, f"{place.pattern}\n{text[at:]}"
        at = found.end()


# ---- formats whose programs run here ----


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_address_sanitizer(tmp_path, compiler):
    program = compile_c(str(tmp_path), "asan", SOURCE, "-fsanitize=address", compiler=compiler)
    report = crash(program, "ASAN_OPTIONS")
    assert "AddressSanitizer: heap-buffer-overflow" in report and "faulty" not in report
    out = filtered(report, "--one-line")
    expect_places(out, SOURCE, ("inlined", "inlined"), ("faulty", "faulty"), ("main", "main"))
    frame = next(line for line in out.splitlines() if line.startswith("    #0"))
    assert re.match(r"    #0 0x[0-9a-f]+ in inlined \S+\.c:\d+, inlined by faulty \S+\.c:\d+ \(\S+\+0x[0-9a-f]+\)", frame), frame
    # every other byte is as it was
    assert re.sub(r"(?m)^( +#\d+ 0x\w+) in .*? \(/", r"\1  (/", re.sub(r"\) \(.* at \S+\)", ")", out)) == report


def test_inlined_calls_stand_below_their_frame_where_its_line_has_nothing_else(tmp_path):
    program = compile_c(str(tmp_path), "below", SOURCE, "-fsanitize=address")
    report = crash(program, "ASAN_OPTIONS")
    frame = next(line for line in report.splitlines() if line.startswith("    #0"))
    places = r"in inlined (\S+\.c:\d+) (.*)"
    out = filtered(report).split("\n")
    at = next(i for i, line in enumerate(out) if line.startswith("    #0"))
    assert re.search(places, out[at]) and re.fullmatch(r" {8}\(inlined by\) faulty \S+\.c:\d+", out[at + 1])
    assert re.sub(r" in .*? \(/", "  (/", out[at]) == frame and "inlined by" not in out[at]
    # with carriage returns, at the end of a text, without the last line feed
    for text in (f"{frame}\r\n{frame}\r\n", frame):
        lines = filtered(text).split("\n")
        assert [line.rstrip("\r") for line in lines if "(inlined by)" in line] == [out[at + 1]] * text.count("#0")
        assert all(line.endswith("\r") for line in lines[:-1]) or "\r" not in text
    # a summary, a log's prefix, a string of JSON and HTML keep them on the line
    for text in (f"Nov 24 22:41:00 host app[71]: {frame}\n", json.dumps({"log": f"{frame}\n"}) + "\n", frame.replace("<", "&lt;") + " &lt;\n", "x\n" + f"[rank0]: {frame}\n" * 2):
        assert filtered(text).count("\n") == text.count("\n") and ", inlined by faulty" in filtered(text), text
    assert "(inlined by)" not in filtered(report, "--one-line") and filtered(report, "--one-line").count("\n") == report.count("\n")
    only = filtered(report, "--no-inlines", "-s")
    assert "inlined by" not in only and re.search(r" in inlined below\.c:\d+ \(", only)


@pytest.mark.parametrize("name", ["gzip", "zstd", "utf-16-le", "utf-16-be"])
def test_what_is_packed_or_utf_16_is_read(tmp_path, name):
    program = compile_c(str(tmp_path), "packed", SOURCE, "-fsanitize=address")
    report = crash(program, "ASAN_OPTIONS") + "\u00e9 \u20ac \U0001f600\n"
    wanted = filtered(report)
    assert wanted.count(" in main ") == 2
    if name in ("gzip", "zstd"):
        data = subprocess.run([name, "-c"], input=report.encode(), capture_output=True, check=True).stdout
    else:
        data = ("\ufeff" + report).encode(name)
    path = tmp_path / "report"
    path.write_bytes(data)
    for source in ([str(path)], []):
        done = subprocess.run([SYMBTOOL, "symbolicate", "--filter", *source], input=None if source else data, capture_output=True, timeout=BOUND)
        assert done.returncode == 0 and done.stdout.decode() == wanted
    if name in ("gzip", "zstd"):
        path.write_bytes(data[:-6])
        done = subprocess.run([SYMBTOOL, "symbolicate", "--filter", str(path)], capture_output=True, timeout=BOUND)
        assert done.returncode == 1 and b"ends early" in done.stderr


def heed_ctrl_c():
    """Also where the tests themselves do not, as in the background of a shell."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Piped:
    """symbtool --filter between two pipes, which is ended in any case."""

    def __init__(self):
        self.process = subprocess.Popen([SYMBTOOL, "symbolicate", "--filter"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0, preexec_fn=heed_ctrl_c)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(BOUND)
        self.process.stdout.close()
        self.process.stdin.close()

    def write(self, data):
        self.process.stdin.write(data)

    def read(self, wanted):
        """Exactly these bytes, or what came in their place."""
        data, end = b"", time.monotonic() + BOUND
        while len(data) < len(wanted) and time.monotonic() < end:
            if select.select([self.process.stdout], [], [], 1)[0]:
                piece = os.read(self.process.stdout.fileno(), len(wanted) - len(data))
                if not piece:
                    break
                data += piece
        return data


def test_half_a_pair_at_the_end_of_utf_16_is_told():
    for data, text in ((b"a\0\x3d\xd8", "a\ufffd"), (b"\x3d\xd8", "\ufffd"), (b"\x3d\xd8a", "\ufffd\ufffd"), (b"\x3d\xd8a\0", "\ufffda")):
        done = subprocess.run([SYMBTOOL, "symbolicate", "--filter"], input=b"\xff\xfe" + data, capture_output=True, timeout=BOUND)
        assert done.returncode == 0 and done.stdout.decode() == text


def test_what_stands_before_damage_is_not_lost(tmp_path):
    text = "".join(f"{i} {random.Random(i).random()}\n" for i in range(5000)).encode()
    data = bytearray(subprocess.run(["gzip", "-c"], input=text, capture_output=True, check=True).stdout)
    data[-8] ^= 1  # of the checksum
    path = tmp_path / "damaged.gz"
    path.write_bytes(data)
    done = subprocess.run([SYMBTOOL, "symbolicate", "--filter", str(path)], capture_output=True, timeout=BOUND)
    assert done.returncode == 1 and b"bad gzip" in done.stderr and done.stdout == text


def test_utf_16_with_a_long_line_at_the_end_of_a_batch(tmp_path):
    batch = 4 << 20
    text = ("y" * 1023 + "\n") * (batch // 1024 - 1) + "z" * 1022 + "\n" + "x" * (batch + 1000) + "\nend\n"
    path = tmp_path / "long"
    path.write_bytes(("\ufeff" + text).encode("utf-16-le"))
    done = subprocess.run([SYMBTOOL, "symbolicate", "--filter", str(path)], capture_output=True, timeout=BOUND)
    assert done.returncode == 0 and done.stdout == text.encode()


def test_a_prompt_without_a_line_feed_is_passed_on(tmp_path):
    program = compile_c(str(tmp_path), "prompt", SOURCE, "-fsanitize=address")
    frame = next(line for line in crash(program, "ASAN_OPTIONS").splitlines() if line.startswith("    #0"))
    with Piped() as p:
        for said in (b"Continue (y/n)? ", b"y\n    #0 "):  # the program would wait for ever
            p.write(said)
            assert p.read(said) == said
        p.write(frame[len("    #0 ") :].encode() + b"\n")
        p.process.stdin.close()
        assert b" in inlined " in p.process.stdout.read()
        assert p.process.wait(BOUND) == 0


def test_ctrl_c_loses_nothing_that_a_dying_program_says():
    with Piped() as p:
        p.write(b"first\n")
        assert p.read(b"first\n") == b"first\n"
        p.process.send_signal(signal.SIGINT)
        p.write(b"I was interrupted\n")
        p.process.stdin.close()
        assert p.process.stdout.read() == b"I was interrupted\n"
        assert p.process.wait(BOUND) == -signal.SIGINT
    with Piped() as p:
        p.write(b"first\n")
        assert p.read(b"first\n") == b"first\n"
        end = time.monotonic() + BOUND
        while p.process.poll() is None and time.monotonic() < end:
            p.process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        assert p.process.poll() == -signal.SIGINT


def test_ctrl_c_ends_what_is_typed_also_right_behind_a_line():
    master, slave = os.openpty()
    with subprocess.Popen([SYMBTOOL, "symbolicate", "--filter"], stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=heed_ctrl_c) as p:
        try:
            os.write(master, b"warm\n")
            assert p.stdout.readline() == b"warm\n"  # a batch is written: Ctrl+C is caught by now
            os.write(master, b"typed\n")
            wait_for(lambda: not select.select([slave], [], [], 0)[0], "the line is read, and the batch waits for more")
            p.send_signal(signal.SIGINT)
            assert p.wait(BOUND) == -signal.SIGINT and p.stdout.read() == b"typed\n"
        finally:
            p.kill()
            os.close(master)
            os.close(slave)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_leak_sanitizer(tmp_path, compiler):
    program = compile_c(str(tmp_path), "lsan", LEAK, "-fsanitize=leak", compiler=compiler)
    report = crash(program, "LSAN_OPTIONS")
    if "LeakSanitizer has encountered a fatal error" in report:
        pytest.skip("LeakSanitizer may not trace its process here")
    assert "detected memory leaks" in report, report
    expect_places(filtered(report), LEAK, ("lose", "lose"), ("main", "main"))


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_undefined_behaviour_sanitizer(tmp_path, compiler):
    program = compile_c(str(tmp_path), "ubsan", OVERFLOW, "-fsanitize=undefined", compiler=compiler)
    report = crash(program, "UBSAN_OPTIONS")
    assert "runtime error" in report and "#1" in report, report
    expect_places(filtered(report), OVERFLOW, ("over", "over"), ("main", "main"))


def test_memory_sanitizer(tmp_path):
    program = compile_c(str(tmp_path), "msan", UNSET, "-fsanitize=memory", compiler="clang")
    report = crash(program, "MSAN_OPTIONS")
    assert "use-of-uninitialized-value" in report and " in " not in report, report
    expect_places(filtered(report), UNSET, ("use", "use"), ("main", "main"))


LIBLLVM = glob.glob("/usr/lib/*/libLLVM-14.so.1")


@pytest.mark.slow
@pytest.mark.skipif(not (LIBLLVM and shutil.which("llvm-symbolizer")), reason="LLVM 14 is not installed")
def test_llvm(tmp_path):
    """What LLVM's programs print of a stripped one. Below the signal's trampoline stands where it came."""
    program = compile_c(str(tmp_path), "dies", SIGNALLED, "-O0", "-Wl,--no-as-needed", *LIBLLVM)
    (tmp_path / "kept").mkdir()
    shutil.copy(program, tmp_path / "kept" / "copy")
    subprocess.run(["strip", program], check=True)
    report = crash(program)
    frames = re.findall(r"(?m)^ *#\d+ 0x[0-9a-f]{16} \(" + re.escape(program) + r"\+0x", report)
    assert len(frames) > 2, report
    expect_places(filtered(report, "--debug-dir", str(tmp_path / "kept")), SIGNALLED, ("die", "die"), ("main", "main"))


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_thread_sanitizer(tmp_path, compiler):
    """Its modules have no directory: the user says which file one is."""
    program = compile_c(str(tmp_path), "tsan", RACE, "-fsanitize=thread", compiler=compiler)
    report = crash(program, "TSAN_OPTIONS")
    assert "data race" in report and "<null> <null> (tsan+0x" in report, report
    out = filtered(report, "--module", f"tsan={program}", cwd="/")
    expect_places(out, RACE, ("race", "race"), ("race", "race"), ("main", "main"))


@pytest.mark.parametrize("option", ["-pie", "-no-pie"])
def test_glibc(tmp_path, option):
    program = compile_c(str(tmp_path), "glibc", SOURCE, option)
    stack = crash(program, None, "show")
    out = filtered(stack, cwd=str(tmp_path))
    expect_places(out, SOURCE, ("show", "show"), ("main", "main shows"))
    assert [line.split(" (")[0] for line in out.splitlines()] == stack.splitlines()


def test_glibc_with_symbols(tmp_path):
    """prog(main+0x12): with -rdynamic glibc names the function; a neighbour in libc says where that lies."""
    program = compile_c(str(tmp_path), "dynamic", SOURCE, "-rdynamic")
    stack = crash(program, None, "show")
    assert "(main+0x" in stack
    out = filtered(stack)
    assert "__libc_start_main" in out and len(out.splitlines()) == len(stack.splitlines())


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("perf"), reason="linux-perf is not installed")
def test_perf(tmp_path):
    program = compile_c(str(tmp_path), "hot", HOT)
    data = str(tmp_path / "perf.data")
    done = subprocess.run(
        ["perf", "record", "-e", "cpu-clock:u", "-F", "199", "-g", "-o", data, program], capture_output=True, text=True, timeout=BOUND, check=False
    )
    if done.returncode != 0:
        pytest.skip("perf may not count here: " + done.stderr.strip().splitlines()[-1])
    subprocess.run(["strip", "-o", program + ".bare", program], check=True)
    script = subprocess.run(["perf", "script", "-i", data], capture_output=True, text=True, timeout=BOUND, check=True).stdout
    assert "(" + program + ")" in script
    script = re.sub(r"\b(hot|main)\+0x[0-9a-f]+ \(", "[unknown] (", script)  # as it is of a stripped program
    out = filtered(script)
    expect_places(out, HOT, ("hot", "hot"), ("main", "main"))


def test_perf_report(tmp_path):
    program = compile_c(str(tmp_path), "hot", HOT)
    subprocess.run(["strip", "-o", program + ".bare", program], check=True)
    data = str(tmp_path / "perf.data")
    done = subprocess.run(
        ["perf", "record", "-e", "cpu-clock:u", "-F", "199", "-g", "-o", data, program + ".bare"], capture_output=True, text=True, timeout=BOUND, check=False
    )
    if done.returncode != 0:
        pytest.skip("perf may not count here: " + done.stderr.strip().splitlines()[-1])
    for options in (["--no-children"], ["--children"], ["--no-children", "--sort", "dso,sym", "-v"], ["--no-children", "--sort", "comm,sym"]):
        text = subprocess.run(["perf", "report", "--stdio", "-g", "none", *options, "-i", data], capture_output=True, text=True, timeout=BOUND, check=True).stdout
        out = filtered(text, "--module", f"hot.bare={program}")
        assert "[.] 0x00" in text, text
        if "comm,sym" in options:
            assert out == text  # the word before the address is no module
            continue
        shares = re.findall(r"([\d.]+)%(?: +\S+)+ +\[\.\] hot at \S+/hot\.c:(\d+)", out)
        assert {int(line) for _, line in shares} <= {line_of(HOT, "hot"), line_of(HOT, "hot") - 1} and sum(float(share) for share, _ in shares) > 50, out
        if "--children" in options:
            assert re.search(r"0\.00% +hot\.bare +hot\.bare +\[\.\] 0x0000[0-9a-f]+ *$", out, re.M), out


CHROMIUM = """\
#include <execinfo.h>
#include <stdio.h>
__attribute__((noinline)) int show(void)
{
	void *stack[16];
	int n = backtrace(stack, 16); /* show */
	for (int i = 0; i < n; i++)
		printf("#%d %p <unknown>\\n", i, stack[i]);
	FILE *maps = fopen("/proc/self/maps", "r");
	for (int c; (c = getc(maps)) != EOF;)
		putchar(c);
	return n;
}
int main(void)
{
	return show() == 0; /* main */
}
"""


def test_chromium(tmp_path):
    """Its driver prints what backtrace() gives; the map of the process has to be put beside it."""
    program = compile_c(str(tmp_path), "shown", CHROMIUM)
    text = subprocess.run([program], capture_output=True, text=True, timeout=BOUND, check=False).stdout
    first = int(re.search(rf"^([0-9a-f]+)-.* {program}$", text, re.M).group(1), 16)
    calls = [int(word, 16) - 1 - first for word in re.findall(r"^#[01] 0x(\w+) <unknown>$", text, re.M)]
    out = re.findall(r"^#[01] 0x\w+ (\S+ at )\S*/(\S+)$", filtered(text), re.M)
    assert ["".join(words) for words in out] == by_addr2line(program, calls)
    expect_places(filtered(text), CHROMIUM, ("show", "show"), ("main", "main"))


def test_perf_trace(program):
    inside, _ = call_in(program, "show", "backtrace")
    _, after = call_in(program, "main", "show")
    text = (
        "     0.000 (999.323 ms): app/10737 pause()  = 0\n                                       __libc_pause (/usr/lib/x86_64-linux-gnu/libc.so.6)\n"
        f"                                       [{inside:#x}] ({program})\n                                       [{after - 1:#x}] ({program})\n"
    )
    expect_places(filtered(text), SOURCE, ("show", "show"), ("main", "main shows"))


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_valgrind_of_a_program_with_a_fixed_address(tmp_path):
    program = compile_c(str(tmp_path), "fixed", LEAK, "-no-pie")
    shutil.copy(program, str(tmp_path / "full"))
    subprocess.run(["strip", program], check=True)
    text = subprocess.run(["valgrind", "--leak-check=full", program], capture_output=True, text=True, timeout=BOUND, check=False).stderr
    assert "??? (in " in text, text
    expect_places(filtered(text, "--module", f"fixed={tmp_path / 'full'}"), LEAK, ("lose", "lose"), ("main", "main"))
    assert filtered(text, "--module", f"fixed={compile_c(str(tmp_path), 'other', LEAK, '-pie')}") == text


# ---- formats whose programs do not run here ----


def test_coredumpctl(program):
    inside = symbol_address(program, "faulty")
    _, after = call_in(program, "main", "faulty")
    text = (
        f"                Module {program} with build-id {build_id(program)}\n"
        "                Stack trace of thread 4242:\n"
        f"                #0  0x000055d0c1c0{inside:04x} n/a (program + {inside:#x})\n"
        f"                #1  0x000055d0c1c0{after:04x} n/a (program + {after:#x})\n"
        "                #2  0x0000000000000000 n/a (n/a + 0x0)\n"
    )
    done = run_filter(text, cwd="/")
    out = done.stdout.decode()
    assert re.search(r"#0  0x\w+ faulty at \S+:\d+ \(program \+ ", out), out
    expect_places(out, SOURCE, ("main", "main"))
    assert "3 frames, 2 named; no name: 1 no module" in tally(done)


KEPT = os.path.join(ROOT, "tests", "data", "text")


def kept(one, name):
    """A text that a real program printed, and the same with names of the server's; its README says how it was made."""
    one.symbols.put("app", "A276A455EB0CCF8C33D941DF9B06A92C0", open(os.path.join(KEPT, "app.sym"), "rb").read())
    with open(os.path.join(KEPT, name), encoding="utf-8") as f:
        text = f.read()
    return text, filtered(text, "--url", url(one), "--module", "app=55a476a20ceb8ccf33d941df9b06a92c0def4adf")


def test_what_coredumpctl_printed(one):
    text, out = kept(one, "coredumpctl-252.txt")
    right = text.replace("n/a (app + 0x1129)", "inlined at app.c:4 (app + 0x1129)\n                    (inlined by) faulty at app.c:8")
    assert out == right.replace("n/a (app + 0x114a)", "main at app.c:14 (app + 0x114a)")


def test_what_minidump_stackwalk_printed(one):
    text, out = kept(one, "minidump_stackwalk-m.txt")
    changed = [line for line, before in zip(out.splitlines(), text.splitlines()) if line != before]
    assert changed[:2] == ["0|0|app|faulty|app.c|8|0x1129", "0|1|app|main|app.c|14|0x114a"]
    # what it scanned from the stack and took for return addresses is looked up one byte below, like they
    assert changed[2:] == ["0|3|app|faulty|app.c|10|0x1130", "0|6|app|faulty|app.c|10|0x1130"]


def test_return_addresses_are_looked_up_one_byte_below(tmp_path):
    """Where a call ends its line, the address behind it has the next one."""
    program = compile_c(str(tmp_path), "calls", LEAK)
    _, after = call_in(program, "main", "lose")
    frame = f"{program}(+{after:#x}) [0x55d0c1c0{after:04x}]\n"
    expect_places(filtered(frame), LEAK, ("main", "main"))
    for number in (0, 1):
        out = filtered(f"#{number}  0x1 n/a ({program} + {after:#x})\n")
        line = int(re.search(r"main at \S+:(\d+)", out).group(1))
        assert line == line_of(LEAK, "main") + (number == 0), out


def test_firefox(program):
    _, after = call_in(program, "main", "faulty")
    out = filtered(f"GECKO(77) | #01: ???[{program} +{after:#x}]\n")
    assert re.fullmatch(rf"GECKO\(77\) \| #01: main at \S+\.c:{line_of(SOURCE, 'main')}\[{program} \+{after:#x}\]\n", out), out


def test_android(program):
    call, _ = call_in(program, "main", "faulty")
    text = f"11-22 14:00:00.1 12 12 F DEBUG   :       #01 pc {call:016x}  /data/app/program (BuildId: {build_id(program)})\n"
    out = filtered(text, "--module", f"program={program}")
    expect_places(out, SOURCE, ("main", "main"))
    assert f"/data/app/program (main at " in out and f") (BuildId: {build_id(program)})" in out


def test_macos_by_a_server(one):
    ident = str(uuid.UUID(int=random.Random(4).getrandbits(128))).upper()
    one.symbols.add("MyApp", "FILE 0 app.m\nFUNC 1000 20 0 -[App run]\n1000 10 7 0\n1010 10 8 0\n", ident.replace("-", "") + "0")
    text = (
        "Process:               MyApp [77]\n"
        "Thread 0 Crashed:\n"
        f"0   MyApp                         \t0x0000000104b59010 0x104b58000 + {0x1010}\n"
        f"1   MyApp                         \t0x0000000104b59010 0x104b58000 + {0x1010}\n"
        "\nBinary Images:\n"
        f"       0x104b58000 -        0x104b5bfff +com.example.MyApp (1.0) <{ident}> /Applications/MyApp.app/MyApp\n"
    )
    out = filtered(text, "--url", url(one)).splitlines()
    assert out[2].endswith(f"+ {0x1010} (-[App run] at app.m:8)")
    assert out[3].endswith(f"+ {0x1010} (-[App run] at app.m:7)")


def test_minidump_stackwalk_by_a_server(one):
    module = one.symbols.add("xul.pdb", "FILE 0 a|b.cpp\nFUNC 1000 20 0 run\n1000 10 7 0\n1010 10 8 0\n")
    text = f"Module|xul.dll|1.0|{module[0]}|{module[1]}|0x10000000|0x1fffffff|0\n\n0|0|xul.dll||||0x1010\n0|1|xul.dll||||0x1010\n"
    assert filtered(text, "--url", url(one)).splitlines()[2:] == ["0|0|xul.dll|run|a_b.cpp|8|0x1010", "0|1|xul.dll|run|a_b.cpp|7|0x1010"]
    # as print_json of rust-minidump's process_state.rs writes a frame and a module; the program itself was not run
    text = (
        '{"crashing_thread": {"frames": [{"file": null, "function": null, "inlines": null, "line": null, "module": "xul.dll",\n'
        f'  "module_offset": "0x00001010"}}]}}, "modules": [{{"debug_file": "xul.pdb", "debug_id": "{module[1]}", "filename": "xul.dll"}}]}}\n'
    )
    out = filtered(text, "--url", url(one))
    assert '[{"file": "a|b.cpp", "function": "run", "inlines": null, "line": 8, "module"' in out


def test_windbg_by_a_server(one):
    """As Microsoft's documentation of k shows a stack with frame numbers. Those below the first are return addresses."""
    ident = one.symbols.add("app.pdb", "FILE 0 a.cpp\nFUNC 1000 20 0 run\n1000 10 7 0\n1010 10 8 0\n")[1]
    frame = "000000c8`2a0ff5c8 00007ff7`12341234 app.dll+0x1010"
    text = f" # Child-SP          RetAddr           Call Site\n00 {frame}\n01 {frame}\n"
    told = f"Module|app.dll|1.0|app.pdb|{ident}|0x10000000|0x1fffffff|0\n"
    assert filtered(told + text, "--url", url(one)).splitlines()[2:] == [f"00 {frame} (run at a.cpp:8)", f"01 {frame} (run at a.cpp:7)"]


def test_anything(program):
    at = symbol_address(program, "faulty")
    out = filtered(f"died in {program}+{at:#x}, and main+0x4 is no module\n")
    assert out.startswith(f"died in {program}+{at:#x} (faulty at ") and out.endswith("), and main+0x4 is no module\n")


def test_a_file_given_for_a_name_makes_the_name_a_module(program):
    """Also after the filter forgot what it read, as half of its room for modules is used."""
    at = symbol_address(program, "faulty")
    crowd = "".join(f"/m{i}.so+0x1\n" for i in range(20_000))
    for text in (f"app+{at:#x}\n", crowd + f"app+{at:#x}\n"):
        out = filtered(text, "--module", f"app={program}")
        assert out.splitlines()[-1].startswith(f"app+{at:#x} (faulty at ")
    assert filtered(f"app+{at:#x}\n") == f"app+{at:#x}\n"


KERNEL = """\
extern int sink;
static inline __attribute__((always_inline)) int inlined(int a)
{
	return a * 7 + sink;
}
__attribute__((noinline)) int f(int a)
{
	int b = inlined(a);
	sink += b;
	return b + 1;
}
static __attribute__((noinline)) int twice(int a)
{
	sink ^= a;
	return sink;
}
int call_f(int a)
{
	return f(a) + twice(a);
}
"""

ITS_DRIVER = """\
int sink;
int call_f(int a);
static __attribute__((noinline)) int twice(int a)
{
	sink += a;
	sink *= 3;
	sink ^= 5 * a;
	sink -= 7 * a;
	return sink;
}
int main(int argc, char **argv)
{
	(void)argv;
	return call_f(argc) + twice(argc) + twice(2 * argc);
}
"""


@pytest.fixture(scope="module")
def vmlinux(tmp_path_factory):
    """Linked like a kernel; with the address and size of each function, several of which may have the same name."""
    directory, objects = str(tmp_path_factory.mktemp("vmlinux")), []
    for name, source in (("kernel", KERNEL), ("driver", ITS_DRIVER)):
        objects.append(compile_c(directory, name, source, "-c", "-O0", "-ffreestanding", "-fno-pic", "-mcmodel=kernel"))
    path = os.path.join(directory, "vmlinux")
    subprocess.run(["ld", "-e", "main", "-Ttext=0xffffffff81000000", "-Tdata=0xffffffff82000000", "-o", path, *objects], check=True)
    functions = {}
    for line in subprocess.run(["nm", "-S", path], capture_output=True, text=True, check=True).stdout.splitlines():
        if re.fullmatch(r"\w+ \w+ [tT] \w+", line):
            address, size, _, name = line.split()
            functions.setdefault(name, []).append((int(address, 16), int(size, 16)))
    assert len(functions["twice"]) == 2 and functions["twice"][0][1] != functions["twice"][1][1], functions
    return path, functions


def calls_at(program, address):
    """addr2line's, in the form of --one-line."""
    lines = subprocess.run(["addr2line", "-ife", program, hex(address)], capture_output=True, text=True, check=True).stdout.splitlines()
    calls = [f"{name} at {re.sub(r' .discriminator .*', '', place)}" for name, place in zip(lines[::2], lines[1::2])]
    return ", inlined by ".join(calls)


def test_the_kernels_functions_are_named_by_its_file(vmlinux):
    """An offset in a function, of the size that nm tells or, as the kernel counts, with the padding behind it; return addresses but
    where the kernel stopped."""
    path, functions = vmlinux
    text, named = ["BUG: unable to handle page fault for address: ffffc90000000000"], [None]
    for name, places in functions.items():
        for address, size in places:
            for offset in range(1, size, 7):
                for before, back in (("RIP: 0010:", 0), ("[   12.3] RIP: 0010:", 0), (" ? ", 1), ("[   12.3]  ", 1), ("pc : ", 0), ("lr : ", 1),
                        ("epc   : 8010048c ", 0), ("ra    : 8010048c ", 1), ("   ra: 900000000020048c ", 1), ("  ERA: 900000000020048c ", 0)):
                    text.append(f"{before}{name}+{offset:#x}/{size + (offset % 2 and -size % 16 if name != 'twice' else 0):#x}")
                    named.append(calls_at(path, address + offset - back))
    out = filtered("\n".join(text), "--module", f"vmlinux={path}", "--one-line").splitlines()
    assert out == [line + (f" ({calls})" if calls else "") for line, calls in zip(text, named)]
    assert any("inlined by f at" in line for line in out)


def test_functions_of_a_kernel_for_thumb_are_named(tmp_path):
    """Their symbols have the lowest bit set, which is not a part of the address."""
    program = str(tmp_path / "vmlinux")
    thumb = ["--target=armv7a-linux-gnueabihf", "-mthumb", "-O0", "-ffreestanding", "-nostdlib", "-static", "-fuse-ld=lld", "-Wl,-e,call_f"]
    compile_c(tmp_path, "vmlinux", KERNEL + "int sink;\n", *thumb, compiler="clang")
    symbols = subprocess.run(["llvm-nm", "-S", program], capture_output=True, text=True, check=True).stdout
    address, size = (int(number, 16) for number in re.search(r"^(\w+) (\w+) [tT] call_f$", symbols, re.M).groups())
    address &= ~1
    text, named = [], []
    for offset in range(2, size, 2):
        for before, back in (("PC is at ", 0), (" ? ", 1)):
            text.append(f"{before}call_f+{offset:#x}/{size:#x}")
            told = subprocess.run(["llvm-symbolizer", "-e", program, hex(address + offset - back)], capture_output=True, text=True, check=True)
            name, place = told.stdout.splitlines()[:2]
            named.append(f" ({name} at {place.rsplit(':', 1)[0]})")
    assert len(set(named)) > 1
    out = filtered("\n".join(text), "--module", f"vmlinux={program}", "--one-line").splitlines()
    assert out == [line + calls for line, calls in zip(text, named)]


def test_modules_of_the_kernel_are_named_by_their_own_files(vmlinux):
    path, functions = vmlinux
    ((address, size),) = functions["f"]
    calls = f" ({calls_at(path, address + 3)})"
    for line in (f"RIP: 0010:f+0x3/{size:#x} [own_mod]", f"RIP: 0010:f+0x3/{size:#x} [own_mod 5f6d1234]"):
        for name in ("own_mod", "own_mod.ko"):
            assert filtered(line, "--module", f"{name}={path}", "--one-line") == line + calls
        assert filtered(line, "--module", f"vmlinux={path}") == line


def test_a_function_of_the_kernel_that_is_not_known_for_sure_has_no_name(vmlinux):
    """Of another size, so of another build; unknown; SystemTap's of a program; two functions of this name and size."""
    path, functions = vmlinux
    ((_, size),) = functions["f"]
    twice = functions["twice"][0][1]
    for line in (f"f+0x3/{size + 500:#x}", f"f+0x3/{size - 1:#x}", "g+0x3/0x40", f"f+0x3/{size:#x} [/usr/bin/app]", f"twice+0x1/{twice + 500:#x}"):
        assert filtered(line, "--module", f"vmlinux={path}") == line
        assert filtered(line) == line
    assert tally(run_filter("g+0x3/0x40", "--module", f"vmlinux={path}")) == "symbtool: 1 frame, 0 named; no name: 1 no function"


# ---- where symbols are ----


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    place = tmp_path_factory.mktemp("store")
    os.makedirs(place / "store")
    with Stack(keys=True, config={"symbfile_store": f"file://{place}/store", "revalidate_after": "1s"}) as s:
        s.key_path = str(place / "key")
        with open(s.key_path, "w", encoding="utf-8") as f:
            f.write(s.key + "\n")
        yield s


def url(stack):
    return f"http://127.0.0.1:{stack.node.nginx.port}"


def test_a_pushed_program_by_its_file(one, program):
    """The server knows the FileID, which symbtool reads from the file that the text names."""
    subprocess.run(
        [SYMBTOOL, "push-symbols", "--url", url(one), "--api-key-file", one.key_path, program], check=True, capture_output=True, timeout=BOUND
    )
    _, after = call_in(program, "main", "faulty")
    stack = f"{program}(+{after:#x}) [0x55d0c1c0{after:04x}]\n" * 3
    out = filtered(stack, "--url", url(one))
    expect_places(out, SOURCE, ("main", "main"), ("main", "main"), ("main", "main"))


def test_a_crash_is_named_alike_by_files_by_the_server_and_over_http(one, tmp_path):
    """README's commands: crash under AddressSanitizer; filter with files; push; filter with the server; post the text."""
    program = compile_c(str(tmp_path), "crashes", SOURCE, "-fsanitize=address")
    report = crash(program, "ASAN_OPTIONS")
    mine = re.compile(r"(?m)^    #\d+ 0x\w+ in (.*?) \(" + re.escape(program))
    by_files = mine.findall(filtered(report))
    assert any(f.startswith("inlined ") for f in by_files) and any(f.startswith("main ") for f in by_files)
    subprocess.run(
        [SYMBTOOL, "push-symbols", "--url", url(one), "--api-key-file", one.key_path, program], check=True, capture_output=True, timeout=BOUND
    )
    assert mine.findall(filtered(report, "--url", url(one))) == by_files
    ident = subprocess.run([SYMBTOOL, "file-id", program], capture_output=True, text=True, check=True).stdout.split()[0]
    text = f"MODULE Linux x86_64 {ident} crashes\n{report}"
    for query, options in (("?inlines=lines", []), ("", ["--one-line"]), ("?inlines=none", ["--no-inlines"])):
        reply = Client(one.node.nginx.port).request("POST", f"/symbolicate/text{query}", text)
        out = filtered(text, "--url", url(one), *options)
        assert reply.status == 200 and mine.findall(reply.body.decode()) == mine.findall(out)
        below = re.findall(r"(?m)^ {8}\(inlined by\) .*", out)
        assert below == re.findall(r"(?m)^ {8}\(inlined by\) .*", reply.body.decode()) and bool(below) == (query == "?inlines=lines")
        assert any(", inlined by faulty" in names for names in mine.findall(out)) == (query == "")


def test_a_fixed_address_executable(one, tmp_path):
    """Its image begins at 0x400000: what counts from there comes out right, from the file and from the server, by either id."""
    program = compile_c(str(tmp_path), "fixed", LEAK, "-no-pie", "-Wl,--build-id=sha1")
    _, after = call_in(program, "main", "lose")
    assert after > 0x400000
    text = f"#1  0x{after:016x} n/a ({program} + {after - 0x400000:#x})\n"
    expect_places(filtered(text), LEAK, ("main", "main"))
    debug = build_id(program)
    debug = (debug[6:8] + debug[4:6] + debug[2:4] + debug[:2] + debug[10:12] + debug[8:10] + debug[14:16] + debug[12:14] + debug[16:32]).upper() + "0"
    one.symbols.add("fixed", f"FUNC {after - 0x400000 - 1:x} 1 0 from_breakpad\n", debug)
    asan = f"    #1 0x1  ({program}+{after - 1:#x}) (BuildId: {build_id(program)})\n"
    assert "from_breakpad" in filtered(asan, "--url", url(one))
    subprocess.run(
        [SYMBTOOL, "push-symbols", "--url", url(one), "--api-key-file", one.key_path, program], check=True, capture_output=True, timeout=BOUND
    )
    expect_places(filtered(text, "--url", url(one)), LEAK, ("main", "main"))


def test_a_fixed_address_executable_that_is_only_on_the_server(one, tmp_path):
    """Sanitizers write addresses of the file, systemd those of the image; only the server knows where that begins."""
    program = compile_c(str(tmp_path), "away", LEAK + "/* away */", "-no-pie", "-Wl,--build-id=sha1")
    _, after = call_in(program, "main", "lose")
    subprocess.run(
        [SYMBTOOL, "push-symbols", "--url", url(one), "--api-key-file", one.key_path, program], check=True, capture_output=True, timeout=BOUND
    )
    ident = build_id(program)
    os.unlink(program)
    asan = f"    #1 0x1  ({program}+{after - 1:#x}) (BuildId: {ident})\n"
    systemd = f"Module {program} with build-id {ident}\n#1  0x{after:016x} n/a ({program} + {after - 0x400000:#x})\n"
    for text in (asan, systemd, asan + systemd):
        expect_places(filtered(text, "--url", url(one)), LEAK, *[("main", "main")] * text.count("#1"))


def test_modules_of_the_user(one):
    first = one.symbols.add("libone.so", "FUNC 1000 20 0 from_one\n")
    build = "93ac61ec5a8eb1396f9fbd350e3169a558528a40"
    one.symbols.add("libtwo.so", "FUNC 1000 20 0 from_two\n", "EC61AC938E5A39B16F9FBD350E3169A50")
    text = "libone.so+0x1010 libtwo.so+0x1010 libthree.so+0x10\n"
    done = run_filter(text, "--url", url(one), "--module", f"libone.so={first[1]}", "--module", f"libtwo.so={build}")
    assert done.stdout.decode() == "libone.so+0x1010 (from_one) libtwo.so+0x1010 (from_two) libthree.so+0x10\n"
    assert tally(done) == "symbtool: 3 frames, 2 named; no name: 1 no id (libthree.so)"
    assert done.stderr.decode().endswith("\nsymbtool: no id: No debug id or build id is given for this module. Give one as --module NAME=ID or ?module=NAME=ID. symbtool file-id FILE or readelf -n FILE prints it.\n")
    done = run_filter(text, "--url", url(one), "--module", f"libone.so={debug_id('nobody')}")
    assert done.stdout.decode() == text
    assert "1 not found" in tally(done)
    for wrong in ("libone.so", "=12", "libone.so=", "libone.so=/no/such/file", "libone.so=/tmp"):
        assert b"--module" in run_filter(text, "--module", wrong, code=2).stderr
    for junk in ("junk", "123", "0x12", f"{build}0-", "00112233-4455-6677-8899"):
        assert b"A build id has an even number of hex digits" in run_filter(text, "--module", f"libone.so={junk}", code=2).stderr
    dashed = str(uuid.UUID("EC61AC938E5A39B16F9FBD350E3169A5"))
    for ident in (dashed, dashed.upper()):
        assert b"libtwo.so+0x1010 (from_two)" in run_filter(text, "--url", url(one), "--module", f"libtwo.so={ident}").stdout


def test_debug_files_by_build_id(tmp_path, program):
    """A stripped copy elsewhere, and the debug file below --debug-dir."""
    ident = build_id(program)
    debug = tmp_path / "debug" / ".build-id" / ident[:2]
    os.makedirs(debug)
    subprocess.run(["objcopy", "--only-keep-debug", program, str(debug / (ident[2:] + ".debug"))], check=True)
    call, _ = call_in(program, "main", "faulty")
    text = f"    #1 0x1  (/nowhere/program+{call:#x}) (BuildId: {ident})\n"
    out = filtered(text, "--debug-dir", str(tmp_path / "debug"))
    expect_places(out, SOURCE, ("main", "main"))


def test_a_module_with_a_corrupt_symbol_file_is_named(one):
    ident = debug_id("bad.so")
    one.symbols.put("bad.so", ident, b"no MODULE line\n")
    done = run_filter("bad.so+0x10\n", "--url", url(one), "--module", f"bad.so={ident}")
    assert tally(done) == "symbtool: 1 frame, 0 named; no name: 1 corrupt (bad.so)"


def test_an_unstripped_copy_anywhere_below_debug_dir(tmp_path):
    """Of the same build id, under any name; the stripped file is where the text says, or gone. Without the copy the reason is said."""
    program = compile_c(str(tmp_path), "shipped", LEAK, "-Wl,--build-id=sha1")
    _, after = call_in(program, "main", "lose")
    ident = build_id(program)
    (tmp_path / "kept" / "of" / "may").mkdir(parents=True)
    shutil.copy(program, tmp_path / "kept" / "of" / "may" / "a-name")
    (tmp_path / "kept" / "noise").write_bytes(b"no ELF")
    subprocess.run(["strip", program], check=True)
    text = f"    #1 0x1  ({program}+{after - 1:#x}) (BuildId: {ident})\n"
    done = run_filter(text)
    assert done.stdout.decode() == text and "no name: 1 stripped (shipped)\n" in done.stderr.decode()
    expect_places(filtered(text, "--debug-dir", str(tmp_path / "kept")), LEAK, ("main", "main"))
    os.unlink(program)
    os.symlink(tmp_path / "kept", tmp_path / "link")
    for folder in "kept", "link":
        expect_places(filtered(text, "--debug-dir", str(tmp_path / folder)), LEAK, ("main", "main"))


def test_a_library_without_a_path_is_the_loaders(tmp_path, monkeypatch):
    """As gcc's TSan and Java write it."""
    library = compile_c(str(tmp_path), "libkeeps.so", LEAK, "-shared", "-fPIC", "-Wl,--build-id=sha1")
    _, after = call_in(library, "main", "lose")
    text = f"C  [libkeeps.so+{after - 1:#x}]\n"
    assert run_filter(text).stdout.decode() == text
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path}")
    expect_places(filtered(text), LEAK, ("main", "main"))


def test_the_crash_of_readme(tmp_path):
    """Word by word: a report without names, and then with them."""
    with open(os.path.join(ROOT, "README"), encoding="utf-8") as f:
        lines = [line.strip() for line in f if line.startswith("    ")]
    first = next(i for i, line in enumerate(lines) if line.endswith("> program.c"))
    commands = lines[first : first + 4]
    assert commands[3].startswith("build/symbtool symbolicate --filter crash.log")
    script = "\n".join(commands).replace("build/symbtool", SYMBTOOL)
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=BOUND)
    assert done.returncode == 0, done
    assert " in main" not in (tmp_path / "crash.log").read_text() and "program.c:1 (" in done.stdout and " in main " in done.stdout


def test_the_sample_of_libc_does_not_shadow_the_systems():
    """Its id is of its own, since it is only a part of the symbols."""
    folder = os.path.join(ROOT, "tests", "data", "symbols", "libc.so.6")
    (ident,) = os.listdir(folder)
    libc = next(line.split()[-1] for line in subprocess.run(["ldd", sys.executable], capture_output=True, text=True).stdout.replace("(", "\n(").splitlines() if "libc.so.6 =>" in line)
    own = subprocess.run([SYMBTOOL, "file-id", libc], capture_output=True, text=True, check=True).stdout
    assert "debug id" in own and ident not in own and ident != "EC61AC938E5A39B16F9FBD350E3169A50"


def test_a_file_of_another_build_is_not_believed(program):
    other = "00112233445566778899aabbccddeeff00112233"
    text = f"    #1 0x1  ({program}+0x1140) (BuildId: {other})\n"
    done = run_filter(text)
    assert done.stdout.decode() == text
    assert "1 other build (program)" in tally(done)


def test_a_file_with_another_debug_id_or_file_id_is_not_believed(program):
    shown = subprocess.run([SYMBTOOL, "file-id", program], capture_output=True, text=True, check=True).stdout
    file_hex, file_base64 = shown.split()[:2]
    debug = re.search(r"debug id +(\w+)", shown).group(1)
    ids = [(debug, True), (debug.lower(), True), (file_hex, True), (file_base64, True)]
    ids += [("0" * 33, False), (file_hex[::-1], False), (debug[::-1], False), ("00", False)]
    for ident, believed in ids:
        done = run_filter(f"    #1 0x1  ({program}+0x1140)\n", "--module", f"{os.path.basename(program)}={ident}")
        assert ("other build" in tally(done)) is not believed, (ident, done)


@pytest.mark.skipif(not os.path.exists("/lib/x86_64-linux-gnu/libc.so.6"), reason="for another machine")
def test_a_library_of_this_machine_is_not_that_of_a_minidump():
    text = f"Module|libc.so.6||libc.so.6|{'0123456789ABCDEF' * 2}0|0x10000000|0x1fffffff|0\n\n0|0|libc.so.6||||0x29d90\n"
    done = run_filter(text)
    assert done.stdout.decode() == text and "1 other build (libc.so.6)" in tally(done)


def test_a_server_that_is_gone(program):
    text = f"    #1 0x1  ({program}+0x1140) (BuildId: {build_id(program)})\nplain\n"
    done = run_filter(text, "--url", "http://127.0.0.1:9", "--retry-time", "0", code=1)
    assert done.stdout.decode() == text
    assert "1 no answer" in tally(done)


# ---- text is bytes ----


def test_what_is_no_frame_passes_byte_for_byte(tmp_path):
    seed = int.from_bytes(os.urandom(4), "little")
    print("seed", seed)
    rng = random.Random(seed)
    data = rng.randbytes(3_000_000)
    for piece in (b"", b"\n", b"no end", b"\0\0\n\xff\xfe\n\x1b[31mred\x1b[0m\r\n", data):
        assert run_filter(piece).stdout == piece
    files = [tmp_path / "a", tmp_path / "b"]
    for path in files:
        path.write_bytes(data[:1000])
    assert run_filter(b"in\n", str(files[0]), "-", str(files[1])).stdout == data[:1000] + b"in\n" + data[:1000]
    done = run_filter(b"", str(files[0]), str(tmp_path / "none"), str(tmp_path), str(files[1]), code=1)
    assert done.stdout == data[:1000] * 2
    assert b"none: No such file" in done.stderr and b"Is a directory" in done.stderr


def test_lines_of_a_live_program_come_soon(program):
    at = symbol_address(program, "faulty")
    with subprocess.Popen([SYMBTOOL, "symbolicate", "--filter"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        watchdog = threading.Timer(BOUND, p.kill)
        watchdog.start()
        for _ in range(3):
            p.stdin.write(f"at {program}+{at:#x}\nplain\nhal".encode())
            p.stdin.flush()
            assert b"(faulty at " in p.stdout.readline()
            assert p.stdout.readline() == b"plain\n"
            p.stdin.write(b"f\n")
            p.stdin.flush()
            assert p.stdout.readline() == b"half\n"
        p.stdin.close()
        assert p.stdout.read() == b"" and p.wait(BOUND) == 0
        watchdog.cancel()


def map_of(program):
    return "".join(f"{0x7F0000000000 + at:x}-{0x7F0000001000 + at:x} r-xp {at:08x} fe:00 1234 {program}\n" for at in (0, 0x1000, 0x2000))


def test_a_memory_map_may_follow_a_little_later(program):
    """Within a fifth of a second; a busy machine may need several tries."""
    address = 0x7F0000000000 + symbol_address(program, "faulty")

    def is_named():
        with subprocess.Popen([SYMBTOOL, "symbolicate", "--filter"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
            p.stdin.write(f"    #0 {address:#x}\n".encode())
            p.stdin.flush()
            time.sleep(0.03)
            return b"faulty at " in p.communicate(map_of(program).encode(), BOUND)[0]

    wait_for(is_named, "the name")


def test_a_memory_map_may_follow_many_frames(tmp_path, program):
    """As in a heap profile of a few hundred kilobytes."""
    address = 0x7F0000000001 + symbol_address(program, "faulty")
    (tmp_path / "heap").write_text("heap profile: 1: 1 [1: 1] @ heapprofile\n" + ("1: 1 [1: 1] @" + f" {address:#x}" * 20 + "\n") * 2000 + "\nMAPPED_LIBRARIES:\n" + map_of(program))
    done = run_filter("", str(tmp_path / "heap"))
    assert done.stdout.count(b"(faulty at ") == 40_000 and b"40000 named" in done.stderr


def test_maps_without_end(tmp_path, program):
    """What was told of earlier processes leaves room for later ones."""
    others = "".join(f"{i:x}0000-{i:x}1000 r-xp 00000000 fe:00 1234 /opt/lib{i}.so\n" for i in range(100, 30_100))
    text = f"*** Aborted at 1\n    #0 {0x7F0000000000 + symbol_address(program, 'faulty'):#x}\n{others}{map_of(program)}"
    for name in "abc":
        (tmp_path / name).write_text(text)
    assert run_filter("", *[str(tmp_path / name) for name in "abc"]).stdout.count(b"faulty at ") == 3


def test_a_library_without_a_path_is_that_of_its_process(tmp_path):
    """Reports of Java, of two versions of a library."""
    for version in "12":
        (tmp_path / version).mkdir()
        library = compile_c(str(tmp_path / version), "libversion.so", f"int version{version}(void) {{ return 1; }}", "-shared", "-fPIC")
        at = symbol_address(library, "version" + version)
        (tmp_path / f"hs_err{version}").write_text(
            f"# A fatal error has been detected by the Java Runtime Environment:\nC  [libversion.so+{at:#x}]\n7f0000000000-7f0000001000 r-xp 00000000 fe:00 1 {library}\n"
        )
    out = run_filter("", str(tmp_path / "hs_err1"), str(tmp_path / "hs_err2")).stdout.decode()
    assert re.findall(r"\((version\d) at ", out) == ["version1", "version2"]


@pytest.mark.parametrize("line", ["A " * 24 + "0x " + "+0x1)" * 180, "A " * 24 + "0x " + "./a" * 100 + " +0x1)" * 90])
def test_a_hostile_line_costs_little_time(line):
    """Two dozen ways to cut it, each of which looks like a line of Java's hs_err with many plus signs."""
    text = f"{line}\n" * 500
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    assert filtered(text) == text
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 3  # 0.2 seconds, and more with sanitizers


def pump(pieces):
    """Feeds the filter, drops what it writes; its largest memory in bytes, and how many bytes came back."""
    code = "import resource,subprocess,sys\np=subprocess.run(sys.argv[1:])\nprint(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,file=sys.stderr)\nsys.exit(p.returncode)"
    with subprocess.Popen(
        [sys.executable, "-c", code, SYMBTOOL, "symbolicate", "--filter"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as p:
        count = [0]

        def drain():
            while data := p.stdout.read1(1 << 20):
                count[0] += len(data)

        reader = threading.Thread(target=drain)
        reader.start()
        for piece in pieces:
            p.stdin.write(piece)
        p.stdin.close()
        reader.join()
        errors = p.stderr.read().decode()
        assert p.wait(BOUND) == 0, errors
    return int(errors.split()[-1]) * 1024, count[0], errors


@pytest.mark.slow
@pytest.mark.plain
def test_memory_is_bounded(program):
    """One line of 200 MB, ten million frames, modules without end."""
    at = symbol_address(program, "faulty")
    most = 200 << 20
    memory, count, _ = pump(b"x" * (1 << 20) for _ in range(200))
    assert count == 200 << 20 and memory < most
    memory, count, errors = pump(b"nobody.so+0x1\n" * 100_000 for _ in range(100))
    assert "10000000 frames" in errors and count == 140_000_000 and memory < most
    memory, count, errors = pump(b"".join(b"/%d/%d.so+0x1\n" % (i, k) for k in range(1000)) for i in range(100))
    assert "100000 frames" in errors and memory < most
    memory, _, errors = pump(f"{program}+{at:#x}\n".encode() * 100_000 for _ in range(3))
    assert "300000 named" in errors and memory < most


def test_names_never_speak_to_the_terminal(one):
    module = one.symbols.add("evil.so", b"FUNC 1000 20 0 a\x1b[31mb\x7f\xc2\x9bc\x07\n")
    out = run_filter("evil.so+0x1000\n", "--url", url(one), "--module", f"evil.so={module[1]}").stdout
    assert out.count(b"\n") == 1 and not set(out[:-1]) & (set(range(32)) | {0x7F}) and b"\xc2\x9b" not in out, out


def test_wrong_calls():
    for arguments in (["--json"], ["--return-addresses"], ["--debug-file", "x"]):
        assert b"--filter" in run_filter(b"", *arguments, code=2).stderr
    done = subprocess.run([SYMBTOOL, "symbolicate", "--module", "a=b", "x", "1"], capture_output=True, timeout=BOUND, check=False)
    assert done.returncode == 2 and b"--filter" in done.stderr


def test_files_that_cannot_be_read(tmp_path):
    """Each is told; there is no tally of nothing."""
    for path, why in ((tmp_path / "missing", "No such file or directory"), (tmp_path, "Is a directory")):
        done = subprocess.run([SYMBTOOL, "symbolicate", "--filter", path], capture_output=True, text=True, timeout=BOUND, check=False)
        assert (done.returncode, done.stderr) == (1, f"symbtool: {path}: {why}\n")


def test_a_program_without_symbols_says_so_once(tmp_path, program):
    shutil.copy(program, tmp_path / "bare")
    subprocess.run(["strip", tmp_path / "bare"], check=True)
    done = subprocess.run([SYMBTOOL, "symbolicate", tmp_path / "bare", "0x1139"], capture_output=True, text=True, timeout=BOUND, check=False)
    assert "describe any code; no debug data, nor below" in done.stderr and "names of symbol tables only" not in done.stderr


@pytest.fixture(scope="module")
def fixed(tmp_path_factory):
    """{option: a program that was linked with it}, of SOURCE."""
    folder = tmp_path_factory.mktemp("fixed")
    return {option: compile_c(folder, f"app{i}", SOURCE, "-O1", *option.split()) for i, option in enumerate(["-static -no-pie", "-static-pie", "-no-pie"])}


def of_program(program, text):
    return run_filter(text, "-e", program).stdout.decode().splitlines()


def by_addr2line(program, addresses):
    done = subprocess.run(["addr2line", "-s", "-f", "-e", program, *(hex(address) for address in addresses)], capture_output=True, text=True, check=True, timeout=BOUND)
    words = done.stdout.replace(" (discriminator 1)", "").splitlines()
    return [f"{function} at {place}" for function, place in zip(words[::2], words[1::2])]


def test_bare_addresses_of_a_static_program(fixed):
    """Its libc knows no module's name."""
    program = fixed["-static -no-pie"]
    text = subprocess.run([program, "show"], capture_output=True, text=True, timeout=BOUND, check=False).stdout
    calls = [int(word, 16) - 1 for word in re.findall(r"^\[(0x\w+)\]$", text, re.M)]
    out = of_program(program, text)
    named = [re.sub(r"/\S*/", "", re.search(r"\((.*)\)$", line).group(1)) for line in out]
    assert len(named) == len(calls) >= 4 and named[:2] == by_addr2line(program, calls[:2]), out
    assert named[0].startswith("show at ") and named[1].startswith("main at ") and named[-1] == "_start"
    shutil.copy(program, program + "-stripped")
    subprocess.run(["strip", program + "-stripped"], check=True)
    bare = subprocess.run([program + "-stripped", "show"], capture_output=True, text=True, timeout=BOUND, check=False).stdout
    assert bare == text and of_program(program, bare) == out


def test_bare_addresses_of_bpftrace(fixed):
    """As bpftrace 0.17 prints what ustack finds; the first is where the processor was, the others are return addresses."""
    program = fixed["-no-pie"]
    inside, _ = call_in(program, "show", "backtrace_symbols_fd")
    _, after = call_in(program, "main", "show")
    out = of_program(program, f"@[\n    {inside:#x}\n    {after:#x}\n    __libc_start_call_main+122\n]: 4\n")
    named = [re.sub(r"/\S*/", "", word) for word in re.findall(r"\((.*)\)$", "\n".join(out), re.M)]
    assert named == by_addr2line(program, [inside, after - 1]) and [name.split()[0] for name in named] == ["show", "main"], out


@pytest.mark.skipif(not shutil.which("gdb"), reason="gdb is not installed")
@pytest.mark.parametrize("option", ["-static -no-pie", "-no-pie"])
def test_bare_addresses_of_gdb(fixed, option):
    """The list of shared libraries has no place of the program."""
    program = fixed[option]
    shutil.copy(program, program + "-bare")
    subprocess.run(["strip", program + "-bare"], check=True)
    at = f"*{symbol_address(program, '__backtrace_symbols_fd'):#x}" if "static" in option else "backtrace_symbols_fd"
    commands = ["set breakpoint pending on", f"break {at}", "run", "bt", "info sharedlibrary"]
    text = subprocess.run(
        ["gdb", "-nx", "-batch", *(word for c in ("set debuginfod enabled off", *commands) for word in ("-ex", c)), "--args", program + "-bare", "show"],
        capture_output=True, text=True, timeout=BOUND, check=False,
    ).stdout  # fmt: skip
    assert " in ?? ()" in text, text
    calls = [int(word, 16) - 1 for word in re.findall(r"^#[12] +(0x\w+) in \?\? \(\)$", text, re.M)]
    out = [re.sub(r"/\S*/", "", line) for line in of_program(program, text)]
    expected = by_addr2line(program, calls)
    assert [line.split(" in ")[1] for line in out if re.match("#[12] ", line)] == expected
    assert [place.split(" at ")[0] for place in expected] == ["show", "main"] and expected[1].endswith(f":{line_of(SOURCE, 'main shows')}")


def test_no_bare_address_is_named_by_a_program_that_may_be_elsewhere(fixed, program):
    address = symbol_address(fixed["-static -no-pie"], "show") + 4
    static = fixed["-static -no-pie"]
    assert "(show at " in of_program(static, f"[{address:#x}]\n")[0]
    outside = ["[0x101000]", "[0x7f64e0e44000]", "[0xffffffffff600400]"]
    assert of_program(static, "\n".join(outside)) == outside
    for line in (
        f"#1  0x{address:016x} in ?? () from /usr/lib/libx.so", f"==7==    by 0x{address:X}: ??? (in /usr/bin/other)", f" 1# 0x{address:016X} in ./other",
        f"???:?:?: 0x{address:x} in ??? (/opt/other)", f'#1    Object "/opt/other", at 0x{address:x}, in ', f"  frame #1: 0x{address:016x} other`___lldb_unnamed_symbol5 + 4",
        f"#1  0x{address:016x} - /opt/other", f"      #01 pc 0000000000{address:x}  <anonymous:7f0000000000>", f"\t          {address:x} [unknown] ([heap])",
        f"#1  0x{address:016x} n/a (other + 0x12)",
    ):  # fmt: skip
        assert of_program(static, line) == [line.rstrip("\n")], line
    name = os.path.basename(static)
    for line in (f" 1# 0x{address:016X} in ./{name}", f"==7==    by 0x{address:X}: ??? (in /opt/{name})", f"#1  0x{address:016x} n/a (n/a + 0x0)"):
        assert "show at " in of_program(static, line)[0], line
    for maps in ("00500000-00501000 r-xp 00000000 fe:00 1234 /opt/other", f"{address - address % 4096:08x}-00501000 r-xp 00000000 fe:00 1234 /opt/other"):
        assert of_program(static, f"[{address:#x}]\n{maps}\n")[0] == f"[{address:#x}]"
    # one whose addresses differ with each run
    low = symbol_address(fixed["-static-pie"], "show") + 4
    for where in (low, 0x400000 + low, 0x555555554000 + low):
        assert of_program(fixed["-static-pie"], f"[{where:#x}]\n") == [f"[{where:#x}]"]
    assert "position-independent" in run_filter("[0x401672]\n", "-e", fixed["-static-pie"]).stderr.decode()
    assert "none of these addresses" in run_filter("[0x7f64e0e44000]\n", "-e", static).stderr.decode()
    assert "(show at " in of_program(program, f"/elsewhere/{os.path.basename(program)}(+{symbol_address(program, 'show') + 4:#x}) [0x7f1234567890]\n")[0]
    for wrong, why in (("/nowhere", "No such file"), (__file__, "not an executable")):
        assert why in run_filter("x\n", "-e", wrong, code=2).stderr.decode()


@pytest.mark.parametrize("lines", [
    ["#0  0x000055555555512a in die () at t.c:7", "#1  0x00005555555551ea in main () at t.c:9"],  # gdb
    ["==7==    at 0x109136: die (t.c:7)", "==7==    by 0x109157: main (t.c:9)"],  # valgrind
    ["* frame #0: 0x000055555555512a app`die at t.c:7", "  frame #1: 0x00005555555551ea app`main at t.c:9"],  # lldb
    ["./app(die+0x1d) [0x55c34cc59136]", "./app(main+0x9)[0x55c34cc59157]"],  # glibc
    ["    #0 0x55c34cc59136 in die /tmp/t.c:7", "    #1 0x55c34cc59157 in main /tmp/t.c:9:3"],  # sanitizers
    ["   4:     0x55d9f3f4a1b2 - die", "   5:     0x55d9f3f4a1c2 - main"],  # Rust
    ["    @     0x55d902ef6f36 die", "    @     0x55d902ef6f66         32  main"],  # glog, absl
    ["\t/src/main.go:8 +0x1a fp=0x3828b8ec5f48 sp=0x3828b8ec5f00 pc=0x4a017a", "\t/src/main.go:9 +0x45"],
    ['  File "/src/a.py", line 3 in die', '  File "/src/a.py", line 9, in <module>'],
])  # fmt: skip
def test_frames_that_all_have_names_are_counted(lines):
    text = "\n".join(["a line", *lines, "another", ""])
    done = run_filter(text)
    assert done.stdout.decode() == text and done.stderr.decode() == "symbtool: all frames have names already: 2\n"


def test_a_text_without_a_frame():
    text = "ok\n\x1b[1m#0  0x00007ffff7e4e4e1 in main () at a.c:3\x1b[0m\n  #1  0x00007ffff7e4e4e1 in start () at a.c:4\n"
    done = run_filter(text)
    said = done.stderr.decode()
    assert done.stdout.decode() == text and said == "symbtool: all frames have names already: 2\n"
    said = run_filter(text + "line 4: 0x00007ffff7e4e4e1 in ?? at all\n").stderr.decode()
    assert "2 frames, 2 named\n" in said and "line 4 looks most like a frame:" in said and "memory map" in said
    assert run_filter("nothing\nto see\n").stderr.decode() == "symbtool: 0 frames, 0 named\n"


def test_ids_and_maps_belong_to_their_text(tmp_path):
    """What one file says of its modules tells nothing of those of another; what the user says does."""
    ident = "5f6d2c11a0e94b7cb1d3c5a7e9f0a1b2c3d4e5f6"
    stack = "#0 0x7f0000001234  (/nowhere/libx.so+0x1234)\n   4:     0x55d9f3f4a1b2 - <unknown>\n"
    (tmp_path / "one").write_text(f"Module libx.so with build-id {ident}\n55d9f3f49000-55d9f3f4b000 r-xp 00000000 fe:00 12 /nowhere/prog\n{stack}")
    (tmp_path / "two").write_text(stack)
    said = tally(run_filter("", "one", "two", cwd=tmp_path))
    assert "1 not found" in said and "2 no id" in said and "1 no module" in said, said
    assert "2 not found" in tally(run_filter("", "one", "two", "--module", f"libx.so={ident}", cwd=tmp_path))
