#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make bench: how fast symbolicated is, each line against a limit or a peer that is measured in the same run.

    tests/bench/bench.py [--build DIR] [--quick] [--once] [LINE...]

docs/performance.md explains every line. LINE: numbers of the lines to measure; all without any. --quick: small inputs and
short runs, to see that every line works; its numbers mean nothing. --once: each measurement once, for who repeats all of
it. Needs a build with the programs of `make bench`.
"""

# What other programs measure. bench.py runs `tests/bench/bench_X.py --json --build DIR [--quick]` with an end after EXTERNAL_BOUND
# seconds, and takes the last line of its standard output, one JSON object:
#
#   {"lines": [{"line": "push of 1 GB in 500 files",      what was measured, in a few words: the row's name
#               "figure": 1.12,                           the median; null: it could not be measured, and "note" says why
#               "min": 1.08, "max": 1.31, "n": 3,         its spread over n rounds; may be left out
#               "unit": "x aws s3 cp",                    behind the figure: "x PEER" for a ratio, else "s", "ms", "MB", ...
#               "target": "<= 1.3",                       "<= NUMBER" or ">= NUMBER" in that unit; "" or left out: for information
#               "met": true,                              may be left out: it follows from figure and target
#               "ours": "9.1 s", "against": "8.1 s",      what a ratio is made of, ready to print; may be left out
#               "wall": "",                               of a missed line: what stands in the way, one sentence
#               "note": ""}, ...]}
#
# A bare list of such objects is read too. With --quick it takes some seconds, and its figures mean nothing. What it says on
# standard error is shown when its exit code is not 0.

import argparse
import contextlib
import glob
import gzip
import json
import os
import platform
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "wire"))
import stack  # noqa: E402
from stack import Daemon, Memcached, Nginx, Server, connects, free_port, tail, wait_for  # noqa: E402
from symbols import compile_gensym, debug_id, make_bucket, sym_name  # noqa: E402

BUDGET = 570  # seconds for everything; what is not begun by then is left out
COMMAND_BOUND = 180  # seconds for one command
SEED = 20261121
STACK_FRAMES = 25
LINES_BEFORE = 6843  # of line 14, in November 2026
MB = 1e6


class Failure(Exception):
    """A line cannot be measured: its text says why."""


class Sizes:
    def __init__(self, quick, once):
        self.quick = quick
        self.small = 5000 if quick else 100000  # functions
        self.xul = 10000 if quick else 380000
        self.huge = 20000 if quick else 700000  # 900 MB
        self.corpus_scale = "0.02" if quick else "1.0"
        self.frames = 3000 if quick else 60000
        self.connections = 16
        self.seconds = 0.4 if quick else 4.0
        self.warm_up = 0.1 if quick else 0.5
        self.repeats = 1 if once else 2 if quick else 5
        self.large_repeats = 1 if quick or once else 3


def run(command, **options):
    """A command to its end; its output. Anything but success is a failure of the line."""
    options.setdefault("timeout", COMMAND_BOUND)
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise Failure(f"{command[0]} gave {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def wall(command):
    """Seconds that a shell command takes."""
    start = time.monotonic()
    done = subprocess.run(["/bin/sh", "-c", command], check=False, timeout=COMMAND_BOUND)
    took = time.monotonic() - start
    if done.returncode:
        raise Failure(f"{command} gave {done.returncode}")
    return took


# ---- the inputs ----


class Inputs:
    """Symbol files and requests, made when a line first wants them. They stay for the next run; a file is there only when it
    is whole."""

    def __init__(self, directory, sizes, shared):
        self.sizes, self.shared, self.left_out = sizes, shared, []
        # The bucket fits its requests: another set of them has another directory.
        self.directory = directory if self.from_shared("requests.jsonl.gz") else directory + "-generated"
        directory = self.directory
        os.makedirs(directory, exist_ok=True)
        self.gensym = compile_gensym(directory)

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def made(self, path, make):
        """path; make(temporary path) writes it unless it is there."""
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            make(path + ".part")
            os.replace(path + ".part", path)
        return path

    def from_shared(self, name):
        path = self.shared and os.path.join(self.shared, name)
        return path if path and os.path.exists(path) else None

    def missing(self, name, instead):
        text = f"{name} is not there (set SHARED_DATA to its folder): {instead} stands in"
        if text not in self.left_out:
            self.left_out.append(text)
            print(text, flush=True)

    def generated(self, functions, name="xul.pdb", *flags):
        """(module, path) of a file of gensym in the bucket of plain files."""
        module = [name, debug_id(f"{name} {functions} {' '.join(flags)}")]
        command = [self.gensym, "-n", name, "-i", module[1], "-f", str(functions), "-s", str(SEED), *flags]

        def make(part):
            with open(part, "wb") as out:
                subprocess.run(command, stdout=out, check=True, timeout=COMMAND_BOUND)

        return module, self.made(self.path("plain", *module, sym_name(name)), make)

    def small(self):
        return self.generated(self.sizes.small, "small.pdb")

    def real(self):
        """(label, module, path): ceph-osd.sym where it is."""
        packed = self.from_shared("ceph-osd.sym.zst")
        if not packed:
            self.missing("ceph-osd.sym.zst", f"gensym -f {self.sizes.small}")
            return f"gensym -f {self.sizes.small}", *self.small()
        module = ["ceph-osd", "CEB366FBF2C5A264F863D96FA875EB4A0"]
        path = self.path("plain", *module, "ceph-osd.sym")
        self.made(path, lambda part: run(["zstd", "-q", "-d", packed, "-o", part]))
        return "ceph-osd.sym", module, path

    def xul(self):
        return self.generated(self.sizes.xul, "xul.pdb", "-x", "-c", "xul.dll")

    def huge(self, *flags):
        return self.generated(self.sizes.huge, f"huge{''.join(flags)}.pdb", "-x", "-c", "huge.dll", *flags)

    def compressed(self, module, path):
        """The same object in the bucket of gzip objects."""

        def make(part):
            with open(part, "wb") as out:
                subprocess.run(["gzip", "-1", "-n", "-c", path], stdout=out, check=True, timeout=COMMAND_BOUND)

        return self.made(self.path("gzip", *module, sym_name(module[0])), make)

    def xul_copies(self, count):
        """Modules of line 13: one text under several ids, as gzip objects of two members, beside the corpus."""
        _, path = self.xul()
        with open(path, "rb") as f:
            rest_at = len(f.readline())

        def make_rest(part):
            wall(f"tail -c +{rest_at + 1} '{path}' | gzip -1 -n >'{part}'")

        rest = self.made(self.path("xul-rest.gz"), make_rest)
        modules = [["xulcopy.pdb", debug_id(f"copy {i}")] for i in range(count)]
        for name, ident in modules:

            def make(part, name=name, ident=ident):
                with open(rest, "rb") as f, open(part, "wb") as out:
                    out.write(gzip.compress(f"MODULE windows x86_64 {ident} {name}\n".encode()))
                    shutil.copyfileobj(f, out, 1 << 20)

            self.made(self.path("corpus", name, ident, sym_name(name)), make)
        return modules

    def requests(self):
        """(label, path) of a file of requests, a JSON object a line."""
        path = self.from_shared("requests.jsonl.gz")
        if path:
            return "requests.jsonl.gz", path
        self.missing("requests.jsonl.gz", "600 random requests")
        return "600 random requests", self.made(self.path("requests.jsonl.gz"), write_random_requests)

    def corpus(self):
        """The requests, and below corpus/ the bucket that fits them. (label, lines)"""
        label, path = self.requests()
        done = self.path("corpus.txt")

        def make(part):
            line = make_bucket(self.gensym, path, self.path("corpus"), "--scale", self.sizes.corpus_scale)
            with open(part, "w", encoding="utf-8") as out:
                out.write(line)

        self.made(done, make)
        with gzip.open(path, "rb") as lines:
            return f"{label}, {tail(done)}", [line.strip() for line in lines]

    def corpus_objects(self):
        out = []
        for directory, _, files in os.walk(self.path("corpus")):
            out += [os.path.relpath(os.path.join(directory, f), self.directory) for f in files if "xulcopy" not in f]
        return sorted(out)


def write_random_requests(path):
    """Requests in the shape of crash pings: a stack over a few of 60 modules."""
    source = random.Random(SEED)
    modules = [[f"module{i}.pdb", debug_id(f"module {i}")] for i in range(60)]
    spans = [source.randrange(100_000, 3_000_000) for _ in modules]
    with gzip.open(path, "wt") as out:
        for _ in range(600):
            chosen = source.sample(range(60), source.randrange(2, 6))
            frames = []
            for _ in range(STACK_FRAMES):
                index = source.randrange(len(chosen))
                frames.append([index, source.randrange(0x1000, spans[chosen[index]])])
            out.write(json.dumps({"memoryMap": [modules[i] for i in chosen], "stacks": [frames], "version": 4}) + "\n")


def functions_of(path):
    """(address, size) of the functions of a symbol file."""
    with open(path, "rb") as f:
        found = re.findall(rb"^FUNC (?:m )?([0-9a-f]+) ([0-9a-f]+) ", f.read(), re.M)
    return [(int(address, 16), int(size, 16)) for address, size in found if int(size, 16)]


def frames_of(path, count):
    """Random offsets: a function, and a place in it."""
    source = random.Random(SEED)
    functions = functions_of(path)
    return [address + source.randrange(size) for address, size in source.choices(functions, k=count)]


def body_of(module, offsets):
    return json.dumps({"memoryMap": [module], "stacks": [[[0, o] for o in offsets]]}, separators=(",", ":")).encode()


def http_request(body, reply_bytes=0, accept_gzip=False):
    """As the load client sends it, after its length. The null responder obeys X-Reply-Bytes."""
    encoding = "Accept-Encoding: gzip\r\n" if accept_gzip else ""
    head = (
        f"POST /symbolicate/v5 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{encoding}"
        f"X-Reply-Bytes: {reply_bytes}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    whole = head.encode() + body
    return struct.pack("<I", len(whole)) + whole


# ---- the servers ----

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
		location /corpus/xulcopy.pdb/ {{ add_header Content-Encoding gzip; }}
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
        self.memcached = Memcached("memcached", directory, 1024)
        self.daemon = Daemon("symbolicated", directory, {})
        self.nginx = Nginx("nginx", directory, self.daemon.socket)
        self.null = NullResponder(directory, os.path.join(build, "tests", "bench", "null_responder"))
        self.null_nginx = Nginx("nginx-null", directory, self.null.socket)
        self.servers = [self.bucket, self.null, self.nginx, self.null_nginx]

    def start(self):
        for server in self.servers:
            server.start()

    def stop(self):
        for server in [self.nginx, self.null_nginx, self.daemon, self.memcached, self.bucket, self.null]:
            try:
                server.stop()
            except AssertionError as e:
                print(e, file=sys.stderr)

    def fresh(self, source, keep_memcached=False, **settings):
        """A new process over a bucket, and a new empty memcached unless the old one is kept. All settings but those given
        are the defaults."""
        if self.daemon.process:
            self.daemon.check()
            self.daemon.crash()
        if not keep_memcached or not self.memcached.running:
            if self.memcached.process:
                self.memcached.kill()
            with contextlib.suppress(FileNotFoundError):
                os.remove(self.memcached.address)
            self.memcached.start()
        self.daemon.settings = {"source": self.bucket.url + source, "memcached": self.memcached.setting, "finish_after": "0", **settings}
        self.daemon.start()
        # nginx's connection to the new process is made by this one.
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

    def load(self, requests, connections=1, null=False, tls=False, warm_up=0.0, out=None, count=1000000, seconds=60.0):
        """The load client over a file of requests; its result."""
        command = self.load_command(requests, connections, null, tls, warm_up, out, count, seconds)
        result = json.loads(run(command))
        if result["errors"] or not result["requests"]:
            raise Failure(f"the load had errors: {result}")
        return result

    def load_command(self, requests, connections=1, null=False, tls=False, warm_up=0.0, out=None, count=1000000, seconds=60.0):
        server = self.null_nginx if null else self.nginx
        command = [os.path.join(self.build, "tests", "bench", "load"), "-c", str(connections), "-n", str(count), "-t", str(seconds)]
        command += ["-w", str(warm_up)] + (["-s"] if tls else []) + (["-o", out] if out else [])
        return [*command, str(server.tls_port if tls else server.port), requests]

    def proc(self, name):
        with open(f"/proc/{self.daemon.process.pid}/{name}", encoding="utf-8") as f:
            return f.read()

    def cpu_seconds(self):
        fields = self.proc("stat").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, what):
        """VmRSS (now) or VmHWM (the peak), in bytes."""
        return int(re.search(rf"^{what}:\s+(\d+) kB", self.proc("status"), re.M).group(1)) * 1024


# ---- the table ----


class Value:
    """Median and spread of repeated measurements."""

    def __init__(self, samples, unit):
        self.samples, self.unit = list(samples), unit
        self.median = statistics.median(self.samples)

    def __str__(self):
        def short(x):
            return f"{x:.0f}" if abs(x) >= 1000 else f"{x:.3g}"

        spread = f" ({short(min(self.samples))}-{short(max(self.samples))})" if len(self.samples) > 1 else ""
        return f"{short(self.median)} {self.unit}{spread}"

    def json(self):
        return {"median": self.median, "min": min(self.samples), "max": max(self.samples), "n": len(self.samples), "unit": self.unit}


class Row:
    """target: ("<=" or ">=", bound of the ratio, how it is written); None: for information."""

    def __init__(self, line, what, ours, peer=None, peer_name="", target=None, moonshot="", note=""):
        self.line, self.what, self.ours, self.peer, self.peer_name = line, what, ours, peer, peer_name
        self.target, self.moonshot, self.note = target, moonshot, note
        self.ratio = None if ours is None else ours.median / peer.median if peer else ours.median
        self.met = None
        if target:
            self.met = self.ratio is not None and (self.ratio <= target[1] if target[0] == "<=" else self.ratio >= target[1])

    def cells(self):
        ratio = "-" if self.ratio is None or not self.peer else f"{self.ratio:.3g}"
        target = f"{self.target[0]} {self.target[2]}" if self.target else "-"
        met = "-" if self.met is None else "met" if self.met else "NOT MET"
        ours = str(self.ours) if self.ours else "none"
        peer = f"{self.peer_name}: {self.peer}" if self.peer else self.peer_name or "-"
        return [self.line, self.what, ours, peer, ratio, target + (f" (moonshot {self.moonshot})" if self.moonshot else ""), met]

    def json(self):
        return {
            "line": self.line, "what": self.what, "ours": self.ours and self.ours.json(), "peer": self.peer and self.peer.json(),
            "peer_name": self.peer_name, "ratio": self.ratio, "target": self.target and f"{self.target[0]} {self.target[2]}",
            "moonshot": self.moonshot, "met": self.met, "note": self.note,
        }  # fmt: skip


def at_most(bound, text=None):
    return "<=", bound, text or f"{bound:g}"


def at_least(bound, text=None):
    return ">=", bound, text or f"{bound:g}"


def print_table(rows):
    table = [["#", "what", "ours", "against", "ratio", "target", ""], *(r.cells() for r in rows)]
    widths = [max(len(cells[i]) for cells in table) for i in range(7)]
    for cells in table:
        print("  ".join(c.ljust(w) for c, w in zip(cells, widths)).rstrip())
    for row in rows:
        if row.note:
            print(f"{row.line}: {row.note}")


# ---- the lines ----


class Bench:
    def __init__(self, service, inputs, sizes, work):
        self.service, self.inputs, self.sizes, self.work = service, inputs, sizes, work
        self.rows = []
        self.kept = {}  # what lines have in common

    def add(self, *arguments, **options):
        self.rows.append(Row(*arguments, **options))

    def file(self, name, data):
        path = os.path.join(self.work, name)
        with open(path, "wb") as out:
            out.write(data)
        return path

    # -- parsing

    def line_1(self):
        label, _, path = self.inputs.real()
        _, small = self.inputs.small()

        def parse(file):
            program = os.path.join(self.service.build, "tests", "bench", "bench_parse")
            return json.loads(run([program, file, str(self.sizes.repeats)]))

        real, generated = parse(path), parse(small)
        ours, threaded, scan = (Speeds(real[k]) for k in ("build", "threaded", "memchr"))
        parts = f"index {real['index']['median']:.0f} MB/s, spans {real['spans_ms']} ms, a page {real['page_us']} us"
        self.add("1", f"all pages of {label}, one thread", ours, scan, "memchr", at_least(1 / 10, "1/10"), "1/8", note=parts)
        self.add("1b", "the same, two threads", threaded, ours, "one", at_least(1.8))
        self.add("1c", f"records of {label}, one thread", Speeds(real["records_s"], "M/s"), note=f"{real['records']} records")
        self.add("1c", f"records of gensym -f {self.sizes.small}", Speeds(generated["records_s"], "M/s"), note=f"{generated['records']} records")

    # -- cold requests

    @staticmethod
    def check_reply(path):
        """Speed without an answer is none: every frame that was asked for lies in a function."""
        with open(path, "rb") as f:
            result = json.load(f)["results"][0]
        if not all(result["found_modules"].values()) or not all("function" in frame for frame in result["stacks"][0]):
            raise Failure("a cold request was not answered")

    def cold(self, source, body):
        """(curl's own seconds, seconds of the curl process) of one request to a new process with an empty memcached."""
        self.service.fresh(source)
        reply = os.path.join(self.work, "reply")
        start = time.monotonic()
        out = run(["curl", "-sS", "-o", reply, "-w", "%{http_code} %{time_total}", "--data-binary", f"@{body}", self.service.url()])
        took = time.monotonic() - start
        status, seconds = out.split()
        if status != "200":
            raise Failure(f"the cold request got {status}")
        self.check_reply(reply)
        if self.service.settled()["symbolicated_loads_total"] != 1:
            raise Failure("the cold request was not cold")
        return float(seconds), took

    def object_url(self, source, module):
        return f"{self.service.bucket.url}{source}{module[0]}/{module[1]}/{sym_name(module[0])}"

    def line_2(self):
        label, module, path = self.inputs.real()
        body = self.file("body", body_of(module, frames_of(path, STACK_FRAMES)))
        get = ["curl", "-sS", "-o", "/dev/null", "-w", "%{time_total}", self.object_url("plain/", module)]
        ours, peer = [], []
        run(get)
        for _ in range(self.sizes.repeats + 2):
            peer.append(float(run(get)))
            ours.append(self.cold("plain/", body)[0])
        self.add("2", f"cold request, {label}, plain bucket", Value(ours, "s"), Value(peer, "s"), "curl", at_most(1.3), "1.1")

    def cold_gzip(self, line, label, module, path, target, moonshot, repeats):
        self.inputs.compressed(module, path)
        body = self.file("body", body_of(module, frames_of(path, STACK_FRAMES)))
        get = f"curl -sS {self.object_url('gzip/', module)} | gunzip >/dev/null"
        wall(get)
        ours, peer = [], []
        for _ in range(repeats):
            peer.append(wall(get))
            ours.append(self.cold("gzip/", body)[1])
        self.add(line, f"cold request, {label}, gzip bucket", Value(ours, "s"), Value(peer, "s"), "curl | gunzip", target, moonshot)

    def line_3(self):
        label, module, path = self.inputs.real()
        self.cold_gzip("3", label, module, path, at_most(0.22), "", self.sizes.repeats)

    def line_4(self):
        module, path = self.inputs.xul()
        label = f"gensym -f {self.sizes.xul} ({os.path.getsize(path) / MB:.0f} MB)"
        self.cold_gzip("4", label, module, path, at_most(0.4), "", self.sizes.large_repeats)

    # -- the corpus

    def corpus_files(self):
        """(label, file of requests for a first pass, requests in it)"""
        label, lines = self.inputs.corpus()
        return label, self.file("first", b"".join(map(http_request, lines))), lines

    def whole_pass(self, requests, count, **options):
        result = self.service.load(requests, count=count, seconds=90.0, **options)
        if result["requests"] != count:
            raise Failure(f"{result['requests']} of {count} requests were answered in 90 s")
        return result

    def warm(self):
        """Loads the corpus into a new process; returns (label, requests with the sizes of their replies)."""
        label, first, lines = self.corpus_files()
        self.service.fresh("corpus/")
        sizes = os.path.join(self.work, "sizes")
        self.whole_pass(first, len(lines), connections=4)
        self.service.settled()
        self.whole_pass(first, len(lines), connections=4, out=sizes)
        with open(sizes, encoding="utf-8") as f:
            replies = [int(line.split()[1]) for line in f]
        return label, self.file("load", b"".join(map(http_request, lines, replies)))

    def loaded(self, requests, **options):
        options = {"connections": self.sizes.connections, "warm_up": self.sizes.warm_up, "seconds": self.sizes.seconds, **options}
        return self.service.load(requests, **options)

    def measured_warm(self):
        """(label, requests, ours, null): lists of results of line 5, measured once."""
        if "warm" not in self.kept:
            label, requests = self.warm()
            ours, null = [], []
            for _ in range(self.sizes.repeats):
                null.append(self.loaded(requests, null=True))
                ours.append(self.loaded(requests))
            self.kept["warm"] = label, requests, ours, null
        return self.kept["warm"]

    def line_5(self):
        label, requests, ours, null = self.measured_warm()
        self.add("5", "the corpus warm, 16 connections", rates(ours), rates(null), "null responder", at_least(0.6), note=label)
        self.add("5b", "its p99", p99s(ours), p99s(null), "null responder", at_most(5))
        tls = [self.loaded(requests, tls=True) for _ in range(self.sizes.large_repeats)]
        self.add("5t", "the corpus warm, TLS (for information)", rates(tls), rates(ours), "line 5")

    def line_6(self):
        """Only requests whose modules all exist: what is missing is remembered by each process for itself."""
        _, requests = self.warm()
        requests, count, total = self.without_missing(requests)
        self.loaded(requests)
        peer = [self.loaded(requests) for _ in range(self.sizes.repeats)]
        self.service.bucket.stop()
        try:
            self.service.fresh("corpus/", keep_memcached=True, cache_size="0")
            self.loaded(requests)
            results = [self.loaded(requests) for _ in range(self.sizes.repeats)]
            if self.service.metrics()["symbolicated_loads_total"]:
                raise Failure("not all came from memcached")
        finally:
            self.service.bucket.start()
        note = f"cache_size = 0, memcached -m 1024, the bucket stopped; the {count} of {total} requests without missing modules"
        self.add("6", "the same, all from memcached", rates(results), rates(peer), "line 5, these requests", at_least(1 / 4, "1/4"), note=note)

    def without_missing(self, requests):
        """The records of a file for the load client whose modules are in the bucket: (file, their count, count of all)"""
        kept, total = [], 0
        with open(requests, "rb") as f:
            while head := f.read(4):
                record = f.read(struct.unpack("<I", head)[0])
                modules = json.loads(record.split(b"\r\n\r\n", 1)[1])["memoryMap"]
                total += 1
                if all(m[0] and m[1] and os.path.exists(self.inputs.path("corpus", *m, sym_name(m[0]))) for m in modules):
                    kept.append(head + record)
        if not kept:
            raise Failure("no request is without missing modules")
        return self.file("without-missing", b"".join(kept)), len(kept), total

    def line_7(self):
        label, first, lines = self.corpus_files()
        objects = self.inputs.corpus_objects()
        config = "".join(f'url = "{self.service.bucket.url}{o}"\noutput = "/dev/null"\n' for o in objects)
        get = f"curl -sS -K {self.file('objects', config.encode())}"
        ours, peer = [], []
        wall(get)
        for _ in range(self.sizes.large_repeats):
            peer.append(wall(get))
            self.service.fresh("corpus/")
            ours.append(self.whole_pass(first, len(lines))["seconds"])
            self.service.settled()
        self.add("7", "the whole corpus from empty, one client", Value(ours, "s"), Value(peer, "s"), "curl -K", at_most(3), "2.5", note=label)

    def line_13(self):
        _, requests, ours, _ = self.measured_warm()
        _, path = self.inputs.xul()
        offsets = frames_of(path, STACK_FRAMES)
        modules = self.inputs.xul_copies(4)
        results = []
        for _ in range(min(2, self.sizes.large_repeats)):  # each loads the whole corpus first
            self.warm()
            results.append(self.during_loads(requests, [body_of(m, offsets) for m in modules]))
        self.add("13", "p99 of line 5 while 4 cold XUL-size loads run", p99s(results), p99s(ours), "line 5", at_most(3),
                 note=f"rate {rates(results)}; from the first of the four requests to the last of their answers")  # fmt: skip

    def during_loads(self, requests, bodies):
        """The load from when cold requests are sent until all are answered."""
        url, cold = self.service.url(), []
        command = self.service.load_command(requests, connections=self.sizes.connections, seconds=60.0)
        try:
            for i, body in enumerate(bodies):
                path = self.file(f"cold{i}", body)
                cold.append(subprocess.Popen(["curl", "-sSf", "-o", path + ".reply", "--data-binary", f"@{path}", url]))
            load = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            cold.append(load)
            failed = [p.wait(COMMAND_BOUND) for p in cold[:-1]]
            load.terminate()
            result = json.loads(load.communicate(timeout=COMMAND_BOUND)[0])
        finally:
            for p in cold:
                if p.poll() is None:
                    p.kill()
                    p.wait()
        if any(failed) or result["errors"]:
            raise Failure(f"cold requests gave {failed}, the load {result}")
        for i in range(len(bodies)):
            self.check_reply(os.path.join(self.work, f"cold{i}.reply"))
        self.service.settled()
        return result

    # -- a profile

    def profile(self, accept_gzip):
        """A warm process and the request of a profile: (label, file of requests, bytes of the reply)."""
        label, module, path = self.inputs.real()
        if "profile" not in self.kept:
            self.kept["profile"] = body_of(module, frames_of(path, self.sizes.frames))
        body = self.kept["profile"]
        self.service.fresh("plain/")
        sizes = os.path.join(self.work, "sizes")
        requests = self.file("profile", http_request(body, 0, accept_gzip))
        self.service.load(requests, count=3)
        self.service.settled()
        self.service.load(requests, count=3, out=sizes)
        with open(sizes, encoding="utf-8") as f:
            size = int(f.read().split()[1])
        return label, self.file("profile", http_request(body, size, accept_gzip)), size

    def line_8(self):
        label, requests, size = self.profile(False)
        count, ours, null = 3 if self.sizes.quick else 8, [], []
        cpu = []
        for _ in range(self.sizes.repeats):
            null.append(self.service.load(requests, null=True, count=count))
            before = self.service.cpu_seconds()
            ours.append(self.service.load(requests, count=count))
            cpu.append((self.service.cpu_seconds() - before) / count / self.sizes.frames * 1e6)
        self.kept["cpu"] = cpu
        note = f"reply {size / MB:.1f} MB, {size / self.sizes.frames:.0f} bytes a frame"
        self.add("8", f"{self.sizes.frames} frames of {label}, identity", p50s(ours), p50s(null), "null responder", at_most(1.7), note=note)

    def line_9(self):
        label, requests, size = self.profile(True)
        plain = os.path.join(self.work, "plain-reply")
        body = self.file("body", self.kept["profile"])
        run(["curl", "-sSf", "-o", plain, "--data-binary", f"@{body}", self.service.url()])
        pipe = f"cat {plain} | gzip -1 >/dev/null"
        ours, peer = [], []
        wall(pipe)
        for _ in range(self.sizes.repeats):
            peer.append(wall(pipe) * 1000)
            ours.append(self.service.load(requests, count=3)["p50"] / 1000)
        note = f"reply {size / MB:.1f} MB"
        self.add("9", f"{self.sizes.frames} frames of {label}, gzip", Value(ours, "ms"), Value(peer, "ms"), "gzip -1", at_most(0.5), note=note)

    def line_10(self):
        if "cpu" not in self.kept:
            shown = len(self.rows)
            self.line_8()
            del self.rows[shown:]
        ours = Value(self.kept["cpu"], "us")
        self.add("10", "CPU of the responder, a frame of line 8", ours, target=at_most(1.15, "1.15 us"), moonshot="0.6")

    # -- memory

    def line_11(self):
        label, module, path = self.inputs.real()
        self.cold("plain/", self.file("body", body_of(module, frames_of(path, STACK_FRAMES))))
        with self.service.memcached.raw() as raw:
            values = sum(len(raw.get(key) or b"") for key in raw.keys())
            held = int(raw.stats()["bytes"])
        text = Value([os.path.getsize(path) / MB], "MB")
        self.add("11", f"values in memcached, {label}", Value([values / MB], "MB"), text, "its text", at_most(0.17, "17 %"), "12 %",
                 note=f"memcached's own bytes: {held / MB:.1f} MB")  # fmt: skip

    def line_12(self):
        label, module, path = self.inputs.real()
        self.cold("plain/", self.file("body", body_of(module, frames_of(path, STACK_FRAMES))))
        held, resident = self.service.metrics()["symbolicated_cache_bytes"], self.service.memory("VmRSS")
        self.add("12", f"resident memory with {label} loaded", Value([resident / MB], "MB"), Value([held / MB], "MB"), "its map")
        for line, order, flags in (("12b", "sorted", []), ("12c", "unsorted", ["-u"])):
            module, path = self.inputs.huge(*flags)
            self.cold("plain/", self.file("body", body_of(module, frames_of(path, STACK_FRAMES))))
            m, peak = self.service.metrics(), self.service.memory("VmHWM")
            held, raw = m["symbolicated_cache_bytes"], m['symbolicated_last_map_bytes{form="raw"}']
            limit = Value([held / MB + 100], "MB")
            self.add(line, f"peak of a cold load of {os.path.getsize(path) / MB:.0f} MB, {order}", Value([peak / MB], "MB"), limit, "map + 100 MB",
                     at_most(1), note=f"the map as it is held {held / MB:.0f} MB, all pages raw {raw / MB:.0f} MB")  # fmt: skip

    def line_14(self):
        lines = 0
        for path in glob.glob(os.path.join(ROOT, "src", "*", "*.[ch]")):
            folder, name = path.split(os.sep)[-2:]
            if folder == "modules" or (folder == "format" and re.match("offmap|breakpad|sym(?!bfile)", name)):
                with open(path, encoding="utf-8") as f:
                    lines += sum(1 for _ in f)
        self.add("14", "lines of code from a text to an answer", Value([lines], "lines"), Value([LINES_BEFORE], "lines"),
                 "with the builder of whole maps", at_most(0.99, "fewer"))  # fmt: skip


class Speeds(Value):
    """Speeds that bench_parse has summed up already."""

    def __init__(self, summed, unit="MB/s"):
        super().__init__([summed["min"], summed["median"], summed["max"]], unit)


def rates(results):
    return Value([r["rate"] for r in results], "req/s")


def p99s(results):
    return Value([r["p99"] / 1000 for r in results], "ms")


def p50s(results):
    return Value([r["p50"] / 1000 for r in results], "ms")


LINES = [str(n) for n in range(1, 15)]
# Lines of one kind follow each other, so that what they share is made once.
ORDER = ["1", "2", "3", "4", "11", "12", "8", "10", "9", "7", "5", "13", "6", "14"]


def first_line(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    return (done.stdout + done.stderr).strip().split("\n")[0]


def machine(build):
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        models = re.findall(r"^model name\s*: (.*)$", f.read(), re.M)
    with open(os.path.join(build, "Makefile"), encoding="utf-8") as f:
        settings = dict(re.findall(r"^(CC|CFLAGS|ISAL_LIBS) = (.*)$", f.read(), re.M))
    return {
        "cpu": f"{os.cpu_count()} x {models[0] if models else platform.machine()}",
        "kernel": platform.release(),
        "load": f"{os.getloadavg()[0]:.2f} before the run",
        "compiler": f"{first_line([*settings['CC'].split(), '--version'])}, {settings['CFLAGS']}",
        "inflate": "ISA-L" if settings.get("ISAL_LIBS") else "zlib",
        "symbolicated": first_line([*stack.DAEMON, "--version"]),
        "nginx": first_line(["nginx", "-v"]),
        "memcached": first_line(["memcached", "-V"]),
        "curl": first_line(["curl", "--version"]).split(" (")[0],
        "gzip": first_line(["gzip", "--version"]),
    }


def measure(bench, wanted, started):
    """Every wanted line; returns what could not be measured."""
    problems = []
    for number in [n for n in ORDER if n in wanted]:
        begun = time.monotonic()
        if begun - started > BUDGET:
            problems.append(f"line {number}: left out, {BUDGET} s are over")
            continue
        try:
            getattr(bench, "line_" + number)()
        except (Failure, AssertionError, OSError, ValueError, KeyError, subprocess.SubprocessError) as e:
            problems.append(f"line {number}: {type(e).__name__}: {e}")
        print(f"line {number}: {time.monotonic() - begun:.1f} s", file=sys.stderr, flush=True)
    return problems


def on_terminate(*_):
    sys.exit(1)


def main():
    parser = argparse.ArgumentParser(prog="bench.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("lines", nargs="*", metavar="LINE", choices=[[], *LINES], default=[])
    options = parser.parse_args()
    build, wanted = os.path.abspath(options.build), options.lines or LINES
    signal.signal(signal.SIGTERM, on_terminate)
    stack.DAEMON[:] = [os.path.join(build, "symbolicated")]
    shared = os.environ.get("SHARED_DATA", os.path.join(os.path.dirname(ROOT), "shared", "data"))
    sizes = Sizes(options.quick, options.once)
    started = time.monotonic()
    about = machine(build)
    for name, value in about.items():
        print(f"{name}: {value}")
    with tempfile.TemporaryDirectory(prefix="sym-bench-") as work:
        os.chmod(work, 0o755)
        inputs = Inputs(os.path.join(build, "bench-quick" if options.quick else "bench"), sizes, shared)
        service = Service(work, inputs, build)
        bench = Bench(service, inputs, sizes, work)
        try:
            service.start()
            problems = measure(bench, wanted, started)
        finally:
            service.stop()
    bench.rows.sort(key=lambda r: (int(re.match(r"\d+", r.line).group(0)), r.line))
    print(f"seed {SEED}; times and rates: median (least-most); settings are the defaults unless a note says otherwise")
    print_table(bench.rows)
    for line in problems:
        print(line)
    took = time.monotonic() - started
    print(f"{sum(r.met is True for r in bench.rows)} met, {sum(r.met is False for r in bench.rows)} not met, {len(problems)} not measured; {took:.0f} s")
    result = {"machine": about, "quick": options.quick, "seed": SEED, "inputs": inputs.left_out, "seconds": round(took, 1),
              "rows": [r.json() for r in bench.rows], "problems": problems}  # fmt: skip
    with open(os.path.join(build, "bench.json"), "w", encoding="utf-8") as out:
        json.dump(result, out, indent=1)
        out.write("\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
