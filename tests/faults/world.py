# SPDX-License-Identifier: Apache-2.0
"""The servers of the fault tests: one nginx before two responders, two memcached, two buckets with the same files."""

import contextlib
import datetime
import errno
import json
import os
import random
import re
import shutil
import stat
import subprocess
import tempfile
import time

from client import Client
from local_nginx import nginx_command, write_nginx
from stack import DAEMON, FAKETIME, Bucket, Daemon, Memcached, Nginx, Stack, connects, faketime_library, free_port, tail
from symbols import Symbols, compile_gensym

MEMORY = 64  # MB; of each memcached
REVALIDATE = 1.0  # seconds
SEEN_BOUND = 30.0  # seconds more that a fault may last until it was seen to do something
# Memories of failures are short, so that it is seen how they end; caches are small, so that memcached is asked all the time.
CONFIG = {
    "bucket_connect_timeout": "1s",
    "bucket_stall_timeout": "1s",
    "bucket_total_timeout": "5s",
    "bucket_retries": "0",
    "cache_size": "8M",
    "revalidate_after": f"{int(REVALIDATE)}s",
    "missing_ttl": "1s",
    "corrupt_ttl": "1s",
    "failure_ttl_min": "200ms",
    "failure_ttl_max": "2s",
    "shutdown_timeout": "10s",
    "log_level": "info",
}
MOUNTS = {"store": "16m", "nginx": "48m"}  # small file systems, for faults that fill them
NGINX_TEMPORARY = ("tmp-body", "tmp-fastcgi")


def is_sanitized():
    """Built with a sanitizer? It takes part in nothing that needs another library loaded first, and its memory is not judged."""
    libraries = subprocess.run(["ldd", DAEMON[-1]], capture_output=True, text=True, check=False).stdout
    return "libasan" in libraries or "libtsan" in libraries


