# SPDX-License-Identifier: Apache-2.0
"""Several hosts for the fault tests: HAProxy before two application hosts, each nginx and a responder; two memcached; an S3 server that
is bucket and store. Each has a network namespace and an address of its own."""

import contextlib
import csv
import os
import re
import secrets
import signal

import s3_server
from client import Client
from local_nginx import nginx_command, write_nginx
from network import NETWORK, Host, make_bridge
from s3 import ACCESS, BUCKET, SECRET
from stack import ROOT, Memcached, Nginx, Server, connected, connects, wait_for
from symbols import Symbols, compile_gensym
from world import CONFIG, FaultDaemon, World

HTTP, MEMCACHED, S3 = 80, 11211, 7070
EXAMPLE = os.path.join(ROOT, "contrib", "haproxy", "symbolicated.cfg")


class Balancer(Server):
    """HAProxy with the project's example. servers: {name: address} of those of the example that are there."""

    def __init__(self, host, directory, servers):
        super().__init__("balancer", directory, host.within)
        self.address, self.servers = (host.address, HTTP), servers
        self.socket = os.path.join(directory, "balancer.sock")

    def start(self):
        def server(line):
            address = self.servers.get(line["name"])
            return f"\tserver {line['name']} {address}:{HTTP}{line['rest']}\n" if address else ""

        with open(EXAMPLE, encoding="utf-8") as f:
            text = f.read()
        text = re.sub(r"^\tbind \S+", "\tbind %s:%d" % self.address, text, count=1, flags=re.M)
        text = re.sub(r"^\tserver (?P<name>\S+) \S+(?P<rest>.*)\n", server, text, flags=re.M)
        path = os.path.join(self.directory, "balancer.cfg")
        with open(path, "w", encoding="utf-8") as out:
            out.write(f"global\n\tstats socket {self.socket}\n\tlog stderr local0 info\n{text}")
        self.spawn(["haproxy", "-db", "-f", path])
        self.ready(lambda: connects(self.address) and connects(self.socket) and all(map(self.is_up, self.servers)))

    def status(self, name):
        """Of a host: UP, DOWN, or that it is on its way to the other, as "UP 1/2", where it still gets requests."""
        with connected(self.socket, 5) as s:
            s.sendall(b"show stat\n")
            with s.makefile(encoding="utf-8") as lines:
                rows = list(csv.DictReader(lines))
        return next(r["status"] for r in rows if r["# pxname"] == "symbols" and r["svname"] == name)

    def is_up(self, name):
        return self.status(name) == "UP"

    def wait_until(self, name, up):
        wanted = "UP" if up else "DOWN"
        wait_for(lambda: self.status(name) == wanted, f"the balancer to see that {name} is {wanted}")


class HostNginx(Nginx):
    def __init__(self, host, directory, backend, balancer):
        super().__init__("nginx-" + host.name, directory, backend, host.within)
        self.address, self.balancer = (host.address, HTTP), balancer

    def start(self):
        allowed = ("symbolicated.d/allow.conf", "127.0.0.0/8 1;", f"127.0.0.0/8 1;\n{NETWORK}.1 1;\n{self.balancer} 1;")
        trust = f"set_real_ip_from {self.balancer}; real_ip_header X-Forwarded-For; real_ip_recursive on;"
        conf = write_nginx(self.directory, [self.backend], HTTP, 443, http=trust, changes=[allowed], address=self.address[0])
        self.spawn(nginx_command(self.directory, conf))
        self.ready(lambda: connects(self.address))

    def processes(self):
        """Ids: its own, and its workers'."""
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [pid, *map(int, f.read().split())]

    def kill(self):
        """The workers, too, which outlive it otherwise."""
        workers = self.processes()[1:]
        super().kill()
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)


