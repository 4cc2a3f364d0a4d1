#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processor time and memory of naming few addresses of a large program, beside llvm-symbolizer and addr2line, in turn.

    tests/bench/bench_addresses.py [--symbtool build/symbtool] [--rounds 5] [--addresses 1 2000] PROGRAM

The addresses are random ones of .text, the same for all. Each figure is the median of the rounds."""

import argparse
import os
import random
import re
import shutil
import statistics
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def text_section(program):
    out = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout
    start, size = re.search(r" \.text +PROGBITS +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", out).groups()
    return int(start, 16), int(size, 16)


def run(command):
    """(processor seconds, peak resident megabytes); what it writes is dropped."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, command[:4]
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def compare(symbtool, program, count, rounds, names):
    """{name: [(processor seconds, megabytes) of each round]} of those that are installed, for count addresses."""
    start, size = text_section(program)
    chance = random.Random(count)
    addresses = [hex(start + chance.randrange(size)) for _ in range(count)]
    programs = {
        "symbtool": [symbtool, "symbolicate", program, *addresses],
        "llvm-symbolizer": ["llvm-symbolizer", "-e", program, *addresses],
        "addr2line": ["addr2line", "-fiCe", program, *addresses],
    }
    figures = {name: [] for name in names if name == "symbtool" or shutil.which(name)}
    for _ in range(rounds):
        for name, results in figures.items():
            results.append(run(programs[name]))
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--symbtool", default=os.path.join(ROOT, "build", "symbtool"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--addresses", type=int, nargs="+", default=[1, 2000])
    parser.add_argument("program")
    given = parser.parse_args()
    for count in given.addresses:
        figures = compare(given.symbtool, given.program, count, given.rounds, ("symbtool", "llvm-symbolizer", "addr2line"))
        for name, results in figures.items():
            seconds, megabytes = (statistics.median(column) for column in zip(*results))
            print(f"{count:6} addresses  {name:16} {seconds:7.3f} s {megabytes:7.0f} MB")


if __name__ == "__main__":
    main()
