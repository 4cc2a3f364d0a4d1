# SPDX-License-Identifier: Apache-2.0
"""POST /upload/: ZIPs of symbol files, as Tecken takes them; and ZIPs that nobody should take."""

import gzip
import io
import os
import shutil
import socket
import struct
import subprocess
import time
import warnings
import zipfile

import pytest

from stack import Stack, wait_for
from symbols import SAMPLE, SAMPLE_FRAMES, debug_id, module_line
from test_sym_uploads import QUICK, Store, path_of, text_of
from test_symbfile import new_id, ranges, upload, write

NAME = "xul.pdb"
MEMBER = path_of(NAME)[1:]
GOOD = text_of(NAME)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    place = tmp_path_factory.mktemp("store")
    os.chmod(place.parent, 0o755)
    os.chmod(place, 0o777)
    with Stack(keys=True, daemons=2, config={**QUICK, "sym_store": f"file://{place}", "bucket_max_size": "200M"}) as s:
        yield Store(s, place)


def zip_of(members, method=zipfile.ZIP_DEFLATED):
    """members: {name: bytes}, or a list of pairs, in which names may repeat."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that repeat
        for name, data in members.items() if isinstance(members, dict) else members:
            z.writestr(name, data)
    return out.getvalue()


def token(store):
    return store.stack.key.split()[1]


def form(parts, boundary="93cafe4b0f2b"):
    """As the library requests makes it."""
    body = b""
    for headers, data in parts:
        body += f"--{boundary}\r\nContent-Disposition: form-data; {headers}\r\n\r\n".encode() + data + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def post(store, data, fields=(), key=None, filename="symbols.zip"):
    body, content_type = form([*fields, (f'name="{filename}"; filename="{filename}"', data)])
    headers = {"Auth-Token": key or token(store), "Content-Type": content_type, "User-Agent": "python-requests/2.31.0"}
    return store.stack.client.request("POST", "/upload/", body, headers)


def test_what_is_uploaded_is_named_on_all_hosts(store):
    other = "libxul.so"
    members = {
        MEMBER: GOOD,
        path_of(other)[1:]: text_of(other),
        f"{NAME}/{debug_id(NAME)}/xul.pd_": b"MSCF",
        f"{other}/{debug_id(other)}/{other}.dbg.gz": b"\x1f\x8b",
        "firefox-symbols.txt": b"a list",
        f"{NAME}/": b"",
        ".DS_Store": b"x",
    }
    reply = post(store, zip_of(members))
    assert reply.status == 201, reply
    upload = reply.json()["upload"]
    assert upload["files"] == 2 and upload["filename"] == "symbols.zip" and upload["try_symbols"] is False
    assert upload["skipped_keys"] == [] and len(upload["ignored_keys"]) == 4
    assert store.objects() == sorted([MEMBER, path_of(other)[1:]])
    for node in (0, 1):
        for name in (NAME, other):
            wait_for(lambda: store.frame(name, node).get("function") == SAMPLE_FRAMES[0x1014]["function"], "both hosts to name it")


def test_a_member_whose_file_is_called_otherwise_is_its_folders(store):
    """As in Tecken's own tests."""
    name, ident = "xpcshell.dbg", debug_id("xpcshell.dbg")
    reply = post(store, zip_of({f"{name}/{ident}/xpcshell.sym": text_of(name)}))
    assert reply.status == 201 and reply.json()["upload"]["files"] == 1, reply
    assert store.frame(name)["function"] == SAMPLE_FRAMES[0x1014]["function"]
    for file in ("xpcshell.sym", "xpcshell.dbg.sym"):
        got = store.stack.client.get(f"/{name}/{ident}/{file}")
        assert got.status == 200 and got.body == text_of(name), (file, got)
    assert store.stack.client.get(f"/{name}/{'A' * 33}/xpcshell.sym").status == 404


