# SPDX-License-Identifier: Apache-2.0
"""The lines of the benchmark, and how they are shown: as text, in docs/performance.md, as JSON, and as a picture."""

import re
import statistics
from dataclasses import dataclass, field

BEGIN, END = "<!-- bench: {} -->", "<!-- bench: end -->"


@dataclass
class Line:
    """What is measured; group: what one asks for on the command line; target: in `unit`, "" for information; wall: what is in the
    way where the target is missed; short: in the picture."""

    key: str
    group: str
    title: str
    target: str
    unit: str
    short: str = ""
    wall: str = ""


# fmt: off
LINES = [
    Line("warm", "warm", "warm crash reports, 16 connections", ">= 0.72", "x null", "Warm: rate of an empty responder",
         "lookups and JSON, which the null responder does not do"),
    Line("warm-p99", "warm", "their p99", "<= 1.7", "x null", "Warm: slowest hundredth",
         "16 requests share two cores with nginx and the client"),
    Line("open", "open", "p99, open loop at half that rate", "<= 2", "x null", "Warm, half load: slowest hundredth",
         "a request waits for a core while another is answered"),
    Line("beside-loads", "beside", "p99 beside four loads of half a GB", "<= 3", "x idle", "Warm beside four huge loads",
         "loads, nginx and the bucket share the two cores"),
    Line("far", "stack", "cold stack, five modules, distant bucket", "<= 1.05", "x curl -Z", "New crash, bucket far away",
         "the last bytes are still to be inflated and read when curl is done"),
    Line("near", "stack", "cold stack, near bucket", "<= 1.05", "x curl -Z", "New crash, bucket near",
         "to inflate and read 80 MB takes longer than the transfer"),
    Line("large-far", "large", "Firefox-sized module, distant: above the transfer", "<= 0.1", "s", "Firefox, bucket far away",
         "what arrives last is inflated, read and made into pages after the transfer"),
    Line("large-near", "large", "Firefox-sized module, near", "<= 0.1", "s", "Firefox, bucket near",
         "one thread inflates for a second"),
    Line("restart", "restart", "known module after a restart", "<= 20", "ms", "Known module after a restart",
         "root and pages come from memcached, one round trip after the other"),
    Line("profile", "profile", "profile of 60,000 frames", "<= 1.4", "x null", "Profile, 60,000 frames",
         "nginx waits while frames are looked up; names are copied from scattered memory"),
    Line("jobs", "profile", "ten jobs of 10,000 addresses", "<= 1.4", "x null", "Ten jobs of 10,000 addresses",
         "nginx waits while frames are looked up; names are copied from scattered memory"),
    Line("first-byte", "profile", "10,000 frames: first byte", "<= 5", "ms", "10,000 frames: first byte",
         "the request is read whole, and its first 512 frames are looked up"),
    Line("start", "node", "new node: first answer", "<= 20", "ms", "New node: first answer",
         "the dynamic linker spends 12 ms on 52 libraries before main begins"),
    Line("rollout", "node", "new node: 90 % of the warm rate", "<= 10", "s", "New node: to full speed"),
    Line("cpu", "warm", "a million warm requests: processor time", "<= 80", "s", "A million requests: processor",
         "nginx takes half of it, most of that in the kernel"),
    Line("memory", "memory", "memory of cached modules", "<= 1.2", "x pages", "Memory of cached modules",
         "memory of the threads and the allocator"),
    Line("memcached", "memcached", "all from memcached, cache of 32 MB", ">= 0.333", "x warm", "Small cache: rate of warm",
         "each request fetches, copies and unpacks some 40 pages"),
    Line("filter", "symbtool", "`symbtool symbolicate --filter`", ">= 1", "GB/s", "symbtool --filter",
         "each byte is read more than once"),
    Line("address-1", "symbtool", "`symbtool`: one address of a large program", "<= 1.5", "x llvm-symbolizer", "symbtool: one address",
         "more debug information is read than the address needs"),
    Line("address-2000", "symbtool", "`symbtool`: 2,000 addresses", "<= 1.5", "x llvm-symbolizer", "symbtool: 2,000 addresses",
         "more debug information is read than the addresses need"),
]
# fmt: on
BY_KEY = {line.key: line for line in LINES}


def short(x):
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


class Value:
    """Median and spread of repeated measurements."""

    def __init__(self, samples, unit):
        self.samples, self.unit = list(samples), unit
        self.median, self.least, self.most = statistics.median(self.samples), min(self.samples), max(self.samples)

    def __str__(self):
        spread = f" ({short(self.least)} to {short(self.most)})" if len(self.samples) > 1 else ""
        return f"{short(self.median)} {self.unit}{spread}"


def ratios(ours, against, unit):
    """Round by round: what is measured one after the other sees the same machine."""
    return Value([a / b for a, b in zip(ours.samples, against.samples)], unit)


