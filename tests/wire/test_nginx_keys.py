# SPDX-License-Identifier: Apache-2.0
"""nginx asks the responder for the key of a large upload before it reads its body: a stranger's fills no disk."""

import http.client
import socket
import ssl

import pytest

from client import Client, Reply
from stack import Nginx, Stack
from test_nginx_errors import check_error

LARGE = 60 << 20
PLACES = [("POST", "/api/symbols-ranges"), ("PUT", "/api/sym/a.pdb/0123456789ABCDEF0123456789ABCDEF1/a.sym"), ("POST", "/upload/")]


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    for name in ("symbfiles", "syms"):
        (folder / name).mkdir()
    with Stack(keys=True, config={"symbfile_store": f"file://{folder}/symbfiles", "sym_store": f"file://{folder}/syms"}) as s:
        yield s


def before_its_body(stack, method, path, *lines):
    """The answer to the head of a request alone."""
    with socket.create_connection(("127.0.0.1", stack.node.nginx.port), timeout=30) as s:
        s.sendall("\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *lines, "", ""]).encode())
        with http.client.HTTPResponse(s) as reply:
            reply.begin()
            return Reply(reply.status, reply.headers, reply.read())


@pytest.mark.parametrize("method,path", PLACES)
@pytest.mark.parametrize("length", [f"Content-Length: {LARGE}", "Transfer-Encoding: chunked"])
def test_a_large_upload_without_a_key_is_refused_before_its_body(stack, method, path, length):
    reply = before_its_body(stack, method, path, length)
    assert reply.status == 401 and reply.headers["WWW-Authenticate"] == "APIKey"
    assert reply.headers.get_all("Access-Control-Allow-Origin") == ["*"]
    reply = before_its_body(stack, method, path, length, "Authorization: APIKey bm90OmFrZXk=")
    assert reply.status == 403 and "key" in reply.text


@pytest.mark.parametrize("length,status", [(LARGE, 401), (LARGE + (10 << 20), 413)])
def test_who_sends_all_of_a_body_before_it_reads_gets_the_answer(stack, length, status):
    """As Python's requests does. nginx reads what it refuses: where it closes instead, TLS loses the answer."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", stack.node.nginx.tls_port, timeout=30, context=context)
    connection.request("POST", "/api/symbols-ranges", bytes(length))
    reply = connection.getresponse()
    assert reply.status == status and b'"success":false' in reply.read()
    connection.close()


def test_keys_of_either_header_are_taken(stack):
    """And then the body is read: that it is no upload is told by the responder."""
    for (method, path), header in zip(PLACES, ("Authorization", "Authorization", "Auth-Token")):
        key = stack.key if header == "Authorization" else stack.key.removeprefix("APIKey ")
        reply = stack.client.request(method, path, bytes(3_000_000), {header: key})
        assert reply.status == 400, (path, reply)


def test_a_small_upload_without_a_key_gets_the_responders_own_words(stack):
    reply = stack.client.post("/api/symbols-ranges", b"x")
    assert reply.status == 401 and reply.json()["error"]["Text"] != "authorization is required"


def test_a_large_upload_to_nobody_is_told_so(stack):
    stack.daemon.crash()
    try:
        check_error(stack.client.post("/upload/", bytes(3_000_000)), 502, "1")
    finally:
        stack.daemon.start()


def test_the_question_is_not_to_be_had_from_outside(stack):
    assert stack.client.get("/_symbolicated_key").status == 404
    assert stack.client.get("/api/key").status == 404


def test_a_cache_of_the_site_keeps_no_answer_to_a_key(stack):
    """The stranger's 401 went to the key's holder."""
    cache = (
        "fastcgi_cache_path cache keys_zone=site:1m; fastcgi_cache site; fastcgi_cache_key $request_uri; fastcgi_cache_valid any 10m;"
        "fastcgi_ignore_headers Cache-Control Expires Set-Cookie Vary; fastcgi_cache_methods GET HEAD POST;"
    )
    nginx = Nginx("cached", stack.directory, stack.daemon.socket, http=cache)
    nginx.start()
    try:
        client = Client(nginx.port)
        for method, path in PLACES[:2]:
            assert client.request(method, path, bytes(3_000_000)).status == 401
            assert client.request(method, path, bytes(3_000_000), {"Authorization": stack.key}).status == 400
    finally:
        nginx.stop()
