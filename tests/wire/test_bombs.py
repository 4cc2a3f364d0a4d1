# SPDX-License-Identifier: Apache-2.0
"""Small requests and objects that are made to cost much, through the real servers: refused or answered, within bounded
memory."""

import gzip
import itertools
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from client import job
from stack import Stack, has_sanitizer, less_when_watched, wait_for
from symbols import SAMPLE, SAMPLE_FRAMES, TOOLS, debug_id, module_line

sys.path.insert(0, TOOLS)
from plain_symbfile import write  # noqa: E402

MIB = 1 << 20


@pytest.fixture(scope="module")
def stack():
    config = {"bucket_max_size": "64M", "max_body": "20M", "max_body_inflated": "20M", "cache_size": "256M"}
    with Stack(config=config) as s:
        yield s


def most_memory(stack):
    """Bytes that the process has had at one time."""
    with open(f"/proc/{stack.daemon.process.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


class Growth:
    """Fails when the process has grown by more than `bound` bytes meanwhile. (A sanitizer keeps what is freed for a while.)"""

    def __init__(self, stack, bound):
        self.stack, self.bound = stack, bound

    def __enter__(self):
        with open(f"/proc/{self.stack.daemon.process.pid}/clear_refs", "w", encoding="ascii") as peak:
            peak.write("5")  # the peak begins anew with what it has now
        self.before = most_memory(self.stack)

    def __exit__(self, kind, *_):
        if kind is None:
            grown = most_memory(self.stack) - self.before
            assert grown <= self.bound or has_sanitizer(), f"grown by {grown} bytes"


@pytest.mark.slow
def test_gzip_request(stack):
    """A thousand times its size, inside and above the limit."""
    good = b'{"stacks":[],"memoryMap":[]' + b" " * (15 * MIB) + b"}"
    packed = gzip.compress(good, 9)
    assert len(packed) * 900 < len(good)
    with Growth(stack, 64 * MIB):
        reply = stack.client.post("/symbolicate/v5", packed, Content_Encoding="gzip")
        assert reply.status == 200, reply
        reply = stack.client.post("/symbolicate/v5", gzip.compress(b" " * (500 * MIB), 9), Content_Encoding="gzip")
        reply.error(413)


@pytest.mark.slow
def test_gzip_object(stack):
    """The same of an object: too large is an answer, not a failure."""
    ident = debug_id("bomb")
    data = module_line("bomb.so", ident) + b"FUNC 1000 10 0 f\n" + b"\n" * (less_when_watched(500) * MIB)
    packed = gzip.compress(gzip.compress(data, 6), 6)
    assert len(packed) * 10000 < len(data)
    stack.symbols.put("bomb.so", ident, packed)
    with Growth(stack, 96 * MIB):
        assert stack.client.found(["bomb.so", ident]) is False
    # within the limit it is a file as any other
    data = module_line("large.so", ident) + b"FUNC 1000 10 0 f\n" + b"\n" * (60 * MIB)
    stack.symbols.put("large.so", ident, gzip.compress(data, 9))
    with Growth(stack, 96 * MIB):
        assert stack.client.found(["large.so", ident]) is True


def test_v4_keeps_nothing_of_inlined_calls(stack):
    """It writes function names only, so nested calls cost it nothing: one small file, a small reply."""
    depth, frames = 9000, 2000
    lines = ["INLINE_ORIGIN 0 in", "FILE 0 a.c", f"FUNC 1000 {frames:x} 0 f"]
    lines += [f"INLINE {i} 1 0 0 1000 {frames:x}" for i in range(depth)]
    module = stack.symbols.add("deep.so", "\n".join([*lines, f"1000 {frames:x} 1 0"]) + "\n", compress=True)
    assert len(stack.client.frames(module, [0x1000])[0]["inlines"]) == depth
    stack.node.settled()
    with Growth(stack, 64 * MIB):
        reply = stack.client.v4(job([module], [[0, 0x1000 + i] for i in range(frames)]))
    assert reply["symbolicatedStacks"] == [["f (in deep.so)"] * frames]


def test_lookups_end_with_the_time_of_a_request():
    """Also when all is in memory: 20,000 frames of 500 calls each take longer than they may."""
    with Stack(config={"request_timeout": "100ms", "max_reply": "4G"}) as s:
        depth, frames = 500, 20000
        lines = ["INLINE_ORIGIN 0 in", "FILE 0 a.c", f"FUNC 1000 {frames:x} 0 f", *(f"INLINE {i} 1 0 0 1000 {frames:x}" for i in range(depth))]
        module = s.symbols.add("deep.so", "\n".join([*lines, ""]))
        wait_for(lambda: s.client.post("/symbolicate/v5", job([module], [[0, 0x1000]])).status == 200, "the module")
        s.client.post("/symbolicate/v5", job([module], [[0, 0x1000 + i] for i in range(frames)])).error(503)


@pytest.mark.parametrize("memcached", [0, 1])
def test_names_that_no_reply_could_hold(memcached):
    """One frame whose inlined calls have names of 6 MB each, as JSON: refused before all of them are in memory."""
    with Stack(memcached=memcached, config={"max_reply": "16M", "cache_size": "16M"}) as s:
        lines = [b"FUNC 1000 10 0 f", *(b"INLINE %d 1 0 %d 1000 10" % (i, i) for i in range(60))]
        names = (b"INLINE_ORIGIN %d " % i + b"\x01" * MIB for i in range(60))
        ident = debug_id("names")
        s.symbols.put("names.so", ident, gzip.compress(b"\n".join([module_line("names.so", ident) + b"FILE 0 a.c", *names, *lines, b""]), 1))
        with Growth(s, 128 * MIB):
            s.client.post("/symbolicate/v5", job([["names.so", ident]], [[0, 0x1000]])).error(400)


def in_order(n):
    return "".join(f"FUNC {a:x} 10 0 function{a}\n{a:x} 8 {a % 999} 0\n" for a in range(0x1000, 0x1000 + 16 * n, 16))


# Files of which much must be kept until all is there
BUILT = {
    "PUBLIC behind FUNCs": lambda: in_order(1_000_000) + "PUBLIC 10 0 p\n",
    "not sorted": lambda: in_order(1_000_000) + "FUNC 10 10 0 f\n",
    "nested": lambda: "".join(f"FUNC {i:x} {0x10000000 - 2 * i:x} 0 f\n" for i in range(400_000)),
    "inlines of one": lambda: "FUNC 1000 ffffff 0 f\n" + "".join(f"INLINE 0 1 0 0 {a:x} 1\n" for a in range(0x1000, 0x200000, 2)),
    "names": lambda: "".join(f"INLINE_ORIGIN {i} a name of its own, {i}\n" for i in range(1_000_000)) + "FUNC 1000 10 0 f\n",
}


@pytest.fixture(scope="module")
def small_builder(tmp_path_factory):
    store = tmp_path_factory.mktemp("store")
    config = {"cache_size": "64M", "load_memory_max": "32M", "symbfile_store": f"file://{store}"}
    with Stack(config=config, keys=True) as s:
        yield s


def given_up(stack, module):
    """Answered `false`, the log names the setting, and nothing stays charged."""
    with Growth(stack, (2 * 32 + 64) * MIB):
        # with debug a request waits for the map; without it could be answered from the few functions it asks for
        result = stack.client.v5(job([module], [[0, 0x1000]]), Debug="1")["results"][0]
        assert result["found_modules"] == {"/".join(module): False}
    assert any(line["event"] == "too large" and module[1] in line["text"] and "load_memory_max" in line["text"] for line in stack.daemon.log_lines())
    stack.node.settled()
    assert stack.client.found(stack.symbols.add("good.so", SAMPLE)) is True


@pytest.mark.slow
@pytest.mark.parametrize("kind", BUILT)
def test_a_map_that_takes_too_much_memory_is_given_up(small_builder, kind):
    ident = debug_id(kind)
    data = module_line("built.so", ident) + b"FILE 0 a.c\n" + BUILT[kind]().encode()
    small_builder.symbols.put("built.so", ident, gzip.compress(data, 1))
    given_up(small_builder, ["built.so", ident])


@pytest.mark.slow
def test_a_set_of_symbfiles_that_takes_too_much_memory_is_given_up(small_builder):
    """Each part is small, all together are not."""
    raw = b"a large program."
    for part in range(4):
        records = ({"t": "range", "va": hex(16 * (50_000 * part + i)), "len": 16, "depth": 0, "func": f"function_{part}_{i}",
                    "file": "/src/a.c", "lines": [[0, i], [8, i + 1]]} for i in range(50_000))  # fmt: skip
        headers = {"FileID": raw.hex(), "FilePart": str(part), "FileParts": "4", "Authorization": small_builder.key}
        reply = small_builder.client.request("POST", "/api/symbols-ranges", write(records), headers)
        assert reply.status == 200, reply
    given_up(small_builder, ["prog", raw.hex()])


def test_one_module_many_times(stack):
    """A job that lists one module 10,000 times is one load, one key, and right for all."""
    module = stack.symbols.add("often.so", SAMPLE)
    before = stack.bucket.hits(module)
    with Growth(stack, 64 * MIB):
        reply = stack.client.v5(job([module] * 10000, [[i, 0x1000] for i in range(10000)]))
    frames = reply["results"][0]["stacks"][0]
    assert len(frames) == 10000
    want = {"module": "often.so", "module_offset": "0x1000", **SAMPLE_FRAMES[0x1000]}
    assert all(frame == {"frame": k, **want} for k, frame in enumerate(frames))
    assert reply["results"][0]["found_modules"] == {"/".join(module): True}
    assert stack.bucket.hits(module) == before + 1


DEEP_OR_MANY = {
    "lists": lambda: b'{"x":' + b"[" * 100000 + b"]" * 100000 + b',"stacks":[],"memoryMap":[]}',
    "objects": lambda: b'{"x":' + b'{"":' * 100000 + b"0" + b"}" * 100000 + b',"stacks":[],"memoryMap":[]}',
    "a million modules": lambda: b'{"stacks":[],"memoryMap":[' + b",".join(b'["a%d","0"]' % i for i in range(1000000)) + b"]}",
}


@pytest.mark.parametrize("kind", DEEP_OR_MANY)
def test_refused(stack, kind):
    with Growth(stack, 64 * MIB):
        stack.client.post("/symbolicate/v5", DEEP_OR_MANY[kind]()).error(400)


def test_long_numbers(stack):
    """A number of a million digits is given back as it was written."""
    module = stack.symbols.add("digits.so", SAMPLE)
    digits = "9" * 1000000
    with Growth(stack, 64 * MIB):
        text = '{"memoryMap":[["%s","%s"]],"stacks":[[[0,%s],[0,-0.%s]]]}' % (*module, digits, digits)
        frames = stack.client.v5(text)["results"][0]["stacks"][0]
    assert [f["module_offset"] for f in frames] == [digits, f"-0.{digits}"]


@pytest.mark.slow
@pytest.mark.skipif(has_sanitizer(), reason="a sanitizer or valgrind keeps what is freed")
def test_requests_that_wait_do_not_take_all_memory():
    """Each of them holds some 30 MB while the bucket stands still. Those that have no room are refused; small ones find some."""
    config = {"cache_size": "16M", "memory": "160M", "workers": "2", "max_frames": "1000000", "bucket_stall_timeout": "60s", "bucket_retries": "0"}
    with Stack(symbols=[None, None], config=config) as s:
        warm, stalled = (s.symbols.add(f"{name}.so", SAMPLE) for name in ["warm", "stalled"])
        assert s.client.post("/symbolicate/v5", job([warm], [[0, 0x1000]])).status == 200
        cold = (s.buckets[1].symbols.add(f"cold{i}.so", SAMPLE) for i in itertools.count())
        s.bucket.misbehave(stalled, "stall")
        large = gzip.compress(json.dumps(job([stalled], [[0, 0x1000]] * 1_000_000)).encode() + b" " * (10 * MIB), 1)
        over, refused = threading.Event(), threading.Event()

        def ask_large():
            while not over.is_set():
                reply = s.client.post("/symbolicate/v5", large, Content_Encoding="gzip")
                if reply.status == 503 and not over.is_set():
                    assert int(reply.headers["Retry-After"]) >= 1
                    refused.set()

        with ThreadPoolExecutor(12) as pool:
            waiting = [pool.submit(ask_large) for _ in range(12)]
            try:
                assert refused.wait(60)
                assert s.client.post("/symbolicate/v5", job([warm], [[0, 0x1000]])).status == 200
                for module in itertools.islice(cold, 5):
                    wait_for(lambda m=module: s.client.post("/symbolicate/v5", job([m], [[0, 0x1000]])).status == 200, "a small one")
                assert s.node.metrics()['symbolicated_memory_bytes{kind="bodies"}'] > 30 * MIB
            finally:
                over.set()
                s.bucket.kill()
            for w in waiting:
                w.result()
        assert most_memory(s) <= 160 * MIB
        s.node.settled()
        wait_for(lambda: s.node.metrics()['symbolicated_memory_bytes{kind="bodies"}'] == 0, "the account of bodies to be empty")
