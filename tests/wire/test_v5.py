# SPDX-License-Identifier: Apache-2.0
"""/symbolicate/v5: every rule of the contract that one request can show."""

import gzip
import json
import re
from urllib.parse import quote

import pytest

from client import Client, job
from stack import Stack
from symbols import SAMPLE, SAMPLE_FRAMES, debug_id, module_line, sym_name, tiny

APP = ["app", debug_id("app")]
PE = ["xul.pdb", debug_id("xul.pdb")]
GONE = ["gone.pdb", debug_id("gone.pdb")]

ODD_NAMES = [
    "[vdso]",
    "{ec8030f7-c20a-464f-9b0e-13a3a9e97384}.xpi",
    "a b+~<>",
    "é.so",
    "日本.pdb",
    "100%41.so",
    "a?b#c&d=e;f,g",
    'quo"te.so',
    "UPPER.PDB",
    "lib.so.1.pdb.pdb",
    ".hidden",
    "...",
]

UNHOLDABLE = [
    ["a/b.so", debug_id("x")],
    ["/etc/passwd", debug_id("x")],
    ["..", debug_id("x")],
    [".", debug_id("x")],
    ["a\\b.pdb", debug_id("x")],
    ["new\nline", debug_id("x")],
    ["nul\0", debug_id("x")],
    ["del\x7f", debug_id("x")],
    ["x" * 1025, debug_id("x")],
    ["app", "no hex"],
    ["app", "../" + debug_id("app")],
    ["app", debug_id("app") + "G"],
    ["app", "0x" + debug_id("app")],
    ["app", " " + debug_id("app")],
    ["app", "A" * 1025],
    ["lone\ud800", debug_id("x")],
]


@pytest.fixture(scope="module")
def stack():
    with Stack() as s:
        s.symbols.add(*APP[:1], SAMPLE, APP[1])
        s.symbols.add(PE[0], "INFO CODE_ID 5CF2591C6859000 xul.dll\n" + tiny("XRE_main"), PE[1], "windows")
        for i, name in enumerate(ODD_NAMES):
            s.symbols.add(name, tiny(f"odd{i}"))
        yield s


@pytest.fixture
def client(stack):
    return stack.client


def frame(index, module, offset, **more):
    return {"frame": index, "module": module, "module_offset": hex(offset), **more}


@pytest.mark.parametrize("offset", SAMPLE_FRAMES, ids=hex)
def test_frame(client, offset):
    assert client.frames(APP, [offset]) == [frame(0, "app", offset, **SAMPLE_FRAMES[offset])]


def dashed(ident):
    return "-".join((ident[:8], ident[8:12], ident[12:16], ident[16:20], ident[20:32]))


@pytest.mark.parametrize("form", ["{{{G}}}", "{G}-", "{G}", "{{{g}}}-", "{g}-", "{g}", "{id}"])
def test_ids_as_people_paste_them(client, form):
    """A GUID with dashes or braces, in any case, with its age or without, as debuggers and symbol servers write them."""
    guid, age, offset = dashed(APP[1]), APP[1][32:], next(iter(SAMPLE_FRAMES))
    pasted = form.format(G=guid, g=guid.lower(), id=APP[1][:32].lower()) + age
    [result] = client.v5(job([["app", pasted]], [[0, offset]]))["results"]
    assert result["stacks"] == [[frame(0, "app", offset, **SAMPLE_FRAMES[offset])]]
    assert result["found_modules"] == {f"app/{pasted}": True}


@pytest.mark.parametrize("form", [dashed, lambda ident: dashed(ident).lower(), lambda ident: "{" + dashed(ident) + "}"])
def test_a_pasted_uuid_without_age_has_age_0(stack, client, form):
    ident = debug_id("uuid")[:32] + "0"
    stack.symbols.add("Mac App", tiny("f"), ident)
    assert client.frames(["Mac App", form(ident)], [0x1000])[0].get("function") == "f"


@pytest.mark.parametrize("ident", ["{}", "{0}", "-", "{" + dashed("0" * 32), dashed("0" * 32) + "}", dashed("0" * 32) + "-", dashed("0" * 32) + "g"])
def test_what_only_looks_like_a_guid_is_no_id(client, ident):
    assert "function" not in client.frames(["app", ident], [0x1000])[0]


