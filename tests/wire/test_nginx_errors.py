# SPDX-License-Identifier: Apache-2.0
"""The project's nginx files by themselves: nginx before a responder that obeys, every error that nginx makes, and a site around
them that must not notice."""

import concurrent.futures
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

import pytest

from client import Client, Reply
from fcgi_responder import Responder
from stack import ROOT, Server, children, connects, free_port, opened, wait_for

sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))
import try_readme  # noqa: E402
from local_nginx import OWN_SERVER, make_share, nginx_command, write_nginx  # noqa: E402

# A site that had a life before symbolicated came: its own error page, a file, a page that fails.
SITE = """
		error_page 404 500 /site-error.html;
		root site;
		add_header X-Site yes;
		location / {
		}
		location = /fails {
			return 500;
		}
		location ~ \\.bin$ {
			return 200 "the site's own";
		}
"""
UPLOADS = ("/api/symbols-ranges", "/api/symbols-returnpads")
INSTALL = "/usr/local/share/symbolicated/nginx/install"  # as docs/nginx.md has it
# Nobody is on the allow list: loopback is a client as any other.
NOBODY_ALLOWED = ("symbolicated.d/allow.conf", r"127\.0\.0\.0/8 1;", "127.0.0.0/8 0;")
SLOW_RATE = ("symbolicated-http.conf", r"rate=50r/s", "rate=1r/m")
SMALL_BURST = ("symbolicated.d/limits.conf", r"burst=200", "burst=2")


class Front(Server):
    """nginx with the project's files, changed as an administrator would, before `responders` responders. edit: what a shell does
    with their `install` before nginx starts."""

    def __init__(self, name="nginx", responders=1, edit="", **options):
        super().__init__(name, tempfile.mkdtemp(prefix="sym-nginx-"))
        os.chmod(self.directory, 0o755)
        os.makedirs(os.path.join(self.directory, "site"))
        for file, text in (("site-error.html", "the site's error page"), ("page.html", "the site's page")):
            with open(os.path.join(self.directory, "site", file), "w", encoding="utf-8") as out:
                out.write(text)
        self.sockets = [os.path.join(self.directory, f"responder{i}.sock") for i in range(responders)]
        self.responders = [Responder(s) for s in self.sockets]
        self.edit, self.options = edit, options

    def start(self):
        self.port, self.tls_port = free_port(), free_port()
        conf = write_nginx(self.directory, self.sockets, self.port, self.tls_port, **self.options)
        if self.edit:
            install = make_share(os.path.join(self.directory, "share"), "0")
            subprocess.run(["sh", "-ec", self.edit.replace(INSTALL, f"{install} --force {self.directory}")], check=True)
        self.spawn(nginx_command(self.directory, conf))
        self.ready(lambda: connects(self.port) and connects(self.tls_port))

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            self.stop()
        finally:
            for responder in self.responders:
                if responder:
                    responder.stop()
            shutil.rmtree(self.directory, ignore_errors=True)

    def error_log_path(self):
        return os.path.join(self.directory, "error.log")

    def stop_responder(self, i):
        self.responders[i].stop()
        self.responders[i] = None

    @property
    def client(self):
        return Client(self.port)

    def raw(self, data):
        """The answer to bytes that no client library would send."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as s:
            s.sendall(data)
            with http.client.HTTPResponse(s) as reply:
                reply.begin()
                return Reply(reply.status, reply.headers, reply.read())


@pytest.fixture(scope="module")
def own():
    """A server that is symbolicated's alone."""
    with Front("own") as front:
        yield front


@pytest.fixture(scope="module")
def hasty():
    """The same, and a responder has but a second for its answer: for tests in which there is none."""
    timeouts = [("symbolicated.d/limits.conf", r"fastcgi_read_timeout \w+", "fastcgi_read_timeout 1s")]
    with Front("hasty", changes=timeouts) as front:
        yield front


@pytest.fixture(scope="module")
def site():
    """symbolicated's locations inside a server that has others."""
    with Front("site", server=SITE) as front:
        yield front


@pytest.fixture(scope="module")
def strict():
    """Nobody is allowed more than anybody else, and that is little."""
    with Front("strict", changes=[NOBODY_ALLOWED, SLOW_RATE, SMALL_BURST]) as front:
        yield front


