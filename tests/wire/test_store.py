# SPDX-License-Identifier: Apache-2.0
"""The store of symbols: which set answers, what uploads cost and leave behind."""

import base64
import itertools
import os
import shutil
import subprocess
import time
import urllib.parse

import pytest

from s3 import BUCKET, S3, program_or_fail
from stack import Stack, wait_for
from symbols import TOOLS  # noqa: F401
from test_build_ids import debug_id, new_build_id
from test_symbfile import REVALIDATE, accepted, listed, new_id, pads, ranges, refused, store_config, upload
from test_sym_uploads import SYMBTOOL, needs_symbtool
from test_symbfile_store import SENT, Liar
from plain_symbfile import write

fresh = itertools.count()


@pytest.fixture(scope="module", params=["file", "s3"])
def store(request, tmp_path_factory):
    """Two hosts over one store."""
    place = tmp_path_factory.mktemp("store")
    os.makedirs(place / "store")
    config, server, root = store_config(place), None, place / "store"
    if request.param == "s3":
        server = S3(place, program_or_fail())
        server.start()
        config |= {"symbfile_store": f"s3://{BUCKET}/a%20b", "s3_credentials_file": server.credentials(), **server.settings()}
        root = os.path.join(server.root, BUCKET, "a b")
    with Stack(keys=True, daemons=2, config=config) as s:
        s.root = str(root)
        yield s
    if server:
        server.stop()


def named(stack, ident, node=0):
    return stack.nodes[node].client().frames(["prog", ident], [0x1000])[0].get("function")


# Which set answers

WITHOUT_LINES = [{"t": "range", "va": "0x1000", "len": 64, "depth": 0, "func": "symbols"}]
UPLOADS = {
    "full": (write(ranges("full")), {}),
    "lines": (write(ranges("lines")[:1]), {}),
    "symbols": (write(WITHOUT_LINES), {}),
    "dynamic": (write([{**WITHOUT_LINES[0], "func": "dynamic"}]), {"FileSymbols": "dynamic"}),
}


