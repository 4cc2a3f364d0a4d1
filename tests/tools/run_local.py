#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ./run does once everything is built: memcached, symbolicated and nginx on loopback, over the sample symbols or one's own."""

import argparse
import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from local_nginx import AS_BYTES, ROOT, nginx_command, worker_user, write_nginx

SAMPLE = os.path.join(ROOT, "tests", "data", "symbols")
PUSHED = os.path.join(ROOT, "build", "symbolicated")  # what the example of symbtool is about
SAMPLE_REQUEST = os.path.join(SAMPLE, "request-v5.json")
START_BOUND = 30  # seconds until a server must answer
STOP_BOUND = 40  # and until one must be gone; above shutdown_timeout of symbolicated


class Failure(Exception):
    """Ends the run with exit code 1 and this text."""


class Stopped(Exception):
    """SIGTERM came."""


def die_with_parent():
    """In a child: SIGTERM when this program is killed, so that nothing is left running."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def tail(path, size=4000):
    with open(path, "rb") as f:
        f.seek(0, os.SEEK_END)
        f.seek(max(0, f.tell() - size))
        return f.read().decode("utf-8", "replace").strip()


def connects(address):
    """Can this unix socket (a path) or TCP port (a number) be connected to?"""
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as s:
        s.settimeout(5)
        try:
            s.connect(address if isinstance(address, str) else ("127.0.0.1", address))
            return True
        except OSError:
            return False


def check_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError as e:
            raise Failure(f"port {port}: {e.strerror}") from None


def free_port(but=None):
    """Below the range of outgoing connections, so that none takes it meanwhile."""
    for _ in range(200):
        port = random.randrange(20000, 32000)
        with contextlib.suppress(Failure):
            check_free(port)
            if port != but:
                return port
    raise Failure("no free port")


class Child:
    """A server, its log, and whether it is up."""

    def __init__(self, name, directory, command):
        self.name, self.log = name, os.path.join(directory, name + ".log")
        # A session of its own: Ctrl-C reaches this program, which then stops the servers in order.
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, preexec_fn=die_with_parent
            )

    def wait_ready(self, up):
        end = time.monotonic() + START_BOUND
        while not up():
            self.check()
            if time.monotonic() > end:
                raise Failure(f"{self.name} does not answer after {START_BOUND} s; the end of its log:\n{tail(self.log)}")
            time.sleep(0.02)

    def exited(self):
        """How it ended, or None. It stays a zombie, so that its process group keeps its number until stop()."""
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    def check(self):
        end = self.exited()
        if end:
            how = "exit code" if end.si_code == os.CLD_EXITED else "signal"
            raise Failure(f"{self.name} ended with {how} {end.si_status}; the end of its log:\n{tail(self.log)}")

    def stop(self):
        """SIGTERM to the server; when it is gone already, to what it left behind (workers of an nginx that was killed)."""
        if self.exited():
            os.killpg(self.process.pid, signal.SIGTERM)
        else:
            os.kill(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(STOP_BOUND)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            print(f"{self.name} had to be killed", file=sys.stderr)


class Run:
    def __init__(self, program, source, http_port, https_port):
        self.program, self.source = program, source
        for given in (http_port, https_port):
            if given:
                check_free(given)
        self.http_port = http_port or free_port(https_port)
        self.https_port = https_port or free_port(self.http_port)
        self.directory = tempfile.mkdtemp(prefix="symbolicated-")
        os.chmod(self.directory, 0o711)  # the workers of nginx reach the socket
        self.children = []

    def start(self, name, command, up):
        child = Child(name, self.directory, command)
        self.children.append(child)
        child.wait_ready(up)

    def start_all(self):
        root = os.getuid() == 0
        memcached = os.path.join(self.directory, "memcached.sock")
        user = ["-u", "root"] if root else []
        command = ["memcached", "-s", memcached, "-a", "0600", "-U", "0", "-m", "256", *user]
        self.start("memcached", command, lambda: connects(memcached))

        listen = os.path.join(self.directory, "symbolicated.sock")
        conf = os.path.join(self.directory, "symbolicated.conf")
        with open(conf, "w", **AS_BYTES) as f:
            f.write(f"source = {self.source}\nmemcached = {memcached}\nlisten_mode = 0660\n")
            f.write(f"symbfile_store = file://{self.make_store()}\nkeys_file = {self.make_key()}\n")
            if root:
                f.write(f"listen_group = {'www-data' if worker_user() == 'www-data' else 'nogroup'}\n")
        self.start("symbolicated", [self.program, "--config", conf, "--listen", listen], lambda: connects(listen))

        conf = write_nginx(self.directory, [listen], self.http_port, self.https_port)
        pid = os.path.join(self.directory, "nginx.pid")  # written when all ports are bound
        self.start("nginx", nginx_command(self.directory, conf), lambda: os.path.exists(pid) and connects(self.https_port))

    def make_store(self):
        store = os.path.join(self.directory, "store")
        os.mkdir(store, 0o700)
        return store

    def make_key(self):
        """A keys file with one key, which lies beside it for symbtool."""
        keys, key = os.path.join(self.directory, "keys"), os.path.join(self.directory, "api-key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
            subprocess.run([self.program + "-keys", "add", "run", "--rights", "upload,invalidate,remove,read", keys], stdout=out, check=True)
        return keys

    def wait(self):
        """Until a server ends by itself, which is a failure; a signal ends it by an exception."""
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        for child in self.children:
            child.check()

    def stop(self):
        for child in reversed(self.children):
            child.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def post(self, path, body):
        trust = ssl.create_default_context(cafile=os.path.join(self.directory, "cert.pem"))
        # No proxy of the environment on the way to loopback.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust))
        try:
            with opener.open(f"https://127.0.0.1:{self.https_port}{path}", body, timeout=60) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as e:
            raise Failure(f"{path} answered {e.code}: {e.read().decode('utf-8', 'replace')}") from None
        except (OSError, ValueError) as e:
            raise Failure(f"{path}: {e}") from None


def place(entry):
    return f"{entry['file']}:{entry['line']}" if "line" in entry else entry.get("file", "")


def show_frame(frame):
    """The inlined functions first: they are the innermost."""
    name = f"{frame['frame']:4}  {frame['module']}"
    for inline in frame.get("inlines", []):
        print(f"{name}  {inline['function']}  (inlined)  {place(inline)}".rstrip())
        name = " " * len(name)
    where = frame.get("function", frame.get("module_offset", "?"))
    if "function_offset" in frame:
        where += f" + {frame['function_offset']}"
    print(f"{name}  {where}  {place(frame)}".rstrip())


def show(answer):
    for number, result in enumerate(answer["results"]):
        print(f"job {number}")
        for module, found in result["found_modules"].items():
            print(f"  {module}: {({True: 'found', False: 'not found'}).get(found, 'not asked for')}")
        for i, stack in enumerate(result["stacks"]):
            print(f"  stack {i}")
            for frame in stack:
                show_frame(frame)


def check_sample(request, answer):
    """The sample's symbols are all there, so its modules are found and its frames have functions."""
    jobs = request.get("jobs", [request])
    results = answer["results"]
    if [len(j["stacks"]) for j in jobs] != [len(r["stacks"]) for r in results]:
        raise Failure("the answer has other stacks than the sample request")
    found = [f for r in results for f in r["found_modules"].values()]
    frames = [f for r in results for stack in r["stacks"] for f in stack]
    named = sum("function" in f for f in frames)
    lines, inlined = sum("line" in f for f in frames), sum("inlines" in f for f in frames)
    print(f"{len(frames)} frames: {named} with a function, {lines} with a line, {inlined} with inlined functions")
    if not any(found) or not named or not lines or not inlined:
        raise Failure("the sample request was not symbolicated")


