# SPDX-License-Identifier: Apache-2.0
"""Debug files and executables from debuginfod: elfutils' own server, and ones that misbehave."""

import contextlib
import http.server
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import threading
import urllib.error
import urllib.request

import pytest

from stack import Stack, die_with_parent, free_port, wait_for
from test_symbtool import BOUND, SYMBTOOL, code_addresses, compile_program, interruptible, one, push, read_terminal, run, v5_frames  # noqa: F401

pytestmark = [
    pytest.mark.skipif(not os.path.exists(SYMBTOOL), reason="symbtool was not built"),
    pytest.mark.skipif(not shutil.which("debuginfod"), reason="debuginfod is not installed"),
]


def build_id_of(path):
    notes = subprocess.run(["readelf", "-n", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r"Build ID: ([0-9a-f]+)", notes)[1]


class Place:
    """What a distribution has: programs without their debug files, which share entries in a third file; and what is asked with."""

    def __init__(self, base):
        self.base = base
        for name in "whole", "served", "here", "cache":
            os.makedirs(base / name)
        self.programs = [compile_program(base / "whole", f"program{i}", 3 + i) for i in range(2)]
        copies = [shutil.copy(p, base / "served") for p in self.programs]
        subprocess.run(["dwz", "-m", base / "served" / "common.debug", "-M", "../gone/common.debug", *copies], check=True, timeout=BOUND)
        self.stripped = []
        for copy in copies:
            subprocess.run(["objcopy", "--only-keep-debug", copy, copy + ".debug"], check=True)
            self.stripped.append(shutil.copy(copy, base / "here"))
            subprocess.run(["strip", self.stripped[-1]], check=True)
            subprocess.run(["strip", copy], check=True)
        self.addresses = [hex(a) for a in code_addresses(self.programs[0])]
        self.whole = self.frames(self.programs[0])

    def env(self, **more):
        return {"DEBUGINFOD_CACHE_PATH": str(self.base / "cache"), "DEBUGINFOD_URLS": "", "DEBUGINFOD_TIMEOUT": "2", **more}

    def frames(self, program, *options, **env):
        done = run("symbolicate", "--json", *options, program, *self.addresses, env=self.env(**env))
        return [(f.get("function"), f.get("file"), f.get("line"), f.get("inlines")) for f in v5_frames(done.stdout)]

    def empty_cache(self):
        shutil.rmtree(self.base / "cache")
        os.makedirs(self.base / "cache")

    def cached(self):
        return sorted(name for _, _, names in os.walk(self.base / "cache") for name in names if name not in ("cache_clean_interval_s", "max_unused_age_s", "cache_miss_s"))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("debuginfod"))


