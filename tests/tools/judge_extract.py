#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""judge_extract.py --tool EXTRACT_DUMP [--debug-dir DIR] [--original FILE] [--count N] [--seed N] PROGRAM...: how much of what is extracted is wrong.

Addresses are drawn from all of .text. Judges are binutils' addr2line and llvm-symbolizer: a table has the share
of addresses where each of them says something else, of those where neither agrees on the places, or on a name, and of those that have no
name while both judges give the same one. They read --original, the program before it was stripped or rewritten, where they cannot read what
became of it."""
import argparse
import json
import os
import random
import subprocess
import sys

import check_extract as check


def draw(path, count, seed):
    """Addresses, each as likely as the other."""
    addresses = list(check.code_addresses(path, 1))
    return sorted(random.Random(seed).sample(addresses, min(count, len(addresses))))


def places(got, want):
    return len(got) == len(want) and all(map(check.same_place, got, want))


def names(got, want):
    return len(got) == len(want) and all(check.base_name(g[0]) == check.base_name(w[0]) for g, w in zip(got, want))


def file_with_dwarf(tool, program, options):
    done = subprocess.run([tool, "-q", *options, program], stderr=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stderr.splitlines()[-1])["debug_file"] or program


def without_units(frames):
    """A judge gives the name of the unit for a file where it knows a symbol only."""
    return [(name, file if line else None, line) for name, file, line in frames]


def judge(tool, program, debug_dir, original, count, seed):
    options = ["-d", debug_dir] if debug_dir else []
    with_dwarf = original or file_with_dwarf(tool, program, options)
    records = check.extract(tool, program, *options)
    addresses = draw(program, count, seed)
    binutils, llvm = check.addr2line(with_dwarf, addresses), check.llvm_symbolizer(with_dwarf, addresses)
    wrong = {"addr2line": 0, "llvm-symbolizer": 0, "both": 0, "unnamed": 0}
    for address in addresses:
        got, answers = records.frames(address), {"addr2line": binutils.get(address, []), "llvm-symbolizer": llvm.get(address, [])}
        if not got:
            known = [want[0][0] for want in answers.values() if want and want[0][0] != "??"]
            wrong["unnamed"] += len(known) == 2 and known[0] == known[1]
            continue
        if len(got) == 1 and got[0][1] is None:
            answers = {who: without_units(want) for who, want in answers.items()}
        for who, want in answers.items():
            wrong[who] += not (places(got, want) and names(got, want))
        if not check.as_judged(got, *answers.values()):
            wrong["both"] += 1
            print("#", program, hex(address), got, *answers.values())
    shares = (f"{100 * n / max(1, len(addresses)):.2f} %" for n in wrong.values())
    print("|", os.path.basename(program), "|", len(addresses), "|", " | ".join(shares), "|", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--debug-dir")
    parser.add_argument("--original")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("program", nargs="+")
    a = parser.parse_args()
    check.SECONDS = 3600
    print("| program | addresses | addr2line differs | llvm-symbolizer differs | wrong | unnamed |\n|---|---|---|---|---|---|")
    for program in a.program:
        judge(a.tool, program, a.debug_dir, a.original, a.count, a.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
