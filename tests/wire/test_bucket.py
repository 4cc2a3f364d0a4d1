# SPDX-License-Identifier: Apache-2.0
"""Buckets that misbehave in every way: what is answered, and for how long it is remembered."""

import gzip
import http.server
import json
import os
import ssl
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from client import job
from local_nginx import write_certificate
from stack import DAEMON, Stack, free_port, wait_for
from symbols import SAMPLE, SAMPLE_FRAMES, Symbols, debug_id, module_line, tiny

QUICK = {
    "bucket_connect_timeout": "10s",
    "bucket_stall_timeout": "2s",
    "bucket_total_timeout": "300s",
    "failure_ttl_min": "100ms",
    "failure_ttl_max": "500ms",
}

# A transfer that stands still goes on doing so.
STANDS_STILL = {**QUICK, "bucket_stall_timeout": "300s"}

# Counted up for every module, so that nothing that one test left behind can answer another.
fresh_numbers = iter(range(1_000_000))


def fresh(stack, body=SAMPLE, bucket=0, compress=False, **options):
    """A module that nobody has asked for yet."""
    return stack.buckets[bucket].symbols.add(f"fresh{next(fresh_numbers)}.so", body, compress=compress, **options)


@pytest.fixture(scope="module")
def one():
    with Stack(config=STANDS_STILL) as s:
        yield s


@pytest.fixture(scope="module")
def impatient():
    """For buckets that stand still until they are given up."""
    with Stack(config=QUICK) as s:
        yield s


@pytest.fixture(scope="module")
def two():
    with Stack(symbols=[None, None], config=STANDS_STILL) as s:
        yield s


@pytest.fixture(scope="module")
def impatient_two():
    with Stack(symbols=[None, None], config={**QUICK, "bucket_stall_timeout": "5s"}) as s:
        yield s


@pytest.fixture(autouse=True)
def well_behaved(request):
    yield
    for name in ("one", "impatient", "two", "impatient_two"):
        if name in request.fixturenames:
            for bucket in request.getfixturevalue(name).buckets:
                bucket.reset()


def ask(stack, *modules, offset=0x1000):
    return stack.client.post("/symbolicate/v5", job(modules, [[i, offset] for i in range(len(modules))]))


def is_unavailable(reply):
    reply.error(503)
    assert int(reply.headers["Retry-After"]) >= 1


def is_found(reply, module, offset=0x1000):
    result = reply.json()["results"][0]
    assert reply.status == 200 and result["found_modules"]["/".join(module)] is True, reply
    want = {"frame": 0, "module": module[0], "module_offset": hex(offset), **SAMPLE_FRAMES[offset]}
    assert result["stacks"][0][0] == want


def is_missing(reply, module):
    assert reply.status == 200, reply
    assert reply.json()["results"][0]["found_modules"]["/".join(module)] is False


# One source

EITHER = [False, pytest.param(True, marks=pytest.mark.in_turn)]  # of plain and gzip
MISSING = ["status:404", "status:410", "status:400", "status:414", "status:451", "status:403"]
TEMPORARY = [
    "status:500", "status:502", "status:503", "status:504", "status:429", "status:401", "status:408", "status:418",
    "refuse", "stall", "drip", "reset", "cut:0", "cut:1", "cut:100", "short-length:1", "short-length:100000", "chunked-cut:0",
    "chunked-cut:100", "redirect-loop",
]  # fmt: skip


@pytest.mark.parametrize("compress", EITHER, ids=["plain", "gzip"])
@pytest.mark.parametrize("mode", ["ok", "chunked", "no-length", "slow:0.3"])
def test_whole_transfers(one, mode, compress):
    module = fresh(one, compress=compress)
    one.bucket.misbehave(module, mode)
    is_found(ask(one, module, offset=0x1014), module, 0x1014)


@pytest.mark.parametrize("mode", MISSING)
def test_missing(one, mode):
    module = fresh(one)
    one.bucket.misbehave(module, mode)
    is_missing(ask(one, module), module)
    is_missing(ask(one, module), module)
    assert one.bucket.hits(module) == 2  # for the id as it is, and in lower case


@pytest.mark.slow
@pytest.mark.parametrize("compress", EITHER, ids=["plain", "gzip"])
@pytest.mark.parametrize("mode", TEMPORARY)
def test_temporary(request, mode, compress):
    one = request.getfixturevalue("impatient" if mode in ("stall", "drip") else "one")
    # long enough that a dripping or stalling bucket can't finish it
    module = fresh(one, SAMPLE + "STACK CFI INIT 1000 10 .cfa: $rsp 8 +\n" * 200, compress=compress)
    one.bucket.misbehave(module, mode)
    is_unavailable(ask(one, module))
    one.bucket.reset()
    # It is had again once the failure is forgotten.
    wait_for(lambda: ask(one, module).status == 200, "the module after its bucket was mended", pause=0.1)
    is_found(ask(one, module), module)


@pytest.mark.slow
def test_a_stall_is_seen_however_much_came_before(impatient):
    """The mean speed of the last seconds stays high for a while when a megabyte had come."""
    module = fresh(impatient, SAMPLE + "STACK CFI INIT 1000 10 .cfa: $rsp 8 +\n" * 50_000)
    impatient.bucket.misbehave(module, "stall")
    is_unavailable(ask(impatient, module))
    assert any(module[0] in str(line) and "has stalled" in str(line) for line in impatient.daemon.log_lines())


@pytest.mark.parametrize("compress", EITHER, ids=["plain", "gzip"])
@pytest.mark.parametrize("cut", [1, 80, 300])
def test_a_cut_body_without_length(one, compress, cut):
    """Nothing in HTTP tells that it is cut: a plain file is whole only when its last line ends, gzip when its trailer fits."""
    body = SAMPLE + "x" * 400
    module = fresh(one, body, compress=compress)
    if compress:
        one.bucket.misbehave(module, f"no-length-cut:{cut}")
    else:
        text = module_line(*module) + body.encode()
        assert text[cut - 1 : cut] != b"\n"
        one.bucket.misbehave(module, f"no-length-cut:{cut}")
    is_unavailable(ask(one, module))


