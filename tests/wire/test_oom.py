# SPDX-License-Identifier: Apache-2.0
"""The daemon while its allocations fail: requests get 503 or the right answer, the process stays, and when there is
memory again all is right. tests/tools/fail_malloc.c is the library that lets them fail."""

import base64
import gzip
import http.client
import json
import mmap
import os
import re
import struct
import subprocess
import uuid

import pytest

import stack as stacks
from client import job
from plain_symbfile import write
from stack import Stack, has_sanitizer, wait_for
from symbols import SAMPLE, SAMPLE_FRAMES, TOOLS, debug_id, module_line, run_gensym
from test_executables import HELPER, Tree, function_of, guid, paths


class FailMalloc:
    """The file through which the library is told."""

    def __init__(self, directory):
        self.library = os.path.join(directory, "fail_malloc.so")
        self.path = os.path.join(directory, "fail_malloc.control")
        source = os.path.join(TOOLS, "fail_malloc.c")
        subprocess.run(["cc", "-O2", "-fPIC", "-shared", source, "-o", self.library], check=True)
        with open(self.path, "wb") as out:
            out.write(bytes(32))
        self.file = open(self.path, "r+b")
        self.map = mmap.mmap(self.file.fileno(), 32)

    def one_in(self, n):
        self.map[0:4] = struct.pack("<I", n)

    def nth(self, n):
        self.map[4:8] = struct.pack("<I", n)

    @property
    def waits(self):
        """Of nth: how many allocations are still to come."""
        return struct.unpack("<I", self.map[4:8])[0]

    @property
    def calls(self):
        return struct.unpack("<Q", self.map[8:16])[0]

    @property
    def failed(self):
        return struct.unpack("<Q", self.map[16:24])[0]

    def off(self):
        self.one_in(0)
        self.nth(0)


pytestmark = pytest.mark.skipif(has_sanitizer(), reason="a sanitizer or valgrind has allocations of its own")


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    return FailMalloc(str(tmp_path_factory.mktemp("oom")))


@pytest.fixture
def alone(failing, monkeypatch):
    """Only daemons have the library."""
    failing.off()
    spawn = stacks.Daemon.spawn

    def spawn_failing(self, command, **options):
        return spawn(self, ["env", f"LD_PRELOAD={failing.library}", f"FAIL_MALLOC={failing.path}", *command], **options)

    monkeypatch.setattr(stacks.Daemon, "spawn", spawn_failing)
    yield
    failing.off()


CONFIG = {"failure_ttl_min": "10ms", "failure_ttl_max": "10ms", "missing_ttl": "1s", "corrupt_ttl": "1s", "workers": "3"}


@pytest.fixture
def stack(alone, failing, tmp_path):
    with Stack(config={**CONFIG, "symbfile_store": f"file://{tmp_path}"}, keys=True) as s:
        yield s
        failing.off()


def body(modules):
    return job(modules, *([[i, offset] for offset in SAMPLE_FRAMES] for i in range(len(modules))))


def is_right(modules, reply, debug=False):
    """The whole reply, by heart; with Debug each frame without a name has a reason."""
    result = reply.json()["results"][0]
    if debug:
        assert all(("reason" in frame) != ("function" in frame) for stack in result["stacks"] for frame in stack)
        result["stacks"] = [[{k: v for k, v in frame.items() if k != "reason"} for frame in stack] for stack in result["stacks"]]
    want = [
        [
            {"frame": k, "module": name, "module_offset": hex(offset), **SAMPLE_FRAMES[offset]}
            for k, offset in enumerate(SAMPLE_FRAMES)
        ]
        for name, _ in modules
    ]  # fmt: skip
    assert result["stacks"] == want
    assert result["found_modules"] == {f"{name}/{ident}": True for name, ident in modules}
    return True


def ask(stack, modules):
    """The status; a 200 was right."""
    reply = stack.client.post("/symbolicate/v5", body(modules))
    assert reply.status in (200, 502, 503), reply
    if reply.status == 200:
        assert is_right(modules, reply)
    else:
        reply.error(reply.status)
    return reply.status


