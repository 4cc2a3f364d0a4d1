# SPDX-License-Identifier: Apache-2.0
"""What the benchmark asks for: symbol files and requests, made once and kept below the build directory."""

import gzip
import json
import os
import random
import re
import shutil
import struct
import subprocess
import time
import zlib

from stack import tail
from symbols import compile_gensym, debug_id, make_bucket, sym_name

COMMAND_BOUND = 180  # seconds for one command
SEED = 20261121
STACK_FRAMES = 25
GZIP_HEAD = 10  # bytes, without a name
MB = 1e6


class Failure(Exception):
    """A line cannot be measured: its text says why."""


class Sizes:
    def __init__(self, quick, once):
        self.quick = quick
        self.small = 5000 if quick else 100000  # functions
        self.xul = 10000 if quick else 350000  # 482 MB
        # About 2.2 MB of text and 1 MB of gzip for each 2,200 functions: transfers of 3 to 9 MB.
        self.stack = [300, 400, 500, 600, 700] if quick else [6500, 10000, 13000, 16000, 19500]
        self.random_requests = 100 if quick else 600
        self.corpus_scale = "0.02" if quick else "1.0"
        self.frames = 3000 if quick else 60000  # of a profile
        self.job_frames = 500 if quick else 10000
        self.connections = 16
        self.seconds = 0.4 if quick else 4.0
        self.open_seconds = 0.4 if quick else 6.0
        self.warm_up = 0.1 if quick else 0.5
        self.repeats = 1 if once else 2 if quick else 5
        self.large_repeats = 1 if quick or once else 3


