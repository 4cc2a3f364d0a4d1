# SPDX-License-Identifier: Apache-2.0
"""Maps that were asked for once: only the pages that were needed are made and kept in memcached, until they are asked for
again or the machine idles."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from stack import Stack, less_when_watched, wait_for
from symbols import debug_id, differences, run_gensym

BIG = ["big.pdb", debug_id("big.pdb")]
ONCE = {"finish_after": "1h", "revalidate_after": "100ms"}


def add_big(stack, gensym, module=BIG, seed=1):
    answers = run_gensym(gensym, stack.symbols, module, "-f", "4000", "-s", str(seed), answers=400)
    return sorted(answers, key=lambda a: int(a["offset"], 16))


def wrong(stack, answers, node=0, module=BIG):
    return differences(answers, stack.nodes[node].client().frames(module, [int(a["offset"], 16) for a in answers]))


def pages(stack):
    return [key for _, key in stack.stored_keys() if re.match(r"s\d+[cs]:", key)]


def roots(stack):
    return [key for _, key in stack.stored_keys() if re.match(r"s\d+r:", key)]


def leases(stack):
    return [key for _, key in stack.stored_keys() if re.match(r"s\d+l:", key)]


def reloads(stack, node=0):
    return stack.nodes[node].metrics()["symbolicated_page_reloads_total"]


def is_whole(stack, node=0):
    m = stack.nodes[node].metrics()
    return m["symbolicated_loads_in_flight"] == 0 and m["symbolicated_loading_bytes"] == 0


def test_only_what_was_needed_is_stored(gensym):
    with Stack(config=ONCE) as s:
        answers = add_big(s, gensym)
        assert wrong(s, answers[:1]) == []
        wait_for(lambda: roots(s) and pages(s) and not leases(s), "the root, a page, and no lease")
        assert len(pages(s)) <= 3
        assert not is_whole(s)
        assert wrong(s, answers) == []  # asked for again
        wait_for(lambda: is_whole(s), "the map to be whole")
        assert len(pages(s)) > 50
        assert wrong(s, answers) == []
        assert s.bucket.hits() == 1


def test_another_host_finds_the_root_and_the_page(gensym):
    with Stack(config=ONCE, daemons=2) as s:
        answers = add_big(s, gensym)
        assert wrong(s, answers[:1], 0) == []
        wait_for(lambda: roots(s) and pages(s), "the root and a page")
        assert wrong(s, answers[:1], 1) == []
        assert s.bucket.hits() == 1


def test_another_host_finds_the_root_but_not_the_page(gensym):
    """That is ordinary: it loads the file itself, and nothing counts as lost."""
    with Stack(config=ONCE, daemons=3) as s:
        answers = add_big(s, gensym)
        assert wrong(s, answers[:1], 0) == []
        wait_for(lambda: roots(s) and pages(s), "the root and a page")
        assert wrong(s, answers[-1:], 1) == []
        assert s.bucket.hits() == 2
        assert [reloads(s, i) for i in range(2)] == [0, 0]
        wait_for(lambda: is_whole(s, 1), "the second host to make the map whole")  # the module was asked for again
        s.bucket.kill()
        assert wrong(s, answers, 2) == []
        # the first host still has only its text; what it makes of that is the same
        assert wrong(s, answers, 0) == []
        wait_for(lambda: is_whole(s, 0), "the first host to see that")


# When a sanitizer slows them, the second mostly finds the root before the page.
@pytest.mark.plain
def test_two_hosts_at_once_make_one_load(gensym):
    """But for a busy machine, where the second may find the root before the page, and then loads the file itself."""
    with Stack(config=ONCE, daemons=2) as s, ThreadPoolExecutor(2) as pool:
        waits, names = "symbolicated_lease_waits_total", (f"both{i}.pdb" for i in range(1000))

        def makes_one_load():
            module = [name := next(names), debug_id(name)]
            answers = add_big(s, gensym, module)
            s.bucket.misbehave(module, "hold")
            before = sum(node.metrics()[waits] for node in s.nodes)
            both = [pool.submit(wrong, s, answers[:1], node, module) for node in range(2)]
            wait_for(lambda: sum(node.metrics()[waits] for node in s.nodes) == before + 1, "one to wait for the other")
            s.bucket.misbehave(module, "ok")
            assert [one.result() for one in both] == [[], []]
            return s.bucket.hits(module) == 1

        wait_for(makes_one_load, "one load for both")


def test_an_idle_machine_makes_maps_whole(gensym):
    with Stack(config={**ONCE, "finish_after": "1s"}) as s:
        answers = add_big(s, gensym)
        assert wrong(s, answers[:1]) == []
        wait_for(lambda: is_whole(s), "the map to be whole")
        s.bucket.kill()
        s.node.restart()
        assert wrong(s, answers) == []


@pytest.mark.slow
@pytest.mark.parametrize("cache_size, memcached", [("1M", 0), pytest.param("1M", 1, marks=pytest.mark.plain), pytest.param("1G", 0, marks=pytest.mark.plain), ("1G", 1)])
def test_many_maps_asked_for_once(gensym, memcached, cache_size):
    """Their texts leave the cache when it is full; the answers are right whatever is there."""
    with Stack(config={**ONCE, "cache_size": cache_size}, memcached=memcached) as s:
        modules = [[f"m{i}.pdb", debug_id(f"m{i}")] for i in range(8)]
        answers = [add_big(s, gensym, m, i) for i, m in enumerate(modules)]
        for turn in range(3):
            for module, own in zip(modules, answers):
                assert wrong(s, own[turn * 50 : turn * 50 + 3], module=module) == []
        for module, own in zip(modules, answers):
            assert wrong(s, own[: less_when_watched(len(own))], module=module) == []
        assert reloads(s) == 0


def test_a_changed_file_after_a_deletion(gensym):
    with Stack(config=ONCE, daemons=2, keys=True) as s:
        path = "/cache/" + "/".join(BIG)
        old = add_big(s, gensym)
        assert wrong(s, old[:1], 0) == []
        wait_for(lambda: roots(s) and pages(s), "the root and a page")
        new = add_big(s, gensym, seed=2)
        assert s.client.request("DELETE", path, headers={"Authorization": s.key}).status == 200
        assert wrong(s, new, 0) == []
        wait_for(lambda: wrong(s, new, 1) == [], "the other host to have the new file")


def test_memcached_goes_before_the_page_is_sent(gensym):
    with Stack(config=ONCE) as s:
        answers = add_big(s, gensym)
        s.bucket.control("hold")
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(wrong, s, answers[:1])
            wait_for(lambda: leases(s), "the load to begin")
            s.memcached[0].kill()
            s.bucket.control("ok")
            assert first.result() == []
        assert wrong(s, answers) == []
        wait_for(lambda: is_whole(s), "the map to be whole in the process")
        s.bucket.kill()
        assert wrong(s, answers) == []
