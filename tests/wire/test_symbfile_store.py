# SPDX-License-Identifier: Apache-2.0
"""The store of uploaded symbfiles, by one suite over a directory and over a real S3 server, through tests/tools/storectl."""

import fcntl
import hashlib
import os
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from s3 import ACCESS, BUCKET, S3, SECRET, program_or_fail, signature
from stack import DAEMON, command_of, wait_for
from test_symbfile import parts_below

TOOL = command_of("STORECTL", os.path.join(os.path.dirname(DAEMON[-1]), "tests", "tools", "storectl"))
ID, OTHER = "00112233445566778899aabbccddeeff", "ffeeddccbbaa99887766554433221100"
PIECE = 8 << 20
BOUND = 60  # seconds; for one command


@pytest.fixture(autouse=True)
def no_keys_around(monkeypatch):
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module", autouse=True)
def tool():
    """A build directory may have been made without its tests."""
    if "STORECTL" not in os.environ:
        directory = os.path.dirname(DAEMON[-1]) or "."
        # One make at a time: the tests run in several processes.
        with open(os.path.join(directory, "tests", "tools", ".storectl.lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            command = ["make", "-s", "-C", directory, "tests/tools/storectl"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    server = S3(tmp_path_factory.mktemp("s3"), program_or_fail())
    server.start()
    yield server
    server.stop()


class Store:
    def __init__(self, settings):
        self.settings = settings

    def run(self, *words, data=b"", **changes):
        flags = [f"--{k}={v}" for k, v in {**self.settings, **changes}.items()]
        return subprocess.run([*TOOL, *flags, "--", *map(str, words)], input=data, capture_output=True, timeout=BOUND, check=False)

    def do(self, *words, data=b""):
        done = self.run(*words, data=data)
        assert done.returncode == 0, done
        return done.stdout

    def put(self, data, *key, ident=ID):
        self.do("put", ident, *key, data=data)

    def get(self, *key, ident=ID):
        return self.do("get", ident, *key)

    def list(self, ident=ID):
        """{(kind, set, part, parts): (size, nanoseconds)}"""
        out = {}
        for line in self.do("list", ident).decode().splitlines():
            kind, name, part, parts, size, time = line.split(" ")
            assert (kind, name, int(part), int(parts)) not in out
            out[kind, name, int(part), int(parts)] = (int(size), int(time))
        return out


numbers = iter(range(1000))


@pytest.fixture(params=["file", "path", "virtual"])
def store(request, tmp_path):
    if request.param == "file":
        return Store({"symbfile_store": f"file://{tmp_path}"})
    s3 = request.getfixturevalue("s3")
    url = f"s3://{BUCKET}/pre%20fix+%25é/{next(numbers)}"
    return Store({"symbfile_store": url, "s3_credentials_file": s3.credentials(), **s3.settings(request.param)})


def noise(size, seed=0):
    block = hashlib.sha256(str(seed).encode()).digest() * 32
    return (block * (size // len(block) + 1))[:size]


def test_empty_store(store):
    assert store.list() == {}
    assert store.run("get", ID, "ranges", "set", 0, 1).returncode == 3
    store.do("probe")


@pytest.mark.parametrize("size", [0, 1, 100_000, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 12345])
def test_what_is_put_is_had(store, size):
    data = noise(size, size)
    store.put(data, "ranges", "set", 3, 4)
    assert store.get("ranges", "set", 3, 4) == data
    assert [(key, size) for key, (size, _) in store.list().items()] == [(("ranges", "set", 3, 4), size)]


def test_listing(store):
    keys = [("ranges", "a", 0, 2), ("ranges", "a", 1, 2), ("ranges", "a", 0, 1), ("returnpads", "a", 0, 1), ("returnpads", "B-_.9", 99, 100)]
    for i, key in enumerate(keys):
        store.put(b"x" * i, *key)
    store.put(b"other", "ranges", "a", 0, 1, ident=OTHER)
    assert {key: size for key, (size, _) in store.list().items()} == {key: i for i, key in enumerate(keys)}
    assert {key: size for key, (size, _) in store.list(OTHER).items()} == {("ranges", "a", 0, 1): 5}
    assert store.get("ranges", "a", 0, 1, ident=OTHER) == b"other"


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, PIECE + 3])
def test_same_content_keeps_its_time(store, size):
    key = ("ranges", "set", 0, 1)
    store.put(noise(size), *key)
    before = store.list()[key]
    # Later by more than a second, which is what S3 tells apart.
    late = ("ranges", "later", 0, 1)

    def later():
        store.put(os.urandom(8), *late)
        return store.list()[late][1] > before[1] + 1_000_000_000

    wait_for(later, "a later second", 20, 0.1)
    store.put(noise(size), *key)
    assert store.list()[key] == before
    for other in (noise(size, 1), noise(size - 1), noise(size + 1), b""):
        store.put(other, *key)
        assert store.get(*key) == other
    assert store.list()[key][1] > before[1]


@pytest.mark.parametrize("size", [3, PIECE + 3])
def test_abort(store, size):
    key = ("ranges", "set", 0, 1)
    store.do("abort", ID, *key, data=noise(size))
    assert store.list() == {}
    store.put(b"kept", *key)
    store.do("abort", ID, *key, data=noise(size))
    assert store.get(*key) == b"kept"


@pytest.mark.parametrize("prefix", ["pages", "a+b"])
def test_pages_of_a_listing(s3, prefix):
    """More parts than one answer of S3 holds; a plus sign of the prefix is in its continuation tokens, too."""
    store = Store({"symbfile_store": f"s3://{BUCKET}/{prefix}", "s3_credentials_file": s3.credentials(), **s3.settings()})
    place = os.path.join(s3.root, BUCKET, prefix, "symbfiles", ID, "ranges", "many", "2500")
    os.makedirs(place)
    for i in range(2500):
        with open(os.path.join(place, str(i)), "wb") as out:
            out.write(b"x" * (i % 7))
    assert {key: size for key, (size, _) in store.list().items()} == {("ranges", "many", i, 2500): i % 7 for i in range(2500)}


def test_aborted_uploads_leave_nothing_at_the_server(s3):
    place = os.path.join(s3.root, "aborted")
    os.makedirs(place)
    store = Store({"symbfile_store": "s3://aborted", "s3_credentials_file": s3.credentials(), **s3.settings()})
    store.do("abort", ID, "ranges", "set", 0, 1, data=noise(2 * PIECE + 1))
    assert not [f for _, _, files in os.walk(place) for f in files]
    store.put(noise(2 * PIECE + 1), "ranges", "set", 0, 1)
    assert parts_below(place) == [f"symbfiles/{ID}/ranges/set/1/0"]


@pytest.mark.parametrize("size", [3, PIECE + 3])
def test_wrong_secret(s3, size):
    settings = {"symbfile_store": f"s3://{BUCKET}/wrong", "s3_credentials_file": s3.credentials("wrong-store", secret="wrong-secret")}
    store = Store({**settings, **s3.settings()})
    for words in (["put", ID, "ranges", "set", 0, 1], ["get", ID, "ranges", "set", 0, 1], ["list", ID], ["probe"]):
        done = store.run(*words, data=noise(size))
        assert done.returncode == 1 and b"HTTP status 403, SignatureDoesNotMatch" in done.stderr, done
        assert b"wrong-secret" not in done.stderr


def test_the_heartbeat_tries_to_write_and_leaves_nothing(s3):
    place = os.path.join(s3.root, "probed")
    os.makedirs(place)
    store = Store({"symbfile_store": "s3://probed", "s3_credentials_file": s3.credentials(), **s3.settings()})
    assert store.run("probe").returncode == 0
    assert not [f for _, _, files in os.walk(place) for f in files]


def test_no_server(s3):
    store = Store({"symbfile_store": f"s3://{BUCKET}", "s3_credentials_file": s3.credentials(), "s3_endpoint": "http://127.0.0.1:9"})
    for words in (["put", ID, "ranges", "set", 0, 1], ["get", ID, "ranges", "set", 0, 1], ["list", ID], ["probe"]):
        assert store.run(*words, data=b"x").returncode == 1


class Liar:
    """An S3 server whose n-th answer is what the test says: (status, body, headers)."""

    def __init__(self, answers):
        liar = self
        self.answers, self.requests, self.headers = list(answers), [], []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *args):
                pass

            def answer(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                liar.requests.append((self.command, self.path))
                liar.headers.append(self.headers)
                status, body, headers = liar.answers.pop(0) if liar.answers else (500, b"", {})
                (self.send_response_only if "Date" in headers else self.send_response)(status)
                for name, value in {"Content-Length": len(body), **headers}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_DELETE = answer

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.store = Store({"symbfile_store": "s3://bucket", "s3_endpoint": f"http://127.0.0.1:{self.server.server_port}"})
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


PUT = ("put", ID, "ranges", "set", 0, 1)
ABSENT = (404, b"<Error><Code>NoSuchKey</Code></Error>", {})
BEGUN = (200, b"<InitiateMultipartUploadResult><UploadId>a/b+c=</UploadId></InitiateMultipartUploadResult>", {})
SENT = (200, b"", {"ETag": '"e"'})
DONE = (200, b"<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>", {})
LATE_ERROR = (200, b"<?xml version='1.0'?>\n<Error><Code>InternalError</Code></Error>", {})
GONE = (204, b"", {})


def test_requests_of_an_upload_in_pieces():
    with Liar([BEGUN, SENT, ABSENT, SENT, SENT, DONE]) as liar:
        done = liar.store.run(*PUT, data=noise(PIECE + 1))
        assert done.returncode == 0, done
        path = f"/bucket/symbfiles/{ID}/ranges/set/1/0"
        told = liar.requests[3][1].removeprefix(f"{path}.")
        assert abs(int(told) / 1e9 - time.time()) < 600
        assert liar.requests == [
            ("POST", f"{path}?uploads="),
            ("PUT", f"{path}?partNumber=1&uploadId=a%2Fb%2Bc%3D"),
            ("GET", path),
            ("PUT", f"{path}.{told}"),
            ("PUT", f"{path}?partNumber=2&uploadId=a%2Fb%2Bc%3D"),
            ("POST", f"{path}?uploadId=a%2Fb%2Bc%3D"),
        ]


def test_a_host_whose_clock_is_wrong_asks_that_of_s3():
    """Its uploads are in order with those of other hosts."""
    absent = (404, ABSENT[1], {"Date": "Sat, 21 Nov 2026 15:17:30 GMT"})
    with Liar([absent, SENT, SENT]) as liar:
        assert liar.store.run(*PUT, data=b"x").returncode == 0
        path = f"/bucket/symbfiles/{ID}/ranges/set/1/0"
        assert liar.requests == [("GET", path), ("PUT", f"{path}.1795274250000000000"), ("PUT", path)]


LISTED = (200, b"<ListBucketResult></ListBucketResult>", {})
DENIED = (403, b"<Error><Code>AccessDenied</Code></Error>", {})


@pytest.mark.parametrize("answers, good", [([LISTED, BEGUN, GONE], True), ([LISTED, DENIED], False), ([LISTED, BEGUN, DENIED], False)])
def test_a_store_that_may_be_read_only_fails_its_heartbeat(answers, good):
    with Liar(answers) as liar:
        done = liar.store.run("probe")
        assert (done.returncode == 0) == good, done
        assert good or b"symbfile_store" in done.stderr and b"AccessDenied" in done.stderr
        path = "/bucket/symbfiles/__heartbeat__"
        asked = [("POST", f"{path}?uploads="), ("DELETE", f"{path}?uploadId=a%2Fb%2Bc%3D")]
        assert liar.requests[1:3] == asked[: len(answers) - 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "answers, size, aborted",
    [
        ([ABSENT, (500, b"", {})], 1, False),
        ([ABSENT, SENT, (500, b"", {})], 1, False),
        ([ABSENT, SENT, (200, b"", {"Content-Length": 5})], 1, False),
        ([(500, b"", {})], 1, False),
        ([(200, b"x", {"Content-Length": 2})], 1, False),
        ([(500, b"", {})], PIECE + 1, False),
        ([(200, b"<html>hello</html>", {})], PIECE + 1, False),
        ([BEGUN, (500, b"", {}), GONE], PIECE + 1, True),
        ([BEGUN, (200, b"", {}), GONE], PIECE + 1, True),
        ([BEGUN, SENT, ABSENT, (503, b"", {}), GONE], PIECE + 1, True),
        ([BEGUN, SENT, ABSENT, SENT, (503, b"", {}), GONE], PIECE + 1, True),
        ([BEGUN, SENT, ABSENT, SENT, SENT, LATE_ERROR, GONE], PIECE + 1, True),
        ([BEGUN, SENT, ABSENT, SENT, SENT, (200, b"", {}), GONE], PIECE + 1, True),
    ],
)
def test_uploads_that_fail(answers, size, aborted):
    with Liar(answers) as liar:
        done = liar.store.run(*PUT, data=noise(size), bucket_stall_timeout="1s", bucket_total_timeout="5s")
        assert done.returncode == 1 and done.stderr.startswith(b"storectl: symbfile_store: "), done
        assert (liar.requests[-1][0] == "DELETE") == aborted, liar.requests


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html></html>",
        b"<ListBucketResult><Contents>",
        b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        b"<!DOCTYPE a [<!ENTITY a 'b'>]><ListBucketResult></ListBucketResult>",
    ],
)
def test_listings_that_fail(body):
    with Liar([(200, body, {})]) as liar:
        assert liar.store.run("list", ID).returncode == 1


