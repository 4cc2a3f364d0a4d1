# SPDX-License-Identifier: Apache-2.0
"""The store of objects, by one suite over a directory and over a real S3 server, through tests/tools/storectl."""

import fcntl
import hashlib
import os
import re
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from s3 import ACCESS, BUCKET, S3, SECRET, program_or_fail, signature
from stack import DAEMON, command_of, wait_for

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

    def put(self, data, path):
        self.do("put", f"symbfiles/{path}", data=data)

    def get(self, path):
        return self.do("get", f"symbfiles/{path}")

    def list(self, path=ID):
        """{path: (size, nanoseconds)}"""
        out = {}
        for line in self.do("list", f"symbfiles/{path}").decode().splitlines():
            below, size, time = line.rsplit(" ", 2)
            assert below not in out
            out[below] = (int(size), int(time))
        return out


def part_name(part, parts):
    """The name of a part of a set."""
    return f"{part}.{parts}.{'0123' * 8}.1.1.0"


ONE = f"symbfiles/{ID}/ranges/set/one"

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
    assert store.run("get", ONE).returncode == 3
    store.do("probe")


@pytest.mark.parametrize("size", [0, 1, 100_000, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 12345])
def test_what_is_put_is_had(store, size):
    data = noise(size, size)
    store.put(data, f"{ID}/ranges/set/3.4")
    assert store.get(f"{ID}/ranges/set/3.4") == data
    assert {path: size for path, (size, _) in store.list().items()} == {"ranges/set/3.4": size}
    assert store.list(".tmp") == {}


def test_listing(store):
    paths = ["ranges/a/0", "ranges/a/1", "ranges/~a-1/set.json", "returnpads/B-_.9/99"]
    for i, path in enumerate(paths):
        store.put(b"x" * i, f"{ID}/{path}")
    store.put(b"other", f"{OTHER}/ranges/a/0")
    assert {path: size for path, (size, _) in store.list().items()} == {path: i for i, path in enumerate(paths)}
    assert {path: size for path, (size, _) in store.list(OTHER).items()} == {"ranges/a/0": 5}
    assert store.get(f"{OTHER}/ranges/a/0") == b"other"


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, PIECE + 3])
def test_another_content_replaces_the_object(store, size):
    for other in (noise(size), noise(size), noise(size, 1), noise(size - 1), noise(size + 1), b""):
        store.put(other, f"{ID}/one")
        assert store.get(f"{ID}/one") == other and len(store.list()) == 1


def test_removed(store):
    store.put(b"x", f"{ID}/ranges/one")
    store.do("remove", f"symbfiles/{ID}/ranges/one")
    assert store.list() == {}
    store.do("remove", f"symbfiles/{ID}/ranges/one")


def test_clock(store):
    assert abs(int(store.do("clock")) / 1e9 - time.time()) < 60


@pytest.mark.parametrize("size", [3, PIECE + 3])
def test_abort(store, size):
    store.do("abort", ONE, data=noise(size))
    assert store.list() == {}
    store.do("put", ONE, data=b"kept")
    store.do("abort", ONE, data=noise(size))
    assert store.do("get", ONE) == b"kept"


@pytest.mark.parametrize("prefix", ["pages", "a+b"])
def test_pages_of_a_listing(s3, prefix):
    """More parts than one answer of S3 holds; a plus sign of the prefix is in its continuation tokens, too."""
    store = Store({"symbfile_store": f"s3://{BUCKET}/{prefix}", "s3_credentials_file": s3.credentials(), **s3.settings()})
    place = os.path.join(s3.root, BUCKET, prefix, "symbfiles", ID, "ranges", "many")
    os.makedirs(place)
    for i in range(2500):
        with open(os.path.join(place, str(i)), "wb") as out:
            out.write(b"x" * (i % 7))
    assert {path: size for path, (size, _) in store.list().items()} == {f"ranges/many/{i}": i % 7 for i in range(2500)}


