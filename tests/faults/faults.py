# SPDX-License-Identifier: Apache-2.0
"""The faults: each a function that brings one about, holds it and takes it back."""

import collections
import contextlib
import errno
import os
import resource
import signal
import time

from load import SAMPLE_MODULE
from stack import tail, wait_for
from s3_world import all_s3_faults
from store_faults import add_store_faults
from symbols import sym_name
from world import says

# false_ok: `false` is a right answer while it lasts. cut_ok: replies may be cut that were in flight at a kill.
# excused: statuses that are no answer and right while it lasts.
# bound: seconds until answers must be right again. refused: the share of requests that may be. short: part of the short form.
Fault = collections.namedtuple("Fault", "name inject bound false_ok cut_ok excused refused short")

HARDLY, ANY = 0.02, 1.0  # refusals: where nobody has to be refused, on a busy machine; where nothing else is possible
FAILURE_MEMORY = 2.0  # seconds: failure_ttl_max of the configuration
BRIEF, MEMORY, LOADER = 2.0, FAILURE_MEMORY + 2.0, 5.0
HELD = "x" * 100_000  # filling of a small memcached


# memcached


def kill_one(number):
    def inject(w, seconds):
        server, seen = w.memcached[number], w.growth("symbolicated_memcached_errors_total")
        server.kill()
        try:
            w.hold(seconds, seen)
        finally:
            server.start()

    return inject


def stop_one(number):
    def inject(w, seconds):
        seen = w.growth("symbolicated_memcached_errors_total")
        with w.memcached[number].suspended():
            w.hold(seconds, seen)

    return inject


def stop_both(w, seconds):
    seen = w.growth("symbolicated_memcached_errors_total")
    with w.memcached[0].suspended(), w.memcached[1].suspended():
        w.hold(seconds, seen)


def restart_each(w, _seconds):
    seen = w.growth("symbolicated_memcached_errors_total")
    for server in w.memcached:
        server.signal(signal.SIGTERM)  # it ends within a second, and answers nobody meanwhile
        server.wait()
        server.start()
    w.hold(0, seen)


def flush(w, seconds):
    for _ in w.repeat(seconds, 0.3, w.growth("symbolicated_page_reloads_total")):
        for server in w.memcached:
            with server.raw() as raw:
                raw.set("mark", b"1")
                raw.flush()
                assert raw.get("mark") is None, "a flush left a value behind"


def fill(w, seconds):
    """So small that everything is evicted soon."""
    resize(w, 8)
    try:
        for _ in w.repeat(seconds, 0.2, lambda: all(evictions(server) for server in w.memcached)):
            for server in w.memcached:
                with server.raw() as raw:
                    for i in range(60):
                        raw.set(f"other{i}", HELD.encode())
    finally:
        resize(w, w.memory)


def evictions(server):
    with server.raw() as raw:
        return int(raw.stats()["evictions"])


def resize(w, memory):
    for server in w.memcached:
        server.stop()
        server.memory = memory
        server.start()


def corrupt(w, seconds):
    """One bit of each value, wherever in it."""
    for _ in w.repeat(seconds, 0.2, w.growth("symbolicated_pages_invalid_total")):
        for server in w.memcached:
            with server.raw() as raw:
                for key, expiry in list(raw.dump_keys().items())[:2000]:
                    spoil(raw, key, expiry, w.rng)


def spoil(raw, key, expiry, rng):
    """It expires as it did: a lease must end."""
    value = bytearray(raw.get(key) or b"")
    if value:
        value[rng.randrange(len(value))] ^= 1 << rng.randrange(8)
        raw.set(key, bytes(value), expiry)


# buckets


def misbehave(mode, outcome, both):
    """outcome: what symbolicated says of transfers from such a bucket."""

    def inject(w, seconds):
        buckets, ended = w.buckets if both else w.buckets[:1], w.transfers(outcome)
        for bucket in buckets:
            bucket.control(mode)
        # A file that is there and cannot be used is the answer: no other source is asked.
        asked = [has_asked(bucket) for bucket in (buckets[:1] if outcome == "corrupt" else buckets)]
        try:
            w.hold(seconds, lambda: ended() and all(seen() for seen in asked))
        finally:
            for bucket in buckets:
                bucket.reset()

    return inject


def has_asked(bucket):
    """Whether a bucket was asked since now."""
    before = bucket.hits()
    return lambda: bucket.hits() > before


def gone(w, seconds):
    """The process stands still: connections are accepted by the kernel and nothing comes."""
    seen = w.transfers("failed")
    w.buckets[0].freeze()
    try:
        w.hold(seconds, seen)
    finally:
        w.buckets[0].signal(signal.SIGCONT)


# responders


def terminate(w, seconds):
    """One after the other, as an administrator restarts them."""
    for daemon in w.daemons:
        daemon.terminate()
        assert daemon.wait() == 0, f"{daemon.name} did not end well\n{tail(daemon.log)}"
        daemon.check()
        w.hold(seconds / 2)
        daemon.start()


def kill(w, seconds):
    """The one and the other in turn, at moments when a large reply is being written; no request sees two of them die."""
    whole = 0.0  # since when both run
    for i in range(2 + int(seconds * 2)):
        wait_for(lambda: w.stopping.is_set() or w.load.oldest() > whole, "requests that saw the other one die")
        wait_for(lambda: w.stopping.is_set() or w.load.asks("profile"), "a large request", pause=0.002)
        w.hold(w.rng.uniform(0, 0.06))
        w.crash(w.daemons[i % 2])
        w.hold(w.rng.uniform(0, 0.5))
        w.daemons[i % 2].start()
        whole = time.monotonic()


