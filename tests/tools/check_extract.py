#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_extract.py --tool EXTRACT_DUMP [--data FOLDER]... [--only PART]: checks what is extracted from executables.

data: the programs below FOLDER, each with its answers; compiled: programs that are compiled here, against addr2line -i at every
few bytes; sections: compressed debug sections, sound and damaged, and their temporary file; made: debug entries that no compiler writes; hostile: damaged files, which may fail but not crash or hang. Prints each difference and ends with 1 if there was one."""
import argparse
import bisect
import contextlib
import functools
import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import zlib

import go_tables

SECONDS = 120
LIBRARY_STEP = 61  # bytes from one address to the next where most of a program is a library
CLONE = re.compile(r"(\.(isra|part|constprop|cold|llvm|lto_priv|abi0)(\.\d+)?)+$")
OPERATOR = re.compile(r"operator(<=>|->\*|<<=|>>=|<<|>>|<=|>=|->|<|>)")
failures = 0
checked = 0


def fail(*text):
    global failures
    failures += 1
    if failures <= 50:
        print("check_extract:", *text)


def check(what, good, *text):
    global checked
    checked += 1
    if not good:
        fail(what, *text)


class Records:
    """The ranges and return pads of a program."""

    def __init__(self, lines):
        self.depths = {}
        self.pads = {}
        self.ranges = []
        for line in lines:
            record = json.loads(line)
            va = int(record["va"], 16)
            if record["t"] == "range":
                self.ranges.append((va, record))
                self.depths.setdefault(record["depth"], []).append((va, va + record["len"], record))
            else:
                self.pads[va] = [(f["func"], f["file"] or None, f["line"]) for f in reversed(record["entries"])]
        for items in self.depths.values():
            items.sort(key=lambda item: item[:2])
        self.starts = {depth: [item[0] for item in items] for depth, items in self.depths.items()}

    def overlap(self):
        """Two records of one depth that share an address, or None."""
        for items in self.depths.values():
            for a, b in zip(items, items[1:]):
                if b[0] < a[1]:
                    return a, b
        return None

    def at(self, address, depth):
        at = bisect.bisect_right(self.starts.get(depth, []), address) - 1
        if at < 0 or self.depths[depth][at][1] <= address:
            return None
        return self.depths[depth][at]

    def frames(self, address):
        """(function, file, line), innermost first."""
        chain = []
        while (found := self.at(address, len(chain))) is not None:
            chain.append(found)
        frames = []
        for i, (va, _, record) in enumerate(chain):
            if i + 1 < len(chain):
                frames.append((record["func"], chain[i + 1][2]["call_file"] or None, chain[i + 1][2]["call_line"]))
                continue
            line = 0
            for offset, number in record["lines"]:
                if offset <= address - va:
                    line = number
            frames.append((record["func"], record["file"], line))
        return frames[::-1]


@functools.cache
def has_sanitizer(tool):
    with open(tool, "rb") as file:
        code = file.read()
    return b"__asan_init" in code or b"__tsan_init" in code


def rounds(tool, count):
    """Of `count` that all try the same, a quarter with a sanitizer, which takes several times as long to start."""
    return count // 4 if has_sanitizer(tool) else count


def extract(tool, program, *options):
    done = subprocess.run([tool, *options, program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS)
    if done.returncode != 0:
        fail(program, done.stderr.decode(errors="replace").strip(), "status", done.returncode)
    return Records(done.stdout.decode().splitlines())


def without_arguments(name):
    """The name without its template arguments, and all spaces."""
    name = OPERATOR.sub(lambda m: "operator" + m[1].replace("<", "\1").replace(">", "\2"), name)
    out, depth = [], 0
    for c in name:
        depth += (c == "<") - (c == ">")
        if depth == 0 and c not in "> ":
            out.append(c)
    return "".join(out)


def without_parameters(name):
    """Scopes and the function's own name, without parameters, a return type, and scopes that have no name of their own."""
    name = name.replace("(anonymous namespace)", "\1").replace("operator()", "operator\2")
    out, depth = [], 0
    for c in re.sub(r"\{(lambda|unnamed).*?\}::|\._anon_\d+::", "", OPERATOR.sub(lambda m: m[0].replace("<", "\3").replace(">", "\4"), name)):
        depth -= c in ">)"
        if depth == 0 and c not in "<>()":
            out.append(c)
        depth += c in "<("
    return without_arguments(re.sub("^(non-virtual thunk to )?.* (?=[^ ])", "", re.sub(" const$", "", "".join(out))).replace("\1", "(anonymous namespace)").replace("\2", "()"))


def same_name(got, want):
    """What has no parameters is from a table that never has them."""
    got, want = CLONE.sub("", got), CLONE.sub("", want)
    plain = without_arguments(want)
    if "(" not in plain.replace("operator()", "").replace("(anonymousnamespace)", ""):
        got = without_parameters(got)
    got, want = without_arguments(got), plain
    return got == want or got.endswith("::" + want)


def same_file(got, want):
    return got == want or bool(got and want and got.endswith("/" + want))


def same_frames(got, want):
    return len(got) == len(want) and all(
        g[2] == w[2] and same_file(g[1], w[1]) and (same_name(g[0], w[0]) or w[0].startswith("_Z"))
        for g, w in zip(got, want))


def check_data(tool, folder):
    for name in sorted(os.listdir(folder)):
        program = os.path.join(folder, name, name)
        if os.path.isfile(program):
            check_program(tool, program)


def wrong_answer(got, want):
    """What the answers are known to lack: functions within another's entry, and what only symbols tell of; and the names that
    their demangler printed with a parameter less."""
    if not want:
        return len(got) == 1 and (got[0][1] is None or got[0][0] == "inner")
    return [f[1:] for f in got] == [f[1:] for f in want] and any("basic_string(char, " in f[0] for f in want)


def check_program(tool, program):
    records = extract(tool, program)
    check(program, records.overlap() is None, records.overlap())
    folder = os.path.dirname(program)
    without = {}  # what the answers do not have, and lines of skeletons tell
    for kind in "lookups", "padtruth":
        with open(os.path.join(folder, kind + ".jsonl"), encoding="utf-8") as lines:
            for line in lines:
                answer = json.loads(line)
                address = int(answer["addr"], 16)
                want = [(f["func"], f["file"], f["line"]) for f in answer["frames"]]
                got = records.pads.get(address) if kind == "padtruth" else None
                got = got or records.frames(address)
                if not want and len(got) == 1 and got[0][1] and got[0][0] != "inner":
                    without[address] = got
                else:
                    check(program, same_frames(got, want) or wrong_answer(got, want), kind, hex(address), got, want)
    if without and shutil.which("llvm-symbolizer"):
        judged = llvm_symbolizer(program, list(without))
        for address, got in without.items():
            want = judged[address]
            check(program, len(want) == 1 and same_place(got[0], want[0]) and base_name(got[0][0]) == base_name(want[0][0]), hex(address), got, want)
    elif without:
        print("check_extract: left out", len(without), "addresses of", program, "as there is no llvm-symbolizer")
    check_symbols(program, records)


