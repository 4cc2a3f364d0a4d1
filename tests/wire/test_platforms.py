# SPDX-License-Identifier: Apache-2.0
"""Files of Windows and macOS: what symbtool and the server say of them is what DWARF of the same code says, and LLVM's own reader."""

import bisect
import json
import os
import random
import re
import shutil
import subprocess

import pytest

from platforms import MAC, WINDOWS, Platforms, call, tool, version_of
from stack import Stack, seed_of
from test_executables import HELPER
from test_symbfile import store_config
from test_symbtool import SYMBTOOL, run, v5_frames

pytestmark = [pytest.mark.skipif(not os.path.exists(HELPER), reason="symbolicated-extract was not built"), pytest.mark.slow]
IMAGE_BASE = {"x64": 0x140000000, "x86": 0x400000, "arm64": 0x140000000}
COUNT = 250


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return Platforms(tmp_path_factory.mktemp("platforms"))


def text_section(path):
    """Address and size of the code."""
    out = call(tool("llvm-readobj"), "--sections", path)
    part = re.search(r"Name: (?:\.text|__text).*?\n((?:    .*\n)+)", out)[1]
    address = re.search(r"(?:VirtualAddress|Address): (0x[0-9A-F]+)", part)[1]
    size = re.search(r"(?:VirtualSize|Size): (0x[0-9A-F]+)", part)[1]
    return int(address, 16), int(size, 16)


def draw(path, count=COUNT):
    start, size = text_section(path)
    return sorted(random.Random(seed_of(path)).sample(range(start, start + size), count))


def base_name(name):
    """Without scopes and arguments."""
    depth, out = 0, ""
    for c in name or "":
        depth -= c in ">)"
        out += c if depth == 0 and c not in ">)" else ""
        depth += c in "<("
    return re.split(r"::|\.\d+$", out.split("(")[0].split("<")[0].removesuffix(" const"))[-1]


def place(frame):
    """Without a line, the file says nothing."""
    line = frame.get("line") or 0
    return base_name(frame.get("function")), os.path.basename(frame.get("file") or "") if line else "", line


def chain(frame):
    """(name, file, line), innermost first."""
    if not frame.get("function"):
        return []
    return [place(f) for f in [*frame.get("inlines", []), frame]]


def local(path, addresses, *options):
    done = run("symbolicate", "--json", *options, path, *map(hex, addresses))
    return [chain(f) for f in v5_frames(done.stdout)]


def llvm(path, addresses):
    out = call(tool("llvm-symbolizer"), "-e", path, "-i", "-f", "-C", "--output-style=JSON", input="\n".join(map(hex, addresses)))
    chains = []
    for line in out.splitlines():
        symbols = json.loads(line)["Symbol"]
        known = symbols and symbols[0]["FunctionName"]
        chains.append([place({"function": s["FunctionName"], "file": s["FileName"], "line": s["Line"]}) for s in symbols] if known else [])
    return chains


def differing(got, want, addresses):
    return [(hex(a), g, w) for a, g, w in zip(addresses, got, want) if g != w]


@pytest.mark.parametrize("machine", WINDOWS)
def test_pdb_says_what_dwarf_of_the_same_code_says(made, machine):
    """CodeView has no line 0: there is the line before. The program has return pads, and the PDB, beside it, the rest."""
    program, base = made.path(f"{machine}-both.exe"), IMAGE_BASE[machine]
    offsets = draw(program)
    dwarf = local(program, [base + a for a in offsets])
    pdb = local(made.path(f"{machine}-both.pdb"), offsets)
    told = [i for i, frames in enumerate(dwarf) if frames and all(f[2] for f in frames)]
    assert len(told) > COUNT // 2
    assert sum(len(dwarf[i]) > 1 for i in told) > COUNT // 8  # inlined calls
    assert not differing([pdb[i] for i in told], [dwarf[i] for i in told], [offsets[i] for i in told])
    alone = made.path(f"{machine}.exe")
    offsets = draw(alone)
    assert local(alone, [base + a for a in offsets]) == local(made.path(f"{machine}.pdb"), offsets)
    pads = run("extract", "--dry-run", "-o", made.folder, alone).stdout
    assert (", 0 return pads" in pads) is (machine == "x86")


