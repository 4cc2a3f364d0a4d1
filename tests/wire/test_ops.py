# SPDX-License-Identifier: Apache-2.0
"""What operators see and do: status pages, metrics, logs, signals, sockets, settings; and clients that go away."""

import contextlib
import ctypes
import importlib.util
import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from client import job
from stack import DAEMON, ROOT, Nginx, Stack, connects, has_sanitizer, tail, wait_for
from symbols import SAMPLE, debug_id, tiny

APP = ["app", debug_id("app")]
IO_TIMEOUT = 120  # seconds


def make(**options):
    stack = Stack(**options)
    stack.symbols.add(APP[0], SAMPLE, APP[1])
    return stack


@pytest.fixture(scope="module")
def stack():
    with make(config={"io_timeout": f"{IO_TIMEOUT}s"}) as s:
        yield s


def works(stack):
    assert stack.client.frames(APP, [0x1000])[0]["function"] == "main"


# Pages


def test_lbheartbeat(stack):
    reply = stack.client.get("/__lbheartbeat__")
    assert reply.status == 200 and isinstance(reply.json(), dict)


def test_heartbeat(stack):
    reply = stack.client.get("/__heartbeat__")
    assert reply.status == 200 and isinstance(reply.json(), dict)


@pytest.mark.slow
def test_heartbeat_names_the_backend_that_is_gone():
    with make(memcached=2) as s:
        assert s.client.get("/__heartbeat__").status == 200
        s.memcached[1].kill()
        text = wait_for(lambda: (r := s.client.get("/__heartbeat__")).status == 503 and r.text, "the heartbeat to see it", pause=0.2)
        assert "memcached" in text and "bucket0" not in text
        assert s.client.get("/__lbheartbeat__").status == 200
        works(s)
        s.memcached[1].start()
        wait_for(lambda: s.client.get("/__heartbeat__").status == 200, "the heartbeat to recover", pause=0.2)
        s.bucket.kill()
        text = wait_for(lambda: (r := s.client.get("/__heartbeat__")).status == 503 and r.text, "the heartbeat to see it", pause=0.2)
        assert "127.0.0.1" in text or "bucket" in text or "source" in text


@pytest.mark.slow
def test_heartbeat_names_all_that_is_wrong():
    with make(memcached=2, symbols=[None, None], config={"symbfile_store": "file:///nowhere/at/all"}) as s:
        for server in [*s.memcached, *s.buckets]:
            server.kill()
        names = [m.address for m in s.memcached] + [b.url.rstrip("/") for b in s.buckets] + ["/nowhere/at/all"]

        def told():
            text = s.client.get("/__heartbeat__").error(503)["error"]
            return all(text.count(name) == 1 for name in names)

        wait_for(told, f"the heartbeat to name {names}", pause=0.2)


def test_heartbeat_is_content_with_a_bucket_that_has_nothing(stack):
    with Stack() as s:
        s.bucket.control("status:403")
        assert s.client.get("/__heartbeat__").status == 200


def test_heartbeat_is_kept_for_a_while():
    """A crowd of probes makes few requests to the backends."""
    with make() as s:
        began = time.monotonic()
        for _ in range(40):
            assert s.client.get("/__heartbeat__").status == 200
        assert sum(s.bucket.paths().values()) <= 2 + (time.monotonic() - began) // 5


def test_version(stack):
    value = stack.client.get("/__version__").json()
    assert {"source", "version", "commit", "build"} <= value.keys()
    assert re.match(r"\d+\.\d+", value["version"])


def test_broken(stack):
    stack.client.get("/__broken__").error(500)
    works(stack)


def test_home(stack):
    """nginx leads from / to the page; tests of the page itself are in test_page.py."""
    reply = stack.client.get("/")
    assert reply.status == 302 and reply.headers["Location"] == "symbolicate/"
    reply = stack.client.get("/symbolicate/")
    assert reply.status == 200 and reply.headers["Content-Type"].startswith("text/html")


# Metrics

SERIES = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([0-9.eE+-]+|NaN|[+-]Inf)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


def parse_metrics(text):
    """{family: {"type", "help", "samples": {(name, labels): value}}}, refusing what a Prometheus server would refuse."""
    assert text.endswith("\n")
    families, finished, current = {}, set(), None
    for line in text.splitlines():
        if not line:
            continue
        if line.startswith("# "):
            _, kind, name, rest = line.split(" ", 3)
            assert kind in ("HELP", "TYPE"), line
            if name != current:
                assert name not in finished, f"{name} comes in two places"
                finished.add(current)
                current = name
            family = families.setdefault(name, {"samples": {}})
            assert kind.lower() not in family and not family["samples"], line
            family[kind.lower()] = rest
            continue
        found = SERIES.match(line)
        assert found, line
        name, labels, value = found.groups()
        assert LABEL.sub("", labels or "") == "", line
        pairs = LABEL.findall(labels or "")
        assert len(dict(pairs)) == len(pairs), line
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        family = name if name == current else base
        assert family == current, f"{line} does not stand with {current}"
        if family != name:
            assert families[family]["type"] in ("histogram", "summary"), line
        key = (name, tuple(sorted(pairs)))
        assert key not in families[family]["samples"], f"twice: {line}"
        families[family]["samples"][key] = float(value)
    return families


def check_histogram(name, samples):
    series = {}
    for (sample, labels), value in samples.items():
        rest = tuple(p for p in labels if p[0] != "le")
        entry = series.setdefault(rest, {"buckets": []})
        if sample == name + "_bucket":
            entry["buckets"].append((float(dict(labels)["le"].replace("+Inf", "inf")), value))
        else:
            entry[sample[len(name) + 1 :]] = value
    for rest, entry in series.items():
        assert [b for b, _ in entry["buckets"]] == sorted(b for b, _ in entry["buckets"]), (name, rest)
        counts = [c for _, c in entry["buckets"]]
        assert counts == sorted(counts), (name, rest)
        assert entry["buckets"][-1][0] == float("inf") and counts[-1] == entry["count"], (name, rest)
        assert entry["sum"] >= 0


EXPECTED = [
    "symbolicated_frames_total", "symbolicated_modules_total", "symbolicated_cache_lookups_total", "symbolicated_pages_invalid_total",
    "symbolicated_page_reloads_total", "symbolicated_pages_stored_total", "symbolicated_stores_failed_total",
    "symbolicated_memcached_errors_total", "symbolicated_downloads_total", "symbolicated_download_bytes_total",
    "symbolicated_damaged_lines_total", "symbolicated_loads_in_flight", "symbolicated_loads_total",
    "symbolicated_cold_refused_total", "symbolicated_cache_bytes", "symbolicated_cache_maps", "symbolicated_cache_evicted_bytes_total",
    "symbolicated_loading_bytes", "symbolicated_failures_remembered", "symbolicated_invalidations_total",
    "symbolicated_connections", "symbolicated_requests_in_flight", "process_cpu_seconds_total", "process_open_fds", "process_max_fds",
    "process_resident_memory_bytes", "process_virtual_memory_bytes", "process_virtual_memory_max_bytes", "process_start_time_seconds",
    "process_threads",
]  # fmt: skip


