# SPDX-License-Identifier: Apache-2.0
"""Replies of many frames: their frames are those of small ones, and they are whole or refused."""

import random

import pytest

from client import job
from stack import Stack, seed_of, wait_for
from symbols import SAMPLE, debug_id

MANY, FEW = 4096, 512
PATHS = ["/symbolicate/v5", "/symbolicate/v4"]
SHORT = 1000
LONG = "n" * 2000


@pytest.fixture(scope="module")
def stack():
    with Stack(memcached=0, config={"max_reply": "4M"}) as s:
        yield s


@pytest.fixture(scope="module")
def modules(stack):
    """Short names, then long ones; another module; one that is nowhere."""
    functions = [f"FUNC {16 * i:x} 10 0 {f'short{i}' if i < SHORT else f'{i}{LONG}'}\n" for i in range(2 * SHORT)]
    return [stack.symbols.add("app.so", "".join(functions)), stack.symbols.add("sample.so", SAMPLE), ["nowhere.so", debug_id("nowhere.so")]]


def some_frames(count, name):
    chance = random.Random(f"{seed_of('large')} {name}")
    return [[chance.randrange(3), chance.choice([chance.randrange(16 * SHORT), 0x1010])] for _ in range(count)]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("count", [MANY - 1, MANY, 5 * MANY + 7])
def test_frames_are_those_of_small_replies(stack, modules, path, count):
    frames = some_frames(count, f"{path} {count}")
    stacks = [frames[: FEW - 5], frames[FEW - 5 : FEW + 5], frames[FEW + 5 :]]
    expected = {}
    for at in range(0, count, SHORT):
        reply = stack.client.post(path, job(modules, *[[f] for f in frames[at : at + SHORT]]))
        assert reply.headers["Content-Length"]
        value = reply.json()
        answers = value["results"][0]["stacks"] if path.endswith("v5") else value["symbolicatedStacks"]
        expected.update({at + i: a[0] for i, a in enumerate(answers)})
    for headers in ({}, {"Accept-Encoding": "gzip"}):
        reply = stack.client.post(path, job(modules, *stacks), **headers)
        assert reply.status == 200
        assert headers or "Content-Length" in reply.headers
        value = reply.json()
        got = value["results"][0]["stacks"] if path.endswith("v5") else value["symbolicatedStacks"]
        assert [len(s) for s in got] == [len(s) for s in stacks]
        if path.endswith("v5"):
            assert [f.pop("frame") for s in got for f in s] == [i for s in stacks for i in range(len(s))]
            assert value["results"][0]["found_modules"] == {f"{name}/{ident}": name != "nowhere.so" for name, ident in modules}
        assert [f for s in got for f in s] == [{k: v for k, v in e.items() if k != "frame"} if isinstance(e, dict) else e for e in map(expected.get, range(count))]


@pytest.mark.parametrize("coding", ["identity", "gzip"])
@pytest.mark.parametrize("count", [10, MANY])
def test_the_log_tells_the_bytes_of_the_body(stack, modules, count, coding):
    reply = stack.client.post(PATHS[0], job(modules, some_frames(count, "bytes")), Accept_Encoding=coding)
    assert reply.headers.get("Content-Encoding", "identity") == coding
    [line] = wait_for(lambda: [x for x in stack.daemon.log_lines() if x.get("id") == reply.headers["X-Request-Id"]], "its line")
    assert line["bytes_out"] == len(reply.raw)


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_a_reply_that_grows_too_large_is_refused(stack, modules, coding):
    """Its first frames promise a small one. It does not begin before all is known."""
    frames = [[0, 16 * (i % SHORT + SHORT * (i > 2 * FEW))] for i in range(MANY)]
    reply = stack.client.post(PATHS[0], job(modules, frames), Accept_Encoding=coding)
    assert reply.status == 400 and "too large" in reply.json()["error"]
    assert stack.client.frames(modules[1], [0x1000])[0]["function"] == "main"
    wait_for(lambda: stack.node.metrics()['symbolicated_memory_bytes{kind="replies"}'] == 0, "the account to be settled")


@pytest.mark.parametrize("first, name", [(SHORT, "app.so"), (0, LONG)], ids=["symbols", "names"])
def test_a_reply_that_will_be_too_large_is_refused(stack, modules, first, name):
    frames = [[i % 2, 16 * (first + i % SHORT)] for i in range(2 * MANY)]
    reply = stack.client.post(PATHS[0], job([modules[0], [name, debug_id(name)]], frames))
    assert reply.status == 400 and "too large" in reply.json()["error"]
