#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A siege: clients that want everything for themselves, and one beside them that asks for what it needs, through a real nginx with
the shipped files and a responder with its default settings. docs/testing.md says what the table must show.

    run.py [--short] [--shape NAME]... [--from one|net|four]... [--seconds S] [--slack N] [--keep DIRECTORY] [--list]
                                                                                                SYMBOLICATED=PATH of the program

The last line is "N passed, N failed, N skipped", a row each; exit 1 when anything failed."""

import argparse
import base64
import collections
import contextlib
import http.client
import json
import os
import queue
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
for folder in ("wire", "tools"):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), folder))

from client import job  # noqa: E402
from local_nginx import OWN_SERVER  # noqa: E402
from plain_symbfile import write  # noqa: E402
from shapes import LIBC, SHAPES, build_id_of  # noqa: E402
from stack import Daemon, Memcached, Nginx, Server, Stack, die_with_parent, tail, wait_for  # noqa: E402
from symbols import compile_gensym, debug_id  # noqa: E402

VICTIM = "198.51.100.7"
WARM_RATE, COLD_RATE, BEAT_RATE, ROUTE_RATE = 10, 3, 2, 0.5  # a second: together below nginx's limit
WARM_MODULES, FRAMES = 5, 25
PATIENCE = 30.0  # seconds that the victim waits for an answer
STREAK = 15  # usual answers in a row, after the end
LET_GO = 30.0  # seconds after which nothing of requests may be charged
BEAT, ROUTE = 0.05, 5.0  # seconds: a balancer's question; another route, while others want all of it
UNUSUAL = 60.0  # seconds after which the end of it is given up
BIG_FUNCTIONS = 33_000  # of the large module: 46 MB
CLIENTS = "set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;"  # everybody has the address that is said
UPLOAD = write([{"t": "range", "va": "0x1000", "len": 64, "depth": 0, "func": "uploaded", "file": "/src/a.c", "lines": [[0, 10], [16, 20]]}])
COLUMNS = (
    "shape", "from", "cores", "warm p99 alone, ms", "warm p99, ms", "cold p99 alone, ms", "cold p99, ms", "lbheartbeat p99, ms", "other routes, ms", "refused", "resident, MB", "above memory, MB",
    "temporary files, MB", "usual again, s", "attackers got",
)  # fmt: skip
# Of one client or network, and of four: warm in seconds and times alone, cold in seconds above alone, share refused, bytes, seconds.
BOUNDS = {
    "one": {"warm": 0.020, "times": 10, "cold": 1.0, "refused": 0.0, "files": 256e6, "usual": 2.0},
    "four": {"warm": 0.050, "times": None, "cold": 3.0, "refused": 0.01, "files": 1e9, "usual": 5.0},
}
BOUNDS["net"] = BOUNDS["one"]


class Answer:
    def __init__(self, kind, due, end, status):
        self.kind, self.due, self.end, self.status = kind, due, end, status

    @property
    def seconds(self):
        """From when it was to be asked: a victim that cannot ask because it waits is held up too."""
        return self.end - self.due


class Victim:
    """Asks for what is warm and what is new, as a balancer, and by other routes, at its pace, whatever becomes of the answers."""

    def __init__(self, port, key, routes=()):
        self.port, self.key, self.answers, self.lock = port, key, [], threading.Lock()
        self.stopping, self.cold = threading.Event(), 0
        self.rates = {"warm": WARM_RATE, "cold": COLD_RATE, "beat": BEAT_RATE, **{route: ROUTE_RATE for route in routes}}
        self.queues = {kind: queue.Queue() for kind in self.rates}
        self.modules = [[f"warm-{i}", debug_id(f"warm-{i}")] for i in range(WARM_MODULES)]
        self.warm = json.dumps(job(self.modules, [[i % WARM_MODULES, 0x1000 + 0x40 * i] for i in range(FRAMES)]))
        self.threads = [threading.Thread(target=self.pace, args=pair, daemon=True) for pair in self.rates.items()]
        self.threads += [threading.Thread(target=self.ask_all, args=(kind,), daemon=True) for kind in self.queues for _ in range(8)]

    def start(self):
        assert self.ask(self.connect(), self.warm) == 200
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.stopping.set()

    def pace(self, kind, rate):
        due = time.monotonic()
        while not self.stopping.wait(max(0, due - time.monotonic())):
            self.queues[kind].put(due)
            due += 1 / rate

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask_all(self, kind):
        connection = self.connect()
        while not self.stopping.is_set():
            with contextlib.suppress(queue.Empty):
                due = self.queues[kind].get(timeout=0.5)
                try:
                    status = self.ask_for(connection, kind)
                except (OSError, http.client.HTTPException) as e:
                    status = "late" if isinstance(e, TimeoutError) else "lost"
                    connection.close()
                with self.lock:
                    self.answers.append(Answer(kind, due, time.monotonic(), status))

    def new(self):
        with self.lock:
            self.cold += 1
            name = f"cold-victim-{self.cold}"
        return json.dumps(job([[name, debug_id(name)]], [[0, 0x1000]]))

    def ask_for(self, connection, kind):
        if kind in ("warm", "cold"):
            return self.ask(connection, self.warm if kind == "warm" else self.new())
        if kind == "beat":
            return self.other(connection, "GET", "/__lbheartbeat__", None, "ok")
        if kind == "download":
            name, ident = self.modules[0]
            return self.other(connection, "GET", f"/{name}/{ident}/{name}.sym", None, "FUNC ")
        if kind == "upload":
            return self.upload(connection)
        body = {"codeId": build_id_of(LIBC), "startAddress": "0x30000", "size": "0x40"}
        return self.other(connection, "POST", "/asm/v1", json.dumps(body), "instructions")

    def upload(self, connection):
        """Of what nobody has uploaded."""
        ident = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        headers = {"FileID": ident, "FilePart": "0", "FileParts": "1", "Authorization": self.key}
        return self.other(connection, "POST", "/api/symbols-ranges", UPLOAD, '"success":true', headers)

    def other(self, connection, method, path, body, expected, headers=None):
        """The same by another route."""
        connection.request(method, path, body, {"X-Forwarded-For": VICTIM, **(headers or {})})
        reply = connection.getresponse()
        data = reply.read().decode()
        return "wrong" if reply.status == 200 and expected not in data else reply.status

    def ask(self, connection, body):
        """The status; "wrong" of an answer without the names."""
        connection.request("POST", "/symbolicate/v5", body, {"X-Forwarded-For": VICTIM})
        reply = connection.getresponse()
        data = reply.read()
        if reply.status != 200:
            return reply.status
        (stack,) = json.loads(data)["results"][0]["stacks"]
        return 200 if all(f.get("function", "").startswith("siege::number_") for f in stack) else "wrong"

    def between(self, begin, end):
        with self.lock:
            return sorted((a for a in self.answers if begin <= a.due < end), key=lambda a: a.due)

    def waits(self, end):
        """Is there one still that was to be asked before `end`?"""
        seen = len(self.between(0, end))
        return seen < self.due_before(end)

    def due_before(self, end):
        first = min(a.due for a in self.between(0, end))
        return int((end - first) * sum(self.rates.values())) - len(self.rates)


class SiegeBucket(Server):
    def __init__(self, directory, big, rate):
        super().__init__("bucket", directory)
        self.big, self.rate = big, ["--rate", str(rate)] if rate else []

    def start(self):
        self.spawn([sys.executable, os.path.join(HERE, "bucket.py"), "--big", self.big, *self.rate])
        self.ready(lambda: re.search(r"^ready \S+", tail(self.log), re.M))
        self.url = re.search(r"^ready (\S+)", tail(self.log), re.M)[1]


class World:
    """The servers, and what they take: sampled all the time."""

    def __init__(self, shape, big, connections=2048, rate=None, cores=None):
        """connections: that each of nginx's workers may have. rate: bytes a second at which the large module comes. cores: of the
        responder; None: all."""
        self.shape, self.directory = shape, tempfile.mkdtemp(prefix="sym-siege-")
        os.chmod(self.directory, 0o755)
        self.bucket = SiegeBucket(self.directory, big, rate)
        self.memcached = Memcached("memcached", self.directory, 256) if shape.memcached else None
        self.daemon = Daemon("symbolicated", self.directory, {}, within=("taskset", "-c", f"0-{cores - 1}") if cores else ())
        self.nginx = Nginx("nginx", self.directory, self.daemon.socket, http=CLIENTS, server=OWN_SERVER, listen=shape.listen, connections=connections)
        self.files = 0
        self.keys_file, self.store = (os.path.join(self.directory, name) for name in ("keys", "store"))
        self.key = None
        self.stopping = threading.Event()

    def servers(self):
        return [s for s in (self.nginx, self.daemon, self.memcached, self.bucket) if s]

    def start(self):
        os.mkdir(self.store)
        self.key = Stack.add_key(self, "victim", "upload")
        for server in reversed(self.servers()):
            if server is self.daemon:
                server.settings = {"source": [self.bucket.url, *self.programs()], **self.shape.settings}
                server.settings.update({"symbfile_store": f"file://{self.store}", "keys_file": self.keys_file})
                if self.memcached:
                    server.settings["memcached"] = self.memcached.setting
            server.start()
        # it listens before it has them
        self.workers = wait_for(lambda: (found := children(self.nginx.process.pid))[1:] and found, "nginx's two workers")
        threading.Thread(target=self.sample, daemon=True).start()

    def programs(self):
        """A source of the shape's programs."""
        root = os.path.join(self.directory, "programs")
        for program in self.shape.programs:
            ident = build_id_of(program)
            path = os.path.join(root, ".build-id", ident[:2], ident[2:])
            os.makedirs(os.path.dirname(path))
            shutil.copy(program, path)
        found = [f"elf+file://{root}"] if self.shape.programs else []
        return [*found, f"debuginfod+{self.bucket.url}"] if self.shape.debuginfod else found

    def sample(self):
        while not self.stopping.wait(0.1):
            with contextlib.suppress(OSError, IndexError):
                self.files = max(self.files, sum(map(temporary_bytes, self.workers)))

    def peak(self):
        """Bytes that were resident at one time."""
        return int(re.search(r"^VmHWM:\s+(\d+)", read(f"/proc/{self.daemon.process.pid}/status"), re.M)[1]) * 1024

    def metrics(self, pattern):
        """{what the pattern's group found: value}"""
        connection = http.client.HTTPConnection("127.0.0.1", self.nginx.port, timeout=PATIENCE)
        connection.request("GET", "/__metrics__")
        text = connection.getresponse().read().decode()
        return {name: float(value) for name, value in re.findall(rf"^{pattern} (\S+)", text, re.M)}

    def limit(self):
        """The setting `memory`; None where there is no such thing."""
        return self.metrics("symbolicated_(memory_limit_bytes)").get("memory_limit_bytes")

    def charged(self):
        """What requests have, of which nothing is left when all have ended; texts stay until their maps are whole, and the
        process looks at the whole account when it ends."""
        kinds = self.metrics(r'symbolicated_memory_bytes\{kind="(bodies|replies|records|uploads|helper)"\}')
        return {kind: value for kind, value in kinds.items() if value}

    def hits(self):
        """How often the bucket was asked, {word of the names: count}."""
        with urllib.request.urlopen(self.bucket.url + "hits", timeout=PATIENCE) as reply:
            return collections.Counter(json.load(reply))

    def stop(self):
        self.stopping.set()
        problems = []
        for server in self.servers():
            try:
                server.stop()
            except AssertionError as e:
                problems.append(str(e)[:2000])
        return problems

    def remove(self, keep, name):
        if keep:
            os.makedirs(os.path.join(keep, name), exist_ok=True)
            for server in self.servers():
                shutil.copy(server.log, os.path.join(keep, name))
        shutil.rmtree(self.directory, ignore_errors=True)


