#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The service in a control group that limits its memory: large symbol files are loaded one after another and side by
side, while small new modules are asked for ten times a second. The kernel must never end the process.

    tests/siege/memory.py --memory 512M [--files 46M,200M,983M] [--rounds 3] [--beside 2] [--config cache_size=128M]

Needs root and control groups of version 1 or 2 that can be written. Prints a table; exit code 1 if the process was
ended, an answer was wrong, or more than `memory` was resident."""

import argparse
import collections
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "wire"), os.path.join(ROOT, "tests", "tools")]

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
V1, V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"


def size_of(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


class Group:
    """A control group, and a program that starts what it is given in it."""

    def __init__(self, limit):
        v1 = os.path.isdir(V1)
        self.path = os.path.join(V1 if v1 else V2, f"symbolicated-siege-{os.getpid()}")
        os.mkdir(self.path)
        self.peak_file = "memory.max_usage_in_bytes" if v1 else "memory.peak"
        self.events = "memory.oom_control" if v1 else "memory.events"
        with open(os.path.join(self.path, "memory.limit_in_bytes" if v1 else "memory.max"), "w") as out:
            out.write(str(limit))

    def command(self, directory, program):
        path = os.path.join(directory, "in_group")
        with open(path, "w") as out:
            out.write(f'#!/bin/sh\necho $$ > {self.path}/cgroup.procs\nexec {program} "$@"\n')
        os.chmod(path, 0o755)
        return path

    def kills(self):
        with open(os.path.join(self.path, self.events)) as lines:
            return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def remove(self):
        for _ in range(100):
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.1)


def header(name, ident):
    return f"MODULE Linux x86_64 {ident} {name}\n".encode()


class Files:
    """Symbol files of a size and shape; each is written for its module and removed when it has been asked for."""

    SHAPES = ("sorted", "unsorted", "nested", "publics")

    def __init__(self, symbols):
        self.symbols = symbols

    def lines(self, shape, size, out):
        """About `size` bytes; the first function is at 1000 and has 16 bytes."""
        written = out.write(b"FILE 0 a.c\nFUNC 1000 10 0 first\n1000 10 1 0\n")
        count, i = size // 70, 0
        while written < size:
            block = []
            for i in range(i, i + 10000):
                if shape == "publics":
                    block.append(f"PUBLIC {0x2000 + 16 * i:x} 0 a public symbol with a name of some length, number {i}\n")
                elif shape == "nested":
                    block.append(f"FUNC {0x2000 + i:x} {2 * count + 0x10000 - 2 * i:x} 0 function_{i}\n{0x2000 + i:x} 1 {i} 0\n" if i < count
                                 else f"FUNC {0x40000000 + 16 * i:x} 10 0 function_{i}\n{0x40000000 + 16 * i:x} 10 7 0\n")
                else:
                    at = 0x2000 + 16 * (i if shape == "sorted" else i ^ 0x5555)
                    block.append(f"FUNC {at:x} 10 0 function_number_{i}\n{at:x} 8 {i % 1000} 0\n{at + 8:x} 8 {i % 999} 0\n")
            i += 1
            written += out.write("".join(block).encode())

    def put(self, name, ident, shape, size):
        path = self.symbols.path(name, ident)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "wb", 1 << 20) as out:
            out.write(header(name, ident))
            self.lines(shape, size, out)
        os.replace(path + ".new", path)
        return [name, ident]


def job(module):
    return {"jobs": [{"memoryMap": [module], "stacks": [[[0, 0x1004]]]}]}


def answer_of(reply, module):
    """"right", "too large" (false, with the reason) or what else it was."""
    if reply.status != 200:
        return str(reply.status)
    result = reply.json()["results"][0]
    if result["found_modules"]["/".join(module)] is False:
        return "false"
    return "right" if result["stacks"][0][0].get("function") == "first" else "wrong"


class Small(threading.Thread):
    """Asks for a new small module ten times a second."""

    def __init__(self, stack):
        super().__init__(daemon=True)
        self.stack, self.over, self.times, self.answers = stack, threading.Event(), [], collections.Counter()

    def run(self):
        client, i = self.stack.nodes[0].client(), 0
        while not self.over.wait(0.1):
            i += 1
            module = self.stack.symbols.add(f"small{i}.so", "FUNC 1000 10 0 first\n")
            start = time.monotonic()
            self.answers[answer_of(client.post("/symbolicate/v5", job(module)), module)] += 1
            self.times.append(time.monotonic() - start)


def ask_large(stack, files, plan, results, lock):
    client = stack.nodes[0].client(timeout=300)
    while True:
        with lock:
            if not plan:
                return
            number, shape, size = plan.pop()
        from symbols import debug_id

        name = f"large{number}.so"
        module = files.put(name, debug_id(name), shape, size)
        start = time.monotonic()
        for _ in range(40):
            answer = answer_of(client.post("/symbolicate/v5", job(module)), module)
            if answer != "503":
                break
            time.sleep(1)
        took = time.monotonic() - start
        reason = "too large" if any(e["event"] == "too large" and name in e["text"] for e in stack.daemon.log_lines()) else ""
        with lock:
            results.append((size, shape, answer, reason, took))
        stack.symbols.remove(*module)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--memory", default="512M", help="limit of the control group")
    parser.add_argument("--files", default="46M,200M,983M", help="sizes of the large files")
    parser.add_argument("--rounds", type=int, default=2, help="how often each size is asked for, in turn in each shape")
    parser.add_argument("--beside", type=int, default=2, help="large files asked for at a time")
    parser.add_argument("--memcached", type=int, default=1, help="servers of memcached")
    parser.add_argument("--config", action="append", default=[], help="settings beside the defaults")
    parser.add_argument("--verbose", action="store_true", help="print warnings of the log, and the account while it grows")
    parser.add_argument("--core", type=int, default=0, help="the core to run on")
    options = parser.parse_args()
    group = Group(size_of(options.memory))
    directory = tempfile.mkdtemp(prefix="siege-")
    program = os.environ.get("SYMBOLICATED", os.path.join(ROOT, "build", "symbolicated"))
    keys = os.environ.setdefault("SYMBOLICATED_KEYS", program + "-keys")
    assert os.path.exists(keys), keys
    os.environ["SYMBOLICATED"] = group.command(directory, f"taskset -c {options.core} {program}")
    from stack import Stack

    failed = []
    config = {"cache_size": "64T", "request_timeout": "120s", **dict(c.split("=", 1) for c in options.config)}
    try:
        with Stack(memcached=options.memcached, memory=512, bucket=False, config={**config, "source": f"file://{directory}/symbols"}) as stack:
            from symbols import Symbols

            symbols = Symbols(os.path.join(directory, "symbols"))
            type(stack).symbols = property(lambda _: symbols)
            run(stack, Files(symbols), options, failed)
            if group.kills():
                failed.append("the kernel ended the process")
    finally:
        group.remove()
        subprocess.run(["rm", "-rf", directory], check=False)
    for text in failed:
        print("FAILED:", text)
    return 1 if failed else 0


def resident(pid):
    try:
        with open(f"/proc/{pid}/statm") as line:
            return int(line.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0


def run(stack, files, options, failed):
    sizes = [size_of(s) for s in options.files.split(",")]
    plan = [(i, Files.SHAPES[i % len(Files.SHAPES)], sizes[i % len(sizes)]) for i in range(options.rounds * len(sizes))][::-1]
    results, lock, small = [], threading.Lock(), Small(stack)
    most, over = [0], threading.Event()

    def watch():
        while not over.wait(0.05):
            now = resident(stack.daemon.process.pid)
            if options.verbose and now > most[0] + (20 << 20):
                kinds = {k: v >> 20 for k, v in ((k, int(v)) for k, v in stack.node.metrics().items()) if k.startswith("symbolicated_memory") and v >> 20}
                print(f"{now >> 20} MB:", {k.split('"')[1] if '"' in k else k[20:]: v for k, v in kinds.items()})
            most[0] = max(most[0], now)

    watcher = threading.Thread(target=watch, daemon=True)
    small.start()
    watcher.start()
    askers = [threading.Thread(target=ask_large, args=(stack, files, plan, results, lock)) for _ in range(options.beside)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    small.over.set()
    small.join()
    over.set()
    watcher.join()
    if options.verbose:
        for event in stack.daemon.log_lines():
            if event["level"] not in ("info", "debug"):
                print(event["time"], event["event"], event.get("text"))
    limit = stack.node.metrics()["symbolicated_memory_limit_bytes"]
    print("| size | shape | answer | seconds |\n|---|---|---|---|")
    for size, shape, answer, reason, took in results:
        print(f"| {size >> 20} MB | {shape} | {answer} {reason} | {took:.1f} |")
        if answer not in ("right", "false") or (answer == "false" and not reason):
            failed.append(f"{size >> 20} MB, {shape}: {answer} {reason}")
    times = sorted(small.times)
    print(f"small: {dict(small.answers)}, median {statistics.median(times):.3f} s, p99 {times[len(times) * 99 // 100]:.3f} s, most {times[-1]:.3f} s")
    print(f"memory {limit / 2**20:.0f} MB, most resident {most[0] / 2**20:.0f} MB")
    if most[0] > limit:
        failed.append("more than `memory` was resident")
    if set(small.answers) - {"right"}:
        failed.append(f"small modules: {dict(small.answers)}")
    if stack.daemon.process.poll() is not None:
        failed.append("the process ended")


if __name__ == "__main__":
    sys.exit(main())
