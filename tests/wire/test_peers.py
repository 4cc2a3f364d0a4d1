# SPDX-License-Identifier: Apache-2.0
"""What the own tests of Breakpad, rust-minidump, symbolic, Tecken and Eliot expect, in our words, each as a request to the
service: the value that goes in, the value that comes out, and whose test it is. Where we answer otherwise on purpose, the
row says what and docs/sym-files.md or docs/api.md why."""

import codecs
import gzip
import json
import os
import re
import subprocess
from urllib.parse import quote

import pytest

from client import job
from stack import ROOT, Stack, wait_for
from symbols import debug_id
from test_sym_uploads import QUICK, Store, path_of, text_of, zstd
from test_symbtool import SYMBTOOL
from test_zip_uploads import form, token, zip_of

BREAKPAD = "breakpad, basic_source_line_resolver_unittest"
MINIDUMP = "rust-minidump, breakpad-symbols: sym_file/parser"
SYMBOLIC = "symbolic, symbolic-debuginfo: breakpad"
ELIOT = "eliot, test_symbolicate_resource"
TECKEN_DOWNLOAD = "tecken, test_download"
TECKEN_UPLOAD = "tecken, test_upload"
NOTHING = (None, None, None)


def readable(line, offset=0x20):
    """A file in which only this line may answer at the offset."""
    return f"FILE 4 four.c\nFUNC f00 10 0 far\n{line}\n", offset


