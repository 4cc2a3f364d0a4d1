#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""judge_debian.py [--dump-syms COMMAND] [--only KIND]... [--count N] [--seed N] FOLDER: how the server names programs of Debian 12, and
programs of Windows and macOS that clang and MinGW-w64 make, and one of npm with its PDB file; of these also what symbtool says, and a server to which it has pushed.

Into FOLDER, which may be used again, come packages of Debian's archive with their debug symbols, and programs that Debian's compilers
make from its source code or from that below; those whose compiler is not installed are left out. Names are compared whole: with scopes,
arguments of templates and parameters. A server with `elf+file://` is asked for the names of N addresses in each program's .text: cold, warm, after a
restart and on another host, which must be the same. Judges are addr2line, llvm-symbolizer, elfutils' eu-addr2line, and for that of npm pdb-addr2line, which cargo fetches. With --dump-syms
(Mozilla's, with --inlines) the same is asked of a server that has .sym files of these debug files. FOLDER/differences.txt has each difference. Ends with 1 if
answers were not the same, or more than one in a thousand from debug files differs from all judges."""
import argparse
import bisect
import collections
import contextlib
import functools
import glob
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "wire")]
import check_extract as check  # noqa: E402
from judge_extract import draw, places, without_units  # noqa: E402
from platforms import Platforms  # noqa: E402
from stack import DAEMON, Stack  # noqa: E402
from symbols import Symbols  # noqa: E402
from test_symbfile import store_config  # noqa: E402

ARCHIVE = """deb [arch=amd64,arm64,armhf] http://deb.debian.org/debian bookworm main
deb-src http://deb.debian.org/debian bookworm main
"""
SOURCES = os.path.join(os.path.dirname(HERE), "data", "symbfile", "src")
GO_ID = "60" * 20  # Go's linker makes no build id

ADA = """with Ada.Text_IO; use Ada.Text_IO;
with Ada.Command_Line;
procedure Stock is
   package Shop is
      type Item is tagged record Price : Integer; end record;
      function Total (I : Item; Count : Integer) return Integer;
      generic type T is private; with function "+" (A, B : T) return T;
      function Twice (X : T) return T;
   end Shop;
   package body Shop is
      function Total (I : Item; Count : Integer) return Integer is
         function Tax (X : Integer) return Integer is begin return X / 5 + Count; end Tax;
      begin
         return I.Price * Count + Tax (I.Price);
      end Total;
      function Twice (X : T) return T is begin return X + X; end Twice;
   end Shop;
   function Double is new Shop.Twice (Integer, "+");
   I : Shop.Item := (Price => Ada.Command_Line.Argument_Count + 7);
begin
   Put_Line (Integer'Image (Shop.Total (I, 3) + Double (I.Price)));
end Stock;
"""
FORTRAN = """module shop
  implicit none
  type item
    integer :: price
  contains
    procedure :: total
  end type
contains
  integer function total(self, n)
    class(item), intent(in) :: self
    integer, intent(in) :: n
    total = self%price * n + tax(self%price)
  contains
    integer function tax(x)
      integer, intent(in) :: x
      tax = x / 5 + n
    end function
  end function
  subroutine fill(a)
    real, intent(inout) :: a(:)
    integer :: i
    do i = 1, size(a)
      a(i) = sqrt(real(i)) * a(i)
    end do
  end subroutine
end module
program main
  use shop
  type(item) :: i
  real :: a(100)
  i%price = command_argument_count() + 7
  a = 1.5
  call fill(a)
  print *, i%total(3), sum(a)
end program
"""
OCAML = """module Till = struct
  let sum = ref 0
  let total x = sum := !sum + x; List.fold_left (fun a y -> a + y * !sum) 0 [x; x + 1]
end
let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
let () = Hashtbl.iter (fun k v -> Printf.printf "%s %d\\n" k v)
  (let h = Hashtbl.create 7 in Array.iteri (fun i a -> Hashtbl.replace h a (Till.total i + fib 10)) Sys.argv; h)
"""
HASKELL = """module Main where
import qualified Data.Map as M
fibs :: [Integer]
fibs = 0 : 1 : zipWith (+) fibs (tail fibs)
count :: String -> M.Map Char Int
count = foldr (\\c -> M.insertWith (+) c 1) M.empty
main :: IO ()
main = getContents >>= \\s -> print (count s, takeWhile (< fromIntegral (length s)) fibs)
"""
NIM = """import std/[tables, strutils, os]
type Till = object
  sum: int
proc total(t: var Till, x: int): int =
  proc tax(y: int): int = y div 5 + x
  t.sum += x
  t.sum + tax(x)
proc twice[T](x: T): T = x + x
var t: Till
var words = initTable[string, int]()
for i, a in commandLineParams(): words[a.toUpperAscii] = t.total(i) + twice(i)
echo words, " ", twice(2.5), " ", t.total(3)
"""
D = """import std.algorithm, std.array, std.conv, std.range, std.stdio;
struct Item(T) {
    T price;
    int opCmp(ref const Item other) const { return (price > other.price) - (price < other.price); }
    T twice() { T half(T x) { return x / 2 + price; } return half(price) + half(price + 1); }
}
interface Priced { double total(int count); }
class Shelf(T) : Priced {
    Item!T[] items;
    this(T[] prices) { foreach (p; prices) items ~= Item!T(p); }
    double total(int count) { return items.map!(i => cast(double) i.price * count).sum; }
    auto cheapest(size_t n) { return items.dup.sort.take(n).map!(i => i.twice).array; }
    ~this() { items = null; }
}
int apply(int delegate(int) f, int n) { return n < 1 ? 0 : f(n) + apply(f, n - 1); }
void main(string[] args) {
    int n = cast(int) args.length;
    auto whole = new Shelf!int(iota(1, n + 20).map!(x => x * x % 17).array);
    auto parts = new Shelf!double([1.5, 2.25, n]);
    string[string] names;
    foreach (i, a; args) names[a] = i.to!string ~ a.retro.to!string;
    foreach (k, v; names) writeln(k, " ", v);
    foreach (Priced p; [cast(Priced) whole, parts]) writeln(p.total(n));
    writefln("%s %s %d", whole.cheapest(3), parts.cheapest(2), apply((int x) => x + n, n));
}
"""
WRITTEN = {"shop.d": D, "stock.adb": ADA, "shop.f90": FORTRAN, "shop.ml": OCAML, "stock.hs": HASKELL, "shop.nim": NIM}
ID = "-Wl,--build-id"


def templates(compiler, flags):
    return None, [compiler, ID, "-w", *flags.split(), "-I", SOURCES, "-I", f"{SOURCES}/inc", f"{SOURCES}/tmpl.cpp", f"{SOURCES}/tmpl2.cpp", "-o", "tmpl"], "tmpl"


# kind: packages, and the program in them; or what builds it, in FOLDER/KIND, from a source package
PROGRAMS = {
    "C": (["libc6", "libc6-dbg"], "lib/x86_64-linux-gnu/libc.so.6"),
    "C++": (["freedink-dfarc", "freedink-dfarc-dbg"], "usr/games/dfarc"),
    "Rust": (None, ["/usr/bin/rustc", "-g", "-C", "opt-level=2", "-C", "link-arg=-Wl,--build-id", "-o", "shapes", f"{SOURCES}/shapes.rs"], "shapes"),
    "Go": (None, ["/usr/bin/go", "build", "-ldflags", f"-B 0x{GO_ID}", "-o", "nm", "cmd/nm"], "nm"),
    "LTO": ("hello", "-O2 -g -flto", "hello"),
    "dwz": (["lua5.4", "liblua5.4-0-dbg"], "usr/bin/lua5.4"),
    "split": ("hello", "-O2 -g -gsplit-dwarf", "hello"),
    "zstd": ("hello", "-O2 -g", "hello"),
    "aarch64": (["libc6:arm64", "libc6-dbg:arm64"], "lib/aarch64-linux-gnu/libc.so.6"),
    "armhf": (["libc6:armhf", "libc6-dbg:armhf"], "lib/arm-linux-gnueabihf/libc.so.6"),
    "lambdas": (["librados2", "librados2-dbg"], "usr/lib/x86_64-linux-gnu/ceph/libceph-common.so.2"),
    **{f"g++ {f}": templates("g++", f) for f in ("-O2 -g1", "-O0 -g", *(f"-O2 -g -gdwarf-{v}{s}" for v in (2, 3, 4, 5) for s in ("", " -gstrict-dwarf")))},
    **{f"clang++ {f}": templates("clang++", f) for f in ("-O2 -g1", "-O0 -g", "-O2 -gline-tables-only", "-O2 -g -gsimple-template-names",
                                                              "-O2 -g -gdwarf-4 -gstrict-dwarf", *(f"-O2 -g -gdwarf-{v}" for v in (2, 3, 4, 5)))},
    "Rust's lines": (None, ["rustc", "-C", "debuginfo=1", "-C", "opt-level=2", "-C", f"link-arg={ID}", "-o", "shapes", f"{SOURCES}/shapes.rs"], "shapes"),
    "D": (None, ["gdc", "-O2", "-g", ID, "shop.d", "-o", "shop"], "shop"),
    "Ada": (None, ["gnatmake", "-q", "-O2", "-g", "stock.adb", "-bargs", "-static", "-largs", ID], "stock"),
    "Fortran": (None, ["gfortran", "-O2", "-g", ID, "-static-libgfortran", "shop.f90", "-o", "shop"], "shop"),
    "OCaml": (None, ["ocamlopt", "-g", "-ccopt", ID, "shop.ml", "-o", "shop"], "shop"),
    "Haskell": (None, ["ghc", "-v0", "-O1", "-g", f"-optl{ID}", "stock.hs", "-o", "stock"], "stock"),
    "Nim": (None, ["nim", "c", "-d:release", "--debugger:native", "--hints:off", f"--passL:{ID}", "-o:shop", "shop.nim"], "shop"),
    **{machine: templates(f"{machine}-linux-gnu-g++", "-O2 -g -static") for machine in ("powerpc64", "s390x", "riscv64")},
}


def run(*command, **options):
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True, **options).stdout


class Archive:
    """apt with lists of its own, for more architectures than this machine has."""

    def __init__(self, folder):
        self.folder = folder
        for name in "lists/partial", "cache/archives/partial", "debs":
            os.makedirs(f"{folder}/{name}", exist_ok=True)
        with open(f"{folder}/sources.list", "w", encoding="utf-8") as out:
            out.write(ARCHIVE)
        settings = {
            "Dir::Etc::SourceList": f"{folder}/sources.list", "Dir::Etc::SourceParts": "/dev/null", "Dir::State::Lists": f"{folder}/lists",
            "Dir::Cache": f"{folder}/cache", "APT::Architectures": "amd64,arm64,armhf", "APT::Sandbox::User": "root",
        }  # fmt: skip
        self.apt = ["apt-get", "-q", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]
        if not glob.glob(f"{folder}/lists/*Packages*"):
            run(*self.apt, "update")

    def unpack(self, root, packages):
        for package in packages:
            name, _, arch = package.partition(":")
            pattern = f"{self.folder}/debs/{name}_*_{arch or 'amd64'}.deb"
            if not glob.glob(pattern):
                run(*self.apt, "download", package, cwd=f"{self.folder}/debs")
            run("dpkg-deb", "-x", glob.glob(pattern)[0], root)

    def source(self, folder, package):
        run(*self.apt, "source", package, cwd=folder, stderr=subprocess.DEVNULL)
        return glob.glob(f"{folder}/{package}-*/")[0]


def build_id_of(path):
    return re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", path, stderr=subprocess.DEVNULL))[1]


class Program:
    """path: what is in the bucket; judged: the same for judges, which are not all led to shared entries, or read zstd."""

    def __init__(self, kind, archive, folder):
        self.kind, self.folder = kind, folder + "/" + re.sub("[^0-9A-Za-z+]+", "-", kind)
        how = PROGRAMS[kind]
        self.name = os.path.basename(how[-1])
        if not os.path.exists(f"{self.folder}/complete"):
            os.makedirs(self.folder, exist_ok=True)
            self.make(archive, *how)
            open(f"{self.folder}/complete", "w", encoding="utf-8").close()
        program = self.program()
        self.build_id = build_id_of(program)
        debug = f"{self.folder}/usr/lib/debug/.build-id/{self.build_id[:2]}/{self.build_id[2:]}.debug"
        self.path = debug if os.path.exists(debug) else program
        self.judged = f"{self.folder}/judged" if os.path.exists(f"{self.folder}/judged") else self.path
        loads = re.findall(r"^\s+LOAD\s+\S+\s+(0x\S+)", run("readelf", "-lW", program, stderr=subprocess.DEVNULL), re.M)
        self.base = min(int(va, 16) for va in loads) & -4096

    def program(self):
        return f"{self.folder}/{PROGRAMS[self.kind][-1]}"

    def make(self, archive, what, *how):
        if isinstance(what, list):
            archive.unpack(self.folder, what)
            self.lead_to_shared_entries()
        elif what is None:
            for name in WRITTEN.keys() & set(how[0]):
                with open(f"{self.folder}/{name}", "w", encoding="utf-8") as out:
                    out.write(WRITTEN[name])
            run(*how[0], cwd=self.folder, env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"})
        else:
            tree = archive.source(self.folder, what)
            run("./configure", "-q", f"CFLAGS={how[0]}", cwd=tree, stderr=subprocess.DEVNULL)
            run("make", "-s", cwd=tree, stderr=subprocess.DEVNULL)
            os.rename(f"{tree}/{what}", self.program())
        if self.kind == "zstd":
            os.rename(self.program(), f"{self.folder}/judged")
            run("objcopy", "--compress-debug-sections=zstd", f"{self.folder}/judged", self.program())

    def lead_to_shared_entries(self):
        """A copy of the debug file that says where they lie here, not in /usr/lib/debug."""
        build_id = build_id_of(self.program())
        debug, link = f"{self.folder}/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug", f"{self.folder}/link"
        if ".gnu_debugaltlink" in run("readelf", "-SW", debug, stderr=subprocess.DEVNULL):
            section = ["--only-section=.gnu_debugaltlink", "--set-section-flags", ".gnu_debugaltlink=alloc"]
            run("objcopy", "-O", "binary", *section, debug, link)
            with open(link, "rb") as file:
                data = file.read()
            with open(link, "wb") as file:
                file.write(self.folder.encode() + data)
            run("objcopy", "--update-section", f".gnu_debugaltlink={link}", debug, f"{self.folder}/judged")


def eu_addr2line(program, addresses):
    """It gives up about what it cannot read, such as Go's."""
    done = subprocess.run(["eu-addr2line", "-a", "-f", "-i", "-C", "-e", program], input="".join(f"{a:#x}\n" for a in addresses),
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "DEBUGINFOD_URLS": ""})  # fmt: skip
    answers = {}
    for block in re.split(r"^(?=0x[0-9a-f]+$)", done.stdout, flags=re.M)[1:]:
        lines = block.splitlines()
        frames = answers.setdefault(int(lines[0], 16), [])
        for name, place in zip(lines[1::2], lines[2::2]):
            file, line = re.fullmatch(r"(.*?):(\d+)(?::\d+)?", place).groups()
            name = re.sub(r"( inlined at .*|\+0x[0-9a-f]+)$", "", name)
            frames.append((name, None if file == "??" else os.path.normpath(file), int(line)))
    return answers


JUDGES = {"addr2line": check.addr2line, "llvm-symbolizer": check.llvm_symbolizer, "eu-addr2line": eu_addr2line}


@contextlib.contextmanager
def all_architectures(archive):
    """binutils' addr2line, nm and objdump of binutils-multiarch, under their plain names."""
    root, tools = f"{archive.folder}/multiarch", f"{archive.folder}/multiarch/tools"
    if not os.path.exists(tools):
        archive.unpack(root, ["binutils-multiarch"])
        os.makedirs(tools)
        for name in "addr2line", "nm", "objdump":
            with open(f"{tools}/{name}", "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o755)) as out:
                out.write(f'#!/bin/sh\nLD_LIBRARY_PATH={root}/usr/lib/x86_64-linux-gnu exec {root}/usr/bin/x86_64-linux-gnu-{name} "$@"\n')
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{tools}:{before}"
    yield
    os.environ["PATH"] = before


def ask(client, module, offsets):
    """(function, file, line) of each, innermost first."""
    out = []
    for frame in client.frames(module, offsets):
        named = [*frame.get("inlines", []), frame] if "function" in frame else []
        out.append([spelled(f["function"], f.get("file"), f.get("line", 0)) for f in named])
    return out


def ask_everywhere(config, module, offsets, **options):
    """The answers, and whether they were the same cold, warm, on another host and after a restart."""
    with Stack(daemons=2, config=config, **options) as s:
        cold = ask(s.client, module, offsets)
        others = [ask(s.client, module, offsets)]
        s.node.settled()
        others.append(ask(s.nodes[1].client(), module, offsets))
        s.node.restart()
        others.append(ask(s.client, module, offsets))
    return cold, all(other == cold for other in others)


@functools.cache
def of_d(name):
    name = re.sub(r"(\.(isra|part|constprop|cold)(\.\d+)?)+$", "", name)
    return subprocess.run(["c++filt", "-s", "dlang", name], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


@functools.cache
def spelled(name, file, line):
    """As all spell it: Rust's names without the hash, D's demangled, files where links lead; what is no file, without a folder."""
    if file and os.path.basename(file).startswith("<"):
        file = os.path.basename(file)
    name = of_d(name) if name.startswith("_D") else name
    return re.sub(r"::h[0-9a-f]{16}$", "", name), os.path.realpath(file) if file and os.path.exists(file) else file, line


def same_name(got, want, aliases):
    """All that is wanted, or another symbol of that address; of a name of D that c++filt cannot read, its words."""
    if want.startswith("_D"):
        while (plain := re.sub(r"!?\([^()]*\)", "", got)) != got:
            got = plain
        return bool(re.search(".*".join(f"{len(word)}{re.escape(word)}" for word, _ in itertools.groupby(got.split("."))), want))
    return check.same_whole(got, want) or got.endswith("." + want) or bool(aliases.get(got, set()) & aliases.get(want, set()))


def same(got, want, aliases):
    return places(got, want) and all(same_name(g[0], w[0], aliases) for g, w in zip(got, want))


def as_judged(got, judges, aliases):
    """One judge must agree on all places, and one on each name."""
    return any(places(got, want) for want in judges) and all(
        any(i < len(want) and same_name(g[0], want[i][0], aliases) for want in judges) for i, g in enumerate(got))


def counted(kind, program, addresses, got, judges, aliases, log):
    """How many answers are right, by as_judged; differ; are missing, although two judges have the same name; and are as each judge says."""
    counts = collections.Counter()
    for address, frames in zip(addresses, got, strict=True):
        answers = {who: [spelled(*f) for f in said.get(address, [])] for who, said in judges.items()}
        if len(frames) == 1 and frames[0][1] is None:
            answers = {who: without_units(want) for who, want in answers.items()}
        names = [check.base_name(want[-1][0]) for want in answers.values() if want and "??" not in (want[0][0], want[-1][0])]
        missing = not frames and len(names) > len(set(names))  # between functions addr2line has the last one
        for who, want in answers.items():
            counts[who] += same(frames, want, aliases) if frames else not want or want[0][0] == "??"
        verdict = "unnamed" if missing else "agreed" if not frames or as_judged(frames, answers.values(), aliases) else "differs"
        counts[verdict] += 1
        if verdict != "agreed":
            print(json.dumps({"kind": kind, "program": program.kind, "address": hex(address), "verdict": verdict, "got": frames, **answers}), file=log)
    return counts


def aliases_of(program):
    """Where the symbols of a name are; D: descriptors of 64-bit PowerPC."""
    out = collections.defaultdict(set)
    for line in subprocess.run(["nm", "-C", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.splitlines():
        if found := re.fullmatch(r"([0-9a-f]+) [tTwWiVvD] (.+)", line):
            out[spelled(found[2].split("@")[0], None, 0)[0]].add(int(found[1], 16))
    return out


def without_labels(program, judges):
    """Labels that NASM leaves to the linker are no functions: code behind them belongs to the function before, which has no size either."""
    functions, labels = [], set()
    for line in run("readelf", "-sW", program, stderr=subprocess.DEVNULL).splitlines():
        if found := re.fullmatch(r" *\d+: ([0-9a-f]+) +(\S+) (NOTYPE|FUNC) +(LOCAL|GLOBAL|WEAK) .* (\S+)", line):
            if found[3] == "FUNC":
                functions.append((int(found[1], 16), int(found[2], 0), found[5]))
            elif found[4] == "LOCAL":
                labels.add(found[5])
    functions.sort()
    starts = [start for start, *_ in functions]
    for said in judges.values():
        for address, frames in said.items():
            at = bisect.bisect_right(starts, address) - 1
            if frames and frames[-1][0] in labels and at >= 0 and functions[at][1] == 0:
                frames[-1] = (functions[at][2], *frames[-1][1:])


def sym_file(dump_syms, program, folder):
    """Mozilla's dump_syms' file, in a bucket; the module's name and id."""
    text = subprocess.run([*dump_syms.split(), program.path], stdout=subprocess.PIPE, check=True).stdout
    _, _, _, ident, name = text.split(b"\n", 1)[0].decode().split(" ", 4)
    Symbols(folder).put(name, ident, text)
    return [name, ident]


def judge(program, a, log):
    addresses = draw(program.path, a.count, a.seed)
    offsets = [address - program.base for address in addresses]
    judges = {who: f(program.judged, addresses) for who, f in JUDGES.items()}
    without_labels(program.path, judges)
    aliases = aliases_of(program.path)
    root = f"{program.folder}/usr/lib/debug"
    served = f"{root}/.build-id/{program.build_id[:2]}/{program.build_id[2:]}.debug"
    if not os.path.exists(served):
        os.makedirs(os.path.dirname(served), exist_ok=True)
        os.link(program.path, served)
    got, stable = ask_everywhere({"source": [f"elf+file://{root}"]}, [program.name, program.build_id], offsets, bucket=False)
    show(program, "debug file", len(addresses), counted("debug file", program, addresses, got, judges, aliases, log), stable, "")
    if a.dump_syms:
        folder = f"{program.folder}/sym"
        module = sym_file(a.dump_syms, program, folder)
        by_sym, stable = ask_everywhere({}, module, offsets, symbols=folder)
        equal = sum(same(x, y, aliases) for x, y in zip(got, by_sym, strict=True))
        show(program, ".sym", len(addresses), counted(".sym", program, addresses, by_sym, judges, aliases, log), stable, f"{100 * equal / len(addresses):.2f}")


# kind: what tests/wire/platforms.py makes, and the file with the DWARF of the same code
PLATFORMS = {
    "PDB x64": ("x64-both.pdb", "x64-both.exe"),
    "PDB x86": ("x86-both.pdb", "x86-both.exe"),
    "PDB arm64": ("arm64-both.pdb", "arm64-both.exe"),
    "PE x64": ("x64-dwarf.exe", "x64-dwarf.exe"),
    "PE MinGW": ("mingw.exe", "mingw.exe"),  # of the samples' templates, by MinGW-w64
    "Mach-O arm64": ("mac-arm64.dSYM/Contents/Resources/DWARF/mac-arm64", "mac-arm64.dSYM/Contents/Resources/DWARF/mac-arm64"),
    "Mach-O x86-64": ("mac-x86_64.dSYM/Contents/Resources/DWARF/mac-x86_64", "mac-x86_64.dSYM/Contents/Resources/DWARF/mac-x86_64"),
}
LTCG = "PDB LTCG"  # a real one, of Microsoft's compiler with link-time code generation, which llvm-symbolizer cannot read
LTCG_FILE = "package/prebuilds/win32-x64/winpty-agent"
LTCG_PACKAGE = "node-pty@1.1.0"  # of npm
KINDS = [*PLATFORMS, LTCG]
Made = collections.namedtuple("Made", "kind name")
MINGW = "x86_64-w64-mingw32-g++"


def microsofts(name):
    """As undecorated names are here; LLVM has Microsoft's spelling."""
    return re.sub(r"\b(class|struct|union|enum) ", "", name).replace("__int64", "long long").replace("(void)", "()")


def by_symbtool(symbtool, path, addresses):
    """As ask() has it."""
    results = json.loads(run(symbtool, "symbolicate", "--json", path, *map(hex, addresses)))["results"]
    frames = [frame for result in results for stack in result["stacks"] for frame in stack]
    return [[spelled(f["function"], f.get("file"), f.get("line", 0)) for f in [*frame.get("inlines", []), frame]] if "function" in frame else [] for frame in frames]


def by_push(symbtool, path, pushed, module, offsets):
    """Of a server to which symbtool has pushed what it reads of the file."""
    with Stack(keys=True, config=store_config(pushed)) as s:
        env = {**os.environ, "SYMBTOOL_API_KEY": s.key}
        run(symbtool, "push-symbols", "--url", f"http://127.0.0.1:{s.node.nginx.port}", path, env=env, stderr=subprocess.DEVNULL)
        return ask(s.client, module, offsets)


CRATE = """[package]
name = "judge"
version = "0.1.0"
edition = "2021"
[dependencies]
pdb-addr2line = "=0.11.2"
"""
JUDGE = r"""use std::io::BufRead;
fn main() {
    let pdb = pdb_addr2line::pdb::PDB::open(std::fs::File::open(std::env::args().nth(1).unwrap()).unwrap()).unwrap();
    let data = pdb_addr2line::ContextPdbData::try_from_pdb(pdb).unwrap();
    for line in std::io::stdin().lock().lines() {
        let context = data.make_context().unwrap();
        let found = context.find_frames(line.unwrap().parse().unwrap()).unwrap();
        let frames = found.map_or(vec![], |f| f.frames);
        let told = frames.into_iter().map(|f| format!("{}\t{}\t{}", f.function.unwrap_or_default(), f.file.unwrap_or_default(), f.line.unwrap_or(0)));
        println!("{}", told.collect::<Vec<_>>().join("\x1e"));
    }
}
"""


def fetch_ltcg(folder):
    """A PDB file of an npm package, and the program that pdb-addr2line is for this."""
    crate = f"{folder}/pdb-judge"
    os.makedirs(f"{crate}/src", exist_ok=True)
    for name, text in (("Cargo.toml", CRATE), ("src/main.rs", JUDGE)):
        with open(f"{crate}/{name}", "w", encoding="utf-8") as out:
            out.write(text)
    run("cargo", "build", "-q", "--release", cwd=crate)
    package = run("npm", "pack", "--silent", LTCG_PACKAGE, cwd=folder).strip()
    shutil.unpack_archive(f"{folder}/{package}", folder)
    return f"{folder}/{LTCG_FILE}.pdb", f"{folder}/{LTCG_FILE}.exe"


def as_dump_syms(name):
    """A name of pdb-addr2line."""
    name = re.sub(r"(?<=[^ *&])([*&]+)", r" \1", name).replace("<NoType>", "...")
    return re.sub(r"operator (?=[*&])", "operator", re.sub(r"((?:\[\d+\])+) &", r" (&)\1", name))


def by_pdb_addr2line(folder, path, section, addresses, base):
    """As a judge has it, of code that has lines by llvm-pdbutil: for other code it has those of the function before. It takes names of inlined
    calls from another module, unless it begins anew for each address; and std::nullptr_t for void *: there it is not asked."""
    blocks = [(int(start, 16), int(end, 16)) for start, end in re.findall(r"^ +0001:([0-9A-F]+)-([0-9A-F]+),", run("llvm-pdbutil", "dump", "-l", path), re.MULTILINE)]
    covered = {at for start, end in blocks for at in range(start, end)}
    addresses = [address for address in addresses if address - base - section in covered]
    out = run(f"{folder}/pdb-judge/target/release/judge", path, input="".join(f"{address - base}\n" for address in addresses))
    told = {}
    for address, line in zip(addresses, out.split("\n")):
        frames = [frame.split("\t") for frame in line.split("\x1e") if frame]
        told[address] = [(as_dump_syms(name), file, int(number)) for name, file, number in frames]
    return {address: said for address, said in told.items() if not any("void *&&" in name for name, _, _ in said)}


def judge_platform(kind, made, a, log):
    """CodeView has no line 0, which DWARF has for code of no line: such addresses are left out."""
    path, judged = fetch_ltcg(a.folder) if kind == LTCG else map(made.path, PLATFORMS[kind])
    if kind == "PE MinGW":
        run(MINGW, "-O2", "-g", "-w", "-I", SOURCES, "-I", f"{SOURCES}/inc", f"{SOURCES}/tmpl.cpp", f"{SOURCES}/tmpl2.cpp", "-o", path)
    if kind.startswith("PDB") and kind != LTCG:  # LLVM would read that
        with open(judged, "rb") as file:
            data = bytearray(file.read())
        optional = int.from_bytes(data[0x3C:0x40], "little") + 24
        directories = optional + (112 if data[optional + 1] == 2 else 96)  # PE32+, PE32
        data[directories + 48 : directories + 56] = bytes(8)  # the sixth leads to it
        judged += ".alone"
        with open(judged, "wb") as file:
            file.write(data)
    symbtool = os.path.join(os.path.dirname(DAEMON[-1]), "symbtool")
    program, ids = Made(kind, os.path.basename(path)), json.loads(run(symbtool, "file-id", "--json", path))
    section = re.search(r"Name: (?:\.text|__text).*?\n((?:    .*\n)+)", run("llvm-readobj", "--sections", judged))[1]
    numbers = [int(re.search(rf"(?:Virtual)?{what}: (0x[0-9A-F]+)", section)[1], 16) for what in ("Address", "Size")]
    start = numbers[0]
    base = 0x100000000 if kind.startswith("Mach") else 0x400000 if "x86" in kind else 0x140000000
    start += 0 if kind.startswith("Mach") else base
    addresses = random.Random(a.seed).sample(range(start, start + numbers[1]), min(2 * a.count, numbers[1]))  # some have no lines
    if kind == LTCG:
        told = by_pdb_addr2line(a.folder, path, numbers[0], addresses, base)
    else:
        told = {address: [(microsofts(name), file, line) for name, file, line in said] for address, said in check.llvm_symbolizer(judged, addresses).items()}
    addresses = sorted([address for address in addresses if told.get(address) and all(name and line for name, _, line in told[address])][: a.count])
    root = f"{a.folder}/{kind.replace(' ', '-')}"
    uuid = ids["build_id"]
    code_id = uuid[:8].upper() + uuid[8:].lstrip("0")
    where = f"{uuid[:2]}/{uuid[2:]}/debuginfo" if kind.startswith("Mach") else f"{program.name}/{ids.get('debug_id', code_id)}/{program.name}"
    os.makedirs(os.path.dirname(f"{root}/{where}"), exist_ok=True)
    shutil.copy(path, f"{root}/{where}")
    module = [program.name, ids.get("debug_id", uuid)]
    offsets = [address - base for address in addresses]
    got, stable = ask_everywhere({"source": [f"elf+file://{root}"]}, module, offsets, bucket=False)
    os.makedirs(f"{root}/pushed/store", exist_ok=True)
    pdb = kind.startswith("PDB")  # it knows offsets only
    check.check(kind, by_symbtool(symbtool, path, offsets if pdb else addresses) == got, "symbtool has other answers")
    check.check(kind, by_push(symbtool, path, f"{root}/pushed", module, offsets) == got, "what is pushed has other answers")
    judges = {"pdb-addr2line" if kind == LTCG else "llvm-symbolizer": told}
    if kind == "PE MinGW":  # labels are no functions, as which LLVM takes them
        judges["addr2line"] = check.addr2line(judged, addresses)
    show(program, "debug file", len(addresses), counted("debug file", program, addresses, got, judges, {}, log), stable, "")


def show(program, source, total, counts, stable, equal):
    shares = [f"{100 * counts[what] / total:.2f}" for what in ("agreed", "differs", "unnamed", *JUDGES)]
    print("|", " | ".join([program.kind, program.name, source, str(total), *shares, "yes" if stable else "NO", equal]), "|", flush=True)
    check.check(program.kind, stable, "other hosts have other answers")
    check.check(program.kind, equal or counts["differs"] <= total // 1000, "wrong answers from a debug file")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dump-syms")
    parser.add_argument("--only", action="append", choices=[*PROGRAMS, *KINDS])
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("folder")
    a = parser.parse_args()
    folder = a.folder = os.path.abspath(a.folder)
    check.SECONDS = 3600
    archive = Archive(folder)
    columns = ["kind", "program", "source", "addresses", "agreed, %", "differs, %", "unnamed, %", *(f"as {who}, %" for who in JUDGES), "same everywhere", "as the debug file, %"]
    print("|", " | ".join(columns), "|")
    print("|" + "---|" * len(columns))
    with all_architectures(archive), open(f"{folder}/differences.txt", "w", encoding="utf-8") as log:
        made = Platforms(folder) if any(kind in PLATFORMS for kind in a.only or PLATFORMS) else None
        for kind in a.only or [*PROGRAMS, *KINDS]:
            if kind == "PE MinGW" and not shutil.which(MINGW):
                print("left out", kind, "as there is no", MINGW)
                continue
            if kind in KINDS:
                try:
                    judge_platform(kind, made, a, log)
                except (OSError, subprocess.CalledProcessError) as e:
                    if kind != LTCG:
                        raise
                    print("left out", kind, "as it could not be fetched:", e)
                continue
            if PROGRAMS[kind][0] is None and not shutil.which(PROGRAMS[kind][1][0]):
                print("left out", kind, "as there is no", PROGRAMS[kind][1][0])
                continue
            judge(Program(kind, archive, folder), a, log)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
