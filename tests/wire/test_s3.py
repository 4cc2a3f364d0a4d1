"""Symbol files in S3: versitygw is the server, and for what it cannot show a server that checks signatures itself."""

import gzip
import os

import pytest

from client import job
from s3 import ACCESS, BUCKET, S3, SECRET, Watcher, program_or_skip, signature
from stack import Stack, wait_for
from symbols import SAMPLE, SAMPLE_FRAMES, debug_id, module_line

PREFIX, ENCODED = "pre fix/a+b~%é", "pre%20fix/a+b~%25é"
NAMES = [
    "plain.so", "with blank.so", "a+b.so", "a~b.so", "100%.so", "%41.so", "%2F.so", "é.so", "名前.pdb", "a&b=c;d.so", "a:b@c,d$e.so",
    "(a)!*'.so", "[a]{b}|^`.so", "#a?b.so", '"<a>".so', "a  b.so", "-_.so", "..a.so",
]  # fmt: skip
QUICK = {"failure_ttl_min": "100ms", "failure_ttl_max": "500ms"}


@pytest.fixture(autouse=True)
def no_keys_around(monkeypatch):
    """What the machine's environment says of AWS is none of these tests' business."""
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    server = S3(tmp_path_factory.mktemp("s3"), program_or_skip())
    server.start()
    yield server
    server.stop()


def stack_of(source, **settings):
    return Stack(bucket=False, config={**QUICK, "source": source, **settings})


def ask(stack, *modules):
    return stack.client.post("/symbolicate/v5", job(modules, [[i, 0x1014] for i in range(len(modules))]))


def are_found(reply, *modules):
    assert reply.status == 200, reply
    result = reply.json()["results"][0]
    assert result["found_modules"] == {"/".join(m): True for m in modules}
    for i, (module, frame) in enumerate(zip(modules, result["stacks"][0])):
        assert frame == {"frame": i, "module": module[0], "module_offset": "0x1014", **SAMPLE_FRAMES[0x1014]}


def are_missing(reply, *modules):
    assert reply.status == 200, reply
    assert reply.json()["results"][0]["found_modules"] == {"/".join(m): False for m in modules}


def is_unavailable(stack, module, reason):
    """503, and the log says why without giving anything away."""
    reply = ask(stack, module)
    reply.error(503)
    assert int(reply.headers["Retry-After"]) >= 1
    lines = [line for line in stack.daemon.log_lines() if module[0] in str(line)]
    assert any(reason in str(line) for line in lines), "\n".join(map(str, lines))
    with open(stack.daemon.log, encoding="utf-8") as log:
        text = log.read()
    assert SECRET not in text and "wrong-secret" not in text and "AWS4" not in text


@pytest.mark.parametrize("addressing", ["path", "virtual"])
def test_keys_of_every_kind(s3, addressing):
    symbols = s3.symbols(PREFIX)
    body = SAMPLE.replace("INFO CODE_ID 5CF2591C6859000\n", "")
    modules = [symbols.add(name, body, compress=i % 2 == 1) for i, name in enumerate(NAMES)]
    absent = [[name, debug_id("absent")] for name in NAMES]
    settings = {**s3.settings(addressing), "s3_credentials_file": s3.credentials()}
    with stack_of(f"s3://{BUCKET}/{ENCODED}", **settings) as stack:
        are_found(ask(stack, *modules), *modules)
        are_missing(ask(stack, *absent), *absent)
        assert stack.client.get("/__heartbeat__").status == 200


def test_keys_from_the_environment(s3, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.settings()["s3_endpoint"])
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    module = s3.symbols("").add("environment.so", SAMPLE)
    with stack_of(f"s3://{BUCKET}") as stack:
        are_found(ask(stack, module), module)


def test_keys_of_a_profile(s3):
    module = s3.symbols("").add("profile.so", SAMPLE)
    settings = {**s3.settings(), "s3_credentials_file": s3.credentials("profiles", profile="symbols"), "s3_profile": "symbols"}
    with stack_of(f"s3://{BUCKET}", **settings) as stack:
        are_found(ask(stack, module), module)


def test_wrong_secret(s3):
    module = s3.symbols("").add("secret.so", SAMPLE)
    settings = {**s3.settings(), "s3_credentials_file": s3.credentials("wrong", secret="wrong-secret")}
    with stack_of(f"s3://{BUCKET}", **settings) as stack:
        is_unavailable(stack, module, "HTTP status 403, SignatureDoesNotMatch")


