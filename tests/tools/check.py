#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ./check does once the packages are there: builds and tests, part by part, and one line of counts at the end."""

import argparse
import collections
import concurrent.futures
import functools
import glob
import os
import re
import select
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
S3_SERVER = os.path.join(ROOT, "tests", "tools", "s3_server.py")
SILENCE = 900  # seconds: a command that prints nothing for so long hangs
CLANG_FORMAT = 14  # Debian 12's
WORKERS = "8"  # of pytest: most tests wait more than they compute
# Sources that are held to .clang-format.
FORMATTED = ("src", "tests/unit", "tests/fuzz", "tests/bench")
# Wire tests in which a sanitizer has nothing new to see: of documents, nginx's files, Prometheus, the page, clocks and the tests
# themselves; those that judge names, by requests as others make them; and those that need the usual allocations, or look at memcached's.
WITHOUT_DAEMON = (
    "test_bench.py", "test_clients.py", "test_clocks.py", "test_docs.py", "test_extstore.py", "test_formats.py", "test_new_user.py",
    "test_nginx_errors.py", "test_nginx_keys.py", "test_nginx_public.py", "test_nginx_settings.py", "test_oom.py", "test_page.py",
    "test_page_pictures.py", "test_page_programs.py", "test_page_samples.py", "test_profiler.py", "test_prometheus.py", "test_setup.py", "test_stack.py", "test_stunnel.py",
)  # fmt: skip
# Programs of one thread, as storectl of the stores, and one request after the other about what goes in and out: nothing that two threads
# could race for.
WITHOUT_RACES = (
    "test_bombs.py", "test_build_ids.py", "test_corners.py", "test_debuginfod.py", "test_error_headers.py", "test_errors.py", "test_filter.py",
    "test_manners.py", "test_missing.py", "test_segments.py", "test_store.py", "test_symbfile_store.py", "test_symbtool.py", "test_text.py", "test_v4.py", "test_v5.py", "test_zip_uploads.py",
)  # fmt: skip
VALGRIND = (
    "valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite,indirect "
    "--errors-for-leak-kinds=definite,indirect --child-silent-after-fork=yes"
)
# Unit tests in which there are threads.
WITH_THREADS = [f"tests/unit/test_{name}" for name in (
    "arrival", "background", "bucket", "front", "hot_frames", "leases", "load", "loads_places", "loads_turns", "loads_waits", "memcached", "page_cache", "periodic", "s3", "symbfile_store",
    "symbtool", "symmap",
)]  # fmt: skip
# Of the tarball: enough to see that what clang makes of it, with zlib, works; all is compiled.
OF_CLANG = [f"tests/unit/test_{name}" for name in ("base", "gzip", "offmap", "request_json", "symbfile_map")]
# AddressSanitizer sees the same errors at a tenth of the cost, but for values that were never set: valgrind runs what decides by
# bytes from outside, and the replays of the fuzzers.
UNDER_VALGRIND = [f"tests/unit/test_{name}" for name in (
    "auth", "base", "build_id", "config", "front", "gzip", "mac", "offmap", "outcomes", "request_json", "s3_sign", "symbfile",
)]  # fmt: skip
# Not beside the sources.
COMPILED_ONCE = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": os.path.join(ROOT, "build", "pycache")}
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:exitcode=99",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "second_deadlock_stack=1:exitcode=99",
}
# By lld each of a hundred links takes a third of the time; the linker of gcc makes the container's programs.
ALWAYS = ["--enable-werror", *(["LDFLAGS=-fuse-ld=lld"] if shutil.which("ld.lld") else [])]
# Lines alone, and -O1 where a sanitizer watches: all is seen and told as well, and gcc takes less time
WATCHED = [*ALWAYS, "CFLAGS=-g1 -O1"]
BUILDS = {
    "check": [*ALWAYS, "CFLAGS=-g1 -O2"],
    "check-asan": ["--enable-sanitizer=address", *WATCHED],
    "check-tsan": ["--enable-sanitizer=thread", *WATCHED],
}
PROGRAMS = {"check-tsan": " ".join(WITH_THREADS)}  # of tests, where a build needs few


class Part:
    """What came of a part, and where its programs write: None for standard output."""

    def __init__(self, out=None):
        self.passed = self.failed = self.skipped = 0
        self.processor = 0.0  # seconds, of programs that have ended
        self.failures, self.out = [], out

    def add(self, passed=0, failed=0, skipped=0):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped

    def one(self, ok):
        self.add(passed=int(ok), failed=int(not ok))

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


class Current(threading.local):
    part = Part()  # that which this thread runs