@pytest.mark.parametrize("machine", WINDOWS)
def test_pdb_beside_llvm(made, machine):
    """Whose names for code between functions are those of the function before it: there is none. Older ones take the lengths
    of inlined code wrongly."""
    if version_of(tool("llvm-symbolizer")) < 19:
        pytest.skip("needs llvm-symbolizer 19")
    program = made.path(f"{machine}.exe")
    addresses = [IMAGE_BASE[machine] + a for a in draw(program)]
    got, want = local(program, addresses), llvm(program, addresses)
    told = [i for i, frames in enumerate(got) if frames]
    assert len(told) > 0.9 * COUNT
    assert not differing([got[i] for i in told], [want[i] for i in told], [addresses[i] for i in told])


@pytest.mark.parametrize("machine", WINDOWS)
def test_pe_with_dwarf_beside_llvm(made, machine):
    program = made.path(f"{machine}-dwarf.exe")
    addresses = [IMAGE_BASE[machine] + a for a in draw(program)]
    got, want = local(program, addresses), llvm(program, addresses)
    assert not differing(got, want, addresses)


@pytest.mark.parametrize("arch", MAC)
def test_macho_beside_llvm(made, arch):
    """The dSYM alone, the program with its dSYM beside it, and the right slice of a universal file."""
    addresses = draw(made.path(f"mac-{arch}"))
    want = llvm(made.dwarf(arch), addresses)
    assert sum(len(frames) > 1 for frames in want) > COUNT // 8
    assert not differing(local(made.dwarf(arch), addresses), want, addresses)
    assert local(made.path(f"mac-{arch}"), addresses) == want
    ids = call(SYMBTOOL, "file-id", made.path("mac-fat")).splitlines()
    uuid = re.search(r"UUID: (\S+)", call(tool("llvm-dwarfdump"), "--uuid", made.dwarf(arch)))[1].replace("-", "")
    assert f"  debug id     {uuid}0" in ids and f"  build id     {uuid.lower()}" in ids


@pytest.mark.parametrize("arch", MAC)
def test_symbols_of_mach_o_are_found_for_few_addresses_as_for_all(made, arch, tmp_path):
    """Only those around an address that is asked for are read: here one, two, and all of them at once."""
    alone = str(shutil.copy(made.path(f"mac-{arch}"), tmp_path / "alone"))
    listed, text = {}, text_section(alone)[0]
    for line in call(tool("llvm-nm"), "-C", "--defined-only", alone).splitlines():
        address, kind, name = line.split(maxsplit=2)
        if kind in "tT" and int(address, 16) >= text:
            listed.setdefault(int(address, 16), set()).add(base_name(name.removeprefix("_")))
    starts, addresses = sorted(listed), draw(alone, 24)
    addresses = sorted({*addresses, *starts[:2], starts[3] - 1, starts[-1]})
    want = [listed[starts[bisect.bisect_right(starts, a) - 1]] for a in addresses]
    assert len(starts) > 60
    for step in (1, 2, len(addresses)):
        for i in range(0, len(addresses), step):
            for frames, names in zip(local(alone, addresses[i : i + step]), want[i : i + step], strict=True):
                assert len(frames) == 1 and frames[0][0] in names, (step, hex(addresses[i]), frames, names)


def test_few_addresses_of_a_pdb_have_what_all_have(made):
    program = made.path("x64-both.exe")
    offsets = draw(program, 30)
    dwarf = local(program, [IMAGE_BASE["x64"] + a for a in offsets])
    told = [i for i, frames in enumerate(dwarf) if frames and all(f[2] for f in frames)]
    assert len(told) > 15
    for i in told:
        assert local(made.path("x64-both.pdb"), [offsets[i]]) == [dwarf[i]], hex(offsets[i])