def check_error(reply, status, retry_after=None):
    """An error that nginx made: the shape of ours, its headers once each, and an id that the log has too."""
    value = reply.error(status)
    assert value.keys() == {"error", "title", "status"}
    assert re.fullmatch(r"[0-9a-f]{32}", reply.headers["X-Request-Id"])
    assert reply.headers.get("Retry-After") == retry_after
    return value


def check_upload_error(reply, status):
    assert reply.status == status, reply
    value = reply.json()
    assert value == {
        "success": False,
        "uuid": re.sub("^(.{8})(.{4})(.{4})(.{4})", r"\1-\2-\3-\4-", reply.headers["X-Request-Id"]),
        "error": {"Code": str(status), "Text": value["error"]["Text"]},
        "status": status,
    }
    assert value["error"]["Text"]
    assert reply.headers["Access-Control-Allow-Origin"] == "*"


# What arrives


def test_the_params_that_the_responder_needs(own):
    reply = own.client.post("/symbolicate/v5?a=b%20c", b'{"a":1}', Debug="1", Content_Type="text/plain", User_Agent="me")
    got = reply.json()
    params = got["params"]
    assert got["body"] == 7
    assert params["REQUEST_METHOD"] == "POST"
    assert params["REQUEST_URI"] == "/symbolicate/v5?a=b%20c"
    assert params["CONTENT_TYPE"] == "text/plain"
    assert params["CONTENT_LENGTH"] == "7"
    assert params["REMOTE_ADDR"] == "127.0.0.1"
    assert re.fullmatch(r"[0-9a-f]{32}", params["REQUEST_ID"])
    assert params["HTTP_DEBUG"] == "1" and params["HTTP_USER_AGENT"] == "me"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_every_method_is_the_responders_matter(own, method):
    reply = own.client.request(method, "/symbolicate/v5", b"x" if method in ("POST", "PUT", "PATCH") else None)
    assert reply.status == 200
    if method != "HEAD":
        assert reply.json()["params"]["REQUEST_METHOD"] == method


@pytest.mark.parametrize(
    "path",
    ["/symbolicate", "/upload", "/upload/", "/api/sym", "/api/sym/", "/symbolicate/v4", "/symbolicate/nothing", "/asm/v1", "/source/v1", "/api/symbols-ranges",
     "/api/symbols-returnpads", "/api/symbols/AAAA", "/cache", "/cache/", "/cache/a.pdb/1F", "/cache/a%2Fb%20c/1f",
     "/__lbheartbeat__", "/__heartbeat__", "/__version__", "/__broken__", "/__metrics__"],
)  # fmt: skip
def test_paths_that_reach_the_responder_as_they_were_sent(own, path):
    assert own.client.get(path).json()["params"]["REQUEST_URI"] == path


def test_below_a_path_of_the_site_as_the_docs_say():
    """With docs/nginx.md's own commands."""
    with Front("below", server=SITE, edit=try_readme.section("Below a path of the site")) as front:
        for path in ("/symbolicate/v5?x=/symbols/", "/api/symbols/AAAA", "/cache/a%2Fb%20c/1f", "/__lbheartbeat__", "/__metrics__"):
            assert front.client.get("/symbols" + path).json()["params"]["REQUEST_URI"] == path
            reply = front.client.get(path)
            assert reply.status == 404 and reply.text == "the site's error page"
        check_error(front.client.post("/symbols/symbolicate/v5", b"{}", Do="hang-up"), 502, "1")
        check_upload_error(front.client.post("/symbols" + UPLOADS[0], b"x", Do="hang-up"), 502)


