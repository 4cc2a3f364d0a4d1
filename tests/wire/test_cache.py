# SPDX-License-Identifier: Apache-2.0
"""The process's cache, memcached behind it, and how both are told to forget."""

import base64
import contextlib
import os
import random
import re
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from client import job
from stack import KEYS_TOOL, Relay, Stack, another_version, less_when_watched, seed_of, wait_for
from symbols import SAMPLE, SAMPLE_FRAMES, debug_id, differences, run_gensym, tiny

APP = ["app", debug_id("app")]
# As the server has it by default: for memcached that hangs.
SOON_HUNG = {"memcached_connect_timeout": "150ms", "memcached_timeout": "200ms"}
SAMPLE_ANSWERS = [{"offset": hex(o), **f} for o, f in SAMPLE_FRAMES.items()]
REVALIDATE = 1.0  # seconds


def sample_stack(**options):
    stack = Stack(**options)
    stack.symbols.add(APP[0], SAMPLE, APP[1])
    return stack


def sample_is_right(stack, node=0):
    frames = stack.nodes[node].client().frames(APP, list(SAMPLE_FRAMES))
    assert differences(SAMPLE_ANSWERS, frames) == []


def stored(stack):
    """Waits until everything is in memcached."""
    for node in stack.nodes:
        node.settled()
    wait_for(lambda: any(server.holds_something() for server in stack.memcached), "something to be stored in memcached")


# One module, generated, with enough pages to be worth losing some.
BIG = ["big.pdb", debug_id("big.pdb")]
BIG_ANSWERS = 400


def add_big(stack, gensym, module=BIG, functions=less_when_watched(4000), seed=1):
    return run_gensym(gensym, stack.symbols, module, "-f", str(functions), "-s", str(seed), answers=BIG_ANSWERS)


def wrong_answers(client, module, answers):
    return differences(answers, client.frames(module, [int(a["offset"], 16) for a in answers]))


# Hits


@pytest.mark.parametrize("memcached", [0, 1, 3])
def test_the_second_request_asks_no_bucket(memcached):
    with sample_stack(memcached=memcached) as s:
        sample_is_right(s)
        assert s.bucket.hits(APP) == 1
        for _ in range(3):
            sample_is_right(s)
        assert s.bucket.hits() == 1


def test_answers_that_memory_knows_are_counted():
    """Of modules, and of those that are remembered as missing."""
    nowhere = ["nowhere.so", debug_id("nowhere.so")]
    with sample_stack(memcached=0) as s:
        for module, what in ((APP, "root"), (nowhere, "failure")):
            s.client.frames(module, [0x1000])
            known = f'symbolicated_cache_lookups_total{{what="{what}",level="process"}}'
            before = s.node.metrics()[known]
            for _ in range(3):
                s.client.frames(module, [0x1000])
            assert s.node.metrics()[known] == before + 3, what


@pytest.mark.parametrize("memcached", [pytest.param(1, marks=pytest.mark.in_turn), 3])
@pytest.mark.parametrize("tcp", [pytest.param(False, marks=pytest.mark.in_turn), True], ids=["unix", "tcp"])
def test_a_restarted_process_reads_memcached(memcached, tcp, gensym):
    with sample_stack(memcached=memcached, memcached_tcp=tcp) as s:
        answers = add_big(s, gensym)
        assert wrong_answers(s.client, BIG, answers) == []
        sample_is_right(s)
        stored(s)
        s.node.restart()
        s.bucket.reset()
        assert wrong_answers(s.client, BIG, answers) == []
        sample_is_right(s)
        assert s.bucket.hits() == 0
        m = s.node.metrics()
        assert m['symbolicated_cache_lookups_total{what="root",level="memcached"}'] >= 2
        assert m["symbolicated_loads_total"] == 0


@pytest.mark.parametrize("codec", [pytest.param("none", marks=pytest.mark.in_turn), "lz4", pytest.param("zstd", marks=pytest.mark.in_turn)])
def test_codecs(codec, gensym):
    with Stack(config={"codec": codec}) as s:
        answers = add_big(s, gensym)
        assert wrong_answers(s.client, BIG, answers) == []
        stored(s)
        s.node.restart()
        assert wrong_answers(s.client, BIG, answers) == []
        assert s.bucket.hits() == 1


@pytest.mark.in_turn
def test_pages_of_another_codec_are_read(gensym):
    with Stack(config={"codec": "zstd"}) as s:
        answers = add_big(s, gensym)
        assert wrong_answers(s.client, BIG, answers) == []
        stored(s)
        s.daemon.stop()
        s.daemon.write_config(codec="lz4")
        s.daemon.start()
        assert wrong_answers(s.client, BIG, answers) == []
        assert s.bucket.hits() == 1


@pytest.mark.slow
def test_a_small_process_cache_answers_right(gensym):
    """Pages come and go; what is answered stays the same."""
    with Stack(config={"cache_size": "1M"}) as s:
        modules = [[f"part{i}.pdb", debug_id(f"part{i}")] for i in range(4)]
        answers = [add_big(s, gensym, m, functions=4000, seed=i) for i, m in enumerate(modules)]
        for _ in range(3):
            for module, right in zip(modules, answers):
                assert wrong_answers(s.client, module, right) == []


@pytest.mark.slow
def test_values_stay_below_the_item_limit(gensym):
    """A function larger than a page is split; nothing is too large for memcached."""
    with Stack() as s:
        lines = "".join(f"{0x1000 + i:x} 1 {i % 5000 + 1} {i % 40}\n" for i in range(200_000))
        files = "".join(f"FILE {i} some/long/path/to/file{i}.cpp\n" for i in range(40))
        module = s.symbols.add("huge.so", files + f"FUNC 1000 {200_000:x} 0 huge\n" + lines)
        s.client.frames(module, [0x1000])
        stored(s)
        m = s.node.metrics()
        assert m["symbolicated_stores_failed_total"] == 0
        s.node.restart()
        for at in (0, 1, 77_777, 199_999):
            got = s.client.frames(module, [0x1000 + at])[0]
            assert (got["function_offset"], got["line"]) == (hex(at), at % 5000 + 1)
            assert got["file"] == f"some/long/path/to/file{at % 40}.cpp"
        assert s.bucket.hits(module) == 1


