#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a cold load costs beside what it answers.

    tests/bench/bench_loads.py [--build build] [--functions 33000] [--rounds 5] [--quick] [--json]

Once: a large module that is asked for once, for one frame. The processor time is compared with that of its parts, each
measured alone: receiving the file, bench_parse inflating it, reading it into records and making spans and as many pages as were
stored. Once more for a file that is not compressed. Two: of two responders that share memcached the second is asked 50 ms
after the first, with memcached a delay away. --json: as bench.py reads it."""

import argparse
import asyncio
import gzip
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "wire")]
import stack  # noqa: E402
from client import job  # noqa: E402
from stack import Memcached, Stack, connects, free_port, wait_for  # noqa: E402
from symbols import compile_gensym, debug_id  # noqa: E402

PARTS, LATER = 1.3, 1.5  # targets: times its parts; times the first's answer
READ, PAGES = 1.01, 8  # at most: of the file; pages, which one frame touches
AFTER = 0.05  # seconds
DELAYS = (0.0, 0.0005, 0.002)  # seconds to memcached and back
LEVEL = 6  # of gzip
# Why they are missed.
GZIP_WALL = "records are made of all the text, on two threads"
PLAIN_WALL = "records are made of all the text; copies through curl"
CONFIG = {"background_share": "5", "finish_after": "30s", "log_level": "info"}  # the defaults: a map that was asked for once stays in parts


def make_file(directory, functions):
    path = os.path.join(directory, "large.sym")
    with open(path, "wb") as out:
        subprocess.run([compile_gensym(directory), "-n", "large.so", "-i", debug_id("large"), "-f", str(functions)], stdout=out, check=True)
    return path


class Module:
    """The file under a new id each time, as gzip or plain."""

    def __init__(self, path, is_gzip=False):
        self.is_gzip = is_gzip
        with open(path, "rb") as file:
            self.line, _, self.rest = file.read().partition(b"\n")
        self.address = int(re.search(rb"^FUNC (?:m )?([0-9a-f]+)", self.rest, re.M)[1], 16)
        self.count = 0

    def put(self, symbols):
        self.count += 1
        name, ident = f"large{self.count}.so", debug_id(f"large{self.count}")
        text = f"MODULE Linux x86_64 {ident} {name}\n".encode() + self.rest
        symbols.put(name, ident, gzip.compress(text, LEVEL) if self.is_gzip else text)
        return [name, ident]

    def body(self, module):
        return job([module], [[0, self.address]])


def download(url):
    """Seconds of processor time to receive it and to drop it."""
    buffer, start = bytearray(1 << 18), time.thread_time()
    with urllib.request.urlopen(url) as reply:
        while reply.readinto(buffer):
            pass
    return time.thread_time() - start


def memcached_bytes(address):
    """Bytes that it was sent, by its own count."""
    with stack.socket.socket(stack.socket.AF_UNIX) as s:
        s.connect(address)
        s.sendall(b"stats\r\n")
        text = b""
        while not text.endswith(b"END\r\n"):
            text += s.recv(1 << 16)
    return int(re.search(rb"STAT bytes_read (\d+)", text)[1])


def answer(client, body):
    """Seconds until the name is there."""
    start = time.monotonic()
    result = client.v5(body)["results"][0]
    assert "function" in result["stacks"][0][0], result
    return time.monotonic() - start


def load_once(module):
    """Figures of one load by a new process."""
    with Stack(config=CONFIG) as s:
        s.client.get("/__version__")
        symbols = module.put(s.symbols)
        before, sent = s.node.metrics(), memcached_bytes(s.memcached[0].address)
        wall = answer(s.client, module.body(symbols))
        wait_for(lambda: s.node.metrics()["symbolicated_loads_in_flight"] == 0, "the load to end", 60)
        after = s.node.metrics()
        grown = {key: after[key] - before.get(key, 0) for key in after}
        return {
            "processor": grown["process_cpu_seconds_total"],
            "wall": wall,
            "read": grown['symbolicated_download_bytes_total{form="wire"}'],
            "stored": memcached_bytes(s.memcached[0].address) - sent,
            "pages": grown["symbolicated_pages_stored_total"],
            "download": download(f"{s.bucket.url}{symbols[0]}/{symbols[1]}/{symbols[0]}.sym"),
        }


def parts_of(program, path, pages):
    """Seconds for inflating, the records, the spans and so many pages."""
    found = json.loads(subprocess.run([program, path, "5"], capture_output=True, text=True, check=True).stdout)
    inflating = found["text"] / found["gunzip"]["median"] if "gunzip" in found else 0
    return inflating + found["text"] / found["index"]["median"] + found["spans_ms"] / 1e3 + pages * found["page_us"] / 1e6


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


def line(name, samples, target="", **more):
    """One of bench.py's form, from the figures of the rounds."""
    return {"line": name, "figure": statistics.median(samples), "min": min(samples), "max": max(samples), "n": len(samples), "target": target, **more}


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