# What a file says at an offset: text and offset, then function, file and line, and the inlined calls, innermost first.
LOOKUPS = [
    # a module with functions with and without lines, and public symbols
    *[
        (BREAKPAD, what, ("FILE 1 file1_1.cc\nFUNC 1000 c 0 Function1_1\n1000 4 44 1\n1004 4 45 1\n1008 4 46 1\nFUNC 1100 8 4 Function1_2\n"
         "FUNC 1200 100 8 Function1_3\nFUNC 1300 100 c Function1_4\nFUNC 2000 0 0 Test_Zero_Size_Function_Is_Ignored\n2000 4 88 1\n"
         "PUBLIC 2800 0 PublicSymbol\nFUNC 3000 7000 42 LargeFunction\n3000 7000 4098359 1\n", offset), *frame)
        for what, offset, frame in [
            ("the first line of a function", 0x1000, ("Function1_1", "file1_1.cc", 44)),
            ("before the first symbol", 0x800, NOTHING),
            ("a function without lines", 0x1280, ("Function1_3", None, None)),
            ("another one", 0x1380, ("Function1_4", None, None)),
            ("a function of size 0 is ignored", 0x2000, NOTHING),
            ("a public symbol below", 0x2900, ("PublicSymbol", None, None)),
            ("a large function with a large line", 0x4000, ("LargeFunction", "file1_1.cc", 4098359)),
        ]
    ],
    *[
        (BREAKPAD, what, ("FILE 2 file2_2.cc\nFUNC 2170 14 4 Function2_2\n2170 6 10 2\n2176 4 12 2\n217a 6 13 2\n2180 4 21 2\nPUBLIC 2160 0 Public2_1\n"
         "PUBLIC 21a0 0 Public2_2\n", offset), *frame)
        for what, offset, frame in [
            ("the last line of a function", 0x2181, ("Function2_2", "file2_2.cc", 21)),
            ("a public symbol up to the next function", 0x216F, ("Public2_1", None, None)),
            ("no public symbol across a function", 0x219F, NOTHING),
            ("a public symbol at its address", 0x21A0, ("Public2_2", None, None)),
        ]
    ],
    (BREAKPAD, "three inlined calls of four files", (
        "FILE 0 linux_inline.cpp\nFILE 1 a.cpp\nFILE 2 b.cpp\nFILE 3 c.cpp\nINLINE_ORIGIN 0 func()\nINLINE_ORIGIN 1 bar()\nINLINE_ORIGIN 2 foo()\n"
        "FUNC 15b30 6cf 0 main\nINLINE 0 42 1 2 15b45 6b1\nINLINE 1 39 2 1 15b72 688\nINLINE 2 32 3 0 15b83 682\n15b30 10 41 1\n161b6 a 27 0\n", 0x161B6),
        "main", "a.cpp", 42, [("func()", "linux_inline.cpp", 27), ("bar()", "c.cpp", 32), ("foo()", "b.cpp", 39)]),
    (BREAKPAD, "three inlined calls in the form of 2021", (
        "FILE 0 linux_inline.cpp\nINLINE_ORIGIN 0 0 func()\nINLINE_ORIGIN 1 0 bar()\nINLINE_ORIGIN 2 0 foo()\nFUNC 15b30 6cf 0 main\n"
        "INLINE 0 42 2 15b45 6b1\nINLINE 1 39 1 15b72 688\nINLINE 2 32 0 15b83 682\n15b30 10 41 0\n161b6 a 27 0\n", 0x161B6),
        "main", "linux_inline.cpp", 42, [("func()", "linux_inline.cpp", 27), ("bar()", "linux_inline.cpp", 32), ("foo()", "linux_inline.cpp", 39)]),
    # lines of files
    (BREAKPAD, "a file name with a blank", ("FILE 1 file name\nFUNC 20 10 0 f\n20 10 5 1\n", 0x20), "f", "file name", 5),
    (BREAKPAD, "file number 0", ("FILE 0 file name\nFUNC 20 10 0 f\n20 10 5 0\n", 0x20), "f", "file name", 5),
    *[(BREAKPAD, f"no file: {bad}", (f"{bad}\nFUNC 20 10 0 f\n20 10 5 1\n", 0x20), "f", None, None)
      for bad in ("FILE 1 ", "FILE x1 file name", "FILE 123123123123123123123123 file name", "FILE -2 file name")],
    # functions
    (BREAKPAD, "a function name with a blank", readable("FUNC 20 2 3 function name"), "function name", None, None),
    (BREAKPAD, "hex address, size and parameters", readable("FUNC a1 a2 a3 function name", 0xA1), "function name", None, None),
    (BREAKPAD, "several symbols at the address", readable("FUNC m a1 a2 a3 function name", 0xA1), "function name", None, None),
    (BREAKPAD, "a function of size 0 at 0", readable("FUNC 0 0 0 function name", 0), *NOTHING),
    *[(BREAKPAD, f"no function: {bad}", readable(bad, 1), *NOTHING)
      for bad in ("FUNC 1z 2 3 function name", "FUNC 123123123123123123123123123 2 3 function name", "FUNC 1 z2 3 function name",
                  "FUNC 1 231231231231231231231231232 3 function name", "FUNC 1 2 3z function name",
                  "FUNC 1 2 312312312312312312312312323 function name", "FUNC 1 2 -5 function name", "FUNC x 1 2 5 function name")],
    # line records
    (BREAKPAD, "a line record", readable("FUNC 20 20 0 f\n20 10 3 4"), "f", "four.c", 3),
    (BREAKPAD, "a comment behind a line record", readable("FUNC a0 b0 0 f\na1 a2 3 4  // some comment", 0xA1), "f", "four.c", 3),
    (BREAKPAD, "line 0", readable("FUNC a0 b0 0 f\na1 a2 0 4  // some comment", 0xA1), "f", "four.c", None),
    *[(BREAKPAD, f"no line: {bad}", readable(f"FUNC 1 20 0 f\n{bad}", 1), "f", None, None)
      for bad in ("1 2 3", "1z 2 3 4", "123123123123123123123123 2 3 4", "1 z2 3 4", "1 123123123123123123123123 3 4", "1 2 3 f")],
    # public symbols
    (BREAKPAD, "a public symbol named as a number", readable("PUBLIC 20 2 3"), "3", None, None),
    (BREAKPAD, "a public symbol", readable("PUBLIC a1 a2 function name", 0xA1), "function name", None, None),
    (BREAKPAD, "a public symbol at 0", readable("PUBLIC 0 a2 function name", 0), "function name", None, None),
    (BREAKPAD, "a public symbol of several", readable("PUBLIC m a1 a2 function name", 0xA1), "function name", None, None),
    *[(BREAKPAD, f"no public symbol: {bad}", readable(bad, 1), *NOTHING)
      for bad in ("PUBLIC 1z 2 3", "PUBLIC 123123123123123123123123 2 3", "PUBLIC 1 z2 3", "PUBLIC 1 123123123123123123123123123 3", "PUBLIC 1 -5 3",
                  "PUBLIC x 1 5 3")],
    # inlined calls
    (BREAKPAD, "several ranges of an inlined call", readable("INLINE_ORIGIN 3 inner\nFUNC 1 40 0 f\nINLINE 0 1 4 3 a b 1a 1b\n1 40 9 4", 0x1A), "f", "four.c", 1, [("inner", "four.c", 9)]),
    *[(BREAKPAD, f"no inlined call: {bad}", readable(f"INLINE_ORIGIN 3 inner\nFUNC 1 40 0 f\n{bad}\n1 40 9 4", 4), "f", "four.c", 9)
      for bad in ("INLINE -1 1 2 3 4 5", "INLINE 0 -1 2 3 4 5", "INLINE 0 1 2 -3 4 5", "INLINE 0 1 2 -2", "INLINE 0 1 -2 3 4")],
    *[(BREAKPAD, f"no origin: {bad}", readable(f"{bad}\nFUNC 1 40 0 f\nINLINE 0 1 4 1 4 5\n1 40 9 4", 4), "f", "four.c", 1, [("<unknown>", "four.c", 9)])
      for bad in ("INLINE_ORIGIN x1 function name", "INLINE_ORIGIN 123123123123123123123123 function name", "INLINE_ORIGIN -1 function name")],
    # rust-minidump
    (MINIDUMP, "several blanks between fields", ("FILE  1234  foo bar.xyz\nFUNC 20 10 0 f\n20 10 5 1234\n", 0x20), "f", "foo bar.xyz", 5),
    (MINIDUMP, "a public symbol", readable("PUBLIC f00d d00d some func", 0xF00D), "some func", None, None),
    (MINIDUMP, "a name with blanks, colons and commas", readable("FUNC c184 30 0 nsQueryInterfaceWithError::operator()(nsID const&, void**) const", 0xC184),
     "nsQueryInterfaceWithError::operator()(nsID const&, void**) const", None, None),
    *[(MINIDUMP, f"all kinds of records in one file: {offset:x}", (
        "INFO blah blah blah\nFILE 0 foo.c\nFILE 100 bar.c\nPUBLIC abcd 10 func 1\nPUBLIC ff00 3 func 2\nFUNC 900 30 10 some other func\n"
        "FUNC 1000 30 10 some func\n1000 10 42 0\n1010 10 52 8\n1020 10 62 100\nFUNC 1100 30 10 a third func\n"
        "STACK WIN 4 900 30 a1 b2 c3 d4 e5 f6 1 prog string\nSTACK WIN 0 1000 30 a1 b2 c3 d4 e5 f6 0 1\n"
        "STACK CFI INIT badf00d abc init rules\nSTACK CFI deadf00d some rules\nSTACK CFI deadbeef more rules\nSTACK CFI INIT f00f f0 more init rules\n", offset), *frame)
      for offset, frame in [(0xABCD, ("func 1", None, None)), (0xFF00, ("func 2", None, None)), (0x92F, ("some other func", None, None)), (0x930, NOTHING),
                            (0x1000, ("some func", "foo.c", 42)), (0x1010, ("some func", None, None)), (0x102F, ("some func", "bar.c", 62)), (0x1100, ("a third func", None, None))]],
    *[(MINIDUMP, f"overlapping functions and lines: {offset:x}", (
        "FILE 0 foo.c\nPUBLIC abcd 10 func 1\nFUNC 1000 30 10 some func\n1000 10 42 0\n1000 10 43 0\n1010 10 52 0\nFUNC 1000 30 10 some func overlap exact\n", offset), *frame)
      for offset, frame in [(0x1000, ("some func", "foo.c", 42)), (0x1010, ("some func", "foo.c", 52))]],
    # symbolic
    (SYMBOLIC, "a file name with blanks", ("FILE 38 /usr/local/src/filename with spaces.c\nFUNC 20 10 0 f\n20 10 5 38\n", 0x20), "f", "/usr/local/src/filename with spaces.c", 5),
    (SYMBOLIC, "an origin's name with blanks and commas", readable("INLINE_ORIGIN 3576 unsigned int mozilla::AddToHash<char, 0>(unsigned int, char)\nFUNC 20 10 0 f\nINLINE 0 7 4 3576 20 8\n20 10 5 4"),
     "f", "four.c", 7, [("unsigned int mozilla::AddToHash<char, 0>(unsigned int, char)", "four.c", 5)]),
    (SYMBOLIC, "a name in angle brackets", readable("FUNC 1730 1a 0 <name omitted>", 0x1730), "<name omitted>", None, None),
    (SYMBOLIC, "a function without a name", readable("FUNC 0 f 0", 0), "<unknown>", None, None),
    (SYMBOLIC, "a public symbol without a name", readable("PUBLIC 5180 0", 0x5180), "<unknown>", None, None),
    (SYMBOLIC, "a negative line is unknown", readable("FUNC e0fd00 40 0 f\ne0fd00 10 9 4\ne0fd10 5 -376 4", 0xE0FD10), "f", "four.c", None),
    (SYMBOLIC, "blanks before a record", readable("FUNC 1000 40 0 f\n    1000 1c 2972 4", 0x1000), "f", "four.c", 2972),
    (SYMBOLIC, "two ranges of a call at depth 6, without the ones above", readable("INLINE_ORIGIN 207 inner\nFUNC 8b100 100 0 f\nINLINE 6 642 4 207 8b110 18 8b154 18\n8b100 100 5 4", 0x8B154), "f", "four.c", 5),
    (SYMBOLIC, "an inlined call without a range", readable("INLINE_ORIGIN 207 inner\nFUNC 8b100 100 0 f\nINLINE 6 642 8 207\n8b100 100 5 4", 0x8B154), "f", "four.c", 5),
    (SYMBOLIC, "blanks before STACK WIN and behind", readable("FUNC 20 10 0 f\n     STACK WIN 4 371a c 0 0 0 0 0 0 1 $T0 .raSearch =\n                \n20 10 5 4"), "f", "four.c", 5),
]

