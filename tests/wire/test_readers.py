# SPDX-License-Identifier: Apache-2.0
"""Clients that do not read their replies, or slowly: they hold no worker, and nginx keeps nothing in files for them."""

import contextlib
import gzip
import http.client
import json
import os
import random
import socket
import time

import pytest

from client import job
from stack import RawMemcached, Stack, children, opened, wait_for
from symbols import Symbols, debug_id, module_line

APP = ["app", debug_id("app")]
FUNCTIONS, FRAMES, READERS = 2000, 15_000, 8
WAITING, SLOW = "symbolicated_replies_waiting", "symbolicated_replies_slow_total"
EVICTED = "symbolicated_cache_evicted_bytes_total"


def add(stack, module, size):
    """Functions with names of this many random bytes, which hardly compress."""
    noise = random.Random(29)
    stack.symbols.add(module[0], "".join(f"FUNC {0x1000 + 16 * i:x} 10 0 f{noise.randbytes(size).hex()}\n" for i in range(FUNCTIONS)), module[1])


def make(**config):
    """One worker only. With so much time every reply begins early, however slow its first part is."""
    s = Stack(memcached=0, config={"workers": "1", "request_timeout": "1h", "io_timeout": "10m", **config})
    s.start()
    add(s, APP, 400)
    return s


@pytest.fixture(scope="module")
def stack():
    s = make()
    yield s
    s.stop()


def body_of(frames):
    return json.dumps(job([APP], [[0, 0x1000 + 16 * (i * 997 % FUNCTIONS)] for i in range(frames)]))


BODY = body_of(FRAMES)


def ask(stack, headers=(), body=BODY, method="POST", path="/symbolicate/v5"):
    """Asks and reads nothing; what is on the way is little."""
    connection = stack.client.connect()
    connection.sock = socket.socket()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    connection.sock.settimeout(60)
    connection.sock.connect((connection.host, connection.port))
    connection.request(method, path, body, dict(headers))
    return connection


def replies_in_files(stack):
    """Files that nginx has open and removed already."""
    return [name for pid in children(stack.node.nginx.process.pid) for name in opened(pid) if "/tmp-fastcgi/" in name]


def names(data):
    (stack,) = json.loads(data)["results"][0]["stacks"]
    return [frame["function"] for frame in stack]


def test_readers_that_read_nothing_hold_no_worker(stack):
    connections = [ask(stack, {"Accept-Encoding": "gzip"} if i % 2 else ()) for i in range(READERS)]
    wait_for(lambda: stack.node.metrics()[WAITING] == READERS, "all replies to wait for their readers", 180)
    assert stack.node.metrics()["symbolicated_memory_beside_bytes"] > 1 << 20  # programs and stacks of threads at least
    assert stack.node.metrics()['symbolicated_memory_bytes{kind="replies"}'] > 0
    assert len(names(stack.client.post("/symbolicate/v5", job([APP], [[0, 0x1000]])).body)) == 1
    assert replies_in_files(stack) == []
    seen = set()
    for i, connection in enumerate(connections):
        reply = connection.getresponse()
        data = reply.read()
        assert i % 2 or int(reply.getheader("Content-Length")) == len(data)
        seen.add(gzip.decompress(data) if i % 2 else data)
        connection.close()
    (data,) = seen
    assert len(names(data)) == FRAMES
    wait_for(lambda: stack.node.metrics()['symbolicated_memory_bytes{kind="replies"}'] == 0, "the account to be settled")
    assert stack.node.metrics()[WAITING] == 0 and stack.node.metrics()[SLOW] == 0


def test_a_reader_that_leaves_ends_its_reply(stack):
    connection = ask(stack)
    wait_for(lambda: stack.node.metrics()[WAITING] == 1, "the reply to wait for its reader")
    connection.close()
    wait_for(lambda: stack.node.metrics()[WAITING] == 0, "the reply to end")
    wait_for(lambda: any(line.get("aborted") and "slow" not in line for line in stack.daemon.log_lines()), "its line")


def test_a_reader_that_is_too_slow_is_cut_off():
    s = make(io_timeout="1s", reply_rate_min="1M")
    try:
        connection = ask(s)
        wait_for(lambda: s.node.metrics()[SLOW] == 1, "the reader to be given up")
        wait_for(lambda: any(line.get("slow") == 1 and line["reader_seconds"] >= 1 for line in s.daemon.log_lines()), "its line")
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            connection.getresponse().read()
    finally:
        s.stop()


