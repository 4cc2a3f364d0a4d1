# SPDX-License-Identifier: Apache-2.0
"""The files of contrib/ in the programs that they are for: Prometheus with the alerts, the blackbox exporter, mtail, and the queries
of the Grafana dashboard. Times in the rules are divided by 60, so that an alert of two minutes takes two seconds."""

import contextlib
import http.client
import json
import os
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request

import pytest

from client import Client, job
from local_nginx import OWN_SERVER
from stack import ROOT, Nginx, Server, Stack, connects, free_port, wait_for
from symbols import SAMPLE, debug_id

CONTRIB = os.path.join(ROOT, "contrib")
NEEDED = ("prometheus", "promtool", "prometheus-blackbox-exporter", "mtail")
pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, NEEDED)), reason=f"not all of {', '.join(NEEDED)} are installed"
)
BOUND = 90  # seconds for an alert of a few seconds, on a busy machine


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def faster(rules):
    """Durations of 60th the length."""
    text, count = re.subn(r"(?<=\[)(\d+)m(?=\])|(?<=for: )(\d+)m\b", lambda m: f"{m[1] or m[2]}s", rules)
    assert count, rules
    return text


class Asked(Server):
    """A Prometheus at self.port."""

    def ask(self, path, **query):
        """None while it is not ready."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=20) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as e:
            if e.code == 503:  # it is not ready
                return None
            raise AssertionError(f"{query}: {e.read().decode()}") from None

    def query(self, text):
        data = self.ask("query", query=text)
        return data and data["result"]


class Prometheus(Asked):
    def __init__(self, stack):
        super().__init__("prometheus", os.path.join(stack.directory, "prometheus"))
        os.makedirs(self.directory)
        self.stack, self.port, self.blackbox, self.mtail = stack, free_port(), free_port(), free_port()
        self.others = [Server("blackbox", self.directory), Server("mtail", self.directory)]

    def start(self):
        self.write()
        blackbox, mtail = self.others
        config = os.path.join(self.directory, "blackbox.yml")
        with open(config, "w", encoding="utf-8") as out:
            out.write("modules: {http_2xx: {prober: http, timeout: 20s, http: {preferred_ip_protocol: ip4, tls_config: {insecure_skip_verify: true}}}}\n")
        blackbox.spawn(["prometheus-blackbox-exporter", f"--config.file={config}", f"--web.listen-address=127.0.0.1:{self.blackbox}"])
        log = os.path.join(self.stack.node.nginx.directory, "full.log")
        mtail.spawn([
            "mtail", "--address", "127.0.0.1", "--port", str(self.mtail), "--progs", os.path.join(CONTRIB, "mtail"), "--logs", log,
            "--logtostderr",
        ])  # fmt: skip
        blackbox.ready(lambda: connects(self.blackbox))
        mtail.ready(lambda: connects(self.mtail))
        self.spawn([
            "prometheus", f"--config.file={self.directory}/prometheus.yml", f"--storage.tsdb.path={self.directory}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ])  # fmt: skip
        self.ready(lambda: connects(self.port) and self.query("vector(1)"))

    def write(self):
        """The example's configuration, with this test's addresses and a fast clock."""
        text = read(CONTRIB, "prometheus", "prometheus.yml")
        host = f"127.0.0.1:{self.stack.node.nginx.port}"
        for what, new in (
            ("/etc/prometheus/symbolicated/", self.directory + "/"),
            ("'symbols1.example.org:80', 'symbols2.example.org:80'", f"'{host}'"),
            ("'http://symbols1.example.org/__heartbeat__', 'http://symbols2.example.org/__heartbeat__'", f"'http://{host}/__heartbeat__'"),
            # The exporter keeps half a second of the timeout for itself.
            ("job_name: symbolicated-heartbeat\n", "job_name: symbolicated-heartbeat\n    scrape_interval: 3s\n    scrape_timeout: 3s\n"),
            ("    scrape_interval: 5m\n", "    scrape_interval: 3s\n    scrape_timeout: 3s\n"),
            ("'https://symbols1.example.org/__lbheartbeat__', 'https://symbols2.example.org/__lbheartbeat__'", f"'https://127.0.0.1:{self.stack.node.nginx.tls_port}/__lbheartbeat__'"),
            ("127.0.0.1:9115", f"127.0.0.1:{self.blackbox}"),
            ("'symbols1.example.org:3903', 'symbols2.example.org:3903'", f"'127.0.0.1:{self.mtail}'"),
        ):
            assert what in text, what
            text = text.replace(what, new)
        with open(os.path.join(self.directory, "prometheus.yml"), "w", encoding="utf-8") as out:
            out.write("global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\n" + text)
        for name in ("recording.yml", "alerts.yml"):
            with open(os.path.join(self.directory, name), "w", encoding="utf-8") as out:
                out.write(faster(read(CONTRIB, "prometheus", name)))

    def stop(self):
        code = super().stop()
        for other in self.others:
            other.stop()
        return code

    def firing(self):
        return {a["labels"]["alertname"] for a in self.ask("alerts")["alerts"] if a["state"] == "firing"}

    def ends(self, *names):
        wait_for(lambda: not set(names) & self.firing(), f"{names} to end", BOUND, 0.2)


# Of loopback, 127.0.0.1 alone has no limit; others get one request a minute, and two at once besides.
ONLY_ONE_ALLOWED = [
    ("symbolicated.d/allow.conf", r"127\.0\.0\.0/8 1;", "127.0.0.1 1;"),
    ("symbolicated-http.conf", r"rate=50r/s", "rate=1r/m"),
    ("symbolicated.d/limits.conf", r"burst=200", "burst=2"),
]


def status_of_limited(stack):
    connection = http.client.HTTPConnection("127.0.0.1", stack.node.nginx.port, timeout=BOUND, source_address=("127.0.0.2", 0))
    with contextlib.closing(connection):
        connection.request("POST", "/symbolicate/v5", b"{}")
        return connection.getresponse().status


@pytest.fixture(scope="module")
def stack():
    config = {"failure_ttl_min": "200ms", "failure_ttl_max": "200ms", "bucket_connect_timeout": "2s"}
    with Stack(config=config) as s:
        s.symbols.add("app", SAMPLE)
        s.node.nginx.stop()
        shutil.rmtree(s.node.nginx.directory)
        s.node.nginx = Nginx(
            "nginx", s.directory, s.daemon.socket, server=OWN_SERVER + "\n\t\taccess_log full.log symbolicated;", changes=ONLY_ONE_ALLOWED
        )
        s.node.nginx.start()
        yield s


@pytest.fixture(scope="module")
def prometheus(stack):
    server = Prometheus(stack)
    server.start()
    yield server
    server.stop()


@pytest.mark.slow
def test_rules_are_sound():
    files = [os.path.join(CONTRIB, "prometheus", name) for name in ("recording.yml", "alerts.yml")]
    subprocess.run(["promtool", "check", "rules", *files], check=True, timeout=60)
    subprocess.run(["promtool", "test", "rules", os.path.join(ROOT, "tests/data/prometheus/alerts.test.yml")], check=True, timeout=60)


def test_every_alert_is_in_the_runbook():
    names = re.findall(r"alert: (\w+)", read(CONTRIB, "prometheus", "alerts.yml"))
    assert names == re.findall(r"^## (\w+)$", read(ROOT, "docs", "runbook.md"), re.M)
    assert set(re.findall(r"alertname: (\w+)", read(ROOT, "tests/data/prometheus/alerts.test.yml"))) == set(names)


@pytest.mark.slow
def test_a_dead_bucket_fires_and_ends(stack, prometheus):
    assert stack.client.frames(["app", debug_id("app")], [0x1000])[0]["function"] == "main"
    wait_for(lambda: prometheus.query('up{job="symbolicated"} == 1'), "the first scrape", BOUND)
    wait_for(lambda: prometheus.query('probe_success{job="symbolicated-heartbeat"} == 1'), "the first probe", BOUND)
    assert not prometheus.firing()
    stack.bucket.kill()
    failed = 0

    def burning():
        nonlocal failed
        failed += 1
        assert stack.client.post("/symbolicate/v5", job([[f"new{failed}", debug_id(f"new{failed}")]], [[0, 0x1000]])).status == 503
        return {"SymbolicatedDownloadsFailing", "SymbolicatedUnavailable", "SymbolicatedHeartbeatFailing"} <= prometheus.firing()

    wait_for(burning, "the alerts of a dead bucket to fire", BOUND, 0.2)
    stack.bucket.start()
    prometheus.ends("SymbolicatedDownloadsFailing", "SymbolicatedUnavailable", "SymbolicatedHeartbeatFailing")


@pytest.mark.slow
def test_a_source_that_has_nothing_fires(stack, prometheus):
    """A wrong prefix: it took 74 minutes."""
    stack.bucket.control("status:404")
    asked = 0

    def burning():
        nonlocal asked
        asked += 1
        stack.client.frames([f"none{asked}", debug_id(f"none{asked}")], [0x1000])
        return "SymbolicatedDownloadsMissing" in prometheus.firing()

    wait_for(burning, "SymbolicatedDownloadsMissing", BOUND, 0.2)
    stack.bucket.reset()
    stack.symbols.add("there", SAMPLE)
    assert stack.client.frames(["there", debug_id("there")], [0x1000])[0]["function"] == "main"


@pytest.mark.slow
def test_a_source_that_serves_junk_fires(stack, prometheus):
    asked = 0

    def burning():
        nonlocal asked
        asked += 1
        name = f"junk{asked}"
        stack.symbols.put(name, debug_id(name), b"<html>please log in</html>\n")
        stack.client.frames([name, debug_id(name)], [0x1000])
        return "SymbolicatedDownloadsCorrupt" in prometheus.firing()

    wait_for(burning, "SymbolicatedDownloadsCorrupt", BOUND, 0.2)


@pytest.mark.slow
def test_a_dead_memcached_fires_for_as_long_as_it_is_dead(stack, prometheus):
    """It ended after five minutes."""
    stack.memcached[0].kill()
    asked = 0

    def ask():
        nonlocal asked
        asked += 1
        stack.client.frames([f"gone{asked}", debug_id(f"gone{asked}")], [0x1000])
        return "SymbolicatedMemcachedBreakerOpen" in prometheus.firing()

    wait_for(ask, "SymbolicatedMemcachedBreakerOpen", BOUND, 0.1)
    began = time.monotonic()
    while time.monotonic() - began < 12:  # more than twice the window, in which the counter rose
        assert ask()
        time.sleep(0.5)
    stack.memcached[0].start()
    wait_for(lambda: not ask(), "its end", BOUND, 0.2)


@pytest.mark.slow
def test_a_certificate_is_seen(stack, prometheus):
    wait_for(lambda: prometheus.query('probe_ssl_earliest_cert_expiry{job="symbolicated-certificates"} - time() > 20 * 86400'), "its end", BOUND)
    assert "SymbolicatedCertificateEnds" not in prometheus.firing()


@pytest.mark.slow
def test_what_nginx_answers_itself_is_counted(stack, prometheus):
    assert stack.client.request("POST", "/symbolicate/v5", b"{" * (33 << 20)).status == 413
    wait_for(lambda: prometheus.query('symbolicated_nginx_own_replies_total{status="413"}'), "413 to be counted", BOUND)
    assert [status_of_limited(stack) for _ in range(4)][3] == 429
    wait_for(lambda: prometheus.query('symbolicated_nginx_own_replies_total{status="429"}'), "429 to be counted", BOUND)
    stack.daemon.crash()

    def burning():
        assert stack.client.get("/__version__").status == 502
        return {"SymbolicatedNginxErrors", "SymbolicatedDown"} <= prometheus.firing()

    wait_for(burning, "SymbolicatedNginxErrors and SymbolicatedDown", BOUND, 0.2)
    stack.daemon.start()
    prometheus.ends("SymbolicatedNginxErrors", "SymbolicatedDown")


def test_every_query_of_the_dashboard_gives_data(stack, prometheus):
    assert stack.client.frames(["app", debug_id("app")], [0x1000])[0]["function"] == "main"
    dashboard = json.loads(read(CONTRIB, "grafana", "symbolicated.json"))
    queries = [t["expr"] for panel in dashboard["panels"] for t in panel.get("targets", ())]
    assert len(queries) > 15
    for query in queries:
        text = query.replace("$__rate_interval", "30s").replace("$instance", ".*")
        assert "$" not in text, query
        # Nothing is above zero where nothing happens.
        wait_for(lambda q=text.removesuffix(" > 0"): prometheus.query(q), f"data for {query}", BOUND)


def test_the_dashboard_shows_every_family_or_says_why_not(stack):
    panels = json.loads(read(CONTRIB, "grafana", "symbolicated.json"))["panels"]
    assert all(panel.get("description") for panel in panels if panel["type"] != "row")
    assert len({panel["id"] for panel in panels}) == len(panels)
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for panel in panels for t in panel.get("targets", ()) for name in re.findall(r"\b(?:symbolicated|process)_\w+", t["expr"])}
    (notes,) = [panel["options"]["content"] for panel in panels if panel["type"] == "text"]
    left_out = set(re.findall(r"`(\w+)`", notes))
    families = set(re.findall(r"^# TYPE (\w+) ", stack.client.get("/__metrics__").text, re.M))
    assert not shown & left_out
    assert shown | left_out == families, (shown | left_out) ^ families


class Responders(Asked):
    """A Prometheus with the example's job of responders alone, which scrapes `targets`."""

    def __init__(self, directory, targets):
        super().__init__("each", directory)
        self.targets, self.port = targets, free_port()

    def start(self):
        job = re.search(r"  - job_name: symbolicated\n.*?(?=\n\n)", read(CONTRIB, "prometheus", "prometheus.yml"), re.S).group(0)
        job, count = re.subn(r"targets: .*", f"targets: {json.dumps(self.targets)}", job)
        assert count == 1
        config = os.path.join(self.directory, "each.yml")
        with open(config, "w", encoding="utf-8") as out:
            out.write(f"global: {{scrape_interval: 500ms, scrape_timeout: 500ms}}\nscrape_configs:\n{job}\n")
        self.spawn(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.directory}/each", f"--web.listen-address=127.0.0.1:{self.port}"])
        self.ready(lambda: connects(self.port) and self.query("vector(1)"))

    def up(self):
        return {r["metric"]["instance"]: r["value"][1] for r in self.query("process_start_time_seconds")}


