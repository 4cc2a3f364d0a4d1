# SPDX-License-Identifier: Apache-2.0
"""Symbol files for tools that read them themselves: GET /NAME/ID/FILE.sym."""

import gzip
import http.client
import os
import subprocess
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from s3 import BUCKET, S3, program_or_fail
from stack import Stack, wait_for
from symbols import SAMPLE, Symbols, debug_id, module_line

LARGE = ("FUNC 1000 10 0 a\n" + "1000 10 1 0\n") * 40000
QUICK = {"bucket_stall_timeout": "2s", "downloads": "stream", "failure_ttl_min": "100ms", "revalidate_after": "200ms"}
MISSING = b'{"error":"no source has this symbol file","title":"Not Found","status":404}'


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


def text_of(name, body=SAMPLE):
    return module_line(name, debug_id(name)) + body.encode()


# How files are stored, by name.
STORED = {
    "plain.so": text_of("plain.so", LARGE),
    "packed.pdb": gzip.compress(text_of("packed.pdb", LARGE)),
    "modern.so": zstd(text_of("modern.so", LARGE)),
    "a b+é.so": text_of("a b+é.so"),
    "tiny.so": b"\x28\xb5",
    "empty.so": b"",
}


def path_of(name, ident=None):
    stem = name[:-4] if name.endswith(".pdb") else name
    return f"/{name}/{ident or debug_id(name)}/{stem}.sym".replace(" ", "%20").replace("é", "%C3%A9")


@pytest.fixture(scope="module", params=["http", "file"])
def served(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("symbols")
    if request.param == "http":
        stack = Stack(symbols=[None, str(place)], config=QUICK, keys=True)
    else:
        (place / "first").mkdir()
        stack = Stack(bucket=False, config={**QUICK, "source": [f"file://{place}/first", f"file://{place}"]}, keys=True)
    os.chmod(place.parent, 0o755)
    for name, data in STORED.items():
        folder = place / name / debug_id(name)
        folder.mkdir(parents=True)
        (folder / path_of(name).rsplit("/", 1)[1].replace("%20", " ").replace("%C3%A9", "é")).write_bytes(data)
    with stack as s:
        yield s


@pytest.mark.parametrize("name", STORED)
def test_files_come_as_they_are_stored(served, name):
    reply = served.client.get(path_of(name), Accept_Encoding="gzip, zstd")
    assert reply.status == 200 and reply.raw == STORED[name]
    coding = {"packed.pdb": "gzip", "modern.so": "zstd"}.get(name)
    assert reply.headers.get("Content-Encoding") == coding
    assert reply.headers["Content-Length"] == str(len(STORED[name]))
    assert reply.headers["Content-Type"] == "text/plain" and reply.headers["Access-Control-Allow-Origin"] == "*"
    assert reply.headers["Accept-Ranges"] == "bytes" or not STORED[name]


def test_a_module_named_as_a_route(tmp_path):
    """/cache/ID/cache.sym is a file; what is invalidated has its id at the end."""
    place = tmp_path / "symbols"
    symbols = Symbols(str(place))
    symbols.put("cache", debug_id("cache"), text_of("cache"))
    for folder in (tmp_path, place):
        os.chmod(folder, 0o755)
    with Stack(bucket=False, memcached=0, config={**QUICK, "source": f"file://{place}"}, keys=True) as s:
        reply = s.client.get(path_of("cache"))
        assert reply.status == 200 and reply.raw == text_of("cache")
        assert s.client.request("DELETE", f"/cache/cache/{debug_id('cache')}", headers={"Authorization": s.key}).status == 200


def test_gzip_stays_gzip_and_zstd_is_unpacked_for_others(served):
    reply = served.client.get(path_of("packed.pdb"))
    assert reply.raw == STORED["packed.pdb"] and reply.headers["Content-Encoding"] == "gzip"
    reply = served.client.get(path_of("modern.so"), Accept_Encoding="gzip")
    assert reply.raw == text_of("modern.so", LARGE)
    assert "Content-Encoding" not in reply.headers and "ETag" not in reply.headers


@pytest.mark.parametrize("coding", ["zstd", "gzip"])
def test_head_has_the_headers_of_get(served, coding):
    """Of what is unpacked on the way nobody knows the length."""
    for name in STORED:
        got, head = (served.client.request(method, path_of(name), headers={"Accept-Encoding": coding}) for method in ("GET", "HEAD"))
        assert head.status == 200 and head.raw == b"", name
        for header in ("Content-Length", "Content-Encoding", "ETag", "Accept-Ranges", "Content-Type"):
            assert got.headers.get(header) == head.headers.get(header), (name, header)
    ranged = served.client.request("HEAD", path_of("plain.so"), headers={"Range": "bytes=0-9"})
    assert ranged.status == 200 and ranged.headers["Content-Length"] == str(len(STORED["plain.so"]))


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "asked,first,last", [("0-0", 0, 0), ("10-19", 10, 19), ("100000-", 100000, -1), ("-7", -7, -1), ("5-99999999999", 5, -1)]
)
def test_ranges(served, asked, first, last):
    for name in ("plain.so", "packed.pdb"):
        data = STORED[name]
        first_at, last_at = first % len(data), last % len(data)
        if first_at > last_at:
            continue
        reply = served.client.get(path_of(name), Range="bytes=" + asked)
        if first >= len(data):
            assert reply.status == 416
            continue
        assert reply.status == 206 and reply.raw == data[first_at : last_at + 1], (name, asked)
        assert reply.headers["Content-Range"] == f"bytes {first_at}-{last_at}/{len(data)}"


