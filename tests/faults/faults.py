"""The faults: each a function that brings one about, holds it and takes it back."""

import collections
import contextlib
import os
import resource
import signal
import time

from load import SAMPLE_MODULE
from stack import tail, wait_for
from symbols import sym_name

# false_ok: `false` is a right answer while it lasts. cut_ok: replies may be cut that were in flight at a KILL, or WHILE it lasts.
# excused: statuses that are no answer and right while it lasts, as are replies that were cut twice.
# bound: seconds until answers must be right again. refused: the share of requests that may be. short: part of the short form.
Fault = collections.namedtuple("Fault", "name inject bound false_ok cut_ok excused refused short")

KILL, WHILE = "kill", "while"
HARDLY, ANY = 0.01, 1.0  # refusals: where nobody has to be refused, on a busy machine; where nothing else is possible
FAILURE_MEMORY = 2.0  # seconds: failure_ttl_max of the configuration
BRIEF, MEMORY, LOADER = 2.0, FAILURE_MEMORY + 2.0, 5.0
HELD = "x" * 100_000  # filling of a small memcached


# memcached


def kill_one(number):
    def inject(w, seconds):
        server = w.memcached[number]
        server.kill()
        w.hold(seconds)
        server.start()

    return inject


def stop_one(number):
    def inject(w, seconds):
        seen = w.growth("symbolicated_memcached_breaker_open_total")
        with w.memcached[number].suspended():
            w.hold(seconds, seen)

    return inject


def stop_both(w, seconds):
    with w.memcached[0].suspended(), w.memcached[1].suspended():
        w.hold(seconds)


def restart_each(w, _seconds):
    for server in w.memcached:
        server.stop()
        server.start()


def flush(w, seconds):
    for _ in w.repeat(seconds, 0.3):
        for server in w.memcached:
            with server.raw() as raw:
                raw.flush()


def fill(w, seconds):
    """So small that everything is evicted soon."""
    resize(w, 8)
    for _ in w.repeat(seconds, 0.2):
        for server in w.memcached:
            with server.raw() as raw:
                for i in range(60):
                    raw.set(f"other{i}", HELD.encode())
    resize(w, w.memory)


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


def misbehave(mode, both):
    def inject(w, seconds):
        buckets = w.buckets if both else w.buckets[:1]
        for bucket in buckets:
            bucket.control(mode)
        try:
            w.hold(seconds)
        finally:
            for bucket in buckets:
                bucket.reset()

    return inject


def gone(w, seconds):
    """The process stands still: connections are accepted by the kernel and nothing comes."""
    w.buckets[0].signal(signal.SIGSTOP)
    try:
        w.hold(seconds)
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
        wait_for(lambda: w.stopping.is_set() or w.load.oldest() > whole, "requests that saw the other one die", 30)
        wait_for(lambda: w.stopping.is_set() or w.load.asks("profile"), "a large request", 30, 0.002)
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
    w.daemons[0].signal(signal.SIGSTOP)
    try:
        w.hold(3.0)
    finally:
        w.daemons[0].signal(signal.SIGCONT)


def reload_nginx(w, seconds):
    for _ in w.repeat(seconds, 1.0):
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
        wait_for(lambda: w.clock_is_off(offset), f"a log line of a clock that is {offset} off", 10)

    return inject


def descriptors(w, seconds):
    """A few more than are open: the process can take hardly anything new."""
    pid = w.daemons[0].process.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    few = len(os.listdir(f"/proc/{pid}/fd")) + 3
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (few, hard))
    try:
        w.hold(seconds)
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


# disks


def full(folder):
    """What is in the small file system of that name finds no room."""

    def inject(w, seconds):
        with w.full_disk(folder):
            w.hold(seconds)

    return inject


def all_faults():
    out = []

    def add(name, inject, bound=BRIEF, false_ok=False, cut_ok=None, excused=(), refused=HARDLY, short=True):
        out.append(Fault(name, inject, bound, false_ok, cut_ok, excused, refused, short))

    add("memcached-kill-a", kill_one(0))
    add("memcached-kill-b", kill_one(1), short=False)
    add("memcached-stop-a", stop_one(0))
    add("memcached-stop-b", stop_one(1), short=False)
    add("memcached-stop-both", stop_both, short=False)
    add("memcached-restart", restart_each)
    add("memcached-flush", flush)
    add("memcached-fill", fill)
    add("memcached-corrupt", corrupt)

    modes = [
        ("stall", "stall", "first", False), ("drip", "drip:1", "", False), ("refuse", "refuse", "both", False), ("reset", "reset", "first", False),
        ("403", "status:403", "", True), ("404", "status:404", "both", True), ("429", "status:429", "", False), ("500", "status:500", "first", False),
        ("503", "status:503", "both", False), ("cut", "cut:60", "both", False), ("short-length", "short-length:100", "first", False),
        ("two-lengths", "two-lengths", "", False), ("bad-gzip", "bad-gzip", "first", False), ("redirect-loop", "redirect-loop", "first", False),
    ]  # fmt: skip
    for name, mode, short, missing in modes:
        add(f"bucket-{name}", misbehave(mode, False), MEMORY, short=short == "first")
        add(f"buckets-{name}", misbehave(mode, True), MEMORY, missing, refused=HARDLY if missing else ANY, short=short == "both")
    # A file that is there and cannot be used is the answer: no other source is asked.
    other = "other:" + "/".join((*SAMPLE_MODULE, sym_name(SAMPLE_MODULE[0])))
    add("bucket-other-file", misbehave(other, False), MEMORY, True)
    add("buckets-other-file", misbehave(other, True), MEMORY, True, short=False)
    add("bucket-gone", gone, MEMORY, short=False)

    add("responder-term", terminate)
    add("responder-kill", kill, LOADER, cut_ok=KILL)
    add("responder-kill-load", kill_loader, LOADER, cut_ok=KILL)
    add("responder-stop", suspend)
    add("nginx-reload", reload_nginx)
    add("file-changed", change_file)
    add("clock+1h", step_clock(3600))
    add("clock-1h", step_clock(-3600))
    add("descriptors", descriptors, refused=ANY)
    add("disk-full-store", full("store"), refused=ANY)
    # nginx can neither take a large body (500) nor keep a large reply for a slow client (cut).
    add("disk-full-nginx", full("nginx"), cut_ok=WHILE, excused=(500,), refused=ANY)
    return out
