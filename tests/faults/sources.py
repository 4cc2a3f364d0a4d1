# SPDX-License-Identifier: Apache-2.0
"""Faults of one source while another has the files: how long answers take and what they are, through nginx, two responders and
memcached. Each row has servers of its own, so that what a source did before is not known."""

import concurrent.futures
import time

from client import job
from stack import Stack
from symbols import SAMPLE, debug_id, tiny

STALL, REVALIDATE = 2.0, 2.0  # seconds
CURL = 1.0  # seconds: how often it looks at the speed of a transfer
BESIDE = 2.0  # seconds more that 20 modules may take beside a source that hangs
AT_ONCE = 1.0  # seconds for one module, on a busy machine
BEAT = 0.05
SETTINGS = {
    "bucket_stall_timeout": f"{int(STALL)}s",
    "bucket_retries": "2",
    "revalidate_after": f"{int(REVALIDATE)}s",
    "root_max_age": "1d",
    "failure_ttl_min": "100ms",
    "failure_ttl_max": "500ms",
    "downloads": "stream",
}
JUNK = {"html": "<!DOCTYPE html>\n<html><body>Sign in</body></html>\n", "empty": "", "stack-only": "STACK CFI INIT 1000 10 .cfa: $rsp 8 +\n"}


class Row:
    """One fault with so many cores for the responders. measured: (what, seconds, the most it may take)."""

    def __init__(self, name, run, cores, slack):
        self.name, self.how, self.cores, self.slack = name, run, cores, slack
        self.measured, self.problems = [], []

    def run(self, seconds):
        within = ("taskset", "-c", f"0-{self.cores - 1}") if self.cores else ()
        with Stack(symbols=[None, None], config=SETTINGS, daemons=2, within=within) as s:
            self.how(self, s, seconds)

    def took(self, what, most, ask):
        """What `ask` returns, and how long that took."""
        began = time.monotonic()
        got = ask()
        self.note(what, time.monotonic() - began, most)
        return got

    def note(self, what, seconds, most):
        most *= self.slack
        self.measured.append((what, seconds, most))
        self.demand(seconds <= most, f"{what}: {seconds:.2f} s, bound {most:.2f}")

    def demand(self, true, text):
        if not true:
            self.problems.append(text)

    def until(self, what, most, ask, expected):
        """How long it takes until this is the answer."""
        began = time.monotonic()
        while (got := ask()) != expected and time.monotonic() - began < 2 * self.slack * most:
            time.sleep(0.02)
        self.demand(got == expected, f"{what}: {got}")
        self.note(what, time.monotonic() - began, most)


def add(bucket, name, function=None, ident=None):
    return bucket.symbols.add(name, tiny(function) if function else SAMPLE, ident or debug_id(name))


def add_many(bucket, word, count=20):
    return [add(bucket, f"{word}{i}.so", f"in_{word}") for i in range(count)]


def names(client, modules):
    """The function at 0x1000 of each module; the status, if that is not 200."""
    reply = client.post("/symbolicate/v5", job(modules, [[i, 0x1000] for i in range(len(modules))]))
    return [f.get("function") for f in reply.json()["results"][0]["stacks"][0]] if reply.status == 200 else reply.status


def name(node, module):
    got = names(node.client(), [module])
    return got[0] if isinstance(got, list) else got