def test_an_unended_last_line_without_length_is_a_cut(one):
    module = fresh(one, SAMPLE.rstrip("\n"))
    one.bucket.misbehave(module, "no-length")
    is_unavailable(ask(one, module))


@pytest.mark.parametrize("mode", ["ok", "chunked"])
def test_an_unended_last_line_with_length_is_whole(one, mode):
    module = fresh(one, SAMPLE.rstrip("\n"))
    one.bucket.misbehave(module, mode)
    is_found(ask(one, module), module)
    assert one.client.frames(module, [0x5000])[0]["function"] == "last"


def test_an_unended_last_line_in_gzip_without_length_is_whole(one):
    module = fresh(one, SAMPLE.rstrip("\n"), compress=True)
    one.bucket.misbehave(module, "no-length")
    is_found(ask(one, module), module)


def test_bad_gzip_is_corrupt(one):
    module = fresh(one, SAMPLE + "STACK CFI 1000 .cfa: $rsp 8 +\n" * 100, compress=True)
    one.bucket.misbehave(module, "bad-gzip")
    is_missing(ask(one, module), module)


def cut_in_place(path):
    """The file without its last bytes, as a copy that a full disk ended."""
    os.truncate(path, os.path.getsize(path) - 20)


@pytest.mark.parametrize("mode", ["ok", "chunked"])
def test_a_file_that_is_broken_where_it_is_stored_is_corrupt(one, mode):
    """It takes nothing from the good ones beside it, and is not asked for again."""
    module, good = fresh(one, SAMPLE, compress=True), fresh(one)
    cut_in_place(one.symbols.path(*module))
    one.bucket.misbehave(module, mode)
    for _ in range(3):
        reply = ask(one, module, good)
        assert reply.status == 200, reply
        assert reply.json()["results"][0]["found_modules"] == {"/".join(module): False, "/".join(good): True}
    assert one.bucket.hits(module) == 1


def test_a_broken_file_of_which_nobody_knows_the_length_may_have_been_cut(one):
    module = fresh(one, SAMPLE, compress=True)
    cut_in_place(one.symbols.path(*module))
    one.bucket.misbehave(module, "no-length")
    is_unavailable(ask(one, module))


def test_zeros_behind_gzip_are_padding(one):
    module = fresh(one, SAMPLE, compress=True)
    with open(one.symbols.path(*module), "ab") as out:
        out.write(bytes(512))
    is_found(ask(one, module), module)


@pytest.mark.parametrize("behind", [b"junk", bytes(7) + b"junk"])
def test_bytes_behind_gzip_are_ignored_with_a_warning(one, behind):
    """As gzip(1) does. What begins like gzip must be some."""
    module = fresh(one, SAMPLE, compress=True)
    with open(one.symbols.path(*module), "ab") as out:
        out.write(behind)
    is_found(ask(one, module), module)
    wait_for(lambda: any(line["event"] == "trailing bytes" and module[0] in line["text"] for line in one.daemon.log_lines()), "a warning")
    bad = fresh(one, SAMPLE, compress=True)
    with open(one.symbols.path(*bad), "ab") as out:
        out.write(b"\x1f\x8bjunk")
    is_missing(ask(one, bad), bad)


def test_junk_is_corrupt(one):
    module = fresh(one)
    one.bucket.misbehave(module, "junk")
    is_missing(ask(one, module), module)
    one.bucket.control("ok", module[0] + "/")
    is_missing(ask(one, module), module)  # an hour long
    assert one.bucket.hits(module) == 1


@pytest.mark.slow
def test_retry_after_is_what_the_failure_is_remembered_for():
    """Rounded up: who waits that long is not answered from memory."""
    config = {**QUICK, "failure_ttl_min": "2500ms", "failure_ttl_max": "2500ms"}
    with Stack(config=config) as s:
        module = s.symbols.add("later.so", SAMPLE)
        s.bucket.control("status:500")
        reply = ask(s, module)
        failed = time.monotonic()
        is_unavailable(reply)
        assert int(reply.headers["Retry-After"]) == 3, "of the request whose load failed"
        s.bucket.reset()
        reply = ask(s, module)
        if reply.status == 503:  # on a busy machine it may be over already
            assert 1 <= int(reply.headers["Retry-After"]) <= 3
            time.sleep(max(0, failed + int(reply.headers["Retry-After"]) - time.monotonic()))
            reply = ask(s, module)
        is_found(reply, module)


CORRUPT_FILES = {
    "other id": lambda name, ident: module_line(name, debug_id("other")) + tiny().encode(),
    "empty": lambda name, ident: b"",
    "no MODULE": lambda name, ident: tiny().encode(),
    "MODULE later": lambda name, ident: b"INFO x\n" + module_line(name, ident) + tiny().encode(),
    "no record": lambda name, ident: module_line(name, ident) + b"FILE 0 a.c\nSTACK CFI INIT 1000 10 .cfa: $rsp 8 +\n",
    "binary": lambda name, ident: bytes(range(256)) * 50,
    "elf": lambda name, ident: b"\x7fELF" + b"\0" * 1000,
    "id only": lambda name, ident: b"MODULE Linux x86_64 " + ident.encode()[:20] + b" x\n" + tiny().encode(),
    "half a MODULE line": lambda name, ident: b"MODULE Linux x86_64",
}


@pytest.mark.parametrize("compress", EITHER, ids=["plain", "gzip"])
@pytest.mark.parametrize("kind", CORRUPT_FILES)
def test_corrupt_files(one, kind, compress):
    name = f"corrupt{next(fresh_numbers)}.so"
    module = [name, debug_id(name)]
    one.symbols.put(*module, CORRUPT_FILES[kind](*module), compress)
    before = one.node.metrics()['symbolicated_downloads_total{outcome="corrupt"}']
    is_missing(ask(one, module), module)
    is_missing(ask(one, module), module)
    assert one.bucket.hits(module) == 1
    assert one.node.metrics()['symbolicated_downloads_total{outcome="corrupt"}'] == before + 1