def test_all_frames_at_once_in_any_order(client):
    offsets = list(SAMPLE_FRAMES)
    offsets = offsets[::-1] + offsets + offsets[::2]
    want = [frame(i, "app", o, **SAMPLE_FRAMES[o]) for i, o in enumerate(offsets)]
    assert client.frames(APP, offsets) == want


@pytest.mark.parametrize("shape", ["jobs", "bare"])
def test_shape_of_the_reply(client, shape):
    one = job([PE, GONE, APP], [[0, 0x1001], [1, 0x10]])
    reply = client.v5({"jobs": [one]} if shape == "jobs" else one)
    assert reply == {
        "results": [
            {
                "stacks": [
                    [
                        frame(0, "xul.dll", 0x1001, function="XRE_main", function_offset="0x1", function_size="0x10",
                              file="tiny.c", line=3),
                        frame(1, "gone.pdb", 0x10),
                    ]
                ],
                "found_modules": {"/".join(PE): True, "/".join(GONE): False, "/".join(APP): None},
            }
        ]
    }  # fmt: skip


def test_jobs_are_answered_in_order(client):
    jobs = [job([APP], [[0, 0x1000]], [[0, 0x2000]]), job([GONE, APP], [[1, 0x3000]]), job([], [])]
    results = client.v5({"jobs": jobs})["results"]
    assert [[f.get("function") for s in r["stacks"] for f in s] for r in results] == [
        ["main", "public_a"],
        ["operator<<(std::ostream&, char const*)"],
        [],
    ]
    assert results[2] == {"stacks": [[]], "found_modules": {}}


@pytest.mark.parametrize("same", ["name", "id"])
def test_many_modules_of_one_name_or_one_id(stack, same):
    modules = [["same.so", debug_id(f"same {i}")] if same == "name" else [f"same{i}.so", debug_id("same")] for i in range(60)]
    for i, (name, ident) in enumerate(modules):
        stack.symbols.add(name, tiny(f"of {i}"), ident)
    frames = stack.client.v5(job(modules, [[i, 0x1000] for i in range(60)]))["results"][0]["stacks"][0]
    assert [f["function"] for f in frames] == [f"of {i}" for i in range(60)]


def test_many_jobs(client):
    offsets = list(SAMPLE_FRAMES)
    jobs = [job([PE, APP], [[1, offsets[i % len(offsets)]], [0, 0x1000 + i % 16]]) for i in range(300)]
    for i, result in enumerate(client.v5({"jobs": jobs})["results"]):
        at = offsets[i % len(offsets)]
        assert result["stacks"][0][0] == frame(0, "app", at, **SAMPLE_FRAMES[at])
        assert result["stacks"][0][1]["function_offset"] == hex(i % 16)


def test_frames_count_from_zero_in_each_stack(client):
    stacks = client.v5(job([APP], [[0, 1], [0, 2]], [[0, 3]], [], [[0, 4]] * 3))["results"][0]["stacks"]
    assert [[f["frame"] for f in s] for s in stacks] == [[0, 1], [0], [], [0, 1, 2]]


@pytest.mark.parametrize(
    "value, want",
    [
        ({"jobs": []}, {"results": []}),
        (job([]), {"results": [{"stacks": [], "found_modules": {}}]}),
        (job([], []), {"results": [{"stacks": [[]], "found_modules": {}}]}),
        (job([APP], [], []), {"results": [{"stacks": [[], []], "found_modules": {"/".join(APP): None}}]}),
        ({"jobs": [job([APP])]}, {"results": [{"stacks": [], "found_modules": {"/".join(APP): None}}]}),
    ],
    ids=["no jobs", "no stacks", "empty stack", "empty stacks", "no stacks in jobs"],
)
def test_empty_lists(client, value, want):
    assert client.v5(value) == want


@pytest.mark.parametrize("version", [4, 5, 7, "5", None, 1.5, {"a": [1]}], ids=str)
def test_version_is_ignored(client, version):
    assert client.v5({**job([APP], [[0, 0x1000]]), "version": version})["results"][0]["stacks"][0][0]["function"] == "main"


