#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes one place of the sources at a time, and sees whether a test notices.

    mutate.py [--count 300] [--seed N] [--work DIRECTORY] [--minutes M] [--slow] [--near | --tests T,T...]
              [--again RESULTS | --go-on] [FILE[:LINE]...]

FILE: sources to change, or one line of them; without any, those of ROOMS. The places are drawn by the seed. A change that gives
the same object code, or does not compile, is not counted. Each other one is built into the tests that reach its line (by gcov),
quickest first: unit tests, then wire tests, file by file; not the slow ones, without --slow. A test that fails is run once more,
so that chance kills nothing. One that does not end in four times its usual time and a minute kills only if it ends without the
change then.
--near: the unit tests that name most of what the file defines, without gcov. --tests: these, such as test_base, test_text.py or
test_text.py::test_methods.
--work keeps the builds and what is known of the tests for the next time. --again tries the survivors of an earlier run, or those
in the files named, and keeps what else it found; --go-on goes on with a draw that was ended. tests/data/mutants.txt lists
changes that no test can notice, with the reason; they count as killed, and are told.

Prints a line for each change, and at the end how many were killed; RESULTS is DIRECTORY/results.json. Exit 1: below 95 %."""

import argparse
import filecmp
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
ROOMS = ("api", "base", "cache", "front", "helper", "json", "map", "modules", "objects", "sym", "symbfile", "symfiles", "text", "uploads")
# Wire tests of the page, of nginx's files and of what is installed: they reach much and look at little of it.
OTHER_WIRE = {"test_page.py", "test_page_pictures.py", "test_prometheus.py", "test_setup.py", "test_nginx_errors.py", "test_stunnel.py", "test_docs.py"}
EQUIVALENT = os.path.join("tests", "data", "mutants.txt")
TARGET = 0.95
NO_TESTS = 5  # pytest's exit code
TYPES = ("-Werror=incompatible-pointer-types", "-Werror=int-conversion", "-Werror=discarded-qualifiers")  # arguments that change places
NEAR = 4  # unit tests of a file, with --near
COMMAND = 1800  # seconds for a build or a test whose usual time is not known
SWAPS = {
    "<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="), "==": ("!=",), "!=": ("==",),
    "&&": ("||",), "||": ("&&",), " + ": (" - ",), " - ": (" + ",), "++": ("--",), "--": ("++",), "+=": ("-=",), "-=": ("+=",),
}  # fmt: skip
BLANK = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:[^\\\n]|\\.|\\\n)*', re.S | re.M)
DEFINED = re.compile(r"^(?!static)\w[\w \*]*?\b(\w+)\([^;{]*\)\n\{", re.M)
FUNCTION = re.compile(r"^\{\n.*?^\}", re.S | re.M)
OPERATOR = re.compile(r"(?<= )(?:[<>]=?|[=!]=|&&|\|\||[+-]=)(?= )|\+\+|--|(?<=[\w)\]]) [+-] (?=[\w(])")
NUMBER = re.compile(r"(?<![\w.])(?:0x[0-9a-fA-F]+|\d+)(?=[uUlL]*(?![\w.]))")
NOT = re.compile(r"(?<![\w)])!(?=[\w(])")
CONDITION = re.compile(r"\bif \((.*)\)(?= \{$|$)", re.M)
STATEMENT = re.compile(r"^\t+((?!return\b|goto\b|break\b|continue\b|log_\w+\()[\w.>\-\[\]*]+(?:\(| [-+|&^*/%<>]*= |\+\+|--)[^;{}]*;)$", re.M)
BEFORE, AFTER = re.compile(r"\S*\s*$"), re.compile(r"\s*\S*")
ARGUMENTS = re.compile(r"(?<=\w)\(([\w.>\-]+), ([\w.>\-]+)(?=[,)])")


class Change:
    def __init__(self, path, text, start, end, new, kind, function):
        self.path, self.start, self.end, self.new, self.kind, self.function = path, start, end, new, kind, function
        self.line = text.count("\n", 0, start) + 1
        first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
        self.before = text[first:last].strip()
        self.after = (text[first:start] + new + text[end:last]).strip()
        near, far = BEFORE.search(text[first:start])[0], AFTER.match(text[end:last])[0]  # what stands beside it
        self.old, self.replaced = (near + text[start:end] + far).strip(), (near + new + far).strip()

    def key(self):
        return self.path, self.function, f"{self.old} -> {self.replaced}"

    def __str__(self):
        return f"{self.path}:{self.line}: {self.kind}: {self.before}  ->  {self.after}"


def changes_of(path):
    """All that could be changed in a file."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = f.read()
    plain = BLANK.sub(lambda m: re.sub(r"[^\n]", "\x01", m.group()), text)  # strings, comments and # lines are left alone
    found = []

    def add(start, end, new, kind):
        found.append(Change(path, text, start, end, new, kind, name))

    for function in FUNCTION.finditer(plain):
        first, last = function.span()
        name = re.search(r"(\w+)\(", plain[:first].rstrip().rsplit("\n\n", 1)[-1])[1]
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