def test_nginx_warns_of_nothing(own, site, tmp_path):
    for front in (own, site):
        with open(front.error_log_path(), encoding="utf-8") as f:
            assert "[warn]" not in f.read()
    # the whole nginx.conf of the example, with a certificate that is there
    for name in os.listdir(own.directory):
        if name.endswith((".conf", ".pem")):
            shutil.copy(os.path.join(own.directory, name), tmp_path)
    (tmp_path / "snippets").symlink_to(own.directory)
    conf = tmp_path / "symbolicated-example.conf"
    text = re.sub(r"/etc/ssl/certs/\S+", f"{tmp_path}/cert.pem;", conf.read_text(encoding="utf-8"))
    text = re.sub(r"/etc/ssl/private/\S+", f"{tmp_path}/key.pem;", text)
    text = text.replace("/run/nginx.pid", f"{tmp_path}/pid").replace("/var/log/nginx/", f"{tmp_path}/")
    text = re.sub(r"^user .*", "", text, flags=re.M) if os.getuid() else text
    text = re.sub(r"listen (.*?)\b(80|443)\b", lambda m: f"listen {m[1]}{free_port()}", text)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    text = text.replace("sendfile on;", "sendfile on;" + "".join(f"{kind}_temp_path {tmp_path}/t;" for kind in kinds))
    conf.write_text(text, encoding="utf-8")
    command = ["nginx", "-t", "-p", tmp_path, "-c", conf, "-e", tmp_path / "e"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "[warn]" not in done.stderr, done.stderr


def test_chunked_body_arrives_with_its_length(own):
    reply = own.raw(
        b"POST /symbolicate/v5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
    )
    got = json.loads(reply.raw)
    assert got["body"] == 11 and got["params"]["CONTENT_LENGTH"] == "11"


def test_tls_is_the_same(own):
    assert Client(own.tls_port, tls=True).get("/symbolicate/v5").status == 200
    assert check_error(Client(own.tls_port, tls=True).get("/nothing"), 404)


@pytest.mark.parametrize("size", [32 << 20, 100 << 20])
def test_large_replies_pass_whole(own, size):
    reply = own.client.get("/symbolicate/v5", Do=f"size:{size}")
    assert reply.status == 200 and len(reply.raw) == size


def test_a_large_reply_waits_for_its_reader_and_in_no_file():
    """The responder is not done with 64 MB while the client reads nothing: it may be slow, nginx keeps but what its buffers hold."""
    with Front("slow") as front:
        connection = front.client.connect()
        connection.request("GET", "/symbolicate/v5", headers={"Do": f"size:{64 << 20}"})
        wait_for(lambda: front.responders[0].requests == 1, "the request to arrive")
        reply = connection.getresponse()
        assert reply.read(1 << 20) == b"x" * (1 << 20)
        assert front.responders[0].finished == 0
        assert not [name for name in nginx_files(front.process.pid) if "tmp-fastcgi" in name]
        assert len(reply.read()) == 63 << 20
        connection.close()


def test_a_slow_client_of_a_symbol_file_holds_no_responder(own):
    """The responder is done with 64 MB although the client has not read a byte: inside a transfer it cannot wait without a thread."""
    finished = own.responders[0].finished
    connection = own.client.connect()
    connection.request("GET", "/a.pdb/1F/a.sym", headers={"Do": f"size:{64 << 20}"})
    wait_for(lambda: own.responders[0].finished > finished, "the responder to be done")
    assert len(connection.getresponse().read()) == 64 << 20
    connection.close()


def nginx_files(pid):
    """What this nginx and its workers have open."""
    return [name for one in [pid, *children(pid)] for name in opened(one)]


def test_connections_to_the_responder_are_kept(own):
    client = Client(own.port, keep=True)
    client.get("/__version__")
    before = own.responders[0].connections
    for _ in range(50):
        assert client.get("/__version__").status == 200
    client.close()
    assert own.responders[0].connections - before <= 4  # one for each worker that took a turn, and some luck


# What the responder says stays


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 415, 429, 500, 503])
@pytest.mark.parametrize("path", ["/symbolicate/v5", "/api/symbols-ranges"])
def test_the_responders_own_errors_pass_untouched(own, path, status):
    reply = own.client.post(path, b"{}", Do=f"status:{status}")
    assert reply.status == status
    assert reply.json() == {"from": "responder"}
    for name, value in (
        ("Access-Control-Allow-Origin", "*"), ("X-Request-Id", "from-responder"), ("Retry-After", "77"), ("Allow", "NOTHING"),
    ):  # fmt: skip
        assert reply.headers.get_all(name) == [value]


# What nginx says


def test_404_outside_all_routes(own):
    check_error(own.client.get("/nothing/here"), 404)
    check_error(own.client.get("/_symbolicated_error"), 404)


def body_of(size):
    return b"x" * size