def send_sample(run, whole):
    with open(SAMPLE_REQUEST, "rb") as f:
        body = f.read()
    print(f"POST https://127.0.0.1:{run.https_port}/symbolicate/v5 with {os.path.relpath(SAMPLE_REQUEST)}\n")
    answer = run.post("/symbolicate/v5", body)
    if whole:
        show(answer)
        print()
    check_sample(json.loads(body), answer)


def inlined_address(symbtool, directory):
    """Of PUSHED: an address in the deepest of its inlined functions."""
    subprocess.run([symbtool, "extract", "-o", directory, PUSHED], stdout=subprocess.DEVNULL, check=True)
    files = [os.path.join(directory, name) for name in sorted(os.listdir(directory)) if ".ranges." in name]
    dump = subprocess.run([symbtool, "dump", "--json", *files], stdout=subprocess.PIPE, text=True, check=True)
    return max((json.loads(line) for line in dump.stdout.splitlines()), key=lambda r: r["depth"])["va"]


def print_symbtool(run):
    """Two commands that work as they are typed, in this directory, while the servers run."""
    symbtool = os.path.join(os.path.dirname(run.program), "symbtool")
    if not os.path.exists(symbtool) or not os.path.exists(PUSHED):
        return
    with tempfile.TemporaryDirectory(prefix="symbolicated-") as directory:
        address = inlined_address(symbtool, directory)
    server = f"--url https://127.0.0.1:{run.https_port} --ca-file {run.directory}/cert.pem"
    tool, program = os.path.relpath(symbtool), os.path.relpath(PUSHED)
    print(f"{tool} push-symbols {server} --api-key-file {run.directory}/api-key {program}")
    print(f"{tool} symbolicate {server} {program} {address}")


def source_of(symbols):
    if "://" in symbols:
        return symbols
    path = os.path.abspath(symbols)
    if not os.path.isdir(path):
        raise Failure(f"{symbols} is neither a directory nor a URL")
    return "file://" + urllib.parse.quote(os.fsencode(path))  # its bytes, whatever the locale takes them for


def port(text):
    value = int(text)
    if not 1 <= value <= 65535:
        raise ValueError
    return value


def arguments():
    parser = argparse.ArgumentParser(prog="./run", allow_abbrev=False)
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--symbols", default=SAMPLE)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--http-port", type=port)
    parser.add_argument("--https-port", type=port)
    return parser.parse_args()


def serve(run, sample, once):
    run.start_all()
    if once:
        print_symbtool(run)
    if sample:
        send_sample(run, whole=once)
    if once:
        return
    data = "@" + os.path.relpath(SAMPLE_REQUEST) if sample else """'{"memoryMap":[["NAME","ID"]],"stacks":[[[0,4096]]]}'"""
    print(f"\nlogs: {run.directory}")
    print_symbtool(run)
    print(f"curl --cacert {run.directory}/cert.pem https://127.0.0.1:{run.https_port}/symbolicate/v5 -d {data}")
    print(f"page: http://127.0.0.1:{run.http_port}/symbolicate/")
    print(f"ready http://127.0.0.1:{run.http_port} https://127.0.0.1:{run.https_port}", flush=True)
    run.wait()


def on_terminate(*_):
    raise Stopped


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, on_terminate)
    signal.signal(signal.SIGHUP, on_terminate)
    run = None
    try:
        source = source_of(options.symbols)
        run = Run(options.program, source, options.http_port, options.https_port)
        serve(run, source == source_of(SAMPLE), options.once)
    except Failure as e:
        print(f"./run: {e}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, Stopped):
        return 1 if options.once else 0
    finally:
        # Stopping takes its time in peace.
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        if run:
            run.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
