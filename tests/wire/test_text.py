# SPDX-License-Identifier: Apache-2.0
"""POST /symbolicate/text: any text in, the same text with names out, or its frames as JSON."""

import gzip
import json
import os
import random
import threading
import time

import pytest

from client import Client
from stack import Stack
from symbols import SAMPLE, debug_id, module_line, tiny

APP = ["app", debug_id("app")]
BUILD_ID = "93ac61ec5a8eb1396f9fbd350e3169a558528a40"
LIBC = ["libc.so.6", "EC61AC938E5A39B16F9FBD350E3169A50"]
CORRUPT = ["bad.so", debug_id("bad")]

TEXT = (
    f"MODULE Linux x86_64 {APP[1]} app\r\n"
    "==1==ERROR: AddressSanitizer: SEGV\n"
    "    #0 0x55d902ef6f36  (/opt/app+0x1014)\n"
    f"    #1 0x7f85bd54d249  (/lib/libc.so.6+0x27249) (BuildId: {BUILD_ID})\n"
    "    #2 0x7f85bd54d249  (/lib/gone.so+0x12) (BuildId: 00112233445566778899aabbccddeeff00112233)\n"
    "    #3 0x7f85bd54d249  (/lib/untold.so+0x12)\n"
    "    #4 0x7f85bd54d249  (<unknown module>)\n"
    "at app+0x99999999 and \xff\0 no end"
)

ANSWER = TEXT.replace(
    "36  (/opt",
    "36 in inner(int) a/../b.c:40, inlined by outer<char>(char const*) hg:hg.mozilla.org/mozilla-central:dom/A.cpp:55c63a6c547f:30, "
    "inlined by main src/main.c:20 (/opt",
).replace("  (/lib/libc", " in start libc.c:7 (/lib/libc")


@pytest.fixture(scope="module")
def one():
    with Stack(config={"max_frames": 1000, "max_modules": 100, "max_body": "2M", "max_body_inflated": "4M", "max_reply": "6M", "bucket_max_size": "2M"}) as s:
        assert s.symbols.add(APP[0], SAMPLE, APP[1]) == APP
        s.symbols.add(LIBC[0], "FILE 0 libc.c\nFUNC 27000 1000 0 start\n27000 1000 7 0\n", LIBC[1])
        s.symbols.put(*CORRUPT, b"no symbol file\n")
        yield s


def post(stack, body, headers=None, path="/symbolicate/text"):
    body = body.encode("latin-1") if isinstance(body, str) else body
    return Client(stack.node.nginx.port).request("POST", path, body, headers)


def text_of(reply):
    assert reply.status == 200, reply
    assert reply.headers["Content-Type"] == "text/plain"
    assert reply.headers["Access-Control-Allow-Origin"] == "*" and reply.headers["X-Request-Id"]
    return reply.body.decode("latin-1")


def frames_of(reply):
    return reply.json()["frames"]


def test_headers_say_how_many_frames_were_found_and_named(one):
    assert post(one, TEXT).headers["X-Frames"] == "6 named=3"  # of the text, which repeats one
    frames = frames_of(post(one, TEXT, JSON))
    assert post(one, TEXT, JSON).headers["X-Frames"] == f"{len(frames)} named={sum('function' in f for f in frames)}"
    assert post(one, "nothing\n").headers["X-Frames"] == "0 named=0"


def test_a_text_in_utf_16_is_named(one):
    for encoding in ("utf-16-le", "utf-16-be"):
        reply = post(one, ("\ufeff" + TEXT).encode(encoding))
        assert reply.status == 400 and "UTF-16" in reply.json()["error"]


def test_the_whole_build_id_stands_beside_the_id(one):
    frames = frames_of(post(one, TEXT, JSON))
    assert (frames[1]["id"], frames[1]["build_id"]) == (LIBC[1], BUILD_ID) and "build_id" not in frames[0]


def test_errors_have_their_place_for_programs(one):
    def place(body):
        reply = post(one, body, path="/symbolicate/v5")
        assert reply.status == 400, reply
        return reply.json().get("place")

    good = {"memoryMap": [APP], "stacks": [[[0, 0x10]]]}
    assert place(json.dumps({"jobs": [good, {"memoryMap": [APP], "stacks": [[[0, 1], [7, 2]]]}]})) == {"job": 1, "stack": 0, "frame": 1}
    assert place(json.dumps({"memoryMap": [APP], "stacks": [[[0, 1]], [[7, 2]]]})) == {"job": 0, "stack": 1, "frame": 0}
    assert place(json.dumps({"memoryMap": [APP, ["a"]], "stacks": []})) == {"job": 0, "module": 1}
    assert place('{"memoryMap": [], ]') == {"byte": 18}
    assert place("[]") is None


