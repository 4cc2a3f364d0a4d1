# SPDX-License-Identifier: Apache-2.0
"""What README tells a new user to do with a stack: ./run, the page's sample, a program that crashes, its report on the page and through
the filter. And a program that is pushed once, asked for as each of its users does."""

import json
import os
import re
import shutil
import subprocess
import sys
import types

import pytest

from client import job
from stack import DAEMON, ROOT, Server, Stack
from test_build_ids import debug_id
from test_filter import BOUND, HOT, SOURCE, SYMBTOOL, build_id, compile_c, crash, filtered, line_of
from browser import CHROMIUM, DRIVER, Page, chromium

pytestmark = pytest.mark.skipif(not os.path.exists(SYMBTOOL), reason="symbtool was not built")


class Run(Server):
    """./run, when all is built."""

    def __init__(self, directory):
        super().__init__("run", str(directory))

    def start(self):
        self.spawn([sys.executable, os.path.join(ROOT, "tests", "tools", "run_local.py"), "--program", os.path.abspath(DAEMON[-1])])
        self.ready(lambda: "ready http" in self.said())
        self.port = int(re.search(r"ready http://127\.0\.0\.1:(\d+)", self.said()).group(1))
        self.key_file = re.search(r"(?m)^logs: (.*)$", self.said()).group(1) + "/api-key"
        self.url = f"http://127.0.0.1:{self.port}"

    def said(self):
        with open(self.log, encoding="utf-8") as f:
            return f.read()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    one = Run(tmp_path_factory.mktemp("run"))
    one.start()
    yield one
    one.stop()


def push(url, key_file, program):
    command = [SYMBTOOL, "push-symbols", "--url", url, "--api-key-file", key_file, program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_https_commands_that_run_prints_work(run):
    """With the certificate that ./run has made."""
    commands = re.findall(r"(?m)^curl .*https://.*$", run.said())
    assert commands
    for command in commands:
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=BOUND)
        assert done.returncode == 0 and '"results"' in done.stdout, (command, done)


@pytest.mark.slow
@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromium-driver are not installed")
@pytest.mark.parametrize("compiler, option", [("gcc", "-pie"), ("gcc", "-no-pie"), ("clang", "-pie")])
def test_a_crash_is_named_alike_on_the_page_and_by_the_filter(run, tmp_path, compiler, option):
    driver = chromium(tmp_path)
    try:
        page = Page(driver, run.port).open()
        page.sample("json")
        page.result("str_to_mpn")

        program = compile_c(str(tmp_path), "program", SOURCE, "-fsanitize=address", option, "-Wl,--build-id=sha1", compiler=compiler)
        report = crash(program, "ASAN_OPTIONS")
        push(run.url, run.key_file, program)
        by_files, by_server = places(filtered(report)), places(filtered(report, "--url", run.url))
        assert [p for p in by_files if p[0] in ("inlined", "faulty", "main")][:3] == [(f, line_of(SOURCE, f)) for f in ("inlined", "faulty", "main")]
        assert by_server == by_files

        page.open()
        if "BuildId" not in report:  # gcc before 13 and clang before 15 do not write it
            page.put(f"program={build_id(program)}", "modules").put(report).click("send")
        else:
            page.send(report)
        page.result("faulty", "main")
        page.click("view-report")
        lines = page.wait("the report", lambda: page.rows("report"))
        assert [p for p in places("\n".join(lines)) if p in by_files] == by_files
        page.click("view-frames")
        page.shot(f"crash-{compiler}{option}")
        page.quiet()
    finally:
        driver.quit()


def places(text):
    """(function, line) of the frames of the program in a report with names, inlined calls after one another."""
    return [(f, int(line)) for f, line in re.findall(r"(\w+) \S*program\.c:(\d+)", text)]


# ---- pushed once ----


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    place = tmp_path_factory.mktemp("store")
    os.makedirs(place / "store")
    with Stack(keys=True, config={"symbfile_store": f"file://{place}/store"}) as s:
        s.key_file = str(place / "key")
        with open(s.key_file, "w", encoding="utf-8") as f:
            f.write(s.key + "\n")
        s.url = f"http://127.0.0.1:{s.node.nginx.port}"
        yield s


