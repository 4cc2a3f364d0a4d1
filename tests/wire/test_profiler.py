# SPDX-License-Identifier: Apache-2.0
"""The Firefox Profiler's own code asks our server for names, assembly and source code: profiler-cli, which is the profiler's web app without
the page, as npm has it."""

import json
import os
import re
import shutil
import subprocess

import pytest

from stack import Stack, wait_for
from test_executables import HELPER, guid, paths, tree  # noqa: F401

CLI = "@firefox-devtools/profiler-cli@0.10.0"
BOUND = 120  # seconds for one command
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.path.exists(HELPER), reason="symbolicated-extract was not built"),
    pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed"),
]


class Profiler:
    def __init__(self, folder):
        self.env = {**os.environ, "HOME": str(folder)}
        done = subprocess.run(["npm", "install", "--prefix", folder, CLI], env=self.env, capture_output=True, text=True, timeout=BOUND, check=False)
        if done.returncode != 0:
            pytest.skip(f"npm does not install {CLI}: {done.stderr[-300:]}")
        self.command = ["node", f"{folder}/node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js"]

    def run(self, *arguments):
        """What it prints, or None."""
        done = subprocess.run([*self.command, *arguments], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BOUND, check=False)
        return done.stdout if done.returncode == 0 else None

    def load(self, profile, server):
        """Its first command gives up before a busy machine has started its daemon, which goes on."""
        self.run("load", profile, "--symbol-server", server)
        return json.loads(wait_for(lambda: self.run("thread", "functions", "--json"), "the profile is loaded", bound=BOUND, pause=0.5))


def table(names, rows=()):
    return {"schema": {name: i for i, name in enumerate(names.split())}, "data": list(rows)}


def gecko_profile(tree, offsets):  # noqa: F811
    """One sample at each offset, as Firefox writes it."""
    base = 0x10000000
    lib = {"start": base, "end": base + 0x100000, "offset": 0, "arch": "x86_64", "codeId": tree.id, "breakpadId": guid(tree.id) + "0"}
    lib.update(dict.fromkeys(("name", "debugName"), "program"), **dict.fromkeys(("path", "debugPath"), "/opt/program"))
    strings = ["(root)", *(hex(base + offset) for offset in offsets)]
    frames = [[i, False, 0, None, None, None, None, 0, None] for i in range(len(strings))]
    stacks = [[None, 0], *([0, i] for i in range(1, len(strings)))]
    thread = {"name": "GeckoMain", "processType": "default", "processName": "program", "registerTime": 0, "unregisterTime": None, "tid": 1, "pid": 1}
    thread["markers"] = table("name startTime endTime phase category data")
    thread["samples"] = table("stack time eventDelay", ([i + 1, float(i), 0.0] for i in range(len(offsets))))
    thread["frameTable"] = table("location relevantForJS innerWindowID implementation optimizations line column category subcategory", frames)
    thread["stackTable"] = table("prefix frame", stacks)
    thread["stringTable"] = strings
    meta = {"version": 27, "startTime": 0, "shutdownTime": None, "interval": 1, "stackwalk": 1, "processType": 0, "product": "program"}
    meta.update({"categories": [{"name": "Other", "color": "grey", "subcategories": ["Other"]}], "markerSchema": []})
    meta["extensions"] = table("id name baseURL")
    return {"meta": meta, "libs": [lib], "pages": [], "counters": [], "pausedRanges": [], "processes": [], "threads": [thread]}


def test_names_assembly_and_source_code(tree, tmp_path):  # noqa: F811
    files, folder = str(tmp_path / "files"), os.path.dirname(tree.program)
    tree.put(files, paths(tree.id)[0], tree.bytes())
    tree.put(files, f".build-id/{tree.id[:2]}/{tree.id[2:]}/elf", tree.bytes(tree.program))
    source = tree.program + ".cpp"
    own = {offset: frame[0] for offset, frame in zip(tree.offsets, tree.whole) if frame[1] == source and not frame[3]}
    profile = str(tmp_path / "profile.json")
    with open(profile, "w", encoding="utf-8") as file:
        json.dump(gecko_profile(tree, list(own)), file)
    profiler = Profiler(tmp_path)
    with Stack(bucket=False, config={"source": [f"elf+file://{files}"], "source_code": [f"{folder}={folder}"]}) as s:
        server = f"http://127.0.0.1:{s.client.port}"
        try:
            functions = {f["name"]: f["functionHandle"] for f in profiler.load(profile, server)["functions"]}
            assert set(own.values()) <= set(functions), functions
            name = next(iter(own.values()))
            asm = profiler.run("function", "annotate", functions[name], "--mode", "asm", "--symbol-server", server)
            assert re.search(r"0x[0-9a-f]+ .*\b(mov|push|sub|lea)\b", asm), asm
            text = profiler.run("function", "annotate", functions[name], "--mode", "src", "--context", "file", "--symbol-server", server)
            with open(source, encoding="utf-8") as file:
                line = max(file.read().splitlines(), key=len).strip()
            assert line in text, text
        finally:
            profiler.run("stop", "--all")