def test_stack_records_alone_are_stored_and_name_nothing(store):
    """Of a DLL without PDB: minidump-stackwalk needs them. The other files of the ZIP are stored, too."""
    bare, other = "bare.dll", "beside.so"
    stacks = text_of(bare, "STACK CFI INIT 1000 20 .cfa: $rsp 8 + .ra: .cfa -8 + ^\n")
    reply = post(store, zip_of({path_of(bare)[1:]: stacks, path_of(other)[1:]: text_of(other)}))
    assert reply.status == 201 and reply.json()["upload"]["files"] == 2, reply
    got = store.stack.client.get(path_of(bare))
    assert got.status == 200 and got.body == stacks
    assert "function" not in store.frame(bare)
    assert store.frame(other)["function"] == SAMPLE_FRAMES[0x1014]["function"]
    assert store.put(bare, stacks).status == 200


def test_a_second_file_in_the_form_is_refused(store):
    before = store.objects()
    files = [(f'name="{n}"; filename="{n}"', zip_of({path_of(n)[1:]: text_of(n)})) for n in ("first.so", "second.so")]
    body, content_type = form(files)
    reply = store.stack.client.request("POST", "/upload/", body, {"Auth-Token": token(store), "Content-Type": content_type})
    assert "more than one file" in reply.error(400)["error"] and store.objects() == before
    # a field for a file that was left empty is none
    body, content_type = form([('name="none"; filename=""', b""), files[0]])
    reply = store.stack.client.request("POST", "/upload/", body, {"Auth-Token": token(store), "Content-Type": content_type})
    assert reply.status == 201 and reply.json()["upload"]["files"] == 1, reply


def test_files_that_are_there_already_are_skipped(store):
    """As Tecken does: skipped_keys lists them."""
    one, two = (f"skipped{i}.pdb" for i in range(2))
    first, both = ({path_of(n)[1:]: text_of(n) for n in names} for names in ([one], [one, two]))
    assert post(store, zip_of(first)).json()["upload"]["skipped_keys"] == []
    reply = post(store, zip_of(both)).json()["upload"]
    assert reply["skipped_keys"] == [path_of(one)[1:]] and reply["files"] == 2
    assert sorted(post(store, zip_of(both)).json()["upload"]["skipped_keys"]) == sorted(path_of(n)[1:] for n in (one, two))
    assert store.frame(two)["function"] == "main"


def test_what_is_packed_twice_counts_unpacked(store):
    """20 members of a few KB that are gzip of many MB each: one budget for all."""
    members = {path_of(f"bomb{i}.so")[1:]: gzip.compress(text_of(f"bomb{i}.so", "PUBLIC 1 0 a\n") + b"\n" * (8 << 20)) for i in range(20)}
    data = zip_of(members)
    assert len(data) < 64 << 10
    before = store.objects()
    assert "the ZIP unpacks to far more than symbol files do" in post(store, data).error(400)["error"]
    assert store.objects() == before


@pytest.mark.slow
def test_a_thousand_files_are_taken_and_no_more(store):
    members = {path_of(f"many{i}.so")[1:]: text_of(f"many{i}.so") for i in range(1001)}
    assert "more than 1000 symbol files" in post(store, zip_of(members)).error(400)["error"]
    members.popitem()
    began = time.monotonic()
    assert post(store, zip_of(members)).json()["upload"]["files"] == 1000
    assert time.monotonic() - began < 150  # fastcgi_read_timeout of nginx


@pytest.mark.slow
def test_a_zip_that_nobody_waits_for_ends(store):
    members = {path_of(f"left{i}.so")[1:]: text_of(f"left{i}.so", SAMPLE + "".join(f"PUBLIC {i:x} 0 p{i}\n" for i in range(2000))) for i in range(900)}
    body, kind = form([('name="a.zip"; filename="a.zip"', zip_of(members))])
    head = f"POST /upload/ HTTP/1.1\r\nHost: localhost\r\nAuth-Token: {token(store)}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"

    def stored():
        return sum("/left" in "/" + path for path in store.objects())

    with socket.create_connection(("127.0.0.1", store.stack.node.nginx.port)) as s:
        s.sendall(head.encode() + body)
        wait_for(stored, "the first file to be stored")
    wait_for(lambda: any(line.get("path") == "/upload/" and line["status"] == 499 for line in store.stack.daemon.log_lines()), "the upload to end")
    assert stored() < len(members)


