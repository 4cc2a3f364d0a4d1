# SPDX-License-Identifier: Apache-2.0
"""The servers of the benchmark, all on loopback: the bucket, memcached, symbolicated and the nginx before it, the null responder
behind another nginx, and lines to a distant bucket."""

import contextlib
import json
import os
import re
import sys
import urllib.request

from inputs import Failure, run
from stack import Daemon, Memcached, Nginx, Server, connects, free_port, tail, wait_for


BUCKET_CONF = """\
{user}
daemon off;
worker_processes 2;
pid nginx.pid;
events {{ worker_connections 1024; }}
http {{
	access_log off;
	sendfile on;
	tcp_nopush on;
	keepalive_requests 100000;
	default_type application/octet-stream;
	client_body_temp_path tmp-body;
	proxy_temp_path tmp-proxy;
	fastcgi_temp_path tmp-fastcgi;
	uwsgi_temp_path tmp-uwsgi;
	scgi_temp_path tmp-scgi;
	server {{
		listen 127.0.0.1:{port};
		root {root};
		location /plain/ {{ }}
		location /gzip/ {{ add_header Content-Encoding gzip; }}
		location /corpus/ {{ }}
		location ~ ^/corpus/[^/]*\.gz\.pdb/ {{ add_header Content-Encoding gzip; }}
	}}
}}
"""


class StaticBucket(Server):
    """The bucket: nginx and its files. gzip objects are stored as such."""

    def __init__(self, directory, root):
        super().__init__("bucket", os.path.join(directory, "bucket"))
        os.makedirs(self.directory)
        self.port, self.conf = free_port(), os.path.join(self.directory, "nginx.conf")
        user = "user root;" if os.getuid() == 0 else ""  # the inputs may be below a directory of root's
        with open(self.conf, "w", encoding="utf-8") as out:
            out.write(BUCKET_CONF.format(user=user, port=self.port, root=root))
        self.url = f"http://127.0.0.1:{self.port}/"

    def start(self):
        self.spawn(["nginx", "-p", self.directory, "-c", self.conf, "-e", self.log])
        self.ready(lambda: connects(self.port))


class Link(Server):
    """A line to the bucket (tests/bench/link.c), which may be made anew with another length at the same port. url: as of the bucket."""

    def __init__(self, directory, build, bucket, port):
        super().__init__("link", directory)
        self.program, self.bucket, self.port = os.path.join(build, "tests", "bench", "link"), bucket, port
        self.url = f"http://127.0.0.1:{port}/"

    def start(self, round_trip_ms=0, mbit=100000):
        self.stop()
        self.spawn([self.program, str(self.bucket.port), str(round_trip_ms), str(mbit), str(self.port)])
        self.ready(lambda: connects(self.port))


class NullResponder(Server):
    def __init__(self, directory, program):
        super().__init__("null", directory)
        self.program, self.socket = program, os.path.join(directory, "null.sock")

    def start(self):
        self.spawn([self.program, self.socket])
        self.ready(lambda: os.path.exists(self.socket) and connects(self.socket))
        os.chmod(self.socket, 0o666)


class Service:
    """memcached, symbolicated and the nginx before it, and the same nginx before the null responder."""

    def __init__(self, directory, inputs, build):
        self.directory, self.build = directory, build
        self.bucket = StaticBucket(directory, inputs.directory)
        self.link = Link(directory, build, self.bucket, free_port())
        self.memcached = Memcached("memcached", directory, 1024)
        self.daemon = Daemon("symbolicated", directory, {})
        self.nginx = Nginx("nginx", directory, self.daemon.socket)
        self.null = NullResponder(directory, os.path.join(build, "tests", "bench", "null_responder"))
        self.null_nginx = Nginx("nginx-null", directory, self.null.socket)
        self.servers = [self.bucket, self.link, self.null, self.nginx, self.null_nginx]

    def start(self):
        for server in self.servers:
            server.start()

    def stop(self):
        for server in [self.nginx, self.null_nginx, self.daemon, self.memcached, self.link, self.bucket, self.null]:
            try:
                server.stop()
            except AssertionError as e:
                print(e, file=sys.stderr)

    def fresh(self, source, keep_memcached=False, start=True, far=False, **settings):
        """A new process over a bucket (far: through the link), and a new empty memcached unless the old one is kept. All
        settings but those given are the defaults; finish_after is 0, as if every module were asked for again. start=False:
        all is ready for daemon.start()."""
        if self.daemon.process:
            self.daemon.check()
            self.daemon.crash()
        if not keep_memcached or not self.memcached.running:
            if self.memcached.process:
                self.memcached.kill()
            with contextlib.suppress(FileNotFoundError):
                os.remove(self.memcached.address)
            self.memcached.start()
        url = (self.link if far else self.bucket).url
        self.daemon.settings = {"source": url + source, "memcached": self.memcached.setting, "finish_after": "0", **settings}
        if start:
            self.daemon.start()
            self.reach()

    def reach(self):
        """nginx's connection to the new process is made by this one."""
        with urllib.request.urlopen(self.url("/__lbheartbeat__"), timeout=20) as reply:
            reply.read()

    def url(self, path="/symbolicate/v5", null=False):
        return f"http://127.0.0.1:{(self.null_nginx if null else self.nginx).port}{path}"

    def metrics(self):
        with urllib.request.urlopen(self.url("/__metrics__"), timeout=20) as reply:
            text = reply.read().decode()
        return {k: float(v) for k, v in (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))}

    def settled(self):
        """Until maps are built and stored."""

        def idle():
            m = self.metrics()
            return m["symbolicated_loads_in_flight"] == 0 and m["symbolicated_loading_bytes"] == 0 and m

        return wait_for(idle, "loads and stores to end", 120)

    def load(self, requests, port=None, seconds=60.0, **options):
        """The load client over a file of requests; its result. On a busy machine no request may be over in a second: then it has more."""
        result = json.loads(run(self.load_command(requests, port, seconds=seconds, **options)))
        if not result["errors"] and not result["requests"] and seconds < 60:
            return self.load(requests, port, seconds=4 * seconds, **options)
        if result["errors"] or not result["requests"]:
            raise Failure(f"of {result['requests']} requests {result['errors']} had errors")
        return result

    def load_command(self, requests, port=None, connections=1, null=False, warm_up=0.0, out=None, count=1000000, seconds=60.0, rate=0.0, interval=0.0):
        port = port or (self.null_nginx if null else self.nginx).port
        command = [os.path.join(self.build, "tests", "bench", "load"), "-c", str(connections), "-n", str(count), "-t", str(seconds)]
        command += ["-w", str(warm_up), "-r", str(rate), "-i", str(interval), *(["-o", out] if out else [])]
        return [*command, str(port), requests]

    def proc(self, name):
        with open(f"/proc/{self.daemon.process.pid}/{name}", encoding="utf-8") as f:
            return f.read()

    def cpu_seconds(self):
        """User and system time of the responder, and of nginx with its workers."""
        parents = {self.daemon.process.pid, self.nginx.process.pid}
        ticks = 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                fields = f.read().rsplit(")", 1)[1].split()
                if int(pid) in parents or int(fields[1]) == self.nginx.process.pid:
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory(self, what):
        """VmRSS (now) or VmHWM (the peak), in bytes."""
        return int(re.search(rf"^{what}:\s+(\d+) kB", self.proc("status"), re.M).group(1)) * 1024
