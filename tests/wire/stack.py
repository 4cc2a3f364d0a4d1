# SPDX-License-Identifier: Apache-2.0
"""The real servers behind one test module: memcached, buckets, symbolicated and nginx, on loopback and unix sockets in a
temporary directory. Whatever is started here is stopped here, by its process id, also when a test fails."""

import collections
import contextlib
import ctypes
import fcntl
import functools
import glob
import json
import os
import random
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

from client import Client
from symbols import TOOLS, Symbols

sys.path.insert(0, TOOLS)
from local_nginx import nginx_command, write_nginx  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def command_of(variable, program):
    """A command that the environment may name, else this program."""
    return shlex.split(os.environ[variable]) if variable in os.environ else [program]


DAEMON = command_of("SYMBOLICATED", os.path.join(ROOT, "build", "symbolicated"))
KEYS_TOOL = command_of("SYMBOLICATED_KEYS", DAEMON[-1] + "-keys")
BUCKET_SERVER = os.path.join(TOOLS, "bucket_server.py")

START_BOUND = 60  # seconds until a server that was started must answer
STOP_BOUND = 90  # seconds until one that was asked to stop must be gone
SANITIZER = re.compile(
    r"(ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|: runtime error: |Sanitizer:DEADLYSIGNAL|ERROR SUMMARY: [1-9])"
)

PORT_LOCKS = collections.deque(maxlen=64)  # of the ports given out last; older ones are bound by now
EPOCH = "s1e"  # the key of each memcached's random number
LIVE = []  # the stacks that run now, for the checks after each test and the logs of a failed one
LEFT = []  # logs of stacks that were stopped because a test failed, for its report


def wait_for(condition, what, bound=60.0, pause=0.02):
    """The first true value of condition(); what says what was waited for."""
    end = time.monotonic() + bound
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {bound} s: {what}"
        time.sleep(pause)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(child) for child in f.read().split()]


def opened(pid):
    """The names of all that a process has open, but for what it closes meanwhile."""
    names = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            names.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return names


def free_port():
    """A port below the range that the kernel hands out, so that no outgoing connection takes it meanwhile. All test
    processes that share this network keep it from each other by a socket with its name, which ends with the process."""
    for _ in range(200):
        port = random.SystemRandom().randrange(10000, 20000)  # tests seed the common one
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0symbolicated-port-{port}")
            with socket.socket() as s:
                s.bind(("127.0.0.1", port))
        except OSError:
            lock.close()
            continue
        PORT_LOCKS.append(lock)
        return port
    raise AssertionError("no free port")


def seed_of(own):
    """What a generator of random data begins with: the place's own seed, and another with SEED (./check --seed N)."""
    return f"{own} {os.environ['SEED']}" if "SEED" in os.environ else own


def has_sanitizer():
    """Does the daemon run with other allocations than its own: a sanitizer's or valgrind's?"""
    return len(DAEMON) > 1 or any(holds_sanitizer(kind) for kind in ("asan", "tsan"))


@functools.cache
def holds_sanitizer(kind):
    libraries = subprocess.run(["ldd", DAEMON[0]], capture_output=True, text=True, check=False).stdout
    with open(DAEMON[0], "rb") as f:
        return f"lib{kind}" in libraries or f"__{kind}_init".encode() in f.read()


def less_when_watched(count):
    """A sanitizer takes up to ten times as long, and sees as much with a quarter."""
    return count // 4 if has_sanitizer() else count


def faketime_library():
    found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1") + glob.glob("/usr/lib*/faketime/libfaketimeMT.so.1")
    return found[0] if found else None


# The wall clock of the process alone: the times of files are those of the file system, as a file server sets and tells them.
# The last: of itself it takes a condition's monotonic time for wall time where glibc is new, and each wait ends at once.
FAKETIME = {
    "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1", "FAKE_UTIME": "1",
    "FAKETIME_FORCE_MONOTONIC_FIX": "0",
}  # fmt: skip


