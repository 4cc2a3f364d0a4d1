# SPDX-License-Identifier: Apache-2.0
"""Symbol files in S3: versitygw is the server, and for what it cannot show a server that checks signatures itself."""

import gzip
import os
import signal
import sys

import pytest

from client import job
from s3 import ACCESS, BUCKET, S3, SECRET, KeyServices, Watcher, program_or_fail, signature
from stack import Stack, wait_for
from symbols import SAMPLE, SAMPLE_FRAMES, TOOLS, debug_id, module_line

sys.path.insert(0, TOOLS)
from plain_symbfile import write  # noqa: E402

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
    server = S3(tmp_path_factory.mktemp("s3"), program_or_fail())
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


def test_the_heartbeat_fails_where_every_load_fails(s3):
    wrong = s3.credentials("wrong-heartbeat", secret="wrong-secret")
    for source, keys, reason in (("s3://nowhere", s3.credentials(), "NoSuchBucket"), (f"s3://{BUCKET}", wrong, "SignatureDoesNotMatch")):
        with stack_of(source, **s3.settings(), s3_credentials_file=keys) as stack:
            text = stack.client.get("/__heartbeat__").error(503)["error"]
            assert source in text and reason in text
            is_unavailable(stack, ["any.so", debug_id("any.so")], reason)
            assert stack.client.get("/__lbheartbeat__").status == 200


@pytest.mark.in_turn
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


@pytest.mark.in_turn
def test_wrong_secret(s3):
    module = s3.symbols("").add("secret.so", SAMPLE)
    settings = {**s3.settings(), "s3_credentials_file": s3.credentials("wrong", secret="wrong-secret")}
    with stack_of(f"s3://{BUCKET}", **settings) as stack:
        is_unavailable(stack, module, "HTTP status 403, SignatureDoesNotMatch")


def test_a_file_of_keys_that_changes_is_read_again(s3):
    """Temporary keys are written anew by whoever gave them; a half written file changes nothing."""
    modules = [s3.symbols("").add(f"rotated-{i}.so", SAMPLE) for i in range(3)]
    path = s3.credentials("rotated", secret="wrong-secret")
    with stack_of(f"s3://{BUCKET}", **s3.settings(), s3_credentials_file=path) as stack:
        is_unavailable(stack, modules[0], "HTTP status 403, SignatureDoesNotMatch")
        s3.credentials("rotated")
        wait_for(lambda: ask(stack, modules[0]).status == 200, "the new keys", pause=0.1)
        with open(path, "w", encoding="utf-8") as out:
            out.write(f"[default]\naws_access_key_id = {ACCESS}\n")
        are_found(ask(stack, modules[1]), modules[1])
        os.remove(path)
        are_found(ask(stack, modules[2]), modules[2])


@pytest.mark.in_turn
def test_unknown_key(s3):
    module = s3.symbols("").add("unknown.so", SAMPLE)
    settings = {**s3.settings(), "s3_credentials_file": s3.credentials("unknown", access="nobody")}
    with stack_of(f"s3://{BUCKET}", **settings) as stack:
        is_unavailable(stack, module, "HTTP status 404, XAdminUserNotFound")


@pytest.mark.in_turn
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
        wait_for(lambda: ask(stack, after).status == 200, "the module after its bucket came back", pause=0.1)
        are_found(ask(stack, after), after)


@pytest.mark.slow
def test_uploads_in_memory_answer_while_the_store_hangs(s3):
    """Without memcached one request in each revalidate_after waits for the store, the others do not."""
    ident = "6b" * 16
    settings = {**s3.settings(), "s3_credentials_file": s3.credentials(), "symbfile_store": f"s3://{BUCKET}/hangs", "source": f"s3://{BUCKET}"}
    waits = {"revalidate_after": "4s", "bucket_stall_timeout": "5s", "bucket_retries": "0"}
    with Stack(keys=True, bucket=False, memcached=0, config={**QUICK, **settings, **waits}) as stack:
        body = write([{"t": "range", "va": "0x1000", "len": 16, "depth": 0, "func": "f", "file": "/a.c", "lines": [[0, 1]]}])
        headers = {"FileID": ident, "FilePart": "0", "FileParts": "1", "Authorization": stack.key}
        assert stack.client.request("POST", "/api/symbols-ranges", body, headers).status == 200

        def answered():
            assert stack.client.frames(["prog", ident], [0x1000])[0]["function"] == "f"
            return stack.node.metrics()['symbolicated_downloads_total{outcome="failed"}']

        before = answered()
        s3.signal(signal.SIGSTOP)
        try:
            wait_for(lambda: answered() > before, "a look into the store that fails")
            assert answered() == before + 1
        finally:
            s3.signal(signal.SIGCONT)