@pytest.mark.parametrize("kind", CORRUPT_FILES)
def test_a_good_file_behind_a_corrupt_one_is_found(two, kind):
    name = f"behind{next(fresh_numbers)}.so"
    module = [name, debug_id(name)]
    two.buckets[0].symbols.put(*module, CORRUPT_FILES[kind](*module))
    two.buckets[1].symbols.put(*module, module_line(*module) + SAMPLE.encode())
    is_found(ask(two, module), module)
    assert [b.hits(module) for b in two.buckets] == [1, 1]
    assert any(line["event"] == "corrupt" and name in line["text"] for line in two.daemon.log_lines())


def test_a_corrupt_file_is_told_if_no_later_source_has_a_good_one(two):
    """For as long as corrupt files are remembered; unless a later source, which may have one, cannot be asked."""
    corrupt, unknown = fresh(two), fresh(two)
    for module in (corrupt, unknown):
        two.buckets[0].symbols.put(*module, b"")
    two.buckets[1].misbehave(unknown, "status:500")
    before = two.node.metrics()['symbolicated_downloads_total{outcome="corrupt"}']
    for _ in range(2):
        is_missing(ask(two, corrupt), corrupt)
    assert two.buckets[0].hits(corrupt) == 1
    is_unavailable(ask(two, unknown))
    assert two.node.metrics()['symbolicated_downloads_total{outcome="corrupt"}'] == before + 2


def test_a_module_line_in_the_other_case_is_right(one):
    name = f"cased{next(fresh_numbers)}.so"
    ident = debug_id(name)
    one.symbols.put(name, ident, module_line(name, ident.lower()) + SAMPLE.encode())
    is_found(ask(one, [name, ident]), [name, ident])


def test_the_module_lines_name_is_not_compared(one):
    name = f"renamed{next(fresh_numbers)}.so"
    one.symbols.put(name, debug_id(name), module_line("other name.so", debug_id(name)) + SAMPLE.encode())
    is_found(ask(one, [name, debug_id(name)]), [name, debug_id(name)])


def test_a_larger_file_in_many_members(one):
    module = fresh(one, compress=True)
    text = module_line(*module) + SAMPLE.encode()
    cuts = [text[i : i + 97] for i in range(0, len(text), 97)]
    path = one.symbols.path(*module)
    with open(path, "wb") as out:
        out.writelines(gzip.compress(c) for c in cuts)
    is_found(ask(one, module, offset=0x1014), module, 0x1014)


def test_gzip_that_no_header_tells_of():
    with Stack(gzip_header=False, config=QUICK) as s:
        module = fresh(s, compress=True)
        is_found(ask(s, module, offset=0x1014), module, 0x1014)


def test_gzip_in_gzip(one):
    """Stored as gzip and compressed once more on the way."""
    name = f"twice{next(fresh_numbers)}.so"
    module = [name, debug_id(name)]
    one.symbols.put(*module, gzip.compress(module_line(*module) + SAMPLE.encode()), compress=True)
    is_found(ask(one, module, offset=0x1014), module, 0x1014)


def zstd(data, *options):
    """As the real program packs it."""
    return subprocess.run(["zstd", "-q", "-c", *options], input=data, stdout=subprocess.PIPE, check=True).stdout


ZSTD = {
    "plain": lambda text: zstd(text),
    "slow": lambda text: zstd(text, "-19"),
    "large window": lambda text: zstd(text, "--long=27"),
    "ultra": lambda text: zstd(text, "--ultra", "-22"),
    "frames": lambda text: b"".join(zstd(text[i : i + 97]) for i in range(0, len(text), 97)),
    "in gzip": lambda text: gzip.compress(zstd(text)),
    "of gzip": lambda text: zstd(gzip.compress(text)),
}


@pytest.mark.parametrize("kind", [kind if kind == "in gzip" else pytest.param(kind, marks=pytest.mark.in_turn) for kind in ZSTD])
def test_zstd(one, kind):
    module = fresh(one)
    with open(one.symbols.path(*module), "rb") as plain:
        text = plain.read()
    one.symbols.put(*module, ZSTD[kind](text))
    is_found(ask(one, module, offset=0x1014), module, 0x1014)


@pytest.mark.in_turn
@pytest.mark.parametrize("mode", ["ok", "chunked", "no-length"])
def test_a_zstd_frame_tells_where_it_ends(one, mode):
    module = fresh(one)
    with open(one.symbols.path(*module), "rb") as plain:
        packed = zstd(plain.read().rstrip(b"\n"))
    one.symbols.put(*module, packed)
    one.bucket.misbehave(module, mode)
    is_found(ask(one, module), module)


DAMAGED_ZSTD = {
    "cut": lambda text: zstd(text)[:-3],
    "junk behind": lambda text: zstd(text) + b"junk",
    "changed": lambda text: zstd(text)[:-1] + b"?",
    "huge window": lambda text: zstd(text, "--long=30"),
    "in zstd in zstd": lambda text: zstd(zstd(zstd(text))),
}


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", DAMAGED_ZSTD)
def test_damaged_zstd_is_corrupt(one, kind):
    module = fresh(one)
    with open(one.symbols.path(*module), "rb") as plain:
        text = plain.read()
    one.symbols.put(*module, DAMAGED_ZSTD[kind](text))
    is_missing(ask(one, module), module)
    assert one.bucket.hits(module) == 1
    is_missing(ask(one, module), module)
    assert one.bucket.hits(module) == 1


def test_a_source_in_the_layout_of_symstore(tmp_path):
    name = "xul.pdb"
    ident = debug_id(name)
    Symbols(tmp_path / "xu").put(name, ident, zstd(module_line(name, ident) + SAMPLE.encode()))
    with Stack(bucket=False, config={**QUICK, "source": f"file://{tmp_path}#symstore"}) as s:
        is_found(ask(s, [name, ident]), [name, ident])
        is_missing(ask(s, ["..a", ident]), ["..a", ident])


