# SPDX-License-Identifier: Apache-2.0
"""What is uploaded once is found by every id: FileID, build id, the debug id that Breakpad makes of it; through nginx, over a
directory and over S3, with memcached and without."""

import json
import os
import random
import shutil
import subprocess
import time
import uuid

import pytest

from client import job
from s3 import BUCKET, S3, program_or_fail
from stack import Stack, wait_for
from symbols import SAMPLE, SAMPLE_FRAMES
from test_symbfile import REVALIDATE, accepted, frames, listed, new_id, one, ranges, refused, store_config, upload, write  # noqa: F401
from test_symbtool import SYMBTOOL, compile_program, run

numbers = iter(range(1_000_000))
needs_symbtool = pytest.mark.skipif(not os.path.exists(SYMBTOOL), reason="symbtool was not built")


def new_build_id(size=20):
    """Bytes that no other test has, of which every one matters."""
    return (next(numbers).to_bytes(4, "big") + bytes(range(0x11, 0x51)))[:size]


def guid(build_id):
    return uuid.UUID(bytes_le=(build_id + bytes(16))[:16]).hex.upper()


def debug_id(build_id):
    return guid(build_id) + "0"


def named(stack, ident, offset=0x1000, name="prog", node=0):
    return frames(stack, ident, [offset], name, node)[0].get("function")


def send(stack, build_id, function="f", base=0, ident=None, va=0x1000, **more):
    """Uploads one function at va; returns the FileID in hex."""
    hexa, b64 = ident or new_id()
    headers = {"BuildID": build_id.hex(), **({"ImageBase": hex(base)} if base else {})}
    accepted(upload(stack, "ranges", b64, write(ranges(function, va)), **headers, **more))
    return hexa


@pytest.fixture(scope="module", params=["file", "s3"])
def store(request, tmp_path_factory):
    """Two processes without memcached, and with it."""
    place = tmp_path_factory.mktemp("store")
    os.makedirs(place / "store")
    config = store_config(place)
    server = None
    if request.param == "s3":
        server = S3(place, program_or_fail())
        server.start()
        config |= {"symbfile_store": f"s3://{BUCKET}/a%20b", "s3_credentials_file": server.credentials(), **server.settings()}
        root = os.path.join(server.root, BUCKET, "a b")
    else:
        root = place / "store"
    with Stack(keys=True, daemons=2, config=config) as s:
        s.root = str(root)
        yield s
    if server:
        server.stop()


# One upload, all ids


@pytest.mark.slow
@pytest.mark.parametrize("size", [8, 16, 20, 32, 64])
def test_every_kind_of_id_leads_to_an_upload(store, size):
    build_id = new_build_id(size)
    hexa = send(store, build_id)
    big_endian = (build_id + bytes(16))[:16].hex().upper() + "0"
    ids = [debug_id(build_id), debug_id(build_id).lower(), guid(build_id), big_endian, build_id.hex(), build_id.hex().upper()]
    for ident in ids:
        for name in ("prog", "libother.so", "a/path", "."):
            reply = store.client.v5(job([[name, ident]], [[0, 0x1000], [0, 0x9000]]))["results"][0]
            assert reply["found_modules"] == {f"{name}/{ident}": True}
            assert reply["stacks"][0][0]["function"] == "f" and "function" not in reply["stacks"][0][1]
    v4 = store.client.v4({"version": 4, **job([["prog", ids[0]]], [[0, 0x1000]])})
    assert v4["symbolicatedStacks"] == [["f (in prog)"]] and v4["knownModules"] == [True]
    line = f"    #0 0x55d900001000  (/opt/prog+0x1000) (BuildId: {build_id.hex()})\n"
    assert "in f /src/a.c:10" in store.client.post("/symbolicate/text", line).text
    # an age, another id, and half of one are others
    for other in (guid(build_id) + "1", guid(build_id) + "a", debug_id(new_build_id(size)), build_id.hex()[:-2]):
        assert store.client.found(["prog", other]) is False
    for ident in ids:
        got = listed(store, ident)
        assert (got["file_id"], got["claims"], got["image_base"]) == (hexa, [hexa], "0x0")
        assert got["sets"] == listed(store, hexa)["sets"] and got["ranges"] == listed(store, hexa)["ranges"]
        assert (got["ranges"]["parts"], got["ranges"]["have"]) == (1, [0])


