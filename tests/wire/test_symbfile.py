# SPDX-License-Identifier: Apache-2.0
"""Symbfiles: uploaded through nginx, kept, looked up by FileID."""

import base64
import gzip
import json
import os
import random
import re
import signal
import socket
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from client import job
from stack import ROOT, Stack, seed_of, wait_for
from symbols import SAMPLE, SAMPLE_FRAMES, TOOLS

sys.path.insert(0, TOOLS)
from plain_symbfile import write  # noqa: E402

DATA = os.path.join(ROOT, "tests", "data", "symbfile")
REVALIDATE = 1.0

numbers = iter(range(1_000_000))


def new_id():
    """A FileID that nobody has heard of: (hex, base64)."""
    raw = next(numbers).to_bytes(4, "big") + b"\xfb\xff" * 6
    return raw.hex(), base64.urlsafe_b64encode(raw).decode().rstrip("=")


def ranges(name, va=0x1000, length=0x40):
    """A function and a call inlined into it."""
    return [
        {"t": "range", "va": hex(va), "len": length, "depth": 0, "func": name, "file": "/src/a.c", "lines": [[0, 10], [16, 20]]},
        {"t": "range", "va": hex(va + 0x20), "len": 0x10, "depth": 1, "func": name + "_in", "file": "/src/b.h", "call_file": "/src/a.c",
         "call_line": 30, "lines": [[0, 7]]},
    ]  # fmt: skip


def pads(name, va=0x1024):
    entries = [{"func": name, "file": "/src/a.c", "line": 31}, {"func": name + "_pad", "file": "", "line": 0}]
    return [{"t": "pad", "va": hex(va), "entries": entries}]


def store_config(tmp_path, **more):
    return {"symbfile_store": f"file://{tmp_path}/store", "revalidate_after": f"{int(REVALIDATE)}s", **more}


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    place = tmp_path_factory.mktemp("store")
    os.makedirs(place / "store")
    with Stack(keys=True, daemons=2, config=store_config(place)) as s:
        s.place = place
        yield s


def upload(stack, kind, ident, body, part=0, parts=1, fileset=None, node=0, key="", **more):
    headers = {"FileID": ident, "FilePart": str(part), "FileParts": str(parts), "Authorization": key or stack.key, **more}
    if fileset:
        headers["FileSet"] = fileset
    if key is None:
        del headers["Authorization"]
    headers = {k: v for k, v in headers.items() if v is not None}
    return stack.nodes[node].client().request("POST", f"/api/symbols-{kind}", body, headers)


def accepted(reply):
    assert reply.status == 200, reply
    assert reply.json() == {"success": True, "status": 200}


def refused(stack, reply, status, *words):
    """The seed's shape; the uuid is in the log."""
    assert reply.status == status, reply
    value = reply.json()
    assert value.keys() - {"place"} == {"success", "uuid", "error", "status"} and value["success"] is False and value["status"] == status
    assert value["error"].keys() == {"Code", "Text"} and isinstance(value["error"]["Code"], str)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", value["uuid"]), value
    for word in words:
        assert word in value["error"]["Text"], value
    assert reply.headers["Access-Control-Allow-Origin"] == "*"
    assert any(value["uuid"] in open(n.daemon.log).read() for n in stack.nodes)
    return value


def frames(stack, ident, addresses, name="prog", node=0):
    return stack.nodes[node].client().frames([name, ident], addresses)


def listed(stack, ident, node=0):
    reply = stack.nodes[node].client().get(f"/api/symbols/{ident}", Authorization=stack.key)
    assert reply.status == 200, reply
    return reply.json()


# One upload, looked up