def add_modules(stack, first, count):
    return [stack.symbols.add(f"lib{i}.so", SAMPLE, compress=i % 2 == 1) for i in range(first, first + count)]


def recovers(stack, failing, modules):
    """With memory again: all is right, at once or when what failed is forgotten."""
    failing.off()
    wait_for(lambda: ask(stack, modules) == 200, "a right answer")
    assert ask(stack, modules) == 200
    # its answer is kept for a while
    wait_for(lambda: stack.client.get("/__heartbeat__").status == 200, "a heartbeat")
    stack.check()


@pytest.mark.slow
@pytest.mark.parametrize("one_in", [1000, 100, 20, 5, 2, 1])
def test_some_allocations_fail(stack, failing, one_in):
    """At random: new modules each time, known ones, and other routes."""
    known = add_modules(stack, 0, 3)
    assert ask(stack, known) == 200
    seen = set()
    failing.one_in(one_in)
    for round_ in range(25):
        seen.add(ask(stack, known))
        seen.add(ask(stack, add_modules(stack, 100 + 2 * round_, 2)))
        for path in ("/__metrics__", "/__lbheartbeat__", "/__heartbeat__", "/__version__"):
            assert stack.client.get(path).status in (200, 500, 502, 503)
        path = f"/cache/{known[0][0]}/{known[0][1]}"
        reply = stack.client.request("DELETE", path, headers={"Authorization": stack.key})
        assert reply.status in (200, 502, 503), reply
        stack.check()
    assert failing.failed > 0
    if one_in <= 20:
        assert seen - {200}, "nothing was refused"
    recovers(stack, failing, known + add_modules(stack, 100, 50))


def ask_v4(stack, modules):
    reply = stack.client.post("/symbolicate/v4", body(modules))
    if reply.status == 200:
        value = reply.json()
        assert value["knownModules"] == [True] * len(modules)
        want = [[f"{frame.get('function', hex(offset))} (in {name})" for offset, frame in SAMPLE_FRAMES.items()] for name, _ in modules]
        assert value["symbolicatedStacks"] == want
    return reply


def ask_text(stack, modules):
    """The frames of a report whose table of modules tells the ids."""
    lines = [f"MODULE Linux x86_64 {ident} {name}" for name, ident in modules]
    lines += [f"    #{i} 0x1 ({name}+{offset:#x})" for i, (offset, (name, _)) in enumerate((o, m) for m in modules for o in SAMPLE_FRAMES)]
    reply = stack.client.post("/symbolicate/text", "\n".join(lines), Accept="application/json")
    if reply.status == 200:
        frames = reply.json()["frames"]
        assert len(frames) == len(modules) * len(SAMPLE_FRAMES)
        assert all(("function" in frame) != ("reason" in frame) for frame in frames), frames
        assert any("function" in frame for frame in frames), frames
    return reply


def ask_gzip(stack, modules):
    """Compressed both ways; without memory for that the reply is plain."""
    packed = gzip.compress(json.dumps({"jobs": [body(modules)] * 8}).encode())
    reply = stack.client.post("/symbolicate/v5", packed, Content_Encoding="gzip", Accept_Encoding="gzip")
    if reply.status == 200:
        assert len(reply.json()["results"]) == 8
        is_right(modules, reply)
    return reply


def ask_debug(stack, modules):
    reply = stack.client.post("/symbolicate/v5", body(modules), Debug="1")
    if reply.status == 200:
        assert reply.json()["debug"]["modules"]["stacks_per_module"] == {f"{name}/{ident}": 1 for name, ident in modules}
        is_right(modules, reply, debug=True)
    return reply


def upload(stack, modules):
    """A symbfile of the last module's number, and the list of what is there."""
    ident = base64.urlsafe_b64encode(modules[-1][1][:16].encode()).decode().rstrip("=")
    headers = {"FileID": ident, "FilePart": "0", "FileParts": "1", "Authorization": stack.key}
    reply = stack.client.request("POST", "/api/symbols-ranges", write([{"t": "range", "va": "0x1000", "len": 4, "depth": 0, "func": "f"}]), headers)
    if reply.status != 200:
        return reply
    reply = stack.client.get(f"/api/symbols/{ident}", Authorization=stack.key)
    if reply.status == 200:
        got = reply.json()
        assert (got["ranges"]["parts"], got["ranges"]["have"], got["sets"][0]["functions"]) == (1, [0], 1), got
    return reply


