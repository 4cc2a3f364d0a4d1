# SPDX-License-Identifier: Apache-2.0
"""The world of the fault tests with its uploads in a real S3 server, behind a network that can be bad: answers come late or are 503 of a
gateway, and listings lack what has just been stored. And the faults of that."""

import http.client
import os
import re
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import s3_server
from s3 import ACCESS, BUCKET, SECRET, S3
from stack import free_port
from store_faults import Executable, add_store_faults, together
from world import World

FORWARDED = {"date", "last-modified", "etag", "content-type", "content-range", "accept-ranges"}
UNAVAILABLE = b"<Error><Code>ServiceUnavailable</Code><Message>from the gateway</Message></Error>"


class Gate:
    """Passes requests to the S3 server. late: seconds that each answer takes more; every: each so many-th one is 503, and never reaches
    the server; hide: seconds after a PUT until listings have the object."""

    def __init__(self, server):
        gate = self
        self.server, self.late, self.every, self.hide, self.refused, self.hidden = server, 0.0, 0, 0.0, 0, 0
        self.lock, self.count, self.stored = threading.Lock(), 0, {}

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if gate.refuses():
                    return self.reply(503, {}, UNAVAILABLE)
                time.sleep(gate.late)
                # the Host that was signed goes on as it came
                upstream = http.client.HTTPConnection("127.0.0.1", gate.server.port, timeout=30)
                try:
                    upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                    for name, value in self.headers.items():
                        if name.lower() != "connection":
                            upstream.putheader(name, value)
                    upstream.endheaders(body)
                    got = upstream.getresponse()
                    data = got.read()
                except (OSError, http.client.HTTPException):
                    return self.reply(502, {}, b"")
                finally:
                    upstream.close()
                if self.command == "PUT" and got.status == 200:
                    gate.stored[urllib.parse.unquote(self.path.split("?")[0]).split("/", 2)[-1]] = time.monotonic()
                if "list-type=2" in self.path and gate.hide:
                    data = gate.without_new(data)
                self.reply(got.status, {k: v for k, v in got.getheaders() if k.lower() in FORWARDED}, data)

            def reply(self, status, headers, data):
                self.send_response_only(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

        class Quiet(ThreadingHTTPServer):
            request_queue_size = 128

            def handle_error(self, *args):
                """A responder that was killed, or has waited long enough, takes no answer."""

        self.http = Quiet(("127.0.0.1", free_port()), Handler)
        self.port = self.http.server_port
        self.thread = threading.Thread(target=self.http.serve_forever)
        self.thread.start()

    def refuses(self):
        with self.lock:
            self.count += 1
            refused = bool(self.every) and self.count % self.every == 0
            self.refused += refused
            return refused

    def without_new(self, xml):
        def kept(found):
            key = re.search(rb"<Key>([^<]*)</Key>", found.group(0)).group(1).decode()
            new = time.monotonic() - self.stored.get(key, 0.0) < self.hide
            self.hidden += new
            return b"" if new else found.group(0)

        return re.sub(rb"<Contents>.*?</Contents>", kept, xml, flags=re.S)

    def good(self):
        self.late = self.every = self.hide = 0

    def close(self):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


class S3World(World):
    """Its file system of uploads is the S3 server's."""

    clock_unit = 1.1

    def store_settings(self):
        self.s3 = S3(os.path.join(self.directory), s3_server.program())
        self.s3.root = os.path.join(self.directory, "store")
        os.makedirs(os.path.join(self.s3.root, BUCKET))
        self.s3.start()
        self.gate = Gate(self.s3)
        credentials = os.path.join(self.directory, "credentials")
        with open(credentials, "w", encoding="utf-8") as out:
            out.write(f"[default]\naws_access_key_id = {ACCESS}\naws_secret_access_key = {SECRET}\n")
        os.chmod(credentials, 0o644)
        return {"symbfile_store": f"s3://{BUCKET}/uploads", "s3_endpoint": f"http://127.0.0.1:{self.gate.port}", "s3_credentials_file": credentials}

    def servers(self):
        return [*super().servers(), *([self.s3] if hasattr(self, "s3") else [])]

    def stop(self):
        problems = super().stop()
        if hasattr(self, "gate"):
            self.gate.close()
        return problems


def push_while(**bad):
    """Two push one executable each way while the gate is bad; afterwards every set that was accepted is whole, and the newest answers."""

    def inject(w, seconds):
        pushed = []
        try:
            for name, value in bad.items():
                setattr(w.gate, name, value)
            for _ in w.repeat(seconds, 0):
                one = Executable(w)
                together(lambda x=one: x.push("left"), lambda x=one: x.push("right"))
                pushed.append(one)
            did = w.gate.refused if "every" in bad else w.gate.hidden if "hide" in bad else 1
            assert did, "nothing came of the fault"
            if "hide" in bad:
                w.hold(bad["hide"])
        finally:
            w.gate.good()
        for one in pushed:
            one.ends_in(["left", "right"])
            one.push("after")
            one.ends_in(["after"])

    return inject


def all_s3_faults(add_to, loader):
    """add_to: as in faults.py."""
    add_to("s3-late", push_while(late=0.3), refused=1.0)
    add_to("s3-503", push_while(every=3), refused=1.0)
    # what no listing has yet is not to be had
    add_to("s3-lists-late", push_while(hide=1.5), loader, false_ok=True, refused=1.0)
    add_store_faults(add_to, loader)
