# SPDX-License-Identifier: Apache-2.0
"""The project's nginx files on a public site: clients that take all they can get, balancers that believe everything, and a site
with headers of its own."""

import concurrent.futures
import contextlib
import os
import re
import select
import socket
import ssl

import pytest

import http2
from local_nginx import OWN_SERVER
from stack import wait_for
from test_nginx_errors import SLOW_RATE, SMALL_BURST, Front, check_error

# Clients have the addresses that they say.
ANYBODY = "set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;"
HSTS = "max-age=63072000"
# A site that adds headers to all that it has, with symbolicated's line for them.
OWN_HEADERS = OWN_SERVER + f"""
		add_header Access-Control-Allow-Origin * always;
		add_header Strict-Transport-Security "{HSTS}" always;
"""
KEEP_HSTS = ("symbolicated.d/headers.conf", "#add_header", "add_header")


@contextlib.contextmanager
def clients(*changes, **options):
    """An nginx before which everybody has the address that X-Forwarded-For says."""
    with Front("clients", http=ANYBODY, changes=changes, **options) as front:
        yield front


def statuses(front, addresses, path="/symbolicate/v5"):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda a: front.client.get(path, X_Forwarded_For=a).status, addresses))


# Who is a client


def test_600_addresses_of_one_network_are_one_client():
    with clients(SLOW_RATE) as front:
        found = statuses(front, [f"2001:db8:0:7::{i:x}" for i in range(1, 601)])
        assert found.count(200) == 201 and found.count(429) == 399  # one, and a burst of 200


def test_other_networks_are_other_clients():
    with clients(SLOW_RATE, SMALL_BURST) as front:
        assert set(statuses(front, [f"2001:db8:0:{i:x}::1" for i in range(100)])) == {200}
        assert set(statuses(front, [f"203.0.113.{i}" for i in range(100)])) == {200}


def test_ipv4_addresses_in_ipv6_are_not_one_network():
    with clients(SLOW_RATE, SMALL_BURST) as front:
        assert set(statuses(front, [f"::ffff:203.0.113.{i}" for i in range(100)])) == {200}
        assert statuses(front, ["::ffff:198.51.100.1"] * 10).count(429) == 7


@pytest.mark.parametrize("rest", [":a", "a0a:a0a:a0a:a0a"])  # bytes that a regular expression may take for the end of a line
def test_an_address_may_have_any_bytes(rest):
    with clients(SLOW_RATE, SMALL_BURST) as front:
        assert statuses(front, [f"a0a:a0a:a0a:a0a:{rest}", "a0a:a0a:a0a:a0a::1"] * 5).count(429) == 7


# The allow list


def test_a_balancer_that_passes_forwarded_for_makes_nobody_loopback():
    """The balancer is 127.0.0.1, and not on the list."""
    with clients(("symbolicated.d/allow.conf", r"127\.0\.0\.0/8 1;", "127.0.0.2/32 1;")) as front:
        for page in ("/__heartbeat__", "/__broken__", "/__metrics__"):
            check_error(front.client.get(page, X_Forwarded_For="127.0.0.2"), 403)
            check_error(front.client.get(page, X_Forwarded_For="::1"), 403)


def test_who_comes_through_a_balancer_on_the_list_is_judged_by_its_own_address():
    with clients() as front:
        assert front.client.get("/__metrics__", X_Forwarded_For="127.0.0.2").status == 200
        check_error(front.client.get("/__metrics__", X_Forwarded_For="203.0.113.1"), 403)


# How much at a time


