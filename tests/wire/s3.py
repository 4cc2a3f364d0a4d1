"""A real S3 server on loopback for the tests, and one that looks at signatures with its own eyes."""

import hashlib
import hmac
import os
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from stack import Server, connects, free_port
from symbols import TOOLS, Symbols

sys.path.insert(0, TOOLS)
import s3_server  # noqa: E402

ACCESS, SECRET = "tester", "a/secret+with=letters"
BUCKET = "symbols"


def program_or_skip():
    try:
        return s3_server.program()
    except s3_server.Unavailable as e:
        pytest.skip(f"THE S3 TESTS ARE SKIPPED: {e}")


class S3(Server):
    def __init__(self, directory, program):
        super().__init__("versitygw", str(directory))
        self.program, self.port = program, None
        self.root = os.path.join(self.directory, "buckets")
        os.makedirs(os.path.join(self.root, BUCKET))

    def start(self, port=None):
        self.port = port or free_port()
        self.spawn(s3_server.command(self.program, self.root, self.port, ACCESS, SECRET))
        self.ready(lambda: connects(self.port))

    def symbols(self, prefix):
        """The symbol files below a prefix of the bucket."""
        return Symbols(os.path.join(self.root, BUCKET, prefix))

    def settings(self, addressing="path"):
        host = f"127.0.0.1:{self.port}" if addressing == "path" else f"{s3_server.DOMAIN}:{self.port}"
        return {"s3_endpoint": f"http://{host}", "s3_addressing": addressing}

    def credentials(self, name="credentials", secret=SECRET, profile="default", access=ACCESS):
        """A file of keys; returns its path."""
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(f"[unused]\naws_access_key_id = x\n\n[{profile}]\n")
            out.write(f"aws_access_key_id = {access}\naws_secret_access_key = {secret}\n")
        return path


def signature(method, target, headers, secret, region):
    """The signature that a request should have: AWS Signature Version 4, from its specification alone."""
    fields = dict(f.strip().split("=", 1) for f in headers["Authorization"].split(" ", 1)[1].split(","))
    path, _, query = target.partition("?")
    pairs = sorted(
        (urllib.parse.quote(k, safe="-._~"), urllib.parse.quote(v, safe="-._~"))
        for k, v in urllib.parse.parse_qsl(query, keep_blank_values=True)
    )
    signed = fields["SignedHeaders"].split(";")
    canonical = "\n".join([
        method,
        urllib.parse.quote(urllib.parse.unquote(path, errors="surrogateescape"), safe="/-._~", errors="surrogateescape"),
        "&".join(f"{k}={v}" for k, v in pairs),
        *(f"{name}:{' '.join(headers[name].split())}" for name in signed),
        "",
        fields["SignedHeaders"],
        headers["x-amz-content-sha256"],
    ])  # fmt: skip
    date = headers["x-amz-date"]
    scope = f"{date[:8]}/{region}/s3/aws4_request"
    assert fields["Credential"].split("/", 1)[1] == scope
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in (date[:8], region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return signed, fields["Signature"], hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Watcher:
    """A server that gives one object to every request, or an error, and keeps what it was asked."""

    def __init__(self, body=b"", status=200, headers=()):
        watcher = self
        self.requests = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                watcher.requests.append((self.command, self.path, self.headers))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                for name, value in headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