def test_keys_are_what_memcached_takes(gensym):
    with sample_stack() as s:
        add_big(s, gensym)
        sample_is_right(s)
        s.client.frames(BIG, [0x1000])
        stored(s)
        for _, key in s.stored_keys():
            assert len(key) <= 64 and all(c.isalnum() or c in ":_-" for c in key), key


def test_keys_are_spread_over_the_servers(gensym):
    with Stack(memcached=3) as s:
        modules = [s.symbols.add(f"spread{i}.so", SAMPLE) for i in range(60)]
        reply = s.client.v5(job(modules, [[i, 0x1000] for i in range(60)]))
        assert set(reply["results"][0]["found_modules"].values()) == {True}
        stored(s)
        counts = [len([1 for server, _ in s.stored_keys() if server is m]) for m in s.memcached]
        assert min(counts) > 0, counts


@pytest.mark.in_turn
def test_roots_expire(gensym):
    with sample_stack(config={"root_max_age": "1d"}) as s:
        sample_is_right(s)
        stored(s)
        with s.memcached[0].raw() as raw:
            expiries = raw.keys()
        assert any(0 < e <= time.time() + 86400 + 60 for e in expiries.values()), expiries


# memcached that is absent, dies, hangs, is too small, or holds nonsense


@pytest.mark.slow
def test_memcached_absent_at_start():
    with sample_stack() as s:
        s.memcached[0].kill()
        s.node.restart()
        sample_is_right(s)
        sample_is_right(s)
        assert s.bucket.hits(APP) == 1
        assert s.client.get("/__lbheartbeat__").status == 200
        s.client.get("/__heartbeat__").error(503)
        s.memcached[0].start()
        others = iter(range(10_000))

        def used_again():
            module = s.symbols.add(f"later{next(others)}.so", SAMPLE)
            assert s.client.found(module) is True
            return s.stored_keys()

        wait_for(used_again, "memcached to be used when it is there", pause=0.1)
        wait_for(lambda: s.client.get("/__heartbeat__").status == 200, "the heartbeat", pause=0.1)


def test_memcached_killed_and_restarted(gensym):
    with sample_stack(memcached=2, config={"cache_size": "1M"}) as s:
        answers = add_big(s, gensym)
        for _ in range(2):
            assert wrong_answers(s.client, BIG, answers) == []
            for server in s.memcached:
                server.kill()
            sample_is_right(s)
            assert wrong_answers(s.client, BIG, answers) == []
            for server in s.memcached:
                server.start()
            sample_is_right(s)
            assert wrong_answers(s.client, BIG, answers) == []


def test_memcached_flushed(gensym):
    with sample_stack(config={"cache_size": "1M", "revalidate_after": "100ms"}) as s:
        answers = add_big(s, gensym)
        for _ in range(4):
            assert wrong_answers(s.client, BIG, answers) == []
            with s.memcached[0].raw() as raw:
                raw.flush()
            sample_is_right(s)


def run_load(ask, seconds_at_most, until):
    """Calls ask() from four threads until until() is true; returns the failures and the slowest call."""
    stop, failures, slowest = threading.Event(), [], [0.0]

    def work():
        while not stop.is_set():
            started = time.monotonic()
            try:
                ask()
            except Exception as e:  # also what a broken connection raises
                failures.append(repr(e)[:500])
                return
            slowest[0] = max(slowest[0], time.monotonic() - started)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    try:
        wait_for(lambda: failures or until(), "the load to see what it waits for", seconds_at_most, 0.05)
    finally:
        stop.set()
        for t in threads:
            t.join()
    return failures, slowest[0]


def test_requests_that_wait_for_memcached_keep_nobody_from_running():
    """More than may be awake at a time."""
    count = os.cpu_count() + 2
    config = {"memcached_timeout": "60s", "revalidate_after": "1h", "workers": count + 2}
    with sample_stack(config=config) as s, ThreadPoolExecutor(count) as pool:
        sample_is_right(s)
        stored(s)
        modules = [s.symbols.add(f"waits{i}.so", SAMPLE) for i in range(count)]
        with s.memcached[0].suspended():
            waiting = [pool.submit(s.client.found, module) for module in modules]
            wait_for(lambda: s.node.metrics()["symbolicated_requests_in_flight"] == count + 1, "all to wait")
            for _ in range(10):
                sample_is_right(s)
            assert not any(one.done() for one in waiting)
        assert all(one.result() for one in waiting)


@pytest.mark.slow
@pytest.mark.parametrize("hung", [1, 2])
def test_memcached_hangs_under_load(gensym, hung):
    """One of two servers, or both, accept connections and say nothing: nobody gets an error or waits long."""
    with sample_stack(memcached=2, config={"revalidate_after": "100ms", **SOON_HUNG}) as s:
        answers = add_big(s, gensym)
        assert wrong_answers(s.client, BIG, answers) == []
        sample_is_right(s)
        stored(s)
        numbers, count, lock = iter(range(100_000)), [0], threading.Lock()

        def ask():
            with lock:
                number = next(numbers)
            if number % 5 == 0:
                module = s.symbols.add(f"under-load{number}.so", SAMPLE)
                assert s.client.found(module) is True
            else:
                assert wrong_answers(s.client, BIG, answers[number % 50 :: 50]) == []
            count[0] += 1

        with s.memcached[0].suspended():
            if hung == 2:
                with s.memcached[1].suspended():
                    failures, slowest = run_load(ask, 300, lambda: count[0] > 150)
            else:
                failures, slowest = run_load(ask, 300, lambda: count[0] > 150)
        assert not failures, failures[:3]
        assert slowest < 30, slowest
        # And it is used again afterwards.
        failures, _ = run_load(ask, 300, lambda: count[0] > 250)
        assert not failures, failures[:3]
        wait_for(lambda: s.client.get("/__heartbeat__").status == 200, "the heartbeat", pause=0.1)