def test_one_temporary_failure_fails_the_request(one):
    good, bad = fresh(one), fresh(one)
    one.bucket.misbehave(bad, "status:503")
    is_unavailable(ask(one, good, bad))
    is_found(ask(one, good), good)


def test_missing_and_corrupt_cost_nobody_else(one):
    good, bad, gone = fresh(one), fresh(one), ["gone.so", debug_id("gone.so")]
    one.bucket.misbehave(bad, "junk")
    reply = ask(one, good, bad, gone)
    is_found(reply, good)
    is_missing(reply, bad)
    is_missing(reply, gone)


def test_a_module_that_no_frame_refers_to_is_not_fetched(one):
    good, bad = fresh(one), fresh(one)
    one.bucket.misbehave(bad, "status:503")
    reply = one.client.post("/symbolicate/v5", job([good, bad], [[0, 0x1000]]))
    is_found(reply, good)
    assert one.bucket.hits(bad) == 0


def test_v4_is_answered_503_too(one):
    module = fresh(one)
    one.bucket.misbehave(module, "status:503")
    is_unavailable(one.client.post("/symbolicate/v4", job([module], [[0, 0x1000]])))


def test_credentials_are_sent_and_never_shown():
    with Stack(auth="reader:verysecret", config=QUICK) as s:
        module = fresh(s)
        is_found(ask(s, module), module)
        gone = ["gone.so", debug_id("gone.so")]
        is_missing(ask(s, gone), gone)
        broken = s.symbols.add("broken.so", SAMPLE, compress=True)
        cut_in_place(s.symbols.path(*broken))
        is_missing(ask(s, broken), broken)
        # Who has credentials is told 403 for a reason that may pass.
        for status in (403, 503):
            s.bucket.control(f"status:{status}")
            reply = ask(s, fresh(s))
            is_unavailable(reply)
            assert b"verysecret" not in reply.raw
        assert "verysecret" not in s.client.get("/__heartbeat__").text + s.client.get("/__metrics__").text
        with open(s.daemon.log, encoding="utf-8") as log:
            assert "verysecret" not in log.read()


# Redirects


@pytest.mark.slow
@pytest.mark.parametrize("allowed", ["no", "yes"])
def test_a_redirect_to_a_local_address(allowed):
    """Followed only where the settings say so: a bucket must not lead the server to what stands beside it."""
    config = {**QUICK, "bucket_allow_local_redirects": allowed}
    with Stack(symbols=[None, None], sources=1, config=config) as s:
        first, second = s.buckets
        module = fresh(s, bucket=1)
        first.misbehave(module, "redirect:" + second.url)
        reply = ask(s, module)
        if allowed == "yes":
            is_found(reply, module)
            assert (first.hits(module), second.hits(module)) == (1, 1)
        else:
            assert reply.status == 503 or reply.json()["results"][0]["found_modules"]["/".join(module)] is False
            assert second.hits(module) == 0


@pytest.mark.in_turn
@pytest.mark.parametrize("scheme", ["file", "ftp", "gopher", "dict"])
def test_a_redirect_to_another_scheme_is_refused(scheme):
    with Stack(config={**QUICK, "bucket_allow_local_redirects": "yes"}) as s:
        module = fresh(s)
        place = s.symbols.directory if scheme == "file" else s.bucket.url.split("//")[1].rstrip("/")
        s.bucket.misbehave(module, f"redirect:{scheme}://{place}/")
        reply = ask(s, module)
        assert reply.status == 503 or reply.json()["results"][0]["found_modules"]["/".join(module)] is False
        assert b"main" not in reply.raw


# Two sources


@pytest.mark.slow
@pytest.mark.parametrize("first", ["status:404", "status:403", "status:503", "refuse", "cut:50", "stall", "redirect-loop"])
def test_the_second_source_answers_where_the_first_does_not(request, first):
    two = request.getfixturevalue("impatient_two" if first == "stall" else "two")
    module = fresh(two, bucket=1)
    two.buckets[0].symbols.add(module[0], tiny("of the first"))
    two.buckets[0].misbehave(module, first)
    is_found(ask(two, module), module)
    hits = [b.hits(module) for b in two.buckets]
    is_found(ask(two, module), module)
    assert [b.hits(module) for b in two.buckets] == hits and hits[1] == 1


def test_the_first_source_that_has_it_wins(two):
    module = fresh(two, bucket=0)
    two.buckets[1].symbols.add(module[0], tiny("of the second"))
    is_found(ask(two, module), module)
    assert [b.hits(module) for b in two.buckets] == [1, 0]


@pytest.mark.parametrize("modes", [("status:404", "status:503"), ("status:503", "status:404"), ("refuse", "status:500")])
def test_a_temporary_failure_counts_when_no_source_has_it(two, modes):
    module = fresh(two)
    for bucket, mode in zip(two.buckets, modes):
        bucket.misbehave(module, mode)
    is_unavailable(ask(two, module))


def test_missing_everywhere(two):
    module = ["nowhere.so", debug_id("nowhere.so")]
    is_missing(ask(two, module), module)
    is_missing(ask(two, module), module)
    assert [b.hits(module) for b in two.buckets] == [2, 2]


def test_a_closed_port_as_first_source():
    port = free_port()
    with Stack(config=QUICK, before=[f"http://127.0.0.1:{port}/"]) as s:
        module = fresh(s)
        is_found(ask(s, module), module)
        gone = ["gone.so", debug_id("gone.so")]
        is_unavailable(ask(s, gone))


def test_a_base_path_in_the_source(one):
    with Stack(bucket=False, config={**QUICK, "source": one.bucket.url + "some/base/v1/"}) as s:
        module = ["based.so", debug_id("based.so")]
        one.bucket.reset()
        is_missing(ask(s, module), module)
        assert one.bucket.paths() == {f"/some/base/v1/based.so/{spelled}/based.so.sym": 1 for spelled in (module[1], module[1].lower())}