JSON = {"Accept": "application/json"}


def test_names_are_put_in_and_all_else_is_as_it_was(one):
    assert text_of(post(one, TEXT)) == ANSWER.replace("at app+0x99999999 and", "at app+0x99999999 (last) and")
    assert text_of(post(one, gzip.compress(TEXT.encode("latin-1")), {"Content-Encoding": "gzip"})) == text_of(post(one, TEXT))
    reply = post(one, TEXT * 100, {"Accept-Encoding": "gzip", "Accept": "text/plain, */*"})
    assert reply.headers["Content-Encoding"] == "gzip" and text_of(reply).count("in inner(int)") == 100


def test_frames_as_json_with_reasons(one):
    frames = frames_of(post(one, TEXT + f"\nMODULE Linux x86_64 {CORRUPT[1]} bad.so\nbad.so+0x1 app+0x10\n", JSON))
    assert frames[0] == {
        "text_line": 3,
        "stack": 0,
        "frame": 0,
        "module": "app",
        "id": APP[1],
        "path": "/opt/app",
        "offset": "0x1014",
        "module_offset": "0x1014",
        "function": "main",
        "function_offset": "0x14",
        "function_size": "0x30",
        "file": "src/main.c",
        "line": 20,
        "inlines": [
            {"function": "inner(int)", "file": "a/../b.c", "line": 40},
            {"function": "outer<char>(char const*)", "file": "hg:hg.mozilla.org/mozilla-central:dom/A.cpp:55c63a6c547f", "line": 30},
        ],
    }
    assert frames[1]["function"] == "start" and frames[1]["id"] == LIBC[1] and frames[1]["text_line"] == 4
    assert [(f["text_line"], f.get("module"), f.get("reason")) for f in frames[2:]] == [
        (5, "gone.so", "not found"),
        (6, "untold.so", "no id"),
        (7, None, "no module"),
        (8, "app", None),
        (10, "bad.so", "corrupt"),
        (10, "app", "below first symbol"),
    ]
    assert frames[6]["detail"] == "no MODULE line at the start", frames[6]
    assert frames[4] == {"text_line": 7, "stack": 0, "frame": 4, "offset": "0x7f85bd54d249", "reason": "no module", "module_offset": "0x7f85bd54d249"}


def test_edits_applied_to_the_text_give_the_reply_as_text(one):
    def applied(body, frames):
        out, end = b"", 0
        for at, cut, names in (edit for frame in frames for edit in frame.get("edits", [])):
            if at >= end:
                out += body[end:at] + names.encode()
                end = at + cut
        return out + body[end:]

    quoted = 'FUNC 1000 10 0 a "quoted\\name|\x7f\n1000 10 3 0\n'
    hostile = one.symbols.add("hostile.so", "FILE 0 c:\\a.c\n" + quoted)
    frame = f'{{"module": "{APP[0]}", "module_offset": "0x1014", "function": null, "file": null, "line": null, "inlines": null}}'
    texts = [
        TEXT, f"MODULE Linux x86_64 {hostile[1]} hostile.so\n0|0|hostile.so||||0x1000\nhostile.so(+0x1001) [0x7f]\n\xc3\xa4 hostile.so+0x1000\n",
        f'{{"modules": [{{"debug_file": "{APP[0]}", "debug_id": "{APP[1]}", "filename": "{APP[0]}"}}],\n"frames": [{frame}]}}\n', "",
    ]  # fmt: skip
    for text in texts:
        body = text.encode("latin-1")
        frames = frames_of(post(one, body, {**JSON, "Edits": "true"}))
        assert applied(body, frames) == post(one, body).body, text
        assert [{k: v for k, v in f.items() if k != "edits"} for f in frames] == frames_of(post(one, body, JSON))
        assert not text or any("edits" in f for f in frames)