def test_a_pdb_with_a_damaged_module_says_what_the_others_say(made, tmp_path):
    """The length of a symbol leads out of its module: it and what follows it there is lost, and told."""
    NAME_AT, PROCEDURES = 39, (0x1110, 0x1147)  # S_GPROC32, S_GPROC32_ID: bytes before the name
    with open(made.path("x64-both.pdb"), "rb") as file:
        data = bytearray(file.read())
    records = [m.start() - NAME_AT for m in re.finditer(rb"m1_f0\0", data)]
    (record,) = [at for at in records if int.from_bytes(data[at + 2 : at + 4], "little") in PROCEDURES]
    data[record : record + 2] = b"\xf0\xff"
    path = tmp_path / "damaged.pdb"
    path.write_bytes(data)
    program = made.path("x64-both.exe")
    offsets = draw(program)
    dwarf = local(program, [IMAGE_BASE["x64"] + a for a in offsets])
    done = run("symbolicate", "--json", path, *map(hex, offsets))
    said = run("extract", "--dry-run", "-o", tmp_path, path).stderr
    assert re.search(r"1 of \d+ units of debug data are malformed, the functions of \d cannot be read; the first: PDB: a symbol of a module is cut off", said), said
    kept = lost = 0
    for want, frame in zip(dwarf, v5_frames(done.stdout), strict=True):
        if not want or not all(f[2] for f in want):
            continue
        got, of_it = chain(frame), want[-1][0].startswith(("m1_", "lm1_"))
        assert got == want if not of_it else not got or got[-1][0] == want[-1][0], (got, want)
        kept += not of_it
        lost += got != want
    assert kept > COUNT // 3 and lost > COUNT // 8


@pytest.mark.parametrize("machine", [0xA641, 0xA64E], ids=["arm64EC", "arm64X"])
def test_code_of_arm64_that_calls_x64_is_code_of_arm64(made, machine, tmp_path):
    """Such PDB files have machines of their own (IMAGE_FILE_MACHINE_ARM64EC, _ARM64X)."""
    with open(made.path("arm64-both.pdb"), "rb") as file:
        data = bytearray(file.read())
    at = data.index(b"\xff\xff\xff\xff" + (19990903).to_bytes(4, "little")) + 58  # in the stream of debug data
    assert int.from_bytes(data[at : at + 2], "little") == 0xAA64
    data[at : at + 2] = machine.to_bytes(2, "little")
    path = tmp_path / "other.pdb"
    path.write_bytes(data)
    program = made.path("arm64-both.exe")
    offsets = draw(program, 60)
    dwarf = local(program, [IMAGE_BASE["arm64"] + a for a in offsets])
    got = local(str(path), offsets)
    told = [i for i, frames in enumerate(dwarf) if frames and all(f[2] for f in frames)]
    assert len(told) > 30 and not differing([got[i] for i in told], [dwarf[i] for i in told], [offsets[i] for i in told])


def test_names_are_those_of_dump_syms(made):
    """Types of arguments, without return types, "class" and "static"; decorated names the same."""
    out = run("extract", "-o", made.folder, "--json", made.path("x64.pdb"))
    part = next(p for p in os.listdir(made.folder) if p.startswith("x64.pdb-") and ".ranges." in p)
    names = {json.loads(line)["func"] for line in run("dump", "--json", made.path(part)).stdout.splitlines()}
    assert json.loads(out.stdout)["units"] > 3
    assert {"m0_f0(int, char const *)", "n0::leaf0(int, int)", "n1::mid1(int, char const *, unsigned long long)"} <= names
    assert any(re.fullmatch(r"n\d::Pile<[a-z ]+,\d>::top\(\) const", name) for name in names)


SRCSRV = """SRCSRV: ini ------------------------------------------------\r
VERSION=2\r
VERCTRL=http\r
SRCSRV: variables ------------------------------------------\r
HGSERVER=https://hg.mozilla.org/mozilla-central\r
HTTP_EXTRACT_TARGET=%hgserver%/raw-file/%var3%/%var2%\r
SRCSRVTRG=%http_extract_target%\r
SRCSRV: source files ---------------------------------------\r
{lines}SRCSRV: end ------------------------------------------------\r
"""


