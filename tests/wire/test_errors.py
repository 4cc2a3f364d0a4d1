# SPDX-License-Identifier: Apache-2.0
"""What is refused, with which status and which words; and that nothing else suffers from it."""

import gzip
import json
import re
import zlib

import pytest

from client import job, raw_exchange, raw_status
from stack import Stack, wait_for
from symbols import SAMPLE, debug_id, tiny

APP = ["app", debug_id("app")]
LONG = "f" * 2000

# Lowered limits, each its own setting
LIMITS = {
    "max_body": "256K",
    "max_body_inflated": "1M",
    "max_reply": "1M",
    "max_jobs": "20",
    "max_frames": "5000",
    "max_stacks": "3000",
    "max_modules": "50",
}


@pytest.fixture(scope="module")
def stack():
    with Stack(memcached=0) as s:
        s.symbols.add(APP[0], SAMPLE, APP[1])
        yield s


@pytest.fixture(scope="module")
def limited():
    with Stack(memcached=0, config=LIMITS) as s:
        s.symbols.add(APP[0], SAMPLE, APP[1])
        s.symbols.add("long", tiny(LONG))
        yield s


def refused(stack, body, status=400, path="/symbolicate/v5", **headers):
    reply = stack.client.post(path, body, **headers)
    text = reply.error(status)["error"]
    assert "\n" not in text and len(text) < 400
    return text


def still_works(stack):
    assert stack.client.frames(APP, [0x1000])[0]["function"] == "main"


def test_the_error_of_the_contract(stack):
    jobs = [job([], []), job([APP] * 7, [[0, 1], [0, 1], [0, 1], [7, 4096]])]
    text = refused(stack, {"jobs": jobs})
    assert text == "job 1: stack 0 frame 3: module_index 7 is not in memoryMap"


def at(*words):
    """Text in which these come in this order, whatever stands between."""
    return re.compile(".*".join(map(re.escape, words)), re.S)


FRAME = "stack 1 frame 2"
PLACES = [
    # stacks of a job whose other frames are right: [[], [[0, 1], [0, 1], FRAME]]
    ("[1, 5]", at(FRAME, "module_index 1")),
    ("[99999999999, 5]", at(FRAME, "module_index")),
    ("[18446744073709551616, 5]", at(FRAME)),
    ('["0", 5]', at(FRAME)),
    ("[0.0, 5]", at(FRAME)),
    ("[1e0, 5]", at(FRAME)),
    ("[null, 5]", at(FRAME)),
    ("[true, 5]", at(FRAME)),
    ("[[0], 5]", at(FRAME)),
    ("[0, null]", at(FRAME)),
    ("[0, true]", at(FRAME)),
    ("[0, false]", at(FRAME)),
    ("[0, [5]]", at(FRAME)),
    ("[0, {}]", at(FRAME)),
    ("[]", at(FRAME)),
    ("[0]", at(FRAME)),
    ("[0, 5, 5]", at(FRAME)),
    ("{}", at(FRAME)),
    ("null", at(FRAME)),
    ("5", at(FRAME)),
    ('"x"', at(FRAME)),
]


@pytest.mark.parametrize("frame, pattern", PLACES, ids=[p[0] for p in PLACES])
@pytest.mark.parametrize("shape", ["jobs", "bare", "v4", "map last"])
def test_a_malformed_frame_is_named(stack, frame, pattern, shape):
    modules = f'"memoryMap": [["app", "{APP[1]}"]]'
    stacks = f'"stacks": [[], [[0, 1], [0, 1], {frame}]]'
    good = "{" + modules + ', "stacks": []}'
    one = "{" + (f"{stacks}, {modules}" if shape == "map last" else f"{modules}, {stacks}") + "}"
    body = one if shape in ("bare", "v4") else f'{{"jobs": [{good}, {good}, {one}]}}'
    text = refused(stack, body, path="/symbolicate/v4" if shape == "v4" else "/symbolicate/v5")
    assert pattern.search(text), text
    if shape in ("jobs", "map last"):
        assert "job 2" in text