def test_unknown_keys_are_ignored(client):
    one = {**job([APP], [[0, 0x1000]]), "extra": {"deep": [[[{"a": None}]]]}, "": True, "é": 1e5}
    value = {"jobs": [one], "other": ["]", "}", '"'], "stack": 5}
    assert client.v5(value)["results"][0]["stacks"][0][0]["function"] == "main"


@pytest.mark.parametrize(
    "body",
    [
        '{"memoryMap": [], "stacks": [[[0, 8192]]], "stacks": [[[0, 4096]]], "memoryMap": [MODULE]}',
        '{"jobs": [], "jobs": [{"memoryMap": [MODULE], "stacks": [[[0, 4096]]]}]}',
        '{"jobs": [{"stacks": [[[0, 1], [0, 2]]], "memoryMap": [], "stacks": [[[0, 4096]]], "memoryMap": [MODULE]}]}',
    ],
    ids=["bare", "jobs", "in a job"],
)
def test_last_of_duplicate_keys_wins(client, body):
    result = client.v5(body.replace("MODULE", json.dumps(APP)))["results"]
    assert result[0]["stacks"] == [[frame(0, "app", 0x1000, **SAMPLE_FRAMES[0x1000])]]


def test_escaped_keys_and_names(client):
    body = '{"\\u006aobs":[{"memory\\u004dap":[["\\u0061pp","%s"]],"stac\\u006bs":[[[0,4096]]]}]}' % APP[1]
    result = client.v5(body)["results"][0]
    assert result["stacks"][0][0] == frame(0, "app", 0x1000, **SAMPLE_FRAMES[0x1000])
    assert result["found_modules"] == {"/".join(APP): True}


def test_white_space_anywhere(client):
    body = json.dumps(job([APP], [[0, 0x1000]]), indent="\t").replace("\n", "\r\n") + " \n\t\r\n"
    assert client.v5("\n " + body)["results"][0]["stacks"][0][0]["function"] == "main"


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "application/x-www-form-urlencoded", "image/png", ""])
def test_content_type_of_a_request_is_not_looked_at(client, kind):
    reply = client.v5(job([APP], [[0, 0x1000]]), Content_Type=kind)
    assert reply["results"][0]["stacks"][0][0]["function"] == "main"


# Offsets


@pytest.mark.parametrize(
    "offset", [0, 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1], ids=hex
)
def test_integers_keep_every_bit(client, offset):
    assert client.frames(APP, [offset])[0]["module_offset"] == hex(offset)
    assert client.frames(GONE, [offset]) == [frame(0, "gone.pdb", offset)]


def test_minus_one_is_not_looked_up(client):
    assert client.frames(APP, [-1]) == [{"frame": 0, "module": "app", "module_offset": "-0x1"}]


SKIPPED = [
    ("1.00000", "1.00000"),
    ("1.8446744073709552e+19", "1.8446744073709552e+19"),
    ("4096.0", "4096.0"),
    ("4E3", "4E3"),
    ("1e0", "1e0"),
    ("-0.0", "-0.0"),
    ("-2", "-2"),
    ("-4096", "-4096"),
    ("18446744073709551616", "18446744073709551616"),
    ("-9223372036854775809", "-9223372036854775809"),
    ("99999999999999999999999999999999999999", "99999999999999999999999999999999999999"),
    ('"0x1000"', "0x1000"),
    ('"4096"', "4096"),
    ('""', ""),
    ('"a\\u0062\\"\\\\\\/\\n\\té"', 'ab"\\/\n\té'),
    ('"\\ud83d\\ude00"', "😀"),
]


@pytest.mark.parametrize("written, given", SKIPPED, ids=[w for w, _ in SKIPPED])
def test_what_is_no_integer_is_skipped_and_given_back(client, written, given):
    body = '{"memoryMap": [%s], "stacks": [[[0, 4096], [0, %s], [0, 8192]]]}' % (json.dumps(APP), written)
    first, skipped, last = client.v5(body)["results"][0]["stacks"][0]
    assert skipped == {"frame": 1, "module": "app", "module_offset": given}
    assert first["function"] == "main" and last["function"] == "public_a" and last["frame"] == 2


def test_long_offset_text(client):
    number, text = "1" * 5000 + ".5", "x" * 70000
    body = '{"memoryMap": [%s], "stacks": [[[0, %s], [0, "%s"]]]}' % (json.dumps(APP), number, text)
    frames = client.v5(body)["results"][0]["stacks"][0]
    assert [f["module_offset"] for f in frames] == [number, text]


