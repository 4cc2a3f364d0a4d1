# SPDX-License-Identifier: Apache-2.0
"""A FastCGI responder that does as the header `Do` of the request says, so that nginx's side can be seen by itself.

    Do: echo          (the default) what arrived, as JSON: {"params": {...}, "body": LENGTH}
    Do: size:N        200 with N bytes
    Do: status:N      that status, with headers and a body of the responder's own
    Do: silence       no answer until nginx closes the connection
    Do: hang-up       ends the connection without an answer
"""

import json
import os
import socketserver
import struct
import threading

BEGIN, ABORT, END, PARAMS, STDIN, STDOUT = 1, 2, 3, 4, 5, 6
KEEP_CONN = 1


def read_pairs(data):
    """Name-value pairs: lengths of one byte, or of four with the high bit set."""
    pairs, at = {}, 0

    def length():
        nonlocal at
        size, step = data[at], 1
        if size & 0x80:
            size, step = struct.unpack_from(">I", data, at)[0] & 0x7FFFFFFF, 4
        at += step
        return size

    while at < len(data):
        name, value = length(), length()
        pairs[data[at : at + name].decode()] = data[at + name : at + name + value].decode("utf-8", "replace")
        at += name + value
    return pairs


class Handler(socketserver.StreamRequestHandler):
    timeout = 60

    def handle(self):
        with self.server.lock:
            self.server.connections += 1
        try:
            while self.one_request():
                pass
        except (OSError, EOFError):
            pass

    def record(self):
        head = self.rfile.read(8)
        if len(head) < 8:
            raise EOFError
        _, kind, ident, size, padding = struct.unpack(">BBHHBx", head)
        return kind, ident, self.rfile.read(size + padding)[:size]

    def one_request(self):
        """True when nginx may send another request on this connection."""
        kind, ident, data = self.record()
        if kind != BEGIN:
            raise EOFError
        keep = data[2] & KEEP_CONN
        streams = {PARAMS: bytearray(), STDIN: bytearray()}
        open_streams = {PARAMS, STDIN}
        while open_streams:
            kind, _, data = self.record()
            streams[kind] += data
            if not data:
                open_streams.discard(kind)
        with self.server.lock:
            self.server.requests += 1
        return self.answer(ident, read_pairs(bytes(streams[PARAMS])), len(streams[STDIN])) and bool(keep)

    def answer(self, ident, params, body):
        what, _, value = params.get("HTTP_DO", "echo").partition(":")
        if what == "hang-up":
            return False
        if what == "silence":
            self.rfile.read(1)  # nginx closes, or the timeout of this side ends it
            return False
        if what == "size":
            self.reply(ident, 200, b"x" * int(value))
        elif what == "status":
            self.reply(ident, int(value), json.dumps({"from": "responder"}).encode(), "Retry-After: 77\r\nAllow: NOTHING\r\n")
        else:
            self.reply(ident, 200, json.dumps({"params": params, "body": body}).encode())
        return True

    def reply(self, ident, status, body, extra=""):
        head = f"Status: {status} Said\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        head += f"Access-Control-Allow-Origin: *\r\nX-Request-Id: from-responder\r\n{extra}\r\n"
        data = memoryview(head.encode() + body)
        for at in range(0, len(data), 65528):
            part = data[at : at + 65528]
            self.wfile.write(struct.pack(">BBHHBx", 1, STDOUT, ident, len(part), 0))
            self.wfile.write(part)
        self.wfile.write(struct.pack(">BBHHBx", 1, STDOUT, ident, 0, 0))
        self.wfile.write(struct.pack(">BBHHBx", 1, END, ident, 8, 0) + bytes(8))
        self.wfile.flush()
        with self.server.lock:
            self.server.finished += 1


class Responder(socketserver.ThreadingUnixStreamServer):
    """One responder on a unix socket, on threads of this process."""

    daemon_threads = True
    request_queue_size = 4096

    def __init__(self, path):
        self.lock = threading.Lock()
        self.connections = self.requests = self.finished = 0
        super().__init__(path, Handler)
        os.chmod(path, 0o666)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self):
        path = self.server_address
        self.shutdown()
        self.server_close()
        os.remove(path)