@pytest.mark.in_turn
def test_ranges_that_lie_outside_or_are_none(served):
    whole = STORED["plain.so"]
    for bad in (f"bytes={len(whole)}-", "bytes=-0"):
        reply = served.client.get(path_of("plain.so"), Range=bad)
        reply.error(416)
        assert reply.headers["Content-Range"] == f"bytes */{len(whole)}"
    for odd in ("bytes=5-4", "bytes=a-b", "lines=1-2", "bytes=1-2,4-5", "bytes=", "bytes=--1", "bytes=1-2x", "bytes=-", "bytes=1-+5", "bytes=+1-5"):
        reply = served.client.get(path_of("plain.so"), Range=odd)
        assert reply.status == 200 and reply.raw == whole, odd


@pytest.mark.in_turn
def test_entity_tags(served):
    first = served.client.get(path_of("packed.pdb"))
    etag = first.headers.get("ETag")
    if not etag:
        pytest.skip("this bucket has none")
    same = served.client.get(path_of("packed.pdb"), If_None_Match=etag)
    assert same.status == 304 and same.raw == b"" and same.headers["ETag"] == etag and "Content-Length" not in same.headers
    assert served.client.get(path_of("packed.pdb"), If_None_Match='"other"').raw == first.raw
    assert served.client.get(path_of("packed.pdb"), Range="bytes=0-9", If_Range=etag).status == 206
    for other in ('"other"', "*", "W/" + etag, etag + ', "other"'):
        assert served.client.get(path_of("packed.pdb"), Range="bytes=0-9", If_Range=other).raw == first.raw, other
    assert served.client.get(path_of("packed.pdb"), If_None_Match=f'"other", W/{etag}').status == 304


def test_the_id_in_lower_case(served):
    assert served.client.get(path_of("plain.so", debug_id("plain.so").lower())).raw == STORED["plain.so"]


@pytest.mark.in_turn
def test_what_is_no_symbol_file_of_that_name(served):
    ident = debug_id("plain.so")
    for path in (f"/plain.so/{ident}/other.sym", f"/plain.so/{ident}/plain.so", f"/a%2Fplain.so/{ident}/plain.so.sym", f"/packed.pdb/{ident}/packed.pdb.sym"):
        served.client.get(path).error(404)
    assert served.client.get(path_of("plain.so")).raw == STORED["plain.so"], "the miss is of another file"
    reply = served.client.request("POST", path_of("plain.so"), b"x")
    reply.error(405)
    assert reply.headers["Allow"] == "GET, HEAD, OPTIONS"


def test_curl_gets_it_unchanged(served, tmp_path):
    base = f"http://127.0.0.1:{served.node.nginx.port}"
    for name in ("plain.so", "packed.pdb", "modern.so"):
        out = tmp_path / "out"
        subprocess.run(["curl", "-sf", "--compressed", "-o", out, base + path_of(name)], check=True)
        assert out.read_bytes() == text_of(name, LARGE)
    out = subprocess.run(["curl", "-sI", base + path_of("plain.so")], check=True, stdout=subprocess.PIPE).stdout
    assert out.startswith(b"HTTP/1.1 200") and b"Accept-Ranges: bytes" in out
    out = subprocess.run(["curl", "-s", "-r", "10-19", base + path_of("plain.so")], check=True, stdout=subprocess.PIPE).stdout
    assert out == STORED["plain.so"][10:20]


