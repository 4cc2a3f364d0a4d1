#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make bench: how fast symbolicated is, each line beside its limit.

    tests/bench/bench.py [--build DIR] [--quick] [--once] [--svg FILE] [--markdown FILE] [GROUP...]

docs/measurements.md says how each line is measured. GROUP: what to measure; all without any. --quick: small inputs and short runs, to see that
every line works; its figures mean nothing. --once: each measurement once, for who repeats all of it. --svg: writes the picture.
--markdown: puts the table between the markers of docs/performance.md. --from FILE: shows the bench.json of an earlier run
instead of measuring. Needs a build with the programs of `make bench`.
"""

# What other programs measure. bench.py runs `tests/bench/bench_X.py --json --build DIR [--quick]` with an end after EXTERNAL_BOUND
# seconds, and takes the last line of its standard output, one JSON object:
#
#   {"lines": [{"line": "push of 1 GB in 500 files",      what was measured, in a few words: the row's name
#               "figure": 1.12,                           the median; null: it could not be measured, and "note" says why
#               "min": 1.08, "max": 1.31, "n": 3,         its spread over n rounds; may be left out
#               "unit": "x aws s3 cp",                    behind the figure: "x PEER" for a ratio, else "s", "ms", "MB", ...
#               "target": "<= 1.3",                       "<= NUMBER" or ">= NUMBER" in that unit; "" or left out: for information
#               "met": true,                              may be left out: it follows from figure and target
#               "ours": "9.1 s", "against": "8.1 s",      what a ratio is made of, ready to print; may be left out
#               "wall": "",                               of a missed line: what stands in the way, one sentence
#               "note": ""}, ...]}
#
# A bare list of such objects is read too. With --quick it takes some seconds, and its figures mean nothing. What it says on
# standard error is shown when its exit code is not 0.

import argparse
import contextlib
import glob
import http.client
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "wire")]
import stack  # noqa: E402
from inputs import MB, SEED, STACK_FRAMES, Failure, Inputs, Sizes, body_of, frames_of, http_request, job_of, records_of, run  # noqa: E402
from picture import write_picture  # noqa: E402
from report import LINES, Row, Value, from_program, print_table, ratios, row, short, write_markdown  # noqa: E402
from servers import Service  # noqa: E402
from symbols import sym_name  # noqa: E402

import bench_addresses  # noqa: E402
import bench_filter  # noqa: E402

BUDGET = 900  # seconds for everything but the inputs, which are made once; what is not begun by then is left out
EXTERNAL_BOUND = 180  # seconds for a program of its own
EXTERNALS = ("loads", "push", "executables")
FAR, NEAR = (50, 100), (5, 1000)  # round trip in ms, Mbit/s
SMALL_CACHE = "32M"
ROLLOUT_BOUND, ROLLOUT_STEP = 12.0, 0.25
LARGE_PROGRAMS = ("/usr/bin/ceph-mon", "/usr/bin/python3.11-dbg", "/usr/bin/python3.11d")
SOURCE = """
#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <vector>
template <int N> struct unit {
	static int work(const std::string &text)
	{
		std::map<std::string, std::vector<int>> all;
		std::regex words("[a-z]+" + std::to_string(N));
		for (std::sregex_iterator i(text.begin(), text.end(), words), end; i != end; ++i)
			all[i->str()].push_back(N);
		std::function<int(int)> sum = [&](int n) { return n + (int)all.size() + unit<N - 1>::work(text); };
		return sum(N);
	}
};
template <> struct unit<0> {
	static int work(const std::string &) { return 0; }
};
int main(int argc, char **argv) { return unit<150>::work(argv[argc - 1]); }
"""
ERRORS = (Failure, AssertionError, OSError, ValueError, KeyError, IndexError, subprocess.SubprocessError, http.client.HTTPException)


def values(results, name, unit, factor=1.0):
    return Value([r[name] * factor for r in results], unit)


def rates(results):
    return values(results, "rate", "req/s")


def percentiles(results):
    """p50, p99 and p99.9 of an open loop, in ms."""
    return "p50, p99, p99.9 " + ", ".join(short(values(results, p, "ms", 1e-3).median) for p in ("p50", "p99", "p999")) + " ms"


class Bench:
    def __init__(self, service, inputs, sizes, work):
        self.service, self.inputs, self.sizes, self.work = service, inputs, sizes, work
        self.rows, self.notes = [], []
        self.kept = {}  # what lines have in common

    def add(self, key, value, ours=None, against=None, limit="", **options):
        """ours, against: Values that the figure is made of; limit: the name of the latter."""
        absolute = ours or value
        texts = {"ours": str(ours) if ours else "", "against": f"{limit} {against}" if against else limit}
        if ours and against:
            texts["pair"] = f"{short(ours.median)}/{short(against.median)} {ours.unit}"
        self.rows.append(row(key, value, **{**texts, "absolute": (absolute.median, absolute.unit), **options}))

    def file(self, name, data):
        path = os.path.join(self.work, name)
        with open(path, "wb") as out:
            out.write(data)
        return path

    # -- cold requests

    @staticmethod
    def check_reply(path):
        """Speed without an answer is none: every frame that was asked for lies in a function."""
        with open(path, "rb") as f:
            result = json.load(f)["results"][0]
        if not all(result["found_modules"].values()) or not all("function" in frame for frame in result["stacks"][0]):
            raise Failure("a request was not answered")

    def ask(self, body, url=None):
        """(curl's own seconds, seconds of the curl process) of one request, whose every frame is answered."""
        reply = os.path.join(self.work, "reply")
        start = time.monotonic()
        out = run(["curl", "-sS", "-o", reply, "-w", "%{http_code} %{time_total}", "-H", "Content-Type: application/json",
                   "--data-binary", f"@{body}", url or self.service.url()])  # fmt: skip
        took = time.monotonic() - start
        status, seconds = out.split()
        if status != "200":
            raise Failure(f"the request got {status}")
        self.check_reply(reply)
        return float(seconds), took

    def cold(self, source, body, loads=1, **options):
        """ask() to a new process with an empty memcached."""
        self.service.fresh(source, **options)
        found = self.ask(body)
        m = self.service.metrics() if "finish_after" in options else self.service.settled()
        if m["symbolicated_loads_total"] != loads:
            raise Failure("the request was not cold")
        return found

    def object_url(self, source, module, base=None):
        return f"{base or self.service.bucket.url}{source}{module[0]}/{module[1]}/{sym_name(module[0])}"

    # -- a distant bucket

    def get_all(self, modules):
        """Seconds that `curl -Z` takes for the objects, over the line as it is."""
        config = "".join(f'url = "{self.object_url("corpus/", m, self.service.link.url)}"\noutput = "/dev/null"\n' for m in modules)
        start = time.monotonic()
        run(["curl", "-sS", "-Z", "--parallel-immediate", "-K", self.file("objects", config.encode())])
        return time.monotonic() - start

    def group_stack(self):
        for key, line, rounds in (("far", FAR, self.sizes.large_repeats), ("near", NEAR, self.sizes.repeats)):
            ours, against = [], []
            for n in range(rounds):
                modules, offsets = self.inputs.crash_stack(f"{key} {n}")
                body = self.file(f"stack {n}", body_of(job_of(modules, offsets)))
                self.service.link.start(*line)
                against.append(self.get_all(modules))
                self.service.fresh("corpus/", far=True, finish_after=None)
                ours.append(self.ask(body)[0])
            size = sum(os.path.getsize(self.inputs.path("corpus", *m, sym_name(m[0]))) for m in modules)
            ours, against = Value(ours, "s"), Value(against, "s")
            self.add(key, ratios(ours, against, ""), ours, against, "curl -Z", note=f"{size / MB:.1f} MB of gzip, a new process and memcached each time")
        self.service.link.start()

    def group_large(self):
        _, path = self.inputs.xul()
        module = self.inputs.copies("xul", path, ["large"])[0]
        body = self.file("body", body_of(job_of([module], [frames_of(path, STACK_FRAMES)])))
        note = f"{os.path.getsize(path) / MB:.0f} MB, as gzip {os.path.getsize(self.inputs.path('corpus', *module, sym_name(module[0]))) / MB:.0f} MB"
        for key, line, rounds in (("large-far", FAR, 1), ("large-near", NEAR, self.sizes.large_repeats)):
            ours, against = [], []
            for _ in range(rounds):
                self.service.link.start(*line)
                against.append(self.get_all([module]))
                ours.append(self.cold("corpus/", body, far=True, finish_after=None)[0])
            above = Value([a - b for a, b in zip(ours, against)], "s")
            self.add(key, above, Value(ours, "s"), Value(against, "s"), "curl", note=note)
        self.service.link.start()

    # -- a node that starts

    def group_restart(self):
        label, module, path = self.inputs.real_beside_corpus()
        first, other = (body_of(job_of([module], [o])) for o in (frames_of(path, STACK_FRAMES), frames_of(path, 2 * STACK_FRAMES)[STACK_FRAMES:]))
        self.cold("corpus/", self.file("body", first))
        body, ours = self.file("other", other), []
        for _ in range(self.sizes.repeats):
            self.service.fresh("corpus/", keep_memcached=True)
            ours.append(self.ask(body)[0] * 1000)
            if self.service.metrics()["symbolicated_downloads_total{outcome=\"ok\"}"]:
                raise Failure("it came from the bucket")

        self.add("restart", Value(ours, "ms"), note=f"{label}, {STACK_FRAMES} frames that were not asked for before; memcached went on")

    def first_answer(self, request):
        """Milliseconds from the start of the process until nginx passes an answer on."""
        self.service.fresh("corpus/", keep_memcached=True, start=False)
        self.service.daemon.write_config()
        self.service.daemon.spawn([*self.service.daemon.program, "--config", self.service.daemon.config])
        start = time.monotonic()  # spawn returns once the program has begun: the fork of this large process is not ours
        while time.monotonic() < start + 20:
            connection = http.client.HTTPConnection("127.0.0.1", self.service.nginx.port, timeout=20)
            connection.request("POST", "/symbolicate/v5", request)
            reply = connection.getresponse()
            reply.read()
            connection.close()
            if reply.status == 200:
                return (time.monotonic() - start) * 1000
            time.sleep(0.0005)
        raise Failure(f"no answer in 20 s, at last {reply.status}")

    def group_node(self):
        _, requests, ours, _ = self.measured_warm()
        module, path = self.inputs.small()
        small = body_of(job_of([self.inputs.copies("small", path, ["start"])[0]], [frames_of(path, STACK_FRAMES)]))
        self.ask(self.file("body", small))
        self.service.settled()
        starts = Value([self.first_answer(small) for _ in range(self.sizes.repeats)], "ms")
        self.add("start", starts, note="25 frames of a module that is in memcached, through nginx")
        full, times = rates(ours).median, []
        bound = 1.0 if self.sizes.quick else ROLLOUT_BOUND
        for _ in range(1 if self.sizes.quick else 2):
            self.service.fresh("corpus/", keep_memcached=True)
            counts = self.loaded(requests, warm_up=0.0, seconds=bound, interval=ROLLOUT_STEP)["timeline"]
            reached = [i for i, count in enumerate(counts) if count / ROLLOUT_STEP >= 0.9 * full]
            if not reached and not self.sizes.quick:
                raise Failure(f"not in {bound} s: at last {short(counts[-2] / ROLLOUT_STEP)} of {short(full)} req/s")
            times.append((reached[0] + 1) * ROLLOUT_STEP if reached else bound)
        self.add("rollout", Value(times, "s"), note=f"the first {ROLLOUT_STEP} s with 90 % of {short(full)} req/s")

    # -- the corpus

    def whole_pass(self, requests, count, **options):
        result = self.service.load(requests, count=count, seconds=90.0, **options)
        if result["requests"] != count:
            raise Failure(f"{result['requests']} of {count} requests were answered in 90 s")
        return result

    def warm(self):
        """Loads the corpus into a new process; returns (label, requests with the sizes of their replies)."""
        label, lines = self.inputs.corpus()
        first = self.file("first", b"".join(map(http_request, lines)))
        self.service.fresh("corpus/")
        sizes = os.path.join(self.work, "sizes")
        self.whole_pass(first, len(lines), connections=4)
        self.service.settled()
        self.whole_pass(first, len(lines), connections=4, out=sizes)
        with open(sizes, encoding="utf-8") as f:
            replies = [int(line.split()[1]) for line in f]
        return label, self.file("load", b"".join(map(http_request, lines, replies)))

    def loaded(self, requests, port=None, **options):
        options = {"connections": self.sizes.connections, "warm_up": self.sizes.warm_up, "seconds": self.sizes.seconds, **options}
        return self.service.load(requests, port, **options)

    def measured_warm(self):
        """(label, requests, ours, null): lists of results of the closed loop, measured once; the process is warm afterwards if it was
        not replaced. processor: seconds for a million requests."""
        if "warm" not in self.kept:
            label, requests = self.warm()
            ours, null = [], []
            for _ in range(self.sizes.repeats):
                null.append(self.loaded(requests, null=True))
                before = self.service.cpu_seconds()
                result = self.loaded(requests)
                result["processor"] = (self.service.cpu_seconds() - before) / result["all"] * 1e6
                ours.append(result)
            self.kept["warm"] = label, requests, ours, null
        return self.kept["warm"]

    def warm_again(self):
        """As measured_warm(), with the process warm."""
        found = self.measured_warm()
        if self.kept.get("process") != self.service.daemon.process.pid:
            self.service.fresh("corpus/", keep_memcached=True)
            self.loaded(found[1])
            self.service.settled()
            self.loaded(found[1])
            self.kept["process"] = self.service.daemon.process.pid
        return found

    def group_warm(self):
        label, _, ours, null = self.measured_warm()
        self.add("warm", ratios(rates(ours), rates(null), ""), rates(ours), rates(null), "null responder", note=label)
        own, other = (values(r, "p99", "ms", 1e-3) for r in (ours, null))
        self.add("warm-p99", ratios(own, other, ""), own, other, "null responder")
        self.add("cpu", values(ours, "processor", "s"))

    def open_loop(self):
        """(rate, ours, null, their seconds): the open loop, measured once."""
        if "open" not in self.kept:
            _, requests, closed, _ = self.warm_again()
            rate, ours, null = rates(closed).median / 2, [], []
            options = {"rate": rate, "seconds": self.sizes.open_seconds}
            for _ in range(self.sizes.large_repeats):
                null.append(self.loaded(requests, null=True, **options))
                ours.append(self.loaded(requests, **options))
            for result in () if self.sizes.quick else ours + null:
                if result["behind"] > result["all"] / 100:
                    raise Failure(f"{result['behind']} requests were due and could not be sent: {result}")
            self.kept["open"] = rate, ours, null
        return self.kept["open"]

    def group_open(self):
        rate, ours, null = self.open_loop()
        own, other = (values(r, "p99", "ms", 1e-3) for r in (ours, null))

        note = f"{short(rate)} req/s; {percentiles(ours)}, the null responder's {percentiles(null)}"
        self.add("open", ratios(own, other, ""), own, other, "null responder", note=note)

    def group_beside(self):
        rate, idle, _ = self.open_loop()
        _, requests, _, _ = self.warm_again()
        _, path = self.inputs.xul()
        offsets, results = frames_of(path, STACK_FRAMES), []
        for n in range(1 if self.sizes.quick else 2):
            modules = self.inputs.copies("xul", path, [f"copy {i}" for i in range(4 * n, 4 * n + 4)])
            results.append(self.during_loads(requests, rate, [body_of(job_of([m], [offsets])) for m in modules]))
        own = values(results, "p99", "ms", 1e-3)
        usual = values(idle, "p99", "ms", 1e-3)
        self.add("beside-loads", Value([x / usual.median for x in own.samples], ""), own, usual, "without loads",
                 note=f"{percentiles(results)}; from the first of the four requests to the last of their answers")  # fmt: skip

    def during_loads(self, requests, rate, bodies):
        """The load from when cold requests are sent until all are answered."""
        url, started = self.service.url(), []
        command = self.service.load_command(requests, connections=self.sizes.connections, seconds=60.0, rate=rate)
        try:
            for i, body in enumerate(bodies):
                path = self.file(f"cold{i}", body)
                started.append(subprocess.Popen(["curl", "-sSf", "-o", path + ".reply", "--data-binary", f"@{path}", url]))
            load = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            started.append(load)
            failed = [p.wait(EXTERNAL_BOUND) for p in started[:-1]]
            load.terminate()
            result = json.loads(load.communicate(timeout=EXTERNAL_BOUND)[0])
        finally:
            for p in started:
                if p.poll() is None:
                    p.kill()
                    p.wait()
        if any(failed) or result["errors"] or not result["requests"]:
            raise Failure(f"cold requests gave {failed}, the load {result}")
        for i in range(len(bodies)):
            self.check_reply(os.path.join(self.work, f"cold{i}.reply"))
        self.service.settled()
        return result

    def without_missing(self, requests):
        """The records of a file for the load client whose modules are in the bucket: what is missing is remembered by each process
        for itself. (file, their count, count of all)"""
        kept, total = [], 0
        for head, body in records_of(requests):
            modules = json.loads(body)["memoryMap"]
            size = re.search(rb"X-Reply-Bytes: (\d+)", head)
            total += 1
            if all(m[0] and m[1] and os.path.exists(self.inputs.path("corpus", *m, sym_name(m[0]))) for m in modules):
                kept.append(http_request(body, int(size[1])))
        if not kept:
            raise Failure("no request is without missing modules")
        return self.file("without-missing", b"".join(kept)), len(kept), total

    def group_memcached(self):
        _, requests, _, _ = self.warm_again()
        requests, count, total = self.without_missing(requests)
        self.loaded(requests)
        usual = [self.loaded(requests) for _ in range(self.sizes.large_repeats)]
        self.service.bucket.stop()
        try:
            self.service.fresh("corpus/", keep_memcached=True, cache_size=SMALL_CACHE)
            self.loaded(requests)
            results = [self.loaded(requests) for _ in range(self.sizes.large_repeats)]
            if self.service.metrics()["symbolicated_loads_total"]:
                raise Failure("not all came from memcached")
        finally:
            self.service.bucket.start()
        note = f"cache_size = {SMALL_CACHE}, memcached -m 1024, the bucket stopped; the {count} of {total} requests without missing modules"
        self.add("memcached", ratios(rates(results), rates(usual), ""), rates(results), rates(usual), "warm", note=note)

    def group_memory(self):
        """What a restarted node takes for the corpus: only what was touched comes from memcached."""
        _, requests, _, _ = self.measured_warm()
        requests, count, _ = self.without_missing(requests)
        found, pages = [], []
        for _ in range(self.sizes.large_repeats):
            self.service.fresh("corpus/", keep_memcached=True)
            self.service.load(self.file("first", http_request(b'{"memoryMap":[],"stacks":[[]]}') * 64), count=640, connections=self.sizes.connections)
            before, charged = self.service.memory("VmRSS"), self.service.metrics()["symbolicated_cache_bytes"]
            self.service.load(requests, count=count, connections=self.sizes.connections)
            m = self.service.settled()
            found.append((self.service.memory("VmRSS") - before) / MB)
            pages.append((m["symbolicated_cache_bytes"] - charged) / MB)
        ours, touched = Value(found, "MB"), Value(pages, "MB")
        self.add("memory", ratios(ours, touched, ""), ours, touched, "pages", note=f"{int(m['symbolicated_cache_maps'])} modules of {count} requests")

    # -- a profile

    def against_null(self, name, body):
        """(ours, null, bytes of a reply): p50 of a large request, round by round; the null responder writes as many bytes."""
        sizes = os.path.join(self.work, "sizes")
        requests = self.file(name, http_request(body))
        self.service.load(requests, count=3, out=sizes)
        with open(sizes, encoding="utf-8") as f:
            size = int(f.read().split()[1])
        requests = self.file(name, http_request(body, size))
        count, ours, null = 3 if self.sizes.quick else 8, [], []
        for _ in range(self.sizes.repeats):
            null.append(self.service.load(requests, null=True, count=count))
            ours.append(self.service.load(requests, count=count))
        return ours, null, size

    def group_profile(self):
        label, module, path = self.inputs.real_beside_corpus()
        jobs = [job_of([module], [frames_of(path, 10 * self.sizes.job_frames)[i * self.sizes.job_frames :][: self.sizes.job_frames]]) for i in range(10)]
        profile = body_of(job_of([module], [frames_of(path, self.sizes.frames)]))
        self.service.fresh("corpus/")
        self.ask(self.file("body", body_of(job_of([module], [frames_of(path, STACK_FRAMES)]))))
        self.service.settled()
        for key, body in (("profile", profile), ("jobs", body_of(*jobs))):
            ours, null, size = self.against_null(key, body)
            own, other = (values(r, "p50", "ms", 1e-3) for r in (ours, null))

            note = f"{label}; reply {size / MB:.1f} MB"
            self.add(key, ratios(own, other, ""), own, other, "null responder", note=note)
        ours, _, size = self.against_null("first-byte", body_of(jobs[0]))
        self.add("first-byte", values(ours, "first", "ms", 1e-3), note=f"reply {size / MB:.1f} MB, whole after {values(ours, 'p50', 'ms', 1e-3)}")

    # -- symbtool

    def group_symbtool(self):
        tool = os.path.join(self.service.build, "symbtool")
        if not os.path.exists(tool):
            raise Failure("symbtool is not built")
        megabytes = 3 if self.sizes.quick else 300
        program, addresses = bench_filter.compile_program(self.work)
        log = os.path.join(self.work, "log")
        bench_filter.write_log(log, addresses, megabytes * bench_filter.MEGABYTE)
        commands = {"filter": [tool, "symbolicate", "--filter"], "cat": ["cat"]}
        found = {name: [] for name in commands}
        for _ in range(self.sizes.large_repeats):
            for name, command in commands.items():
                found[name].append(megabytes / 1000 / max(0.01, bench_filter.run(command, log)[0]))
        os.remove(log)
        self.add("filter", Value(found["filter"], "GB/s"), None, Value(found["cat"], "GB/s"), "cat", note=f"{megabytes} MB; of processor time")
        self.add_addresses(tool)

    def compile_program(self, path):
        source = self.file("program.cpp", SOURCE.encode())
        run(["g++", "-g", "-O1", "-o", path, source])

    def large_program(self):
        """One with debug information, the largest that is known here."""
        if self.sizes.quick:
            return os.path.join(self.work, "logged")  # of bench_filter
        if os.environ.get("BENCH_PROGRAM"):
            return os.environ["BENCH_PROGRAM"]
        return next(filter(os.path.exists, LARGE_PROGRAMS), None) or self.inputs.made(self.inputs.path("program"), self.compile_program)

    def add_addresses(self, tool):
        program = self.large_program()
        note = f"{os.path.basename(program)}, {os.path.getsize(program) / MB:.0f} MB; BENCH_PROGRAM=FILE for another"
        for count in (1, 2000):
            key = f"address-{count}"
            if not shutil.which("llvm-symbolizer"):
                self.rows.append(row(key, note="llvm-symbolizer is not installed"))
                continue
            found = bench_addresses.compare(tool, program, count, self.sizes.repeats, ("symbtool", "llvm-symbolizer", "addr2line"))
            seconds = {name: Value([s for s, _ in results], "s") for name, results in found.items()}
            beside = f"; addr2line {seconds['addr2line']}" if "addr2line" in seconds else ""
            self.add(key, ratios(seconds["symbtool"], seconds["llvm-symbolizer"], ""), seconds["symbtool"], seconds["llvm-symbolizer"], "llvm-symbolizer", note=note + beside)

    # -- programs of their own

    def external(self, name):
        program = os.path.join(HERE, f"bench_{name}.py")
        what = f"tests/bench/bench_{name}.py"
        if not os.path.exists(program):
            raise Failure("it is not there")
        command = [sys.executable, program, "--json", "--build", self.service.build, *(["--quick"] if self.sizes.quick else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=EXTERNAL_BOUND)
        if done.returncode:
            raise Failure(f"exit code {done.returncode}: {(done.stderr or done.stdout)[-500:]}")
        self.rows += from_program(what, json.loads(done.stdout.strip().splitlines()[-1]))


# Lines of one kind follow each other, so that what they share is made once.
ORDER = ["restart", "profile", "stack", "large", "warm", "open", "beside", "memory", "memcached", "node", "symbtool", *EXTERNALS]


def first_line(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    return (done.stdout + done.stderr).strip().split("\n")[0]


def machine(build):
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        models = re.findall(r"^model name\s*: (.*)$", f.read(), re.M)
    with open(os.path.join(build, "Makefile"), encoding="utf-8") as f:
        settings = dict(re.findall(r"^(CC|CFLAGS|ISAL_LIBS) = (.*)$", f.read(), re.M))
    return {
        "day": time.strftime("%Y-%m-%d"),
        "commit": first_line(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"]),
        "cpu": f"{os.cpu_count()} x {models[0] if models else platform.machine()}",
        "kernel": platform.release(),
        "busy": os.getloadavg()[0] > (os.cpu_count() or 1) / 2,
        "load": f"{os.getloadavg()[0]:.2f} before the run",
        "compiler": f"{first_line([*settings['CC'].split(), '--version'])}, {settings['CFLAGS']}",
        "inflate": "ISA-L" if settings.get("ISAL_LIBS") else "zlib",
        "symbolicated": first_line([*stack.DAEMON, "--version"]),
        "nginx": first_line(["nginx", "-v"]),
        "memcached": first_line(["memcached", "-V"]),
        "curl": first_line(["curl", "--version"]).split(" (")[0],
        "gzip": first_line(["gzip", "--version"]),
    }


def measure(bench, wanted, started, after):
    """Every wanted group; a line that could not be measured says so. after(rows): called behind each group."""
    for group in [n for n in ORDER if n in wanted]:
        begun = time.monotonic()
        why = ""
        try:
            if begun - started - bench.inputs.seconds > BUDGET:
                raise Failure(f"left out, {BUDGET} s are over")
            if group in EXTERNALS:
                bench.external(group)
            else:
                getattr(bench, "group_" + group)()
        except ERRORS as e:
            why = str(e) if isinstance(e, Failure) else f"{type(e).__name__}: {e}"
        there = {r.line for r in bench.rows}
        missing = [line for line in LINES if line.group == group and line.key not in there]
        bench.rows += [row(line.key, note=why or "no figure") for line in missing]
        if why and group in EXTERNALS:
            bench.rows.append(Row(group, f"what bench_{group}.py measures", note=why))
        print(f"{group}: {time.monotonic() - begun:.1f} s {why}", file=sys.stderr, flush=True)
        after(bench.rows)


def sorted_rows(rows):
    place = {line.key: n for n, line in enumerate(LINES)}
    return sorted(rows, key=lambda r: place.get(r.line, len(LINES)))


def on_terminate(*_):
    sys.exit(1)


def show(options, about, rows):
    """The text, and what else was asked for."""
    print_table(rows)
    if options.svg:
        write_picture(options.svg, rows, about)
    if options.markdown:
        write_markdown(options.markdown, rows, described(about))


def described(about):
    warning = " **The machine was busy: no measure of the program.**" if about.get("busy") else ""
    return f"{about['cpu']}, Linux {about['kernel']}, {about['day']}, {about['commit']}; load {about['load']}; {about['nginx'].split()[-1].replace('/', ' ')}.{warning}"


def run_all(options, build, sizes):
    wanted = options.groups or ORDER
    shared = os.environ.get("SHARED_DATA", os.path.join(os.path.dirname(ROOT), "shared", "data"))
    started = time.monotonic()
    about = machine(build)
    for name, value in about.items():
        print(f"{name}: {value}")
    with tempfile.TemporaryDirectory(prefix="sym-bench-") as work:
        os.chmod(work, 0o755)
        inputs = Inputs(os.path.join(build, "bench-quick" if options.quick else "bench"), sizes, shared)
        service = Service(work, inputs, build)

        def save(rows):
            about["seconds"] = round(time.monotonic() - started, 1)
            result = {"machine": about, "quick": options.quick, "seed": SEED, "inputs": inputs.left_out, "rows": [vars(r) for r in sorted_rows(rows)]}
            with open(os.path.join(build, "bench.json"), "w", encoding="utf-8") as out:
                json.dump(result, out, indent=1)
                out.write("\n")

        bench = Bench(service, inputs, sizes, work)
        try:
            service.start()
            measure(bench, wanted, started, save)
        finally:
            service.stop()
    return about, sorted_rows(bench.rows)


def main():
    parser = argparse.ArgumentParser(prog="bench.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--svg", metavar="FILE")
    parser.add_argument("--markdown", metavar="FILE")
    parser.add_argument("--from", dest="earlier", metavar="FILE")
    parser.add_argument("groups", nargs="*", metavar="GROUP", choices=[[], *ORDER], default=[], help=" ".join(ORDER))
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, on_terminate)
    build = os.path.abspath(options.build)
    if options.earlier:
        with open(options.earlier, encoding="utf-8") as f:
            earlier = json.load(f)
        about, rows = earlier["machine"], [Row(**r) for r in earlier["rows"]]
    else:
        stack.DAEMON[:] = [os.path.join(build, "symbolicated")]
        about, rows = run_all(options, build, Sizes(options.quick, options.once))
    show(options, about, rows)
    missing = sum(r.figure is None for r in rows)
    print()
    print(f"seed {SEED}; median (least to most of the rounds); settings are the defaults unless a note says otherwise")
    print(f"{sum(r.met is True for r in rows)} met, {sum(r.met is False for r in rows)} missed, {missing} not measured; {about['seconds']:.0f} s")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
