# SPDX-License-Identifier: Apache-2.0
"""Requests with the modules of a whole process, most of them small, that nobody asked for before; with little memory. Another
client asks for one new module beside them, again and again."""

import collections
import http.client
import json
import threading
import time

import pytest

from client import job
from stack import Stack, wait_for
from symbols import Symbols

pytestmark = pytest.mark.plain  # a sanitizer takes the memory for itself

USUAL = {"finish_after": "30s", "request_timeout": "30s"}  # the first is the default


def text_of(size):
    """Lines of a symbol file of about this size."""
    lines = ["FILE 0 a.c\nFUNC 1000 10 0 first\n1000 10 1 0\n"]
    while sum(map(len, lines[:3])) + len(lines) * len(lines[-1]) < size:
        at = 0x1000 + 16 * len(lines)
        lines.append(f"FUNC {at:x} 10 0 function_number_{len(lines):06}\n{at:x} 10 7 0\n")
    return "".join(lines)


class Burst:
    """Requests at the same time with so many new modules each, while another client asks for one module each."""

    def __init__(self, stack, symbols, requests, modules, size):
        self.stack, self.answers, self.beside, self.over = stack, collections.Counter(), [], threading.Event()
        text = text_of(size)
        self.wanted = [[symbols.add(f"m{r}.{i}.so", text) for i in range(modules)] for r in range(requests)]
        self.single = [symbols.add(f"single{i}.so", text_of(1200)) for i in range(400)]

    def ask(self, modules, address):
        """The status; "wrong" of an answer that lacks a name."""
        connection = http.client.HTTPConnection("127.0.0.1", self.stack.node.client().port, timeout=120, source_address=(address, 0))
        body = job(modules, [[i, 0x1004] for i in range(len(modules))])
        connection.request("POST", "/symbolicate/v5", json.dumps({"jobs": [body]}))
        reply = connection.getresponse()
        data = reply.read()
        connection.close()
        if reply.status != 200:
            return reply.status
        (stack,) = json.loads(data)["results"][0]["stacks"]
        return 200 if all(frame.get("function") == "first" for frame in stack) else "wrong"

    def ask_beside(self):
        for module in self.single:
            start = time.monotonic()
            self.beside.append((self.ask([module], "127.0.0.3"), time.monotonic() - start))
            if self.over.wait(0.1):
                return

    def ask_all(self):
        """Returns how long all took."""
        lock = threading.Lock()

        def ask_one(modules):
            status = self.ask(modules, "127.0.0.2")
            with lock:
                self.answers[status] += 1

        threads = [threading.Thread(target=ask_one, args=(modules,)) for modules in self.wanted]
        single, start = threading.Thread(target=self.ask_beside), time.monotonic()
        for thread in (*threads, single):
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - start
        self.over.set()
        single.join()
        return took

    def check(self):
        took = self.ask_all()
        print(f"{len(self.wanted)} requests: {took:.1f} s; one module: at most {max(t for _, t in self.beside):.2f} s")
        assert self.answers == {200: len(self.wanted)}
        assert {status for status, _ in self.beside} == {200}
        assert max(seconds for _, seconds in self.beside) < 10  # not as long as the others


@pytest.fixture
def place(tmp_path):
    tmp_path.chmod(0o755)
    return Symbols(str(tmp_path / "symbols"))


def stack_of(place, **config):
    return Stack(memcached=0, bucket=False, config={**USUAL, "source": f"file://{place.directory}", **config})


def test_many_small_modules(place):
    """Each kept 268 KB until it was finished: all got 503 when their time was over."""
    with stack_of(place, memory="80M", cache_size="16M") as stack:
        burst = Burst(stack, place, requests=4, modules=100, size=1200)
        burst.check()
        assert stack.node.metrics()["symbolicated_cache_bytes"] < 16 << 20


@pytest.mark.slow
def test_requests_that_fill_the_memory_together(place):
    """Each holds modules for which it lacks the rest, and there is not enough for all: they waited for each other."""
    with stack_of(place, memory="128M", request_timeout="120s") as stack:
        Burst(stack, place, requests=5, modules=60, size=400_000).check()
        stack.check()


@pytest.mark.slow
def test_a_request_that_fills_the_memory_alone(place):
    """It is refused at once, not when its time is over, and what it held is free for others."""
    with stack_of(place, memory="96M", request_timeout="120s") as stack:
        burst = Burst(stack, place, requests=1, modules=300, size=400_000)
        assert burst.ask_all() < 60
        assert burst.answers == {503: 1}
        assert {status for status, _ in burst.beside} == {200}


def test_small_modules_are_finished_soon(place):
    """When nothing else is to do, one after the other without a pause: it was one a second."""
    with stack_of(place, finish_after="1s") as stack:
        burst = Burst(stack, place, requests=1, modules=100, size=1200)
        burst.check()
        wait_for(lambda: stack.node.metrics()['symbolicated_memory_bytes{kind="texts"}'] == 0, "no text to be kept", bound=30)