def test_ranges_are_looked_up(one):
    hexa, b64 = new_id()
    accepted(upload(one, "ranges", b64, write(ranges("f"))))
    got = frames(one, hexa, [0xFFF, 0x1000, 0x1010, 0x102F, 0x103F, 0x1040])
    head = {"module": "prog"}
    assert got == [
        {"frame": 0, **head, "module_offset": "0xfff"},
        {"frame": 1, **head, "module_offset": "0x1000", "function": "f", "function_offset": "0x0", "function_size": "0x40", "file": "/src/a.c", "line": 10},
        {"frame": 2, **head, "module_offset": "0x1010", "function": "f", "function_offset": "0x10", "function_size": "0x40", "file": "/src/a.c", "line": 20},
        {"frame": 3, **head, "module_offset": "0x102f", "function": "f", "function_offset": "0x2f", "function_size": "0x40", "file": "/src/a.c", "line": 30,
         "inlines": [{"function": "f_in", "file": "/src/b.h", "line": 7}]},
        {"frame": 4, **head, "module_offset": "0x103f", "function": "f", "function_offset": "0x3f", "function_size": "0x40", "file": "/src/a.c", "line": 20},
        {"frame": 5, **head, "module_offset": "0x1040"},
    ]  # fmt: skip


def test_a_pad_answers_before_the_ranges(one):
    hexa, b64 = new_id()
    accepted(upload(one, "returnpads", b64, write(pads("f"))))
    alone = frames(one, hexa, [0x1024, 0x1025])
    assert "function" not in alone[1]
    assert (alone[0]["function"], alone[0]["function_offset"], alone[0]["line"]) == ("f", "0x0", 31)
    assert "function_size" not in alone[0]
    assert alone[0]["inlines"] == [{"function": "f_pad"}]
    accepted(upload(one, "ranges", b64, write(ranges("f"))))
    wait_for(lambda: frames(one, hexa, [0x1025])[0].get("function") == "f", "the ranges to be seen")
    pad, beside = frames(one, hexa, [0x1024, 0x1025])
    assert (pad["function_offset"], pad["function_size"], pad["line"]) == ("0x24", "0x40", 31)
    assert pad["inlines"] == [{"function": "f_pad"}]
    assert beside["inlines"] == [{"function": "f_in", "file": "/src/b.h", "line": 7}]


@pytest.mark.in_turn
@pytest.mark.parametrize("spelling", ["hex", "HEX", "base64", "base64==", "plain"])
def test_spellings_of_a_file_id(one, spelling):
    hexa, b64 = new_id()
    plain = b64.replace("-", "+").replace("_", "/")
    assert plain != b64
    spelled = {"hex": hexa, "HEX": hexa.upper(), "base64": b64, "base64==": b64 + "==", "plain": plain}[spelling]
    accepted(upload(one, "ranges", spelled, write(ranges("g"))))
    for ident in (hexa, hexa.upper(), b64, b64 + "==", plain):
        reply = one.client.v5(job([["any name", ident]], [[0, 0x1000]]))["results"][0]
        assert reply["found_modules"] == {f"any name/{ident}": True}
        assert reply["stacks"][0][0]["function"] == "g"


def test_v4(one):
    hexa, b64 = new_id()
    accepted(upload(one, "ranges", b64, write(ranges("old"))))
    reply = one.client.v4({"version": 4, **job([["prog", b64]], [[0, 0x1000], [0, 1]])})
    assert reply["symbolicatedStacks"] == [["old (in prog)", "0x1 (in prog)"]] and reply["knownModules"] == [True]


def test_nothing_uploaded_is_looked_for_in_the_buckets(one):
    hexa, _ = new_id()
    module = one.symbols.add("breakpad.so", SAMPLE, hexa.upper())
    assert frames(one, hexa.upper(), [0x1000], "breakpad.so")[0]["function"] == SAMPLE_FRAMES[0x1000]["function"]
    assert one.bucket.hits(module) == 1
    unknown, b64 = new_id()
    assert one.client.found(["nobody.so", unknown]) is False
    assert one.client.found(["nobody.so", b64]) is False