# Files that the peer takes for broken, and so do we.
REFUSED = [
    (MINIDUMP, "junk", b"this is not a symbol file\n"),
    (MINIDUMP, "a malformed MODULE line", b"MODULE Linux x86 xxxxxx\nFILE 0 foo.c\n"),
    (MINIDUMP, "an empty file", b""),
    (ELIOT, "junk", b"this is junk"),
    (ELIOT, "another id than was asked for", b"MODULE Linux x86_64 D48F191186D67E69DF025AD71FB91E1F0 testproj\nFUNC 1000 44 0 testproj::main\n"),
]

# Where the answer is another on purpose: what the peer says, what we say, and words of the document that says why.
DIFFERENT = [
    *[(BREAKPAD, f"{bad}: damaged", readable(bad, 1), ("<unknown>", None, None), "docs/sym-files.md", "| a record without a name |")
      for bad in ("FUNC 1 2 3 ", "PUBLIC 1 2 ")],
    (BREAKPAD, "1 2 z3 4: no line record", readable("FUNC 1 20 0 f\n1 2 z3 4", 1), ("f", "four.c", None), "docs/sym-files.md", "| a line that is no number |"),
    (BREAKPAD, "1 2 -1 4: no line record", readable("FUNC 1 20 0 f\n1 2 -1 4", 1), ("f", "four.c", None), "docs/sym-files.md", "| a line that is no number |"),
    *[(MINIDUMP, f"{bad!r}: the whole file is broken", (f"FUNC 1000 10 0 good\n{bad}\n", 0x1000), ("good", None, None), "docs/sym-files.md", "| a damaged line |")
      for bad in ("FILE x foo.c", "FUNC xx 1 2 foo", "this is some junk", "FILE 0 foo.c\nFILE")],
    *[(MINIDUMP, f"overlapping functions: only the first counts, {offset:x}", (
        "FUNC 1000 30 10 some func\nFUNC 1001 30 10 some func overlap end\nFUNC 1001 10 10 some func overlap contained\n", offset), frame,
        "docs/sym-files.md", "| functions that overlap |")
      for offset, frame in [(0x1000, ("some func", None, None)), (0x1030, ("some func overlap end", None, None))]],
    (SYMBOLIC, "a FILE without a name has an empty one", ("FILE 1\nFUNC 20 10 0 f\n20 10 5 1\n", 0x20), ("f", None, None), "docs/sym-files.md", "| a FILE without a name |"),
]