def test_metrics_are_prometheus_text(stack):
    works(stack)
    reply = stack.client.get("/__metrics__")
    assert reply.status == 200 and reply.headers["Content-Type"].startswith("text/plain")
    families = parse_metrics(reply.text)
    for name, family in families.items():
        assert family.get("type") in ("counter", "gauge", "histogram"), name
        assert family.get("help"), name
        assert family["samples"], name
        if family["type"] == "counter":
            assert name.endswith("_total") and min(family["samples"].values()) >= 0, name
        if family["type"] == "histogram":
            check_histogram(name, family["samples"])
    missing = [name for name in EXPECTED if name not in families]
    assert not missing
    assert any(f["type"] == "histogram" for f in families.values())
    assert any("resident" in name for name in families)
    assert any("version" in dict(labels) for f in families.values() for _, labels in f["samples"])


def test_counters_count():
    with make() as s:
        gone = ["gone.so", debug_id("gone.so")]
        before = s.node.metrics()
        body = json.dumps(job([APP, gone], [[0, 0x1000], [0, 0x2000], [0, 0], [1, 5], [-1, 5], [0, "x"]]))
        s.client.v5(body)
        s.node.settled()
        after = s.node.metrics()

        def grew(series):
            return after[series] - before[series]

        assert grew('symbolicated_frames_total{result="symbolicated"}') == 2
        assert grew('symbolicated_frames_total{result="unknown"}') == 3
        assert grew('symbolicated_frames_total{result="skipped"}') == 1
        assert grew('symbolicated_modules_total{result="found"}') == 1
        assert grew('symbolicated_modules_total{result="missing"}') == 1
        assert grew('symbolicated_downloads_total{outcome="ok"}') == 1
        assert grew('symbolicated_downloads_total{outcome="missing"}') == 2  # in lower case, too
        assert grew("symbolicated_loads_total") == 1
        assert after["symbolicated_pages_stored_total"] > 0
        assert after["symbolicated_cache_bytes"] > 0 and after["symbolicated_cache_maps"] >= 1
        assert after["symbolicated_failures_remembered"] >= 1


def test_parse_seconds_do_not_count_missing_files():
    with make(memcached=0) as s:
        assert s.client.found(["gone.so", debug_id("gone.so")]) is False
        assert s.node.metrics()["symbolicated_parse_seconds_count"] == 0
        works(s)
        s.node.settled()
        assert s.node.metrics()["symbolicated_parse_seconds_count"] == 1


def test_series_of_requests_exist_from_the_start():
    """An alert on an increase sees the first reply of a status, too; and the histogram has the counters' routes."""
    with make(memcached=0) as s:
        series = s.node.metrics()

        def count(route, status):
            return series.get(f'symbolicated_requests_total{{route="{route}",status="{status}"}}')

        for route in ("v5", "v4", "home"):
            assert [count(route, status) for status in (200, 400, 405, 413, 499, 500, 503)] == [0] * 7, route
        for route in ("ranges", "returnpads"):
            assert [count(route, status) for status in (200, 400, 401, 403, 404, 405, 413, 500, 503)] == [0] * 9, route
        for route in ("uploads", "cache"):
            assert [count(route, status) for status in (200, 400, 401, 403, 405, 500, 503)] == [0] * 7, route
        for route in ("lbheartbeat", "heartbeat", "version", "broken"):
            assert [count(route, status) for status in (200, 405, 500, 503)] == [0] * 4, route
        assert count("unknown", 404) == 0
        routes = {re.search(r'route="(\w+)"', name).group(1) for name in series if name.startswith("symbolicated_requests_total")}
        timed = {re.search(r'route="(\w+)"', name).group(1) for name in series if name.startswith("symbolicated_request_seconds_count")}
        assert routes == timed and len(routes) >= 13


def test_requests_are_counted_by_route_and_status(stack):
    def counts():
        families = parse_metrics(stack.client.get("/__metrics__").text)
        found = {}
        for family in families.values():
            for (_, labels), value in family["samples"].items():
                if "status" in dict(labels):
                    found[labels] = value
        return found

    before = counts()
    stack.client.post("/symbolicate/v5", "{")
    after = counts()
    grown = [dict(k) for k in after if after[k] > before.get(k, 0)]
    assert any(labels["status"] == "400" for labels in grown), grown


def test_downloads_are_counted_by_source():
    with make(symbols=[None, None], auth="user:hidden") as s:
        other = s.buckets[1].symbols.add("other", SAMPLE)
        works(s)
        assert s.client.found(other) and not s.client.found(["none", debug_id("none")])
        s.buckets[0].control("status:500")
        s.client.post("/symbolicate/v5", job([["late", debug_id("late")]], [[0, 0x1000]]))
        s.node.settled()
        text = s.client.get("/__metrics__").text

    def count(source, outcome):
        url = s.buckets[source - 1].url
        series = f'symbolicated_source_downloads_total{{source="{source}",url="{url}",outcome="{outcome}"}}'
        return int(re.search(f"^{re.escape(series)} (\\d+)$", text, re.M)[1])

    assert [count(1, o) for o in ("ok", "missing", "failed")] == [1, 3, 1]
    assert [count(2, o) for o in ("ok", "missing")] == [1, 3]
    assert f'symbolicated_source_seconds_count{{source="1",url="{s.buckets[0].url}"}} 5\n' in text
    assert "hidden" not in text


def test_status_pages_are_for_the_allow_list():
    """An address that is not on the list gets 403 for what shows the inside, and is limited in rate."""
    with make() as s:
        s.node.nginx.stop()
        s.node.nginx.conf = {
            "changes": [
                ("symbolicated.d/allow.conf", r"127\.0\.0\.0/8 1;", "127.1.0.0/16 1;"),
                ("symbolicated-http.conf", r"rate=50r/s", "rate=5r/m"),
                ("symbolicated.d/limits.conf", r"burst=200", "burst=10"),
            ]
        }
        s.node.nginx.start()
        for path in ("/__heartbeat__", "/__broken__", "/__metrics__"):
            s.client.get(path).error(403)
        for path in ("/__lbheartbeat__", "/__version__", "/symbolicate/"):
            assert s.client.get(path).status == 200
        replies = [s.client.post("/symbolicate/v5", {"jobs": []}) for _ in range(20)]
        assert {r.status for r in replies} == {200, 429}
        for reply in replies:
            if reply.status == 429:
                reply.error(429)
                assert int(reply.headers["Retry-After"]) >= 1


# Logs