def test_a_folder_as_source(tmp_path):
    symbols = Symbols(str(tmp_path / "a folder"))
    module = symbols.add("é [x].pdb", SAMPLE)
    packed = symbols.add("packed.so", SAMPLE, compress=True)
    with Stack(bucket=False, config={"source": f"file://{tmp_path}/a%20folder/"}) as s:
        is_found(ask(s, module), module)
        is_found(ask(s, packed), packed)
        gone = ["gone.so", debug_id("gone.so")]
        is_missing(ask(s, gone), gone)
        is_missing(ask(s, ["..", gone[1]]), ["..", gone[1]])


# The memory of failures


@pytest.mark.slow
def test_missing_is_asked_again_after_its_time():
    with Stack(config={**QUICK, "missing_ttl": "1s"}) as s:
        module = ["late.so", debug_id("late.so")]
        started = time.monotonic()
        is_missing(ask(s, module), module)
        s.symbols.add(*module[:1], SAMPLE, module[1])
        wait_for(lambda: s.client.found(module), "the file that came late", pause=0.05)
        assert time.monotonic() - started >= 1
        assert s.bucket.hits(module) == 3  # at first in lower case, too


@pytest.mark.slow
def test_corrupt_is_asked_again_after_its_time():
    with Stack(config={**QUICK, "corrupt_ttl": "1s"}) as s:
        module = s.symbols.add("mended.so", "")
        is_missing(ask(s, module), module)
        s.symbols.add(module[0], SAMPLE)
        wait_for(lambda: s.client.found(module), "the file that was mended", pause=0.05)
        assert s.bucket.hits(module) == 2


@pytest.mark.parametrize("seen_by", ["another module", "one of them"])
def test_a_source_that_served_junk_is_asked_again_once_it_is_mended(seen_by):
    """Its modules stayed `false` for corrupt_ttl, an hour."""
    with Stack(config={**QUICK, "failure_ttl_max": "300s" if seen_by == "another module" else "200ms"}) as s:
        modules = [s.symbols.add(f"login{i}.so", SAMPLE) for i in range(6)]
        s.bucket.control("junk")
        for module in modules:
            is_missing(ask(s, module), module)
        hits = s.bucket.hits()
        s.bucket.control("ok")
        if seen_by == "another module":
            for module in modules:
                is_missing(ask(s, module), module)
            assert s.bucket.hits() == hits
            other = s.symbols.add("other.so", SAMPLE)
            is_found(ask(s, other), other)
        else:
            wait_for(lambda: s.client.found(modules[0]), "the module to be found", pause=0.02)
        for module in modules:
            is_found(ask(s, module), module)


def test_one_corrupt_file_among_good_ones_is_remembered(one):
    module = fresh(one)
    one.bucket.misbehave(module, "junk")
    is_missing(ask(one, module), module)
    for _ in range(3):
        good = fresh(one)
        is_found(ask(one, good), good)
        is_missing(ask(one, module), module)
    assert one.bucket.hits(module) == 1


@pytest.mark.slow
def test_one_request_probes_a_failing_bucket():
    with Stack(config={**QUICK, "failure_ttl_min": "2s", "failure_ttl_max": "2s"}) as s:
        module = s.symbols.add("failing.so", SAMPLE)
        s.bucket.misbehave(module, "status:503")
        started = time.monotonic()
        is_unavailable(ask(s, module))
        for _ in range(5):
            is_unavailable(ask(s, module))
        if time.monotonic() - started < 1.5:
            assert s.bucket.hits(module) == 1

        def probed():
            reply = ask(s, module)
            is_unavailable(reply)
            return s.bucket.hits(module) > 1

        wait_for(probed, "a probe", pause=0.05)
        assert time.monotonic() - started >= 2
        # Many at once, while the probe takes a second to fail: still one.
        s.bucket.misbehave(module, "stall")
        seen, end = s.bucket.hits(module), time.monotonic() + 20
        with ThreadPoolExecutor(8) as pool:
            while s.bucket.hits(module) == seen and time.monotonic() < end:
                started = time.monotonic()
                for reply in pool.map(lambda _: ask(s, module), range(8)):
                    is_unavailable(reply)
        # Another only once the probe took its two seconds to fail, and the failure lasted two: a busy machine may take that long.
        assert 1 <= s.bucket.hits(module) - seen <= 1 + int((time.monotonic() - started) / 4)
        s.bucket.reset()
        wait_for(lambda: ask(s, module).status == 200, "the mended bucket", pause=0.05)
        is_found(ask(s, module), module)


@pytest.mark.slow
def test_the_time_of_a_failure_doubles():
    with Stack(config={**QUICK, "failure_ttl_min": "500ms", "failure_ttl_max": "4s"}) as s:
        module = s.symbols.add("doubling.so", SAMPLE)
        s.bucket.misbehave(module, "status:500")
        tries = []  # before and after each

        def counted():
            before = time.monotonic()
            is_unavailable(ask(s, module))
            if s.bucket.hits(module) > len(tries):
                tries.append((before, time.monotonic()))
            return len(tries) == 4

        wait_for(counted, "four tries", pause=0.02)
        gaps = [b[1] - a[0] for a, b in zip(tries, tries[1:])]
        assert gaps[0] >= 0.5 and gaps[1] >= 1 and gaps[2] >= 2, gaps


def test_retries_hide_a_short_failure():
    with Stack(config={**QUICK, "bucket_retries": "2"}) as s:
        module = s.symbols.add("flaky.so", SAMPLE)
        s.bucket.misbehave(module, "status:503", times=1)
        is_found(ask(s, module), module)
        assert s.bucket.hits(module) == 2


def test_too_large_an_object():
    with Stack(config={**QUICK, "bucket_max_size": "1M"}) as s:
        for name, compress in (("big.so", False), ("big-packed.so", True)):
            body = SAMPLE + "STACK CFI 1000 .cfa: $rsp 8 +\n" * 50_000
            module = s.symbols.add(name, body, compress=compress)
            is_missing(ask(s, module), module)
            is_missing(ask(s, module), module)
            assert s.bucket.hits(module) == 1
        small = s.symbols.add("small.so", SAMPLE)
        is_found(ask(s, small), small)


