# SPDX-License-Identifier: Apache-2.0
"""Real requests and large files: thousands of requests from several clients, and every answer that is known."""

import gzip
import json
import os
import random
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from client import job
from stack import ROOT, Stack, has_sanitizer, less_when_watched, seed_of, wait_for
from symbols import SAMPLE, debug_id, differences, make_bucket, module_line, read_answers, run_gensym

DATA = os.path.join(ROOT, "tests", "data")
CLIENTS = 4
BATCH = 1000


def ask_all(stack, module, answers):
    """verify.py's comparison, in batches, from all clients at once."""

    def part(at):
        batch = answers[at : at + BATCH]
        return differences(batch, stack.client.frames(module, [int(a["offset"], 16) for a in batch]))

    with ThreadPoolExecutor(CLIENTS) as pool:
        return sum(pool.map(part, range(0, len(answers), BATCH)), [])


# Real requests


@pytest.fixture(scope="module")
def requests():
    path = os.path.join(DATA, "requests.jsonl.gz")
    with gzip.open(path, "rb") as lines:
        return path, [line.strip() for line in lines]


@pytest.fixture(scope="module")
def real_bucket(requests, gensym, tmp_path_factory):
    folder = tmp_path_factory.mktemp("real-bucket")
    line = make_bucket(gensym, requests[0], str(folder), "--scale", "0.02")
    assert int(line.split(" ")[0]) > 100, line
    return folder


def run_requests(stack, requests):
    """Every request as v4 and as v5, from four clients; returns how many frames had a function."""
    memory = {}

    def one(lines):
        named = 0
        client = stack.node.client(keep=True)
        for line in lines:
            old, new = client.v4(line), client.v5(line)
            asked = json.loads(line)
            modules = asked["memoryMap"]
            result = new["results"][0]
            assert list(map(len, result["stacks"])) == list(map(len, asked["stacks"]))
            for names, frames, stack_asked in zip(old["symbolicatedStacks"], result["stacks"], asked["stacks"]):
                for name, frame, (index, offset) in zip(names, frames, stack_asked):
                    shown = modules[index][0] or "<unknown>" if index >= 0 else "<unknown>"
                    if not isinstance(offset, int):
                        assert name == frame["module_offset"] and "function" not in frame
                    else:
                        assert name == f"{frame.get('function', frame['module_offset'])} (in {shown})"
                        named += "function" in frame
            known = [result["found_modules"]["/".join(m)] for m in modules]
            assert known == old["knownModules"]
            for module, found in zip(modules, known):
                if found is not None:
                    assert memory.setdefault(tuple(module), found) == found
        client.close()
        return named

    with ThreadPoolExecutor(CLIENTS) as pool:
        return sum(pool.map(one, [requests[i::CLIENTS] for i in range(CLIENTS)]))


@pytest.mark.in_turn
@pytest.mark.slow
def test_real_requests(requests, real_bucket):
    lines = requests[1][: less_when_watched(len(requests[1]))]
    with Stack(symbols=real_bucket) as s:
        named = run_requests(s, lines)
        assert named > less_when_watched(500)
        hits = s.bucket.hits()
        s.node.settled()
        assert run_requests(s, lines) == named
        assert s.bucket.hits() == hits  # the second time nothing is fetched
        s.node.restart()
        s.bucket.reset()
        assert run_requests(s, lines[::10]) > 0
        m = s.node.metrics()
        assert m["symbolicated_loads_total"] == 0 and m["symbolicated_pages_invalid_total"] == 0


@pytest.mark.slow
def test_real_requests_with_a_small_cache(requests, real_bucket):
    """Little memory here and in memcached: pages are evicted all the time."""
    lines = requests[1][:: 16 if has_sanitizer() else 4]
    with Stack(symbols=real_bucket, memory=32, config={"cache_size": "4M"}) as s:
        first = run_requests(s, lines)
        assert first > less_when_watched(100) and run_requests(s, lines) == first


# Of the tests of the parser, and offsets at the edge of what a frame may be.
EDGES = [0, -1, 1.5, "0x10", 2**31, 2**53, 2**63 - 1, 2**64, 1e300]


def odd_requests(lines):
    folder = os.path.join(DATA, "request")
    for kind in ("valid", "invalid"):
        for name in sorted(os.listdir(os.path.join(folder, kind))):
            if name.endswith(".json"):
                with open(os.path.join(folder, kind, name), "rb") as f:
                    yield f.read()
    for line in lines[::100]:
        modules = json.loads(line)["memoryMap"]
        spelt = [[name, ident.lower()] for name, ident in modules]
        known = [frame for frame in json.loads(line)["stacks"][0] if frame[0] >= 0]
        yield json.dumps(job(modules + spelt, [[i, o] for i in range(2 * len(modules)) for o in EDGES], [[i + len(modules), o] for i, o in known]))