# Misses and failures


@pytest.fixture(scope="module")
def one():
    with Stack(config={**QUICK, "missing_ttl": "1h"}, keys=True, daemons=2) as s:
        yield s


def test_misses_are_remembered_until_the_module_is_invalidated(one):
    module = ["late.so", debug_id("late.so")]
    for _ in range(3):
        reply = one.client.get(path_of("late.so"))
        assert reply.status == 404 and reply.raw == MISSING
    assert one.bucket.hits(module) == 2  # in lower case, too
    assert one.nodes[1].client().get(path_of("late.so")).status == 404
    one.symbols.add("late.so", SAMPLE)
    assert one.client.get(path_of("late.so")).status == 404
    before = one.node.metrics()["symbolicated_invalidations_total"]
    assert one.client.request("DELETE", f"/cache/late.so/{module[1]}", headers={"Authorization": one.key}).status == 200
    assert one.node.metrics()["symbolicated_invalidations_total"] == before + 1
    for node in one.nodes:
        assert node.client().get(path_of("late.so")).raw == text_of("late.so")


def test_a_source_that_fails_is_no_miss(one):
    module = one.symbols.add("failing.so", SAMPLE)
    one.bucket.misbehave(module, "status:503")
    reply = one.client.get(path_of("failing.so"))
    reply.error(503)
    assert int(reply.headers["Retry-After"]) >= 1
    one.bucket.misbehave(module, "ok")
    assert one.client.get(path_of("failing.so")).raw == text_of("failing.so")


def test_a_source_that_fails_is_asked_again():
    with Stack(config={**QUICK, "bucket_retries": "2"}) as s:
        module = s.symbols.add("failing.so", SAMPLE)
        s.bucket.misbehave(module, "status:503")
        s.client.get(path_of("failing.so")).error(503)
        assert s.bucket.hits(module) == 3


def test_a_transfer_that_breaks_off_is_seen_as_broken(one):
    module = one.symbols.add("broken.so", LARGE)
    one.bucket.misbehave(module, "cut:100000")
    done = subprocess.run(
        ["curl", "-s", "-o", "/dev/null", f"http://127.0.0.1:{one.node.nginx.port}{path_of('broken.so')}"], check=False
    )
    assert done.returncode == 18, "curl: transfer closed with outstanding data"
    one.bucket.misbehave(module, "chunked-cut:100000")
    done = subprocess.run(
        ["curl", "-s", "-o", "/dev/null", f"http://127.0.0.1:{one.node.nginx.port}{path_of('broken.so')}"], check=False
    )
    assert done.returncode == 18


@pytest.mark.parametrize("mode", ["chunked", "no-length"])
def test_a_source_that_does_not_say_the_length(one, mode):
    module = one.symbols.add(f"{mode}.so", LARGE)
    one.bucket.misbehave(module, mode)
    reply = one.client.get(path_of(module[0]), Range="bytes=0-9")
    assert reply.status == 200 and reply.raw == text_of(module[0], LARGE)
    assert "Content-Length" not in reply.headers


def test_an_entity_tag_that_is_none_is_not_passed_on(one):
    """Without quotes, or too long to be held whole, one could stand for another."""
    for n, etag in enumerate(("abc", '"abc', '"a"b"', '"' + "x" * 200 + '"', "W/abc")):
        module = one.symbols.add(f"tagged{n}.so", SAMPLE)
        one.bucket.misbehave(module, f"etag:{etag}")
        reply = one.client.get(path_of(module[0]), If_None_Match=f'"x{etag}x"')
        assert reply.status == 200 and "ETag" not in reply.headers, etag
    module = one.symbols.add("weak.so", SAMPLE)
    one.bucket.misbehave(module, 'etag:W/"abc"')
    assert one.client.get(path_of(module[0])).headers["ETag"] == 'W/"abc"'
    assert one.client.get(path_of(module[0]), If_None_Match='W/"abc"').status == 304
    assert one.client.get(path_of(module[0]), Range="bytes=0-9", If_Range='W/"abc"').status == 200