@contextlib.contextmanager
def relayed(keys=False, **config):
    """A stack whose memcached is behind a relay."""
    s = Stack(keys=keys, config={"request_timeout": "1s", **config})
    relay = Relay(s.memcached[0].address)
    s.config["memcached"] = relay.setting
    with contextlib.closing(relay), s:
        yield s, relay


@pytest.mark.slow
def test_a_slow_memcached_is_not_asked_after_the_deadline():
    """Each answer comes in time, and all of them would take twelve seconds."""
    modules = [[f"m{i}.so", debug_id(f"m{i}")] for i in range(8000)]
    with relayed() as (s, relay):
        relay.delay = 0.15
        reply = s.client.post("/symbolicate/v5", job(modules, [[i, 0x1000] for i in range(len(modules))]))
        assert "in time" in reply.error(503)["error"], reply
        assert int(reply.headers["Retry-After"]) >= 1
        assert relay.questions < 30, relay.questions
        assert s.bucket.hits() == 0


@pytest.mark.in_turn
@pytest.mark.slow
def test_pages_that_are_late_are_not_lost(gensym):
    """They are had the next time, and no bucket is asked again."""
    with relayed(cache_size="1M", request_timeout="60s") as (s, relay):
        answers = run_gensym(gensym, s.symbols, BIG, "-f", "20000", answers=20000)
        assert wrong_answers(s.client, BIG, answers) == []
        stored(s)
        s.daemon.write_config(request_timeout="1s")
        s.node.restart()
        relay.delay = 0.15
        reply = s.client.post("/symbolicate/v5", job([BIG], [[0, int(a["offset"], 16)] for a in answers]))
        assert "in time" in reply.error(503)["error"], reply
        relay.delay = 0
        s.daemon.write_config(request_timeout="60s")
        s.daemon.reload()
        assert wrong_answers(s.client, BIG, answers) == []
        assert s.bucket.hits() == 1


def test_loaded_while_memcached_answers():
    """What another request has loaded meanwhile needs no place among the cold ones, even if there is none."""
    with relayed(request_timeout="30s", memcached_timeout="30s", cold_requests="1", bucket_stall_timeout="60s") as (s, relay):
        module, stalled = s.symbols.add("fast.so", tiny("fast")), s.symbols.add("stalled.so", SAMPLE)
        s.bucket.misbehave(stalled, "stall")
        held = relay.held = threading.Event()
        with ThreadPoolExecutor(2) as pool:
            asks = pool.submit(function, s, module)
            wait_for(lambda: relay.holding == 1, "the answer to be on its way")
            relay.held = None
            assert function(s, module) == "fast"
            cold = pool.submit(s.client.post, "/symbolicate/v5", job([stalled], [[0, 0x1000]]))
            wait_for(lambda: s.node.metrics()['symbolicated_turnstile_inside{for="loads"}'] == 1, "the place to be taken")
            held.set()
            assert asks.result() == "fast"
            assert not cold.done()
            s.bucket.kill()
            assert cold.result().status == 503


@pytest.mark.slow
def test_memcached_comes_and_goes_under_load(gensym):
    with sample_stack(config={"revalidate_after": "100ms", "cache_size": "1M", **SOON_HUNG}) as s:
        answers = add_big(s, gensym)
        assert wrong_answers(s.client, BIG, answers) == []
        count = [0]

        def ask():
            at = random.randrange(len(answers))
            assert wrong_answers(s.client, BIG, answers[at : at + 5]) == []
            count[0] += 1

        for disturb in ("kill", "hang", "flush"):
            if disturb == "kill":
                s.memcached[0].kill()
                s.memcached[0].start()
            elif disturb == "hang":
                s.memcached[0].freeze()
            else:
                with s.memcached[0].raw() as raw:
                    raw.flush()
            goal = count[0] + 60
            try:
                failures, _ = run_load(ask, 300, lambda g=goal: count[0] > g)
            finally:
                s.memcached[0].signal(signal.SIGCONT)
            assert not failures, (disturb, failures[:3])


@pytest.mark.in_turn
@pytest.mark.slow
def test_memcached_too_small(gensym):
    """Eight megabytes for maps of twice that: pages are lost all the time, the answers stay right."""
    with Stack(memory=8, config={"cache_size": "1M"}) as s:
        modules = [[f"small{i}.pdb", debug_id(f"small{i}")] for i in range(5)]
        answers = [add_big(s, gensym, m, functions=12_000, seed=i + 1) for i, m in enumerate(modules)]
        for turn in range(3):
            for module, right in zip(modules, answers):
                part = right[turn::3]
                part = part[: less_when_watched(len(part))]
                assert wrong_answers(s.client, module, part) == []
        with s.memcached[0].raw() as raw:
            assert int(raw.stats()["evictions"]) > 0


def flip(value):
    at = random.randrange(len(value))
    return value[:at] + bytes([value[at] ^ 1 << random.randrange(8)]) + value[at + 1 :]


