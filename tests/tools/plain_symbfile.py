# SPDX-License-Identifier: Apache-2.0
"""Symbfiles written and looked up the slow, plain way, from the format's description alone: what the tests compare with.

Records are those of the JSON dumps: {"t":"range","va","len","depth","func","file","call_file","call_line","lines":[[offset,line],..]}
and {"t":"pad","va","entries":[{"func","file","line"},..]}, outermost first."""


def varint(n):
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def message(kind, body):
    return varint(len(body)) + varint(kind) + body


def packed(number, values):
    return field(number, b"".join(map(varint, values))) if values else b""


def address(record):
    return int(record["va"], 16)


def range_message(r):
    body = field(12, address(r)) + field(2, r["len"]) + field(3, r["func"]) + field(7, r.get("depth", 0))
    if r.get("file") is not None:
        body += field(4, r["file"])
    if r.get("call_line"):
        body += field(5, r["call_line"])
    if r.get("call_file") is not None:
        body += field(6, r["call_file"])
    offsets, at = [], 0
    for offset, _ in r.get("lines", []):
        offsets.append((offset - at) % 2**32)
        at = offset
    if offsets:
        body += field(8, packed(1, offsets) + packed(2, [line for _, line in r["lines"]]))
    return message(2, body)


def pad_messages(pads):
    """One string table for all."""
    strings = {}
    for p in pads:
        for e in p["entries"]:
            for text in (e["func"], e["file"] or ""):
                strings.setdefault(text, len(strings))
    out = message(4, b"".join(field(1, s) for s in strings)) if strings else b""
    for p in pads:
        columns = ([strings[e["func"]] for e in p["entries"]], [strings[e["file"] or ""] for e in p["entries"]],
                   [e["line"] or 0 for e in p["entries"]])  # fmt: skip
        out += message(3, field(5, address(p)) + b"".join(packed(2 + i, c) for i, c in enumerate(columns)))
    return out


def write(records):
    ranges = [r for r in records if r["t"] == "range"]
    pads = [r for r in records if r["t"] == "pad"]
    return b"symbfile" + message(1, b"") + b"".join(map(range_message, ranges)) + pad_messages(pads)
