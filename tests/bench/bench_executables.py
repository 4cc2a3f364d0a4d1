#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a module takes whose only source is its debug file.

    tests/bench/bench_executables.py [--build build] [--rounds 3] [--quick] [--json]          BENCH_DEBUG=FOLDER with .build-id/xx/yyyy.debug

Cold: one frame from a new process with an empty memcached, above the time that reading the file takes: of the smallest file of
at least 1 MB in the folder, and of the largest. Without a folder, of a C++ program that is compiled for this. Once more, what the
server and its readers hold meanwhile beside files that are mapped, looked at each 5 ms. Then processor time and memory of
`symbtool extract --dry-run` on two threads beside those of `llvm-gsymutil --convert`. --json: as bench.py reads it."""

import argparse
import contextlib
import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "wire")]
import stack  # noqa: E402
from report import short  # noqa: E402
from stack import Stack  # noqa: E402

LARGE = 20e6  # bytes, from which on the longer time is allowed
SMALL_TARGET, LARGE_TARGET = 0.4, 2.5  # seconds
MEMORY_TARGET = 300  # MB, for a large one
SMALLEST = 1 << 20
BOUND = 150  # seconds for one command

UNIT = """#include <map>
#include <string>
#include <vector>
template <int N> struct Item { std::string name; std::map<std::string, std::vector<int>> values; int sum() const; };
template <int N> int Item<N>::sum() const
{
	int total = N;
	for (const auto &v : values)
		for (int i : v.second)
			total += i * (int)v.first.size();
	return total + (int)name.size();
}
%s
"""


def compiled(folder, units, items):
    """The folder of debug files of a program with so many units."""
    objects = []
    for u in range(units):
        text = "".join(f"int use{u}_{i}(const Item<{u * items + i}> &x) {{ return x.sum(); }}\n" for i in range(items))
        source = os.path.join(folder, f"unit{u}.cc")
        with open(source, "w", encoding="utf-8") as out:
            out.write(UNIT % text)
        objects.append((source + ".o", subprocess.Popen(["g++", "-g", "-O2", "-fPIC", "-c", source, "-o", source + ".o"])))
        for _, process in objects[:-2]:
            process.wait(BOUND)  # two run at a time
    for _, process in objects:
        if process.wait(BOUND) != 0:
            sys.exit("bench_executables: g++ fails")
    program = os.path.join(folder, "program")
    subprocess.run(["g++", "-shared", "-Wl,--build-id", *(o for o, _ in objects), "-o", program], check=True, timeout=BOUND)
    ident = build_id(program)
    path = os.path.join(folder, "debug", ".build-id", ident[:2], ident[2:] + ".debug")
    os.makedirs(os.path.dirname(path))
    subprocess.run(["objcopy", "--only-keep-debug", program, path], check=True, timeout=BOUND)
    return os.path.join(folder, "debug")


def build_id(path):
    notes = subprocess.run(["readelf", "-n", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, timeout=BOUND).stdout
    return re.search(r"Build ID: ([0-9a-f]+)", notes)[1]


def files_of(folder):
    """The smallest that is not tiny, and the largest; or the one."""
    found = []
    for where, _, names in os.walk(os.path.join(folder, ".build-id")):
        found += [os.path.join(where, n) for n in names if n.endswith(".debug")]
    found = sorted(((os.path.getsize(p), p) for p in found))
    chosen = [f for f in found if f[0] >= SMALLEST][:1] + found[-1:]
    return list(dict.fromkeys(path for _, path in chosen or found))


def an_address(path):
    """Of a function that has a size, from the symbol table."""
    out = subprocess.run(["nm", "-S", "--defined-only", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, timeout=BOUND).stdout
    return int(next(m[1] for m in re.finditer(r"^([0-9a-f]+) [0-9a-f]+ [tT] ", out, re.M)), 16)


def read_time(path):
    begin = time.monotonic()
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
    return time.monotonic() - begin


def memory_of(pid):
    """Bytes that a process and those below it hold, without files that are mapped."""
    children, held = {}, {}
    for status in glob.glob("/proc/[0-9]*/status"):
        try:
            with open(status, encoding="ascii", errors="replace") as file:
                fields = dict(line.split(":", 1) for line in file)
        except (FileNotFoundError, ProcessLookupError):
            continue
        one = int(fields["Pid"])
        children.setdefault(int(fields["PPid"]), []).append(one)
        held[one] = 1024 * sum(int(fields.get(name, "0").split()[0]) for name in ("RssAnon", "RssShmem"))
    tree = [pid]
    for one in tree:
        tree += children.get(one, [])
    return sum(held.get(one, 0) for one in tree)


class Peak:
    """The most that memory_of says in the block."""

    def __init__(self, pid):
        self.pid, self.most, self.stop = pid, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.stop.wait(0.005):
            self.most = max(self.most, memory_of(self.pid))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


@contextlib.contextmanager
def asked(folder, path):
    """A new server, and what asks it for one frame."""
    ident = os.path.basename(os.path.dirname(path)) + os.path.basename(path).removesuffix(".debug")
    address = an_address(path)
    with Stack(bucket=False, config={"background_share": "5", "source": [f"elf+file://{folder}"]}) as s:

        def ask():
            frame = s.client.frames(["program", ident], [address])[0]
            assert frame.get("function"), frame

        yield s, ask


def peak(folder, path):
    """MB at most, until the answer."""
    with asked(folder, path) as (s, ask), Peak(s.daemon.process.pid) as p:
        ask()
    return p.most / 1e6


def cold(folder, path):
    """Seconds from the question to the answer, without those of reading the file."""
    with asked(folder, path) as (_, ask):
        reading = read_time(path)
        begin = time.monotonic()
        ask()
        return max(0.0, time.monotonic() - begin - reading)


def used_by(command):
    """(seconds of processor time, MB of memory at most) of a command."""
    process = subprocess.Popen(["timeout", str(BOUND), *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"bench_executables: {command[0]} fails")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def line(name, values, unit, target="", **more):
    return {"line": name, "figure": statistics.median(values), "min": min(values), "max": max(values), "n": len(values), "unit": unit, "target": target, **more}


def beside_gsym(options, path):
    names = "`symbtool`: extraction on two threads", "its memory, with the mapped file"
    gsymutil = shutil.which("llvm-gsymutil") or shutil.which("llvm-gsymutil-14")
    if not gsymutil:
        return [{"line": name, "figure": None, "unit": "x llvm-gsymutil", "note": "llvm-gsymutil is not installed"} for name in names]
    ours, theirs = [], []
    with tempfile.TemporaryDirectory(prefix="sym-gsym-") as folder:
        for _ in range(options.rounds):
            ours.append(used_by([os.path.join(options.build, "symbtool"), "extract", "--dry-run", "--threads", "2", path]))
            theirs.append(used_by([gsymutil, f"--convert={path}", f"--out-file={folder}/out.gsym", "--num-threads=2"]))
    lines = []
    for name, a, b, unit in zip(names, zip(*ours), zip(*theirs), ("s", "MB")):
        told = {"ours": short(statistics.median(a)), "against": f"{short(statistics.median(b))} {unit}"}
        lines.append(line(name, [x / y for x, y in zip(a, b)], "x llvm-gsymutil", **told))
    return lines


def measure(options, folder):
    debug = os.environ.get("BENCH_DEBUG") or compiled(folder, *((1, 4) if options.quick else (10, 60)))
    lines, files = [], files_of(debug)
    if not files:
        sys.exit(f"bench_executables: no .build-id/xx/yyyy.debug in {debug}")
    for path in files:
        size = os.path.getsize(path)
        target = LARGE_TARGET if size >= LARGE else SMALL_TARGET
        times = [cold(debug, path) for _ in range(options.rounds)]
        lines.append(line(f"cold debug file of {size / 1e6:.0f} MB: above reading it", times, "s", f"<= {target}", short=f"Debug file of {size / 1e6:.0f} MB, cold"))
        bound = f"<= {MEMORY_TARGET}" if size >= LARGE else ""
        lines.append(line("memory of server and reader", [peak(debug, path)], "MB", bound, short="Memory of server and reader"))
    return lines + beside_gsym(options, files[-1])


def run_alone(options, measure, text):
    """Measures with the programs of a build, and prints the lines as JSON or by text()."""
    options.build = os.path.abspath(options.build)
    options.rounds = 1 if options.quick else options.rounds
    stack.DAEMON[:] = [os.path.join(options.build, "symbolicated")]
    with tempfile.TemporaryDirectory(prefix="sym-bench-") as folder:
        os.chmod(folder, 0o755)
        lines = measure(options, folder)
    if options.json:
        print(json.dumps({"lines": lines}))
        return
    for row in lines:
        print(text(row).rstrip())


def shown(row):
    figure = "not measured" if row["figure"] is None else f"{row['figure']:.2f} {row['unit']} ({row['min']:.2f} to {row['max']:.2f})"
    return f"{row['line']}: {figure} {row.get('target', '')} {row.get('note', '')}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a small program, one round")
    parser.add_argument("--json", action="store_true")
    run_alone(parser.parse_args(), measure, shown)


if __name__ == "__main__":
    main()
