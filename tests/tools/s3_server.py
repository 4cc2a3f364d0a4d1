#!/usr/bin/env python3
"""An S3 server for the tests: versitygw over a directory, whose subdirectories are the buckets and files in them the objects.

    s3_server.py DIRECTORY [--port 0] [--access NAME] [--secret TEXT]

It listens on 127.0.0.1 and runs until SIGTERM. Keys by default: tester, and the secret that is printed. Buckets are also at
http://BUCKET.s3.localhost:PORT/. What the server knows besides of objects is in meta-of-DIRECTORY beside it.

The program is built once, from the released Go module that is pinned below, into $XDG_CACHE_HOME/symbolicated, or else into
build/cache; nothing is installed on the system. That needs Go of the version below, and the network or a filled module cache.
"""

import argparse
import fcntl
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys

MODULE = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
GO = (1, 25)
BOUND = 900  # seconds that building may take
DOMAIN = "s3.localhost"  # names below localhost are loopback for curl
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Unavailable(Exception):
    """There is no server to be had here; the text says why."""


def cache_directory():
    base = os.environ.get("XDG_CACHE_HOME")
    return os.path.join(base, "symbolicated") if base else os.path.join(ROOT, "build", "cache")


def go_program():
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if not go:
        raise Unavailable("there is no Go to build its server with")
    text = subprocess.run([go, "version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"go(\d+)\.(\d+)", text)
    if not found or tuple(map(int, found.groups())) < GO:
        raise Unavailable(f"its server needs Go {GO[0]}.{GO[1]}, and here is {text.strip() or 'none that runs'}")
    return go


def build(directory, target):
    """In a folder of its own, which goes again: the program is all that is kept. Not optimised, which would be a third of
    the time."""
    work = os.path.join(directory, "go")
    environment = {
        **os.environ,
        "GOPATH": os.path.join(work, "path"),
        "GOBIN": work,
        "GOCACHE": os.path.join(work, "cache"),
        "GOFLAGS": "-mod=mod -modcacherw",
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
    }
    environment.pop("GOMODCACHE", None)
    os.makedirs(work, exist_ok=True)
    print(f"building {MODULE}", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            [go_program(), "install", "-p", "2", "-gcflags=all=-N -l", "-ldflags=-s -w", MODULE],
            env=environment, cwd=work, capture_output=True, text=True, timeout=BOUND, check=False,
        )  # fmt: skip
        if done.returncode:
            raise Unavailable(f"its server cannot be built: {done.stderr.strip().splitlines()[-1:]}")
        os.replace(os.path.join(work, "versitygw"), target)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"its server was not built within {BOUND} s") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def program():
    """The path of the server, built when it is not there yet. Raises Unavailable."""
    directory = cache_directory()
    target = os.path.join(directory, MODULE.rsplit("/", 1)[1])
    os.makedirs(directory, exist_ok=True)
    with open(target + ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.access(target, os.X_OK):
            build(directory, target)
    return target


def command(path, directory, port, access, secret):
    """How the server is run. Nothing is kept in extended attributes, which not every file system has."""
    parent, name = os.path.split(os.path.abspath(directory))
    meta = os.path.join(parent, "meta-of-" + name)
    os.makedirs(directory, exist_ok=True)
    os.makedirs(meta, exist_ok=True)
    return [
        path, "--port", f"127.0.0.1:{port}", "--access", access, "--secret", secret, "--keep-alive",
        "--virtual-domain", f"{DOMAIN}:{port}", "posix", "--sidecar", meta, os.path.abspath(directory),
    ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--access", default="tester")
    parser.add_argument("--secret", default=secrets.token_hex(16))
    given = parser.parse_args()
    try:
        path = program()
    except Unavailable as e:
        sys.exit(f"s3_server: no S3 server: {e}")
    port = given.port
    if not port:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
    print(f"http://127.0.0.1:{port}/ access {given.access} secret {given.secret}", flush=True)
    os.execv(path, command(path, given.directory, port, given.access, given.secret))


if __name__ == "__main__":
    main()
