#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a request costs one or two application hosts: tests/faults/hosts.py's hosts, and every request of the corpus from a cold, a
warm, and an empty process before a full memcached; then the warm ones beside a client that asks for 60,000 frames at a time.

    tests/bench/bench_hosts.py 1|2 [--scale 0.2] [--requests 2141]      SYMBOLICATED=PATH of the program, SHARED_DATA=FOLDER of the requests

docs/hosts.md says what follows from it. Costs are processor time and bytes, which a busy machine hardly changes; how long small requests
took is told for those alone and those beside large ones, which met the same machine."""

import argparse
import concurrent.futures
import gzip
import json
import os
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
for folder in ("faults", "wire", "tools"):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), folder))

import network  # noqa: E402
from client import Client  # noqa: E402
from hosts import HTTP, HostsWorld  # noqa: E402
from stack import wait_for  # noqa: E402
from symbols import make_bucket  # noqa: E402
from world import CONFIG  # noqa: E402

CLIENTS = 8
LARGE = 60_000  # frames
TICK = os.sysconf("SC_CLK_TCK")
REQUESTS = os.path.join(os.environ.get("SHARED_DATA", os.path.join(os.path.dirname(os.path.dirname(HERE)), "shared", "data")), "requests.jsonl.gz")


class Measured(HostsWorld):
    memory = 1024
    settings = {**CONFIG, "cache_size": "1G", "revalidate_after": "5s", "missing_ttl": "10m", "bucket_total_timeout": "60s", "log_level": "warning"}

    def __init__(self, applications, *args):
        self.applications = applications
        super().__init__(*args, small_disks=False)

    def ask_all(self, bodies):
        """Every request once; returns the number of frames."""
        frames = 0
        self.times = []  # seconds of each

        def ask(part):
            client = Client(HTTP, keep=True, host=self.host)
            asked = 0
            for body in part:
                started = time.monotonic()
                reply = client.post("/symbolicate/v5", body)
                self.times.append(time.monotonic() - started)
                assert reply.status == 200, reply
                asked += sum(len(s) for s in reply.json()["results"][0]["stacks"])
            client.close()
            return asked

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            frames = sum(pool.map(ask, [bodies[i::CLIENTS] for i in range(CLIENTS)]))
        for host in self.hosts:
            wait_for(lambda host=host: host.metrics()["symbolicated_loads_in_flight"] == 0, "loads to end", 60)
        return frames

    def ask_beside(self, bodies, large):
        """The same, while one more client asks the large request again and again; returns how often."""
        stop = threading.Event()

        def ask():
            client, asked = Client(HTTP, keep=True, host=self.host, timeout=120), 0
            while not stop.is_set():
                reply = client.post("/symbolicate/v5", large)
                assert reply.status == 200, reply
                asked += 1
            client.close()
            return asked

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ask)
            try:
                self.ask_all(bodies)
            finally:
                stop.set()
            return asked.result()

    def costs(self):
        """Since their start: processor seconds of responders and of nginx, bytes of memcached's connections, and of the bucket."""
        stats = []
        for server in self.memcached:
            with server.raw() as raw:
                stats.append(raw.stats())
        metrics = [h.metrics() for h in self.hosts]
        return {
            "responder": sum(m["process_cpu_seconds_total"] for m in metrics),
            "nginx": sum(processor_seconds(pid) for h in self.hosts for pid in h.nginx.processes()),
            "from memcached": sum(int(s["bytes_written"]) for s in stats),
            "to memcached": sum(int(s["bytes_read"]) for s in stats),
            "from the bucket": sum(m['symbolicated_download_bytes_total{form="wire"}'] for m in metrics),
            "loads": sum(m["symbolicated_loads_total"] for m in metrics),
        }


def large_request(bodies):
    """Of the corpus's modules and stacks."""
    jobs = [json.loads(body) for body in bodies[:100]]
    times = LARGE // sum(len(stack) for job in jobs for stack in job["stacks"])
    return json.dumps({"jobs": [{"memoryMap": job["memoryMap"], "stacks": job["stacks"] * times} for job in jobs]})


def shown(times):
    times = sorted(times)
    return f"{1e3 * times[len(times) // 2]:.1f} ms, {1e3 * times[len(times) * 99 // 100]:.1f} ms at the 99th of 100"


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def show(hosts, state, requests, frames, before, after):
    cost = {name: after[name] - before[name] for name in after}
    print(
        f"| {hosts} | {state} | {frames / requests:.1f} | {1e6 * cost['responder'] / requests:.0f} | {1e6 * cost['nginx'] / requests:.0f}"
        f" | {cost['from memcached'] / requests:.0f} | {cost['to memcached'] / requests:.0f} | {cost['from the bucket'] / requests:.0f} | {cost['loads']:.0f} |",
        flush=True,
    )


def measure(number, bodies, scale):
    world = Measured("ab"[:number], 1, threading.Event())
    try:
        world.start()
        make_bucket(world.gensym, REQUESTS, world.s3.symbols.directory, "--scale", str(scale))
        for state in ("cold", "warm", "from memcached"):
            if state == "from memcached":
                for host in world.hosts:
                    host.daemon.stop()
                    host.daemon.start()
                    wait_for(lambda host=host: world.balancer.is_up(host.name), "the balancer to see it", 30)
            if state == "warm":
                world.ask_all(bodies)  # so that every host has met most modules
            before = world.costs()
            frames = world.ask_all(bodies)
            show(len(world.hosts), state, len(bodies), frames, before, world.costs())
        world.ask_all(bodies)
        before = world.costs()["responder"]
        world.ask_all(bodies)
        alone, small = world.costs()["responder"] - before, world.times
        before = world.costs()["responder"]
        asked = world.ask_beside(bodies, large_request(bodies))
        beside = world.costs()["responder"] - before
        print(f"small requests alone: {shown(small)}; beside {asked} of {LARGE} frames: {shown(world.times)}")
        print(f"a request of {LARGE} frames costs the responders {1e3 * (beside - alone) / max(1, asked):.0f} ms of processor time")
    finally:
        for problem in world.stop():
            print(problem)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hosts", type=int, choices=(1, 2))
    parser.add_argument("--scale", type=float, default=0.2, help="of the symbol files, see mkbucket.py")
    parser.add_argument("--requests", type=int, default=2141, help="how many of the corpus")
    given = parser.parse_args()
    if not os.path.exists(REQUESTS):
        sys.exit(f"no requests: {REQUESTS}")
    why = network.why_not()
    if why:
        sys.exit(why)
    network.enter()
    with gzip.open(REQUESTS, "rt") as lines:
        bodies = [json.dumps(json.loads(line)) for _, line in zip(range(given.requests), lines)]
    print("| hosts | caches | frames a request | responder, us a request | nginx, us | bytes from memcached | to memcached | from the bucket | loads |")
    print("|---|---|---|---|---|---|---|---|---|")
    measure(given.hosts, bodies, given.scale)


if __name__ == "__main__":
    main()