# A slow bucket and the rest of the service


@pytest.mark.slow
def test_warm_requests_do_not_wait_for_a_slow_bucket():
    with Stack(config={**STANDS_STILL, "workers": "2"}) as s:
        warm = fresh(s)
        is_found(ask(s, warm), warm)
        slow = [fresh(s) for _ in range(12)]
        for module in slow:
            s.bucket.misbehave(module, "stall")
        with ThreadPoolExecutor(len(slow)) as pool:
            cold = [pool.submit(ask, s, module) for module in slow]
            wait_for(lambda: s.bucket.hits() > 1, "the slow bucket to be asked")
            for _ in range(50):
                is_found(ask(s, warm), warm)
            assert not any(c.done() for c in cold)
            s.bucket.kill()
            for future in cold:
                is_unavailable(future.result())


@pytest.mark.slow
def test_too_many_cold_requests_are_told_to_come_back():
    config = {**STANDS_STILL, "cold_requests": "2", "cold_queue": "1", "cold_wait": "300ms"}
    with Stack(config=config) as s:
        modules = [fresh(s) for _ in range(8)]
        s.bucket.control("hold")
        with ThreadPoolExecutor(8) as pool:
            replies = [pool.submit(ask, s, m) for m in modules]
            wait_for(lambda: sum(r.done() for r in replies) == 6, "all but two to be refused")
            s.bucket.control("ok")
            statuses = sorted(r.result().status for r in replies)
        assert statuses == [200] * 2 + [503] * 6
        for reply in replies:
            if reply.result().status == 503:
                is_unavailable(reply.result())
        for module in modules:
            wait_for(lambda m=module: ask(s, m).status == 200, "each of them later", pause=0.1)


@pytest.mark.slow
def test_waiting_for_a_load_that_runs_needs_no_place():
    config = {**STANDS_STILL, "cold_requests": "1", "cold_queue": "1", "cold_wait": "300ms"}
    with Stack(config=config) as s:
        module = fresh(s)
        s.bucket.misbehave(module, "slow:2")
        # of the eight that may wait in all, three quarters are for one client
        with ThreadPoolExecutor(6) as pool:
            for reply in pool.map(lambda _: ask(s, module), range(6)):
                is_found(reply, module)
        assert s.bucket.hits(module) == 1


def cold_requests(stack):
    """How many have a place, and how many wait for one."""
    m = stack.node.metrics()
    return m['symbolicated_turnstile_inside{for="loads"}'], m['symbolicated_turnstile_waiting{for="loads"}']


def test_who_waits_for_a_place_gets_what_others_have_loaded():
    """One place: the first in the line takes it, loads what the others want, and keeps it for another module."""
    config = {**STANDS_STILL, "cold_requests": "1", "cold_wait": "300s", "request_timeout": "300s"}
    with Stack(symbols=[None, None], config=config) as s:
        wanted, also, stalled, last = fresh(s), fresh(s), fresh(s), fresh(s, bucket=1)
        s.bucket.misbehave(stalled, "stall")
        s.buckets[1].misbehave(last, "stall")
        with ThreadPoolExecutor(4) as pool:
            holder = pool.submit(ask, s, last)
            wait_for(lambda: cold_requests(s) == (1, 0), "the place to be taken")
            all_three = pool.submit(ask, s, wanted, also, stalled)
            wait_for(lambda: cold_requests(s) == (1, 1), "the first in the line")
            one, two = pool.submit(ask, s, wanted), pool.submit(ask, s, wanted, also)
            wait_for(lambda: cold_requests(s) == (1, 3), "the others in the line")
            s.buckets[1].kill()
            is_unavailable(holder.result())
            is_found(one.result(timeout=60), wanted)  # long before cold_wait is over
            is_found(two.result(timeout=60), wanted)
            assert not all_three.done()
            s.bucket.kill()
            is_unavailable(all_three.result())


def test_who_waits_for_a_place_is_refused_with_what_others_could_not_load():
    """It would be refused in the end, so nothing more is loaded for it."""
    config = {**STANDS_STILL, "cold_requests": "1", "cold_wait": "60s", "failure_ttl_min": "60s", "failure_ttl_max": "60s"}
    with Stack(symbols=[None, None], config=config) as s:
        stalled, other = fresh(s), fresh(s)
        s.bucket.misbehave(stalled, "stall")
        with ThreadPoolExecutor(2) as pool:
            holder = pool.submit(ask, s, stalled)
            wait_for(lambda: cold_requests(s) == (1, 0), "the place to be taken")
            both = pool.submit(ask, s, stalled, other)
            wait_for(lambda: cold_requests(s) == (1, 1), "another in the line")
            s.bucket.kill()
            is_unavailable(holder.result())
            is_unavailable(both.result())
        assert s.buckets[1].hits(stalled) == 1
        assert s.buckets[1].hits(other) == 0


@pytest.mark.slow
def test_who_went_away_gives_his_place_back():
    """Who loads and who waits for a place: nobody is there any more, and the bucket stands still."""
    config = {**STANDS_STILL, "cold_requests": "2", "cold_queue": "1", "cold_wait": "300s", "request_timeout": "300s"}
    with Stack(symbols=[None, None], config=config) as s:
        stalled, quick = [fresh(s) for _ in range(3)], fresh(s, bucket=1)
        for module in stalled:
            s.bucket.misbehave(module, "stall")
        with ThreadPoolExecutor(1) as pool:
            stays = pool.submit(ask, s, stalled[0])
            wait_for(lambda: cold_requests(s) == (1, 0), "who stays")
            connections = [s.client.connect() for _ in range(2)]
            for connection, module in zip(connections, stalled[1:]):
                connection.request("POST", "/symbolicate/v5", json.dumps(job([module], [[0, 0x1000]])))
            wait_for(lambda: cold_requests(s) == (2, 1), "one at the second place, one in the line")
            is_unavailable(ask(s, quick))
            for connection in connections:
                connection.close()
            wait_for(lambda: cold_requests(s) == (1, 0), "the places of who went away to be free")
            # they are no failures of the service
            wait_for(lambda: s.node.metrics()['symbolicated_requests_total{route="v5",status="499"}'] == 2, "both to be counted")
            wait_for(lambda: [line["status"] for line in s.daemon.log_lines() if "went away" in line.get("error", "")] == [499, 499], "their lines")
            is_found(ask(s, quick), quick)
            assert not stays.done()
            s.bucket.kill()
            is_unavailable(stays.result())