def ask_by_build_id(stack, modules):
    """A symbfile with the last module's id as its build id, asked for by the debug id of that."""
    ident = base64.urlsafe_b64encode(modules[-1][1][16:32].encode()).decode().rstrip("=")
    headers = {"FileID": ident, "FilePart": "0", "FileParts": "1", "Authorization": stack.key, "BuildID": modules[-1][1][:32] + "01234567"}
    reply = stack.client.request("POST", "/api/symbols-ranges", write([{"t": "range", "va": "0x1000", "len": 4, "depth": 0, "func": "f"}]), headers)
    if reply.status != 200:
        return reply
    debug_id = uuid.UUID(bytes_le=bytes.fromhex(modules[-1][1][:32])).hex.upper() + "0"
    reply = stack.client.post("/symbolicate/v5", job([["uploaded", debug_id]], [[0, 0x1000]]))
    if reply.status == 200:
        assert reply.json()["results"][0]["stacks"][0][0].get("function") == "f", reply
    return reply


def ask_v5(stack, modules):
    reply = stack.client.post("/symbolicate/v5", body(modules))
    if reply.status == 200:
        is_right(modules, reply)
    return reply


@pytest.mark.slow
@pytest.mark.parametrize("request_", [ask_v5, ask_v4, ask_text, ask_gzip, ask_debug, upload, ask_by_build_id], ids=lambda f: f.__name__)
def test_each_allocation_fails(stack, failing, request_):
    """The first of a request, the second, and so on until the request needs no more: each time a module that nobody has
    asked for yet, and a known one."""
    known = add_modules(stack, 0, 1)
    assert request_(stack, known).status == 200
    statuses = []
    for n in range(1, 600):
        modules = known + add_modules(stack, 1000 + n, 1)
        failing.nth(n)
        reply = request_(stack, modules)
        assert reply.status in (200, 502, 503), reply
        statuses.append(reply.status)
        over = failing.waits > 0
        failing.off()
        stack.node.settled()
        stack.check()
        if over:
            break
    assert over, "a request with more than 600 allocations"
    assert 503 in statuses and 200 in statuses, statuses
    assert len(statuses) > 30, statuses
    recovers(stack, failing, known + add_modules(stack, 1001, 20))


def ask_assembly(s, failing, make_request, right):
    """While each allocation fails: how often there was no memory for the reply, and of how many requests. No reply lacks anything."""
    s.node.settled()  # what follows a load has allocations too, and one that fails there instead is none of the request
    replies, over = [], False
    while not over:
        request = make_request(len(replies))
        failing.nth(len(replies) + 1)
        reply = s.client.post("/asm/v1", request)
        over = failing.waits > 0
        failing.off()
        s.check()
        replies.append(reply.json() if reply.status == 200 else reply.error(reply.status))
        told = replies[-1].get("error") or ""
        assert replies[-1] == right or re.match("out of memory|a source cannot be read|the symbolication server does not answer", told), reply
        assert len(replies) < 600
    assert replies[-1] == right and s.client.post("/asm/v1", make_request(len(replies))).json() == right
    return sum(reply.get("status") == 503 and reply["error"] == "out of memory" for reply in replies), len(replies)