@pytest.mark.parametrize("both", ["0123456789abcdefABCDEA", "89abcdef0123456789ABCDEF01234567"])
def test_what_a_source_has_is_not_changed_by_an_upload_whose_file_id_is_its_id(one, both):
    """22 digits are base64, too; its spare bits are 0. Nor is it when a process asks for it again."""
    one.symbols.add("source.so", SAMPLE, both.upper())
    accepted(upload(one, "ranges", both, write(ranges("uploaded"))))
    for _ in range(2):
        assert frames(one, both, [0x1000], "source.so")[0]["function"] == SAMPLE_FRAMES[0x1000]["function"]
        wait_for(lambda: frames(one, both, [0x1000], "other.so")[0]["function"] == "uploaded", "the upload to be seen")
        one.node.restart()


def test_what_no_source_can_have_is_not_asked_of_one_that_fails(one):
    """A FileID in hex may be a build id, which the source may have."""
    hexa, _ = new_id()
    b64 = next(b for _, b in iter(new_id, None) if not re.fullmatch("[0-9A-Fa-f]+", b))
    accepted(upload(one, "ranges", b64, write(ranges("f"))))
    one.bucket.control("status:503")
    try:
        assert frames(one, b64, [0x1000])[0]["function"] == "f"
        one.client.post("/symbolicate/v5", job([["prog", hexa]], [[0, 0x1000]])).error(503)
    finally:
        one.bucket.reset()


def programs():
    return sorted(os.listdir(DATA)) if os.path.isdir(DATA) else []


@pytest.mark.parametrize("program", [p for p in programs() if os.path.exists(os.path.join(DATA, p, "ranges.jsonl"))])
def test_real_programs(one, program):
    """Every lookup of the reference, through nginx, in parts that come out of order to two servers."""
    def lines(name):
        with open(os.path.join(DATA, program, name), encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.strip()]

    hexa, b64 = new_id()
    records, points = lines("ranges.jsonl"), lines("pads.jsonl")
    parts = [records[0::3], records[1::3], records[2::3]]
    for i in (2, 0, 1):
        accepted(upload(one, "ranges", b64, write(parts[i]), i, 3, node=i % 2))
    plain = {int(look["addr"], 16): look["frames"] for look in lines("lookups.jsonl")}
    compare(one, hexa, plain)
    accepted(upload(one, "returnpads", b64, write(points)))
    at_pads = {int(p["va"], 16) for p in points}
    padded = {a: f for a, f in ((int(look["addr"], 16), look["frames"]) for look in lines("padlookups.jsonl")) if a in at_pads}
    wait_for(lambda: matches(one, hexa, padded), "the pads to be seen")
    compare(one, hexa, {**plain, **padded})


def shape(frame):
    """A v5 frame as the dumps have it: innermost first, file and line only where they are known."""
    chain = [*frame.get("inlines", []), frame] if "function" in frame else []
    return [(f["function"], f.get("file") or None, f.get("line") or None) for f in chain]


def differing(stack, ident, answers):
    wanted = sorted(answers)
    out = []
    for address, frame in zip(wanted, frames(stack, ident, wanted)):
        right = [(f["func"], f["file"] or None, f["line"] or None if f["file"] else None) for f in answers[address]]
        if shape(frame) != right:
            out.append((hex(address), shape(frame), right))
    return out


def matches(stack, ident, answers):
    return differing(stack, ident, answers) == []


def compare(stack, ident, answers):
    assert differing(stack, ident, answers)[:3] == []


# Parts and sets


def test_a_set_answers_when_all_its_parts_are_there(one):
    hexa, b64 = new_id()
    parts = [write(ranges(f"f{i}", 0x1000 * (i + 1))) for i in range(3)]
    accepted(upload(one, "ranges", b64, parts[1], 1, 3))
    assert one.client.found(["prog", hexa]) is False
    assert listed(one, b64)["ranges"]["have"] == [1]
    accepted(upload(one, "ranges", b64, parts[2], 2, 3, node=1))
    accepted(upload(one, "ranges", b64, parts[0], 0, 3))
    for node in (0, 1):
        wait_for(lambda n=node: all("function" in f for f in frames(one, hexa, [0x1000, 0x2000, 0x3000], node=n)), "all parts to be seen")
    got = listed(one, hexa)
    assert (got["ranges"]["parts"], got["ranges"]["have"], got["returnpads"]) == (3, [0, 1, 2], {"parts": 0, "have": []})
    whole = one.client.post("/symbolicate/v5", job([["prog", hexa]], [[0, 1]]), Debug="1").json()["debug"]
    assert whole["missing_parts_per_module"] == {}
    assert whole["unnamed"] == {"frames": {"below first symbol": 1}, "modules": {}}


