#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An S3 server for the tests: versitygw over a directory, whose subdirectories are the buckets and files in them the objects.

    s3_server.py DIRECTORY [--port 0] [--access NAME] [--secret TEXT]
    s3_server.py --build                                                    only builds it

It listens on 127.0.0.1 and runs until SIGTERM. Keys by default: tester, and the secret that is printed. Buckets are also at
http://BUCKET.s3.localhost:PORT/. What the server knows besides of objects is in meta-of-DIRECTORY beside it.

The program is built once, from the released Go module that is pinned below, into $XDG_CACHE_HOME/symbolicated, or else into
build/cache; nothing is installed on the system. That needs Go, and the network or a filled module cache. A Go that is too old for the
module fetches a newer one through the module proxy first, which goes again with the rest.
"""

import argparse
import fcntl
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys

MODULE, VERSION = "github.com/versity/versitygw", "v1.8.0"
GO = (1, 25)
TOOLCHAIN = "golang.org/toolchain@v0.0.1-go1.25.5"  # for a Go older than that
BOUND = 900  # seconds that building may take
# In place of its own tests, and of what it can also do with Azure and with message queues: a third of the time would go to them.
COMMAND = 'import "github.com/urfave/cli/v2"; func {name}() *cli.Command {{ return &cli.Command{{Name: "{name}"}} }}\n'
SENDER = "func Init{name}EventService({arguments} string, _ EventFilter) (S3EventSender, error) {{ return nil, nil }}\n"
UNUSED = {
    "cmd/versitygw/test.go": "package main; " + COMMAND.format(name="testCommand"),
    "cmd/internal/gwcli/azure.go": "package gwcli; " + COMMAND.format(name="AzureCommand"),
    "s3event/kafka.go": 'package s3event; func genSequencer() string { return "" }; ' + SENDER.format(name="Kafka", arguments="_, _, _"),
    "s3event/nats.go": "package s3event; " + SENDER.format(name="Nats", arguments="_, _"),
    "s3event/rabbitmq.go": "package s3event; " + SENDER.format(name="Rabbitmq", arguments="_, _, _"),
}
DOMAIN = "s3.localhost"  # names below localhost are loopback for curl
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Unavailable(Exception):
    """There is no server to be had here; the text says why."""


def cache_directory():
    base = os.environ.get("XDG_CACHE_HOME")
    return os.path.join(base, "symbolicated") if base else os.path.join(ROOT, "build", "cache")


def go_version(go):
    """The Go that this one is, as (1, 25), and its own words."""
    text = subprocess.run([go, "version"], capture_output=True, text=True, check=False).stdout.strip()
    found = re.search(r"go(\d+)\.(\d+)", text)
    if not found:
        raise Unavailable(f"its server needs Go, and {go} does not run")
    return tuple(map(int, found.groups())), text


def download(go, module, work, environment):
    """Where a module is, once it is here; None: it cannot be fetched."""
    done = subprocess.run([go, "mod", "download", "-json", module], env=environment, cwd=work, capture_output=True, text=True, timeout=BOUND, check=False)
    return json.loads(done.stdout)["Dir"] if done.returncode == 0 else None


def fetch_toolchain(go, work, environment):
    """A newer Go than this one; returns its program. Modules have neither programs nor go.mod files of other modules in them, so
    a toolchain's come without the right to be run and under other names."""
    platform = subprocess.run([go, "env", "GOHOSTOS", "GOHOSTARCH"], capture_output=True, text=True, check=True).stdout.split()
    print(f"fetching {TOOLCHAIN}", file=sys.stderr, flush=True)
    top = download(go, f"{TOOLCHAIN}.{'-'.join(platform)}", work, environment)
    if not top:
        raise Unavailable(f"its server needs Go {GO[0]}.{GO[1]}, here is {go_version(go)[1]}, and a newer one cannot be fetched")
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if name == "_go.mod":
                os.rename(path, os.path.join(folder, "go.mod"))
            elif folder == os.path.join(top, "bin") or folder.startswith(os.path.join(top, "pkg", "tool")):
                os.chmod(path, 0o755)
    return os.path.join(top, "bin", "go")


def find_go(work, environment):
    """A Go that the module can be built with."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if not go:
        raise Unavailable("there is no Go to build its server with")
    return go if go_version(go)[0] >= GO else fetch_toolchain(go, work, environment)


def build(directory, target):
    """In a folder of its own, which goes again: the program is all that is kept. Not optimised, which would be a third of
    the time."""
    work = os.path.join(directory, "go")
    environment = {
        **os.environ,
        "GOPATH": os.path.join(work, "path"),
        "GOCACHE": os.path.join(work, "cache"),
        "GOFLAGS": "-mod=mod -modcacherw",
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
        "GOGC": "400",
    }
    for name in ("GOMODCACHE", "GOROOT"):
        environment.pop(name, None)
    shutil.rmtree(work, ignore_errors=True)  # of a process that was killed
    os.makedirs(work)
    try:
        go = find_go(work, environment)
        print(f"building {MODULE}", file=sys.stderr, flush=True)
        source = download(go, f"{MODULE}@{VERSION}", work, environment)
        if not source:
            raise Unavailable("its server cannot be fetched")
        source = shutil.copytree(source, os.path.join(work, "source"))
        for path, text in UNUSED.items():
            with open(os.path.join(source, path), "w", encoding="utf-8") as f:
                f.write(text)
        done = subprocess.run(
            [go, "build", "-p", "2", "-gcflags=all=-N -l -dwarf=false", "-ldflags=-s -w", "-o", target + ".new", "./cmd/versitygw"],
            env=environment, cwd=source, capture_output=True, text=True, timeout=BOUND, check=False,
        )  # fmt: skip
        if done.returncode:
            raise Unavailable(f"its server cannot be built: {done.stderr.strip().splitlines()[-1:]}")
        os.replace(target + ".new", target)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"its server was not built within {BOUND} s") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def program():
    """The path of the server, built when it is not there yet. Raises Unavailable."""
    directory = cache_directory()
    target = os.path.join(directory, f"versitygw@{VERSION}")
    os.makedirs(directory, exist_ok=True)
    with open(target + ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.access(target, os.X_OK):
            build(directory, target)
    return target


def command(path, directory, port, access, secret, address="127.0.0.1"):
    """How the server is run; it names each request on standard output. Nothing is kept in extended attributes, which not every file system has."""
    parent, name = os.path.split(os.path.abspath(directory))
    meta = os.path.join(parent, "meta-of-" + name)
    os.makedirs(directory, exist_ok=True)
    os.makedirs(meta, exist_ok=True)
    return [
        path, "--port", f"{address}:{port}", "--access", access, "--secret", secret, "--keep-alive",
        "--virtual-domain", f"{DOMAIN}:{port}", "posix", "--sidecar", meta, os.path.abspath(directory),
    ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--access", default="tester")
    parser.add_argument("--secret", default=secrets.token_hex(16))
    given = parser.parse_args()
    if given.build == (given.directory is not None):
        parser.error("a directory, or --build")
    try:
        path = program()
    except Unavailable as e:
        sys.exit(f"s3_server: no S3 server: {e}")
    if given.build:
        return
    port = given.port
    if not port:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
    print(f"http://127.0.0.1:{port}/ access {given.access} secret {given.secret}", flush=True)
    os.execv(path, command(path, given.directory, port, given.access, given.secret))


if __name__ == "__main__":
    main()