def test_curl_as_tecken_documents_it(store, tmp_path):
    name = "curled.so"
    (tmp_path / "myfile.zip").write_bytes(zip_of({path_of(name)[1:]: text_of(name)}, zipfile.ZIP_STORED))
    url = f"http://127.0.0.1:{store.stack.node.nginx.port}/upload/"
    command = ["curl", "-s", "-w", "%{http_code}", "-X", "POST", "-H", f"auth-token: {token(store)}", "--form", "try=true", "--form"]
    done = subprocess.run([*command, f"myfile.zip=@{tmp_path}/myfile.zip", url], check=True, capture_output=True, text=True)
    assert done.stdout.endswith("201") and '"try_symbols":true' in done.stdout
    assert f"try/{path_of(name)[1:]}" in store.objects()
    assert store.frame(name)["function"] == SAMPLE_FRAMES[0x1014]["function"]


@pytest.mark.slow
def test_a_zip_of_many_megabytes(store):
    members = {}
    for n in range(40):
        name = f"part{n}.so"
        members[path_of(name)[1:]] = text_of(name, "".join(f"PUBLIC {i:x} 0 {os.urandom(30).hex()}\n" for i in range(4000)))
    reply = post(store, zip_of(members), fields=[('name="note"', b"\r\n--93cafe4b0f2x\r\n" * 100)])
    assert reply.status == 201 and reply.json()["upload"]["files"] == 40


TREE = ("xul.pdb", "libxul.so", "é ü.so")


class Pipe(io.RawIOBase):
    """What is written to it cannot be written again: the sizes of members stand behind their data."""

    def __init__(self):
        self.data = b""

    def writable(self):
        return True

    def write(self, data):
        self.data += data
        return len(data)


def by_python(method=zipfile.ZIP_DEFLATED, **options):
    def make(tree):
        out = Pipe()
        with zipfile.ZipFile(out, "w", method) as z:
            for name in TREE:
                with z.open(path_of_member(name), "w", **options) as member:
                    member.write(text_of(name))
        return out.data

    return make


def by_command(*command):
    def make(tree):
        return subprocess.run(command, cwd=tree, check=True, stdout=subprocess.PIPE).stdout

    return make


def by_windows(system):
    """Backslashes, as the first versions of .NET write them."""

    def make(tree):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as z:
            for name in TREE:
                info = zipfile.ZipInfo("x")
                info.filename, info.create_system = path_of_member(name).replace("/", "\\"), system
                z.writestr(info, text_of(name))
        return out.getvalue()

    return make


def path_of_member(name):
    return f"{name}/{debug_id(name)}/{name.removesuffix('.pdb')}.sym"


MADE = {
    "python": by_python(),
    "python, zip64": by_python(force_zip64=True),
    "python, lzma": by_python(zipfile.ZIP_LZMA),
    "python, bzip2": by_python(zipfile.ZIP_BZIP2),
    "windows, fat": by_windows(0),
    "windows, ntfs": by_windows(10),
    "with ./ before names": lambda tree: zip_of([("./", b""), *((f"./{path_of_member(name)}", text_of(name)) for name in TREE)]),
    "behind a program": lambda tree: b"#!/bin/sh\nexit 0\n" * 100 + by_python()(tree),
}
PROGRAMS = {
    "zip": by_command("zip", "-qr", "-", "."),
    "zip, bzip2": by_command("zip", "-qr", "-Z", "bzip2", "-", "."),
    "jar": by_command("jar", "-cM", "."),
    "bsdtar": by_command("bsdtar", "--format", "zip", "-cf", "-", "."),
}
MADE |= {kind: make for kind, make in PROGRAMS.items() if shutil.which(kind.split(",")[0])}


@pytest.mark.parametrize("kind", MADE)
def test_zips_of_many_makers(store, tmp_path, kind):
    """With names outside ASCII, whatever the locale of the server, which has none."""
    for name in TREE:
        path = tmp_path / path_of_member(name)
        path.parent.mkdir(parents=True)
        path.write_bytes(text_of(name))
    wanted = sorted(path_of_member(name) for name in TREE)
    reply = post(store, MADE[kind](tmp_path))
    assert reply.status == 201 and reply.json()["upload"]["files"] == len(TREE), reply
    for path in wanted:
        os.remove(os.path.join(store.folder, path))


