# SPDX-License-Identifier: Apache-2.0
"""Sources of executables: nobody has pushed anything, and names come from debug files in the layouts that are in use, over a directory,
HTTP, S3 and elfutils' own debuginfod. Files that lie or kill their reader cost one module."""

import contextlib
import gzip
import json
import lzma
import mmap
import os
import random
import re
import shutil
import socket
import string
import struct
import subprocess
import sys
import uuid
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from check_extract import without_section_headers
from client import job
from s3 import BUCKET, S3, program_or_fail
from stack import DAEMON, ROOT, Bucket, Stack, opened, seed_of, wait_for
from symbols import Symbols
from test_debuginfod import Place, build_id_of, place, server  # noqa: F401
from test_symbtool import SYMBTOOL, code_addresses, compile_program, push, run, v5_frames

PROGRAM = DAEMON[-1]
LIBC = "/lib/x86_64-linux-gnu/libc.so.6"
HELPER = os.path.join(os.path.dirname(PROGRAM), "symbolicated-extract")
pytestmark = pytest.mark.skipif(not os.path.exists(HELPER), reason="symbolicated-extract was not built")


def facts(frames):
    return [(f.get("function"), f.get("file"), f.get("line"), f.get("inlines")) for f in frames]


def named(stack, build_id, addresses, name="prog"):
    return facts(stack.client.frames([name, build_id], addresses))