def test_sets_are_not_mixed(one):
    hexa, b64 = new_id()
    accepted(upload(one, "ranges", b64, write(ranges("a0")), 0, 2, "first"))
    accepted(upload(one, "ranges", b64, write(ranges("a1", 0x2000)), 1, 2, "first"))
    assert [f["function"] for f in frames(one, hexa, [0x1000, 0x2000])] == ["a0", "a1"]
    accepted(upload(one, "ranges", b64, write(ranges("b0")), 0, 2, "second"))
    assert [f["function"] for f in frames(one, hexa, [0x1000, 0x2000])] == ["a0", "a1"]
    assert listed(one, hexa)["ranges"] == {"parts": 2, "have": [0, 1], "set": "first"}
    accepted(upload(one, "ranges", b64, write(ranges("b1", 0x2000)), 1, 2, "second"))
    for node in (0, 1):
        wait_for(lambda n=node: [f["function"] for f in frames(one, hexa, [0x1000, 0x2000], node=n)] == ["b0", "b1"], "the newer set to answer")
    # what was there already, sent again, is the newest
    accepted(upload(one, "ranges", b64, write(ranges("a0")), 0, 2, "first"))
    assert listed(one, hexa)["ranges"]["set"] == "first"


def test_without_fileset_another_extraction_is_not_mixed_with_the_old_one(one):
    """The old parts answer until the new ones are all there."""
    hexa, b64 = new_id()

    def send(*names):
        for part, name in names:
            accepted(upload(one, "ranges", b64, write(ranges(name, 0x1000 * (part + 1))), part, 3))

    def functions():
        return [f.get("function") for f in frames(one, hexa, [0x1000, 0x2000, 0x3000])]

    send((0, "a0"), (1, "a1"), (2, "a2"))
    assert functions() == ["a0", "a1", "a2"]
    send((0, "b0"))
    assert functions() == ["a0", "a1", "a2"]
    send((1, "b1"))
    assert functions() == ["a0", "a1", "a2"]
    send((2, "b2"))
    assert functions() == ["b0", "b1", "b2"]
    # the first part is as it was
    send((0, "b0"), (1, "c1"))
    assert functions() == ["b0", "b1", "b2"]
    send((2, "c2"))
    assert functions() == ["b0", "c1", "c2"]
    # all of it again, then one that was given up, and the next
    send((0, "b0"), (1, "c1"), (2, "c2"))
    send((0, "b0"), (1, "d1"))
    send((0, "e0"), (1, "e1"))
    assert functions() == ["b0", "c1", "c2"]
    send((2, "e2"))
    assert functions() == ["e0", "e1", "e2"]
    # in another order, and with a part that comes back to what it was
    send((2, "f2"), (0, "f0"), (1, "f1"))
    assert functions() == ["f0", "f1", "f2"]
    refused(one, upload(one, "ranges", b64, write(ranges("x")), 0, 3, "3~1"), 400, "FileSet")
    one.node.settled()
    one.memcached[0].stop(), one.memcached[0].start()
    one.node.restart()
    assert functions() == ["f0", "f1", "f2"]


