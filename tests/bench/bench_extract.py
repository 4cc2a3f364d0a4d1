#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make bench-extract: how long the extraction of symbols takes, against libdw stepping over the same debug information.

    tests/bench/bench_extract.py [--build DIR] [--rounds N] [--debug-dir DIR] [EXECUTABLE]...

Each round runs, one after the other, bench_dwarf_walk (one thread: all entries and line rows, nothing is done with them) and
`symbtool extract --dry-run` (ranges and return pads through the writer, into /dev/null) on one and on two threads. Shown are the
medians by the clock and of processor time, the ratio of the latter to the walk's, and the largest resident size. Without EXECUTABLE these are python3.11-dbg, ceph-mon and the kernel
(vmlinux) where they and their debug data are installed, else a program that is compiled here.
"""

import argparse
import glob
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile

BOUND = 300  # seconds for one command
KNOWN = (
    "/usr/bin/python3.11-dbg", "/usr/bin/python3.11d", "/usr/bin/ceph-mon", "/usr/lib/debug/boot/vmlinux-*", "/usr/lib/debug/lib/modules/*/vmlinux",
)  # fmt: skip
SOURCE = """
#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <vector>
template <int N> struct unit {
	static int work(const std::string &text)
	{
		std::map<std::string, std::vector<int>> all;
		std::regex words("[a-z]+" + std::to_string(N));
		for (std::sregex_iterator i(text.begin(), text.end(), words), end; i != end; ++i)
			all[i->str()].push_back(N);
		std::function<int(int)> sum = [&](int n) { return n + (int)all.size() + unit<N - 1>::work(text); };
		return sum(N);
	}
};
template <> struct unit<0> {
	static int work(const std::string &) { return 0; }
};
int main(int argc, char **argv) { return unit<150>::work(argv[argc - 1]); }
"""


def compile_program(directory):
    source, program = os.path.join(directory, "program.cpp"), os.path.join(directory, "program")
    with open(source, "w", encoding="utf-8") as f:
        f.write(SOURCE)
    subprocess.run(["g++", "-g", "-O1", "-o", program, source], check=True, timeout=BOUND)
    return program


def run(command):
    """What it printed, with its processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=BOUND, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {**json.loads(done.stdout), "processor": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def known_programs():
    return [path for pattern in KNOWN for path in sorted(glob.glob(pattern)) if not os.path.islink(path)]


def file_with_dwarf(extract, program, debug_dir):
    """The walk wants the file that has the DWARF itself; None when there is none."""
    done = subprocess.run([extract, "-q", "-d", debug_dir, program], stderr=subprocess.PIPE, text=True, timeout=BOUND, check=True)
    stats = json.loads(done.stderr.splitlines()[-1])
    return (stats["debug_file"] or program) if stats["units"] else None


def measure(commands, rounds):
    """{name: [result of each round]}; the rounds are interleaved, so that a busy moment hits all of them."""
    results = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            results[name].append(run(command))
    return results


def show(results):
    walk = statistics.median(r["processor"] for r in results["walk"]) if "walk" in results else math.nan
    print(f"{'':12} {'clock s':>9} {'processor s':>12} {'of walk':>8} {'peak RSS MiB':>13}")
    for name, all_results in results.items():
        clock, processor = (statistics.median(r[key] for r in all_results) for key in ("seconds", "processor"))
        rss = max(r["max_rss_kib"] for r in all_results) / 1024
        print(f"{name:12} {clock:9.3f} {processor:12.3f} {processor / walk:8.2f} {rss:13.1f}", flush=True)


def bench(program, dwarf, tool, walk, options):
    commands = {"walk": [walk, dwarf]} if dwarf else {}
    for threads in ("1", "2", "8"):
        commands[f"{threads} thread" + "s" * (threads != "1")] = [
            tool, "extract", "--dry-run", "--json", "--debug-dir", options.debug_dir, "--threads", threads, program,
        ]  # fmt: skip
    measure(commands, 1)  # the files are in memory then
    results = measure(commands, options.rounds)
    one = results["1 thread"][0]
    size = f"file with DWARF {os.path.getsize(dwarf) / 1e6:.1f} MB" if dwarf else "no DWARF"
    print(f"{program}: {one['units']} units, {one['ranges']} ranges, {one['returnpads']} return pads; {size}")
    show(results)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=5, choices=range(1, 101), metavar="N")
    parser.add_argument("--debug-dir", default="/usr/lib/debug")
    parser.add_argument("executable", nargs="*")
    options = parser.parse_args()
    tool, extract, walk = (
        os.path.join(options.build, p) for p in ("symbtool", "tests/tools/extract_dump", "tests/bench/bench_dwarf_walk")
    )
    with tempfile.TemporaryDirectory(prefix="bench-extract-") as directory:
        for program in options.executable or known_programs() or [compile_program(directory)]:
            bench(program, file_with_dwarf(extract, program, options.debug_dir), tool, walk, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
