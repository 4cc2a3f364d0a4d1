# SPDX-License-Identifier: Apache-2.0
"""One table: a refused request, its status, and the headers that go with it; none comes with another's."""

import gzip

import pytest

from client import job
from stack import Stack

SPECIAL = ("Retry-After", "WWW-Authenticate", "Allow")
MODULE = ["app", "44E4EC8C2F41492B9369D6B9A059577C2"]
UPLOAD = {"FileID": "AAAAAAAAAAAAAAAAAAAAAA", "FilePart": "0", "FileParts": "1"}


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    config = {
        "symbfile_store": f"file://{tmp_path_factory.mktemp('store')}", "max_body": "100K", "bucket_retries": "0",
        "failure_ttl_min": "5s", "failure_ttl_max": "5s",
    }  # fmt: skip
    with Stack(memcached=0, keys=True, config=config) as s:
        yield s


REFUSALS = [
    # method, path, body, headers, status, the headers of SPECIAL
    ("POST", "/symbolicate/v5", "{", {}, 400, {}),
    ("POST", "/symbolicate/v4", '{"version":5}', {}, 400, {}),
    ("POST", "/symbolicate/v5", "x" * 200_000, {}, 413, {}),
    ("POST", "/symbolicate/text", "x" * 200_000, {}, 413, {}),
    ("POST", "/asm/v1", gzip.compress(b" " * 70_000), {"Content-Encoding": "gzip"}, 413, {}),
    ("GET", "/symbolicate/v5", None, {}, 405, {"Allow": "POST, OPTIONS"}),
    ("POST", "/__version__", "", {}, 405, {"Allow": "GET, HEAD, OPTIONS"}),
    ("GET", "/nowhere", None, {}, 404, {}),
    ("GET", "/__broken__", None, {}, 500, {}),
    ("DELETE", "/cache/a/AB", None, {}, 401, {"WWW-Authenticate": "APIKey"}),
    ("DELETE", "/cache/a/AB", None, {"Authorization": "APIKey bm9ib2R5OmtleQ=="}, 403, {}),
    ("POST", "/api/symbols-ranges", b"", UPLOAD, 401, {"WWW-Authenticate": "APIKey"}),
]


@pytest.mark.parametrize("method, path, body, headers, status, special", REFUSALS, ids=[f"{r[0]} {r[1]} {r[4]}" for r in REFUSALS])
def test_refusals(stack, method, path, body, headers, status, special):
    reply = stack.client.request(method, path, body, headers)
    assert reply.status == status, reply
    assert {name: reply.headers[name] for name in SPECIAL if name in reply.headers} == special
    assert reply.headers["Access-Control-Allow-Origin"] == "*" and reply.headers["X-Request-Id"]
    assert reply.headers["Access-Control-Expose-Headers"] == "X-Request-Id, Retry-After, X-Frames"


def test_a_bad_request_with_a_key(stack):
    reply = stack.client.request("DELETE", "/cache/a", None, {"Authorization": stack.key})
    assert reply.status == 400 and not set(SPECIAL) & set(reply.headers)


def test_a_failing_bucket_says_when(stack):
    """What is remembered for 5 s is worth another try in 5, and later in fewer."""
    stack.bucket.misbehave(MODULE, "status:503")
    reply = stack.client.post("/symbolicate/v5", job([MODULE], [[0, 0x1000]]))
    assert reply.status == 503 and 4 <= int(reply.headers["Retry-After"]) <= 5, reply
    assert not {"WWW-Authenticate", "Allow"} & set(reply.headers)
