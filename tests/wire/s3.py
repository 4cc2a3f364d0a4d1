# SPDX-License-Identifier: Apache-2.0
"""A real S3 server on loopback for the tests, and one that looks at signatures with its own eyes."""

import datetime
import hashlib
import hmac
import json
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


def program_or_fail():
    try:
        return s3_server.program()
    except s3_server.Unavailable as e:
        pytest.fail(f"no S3 server: {e}")


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


class KeyServices:
    """What gives keys for a time, in one server: a machine's metadata service (IMDSv2 alone), a container's agent at
    /agent, and the token service of web identities at /sts. Keys are (ACCESS, SECRET, token-N), N counting those given."""

    TOKEN = "session/token+=="  # that the metadata service wants to see, and the agent in Authorization
    IDENTITY = "identity.token-" + "x" * 3000  # that the token service wants to see
    ROLE, ARN = "role name", "arn:aws:iam::1:role/symbols+"

    def __init__(self, seconds=3600):
        services = self
        self.seconds, self.given, self.asked, self.status = seconds, 0, [], 200

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def send(self, status, text):
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def keys(self):
                services.given += 1
                end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=services.seconds)
                return f"token-{services.given}", end.strftime("%Y-%m-%dT%H:%M:%SZ")

            def json_keys(self):
                token, end = self.keys()
                self.send(200, json.dumps({"Code": "Success", "AccessKeyId": ACCESS, "SecretAccessKey": SECRET, "Token": token, "Expiration": end}))

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                services.asked.append((self.command, self.path))
                role = "/latest/meta-data/iam/security-credentials/"
                if services.status != 200:
                    self.send(services.status, SECRET)
                elif (self.command, self.path) == ("PUT", "/latest/api/token"):
                    ttl = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "0")
                    self.send(200 if 0 < int(ttl) <= 21600 else 400, services.TOKEN)
                elif self.path.startswith(role) and self.headers.get("X-aws-ec2-metadata-token") != services.TOKEN:
                    self.send(401, "")
                elif self.path == role:
                    self.send(200, services.ROLE + "\n")
                elif self.path == role + urllib.parse.quote(services.ROLE):
                    self.json_keys()
                elif self.path == "/agent":
                    self.json_keys() if self.headers.get("Authorization") == services.TOKEN else self.send(401, "")
                elif (self.command, self.path) == ("POST", "/sts") and self.headers["Content-Type"] == "application/x-www-form-urlencoded":
                    form = dict(urllib.parse.parse_qsl(body))
                    wanted = {
                        "Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleArn": services.ARN,
                        "RoleSessionName": "symbolicated", "WebIdentityToken": services.IDENTITY,
                    }  # fmt: skip
                    if form != wanted:
                        return self.send(400, "<ErrorResponse><Error><Code>InvalidIdentityToken</Code></Error></ErrorResponse>")
                    token, end = self.keys()
                    self.send(200, f"""<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
                        <AssumeRoleWithWebIdentityResult><AssumedRoleUser><Arn>{services.ARN}</Arn></AssumedRoleUser><Credentials>
                        <SessionToken>{token}</SessionToken><SecretAccessKey>{SECRET}</SecretAccessKey><Expiration>{end}</Expiration>
                        <AccessKeyId>{ACCESS}</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult>
                        </AssumeRoleWithWebIdentityResponse>""")
                else:
                    self.send(404, "")

            do_GET = do_PUT = do_POST = answer

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def environment(self, kind, directory):
        """The variables that lead to this server, with their files, and settings."""
        for name, text in (("authorization", self.TOKEN), ("identity", self.IDENTITY)):
            with open(os.path.join(directory, name), "w", encoding="utf-8") as out:
                out.write(text + "\n")
        return {
            "instance": ({"AWS_EC2_METADATA_SERVICE_ENDPOINT": self.url + "/"}, {"s3_instance_keys": "yes"}),
            "container": (
                {
                    "AWS_CONTAINER_CREDENTIALS_FULL_URI": self.url + "/agent",
                    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": os.path.join(directory, "authorization"),
                },
                {},
            ),
            "web identity": (
                {
                    "AWS_ENDPOINT_URL_STS": self.url + "/sts",
                    "AWS_ROLE_ARN": self.ARN,
                    "AWS_WEB_IDENTITY_TOKEN_FILE": os.path.join(directory, "identity"),
                },
                {},
            ),
        }[kind]

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
