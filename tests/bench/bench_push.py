#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long `symbtool push-symbols` takes to bring symbol files through the server into a real S3 server, beside a client that puts the
same files there itself, and how many requests S3 gets for each.

    tests/bench/bench_push.py [--build build] [--files 500] [--megabytes 1000] [--rounds 3] [--quick] [--json]

The peer is `aws s3 cp --recursive` where that is installed, else curl, which signs too. Its files are the same ones, as they lie in the
tree. A second row has gzip files: there nobody packs anything, and both move the same bytes. A third has gzip files that name their code
file, as those of Windows do: each is two objects, for S3 finds an object by one name only. Rounds alternate; the figure is the best of
each. --json: as bench.py reads it. docs/measurements.md says more."""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tests", "wire"))
from s3 import ACCESS, BUCKET, S3, SECRET, s3_server  # noqa: E402
import stack  # noqa: E402
from stack import Stack  # noqa: E402
from symbols import debug_id, module_line  # noqa: E402

MEGABYTE = 1_000_000
BOUND = 600  # seconds for one push
TIMES = 1.3  # at most, of the peer's
REQUESTS = {"plain": 1.1, "gzip": 1.1, "gzip, code id": 2.1}  # at most, a file
PARALLEL = 2


def make_tree(place, files, size, kind):
    """Symbol files of a program each, with names and lines that compress as real ones do."""
    chance = random.Random(1)
    words = [chance.choice(("mozilla", "std", "dom", "layers", "detail")) + "::" + f"{chance.randrange(1 << 40):x}" for _ in range(4000)]
    lines, at, length = [], 0x1000, 0
    while length < size:
        line = f"FUNC {at:x} 40 0 {chance.choice(words)}::{chance.choice(words)}(int, char const*)\n"
        line += "".join(f"{at + 8 * n:x} 8 {chance.randrange(3000)} {chance.randrange(1000)}\n" for n in range(8))
        lines.append(line)
        length += len(line)
        at += 64
    for i in range(files):
        name = f"lib{i}.so"
        folder = os.path.join(place, name, debug_id(name))
        os.makedirs(folder)
        # each file has an order of its own, so that no two are alike
        first = chance.randrange(len(lines))
        code_id = f"INFO CODE_ID 5CF2591C{i:x}000 lib{i}.dll\n" if "code id" in kind else ""
        text = module_line(name, debug_id(name)) + (code_id + "".join(lines[first:] + lines[:first])).encode()
        path = os.path.join(folder, f"{name}.sym")
        with open(path, "wb") as out:
            out.write(text)
        if "gzip" in kind:
            subprocess.run(["gzip", "-1", path], check=True)


def timed(command, environment=None):
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, env={**os.environ, **(environment or {})}, check=False)
    if done.returncode:
        sys.exit(f"bench_push: {' '.join(command[:3])}: {done.returncode}: {done.stderr[-500:]}")
    return time.monotonic() - started


def peer_command(server, tree, prefix, place):
    url = f"http://127.0.0.1:{server.port}"
    if shutil.which("aws"):
        return ["aws", "--endpoint-url", url, "--no-progress", "s3", "cp", "--recursive", "--only-show-errors", tree, f"s3://{BUCKET}/{prefix}"]
    config = os.path.join(place, "curl")
    with open(config, "w", encoding="ascii") as out:
        for folder, _, names in os.walk(tree):
            for name in names:
                path = os.path.join(folder, name)
                out.write(f'upload-file = "{path}"\nurl = "{url}/{BUCKET}/{prefix}/{os.path.relpath(path, tree)}"\noutput = "/dev/null"\n')
    return ["curl", "-sSf", "-Z", "--parallel-max", "10", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{ACCESS}:{SECRET}", "-K", config]


class Requests:
    """What the S3 server has been asked, by its log: it names each on standard output."""

    def __init__(self, server):
        self.path = server.log
        self.at = os.path.getsize(self.path)

    def count(self):
        with open(self.path, "rb") as f:
            f.seek(self.at)
            return sum(b" PUT " in line or b" POST " in line or b" GET " in line or b" HEAD " in line or b" DELETE " in line or b"| PUT" in line
                       for line in f.read().splitlines())  # fmt: skip


def measure(given, place, kind):
    tree = os.path.join(place, "tree")
    make_tree(tree, given.files, given.megabytes * MEGABYTE // given.files, kind)
    server = S3(place, s3_server.program())
    server.start()
    keys = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
    settings = {**server.settings(), "s3_credentials_file": server.credentials(), "sym_store": f"s3://{BUCKET}/ours", "log_level": "info"}
    ours, peer, asked = [], [], 0
    try:
        with Stack(keys=True, bucket=False, config=settings) as s:
            url = f"http://127.0.0.1:{s.node.nginx.port}"
            push = [os.path.join(given.build, "symbtool"), "push-symbols", "--json", "--parallel", str(PARALLEL), "-r", "--url", url, "--api-key", s.key, tree]
            for n in range(given.rounds):
                requests = Requests(server)
                ours.append(timed(push))
                asked = requests.count()
                peer.append(timed(peer_command(server, tree, f"peer{n}", place), keys))
    finally:
        server.stop()
    shutil.rmtree(tree)
    return {"files": kind, "ours": min(ours), "peer": min(peer), "times": min(ours) / min(peer), "requests": asked / given.files,
            "rounds": [a / b for a, b in zip(ours, peer)]}  # fmt: skip


def as_lines(given, rows, peer):
    """What bench.py reads."""
    lines = []
    for r in rows:
        kind, comma, rest = r["files"].partition(", ")
        files = f"{kind} files{comma and ' with a '}{rest}"
        if r["requests"] > REQUESTS[r["files"]]:
            sys.exit(f"bench_push: {r['requests']:.2f} requests to S3 for each of {files}")
        lines.append({"line": f"push of {given.files} {files}", "figure": r["times"], "min": min(r["rounds"]), "max": max(r["rounds"]), "n": len(r["rounds"]), "unit": f"x {peer}", "target": f"<= {TIMES}",
                      "ours": f"{r['ours']:.3g}", "against": f"{r['peer']:.3g} s", "short": f"Push of {given.files} {files}",
                      "note": f"{given.megabytes} MB; {r['requests']:.2f} requests to S3 a file"})  # fmt: skip
    return {"lines": lines}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--quick", action="store_true", help="20 files of 20 MB, one round")
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    given.build = os.path.abspath(given.build)
    stack.DAEMON[:] = [os.path.join(given.build, "symbolicated")]
    stack.KEYS_TOOL[:] = [stack.DAEMON[0] + "-keys"]
    if given.quick:
        given.files, given.megabytes, given.rounds = 20, 20, 1
    rows = []
    for kind in REQUESTS:
        with tempfile.TemporaryDirectory() as place:
            os.chmod(place, 0o755)
            rows.append(measure(given, place, kind))
    peer = "aws s3 cp" if shutil.which("aws") else "curl"
    good = all(r["times"] <= TIMES and r["requests"] <= REQUESTS[r["files"]] for r in rows)
    if given.json:
        print(json.dumps(as_lines(given, rows, peer)))
        return 0
    print(f"| {given.files} files, {given.megabytes} MB | symbtool, s | {peer}, s | times (≤ {TIMES}) | requests to S3 a file | at most |\n|---|---|---|---|---|---|")
    for r in rows:
        print(f"| {r['files']} | {r['ours']:.1f} | {r['peer']:.1f} | {r['times']:.2f} | {r['requests']:.3f} | {REQUESTS[r['files']]} |")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