def test_foreign_objects_are_not_listed():
    key = "<Contents><Key>{}</Key><LastModified>{}</LastModified><Size>3</Size></Contents>"
    good, time = f"symbfiles/{ID}/ranges/set/2/", "2026-11-21T15:17:30.250Z"
    keys = [
        (good + "0", time), (good + "2", time), (good + "00", time), (good, time), (good + "1/0", time), (good + "1", "yesterday"),
        (f"symbfiles/{OTHER}/ranges/set/2/0", time), (f"symbfiles/{ID}/other/set/2/0", time), (f"symbfiles/{ID}/ranges/s%2Ft/2/0", time),
        ("x", time), ("", time),
    ]  # fmt: skip
    body = f"<ListBucketResult>{''.join(key.format(*k) for k in keys)}<IsTruncated>false</IsTruncated></ListBucketResult>"
    with Liar([(200, body.encode(), {})]) as liar:
        assert liar.store.list() == {("ranges", "set", 0, 2): (3, 1795274250250000000)}


def test_pages_that_go_in_circles_end():
    body = b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken></ListBucketResult>"
    with Liar([(200, body, {})] * 100_000) as liar:
        done = liar.store.run("list", ID, bucket_total_timeout="1s")
        assert done.returncode == 1 and b"does not end" in done.stderr, done
        assert liar.requests[1][1] == f"/bucket?continuation-token=again&list-type=2&max-keys=1000&prefix=symbfiles%2F{ID}%2F"


