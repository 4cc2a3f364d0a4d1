# SPDX-License-Identifier: Apache-2.0
"""Another server of /symbolicate/v5 that runs already, measured with the same requests: PEER=http://127.0.0.1:PORT[/PATH].

It has to read one bucket. Either it is configured with the URL that the benchmark prints (PEER_BUCKET_PORT, by default 18123),
or with a directory, PEER_BUCKET=DIR, into which the benchmark links the files. PEER_RESTART=COMMAND restarts it.
"""

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

from inputs import Failure, body_of, http_request, job_of, records_of
from report import Value

READY_BOUND = 600  # seconds until somebody has configured it
BUCKET_PORT = 18123
FIELDS = ("function", "file", "line")


def answer(url, body, bound=120):
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=bound) as reply:
        return json.loads(reply.read())


def frames(reply):
    """Of each frame what a reader looks at; several jobs one after the other."""
    for result in reply.get("results", [reply]):
        for stack in result["stacks"]:
            for frame in stack:
                yield tuple(frame.get(name) for name in FIELDS)


class Peer:
    def __init__(self, url, directory, restart):
        found = urllib.parse.urlsplit(url)
        if found.scheme != "http" or found.hostname not in ("127.0.0.1", "localhost") or not found.port:
            raise SystemExit(f"PEER is {url}; it must be http://127.0.0.1:PORT, with a path before /symbolicate/v5 if there is one")
        self.port, self.path = found.port, found.path.rstrip("/") + "/symbolicate/v5"
        self.url = f"http://127.0.0.1:{self.port}{self.path}"
        self.directory, self.restart_command = directory, restart
        self.name = f"127.0.0.1:{self.port}"
        self.compared = {}

    @classmethod
    def of_environment(cls):
        return cls(os.environ["PEER"], os.environ.get("PEER_BUCKET"), os.environ.get("PEER_RESTART")) if os.environ.get("PEER") else None

    @property
    def far(self):
        """Can its bucket be put far away?"""
        return not self.directory

    def give(self, source):
        """The files below source, where the peer looks for them."""
        for place, _, files in os.walk(source) if self.directory else ():
            to = os.path.join(self.directory, os.path.relpath(place, source))
            os.makedirs(to, exist_ok=True)
            for name in files:
                target = os.path.join(to, name)
                if os.path.exists(target):
                    continue
                try:
                    os.link(os.path.join(place, name), target)
                except OSError:
                    shutil.copyfile(os.path.join(place, name), target)

    def wait(self, bucket_url, module, offsets):
        """Until it finds a module of the bucket."""
        print(f"the peer {self.url} must read the bucket {self.directory or bucket_url}; waiting for its answer about {'/'.join(module)}", flush=True)
        end, said = time.monotonic() + READY_BOUND, "nothing"
        while time.monotonic() < end:
            try:
                reply = answer(self.url, body_of(job_of([module], [offsets])))
                if all(name for name, *_ in frames(reply)):
                    return
                said = json.dumps(reply)[:300]
            except (OSError, ValueError, KeyError) as e:
                said = str(e)
            time.sleep(1)
        raise Failure(f"the peer did not find it in {READY_BOUND} s: {said}")

    def restart(self):
        """Returns once it accepts connections again."""
        if not self.restart_command:
            raise Failure("PEER_RESTART is not set")
        subprocess.run(["/bin/sh", "-c", self.restart_command], check=True, timeout=60, stdout=subprocess.DEVNULL)

    def requests(self, path, out):
        """A file for the load client, for the peer's own path."""
        with open(out, "wb") as f:
            for _, body in records_of(path):
                f.write(http_request(body, path=self.path))
        return out

    def compare(self, what, own_url, bodies):
        """Asks both; keeps how many frames are equal."""
        same = total = 0
        first = ""
        for body in bodies:
            own, other = list(frames(answer(own_url, body))), list(frames(answer(self.url, body)))
            if len(own) != len(other):
                raise Failure(f"{what}: the peer answered {len(other)} frames of {len(own)}")
            for a, b in zip(own, other):
                total += 1
                same += a == b
                if a != b and not first:
                    first = f"; ours {a}, the peer's {b}"
        self.compared[what] = f"{what}: {same} of {total} frames equal{first}"

    def said(self):
        return "; ".join(self.compared.values())


def peer_text(name, value):
    return f"{name}: {value}" if isinstance(value, (Value, str)) else ""
