# SPDX-License-Identifier: Apache-2.0
"""What clients do that want everything for themselves: each shape is a row of the siege's table."""

import gzip
import json
import random
import re
import subprocess

from symbols import debug_id

BIG_FRAMES = 0x7FFFFF  # offsets below this are somewhere in the big file
FRAMES_MAX = 200_000  # max_frames
NAMES = 1000  # unknown modules in one request
SLOW_ID = "510f"  # build ids that begin so come at a byte a second
LIBC = "/lib/x86_64-linux-gnu/libc.so.6"


def build_id_of(program):
    notes = subprocess.run(["readelf", "-n", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r"Build ID: ([0-9a-f]+)", notes)[1]


class Shape:
    """connections: at a time, of each client. reads: "all", "nothing" or "slow" (of the reply). sends: bytes a second, None: at once.
    line: bytes a second that the connections of a client send together, None: as many as loopback takes. leaves: seconds after which the
    connection is closed, whatever was answered. http2: streams of one connection. memcached: is there one? warm: a module that it wants
    to be loaded before. programs: executables that the server has as a source, too. debuginfod: the bucket is one besides. routes: of the
    victim, beside what it always asks for, uploads among it. short: part of the short form."""

    connections, reads, sends, line, leaves, http2, memcached, warm, short = 64, "all", None, None, None, 0, True, None, False
    method, path, headers = "POST", "/symbolicate/v5", ()
    settings = {}  # beside the defaults
    programs, debuginfod, routes = (), False, ()
    listen = ""  # beside what the site has

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.made = 0

    @classmethod
    def name(cls):
        return cls.__name__.lower().replace("_", "-")

    def body(self):
        """Of the next request."""
        raise NotImplementedError

    def fresh(self, word):
        """A module that nobody asked for before."""
        self.made += 1
        name = f"{word}-{self.random.randrange(1 << 48):x}-{self.made}"
        return [name, debug_id(name)]


def job(modules, frames):
    return json.dumps({"memoryMap": modules, "stacks": [frames]}, separators=(",", ":")).encode()


def zipped(data):
    return gzip.compress(data, 9, mtime=0)


class Unknown_Modules(Shape):
    """Row 1: requests that each name a thousand modules of no bucket."""

    short = True

    def body(self):
        return job([self.fresh("none") for _ in range(NAMES)], [[i, 0x1000] for i in range(NAMES)])


class One_Frame_Often(Shape):
    """Row 2: a few KB of gzip, and one frame as often as may be."""

    headers = (("Content-Encoding", "gzip"),)
    connections, short = 64, True

    def __init__(self, seed):
        super().__init__(seed)
        self.same = zipped(job([["warm-0", debug_id("warm-0")]], [[0, 0x1000]] * FRAMES_MAX))

    def body(self):
        return self.same


class Random_Frames(Shape):
    """Row 2: as many frames as may be, anywhere in a large module."""

    headers = (("Content-Encoding", "gzip"),)
    connections, warm = 16, "big-0"

    def __init__(self, seed):
        super().__init__(seed)
        frames = [[0, self.random.randrange(BIG_FRAMES)] for _ in range(FRAMES_MAX)]
        self.same = gzip.compress(job([["big-0", debug_id("big-0")]], frames), 6, mtime=0)

    def body(self):
        return self.same


class Distinct_Frames(Shape):
    """Other frames of the large module in each request, so that no frame is hot twice and the victim's may be evicted."""

    connections, warm = 16, "big-0"

    def body(self):
        return job([["big-0", debug_id("big-0")]], [[0, self.random.randrange(BIG_FRAMES)] for _ in range(2000)])


class Text_Frames(Shape):
    """As many lines of text as may be, each with the same frame."""

    path, headers = "/symbolicate/text", (("Content-Encoding", "gzip"),)

    def __init__(self, seed):
        super().__init__(seed)
        line = b"MODULE Linux x86_64 %s warm-0.so\n" % debug_id("warm-0").encode()
        self.same = zipped(line + b"warm-0.so+0x1040\n" * FRAMES_MAX)

    def body(self):
        return self.same


class Unread(Shape):
    """Row 3: a body of a few KB makes a reply as large as may be, which nobody reads."""

    headers = (("Content-Encoding", "gzip"),)
    reads = "nothing"

    def __init__(self, seed):
        super().__init__(seed)
        self.same = zipped(job([["warm-0", debug_id("warm-0")]], [[0, 0x1040]] * FRAMES_MAX))

    def body(self):
        return self.same


class Slow_Reader(Unread):
    """The same reply, read at a byte a second."""

    reads = "slow"


class Unread_Files(Shape):
    """Symbol files of 46 MB that nobody reads, where they may be had as files."""

    settings = {"downloads": "stream"}
    method, path, reads = "GET", f"/big-0/{debug_id('big-0')}/big-0.sym", "nothing"

    def body(self):
        return b""


class Downloads(Shape):
    """The same files, read as fast as they come."""

    settings = {"downloads": "stream"}
    method, path = "GET", f"/big-0/{debug_id('big-0')}/big-0.sym"

    def body(self):
        return b""


class Downloads_That_Hang(Shape):
    """Symbol files that the bucket sends at a byte a second, for others of which somebody waits."""

    settings, routes = {"downloads": "stream"}, ("download",)
    method = "GET"

    def body(self):
        name, ident = self.fresh("slow")
        self.path = f"/{name}/{ident}/{name}.sym"
        return b""


class Downloads_Unread(Unread_Files):
    """Downloads that nobody reads, while somebody wants some."""

    routes = ("download",)


class Slow_Assembly(Shape):
    """Code of programs that a debuginfod server sends at a byte a second."""

    path, programs, debuginfod, routes = "/asm/v1", (LIBC,), True, ("assembly",)
    settings = {"source_code": "debuginfod"}

    def ident(self):
        return SLOW_ID + self.random.randbytes(18).hex()

    def body(self):
        return json.dumps({"codeId": self.ident(), "startAddress": "0x1000", "size": "0x40"}).encode()


class Slow_Assembly_Left(Slow_Assembly):
    """The same of clients that do not wait for it."""

    leaves = 0.05


class Slow_Programs(Slow_Assembly):
    """Requests for symbols of eight such programs each."""

    path = "/symbolicate/v5"

    def body(self):
        return job([["prog", self.ident()] for _ in range(8)], [[i, 0x1000] for i in range(8)])


class Slow_Programs_Left(Slow_Programs):
    """The same of clients that do not wait for it."""

    leaves = 0.05


class Spellings(Shape):
    """Row 4: one large module, its id in 60 spellings."""

    memcached, connections = False, 60

    def body(self):
        name = f"big-{self.made // 60}"
        self.made += 1
        ident = "".join(self.random.choice((c.lower(), c.upper())) for c in debug_id(name))
        return job([[name, ident]], [[0, 0x1000]])


class Parked_Bodies(Shape):
    """Row 5: 128 MB in 130 KB, which wait for a module that does not come."""

    headers = (("Content-Encoding", "gzip"),)
    connections = 30

    def __init__(self, seed):
        super().__init__(seed)
        module = self.fresh("slow")
        self.same = zipped(job([module], [[0, 0x1000]]) + b" " * (127 << 20))

    def body(self):
        return self.same


class Large_Modules(Shape):
    """Row 7: a few bytes that ask for 24 cold modules of 46 MB."""

    connections = 16

    def body(self):
        return job([self.fresh("big") for _ in range(24)], [[i, 0x1000] for i in range(24)])


class Processes(Shape):
    """Requests with the modules of a whole process, 150 small ones that nobody asked for before, where memory is little."""

    connections, settings = 16, {"memory": "358M"}

    def body(self):
        return job([self.fresh("tiny") for _ in range(150)], [[i, 0x1000] for i in range(150)])


class Slow_Modules(Shape):
    """Modules that come at a byte a second: each holds a transfer as long as it may."""

    def body(self):
        return job([self.fresh("slow")], [[0, 0x1000]])


class Cancelled(Shape):
    """Cold requests whose client goes away at once."""

    leaves = 0.05

    def body(self):
        return job([self.fresh("cold") for _ in range(100)], [[i, 0x1000] for i in range(100)])


class Slow_Sender(Shape):
    """Bodies that come at a byte a second."""

    sends = 1

    def body(self):
        return job([["warm-0", debug_id("warm-0")]], [[0, 0x1000]] * 100)


class Uploads(Shape):
    """Uploads of 60 MB without a key. nginx reads what it refuses, or the client would lose the reply: here as fast as two cores copy, 8 to
    32 MB each time it looks, in pieces of 4 KB."""

    path = "/api/symbols-ranges"

    def __init__(self, seed):
        super().__init__(seed)
        self.same = bytes(60 << 20)

    def body(self):
        return self.same


class Uploads_By_Wire(Uploads):
    """The same by a line of 1 Gbit/s, which no loopback is."""

    line = 125_000_000


class Uploads_Small_Window(Uploads):
    """The same where the site's `listen` has the small receive buffer of docs/nginx.md."""

    listen = "rcvbuf=64k"


class Streams(Shape):
    """A hundred streams in each of a few connections of HTTP/2, each with cold modules."""

    http2, connections = 100, 8

    def body(self):
        return job([self.fresh("cold") for _ in range(20)], [[i, 0x1000] for i in range(20)])


class Assembly(Shape):
    """As much code of libc as may be: each answer is made by a process of its own."""

    path, programs = "/asm/v1", (LIBC,)

    def __init__(self, seed):
        super().__init__(seed)
        self.id = build_id_of(LIBC)

    def body(self):
        return json.dumps({"codeId": self.id, "startAddress": hex(0x30000 + 16 * self.random.randrange(1 << 14)), "size": "0x40000"}).encode()


class Unknown_Programs(Shape):
    """Build ids that no folder of executables has: each is looked for by six paths."""

    programs = (LIBC,)

    def body(self):
        return job([["prog", self.random.randbytes(20).hex()] for _ in range(NAMES)], [[i, 0x1000] for i in range(NAMES)])


class Small_Requests(Shape):
    """As many small requests as it gets answered."""

    def body(self):
        return job([["warm-0", debug_id("warm-0")]], [[0, 0x1000]])


SHAPES = (
    Unknown_Modules, One_Frame_Often, Random_Frames, Distinct_Frames, Text_Frames, Unread, Slow_Reader, Unread_Files, Downloads,
    Downloads_That_Hang, Downloads_Unread, Slow_Assembly, Slow_Assembly_Left, Slow_Programs, Slow_Programs_Left, Spellings,
    Parked_Bodies, Large_Modules, Processes, Slow_Modules, Cancelled, Slow_Sender, Uploads, Uploads_By_Wire, Uploads_Small_Window, Streams, Assembly,
    Unknown_Programs, Small_Requests,
)  # fmt: skip
