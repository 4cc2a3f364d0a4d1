# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in a year, each with the alert that must tell of it, what the runbook says, and what mends it: real servers with real
faults, and a real Prometheus. Each ends as it began. tests/tools/try_alerts.py prints them as a table."""

import contextlib
import http.client
import os
import re
import resource
import shutil
import signal
import subprocess
import threading
import time

from client import job
from local_nginx import OWN_SERVER, nginx_command
from prometheus import Prometheus, read
from stack import ROOT, Nginx, Server, Stack, connected, connects, free_port, wait_for
from symbols import SAMPLE, debug_id

BOUND = 180  # seconds for what takes a few, on a busy machine
PACE = 0.2  # seconds between two looks
# Of loopback, 127.0.0.1 alone has no limit; others get one request a minute, and two at once besides.
ONLY_ONE_ALLOWED = [
    ("symbolicated.d/allow.conf", r"127\.0\.0\.0/8 1;", "127.0.0.1 1;"),
    ("symbolicated-http.conf", r"rate=50r/s", "rate=1r/m"),
    ("symbolicated.d/limits.conf", r"burst=200", "burst=2"),
]
PROXY = """\
daemon off;
pid nginx.pid;
error_log error.log info;
events {{}}
http {{
	access_log off;
	proxy_temp_path tmp-proxy;
	client_body_temp_path tmp-body;
	fastcgi_temp_path tmp-fastcgi;
	uwsgi_temp_path tmp-uwsgi;
	scgi_temp_path tmp-scgi;
	server {{
		listen 127.0.0.1:{port} ssl;
		ssl_certificate cert.pem;
		ssl_certificate_key key.pem;
		location = / {{
			return 200;
		}}
		location / {{
			proxy_pass {url};
		}}
	}}
}}
"""


def make_certificate(folder, days):
    """cert.pem and key.pem of 127.0.0.1, in place of those that are there, signed by the authority in ca.pem, which is made once."""
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    if not os.path.exists(os.path.join(folder, "ca.pem")):
        subprocess.run([*new, "-days", "400", "-subj", "/CN=Authority", "-keyout", "ca.key", "-out", "ca.pem"], check=True, capture_output=True, cwd=folder)
    subprocess.run(
        [*new, "-days", str(days), "-CA", "ca.pem", "-CAkey", "ca.key", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
         "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", "key.pem.new", "-out", "cert.pem.new"],
        check=True, capture_output=True, cwd=folder,
    )  # fmt: skip
    for name in ("key.pem", "cert.pem"):
        os.replace(os.path.join(folder, name + ".new"), os.path.join(folder, name))


class TlsSource(Server):
    """The bucket by https, with an authority of its own."""

    def __init__(self, directory):
        super().__init__("tls-source", os.path.join(directory, "tls-source"))
        os.makedirs(self.directory)
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}/"
        make_certificate(self.directory, 90)

    def start_before(self, bucket):
        conf = os.path.join(self.directory, "nginx.conf")
        with open(conf, "w", encoding="utf-8") as out:
            out.write(PROXY.format(port=self.port, url=bucket.url))
        self.spawn(nginx_command(self.directory, conf))
        self.ready(lambda: connects(self.port))


class Trial:
    """The servers, and a Prometheus that watches them."""

    def __init__(self):
        self.stack = Stack(config={"failure_ttl_min": "200ms", "failure_ttl_max": "200ms", "bucket_connect_timeout": "2s"})
        self.asked, self.tls, self.prometheus = 0, None, None

    def __enter__(self):
        s = self.stack.start()
        s.symbols.add("app", SAMPLE)
        self.tls = TlsSource(s.directory)
        self.tls.start_before(s.bucket)
        s.daemon.settings.update(source=self.tls.url, source_ca_file=f"{self.tls.url} {self.tls.directory}/ca.pem")
        s.node.restart()
        s.node.nginx.stop()
        shutil.rmtree(s.node.nginx.directory)
        s.node.nginx = Nginx(
            "nginx", s.directory, s.daemon.socket, server=OWN_SERVER + "\n\t\taccess_log full.log symbolicated;", changes=ONLY_ONE_ALLOWED
        )
        s.node.nginx.start()
        self.prometheus = Prometheus(s, [self.tls.url])
        self.prometheus.start()
        self.ask(["app", debug_id("app")])
        wait_for(lambda: self.prometheus.query('up{job="symbolicated"} == 1'), "the first scrape", BOUND)
        wait_for(lambda: self.prometheus.query('probe_success{job="symbolicated-heartbeat"} == 1'), "the first probe", BOUND)
        return self

    def __exit__(self, *_):
        for server in (self.prometheus, self.tls):
            if server:
                server.stop()
        self.stack.stop()

    def new(self, word="new"):
        self.asked += 1
        name = f"{word}{self.asked}"
        return [name, debug_id(name)]

    def ask(self, module):
        """Whether the module was found; None: refused."""
        reply = self.stack.client.post("/symbolicate/v5", job([module], [[0, 0x1000]]))
        return reply.json()["results"][0]["found_modules"]["/".join(module)] if reply.status == 200 else None

    def ask_new(self):
        return self.ask(self.new())

    def ask_good(self):
        """A new module that the bucket has."""
        module = self.new("good")
        self.stack.symbols.add(module[0], SAMPLE)
        return self.ask(module)


# ---- what goes wrong: until the first yield, and what is asked while it does; what mends it, and what is asked then ----


def dead_source(t):
    t.stack.bucket.kill()
    yield t.ask_new
    t.stack.bucket.start()
    yield t.ask_good


def refusing_source(status):
    def incident(t):
        t.stack.bucket.control(f"status:{status}")
        yield t.ask_new
        t.stack.bucket.reset()
        yield t.ask_good

    return incident


def junk_source(t):
    t.stack.bucket.control("junk")
    mended = []

    def ask():
        mended.append(t.new("junk"))
        t.stack.symbols.add(mended[-1][0], SAMPLE)
        assert t.ask(mended[-1]) is False

    yield ask
    t.stack.bucket.reset()
    # nobody asks for another module
    wait_for(lambda: t.ask(mended[0]), "modules that were junk to be found", BOUND, PACE)
    assert all(map(t.ask, mended))
    yield t.ask_good


def dead_memcached(t):
    t.stack.memcached[0].kill()
    yield t.ask_good
    t.stack.memcached[0].start()
    yield t.ask_good


def dead_responder(t):
    t.stack.daemon.crash()

    def ask():
        assert t.stack.client.get("/__version__").status == 502

    yield ask
    t.stack.daemon.start()
    yield t.ask_good


def crashes(t):
    """One each ten seconds, which are minutes here."""
    last = time.monotonic()

    def ask():
        nonlocal last
        if time.monotonic() - last >= 10:
            t.stack.daemon.crash()
            t.stack.daemon.start()
            last = time.monotonic()
        t.ask(["app", debug_id("app")])

    yield ask
    yield t.ask_good


def full_disk_of_logs(t):
    folder = os.path.join(t.stack.directory, "log")
    path = os.path.join(folder, "server.log")
    os.mkdir(folder)
    mounted = os.getuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "log", folder], check=False, capture_output=True).returncode == 0
    before = t.stack.daemon.settings.get("log_file")
    try:
        if not mounted:
            os.symlink("/dev/full", path)
        t.stack.daemon.write_config(log_file=path)
        t.stack.daemon.signal(signal.SIGHUP)  # what it says of that is in the new file
        if mounted:
            with open(os.path.join(folder, "ballast"), "wb", buffering=0) as ballast, contextlib.suppress(OSError):
                while True:
                    ballast.write(bytes(512))
        yield t.ask_good
        os.remove(os.path.join(folder, "ballast") if mounted else path)
        if not mounted:
            t.stack.daemon.signal(signal.SIGHUP)
        yield t.ask_good
        lines = [re.sub(r"\A\{.*\}\Z", "", line) for line in read(path).splitlines()]
        assert not any(lines), lines
        assert "were lost" in read(path)
    finally:
        t.stack.daemon.write_config(log_file=before)
        t.stack.daemon.signal(signal.SIGHUP)
        if mounted:
            subprocess.run(["umount", "--lazy", folder], check=False)


def full_disk_of_nginx(t):
    """Where nginx puts bodies."""
    folder = os.path.join(t.stack.node.nginx.directory, "tmp-body")
    mounted = os.getuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=0777", "body", folder], check=False, capture_output=True).returncode == 0
    body = b'{"jobs": []' + b" " * (1 << 20) + b"}"
    try:
        if not mounted:
            os.chmod(folder, 0)

        def ask():
            assert t.stack.client.request("POST", "/symbolicate/v5", body).status == 500

        yield ask
        if mounted:
            subprocess.run(["mount", "-o", "remount,size=16m", folder], check=True)
        else:
            os.chmod(folder, 0o700)
        yield t.ask_good
        assert t.stack.client.request("POST", "/symbolicate/v5", body).status == 200
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", folder], check=False)
        else:
            os.chmod(folder, 0o700)


def greedy_client(t):
    """Sixty cold requests at a time, of which 48 may be under way."""
    t.stack.bucket.control("slow:1", "greedy")
    ended = threading.Event()
    lock = threading.Lock()

    def ask_on():
        while not ended.is_set():
            with lock:
                module = t.new("greedy")
                t.stack.symbols.add(module[0], SAMPLE)
            with contextlib.suppress(OSError, http.client.HTTPException):
                t.ask(module)

    threads = [threading.Thread(target=ask_on, daemon=True) for _ in range(60)]
    try:
        for thread in threads:
            thread.start()
        yield lambda: None
        ended.set()
        for thread in threads:
            thread.join(60)
        yield t.ask_good
    finally:
        ended.set()
        t.stack.bucket.reset()


def ending_certificate(server_of):
    """Ten days are left. server_of: whose it is."""

    def incident(t):
        server = server_of(t)
        make_certificate(server.directory, 10)
        server.signal(signal.SIGHUP)
        yield lambda: None
        make_certificate(server.directory, 90)
        server.signal(signal.SIGHUP)
        yield t.ask_good
        assert t.ask_good()

    return incident


def few_descriptors(t):
    """The limit is 400, and connections are held."""
    pid = t.stack.daemon.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (400, before[1]))
    held = []
    try:
        while len(os.listdir(f"/proc/{pid}/fd")) < 350:
            held.append(connected(t.stack.daemon.socket, 20))
            time.sleep(0.002)
            assert len(held) < 400
        yield t.ask_good
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        yield t.ask_good
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        for connection in held:
            connection.close()


class Incident:
    """what: happened; alerts: that fire; says: words of the runbook about the first of them, which name this cause; mended: by what."""

    def __init__(self, what, alerts, says, mended, run):
        self.what, self.alerts, self.says, self.mended, self.run = what, alerts.split(), says, mended, run


INCIDENTS = [
    Incident("a source is dead", "SymbolicatedDownloadsFailing SymbolicatedUnavailable SymbolicatedHeartbeatFailing",
             "names module, source and reason", "the source was started", dead_source),
    Incident("404 for all: a wrong prefix", "SymbolicatedDownloadsMissing", "the prefix is wrong", "the prefix was put right", refusing_source(404)),
    Incident("403 for all", "SymbolicatedDownloadsMissing", "answers 403 for all", "the permission was given back", refusing_source(403)),
    Incident("a source serves junk", "SymbolicatedDownloadsCorrupt", "Mend the source", "the source was mended", junk_source),
    Incident("memcached is dead", "SymbolicatedMemcachedBreakerOpen", "restart it", "memcached was started", dead_memcached),
    Incident("the responder is dead", "SymbolicatedDown SymbolicatedNginxErrors", "the responder does not run", "it was started", dead_responder),
    Incident("a crash each ten minutes", "SymbolicatedRestarting", "keep the core", "no more crashes", crashes),
    Incident("a full disk of logs", "SymbolicatedLogLost", "a full disk", "room was made", full_disk_of_logs),
    Incident("a full disk of nginx's bodies", "SymbolicatedNginxErrors", "a full disk below", "room was made", full_disk_of_nginx),
    Incident("a client asks for too much at a time", "SymbolicatedHeldBack", "Some clients send so many", "it stopped", greedy_client),
    Incident("nginx's certificate ends in ten days", "SymbolicatedCertificateEnds", "Renew the certificate", "it was renewed", ending_certificate(lambda t: t.stack.node.nginx)),
    Incident("a source's certificate ends in ten days", "SymbolicatedCertificateEnds", "Of a source", "it was renewed", ending_certificate(lambda t: t.tls)),
    Incident("descriptors near their limit", "SymbolicatedDescriptors", "LimitNOFILE", "the limit was raised", few_descriptors),
]  # fmt: skip


def runbook(alert):
    """What it says of an alert, as one line."""
    text = read(ROOT, "docs", "runbook.md").split(f"\n## {alert}\n", 1)[1].split("\n## ", 1)[0]
    return " ".join(text.split())


def advice(incident):
    """The sentence, or the row of a table, that names this cause."""
    text = runbook(incident.alerts[0])
    assert incident.says in text, f"the runbook says nothing of {incident.what}: {text}"
    parts = re.split(r"(?<=[.:]) (?=[A-Z`*])|\| \|", text)
    return next(part for part in parts if incident.says in part).strip(" |")


class Seen:
    """seconds: until all alerts fired, and from when it was mended until none did any more."""

    def __init__(self, fired, ended):
        self.fired, self.ended = fired, ended


def go(t, incident):
    """Lets it happen, and mends it."""
    fires = set(incident.alerts)
    wait_for(lambda: not fires & t.prometheus.firing(), f"an end of {fires}, which others left", BOUND, PACE)
    began, run = time.monotonic(), incident.run(t)
    try:
        ask = next(run)
        wait_for(lambda: (ask(), fires <= t.prometheus.firing())[1], f"{incident.what}: {', '.join(fires)}", BOUND, PACE)
        fired, mended = time.monotonic() - began, time.monotonic()
        ask = next(run)
        wait_for(lambda: (ask(), not fires & t.prometheus.firing())[1], f"an end of {', '.join(fires)}", BOUND, PACE)
        ended = time.monotonic() - mended
        assert next(run, None) is None
    finally:
        run.close()
    return Seen(fired, ended)
