# SPDX-License-Identifier: Apache-2.0
"""Programs and files with debug data that are given to the web page, in headless Chromium: it reads their ids in the browser. They are
made by clang, lld and LLVM's tools, which also tell the ids."""

import os
import re
import struct
import subprocess
import uuid

import pytest

from browser import CHROMIUM, DRIVER, driver, page, stack  # noqa: F401
from platforms import call, tool
from symbols import sym_name

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromium-driver are not installed")]

SOURCE = "int f(int x) { return x * 3; }\nint start(void) { return f(1); }\n"
WINDOWS = "Exception in {} at:\n#0 0x140001010 app.exe+0x1010\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """app.exe with app.pdb of 4 KiB blocks, other.exe with app2.pdb of 8 KiB blocks, bare.exe without a PDB; mac-ARCH, mac-ARCH.dSYM, and
    universal files of one and of two."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "a.c").write_text(SOURCE)
    for arch in ("x86_64", "i686"):
        call("clang", "-target", f"{arch}-pc-windows-msvc", "-g", "-gcodeview", "-ffreestanding", "-c", "a.c", "-o", f"{arch}.obj", cwd=folder)
    link = [tool("lld-link"), "/nologo", "/nodefaultlib", "/entry:start", "/subsystem:console"]
    call(*link, "/debug:full", "/out:app.exe", "/pdb:app.pdb", "x86_64.obj", cwd=folder)
    call(*link, "/debug:full", "/pdbpagesize:8192", "/out:other.exe", "/pdb:app2.pdb", "i686.obj", cwd=folder)
    call(*link, "/out:bare.exe", "x86_64.obj", cwd=folder)
    for arch in ("arm64", "x86_64"):
        call("clang", "-target", f"{arch}-apple-macos11", "-g", "-ffreestanding", "-c", "a.c", "-o", f"{arch}.o", cwd=folder)
        call(tool("ld64.lld"), "-arch", arch, "-platform_version", "macos", "11.0", "11.0", "-e", "_start", "-o", f"mac-{arch}", f"{arch}.o", cwd=folder)
        call(tool("dsymutil"), f"mac-{arch}", "-o", f"mac-{arch}.dSYM", cwd=folder)
    call(tool("llvm-lipo"), "-create", "-output", "one", "mac-arm64", cwd=folder)
    call(tool("llvm-lipo"), "-create", "-output", "both", "mac-arm64", "mac-x86_64", cwd=folder)
    return folder


def pdb_id(path):
    """As LLVM tells it of a program or of a PDB file."""
    if path.suffix == ".exe":
        text = call(tool("llvm-readobj"), "--coff-debug-directory", path)
        guid, age = re.search(r"PDBGUID: [{(](.+)[)}]\s+PDBAge: (\d+)", text).groups()
        if " " in guid:  # LLVM 14 writes its bytes
            guid = str(uuid.UUID(bytes_le=bytes.fromhex(guid))).upper()
    else:
        guid, age = re.search(r"Age: (?P<a>\d+)\s+GUID: \{(?P<g>.+)\}", call(tool("llvm-pdbutil"), "dump", "-summary", path)).group("g", "a")
    return guid.replace("-", "") + f"{int(age):X}"


def uuids(path):
    return [u.replace("-", "") + "0" for u in re.findall(r"UUID: (\S+)", call(tool("llvm-dwarfdump"), "--uuid", path))]


def ids(page):
    return page.part("modules").get_attribute("value")


def give(page, path):
    page.part("file").send_keys(str(path))


def filled(page, line):
    page.wait(f"the id {line}", lambda: line in ids(page).split("\n"))


def asked(stack):
    with open(os.path.join(stack.node.nginx.directory, "access.log"), encoding="utf-8") as log:
        return sum('"POST ' in line for line in log)


@pytest.mark.parametrize("name", ["app.exe", "app.pdb", "other.exe", "app2.pdb"])
def test_a_program_of_windows_or_its_pdb_gives_its_debug_id(page, stack, made, name):
    """Nothing is sent, as there is nothing to look up yet. A PDB file that is called otherwise is named."""
    before = asked(stack)
    give(page, made / name)
    filled(page, f"{name} = {'app2.pdb/' if name == 'other.exe' else ''}{pdb_id(made / name)}")
    assert f"The id of {name} is among the ids" in page.text("progress") and asked(stack) == before


@pytest.mark.parametrize("name", ["app.exe", "app.pdb"])
def test_a_stack_gets_names_when_its_pdb_is_given(page, stack, made, name):
    ident = pdb_id(made / name)
    stack.symbols.add("app.pdb", "FUNC 1000 20 0 of_the_pdb\n1000 20 7 0\n", ident, sym_name("app.pdb"))
    page.send(WINDOWS.format(name)).result("app.exe+0x1010")
    give(page, made / name)
    page.result("of_the_pdb")


