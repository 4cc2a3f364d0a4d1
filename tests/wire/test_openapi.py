# SPDX-License-Identifier: Apache-2.0
"""The schemas of docs/openapi.yaml against replies: all keys are described, and have the types that are told."""

import json
import os
import re

import pytest
import yaml

from client import Client
from stack import ROOT, Stack
from symbols import SAMPLE, debug_id

APP = ["app", debug_id("app")]
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None)}

with open(os.path.join(ROOT, "docs", "openapi.yaml"), encoding="utf-8") as f:
    API = yaml.safe_load(f)


def check(value, schema, place="reply"):
    """The keywords that the document uses."""
    if "$ref" in schema:
        return check(value, API["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]], place)
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    assert any(type(value) is TYPES[one] for one in types), (place, value, types)
    if isinstance(value, dict):
        assert set(schema.get("required", [])) <= set(value), (place, value)
        properties = schema.get("properties")
        for key, inner in value.items():
            if properties is not None:
                assert key in properties, (place, key)
                check(inner, properties[key], f"{place}.{key}")
            elif "additionalProperties" in schema:
                check(inner, schema["additionalProperties"], f"{place}.{key}")
    if isinstance(value, list):
        assert schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)), (place, value)
        for i, inner in enumerate(value if "items" in schema else []):
            check(inner, schema["items"], f"{place}[{i}]")
    if "pattern" in schema:
        assert re.search(schema["pattern"], value), (place, value)
    assert value >= schema.get("minimum", value) if isinstance(value, int) else True, (place, value)
    return None


@pytest.fixture(scope="module")
def one():
    with Stack() as s:
        assert s.symbols.add(APP[0], SAMPLE, APP[1]) == APP
        yield s


def reply_schema(path, status, content="application/json"):
    response = API["paths"][path]["post"]["responses"][str(status)]
    if "$ref" in response:
        response = API["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
    return response["content"][content]["schema"]


def ask(one, path, body, **headers):
    reply = Client(one.node.nginx.port).request("POST", path, body if isinstance(body, str) else json.dumps(body), headers)
    check(reply.json(), reply_schema(path, reply.status))
    return reply


def test_replies_of_version_5(one):
    job = {"memoryMap": [APP, ["gone.so", debug_id("gone")]], "stacks": [[[0, 0x1014], [1, 1], [-1, 7], [0, 0x99999999]]]}
    for headers in ({}, {"Debug": "1"}):
        assert ask(one, "/symbolicate/v5", job, **headers).status == 200
        assert ask(one, "/symbolicate/v5", {"jobs": [job, job]}, **headers).status == 200
    for wrong in ("", "{", "[]", {"jobs": [job, {"memoryMap": [], "stacks": [[[0, 1]]]}]}, {"memoryMap": 7, "stacks": []}):
        assert ask(one, "/symbolicate/v5", wrong).status == 400


def test_replies_for_texts(one):
    folder = os.path.join(ROOT, "tests", "data", "text", "crash")
    texts = [f"#0 0x1 (/opt/app+0x1014)\nMODULE Linux x86_64 {APP[1]} app\n", "nothing", "main+0x12 at 0x55d902ef6f36\n"]
    for name in sorted(os.listdir(folder)):
        if name.endswith((".txt", ".json")):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                texts.append(f.read())
    for text in texts:
        reply = ask(one, "/symbolicate/text", text, Accept="application/json", Edits="1")
        assert reply.status == 200 and re.fullmatch(r"\d+ named=\d+", reply.headers["X-Frames"])
