# SPDX-License-Identifier: Apache-2.0
"""/symbolicate/v4 and its legacy shortcut, POST /."""

import json

import pytest

from client import job
from stack import Stack
from symbols import SAMPLE, SAMPLE_FRAMES, debug_id, tiny

APP = ["app", debug_id("app")]
PE = ["xul.pdb", debug_id("xul.pdb")]
GONE = ["gone.pdb", debug_id("gone.pdb")]


@pytest.fixture(scope="module")
def stack():
    with Stack(memcached=0) as s:
        s.symbols.add(APP[0], SAMPLE, APP[1])
        s.symbols.add(PE[0], "INFO CODE_ID 5CF2591C6859000 xul.dll\n" + tiny("XRE_main"), PE[1], "windows")
        yield s


@pytest.fixture(params=["/symbolicate/v4", "/"])
def ask(request, stack):
    """Posts a request to either path; gives the object of the reply."""

    def post(value, **headers):
        reply = stack.client.post(request.param, value, **headers)
        assert reply.status == 200, reply
        return reply.json()

    return post


def expected(offset, name="app"):
    function = SAMPLE_FRAMES[offset].get("function")
    return f"{function} (in {name})" if function else f"{hex(offset)} (in {name})"


def test_shape_of_the_reply(ask):
    value = {**job([PE, GONE, APP], [[0, 0x1001], [1, 65802]], [[0, 0]]), "version": 4}
    assert ask(value) == {
        "symbolicatedStacks": [["XRE_main (in xul.pdb)", "0x1010a (in gone.pdb)"], ["0x0 (in xul.pdb)"]],
        "knownModules": [True, False, None],
    }


def test_half_a_surrogate_pair_is_not_given_back(ask):
    value = ask('{"memoryMap":[["a\\ud800b","ABC"]],"stacks":[[[0,5],[0,"\\udc00"]]]}')
    assert value == {"symbolicatedStacks": [["0x5 (in a\ufffdb)", "\ufffd"]], "knownModules": [False]}


@pytest.mark.parametrize("version", [4, "none"])
def test_version(ask, version):
    value = job([APP], [[0, 0x1000]])
    if version != "none":
        value["version"] = version
    assert ask(value)["symbolicatedStacks"] == [["main (in app)"]]


@pytest.mark.parametrize("version", [5, 3, 0, -4, 44, "4", 4.5, [4], {}, True], ids=repr)
def test_other_versions_are_refused(stack, version):
    reply = stack.client.post("/symbolicate/v4", {**job([APP], [[0, 0x1000]]), "version": version})
    assert "version" in reply.error(400)["error"]


def test_jobs_are_refused(stack):
    reply = stack.client.post("/symbolicate/v4", {"jobs": [job([APP], [[0, 0x1000]])], "version": 4})
    assert "jobs" in reply.error(400)["error"]


def test_every_frame(ask):
    offsets = list(SAMPLE_FRAMES)
    assert ask(job([APP], [[0, o] for o in offsets]))["symbolicatedStacks"] == [[expected(o) for o in offsets]]


def test_inlines_are_not_shown(ask):
    assert ask(job([APP], [[0, 0x1014]]))["symbolicatedStacks"] == [["main (in app)"]]


@pytest.mark.parametrize("offset", [0, 2**32, 2**63, 2**64 - 1], ids=hex)
def test_integers_keep_every_bit(ask, offset):
    assert ask(job([GONE], [[0, offset]]))["symbolicatedStacks"] == [[f"{hex(offset)} (in gone.pdb)"]]


def test_minus_one(ask):
    assert ask(job([APP], [[0, -1], [-1, -1]]))["symbolicatedStacks"] == [["-0x1 (in app)", "-0x1 (in <unknown>)"]]


@pytest.mark.parametrize("index", [-1, -7, -(2**63)])
def test_index_in_no_module(ask, index):
    assert ask(job([APP], [[index, 0x1F], [index, 4294967295]])) == {
        "symbolicatedStacks": [["0x1f (in <unknown>)", "0xffffffff (in <unknown>)"]],
        "knownModules": [None],
    }


@pytest.mark.parametrize(
    "written, given",
    [
        ("1.00000", "1.00000"),
        ("1.8446744073709552e+19", "1.8446744073709552e+19"),
        ("18446744073709551616", "18446744073709551616"),
        ("-2", "-2"),
        ('"0x1000"', "0x1000"),
        ('"a\\u0062\\n"', "ab\n"),
        ('""', ""),
    ],
)
@pytest.mark.parametrize("index", [0, -1])
def test_a_skipped_offset_is_the_bare_text(ask, written, given, index):
    body = '{"memoryMap": [%s], "stacks": [[[%d, %s], [0, 4096]]]}' % (json.dumps(APP), index, written)
    assert ask(body)["symbolicatedStacks"] == [[given, "main (in app)"]]


@pytest.mark.parametrize(
    "module, text, known",
    [
        (["[vdso]", debug_id("vdso")], "0x5 (in [vdso])", False),
        (["a/b", debug_id("x")], "0x5 (in a/b)", False),
        (['"é\\', "nohex"], '0x5 (in "é\\)', False),
        (["", debug_id("x")], "0x5 (in <unknown>)", None),
        (["app", ""], "0x5 (in app)", None),
    ],
    ids=str,
)
def test_modules_that_cannot_be_found(ask, module, text, known):
    assert ask(job([module], [[0, 5]])) == {"symbolicatedStacks": [[text]], "knownModules": [known]}


def test_known_modules_follow_the_memory_map(ask):
    lower = [APP[0], APP[1].lower()]
    reply = ask(job([GONE, APP, lower, APP, PE], [[1, 0x1000], [2, 0x1000], [0, 1]]))
    assert reply["knownModules"] == [False, True, True, True, None]


@pytest.mark.parametrize(
    "value, want",
    [
        (job([]), {"symbolicatedStacks": [], "knownModules": []}),
        (job([], []), {"symbolicatedStacks": [[]], "knownModules": []}),
        (job([APP]), {"symbolicatedStacks": [], "knownModules": [None]}),
    ],
    ids=["nothing", "empty stack", "no stacks"],
)
def test_empty_lists(ask, value, want):
    assert ask(value) == want


def test_debug(ask):
    reply = ask(job([APP], [[0, 0x1000], [0, 0x1000]], [[0, 1]]), Debug="true")
    assert reply["debug"]["stacks"] == {"count": 3, "real": 3}
    assert reply["debug"]["modules"] == {"count": 1, "stacks_per_module": {"/".join(APP): 2}}


def test_names_equal_those_of_v5(stack, ask):
    offsets = list(SAMPLE_FRAMES)
    value = job([APP, PE], [[i % 2, o] for i, o in enumerate(offsets)])
    frames = stack.client.v5(value)["results"][0]["stacks"][0]
    names = [m[0] for m in (APP, PE)]
    want = [f"{f.get('function', f['module_offset'])} (in {names[i % 2]})" for i, f in enumerate(frames)]
    assert ask(value)["symbolicatedStacks"] == [want]


def test_gzip_reply(stack):
    reply = stack.client.post("/symbolicate/v4", job([APP], [[0, 0x1000]] * 5000), Accept_Encoding="gzip")
    assert reply.headers["Content-Encoding"] == "gzip"
    assert reply.json()["symbolicatedStacks"] == [["main (in app)"] * 5000]


def test_cors_and_type(stack):
    reply = stack.client.post("/symbolicate/v4", job([]))
    assert reply.headers["Access-Control-Allow-Origin"] == "*"
    assert reply.headers["Content-Type"].split(";")[0] == "application/json"
