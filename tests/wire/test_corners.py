# SPDX-License-Identifier: Apache-2.0
"""Every corner case of symbol files, over the wire: what the answers beside the file say is what a client gets."""

import glob
import json
import os
import re

import pytest

from client import job
from stack import ROOT, Stack
from symbols import debug_id, differences

FOLDER = os.path.join(ROOT, "tests", "data", "sym")
CASES = sorted(os.path.basename(p)[: -len(".sym")] for p in glob.glob(os.path.join(FOLDER, "*.sym")))
NEAREST = sorted(os.path.basename(p)[: -len(".nearest.jsonl")] for p in glob.glob(os.path.join(FOLDER, "*.nearest.jsonl")))


def read_case(case, kind="answers"):
    """(bytes of the file, the header row, the answers)"""
    with open(os.path.join(FOLDER, case + ".sym"), "rb") as f:
        data = f.read()
    with open(os.path.join(FOLDER, f"{case}.{kind}.jsonl"), encoding="utf-8") as f:
        rows = [json.loads(line) for line in f if line.strip()]
    assert rows and "offset" not in rows[0], f"{case}: the first row is the header"
    return data, rows[0], rows[1:]


def module_of(case, data, header):
    """Asked for under a name that only this case has, and the id that its MODULE line gives (or the header, where it must differ)."""
    found = re.match(rb"(?:\xef\xbb\xbf)?MODULE[ \t]+\S+[ \t]+\S+[ \t]+([0-9A-Fa-f]+)[ \t\r\n]", data)
    return [case + ".so", header.get("id") or (found.group(1).decode() if found else debug_id(case))]


@pytest.fixture(scope="module", params=["plain", "gzip"])
def stack(request):
    with Stack() as s:
        s.compress = request.param == "gzip"
        yield s


def test_there_are_cases():
    assert CASES and NEAREST, f"no case in {FOLDER}"


@pytest.mark.parametrize("case", CASES)
def test_case(stack, case):
    data, header, answers = read_case(case)
    module = module_of(case, data, header)
    stack.symbols.put(*module, data, compress=stack.compress)
    damaged = "symbolicated_damaged_lines_total"
    before = stack.node.metrics()[damaged]
    offsets = [int(a["offset"], 16) for a in answers] or [0x1000]
    value = job([module], [[0, o] for o in offsets])
    result = stack.client.v5(value)["results"][0]
    frames = result["stacks"][0]
    assert result["found_modules"] == {"/".join(module): not header["corrupt"]}
    assert [f["module_offset"] for f in frames] == [hex(o) for o in offsets]
    if header["corrupt"]:
        assert not any("function" in f for f in frames)
        return
    assert differences(answers, frames) == []
    assert {f["module"] for f in frames} == {header.get("code_file") or module[0]}
    stack.node.settled()
    if header.get("damaged") is not None:
        assert stack.node.metrics()[damaged] - before == header["damaged"]
    names = stack.client.v4(value)["symbolicatedStacks"][0]
    assert names == [f"{a.get('function', hex(o))} (in {module[0]})" for a, o in zip(answers, offsets)]


def test_all_cases_from_memcached(stack):
    """The same answers once more, from a process that has nothing in memory and a bucket that has nothing at all."""
    modules, wanted = [], []
    for case in CASES:
        data, header, answers = read_case(case)
        if header["corrupt"] or not answers:
            continue
        module = module_of(case, data, header)
        stack.symbols.put(*module, data, compress=stack.compress)
        stack.client.frames(module, [0])
        modules.append(module)
        wanted.append(answers)
    stack.node.settled()
    stack.node.restart()
    stack.bucket.reset()
    for at in range(0, len(modules), 20):
        part = modules[at : at + 20]
        jobs = [job([m], [[0, int(a["offset"], 16)] for a in w]) for m, w in zip(part, wanted[at : at + 20])]
        for module, answers, result in zip(part, wanted[at : at + 20], stack.client.v5({"jobs": jobs})["results"]):
            assert differences(answers, result["stacks"][0]) == [], module
    assert stack.bucket.hits() == 0


@pytest.mark.parametrize("case", CASES[::7])
def test_chunks_of_transfers_do_not_matter(stack, case):
    """Without a length or in chunks the same text gives the same answers, where the last line ends."""
    data, header, answers = read_case(case)
    module = module_of(case, data, header)
    if header["corrupt"] or not data.endswith(b"\n") or not answers:
        return
    module[0] = "chunked-" + module[0]
    stack.symbols.put(*module, data, compress=stack.compress)
    stack.bucket.misbehave(module, "no-length" if len(case) % 2 else "chunked")
    frames = stack.client.frames(module, [int(a["offset"], 16) for a in answers])
    stack.bucket.reset()
    assert differences(answers, frames) == []


def test_nearest_lookup():
    """The setting that answers as Tecken did."""
    with Stack(memcached=0, config={"lookup": "nearest"}) as s:
        for case in NEAREST:
            data, header, answers = read_case(case, "nearest")
            module = module_of(case, data, header)
            s.symbols.put(*module, data)
            frames = s.client.frames(module, [int(a["offset"], 16) for a in answers])
            assert differences(answers, frames) == [], case