@pytest.mark.slow
def test_caches_change_no_byte(requests, real_bucket):
    """Real and odd requests: the replies of one that keeps pages and frames, when all are warm, and of one that keeps nothing."""
    lines = requests[1][: less_when_watched(len(requests[1]))]
    asked = [(path, body) for body in [*lines, *odd_requests(lines)] for path in ("/symbolicate/v5", "/symbolicate/v4")]
    kept = 'symbolicated_cache_lookups_total{what="frame",level="process"}'
    with Stack(symbols=real_bucket) as keeps, Stack(symbols=real_bucket, config={"cache_size": "0", "finish_after": "0"}) as plain:

        def ask(stack, part):
            client = stack.node.client(keep=True)
            try:
                return [(reply.status, reply.body) for reply in (client.post(*one) for one in part)]
            finally:
                client.close()

        def ask_whole(stack):
            with ThreadPoolExecutor(CLIENTS) as pool:
                return sum(pool.map(ask, [stack] * CLIENTS, [asked[i::CLIENTS] for i in range(CLIENTS)]), [])

        first = ask_whole(plain)
        assert {status for status, _ in first} == {200, 400}
        for _ in range(3):
            for one, other in zip(ask_whole(keeps), first):
                assert one == other
        assert keeps.node.metrics()[kept] > less_when_watched(20_000)
        assert plain.node.metrics()[kept] == 0


@pytest.mark.in_turn
@pytest.mark.slow
def test_jobs_of_many_requests(requests, real_bucket):
    """The same frames in one request of many jobs as in many requests."""
    with Stack(symbols=real_bucket, config={"cold_modules": "1000"}) as s:
        for at in range(0, less_when_watched(400), 100):
            jobs = [json.loads(line) for line in requests[1][at : at + 100]]
            together = s.client.v5({"jobs": jobs})["results"]
            for one, result in zip(jobs, together):
                assert s.client.v5(one)["results"][0]["stacks"] == result["stacks"]


# Generated files with their answers

SHAPES = {
    "plain": [],
    "unsorted": ["-u"],
    "crlf": ["-r"],
    "stack records": ["-x", "-c", "xul.dll"],
    "no inlines": ["-z"],
}
# The sanitizers read all shapes in unit tests, and these here.
WATCHED = {"plain": (), "stack records": pytest.mark.in_turn}
EACH_SHAPE = [pytest.param(shape, marks=WATCHED.get(shape, pytest.mark.plain)) for shape in SHAPES]


@pytest.mark.slow
@pytest.mark.parametrize("compress", [False, True], ids=["text", "gzip"])
@pytest.mark.parametrize("shape", EACH_SHAPE)
def test_generated(gensym, tmp_path, shape, compress):
    with Stack(symbols=tmp_path / "symbols") as s:
        module = ["generated.pdb", debug_id(shape)]
        answers = run_gensym(gensym, s.symbols, module, "-f", str(less_when_watched(20_000)), *SHAPES[shape], answers=3000, compress=compress)
        assert len(answers) > less_when_watched(2000)
        assert ask_all(s, module, answers)[:10] == []
        assert s.bucket.hits() == 1
        frame = s.client.frames(module, [int(answers[0]["offset"], 16)])[0]
        assert frame["module"] == ("xul.dll" if shape == "stack records" else "generated.pdb")
        s.node.settled()
        s.node.restart()
        assert ask_all(s, module, answers)[:10] == []
        assert s.bucket.hits() == 1


@pytest.mark.slow
@pytest.mark.parametrize("coding", [pytest.param("identity", marks=pytest.mark.plain), "gzip"])
@pytest.mark.parametrize("cache_size", [pytest.param("0", marks=pytest.mark.in_turn), "16M", pytest.param("1G", marks=pytest.mark.in_turn)])
def test_a_large_request(gensym, tmp_path, cache_size, coding):
    """Several batches of frames in one request, in no order, with memory for none, some and all of their pages at once."""
    with Stack(symbols=tmp_path / "symbols", config={"cache_size": cache_size}) as s:
        module = ["generated.pdb", debug_id(cache_size)]
        count = 5000 if has_sanitizer() else 10000
        answers = run_gensym(gensym, s.symbols, module, "-f", "20000", answers=count)
        s.client.frames(module, [0])
        s.node.settled()
        asked = answers + answers[::-3]
        random.Random(seed_of(7)).shuffle(asked)
        value = job([module], [[0, int(a["offset"], 16)] for a in asked])
        frames = s.client.v5(value, Accept_Encoding=coding)["results"][0]["stacks"][0]
        assert len(frames) > count and [f["frame"] for f in frames] == list(range(len(asked)))
        assert differences(asked, frames)[:10] == []


