#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes one place of the sources at a time, and sees whether a test notices.

    mutate.py [--count 300] [--seed N] [--work DIRECTORY] [--again RESULTS] [--minutes M] [--slow] [FILE...]

FILE: sources to change; without any, those of ROOMS. The places are drawn by the seed. A change that gives the same
object code, or does not compile, is not counted. Each other one is built into the tests that reach its line (by gcov), quickest
first: unit tests, then wire tests, file by file; not the slow ones, without --slow. A test that fails is run once more, so that chance kills nothing; one that does not end has ten times
its usual time and a minute, and more on a busy machine.
--work keeps the two builds and the table of which test reaches what, for the next time; --again tries the survivors of an
earlier run. tests/data/mutants.txt lists changes that no test can notice, with the reason; they count as killed, and are told.

Prints a line for each change, and at the end how many were killed; RESULTS is DIRECTORY/results.json. Exit 1: below 95 %."""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROOMS = ("api", "base", "cache", "front", "json", "map", "modules", "objects", "sym", "symbfile", "text", "uploads")
# Wire tests of the page, of nginx's files and of what is installed: they reach much and look at little of it.
OTHER_WIRE = {"test_page.py", "test_page_pictures.py", "test_prometheus.py", "test_setup.py", "test_nginx_errors.py", "test_stunnel.py", "test_docs.py"}
EQUIVALENT = os.path.join("tests", "data", "mutants.txt")
TARGET = 0.95
NO_TESTS = 5  # pytest's exit code
TYPES = ("-Werror=incompatible-pointer-types", "-Werror=int-conversion", "-Werror=discarded-qualifiers")  # arguments that change places
COMMAND = 1800  # seconds for a build or a test whose usual time is not known
SWAPS = {
    "<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="), "==": ("!=",), "!=": ("==",),
    "&&": ("||",), "||": ("&&",), " + ": (" - ",), " - ": (" + ",), "++": ("--",), "--": ("++",), "+=": ("-=",), "-=": ("+=",),
}  # fmt: skip
BLANK = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:[^\\\n]|\\.|\\\n)*', re.S | re.M)
FUNCTION = re.compile(r"^\{\n.*?^\}", re.S | re.M)
OPERATOR = re.compile(r"(?<= )(?:[<>]=?|[=!]=|&&|\|\||[+-]=)(?= )|\+\+|--|(?<=[\w)\]]) [+-] (?=[\w(])")
NUMBER = re.compile(r"(?<![\w.])(?:0x[0-9a-fA-F]+|\d+)(?=[uUlL]*(?![\w.]))")
NOT = re.compile(r"(?<![\w)])!(?=[\w(])")
CONDITION = re.compile(r"\bif \((.*)\)(?= \{$|$)", re.M)
STATEMENT = re.compile(r"^\t+((?!return\b|goto\b|break\b|continue\b|log_\w+\()[\w.>\-\[\]*]+(?:\(| [-+|&^*/%<>]*= |\+\+|--)[^;{}]*;)$", re.M)
ARGUMENTS = re.compile(r"(?<=\w)\(([\w.>\-]+), ([\w.>\-]+)(?=[,)])")


class Change:
    def __init__(self, path, text, start, end, new, kind):
        self.path, self.start, self.end, self.new, self.kind = path, start, end, new, kind
        self.line = text.count("\n", 0, start) + 1
        first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
        self.before = text[first:last].strip()
        self.after = (text[first:start] + new + text[end:last]).strip()

    def key(self):
        return self.path, self.before, self.after

    def __str__(self):
        return f"{self.path}:{self.line}: {self.kind}: {self.before}  ->  {self.after}"


def changes_of(path):
    """All that could be changed in a file."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = f.read()
    plain = BLANK.sub(lambda m: re.sub(r"[^\n]", "\x01", m.group()), text)  # strings, comments and # lines are left alone
    found = []

    def add(start, end, new, kind):
        found.append(Change(path, text, start, end, new, kind))

    for function in FUNCTION.finditer(plain):
        first, last = function.span()
        for m in OPERATOR.finditer(plain, first, last):
            for new in SWAPS[m.group()]:
                add(*m.span(), new, "operator")
        for m in NUMBER.finditer(plain, first, last):
            octal = re.fullmatch(r"0\d+", m.group())
            add(*m.span(), str(int(m.group(), 8 if octal else 0) + 1), "constant")
        for m in NOT.finditer(plain, first, last):
            add(*m.span(), "", "negation")
        for m in CONDITION.finditer(plain, first, last):
            add(*m.span(1), "0", "condition")
            add(*m.span(1), "1", "condition")
        for m in STATEMENT.finditer(plain, first, last):
            add(*m.span(1), ";", "statement")
        for m in ARGUMENTS.finditer(plain, first, last):
            if m.group(1) != m.group(2):
                add(*m.span(), f"({text[slice(*m.span(2))]}, {text[slice(*m.span(1))]}", "arguments")
        if plain[:first].rstrip().rsplit("\n", 1)[-1].startswith(("void ", "static void ")):
            add(first + 1, first + 1, " return;", "early return")
    return found