def test_log_lines_are_json_with_the_request_id(stack):
    reply = stack.client.post("/symbolicate/v5", job([APP], [[0, 0x1000], [0, 0x2000]]))
    ident = reply.headers["X-Request-Id"]

    def mine():
        return [line for line in stack.daemon.log_lines() if ident in line.values()]

    line = wait_for(mine, "the request's log line")
    assert len(line) == 1
    assert {"time", "level", "event"} <= line[0].keys()
    assert 200 in line[0].values() and "POST" in line[0].values() and "/symbolicate/v5" in line[0].values()
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$", line[0]["time"])
    for text in stack.daemon.log_text().splitlines():
        assert isinstance(json.loads(text), dict), text


@pytest.mark.in_turn
@pytest.mark.parametrize("path", ["/a%22b%0a%7b", "/caf%c3%a9", "/%ff%fe", "/" + "x" * 5000, '/"\\'])
def test_hostile_paths_do_not_break_the_log(path):
    with make(memcached=0) as s:
        s.client.get("/symbolicate" + path)
        s.client.get("/cache" + path)
        works(s)
        s.daemon.stop()
        for text in s.daemon.log_text().splitlines():
            assert isinstance(json.loads(text), dict), text


def test_a_request_id_of_nginx_is_in_errors_too(stack):
    ids = {stack.client.post("/symbolicate/v5", "{").headers["X-Request-Id"], stack.client.get("/nothing").headers["X-Request-Id"]}
    assert len(ids) == 2 and all(re.fullmatch(r"[0-9a-f]{32}", i) for i in ids)


def test_log_file_is_reopened():
    """Rotation: rename, SIGHUP, and lines go to a new file."""
    with make(memcached=0) as s:
        path = os.path.join(s.directory, "own.log")
        s.daemon.stop()
        s.daemon.write_config(log_file=path)
        s.daemon.start()
        works(s)
        wait_for(lambda: os.path.exists(path) and os.path.getsize(path), "the log file")
        os.rename(path, path + ".1")
        s.daemon.signal(signal.SIGHUP)
        wait_for(lambda: os.path.exists(path), "a new log file")
        size = os.path.getsize(path)
        works(s)
        wait_for(lambda: os.path.getsize(path) > size, "a line in the new log file")


def events(stack, name, since=0):
    return [line for line in stack.daemon.log_lines()[since:] if line["event"] == name]


@pytest.mark.slow
def test_memcached_going_and_coming_is_logged_once_each():
    """However many requests and threads notice it."""
    with make() as s:
        modules = [s.symbols.add(f"once{i}.so", SAMPLE) for i in range(8)]
        s.memcached[0].kill()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda m: s.client.frames(m, [0x1000]), modules * 4))
        gone = wait_for(lambda: events(s, "memcached gone"), "the log to tell of it")
        assert gone[0]["level"] == "warning" and s.memcached[0].setting in gone[0]["text"]
        assert not events(s, "memcached back")
        assert s.node.metrics()["symbolicated_memcached_servers_gone"] == 1
        s.memcached[0].start()
        back = wait_for(lambda: s.client.get("/__heartbeat__") and events(s, "memcached back"), "the log to tell of its return", pause=0.2)
        assert back[0]["level"] == "info" and s.memcached[0].setting in back[0]["text"]
        works(s)
        assert s.node.metrics()["symbolicated_memcached_breaker_open_total"] >= 1
        assert s.node.metrics()["symbolicated_memcached_servers_gone"] == 0
        assert (len(events(s, "memcached gone")), len(events(s, "memcached back"))) == (1, 1)