@pytest.mark.slow
def test_each_of_two_responders_is_scraped_alone():
    with Stack(daemons=2, nginx=False) as s:
        for name, node in zip("ab", s.nodes):
            os.mkdir(os.path.join(s.directory, f"symbolicated-{name}"))
            os.symlink(node.daemon.socket, os.path.join(s.directory, f"symbolicated-{name}", "symbolicated.sock"))
        each = ("symbolicated-each.conf", "/run/symbolicated-", os.path.join(s.directory, "symbolicated-"))
        nginx = Nginx(
            "nginx", s.directory, s.daemon.socket, server=OWN_SERVER + "\n\t\tinclude symbolicated-each.conf;", changes=[each],
            http="set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;",
        )  # fmt: skip
        nginx.start()
        try:
            client = Client(nginx.port)
            assert client.get("/__heartbeat__/b").status == 200
            assert client.get("/__metrics__/c").error(502)
            assert client.get("/__metrics__/a", X_Forwarded_For="203.0.113.9").error(403)
            assert client.get("/__metrics__/../a").status in (400, 404)
            prometheus = Responders(s.directory, [f"127.0.0.1:{nginx.port}/{name}" for name in "ab"])
            prometheus.start()
            try:
                wait_for(lambda: len(prometheus.up()) == 2, "both to be scraped", BOUND, 0.2)
                found = prometheus.up()
                assert set(found) == set(prometheus.targets) and len(set(found.values())) == 2, found
            finally:
                prometheus.stop()
        finally:
            nginx.stop()
