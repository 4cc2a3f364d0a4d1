#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The test bucket: a small threaded HTTP/1.1 server over a directory, which counts its hits and misbehaves when told to.

    bucket_server.py DIRECTORY [--port 0] [--gzip-header] [--auth USER:PASSWORD]
    bucket_server.py --many

With --many each line of standard input is [[ARGUMENT...], LOG], and a process of its own serves as these arguments say; its id is
printed. All end with standard input.

It listens on 127.0.0.1 and prints one line, `ready http://127.0.0.1:PORT/`. Files are served as they are, from the decoded path;
with --gzip-header those that hold gzip carry `Content-Encoding: gzip`. SIGTERM ends it. From pytest: BucketServer(directory).start().

GET /_hits    {"/name/id/name.sym": {"GET": 2}, ..., "total": 2}; paths as they were sent
POST /_reset  forgets hits and rules
POST /_control {"path": PREFIX or "*", "mode": MODE, "times": N or null}
The rule of the longest prefix holds; a rule with the same path replaces it; after `times` answers it is gone. MODE:
    ok                serves the file (so that a prefix can be exempt from "*")
    status:CODE       that status, with a short body
    stall             head and half of the file, then silence
    drip[:SECONDS[,BYTES]]  head, then one byte every 0.1 s, or as often and as much as told
    reset             head and half of the file, then a TCP reset
    refuse            a TCP reset before the first byte
    cut:N             the right Content-Length, N bytes, end of connection
    short-length:N    the whole file, with a Content-Length that is N too large, end of connection
    two-lengths       the whole file, after a right Content-Length and one that is half as large
    no-length         neither length nor chunks; the end of the connection is the end of the file
    no-length-cut:N   the same, after N bytes
    chunked           the whole file in chunks
    chunked-cut:N     N bytes in chunks, then end of connection in the middle of a chunk
    bad-gzip          the file as gzip with one byte of its data changed
    junk              200 with a body that is no symbol file
    other:PATH        the file of another path
    redirect:URL      302 to URL; the path is added when it ends with a slash
    redirect-loop     302 to the same path
    slow:SECONDS      serves the file after a delay
    hold              serves the file once this rule is gone or another has taken its place
    etag:VALUE        serves the file with this line ETag