SPOILERS = {
    "one bit": lambda v: flip(v) if v else b"x",
    "cut": lambda v: v[: len(v) // 2],
    "empty": lambda v: b"",
    "one byte more": lambda v: v + b"\0",
    "zeroes": lambda v: b"\0" * len(v),
    "random": lambda v: random.randbytes(len(v)),
    "header kept": lambda v: v[:64] + random.randbytes(max(0, len(v) - 64)),
    "header spoilt": lambda v: random.randbytes(min(64, len(v))) + v[64:],
    "text": lambda v: b"STORED\r\nEND\r\nVALUE x 0 3\r\nabc\r\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*(pytest.param(kind, marks=pytest.mark.in_turn) for kind in SPOILERS), "exchanged"])
def test_spoilt_values(gensym, kind):
    """Every value in memcached is spoilt: a miss, a counter, never a wrong answer or an error."""
    random.seed(seed_of(kind))
    with sample_stack() as s:
        answers = add_big(s, gensym, functions=1500)
        assert wrong_answers(s.client, BIG, answers) == []
        sample_is_right(s)
        stored(s)
        s.daemon.stop()
        with s.memcached[0].raw() as raw:
            # A dump leaves out what memcached's own threads hold at that moment.
            listed = wait_for(lambda: len(found := raw.keys()) >= 4 and found, "the keys to be listed")
            values = {key: raw.get(key) for key in listed}
            values = {k: v for k, v in values.items() if v is not None}
            assert len(values) >= 4
            keys = list(values)
            for i, key in enumerate(keys):
                spoilt = values[keys[i - 1]] if kind == "exchanged" else SPOILERS[kind](values[key])
                assert raw.set(key, spoilt) == "STORED"
        s.daemon.start()
        for _ in range(2):
            assert wrong_answers(s.client, BIG, answers) == []
            sample_is_right(s)
        assert s.node.metrics()["symbolicated_pages_invalid_total"] > 0
        # What was loaded again is stored again, and right.
        stored(s)
        s.node.restart()
        assert wrong_answers(s.client, BIG, answers) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*(pytest.param(kind, marks=pytest.mark.in_turn) for kind in ("one bit", "random", "deleted")), "exchanged"])
def test_some_values_spoilt(gensym, kind):
    """A third of the values, so that good roots lead to bad pages."""
    random.seed(seed_of(kind))
    with Stack() as s:
        answers = add_big(s, gensym, functions=less_when_watched(3000))
        assert wrong_answers(s.client, BIG, answers) == []
        stored(s)
        for turn in range(3):
            s.daemon.stop()
            with s.memcached[0].raw() as raw:
                keys = [k for k in raw.keys() if raw.get(k)]
                for key in keys[turn::3]:
                    if kind == "deleted":
                        raw.delete(key)
                    else:
                        value = raw.get(random.choice(keys)) if kind == "exchanged" else SPOILERS[kind](raw.get(key))
                        raw.set(key, value)
            s.daemon.start()
            assert wrong_answers(s.client, BIG, answers) == []
            stored(s)


def test_a_generation_that_was_lost_is_loaded_again(gensym):
    """The root stays, all pages are gone."""
    with Stack() as s:
        answers = add_big(s, gensym)
        assert wrong_answers(s.client, BIG, answers) == []
        stored(s)
        with s.memcached[0].raw() as raw:
            for key in raw.keys():
                if re.match(r"s\d+[cs]:", key):
                    raw.delete(key)
        s.node.restart()
        assert wrong_answers(s.client, BIG, answers) == []
        assert s.bucket.hits() == 2


# One load for many


@pytest.mark.slow
def test_twenty_clients_make_one_load():
    with sample_stack() as s:
        s.bucket.control("slow:0.7")
        with ThreadPoolExecutor(20) as pool:
            list(pool.map(lambda _: sample_is_right(s), range(20)))
        assert s.bucket.hits() == 1


@pytest.mark.parametrize(("mode", "hits"), [("status:404", 2), ("junk", 1)])
def test_twenty_clients_learn_of_one_failure(mode, hits):
    with sample_stack() as s:
        s.bucket.misbehave(APP, mode)
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda _: s.client.found(APP), range(20)))
        assert set(answers) == {False} and s.bucket.hits() == hits  # of a missing module in lower case, too


def of_some_module(loads, count):
    """Calls loads(module) for one module after the other until it returns `count`. A root waits only some milliseconds for the first
    pages: on a busy machine another host may find it before them, and then loads the file, too."""
    names = (f"shared{i}.so" for i in range(1000))
    wait_for(lambda: loads([name := next(names), debug_id(name)]) == count, f"{count} loads of a module")


def test_two_processes_make_one_load():
    with Stack(daemons=2) as s:

        def loads(module):
            s.symbols.add(module[0], tiny("shared"))
            s.bucket.misbehave(module, "hold")
            waits = sum(node.metrics()["symbolicated_lease_waits_total"] for node in s.nodes)
            with ThreadPoolExecutor(8) as pool:
                answers = [pool.submit(function, s, module, i % 2) for i in range(8)]
                wait_for(lambda: sum(node.metrics()["symbolicated_lease_waits_total"] for node in s.nodes) == waits + 1, "one to wait for the other")
                s.bucket.misbehave(module, "ok")
                assert {answer.result() for answer in answers} == {"shared"}
            return s.bucket.hits(module)

        of_some_module(loads, 1)


def test_two_processes_one_after_the_other():
    with sample_stack(daemons=2) as s:
        sample_is_right(s, 0)
        stored(s)
        sample_is_right(s, 1)
        assert s.bucket.hits() == 1


@pytest.mark.slow
def test_requests_end_in_time_while_memcached_hangs_with_their_leases():
    """Whoever renews the leases waits for memcached; whoever ends the requests does not."""
    config = {"memcached_timeout": "40s", "request_timeout": "4s", "bucket_stall_timeout": "60s", "bucket_total_timeout": "60s"}
    with Stack(config=config) as s:
        module = s.symbols.add("held.so", SAMPLE)
        s.bucket.misbehave(module, "stall")
        with ThreadPoolExecutor(1) as pool:
            began = time.monotonic()
            answer = pool.submit(s.client.post, "/symbolicate/v5", job([module], [[0, 0x1000]]))
            wait_for(lambda: s.bucket.hits(module), "the load to begin")
            with s.memcached[0].suspended():
                assert answer.result(60).status == 503
                assert time.monotonic() - began < 39
        s.bucket.reset()


