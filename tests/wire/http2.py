# SPDX-License-Identifier: Apache-2.0
"""Requests by HTTP/2 as bytes, without a library: headers without tables and without Huffman's code, bodies of at most a window."""

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, WINDOW_UPDATE = 0, 1, 4, 8
END_STREAM, END_HEADERS = 1, 4
BLOCK = 16000  # below the least limit of a frame


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


# What a connection begins with: settings as they are, and a window for replies that no test fills.
BEGIN = PREFACE + frame(SETTINGS, 0, 0) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30))


def header(name, value):
    return b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def request(stream, method, path, headers, body):
    """The frames of a request that does not say how long its body is."""
    names = {":method": method, ":scheme": "https", ":path": path, ":authority": "x", **headers}
    out = frame(HEADERS, END_HEADERS, stream, b"".join(header(*n) for n in names.items()))
    for at in range(0, len(body), BLOCK):
        last = at + BLOCK >= len(body)
        out += frame(DATA, END_STREAM if last else 0, stream, body[at : at + BLOCK])
    return out


def status(file):
    """Of the first head of a reply in what nginx sends, which has it as an index of the static table or as a literal; 0 when there is
    none."""
    while len(start := file.read(9)) == 9:
        payload = file.read(int.from_bytes(start[:3], "big"))
        if start[3] == HEADERS:
            while payload[0] & 0xE0 == 0x20:  # the table's size
                payload = payload[1:]
            return {0x88: 200, 0x8C: 400, 0x8D: 404, 0x8E: 500}.get(payload[0]) or int(payload[2 : 2 + (payload[1] & 0x7F)])
    return 0