class Tree:
    """One program, whole and as what a distribution has of it."""

    def __init__(self, base, *flags):
        self.base = base
        self.program = compile_program(str(base), "program", 5, "-no-pie", *flags)
        self.id = build_id_of(self.program)
        self.addresses = code_addresses(self.program)
        self.debug, self.stripped = f"{base}/program.debug", f"{base}/program.stripped"
        subprocess.run(["objcopy", "--only-keep-debug", self.program, self.debug], check=True)
        subprocess.run(["strip", "-o", self.stripped, self.program], check=True)
        asked = [hex(a) for a in self.addresses]
        self.whole = facts(v5_frames(run("symbolicate", "--json", self.program, *asked).stdout))
        headers = subprocess.run(["readelf", "-lW", self.program], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.image_base = int(re.search(r"LOAD\s+\S+\s+(\S+)", headers)[1], 16)
        self.offsets = [a - self.image_base for a in self.addresses]

    def put(self, root, path, data):
        path = f"{root}/{path}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)

    def bytes(self, path=None):
        with open(path or self.debug, "rb") as file:
            return file.read()


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return Tree(tmp_path_factory.mktemp("tree"))


def paths(build_id):
    """As elfutils, perf, symbol servers and Symbolicator have them."""
    xx, rest = build_id[:2], build_id[2:]
    return [f".build-id/{xx}/{rest}.debug", f".build-id/{xx}/{rest}/debug", f"_.debug/elf-buildid-sym-{build_id}/_.debug", f"{xx}/{rest}/debuginfo"]


def over(root, **config):
    return Stack(bucket=False, config={"source": [f"elf+file://{root}"], **config})


@pytest.mark.parametrize("number", range(4))
def test_layouts_of_debug_files(tree, tmp_path, number):
    """A program at a fixed address, by offsets in its image."""
    tree.put(tmp_path, paths(tree.id)[number], tree.bytes())
    with over(tmp_path) as s:
        assert tree.image_base > 0 and len(tree.offsets) > 30
        assert named(s, tree.id, tree.offsets) == tree.whole
        assert named(s, tree.id.upper(), tree.offsets) == tree.whole


@pytest.mark.in_turn
@pytest.mark.parametrize("path", [".build-id/{0}/{1}/elf", "{0}/{1}/executable"])
def test_layouts_of_executables(tree, tmp_path, path):
    tree.put(tmp_path, path.format(tree.id[:2], tree.id[2:]), tree.bytes(tree.program))
    with over(tmp_path) as s:
        assert named(s, tree.id, tree.offsets) == tree.whole


def zstd(data):
    return subprocess.run(["zstd", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, pytest.param(zstd, marks=pytest.mark.skipif(not shutil.which("zstd"), reason="no zstd"))])
def test_packed(tree, tmp_path, pack):
    tree.put(tmp_path, paths(tree.id)[0], pack(tree.bytes()))
    with over(tmp_path) as s:
        assert named(s, tree.id, tree.offsets) == tree.whole


PICK = """
static int __attribute__((noinline)) pick(int a) { for (int i = 0; i < a; i++) a += i * a ^ 3; return a; }
int ONE(int a) { return pick(a) + 1; }
"""
SHELF = """
struct Shelf { virtual ~Shelf(); int *held; };
__attribute__((noinline)) Shelf::~Shelf() { for (int i = 0; i < held[0]; i++) held[i] ^= i; delete[] held; }
int one(int), two(int);
int main(int argc, char **) { Shelf *s = new Shelf; s->held = new int[9]{argc}; int a = one(argc) + two(argc); delete s; return a; }
"""


def neighbours(directory):
    """A program in which two static functions, and two destructors, with one printed name lie side by side."""
    objects = []
    for name, text in (("one", PICK.replace("ONE", "one")), ("two", PICK.replace("ONE", "two")), ("shelf", SHELF)):
        source = f"{directory}/pick.cpp" if name != "shelf" else f"{directory}/shelf.cpp"
        Path(source).write_text(text)  # one file for both, as a header would be
        objects.append(f"{directory}/{name}.o")
        subprocess.run(["g++", "-g", "-O1", "-fno-align-functions", "-ffunction-sections", "-c", source, "-o", objects[-1]], check=True, cwd=directory)
    program, script = f"{directory}/neighbours", f"{directory}/order.ld"
    names = ".text._ZL4picki .text._ZN5ShelfD2Ev .text._ZN5ShelfD1Ev .text._ZN5ShelfD0Ev"
    Path(script).write_text(f"SECTIONS {{ .text.picked : {{ *({names}) }} }} INSERT BEFORE .text;\n")
    subprocess.run(["g++", "-no-pie", "-Wl,--build-id=sha1", f"-Wl,-T,{script}", "-o", program, *objects], check=True)
    return program


def extents(program):
    """{start: size} of the functions of main's program that have a printed name in common, as nm has them."""
    out = subprocess.run(["nm", "-SC", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = re.findall(r"^([0-9a-f]+) ([0-9a-f]+) [tTwW] (pick\(int\)|Shelf::~Shelf\(\))", out, re.M)
    return {int(start, 16): (int(size, 16), name.partition("(")[0]) for start, size, name in found}


def test_neighbours_of_one_printed_name_are_two_functions(tmp_path):
    program = neighbours(tmp_path)
    want = extents(program)
    assert sorted(name for _, name in want.values()) == ["Shelf::~Shelf"] * 2 + ["pick"] * 2
    ends = {start + size: name for start, (size, name) in want.items()}
    assert sum(ends.get(start) == name for start, (_, name) in want.items()) == 2, "they are not neighbours"
    ident = build_id_of(program)
    os.makedirs(tmp_path / f"tree/{ident[:2]}/{ident[2:]}")
    shutil.copy(program, tmp_path / f"tree/{ident[:2]}/{ident[2:]}/debuginfo")
    os.makedirs(tmp_path / "store")
    with over(tmp_path / "tree") as source, Stack(keys=True, config={"symbfile_store": f"file://{tmp_path}/store"}) as pushed:
        url = f"http://127.0.0.1:{pushed.node.nginx.port}"
        run("push-symbols", "--url", url, program, env={"SYMBTOOL_API_KEY": pushed.key})
        for s in source, pushed:
            for start, (size, name) in want.items():
                for at in range(start, start + size, 3):
                    frame = s.client.frames(["neighbours", ident], [at - 0x400000])[0]
                    assert frame["function"].partition("(")[0] == name
                    assert (frame["function_offset"], frame["function_size"]) == (hex(at - start), hex(size)), (hex(at), frame)


def test_another_host_and_a_restart_know_what_was_read(tree, tmp_path):
    """Its pages are in memcached like any others: the source is not asked again."""
    tree.put(tmp_path, paths(tree.id)[0], tree.bytes())
    with Stack(bucket=False, daemons=2, config={"source": [f"elf+file://{tmp_path}"]}) as s:
        assert named(s, tree.id, tree.offsets) == tree.whole
        os.unlink(tmp_path / paths(tree.id)[0])
        other = s.nodes[1].client()
        wait_for(lambda: facts(other.frames(["prog", tree.id], tree.offsets)) == tree.whole, "the pages of the other host")


NOTHING = (None, None, None, None)


def guid(build_id):
    return uuid.UUID(bytes_le=bytes.fromhex(build_id)[:16]).hex.upper()


@pytest.mark.parametrize("number", [0, 3])
def test_a_folder_tells_the_build_id_of_a_debug_id(tree, tmp_path, number):
    """By both orders of its bytes: the id does not tell which one it has."""
    tree.put(tmp_path, paths(tree.id)[number], tree.bytes())
    with over(tmp_path) as s:
        for debug_id in guid(tree.id) + "0", tree.id[:32].upper() + "0", guid(tree.id), tree.id[:32]:
            assert named(s, debug_id, tree.offsets) == tree.whole
        assert named(s, guid("ff" * 20) + "0", tree.offsets[:1]) == [NOTHING]
        assert named(s, guid(tree.id) + "1", tree.offsets[:1]) == [NOTHING]  # the age is that of no build id


class Shared:
    """Two programs that share entries in a third file (dwz -m), which has no name by its build id: as Debian's packages of debug
    symbols have them."""

    def __init__(self, base):
        self.programs = [compile_program(str(base), f"program{i}", 3 + i) for i in range(2)]
        self.ids = [build_id_of(p) for p in self.programs]
        self.addresses = [code_addresses(p) for p in self.programs]
        self.whole = [facts(v5_frames(run("symbolicate", "--json", p, *map(hex, a)).stdout)) for p, a in zip(self.programs, self.addresses, strict=True)]
        os.makedirs(base / ".dwz" / "x86_64-linux-gnu")
        self.common = base / ".dwz" / "x86_64-linux-gnu" / "programs.debug"
        subprocess.run(["dwz", "-m", self.common, "-M", "/usr/lib/debug/.dwz/x86_64-linux-gnu/programs.debug", *self.programs], check=True)
        for program, build_id in zip(self.programs, self.ids, strict=True):
            debug = base / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
            os.makedirs(debug.parent, exist_ok=True)
            subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)

    def named(self, s):
        return [named(s, i, a) for i, a in zip(self.ids, self.addresses, strict=True)]


@pytest.mark.in_turn
@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("dwz"), reason="dwz is not installed")
def test_shared_entries_that_only_a_name_leads_to(tmp_path):
    """Without them there are calls without names; a file of another build id tells none either."""
    shared = Shared(tmp_path)
    bucket = Bucket("files", str(tmp_path), Symbols(str(tmp_path)))
    bucket.start()
    try:
        for source in f"elf+file://{tmp_path}", "elf+" + bucket.url:
            with Stack(bucket=False, config={"source": [source]}) as s:
                assert shared.named(s) == shared.whole
                assert lacking(s, shared.ids[0]) == []
    finally:
        bucket.stop()
    shutil.copy(shared.programs[1], shared.common)
    with over(tmp_path) as s:
        other = shared.named(s)
        assert all(units > 0 for units in lacking(s, shared.ids[0])) and lacking(s, shared.ids[0])
    assert other != shared.whole
    shared.common.unlink()
    with over(tmp_path) as s:
        assert shared.named(s) == other


SPLIT = {
    "a.c": """#include "all.h"
static inline __attribute__((always_inline)) int twice(int x) { volatile int y = x; return y * 2 + seen(y); }
__attribute__((noinline)) int first(int x) { return twice(x) + twice(x + 1); }
int main(int n, char **v) { (void)v; return first(n) + second(n) + third(n); }
""",
    "b.c": """#include "all.h"
static inline __attribute__((always_inline)) int thrice(int x) { volatile int y = x; return y * 3; }
__attribute__((noinline)) int second(int x) { return thrice(x) + seen(x); }
""",
    "c.c": """#include "all.h"
__attribute__((noinline)) int seen(int x) { volatile int y = x; return y; }
static __attribute__((noinline)) int hidden(int x) { volatile int y = x; return y * 5 + seen(y); }
int third(int x) { return hidden(x) + hidden(x + 2); }
""",
    "all.h": "int first(int); int second(int); int third(int); int seen(int);\n",
}


def instructions(program, functions):
    """The addresses of all instructions of these functions, and of the padding behind them."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    bodies = re.findall(r"^[0-9a-f]+ <(\w+)>:\n((?:.+\n)+)", text, re.M)
    return [int(at, 16) for name, body in bodies if name in functions for at in re.findall(r"^ +([0-9a-f]+):", body, re.M)]


COLUMNS = {".debug_info.dwo": 1, ".debug_abbrev.dwo": 3, ".debug_line.dwo": 4, ".debug_loclists.dwo": 5, ".debug_str_offsets.dwo": 6, ".debug_rnglists.dwo": 8}
STRINGS = ".debug_str.dwo"


def sections_of(path):
    names = re.findall(r"(\.debug_\S+)", subprocess.run(["readelf", "-SW", path], stdout=subprocess.PIPE, text=True, check=True).stdout)
    data = {}
    for name in names:
        subprocess.run(["objcopy", "-O", "binary", "--only-section", name, "--set-section-flags", f"{name}=alloc", path, path + ".section"], check=True)
        with open(path + ".section", "rb") as f:
            data[name] = f.read()
    os.unlink(path + ".section")
    return data


def pack(package, objects):
    """A package of DWARF 5 units (7.3.5 of the standard), for Debian's packers end never, or with a crash, for most that gcc makes."""
    contents, rows, slots = dict.fromkeys([*COLUMNS, STRINGS], b""), [], [(0, 0)] * 8
    for number, path in enumerate(objects, 1):
        data = sections_of(path)
        assert struct.unpack_from("<IHBB", data[".debug_info.dwo"])[1:3] == (5, 5)  # a split unit
        offsets = data[".debug_str_offsets.dwo"]
        moved = [offset + len(contents[STRINGS]) for offset in struct.unpack(f"<{len(offsets) // 4 - 2}I", offsets[8:])]
        data[".debug_str_offsets.dwo"] = offsets[:8] + struct.pack(f"<{len(moved)}I", *moved)
        rows.append([(len(contents[name]), len(data.get(name, b""))) for name in COLUMNS])
        for name in contents:
            contents[name] += data.get(name, b"")
        ident = struct.unpack_from("<Q", data[".debug_info.dwo"], 12)[0]
        at = ident & 7
        while slots[at][1]:
            at = (at + (ident >> 32 & 7 | 1)) & 7
        slots[at] = (ident, number)
    numbers = [*(n for _, n in slots), *COLUMNS.values(), *(row[i][which] for which in (0, 1) for row in rows for i in range(len(COLUMNS)))]
    contents[".debug_cu_index"] = struct.pack("<HHIII8Q", 5, 0, len(COLUMNS), len(rows), len(slots), *(i for i, _ in slots)) + struct.pack(f"<{len(numbers)}I", *numbers)
    arguments = []
    for name, data in contents.items():
        with open(package + name, "wb") as f:
            f.write(data)
        arguments += ["--add-section", f"{name}={package}{name}"]
    subprocess.run(["objcopy", "-R", ".debug*", *arguments, objects[0], package], check=True)


class Split:
    """A program of three split units (-gsplit-dwarf), and its package."""

    def __init__(self, base, compiler, version, packer):
        self.program, self.package = f"{base}/program", f"{base}/program.dwp"
        for name, text in SPLIT.items():
            (base / name).write_text(text, encoding="utf-8")
        for name in "abc":
            subprocess.run([compiler, "-O2", f"-gdwarf-{version}", "-gsplit-dwarf", "-c", f"{name}.c"], cwd=base, check=True)
        subprocess.run([compiler, "-Wl,--build-id=sha1", "-o", self.program, "a.o", "b.o", "c.o"], cwd=base, check=True)
        self.id, self.addresses = build_id_of(self.program), instructions(self.program, ["first", "second", "third", "seen", "hidden", "main"])
        self.whole = self.local()
        if packer:
            subprocess.run([packer, "-e", self.program, "-o", self.package], cwd=base, check=True, timeout=60)
        else:
            pack(self.package, [f"{base}/{name}.dwo" for name in "abc"])
        for name in "abc":
            (base / f"{name}.dwo").unlink()
        assert self.local() == self.whole
        os.rename(self.package, f"{base}/package")
        self.package, self.poor = f"{base}/package", self.local()
        assert {f[0] for f in self.whole} - {None} == {"first", "second", "third", "seen", "hidden", "main"}
        assert sum(bool(f[3]) for f in self.whole) > 5 and self.poor != self.whole

    def local(self):
        """As symbtool reads it where it is."""
        return facts(v5_frames(run("symbolicate", "--json", self.program, *map(hex, self.addresses)).stdout))


KINDS = {"clang-5": ("clang", 5, "llvm-dwp"), "clang-4": ("clang", 4, "llvm-dwp"), "gcc-4": ("gcc", 4, "dwp"), "gcc-5": ("gcc", 5, None)}


@pytest.fixture(scope="module", params=KINDS)
def split(request, tmp_path_factory):
    compiler, version, packer = KINDS[request.param]
    if not shutil.which(compiler) or packer and not shutil.which(packer):
        pytest.skip(f"{compiler} or {packer} is not installed")
    return Split(tmp_path_factory.mktemp("split"), compiler, version, packer)


def lacking(stack, build_id):
    debug = stack.client.v5(job([["prog", build_id]], [[0, 0]]), Debug="1")["debug"]
    return list(debug["missing_units_per_module"].values())


@pytest.mark.parametrize("path", [".build-id/{0}/{1}.debug.dwp", ".build-id/{0}/{1}.dwp"])
def test_the_package_of_split_units_is_beside_the_debug_file(split, tmp_path, path):
    xx, rest = split.id[:2], split.id[2:]
    os.makedirs(tmp_path / ".build-id" / xx)
    subprocess.run(["objcopy", "--only-keep-debug", split.program, tmp_path / ".build-id" / xx / f"{rest}.debug"], check=True)
    shutil.copy(split.package, tmp_path / path.format(xx, rest))
    with over(tmp_path) as s:
        assert named(s, split.id, split.addresses) == split.whole
        assert lacking(s, split.id) == []


@pytest.mark.parametrize("packed", [True, False])
def test_the_package_of_split_units_as_a_debuginfod_server_has_it(split, tmp_path, packed):
    """Where lldb asks for it. Without it the executable answers, or its debug file."""
    folder = tmp_path / "buildid" / split.id
    os.makedirs(folder)
    shutil.copy(split.program, folder / "executable")
    if packed:
        shutil.copy(split.package, folder / "debuginfo")
    bucket = Bucket("files", str(tmp_path), Symbols(str(tmp_path)))
    bucket.start()
    try:
        with Stack(bucket=False, config={"source": [f"debuginfod+{bucket.url}"]}) as s:
            assert named(s, split.id, split.addresses) == (split.whole if packed else split.poor)
            assert lacking(s, split.id) == ([] if packed else [3])
    finally:
        bucket.stop()


def test_a_package_of_split_units_that_comes_later_is_found(split, tmp_path):
    """A module that lacks it is not kept longer than a missing one, in memory and in memcached. A package of other units is none."""
    at = f".build-id/{split.id[:2]}/{split.id[2:]}"
    os.makedirs(tmp_path / at)
    shutil.copy(split.program, tmp_path / at / "elf")
    shutil.copy(split.program, tmp_path / at / "elf.dwp")
    with Stack(bucket=False, daemons=2, config={"source": [f"elf+file://{tmp_path}"], "missing_ttl": "2s"}) as s:
        other = s.nodes[1].client()
        assert named(s, split.id, split.addresses) == split.poor
        assert facts(other.frames(["prog", split.id], split.addresses)) == split.poor
        assert lacking(s, split.id) == [3]
        shutil.copy(split.package, tmp_path / at / "elf.dwp")
        wait_for(lambda: named(s, split.id, split.addresses) == split.whole, "the package to be asked for again")
        wait_for(lambda: facts(other.frames(["prog", split.id], split.addresses)) == split.whole, "the other host to see it")
        assert lacking(s, split.id) == []


def test_two_build_ids_that_begin_alike_are_not_guessed(tree, tmp_path):
    tree.put(tmp_path, paths(tree.id)[0], tree.bytes())
    tree.put(tmp_path, paths(tree.id[:-2] + ("11" if tree.id.endswith("00") else "00"))[0], tree.bytes())
    with over(tmp_path) as s:
        assert named(s, guid(tree.id) + "0", tree.offsets[:1]) == [NOTHING]
        told = s.client.v5(job([["prog", guid(tree.id) + "0"]], [[0, 1]]), Debug="1")["debug"]["unnamed"]["modules"]
        assert list(told.values()) == ["not found: several build ids begin with this debug id: give the whole build id"]
        assert named(s, tree.id, tree.offsets) == tree.whole


@pytest.fixture(params=["debuginfod+", "elf+"])
def over_http(request, tree, tmp_path):
    """The program's debug file, where a folder cannot be searched for the build id of a debug id."""
    tree.put(tmp_path, paths(tree.id)[0], tree.bytes())
    tree.put(tmp_path, f"buildid/{tree.id}/debuginfo", tree.bytes())
    with contextlib.ExitStack() as servers:
        bucket = Bucket("files", str(tmp_path), Symbols(str(tmp_path)))
        bucket.start()
        servers.callback(bucket.stop)
        yield servers.enter_context(Stack(bucket=False, config={"source": [request.param + bucket.url]}))


def test_more_are_fetched_than_read(tree, tmp_path):
    """A slow source keeps nobody's cores busy."""
    bucket = Bucket("files", str(tmp_path), Symbols(str(tmp_path)))
    bucket.start()
    bucket.control("slow:60")
    try:
        with Stack(bucket=False, config={"source": [f"debuginfod+{bucket.url}"], "executables_parallel": "1", "bucket_parallel_request": "16", "shutdown_timeout": "0"}) as s:
            modules = [["prog", f"{i:040x}"] for i in range(1, 13)]
            body = json.dumps(job(modules, [[i, 1] for i in range(12)])).encode()
            with socket.create_connection(("127.0.0.1", s.node.nginx.port)) as asker:
                asker.sendall(b"POST /symbolicate/v5 HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                wait_for(lambda: len(bucket.paths()) == 9, "files to be asked for: all of the places but the last quarter")
                wait_for(lambda: s.node.metrics()["symbolicated_loads_in_flight"] == 12, "the others to wait")
                assert len(bucket.paths()) == 9
    finally:
        bucket.stop()


def test_a_tree_that_is_away_is_no_missing_module(tree, tmp_path):
    """Neither to one who knows the whole build id, nor to one who has a debug id."""
    root, away = tmp_path / "root", tmp_path / "away"
    tree.put(root, paths(tree.id)[0], tree.bytes())
    with over(root, failure_ttl_min="100ms", failure_ttl_max="100ms") as s:
        for ident in guid(tree.id) + "0", tree.id:
            os.rename(root, away)
            s.client.post("/symbolicate/v5", job([["prog", ident]], [[0, tree.offsets[0]]])).error(503)
            os.rename(away, root)
            wait_for(lambda: s.client.post("/symbolicate/v5", job([["prog", ident]], [[0, tree.offsets[0]]])).status == 200, "the tree to be asked again")  # noqa: B023
            assert named(s, ident, tree.offsets) == tree.whole


PART = "a source needs the whole build id; a debug id is only a part of it"


def test_a_debug_id_that_is_not_enough_is_told(tree, over_http):
    """By everything that tells reasons; what tells the whole build id is answered all the same, then."""
    debug_id = guid(tree.id) + "0"
    at = next(i for i, f in enumerate(tree.whole) if f[0] and f[2])
    told = over_http.client.v5(job([["prog", debug_id]], [[0, tree.offsets[at]]]), Debug="1")
    assert told["debug"]["unnamed"]["modules"] == {f"prog/{debug_id}": f"not found: {PART}"}
    text = f"MODULE Linux x86_64 {debug_id} prog\n#0 0x55d902ef6f36  (/opt/prog+{tree.offsets[at]:#x})\n"
    reply = over_http.client.post("/symbolicate/text", text.encode(), Accept="application/json").json()
    assert [(f["reason"], f["detail"]) for f in reply["frames"]] == [("not found", PART)]
    url = f"http://127.0.0.1:{over_http.node.nginx.port}"
    assert f"prog/{debug_id}: not found: {PART}" in run("symbolicate", "--url", url, f"prog/{debug_id}", hex(tree.offsets[at]), code=1).stderr
    assert f"prog/{debug_id}: not found: {PART}" in run("symbolicate", "--filter", "--url", url, stdin=text).stderr
    assert why(over_http, tree.id, tree.offsets[at]).count(f'"function":"{tree.whole[at][0]}"') == 1
    assert "detail" not in why(over_http, "ff" * 20)


def test_texts_tell_the_build_id(tree, tmp_path):
    """As AddressSanitizer has it: the debug id made from it would not be enough."""
    tree.put(tmp_path, paths(tree.id)[0], tree.bytes())
    at = next(i for i, f in enumerate(tree.whole) if f[0] and f[2])
    with over(tmp_path) as s:
        line = f"    #0 0x55d902ef6f36  (/opt/prog+{tree.offsets[at]:#x}) (BuildId: {tree.id})\n"
        reply = s.client.post("/symbolicate/text", line.encode())
        assert reply.status == 200 and tree.whole[at][0] in reply.body.decode(), reply.body


def test_a_build_id_is_not_asked_for_as_that_of_a_pdb_file(tmp_path):
    """Both may have 20 bytes; three requests in vain for each module that is missing."""
    bucket = Bucket("files", str(tmp_path), Symbols(str(tmp_path)))
    bucket.start()
    try:
        with Stack(bucket=False, config={"source": ["elf+" + bucket.url]}) as s:
            assert named(s, "ff" * 20, [16], "libmissing.so.1") == [NOTHING]
            assert bucket.paths() and not [p for p in bucket.paths() if "libmissing" in p], bucket.paths()
    finally:
        bucket.stop()


PACKINGS = {"plain": bytes, "gzip": gzip.compress, "xz": lzma.compress, **({"zstd": zstd} if shutil.which("zstd") else {})}


@pytest.mark.slow
def test_a_bucket_of_debug_files(tree, tmp_path, monkeypatch):
    """On a real S3 server with keys: as Debian's tree has them, plain and packed. Answers are those of the program itself; what is not there
    is missing, and a file below another build id is not believed."""
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    server = S3(tmp_path / "s3", program_or_fail())
    with contextlib.ExitStack() as servers:
        server.start()
        servers.callback(server.stop)
        for packing, pack in PACKINGS.items():
            tree.put(f"{server.root}/{BUCKET}/{packing}/linux", paths(tree.id)[0], pack(tree.bytes()))
        other = "00" + tree.id[2:]
        tree.put(f"{server.root}/{BUCKET}/plain/linux", paths(other)[0], tree.bytes())
        config = {**server.settings(), "s3_credentials_file": server.credentials()}
        for packing in PACKINGS:
            with Stack(bucket=False, config={**config, "source": [f"elf+s3://{BUCKET}/{packing}/linux"]}) as s:
                assert named(s, tree.id, tree.offsets) == tree.whole, packing
                assert named(s, "ff" * 20, tree.offsets[:1]) == [NOTHING]
                if packing == "plain":
                    assert f"another file: its build id is {tree.id}" in why(s, other)
                    told = s.client.v5(job([["prog", guid(tree.id) + "0"]], [[0, tree.offsets[0]]]), Debug="1")["debug"]["unnamed"]["modules"]
                    assert list(told.values()) == [f"not found: {PART}"]
        with Stack(bucket=False, config={**config, "s3_credentials_file": server.credentials("wrong", secret="x"), "source": [f"elf+s3://{BUCKET}/plain/linux"]}) as s:
            assert s.client.post("/symbolicate/v5", job([["prog", tree.id]], [[0, tree.offsets[0]]])).status == 503


# ---- files that lie ----


def why(stack, build_id, offset=0x1000):
    """The reason of a frame without a name, as texts have it."""
    text = f"#0 0x55d902ef6f36  (/opt/prog+{offset:#x}) (BuildId: {build_id})\n".encode()
    reply = stack.client.post("/symbolicate/text", text, Accept="application/json")
    assert reply.status == 200, reply
    return reply.body.decode()


def test_another_file_is_not_believed(tree, tmp_path):
    other = "00" + tree.id[2:]
    tree.put(tmp_path, paths(other)[0], tree.bytes())
    with over(tmp_path) as s:
        assert f"another file: its build id is {tree.id}" in why(s, other)


def test_damage_costs_one_module(tree, tmp_path):
    """Half a file, no ELF file, a file without anything: each with its reason; the whole one beside them is right."""
    ids = {"half": "11" * 20, "text": "22" * 20}
    tree.put(tmp_path, paths(tree.id)[0], tree.bytes())
    tree.put(tmp_path, paths(ids["half"])[0], tree.bytes()[: len(tree.bytes()) // 2])
    tree.put(tmp_path, paths(ids["text"])[0], b"nothing of use" * 100)
    with over(tmp_path) as s:
        assert "corrupt" in why(s, ids["half"])
        assert "not an ELF, Mach-O, PE or PDB file" in why(s, ids["text"])
        assert named(s, tree.id, tree.offsets) == tree.whole


def test_a_file_without_section_headers_is_read_by_its_segments(tree, tmp_path):
    """As sstrip leaves it: the names of nm -D before, sent or in a tree; what a debug file says of it; what is cut is told."""
    library, bare = str(tmp_path / "library.so"), str(tmp_path / "bare.so")
    (tmp_path / "store").mkdir()
    (tmp_path / "library.c").write_text("int once(int x) { return x * 3; }\nint twice(int x) { return once(x) + x; }\n")
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-Wl,--build-id", tmp_path / "library.c", "-o", library], check=True)
    lines = subprocess.run(["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    symbols = {f[2]: int(f[0], 16) for f in map(str.split, lines) if f[1] == "T"}
    without_section_headers(library, bare)
    build_id = build_id_of(library)
    tree.put(tmp_path / "tree", paths(build_id)[1], tree.bytes(bare))
    with over(tmp_path / "tree") as s:
        assert {"once", "twice"} <= set(symbols)
        assert [f[0] for f in named(s, build_id, list(symbols.values()))] == list(symbols)
    with Stack(keys=True, config={"symbfile_store": f"file://{tmp_path}/store"}) as s:
        s.key_path = str(tmp_path / "key")
        Path(s.key_path).write_text(s.key + "\n", encoding="ascii")
        push(s, bare)
        assert [f[0] for f in named(s, build_id, list(symbols.values()))] == list(symbols)
        for path, end in (bare, "within a segment"), (library, "before its section headers"):
            (tmp_path / "cut.so").write_bytes(tree.bytes(path)[:-1])
            tree.put(tmp_path / end, paths(build_id)[1], tree.bytes(path)[:-1])
            assert f"cut.so: cut off: the file ends {end}" in push(s, tmp_path / "cut.so", code=1).stderr
            with over(tmp_path / end.replace(" ", "%20")) as source:
                assert f"cut off: the file ends {end}" in why(source, build_id)
    without_section_headers(tree.stripped, f"{tmp_path}/stripped")
    tree.put(tmp_path / "both", paths(tree.id)[1], tree.bytes(f"{tmp_path}/stripped"))
    tree.put(tmp_path / "both", paths(tree.id)[0], tree.bytes())
    with over(tmp_path / "both") as s:
        assert named(s, tree.id, tree.offsets) == tree.whole


@pytest.mark.plain  # with a sanitizer the helper has no seccomp, without which the tool does not trust it
def test_damaged_files_end_with_records_or_a_reason(tree, tmp_path):
    """The tool for many files, and the few that it makes here."""
    tool = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools", "damage_extract.py")
    (tmp_path / "debug").write_bytes(tree.bytes())
    done = subprocess.run([sys.executable, tool, "--helper", HELPER, "--count", "12", "--seconds", "60", "--keep", tmp_path, tmp_path / "debug"], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0 and "ERR_OK" in done.stdout and "ERR_CORRUPT" in done.stdout, done.stdout


def test_limits(tree, tmp_path):
    tree.put(tmp_path, paths(tree.id)[0], tree.bytes())
    with over(tmp_path, executable_max_size="1000") as s:
        assert '"reason":"too large"' in why(s, tree.id)


@pytest.mark.slow
def test_names_that_take_too_much_memory(tree, tmp_path):
    """2 MB of them, which nothing compresses."""
    source, program = tmp_path / "names.c", str(tmp_path / "names.so")
    letters = random.Random(1)
    source.write_text("".join(f"void f{i}_{''.join(letters.choices(string.ascii_letters, k=1000))}(void) {{}}\n" for i in range(2000)))
    subprocess.run(["gcc", "-shared", "-O0", "-Wl,--build-id=sha1", "-o", program, source], check=True)
    ident = build_id_of(program)
    tree.put(tmp_path, paths(ident)[0], tree.bytes(program))
    with over(tmp_path, load_memory_max="1M") as s:
        assert '"reason":"too large"' in why(s, ident)
        assert any(line["event"] == "too large" and "load_memory_max 1 MB" in line["text"] for line in s.daemon.log_lines())


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["256M", "2G"])
def test_inflated_sections_are_charged(tree, tmp_path, memory):
    """600 MB of .zdebug_info in a file of some 600 KB, which its reader inflates and then maps a piece at a time."""
    program, section = str(tmp_path / "bomb"), tmp_path / "zdebug"
    packer, size = zlib.compressobj(9), 600 << 20
    head = b"ZLIB" + size.to_bytes(8, "big")
    section.write_bytes(head + b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush())
    subprocess.run(["objcopy", "--strip-debug", "--add-section", f".zdebug_info={section}", tree.program, program], check=True)
    tree.put(tmp_path, paths(tree.id)[0], tree.bytes(program))
    os.unlink(section)
    with over(tmp_path, memory=memory, cache_size="32M", executable_max_size="1G") as s:
        with ThreadPoolExecutor() as pool:
            asked, most = pool.submit(why, s, tree.id), 0
            while not asked.done():
                most = max(most, s.node.metrics()['symbolicated_memory_bytes{kind="helper"}'])
        log = [line["text"] for line in s.daemon.log_lines() if line["event"] in ("too large", "no room")]
        assert bool(log) == (memory == "256M"), log
        assert most < 256 << 20 if memory == "256M" else most > 500 << 20, most


def test_a_folder_that_cannot_be_written_to_is_temporary(tree, tmp_path):
    tree.put(tmp_path, paths(tree.id)[0], tree.bytes())
    with over(tmp_path, executable_folder="/nowhere/at/all") as s:
        reply = s.client.post("/symbolicate/v5", job([["prog", tree.id]], [[0, tree.offsets[0]]]))
        assert reply.status == 503, reply
        assert any("executable_folder /nowhere/at/all: No such file" in str(line) for line in s.daemon.log_lines())


@pytest.mark.in_turn
def test_check_config_says_what_is_missing(tmp_path):
    command = [*DAEMON, "--source", f"elf+file://{tmp_path}", "--check-config"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    done = subprocess.run([*command, "--executable-folder", "/nowhere/at/all"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "executable_folder /nowhere/at/all: No such file" in done.stderr


def test_the_helper_tells_who_starts_it():
    done = subprocess.run([HELPER], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "symbolicated starts this program" in done.stderr


def test_packets_that_are_no_jobs_take_no_place():
    """There is room for 256 jobs, and a stack on standard error if the helper dies."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        process = subprocess.Popen(["sh", "-c", 'exec "$0" 3<&0', HELPER], stdin=its, stderr=subprocess.PIPE)
    with ours:
        ours.settimeout(60)
        assert ours.recv(100).startswith(b"R")
        for _ in range(300):
            ours.send(b"?")
    assert process.communicate(timeout=60)[1] == b"" and process.returncode == 0


@pytest.mark.in_turn
def test_without_the_helper_nothing_starts(tmp_path):
    lonely = shutil.copy(PROGRAM, tmp_path / "symbolicated")
    done = subprocess.run([lonely, "--source", f"elf+file://{tmp_path}", "--check-config"], capture_output=True, text=True)
    assert done.returncode == 1 and "need the program" in done.stderr and "symbolicated-extract" in done.stderr


# ---- assembly ----


def asm(stack, build_id, start, length, **more):
    """As the profiler asks: the code id of an ELF file is its build id."""
    request = {"debugName": "prog", "debugId": guid(build_id) + "0", "name": "prog", "codeId": build_id, "startAddress": hex(start), "size": hex(length), **more}
    reply = stack.client.post("/asm/v1", {k: v for k, v in request.items() if v is not None})
    assert reply.status == 200 and reply.headers["Content-Type"] == "application/json", reply
    return reply.json()


def objdump(program, start, end):
    """Where instructions begin, and their mnemonics."""
    command = ["objdump", "-d", "-M", "intel", "-w", "--no-show-raw-insn", f"--start-address={start:#x}", f"--stop-address={end:#x}", program]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [(int(a, 16), m) for a, m in re.findall(r"^ +([0-9a-f]+):\t(\S*)", out, re.M)]


def function_of(program, name):
    out = subprocess.run(["nm", "-S", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    return next((int(f[0], 16), int(f[1], 16)) for f in map(str.split, out.splitlines()) if len(f) == 4 and f[3] == name)


@pytest.fixture(scope="module")
def served(tree, tmp_path_factory):
    root = tmp_path_factory.mktemp("served")
    tree.put(root, paths(tree.id)[0], tree.bytes())
    tree.put(root, f"{tree.id[:2]}/{tree.id[2:]}/executable", tree.bytes(tree.program))
    with over(root) as s:
        yield s


def test_assembly_of_a_function(tree, served):
    start, size = function_of(tree.program, "main")
    got = asm(served, tree.id, start - tree.image_base, size)
    assert (got["startAddress"], got["size"], got["arch"], got["syntax"]) == (hex(start - tree.image_base), hex(size), "x86_64", ["Intel"])
    assert [start + i[0] for i in got["instructions"]] == [a for a, _ in objdump(tree.program, start, start + size)]
    assert all(len(i) == 2 and isinstance(i[1], str) and i[1] for i in got["instructions"])
    called = [i[1] for i in got["instructions"] if i[1].startswith("call")]
    assert called and all(re.fullmatch(r"call 0x[0-9A-F]+( <.*>)?", c) for c in called) and any("<" in c for c in called), called


def test_assembly_up_to_the_end_of_the_function(tree, served):
    start, size = function_of(tree.program, "main")
    whole = asm(served, tree.id, start - tree.image_base, size)
    assert asm(served, tree.id, start - tree.image_base, 1, continueUntilFunctionEnd=True) == whole
    first = asm(served, tree.id, start - tree.image_base, 1, continueUntilFunctionEnd=False)
    assert first["instructions"] == whole["instructions"][:1] and int(first["size"], 16) == whole["instructions"][1][0]


def waits(stack):
    """How often threads of the server have waited for something."""
    return sum(int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status.read_text(), re.M)[1]) for status in Path(f"/proc/{stack.daemon.process.pid}/task").glob("*/status"))


def test_assembly_of_much_code(tree, tmp_path):
    """Its reader sends many instructions at a time: a message for each would take the server 25 times as long as the reply."""
    (tmp_path / "much.c").write_text('int main(void) { __asm__(".rept 50000\\n\\tnop\\n.endr"); return 0; }\n')
    program = str(tmp_path / "much")
    subprocess.run(["gcc", "-O1", "-no-pie", "-Wl,--build-id", "-o", program, tmp_path / "much.c"], check=True)
    start, size = function_of(program, "main")
    ident = build_id_of(program)
    tree.put(tmp_path, f"files/{ident[:2]}/{ident[2:]}/executable", tree.bytes(program))
    with over(tmp_path / "files") as s:
        before = waits(s)
        got = asm(s, ident, start - 0x400000, size)
        assert waits(s) < before + 10_000
    assert [start + i[0] for i in got["instructions"]] == [a for a, _ in objdump(program, start, start + size)]
    assert sum(text == "nop" for _, text in got["instructions"]) >= 50_000


def test_assembly_by_the_debug_id(tree, served):
    start, size = function_of(tree.program, "main")
    assert asm(served, tree.id, start - tree.image_base, size, codeId=None)["instructions"]


@pytest.mark.in_turn
@pytest.mark.parametrize("change, word", [
    ({"startAddress": "4096"}, "startAddress is not a string"), ({"startAddress": 4096}, "startAddress is not a string"),
    ({"size": "0x"}, "size is not a string"), ({"size": None}, "size is not a string"), ({"continueUntilFunctionEnd": 1}, "continueUntilFunctionEnd"),
    ({"codeId": "xyz", "debugId": "xyz"}, "neither codeId nor debugId"), ({"codeId": "00" * 20}, "no file of this build id"),
    ({"startAddress": "0x7fffffff"}, "no code is at this address"), ({"startAddress": "0xffffffffffffffff"}, "no code is at this address"),
])  # fmt: skip
def test_errors_of_assembly_are_told(tree, served, change, word):
    start, size = function_of(tree.program, "main")
    assert word in asm(served, tree.id, start - tree.image_base, size, **change)["error"]


@pytest.mark.in_turn
def test_assembly_of_what_is_no_request(served):
    for body in b"", b"[]", b"{", b"null", b'{"size":"0x1"}':
        assert "error" in served.client.post("/asm/v1", body).json()
    assert served.client.get("/asm/v1").status == 405


def test_assembly_without_a_source_of_executables(tree):
    with Stack() as s:
        assert asm(s, tree.id, 0x1000, 16) == {"error": "this server has no source of executables"}


def test_assembly_needs_the_executable(tree, tmp_path):
    tree.put(tmp_path, paths(tree.id)[0], tree.bytes())
    start, size = function_of(tree.program, "main")
    with over(tmp_path) as s:
        assert "it is a debug file" in asm(s, tree.id, start - tree.image_base, size)["error"]


def put_by_build_id(root, program):
    build_id = build_id_of(program)
    os.makedirs(root / ".build-id" / build_id[:2])
    shutil.copy(program, root / ".build-id" / build_id[:2] / build_id[2:])
    return build_id


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists(LIBC), reason="no libc of x86-64")
def test_assembly_of_libc_has_the_boundaries_of_objdump(tmp_path):
    build_id = put_by_build_id(tmp_path, LIBC)
    start = code_addresses(LIBC, 1)[0]
    with over(tmp_path) as s:
        got = asm(s, build_id, start, 0x30000)
    want = objdump(LIBC, start, start + 0x30000)
    assert len(want) > 40000
    assert {start + i[0] for i in got["instructions"]} == {a for a, m in want if m}


def put_assembled(root, text):
    program = str(root / "assembled.so")
    command = ["gcc", "-shared", "-nostdlib", "-Wl,--build-id=sha1", "-o", program, "-x", "assembler", "-"]
    subprocess.run(command, input=".text\n" + text, text=True, check=True)
    return program, put_by_build_id(root, program)


def test_assembly_names_parts_of_functions(tmp_path):
    """The cold part of a function lies elsewhere: an offset from the function's name would lead to other code."""
    cold = ("f.cold", "_Z1gi.cold")
    text = ".type f,@function\nf: " + "".join(f"jz {name}+1\n" for name in cold) + ".size f,.-f\n"
    text += "".join(f".type {name},@function\n{name}: nop\nret\n.size {name},.-{name}\n" for name in cold)
    program, build_id = put_assembled(tmp_path, text)
    start, size = function_of(program, "f")
    with over(tmp_path) as s:
        texts = [i[1] for i in asm(s, build_id, start, size)["instructions"]]
    assert [t.split(" ", 2)[2] for t in texts] == ["<f.cold+0x1>", "<g(int) [clone .cold]+0x1>"]


def test_assembly_behind_padding_begins_with_the_function(tmp_path):
    """What lies between functions, such as the zeros of some linkers, does not swallow the beginning of the next one."""
    functions = "".join(f".type {name},@function\n{name}: push %r12\nret\n.size {name},.-{name}\n.byte 0xe8\n" for name in ("first", "second", "third"))
    program, build_id = put_assembled(tmp_path, functions)
    start, end = function_of(program, "first")[0], sum(function_of(program, "third"))
    with over(tmp_path) as s:
        got = asm(s, build_id, start, end - start)["instructions"]
    assert [start + i[0] for i in got] == [a for a, _ in objdump(program, start, end)]
    assert [i[1] for i in got] == ["push r12", "ret", "(bad)"] * 2 + ["push r12", "ret"]


ARM_CODE = """
static const double scale[] = {1.5, 2.5e10, -3.25};
int table(int x) { switch (x) { case 0: return 7; case 1: return x * 91; case 2: return -4; case 3: return 1 << x; case 4: return 99; case 5: return x ^ 5; } return 0; }
double mixed(double a, int n) { double r = 0; for (int i = 0; i < n; i++) r += a * scale[i % 3] + i * 0x1p-30; return r; }
unsigned long long wide(unsigned long long v) { return v * 0x123456789abcdefULL ^ v >> 7; }
__attribute__((noinline)) int deep(int n, int *out) { return n <= 0 ? *out : deep(n - 1, out) + table(n) + *out; }
__asm__(".text\\n.balign 4\\n.global island\\n.type island, %function\\nisland: nop\\nb 1f\\n.word 0xdeadbeef\\n.byte 1\\n.balign 4\\n1: nop\\n"
        "nop\\nb 2f\\n.short 0x1234\\n.word 0xcafebabe\\n.balign 4\\n2: nop\\n.size island, .-island");
int outer(int n) { int sum = n; for (int i = 0; i < n; i++) sum += deep(i, &sum); return sum + (int)mixed(2.5, n) + (int)wide(n); }
"""
ARMS = {
    "aarch64": ["--target=aarch64-linux-gnu"],
    "a32": ["--target=armv6-linux-gnueabihf", "-marm"],  # without movt: constants lie between functions
    "t32": ["--target=armv7a-linux-gnueabihf", "-mthumb"],
}


def llvm_objdump(program):
    out = subprocess.run(["llvm-objdump", "-d", "-j", ".text", "--no-show-raw-insn", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [(int(a, 16), m) for a, m in re.findall(r"^ *([0-9a-f]+):\s+(?:(?:[0-9a-f]{2}[ \t])+\s*)?(\S+)", out, re.M)]


def without_data(lines):
    return {a for a, m in lines if not m.startswith(".")}


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", ARMS)
def test_assembly_of_arm_has_the_boundaries_of_objdump(tmp_path, kind):
    source = tmp_path / "arm.c"
    program = str(tmp_path / "arm.so")
    source.write_text(ARM_CODE)
    subprocess.run(["clang", *ARMS[kind], "-O2", "-ffreestanding", "-fPIC", "-nostdlib", "-shared", "-fuse-ld=lld", "-Wl,--build-id=sha1", "-Wl,-Bsymbolic", "-o", program, source], check=True)
    build_id = put_by_build_id(tmp_path, program)
    want = llvm_objdump(program)
    start, end = want[0][0], want[-1][0] + 4
    with over(tmp_path) as s:
        got = asm(s, build_id, start, end - start)
        if kind == "aarch64":
            assert "not that of an instruction" in asm(s, build_id, start + 2, 4)["error"]
    assert (got["arch"], got["syntax"]) == ("aarch64" if kind == "aarch64" else "arm", ["ARM"])
    lines = [(start + i[0], i[1]) for i in got["instructions"]]
    assert len(want) > 100 and any(t == ".word 0xdeadbeef" for _, t in lines)
    assert without_data(lines) == without_data(want)
    if kind == "t32":  # in Thumb code data may begin between multiples of four
        texts = [t for _, t in lines]
        assert texts[texts.index(".short 0x1234") + 1] == ".word 0xcafebabe"
    mnemonics = {a: m for a, m in want}
    branches = [t for a, t in lines if mnemonics.get(a) == "bl"]
    assert any(t.endswith("<deep>") for t in branches), branches


PE_CODE = ARM_CODE.split("__asm__")[0] + """
int _fltused;
__declspec(dllexport) int outer(int n) { int sum = n; for (int i = 0; i < n; i++) sum += deep(i, &sum); return sum + (int)mixed(2.5, n) + (int)wide(n); }
"""
PE_HEADERS = 1024  # bytes


def pe_numbers(data):
    """Its code id, and where its image would like to be."""
    at = struct.unpack_from("<I", data, 0x3C)[0]
    stamp, magic, image = struct.unpack_from("<I", data, at + 8)[0], struct.unpack_from("<H", data, at + 24)[0], struct.unpack_from("<I", data, at + 24 + 56)[0]
    base = struct.unpack_from("<Q" if magic == 0x20B else "<I", data, at + 24 + (24 if magic == 0x20B else 28))[0]
    return f"{stamp:08X}{image:x}", base


class WindowsProgram:
    def __init__(self, root, target, code=PE_CODE):
        self.path = str(root / "prog.dll")
        source = root / "pe.c"
        source.write_text(code)
        flags = ["-O2", "-fasynchronous-unwind-tables", "-ffreestanding", "-nostdlib", "-shared", "-fuse-ld=lld", "-Wl,-noentry", "-Wl,-timestamp:0x5cf2591c"]
        subprocess.run(["clang", f"--target={target}", *flags, "-o", self.path, source], check=True)
        with open(self.path, "rb") as f:
            self.data = f.read()
        self.code_id, self.base = pe_numbers(self.data)
        self.place = root / "store" / "prog.dll" / self.code_id / "prog.dll"
        os.makedirs(self.place.parent)
        self.place.write_bytes(self.data)
        self.lines = [(a - self.base, m) for a, m in llvm_objdump(self.path)]
        self.start, self.end = self.lines[0][0], self.lines[-1][0] + 1

    def functions(self):
        """Of the table that unwinders use."""
        out = subprocess.run(["llvm-readobj", "--unwind", self.path], stdout=subprocess.PIPE, text=True, check=True).stdout
        found = [(int(start, 16), int(end, 16)) for start, end in re.findall(r"StartAddress: .*0x([0-9A-F]+)\)\s+EndAddress: .*0x([0-9A-F]+)\)", out)]
        for entry in out.split("RuntimeFunction {")[1:] if not found else ():  # of AArch64, packed and with a record of their own
            start, length = (int(re.search(key, entry)[1], 0) for key in (r"Function: (0x\w+)", r"FunctionLength: (\d+)"))
            found.append((start, start + length))
        assert len(found) > 1
        return [(start - self.base, end - self.base) for start, end in found]

    def ask(self, stack, **more):
        question = {"name": "prog.dll", "debugName": "prog.pdb", "debugId": "44E4EC8C2F41492B9369D6B9A059577C2", "codeId": self.code_id}
        request = {**question, "startAddress": hex(self.start), "size": hex(self.end - self.start), **more}
        reply = stack.client.post("/asm/v1", {k: v for k, v in request.items() if v is not None})
        assert reply.status == 200, reply
        return reply.json()


WINDOWS = {"x86_64": "x86_64", "i686": "i686", "aarch64": "aarch64"}


@pytest.mark.in_turn
@pytest.mark.parametrize("arch, target", [(arch, f"{cpu}-pc-windows-msvc") for arch, cpu in WINDOWS.items()])
def test_assembly_of_windows_programs_has_the_boundaries_of_objdump(tmp_path, arch, target):
    program = WindowsProgram(tmp_path, target)
    with over(tmp_path / "store") as s:
        got = program.ask(s)
        assert got["arch"] == arch and len(program.lines) > 100
        assert [program.start + i[0] for i in got["instructions"]] == [a for a, _ in program.lines]
        assert program.ask(s, name="C:\\\\Program Files\\\\prog.dll") == got
        assert program.ask(s, startAddress="0x10") == {"error": "no code is at this address"}
        assert "no file of this" in program.ask(s, name="other.dll")["error"]
        for length, found in ((127, True), (128, False)):
            name = "x" * (length - 4) + ".dll"
            shutil.copytree(program.place.parent, tmp_path / "store" / name / program.code_id)
            os.rename(tmp_path / "store" / name / program.code_id / "prog.dll", tmp_path / "store" / name / program.code_id / name)
            assert ("instructions" in program.ask(s, name=name)) == found
        assert got["syntax"] == ["ARM" if arch == "aarch64" else "Intel"]
        if arch == "aarch64":
            assert "not that of an instruction" in program.ask(s, startAddress=hex(program.start + 1))["error"]
        if arch in ("x86_64", "aarch64"):
            for start, end in program.functions():
                within = [a for a, _ in program.lines if start <= a < end]
                part = program.ask(s, startAddress=hex(within[1]), size="0x1", continueUntilFunctionEnd=True)
                assert [within[1] + i[0] for i in part["instructions"]] == within[1:]
        os.makedirs(program.place.parent.parent / program.code_id.lower())
        os.rename(program.place, program.place.parent.parent / program.code_id.lower() / "prog.dll")
        assert program.ask(s) == got


HYBRID = """
__asm__(".section .rdata,\\"dr\\"\\n.balign 16\\n.globl _load_config_used\\n_load_config_used: .long 0x140\\n.zero 0xc4\\n.quad hybrid\\n.zero 0x70\\n"
        "hybrid: .long 1\\n.rva map\\n.long 2\\nmap: .rva island\\n.long 32\\n.rva old+2\\n.long 6\\n"
        ".text\\n.balign 16\\nisland: .rept 7\\nadd x0, x1, x2\\n.endr\\nret\\nold: .byte 0x48, 0x89, 0xc8, 0x0f, 0x0b, 0xc3\\n.balign 16\\n.globl island\\n.globl old");
"""


@pytest.mark.in_turn
def test_windows_programs_with_code_of_two_machines(tmp_path):
    """ARM64EC calls itself x86-64, and has a map of its code: each part is read as what it is."""
    program = WindowsProgram(tmp_path, "aarch64-pc-windows-msvc", PE_CODE + HYBRID)
    header = struct.unpack_from("<I", program.data, 0x3C)[0]
    program.place.write_bytes(program.data[: header + 4] + struct.pack("<H", 0x8664) + program.data[header + 6 :])
    at = next(a for i, (a, m) in enumerate(program.lines) if [x for _, x in program.lines[i : i + 8]] == ["add"] * 7 + ["ret"])
    with over(tmp_path / "store") as s:
        got = program.ask(s, startAddress=hex(at), size="0x30")
        assert got["arch"] == "aarch64" and [i[1].split()[0] for i in got["instructions"]] == ["add"] * 7 + ["ret"]
        got = program.ask(s, startAddress=hex(at + 32), size="0x30")
        assert got["arch"] == "x86_64" and [i[1] for i in got["instructions"]] == ["mov rax, rcx", "ud2", "ret"]
        assert "code for two machines" in program.ask(s, startAddress=hex(at + 38), size="0x10")["error"]


@pytest.mark.in_turn
def test_windows_programs_for_32_bit_arm_are_refused(tmp_path):
    """Tables lie between the instructions of T32, and a PE file has no mapping symbols: rather none than wrong ones."""
    program = WindowsProgram(tmp_path, "thumbv7-pc-windows-msvc")
    with over(tmp_path / "store") as s:
        assert program.ask(s) == {"error": "32-bit Arm code of PE files cannot be disassembled: nothing tells where jump tables lie in it"}


@pytest.mark.in_turn
@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_branches_of_windows_programs_have_the_names_of_the_map(tmp_path, arch):
    """Once somebody has asked for its symbols, and without a load of its own."""
    program = WindowsProgram(tmp_path, f"{WINDOWS[arch]}-pc-windows-msvc")
    call = {"x86_64": "call", "aarch64": "bl"}[arch]
    targets = {int(t, 16) for t in re.findall(rf"\b{call}q?\s+0x([0-9a-f]+)", subprocess.run(["llvm-objdump", "-d", program.path], stdout=subprocess.PIPE, text=True, check=True).stdout)}
    target = min(targets) - program.base
    debug_id, name = "44E4EC8C2F41492B9369D6B9A059577C2", 'deep"<\\>' + "é" * 400
    symbols = tmp_path / "symbols" / "prog.pdb" / debug_id
    os.makedirs(symbols)
    (symbols / "prog.sym").write_text(f"MODULE windows {arch} {debug_id} prog.pdb\nFUNC {target - 2:x} 2 0 other\nFUNC {target:x} 8 0 {name}\n", encoding="utf-8")
    with Stack(bucket=False, config={"source": [f"elf+file://{tmp_path}/store", f"file://{tmp_path}/symbols"]}) as s:
        before = program.ask(s)
        assert not any("<" in text for _, text in before["instructions"])
        assert s.client.frames(["prog.pdb", debug_id], [target])[0]["function"] == name
        after = program.ask(s)
        assert {**after, "instructions": 0} == {**before, "instructions": 0} and len(after["instructions"]) == len(before["instructions"])
        changed = [(old, new) for (_, old), (_, new) in zip(before["instructions"], after["instructions"]) if old != new]
        calls = [(old, new) for old, new in changed if old.split()[0] == call]
        assert calls and all(int(re.search("0x(.+)", old)[1], 16) == target for old, _ in calls), changed
        for old, new in changed:
            address = int(re.search("0x([0-9A-Fa-f]+)$", old)[1], 16)
            shown = 'deep"<\\>' + "é" * 145  # 300 bytes, as it stands in the reply, less the half of one
            assert new == f"{old} <{shown}{f'+{address - target:#x}' if address > target else ''}>" and target <= address < target + 8
        other = program.ask(s, debugId=debug_id[:-1] + "3")
        assert other == before


def put_symbols(root, name, debug_id, info, address):
    folder = root / name / debug_id
    os.makedirs(folder)
    (folder / (name.removesuffix(".pdb") + ".sym")).write_text(f"MODULE windows x86_64 {debug_id} {name}\n{info}FUNC {address:x} 4 0 f\n")


def test_assembly_of_windows_programs_by_the_debug_id(tmp_path):
    """The symbols tell the code id, once a cache has them: on this host or, by memcached, on another. Else the reason is told."""
    program = WindowsProgram(tmp_path, "x86_64-pc-windows-msvc")
    infos = {"1": f"INFO CODE_ID {program.code_id} prog.dll\n", "2": "", "3": "INFO CODE_ID 00000000000 prog.dll\n", "4": "INFO CODE_ID 000000011000 prog.dll\n",
             "5": f"INFO CODE_ID {program.code_id}\n"}  # fmt: skip
    ids = {age: "44E4EC8C2F41492B9369D6B9A059577C" + age for age in infos}
    for age, info in infos.items():
        put_symbols(tmp_path / "symbols", "prog.pdb", ids[age], info, program.start)
    with Stack(bucket=False, daemons=2, config={"source": [f"elf+file://{tmp_path}/store", f"file://{tmp_path}/symbols"]}) as s:
        right = program.ask(s, debugName=None, debugId=None)
        unknown = "neither codeId nor debugId gives a build id, and no cached symbols give the code id"
        for age in infos:
            assert program.ask(s, codeId=None, debugId=ids[age]) == {"error": unknown}
            assert s.client.frames(["prog.pdb", ids[age]], [program.start])[0]["function"] == "f"

        def asked(age, **more):
            got = program.ask(s, debugId=ids[age], **{"codeId": None, **more})
            return {**got, "instructions": [[at, re.sub(" <f.*", "", text)] for at, text in got["instructions"]]} if "instructions" in got else got

        for code_id in None, "", "xyz":
            assert asked("1", codeId=code_id) == right
        assert asked("1", name=None) == asked("1", name="other.dll") == asked("5") == right
        assert asked("2") == asked("3") == asked("5", name=None) == {"error": unknown}
        assert "no file of this" in asked("4")["error"]
        assert asked("3", codeId=program.code_id) == right
        # a name that no file can have leaves nothing behind for the one that the symbols tell
        assert asked("1", codeId="0000000110000", name="a (copy).dll") == right
        other = s.nodes[1].client()
        question = {"debugName": "prog.pdb", "debugId": ids["1"], "startAddress": hex(program.start), "size": "0x1"}
        wait_for(lambda: "instructions" in other.post("/asm/v1", question).json(), "the map on the other host")


def test_assembly_by_a_debug_id_of_which_the_symbols_know_the_rest(tree, tmp_path):
    """Two build ids begin alike, so only the code id in the symbols tells which it is. One that does not begin like the debug id is not believed."""
    debug_id = guid(tree.id) + "0"
    for build_id in tree.id, tree.id[:32] + "0" * 8:
        tree.put(tmp_path, f".build-id/{build_id[:2]}/{build_id[2:]}", tree.bytes(tree.program))
    start, size = function_of(tree.program, "main")
    offset = start - tree.image_base
    for name, told in ("prog", tree.id.upper()), ("liar", "00" * 20):
        put_symbols(tmp_path / "symbols", name, debug_id, f"INFO CODE_ID {told}\n", offset)
    with Stack(bucket=False, config={"source": [f"elf+file://{tmp_path}", f"file://{tmp_path}/symbols"]}) as s:
        right = asm(s, tree.id, offset, size)
        for name in "prog", "liar":
            assert "several build ids begin with this" in asm(s, tree.id, offset, size, codeId=None, debugName=name)["error"]
            s.client.frames([name, debug_id], [offset])
        assert asm(s, tree.id, offset, size, codeId=None)["instructions"] == right["instructions"]
        assert "several build ids begin with this" in asm(s, tree.id, offset, size, codeId=None, debugName="liar")["error"]


@pytest.mark.in_turn
@pytest.mark.slow
def test_damaged_windows_programs_are_told(tmp_path):
    """Headers with any bytes: no reader dies, and the program as it was is read afterwards."""
    program = WindowsProgram(tmp_path, f"{random.Random(seed_of('pe')).choice(list(WINDOWS.values()))}-pc-windows-msvc")
    chance = random.Random(seed_of("pe"))
    told = 0
    with over(tmp_path / "store") as s:
        right = program.ask(s)
        for n in range(300):
            data = bytearray(program.data)
            for _ in range(chance.choice((1, 2, 8))):
                data[chance.randrange(PE_HEADERS)] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            program.place.write_bytes(data[: chance.randrange(len(data))] if n % 4 == 0 else data)
            got = program.ask(s, continueUntilFunctionEnd=n % 2 == 0)
            assert "instructions" in got or not re.search("died|took too long|too much memory", got["error"]), got
            told += "error" in got
        assert told > 50
        program.place.write_bytes(program.data)
        assert program.ask(s) == right


# ---- source code ----


def source(stack, file, offset, **more):
    request = {"debugName": "prog", "debugId": more.pop("build_id"), "moduleOffset": hex(offset), "file": file, **more}
    reply = stack.client.post("/source/v1", {k: v for k, v in request.items() if v is not None})
    assert reply.status == 200 and reply.headers["Content-Type"] == "application/json", reply
    return reply.json()


@pytest.fixture(scope="module")
def with_source(tree, tmp_path_factory):
    """Folders: the program's own sources, and one with a link that leads out, a file that is no text, and a large one."""
    root = tmp_path_factory.mktemp("with-source")
    tree.put(root, paths(tree.id)[0], tree.bytes())
    with over(root, source_code=[f"{tree.base}={tree.base}"]) as s:
        yield s


def place_in(tree):
    """An offset with its file."""
    return next((o, f[1]) for o, f in zip(tree.offsets, tree.whole, strict=True) if f[1] and f[1].startswith(str(tree.base)))


def test_source_code_of_a_file_that_the_symbols_name(tree, with_source):
    offset, file = place_in(tree)
    with open(file, encoding="utf-8") as f:
        want = {"symbolsLastModified": None, "sourceLastModified": None, "file": file, "source": f.read()}
    assert source(with_source, file, offset, build_id=tree.id) == want
    assert source(with_source, file, offset, build_id=guid(tree.id) + "0", codeId=tree.id) == want


def test_source_code_that_the_symbols_do_not_name_is_not_given(tree, with_source):
    offset, file = place_in(tree)
    other = f"{tree.base}/secret"
    with open(other, "w", encoding="utf-8") as f:
        f.write("secret")
    for asked in other, "/etc/passwd", file + "/", file + "x", f"{tree.base}/../../../../etc/passwd", f"{tree.base}/./{os.path.basename(file)}":
        got = source(with_source, asked, offset, build_id=tree.id)
        assert got == {"error": "the symbols of the module do not name this file at this offset"}, asked
    assert "error" in source(with_source, file, 0, build_id=tree.id)
    assert "error" in source(with_source, file, offset, build_id="00" * 20)


def test_source_code_is_given_only_if_the_settings_say_so(tree, served):
    offset, file = place_in(tree)
    assert source(served, file, offset, build_id=tree.id) == {"error": "this server gives out no source code (source_code is not set)"}


def open_below(folder, pid):
    """What a process has open of a folder, or the folder itself."""
    return [link for link in opened(pid) if link.startswith(str(folder))]


@pytest.mark.in_turn
@pytest.mark.parametrize("what, word", [("whole", None), ("link", "no such file"), ("folder", "no such file"), ("nul", "not text"), ("large", "larger than 4 MiB"), ("gone", "no such file")])
def test_files_of_source_code_that_are_not_given(tree, tmp_path, what, word):
    offset, file = place_in(tree)
    tree.put(tmp_path, paths(tree.id)[0], tree.bytes())
    code = tmp_path / "code"
    os.makedirs(code)
    at = code / os.path.basename(file)
    if what == "link":
        os.symlink(file, at)
    elif what == "folder":
        os.makedirs(at)
    elif what != "gone":
        at.write_bytes(b"int a;\0" if what == "nul" else b"x" * (4 << 20) + b"y" * (what == "large"))
    with over(tmp_path, source_code=[f"{tree.base}={code}"]) as s:
        got = source(s, file, offset, build_id=tree.id)
        assert word in got["error"] if word else got["source"] == "x" * (4 << 20)
        assert not open_below(code, s.daemon.process.pid)


def test_source_code_of_a_symbol_file(tmp_path):
    """Paths that are not absolute, with dots, as Debian's are; a file that is not UTF-8; the longest name, and one too long."""
    ident = "44E4EC8C2F41492B9369D6B9A059577C2"
    folder = "src/" + 5 * ("d" * 200 + "/")
    longest, longer = (folder + (n - len(folder) - 2) * "x" + ".c" for n in (1024, 1025))
    os.makedirs(tmp_path / "app" / ident)
    (tmp_path / "app" / ident / "app.sym").write_text(f"MODULE Linux x86_64 {ident} app\nFILE 0 ./lib/../src/a.c\nFILE 1 ../../etc/passwd\nFILE 2 {longest}\nFILE 3 {longer}\nFUNC 1000 20 0 f\n" + "".join(f"{0x1000 + 8 * i:x} 8 1 {i}\n" for i in range(4)))
    os.makedirs(tmp_path / "code" / folder)
    for file in longest, longer:
        (tmp_path / "code" / file).write_text("long\n")
    (tmp_path / "code" / "src" / "a.c").write_bytes(b"int \xff;\n")
    with Stack(symbols=str(tmp_path), config={"source_code": [f"src={tmp_path}/code/src", f"=/{tmp_path}/code"]}) as s:
        assert source(s, "./lib/../src/a.c", 0x1000, build_id=ident, debugName="app")["source"] == "int \ufffd;\n"
        assert source(s, longest, 0x1010, build_id=ident, debugName="app")["source"] == "long\n"
        for file, offset in ("../../etc/passwd", 0x1008), (longer, 0x1018):
            assert "no such file" in source(s, file, offset, build_id=ident, debugName="app")["error"]


def test_what_an_upload_names_is_given_only_if_it_is_source_code(tmp_path):
    """A symbol file can name anything below a folder: nothing hidden is given, and nothing that is called otherwise than source code."""
    ident, code = "44E4EC8C2F41492B9369D6B9A059577C2", tmp_path / "code"
    kept = ["/build/app/.git/config", "/build/app/.env.c", "/build/app/a/.hidden/b.c", "/build/app/password.txt", "/build/app/id_rsa", "/build/app/settings.py", "/build/app/.c", "/build/app/a.c.bak"]
    given = ["/build/app/a.c", "/build/app/a/../b.RS", "/build/app/./x.y/deep.hpp"]
    for file in [*kept, *given]:
        at = os.path.normpath(f"{code}/{os.path.relpath(file, '/build/app')}")
        os.makedirs(os.path.dirname(at), exist_ok=True)
        with open(at, "w", encoding="utf-8") as f:
            f.write("text\n")
    os.makedirs(tmp_path / "store")
    os.chmod(tmp_path / "store", 0o777)
    lines = "".join(f"{0x1000 + 8 * i:x} 8 1 {i}\n" for i in range(len([*kept, *given])))
    sym = f"MODULE Linux x86_64 {ident} app\n" + "".join(f"FILE {i} {f}\n" for i, f in enumerate([*kept, *given])) + f"FUNC 1000 1000 0 f\n{lines}"
    with Stack(keys=True, bucket=False, config={"source_code": [f"/build/app={code}"], "sym_store": f"file://{tmp_path}/store"}) as s:
        reply = s.client.request("PUT", f"/api/sym/app/{ident}/app.sym", sym, {"Authorization": s.key})
        assert reply.status == 200, reply
        for i, file in enumerate([*kept, *given]):
            got = source(s, file, 0x1000 + 8 * i, build_id=ident, debugName="app")
            assert got.get("source") == ("text\n" if file in given else None), (file, got)
            assert file in given or got == {"error": "no such file of source code"}, got


IDENT = "44E4EC8C2F41492B9369D6B9A059577C2"
REVISION = "1fe36e0f3d5b"


def symbols_of(root, files):
    """A module whose function at 0x1000 + 16 * i is of the file i."""
    lines = [f"MODULE windows x86_64 {IDENT} xul.pdb", *(f"FILE {i} {f}" for i, f in enumerate(files))]
    for i in range(len(files)):
        lines += [f"FUNC {0x1000 + 16 * i:x} 10 0 f{i}", f"{0x1000 + 16 * i:x} 10 {i + 1} {i}"]
    symbols = Symbols(str(root))
    symbols.put("xul.pdb", IDENT, "\n".join([*lines, ""]).encode())
    return str(root)


class Repositories:
    """A web server with repositories, and one of symbols whose files are these."""

    def __init__(self, root, servers, files, template="{repository}/raw-file/{revision}/{path}", **config):
        self.root, self.files = root / "web", files
        self.web = Bucket("web", str(root), Symbols(str(self.root)))
        self.web.start()
        servers.callback(self.web.stop)
        config = {"source_code": [f"hg:hg.example.org={self.web.url}{template}", f"git:git.example.org/own={self.web.url}git/{template}"], **config}
        self.stack = servers.enter_context(Stack(symbols=symbols_of(root / "symbols", files), config=config))

    def put(self, path, data):
        path = self.root / path
        os.makedirs(path.parent, exist_ok=True)
        path.write_bytes(data)

    def ask(self, file):
        return source(self.stack, file, 0x1000 + 16 * self.files.index(file), build_id=IDENT, debugName="xul.pdb")


@pytest.fixture
def servers():
    with contextlib.ExitStack() as stack:
        yield stack


def test_source_code_of_repositories(tmp_path, servers):
    """Names as Mozilla's symbol files have them; each part is encoded in the URL that the setting says."""
    hg, git = f"hg:hg.example.org/releases/main:dom/A.cpp:{REVISION}", f"git:git.example.org/own/library:src/lib.rs:{REVISION * 3}"
    strange = f"hg:hg.example.org/a?b:%2e%2e/x y#&+:z/\u00e9.c:{REVISION}"
    r = Repositories(tmp_path, servers, [hg, git, strange])
    r.put(f"releases/main/raw-file/{REVISION}/dom/A.cpp", b"int a;\n")
    r.put(f"git/library/raw-file/{REVISION * 3}/src/lib.rs", gzip.compress(b"fn main() {}\n"))
    r.put(f"a?b/raw-file/{REVISION}/%2e%2e/x y#&+:z/\u00e9.c", b"char c;\n")
    assert r.ask(hg) == {"symbolsLastModified": None, "sourceLastModified": None, "file": hg, "source": "int a;\n"}
    assert r.ask(git)["source"] == "fn main() {}\n"
    assert r.ask(strange)["source"] == "char c;\n"
    assert set(r.web.paths()) == {
        f"/releases/main/raw-file/{REVISION}/dom/A.cpp", f"/git/library/raw-file/{REVISION * 3}/src/lib.rs",
        f"/a%3Fb/raw-file/{REVISION}/%252e%252e/x%20y%23%26%2B%3Az/%C3%A9.c",
    }  # fmt: skip
    assert r.ask(hg)["source"] and r.web.paths()[f"/releases/main/raw-file/{REVISION}/dom/A.cpp"] == 2
    for other in hg.replace("A.cpp", "B.cpp"), hg.replace(REVISION, "ffffffffffff"), strange:
        got = source(r.stack, other, 0x1000, build_id=IDENT, debugName="xul.pdb")
        assert got == {"error": "the symbols of the module do not name this file at this offset"}


def test_repositories_whose_revision_stands_in_a_query(tmp_path, servers):
    file, long = f"hg:hg.example.org/main:a&b.c:{REVISION}", f"hg:hg.example.org/main:{chr(0xE9) * 490}:{REVISION}"
    padding = "x" * 200
    r = Repositories(tmp_path, servers, [file, long], "{repository}/plain/{path}?" + padding + "&id={revision}")
    assert "no such file" in r.ask(file)["error"] and "no such file" in r.ask(long)["error"]
    assert list(r.web.paths()) == [f"/main/plain/a%26b.c?{padding}&id={REVISION}"]  # the other URL would be too long


DIGEST = "a5d3747707d6877b0e5cb0a364e3cb9fea8aa4feb6ead138952c2ba46d41045297286385f0e0470146f49403e46bd266e654dfca986de48c230f3a71c2aafed4"
HOSTILE_GENERATED = [
    *(f"s3:generated:{digest}/a.c:" for digest in ("", "..", DIGEST + "0", DIGEST[:31], "x" + DIGEST[1:], DIGEST + ".", "%61" + DIGEST[3:])),
    *(f"s3:generated:{DIGEST}/{path}:" for path in ("", "..", "../a.c", "a//b", "./a", "a/", "../../etc/passwd", "a" * 1000)),
    *(f"{place}:{DIGEST}/a.c:" for place in ("s3:other", "s3:generatedx", "S3:generated", "s3", "x s3:generated")),
    f"s3:generated:{DIGEST}/a.c", f"s3:generated/{DIGEST}/a.c:", f"s3:generated:{DIGEST}:", f"s3:generated::{DIGEST}/a.c:", "s3:generated:", "s3:generated::", "s3:generated",
]  # fmt: skip


def test_source_code_that_was_generated(tmp_path, servers):
    """Mozilla's builds keep it in a bucket by its digest. Names that lead elsewhere are not asked for."""
    files = [f"s3:generated:{DIGEST}/ipc/ipdl/P Child.cpp:", f"s3:generated:{DIGEST.upper()[:32]}/a:b.h:"]
    r = Repositories(tmp_path, servers, [*files, *HOSTILE_GENERATED], source_code=[])
    config = {"source_code": [f"s3:generated={r.web.url}own/{{path}}"]}
    r.stack = servers.enter_context(Stack(symbols=symbols_of(tmp_path / "generated", r.files), config=config))
    r.put(f"own/{DIGEST}/ipc/ipdl/P Child.cpp", b"int a;\n")
    r.put(f"own/{DIGEST.upper()[:32]}/a:b.h", b"int b;\n")
    assert [r.ask(file)["source"] for file in files] == ["int a;\n", "int b;\n"]
    asked = r.web.paths()
    assert set(asked) == {f"/own/{DIGEST}/ipc/ipdl/P%20Child.cpp", f"/own/{DIGEST.upper()[:32]}/a%3Ab.h"}
    for file in HOSTILE_GENERATED:
        assert r.ask(file) == {"error": "no such file of source code"}, file
    assert r.web.paths() == asked


HOSTILE = [
    *(f"hg:hg.example.org/{repository}:a.c:{REVISION}" for repository in ("", "..", "../x", "a/../b", "/a", "a/", "a//b", ".", "a/.", "a\x7f")),
    *(f"hg:hg.example.org/main:{path}:{REVISION}" for path in ("", "..", "../../etc/passwd", "a/..", "a/../b", "/etc/passwd", "a//b", "./a", "a/", "a" * 1020)),
    *(f"hg:hg.example.org/main:a.c:{revision}" for revision in ("", "..", "tip", "1fe36e", "f" * 65, REVISION + "/..", REVISION + "?x", REVISION + " ", "0x" + REVISION, "1fe36e0f3d5g")),
    *(f"{place}/main:a.c:{REVISION}" for place in ("hg:hg.example.orgx", "hg:hg.example.org:80", "hg:other.example.org", "hg:x@hg.example.org", "HG:hg.example.org", "git:hg.example.org", "git:git.example.org", "git:git.example.org/owner", "hg:hg.example.org.", "", "x hg:hg.example.org")),
    "hg:hg.example.org", "hg:hg.example.org/", f"hg:hg.example.org/main:{REVISION}", f"hg:hg.example.org:main:a.c:{REVISION}", "hg:hg.example.org/::", "hg:hg.example.org/:::",
    "http://127.0.0.1/a", "file:///etc/passwd", "/etc/passwd",
]  # fmt: skip


def test_hostile_names_of_source_code_are_not_asked_for(tmp_path, servers):
    r = Repositories(tmp_path, servers, HOSTILE)
    for file in HOSTILE:
        assert r.ask(file) == {"error": "no such file of source code"}, file
    assert r.web.paths() == {}


@pytest.mark.slow
def test_repositories_that_fail(tmp_path, servers):
    """A redirect to another server of this machine, one that is down, what is no text, too much: each is told."""
    names = ["redirect", "down", "nul", "whole", "large", "bomb", "gone", "cut"]
    files = {name: f"hg:hg.example.org/main:{name}.c:{REVISION}" for name in names}
    other = Bucket("other", str(tmp_path), Symbols(str(tmp_path / "other")))
    other.start()
    servers.callback(other.stop)
    r = Repositories(tmp_path, servers, list(files.values()))
    for name in "redirect", "down", "cut":
        r.put(f"main/raw-file/{REVISION}/{name}.c", b"int a;\n" * 100)
    r.put(f"main/raw-file/{REVISION}/nul.c", b"int a;\0\n")
    r.put(f"main/raw-file/{REVISION}/whole.c", gzip.compress(b"x" * (4 << 20)))
    r.put(f"main/raw-file/{REVISION}/large.c", b"x" * (4 << 20) + b"\n")
    r.put(f"main/raw-file/{REVISION}/bomb.c", gzip.compress(b"x" * (200 << 20), 1))
    for name, mode in {"redirect": f"redirect:{other.url}", "down": "status:500", "cut": "cut:100"}.items():
        r.web.control(mode, f"main/raw-file/{REVISION}/{name}.c")
    words = {"redirect": "cannot be fetched", "down": "cannot be fetched", "nul": "not text", "large": "larger than 4 MiB", "bomb": "larger than 4 MiB", "gone": "no such file", "cut": "cannot be fetched"}
    for name, word in words.items():
        assert word in r.ask(files[name])["error"], name
    assert r.ask(files["whole"])["source"] == "x" * (4 << 20)
    assert other.paths() == {}
    r.web.reset()
    assert r.ask(files["redirect"])["source"] == "int a;\n" * 100


@pytest.mark.in_turn
def test_errors_of_source_code_are_told(tree, with_source):
    for body in b"", b"[]", b"null", b"{}", b'{"moduleOffset":"0x1"}':
        assert "error" in with_source.client.post("/source/v1", body).json()
    assert "moduleOffset is not a string" in source(with_source, "a", 0, build_id=tree.id, moduleOffset=1)["error"]
    assert with_source.client.get("/source/v1").status == 405


def check_source_code(tmp_path, value):
    return subprocess.run([*DAEMON, "--source", f"file://{tmp_path}", "--source-code", value, "--check-config"], capture_output=True, text=True, check=False)


@pytest.mark.in_turn
def test_settings_of_source_code_are_checked(tmp_path):
    fields = "{repository}/{revision}/{path}"
    wrong = [*("x", "=relative", "debuginfod2", "a=", "a=ftp://host/{path}")]
    urls = ["", "/", "/{path}", "/{repository}/{path}", f"/{fields}/{{path}}", f"/{fields}{{x}}", f"/{fields}}}", f"/{fields}#x", f"/{fields} x", f".{fields}", f"@host/{fields}", f"?{fields}"]
    wrong += [f"s3:bucket=https://host{url}" for url in ("", "/", "/{path}{path}", f"/{fields}", "/{path}/{revision}", ".{path}", "/{path}#", "?{path}")]
    for value in [*wrong, *(f"hg:host=https://host{url}" for url in urls), f"hg:host=https:///{fields}", f"hg:host=https://{fields}", f"a=http://u:secret@host/{fields}"]:
        done = check_source_code(tmp_path, value)
        assert done.returncode == 1 and re.search("is neither debuginfod nor PREFIX=/directory|once each|not a usable URL", done.stderr), value
        assert "secret" not in done.stderr
    for value in "debuginfod", "a=/b", "=/b", f"hg:host=https://host:8443/x/{fields}?raw=1", f"git:host/owner=HTTP://host/{fields}", "s3:bucket=https://host/x/{path}":
        assert check_source_code(tmp_path, value).returncode == 0, value


# ---- what distributions have ----


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("debuginfod"), reason="debuginfod is not installed")
def test_debuginfod(place, server):  # noqa: F811
    """Elfutils' own: a debug file, and the one that it shares entries with (dwz -m)."""
    with Stack(bucket=False, config={"source": [f"debuginfod+{server}"]}) as s:
        for program, stripped in zip(place.programs, place.stripped, strict=True):
            addresses = code_addresses(program)
            asked = [hex(a) for a in addresses]
            want = facts(v5_frames(run("symbolicate", "--json", program, *asked, env=place.env()).stdout))
            assert named(s, build_id_of(stripped), addresses) == want
        assert named(s, "00" * 20, [0x1000]) == [NOTHING]
        assert s.client.get("/__heartbeat__").status == 200  # debuginfod has a 503 for paths that it does not know
    with Stack(bucket=False, config={"source": [f"debuginfod+{server}"], "source_code": ["debuginfod"]}) as s:
        build_id, file = build_id_of(place.stripped[0]), place.programs[0] + ".cpp"
        at = next(a for a in code_addresses(place.programs[0]) if named(s, build_id, [a])[0][1] == file)
        with open(file, encoding="utf-8") as f:
            assert source(s, file, at, build_id=build_id)["source"] == f.read()


@pytest.mark.in_turn
@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists(LIBC) or not os.path.exists("/usr/lib/debug/.build-id"), reason="libc6-dbg is not installed")
def test_the_libc_of_debian():
    """By its tree of debug files: a file of Debian's is named by addr2line too."""
    build_id = build_id_of(LIBC)
    debug = f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
    if not os.path.exists(debug):
        pytest.skip("libc6-dbg is of another version")
    addresses = code_addresses(LIBC, 997)
    asked = "".join(f"{a:#x}\n" for a in addresses)
    out = subprocess.run(["addr2line", "-f", "-e", debug], input=asked, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    with over("/usr/lib/debug") as s:
        frames = s.client.frames(["libc.so.6", build_id], addresses)
    places = [(f["inlines"][0] if f.get("inlines") else f) for f in frames]
    same = sum(str(p.get("line")) == o.rpartition(":")[2].split(" ")[0] for p, o in zip(places, out[1::2], strict=True) if not o.endswith("?"))
    known = sum(not o.endswith("?") for o in out[1::2])
    assert known > 300 and same >= known * 0.99, (same, known)
    assert sum("function" in f for f in frames) >= known


@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="needs root and /dev/fuse")
def test_a_folder_that_cannot_be_mapped(tmp_path):
    """Its files are copied; others are read where they are."""
    ident = "89815E4BCF35CA114C4C44205044422E1"
    folder, mount = tmp_path / "folder", tmp_path / "mount"
    mount.mkdir()
    (folder / "s.pdb" / ident).mkdir(parents=True)
    shutil.copy(Path(ROOT, "tests", "fuzz", "corpus", "view", "s.pdb"), folder / "s.pdb" / ident)
    server = subprocess.Popen([sys.executable, Path(__file__).with_name("unmappable.py"), folder, mount], stdout=subprocess.PIPE, text=True)
    if server.stdout.readline() != "mounted\n":
        server.wait()
        pytest.skip("may not mount")
    try:
        with open(mount / "s.pdb" / ident / "s.pdb", "rb") as f, pytest.raises(OSError):
            mmap.mmap(f.fileno(), 1, mmap.MAP_SHARED, mmap.PROT_READ)
        for place in mount, folder:
            with over(place) as s:
                assert s.client.frames(["s.pdb", ident], [0x1000])[0]["function"] == "start(int, char const *)"
    finally:
        subprocess.run(["umount", "-l", mount], check=True)
        server.stdout.close()
        server.wait()
