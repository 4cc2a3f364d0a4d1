# SPDX-License-Identifier: Apache-2.0
"""Faults of the store of symbols: what several do to one executable at once, and who dies in between. Each looks itself at what
came of it: nothing that was accepted may be lost, and no set may be mixed with another."""

import secrets
import threading

from client import job
from plain_symbfile import write
from stack import wait_for

PARTS = 3
TRIES = 40  # of a request, 0.05 s apart; of a set
BUSY = (429, 502, 503, 504)


class Executable:
    """One that nobody has uploaded yet."""

    def __init__(self, w):
        self.w, self.id = w, secrets.token_hex(16)

    def part(self, name, number, again=False, **headers):
        """Sends a part of the set that is called `name`; True when it was accepted."""
        records = [{"t": "range", "va": hex(0x1000 * (number + 1)), "len": 64, "depth": 0, "func": f"{name}_{number}", "file": "/a.c", "lines": [[0, 1]]}]
        sent = {"FileID": self.id, "FilePart": str(number), "FileParts": str(PARTS), "FileSet": name, "Authorization": self.w.key, **headers}
        return self.ask("POST", "/api/symbols-ranges", write(records), sent, again)

    def push(self, name, again=True, **headers):
        """All parts of a set, the last one at the end; all once more if others have been removed meanwhile."""
        for _ in range(TRIES if again else 1):
            if all([self.part(name, n, again, FileMore=str(int(n < PARTS - 1)), **headers) for n in range(PARTS)]):
                return True
        assert not again or self.w.stopping.is_set(), f"{name} was never taken"
        return False

    def remove(self, again=True):
        """True: it was there."""
        return self.ask("DELETE", f"/api/symbols/{self.id}", b"", {"Authorization": self.w.key}, again, absent=404)

    def ask(self, method, path, body, headers, again, absent=None):
        for _ in range(TRIES if again else 1):
            try:
                reply = self.w.client().request(method, path, body, headers)
            except OSError:
                reply = None
            if reply and reply.status in (200, absent):
                return reply.status == 200
            assert not reply or reply.status in BUSY, reply
            if self.w.stopping.wait(0.05):
                return False
        return False

    def functions(self):
        body = job([["prog", self.id]], [[0, 0x1000 * (n + 1)] for n in range(PARTS)])
        try:
            reply = self.w.client().post("/symbolicate/v5", body)
        except OSError:
            return None
        return [f.get("function") for f in reply.json()["results"][0]["stacks"][0]] if reply.status == 200 else None

    def ends_in(self, names):
        """Both responders settle on one of these sets, whole; None: on nothing."""
        wanted = [[f"{name}_{n}" if name else None for n in range(PARTS)] for name in names]
        seen = []

        def settled():
            seen.append(self.functions())
            return len(seen) >= 8 and seen[-1] in wanted and all(s == seen[-1] for s in seen[-8:])

        try:
            wait_for(settled, f"{names} to answer")
        except AssertionError as e:
            raise AssertionError(f"{e}; seen: {seen[-8:]}") from None


def together(*functions):
    """At the same time; what one of them raises is raised here."""
    raised = []

    def run(function):
        try:
            function()
        except AssertionError as e:
            raised.append(e)

    threads = [threading.Thread(target=run, args=(f,)) for f in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if raised:
        raise raised[0]


def two_uploaders(w, seconds):
    """Two push one executable, each its own set, to both responders: one of the two answers, whole."""
    for _ in w.repeat(seconds, 0):
        one = Executable(w)
        together(lambda x=one: x.push("left"), lambda x=one: x.push("right"))
        one.ends_in(["left", "right"])


def remove_beside_upload(w, seconds):
    """It ends as if one had come after the other; and what is pushed afterwards is there."""
    for _ in w.repeat(seconds, 0):
        one = Executable(w)
        one.push("before")
        together(lambda x=one: x.push("beside"), lambda x=one: x.remove())
        one.ends_in(["beside", None])
        # Of two sets alike the newer answers; within a second that is not certain where clocks are apart, as another fault leaves
        # them, and S3 counts seconds. So first there is none.
        one.remove()
        one.ends_in([None])
        one.push("after")
        one.ends_in(["after"])
        assert one.remove(), "there was nothing to remove"
        one.ends_in([None])


def killed_between(w, seconds):
    """Responders die while sets are pushed: what was not completed is not visible, and pushing it again completes it."""
    for _ in w.repeat(max(seconds, 2), 0.2):
        one, i = Executable(w), w.rng.randrange(2)
        accepted = []
        thread = threading.Thread(target=lambda x=one, a=accepted: a.append(x.push("first", again=False)))
        thread.start()
        w.hold(w.rng.uniform(0, 0.02))
        # by this thread: a server ends with the one that started it
        w.crash(w.daemons[i])
        w.daemons[i].start()
        thread.join()
        one.ends_in(["first"] if accepted[0] else ["first", None])
        one.push("first")
        one.ends_in(["first"])


def clocks_apart(w, seconds):
    """The clock of one responder is an hour ahead. Of sets alike the newer answers, whichever responder takes its last part."""
    try:
        w.step_clock(3600)
        wait_for(lambda: w.clock_is_off(3600), "a log line of a clock that is an hour ahead")
        for _ in w.repeat(seconds, 0):
            one = Executable(w)
            for name in ("first", "second", "third"):
                one.push(name)
                one.ends_in([name])
                w.hold(w.clock_unit)
    finally:
        w.step_clock(0)
        wait_for(lambda: w.clock_is_off(0), "a log line of a clock that is right again")


def add_store_faults(add, loader):
    add("store-two-uploaders", two_uploaders)
    add("store-remove-beside-upload", remove_beside_upload)
    add("store-killed-between", killed_between, loader, cut_ok=True, short=False)
    add("clock-store", clocks_apart)
