# SPDX-License-Identifier: Apache-2.0
"""Several sources, of which one hangs or fails: the others answer for it as long as that lasts, and no longer."""

import time

import pytest

from client import job
from stack import Stack, wait_for
from symbols import SAMPLE
from test_downloads import path_of

STALL = 4  # seconds
REVALIDATE = 1
SETTINGS = {
    "bucket_stall_timeout": f"{STALL}s",
    "bucket_retries": "2",
    "revalidate_after": f"{REVALIDATE}s",
    "failure_ttl_min": "100ms",
    "failure_ttl_max": "500ms",
    "request_timeout": "120s",
}
SLACK = 2  # seconds more than without the source that hangs
ILL = 'symbolicated_source_ill{source="1"'


def text_of(function):
    return f"FUNC 1000 40 0 {function}\n1000 40 1 0\nFILE 0 a.c\n"


def add(bucket, name, body=SAMPLE):
    return bucket.symbols.add(name, body)


def names(stack, *modules):
    """The function at 0x1000 of each module."""
    reply = stack.client.post("/symbolicate/v5", job(modules, [[i, 0x1000] for i in range(len(modules))]))
    assert reply.status == 200, reply
    return [frame.get("function") for frame in reply.json()["results"][0]["stacks"][0]]


def name_of(stack, module):
    reply = stack.client.post("/symbolicate/v5", job([module], [[0, 0x1000]]))
    return reply.json()["results"][0]["stacks"][0][0].get("function") if reply.status == 200 else reply.status


def is_ill(stack):
    return any(series.startswith(ILL) and value for series, value in stack.node.metrics().items())


def events(stack, event):
    return [line for line in stack.daemon.log_lines() if line["event"] == event]


def test_a_source_that_hangs_is_passed_over_until_it_returns():
    """It costs one stall in all; within a second of its return it is asked first."""
    with Stack(symbols=[None, None], config={**SETTINGS, "downloads": "stream"}) as s:
        first, second = s.buckets
        modules = [add(second, f"a{i}.so") for i in range(22)]
        first.control("hold")
        began = time.monotonic()
        names(s, modules[0])
        assert time.monotonic() - began < STALL + SLACK + 1  # curl looks at its speed once a second
        wait_for(lambda: is_ill(s), "the gauge to tell")
        hits = first.hits()
        began = time.monotonic()
        names(s, *modules[1:21])
        assert time.monotonic() - began < SLACK
        assert s.client.get(path_of("a21.so")).status == 200
        assert time.monotonic() - began < SLACK
        assert first.hits() == hits
        assert len(events(s, "source fails")) == 1
        began = time.monotonic()
        reply = s.client.get("/__heartbeat__")
        assert reply.status == 503 and first.url.rstrip("/") in reply.text and time.monotonic() - began < SLACK
        # it has what the second lacks, and another version of what that has
        newer = add(first, "a21.so", text_of("newer"))
        first.reset()
        wait_for(lambda: not is_ill(s), "the source to be asked again", bound=SLACK)
        assert names(s, newer) == ["newer"]
        assert len(events(s, "source answers")) == 1


@pytest.mark.parametrize("mode", ["status:500", "cut:10"])
@pytest.mark.parametrize("everywhere", [False, True], ids=["one object", "all objects"])
def test_an_older_file_answers_only_while_the_first_source_fails(mode, everywhere):
    with Stack(symbols=[None, None], config=SETTINGS) as s:
        first, second = s.buckets
        module = add(first, "b.so", text_of("newer"))
        add(second, "b.so", text_of("older"))
        first.control(mode, "*" if everywhere else f"{module[0]}/")
        assert names(s, module) == ["older"]
        assert names(s, module) == ["older"]
        first.reset()
        time.sleep(REVALIDATE)
        wait_for(lambda: name_of(s, module) == "newer", "the newer file", bound=5)
        # nor has memcached the older one for a new process
        s.node.restart()
        hits = second.hits(module)
        assert names(s, module) == ["newer"] and second.hits(module) == hits


def test_one_object_that_fails_for_long_does_not_make_its_module_load_all_the_time():
    """A load that took long is not made again each second, to find the older file once more."""
    slow = 0.5
    with Stack(symbols=[None, None], config=SETTINGS) as s:
        first, second = s.buckets
        module = add(first, "e.so", text_of("newer"))
        add(second, "e.so", text_of("older"))
        first.misbehave(module, "status:500")
        second.misbehave(module, f"slow:{slow}")
        began = time.monotonic()
        while time.monotonic() - began < 6 * slow:
            assert names(s, module) == ["older"]
            time.sleep(slow / 10)
        assert second.hits(module) == 1


def test_what_only_the_source_that_fails_has_is_asked_for_when_it_returns():
    with Stack(symbols=[None, None], config={**SETTINGS, "failure_ttl_max": "100s", "failure_ttl_min": "100s"}) as s:
        first = s.bucket
        module = add(first, "c.so", text_of("only"))
        first.control("status:500")
        assert name_of(s, module) == 503
        wait_for(lambda: is_ill(s), "the gauge to tell")
        assert name_of(s, module) == 503
        first.reset()
        wait_for(lambda: not is_ill(s), "the source to be asked again", bound=SLACK)
        assert name_of(s, module) == "only"


def test_a_source_that_says_403_of_what_it_lacks_is_well_when_it_gives_a_file():
    """As S3 does to keys that may not list; it stayed ill."""
    with Stack(symbols=[None, None], auth="reader:secret", config=SETTINGS) as s:
        first, second = s.buckets
        module, other = add(first, "f.so", text_of("only")), add(second, "g.so")
        first.control("status:403")
        first.misbehave(module, "ok")
        names(s, other)
        wait_for(lambda: is_ill(s), "the gauge to tell")
        assert names(s, module) == ["only"]
        assert not is_ill(s)


@pytest.mark.parametrize("more", [False, True], ids=["in another order", "one more at the end"])
def test_what_memcached_has_is_of_the_sources_that_are_set(more):
    """Of several processes, too: each uses what came from the sources that it has."""
    with Stack(symbols=[None, None, None], sources=2, config={**SETTINGS, "revalidate_after": "0"}) as s:
        modules = [add(bucket, f"d{i}.so", text_of(f"in{i}")) for i, bucket in enumerate(s.buckets)]
        for bucket in s.buckets[1:]:
            add(bucket, "d0.so", text_of("other"))
        assert names(s, *modules[:2]) == ["in0", "in1"]
        s.node.settled()
        before = sum(bucket.hits() for bucket in s.buckets)
        sources = [bucket.source for bucket in s.buckets]
        s.daemon.write_config(source=sources if more else [sources[1], sources[0]])
        s.node.restart()
        assert names(s, *modules[:2]) == ["in0" if more else "other", "in1"]
        assert (sum(bucket.hits() for bucket in s.buckets) == before) == more
        if more:
            assert names(s, modules[2]) == ["in2"]