@dataclass
class Row:
    """One line with its result. figure None: not measured, note says why. pair: ours and against, in short. absolute: (median, unit)
    of ours, for pair.py."""

    line: str
    title: str
    target: str = ""
    unit: str = ""
    figure: float = None
    least: float = None
    most: float = None
    n: int = 1
    ours: str = ""
    against: str = ""
    wall: str = ""
    note: str = ""
    short: str = ""
    pair: str = ""
    absolute: tuple = None
    met: bool = field(default=None)

    def __post_init__(self):
        found = re.match(r"([<>]=)\s*([\d.]+)", self.target)
        if self.met is None and found and self.figure is not None:
            self.met = self.figure <= float(found[2]) if found[1] == "<=" else self.figure >= float(found[2])

    def bound(self):
        return float(self.target.split()[1]) if self.target else None

    def shown(self):
        if self.figure is None:
            return "not measured"
        spread = f" ({short(self.least)} to {short(self.most)})" if self.n > 1 and self.least is not None else ""
        return f"{short(self.figure)} {self.unit}{spread}"

    def verdict(self):
        return "not measured" if self.figure is None else "" if self.met is None else "met" if self.met else "missed"

    def because(self):
        return self.wall if self.met is False else ""


def row(key, value=None, **options):
    """The row of a line; value None: it was not measured."""
    line = BY_KEY[key]
    known = {} if value is None else {"figure": value.median, "least": value.least, "most": value.most, "n": len(value.samples)}
    return Row(line.key, line.title, line.target, line.unit, wall=line.wall, short=line.short, **known, **options)


def from_program(program, found):
    """Rows of what another program printed; see bench.py for its form."""
    lines = found.get("lines", found.get("rows", [])) if isinstance(found, dict) else found
    rows = []
    for one in lines:
        name = str(one.get("line") or one.get("name") or program)
        spread = one.get("spread") if isinstance(one.get("spread"), (list, tuple)) else (one.get("min"), one.get("max"))
        rows.append(Row(name, name, str(one.get("target") or ""), str(one.get("unit") or ""), one.get("figure"), spread[0], spread[-1],
                        int(one.get("n") or (2 if spread[0] is not None else 1)), str(one.get("ours") or ""), str(one.get("against") or ""),
                        pair="/".join(filter(None, [one.get("ours"), one.get("against")])), wall=str(one.get("wall") or ""), note=str(one.get("note") or ""), short=str(one.get("short") or name), met=one.get("met")))  # fmt: skip
    return rows


# ---- text ----


def print_table(rows):
    cells = [["What users feel", "figure (least to most)", "target", "", "ours; the limit"]]
    cells += [[r.title, r.shown(), r.target or "-", r.verdict(), "; ".join(filter(None, [r.ours, r.against]))] for r in rows]
    widths = [max(len(c[i]) for c in cells) for i in range(5)]
    for c in cells:
        print("  ".join(text.ljust(width) for text, width in zip(c, widths)).rstrip())
    for r in rows:
        for text in filter(None, (r.because() and "the wall: " + r.because(), r.note)):
            print(f"  {r.title}: {text}")


# ---- docs/performance.md ----


def markdown_cells(r):
    figure = "not measured" if r.figure is None else short(r.figure)
    if r.n > 1 and r.figure is not None and r.least is not None:
        figure += f" ({short(r.least)}–{short(r.most)})"
    return [r.title, f"**{figure}**" if r.met is False else figure, f"{r.target} {r.unit}".strip(), r.pair]


def markdown_table(rows):
    out = ["| line | figure | target | ours/limit |", "|---|---|---|---|"]
    out += ["| " + " | ".join(c.replace("|", "\\|") for c in markdown_cells(r)) + " |" for r in rows]
    reasons = {}
    for r in rows:
        reason = r.note if r.figure is None else r.because()
        if reason:
            reasons.setdefault(reason, []).append(r.short or r.title)
    if reasons:
        out += ["", "Missed, or not measured:", ""]
        out += [f"- {'; '.join(titles)}: *{reason}*" for reason, titles in reasons.items()]
    return "\n".join(out)


def write_markdown(path, rows, about):
    """Puts the table, and what it was measured on, between the page's markers."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for name, part in (("about", about), ("users", markdown_table(rows))):
        begin = BEGIN.format(name)
        if text.count(begin) != 1:
            raise ValueError(f"{path} has not one {begin}")
        head, _, rest = text.partition(begin)
        _, end, rest = rest.partition(END)
        if not end:
            raise ValueError(f"{path}: {begin} has no {END}")
        text = f"{head}{begin}\n{part}\n{END}{rest}"
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def titles_of(text):
    """Of the rows of such a page."""
    return re.findall(r"^\| (.*?) \|", text.split(BEGIN.format("users"))[1].split(END)[0], re.M)[1:]