def another_version():
    """The command of a responder whose pages have another version of the format; it is built beside ours."""
    directory = os.path.dirname(DAEMON[-1]) or "."
    name = os.path.join("tests", "tools", "symbolicated_of_another_version")
    # One make at a time: the tests run in several processes.
    with open(os.path.join(directory, "tests", "tools", ".storectl.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "-s", "-C", directory, name], check=True, stdout=subprocess.DEVNULL, timeout=300)
    return [*DAEMON[:-1], os.path.join(directory, name)]


def die_with_parent():
    """In the child: SIGTERM when the test process is killed, so that nothing is left running."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


# The same for a command. Popen need not fork this large process for it, which takes five times as long.
WITH_PARENT = [shutil.which("setpriv"), "--pdeathsig", "TERM"]


def tail(path, size=6000):
    """The end of a log; of a crash (base/crash.h) every frame, with its name."""
    try:
        with open(path, "rb") as f:
            f.seek(0, os.SEEK_END)
            f.seek(max(0, f.tell() - 65536))
            text = f.read()
    except OSError as e:
        return f"({e})"
    crash = text.rfind(b'"event":"crash"')
    if crash < 0:
        return text[-size:].decode("utf-8", "replace")
    return with_names(text[max(0, crash - size) :].decode("utf-8", "replace"))


def with_names(text):
    """The same text, where symbtool finds a name behind each frame of a stack."""
    symbtool = os.path.join(os.path.dirname(DAEMON[-1]), "symbtool")
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = [symbtool, "symbolicate", "--filter"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, env={}, check=True).stdout
    return text


class Server:
    """One process with its log. within: the command that runs another one where this server belongs."""

    def __init__(self, name, directory, within=()):
        self.name, self.directory, self.within = name, directory, within
        self.log = os.path.join(directory, name + ".log")
        self.process = None

    def spawn(self, command, **options):
        with open(self.log, "ab") as log:
            options.setdefault("stdin", subprocess.DEVNULL)
            options.setdefault("stdout", log)
            self.process = subprocess.Popen([*WITH_PARENT, *self.within, *command], stderr=log, **options)

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def ready(self, condition):
        def check():
            if self.process.poll() is not None:
                raise AssertionError(f"{self.name} exited with {self.process.returncode} at start\n{tail(self.log)}")
            return condition()

        wait_for(check, f"{self.name} ready; its log: {tail(self.log, 1000)}", START_BOUND)

    def signal(self, number):
        self.process.send_signal(number)

    def freeze(self):
        """Stops it until SIGCONT; returns when each of its threads stands still, since the signal alone is not that yet."""
        self.signal(signal.SIGSTOP)
        wait_for(lambda: set(self.thread_states()) <= {"T"}, f"{self.name} to stand still")

    def thread_states(self, name=None):
        """Of all threads, or of those of a name."""
        folder = f"/proc/{self.process.pid}/task"
        for task in os.listdir(folder):
            with contextlib.suppress(OSError), open(os.path.join(folder, task, "stat"), "rb") as f:
                before, _, after = f.read().rpartition(b")")
                if name in (None, before.partition(b"(")[2].decode()):
                    yield after.split()[0].decode()

    def wait(self, bound=STOP_BOUND):
        try:
            return self.process.wait(bound)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.name} had to be killed after {bound} s\n{tail(self.log)}") from None

    def stop(self):
        """Asks it to end; returns the exit code, None when it did not run."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
        code = self.wait()
        self.process = None
        return code

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None


def connected(address, timeout):
    """A socket that is connected to this unix socket (a path), TCP port of this machine (a number), or (host, port)."""
    if isinstance(address, int):
        address = ("127.0.0.1", address)
    s = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    try:
        s.settimeout(timeout)
        s.connect(address)
    except OSError:
        s.close()
        raise
    return s


def connects(address):
    """Can it be connected to?"""
    try:
        connected(address, 5).close()
        return True
    except OSError:
        return False


class Memcached(Server):
    """address: (host, port), else it has a unix socket."""

    def __init__(self, name, directory, memory, address=None, within=()):
        super().__init__(name, directory, within)
        self.memory, self.options = memory, []
        self.address = address or os.path.join(directory, name + ".sock")
        self.setting = "%s:%d" % address if address else self.address

    def start(self):
        where = ["-s", self.address, "-a", "0777"] if isinstance(self.address, str) else ["-l", self.address[0], "-p", str(self.address[1])]
        user = ["-u", "root"] if os.getuid() == 0 else []
        self.spawn(["memcached", *where, "-U", "0", "-m", str(self.memory), "-t", "2", *user, *self.options])
        self.ready(lambda: connects(self.address))

    def stop(self):
        """It has nothing to lose, and looks only once a second whether it was asked to end."""
        if self.process is not None:
            self.kill()

    @contextlib.contextmanager
    def suspended(self):
        """Hung, as a server on an overloaded host is: it accepts connections and never answers."""
        self.freeze()
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    def raw(self):
        return RawMemcached(self.address)

    def holds_something(self):
        """But for its epoch, which it has as soon as it was asked for anything."""
        with self.raw() as raw:
            return any(key != EPOCH for key in raw.dump_keys())


class Relay:
    """Before a memcached on a unix socket: passes questions on after `delay` seconds, and counts them. While `held` is
    an event, answers to questions that `about` is found in wait for it; `holding` is how many do."""

    def __init__(self, address):
        self.address, self.delay, self.questions = address, 0.0, 0
        self.held, self.holding, self.about = None, 0, b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.setting = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self.address)
                asked = [b""]  # last
                threading.Thread(target=self.pass_on, args=(client, server, asked, True), daemon=True).start()
                threading.Thread(target=self.pass_on, args=(server, client, asked, False), daemon=True).start()

    def pass_on(self, source, sink, asked, asks):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 20):
                if asks:
                    asked[0] = data
                    self.questions += 1
                    time.sleep(self.delay)
                elif (held := self.held) and re.search(self.about, asked[0]):
                    self.holding += 1
                    held.wait()
                    self.holding -= 1
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.close()