@pytest.mark.in_turn
def test_offsets_count_from_the_image_base(store):
    build_id = new_build_id()
    hexa = send(store, build_id, base=0x400000, va=0x401000)
    assert named(store, hexa, 0x401000) == "f"
    frame, none, last = frames(store, debug_id(build_id), [0x1010, 0x401000, 2**64 - 1])
    assert (frame["function"], frame["function_offset"], frame["module_offset"], frame["line"]) == ("f", "0x10", "0x1010", 20)
    assert none == {"frame": 1, "module": "prog", "module_offset": "0x401000"}
    assert last == {"frame": 2, "module": "prog", "module_offset": "0xffffffffffffffff"}
    v4 = store.client.v4({"version": 4, **job([["prog", debug_id(build_id)]], [[0, 0x1010], [0, 1]])})
    assert v4["symbolicatedStacks"] == [["f (in prog)", "0x1 (in prog)"]]
    # by both ids in one request, and by one that is of another executable
    both = store.client.v5(job([["a", hexa], ["b", debug_id(build_id)], ["c", debug_id(build_id)]], [[0, 0x401000], [1, 0x1000], [2, 0x1000]]))
    assert [f.get("function") for f in both["results"][0]["stacks"][0]] == ["f", "f", "f"]
    assert listed(store, build_id.hex())["image_base"] == "0x400000"
    told = store.client.v5(job([["a", hexa], ["b", debug_id(build_id)]], [[0, 0x401000], [1, 0x1000]]), Debug="1")
    assert told["debug"]["image_bases"] == {f"b/{debug_id(build_id)}": "0x400000"}


@pytest.mark.in_turn
def test_a_text_has_addresses_of_either_kind(store):
    """Sanitizers write those of the file, systemd those of the image: of a fixed-address executable they are not the same."""
    build_id = new_build_id()
    send(store, build_id, base=0x400000, va=0x401000)
    text = (
        f"    #0 0x401010  (/opt/prog+0x401010) (BuildId: {build_id.hex()})\n"
        f"    #1 0x401010  (/opt/prog+0x10) (BuildId: {build_id.hex()})\n"
        f"Module /opt/prog with build-id {build_id.hex()}\n"
        "#0  0x0000000000401010 n/a (prog + 0x1010)\n"
    )
    sanitizer, none, _, systemd = store.client.post("/symbolicate/text", text).text.splitlines()
    assert "in f /src/a.c:20" in sanitizer and systemd.startswith("#0  0x0000000000401010 f at /src/a.c:20 (prog")
    assert none == text.splitlines()[1]
    frames_of = store.client.post("/symbolicate/text", text, Accept="application/json").json()["frames"]
    assert [(f["offset"], f["module_offset"], f.get("function")) for f in frames_of] == [
        ("0x401010", "0x1010", "f"),
        ("0x10", "0x10", None),
        ("0x1010", "0x1010", "f"),
    ]


def test_sources_come_first(store):
    build_id = new_build_id()
    module = store.symbols.add("both.so", SAMPLE, debug_id(build_id))
    send(store, build_id, "uploaded")
    assert named(store, debug_id(build_id), name="both.so") == SAMPLE_FRAMES[0x1000]["function"]
    assert store.bucket.hits(module) == 1
    assert named(store, debug_id(build_id), name="other.so") == "uploaded"


def test_32_digits_are_a_file_id_before_a_build_id(store):
    """Behind a debug id without its age in the sources; then a build id of 16 bytes or that debug id."""
    build_id = new_build_id(16)
    hexa = build_id.hex()
    send(store, build_id, "by_build_id")
    assert named(store, hexa) == "by_build_id"
    assert named(store, guid(build_id)) == "by_build_id"
    store.symbols.add("source.so", SAMPLE, hexa.upper())
    assert named(store, hexa, name="source.so") == SAMPLE_FRAMES[0x1000]["function"]
    accepted(upload(store, "ranges", hexa, write(ranges("by_file_id"))))
    wait_for(lambda: named(store, hexa) == "by_file_id", "the FileID to be seen")
    assert named(store, hexa, name="source.so") == SAMPLE_FRAMES[0x1000]["function"], "an upload hides what a source has"


# What is remembered