current = Current()
left_out = collections.Counter()  # what was skipped, by its reason
processes = set()  # that run
# One build after the other, while what is built already is tested: tests wait for something now and then.
builder = concurrent.futures.ThreadPoolExecutor(1)
pool = concurrent.futures.ThreadPoolExecutor(8)
builds = {}  # by name
directories = {}  # of builds that are done and counted
counting = threading.Lock()


def stop(process):
    """Ends a process that runs, and its group: first as Ctrl-C does, so that pytest names what failed."""
    for number, patience in ((signal.SIGINT, 60), (signal.SIGTERM, 60), (signal.SIGKILL, None)):
        if process.poll() is not None:
            break
        # The group of a program that was interrupted ends with it; pytest's workers must not be interrupted themselves.
        (os.kill if number == signal.SIGINT else os.killpg)(process.pid, number)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def forward(process, out):
    """Passes on what a process prints, to its end; returns false once it has been silent for SILENCE."""
    last = time.monotonic()
    while time.monotonic() - last < SILENCE:
        if select.select([process.stdout], [], [], 1)[0]:
            piece = os.read(process.stdout.fileno(), 65536)
            if not piece:
                current.part.processor += processor_seconds(process)
                process.wait()
                return True
            out.write(piece)
            out.flush()
            last = time.monotonic()
        elif process.poll() is not None:  # what it left behind still holds the pipe
            return True
    return False


def processor_seconds(process):
    """Of a program that has ended but was not waited for, and of those that it has waited for."""
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with open(f"/proc/{process.pid}/stat", encoding="utf-8") as f:
        return sum(map(int, f.read().rpartition(")")[2].split()[11:15])) / os.sysconf("SC_CLK_TCK")


