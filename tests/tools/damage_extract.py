#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""damage_extract.py --helper SYMBOLICATED-EXTRACT [--count N] [--seconds S] [--seed N] [--sandbox 0|1] [--code OFFSET] [--keep FOLDER]
FILE...: damages
executables and debug files in many ways, and has the helper read each as the server does. Each must end with records or a reason; the
table says with which. Ends with 1 if one did not, or its reader died; such files are kept in FOLDER."""

import argparse
import array
import collections
import fcntl
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time

LIMITS = "1073741824 2147483648 {seconds} 2 {sandbox} 0 {code} /"  # job_limits_print
HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "base", "error.h")
with open(HEADER, encoding="utf-8") as header:
    CODES = re.findall(r"^\t(ERR_\w+)", header.read(), re.M)
FINE = ("ERR_OK", "ERR_NO_MEMORY", "ERR_CORRUPT", "ERR_MISSING", "ERR_IO")


def start(helper):
    """The helper and the socket that jobs go to: descriptor 3 there."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    end = fcntl.fcntl(theirs, fcntl.F_DUPFD, 10)
    process = subprocess.Popen([helper], pass_fds=(3, end), stdin=subprocess.DEVNULL, preexec_fn=lambda: os.dup2(end, 3))
    theirs.close()
    os.close(end)
    assert ours.recv(100)[:1] == b"R"
    return process, ours


def send(sock, data, fds):
    sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])


def read(control, data, seconds, sandbox, code):
    """How a file ended: (kind, text, bytes of records)."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    file = os.memfd_create("damaged")
    os.write(file, data)
    send(control, b"J" + LIMITS.format(seconds=seconds, sandbox=sandbox, code=code).encode(), [theirs.fileno(), file])
    theirs.close()
    os.close(file)
    ours.settimeout(seconds + 10)
    doing, size = "", 0
    while packet := ours.recv(1 << 17):
        kind, body = packet[:1], packet[1:]
        if kind == b"S":
            doing = body.decode()
        elif kind in (b"D", b"C"):
            size += len(body)
        elif kind == b"W":
            ours.send(b"F")
        elif kind == b"E":
            return CODES[body[0]], body[1:].decode(errors="replace"), size
        elif kind == b"X":
            how = f"died of {signal.Signals(body[0]).name}" if body[0] < 128 else f"ended with {body[0] - 128}"
            return how, doing, size
    return "ended without a word", doing, size


def damaged(data, chance):
    """Bytes changed, blocks zeroed, repeated or moved, the end cut off, numbers made extreme."""
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 3, 10, 100))):
        at, size = chance.randrange(len(data)), chance.choice((1, 1, 2, 4, 8, 64, 4096))
        kind = chance.randrange(6)
        if kind == 0:
            data[at : at + size] = bytes(min(size, len(data) - at))
        elif kind == 1:
            data[at] = chance.randrange(256)
        elif kind == 2:
            data[at : at + size] = b"\xff" * min(size, len(data) - at)
        elif kind == 3:
            other = chance.randrange(len(data))
            block = bytes(data[other : other + size])
            data[at : at + len(block)] = block
        elif kind == 4:
            header = chance.randrange(min(len(data), 64 + 56 * 12))
            data[header] = chance.randrange(256)
        elif chance.random() < 0.1:
            del data[at:]
            if not data:
                data = bytearray(b"\x7f")
    return bytes(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--helper", required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sandbox", type=int, default=1)
    parser.add_argument("--code", type=int, help="has instructions read from this offset on, not records")
    parser.add_argument("--keep", default=".")
    parser.add_argument("file", nargs="+")
    a = parser.parse_args()
    process, control = start(os.path.abspath(a.helper))
    chance, tally, reasons, bad = random.Random(a.seed), collections.Counter(), collections.Counter(), 0
    contents = []
    for path in a.file:
        with open(path, "rb") as file:
            contents.append(file.read())
    slowest = 0
    for i in range(a.count):
        data = damaged(contents[i % len(contents)], chance)
        began = time.monotonic()
        how, text, size = read(control, data, a.seconds, a.sandbox, "1 1 {} 65536".format(a.code) if a.code else "0 0 0 0")
        slowest = max(slowest, time.monotonic() - began)
        tally[how] += 1
        reasons[re.sub(r"0x[0-9a-f]+|\d+", "N", text)[:70]] += bool(text)
        if how not in FINE or (how != "ERR_OK" and not text):
            bad += 1
            name = os.path.join(a.keep, f"damaged-{a.seed}-{i}")
            with open(name, "wb") as file:
                file.write(data)
            print(f"{a.file[i % len(a.file)]}: {how} while {text}: kept as {name}")
    control.close()
    process.wait(10)
    print(f"{a.count} files, {', '.join(f'{n} {how}' for how, n in tally.most_common())}; {len(reasons)} reasons; the slowest took {slowest:.1f} s")
    for reason, n in reasons.most_common(20):
        print(f"  {n:4} {reason}")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
