# SPDX-License-Identifier: Apache-2.0
"""Symbol files for the tests: written by hand, or by gensym with the answers beside them."""

import gzip
import hashlib
import json
import os
import shlex
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.path.join(os.path.dirname(HERE), "tools")


def debug_id(seed):
    """A Breakpad id of 33 digits that only this seed gives."""
    return hashlib.sha256(seed.encode()).hexdigest()[:32].upper() + "1"


def sym_name(name):
    return (name[:-4] if name.lower().endswith(".pdb") else name) + ".sym"


def module_line(name, ident, system="Linux"):
    return f"MODULE {system} x86_64 {ident} {name}\n".encode()


class Symbols:
    """A bucket's directory: name/id/name.sym."""

    def __init__(self, directory):
        self.directory = directory
        os.makedirs(directory, exist_ok=True)

    def path(self, name, ident):
        return os.path.join(self.directory, name, ident, sym_name(name))

    def put(self, name, ident, data, compress=False):
        """data: the bytes of the object. Replaces an older one at once, never half of it."""
        path = self.path(name, ident)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "wb") as out:
            out.write(gzip.compress(data, 1) if compress else data)
        os.replace(path + ".new", path)

    def add(self, name, body, ident=None, system="Linux", compress=False):
        """A file with a right MODULE line above body; returns the module as a memoryMap has it."""
        ident = ident or debug_id(name)
        body = body if isinstance(body, bytes) else body.encode()
        self.put(name, ident, module_line(name, ident, system) + body, compress)
        return [name, ident]

    def remove(self, name, ident):
        os.remove(self.path(name, ident))


# One module with everything that a frame can show.
SAMPLE = """\
INFO CODE_ID 5CF2591C6859000
FILE 0 src/main.c
FILE 1 hg:hg.mozilla.org/mozilla-central:dom/A.cpp:55c63a6c547f
FILE 2 a/../b.c
FILE 3 dir with blanks/c "quoted".c
INLINE_ORIGIN 0 inner(int)
INLINE_ORIGIN 1 outer<char>(char const*)
FUNC 1000 30 0 main
INLINE 0 20 0 1 1010 10
INLINE 1 30 1 0 1014 4
1000 10 10 0
1010 10 40 2
1020 10 0 3
PUBLIC 2000 0 public_a
PUBLIC 2040 0 public_b
FUNC 3000 10 0 operator<<(std::ostream&, char const*)
3000 10 7 0
FUNC 4000 10 0 no_lines
PUBLIC 5000 0 last
"""

# offset: what its v5 frame has beside frame, module and module_offset
SAMPLE_FRAMES = {
    0x0: {},
    0xFFF: {},
    0x1000: {"function": "main", "function_offset": "0x0", "function_size": "0x30", "file": "src/main.c", "line": 10},
    0x100F: {"function": "main", "function_offset": "0xf", "function_size": "0x30", "file": "src/main.c", "line": 10},
    0x1010: {
        "function": "main",
        "function_offset": "0x10",
        "function_size": "0x30",
        "file": "src/main.c",
        "line": 20,
        "inlines": [{"function": "outer<char>(char const*)", "file": "a/../b.c", "line": 40}],
    },
    0x1014: {
        "function": "main",
        "function_offset": "0x14",
        "function_size": "0x30",
        "file": "src/main.c",
        "line": 20,
        "inlines": [
            {"function": "inner(int)", "file": "a/../b.c", "line": 40},
            {
                "function": "outer<char>(char const*)",
                "file": "hg:hg.mozilla.org/mozilla-central:dom/A.cpp:55c63a6c547f",
                "line": 30,
            },
        ],
    },
    0x1018: {
        "function": "main",
        "function_offset": "0x18",
        "function_size": "0x30",
        "file": "src/main.c",
        "line": 20,
        "inlines": [{"function": "outer<char>(char const*)", "file": "a/../b.c", "line": 40}],
    },
    0x1020: {
        "function": "main",
        "function_offset": "0x20",
        "function_size": "0x30",
        "file": 'dir with blanks/c "quoted".c',
    },
    0x1030: {},
    0x2000: {"function": "public_a", "function_offset": "0x0", "function_size": "0x40"},
    0x203F: {"function": "public_a", "function_offset": "0x3f", "function_size": "0x40"},
    0x2040: {"function": "public_b", "function_offset": "0x0", "function_size": "0xfc0"},
    0x300F: {
        "function": "operator<<(std::ostream&, char const*)",
        "function_offset": "0xf",
        "function_size": "0x10",
        "file": "src/main.c",
        "line": 7,
    },
    0x3010: {},
    0x4008: {"function": "no_lines", "function_offset": "0x8", "function_size": "0x10"},
    0x5000: {"function": "last", "function_offset": "0x0"},
    0x100000000: {"function": "last", "function_offset": "0xffffb000"},
    0x8000000000000000: {"function": "last", "function_offset": "0x7fffffffffffb000"},
    0xFFFFFFFFFFFFFFFF: {"function": "last", "function_offset": "0xffffffffffffafff"},
}


def tiny(function="tiny"):
    """The shortest body that answers at 0x1000."""
    return f"FILE 0 tiny.c\nFUNC 1000 10 0 {function}\n1000 10 3 0\n"


def compile_gensym(directory):
    """gensym, built on the fly; returns its path."""
    out = os.path.join(directory, "gensym")
    if not os.path.exists(out):
        compiler = shlex.split(os.environ.get("CC", "cc"))
        subprocess.run([*compiler, "-O2", "-o", out, os.path.join(TOOLS, "gensym.c")], check=True)
    return out


def run_gensym(gensym, symbols, module, *flags, answers=0, compress=False):
    """Writes a module with gensym into the bucket; returns the answers."""
    name, ident = module
    path = symbols.path(name, ident)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    answers_path = path + ".answers"
    command = [gensym, "-n", name, "-i", ident, *flags]
    if answers:
        command += ["-a", str(answers), "-A", answers_path]
    with open(path, "wb") as out:
        subprocess.run(command, stdout=out, check=True)
    if compress:
        subprocess.run(["gzip", "-1", "-n", path], check=True)
        os.replace(path + ".gz", path)
    if not answers:
        return []
    found = read_answers(answers_path)
    os.remove(answers_path)
    return found


def read_answers(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


ANSWER_KEYS = ("function", "function_offset", "function_size", "file", "line", "inlines")


def differences(answers, frames):
    """Where frames differ from the answers, as lines to read; empty when all are right."""
    assert len(answers) == len(frames), f"{len(answers)} frames asked, {len(frames)} given"
    out = []
    for want, got in zip(answers, frames):
        for key in ANSWER_KEYS:
            if want.get(key) != got.get(key):
                out.append(f"{want['offset']} {key}: want {want.get(key)!r}, got {got.get(key)!r}")
    return out


def make_bucket(gensym, requests, directory, *flags):
    """A bucket that fits a file of requests; returns mkbucket's line."""
    tool = os.path.join(TOOLS, "mkbucket.py")
    done = subprocess.run(
        [sys.executable, tool, "--gensym", gensym, requests, directory, *flags],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout.strip()
