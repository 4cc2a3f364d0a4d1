#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The clients of one shape, until SIGTERM or for at most so many seconds; prints {"status": count} at its end.

    attack.py SHAPE --port N --tls-port N --from one|net|four --seconds S --seed N"""

import argparse
import asyncio
import collections
import contextlib
import json
import os
import random
import signal
import socket
import ssl
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "wire"))

import http2  # noqa: E402
from shapes import SHAPES  # noqa: E402

REQUESTS = 20_000  # of one siege at most
SO_MAX_PACING_RATE = 47  # <asm-generic/socket.h>
REFUSED = 0.2  # seconds that a client waits after it was refused: less would make this program the load


class Client:
    """One attacker: an address, or a network whose addresses it takes in turn."""

    def __init__(self, where, number):
        self.where, self.number = where, number
        self.random = random.Random(number)

    def address(self):
        if self.where == "net":
            return "2001:db8:5:1e6e:" + ":".join("%x" % self.random.randrange(1, 1 << 16) for _ in range(4))
        return f"203.0.113.{self.number + 1}"


class Attack:
    def __init__(self, shape, options):
        self.shape, self.options = shape, options
        self.results, self.left = collections.Counter(), REQUESTS
        self.tls = ssl.create_default_context()
        self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE
        self.tls.set_alpn_protocols(["h2"])

    async def run(self):
        clients = [Client(self.options.where, i) for i in range(4 if self.options.where == "four" else 1)]
        one = self.streams if self.shape.http2 else self.requests
        tasks = [asyncio.create_task(one(c)) for c in clients for _ in range(self.shape.connections)]
        end = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, end.set)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(end.wait(), self.options.seconds)
        self.left = 0  # wait_for may keep a cancellation for itself
        while tasks:
            for task in tasks:
                task.cancel()
            _, tasks = await asyncio.wait(tasks, timeout=0.2)

    async def requests(self, client):
        """One after the other on connections of their own."""
        while self.left > 0:
            self.left -= 1
            try:
                status = await asyncio.wait_for(self.request(client), self.shape.leaves)
            except asyncio.TimeoutError:
                status = "left"
            except (OSError, asyncio.IncompleteReadError):
                status = "cut"
            self.results[status] += 1
            if status != "200":
                await asyncio.sleep(REFUSED)

    async def request(self, client):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.options.port, limit=1 << 16)
        if self.shape.line:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, self.shape.line // self.shape.connections)
        try:
            body = self.shape.body()
            lines = [f"{self.shape.method} {self.shape.path} HTTP/1.1", "Host: x", "Connection: close", f"X-Forwarded-For: {client.address()}"]
            lines += [f"{name}: {value}" for name, value in (*self.shape.headers, ("Content-Length", len(body)))]
            writer.write("\r\n".join([*lines, "", ""]).encode())
            with contextlib.suppress(OSError):  # refused before it was sent: the reply is there all the same
                await self.send(writer, body)
            if self.shape.reads == "nothing":
                await asyncio.sleep(self.options.seconds)
            return await self.read(reader)
        finally:
            writer.transport.abort()

    async def send(self, writer, body):
        if self.shape.sends:
            for at in range(len(body)):
                writer.write(body[at : at + 1])
                await asyncio.sleep(1 / self.shape.sends)
        else:
            for at in range(0, len(body), 1 << 18):
                writer.write(body[at : at + (1 << 18)])
                await writer.drain()

    async def read(self, reader):
        status = (await reader.readline()).split(b" ")
        if self.shape.reads == "slow":
            while await reader.read(1):
                await asyncio.sleep(1)
        while await reader.read(1 << 18):
            pass
        return status[1].decode() if len(status) > 1 else "cut"

    async def streams(self, client):
        """One connection of HTTP/2 after the other; what is answered is not looked at."""
        while self.left > 0:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.options.tls_port, ssl=self.tls)
                try:
                    writer.write(http2.BEGIN)
                    for i in range(self.shape.http2):
                        self.left -= 1
                        self.results["stream"] += 1
                        headers = {"x-forwarded-for": client.address()}
                        writer.write(http2.request(2 * i + 1, "POST", self.shape.path, headers, self.shape.body()))
                    await writer.drain()
                    with contextlib.suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(reader.read(-1), 3)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(REFUSED)


def main():
    parser = argparse.ArgumentParser(description="The clients of one shape.")
    parser.add_argument("shape")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--tls-port", type=int, required=True)
    parser.add_argument("--from", dest="where", choices=("one", "net", "four"), required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    attack = Attack({s.name(): s for s in SHAPES}[options.shape](options.seed), options)
    print("made", flush=True)
    asyncio.run(attack.run())
    print(json.dumps(attack.results), flush=True)


if __name__ == "__main__":
    main()