def test_aborted_uploads_leave_nothing_at_the_server(s3):
    place = os.path.join(s3.root, "aborted")
    os.makedirs(place)
    store = Store({"symbfile_store": "s3://aborted", "s3_credentials_file": s3.credentials(), **s3.settings()})
    store.do("abort", ONE, data=noise(2 * PIECE + 1))
    assert not [f for _, _, files in os.walk(place) for f in files]
    store.do("put", ONE, data=noise(2 * PIECE + 1))
    assert [os.path.relpath(os.path.join(folder, f), place) for folder, _, files in os.walk(place) for f in files] == [ONE]


@pytest.mark.parametrize("size", [3, PIECE + 3])
def test_wrong_secret(s3, size):
    settings = {"symbfile_store": f"s3://{BUCKET}/wrong", "s3_credentials_file": s3.credentials("wrong-store", secret="wrong-secret")}
    store = Store({**settings, **s3.settings()})
    for words in (["put", ONE], ["get", ONE], ["list", ONE], ["remove", ONE], ["probe"]):
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
    for words in (["put", ONE], ["get", ONE], ["list", ONE], ["remove", ONE], ["probe"]):
        assert store.run(*words, data=b"x").returncode == 1


class Liar:
    """An S3 server whose n-th answer is what the test says: (status, body, headers), what a function returns, or None: it hangs up."""

    def __init__(self, answers):
        liar = self
        self.answers, self.requests, self.headers, self.connections = list(answers), [], [], 0

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self):
                super().setup()
                liar.connections += 1

            def log_message(self, *args):
                pass

            def answer(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                liar.requests.append((self.command, self.path))
                liar.headers.append(self.headers)
                answer = liar.answers.pop(0) if liar.answers else (500, b"", {})
                if callable(answer):
                    answer = answer()
                if not answer:
                    self.close_connection = True
                    return
                status, body, headers = answer
                (self.send_response_only if "Date" in headers else self.send_response)(status)
                for name, value in {"Content-Length": len(body), **headers}.items():
                    if value is not None:
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


PUT = ("put", ONE)
BEGUN = (200, b"<InitiateMultipartUploadResult><UploadId>a/b+c=</UploadId></InitiateMultipartUploadResult>", {})
SENT = (200, b"", {"ETag": '"e"'})
DONE = (200, b"<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>", {})
COPIED = (200, b"<CopyObjectResult><ETag>x</ETag></CopyObjectResult>", {})
LATE_ERROR = (200, b"<?xml version='1.0'?>\n<Error><Code>InternalError</Code></Error>", {})
GONE = (204, b"", {})


def test_requests_of_a_small_object():
    with Liar([SENT]) as liar:
        assert liar.store.run(*PUT, data=b"x").returncode == 0
        assert liar.requests == [("PUT", f"/bucket/{ONE}")]


def test_requests_of_an_object_in_pieces():
    """Its path is known when all of it has come, so the pieces have a place of their own."""
    with Liar([BEGUN, SENT, SENT, DONE, COPIED, GONE]) as liar:
        done = liar.store.run(*PUT, data=noise(PIECE + 1))
        assert done.returncode == 0, done
        path = liar.requests[0][1].split("?")[0]
        assert re.fullmatch("/bucket/symbfiles/[.]tmp/[0-9a-f]{16}", path)
        assert liar.requests == [
            ("POST", f"{path}?uploads="),
            ("PUT", f"{path}?partNumber=1&uploadId=a%2Fb%2Bc%3D"),
            ("PUT", f"{path}?partNumber=2&uploadId=a%2Fb%2Bc%3D"),
            ("POST", f"{path}?uploadId=a%2Fb%2Bc%3D"),
            ("PUT", f"/bucket/{ONE}"),
            ("DELETE", path),
        ]
        assert liar.headers[4]["x-amz-copy-source"] == path


EARLY, LATE = "Sat, 21 Nov 2026 15:17:30 GMT", "Mon, 21 Nov 2033 15:17:30 GMT"


@pytest.mark.parametrize("dates, clock", [
    ((EARLY, EARLY), 1795274250), ((EARLY, LATE), 2016199050), ((EARLY, ""), 1795274250), (("", "yesterday"), None),
    (("", "Fri, 31 Dec 9999 23:59:59 GMT"), None),
])  # fmt: skip
def test_a_host_whose_clock_is_wrong_asks_that_of_s3(dates, clock):
    """Its uploads are in order with those of other hosts. The latest answer that has a date counts."""
    with Liar([(status, b"", {"Date": date}) for status, date in zip((200, 204), dates)]) as liar:
        told = int(liar.store.do("clock")) / 1e9
        assert abs(told - (clock or time.time())) < 60


SKEWED = b"<Error><Code>RequestTimeTooSkewed</Code></Error>"
NOVEMBER = {"Date": EARLY}


@pytest.mark.parametrize("answers, good", [
    ([(403, SKEWED, NOVEMBER), SENT], True),
    ([(403, SKEWED, NOVEMBER), (403, SKEWED, NOVEMBER), SENT], False),  # once more, and no further
    ([(403, b"<Error><Code>AccessDenied</Code></Error>", NOVEMBER), SENT], False),
])  # fmt: skip
def test_a_signature_that_is_refused_for_its_time_is_made_anew_by_the_clock_of_s3(tmp_path, answers, good):
    credentials = tmp_path / "credentials"
    credentials.write_text(f"[default]\naws_access_key_id = {ACCESS}\naws_secret_access_key = {SECRET}\n")
    with Liar(answers) as liar:
        done = liar.store.run(*PUT, data=b"x", s3_credentials_file=credentials)
        assert (done.returncode == 0) == good, done
        skewed = answers[0][1] == SKEWED
        assert [path for _, path in liar.requests] == [f"/bucket/{ONE}"] * (1 + skewed)
        if skewed:
            assert liar.headers[1]["x-amz-date"][:13] == "20261121T1517"
            _, sent, wanted = signature("PUT", liar.requests[1][1], liar.headers[1], SECRET, "us-east-1")
            assert sent == wanted


def test_the_date_of_what_a_cache_keeps_is_no_clock():
    with Liar([(200, b"", {**NOVEMBER, "Age": "86400"}), (204, b"", {"Date": ""})]) as liar:
        assert abs(int(liar.store.do("clock")) / 1e9 - time.time()) < 60


LISTED = (200, b"<ListBucketResult></ListBucketResult>", {})
DENIED = (403, b"<Error><Code>AccessDenied</Code></Error>", {})


@pytest.mark.parametrize("answers, good", [([LISTED, BEGUN, GONE], True), ([LISTED, DENIED], False), ([LISTED, BEGUN, DENIED], False)])
def test_a_store_that_may_be_read_only_fails_its_heartbeat(answers, good):
    with Liar(answers) as liar:
        done = liar.store.run("probe")
        assert (done.returncode == 0) == good, done
        assert good or b"symbfile_store" in done.stderr and b"AccessDenied" in done.stderr
        path = liar.requests[1][1].split("?")[0]
        assert path.startswith("/bucket/symbfiles/.tmp/")
        asked = [("POST", f"{path}?uploads="), ("DELETE", f"{path}?uploadId=a%2Fb%2Bc%3D")]
        assert liar.requests[1:3] == asked[: len(answers) - 1]


def test_blanks_before_an_answer_that_takes_long():
    """Some servers keep the connection busy so, while they put the pieces together."""

    def late(answer):
        return 200, b" \r\n\t" * 100 + b"<?xml version='1.0'?>" + answer[1], {}

    with Liar([BEGUN, SENT, SENT, late(DONE), late(COPIED), GONE]) as liar:
        done = liar.store.run(*PUT, data=noise(PIECE + 1), bucket_retries=0)
        assert done.returncode == 0, done


@pytest.mark.slow
def test_a_large_object_may_take_long_to_be_put_together_and_copied():
    """S3 copies some hundred megabytes a second. It is no transfer that stalls."""

    def late(answer):
        time.sleep(3)
        return answer

    answers = [BEGUN, SENT, SENT, lambda: late(DONE), lambda: late(COPIED), GONE]
    with Liar(answers) as liar:
        done = liar.store.run(*PUT, data=noise(PIECE + 1), bucket_stall_timeout="1s", bucket_retries=0)
        assert done.returncode == 0, done


def test_an_error_behind_a_status_of_success_is_told():
    with Liar([LATE_ERROR]) as liar:
        done = liar.store.run(*PUT, data=noise(PIECE + 1), bucket_retries=0)
        assert done.returncode == 1 and b"HTTP status 500, InternalError" in done.stderr, done


@pytest.mark.parametrize("headers", [{}, {"ETag": ""}, {"ETag": '"</ETag>"'}, {"ETag": '"&"'}])
def test_a_piece_without_a_tag_that_can_be_named_ends_the_upload(headers):
    with Liar([BEGUN, (200, b"", headers), GONE]) as liar:
        done = liar.store.run(*PUT, data=noise(PIECE + 1))
        assert done.returncode == 1 and b"no ETag" in done.stderr, done
        methods = [method for method, _ in liar.requests]
        assert methods.count("POST") == 1 and methods[-1] == "DELETE", methods


@pytest.mark.slow
@pytest.mark.parametrize(
    "answers, size, removed",
    [
        ([(500, b"", {})], 1, None),
        ([(200, b"", {"Content-Length": 5})], 1, None),
        ([(500, b"", {})], PIECE + 1, None),
        ([(200, b"<html>hello</html>", {})], PIECE + 1, None),
        ([BEGUN, (500, b"", {}), GONE], PIECE + 1, "upload"),
        ([BEGUN, SENT, (503, b"", {}), GONE], PIECE + 1, "upload"),
        ([BEGUN, SENT, SENT, LATE_ERROR, GONE], PIECE + 1, "upload"),
        ([BEGUN, SENT, SENT, (200, b"", {}), GONE], PIECE + 1, "upload"),
        ([BEGUN, SENT, SENT, DONE, (503, b"", {}), GONE], PIECE + 1, "object"),
        ([BEGUN, SENT, SENT, DONE, LATE_ERROR, GONE], PIECE + 1, "object"),
        ([BEGUN, SENT, SENT, DONE, DONE, GONE], PIECE + 1, "object"),
    ],
)
def test_uploads_that_fail(answers, size, removed):
    with Liar(answers) as liar:
        done = liar.store.run(*PUT, data=noise(size), bucket_stall_timeout="1s", bucket_total_timeout="5s", bucket_retries=0)
        assert done.returncode == 1 and done.stderr.startswith(b"storectl: symbfile_store: "), done
        method, path = liar.requests[-1]
        assert (("upload" if "uploadId" in path else "object") if method == "DELETE" else None) == removed, liar.requests


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
        assert liar.store.run("list", f"symbfiles/{ID}").returncode == 1


def test_what_lies_elsewhere_is_not_listed():
    key = "<Contents><Key>{}</Key><LastModified>{}</LastModified><Size>3</Size></Contents>"
    time = "2026-11-21T15:17:30.250Z"
    keys = [(f"symbfiles/{ID}/a", time), (f"symbfiles/{ID}/b", "yesterday"), (f"symbfiles/{ID}/.c", time), (f"symbfiles/{OTHER}/a", time), ("x", time), ("", time)]
    body = f"<ListBucketResult>{''.join(key.format(*k) for k in keys)}<IsTruncated>false</IsTruncated></ListBucketResult>"
    with Liar([(200, body.encode(), {})]) as liar:
        assert liar.store.list() == dict.fromkeys(["a", ".c"], (3, 1795274250250000000))


def test_pages_that_go_in_circles_end():
    body = b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken></ListBucketResult>"
    with Liar([(200, body, {})] * 100_000) as liar:
        done = liar.store.run("list", f"symbfiles/{ID}")
        assert done.returncode == 1 and b"does not end" in done.stderr and len(liar.requests) == 2, done
        assert liar.requests[1][1] == f"/bucket?continuation-token=again&list-type=2&max-keys=1000&prefix=symbfiles%2F{ID}%2F"


def pages(count):
    more = "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>{}</NextContinuationToken></ListBucketResult>"
    return [(200, more.format(n).encode(), {}) for n in range(count)]


@pytest.mark.slow
def test_a_listing_has_as_many_pages_as_it_needs():
    with Liar([*pages(1200), (200, f"{LISTED}</ListBucketResult>".encode(), {})]) as liar:
        assert list(liar.store.list()) == ["ranges/set/one"] and len(liar.requests) == 1201


def test_a_listing_that_takes_too_long_names_the_setting():
    with Liar(pages(100_000)) as liar:
        done = liar.store.run("list", f"symbfiles/{ID}", bucket_total_timeout="1s")
        assert done.returncode == 1 and b"listing takes longer than bucket_total_timeout: 0 objects so far" in done.stderr, done


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
    with Liar([BEGUN, SENT, SENT, DONE, COPIED, GONE]) as liar:
        assert liar.store.run(*PUT, data=noise(PIECE + 1)).returncode == 0
        sizes = [headers.get("Content-Length") for headers in liar.headers]
        assert sizes[:3] == ["0", str(PIECE), "1"]
        for (method, path), headers in zip(liar.requests, liar.headers):
            signed, given, right = signature(method, path, headers, SECRET, "us-east-1")
            assert given == right
            assert ("content-type" in signed) == (method != "DELETE")
            assert ("x-amz-copy-source" in signed) == ("x-amz-copy-source" in headers)
        for headers, body in zip(liar.headers[1:3], (noise(PIECE + 1)[:PIECE], noise(PIECE + 1)[PIECE:])):
            assert headers["x-amz-content-sha256"] == hashlib.sha256(body).hexdigest()


@pytest.mark.slow
def test_parts_that_are_cut(tmp_path):
    for answer in [(200, b"x", {"Content-Length": 2}), (500, b"", {}), (403, b"", {})]:
        with Liar([answer]) as liar:
            done = liar.store.run("get", ONE, bucket_stall_timeout="1s", bucket_total_timeout="5s")
            assert done.returncode == (3 if answer[0] == 403 else 1), done


GET = ("get", ONE)


def test_a_part_of_unknown_length_may_have_been_cut():
    with Liar([(200, b"a line\n", {"Content-Length": None, "Connection": "close"})]) as liar:
        done = liar.store.run(*GET, bucket_retries=0)
        assert done.returncode == 1 and b"no Content-Length" in done.stderr, done


LISTED = f"<ListBucketResult><Contents><Key>{ONE}</Key><LastModified>2026-11-21T15:17:30Z</LastModified><Size>6</Size></Contents>"
BUSY = (503, b"<Error><Code>SlowDown</Code></Error>", {})
CUT = (200, b"abc", {"Content-Length": 6, "Connection": "close", "ETag": '"e"'})
WHOLE = (200, b"abcdef", {"ETag": '"e"'})
QUICK = {"bucket_stall_timeout": "1s", "bucket_total_timeout": "10s"}


@pytest.mark.slow
@pytest.mark.parametrize("first", [BUSY, CUT])
def test_listings_and_parts_are_tried_again(first):
    """As often as bucket_retries says, and never more; nothing comes twice."""
    more = f"{LISTED}<IsTruncated>true</IsTruncated><NextContinuationToken>n</NextContinuationToken></ListBucketResult>".encode()
    last = f"{LISTED.replace('one', 'two')}</ListBucketResult>".encode()
    with Liar([first, (200, more, {}), first, first, (200, last, {})]) as liar:
        done = liar.store.run("list", f"symbfiles/{ID}", **QUICK)
        assert done.returncode == 0, done
        assert [line.split(b" ")[0] for line in done.stdout.splitlines()] == [b"ranges/set/one", b"ranges/set/two"]
        assert ["continuation-token=n" in path for _, path in liar.requests] == [False, False, True, True, True]
    with Liar([first, first, WHOLE]) as liar:
        done = liar.store.run(*GET, **QUICK)
        assert done.returncode == 0 and done.stdout == b"abcdef", done
    for words in (GET, ("list", f"symbfiles/{ID}")):
        for retries in (0, 1):
            with Liar([first] * 9) as liar:
                done = liar.store.run(*words, bucket_retries=retries, **QUICK)
                assert done.returncode == 1 and len(liar.requests) == retries + 1, done


@pytest.mark.slow
def test_a_part_that_is_another_at_the_second_try_is_not_mixed():
    """Its ETag tells. Without one there is no second try as soon as something has come."""
    with Liar([CUT, (200, b"ab", WHOLE[2]), WHOLE]) as liar:
        done = liar.store.run(*GET, **QUICK)
        assert done.returncode == 0 and done.stdout == b"abcdef", done
    for etag in ({"ETag": '"other"'}, {}):
        with Liar([CUT, (200, b"xbcdef", etag), WHOLE]) as liar:
            done = liar.store.run(*GET, **QUICK)
            assert done.returncode == 1 and done.stdout == b"abc" and b"has changed since the first try" in done.stderr, done
            assert len(liar.requests) == 2
    with Liar([(200, b"abc", {"Content-Length": 6, "Connection": "close"}), (200, b"abcdef", {})]) as liar:
        done = liar.store.run(*GET, **QUICK)
        assert done.returncode == 1 and done.stdout == b"abc" and len(liar.requests) == 1, done


@pytest.mark.slow
@pytest.mark.parametrize("first", [BUSY, None, LATE_ERROR])
def test_what_is_sent_is_sent_again(first):
    """As often as bucket_retries says, to an S3 that is busy or hangs up; whatever the request is for. An error behind a status of success
    is one of requests that say what they have done."""
    answers = [[BEGUN], [SENT], [SENT], [DONE], [COPIED], [GONE]]
    for n in (0, 3, 4) if first == LATE_ERROR else range(6):
        answers[n] = [first, first, *answers[n]]
    with Liar(sum(answers, [])) as liar:
        done = liar.store.run(*PUT, data=noise(PIECE + 1), **QUICK)
        assert done.returncode == 0 and not liar.answers, done
    if first == LATE_ERROR:
        return
    with Liar([first, first, SENT, first, first, GONE]) as liar:
        assert liar.store.run(*PUT, data=b"x", **QUICK).returncode == 0
        assert liar.store.run("remove", ONE, **QUICK).returncode == 0
        assert [method for method, _ in liar.requests] == ["PUT"] * 3 + ["DELETE"] * 3
    for retries in (0, 1):
        for words in (PUT, ("remove", ONE)):
            with Liar([first] * 9) as liar:
                done = liar.store.run(*words, data=b"x", bucket_retries=retries, **QUICK)
                assert done.returncode == 1 and len(liar.requests) == retries + 1, done


def test_what_is_refused_is_not_sent_again():
    for words in (PUT, ("remove", ONE), ("list", f"symbfiles/{ID}")):
        with Liar([DENIED] * 9) as liar:
            assert liar.store.run(*words, data=b"x").returncode == 1 and len(liar.requests) == 1


def test_the_probe_is_made_once():
    with Liar([BUSY] * 9) as liar:
        assert liar.store.run("probe", **QUICK).returncode == 1 and len(liar.requests) == 1