def check_symbols(program, records):
    """Each function symbol is in what was extracted, under some name of its own address."""
    symbols = {}
    for option in [], ["-D"]:
        done = subprocess.run(["nm", "-S", "--defined-only", *option, program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in done.stdout.splitlines():
            fields = line.split()
            if len(fields) == 4 and fields[2] in "tTWi":
                symbols.setdefault(int(fields[0], 16), []).append(CLONE.sub("", fields[3].split("@")[0]))
    for address, names in symbols.items():
        frames = records.frames(address)
        check(program, frames, "no function at", hex(address), names)
        if frames and frames[-1][1] is None and len(frames) == 1:
            check(program, frames[0][0] in names or names[0].startswith(("_Z", "_R")), hex(address), frames, names)


# ---- programs that are compiled here ----

CASES = [
    # name, compiler, sources, flags
    ("gcc-5", "g++", "cpp", "-O2 -g -gdwarf-5"),
    ("gcc-4", "g++", "cpp", "-O2 -g -gdwarf-4"),
    ("gcc-3", "g++", "cpp", "-O1 -g -gdwarf-3 -gstrict-dwarf"),
    ("gcc-2", "gcc", "c", "-O0 -g -gdwarf-2 -gstrict-dwarf"),
    ("gcc-2-O2", "g++", "cpp", "-O2 -g -gdwarf-2 -gstrict-dwarf -fno-reorder-blocks-and-partition"),
    ("gcc-O3", "g++", "cpp", "-O3 -g"),
    ("gcc-c", "gcc", "c", "-O2 -g"),
    ("gcc-gc", "g++", "cpp", "-O2 -g -ffunction-sections -fdata-sections -Wl,--gc-sections"),
    ("gcc-gc-c", "gcc", "c", "-O2 -g -ffunction-sections -Wl,--gc-sections"),
    ("gcc-lto", "g++", "cpp", "-O2 -g -flto"),
    ("gcc-lto-c", "gcc", "c", "-O2 -g -flto"),
    ("gcc-gz", "g++", "cpp", "-O2 -g -gz"),
    ("gcc-gz-gnu", "gcc", "c", "-O2 -g -gz=zlib-gnu"),
    ("gcc-types", "g++", "cpp", "-O2 -g -gdwarf-4 -fdebug-types-section"),
    ("gcc-64", "gcc", "c", "-O2 -g -gdwarf64"),
    ("clang-5", "clang++", "cpp", "-O2 -g -gdwarf-5"),
    ("clang-4", "clang++", "cpp", "-O2 -g -gdwarf-4"),
    ("clang-c", "clang", "plain", "-O2 -g"),
    ("clang-gc", "clang++", "cpp", "-O2 -g -ffunction-sections -Wl,--gc-sections"),
    ("aarch64", "aarch64-linux-gnu-g++", "cpp", "-O2 -g"),
    ("rust", "rustc", "rs", "-g -C opt-level=2"),
]
SOURCES = {
    "cpp": ["tmpl.cpp", "tmpl2.cpp"],
    "c": ["inl.c", "util.c"],
    "plain": ["util.c", "plain.c"],
    "rs": ["shapes.rs"],
}
PLAIN = """#include "util.h"
#include <stdio.h>
static int twice(int x) { return x * 2 + (int)hash_words((uint32_t[]){1, 2, (uint32_t)x}, 3, 4); }
static int more(int x) { return twice(x) + twice(x + 1) + printf("%d\\n", x); }
int main(int argc, char **argv) { (void)argv; return more(argc) + more(argc * 7) + util_emit("x", (uint32_t)argc); }
"""


def compile_case(case, sources, folder):
    name, compiler, kind, flags = case
    program = os.path.join(folder, name)
    files = [os.path.join(folder, f) if f == "plain.c" else os.path.join(sources, f) for f in SOURCES[kind]]
    include = [] if kind == "rs" else ["-w", "-I", sources, "-I", os.path.join(sources, "inc")]
    done = subprocess.run([compiler, *include, *flags.split(), *files, "-o", program],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
    if done.returncode != 0:
        fail(name, "does not compile:", done.stdout[-500:])
        return None
    return program


def code_addresses(program, step):
    done = subprocess.run(["objdump", "-h", "-w", program], stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        fields = line.split()
        if len(fields) > 3 and "CODE" in line and fields[1].startswith(".text"):
            start = int(fields[3], 16)
            yield from range(start, start + int(fields[2], 16), step)


def addr2line(program, addresses):
    """What binutils says: frames as Records.frames has them."""
    done = subprocess.run(["addr2line", "-a", "-i", "-f", "-C", "-e", program], input="".join(f"{a:#x}\n" for a in addresses),
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=SECONDS)
    answers, lines = {}, done.stdout.splitlines()
    at = 0
    while at < len(lines):
        frames = answers.setdefault(int(lines[at], 16), [])
        at += 1
        while at < len(lines) and not lines[at].startswith("0x"):
            file, _, line = lines[at + 1].split(" (disc")[0].rpartition(":")
            frames.append((lines[at], None if file == "??" else os.path.normpath(file), int(line) if line.isdigit() else 0))
            at += 2
    return answers


def llvm_symbolizer(program, addresses):
    """What LLVM says, where binutils errs: it often takes a symbol's name for that of an inlined call, and the files of LTO's
    units for <artificial>."""
    done = subprocess.run(["llvm-symbolizer", "--addresses", "--inlines", "-e", program], input="".join(f"{a:#x}\n" for a in addresses),
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=SECONDS)
    answers = {}
    for block in done.stdout.split("\n\n"):
        lines = block.strip().split("\n")
        frames = answers.setdefault(int(lines[0], 16), []) if lines[0] else None
        for name, place in zip(lines[1::2], lines[2::2]):
            file, line, _ = place.rsplit(":", 2)
            frames.append((name, None if file == "??" else os.path.normpath(file), int(line)))
    return answers


def base_name(name):
    """Without parameters and what is around it: a name from an entry has less than a demangled one."""
    name = OPERATOR.sub(lambda m: "operator" + m[1].replace("<", "\1").replace(">", "\2"), CLONE.sub("", name).replace(" [clone", "("))
    name = name.replace("operator()", "operator\3").replace("(anonymous namespace)", "")
    out, depth = [], 0
    for c in name:
        depth -= c in ">)}"
        if depth == 0 and c not in ">)}":
            out.append(c)
        depth += c in "<({"
    return re.sub(r"[<({].*|\.\d+$", "", "".join(out).split("::")[-1].split("(")[0].split(" ")[-1])


# How gcc spells types in names of templates, and how demanglers do.
SPELLED = {"long unsigned int": "unsigned long", "long int": "long", "short unsigned int": "unsigned short", "short int": "short",
           "long long unsigned int": "unsigned long long", "long long int": "long long"}


LAMBDA = re.compile(r"\{lambda\([^{}]*\)(#\d+)?\}|'lambda\d*'\([^()]*\)|<lambda\([^<>]*\)>|\$_\d+")


def split_name(name):
    """Its parts between "::" (or "." in D): each its word with template arguments, and parameters behind it."""
    name = CLONE.sub("", re.sub(r"( \[clone [^]]*\]| \(\.[a-z.0-9]+\)|\.\d+)+$", "", re.sub(r"::h[0-9a-f]{16}$", "", name)))
    name = LAMBDA.sub("{lambda}", name).replace("<lambda>", "lambda")  # the latter: gcc's constructors of their classes
    name = re.sub("|".join(sorted(SPELLED, key=len, reverse=True)), lambda m: SPELLED[m[0]], name).replace("::<", "<")
    name = OPERATOR.sub(lambda m: "operator" + m[1].replace("<", "\3").replace(">", "\4"), name).replace("operator()", "operator\2")
    parts, word, depth = [], "", 0
    for i, c in enumerate(name):
        if c == ":" and depth == 0 and name[i:i + 2] == "::":
            parts.append(word)
            word = ""
        elif not (c == ":" and depth == 0 and name[i - 1] == ":"):
            depth += (c in "<({[") - (c in ">)}]")
            word += c
    return [*parts, word]


def split_part(part):
    """Its word, template arguments and parameters; what is missing is empty. A return type is left out."""
    if part.startswith(("(anonymous", "{", "<")):
        return part, "", ""
    found = re.fullmatch(r"(?:(?:non-virtual |virtual )?thunk to )?([^<(]*)(<.*>)?(\(.*\).*)?", part, re.S)
    word, arguments, parameters = found.groups(default="") if found else (part, "", "")
    if not parameters and arguments.endswith(")"):
        arguments = ""
    return (word if word.startswith("operator") else word.split(" ")[-1]), arguments.replace(" ", ""), parameters.replace(" ", "")


def same_whole(got, want):
    """Whether got says all that want says: its scopes, arguments of templates and parameters, none of them otherwise."""
    got, want = split_name(got), split_name(want)
    if len(got) < len(want):
        return False
    for i, (g, w) in enumerate(zip(got[-len(want):], want)):
        g, w = split_part(g), split_part(w)
        if g[0] != w[0] or (w[1] and g[1] != w[1]) or (w[2] and g[2] != w[2]):
            return False
    return True


def same_place(got, want):
    return got[2] == want[2] and (want[1] is None or os.path.normpath(got[1] or "") == want[1])


def as_judged(got, binutils, llvm):
    """One judge must agree on all places, and one on each name."""
    return any(len(got) == len(want) and all(map(same_place, got, want)) for want in (binutils, llvm)) and all(
        any(i < len(want) and base_name(g[0]) == base_name(want[i][0]) for want in (binutils, llvm)) for i, g in enumerate(got))


def check_compiled(tool, sources, folder):
    with open(os.path.join(folder, "plain.c"), "w", encoding="utf-8") as file:
        file.write(PLAIN)
    for case in CASES:
        program = shutil.which(case[1]) and compile_case(case, sources, folder)
        if not program:
            print("check_extract: left out", case[0])
            continue
        with binutils_of(case[1], folder):
            check_against_addr2line(tool, program, code_addresses(program, LIBRARY_STEP if case[2] == "rs" else 3))
        check_threads(tool, program)
    check_folded(tool, folder)
    check_minimized(tool, sources, folder)
    check_details(tool, folder)
    check_identity(tool, folder)
    check_sizeless(tool, folder)
    check_producers(tool, folder)
    check_thumb(tool, folder)
    check_clones(tool, folder)
    check_damaged_units(tool, os.path.join(folder, "gcc-5"), folder)
    check_absence(tool, folder)
    check_alt_file(tool, folder)
    check_split_file(tool, os.path.join(folder, "gcc-5"), folder)
    check_link_sum(tool, os.path.join(folder, "gcc-5"), folder)
    check_link_to_itself(tool, os.path.join(folder, "gcc-5"), folder)
    check_go(tool, folder)
    check_mini_debug(tool, folder)
    check_split_dwarf(tool, sources, folder)


@contextlib.contextmanager
def binutils_of(compiler, folder):
    """Lets the binutils of a cross compiler be found under their plain names."""
    before = os.environ["PATH"]
    if compiler.count("-") > 1:
        tools = os.path.join(folder, "binutils")
        os.makedirs(tools)
        for name in "addr2line", "nm", "objdump":
            os.symlink(shutil.which(compiler.rsplit("-", 1)[0] + "-" + name), os.path.join(tools, name))
        os.environ["PATH"] = tools + os.pathsep + before
    yield
    os.environ["PATH"] = before


def check_against_addr2line(tool, program, addresses):
    records = extract(tool, program)
    check(program, records.overlap() is None, records.overlap())
    addresses = list(addresses)
    answers, others = addr2line(program, addresses), llvm_symbolizer(program, addresses)
    for address in addresses:
        got, want = records.frames(address), answers.get(address, [])
        if len(got) == 1 and got[0][1] is None:
            check(program, want and want[0][2] == 0, "only a symbol", hex(address), got, want)
        elif got:
            check(program, as_judged(got, want, others.get(address, [])), hex(address), got, want, others.get(address))
    check_symbols(program, records)
    check_pads(program, records)


CALL = re.compile(r"^\s*([0-9a-f]+):\t(?:(?:[0-9a-f]{2} )+\s*\t(?:notrack |bnd |rex\S* |data16 )*(?:call|syscall|int )|[0-9a-f]{8} \t(?:blr?|svc)\s)")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t((?:[0-9a-f]{2} )+|[0-9a-f]{8} )\s*\t?")


def check_pads(program, records):
    """Each call that objdump shows has a pad, and nothing else has."""
    done = subprocess.run(["objdump", "-d", "-w", program], stdout=subprocess.PIPE, text=True, check=True)
    want = {}
    for line in done.stdout.splitlines():
        if CALL.match(line):
            found = INSTRUCTION.match(line)
            start = int(found[1], 16)
            if records.frames(start):
                want[start + len(found[2].replace(" ", "")) // 2 - 1] = records.frames(start)
    check(program, set(want) == set(records.pads), "calls", [hex(a) for a in set(want) ^ set(records.pads)][:8])
    for address, frames in want.items():
        got = records.pads.get(address)
        check(program, got is None or got == frames, "pad", hex(address), got, frames)


# ---- Go ----

GO_SOURCE = """package main

import (
	"fmt"
	"os"
	"sort"
	"strings"
)

type shape interface{ area() float64 }
type square struct{ side float64 }

func (s square) area() float64 { return mul(s.side, s.side) }

func mul(a, b float64) float64 { return clamp(a) * clamp(b) }

func clamp(a float64) float64 {
	if a < 0 {
		return 0
	}
	return a
}

func add(n int) func(int) int {
	return func(x int) int { return twice(x) + n }
}

func twice(x int) int { return x + x }

func main() {
	var shapes []shape
	for i, word := range os.Args {
		shapes = append(shapes, square{float64(len(word) * i)})
	}
	sort.Slice(shapes, func(i, j int) bool { return shapes[i].area() < shapes[j].area() })
	for _, s := range shapes {
		fmt.Println(strings.Repeat("x", add(1)(len(os.Args))), s.area())
	}
	defer func() { fmt.Println("done", recover()) }()
}
"""


def check_go(tool, folder):
    """Go as it is in images, without debug data and symbols, against the debug data of the same program built with them, and against
    go tool addr2line and objdump. GO_TOOLCHAINS names those to use, for Go's own way of fetching them."""
    if not shutil.which("go"):
        print("check_extract: left out Go, which is not installed: only tables that are assembled are tried")
        return
    source = os.path.join(folder, "main.go")
    with open(source, "w", encoding="utf-8") as file:
        file.write(GO_SOURCE)
    for toolchain in os.environ.get("GO_TOOLCHAINS", "local").split():
        for mode in "exe", "pie":
            check_go_program(tool, folder, source, toolchain, mode)


def go_build(source, program, toolchain, *options):
    more = {"GOFLAGS": "", "GOENV": "off", "CGO_ENABLED": "0", "GO111MODULE": "off", "GOTOOLCHAIN": toolchain}
    if toolchain != "local":
        more.pop("GO111MODULE")
    done = subprocess.run(["go", "build", *options, "-o", program, source], env={**os.environ, **more}, cwd=os.path.dirname(source),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=5 * SECONDS)
    check(program, done.returncode == 0, done.stdout[-500:])
    return done.returncode == 0


def go_frames(frames):
    """Without what Go's debug data say in their own way: arguments of generic functions, and wrappers, whose frames have lines or
    not."""
    return [(re.sub(r"\[.*\]", "[...]", f[0]), f[1], f[2]) for f in frames]


def is_generated(frames):
    return any("<autogenerated>" in (f[1] or "") or f[1] is None for f in frames)


def check_go_program(tool, folder, source, toolchain, mode):
    whole, stripped = os.path.join(folder, f"go-{toolchain}-{mode}"), os.path.join(folder, f"go-{toolchain}-{mode}-s")
    if not go_build(source, whole, toolchain, "-buildmode=" + mode) or not go_build(source, stripped, toolchain, "-buildmode=" + mode, "-ldflags=-s -w"):
        return
    want, got = extract(tool, whole), extract(tool, stripped)
    check(stripped, got.overlap() is None, got.overlap())
    check(stripped, got.pads and set(got.pads) == set(want.pads), "other return pads")
    total = generated = other = 0
    for start, end, _ in want.depths[0]:
        for address in range(start, end, 5):
            total += 1
            w, g = go_frames(want.frames(address)), go_frames(got.frames(address))
            if w == g or w[-1][0] == "runtime.etext":  # the padding behind the last function
                continue
            generated += is_generated(w + g)
            other += not is_generated(w + g)
            check(stripped, g and g[-1][0] == w[-1][0], "function", hex(address), g, w)
    # The debug data of some versions give a few addresses the line next to it.
    check(stripped, total > 10000 and other <= total / 5000 and generated <= total / 20, "other frames", total, generated, other)
    check(stripped, any(len(got.frames(a)) > 3 for a in got.pads), "no inlined calls")
    places = {f[1] for a in got.pads for f in got.frames(a)}
    check(stripped, "<autogenerated>" not in places, "a line of code that the compiler made")
    check_go_addr2line(stripped, got)
    check_go_pads(whole, got)


def check_go_addr2line(program, records):
    """It gives the function whose code it is, and the innermost place."""
    addresses = list(records.pads)[::7]
    done = subprocess.run(["go", "tool", "addr2line", program], input="".join(f"{a:#x}\n" for a in addresses), stdout=subprocess.PIPE, text=True,
                          timeout=SECONDS, check=False)
    lines = done.stdout.splitlines()
    check(program, done.returncode == 0 and len(lines) == 2 * len(addresses) > 1000, "go tool addr2line", done.returncode, len(lines))
    if set(lines[::2]) == {"?"}:  # Go 1.19 with a program of mode pie
        print(f"check_extract: left out go tool addr2line, which finds nothing in {os.path.basename(program)}")
        return
    for address, name, place in zip(addresses, lines[::2], lines[1::2]):
        frames = records.frames(address)
        same = frames[0][2] == 0 if place == "<autogenerated>:1" else f"{frames[0][1]}:{frames[0][2]}" == place
        check(program, frames[-1][0] == name and same, hex(address), frames, name, place)


def check_go_pads(program, records):
    """Each call that go tool objdump shows has a pad, with the frames of the call."""
    done = subprocess.run(["go", "tool", "objdump", "-s", r"^(main|fmt|sort)\.", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          timeout=SECONDS, check=False)
    calls = [(int(m[1], 16), len(m[2]) // 2) for m in re.finditer(r"^\s*\S*:\d+\s+0x([0-9a-f]+)\s+([0-9a-f]+)\s+CALL ", done.stdout, re.M)]
    check(program, len(calls) > 500, "go tool objdump", len(calls))
    for start, size in calls:
        pad = records.pads.get(start + size - 1, [])
        # Where the compiler's own code has no line, a range may still have a file.
        got, want = ([(name, line and file, line) for name, file, line in frames] for frames in (pad, records.frames(start)))
        check(program, got == want, "pad", hex(start), got, want)


def dump(tool, program, *options):
    return subprocess.run([tool, *options, program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS).stdout


def check_threads(tool, program):
    one = dump(tool, program, "-t", "1")
    for threads in "2", "7":
        check(program, dump(tool, program, "-t", threads) == one, "other records with threads:", threads)


def check_alt_file(tool, folder):
    """The same records when entries that two programs share are in a third file."""
    if not shutil.which("dwz"):
        print("check_extract: left out dwz")
        return
    programs = [shutil.copy(os.path.join(folder, name), os.path.join(folder, name + "-dwz")) for name in ("gcc-5", "gcc-O3", "gcc-4")]
    whole = [dump(tool, program) for program in programs]
    subprocess.run(["dwz", "-m", os.path.join(folder, "common.debug"), "-r", *programs], check=True, timeout=SECONDS)
    for program, records in zip(programs, whole):
        check(program, dump(tool, program) == records, "other records with a file of shared entries")
    check_alt_places(tool, programs[0], whole[0], folder)


def check_alt_places(tool, program, whole, folder):
    """The shared file is found below the folder of debug files, by name and by build id; one of another build id is not taken. Without
    it functions have the names of symbols."""
    common, other, below = os.path.join(folder, "common.debug"), os.path.join(folder, "other.debug"), os.path.join(folder, "alternates")
    os.rename(common, other)
    os.makedirs(os.path.join(below, ".dwz"))
    shutil.copy(other, os.path.join(below, ".dwz", "common.debug"))
    check("dwz", dump(tool, program, "-d", below) == whole, "in .dwz")
    os.remove(os.path.join(below, ".dwz", "common.debug"))
    notes = subprocess.run(["readelf", "-n", other], stdout=subprocess.PIPE, text=True, check=True).stdout
    build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)[1]
    os.makedirs(os.path.join(below, ".build-id", build_id[:2]))
    by_id = os.path.join(below, ".build-id", build_id[:2], build_id[2:] + ".debug")
    shutil.copy(other, by_id)
    check("dwz", dump(tool, program, "-d", below) == whole, "by build id")
    shutil.copy(program, by_id)
    shutil.copy(program, common)
    done = subprocess.run([tool, "-d", below, program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS)
    check("dwz", "the file of shared debug entries common.debug is neither there" in done.stderr, "not told", done.stderr)
    records, want = Records(done.stdout.splitlines()), Records(whole.decode().splitlines())
    check("dwz", records.overlap() is None and len(records.ranges) > 100, "records without the shared file")
    check_symbols(program, records)
    for va, pad in want.pads.items():
        names = records.pads[va][-1][0], records.frames(va)[-1][0]
        check("dwz", all(names) and base_name(names[0]) == base_name(pad[-1][0]) == base_name(names[1]), "name", hex(va), names, pad)
    os.remove(common)
    os.rename(other, common)


SPLIT_CASES = [
    # name, compiler, flags
    ("gcc-split-4", "g++", "-gdwarf-4"),
    ("gcc-split-5", "g++", "-gdwarf-5"),
    ("gcc-split-gz", "g++", "-gdwarf-5 -gz"),
    ("clang-split-4", "clang++", "-gdwarf-4"),
    ("clang-split-5", "clang++", "-gdwarf-5"),
]


def check_split_dwarf(tool, sources, folder):
    """The same records when entries are in .dwo files, wherever these are, and in a package, as without splitting."""
    sources = os.path.abspath(sources)
    for name, compiler, flags in SPLIT_CASES:
        if not shutil.which(compiler):
            print("check_extract: left out", name)
            continue
        place = os.path.join(folder, name)
        os.makedirs(place)
        whole, program = os.path.join(place, "whole"), os.path.join(place, "split")
        sources_here = [shutil.copy(os.path.join(sources, f), place) for f in SOURCES["cpp"]]
        common = [compiler, "-w", "-O2", "-g", *flags.split(), "-I", sources, "-I", os.path.join(sources, "inc")]
        subprocess.run([*common, *sources_here, "-o", whole], check=True, timeout=SECONDS, cwd=place)
        objects = [f[:-4] + ".o" for f in sources_here]  # which their .dwo files are named after
        if not name.endswith("gz"):
            objects = [os.path.basename(f) for f in objects]
        for source, out in zip(sources_here, objects):
            subprocess.run([*common, "-gsplit-dwarf", "-c", source, "-o", out], check=True, timeout=SECONDS, cwd=place)
        subprocess.run([compiler, *flags.split(), *objects, "-o", program], check=True, timeout=SECONDS, cwd=place)
        want = dump(tool, whole)
        check(name, dump(tool, program) == want and want.count(b'"depth":1') > 20, "where the files were made")
        check_threads(tool, program)
        check_split_places(tool, name, place, program, want)
        check_packages(tool, name, place, program, want)


def check_split_places(tool, name, place, program, want):
    files = [f for f in sorted(os.listdir(place)) if f.endswith(".dwo")]
    elsewhere, below = os.path.join(place, "elsewhere"), os.path.join(place, "below")
    for folder in elsewhere, below, below + place:
        os.makedirs(folder, exist_ok=True)
    for f in files:
        shutil.move(os.path.join(place, f), elsewhere)
    moved = shutil.copy(program, elsewhere)
    check(name, dump(tool, moved) == want, "beside the executable")
    check(name, dump(tool, program, "-d", elsewhere) == want, "below the folder of debug files")
    for f in files:
        shutil.copy(os.path.join(elsewhere, f), below + place)
    check(name, dump(tool, program, "-d", below) == want, "below it, where they were made")
    shutil.copy(os.path.join(elsewhere, files[0]), os.path.join(place, files[1]))
    for gone in (0, 1):
        done = subprocess.run([tool, program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS)
        check(name, done.returncode == 0 and "the entries of 2 of 2 units are in missing split files, such as " in done.stderr
              and files[0] + ": their functions have names but no inlined calls" in done.stderr and '"depth":1' not in done.stdout
              and done.stdout.count('"func"') > 30, "other files, or none", done.stderr)
        if not gone:
            os.remove(os.path.join(place, files[1]))
    with open(os.path.join(elsewhere, files[0]), "rb") as file:
        data = bytearray(file.read())
    damage = random.Random(5)
    for i in range(rounds(tool, 20)):
        bad = bytearray(data)
        for _ in range(20):
            bad[damage.randrange(64, len(bad))] ^= 1 << damage.randrange(8)
        with open(os.path.join(place, files[0]), "wb") as file:
            file.write(bad if i % 4 else bad[:damage.randrange(len(bad))])
        try_damaged(tool, name, program, i)
    for f in files:
        shutil.move(os.path.join(elsewhere, f), os.path.join(place, f))


def with_package(program, package):
    """A copy of a program that has the sections of its package itself."""
    own, sections = program + ".own", subprocess.run(["readelf", "-SW", package], stdout=subprocess.PIPE, text=True, check=True).stdout
    command = ["objcopy"]
    for section in set(re.findall(r"\.debug_(?:[a-z_]+\.dwo|[ct]u_index)", sections)):
        part = f"{own}{section}.part"
        subprocess.run(["objcopy", "-O", "binary", f"--only-section={section}", f"--set-section-flags={section}=alloc", package, part], check=True,
                       stderr=subprocess.DEVNULL)  # fmt: skip
        command += [f"--add-section={section}={part}"] if os.path.getsize(part) else []
    subprocess.run([*command, program, own], check=True)
    return own


def check_packages(tool, name, place, program, want):
    """Of binutils' dwp and llvm-dwp, each as far as it can: neither of Debian 12's reads all of gcc's."""
    made = 0
    for packer in "dwp", "llvm-dwp":
        package = program + ".dwp"
        try:
            done = shutil.which(packer) and subprocess.run([packer, "-e", program, "-o", package], cwd=place, stdout=subprocess.DEVNULL,
                                                           stderr=subprocess.DEVNULL, timeout=5)
        except subprocess.TimeoutExpired:
            done = None
        if not done or done.returncode != 0:
            print("check_extract: left out", name, "in a package of", packer)
            continue
        made += 1
        hidden = os.path.join(place, "hidden-" + packer)
        os.makedirs(os.path.join(hidden, "below"))
        for f in os.listdir(place):
            if f.endswith(".dwo"):
                shutil.move(os.path.join(place, f), hidden)
        check(name, dump(tool, program) == want, "in a package of", packer)
        check_threads(tool, program)
        with open(package, "rb") as file:
            data = bytearray(file.read())
        shutil.move(package, os.path.join(hidden, "below"))
        check(name, dump(tool, program, "-d", os.path.join(hidden, "below")) == want, "in a package below the folder of debug files")
        own = with_package(program, os.path.join(hidden, "below", os.path.basename(package)))
        check(name, dump(tool, own) == want, "in a package that is in the debug file itself")
        damage = random.Random(6)
        for i in range(rounds(tool, 20)):
            bad = bytearray(data)
            for _ in range(20):
                bad[damage.randrange(64, len(bad))] ^= 1 << damage.randrange(8)
            with open(package, "wb") as file:
                file.write(bad if i % 4 else bad[:damage.randrange(len(bad))])
            try_damaged(tool, name, program, i)
        os.remove(package)
        for f in os.listdir(hidden):
            if f.endswith(".dwo"):
                shutil.move(os.path.join(hidden, f), place)
    check(name, made > 0 or name.startswith("gcc-split-5") or name.endswith("gz"), "no package could be made")


def check_mini_debug(tool, folder):
    """The functions of a symbol table that is compressed in the program, as Fedora's are; a damaged one is told."""
    if not shutil.which("xz"):
        print("check_extract: left out MiniDebugInfo: there is no xz")
        return
    source, program, mini = (os.path.join(folder, name) for name in ("mini.c", "mini", "mini.debug"))
    with open(source, "w", encoding="utf-8") as file:
        file.write("#include <stdio.h>\n" + "".join(f"__attribute__((noinline)) static int f{i}(int x) {{ return printf(\"%d\", x + {i}); }}\n" for i in range(50)))
        file.write("int main(int n, char **v) { (void)v; return " + " + ".join(f"f{i}(n)" for i in range(50)) + "; }\n")
    subprocess.run(["gcc", "-O1", "-o", program, source], check=True, timeout=SECONDS)
    whole = dump(tool, program)
    subprocess.run(["objcopy", "--only-keep-debug", program, mini], check=True)
    subprocess.run(["xz", "-9", "--force", mini], check=True)
    subprocess.run(["strip", "-s", program], check=True)
    check("mini", b'"f7"' in whole and b'"f7"' not in dump(tool, program), "functions")
    with open(mini + ".xz", "rb") as file:
        packed = file.read()
    for data, good in ((packed, True), (packed[:-200], False), (packed[:100] + b"x" + packed[101:], False), (b"no xz", False)):
        with open(mini + ".xz", "wb") as file:
            file.write(data)
        subprocess.run(["objcopy", "--remove-section=.gnu_debugdata", program, program + "-" + str(good)], check=True)
        subprocess.run(["objcopy", f"--add-section=.gnu_debugdata={mini}.xz", program + "-" + str(good)], check=True)
        done = subprocess.run([tool, program + "-" + str(good)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS)
        check("mini", (done.returncode == 0 and done.stdout == whole) == good, "records", len(data), done.stderr)
        check("mini", (b".gnu_debugdata is left out: " in done.stderr) != good, "told", len(data), done.stderr)


def check_split_file(tool, program, folder):
    """The same records when the debug data are in a file of their own."""
    whole = dump(tool, program)
    stripped = os.path.join(folder, "stripped")
    debug = os.path.join(folder, "stripped.debug")
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", "--add-gnu-debuglink=" + debug, program, stripped], check=True)
    check("split", dump(tool, stripped) == whole, "by link, beside the executable")
    os.makedirs(os.path.join(folder, ".debug"))
    shutil.move(debug, os.path.join(folder, ".debug"))
    debug = os.path.join(folder, ".debug", "stripped.debug")
    check("split", dump(tool, stripped) == whole, "by link, in .debug")
    elsewhere = os.path.join(folder, "elsewhere")
    below = os.path.join(elsewhere, folder.lstrip("/"))
    os.makedirs(below)
    shutil.move(debug, below)
    check("split", dump(tool, stripped, "-d", elsewhere) == whole, "by link, below the folder of debug files")
    debug = os.path.join(below, "stripped.debug")
    check("split", dump(tool, stripped, "-g", debug) == whole, "named")
    notes = subprocess.run(["readelf", "-n", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)
    if build_id:
        by_id = os.path.join(elsewhere, ".build-id", build_id[1][:2])
        os.makedirs(by_id)
        shutil.move(debug, os.path.join(by_id, build_id[1][2:] + ".debug"))
        check("split", dump(tool, stripped, "-d", elsewhere) == whole, "by build id")
    with open(os.path.join(folder, "stripped.debug"), "wb") as other:
        other.write(b"\x7fELF no such file")
    check("split", dump(tool, stripped, "-d", folder) != whole, "a file that is not the debug file was taken")
    done = subprocess.run([tool, "-d", folder, stripped], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS)
    check("split", done.returncode in (0, 1), done.stderr)


def check_link_sum(tool, program, folder):
    """Without a build id, the debug file is the one whose bytes have the checksum of the link."""
    bare, stripped, debug = (os.path.join(folder, name) for name in ("no-id", "no-id-stripped", "no-id.debug"))
    subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", program, bare], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", bare, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", "--add-gnu-debuglink=" + debug, bare, stripped], check=True)
    whole = dump(tool, bare)
    check("link", dump(tool, stripped) == whole, "the file of the link is not taken")
    with open(debug, "ab") as file:
        file.write(b"\0")
    check("link", dump(tool, stripped) != whole, "a file with another checksum was taken")


def check_link_to_itself(tool, program, folder):
    """The debug file has the name of the executable, in .debug: the executable beside it is not meant, though it has symbols."""
    place = os.path.join(folder, "itself")
    stripped, debug = os.path.join(place, "program"), os.path.join(place, ".debug", "program")
    os.makedirs(os.path.dirname(debug))
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "--strip-debug", "--add-gnu-debuglink=" + debug, program, stripped], check=True)
    check("itself", dump(tool, stripped) == dump(tool, program), "the file of the link is not taken")


DETAILS = """struct A { virtual ~A() {} virtual int a() { return 1; } };
struct B { virtual ~B() {} virtual int f(int x) { return x; } };
struct D : A, B { int k = 3; int f(int x) override { volatile int y = x * k; return y + 1; } };
asm(".text\\n.globl bare\\n.type bare,@function\\nbare: ret\\n.size bare,.-bare");
namespace ns {
int outer(int x) {
	struct Local {
		int v;
		__attribute__((noinline)) int method(int y) const { volatile int k = v + y; return k; }
		struct Deep { __attribute__((noinline)) static int go(int z) { volatile int k = z; return k; } };
	};
	return Local{x}.method(3) + Local::Deep::go(x);
}
}
int main(int argc, char **) { D d; B *volatile b = &d; return b->f(argc) + ns::outer(argc); }
"""
BARE = """.file 1 "/src/bare.s"
.file 2 "<autogenerated>"
.text
.globl bare_lines
.type bare_lines,@function
bare_lines:
.loc 1 7
nop
.loc 1 9
call bare_lines
.loc 2 1
ret
.size bare_lines,.-bare_lines
.globl untyped
untyped:
.loc 1 20
ret
.size untyped,.-untyped
.section .debug_abbrev,"",@progbits
.uleb128 1,0x11
.byte 0
.uleb128 0x10,0x17, 0x11,0x01, 0x12,0x07, 0,0
.byte 0
.section .debug_info,"",@progbits
.long end - start
start: .short 4
.long 0
.byte 8, 1
.long lines
.quad bare_lines, 7
end:
.section .debug_line,"",@progbits
lines:
"""


def check_details(tool, folder):
    """Lines of functions without an entry, and names of classes within functions."""
    source, bare = os.path.join(folder, "details.cpp"), os.path.join(folder, "bare")
    for path, text in (source, DETAILS), (bare + ".s", BARE):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    subprocess.run(["as", "-o", bare + ".o", bare + ".s"], check=True, timeout=SECONDS)
    subprocess.run(["ld", "-shared", "-o", bare, bare + ".o"], check=True, timeout=SECONDS)
    records = extract(tool, bare)
    start = code_start(bare)
    got = [records.frames(start + o) for o in (0, 1, 5, 6)]
    check("details", got == [[("bare_lines", "/src/bare.s", n)] for n in (7, 9, 9)] + [[("bare_lines", "<autogenerated>", 1)]], got)
    check("details", records.frames(start + 7) == [("untyped", "/src/bare.s", 20)], records.frames(start + 7))
    check("details", records.pads == {start + 5: [("bare_lines", "/src/bare.s", 9)]}, records.pads)
    for compiler in filter(shutil.which, ("g++", "clang++")):
        program = os.path.join(folder, "details")
        subprocess.run([compiler, "-O1", "-g", source, "-o", program], check=True, timeout=SECONDS)
        records = extract(tool, program)
        check("details", records.overlap() is None, records.overlap())
        names = {r["func"].split("(int) const")[0].removesuffix("(int)") for _, r in records.ranges if r["depth"] == 0}
        check("details", {"ns::outer(int)::Local::method", "ns::outer(int)::Local::Deep::go"} <= names, compiler, names)
        lines = [records.frames(va)[-1] for va, r in records.ranges if r["func"] == "non-virtual thunk to D::f(int)" and r["depth"] == 0]
        check("details", lines and all(f[1:] in ((source, 3), (source, 0)) for f in lines), compiler, lines)


# Functions of which only the whole name says which they are: lambdas, overloads, members of classes without a name, instances of templates;
# and calls of such that are inlined.
IDENTITY = """#define ALONE __attribute__((noinline))
#define WITHIN __attribute__((always_inline))
ALONE int sink(int x) { volatile int y = x; return y; }
ALONE int pay(int n)
{
	auto first = [n](int k) ALONE { return sink(n + k) + 1; };
	auto second = [n](int k) ALONE { return sink(n * k) + 2; };
	return first(3) + second(4);
}
ALONE static void put(int x) { sink(x); }
ALONE static void put(const char *s) { sink(*s + 1); }
namespace {
struct { ALONE int go(int x) { return sink(x) + 5; } } one;
struct { ALONE int go(int x) { return sink(x) * 7; } } two;
template <class T> ALONE T most(T a, T b) { return a > b ? sink(a) : sink(b); }
}
namespace ns {
struct Widget {
	int k;
	ALONE int run(int x) { return sink(x + k) + 1; }
	template <class T> ALONE T turn(T x) { return (T)sink((int)x + k) + 1; }
};
struct Other { ALONE int run(int x) { return sink(x) - 4; } };
}
static inline WITHIN int over(int x) { volatile int q = x; return sink(q); }
static inline WITHIN int over(unsigned long x, const char *const *p, int (*f)(char), int (&a)[3]) { volatile long q = (long)x; return sink(q + **p + f(3) + a[1]); }
template <class T, int N> static inline WITHIN T into(T x, ns::Widget &) { volatile T q = x + N; return q + sink(q); }
ALONE static int kept(int x, ns::Other *) { return sink(x) + 11; }
static inline WITHIN int both(int x) { volatile int q = x; return q * sink(x) + sink(q + 1) * sink(q + 2) - sink(q + 3); }
static int twice(char c) { return c * 2; }
int main(int argc, char **argv)
{
	ns::Widget w{argc};
	int a[3] = {argc, argc, argc};
	int (*volatile f)(char) = twice;
	int (*volatile g)(int) = both;
	auto within = [&](long c) WITHIN { volatile long q = c; return q + sink(argc + q); };
	put(argc), put(argv[0]);
	return pay(argc) + one.go(argc) + two.go(argc) + w.run(argc) + (int)w.turn(3.5) + w.turn(argc) + within(3) + most(argc, 3) + (int)most(2.5, 1.0 * argc) +
	       over(argc) + over(argc, argv, f, a) + into<int, 3>(argc, w) + into<char, 4>(argc, w) + kept(argc, nullptr) + ns::Other().run(argc) + g(3) + both(4);
}
"""
IDENTITY_FLAGS = "-g", "-g1", "-gline-tables-only", "-g -gdwarf-4", "-g -gdwarf-3", "-g -gdwarf-2 -gstrict-dwarf", "-g -gsimple-template-names"
IDENTITY_RUST = """mod ns {
    pub struct Widget { pub k: i32 }
    impl Widget {
        #[inline(never)] pub fn run(&self, x: i32) -> i32 { super::sink(x + self.k) + 1 }
        #[inline(never)] pub fn turn<T: Into<f64>>(&self, x: T) -> i32 { super::sink(x.into() as i32 + self.k) + 1 }
    }
    pub trait Shape { fn area(&self) -> i32; }
    impl Shape for Widget { #[inline(never)] fn area(&self) -> i32 { super::sink(self.k) * 3 } }
}
#[inline(never)] fn sink(x: i32) -> i32 { unsafe { std::ptr::read_volatile(&x) } }
#[inline(never)] fn apply(f: &dyn Fn(i32) -> i32) -> i32 { f(3) + 1 }
fn main() {
    use ns::Shape;
    let w = ns::Widget { k: std::env::args().count() as i32 };
    println!("{}", w.run(3) + w.turn(3.5) + w.turn(2i32) + w.area() + apply(&|x| sink(x + w.k)) + apply(&|x| sink(x * w.k)));
}
"""
OVER = "over(unsigned long, char const* const*, int (*)(char), int (&) [3])"


def check_identity(tool, folder):
    """A function has the whole name of its symbol, however little its entry says; a call that is inlined has the name that the symbol of
    its function has, else scopes and parameters by the entries."""
    source = os.path.join(folder, "identity.cpp")
    with open(source, "w", encoding="utf-8") as file:
        file.write(IDENTITY)
    for compiler in filter(shutil.which, ("g++", "clang++")):
        for flags in IDENTITY_FLAGS:
            program = os.path.join(folder, "identity")
            done = subprocess.run([compiler, "-O1", *flags.split(), source, "-o", program], stderr=subprocess.PIPE, text=True, timeout=SECONDS)
            if done.returncode != 0:
                print("check_extract: left out", compiler, flags)
                continue
            check_identity_of(compiler + " " + flags, extract(tool, program), program, source)
    if shutil.which("rustc"):
        check_identity_rust(tool, folder)
    else:
        print("check_extract: left out rustc")


def symbol_names(program):
    out = {}
    for line in subprocess.run(["nm", "-C", program], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        if found := re.fullmatch(r"([0-9a-f]+) [tTwW] (.+)", line):
            out[int(found[1], 16)] = re.sub(r"::h[0-9a-f]{16}$", "", found[2])
    return out


def check_identity_rust(tool, folder):
    """In tables of lines functions have their own names alone."""
    source, program = os.path.join(folder, "identity.rs"), os.path.join(folder, "identity-rs")
    with open(source, "w", encoding="utf-8") as file:
        file.write(IDENTITY_RUST)
    for level in "line-tables-only", "1", "2":
        done = subprocess.run(["rustc", "-C", "opt-level=1", "-C", "debuginfo=" + level, source, "-o", program], stderr=subprocess.PIPE, timeout=SECONDS)
        if done.returncode != 0:
            print("check_extract: left out rustc -C debuginfo=" + level)
            continue
        records = extract(tool, program)
        own = {address: name for address, name in symbol_names(program).items() if any(f[1] == source for f in records.frames(address))}
        names = {frames[-1][0] for frames in map(records.frames, own)}
        check("rustc", {"identity::ns::Widget::run", "identity::ns::Widget::turn", "<identity::ns::Widget as identity::ns::Shape>::area",
                        "identity::sink", "identity::apply", "identity::main", "identity::main::{{closure}}"} == names, level, names)
        for address, name in own.items():
            check("rustc", records.frames(address)[-1][0] == name, level, records.frames(address), name)


def check_identity_of(what, records, program, source):
    check(what, records.overlap() is None, records.overlap())
    own = {address: name for address, name in symbol_names(program).items() if any(f[1] == source for f in records.frames(address))}
    check(what, len(own) == 18 and len(set(own.values())) == 18, own)
    for address, name in own.items():
        check(what, records.frames(address)[-1][0] == name, records.frames(address), name)
    inlined = {r["func"] for _, r in records.ranges if r["depth"] > 0}
    if "-g1" in what or "-gline-tables-only" in what:
        want = {"over", "into<int, 3>", "into<char, 4>", "operator()", "both" if what.startswith("clang++") else "both(int)"}
    elif what.startswith("clang++"):  # it tells linkage names of these, too
        want = {"over(int)", OVER, "both(int)", "int into<int, 3>(int, ns::Widget&)", "char into<char, 4>(char, ns::Widget&)"}
        inlined = {name for name in inlined if not name.startswith("main::")}
    elif "-gstrict-dwarf" in what:  # without namespaces
        want = {"over(int)", OVER, "both(int)"}
        inlined &= want
    else:
        want = {"over(int)", OVER, "both(int)", "into<int, 3>(int, ns::Widget&)", "into<char, 4>(char, ns::Widget&)",
                "main::{lambda(long)}::operator()(long) const"}
    check(what, inlined == want, inlined ^ want)


# What hand-written assembler does: functions without a size, labels within them, a global label of no type.
SIZELESS = """.text
.type sized,%function
sized: .4byte 0
.4byte 0
.size sized,.-sized
.globl bare
.type bare,%function
bare: .4byte 0
local: .4byte 0
.globl untyped
untyped: .4byte 0
.type inner,%function
inner: .4byte 0
.globl around
.type around,%function
around: .4byte 0
.type within,%function
within: .4byte 0
.4byte 0
.size around,.-around
.type last,%function
last: .4byte 0
.4byte 0
.section .init,"ax",%progbits
.4byte 0
"""
# Labels without type and size: what begins a function, and what must not.
LABELS = """.text
.type sized,%function
sized: .4byte 0
.globl inside
inside: .4byte 0
.size sized,.-sized
.4byte 0
.globl code
code: .4byte 0
code.loop: .4byte 0
..@3.skip: .4byte 0
other: .4byte 0
.globl table
table: .4byte 0
.type object,%object
object: .4byte 0
.4byte 0
.size object,.-object
.globl alias
alias:
.type data,%object
data: .4byte 0
.size data,.-data
.globl both
both:
its_own: .4byte 0
.globl last
last: .4byte 0
.section .fini,"ax",%progbits
.4byte 0
"""
LABELS_ARM = """.text
.globl code
code: nop
.globl pool
pool: .4byte 7
.globl more
more: nop
.globl with_pool
.type with_pool,%function
with_pool: nop
.4byte 7
nop
"""
# A label without type and size, and the mark of the instructions there.
LABELS_RISCV = """.text
.globl entry
entry:
"$xrv64i2p1": .4byte 0x13
.4byte 0x13
"""
# Two symbols that begin together, of which the one that counts is shorter.
TOGETHER = """.text
.globl first
.type first,@function
.type whole,@function
first:
whole: .4byte 0
.size first,.-first
.4byte 0
.size whole,.-whole
"""
# A library of which only the symbols that it exports are left; the others' code has unwind data.
STRIPPED = """.text
.globl exported
.type exported,%function
exported: .4byte 0
.globl label
label: .4byte 0
.type hidden,%function
hidden:
.cfi_startproc
.4byte 0
.4byte 0
.cfi_endproc
.size hidden,.-hidden
.globl after
.type after,%function
after: .4byte 0
.type hidden2,%function
hidden2:
.cfi_startproc
.4byte 0
.cfi_endproc
.size hidden2,.-hidden2
"""
# Functions of Thumb and Arm instructions, sized and not.
THUMB = """.syntax unified
.text
.thumb
.globl thumb
.type thumb,%function
.thumb_func
thumb: nop
nop
nop
.size thumb,.-thumb
.globl bare
.type bare,%function
.thumb_func
bare: nop
nop
.balign 4
.arm
.globl arm
.type arm,%function
arm: nop
nop
.size arm,.-arm
"""


def assembled(folder, name, text, target, *options):
    """A shared library for a machine, by LLVM's tools; None without them."""
    if not shutil.which("clang") or not shutil.which("ld.lld"):
        print("check_extract: left out", name)
        return None
    source, program = os.path.join(folder, name + ".s"), os.path.join(folder, name)
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    subprocess.run(["clang", f"--target={target}", "-nostdlib", "-shared", "-fuse-ld=lld", *options, source, "-o", program], check=True, timeout=SECONDS)
    return program


WITHIN = ("local", "within", "$d", "with_pool", "inside", "code.loop", "..@3.skip")  # labels in functions, which a judge takes for one


def check_named(tool, program, names):
    """Names at each second byte of the text, in order, and as llvm-symbolizer says where there is one."""
    records = extract(tool, program)
    check(program, records.overlap() is None, records.overlap())
    addresses = list(code_addresses(program, 2))
    got = [records.frames(a)[-1][0] if records.frames(a) else None for a in addresses]
    check(program, got == names, got, names)
    judged = llvm_symbolizer(program, addresses)
    for address, name in zip(addresses, got):
        check(program, not name or judged[address][0][0] in (name, *WITHIN), hex(address), name, judged[address])


def check_sizeless(tool, folder):
    program = assembled(folder, "sizeless", SIZELESS, "x86_64-linux-gnu")
    if program:
        names = ["sized"] * 4 + ["bare"] * 4 + ["untyped"] * 2 + ["inner"] * 2 + ["around"] * 6 + ["last"] * 4
        check_named(tool, program, names)
    program = assembled(folder, "labels", LABELS, "x86_64-linux-gnu", "-Wl,--defsym=_etext=last+4,--section-start=.text=0x2000,--section-start=.fini=0x2034")
    if program:
        names = ["sized"] * 4 + [None] * 2 + ["code"] * 6 + [None] * 2 + ["table"] * 2 + ["object"] * 4 + ["data"] * 2 + [None] * 2 + ["last"] * 2
        check_named(tool, program, names)
        check(program, "_etext" not in [r["func"] for _, r in extract(tool, program).ranges], "what is behind .text")
    for target in "aarch64-linux-gnu", "armv7-linux-gnueabihf":
        program = assembled(folder, "labels-" + target, LABELS_ARM, target)
        if program:
            check_named(tool, program, ["code"] * 2 + [None] * 2 + ["more"] * 2 + ["with_pool"] * 6)
    program = assembled(folder, "labels-riscv", LABELS_RISCV, "riscv64-linux-gnu")
    if program:
        got = names_at(extract(tool, program), code_start(program), 0, 6)
        check(program, got == [["entry"], ["entry"]], got)
    program = assembled(folder, "together", TOGETHER, "x86_64-linux-gnu")
    if program:
        got = names_at(extract(tool, program), code_start(program), 0, 4, 7)
        check(program, got == [["first"], ["whole"], ["whole"]], got)
    program = assembled(folder, "stripped", STRIPPED, "x86_64-linux-gnu", "-Wl,--strip-all", "-Wl,--eh-frame-hdr")
    if program:
        check_named(tool, program, ["exported"] * 2 + [None] * 6 + ["after"] * 2 + [None] * 2)


# ---- what single compilers, linkers and libraries do ----

D_NAMES = {"_D4shop4Till5totalMFiZi": "shop.Till.total(int)", "_D4shop4Till5totalMFiZ5innerMFNaNbNiNfiZi": "shop.Till.total(int).inner(int)",
           "_D4shop3Box6__ctorMFNciZSQxQu": "shop.Box.this(int)", "_Dmain": "D main", "_D4shop": "_D4shop", "_D1x": "_D1x"}
D_SOURCE = """module shop;
class Till {
    int sum;
    int total(int x) { int inner(int y) { return y * sum + x; } sum += x; return inner(x) + inner(sum); }
    int get(T)(T x) { return cast(int) x + sum; }
}
int twice(int x) { return x * 2; }
int apply(int delegate(int) f) { return f(4); }
int main(string[] args) { auto t = new Till; int n = cast(int) args.length; return t.total(n) + t.get(3.5) + twice(n) + apply((int x) => x + n); }
"""
CHAIN = """extern int probe(int);
#define WITHIN static inline __attribute__((always_inline))
WITHIN int inner(int x) { return probe(x) * 3 + probe(x + 1); }
WITHIN int middle(int x) { if (__builtin_expect(x > 100, 0)) return 7; return inner(x); }
int outer(int x) { int r = 0; if (x & 1) r = middle(x); return r + 4; }
__attribute__((noipa)) int probe(int x) { volatile int y = x; return y; }
int main(int n, char **v) { (void)v; return outer(n); }
"""
CALLS = """#include <stdio.h>
#include <stdlib.h>
int main(int n, char **v) { return printf("%d\\n", atoi(v[0])) + puts(v[n - 1]); }
"""
ALIASES = """int __own_opened64(int x) { volatile int y = x; return y; }
extern __typeof(__own_opened64) opened64 __attribute__((weak, alias("__own_opened64")));
extern __typeof(__own_opened64) opened __attribute__((weak, alias("__own_opened64")));
extern __typeof(__own_opened64) other __attribute__((alias("__own_opened64")));
static int _kept(int x) { return __own_opened64(x) + 1; }
int main(int n, char **v) { (void)v; return _kept(n); }
"""
# As linkers for 64-bit PowerPC write it: symbols of functions are of descriptors.
DESCRIPTORS = """.text
.Lrun: .skip 8,0x90
.Lwalk: .skip 8,0x90
"0000001b.plt_call.printf": .skip 8,0x90
.section .opd,"aw",@progbits
.globl run, walk
.type run,@function
run: .quad .Lrun,0,0
.size run,8
.type walk,@function
walk: .quad .Lwalk,0,0
.size walk,8
"""
EM_PPC64 = 21


def compiled(folder, name, text, *command):
    source, program = os.path.join(folder, name), os.path.join(folder, name.replace(".", "-"))
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    subprocess.run([*command, source, "-o", program], check=True, timeout=SECONDS)
    return program, source


def check_producers(tool, folder):
    check_d(tool, folder)
    check_chain(tool, folder)
    check_stubs(tool, folder)
    check_descriptors(tool, folder)
    check_public_names(tool, folder)
    check_cut(tool, folder)
    check_headerless(tool, folder)
    check_asked(tool, folder)


def check_d(tool, folder):
    """Names of D are demangled as binutils does; gdc's functions within others have a symbol alone."""
    text = ".text\n" + "".join(f".globl {n}\n.type {n},@function\n{n}: ret\n.size {n},.-{n}\n" for n in D_NAMES)
    program, _ = compiled(folder, "names-of-d.s", text, "gcc", "-shared", "-nostdlib")
    names = [r["func"] for _, r in extract(tool, program).ranges]
    check("D", names == list(D_NAMES.values()), names)
    if not shutil.which("gdc"):
        print("check_extract: left out gdc")
        return
    for options in ["-O0"], ["-O2"]:
        program, source = compiled(folder, "shop.d", D_SOURCE, "gdc", "-g", *options)
        records = extract(tool, program)
        nm = subprocess.run(["nm", program], stdout=subprocess.PIPE, text=True, check=True).stdout
        own = [line.split() for line in nm.splitlines() if " _D4shop" in line and line.split()[1] in "tTW"]
        want = subprocess.run(["c++filt", "-s", "dlang", *(f[2] for f in own)], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        got = [records.frames(int(f[0], 16))[-1][:2] for f in own]
        check("gdc", len(own) >= 4 and got == [(name, source) for name in want], options, got, want)
        inner = {r["func"] for _, r in records.ranges if ".inner" in r["func"] or r["func"] == "inner"}
        check("gdc", inner == {"shop.Till.total(int).inner" + ("(int)" if options == ["-O0"] else "")}, options, inner)


def check_chain(tool, folder):
    """Strict DWARF 2 does not tell the code of a call of which only a call inlined into it is left."""
    program, source = compiled(folder, "chain.c", CHAIN, "gcc", "-O2", "-gdwarf-2", "-gstrict-dwarf")
    records = extract(tool, program)
    address = next(va for va, r in records.ranges if r["func"] == "inner")
    got = records.frames(address)
    check("chain", [f[0] for f in got] == ["inner", "middle", "outer"] and got[0][1:] == (source, 3), got)
    if shutil.which("llvm-symbolizer"):
        check("chain", [f[0] for f in llvm_symbolizer(program, [address])[address]] == [f[0] for f in got], got)


def check_stubs(tool, folder):
    """Those that call functions of other libraries, as objdump names them."""
    for options in [], ["-fcf-protection=full", "-Wl,-z,ibtplt"], ["-no-pie"], ["-Wl,-z,now"]:
        program, _ = compiled(folder, "calls.c", CALLS, "gcc", "-O1", *options)
        lines = subprocess.run(["objdump", "-d", program], stdout=subprocess.PIPE, text=True, check=True).stdout
        want = {int(a, 16): n for a, n in re.findall(r"^([0-9a-f]+) <(.*@plt)>:$", lines, re.M)}
        records = extract(tool, program)
        got = {va: r["func"] for va, r in records.ranges if r["func"].endswith("@plt")}
        check("stubs", got == want and {"printf@plt", "puts@plt"} <= set(got.values()), options, got, want)
        check("stubs", records.overlap() is None, records.overlap())
    program = assembled(folder, "stubs-aarch64", ".text\n.globl code\n.type code,%function\ncode: bl first\nbl _ZN2ns6secondEi\nret\n.size code,.-code\n",
                        "aarch64-linux-gnu")
    if program:
        got = [r["func"] for _, r in extract(tool, program).ranges]
        check("stubs", got == ["code", "first@plt", "ns::second(int)@plt"], got)
    name = "x" * 300000  # longer than any name is told; the others are told all the same
    program, _ = compiled(folder, "long.c", f"void {name}(void);\nvoid code(void) {{ {name}(); {name}(); }}\n", "gcc", "-shared", "-fPIC", "-O0")
    got = [r["func"] for _, r in extract(tool, program).ranges]
    check("stubs", "code" in got and any(n.startswith("xx") and n.endswith("@plt") for n in got), [n[:20] for n in got])


def check_descriptors(tool, folder):
    program, _ = compiled(folder, "descriptors.s", DESCRIPTORS, "gcc", "-shared", "-nostdlib")
    with open(program, "r+b") as file:
        file.seek(18)
        file.write(struct.pack("<H", EM_PPC64))
    got = [(va - code_start(program), r["len"], r["func"]) for va, r in extract(tool, program).ranges]
    check("descriptors", sorted(got) == [(0, 8, "run"), (8, 8, "walk"), (16, 8, "0000001b.plt_call.printf")], got)
    if shutil.which("powerpc64-linux-gnu-gcc"):
        for options in [], ["-g"], ["-no-pie"]:
            program, _ = compiled(folder, "chain.c", CHAIN, "powerpc64-linux-gnu-gcc", "-O1", *options)
            names = {r["func"] for _, r in extract(tool, program).ranges}
            check("powerpc64", {"main", "outer", "probe"} <= names, options, names)


def check_public_names(tool, folder):
    """Of a library's function the name that programs know is shown."""
    for options in [], ["-g"]:
        program, _ = compiled(folder, "aliases.c", ALIASES, "gcc", "-O0", *options)
        names = {r["func"] for _, r in extract(tool, program).ranges}
        public = {"opened"} if options else {"opened", "other"} & names
        check("public", len(public) == 1 and public <= names and "__own_opened64" not in names and "_kept" in names, options, names)


def check_cut(tool, folder):
    """A file whose end is missing is called cut off."""
    program, _ = compiled(folder, "calls.c", CALLS, "gcc", "-g")
    size = os.path.getsize(program)
    for left in size - 1, size - 2000, size // 2, 64:
        os.truncate(program, left)
        done = subprocess.run([tool, program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS)
        check("cut", done.returncode == 1 and done.stderr == f"{program}: cut off: the file ends before its section headers\n", left, done.stderr)


# A label without a size before a function that has no symbol, but lines.
BEFORE_UNNAMED = """asm(".text\\n.globl bare\\n.type bare,%function\\nbare: .skip 16,0x90");
__attribute__((noipa)) static int unnamed(int v) { return v * 3; }
int main(int n, char **v) { (void)v; return unnamed(n); }
"""


def nameless(macho, name):
    """A copy of the Mach-O file where a global symbol without a name begins in its function."""
    with open(macho, "rb") as file:
        data, at = bytearray(file.read()), 32
    for _ in range(struct.unpack_from("<I", data, 16)[0]):
        command, size = struct.unpack_from("<II", data, at)
        if command == 2:
            symbols, count, strings, length = struct.unpack_from("<IIII", data, at + 8)
        at += size
    values = {struct.unpack_from("<Q", data, i + 8)[0]: i for i in range(symbols, symbols + 16 * count, 16)}
    data[strings + length - 1] = 0
    struct.pack_into("<IBBHQ", data, values[0x100000000], length - 1, 0xF, 1, 0, 0x100000348)
    with open(name, "wb") as file:
        file.write(data)
    return name


def without_list(pdb, name):
    """A copy of the PDB file whose public symbols are not listed by address. Module 0 describes no functions, and has the first 8 bytes
    of the code; module 1 the rest from byte 16 on."""
    with open(pdb, "rb") as file:
        data = bytearray(file.read())
    block, _, _, length, _, at = struct.unpack_from("<6I", data, 32)
    blocks = struct.unpack_from(f"<{-(-length // block)}I", data, at * block)
    directory = b"".join(data[b * block : (b + 1) * block] for b in blocks)
    count = struct.unpack_from("<I", directory)[0]
    sizes = struct.unpack_from(f"<{count}I", directory, 4)
    before = sum(-(-size // block) for size in sizes[:3] if size != 0xFFFFFFFF)
    dbi = struct.unpack_from("<I", directory, 4 + 4 * count + 4 * before)[0] * block
    contributions = dbi + 64 + struct.unpack_from("<I", data, dbi + 24)[0] + 4
    struct.pack_into("<H", data, dbi + 16, 0xFFFF)
    struct.pack_into("<III", data, dbi + 64 + 36, 0, 0, 0)
    struct.pack_into("<I", data, contributions + 8, 8)
    struct.pack_into("<HHII", data, contributions + 28, 1, 0, 16, 23)
    with open(name, "wb") as file:
        file.write(data)
    return name


def check_asked(tool, folder):
    """What is read for one address says of it what all that is read says."""
    views = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fuzz/corpus/view")
    program, _ = compiled(folder, "asked.c", BEFORE_UNNAMED, "gcc", "-O1", "-g", "-fno-toplevel-reorder")
    subprocess.run(["objcopy", "--strip-symbol=unnamed", program], check=True)
    made = [program, nameless(f"{views}/macho", f"{folder}/nameless"), without_list(f"{views}/s.pdb", f"{folder}/listless.pdb")]
    for path in made + [f"{views}/{name}" for name in ("dsym", "dwarf.exe", "s.pdb")]:
        whole = extract(tool, path)
        ends = {at for va, r in whole.ranges for at in (va, va + r["len"] - 1, va + r["len"], va + r["len"] + 16)}
        for at in sorted(ends):
            got = extract(tool, path, "-a", hex(at)).frames(at)
            check(path, got == whole.frames(at), hex(at), got, whole.frames(at))


def form_of(data):
    """How a file's words and addresses are packed, and where its header has those of segments and sections."""
    order = "<>"[data[5] - 1]
    return (order, "Q", 32, 40, 58) if data[4] == 2 else (order, "I", 28, 32, 46)


def segments_of(data):
    """(type, where its fields are, offset, address, size in the file) of each."""
    order, word, at, _, _ = form_of(data)
    table, size, count = struct.unpack_from(order + word, data, at)[0], *struct.unpack_from(order + "HH", data, 54 if word == "Q" else 42)
    for i in range(table, table + size * count, size):
        fields = struct.unpack_from(order + ("IIQQQQ" if word == "Q" else "IIIII"), data, i)
        yield (fields[0], i, fields[2], fields[3], fields[5]) if word == "Q" else (fields[0], i, fields[1], fields[2], fields[4])


def without_section_headers(program, name):
    """A copy that ends with its last segment, as sstrip makes it."""
    with open(program, "rb") as file:
        data = bytearray(file.read())
    order, word, _, sections, numbers = form_of(data)
    struct.pack_into(order + word, data, sections, 0)
    struct.pack_into(order + "HHH", data, numbers, 0, 0, 0)
    with open(name, "wb") as file:
        file.write(data[: max(at + size for kind, _, at, _, size in segments_of(data) if kind == PT_LOAD)])
    return name


LIBRARY = """.text
.globl whole
.type whole,%function
whole:
.fill 32,1,0
.size whole,32
.globl bare
.type bare,%function
bare:
.fill 16,1,0
.weak other
.type other,%function
other:
.fill 8,1,0
.size other,8
.data
.globl number
.type number,%object
.size number,4
number: .4byte 1
"""
PT_LOAD, PT_DYNAMIC, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_HASH, DT_GNU_HASH = 1, 2, 5, 6, 10, 4, 0x6FFFFEF5


def check_headerless(tool, folder):
    """Without section headers, PT_DYNAMIC says where symbols are: the same that nm -D finds with them."""
    for target in "x86_64-linux-gnu", "i386-linux-gnu", "powerpc-linux-gnu", "mips64-linux-gnuabi64":
        for style in "gnu", "sysv", "both":
            options = [f"-Wl,--hash-style={style}", "-Wl,--build-id"]
            program = not (target.startswith("mips") and style != "sysv") and assembled(folder, f"headerless-{target}-{style}", LIBRARY, target, *options)
            if not program:
                continue
            bare = without_section_headers(program, program + "-bare")
            got = sorted((va, r["func"], r["len"]) for va, r in extract(tool, bare).ranges if r["func"] != "bare")
            lines = subprocess.run(["llvm-nm", "-D", "-S", program], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
            want = sorted((int(f[0], 16), f[3], int(f[1], 16)) for f in map(str.split, lines) if len(f) == 4 and f[2] in "TW" and f[3] != "bare")
            check(bare, len(got) == 2 and got == want, got, want)
            check_hostile_dynamic(tool, bare)
    check_headerless_debug(tool, folder)


def check_headerless_debug(tool, folder):
    """The debug file is found by the build id of PT_NOTE; a file whose end is missing is called cut."""
    program, source = compiled(folder, "chain.c", CHAIN, "gcc", "-O1", "-g", "-Wl,--build-id")
    build_id = re.search("Build ID: (.*)", subprocess.run(["readelf", "-n", program], stdout=subprocess.PIPE, text=True, check=True).stdout)[1]
    below, bare = os.path.join(folder, "headerless-debug"), without_section_headers(program, program + "-bare")
    os.makedirs(f"{below}/.build-id/{build_id[:2]}")
    subprocess.run(["objcopy", "--only-keep-debug", program, f"{below}/.build-id/{build_id[:2]}/{build_id[2:]}.debug"], check=True)
    address = next(va for va, r in extract(tool, program).ranges if r["func"] == "inner")
    records = extract(tool, bare, "-d", below)
    got, want = ([r for _, r in x.ranges if not r["func"].endswith("@plt")] for x in (records, extract(tool, program)))
    check(bare, got == want and records.frames(address)[0][:2] == ("inner", source), got, want)
    os.truncate(bare, os.path.getsize(bare) - 1)
    done = subprocess.run([tool, bare], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS)
    check("cut", done.returncode == 1 and done.stderr == f"{bare}: cut off: the file ends within a segment\n", done.stderr)


def check_hostile_dynamic(tool, bare):
    """Numbers of PT_DYNAMIC, and of the tables that it leads to, may be anything."""
    with open(bare, "rb") as file:
        good = file.read()
    order, word, _, _, _ = form_of(good)
    size = struct.calcsize(word)
    at, length = next((at, length) for kind, _, at, _, length in segments_of(good) if kind == PT_DYNAMIC)
    places = {struct.unpack_from(order + word, good, i)[0]: i + size for i in range(at, at + length, 2 * size)}
    for tag in {DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_HASH, DT_GNU_HASH} & set(places):
        changes = [(places[tag], word, v) for v in (0, 1, len(good) - 1, (1 << 8 * size) - 1)]
        if tag in (DT_HASH, DT_GNU_HASH):
            table = struct.unpack_from(order + word, good, places[tag])[0]
            changes += [(table + i, "I", v) for i in range(0, 32, 4) for v in (0, 1 << 31, (1 << 32) - 2)]
        for place, kind, value in changes:
            data = bytearray(good)
            struct.pack_into(order + kind, data, place, value)
            with open(bare, "wb") as file:
                file.write(data)
            done = subprocess.run([tool, bare], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS)
            check(bare, done.returncode in (0, 1) and "Sanitizer" not in done.stderr, hex(tag), value, done.stderr)


# As GNU's assembler describes functions: bit 0 of the first one's address is set, as in its symbol.
THUMB_ENTRIES = """.syntax unified
.text
.thumb
.type thumb,%function
.thumb_func
thumb: nop
nop
nop
.size thumb,.-thumb
.Lnext: nop
nop
.section .debug_abbrev,"",%progbits
.byte 1,0x11,1,3,8,0,0
.byte 2,0x2e,0,3,8,0x11,1,0x12,6,0,0
.byte 0
.section .debug_info,"",%progbits
.4byte .Lend-.Lbegin
.Lbegin: .2byte 4
.4byte 0
.byte 4,1
.asciz "thumb.s"
.byte 2
.asciz "thumb"
.4byte thumb,6
.byte 2
.asciz "next"
.4byte .Lnext,4
.byte 0
.Lend:
"""


def check_thumb(tool, folder):
    program = assembled(folder, "thumb", THUMB, "armv7-linux-gnueabihf")
    if program:
        check_named(tool, program, ["thumb"] * 3 + ["bare"] * 3 + ["arm"] * 4)
    program = assembled(folder, "thumb-entries", THUMB_ENTRIES, "armv7-linux-gnueabihf")
    if program:
        records = extract(tool, program)
        start = next(code_addresses(program, 2))
        got = [(va - start, r["len"], r["func"]) for va, r in sorted(records.ranges, key=lambda item: item[0])]
        check(program, got == [(0, 6, "thumb"), (6, 4, "next")], got)


CLONED = """#include <cstdio>
namespace ns {
__attribute__((noinline)) int work(int n)
{
	int sum = 0;
#pragma omp parallel for reduction(+ : sum)
	for (int i = 0; i < n; i++)
		sum += i * n;
	return sum;
}
int total;
__attribute__((noinline, transaction_safe)) void add(int n) { total += n; }
}
int main(int argc, char **) { __transaction_atomic { ns::add(argc); } return ns::work(argc); }
"""


def check_clones(tool, folder):
    """Names of what gcc makes out of functions: they have no linkage name, and their plain name is mangled."""
    source, program = os.path.join(folder, "cloned.cpp"), os.path.join(folder, "cloned.o.so")
    with open(source, "w", encoding="utf-8") as file:
        file.write(CLONED)
    subprocess.run(["g++", "-O1", "-g", "-fopenmp", "-fgnu-tm", "-shared", "-fPIC", "-nostdlib", source, "-o", program], check=True, timeout=SECONDS)
    names = {r["func"] for _, r in extract(tool, program).ranges if r["depth"] == 0}
    check("clones", {"ns::work(int) [clone ._omp_fn.0]", "transaction clone for ns::add(int)", "ns::work(int)", "ns::add(int)"} <= names, names)


FOLDED = """struct A { virtual ~A() {} virtual int a() { return 1; } };
struct B { virtual ~B() {} virtual int f(int x) { return x; } };
struct D : A, B { int k = 3; int f(int x) override { volatile int y = x * k; return y + 1; } };
__attribute__((noinline)) int first(int x)
{
	volatile int y = x * 7;
	return y + 1;
}
__attribute__((noinline)) int second(int x)
{
	volatile int y = x * 7;
	return y + 1;
}
template <class T> __attribute__((noinline)) int size(T *p)
{
	return p ? first((int)*p) : 0;
}
static inline int doubled(int x)
{
	volatile int y = x * 2;
	return y * x;
}
__attribute__((noinline)) int third(int x)
{
	int z = doubled(x) + 5;
	return z ^ x;
}
__attribute__((noinline)) int fourth(int x)
{
	int w = doubled(x) + 5;
	return w ^ x;
}
int main(int argc, char **)
{
	D d;
	B *volatile b = &d;
	int i = argc;
	unsigned u = (unsigned)argc;
	return b->f(argc) + first(argc) + second(argc) + third(argc) + fourth(argc) + size(&i) + size(&u);
}
"""
FOLDED_LINES = {"first(int)": range(4, 9), "second(int)": range(9, 14), "int size<int>(int*)": range(14, 18), "int size<unsigned int>(unsigned int*)": range(14, 18),
                "doubled(int)": range(18, 23), "third(int)": range(23, 28), "fourth(int)": range(28, 33)}  # fmt: skip


def check_folded(tool, folder):
    """Functions of equal code that the linker has folded into one, and the thunks beside them: the name of one, and its lines."""
    source = os.path.join(folder, "folded.cpp")
    with open(source, "w", encoding="utf-8") as file:
        file.write(FOLDED)
    for compiler, level, linker in itertools.product(("g++", "clang++"), ("-O1", "-O2"), ("gold", "lld")):
        program = os.path.join(folder, "folded-" + compiler + level + "-" + linker)
        if not shutil.which(compiler) or not shutil.which("ld." + linker):
            print("check_extract: left out", os.path.basename(program))
            continue
        subprocess.run([compiler, level, "-g", "-ffunction-sections", "-fuse-ld=" + linker, "-Wl,--icf=all", source, "-o", program], check=True,
                       timeout=SECONDS)
        symbols = subprocess.run(["nm", "-C", "-S", "--defined-only", program], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        symbols = [(int(f[0], 16), int(f[1], 16), f[3]) for f in (line.split(" ", 3) for line in symbols) if len(f) == 4 and f[2] in "tTW"]
        starts = [start for start, _, _ in symbols]
        folded = [(start, start + size) for start, size, _ in symbols if starts.count(start) > 1]
        at = {name: start for start, _, name in symbols}
        check(program, at["first(int)"] == at["second(int)"] and at["third(int)"] == at["fourth(int)"] and starts.count(at["int size<int>(int*)"]) == 2, "nothing was folded", symbols)
        # Each judge may choose another of them.
        check_against_addr2line(tool, program, (a for a in code_addresses(program, 3) if not any(s <= a < e for s, e in folded)))
        check_threads(tool, program)
        records = extract(tool, program)
        for address in (a for start, end in folded for a in range(start, end)):
            got = records.frames(address)
            wrong = [f for f in got if f[0] in FOLDED_LINES and (f[1] not in (source, None) or f[2] not in {0, *FOLDED_LINES[f[0]]})]
            check(program, got and not wrong, hex(address), got)
        folds = [{f[0] for a in range(start, end) for f in records.frames(a)} & set(FOLDED_LINES) for start, end in set(folded)]
        check(program, {"doubled(int)", "third(int)"} in folds or {"doubled(int)", "fourth(int)"} in folds, folds)
        got = [records.frames(va)[-1] for va, r in records.ranges if r["func"] == "non-virtual thunk to D::f(int)"]
        check(program, got and all(f[1:] in ((source, 3), (source, 0)) for f in got), got)


def check_minimized(tool, sources, folder):
    """The same records whatever clang does to have fewer addresses."""
    if not shutil.which("clang++"):
        print("check_extract: left out forms of addresses")
        return
    whole = None
    for form in "Default", "Ranges", "Expressions", "Form":
        flags = f"-O2 -g -gdwarf-5 -mllvm -minimize-addr-in-v5={form}"
        program = compile_case(("clang-addresses", "clang++", "cpp", flags), sources, folder)
        records = program and dump(tool, program)
        check("addresses", records and records == (whole or records), form)
        whole = records


def stretch(program, name):
    """Where a section is in the file, and how long."""
    done = subprocess.run(["readelf", "-S", "-W", program], stdout=subprocess.PIPE, text=True, check=True)
    found = re.search(re.escape(name) + r"\s+\S+\s+\S+\s+([0-9a-f]+)\s+([0-9a-f]+)", done.stdout)
    return int(found[1], 16), int(found[2], 16)


def patched(program, path, *patches):
    """A copy with other bytes at some offsets."""
    with open(program, "rb") as file:
        data = bytearray(file.read())
    for at, new in patches:
        data[at:at + len(new)] = new
    with open(path, "wb") as file:
        file.write(data)
    return path


def check_damaged_units(tool, program, folder):
    """A unit that is malformed costs that unit, and is told; the symbol tables say what it does not."""
    path = os.path.join(folder, "damaged-unit")
    whole = extract(tool, program)
    info, lines = stretch(program, ".debug_info")[0], stretch(program, ".debug_line")[0]
    with open(program, "rb") as file:
        length = struct.unpack_from("<I", file.read(), info)[0]
    second = info + 4 + length
    one_of_two = "note: 1 of 2 units of debug data are malformed, the functions of "
    lists, huge = lines + 30, b"\xff\xff\xff\xff\xff\x7f"  # behind the lengths of the standard opcodes
    for what, patch, text in (
            ("version", (info + 4, b"\x4d\0"), one_of_two + "1 cannot be read; the first: unit at 0x0: DWARF version 77"),
            ("entries", (info + length // 2, b"\xff" * 64), one_of_two + "1 cannot be read"),
            ("length", (second, b"\xf0\xff\xff\x7f"), ""),  # it is read to the end of its section, as libdw does
            ("no length", (second, b"\0\0\0\0"), one_of_two + "1 cannot be read"),
            ("lines", (lines + 4, b"\x4d\0"), one_of_two + "0 cannot be read; the first: line table at 0x0: unknown version"),
            # entries of no bytes: DW_FORM_flag_present, DW_FORM_implicit_const
            ("directories", (lists, b"\1\1\x19" + huge), one_of_two + "0 cannot be read; the first: line table at 0x0: bad header"),
            ("files", (lists, b"\0\0\1\1\x21" + huge), one_of_two + "0 cannot be read; the first: line table at 0x0: bad header")):
        done, said = run(tool, "-q", patched(program, path, patch))
        check("damaged unit", done.returncode == 0 and text in said and (text or "malformed" not in said), what, done.returncode, said)
        records = extract(tool, path)
        check("damaged unit", records.overlap() is None, what, records.overlap())
        check_symbols(path, records)
        same = sum(records.frames(va) == whole.frames(va) for va, r in whole.ranges if r["depth"] == 0)
        check("damaged unit", same > 0 and (text or same == sum(r["depth"] == 0 for _, r in whole.ranges)), what, same)
    records = extract(tool, path)
    names = [[f[0] for f in r.frames(va)] for r in (records, whole) for va, _ in whole.ranges]
    check("damaged unit", names[:len(whole.ranges)] == names[len(whole.ranges):], "names without a line table")
    done, said = run(tool, "-q", patched(program, path, (info + 4, b"\x4d\0"), (second + 4, b"\x4d\0")))
    check("damaged unit", done.returncode == 1 and said == f"{path}: unit at 0x0: DWARF version 77 is not known", done.returncode, said)


def check_absence(tool, folder):
    """What is missing, and what helps."""
    program, stripped, other = (os.path.join(folder, name) for name in ("gcc-5", "stripped-for-absence", "gcc-O3"))
    subprocess.run(["objcopy", "--strip-debug", program, stripped], check=True)
    _, said = run(tool, "-q", "-d", folder, stripped)
    check("absence", f"note: no debug data, nor below {folder}: install them, or give --debug-file or --debug-dir" in said, said)
    _, said = run(tool, "-q", "-g", stripped, stripped)
    check("absence", f"note: no debug data in {stripped}" in said, said)
    debug = os.path.join(folder, "for-absence.debug")
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "--add-gnu-debuglink=" + debug, stripped], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", other, debug], check=True)
    _, said = run(tool, "-q", "-d", folder, stripped)
    check("absence", f"note: no debug data: {debug} is of another build" in said, said)
    module = assemble(folder, "module", [[entry("unit", '"a.c"', C99), END]]) + ".o"
    done, said = run(tool, "-q", module)
    check("absence", done.returncode == 1 and "not linked, such as a kernel module" in said, done.returncode, said)
    notes = [subprocess.run(["readelf", "-n", file], stdout=subprocess.PIPE, text=True, check=True).stdout for file in (program, other)]
    if all("Build ID" in note for note in notes):
        done, said = run(tool, "-q", "-g", debug, stripped)
        check("absence", done.returncode == 1 and f"{debug} is the debug file of another build" in said, done.returncode, said)


# ---- compressed sections, and the temporary file that they are inflated into ----

ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD = 1, 2


def deflated(kind, data):
    if kind == ELFCOMPRESS_ZSTD:
        return subprocess.run(["zstd", "-q", "-19", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout
    return zlib.compress(data)


def with_sections(program, path, change):
    """A copy of a little-endian ELF64 file; change(name, bytes) gives (type, size, bytes) of a compressed section, or None."""
    with open(program, "rb") as file:
        data = bytearray(file.read())
    headers, count, names_at = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<2H", data, 60)
    names = struct.unpack_from("<Q", data, headers + 64 * names_at + 24)[0]
    for at in range(headers, headers + 64 * count, 64):
        name, _, flags, _, offset, size = struct.unpack_from("<2I4Q", data, at)
        name = bytes(data[names + name:data.index(0, names + name)]).decode()
        changed = change(name, bytes(data[offset:offset + size])) if name.startswith(".debug_") else None
        if changed:
            kind, claimed, body = changed
            body = struct.pack("<2I2Q", kind, 0, claimed, 1) + body
            struct.pack_into("<Q", data, at + 8, flags | 0x800)
            struct.pack_into("<2Q", data, at + 24, len(data), len(body))
            data += body
    with open(path, "wb") as file:
        file.write(data)
    return path


def run(tool, *arguments, **options):
    """The process, and the text on its standard error."""
    done = subprocess.run([tool, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS, **options)
    return done, done.stderr.decode(errors="replace").strip()


def check_sections(tool, sources, folder):
    program = compile_case(("plain", "g++", "cpp", "-O2 -g -gz=none"), sources, folder)
    whole = dump(tool, program)
    path = os.path.join(folder, "sections")
    for kind in (ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD)[:2 if shutil.which("zstd") else 1]:
        with_sections(program, path, lambda name, data, k=kind: (k, len(data), deflated(k, data)))
        check("sections", dump(tool, path) == whole, "kind", kind)
        with_sections(program, path, lambda name, data, k=kind: (
            k, len(data), deflated(k, data[:1000]) + deflated(k, data[1000:])) if name == ".debug_info" else None)
        check("sections", dump(tool, path) == whole, "two streams of kind", kind)
        with_sections(program, path, lambda name, data, k=kind: (
            k, len(data), deflated(k, data) + b"behind") if name == ".debug_line" else None)
        check("sections", dump(tool, path) == whole, "more behind a stream of kind", kind)
        check_bad_sections(tool, program, path, kind)
    check_temporary(tool, with_sections(program, path, lambda name, data: (1, len(data), zlib.compress(data))), folder)
    check_memory(tool, folder)


def check_bad_sections(tool, program, path, kind):
    """What a header claims takes no memory, and is told when it is wrong."""
    bad = {
        "more than its header says": lambda data: (kind, len(data) - 1, deflated(kind, data)),
        "less than its header says": lambda data: (kind, len(data) + 1, deflated(kind, data)),
        "less than its header says ": lambda data: (kind, 1 << 60, deflated(kind, data)),
        "cut off": lambda data: (kind, len(data), deflated(kind, data)[:-200]),
        "compressed in a way that is not known: 77": lambda data: (77, len(data), deflated(kind, data)),
        "compressed data: ": lambda data: (kind, len(data), b"nothing of the kind" * 10),
    }
    # a sanitizer takes a part of all addresses for itself
    few = {} if has_sanitizer(tool) else {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_DATA, (1 << 28, 1 << 28))}
    for what, change in bad.items():
        with_sections(program, path, lambda name, data, c=change: c(data) if name == ".debug_info" else None)
        done, text = run(tool, "-q", path, **few)
        check("sections", done.returncode in (0, 1) and what.strip() in text and ".debug_info" in text, kind, what, done.returncode, text)


WITHOUT_TMPFILE = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
int open(const char *path, int flags, ...)
{
	if ((flags & O_TMPFILE) == O_TMPFILE) {
		fprintf(stderr, "nameless file refused\\n");
		errno = EOPNOTSUPP;
		return -1;
	}
	int (*real)(const char *, int, int) = (int (*)(const char *, int, int))dlsym(RTLD_NEXT, "open");
	return real(path, flags, 0600);
}
"""


def check_named_temporary(tool, program, folder):
    """Where a file system has no files without a name, the same comes out, and nothing stays behind."""
    library, place = os.path.join(folder, "without-tmpfile.so"), os.path.join(folder, "named")
    os.makedirs(place)
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=WITHOUT_TMPFILE.encode(), check=True, timeout=SECONDS)
    done = subprocess.run([tool, program], capture_output=True, timeout=SECONDS, check=False, env={"TMPDIR": place, "LD_PRELOAD": library})
    check("temporary", b"nameless file refused" in done.stderr and done.stdout == dump(tool, program), done.stderr)
    check("temporary", done.stderr.count(b"nameless file refused") == 1, "sections are inflated once", done.stderr)
    check("temporary", not os.listdir(place), os.listdir(place))


def check_temporary(tool, program, folder):
    """Instead of a folder that is not there it takes another; one that is full is told; an interrupted run leaves nothing in it."""
    if not has_sanitizer(tool):
        check_named_temporary(tool, program, folder)
    done, text = run(tool, "-q", program, env={"TMPDIR": folder + "/none"})
    check("temporary", done.returncode == 0 and "temporary folder" not in text, text)
    small = os.path.join(folder, "small")
    os.makedirs(small)
    done, text = run("unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=16k none "$1" && TMPDIR=$1 "$2" -q "$3"; echo $? >&2', "sh",
                     small, tool, program)
    if "unshare" in text or "mount" in text:
        print("check_extract: left out a full folder:", text)
    else:
        check("temporary", f"temporary folder {small}: No space left" in text and "TMPDIR" in text and text.endswith("1"), text)
    with subprocess.Popen([tool, program], stdout=subprocess.PIPE, env={"TMPDIR": small}) as interrupted:
        interrupted.stdout.read(1)  # it waits for more to be read
        interrupted.send_signal(signal.SIGINT)
    check("temporary", not os.listdir(small), os.listdir(small))


def check_memory(tool, folder):
    """Debug data of 60 MB are neither inflated for each thread nor kept."""
    blocks = ".fill 500000, 2, 3"  # entry("block"), END; .rept takes a hundred times as long
    unit = [entry("unit", '"a.cc"', CPLUSPLUS), blocks]
    units = [unit + [entry("function", f'"f{i}"', f"code+{i}", 1), END, END] for i in range(rounds(tool, 60))]
    path = assemble(folder, "large", units)
    subprocess.run(["objcopy", "--compress-debug-sections=zlib", path], check=True, timeout=SECONDS)
    for threads in "1", "8":
        # the process of a shell, since the peak of this one would count as the tool's
        _, text = run("sh", "-c", '"$@"; true', "sh", tool, "-q", "-t", threads, path)
        stats = json.loads(text)
        check("memory", stats["ranges"] >= len(units) and stats["max_rss_kib"] < 48 << 10, "threads", threads, text)


# ---- debug entries that no compiler writes, put together by the assembler ----

ABBREVS = {  # name: (code, tag, children, ((attribute, form), ...))
    "unit": (1, 0x11, 1, ((0x03, 0x08), (0x13, 0x0b))),
    "function": (2, 0x2e, 1, ((0x03, 0x08), (0x11, 0x01), (0x12, 0x07))),
    "block": (3, 0x0b, 1, ()),
    "inlined": (4, 0x1d, 1, ((0x31, 0x13), (0x11, 0x01), (0x12, 0x07), (0x59, 0x0b))),
    "ranged": (5, 0x1d, 1, ((0x31, 0x13), (0x55, 0x17))),
    "copy": (6, 0x2e, 0, ((0x47, 0x13), (0x11, 0x01), (0x12, 0x07))),
    "namespace": (8, 0x39, 1, ((0x03, 0x08),)),
    "linked": (9, 0x2e, 1, ((0x03, 0x08), (0x6e, 0x08), (0x3f, 0x0c), (0x11, 0x01), (0x12, 0x07))),
    "parameter": (10, 0x05, 0, ((0x49, 0x13),)),
    "type": (11, 0x24, 0, ((0x03, 0x08),)),
}
FORMS = {0x01: ".quad", 0x07: ".quad", 0x08: ".asciz", 0x0b: ".byte", 0x0c: ".byte", 0x13: ".long", 0x17: ".long"}
CPLUSPLUS, C99 = 4, 12


def entry(kind, *values, label=None):
    code, _, _, attributes = ABBREVS[kind]
    lines = [f"{label}:"] if label else []
    return "\n".join(lines + [f".byte {code}"] + [f"{FORMS[f]} {v}" for (_, f), v in zip(attributes, values)])


END = ".byte 0"


def assemble(folder, name, units, ranges="", link=("-shared",), code=256):
    """A library with that much code at the label code, and units of entries."""
    text = [".text", ".globl code", ".type code,@function", "code:", f".skip {code},0x90", ".size code, .-code"]
    text += ['.section .debug_abbrev,"",@progbits']
    for number, tag, children, attributes in ABBREVS.values():
        text += [f".uleb128 {number},{tag}", f".byte {children}", ".uleb128 " + ",".join(f"{a},{f}" for a, f in attributes + ((0, 0),))]
    text += [".byte 0", '.section .debug_info,"",@progbits']
    for i, entries in enumerate(units):
        text += [f"unit{i}:", f".long end{i} - start{i}", f"start{i}:", ".short 4", ".long 0", ".byte 8", *entries, f"end{i}:"]
    text += ['.section .debug_ranges,"",@progbits', ranges, '.section .note.GNU-stack,"",@progbits', ""]
    path = os.path.join(folder, name)
    with open(path + ".s", "w", encoding="utf-8") as file:
        file.write("\n".join(text))
    subprocess.run(["as", "-o", path + ".o", path + ".s"], check=True, timeout=SECONDS)
    subprocess.run(["ld", "--no-relax", "-e", "0", *link, "-o", path, path + ".o"], check=True, timeout=SECONDS, stderr=subprocess.DEVNULL)
    return path


def names_at(records, base, *offsets):
    return [[f[0] for f in records.frames(base + o)] for o in offsets]


def code_start(path):
    return next(code_addresses(path, 1))


def check_made(tool, folder):
    check_same_function(tool, folder)
    check_discarded(tool, folder)
    check_scopes(tool, folder)
    check_unreadable_names(tool, folder)
    check_extremes(tool, folder)
    check_forms(tool, folder)
    check_go_tables(tool, folder)


# Of DWARF 5: what tells the address of a function, "where" being where it begins in the unit's code; and forms that a table of lines
# may have for a path, for the number of a directory, and for what is not known, with a value each.
PLACES = (".byte 9, 3\n.quad where", *(f".byte {len}, 3\n.quad code\n.byte {op}\n{value} where - code\n.byte 0x22" for len, op, value in (
    (12, 8, ".byte"), (13, 10, ".short"), (15, 12, ".long"), (19, 14, ".quad"))),
    ".byte 13, 3\n.quad code\n.byte 0x10\n.byte (where - code) % 128 + 128, (where - code) / 128, 0x22",
    ".byte 12, 3\n.quad code\n.byte 0x23\n.byte (where - code) % 128 + 128, (where - code) / 128")
PATHS = ((0x08, '.asciz "{}"'), (0x1f, ".long {}"), (0x0e, ".long {}"))
DIRECTORIES = ((0x0f, ".byte 0x81, 0"), (0x0b, ".byte 1"), (0x05, ".short 1"), (0x06, ".long 1"), (0x07, ".quad 1"))
VENDOR = ((0x1e, ".quad 1, 2"), (0x0d, ".byte 0xff, 0x7f"), (0x09, ".byte 2, 1, 1"), (0x18, ".byte 3, 1, 1, 1"), (0x0a, ".byte 1, 1"),
          (0x03, ".short 2\n.byte 1, 1"), (0x04, ".long 1\n.byte 1"), (0x1a, ".byte 0x80, 1"), (0x0c, ".byte 1"), (0x17, ".long 1"))


def line_table(i):
    """Of the i-th unit: its file is one.c or two.c, in the second of two directories."""
    (path, name), (directory, one) = PATHS[i % len(PATHS)], DIRECTORIES[i % len(DIRECTORIES)]
    known = f".byte 1, {path}, 2, {directory}"
    vendor = "\n".join(f".uleb128 {0x2001 + k}, {form}" for k, (form, _) in enumerate(VENDOR))
    values = "\n".join(value for _, value in VENDOR)
    return f"""lines{i}: .long lines{i}_end - lines{i}_start
lines{i}_start: .short 5
.byte 8, 0
.long program{i} - header{i}
header{i}: .byte 1, 1, 1, -5, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 1, 1, 8, 2
.asciz "/first"
.asciz "/second"
.byte {2 + len(VENDOR)}
{vendor}
{known}
.byte 2
{values}
{name.format("one" if path == 8 else 8)}
{one}
{values}
{name.format("two" if path == 8 else 12)}
{one}
program{i}: .byte 0, 9, 2
.quad where{i}
.byte 4, {i % 2}, 3, 6, 1, 2, 16, 0, 1, 1
lines{i}_end:
"""


def check_forms(tool, folder):
    """Each form of DWARF 5 for the address of a function and in a table of lines, whose files and lines LLVM reads the same."""
    count = max(len(PLACES), len(DIRECTORIES) * len(PATHS))
    text = [".text", ".globl code", ".type code,@function", "code:"]
    for i in range(count):
        text += [f"where{i}:", ".skip 16, 0x90"]
    text += [".size code, .-code", '.section .debug_abbrev,"",@progbits', ".uleb128 1,0x11,1, 0x03,0x08, 0x13,0x0b, 0x10,0x17, 0x11,0x01, 0x12,0x0f, 0,0",
             ".uleb128 2,0x2e,0, 0x03,0x08, 0x11,0x18, 0x12,0x0f, 0,0, 0", '.section .debug_info,"",@progbits']
    for i in range(count):
        place = PLACES[i % len(PLACES)].replace("where", f"where{i}")
        text += [f".long end{i} - start{i}", f"start{i}: .short 5", ".byte 1, 8", ".long 0", ".byte 1", '.asciz "unit.c"', ".byte 12", f".long lines{i}",
                 f".quad where{i}", ".byte 16, 2", f'.asciz "f{i}"', place, ".byte 16, 0", f"end{i}:"]
    text += ['.section .debug_line,"",@progbits', *map(line_table, range(count))]
    for section in "line_str", "str":
        text += [f'.section .debug_{section},"MS",@progbits,1', ".asciz \"nothing\", \"one\", \"two\""]
    path = os.path.join(folder, "forms")
    with open(path + ".s", "w", encoding="utf-8") as file:
        file.write("\n".join(text + ['.section .note.GNU-stack,"",@progbits', ""]))
    subprocess.run(["as", "-o", path + ".o", path + ".s"], check=True, timeout=SECONDS)
    subprocess.run(["ld", "--no-relax", "-e", "0", "-shared", "-o", path, path + ".o"], check=True, timeout=SECONDS)
    records, base = extract(tool, path), code_start(path)
    addresses = [base + 16 * i + j for i in range(count) for j in (0, 15)]
    got = [records.frames(a) for a in addresses]
    want = [[(f"f{i}", f"/second/{('one', 'two')[i % 2]}", 7)] for i in range(count) for _ in range(2)]
    check("forms", [[tuple(f) for f in frames] for frames in got] == want, got)
    judged = llvm_symbolizer(path, addresses)  # it takes the names from the symbols, since it does not read such places
    check("forms", [[frame[1:] for frame in judged[a]] for a in addresses] == [[frame[1:] for frame in frames] for frames in want], judged)


def check_go_tables(tool, folder):
    """Each form, at a fixed address and where the linker has left the pointers to relocations; among other data; and too old."""
    for version in go_tables.MAGICS:
        for link, section in ((("-shared",), None), (("-Ttext=0x401000",), None), (("-shared",), ".data.rel.ro")):
            path = go_tables.assemble(folder, version, link, section)
            records, base = extract(tool, path), code_start(path)
            for offset, frames in go_tables.ANSWERS.items():
                got = records.frames(base + offset)
                check(path, got == frames, offset, got, frames)
    with open(go_tables.assemble(folder, 20, ("-Ttext=0x401000",)), "rb") as file:
        data = file.read()
    old = os.path.join(folder, "go-old")
    with open(old, "wb") as file:
        file.write(data.replace(b"\xf1\xff\xff\xff", b"\xfb\xff\xff\xff"))
    done = subprocess.run([tool, old], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS)
    check("old Go", done.returncode == 1 and "before 1.16" in done.stderr, done.stderr)


def check_same_function(tool, folder):
    """Functions that two units describe are given once; of those that overlap otherwise each address has one."""
    first = [entry("unit", '"a.c"', C99), entry("function", '"f"', "code", 64), END, entry("function", '"g"', "code+64", 64), END, END]
    second = [entry("unit", '"b.c"', C99), entry("function", '"f"', "code", 64), END, entry("function", '"h"', "code+120", 40), END,
              entry("function", '"i"', "code+200", 20), END, entry("function", '"j"', "code+180", 60), END, END]
    path = assemble(folder, "same", [first, second])
    records, base = extract(tool, path), code_start(path)
    check("same", records.overlap() is None, records.overlap())
    got = names_at(records, base, 0, 63, 64, 127, 128, 180, 199, 200, 219, 221)
    check("same", got == [["f"], ["f"], ["g"], ["g"], ["code"], ["j"], ["j"], ["i"], ["i"], ["code"]], got)


def check_discarded(tool, folder):
    """Code at address 0 or at a tombstone is left out, unless there is a section."""
    unit = [entry("unit", '"a.c"', C99), entry("function", '"zero"', 0, 8192), END, entry("function", '"gone"', -1, 32), END,
            entry("function", '"wraps"', -16, 64), END, entry("function", '"real"', "code+16", 32), END, END]
    path = assemble(folder, "discarded", [unit])
    records, base = extract(tool, path), code_start(path)
    check("discarded", {r["func"] for _, r in records.ranges} == {"real", "code"}, records.ranges)
    check("discarded", names_at(records, base, 0, 16, 47, 48) == [["code"], ["real"], ["real"], ["code"]], records.ranges)
    path = assemble(folder, "at-zero", [unit[:3] + [END]], link=("-Ttext=0",))
    check("at zero", names_at(extract(tool, path), 0, 0, 255, 256) == [["zero"], ["zero"], []], records.ranges)


def check_scopes(tool, folder):
    unit = [entry("unit", '"a.cc"', CPLUSPLUS), entry("namespace", '"out"'), entry("namespace", '"in"'),
            entry("function", '"f"', "code", 16), END, END, entry("function", '"g"', "code+16", 16), END, END,
            entry("function", '"h"', "code+32", 16), entry("function", '"nested"', "code+48", 16), END, END,
            entry("function", '"__second_sect_of_h"', "code+64", 16), END, END]
    path = assemble(folder, "scopes", [unit])
    got = names_at(extract(tool, path), code_start(path), 0, 16, 32, 48, 64)
    check("scopes", got == [["out::in::f"], ["out::g"], ["h"], ["nested"], ["h"]], got)


def check_unreadable_names(tool, folder):
    """A linkage name that the demangler cannot read, such as one with constraints of C++20, gives way to what the entries tell."""
    unit = [entry("unit", '"a.cc"', CPLUSPLUS), entry("type", '"long unsigned int"', label="size"), entry("namespace", '"geo"'),
            entry("linked", '"twice<long unsigned int>"', '"_ZN3geo5twiceITkNS_3NumEmEEiT_"', 1, "code", 16), entry("parameter", "size - unit0"), END,
            entry("linked", '"half"', '"_ZN3geo4halfEi"', 1, "code+16", 16), END, END, END]
    path = assemble(folder, "unreadable", [unit])
    got = names_at(extract(tool, path), code_start(path), 0, 16)
    check("unreadable", got == [["geo::twice<long unsigned int>(unsigned long)"], ["geo::half(int)"]], got)


def check_extremes(tool, folder):
    """What would take quadratic time, unbounded stacks or loops."""
    head = [entry("unit", '"a.cc"', CPLUSPLUS)]
    deep = head + [entry("function", '"f"', "code", 64, label="f")] + [entry("block")] * 200000 + [
        entry("inlined", "f - unit0", "code+8", 8, 7), END] + [END] * 200002
    path = assemble(folder, "deep", [deep])
    got = names_at(extract(tool, path), code_start(path), 0, 8, 16)
    check("deep blocks", got == [["f"], ["f", "f"], ["f"]], got)
    inlined = head + [entry("function", '"f"', "code", 64, label="f")] + [entry("inlined", "f - unit0", "code", 64, 7)] * 1000 + [END] * 1002
    path = assemble(folder, "inlined", [inlined])
    check("deep inlining", len(extract(tool, path).frames(code_start(path))) == 128, "frames")
    loop = head + [entry("copy", "b - unit0", "code", 16, label="a"), entry("copy", "a - unit0", "code+16", 16, label="b"), END]
    path = assemble(folder, "loop", [loop])
    check("loop of references", names_at(extract(tool, path), code_start(path), 0, 16) == [["code"], ["code"]], "names")
    shared = head + [entry("function", '"f"', "code", 256, label="f")] + [entry("ranged", "f - unit0", 0), END] * 20000 + [END, END]
    ranges = "".join(f".quad code+{i % 200},code+{i % 200 + 1}\n" for i in range(20000)) + ".quad 0,0\n"
    path = assemble(folder, "shared", [shared], ranges)
    check("shared ranges", extract(tool, path).overlap() is None, "overlap")
    scopes = head + [entry("namespace", '"n"')] * 50000 + [END] * 50000 + [
        entry("copy", f"d{i} - unit0", f"code+{i % 200}", 1) + "\n" + entry("function", f'"g{i}"', -1, 1, label=f"d{i}") + "\n" + END
        for i in range(20000)] + [END]
    path = assemble(folder, "many-scopes", [scopes])
    check("many scopes", names_at(extract(tool, path), code_start(path), 3) == [["g3"]], "names")


# ---- damaged files ----

def debug_bytes(program, size):
    """Where the debug sections are in the file, as one stretch; all of it when there are none."""
    done = subprocess.run(["readelf", "-S", "-W", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    found = re.findall(r"\.z?debug_\S+\s+\S+\s+\S+\s+([0-9a-f]+)\s+([0-9a-f]+)", done.stdout)
    starts, ends = [int(o, 16) for o, _ in found], [int(o, 16) + int(n, 16) for o, n in found]
    return (min(starts), max(ends)) if found else (0, size)


def check_hostile(tool, programs, folder, count, seed):
    damage = random.Random(seed)
    path = os.path.join(folder, "damaged")
    for program in programs:
        with open(program, "rb") as file:
            whole = file.read()
        stretches = (0, len(whole)), debug_bytes(program, len(whole))
        for i in range(rounds(tool, count)):
            data = bytearray(whole)
            if i % 4 == 0:
                del data[damage.randrange(len(data)):]
            for _ in range(0 if i % 4 == 0 else damage.choice((1, 4, 64))):
                data[damage.randrange(*stretches[i % 2])] ^= 1 << damage.randrange(8)
            with open(path, "wb") as file:
                file.write(data)
            try_damaged(tool, program, path, i)


def try_damaged(tool, program, path, i):
    try:
        done = subprocess.run([tool, "-q", "-d", "/nonexistent", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        keep_damaged(path, program, i)
        fail(program, "damaged", i, "takes longer than", SECONDS, "seconds")
        return
    text = done.stderr.decode(errors="replace").strip()
    good = done.returncode == 0 or (done.returncode == 1 and text.startswith(path + ": ") and "\n" not in text)
    check(program, good, "damaged", i, "status", done.returncode, text[-2000:])
    if not good:
        keep_damaged(path, program, i)


def keep_damaged(path, program, i):
    kept = f"damaged-{os.path.basename(program)}-{i}"
    shutil.copy(path, kept)
    print("check_extract: kept", kept)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--data", action="append", default=[])
    parser.add_argument("--only", choices=("data", "compiled", "sections", "made", "hostile"))
    parser.add_argument("--sources")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    programs = [os.path.join(d, n, n) for d in a.data for n in sorted(os.listdir(d)) if os.path.isfile(os.path.join(d, n, n))]
    with tempfile.TemporaryDirectory() as folder:
        if a.only in (None, "data"):
            for data in a.data:
                check_data(a.tool, data)
        if a.only in (None, "compiled") and a.sources:
            check_compiled(a.tool, a.sources, folder)
        if a.only in (None, "sections") and a.sources:
            check_sections(a.tool, a.sources, folder)
        if a.only in (None, "made"):
            check_made(a.tool, folder)
        if a.only in (None, "hostile"):
            check_hostile(a.tool, programs, folder, a.count, a.seed)
    print(f"check_extract: {checked} checks, {failures} failures")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