@pytest.mark.slow
def test_a_reply_keeps_its_pages_while_its_reader_is_waited_for():
    """Although they have left the cache, and memcached has lost them."""
    other, sizes = ["other", debug_id("other")], {"cache_size": "64M", "finish_after": "0"}
    with Stack(config={"workers": "1", "request_timeout": "1h", "io_timeout": "10m", **sizes}) as s:
        add(s, APP, 8000)
        add(s, other, 14000)
        body = body_of(5000)
        expected = s.client.post("/symbolicate/v5", json.loads(body)).body
        s.node.settled()
        connection = ask(s, body=body)
        wait_for(lambda: s.node.metrics()[WAITING] == 1, "the reply to wait for its reader")
        before = s.node.metrics()[EVICTED]
        s.client.frames(other, [0x1000 + 16 * i for i in range(FUNCTIONS)])
        s.node.settled()
        wait_for(lambda: s.node.metrics()[EVICTED] > before + (16 << 20), "pages to leave memory")
        with RawMemcached(s.memcached[0].address) as raw:
            raw.flush()
        assert connection.getresponse().read() == expected
        connection.close()
        assert s.bucket.hits(APP) == 1
        wait_for(lambda: s.node.metrics()['symbolicated_memory_bytes{kind="replies"}'] == 0, "the account to be settled")


# ---- files as they are stored ----

LIB = "lib.so"
SYM = f"/{LIB}/{debug_id(LIB)}/{LIB}.sym"
FILE = module_line(LIB, debug_id(LIB)) + ("FUNC 1000 10 0 a\n" + "1000 10 1 0\n" * 100_000).encode() * 14
MB = 1 << 20


@contextlib.contextmanager
def files_served(place, kind, temporary, **config):
    """A stack with FILE in a source of this kind, whose nginx may keep so much of a reply in a file. Its timeouts are shorter than
    the readers take."""
    quick = {"downloads": "stream", "bucket_stall_timeout": "2s", "bucket_total_timeout": "2s", "io_timeout": "500ms", **config}
    symbols = Symbols(str(place))
    symbols.put(LIB, debug_id(LIB), FILE)
    os.chmod(place, 0o755)
    os.chmod(place.parent, 0o755)
    stack = Stack(symbols=str(place), memcached=0, config=quick)
    if kind == "file":
        stack = Stack(bucket=False, memcached=0, config={**quick, "source": f"file://{place}"})
    with stack as s:
        nginx = s.node.nginx
        nginx.stop()
        nginx.conf["changes"] = [("symbolicated-server.conf", "fastcgi_max_temp_file_size 60m", f"fastcgi_max_temp_file_size {temporary}")]
        nginx.start()
        yield s


def pieces_at(reply, rate):
    """What arrives, read at so many bytes a second in the mean."""
    begin, got = time.monotonic(), 0
    while piece := reply.read(1 << 16):
        got += len(piece)
        yield piece
        time.sleep(max(0, begin + got / rate - time.monotonic()))


@pytest.mark.slow
@pytest.mark.in_turn
@pytest.mark.parametrize("kind, temporary", [("http", "8m"), ("http", "0"), ("file", "0")])
def test_a_slow_download_that_keeps_the_rate_is_whole(tmp_path, kind, temporary):
    """nginx that keeps a part in a file takes nothing more until the reader has that; what keeps none waits at each piece."""
    with files_served(tmp_path / "symbols", kind, temporary, reply_rate_min="1M") as s:
        reply = ask(s, method="GET", path=SYM, body=None).getresponse()
        assert b"".join(pieces_at(reply, 3 * MB)) == FILE
        assert s.node.metrics()[SLOW] == 0


@pytest.mark.slow
@pytest.mark.parametrize("temporary", ["2m", "0"])
def test_a_download_below_the_rate_is_cut_off(tmp_path, temporary):
    with files_served(tmp_path / "symbols", "http", temporary, reply_rate_min="8M") as s:
        reply = ask(s, method="GET", path=SYM, body=None).getresponse()
        slowly = pieces_at(reply, MB)
        wait_for(lambda: next(slowly) and s.node.metrics()[SLOW] == 1, "the reader to be given up")
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            reply.read()