def plan():
    """contrib/plan.py"""
    spec = importlib.util.spec_from_file_location("plan", os.path.join(ROOT, "contrib", "plan.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_no_more_connections_to_memcached_than_plan_py_says():
    """It was 80 for 12 workers, where 30 were told."""
    numbers = plan()
    cores = 4
    with make(config={"workers": str(cores * numbers.THREADS), "bucket_parallel": str(numbers.TRANSFERS), "bucket_parallel_request": str(numbers.TRANSFERS)}) as s:
        with s.memcached[0].raw() as raw:
            before = int(raw.stats()["curr_connections"])
            most, done = 0, threading.Event()
            modules = [s.symbols.add(f"many{i}.so", SAMPLE) for i in range(600)]

            def ask(part):
                for i in range(0, len(part), 5):
                    s.client.v5(job(part[i : i + 5], [[n, 0x1000] for n in range(len(part[i : i + 5]))]))

            with ThreadPoolExecutor(25) as pool:
                asked = [pool.submit(ask, modules[i::24]) for i in range(24)]

                def look():
                    nonlocal most
                    while not done.is_set():
                        most = max(most, int(raw.stats()["curr_connections"]) - before)

                looking = pool.submit(look)
                for one in asked:
                    one.result()
                done.set()
                looking.result()
        print(f"{most} connections")
        assert numbers.TRANSFERS < most <= cores * numbers.THREADS + numbers.LOADERS * numbers.TRANSFERS + numbers.OTHERS


@pytest.mark.slow
def test_a_memcached_without_connections_left_is_told_apart():
    with make(memcached_tcp=True, config={"workers": "48"}) as s:
        s.memcached[0].stop()
        s.memcached[0].options = ["-c", "30"]
        s.memcached[0].start()
        asked = 0

        def told():
            nonlocal asked
            asked += 1
            modules = [s.symbols.add(f"full{asked}-{i}.so", SAMPLE) for i in range(48)]
            with ThreadPoolExecutor(48) as pool:
                list(pool.map(lambda m: s.client.frames(m, [0x1000]), modules))
            return any("too many connections" in e["text"] for e in events(s, "memcached gone"))

        wait_for(told, "the log to tell why", 60)


@pytest.mark.slow
@pytest.mark.parametrize("why", ["memcached does not answer", "the module was invalidated or evicted meanwhile", "(memcached_item_max)"])
def test_not_stored_says_why(why):
    config = {"memcached_item_max": "1K"} if "item_max" in why else {}
    with make(keys=True, config=config) as s:
        module = s.symbols.add("unstored.so", SAMPLE + "".join(f"FUNC {i:x} 8 0 function_{i}\n" for i in range(0x10000, 0x12000, 16)))
        s.bucket.misbehave(module, "hold")
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(s.client.frames, module, [0x1000])
            wait_for(lambda: s.bucket.hits(module), "the load to begin")
            if why == "memcached does not answer":
                s.memcached[0].kill()
            if "invalidated" in why:
                path = f"/cache/{module[0]}/{module[1]}"
                assert s.client.request("DELETE", path, headers={"Authorization": s.key}).status == 200
            s.bucket.misbehave(module, "ok")
            assert answer.result(60)[0]["function"] == "main"
        line = wait_for(lambda: events(s, "not stored"), "the log to tell of it")[0]
        assert line["level"] == "warning" and module[0] in line["text"] and line["text"].endswith(why), line


def test_health_checks_that_succeed_are_not_logged(stack):
    assert stack.client.get("/__lbheartbeat__").status == 200
    ident = stack.client.get("/__version__").headers["X-Request-Id"]
    lines = wait_for(lambda: [line for line in stack.daemon.log_lines() if line.get("id") == ident] and stack.daemon.log_lines(), "the last request's line")
    assert not any(line.get("path") == "/__lbheartbeat__" for line in lines)


@pytest.mark.slow
def test_health_checks_are_logged_when_they_fail_or_the_settings_say_so():
    with make() as s:
        paths = ("/__lbheartbeat__", "/__heartbeat__", "/__metrics__")

        def logged():
            """Of the health checks before a request that is surely logged."""
            ident = s.client.get("/__version__").headers["X-Request-Id"]
            wait_for(lambda: any(line.get("id") == ident for line in s.daemon.log_lines()), "the last request's line")
            return [line for line in s.daemon.log_lines() if line.get("path") in paths]

        for path in paths:
            assert s.client.get(path).status == 200
        assert not logged()
        s.memcached[0].kill()
        wait_for(lambda: s.client.get("/__heartbeat__").status == 503, "the heartbeat to fail", pause=0.2)
        lines = wait_for(logged, "its line")
        assert all(line["status"] == 503 and line["path"] == "/__heartbeat__" for line in lines)
        s.daemon.write_config(log_health_checks="yes")
        s.daemon.reload()
        assert s.client.get("/__lbheartbeat__").status == 200
        wait_for(lambda: {line["path"] for line in logged()} == {"/__heartbeat__", "/__lbheartbeat__"}, "the other's line")


# Settings


def run_daemon(*args):
    return subprocess.run([*DAEMON, *args], capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)


GOOD_LINES = ["# a comment", "", "source = http://127.0.0.1:1/", "memcached = 127.0.0.1:11211", "max_body = 1M", "missing_ttl = 5s"]


def write_config(tmp_path, *lines):
    path = tmp_path / "test.conf"
    path.write_text("\n".join([*GOOD_LINES, *lines]) + "\n")
    return str(path)


@pytest.mark.in_turn
def test_check_config_of_a_good_file(tmp_path):
    done = run_daemon("--check-config", "--config", write_config(tmp_path))
    assert done.returncode == 0, done.stderr


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "line, word",
    [
        ("no_such_key = 1", "no_such_key"),
        ("max_body = much", "max_body"),
        ("max_body = -1", "max_body"),
        ("max_body = 1Q", "max_body"),
        ("max_body =", "max_body"),
        ("workers = 99999999999999999999", "workers"),
        ("missing_ttl = 5 parsecs", "missing_ttl"),
        ("missing_ttl = soon", "missing_ttl"),
        ("codec = rot13", "codec"),
        ("lookup = guess", "lookup"),
        ("log_level = loud", "log_level"),
        ("bucket_allow_local_redirects = perhaps", "bucket_allow_local_redirects"),
        ("just words", "just words"),
        ("= 5", ""),
    ],
)
def test_check_config_names_the_line(tmp_path, line, word):
    path = write_config(tmp_path, line, "log_level = info")
    done = run_daemon("--check-config", "--config", path)
    text = done.stdout + done.stderr
    assert done.returncode not in (0, -6, -11), text
    assert re.search(rf"test\.conf\D*{len(GOOD_LINES) + 1}\b", text), text
    assert word in text, text


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "lines",
    [
        ["source = gopher://x/"],
        ["source = nonsense"],
        ["failure_ttl_min = 20s", "failure_ttl_max = 5s"],
        ["memcached = host.example:1"],
    ],
    ids=str,
)
def test_check_config_of_settings_that_do_not_fit(tmp_path, lines):
    done = run_daemon("--check-config", "--config", write_config(tmp_path, *lines))
    assert done.returncode not in (0, -6, -11), done.stdout + done.stderr
    assert done.stdout + done.stderr


@pytest.mark.in_turn
def test_check_config_shows_a_bad_source_and_its_line(tmp_path):
    """By its value, without what is secret in it; also where only its kind of bucket knows what is wrong."""
    line = len(GOOD_LINES) + 2
    for url, shown in (
        ("gopher://me:hunter2@x/?key=hunter2", "gopher://***@x/"),
        ("https://me:hunter2@x:99999/v1?key=hunter2", "https://***@x:99999/v1"),
        ("s3:///prefix", "s3:///prefix"),
    ):
        done = run_daemon("--check-config", "--config", write_config(tmp_path, "source = http://127.0.0.1:2/", f"source = {url}"))
        text = done.stdout + done.stderr
        assert done.returncode == 1 and f"source {shown}" in text and f"(line {line})" in text, text
        assert "hunter2" not in text
        done = run_daemon("--check-config", "--source", url)
        assert done.returncode == 1 and f"source {shown}" in done.stderr and "(line" not in done.stderr, done


@pytest.mark.in_turn
def test_check_config_looks_at_what_is_on_this_machine(tmp_path):
    """A directory of symbols or of symbfiles, the folders of the log and of the socket, its group, its address."""
    (tmp_path / "file").write_text("")
    (tmp_path / "there").mkdir()
    cases = (
        ("source", f"file://{tmp_path}/there", None),
        ("source", f"file://{tmp_path}/nothing", "No such file"),
        ("source", f"file://{tmp_path}/file", "Not a directory"),
        ("symbfile_store", f"file://{tmp_path}/there", None),
        ("symbfile_store", f"file://{tmp_path}/nothing", "No such file"),
        ("log_file", f"{tmp_path}/there/own.log", None),
        ("log_file", f"{tmp_path}/nothing/own.log", "No such file"),
        ("log_file", f"{tmp_path}/there", "Is a directory"),
        ("listen", f"{tmp_path}/there/own.sock", None),
        ("listen", f"{tmp_path}/nothing/own.sock", "No such file"),
        ("listen", f"{tmp_path}/file", "is not a socket"),
        ("listen", f"{tmp_path}/{'x' * 120}", "longer than"),
        ("listen", "127.0.0.1:19999", None),
        ("listen", "0.0.0.0:19999", "not loopback"),
        ("listen", "nonsense", "neither a path nor host:port"),
        ("listen_group", "no-such-group-here", "there is no group"),
    )
    for key, value, problem in cases:
        done = run_daemon("--check-config", "--config", write_config(tmp_path, f"{key} = {value}"))
        text = done.stdout + done.stderr
        assert (done.returncode == 0) == (problem is None), (key, value, text)
        assert problem is None or (key.split("_group")[0] in text and problem in text), (key, value, text)
    assert os.listdir(tmp_path / "there") == []


