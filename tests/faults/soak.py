# SPDX-License-Identifier: Apache-2.0
"""The load without any fault for a long time: answers, resident memory, descriptors, threads and files. The clocks run 48 times as fast as
those of the defaults, so an hour does to them what two days do: memories end, maps are loaded again, and each of these hours, which are
75 s, keys change, and all read their settings again."""

import collections
import os
import signal
import time

from stack import children
from world import is_sanitized, resident

SPEED = 48  # the settings below are the defaults, so many times as fast or faster
SETTINGS = {
    "revalidate_after": "100ms",
    "missing_ttl": "1s",
    "corrupt_ttl": "1s",
    "failure_ttl_min": "20ms",
    "failure_ttl_max": "200ms",
    "root_max_age": "30m",
    "finish_after": "600ms",
}
HOUR = 3600 / SPEED  # seconds
LONG = 20  # minutes: before, connections to memcached are still opened for the first time
REST = 8  # seconds without requests, when nginx's connections have ended
POINTS = 20  # of the curve
REFUSED = 0.001  # of all: nothing is wrong with any part, so hardly anybody is refused, even on a busy machine
HOUR_LONG = 60  # minutes: from then on, what loads take and give back is even
# How much larger memory of the last third may be than that of the one before: in an hour, and in less, where it goes up and down by 4 %.
MORE, MORE_SHORT, ROOM_SHORT = 1.01, 1.03, 4 << 20
GROWING = ("symbols0", "symbols1", "store")  # folders of what the load makes


class Point:
    """How things stand at a time: bytes of all responders; {name: count} of descriptors, threads and files."""

    def __init__(self, world, seconds):
        self.seconds = seconds
        self.memory = sum(resident(d.process.pid) for d in world.daemons)
        self.counts = {}
        for server in world.daemons:
            self.count(server.name, [server.process.pid])
        pid = world.nginx.process.pid
        self.count("nginx", [pid, *children(pid)])
        self.counts["files"] = files_of(world.directory)

    def count(self, name, pids):
        for what, folder in (("descriptors", "fd"), ("threads", "task")):
            self.counts[f"{what} of {name}"] = sum(entries(f"/proc/{pid}/{folder}") for pid in pids)


def entries(folder):
    """0: it is gone by now."""
    try:
        return len(os.listdir(folder))
    except OSError:
        return 0


def files_of(directory):
    total = 0
    for path, folders, names in os.walk(directory):
        if path == directory:
            folders[:] = [name for name in folders if name not in GROWING]
        total += len(names)
    return total


class Hours:
    """What administrators do meanwhile: another key, then the responders and nginx read their settings again."""

    def __init__(self, world, load):
        self.world, self.load, self.due, self.count, self.begin = world, load, HOUR, 0, time.monotonic()

    def seconds(self):
        return time.monotonic() - self.begin

    def look(self):
        if self.seconds() < self.due:
            return
        self.due += HOUR
        self.count += 1
        # the one before may be in use until the responders know the new one: it goes an hour later
        with open(self.world.keys_file, encoding="utf-8") as f:
            kept = f.readlines()[-1:]
        with open(self.world.keys_file + ".new", "w", encoding="utf-8") as out:
            os.fchmod(out.fileno(), 0o600)
            out.writelines(kept)
        os.replace(self.world.keys_file + ".new", self.world.keys_file)
        key = self.world.make_key(f"hour{self.count}")
        reloads = [d.reloads_since() for d in self.world.daemons]
        for server in [*self.world.daemons, self.world.nginx]:
            server.signal(signal.SIGHUP)
        for done in reloads:
            self.world.until(done, "the settings to be read again")
        self.load.key = key


def sample(world, minutes, check, hours):
    """A Point each second; what goes wrong meanwhile ends it."""
    points, problems = [], []
    while not problems and hours.seconds() < minutes * 60 and not world.stopping.wait(1):
        points.append(Point(world, hours.seconds()))
        problems = check()
        hours.look()
    return points, problems


def print_curve(points):
    top = max(p.memory for p in points)
    shown = points[:: max(1, len(points) // POINTS)][:POINTS]
    for p in shown:
        print(f"{p.seconds:7.0f} s {p.memory / (1 << 20):8.1f} MiB {'#' * round(50 * p.memory / top)}")


def thirds(points):
    """The middle one and the last: in the first one caches fill."""
    third = len(points) // 3
    return points[-2 * third : -third], points[-third:]


def judge_memory(points, minutes):
    """Compares the means."""
    middle, last = (sum(p.memory for p in part) / len(part) for part in thirds(points))
    print(f"resident: {middle / (1 << 20):.1f} MiB in the middle third, {last / (1 << 20):.1f} MiB in the last")
    most = middle * MORE if minutes >= HOUR_LONG else middle * MORE_SHORT + ROOM_SHORT
    return ["resident memory goes on growing"] if last > most else []


def rested(world, load):
    """What there is at the least while nobody asks for anything."""
    load.resting.set()
    begin, points = time.monotonic(), [Point(world, 0)]
    while time.monotonic() - begin < REST and not world.stopping.wait(0.1):
        points.append(Point(world, 0))
    load.resting.clear()
    return {name: min(p.counts[name] for p in points) for name in points[0].counts}


def judge_counts(middle, last):
    """Of the ends of two thirds: not one more."""
    problems = []
    for name, count in middle.items():
        print(f"{name}: {count} after two thirds, {last[name]} at the end")
        if last[name] > count:
            problems.append(f"{name}: {last[name] - count} more than after two thirds")
    return problems


def soak(world, load, minutes, check):
    """Returns what went wrong."""
    hours = Hours(world, load)
    points, problems = sample(world, minutes * 2 / 3, check, hours)
    if not problems:
        middle = rested(world, load)
        more, problems = sample(world, minutes, check, hours)
        points += more
    if points:
        print_curve(points)
    if not problems and len(points) < 15:
        problems.append("too few samples to judge")
    elif not problems:
        more = judge_counts(middle, rested(world, load))
        if minutes < LONG:
            print(f"shorter than {LONG} minutes: nothing but memory is judged")
        else:
            problems += more
        if is_sanitized():
            print("a build with a sanitizer: memory is not judged")
        else:
            problems += judge_memory(points, minutes)
    results = load.answered()
    bad = [r for r in results if r.outcome != "right"]
    longest = max((r.end - r.start for r in results), default=0)
    print(f"{len(results)} requests, {len(bad)} not right, longest {longest:.2f} s; {minutes * SPEED / 60:.1f} hours' worth, {hours.count} keys")
    refused = collections.Counter((r.kind, r.status) for r in bad if r.outcome == "refused")
    for (kind, status), count in refused.most_common():
        text = next(r.text for r in bad if (r.kind, r.status, r.outcome) == (kind, status, "refused"))
        print(f"refused: {count} {kind} with {status}, the first: {text}")
    if refused.total() > REFUSED * len(results):
        problems.append(f"{refused.total()} of {len(results)} requests were refused")
    return problems + [f"{r.outcome} {r.kind}: {r.text}" for r in bad if r.outcome != "refused"][:10]