# What a server that looks closely sees


def only_request(watcher, module):
    requests = [r for r in watcher.requests if module[1] in r[1]]
    assert len(requests) == 1, watcher.requests
    return requests[0]


@pytest.mark.in_turn
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


@pytest.mark.slow
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


SOURCES_OF_KEYS = ["instance", "container", "web identity"]


def keys_from(services, kind, tmp_path, monkeypatch):
    """Settings for keys of that kind; the environment is set."""
    variables, settings = services.environment(kind, str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return settings


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES_OF_KEYS)
def test_keys_of_a_service_and_their_end(kind, tmp_path, monkeypatch):
    """They are asked for once, and again before they are over."""
    modules = [[f"service-{i}.so", debug_id(f"service {kind}")] for i in range(200)]
    with KeyServices(seconds=4) as services, Watcher() as watcher:
        settings = keys_from(services, kind, tmp_path, monkeypatch)
        with stack_of(f"s3://{BUCKET}", s3_endpoint=watcher.url, bucket_retries="0", **settings) as stack:
            left = iter(modules)

            def renewed():
                ask(stack, next(left))
                return services.given >= 3

            wait_for(renewed, "keys that were asked for twice more", pause=0.1)
            used = [headers["x-amz-security-token"] for _, _, headers in watcher.requests]
            for method, target, headers in watcher.requests:
                _, given, right = signature(method, target, headers, SECRET, "us-east-1")
                assert given == right
    assert used[0] == "token-1" and "token-2" in used and used == sorted(used)
    assert services.given <= len(set(used)) + 1 < len(used)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES_OF_KEYS)
def test_a_service_without_keys(kind, tmp_path, monkeypatch):
    module = ["nokeys.so", debug_id("nokeys")]
    with KeyServices() as services, Watcher(module_line(*module) + SAMPLE.encode()) as watcher:
        settings = keys_from(services, kind, tmp_path, monkeypatch)
        services.status = 500
        with stack_of(f"s3://{BUCKET}", s3_endpoint=watcher.url, **settings) as stack:
            is_unavailable(stack, module, "HTTP status 500")
            assert not watcher.requests
            services.status = 200
            wait_for(lambda: ask(stack, module).status == 200, "the module when its service gives keys", pause=0.1)
            with open(stack.daemon.log, encoding="utf-8") as log:
                text = log.read()
            assert SECRET not in text and "token-1" not in text and services.TOKEN not in text and services.IDENTITY[:20] not in text


@pytest.mark.slow
def test_many_that_need_keys_ask_once(tmp_path, monkeypatch):
    modules = [[f"many-{i}.so", debug_id("many")] for i in range(64)]
    with KeyServices() as services, Watcher() as watcher:
        settings = keys_from(services, "container", tmp_path, monkeypatch)
        with stack_of(f"s3://{BUCKET}", s3_endpoint=watcher.url, **settings) as stack:
            ask(stack, *modules)
            assert services.given == 1 and watcher.requests


@pytest.mark.slow
def test_the_metadata_service_is_asked_only_when_the_settings_say_so(tmp_path, monkeypatch):
    module = ["noinstance.so", debug_id("noinstance")]
    with KeyServices() as services, Watcher(module_line(*module) + SAMPLE.encode()) as watcher:
        keys_from(services, "instance", tmp_path, monkeypatch)
        with stack_of(f"s3://{BUCKET}", s3_endpoint=watcher.url) as stack:
            assert ask(stack, module).json()["results"][0]["found_modules"]["/".join(module)] is True
        assert not services.asked
