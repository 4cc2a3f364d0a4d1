#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Servers of /symbolicate/v5 beside each other, warm: frames of one module, one connection, one server after the other, several rounds.

    tests/bench/one_module.py FILE.sym NAME=URL=PID[,PID...] [NAME=URL=PID...] [--seconds 2] [--rounds 3] [--frames 25] [--seed 1]

All of them must read a bucket that has the file. A server's processor time is that of its processes (PID) and their children. A request
has random offsets that lie in functions of the file. How many frames of the first server's the others name alike is printed, too."""

import argparse
import http.client
import json
import os
import random
import re
import statistics
import time
import urllib.parse

TICKS = os.sysconf("SC_CLK_TCK")
BOUND = 300  # seconds for one answer
REQUESTS = 50  # different ones


def processes(pids):
    """These and those that they have started."""
    for pid in pids:
        yield pid
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as f:
                yield from processes(f.read().split())


def processor_time(pids):
    total = 0
    for pid in set(processes(pids)):
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            fields = f.read().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


class Server:
    def __init__(self, text):
        self.name, url, pids = text.split("=")
        self.url, self.pids = urllib.parse.urlsplit(url), pids.split(",")
        self.path = self.url.path.rstrip("/") + "/symbolicate/v5"
        self.connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=BOUND)
        self.medians, self.costs = [], []

    def ask(self, body):
        """The functions, and how long the answer took. A server that closes connections gets a new one each time."""
        start = time.perf_counter()
        self.connection.request("POST", self.path, body, {"Content-Type": "application/json"})
        reply = self.connection.getresponse()
        text = reply.read()
        took = time.perf_counter() - start
        if reply.status != 200:
            raise SystemExit(f"{self.name}: {reply.status} {text[:200]}")
        return [f.get("function") for f in json.loads(text)["results"][0]["stacks"][0]], took

    def round(self, bodies, seconds):
        took, before, end = [], processor_time(self.pids), time.monotonic() + seconds
        while time.monotonic() < end:
            took.append(self.ask(bodies[len(took) % len(bodies)])[1])
        self.medians.append(statistics.median(took) * 1000)
        self.costs.append((processor_time(self.pids) - before) / len(took) * 1000)


def spread(values):
    return f"{statistics.median(values):.3g} ({min(values):.3g}–{max(values):.3g})"


def requests_of(path, options):
    """Offsets, each in a function with a size."""
    with open(path, encoding="utf-8", errors="replace") as f:
        _, _, _, ident, name = f.readline().rstrip("\n").split(" ", 4)
        functions = re.findall(r"^FUNC (?:m )?([0-9a-f]+) ([1-9a-f][0-9a-f]*) ", f.read(), re.M)
    chance = random.Random(options.seed)
    for _ in range(REQUESTS):
        chosen = [(int(at, 16), int(size, 16)) for at, size in chance.choices(functions, k=options.frames)]
        stack = [[0, at + chance.randrange(size)] for at, size in chosen]
        yield json.dumps({"jobs": [{"memoryMap": [[name, ident]], "stacks": [stack]}]})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("servers", nargs="+")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frames", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    bodies = list(requests_of(options.file, options))
    servers = [Server(text) for text in options.servers]
    answers = [[server.ask(body)[0] for body in bodies] for server in servers]  # then it is warm
    for _ in range(options.rounds):
        for server in servers:
            server.round(bodies, options.seconds)
    print(f"{options.frames} frames of {os.path.basename(options.file)}, seed {options.seed}: median (least to most of {options.rounds} rounds)")
    for server, own in zip(servers, answers):
        pairs = [(a, b) for first, other in zip(answers[0], own) for a, b in zip(first, other)]
        alike = sum(a == b for a, b in pairs)
        print(f"{server.name:20} {spread(server.medians)} ms; processor time {spread(server.costs)} ms a request; {alike} of {len(pairs)} frames alike")


main()
