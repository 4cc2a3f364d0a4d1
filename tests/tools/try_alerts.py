#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets happen what goes wrong in a year of operation, on servers of its own with a real Prometheus, the blackbox exporter and mtail, and
prints what an administrator sees of it: which alert fires after how long, what the runbook says, and what mends it.

    try_alerts.py [--only WORDS]... [--list]     SYMBOLICATED=PATH of the program

The rules are those of contrib/prometheus with a minute of theirs made a second. So the seconds of the table are minutes of an
administrator, but for the time that a fault itself takes. tests/wire/incidents.py has the incidents; some use a small file system where
root runs it. The last line is "N passed, N failed, N skipped", one an incident."""

import argparse
import os
import shutil
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(ROOT, "tests", "wire"), os.path.join(ROOT, "tests", "tools")]

import incidents  # noqa: E402
from prometheus import NEEDED  # noqa: E402

COLUMNS = ("incident", "alert", "fired after, s for min", "the runbook says", "mended by", "ended after, s for min")


def print_row(cells):
    print("| " + " | ".join(str(c).replace("|", "\\|") for c in cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Incidents, and the alerts that tell of them.")
    parser.add_argument("--only", action="append", metavar="WORDS", help="incidents whose name has these words")
    parser.add_argument("--list", action="store_true", help="the names of the incidents")
    options = parser.parse_args()
    wanted = [i for i in incidents.INCIDENTS if not options.only or any(words in i.what for words in options.only)]
    if options.list or not wanted:
        print("\n".join(i.what for i in incidents.INCIDENTS))
        return int(not options.list)
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        print(f"NO INCIDENTS TRIED: there is no {', '.join(missing)} here")
        print(f"0 passed, 0 failed, {len(wanted)} skipped")
        return 0
    failed = 0
    print_row(COLUMNS)
    print_row(["---"] * len(COLUMNS))
    with incidents.Trial() as trial:
        for incident in wanted:
            try:
                seen = incidents.go(trial, incident)
                print_row((incident.what, " ".join(incident.alerts), f"{seen.fired:.0f}", incidents.advice(incident), incident.mended, f"{seen.ended:.0f}"))
            except AssertionError as e:
                failed += 1
                print_row((incident.what, " ".join(incident.alerts), "FAILED", str(e)[:300].replace("\n", " "), "", ""))
    print(f"{len(wanted) - failed} passed, {failed} failed, 0 skipped")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
