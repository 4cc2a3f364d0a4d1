# SPDX-License-Identifier: Apache-2.0
"""Executables and debug files for debuggers, through nginx: as debuginfod has them (gdb, lldb, perf, elfutils), and as servers of
Windows' symbols do (what symsrv asks)."""

import contextlib
import functools
import glob
import gzip
import hashlib
import http.server
import json
import os
import re
import shutil
import struct
import subprocess
import threading

import pytest

from platforms import Platforms, call, tool, version_of
from stack import Stack, connects, die_with_parent, free_port, wait_for
from test_debuginfod import build_id_of
from test_executables import HELPER
from test_zip_uploads import form, zip_of

pytestmark = [pytest.mark.skipif(not os.path.exists(HELPER), reason="symbolicated-extract was not built"), pytest.mark.slow]
PROGRAM = """#include <stdio.h>
__attribute__((noinline)) int twice(int number)
{
	return printf("%d\\n", number * 2);
}
int main(int argc, char **argv)
{
	(void)argv;
	return twice(argc) > 99;
}
"""
LLDB = max(glob.glob("/usr/lib/llvm-*/bin/lldb"), key=version_of, default=None)
SYMSRV = "Microsoft-Symbol-Server/10.1710.0.0"


class Place:
    """A tree of build ids, with the source beside it; a stripped program is all that a user has."""

    def __init__(self, base):
        self.base = str(base)
        os.chmod(base, 0o755)
        for name in "src", "tree":
            os.makedirs(f"{base}/{name}", 0o755)
        self.source = f"{base}/src/a program.c"
        with open(self.source, "w", encoding="ascii") as f:
            f.write(PROGRAM)
        whole, self.program = f"{base}/whole", f"{base}/program"
        call("gcc", "-g", "-O1", f"-fdebug-prefix-map={base}/src=/gone/src", "-o", whole, self.source)
        self.id = build_id_of(whole)
        folder = f"{base}/tree/.build-id/{self.id[:2]}"
        os.makedirs(folder)
        self.debug, self.executable = f"{folder}/{self.id[2:]}.debug", f"{folder}/{self.id[2:]}"
        call("objcopy", "--only-keep-debug", whole, self.debug)
        call("strip", "-o", self.program, whole)
        shutil.copy(self.program, self.executable)
        os.remove(whole)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("debuggers"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Windows' files in a tree as symstore makes it: x64.pdb in a cabinet, x86.pdb plain."""
    files = Platforms(tmp_path_factory.mktemp("platforms"))
    os.chmod(files.folder, 0o755)
    files.tree = os.path.join(files.folder, "tree")
    for machine in ("x64", "x86"):
        for name, ident in ((f"{machine}.exe", code_id(files.path(f"{machine}.exe"))), (f"{machine}.pdb", pdb_id(files.path(f"{machine}.pdb")))):
            folder = os.path.join(files.tree, name, ident)
            os.makedirs(folder)
            shutil.copy(files.path(name), folder)
    packed = os.path.join(files.tree, "x64.pdb", pdb_id(files.path("x64.pdb")))
    call("gcab", "-c", "-n", "-z", os.path.join(packed, "x64.pd_"), os.path.join(packed, "x64.pdb"))
    os.remove(os.path.join(packed, "x64.pdb"))
    return files


def code_id(path):
    with open(path, "rb") as f:
        data = f.read(4096)
    at = struct.unpack_from("<I", data, 0x3C)[0]
    return f"{struct.unpack_from('<I', data, at + 8)[0]:08X}{struct.unpack_from('<I', data, at + 80)[0]:x}"


def pdb_id(path):
    out = call(tool("llvm-pdbutil"), "dump", "--summary", path)
    guid, age = re.search(r"GUID: \{([-0-9A-F]+)\}", out)[1], re.search(r"Age: (\d+)", out)[1]
    return guid.replace("-", "") + f"{int(age):x}"


@pytest.fixture(scope="module")
def served(place, made):
    config = {
        "source": [f"elf+file://{place.base}/tree", f"elf+file://{made.tree}"],
        "source_code": f"/gone/src={place.base}/src",
        "file_downloads": "stream",
        "missing_ttl": "60s",
    }
    with Stack(bucket=False, config=config) as s:
        yield s


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def url_of(served):
    return f"http://127.0.0.1:{served.node.nginx.port}"


def asked_by(served, tmp_path, *command, **options):
    env = {**os.environ, "DEBUGINFOD_URLS": url_of(served), "DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, timeout=120, env=env, **options).stdout


@pytest.mark.skipif(not shutil.which("debuginfod-find"), reason="debuginfod-find is not installed")
def test_debuginfod_find_gets_all_four(served, place, tmp_path):
    for what, path in ("debuginfo", place.debug), ("executable", place.executable):
        assert digest(asked_by(served, tmp_path, "debuginfod-find", what, place.id).strip()) == digest(path)
    assert digest(asked_by(served, tmp_path, "debuginfod-find", "source", place.id, "/gone/src/a program.c").strip()) == digest(place.source)
    for of in ("debug_line", "text"):
        found = asked_by(served, tmp_path, "debuginfod-find", "section", place.id, "." + of).strip()
        path = place.debug if of == "debug_line" else place.executable
        raw = str(tmp_path / of)
        call("objcopy", "--dump-section", f".{of}={raw}", path, "/dev/null")
        assert digest(found) == digest(raw)


def lines_of(out, word):
    return [line for line in out.splitlines() if word in line]


@pytest.mark.skipif(not shutil.which("gdb"), reason="gdb is not installed")
def test_gdb_shows_names_lines_and_source(served, place, tmp_path):
    """The source is nowhere on this machine under the name that the debug data have."""
    out = asked_by(served, tmp_path, "gdb", "-nx", "-batch", "-iex", "set debuginfod enabled on", "-ex", "info line twice", "-ex", "list twice", place.program)
    assert re.search(r"Line 3 of .*a program\.c. starts at address .* <twice>", out), out
    assert "return printf" in out and "int main(int argc" in out, out


@pytest.mark.skipif(not shutil.which("perf"), reason="perf is not installed")
def test_perf_lists_the_lines_of_a_stripped_program(served, place, tmp_path):
    """Debian's perf is built without debuginfod, but reads DWARF by elfutils, which asks."""
    out = asked_by(served, tmp_path, "perf", "probe", "-x", place.program, "-L", "twice", "-s", os.path.dirname(place.source))
    assert re.search(r"<twice@.*a program\.c:0>\s+0 .*int twice\(int number\)", out), out


@pytest.mark.skipif(not LLDB or version_of(LLDB) < 18, reason="lldb 18 is not installed: older ones know no debuginfod")
def test_lldb_gets_the_debug_file(served, place, tmp_path):
    out = asked_by(
        served, tmp_path, LLDB, "-x", "-b", "-o", f"settings set plugin.symbol-locator.debuginfod.server-urls {url_of(served)}",
        "-o", f"target create {place.program}", "-o", "breakpoint set -n twice", "-o", "breakpoint list",
    )  # fmt: skip
    assert lines_of(out, "a program.c:3"), out


def symsrv(client, name, ident):
    """What symsrv does: HEAD and GET of the file, then of the cabinet in its place."""
    for asked in (name, name[:-1] + "_"):
        head = client.request("HEAD", f"/{name}/{ident}/{asked}", headers={"User-Agent": SYMSRV})
        if head.status == 200:
            got = client.request("GET", f"/{name}/{ident}/{asked}", headers={"User-Agent": SYMSRV})
            assert got.status == 200 and got.headers["Content-Length"] == head.headers["Content-Length"] == str(len(got.raw))
            assert got.headers["Content-Type"] == "application/octet-stream" and "Content-Encoding" not in got.headers
            return asked, got
        assert head.status == 404
    return None, None


def test_windows_debuggers_get_programs_and_their_symbols(served, made, tmp_path):
    for machine in ("x64", "x86"):
        pdb, exe = made.path(f"{machine}.pdb"), made.path(f"{machine}.exe")
        asked, got = symsrv(served.client, f"{machine}.exe", code_id(exe))
        assert asked == f"{machine}.exe" and hashlib.sha256(got.raw).hexdigest() == digest(exe)
        asked, got = symsrv(served.client, f"{machine}.pdb", pdb_id(pdb))
        if machine == "x64":
            assert asked == "x64.pd_"
            (tmp_path / "x64.pd_").write_bytes(got.raw)
            call("gcab", "-x", "-C", tmp_path, tmp_path / "x64.pd_")
            assert digest(next(p for p in tmp_path.rglob("x64.pdb"))) == digest(pdb)
        else:
            assert asked == "x86.pdb" and hashlib.sha256(got.raw).hexdigest() == digest(pdb)
    assert symsrv(served.client, "x86.pdb", "0" * 31 + "11") == (None, None)
    served.client.get(f"/x86.pdb/{pdb_id(made.path('x86.pdb'))}/file.ptr").error(404)


def test_ranges_tags_and_the_prefix_of_tries(served, made, place):
    path = f"/x86.pdb/{pdb_id(made.path('x86.pdb'))}/x86.pdb"
    whole = served.client.get(path)
    for start in ("", "/try"):
        part = served.client.get(start + path, Range="bytes=100-199")
        assert part.status == 206 and part.raw == whole.raw[100:200]
    lower = served.client.get(path.replace(path.split("/")[2], path.split("/")[2].lower()))
    assert lower.raw == whole.raw
    tag = whole.headers.get("ETag")
    if tag:
        assert served.client.get(path, If_None_Match=tag).status == 304
    part = served.client.get(f"/buildid/{place.id}/debuginfo", Range="bytes=1-3")
    assert part.status == 206 and part.raw == b"ELF"
    head = served.client.request("HEAD", f"/buildid/{place.id}/section/.debug_info")
    assert head.status == 200 and int(head.headers["Content-Length"]) > 100 and not head.raw
    for what in ("debuginfo", "executable", "section/.text"):
        served.client.get(f"/buildid/{'12' * 20}/{what}").error(404)
    for what in ("section/.none", "section/..%2F", "source/etc/passwd", "source/gone/src/../../etc/hosts.c", "other", "section", "source"):
        served.client.get(f"/buildid/{place.id}/{what}").error(404)
    served.client.get("/buildid/xyz/debuginfo").error(400)
    served.client.request("POST", f"/buildid/{place.id}/debuginfo").error(405)


def test_files_are_kept_private_unless_a_setting_says_so(place, made):
    config = {"source": [f"elf+file://{place.base}/tree", f"elf+file://{made.tree}"], "downloads": "stream", "source_code": f"/gone/src={place.base}/src"}
    with Stack(bucket=False, memcached=0, config=config) as s:
        for path in (
            f"/buildid/{place.id}/debuginfo", f"/buildid/{place.id}/executable", f"/buildid/{place.id}/section/.text", f"/buildid/{place.id}/source{place.source}",
            f"/x86.pdb/{pdb_id(made.path('x86.pdb'))}/x86.pdb", f"/x86.exe/{code_id(made.path('x86.exe'))}/x86.exe",
        ):  # fmt: skip
            s.client.get(path.replace(" ", "%20")).error(404)


# ---- what is uploaded ----


@pytest.fixture(scope="module")
def taking(tmp_path_factory):
    """Two hosts with one store."""
    store = tmp_path_factory.mktemp("store")
    os.chmod(store.parent, 0o755)
    os.chmod(store, 0o777)
    config = {"sym_store": f"file://{store}", "sym_store_files": "yes", "file_downloads": "stream", "missing_ttl": "300s", "revalidate_after": "1s"}
    with Stack(bucket=False, daemons=2, keys=True, config=config) as s:
        s.store = store
        yield s


def put(stack, path, data, node=0):
    return stack.nodes[node].client().request("PUT", "/api/file" + path, data, {"Authorization": stack.key})


def read(path):
    with open(path, "rb") as f:
        return f.read()


def named(stack, name, ident, offset, node=0):
    job = {"jobs": [{"memoryMap": [[name, ident]], "stacks": [[[0, offset]]]}]}
    reply = stack.nodes[node].client().post("/symbolicate/v5", job)
    assert reply.status == 200, reply
    return reply.json()["results"][0]["stacks"][0][0].get("function")


def unnamed(stack, module, offset):
    """Why, as the reply for developers has it."""
    return stack.client.v5({"jobs": [{"memoryMap": [module], "stacks": [[[0, offset]]]}]}, Debug="1")["debug"]["unnamed"]


def stored(stack):
    return sorted(os.path.relpath(os.path.join(folder, f), stack.store) for folder, _, files in os.walk(stack.store) for f in files)


@pytest.mark.parametrize("machine,packing", [("x86", "plain"), ("arm64", "gzip"), ("x64", "cabinet")])
def test_an_uploaded_pdb_is_named_and_given_out_on_all_hosts(taking, made, tmp_path, machine, packing):
    path = made.path(f"{machine}.pdb")
    name, ident, data = f"{machine}.pdb", pdb_id(path), read(path)
    last = name if packing != "cabinet" else name[:-1] + "_"
    text = call(tool("llvm-symbolizer"), "--relative-address", "-e", made.path(f"{machine}.exe"), "0x1010")
    for node in range(2):
        assert named(taking, name, ident, 0x1010, node) is None
        taking.nodes[node].client().get(f"/{name}/{ident}/{last}").error(404)
    if packing == "cabinet":
        call("gcab", "-c", "-n", "-z", tmp_path / last, path)
        data = read(tmp_path / last)
    sent = gzip.compress(data) if packing == "gzip" else data
    reply = put(taking, f"/{name}/{ident}/{last}", sent)
    assert reply.status == 200, reply
    for node in range(2):
        wait_for(lambda node=node: named(taking, name, ident, 0x1010, node), "the other host names it")
        assert named(taking, name, ident, 0x1010, node).split("(")[0].split("::")[-1] in text
        wait_for(lambda node=node: taking.nodes[node].client().get(f"/{name}/{ident}/{last}").raw == data, "the other host gives it out")


def test_uploaded_programs_and_debug_files_are_found_by_their_ids(taking, made, place, tmp_path):
    exe, ident = made.path("x64.exe"), code_id(made.path("x64.exe"))
    assert put(taking, f"/x64.exe/{ident}/x64.exe", read(exe)).status == 200
    assert put(taking, f"/buildid/{place.id}/debuginfo", read(place.debug)).status == 200
    assert put(taking, f"/buildid/{place.id}/executable", read(place.executable)).status == 200
    assert hashlib.sha256(taking.client.get(f"/x64.exe/{ident}/x64.exe").raw).hexdigest() == digest(exe)
    assert digest(asked_by(taking, tmp_path, "debuginfod-find", "executable", place.id).strip()) == digest(place.executable)
    symbols = call("nm", place.debug)
    assert named(taking, "program", place.id, int(re.search(r"^(\w+) T twice$", symbols, re.M)[1], 16)) == "twice"
    dwarf = made.dwarf("arm64")
    uuid = re.search(r"UUID: (\S+)", call(tool("llvm-dwarfdump"), "--uuid", dwarf))[1].replace("-", "")
    assert put(taking, f"/mac-arm64/{uuid}0/mac-arm64", read(dwarf)).status == 200
    assert taking.client.get(f"/buildid/{uuid.lower()}/debuginfo").raw == read(dwarf)
    start = int(re.search(r"^(\w+) T _start$", call(tool("llvm-nm"), dwarf), re.M)[1], 16)
    assert named(taking, "mac-arm64", uuid + "0", start & 0xFFFFFF) == "start"


def test_files_that_are_not_what_their_path_says_are_refused(taking, made, place):
    before = stored(taking)
    pdb, ident, other = read(made.path("x86.pdb")), pdb_id(made.path("x86.pdb")), pdb_id(made.path("arm64.pdb"))
    for path, data in (
        (f"/x86.pdb/{other}/x86.pdb", pdb),  # another id
        (f"/x86.pdb/{ident}/x86.pdb", pdb[: len(pdb) // 2]),
        (f"/x86.pdb/{ident}/x86.pdb", b"MODULE windows x86 1 x86.pdb\nFUNC 1 2 3 f\n"),
        (f"/x86.pdb/{ident}/x86.pd_", pdb),  # no cabinet
        (f"/x86.pdb/{ident}/x86.pdb", b"MSCF" + bytes(100)),
        (f"/x86.pdb/{ident}/x86.pdb", gzip.compress(pdb)[:-8]),
        (f"/x86.pdb/{ident}/other.pdb", pdb),
        (f"/buildid/{place.id}/executable", pdb),
        (f"/buildid/{place.id}/section/.text", read(place.executable)),
        (f"/buildid/{'12' * 20}/debuginfo", read(place.debug)),
        (f"/buildid/{place.id}/debuginfo", b""),
    ):
        put(taking, path, data).error(400)
    assert stored(taking) == before
    taking.client.request("PUT", f"/api/file/x86.pdb/{ident}/x86.pdb", pdb).error(401)
    taking.client.get(f"/api/file/x86.pdb/{ident}/x86.pdb").error(405)


def test_a_zip_as_mozilla_uploads_it_has_programs_too(taking, made, tmp_path):
    """dump_syms of Firefox puts xul.pd_ and xul.dl_ beside xul.sym."""
    exe, pdb = made.path("x86-both.exe"), made.path("x86-both.pdb")
    packed = tmp_path / "x86-both.ex_"
    call("gcab", "-c", "-n", "-z", packed, exe)
    ident = pdb_id(pdb)
    members = {
        f"x86-both.exe/{code_id(exe)}/x86-both.ex_": read(packed),
        f"x86-both.pdb/{ident}/x86-both.pdb": read(pdb),
        f"x86-both.pdb/{ident}/x86-both.sym": f"MODULE windows x86 {ident} x86-both.pdb\nFUNC 10 20 0 told\n".encode(),
        f"x86-both.pdb/{ident}/readme.txt": b"",
    }

    def send(members):
        body, kind = form([('name="a.zip"; filename="a.zip"', zip_of(members))])
        return taking.client.request("POST", "/upload/", body, {"Auth-Token": taking.key.split()[1], "Content-Type": kind})

    reply = send(members)
    assert reply.status == 201 and reply.json()["upload"]["files"] == 3, reply
    assert reply.json()["upload"]["ignored_keys"] == [f"x86-both.pdb/{ident}/readme.txt"]
    assert taking.client.get(f"/x86-both.exe/{code_id(exe)}/x86-both.ex_").raw == read(packed)
    assert taking.client.get(f"/x86-both.pdb/{ident}/x86-both.pdb").raw == read(pdb)
    before = stored(taking)
    bad = send({**members, f"x86-both.pdb/{ident[:-1]}9/x86-both.pdb": read(pdb)})
    bad.error(400)
    assert "x86-both.pdb" in bad.text and stored(taking) == before


def test_programs_in_a_zip_unpack_to_no_more_than_symbol_files(taking, made):
    """However often they are packed: a program may have any bytes behind it, and gzip in a ZIP passes its ratio."""
    exe, ident = made.path("arm64.exe"), code_id(made.path("arm64.exe"))
    for zeros, status in ((1_000, 201), (100_000_000, 400)):
        packed = gzip.compress(read(exe) + bytes(zeros))
        body, kind = form([('name="a.zip"; filename="a.zip"', zip_of({f"arm64.exe/{ident}/arm64.exe": packed}))])
        reply = taking.client.request("POST", "/upload/", body, {"Auth-Token": taking.key.split()[1], "Content-Type": kind})
        assert reply.status == status and (status == 201 or "the ZIP unpacks to far more" in reply.text), reply


def test_elf_modules_are_not_looked_for_as_mach_o():
    """A debug id is a part of a build id, which no server tells; it may be a UUID, for which a source has several places."""
    ident = "0123456789ABCDEF0123456789ABCDEF0"
    stack = Stack(symbols=[None], memcached=0)
    stack.config["source"] = f"elf+http://127.0.0.1:{stack.bucket.port}/"
    with stack as s:
        for name, asked in ("libc.so.6", 0), ("drm.ko", 0), ("[vdso]", 0), ("libfoo.so", 0), ("XUL", 4), ("a.sound.dylib", 4):
            s.bucket.reset()
            assert named(s, name, ident, 16) is None
            assert json.loads(s.bucket.ask("_hits"))["total"] == asked, name


@contextlib.contextmanager
def listed(folder):
    """A web server of it that makes listings of folders, and what it was asked for."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given):
            super().__init__(*given, directory=str(folder))

        def log_request(self, *given):
            asked.append(self.path)

        def log_message(self, *given):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", asked
        server.shutdown()


def test_a_symstore_of_two_levels(made, tmp_path):
    """symstore /: an index2.txt, and a folder of the first two letters above each name. It is found without being told."""
    ident = pdb_id(made.path("x64.pdb"))
    folder = tmp_path / "x6" / "x64.pdb" / ident
    folder.mkdir(parents=True)
    shutil.copy(made.path("x64.pdb"), folder)
    (tmp_path / "index2.txt").write_text("")
    os.chmod(tmp_path, 0o755)
    with listed(tmp_path) as (url, asked):
        for source in (f"elf+file://{tmp_path}#symstore", f"elf+file://{tmp_path}", f"elf+{url}"):
            with Stack(bucket=False, memcached=0, config={"source": source, "file_downloads": "stream"}) as s:
                assert s.client.get(f"/x64.pdb/{ident}/x64.pdb").status == 200, source
                assert named(s, "x64.pdb", ident, 0x1010), source
                s.client.get(f"/..pdb/{ident}/..pdb").error(404)
        assert asked.count("/index2.txt") == 1  # for names and for downloads
        os.remove(tmp_path / "index2.txt")
        with Stack(bucket=False, memcached=0, config={"source": f"elf+{url}"}) as s:
            asked.clear()
            assert [named(s, name, ident, 0x1010) for name in ("x64.pdb", "other.pdb")] == [None, None]
            assert asked.count("/index2.txt") == 1 and not [path for path in asked if path.startswith(("/x6/", "/ot/"))]


def test_a_symstore_whose_index2_cannot_be_read_lacks_nothing(tmp_path):
    """What is a level below is not remembered as missing because index2.txt failed once."""
    path = "x64.pdb/0123456789ABCDEF0123456789ABCDEF1/x64.pdb"
    stack = Stack(symbols=[tmp_path], memcached=0)
    file = tmp_path / "x6" / path
    file.parent.mkdir(parents=True)
    file.write_bytes(b"abc")
    stack.config.update(source=f"elf+http://127.0.0.1:{stack.bucket.port}/", file_downloads="stream")
    with stack as s:
        s.bucket.control("status:503", "index2.txt")
        assert s.client.get(f"/{path}").status == 200


def test_a_file_ptr_is_refused_with_a_word(made, tmp_path):
    ident = pdb_id(made.path("x64.pdb"))
    (tmp_path / "x64.pdb" / ident).mkdir(parents=True)
    (tmp_path / "x64.pdb" / ident / "file.ptr").write_text("PATH:\\\\server\\share\\x64.pdb")
    os.chmod(tmp_path, 0o755)
    with Stack(bucket=False, config={"source": f"elf+file://{tmp_path}"}) as s:
        (told,) = unnamed(s, ["x64.pdb", ident], 0x1010)["modules"].values()
        assert told.startswith("not found: its place in the source has a file.ptr"), told


EXPORTING = """
__attribute__((noinline)) static int hidden(int x) { volatile int kept[64]; kept[x & 7] = x; return kept[1] + 3; }
__attribute__((noinline)) int shown(int x) { return hidden(x) * 7; }
int start(void) { return shown(1); }
"""


def test_a_program_gives_what_it_exports_until_its_pdb_is_there(tmp_path):
    """Only the debug id is known, as crash reports have it; the PDB file comes later, and that of another build counts for nothing."""
    (tmp_path / "a.c").write_text(EXPORTING)
    call("clang", "-target", "x86_64-pc-windows-msvc", "-O1", "-g", "-gcodeview", "-ffreestanding", "-fasynchronous-unwind-tables", "-c", "a.c", "-o", "a.obj", cwd=tmp_path)
    link = [tool("lld-link"), "/nologo", "/nodefaultlib", "/entry:start", "/subsystem:console", "/debug:full", "/export:shown", "a.obj"]
    call(*link, "/out:app.exe", "/pdb:app.pdb", cwd=tmp_path)
    call(*link, "/out:other.exe", "/pdb:other.pdb", "/guard:no", "/base:0x150000000", cwd=tmp_path)
    ident = pdb_id(tmp_path / "app.pdb")
    rows = re.findall(r"S_GPROC32 .*`(\w+)`|S_LPROC32 .*`(\w+)`|addr = 0001:(\d+)", call(tool("llvm-pdbutil"), "dump", "-symbols", tmp_path / "app.pdb"))
    names, at = [g or l for g, l, _ in rows if g or l], [int(a) for _, _, a in rows if a]
    offset = {name: 0x1000 + start for name, start in zip(names, at)}
    builds = tmp_path / "builds"
    builds.mkdir()
    os.chmod(tmp_path, 0o755)
    shutil.copy(tmp_path / "app.exe", builds)
    with Stack(bucket=False, config={"source": f"elf+file://{builds}", "missing_ttl": "1s", "file_downloads": "stream"}) as s:
        ask = lambda: s.client.frames(["app.pdb", ident], [offset["shown"], offset["hidden"]])  # noqa: E731
        shown, hidden = ask()
        assert shown["function"] == "shown" and "line" not in shown and "function" not in hidden, (shown, hidden)
        assert unnamed(s, ["app.pdb", ident], offset["hidden"])["frames"] == {"stripped": 1}
        shutil.copy(tmp_path / "other.pdb", builds / "app.pdb")
        assert s.client.frames(["app.pdb", pdb_id(tmp_path / "other.pdb")], [offset["hidden"]])[0]["function"].startswith("hidden")
        shutil.copy(tmp_path / "app.pdb", builds)
        shown, hidden = wait_for(lambda: (lambda f: f if f[0].get("line") else None)(ask()), "the PDB is read")
        assert (shown["line"], hidden["line"], hidden["function"].split("(")[0]) == (3, 2, "hidden")
        shutil.copy(tmp_path / "other.pdb", builds / "app.pdb")
        assert "another file" in str(unnamed(s, ["app.pdb", "0" * 31 + "11"], 0x1010)["modules"])


def test_over_http_a_program_without_its_pdb_is_found_by_its_code_id(tmp_path):
    """Its path has no debug id."""
    (tmp_path / "a.c").write_text(EXPORTING)
    call("clang", "-target", "x86_64-pc-windows-msvc", "-O1", "-ffreestanding", "-c", "a.c", "-o", "a.obj", cwd=tmp_path)
    call(tool("lld-link"), "/nologo", "/nodefaultlib", "/entry:start", "/subsystem:console", "/export:shown", "a.obj", "/out:app.exe", cwd=tmp_path)
    data = (tmp_path / "app.exe").read_bytes()
    pe = int.from_bytes(data[0x3C:0x40], "little")
    code_id = f"{int.from_bytes(data[pe + 8 : pe + 12], 'little'):08X}{int.from_bytes(data[pe + 80 : pe + 84], 'little'):x}"  # time stamp, size of the image
    address = int(re.search(r"Name: shown\n +RVA: (0x[0-9A-F]+)", call(tool("llvm-readobj"), "--coff-exports", tmp_path / "app.exe"))[1], 16)
    place = tmp_path / "tree" / "app.exe" / code_id
    place.mkdir(parents=True)
    shutil.copy(tmp_path / "app.exe", place)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "tree"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Stack(bucket=False, config={"source": f"elf+http://127.0.0.1:{server.server_address[1]}/"}) as s:
            (frame,) = s.client.frames(["app.exe", code_id[:8] + code_id[8:].zfill(8)], [address])
        server.shutdown()
    assert frame["function"] == "shown" and "line" not in frame


REDIRECTING = """
daemon off;
{user}
pid nginx.pid;
error_log error.log;
events {{ }}
http {{
	access_log access.log;
	client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t;
	server {{
		listen 127.0.0.1:{port};
		location /download/symbols/ {{ rewrite ^/download/symbols/(.*)$ http://127.0.0.1:{other}/blob/$1?sig=x%2Fy redirect; }}
		location /try/ {{ rewrite ^/try/(.*)$ http://127.0.0.1:{other}/blob/$1 redirect; }}
	}}
	server {{
		listen 127.0.0.1:{other};
		location /blob/ {{ alias {tree}/; }}
	}}
}}
"""


@pytest.fixture
def redirecting(made, tmp_path):
    """Microsoft's server answers 302 to a store of another host; so does Mozilla's, below /try/."""
    port, other = free_port(), free_port()
    os.chmod(tmp_path, 0o755)
    conf = tmp_path / "nginx.conf"
    conf.write_text(REDIRECTING.format(port=port, other=other, tree=made.tree, user="user root;" if os.geteuid() == 0 else ""))
    with subprocess.Popen(["nginx", "-p", tmp_path, "-e", "error.log", "-c", conf], preexec_fn=die_with_parent) as nginx:
        try:
            wait_for(lambda: connects(port) and connects(other), "nginx listens")
            yield f"http://127.0.0.1:{port}"
        finally:
            nginx.terminate()
            nginx.wait(60)


@pytest.mark.parametrize("place", ["/download/symbols", "/try"])
def test_servers_that_redirect_are_sources(redirecting, made, place):
    for allowed in ("yes", "no"):  # to this machine, which a public server must not be led to
        config = {"source": f"elf+{redirecting}{place}/", "bucket_allow_local_redirects": allowed, "bucket_retries": "0"}
        with Stack(bucket=False, memcached=0, config=config) as s:
            for name in ("x64.pdb", "x86.pdb"):  # in a cabinet, and plain
                job = {"jobs": [{"memoryMap": [[name, pdb_id(made.path(name))]], "stacks": [[[0, 0x1010]]]}]}
                reply = s.client.post("/symbolicate/v5", job)
                assert reply.status == (200 if allowed == "yes" else 503), reply
                assert allowed == "no" or reply.json()["results"][0]["stacks"][0][0]["function"]


def test_a_folder_of_build_ids_is_no_file(tmp_path):
    """What is asked for by the first byte of a build id alone would be a folder, of which many web servers have a listing."""
    (tmp_path / ".build-id" / "ab").mkdir(parents=True)
    (tmp_path / ".build-id" / "ab" / "cdef.debug").write_bytes(b"\x7fELF of somebody")
    with listed(tmp_path) as (url, _):
        with Stack(bucket=False, memcached=0, config={"source": f"elf+{url}", "file_downloads": "stream"}) as s:
            assert s.client.get("/buildid/abcdef/debuginfo").raw == b"\x7fELF of somebody"
            for what in "executable", "debuginfo", "section/.text":
                s.client.get(f"/buildid/ab/{what}").error(404)


def test_a_listing_of_perfs_cache_is_no_file(place, tmp_path):
    """Where Debian has the program, perf's cache has a folder: .build-id/xx/yyyy/elf."""
    folder = tmp_path / ".build-id" / place.id[:2] / place.id[2:]
    folder.mkdir(parents=True)
    shutil.copy(place.executable, folder / "elf")
    with listed(tmp_path) as (url, asked):
        with Stack(bucket=False, memcached=0, config={"source": f"elf+{url}", "file_downloads": "stream"}) as s:
            got = s.client.get(f"/buildid/{place.id}/executable")
            assert got.status == 200 and hashlib.sha256(got.raw).hexdigest() == digest(place.executable)
            address = re.search(r"\.text +PROGBITS +([0-9a-f]+)", call("readelf", "-SW", place.executable))[1]
            code = s.client.post("/asm/v1", {"name": "program", "codeId": place.id, "startAddress": f"0x{address}", "size": "0x10"})
            assert code.status == 200 and code.json()["instructions"], code
        assert any(path.endswith(place.id[2:] + "/") for path in asked)  # the listing was there