@pytest.mark.in_turn
def test_check_config_speaks_to_a_person_and_names_what_each_source_answers(tmp_path):
    (tmp_path / "there").mkdir()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{closed.getsockname()[1]}/"
        path = tmp_path / "two.conf"
        path.write_text(f"listen = {tmp_path}/here.sock\nsource = file://{tmp_path}/there\nsource = {dead}\n")
        done = run_daemon("--check-config", "--config", str(path))
    good, bad, end = done.stderr.splitlines()
    assert done.returncode == 0 and good == f"symbolicated: source file://{tmp_path}/there (line 2) answers"
    assert bad.startswith(f"symbolicated: warning: source {dead} (line 3) does not answer as it should: ")
    assert end == "symbolicated: the settings are valid"
    wrong = run_daemon("--check-config", "--config", str(path), "--codec", "rot13")
    assert wrong.returncode and wrong.stderr.startswith("symbolicated: ") and "rot13" in wrong.stderr


@pytest.mark.in_turn
def test_a_bad_config_does_not_start(tmp_path):
    done = run_daemon("--config", write_config(tmp_path, "no_such_key = 1"))
    assert done.returncode not in (0, -6, -11) and "no_such_key" in done.stdout + done.stderr


@pytest.mark.in_turn
def test_a_config_that_is_not_there(tmp_path):
    done = run_daemon("--check-config", "--config", str(tmp_path / "nothing.conf"))
    assert done.returncode not in (0, -6, -11) and "nothing.conf" in done.stdout + done.stderr


@pytest.mark.in_turn
def test_an_unknown_flag():
    done = run_daemon("--no-such-flag")
    assert done.returncode not in (0, -6, -11) and "no-such-flag" in done.stdout + done.stderr


@pytest.mark.in_turn
def test_listening_beyond_loopback_is_refused(tmp_path):
    for address in ("0.0.0.0:19999", "[::]:19999"):
        done = run_daemon("--config", write_config(tmp_path, f"listen = {address}"))
        assert done.returncode not in (0, -6, -11), address
        assert done.stdout + done.stderr


def test_what_is_said_at_start_is_json(tmp_path):
    """Like every other line of the log, so that one parser reads all of them."""
    good = write_config(tmp_path)
    for arguments, level, word in (
        (["--check-config", "--json", "--config", good], "info", "the settings are valid"),
        (["--check-config", "--config", good, "--codec", "rot13", "--json"], "error", "rot13"),
        (["--no-such-flag"], "error", "no-such-flag"),
        (["--config", good, "--listen", str(tmp_path / "nothing" / "here.sock")], "error", "here.sock"),
    ):
        done = run_daemon(*arguments)
        lines = [json.loads(line) for line in (done.stdout + done.stderr).splitlines()]
        assert lines and lines[-1]["level"] == level and word in lines[-1]["text"], done
        assert all({"time", "level", "event", "text"} <= line.keys() for line in lines)
        assert (done.returncode == 0) == (level == "info")


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "source,mode,warned",
    [
        ("https://user:secret@symbols.example.org/v1/", 0o644, True),
        ("https://symbols.example.org/v1/?token=secret", 0o604, True),
        ("https://user:secret@symbols.example.org/v1/", 0o640, False),
        ("https://symbols.example.org/v1/", 0o644, False),
    ],
)
def test_a_settings_file_with_a_password_that_others_may_read(tmp_path, source, mode, warned):
    path = tmp_path / "open.conf"
    path.write_text(f"source = {source}\n", encoding="utf-8")
    path.chmod(mode)
    done = run_daemon("--check-config", "--json", "--config", str(path), "--listen", str(tmp_path / "here.sock"))
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == 0 and lines[-1]["text"] == "the settings are valid"
    assert [line["level"] for line in lines] == ["warning"] * warned + ["info"]
    assert "secret" not in done.stderr
    assert not warned or "symbols.example.org" in lines[0]["text"] and "(line 1)" in lines[0]["text"]


def test_errors_at_start_are_on_standard_error_and_in_the_log_file(tmp_path):
    log = tmp_path / "own.log"
    done = run_daemon("--config", write_config(tmp_path), "--listen", str(tmp_path / "nothing" / "here.sock"), "--log-file", str(log))
    for text in (done.stderr, log.read_text()):
        assert "here.sock" in json.loads(text.splitlines()[-1])["text"]


@pytest.mark.skipif(has_sanitizer(), reason="a sanitizer prints the stack itself")
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_crash_leaves_its_stack_in_the_log(tmp_path, number):
    """Of the thread that had the signal, as symbtool reads it; in the log, wherever that is; and the signal ends the process."""
    config = {"log_file": str(tmp_path / "own.log")} if number == signal.SIGABRT else {}
    with Stack(memcached=0, nginx=False, config=config) as s:
        log = config.get("log_file", s.daemon.log)
        wait_for(lambda: '"event":"start"' in tail(log), "the process to wait for signals")
        s.daemon.expected_down = True
        pid = s.daemon.process.pid
        # to the first thread: one for the process may go to any
        assert ctypes.CDLL(None).tgkill(pid, pid, int(number)) == 0
        assert s.daemon.wait() == -number
        with open(log, encoding="utf-8") as f:
            lines = f.read().splitlines()
        crash = next(i for i, line in enumerate(lines) if '"event":"crash"' in line)
        assert json.loads(lines[crash])["text"] == f"died of {number.name}; its stack follows"
        assert len(lines) > crash + 4 and all(re.fullmatch(r"\S+\(\S*\+0x[0-9a-f]+\) ?\[0x[0-9a-f]+\]", line) for line in lines[crash + 1 :]), lines
        assert re.search(r"\bserve at \S+main\.c:\d+", tail(log)), tail(log)


@pytest.mark.in_turn
def test_lines_for_the_journal_have_its_priorities(tmp_path):
    """<N> before a line where standard error is the journal, and nowhere else."""
    path = tmp_path / "journal"

    def first_bytes(is_journal, *arguments):
        with open(path, "wb") as out:
            at = os.fstat(out.fileno())
            stream = f"{at.st_dev}:{at.st_ino + (not is_journal)}"
            subprocess.run(
                [*DAEMON, *arguments], stderr=out, stdout=out, check=False, timeout=60, stdin=subprocess.DEVNULL,
                env={**os.environ, "JOURNAL_STREAM": stream},
            )  # fmt: skip
        return {line[: line.index("{")] for line in path.read_text().splitlines()}

    good = write_config(tmp_path)
    assert first_bytes(True, "--check-config", "--json", "--config", good) == {"<6>"}
    assert first_bytes(True, "--no-such-flag") == {"<3>"}
    assert first_bytes(False, "--no-such-flag") == {""}


@pytest.mark.in_turn
def test_lines_for_the_journal_have_its_priorities_again_after_a_log_file(tmp_path):
    """SIGHUP takes log_file away."""
    journal, log = tmp_path / "journal", tmp_path / "own.log"
    config = write_config(tmp_path, f"listen = {tmp_path}/socket", f"log_file = {log}")
    with open(journal, "wb") as out:
        at = os.fstat(out.fileno())
        env = {**os.environ, "JOURNAL_STREAM": f"{at.st_dev}:{at.st_ino}"}
        with subprocess.Popen([*DAEMON, "--config", config], stderr=out, stdout=out, stdin=subprocess.DEVNULL, env=env) as server:
            wait_for(lambda: log.exists() and '"event":"start"' in log.read_text(), "the server to start")
            write_config(tmp_path, f"listen = {tmp_path}/socket")
            server.send_signal(signal.SIGHUP)
            wait_for(lambda: "reload" in journal.read_text(), "the reload to be logged")
            server.terminate()
            assert server.wait(60) == 0
    assert {line[: line.index("{")] for line in journal.read_text().splitlines()} == {"<6>"}
    assert "<" not in log.read_text()


