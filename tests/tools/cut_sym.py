#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cuts a sample out of a large symbol file and keeps the answers that stay true.

    ./cut_sym.py FILE.sym[.zst] ANSWERS.jsonl BUCKET [--symbols 150] [--largest BYTES] [--deep] [--more 300]

Keeps MODULE and INFO, the symbols that the most (with --deep: the deepest) answers name, the symbol after each PUBLIC
of these, since it ends the PUBLIC, the FILE and INLINE_ORIGIN lines in use with their ids, and some STACK records.
Writes BUCKET/NAME/ID/NAME.sym and BUCKET/answers/NAME.jsonl: the given answers of the kept symbols, each compared with
plain_reader.py, then --more of that reader's own around the edges of the kept records.
"""
import argparse
import bisect
import collections
import json
import os
import random
import re
import subprocess
import sys

import plain_reader

STACK_RECORDS = 20


class Symbol:
    """A FUNC with the records below it, or a PUBLIC."""

    def __init__(self, line):
        fields = line.split()
        self.address = int(fields[2 if fields[1] == b"m" else 1], 16)
        self.lines = [line]


class Source:
    def __init__(self, data):
        self.head, self.symbols, self.stack = [], [], []
        self.names = {b"FILE": {}, b"INLINE_ORIGIN": {}}
        for line in data.splitlines(keepends=True):
            keyword = line.split(maxsplit=1)[0]
            if keyword in (b"MODULE", b"INFO"):
                self.head.append(line)
            elif keyword in self.names:
                self.names[keyword][int(line.split(maxsplit=2)[1])] = line
            elif keyword in (b"FUNC", b"PUBLIC"):
                self.symbols.append(Symbol(line))
            elif keyword == b"STACK":
                self.stack.append(line)
            else:
                self.symbols[-1].lines.append(line)

    def text(self, keep):
        """The file with these symbols alone, in their old order."""
        files, origins = set(), set()
        body = [line for symbol in self.symbols if symbol in keep for line in symbol.lines]
        for line in body:
            fields = line.split()
            if fields[0] == b"INLINE":
                files.add(int(fields[3]))
                origins.add(int(fields[4]))
            elif fields[0] not in (b"FUNC", b"PUBLIC"):
                files.add(int(fields[3]))
        names = [line for number, line in self.names[b"FILE"].items() if number in files]
        names += [line for number, line in self.names[b"INLINE_ORIGIN"].items() if number in origins]
        return b"".join(self.head + names + body + self.stack[:STACK_RECORDS])


def start_of(answer):
    return int(answer["offset"], 16) - int(answer["function_offset"], 16)


def choose(source, answers, count, largest, deep):
    """The symbols to keep, and the addresses of those that answers name. An address with two symbols keeps both."""
    worth = collections.Counter()
    for answer in answers:
        if "function" in answer:
            start = start_of(answer)
            worth[start] = max(worth[start], len(answer.get("inlines", ()))) if deep else worth[start] + 1
    by_address = collections.defaultdict(list)
    for symbol in source.symbols:
        by_address[symbol.address].append(symbol)
    addresses = sorted(by_address)
    keep, named = set(), set()
    for start, _ in worth.most_common():
        symbols = by_address[start]
        if len(keep) >= count or sum(len(line) for symbol in symbols for line in symbol.lines) > largest:
            continue
        named.add(start)
        keep.update(symbols)
        following = bisect.bisect_right(addresses, start)
        if symbols[0].lines[0].startswith(b"PUBLIC") and following < len(addresses):
            keep.update(by_address[addresses[following]])
    return keep, named


def sample(data, given, named, more):
    """The given answers that name these symbols, which the reader has to agree with, and as many more of its own."""
    given = [a for a in given if "function" not in a or start_of(a) in named]
    read = plain_reader.answers(data, [int(a["offset"], 16) for a in given])[1:]
    for want, got in zip(given, read):
        if want != got and "function" in want:
            sys.exit(f"the cut changes an answer: {want} becomes {got}")
    result = [want for want, got in zip(given, read) if want == got]
    offsets = sorted(set(plain_reader.edges(data)) - {int(a["offset"], 16) for a in result})
    offsets = sorted(random.Random(1).sample(offsets, min(more, len(offsets))))
    return result, plain_reader.answers(data, offsets)[1:]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file")
    p.add_argument("answers")
    p.add_argument("bucket")
    p.add_argument("--symbols", type=int, default=150)
    p.add_argument("--largest", type=int, default=24_000, help="bytes of a FUNC with its records")
    p.add_argument("--deep", action="store_true")
    p.add_argument("--more", type=int, default=300)
    args = p.parse_args()
    if args.file.endswith(".zst"):
        data = subprocess.run(["zstd", "-dcq", args.file], stdout=subprocess.PIPE, check=True).stdout
    else:
        with open(args.file, "rb") as f:
            data = f.read()
    with open(args.answers, encoding="utf-8") as f:
        given = [json.loads(line) for line in f]
    source = Source(data)
    keep, named = choose(source, given, args.symbols, args.largest, args.deep)
    data = source.text(keep)
    given, own = sample(data, given, named, args.more)
    if not given:
        sys.exit("no answer is left")

    debug_id, name = source.head[0].decode().rstrip("\r\n").split(maxsplit=4)[3:5]
    stem = re.sub(r"\.pdb$", "", name, flags=re.IGNORECASE)
    path = os.path.join(args.bucket, name, debug_id)
    os.makedirs(path, exist_ok=True)
    os.makedirs(os.path.join(args.bucket, "answers"), exist_ok=True)
    with open(os.path.join(path, stem + ".sym"), "wb") as f:
        f.write(data)
    with open(os.path.join(args.bucket, "answers", name + ".jsonl"), "w", encoding="ascii") as f:
        f.writelines(json.dumps(answer) + "\n" for answer in given + own)
    print(f"{name}: {len(keep)} symbols, {len(data)} bytes, {len(given)} answers given, {len(own)} more")


if __name__ == "__main__":
    main()