@pytest.mark.parametrize(
    "path,limit",
    [("/symbolicate/v5", 32 << 20), ("/", 32 << 20), ("/api/symbols-ranges", 64 << 20), ("/cache/a/1", 64 << 10)],
)
def test_413_by_length(own, path, limit):
    assert own.client.post(path, body_of(limit)).json()["body"] == limit
    reply = own.raw(f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {limit + 1}\r\n\r\n".encode())
    if path in UPLOADS:
        check_upload_error(reply, 413)
    else:
        check_error(reply, 413)


def test_413_of_a_chunked_body(own):
    chunk = b"%x\r\n%s\r\n" % (1 << 20, body_of(1 << 20))
    reply = own.client.request("POST", "/symbolicate/v5", None, {})  # the connection works at all
    assert reply.status == 200
    head = b"POST /cache/a/1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    check_error(own.raw(head + chunk), 413)


def test_413_with_expect_comes_before_the_body(own):
    reply = own.raw(
        b"POST /symbolicate/v5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\n"
        b"Content-Length: 99999999\r\n\r\n"
    )
    check_error(reply, 413)


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 5 << 20])
def test_504_of_a_silent_responder(hasty, size):
    check_error(hasty.client.post("/symbolicate/v5", body_of(size), Do="silence"), 504, "5")


@pytest.mark.parametrize("size", [0, 5 << 20])
def test_502_of_a_responder_that_hangs_up(own, size):
    check_error(own.client.post("/symbolicate/v5", body_of(size), Do="hang-up"), 502, "1")
    check_upload_error(own.client.post("/api/symbols-ranges", body_of(size), Do="hang-up"), 502)


def test_502_of_a_dead_socket_and_of_none():
    with Front("dead") as front:
        front.stop_responder(0)
        for _ in range(3):
            check_error(front.client.post("/symbolicate/v5", body_of(5 << 20)), 502, "1")
        check_upload_error(front.client.post("/api/symbols-returnpads", b"x"), 502)
        front.responders[0] = Responder(front.sockets[0])
        assert front.client.get("/__version__").status == 200  # at once: the failures are not held against it


def test_414(own):
    check_error(own.client.get("/symbolicate/" + "a" * 9000), 414)


@pytest.mark.parametrize(
    "data",
    [
        b"GET /symbolicate/v5 HTTP/1.1\r\n\r\n",  # no Host
        b"BAD\x01LINE\r\n\r\n",
        b"POST /symbolicate/v5 HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
        b"GET /symbolicate/v5 HTTP/1.1\r\nHost: x\r\nBig: " + b"a" * 9000 + b"\r\n\r\n",  # nginx's 494
        b"POST /symbolicate/v5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["no-host", "line", "length", "header", "chunk"],
)
def test_400(own, data):
    check_error(own.raw(data), 400)


def test_400_of_plain_http_on_the_tls_port(own):
    check_error(Client(own.tls_port).get("/symbolicate/v5"), 400)


PAGE = ("/symbolicate/", "/symbolicate/index.html?x", "/symbolicate/page/site.json")


@pytest.mark.parametrize("path", PAGE)
def test_options_of_the_page(own, path):
    """As Eliot and samply answer it for any path."""
    reply = own.client.request("OPTIONS", path, headers={"Origin": "https://example.org", "Access-Control-Request-Method": "GET"})
    assert (reply.status, reply.json(), reply.headers["Allow"]) == (200, {}, "GET, HEAD, OPTIONS")
    assert reply.headers["Access-Control-Allow-Methods"] == "GET, HEAD, OPTIONS" and reply.headers["Access-Control-Allow-Origin"] == "*"
    assert own.client.get(path).status == 200


def test_405_of_a_method_that_nginx_refuses(own):
    for path, allow in (
        ("/symbolicate/v5", "POST, OPTIONS"), ("/cache/a/1", "DELETE, OPTIONS"), ("/__version__", "GET, HEAD, OPTIONS"),
        ("/", "GET, HEAD, POST, OPTIONS"), ("/api/symbols/AA", "GET, HEAD, DELETE, OPTIONS"), ("/api/symbols-ranges", "POST, OPTIONS"),
        ("/upload", "POST, OPTIONS"), ("/upload/", "POST, OPTIONS"),
        *((path, "GET, HEAD, OPTIONS") for path in PAGE),
    ):  # fmt: skip
        reply = own.raw(f"TRACE {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        assert reply.status == 405 and reply.headers["Allow"] == allow, path
        if path not in UPLOADS:
            check_error(reply, 405)


def test_501_and_505(own):
    head = b"POST /symbolicate/v5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: strange\r\n\r\n"
    check_error(own.raw(head), 501)
    check_error(own.raw(b"GET /symbolicate/v5 HTTP/3.7\r\nHost: x\r\n\r\n"), 505)


# Limits and the allow list


def burst(client, count, path="/symbolicate/v5", body=b"{}"):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda _: client.post(path, body), range(count)))