@pytest.mark.parametrize("index", [-1, -7, -(2**31), -(2**63)])
def test_index_in_no_module(client, index):
    result = client.v5(job([APP], [[index, 0x1F], [0, 0x1000], [index, -1]]))["results"][0]
    assert result["stacks"][0][0] == frame(0, "<unknown>", 0x1F)
    assert result["stacks"][0][1]["function"] == "main"
    assert result["stacks"][0][2] == {"frame": 2, "module": "<unknown>", "module_offset": "-0x1"}


def test_index_in_no_module_refers_to_none(client):
    result = client.v5(job([APP], [[-1, 0x1000]]))["results"][0]
    assert result["found_modules"] == {"/".join(APP): None}


def test_skipped_offset_in_no_module(client):
    body = '{"memoryMap": [], "stacks": [[[-1, 1.8446744073709552e+19]]]}'
    assert client.v5(body)["results"][0]["stacks"] == [
        [{"frame": 0, "module": "<unknown>", "module_offset": "1.8446744073709552e+19"}]
    ]


# Modules


@pytest.mark.parametrize("i", range(len(ODD_NAMES)), ids=ODD_NAMES)
def test_odd_names_are_asked_for_percent_encoded(stack, client, i):
    module = [ODD_NAMES[i], debug_id(ODD_NAMES[i])]
    stack.bucket.reset()
    result = client.v5(job([module], [[0, 0x1003]]))["results"][0]
    assert result["found_modules"] == {"/".join(module): True}
    encoded = [quote(part, safe="-._~") for part in (module[0], module[1], sym_name(module[0]))]
    assert stack.bucket.paths() == {"/" + "/".join(encoded): 1}
    got = result["stacks"][0][0]
    assert (got["module"], got["function"], got["function_offset"]) == (module[0], f"odd{i}", "0x3")


@pytest.mark.parametrize("name", ["[vdso]", "{ec8030f7}.xpi", "a b+~<>.so", "é"])
def test_a_missing_odd_name_is_false(client, name):
    module = [name, debug_id("missing " + name)]
    result = client.v5(job([module, APP], [[0, 5], [1, 0x1000]]))["results"][0]
    assert result["found_modules"] == {"/".join(module): False, "/".join(APP): True}
    assert result["stacks"][0] == [frame(0, name, 5), frame(1, "app", 0x1000, **SAMPLE_FRAMES[0x1000])]


@pytest.mark.parametrize("module", UNHOLDABLE, ids=lambda m: ascii(m[0][:12] + "/" + m[1][:6]))
def test_what_no_bucket_can_hold_is_false(stack, client, module):
    stack.bucket.reset()
    result = client.v5(job([module, APP], [[0, 5], [1, 0x1000]]))["results"][0]
    given = [v.replace("\ud800", "\ufffd") for v in module]
    assert result["found_modules"] == {"/".join(given): False, "/".join(APP): True}
    got = result["stacks"][0]
    assert got[0]["module"] == given[0] and "function" not in got[0]
    assert got[1]["function"] == "main"
    assert not [p for p in stack.bucket.paths() if "passwd" in p or ".." in p]


@pytest.mark.parametrize("half", ["\\ud800", "\\udc00", "\\uDBFF", "\\ud800\\ud800", "\\ude00\\ud83d", "x\\ud83dx"])
def test_half_a_surrogate_pair_is_not_given_back(client, half):
    """Many JSON readers refuse one; a whole pair stays."""
    text = '{"memoryMap":[["%s\\ud83d\\ude00","%s"]],"stacks":[[[0,5],[0,"%s"]]]}' % (half, half, half)
    reply = client.post("/symbolicate/v5", text)
    assert reply.status == 200, reply
    clean = re.sub(r"\\ud[0-9a-f]{3}", "\ufffd", half, flags=re.I)
    result = reply.json()["results"][0]
    assert [f["module"] for f in result["stacks"][0]] == [clean + "\U0001f600"] * 2
    assert result["stacks"][0][1]["module_offset"] == clean
    assert result["found_modules"] == {f"{clean}\U0001f600/{clean}": False}
    assert half not in reply.text