@pytest.mark.skipif(has_sanitizer(), reason="a sanitizer prints the stack itself")
@pytest.mark.in_turn
def test_a_crash_is_an_error_for_the_journal(tmp_path):
    journal = tmp_path / "journal"
    config = write_config(tmp_path, f"listen = {tmp_path}/socket")
    with open(journal, "wb") as out:
        at = os.fstat(out.fileno())
        env = {**os.environ, "JOURNAL_STREAM": f"{at.st_dev}:{at.st_ino}"}
        with subprocess.Popen([*DAEMON, "--config", config], stderr=out, stdout=out, stdin=subprocess.DEVNULL, env=env) as server:
            wait_for(lambda: '"event":"start"' in journal.read_text(), "the server to start")
            assert ctypes.CDLL(None).tgkill(server.pid, server.pid, int(signal.SIGSEGV)) == 0
            assert server.wait(60) == -signal.SIGSEGV
    crash = [line for line in journal.read_text().splitlines() if '"event":"crash"' in line]
    assert [line[: line.index("{")] for line in crash] == ["<3>"]


# Signals


def test_sighup_takes_new_settings():
    with make(memcached=0) as s:
        works(s)
        pid = s.daemon.process.pid
        s.daemon.write_config(max_jobs="1")
        s.daemon.signal(signal.SIGHUP)
        two = {"jobs": [job([], []), job([], [])]}
        wait_for(lambda: s.client.post("/symbolicate/v5", two).status == 400, "the new limit")
        works(s)
        assert s.daemon.process.pid == pid and s.bucket.hits() == 1


def test_sighup_with_a_bad_file_changes_nothing():
    with make(memcached=0) as s:
        works(s)
        s.daemon.write_config(max_jobs="1", no_such_key="1")
        lines = len(s.daemon.log_lines())
        s.daemon.signal(signal.SIGHUP)
        wait_for(
            lambda: any("no_such_key" in json.dumps(line) for line in s.daemon.log_lines()[lines:]), "the mistake to be logged", 20
        )
        assert len(s.client.v5({"jobs": [job([], []), job([], [])]})["results"]) == 2
        s.daemon.write_config(no_such_key=None)


def test_sighup_that_fails_changes_neither_keys_nor_log():
    """Whichever of the two is wrong, the other is as it was, too."""
    with make(memcached=0, keys=True) as s:
        old, log = s.daemon.settings["keys_file"], os.path.join(s.directory, "own.log")
        s.keys_file = os.path.join(s.directory, "other-keys")
        new = s.add_key("new", "invalidate")

        def status(key):
            return s.client.request("DELETE", f"/cache/{APP[0]}/{APP[1]}", headers={"Authorization": key}).status

        def fails(word, **changes):
            lines = len(s.daemon.log_lines())
            s.daemon.write_config(**changes)
            s.daemon.signal(signal.SIGHUP)
            line = wait_for(lambda: [x for x in s.daemon.log_lines()[lines:] if x["event"] == "reload"], "the reload to fail")[0]
            assert line["level"] == "error" and word in line["text"], line
            assert status(s.key) == 200 and status(new) == 403
            assert not os.path.exists(log)

        fails("nothing-here", keys_file=s.keys_file, log_file=os.path.join(s.directory, "nothing-here", "own.log"))
        fails("no-keys", keys_file=os.path.join(s.directory, "no-keys"), log_file=log)
        s.daemon.write_config(keys_file=s.keys_file, log_file=None)
        s.daemon.reload()
        assert status(s.key) == 403 and status(new) == 200
        s.daemon.write_config(keys_file=old)


def test_sighup_under_load():
    with make() as s:
        stop, failures = threading.Event(), []

        def load():
            while not stop.is_set():
                try:
                    works(s)
                except Exception as e:
                    failures.append(repr(e)[:500])
                    return

        threads = [threading.Thread(target=load) for _ in range(3)]
        for t in threads:
            t.start()
        try:
            # Falling: a limit that is still the old one lets the refused request pass.
            for limit in range(15, 0, -1):
                s.daemon.write_config(max_jobs=str(limit))
                s.daemon.signal(signal.SIGHUP)
                jobs = {"jobs": [job([], [])] * (limit + 1)}
                wait_for(lambda v=jobs: s.client.post("/symbolicate/v5", v).status == 400, f"limit {limit}")
                assert s.client.post("/symbolicate/v5", {"jobs": [job([], [])] * limit}).status == 200
        finally:
            stop.set()
            for t in threads:
                t.join()
        assert not failures, failures[:3]


@pytest.mark.slow
def test_sigterm_finishes_what_is_in_hand():
    config = {"shutdown_timeout": "60s", "bucket_stall_timeout": "60s"}
    with make(config=config) as s:
        modules = [s.symbols.add(f"late{i}.so", SAMPLE) for i in range(4)]
        s.bucket.control("hold")
        with ThreadPoolExecutor(4) as pool:
            replies = [pool.submit(lambda m=m: s.client.frames(m, [0x1000])) for m in modules]
            wait_for(lambda: s.bucket.hits() == 4, "all four to wait for the bucket")
            s.daemon.terminate()
            # Nobody new is let in, and nginx says so in JSON.
            wait_for(lambda: not connects(s.daemon.socket), "the listening socket to be closed")
            refused = s.client.post("/symbolicate/v5", {"jobs": []})
            refused.error(502)
            assert int(refused.headers["Retry-After"]) >= 1
            s.bucket.control("ok")
            for reply in replies:
                assert reply.result(60)[0]["function"] == "main"
        assert s.daemon.wait() == 0
        s.daemon.start()
        works(s)


@pytest.mark.slow
def test_sigterm_is_bounded():
    config = {"shutdown_timeout": "1s", "bucket_stall_timeout": "300s", "request_timeout": "300s"}
    with make(config=config) as s:
        s.bucket.control("stall")
        with ThreadPoolExecutor(1) as pool:
            reply = pool.submit(lambda: s.client.post("/symbolicate/v5", job([APP], [[0, 0x1000]])))
            wait_for(lambda: s.bucket.hits() == 1, "the request to wait for the bucket")
            s.daemon.terminate()
            s.daemon.wait()
            assert reply.result(60).status in (502, 503, 504)