@pytest.fixture(scope="module")
def service():
    with Stack() as s:
        for i, (_, _, (text, _), *_) in enumerate(LOOKUPS):
            s.symbols.add(f"lookup{i}.so", text)
        for i, (_, _, (text, _), *_) in enumerate(DIFFERENT):
            s.symbols.add(f"other{i}.so", text)
        for i, (_, _, data) in enumerate(REFUSED):
            s.symbols.put(f"refused{i}.so", debug_id(f"refused{i}.so"), data)
        yield s


def answer(service, name, offset):
    frame = service.client.frames([name, debug_id(name)], [offset])[0]
    inlines = [(i.get("function"), i.get("file"), i.get("line")) for i in frame.get("inlines", [])]
    return (frame.get("function"), frame.get("file"), frame.get("line")), inlines


@pytest.mark.parametrize("number", range(len(LOOKUPS)), ids=[f"{row[0].split(',')[0]}: {row[1]}" for row in LOOKUPS])
def test_symbol_files_are_read_as_their_readers_read_them(service, number):
    _, _, (_, offset), function, file, line, *inlines = LOOKUPS[number]
    assert answer(service, f"lookup{number}.so", offset) == ((function, file, line), inlines[0] if inlines else [])


@pytest.mark.parametrize("number", range(len(REFUSED)), ids=[f"{row[0].split(',')[0]}: {row[1]}" for row in REFUSED])
def test_what_they_refuse_answers_nothing(service, number):
    assert service.client.found([f"refused{number}.so", debug_id(f"refused{number}.so")]) is False


