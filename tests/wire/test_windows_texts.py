# SPDX-License-Identifier: Apache-2.0
"""Texts of Windows get names from a bucket of .sym files of PDBs, whatever the text calls the program: by the server, by symbtool,
and equal ones. The lines of app.sym are those of tests/data/text/windows/README."""

import os
import re
import subprocess

import pytest

from client import Client
from stack import ROOT, Stack
from test_symbtool import BOUND, SYMBTOOL

FOLDER = os.path.join(ROOT, "tests", "data", "text", "windows")
ID = "4C4C44445555314450444E4C204455441"
CODE_ID = "5F8A3C1E80000"
HERE, ABOVE, BELOW = "c:\\src\\app.c:7", "c:\\src\\app.c:6", "c:\\src\\app.c:8"
# of each sample: its modules and the places that it names, in order
PLACES = {
    **{f"event-1000-{language}.txt": (["app.dll"], [HERE]) for language in ("en", "de", "fr", "ja", "zh")},
    "wer-dialog.txt": (["app.dll"], [HERE]),
    "Report.wer": (["app.dll"], [HERE]),
    "asan-preferred-base.txt": (["app.exe", "app.dll"], [ABOVE, HERE, HERE]),
    "drmingw.txt": (["app.exe", "app.dll"], [HERE, HERE, BELOW]),
    "module-ranges.txt": ([], [HERE, HERE]),
    "address-with-ranges.txt": ([], [HERE]),
    "bare-hex.txt": (["app.exe"], [HERE, HERE]),
    "unreal-pcallstack.txt": (["app"], [HERE, HERE]),
    "blender.txt": (["app.exe"], [HERE, HERE]),
    "windbg.txt": (["app"], [HERE, HERE]),
    "dotnet.txt": (["app"], [HERE, HERE]),
}


@pytest.fixture(scope="module")
def one():
    with Stack() as s:
        with open(os.path.join(FOLDER, "app.sym"), "rb") as f:
            s.symbols.put("app.pdb", ID, f.read())
        yield s


def read(name):
    with open(os.path.join(FOLDER, name), "rb") as f:
        data = f.read()
    return data.decode("utf-16") if data[:2] == b"\xff\xfe" else data.decode()


def by_server(one, text, modules, accept=None):
    query = "&".join(f"module={m}" for m in modules)
    reply = Client(one.node.nginx.port).request("POST", f"/symbolicate/text?{query}", text.encode(), {"Accept": accept} if accept else None)
    assert reply.status == 200, reply
    return reply.json()["frames"] if accept else reply.body.decode()


def by_symbtool(one, name, modules, *options, code=0):
    command = [SYMBTOOL, "symbolicate", "--filter", "--one-line", *options, *(w for m in modules for w in ("--module", m)), os.path.join(FOLDER, name)]
    done = subprocess.run(command, capture_output=True, timeout=BOUND, cwd="/")
    assert done.returncode == code, done
    return done.stdout.decode()


def places(text):
    return re.findall(r"crash_here (?:at )?(\S+:\d+)", text)


def test_every_sample_is_tried():
    assert set(PLACES) == set(os.listdir(FOLDER)) - {"README", "app.sym"}


@pytest.mark.parametrize("name", PLACES)
def test_the_text_gets_its_names_and_keeps_all_else(one, name):
    text = read(name)
    names, wanted = PLACES[name]
    modules = [f"{n}={ID}" for n in names]
    out = by_server(one, text, modules)
    assert places(out) == wanted
    assert re.sub(r" \(crash_here at [^)]*\)| in crash_here \S+(?= \()", "", out).replace("crash_here at c:\\src\\app.c:7", "Symbols not available") == re.sub(
        r"(0x7ff\w+)  \((?=C:\\Prog)", r"\1 (", text
    )
    assert by_symbtool(one, name, modules, "--url", f"http://127.0.0.1:{one.node.nginx.port}") == out
    assert [f"{f['file']}:{f['line']}" for f in by_server(one, text, modules, "application/json") if "line" in f] == wanted
    files = [f"{n}={os.path.join(FOLDER, 'app.sym')}" for n in names or ["app.exe"]]
    assert by_symbtool(one, name, files) == out


@pytest.mark.parametrize("given", ["app.exe={}", "app.exe=app.pdb/{}", "app.pdb={}", "app={}", "app.exe={}".format("{GUID}1")])
@pytest.mark.parametrize("text", ["    #0 0x7ff6 (C:\\App\\app.exe+0x1014)\n", "at app.exe+0x1014\n", " # Child-SP RetAddr Call Site\n00 000000c8`2a0ff5c8 00007ff7`b1231015     app+0x1014\n"])
def test_the_symbols_are_those_of_the_pdb_whatever_name_the_id_is_given_to(one, given, text):
    guid = f"{ID[:8]}-{ID[8:12]}-{ID[12:16]}-{ID[16:20]}-{ID[20:32]}-1"
    module = given.replace("{GUID}1", guid).replace("{}", ID)
    assert places(by_server(one, text, [module])) == [HERE]


def test_a_module_without_an_ending_is_a_module_if_it_is_given(one):
    assert places(by_server(one, "somewhere in app+0x1014 it died\n", [f"app.exe={ID}"])) == [HERE]
    assert places(by_server(one, "somewhere in app+0x1014 it died\n", [])) == []


def test_what_is_missing_is_looked_for_under_each_name_and_told_once(one):
    other = "0" * 31 + "11"
    frames = by_server(one, "at app.exe+0x1014\n", [f"app.exe={other}"], "application/json")
    assert [(f["module"], f["reason"]) for f in frames] == [("app.exe", "not found")]
    paths = [path for path in one.symbols.requested() if other in path] if hasattr(one.symbols, "requested") else []
    assert len(set(paths)) == len(paths)