def test_sigterm_when_idle_does_not_last_as_long_as_it_may():
    with make(config={"shutdown_timeout": "10m"}) as s:
        works(s)
        s.daemon.terminate()
        assert s.daemon.wait() == 0
        assert not os.path.exists(s.daemon.socket) or not connects(s.daemon.socket)


def test_two_signals_are_no_more_than_one():
    with make() as s:
        works(s)
        s.daemon.terminate()
        with contextlib.suppress(ProcessLookupError):
            s.daemon.signal(signal.SIGTERM)
            s.daemon.signal(signal.SIGHUP)
        assert s.daemon.wait() == 0


@pytest.mark.slow
def test_restart_over_a_left_socket():
    with make() as s:
        works(s)
        s.daemon.crash()
        assert os.path.exists(s.daemon.socket)
        s.client.post("/symbolicate/v5", {"jobs": []}).error(502)
        s.daemon.start()
        works(s)


@pytest.mark.parametrize("how", ["listen", "systemd"])
def test_a_balancer_is_told_before_the_process_ends(how):
    """With drain_file /__lbheartbeat__ fails while all else goes on; a process that is started meanwhile fails it, too."""
    with make(memcached=0, how=how) as s:
        switch = os.path.join(s.directory, "drain")
        s.daemon.write_config(drain_file=switch)
        s.daemon.reload()
        assert s.client.get("/__lbheartbeat__").status == 200
        open(switch, "w").close()
        assert "drain" in s.client.get("/__lbheartbeat__").error(503)["error"]
        assert s.client.get("/__heartbeat__").status == 200
        works(s)
        s.daemon.terminate()
        assert s.daemon.wait() == 0
        s.daemon.start()
        s.client.get("/__lbheartbeat__").error(503)
        works(s)
        os.remove(switch)
        assert s.client.get("/__lbheartbeat__").status == 200


# Sockets


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stdin", "systemd", "spawn-fcgi"])
def test_an_inherited_socket(how):
    with make(memcached=0, how=how) as s:
        works(s)
        s.node.restart()
        works(s)


def test_without_nginx_the_socket_is_there():
    with make(memcached=0, nginx=False) as s:
        assert connects(s.daemon.socket)
        assert os.stat(s.daemon.socket).st_mode & 0o777 == 0o666


# Clients that go away or are slow


def body_of(value):
    body = json.dumps(value).encode()
    head = f"POST /symbolicate/v5 HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    return head, body


def idle(stack, bound=60):
    """Waits until the metrics request is the only one."""
    wait_for(lambda: stack.node.metrics()["symbolicated_requests_in_flight"] <= 1, "all requests to be over", bound, 0.05)


def test_client_leaves_in_the_middle_of_its_body(stack):
    head, body = body_of(job([APP], [[0, 0x1000]] * 1000))
    for cut in (0, 1, 100, len(body) - 1):
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", stack.node.nginx.port)) as s:
                s.sendall(head + body[:cut])
    idle(stack)
    works(stack)


@pytest.mark.slow
def test_client_leaves_while_its_module_is_loaded():
    with make(config={"bucket_stall_timeout": "10s"}) as s:
        modules = [s.symbols.add(f"left{i}.so", SAMPLE) for i in range(10)]
        s.bucket.control("slow:1")
        for module in modules:
            head, body = body_of(job([module], [[0, 0x1000]]))
            connection = socket.create_connection(("127.0.0.1", s.node.nginx.port))
            connection.sendall(head + body)
            wait_for(lambda m=module: s.bucket.hits(m) or s.bucket.hits() >= 8, "the load to begin")
            connection.close()
        s.bucket.reset()
        works(s)
        idle(s)
        for module in modules:
            assert s.client.frames(module, [0x1000])[0]["function"] == "main"


def test_client_leaves_before_its_large_reply(stack):
    module = stack.symbols.add("large-reply.so", tiny("x" * 1000))
    head, body = body_of(job([module], [[0, 0x1000]] * 20_000))
    for _ in range(6):
        with socket.create_connection(("127.0.0.1", stack.node.nginx.port)) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.sendall(head + body)
            s.recv(1000)
    idle(stack)
    works(stack)


def test_slow_clients_hold_nobody_up():
    """Many that send half a body and wait; the workers are free for others, who would not wait for io_timeout."""
    with make(memcached=0, config={"workers": "2", "io_timeout": "10m"}) as s:
        works(s)
        head, body = body_of(job([APP], [[0, 0x1000]] * 100))
        slow = [socket.create_connection(("127.0.0.1", s.node.nginx.port)) for _ in range(40)]
        try:
            for connection in slow:
                connection.sendall(head + body[:-5])
            for _ in range(20):
                works(s)
            for connection in slow:
                connection.sendall(body[-5:])
            for connection in slow:
                connection.settimeout(60)
                assert connection.recv(100).startswith(b"HTTP/1.1 200")
        finally:
            for connection in slow:
                connection.close()


def test_many_connections_at_once(stack):
    with ThreadPoolExecutor(64) as pool:
        replies = list(pool.map(lambda _: stack.client.frames(APP, [0x1000])[0]["function"], range(400)))
    assert set(replies) == {"main"}


# The FastCGI connection itself


def record(kind, content, ident=1):
    return bytes([1, kind, ident >> 8, ident & 255, len(content) >> 8, len(content) & 255, 0, 0]) + content


def pair(name, value):
    def size(n):
        return bytes([n]) if n < 128 else (n | 1 << 31).to_bytes(4, "big")

    name, value = name.encode(), value.encode()
    return size(len(name)) + size(len(value)) + name + value


def fcgi_request(method, uri, body=b"", keep=True, ident=1, length=None, **more):
    params = [("REQUEST_METHOD", method), ("REQUEST_URI", uri), ("CONTENT_LENGTH", str(len(body) if length is None else length)), *more.items()]
    text = b"".join(pair(*p) for p in params)
    out = record(1, bytes([0, 1, 1 if keep else 0, 0, 0, 0, 0, 0]), ident) + record(4, text, ident) + record(4, b"", ident)
    for at in range(0, len(body), 60_000):
        out += record(5, body[at : at + 60_000], ident)
    return out + record(5, b"", ident)


def read_reply(file):
    """(stdout of one request, whether it was ended)."""
    out = b""
    while True:
        head = file.read(8)
        if len(head) < 8:
            return out, False
        content = file.read(int.from_bytes(head[4:6], "big"))
        file.read(head[6])
        if head[1] == 6:
            out += content
        elif head[1] == 3:
            return out, True


@contextlib.contextmanager
def fcgi(stack):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(stack.daemon.socket)
        with s.makefile("rb") as file:
            yield s, file


def test_one_fastcgi_connection_serves_many_requests(stack):
    body = json.dumps(job([APP], [[0, 0x1000]])).encode()
    with fcgi(stack) as (s, file):
        for i in range(20):
            s.sendall(fcgi_request("POST", "/symbolicate/v5", body, ident=1 + i % 3))
            out, ended = read_reply(file)
            assert ended and b'"main"' in out and b"Status: 200 OK" in out.split(b"\r\n\r\n")[0]