MODULES = ['["a"]', "[]", '["a", "B", "C"]', '["a", 5]', '[5, "A"]', '[null, "A"]', '["a", null]', '{"a": "B"}', '"aB"', "5", "null"]


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("path", ["/symbolicate/v5", "/symbolicate/v4"])
def test_a_malformed_module_is_named(stack, module, path):
    text = refused(stack, '{"memoryMap": [["a", "B"], %s], "stacks": []}' % module, path=path)
    assert "memoryMap" in text or "module 1" in text, text
    assert "1" in text, text


@pytest.mark.parametrize(
    "body, words",
    [
        ('{"memoryMap": []}', ["stacks"]),
        ('{"stacks": []}', ["memoryMap"]),
        ("{}", []),
        ('{"version": 5}', []),
        ('{"jobs": [{}]}', ["job 0"]),
        ('{"jobs": [{"memoryMap": [], "stacks": []}, {"memoryMap": []}]}', ["job 1", "stacks"]),
        ('{"jobs": [{"memoryMap": [], "stacks": []}, {"stacks": []}]}', ["job 1", "memoryMap"]),
        ('{"jobs": {}}', ["jobs"]),
        ('{"jobs": null}', ["jobs"]),
        ('{"jobs": "x"}', ["jobs"]),
        ('{"jobs": [5]}', ["job 0"]),
        ('{"jobs": [[]]}', ["job 0"]),
        ('{"jobs": [null]}', ["job 0"]),
        ('{"memoryMap": {}, "stacks": []}', ["memoryMap"]),
        ('{"memoryMap": null, "stacks": []}', ["memoryMap"]),
        ('{"memoryMap": [], "stacks": null}', ["stacks"]),
        ('{"memoryMap": [], "stacks": {}}', ["stacks"]),
        ('{"memoryMap": [], "stacks": "x"}', ["stacks"]),
        ('{"memoryMap": [], "stacks": [[], 5]}', ["stack 1"]),
        ('{"memoryMap": [], "stacks": [{}]}', ["stack 0"]),
        ('{"memoryMap": [], "stacks": [null]}', ["stack 0"]),
        ("[]", []),
        ("null", []),
        ("5", []),
        ('"x"', []),
        ("true", []),
    ],
)
def test_a_wrong_shape_is_named(stack, body, words):
    text = refused(stack, body)
    for word in words:
        assert word in text, text


GOOD = json.dumps({**job([APP], [[0, 4096], [0, -1]]), "extra": [1.5e3, True, None, "\\u0041 é"]}, ensure_ascii=False)

BAD_JSON = {
    "empty": b"",
    "blank": b" \n ",
    "not json": b"memoryMap=1&stacks=2",
    "bom": b"\xef\xbb\xbf" + GOOD.encode(),
    "utf-16": GOOD.encode("utf-16"),
    "nul": b"\0",
    "nul at the end": GOOD.encode() + b"\0",
    "two values": GOOD.encode() + b"{}",
    "text behind": GOOD.encode() + b"x",
    "comma behind": GOOD.encode() + b",",
    "trailing comma in object": GOOD[:-1].encode() + b",}",
    "trailing comma in list": b'{"memoryMap": [], "stacks": [[],]}',
    "leading comma": b'{,"memoryMap": [], "stacks": []}',
    "double comma": b'{"memoryMap": [],, "stacks": []}',
    "missing comma": b'{"memoryMap": [] "stacks": []}',
    "missing colon": b'{"memoryMap" [], "stacks": []}',
    "single quotes": b"{'memoryMap': [], 'stacks': []}",
    "bare key": b"{memoryMap: [], stacks: []}",
    "comment": b'{"memoryMap": [], /* x */ "stacks": []}',
    "wrong bracket": b'{"memoryMap": [}, "stacks": []]',
    "leading zero": b'{"memoryMap": [["a","B"]], "stacks": [[[0, 0123]]]}',
    "plus": b'{"memoryMap": [["a","B"]], "stacks": [[[0, +1]]]}',
    "hex": b'{"memoryMap": [["a","B"]], "stacks": [[[0, 0x10]]]}',
    "lone minus": b'{"memoryMap": [["a","B"]], "stacks": [[[0, -]]]}',
    "no digit behind point": b'{"memoryMap": [["a","B"]], "stacks": [[[0, 1.]]]}',
    "no digit before point": b'{"memoryMap": [["a","B"]], "stacks": [[[0, .5]]]}',
    "no exponent": b'{"memoryMap": [["a","B"]], "stacks": [[[0, 1e]]]}',
    "nan": b'{"memoryMap": [["a","B"]], "stacks": [[[0, NaN]]]}',
    "infinity": b'{"memoryMap": [["a","B"]], "stacks": [[[0, Infinity]]]}',
    "bad literal": b'{"memoryMap": [], "stacks": [], "x": tru}',
    "upper-case literal": b'{"memoryMap": [], "stacks": [], "x": True}',
    "control character in a string": b'{"memoryMap": [["a\nb","B"]], "stacks": []}',
    "bad escape": b'{"memoryMap": [["a\\x41","B"]], "stacks": []}',
    "bad unicode escape": b'{"memoryMap": [["a\\u00g1","B"]], "stacks": []}',
    "short unicode escape": b'{"memoryMap": [["a\\u00","B"]], "stacks": []}',
    "bad utf-8": b'{"memoryMap": [["a\xff","B"]], "stacks": []}',
    "overlong utf-8": b'{"memoryMap": [["a\xc0\xaf","B"]], "stacks": []}',
    "number in an unknown key": b'{"memoryMap": [], "stacks": [], "x": 01}',
    "bad utf-8 in an unknown key": b'{"memoryMap": [], "stacks": [], "x": "\xc3"}',
}


