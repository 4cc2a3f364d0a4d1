#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A bucket that has every module whose name begins with a word that it knows, made while it is asked for.

    bucket.py [--big FILE] [--rate BYTES]     prints `ready URL`; /hits is {word: GETs}

    warm-…, cold-…   a few KB         big-…   FILE, a symbol file, under the id that was asked for, with --rate so many bytes a second         tiny-…   1.2 KB
    slow-…           a byte a second, for a minute          anything else is missing
    buildid/510f…    the same: it is a debuginfod server, too

Each answer takes as long as one of a bucket in another building does."""

import argparse
import asyncio
import collections
import contextlib
import json
import urllib.parse

AWAY = 0.02  # seconds
SLOW = 60  # seconds
SLOW_ID = "510f"
FUNCTIONS = 60
BODY = "FILE 0 src/siege.c\n" + "".join(
    f"FUNC {0x1000 + 0x40 * i:x} 40 0 siege::number_{i}(int)\n{0x1000 + 0x40 * i:x} 40 {i} 0\n" for i in range(FUNCTIONS)
)
TINY = BODY[: BODY.index("FUNC", 1200)]
BIG, RATE = b"", None
HITS = collections.Counter()


def without_module_line(path):
    with open(path, "rb") as f:
        return f.read().partition(b"\n")[2]


async def answer(name, ident, writer):
    word = "slow" if name == "buildid" and ident.startswith(SLOW_ID) else name.partition("-")[0]
    HITS[word] += 1
    await asyncio.sleep(AWAY)
    body = {"warm": BODY.encode(), "cold": BODY.encode(), "tiny": TINY.encode(), "big": BIG, "slow": b"x" * SLOW}.get(word)
    if body is None:
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        return
    line = b"" if word == "slow" else f"MODULE Linux x86_64 {ident} {name}\n".encode()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(line) + len(body), line))
    step = 1 if word == "slow" else 1 << 20
    for at in range(0, len(body), step):
        writer.write(body[at : at + step])
        await writer.drain()
        if word == "slow":
            await asyncio.sleep(1)
        elif word == "big" and RATE:
            await asyncio.sleep(step / RATE)


async def serve(reader, writer):
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            path = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1].decode()
            parts = [urllib.parse.unquote(p) for p in path.strip("/").split("/")]
            if parts == ["hits"]:
                data = json.dumps(HITS).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data))
            else:
                await answer(parts[0], parts[1] if len(parts) > 1 else "", writer)
            await writer.drain()
    writer.close()


async def main():
    global BIG, RATE
    parser = argparse.ArgumentParser(description="A bucket of modules that are made while they are asked for.")
    parser.add_argument("--big", metavar="FILE")
    parser.add_argument("--rate", type=int, metavar="BYTES")
    options = parser.parse_args()
    RATE = options.rate
    BIG = without_module_line(options.big) if options.big else b""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4096, limit=1 << 16)
    print("ready http://127.0.0.1:%d/" % server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
