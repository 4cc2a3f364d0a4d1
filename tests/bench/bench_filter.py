#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processor time and memory of `symbtool symbolicate --filter` on logs: beside cat on large ones, with AddressSanitizer's frames and
without; on small ones beside asan_symbolize, and beside `llvm-symbolizer --filter-markup` (LLVM 15 and later) where frames are
Symbolizer Markup. Peers that are not installed are left out.

    tests/bench/bench_filter.py [--symbtool build/symbtool] [--megabytes 1000] [--beside 10]

The program whose frames these are is compiled here. docs/symbtool.md has figures."""

import argparse
import os
import random
import re
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


def sanitizer(program):
    """How AddressSanitizer writes the frame of an address."""
    return "", lambda count, address: f"    #{count % 9} 0x55d0c0{address:06x}  ({program}+{address:#x})\n"


def markup(program):
    """How Symbolizer Markup tells where a program is, and writes the frame of an address in it."""
    notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout
    build_id = re.search(r"Build ID: (\w+)", notes).group(1)
    context = f"{{{{{{reset}}}}}}\n{{{{{{module:0:{os.path.basename(program)}:elf:{build_id}}}}}}}\n{{{{{{mmap:0x55d0c0000000:0x100000:load:0:rx:0x0}}}}}}\n"
    return context, lambda count, address: f"{{{{{{bt:{count % 9}:0x55d0c0{address:06x}:pc}}}}}}\n"


def write_log(path, addresses, size, form=None):
    """Returns the number of frames; without a form there are none."""
    chance = random.Random(1)
    words = [f"request {chance.randrange(1 << 40):x} took {chance.randrange(10_000)} us for /a/path/{i}" for i in range(1000)]
    count = written = 0
    head, frame_of = form or ("", lambda count, address: "")
    with open(path, "w", encoding="ascii") as f:
        f.write(head)
        while written < size:
            address = chance.choice(addresses) + 8
            text = "".join(f"2026-11-22T00:00:00Z info {chance.choice(words)}\n" for _ in range(FRAME_EVERY // 75))
            written += f.write(text + frame_of(count, address))
            count += 1
    return count if form else 0


def run(command, log):
    """(processor seconds, peak resident megabytes); what it writes is dropped."""
    with open(log, "rb") as source, open(os.devnull, "wb") as nowhere:
        child = subprocess.Popen(command, stdin=source, stdout=nowhere)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, command
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def by_build_id(program, place):
    """A folder as debuggers have it, with the program in it."""
    build_id = re.search(r"elf:(\w\w)(\w+)", markup(program)[0])
    folder = os.path.join(place, ".build-id", build_id.group(1))
    os.makedirs(folder)
    shutil.copy(program, os.path.join(folder, build_id.group(2) + ".debug"))
    return place


def peer(name, arguments):
    """The newest installed version of it, as a list of one command."""
    found = [path for path in (shutil.which(name + suffix) for suffix in ("-19", "-18", "-17", "-16", "-15", "")) if path]
    return [[found[0], *arguments]] if found else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--symbtool", default=os.path.join(ROOT, "build", "symbtool"))
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--beside", type=int, default=10, help="megabytes for the slower peers")
    given = parser.parse_args()
    print("| log | frames | program | processor time, s | memory, MB |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        program, addresses = compile_program(place)
        log, debug = os.path.join(place, "log"), by_build_id(program, os.path.join(place, "debug"))
        ours, cat = [given.symbtool, "symbolicate", "--filter", "--debug-dir", debug], ["cat"]
        asan = peer("asan_symbolize", [])
        llvm = peer("llvm-symbolizer", ["--filter-markup", f"--debug-file-directory={debug}"])
        for title, size, form, programs in (
            ("AddressSanitizer", given.beside, sanitizer(program), [cat, ours, *asan]),
            ("Symbolizer Markup", given.beside, markup(program), [cat, ours, *llvm]),
            ("AddressSanitizer", given.megabytes, sanitizer(program), [cat, ours]),
            ("no frames", given.megabytes, None, [cat, ours]),
        ):
            frames = write_log(log, addresses, size * MEGABYTE, form)
            for command in programs:
                seconds, memory = run(command, log)
                print(f"| {title}, {size} MB | {frames} | {os.path.basename(command[0])} | {seconds:.2f} | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