@pytest.mark.parametrize("number", range(len(DIFFERENT)), ids=[f"{row[0].split(',')[0]}: {row[1]}" for row in DIFFERENT])
def test_what_we_answer_otherwise_has_a_reason(service, number):
    _, _, (_, offset), frame, document, words = DIFFERENT[number]
    assert answer(service, f"other{number}.so", offset)[0] == frame
    with open(os.path.join(ROOT, document), encoding="utf-8") as file:
        assert words in file.read(), words


# ---- how files come ----

PACKED = {
    "a byte order mark": (lambda text: codecs.BOM_UTF8 + text, None),
    "gzip": (gzip.compress, None),
    "bytes behind gzip": (lambda text: gzip.compress(text) + b"behind", None),
    "gzip in gzip": (lambda text: gzip.compress(gzip.compress(text)), None),
    "zstd in gzip": (lambda text: gzip.compress(zstd(text)), None),
    "gzip three times": (lambda text: gzip.compress(gzip.compress(gzip.compress(text))), "packed as gzip once more|a gzip file: unpack it first"),
    "UTF-16": (lambda text: text.decode().encode("utf-16"), "it is UTF-16, not UTF-8"),
    "HTML": (lambda text: b"<html>no such file</html>", "HTML or XML"),
}


@pytest.mark.parametrize("kind", PACKED)
def test_files_are_read_or_named_alike_by_server_and_symbtool(service, tmp_path, kind):
    pack, refusal = PACKED[kind]
    name = f"{kind.replace(' ', '-')}.so"
    data = pack(f"MODULE Linux x86_64 {debug_id(name)} {name}\nFUNC 20 10 0 f\n".encode())
    service.symbols.put(name, debug_id(name), data)
    path = tmp_path / f"{name}.sym"
    path.write_bytes(data)
    told = subprocess.run([SYMBTOOL, "symbolicate", path, "0x20"], capture_output=True, text=True, timeout=60)
    function = service.client.frames([name, debug_id(name)], [0x20])[0].get("function")
    assert function == (None if refusal else "f") and told.stdout.split()[1:2] == ["??" if refusal else "f"], told
    if refusal:
        checked = subprocess.run([SYMBTOOL, "check", path], capture_output=True, text=True, timeout=60)
        logged = [line["text"] for line in service.node.daemon.log_lines() if name in line.get("text", "")]
        assert checked.returncode == 1 and re.search(refusal, checked.stdout + checked.stderr) and re.search(refusal, logged[0]), (checked, logged)


# ---- ids ----


def test_an_id_without_age_is_that_with_age_0(service):
    """symbolic: an id of 32 digits lacks its age."""
    ident = "6216C672A8D33EC9CF4A1BAB8B29D00E"
    service.symbols.put("libdispatch.so", ident + "0", f"MODULE Linux x86_64 {ident} libdispatch.so\nFUNC 20 10 0 f\n".encode())
    assert service.client.frames(["libdispatch.so", ident + "0"], [0x20])[0]["function"] == "f"


def test_what_downloads_find_by_code_id_requests_find_too(store):
    """Of an upload, and of a file in a source as soon as anybody has asked for its module."""
    text = "INFO CODE_ID {} {}.dll\nFUNC 1000 100 0 by code\n"
    assert store.put("coded.pdb", text_of("coded.pdb", text.format("5CF2591C6859000", "coded"))).status == 200
    store.stack.symbols.put("sourced.pdb", debug_id("sourced.pdb"), text_of("sourced.pdb", text.format("5cf2591c6859001", "sourced")))
    assert store.frame("sourced.pdb")["function"] == "by code"
    for stem, code_id in ("coded", "5CF2591C6859000"), ("coded", "5cf2591c6859000"), ("sourced", "5CF2591C6859001"):
        path = f"/{stem}.dll/{code_id}/{stem}.sym"
        wait_for(lambda path=path: store.stack.client.get(path).status == 302, f"{path} known")
        wait_for(lambda stem=stem, code_id=code_id: store.frame(f"{stem}.dll", ident=code_id).get("function") == "by code", f"{stem} in v5")
    assert "function" not in store.frame("coded.dll", ident="5CF2591C6859002")


