# SPDX-License-Identifier: Apache-2.0
"""Symbol files in: PUT /api/sym/NAME/ID/FILE.sym, to a store that is a source like any other."""

import collections
import contextlib
import gzip
import itertools
import os
import random
import re
import subprocess
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from client import job
from s3 import BUCKET, S3, program_or_fail
from stack import DAEMON, STOP_BOUND, Stack, seed_of, wait_for
from symbols import SAMPLE, SAMPLE_FRAMES, debug_id, module_line

QUICK = {"downloads": "stream", "revalidate_after": "200ms", "failure_ttl_min": "100ms", "symbfile_store": ""}
SYMBTOOL = os.environ.get("SYMBTOOL", os.path.join(os.path.dirname(os.path.abspath(DAEMON[-1])), "symbtool"))
needs_symbtool = pytest.mark.skipif(not os.path.exists(SYMBTOOL), reason="symbtool was not built")


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


def text_of(name, body=SAMPLE, ident=None):
    return module_line(name, ident or debug_id(name)) + body.encode()


def path_of(name, ident=None):
    stem = name[:-4] if name.endswith(".pdb") else name
    return f"/{name}/{ident or debug_id(name)}/{stem}.sym".replace(" ", "%20").replace("é", "%C3%A9")


class Store:
    """A stack, and where its uploads lie."""

    def __init__(self, stack, folder):
        self.stack, self.folder = stack, folder

    def put(self, name, data, node=0, path=None, key=None):
        headers = {"Authorization": key or self.stack.key}
        return self.stack.nodes[node].client().request("PUT", "/api/sym" + (path or path_of(name)), data, headers)

    def objects(self):
        found = []
        for folder, _, files in os.walk(self.folder):
            found += [os.path.relpath(os.path.join(folder, f), self.folder) for f in files if ".sgwtmp" not in folder]
        return sorted(found)

    def frame(self, name, node=0, ident=None):
        reply = self.stack.nodes[node].client().post("/symbolicate/v5", job([[name, ident or debug_id(name)]], [[0, 0x1014]]))
        assert reply.status == 200, reply
        return reply.json()["results"][0]["stacks"][0][0]