def read(path):
    with open(path, encoding="ascii") as f:
        return f.read()


def children(pid):
    return [int(p) for p in read(f"/proc/{pid}/task/{pid}/children").split()]


def temporary_bytes(pid):
    """Of files that this nginx has open and removed already."""
    total = 0
    folder = f"/proc/{pid}/fd"
    for fd in os.listdir(folder):
        with contextlib.suppress(OSError):
            if re.search(r"/tmp-(body|fastcgi)/", os.readlink(os.path.join(folder, fd))):
                total += os.stat(os.path.join(folder, fd)).st_blocks * 512
    return total


def p99(answers):
    ordered = sorted(a.seconds for a in answers)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] if ordered else None


class Row:
    def __init__(self, shape, where, cores, options):
        self.shape, self.where, self.cores, self.options, self.bounds = shape, where, cores, options, BOUNDS[where]
        self.routes_of_victim = ("upload", *shape.routes)
        self.problems = []

    def run(self, big):
        world = World(self.shape, big, cores=self.cores)
        victim = None
        try:
            world.start()
            self.limit = world.limit()
            victim = Victim(world.nginx.port, world.key, self.routes_of_victim)
            victim.start()
            self.measure(world, victim)
        finally:
            if victim:
                victim.stop()
            self.problems += world.stop()
            world.remove(self.options.keep, f"{self.shape.name()}-{self.where}")

    def measure(self, world, victim):
        if self.shape.warm:
            body = json.dumps(job([[self.shape.warm, debug_id(self.shape.warm)]], [[0, 0x1000]]))
            wait_for(lambda: victim.ask(victim.connect(), body), "the large module", 120)
        begin = time.monotonic()
        time.sleep(self.options.alone)
        siege = time.monotonic()
        self.alone = victim.between(begin, siege)
        with attackers(self.shape, self.where, world.nginx, self.options) as attack:
            started = time.monotonic()
            while time.monotonic() < started + self.options.seconds and attack.poll() is None:
                time.sleep(0.1)
            end = time.monotonic()
            attack.send_signal(signal.SIGTERM)
            self.got = json.loads(attack.communicate(timeout=60)[0].splitlines()[-1])
        self.usual = self.usual_again(victim, end)
        self.held = victim.between(started, end)
        self.resident, self.files = world.peak(), world.files
        self.judge()
        victim.stop()
        with contextlib.suppress(AssertionError):
            wait_for(lambda: not world.charged(), "the account to be empty", LET_GO)
        self.demand(not world.charged(), f"charged when all has ended: {world.charged()}")

    def usual_again(self, victim, end):
        """Seconds from the end to the first of so many answers in a row as they were alone; None when there are none."""
        most = {kind: 2 * (p99([a for a in self.alone if a.kind == kind]) or 0) + 0.05 for kind in victim.rates}
        limit = end + UNUSUAL
        while time.monotonic() < limit:
            streak = []
            for a in victim.between(end, limit):
                streak = [*streak, a] if a.status == 200 and a.seconds <= most[a.kind] else []
                if len(streak) >= STREAK and not victim.waits(end):
                    return streak[0].due - end
            time.sleep(0.1)
        return None

    def judge(self):
        slack, b = self.options.slack, self.bounds
        self.p99 = {(name, kind): p99([a for a in of if a.kind == kind]) for name, of in (("alone", self.alone), ("held", self.held)) for kind in ("warm", "cold", "beat")}
        self.routes = [a for a in self.held if a.kind in self.routes_of_victim]
        self.refused = [a for a in self.held if a.status != 200]
        self.above = max(0.0, self.resident - self.limit) if self.limit else None
        warm, alone = self.p99["held", "warm"], self.p99["alone", "warm"]
        busy = 10 * alone if slack > 1 else 0  # where alone it waits for long, the machine does something else
        self.demand(warm is not None and warm <= max(slack * b["warm"], busy), "warm is slow")
        if b["times"]:
            self.demand(warm is not None and warm <= slack * b["times"] * alone, "warm is much slower than alone")
        cold = self.p99["held", "cold"]
        self.demand(cold is not None and cold <= self.p99["alone", "cold"] + slack * b["cold"], "cold is slow")
        beat = self.p99["held", "beat"]
        self.demand(beat is not None and beat <= max(slack * BEAT, busy), "a balancer waits")
        self.demand(all(a.seconds <= slack * ROUTE for a in self.routes), "another route is slow")
        self.demand({a.kind for a in self.routes} == set(self.routes_of_victim), "another route was not asked for")
        self.demand(len(self.refused) <= b["refused"] * len(self.held), f"refused: {counted(self.refused)}")
        self.demand(not self.above, "above memory")
        self.demand(self.files <= b["files"], "nginx's temporary files")
        self.demand(self.usual is not None and self.usual <= slack * b["usual"], "not usual again")

    def demand(self, good, text):
        if not good:
            self.problems.append(text)

    def cells(self):
        def ms(name, kind):
            value = self.p99[name, kind]
            return "-" if value is None else f"{value * 1000:.0f}"

        return (
            self.shape.name(), self.where, self.cores or "all", ms("alone", "warm"), ms("held", "warm"), ms("alone", "cold"), ms("held", "cold"),
            ms("held", "beat"), f"{max(a.seconds for a in self.routes) * 1000:.0f}" if self.routes else "-",
            f"{len(self.refused)} of {len(self.held)}", f"{self.resident / 1e6:.0f}", "-" if self.above is None else f"{self.above / 1e6:.0f}",
            f"{self.files / 1e6:.0f}", "never" if self.usual is None else f"{self.usual:.1f}", " ".join(f"{n}x{s}" for s, n in self.got.items()),
        )  # fmt: skip


