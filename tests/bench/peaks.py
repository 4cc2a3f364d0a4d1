#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The most memory that one load takes, of files that are made to take much: docs/performance.md has a table of it.

    tests/bench/peaks.py [--build DIR] [--load-memory-max SIZE] [FILE...]

FILE: numbers of the files; all without any. Each is loaded once by a new symbolicated with `cache_size` 256M.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "tests", "wire"), os.path.join(ROOT, "tests", "tools")]
import stack  # noqa: E402
from client import job  # noqa: E402
from plain_symbfile import field, message  # noqa: E402
from symbols import compile_gensym, debug_id, module_line  # noqa: E402

MB = 1_000_000
FILE_ID = b"a large program.".hex()
PART = 180 * MB
STORECTL = os.path.join(ROOT, "build", "tests", "tools", "storectl")


def nested(out):
    """101 MB of FUNCs, each within the one before it."""
    count = 3_700_000
    for i in range(count):
        out.write(f"FUNC {i:x} {0x100000000 - 2 * i:x} 0 f{i % 1000}\n".encode())


def inlines(out):
    """128 MB of INLINEs of one function."""
    out.write(b"FUNC 1000 fffffff 0 f\n")
    for a in range(0x1000, 0x1000 + 2 * 5_330_000, 2):
        out.write(f"INLINE 0 {a % 999} 0 {a % 99} {a:x} 1\n".encode())


def publics(out):
    """FUNCs with lines, then as many PUBLICs."""
    count = 2_000_000
    for a in range(0x1000, 0x1000 + 32 * count, 32):
        out.write(f"FUNC {a:x} 10 0 function{a}\n{a:x} 8 {a % 999} 0\n".encode())
    for a in range(0x1010, 0x1010 + 32 * count, 32):
        out.write(f"PUBLIC {a:x} 0 public{a}\n".encode())


def symbol_file(write):
    def put(service, directory):
        ident = debug_id(write.__name__)
        path = service.symbols.path("peak.so", ident)
        os.makedirs(os.path.dirname(path))
        with open(path, "wb") as out:
            out.write(module_line("peak.so", ident))
            write(out)
        return ["peak.so", ident], os.path.getsize(path)

    return put


def unsorted(service, directory):
    """`gensym -u`: functions in no order."""
    ident = debug_id("unsorted")
    path = service.symbols.path("peak.so", ident)
    os.makedirs(os.path.dirname(path))
    with open(path, "wb") as out:
        subprocess.run([compile_gensym(directory), "-n", "peak.so", "-i", ident, "-f", "380000", "-u"], stdout=out, check=True)
    return ["peak.so", ident], os.path.getsize(path)


def symbfiles(service, directory):
    """Three parts of small ranges."""
    size = 0
    for part in range(3):
        body = field(2, 16) + field(3, "f") + field(7, 0)
        first = message(2, field(12, part << 40) + body)
        block = b"".join(message(2, field(1, 16) + body) for _ in range(10_000))
        path = os.path.join(directory, "part")
        with open(path, "wb") as out:
            out.write(b"symbfile" + message(1, b"") + first)
            while out.tell() < PART:
                out.write(block)
        size += os.path.getsize(path)
        command = [STORECTL, "--symbfile_store", service.config["symbfile_store"], "--", "put", FILE_ID, "ranges", "1" * 32, str(part), "3"]
        with open(path, "rb") as file:
            subprocess.run(command, stdin=file, check=True)
    return ["prog", FILE_ID], size


FILES = [
    ("three parts of a set of symbfiles", symbfiles),
    ("FUNCs, each within the one before", symbol_file(nested)),
    ("INLINEs of one function", symbol_file(inlines)),
    ("`gensym -f 380000 -u`", unsorted),
    ("PUBLICs behind all FUNCs", symbol_file(publics)),
]


def status_of(service, name):
    with open(f"/proc/{service.daemon.process.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(name))


def measure(name, put, bound):
    directory = tempfile.mkdtemp(prefix="sym-peaks-")
    os.chmod(directory, 0o755)
    store = os.path.join(directory, "store")
    os.mkdir(store, 0o777)
    os.chmod(store, 0o777)
    config = {"cache_size": "256M", "bucket_max_size": "2G", "symbfile_store": f"file://{store}", "request_timeout": "10m"}
    if bound:
        config["load_memory_max"] = bound
    try:
        with stack.Stack(config=config) as service:
            module, size = put(service, directory)
            with open(f"/proc/{service.daemon.process.pid}/clear_refs", "w", encoding="ascii") as peak:
                peak.write("5")
            before, start = status_of(service, "VmRSS"), time.monotonic()
            frames = [[0, 0x1000 + 64 * i] for i in range(25)]
            found = service.client.v5(job([module], frames))["results"][0]["found_modules"]["/".join(module)]
            took = time.monotonic() - start
            service.node.settled()
            print(f"| {name} | {size / MB:.0f} MB | {'answered' if found else 'given up'} | {status_of(service, 'VmHWM') / MB:.0f} MB |"
                  f" before {before / MB:.0f} MB, {took:.1f} s", flush=True)  # fmt: skip
    finally:
        shutil.rmtree(directory)


def main():
    parser = argparse.ArgumentParser(prog="peaks.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--load-memory-max")
    parser.add_argument("files", nargs="*", type=int, metavar="FILE", choices=[[], *range(1, len(FILES) + 1)], default=[])
    options = parser.parse_args()
    subprocess.run(["make", "-s", "-C", os.path.join(ROOT, "build"), "tests/tools/storectl"], check=True)
    stack.DAEMON[:] = [os.path.join(os.path.abspath(options.build), "symbolicated")]
    for number in options.files or range(1, len(FILES) + 1):
        measure(*FILES[number - 1], options.load_memory_max)


if __name__ == "__main__":
    main()
