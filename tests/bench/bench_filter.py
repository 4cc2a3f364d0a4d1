#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processor time and memory of `symbtool symbolicate --filter` on a log with AddressSanitizer's frames, beside cat, and on its first
part beside asan_symbolize, where that is installed.

    tests/bench/bench_filter.py [--symbtool build/symbtool] [--megabytes 1000] [--beside 10]

The program whose frames these are is compiled here. docs/symbtool.md has figures."""

import argparse
import os
import random
import shutil
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MEGABYTE = 1_000_000
FRAME_EVERY = 2_500  # bytes
FUNCTIONS = 200


def compile_program(place):
    source, program = os.path.join(place, "logged.c"), os.path.join(place, "logged")
    with open(source, "w", encoding="ascii") as f:
        for i in range(FUNCTIONS):
            f.write(f"int f{i}(int a)\n{{\n\tint b = a * {i + 2};\n\treturn b + {i};\n}}\n")
        f.write("int main(void)\n{\n\treturn 0;\n}\n")
    subprocess.run(["gcc", "-g", "-O0", "-Wl,--build-id=sha1", "-o", program, source], check=True)
    names = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout.splitlines()
    return program, [int(line.split()[0], 16) for line in names if line.split()[-1][:1] == "f" and line.split()[-1][1:].isdigit()]


def write_log(path, program, addresses, size, frames=True):
    """Returns the number of frames; frames=False: there are none."""
    chance = random.Random(1)
    words = [f"request {chance.randrange(1 << 40):x} took {chance.randrange(10_000)} us for /a/path/{i}" for i in range(1000)]
    count = written = 0
    with open(path, "w", encoding="ascii") as f:
        while written < size:
            address = chance.choice(addresses) + 8
            text = "".join(f"2026-11-22T00:00:00Z info {chance.choice(words)}\n" for _ in range(FRAME_EVERY // 75))
            frame = f"    #{count % 9} 0x55d0c0{address:06x}  ({program}+{address:#x})\n" if frames else ""
            written += f.write(text + frame)
            count += 1
    return count if frames else 0


def run(command, log):
    """(processor seconds, peak resident megabytes); what it writes is dropped."""
    with open(log, "rb") as source, open(os.devnull, "wb") as nowhere:
        child = subprocess.Popen(command, stdin=source, stdout=nowhere)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, command
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--symbtool", default=os.path.join(ROOT, "build", "symbtool"))
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--beside", type=int, default=10, help="megabytes for asan_symbolize")
    given = parser.parse_args()
    tools = [["cat"], [given.symbtool, "symbolicate", "--filter"]]
    if shutil.which("asan_symbolize"):
        tools.append(["asan_symbolize"])
    print("| log | frames | program | processor time, s | memory, MB |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        program, addresses = compile_program(place)
        log = os.path.join(place, "log")
        for size, programs in ((given.beside, tools), (given.megabytes, tools[:2])):
            frames = write_log(log, program, addresses, size * MEGABYTE)
            for command in programs:
                seconds, memory = run(command, log)
                print(f"| {size} MB | {frames} | {os.path.basename(command[0])} | {seconds:.2f} | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
