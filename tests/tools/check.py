#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ./check does once the packages are there: builds and tests, part by part, and one line of counts at the end."""

import argparse
import collections
import concurrent.futures
import glob
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "tests", "tools", "build.sh")
BOUND = 1200  # seconds; for one command
# For what goes on beside tests: it comes after these, also where the kernel shares out time among sessions. Not a low priority,
# with which it would stand still on a machine that others use as well.
BEHIND = ["sh", "-c", '{ echo 5 >/proc/self/autogroup; } 2>/dev/null; exec nice -n 5 "$@"', "sh"]
CLANG_FORMAT = 14  # Debian 12's
# Sources that are held to .clang-format.
FORMATTED = ("src", "tests/unit", "tests/fuzz", "tests/bench")
# Wire tests in which a sanitizer has nothing new to see: of the nginx files, of Prometheus, and of the page.
WITHOUT_DAEMON = ("test_nginx_errors.py", "test_nginx_settings.py", "test_page.py", "test_prometheus.py")
# One request after the other about what goes in and out: nothing that two threads could race for.
WITHOUT_RACES = (
    "test_corners.py", "test_errors.py", "test_filter.py", "test_manners.py", "test_new_user.py", "test_setup.py", "test_text.py",
    "test_v4.py", "test_v5.py",
)  # fmt: skip
VALGRIND = (
    "valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite,indirect "
    "--errors-for-leak-kinds=definite,indirect --child-silent-after-fork=yes"
)
# Unit tests in which there are threads.
WITH_THREADS = [f"tests/unit/test_{name}" for name in (
    "bucket", "front", "gate", "intake", "lease", "load", "load_queue", "memcached", "page_cache", "s3", "symbfile_store", "symbtool", "text_store", "wait",
)]  # fmt: skip
# Enough to see that what clang makes of it, with zlib, works; all is compiled.
OF_CLANG = [f"tests/unit/test_{name}" for name in ("base", "gzip", "offmap", "request_json", "symbfile_map")]
# They count what large inputs cost; AddressSanitizer sees them as well.
UNDER_VALGRIND_TOO_LONG = ("_limits", "_bombs")
# These begin first: nobody waits for one of them alone at the end.
LONG_UNDER_VALGRIND = ("test_text_store", "test_symindex", "test_intake")
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:exitcode=99",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "second_deadlock_stack=1:exitcode=99",
}
BUILDS = {
    "check": ["--enable-werror"],
    "check-clang": ["--enable-werror", "CC=clang", "CFLAGS=-O0", "--without-isal"],
    "check-asan": ["--enable-werror", "--enable-sanitizer=address"],
    "check-tsan": ["--enable-werror", "--enable-sanitizer=thread"],
}


class Counts:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, passed=0, failed=0, skipped=0):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped

    def one(self, ok):
        self.add(passed=int(ok), failed=int(not ok))

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


class Part:
    """What came of a part, and where its programs write: None for standard output. A part that is behind goes on beside others."""

    def __init__(self, out=None, behind=False):
        self.counts, self.failures, self.out = Counts(), [], out
        self.behind, self.process = behind, None


class Current(threading.local):
    part = Part()  # that which this thread runs


current = Current()
left_out = collections.Counter()  # what was skipped, by its reason
processes = set()  # that run
builds = {}  # by name, with their parts; under way while what is built already is tested, since tests wait for something now and then
directories = {}  # of builds that are done and counted
counting = threading.Lock()
starting = threading.Lock()