@pytest.mark.parametrize(
    "module, shown", [(["", debug_id("x")], "<unknown>"), (["app", ""], "app"), (["", ""], "<unknown>")], ids=str
)
def test_an_empty_name_or_id_makes_no_lookup(stack, client, module, shown):
    stack.bucket.reset()
    result = client.v5(job([module], [[0, 0x1000]]))["results"][0]
    assert result == {"stacks": [[frame(0, shown, 0x1000)]], "found_modules": {"/".join(module): None}}
    assert stack.bucket.hits() == 0


def test_found_modules_true_false_null(client):
    spare = ["spare.so", debug_id("spare.so")]
    result = client.v5(job([spare, APP, GONE], [[1, 0xFFF]], [[2, 0]]))["results"][0]
    assert result["found_modules"] == {"/".join(spare): None, "/".join(APP): True, "/".join(GONE): False}


def test_a_module_of_another_job_is_referred_to(client):
    """null is for what no frame of the request refers to."""
    other = ["other.so", debug_id("other.so")]
    results = client.v5({"jobs": [job([APP, other], []), job([APP], [[0, 0x1000]])]})["results"]
    assert results[0]["found_modules"] == {"/".join(APP): True, "/".join(other): None}
    assert results[1]["found_modules"] == {"/".join(APP): True}


def test_a_module_listed_twice_is_one_key(client):
    reply = client.post("/symbolicate/v5", job([APP, GONE, APP], [[0, 0x1000], [2, 0x2000]]))
    pairs = []
    json.loads(reply.text, object_pairs_hook=lambda p: pairs.append(p) or dict(p))
    found = [p for p in pairs if p and "/" in p[0][0]]
    assert found == [[("/".join(APP), True), ("/".join(GONE), None)]]
    frames = reply.json()["results"][0]["stacks"][0]
    assert [f["function"] for f in frames] == ["main", "public_a"]


def test_only_the_second_of_two_is_referred_to(client):
    result = client.v5(job([APP, APP], [[1, 0x1000]]))["results"][0]
    assert result["found_modules"] == {"/".join(APP): True}


@pytest.mark.parametrize("asked", ["lower", "mixed"])
def test_a_lower_case_id_is_the_same_module(stack, client, asked):
    name, ident = f"case-{asked}.so", debug_id(f"case-{asked}.so")
    stack.symbols.add(name, tiny("cased"), ident)
    spelled = ident.lower() if asked == "lower" else ident[:16].lower() + ident[16:]
    result = client.v5(job([[name, spelled]], [[0, 0x1000]]))["results"][0]
    assert result["found_modules"] == {f"{name}/{spelled}": True}
    assert result["stacks"][0][0]["function"] == "cased"
    paths = [p.lstrip("/") for p in stack.bucket.paths() if f"case-{asked}" in p]
    assert paths == [f"{name}/{spelled}/{name}.sym", f"{name}/{ident}/{name}.sym"]  # in the order they were asked for
    # it is kept for all spellings
    stack.bucket.reset()
    assert client.found([name, ident]) is True
    assert client.found([name, ident.lower()]) is True
    assert stack.bucket.hits() == 0


def test_a_bucket_that_spells_ids_in_lower_case(stack, client):
    name, ident = "lower.so", debug_id("lower.so").lower()
    stack.symbols.add(name, tiny("low"), ident)
    assert client.frames([name, ident], [0x1000])[0]["function"] == "low"


def test_both_spellings_in_one_request(client):
    lower = [APP[0], APP[1].lower()]
    result = client.v5(job([lower, APP], [[0, 0x1000], [1, 0x2000]]))["results"][0]
    assert result["found_modules"] == {"/".join(lower): True, "/".join(APP): True}
    assert [f["function"] for f in result["stacks"][0]] == ["main", "public_a"]


@pytest.mark.parametrize(
    "info, want",
    [
        ("INFO CODE_ID 5CF2591C6859000 xul.dll\n", "xul.dll"),
        ("INFO CODE_ID 5CF2591C6859000 with blanks.dll\n", "with blanks.dll"),
        ("INFO CODE_ID 5CF2591C6859000\n", None),
        ("INFO GENERATOR mozilla/dump_syms 2.3\n", None),
        ("", None),
    ],
    ids=["file", "blanks", "id only", "generator", "none"],
)
def test_module_is_the_code_file(stack, client, info, want):
    name = f"code{debug_id(info)[:8]}.pdb"
    module = stack.symbols.add(name, info + tiny(), system="windows")
    assert client.frames(module, [0x1000])[0]["module"] == (want or name)
    assert client.frames(module, [0x1])[0]["module"] == (want or name)