@pytest.mark.slow
def test_an_upload_is_seen_behind_a_miss(store):
    build_id = new_build_id()
    ids = (debug_id(build_id), guid(build_id), build_id[:16].hex() + "0", build_id[:16].hex(), build_id.hex())
    for node in (0, 1):
        for ident in ids:
            assert store.nodes[node].client().found(["prog", ident]) is False
    send(store, build_id)
    for node in (0, 1):
        for ident in ids:
            wait_for(lambda n=node, i=ident: named(store, i, node=n) == "f", "the upload to be seen")


def test_a_missing_module_costs_one_look_into_the_store(store):
    def missing():
        return store.node.metrics()['symbolicated_downloads_total{outcome="missing"}']

    ident = debug_id(new_build_id())
    before = missing()
    for _ in range(5):
        assert store.client.found(["nobody.so", ident]) is False
    assert missing() == before + 5  # the source, in either case with and without the age, and the store
    assert store.client.found(["nobody.so", guid(new_build_id()) + "1"]) is False
    assert missing() == before + 8  # as well: it may be of a PDB file
    # another name of it is asked of the source alone
    assert store.client.found(["another.so", ident]) is False
    assert missing() == before + 12


@pytest.mark.slow
def test_forgetting_takes_every_kind_of_id(store):
    """What is cached of an upload goes with it, on all hosts."""
    for ident_of in (lambda h, b: h[0], lambda h, b: h[1], lambda h, b: debug_id(b), lambda h, b: b.hex()):
        both, build_id = new_id(), new_build_id()
        send(store, build_id, ident=both)
        asked = (both[0], debug_id(build_id), build_id.hex())
        for node in (0, 1):
            assert [named(store, i, node=node) for i in asked] == ["f"] * 3
        store.node.settled(), store.nodes[1].settled()
        shutil.rmtree(os.path.join(store.root, "symbfiles", both[0]))
        assert [named(store, i) for i in asked] == ["f"] * 3
        reply = store.client.request("DELETE", f"/cache/any/{ident_of(both, build_id)}", headers={"Authorization": store.key})
        assert reply.status == 200, reply
        assert [named(store, i) for i in asked] == [None] * 3
        wait_for(lambda a=asked: [named(store, i, node=1) for i in a] == [None] * 3, "the other host to forget it")


def test_without_memcached(tmp_path):
    os.makedirs(tmp_path / "store")
    with Stack(keys=True, memcached=0, config=store_config(tmp_path)) as s:
        build_id = new_build_id()
        assert named(s, debug_id(build_id)) is None
        both = new_id()
        send(s, build_id, ident=both)
        assert named(s, debug_id(build_id)) == "f"
        accepted(upload(s, "ranges", both[1], write(ranges("later")), fileset="b"))
        assert named(s, debug_id(build_id)) == "later"
        s.node.restart()
        assert named(s, debug_id(build_id)) == "later"


# A store that was copied has other times


def with_other_times(store, hexa, seed):
    """Every object of the executable gets a time at random, as if somebody had copied them in any order."""
    rng = random.Random(seed)
    for folder, _, names in os.walk(os.path.join(store.root, "symbfiles", hexa)):
        for name in names:
            at = time.time() - rng.randrange(10_000_000)
            os.utime(os.path.join(folder, name), (at, at))


def test_a_copied_store_answers_from_the_same_set(store):
    print("seed", seed := random.randrange(1 << 32))
    names = [f"set{i}" for i in random.Random(seed).sample(range(1000), 5)]
    both, build_id = new_id(), new_build_id()
    for name in names:
        for part in (0, 1):
            body = write(ranges(name, 0x1000 * (part + 1)))
            accepted(upload(store, "ranges", both[1], body, part, 2, fileset=name, BuildID=build_id.hex()))
    for i in range(10):
        with_other_times(store, both[0], f"{seed} {i}")
        assert listed(store, both[0])["ranges"]["set"] == names[-1], (seed, i)
    assert store.client.request("DELETE", f"/cache/any/{both[0]}", headers={"Authorization": store.key}).status == 200
    assert [named(store, ident) for ident in (both[0], debug_id(build_id))] == [names[-1]] * 2


def test_of_two_executables_the_same_answers_from_a_copied_store(store):
    print("seed", seed := random.randrange(1 << 32))
    build_id, hexas = new_build_id(), []
    for name in ("first", "second", "third"):
        hexas.append(send(store, build_id, name))
    for i in range(10):
        for hexa in hexas:
            with_other_times(store, hexa, f"{seed} {i} {hexa}")
        assert listed(store, build_id.hex())["file_id"] == hexas[-1], (seed, i)