def one_by_one(node, modules):
    """The same of each in a request of its own, eight at a time."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda m: name(node, m), modules))


def beat(row, node):
    reply = row.took("/__lbheartbeat__", BEAT, lambda: node.client().get("/__lbheartbeat__"))
    row.demand(reply.status == 200, f"/__lbheartbeat__: {reply.status}")


def download(node, module):
    return node.client().get(f"/{module[0]}/{module[1]}/{module[0]}.sym").status


def hangs(row, s, seconds):
    """It costs one stall in all; the next 20, in one request or 20, hardly more than without it."""
    first, second = s.buckets
    without, single, together = (add_many(second, word) for word in ("without", "single", "together"))
    began = time.monotonic()
    row.demand(names(s.client, without) == ["in_without"] * 20, "not all without the fault")
    usual = time.monotonic() - began
    first.control("hold")
    row.demand(row.took("the first module", STALL + CURL + AT_ONCE, lambda: name(s.node, together[0])) == "in_together", "the first module")
    row.demand(row.took("the next 20", usual + BESIDE, lambda: names(s.client, together)) == ["in_together"] * 20, "the next 20")
    row.demand(row.took("20 requests", usual + BESIDE, lambda: one_by_one(s.node, single)) == ["in_single"] * 20, "20 requests")
    later = add(second, "later.so")
    row.demand(row.took("a download", BESIDE, lambda: download(s.node, later)) == 200, "the download")
    beat(row, s.node)
    time.sleep(seconds)
    row.demand(row.took("a module later", AT_ONCE, lambda: name(s.node, add(second, "b.so", "later"))) == "later", "a module later")
    newer = add(first, "a.so", "newer")
    add(second, "a.so", "older")
    first.reset()
    row.until("the first source again", REVALIDATE, lambda: name(s.node, newer), "newer")


def fails(mode, everywhere):
    """An older file of the second source answers meanwhile, of no host and no cache longer than that."""

    def run(row, s, seconds):
        first, second = s.buckets
        module = add(first, "a.so", "newer")
        add(second, "a.so", "older")
        first.control(mode, "*" if everywhere else f"{module[0]}/")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for node in s.nodes:
                row.demand(name(node, module) == "older", "no answer while the first source fails")
        first.reset()
        for i, node in enumerate(s.nodes):
            row.until(f"host {i} has the newer file", REVALIDATE, lambda n=node: name(n, module), "newer")
        hits = second.hits(module)
        for node in s.nodes:
            node.restart()
            row.demand(row.took("after a restart", AT_ONCE, lambda n=node: name(n, module)) == "newer", "the older file after a restart")
        row.demand(second.hits(module) == hits, "the second source was asked")

    return run


def is_junk(kind):
    """A good file behind a corrupt one answers at once, and the log tells of the corrupt one."""

    def run(row, s, _seconds):
        first, second = s.buckets
        module = add(second, "a.so", "good")
        first.symbols.put(*module, JUNK[kind].encode())
        for i, node in enumerate(s.nodes):
            got = row.took(f"host {i} has the good file", AT_ONCE, lambda n=node: name(n, module))
            row.demand(got == "good", f"{got} of a module whose second source is good")
        told = [line for line in s.daemon.log_lines() if line["event"] == "corrupt" and module[0] in line["text"]]
        row.demand(len(told) == 1, f"the log tells {len(told)} times of the corrupt file")

    return run


def changed(row, s, _seconds):
    """Hosts with other lists of sources share a memcached; each answers from its own, also after a change."""
    first, second = s.buckets
    module = add(first, "a.so", "of_the_first")
    add(second, "a.so", "of_the_second")
    lists = [first.source, second.source], [second.source, first.source]
    s.nodes[1].daemon.write_config(source=lists[1])
    s.nodes[1].restart()
    for _ in range(2):
        for node, function in zip(s.nodes, ("of_the_first", "of_the_second")):
            row.demand(name(node, module) == function, f"{name(node, module)}, not {function}")
            node.settled()
    s.daemon.write_config(source=lists[1])
    s.node.restart()
    got = row.took("after the change", AT_ONCE, lambda: name(s.node, module))
    row.demand(got == "of_the_second", f"{got} after the change")
    hits = first.hits() + second.hits()
    s.daemon.write_config(source=[*lists[1], first.source + "more/"])
    s.node.restart()
    row.demand(name(s.node, module) == "of_the_second" and first.hits() + second.hits() == hits, "one more at the end loads the module again")


FAULTS = {
    "source-hangs": hangs,
    "source-500": fails("status:500", True),
    "source-500-object": fails("status:500", False),
    "source-cut": fails("cut:10", True),
    **{f"source-{kind}": is_junk(kind) for kind in JUNK},
    "sources-changed": changed,
}


def run_all(wanted, cores, seconds, slack):
    """Each with each number of cores (None: all). slack: how many times the bounds it may take. Prints a line for each thing that was measured, and the count; True when all is as it should be."""
    rows = [Row(name, run, n, slack) for name, run in FAULTS.items() if name in wanted for n in cores]
    print("| fault | cores | what | s | bound s |\n|---|---|---|---:|---:|")
    for row in rows:
        try:
            row.run(seconds)
        except AssertionError as e:
            row.problems.append(str(e)[:2000])
        for what, took, most in row.measured:
            print(f"| {row.name} | {row.cores or 'all'} | {what} | {took:.2f} | {most:.2f} |", flush=True)
        for text in row.problems:
            print(f"    {row.name}: {text}", flush=True)
    failed = sum(bool(row.problems) for row in rows)
    print(f"{len(rows) - failed} passed, {failed} failed, 0 skipped")
    return not failed