@pytest.mark.slow
@pytest.mark.parametrize("full", ["bucket_parallel", "cold_requests"])
def test_without_memcached_what_is_in_memory_does_not_wait_for_loads(tmp_path, full):
    """It is not checked while a check would have to wait."""
    config = {full: "1", "bucket_parallel_request": "1", "request_timeout": "60s", "cold_wait": "60s", "bucket_stall_timeout": "60s",
              "bucket_total_timeout": "60s"}  # fmt: skip
    os.makedirs(tmp_path / "store")
    with Stack(keys=True, memcached=0, config=store_config(tmp_path, **config)) as s:
        hexa, b64 = new_id()
        accepted(upload(s, "ranges", b64, write(ranges("f"))))
        assert frames(s, hexa, [0x1000])[0]["function"] == "f"
        module = s.symbols.add("stalled.so", SAMPLE)
        s.bucket.misbehave(module, "stall")
        with ThreadPoolExecutor(1) as pool:
            cold = pool.submit(s.client.post, "/symbolicate/v5", job([module], [[0, 0x1000]]))
            wait_for(lambda: s.bucket.hits(module), "the load to begin")
            time.sleep(REVALIDATE)
            began = time.monotonic()
            assert frames(s, hexa, [0x1000])[0]["function"] == "f"
            assert time.monotonic() - began < 30 and not cold.done()
            s.bucket.kill()
            cold.result(90)
            s.bucket.start()


@pytest.mark.slow
def test_an_upload_is_seen_by_all_within_the_bound(one):
    hexa, b64 = new_id()
    for node in (0, 1):
        assert one.nodes[node].client().found(["prog", hexa]) is False
    accepted(upload(one, "ranges", b64, write(ranges("f"))))
    assert frames(one, hexa, [0x1000])[0]["function"] == "f"
    time.sleep(REVALIDATE)
    assert one.nodes[1].client().found(["prog", hexa]) is True


@pytest.mark.slow
def test_uploads_that_memcached_never_learned_of_are_logged_at_the_end(tmp_path):
    """Each executable once, however often it was uploaded; what memcached learned later does not count."""
    os.makedirs(tmp_path / "store")
    with Stack(keys=True, config=store_config(tmp_path)) as s:

        def untold():
            return [line["text"] for line in s.daemon.log_lines() if line["event"] == "not announced"]

        (hexa, b64), (_, other) = new_id(), new_id()
        s.memcached[0].kill()
        accepted(upload(s, "ranges", b64, write(ranges("f"))))
        s.memcached[0].start()
        wait_for(lambda: s.client.get("/__heartbeat__").status == 200, "memcached to be back", pause=0.2)
        with s.memcached[0].raw() as raw:
            wait_for(lambda: [key for key in raw.keys() if re.match(r"s\d+m:", key)], "it to learn of the upload", pause=0.2)
        s.node.restart()
        assert not untold()
        s.memcached[0].kill()
        for b64 in (other, other, new_id()[1]):
            accepted(upload(s, "ranges", b64, write(ranges("f"))))
        s.node.restart()
        assert [re.search(r"of (\d+) invalidations", text).group(1) for text in untold()] == ["2"]
        s.memcached[0].start()


@pytest.mark.slow
def test_without_memcached_an_upload_is_seen_by_all_within_the_bound(tmp_path):
    """The store is asked what it has; what did not change is not loaded again, and stays while the store is gone."""
    os.makedirs(tmp_path / "store")
    with Stack(keys=True, daemons=2, memcached=0, config=store_config(tmp_path)) as s:
        hexa, b64 = new_id()
        other = s.nodes[1]

        def function():
            frame = frames(s, hexa, [0x1000], node=1)[0]
            return frame.get("function")

        def seen(name):
            time.sleep(REVALIDATE)
            assert function() == name

        assert function() is None
        accepted(upload(s, "ranges", b64, write(ranges("first")), fileset="a"))
        seen("first")
        accepted(upload(s, "ranges", b64, write(ranges("replaced")), fileset="a"))
        seen("replaced")
        accepted(upload(s, "returnpads", b64, write(pads("p")), fileset="a"))
        wait_for(lambda: frames(s, hexa, [0x1024], node=1)[0].get("function") == "p", "the pads")
        loads = other.metrics()["symbolicated_loads_total"]
        checked = other.metrics()['symbolicated_cache_lookups_total{what="root",level="none"}']

        def checks():
            assert function() == "replaced"
            return other.metrics()['symbolicated_cache_lookups_total{what="root",level="none"}'] >= checked + 2

        wait_for(checks, "two more looks into the store")
        os.rename(tmp_path / "store", tmp_path / "away")
        checked += 3
        wait_for(checks, "two more that fail")
        assert other.metrics()["symbolicated_loads_total"] == loads
        os.rename(tmp_path / "away", tmp_path / "store")
        accepted(upload(s, "ranges", b64, write(ranges("later")), fileset="b"))
        seen("later")