@pytest.mark.slow
def test_small_requests_are_answered_beside_large_ones(gensym):
    """Each large one takes a worker, be it warm, and each cold one none."""
    with Stack(config={"workers": "4", "max_frames": "1000000", "max_reply": "1G", "bucket_stall_timeout": "300s", "bucket_retries": "0"}) as s:
        module = ["large.pdb", debug_id("large")]
        answers = run_gensym(gensym, s.symbols, module, "-f", "2000", answers=1000)
        offsets = [int(a["offset"], 16) for a in answers]
        large = json.dumps(job([module], [[0, o] for o in offsets] * 100))
        assert differences(answers, s.client.frames(module, offsets)) == []
        stalled = [s.symbols.add(f"stalled{i}.so", SAMPLE) for i in range(54)]
        for m in stalled:
            s.bucket.misbehave(m, "stall")

        def asked_beside():
            """How many small ones are answered while three large ones are under way."""
            small = 0
            busy = [pool.submit(s.client.post, "/symbolicate/v5", large) for _ in range(3)]
            while not all(f.done() for f in busy):
                assert differences(answers[:20], s.client.frames(module, offsets[:20])) == []
                small += 1
            assert [f.result().status for f in busy] == [200] * 3
            return small

        with ThreadPoolExecutor(57) as pool:
            cold = [pool.submit(s.client.post, "/symbolicate/v5", job([m], [[0, 0x1000]])) for m in stalled]
            wait_for(lambda: s.node.metrics()['symbolicated_turnstile_inside{for="loads"}'] == 48, "as many cold requests as one client may have")
            wait_for(lambda: s.node.metrics()["symbolicated_held_back_total"] == 6, "the others to be held back")
            wait_for(lambda: any(line["event"] == "client held back" for line in s.daemon.log_lines()), "the log to tell")
            wait_for(lambda: asked_beside() >= 10, "ten small ones beside large ones")
            s.bucket.kill()
            assert {f.result().status for f in cold} == {503}


def test_generated_without_memcached(gensym, tmp_path):
    with Stack(symbols=tmp_path / "symbols", memcached=0) as s:
        module = ["generated.pdb", debug_id("alone")]
        answers = run_gensym(gensym, s.symbols, module, "-f", "5000", answers=2000)
        assert ask_all(s, module, answers)[:10] == []
        assert s.bucket.hits() == 1


@pytest.mark.in_turn
def test_generated_at_high_addresses(gensym, tmp_path):
    with Stack(symbols=tmp_path / "symbols") as s:
        module = ["high.pdb", debug_id("high")]
        answers = run_gensym(gensym, s.symbols, module, "-f", "2000", "-b", "ffffffff00000000", answers=1000)
        assert ask_all(s, module, answers)[:10] == []


# Real files with their answers

CUT = {"libc.so.6": "libc.so.6", "dump_syms": "dump_syms", "xul.pdb": "xul"}  # name of the module, and of its file


def ask_twice(stack, module, answers):
    """All answers, from a cold and from a warm process, and as v4 has them."""
    assert ask_all(stack, module, answers)[:10] == []
    stack.node.settled()
    assert stack.bucket.hits() == 1
    stack.node.restart()
    assert ask_all(stack, module, answers)[:10] == []
    assert stack.bucket.hits() == 1
    value = job([module], [[0, int(a["offset"], 16)] for a in answers])
    names = stack.client.v4(value)["symbolicatedStacks"][0]
    assert names == [f"{a.get('function', a['offset'])} (in {module[0]})" for a in answers]


@pytest.mark.in_turn
@pytest.mark.parametrize("name", CUT)
def test_real_answers_of_cut_files(tmp_path, name):
    with Stack(symbols=tmp_path / "symbols") as s:
        ident = os.listdir(os.path.join(DATA, "symbols", name))[0]
        path = s.symbols.path(name, ident)
        os.makedirs(os.path.dirname(path))
        shutil.copy(os.path.join(DATA, "symbols", name, ident, CUT[name] + ".sym"), path)
        ask_twice(s, [name, ident], read_answers(os.path.join(DATA, "symbols", "answers", name + ".jsonl")))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["libc.so.6", pytest.param("dump_syms", marks=pytest.mark.in_turn), pytest.param("ceph-osd", marks=pytest.mark.plain)])
