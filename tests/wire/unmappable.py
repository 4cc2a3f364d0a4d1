# SPDX-License-Identifier: Apache-2.0
"""unmappable.py DIRECTORY MOUNT: shows the files of a directory, to read, by a file system that cannot map them for several
processes (FUSE with direct I/O), until it is unmounted. Prints a line when it is there. Needs root and /dev/fuse."""

import ctypes
import os
import struct
import sys

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, INTERRUPT, FORGET_SEVERAL = 1, 2, 3, 14, 15, 18, 25, 26, 36, 42
DIRECT_IO, READ_ONLY, NOSUID_NODEV = 1, 1, 6


def attributes(node, path):
    s = os.stat(path)
    return struct.pack("<6Q10I", node, s.st_size, s.st_blocks, int(s.st_atime), int(s.st_mtime), int(s.st_ctime), 0, 0, 0, s.st_mode, 1, 0, 0, 0, 4096, 0)


def answer(paths, what, node, body):
    """paths: of nodes; the first is 1."""
    if what == INIT:
        return struct.pack("<4I2H2I2H8I", 7, 31, 65536, 0, 16, 12, 65536, 1, 0, 0, *[0] * 8)
    path = paths[node - 1]
    if what == LOOKUP:
        path = os.path.join(path, os.fsdecode(body.split(b"\0")[0]))
        found = attributes(0, path)
        if path not in paths:
            paths.append(path)
        number = paths.index(path) + 1
        return struct.pack("<4Q2I", number, 0, 0, 0, 0, 0) + struct.pack("<Q", number) + found[8:]
    if what == GETATTR:
        return struct.pack("<Q2I", 0, 0, 0) + attributes(node, path)
    if what == OPEN:
        return struct.pack("<Q2I", 0, DIRECT_IO, 0)
    if what == READ:
        _, offset, size = struct.unpack_from("<QQI", body)
        with open(path, "rb") as f:
            f.seek(offset)
            return f.read(size)
    if what in (RELEASE, FLUSH):
        return b""
    raise NotImplementedError


def main(directory, mount):
    device = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"unmappable", os.fsencode(mount), b"fuse", NOSUID_NODEV | READ_ONLY, options) != 0:
        sys.exit(f"no mount: {os.strerror(ctypes.get_errno())}")
    print("mounted", flush=True)
    paths = [directory]
    while True:
        try:
            request = os.read(device, 1 << 17)
        except OSError:
            return  # unmounted
        _, what, unique, node = struct.unpack_from("<IIQQ", request)
        if what in (FORGET, FORGET_SEVERAL, INTERRUPT):
            continue
        try:
            problem, reply = 0, answer(paths, what, node, request[40:])
        except NotImplementedError:
            problem, reply = -38, b""
        except OSError as e:
            problem, reply = -e.errno, b""
        os.write(device, struct.pack("<IiQ", 16 + len(reply), problem, unique) + reply)


if __name__ == "__main__":
    main(*sys.argv[1:])
