#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many hosts, and how much memory: docs/hosts.md says how to read the answer, and what was measured.

    contrib/plan.py --requests 2000 --symbols 40 [--frames 25] [--modules 5000] [--cores 4] [--responders 1] [--memcached 2] [--gbit 1]

--requests: a second, in the busiest hour. --symbols: gigabytes of symbol files in use, as text. --frames: of a request.
--modules: how many modules are in use. --cores, --responders: of a host. --memcached: servers, of --gbit each."""

import argparse
import math
import sys

# Processor time, seconds (docs/hosts.md, docs/performance.md).
RESPONDER, FRAME, NGINX = 65e-6, 1.2e-6, 85e-6  # of a request, of each of its frames, of a request in nginx
BUSY = 0.6  # of the cores: above it replies wait
HELD = 0.6  # bytes in a process's cache for a byte of text, when all of it is used
STORED, ROOM = 0.17, 1.3  # bytes in memcached for a byte of text; what memcached takes beside
MISS = 650.0  # bytes from memcached for a frame whose page is not in the process
CHECK = 150.0  # bytes from memcached for a module that is looked at again
REVALIDATE = 5.0  # seconds: revalidate_after
THREADS, TRANSFERS = 3, 16  # workers a core, bucket_parallel
LOADERS, OTHERS = 2, 12  # connections to each memcached server for a transfer, and of other threads; each worker has one
CONNECTIONS = 1024  # memcached's -c
GB, GBIT = 1e9, 1e9 / 8


def plan(given):
    """Rows of (what, value) and what stands in the way, nearest first."""
    request = RESPONDER + given.frames * FRAME + NGINX
    working = max(1, math.ceil(given.requests * request / (given.cores * BUSY)))
    hosts = working + 1
    processes = hosts * given.responders
    cache = HELD * given.symbols * GB
    stored = STORED * ROOM * given.symbols * GB
    checks = min(given.requests * min(given.frames, given.modules), given.modules * processes / REVALIDATE)
    warm = checks * CHECK
    missing = warm + given.requests * given.frames * MISS
    connections = processes * (THREADS * given.cores / given.responders + LOADERS * TRANSFERS + OTHERS)
    link = given.memcached * given.gbit * GBIT
    rows = [
        ("hosts, one of which may be down", f"{hosts}"),
        ("processor time of a request", f"{request * 1e6:.0f} us"),
        ("cache_size of each process, all in use", f"{cache / GB:.1f} GB"),
        ("memcached -m of each server", f"{stored / given.memcached / 1e6:.0f} MB"),
        ("memcached -c of each server, at least", f"{connections:.0f}"),
        ("from memcached, everything in the processes", f"{warm / 1e6:.1f} MB/s"),
        ("from memcached, nothing in the processes", f"{missing / 1e6:.1f} MB/s"),
        ("from the bucket, once a day (root_max_age)", f"{given.symbols:.1f} GB"),
    ]
    walls = [
        (connections / CONNECTIONS, "connections of each memcached server: raise -c"),
        (missing / link, "the links of memcached, should the processes hold nothing: raise cache_size, or add servers"),
        (warm / link, "the links of memcached, with everything in the processes: raise revalidate_after, or add servers"),
    ]
    return rows, sorted(walls, reverse=True)


def positive(text):
    value = float(text)
    if not 0 < value < 1e12:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def whole(text):
    value = int(text)
    if not 1 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text} is not from 1 to 1000")
    return value


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=positive, required=True, help="a second, in the busiest hour")
    parser.add_argument("--symbols", type=positive, required=True, help="gigabytes of symbol files in use, as text")
    parser.add_argument("--frames", type=positive, default=25, help="of a request (25)")
    parser.add_argument("--modules", type=positive, default=5000, help="in use (5000)")
    parser.add_argument("--cores", type=whole, default=4, help="of a host (4)")
    parser.add_argument("--responders", type=whole, default=1, help="of a host (1)")
    parser.add_argument("--memcached", type=whole, default=2, help="servers (2)")
    parser.add_argument("--gbit", type=positive, default=1, help="of the link of each (1)")
    rows, walls = plan(parser.parse_args())
    for what, value in rows:
        print(f"{what:45}{value:>12}")
    print("\nin use of what may become too small first:")
    for share, what in walls:
        print(f"{share:5.0%}  {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