@pytest.mark.slow
def test_a_loader_that_dies_is_followed_by_another():
    """Its lease runs out, the one that waited takes over."""
    with sample_stack(daemons=2) as s:
        s.bucket.misbehave(APP, "stall")
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(lambda: s.nodes[0].client().post("/symbolicate/v5", job([APP], [[0, 1]])).status)
            wait_for(lambda: s.bucket.hits() == 1, "the first to load")
            second = pool.submit(lambda: sample_is_right(s, 1))
            s.bucket.misbehave(APP, "ok")
            s.nodes[0].daemon.crash()
            second.result(60)
            assert first.result(60) in (200, 502, 503, 504)
        s.nodes[0].daemon.start()
        sample_is_right(s, 0)


@pytest.mark.slow
def test_of_two_that_wait_for_one_that_died_one_loads():
    """When the lease of the first runs out, the second takes it, and the third waits for the second."""
    with Stack(daemons=3) as s:

        def loads(module):
            s.symbols.add(module[0], tiny("shared"))
            s.bucket.misbehave(module, "stall")
            before = [node.metrics()["symbolicated_lease_waits_total"] for node in s.nodes]
            with ThreadPoolExecutor(3) as pool:
                first = pool.submit(lambda: s.nodes[0].client().post("/symbolicate/v5", job([module], [[0, 1]])).status)
                wait_for(lambda: s.bucket.hits(module) == 1, "the first to load")
                others = [pool.submit(function, s, module, node) for node in (1, 2)]
                for i in (1, 2):
                    wait_for(lambda i=i: s.nodes[i].metrics()["symbolicated_lease_waits_total"] > before[i], "the others to wait")
                s.bucket.misbehave(module, "slow:2")
                s.nodes[0].daemon.crash()
                assert [other.result(60) for other in others] == ["shared"] * 2
                assert first.result(60) in (502, 503, 504)
            s.nodes[0].daemon.start()
            return s.bucket.hits(module)

        of_some_module(loads, 2)


LEASE = r"s\d+l:"  # its key


def leases(stack):
    return [key for _, key in stack.stored_keys() if re.match(LEASE, key)]


@pytest.mark.slow
def test_a_lease_that_ran_out_is_taken_again():
    """A host that stands still for seconds goes on with its load as if nothing had been, unless another took it over."""
    with sample_stack(config={"bucket_stall_timeout": "300s"}) as s:
        s.bucket.misbehave(APP, "hold")
        with ThreadPoolExecutor(1) as pool:
            reply = pool.submit(sample_is_right, s)
            wait_for(lambda: s.bucket.hits() == 1 and leases(s), "the load to have its lease")
            s.daemon.freeze()
            wait_for(lambda: not leases(s), "the lease to run out")
            s.daemon.signal(signal.SIGCONT)
            wait_for(lambda: leases(s), "the load to take it again")
            s.bucket.misbehave(APP, "ok")
            reply.result(60)
        stored(s)
        s.node.restart()
        sample_is_right(s)
        assert s.bucket.hits() == 1


@pytest.mark.parametrize("about", ["", LEASE], ids=["any", "lease"])
def test_a_module_that_another_host_stores_meanwhile_is_not_loaded_again(about):
    """Memcached's first word, about anything or about the module's lease, reaches one host late; the other loads the module in
    that time, if it may."""
    with Stack(daemons=2, config={"request_timeout": "60s", "memcached_timeout": "60s"}) as s:
        relay = Relay(s.memcached[0].address)
        s.nodes[0].daemon.settings.update(memcached=relay.setting)
        s.nodes[0].restart()
        relay.about = about.encode()

        def loads(module):
            s.symbols.add(module[0], tiny("once"))
            stores = s.nodes[0].metrics()["symbolicated_store_seconds_count"]
            waits = s.nodes[1].metrics()["symbolicated_lease_waits_total"]
            held = relay.held = threading.Event()
            late = pool.submit(function, s, module, 0)
            wait_for(lambda: relay.holding == 1, "the answer to be on its way")
            relay.held = None
            other = pool.submit(function, s, module, 1)
            wait_for(
                lambda: s.nodes[1].metrics()["symbolicated_lease_waits_total"] > waits or (other.done() and not leases(s)),
                "the other host to have loaded it, or to wait",
            )
            held.set()
            assert late.result(60) == other.result(60) == "once"
            s.nodes[0].settled()
            hits = s.bucket.hits(module)
            # nor is it stored again
            assert about or hits > 1 or s.nodes[0].metrics()["symbolicated_store_seconds_count"] == stores
            return hits

        with contextlib.closing(relay), ThreadPoolExecutor(2) as pool:
            of_some_module(loads, 1)


def test_who_waits_for_other_hosts_has_no_place_of_a_transfer():
    """One host loads six modules that stand still; another, which wants them too, may have two transfers at a time."""
    config = {"bucket_stall_timeout": "300s", "cold_wait": "30s"}
    with Stack(daemons=2, symbols=[None, None], config=config) as s:
        stalled = [s.symbols.add(f"stalled{i}.so", SAMPLE) for i in range(6)]
        for module in stalled:
            s.bucket.misbehave(module, "stall")
        nodes = [node.client() for node in s.nodes]
        s.nodes[1].daemon.settings.update(bucket_parallel="2", bucket_parallel_request="2")
        s.nodes[1].restart()
        with ThreadPoolExecutor(12) as pool:
            there = [pool.submit(nodes[0].post, "/symbolicate/v5", job([m], [[0, 0x1000]])) for m in stalled]
            wait_for(lambda: s.bucket.hits() == 6, "one host to load")
            here = [pool.submit(nodes[1].post, "/symbolicate/v5", job([m], [[0, 0x1000]])) for m in stalled]
            wait_for(lambda: s.nodes[1].metrics()["symbolicated_lease_waits_total"] >= 2, "the other to wait for it")
            quick = s.buckets[1].symbols.add("quick.so", SAMPLE)
            assert nodes[1].frames(quick, [0x1000])[0]["function"] == SAMPLE_FRAMES[0x1000]["function"]
            assert not any(reply.done() for reply in there + here)
            wait_for(lambda: s.nodes[1].metrics()["symbolicated_lease_waits_total"] == 6, "the other to wait for all")
            s.bucket.kill()  # the other host tries when the first has given up
            assert {reply.result().status for reply in there + here} == {503}
        wait_for(lambda: s.nodes[1].metrics()["symbolicated_loads_in_flight"] == 0, "every load to have ended")