def test_plus_signs_in_queries_are_signed_as_they_are(monkeypatch):
    """Prefix and continuation token: libcurl's own signature takes %2B of a query for a blank."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a/session+token==")
    more = b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>c+d/e f=</NextContinuationToken></ListBucketResult>"
    with Liar([(200, more, {}), (200, b"<ListBucketResult></ListBucketResult>", {})]) as liar:
        liar.store.settings["symbfile_store"] = "s3://bucket/a+b"
        assert liar.store.list() == {}
        prefix = f"list-type=2&max-keys=1000&prefix=a%2Bb%2Fsymbfiles%2F{ID}%2F"
        assert [path for _, path in liar.requests] == [f"/bucket?{prefix}", f"/bucket?continuation-token=c%2Bd%2Fe%20f%3D&{prefix}"]
        for (method, path), headers in zip(liar.requests, liar.headers):
            signed, given, right = signature(method, path, headers, SECRET, "us-east-1")
            assert given == right and signed == ["host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"]


def test_what_is_sent_is_signed(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with Liar([BEGUN, SENT, ABSENT, SENT, SENT, DONE]) as liar:
        assert liar.store.run(*PUT, data=noise(PIECE + 1)).returncode == 0
        sizes = [headers.get("Content-Length") for headers in liar.headers]
        assert sizes[:5] == ["0", str(PIECE), None, "0", "1"]
        for (method, path), headers in zip(liar.requests, liar.headers):
            signed, given, right = signature(method, path, headers, SECRET, "us-east-1")
            assert given == right
            assert ("content-type" in signed) == (method != "GET")
        for headers, body in zip(liar.headers[1:5:3], (noise(PIECE + 1)[:PIECE], noise(PIECE + 1)[PIECE:])):
            assert headers["x-amz-content-sha256"] == hashlib.sha256(body).hexdigest()


@pytest.mark.slow
def test_parts_that_are_cut(tmp_path):
    for answer in [(200, b"x", {"Content-Length": 2}), (500, b"", {}), (403, b"", {})]:
        with Liar([answer]) as liar:
            done = liar.store.run("get", ID, "ranges", "set", 0, 1, bucket_stall_timeout="1s", bucket_total_timeout="5s")
            assert done.returncode == (3 if answer[0] == 403 else 1), done


GET = ("get", ID, "ranges", "set", 0, 1)
LISTED = f"<ListBucketResult><Contents><Key>symbfiles/{ID}/ranges/set/1/0</Key><LastModified>2026-11-21T15:17:30Z</LastModified><Size>6</Size></Contents>"
BUSY = (503, b"<Error><Code>SlowDown</Code></Error>", {})
CUT = (200, b"abc", {"Content-Length": 6, "Connection": "close"})
QUICK = {"bucket_stall_timeout": "1s", "bucket_total_timeout": "10s"}


@pytest.mark.slow
@pytest.mark.parametrize("first", [BUSY, CUT])
def test_listings_and_parts_are_tried_again(first):
    """As often as bucket_retries says, and never more; nothing comes twice."""
    more = f"{LISTED}<IsTruncated>true</IsTruncated><NextContinuationToken>n</NextContinuationToken></ListBucketResult>".encode()
    last = f"{LISTED.replace('set/1/0', 'set/2/1')}</ListBucketResult>".encode()
    with Liar([first, (200, more, {}), first, first, (200, last, {})]) as liar:
        done = liar.store.run("list", ID, **QUICK)
        assert done.returncode == 0, done
        assert [line.split(b" ")[:4] for line in done.stdout.splitlines()] == [[b"ranges", b"set", b"0", b"1"], [b"ranges", b"set", b"1", b"2"]]
        assert ["continuation-token=n" in path for _, path in liar.requests] == [False, False, True, True, True]
    with Liar([first, first, (200, b"abcdef", {})]) as liar:
        done = liar.store.run(*GET, **QUICK)
        assert done.returncode == 0 and done.stdout == b"abcdef", done
    for words in (GET, ("list", ID)):
        for retries in (0, 1):
            with Liar([first] * 9) as liar:
                done = liar.store.run(*words, bucket_retries=retries, **QUICK)
                assert done.returncode == 1 and len(liar.requests) == retries + 1, done


@pytest.mark.slow
def test_a_part_that_is_another_at_the_second_try_is_not_mixed():
    with Liar([CUT, (200, b"ab", {}), (200, b"abcdef", {})]) as liar:
        done = liar.store.run(*GET, **QUICK)
        assert done.returncode == 0 and done.stdout == b"abcdef", done
    with Liar([CUT, (200, b"xbcdef", {})]) as liar:
        done = liar.store.run(*GET, **QUICK)
        assert done.returncode == 1 and done.stdout == b"abc" and b"another object" in done.stderr, done


def test_the_probe_is_made_once():
    with Liar([BUSY] * 9) as liar:
        assert liar.store.run("probe", **QUICK).returncode == 1 and len(liar.requests) == 1