# Two executables, one build id


@pytest.mark.slow
def test_of_two_the_newest_complete_set_answers(store):
    build_id = new_build_id()
    first, second = new_id(), new_id()
    header = {"BuildID": build_id.hex()}

    def part(who, number, function):
        body = write(ranges(function, 0x1000 * (number + 1)))
        accepted(upload(store, "ranges", who[1], body, number, 2, fileset="s", **header))

    def answers():
        return [named(store, debug_id(build_id), offset, node=node) for node in (0, 1) for offset in (0x1000, 0x2000)]

    part(first, 0, "a0"), part(first, 1, "a1")
    wait_for(lambda: answers() == ["a0", "a1"] * 2, "the first to answer")
    wait_for(lambda: os.stat(store.root).st_mtime < next_second(store), "a later second, which is what S3 tells apart")
    part(second, 0, "b0")
    assert answers() == ["a0", "a1"] * 2
    assert listed(store, build_id.hex())["file_id"] == first[0]
    part(second, 1, "b1")
    assert sorted(listed(store, build_id.hex())["claims"]) == sorted([first[0], second[0]])
    wait_for(lambda: answers() == ["b0", "b1"] * 2, "the second to answer")
    assert [named(store, first[0]), named(store, second[0])] == ["a0", "b0"]
    told = [line for line in store.daemon.log_lines() if line["event"] == "build id claimed"]
    assert any("2 executables claim" in line["text"] and second[0] in line["text"] for line in told), told


def next_second(store):
    """The time of a file that is written now, less one second."""
    path = os.path.join(store.root, "clock")
    with open(path, "w", encoding="utf-8") as f:
        f.write("x")
    return os.stat(path).st_mtime - 1.1


def test_a_claim_without_parts_does_not_hide_another(store):
    build_id = new_build_id()
    hexa = send(store, build_id, "there")
    place = os.path.join(store.root, "symbfiles", "build-ids", min(build_id[:16].hex(), guid(build_id).lower()), build_id.hex())
    for i in range(3):
        os.makedirs(os.path.join(place, new_id()[0]))
        with open(os.path.join(place, os.listdir(place)[0], "0"), "w", encoding="utf-8"):
            pass
    other = new_id()[0]
    os.makedirs(os.path.join(place, other))
    with open(os.path.join(place, other, "1000"), "w", encoding="utf-8"):
        pass
    assert named(store, debug_id(build_id)) == "there"
    assert listed(store, build_id.hex())["file_id"] == hexa


# What is hostile, and what fails


def test_what_lies_there_and_is_no_claim(one, tmp_path):
    """Names that lead out of the store, or are not as they are written, lead nowhere."""
    build_id = new_build_id()
    key = min(build_id[:16].hex(), guid(build_id).lower())
    place = os.path.join(one.place, "store", "symbfiles", "build-ids", key)
    hexa = new_id()
    accepted(upload(one, "ranges", hexa[1], write(ranges("f"))))
    outside = tmp_path / "outside"
    os.makedirs(outside / hexa[0])
    (outside / hexa[0] / "0").write_text("")
    os.makedirs(place)
    os.symlink(outside, os.path.join(place, build_id.hex()))
    for ident, base in ((hexa[0].upper(), "0"), ("..", "0"), (hexa[0][:-1], "0"), (hexa[0], "00"), (hexa[0], "0x0"), (hexa[0], "1" * 17), (hexa[0], "-1")):
        for spelled in (build_id.hex().upper(), build_id.hex() + "0", "..", new_build_id().hex()):
            directory = os.path.join(place, spelled + "x" if spelled == ".." else spelled, ident + "x" if ident == ".." else ident)
            os.makedirs(directory, exist_ok=True)
            with open(os.path.join(directory, base), "w", encoding="utf-8") as f:
                f.write("../../../../etc/passwd")
    assert named(one, debug_id(build_id)) is None
    assert named(one, build_id.hex()) is None
    os.unlink(os.path.join(place, build_id.hex()))
    os.makedirs(os.path.join(place, build_id.hex(), hexa[0]))
    with open(os.path.join(place, build_id.hex(), hexa[0], "0"), "w", encoding="utf-8") as f:
        f.write("../../../../etc/passwd")
    assert one.client.request("DELETE", f"/cache/any/{debug_id(build_id)}", headers={"Authorization": one.key}).status == 200
    assert named(one, debug_id(build_id)) == "f"


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "headers,words",
    [
        ({"BuildID": "../../" + "0" * 34}, ["BuildID"]),
        ({"BuildID": "012"}, ["BuildID"]),
        ({"BuildID": "0x12"}, ["BuildID"]),
        ({"BuildID": "ab" * 65}, ["BuildID", "128"]),
        ({"BuildID": "ab" * 20, "ImageBase": "400000"}, ["ImageBase"]),
        ({"BuildID": "ab" * 20, "ImageBase": "0x"}, ["ImageBase"]),
        ({"BuildID": "ab" * 20, "ImageBase": "0x" + "1" * 17}, ["ImageBase"]),
        ({"BuildID": "ab" * 20, "ImageBase": "-0x1"}, ["ImageBase"]),
    ],
)
def test_headers_that_are_none(one, headers, words):
    hexa, b64 = new_id()
    refused(one, upload(one, "ranges", b64, write(ranges("f")), **headers), 400, *words)
    assert listed(one, hexa)["ranges"]["have"] == []