def test_a_program_without_a_pdb_gives_its_code_id(page, made):
    text = call(tool("llvm-readobj"), "--file-headers", made / "bare.exe")
    stamp, size = int(re.search(r"TimeDateStamp: .*\(0x([0-9A-F]+)\)", text)[1], 16), int(re.search(r"SizeOfImage: (\d+)", text)[1])
    give(page, made / "bare.exe")
    filled(page, f"bare.exe = {stamp:08X}{size:x}")
    page.send_keep("#0 0x140001010 bare.exe+0x1010\n").result("bare.exe+0x1010")


@pytest.mark.parametrize("arch", ["arm64", "x86_64"])
def test_a_program_of_macos_or_its_debug_data_gives_its_uuid(page, made, arch):
    (ident,) = uuids(made / f"mac-{arch}")
    give(page, made / f"mac-{arch}")
    filled(page, f"mac-{arch} = {ident}")
    page.click("clear")
    give(page, made / f"mac-{arch}.dSYM" / "Contents" / "Resources" / "DWARF" / f"mac-{arch}")
    filled(page, f"mac-{arch} = {ident}")


def test_a_universal_file_gives_its_only_id_and_of_two_both_are_told(page, made):
    give(page, made / "one")
    filled(page, f"one = {uuids(made / 'one')[0]}")
    give(page, made / "both")
    told = ", ".join(f"{uuids(made / f'mac-{arch}')[0]} ({arch})" for arch in ("x86_64", "arm64"))
    page.error(f"both has several ids, of which the one that ran is to be typed: {told}.")


def drop_path(page, path):
    """As a person does it, who alone can drop a folder."""
    data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        page.cdp("Input.dispatchDragEvent", type=kind, x=300, y=300, data=data)


def test_a_bundle_is_dropped_as_the_folder_that_it_is(page, made):
    drop_path(page, made / "mac-arm64.dSYM")
    filled(page, f"mac-arm64 = {uuids(made / 'mac-arm64')[0]}")
    drop_path(page, made)
    page.error("is a folder, and no bundle with debug data. Drop a file.")


def mutants(made):
    """(name, bytes) of files that are damaged where ids are looked for."""
    exe, pdb, mac, both = ((made / name).read_bytes() for name in ("app.exe", "app.pdb", "mac-arm64", "both"))
    at = struct.unpack_from("<I", exe, 0x3C)[0]
    word = struct.Struct("<I").pack
    fat = struct.pack(">II", 0xCAFEBABE, 2) + struct.pack(">IIIII", 7, 3, 0xFFFFFFF0, 16, 12) * 2
    return [
        ("no-header.exe", exe[:0x3C] + word(0xFFFFFF00) + exe[0x40:]), ("cut.exe", exe[: at + 30]), ("dos.exe", exe[:at] + b"NE" + exe[at + 2 :]),
        ("no-blocks.pdb", pdb[:32] + word(0) + pdb[36:]), ("cut.pdb", pdb[:4096]), ("far.pdb", pdb[:52] + word(0xFFFFFFFF) + pdb[56:]),
        ("no-directory.pdb", pdb[:44] + word(0) + pdb[48:]), ("no-commands", mac[:20] + word(0) + mac[24:]), ("cut-mac", mac[:64]),
        ("endless-commands", mac[:32] + word(2) + word(0) + mac[40:]), ("far-fat", fat.ljust(64, b"\0")), ("cut-fat", both[:30].ljust(64, b"\0")),
    ]  # fmt: skip


def test_damaged_files_say_that_they_have_no_id(page, made, tmp_path):
    """Each in little time, and none is taken for a text."""
    for name, data in mutants(made):
        (tmp_path / name).write_bytes(data)
        give(page, tmp_path / name)
        told = page.error(f"{name} ")
        assert re.search(r"is damaged|is a program of (DOS|macOS without a UUID)|is a universal file without UUIDs", told), told
    assert ids(page) == ""


@pytest.mark.parametrize("data, words", [
    (b"Microsoft C/C++ program database 2.00\r\n\x1aJG\0\0", "is a PDB file of Visual C++ 6 or older"), (b"BSJB\1\0\1\0", "is a portable PDB file of .NET"),
    (b"MSCF\0\0\0\0", "is a cabinet"), (b"\xca\xfe\xba\xbe\0\0\0\x34", "is binary"),
], ids=["old", "portable", "cabinet", "Java"])  # fmt: skip
def test_other_kinds_are_named(page, tmp_path, data, words):
    (tmp_path / "file.bin").write_bytes(data.ljust(200, b"\0"))
    give(page, tmp_path / "file.bin")
    page.error(words)


def test_a_program_larger_than_memory_gives_its_id_at_once(page, made, tmp_path):
    """Only what is needed is read: this PDB file ends after 6 GB."""
    large = tmp_path / "app.pdb"
    subprocess.run(["cp", made / "app.pdb", large], check=True)
    os.truncate(large, 6 << 30)
    give(page, large)
    filled(page, f"app.pdb = {pdb_id(made / 'app.pdb')}")