def test_what_is_hidden_in_a_name_is_shown(one):
    """Marks of direction would show a name, and what follows it, in another order; \u00ad and other letters stay."""
    name = "evil\u202etxt\u2066.\u200b\ufeff\u061c\u2029\u0085\x7fäß€\u00ad"
    module = one.symbols.add("hidden.so", f"FILE 0 \u202ec.c\nFUNC 1000 10 0 {name}\n1000 10 3 0\n")
    out = post(one, f"MODULE Linux x86_64 {module[1]} hidden.so\nhidden.so(+0x1001) [0x7f]\n".encode()).body.decode()
    assert r"evil\u202etxt\u2066.\u200b\ufeff\u061c\u2029\u0085\u007fäß€" + "\u00ad" in out, out
    assert r"\u202ec.c:3" in out, out


@pytest.mark.parametrize("wrap", ["{}", "Nov 26 18:56:33 host app[12]: {}", "2026-11-26T18:56:33.1234567Z stdout F {}", "web-1  | {}", "[pod/web-1/app] {}", "[    5.123456] {}", "[    5.123] (EE) {}",
    ">> > {}", "\x1b[1;31m{}", "> [web] \x1b[0m{}", '{{"n": [1, null], "user": "J\u00fcrgen", "log": {},\t"stream": "stderr"}}', ' {{"a": {{"MESSAGE": {}}}}}', '> {{"msg":{}}}'])  # fmt: skip
def test_stacks_of_a_text_and_their_titles(one, wrap):
    """Without what a log puts around a line; frames with names and without have their numbers."""
    quoted = "{" in wrap.replace("{}", "")
    title = 'it "died" {here}'
    lines = [title, "#0  0x55 in known (a=1) at /src/a b.c:7", "#1  0x56 app+0x1014", "#2  0x57 in known () from /lib/libx.so", "", "another", "#0  0x56 app+0x1014"]
    body = f"MODULE Linux x86_64 {APP[1]} app\n" + "\n".join(wrap.format(json.dumps(line) if quoted else line) for line in lines)
    reply = post(one, body, JSON).json()
    assert reply["stacks"] == [{"title": title}, {"title": "another"}]
    place = [(f["text_line"], f["stack"], f["frame"], f["function"], f.get("named")) for f in reply["frames"]]
    assert place == [(3, 0, 0, "known (a=1)", True), (4, 0, 1, "main", None), (5, 0, 2, "known ()", True), (8, 1, 0, "main", None)]
    first, _, third, _ = reply["frames"]
    assert (first["file"], first["line"], third["module"]) == ("/src/a b.c", 7, "/lib/libx.so")