@pytest.mark.parametrize("path", ["/symbolicate/v5", "/symbolicate/v4", "/"])
@pytest.mark.parametrize("kind", BAD_JSON)
def test_bad_json(stack, kind, path):
    refused(stack, BAD_JSON[kind], path=path)


def test_bad_json_names_the_byte(stack):
    body = '{"memoryMap": [], "stacks": ], "x": 1}'
    assert str(body.index("]", body.index("stacks"))) in refused(stack, body)


def test_every_prefix_of_a_request_is_refused(stack):
    client = stack.node.client(keep=True)
    body = GOOD.encode()
    for n in range(len(body)):
        reply = client.post("/symbolicate/v5", body[:n])
        assert reply.status == 400, (n, reply)
        reply.json()
    assert client.post("/symbolicate/v5", body).status == 200
    client.close()


@pytest.mark.parametrize("opening, closing", [("[", "]"), ('{"a":', "}")], ids=["lists", "objects"])
@pytest.mark.parametrize("closed", [True, False])
def test_deep_nesting(stack, opening, closing, closed):
    """A body that nests without end costs neither the stack nor the process."""
    deep = opening * 200_000 + "1" + (closing * 200_000 if closed else "")
    for body in (deep, '{"memoryMap": [], "x": %s, "stacks": []}' % deep, '{"memoryMap": [], "stacks": %s}' % deep):
        reply = stack.client.post("/symbolicate/v5", body)
        reply.error(400)
    still_works(stack)


def test_many_unknown_keys(stack):
    extra = ", ".join(f'"k{i}": [{i}, "v{i}"]' for i in range(50_000))
    body = '{%s, "memoryMap": [%s], "stacks": [[[0, 4096]]]}' % (extra, json.dumps(APP))
    assert stack.client.v5(body)["results"][0]["stacks"][0][0]["function"] == "main"


# Limits


@pytest.mark.parametrize("over", [0, 1])
def test_jobs(limited, over):
    value = {"jobs": [job([APP], [[0, 0x1000]])] * (20 + over)}
    if over:
        assert "jobs" in refused(limited, value)
    else:
        assert len(limited.client.v5(value)["results"]) == 20


@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("shape", ["one stack", "stacks", "jobs"])
def test_frames(limited, over, shape):
    rest = [[-1, 1]] * (2500 + over)
    half = [[-1, 1]] * 2500
    value = {
        "one stack": job([], half + rest),
        "stacks": job([], half, rest),
        "jobs": {"jobs": [job([], half), job([], rest)]},
    }[shape]
    if over:
        assert "frames" in refused(limited, value)
    else:
        results = limited.client.v5(value)["results"]
        assert sum(len(s) for r in results for s in r["stacks"]) == 5000


