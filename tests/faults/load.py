# SPDX-License-Identifier: Apache-2.0
"""The mixed load of the fault tests: every request has an answer that is known before it is sent."""

import base64
import collections
import contextlib
import http.client
import itertools
import json
import os
import random
import secrets
import socket
import threading
import time

from client import Client, job
from plain_symbfile import write
from symbols import SAMPLE, SAMPLE_FRAMES, debug_id, differences, run_gensym, tiny

REFUSALS = (429, 502, 503, 504)
SAMPLE_MODULE = ["sample.so", debug_id("sample.so")]

# What a client saw in the end. start and end: time.monotonic(). cuts: (begin, end) of each try whose reply ended early.
# fresh: of a module, or an upload, that nobody asked for before.
Result = collections.namedtuple("Result", "kind start end outcome status cuts fresh text")


class SlowClient(Client):
    """Takes little at a time, so that nginx has to keep what is left of a large reply in a file."""

    def connect(self):
        connection = super().connect()
        connection.connect()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        return connection


class Known:
    """A module and what is right for it: answers as gensym gives them."""

    def __init__(self, module, answers, fresh=False, discard=None):
        self.module, self.answers, self.fresh, self.discard = module, answers, fresh, discard

    def body(self):
        return job([self.module], [[0, int(a["offset"], 16)] for a in self.answers])

    def judge_v5(self, value):
        """None: right; "false": the module is said to be missing; else what is wrong."""
        result = value["results"][0]
        found = result["found_modules"]["/".join(self.module)]
        if found is False:
            named = any("function" in f for f in result["stacks"][0])
            return "a function in a module that is false" if named else "false"
        if found is not True:
            return f"found_modules says {found}"
        return "; ".join(differences(self.answers, result["stacks"][0])[:2]) or None

    def judge_v4(self, value):
        names = [a.get("function", a["offset"]) + f" (in {self.module[0]})" for a in self.answers]
        got = value["symbolicatedStacks"][0]
        if value["knownModules"] == [False]:
            plain = [f"{a['offset']} (in {self.module[0]})" for a in self.answers]
            return "false" if got == plain else "a function in a module that is false"
        if value["knownModules"] != [True]:
            return f"knownModules says {value['knownModules']}"
        return None if got == names else f"want {names[:3]}, got {got[:3]}"


def lacks(reply, is_upload):
    """What a refusal has to carry and does not, be it the service's or nginx's: when to come again, and the JSON of an error."""
    again = reply.headers.get("Retry-After", "")
    if not again.isdigit() or int(again) < 1:
        return f"{reply.status} with Retry-After {again!r}"
    try:
        if is_upload:
            value = reply.json()
            assert value["success"] is False and value["uuid"] and value["status"] == reply.status, value
            assert value["error"]["Code"] == str(reply.status) and value["error"]["Text"], value
        else:
            reply.error(reply.status)
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError) as e:
        return f"{reply.status} that is no error object: {type(e).__name__} {e}"
    return ""


def some(answers, count, rng):
    return rng.sample(answers, min(count, len(answers)))


class Changing:
    """One module whose file is replaced now and then. A request may see any version that was in force after it began, or that
    hosts may still have because the last DELETE is younger than `bound` seconds."""

    def __init__(self, put, bound):
        self.put, self.bound = put, bound
        self.module = ["changing", debug_id("changing")]
        self.lock = threading.Lock()
        self.written, self.forgotten = 0, [(0, 0.0)]  # (version, when DELETE was answered)
        put(self.module, tiny("version_0"))

    def replace(self, delete):
        with self.lock:
            self.written += 1
        self.put(self.module, tiny(f"version_{self.written}"))
        delete(self.module)
        with self.lock:
            self.forgotten.append((self.written, time.monotonic()))

    def judge(self, value, start):
        result = value["results"][0]
        with self.lock:
            oldest = max(v for v, at in self.forgotten if at + self.bound <= start)
            newest = self.written
        if result["found_modules"]["/".join(self.module)] is False:
            return "false"
        name = result["stacks"][0][0].get("function", "")
        version = int(name[8:]) if name.startswith("version_") else -1
        return None if oldest <= version <= newest else f"{name!r}, but versions {oldest} to {newest} are right"