def sources():
    names = must(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"]).split("\0")
    return [n for n in names if n and os.path.exists(os.path.join(ROOT, n))]


def is_wire(name):
    return ".py" in name


def read_json(path, otherwise):
    if not os.path.exists(path):
        return otherwise
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1)


class Tree:
    """A copy of the sources, built; one for coverage, one for the changes."""

    def __init__(self, work, name, flags, slow, tests=False):
        self.slow = slow
        self.root = os.path.join(work, name)
        self.build = os.path.join(self.root, "build", "check")
        self.wire_environment = {
            **os.environ, "PYTHONDONTWRITEBYTECODE": "1", "SYMBOLICATED": os.path.join(self.build, "symbolicated"),
            "SYMBTOOL": os.path.join(self.build, "symbtool"),
        }  # fmt: skip
        self.copied = [path for path in sources() if self.copy(path)]
        if tests or not os.path.exists(os.path.join(self.build, "configured")):
            script = os.path.join(self.root, "tests", "tools", "build.sh")
            must([script, self.build, f"CFLAGS={flags}", "--without-seccomp"], env={**os.environ, "BUILD_TESTS": "1" if tests else ""})

    def copy(self, path):
        """False: it is there already."""
        source, target = os.path.join(ROOT, path), os.path.join(self.root, path)
        if os.path.exists(target) and filecmp.cmp(source, target, shallow=False):
            return False
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(source, target)
        return True

    def unit_tests(self):
        names = os.listdir(os.path.join(self.root, "tests", "unit"))
        return sorted(n.removesuffix(".c") for n in names if n.startswith("test_") and n.endswith(".c"))

    def wire_tests(self):
        return sorted(n for n in os.listdir(os.path.join(self.root, "tests", "wire")) if n.startswith("test_") and n not in OTHER_WIRE)

    def run_test(self, name, bound=COMMAND):
        """Exit code and output of a unit test or of a file of wire tests; 0 when all of its tests are slow."""
        if is_wire(name):
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
    tree = Tree(work, "coverage", "-O0 -g --coverage -fprofile-update=atomic", slow, tests=True)
    if not any(p.startswith("src" + os.sep) for p in tree.copied):
        changed = {os.path.basename(p).removesuffix(".c") for p in tree.copied}
        table = {n: t for n, t in read_json(path, {}).items() if n not in changed}
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
            write_json(path, table)
    return table


class Trial:
    def __init__(self, work, given):
        self.table = {} if given.near or given.tests else table_of(work, given.slow)
        self.asked = given.tests.split(",") if given.tests else None
        self.usual_file = os.path.join(work, "usual.json")
        self.usual = read_json(self.usual_file, {}) | {n: t["seconds"] for n, t in self.table.items()}
        self.unchanged = {}  # object code by path
        self.tree = Tree(work, "changed", "-O1", given.slow)
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
        if not self.table:
            return self.asked or self.near(change.path)
        reach, line = [], change.line  # gcov tells of the first line of a statement
        while not reach and line > change.line - 8:
            reach = [n for n, t in self.table.items() if line in t["lines"].get(change.path, ())]
            line -= 1
        return sorted(reach, key=lambda n: (is_wire(n), self.usual[n]))

    def defined(self, path):
        with open(os.path.join(self.tree.root, path), encoding="utf-8") as f:
            return set(DEFINED.findall(f.read())) - {"main"}

    def near(self, path):
        """The unit tests that include the file, bear its name, or name most of its functions, then of its room's."""
        room, own = os.path.dirname(path), self.defined(path)
        names = [n for n in os.listdir(os.path.join(self.tree.root, room)) if n.endswith(".c")]
        beside = set().union(*(self.defined(os.path.join(room, n)) for n in names))
        marks = {}
        for name in self.tree.unit_tests():
            with open(os.path.join(self.tree.root, "tests", "unit", f"{name}.c"), encoding="utf-8") as f:
                text = f.read()
            words = set(re.findall(r"\w+", text))
            is_its = f'"{path.removeprefix("src/")}"' in text or name == f"test_{os.path.basename(path)[:-2]}"
            marks[name] = (is_its, len(words & own), len(words & beside))
        best = sorted((n for n in marks if any(marks[n])), key=marks.get, reverse=True)[:NEAR]
        return sorted(filter(self.passes, best), key=self.usual.get)

    def make(self, name):
        """None, or what the build of a test says when it fails."""
        targets = ["all"] if is_wire(name) else [f"tests/unit/{name}"]  # wire tests make the tools that they need
        code, out = run(["make", "-s", "-j2", "-C", self.tree.build, *targets])
        return None if code == 0 else out

    def passes(self, name):
        """Whether a test passes unchanged; how long it takes is kept."""
        if name not in self.usual:
            out, begin = self.make(name), time.monotonic()
            good = out is None and self.tree.run_test(name)[0] == 0
            self.usual[name] = time.monotonic() - begin if good else None
            if not good:
                print(f"{name} fails unchanged, so it is left out", flush=True)
            write_json(self.usual_file, {n: seconds for n, seconds in self.usual.items() if seconds is not None})
        return self.usual[name] is not None

    def killed_by(self, change):
        """The test that fails; None when none does; "" when it is no change, or does not compile."""
        path = os.path.join(self.tree.root, change.path)
        with open(path, encoding="utf-8") as f:
            text = f.read()

        def write(new):
            with open(path, "w", encoding="utf-8") as f:
                f.write(text[: change.start] + new + text[change.end :])

        if change.path not in self.unchanged:
            self.unchanged[change.path] = self.object_code(change.path)
        before, same = self.unchanged[change.path], text[change.start : change.end]
        tests = [n for n in self.tests_for(change) if self.passes(n)]
        try:
            write(change.new)
            after = self.object_code(change.path)
            if after is None or before is None or after == before:
                return ""
            for name in tests:
                out = self.make(name)
                if out is not None:
                    if "error:" not in out:
                        print(f"not counted, the build of {name} failed: {change}", flush=True)
                    return ""
                bound = 4 * self.usual[name] + 60
                code = self.tree.run_test(name, bound)[0]
                if code:
                    code = self.tree.run_test(name, bound)[0]
                if code:
                    return name
                if code is None:
                    write(same)
                    if self.make(name) is None and self.tree.run_test(name, bound)[0] == 0:
                        return f"{name} does not end"
                    print(f"{name} did not end, nor does it unchanged", flush=True)
                    write(change.new)
            return None
        finally:
            write(same)