@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("shape", ["one job", "jobs", "v4"])
def test_stacks(limited, over, shape):
    rest = [[]] * (1500 + over)
    half = [[]] * 1500
    if shape == "jobs":
        value = {"jobs": [job([], *half), job([], *rest)]}
    else:
        value = job([], *half, *rest)
    path = "/symbolicate/v4" if shape == "v4" else "/symbolicate/v5"
    if over:
        assert refused(limited, value, path=path) == "too many stacks: at most 3000 a request"
    elif shape == "v4":
        assert limited.client.v4(value)["symbolicatedStacks"] == [[]] * 3000
    else:
        assert [s for r in limited.client.v5(value)["results"] for s in r["stacks"]] == [[]] * 3000


def test_many_empty_stacks_are_refused(stack):
    body = b'{"memoryMap":[],"stacks":[' + b"[]," * 9_000_000 + b"[]]}"
    assert refused(stack, body) == "too many stacks: at most 1000000 a request"


@pytest.mark.slow
def test_the_largest_request(stack):
    """At every limit at once, of which none is in the way of another."""
    modules = [[APP, *([f"m{j}-{i}", "ABC"] for i in range(9))] for j in range(1000)]
    stacks = b",".join([b"[[0,4099]]"] * 200)
    jobs = (b'{"memoryMap":%b,"stacks":[%b]}' % (json.dumps(m).encode(), stacks) for m in modules)
    reply = stack.client.post("/symbolicate/v5", b'{"jobs":[' + b",".join(jobs) + b"]}")
    assert reply.status == 200, reply
    frame = b'[{"frame":0,"module":"app","module_offset":"0x1003","function":"main",'
    assert reply.body.count(frame) == 200_000
    assert reply.body.count(b":null") == 9000 and reply.body.count(b":true") == 1000


@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("shape", ["one", "two"])
def test_modules(limited, over, shape):
    modules = [[f"m{i}", "ABC"] for i in range(50 + over)]
    value = job(modules) if shape == "one" else {"jobs": [job(modules[:25]), job(modules[25:])]}
    if over:
        assert "modules" in refused(limited, value)
    else:
        assert sum(len(r["found_modules"]) for r in limited.client.v5(value)["results"]) == 50


def padded(size):
    """A right request of exactly so many bytes."""
    head = '{"memoryMap": [["app", "%s"]], "stacks": [[[0, 4096]]], "pad": "' % APP[1]
    return (head + "x" * (size - len(head) - 2) + '"}').encode()


@pytest.mark.parametrize("over", [0, 1])
def test_body_in_the_responder(limited, over):
    body = padded(256 * 1024 + over)
    if over:
        assert "body" in refused(limited, body, 413)
    else:
        assert limited.client.v5(body)["results"][0]["stacks"][0][0]["function"] == "main"


def test_the_connection_lives_on_after_a_refused_body(limited):
    client = limited.node.client(keep=True)
    for _ in range(3):
        client.post("/symbolicate/v5", padded(300_000)).error(413)
        assert client.frames(APP, [0x1000])[0]["function"] == "main"
    client.close()


@pytest.mark.slow
@pytest.mark.parametrize("size", [40 * 2**20, 2**40])
def test_body_in_nginx(stack, size):
    """Refused by its announced length; the reply is JSON with the headers of any other."""
    head = f"POST /symbolicate/v5 HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
    answer = raw_exchange(stack.node.nginx.port, head.encode())
    assert raw_status(answer) == 413
    headers, body = answer.split(b"\r\n\r\n", 1)
    assert b"access-control-allow-origin: *" in headers.lower()
    assert b"application/json" in headers.lower()
    value = json.loads(body)
    assert value["status"] == 413 and value["error"] and value["title"]


@pytest.mark.parametrize("over", [0, 1])
def test_inflated_body(limited, over):
    packed = gzip.compress(padded(2**20 + over))
    if over:
        refused(limited, packed, 413, Content_Encoding="gzip")
    else:
        reply = limited.client.v5(packed, Content_Encoding="gzip")
        assert reply["results"][0]["stacks"][0][0]["function"] == "main"