def test_a_restarted_process_reads_memcached(one):
    hexa, b64 = new_id()
    accepted(upload(one, "ranges", b64, write(ranges("kept"))))
    assert frames(one, hexa, [0x1000])[0]["function"] == "kept"
    one.node.settled()
    one.node.restart()
    before = one.node.metrics()["symbolicated_loads_total"]
    assert frames(one, hexa, [0x1000])[0]["function"] == "kept"
    assert one.node.metrics()["symbolicated_loads_total"] == before


def test_gzip_bodies(one):
    hexa, b64 = new_id()
    accepted(upload(one, "ranges", b64, gzip.compress(write(ranges("f"))), **{"Content-Encoding": "gzip"}))
    assert frames(one, hexa, [0x1000])[0]["function"] == "f"


def test_an_empty_symbfile(one):
    hexa, b64 = new_id()
    accepted(upload(one, "ranges", b64, b"symbfile\x00\x01"))
    assert one.client.found(["prog", hexa]) is True
    assert "function" not in frames(one, hexa, [0x1000])[0]


# Refusals


@pytest.mark.in_turn
@pytest.mark.parametrize("change, words", [
    ({"FileID": None}, ["FileID", "missing"]), ({"FileID": "xyz"}, ["FileID"]), ({"FilePart": None}, ["FilePart"]),
    ({"FilePart": "-1"}, ["FilePart"]), ({"FilePart": "1"}, ["FilePart", "below"]), ({"FileParts": "0"}, ["FileParts"]),
    ({"FileParts": "x"}, ["FileParts", "not a number"]), ({"FileParts": "99999999999999999999"}, ["FileParts"]), ({"FileParts": None}, ["FileParts"]),
    ({"FileParts": "100001"}, ["FileParts", "between 1 and 100000"]),
    ({"FileSet": "../../etc"}, ["FileSet"]), ({"FileSet": ".hidden"}, ["FileSet"]), ({"FileSet": "x" * 65}, ["FileSet"]),
])  # fmt: skip
def test_headers(one, change, words):
    _, b64 = new_id()
    refused(one, upload(one, "ranges", b64, write(ranges("f")), **change), 400, *words)


def test_the_most_parts_and_the_longest_name_of_a_set(one):
    accepted(upload(one, "ranges", new_id()[1], write(ranges("f")), parts=100000, fileset="x" * 64))


def test_an_encoding_that_is_not_utf8(one):
    """The reason is told all the same."""
    _, b64 = new_id()
    refused(one, upload(one, "ranges", b64, write(ranges("f")), **{"Content-Encoding": "\xff\xfe"}), 400, "Content-Encoding", "\N{REPLACEMENT CHARACTER}" * 2)


@pytest.mark.in_turn
def test_bodies_that_are_no_symbfile(one):
    _, b64 = new_id()
    good = write(ranges("f"))
    for body, word in (
        (b"", "byte 0"), (b"symbfil", "byte"), (b"notasymb" + good[8:], "byte 0"), (good[:-1], "byte"), (good + b"\x05", "byte"),
    ):  # fmt: skip
        place = refused(one, upload(one, "ranges", b64, body), 400, word)["place"]
        assert place.keys() == {"byte"} and 0 <= place["byte"] <= len(body), place
    assert listed(one, b64)["ranges"] == {"parts": 0, "have": []}