def test_429(strict):
    replies = burst(strict.client, 20)
    refused = [r for r in replies if r.status == 429]
    assert len(refused) == 17 and len([r for r in replies if r.status == 200]) == 3  # one, and a burst of two
    for reply in refused:
        check_error(reply, 429, "1")
    check_error(strict.client.post("/symbolicate/v5", body_of(5 << 20)), 429, "1")
    for path in UPLOADS:
        check_upload_error(strict.client.post(path, b"x"), 429)
        check_upload_error(strict.client.post(path + "?x=1", b"x"), 429)


def test_429_by_connections():
    changes = [NOBODY_ALLOWED, ("symbolicated.d/limits.conf", r"limit_conn symbolicated_connections 16", "limit_conn symbolicated_connections 1")]
    with Front("connections", changes=changes) as front:
        held = front.client.connect()
        held.request("GET", "/symbolicate/v5", headers={"Do": "silence"})
        wait_for(lambda: front.responders[0].requests == 1, "the first request to arrive")
        check_error(front.client.post("/symbolicate/v5", b"x"), 429, "1")
        held.close()
        wait_for(lambda: front.client.post("/symbolicate/v5", b"x").status == 200, "room again")


def test_allow_list_is_not_limited(own):
    assert {r.status for r in burst(own.client, 600)} == {200}


@pytest.mark.parametrize("page", ["/__heartbeat__", "/__broken__", "/__metrics__"])
def test_pages_of_the_allow_list(own, strict, page):
    assert own.client.get(page).status == 200
    check_error(strict.client.get(page), 403)
    check_error(strict.client.get(page + "?x"), 403)
    check_error(strict.client.get("//x/.." + page), 403)


# Restarts


def test_one_of_two_responders_may_be_down():
    with Front("two", responders=2) as front:
        assert {r.status for r in burst(front.client, 50)} == {200}
        assert all(r.requests for r in front.responders)
        for i in (0, 1):
            front.stop_responder(i)
            assert {r.status for r in burst(front.client, 100)} == {200}
            front.responders[i] = Responder(front.sockets[i])
        assert {r.status for r in burst(front.client, 50)} == {200}


def test_a_request_is_asked_of_the_other_responder_once():
    with Front("twice", responders=2) as front:
        check_error(front.client.post("/symbolicate/v5", b"x", Do="hang-up"), 502, "1")
        assert sum(r.requests for r in front.responders) == 2


# A site around it


def test_the_site_keeps_its_pages(site):
    reply = site.client.get("/page.html")
    assert reply.status == 200 and reply.text == "the site's page" and reply.headers["X-Site"] == "yes"
    assert site.client.get("/a.bin").text == "the site's own"


@pytest.mark.parametrize("path,status", [("/none.html", 404), ("/fails", 500), ("/api/other", 404), ("/__other__", 404)])
def test_the_site_keeps_its_error_pages(site, path, status):
    reply = site.client.get(path)
    assert reply.status == status and reply.text == "the site's error page"
    assert "Access-Control-Allow-Origin" not in reply.headers


def test_the_error_location_is_not_to_be_had_from_outside(site):
    assert site.client.get("/_symbolicated_error").text == "the site's error page"


def test_the_site_keeps_its_limits(site):
    reply = site.raw(b"POST /page.html HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2000000\r\n\r\n")
    assert reply.status == 413 and b"<html>" in reply.raw


def test_errors_of_our_locations_are_ours_there_too(site):
    check_error(site.client.post("/symbolicate/v5", b"x", Do="hang-up"), 502, "1")
    check_error(site.raw(b"POST /symbolicate/v5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 99999999\r\n\r\n"), 413)


