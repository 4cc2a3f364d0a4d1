#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the reader of the service with plain_reader.py, answer by answer.

    ./differential.py --tool ./symlookup [--count N] [--seed S]     random files
    ./differential.py --tool ./symlookup --extremes                 files at the limits of the format
    ./differential.py --tool ./symlookup --corpus DIR               the kept cases, read whole and in pieces

The tool is run once, with --batch: it takes the command line of plain_reader.py on each line of its input and prints what
that prints, and an empty line; --chunk N makes it read the file N bytes at a time. --options="..." are given to it in every
command line, e.g. --options="--values lz4"; where it is given several times each file is read with each of them. Prints the
first differences, the first file with one cut down to the lines that matter, and then "N files, M answers, D differences";
exits 1 when D > 0 or nothing was compared.
"""
import argparse
import contextlib
import glob
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading

import plain_reader
import random_sym

HEAD = ("corrupt", "damaged", "code_file")
SHOWN = 10
CHUNKS = (1, 2, 3, 7, 64, 4096)
BOUND = 120  # seconds; for one file
MINIMISE_RUNS = 1500


def rewrite(path, data):
    """Into the same file: to make a new one takes longer than the tool does."""
    with open(path, "r+b" if os.path.exists(path) else "wb") as f:
        f.write(data)
        f.truncate()


class Tool:
    def __init__(self, path, options, directory):
        self.path, self.options = os.path.abspath(path), options
        self.file = os.path.join(directory, "a.sym")
        self.offsets = os.path.join(directory, "a.offsets")
        self.stderr = tempfile.TemporaryFile(dir=directory)
        self.process = None

    def rows(self, data, offsets, options):
        """What the tool prints for the bytes; a crash or a garbled line is a row that equals no other."""
        rewrite(self.file, data)
        rewrite(self.offsets, b"".join(b"%#x\n" % offset for offset in offsets))
        if not self.process:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.stderr}
            self.process = subprocess.Popen([self.path, "--batch"], **pipes)
        hung = threading.Timer(BOUND, self.process.kill)
        hung.start()
        lines = self.ask([self.file, *self.options, *options, "--offsets-from", self.offsets])
        hung.cancel()
        if not lines or lines[-1] != b"\n":
            return [self.end()]
        try:
            return json.loads(b"[" + b",".join(lines[:-1]) + b"]")
        except ValueError as e:
            return [{"garbled": str(e)}]

    def ask(self, words):
        """The lines up to and with the empty one; without that one where the tool ended."""
        try:
            self.process.stdin.write(" ".join(words).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return []
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if line == b"\n":
                break
        return lines

    def end(self):
        """Has it end; how that went is a row too."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        code, self.process = self.process.wait(BOUND), None
        self.stderr.seek(0)
        said = self.stderr.read().decode(errors="replace")
        self.stderr.seek(0)
        self.stderr.truncate()
        return {"exit": code, "stderr": said[-2000:]}


def compare(want, got):
    """Pairs of rows that differ. Of a corrupt file only that it is corrupt counts."""
    if not got:
        return [(want[0], None)]
    if want[0]["corrupt"] and got[0].get("corrupt") is True:
        return []
    heads = [{k: row.get(k) for k in HEAD} for row in (want[0], got[0])]
    differing = [] if heads[0] == heads[1] else [(want[0], got[0])]
    if len(want) != len(got):
        return differing + [(f"{len(want)} rows", f"{len(got)} rows")]
    return differing + [(w, g) for w, g in zip(want[1:], got[1:]) if w != g]