class S3Server(Server):
    """See s3.py; each request is a line of its log."""

    def __init__(self, host, directory, program):
        super().__init__("s3", directory, host.within)
        self.program, self.address = program, (host.address, S3)
        self.root = os.path.join(directory, "buckets")
        self.symbols = Symbols(os.path.join(self.root, BUCKET, "v1"))

    def start(self):
        self.spawn(s3_server.command(self.program, self.root, S3, ACCESS, SECRET, self.address[0]))
        self.ready(lambda: connects(self.address))

    def gets(self, module):
        """How often the file of a module was asked for: its path is counted. The server writes a line in pieces, so that two lines may be
        woven into each other."""
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read().count(f"/{module[0]}/{module[1]}/")


class Application:
    """One application host."""

    def __init__(self, host, directory, settings, balancer):
        self.host, self.name, self.address = host, host.name, (host.address, HTTP)
        self.drain_file = os.path.join(directory, f"drain-{host.name}")
        self.daemon = FaultDaemon("symbolicated-" + host.name, directory, {**settings, "drain_file": self.drain_file}, within=host.within)
        self.nginx = HostNginx(host, directory, self.daemon.socket, balancer)

    def start(self):
        self.daemon.start()
        self.nginx.start()

    def stop(self):
        self.nginx.stop()
        self.daemon.stop()

    def kill(self):
        self.nginx.kill()
        self.daemon.crash()

    def client(self, **options):
        return Client(HTTP, timeout=30, host=self.address[0], **options)

    def metrics(self):
        """{series: value}. A host that is overloaded may refuse the question once."""
        reply = wait_for(lambda: (r := self.client().get("/__metrics__")).status == 200 and r, "the metrics of a host")
        lines = reply.text.splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}

    def requests(self):
        """Symbolications and uploads that it has answered so far."""
        return sum(v for k, v in self.metrics().items() if re.match(r'symbolicated_requests_total\{route="(v4|v5|ranges)"', k))


class HostsWorld(World):
    """applications: the names of the application hosts."""

    port, applications, settings = HTTP, "ab", CONFIG

    def make_servers(self):
        self.program = s3_server.program()
        make_bridge()
        names = ["balancer", *self.applications, "m0", "m1", "s3"]
        self.network = {name: Host(name, number) for number, name in enumerate(names, 10)}
        self.shaped = {host.shape() for host in self.network.values()}
        self.host = self.network["balancer"].address
        self.memcached = []
        for i in range(2):
            host = self.network[f"m{i}"]
            self.memcached.append(Memcached(f"memcached{i}", self.directory, self.memory, (host.address, MEMCACHED), host.within))
        self.s3 = S3Server(self.network["s3"], self.directory, self.program)
        self.buckets, self.hosts, self.balancer = [self.s3], [], None

    def file(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(path, 0o600)
        return path

    def start(self):
        print("links:", ", ".join(self.shaped), flush=True)
        self.gensym = compile_gensym(self.directory)
        for server in [*self.memcached, self.s3]:
            server.start()
        self.make_key()
        settings = {
            **self.settings, "source": f"s3://{BUCKET}/v1", "symbfile_store": f"s3://{BUCKET}/store", "s3_endpoint": "http://%s:%d" % self.s3.address,
            "s3_credentials_file": self.file("credentials", f"[default]\naws_access_key_id = {ACCESS}\naws_secret_access_key = {SECRET}\n"),
            "memcached": [m.setting for m in self.memcached], "memcached_secret_file": self.file("secret", secrets.token_hex(32)),
            "keys_file": self.keys_file,
        }  # fmt: skip
        for name in self.applications:
            self.hosts.append(Application(self.network[name], self.directory, settings, self.host))
            self.daemons.append(self.hosts[-1].daemon)
            self.hosts[-1].start()
        self.balancer = Balancer(self.network["balancer"], self.directory, {h.name: h.address[0] for h in self.hosts})
        self.balancer.start()

    def servers(self):
        front = [self.balancer] if self.balancer else []
        return [*front, *(s for h in self.hosts for s in (h.nginx, h.daemon)), self.s3, *self.memcached]

    def stop(self):
        problems = super().stop()
        for host in self.network.values():
            host.stop()
        return problems

    def metric(self, series):
        """The sum of both hosts."""
        return sum(h.metrics().get(series, 0) for h in self.hosts)
