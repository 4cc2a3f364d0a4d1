#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers offsets from a Breakpad symbol file: slow, plain, and written from the specification alone.

    ./plain_reader.py FILE [--id ID] [--nearest] [--edges] [--offsets-from FILE] OFFSET...

It is the yardstick for the reader of the service. The whole file is kept as lists and every answer walks them from
the start, so that each rule stands here once and as it is said. Prints a line for the file:

    {"corrupt": false, "damaged": N, "code_file": "xul.dll"}      or      {"corrupt": true, "why": "..."}

and then, of a file that is not corrupt, one line for each offset, with the keys of a v5 frame.
--edges asks around every address that the text names. OFFSET is 0x-hex or decimal.
"""
import argparse
import bisect
import codecs
import functools
import json
import re
import sys

TOP = 1 << 64
MAX_32 = (1 << 32) - 1
MAX_LINE = (1 << 20) + (64 << 10)  # bytes of a line without its LF
MAX_NODES = 100_000  # inline nodes of one FUNC
UNKNOWN = b"<unknown>"
KEYWORDS = (b"MODULE", b"INFO", b"FILE", b"INLINE_ORIGIN", b"FUNC", b"INLINE", b"PUBLIC", b"STACK")

FIELD = re.compile(rb"[ \t]*([^ \t]+)")
DIGITS = {10: re.compile(rb"[0-9]+"), 16: re.compile(rb"[0-9a-fA-F]+")}

# Python's own "replace" makes one mark of several bytes.
codecs.register_error("each-byte", lambda e: ("\ufffd" * (e.end - e.start), e.end))


def text(data):
    return data.decode("utf-8", "each-byte")


class Damaged(Exception):
    """A line that cannot be read."""


class Corrupt(Exception):
    """A file that cannot be used; the text says why."""


def split(line, count):
    """The first count fields of a line and what follows them: it loses its leading blanks, not its trailing ones."""
    fields, at = [], 0
    for _ in range(count):
        found = FIELD.match(line, at)
        if not found:
            raise Damaged
        fields.append(found[1])
        at = found.end()
    return fields, line[at:].lstrip(b" \t")


@functools.lru_cache(1 << 16)
def number(field, base, limit):
    if not DIGITS[base].fullmatch(field):
        raise Damaged
    digits = field.lstrip(b"0") or b"0"
    if len(digits) > 20 or int(digits, base) > limit:
        raise Damaged
    return int(digits, base)


def hexadecimal(field):
    return number(field, 16, TOP - 1)


def decimal(field, limit=TOP - 1):
    return number(field, 10, limit)


class Func:
    def __init__(self, start, size, name):
        self.start, self.name = start, name
        self.end = min(start + size, TOP)
        self.line_count = 0  # the ones that parsed, wherever they lie
        self.lines = []  # (start, end, line, file id), clipped
        self.inlines = []  # (depth, line, file id or None, origin id, [(start, end)]), clipped

    def covers(self, offset):
        return self.start <= offset < self.end

    def clip(self, start, size):
        """The part of a range inside the FUNC; None for a range wholly outside. Size 0 has a place, too."""
        end = min(start + size, TOP)
        if size == 0:
            return (start, start) if self.covers(start) else None
        start, end = max(start, self.start), min(end, self.end)
        return (start, end) if start < end else None


class SymFile:
    def __init__(self, data, asked_id=None):
        self.damaged = 0
        self.code_file = None
        self.files, self.origins = {}, {}  # names by id; the last definition in the file holds for all of it
        self.origin_files = {}  # the file id of an origin, None: not known; 2021
        self.funcs, self.publics = [], []  # in the order of the file; publics are (address, name)
        self.block = None  # the FUNC that line and INLINE records belong to
        self.inlines_dropped = {}
        first, _, rest = data.removeprefix(codecs.BOM_UTF8).partition(b"\n")
        self.read_module(next(self.content(first), b""), asked_id)
        for line in self.content(rest):
            try:
                self.read_line(line)
            except Damaged:
                self.damaged += 1
        if not self.funcs and not self.publics:
            raise Corrupt("no FUNC and no PUBLIC")

    @staticmethod
    def content(data):
        """The lines that are not blank. One that is too long comes as it is: read_line refuses it."""
        for line in data.split(b"\n"):
            if len(line) <= MAX_LINE:
                line = line.split(b"\0")[0].rstrip(b"\r")
            if line.strip(b" \t"):
                yield line

    def read_module(self, line, asked_id):
        try:
            (keyword, _os, _arch, module_id), name = split(line, 4)
        except Damaged:
            raise Corrupt("no MODULE line at the start") from None
        usable = len(line) <= MAX_LINE and line.startswith(b"MODULE") and keyword == b"MODULE" and name
        if not usable or not re.fullmatch(rb"[0-9a-fA-F]+", module_id):
            raise Corrupt("no MODULE line at the start")
        if len(module_id) == 32 and len(asked_id or "") == 33:
            module_id += b"0"  # no age
        if len(module_id) == 33 and module_id.endswith(b"0") and len(asked_id or "") == 32:
            asked_id += "0"
        if asked_id is not None and module_id.lower() != asked_id.encode().lower():
            raise Corrupt("another debug id")

    def read_line(self, line):
        (keyword,), rest = split(line, 1)
        if keyword in (b"FUNC", b"PUBLIC"):
            self.block = None  # also when the line turns out damaged
        if len(line) > MAX_LINE or keyword == b"MODULE":
            raise Damaged
        if keyword == b"INFO":
            self.read_info(rest)
        elif keyword == b"FILE":
            (number_,), name = split(rest, 1)
            if not name:
                raise Damaged
            self.files[decimal(number_)] = name
        elif keyword == b"INLINE_ORIGIN":
            self.read_origin(rest)
        elif keyword == b"FUNC":
            self.read_func(rest)
        elif keyword == b"INLINE":
            self.read_inline(rest)
        elif keyword == b"PUBLIC":
            self.read_public(rest)
        elif keyword != b"STACK":
            self.read_line_record(line)

    def read_info(self, rest):
        """Never damaged: the keys are open-ended. INFO CODE_ID hex [file]"""
        try:
            (key, _code_id), name = split(rest, 2)
        except Damaged:
            return
        if key == b"CODE_ID" and name:
            self.code_file = name

    def read_origin(self, rest):
        (number_,), name = split(rest, 1)
        old = re.fullmatch(rb"(-1|[0-9]+)[ \t]+([^ \t].*)", name, re.DOTALL)  # 2021: a file id before the name
        self.origins[decimal(number_)] = old[2] if old else name or UNKNOWN
        self.origin_files[decimal(number_)] = int(old[1].lstrip(b"0")[:11] or b"0") if old else None

    @staticmethod
    def skip_multiple(rest):
        (first,), after = split(rest, 1)
        return after if first == b"m" else rest

    def read_func(self, rest):
        (address, size, parameters), name = split(self.skip_multiple(rest), 3)
        hexadecimal(parameters)
        func = Func(hexadecimal(address), hexadecimal(size), name or UNKNOWN)
        self.funcs.append(func)
        self.block = func

    def read_public(self, rest):
        (address, parameters), name = split(self.skip_multiple(rest), 2)
        hexadecimal(parameters)
        self.publics.append((hexadecimal(address), name or UNKNOWN))

    def read_line_record(self, line):
        (address, size, line_number, file), _ignored = split(line, 4)
        address, size = hexadecimal(address), hexadecimal(size)
        file = decimal(file)
        try:
            line_number = decimal(line_number, MAX_32)
        except Damaged:
            line_number = 0  # as a negative one
        if self.block is None:
            raise Damaged
        self.block.line_count += 1
        part = self.block.clip(address, size)
        if part:
            self.block.lines.append((*part, line_number, file))

    def read_inline(self, rest):
        fields = re.findall(rb"[^ \t]+", rest)
        head = 3 if len(fields) % 2 else 4  # the old form names no call file
        if len(fields) < head + 2:
            raise Damaged
        numbers = [decimal(f, MAX_32) for f in fields[:head]]
        pairs = [hexadecimal(f) for f in fields[head:]]
        if self.block is None:
            raise Damaged
        depth, line_number, origin = numbers[0], numbers[1], numbers[-1]
        file = numbers[2] if head == 4 else None
        parts = [self.block.clip(a, s) for a, s in zip(pairs[::2], pairs[1::2]) if s]
        self.block.inlines.append((depth, line_number, file, origin, [p for p in parts if p]))

    # Lookup.

    def answer(self, offset, nearest=False):
        row = {"offset": hex(offset)}
        func = self.nearest_func(offset) if nearest else self.covering_func(offset)
        if func is None:
            row.update(self.public_frame(offset, [f for f in self.funcs if nearest or f.end > f.start]))
        else:
            row.update({"function": text(func.name), "function_offset": hex(offset - func.start)})
            row["function_size"] = hex(func.end - func.start)
            if func.covers(offset):
                row.update(self.places(func, offset))
        return row

    def covering_func(self, offset):
        return self.best([f for f in self.funcs if f.covers(offset)])

    def nearest_func(self, offset):
        """None too when the nearest symbol is a PUBLIC."""
        func = self.best([f for f in self.funcs if f.start <= offset])
        if func and any(func.start < address <= offset for address, _ in self.publics):
            return None
        return func

    @staticmethod
    def best(funcs):
        """The greatest start; then the one with line records; then the first in the file."""
        best = None
        for func in funcs:
            if best is None or (func.start, func.line_count > 0) > (best.start, best.line_count > 0):
                best = func
        return best

    def public_frame(self, offset, funcs):
        below = [p for p in self.publics if p[0] <= offset]
        if not below:
            return {}
        address = max(a for a, _ in below)
        if any(address <= f.start <= offset for f in funcs):
            return {}
        name = next(n for a, n in below if a == address)
        frame = {"function": text(name), "function_offset": hex(offset - address)}
        following = [f.start for f in funcs if f.start > address] + [a for a, _ in self.publics if a > address]
        if following:
            frame["function_size"] = hex(min(following) - address)
        return frame

    def places(self, func, offset):
        """The file, line and inlines of a frame: who is called where, from the FUNC inwards."""
        chain = [] if self.too_many_nodes(func) else self.inline_chain(func, offset)
        frames = [{"function": text(self.origins.get(origin, UNKNOWN))} for _, _, _, origin, _ in chain]
        sites = []
        for depth, (_, line, file, _, _) in enumerate(chain):
            sites.append(self.place(file if file is not None else self.file_of_caller(func, chain[:depth]), line))
        sites.append(self.line_place(func, offset))
        result = sites[0]
        for frame, site in zip(frames, sites[1:]):
            frame.update(site)
        if frames:
            result["inlines"] = frames[::-1]
        return result

    def file_of_caller(self, func, outer):
        """Of a call in the form of 2021: the file of the function that it is in; if that is not known, where that is called."""
        if not outer:
            return min(func.lines, key=lambda record: record[0])[3] if func.lines else None
        file = self.origin_files.get(outer[-1][3])
        if file is not None and 0 <= file <= MAX_32:
            return file
        return outer[-1][2] if outer[-1][2] is not None else self.file_of_caller(func, outer[:-1])

    def place(self, file, line):
        if file not in self.files:
            return {}
        place = {"file": text(self.files[file])}
        if line:
            place["line"] = line
        return place

    def line_place(self, func, offset):
        covering = [r for r in func.lines if r[0] <= offset < r[1]]
        found = None
        for record in covering or [r for r in func.lines if r[0] <= offset]:
            if found is None or record[0] > found[0]:
                found = record
        return self.place(found[3], found[2]) if found else {}

    @staticmethod
    def inline_chain(func, offset):
        chain = []
        while True:
            for record in func.inlines:
                if record[0] == len(chain) and any(lo <= offset < hi for lo, hi in record[4]):
                    chain.append(record)
                    break
            else:
                return chain

    def too_many_nodes(self, func):
        if func not in self.inlines_dropped:
            self.inlines_dropped[func] = len(count_nodes(func)) > MAX_NODES
        return self.inlines_dropped[func]


def count_nodes(func):
    """The nodes that can be seen, at most MAX_NODES + 1: a node is an INLINE record below one parent node."""
    edges = sorted({edge for record in func.inlines for part in record[4] for edge in part})
    begins, ends = {}, {}
    for index, record in enumerate(func.inlines):
        for lo, hi in merged(record[4]):
            begins.setdefault(lo, []).append((record[0], index))
            ends.setdefault(hi, []).append((record[0], index))
    active, nodes = {}, {}  # active: records by depth, in the order of the file
    for edge in edges:
        for depth, index in ends.get(edge, ()):
            active[depth].remove(index)
        for depth, index in begins.get(edge, ()):
            bisect.insort(active.setdefault(depth, []), index)
        parent, depth = None, 0
        while active.get(depth):
            parent = nodes.setdefault((active[depth][0], parent), len(nodes))
            if len(nodes) > MAX_NODES:
                return nodes
            depth += 1
    return nodes


def merged(parts):
    """The same addresses as disjoint ranges."""
    result = []
    for lo, hi in sorted(parts):
        if result and lo <= result[-1][1]:
            result[-1][1] = max(hi, result[-1][1])
        else:
            result.append([lo, hi])
    return result


def edges(data):
    """Offsets of interest: around both ends of all that looks like a record, damaged or not, and the far ends."""
    found = {0, 1 << 32, 1 << 63, TOP - 1}

    def value(field):
        return int(field, 16) if re.fullmatch(rb"0*[0-9a-fA-F]{1,16}", field) else 0

    for line in data.split(b"\n"):
        fields = re.findall(rb"[^ \t\r]+", line)
        pairs = []
        if fields[:1] in ([b"FUNC"], [b"PUBLIC"]):
            fields = fields[2:] if fields[1:2] == [b"m"] else fields[1:]
            pairs = [(value(f), value(s)) for f, s in [(fields + [b"0", b"0"])[:2]]]
        elif fields[:1] == [b"INLINE"]:
            fields = fields[4:] if len(fields) % 2 == 0 else fields[5:]
            pairs = [(value(f), value(s)) for f, s in zip(fields[::2], fields[1::2])]
        elif len(fields) > 1 and fields[0] not in KEYWORDS and value(fields[0]):
            pairs = [(value(fields[0]), value(fields[1]))]
        for start, size in pairs:
            found.update((start - 1, start, start + 1, start + size - 1, start + size))
    return sorted(offset for offset in found if 0 <= offset < TOP)


def read(data, asked_id=None):
    """The file; of a corrupt one, why."""
    try:
        return SymFile(data, asked_id)
    except Corrupt as why:
        return why


def answers(data, offsets, asked_id=None, nearest=False):
    return answers_of(read(data, asked_id), offsets, nearest)


def answers_of(sym, offsets, nearest=False):
    """The row of the file and, unless it is corrupt, one row for each offset."""
    if isinstance(sym, Corrupt):
        return [{"corrupt": True, "why": str(sym)}]
    code_file = None if sym.code_file is None else text(sym.code_file)
    head = {"corrupt": False, "damaged": sym.damaged, "code_file": code_file}
    return [head] + [sym.answer(offset, nearest) for offset in offsets]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file")
    p.add_argument("offsets", nargs="*", type=lambda s: int(s, 0))
    p.add_argument("--id", help="the debug id that the file must have")
    p.add_argument("--nearest", action="store_true", help="lookup = nearest")
    p.add_argument("--edges", action="store_true", help="ask around every address of the file too")
    p.add_argument("--offsets-from", metavar="FILE", help="one offset a line")
    args = p.parse_args()
    with open(args.file, "rb") as f:
        data = f.read()
    offsets = list(args.offsets)
    if args.offsets_from:
        with open(args.offsets_from, encoding="ascii") as f:
            offsets += [int(line, 0) for line in f if line.strip()]
    if args.edges:
        offsets += edges(data)
    for row in answers(data, offsets, args.id, args.nearest):
        print(json.dumps(row))


if __name__ == "__main__":
    sys.exit(main())