def counted(answers):
    found = [a.status for a in answers]
    return ", ".join(f"{found.count(s)} x {s}" for s in sorted(set(found), key=str))


@contextlib.contextmanager
def half_a_core():
    """Where a process may be put that gets half a core, so that what is measured is the server; None: there is no such thing here."""
    for root, limit, text in (("/sys/fs/cgroup", "cpu.max", "50000 100000"), ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "50000")):
        group = os.path.join(root, f"symbolicated-siege-{os.getpid()}")
        if not os.path.exists(os.path.join(root, "cgroup.procs")):
            continue
        try:
            os.mkdir(group)
        except OSError:
            continue
        try:
            with open(os.path.join(group, limit), "r+", encoding="ascii") as f:
                f.write(text)
        except OSError:
            os.rmdir(group)
            continue
        try:
            yield os.path.join(group, "cgroup.procs")
        finally:
            wait_for(lambda path=group: not os.path.exists(path) or removed(path), "the attackers' group to be empty")
        return
    yield None


def removed(group):
    with contextlib.suppress(OSError):
        os.rmdir(group)
        return True
    return False


@contextlib.contextmanager
def attackers(shape, where, nginx, options):
    """A process of their own, so that the victim's clock is not theirs."""
    command = [sys.executable, os.path.join(HERE, "attack.py"), shape.name(), "--port", str(nginx.port), "--tls-port", str(nginx.tls_port)]
    command += ["--from", where, "--seconds", str(options.seconds + 60), "--seed", str(options.seed)]
    with half_a_core() as group:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        try:
            assert process.stdout.readline() == "made\n", "the attackers did not start"
            if group:
                with open(group, "w", encoding="ascii") as f:
                    f.write(str(process.pid))
            yield process
        finally:
            process.kill()
            process.wait()


