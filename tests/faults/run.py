#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fault tests: a mixed load on real servers, and one fault after the other. docs/testing.md says what is counted.

    run.py [--short] [--only NAME]... [--seed N] [--seconds S] [--keep DIRECTORY] [--list]     SYMBOLICATED=PATH of the program
    run.py --s3 …                                    the store of uploads in a real S3 server, and its faults
    run.py --sources [--cores N]... …                                one of two sources hangs, fails, has junk, or the list of them changes
    run.py --hosts …                                 several hosts, each with a network of its own, and other faults: what happens to hosts
    run.py --soak MINUTES                                                  the load alone, and what it takes

The last line is "N passed, N failed, N skipped", one for each fault and one for how everything ended; exit 1 when anything failed."""

import argparse
import collections
import os
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
for folder in ("wire", "tools"):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), folder))

import network  # noqa: E402
import s3_server  # noqa: E402
import sources  # noqa: E402
from faults import FAILURE_MEMORY, all_faults, all_store_faults_in_s3  # noqa: E402
from host_faults import all_host_faults  # noqa: E402
from hosts import HostsWorld  # noqa: E402
from load import Load  # noqa: E402
from s3_world import S3World  # noqa: E402
from soak import SETTINGS, soak  # noqa: E402
from world import CONFIG, REVALIDATE, World, is_sanitized  # noqa: E402

STREAK, STREAK_FRESH = 20, 3  # right answers in a row, and how many of them of modules in no cache, that make a recovery
CALM, CALM_SHORT = 1.0, 0.5  # seconds at least between two faults
SLACK = 5  # the short form's bounds for recovery are this many times as long
UNRECOVERED = 60.0  # seconds after which a recovery is given up
MEMORY_ENDS = 1.5  # seconds after which `false` of a fault is forgotten: missing_ttl, corrupt_ttl, and the answer that is under way
FEW = 3  # refusals that are allowed in any row
SHOWN = 6  # answers of a fault that are shown
COLUMNS = ("fault", "requests", "right", "refused", "excused", "false", "wrong", "lost", "cut", "longest s", "recovery s", "bound s")


class Row:
    """What the answers say that came from the begin of a fault to the begin of the next one."""

    def __init__(self, fault, end, results, recovery, kills):
        self.fault, self.end, self.results, self.recovery, self.kills = fault, end, results, recovery, kills
        self.right = self.false = self.cut = 0
        self.refused, self.excused, self.wrong, self.lost = [], [], [], []
        for r in results:
            self.count(r)
        self.longest = max(results, key=lambda r: r.end - r.start, default=None)

    def count(self, r):
        self.cut += len(r.cuts)
        if r.outcome == "false" and self.false_is_right(r):
            self.false += 1
        elif r.outcome == "right":
            self.right += 1
        elif r.outcome == "refused":
            self.refused.append(r)
        elif self.is_excused(r):
            self.excused.append(r)
        elif r.outcome == "lost":
            self.lost.append(r)
        else:
            self.wrong.append(r)

    def false_is_right(self, r):
        """A module that nobody asked for before has nothing to be remembered."""
        return self.fault.false_ok and r.start < self.end + (0.1 if r.fresh else MEMORY_ENDS)

    def is_excused(self, r):
        """Only while it lasts: what nginx says without room for its files."""
        return r.start < self.end and r.status in self.fault.excused

    def cut_is_right(self, begin, end):
        """Only of what was in flight when a responder was killed."""
        return self.fault.cut_ok and any(begin <= after and before <= end for before, after in self.kills)

    def problems(self, short):
        out = [f"{r.outcome}: {r.kind} after {r.end - r.start:.2f} s: {r.text}" for r in (self.wrong + self.lost)]
        for r in self.results:
            wrong = [c for c in r.cuts if not self.cut_is_right(*c)]
            out += [f"cut: {r.kind}, {begin - self.end:+.2f} s to {end - self.end:+.2f} s from the end of the fault" for begin, end in wrong]
        if len(self.refused) > max(FEW, self.fault.refused * len(self.results)):
            r = self.refused[0]
            out.append(f"{len(self.refused)} of {len(self.results)} were refused, the first: {r.kind}, {r.status}: {r.text}")
        if not self.right:
            out.append("no right answer at all")
        if self.recovery is None:
            out.append(f"no {STREAK} right answers in a row within {UNRECOVERED} s")
        elif self.recovery > self.fault.bound * (SLACK if short else 1):
            out.append(f"recovery took {self.recovery:.1f} s")
        return out

    def cells(self):
        recovery = "-" if self.recovery is None else f"{self.recovery:.2f}"
        longest = f"{self.longest.end - self.longest.start:.2f} {self.longest.kind}" if self.longest else "-"
        return (
            self.fault.name, len(self.results), self.right, by_status(self.refused), by_status(self.excused), self.false, len(self.wrong),
            len(self.lost), self.cut, longest, recovery, f"{self.fault.bound:.0f}",
        )  # fmt: skip


def by_status(results):
    counts = collections.Counter("cut" if r.outcome == "lost" else r.status for r in results)
    return ", ".join(f"{count} x {status}" for status, count in sorted(counts.items(), key=str)) or "0"


def print_row(cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


class Driver:
    def __init__(self, world, load, options):
        self.world, self.load, self.options = world, load, options
        self.passed = self.failed = self.skipped = 0
        self.problems = []

    def run(self, faults):
        self.calm("the load is steady")
        print_row(COLUMNS)
        print_row(["---"] + ["---:"] * (len(COLUMNS) - 1))
        for fault in faults:
            if self.world.stopping.is_set():
                break
            why = self.impossible(fault)
            if why:
                self.skipped += 1
                print_row([fault.name, why] + [""] * (len(COLUMNS) - 2))
            else:
                self.one(fault)

    def impossible(self, fault):
        if fault.name.startswith("clock") and not self.world.can_step_clock():
            return "skipped: needs libfaketime and a build without sanitizer"
        if fault.name.startswith("disk-full") and not self.world.can_fill(fault.name.rsplit("-", 1)[1]):
            return "skipped: nothing can be mounted here"
        return None

    def one(self, fault):
        first, problems = len(self.load.answered()), []
        try:
            fault.inject(self.world, self.options.seconds)
        except AssertionError as e:
            problems.append(str(e))
        end = time.monotonic()
        recovery = self.recovered(first, end)
        settled = self.settle(first, end)
        row = Row(fault, end, self.load.answered(first), recovery, self.world.kills)
        problems += row.problems(self.options.short) + self.daemons() + self.load.broken
        problems += self.charged()
        if not settled:
            problems.append("a request that began before the end of the fault is not answered")
        print_row(row.cells())
        for text in problems[:SHOWN]:
            print(f"    {fault.name}: {text[:1500]}", flush=True)
        self.failed += bool(problems)
        self.passed += not problems
        self.problems += problems

    def recovered(self, first, end):
        """Seconds from the end of the fault to the last answer of the first streak that is right; None when there is none."""
        limit = end + UNRECOVERED
        while time.monotonic() < limit and not self.world.stopping.is_set():
            streak = fresh = 0
            for r in self.load.answered(first):
                if r.end < end:
                    continue
                streak, fresh = (streak + 1, fresh + r.fresh) if r.outcome == "right" else (0, 0)
                if streak >= STREAK and fresh >= STREAK_FRESH:
                    return r.end - end
            self.world.hold(0.05)
        return None

    def settle(self, first, end):
        """A calm stretch, and everything answered that began before it. What failed is asked for again then, and must be
        forgotten, also when that was a transfer that went on after the fault; the short form does not wait for what was refused."""
        limit = time.monotonic() + UNRECOVERED
        calm = CALM_SHORT if self.options.short else CALM
        remembered = {"false": MEMORY_ENDS} if self.options.short else {"false": MEMORY_ENDS, "refused": FAILURE_MEMORY}
        while time.monotonic() < limit and not self.world.stopping.is_set():
            until = end + calm
            for r in self.load.answered(first):
                if r.outcome in remembered and r.start < end:
                    until = max(until, max(r.end, end) + calm + remembered[r.outcome])
            if time.monotonic() >= until and self.load.oldest() >= end:
                return True
            self.world.hold(0.02)
        return False

    def charged(self):
        """What is never let go: the load goes on, but between two requests nothing is charged for any."""
        limit = time.monotonic() + UNRECOVERED
        left = {}
        while time.monotonic() < limit and not self.world.stopping.is_set():
            process, charges = self.world.charges()
            if not process:
                self.world.hold(0.1)
                continue
            known = left.setdefault(process, set(charges))
            known &= {kind for kind, value in charges.items() if value}
            if len(left) >= len(self.world.daemons) and not any(left.values()):
                return []
            self.world.hold(0.01)
        return [f"still charged after {UNRECOVERED} s: {', '.join(sorted(kinds))}" for kinds in left.values() if kinds]

    def daemons(self):
        out = []
        for server in self.world.servers():
            try:
                if hasattr(server, "check"):
                    server.check()
                elif not server.running:
                    out.append(f"{server.name} is gone")
            except AssertionError as e:
                out.append(str(e))
        return out

    def calm(self, what):
        """Before the first fault every kind of request has to be right."""
        limit = time.monotonic() + UNRECOVERED
        wanted = {"warm", "cold", "large", "profile", "changing", "upload", "fileid"}
        while not wanted <= {r.kind for r in self.load.answered() if r.outcome == "right"}:
            bad = [r for r in self.load.answered() if r.outcome in ("wrong", "lost", "false")]
            if bad or time.monotonic() > limit or self.load.broken:
                raise AssertionError(f"not within {UNRECOVERED} s: {what}: {bad[:3]} {self.load.broken}")
            self.world.hold(0.1)


def main():
    parser = argparse.ArgumentParser(description="Fault tests, or a soak.")
    parser.add_argument("--short", action="store_true", help="most faults, about a minute and a half; recovery may take five times as long")
    parser.add_argument("--only", action="append", metavar="FAULT", help="this one; may be given several times")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="how long a fault is held; default 3, with --short 1")
    parser.add_argument("--hosts", action="store_true", help="two hosts behind a balancer instead of two responders behind an nginx")
    parser.add_argument("--sources", action="store_true", help="faults of one of two sources, each with servers of its own")
    parser.add_argument("--cores", action="append", type=int, help="of the responders, with --sources; may be given several times; default all")
    parser.add_argument("--s3", action="store_true", help="the faults of the store, with uploads in a real S3 server behind a bad network")
    parser.add_argument("--soak", type=float, metavar="MINUTES")
    parser.add_argument("--keep", metavar="DIRECTORY", help="where the logs of all servers are put at the end")
    parser.add_argument("--list", action="store_true", help="the names of the faults")
    options = parser.parse_args()
    options.seconds = options.seconds or (1.0 if options.short else 3.0)
    faults = all_host_faults() if options.hosts else all_store_faults_in_s3() if options.s3 else all_faults()
    names = list(sources.FAULTS) if options.sources else [f.name for f in faults]
    if options.list:
        print("\n".join(names))
        return 0
    for name in options.only or []:
        if name not in names:
            parser.error(f"no fault {name}: {' '.join(names)}")
    if options.sources:
        return 0 if sources.run_all(options.only or names, options.cores or [None], options.seconds, SLACK if options.short else 1) else 1
    if options.only:
        faults = [f for f in faults if f.name in options.only]
    elif options.short:
        faults = [f for f in faults if f.short]
    if options.hosts and not options.list:
        why = why_no_hosts()
        if why:
            print(f"SEVERAL HOSTS WERE NOT TRIED: {why}\n0 passed, 0 failed, {len(faults)} skipped")
            return 0
        network.enter()
    return drive(options, faults)


def why_no_hosts():
    """None, or what is missing."""
    try:
        s3_server.program()
    except s3_server.Unavailable as e:
        return str(e)
    return network.why_not()


def make_world(options, stopping):
    if options.hosts:
        return HostsWorld(options.seed, stopping, small_disks=False)
    return (S3World if options.s3 else World)(options.seed, stopping, small_disks=not options.soak)


def drive(options, faults):
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    if is_sanitized():
        CONFIG["bucket_total_timeout"] = "20s"
    if options.soak:
        CONFIG.update(SETTINGS)
    world, load, driver = make_world(options, stopping), None, None
    started = time.monotonic()
    problems = []
    try:
        world.start()
        load = world.load = Load(world.port, world.buckets, world.gensym, world.key, REVALIDATE + 0.5, options.seed, host=world.host)
        load.start()
        driver = Driver(world, load, options)
        if options.soak:
            problems += soak(world, load, options.soak, driver.daemons)
        else:
            driver.run(faults)
    except AssertionError as e:
        problems.append(str(e))
    finally:
        if load:
            load.stop()
            problems += load.broken
        if problems or (driver and driver.failed):
            print(world.logs())
        if options.keep:
            world.keep_logs(options.keep)
        problems += world.stop()
    for text in problems:
        print(text[:3000])
    if stopping.is_set():
        problems.append("interrupted")
    print(f"{len(load.answered()) if load else 0} requests in {time.monotonic() - started:.0f} s")
    passed, failed, skipped = (driver.passed, driver.failed, driver.skipped) if driver else (0, 0, 0)
    print(f"{passed + (not problems)} passed, {failed + bool(problems)} failed, {skipped} skipped")
    return 1 if problems or failed else 0


if __name__ == "__main__":
    sys.exit(main())