def serves(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False


@contextlib.contextmanager
def debuginfod(base, build_ids, *what):
    """The URL of elfutils' server, when it has the debug files of these."""
    port = free_port()
    with open(base / "server.log", "wb") as log:
        process = subprocess.Popen(["debuginfod", "-p", str(port), "-d", str(base / "index.sqlite"), *what],
                                   stdout=log, stderr=log, preexec_fn=die_with_parent, env={**os.environ, "DEBUGINFOD_URLS": "", "TMPDIR": str(base)})
    url = f"http://127.0.0.1:{port}"
    try:
        for build_id in build_ids:
            wait_for(lambda i=build_id: serves(f"{url}/buildid/{i}/debuginfo"), "debuginfod's index", BOUND)
        yield url
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def server(place):
    files = [*place.stripped, place.base / "served" / "common.debug"]
    with debuginfod(place.base, map(build_id_of, files), "-F", str(place.base / "served")) as url:
        for path in place.stripped:
            wait_for(lambda p=path: serves(f"{url}/buildid/{build_id_of(p)}/executable"), "debuginfod's index")
        yield url


@pytest.mark.slow
def test_without_servers_nothing_is_asked(place):
    place.empty_cache()
    done = run("symbolicate", place.stripped[0], place.addresses[0], env=place.env(), code=1)
    assert "no debug data, nor below /usr/lib/debug: install them, or give" in done.stderr and place.cached() == []


@pytest.mark.slow
def test_debug_files_and_shared_ones_are_fetched_and_kept(place, server):
    place.empty_cache()
    assert place.frames(place.stripped[0], "--debuginfod", server) == place.whole
    assert place.cached() == ["debuginfo", "debuginfo"]
    assert place.frames(place.stripped[0], DEBUGINFOD_URLS=f"http://127.0.0.1:{free_port()}") == place.whole  # from the cache


def test_the_environment_names_servers(place, server):
    place.empty_cache()
    assert place.frames(place.stripped[0], DEBUGINFOD_URLS=server) == place.whole


def test_what_is_not_on_this_machine_is_pushed(one, place, server):  # noqa: F811
    place.empty_cache()
    ids = [build_id_of(p) for p in place.stripped]
    done = push(one, "--json", "--build-id", ids[0], "--build-id", ids[1], "--debuginfod", server, env=place.env())
    for path, line in zip(place.stripped, done.stdout.splitlines(), strict=True):
        pushed = json.loads(line)
        assert pushed["file_id"] == run("file-id", path).stdout.split()[0] and pushed["sent"] == 2
    again = push(one, "--json", "--build-id", ids[0], env=place.env(DEBUGINFOD_URLS=server))
    assert json.loads(again.stdout)["sent"] == 0
    for wrong, word in (("00" * 20, "no debuginfod server has build id 0000"), ("abc", "not a build id"), ("xy", "not a build id")):
        assert word in push(one, "--build-id", wrong, "--debuginfod", server, env=place.env(), code=1).stderr
    assert "--build-id needs --debuginfod" in push(one, "--build-id", ids[0], env=place.env(), code=2).stderr


class Misbehaving(http.server.BaseHTTPRequestHandler):
    """Stalls, cuts or gives another file, as its server is told."""

    def do_GET(self):
        self.server.asked.set()
        data = self.server.data
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        half = len(data) // 2
        self.wfile.write(data if self.server.mode == "other" else data[:half])
        self.wfile.flush()
        if self.server.mode in ("stall", "slow"):
            self.server.over.wait(BOUND)
        if self.server.mode == "slow":
            self.wfile.write(data[half:])

    def log_message(self, *_):
        pass


@pytest.fixture
def bad(place):
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Misbehaving)
    s.daemon_threads = True
    s.asked, s.over, s.mode = threading.Event(), threading.Event(), "other"
    with open(place.programs[1], "rb") as f:
        s.data = f.read()
    thread = threading.Thread(target=s.serve_forever, daemon=True)
    thread.start()
    yield s
    s.over.set()
    s.shutdown()
    s.server_close()


@pytest.mark.slow
@pytest.mark.parametrize("mode, word", [("other", "debuginfod sent the wrong file for build id"), ("cut", "from debuginfod: "), ("stall", "from debuginfod: ")])
def test_bad_servers_are_told_and_cost_nothing_else(place, bad, mode, word, tmp_path):
    place.empty_cache()
    bad.mode = mode
    url = f"http://127.0.0.1:{bad.server_port}"
    done = run("extract", "-o", tmp_path, "--debuginfod", url, place.stripped[0], env=place.env(), code=1)
    assert word in done.stderr and build_id_of(place.stripped[0]) in done.stderr and "neither debug data" in done.stderr
    assert bad.asked.is_set() and place.cached() == []


@pytest.mark.slow
def test_a_terminal_shows_how_far_it_is(place, bad, tmp_path):
    place.empty_cache()
    bad.mode = "slow"
    with open(place.programs[0], "rb") as f:
        bad.data = f.read()
    ours, theirs = pty.openpty()
    process = subprocess.Popen([SYMBTOOL, "extract", "-o", str(tmp_path), "--debuginfod", f"http://127.0.0.1:{bad.server_port}", place.stripped[0]],
                               env={**os.environ, **place.env(DEBUGINFOD_TIMEOUT="100")}, stdout=subprocess.DEVNULL, stderr=theirs, preexec_fn=die_with_parent)
    os.close(theirs)
    seen = b""
    try:
        while chunk := read_terminal(ours):  # ends with the process
            seen += chunk
            if b" % of " in seen:
                bad.over.set()
        assert process.wait(BOUND) == 0, seen
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert re.search(rb"debug file: \[#+\.+\] +\d+ %% of %d bytes" % len(bad.data), seen), seen
    assert len(os.listdir(tmp_path)) == 2