def measure_once(what, wall, module, path, program, rounds):
    runs = [load_once(module) for _ in range(rounds)]
    rest = parts_of(program, path, statistics.median(r["pages"] for r in runs))
    parts = [r["download"] + rest for r in runs]
    ours = [r["processor"] for r in runs]
    read, pages = max(r["read"] for r in runs) / os.path.getsize(path), max(r["pages"] for r in runs)
    if read > READ or pages > PAGES:
        sys.exit(f"bench_loads: {read:.2f} times the file were read, and {pages:.0f} pages stored")
    return line(f"module asked for once, {what}", [a / b for a, b in zip(ours, parts)], f"<= {PARTS}", unit="x its parts", wall=wall, short=f"Asked for once, {what}",
                ours=f"{statistics.median(ours) * 1e3:.0f}", against=f"{statistics.median(parts) * 1e3:.0f} ms",
                note=f"{read:.2f} times the file read, {pages:.0f} pages, {statistics.median(r['stored'] for r in runs) / 1e3:.0f} KB to memcached")  # fmt: skip


def measure(options, directory):
    path = make_file(directory, options.functions)
    module, program = Module(path), os.path.join(options.build, "tests", "bench", "bench_parse")
    packed = path + ".gz"
    with open(path, "rb") as plain, open(packed, "wb") as file:
        file.write(gzip.compress(plain.read(), LEVEL))
    seconds = {delay: second_beside_first(module, delay, directory, options.rounds) for delay in DELAYS}
    worst = max(seconds, key=lambda delay: statistics.median(seconds[delay]))
    # fmt: off
    return [
        measure_once("gzip", GZIP_WALL, Module(path, is_gzip=True), packed, program, options.rounds),
        measure_once("plain", PLAIN_WALL, module, path, program, options.rounds),
        line("the same from a second node, 50 ms later", seconds[worst], f"<= {LATER}", unit="x first", short="The same from a second node",
             note="memcached away, ms, and median: " + ", ".join(f"{d * 1000:g}: {statistics.median(s):.3f}" for d, s in seconds.items())),
    ]
    # fmt: on


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
    subprocess.run(["make", "-s", "-C", options.build, "tests/bench/bench_parse"], check=True)
    stack.DAEMON[:] = [os.path.join(options.build, "symbolicated")]
    with tempfile.TemporaryDirectory(prefix="sym-bench-loads-") as directory:
        os.chmod(directory, 0o755)
        lines = measure(options, directory)
    if options.json:
        print(json.dumps({"lines": lines}))
        return
    for one in lines:
        made_of = " : ".join(filter(None, [one.get("ours"), one.get("against")]))
        print(f"{one['line']}: {one['figure']:.3f} ({one['min']:.3f} to {one['max']:.3f}) {one['target']}  {made_of}".rstrip())


if __name__ == "__main__":
    main()