@pytest.fixture(scope="module", params=["file", "s3"])
def store(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("store")
    if request.param == "file":
        os.chmod(place.parent, 0o755)
        os.chmod(place, 0o777)
        with Stack(keys=True, daemons=2, config={**QUICK, "sym_store": f"file://{place}"}) as s:
            yield Store(s, place)
        return
    server = S3(place, program_or_fail())
    server.start()
    config = {**QUICK, **server.settings(), "s3_credentials_file": server.credentials(), "sym_store": f"s3://{BUCKET}/pre%20fix"}
    with Stack(keys=True, daemons=2, config=config) as s:
        yield Store(s, os.path.join(server.root, BUCKET, "pre fix"))
    server.stop()


STORED, REFUSED = (f'symbolicated_sym_uploads_total{{outcome="{outcome}"}}' for outcome in ("stored", "refused"))
PACKED = {"plain": lambda t: t, "gzip": gzip.compress, "zstd": zstd}


@pytest.mark.parametrize("kind", PACKED)
def test_what_is_put_is_named_on_all_hosts(store, kind):
    name = f"{kind} é+.pdb" if kind != "plain" else "plain.so"
    for node in (0, 1):
        assert "function" not in store.frame(name, node)
    data = PACKED[kind](text_of(name))
    before = store.stack.node.metrics()
    reply = store.put(name, data)
    assert reply.status == 200 and reply.json() == {"success": True, "status": 200}
    after = store.stack.node.metrics()
    assert after[STORED] == before[STORED] + 1
    assert after["symbolicated_invalidations_total"] == before["symbolicated_invalidations_total"] + 1  # it tells no code id
    assert after["symbolicated_sym_upload_bytes_total"] == before["symbolicated_sym_upload_bytes_total"] + len(text_of(name))
    for node in (0, 1):
        wait_for(lambda: store.frame(name, node).get("function"), "the other host to hear of it")
        assert store.frame(name, node)["function"] == SAMPLE_FRAMES[0x1014]["function"]
        got = store.stack.nodes[node].client().get(path_of(name), Accept_Encoding="zstd")
        assert got.status == 200 and got.headers["Content-Encoding"] == ("zstd" if kind == "zstd" else "gzip")
        assert got.raw == data if kind != "plain" else gzip.decompress(got.raw) == data


def test_a_new_file_replaces_the_old_one(store):
    name = "twice.so"
    for version in ("first", "second"):
        assert store.put(name, text_of(name, f"FUNC 1000 100 0 {version}\n")).status == 200
        for node in (0, 1):
            wait_for(lambda: store.frame(name, node).get("function") == version, version)


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", PACKED)
def test_the_same_text_uploaded_again_changes_nothing(store, kind):
    """However it is packed: no host forgets the module, and who has the file need not download it again."""
    name = f"again_{kind}.so"
    invalidations = "symbolicated_invalidations_total"
    assert store.put(name, PACKED[kind](text_of(name))).status == 200
    assert store.frame(name)["function"] == "main"
    packed = {"Accept_Encoding": "gzip, zstd"}
    etag, before = store.stack.client.get(path_of(name), **packed).headers["ETag"], store.stack.node.metrics()[invalidations]
    for again in PACKED.values():
        assert store.put(name, again(text_of(name))).json() == {"success": True, "status": 200}
    assert store.stack.client.get(path_of(name), If_None_Match=etag, **packed).status == 304
    assert store.stack.node.metrics()[invalidations] == before
    assert store.put(name, PACKED[kind](text_of(name, SAMPLE.replace("main", "other")))).status == 200
    assert store.frame(name)["function"] == "other" and store.stack.node.metrics()[invalidations] > before


def test_ids_are_stored_in_upper_case(store):
    name, ident = "lower.so", debug_id("lower.so")
    assert store.put(name, text_of(name, ident=ident), path=path_of(name, ident.lower())).status == 200
    assert f"{name}/{ident}/{name}.sym" in store.objects()


def test_a_large_file(store):
    name = "large.so"
    noise = "".join(f"PUBLIC {n:x} 0 {os.urandom(40).hex()}\n" for n in range(300_000))
    assert store.put(name, text_of(name, noise)).status == 200
    got = store.stack.client.get(path_of(name))
    assert gzip.decompress(got.raw) == text_of(name, noise) and len(got.raw) > 9 << 20


def test_uploads_come_after_all_sources_and_tries_last(store):
    name, other = "tried.so", "both.so"
    assert store.put(name, text_of(name, "FUNC 1000 100 0 tried\n"), path="/try" + path_of(name)).status == 200
    assert store.frame(name)["function"] == "tried"
    assert f"try/{name}/{debug_id(name)}/{name}.sym" in store.objects()
    store.stack.symbols.add(other, "FUNC 1000 100 0 source\n")
    assert store.put(other, text_of(other, "FUNC 1000 100 0 tried\n"), path="/try" + path_of(other)).status == 200
    assert store.frame(other)["function"] == "source"
    assert store.put(other, text_of(other, "FUNC 1000 100 0 released\n")).status == 200
    assert store.frame(other)["function"] == "source"
    assert store.put(name, text_of(name, "FUNC 1000 100 0 released\n")).status == 200
    assert store.frame(name)["function"] == "released"


TEXT = text_of("bad.so")
BAD = {
    "empty": (b"", "line 1 is not a MODULE line"),
    "text": (b"hello\n", "line 1 is not a MODULE line"),
    "another id": (text_of("bad.so", ident="A" * 33), "line 1: the id is"),
    "no symbol": (text_of("bad.so", "FILE 0 a.c\nFUNC 1000\n"), "neither a readable FUNC"),
    "cut gzip": (gzip.compress(TEXT)[:-5], "gzip ends early"),
    "bad gzip": (gzip.compress(TEXT)[:-8] + b"12345678", "bad gzip"),
    "cut zstd": (zstd(TEXT)[:-5], "zstd ends early"),
    "bad zstd": (zstd(TEXT) + b"junk", "bad zstd"),
    "a page of HTML": (b"<!DOCTYPE html>" + b"x" * 100_000, "line 1 is not a MODULE line: it is HTML or XML"),
    "UTF-16": (TEXT.decode().encode("utf-16"), "line 1 is not a MODULE line: it is UTF-16, not UTF-8"),
    "gzip in gzip": (gzip.compress(gzip.compress(TEXT)), "line 1 is not a MODULE line: it is packed as gzip once more"),
    "binary": (b"MODULE\0\xff" * 1000, "line 1 is not a MODULE line"),
}


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_symbol_file_is_refused_and_leaves_nothing(store, kind):
    before, refused = store.objects(), store.stack.node.metrics()[REFUSED]
    data, why = BAD[kind]
    error = store.put("bad.so", data).error(400)
    assert why in error["error"]
    assert store.objects() == before
    assert store.stack.node.metrics()[REFUSED] == refused + 1


@pytest.mark.slow
@pytest.mark.plain
def test_a_huge_file_that_is_refused_at_its_first_line(store):
    """It was told 502, and so sent again and again: nginx was still sending when the connection was closed."""
    body = text_of("huge.so", "FUNC 1000 10 0 f\n" * (12 << 20), ident="A" * 33)
    for _ in range(3):
        assert "line 1: the id is" in store.put("huge.so", body).error(400)["error"]


def test_what_unpacks_to_more_than_bucket_max_size(tmp_path):
    os.chmod(tmp_path, 0o777)
    bomb = gzip.compress(TEXT + b"FUNC 1 1 0 a\n" * 1_000_000)
    with Stack(keys=True, config={**QUICK, "bucket_max_size": "1M", "sym_store": f"file://{tmp_path}"}) as s:
        store = Store(s, tmp_path)
        assert "bucket_max_size" in store.put("bad.so", bomb).error(413)["error"]
        assert store.objects() == []


@pytest.mark.in_turn
def test_paths_that_are_none(store):
    for path in ("/x", "/bad.so/XYZ/bad.so.sym", f"/bad.so/{debug_id('bad.so')}/other.sym", f"/a%2Fb/{debug_id('bad.so')}/a%2Fb.sym", f"/try/try{path_of('bad.so')}",
                 f"/{'x' * 250}/AB/{'x' * 250}.sym"):  # fmt: skip
        store.put("bad.so", TEXT, path=path).error(400)


def test_keys_are_needed(store):
    client = store.stack.client
    client.request("PUT", "/api/sym" + path_of("bad.so"), TEXT).error(401)
    client.request("PUT", "/api/sym" + path_of("bad.so"), TEXT, {"Authorization": "APIKey bm9ib2R5OmtleQ=="}).error(403)
    reply = client.get("/api/sym" + path_of("bad.so"))
    reply.error(405)
    assert reply.headers["Allow"] == "PUT, OPTIONS"


def test_two_at_once_leave_one_whole_file(store):
    name = "race.so"
    versions = [text_of(name, f"FUNC 1000 100 0 v{i}\n" + f"PUBLIC {i + 5000:x} 0 {'x' * 5000}\n" * 50) for i in range(4)]
    with ThreadPoolExecutor(2) as pool:
        replies = list(pool.map(lambda i: store.put(name, versions[i], node=i % 2).status, range(4)))
    assert set(replies) <= {200, 503} and 200 in replies
    assert gzip.decompress(store.stack.client.get(path_of(name)).raw) in versions


def test_without_a_store():
    with Stack(keys=True) as s:
        error = s.client.request("PUT", "/api/sym" + path_of("x.so"), text_of("x.so"), {"Authorization": s.key}).error(404)
        assert "sym_store" in error["error"]



# Code ids


def told(name, code_file, code_id, ident=None):
    return text_of(name, f"INFO CODE_ID {code_id} {code_file}\nFUNC 1000 100 0 f\n", ident)


def test_a_code_id_leads_to_the_module(store):
    name = "coded é.pdb"
    asked = ["/coded.dll/5CF2591C6859000/coded.sym", "/CODED.DLL/5cf2591c6859000/CODED.sym"]
    for path in asked:
        for node in (0, 1):
            store.stack.nodes[node].client().get(path).error(404)
    assert store.put(name, told(name, "coded.dll", "5CF2591C6859000")).status == 200
    for path in asked:
        for node in (0, 1):
            client = store.stack.nodes[node].client()
            # of the two spellings the other host only hears of the one in the file
            reply = wait_for(lambda: (r := client.get(path)).status == 302 and r, "the host to hear of it") if path == asked[0] else client.get(path)
            if path == asked[0]:
                assert reply.headers["Location"] == "../.." + path_of(name)
    url = f"http://127.0.0.1:{store.stack.node.nginx.port}{asked[0]}"
    done = subprocess.run(["curl", "-sfL", "--compressed", "-w", "%{url_effective}", url], check=True, stdout=subprocess.PIPE)
    assert done.stdout.startswith(told(name, "coded.dll", "5CF2591C6859000"))
    assert done.stdout.endswith(path_of(name).encode())


def test_the_latest_upload_with_a_code_id_counts(store):
    for ident in ("A" * 32 + "1", "B" * 32 + "1"):
        path = path_of("again.pdb", ident)
        assert store.put("again.pdb", told("again.pdb", "again.exe", "AB12", ident), path=path).status == 200
        assert store.stack.client.get("/again.exe/AB12/again.sym").headers["Location"] == "../.." + path


def test_a_code_id_stays_its_first_owners(store):
    """A key that may only upload takes none over, nor does a try; a source's, an owner's and the namesake's does."""
    plain = store.stack.add_key("only", "upload")
    store.stack.daemon.reload()

    def leads_to(name):
        return store.stack.client.get("/wanted.dll/AB99/wanted.sym").headers["Location"] == "../.." + path_of(name)

    def say(name, key, path=""):
        data = told(name, "wanted.dll", "AB99")
        assert store.put(name, data, path=path + path_of(name), key=key).status == 200
        return leads_to(name)

    assert say("tried.pdb", plain, "/try") and say("squatter.pdb", plain)
    assert not say("late.pdb", plain) and not say("wanted2.pdb", store.stack.key, "/try")
    assert say("wanted.pdb", plain)  # it is called as its code file is
    assert not say("squatter.pdb", plain)
    store.stack.symbols.put("source.pdb", debug_id("source.pdb"), told("source.pdb", "wanted.dll", "AB99"))
    assert store.frame("source.pdb")["function"] == "f"
    wait_for(lambda: leads_to("source.pdb"), "the code id that the source tells")
    assert not say("wanted.pdb", plain)
    assert say("owner.pdb", store.stack.key) and say("other owner.pdb", store.stack.key)
    assert not say("wanted.pdb", plain)


def test_the_code_id_of_a_file_that_was_loaded_leads_to_it(store):
    """From a source that nobody uploads to; what an owner uploaded stays the answer."""
    name, path = "loaded é.pdb", "/loaded.dll/5CF2591C6859A0/loaded.sym"
    store.stack.symbols.put(name, debug_id(name), told(name, "loaded.dll", "5CF2591C6859A0"))
    assert store.put("first.pdb", told("first.pdb", "first.dll", "AB34")).status == 200
    store.stack.symbols.put("second.pdb", debug_id("second.pdb"), told("second.pdb", "first.dll", "AB34"))
    for node in store.stack.nodes:
        assert node.client().get(path).status == 404  # which is remembered until then
    for loaded in ("second.pdb", name):
        assert store.frame(loaded)["function"] == "f"
    for node in (0, 1):
        client = store.stack.nodes[node].client()
        reply = wait_for(lambda client=client: (r := client.get(path)).status == 302 and r, "its code id to be known")
        assert reply.headers["Location"] == "../.." + path_of(name)
        assert client.get("/first.dll/AB34/first.sym").headers["Location"] == "../.." + path_of("first.pdb")


def test_a_kill_while_a_file_and_its_code_id_are_stored_loses_nothing(store):
    """What was accepted is found by both names. What was not is found whole or not at all, and sent again it is found by both."""
    client, chance, daemon = store.stack.nodes[1].client(), random.Random(seed_of(7)), store.stack.nodes[0].daemon
    seen, latest = collections.Counter(), 0.02
    for n in itertools.count():
        if n >= 12 and len(seen) > 1:
            break
        assert n < 60, f"every kill came at the same time: {seen}"
        name, path = f"killed{n}.pdb", f"/killed{n}.dll/AB{n:04X}/killed{n}.sym"
        text = told(name, f"killed{n}.dll", f"AB{n:04X}") + b"".join(b"PUBLIC %x 0 p%d\n" % (i, i) for i in range(2000))
        with ThreadPoolExecutor(1) as pool:
            put = pool.submit(store.put, name, text)
            threading.Event().wait(chance.uniform(0, latest))
            daemon.crash()
            daemon.start()
            accepted = put.result().status == 200
        by_code, by_name = client.get(path), client.get(path_of(name))
        seen[accepted, by_code.status, by_name.status] += 1
        if accepted:
            assert by_code.status == 302 and by_name.status == 200
        latest *= 1 if accepted else 1.3  # however long an upload takes here
        assert by_code.status == 404 or by_code.headers["Location"] == "../.." + path_of(name)
        assert by_name.status == 404 or gzip.decompress(by_name.raw) == text
        assert store.put(name, text).status == 200
        for node in store.stack.nodes:
            wait_for(lambda c=node.client(): (r := c.get(path_of(name))).status == 200 and gzip.decompress(r.raw) == text, "the file to be there")
            reply = wait_for(lambda c=node.client(): (r := c.get(path)).status == 302 and r, "its code id to be known")
            assert reply.headers["Location"] == "../.." + path_of(name)


@pytest.mark.in_turn
def test_a_code_file_that_no_path_can_name_does_no_harm(store):
    for code_file, code_id in (("../x.dll", "AB"), ("a/b.dll", "AB"), ("x.dll", "not hex"), ("..", "AB"), ("x" * 300, "AB")):
        assert store.put("odd.pdb", told("odd.pdb", code_file, code_id)).status == 200
    store.stack.client.get("/x.dll/AB/x.sym").error(404)


class Forgetful(ThreadingHTTPServer):
    """An S3 server that keeps what it is sent. To paths that contain `failing` it answers 503 all the same; to those that contain `hanging`
    nothing, until `end` is set; `hanging` may begin with the method. It closes the connection of the next PUT after its answer, or
    instead, if `closes` says so."""

    def __init__(self):
        self.objects, self.failing, self.hanging, self.closes, self.connections = {}, "nothing", "nothing", None, 0
        self.hangs, self.end = threading.Event(), threading.Event()
        super().__init__(("127.0.0.1", 0), Forgetful.Handler)

    def settings(self):
        return {"sym_store": f"s3://{BUCKET}/x", "s3_endpoint": f"http://127.0.0.1:{self.server_port}", "s3_addressing": "path"}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args):
            pass

        def setup(self):
            super().setup()
            self.server.connections += 1

        def answer(self, status, body=b""):
            closes = self.server.closes if self.command == "PUT" else None
            if closes:
                self.server.closes, self.close_connection = None, True
            if closes == "instead":
                return
            if self.server.hanging in f"{self.command} {self.path}":
                self.server.hangs.set()
                self.server.end.wait(STOP_BOUND)
            with contextlib.suppress(BrokenPipeError):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def do_GET(self):
            body = b"<ListBucketResult/>" if "list-type=2" in self.path else self.server.objects.get(self.path)
            self.answer(404 if body is None else 200, body or b"")

        def do_POST(self):
            begun = b"<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer(*((403,) if self.server.failing in self.path else (200, begun)))

        def do_DELETE(self):
            self.answer(204)

        def do_PUT(self):
            self.server.objects[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
            self.answer(503 if self.server.failing in self.path else 200)


@pytest.fixture
def forgetful(monkeypatch):
    for variable in list(os.environ):
        if variable.startswith("AWS_"):
            monkeypatch.delenv(variable)
    server = Forgetful()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.end.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_what_is_stored_though_the_upload_failed_is_named_on_all_hosts(forgetful):
    """S3's answer about the file or about its code id is lost: whoever does not send it again must not leave hosts with the old file."""
    name = "failed.pdb"
    with Stack(keys=True, daemons=2, config={**QUICK, **forgetful.settings()}) as s:
        store = Store(s, None)
        for function, failing in (("first", "nothing"), ("second", name), ("third", "code-ids")):
            forgetful.failing = failing
            code_id = "AB13" if failing == "code-ids" else "AB12"  # one that is there already is not written again
            data = told(name, "failed.dll", code_id).replace(b" f\n", f" {function}\n".encode())
            assert store.put(name, data).status == (200 if failing == "nothing" else 503)
            for node in (0, 1):
                wait_for(lambda node=node, f=function: store.frame(name, node).get("function") == f, f"host {node} to name {function}")


@pytest.mark.parametrize("lost", ["code id", "announcement"])
def test_what_a_kill_kept_from_other_hosts_they_learn_when_it_is_sent_again(forgetful, lost):
    """The file is there already, but neither is its code id, or nobody was told."""
    name, path = "cut.pdb", "/cut.dll/AB77/cut.sym"
    forgetful.hanging = f"PUT /{BUCKET}/x/code-ids/"
    config = {**QUICK, **forgetful.settings(), "missing_ttl": "1h", "bucket_stall_timeout": "1h"}
    with Stack(keys=True, daemons=2, config=config) as s, ThreadPoolExecutor(1) as pool:
        store, data, other = Store(s, None), told(name, "cut.dll", "AB77"), s.nodes[1].client()
        for asked in (path, path_of(name)):
            other.get(asked).error(404)
        put = pool.submit(store.put, name, data)
        assert forgetful.hangs.wait(20)
        wait_for(lambda: any(name in stored for stored in list(forgetful.objects)), "the file to be stored")
        s.nodes[0].daemon.crash()
        if lost == "code id":
            assert forgetful.objects.pop(next(stored for stored in forgetful.objects if "code-ids" in stored))
        forgetful.hanging = "nothing"
        forgetful.end.set()
        s.nodes[0].daemon.start()
        assert put.result().status != 200
        assert store.put(name, data).status == 200
        wait_for(lambda: other.get(path_of(name)).status == 200, "the other host to have the file")
        wait_for(lambda: other.get(path).status == 302, "the other host to know the code id")


@pytest.mark.parametrize("slow", ["code-ids", "both.pdb"])
def test_a_file_and_its_code_id_go_to_s3_at_once(forgetful, slow):
    """Neither waits for the other, and the reply waits for both."""
    other = {"code-ids": "both.pdb", "both.pdb": "code-ids"}[slow]
    forgetful.hanging = slow
    with Stack(keys=True, config={**QUICK, **forgetful.settings(), "bucket_stall_timeout": "1h"}) as s, ThreadPoolExecutor(1) as pool:
        put = pool.submit(Store(s, None).put, "both.pdb", told("both.pdb", "both.dll", "AB12"))
        assert forgetful.hangs.wait(20)
        wait_for(lambda: any(other in path for path in forgetful.objects), "the other object")
        s.client.get("/__version__")
        assert not put.done()
        forgetful.end.set()
        assert put.result().status == 200


@pytest.mark.parametrize("failing", ["nothing", "uploads="])
def test_the_heartbeat_tries_to_write(forgetful, failing):
    """A place that can only be read answers loads all the same."""
    forgetful.failing = failing
    with Stack(keys=True, config={**QUICK, **forgetful.settings()}) as s:
        reply = s.client.get("/__heartbeat__")
        if failing == "nothing":
            assert reply.status == 200, reply
        else:
            assert "sym_store: beginning an upload: HTTP status 403" in reply.error(503)["error"]


def test_uploads_keep_a_connection(forgetful):
    """One after the other. One that S3 has closed meanwhile, or closes as the next request comes, costs no upload."""
    with Stack(keys=True, config={**QUICK, **forgetful.settings(), "bucket_retries": 0}) as s:
        store = Store(s, None)
        for n, (closes, connections) in enumerate(((None, 1), (None, 1), ("after", 1), (None, 2), ("instead", 3), (None, 3))):
            forgetful.closes = closes
            assert store.put(f"kept{n}.so", text_of(f"kept{n}.so")).status == 200
            assert forgetful.connections == connections, n
        assert s.daemon.stop() == 0


def test_one_too_many_at_a_time_is_no_failure(forgetful, tmp_path):
    """It is sent again, and nobody need be told. Nor is a question about uploads one."""
    forgetful.hanging = "first.so"
    config = {**QUICK, **forgetful.settings(), "symbfile_store": f"file://{tmp_path}", "bucket_stall_timeout": "1h", "upload_parallel": "1"}
    with Stack(keys=True, config=config) as s, ThreadPoolExecutor(1) as pool:
        store = Store(s, None)
        first = pool.submit(store.put, "first.so", text_of("first.so"))
        assert forgetful.hangs.wait(20)
        reply = store.put("second.so", text_of("second.so"))
        assert "too many" in reply.error(503)["error"] and reply.headers["Retry-After"] == "2"
        assert s.client.get(f"/api/symbols/{'0' * 32}", Authorization=s.key).status == 503
        counts = {series: n for series, n in s.node.metrics().items() if "uploads_total" in series and n}
        assert counts == {REFUSED: 1}
        forgetful.end.set()
        assert first.result().status == 200


def test_a_store_that_hangs_holds_up_no_stop(forgetful):
    """The code id of a file that was loaded is looked for behind the answer."""
    forgetful.hanging = "code-ids"
    with Stack(config={**QUICK, **forgetful.settings(), "bucket_stall_timeout": "1h"}) as s:
        s.symbols.put("a.pdb", debug_id("a.pdb"), told("a.pdb", "a.dll", "AB"))
        assert s.client.frames(["a.pdb", debug_id("a.pdb")], [0x1000])[0]["function"] == "f"
        assert forgetful.hangs.wait(20)
        assert s.daemon.stop() == 0


def test_an_upload_that_memcached_loses_is_heard_all_the_same(store):
    """The other host has asked before and remembers that there was nothing; the marker is gone when it asks again."""
    name = "heard later.so"
    assert store.frame(name, 1).get("function") is None
    assert store.put(name, text_of(name), node=0).status in (200, 201)
    with store.stack.memcached[0].raw() as raw:
        raw.flush()
    wait_for(lambda: store.frame(name, 1).get("function"), "the other host to find it", 20)
    assert store.frame(name, 1)["function"] == SAMPLE_FRAMES[0x1014]["function"]


def test_a_miss_is_not_remembered_if_the_file_is_uploaded_meanwhile(forgetful):
    """Without memcached no marker tells it. Tries are asked for last, so the load has missed the file before it is uploaded."""
    name = "meanwhile.so"
    forgetful.hanging = f"GET /{BUCKET}/x/try/"
    config = {**QUICK, **forgetful.settings(), "missing_ttl": "1h", "bucket_stall_timeout": "1h"}
    with Stack(keys=True, memcached=0, config=config) as s:
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(s.client.get, path_of(name))
            assert forgetful.hangs.wait(20)
            assert Store(s, None).put(name, text_of(name)).status == 200
            forgetful.end.set()
            assert first.result().status == 404
        assert gzip.decompress(s.client.get(path_of(name)).raw) == text_of(name)


# symbtool


def push(store, *args, code=0):
    url = f"http://127.0.0.1:{store.stack.node.nginx.port}"
    done = subprocess.run(
        [SYMBTOOL, "push-symbols", "--url", url, "--api-key", store.stack.key, "--retry-time", "1", *map(str, args)],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == code, done
    return done


@needs_symbtool
def test_symbtool_pushes_a_tree_of_symbol_files_and_zips(store, tmp_path):
    names = ["tree plain.so", "tree.pdb", "treezstd.so"]
    files = [text_of(names[0]), gzip.compress(text_of(names[1])), zstd(text_of(names[2]))]
    for name, data, tail in zip(names, files, ("", ".gz", ".zst")):
        place = tmp_path / (path_of(name)[1:].replace("%20", " ") + tail)
        place.parent.mkdir(parents=True)
        place.write_bytes(data)
    (tmp_path / "notes.txt").write_text("not for the server")
    with zipfile.ZipFile(tmp_path / "more.zip", "w", zipfile.ZIP_DEFLATED) as z:
        for name in ("zipped.so", "zipped.pdb"):
            z.writestr(path_of(name)[1:], text_of(name))
        z.writestr("more-symbols.txt", "a list")
    out = push(store, "-r", tmp_path).stdout
    assert "sent 2 symbol files" in out and "4 files, 0 without symbols, 0 failed; 1 other" in out
    for name in [*names, "zipped.so", "zipped.pdb"]:
        for node in (0, 1):
            wait_for(lambda: store.frame(name, node).get("function") == SAMPLE_FRAMES[0x1014]["function"], "both hosts to name it")


@pytest.mark.in_turn
@needs_symbtool
def test_symbtool_says_which_file_is_refused(store, tmp_path):
    (tmp_path / "bad.sym").write_bytes(module_line("x.so", debug_id("x.so")))
    (tmp_path / "text.sym").write_bytes(b"hello\n")
    (tmp_path / "tried.sym").write_bytes(text_of("from symbtool.so"))
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as z:
        z.writestr("../x/AB1/x.sym", text_of("x"))
    done = push(store, "-r", "--try", tmp_path, code=1)
    assert re.search(r"bad\.sym: .*neither a readable FUNC", done.stderr) and re.search(r"text\.sym: no MODULE line", done.stderr)
    assert re.search(r"bad\.zip: \.\./x/AB1/x\.sym: a ZIP may not have a member of this name", done.stderr)
    assert [o for o in store.objects() if "from symbtool" in o] == [f"try{path_of('from symbtool.so').replace('%20', ' ')}"]
