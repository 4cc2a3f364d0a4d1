# SPDX-License-Identifier: Apache-2.0
"""symbtool's --url takes what people have, and errors say what to do. Names as people want them: --short-names, -s."""

import http.server
import json
import os
import re
import subprocess
import threading

import pytest

from stack import Stack
from symbols import SAMPLE, debug_id
from test_symbtool import BOUND, PROGRAM, SYMBTOOL, run

pytestmark = pytest.mark.skipif(not os.path.exists(SYMBTOOL), reason="symbtool was not built")

APP = ["app", debug_id("app")]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    place = tmp_path_factory.mktemp("urls")
    (place / "store").mkdir()
    with Stack(keys=True, config={"symbfile_store": f"file://{place}/store"}) as s:
        s.key_path = str(place / "key")
        with open(s.key_path, "w", encoding="utf-8") as f:
            f.write(s.key + "\n")
        assert s.symbols.add(APP[0], SAMPLE, APP[1]) == APP
        yield s


def https(stack):
    return f"https://127.0.0.1:{stack.node.nginx.tls_port}"


def plain(stack):
    return f"http://127.0.0.1:{stack.node.nginx.port}"


class Redirecting(http.server.ThreadingHTTPServer):
    """Sends all to another place, and keeps what came."""

    def __init__(self, to, arrived=lambda: None, busy=0):
        self.seen = []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.seen.append((self.command, self.path, self.headers.get("Authorization")))
                arrived()
                self.send_response(503 if len(server.seen) <= busy else 301)
                self.send_header("Location", to + self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_POST = do_GET

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


def asked(*arguments, env=None, code=0):
    done = subprocess.run([SYMBTOOL, *arguments], capture_output=True, text=True, timeout=BOUND, env={**os.environ, **(env or {})})
    assert done.returncode == code, done
    return done


QUESTION = [f"{APP[0]}/{APP[1]}", "0x1014"]


@pytest.mark.parametrize("tail", ["", "/", "/index.html", "/#module=a", "/?x=1", "/symbolicate/v5", "/symbolicate/text?module=a=b"])
def test_a_url_of_the_page_or_a_route_is_taken(one, tail):
    assert "main at src/main.c:20" in asked("symbolicate", "--url", plain(one) + tail, *QUESTION).stdout


def test_the_url_comes_from_the_environment(one):
    assert "main at src/main.c:20" in asked("symbolicate", *QUESTION, env={"SYMBTOOL_URL": plain(one)}).stdout
    done = asked("symbolicate", PROGRAM, "0x0", "--url=", "--json", env={"SYMBTOOL_URL": "http://127.0.0.1:1"})
    assert done.stdout.startswith("{") and not done.stderr
    assert "--url is missing" in asked("list", code=2).stderr
    env = {"SYMBTOOL_URL": plain(one), "SYMBTOOL_API_KEY_FILE": one.key_path}
    assert "FileID" in asked("push-symbols", PROGRAM, env=env).stdout
    listed = asked("list", PROGRAM, env=env).stdout.splitlines()
    assert listed[0].split() == ["file", "id", "time", "kind", "bytes", "quality", "program", "uploader", "set"]
    assert len(listed) == 3 and all(line.startswith("* ") and f" {os.path.basename(PROGRAM)} " in line for line in listed[1:])
    ident = asked("file-id", PROGRAM).stdout.split()[0]
    assert listed[1].split()[1] == ident and asked("list", ident, env=env).stdout.splitlines() == listed
    assert "No such file" in asked("list", "./nothing", env=env, code=1).stderr


def test_http_that_sends_on_to_https_is_followed_and_the_key_is_never_sent_over_it(one):
    options = ["--insecure"]
    with Redirecting(https(one)) as http_server:
        done = asked("symbolicate", "--url", http_server.url, *options, *QUESTION)
        assert "main at src/main.c:20" in done.stdout and [s[2] for s in http_server.seen] == [None]
        http_server.seen.clear()
        done = asked("push-symbols", "--url", http_server.url, *options, "--api-key-file", one.key_path, PROGRAM)
        assert "FileID" in done.stdout and http_server.seen == [("GET", "/__version__", None)]
    with Redirecting("http://127.0.0.1:1/other") as http_server:
        done = asked("symbolicate", "--url", http_server.url, *QUESTION, code=1)
        assert "it is now http://127.0.0.1:1/other/symbolicate/v5: give that as --url" in done.stderr and len(http_server.seen) == 1
        http_server.seen.clear()
        done = asked("list", "--url", http_server.url, "--api-key-file", one.key_path, code=1)
        assert "it is now http://127.0.0.1:1" in done.stderr and all(key is None for _, _, key in http_server.seen)


def test_a_key_is_not_sent_by_http_because_that_is_busy(one):
    with Redirecting(https(one), busy=2) as http_server:
        done = asked("push-symbols", "--url", http_server.url, "--insecure", "--api-key-file", one.key_path, PROGRAM)
        assert "503; trying again" in done.stderr and http_server.seen == [("GET", "/__version__", None)] * 3


def test_one_of_several_connections_asks_whether_http_sends_on_to_https(one):
    both = threading.Barrier(2)

    def meet():
        try:
            both.wait(0.5)
        except threading.BrokenBarrierError:
            pass

    with Redirecting(https(one), meet) as http_server:
        options = ["--insecure", "--api-key-file", one.key_path, "--force", "--part-size", "1024", "--parallel", "2"]
        assert "FileID" in asked("push-symbols", "--url", http_server.url, *options, PROGRAM).stdout
        assert http_server.seen == [("GET", "/__version__", None)]


def test_errors_name_the_url_and_the_cure(one):
    done = asked("symbolicate", "--url", https(one), "--retry-time", "0", *QUESTION, code=1)
    assert https(one) in done.stderr and "--ca-file FILE trusts a certificate of your own" in done.stderr
    done = asked("symbolicate", "--url", plain(one) + "/docs", "--retry-time", "0", *QUESTION, code=1)
    assert plain(one) + "/docs/symbolicate/v5: 404" in done.stderr
    done = asked("symbolicate", "--url", "symbols.example.org", *QUESTION, code=2)
    assert "symbols.example.org: not an http:// or https:// URL; try https://symbols.example.org" in done.stderr


def test_did_you_mean():
    for word, meant in (("symbolize", "symbolicate"), ("push", "push-symbols"), ("simbolicate", "symbolicate"), ("chekc", "check"), ("rm", "remove"), ("fileid", "file-id")):
        assert f"did you mean {meant}?" in asked(word, code=2).stderr
    assert "a file, not a verb" in asked(PROGRAM, code=2).stderr
    assert "did you mean --module?" in asked("symbolicate", "--modul", "x", code=2).stderr
    assert "did you mean" not in asked("symbolicate", "--xyzzy", code=2).stderr


def test_a_stripped_file_says_so(tmp_path):
    whole, stripped = str(tmp_path / "whole"), str(tmp_path / "app")
    subprocess.run(["gcc", "-nostdlib", "-static", "-x", "c", "-", "-o", whole], input=b"void _start(void) { for (;;); }\n", check=True)
    subprocess.run(["strip", "-o", stripped, whole], check=True)
    done = run("symbolicate", "--debug-dir", str(tmp_path / "none"), stripped, "0x401000", code=1)
    assert f"{stripped}: stripped: neither debug data nor symbols" in done.stderr and done.stdout.startswith("app+0x401000  ??"), done
    done = run("symbolicate", whole, "0x99999999", code=1)
    assert "stripped" not in done.stderr and re.search(r"\?\? +(no function|wrong offset)", done.stdout), done


NAMES = {
    "a::b<c, d<e>>::f(int, char const*) const": "a::b<…>::f(…) const",
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::size()": "std::string::size()",
    "std::__1::basic_string<char, std::__1::char_traits<char>, std::__1::allocator<char>>::size() const": "std::string::size() const",
    "(anonymous namespace)::f(int)": "{anon}::f(…)",
    "<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend::h0123456789abcdef": "<alloc::vec::Vec<…> as core::iter::Extend<…>>::extend",
    "core[0123456789abcdef]::panicking::panic": "core::panicking::panic",
    "operator<<(std::ostream&, a<b> const&)": "operator<<(…)",
    "x::operator()(int) const": "x::operator()(…) const",
    "f(int)::{lambda(int)#1}::operator()(int) const": "f(…)::{lambda#1}::operator()(…) const",
    "operator new[](unsigned long)": "operator new[](…)",
    "a->b<c>": "a->b<…>",
    "plain": "plain",
    "broken<(>": "broken<(>",
    "xoperator<a>()": "xoperator<…>()",
}


def test_short_names_and_basenames(tmp_path):
    path = tmp_path / "names.sym"
    lines = ["MODULE Linux x86_64 000000000000000000000000000000000 names", "FILE 0 C:\\\\src\\\\a.c".replace("\\\\", "\\"), "FILE 1 /src/dir/b.c"]
    for i, name in enumerate(NAMES):
        lines += [f"FUNC {0x1000 + 16 * i:x} 10 0 {name}", f"{0x1000 + 16 * i:x} 10 {i + 1} {i % 2}"]
    path.write_text("\n".join(lines) + "\n")
    addresses = [f"{0x1000 + 16 * i:#x}" for i in range(len(NAMES))]
    out = run("symbolicate", "--short-names", "-s", str(path), *addresses).stdout.splitlines()
    assert [line.split("  ", 1)[1] for line in out] == [f"{short} at {'b.c' if i % 2 else 'a.c'}:{i + 1}" for i, short in enumerate(NAMES.values())]
    out = run("symbolicate", str(path), *addresses).stdout.splitlines()
    assert [line.split("  ", 1)[1].split(" at ")[0] for line in out] == list(NAMES)
    text = "".join(f"names.so+{a}\n" for a in addresses)
    done = subprocess.run([SYMBTOOL, "symbolicate", "--filter", "--short-names", "--module", f"names.so={path}"], input=text, capture_output=True, text=True, timeout=BOUND)
    assert [line.split(" (", 1)[1].split(" at ")[0] for line in done.stdout.splitlines()] == list(NAMES.values())


def test_short_names_are_those_of_the_page(tmp_path):
    if not any(os.access(os.path.join(p, "node"), os.X_OK) for p in os.environ["PATH"].split(":")):
        pytest.skip("no node")
    names = os.path.join(os.path.dirname(__file__), "..", "..", "web", "names.js")
    (tmp_path / "names.mjs").write_text(open(names, encoding="utf-8").read())
    code = 'import { shortName } from "./names.mjs"; for (const n of JSON.parse(process.argv[2])) console.log(shortName(n));'
    (tmp_path / "run.mjs").write_text(code)
    out = subprocess.run(["node", "run.mjs", json.dumps(list(NAMES))], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=BOUND)
    assert out.stdout.splitlines() == list(NAMES.values())


def test_basenames_of_files_in_repositories(tmp_path):
    files = {"hg:hg.mozilla.org/mozilla-central:xpcom/a.cpp:0123456789ab": "a.cpp", "git:github.com/o/r:src/b.rs:0123456": "b.rs", "s3:bucket:0123/c.h:": "c.h", "s3:d/e.c": "e.c", "git:": "git:"}
    lines = [f"MODULE Linux x86_64 {debug_id('app')} app", *(f"FILE {i} {name}" for i, name in enumerate(files)), "FUNC 1000 100 0 f"]
    lines += [f"{0x1000 + 16 * i:x} 10 7 {i}" for i in range(len(files))]
    path = tmp_path / "app.sym"
    path.write_text("\n".join(lines) + "\n")
    done = asked("symbolicate", "-s", str(path), *(hex(0x1000 + 16 * i) for i in range(len(files))))
    assert [line.split(" at ")[1] for line in done.stdout.splitlines()] == [f"{name}:7" for name in files.values()]