def test_unknown_key(s3):
    module = s3.symbols("").add("unknown.so", SAMPLE)
    settings = {**s3.settings(), "s3_credentials_file": s3.credentials("unknown", access="nobody")}
    with stack_of(f"s3://{BUCKET}", **settings) as stack:
        is_unavailable(stack, module, "HTTP status 404, XAdminUserNotFound")


def test_wrong_region(s3):
    module = s3.symbols("").add("region.so", SAMPLE)
    settings = {**s3.settings(), "s3_credentials_file": s3.credentials(), "s3_region": "eu-west-3"}
    with stack_of(f"s3://{BUCKET}", **settings) as stack:
        is_unavailable(stack, module, "AuthorizationHeaderMalformed")


def test_a_bucket_that_is_not_there_is_not_a_missing_file(s3):
    module = ["nobucket.so", debug_id("nobucket")]
    settings = {**s3.settings(), "s3_credentials_file": s3.credentials()}
    with stack_of("s3://nobody-has-this", **settings) as stack:
        is_unavailable(stack, module, "HTTP status 404, NoSuchBucket")


def test_403_without_keys_is_a_missing_file(s3):
    module = s3.symbols("").add("anonymous.so", SAMPLE)
    with stack_of(f"s3://{BUCKET}", **s3.settings()) as stack:
        are_missing(ask(stack, module), module)


def test_a_key_that_is_too_long_is_a_missing_file(s3):
    modules = [["x" * length, debug_id("long")] for length in (300, 500, 1000)]
    settings = {**s3.settings(), "s3_credentials_file": s3.credentials()}
    with stack_of(f"s3://{BUCKET}", **settings) as stack:
        are_missing(ask(stack, modules[1]), modules[1])
        are_missing(ask(stack, modules[2]), modules[2])


def test_the_server_goes_and_comes_back(s3):
    before, after = (s3.symbols("").add(f"{when}.so", SAMPLE) for when in ("before", "after"))
    settings = {**s3.settings(), "s3_credentials_file": s3.credentials()}
    with stack_of(f"s3://{BUCKET}", **settings) as stack:
        are_found(ask(stack, before), before)
        s3.stop()
        ask(stack, after).error(503)
        s3.start(s3.port)
        wait_for(lambda: ask(stack, after).status == 200, "the module after its bucket came back", 30, 0.1)
        are_found(ask(stack, after), after)


# What a server that looks closely sees


def only_request(watcher, module):
    requests = [r for r in watcher.requests if module[1] in r[1]]
    assert len(requests) == 1, watcher.requests
    return requests[0]


@pytest.mark.parametrize("name", NAMES)
def test_signature(name, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a/session+token==")
    module = [name, debug_id(name)]
    with Watcher(gzip.compress(module_line(*module) + SAMPLE.encode())) as watcher:
        with stack_of(f"s3://{BUCKET}/{ENCODED}", s3_endpoint=watcher.url, s3_region="eu-west-3") as stack:
            assert ask(stack, module).json()["results"][0]["found_modules"]["/".join(module)] is True
        method, target, headers = only_request(watcher, module)
    signed, given, right = signature(method, target, headers, SECRET, "eu-west-3")
    assert given == right
    assert {"host", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"} <= set(signed)
    assert headers["x-amz-security-token"] == "a/session+token=="


def test_unsigned_without_keys():
    module = ["unsigned.so", debug_id("unsigned")]
    with Watcher(module_line(*module) + SAMPLE.encode()) as watcher:
        with stack_of(f"s3://{BUCKET}", s3_endpoint=watcher.url) as stack:
            assert ask(stack, module).json()["results"][0]["found_modules"]["/".join(module)] is True
        _, target, headers = only_request(watcher, module)
    assert target == f"/{BUCKET}/unsigned.so/{module[1]}/unsigned.so.sym"
    assert not [name for name in headers if name.lower().startswith(("authorization", "x-amz"))]


@pytest.mark.parametrize("status", [301, 307])
def test_signatures_are_not_sent_elsewhere(status, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    module = ["redirect.so", debug_id("redirect")]
    with Watcher(module_line(*module) + SAMPLE.encode()) as elsewhere:
        with Watcher(status=status, headers=[("Location", elsewhere.url + "/")]) as watcher:
            with stack_of(f"s3://{BUCKET}", s3_endpoint=watcher.url) as stack:
                is_unavailable(stack, module, f"HTTP status {status}")
        assert not elsewhere.requests