@pytest.mark.in_turn
@pytest.mark.parametrize("ident", ["", "x", "012", "ab" * 65, "0" * 31 + "g", "A" * 41, "0" * 34])
def test_ids_that_are_none(one, ident):
    refused(one, one.client.get(f"/api/symbols/{ident}", Authorization=one.key), 400, "FileID", "build id")


def test_an_id_that_nobody_uploaded(one):
    nothing = {"ranges": {"parts": 0, "have": []}, "returnpads": {"parts": 0, "have": []}, "sets": []}
    for ident in (debug_id(new_build_id()), new_build_id().hex(), new_id()[0]):
        assert listed(one, ident) == nothing


def test_a_claim_needs_the_right_to_upload(one):
    build_id = new_build_id()
    other = one.add_key("forgetter", "invalidate")
    one.daemon.reload()
    refused(one, upload(one, "ranges", new_id()[1], write(ranges("f")), key=other, BuildID=build_id.hex()), 403)
    assert named(one, debug_id(build_id)) is None


def test_without_a_store_nothing_is_asked_for(tmp_path):
    with Stack(keys=True) as s:
        build_id = new_build_id()
        before = s.node.metrics()['symbolicated_downloads_total{outcome="missing"}']
        for ident in (debug_id(build_id), build_id.hex().upper(), guid(build_id)):
            assert s.client.found(["prog", ident]) is False
        assert s.node.metrics()['symbolicated_downloads_total{outcome="missing"}'] == before + 10  # in two spellings, without an age or with 0 in four
        assert s.client.request("DELETE", f"/cache/prog/{new_id()[1]}", headers={"Authorization": s.key}).status == 400
        assert s.client.request("DELETE", f"/cache/prog/{debug_id(build_id)}", headers={"Authorization": s.key}).status == 200


@pytest.mark.slow
def test_a_store_that_fails_is_no_missing_module(tmp_path):
    os.makedirs(tmp_path / "store")
    with Stack(keys=True, config=store_config(tmp_path, bucket_retries="0")) as s:
        build_id = new_build_id()
        send(s, build_id)
        os.rename(tmp_path / "store", tmp_path / "away")
        s.client.post("/symbolicate/v5", job([["prog", debug_id(build_id)]], [[0, 0x1000]])).error(503)
        refused(s, s.client.get(f"/api/symbols/{build_id.hex()}", Authorization=s.key), 503)
        os.rename(tmp_path / "away", tmp_path / "store")
        wait_for(lambda: s.client.post("/symbolicate/v5", job([["prog", debug_id(build_id)]], [[0, 0x1000]])).status == 200, "the store to be asked again")
        assert named(s, debug_id(build_id)) == "f"