def test_damaged_zstd_breaks_off():
    data = bytearray(zstd(text_of("bad.so", LARGE)))
    data[len(data) // 2] ^= 0xFF
    with Stack(config=QUICK) as s:
        s.symbols.put("bad.so", debug_id("bad.so"), bytes(data))
        done = subprocess.run(["curl", "-s", "-o", "/dev/null", f"http://127.0.0.1:{s.node.nginx.port}{path_of('bad.so')}"], check=False)
        assert done.returncode == 18


def test_only_so_many_at_a_time():
    with Stack(config={**QUICK, "bucket_stall_timeout": "300s", "download_parallel": "1"}) as s:
        slow = s.symbols.add("slow.so", LARGE)
        s.symbols.add("other.so", SAMPLE)
        s.bucket.misbehave(slow, "stall")
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(s.client.get, path_of("slow.so"))
            wait_for(lambda: s.bucket.hits(slow) == 1, "the first to be under way")
            s.client.get(path_of("other.so")).error(503)
            assert s.client.frames(["other.so", debug_id("other.so")], [0x1000])[0]["function"]
            s.bucket.kill()
            with pytest.raises(http.client.IncompleteRead):
                running.result()
        s.bucket.start()
        wait_for(lambda: s.client.get(path_of("other.so")).status == 200, "the place to be free")


def test_nothing_is_given_out_unless_a_setting_says_so():
    with Stack() as s:
        module = s.symbols.add("private.so", SAMPLE)
        s.client.get(path_of("private.so")).error(404)
        assert s.bucket.hits(module) == 0


# Redirects


@pytest.fixture(scope="module")
def buckets(tmp_path_factory):
    """Two sources in S3, and one that is a directory, with the settings of those who redirect."""
    server = S3(tmp_path_factory.mktemp("s3"), program_or_fail())
    server.start()
    folder = tmp_path_factory.mktemp("folder")
    os.chmod(folder.parent, 0o755)
    sources = [f"s3://{BUCKET}/first%20one", f"s3://{BUCKET}/second", f"file://{folder}"]
    config = {**QUICK, **server.settings(), "s3_credentials_file": server.credentials(), "source": sources, "downloads": "redirect"}
    for name, data in STORED.items():
        server.symbols("first one").put(name, debug_id(name), data)
    server.symbols("second").put("second.so", debug_id("second.so"), text_of("second.so"))
    Symbols(folder).put("folder.so", debug_id("folder.so"), text_of("folder.so"))
    with Stack(bucket=False, config=config) as s:
        yield s
    server.stop()


def test_files_in_s3_are_redirected_to(buckets, tmp_path):
    base = f"http://127.0.0.1:{buckets.node.nginx.port}"
    for name in ("plain.so", "packed.pdb", "a b+é.so", "second.so"):
        reply = buckets.client.get(path_of(name))
        assert reply.status == 302 and f"/{BUCKET}/" in reply.headers["Location"], reply
        assert reply.headers["Cache-Control"] == "no-store"
        out = tmp_path / "out"
        subprocess.run(["curl", "-sfL", "--compressed", "-o", out, base + path_of(name)], check=True)
        assert out.read_bytes() == text_of(name, LARGE if name in ("plain.so", "packed.pdb") else SAMPLE)


def test_a_redirect_says_that_gzip_is_gzip_whoever_stored_it(buckets):
    target = urllib.request.urlopen(f"http://127.0.0.1:{buckets.node.nginx.port}{path_of('packed.pdb')}")
    assert target.headers["Content-Encoding"] == "gzip" and target.read() == STORED["packed.pdb"]


def test_what_cannot_be_redirected_is_streamed(buckets):
    assert buckets.client.get(path_of("folder.so")).raw == text_of("folder.so")
    assert buckets.client.get(path_of("modern.so")).raw == text_of("modern.so", LARGE)
    assert buckets.client.get(path_of("modern.so"), Accept_Encoding="zstd").status == 302
    head = buckets.client.request("HEAD", path_of("packed.pdb"))
    assert head.status == 200 and head.headers["Content-Encoding"] == "gzip"
    assert buckets.client.get(path_of("nowhere.so")).raw == MISSING
    with open(buckets.daemon.log, encoding="utf-8") as log:
        assert "X-Amz-" not in log.read()


def test_a_redirect_is_good_for_that_file_only_and_not_for_ever(buckets):
    url = buckets.client.get(path_of("plain.so")).headers["Location"]
    assert urllib.request.urlopen(url).read() == STORED["plain.so"]
    for other in (url.replace("plain.so.sym", "other.so.sym"), url[:-1] + ("0" if url[-1] != "0" else "1"), url.replace("Expires=300", "Expires=900")):
        with pytest.raises(urllib.error.HTTPError) as e:
            urllib.request.urlopen(other)
        assert e.value.code == 403
