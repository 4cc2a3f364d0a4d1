"""Small requests and objects that are made to cost much, through the real servers: refused or answered, within bounded
memory."""

import gzip
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from client import job
from stack import Stack, has_sanitizer, wait_for
from symbols import SAMPLE, SAMPLE_FRAMES, debug_id, module_line

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


def test_gzip_object(stack):
    """The same of an object: too large is an answer, not a failure."""
    ident = debug_id("bomb")
    data = module_line("bomb.so", ident) + b"FUNC 1000 10 0 f\n" + b"\n" * (500 * MIB)
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


@pytest.mark.parametrize(
    "body",
    [
        b'{"x":' + b"[" * 100000 + b"]" * 100000 + b',"stacks":[],"memoryMap":[]}',
        b'{"x":' + b'{"":' * 100000 + b"0" + b"}" * 100000 + b',"stacks":[],"memoryMap":[]}',
        b'{"stacks":[],"memoryMap":[' + b",".join(b'["a%d","0"]' % i for i in range(1000000)) + b"]}",
    ],
    ids=["lists", "objects", "a million modules"],
)
def test_refused(stack, body):
    with Growth(stack, 64 * MIB):
        stack.client.post("/symbolicate/v5", body).error(400)


def test_long_numbers(stack):
    """A number of a million digits is given back as it was written."""
    module = stack.symbols.add("digits.so", SAMPLE)
    digits = "9" * 1000000
    with Growth(stack, 64 * MIB):
        text = '{"memoryMap":[["%s","%s"]],"stacks":[[[0,%s],[0,-0.%s]]]}' % (*module, digits, digits)
        frames = stack.client.v5(text)["results"][0]["stacks"][0]
    assert [f["module_offset"] for f in frames] == [digits, f"-0.{digits}"]


@pytest.mark.skipif(has_sanitizer(), reason="a sanitizer or valgrind keeps what is freed")
def test_requests_that_wait_do_not_take_all_memory():
    """Each of them holds some 50 MB while the bucket stands still."""
    config = {"cache_size": "16M", "max_memory": "272M", "workers": "2", "bucket_stall_timeout": "60s", "bucket_retries": "0"}
    with Stack(symbols=[None, None], config=config) as s:
        warm, stalled, cold = (s.buckets[bucket].symbols.add(f"{name}.so", SAMPLE) for name, bucket in [("warm", 0), ("stalled", 0), ("cold", 1)])
        assert s.client.post("/symbolicate/v5", job([warm], [[0, 0x1000]])).status == 200
        s.bucket.misbehave(stalled, "stall")
        large = gzip.compress(json.dumps(job([stalled], [[0, 0x1000]] * 1_000_000)).encode() + b" " * (10 * MIB), 1)
        with ThreadPoolExecutor(12) as pool:
            waiting = [pool.submit(s.client.post, "/symbolicate/v5", large, Content_Encoding="gzip") for _ in range(12)]
            wait_for(lambda: any(line["event"] == "memory full" for line in s.daemon.log_lines()), "memory to be full")
            reply = s.client.post("/symbolicate/v5", job([cold], [[0, 0x1000]]))
            reply.error(503)
            assert int(reply.headers["Retry-After"]) >= 1
            assert s.client.post("/symbolicate/v5", job([warm], [[0, 0x1000]])).status == 200
            s.bucket.kill()
            assert {w.result().status for w in waiting} == {503}
        # two more may be in hand, and memory is looked at ten times a second
        assert most_memory(s) < (272 + 200) * MIB
        wait_for(lambda: s.client.post("/symbolicate/v5", job([cold], [[0, 0x1000]])).status == 200, "what was held to be free again")