def make_big(directory):
    path = os.path.join(directory, "big.sym")
    with open(path, "wb") as out:
        subprocess.run([compile_gensym(directory), "-n", "big", "-i", debug_id("big"), "-f", str(BIG_FUNCTIONS)], stdout=out, check=True)
    return path


def print_row(cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def drive(options, rows):
    """Runs them; True when all are as they should be."""
    print_row(COLUMNS)
    print_row(["---", "---"] + ["---:"] * (len(COLUMNS) - 2))
    failed = 0
    with tempfile.TemporaryDirectory(prefix="sym-siege-") as directory:
        big = make_big(directory)
        for row in rows:
            try:
                row.run(big)
            except AssertionError as e:
                row.problems.append(str(e)[:2000])
            print_row(row.cells() if hasattr(row, "p99") else (row.shape.name(), row.where, row.cores or "all"))
            for problem in row.problems:
                print(f"    {row.shape.name()}-{row.where}-{row.cores or 'all'}: {problem}", flush=True)
            failed += bool(row.problems)
    print(f"{len(rows) - failed} passed, {failed} failed, 0 skipped")
    return not failed


def main():
    names = [s.name() for s in SHAPES]
    parser = argparse.ArgumentParser(description="A siege.")
    parser.add_argument("--short", action="store_true", help="a few shapes from one address, with slack: below half a minute")
    parser.add_argument("--shape", action="append", choices=names, help="this one; may be given several times")
    parser.add_argument("--from", dest="where", action="append", choices=tuple(BOUNDS), help="one address, one /64, four addresses; default all")
    parser.add_argument("--cores", action="append", type=int, help="of the responder; may be given several times; default all")
    parser.add_argument("--seconds", type=float, help="how long a siege lasts; default 12, with --short 4")
    parser.add_argument("--slack", type=float, help="how many times the bounds of time it may take; default 1, with --short 20")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", metavar="DIRECTORY", help="where the logs of all servers are put")
    parser.add_argument("--list", action="store_true", help="the names of the shapes")
    options = parser.parse_args()
    if options.list:
        print("\n".join(names))
        return 0
    options.seconds = options.seconds or (4.0 if options.short else 12.0)
    options.alone = min(options.seconds, 6.0)
    options.slack = options.slack or (20.0 if options.short else 1.0)
    shapes = [s for s in SHAPES if s.name() in options.shape] if options.shape else [s for s in SHAPES if s.short or not options.short]
    sources = options.where or (["one"] if options.short else ["one", "net", "four"])
    return 0 if drive(options, [Row(s, w, c, options) for s in shapes for w in sources for c in options.cores or [None]]) else 1


if __name__ == "__main__":
    sys.exit(main())