def equivalents():
    """What tests/data/mutants.txt lists, in blocks of three lines: path and function, the change, and why."""
    known = {}
    with open(os.path.join(ROOT, EQUIVALENT), encoding="utf-8") as f:
        for block in f.read().split("\n\n"):
            lines = [line for line in block.split("\n") if line and not line.startswith("#")]
            if lines:
                place, change, why = lines
                known[(*place.split(), change)] = why
    return known


def chosen(given):
    """The changes to try, in the order of the seed."""
    files = [os.path.relpath(os.path.abspath(f), ROOT) for f in given.files] or sorted(
        os.path.join("src", room, name) for room in ROOMS for name in os.listdir(os.path.join(ROOT, "src", room)) if name.endswith(".c")
    )
    changes = []
    for path, _, line in (f.partition(":") for f in files):
        changes += [c for c in changes_of(path) if not line or c.line == int(line)]
    random.Random(given.seed).shuffle(changes)
    return changes


def survivors(results, changes):
    found = []
    for key, result in results.items():
        same = [c for c in changes if c.key() == key]
        if same and result["by"] is None:
            found.append(min(same, key=lambda c: abs(c.line - result["line"])))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", metavar="DIRECTORY")
    parser.add_argument("--again", metavar="RESULTS")
    parser.add_argument("--go-on", action="store_true")
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--near", action="store_true")
    parser.add_argument("--tests", metavar="T,T...")
    parser.add_argument("--minutes", type=float, default=600, help="begin no change after so long")
    given = parser.parse_args()
    work = os.path.abspath(given.work) if given.work else tempfile.mkdtemp(prefix="mutate-")
    os.makedirs(work, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))  # what was changed is put back
    print(f"seed {given.seed}", flush=True)
    known, changes = equivalents(), chosen(given)
    earlier = given.again or (os.path.join(work, "results.json") if given.go_on else None)
    results = {tuple(r["key"]): r for r in read_json(earlier, [])} if earlier else {}
    changes = survivors(results, changes) if given.again else [c for c in changes if c.key() not in results]
    trial, end = Trial(work, given), time.monotonic() + 60 * given.minutes
    try:
        for change in changes:
            if not given.again and len(results) >= given.count or time.monotonic() > end:
                break
            why = known.get(change.key())
            by = f"listed: {why}" if why else trial.killed_by(change)
            if by == "":
                continue
            results[change.key()] = {"key": change.key(), "line": change.line, "by": by}
            write_json(os.path.join(work, "results.json"), list(results.values()))
            print(f"{time.strftime('%H:%M')} {len(results)} {'SURVIVED' if by is None else 'killed'} {change}" + (f"  ({by})" if by else ""), flush=True)
    finally:
        if not given.work:
            for name in ("coverage", "changed"):
                shutil.rmtree(os.path.join(work, name), ignore_errors=True)
    found = [r["by"] for r in results.values() if r["by"]]
    killed, listed = len(found), sum(by.startswith("listed: ") for by in found)
    print(f"{killed} of {len(results)} killed, {listed} of them listed as equivalent; {os.path.join(work, 'results.json')}")
    return 0 if results and killed >= TARGET * len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
