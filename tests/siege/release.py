#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first minute of a release: 9,000 clients ask at once for one new module of 436 MB, through a real nginx
with the shipped files and a responder with its default settings on two cores with 2 GB. All are to be answered at once; meanwhile somebody
else asks for modules that are loaded already, and for small new ones.

    release.py [--connections 9000] [--addresses 9000] [--size 436] [--rate 125] [--tries 1] [--config KEY=VALUE]...
                                                                                              SYMBOLICATED=PATH of the program

Prints what became of all, and how long they waited. It fails if an answer is wrong or none comes, if a refusal is not 503 with Retry-After,
if the file is fetched more than once, if anybody is refused or told to be held back, or if somebody else is refused. The last
line is "N passed, N failed, N skipped"."""

import argparse
import asyncio
import collections
import contextlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time

import run as siege
from client import job
from shapes import Shape
from symbols import compile_gensym, debug_id

FUNCTION_BYTES = 1260  # of the symbol file, for each function that gensym writes
MEMORY = "1433M"  # of 2 GB, by default
CORES = 2
ALONE = 4.0  # seconds
WAITS = 180.0  # seconds after which an answer counts as lost: nginx's own limit is below
MODULE = ["big-release", debug_id("big-release")]
BODY = json.dumps(job([MODULE], [[0, 0x1000]])).encode()


class Release(Shape):
    """Nobody attacks: the world is a siege's."""


