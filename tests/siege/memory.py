#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The service with little memory, on one core: first requests with all modules of a process, small ones, some at the same time;
then a hundred large symbol files, some side by side; while small new modules are asked for ten times a second. The kernel must
never end the process.

    tests/siege/memory.py --memory 512M [--hidden] [--processes 16] [--loads 100] [--largest 2G] [--beside 2] [--config cache_size=128M]

The service runs in a control group with that limit, which it sees. With --hidden it sees no control group, but a machine
with so much RAM, as in a virtual machine; the kernel still holds it to the limit. Needs root and control groups of version 1
or 2 that can be written. Prints a table and the largest file of each shape that was loaded; exit code 1 if the process was
ended, an answer was wrong or without its reason, small modules were slow, more than `memory` was resident, or the small modules of
processes took more than a tenth above cache_size."""

import argparse
import collections
import gzip
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "wire"), os.path.join(ROOT, "tests", "tools")]

from plain_symbfile import field, message  # noqa: E402

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
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

    def command(self, directory, program, hidden):
        """A program that starts `program` in the group; hidden: a list of what it is to see instead of the group."""
        path = os.path.join(directory, "in_group")
        with open(path, "w") as out:
            out.write(f"#!/bin/sh\necho $$ > {self.path}/cgroup.procs\n")
            if hidden:
                meminfo = os.path.join(directory, "meminfo")
                with open(meminfo, "w") as info:
                    info.write(f"MemTotal:       {hidden // 1024} kB\n")
                mounts = f"mount --bind {meminfo} /proc/meminfo && mount -t tmpfs none /sys/fs/cgroup"
                out.write(f"exec unshare -m sh -c '{mounts} && exec {program} \"$@\"' sh \"$@\"\n")
            else:
                out.write(f'exec {program} "$@"\n')
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


BLOCK = 0x1000  # functions
PART = 48 << 20  # bytes of a symbfile at most
MARK = b"@@@@@"  # where the number of the block stands


def block_of(shape):
    """Functions of one block; each MARK becomes five digits, and !!!!! what is left of them (for sizes that become smaller)."""
    lines = []
    for i in range(BLOCK):
        at = f"1@@@@@{i * 16:04x}" if shape != "nested" else f"1@@@@@{i:03x}"
        if shape == "publics":
            lines.append(f"PUBLIC {at} 0 a public symbol with a name of some length, @@@@@ {i}\n")
        elif shape == "nested":
            lines.append(f"FUNC {at} !!!!!{0x1FFF - 2 * i:04x} 0 function_@@@@@_{i}\n{at} 1 {i} 0\n")
        else:
            lines.append(f"FUNC {at} 10 0 function_number_@@@@@_{i}\n{at} 8 {i % 1000} 0\n1@@@@@{i * 16 + 8:04x} 8 {i % 999} 0\n")
    if shape == "unsorted":
        lines = [lines[i * 2731 % BLOCK] for i in range(BLOCK)]
    return "".join(lines).encode()


class Files:
    """Symbol files and sets of symbfiles of a size and shape; each is made when it is asked for."""

    SHAPES = ("sorted", "gzip", "unsorted", "nested", "publics", "symbfile")  # gzip: sorted, and packed

    def __init__(self, stack, directory):
        self.stack, self.symbols, self.directory = stack, stack.symbols, directory
        self.blocks = {shape: block_of(shape) for shape in self.SHAPES if shape not in ("gzip", "symbfile")}

    def lines(self, shape, size, out):
        """About `size` bytes; the first function is at 1000 and has 16 bytes."""
        written = out.write(b"FILE 0 a.c\nFUNC 1000 10 0 first\n1000 10 1 0\n")
        number = 0
        while written < size:
            block = self.blocks[shape].replace(MARK, b"%05x" % (number ^ (shape == "unsorted"))).replace(b"!!!!!", b"%05x" % (0xFFFFF - number))
            left = size - written
            written += out.write(block if left >= len(block) else block[: block.find(b"\n", left) + 1] or block)
            number += 1

    def put(self, name, ident, shape, size):
        """[name, id] as in a request; sym: the file."""
        if shape == "symbfile":
            return self.put_set(name, size)
        path = self.symbols.path(name, ident)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "wb", 1 << 20) as file, gzip.open(file, "wb", 1) if shape == "gzip" else file as out:
            out.write(header(name, ident))
            self.lines("sorted" if shape == "gzip" else shape, size, out)
        os.replace(path + ".new", path)
        return [name, ident]

    def put_set(self, name, size):
        """Parts of ranges of 16 bytes one after the other, uploaded."""
        file_id = name.encode().ljust(16, b".").hex()
        parts = max(1, -(-size // PART))
        for part in range(parts):
            body = field(2, 16) + field(3, "first" if part == 0 else "other") + field(7, 0)
            data = b"symbfile" + message(1, b"") + message(2, field(12, part << 40) + body)
            range_message = message(2, field(1, 16) + body)
            data += range_message * (max(size // parts, 8192) // len(range_message))
            headers = {"FileID": file_id, "FilePart": str(part), "FileParts": str(parts), "Authorization": self.stack.key}
            reply = self.stack.nodes[0].client(timeout=300).request("POST", "/api/symbols-ranges", data, headers)
            assert reply.status == 200, reply
        return [name, file_id]

    def remove(self, module, shape):
        if shape != "symbfile":
            self.symbols.remove(*module)
            return
        for path, folders, _ in os.walk(os.path.join(self.directory, "store")):
            if module[1] in folders:
                subprocess.run(["rm", "-rf", os.path.join(path, module[1])], check=True)


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
        self.stack, self.over, self.times, self.answers, self.refused = stack, threading.Event(), [], collections.Counter(), []

    def run(self):
        client, i = self.stack.nodes[0].client(), 0
        while not self.over.wait(0.1):
            i += 1
            module = self.stack.symbols.add(f"small{i}.so", "FUNC 1000 10 0 first\n")
            start = time.monotonic()
            reply = client.post("/symbolicate/v5", job(module))
            self.answers[answer_of(reply, module)] += 1
            self.times.append(time.monotonic() - start)
            if reply.status != 200:
                self.refused.append(f"{module[0]}: {reply.body.decode(errors='replace').strip()}")


OF_PROCESS = 150  # modules


def ask_processes(stack, count):
    """As many requests at the same time; what was answered, how long all took, and the most that the cache held, in bytes."""
    from symbols import Symbols

    symbols: Symbols = stack.symbols
    text = "FILE 0 a.c\nFUNC 1000 10 0 first\n1000 10 1 0\n" + "".join(f"FUNC {16 * i:x} 10 0 function_number_{i}\n" for i in range(0x101, 0x121))
    wanted = [[symbols.add(f"process{p}-{i}.so", text) for i in range(OF_PROCESS)] for p in range(count)]
    answers, over, most = collections.Counter(), threading.Event(), [0]

    def ask(modules):
        jobs = {"jobs": [{"memoryMap": modules, "stacks": [[[i, 0x1004] for i in range(OF_PROCESS)]]}]}
        reply = stack.nodes[0].client(timeout=300).post("/symbolicate/v5", jobs)
        names = {f.get("function") for f in reply.json()["results"][0]["stacks"][0]} if reply.status == 200 else None
        answers[str(reply.status) if names is None else "right" if names == {"first"} else "wrong"] += 1

    def watch():
        while not over.wait(0.05):
            metrics = stack.node.metrics()
            most[0] = max(most[0], metrics["symbolicated_cache_bytes"] + metrics["symbolicated_loading_bytes"])

    threads = [threading.Thread(target=ask, args=(modules,)) for modules in wanted]
    watcher, start = threading.Thread(target=watch, daemon=True), time.monotonic()
    for thread in (watcher, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - start
    over.set()
    watcher.join()
    return answers, took, most[0]


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
        files.remove(module, shape)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--memory", default="512M", help="limit of the control group")
    parser.add_argument("--hidden", action="store_true", help="the service sees so much RAM instead of the control group")
    parser.add_argument("--processes", type=int, default=16, help=f"requests with {OF_PROCESS} small modules each, at the same time")
    parser.add_argument("--loads", type=int, default=100, help="files asked for, in turn of each shape, in even steps of size")
    parser.add_argument("--shape", choices=Files.SHAPES, action="append", help="only this one")
    parser.add_argument("--smallest", default="1K")
    parser.add_argument("--largest", default="2G")
    parser.add_argument("--slack", type=float, default=1.0, help="how many times the bound of time small modules may take")
    parser.add_argument("--seed", type=int, default=1, help="of the order of the files")
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
    os.environ["SYMBOLICATED"] = group.command(directory, f"taskset -c {options.core} {program}", size_of(options.memory) if options.hidden else 0)
    from stack import Stack

    failed = []
    os.makedirs(os.path.join(directory, "store"))
    for path in (directory, os.path.join(directory, "store")):
        os.chmod(path, 0o777)
    config = {"background_share": "5", "finish_after": "10s", "symbfile_store": f"file://{directory}/store", **dict(c.split("=", 1) for c in options.config)}
    try:
        with Stack(memcached=options.memcached, memory=512, bucket=False, keys=True, config={**config, "source": f"file://{directory}/symbols"}) as stack:
            from symbols import Symbols

            symbols = Symbols(os.path.join(directory, "symbols"))
            type(stack).symbols = property(lambda _: symbols)
            run(stack, Files(stack, directory), options, failed)
            if group.kills():
                failed.append("the kernel ended the process")
    finally:
        group.remove()
        subprocess.run(["rm", "-rf", directory], check=False)
    for text in failed:
        print("FAILED:", text)
    return 1 if failed else 0


def resident(pid, name):
    """Bytes: VmRSS now, VmHWM at most."""
    try:
        with open(f"/proc/{pid}/status") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
    except (OSError, StopIteration):
        return 0


def plan_of(options):
    """(number, shape, size of the text) of each load: sizes in even steps of their logarithm, in random order, each shape with all sizes."""
    first, last, n = size_of(options.smallest), size_of(options.largest), options.loads
    shapes = options.shape or Files.SHAPES
    plan = [(i, shapes[i % len(shapes)], int(first * (last / first) ** (i / max(1, n - 1)))) for i in range(n)]
    random.Random(options.seed).shuffle(plan)
    return plan


def run(stack, files, options, failed):
    plan = plan_of(options)
    results, lock, small = [], threading.Lock(), Small(stack)
    most, over, pid = [0], threading.Event(), stack.daemon.process.pid

    def watch():
        while not over.wait(0.05):
            now = resident(pid, "VmRSS")
            if options.verbose and now > most[0] + (20 << 20):
                kinds = {k: v >> 20 for k, v in ((k, int(v)) for k, v in stack.node.metrics().items()) if k.startswith("symbolicated_memory") and v >> 20}
                print(f"{now >> 20} MB:", {k.split('"')[1] if '"' in k else k[20:]: v for k, v in kinds.items()})
            most[0] = max(most[0], now)

    watcher = threading.Thread(target=watch, daemon=True)
    small.start()
    watcher.start()
    if options.processes:
        answers, took, held = ask_processes(stack, options.processes)
        limit = min(size_of(dict(c.split("=", 1) for c in options.config).get("cache_size", "64T")), stack.node.metrics()["symbolicated_memory_limit_bytes"] / 4 * 3)
        print(f"{options.processes} processes of {OF_PROCESS} small modules: {dict(answers)} in {took:.1f} s; the cache took {held / 2**20:.0f} of {limit / 2**20:.0f} MB")
        if set(answers) != {"right"}:
            failed.append(f"the small modules of processes: {dict(answers)}")
        if held > limit * 1.1:
            failed.append("the small modules of processes take more than cache_size and a tenth")
    askers = [threading.Thread(target=ask_large, args=(stack, files, plan, results, lock)) for _ in range(options.beside)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    small.over.set()
    small.join()
    if len(results) < options.loads:
        failed.append(f"only {len(results)} of {options.loads} files were asked for")
    over.set()
    watcher.join()
    if options.verbose:
        for event in stack.daemon.log_lines():
            if event["level"] not in ("info", "debug"):
                print(event["time"], event["event"], event.get("text"))
    most[0] = max(most[0], resident(pid, "VmHWM"))
    limit = stack.node.metrics()["symbolicated_memory_limit_bytes"]
    print("| size, MB | shape | answer | seconds |\n|---:|---|---|---:|")
    for size, shape, answer, reason, took in sorted(results):
        print(f"| {size / 2**20:.3f} | {shape} | {answer} {reason} | {took:.1f} |")
        if answer not in ("right", "false") or (answer == "false" and not reason):
            failed.append(f"{size >> 20} MB, {shape}: {answer} {reason}")
    for shape in options.shape or Files.SHAPES:
        right, refused = ([size >> 20 for size, s, answer, *_ in results if s == shape and answer == wanted] for wanted in ("right", "false"))
        print(f"{options.memory}, {shape}: loaded up to {max(right, default=0)} MB, too large from {min(refused, default='-')} MB")
    times = sorted(small.times)
    print(f"small: {dict(small.answers)}, median {statistics.median(times):.3f} s, p99 {times[len(times) * 99 // 100]:.3f} s, most {times[-1]:.3f} s")
    print(f"memory {limit / 2**20:.0f} MB, most resident {most[0] / 2**20:.0f} MB")
    if times[len(times) * 99 // 100] > options.slack:
        failed.append("small modules are slow")
    if most[0] > limit:
        failed.append("more than `memory` was resident")
    if set(small.answers) - {"right"}:
        failed.append(f"small modules: {dict(small.answers)} {small.refused[:3]}")
    if stack.daemon.process.poll() is not None:
        failed.append("the process ended")


if __name__ == "__main__":
    sys.exit(main())
