# SPDX-License-Identifier: Apache-2.0
"""Offsets in the file, as perf script prints them, at a server that knows the executable by its build id: whatever linked it."""

import contextlib
import json
import os
import random
import re
import shutil
import socket
import subprocess

import pytest

from plain_symbfile import write
from stack import Bucket, Stack, seed_of, wait_for
from symbols import Symbols
from test_build_ids import debug_id, needs_symbtool, new_build_id
from test_symbfile import accepted, new_id, ranges, store_config, upload
from test_symbtool import BOUND, SYMBTOOL, code_addresses, run

SOURCE = """
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>
namespace some { struct thing { std::map<std::string, std::vector<int>> all; void add(const char *name, int n) { all[name].push_back(n); } }; }
static int twice(int n) { return n * 2; }
int sum(const some::thing &t)
{
	int n = 0;
	for (const auto &one : t.all)
		for (int k : one.second)
			n += twice(k);
	return n;
}
int main(int argc, char **argv)
{
	some::thing t;
	for (int i = 0; i < argc; i++)
		t.add(argv[i], atoi(argv[i]));
	return printf("%d\\n", sum(t)) < 0;
}
"""
# more than a page of code: what lld and mold move by one lies where other functions are
SOURCE += "".join(f"int pad{i}(int n) {{ return n * {i} + twice(n); }}\n" for i in range(600))
LINKERS = {"bfd": "ld.bfd", "gold": "ld.gold", "lld": "ld.lld", "mold": "mold"}


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    place = tmp_path_factory.mktemp("segments")
    os.makedirs(place / "store")
    with Stack(keys=True, daemons=2, config=store_config(place)) as s:
        s.place = place
        yield s


def segments_of(program):
    """(offset, address, size in the file) of each."""
    text = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    return [tuple(int(n, 16) for n in found[:2] + found[3:4]) for found in re.findall(r"^ +LOAD +(\S+) (\S+) (\S+) (\S+)", text, re.M)]


def file_offset(segments, address):
    return next(offset + address - start for offset, start, size in segments if start <= address < start + size)


def frames_of(stack, text, ident, node=0):
    """What each frame of the text is named by the server, in its order."""
    reply = stack.nodes[node].client().post("/symbolicate/text", f"MODULE Linux x86_64 {ident} prog\n{text}", Accept="application/json")
    assert reply.status == 200, reply
    return reply.json()["frames"]


def names_of(program, addresses):
    """What addr2line calls the function of each address, not what is inlined there."""
    asked = "".join(f"{a:#x}\n" for a in addresses)
    out = subprocess.run(["addr2line", "-i", "-a", "-f", "-C", "-e", program], input=asked, capture_output=True, text=True, check=True).stdout
    return [address.splitlines()[1::2][-1] for address in re.split(r"^0x", out, flags=re.M)[1:]]


def perf_text(offsets):
    """Samples of one frame: no offset is a return address."""
    return "".join(f"prog 1 1.0: 1 cpu-clock:u: \n\t{offset:16x} [unknown] (/opt/prog)\n\n" for offset in offsets)


def names_in(text, chains):
    """The function of each sample where its line says what is inlined there, or the function itself."""
    samples = [sample.split("\n", 1)[1] for sample in text.strip().split("\n\n")]
    names = [re.findall(r"^\s*(?:[0-9a-f]+ )?(.*?)(?:\+0x[0-9a-f]+| at .*| \(/opt/prog\))+$", sample, re.M) for sample in samples]
    return [None if n == ["[unknown]"] else chain[-1] if set(n) <= set(chain) else n for n, chain in zip(names, chains)]