@pytest.mark.slow
def test_bomb(stack):
    """200 KB of gzip that would be 200 MB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = b'{"memoryMap": [], "stacks": [], "x": "'
    parts = [packer.compress(head)] + [packer.compress(b"x" * 2**20) for _ in range(200)]
    bomb = b"".join(parts) + packer.flush()
    before = stack.node.metrics()["symbolicated_requests_in_flight"]
    refused(stack, bomb, 413, Content_Encoding="gzip")
    # The reply is on its way before the request is counted off.
    wait_for(lambda: stack.node.metrics()["symbolicated_requests_in_flight"] <= before, "the request to be over")
    still_works(stack)


PACKED = gzip.compress(GOOD.encode())
BAD_GZIP = {
    "plain text": GOOD.encode(),
    "empty": b"",
    "header only": PACKED[:10],
    "cut": PACKED[:-12],
    "no trailer": PACKED[:-8],
    "half a trailer": PACKED[:-4],
    "wrong crc": PACKED[:-8] + b"\0\0\0\0" + PACKED[-4:],
    "wrong length": PACKED[:-4] + b"\1\0\0\0",
    "damaged": PACKED[:30] + bytes([PACKED[30] ^ 0xFF, PACKED[31] ^ 0xFF]) + PACKED[32:],
    "zlib, not gzip": zlib.compress(GOOD.encode()),
    "text behind": PACKED + b"text",
    "second member cut": PACKED + PACKED[:-10],
}


@pytest.mark.parametrize("kind", BAD_GZIP)
def test_bad_gzip_body(stack, kind):
    refused(stack, BAD_GZIP[kind], Content_Encoding="gzip")
    still_works(stack)


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "gzip, gzip"])
def test_other_encodings(stack, encoding):
    refused(stack, PACKED, Content_Encoding=encoding)


@pytest.mark.parametrize("encoding", ["identity", "GZIP"])
def test_encodings_that_are_known(stack, encoding):
    body = PACKED if encoding == "GZIP" else GOOD.encode()
    assert stack.client.v5(body, Content_Encoding=encoding)["results"]


def test_reply_too_large(limited):
    module = ["long", debug_id("long")]
    assert len(limited.client.frames(module, [0x1000] * 400)) == 400
    text = refused(limited, job([module], [[0, 0x1000]] * 1000))
    assert text == "reply too large: ask for fewer frames"
    text = refused(limited, job([module], [[0, 0x1000]] * 1000), path="/symbolicate/v4", Accept_Encoding="gzip")
    assert text == "reply too large: ask for fewer frames"


# Routes and methods

UNKNOWN = ["/nothing", "/symbolicate", "/symbolicate/v3", "/symbolicate/v6", "/symbolicate/v5/x", "/symbolicate/v55",
           "/SYMBOLICATE/V5", "/__heartbeat", "/__version__x", "/cache", "/cache/", "/cache/a", "/favicon.ico", "/%00", "/é",
           "/.git/config", "/symbolicate%2Fv5x", "/index.html"]  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
@pytest.mark.parametrize("path", UNKNOWN)
def test_unknown_route(stack, path, method):
    if path in ("/cache", "/cache/", "/cache/a"):
        want = (404, 405)
    elif path in ("/%00", "/é"):
        want = (404, 400)  # nginx refuses some of them itself
    else:
        want = (404,)
    reply = stack.client.request(method, path.replace("é", "%c3%a9"))
    assert reply.status in want, reply
    assert reply.headers["Access-Control-Allow-Origin"] == "*"
    if method == "HEAD":
        assert reply.raw == b""
    else:
        reply.error(reply.status)


ROUTES = ["/symbolicate/v5", "/symbolicate/v4", "/symbolicate/text", "/asm/v1", "/source/v1", "/api/symbols-ranges", "/api/symbols-returnpads", f"/api/symbols/{'0' * 32}",
          "/cache/a/12", "/__lbheartbeat__", "/__heartbeat__", "/__version__", "/__metrics__", "/__broken__", "/nothing"]  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ROUTES)
def test_scripts_may_read_two_headers_of_every_reply(stack, path, method):
    reply = stack.client.request(method, path)
    assert reply.headers.get_all("Access-Control-Expose-Headers") == ["X-Request-Id, Retry-After, X-Frames"], reply


@pytest.mark.parametrize("path", ["/symbolicate/v5/", "//symbolicate/v5"])
def test_a_slash_more(stack, path):
    assert stack.client.post(path, GOOD).json() == stack.client.v5(GOOD)


@pytest.mark.parametrize("path", ["/../../etc/passwd", "/symbolicate/../../etc/passwd", "//", "/symbolicate//v5", "/symbolicate/./v4"])
def test_dots_and_slashes_lead_nowhere(stack, path):
    answer = raw_exchange(stack.node.nginx.port, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert raw_status(answer) in (200, 302, 400, 404, 405)  # 302: from / to the page
    assert b"root:" not in answer
    if raw_status(answer) not in (200, 302):
        assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["status"] == raw_status(answer)


METHODS = [
    ("/symbolicate/v5", ["GET", "HEAD", "PUT", "DELETE", "PATCH"], {"POST", "OPTIONS"}),
    ("/symbolicate/v4", ["GET", "HEAD", "PUT", "DELETE", "PATCH"], {"POST", "OPTIONS"}),
    ("/", ["PUT", "DELETE", "PATCH"], {"POST", "OPTIONS"}),  # GET and HEAD are nginx's
    ("/cache/app/" + APP[1], ["GET", "POST", "PUT", "PATCH"], {"DELETE"}),
    ("/__lbheartbeat__", ["POST", "PUT", "DELETE"], {"GET", "HEAD"}),
    ("/__heartbeat__", ["POST", "DELETE"], {"GET", "HEAD"}),
    ("/__version__", ["POST", "DELETE"], {"GET", "HEAD"}),
    ("/__metrics__", ["POST", "DELETE"], {"GET", "HEAD"}),
    ("/__broken__", ["POST", "DELETE"], {"GET", "HEAD"}),
]


@pytest.mark.parametrize(
    "path, method, allowed", [(p, m, a) for p, methods, a in METHODS for m in methods], ids=lambda v: v if isinstance(v, str) else ""
)
def test_wrong_method(stack, path, method, allowed):
    reply = stack.client.request(method, path, b"{}" if method in ("POST", "PUT", "PATCH") else None)
    assert reply.status == 405, reply
    assert allowed <= {m.strip() for m in reply.headers["Allow"].split(",")}
    assert method not in reply.headers["Allow"]
    assert reply.headers["Access-Control-Allow-Origin"] == "*"
    if method != "HEAD":
        reply.error(405)


@pytest.mark.parametrize("method", ["BREW", "get", "TRACE", "CONNECT"])
def test_strange_methods(stack, method):
    answer = raw_exchange(
        stack.node.nginx.port, f"{method} /symbolicate/v5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
    )
    assert raw_status(answer) in (400, 405), answer[:300]
    assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["status"] == raw_status(answer)


RAW = {
    "no request": b"nonsense\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two lengths": b"POST /symbolicate/v5 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\nConnection: close\r\n\r\n{}",
    "negative length": b"POST /symbolicate/v5 HTTP/1.1\r\nHost: x\r\nContent-Length: -2\r\nConnection: close\r\n\r\n{}",
    "long uri": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "long header": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    "bad chunk": b"POST /symbolicate/v5 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\n{}\r\n",
    "unknown transfer encoding": b"POST /symbolicate/v5 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: rot13\r\nConnection: close\r\n\r\n{}",
    "version": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("kind", RAW)
def test_what_nginx_refuses_is_json_too(stack, kind):
    try:
        answer = raw_exchange(stack.node.nginx.port, RAW[kind])
    except ConnectionResetError:
        pytest.fail("closed without an answer")
    assert raw_status(answer) in (400, 411, 414, 494, 501, 505), answer[:300]
    headers, body = answer.split(b"\r\n\r\n", 1)
    assert b"access-control-allow-origin: *" in headers.lower()
    value = json.loads(body)
    assert value["error"] and value["title"] and 400 <= value["status"] < 600


def test_plain_http_to_the_tls_port(stack):
    answer = raw_exchange(stack.node.nginx.tls_port, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert raw_status(answer) in (400, 497)
    json.loads(answer.split(b"\r\n\r\n", 1)[1])


def test_head_has_the_headers_of_get(stack):
    for path in ("/symbolicate/", "/__lbheartbeat__", "/__version__", "/__heartbeat__"):
        get, head = stack.client.get(path), stack.client.request("HEAD", path)
        assert (get.status, head.status) == (200, 200), path
        assert head.raw == b"" and get.raw
        assert head.headers["Content-Type"] == get.headers["Content-Type"]


def test_nothing_was_hurt(stack):
    still_works(stack)
