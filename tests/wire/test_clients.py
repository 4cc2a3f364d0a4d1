# SPDX-License-Identifier: Apache-2.0
"""Programs that others wrote, as they are: those that fetch symbol files from a server, and those that upload them. Each is run where it
is installed; the requests that it sends are kept here, so that they are made everywhere.

    cargo install minidump-stackwalk samply        pip install requests"""

import contextlib
import gzip
import importlib.util
import io
import json
import os
import re
import shutil
import socket
import subprocess
import zipfile

import pytest

from stack import Server, Stack, free_port, wait_for
from test_sym_uploads import QUICK, Store

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "minidump")
BOUND = 60

# Of tests/data/minidump/prog.dmp, which minidump-writer made of a small program that waits: the names are those of its symbol table.
NAME, IDENT, CODE_ID = "prog", "063781ADE52AE4CD0232B5AC8E48CDB50", "ad8137062ae5cde40232b5ac8e48cdb5114e088b"
SYM = f"""\
MODULE Linux x86_64 {IDENT} {NAME}
INFO CODE_ID {CODE_ID.upper()} {NAME}
FILE 0 /src/prog.c
FUNC 9699 b 0 waits_here
9699 b 2 0
FUNC 96a4 19 0 calls_it
96a4 19 3 0
FUNC 96bd 2f 0 main
96bd 2f 4 0
PUBLIC 37d10 0 pause
""".encode()
PATH = f"/{NAME}/{IDENT}/{NAME}.sym"
STACK = ["pause", "calls_it", "main"]  # the frame pointer of waits_here is its caller's


@pytest.fixture(scope="module", params=["gzip", "plain"])
def served(request, tmp_path_factory):
    """The file was uploaded, which keeps it as gzip, or lies in a source as it is."""
    place = tmp_path_factory.mktemp("clients")
    os.chmod(place.parent, 0o755)
    os.chmod(place, 0o777)
    with Stack(keys=True, config={**QUICK, "sym_store": f"file://{place}"}) as s:
        store = Store(s, place)
        if request.param == "gzip":
            assert store.put(NAME, SYM, path=PATH).status == 200
        else:
            s.symbols.put(NAME, IDENT, SYM)
        yield s


def url_of(stack):
    return f"http://127.0.0.1:{stack.node.nginx.port}"


def needs(program):
    return pytest.mark.skipif(not shutil.which(program), reason=f"{program} is not installed")


@needs("minidump-stackwalk")
def test_minidump_stackwalk(served, tmp_path):
    dump = tmp_path / "prog.dmp"
    with gzip.open(os.path.join(DATA, "prog.dmp.gz")) as packed:
        dump.write_bytes(packed.read())
    cache = tmp_path / "cache"
    cache.mkdir()
    command = ["minidump-stackwalk", "--json", "--symbols-url", url_of(served), "--symbols-cache", str(cache), "--symbols-tmp", str(cache), str(dump)]
    done = subprocess.run(command, capture_output=True, timeout=BOUND, check=False)
    assert done.returncode == 0, done
    frames = json.loads(done.stdout)["crashing_thread"]["frames"]
    assert [f["function"] for f in frames if f["module"] == NAME][: len(STACK)] == STACK, frames
    # it adds a line of its own
    kept = (cache / NAME / IDENT / f"{NAME}.sym").read_bytes()
    assert re.sub(rb"INFO URL .*\n", b"", kept) == SYM


class Samply(Server):
    def __init__(self, directory, source):
        super().__init__("samply", str(directory))
        self.port, self.source = free_port(), source

    def start(self):
        lib = {"name": NAME, "path": "/opt/prog", "debugName": NAME, "debugPath": "/opt/prog", "breakpadId": IDENT, "codeId": CODE_ID, "arch": "x86_64"}
        meta = {"version": 24, "preprocessedProfileVersion": 46, "interval": 1, "startTime": 0, "processType": 0, "product": NAME, "stackwalk": 1}
        profile = os.path.join(self.directory, "profile.json")
        with open(profile, "w", encoding="ascii") as out:
            json.dump({"meta": {**meta, "categories": [], "markerSchema": []}, "libs": [lib], "threads": []}, out)
        cache = os.path.join(self.directory, "cache")
        self.spawn(["samply", "load", "-n", "-P", str(self.port), "--breakpad-symbol-server", self.source, "--breakpad-symbol-cache", cache, profile])
        self.ready(lambda: self.token())

    def token(self):
        with open(self.log, encoding="utf-8") as f:
            found = re.search(rf"127\.0\.0\.1%3A{self.port}%2F(\w+)", f.read())
        return found and found.group(1)


@needs("samply")
def test_samply(served, tmp_path):
    with contextlib.ExitStack() as stack:
        samply = Samply(tmp_path, url_of(served) + "/")
        stack.callback(samply.kill)
        samply.start()
        asked = json.dumps({"memoryMap": [[NAME, IDENT]], "stacks": [[[0, 0x96B0], [0, 0x96C0], [0, 0x37D20]]]})
        url = f"http://127.0.0.1:{samply.port}/{samply.token()}/symbolicate/v5"
        done = subprocess.run(["curl", "-sf", "-m", str(BOUND), "-d", asked, url], capture_output=True, check=False)
        assert done.returncode == 0, (done, samply.log)
        names = [f.get("function") for f in json.loads(done.stdout)["results"][0]["stacks"][0]]
        assert names == ["calls_it", "main", "pause"], done.stdout
        (kept,) = [os.path.join(folder, f) for folder, _, files in os.walk(tmp_path / "cache") for f in files if f.endswith(".sym")]
        with open(kept, "rb") as f:
            assert f.read() == SYM