class RawMemcached:
    """The ASCII protocol by hand: to look at what is stored and to spoil it."""

    def __init__(self, address):
        self.socket = connected(address, 20)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def command(self, line, data=None):
        self.socket.sendall(line.encode() + b"\r\n" + (b"" if data is None else data + b"\r\n"))
        return self.file.readline().decode().rstrip("\r\n")

    def keys(self):
        """Every key, with its expiry as the server prints it (-1: none). One dump may leave out what memcached's own
        threads hold at that moment: several are put together, until three in a row bring nothing new."""
        found, quiet = {}, 0
        while quiet < 3:
            before = len(found)
            found.update(self.dump_keys())
            quiet = quiet + 1 if len(found) == before else 0
        return found

    def dump_keys(self):
        for _ in range(500):
            line = self.command("lru_crawler metadump all")
            if not line.startswith("BUSY"):
                break
            time.sleep(0.02)
        found = {}
        while line != "END":
            assert line.startswith("key="), line
            key, expiry, _ = line.split(" ", 2)
            found[urllib.parse.unquote(key[4:])] = int(expiry.removeprefix("exp="))
            line = self.file.readline().decode().rstrip("\r\n")
        return found

    def get(self, key):
        line = self.command(f"get {key}")
        if line == "END":
            return None
        size = int(line.split(" ")[3])
        value = self.file.read(size + 2)[:-2]
        assert self.file.readline() == b"END\r\n"
        return value

    def set(self, key, value, expiry=0):
        """expiry: as memcached takes it; an absolute time may be given as keys() tells it."""
        return self.command(f"set {key} 0 {max(expiry, 0)} {len(value)}", value)

    def delete(self, key):
        return self.command(f"delete {key}")

    def flush(self):
        return self.command("flush_all")

    def stats(self):
        out, line = {}, self.command("stats")
        while line != "END":
            _, name, value = line.split(" ", 2)
            out[name] = value
            line = self.file.readline().decode().rstrip("\r\n")
        return out