def stop(process):
    """Ends a process that runs, and its group."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def catch_up(part):
    """A part is waited for: it is behind no longer, since a busy machine would leave it little. What runs already stays behind where
    we may not change that."""
    with starting:
        part.behind = False
        process = part.process
    if process:
        try:
            with open(f"/proc/{process.pid}/autogroup", "w", encoding="ascii") as f:
                f.write("0")
            os.setpriority(os.PRIO_PGRP, process.pid, os.nice(0))
        except OSError:
            pass


def run(command, **options):
    """Runs one command to its end, or to BOUND; returns its exit code. Its process group ends with it, also when this program is
    interrupted."""
    environment = {**os.environ, **options.pop("env", {})}
    part = current.part
    with starting:
        prefix = BEHIND if part.behind else []
        process = subprocess.Popen([*prefix, *command], env=environment, start_new_session=True, **{"stdout": part.out, **options})
        part.process = process
    processes.add(process)
    try:
        return process.wait(BOUND)
    except subprocess.TimeoutExpired:
        print(f"not done after {BOUND} s: {' '.join(command)}", file=part.out, flush=True)
        return 1
    finally:
        part.process = None
        if process.poll() is None:
            stop(process)
        processes.discard(process)


def build(name, part):
    """Builds build/NAME, the tests too; returns its directory, or None."""
    current.part = part
    directory = os.path.join(ROOT, "build", name)
    return directory if run([BUILD, directory, *BUILDS[name]], env={"BUILD_TESTS": "1"}) == 0 else None


def built(name):
    """Waits for a build; returns its directory, or None. A build counts as one test."""
    with counting:
        if name not in directories:
            part, future = builds[name]
            catch_up(part)
            directories[name] = future.result()
            current.part.counts.one(directories[name] is not None)
        return directories[name]


def results(directory):
    """The test results of `make check`: one a program, or one a case where the program speaks TAP."""
    passed = failed = skipped = 0
    for trs in glob.glob(os.path.join(directory, "tests", "**", "*.trs"), recursive=True):
        with open(trs, encoding="utf-8") as f:
            for word, rest in re.findall(r"^:test-result: (\w+)(.*)", f.read(), re.M):
                passed += word in ("PASS", "XFAIL")
                skipped += word == "SKIP"
                if word in ("FAIL", "ERROR", "XPASS"):
                    failed += 1
                    current.part.failures.append(f"{os.path.relpath(trs[:-4], directory)}{rest}")
    return passed, failed, skipped


def unit(name, variables=(), env=None):
    """`make check` in a build; the logs of what failed are shown by automake (VERBOSE)."""
    directory = built(name)
    if not directory:
        return
    for trs in glob.glob(os.path.join(directory, "tests", "**", "*.trs"), recursive=True):
        os.remove(trs)
    jobs = os.cpu_count() + 2  # some tests wait more than they compute
    code = run(["make", "-s", f"-j{jobs}", "-C", directory, "check", "VERBOSE=1", *variables], env=env or {})
    passed, failed, skipped = results(directory)
    # A make that fails without a failed test, or runs none, is a failure too.
    if failed == 0 and (code or not passed):
        failed = 1
    current.part.counts.add(passed, failed, skipped)


def wire(name, env=None, ignore=()):
    directory = built(name)
    if not directory:
        return
    with tempfile.TemporaryDirectory(prefix="sym-check-") as temporary:
        report = os.path.join(temporary, "report.xml")
        command = [
            sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", "-n", "6", "--dist", "load", f"--junitxml={report}", f"--basetemp={temporary}/t",
            *(f"--ignore={os.path.join(ROOT, 'tests', 'wire', i)}" for i in ignore), os.path.join(ROOT, "tests", "wire"),
        ]  # fmt: skip
        code = run(
            command, cwd=ROOT,
            env={"SYMBOLICATED": shlex.quote(os.path.join(directory, "symbolicated")), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
        )  # fmt: skip
        try:
            suite = xml.etree.ElementTree.parse(report).getroot().find("testsuite")
        except (OSError, xml.etree.ElementTree.ParseError):
            current.part.counts.add(failed=1)
            return
        total, bad, skipped = (
            int(suite.get("tests")), int(suite.get("failures")) + int(suite.get("errors")), int(suite.get("skipped")),
        )  # fmt: skip
        if bad == 0 and code:
            bad = 1
        for case in suite.iter("testcase"):
            for problem in [*case.iter("failure"), *case.iter("error")]:
                current.part.failures.append(f"{case.get('classname')} {case.get('name')}: {(problem.get('message') or '')[:300]}")
        left_out.update(case.get("message") for case in suite.iter("skipped"))
        current.part.counts.add(max(0, total - bad - skipped), bad, skipped)


def clang_format():
    """The program of the version that the sources are formatted with: others put lines elsewhere. None: it is not here."""
    for name in (f"clang-format-{CLANG_FORMAT}", "clang-format"):
        if shutil.which(name):
            text = subprocess.run([name, "--version"], capture_output=True, text=True, check=False).stdout
            if f"version {CLANG_FORMAT}." in text:
                return name
    return None


def check_format():
    program = clang_format()
    if not program:
        left_out[f"clang-format {CLANG_FORMAT} is not here, and no other version formats as it does"] += 1
        current.part.counts.add(skipped=1)
        return
    files = []
    for folder in FORMATTED:
        for pattern in ("*.c", "*.h"):
            files += glob.glob(os.path.join(ROOT, folder, "**", pattern), recursive=True)
    current.part.counts.one(run([program, "--dry-run", "-Werror", f"--style=file:{ROOT}/.clang-format", *sorted(files)]) == 0)


def check_unit():
    unit("check")


def check_wire():
    wire("check")


def tell(command, env=None):
    """Runs a program whose last line is counts; what it leaves out as a whole it says in capitals."""
    with tempfile.TemporaryFile("w+") as out:
        code = run(command, stdout=out, env=env or {})
        out.seek(0)
        text = out.read()
    print(text, end="", file=current.part.out, flush=True)
    found = re.search(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", text, re.M)
    passed, failed, skipped = map(int, found.groups()) if found else (0, 1, 0)
    current.part.counts.add(passed, max(failed, int(code != 0)), skipped)
    current.part.failures.extend(line.strip()[:300] for line in re.findall(r"^    \S+: .*", text, re.M))
    for reason in re.findall(r"^[A-Z ]+ TRIED: .*", text, re.M):
        left_out[reason] += skipped


def faults(*options):
    """The short form."""
    directory = built("check")
    if directory:
        program = os.path.join(ROOT, "tests", "faults", "run.py")
        command = [sys.executable, program, *options, "--short", "--seed", os.environ.get("SEED", "1")]
        tell(command, {"SYMBOLICATED": shlex.quote(os.path.join(directory, "symbolicated"))})


def check_faults():
    faults()


def check_hosts():
    faults("--hosts")


def check_container():
    tell([sys.executable, os.path.join(ROOT, "tests", "tools", "try_container.py")])


def check_clang():
    unit("check-clang", ["TESTS=" + " ".join(OF_CLANG)])


def check_valgrind():
    directory = built("check")
    if not directory:
        return
    tests = []
    for folder, pattern in (("unit", "test_*[a-z0-9]"), ("fuzz", "fuzz_*[a-z0-9]")):
        for path in sorted(glob.glob(os.path.join(directory, "tests", folder, pattern))):
            if os.access(path, os.X_OK) and not path.endswith(UNDER_VALGRIND_TOO_LONG):
                tests.append(os.path.relpath(path, directory))
    tests.sort(key=lambda test: not test.endswith(LONG_UNDER_VALGRIND))
    unit("check", [f"LOG_COMPILER={VALGRIND}", "TESTS=" + " ".join(tests)], {"UNDER_VALGRIND": "1"})


def check_asan():
    unit("check-asan", env=SANITIZER_OPTIONS)
    wire("check-asan", SANITIZER_OPTIONS, WITHOUT_DAEMON)


def check_tsan():
    unit("check-tsan", ["TESTS=" + " ".join(WITH_THREADS)], SANITIZER_OPTIONS)
    wire("check-tsan", SANITIZER_OPTIONS, WITHOUT_DAEMON + WITHOUT_RACES)


def check_distcheck():
    directory = built("check")
    if directory:
        with open(os.path.join(directory, "distcheck.log"), "wb") as log:
            # the tarball is complete; that all tests pass, and what is optimised, was seen before
            quickly = ["DISTCHECK_CONFIGURE_FLAGS=CFLAGS=-O0", f"AM_MAKEFLAGS=TESTS='{' '.join(OF_CLANG)}'"]
            code = run(["make", f"-j{os.cpu_count()}", "-C", directory, "distcheck", *quickly], stdout=log, stderr=log)
        if code:
            run(["tail", "-n", "60", os.path.join(directory, "distcheck.log")])
        current.part.counts.one(code == 0)


PARTS = {  # and the build that a part is about
    "format": (check_format, None),
    "unit": (check_unit, "check"),
    "wire": (check_wire, "check"),
    "faults": (check_faults, "check"),
    "hosts": (check_hosts, "check"),
    "clang": (check_clang, "check-clang"),
    "valgrind": (check_valgrind, "check"),
    "container": (check_container, None),
    "asan": (check_asan, "check-asan"),
    "tsan": (check_tsan, "check-tsan"),
    "distcheck": (check_distcheck, "check"),
}


# While this part, which mostly waits, goes on, that one does too, at a lower priority; what it prints is told in its own place.
BESIDE = {"faults": "valgrind", "hosts": "container"}


def run_part(name, part):
    current.part = part
    started = time.monotonic()
    PARTS[name][0]()
    part.seconds = time.monotonic() - started


def check(names, pool):
    """Runs parts and tells of each; returns their counts and failures."""
    total, beside = Part(), {}
    for i, name in enumerate(names):
        print(f"== {name}", flush=True)
        other = BESIDE.get(name)
        if other in names[i:]:
            part = Part(tempfile.TemporaryFile("w+"), behind=True)
            beside[other] = part, pool.submit(run_part, other, part)
        if name in beside:
            part, future = beside[name]
            catch_up(part)
            future.result()
            part.out.seek(0)
            print(part.out.read(), end="", flush=True)
        else:
            part = Part()
            run_part(name, part)
        print(f"== {name}: {part.counts} in {part.seconds:.0f} s{' beside others' if name in beside else ''}", flush=True)
        total.counts.add(part.counts.passed, part.counts.failed, part.counts.skipped)
        failures = part.failures or (["see what it printed"] if part.counts.failed else [])
        total.failures += [f"{name}: {line}" for line in failures]
    return total


def on_terminate(*_):
    sys.exit(1)


def main():
    parser = argparse.ArgumentParser(prog="./check")
    parser.add_argument("parts", nargs="*", metavar="PART", help=" ".join(PARTS))
    parser.add_argument("--seed", type=int, metavar="N", help="other random data than always")
    given = parser.parse_args()
    wanted = given.parts or list(PARTS)
    if given.seed is not None:
        os.environ["SEED"] = str(given.seed)
        print(f"seed {given.seed}", flush=True)
    for part in wanted:
        if part not in PARTS:
            parser.error(f"no part {part}: {' '.join(PARTS)}")
    signal.signal(signal.SIGTERM, on_terminate)
    pools = [concurrent.futures.ThreadPoolExecutor(1) for _ in range(2)]
    for name in dict.fromkeys(PARTS[part][1] for part in wanted if PARTS[part][1]):
        part = Part(behind=bool(builds))
        builds[name] = part, pools[0].submit(build, name, part)
    try:
        total = check(wanted, pools[1])
    finally:
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)
        for process in list(processes):
            if process.poll() is None:
                stop(process)
    for reason, number in left_out.most_common():
        print(f"left out: {number}: {reason}")
    for line in total.failures:
        print(f"failed: {line}")
    print(total.counts, flush=True)
    return 1 if total.counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