def spell(ident, number):
    """In the number's way. It names the same module, but no digest of it is known yet: making one takes allocations."""
    return "".join(c.lower() if number >> i % 16 & 1 else c for i, c in enumerate(ident))


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists(HELPER), reason="symbolicated-extract was not built")
def test_each_allocation_of_assembly_fails(alone, failing, tmp_path):
    """Of a stripped program: the names are those of its debug file, which a cache has. Lack of memory does not hide them."""
    tree = Tree(tmp_path, "-Wl,--build-id=0x" + "abcdefabcd" * 4)  # letters can be spelled in two ways
    start, size = function_of(tree.program, "main")
    tree.put(tmp_path, paths(tree.id)[0], tree.bytes())
    tree.put(tmp_path, f"{tree.id[:2]}/{tree.id[2:]}/executable", tree.bytes(tree.stripped))
    offset, ident = start - tree.image_base, guid(tree.id) + "0"
    unnamed = {"codeId": tree.id, "startAddress": hex(offset), "size": hex(size)}
    named = {**unnamed, "debugName": "prog", "debugId": ident}
    config = {**CONFIG, "source": [f"elf+file://{tmp_path}"], "revalidate_after": "1h"}  # to ask memcached takes allocations too
    with Stack(bucket=False, config=config) as s:
        assert s.client.frames(["prog", ident], [offset])[0]["function"] == "main"
        right, bare = (s.client.post("/asm/v1", request).json() for request in (named, unnamed))
        assert bare == {**right, "instructions": [[at, text.split(" <")[0]] for at, text in right["instructions"]]} != right
        lacking, asked = ask_assembly(s, failing, lambda number: unnamed, bare)
        known, more = ask_assembly(s, failing, lambda number: named, right)
        assert asked > 30 and 0 < lacking < known  # those of the names fail, too
        for first, code in ((1000, {"codeId": tree.id}), (2000, {"codeId": None})):  # None: the module's symbols tell
            spelled, most = ask_assembly(s, failing, lambda number: {**named, **code, "debugId": spell(ident, first + number)}, right)
            assert spelled > known and most > more, code


LARGE = {
    "in memory": {"finish_after": "1h"},  # begins before its last frame is looked up
    "in memcached": {"cache_size": "0", "finish_after": "0"},
}


def ask_large(stack, request):
    """The body; None: refused, or cut off, which the log tells."""
    cuts = stack.daemon.log_text().count("was cut off: ")
    try:
        reply = stack.client.post("/symbolicate/v5", request)
    except http.client.IncompleteRead:
        wait_for(lambda: stack.daemon.log_text().count("was cut off: ") > cuts or '"aborted":1' in stack.daemon.log_text(), "why it was cut off")
        return None
    assert reply.status == 200 or reply.error(503)
    return reply.body if reply.status == 200 else None