PLAIN = "6216C672A8D33EC9CF4A1BAB8B29D00E"
DASHED = "6216C672-A8D3-3EC9-CF4A-1BAB8B29D00E"
# the id by which a file lies in its bucket, and ids by which people ask for it
SPELLINGS = {
    PLAIN + "0": (PLAIN, PLAIN.lower(), PLAIN.lower() + "0", DASHED, DASHED.lower(), "{" + DASHED + "}", "{" + DASHED + "}0", DASHED + "-0"),
    PLAIN: (PLAIN.lower(), PLAIN + "0", PLAIN.lower() + "0", DASHED, "{" + DASHED + "}0"),
    PLAIN.lower() + "0": (PLAIN + "0", PLAIN, PLAIN.lower(), DASHED, "{" + DASHED + "}", DASHED + "-0", "{" + DASHED.lower() + "}"),
    PLAIN.lower(): (PLAIN, PLAIN + "0", PLAIN.lower() + "0", DASHED, "{" + DASHED + "}0"),
    PLAIN + "2": (PLAIN.lower() + "2", "{" + DASHED + "}2", DASHED + "-2", DASHED.lower() + "2"),
    PLAIN.lower() + "a": (PLAIN + "A", DASHED + "-a", "{" + DASHED + "}A"),
}


@pytest.mark.parametrize("stored", SPELLINGS)
def test_an_id_is_found_however_it_is_stored_and_asked_for(service, stored):
    for module_id in {stored, stored[:32] + stored[32:].rstrip("0"), stored if len(stored) > 32 else stored + "0"}:
        name = f"spelled-{stored}-{len(module_id)}.so"
        service.symbols.put(name, stored, f"MODULE Linux x86_64 {module_id} {name}\nFUNC 20 10 0 f\n".encode())
        for asked in (stored, *SPELLINGS[stored]):
            assert service.client.frames([name, asked], [0x20])[0].get("function") == "f", (module_id, asked)


@pytest.mark.parametrize("asked, requests", [(PLAIN + "0", 4), (PLAIN, 4), (PLAIN.lower() + "0", 4), (PLAIN + "2", 2), (PLAIN + PLAIN[:8], 2), ("1" * 33, 1)])
def test_a_module_that_a_source_lacks_costs_it_few_requests(service, asked, requests):
    """One for each spelling, of which ids with an age of 0 or none have four."""
    name = f"lacked-{asked}.so"
    assert "function" not in service.client.frames([name, asked], [0x20])[0]
    told = {path: count for path, count in service.bucket.paths().items() if name in path}
    assert len(told) == sum(told.values()) == requests, told


def test_an_upload_is_seen_by_all_who_ask_for_it_with_and_without_its_age(store):
    name = "aged.so"
    for asked in PLAIN, PLAIN + "0":
        assert "function" not in store.stack.client.frames([name, asked], [0x1000])[0]
    for function, age in ("first", "0"), ("second", ""), ("third", "0"):
        ident = PLAIN + age
        body = text_of(name, f"FUNC 1000 100 0 {function}\n", ident)
        path = f"/api/sym/{name}/{ident}/{name}.sym"
        assert store.stack.client.request("PUT", path, body, {"Authorization": store.stack.key}).status == 200, ident
        assert store.stack.client.frames([name, ident], [0x1000])[0]["function"] == function
    assert store.stack.client.frames([name, PLAIN], [0x1000])[0]["function"] == "second"


# ---- Eliot's requests ----

TESTPROJ = ["testproj", "D48F191186D67E69DF025AD71FB91E1F0"]
TESTPROJ_SYM = b"""MODULE Linux x86_64 D48F191186D67E69DF025AD71FB91E1F0 testproj
FILE 0 /home/user/testproj/src/main.rs
FUNC 5380 44 0 testproj::main
5380 9 1 0
5389 36 2 0
53bf 5 3 0
"""