def exchange(stack, request):
    """Sends these bytes; the reply's status, its headers, and its body as it came."""
    with socket.create_connection(("127.0.0.1", stack.node.nginx.port), BOUND) as s:
        s.sendall(request)
        reply = b""
        while b"\r\n\r\n" not in reply:
            got = s.recv(65536)
            assert got, reply
            reply += got
        head, body = reply.split(b"\r\n\r\n", 1)
        headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in head.decode().split("\r\n")[1:])}
        while len(body) < int(headers["content-length"]):
            body += s.recv(65536)
    return int(head.split()[1]), headers, body


FETCHES = {
    "minidump-stackwalk 0.27": (f"{PATH}?code_file={NAME}&code_id={CODE_ID}", "accept: */*\r\naccept-encoding: gzip,deflate,br"),
    "samply 0.13.1": (PATH, "accept-encoding: gzip\r\naccept: */*"),
}


@pytest.mark.parametrize("client", FETCHES)
def test_files_come_unchanged(served, client):
    target, headers = FETCHES[client]
    status, got, body = exchange(served, f"GET {target} HTTP/1.1\r\n{headers}\r\nhost: localhost\r\n\r\n".encode())
    assert status == 200 and (gzip.decompress(body) if got.get("content-encoding") == "gzip" else body) == SYM


def test_curl_head(served):
    done = subprocess.run(["curl", "-sfI", url_of(served) + PATH], capture_output=True, text=True, timeout=BOUND, check=True)
    assert done.stdout.startswith("HTTP/1.1 200 ") and re.search(r"(?mi)^content-length: [1-9]", done.stdout)


# uploads

MODULE = ("mach.pdb", "0123456789ABCDEF0123456789ABCDEF1", "mach.sym")
UPLOADED = f"MODULE windows x86_64 {MODULE[1]} {MODULE[0]}\nFUNC 1000 10 0 uploaded\n".encode()


@pytest.fixture(scope="module")
def uploading(tmp_path_factory):
    place = tmp_path_factory.mktemp("uploading")
    os.chmod(place.parent, 0o755)
    os.chmod(place, 0o777)
    with Stack(keys=True, daemons=2, config={**QUICK, "sym_store": f"file://{place}"}) as s:
        yield Store(s, place)


def symbols_zip(ident):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("/".join((MODULE[0], ident, MODULE[2])), UPLOADED.replace(MODULE[1].encode(), ident.encode()))
    return out.getvalue()


def named_on_both(store, ident):
    for node in (0, 1):
        client = store.stack.nodes[node].client()
        wait_for(lambda client=client: client.frames([MODULE[0], ident], [0x1004])[0].get("function") == "uploaded", "both hosts to name it")


def test_the_request_of_mach_uploadsymbols(uploading):
    """As requests sends it for toolkit/crashreporter/tools/upload_symbols.py."""
    ident, boundary = "A" * 32 + "1", "558a08a1719a4f6dd175ab102c5fbdbb"
    data = symbols_zip(ident)
    body = f'--{boundary}\r\nContent-Disposition: form-data; name="symbols.zip"; filename="target.crashreporter-symbols.zip"\r\n\r\n'.encode()
    body += data + f"\r\n--{boundary}--\r\n".encode()
    head = (
        "POST /upload/ HTTP/1.1\r\nHost: localhost\r\nUser-Agent: python-requests/2.34.2\r\nAccept-Encoding: gzip, deflate\r\nAccept: */*\r\n"
        f"Connection: keep-alive\r\nAuth-Token: {uploading.stack.key.split()[1]}\r\nContent-Length: {len(body)}\r\n"
        f"Content-Type: multipart/form-data; boundary={boundary}\r\n\r\n"
    )
    status, _, reply = exchange(uploading.stack, head.encode() + body)
    assert status == 201 and json.loads(reply)["upload"]["files"] == 1, reply
    named_on_both(uploading, ident)


@pytest.mark.skipif(not importlib.util.find_spec("requests"), reason="requests is not installed")
def test_mach_uploadsymbols(uploading, tmp_path):
    """What that program calls."""
    import requests

    ident = "B" * 32 + "1"
    (tmp_path / "target.crashreporter-symbols.zip").write_bytes(symbols_zip(ident))
    with open(tmp_path / "target.crashreporter-symbols.zip", "rb") as symbols:
        reply = requests.post(
            url_of(uploading.stack) + "/upload/", headers={"Auth-Token": uploading.stack.key.split()[1]}, allow_redirects=False,
            timeout=(10, 300), files={"symbols.zip": symbols},
        )  # fmt: skip
    assert reply.status_code == 201 and reply.json()["upload"]["files"] == 1, reply.text
    named_on_both(uploading, ident)


def test_by_url_is_refused(uploading):
    """The other form of that program: a server that fetches what a client names would do so from anywhere."""
    headers = {"Auth-Token": uploading.stack.key.split()[1], "Content-Type": "application/x-www-form-urlencoded"}
    reply = uploading.stack.client.request("POST", "/upload/", b"url=https%3A%2F%2Fexample.org%2Fsymbols.zip", headers)
    reply.error(400)