def minimise(differs, data):
    """Drops lines, many at a time and then one by one, while the difference stays."""
    lines, size, runs = data.split(b"\n"), max(1, data.count(b"\n") // 2), 0
    while runs < MINIMISE_RUNS:
        at = dropped = 0
        while at < len(lines) and runs < MINIMISE_RUNS:
            fewer = lines[:at] + lines[at + size :]
            runs += 1
            if differs(b"\n".join(fewer)):
                lines, dropped = fewer, dropped + 1
            else:
                at += size
        if size == 1 and not dropped:
            break
        size = max(1, size // 2)
    return b"\n".join(lines)


def shorten(value):
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) < 600 else f"{text[:500]}... ({len(text)} characters)"


class Run:
    def __init__(self, tools):
        self.tools = tools
        self.files = self.answers = self.differences = 0

    def check(self, title, data, offsets, options, want):
        """options: what the tools are called with; want: the rows they have to print."""
        for tool in self.tools:
            found = compare(want, tool.rows(data, offsets, options))
            self.answers += len(want)
            self.differences += len(found)
            if found and self.differences - len(found) < SHOWN:
                print(" ".join([title, *tool.options, *options]))
                for expected, given in found[:3]:
                    print(f"  want {shorten(expected)}\n  got  {shorten(given)}")
                if self.differences == len(found) and len(data) < 1 << 20:
                    self.show_minimised(tool, data, offsets, options)

    @staticmethod
    def show_minimised(tool, data, offsets, options):
        nearest = "--nearest" in options
        asked_id = options[options.index("--id") + 1] if "--id" in options else None

        def differences(smaller):
            want = plain_reader.answers(smaller, offsets, asked_id, nearest)
            return compare(want, tool.rows(smaller, offsets, options))

        smaller = minimise(differences, data)
        print("  minimised to")
        for line in smaller.split(b"\n"):
            print(f"    {shorten(repr(line)[2:-1])}")
        for expected, given in differences(smaller)[:3]:
            print(f"  want {shorten(expected)}\n  got  {shorten(given)}")

    def extremes(self):
        for title, data, offsets in random_sym.extremes():
            self.files += 1
            want = plain_reader.answers(data, offsets)
            for options in ([], ["--chunk", "65536"]):
                self.check(title, data, offsets, options, want)

    def random(self, seed, count):
        for number in range(seed, seed + count):
            data, offsets = random_sym.make(number)
            self.files += 1
            sym = plain_reader.read(data)
            self.check(f"seed {number}", data, offsets, [], plain_reader.answers_of(sym, offsets))
            options = ["--nearest", "--chunk", str(CHUNKS[number % len(CHUNKS)])]
            self.check(f"seed {number}", data, offsets, options, plain_reader.answers_of(sym, offsets, nearest=True))

    def corpus(self, directory):
        for path in sorted(glob.glob(os.path.join(directory, "*.jsonl"))):
            case, mode, _ = os.path.basename(path).rsplit(".", 2)
            with open(path, encoding="utf-8") as f:
                want = [json.loads(line) for line in f]
            with open(os.path.join(directory, case + ".sym"), "rb") as f:
                data = f.read()
            options = ["--nearest"] if mode == "nearest" else []
            options += ["--id", want[0]["id"]] if "id" in want[0] else []
            offsets = [int(row["offset"], 16) for row in want[1:]]
            self.files += 1
            self.check(case, data, offsets, options, want)
            for chunk in CHUNKS:
                self.check(case, data, offsets, [*options, "--chunk", str(chunk)], want)

    def end(self):
        """What a sanitizer finds at the end of a tool is a difference too."""
        for tool in self.tools:
            row = tool.end() if tool.process else {"exit": 0}
            if row["exit"]:
                self.differences += 1
                print(" ".join(["at the end", *tool.options]), row["exit"], row["stderr"], sep="\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tool", required=True)
    p.add_argument("--count", type=int, default=1000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--corpus", metavar="DIR")
    p.add_argument("--extremes", action="store_true")
    p.add_argument("--options", action="append", type=shlex.split)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        run = Run([Tool(args.tool, options, directory) for options in args.options or [[]]])
        if args.corpus:
            run.corpus(args.corpus)
        elif args.extremes:
            run.extremes()
        else:
            run.random(args.seed, args.count)
        run.end()
    print(f"{run.files} files, {run.answers} answers, {run.differences} differences")
    return 1 if run.differences or not run.answers else 0


if __name__ == "__main__":
    sys.exit(main())
