#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small programs with a .gopclntab, put together by the assembler: of each form since Go 1.16, without Go.

go_tables.py FOLDER writes the tables alone, for the fuzzer to begin with: FOLDER/VERSION."""
import os
import subprocess
import sys

MAGICS = {16: 0xFFFFFFFA, 18: 0xFFFFFFF0, 20: 0xFFFFFFF1}
SECONDS = 60
# What the functions are: name, first byte, byte behind, first byte of the next; stretches of (value, byte behind) of files, lines and
# inlined calls; inlined calls as (name, byte whose place is the call's).
FUNCTIONS = [
    ("main.outer", 0, 60, [(0, 20), (1, 24), (0, 60)], [(10, 8), (21, 16), (31, 24), (22, 32), (11, 40), (12, 60)],
     [(-1, 8), (0, 16), (1, 24), (0, 32), (-1, 60)], [("main.middle", 4), ("main.(*T).inner[...]", 12)]),
    ("main.plain", 64, 128, [(1, 128)], [(40, 70), (39, 128)], [], []),
]
FILES = ["/src/main.go", "/src/inner.go"]
CODE = 128
# Frames at some bytes, innermost first.
ANSWERS = {
    0: [("main.outer", "/src/main.go", 10)],
    8: [("main.middle", "/src/main.go", 21), ("main.outer", "/src/main.go", 10)],
    16: [("main.(*T).inner[...]", "/src/main.go", 31), ("main.middle", "/src/main.go", 21), ("main.outer", "/src/main.go", 10)],
    23: [("main.(*T).inner[...]", "/src/inner.go", 31), ("main.middle", "/src/main.go", 21), ("main.outer", "/src/main.go", 10)],
    24: [("main.middle", "/src/main.go", 22), ("main.outer", "/src/main.go", 10)],
    59: [("main.outer", "/src/main.go", 12)],
    60: [],
    64: [("main.plain", "/src/inner.go", 40)],
    127: [("main.plain", "/src/inner.go", 39)],
}


def text_of(strings):
    """Assembler text, and where each string begins."""
    places, at = {}, 0
    for s in strings:
        places[s] = at
        at += len(s) + 1
    return "\n".join(f'.asciz "{s}"' for s in strings), places


def steps_of(stretches, start):
    """Differences of values, as zigzag, and of addresses."""
    value, at, out = -1, start, []
    for v, end in stretches:
        out += [(v - value) * 2 if v >= value else -(v - value) * 2 - 1, end - at]
        value, at = v, end
    return ".uleb128 " + ",".join(map(str, out + [0]))


class Table:
    """The parts of one table as assembler text."""

    def __init__(self, version):
        self.version = version
        self.names, self.name_at = text_of([""] + [f[0] for f in FUNCTIONS] + [c[0] for f in FUNCTIONS for c in f[6]])
        self.files, self.file_at = text_of([""] + FILES)

    def record(self, i):
        _, start, _, files, lines, calls, tree = FUNCTIONS[i]
        new = self.version >= 18
        out = [".balign 8", f"record{i}:", f".long {start}" if new else f".quad code+{start}", f".long {self.name_at[FUNCTIONS[i][0]]}",
               ".long 0,0,0", f".long files{i} - steps, lines{i} - steps, 3, 0"]
        out += [".long 1"] if self.version >= 20 else []
        out += [".byte 0,0,0,4", f".long 0,0,{f'calls{i} - steps' if calls else 0}"]
        if new:
            return out + [f".long -1,-1,-1,{f'tree{i} - trees' if tree else -1}"]
        return out + [".balign 8", f".quad 0,0,0,{f'tree{i}' if tree else 0}"]

    def tree(self, i):
        out = [f"tree{i}:"]
        for name, site in FUNCTIONS[i][6]:
            out += [f".long 0,{self.name_at[name]},{site},1" if self.version >= 20 else f".short -1,0\n.long 0,0,{self.name_at[name]},{site}"]
        return out

    def functions(self):
        out = []
        for i, f in enumerate(FUNCTIONS):
            out += [f".long {f[1]}, record{i} - functions" if self.version >= 18 else f".quad code+{f[1]}, record{i} - functions"]
        out += [f".long {CODE}" if self.version >= 18 else f".quad code+{CODE}"]
        for i in range(len(FUNCTIONS)):
            out += self.record(i)
        return out

    def steps(self):
        out = ["steps: .byte 0"]
        for i, (_, start, _, files, lines, calls, _) in enumerate(FUNCTIONS):
            out += [f"files{i}: {steps_of(files, start)}", f"lines{i}: {steps_of(lines, start)}", f"calls{i}: {steps_of(calls, start)}"]
        return out

    def header(self):
        parts = "names", "units", "paths", "steps", "functions"
        return ["table:", f".long {MAGICS[self.version]}", ".byte 0,0,1,8", f".quad {len(FUNCTIONS)},{len(FILES)}",
                *([".quad 0"] if self.version >= 18 else []), ".quad " + ",".join(f"{p} - table" for p in parts)]

    def whole(self):
        return [*self.header(), "names:", self.names, ".balign 8", "units: .long " + ",".join(str(self.file_at[f]) for f in FILES),
                ".balign 8", "paths:", self.files, ".balign 8", *self.steps(), ".balign 8", "functions:", *self.functions()]

    def module(self):
        """What the runtime knows: the parts, then addresses; 22 is the text, the last one the base of inlined calls."""
        words = [0] * (41 if self.version >= 20 else 39)
        for at, value in ((0, "table"), (1, "names"), (4, "units"), (7, "paths"), (10, "steps"), (13, "functions"), (16, "functions"),
                          (22, "code"), (len(words) - 1, "trees")):
            words[at] = value
        return ["module: .quad " + ",".join(map(str, words))]


def assemble(folder, version, link=("-shared",), section=None, within=False):
    """A program with the table of that version, CODE bytes of nops from the symbol code on; no symbol has a size. within: inlined
    calls are in the table's section, too."""
    t = Table(version)
    section = section or (".gopclntab" if version >= 18 else ".data.rel.ro.gopclntab")
    kind = '"aw",@progbits' if "data" in section else '"a",@progbits'
    text = ["", ".text", "code:", f".skip {CODE},0x90", f".section {section},{kind}", ".balign 32", *t.whole(), ".balign 8",
            *(["trees = table"] if within else ['.section .rodata,"a",@progbits', "trees:"])]
    for i in range(len(FUNCTIONS)):
        text += t.tree(i)
    text += ['.section .noptrdata,"aw",@progbits', ".balign 8", ".quad table, 1, 2", *t.module(), '.section .note.GNU-stack,"",@progbits', ""]
    path = os.path.join(folder, f"go{version}" + "".join(c for c in "".join(link) + section if c.isalnum()))
    with open(path + ".s", "w", encoding="utf-8") as file:
        file.write("\n".join(text))
    subprocess.run(["as", "-o", path + ".o", path + ".s"], check=True, timeout=SECONDS)
    subprocess.run(["ld", "-e", "0", *link, "-s", "-o", path, path + ".o"], check=True, timeout=SECONDS, stderr=subprocess.DEVNULL)
    return path


def main():
    for version in MAGICS:
        path = assemble(sys.argv[1], version, ("-Ttext=0x401000", "--section-start=.gopclntab=0x500000"), ".gopclntab", True)
        subprocess.run(["objcopy", "-O", "binary", "-j", ".gopclntab", path, os.path.join(sys.argv[1], str(version))], check=True)
        os.chmod(os.path.join(sys.argv[1], str(version)), 0o644)
        for ending in "", ".s", ".o":
            os.remove(path + ending)


if __name__ == "__main__":
    main()