def test_an_interrupt_leaves_nothing_behind(place, bad, tmp_path):
    place.empty_cache()
    bad.mode = "stall"
    process = subprocess.Popen([SYMBTOOL, "extract", "-o", str(tmp_path), "--debuginfod", f"http://127.0.0.1:{bad.server_port}", place.stripped[0]],
                               env={**os.environ, **place.env(DEBUGINFOD_TIMEOUT="100")}, stderr=subprocess.PIPE, preexec_fn=interruptible)
    try:
        assert bad.asked.wait(BOUND)
        wait_for(lambda: place.cached() != [], "a file that is fetched in part")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=BOUND)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGINT and place.cached() == [] and os.listdir(tmp_path) == []


# ---- a crash of a program of Debian's ----

DAMAGED = """
local chunk = string.dump(load("local t = {} ; return t.alpha + t.beta"), true)
local at = tonumber(arg[1])
pcall(load(chunk:sub(1, at - 1) .. "\\255" .. chunk:sub(at + 1), "damaged", "b"))
"""
BUILD_IDS = 'python print("\\n".join(f"Module {o.filename} with build-id {o.build_id}" for o in gdb.objfiles() if o.build_id))'
FRAME = re.compile(r"#(\d+) +0x([0-9a-f]{16}) in ")


class Crash:
    """Debian's lua5.4 runs damaged bytecode, and gdb, which has no debug files, tells where it crashed. The package of its debug
    symbols, whose files share entries in a third one (dwz -m), is in debuginfod only, and elfutils' addr2line, which asks there
    too, says what each frame is: (function, file, line), innermost first."""

    def __init__(self, base):
        self.base = base
        os.makedirs(base / "debs")
        got = subprocess.run(["apt-get", "-q", "download", "lua5.4", "liblua5.4-0-dbg"], cwd=base / "debs", capture_output=True, text=True, check=False, timeout=BOUND)
        if got.returncode:
            pytest.skip(f"Debian's packages are not to be had: {got.stderr}")
        for package in os.listdir(base / "debs"):
            subprocess.run(["dpkg-deb", "-x", base / "debs" / package, base / package.split("_")[0]], check=True)
        self.program = str(base / "lua5.4" / "usr" / "bin" / "lua5.4")
        self.build_id = build_id_of(self.program)
        self.debug_ids = [self.build_id, *map(build_id_of, (base / "liblua5.4-0-dbg" / "usr" / "lib" / "debug" / ".dwz").rglob("*.debug"))]
        (base / "damaged.lua").write_text(DAMAGED)
        told = []
        for command in "run", "backtrace", "info proc mappings", BUILD_IDS:
            told += ["-ex", command]
        gdb = ["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set debug-file-directory /nowhere", *told]
        # What the damage of a byte does depends on what lies in memory: the first that ends like this is taken.
        assert any(self.crashes([*gdb, "--args", self.program, str(base / "damaged.lua"), str(at)]) for at in range(50, 80)), self.report
        self.offsets = [a - self.start - (n > 0) for n, a in self.addresses]  # a caller's call is before its return address

    def crashes(self, command):
        """Whether it does so in the program, some calls deep; then there is the report."""
        try:
            self.report = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout
        except subprocess.TimeoutExpired as e:
            self.report = str(e)
        mapped = re.findall(rf"0x(\w+) +0x(\w+) .* {re.escape(self.program)}$", self.report, re.M)
        if "received signal SIGSEGV" not in self.report or not mapped:
            return False
        self.start, end = int(mapped[0][0], 16), int(mapped[-1][1], 16)
        self.addresses = [(int(n), int(a, 16)) for n, a in FRAME.findall(self.report) if self.start <= int(a, 16) < end]
        return len(self.addresses) > 10 and self.addresses[0][0] == 0

    def judge(self, url):
        env = {**os.environ, "DEBUGINFOD_URLS": url, "DEBUGINFOD_CACHE_PATH": str(self.base / "cache")}
        said = subprocess.run(["eu-addr2line", "-a", "-f", "-i", "-e", self.program, *map(hex, self.offsets)], env=env, stdout=subprocess.PIPE, text=True, check=True, timeout=BOUND)
        self.frames = []
        for block in re.split(r"^0x\w+\n", said.stdout, flags=re.M)[1:]:
            lines = block.splitlines()
            places = [line.split(":") for line in lines[1::2]]
            self.frames.append([(name.split(" ")[0], *((p[0], int(p[1])) if p[0] != "??" else (None, None))) for name, p in zip(lines[::2], places, strict=True)])

    def named(self):
        """The report as it should be: all names that gdb lacks."""
        text = self.report
        for (number, address), frames in zip(self.addresses, self.frames, strict=True):
            names = ", inlined by ".join(f"{name} at {file}:{line}" if file else name for name, file, line in frames)
            text = re.sub(rf"^(#{number} +0x{address:016x} in )\?\? \(\)$", lambda m, n=names: m[1] + n, text, flags=re.M)
        return text

    def rows(self):
        """The words of the page's rows for frames that gdb has no name for."""
        out = []
        for (number, _), offset, frames in zip(self.addresses, self.offsets, self.frames, strict=True):
            if re.search(rf"^#{number} .* in \?\? \(\)$", self.report, re.M):
                words = [[name, "inlined", f"{file}:{line}"] for name, file, line in frames]
                del words[-1][1 : 2 if frames[-1][1] else 3]
                words[-1].append(f"lua5.4+{offset:#x}")
                words[0].insert(0, f"#{number}")
                out += words
        return out