def kill_loader(w, seconds):
    """Loads take long, so that the process which dies has leases; the other has to wait for their end."""
    with slow_buckets(w):
        w.hold(1.0)
        w.crash(w.daemons[0])
        w.hold(min(seconds, 1.0))
    w.daemons[0].start()


@contextlib.contextmanager
def slow_buckets(w):
    for bucket in w.buckets:
        bucket.control("slow:0.7")
    try:
        yield
    finally:
        for bucket in w.buckets:
            bucket.reset()


def suspend(w, _seconds):
    w.daemons[0].freeze()
    stopped = time.monotonic()
    try:
        w.hold(3.0, lambda: w.load.oldest() < stopped + 1.0)
    finally:
        w.daemons[0].signal(signal.SIGCONT)


def reload_nginx(w, seconds):
    for _ in w.repeat(seconds, 1.0, says(w.nginx.error_log, "gracefully shutting down")):
        w.nginx.signal(signal.SIGHUP)


def change_file(w, seconds):
    for _ in w.repeat(seconds, 0.4):
        w.load.changing.replace(w.delete)
    # Then a responder that was not told by DELETE must find out by itself.
    w.hold(w.load.changing.bound + 1.0)


def step_clock(offset):
    def inject(w, seconds):
        w.step_clock(offset)
        w.hold(seconds)
        wait_for(lambda: w.clock_is_off(offset), f"a log line of a clock that is {offset} off")

    return inject


def descriptors(w, seconds):
    """A few more than are open: the process can take hardly anything new."""
    pid, seen = w.daemons[0].process.pid, says(w.daemons[0].log, os.strerror(errno.EMFILE))
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    few = len(os.listdir(f"/proc/{pid}/fd")) + 3
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (few, hard))
    try:
        w.hold(seconds, seen)
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


# disks


def full_store(w, seconds):
    seen = w.growth('symbolicated_uploads_total{outcome="failed"}')
    with w.full_disk("store"):
        w.hold(seconds, seen)


def full_nginx(w, seconds):
    seen = says(w.nginx.error_log, w.no_room("nginx"))
    with w.full_disk("nginx"):
        w.hold(seconds, seen)


def adder():
    out = []

    def add(name, inject, bound=BRIEF, false_ok=False, cut_ok=False, excused=(), refused=HARDLY, short=True):
        out.append(Fault(name, inject, bound, false_ok, cut_ok, excused, refused, short))

    return out, add


def all_store_faults_in_s3():
    out, add = adder()
    all_s3_faults(add, LOADER)
    add("disk-full-store", full_store, refused=ANY)
    return out


def all_faults():
    out, add = adder()
    add("memcached-kill-a", kill_one(0))
    add("memcached-kill-b", kill_one(1), short=False)
    add("memcached-stop-a", stop_one(0))
    add("memcached-stop-b", stop_one(1), short=False)
    add("memcached-stop-both", stop_both, short=False)
    add("memcached-restart", restart_each)
    add("memcached-flush", flush)
    add("memcached-fill", fill)
    add("memcached-corrupt", corrupt)

    # name, mode, outcome of its transfers, which of the two is part of the short form
    modes = [
        ("stall", "stall", "failed", "first"), ("drip", "drip:1", "failed", ""), ("refuse", "refuse", "failed", "both"),
        ("reset", "reset", "failed", "first"), ("403", "status:403", "missing", ""), ("404", "status:404", "missing", "both"),
        ("429", "status:429", "failed", ""), ("500", "status:500", "failed", "first"), ("503", "status:503", "failed", "both"),
        ("cut", "cut:60", "failed", "both"), ("short-length", "short-length:100", "failed", "first"),
        ("two-lengths", "two-lengths", "failed", ""),
        ("redirect-loop", "redirect-loop", "failed", "first"),
    ]  # fmt: skip
    for name, mode, outcome, short in modes:
        missing = outcome == "missing"
        add(f"bucket-{name}", misbehave(mode, outcome, False), MEMORY, short=short == "first")
        add(f"buckets-{name}", misbehave(mode, outcome, True), MEMORY, missing, refused=HARDLY if missing else ANY, short=short == "both")
    other = "other:" + "/".join((*SAMPLE_MODULE, sym_name(SAMPLE_MODULE[0])))
    add("bucket-other-file", misbehave(other, "corrupt", False), MEMORY, True)
    add("buckets-other-file", misbehave(other, "corrupt", True), MEMORY, True, short=False)
    # Whole as it is stored, and broken inside.
    add("bucket-bad-gzip", misbehave("bad-gzip", "corrupt", False), MEMORY, True)
    add("buckets-bad-gzip", misbehave("bad-gzip", "corrupt", True), MEMORY, True, short=False)
    add("bucket-gone", gone, MEMORY, short=False)

    add("responder-term", terminate)
    add("responder-kill", kill, LOADER, cut_ok=True)
    add("responder-kill-load", kill_loader, LOADER, cut_ok=True)
    add("responder-stop", suspend)
    add("nginx-reload", reload_nginx)
    add("file-changed", change_file)
    add("clock+1h", step_clock(3600))
    add("clock-1h", step_clock(-3600))
    add("descriptors", descriptors, refused=ANY)
    add("disk-full-store", full_store, refused=ANY)
    add_store_faults(add, LOADER)
    # nginx cannot take a large body.
    add("disk-full-nginx", full_nginx, excused=(500,), refused=ANY)
    return out
