# SPDX-License-Identifier: Apache-2.0
"""The files of contrib/ in the programs that they are for: Prometheus with the alerts, the blackbox exporter, mtail, and the queries
of the Grafana dashboard."""

import contextlib
import http.client
import json
import os
import re
import shutil
import subprocess
import time

import pytest

import incidents
from client import Client
from local_nginx import OWN_SERVER
from prometheus import CONTRIB, NEEDED, Asked, read
from stack import ROOT, Nginx, Stack, connects, free_port, wait_for
from symbols import debug_id

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, NEEDED)), reason=f"not all of {', '.join(NEEDED)} are installed"
)
BOUND = incidents.BOUND


def status_of_limited(stack):
    connection = http.client.HTTPConnection("127.0.0.1", stack.node.nginx.port, timeout=BOUND, source_address=("127.0.0.2", 0))
    with contextlib.closing(connection):
        connection.request("POST", "/symbolicate/v5", b"{}")
        return connection.getresponse().status


@pytest.fixture(scope="module")
def trial():
    with incidents.Trial() as t:
        yield t


@pytest.fixture
def stack(trial):
    return trial.stack


@pytest.fixture
def prometheus(trial):
    return trial.prometheus


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
@pytest.mark.parametrize("incident", incidents.INCIDENTS, ids=[i.what for i in incidents.INCIDENTS])
def test_an_incident_fires_and_ends(trial, incident):
    """Silent, or after 74 minutes: crashes, junk, wrong prefixes, lost lines of the log."""
    assert incidents.advice(incident)
    incidents.go(trial, incident)


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
def test_what_nginx_answers_itself_is_counted(stack, prometheus):
    assert stack.client.request("POST", "/symbolicate/v5", b"{" * (33 << 20)).status == 413
    wait_for(lambda: prometheus.query('symbolicated_nginx_own_replies_total{status="413"}'), "413 to be counted", BOUND)
    assert [status_of_limited(stack) for _ in range(4)][3] == 429
    wait_for(lambda: prometheus.query('symbolicated_nginx_own_replies_total{status="429"}'), "429 to be counted", BOUND)


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