def symbol_file(program, base):
    """Functions alone, as the symbol table has them, named as addr2line does."""
    out = subprocess.run(["nm", "-SC", "--defined-only", program], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^([0-9a-f]+) ([0-9a-f]+) [tTwW] (.*)$", out, re.M)
    return "".join(f"FUNC {int(at, 16) - base:x} {size} 0 {name}\n" for at, size, name in rows)


@needs_symbtool
@pytest.mark.slow
@pytest.mark.parametrize("pie", [True, False], ids=["pie", "fixed"])
@pytest.mark.parametrize("linker", [linker if linker == "lld" else pytest.param(linker, marks=pytest.mark.plain) for linker in LINKERS])
def test_offsets_in_the_file(one, tmp_path, linker, pie):
    if not shutil.which(LINKERS[linker]):
        pytest.fail(f"{LINKERS[linker]} is not installed: packages.txt names it")
    program, source = str(tmp_path / "prog"), tmp_path / "prog.cpp"
    source.write_text(SOURCE + f"// {linker} {pie}\n")
    flags = ["-pie", "-fPIE"] if pie else ["-no-pie", "-fno-pie"]
    # gcc 12 does not know -fuse-ld=mold; it takes whatever is called ld
    tools = tmp_path / "tools"
    tools.mkdir()
    os.symlink(shutil.which(LINKERS[linker]), tools / "ld")
    command = ["g++", "-g", "-O1", *flags, f"-B{tools}", "-Wl,--build-id=sha1", "-o", program, str(source)]
    subprocess.run(command, check=True, timeout=BOUND)
    segments, build_id = segments_of(program), json.loads(run("file-id", "--json", program).stdout)["build_id"]
    file_id = json.loads(run("file-id", "--json", program).stdout)["hex"]
    run("push-symbols", "--url", f"http://127.0.0.1:{one.node.nginx.port}", program, env={"SYMBTOOL_API_KEY": one.key})
    addresses = code_addresses(program, 1)
    chosen = sorted(random.Random(seed_of(f"{linker} {pie}")).sample(addresses, min(400, len(addresses))))
    expected = names_of(program, chosen)
    text = perf_text(file_offset(segments, a) for a in chosen)

    def named(got):
        """How many, none of them wrong."""
        assert len(got) == len(chosen) == len(expected)
        wrong = [(hex(a), e, g) for a, e, g in zip(chosen, expected, got) if g not in (None, e)]
        assert not wrong, (len(wrong), wrong[:5], segments)
        return sum(g is not None for g in got)

    # addr2line names what lies between functions after the one before
    most = 0.95 * sum(e != "??" for e in expected)
    for node in (0, 1):
        got = frames_of(one, text, debug_id(bytes.fromhex(build_id)), node)
        assert named([f.get("function") for f in got]) > most
    # what is inlined where, judges do not agree on: the function counts
    chains = [[i["function"] for i in f.get("inlines", [])] + [e] for f, e in zip(got, expected)]
    # without the file: the server tells where it is loaded
    url = f"http://127.0.0.1:{one.node.nginx.port}"
    by_server = ["--url", url, "--module", f"prog={build_id}"]
    # with it, or its debug data: those of eu-strip still have the segments
    objcopied, stripped = f"{program}.debug", f"{program}.eu"
    subprocess.run(["objcopy", "--only-keep-debug", program, objcopied], check=True)
    subprocess.run(["eu-strip", "-f", stripped, "-o", f"{program}.rest", program], check=True)
    for options in (by_server, ["--module", f"prog={program}"], ["--module", f"prog={stripped}"]):
        done = subprocess.run([SYMBTOOL, "symbolicate", "--filter", "--one-line", *options], input=text, capture_output=True, text=True, timeout=BOUND, check=True)
        assert named(names_in(done.stdout, chains)) > most, (options, done.stdout[:400])
    done = subprocess.run([SYMBTOOL, "symbolicate", "--filter", "--one-line", "--module", f"prog={objcopied}"], input=text, capture_output=True, text=True, timeout=BOUND, check=True)
    assert done.stdout == text and f"{len(chosen)} no segments" in done.stderr
    # they do not take the place of what the executable told
    run("push-symbols", "--force", "--url", url, objcopied, env={"SYMBTOOL_API_KEY": one.key})
    assert named([f.get("function") for f in frames_of(one, text, debug_id(bytes.fromhex(build_id)))]) > most
    # of what is known by its FileID alone, segments are not; nor of a symbol file: only a frame that has its name tells whether code was moved
    sym_id = new_build_id()
    base = min(start - offset for offset, start, _ in segments)
    one.symbols.add("prog", symbol_file(program, base), debug_id(sym_id))
    main = next(a for a, name in zip(addresses, names_of(program, addresses)) if name == "main")
    start = next(int(row.split()[0], 16) for row in subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout.splitlines() if row.split()[-1] == "main")
    told = f"prog 1 1.0: 1 cpu-clock:u: \n\t{file_offset(segments, main):16x} main+{main - start:#x} (/opt/prog)\n\n"
    for ident, at in ((file_id, main), (debug_id(sym_id), main - base)):
        assert {f.get("reason") for f in frames_of(one, text, ident)} == {"no segments"}
        got = frames_of(one, text + told, ident)[:-1]
        if at == file_offset(segments, main):
            assert named([f.get("function") for f in got]) > 0.85 * len(chosen)
        else:
            assert {f.get("reason") for f in got} == {"no segments"}
        other = told.replace("main+", "sum+")  # and only if it is the same name
        assert {f.get("reason") for f in frames_of(one, text + other, ident)} == {"no segments"}
    # and in the image it is the same program
    assert named([f.get("function") for f in one.client.frames(["prog", debug_id(sym_id)], [a - base for a in chosen])]) > 0.85 * len(chosen)


@pytest.mark.parametrize("segments, expected", [
    ("0:400000:800:800,1000:402000:100:200", [(None, "not loaded"), ("f", None), ("f", None)]),
    ("1000:500000:100:100", [(None, "not loaded"), (None, "above last symbol"), (None, "above last symbol")]),
    (None, [(None, "no segments")] * 3),
    (",".join(f"{n:x}000:{n:x}000:10:10" for n in range(9)), [(None, "no segments")] * 3),
])  # fmt: skip
def test_what_is_not_known_is_a_reason_and_not_a_guess(one, segments, expected):
    """Of an older upload, and of an offset that is in no segment."""
    build_id, ident = new_build_id(), new_id()
    headers = {"BuildID": build_id.hex(), "ImageBase": "0x400000", **({"FileSegments": segments} if segments else {})}
    accepted(upload(one, "ranges", ident[1], write(ranges("f", 0x402000)), **headers))
    for node in (0, 1):
        got = frames_of(one, perf_text([0x800, 0x1000, 0x103F]), debug_id(build_id), node)
        assert [(f.get("function"), f.get("reason")) for f in got] == expected
    # offsets in the image are another thing
    assert one.client.frames(["prog", debug_id(build_id)], [0x2000])[0]["function"] == "f"


def test_segments_are_those_of_the_latest_upload_that_knows_them(one):
    build_id, ident = new_build_id(), new_id()
    for more in ({}, {"FileSegments": "1000:402000:100:100"}, {}):
        accepted(upload(one, "ranges", ident[1], write(ranges("f", 0x402000)), fileset=f"s{len(more)}{id(more)}", BuildID=build_id.hex(), **more))
    assert frames_of(one, perf_text([0x1000]), debug_id(build_id))[0]["function"] == "f"


def moved_program(tmp_path, more=""):
    """lld moves its code."""
    program, source = str(tmp_path / "prog"), tmp_path / "prog.cpp"
    source.write_text(SOURCE + more)
    subprocess.run(["g++", "-g", "-O1", "-pie", "-fuse-ld=lld", "-Wl,--build-id=sha1", "-o", program, str(source)], check=True, timeout=BOUND)
    return program, json.loads(run("file-id", "--json", program).stdout)["build_id"]


def assert_named(got, expected):
    """addr2line names what lies between functions after the one before."""
    assert [(f["function"], e) for f, e in zip(got, expected) if f.get("function", e) != e] == []
    assert sum("function" in f for f in got) > 0.9 * len(expected)


@needs_symbtool
@pytest.mark.parametrize("kind", ["executable", "eu-strip", "objcopy"])
def test_executables_of_a_source_tell_their_segments(tmp_path, kind):
    """Those with code, and the debug files of eu-strip; also to another host, through memcached. objcopy's do not know."""
    program, build_id = moved_program(tmp_path)
    segments, tree = segments_of(program), tmp_path / "tree"
    folder = tree / ".build-id" / build_id[:2]
    folder.mkdir(parents=True)
    if kind == "executable":
        (folder / build_id[2:]).mkdir()
        shutil.copy(program, folder / build_id[2:] / "elf")
    elif kind == "objcopy":
        subprocess.run(["objcopy", "--only-keep-debug", program, str(folder / f"{build_id[2:]}.debug")], check=True)
    else:
        subprocess.run(["eu-strip", "-f", str(folder / f"{build_id[2:]}.debug"), "-o", str(tmp_path / "rest"), program], check=True)
    addresses = random.Random(seed_of(kind)).sample(code_addresses(program, 1), 100)
    expected = names_of(program, addresses)
    text = perf_text(file_offset(segments, a) for a in addresses)
    with Stack(bucket=False, daemons=2, config={"source": [f"elf+file://{tree}"]}) as s:
        for node in (0, 1):
            got = frames_of(s, text, debug_id(bytes.fromhex(build_id)), node)
            if kind == "objcopy":
                assert {f.get("reason") for f in got} == {"no segments"}
            else:
                assert_named(got, expected)
        reply = s.client.post("/symbolicate/v5", json.dumps({"memoryMap": [["prog", debug_id(bytes.fromhex(build_id))]], "stacks": [[[0, 1]]]}), Debug="1").json()
        told = [(int(r["offset"], 16), int(r["address"], 16), int(r["file_size"], 16)) for rows in reply["debug"]["segments"].values() for r in rows]
        assert told == ([] if kind == "objcopy" else segments)


@needs_symbtool
def test_a_text_that_waits_for_segments_is_in_nobodys_way_who_asks_for_code(tmp_path):
    program, build_id = moved_program(tmp_path)
    folder = tmp_path / "files" / "buildid" / build_id
    folder.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", program, str(folder / "debuginfo")], check=True)
    addresses = list(code_addresses(program, 1))[::50]
    bucket = Bucket("files", str(tmp_path / "files"), Symbols(str(tmp_path / "files")))
    bucket.start()
    executable = f"/buildid/{build_id}/executable"
    try:
        config = {"source": [f"debuginfod+{bucket.url}"], "executables_parallel": "1", "shutdown_timeout": "0"}
        with Stack(bucket=False, config=config) as s:
            s.client.frames(["prog", build_id], addresses)
            bucket.control("slow:60", executable, 1)
            text = perf_text(file_offset(segments_of(program), a) for a in addresses)
            body = f"MODULE Linux x86_64 {build_id} prog\n{text}".encode()
            head = f"POST /symbolicate/text HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            with socket.create_connection(("127.0.0.1", s.client.port)) as asker:
                asker.sendall(head.encode() + body)
                wait_for(lambda: executable in bucket.paths(), "the text to ask for the executable")
                asked = {"debugName": "prog", "debugId": build_id, "codeId": build_id, "startAddress": "0x10", "size": "0x10"}
                assert s.client.post("/asm/v1", asked).json() == {"error": "no file of this build id"}
    finally:
        bucket.stop()


SEGMENT_PLACES = 12  # for each of executables_parallel


@needs_symbtool
@pytest.mark.parametrize("trouble", ["fails", "is busy"])
def test_segments_that_cannot_be_asked_for_are_no_reason(tmp_path, trouble):
    """Neither a source that fails nor one that others wait for says that nothing tells them."""
    program, build_id = moved_program(tmp_path)
    folder = tmp_path / "files" / "buildid" / build_id
    folder.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", program, str(folder / "debuginfo")], check=True)
    shutil.copy(program, folder / "executable")
    addresses = list(code_addresses(program, 1))[::50]
    text = perf_text(file_offset(segments_of(program), a) for a in addresses)
    bucket = Bucket("files", str(tmp_path / "files"), Symbols(str(tmp_path / "files")))
    bucket.start()
    executable = f"/buildid/{build_id}/executable"
    try:
        config = {"source": [f"debuginfod+{bucket.url}"], "executables_parallel": "1", "cold_wait": "1s", "shutdown_timeout": "0"}
        with Stack(bucket=False, config=config) as s, contextlib.ExitStack() as stack:
            s.client.frames(["prog", build_id], addresses)
            body = f"MODULE Linux x86_64 {build_id} prog\n{text}"
            bucket.control("slow:60" if trouble == "is busy" else "status:500", executable, 1000 if trouble == "is busy" else 1)
            for n in range(SEGMENT_PLACES if trouble == "is busy" else 0):  # no client may have all
                asker = stack.enter_context(socket.create_connection(("127.0.0.1", s.client.port), source_address=(f"127.0.0.{n + 2}", 0)))
                asker.sendall(f"POST /symbolicate/text HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            if trouble == "is busy":
                wait_for(lambda: s.node.metrics()['symbolicated_turnstile_inside{for="segments"}'] == SEGMENT_PLACES, "all places to be taken")
            for accept in ("application/json", "text/plain"):
                if trouble == "fails":
                    bucket.control("status:500", executable, 1)
                reply = s.client.post("/symbolicate/text", body, Accept=accept)
                assert "cannot be asked right now" in reply.error(503)["error"] and reply.headers["Retry-After"]
            if trouble == "fails":
                bucket.control("ok", executable)
                assert_named(frames_of(s, text, build_id), names_of(program, addresses))
    finally:
        bucket.stop()


def test_of_a_debug_file_the_executable_tells_the_segments(tmp_path):
    """As Debian's debuginfod has both. Only its beginning is fetched, once, and only if a text needs it."""
    program, build_id = moved_program(tmp_path, 'extern const char filler[];\nconst char filler[1 << 23] = "not zero";\n')
    folder = tmp_path / "files" / "buildid" / build_id
    folder.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", program, str(folder / "debuginfo")], check=True)
    subprocess.run(["strip", "-o", str(folder / "executable"), program], check=True)
    segments, addresses = segments_of(program), random.Random(seed_of("executable")).sample(code_addresses(program, 1), 100)
    expected = names_of(program, addresses)
    text = perf_text(file_offset(segments, a) for a in addresses)
    bucket = Bucket("files", str(tmp_path / "files"), Symbols(str(tmp_path / "files")))
    bucket.start()
    try:
        with Stack(bucket=False, config={"source": [f"debuginfod+{bucket.url}"]}) as s:
            assert_named(s.client.frames(["prog", build_id], addresses), expected)
            asked, wire = f"/buildid/{build_id}/executable", 'symbolicated_download_bytes_total{form="wire"}'
            before = s.node.metrics()[wire]
            assert asked not in bucket.paths()
            for _ in range(2):
                assert_named(frames_of(s, text, build_id), expected)
            assert bucket.paths()[asked] == 1 and s.node.metrics()[wire] - before < os.path.getsize(folder / "executable") / 2
    finally:
        bucket.stop()
