# SPDX-License-Identifier: Apache-2.0
"""Large requests whose lookups idle workers share: the same bytes as from a process with one core, which shares nothing."""

import os
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from client import job
from stack import RawMemcached, Stack, less_when_watched, seed_of, wait_for
from symbols import SAMPLE, debug_id, run_gensym

SHARED = "symbolicated_lookups_shared_total"
FRAMES = 20000
FUNCTIONS = less_when_watched(5000)
MODULES = [[f"large{i}.pdb", debug_id(f"large{i}.pdb")] for i in range(3)] + [["missing.so", debug_id("missing.so")]]
PATHS = ["/symbolicate/v5", "/symbolicate/v4"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core"),
]


def on_one_core(stack):
    stack.daemon.stop()
    stack.daemon.within = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    stack.daemon.start()


@pytest.fixture(scope="module")
def stacks(gensym):
    """One that shares, one that cannot, and offsets that have names."""
    config = {"max_frames": "100000"}
    with Stack(memcached=0, config=config) as many, Stack(memcached=0, config=config) as one:
        on_one_core(one)
        offsets = [
            [int(a["offset"], 16) for a in run_gensym(gensym, s.symbols, m, "-f", str(FUNCTIONS), "-s", str(i), answers=2000)] for s in (many, one) for i, m in enumerate(MODULES[:3])
        ]
        yield many, one, offsets


def large(offsets, number):
    """Named offsets, any others, some again and again, and of a module that is not there."""
    chance = random.Random(f"{seed_of('shared')} {number}")
    few = [chance.randrange(1 << 22) for _ in range(20)]
    frames = []
    for _ in range(FRAMES):
        module = chance.randrange(4)
        pick = chance.random()
        known = chance.choice(offsets[module % 3])
        frames.append([module, known if pick < 0.6 else chance.choice(few) if pick < 0.7 else chance.randrange(1 << 22)])
    return job(MODULES, frames[: FRAMES // 2], frames[FRAMES // 2 :])


def strip(reply):
    return {k: v for k, v in reply.items() if k != "debug"}


@pytest.mark.parametrize("path", PATHS)
def test_replies_are_the_same_bytes(stacks, path):
    many, one, offsets = stacks
    before = many.node.metrics()[SHARED]
    for number in range(less_when_watched(5)):
        request = large(offsets, number)
        for debug in ({}, {"Debug": "1"}) if number == 0 else ({},):
            replies = [s.client.post(path, request, **debug) for s in (many, one)]
            assert [r.status for r in replies] == [200, 200]
            if not debug:
                assert replies[0].body == replies[1].body
            else:  # it tells times, too
                assert strip(replies[0].json()) == strip(replies[1].json())

    def is_shared():
        many.client.post(path, large(offsets, 0))
        return many.node.metrics()[SHARED] > before

    wait_for(is_shared, "a worker to help")
    assert one.node.metrics()[SHARED] == 0


def test_several_at_once_beside_small_ones(stacks):
    many, one, offsets = stacks
    requests = [large(offsets, n) for n in range(4)] + [job(MODULES, [[m, o] for m in range(3) for o in offsets[m][n : n + 9]]) for n in range(12)]
    expected = [one.client.post(PATHS[0], r).body for r in requests]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda r: many.client.post(PATHS[0], r).body, requests * 3))
    assert got == expected * 3


@pytest.mark.parametrize("lost", ["each third page", "all strings"])
def test_pages_that_were_lost_are_loaded_again(gensym, lost):
    """Every page comes from memcached, which has lost some: found out by whoever looks for it, mended by one."""
    with Stack(config={"cache_size": "0", "finish_after": "0", "max_frames": "100000"}) as s:  # the texts are freed at once
        offsets = [[int(a["offset"], 16) for a in run_gensym(gensym, s.symbols, m, "-f", "2000", "-s", str(i), answers=2000)] for i, m in enumerate(MODULES[:3])]
        request = large(offsets, 9)
        first = s.client.post(PATHS[0], request)
        assert first.status == 200
        s.node.settled()
        loads = [s.bucket.hits(m) for m in MODULES[:3]]

        def pages(raw):
            return sorted(k for k in raw.keys() if k.split(":")[0][-1] in "cs")

        with RawMemcached(s.memcached[0].address) as raw:
            assert len(pages(raw)) > 30

        def lost_and_loaded():  # a request that still finds the first one's text makes the lost pages from it
            with RawMemcached(s.memcached[0].address) as raw:
                for key in pages(raw)[::3] if lost == "each third page" else [k for k in pages(raw) if k.split(":")[0][-1] == "s"]:
                    assert raw.command(f"delete {key}") == "DELETED"
            again = s.client.post(PATHS[0], request)
            assert again.status == 200 and again.body == first.body
            return [s.bucket.hits(m) for m in MODULES[:3]] > loads

        wait_for(lost_and_loaded, "a load of what was lost", 120)
        assert s.client.frames(s.symbols.add("small.so", SAMPLE), [0x1000])[0]["function"] == "main"


def test_many_modules_that_were_lost_are_loaded_together(gensym):
    """As after another host has stored only the roots: more modules have lost their pages than a request may begin anew."""
    modules = [[f"many{i}.pdb", debug_id(f"many{i}.pdb")] for i in range(20)]
    with Stack(config={"max_frames": "100000"}) as s:
        offsets = [[int(a["offset"], 16) for a in run_gensym(gensym, s.symbols, m, "-f", "200", "-s", str(i), answers=300)] for i, m in enumerate(modules)]
        request = job(modules, [[i, o] for i in range(len(modules)) for o in (offsets[i] * 4)[:1100]])
        first = s.client.post(PATHS[0], request)
        assert first.status == 200
        s.node.settled()
        s.node.restart()
        with RawMemcached(s.memcached[0].address) as raw:
            for key in raw.keys():
                assert key.split(":")[0][-1] not in "cs" or raw.delete(key) == "DELETED"
        again = s.client.post(PATHS[0], request)
        assert again.status == 200 and again.body == first.body
        assert [s.bucket.hits(m) for m in modules] == [2] * len(modules)
