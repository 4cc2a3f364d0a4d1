#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds, measured in turn so that both see the same machine: groups of lines of bench.py, each once a round, and the ratio of the
medians.

    tests/bench/pair.py [--rounds N] [--inputs DIR] BUILD_A BUILD_B [GROUP...]

A ratio above 1 means that B is slower, or larger: of rates and speeds it is A over B. --inputs: the folder `bench` of a
build, whose files are used for both. Both builds need the programs of `make bench`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MORE_IS_BETTER = ("MB/s", "GB/s", "M/s", "req/s")


def measure(build, groups):
    """{line: (what, median of ours, its unit)} of one run."""
    path = os.path.join(build, "bench.json")
    if os.path.exists(path):
        os.remove(path)
    done = subprocess.run([sys.executable, os.path.join(HERE, "bench.py"), "--once", "--build", build, *groups], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{build}: {done.stdout[-2000:]}")
    with open(path, encoding="utf-8") as f:
        return {r["line"]: (r["title"], *r["absolute"]) for r in json.load(f)["rows"] if r["absolute"]}


def main():
    parser = argparse.ArgumentParser(prog="pair.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--inputs")
    parser.add_argument("builds", nargs=2, metavar="BUILD")
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    options = parser.parse_args()
    results = [[], []]
    for build in options.builds if options.inputs else []:
        link = os.path.join(build, "bench")
        if not os.path.lexists(link):
            os.symlink(os.path.abspath(options.inputs), link)
    for n in range(options.rounds):
        for of_build, build in zip(results, options.builds):
            of_build.append(measure(build, options.groups))
        print(f"round {n + 1} of {options.rounds}", file=sys.stderr, flush=True)
    print(f"medians of {options.rounds} rounds, least to greatest")
    for line, (what, _, unit) in results[0][0].items():
        a, b = (sorted(r[line][1] for r in of_build) for of_build in results)
        ratio = statistics.median(b) / statistics.median(a)
        ratio = 1 / ratio if unit in MORE_IS_BETTER else ratio
        shown = "  ".join(f"{statistics.median(v):.4g} {unit} ({v[0]:.4g}-{v[-1]:.4g})" for v in (a, b))
        print(f"{line:12} {what:70} {shown}  ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