def patched(data, signature, at, form_of, value):
    """The field at an offset of every record with a signature."""
    out = bytearray(data)
    start = out.find(signature)
    while start >= 0:
        struct.pack_into(form_of, out, start + at, value)
        start = out.find(signature, start + 4)
    return bytes(out)


def link():
    info = zipfile.ZipInfo(MEMBER)
    info.create_system = 3
    info.external_attr = 0o120777 << 16
    return zip_of([(info, b"/etc/passwd")])


def renamed(old, new):
    assert len(old) == len(new)
    return zip_of({old: GOOD}).replace(old.encode(), new.encode())


LOCAL, CENTRAL = b"PK\x03\x04", b"PK\x01\x02"
AFTER = {path_of("after.so")[1:]: text_of("after.so")}
HOSTILE = {
    "nothing": (lambda: b"", "not a valid ZIP"),
    "no ZIP": (lambda: b"hello" * 1000, "not a valid ZIP"),
    "tar": (lambda: b"x" * 257 + b"ustar\0" + b"0" * 1000, "not a valid ZIP"),
    "empty": (lambda: zip_of({}), "not a valid ZIP"),
    "only others": (lambda: zip_of({"a-symbols.txt": b"x"}), "no symbol file"),
    "cut at the end": (lambda: zip_of({MEMBER: GOOD, **AFTER})[:-30], "not a valid ZIP"),
    "cut in the middle": (lambda: zip_of({MEMBER: GOOD, **AFTER})[:300], "not a valid ZIP"),
    "parent": (lambda: zip_of({"../x/AB1/x.sym": GOOD}), "../x/AB1/x.sym: a ZIP may not"),
    "parent inside": (lambda: zip_of({"x/../AB1/x.sym": GOOD}), "x/../AB1/x.sym: a ZIP may not"),
    "absolute behind ./": (lambda: zip_of({".//etc/AB1/etc.sym": GOOD}), "a ZIP may not"),
    "twice by ./": (lambda: zip_of({MEMBER: GOOD, "./" + MEMBER: GOOD}), f"{MEMBER}: the ZIP has it twice"),
    "no UTF-8": (lambda: renamed("xxx/AB1/xxx.sym", "xxx/AB1/xxx.sym").replace(b"xxx", b"x\xffx"), "Pathname cannot be converted"),
    "absolute": (lambda: renamed("aetc/AB1/aetc.sym", "/etc/AB1/aetc.sym"), "/etc/AB1/aetc.sym: a ZIP may not"),
    "backslashes": (lambda: renamed("xxx/AB1/xxx.sym", "xxx\\AB1\\xxx.sym"), "xxx/AB1/xxx.sym: line 1: the id is"),
    "a control character": (lambda: renamed("xxx/AB1/xxx.sym", "x\nx/AB1/x\nx.sym"), "not of the form"),
    "too deep": (lambda: zip_of({"a/" + MEMBER: GOOD}), "not of the form"),
    "too flat": (lambda: zip_of({"xul.sym": GOOD}), "xul.sym: not of the form"),
    "no id": (lambda: zip_of({"xul.pdb/XYZ/xul.sym": GOOD}), "not of the form"),
    "twice by the file's name": (lambda: zip_of({MEMBER: GOOD, f"{NAME}/{debug_id(NAME)}/other.sym": GOOD}), "the ZIP has it twice"),
    "a long name": (lambda: zip_of({f"{'x' * 700}/AB1/{'x' * 700}.sym": GOOD}), "a ZIP may not have a member of this name"),
    "a name longer than a file's": (lambda: zip_of({**AFTER, f"{'x' * 250}/{debug_id('x')}/{'x' * 250}.sym": text_of("x")}), "longer than 246 bytes"),
    "a link": (link, f"{MEMBER}: it is not a regular file"),
    "twice": (lambda: zip_of([(MEMBER, GOOD), (MEMBER, GOOD)]), f"{MEMBER}: the ZIP has it twice"),
    "twice by case": (lambda: zip_of({MEMBER: GOOD, MEMBER.replace(debug_id(NAME), debug_id(NAME).lower()): GOOD}), "the ZIP has it twice"),
    "encrypted": (lambda: patched(patched(zip_of({MEMBER: GOOD}), LOCAL, 6, "<H", 1), CENTRAL, 8, "<H", 1), "encrypted"),
    "wrong checksum": (lambda: patched(patched(zip_of({MEMBER: GOOD}), LOCAL, 14, "<I", 7), CENTRAL, 16, "<I", 7), MEMBER),
    "smaller than it says": (lambda: patched(zip_of({MEMBER: GOOD}, zipfile.ZIP_STORED), CENTRAL, 20, "<I", 1 << 30), "Inconsistent compressed size"),
    "larger than it says": (lambda: patched(patched(zip_of({MEMBER: GOOD}), LOCAL, 22, "<I", 9), CENTRAL, 24, "<I", 9), MEMBER),
    "a method nobody knows": (lambda: patched(patched(zip_of({MEMBER: GOOD}), LOCAL, 8, "<H", 77), CENTRAL, 10, "<H", 77), MEMBER),
    "damaged": (lambda: zip_of({MEMBER: GOOD})[:90] + b"\xff\xff\xff\xff\xff" + zip_of({MEMBER: GOOD})[95:], MEMBER),
    "a bomb": (lambda: zip_of({MEMBER: GOOD + b"\n" * 100_000_000}), f"{MEMBER}: the ZIP unpacks to far more"),
    "a bomb of members": (lambda: zip_of({path_of(f"b{i}.so")[1:]: text_of(f"b{i}.so", "PUBLIC 1 0 a\n" * 1_000_000) for i in range(15)}), "far more"),
    "100,000 members": (lambda: zip_of({f"{i}-symbols.txt": b"" for i in range(100_000)}, zipfile.ZIP_STORED), "more than 20000 members"),
    "a bad file at the end": (lambda: zip_of({**AFTER, MEMBER: b"no symbol file"}), f"{MEMBER}: line 1 is not a MODULE line"),
    "another id": (lambda: zip_of({**AFTER, MEMBER: text_of(NAME, ident="A" * 33)}), f"{MEMBER}: line 1: the id is"),
    "no symbols": (lambda: zip_of({**AFTER, MEMBER: module_line(NAME, debug_id(NAME))}), f"{MEMBER}: the file has neither"),
}