def test_ids_of_other_lengths(stack, client):
    for ident in ["5CF2591C6859000", "ABCDEF012345678", "A" * 40, "0" * 33]:
        module = stack.symbols.add("lengths.so", tiny("f" + ident), ident)
        assert client.frames(module, [0x1000])[0]["function"] == "f" + ident


def test_bad_utf8_in_a_symbol_file(stack, client):
    body = b"FILE 0 dir/\xff\xfe.c\nINLINE_ORIGIN 0 in\xc3(\nFUNC 1000 10 0 f\x80g\xe2\x82h\n"
    body += b"INLINE 0 4 0 0 1000 8\n1000 10 5 0\nPUBLIC 2000 0 p\xf0\x9f\x98\n"
    module = stack.symbols.add("bad-utf8.so", body)
    got = client.frames(module, [0x1000, 0x100F, 0x2000])
    bad = "\ufffd"
    assert got[0]["function"] == f"f{bad}g{bad}{bad}h"
    assert (got[0]["file"], got[0]["line"]) == (f"dir/{bad}{bad}.c", 4)
    assert got[0]["inlines"] == [{"function": f"in{bad}(", "file": f"dir/{bad}{bad}.c", "line": 5}]
    assert got[1]["file"] == f"dir/{bad}{bad}.c" and got[1]["line"] == 5
    assert got[2]["function"] == f"p{bad}{bad}{bad}"


def test_good_utf8_and_escapes_in_a_symbol_file(stack, client):
    name = 'größe<"x\\y">\x01\t😀'
    module = stack.symbols.add("escapes.so", f"FILE 0 C:\\src\\ä.c\nFUNC 1000 10 0 {name}\n1000 10 5 0\n")
    got = client.frames(module, [0x1000])[0]
    assert got["function"] == name and got["file"] == "C:\\src\\ä.c"


def test_long_names(stack, client):
    name = "N<" + "std::pair<int, long>, " * 30000 + ">"
    module = stack.symbols.add("long-names.so", f"FILE 0 {'d/' * 5000}x.c\nFUNC 1000 10 0 {name}\n1000 10 5 0\n")
    got = client.frames(module, [0x1000])[0]
    assert got["function"] == name and got["file"] == "d/" * 5000 + "x.c"


# HTTP


def test_plain_reply(client):
    reply = client.post("/symbolicate/v5", job([APP], [[0, 0x1000]]))
    assert reply.headers["Content-Type"].split(";")[0] == "application/json"
    assert reply.headers["Access-Control-Allow-Origin"] == "*"
    assert "Content-Encoding" not in reply.headers
    assert int(reply.headers["Content-Length"]) == len(reply.raw)
    assert reply.headers["X-Request-Id"]


def test_request_ids_differ(client):
    ids = {client.post("/symbolicate/v5", {"jobs": []}).headers["X-Request-Id"] for _ in range(5)}
    assert len(ids) == 5 and all(ids)


@pytest.mark.parametrize("accepted", ["gzip", "gzip, deflate, br", "deflate, gzip;q=1.0, *;q=0.5"])
def test_gzip_reply(client, accepted):
    value = job([APP], [[0, 0x1014]] * 3000)
    plain = client.post("/symbolicate/v5", value)
    packed = client.post("/symbolicate/v5", value, Accept_Encoding=accepted)
    assert packed.headers["Content-Encoding"] == "gzip" and "Content-Encoding" not in plain.headers
    assert len(packed.raw) < len(plain.raw) / 5
    assert int(packed.headers["Content-Length"]) == len(packed.raw)
    assert packed.body == plain.body
    for reply in (plain, packed):
        assert "accept-encoding" in reply.headers.get("Vary", "").lower()


@pytest.mark.parametrize("accepted", ["identity", "deflate, br", "gzip;q=0", "identity, gzip;q=0.0", ""])
def test_no_gzip_for_clients_that_do_not_accept_it(client, accepted):
    reply = client.post("/symbolicate/v5", job([APP], [[0, 0x1014]] * 3000), Accept_Encoding=accepted)
    assert "Content-Encoding" not in reply.headers
    assert len(reply.json()["results"][0]["stacks"][0]) == 3000