# Invalidation


def delete(stack, module, key="", node=0):
    headers = {} if key is None else {"Authorization": key or stack.key}
    path = f"/cache/{quote(module[0], safe='')}/{quote(module[1], safe='')}"
    return stack.nodes[node].client().request("DELETE", path, headers=headers)


@pytest.fixture(scope="module")
def pair():
    with Stack(daemons=2, keys=True, config={"revalidate_after": f"{int(REVALIDATE)}s"}) as s:
        yield s


def function(stack, module, node=0):
    return stack.nodes[node].client().frames(module, [0x1000])[0].get("function")


def test_delete_without_key(pair):
    module = pair.symbols.add("guarded.so", tiny("old"))
    assert function(pair, module) == "old"
    pair.symbols.add("guarded.so", tiny("new"))
    delete(pair, module, None).error(401)
    for wrong in ("", "APIKey", "APIKey !!!", "Bearer " + pair.key.split(" ")[1], "Basic dGVzdGVyOng="):
        assert delete(pair, module, wrong or " ").status in (401, 403), wrong
    assert function(pair, module) == "old"


@pytest.mark.in_turn
@pytest.mark.parametrize("wrong", ["secret", "id", "empty secret", "cut", "longer"])
def test_delete_with_a_wrong_key(pair, wrong):
    ident, secret = base64.b64decode(pair.key.split(" ")[1]).decode().split(":", 1)
    secret_of = {"secret": secret[::-1], "id": secret, "empty secret": "", "cut": secret[:-1], "longer": secret + "0"}
    text = f"{'nobody' if wrong == 'id' else ident}:{secret_of[wrong]}"
    reply = delete(pair, APP, "APIKey " + base64.b64encode(text.encode()).decode())
    assert secret not in reply.error(403)["error"]


def test_keys_are_read_again_and_their_rights_hold(pair):
    good, other = pair.add_key("invalidator", "invalidate"), pair.add_key("uploader", "upload")
    pair.daemon.signal(signal.SIGHUP)
    wait_for(lambda: delete(pair, APP, good).status == 200, "the new key to be known")
    delete(pair, APP, other).error(403)


def test_a_key_is_changed_without_a_refusal():
    """As operation.md has it: the new one is added, both hold, and then the old one is revoked."""
    with sample_stack(keys=True) as s:
        old, new, asked, stop = s.key, s.add_key("next", "invalidate"), [], threading.Event()
        assert delete(s, APP, new).status == 403
        using = [old]

        def ask():
            while not stop.is_set():
                asked.append(delete(s, APP, using[0]).status)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            s.daemon.reload()
            assert {delete(s, APP, key).status for key in (old, new)} == {200}
            using[0] = new
            before = len(asked)
            wait_for(lambda: len(asked) > before + 2, "requests with the new key")
            subprocess.run([*KEYS_TOOL, "revoke", "tester", s.keys_file], check=True, capture_output=True)
            s.daemon.reload()
            assert delete(s, APP, old).status == 403
            before = len(asked)
            wait_for(lambda: len(asked) > before + 2, "requests after the old key was revoked")
        finally:
            stop.set()
            thread.join(60)
        assert set(asked) == {200}, set(asked)