GOOD_MODULES = [
    ["<unknown>", "000000000000000000000000000000000"],
    ["TestTuple", "E60AA9C29CE869B87051DD17CFBE249F0"],
    ["IAccessible2proxy.dll.pdb", "F4753D4B2BE8489A897B6AF76E301E541"],
    ["qipcap.dll", "5F8599C48000"],
    ["libstdc++.so.6", "BF1B638ACD2AAFFD554335BB9E8A04DD0"],
    ["libgmodule-2.0.so.0.6600.1", "DF2A026FA3F7C2D1A9D2697E495645E20"],
    ["{e824f0e4-72f7-4295-8879-d8ff4bf348d2}.xpi", "000000000000000000000000000000000"],
    ["Font Awesome 5 Free-Solid-900.otf", "000000000000000000000000000000000"],
]
# Body and status.
REQUESTS = [
    (b"", 400), (b"data=wrongtype", 400), ({}, 400), ({"modules": [["xul.so", "ABCDE"]]}, 400),
    ({"jobs": [{"stacks": [[[0, 1000]]], "memoryMap": [["xul.so", "ABCDE"]]}, {"modules": [["xul.so", "ABCDE"]]}]}, 400),
    ({"memoryMap": 123, "stacks": [[]]}, 400), ({"memoryMap": ["abc"], "stacks": [[]]}, 400), ({"memoryMap": [["abc"]], "stacks": [[]]}, 400),
    ({"memoryMap": [["abc", "abc"], ["abc"]], "stacks": [[]]}, 400),
    ({"memoryMap": [], "stacks": [[]]}, 200), ({"memoryMap": [["abc.so", "ABC"]], "stacks": [[], [[0, 1000], [0, 1050]], [[0, 2000]]]}, 200),
    ({"memoryMap": [["abc.so", "ABC"]], "stacks": [[[-1, 1000], [0, -1]]]}, 200),
    ({"memoryMap": [], "stacks": "abc"}, 400), ({"memoryMap": [], "stacks": ["abc"]}, 400), ({"memoryMap": [["abc.so", "ABC"]], "stacks": [[0]]}, 400),
    ({"memoryMap": [["abc.so", "ABC"]], "stacks": [[["abc", 0]]]}, 400),
    ({"memoryMap": [["abc.so", "ABC"]], "stacks": [[[100, 0]]]}, 400),
]  # fmt: skip
# Refused there, answered here; or the other way round.
OTHER_REQUESTS = [
    *[({"memoryMap": [bad], "stacks": [[]]}, 200, "| a name or id that no file can have |") for bad in (["(", "ABC"], ["[abc.so", "ABC"], ["abc.so", "xyz"], ["abc.so", "  abc"])],
    ({"memoryMap": [], "stacks": []}, 200, "| an empty list of stacks |"),
    ({"memoryMap": [["abc.so", "ABC"]], "stacks": [[[-2, 0]]]}, 200, "| a negative `module_index` other than -1 |"),
    *[({"memoryMap": [["abc.so", "ABC"]], "stacks": [[[0, bad]]]}, 200, "| a `module_offset` that is none, such as") for bad in ("abc", -2)],
]  # fmt: skip


def ask(service, body, version=5):
    return service.client.request("POST", f"/symbolicate/v{version}", body if isinstance(body, bytes) else json.dumps(body).encode())


def test_eliots_good_modules(service):
    modules = [*GOOD_MODULES, ["", ""]]
    reply = ask(service, job(modules, [[i, 0x1000] for i in range(len(modules))]))
    assert reply.status == 200, reply
    assert reply.json()["results"][0]["found_modules"] == {"/".join(m): False if m[0] else None for m in modules}


@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_eliots_requests(service, number):
    body, status = REQUESTS[number]
    reply = ask(service, body)
    assert reply.status == status and reply.headers["Content-Type"].startswith("application/json"), (body, reply)


@pytest.mark.parametrize("number", range(len(OTHER_REQUESTS)))
def test_requests_that_eliot_answers_otherwise(service, number):
    body, status, words = OTHER_REQUESTS[number]
    assert ask(service, body).status == status, body
    with open(os.path.join(ROOT, "docs/api.md"), encoding="utf-8") as file:
        assert words in file.read(), words


@pytest.mark.parametrize("version", [4, 5])
def test_eliot_takes_nothing_but_post(service, version):
    reply = service.client.get(f"/symbolicate/v{version}")
    assert reply.status == 405 and reply.headers["Content-Type"].startswith("application/json")