class BucketProcess:
    """A process that bucket_server.py --many forks, with what Server needs of subprocess.Popen; its exit code is not known."""

    many = None  # the process that forks
    one_by_one = threading.Lock()

    def __init__(self, arguments, log):
        self.returncode = None
        with self.one_by_one:
            if not self.many or self.many.poll() is not None:
                command = [sys.executable, BUCKET_SERVER, "--many"]
                BucketProcess.many = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.many.stdin.write(json.dumps([arguments, log]).encode() + b"\n")
            self.many.stdin.flush()
            self.pid = int(self.many.stdout.readline())
            self.fd = os.pidfd_open(self.pid)  # until the next is asked for it exists, even when it has ended

    def poll(self, timeout=0):
        if self.returncode is None:
            ended = select.poll()
            ended.register(self.fd, select.POLLIN)
            if ended.poll(None if timeout is None else timeout * 1000):
                os.close(self.fd)
                self.returncode = 0
        return self.returncode

    def wait(self, timeout=None):
        if self.poll(timeout) is None:
            raise subprocess.TimeoutExpired("bucket_server.py", timeout)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            signal.pidfd_send_signal(self.fd, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class Bucket(Server):
    """The HTTP server over a directory of symbol files, which can be told to misbehave."""

    def __init__(self, name, directory, symbols, auth=None, gzip_header=True):
        super().__init__(name, directory)
        self.symbols, self.url, self.port = symbols, None, free_port()  # the same when it is started again
        self.auth, self.gzip_header = auth, gzip_header

    def start(self):
        flags = ["--gzip-header"] if self.gzip_header else []
        flags += ["--auth", self.auth] if self.auth else []
        flags += ["--port", str(self.port)]
        self.process = BucketProcess([self.symbols.directory, *flags], self.log)

        def announced():
            found = re.search(r"^ready (http://\S+)$", tail(self.log), re.M)
            return found and found.group(1)

        self.ready(announced)
        self.url = announced()

    @property
    def source(self):
        """The URL as the server is told."""
        return self.url.replace("://", f"://{self.auth}@") if self.auth else self.url

    def ask(self, path, value=None):
        data = None if value is None else json.dumps(value).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.read()

    def control(self, mode, path="*", times=None):
        self.ask("_control", {"path": path, "mode": mode, "times": times})

    def reset(self):
        """Well-behaved again, and the hits forgotten."""
        self.ask("_reset", {})

    def misbehave(self, module, mode, times=None):
        self.control(mode, f"{module[0]}/", times)

    def paths(self):
        """{path as it was sent: GETs}"""
        counts = json.loads(self.ask("_hits"))
        return {path: methods["GET"] for path, methods in counts.items() if path != "total" and "GET" in methods}

    def hits(self, module=None):
        """GETs of a module (of its id in any spelling), or of all objects; what has another form of path (a probe) is not counted."""
        total = 0
        for path, count in self.paths().items():
            parts = urllib.parse.unquote(path).strip("/").split("/")
            if len(parts) == 3 and (module is None or (parts[0] == module[0] and parts[1].upper() == module[1].upper())):
                total += count
        return total


class Daemon(Server):
    """symbolicated. how: "listen" (it makes its socket), "stdin" (the socket comes on descriptor 0), "systemd" (on
    descriptor 3, with LISTEN_FDS), "spawn-fcgi"."""

    def __init__(self, name, directory, settings, how="listen", within=()):
        super().__init__(name, directory, within)
        self.how, self.program = how, DAEMON
        self.socket = os.path.join(directory, name + ".sock")
        self.config = os.path.join(directory, name + ".conf")
        self.settings = dict(settings)
        self.checked = 0  # bytes of the log that were searched for reports
        self.expected_down = False

    def write_config(self, **changes):
        """Changes settings (None takes one away) and writes the file; a list is a key that is given several times."""
        self.settings.update(changes)
        lines = []
        for key, value in self.settings.items():
            for one in value if isinstance(value, (list, tuple)) else [value]:
                if one is not None:
                    lines.append(f"{key} = {one}\n")
        if self.how == "listen":
            lines.append(f"listen = {self.socket}\nlisten_mode = 0666\n")
        with open(self.config + ".new", "w", encoding="utf-8") as out:
            out.writelines(lines)
        os.replace(self.config + ".new", self.config)

    def start(self):
        self.write_config()
        command = [*self.program, "--config", self.config]
        if self.how == "listen":
            self.spawn(command)
        elif self.how == "spawn-fcgi":
            with contextlib.suppress(FileNotFoundError):
                os.remove(self.socket)
            self.spawn(["spawn-fcgi", "-n", "-s", self.socket, "-M", "0666", "--", *command])
        else:
            self.start_with_socket(command)
        self.expected_down = False
        self.ready(lambda: connects(self.socket))

    def start_with_socket(self, command):
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.socket)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.socket)
            os.chmod(self.socket, 0o666)
            listener.listen(511)
            if self.how == "systemd":
                script = 'exec env LISTEN_FDS=1 LISTEN_PID=$$ "$@" 3<&0 0</dev/null'
                command = ["sh", "-c", script, "sh", *command]
            self.spawn(command, stdin=listener.fileno())

    def reload(self):
        """Has the settings read again, and waits until they hold. A socket that is inherited is there before the process is ready."""
        wait_for(lambda: any(line["event"] == "start" and "process" in line["text"] for line in self.log_lines()), "the process to be ready")
        before = self.reloads()
        self.signal(signal.SIGHUP)
        wait_for(lambda: self.reloads() > before, "the settings to be read again")

    def reloads(self):
        return sum(line["event"] == "reload" for line in self.log_lines())

    def log_text(self):
        """All of the log, without the line with which AddressSanitizer greets the first fiber."""
        with open(self.log, "rb") as log:
            text = log.read().decode("utf-8")
        return re.sub(r"==\d+==WARNING: ASan doesn't fully support makecontext/swapcontext .*\n", "", text)

    def log_lines(self):
        """The events of the log, as objects. A line that is no JSON stays out here; test_ops looks for those."""
        out = []
        with open(self.log, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                with contextlib.suppress(ValueError):
                    value = json.loads(line)
                    if isinstance(value, dict):
                        out.append(value)
        return out

    def check(self):
        """Fails when it exited by itself or a sanitizer reported something since the last look."""
        if self.process is not None and self.process.poll() is not None and not self.expected_down:
            raise AssertionError(f"{self.name} exited with {self.process.returncode}\n{tail(self.log)}")
        with open(self.log, "rb") as log:
            log.seek(self.checked)
            text = log.read().decode("utf-8", "replace")
        self.checked += len(text.encode("utf-8", "replace"))
        report = SANITIZER.search(text)
        if report:
            raise AssertionError(f"{self.name}: {text[max(0, report.start() - 500):][:8000]}")
        unbalanced = re.search(r'.*"event":"account".*', text)
        assert not unbalanced, f"{self.name}: {unbalanced[0]}"

    def terminate(self):
        """SIGTERM; the test that does so waits for the end itself."""
        self.expected_down = True
        self.signal(signal.SIGTERM)

    def stop(self):
        was_up = self.running
        crashed = self.process is not None and not was_up and not self.expected_down
        self.expected_down = True
        code = super().stop()
        assert not crashed, f"{self.name} exited by itself with {code}\n{tail(self.log)}"
        if was_up:
            assert code == 0, f"{self.name} exited with {code} after SIGTERM\n{tail(self.log)}"
        if os.path.exists(self.log):
            self.check()
        return code

    def crash(self):
        self.expected_down = True
        self.kill()


class Nginx(Server):
    """nginx with the project's own files; its allow list knows loopback, so tests are not limited in rate."""

    def __init__(self, name, directory, backend, within=(), **conf):
        super().__init__(name, os.path.join(directory, name), within)
        os.makedirs(self.directory, mode=0o755)
        self.error_log = os.path.join(self.directory, "error.log")
        self.backend, self.conf = backend, conf
        self.port = self.tls_port = None

    def start(self):
        self.port, self.tls_port = free_port(), free_port()
        # A daemon that ends waits for nginx to give up its idle connections; here they need not be kept for long.
        changes = [("symbolicated-http.conf", "keepalive_timeout 5s;", "keepalive_timeout 200ms;")]
        options = {**self.conf, "changes": [*changes, *self.conf.get("changes", ())]}
        conf = write_nginx(self.directory, [self.backend], self.port, self.tls_port, **options)
        self.spawn(nginx_command(self.directory, conf))
        self.ready(lambda: connects(self.port) and connects(self.tls_port))


class Node:
    """What one machine runs: symbolicated and the nginx before it."""

    def __init__(self, number, directory, settings, how, with_nginx, within=()):
        self.daemon = Daemon(f"symbolicated{number}", directory, settings, how, within)
        self.nginx = Nginx(f"nginx{number}", directory, self.daemon.socket) if with_nginx else None

    def start(self):
        self.daemon.start()
        if self.nginx:
            self.nginx.start()

    def client(self, **options):
        port = self.nginx.tls_port if options.get("tls") else self.nginx.port
        return Client(port, **options)

    def restart(self):
        """A new process: what the old one held in memory is gone."""
        self.daemon.stop()
        self.daemon.start()

    def metrics(self):
        """Samples of /__metrics__: {'name{labels}': value}."""
        reply = self.client().get("/__metrics__")
        assert reply.status == 200, reply
        out = {}
        for line in reply.text.splitlines():
            if line and not line.startswith("#"):
                series, value = line.rsplit(" ", 1)
                out[series] = float(value)
        return out

    def settled(self):
        """Waits until every map that was loaded is built and stored."""

        def idle():
            m = self.metrics()
            return m["symbolicated_loads_in_flight"] == 0 and m["symbolicated_loading_bytes"] == 0

        wait_for(idle, "loads and stores to end", 300)


# Large enough for a sanitizer build on a busy machine. A test that waits for one sets its own.
DEFAULTS = {
    "bucket_connect_timeout": "20s",
    "bucket_stall_timeout": "20s",
    "bucket_total_timeout": "300s",
    "bucket_retries": "0",
    "memcached_connect_timeout": "10s",
    "memcached_timeout": "10s",
    "log_level": "debug",
    "background_share": "100",  # tests that ask until something is there take the cores from the loads that they wait for
    "finish_after": "0",  # as if every map were asked for again
}


class Stack:
    """symbols: None (an empty bucket), a directory, or a list of them: one bucket each, asked in this order.
    sources: how many of the buckets the server knows of (None: all); before: URLs that it asks before them; auth: what the
    buckets demand, "user:password"; gzip_header: whether they say Content-Encoding of gzip objects; bucket: False starts
    none, for sources that the config names itself.
    memcached: how many; config: settings beside DEFAULTS; daemons: how many nodes, sharing all else; within: a command that
    starts them; keys: make an API key."""

    def __init__(
        self, directory=None, symbols=None, memcached=1, memory=256, config=None, daemons=1, nginx=True, how="listen",
        keys=False, bucket=True, memcached_tcp=False, sources=None, before=(), auth=None, gzip_header=True, within=(),
    ):  # fmt: skip
        self.own_directory = directory is None
        self.directory = tempfile.mkdtemp(prefix="sym-") if directory is None else str(directory)
        os.chmod(self.directory, 0o755)
        self.memcached = [
            Memcached(f"memcached{i}", self.directory, memory, ("127.0.0.1", free_port()) if memcached_tcp else None) for i in range(memcached)
        ]
        self.buckets = self.make_buckets(symbols, auth, gzip_header) if bucket else []
        self.sources, self.before = sources, list(before)
        self.config = {**DEFAULTS, **(config or {})}
        self.daemons, self.with_nginx, self.how, self.within = daemons, nginx, how, within
        self.keys_file = os.path.join(self.directory, "keys") if keys else None
        self.key = None
        self.nodes = []

    def make_buckets(self, symbols, auth, gzip_header):
        given = symbols if isinstance(symbols, (list, tuple)) else [symbols]
        buckets = []
        for i, one in enumerate(given):
            place = os.path.join(self.directory, f"symbols{i}") if one is None else str(one)
            buckets.append(Bucket(f"bucket{i}", self.directory, Symbols(place), auth, gzip_header))
        return buckets

    @property
    def bucket(self):
        return self.buckets[0]

    @property
    def symbols(self):
        return self.buckets[0].symbols

    @property
    def daemon(self):
        return self.nodes[0].daemon

    @property
    def node(self):
        return self.nodes[0]

    @property
    def client(self):
        return self.nodes[0].client()

    def servers(self):
        out = [*self.memcached, *self.buckets]
        for node in self.nodes:
            out += [node.daemon, *([node.nginx] if node.nginx else [])]
        return out

    def settings(self):
        sources = self.before + [b.source for b in self.buckets[: self.sources]]
        out = {"source": sources} if sources else {}
        if self.memcached:
            out["memcached"] = [m.setting for m in self.memcached]
        if self.keys_file:
            out["keys_file"] = self.keys_file
        return {**out, **self.config}

    def add_key(self, ident, rights):
        """Makes an API key; returns the header's value."""
        done = subprocess.run(
            [*KEYS_TOOL, "add", ident, "--rights", rights, self.keys_file], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{KEYS_TOOL}: {done.returncode} {done.stdout} {done.stderr}"
        found = re.search(r"APIKey \S+", done.stdout)
        assert found, done.stdout
        return found.group(0)

    def start(self):
        LIVE.append(self)
        try:
            for server in [*self.memcached, *self.buckets]:
                server.start()
            if self.keys_file:
                self.key = self.add_key("tester", "upload,invalidate")
            for i in range(self.daemons):
                node = Node(i, self.directory, self.settings(), self.how, self.with_nginx, self.within)
                self.nodes.append(node)
                node.start()
        except BaseException:
            logs = "\n".join(f"--- {name}\n{text}" for name, text in self.logs())
            with contextlib.suppress(AssertionError):
                self.stop()
            print(logs, file=sys.stderr)
            raise
        return self

    def stop(self, failed=False):
        """Stops everything; the first thing that went wrong is raised when all is down."""
        if self in LIVE:
            LIVE.remove(self)
        failures = []
        order = [n.nginx for n in self.nodes if n.nginx] + [n.daemon for n in self.nodes] + [*self.buckets, *self.memcached]
        for server in order:
            try:
                server.stop()
            except AssertionError as e:
                failures.append(str(e))
        if failed or failures:
            LEFT.extend(self.logs())
        if self.own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)
        assert not failures, "\n".join(failures)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        self.stop(kind is not None)

    def check(self):
        for node in self.nodes:
            if os.path.exists(node.daemon.log):
                node.daemon.check()

    def logs(self):
        """(name, last lines) of every server, without what nginx says of each connection."""
        paths = [(s.name, s.log) for s in self.servers()]
        paths += [(n.nginx.name + " errors", n.nginx.error_log) for n in self.nodes if n.nginx]
        out = []
        for name, path in paths:
            lines = [line for line in tail(path).splitlines() if "closed keepalive connection" not in line]
            out.append((name, "\n".join(lines[-25:])))
        return out

    def stored_keys(self):
        """What all memcached servers hold, but for their epochs: (server, key) pairs."""
        out = []
        for server in self.memcached:
            with server.raw() as raw:
                out += [(server, key) for key in raw.keys() if key != EPOCH]
        return out
