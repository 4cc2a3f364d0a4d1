# SPDX-License-Identifier: Apache-2.0
"""GET /api/missing: what was asked for and not found."""

import http.client
import json
import time

import pytest

from client import job
from stack import Stack, wait_for
from symbols import SAMPLE, debug_id

KEPT = 4096  # MISSING_MAX of symfiles/missing.h


def listed(stack, node=0):
    reply = stack.nodes[node].client().get("/api/missing", Authorization=stack.key)
    assert reply.status == 200, reply
    return reply.json()["missing"]


def ask(stack, *modules, node=0, **headers):
    reply = stack.nodes[node].client().post("/symbolicate/v5", job(modules, [[i, 0x1000] for i in range(len(modules))]), **headers)
    assert reply.status == 200, reply


def module(name):
    return [name, debug_id(name)]


@pytest.fixture(scope="module")
def two():
    with Stack(keys=True, daemons=2, config={"downloads": "stream", "missing_ttl": "0"}) as s:
        yield s


def test_the_most_wanted_come_first(two):
    there = two.symbols.add("there.so", SAMPLE)
    before = time.time()
    ask(two, module("one.so"), module("three.so"), there, ["no/name.so", debug_id("three.so")])
    ask(two, module("three.so"), User_Agent="old/1")
    ask(two, [module("three.so")[0], module("three.so")[1].lower()], User_Agent="crash-stats/2 é\x7f")
    found = {m["debug_file"]: m for m in listed(two)}
    assert [m["debug_file"] for m in listed(two) if m["debug_file"] in ("one.so", "three.so")] == ["three.so", "one.so"]
    three = found["three.so"]
    assert three["debug_id"] == debug_id("three.so") and three["count"] == 3
    assert three["agent"] == "crash-stats/2 ???" or three["agent"].startswith("crash-stats/2 ?")
    assert before - 2 <= three["first"] <= three["last"] <= time.time() + 2
    assert found["one.so"]["count"] == 1 and not {"there.so", "no/name.so", "name.so"} & set(found)


def test_hosts_share_the_list(two):
    """Also what one asked for last, without another request."""
    ask(two, module("shared.so"), node=0)
    ask(two, module("shared.so"), node=1)
    ask(two, module("shared.so"), node=1)

    def on_all():
        return [[m["count"] for m in listed(two, node) if m["debug_file"] == "shared.so"] for node in (0, 1)] == [[3], [3]]

    wait_for(on_all, "both hosts to tell the sum")


def test_a_download_in_vain_counts_too(two):
    name, ident = module("wanted.so")
    for _ in range(2):
        two.client.get(f"/{name}/{ident}/{name}.sym").error(404)
    assert [m["count"] for m in listed(two) if m["debug_file"] == name] == [2]


def test_one_line_a_day(two):
    for _ in range(3):
        ask(two, module("logged.so"), User_Agent="who/1")
    lines = [line["text"] for line in two.daemon.log_lines() if line.get("event") == "missing" and "logged.so" in line["text"]]
    assert lines == [f"logged.so/{debug_id('logged.so')}, asked for by who/1"]


def test_only_for_keys(two):
    two.client.get("/api/missing").error(401)
    two.client.get("/api/missing", Authorization="APIKey bm9ib2R5OmtleQ==").error(403)
    reply = two.client.request("POST", "/api/missing", b"")
    reply.error(405)
    assert reply.headers["Allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.in_turn
@pytest.mark.slow
def test_what_somebody_makes_up_is_bounded_and_displaces_nothing_that_is_wanted():
    with Stack(keys=True, memcached=1) as s:
        began = time.monotonic()
        for _ in range(3):
            ask(s, module("wanted.so"))
        for batch in range(7):
            ask(s, *(module(f"noise{batch}.{i}.so") for i in range(900)), ["x" * 200 + ".so", debug_id("x")])
        reply = s.client.get("/api/missing", Authorization=s.key).json()
        assert KEPT * 0.8 < reply["modules"] <= KEPT
        assert len(reply["missing"]) == 1000 and reply["missing"][0]["debug_file"] == "wanted.so"
        lines = [line for line in s.daemon.log_lines() if line.get("event") == "missing"]
        assert len(lines) <= 60 * (2 + (time.monotonic() - began) // 60)


@pytest.mark.slow
def test_one_client_pushes_nothing_off_the_list_that_several_want():
    """However many names it makes up, and however often it asks for each."""
    with Stack(keys=True, memcached=1, config={"missing_ttl": "0"}) as s:
        for address in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
            connection = http.client.HTTPConnection("127.0.0.1", s.client.port, timeout=60, source_address=(address, 0))
            connection.request("POST", "/symbolicate/v5", json.dumps(job([module("wanted.so")], [[0, 0x1000]])))
            assert connection.getresponse().status == 200
            connection.close()
        for batch in range(12):
            for _ in range(5):
                ask(s, *(module(f"noise{batch}.{i}.so") for i in range(900)))
        first = listed(s)[0]
        assert (first["debug_file"], first["clients"], first["count"]) == ("wanted.so", 3, 3)
        assert all(m["clients"] == 1 for m in listed(s)[1:])


def test_a_restart_loses_nothing_that_memcached_has():
    with Stack(keys=True) as s:
        ask(s, module("before.so"))
        s.daemon.stop()
        s.daemon.start()
        ask(s, module("before.so"))
        assert [m["count"] for m in listed(s)] == [2]


def test_without_memcached():
    with Stack(keys=True, memcached=0) as s:
        ask(s, module("alone.so"))
        assert [m["debug_file"] for m in listed(s)] == ["alone.so"]


def test_a_silent_memcached_makes_no_shorter_list():
    with Stack(keys=True, config={"memcached_timeout": "200ms"}) as s:
        ask(s, module("before.so"))
        with s.memcached[0].suspended():
            assert s.client.get("/api/missing", Authorization=s.key).error(503)["error"] == "memcached does not answer; try again"
        wait_for(lambda: s.client.get("/api/missing", Authorization=s.key).status == 200, "memcached to be asked again")
        assert [m["debug_file"] for m in listed(s)] == ["before.so"]
