# SPDX-License-Identifier: Apache-2.0
"""Frames that are asked for again and again are kept as they stand in replies: the same bytes, and never those of an old file."""

import random

import pytest

from client import job
from stack import Stack, less_when_watched, seed_of
from symbols import SAMPLE, debug_id, run_gensym

KEPT = 'symbolicated_cache_lookups_total{what="frame",level="process"}'
NOT_KEPT = 'symbolicated_cache_lookups_total{what="frame",level="none"}'
LARGE = 4096  # frames of a request
MODULES = [["one.pdb", debug_id("one.pdb")], ["two.pdb", debug_id("two.pdb")]]
PATHS = ["/symbolicate/v5", "/symbolicate/v4"]


def add_modules(stack, gensym):
    return [[int(a["offset"], 16) for a in run_gensym(gensym, stack.symbols, m, "-f", "3000", "-s", str(i), answers=400)] for i, m in enumerate(MODULES)]


@pytest.fixture(scope="module")
def stacks(gensym):
    """One that keeps frames, and one whose cache is too small for any."""
    with Stack(memcached=0) as keeps, Stack(memcached=0, config={"cache_size": "16M"}) as plain:
        yield keeps, plain, [add_modules(s, gensym) for s in (keeps, plain)][0]


def requests(offsets, count):
    """Frames of both modules: known offsets, some again and again, and any others."""
    chance = random.Random(seed_of("hot"))
    few = [chance.choice(offsets[i % 2]) for i in range(60)]
    for _ in range(count):
        stack = []
        for _ in range(50):
            module = chance.randrange(2)
            pick = chance.random()
            offset = chance.choice(few) if pick < 0.5 else chance.choice(offsets[module]) if pick < 0.9 else chance.randrange(1 << 24)
            stack.append([module, offset])
        yield job(MODULES, stack, [[-1, 5], [0, -1], [1, 1.5]])


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_replies_are_the_same_bytes(stacks, path):
    """50,000 frames."""
    keeps, plain, offsets = stacks
    keeps.client.v5(job(MODULES, [[0, 0], [1, 0]]))
    keeps.node.settled()
    before = keeps.node.metrics()[KEPT]
    for request in requests(offsets, less_when_watched(1000)):
        first, second = (s.client.post(path, request) for s in (keeps, plain))
        assert first.status == second.status == 200
        assert first.body == second.body
    assert keeps.node.metrics()[KEPT] > before + 1000
    assert plain.node.metrics()[KEPT] == 0


def test_debug_counts_pages_and_knows_reasons(stacks):
    """With the header everything is looked up: what it tells stays true."""
    keeps, _, offsets = stacks
    request = job(MODULES, [[0, offsets[0][0]], [0, 0]])
    for _ in range(5):
        assert keeps.client.post(PATHS[0], request).status == 200
    before = keeps.node.metrics()[KEPT]
    reply = keeps.client.post(PATHS[0], request, Debug="1").json()
    assert reply["debug"]["cache_lookups"]["count"] >= 2 and reply["results"][0]["stacks"][0][1]["reason"]
    assert keeps.node.metrics()[KEPT] == before


@pytest.mark.parametrize("path", PATHS)
def test_a_large_request_leaves_them_alone(stacks, path):
    """It has more frames than there are places: it would drop those of others."""
    keeps, _, offsets = stacks
    keeps.client.v5(job(MODULES, [[0, 0], [1, 0]]))
    keeps.node.settled()
    before = keeps.node.metrics()
    for count in (LARGE, LARGE - 1):
        assert keeps.client.post(path, job(MODULES, [[i % 2, offsets[i % 2][i % 400]] for i in range(count)])).status == 200
        after = keeps.node.metrics()
        assert any(after[name] > before[name] for name in (KEPT, NOT_KEPT)) == (count < LARGE)


def test_one_offset_in_two_modules_that_stay_in_memory(stacks):
    """Neighbours in what is looked up; nothing is loaded again."""
    keeps = stacks[0]
    modules = [keeps.symbols.add(f"{name}.so", SAMPLE.replace("main", name)) for name in ("left", "right")]
    request = job(modules, [[0, 0x1000], [1, 0x1000], [1, 0x1000], [0, 0x1000]])
    known, loaded = (f'symbolicated_cache_lookups_total{{what="root",level="{level}"}}' for level in ("process", "none"))
    keeps.client.v5(request)
    keeps.node.settled()
    before = keeps.node.metrics()
    for _ in range(6):
        frames = keeps.client.v5(request)["results"][0]["stacks"][0]
        assert [f["function"] for f in frames] == ["left", "right", "right", "left"]
    after = keeps.node.metrics()
    assert after[known] == before[known] + 12 and after[loaded] == before[loaded]


@pytest.mark.parametrize("path", PATHS)
def test_a_new_file_ends_them(path):
    with Stack(keys=True) as s:
        module = s.symbols.add("changing.so", SAMPLE)
        request = job([module], [[0, 0x1000]])
        s.client.v5(request)
        s.node.settled()
        old = {s.client.post(path, request).body for _ in range(6)}
        assert len(old) == 1 and b"main" in old.pop() and s.node.metrics()[KEPT] > 0
        s.symbols.add(module[0], SAMPLE.replace("main", "other"))
        assert b"main" in s.client.post(path, request).body
        gone = s.client.request("DELETE", f"/cache/{module[0]}/{module[1]}", headers={"Authorization": s.key})
        assert gone.status == 200 and gone.json() == {"success": True, "status": 200}
        new = {s.client.post(path, request).body for _ in range(6)}
        assert len(new) == 1 and b"other" in new.pop()