@pytest.mark.in_turn
def test_records_of_the_other_kind(one):
    """One file may have both kinds, whatever it was uploaded as."""
    for kind in "ranges", "returnpads":
        hexa, b64 = new_id()
        accepted(upload(one, kind, b64, write(ranges("f") + pads("f"))))
        pad, beside = frames(one, hexa, [0x1024, 0x1025])
        assert (pad["function"], pad["line"], pad["inlines"]) == ("f", 31, [{"function": "f_pad"}])
        assert beside["inlines"] == [{"function": "f_in", "file": "/src/b.h", "line": 7}]


def test_keys(one):
    _, b64 = new_id()
    body = write(ranges("f"))
    secret = "c2VjcmV0LWlkOnNlY3JldC1rZXk="
    refused(one, upload(one, "ranges", b64, body, key=None), 401)
    refused(one, upload(one, "ranges", b64, body, key="APIKey !!!"), 401)
    refused(one, upload(one, "ranges", b64, body, key=f"APIKey {secret}"), 403)
    other = one.add_key("invalidator", "invalidate")
    for node in one.nodes:
        node.daemon.signal(signal.SIGHUP)
    wait_for(lambda: upload(one, "ranges", b64, body, key=other).json()["error"]["Text"].find("right") >= 0, "the new key to be read")
    refused(one, upload(one, "ranges", b64, body, key=other), 403)
    assert one.client.get(f"/api/symbols/{b64}").status == 401
    for node in one.nodes:
        log = open(node.daemon.log).read()
        for key in (secret, one.key.split()[1], other.split()[1], "secret-key", base64.b64decode(one.key.split()[1]).decode().split(":")[1]):
            assert key not in log


def test_too_large(tmp_path):
    os.makedirs(tmp_path / "store")
    with Stack(keys=True, config=store_config(tmp_path, max_upload="10K")) as s:
        _, b64 = new_id()
        large = write(ranges("f" * 20000))
        refused(s, upload(s, "ranges", b64, large), 413)
        refused(s, upload(s, "ranges", b64, gzip.compress(large), **{"Content-Encoding": "gzip"}), 413)
        assert os.listdir(tmp_path / "store") == [] or listed(s, b64)["ranges"]["have"] == []


def test_without_a_store():
    with Stack(keys=True) as s:
        _, b64 = new_id()
        refused(s, upload(s, "ranges", b64, write(ranges("f"))), 404, "symbfile_store")


def test_wrong_methods(one):
    for path in ("/api/symbols-ranges", "/api/symbols-returnpads"):
        assert one.client.get(path).status == 405
    reply = one.client.request("POST", "/api/symbols/" + new_id()[0], b"")
    assert reply.status == 405 and reply.headers["Allow"] == "GET, HEAD, DELETE, OPTIONS"
    assert one.client.request("DELETE", "/api/symbols").status == 405


# Load and crashes


def test_parallel_uploads(one):
    """More at a time than the server takes: those told to come back do."""
    hexa, b64 = new_id()
    parts = [write(ranges(f"f{i}", 0x1000 * (i + 1))) for i in range(24)]

    def send(i):
        def done():
            reply = upload(one, "ranges", b64, parts[i], i, len(parts), node=i % 2)
            assert reply.status in (200, 503), reply
            return reply.status == 200

        wait_for(done, "the part to be taken", pause=0.05)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(send, range(len(parts))))
    want = [f"f{i}" for i in range(24)]
    wait_for(lambda: [f.get("function") for f in frames(one, hexa, [0x1000 * (i + 1) for i in range(24)])] == want, "all parts to answer")


def standing_still(silent):
    """Settings of a store that accepts connections and never answers, and of one upload at a time."""
    return {
        "symbfile_store": "s3://bucket", "s3_endpoint": "http://127.0.0.1:%d" % silent.getsockname()[1], "workers": "2",
        "upload_parallel": "1", "bucket_connect_timeout": "30s", "bucket_stall_timeout": "30s", "bucket_retries": "0",
    }  # fmt: skip


