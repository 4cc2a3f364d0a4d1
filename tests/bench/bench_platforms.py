#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What large debug files of Windows and macOS cost: a PDB of some 300 MB, and a dSYM of the same code.

    tests/bench/bench_platforms.py [--build build] [--rounds 5] [--quick] [--json] [--modules 115] [--server]

clang, lld-link, ld64.lld and dsymutil make them, which takes some minutes of processor time and 2 GB of disk: modules of templates, classes and
inlined calls. Most of them are those of others whose namespace, in names of equal length, has another number, as if they had been compiled
so. --modules 520: a PDB of 1.5 GB. Processor time and memory for one address are compared with those of llvm-symbolizer and, if PDB_ADDR2LINE
is a command that takes a PDB file and an offset in hex, of that. --server: a server with `elf+file://` is asked for one frame, cold."""

import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "wire")]
from bench_executables import line, run_alone, used_by  # noqa: E402
from platforms import call, tool  # noqa: E402
from report import short  # noqa: E402
from stack import Stack  # noqa: E402

COMPILED, FUNCTIONS = 12, 300  # modules; in each
TARGET = "<= 0.6"
FIRST_TARGET = 10  # seconds
CODE = 0x101234  # an offset in the code of all these programs
TYPES = ["int", "long long", "short", "unsigned", "unsigned short", "unsigned long long", "long", "char"]
HEAD = """typedef unsigned long long u64;
extern "C" volatile int sink;
namespace NAME {
template <class T, int N> struct Cell {
	T value; Cell *next;
	inline T get(int k) const { T t = value; if (k > N) t += k; else t ^= N; sink = (int)t; return t; }
};
template <class A, class B, int N> struct Pair {
	Cell<A, N> first; Cell<B, N + 1> second;
	inline u64 mix(int k) const { u64 x = first.get(k); x += second.get(k + 1) * 3; sink = (int)x; return x; }
};
template <class T, int N> struct Pile {
	T items[4]; int used;
	inline void push(const T &t) { if (used < 4) items[used++] = t; else sink = used; }
	inline const T &top() const { return items[used ? used - 1 : 0]; }
};
template <class K, class V, int N> struct Table {
	typedef Pair<K, V, N> pair_type; Pile<pair_type, N> pile; Table *parent;
	__attribute__((noinline)) u64 find(K key, const V *values, int count) {
		u64 r = 0;
		for (int i = 0; i < count; i++) {
			pair_type p; p.first.value = key; p.second.value = values[i]; pile.push(p); r += pile.top().mix(i);
		}
		return r;
	}
	__attribute__((noinline)) u64 erase(K key, Pile<Cell<V, N>, N> &cells) {
		Cell<V, N> c; c.value = (V)key; cells.push(c);
		u64 r = cells.top().get((int)key) + pile.top().mix(1);
		return r & 1 ? r ^ cells.top().get(N) : r;
	}
	__attribute__((noinline)) u64 merge(Table<V, K, N> &other, int depth) {
		u64 r = other.pile.top().mix(depth);
		return parent ? r + parent->pile.top().mix(depth + 1) : r;
	}
};
"""
FUNCTION = """namespace part%(part)d { u64 work%(i)d(%(a)s key, %(b)s *values, int count) {
	Table<%(a)s, %(b)s, %(i)d> table; table.parent = 0; table.pile.used = 0; Table<%(b)s, %(a)s, %(i)d> other; other.pile.used = 0;
	Pile<Cell<%(b)s, %(i)d>, %(i)d> cells; cells.used = 0;
	return table.find(key, values, count) + table.erase(key, cells) + table.merge(other, count);
} }
"""
MAIN = 'extern "C" { volatile int sink; int _fltused; int start() { return sink; } }\n'
FREE = ["-ffreestanding", "-fno-stack-protector", "-fno-exceptions", "-fno-rtti"]


def module(number):
    return f"module{number:06}"


def source(number, functions):
    out = HEAD.replace("NAME", module(number))
    for i in range(functions):
        out += FUNCTION % {"part": i % 10, "i": i, "a": TYPES[(number * 31 + i) % 8], "b": TYPES[(number * 17 + i // 8) % 8]}
    return out + "}\n"


def objects(folder, target, options, modules, functions):
    """Of so many modules, two of which are compiled at a time."""
    running, compiled = [], min(COMPILED, modules)
    for name, text in [("main", MAIN), *((module(u), source(u, functions)) for u in range(compiled))]:
        with open(f"{folder}/{name}.cc", "w", encoding="utf-8") as out:
            out.write(text)
        running.append(subprocess.Popen(["clang", "-target", target, "-O1", "-g", "-w", *options, *FREE, "-c", f"{name}.cc", "-o", f"{name}.o"], cwd=folder))
        for process in running[:-1]:
            process.wait()
    if any(process.wait() for process in running):
        sys.exit("bench_platforms: clang fails")
    for u in range(compiled, modules):
        with open(f"{folder}/{module(u % compiled)}.o", "rb") as file:
            data = file.read()
        with open(f"{folder}/{module(u)}.o", "wb") as out:
            out.write(data.replace(module(u % compiled).encode(), module(u).encode()))
    with open(f"{folder}/objects", "w", encoding="utf-8") as out:
        out.write("".join(f"{name}.o\n" for name in ["main", *map(module, range(modules))]))


def clean(folder):
    for path in glob.glob(f"{folder}/*.o"):
        os.remove(path)


def windows(folder, modules, functions):
    """The program, and its PDB file."""
    objects(folder, "x86_64-pc-windows-msvc", ["-gcodeview", "-mno-stack-arg-probe"], modules, functions)
    call(tool("lld-link"), "/nologo", "/debug:full", "/opt:noref,noicf", "/machine:x64", "/nodefaultlib", "/entry:start", "/subsystem:console",
         "/out:app.exe", "/pdb:app.pdb", "@objects", cwd=folder)  # fmt: skip
    clean(folder)
    return f"{folder}/app.exe", f"{folder}/app.pdb"


def mac(folder, modules, functions):
    """The file of the dSYM bundle."""
    objects(folder, "x86_64-apple-macos11", ["-gdwarf-4"], modules, functions)
    call(tool("ld64.lld"), "-arch", "x86_64", "-platform_version", "macos", "11.0", "11.0", "-e", "_start", "-undefined", "dynamic_lookup", "-o", "app",
         "-filelist", "objects", cwd=folder)  # fmt: skip
    call(tool("dsymutil"), "app", "-o", "app.dSYM", cwd=folder)
    clean(folder)
    return f"{folder}/app.dSYM/Contents/Resources/DWARF/app"


def beside(what, rounds, ours, theirs, name):
    """Lines of processor time and memory for one address."""
    a, b = [used_by(ours) for _ in range(rounds)], [used_by(theirs) for _ in range(rounds)]
    lines = []
    for of, mine, other, unit, target in zip(("processor time", "memory"), zip(*a), zip(*b), ("s", "MB"), (TARGET, "<= 1")):
        ratios = sorted(x / y for x, y in zip(sorted(mine), sorted(other)))
        told = {"ours": f"{short(sorted(mine)[rounds // 2])} {unit}", "against": f"{short(sorted(other)[rounds // 2])} {unit}"}
        lines.append(line(f"one address of {what}: {of}", ratios, f"x {name}", target, **told))
    return lines


def first_answer(path, build, code):
    """Seconds, and those of processor time, until a server that has nothing has named one frame."""
    ident = json.loads(call(f"{build}/symbtool", "file-id", "--json", path))["debug_id"]
    with tempfile.TemporaryDirectory(prefix="sym-bench-server-", dir=os.path.dirname(path)) as root:
        os.chmod(root, 0o755)
        os.makedirs(f"{root}/app.pdb/{ident}", 0o755)
        os.link(path, f"{root}/app.pdb/{ident}/app.pdb")
        config = {"source": [f"elf+file://{root}"], "executable_timeout": "10m", "request_timeout": "10m"}
        with Stack(bucket=False, config=config) as s:
            before, begin = os.times(), time.monotonic()
            (frame,) = s.client.frames(["app.pdb", ident], [code])
            took = time.monotonic() - begin
        after = os.times()
    assert frame.get("function"), frame
    return took, after.children_user + after.children_system - before.children_user - before.children_system


def measure(options, folder):
    modules, functions = (3, 20) if options.quick else (options.modules, FUNCTIONS)
    symbtool = f"{options.build}/symbtool"
    program, pdb = windows(folder, modules, functions)
    code = CODE if not options.quick else 0x1010
    what = f"a PDB file of {os.path.getsize(pdb) / 1e6:.0f} MB"
    lines = beside(what, options.rounds, [symbtool, "symbolicate", pdb, hex(code)],
                   [tool("llvm-symbolizer"), f"--obj={program}", hex(0x140000000 + code)], "llvm-symbolizer")  # fmt: skip
    if os.environ.get("PDB_ADDR2LINE"):
        lines += beside(what, options.rounds, [symbtool, "symbolicate", pdb, hex(code)], [*os.environ["PDB_ADDR2LINE"].split(), pdb, f"{code:x}"], "pdb-addr2line")
    if options.server:
        took, used = zip(*(first_answer(pdb, options.build, code) for _ in range(min(options.rounds, 3))))
        lines.append(line(f"first answer of {what}", took, "s", f"<= {FIRST_TARGET}", note=f"processor time {short(sorted(used)[len(used) // 2])} s"))
    os.remove(pdb)
    dsym = mac(folder, modules, functions)
    code += 0x100000000
    what = f"a dSYM file of {os.path.getsize(dsym) / 1e6:.0f} MB"
    return lines + beside(what, options.rounds, [symbtool, "symbolicate", dsym, hex(code)], [tool("llvm-symbolizer"), f"--obj={dsym}", hex(code)], "llvm-symbolizer")


def shown(row):
    of = f" ({row['ours']} to {row['against']})" if "ours" in row else ""
    return f"{row['line']}: {row['figure']:.2f} {row['unit']}{of} {row.get('target', '')} {row.get('note', '')}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="small files, one round")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--modules", type=int, default=115)
    parser.add_argument("--server", action="store_true", help="the first answer of a server, too")
    run_alone(parser.parse_args(), measure, shown)


if __name__ == "__main__":
    main()
