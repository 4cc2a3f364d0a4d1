# SPDX-License-Identifier: Apache-2.0
"""The load without any fault for a long time: answers, and resident memory."""

import collections
import time

from world import is_sanitized, resident

POINTS = 20  # of the curve
REFUSED = 0.001  # of all: nothing is wrong with any part, so hardly anybody is refused, even on a busy machine
MORE, ROOM = 1.03, 4 << 20  # how much larger the last third may be than the one before


def sample(world, minutes, check):
    """[(seconds, bytes of all responders)], each second; what goes wrong meanwhile ends it."""
    begin, points, problems = time.monotonic(), [], []
    while not problems and time.monotonic() - begin < minutes * 60 and not world.stopping.wait(1):
        total = sum(resident(d.process.pid) for d in world.daemons)
        points.append((time.monotonic() - begin, total))
        problems = check()
    return points, problems


def print_curve(points):
    top = max(b for _, b in points)
    shown = points[:: max(1, len(points) // POINTS)][:POINTS]
    for seconds, size in shown:
        print(f"{seconds:7.0f} s {size / (1 << 20):8.1f} MiB {'#' * round(50 * size / top)}")


def judge_memory(points):
    """Compares the means of the last two thirds; in the first one caches fill."""
    third = len(points) // 3
    if third < 5:
        return ["too few samples to judge memory"]
    middle, last = (sum(b for _, b in part) / third for part in (points[-2 * third : -third], points[-third:]))
    print(f"resident: {middle / (1 << 20):.1f} MiB in the middle third, {last / (1 << 20):.1f} MiB in the last")
    if last > middle * MORE + ROOM:
        return ["resident memory goes on growing"]
    return []


def soak(world, load, minutes, check):
    """Returns what went wrong."""
    points, problems = sample(world, minutes, check)
    if points:
        print_curve(points)
    if is_sanitized():
        print("a build with a sanitizer: memory is not judged")
    elif not problems:
        problems += judge_memory(points)
    results = load.answered()
    bad = [r for r in results if r.outcome != "right"]
    longest = max((r.end - r.start for r in results), default=0)
    print(f"{len(results)} requests, {len(bad)} not right, longest {longest:.2f} s")
    refused = collections.Counter((r.kind, r.status) for r in bad if r.outcome == "refused")
    for (kind, status), count in refused.most_common():
        text = next(r.text for r in bad if (r.kind, r.status, r.outcome) == (kind, status, "refused"))
        print(f"refused: {count} {kind} with {status}, the first: {text}")
    if refused.total() > REFUSED * len(results):
        problems.append(f"{refused.total()} of {len(results)} requests were refused")
    return problems + [f"{r.outcome} {r.kind}: {r.text}" for r in bad if r.outcome != "refused"][:10]
