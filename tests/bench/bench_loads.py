#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A module that two nodes want at once.

    tests/bench/bench_loads.py [--build build] [--functions 33000] [--rounds 5] [--quick] [--json]

Of two responders that share memcached the second is asked for the same new module 50 ms after the first, with memcached a
delay away. --json: as bench.py reads it."""

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "wire")]
import stack  # noqa: E402
from client import job  # noqa: E402
from stack import Memcached, Stack, connects, free_port, wait_for  # noqa: E402
from symbols import compile_gensym, debug_id  # noqa: E402

LATER = 1.5  # target: times the first's answer
AFTER = 0.05  # seconds
DELAYS = (0.0, 0.0005, 0.002)  # seconds to memcached and back
CONFIG = {"background_share": "5", "finish_after": "30s", "log_level": "info"}  # the defaults: a map that was asked for once stays in parts


def make_file(directory, functions):
    path = os.path.join(directory, "large.sym")
    with open(path, "wb") as out:
        subprocess.run([compile_gensym(directory), "-n", "large.so", "-i", debug_id("large"), "-f", str(functions)], stdout=out, check=True)
    return path


class Module:
    """The file under a new id each time."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.line, _, self.rest = file.read().partition(b"\n")
        self.address = int(re.search(rb"^FUNC (?:m )?([0-9a-f]+)", self.rest, re.M)[1], 16)
        self.count = 0

    def put(self, symbols):
        self.count += 1
        name, ident = f"large{self.count}.so", debug_id(f"large{self.count}")
        symbols.put(name, ident, f"MODULE Linux x86_64 {ident} {name}\n".encode() + self.rest)
        return [name, ident]

    def body(self, module):
        return job([module], [[0, self.address]])


def answer(client, body):
    """Seconds until the name is there."""
    start = time.monotonic()
    result = client.v5(body)["results"][0]
    assert "function" in result["stacks"][0][0], result
    return time.monotonic() - start


class Delay(threading.Thread):
    """A way to memcached that takes so long, there and back."""

    def __init__(self, address, seconds):
        super().__init__(daemon=True)
        self.address, self.half, self.port = address, seconds / 2, free_port()

    def run(self):
        asyncio.run(self.serve())

    async def serve(self):
        server = await asyncio.start_server(self.connect, "127.0.0.1", self.port, limit=1 << 22)
        async with server:
            await server.serve_forever()

    async def connect(self, reader, writer):
        there, back = await asyncio.open_unix_connection(self.address, limit=1 << 22)
        await asyncio.gather(self.pass_on(reader, back), self.pass_on(there, writer), return_exceptions=True)

    async def pass_on(self, reader, writer):
        loop = asyncio.get_running_loop()
        while data := await reader.read(1 << 20):
            if self.half:
                loop.call_later(self.half, writer.write, data)
            else:
                writer.write(data)
        loop.call_later(self.half, writer.close)


def second_beside_first(module, delay, directory, rounds):
    """Of each round, the second's answer in times of the first's."""
    memcached = Memcached("memcached", directory, 512)
    memcached.start()
    try:
        way = Delay(memcached.address, delay)
        way.start()
        wait_for(lambda: connects(("127.0.0.1", way.port)), "the way to memcached")
        with Stack(memcached=0, daemons=2, config={**CONFIG, "memcached": f"127.0.0.1:{way.port}"}) as s:
            return [ratio(s, module) for _ in range(rounds)]
    finally:
        memcached.stop()


def ratio(s, module):
    body, first = module.body(module.put(s.symbols)), []
    asker = threading.Thread(target=lambda: first.append(answer(s.nodes[0].client(), body)))
    asker.start()
    time.sleep(AFTER)
    second = answer(s.nodes[1].client(), body)
    asker.join()
    return second / first[0]


def measure(options, directory):
    module = Module(make_file(directory, options.functions))
    times = {delay: second_beside_first(module, delay, directory, options.rounds) for delay in DELAYS}
    medians = {delay: statistics.median(samples) for delay, samples in times.items()}
    worst = times[max(medians, key=medians.get)]
    return {"line": "module that another node loads since 50 ms", "figure": statistics.median(worst), "min": min(worst), "max": max(worst), "n": len(worst),
            "target": f"<= {LATER}", "unit": "x first", "short": "Module that another node loads",
            "note": "memcached away, ms, and median: " + ", ".join(f"{d * 1000:g}: {m:.3f}" for d, m in medians.items())}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--functions", type=int, default=33_000, help="of the module: 33,000 are 46 MB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="1,000 functions, one round")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.functions, options.rounds = 1000, 1
    options.build = os.path.abspath(options.build)
    stack.DAEMON[:] = [os.path.join(options.build, "symbolicated")]
    with tempfile.TemporaryDirectory(prefix="sym-bench-loads-") as directory:
        os.chmod(directory, 0o755)
        one = measure(options, directory)
    if options.json:
        print(json.dumps({"lines": [one]}))
    else:
        print(f"{one['line']}: {one['figure']:.3f} ({one['min']:.3f} to {one['max']:.3f}) {one['target']}")


if __name__ == "__main__":
    main()