def test_an_upload_takes_its_place_after_its_key_is_checked():
    """While the one place is taken, who has no key hears of the key and not of the place."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with Stack(keys=True, config=standing_still(silent)) as s, ThreadPoolExecutor(1) as pool:
            body = write(ranges("f"))
            holder = pool.submit(s.client.get, f"/api/symbols/{new_id()[1]}", Authorization=s.key)
            silent.settimeout(60)
            connection, _ = silent.accept()  # so it has the place
            refused(s, upload(s, "ranges", new_id()[1], body), 503, "too many uploads")
            refused(s, upload(s, "ranges", new_id()[1], body, key=None), 401)
            refused(s, upload(s, "ranges", "no id", body), 400, "FileID")
            refused(s, s.client.get(f"/api/symbols/{new_id()[1]}"), 401)
            assert not holder.done()
            connection.close()
            silent.close()


def test_a_store_that_stands_still_does_not_take_all_workers():
    """Lists of what is there are few at a time, too, so that one worker is left for who asks for no store."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with Stack(keys=True, config=standing_still(silent)) as s, ThreadPoolExecutor(3) as pool:
            module = s.symbols.add("a.so", SAMPLE)
            lists = [pool.submit(s.client.get, f"/api/symbols/{new_id()[1]}", Authorization=s.key) for _ in range(3)]
            wait_for(lambda: sum(f.done() for f in lists) == 2, "all but one to be refused")
            for reply in (f.result() for f in lists if f.done()):
                refused(s, reply, 503, "too many uploads")
            assert s.client.post("/symbolicate/v5", job([module], [[0, 0x1000]])).status == 200
            assert not all(f.done() for f in lists)
            silent.close()


@pytest.mark.slow
@pytest.mark.plain
def test_a_killed_server_loses_nothing_that_it_accepted(tmp_path):
    """SIGKILL at random points during 200 uploads: what was answered 200 is there, and nothing is torn."""
    os.makedirs(tmp_path / "store")
    rng = random.Random(seed_of(7))
    with Stack(keys=True, config=store_config(tmp_path)) as s:
        stop, taken, wrong, kills = threading.Event(), [], [], []

        def send(worker):
            for n in range(50):
                hexa, b64 = new_id()
                body = write([r for i in range(rng.randrange(1, 400)) for r in ranges(f"w{worker}n{n}i{i}", 0x1000 * (i + 1))])
                end = time.monotonic() + 120
                while time.monotonic() < end:
                    try:
                        reply = upload(s, "ranges", b64, body, BuildID=hexa + "0123")
                    except OSError:
                        continue
                    if reply.status == 200:
                        taken.append((hexa, f"w{worker}n{n}i0"))
                        break
                    if reply.status not in (502, 503, 504):
                        wrong.append(reply)
                        break
                    time.sleep(0.02)

        def kill():
            while not stop.is_set():
                goal = len(taken) + rng.randrange(8)
                wait_for(lambda n=goal: len(taken) >= n or stop.is_set(), "some uploads to be taken", 120, 0.002)
                time.sleep(rng.random() * 0.02)
                s.node.daemon.crash()
                kills.append(1)
                s.node.daemon.start()

        senders = [threading.Thread(target=send, args=(i,)) for i in range(4)]
        killer = threading.Thread(target=kill)
        for t in (*senders, killer):
            t.start()
        for t in senders:
            t.join()
        stop.set()
        killer.join()
        s.node.daemon.crash()  # it ends with the thread that started it
        s.node.daemon.start()
        assert len(kills) > 3
        assert not wrong, wrong[:3]
        assert len(taken) == 200
        for hexa, name in taken:
            assert frames(s, hexa, [0x1000])[0].get("function") == name
            assert frames(s, uuid.UUID(bytes_le=bytes.fromhex(hexa)).hex.upper() + "0", [0x1000])[0].get("function") == name
            assert listed(s, hexa)["ranges"]["have"] == [0]