def test_delete_answers_json(pair):
    reply = delete(pair, ["never-heard-of.so", debug_id("x")])
    assert reply.status == 200 and isinstance(reply.json(), dict)
    assert reply.headers["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize("name", ["changed.so", "changed é [x]+%.pdb"])
def test_a_changed_file_is_served_after_delete(pair, name):
    module = pair.symbols.add(name, tiny("old"))
    for node in (0, 1):
        assert function(pair, module, node) == "old"
    stored(pair)
    pair.symbols.add(name, tiny("new"))
    for node in (0, 1):
        assert function(pair, module, node) == "old"
    assert delete(pair, module).status == 200
    assert function(pair, module, 0) == "new"
    time.sleep(REVALIDATE)  # so long the second may go on with what it has
    assert function(pair, module, 1) == "new"
    # It stays so, in both.
    end = time.monotonic() + 2 * REVALIDATE
    while time.monotonic() < end:
        for node in (0, 1):
            assert function(pair, module, node) == "new"
    stored(pair)
    for node in pair.nodes:
        node.restart()
    for node in (0, 1):
        assert function(pair, module, node) == "new"


@pytest.mark.slow
@pytest.mark.parametrize("node", [0, 1])
def test_delete_reaches_processes_of_another_version(node):
    """While hosts are upgraded one by one, and after they were rolled back."""
    with Stack(daemons=2, keys=True, config={"revalidate_after": f"{int(REVALIDATE)}s"}) as s:
        module = s.symbols.add("versions.so", tiny("old"))
        # what the version of the rollback had stored before
        assert function(s, module, 1) == "old"
        stored(s)
        ours, s.nodes[1].daemon.program = s.nodes[1].daemon.program, another_version()
        s.nodes[1].restart()
        for each in (0, 1):
            assert function(s, module, each) == "old"
        stored(s)
        with s.memcached[0].raw() as raw:
            assert len({key.split(":")[0] for key in raw.keys() if key.split(":")[0].endswith("r")}) == 2  # roots of both
        s.symbols.add("versions.so", tiny("new"))
        assert delete(s, module, node=node).status == 200
        with s.memcached[0].raw() as raw:
            # what is in use: another version of it and hosts no longer hear of each other while they are upgraded
            assert [key.split(":")[0] for key in raw.keys() if key.split(":")[0].endswith("m")] == ["s1m"]
        for each in (0, 1):
            wait_for(lambda each=each: function(s, module, each) == "new", f"process {each} to serve the new file")
        stored(s)
        s.nodes[1].daemon.program = ours
        for each in s.nodes:
            each.restart()
        for each in (0, 1):
            assert function(s, module, each) == "new"


def test_delete_in_another_case(pair):
    module = pair.symbols.add("cased.so", tiny("old"))
    assert function(pair, module) == "old"
    pair.symbols.add("cased.so", tiny("new"))
    assert delete(pair, [module[0], module[1].lower()]).status == 200
    assert function(pair, module) == "new"


@pytest.mark.slow
@pytest.mark.parametrize("was", ["missing", "corrupt"])
def test_delete_forgets_failures(pair, was):
    module = [f"{was}-then-there.so", debug_id(f"{was}-then-there.so")]
    if was == "corrupt":
        pair.symbols.put(*module, b"no symbol file\n")
    for node in (0, 1):
        assert pair.nodes[node].client().found(module) is False
    pair.symbols.add(module[0], tiny("there"), module[1])
    assert pair.client.found(module) is False
    assert delete(pair, module).status == 200
    assert pair.client.found(module) is True
    wait_for(lambda: pair.nodes[1].client().found(module), "the second process to find it")


@pytest.mark.slow
def test_a_removed_file_is_missing_after_delete(pair):
    module = pair.symbols.add("removed.so", tiny())
    for node in (0, 1):
        assert pair.nodes[node].client().found(module) is True
    pair.symbols.remove(*module)
    assert delete(pair, module).status == 200
    assert pair.client.found(module) is False
    wait_for(lambda: not pair.nodes[1].client().found(module), "the second process to miss it")


@pytest.mark.slow
def test_delete_during_a_load_does_not_keep_the_old_file(pair):
    """The transfer that began before is not what is served afterwards."""
    module = pair.symbols.add("raced.so", tiny("old"))
    pair.bucket.misbehave(module, "hold")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(function, pair, module)
        wait_for(lambda: pair.bucket.hits(module) >= 1, "the load to begin")
        assert delete(pair, module).status == 200
        pair.bucket.misbehave(module, "ok")
        first.result(60)
    pair.symbols.add("raced.so", tiny("new"))
    assert delete(pair, module).status == 200
    pair.bucket.reset()
    assert function(pair, module) == "new"
    wait_for(lambda: function(pair, module, 1) == "new", "the second process to serve the new file")


@pytest.mark.slow
def test_who_has_seen_the_deletion_does_not_get_what_began_before():
    """A load of one process began before another deleted; who asks the first process afterwards gets the new file."""
    config = {"bucket_stall_timeout": "3s", "bucket_retries": "0", "revalidate_after": f"{int(REVALIDATE)}s"}
    with Stack(daemons=2, keys=True, config=config) as s:
        module = s.symbols.add("overtaken.so", tiny("old"))
        s.bucket.misbehave(module, "stall", times=1)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(s.nodes[1].client().post, "/symbolicate/v5", job([module], [[0, 0x1000]]))
            wait_for(lambda: s.bucket.hits(module) == 1, "the load to begin")
            s.symbols.add("overtaken.so", tiny("new"))
            assert delete(s, module).status == 200
            assert function(s, module, 1) == "new"
            assert first.result(30).status in (200, 503)


@pytest.mark.slow
@pytest.mark.parametrize("memcached", [0, 1])
def test_modules_of_one_request_may_be_larger_than_the_cache(memcached, gensym):
    """They are kept until it is answered, at the first try."""
    with Stack(memcached=memcached, config={"cache_size": "1M"}) as s:
        modules = [[f"large{i}.pdb", debug_id(f"large{i}")] for i in range(4)]
        answers = [add_big(s, gensym, m, functions=1000, seed=i) for i, m in enumerate(modules)]
        frames = [[i, int(a["offset"], 16)] for i in range(4) for a in answers[i]]
        # with debug a request waits for whole maps; without it would be answered from the few functions it asks for
        result = s.client.v5(job(modules, frames), Debug="1")["results"][0]
        assert differences(sum(answers, []), result["stacks"][0]) == []
        assert s.bucket.hits() == 4
        wait_for(lambda: s.node.metrics()["symbolicated_cache_bytes"] <= 1 << 20, "the cache to be within its size")


@pytest.mark.slow
def test_delete_under_load(pair):
    """Old or new, never a mixture or an error, and nothing old to who asks after revalidate_after, though frames are hot."""
    name = "busy.so"
    body = "FILE 0 {0}.c\nFUNC 1000 10 0 {0}\n1000 10 {1} 0\n"
    module = pair.symbols.add(name, body.format("version0", 1))
    stop, wrong, stale = threading.Event(), [], []
    over = [(0, 0.0)]  # (version, from when on nobody may get an older one)

    def load(node):
        while not stop.is_set():
            least = max(version for version, since in over if time.monotonic() > since)
            got = pair.nodes[node].client().frames(module, [0x1000])[0]
            number = int(got.get("function", "version-1")[7:])
            if (got.get("file"), got.get("line")) != (f"version{number}.c", number + 1):
                wrong.append(got)
            if number < least:
                stale.append((node, number, least))

    kept = 'symbolicated_cache_lookups_total{what="frame",level="process"}'
    before = [node.metrics()[kept] for node in pair.nodes]
    threads = [threading.Thread(target=load, args=(i % 2,)) for i in range(4)]
    for t in threads:
        t.start()
    try:
        for version in range(1, 6):
            pair.symbols.add(name, body.format(f"version{version}", version + 1))
            assert delete(pair, module, node=version % 2).status == 200
            over.append((version, time.monotonic() + REVALIDATE))
            assert function(pair, module, version % 2) == f"version{version}"
            wait_for(lambda: time.monotonic() > over[-1][1], "the time for which the other process may go on")
            for node in (0, 1):
                assert function(pair, module, node) == f"version{version}"
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not wrong, wrong[:3]
    assert not stale, stale[:3]
    assert all(node.metrics()[kept] > old for node, old in zip(pair.nodes, before))


def test_delete_while_memcached_answers():
    """What memcached answered before is for the request that asked, but is not kept."""
    with relayed(keys=True, request_timeout="60s", memcached_timeout="60s", revalidate_after="1h") as (s, relay):
        module = s.symbols.add("raced.so", tiny("old"))
        assert function(s, module) == "old"
        stored(s)
        s.node.restart()
        held = relay.held = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(function, s, module)
            wait_for(lambda: relay.holding == 1, "the answer to be on its way")
            relay.held = None
            s.symbols.add("raced.so", tiny("new"))
            assert delete(s, module).status == 200
            held.set()
            assert first.result() in ("old", "new")
        assert [function(s, module) for _ in range(3)] == ["new"] * 3


def test_delete_while_another_process_loads():
    """Who loads the new file does not wait for one who has begun with the old one."""
    config = {"request_timeout": "60s", "bucket_stall_timeout": "60s"}
    with Stack(daemons=2, keys=True, config=config) as s, ThreadPoolExecutor(1) as pool:
        module = s.symbols.add("half.so", tiny("old"))
        s.bucket.misbehave(module, "stall", times=1)
        first = pool.submit(s.client.post, "/symbolicate/v5", job([module], [[0, 0x1000]]))
        wait_for(lambda: s.bucket.hits(module) == 1, "the old file to be asked for")
        s.symbols.add("half.so", tiny("new"))
        assert delete(s, module, node=1).status == 200
        assert function(s, module, 1) == "new"
        assert not first.done()
        s.bucket.kill()
        assert first.result().status == 503


def asked_again(stack, module, node):
    """What a host says once the time is over in which it need not ask whether anything changed."""
    time.sleep(REVALIDATE)
    return function(stack, module, node)


@pytest.mark.slow
def test_warm_requests_go_on_while_memcached_begins_empty():
    """A module that takes its source seconds is loaded again in the background; one that has gone is missing then."""
    with Stack(config={"revalidate_after": f"{int(REVALIDATE)}s"}) as s:
        slow, gone = s.symbols.add("slow.so", tiny("slow")), s.symbols.add("gone.so", tiny("gone"))
        assert [function(s, m) for m in (slow, gone)] == ["slow", "gone"]
        stored(s)
        s.symbols.remove("gone.so", gone[1])
        s.bucket.misbehave(slow, "slow:3")
        s.memcached[0].kill()
        s.memcached[0].start()
        time.sleep(REVALIDATE)
        begin, asked = time.monotonic(), []
        while not any(re.match(r"s\d+r:", key) for _, key in s.stored_keys()):
            start = time.monotonic()
            assert function(s, slow) == "slow"
            asked.append(time.monotonic() - start)
            assert time.monotonic() - begin < 60
        assert s.bucket.hits(slow) == 2 and len(asked) > 3 and sorted(asked)[len(asked) // 2] < 1, asked
        wait_for(lambda: function(s, gone) is None, "what has gone to be missing", 20)


@pytest.mark.slow
@pytest.mark.parametrize("loses", ["restart", "flush"])
def test_a_deletion_that_memcached_loses_is_heard_all_the_same(loses):
    """The other host asks for the first time when the marker is gone with all that memcached held."""
    with Stack(daemons=2, keys=True, config={"revalidate_after": f"{int(REVALIDATE)}s"}) as s:
        module, kept = s.symbols.add("lost.so", tiny("old")), s.symbols.add("kept.so", tiny("same"))
        for node in (0, 1):
            assert function(s, module, node) == "old"
            assert function(s, kept, node) == "same"
        stored(s)
        s.symbols.add("lost.so", tiny("new"))
        assert delete(s, module, node=0).status == 200
        assert function(s, module, 0) == "new"
        if loses == "restart":
            s.memcached[0].kill()
            s.memcached[0].start()
        else:
            with s.memcached[0].raw() as raw:
                raw.flush()
        # what it has answers until the file is loaded once more
        assert asked_again(s, module, 1) in ("old", "new")
        wait_for(lambda: function(s, module, 1) == "new", "the other host to have the new file", 20)
        assert asked_again(s, module, 0) == "new"
        # what both know again is not asked for again
        assert [asked_again(s, kept, node) for node in (0, 1)] == ["same", "same"]
        wait_for(lambda: s.bucket.hits(kept) == 2, "it to be loaded once more, by one of them", 20)
        stored(s)
        assert [asked_again(s, kept, node) for node in (0, 1)] == ["same", "same"]
        hits = s.bucket.hits(kept)
        assert [asked_again(s, kept, node) for node in (0, 1)] == ["same", "same"] and s.bucket.hits(kept) == hits


@pytest.mark.slow
def test_delete_while_memcached_hangs():
    with Stack(keys=True, config={"revalidate_after": "1s", **SOON_HUNG}) as s:
        module = s.symbols.add("hung.so", tiny("old"))
        assert function(s, module) == "old"
        stored(s)
        s.symbols.add("hung.so", tiny("new"))
        with s.memcached[0].suspended():
            reply = delete(s, module)
            assert reply.error(503)["error"]
            # Here it is forgotten all the same.
            assert function(s, module) == "new"
        wait_for(lambda: delete(s, module).status == 200, "memcached to be reached again", pause=0.1)
        assert function(s, module) == "new"


def test_delete_without_memcached():
    with Stack(memcached=0, keys=True) as s:
        module = s.symbols.add("alone.so", tiny("old"))
        assert function(s, module) == "old"
        s.symbols.add("alone.so", tiny("new"))
        assert delete(s, module).status == 200
        assert function(s, module) == "new"


def test_without_keys_nobody_may_delete():
    with Stack(memcached=0) as s:
        delete(s, APP, None).error(401)
        delete(s, APP, "APIKey dGVzdGVyOng=").error(403)
