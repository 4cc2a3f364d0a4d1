# SPDX-License-Identifier: Apache-2.0
"""What waits for somebody else (a bucket, a debuginfod server, a reader) holds no worker, and nobody takes a route from the others:
strangers come from addresses of their own, as 127.0.0.0/8 has enough."""

import contextlib
import http.client
import json
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from client import job
from stack import Bucket, Stack, wait_for
from symbols import SAMPLE, Symbols, debug_id
from test_downloads import path_of
from test_executables import Tree, function_of, guid, tree  # noqa: F401

STALL = "60s"
WORKERS = {"workers": "2", "bucket_stall_timeout": STALL, "bucket_retries": "0", "shutdown_timeout": "0", "request_timeout": "120s"}
SOON = 5  # seconds: long for who is alone, and far below STALL
LARGE = ("FUNC 1000 10 0 a\n" + "1000 10 1 0\n") * 2_000_000  # above what nginx and sockets take
UNKNOWN = "%040x"


def connect(stack, address):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.bind((address, 0))
    s.connect(("127.0.0.1", stack.node.nginx.port))
    return s


def send(stack, address, method, path, body=b""):
    """A request whose reply nobody reads yet."""
    s = connect(stack, address)
    s.sendall(b"%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (method.encode(), path.encode(), len(body), body))
    return s


def ask(stack, method, path, body=None):
    """Of a client of its own: (status, text, seconds)"""
    connection = http.client.HTTPConnection("127.0.0.1", stack.node.nginx.port, timeout=100, source_address=("127.0.0.99", 0))
    began = time.monotonic()
    connection.request(method, path, body)
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    return reply.status, text, time.monotonic() - began


def code_request(ident, start=0x1000, size=16):
    return json.dumps({"debugName": "prog", "debugId": guid(ident) + "0", "name": "prog", "codeId": ident, "startAddress": hex(start), "size": hex(size)}).encode()


@contextlib.contextmanager
def files_of(tree, tmp_path):  # noqa: F811
    """A debuginfod server, the URL of which is a source."""
    tree.put(tmp_path, f"buildid/{tree.id}/debuginfo", tree.bytes())
    tree.put(tmp_path, f"buildid/{tree.id}/executable", tree.bytes(tree.program))
    bucket = Bucket("files", str(tmp_path), Symbols(str(tmp_path)))
    bucket.start()
    bucket.control("hold", path="/buildid/" + (UNKNOWN % 0)[:30])  # of no file that is there
    try:
        yield bucket
    finally:
        bucket.stop()


def check_others(stack, module):
    """Nobody waits for those who wait."""
    for _ in range(5):
        for path in ("/__lbheartbeat__", "/__version__"):
            status, _, seconds = ask(stack, "GET", path)
            assert status == 200 and seconds < SOON, (path, status, seconds)
        status, text, seconds = ask(stack, "POST", "/symbolicate/v5", json.dumps(job([module], [[0, 0x1000]])))
        assert status == 200 and b'"function":"' in text and seconds < SOON, (status, seconds)


@pytest.mark.parametrize("readers", [3, 12])
def test_downloads_that_nobody_reads_hold_no_worker(readers):
    with Stack(config={**WORKERS, "downloads": "stream"}) as s, contextlib.ExitStack() as open_ones:
        module = s.symbols.add("warm.so", SAMPLE)
        large = s.symbols.add("large.so", LARGE)
        check_others(s, module)
        for i in range(readers):
            open_ones.enter_context(send(s, f"127.0.0.{2 + i % 3}", "GET", path_of("large.so")))
        wait_for(lambda: s.bucket.hits(large) >= min(readers, 2), "some to be under way")
        check_others(s, module)
        assert ask(s, "GET", path_of("warm.so"))[0] == 200


@pytest.mark.parametrize("askers", [3, 12])
def test_downloads_from_a_bucket_that_hangs_hold_no_worker(askers):
    with Stack(config={**WORKERS, "downloads": "stream"}) as s, contextlib.ExitStack() as open_ones:
        module = s.symbols.add("warm.so", SAMPLE)
        slow = s.symbols.add("slow.so", SAMPLE)
        check_others(s, module)
        s.bucket.misbehave(slow, "hold")
        for i in range(askers):
            open_ones.enter_context(send(s, f"127.0.0.{2 + i % 3}", "GET", path_of("slow.so")))
        wait_for(lambda: s.bucket.hits(slow) >= 2, "some to be under way")
        check_others(s, module)
        status, _, seconds = ask(s, "GET", path_of("warm.so"))
        assert status == 200 and seconds < SOON


def test_four_downloads_of_one_client_leave_others_theirs():
    with Stack(config={**WORKERS, "downloads": "stream"}) as s, contextlib.ExitStack() as open_ones:
        s.symbols.add("other.so", SAMPLE)
        slow = s.symbols.add("slow.so", SAMPLE)
        s.bucket.misbehave(slow, "hold")
        for _ in range(4):
            open_ones.enter_context(send(s, "127.0.0.2", "GET", path_of("slow.so")))
        wait_for(lambda: s.bucket.hits(slow) >= 2, "some to be under way")
        status, _, seconds = ask(s, "GET", path_of("other.so"))
        assert status == 200 and seconds < SOON, (status, seconds)


@pytest.mark.parametrize("closed", [False, True], ids=["kept", "closed"])
@pytest.mark.parametrize("addresses", [1, 4])
def test_assembly_of_unknown_modules_keeps_nobody_from_it(tree, tmp_path, closed, addresses):  # noqa: F811
    """A debuginfod server that takes its time; some who ask do not even wait."""
    with files_of(tree, tmp_path) as files, contextlib.ExitStack() as open_ones:
        with Stack(config={**WORKERS}, before=[f"debuginfod+{files.url}"]) as s:
            module = s.symbols.add("warm.so", SAMPLE)
            check_others(s, module)
            for i in range(8):
                asker = send(s, f"127.0.0.{2 + i % addresses}", "POST", "/asm/v1", code_request(UNKNOWN % i))
                if not closed:
                    open_ones.enter_context(asker)
                else:
                    wait_for(lambda number=i: len(files.paths()) > number, "it to be asked for")
                    asker.close()
            check_others(s, module)
            start, size = function_of(tree.program, "main")
            status, text, seconds = ask(s, "POST", "/asm/v1", code_request(tree.id, start - tree.image_base, size))
            assert status == 200 and json.loads(text).get("instructions") and seconds < SOON, (status, text, seconds)
            if closed:
                name = 'symbolicated_turnstile_inside{for="code"}'
                wait_for(lambda: s.node.metrics()[name] == 0, "their places to be given back", 15)
                wait_for(lambda: s.node.metrics()['symbolicated_turnstile_inside{for="fetches"}'] == 0, "these too", 15)


def test_source_code_of_modules_that_hang_keeps_nobody_from_it(tree, tmp_path):  # noqa: F811
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.c").write_text("int a;\n")
    symbols = "FILE 0 /slow/a.c\nFILE 1 /quick/a.c\nFUNC 1000 10 0 a\n1000 10 0 0\nFUNC 1010 10 0 b\n1010 10 1 1\n"
    with files_of(tree, tmp_path) as files, contextlib.ExitStack() as open_ones:
        files.control("ok", path="/buildid")
        files.control("status:404", path="/buildid/" + UNKNOWN % 7)
        files.control("hold", path=f"/buildid/{UNKNOWN % 7}/source")
        os.chmod(tmp_path, 0o755)
        config = {**WORKERS, "source_code": [f"/quick={folder}", "debuginfod"]}
        with Stack(config=config, before=[f"debuginfod+{files.url}"]) as s:
            module = s.symbols.add("coded.so", symbols)
            ask(s, "POST", "/symbolicate/v5", json.dumps(job([module], [[0, 0x1000]])))

            def request(file, offset):
                ident = UNKNOWN % 7
                return json.dumps({"debugName": module[0], "debugId": module[1], "codeId": ident, "moduleOffset": hex(offset), "file": file}).encode()

            for i in range(6):
                open_ones.enter_context(send(s, f"127.0.0.{2 + i % 3}", "POST", "/source/v1", request("/slow/a.c", 0x1000)))
            wait_for(lambda: sum(n for p, n in files.paths().items() if "/source" in p) >= 2, "some to be under way")
            check_others(s, module)
            status, text, seconds = ask(s, "POST", "/source/v1", request("/quick/a.c", 0x1010))
            assert status == 200 and json.loads(text).get("source") == "int a;\n" and seconds < SOON, (text, seconds)


@pytest.mark.parametrize("addresses", [1, 4])
def test_executables_that_come_slowly_keep_nobody_from_others(tree, tmp_path, addresses):  # noqa: F811
    with files_of(tree, tmp_path) as files, contextlib.ExitStack() as open_ones:
        with Stack(config={**WORKERS}, before=[f"debuginfod+{files.url}"]) as s:
            for i in range(addresses):
                modules = [["prog", UNKNOWN % (8 * i + j)] for j in range(8)]
                body = json.dumps(job(modules, [[j, 1] for j in range(8)])).encode()
                open_ones.enter_context(send(s, f"127.0.0.{2 + i}", "POST", "/symbolicate/v5", body))
            wait_for(lambda: len(files.paths()) >= min(8 * addresses, 12), "files to be asked for")
            body = json.dumps(job([["prog", tree.id]], [[0, tree.offsets[0]]]))
            status, text, seconds = ask(s, "POST", "/symbolicate/v5", body)
            assert status == 200 and json.loads(text)["results"][0]["stacks"][0][0].get("function") and seconds < 2 * SOON, (status, text, seconds)


def test_executables_of_a_client_that_has_gone_are_fetched_no_further(tree, tmp_path):  # noqa: F811
    """Not even remembered as failed: the next who asks has them fetched."""
    with files_of(tree, tmp_path) as files:
        files.control("hold", path="/buildid/" + tree.id)
        with Stack(config={**WORKERS}, before=[f"debuginfod+{files.url}"]) as s:
            modules = [["prog", ident] for ident in [tree.id, *(UNKNOWN % i for i in range(6))]]
            body = json.dumps(job(modules, [[i, tree.offsets[0]] for i in range(7)])).encode()
            asker = send(s, "127.0.0.2", "POST", "/symbolicate/v5", body)
            inside = 'symbolicated_turnstile_inside{for="fetches"}'
            wait_for(lambda: s.node.metrics()[inside] == 7, "all to be fetched")
            asker.close()
            wait_for(lambda: s.node.metrics()[inside] == 0, "nobody to fetch", 10)
            wait_for(lambda: s.node.metrics()["symbolicated_loads_in_flight"] == 0, "no load to be left", 10)
            files.control("ok", path="/buildid/" + tree.id)
            status, text, _ = ask(s, "POST", "/symbolicate/v5", json.dumps(job([["prog", tree.id]], [[0, tree.offsets[0]]])))
            assert status == 200 and json.loads(text)["results"][0]["stacks"][0][0].get("function"), text


def test_who_waits_for_a_place_gets_it_or_is_told(tmp_path):
    """In a line, for cold_wait; who goes leaves the line."""
    with Stack(config={**WORKERS, "downloads": "stream", "download_parallel": "1", "cold_wait": "4s"}) as s:
        s.symbols.add("other.so", SAMPLE)
        slow = s.symbols.add("slow.so", SAMPLE)
        s.bucket.misbehave(slow, "hold")
        first = send(s, "127.0.0.2", "GET", path_of("slow.so"))
        wait_for(lambda: s.bucket.hits(slow) == 1, "it to be under way")
        waiting = 'symbolicated_turnstile_waiting{for="downloads"}'
        gone = send(s, "127.0.0.3", "GET", path_of("other.so"))
        wait_for(lambda: s.node.metrics()[waiting] == 1, "the second to wait")
        gone.close()
        wait_for(lambda: s.node.metrics()[waiting] == 0, "it to leave the line", 3)
        status, text, seconds = ask(s, "GET", path_of("other.so"))
        assert status == 503 and b"too many downloads" in text and 3.5 < seconds < 4 + SOON
        with ThreadPoolExecutor(1) as pool:
            third = pool.submit(ask, s, "GET", path_of("other.so"))
            wait_for(lambda: s.node.metrics()[waiting] == 1, "the third to wait")
            s.bucket.misbehave(slow, "ok")
            assert third.result()[0] == 200
        first.close()
        assert s.node.metrics()['symbolicated_turnstile_refused_total{for="downloads"}'] == 1


def test_who_waits_for_source_code_takes_no_memory_for_it(tmp_path):
    """Only who has a place reads a file, for which there is room. All who may stand in line would need 2 GiB."""
    bucket = Bucket("files", str(tmp_path), Symbols(str(tmp_path)))
    bucket.start()
    bucket.control("hold", path="/buildid/" + (UNKNOWN % 0)[:30])  # of no file that is there
    config = {**WORKERS, "source_code": "debuginfod", "file_downloads": "stream", "executables_parallel": "1", "cold_wait": "60s", "memory": "512M"}
    try:
        with Stack(config=config, before=[f"debuginfod+{bucket.url}"]) as s, contextlib.ExitStack() as open_ones:
            module = s.symbols.add("warm.so", SAMPLE)
            for i in range(150):
                open_ones.enter_context(send(s, f"127.0.1.{1 + i}", "GET", f"/buildid/{UNKNOWN % i}/source/a.c"))
            wait_for(lambda: s.node.metrics()['symbolicated_turnstile_waiting{for="code"}'] == 138, "all but twelve to wait")
            check_others(s, module)
    finally:
        bucket.stop()


@pytest.mark.parametrize("path", ["/buildid/%s/debuginfo", "/buildid/%s/section/.text", "/buildid/%s/source/a.c"])
def test_files_for_a_debugger_that_has_gone_are_fetched_no_further(tmp_path, path):
    """The source hangs; the place is for others."""
    bucket = Bucket("files", str(tmp_path), Symbols(str(tmp_path)))
    bucket.start()
    bucket.control("hold", path="/buildid/" + (UNKNOWN % 0)[:30])  # of no file that is there
    config = {**WORKERS, "source_code": "debuginfod", "file_downloads": "stream"}
    try:
        with Stack(config=config, before=[f"debuginfod+{bucket.url}"]) as s:
            asker = send(s, "127.0.0.2", "GET", path % (UNKNOWN % 1))
            wait_for(bucket.paths, "it to be asked for")
            asker.close()
            inside = ['symbolicated_turnstile_inside{for="%s"}' % name for name in ("downloads", "code", "fetches")]
            wait_for(lambda: not any(s.node.metrics()[name] for name in inside), "its place to be given back", 15)
    finally:
        bucket.stop()
