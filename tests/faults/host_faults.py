# SPDX-License-Identifier: Apache-2.0
"""What happens to several hosts: as faults.py, but with hosts.py's world."""

import base64
import contextlib
import os
import secrets
import threading
import time

from client import job
from faults import ANY, BRIEF, HARDLY, LOADER, MEMORY, Fault, kill_one, restart_each, stop_one
from plain_symbfile import write
from stack import another_version, wait_for
from symbols import debug_id, tiny
from world import REVALIDATE, says

CLIENTS, MODULES = 16, 24


def function(host, module):
    """The name that a host has for the only function of a tiny module."""
    return host.client().frames(module, [0x1000])[0].get("function")


# nothing fails


def one_load(w, _seconds):
    """Many clients ask both hosts for the same modules, which nobody has asked for: each file is fetched once, or once by each host
    where the other's page was not there yet."""
    modules = [w.load.fresh_tiny(w.rng).module for _ in range(MODULES)]
    body, together, wrong = job(modules, [[i, 0x1000] for i in range(MODULES)]), threading.Barrier(CLIENTS), []

    def ask(host):
        together.wait()
        frames = host.client().v5(body)["results"][0]["stacks"][0]
        wrong.extend(f for f, m in zip(frames, modules) if f.get("function") != f"f_{m[0]}")

    threads = [threading.Thread(target=ask, args=(w.hosts[i % 2],)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not wrong, f"{len(wrong)} wrong frames, the first: {wrong[0]}"
    wait_for(lambda: all(w.s3.gets(m) for m in modules), "all requests in the log of the S3 server")
    often = [gets for gets in map(w.s3.gets, modules) if gets > len(w.hosts)]
    assert not often, f"{len(often)} of {MODULES} modules were fetched more than once by each host"


def upload_here_ask_there(w, seconds):
    for i, _ in enumerate(w.repeat(seconds, 0.05)):
        here, there = w.hosts[i % 2], w.hosts[1 - i % 2]
        raw = secrets.token_bytes(16)
        name = f"up_{raw.hex()[:12]}"
        body = write([{"t": "range", "va": "0x1000", "len": 64, "depth": 0, "func": name, "file": "/a.c", "lines": [[0, 10]]}])
        headers = {"FileID": base64.urlsafe_b64encode(raw).decode().rstrip("="), "FilePart": "0", "FileParts": "1", "Authorization": w.key}
        reply = here.client().request("POST", "/api/symbols-ranges", body, headers)
        assert reply.status == 200, reply
        assert function(there, ["prog", raw.hex().upper()]) == name, f"{there.name} does not know what {here.name} took"


def delete_here_ask_there(w, seconds):
    """A request that begins when `revalidate_after` is over, and half a second for what is under way, has the new file."""
    module = w.load.fresh_tiny(w.rng).module
    for i, _ in enumerate(w.repeat(seconds, 0.05)):
        here, there = w.hosts[i % 2], w.hosts[1 - i % 2]
        assert function(there, module)
        w.load.put(module, tiny(f"version_{i}"))
        reply = here.client().request("DELETE", f"/cache/{module[0]}/{module[1]}", headers={"Authorization": w.key})
        assert reply.status == 200, reply
        until = time.monotonic() + REVALIDATE + 0.5
        while (start := time.monotonic()) < until + 0.1:
            if function(there, module) == f"version_{i}":
                break
            assert start < until, f"{there.name} has not obeyed a DELETE to {here.name}"
            w.hold(0.02)


# hosts


def switch_off(number):
    """No packet comes from it any more: nobody is told."""

    def inject(w, seconds):
        host, before = w.hosts[number], time.monotonic()
        host.host.cut_off()
        host.kill()
        w.kills.append((before, time.monotonic()))
        w.balancer.wait_until(host.name, up=False)
        w.hold(seconds)
        host.host.connect()
        host.start()
        w.balancer.wait_until(host.name, up=True)

    return inject


def kill_all_of_one(w, seconds):
    """The kernel of the host lives, and says so."""
    host, before = w.hosts[0], time.monotonic()
    host.kill()
    w.kills.append((before, time.monotonic()))
    w.balancer.wait_until(host.name, up=False)
    w.hold(seconds)
    host.start()
    w.balancer.wait_until(host.name, up=True)


def kill_responder(w, seconds):
    """nginx lives and says 502, until its responder is there again."""
    host = w.hosts[1]
    w.crash(host.daemon)
    w.balancer.wait_until(host.name, up=False)
    w.hold(seconds)
    host.daemon.start()
    w.balancer.wait_until(host.name, up=True)


def slow_links(w, seconds):
    host = w.hosts[0].host
    host.shape(["delay", "30ms", "rate", "20mbit"], ["rate", "20mbit", "burst", "32kb", "latency", "400ms"])
    try:
        w.hold(seconds)
    finally:
        host.shape()


def unplug(name):
    """A memcached, or the S3 server."""

    def inject(w, seconds):
        seen = w.transfers("failed") if name == "s3" else w.growth("symbolicated_memcached_errors_total")
        w.network[name].cut_off()
        try:
            w.hold(seconds, seen)
        finally:
            w.network[name].connect()

    return inject


@contextlib.contextmanager
def apart(pairs):
    for one, other in pairs:
        one.lose(other)
        other.lose(one)
    try:
        yield
    finally:
        for one, other in pairs:
            one.find(other)
            other.find(one)


def split(w, seconds):
    """Each application host sees one memcached, the balancer and S3; nobody on the other side."""
    n, seen = w.network, w.growth("symbolicated_memcached_errors_total")
    with apart([(n["a"], n["b"]), (n["a"], n["m1"]), (n["b"], n["m0"]), (n["m0"], n["m1"])]):
        w.hold(seconds, seen)


# what administrators do


@contextlib.contextmanager
def drained(w, host):
    """The balancer sends nothing more to this host, and what it had in hand is answered."""
    with open(host.drain_file, "w", encoding="ascii"):
        pass
    w.balancer.wait_until(host.name, up=False)
    wait_for(lambda: host.metrics()["symbolicated_requests_in_flight"] <= 1, "the last requests", 60)  # one is the one that asks
    before = host.requests()
    yield
    assert host.requests() <= before, f"{host.name} was drained, and has got {host.requests() - before:.0f} requests"
    os.remove(host.drain_file)
    w.balancer.wait_until(host.name, up=True)
    after = host.requests()
    wait_for(lambda: host.requests() > after, f"requests for {host.name} again")


def drain(w, seconds):
    for host in w.hosts:
        with drained(w, host):
            w.hold(seconds)
            host.stop()
            host.start()


def upgrade(w, seconds):
    """Host by host to a version whose pages have another format, and back."""
    ours = w.daemons[0].program
    for program in (another_version(), ours):
        for host in w.hosts:
            with drained(w, host):
                host.daemon.program = program
                host.daemon.stop()
                host.daemon.start()
            w.hold(seconds)


def new_secret(w, seconds):
    """Host by host: those with the old one and those with the new one load for themselves, and hear each other's DELETE."""
    path = w.file("secret-2", secrets.token_hex(32))
    for host in w.hosts:
        with drained(w, host):
            host.daemon.settings["memcached_secret_file"] = path
            host.daemon.stop()
            host.daemon.start()
        delete_here_ask_there(w, seconds)


def clocks_apart(w, seconds):
    """The first host's is an hour ahead of all others. S3 believes no signature of that hour: the host signs by the clock of S3."""

    def loaded():
        return w.hosts[0].metrics()['symbolicated_downloads_total{outcome="ok"}']

    try:
        w.step_clock(3600)
        wait_for(lambda: w.clock_is_off(3600), "a log line of a clock that is an hour ahead")
        before = loaded()
        w.hold(seconds, lambda: loaded() > before)
    finally:
        w.step_clock(0)
        wait_for(lambda: w.clock_is_off(0), "a log line of a clock that is right again")


def all_host_faults():
    out = []

    def add(name, inject, bound=BRIEF, cut_ok=False, refused=HARDLY):
        out.append(Fault(name, inject, bound, False, cut_ok, (), refused, True))

    add("one-load", one_load)
    add("upload-here-ask-there", upload_here_ask_there)
    add("delete-here-ask-there", delete_here_ask_there)
    add("host-off-a", switch_off(0), LOADER, True)
    add("host-off-b", switch_off(1), LOADER, True)
    add("host-killed", kill_all_of_one, LOADER, True)
    add("responder-killed", kill_responder, LOADER, True)
    add("host-slow-links", slow_links)
    add("memcached-kill", kill_one(0))
    add("memcached-hang", stop_one(1))
    add("memcached-empty", restart_each)
    add("memcached-off", unplug("m0"))
    add("s3-off", unplug("s3"), MEMORY, refused=ANY)
    add("split", split)
    add("drain", drain)
    add("upgrade", upgrade)
    add("new-secret", new_secret)
    add("clock+1h", clocks_apart)
    return out
