# SPDX-License-Identifier: Apache-2.0
"""Prometheus with contrib/'s configuration and rules, the blackbox exporter and mtail, all real. Times in the rules are divided by 60: an
alert of two minutes takes two seconds."""

import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request

from stack import ROOT, Server, connects, free_port

CONTRIB = os.path.join(ROOT, "contrib")
NEEDED = ("prometheus", "promtool", "prometheus-blackbox-exporter", "mtail")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def faster(rules):
    """Durations of 60th the length, and hours of as many minutes."""
    text, count = re.subn(r"(?<=\[)(\d+)m(?=\])|(?<=for: )(\d+)m\b", lambda m: f"{m[1] or m[2]}s", rules)
    text = re.sub(r"(?<=\[)(\d+)h(?=\])", r"\1m", text)
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
    """sources: URLs of sources whose certificates are watched, too."""

    def __init__(self, stack, sources=()):
        super().__init__("prometheus", os.path.join(stack.directory, "prometheus"))
        os.makedirs(self.directory)
        self.stack, self.sources = stack, sources
        self.port, self.blackbox, self.mtail = free_port(), free_port(), free_port()
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
        certified = [f"https://127.0.0.1:{self.stack.node.nginx.tls_port}/__lbheartbeat__", *self.sources]
        for what, new in (
            ("/etc/prometheus/symbolicated/", self.directory + "/"),
            ("'symbols1.example.org:80', 'symbols2.example.org:80'", f"'{host}'"),
            ("'http://symbols1.example.org/__heartbeat__', 'http://symbols2.example.org/__heartbeat__'", f"'http://{host}/__heartbeat__'"),
            # The exporter keeps half a second of the timeout for itself.
            ("job_name: symbolicated-heartbeat\n", "job_name: symbolicated-heartbeat\n    scrape_interval: 3s\n    scrape_timeout: 3s\n"),
            ("    scrape_interval: 5m\n", "    scrape_interval: 3s\n    scrape_timeout: 3s\n"),
            ("'https://symbols1.example.org/__lbheartbeat__', 'https://symbols2.example.org/__lbheartbeat__'", str(certified)[1:-1]),
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

    def alerts(self, name):
        """Those of this name that fire: their labels."""
        return [a["labels"] for a in self.ask("alerts")["alerts"] if a["state"] == "firing" and a["labels"]["alertname"] == name]