def run(command, **options):
    """A command to its end; its output. Anything but success is a failure of the line."""
    options.setdefault("timeout", COMMAND_BOUND)
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise Failure(f"{command[0]} gave {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


class Inputs:
    """Symbol files and requests, made when a line first wants them. They stay for the next run; a file is there only when it
    is whole."""

    def __init__(self, directory, sizes, shared):
        self.sizes, self.shared, self.left_out = sizes, None if sizes.quick else shared, []
        self.seconds = 0.0  # that making them took
        # The bucket fits its requests: another set of them has another directory.
        self.directory = directory if self.from_shared("requests.jsonl.gz") else directory + "-generated"
        directory = self.directory
        os.makedirs(directory, exist_ok=True)
        self.gensym = compile_gensym(directory)

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def made(self, path, make):
        """path; make(temporary path) writes it unless it is there."""
        if not os.path.exists(path):
            begun = time.monotonic()
            os.makedirs(os.path.dirname(path), exist_ok=True)
            make(path + ".part")
            os.replace(path + ".part", path)
            self.seconds += time.monotonic() - begun
        return path

    def from_shared(self, name):
        path = self.shared and os.path.join(self.shared, name)
        return path if path and os.path.exists(path) else None

    def missing(self, name, instead):
        text = f"{name} is not there (set SHARED_DATA to its folder): {instead} stands in"
        if text not in self.left_out and not self.sizes.quick:
            self.left_out.append(text)
            print(text, flush=True)

    def generated(self, functions, name="xul.pdb", *flags):
        """(module, path) of a file of gensym in the bucket of plain files."""
        module = [name, debug_id(f"{name} {functions} {' '.join(flags)}")]
        command = [self.gensym, "-n", name, "-i", module[1], "-f", str(functions), "-s", str(SEED), *flags]

        def make(part):
            with open(part, "wb") as out:
                subprocess.run(command, stdout=out, check=True, timeout=COMMAND_BOUND)

        return module, self.made(self.path("plain", *module, sym_name(name)), make)

    def small(self):
        return self.generated(self.sizes.small, "small.pdb")

    def real(self):
        """(label, module, path): ceph-osd.sym where it is."""
        packed = self.from_shared("ceph-osd.sym.zst")
        if not packed:
            self.missing("ceph-osd.sym.zst", f"gensym -f {self.sizes.small}")
            return f"gensym -f {self.sizes.small}", *self.small()
        module = ["ceph-osd", "CEB366FBF2C5A264F863D96FA875EB4A0"]
        path = self.path("plain", *module, "ceph-osd.sym")
        self.made(path, lambda part: run(["zstd", "-q", "-d", packed, "-o", part]))
        return "ceph-osd.sym", module, path

    def xul(self):
        return self.generated(self.sizes.xul, "xul.pdb", "-x", "-c", "xul.dll")

    def copies(self, name, path, tags):
        """One text under several ids, as gzip objects of one member, beside the corpus. Their names end with .gz.pdb: the
        bucket says Content-Encoding of those."""
        with open(path, "rb") as f:
            rest_at = len(f.readline())
        rest = self.made(self.path(f"{name}-rest.gz"), lambda part: run(["/bin/sh", "-c", f"tail -c +{rest_at + 1} '{path}' | gzip -1 -n >'{part}'"]))
        modules = [[f"{name}.gz.pdb", debug_id(f"{name} {tag}")] for tag in tags]
        for file, ident in modules:

            def make(part, file=file, ident=ident):
                first = f"MODULE windows x86_64 {ident} {file}\n".encode()
                packer = zlib.compressobj(1, zlib.DEFLATED, -15)
                with open(rest, "rb") as f, open(part, "wb") as out:
                    out.write(f.read(GZIP_HEAD) + packer.compress(first) + packer.flush(zlib.Z_SYNC_FLUSH))
                    shutil.copyfileobj(f, out, 1 << 20)
                with open(path, "rb") as f, open(part, "rb+") as out:
                    f.seek(rest_at)
                    check = zlib.crc32(first)
                    while block := f.read(1 << 20):
                        check = zlib.crc32(block, check)
                    out.seek(-8, os.SEEK_END)
                    out.write(struct.pack("<II", check, (f.tell() - rest_at + len(first)) & 0xFFFFFFFF))

            self.made(self.path("corpus", file, ident, sym_name(file)), make)
        return modules

    def crash_stack(self, tag):
        """(modules, offsets of a function in each) of a crash whose modules nobody has asked for yet."""
        modules, offsets = [], []
        for i, functions in enumerate(self.sizes.stack):
            _, path = self.generated(functions, f"stack{i}.pdb")
            modules += self.copies(f"stack{i}", path, [tag])
            offsets.append(frames_of(path, STACK_FRAMES // len(self.sizes.stack)))
        return modules, offsets

    def real_beside_corpus(self):
        """The real file in the bucket of the corpus: (label, module, path)"""
        label, module, path = self.real()

        def link(part):
            os.link(path, part)

        self.made(self.path("corpus", *module, sym_name(module[0])), link)
        return label, module, path

    def requests(self):
        """(label, path) of a file of requests, a JSON object a line."""
        path = self.from_shared("requests.jsonl.gz")
        if path:
            return "requests.jsonl.gz", path
        count = self.sizes.random_requests
        self.missing("requests.jsonl.gz", f"{count} random requests")
        return f"{count} random requests", self.made(self.path("requests.jsonl.gz"), lambda part: write_random_requests(part, count))

    def corpus(self):
        """The requests, and below corpus/ the bucket that fits them. (label, lines)"""
        label, path = self.requests()
        done = self.path("corpus.txt")

        def make(part):
            line = make_bucket(self.gensym, path, self.path("corpus"), "--scale", self.sizes.corpus_scale)
            with open(part, "w", encoding="utf-8") as out:
                out.write(line)

        self.made(done, make)
        with gzip.open(path, "rb") as lines:
            return f"{label}, {tail(done)}", [line.strip() for line in lines]


def write_random_requests(path, count):
    """Requests in the shape of crash pings: a stack over a few of 60 modules."""
    source = random.Random(SEED)
    modules = [[f"module{i}.pdb", debug_id(f"module {i}")] for i in range(60)]
    spans = [source.randrange(100_000, 3_000_000) for _ in modules]
    with gzip.open(path, "wt") as out:
        for _ in range(count):
            chosen = source.sample(range(60), source.randrange(2, 6))
            frames = []
            for _ in range(STACK_FRAMES):
                index = source.randrange(len(chosen))
                frames.append([index, source.randrange(0x1000, spans[chosen[index]])])
            out.write(json.dumps({"memoryMap": [modules[i] for i in chosen], "stacks": [frames], "version": 4}) + "\n")


def functions_of(path):
    """(address, size) of the functions of a symbol file."""
    with open(path, "rb") as f:
        found = re.findall(rb"^FUNC (?:m )?([0-9a-f]+) ([0-9a-f]+) ", f.read(), re.M)
    return [(int(address, 16), int(size, 16)) for address, size in found if int(size, 16)]


def frames_of(path, count):
    """Random offsets: a function, and a place in it."""
    source = random.Random(SEED)
    functions = functions_of(path)
    return [address + source.randrange(size) for address, size in source.choices(functions, k=count)]


def job_of(modules, offsets):
    """offsets: one list for each module."""
    return {"memoryMap": modules, "stacks": [[[i, o] for i, of_module in enumerate(offsets) for o in of_module]]}


def body_of(*jobs):
    what = jobs[0] if len(jobs) == 1 else {"jobs": jobs}
    return json.dumps(what, separators=(",", ":")).encode()


def http_request(body, reply_bytes=0, path="/symbolicate/v5"):
    """As the load client sends it, after its length. The null responder obeys X-Reply-Bytes."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"X-Reply-Bytes: {reply_bytes}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    whole = head.encode() + body
    return struct.pack("<I", len(whole)) + whole


def records_of(path):
    """(head, body) of each request in a file for the load client."""
    with open(path, "rb") as f:
        while size := f.read(4):
            head, _, body = f.read(struct.unpack("<I", size)[0]).partition(b"\r\n\r\n")
            yield head, body