class Load:
    """Threads that ask one nginx, each for its kind of request, at a steady pace."""

    def __init__(self, port, buckets, gensym, key, revalidate, seed, uploads=True, host="127.0.0.1"):
        self.port, self.host, self.buckets, self.gensym, self.key = port, host, buckets, gensym, key
        self.seed, self.uploads = seed, uploads
        self.lock = threading.Lock()
        self.results, self.running = [], {}  # running: number of a request: (when it began, its kind)
        self.numbers = itertools.count()
        self.stopping, self.resting = threading.Event(), threading.Event()
        self.threads, self.broken = [], []
        self.again = collections.deque(maxlen=200)  # modules that got no answer: asked once more
        self.prefix = f"{seed}-{secrets.token_hex(3)}"
        self.changing = Changing(self.put, revalidate)
        self.make_modules()

    # symbol files, the same in all buckets

    def put(self, module, body):
        for bucket in self.buckets:
            bucket.symbols.add(module[0], body, module[1])

    def make_modules(self):
        self.put(SAMPLE_MODULE, SAMPLE)
        answers = [{"offset": hex(o), **f} for o, f in SAMPLE_FRAMES.items()]
        self.warm = [Known(SAMPLE_MODULE, answers)]
        for i in range(6):
            self.warm.append(self.generate(f"warm{i}.pdb", 1500, 120))
        # The large ones are more than the processes' caches together hold.
        self.large = [self.generate(f"large{i}.pdb", 8000, 1000) for i in range(3)]

    def generate(self, name, functions, answers):
        module = [name, debug_id(name)]
        seed = str(sum(name.encode()))
        known = [run_gensym(self.gensym, b.symbols, module, "-f", str(functions), "-s", seed, answers=answers) for b in self.buckets]
        return Known(module, known[0])

    def fresh_tiny(self, _rng):
        name = f"cold-{self.prefix}-{next(self.numbers)}.so"
        module = [name, debug_id(name)]
        self.put(module, tiny(f"f_{name}"))
        answer = {"offset": "0x1008", "function": f"f_{name}", "function_offset": "0x8", "function_size": "0x10", "file": "tiny.c", "line": 3}
        return Known(module, [answer, {"offset": "0x20"}], fresh=True)

    def fresh_large(self, rng):
        """A large file under an id that nobody has heard of."""
        model = rng.choice(self.large)
        name, old = model.module
        module = [name, debug_id(f"{self.prefix} {next(self.numbers)}")]
        with open(self.buckets[0].symbols.path(name, old), "rb") as f:
            data = f.read().replace(old.encode(), module[1].encode(), 1)
        first = self.buckets[0].symbols
        first.put(*module, data)
        paths = [first.path(*module)]
        for bucket in self.buckets[1:]:
            paths.append(bucket.symbols.path(*module))
            os.makedirs(os.path.dirname(paths[-1]), exist_ok=True)
            os.link(paths[0], paths[-1])

        def discard():
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)

        return Known(module, some(model.answers, 40, rng), fresh=True, discard=discard)

    # one request

    def ask(self, kind, client, send, judge, fresh=False):
        """Sends, once more when no complete answer came, and notes what came of it."""
        start, cuts, text = time.monotonic(), [], ""
        number = next(self.numbers)
        with self.lock:
            self.running[number] = (start, kind)
        outcome, status = "lost", 0
        for _ in range(2):
            begin = time.monotonic()
            try:
                reply = send(client)
                status = reply.status
                body = reply.body  # inflates: an incomplete gzip stream fails here
            except (OSError, EOFError, http.client.HTTPException) as e:
                if isinstance(e, (http.client.IncompleteRead, EOFError)):
                    cuts.append((begin, time.monotonic()))
                text = f"{text} {type(e).__name__}: {e}"
                client.close()
                continue
            outcome, text = self.judged(reply, body, judge, start, kind == "upload")
            break
        with self.lock:
            del self.running[number]
            self.results.append(Result(kind, start, time.monotonic(), outcome, status, cuts, fresh, text))
        return outcome

    @staticmethod
    def judged(reply, body, judge, start, is_upload):
        if reply.status in REFUSALS:
            missing = lacks(reply, is_upload)
            return ("wrong" if missing else "refused"), f"{missing} {body.decode('utf-8', 'replace')[:200]}".lstrip()
        if reply.status != 200:
            return "wrong", f"status {reply.status}: {body[:300]!r}"
        try:
            wrong = judge(json.loads(body), start)
        except (ValueError, KeyError, IndexError, TypeError, AssertionError) as e:
            return "wrong", f"{type(e).__name__} {e}: {body[:300]!r}"
        if wrong == "false":
            return "false", f"false, request {reply.headers.get('X-Request-Id')}"
        return ("wrong", f"{wrong}, request {reply.headers.get('X-Request-Id')}") if wrong else ("right", "")

    def symbolicate(self, kind, client, known, version, accept_gzip=False):
        body = json.dumps(known.body())
        headers = {"Accept-Encoding": "gzip"} if accept_gzip else {}
        judge = known.judge_v5 if version == 5 else known.judge_v4
        return self.ask(
            kind, client, lambda c: c.request("POST", f"/symbolicate/v{version}", body, headers), lambda v, _: judge(v), known.fresh
        )

    # the kinds

    def ask_warm(self, client, rng):
        model = rng.choice(self.warm)
        self.symbolicate("warm", client, Known(model.module, some(model.answers, 12, rng)), rng.choice((4, 5)))

    def ask_cold(self, client, rng, make=None):
        """A new module, or one that got no answer before."""
        known = None
        if self.again and rng.random() < 0.3:
            with contextlib.suppress(IndexError):
                known = self.again.popleft()
        known = known or (make or self.fresh_tiny)(rng)
        outcome = self.symbolicate("large" if known.discard else "cold", client, known, rng.choice((4, 5)))
        if outcome in ("refused", "false"):
            self.again.append(Known(known.module, known.answers, discard=known.discard))
        elif known.discard:
            known.discard()

    def ask_large(self, client, rng):
        self.ask_cold(client, rng, self.fresh_large)

    def ask_profile(self, client, rng):
        """Many frames: a reply of some megabytes, and every other time a body that nginx has to put into a file."""
        model = rng.choice(self.large)
        answers = some(model.answers, 1000, rng) * rng.choice((2, 8))
        self.symbolicate("profile", client, Known(model.module, answers), 5, accept_gzip=rng.random() < 0.5)

    def ask_changing(self, client, _rng):
        body = json.dumps(job([self.changing.module], [[0, 0x1000]]))
        self.ask("changing", client, lambda c: c.request("POST", "/symbolicate/v5", body), self.changing.judge)

    def ask_upload(self, client, _rng):
        """An upload, and when it was taken its lookup; what is taken must be found."""
        raw = secrets.token_bytes(16)
        name = f"up_{raw.hex()[:12]}"
        body = write([{"t": "range", "va": "0x1000", "len": 64, "depth": 0, "func": name, "file": "/src/a.c", "lines": [[0, 10], [16, 20]]}])
        headers = {"FileID": base64.urlsafe_b64encode(raw).decode().rstrip("="), "FilePart": "0", "FileParts": "1", "Authorization": self.key}
        outcome = self.ask(
            "upload", client, lambda c: c.request("POST", "/api/symbols-ranges", body, headers),
            lambda v, _: None if v == {"success": True, "status": 200} else f"{v}", True,
        )  # fmt: skip
        if outcome == "right":
            answer = {"offset": "0x1012", "function": name, "function_offset": "0x12", "function_size": "0x40", "file": "/src/a.c", "line": 20}
            self.symbolicate("fileid", client, Known(["prog", headers["FileID"]], [answer, {"offset": "0x2000"}], fresh=True), 5)

    # all of it

    def start(self):
        # kind, threads, seconds between two requests of a thread
        kinds = [(self.ask_warm, 2, 0.04), (self.ask_cold, 3, 0.06), (self.ask_large, 1, 0.4), (self.ask_profile, 1, 0.5), (self.ask_changing, 1, 0.1)]
        if self.uploads:
            kinds.append((self.ask_upload, 1, 0.12))
        for ask, count, pause in kinds:
            for i in range(count):
                thread = threading.Thread(target=self.loop, args=(ask, pause, f"{self.seed} {ask.__name__} {i}"), daemon=True)
                thread.start()
                self.threads.append(thread)

    def loop(self, ask, pause, seed):
        rng = random.Random(seed)
        client = (SlowClient if ask == self.ask_profile else Client)(self.port, keep=True, timeout=60, host=self.host)
        try:
            while not self.stopping.wait(pause):
                if not self.resting.is_set():
                    ask(client, rng)
        except Exception as e:  # a defect of this file must not look like a server that is idle
            self.broken.append(f"{ask.__name__}: {type(e).__name__} {e}")
            raise
        finally:
            client.close()

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(150)
            if thread.is_alive():
                self.broken.append("a request did not end")

    def oldest(self):
        """When the oldest request that is not answered began; now without one."""
        with self.lock:
            return min((start for start, _ in self.running.values()), default=time.monotonic())

    def asks(self, kind):
        """Is a request of this kind under way?"""
        with self.lock:
            return any(k == kind for _, k in self.running.values())

    def answered(self, since=0):
        """The results from the since-th on."""
        with self.lock:
            return self.results[since:]
