# SPDX-License-Identifier: Apache-2.0
"""memcached through two stunnels, with the files of docs/hosts.md but for addresses and paths."""

import os
import re
import secrets
import shutil

import pytest

from client import job
from stack import ROOT, Memcached, Server, Stack, connects, free_port
from symbols import SAMPLE, SAMPLE_FRAMES

STUNNEL = os.environ.get("STUNNEL") or shutil.which("stunnel4") or shutil.which("stunnel")

pytestmark = pytest.mark.skipif(not STUNNEL, reason="stunnel4 is not installed")


class Stunnel(Server):
    def start(self, config, port):
        path = os.path.join(self.directory, self.name + ".conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write("foreground = yes\n" + config)
        self.spawn([STUNNEL, path])
        self.ready(lambda: self.process.poll() is None and connects(("127.0.0.1", port)))


def documented(directory, memcached, between, client):
    """The files of the memcached host and of an application host."""
    with open(os.path.join(ROOT, "docs", "hosts.md"), encoding="utf-8") as f:
        blocks = re.findall(r"(?m)(?:^    .*\n)+", f.read().partition("For **TLS**, symbolicated talks to a stunnel")[2])
    assert len(blocks) >= 2
    out = []
    for block in blocks[:2]:
        text = block.replace("/etc/stunnel", directory).replace("/run", directory)
        for written, port in (("10.0.0.21:11212", between), ("127.0.0.1:11211", memcached), ("127.0.0.1:11311", client)):
            text = text.replace(written, f"127.0.0.1:{port}")
        out.append(re.sub("(?m)^    ", "", text))
    return out


def test_a_restarted_process_has_its_maps_from_memcached_through_stunnel(tmp_path):
    place = str(tmp_path)
    memcached = Memcached("memcached", place, 64, ("127.0.0.1", free_port()))
    between, client = free_port(), free_port()
    with open(os.path.join(place, "psk"), "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
        f.write(f"memcached:{secrets.token_hex(32)}\n")
    tunnels = [Stunnel(name, place) for name in ("stunnel-server", "stunnel-client")]
    try:
        memcached.start()
        for tunnel, config, port in zip(tunnels, documented(place, memcached.address[1], between, client), (between, client)):
            tunnel.start(config, port)
        with Stack(memcached=0, config={"memcached": f"127.0.0.1:{client}"}) as s:
            module = s.symbols.add("tunnelled.so", SAMPLE)
            asked = job([module], [[0, 0x1000]])

            def answer():
                return s.client.v5(asked)["results"][0]["stacks"][0][0].get("function")

            assert answer() == SAMPLE_FRAMES[0x1000]["function"]
            s.node.settled()
            s.node.restart()
            assert answer() == SAMPLE_FRAMES[0x1000]["function"]
            metrics = s.node.metrics()
            assert metrics["symbolicated_loads_total"] == 0 and metrics["symbolicated_memcached_errors_total"] == 0
            assert s.bucket.hits(module) == 1
    finally:
        for server in (*reversed(tunnels), memcached):
            if server.process is not None:
                server.kill()