@pytest.mark.slow
@pytest.mark.parametrize("where", LARGE)
def test_each_allocation_of_a_large_request_fails(alone, failing, gensym, where):
    """Idle workers help with it. Of many allocations, as many as there is time for."""
    modules = [[f"large{i}.pdb", debug_id(f"large{i}.pdb")] for i in range(3)]
    with Stack(config={**CONFIG, **LARGE[where]}) as s:
        offsets = [[int(a["offset"], 16) for a in run_gensym(gensym, s.symbols, m, "-f", "2000", "-s", str(i), answers=1000)] for i, m in enumerate(modules)]
        request = job(modules, [[k % 3, offsets[k % 3][k % len(offsets[k % 3])]] for k in range(5000)])
        right = ask_large(s, request)
        for _ in range(3):  # the second makes the maps whole, which has allocations of its own
            before = failing.calls
            assert right and ask_large(s, request) == right
            count = failing.calls - before
            wait_for(lambda: s.node.metrics()["symbolicated_loads_in_flight"] == 0, "loads and stores to end", 300)
        failed, bodies = failing.failed, []
        for n in range(1, count, count // 150 + 1):
            failing.nth(n)
            bodies.append(ask_large(s, request))
            failing.off()
            s.check()
        assert set(bodies) == {right, None}
        assert failing.failed > failed + len(bodies) // 2
        wait_for(lambda: ask_large(s, request) == right, "a right answer")
        kinds = [f'symbolicated_memory_bytes{{kind="{kind}"}}' for kind in ("bodies", "replies")]
        wait_for(lambda: not any(map(s.node.metrics().get, kinds)), "the account to be settled")


def shape(value):
    """Of debug: its times differ."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    return type(value).__name__ if isinstance(value, (int, float)) else value


def json_routes(s):
    """{name: (method, path, body, headers)}: every request that is answered in JSON, but for assembly, and ZIPs, without memory for
    which libarchive ends the process."""
    known, files = add_modules(s, 0, 2), []
    for number, fileset in ((1, "first"), (2, "second"), (1, None)):
        ident = base64.urlsafe_b64encode(f"program {number:8}".encode()).decode().rstrip("=")
        files.append((ident, {"FileID": ident, "FilePart": "0", "FileParts": "1", "Authorization": s.key, **({"FileSet": fileset} if fileset else {})}))
    symbfile = write([{"t": "range", "va": "0x1000", "len": 4, "depth": 0, "func": "f"}])
    for _, headers in files:
        assert s.client.request("POST", "/api/symbols-ranges", symbfile, headers).status == 200
    missing = [[f"missing{i}.so", debug_id(f"missing{i}.so")] for i in range(5)]
    for _ in range(2):
        s.client.v5(job(missing, [[i, 0] for i in range(len(missing))]))
    sym = module_line("put.so", debug_id("put.so")) + SAMPLE.encode()
    text = f"MODULE Linux x86_64 {known[0][1]} {known[0][0]}\n    #0 0x1 ({known[0][0]}+0x1010)\n"
    source = {"debugName": known[0][0], "debugId": known[0][1], "moduleOffset": "0x1010", "file": "src/main.c"}
    key, both = {"Authorization": s.key}, json.dumps(body(known))
    return {
        "v5": ("POST", "/symbolicate/v5", both, {}),
        "debug": ("POST", "/symbolicate/v5", both, {"Debug": "1"}),
        "v4": ("POST", "/symbolicate/v4", both, {}),
        "text": ("POST", "/symbolicate/text", text, {"Accept": "application/json"}),
        "source": ("POST", "/source/v1", json.dumps(source), {}),
        "uploads": ("GET", f"/api/symbols/{files[0][0]}", None, key),
        "list": ("GET", "/api/symbols?limit=1", None, key),
        "missing": ("GET", "/api/missing", None, key),
        "ranges": ("POST", "/api/symbols-ranges", symbfile, files[0][1]),
        "sym": ("PUT", f"/api/sym/put.so/{debug_id('put.so')}/put.so.sym", sym, key),
        "cache": ("DELETE", f"/cache/{known[1][0]}/{known[1][1]}", None, key),
        "version": ("GET", "/__version__", None, {}),
        "heartbeat": ("GET", "/__heartbeat__", None, {}),
    }


@pytest.mark.slow
def test_every_json_route_is_right_or_an_error(alone, failing, tmp_path):
    """Whichever allocation fails. A reply that is 200 lacks nothing."""
    for folder in ("code", "ranges", "sym"):
        (tmp_path / folder).mkdir()
    (tmp_path / "code" / "main.c").write_text("int main;\n")
    places = {"symbfile_store": f"file://{tmp_path}/ranges", "sym_store": f"file://{tmp_path}/sym", "source_code": f"src={tmp_path}/code"}
    with Stack(config={**CONFIG, **places, "missing_ttl": "1h", "revalidate_after": "1h"}, keys=True) as s:
        s.key = s.add_key("all", "upload,invalidate,read,remove")
        s.daemon.reload()
        refused = set()
        for name, (method, path, data, headers) in json_routes(s).items():
            right = s.client.request(method, path, data, headers)
            right = s.client.request(method, path, data, headers)
            assert right.status in (200, 201), (name, right)
            assert shape(s.client.request(method, path, data, headers).json()) == shape(right.json())
            s.node.settled()
            for n in range(1, 1000):
                failing.nth(n)
                reply = s.client.request(method, path, data, headers)
                over = failing.waits > 0
                failing.off()
                s.check()
                if reply.status == right.status:
                    got = reply.json()
                    assert shape(got) == shape(right.json()) or (name == "source" and "error" in got), (name, n)
                else:
                    assert reply.status in (500, 502, 503) and reply.json()["error"], (name, n, reply)
                    refused.add(name)
                if over:
                    break
            assert over, name
        assert refused > {"v5", "debug", "v4", "text", "uploads", "list", "missing", "ranges", "sym"}