@pytest.mark.in_turn
@pytest.mark.slow
@pytest.mark.parametrize("same", [True, pytest.param(False, marks=pytest.mark.plain)])
def test_24_orders_end_in_the_best(store, same):
    """Whoever sends what, and in which order: the best answers; or, if one is forced, that one."""
    asked = []
    for order in itertools.permutations(UPLOADS):
        for forced in (None, order[len(asked) // 2 % 4]):
            build_id, one = new_build_id(), new_id()
            for i, name in enumerate(order):
                body, headers = UPLOADS[name]
                force = {"FileForce": "1"} if name == forced else {}
                ident = one[1] if same else new_id()[1]
                accepted(upload(store, "ranges", ident, body, node=i % 2, BuildID=build_id.hex(), **headers, **force))
            asked.append((build_id, forced or "full", order, forced))
    for i, (build_id, expected, *what) in enumerate(asked):
        assert named(store, debug_id(build_id), node=i % 2) == expected, what
    best = [s for s in listed(store, asked[0][0].hex())["sets"] if s["answers"]]
    assert [(s["quality"], s["why"]) for s in best] == [("inlines", "better" if same else "the only one")]
    best = [s for s in listed(store, asked[1][0].hex())["sets"] if s["answers"]]
    assert [(s["quality"], s["why"], s["forced"]) for s in best] == [("inlines", "forced", True)]


def test_copies_from_many_hosts_do_not_hide_the_best(store):
    """Each host has stripped its own copy, so all have one build id, and none the FileID of another."""
    build_id, (full, ident) = new_build_id(), new_id()
    accepted(upload(store, "ranges", ident, UPLOADS["full"][0], BuildID=build_id.hex()))
    for i in range(20):
        accepted(upload(store, "ranges", new_id()[1], UPLOADS["symbols"][0], node=i % 2, BuildID=build_id.hex()))
    told = listed(store, build_id.hex())
    assert (told["file_id"], len(told["claims"])) == (full, 21)
    assert named(store, debug_id(build_id)) == "full"


def test_of_equals_the_newer_answers_also_if_it_was_sent_before(store):
    ident = new_id()
    for name in ("a", "b", "a"):
        accepted(upload(store, "ranges", ident[1], write(ranges(name))))
        wait_for(lambda n=name: named(store, ident[0], node=1) == n, "the upload to answer")


@pytest.mark.in_turn
def test_return_pads_are_ranked_too(store):
    ident = new_id()
    bare = [{"t": "pad", "va": "0x1000", "entries": [{"func": "bare", "file": "", "line": 0}]}]
    for body in (write(pads("full", 0x1000)), write(bare)):
        accepted(upload(store, "returnpads", ident[1], body))
    assert named(store, ident[0]) == "full"


@pytest.mark.in_turn
def test_the_manifest_says_what_is_known(store):
    ident, build_id = new_id(), new_build_id()
    accepted(upload(store, "ranges", ident[1], write(ranges("f")), 0, 2, "mine", BuildID=build_id.hex(), ImageBase="0x400000"))
    last = upload(store, "ranges", ident[1], write(ranges("g", 0x2000)), 1, 2, "mine", BuildID=build_id.hex(), ImageBase="0x400000",
                  FileSegments="0:400000:1000:1000,1000:402000:234:2000")  # fmt: skip
    accepted(last)
    [told] = listed(store, ident[0])["sets"]
    assert told.pop("time").startswith("20") and told.pop("size") > 0
    assert told == {
        "kind": "ranges", "set": "mine", "parts": 2, "have": [0, 1], "complete": True, "answers": True, "why": "the only one", "uploader": "tester",
        "functions": 2, "lines": 6, "inlines": 2, "quality": "inlines", "dynamic": False, "forced": False, "build_id": build_id.hex(),
        "debug_ids": [debug_id(build_id), build_id[:16].hex().upper() + "0"], "image_base": "0x400000",
        "segments": [{"offset": "0x0", "address": "0x400000", "file_size": "0x1000", "memory_size": "0x1000"},
                     {"offset": "0x1000", "address": "0x402000", "file_size": "0x234", "memory_size": "0x2000"}],
    }  # fmt: skip


@pytest.mark.in_turn
@pytest.mark.parametrize("header, value", [
    ("FileMore", "2"), ("FileMore", "yes"), ("FileForce", "0"), ("FileSymbols", "debug"), ("FileSegments", "0:0:0"), ("FileSegments", "0:0:0:g"),
    ("FileSegments", "0:0:0:11111111111111111"), ("FileSegments", ",".join(["0:0:0:0"] * 65)), ("FileSegments", "0:0:0:0,"[:-1] + ":0"),
])  # fmt: skip
def test_headers_that_are_none(store, header, value):
    ident = new_id()
    refused(store, upload(store, "ranges", ident[1], write(ranges("f")), **{header: value}), 400, header)
    assert listed(store, ident[0])["sets"] == []


# Parts and manifests


def objects(store, ident):
    place = os.path.join(store.root, "symbfiles", ident)
    return sorted(os.path.relpath(os.path.join(folder, f), place) for folder, _, names in os.walk(place) for f in names)


def test_an_upload_that_is_repeated_leaves_the_same_objects(store):
    ident = new_id()
    for _ in range(3):
        for part in (0, 1):
            accepted(upload(store, "ranges", ident[1], write(ranges("f", 0x1000 * (part + 1))), part, 2, "s", node=part))
        accepted(upload(store, "returnpads", ident[1], write(pads("f"))))
    there = objects(store, ident[0])
    assert len(there) == 5 and [path.rsplit("/", 1)[1] for path in there].count("set.json") == 2, there


def test_bytes_that_are_stored_are_counted(store):
    ident, part = new_id(), write(ranges("counted"))
    before = store.node.metrics()["symbolicated_upload_bytes_total"]
    accepted(upload(store, "ranges", ident[1], part))
    assert store.node.metrics()["symbolicated_upload_bytes_total"] == before + len(part)
    assert named(store, ident[0]) == "counted"
    wait_for(lambda: store.node.metrics()['symbolicated_last_map_bytes{form="raw"}'] > 0, "all pages of the map to be made", 120)


def test_without_its_manifest_nothing_of_a_set_is_visible(store):
    """As if the server had died between part and manifest; the next push stores it."""
    ident, build_id = new_id(), new_build_id()
    accepted(upload(store, "ranges", ident[1], write(ranges("f")), fileset="s", BuildID=build_id.hex()))
    os.unlink(os.path.join(store.root, "symbfiles", ident[0], "ranges", "s", "set.json"))
    assert store.client.found(["prog", ident[0]]) is False and store.client.found(["prog", debug_id(build_id)]) is False
    assert listed(store, ident[0])["ranges"] == {"parts": 1, "have": [], "set": "s"}
    accepted(upload(store, "ranges", ident[1], write(ranges("f")), fileset="s", BuildID=build_id.hex()))
    assert named(store, ident[0]) == named(store, debug_id(build_id), node=1) == "f"


def test_only_the_last_part_makes_a_set_visible(store):
    """A client that says that others follow; the last one must find all others."""
    ident = new_id()
    parts = [write(ranges(f"f{i}", 0x1000 * (i + 1))) for i in range(3)]
    accepted(upload(store, "ranges", ident[1], parts[0], 0, 3, "s", FileMore="1"))
    refused(store, upload(store, "ranges", ident[1], parts[2], 2, 3, "s", FileMore="0"), 503, "1 of the set's 3 parts")
    accepted(upload(store, "ranges", ident[1], parts[1], 1, 3, "s", node=1, FileMore="1"))
    assert store.client.found(["prog", ident[0]]) is False
    accepted(upload(store, "ranges", ident[1], parts[2], 2, 3, "s", FileMore="0"))
    wait_for(lambda: named(store, ident[0]) == "f0", "the set to be seen")


def test_what_an_upload_costs(tmp_path):
    """One request a part and one a set; a set of several parts is listed once, one with a build id is noted under that."""
    with Liar([SENT] * 3) as liar, Stack(keys=True, config=liar.store.settings) as s:
        ident, build_id = new_id(), new_build_id()
        accepted(upload(s, "ranges", ident[1], write(ranges("f"))))
        assert [(method, path.count(ident[0])) for method, path in liar.requests] == [("PUT", 1)] * 2
        accepted(upload(s, "ranges", ident[1], write(ranges("f")), fileset="s", FileMore="1", part=0, parts=2, BuildID=build_id.hex()))
        assert len(liar.requests) == 3
        part, manifest = (path.split("?")[0].rsplit("/", 1)[1] for _, path in liar.requests[:2])
        assert part.startswith("0.1.") and manifest == "set.json"
        first = liar.requests[2][1].removeprefix("/bucket/")
        listed_now = f"<ListBucketResult><Contents><Key>{first}</Key><LastModified>2026-11-21T15:17:30Z</LastModified><Size>6</Size></Contents></ListBucketResult>"
        liar.answers += [SENT, (200, listed_now.encode(), {}), SENT, SENT]
        accepted(upload(s, "ranges", ident[1], write(ranges("g")), fileset="s", FileMore="0", part=1, parts=2, BuildID=build_id.hex()))
        assert [method for method, _ in liar.requests[3:]] == ["PUT", "GET", "PUT", "PUT"] and build_id.hex() in liar.requests[5][1]


def test_two_who_upload_sets_without_a_name_at_once_are_not_mixed(store):
    """They have keys of their own."""
    ident = new_id()
    other = store.add_key(f"other-{ident[0]}", "upload")
    for node in store.nodes:
        node.daemon.reload()
    for part in range(2):
        for name, key in (("a", store.key), ("b", other)):
            accepted(upload(store, "ranges", ident[1], write(ranges(f"{name}{part}", 0x1000 * (part + 1))), part, 2, node=part, key=key))
    got = store.client.frames(["prog", ident[0]], [0x1000, 0x2000])
    assert [f["function"] for f in got] == ["b0", "b1"]


# Seen and removed


def remove(store, path, key=None, node=0):
    return store.nodes[node].client().request("DELETE", f"/api/symbols/{path}", headers={"Authorization": key or remover(store)})


def remover(store):
    """A key with all rights but uploading."""
    if not hasattr(store, "remover"):
        store.remover = store.add_key("janitor", "remove,read")
        for node in store.nodes:
            node.daemon.reload()
    return store.remover


@pytest.mark.parametrize("kind_of_id", ["file id", "build id", "debug id"])
def test_what_is_removed_is_gone_on_all_hosts(store, kind_of_id):
    ident, build_id = new_id(), new_build_id()
    accepted(upload(store, "ranges", ident[1], write(ranges("f")), BuildID=build_id.hex()))
    accepted(upload(store, "returnpads", ident[1], write(pads("f")), BuildID=build_id.hex()))
    for node in (0, 1):
        assert named(store, ident[0], node=node) == named(store, debug_id(build_id), node=node) == "f"
    one = {"file id": ident[1], "build id": build_id.hex(), "debug id": debug_id(build_id)}[kind_of_id]
    reply = remove(store, one)
    assert reply.status == 200 and reply.json()["objects"] == 4 and reply.json()["bytes"] > 0, reply
    for node in (0, 1):
        for asked in (ident[0], debug_id(build_id)):
            wait_for(lambda n=node, i=asked: store.nodes[n].client().found(["prog", i]) is False, "it to be gone")
    assert objects(store, ident[0]) == [] and listed(store, ident[0])["sets"] == []
    refused(store, remove(store, one), 404, "nothing is stored")
    # and may come again
    accepted(upload(store, "ranges", ident[1], write(ranges("f")), BuildID=build_id.hex()))
    for node in (0, 1):
        wait_for(lambda n=node: named(store, debug_id(build_id), node=n) == "f", "it to be seen again")


def test_removals_one_after_the_other_are_not_too_many_at_a_time(store):
    """upload_parallel is 2."""
    assert [remove(store, new_id()[0]).status for _ in range(3)] == [404] * 3


def test_all_executables_of_a_build_id_are_removed(store):
    """More than the 16 that are asked which is the best."""
    build_id, idents = new_build_id(), [new_id() for _ in range(18)]
    for ident in idents:
        accepted(upload(store, "ranges", ident[1], write(ranges("f")), BuildID=build_id.hex()))
    reply = remove(store, build_id.hex())
    assert reply.status == 200 and reply.json()["objects"] == 36, reply
    assert not any(objects(store, ident[0]) for ident in idents)


def test_an_id_may_be_percent_encoded(store):
    """Plain base64 has slashes, which would end the segment of the path."""
    ident = new_id()
    accepted(upload(store, "ranges", ident[1], write(ranges("f"))))
    quoted = urllib.parse.quote(base64.b64encode(bytes.fromhex(ident[0])), safe="")
    assert "%2F" in quoted and quoted.endswith("%3D%3D")
    assert listed(store, quoted) == listed(store, ident[0]) and listed(store, quoted)["sets"]
    assert remove(store, quoted).status == 200
    assert listed(store, ident[0])["sets"] == []
    refused(store, remove(store, quoted.removesuffix("%3D")), 400, "the path is not")


def test_one_set_is_removed(store):
    ident = new_id()
    for name in ("a", "b"):
        accepted(upload(store, "ranges", ident[1], write(ranges(name)), fileset=name))
    assert named(store, ident[0]) == "b"
    refused(store, remove(store, f"{ident[0]}/c"), 404, "and set")
    assert remove(store, f"{ident[0]}/b").status == 200
    for node in (0, 1):
        wait_for(lambda n=node: named(store, ident[0], node=n) == "a", "the other set to answer")
    accepted(upload(store, "ranges", ident[1], write(ranges("unnamed"))))
    name = next(s["set"] for s in listed(store, ident[0])["sets"] if s["answers"])
    assert name.startswith("~") and remove(store, f"{ident[0]}/{name.replace('~', '%7e')}").status == 200
    assert [s["set"] for s in listed(store, ident[0])["sets"]] == ["a"]


@pytest.mark.in_turn
@pytest.mark.parametrize("path", ["x", "0" * 34, f"{'0' * 32}/.x", f"{'0' * 32}/a/b", f"{'0' * 32}/..", f"{'0' * 32}/%2e%2e", f"{'0' * 32}/a%2fb", f"{'0' * 32}/{'a' * 65}"])
def test_paths_that_lead_nowhere(store, path):
    refused(store, remove(store, path), 400, "the path")


@needs_symbtool
def test_a_set_without_a_name_is_not_all_of_them(store):
    """As where a script's variable is empty."""
    ident = new_id()
    accepted(upload(store, "ranges", ident[1], write(ranges("f"))))
    refused(store, remove(store, f"{ident[0]}/"), 400, "name of a set")
    url = f"http://127.0.0.1:{store.node.nginx.port}"
    done = subprocess.run([SYMBTOOL, "remove", "--url", url, "--api-key", remover(store), "--set", "", ident[0]], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "name of a set" in done.stderr, done
    assert named(store, ident[0]) == "f"


def test_rights(store):
    """No key sees or removes what it may not."""
    ident = new_id()
    accepted(upload(store, "ranges", ident[1], write(ranges("f"))))
    keys = {right: store.add_key(f"only-{right}-{ident[0]}", right) for right in ("upload", "invalidate", "remove", "read")}
    for node in store.nodes:
        node.daemon.reload()
    may = {"show": ("upload", "read"), "list": ("read",), "remove": ("remove",), "upload": ("upload",)}
    for right, key in [*keys.items(), ("none", None)]:
        headers = {"Authorization": key} if key else {}
        replies = {
            "show": store.client.get(f"/api/symbols/{ident[0]}", **headers),
            "list": store.client.get("/api/symbols", **headers),
            "upload": store.client.request("POST", "/api/symbols-ranges", write(ranges("f")), {"FileID": ident[1], "FilePart": "0", "FileParts": "1", **headers}),
            "remove": store.client.request("DELETE", f"/api/symbols/{ident[0]}", headers=headers),
        }
        for what, reply in replies.items():
            assert reply.status == (200 if right in may[what] else 403 if key else 401), (right, what, reply)


def catalog(store, **query):
    """All pages of it: a list of lists."""
    pages, after = [], None
    while True:
        asked = {**query, **({"after": after} if after else {})}
        reply = store.client.get("/api/symbols?" + urllib.parse.urlencode(asked), Authorization=remover(store))
        assert reply.status == 200, reply
        pages.append(reply.json()["sets"])
        after = reply.json().get("next")
        if not after:
            return pages


def test_the_list(store):
    shutil.rmtree(os.path.join(store.root, "symbfiles"), ignore_errors=True)
    assert catalog(store) == [[]]
    other, idents = store.add_key(f"other-lister-{next(fresh)}", "upload"), []
    for node in store.nodes:
        node.daemon.reload()
    for i in range(7):
        idents.append(new_id())
        recs = [r for k in range(7 - i) for r in ranges(f"f{k}", 0x1000 * (k + 1))]
        accepted(upload(store, "ranges", idents[-1][1], write(recs), key=other if i % 3 == 0 else store.key))
        at = time.time() - 1000 + i
        for path in objects(store, idents[-1][0]):
            os.utime(os.path.join(store.root, "symbfiles", idents[-1][0], path), (at, at))
    accepted(upload(store, "ranges", idents[0][1], write(ranges("half")), 0, 2, "half"))
    pages = catalog(store, limit=3)
    assert [len(page) for page in pages] == [3, 3, 2]
    ids = [s["file_id"] for page in pages for s in page]
    assert ids == [idents[0][0], *(i[0] for i in reversed(idents))]
    assert pages[0][0]["complete"] is False and pages[0][0]["set"] == "half"
    assert (pages[0][1]["uploader"], pages[0][1]["functions"], pages[0][1]["quality"]) == (pages[2][1]["uploader"], 1, "inlines")
    by_size = [s["file_id"] for page in catalog(store, sort="size", limit=4) for s in page if s["complete"]]
    assert by_size == [i[0] for i in idents]
    name = pages[2][1]["uploader"]
    mine = [s["file_id"] for page in catalog(store, uploader=name, limit=2) for s in page]
    assert mine == [idents[i][0] for i in (6, 3, 0)]
    assert catalog(store, uploader="nobody") == [[]]


@pytest.mark.in_turn
def test_sets_of_one_size_are_listed_once_each(store):
    """Each begins a page."""
    shutil.rmtree(os.path.join(store.root, "symbfiles"), ignore_errors=True)
    idents = [new_id() for _ in range(4)]
    for ident in idents:
        accepted(upload(store, "ranges", ident[1], write(ranges("f"))))
    pages = catalog(store, sort="size", limit=1)
    assert len({s["size"] for page in pages for s in page}) == 1
    assert sorted(s["file_id"] for page in pages for s in page) == sorted(i[0] for i in idents)


@pytest.mark.in_turn
@pytest.mark.parametrize("query, word", [("sort=best", "sort"), ("limit=0", "limit"), ("limit=201", "limit"), ("limit=x", "limit"), ("after=1", "after"),
                                         ("after=1/00/ranges/x", "after"), ("uploader=%zz", "uploader")])  # fmt: skip
def test_queries_that_are_none(store, query, word):
    refused(store, store.client.get(f"/api/symbols?{query}", Authorization=remover(store)), 400, word)
