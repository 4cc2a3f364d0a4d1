# SPDX-License-Identifier: Apache-2.0
"""The benchmark itself: that each line works, what its load client counts, and that its page has its lines."""

import fcntl
import hashlib
import http.server
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

from stack import DAEMON, ROOT, Server, connects, free_port, has_sanitizer

BENCH = os.path.join(ROOT, "tests", "bench")
sys.path.append(BENCH)
import report  # noqa: E402
from inputs import http_request  # noqa: E402
from picture import of_target, picture  # noqa: E402

BUILD = os.path.dirname(os.path.abspath(DAEMON[-1]))
PROGRAMS = [f"tests/bench/{name}" for name in ("link", "load", "null_responder")]
PAGE = os.path.join(ROOT, "docs", "performance.md")


@pytest.fixture(scope="module")
def programs():
    """One make at a time: the tests run in several processes."""
    with open(os.path.join(BUILD, ".bench.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "-s", "-C", BUILD, *PROGRAMS], check=True, stdout=subprocess.DEVNULL, timeout=300)
    return os.path.join(BUILD, "tests", "bench")


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers at once, in the way that the path says; the 20th request of all is answered after PAUSE."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    PAUSE = 2

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1
        if self.server.asked == 20:
            time.sleep(self.PAUSE)
        body = b"0123456789" * 5000
        self.send_response(200)
        if self.path == "/length":
            self.send_header("Content-Length", str(len(body)))
        elif self.path == "/chunks":
            self.send_header("Transfer-Encoding", "chunked")
            pieces = [body[:1], body[1:17], body[17:40000], body[40000:]]
            body = b"".join(b"%x;name=value\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\nTrailer: yes\r\n\r\n"
        else:
            self.close_connection = True
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as s:
        s.asked = 0
        thread = threading.Thread(target=s.serve_forever, args=(0.05,))
        thread.start()
        yield s
        s.shutdown()
        thread.join()


def load(programs, server, tmp_path, path, *options):
    requests = tmp_path / "requests"
    requests.write_bytes(http_request(b"{}", path=path))
    command = [os.path.join(programs, "load"), *map(str, options), str(server.server_address[1]), str(requests)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/length", "/chunks", "/close"])
def test_load_understands_each_end_of_a_body(programs, server, tmp_path, path):
    found = load(programs, server, tmp_path, path, "-n", 10)
    assert (found["requests"], found["all"], found["errors"], found["bytes"]) == (10, 10, 0, 500_000)


@pytest.mark.slow
def test_an_open_loop_counts_from_when_a_request_was_due(programs, server, tmp_path):
    """One reply in 60 is late. A closed loop has one slow request; of an open one all that were due meanwhile are."""
    closed = load(programs, server, tmp_path, "/length", "-n", 60)
    assert closed["max"] >= 2_000_000 and closed["p99"] < 1_800_000
    server.asked = 0
    opened = load(programs, server, tmp_path, "/length", "-n", 60, "-r", 50)
    assert opened["requests"] == 60 and opened["behind"] == 0 and opened["seconds"] >= 59 / 50
    # 40 requests were due in these two seconds, one every 20 ms: p99 is the second of them.
    assert opened["p99"] >= 1_800_000


def test_requests_that_could_not_be_sent_are_told(programs, server, tmp_path):
    found = load(programs, server, tmp_path, "/length", "-t", 0.5, "-r", 100, "-n", 100000)
    assert found["behind"] > 0 and found["behind"] + found["all"] == 50


def test_a_link_delays_and_limits_and_changes_nothing(programs, tmp_path):
    seed = random.randrange(1 << 32)
    data = random.Random(seed).randbytes(3_000_000)
    (tmp_path / "object").write_bytes(data)

    class Files(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(tmp_path))

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files) as files:
        threading.Thread(target=files.serve_forever, args=(0.05,), daemon=True).start()
        port = free_port()
        line = Server("link", str(tmp_path))
        line.spawn([os.path.join(programs, "link"), str(files.server_address[1]), "40", "100", str(port)])
        try:
            line.ready(lambda: connects(port))
            start = time.monotonic()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/object", timeout=30) as reply:
                got = reply.read()
            took = time.monotonic() - start
        finally:
            line.stop()
            files.shutdown()
    assert hashlib.sha256(got).digest() == hashlib.sha256(data).digest(), seed
    # 0.24 s of rate, two round trips before the first byte, and slow start until the line is full.
    assert took >= 0.24 + 0.08, seed


@pytest.mark.slow
@pytest.mark.skipif(has_sanitizer(), reason="it measures nothing there")
def test_every_line_of_the_benchmark_works(programs, tmp_path):
    """The quick form, with the daemon's own build; what programs of their own measure has tests beside them."""
    page, image = tmp_path / "performance.md", tmp_path / "bench.svg"
    shutil.copyfile(PAGE, page)
    groups = dict.fromkeys(line.group for line in report.LINES)
    if not os.path.exists(os.path.join(BUILD, "symbtool")):
        del groups["symbtool"]
    command = [sys.executable, os.path.join(BENCH, "bench.py"), "--quick", "--once", "--build", BUILD, "--svg", str(image), "--markdown", str(page), *groups]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PEER")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=800, env=environment)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    with open(os.path.join(BUILD, "bench.json"), encoding="utf-8") as f:
        rows = {r["line"]: r for r in json.load(f)["rows"]}
    assert set(rows) == {line.key for line in report.LINES if line.group in groups}
    assert all(r["figure"] is not None for r in rows.values())
    assert report.titles_of(page.read_text(encoding="utf-8")) == [r["title"] for r in rows.values()]
    assert image.read_text(encoding="utf-8").count('class="track"') == sum(bool(r["target"]) for r in rows.values())


def test_the_page_has_the_lines_of_the_benchmark():
    """In their order; what other programs measure may follow."""
    with open(PAGE, encoding="utf-8") as f:
        found = report.titles_of(f.read())
    wanted = [line.title for line in report.LINES]
    assert found[: len(wanted)] == wanted, "run bench.py --markdown docs/performance.md"


def test_the_picture_has_room_for_its_labels():
    with open(os.path.join(ROOT, "docs", "bench.svg"), encoding="utf-8") as f:
        labels = re.findall('text-anchor="end">(.*?)</text>', f.read())
    assert len(labels) > len(report.LINES) // 2 and max(map(len, labels)) <= 40, labels


def test_what_another_program_printed_is_read():
    told = {"lines": [
        {"line": "push", "figure": 1.4, "min": 1.2, "max": 1.5, "n": 3, "unit": "x aws s3 cp", "target": "<= 1.3", "wall": "one disk"},
        {"line": "free", "figure": 7, "unit": "s"},
        {"line": "absent", "figure": None, "note": "there is no aws here", "target": "<= 2"},
    ]}  # fmt: skip
    push, free, absent = report.from_program("bench_push.py", told)
    assert (push.met, push.shown(), push.because()) == (False, "1.4 x aws s3 cp (1.2 to 1.5)", "one disk")
    assert (free.met, free.verdict(), absent.met, absent.verdict()) == (None, "", None, "not measured")
    assert [vars(r) for r in report.from_program("x", told["lines"])] == [vars(push), vars(free), vars(absent)]
    about = {"cpu": "a <processor>", "day": "", "commit": ""}
    shown = picture([push, free, absent], about)
    assert shown.count('class="track"') == 2 and "not measured" in shown and "a &lt;processor&gt;" in shown


def test_the_picture_shows_both_kinds_of_targets_alike():
    less = report.Row("a", "a", "<= 2", "s", 1.0)
    more = report.Row("b", "b", ">= 0.5", "x", 1.0)
    assert of_target(less, less.figure) == of_target(more, more.figure) == 0.5 and less.met and more.met
    assert of_target(more, 0.25) == 2.0 and of_target(less, -1.0) == 0.0


def test_a_page_without_its_markers_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Performance\n", encoding="utf-8")
    with pytest.raises(ValueError, match="has not one <!-- bench: about -->"):
        report.write_markdown(str(page), [], "")