def test_eliots_answers(service):
    service.symbols.put(*TESTPROJ, TESTPROJ_SYM)
    assert ask(service, job([TESTPROJ], [[0, 0x5380]])).json()["results"] == [{
        "found_modules": {"/".join(TESTPROJ): True},
        "stacks": [[{"frame": 0, "module": "testproj", "module_offset": "0x5380", "function": "testproj::main", "function_offset": "0x0",
                     "function_size": "0x44", "file": "/home/user/testproj/src/main.rs", "line": 1}]],
    }]  # fmt: skip
    assert ask(service, job([TESTPROJ], [[0, 0x5380]]) | {"version": 4}, 4).json() == {"knownModules": [True], "symbolicatedStacks": [["testproj::main (in testproj)"]]}
    missing = ["testproj", "D48F191186D67E69DF025AD71FB91E1F9"]
    asked = job([missing, ["libc.so", "12345"]], [[0, 1000], [0, 1020]])
    assert ask(service, asked).json()["results"] == [{
        "found_modules": {"/".join(missing): False, "libc.so/12345": None},
        "stacks": [[{"frame": 0, "module": "testproj", "module_offset": "0x3e8"}, {"frame": 1, "module": "testproj", "module_offset": "0x3fc"}]],
    }]  # fmt: skip
    assert ask(service, asked | {"version": 4}, 4).json() == {"knownModules": [False, None], "symbolicatedStacks": [["0x3e8 (in testproj)", "0x3fc (in testproj)"]]}


def test_eliots_name_of_a_windows_file(service):
    """The frame has the name of the code file."""
    module = ["xul.pdb", "0185139C8F04FFC94C4C44205044422E1"]
    service.symbols.put(*module, b"MODULE windows x86_64 0185139C8F04FFC94C4C44205044422E1 xul.pdb\nINFO CODE_ID 60533C886EFD000 xul.dll\n"
                        b"FILE 0 hg:hg.mozilla.org/releases/mozilla-release:media/libjpeg/simd//etc\nFUNC 5380 44 0 somefunc\n5380 9 1 0\n")  # fmt: skip
    frame = service.client.frames(module, [0x5380])[0]
    assert (frame["module"], frame["file"], frame["line"]) == ("xul.dll", "hg:hg.mozilla.org/releases/mozilla-release:media/libjpeg/simd//etc", 1)


# ---- Tecken ----


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    place = tmp_path_factory.mktemp("store")
    os.chmod(place.parent, 0o755)
    os.chmod(place, 0o777)
    with Stack(keys=True, config={**QUICK, "sym_store": f"file://{place}"}) as s:
        yield Store(s, place)


def test_teckens_downloads(store):
    name = "xul.pdb"
    assert store.put(name, text_of(name)).status == 200
    get = store.stack.client.get
    assert get(path_of(name)).body == text_of(name)
    head = store.stack.client.request("HEAD", path_of(name))
    assert head.status == 200 and head.raw == b"" and head.headers["Access-Control-Allow-Origin"] == "*"
    for missing in (path_of("xil.pdb"), path_of(name).replace("xul.sym", "xul.xxx"), f"/{'gobblygook'}{path_of(name)}"):
        assert get(missing).status == 404, missing
        assert store.stack.client.request("HEAD", missing).status == 404, missing
    assert store.stack.client.request("PUT", path_of(name), b"x").status == 405
    # code file and code id lead to the module's own path
    by_code = text_of(name).replace(b"\n", b"\nINFO CODE_ID 5CF2591C6859000 xul.dll\n", 1)
    assert store.put(name, by_code).status == 200
    reply = get("/xul.dll/5CF2591C6859000/xul.sym")
    assert reply.status == 302 and reply.headers["Location"].endswith(path_of(name)), reply


UPLOADS = [
    ("a ZIP with ignorable files", {"xul.pdb/{id}/xul.sym": True, "xul.pdb/{id}/xul.pd_": False, "build-symbols.txt": False}, 201),
    ("a folder in a folder", {"a/xul.pdb/{id}/xul.sym": True}, 400),
    ("no ZIP", None, 400),
]


@pytest.mark.parametrize("number", range(len(UPLOADS)), ids=[row[0] for row in UPLOADS])
def test_teckens_uploads(store, number):
    _, members, status = UPLOADS[number]
    name = "xul.pdb"
    files = {path.format(id=debug_id(name)): text_of(name) if good else b"other" for path, good in (members or {}).items()}
    body, content_type = form([('name="file.zip"; filename="file.zip"', zip_of(files) if members else b"this is no ZIP")])
    headers = {"Auth-Token": token(store), "Content-Type": content_type}
    reply = store.stack.client.request("POST", "/upload/", body, headers)
    assert reply.status == status, reply
    if status == 201:
        assert reply.json()["upload"]["ignored_keys"] == [path for path, good in files.items() if good == b"other"]
    # nobody without a token, and none with a wrong one
    for bad in (None, "onlyhex1234", quote("é")):
        headers = {"Content-Type": content_type, **({"Auth-Token": bad} if bad else {})}
        assert store.stack.client.request("POST", "/upload/", body, headers).status == 403, bad