LARGE = ("a bomb", "a bomb of members", "100,000 members")


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.slow) if kind in LARGE else kind for kind in HOSTILE])
def test_hostile_zips_are_refused_and_leave_nothing(store, kind):
    make, why = HOSTILE[kind]
    before = store.objects()
    error = post(store, make()).error(400)["error"]
    assert why in error, error
    assert store.objects() == before
    assert post(store, zip_of({path_of("still.so")[1:]: text_of("still.so")})).status == 201
    os.remove(os.path.join(store.folder, path_of("still.so")[1:]))


def test_forms_that_are_none(store):
    good = zip_of({MEMBER: GOOD})
    body, content_type = form([('name="a"; filename="a.zip"', good)])
    cases = {
        "no form": (good, "application/zip"),
        "no boundary": (body, "multipart/form-data"),
        "another boundary": (body, "multipart/form-data; boundary=other"),
        "no file": form([('name="try"', b"1")]),
        "no end": (body[:-20], content_type),
        "cut in the file": (body[: len(body) // 2], content_type),
        "a URL": (b"url=https://example.org/symbols.zip", "application/x-www-form-urlencoded"),
        "long headers": form([('name="' + "a" * 10000 + '"; filename="a"', good)]),
        "empty": (b"", content_type),
    }
    for kind, (data, kind_of) in cases.items():
        reply = store.stack.client.request("POST", "/upload/", data, {"Auth-Token": token(store), "Content-Type": kind_of})
        assert reply.status == 400, (kind, reply)


def test_newer_clients_ask_whose_token_it_is(store):
    """upload-symbols wants all of these before it uploads, and reads `error` of a refusal."""

    def ask(**headers):
        return store.stack.client.request("POST", "/upload/auth_info/", b"", headers)

    told = ask(**{"Auth-Token": token(store)})
    assert told.status == 200 and told.json()["email"] and told.json()["try_symbols"] is False and told.json()["upload_api_version"] == 1
    assert told.json()["token_expires_at"] > time.time() + 86400
    ask().error(403)
    ask(**{"Auth-Token": "no such token"}).error(403)
    store.stack.client.get("/upload/auth_info/").error(405)


def test_tokens(store):
    good = zip_of({MEMBER: GOOD})
    body, content_type = form([('name="a"; filename="a.zip"', good)])
    store.stack.client.request("POST", "/upload/", body, {"Content-Type": content_type}).error(403)
    post(store, good, key="bm9ib2R5OmtleQ==").error(403)
    post(store, good, key="?").error(403)
    assert post(store, good, key=store.stack.key).status == 201
    reply = store.stack.client.get("/upload/")
    reply.error(405)
    assert reply.headers["Allow"] == "POST, OPTIONS"


@pytest.mark.parametrize("filename,told", [(b"\xff.zip", ""), (b"a\xff.zip", "a"), (b"a" * 126 + "é.zip".encode(), "a" * 126), ("é".encode() * 100, "é" * 63)])
def test_a_file_is_stored_whatever_it_is_called(store, filename, told):
    """It answered 503 once all was stored."""
    head = b'--b\r\nContent-Disposition: form-data; name="a"; filename="' + filename + b'"\r\n\r\n'
    headers = {"Auth-Token": token(store), "Content-Type": "multipart/form-data; boundary=b"}
    reply = store.stack.client.request("POST", "/upload/", head + zip_of({MEMBER: GOOD}) + b"\r\n--b--\r\n", headers)
    assert reply.status == 201 and reply.json()["upload"]["filename"] == told


def test_without_a_store():
    with Stack(keys=True) as s:
        post(Store(s, None), zip_of({MEMBER: GOOD})).error(404)


def test_a_zip_above_max_sym_upload(tmp_path):
    os.chmod(tmp_path, 0o777)
    with Stack(keys=True, config={**QUICK, "sym_store": f"file://{tmp_path}", "max_sym_upload": "1K"}) as s:
        big = text_of(NAME, "".join(f"PUBLIC {i:x} 0 {os.urandom(30).hex()}\n" for i in range(4000)))
        post(Store(s, tmp_path), zip_of({MEMBER: big})).error(413)


def test_uploads_that_are_refused_and_that_fail_are_counted_apart(tmp_path):
    os.makedirs(tmp_path / "store")
    config = {**QUICK, "sym_store": f"file://{tmp_path}/store/a", "symbfile_store": f"file://{tmp_path}/store/b"}
    for part in "a", "b":
        os.makedirs(tmp_path / "store" / part)
    with Stack(keys=True, config=config) as s:
        store, ident = Store(s, str(tmp_path)), new_id()[1]
        kinds = {
            "sym_uploads": [lambda text: store.put(NAME, text), lambda text: post(store, zip_of({MEMBER: text}))],
            "uploads": [lambda text: upload(s, "ranges", ident, write(ranges("f")) if text == GOOD else text)],
        }

        def counts(kind):
            m = s.node.metrics()
            return [m[f'symbolicated_{kind}_total{{outcome="{outcome}"}}'] for outcome in ("stored", "refused", "failed")]

        for kind, sends in kinds.items():
            for send in sends:
                stored, refused, failed = counts(kind)
                assert send(GOOD).status in (200, 201)
                assert send(b"nothing").status == 400
                assert counts(kind) == [stored + 1, refused + 1, failed]
                os.rename(tmp_path / "store", tmp_path / "away")
                assert send(GOOD).status == 503
                os.rename(tmp_path / "away", tmp_path / "store")
                assert counts(kind) == [stored + 1, refused + 1, failed + 1]