def test_small_replies_are_not_compressed(client):
    reply = client.post("/symbolicate/v5", {"jobs": []}, Accept_Encoding="gzip")
    assert "Content-Encoding" not in reply.headers and reply.json() == {"results": []}


@pytest.mark.parametrize("members", [1, 3])
def test_gzip_request(client, members):
    body = json.dumps(job([APP], [[0, 0x1000]])).encode()
    cut = len(body) // members + 1
    packed = b"".join(gzip.compress(body[i : i + cut]) for i in range(0, len(body), cut))
    reply = client.v5(packed, Content_Encoding="gzip")
    assert reply["results"][0]["stacks"][0][0]["function"] == "main"


def test_chunked_request(stack):
    body = json.dumps(job([APP], [[0, 0x1000]])).encode()
    connection = stack.client.connect()
    connection.request("POST", "/symbolicate/v5", iter([body[:7], body[7:]]), encode_chunked=True,
                       headers={"Transfer-Encoding": "chunked"})  # fmt: skip
    reply = connection.getresponse()
    assert reply.status == 200
    assert json.loads(reply.read())["results"][0]["stacks"][0][0]["function"] == "main"
    connection.close()


def test_query_string_is_ignored(client):
    reply = client.post("/symbolicate/v5?a=b&c=/symbolicate/v4", job([APP], [[0, 0x1000]]))
    assert reply.json()["results"][0]["stacks"][0][0]["function"] == "main"


def test_tls(stack):
    client = stack.node.client(tls=True)
    assert client.frames(APP, [0x1014]) == [frame(0, "app", 0x1014, **SAMPLE_FRAMES[0x1014])]
    assert client.get("/symbolicate/").status == 200


def test_one_connection_serves_many_requests(stack):
    client = stack.node.client(keep=True)
    for offset in SAMPLE_FRAMES:
        assert client.frames(APP, [offset]) == [frame(0, "app", offset, **SAMPLE_FRAMES[offset])]
    client.close()


def test_a_large_request_and_reply(client):
    offsets = [o for o in SAMPLE_FRAMES for _ in range(4000)]
    got = client.frames(APP, offsets)
    assert len(got) == len(offsets)
    for i in range(0, len(offsets), 997):
        assert got[i] == frame(i, "app", offsets[i], **SAMPLE_FRAMES[offsets[i]])


# CORS


@pytest.mark.parametrize("path", ["/symbolicate/v5", "/symbolicate/v4"])
def test_preflight(client, path):
    asked = "content-type, User-Agent, Debug, X-Custom"
    reply = client.request(
        "OPTIONS",
        path,
        headers={
            "Origin": "https://profiler.firefox.com",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": asked,
        },
    )
    assert reply.status == 200
    assert reply.headers["Access-Control-Allow-Origin"] == "*"
    assert reply.headers["Access-Control-Max-Age"] == "86400"
    assert "POST" in reply.headers["Access-Control-Allow-Methods"]
    allowed = {h.strip().lower() for h in reply.headers["Access-Control-Allow-Headers"].split(",")}
    assert {"content-type", "user-agent", "debug", "x-custom"} <= allowed


def test_preflight_without_asked_headers(client):
    reply = client.request("OPTIONS", "/symbolicate/v5", headers={"Origin": "https://example.com"})
    assert reply.status == 200 and reply.headers["Access-Control-Allow-Origin"] == "*"


def test_preflight_does_not_echo_line_ends(client):
    reply = client.request(
        "OPTIONS",
        "/symbolicate/v5",
        headers={"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x\t,<script>"},
    )
    assert reply.status == 200 and "Access-Control-Allow-Headers" not in reply.headers


# The debug block

MODULE_TIMES = [("downloads", "time_per_module"), ("parse_sym", "time_per_module"), ("save_symcache", "time_per_module")]


