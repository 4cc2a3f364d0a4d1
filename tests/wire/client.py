# SPDX-License-Identifier: Apache-2.0
"""A small HTTP client that shows everything of a reply, and the shapes of requests."""

import gzip
import http.client
import json
import socket
import ssl


def job(modules, *stacks):
    return {"memoryMap": [list(m) for m in modules], "stacks": [[list(f) for f in stack] for stack in stacks]}


class Reply:
    def __init__(self, status, headers, raw):
        self.status, self.headers, self.raw = status, headers, raw

    @property
    def body(self):
        """The bytes, inflated when they came as gzip."""
        if self.headers.get("Content-Encoding") == "gzip":
            return gzip.decompress(self.raw)
        return self.raw

    @property
    def text(self):
        return self.body.decode("utf-8")  # strict: a reply that is no UTF-8 is a defect

    def json(self):
        kind = self.headers.get("Content-Type", "")
        assert kind.split(";")[0].strip() == "application/json", f"{self.status} {kind}: {self.raw[:200]!r}"
        return json.loads(self.text)

    def error(self, status):
        """The object of an error reply, whose shape is the same for every one of them."""
        assert self.status == status, f"{self.status}: {self.raw[:500]!r}"
        value = self.json()
        assert {"error", "title", "status"} <= value.keys(), value
        assert value["status"] == status and value["error"] and value["title"], value
        assert isinstance(value["error"], str) and isinstance(value["title"], str)
        assert self.headers.get("Access-Control-Allow-Origin") == "*"
        return value

    def __repr__(self):
        return f"<Reply {self.status} {self.raw[:300]!r}>"


class Client:
    """keep=True holds one connection open; such a client belongs to one thread."""

    def __init__(self, port, tls=False, keep=False, timeout=90, host="127.0.0.1"):
        self.port, self.tls, self.keep, self.timeout, self.host = port, tls, keep, timeout, host
        self.connection = None

    def connect(self):
        if not self.tls:
            return http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the certificate is made for the test and signed by itself
        return http.client.HTTPSConnection(self.host, self.port, timeout=self.timeout, context=context)

    def request(self, method, path, body=None, headers=None):
        if isinstance(body, str):
            body = body.encode()
        connection = self.connection or self.connect()
        try:
            try:
                connection.request(method, path, body, headers or {})
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before the body was sent: the reply is there all the same
            reply = connection.getresponse()
            raw = reply.read()
        except BaseException:
            connection.close()
            self.connection = None
            raise
        if self.keep:
            self.connection = connection
        else:
            connection.close()
        return Reply(reply.status, reply.headers, raw)

    def close(self):
        if self.connection:
            self.connection.close()
            self.connection = None

    def get(self, path, **headers):
        return self.request("GET", path, headers=spelled(headers))

    def post(self, path, value, **headers):
        """value: bytes or text as they are, anything else as JSON."""
        if not isinstance(value, (bytes, str)):
            value = json.dumps(value)
        return self.request("POST", path, value, spelled(headers))

    def v5(self, value, **headers):
        reply = self.post("/symbolicate/v5", value, **headers)
        assert reply.status == 200, reply
        return reply.json()

    def v4(self, value, **headers):
        reply = self.post("/symbolicate/v4", value, **headers)
        assert reply.status == 200, reply
        return reply.json()

    def frames(self, module, offsets):
        """The v5 frames of one module at these offsets."""
        return self.v5(job([module], [[0, o] for o in offsets]))["results"][0]["stacks"][0]

    def found(self, module, offset=0x1000):
        """What found_modules says of a module that a frame refers to."""
        result = self.v5(job([module], [[0, offset]]))["results"][0]
        return result["found_modules"][f"{module[0]}/{module[1]}"]


def spelled(headers):
    """Accept_Encoding="gzip" stands for the header Accept-Encoding."""
    return {name.replace("_", "-"): value for name, value in headers.items()}


def raw_exchange(port, data, timeout=60):
    """Sends bytes as they are and reads to the end: for requests that no client library would send."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as s:
        s.sendall(data)
        parts = []
        while True:
            part = s.recv(65536)
            if not part:
                return b"".join(parts)
            parts.append(part)


def raw_status(answer):
    assert answer.startswith(b"HTTP/1."), answer[:200]
    return int(answer.split(b" ", 2)[1])