@pytest.mark.parametrize("form", ["srcsrv", "sourcelink", "other", "damaged"])
def test_files_are_named_as_their_repositories_have_them(made, form):
    """As Mozilla's dump_syms writes them, so that profilers and /source/v1 open them. The linker puts in the streams."""
    objects = [f"{name}-x64.obj" for name in made.names]
    files = {f["file"] for frame in v5_frames(run("symbolicate", "--json", made.path("x64.pdb"), *map(hex, draw(made.path("x64.exe")))).stdout)
             for f in [frame, *frame.get("inlines", [])] if f.get("file")}  # fmt: skip
    folder = os.path.dirname(next(f for f in files if f.endswith("m0.cc")))
    revision, other = "1706d4d54ec68fae1280305b70a02cb24c16ff68", "0a" * 20
    if form == "srcsrv":
        text = SRCSRV.format(lines="".join(f"{f.upper()}*src/{os.path.basename(f)}*{revision}\r\n" for f in sorted(files) if not f.endswith("m1.cc")))
        want = {f: f"hg:hg.mozilla.org/mozilla-central:src/{os.path.basename(f)}:{revision}" for f in files if not f.endswith("m1.cc")}
    elif form == "sourcelink":
        links = {folder + "/m1.cc": f"https://raw.githubusercontent.com/a/b/{other}/one.cc", folder + "/*": f"https://raw.githubusercontent.com/a/b/{revision}/src/*"}
        text = json.dumps({"documents": links}, indent=1).replace("/", "\\\\")
        text = text.replace("https:\\\\\\\\", "https://")
        text = re.sub(r'"(https://[^"]*)"', lambda m: '"' + m[1].replace("\\\\", "/") + '"', text)
        want = {f: f"git:github.com/a/b:src/{os.path.basename(f)}:{revision}" for f in files}
        want[folder + "/m1.cc"] = f"git:github.com/a/b:one.cc:{other}"
    elif form == "other":
        text, want = json.dumps({"documents": {folder + "/*": "https://example.org/*"}}), {}
    else:
        text, want = SRCSRV.format(lines=f"{folder}/m0.cc*%var1%\r\n").replace("=%http", "=%srcsrvtrg%%var9%"), {}
    name = "sourcelink$1" if form in ("sourcelink", "other") else "srcsrv"
    made.write("stream", text)
    made.run(tool("lld-link"), "/nologo", "/opt:ref,noicf", "/machine:x64", "/nodefaultlib", "/entry:start", "/subsystem:console", "/debug:full",
             "/out:told.exe", "/pdb:told.pdb", f"/pdbstream:{name}=stream", *objects)  # fmt: skip
    addresses = [hex(a) for a in draw(made.path("x64.exe"))]
    plain, told = ([(f.get("file"), [i.get("file") for i in f.get("inlines", [])]) for f in v5_frames(run("symbolicate", "--json", made.path(p), *addresses).stdout)]
                   for p in ("x64.pdb", "told.pdb"))  # fmt: skip
    assert told == [(want.get(own, own), [want.get(i, i) for i in inner]) for own, inner in plain]


def test_the_file_of_a_module_in_each_place(made, tmp_path):
    """As symbol servers have it, as a cabinet, and by UUID; asked for by the debug id alone."""
    windows = call(SYMBTOOL, "file-id", made.path("x64.pdb"))
    guid = re.search(r"debug id +(\S+)", windows)[1]
    offsets = draw(made.path("x64.exe"))[:60]
    want = local(made.path("x64.pdb"), offsets)
    mac = re.search(r"debug id +(\S+)0\n", call(SYMBTOOL, "file-id", made.dwarf("arm64")))[1]
    base = 0x100000000
    addresses = draw(made.path("mac-arm64"))[:60]
    want_mac = local(made.dwarf("arm64"), addresses)
    cabinet = tmp_path / "x64.pd_"
    call("gcab", "-c", "-z", "-n", cabinet, made.path("x64.pdb"))
    low = mac.lower()
    places = [
        ("x64.pdb", guid, f"x64.pdb/{guid}/x64.pdb", made.path("x64.pdb")),
        ("x64.pdb", guid, f"x64.pdb/{guid}/x64.pd_", cabinet),
        ("x64.pdb", guid, f"x64.pdb/{guid.lower()}/x64.pdb", made.path("x64.pdb")),
        ("mac-arm64", mac + "0", "/".join(mac[i : i + 4] for i in range(0, 20, 4)) + "/" + mac[20:], made.dwarf("arm64")),
        ("mac-arm64", mac + "0", f"_.dwarf/mach-uuid-sym-{low}/_.dwarf", made.path("mac-fat")),
        ("mac-arm64", mac + "0", f"{low[:2]}/{low[2:]}/debuginfo", made.path("mac-fat")),
        ("mac-arm64", mac + "0", "mac-arm64.dSYM/Contents/Resources/DWARF/mac-arm64", made.dwarf("arm64")),
        ("mac-arm64", low, f"{low[:2]}/{low[2:]}/debuginfo", made.dwarf("arm64")),
    ]
    for i, (name, ident, path, file) in enumerate(places):
        root = tmp_path / str(i)
        (root / path).parent.mkdir(parents=True)
        shutil.copy(file, root / path)
        with Stack(bucket=False, config={"source": [f"elf+file://{root}"]}) as s:
            mine = name == "x64.pdb"
            frames = s.client.frames([name, ident], offsets if mine else [a - base for a in addresses])
            assert [chain(f) for f in frames] == (want if mine else want_mac), path
            assert s.client.frames([name, ident[:-1] + ("2" if ident[-1] != "2" else "3")], [offsets[0]])[0].get("function") is None