@contextlib.contextmanager
def held(front, count, request):
    """Connections that have sent as much of a request, and read nothing yet."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_connection(("127.0.0.1", front.port), timeout=30)) for _ in range(count)]
        for s in sockets:
            s.sendall(request)
        yield sockets


def head(address, *lines, method="POST", path="/symbolicate/v5"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", f"X-Forwarded-For: {address}", *lines, "", ""]).encode()


def test_a_client_has_16_requests_at_a_time():
    with clients() as front:
        with held(front, 16, head("203.0.113.1", "Do: silence", method="GET")):
            wait_for(lambda: front.responders[0].requests == 16, "16 requests to arrive")
            check_error(front.client.get("/symbolicate/v5", X_Forwarded_For="203.0.113.1"), 429, "1")
            assert front.client.get("/symbolicate/v5", X_Forwarded_For="203.0.113.2").status == 200


def test_a_client_fetches_four_symbol_files_at_a_time():
    path = "/app/AB0/app.sym"
    with clients() as front:
        with held(front, 4, head("203.0.113.1", "Do: silence", method="GET", path=path)):
            wait_for(lambda: front.responders[0].requests == 4, "four requests to arrive")
            check_error(front.client.get(path, X_Forwarded_For="203.0.113.1"), 429, "1")
            assert front.client.get(path, X_Forwarded_For="203.0.113.2").status == 200
            assert front.client.get("/symbolicate/v5", X_Forwarded_For="203.0.113.1").status == 200


@pytest.mark.parametrize("line", ["Content-Length: 2000000", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("path", ["/symbolicate/v5", "/api/symbols-ranges"])
def test_a_client_sends_three_large_bodies_at_a_time(path, line):
    with clients() as front, held(front, 10, head("203.0.113.1", line, path=path)) as sockets:

        def refused():
            return [s for s in sockets if select.select([s], [], [], 0)[0]]

        wait_for(lambda: len(refused()) == 7, "seven of ten to be refused")
        assert {s.recv(100).split()[1] for s in refused()} == {b"429"}
        small = front.client.post(path, bytes(1_999_999), X_Forwarded_For="203.0.113.1")
        assert small.status == 200 and small.json()["body"] == 1_999_999


@pytest.mark.parametrize("path", ["/symbolicate/v5", "/api/symbols/AA"])
@pytest.mark.parametrize("size,status", [(64 << 10, 200), ((64 << 10) + 1, 413)])
def test_a_get_by_http2_has_no_large_body(path, size, status):
    """It needs no Content-Length, and so is not counted among the large ones."""
    with clients() as front:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        with socket.create_connection(("127.0.0.1", front.tls_port), timeout=30) as plain, context.wrap_socket(plain) as s:
            s.sendall(http2.BEGIN + http2.request(1, "GET", path, {}, bytes(size)))
            with s.makefile("rb") as data:
                assert http2.status(data) == status


# What is written


def test_refusals_are_in_the_access_log_and_not_among_errors():
    with clients(SLOW_RATE, SMALL_BURST) as front:
        found = statuses(front, ["203.0.113.1"] * 200)
        assert found.count(429) == 197
        with held(front, 20, head("203.0.113.2", "Do: silence", method="GET")):
            pass
        with open(front.error_log_path(), encoding="utf-8") as f:
            levels = set(re.findall(r"^\S+ \S+ \[(\w+)\]", f.read(), re.M))
        assert levels <= {"info", "notice"}
        with open(os.path.join(front.directory, "access.log"), encoding="utf-8") as f:
            assert f.read().count('" 429 ') >= 197


# The site's headers


@pytest.fixture(scope="module")
def own_headers():
    with Front("headers", server=OWN_HEADERS, changes=[KEEP_HSTS]) as front:
        yield front


@pytest.mark.parametrize(
    "method,path,do,status",
    [
        ("GET", "/symbolicate/v5", "echo", 200),
        ("GET", "/symbolicate/v5", "status:404", 404),
        ("POST", "/symbolicate/v5", "hang-up", 502),
        ("POST", "/api/symbols-ranges", "hang-up", 502),
        ("GET", "/__version__", "echo", 200),
    ],
)
def test_one_allow_origin_and_the_sites_hsts(own_headers, method, path, do, status):
    reply = own_headers.client.request(method, path, None, {"Do": do})
    assert reply.status == status
    assert reply.headers.get_all("Access-Control-Allow-Origin") == ["*"]
    assert reply.headers.get_all("Strict-Transport-Security") == [HSTS]


@pytest.mark.parametrize("path,status", [("/symbolicate/", 200), ("/symbolicate/page/site.json", 200), ("/symbolicate/page/none", 404), ("/", 302)])
def test_the_page_keeps_the_sites_hsts(own_headers, path, status):
    reply = own_headers.client.get(path)
    assert reply.status == status
    assert reply.headers.get_all("Strict-Transport-Security") == [HSTS]


def test_without_the_sites_header_there_is_one_allow_origin_too():
    with Front("no-headers") as front:
        assert front.client.get("/__version__").headers.get_all("Access-Control-Allow-Origin") == ["*"]