@pytest.fixture(scope="module")
def crash(tmp_path_factory):
    if not all(map(shutil.which, ["apt-get", "dpkg-deb", "gdb", "eu-addr2line"])):
        pytest.skip("no Debian, gdb or elfutils here")
    c = Crash(tmp_path_factory.mktemp("crash"))
    with debuginfod(c.base, c.debug_ids, "-Z", ".deb=dpkg-deb --fsys-tarfile", str(c.base / "debs")) as url:
        c.judge(url)
        assert len(c.frames) > 10 and any(len(f) > 1 for f in c.frames) and all(f[0][0] != "??" for f in c.frames)
        with Stack(bucket=False, config={"source": [f"debuginfod+{url}"]}) as c.stack:
            yield c


@pytest.mark.slow
def test_a_crash_of_debians_program_by_v5(crash):
    frames = crash.stack.client.frames(["lua5.4", crash.build_id], crash.offsets)
    assert [[(i.get("function"), i.get("file"), i.get("line")) for i in [*f.get("inlines", []), f]] for f in frames] == crash.frames


@pytest.mark.slow
def test_a_crash_of_debians_program_as_text(crash):
    reply = crash.stack.client.post("/symbolicate/text", crash.report.encode())
    assert reply.status == 200 and reply.text == crash.named()
    assert reply.text.count(" in ?? ()") <= 2  # in libc, of which nobody has debug files here


@pytest.mark.slow
@pytest.mark.plain
def test_a_crash_of_debians_program_on_the_page(crash, tmp_path):
    browser = pytest.importorskip("browser")
    if not (browser.CHROMIUM and browser.DRIVER):
        pytest.skip("chromium and chromium-driver are not installed")
    with browser.browser(tmp_path) as driver:
        page = browser.Page(driver, crash.stack.node.nginx.port).open()
        rows = page.send(crash.report).result("_start")
        page.quiet()
    assert [row.split() for row in rows if " inlined " in row or "lua5.4+" in row] == crash.rows()