"""
import argparse
import contextlib
import ctypes
import gzip
import json
import os
import select
import signal
import socket
import socketserver
import struct
import sys
import threading
import time
import traceback
import urllib.parse
from base64 import b64encode
from http.server import BaseHTTPRequestHandler

LONGEST_WAIT = 300  # seconds that stall, drip, slow and hold last at most
BLOCK = 1 << 20


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = LONGEST_WAIT
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def do_GET(self):
        if self.path == "/_hits":
            return self.reply(200, json.dumps(self.server.hits()).encode(), "application/json")
        self.server.count(self.path, self.command)
        if self.server.auth and self.headers.get("Authorization") != self.server.auth:
            return self.reply(401, b"no\n", extra={"WWW-Authenticate": "Basic"})
        mode, _, value = self.server.mode_for(self.path).partition(":")
        return getattr(self, "mode_" + mode.replace("-", "_"))(value)

    do_HEAD = do_GET

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            if self.path == "/_reset":
                self.server.reset()
            elif self.path == "/_control":
                self.server.control(**json.loads(body))
            else:
                return self.reply(404, b"no such control\n")
        except (ValueError, TypeError) as e:
            return self.reply(400, f"{e}\n".encode())
        return self.reply(200, b"{}", "application/json")

    # answers

    def head(self, status, length=None, content_type="application/octet-stream", close=False, extra=None):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in (extra or {}).items():
            self.send_header(name, value)
        if close:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()

    def reply(self, status, body, content_type="text/plain", extra=None):
        self.head(status, len(body), content_type, extra=extra)
        if self.command != "HEAD":
            self.wfile.write(body)

    def open(self):
        """(file, size, extra header lines), or None after a 404."""
        try:
            file = open(self.server.file_path(self.path), "rb")
        except OSError:
            self.reply(404, b"no such file\n")
            return None
        size = os.fstat(file.fileno()).st_size
        encoded = self.server.gzip_header and os.pread(file.fileno(), 2, 0) == b"\x1f\x8b"
        return file, size, {"Content-Encoding": "gzip"} if encoded else {}

    def send_file(self, file, count):
        if self.command != "HEAD" and count > 0:
            self.connection.sendfile(file, 0, count)

    def part(self, value, send_length=True, extra_length=0):
        """Serves the first `value` bytes (None: all) under a length that may be wrong or absent, and hangs up."""
        found = self.open()
        if not found:
            return
        file, size, extra = found
        with file:
            self.head(200, size + extra_length if send_length else None, close=True, extra=extra)
            self.send_file(file, size if value is None else min(int(value), size))

    def chunks(self, limit, end):
        found = self.open()
        if not found:
            return
        file, size, extra = found
        with file:
            self.head(200, close=not end, extra={**extra, "Transfer-Encoding": "chunked"})
            left = size if limit is None else min(limit, size)
            while left > 0:
                block = file.read(min(left, BLOCK))
                left -= len(block)
                # What is cut ends in the middle of a chunk.
                announced = len(block) if end or left else len(block) + 100
                self.wfile.write(b"%x\r\n" % announced + block + (b"\r\n" if end or left else b""))
            if end:
                self.wfile.write(b"0\r\n\r\n")

    def hang_up(self):
        """Closes with a reset: what the peer has not read is lost to it."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        # Both hold the socket; closed here, before the server's orderly shutdown() would send a FIN.
        self.rfile.close()
        self.connection.close()

    def wait(self, seconds):
        """False when the client went away or the server stops before the time is over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.server.stopping.is_set():
                return False
            readable, _, _ = select.select([self.connection], [], [], max(0, min(0.1, end - time.monotonic())))
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                return False
            if readable:  # a pipelined request: no client of ours sends one, so this costs only time
                time.sleep(0.01)
        return True

    # modes

    def mode_ok(self, _, tags=None):
        found = self.open()
        if found:
            file, size, extra = found
            with file:
                self.head(200, size, extra={**extra, **(tags or {})})
                self.send_file(file, size)

    def mode_etag(self, value):
        self.mode_ok(None, {"ETag": value})

    def mode_status(self, value):
        self.reply(int(value), b"told to\n" if int(value) not in (204, 304) else b"")

    def half(self):
        found = self.open()
        if found:
            file, size, extra = found
            with file:
                self.head(200, size, close=True, extra=extra)
                self.send_file(file, size // 2)
        return found

    def mode_stall(self, _):
        if self.half():
            self.wait(LONGEST_WAIT)

    def mode_drip(self, value):
        found = self.open()
        if not found:
            return
        file, size, extra = found
        seconds, _, at_once = value.partition(",")
        pause, at_once = float(seconds or 0.1), int(at_once or 1)
        with file:
            self.head(200, size, close=True, extra=extra)
            for _ in range(min(-(-size // at_once), int(LONGEST_WAIT / pause))):
                self.wfile.write(file.read(at_once))
                if not self.wait(pause):
                    break

    def mode_reset(self, _):
        if self.half():
            self.hang_up()

    def mode_refuse(self, _):
        self.hang_up()

    def mode_cut(self, value):
        self.part(value)

    def mode_short_length(self, value):
        self.part(None, extra_length=int(value))

    def mode_two_lengths(self, _):
        found = self.open()
        if found:
            file, size, extra = found
            with file:
                self.head(200, size, close=True, extra={**extra, "content-length": str(size // 2)})
                self.send_file(file, size)

    def mode_no_length(self, _):
        self.part(None, send_length=False)

    def mode_no_length_cut(self, value):
        self.part(value, send_length=False)

    def mode_chunked(self, _):
        self.chunks(None, True)

    def mode_chunked_cut(self, value):
        self.chunks(int(value), False)

    def mode_bad_gzip(self, _):
        found = self.open()
        if not found:
            return
        with found[0] as file:
            data = file.read()
        packed = bytearray(data if data[:2] == b"\x1f\x8b" else gzip.compress(data, 1))
        packed[len(packed) // 2] ^= 0x55
        self.reply(200, bytes(packed), extra={"Content-Encoding": "gzip"} if self.server.gzip_header else None)

    def mode_junk(self, _):
        self.reply(200, b"<html><body>It works!</body></html>\n" * 30, "text/html")

    def mode_other(self, value):
        self.path = "/" + value.lstrip("/")
        self.mode_ok("")

    def mode_redirect(self, value):
        self.reply(302, b"", extra={"Location": value + self.path.lstrip("/") if value.endswith("/") else value})

    def mode_redirect_loop(self, _):
        self.reply(302, b"", extra={"Location": self.path})

    def mode_slow(self, value):
        if self.wait(min(float(value), LONGEST_WAIT)):
            self.mode_ok("")
        else:
            self.close_connection = True

    def mode_hold(self, _):
        end = time.monotonic() + LONGEST_WAIT
        while self.server.holds(self.path) and time.monotonic() < end:
            if not self.wait(0.01):
                self.close_connection = True
                return
        self.mode_ok("")


class BucketServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """start() answers in threads of this process; stop() ends them, hung ones too."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, directory, port=0, gzip_header=False, auth=None):
        self.directory = os.path.realpath(directory)
        self.gzip_header = gzip_header
        self.auth = "Basic " + b64encode(auth.encode()).decode() if auth else None
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.counts, self.rules = {}, {}
        super().__init__(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"

    def start(self):
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()
        return self

    def stop(self):
        self.stopping.set()
        self.shutdown()
        self.server_close()
        self.thread.join()

    def handle_error(self, request, client_address):
        # A client that went away is what many tests are about; anything else is a defect of this file.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def control(self, path="*", mode="ok", times=None):
        name, _, value = mode.partition(":")
        if not hasattr(Handler, "mode_" + name.replace("-", "_")):
            raise ValueError(f"unknown mode {mode}")
        if name in ("status", "cut", "short-length", "no-length-cut", "chunked-cut"):
            int(value)
        elif name == "slow" or (name == "drip" and value):
            float(value.partition(",")[0])
        if times is not None and (not isinstance(times, int) or times < 1):
            raise ValueError("times is a number above 0, or null")
        with self.lock:
            self.rules[path if path == "*" else "/" + path.lstrip("/")] = [mode, times]

    def reset(self):
        with self.lock:
            self.counts, self.rules = {}, {}

    def hits(self):
        with self.lock:
            total = sum(sum(methods.values()) for methods in self.counts.values())
            return {**{path: dict(methods) for path, methods in self.counts.items()}, "total": total}

    def count(self, path, method):
        with self.lock:
            methods = self.counts.setdefault(path, {})
            methods[method] = methods.get(method, 0) + 1

    def rule_for(self, path):
        """The path of the rule that holds, or None; the lock is held."""
        plain = urllib.parse.unquote(path)
        fitting = [p for p in self.rules if p == "*" or path.startswith(p) or plain.startswith(p)]
        return max(fitting, key=lambda p: (p != "*", len(p)), default=None)

    def holds(self, path):
        with self.lock:
            chosen = self.rule_for(path)
            return chosen is not None and self.rules[chosen][0] == "hold"

    def mode_for(self, path):
        with self.lock:
            chosen = self.rule_for(path)
            if chosen is None:
                return "ok"
            mode, times = self.rules[chosen]
            if times is not None:
                self.rules[chosen][1] = times - 1
                if times == 1:
                    del self.rules[chosen]
            return mode

    def file_path(self, path):
        parts = [urllib.parse.unquote(p, errors="surrogateescape") for p in path.split("?")[0].split("/")[1:]]
        if any(p in ("", ".", "..") or "/" in p or "\0" in p for p in parts):
            raise FileNotFoundError(path)
        return os.path.join(self.directory, *parts)


def fork(arguments, log):
    """Starts a server whose output goes to the end of a file; returns the process id."""
    pid = os.fork()
    if pid:
        return pid
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # when this process ends
    with open(os.devnull, "rb") as nothing, open(log, "ab") as out:
        for own, other in enumerate((nothing, out, out)):
            os.dup2(other.fileno(), own)
    try:
        serve(arguments)
    except BaseException:
        traceback.print_exc()
    os._exit(0)


def serve_many():
    """Tests start hundreds of servers, and Python takes longer to start than all that most of them do."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # of a terminal: no traceback
    for line in sys.stdin:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        print(fork(*json.loads(line)), flush=True)


def serve(arguments):
    parser = argparse.ArgumentParser(description="A test bucket that misbehaves when told to.")
    parser.add_argument("directory")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--gzip-header", action="store_true")
    parser.add_argument("--auth", metavar="USER:PASSWORD")
    args = parser.parse_args(arguments)
    server = BucketServer(args.directory, args.port, args.gzip_header, args.auth)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    server.start()
    print(f"ready {server.url}", flush=True)
    ended.wait()
    server.stop()


if __name__ == "__main__":
    if sys.argv[1:] == ["--many"]:
        serve_many()
    else:
        serve(sys.argv[1:])