def check_debug_shape(debug):
    assert isinstance(debug["time"], (int, float)) and debug["time"] >= 0
    assert {"count", "real"} <= debug["stacks"].keys()
    assert {"count", "stacks_per_module"} <= debug["modules"].keys()
    assert {"count", "hits", "size", "time"} <= debug["cache_lookups"].keys()
    assert {"count", "size", "time", "size_per_module", "time_per_module", "fail_time_per_module"} <= debug["downloads"].keys()
    assert {"time", "time_per_module", "fail_time_per_module"} <= debug["parse_sym"].keys()
    assert {"time", "time_per_module"} <= debug["save_symcache"].keys()
    for block in ("cache_lookups", "downloads", "parse_sym", "save_symcache"):
        assert 0 <= debug[block]["time"] < 60


@pytest.mark.parametrize("value", ["true", "1", "yes", "anything"])
def test_debug_is_given_when_asked(client, value):
    reply = client.v5(job([APP], [[0, 0x1000]]), Debug=value)
    check_debug_shape(reply["debug"])


@pytest.mark.parametrize("value", ["", "0", "false", "no", None])
def test_no_debug_otherwise(client, value):
    headers = {} if value is None else {"Debug": value}
    assert "debug" not in client.v5(job([APP], [[0, 0x1000]]), **headers)


def test_debug_of_a_cold_and_a_warm_request(stack, client):
    module = stack.symbols.add("debugged.so", SAMPLE)
    key, size = "/".join(module), len(module_line(*module)) + len(SAMPLE)
    gone = ["debugged-gone.so", debug_id("debugged-gone.so")]
    body = json.dumps(job([module, gone], [[0, 0x1000], [0, 0x2000], [0, 1.5]], [[0, 5], [1, 5], [-1, 5]]))
    cold = client.v5(body, Debug="true")["debug"]
    check_debug_shape(cold)
    assert cold["stacks"] == {"count": 6, "real": 5}
    assert cold["modules"]["count"] == 2
    assert cold["modules"]["stacks_per_module"] == {key: 2, "/".join(gone): 1}
    assert cold["downloads"]["count"] == 1 and cold["downloads"]["size"] == size
    assert cold["downloads"]["size_per_module"] == {key: size}
    for block, field in MODULE_TIMES[:2]:
        assert key in cold[block][field], block
    assert "/".join(gone) in cold["downloads"]["fail_time_per_module"]
    warm = client.v5(body, Debug="true")["debug"]
    assert warm["downloads"]["count"] == 0 and warm["downloads"]["size"] == 0
    assert warm["downloads"]["size_per_module"] == {}
    assert warm["cache_lookups"]["count"] >= 1 and warm["cache_lookups"]["hits"] >= 1
    assert warm["stacks"] == cold["stacks"] and warm["modules"] == cold["modules"]


def test_debug_of_a_damaged_file(stack, client):
    module = stack.symbols.add("damaged.so", tiny() + "FUNC zz 10 0 broken\nthis is no record\n")
    reply = client.v5(job([module], [[0, 0x1000]]), Debug="1")
    assert reply["results"][0]["stacks"][0][0]["function"] == "tiny"
    assert "damaged" in json.dumps(reply["debug"]).replace("/".join(module), "")


def test_gzip_objects_report_their_size_uncompressed(stack, client):
    name, ident = "packed.so", debug_id("packed.so")
    text = module_line(name, ident) + SAMPLE.encode()
    stack.symbols.put(name, ident, text, compress=True)
    reply = client.v5(job([[name, ident]], [[0, 0x1014]]), Debug="1")
    assert reply["results"][0]["stacks"][0] == [frame(0, name, 0x1014, **SAMPLE_FRAMES[0x1014])]
    assert reply["debug"]["downloads"]["size"] == len(text)


def test_the_object_is_named_as_documented(stack, client):
    for name in ["wntdll.pdb", "LIB.Pdb", "libc.so.6", "noext", "x.pdb.so", ".pdb"]:
        module = [name, debug_id("path " + name)]
        stack.bucket.reset()
        assert client.found(module) is False
        assert stack.bucket.paths() == {f"/{name}/{ident}/{sym_name(name)}": 1 for ident in (module[1], module[1].lower())}


def test_a_second_client_is_not_held_up_by_an_idle_connection(stack):
    idle = [Client(stack.node.nginx.port).connect() for _ in range(20)]
    for connection in idle:
        connection.connect()
    assert stack.client.frames(APP, [0x1000])[0]["function"] == "main"
    for connection in idle:
        connection.close()