class Crowd:
    def __init__(self, port, options):
        self.port, self.options, self.random = port, options, random.Random(options.seed)
        self.answered, self.refused, self.strange = [], 0, collections.Counter()
        self.delays, self.reasons = collections.Counter(), collections.Counter()

    async def run(self):
        """Prints what came of it."""
        self.begin = time.monotonic()
        await asyncio.gather(*(self.client(n) for n in range(self.options.connections)))
        delays, reasons = self.delays.most_common(), self.reasons.most_common(5)
        print(json.dumps({"answered": sorted(self.answered), "refused": self.refused, "delays": delays, "reasons": reasons, "strange": self.strange}), flush=True)

    async def client(self, number):
        n = number % self.options.addresses
        address = f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}"
        for left in reversed(range(self.options.tries)):
            try:
                status, delay, data = await asyncio.wait_for(self.ask(address), WAITS)
            except (asyncio.TimeoutError, OSError, asyncio.IncompleteReadError, ValueError) as e:
                self.strange[type(e).__name__] += 1
                return
            if status == 200:
                (stack,) = json.loads(data)["results"][0]["stacks"]
                if "function" in stack[0]:
                    self.answered.append(time.monotonic() - self.begin)
                else:
                    self.strange["without a name"] += 1
                return
            if status != 503 or delay is None:
                self.strange[f"{status}{'' if delay else ' without Retry-After'}: {data[:100]!r}"] += 1
                return
            self.delays[delay] += 1
            self.reasons[json.loads(data)["error"][:100]] += 1
            if left:
                await asyncio.sleep(delay + self.random.random())
        self.refused += 1

    async def ask(self, address):
        """Status, seconds of Retry-After, body."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(
                b"POST /symbolicate/v5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Forwarded-For: %s\r\nContent-Length: %d\r\n\r\n%s"
                % (address.encode(), len(BODY), BODY)
            )
            head, _, data = (await reader.read(-1)).partition(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            delay = next((int(line.split(":")[1]) for line in lines if line.lower().startswith("retry-after:")), None)
            return int(lines[0].split()[1]), delay, data
        finally:
            writer.transport.abort()


def share(ordered, part):
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else float("nan")


def make_module(directory, megabytes):
    path = os.path.join(directory, "release.sym")
    with open(path, "wb") as out:
        count = str(megabytes * 1_000_000 // FUNCTION_BYTES)
        subprocess.run([compile_gensym(directory), "-n", MODULE[0], "-i", MODULE[1], "-f", count], stdout=out, check=True)
    return path


def measure(world, options):
    """Prints; returns what is wrong."""
    waiting, ended = [], threading.Event()

    def watch():
        while not ended.wait(1):
            with contextlib.suppress(OSError):
                waiting.append(max(world.metrics("symbolicated_(loads_waiting_for_processor)").values(), default=0))

    victim = siege.Victim(world.nginx.port, world.key)
    victim.start()
    time.sleep(ALONE)
    threading.Thread(target=watch, daemon=True).start()
    begin = time.monotonic()
    # a process of its own, so that somebody else's clock is not theirs
    command = [sys.executable, os.path.abspath(__file__), "--crowd", str(world.nginx.port), "--connections", str(options.connections)]
    command += ["--addresses", str(options.addresses), "--tries", str(options.tries), "--seed", str(options.seed)]
    crowd = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, preexec_fn=siege.die_with_parent).stdout)
    end = time.monotonic()
    ended.set()
    victim.stop()
    others = victim.between(begin, end)
    loads = world.metrics(r'symbolicated_(downloads_total\{outcome="ok"\})')
    gets = world.hits()["big"]
    answered = crowd["answered"]
    print(f"answered: {len(answered)} of {options.connections}, half of them within {share(answered, 0.5):.1f} s, 99 of 100 within {share(answered, 0.99):.1f} s")
    print(f"refused {options.tries} times: {crowd['refused']}; Retry-After: {', '.join(f'{n} x {s} s' for s, n in crowd['delays']) or 'never'}")
    for reason, count in crowd["reasons"]:
        print(f"    {count} x {reason}")
    print(f"the module was fetched {gets} times; {sum(loads.values()):.0f} loads in all; threads that wait for a processor: up to {max(waiting, default=0):.0f}")
    for kind in ("warm", "cold"):
        mine = [a for a in others if a.kind == kind]
        print(f"somebody else, {kind}: {len(mine)} requests, 99 of 100 within {siege.p99(mine):.2f} s, not answered: {siege.counted([a for a in mine if a.status != 200]) or 'none'}")
    print(f"resident: {world.peak() / 1e6:.0f} MB of {world.limit() / 1e6:.0f} MB")
    told = [line["text"] for line in world.daemon.log_lines() if line["event"] == "client held back"]
    print(f"told to be held back: {told or 'nobody'}")
    warm = [a for a in others if a.kind == "warm"]
    return [text for good, text in (
        (not crowd["strange"], f"neither answered nor refused: {crowd['strange']}"),
        (gets == 1, "the module was not fetched once"),
        (not crowd["refused"], f"{crowd['refused']} were refused"),
        (not any(text.startswith("10.") for text in told), "clients with one request were told to be held back"),
        (all(a.status == 200 for a in warm), f"somebody else was refused what is loaded: {siege.counted(warm)}"),
        (world.peak() <= world.limit(), "more than `memory` was resident"),
    ) if not good]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description="The first minute of a release.")
    parser.add_argument("--connections", type=int, default=9000)
    parser.add_argument("--addresses", type=int, default=9000)
    parser.add_argument("--size", type=int, default=436, metavar="MB")
    parser.add_argument("--rate", type=int, default=125, metavar="MB", help="how much of it the bucket sends in a second")
    parser.add_argument("--tries", type=int, default=1)
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--crowd", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    files = max(20_000, 3 * options.connections)
    with contextlib.suppress(ValueError, OSError):  # what it may have must do otherwise
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, max(files, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    if options.crowd:
        asyncio.run(Crowd(options.crowd, options).run())
        return 0
    shape = Release(options.seed)
    shape.settings = {"memory": MEMORY} | dict(pair.split("=", 1) for pair in options.config)
    problems = []
    with tempfile.TemporaryDirectory(prefix="sym-release-") as directory:
        path = make_module(directory, options.size)
        print(f"a module of {os.path.getsize(path) / 1e6:.0f} MB, {options.connections} connections from {options.addresses} addresses, a bucket of {options.rate} MB/s", flush=True)
        world = siege.World(shape, path, connections=2 * options.connections + 1024, rate=options.rate * 1_000_000, cores=min(CORES, os.cpu_count()))
        try:
            world.start()
            problems += measure(world, options)
        finally:
            problems += world.stop()
            world.remove(None, "release")
    for problem in problems:
        print(f"    release: {problem}")
    print(f"{int(not problems)} passed, {int(bool(problems))} failed, 0 skipped")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