def test_real_answers(shared_data, tmp_path, name):
    packed = shared_data and os.path.join(shared_data, name + ".sym.zst")
    if not packed or not os.path.exists(packed):
        pytest.skip(f"{name}.sym.zst, the whole file, is not there: set SHARED_DATA to the folder that holds it")
    with Stack(symbols=tmp_path / "symbols") as s:
        plain = tmp_path / "plain.sym"
        subprocess.run(["zstd", "-q", "-d", packed, "-o", str(plain)], check=True)
        with open(plain, "rb") as f:
            _, system, _, ident, known_as = f.readline().decode().split(" ", 4)
        module = [known_as.strip(), ident]
        assert module_line(*module).startswith(b"MODULE") and system
        path = s.symbols.path(*module)
        os.makedirs(os.path.dirname(path))
        os.rename(plain, path)
        ask_twice(s, module, read_answers(os.path.join(shared_data, name + ".answers.jsonl")))


# A few functions of a large file are answered before all of its pages are made

FEW = 25


def ask_few(client, module, answers, seed):
    some = random.Random(seed_of(seed)).sample(answers, FEW)
    return differences(some, client.frames(module, [int(a["offset"], 16) for a in some]))


MADE = 'symbolicated_cache_lookups_total{what="page",level="none"}'


@pytest.mark.slow
@pytest.mark.parametrize("compress", [False, True], ids=["text", "gzip"])
@pytest.mark.parametrize("shape", EACH_SHAPE)
def test_few_of_a_large_file(gensym, tmp_path, shape, compress):
    """Without memcached, so that pages which are not made are nowhere."""
    with Stack(symbols=tmp_path / "symbols", memcached=0) as s:
        module = ["few.pdb", debug_id(shape)]
        answers = run_gensym(gensym, s.symbols, module, "-f", str(less_when_watched(20_000)), *SHAPES[shape], answers=1000, compress=compress)
        assert ask_few(s.client, module, answers, 1) == []
        assert s.node.metrics()[MADE] > 0
        with ThreadPoolExecutor(8) as pool:
            for wrong in pool.map(lambda seed: ask_few(s.client, module, answers, seed), range(2, 40)):
                assert wrong == []
        s.node.settled()
        made = s.node.metrics()[MADE]
        assert ask_few(s.client, module, answers, 40) == []
        assert s.node.metrics()[MADE] == made and s.bucket.hits() == 1  # all pages are there


@pytest.mark.slow
def test_many_ask_for_a_few(gensym, tmp_path):
    """Each for other functions of a file that nobody has loaded yet."""
    with Stack(symbols=tmp_path / "symbols") as s:
        module = ["many.pdb", debug_id("many")]
        answers = run_gensym(gensym, s.symbols, module, "-f", "20000", answers=1000)
        s.bucket.misbehave(module, "slow:1")
        with ThreadPoolExecutor(20) as pool:
            for wrong in pool.map(lambda seed: ask_few(s.client, module, answers, seed), range(20)):
                assert wrong == []
        assert s.bucket.hits() == 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["cut:3000000", "chunked-cut:3000000", "no-length-cut:3000001", "short-length:1", "reset", "bad-gzip"])
def test_nothing_is_answered_of_a_broken_transfer(gensym, tmp_path, mode):
    with Stack(symbols=tmp_path / "symbols") as s:
        module = ["broken.pdb", debug_id("broken")]
        answers = run_gensym(gensym, s.symbols, module, "-f", "20000", answers=1000)
        offsets = [int(a["offset"], 16) for a in answers[:FEW]]
        s.bucket.misbehave(module, mode)
        reply = s.client.post("/symbolicate/v5", job([module], [[0, o] for o in offsets]))
        if mode == "bad-gzip":  # whole as it is stored, and broken inside: corrupt, and remembered
            result = reply.json()["results"][0]
            assert reply.status == 200 and result["found_modules"] == {"/".join(module): False}
            assert not any("function" in f for f in result["stacks"][0])
            return
        reply.error(503)
        s.bucket.reset()
        wait_for(lambda: s.client.post("/symbolicate/v5", job([module], [[0, 1]])).status == 200, "the failure to be forgotten")
        assert ask_few(s.client, module, answers, 1) == []


@pytest.mark.in_turn
def test_a_large_file_of_another_module_is_not_believed(gensym, tmp_path):
    with Stack(symbols=tmp_path / "symbols") as s:
        module, other = ["a.pdb", debug_id("a")], ["a.pdb", debug_id("b")]
        run_gensym(gensym, s.symbols, module, "-f", "20000", answers=10)
        with open(s.symbols.path(*module), "rb") as f:
            s.symbols.put(*other, f.read())
        assert s.client.found(other) is False