def test_our_paths_win_over_the_sites_regular_expressions(site):
    assert site.client.request("DELETE", "/cache/a/1.bin").json()["params"]["REQUEST_METHOD"] == "DELETE"


def test_the_request_id_of_a_trusted_web_tier_is_taken_over(own):
    """In what the responder gets, and in nginx's own errors; from nobody else, and nothing strange."""
    ident = "0190b6c2-6a4e-7cc3-98c4-dc0c0c07398f"

    def told(front, given):
        return front.client.get("/symbolicate/v5", X_Request_Id=given).json()["params"]["REQUEST_ID"]

    assert told(own, ident) == ident
    assert own.client.get("/none", X_Request_Id=ident).headers["X-Request-Id"] == ident
    for strange in ("short", "x" * 64, "a b c d e f g", 'quote"quote', ""):
        assert re.fullmatch("[0-9a-f]{32}", told(own, strange))
    with Front("untrusting", changes=[NOBODY_ALLOWED]) as front:
        assert re.fullmatch("[0-9a-f]{32}", told(front, ident))


def test_regular_expressions_of_the_site_take_nothing():
    """Though they stand before ours; docs/nginx.md names the one exception."""
    first = ("symbolicated-server.conf", r"\A", 'location ~ . { return 200 "the site\'s own"; }\n')
    paths = ["/asm/v1", "/source/v1", "/symbolicate/v5", "/api/symbols/AAAA", "/api/sym/a/1/a.sym", "/upload/", "/api/missing", "/cache/a/1", "/__version__", "/__metrics__"]
    with Front("regular", server="", changes=[first]) as front:
        for path in paths:
            assert front.client.post(path, b"x").json()["params"]["REQUEST_URI"] == path
        assert front.client.get("/a/b1/a.sym").text == "the site's own"


def test_a_site_behind_a_password_shows_our_errors():
    closed = SITE + '\t\tauth_basic "closed";\n\t\tauth_basic_user_file none;\n'
    with Front("closed", server=closed) as front:
        check_error(front.client.get("/symbolicate/v5"), 401)


def test_the_example_is_complete():
    """symbolicated-example.conf as it is, but for its certificate, user, ports and paths."""
    with Front("example") as front:
        directory = front.directory
        with open(os.path.join(directory, "symbolicated-example.conf"), encoding="utf-8") as f:
            text = f.read()
        port, tls_port = free_port(), free_port()
        for pattern, new in (
            (r"listen \[::\].*;\n", "\n"), (r"listen 80;", f"listen 127.0.0.1:{port};"), (r"listen 443", f"listen 127.0.0.1:{tls_port}"),
            (r"snippets/", ""), (r"/etc/ssl/\S+\.pem", f"{directory}/cert.pem"), (r"/etc/ssl/\S+\.key", f"{directory}/key.pem"),
            (r"/var/log/nginx/", f"{directory}/example-"), (r"/run/nginx.pid", f"{directory}/example.pid"),
            (r"\nuser www-data;", "" if os.getuid() else "\nuser www-data;"), (r"\nevents", "\ndaemon off;\nevents"),
            (r"http \{", "http {\n" + "".join(f"\t{n}_temp_path {directory}/t-{n};\n" for n in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))),
        ):  # fmt: skip
            text, count = re.subn(pattern, new, text)
            assert count, pattern
        conf = os.path.join(directory, "example.conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write(text)
        example = Server("example", directory)
        example.spawn(nginx_command(directory, conf))
        try:
            example.ready(lambda: connects(tls_port) and connects(port))
            assert Client(tls_port, tls=True).post("/symbolicate/v5", b"x").json()["body"] == 1
            assert Client(tls_port, tls=True).get("/").status == 302
            check_error(Client(tls_port, tls=True).get("/none"), 404)
            assert Client(port).post("/symbolicate/v5", b"x").status == 308
        finally:
            example.stop()


def test_own_server_is_what_the_example_does():
    with open(os.path.join(ROOT, "nginx", "symbolicated-example.conf"), encoding="utf-8") as f:
        example = re.sub(r"\s+", " ", f.read())
    example = example.replace("include snippets/symbolicated-server*.conf; ", "").replace("snippets/", "").replace("*.conf", ".conf")
    assert re.sub(r"\s+", " ", OWN_SERVER) in example