def test_cold_modules_of_one_request_are_bounded():
    with Stack(config={**QUICK, "cold_modules": "10"}) as s:
        modules = [fresh(s) for _ in range(25)]
        replies = []

        def done():
            replies.append(ask(s, *modules))
            return replies[-1].status == 200

        wait_for(done, "the work of refused requests to add up", pause=0.05)
        is_unavailable(replies[0])
        assert set(replies[-1].json()["results"][0]["found_modules"].values()) == {True}
        assert s.bucket.hits() == 25


def test_modules_of_one_request_load_side_by_side():
    with Stack(config=STANDS_STILL) as s:
        modules = [fresh(s) for _ in range(6)]
        s.bucket.control("stall")
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ask, s, *modules)
            wait_for(lambda: s.bucket.hits() == 6, "all to be asked for")
            s.bucket.kill()
            is_unavailable(asked.result())


@pytest.mark.slow
def test_a_transfer_cap_holds():
    config = {"bucket_parallel": "2", "bucket_parallel_request": "1"}
    with Stack(config=config) as s:
        modules = [fresh(s) for _ in range(4)]
        s.bucket.control("slow:0.4")
        started = time.monotonic()
        assert ask(s, *modules).status == 200
        assert time.monotonic() - started > 4 * 0.4 * 0.9


@pytest.mark.slow
def test_what_nobody_waits_for_any_more_is_not_loaded():
    config = {**STANDS_STILL, "request_timeout": "2s", "bucket_parallel_request": "3"}
    with Stack(config=config) as s:
        modules = [fresh(s) for _ in range(200)]
        for module in modules:
            s.bucket.misbehave(module, "stall")
        is_unavailable(ask(s, *modules))
        wait_for(lambda: s.node.metrics()["symbolicated_loads_in_flight"] <= 3, "what was queued to be dropped")
        s.daemon.write_config(request_timeout="60s")
        s.daemon.reload()
        other = fresh(s)
        is_found(ask(s, other), other)
        assert s.bucket.hits() <= 4


@pytest.mark.slow
def test_what_another_request_waits_for_is_loaded():
    """The first gives up; the second, which has joined a load that was still queued, does not."""
    with Stack(config={**STANDS_STILL, "request_timeout": "5s", "bucket_parallel_request": "1"}) as s:
        stalled, shared = fresh(s), fresh(s)
        s.bucket.misbehave(stalled, "stall")
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(ask, s, stalled, shared)
            wait_for(lambda: s.bucket.hits(stalled) == 1, "the first to load")
            wait_for(lambda: s.node.metrics()["symbolicated_loads_in_flight"] == 2, "its second load to be queued")
            s.daemon.write_config(request_timeout="60s")
            s.daemon.reload()
            is_found(ask(s, shared), shared)
            is_unavailable(first.result())


@pytest.mark.slow
def test_requests_load_in_turn():
    with Stack(config={**STANDS_STILL, "bucket_parallel": "1", "bucket_parallel_request": "1"}) as s:
        many, single = [fresh(s) for _ in range(20)], fresh(s)
        s.bucket.misbehave(many[0], "hold")
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(ask, s, *many)
            wait_for(lambda: s.bucket.hits() >= 1, "the first to load")
            second = pool.submit(ask, s, single)
            wait_for(lambda: s.node.metrics()["symbolicated_loads_in_flight"] == 21, "the other to wait")
            s.bucket.misbehave(many[0], "ok")
            is_found(second.result(), single)
            assert first.result().status == 200
        order = [path.split("/")[1] for path in s.bucket.paths()]
        assert order.index(single[0]) < 15, order


@pytest.mark.plain
def test_more_loads_need_no_more_threads():
    """Twice bucket_parallel; each starts the next one with its first load."""
    with Stack(config={"bucket_parallel": "1", "bucket_parallel_request": "1"}) as s:

        def load(count):
            with ThreadPoolExecutor(4) as pool:
                for module, reply in [(m, pool.submit(ask, s, m)) for m in (fresh(s) for _ in range(count))]:
                    is_found(reply.result(), module)

        load(1)
        wait_for(lambda: len(list(s.daemon.thread_states("loader"))) == 2, "the second loader")
        load(60)
        assert len(list(s.daemon.thread_states("loader"))) == 2


@pytest.mark.slow
def test_what_holds_requests_up_is_told():
    with Stack(config={**STANDS_STILL, "bucket_parallel": "1", "bucket_parallel_request": "1", "request_timeout": "60s"}) as s:
        slow, other = fresh(s), fresh(s)
        s.bucket.misbehave(slow, "hold")

        def told():
            return [line["text"] for line in s.daemon.log_lines() if line["event"] == "loads held up"]

        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(ask, s, slow)
            wait_for(lambda: s.bucket.hits(slow) == 1, "the first to load")
            second = pool.submit(ask, s, other)
            wait_for(lambda: s.node.metrics()['symbolicated_requests_held_up{by="transfers"}'] == 1, "the gauge to tell")
            wait_for(told, "the log to tell")
            s.bucket.misbehave(slow, "ok")
            is_found(first.result(), slow)
            is_found(second.result(), other)
        assert "0 for memory, 0 for places, 1 for transfers, 0 for a larger share, 0 for other hosts" in told()[0]
        wait_for(lambda: s.node.metrics()['symbolicated_requests_held_up{by="transfers"}'] == 0, "the gauge to fall")