@pytest.fixture(params=["-pie", "-no-pie"])
def pushed(request, one, tmp_path):
    """A program that was pushed: what is left of it is the stripped copy that runs."""
    program = compile_c(str(tmp_path), "whole", HOT, "-O1", request.param, "-Wl,--build-id=sha1")
    stripped = str(tmp_path / "hot")
    subprocess.run(["strip", "-o", stripped, program], check=True)
    push(one.url, one.key_file, program)
    offset, ident = hot_offset(program), build_id(program)
    os.remove(program)
    base = 0x400000 if request.param == "-no-pie" else 0
    return types.SimpleNamespace(path=stripped, offset=offset, address=offset + base, build_id=ident)


PLACE = f"whole.c:{line_of(HOT, 'hot')}"


# What node's fetch sends with a string for a body.
NODE = {
    "Connection": "keep-alive",
    "Content-Type": "text/plain;charset=UTF-8",
    "Accept": "*/*",
    "Accept-Language": "*",
    "Sec-Fetch-Mode": "cors",
    "User-Agent": "node",
    "Accept-Encoding": "gzip, deflate",
}


@pytest.mark.parametrize("path", ["/symbolicate/v5", "//symbolicate/v5"])
def test_the_request_of_profiler_cli(one, pushed, path):
    """Debug ids and offsets in the image, one job for each library whose one stack is all its addresses: requestSymbols of
    src/profile-logic/mozilla-symbolication-api.ts, sent by src/symbolicator-cli/index.ts of firefox-devtools/profiler. A --server that
    ends in a slash gives the second path."""
    hot, nobody = ["hot", debug_id(bytes.fromhex(pushed.build_id))], ["nobody.so", debug_id(bytes(20))]
    jobs = [job([hot], [[0, pushed.offset], [0, 0xFFFFFF]]), job([nobody], [[0, 0x1000]])]
    reply = one.client.request("POST", path, json.dumps({"jobs": jobs}, separators=(",", ":")), NODE)
    assert reply.status == 200
    found, missing = reply.json()["results"]
    assert found["found_modules"] == {"/".join(hot): True} and missing["found_modules"] == {"/".join(nobody): False}
    frame, unknown = found["stacks"][0]
    assert frame["function"] == "hot" and f"{os.path.basename(frame['file'])}:{frame['line']}" == PLACE
    assert int(frame["function_offset"], 16) < int(frame["function_size"], 16) and frame["module_offset"] == hex(pushed.offset)
    assert "function" not in unknown and "function" not in missing["stacks"][0][0]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("perf"), reason="linux-perf is not installed")
def test_the_text_of_perf(one, pushed, tmp_path):
    data = str(tmp_path / "perf.data")
    env = {**os.environ, "HOME": str(tmp_path)}  # where perf keeps copies of what it saw
    command = ["perf", "record", "-e", "cpu-clock:u", "-F", "199", "-g", "-o", data, pushed.path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, env=env)
    if done.returncode:
        pytest.skip("perf may not count here: " + done.stderr.strip().splitlines()[-1])
    script = subprocess.run(["perf", "script", "-i", data], capture_output=True, text=True, timeout=BOUND, check=True, env=env).stdout
    assert f"[unknown] ({pushed.path})" in script
    frames = script.count(f"[unknown] ({pushed.path})")

    def named(text):
        """Samples lie on any line of the function, and where is up to the processor."""
        return len(re.findall(r"\bhot at \S*whole\.c:\d+", text))

    # by the file that ran, which is stripped
    assert named(filtered(script, "--url", one.url)) > frames / 4
    os.remove(pushed.path)
    # by what the user says, on the command line and in the text
    assert named(filtered(script, "--url", one.url, "--module", f"hot={pushed.build_id}")) > frames / 4
    text = f"MODULE Linux x86_64 {debug_id(bytes.fromhex(pushed.build_id))} hot\n{script}"
    assert named(one.client.post("/symbolicate/text", text).text) > frames / 4


@pytest.mark.slow
def test_addresses_of_a_stripped_copy(one, pushed):
    done = subprocess.run([SYMBTOOL, "symbolicate", "--url", one.url, pushed.path, hex(pushed.address)], capture_output=True, text=True, timeout=BOUND)
    assert done.returncode == 0 and "hot at " in done.stdout and PLACE in done.stdout, done


def hot_offset(program):
    """In the image, of an instruction on the line that is marked."""
    out = subprocess.run(["objdump", "-dl", "--no-show-raw-insn", program], capture_output=True, text=True, check=True).stdout
    address = int(re.search(rf"{PLACE}\b[^\n]*\n *([0-9a-f]+):", out).group(1), 16)
    return address - 0x400000 if address >= 0x400000 else address