def test_an_upload_whose_claim_cannot_be_stored_stores_no_part(tmp_path):
    """So where a part is, its build id leads there: a second push completes the first."""
    place = tmp_path / "store" / "symbfiles"
    os.makedirs(place)
    with Stack(keys=True, config=store_config(tmp_path)) as s:
        both, build_id = new_id(), new_build_id()
        (place / "build-ids").write_text("in the way")
        reply = upload(s, "ranges", both[1], write(ranges("f")), BuildID=build_id.hex())
        refused(s, reply, 503)
        assert listed(s, both[1])["ranges"]["have"] == []
        os.unlink(place / "build-ids")
        send(s, build_id, ident=both)
        assert named(s, debug_id(build_id)) == "f"


# symbtool


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """{name: path} of a program with its own place in memory, and of one without."""
    place = tmp_path_factory.mktemp("programs")
    return {
        "pie": compile_program(place, "pie", 3, "-pie", "-fPIE", "-Wl,--build-id=sha1"),
        "fixed": compile_program(place, "fixed", 5, "-no-pie", "-Wl,--build-id=sha1"),
        "uuid": compile_program(place, "uuid", 7, "-no-pie", "-Wl,--build-id=uuid"),
    }


def address_of(program, symbol="main"):
    out = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    return next(int(line.split()[0], 16) for line in out.splitlines() if line.split()[-1] == symbol)


def ids_of(program):
    out = run("file-id", "--json", program).stdout
    return json.loads(out)


@pytest.mark.slow
@needs_symbtool
@pytest.mark.parametrize("name", ["pie", *(pytest.param(name, marks=pytest.mark.in_turn) for name in ("fixed", "uuid"))])
def test_a_program_is_pushed_once(store, programs, name, tmp_path):
    program = programs[name]
    base = 0 if name == "pie" else 0x400000
    own, main = ids_of(program), address_of(program)
    url = f"http://127.0.0.1:{store.node.nginx.port}"
    pushed = run("push-symbols", "--url", url, program, env={"SYMBTOOL_API_KEY": store.key})
    assert "sent 2" in pushed.stdout
    want = frames(store, own["hex"], [main])[0]
    assert want["function"] == "main" and want["line"] > 0
    for ident in (own["debug_id"], own["build_id"], own["debug_id"][:32]):
        got = frames(store, ident, [main - base])[0]
        assert {**got, "module_offset": want["module_offset"]} == want
        for module in (ident, f"some/{ident}"):
            said = run("symbolicate", "--url", url, module, hex(main - base)).stdout
            assert f"{name}.cpp:{want['line']}" in said
    # a stripped copy has another FileID, and the addresses of the whole one
    stripped = os.path.join(tmp_path, "stripped")
    subprocess.run(["strip", "-o", stripped, program], check=True)
    assert ids_of(stripped)["hex"] != own["hex"] and ids_of(stripped)["build_id"] == own["build_id"]
    for line in (run("symbolicate", "--url", url, stripped, hex(main)).stdout, run("symbolicate", "--url", url, program, hex(main)).stdout):
        assert f"+{main:#x}  main at " in line and f"{name}.cpp:{want['line']}" in line
    stacks = run("symbolicate", "--url", url, "--json", "-", stdin=f"{stripped}+{main:#x} {program}+{main:#x}\n{stripped}+{main + 1:#x}\n").stdout
    assert stacks.count('"function":"main"') == 3
    again = run("push-symbols", "--url", url, program, env={"SYMBTOOL_API_KEY": store.key})
    assert "2 already there" in again.stdout and "sent" not in again.stdout


@pytest.mark.slow
@needs_symbtool
def test_a_second_push_completes_what_has_no_build_id(store, tmp_path):
    """As after an upload by a symbtool that did not send it."""
    program = compile_program(str(tmp_path), "old", 11, "-Wl,--build-id=sha1")
    own, main = ids_of(program), address_of(program)
    url = f"http://127.0.0.1:{store.node.nginx.port}"
    run("push-symbols", "--url", url, program, env={"SYMBTOOL_API_KEY": store.key})
    build_id = bytes.fromhex(own["build_id"])
    shutil.rmtree(os.path.join(store.root, "symbfiles", "build-ids", min(build_id[:16].hex(), guid(build_id).lower())))
    assert store.client.request("DELETE", f"/cache/any/{own['build_id']}", headers={"Authorization": store.key}).status == 200
    assert named(store, own["debug_id"], main) is None
    again = run("push-symbols", "--url", url, program, env={"SYMBTOOL_API_KEY": store.key})
    assert "sent 1" in again.stdout and "1 already there" in again.stdout
    assert named(store, own["debug_id"], main) == "main"