# Frames that are named already, by format, as their programs write them: (frame, function, file, line, module) of each.
NAMED = {
    "ClickHouse": (
        "2023.08.08 05:58:02.28 [ 340 ] {} <Fatal> BaseDaemon: 3. ./src/Common/Exception.cpp:102: DB::Exception::Exception(int) @ 0x000000000e5a in /usr/bin/clickhouse\n4.1. inlined from ./src/a.cpp:12: DB::f()\n2023.08.08 05:58:02.28 [ 340 ] {} <Fatal> BaseDaemon: 4. ? @ 0x000000000ea0 in /usr/bin/clickhouse\n5. main @ 0x000000000ea1 in /usr/bin/clickhouse\n6. ? @ 0x00007f9c in ?\n",
        [(3, "DB::Exception::Exception(int)", "./src/Common/Exception.cpp", 102, "/usr/bin/clickhouse"), (4, None, None, None, "clickhouse"), (5, "main", None, None, "/usr/bin/clickhouse"), (6, None, None, None, None)],
    ),
    "Unreal Engine": (
        "0x00007f04622e0d90 libc.so.6!UnknownFunction(0x29d8f)\n0x00000000072d6d08 Game!FDebug::Check(char const*) [/build/A b.cpp:123]\n",
        [(0, None, None, None, "libc.so.6"), (1, "FDebug::Check(char const*)", "/build/A b.cpp", 123, "Game")],
    ),
    "Unity": ("0x00007FF8A5C04F69 (ntdll) KiUserExceptionDispatcher\n0x00007FF8A5C04F70 (ntdll) f\n", [(0, "KiUserExceptionDispatcher", None, None, "ntdll"), (1, "f", None, None, "ntdll")]),
    "Swift": (
        "0      0x0000000000001139 f(_:) + 9 in app at /src/a.swift:3:9\n1 [ra] 0x0000000000001150 <unknown> in app\n2 [ra] [system] 0x00007f8b7d45a050 crash + 14 in libcrash.so\n",
        [(0, "f(_:)", "/src/a.swift", 3, "app"), (1, None, None, None, None), (2, "crash", None, None, "libcrash.so")],
    ),
    "Wine": (
        "=>0 0x00000321661370 in crash (+0x1370) (0x0000000021fcb0)\n  1 0x0000007b627e49 BaseThreadInitThunk+0x9(entry=<internal error>) [Z:\\src\\thread.c:61] in kernel32 (0000000000000000)\n",
        [(0, None, None, None, "crash"), (1, "BaseThreadInitThunk+0x9(entry=<internal error>)", "Z:\\src\\thread.c", 61, "kernel32")],
    ),
    "perf script": (
        "app 71 1.5: 1 cycles:\n\tffffffff8104 do_syscall_64 ([kernel.kallsyms])\n\t      55d0c f (inlined)\n\t      55d0c [unknown] (/opt/gone)\n",
        [(0, "do_syscall_64", None, None, "kernel.kallsyms"), (1, "f", None, None, None), (2, None, None, None, "gone")],
    ),
    "bpftrace": ("@[\n    spin+9\n    0x7fd028a3a171\n    main+70\n]: 3\n", [(0, "spin+9", None, None, None), (1, None, None, None, None), (2, "main+70", None, None, None)]),
    "Zig": (
        "/src/a b.zig:3:5: 0x11c62f9 in show (app)\npub fn show() void {\n    ^\n???:?:?: 0x7f88e043a10f in ??? (/opt/gone.so)\n/src/c.zig:4:31: 0x11c6114 in main (app)\n",
        [(0, "show", "/src/a b.zig", 3, "app"), (1, None, None, None, None), (2, "main", "/src/c.zig", 4, "app")],
    ),
    "D": ("??:? f [0x7f3c]\n??:? ???[0x7f3c7e7ba10f]\n/src/app.d:12 void app.main() [0x7f3c7e7ba11f]\n", [(0, "f", None, None, None), (1, None, None, None, None), (2, "void app.main()", "/src/app.d", 12, None)]),
    "PyTorch": (
        "frame #0: c10::Error::Error(int) + 0x1110 (0x7f38397ed110 in /opt/libc10.so)\nframe #1: <unknown function> + 0x1110 (0x7f38397ed110 in /opt/gone.so)\n",
        [(0, "c10::Error::Error(int)", None, None, "/opt/libc10.so"), (1, None, None, None, "gone.so")],
    ),
    "Python": (
        '  Binary file "/usr/bin/python3.14", at _Py_DumpStack+0x3e [0x53d28e]\n  Binary file "/opt/gone.so", at +0x1115 [0x7f0000001115]\n',
        [(0, "_Py_DumpStack", None, None, "/usr/bin/python3.14"), (1, None, None, None, "gone.so")],
    ),
    "backward-cpp": (
        'Stack trace (most recent call last):\n#2    Object "/lib/libc.so.6", at 0x7f50a5c45304, in __libc_start_main\n#1    Object "/opt/gone.so", at 0x7f50a6173104, in \n#0    Source "/src/a.cpp", line 12, in crash\n',
        [(2, "__libc_start_main", None, None, "/lib/libc.so.6"), (1, None, None, None, None), (0, "crash", "/src/a.cpp", 12, None)],
    ),
    "massif": (
        "->99.99% (10,000,000B) 0x1091A7: grab (in /opt/app)\n| ->99.99% (10,000,000B) 0x484B10F: ??? (in /opt/gone.so)\n|   ->99.99% (10B) 0x484B10F: main (a.c:3)\n",
        [(0, "grab", None, None, "/opt/app"), (1, None, None, None, None), (2, "main", "a.c", 3, None)],
    ),
    "minidump-stackwalk": (
        "0|0|app|f(int)|/src/a.c|12|0x3\n0|1|gone.so||||0x12\n0|2|app|main|||0x12\n",
        [(0, "f(int)", "/src/a.c", 12, "app"), (1, None, None, None, "gone.so"), (2, "main", None, None, "app")],
    ),
    "Sentry": (
        '{"frames": [{"function": "a \\"b\\"", "filename": "x.c", "lineno": 3, "instruction_addr": "0x1"}, {"instruction_addr": "0x2"}, {"function": "c"}]}\n',
        [(0, 'a "b"', "x.c", 3, None), (1, None, None, None, None), (2, "c", None, None, None)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_frames_that_a_text_names_are_in_one_stack_with_the_others(one, name):
    text, frames = NAMED[name]
    reply = post(one, text, JSON).json()
    named = [(f["frame"], f.get("function"), f.get("file"), f.get("line"), f.get("module")) for f in reply["frames"]]
    assert named == frames and all(f["stack"] == 0 and f.get("named", False) == ("function" in f) for f in reply["frames"])
    assert all(("reason" in f) != ("function" in f) for f in reply["frames"])


def test_an_image_without_an_address_has_no_made_up_one(one):
    """Apple counts images; frames in one that was nowhere keep the number that the report has."""
    text = '{"threads": [{"frames": [{"imageOffset": 17, "imageIndex": 1}, {"imageOffset": 18, "imageIndex": 1}]}], "usedImages": []}\n'
    assert [(f["offset"], f["module_offset"], f["reason"]) for f in frames_of(post(one, text, JSON))] == [("0x11", "0x11", "no module"), ("0x12", "0x11", "no module")]


def test_return_addresses(one):
    text = f"Module app with build-id {BUILD_ID}\n#0  0x1 n/a (app + 0x1010)\n#1  0x1 n/a (app + 0x1010)\n"
    one.symbols.add("app", SAMPLE, LIBC[1])
    frames = frames_of(post(one, text, JSON))
    assert [(f["offset"], f["module_offset"]) for f in frames] == [("0x1010", "0x1010"), ("0x1010", "0x100f")]
    assert [f["line"] for f in frames] == [20, 10]


def test_ids_that_stand_behind_the_frames(one):
    text = f"app+0x3000\nMODULE Linux x86_64 {APP[1]} app\n/x/app+0x3000\n"
    assert text_of(post(one, "/x/" + text)).count("(operator<<(std::ostream&, char const*) at src/main.c:7)") == 2


def test_what_is_empty_or_binary(one):
    seed = int.from_bytes(os.urandom(4), "little")
    print("seed", seed)
    noise = random.Random(seed).randbytes(1_000_000)
    for body in (b"", b"\n", b"\0" * 1000, noise, b"no frame", b"\xef\xbb\xbf\xff\xfe\x1b[0m\r"):
        reply = post(one, body)
        assert reply.status == 200 and reply.body == body
    assert frames_of(post(one, b"", JSON)) == []


def test_limits(one):
    frame = "app+0x1000\n"
    module = f"MODULE Linux x86_64 {APP[1]} app\n"
    assert text_of(post(one, module + frame * 1000)).count("(main at") == 1000
    assert "more than 1000 frames" in post(one, module + frame * 1001).error(400)["error"]
    assert "more than 100 modules" in post(one, "".join(f"/{i}/a.so+0x1\n" for i in range(200))).error(400)["error"]
    post(one, b"x" * (3 << 20)).error(413)
    post(one, gzip.compress(b"x" * (5 << 20)), {"Content-Encoding": "gzip"}).error(413)
    post(one, b"x", {"Content-Encoding": "br"}).error(400)
    line = "x" * (4 << 20)
    assert len(text_of(post(one, gzip.compress(line.encode()[: (4 << 20) - 1]), {"Content-Encoding": "gzip"}))) == (4 << 20) - 1


def test_a_reply_that_would_be_too_large(one):
    name = "n" * 100_000
    one.symbols.add("huge.so", f"FUNC 1000 20 0 {name}\n")
    text = f"MODULE Linux x86_64 {debug_id('huge.so')} huge.so\n" + "huge.so+0x1000\n" * 100
    assert "reply too large" in post(one, text).error(400)["error"]
    assert "reply too large" in post(one, text, JSON).error(400)["error"]


def test_methods(one):
    client = Client(one.node.nginx.port)
    reply = client.request("GET", "/symbolicate/text")
    reply.error(405)
    assert reply.headers["Allow"] == "POST, OPTIONS"
    reply = client.request("OPTIONS", "/symbolicate/text", headers={"Access-Control-Request-Method": "POST"})
    assert reply.status == 200 and reply.headers["Access-Control-Allow-Methods"] == "POST, OPTIONS"


def test_a_thousand_modules_that_nobody_has():
    with Stack() as s:
        text = "".join(f"#1 0x1  (/lib/m{i}.so+0x12) (BuildId: {i:040x})\n" for i in range(1000))
        started = time.monotonic()
        assert text_of(post(s, text)) == text
        assert time.monotonic() - started < 60


def test_a_bucket_that_fails_is_a_503():
    with Stack(config={"bucket_retries": 0}) as s:
        s.symbols.add(APP[0], SAMPLE, APP[1])
        s.bucket.misbehave(APP, "status:500")
        reply = post(s, TEXT)
        assert reply.error(503)["error"].endswith(f"the symbols of {APP[0]}/{APP[1]} cannot be fetched right now; try again")
        assert reply.headers["Retry-After"]


def test_many_at_once(one):
    """Each gets the answer to its own text."""
    bad = []

    def ask(i):
        text = f"{i}\n" * 1000 + TEXT
        for _ in range(5):
            reply = post(one, text)
            if reply.status != 200 or reply.body.decode("latin-1") != f"{i}\n" * 1000 + text_of(post(one, TEXT)):
                bad.append(i)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not bad


def test_names_are_one_part_of_a_line(one):
    module = one.symbols.add("evil.so", b"FUNC 1000 20 0 <script>\x1b[31m\xc2\x9b\x07\n")
    body = post(one, f"MODULE Linux x86_64 {module[1]} evil.so\nevil.so+0x1000\n").body
    assert body.endswith(b"evil.so+0x1000 (<script>\\u001b[31m\\u009b\\u0007)\n")


def test_a_module_is_loaded_once():
    with Stack() as s:
        module = s.symbols.add("cold.so", tiny("cold_function"))
        text = f"MODULE Linux x86_64 {module[1]} cold.so\ncold.so+0x1000\n"
        for _ in range(3):
            assert text_of(post(s, text)) == text[:-1] + " (cold_function at tiny.c:3)\n"
        assert s.bucket.hits(module) == 1


def test_debug_says_why_frames_have_no_name(one):
    """The same reasons for v5 and v4, and found_modules as it is. In v5 each frame has its own; without Debug nothing is added."""
    module = [CORRUPT, APP, ["gone.so", debug_id("gone")], ["", "12"], ["huge.so", debug_id("huge")]]
    module.append(one.symbols.add("two.so", "FUNC 1000 10 0 f\nFUNC 2000 10 0 g\n"))
    one.symbols.put(*module[4], module_line(*module[4]) + b"FUNC 0 1 0 f\n" + b"# \n" * 1_000_000)
    stack = [[0, 1], [1, 0x10], [1, 0x1014], [1, 1.5], [1, -1], [2, 1], [-1, 4], [5, 0x1010], [5, 0x2010], [5, 0x7F0000001014], [3, 1], [4, 1]]
    words = ["corrupt", "below first symbol", None, "no integer", "no offset", "not found", "no module", "between symbols"]
    words += ["above last symbol", "wrong offset", "no id", "too large"]
    for version in ("v5", "v4"):
        for _ in range(2):  # then it is remembered
            asked = {"memoryMap": module, "stacks": [stack]}
            reply = Client(one.node.nginx.port).post(f"/symbolicate/{version}", asked, Debug="true").json()
            unnamed = reply["debug"]["unnamed"]
            assert unnamed["frames"] == {word: 1 for word in words if word}
            assert unnamed["modules"] == {
                "/".join(CORRUPT): "corrupt: no MODULE line at the start",
                "/".join(module[2]): "not found",
                "/".join(module[4]): "too large: larger than bucket_max_size",
            }
            reasons = reply["debug"]["reasons"]
            assert set(reasons) == set(unnamed["frames"]) and all(set(r) == {"means", "help"} and all(r.values()) for r in reasons.values())
        if version == "v4":
            continue
        frames = reply["results"][0]["stacks"][0]
        assert [f.get("reason") for f in frames] == words
        assert [f.get("detail") for f in frames] == ["no MODULE line at the start", *[None] * 10, "larger than bucket_max_size"]
        plain = Client(one.node.nginx.port).post("/symbolicate/v5", asked).json()
        for f in frames:
            f.pop("reason", None), f.pop("detail", None)
        assert plain["results"][0]["stacks"][0] == frames and "debug" not in plain


def test_the_words_of_a_text_are_explained(one):
    reply = post(one, TEXT, JSON).json()
    assert set(reply["reasons"]) == {f["reason"] for f in reply["frames"] if "reason" in f} > set()
    assert post(one, "/x/app+0x1014", JSON).json()["reasons"].keys() == {"no id"}
    assert post(one, f"MODULE Linux x86_64 {APP[1]} app\napp+0x1014", JSON).json()["reasons"] == {}


def test_modules_in_the_query(one):
    """?module=NAME=ID, repeated: as lines MODULE, and before them."""
    ids = f"?module=app={APP[1]}&module=libc.so.6={BUILD_ID}&other=1"
    text = "/x/app+0x1014 libc.so.6+0x27249\n"
    wanted = "/x/app+0x1014 (inner(int) at a/../b.c:40, inlined by outer<char>(char const*) at hg:"
    out = text_of(post(one, text, path=f"/symbolicate/text{ids}"))
    assert out.startswith(wanted) and out.endswith("libc.so.6+0x27249 (start at libc.c:7)\n")
    assert text_of(post(one, f"MODULE Linux x86_64 {debug_id('nobody')} app\n" + text, path=f"/symbolicate/text{ids}")).split("\n", 1)[1] == out
    assert text_of(post(one, "a b.so+0x1 app+0x1014\n", path=f"/symbolicate/text?module=%61pp%3D{APP[1]}")).count("(inner") == 1
    for bad in ("app", "=1", "app=", "%zz=1", "a%00=1"):
        assert "module" in post(one, text, path=f"/symbolicate/text?module={bad}").error(400)["error"]
    many = "&".join(f"module=m{i}=1" for i in range(150))
    assert "more than 100 modules" in post(one, text, path=f"/symbolicate/text?{many}").error(400)["error"]


def test_a_text_without_a_frame_says_what_is_missing(one):
    def guess(text):
        reply = post(one, text, JSON).json()
        assert reply["frames"] == [] and "formats" not in reply["guess"]
        return reply["guess"].get("text_line"), reply["guess"].get("line"), reply["guess"].get("missing")

    assert guess("") == guess("no frame\nat all + 0x12\n") == guess("only main+0x12\n") == (None, None, None)
    line, text, missing = guess("Nov 24 started #1\ncrashed in main+0x12 at 0x55d902ef6f36\nbye\n")
    assert (line, text) == (2, "crashed in main+0x12 at 0x55d902ef6f36") and "NAME=ID" in missing
    assert guess("a\nmain+0x12\n")[:2] == (2, "main+0x12")
    assert "memory map" in guess("trace: 0x00005555555551 ??\n")[2]
    named = "#1  0x00005555555551 in main () at a.c:3\n"
    assert "already" in guess(named)[2] and "memory map" in guess(named + "trace: 0x00005555555551 ??\n")[2]
    told = [post(one, text, JSON).json()["guess"] for text in (2 * named, named + "trace: 0x00005555555551 ??\n", "trace: 0x00005555555551 ??\n")]
    assert [(one["named"], one.get("is_named")) for one in told] == [(2, True), (1, None), (0, None)]
    assert "no address" in guess("#1 ?? in a.so\n")[2] and guess('5: (EVAL "a.so" in b)\n') == (None, None, None)
    line, text, missing = guess('"\xff\0' + "x" * 300 + "\n#0 \xff\x01 0x00005555555551 " + "\xc3\xa9" * 300)
    assert line == 2 and len(text.encode()) <= 3 * 200
    assert "guess" not in post(one, TEXT, JSON).json()


def test_colours_in_a_title(one):
    """Nothing else in the text has escapes."""
    text = "\x1b[31mboom\x1b[0m: in \x1b[1mmain\x1b[0m\n#0 0x1 \x1b[1mf\x1b[0m(int) (app+0x1014)\n#1 0x55d902ef6f36 in g\x1b[1m()\x1b[0m /src/g.c:7\n"
    reply = post(one, text, JSON).json()
    assert [stack["title"] for stack in reply["stacks"]] == ["boom: in main"]
    assert reply["frames"][1]["function"] == "g()"


def test_a_heap_profile_behind_a_prefix(one):
    """Only the second line tells what the prefix is."""
    text = "heap of x: @ 0x401136 0x401157\nheap of x: @ 0x401137 0x401158\n"
    reply = post(one, text, JSON).json()
    assert [stack["title"] for stack in reply["stacks"]] == ["heap of x: @ 0x401137 0x401158", ""]
    assert len(reply["frames"]) == 4