@pytest.mark.slow
def test_one_failure_ends_the_wait_for_all():
    with Stack(config=STANDS_STILL) as s:
        slow, bad = fresh(s), fresh(s)
        s.bucket.misbehave(slow, "stall")
        s.bucket.misbehave(bad, "status:503")
        is_unavailable(ask(s, slow, bad))


@pytest.mark.slow
def test_a_request_ends_within_its_own_bound():
    with Stack(config={**STANDS_STILL, "request_timeout": "2s"}) as s:
        module = fresh(s)
        s.bucket.misbehave(module, "stall")
        is_unavailable(ask(s, module))


def test_buckets_heal_under_load(one):
    """Requests go on while the bucket fails and mends; at the end all is found."""
    batches = [[fresh(one) for _ in range(5)] for _ in range(3)]
    stop = threading.Event()
    wrong = []

    def load():
        while not stop.is_set():
            for module in sum(batches, []):
                reply = ask(one, module)
                if reply.status not in (200, 503):
                    wrong.append(reply)

    threads = [threading.Thread(target=load) for _ in range(3)]
    one.bucket.control("status:503")
    for t in threads:
        t.start()
    try:
        for mode, batch in zip(("refuse", "cut:40", "ok"), batches):
            seen = sum(map(one.bucket.hits, batch))
            wait_for(lambda b=batch, n=seen: sum(map(one.bucket.hits, b)) > n, "the failing bucket to be asked")
            one.bucket.control(mode)
        wait_for(lambda: all(ask(one, m).status == 200 for m in sum(batches, [])), "all modules after the failures", pause=0.2)
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not wrong, wrong[:3]
    for module in sum(batches, []):
        is_found(ask(one, module), module)


# What a source of one's own needs: its authority, and headers


class Private(http.server.ThreadingHTTPServer):
    """A server with a certificate of its own authority, that wants a header. Below /moved it leads to another one."""

    daemon_threads = True

    def __init__(self, folder, elsewhere=None):
        super().__init__(("127.0.0.1", 0), PrivateHandler)
        write_certificate(folder)
        self.authority = os.path.join(folder, "cert.pem")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority, os.path.join(folder, "key.pem"))
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.elsewhere, self.asked = elsewhere, []
        self.url = f"https://localhost:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class PrivateHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("X-Token")))
        name, ident = self.path.split("/")[-3:-1]
        body = (module_line(name, ident, "Linux") + SAMPLE.encode()) if name.endswith(".so") else b""
        moved = self.server.elsewhere and self.path.startswith("/moved/")
        self.send_response(302 if moved else 403 if self.headers.get("X-Token") == "expired" else 200)
        if moved:
            self.send_header("Location", self.server.elsewhere + self.path.removeprefix("/moved"))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def private(tmp_path):
    with Private(str(tmp_path)) as server:
        yield server


def test_a_source_with_an_authority_of_its_own(private):
    """It was the system's store, or none."""
    module = ["own.so", debug_id("own.so")]
    with Stack(bucket=False, config={**QUICK, "source": private.url}) as s:
        assert s.client.post("/symbolicate/v5", job([module], [[0, 0x1000]])).status == 503 and not private.asked
    settings = {"source": private.url, "source_ca_file": f"{private.url} {private.authority}", "source_header": [f"{private.url}/ X-Token: a b", "https://localhost.example/ X-Token: other"]}
    with Stack(bucket=False, config={**QUICK, **settings}) as s:
        assert s.client.frames(module, [0x1000])[0]["function"] == "main"
    assert private.asked == [(f"/own.so/{module[1]}/own.so.sym", "a b")]


def test_a_header_that_is_refused_is_no_missing_file(private):
    """As with a user and password."""
    settings = {"source": private.url, "source_ca_file": f"{private.url} {private.authority}", "source_header": f"{private.url}/ X-Token: expired"}
    with Stack(bucket=False, config={**QUICK, **settings}) as s:
        is_unavailable(s.client.post("/symbolicate/v5", job([["own.so", debug_id("own.so")]], [[0, 0x1000]])))


def test_a_header_goes_to_no_other_server(private, tmp_path):
    module = ["led.so", debug_id("led.so")]
    (tmp_path / "other").mkdir()
    with Private(str(tmp_path / "other"), private.url) as leads:
        authorities = tmp_path / "both.pem"
        authorities.write_bytes(open(private.authority, "rb").read() + open(leads.authority, "rb").read())
        settings = {**QUICK, "source": leads.url + "/moved", "source_ca_file": f"{leads.url} {authorities}", "bucket_allow_local_redirects": "yes"}
        with Stack(bucket=False, config=settings) as s:
            assert s.client.frames(module, [0x1000])[0]["function"] == "main"
        assert len(private.asked) == 1
        with Stack(bucket=False, config={**settings, "source_header": f"{leads.url}/moved X-Token: secret"}) as s:
            assert "function" not in (s.client.post("/symbolicate/v5", job([module], [[0, 0x1000]])).text)
            assert "secret" not in open(s.daemon.log, encoding="utf-8").read()
        assert len(private.asked) == 1 and leads.asked[-1][1] == "secret"


@pytest.mark.parametrize("key, value, why", [
    ("source_ca_file", "https://a.org/", "URL VALUE"), ("source_ca_file", "/ca.pem", "URL VALUE"), ("source_ca_file", "https://a.org/ /nowhere/ca.pem", "/nowhere/ca.pem: No such file"),
    ("source_header", "https://a.org/ X-Token", "NAME: VALUE"), ("source_header", "https://a.org/ X Token: 1", "NAME: VALUE"), ("source_header", "https://a.org/ : 1", "NAME: VALUE"),
])  # fmt: skip
def test_what_a_source_needs_is_checked(tmp_path, key, value, why):
    (tmp_path / "conf").write_text(f"source = https://a.org/\n{key} = {value}\nlisten = {tmp_path}/socket\n")
    done = subprocess.run([*DAEMON, "--config", tmp_path / "conf", "--check-config"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and key in done.stderr and why in done.stderr