class FaultDaemon(Daemon):
    """A responder whose clock can be another one."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.environment = {}

    def spawn(self, command, **options):
        super().spawn(command, env={**os.environ, **self.environment}, **options)

    def reloads_since(self):
        """Whether it has read its settings since now."""
        return says(self.log, '"event":"reload"')


class FaultNginx(Nginx):
    """One nginx with both responders as its upstream."""

    def start(self):
        self.port, self.tls_port = free_port(), free_port()
        changes = [("symbolicated-http.conf", "keepalive_timeout 5s;", "keepalive_timeout 1s;")]
        conf = write_nginx(self.directory, self.backend, self.port, self.tls_port, changes=changes)
        self.spawn(nginx_command(self.directory, conf))
        self.ready(lambda: connects(self.port))


class World:
    """Everything that runs, and what faults are made of. `stopping` ends waits early; `small_disks`: see MOUNTS. `host` and
    `port`: where the load asks."""

    host = "127.0.0.1"
    clock_unit = 0  # seconds; what the clock of the store of uploads counts, about

    def __init__(self, seed, stopping, small_disks):
        self.rng, self.stopping, self.memory, self.small_disks = random.Random(seed), stopping, MEMORY, small_disks
        self.directory = tempfile.mkdtemp(prefix="sym-faults-")
        os.chmod(self.directory, 0o755)
        self.mounted, self.load = {}, None
        self.daemons, self.nginx, self.key = [], None, None
        self.kills = []  # (before, after) each SIGKILL of a responder
        self.clock_file = os.path.join(self.directory, "clock")
        self.keys_file = os.path.join(self.directory, "keys")
        self.make_servers()

    def make_servers(self):
        self.memcached = [Memcached(f"memcached{i}", self.directory, MEMORY) for i in range(2)]
        self.buckets = [Bucket(f"bucket{i}", self.directory, Symbols(os.path.join(self.directory, f"symbols{i}"))) for i in range(2)]

    def start(self):
        self.gensym = compile_gensym(self.directory)
        for name in MOUNTS:
            self.make_disk(name)
        for server in [*self.memcached, *self.buckets]:
            server.start()
        self.make_key()
        settings = {
            "source": [b.source for b in self.buckets], "memcached": [m.setting for m in self.memcached], "keys_file": self.keys_file,
            **self.store_settings(), **CONFIG,
        }  # fmt: skip
        for i in range(2):
            self.daemons.append(FaultDaemon(f"symbolicated{i}", self.directory, settings))
            self.daemons[i].start()
        self.nginx = FaultNginx("front", self.directory, [d.socket for d in self.daemons])
        for name in NGINX_TEMPORARY:
            os.symlink(os.path.join(self.directory, "nginx", name), os.path.join(self.nginx.directory, name))
            os.mkdir(os.path.join(self.directory, "nginx", name))
            os.chmod(os.path.join(self.directory, "nginx", name), 0o777)
        self.nginx.start()

    def store_settings(self):
        return {"symbfile_store": f"file://{self.directory}/store"}

    @property
    def port(self):
        return self.nginx.port

    def make_key(self, ident="tester"):
        self.key = Stack.add_key(self, ident, "upload,invalidate,remove")
        return self.key

    def client(self):
        return Client(self.port, timeout=20, host=self.host)

    def make_disk(self, name):
        """A small file system of its own where this is wanted and may be mounted, else a plain directory."""
        place = os.path.join(self.directory, name)
        os.mkdir(place)
        command = ["mount", "-t", "tmpfs", "-o", f"size={MOUNTS[name]},mode=0777", "symbolicated-faults", place]
        may = self.small_disks and os.getuid() == 0
        self.mounted[name] = may and subprocess.run(command, capture_output=True, check=False).returncode == 0

    def servers(self):
        return [*([self.nginx] if self.nginx else []), *self.daemons, *self.buckets, *self.memcached]

    def stop(self):
        """Stops everything; returns what went wrong at the end."""
        problems = []
        for server in self.servers():
            try:
                server.stop()
            except AssertionError as e:
                problems.append(str(e))
        for name, mounted in self.mounted.items():
            if mounted:
                subprocess.run(["umount", os.path.join(self.directory, name)], check=False)
        if not any(os.path.ismount(os.path.join(self.directory, name)) for name in MOUNTS):
            shutil.rmtree(self.directory, ignore_errors=True)
        return problems

    def logs(self):
        """The last lines of every server, for a report."""
        return "\n".join(f"--- {os.path.relpath(path, self.directory)}\n{tail(path, 1500)}" for path in self.log_files())

    def log_files(self):
        return [p for s in self.servers() for p in (s.log, getattr(s, "error_log", None)) if p]

    def keep_logs(self, folder):
        os.makedirs(folder, exist_ok=True)
        for path in self.log_files():
            if os.path.exists(path):
                shutil.copy(path, os.path.join(folder, os.path.relpath(path, self.directory).replace(os.sep, "-")))

    # for faults

    def hold(self, seconds, seen=None):
        """Leaves a fault as it is for a while."""
        for _ in self.repeat(seconds, 0.1, seen):
            pass

    def repeat(self, seconds, pause, seen=None):
        """For what is done again and again while a fault lasts; at least once. With `seen` it lasts until that is true."""
        start = time.monotonic()
        yield
        while not self.stopping.wait(pause):
            lasted = time.monotonic() - start
            if lasted >= seconds and (not seen or seen()):
                return
            assert lasted < seconds + SEEN_BOUND, "nothing came of the fault"
            yield

    def crash(self, daemon):
        before = time.monotonic()
        daemon.crash()
        self.kills.append((before, time.monotonic()))

    def metric(self, series):
        """The largest value that a responder shows; nginx asks now the one and now the other."""
        values = [0.0]
        for _ in range(8):
            for line in self.client().get("/__metrics__").text.splitlines():
                if line.startswith(series + " "):
                    values.append(float(line.rsplit(" ", 1)[1]))
        return max(values)

    def charges(self):
        """(when a responder started, what it has charged for requests, by kind): now of the one, now of the other. (None, {}): none answers."""
        text = self.client().get("/__metrics__").text
        found = re.findall(r'^symbolicated_memory_bytes\{kind="(bodies|replies|uploads|records|helper)"\} (\S+)', text, re.M)
        started = re.search(r"^process_start_time_seconds (\S+)", text, re.M)
        return started and started[1], {kind: float(value) for kind, value in found}

    def growth(self, series):
        """Whether this counter has grown since now: a fault has done something."""
        before = self.metric(series)
        return lambda: self.metric(series) > before

    def transfers(self, outcome):
        """Whether a transfer from a bucket has ended so since now."""
        return self.growth(f'symbolicated_downloads_total{{outcome="{outcome}"}}')

    def delete(self, module):
        """DELETE, until it is answered 200 (memcached may be on its way back)."""
        for _ in range(20):
            reply = self.client().request("DELETE", f"/cache/{module[0]}/{module[1]}", headers={"Authorization": self.key})
            if reply.status == 200:
                return
            self.hold(0.1)
        raise AssertionError(f"DELETE: {reply}")

    def can_step_clock(self):
        return faketime_library() is not None and not is_sanitized()

    def until(self, condition, what):
        for _ in self.repeat(0, 0.05, condition):
            pass
        assert self.stopping.is_set() or condition(), what

    def step_clock(self, offset):
        """The wall clock of the first responder, which is started anew for the first of its steps; no other clock."""
        daemon = self.daemons[0]
        if not daemon.environment:
            self.write_clock(0)
            daemon.stop()
            daemon.environment = {
                "LD_PRELOAD": faketime_library(), "FAKETIME_TIMESTAMP_FILE": self.clock_file, "FAKETIME_CACHE_DURATION": "1", **FAKETIME,
            }  # fmt: skip
            daemon.start()
        self.write_clock(offset)

    def write_clock(self, offset):
        with open(self.clock_file + ".new", "w", encoding="utf-8") as out:
            out.write(f"{offset:+d}s\n")
        os.replace(self.clock_file + ".new", self.clock_file)

    def clock_is_off(self, offset):
        """Does the last line of its log say so?"""
        for line in reversed(tail(self.daemons[0].log).splitlines()):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                at = datetime.datetime.strptime(json.loads(line)["time"], "%Y-%m-%dT%H:%M:%S.%fZ")
                off = at - datetime.datetime.utcnow()
                return abs(off.total_seconds() - offset) < 60
        return False

    def no_room(self, name):
        """What is said of a full disk, see full_disk."""
        return os.strerror(errno.ENOSPC if self.mounted[name] else errno.EACCES)

    def can_fill(self, name):
        return self.mounted[name] or os.getuid() != 0

    @contextlib.contextmanager
    def full_disk(self, name):
        """No room in that file system; where none could be mounted, no right to make files there."""
        place = os.path.join(self.directory, name)
        if self.mounted[name]:
            with filled(os.path.join(place, "ballast")):
                yield
            return
        folders = [place, *(os.path.join(place, f) for f in os.listdir(place))]
        modes = [stat.S_IMODE(os.stat(f).st_mode) for f in folders]
        for folder in reversed(folders):
            os.chmod(folder, 0o555)
        try:
            yield
        finally:
            for folder, mode in zip(folders, modes):
                os.chmod(folder, mode)


def says(path, text):
    """Whether a log has said this since now."""
    before = os.path.getsize(path)

    def seen():
        with open(path, "rb") as log:
            log.seek(before)
            return text.encode() in log.read()

    return seen


@contextlib.contextmanager
def filled(path):
    """A file that takes all room there is."""
    with open(path, "wb", buffering=0) as ballast:
        with contextlib.suppress(OSError):
            for _ in range(1 << 16):
                ballast.write(b"\0" * 4096)
    try:
        yield
    finally:
        os.remove(path)


def resident(pid):
    """Bytes of memory that a process has, 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0