def run(command, bound=COMMAND, **options):
    """Exit code and output; None instead of a code when it took too long."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True, **options)
        try:
            code = process.wait(bound)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            try:
                os.killpg(process.pid, 9)
            except ProcessLookupError:
                pass
            process.wait()
        out.seek(0)
        return code, out.read().decode(errors="replace")


def must(command, **options):
    code, out = run(command, **options)
    if code != 0:
        sys.exit(f"{' '.join(command)}: {code}\n{out[-3000:]}")
    return out


class Tree:
    """A copy of the sources, built; one for coverage, one for the changes."""

    def __init__(self, work, name, flags, slow):
        self.slow = slow
        self.root = os.path.join(work, name)
        self.build = os.path.join(self.root, "build", "check")
        self.wire_environment = {
            **os.environ, "PYTHONDONTWRITEBYTECODE": "1", "SYMBOLICATED": os.path.join(self.build, "symbolicated"),
            "SYMBTOOL": os.path.join(self.build, "symbtool"),
        }  # fmt: skip
        if not os.path.exists(self.build):
            os.makedirs(self.root, exist_ok=True)
            names = must(["git", "-C", ROOT, "ls-files", "-z"]).split("\0")
            for path in filter(None, names):
                target = os.path.join(self.root, path)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy2(os.path.join(ROOT, path), target)
        script = os.path.join(self.root, "tests", "tools", "build.sh")
        must([script, self.build, f"CFLAGS={flags}", "--without-seccomp"], env={**os.environ, "BUILD_TESTS": "1"})

    def unit_tests(self):
        folder = os.path.join(self.build, "tests", "unit")
        return sorted(n for n in os.listdir(folder) if n.startswith("test_") and "." not in n and os.path.isfile(os.path.join(folder, n)))

    def wire_tests(self):
        return sorted(n for n in os.listdir(os.path.join(self.root, "tests", "wire")) if n.startswith("test_") and n not in OTHER_WIRE)

    def run_test(self, name, bound=COMMAND):
        """Exit code and output of a unit test or of a file of wire tests; 0 when all of its tests are slow."""
        if name.endswith(".py"):
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", "2", os.path.join(self.root, "tests", "wire", name)]
            if not self.slow:
                command += ["-m", "not slow"]
                code, out = run(command, bound, cwd=self.root, env=self.wire_environment)
                return (0 if code == NO_TESTS else code), out
            return run(command, bound, cwd=self.root, env=self.wire_environment)
        environment = {**os.environ, "srcdir": self.root, "SYMBOLICATED_KEYS": "./symbolicated-keys"}
        return run([os.path.join("tests", "unit", name)], bound, cwd=self.build, env=environment)


def covered(build):
    """The lines of src that ran since the last time, by path. Some unit tests include a file of src."""
    data = []
    for top in ("src", os.path.join("tests", "unit")):
        for folder, _, names in os.walk(os.path.join(build, top)):
            data += [os.path.join(folder, n) for n in names if n.endswith(".gcda")]
    lines = {}
    if data:
        out = must(["gcov", "--json-format", "--stdout", *data], cwd=build)
        for document in filter(None, out.split("\n")):
            for file in json.loads(document)["files"]:
                name = os.path.normpath(os.path.join(build, file["file"]))
                if os.sep + "src" + os.sep in name:
                    path = "src" + os.sep + name.rsplit(os.sep + "src" + os.sep, 1)[1]
                    lines.setdefault(path, set()).update(x["line_number"] for x in file["lines"] if x["count"])
    for path in data:
        os.remove(path)
    return lines


def table_of(work, slow):
    """Which test reaches which lines, and how long it takes."""
    path, table = os.path.join(work, "coverage.json"), {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            table = json.load(f)
    tree = Tree(work, "coverage", "-O0 -g --coverage -fprofile-update=atomic", slow)
    covered(tree.build)
    for name in tree.unit_tests() + tree.wire_tests():
        if name in table:
            continue
        begin = time.monotonic()
        code, out = tree.run_test(name)
        seconds = time.monotonic() - begin
        if code != 0:
            print(f"{name} fails unchanged ({code}), so it is left out: {out[-300:]}", flush=True)
        lines = covered(tree.build)
        if code == 0:
            table[name] = {"seconds": seconds, "lines": {p: sorted(x) for p, x in lines.items()}}
            print(f"{name}: {seconds:.1f} s, {sum(map(len, lines.values()))} lines", flush=True)
            with open(path, "w", encoding="utf-8") as f:
                json.dump(table, f)
    return table


class Trial:
    def __init__(self, work, slow):
        self.table = table_of(work, slow)
        self.tree = Tree(work, "changed", "-O1", slow)
        self.objects = os.path.join(work, "objects")
        os.makedirs(self.objects, exist_ok=True)
        include = [f"-I{os.path.join(self.tree.root, 'src')}", f"-I{self.tree.build}"]
        packages = must(["pkg-config", "--cflags", "jansson", "libcurl", "libelf", "libdw"]).split()
        self.compile = ["gcc", "-std=gnu11", "-O2", *TYPES, "-DHAVE_CONFIG_H", "-D_GNU_SOURCE", *include, *packages, "-c"]

    def object_code(self, path):
        """The bytes that the compiler makes of a source; None: it refuses."""
        out = os.path.join(self.objects, "one.o")
        code, _ = run([*self.compile, "-o", out, os.path.join(self.tree.root, path)])
        if code != 0:
            return None
        must(["objcopy", "--strip-all", "-R", ".comment", out])
        with open(out, "rb") as f:
            return f.read()

    def tests_for(self, change):
        reach, line = [], change.line  # gcov tells of the first line of a statement
        while not reach and line > change.line - 8:
            reach = [n for n, t in self.table.items() if line in t["lines"].get(change.path, ())]
            line -= 1
        return sorted(reach, key=lambda n: (n.endswith(".py"), self.table[n]["seconds"]))

    def killed_by(self, change):
        """The test that fails; None when none does; "" when it is no change, or does not compile."""
        path = os.path.join(self.tree.root, change.path)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        before = self.object_code(change.path)
        try:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text[: change.start] + change.new + text[change.end :])
            after = self.object_code(change.path)
            if after is None or before is None or after == before:
                return ""
            return self.first_failure(change)
        finally:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)

    def first_failure(self, change):
        programs = False
        for name in self.tests_for(change):
            unit = not name.endswith(".py")
            if unit or not programs:
                targets = [f"tests/unit/{name}"] if unit else ["all"]  # wire tests make the tools that they need
                code, out = run(["make", "-s", "-j2", "-C", self.tree.build, *targets])
                if code != 0:
                    if "error:" not in out:
                        print(f"not counted, the build of {name} failed: {change}", flush=True)
                    return ""
                programs = not unit
            bound = (10 * self.table[name]["seconds"] + 60) * max(1, os.getloadavg()[0] / os.cpu_count())
            if self.tree.run_test(name, bound)[0] != 0:
                code, _ = self.tree.run_test(name, bound)
                if code != 0:
                    return name if code is not None else f"{name} does not end"
        return None


def equivalents():
    """What tests/data/mutants.txt lists: path, before, after and why, a line each, in blocks."""
    path = os.path.join(ROOT, EQUIVALENT)
    known = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            for block in f.read().split("\n\n"):
                lines = [line for line in block.split("\n") if line and not line.startswith("#")]
                if lines:
                    path, before, after, why = lines
                    known[path, before, after] = why
    return known


def chosen(given):
    """The changes to try, in the order of the seed."""
    files = given.files or sorted(
        os.path.join("src", room, name) for room in ROOMS for name in os.listdir(os.path.join(ROOT, "src", room)) if name.endswith(".c")
    )
    changes = [c for path in files for c in changes_of(os.path.relpath(os.path.abspath(path), ROOT) if given.files else path)]
    if given.again:
        with open(given.again, encoding="utf-8") as f:
            survivors = [tuple(r["key"]) for r in json.load(f) if r["by"] is None]
        return [next(c for c in changes if c.key() == key) for key in survivors if any(c.key() == key for c in changes)]
    random.Random(given.seed).shuffle(changes)
    return changes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", metavar="DIRECTORY")
    parser.add_argument("--again", metavar="RESULTS")
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--minutes", type=float, default=600, help="begin no change after so long")
    given = parser.parse_args()
    work = os.path.abspath(given.work) if given.work else tempfile.mkdtemp(prefix="mutate-")
    os.makedirs(work, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))  # what was changed is put back
    print(f"seed {given.seed}", flush=True)
    known, changes = equivalents(), chosen(given)
    trial = Trial(work, given.slow)
    results, end = [], time.monotonic() + 60 * given.minutes
    try:
        for change in changes:
            if len(results) == given.count or time.monotonic() > end:
                break
            why = known.get(change.key())
            by = f"listed: {why}" if why else trial.killed_by(change)
            if by == "":
                continue
            results.append({"key": change.key(), "line": change.line, "by": by})
            with open(os.path.join(work, "results.json"), "w", encoding="utf-8") as f:
                json.dump(results, f, indent=1)
            print(f"{len(results)} {'SURVIVED' if by is None else 'killed'} {change}" + (f"  ({by})" if by else ""), flush=True)
    finally:
        if not given.work:
            for name in ("coverage", "changed"):
                shutil.rmtree(os.path.join(work, name), ignore_errors=True)
    listed = sum(1 for r in results if r["by"] and r["by"].startswith("listed: "))
    killed = sum(1 for r in results if r["by"])
    print(f"{killed} of {len(results)} killed, {listed} of them listed as equivalent; {os.path.join(work, 'results.json')}")
    return 0 if results and killed >= TARGET * len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