def run(command, **options):
    """Runs one command to its end, or until it is silent for too long; returns its exit code. Its process group ends with it, also
    when this program is interrupted."""
    part = current.part
    environment = {**os.environ, **options.pop("env", {})}
    out = options.pop("stdout", None) or (part.out.buffer if part.out else sys.stdout.buffer)
    process = subprocess.Popen(command, env=environment, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    processes.add(process)
    try:
        if forward(process, out):
            return process.returncode
        out.write(f"silent for {SILENCE} s, so it is ended: {shlex.join(command)}\n".encode())
        return 1
    finally:
        if process.poll() is None:
            stop(process)
        processes.discard(process)


def build(name):
    """Builds build/NAME, the tests too; returns its directory, or None."""
    current.part, directory = Part(), os.path.join(ROOT, "build", name)
    code = run([BUILD, directory, *BUILDS[name]], env={"BUILD_TESTS": PROGRAMS.get(name, "1")})
    print(f"== build/{name}: processor {current.part.processor:.0f} s", flush=True)
    return directory if code == 0 else None


def run_part(function, part):
    current.part = part
    started = time.monotonic()
    function()
    part.seconds = time.monotonic() - started


class Beside:
    """What is done while this thread does something else."""

    def __init__(self, function):
        self.part = Part(tempfile.TemporaryFile("w+"))
        self.future = pool.submit(run_part, function, self.part)

    def end(self):
        """Waits for it and tells what it printed; returns what came of it."""
        self.future.result()
        self.part.out.seek(0)
        print(self.part.out.read(), end="", flush=True)
        return self.part


def built(name):
    """Waits for a build; returns its directory, or None. A build counts as one test."""
    with counting:
        if name not in directories:
            directories[name] = builds[name].result()
            current.part.one(directories[name] is not None)
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


def unit(name, tests=None, env=None, compiler=None):
    """`make check` in a build; the logs of what failed are shown by automake (VERBOSE)."""
    directory = built(name)
    if not directory:
        return
    for trs in glob.glob(os.path.join(directory, "tests", "**", "*.trs"), recursive=True):
        os.remove(trs)
    jobs = os.cpu_count() + 2  # some tests wait more than they compute
    given = {"TESTS": tests, "LOG_COMPILER": compiler, "check_PROGRAMS": PROGRAMS.get(name)}
    variables = [f"{variable}={value}" for variable, value in given.items() if value]
    variables += ["check_LIBRARIES="] if name in PROGRAMS else []
    code = run(["make", "-s", f"-j{jobs}", "-C", directory, "check", "VERBOSE=1", *variables], env=env or {})
    passed, failed, skipped = results(directory)
    # A make that fails without a failed test, or runs none, is a failure too.
    if failed == 0 and (code or not passed):
        failed = 1
    current.part.add(passed, failed, skipped)


@functools.cache
def compiled():
    """The wire tests, as Python keeps them: each of pytest's workers compiles what is not there, all eight at once."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only", os.path.join(ROOT, "tests", "wire")]
    return pool.submit(subprocess.run, command, cwd=ROOT, env={**os.environ, **COMPILED_ONCE}, capture_output=True, check=False)


def wire(name, env=None, ignore=(), select_by=None):
    directory = built(name)
    if not directory:
        return
    compiled().result()
    with tempfile.TemporaryDirectory(prefix="sym-check-") as temporary:
        report = os.path.join(temporary, "report.xml")
        command = [
            sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", "-n", WORKERS, "--dist", "load", f"--junitxml={report}", f"--basetemp={temporary}/t",
            *(["-m", select_by] if select_by else []),
            *(f"--ignore={os.path.join(ROOT, 'tests', 'wire', i)}" for i in ignore), os.path.join(ROOT, "tests", "wire"),
        ]  # fmt: skip
        code = run(
            command, cwd=ROOT,
            env={"SYMBOLICATED": shlex.quote(os.path.join(directory, "symbolicated")), **COMPILED_ONCE, **(env or {})},
        )  # fmt: skip
        try:
            suite = xml.etree.ElementTree.parse(report).getroot().find("testsuite")
        except (OSError, xml.etree.ElementTree.ParseError):
            current.part.add(failed=1)
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
        current.part.add(max(0, total - bad - skipped), bad, skipped)


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
        current.part.add(skipped=1)
        return
    files = []
    for folder in FORMATTED:
        for pattern in ("*.c", "*.h"):
            files += glob.glob(os.path.join(ROOT, folder, "**", pattern), recursive=True)
    current.part.one(run([program, "--dry-run", "-Werror", f"--style=file:{ROOT}/.clang-format", *sorted(files)]) == 0)


def tell(command, env=None):
    """Runs a program whose last line is counts; what it leaves out as a whole it says in capitals."""
    with tempfile.TemporaryFile() as out:
        code = run(command, stdout=out, env=env or {})
        out.seek(0)
        text = out.read().decode(errors="replace")
    print(text, end="", file=current.part.out, flush=True)
    found = re.search(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", text, re.M)
    passed, failed, skipped = map(int, found.groups()) if found else (0, 1, 0)
    current.part.add(passed, max(failed, int(code != 0)), skipped)
    current.part.failures.extend(line.strip()[:300] for line in re.findall(r"^    \S+: .*", text, re.M))
    for reason in re.findall(r"^[A-Z ]+ TRIED: .*", text, re.M):
        left_out[reason] += skipped


def short_form(folder, *options):
    """Of tests/FOLDER/run.py."""
    directory = built("check")
    if directory:
        program = os.path.join(ROOT, "tests", folder, "run.py")
        command = [sys.executable, program, *options, "--short", "--seed", os.environ.get("SEED", "1")]
        tell(command, {"SYMBOLICATED": shlex.quote(os.path.join(directory, "symbolicated"))})


def check_faults():
    short_form("faults")
    short_form("faults", "--sources", "--cores", "1", "--cores", "2")


def check_container():
    tell([sys.executable, os.path.join(ROOT, "tests", "tools", "try_container.py")])


def check_packages():
    """Each on a machine of its own, one after the other: they share what apt has fetched."""
    if os.getuid() != 0 or not shutil.which("debootstrap"):
        left_out["no packages tried: bare_root.py needs root and debootstrap"] += 1
        current.part.add(skipped=1)
        return
    for release in ("12", "13"):
        tell([os.path.join(ROOT, "tests", "tools", "bare_root.py"), "--boot", release, "tests/tools/try_package.py"])


def check_valgrind():
    directory = built("check")
    if directory:
        fuzz = [path for path in sorted(glob.glob(os.path.join(directory, "tests", "fuzz", "fuzz_*[a-z0-9]"))) if os.access(path, os.X_OK)]
        tests = [*UNDER_VALGRIND, *(os.path.relpath(path, directory) for path in fuzz)]
        unit("check", " ".join(tests), {"UNDER_VALGRIND": "1"}, VALGRIND)


def check_sanitizer(name, tests, ignore, select_by):
    """The unit tests beside the wire tests: some of them wait for most of a minute."""
    if not built(name):
        return
    units = Beside(lambda: unit(name, tests, SANITIZER_OPTIONS))
    wire(name, SANITIZER_OPTIONS, ignore, select_by)
    part = units.end()
    current.part.add(part.passed, part.failed, part.skipped)
    current.part.processor += part.processor
    current.part.failures += part.failures


def check_asan():
    # test_background is about shares of a core, for which it computes half a minute here
    check_sanitizer("check-asan", "$(filter-out tests/unit/test_background,$(PROGRAM_TESTS))", WITHOUT_DAEMON, "not plain")


def check_tsan():
    check_sanitizer("check-tsan", " ".join(WITH_THREADS), WITHOUT_DAEMON + WITHOUT_RACES, "not plain and not in_turn")


def check_distcheck():
    directory = built("check")
    if directory:
        with open(os.path.join(directory, "distcheck.log"), "wb") as log:
            # the tarball is complete, and clang has nothing to say; that all tests pass, and what is optimised, was seen before
            flags = f"DISTCHECK_CONFIGURE_FLAGS={' '.join(ALWAYS)} --without-isal CC=clang CFLAGS=-O0"
            tests = f"AM_MAKEFLAGS=TESTS='{' '.join(OF_CLANG)}'"
            code = run(["make", f"-j{os.cpu_count()}", "-C", directory, "distcheck", "GZIP_ENV=--fast", flags, tests], stdout=log)
        if code:
            run(["tail", "-n", "60", os.path.join(directory, "distcheck.log")])
        current.part.one(code == 0)


WITH_WIRE = {"wire", "asan", "tsan"}
WITH_S3 = {"wire", "faults", "hosts", "container", "asan", "tsan"}
PARTS = {  # and the build that a part is about
    "format": (check_format, None),
    "unit": (lambda: unit("check"), "check"),
    "wire": (lambda: wire("check"), "check"),
    "siege": (lambda: short_form("siege"), "check"),
    "faults": (check_faults, "check"),
    "hosts": (lambda: short_form("faults", "--hosts"), "check"),
    "valgrind": (check_valgrind, "check"),
    "container": (check_container, None),
    "packages": (check_packages, None),
    "asan": (check_asan, "check-asan"),
    "tsan": (check_tsan, "check-tsan"),
    "distcheck": (check_distcheck, "check"),
}
QUICK = {
    "format": (check_format, None),
    "unit": (lambda: unit("check", "$(QUICK_TESTS)"), "check"),
    "wire": (lambda: wire("check", select_by="not slow or quick"), "check"),
}

# While one of these parts goes on, which have times in which they wait, those do too; what they print is told in their own place.
BESIDE = {"unit": ("container", "packages"), "faults": ("hosts", "valgrind"), "tsan": ("distcheck",)}


def check(parts):
    """Runs parts and tells of each; returns their sum."""
    total, beside = Part(), {}
    for name, (function, _) in parts.items():
        print(f"== {name}", flush=True)
        beside.update((other, Beside(parts[other][0])) for other in BESIDE.get(name, ()) if other in parts)
        if name in beside:
            part = beside[name].end()
        else:
            part = Part()
            run_part(function, part)
        times = f"{part.seconds:.0f} s{' beside others' if name in beside else ''}, processor {part.processor:.0f} s"
        print(f"== {name}: {part} in {times}", flush=True)
        total.add(part.passed, part.failed, part.skipped)
        failures = part.failures or (["see what it printed"] if part.failed else [])
        total.failures += [f"{name}: {line}" for line in failures]
    return total


def chosen(names, parser):
    """The parts to run, each with its function and build."""
    if not names:
        return QUICK
    unknown = [name for name in names if name not in PARTS and name != "all"]
    if unknown:
        parser.error(f"no part {unknown[0]}: all {' '.join(PARTS)}")
    return PARTS if "all" in names else {name: PARTS[name] for name in names}


def on_terminate(*_):
    sys.exit(1)


def main():
    parser = argparse.ArgumentParser(prog="./check")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"all {' '.join(PARTS)}")
    parser.add_argument("--seed", type=int, metavar="N", help="other random data than always")
    given = parser.parse_args()
    parts = chosen(given.parts, parser)
    if parts is QUICK:
        PROGRAMS["check"] = "$(WITHOUT_SLOW)"
    if given.seed is not None:
        os.environ["SEED"] = str(given.seed)
        print(f"seed {given.seed}", flush=True)
    signal.signal(signal.SIGTERM, on_terminate)
    for name in dict.fromkeys(name for _, name in parts.values() if name):
        builds[name] = builder.submit(build, name)
        if len(builds) == 1 and WITH_S3 & parts.keys():  # meanwhile the unit tests run; the tests of S3 say why there is none
            builder.submit(run, [sys.executable, S3_SERVER, "--build"])
    if WITH_WIRE & parts.keys():
        compiled()
    try:
        total = check(parts)
    finally:
        for executor in (builder, pool):
            executor.shutdown(wait=False, cancel_futures=True)
        for process in list(processes):
            if process.poll() is None:
                stop(process)
    for reason, number in left_out.most_common():
        print(f"left out: {number}: {reason}")
    if parts is QUICK:
        others = [name for name in PARTS if name not in QUICK]
        print(f"not run: slow tests of unit and wire, and {' '.join(others)}; ./check all runs everything")
    for line in total.failures:
        print(f"failed: {line}")
    print(total, flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