def test_a_tree_is_pushed(made, tmp_path):
    """A PDB with its program, one alone, and each slice of a universal file; the server answers by their debug ids."""
    tree, place = tmp_path / "tree", tmp_path / "place"
    (tree / "deep").mkdir(parents=True)
    (place / "store").mkdir(parents=True)
    for name, to in (("x64.exe", "deep"), ("x64.pdb", ""), ("arm64.pdb", "deep"), ("mac-fat", "")):
        shutil.copy(made.path(name), tree / to)
    with Stack(keys=True, config=store_config(place)) as s:
        url = f"http://127.0.0.1:{s.node.nginx.port}"
        out = run("push-symbols", "--json", "--url", url, "-r", tree, env={"SYMBTOOL_API_KEY": s.key}).stdout
        assert sorted(os.path.basename(json.loads(line)["path"]) for line in out.splitlines()) == ["arm64.pdb", "mac-fat", "mac-fat", "x64.exe"]
        for name, program in (("x64.pdb", "x64.exe"), ("arm64.pdb", "arm64.exe")):
            ident = re.search(r"debug id +(\S+)", call(SYMBTOOL, "file-id", made.path(name)))[1]
            offsets = draw(made.path(program))[:40]
            assert [chain(f) for f in s.client.frames([name, ident], offsets)] == local(made.path(name), offsets)
        for arch in MAC:
            ident = re.search(r"debug id +(\S+)", call(SYMBTOOL, "file-id", made.dwarf(arch)))[1]
            addresses = draw(made.path(f"mac-{arch}"))[:40]
            got = s.client.frames([f"mac-{arch}", ident], [a - 0x100000000 for a in addresses])
            assert [chain(f) for f in got] == local(made.dwarf(arch), addresses)


def fetched(tmp_path):
    """Real PDB files of MSVC, some by link-time code generation, that npm and PyPI have."""
    packages = (["npm", "pack", "--silent", "node-pty@1.1.0"],
                ["pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--platform", "win_amd64", "--python-version", "311", "debugpy"])  # fmt: skip
    for command in packages:
        try:
            subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
        except (OSError, subprocess.SubprocessError) as e:
            pytest.skip(f"could not fetch: {e}")
    for name in os.listdir(tmp_path):
        shutil.unpack_archive(tmp_path / name, tmp_path / "all", "zip" if name.endswith("whl") else None)
    return sorted(str(path) for path in (tmp_path / "all").rglob("*.pdb"))


def test_real_files_of_msvc(tmp_path):
    """Each function and inlined call has a name, also where it is another module's; each unit is read; and the program and its
    PDB have the same id."""
    paths = fetched(tmp_path)
    assert len(paths) > 10
    for path in paths:
        out = tmp_path / "out"
        out.mkdir()
        done = run("extract", "--json", "-o", out, path)
        assert "malformed" not in done.stderr and json.loads(done.stdout)["ranges"] > 200, path
        part = next(p for p in out.iterdir() if ".ranges." in p.name)
        ranges = [json.loads(line) for line in run("dump", "--json", part).stdout.splitlines()]
        assert all(r["func"] and not r["func"].startswith("?") for r in ranges), path
        assert sum(r["depth"] > 0 for r in ranges) > 20
        if path.endswith("x64/winpty-agent.pdb"):  # as its decorated name says; the size of the elements is in another record
            assert "Scraper::syncMarkerText(_CHAR_INFO (&)[16])" in {r["func"] for r in ranges}
        shutil.rmtree(out)
        program = next((path[:-4] + end for end in (".node", ".exe", ".dll") if os.path.exists(path[:-4] + end)), None)
        ids = [re.search(r"debug id +(\S+)", call(SYMBTOOL, "file-id", p))[1] for p in (path, program or path)]
        assert ids[0] == ids[1]
