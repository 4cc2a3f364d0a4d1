#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes small Breakpad symbol files that are strange but plausible, and the offsets worth asking.

    ./random_sym.py DIR [--seed S] [--count N]

writes DIR/S.sym and DIR/S.offsets, then S+1 and so on. The same seed gives the same bytes. A file has 1 to 60 symbols
that may overlap, nest, repeat, share few addresses, be larger than 4 GiB or come unsorted, FILE and INLINE_ORIGIN lines early, late, twice or never, INLINE
records of both forms, odd separators and line ends, addresses anywhere in 64 bits, and some files have damaged lines.
"""
import argparse
import os
import random

import plain_reader

NAMES = (b"main", b"a::b<c, d>::operator()", b"f(int) const", b"12345", b"deadbeef 10 0", b"[x:y]", b"m", b"m 10 20 0 f", b"-1",
         b"trailing  ", b"in  ner\tblanks", b"\x01\x1f\x7f\"\\", "schön\u2028\U0001f600".encode(), b"bad\xff\xc3(\xed\xa0\x80\xe2\x82",
         b"<unknown>", b"FUNC 1 2 3 x", b"x" * 300, b"s" * 62, b"t" * 63, b"u" * 64, b'"' * 63, b"l" * 1022, b"k" * 1023, b"\\" * 1023)
FILES = (b"a.c", b"src/b b.cpp", b"hg:host/x:a/../b.h:1f", b"c\xfe.h", b"0", b"D:\\x\\y.c")
IDS = (0, 0, 1, 1, 2, 2, 3, 5, 9, 100, 4294967294, 4294967295)
HUGE = (b"100000000", b"ffffffffffffffff", b"10000000000000000", b"18446744073709551615", b"18446744073709551616", b"4294967295",
        b"4294967296", b"99999999999999999999999")
JUNK = (b"-1", b"+1", b"0x10", b"1g", b"1_0", b"x", b"m", b"1.0", b"\xff", b"1\r", b"", b" ", b"\t", b"00000000000000000000000005")
SEPARATORS = (b"  ", b"\t", b" \t ", b"    ")


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)
        r = self.r
        self.odd_blanks = r.random() < 0.2
        self.inline_form = r.choice(("new", "new", "new", "old", "both"))
        self.base = r.choice((0, 0x1000, 0x1000, 0x1000, 0x401000, (1 << 32) - 0x100, (1 << 63) - 0x80, (1 << 64) - 0x200))
        self.spread = r.choice((0x40, 0x200, 0x200, 0x1000))
        self.next = self.base
        self.piles = [r.randrange(self.spread) for _ in range(r.choice((1, 2, 5)))] if r.random() < 0.15 else []
        self.vast = r.random() < 0.1

    def chance(self, p):
        return self.r.random() < p

    def line(self, *fields):
        """Fields joined; an integer is decimal, a 1-tuple is a hex number."""
        out = b""
        for i, field in enumerate(fields):
            if i:
                out += self.r.choice(SEPARATORS) if self.odd_blanks and self.chance(0.3) else b" "
            if isinstance(field, tuple):
                field = f"{field[0] % plain_reader.TOP:{self.r.choice('xxxX')}}"
            out += field if isinstance(field, bytes) else str(field).encode()
        return b" " + out if self.odd_blanks and self.chance(0.03) else out

    def name(self, names=NAMES):
        name = self.r.choice(names)
        return name + str(self.r.randrange(100)).encode() if self.chance(0.5) else name

    def definitions(self):
        """FILE and INLINE_ORIGIN lines of some of the ids, some of them twice."""
        r, lines = self.r, []
        for number in (*IDS, 1 << 32, (1 << 64) - 1):
            if self.chance(0.7):
                lines.append(self.line(b"FILE", number, self.name(FILES)))
            if self.chance(0.7):
                fields = [b"INLINE_ORIGIN", number]
                if self.inline_form != "new" and self.chance(0.8):
                    fields.append(r.choice((b"-1", b"0", b"17")))
                lines.append(self.line(*fields, *([self.name()] if self.chance(0.95) else [])))
        return lines

    def address(self):
        """Where the next symbol starts: after the last one, touching or overlapping it, or anywhere."""
        r = self.r
        if self.piles:
            return self.base + r.choice(self.piles)
        if self.vast and self.chance(0.2):
            return self.base + r.choice((1, 2, 3)) * (1 << 32) + r.choice((-1, 0, 1, 8))
        if self.chance(0.15):
            return self.base + r.randrange(self.spread)
        return max(self.base, self.next + r.choice((0, 0, 0, 1, 8, 16, -4, -16)))

    def symbol(self):
        """The lines of one FUNC block or PUBLIC."""
        address = self.address()
        if self.chance(0.25):
            multiple = [b"m"] if self.chance(0.2) else []
            name = [self.name()] if self.chance(0.95) else []
            return [self.line(b"PUBLIC", *multiple, (address,), (0,), *name)]
        size = self.r.choice((0, 1, 2, 16, 16, 32, 32, 48, 64, 64, 200))
        if self.vast and self.chance(0.2):
            size = self.r.choice((1, 2, 5)) * (1 << 32) + self.r.choice((-1, 0, 1, 64))
        if self.chance(0.04):
            size += self.spread  # those behind it lie in it
            self.next = address + self.r.randrange(16)
        else:
            self.next = address + min(size, self.spread)
        multiple = [b"m"] if self.chance(0.1) else []
        name = [self.name()] if self.chance(0.95) else []
        head = [self.line(b"FUNC", *multiple, (address,), (size,), (self.r.choice((0, 8)),), *name)]
        inlines, records = [], self.line_records(address, size)
        if self.chance(0.6):
            self.inline_records(inlines, [(address, address + size)], 0)
        if self.chance(0.15):
            self.r.shuffle(inlines)
        if self.chance(0.1):
            body = inlines + records
            self.r.shuffle(body)
            return head + body
        return head + inlines + records

    def range_inside(self, start, end):
        """Mostly inside, now and then reaching out or empty."""
        r = self.r
        at = start + r.randrange(max(1, end - start))
        size = r.randrange(max(1, end - at) + 1)
        if self.chance(0.06):
            at -= r.choice((1, 4, 20))
        if self.chance(0.06):
            size += r.choice((1, 4, 20, 1 << 62))
        return max(0, at), size

    def inline_records(self, out, ranges, depth):
        """Appends records under the ranges of a parent, deeper ones after it."""
        r = self.r
        for _ in range(r.choice((0, 1, 1, 2, 3)) if depth < 6 and len(out) < 40 else 0):
            parts = [self.range_inside(*r.choice(ranges)) for _ in range(r.choice((1, 1, 1, 2, 3)))]
            site = [r.choice((0, 1, 7, 300, 4098359, 4294967295)), r.choice(IDS + (77,)), r.choice(IDS + (77,))]
            if self.inline_form == "old" or (self.inline_form == "both" and self.chance(0.5)):
                site.pop(1)
            shown = depth + (r.choice((-1, 1)) if self.chance(0.04) and depth else 0)
            out.append(self.line(b"INLINE", shown, *site, *((n,) for part in parts for n in part)))
            if self.chance(0.05):
                out.append(out[-1])
            self.inline_records(out, [(a, a + s) for a, s in parts if s] or ranges, depth + 1)

    def line_records(self, start, size):
        r, out, at = self.r, [], start
        if self.chance(0.15):
            return out
        while at < start + size and len(out) < 30:
            length = r.choice((0, 1, 2, 4, 4, 8, 16) if size < 1 << 31 else (1, 16, 1 << 30, (1 << 32) - 1, 1 << 32))
            shown = at if self.chance(0.9) else self.range_inside(start, start + size)[0]
            if self.chance(0.03):
                shown = r.choice((max(0, start - 4), max(0, start - 1), start + size, start + size + 4))
            number = r.choice((0, 1, 2, 10, 500, 4098359, 4294967295)) + (1 << 32 if self.chance(0.01) else 0)
            trailing = [b"and more"] if self.chance(0.02) else []
            file = r.choice(IDS + (77,)) + (1 << 32 if self.chance(0.01) else 0)
            out.append(self.line((shown,), (length,), number, file, *trailing))
            at += length + (r.choice((1, 3, -2)) if self.chance(0.15) else 0) + (length == 0)
        if self.chance(0.1):
            r.shuffle(out)
        return out

    def noise(self):
        return self.r.choice((b"", b"  ", b"STACK CFI INIT 1000 10 .cfa: $rsp 8 +", b"STACK WIN 4 1000 10 0 0 0 0 0 0 1 x", b"INFO URL x",
                              b"INFO CODE_ID 5CF2 b.dll", b"INFO", b"NONSENSE 1 2 3", b"FILE 3", b"1000 10 5 0"))

    def damage(self, line):
        """One line, broken in one place."""
        r = self.r
        fields = line.split(b" ")
        where = r.randrange(len(fields))
        kind = r.randrange(7)
        if kind == 0:
            fields[where] = r.choice(HUGE)
        elif kind == 1:
            fields[where] = r.choice(JUNK)
        elif kind == 2:
            del fields[where]
        elif kind == 3:
            fields.insert(where, r.choice(JUNK + HUGE))
        elif kind == 4:
            return line[: r.randrange(len(line) + 1)]
        elif kind == 5:
            return line[: r.choice((len(line), r.randrange(len(line) + 1)))] + b"\r\0" + line
        else:
            at = r.randrange(len(line) + 1)
            return line[:at] + bytes([r.choice((0, 9, 13, 32, 45, 48, 102, 255))]) + line[at + r.randrange(2) :]
        return b" ".join(fields)

    def module(self):
        r = self.r
        good = [b"MODULE", b"Linux", b"x86_64", b"44E4EC8C2F41492B9369D6B9A059577C2", r.choice((b"xul.pdb", b"a b c.so", b"lib [x:y]"))]
        if self.chance(0.02):
            good[r.randrange(5)] = r.choice(JUNK)
        elif self.chance(0.01):
            good.pop()
        return self.line(*good)

    def file(self):
        r = self.r
        blocks = [self.symbol() for _ in range(r.choice((1, 2, 3, 5, 8, 13, 20, 60)))]
        order = r.randrange(4)
        if order == 0:
            r.shuffle(blocks)
        elif order == 1:
            blocks.sort(key=lambda lines: lines[0].lstrip().startswith(b"PUBLIC"))
        definitions = self.definitions()
        if self.chance(0.2):
            for line in definitions:
                r.choice(blocks).insert(r.randrange(3), line)
            definitions = []
        late = [definitions.pop() for _ in range(r.randrange(6)) if definitions] if self.chance(0.2) else []
        if self.chance(0.2):
            late += self.definitions()
        info = [self.line(b"INFO", b"CODE_ID", b"5CF2591C6859000", b"xul.dll")] if self.chance(0.5) else []
        lines = [self.module(), *info, *definitions, *(line for block in blocks for line in block), *late]
        for _ in range(r.randrange(4)):
            lines.insert(r.randrange(1, len(lines) + 1), self.noise())
        if self.chance(0.5):
            for _ in range(r.choice((1, 1, 3, 12))):
                at = r.randrange(0 if self.chance(0.02) else 1, len(lines))
                lines[at] = self.damage(lines[at])
        return self.end_lines(lines)

    def end_lines(self, lines):
        r = self.r
        ends = r.choice(((b"\n",), (b"\n",), (b"\r\n",), (b"\r\r\n",), (b"\n", b"\r\n")))
        data = b"".join(line + r.choice(ends) for line in lines)
        if self.chance(0.1):
            data = data.rstrip(b"\r\n")
        elif self.chance(0.05):
            data = data[: r.randrange(len(data))]
        return data


def make(seed, most=400):
    """A file and at most so many offsets to ask, the far ends among them."""
    maker = Maker(seed)
    data = maker.file()
    offsets = plain_reader.edges(data)
    if len(offsets) > most:
        offsets = sorted({0, 1 << 32, 1 << 63, plain_reader.TOP - 1, *maker.r.sample(offsets, most - 4)})
    return data, offsets


def deep(count, depth):
    """A FUNC with count records at depth 0 and one record at each of the others: count * depth nodes."""
    lines = [b"MODULE Linux x86_64 0123456789ABCDEF0 deep", b"FILE 1 a.c"]
    lines += [b"INLINE_ORIGIN %d level%d" % (n, n) for n in range(depth)]
    lines.append(b"FUNC 10000 %x 0 deep" % (count * 4))
    lines += [b"INLINE 0 %d 1 0 %x 4" % (n + 1, 0x10000 + n * 4) for n in range(count)]
    lines += [b"INLINE %d %d 1 %d 10000 %x" % (n, n, n, count * 4) for n in range(1, depth)]
    return b"\n".join([*lines, b"10000 %x 77 1" % (count * 4), b""]), [0x10000, 0x10003, 0x10004, 0x10000 + count * 4 - 1]


def extremes():
    """Files that are too large to be kept: (name, data, offsets) around each limit of the format."""
    head = b"MODULE Linux x86_64 0123456789ABCDEF0 long\nFUNC 1000 10 0 before\n1000 10 5 0\nFILE 0 a.c\n"
    tail = b"\n1008 8 6 0\nPUBLIC 2000 0 after\n"
    asked = [0x1000, 0x1008, 0x1010, 0x1fff, 0x2000, 0x3000, 0x3010]
    for keyword in (b"FUNC 3000 10 0 ", b"PUBLIC 3000 0 ", b"FILE 0 ", b"INLINE_ORIGIN 0 ", b"STACK CFI 1000 ", b"1000 10 7 0 ", b"INFO CODE_ID 1 "):
        for extra in (0, 1):
            line = keyword + b"n" * (plain_reader.MAX_LINE - len(keyword) + extra)
            yield f"line of {len(line)} bytes: {keyword.decode()}", head + line + tail, asked
    line = b"FUNC 3000 10 0 cr" + b"\r" * plain_reader.MAX_LINE
    yield "line too long by its CRs", head + line + tail, asked
    yield "too long a MODULE line", head.replace(b" long", b" " + b"n" * plain_reader.MAX_LINE) + tail, asked
    for count, depth in ((1000, 100), (100001, 1), (50001, 2), (100000, 1)):
        yield f"{count * depth} inline nodes", *deep(count, depth)
    ranges = b"".join(b" %x 2" % (0x1000 + 4 * n) for n in range(5000))
    inline = head.replace(b"1000 10 0", b"1000 8000 0") + b"INLINE_ORIGIN 0 in\nINLINE 0 5 0 0" + ranges + b"\nINLINE 1 6 0 0" + ranges + tail
    yield "INLINE of 5,000 ranges", inline, [0x1000, 0x1002, 0x1004, 0x1000 + 4 * 4999, 0x1000 + 4 * 4999 + 2]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=1)
    args = p.parse_args()
    for seed in range(args.seed, args.seed + args.count):
        data, offsets = make(seed)
        with open(os.path.join(args.dir, f"{seed}.sym"), "wb") as f:
            f.write(data)
        with open(os.path.join(args.dir, f"{seed}.offsets"), "w", encoding="ascii") as f:
            f.writelines(f"{offset:#x}\n" for offset in offsets)


if __name__ == "__main__":
    main()
