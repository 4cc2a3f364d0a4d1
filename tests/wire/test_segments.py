# SPDX-License-Identifier: Apache-2.0
"""Offsets in the file, as perf script prints them, at a server that knows the executable by its build id: whatever linked it."""

import json
import os
import random
import re
import shutil
import subprocess

import pytest

from plain_symbfile import write
from stack import Stack, seed_of
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
    # without the file: the server is asked by build id; where segments are needed, frames may stay as they are
    url = f"http://127.0.0.1:{one.node.nginx.port}"
    done = subprocess.run(
        [SYMBTOOL, "symbolicate", "--filter", "--url", url, "--module", f"prog={build_id}"], input=text, capture_output=True, text=True, timeout=BOUND, check=True
    )  # fmt: skip
    assert named(names_in(done.stdout, chains)) in (0, *range(int(most), len(chosen) + 1)), done.stdout[:400]
    # of what is known by its FileID alone, segments are not: a reason, or the right name
    got = frames_of(one, text, file_id)
    named([f.get("function") for f in got])
    assert all("function" in f or f["reason"] == "no segments" for f in got), got[0]
    # a symbol file says nothing of segments
    sym_id = new_build_id()
    base = min(start - offset for offset, start, _ in segments)
    one.symbols.add("prog", symbol_file(program, base), debug_id(sym_id))
    got = frames_of(one, text, debug_id(sym_id))
    named([f.get("function") for f in got])
    assert all("function" in f or f["reason"] for f in got)
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
        got = frames_of(one, perf_text([0x900, 0x1000, 0x103F]), debug_id(build_id), node)
        assert [(f.get("function"), f.get("reason")) for f in got] == expected
    # offsets in the image are another thing
    assert one.client.frames(["prog", debug_id(build_id)], [0x2000])[0]["function"] == "f"


def test_segments_are_those_of_the_latest_upload_that_knows_them(one):
    build_id, ident = new_build_id(), new_id()
    for more in ({}, {"FileSegments": "1000:402000:100:100"}, {}):
        accepted(upload(one, "ranges", ident[1], write(ranges("f", 0x402000)), fileset=f"s{len(more)}{id(more)}", BuildID=build_id.hex(), **more))
    assert frames_of(one, perf_text([0x1000]), debug_id(build_id))[0]["function"] == "f"