def test_a_connection_that_is_not_kept_is_closed(stack):
    with fcgi(stack) as (s, file):
        s.sendall(fcgi_request("GET", "/__lbheartbeat__", keep=False))
        assert read_reply(file)[1] and file.read() == b""


@pytest.mark.parametrize("method, uri", [("POST", "/nothing"), ("PUT", "/symbolicate/v5"), ("POST", "/__version__")])
def test_a_body_that_nobody_reads_does_not_spoil_the_next_request(stack, method, uri):
    """It is drained, or the connection is closed after the reply; what comes next is never taken for the rest of it."""
    with fcgi(stack) as (s, file):
        s.sendall(fcgi_request(method, uri, b"x" * 200_000))
        out, ended = read_reply(file)
        assert ended and (b"Status: 404" in out or b"Status: 405" in out)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            s.sendall(fcgi_request("GET", "/__lbheartbeat__"))
            out, ended = read_reply(file)
            assert (out, ended) == (b"", False) or (ended and b"Status: 200" in out)
    works(stack)


@pytest.mark.in_turn
@pytest.mark.parametrize("ident", ["0123456789abcdef" * 2, "0123456789ABCDEF" * 2, "0123456789abcdef" * 3, "of-another-form"])
def test_a_refused_upload_has_a_uuid_whatever_the_request_id(stack, ident):
    with fcgi(stack) as (s, file):
        s.sendall(fcgi_request("POST", "/api/symbols-ranges", keep=False, REQUEST_ID=ident))
        head, body = read_reply(file)[0].split(b"\r\n\r\n", 1)
        assert f"X-Request-Id: {ident}".encode() in head
        uuid = json.loads(body)["uuid"]
        assert re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid)
        assert (uuid.replace("-", "") == ident) == bool(re.fullmatch("[0-9a-f]{32}", ident))


@pytest.mark.parametrize("length", [0, 5, 10_000_000])
def test_a_length_that_is_not_true(stack, length):
    body = json.dumps(job([APP], [[0, 0x1000]])).encode()
    with fcgi(stack) as (s, file):
        s.sendall(fcgi_request("POST", "/symbolicate/v5", body, keep=False, length=length))
        out, _ = read_reply(file)
        assert b"Status: 4" in out or b"Status: 200" in out
    works(stack)


@contextlib.contextmanager
def half_a_body(stack, way):
    """What ends when the block does: "abort" asks for that, "close" only closes, and "nginx" passes the body on as it comes."""
    body, length = b'{"memoryMap":[', 70_000
    if way == "nginx":
        changes = [("symbolicated-location.conf", "fastcgi_request_buffering on;", "fastcgi_request_buffering off;")]
        nginx = Nginx("unbuffered", stack.directory, stack.daemon.socket, changes=changes)
        nginx.start()
        try:
            with socket.create_connection(("127.0.0.1", nginx.port)) as s:
                s.sendall(f"POST /symbolicate/v5 HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode() + body)
                yield
            idle(stack, IO_TIMEOUT / 2)
        finally:
            nginx.stop()
        return
    with fcgi(stack) as (s, _):
        s.sendall(fcgi_request("POST", "/symbolicate/v5", body, length=length)[: -len(record(5, b""))])
        yield
        if way == "abort":
            s.sendall(record(2, b""))
            idle(stack, IO_TIMEOUT / 2)
    idle(stack, IO_TIMEOUT / 2)


@pytest.mark.parametrize("way", ["abort", "close", pytest.param("nginx", marks=pytest.mark.slow)])
def test_a_body_whose_sender_has_gone_is_not_waited_for(stack, way):
    """Only io_timeout would end it, and it is charged until then."""
    charged = 'symbolicated_memory_bytes{kind="bodies"}'
    with half_a_body(stack, way):
        wait_for(lambda: stack.node.metrics()[charged] > 0, "the body to be read")
    assert stack.node.metrics()[charged] == 0
    works(stack)


GARBAGE = {
    "text": b"GET / HTTP/1.0\r\n\r\n",
    "zeroes": bytes(64),
    "random": bytes(range(256)),
    "half a record": record(1, bytes([0, 1, 1, 0, 0, 0, 0, 0]))[:5],
    "begin only": record(1, bytes([0, 1, 1, 0, 0, 0, 0, 0])),
    "params without end": fcgi_request("GET", "/")[:40],
    "abort": record(1, bytes([0, 1, 1, 0, 0, 0, 0, 0])) + record(2, b""),
    "unknown role": record(1, bytes([0, 9, 1, 0, 0, 0, 0, 0])) + record(4, b""),
    "empty params": record(1, bytes([0, 1, 0, 0, 0, 0, 0, 0])) + record(4, b"") + record(5, b""),
    "unknown type": record(77, b"abc"),
    "get values": record(9, pair("FCGI_MAX_CONNS", ""), 0),
    "nothing": b"",
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_on_the_socket(stack, kind):
    for _ in range(10):
        with fcgi(stack) as (s, _):
            s.sendall(GARBAGE[kind])
    works(stack)
    idle(stack)


def test_silent_connections_hold_no_thread():
    with make(memcached=0, config={"workers": "2"}) as s:
        silent = []
        try:
            for kind in ("nothing", "begin only", "half a record", "nothing") * 10:
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(s.daemon.socket)
                if kind == "nothing":
                    silent.append(connection)
                else:
                    connection.sendall(GARBAGE[kind])
                    connection.close()
            works(s)
        finally:
            for connection in silent:
                connection.close()


@pytest.mark.slow
@pytest.mark.plain
@pytest.mark.skipif(has_sanitizer(), reason="a sanitizer has allocations of its own")
def test_memory_that_loads_leave_goes_back_to_the_system():
    """Each thread's arena has some; without that it would grow to the most that each thread ever needed."""
    noise = random.Random(17)
    with Stack(config={"cache_size": "16M", "bucket_parallel": "8"}) as s:
        modules = [
            s.symbols.add(f"lib{i}.so", "FILE 0 a.c\n" + "".join(f"FUNC {16 * k:x} 10 0 f{noise.randbytes(12).hex()}\n{16 * k:x} 10 {k} 0\n" for k in range(6000)))
            for i in range(48)
        ]  # fmt: skip

        def resident(key="process_resident_memory_bytes"):
            return s.node.metrics()[key]

        def goes_back():
            """Of what some loads leave at once; they may end just after the moment at which it goes back."""
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda i: s.client.v5(job(modules[i::8], [[k, 0x1000] for k in range(6)])), range(8)))
            wait_for(lambda: resident('symbolicated_memory_bytes{kind="texts"}') == 0, "texts to be given up")
            before, end = resident(), time.monotonic() + 45
            while resident() > before - (3 << 20) and time.monotonic() < end:
                time.sleep(0.5)
            return time.monotonic() < end

        assert any(goes_back() for _ in range(3))
