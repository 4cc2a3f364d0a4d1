# SPDX-License-Identifier: Apache-2.0
"""Two hosts over one store, the clock of the second an hour off (libfaketime): of equal uploads the newer answers all the same, by the
store's own clock."""

import itertools
import os
import time

import pytest

from s3 import BUCKET, S3, KeyServices, Watcher, program_or_fail
from stack import FAKETIME, Stack, faketime_library, has_sanitizer, wait_for
from symbols import SAMPLE, SAMPLE_FRAMES, debug_id, module_line
from test_s3 import SOURCES_OF_KEYS, keys_from
from test_symbfile import REVALIDATE, accepted, listed, new_id, ranges, store_config, upload
from plain_symbfile import write

HOUR = 3600
SECOND = 1.1  # S3 tells its clock in whole seconds: what is closer is not told apart


def clock_off(seconds):
    """What stands before a command whose wall clock is so far ahead."""
    if has_sanitizer():
        pytest.skip("a sanitizer wants to be the first library")
    library = faketime_library()
    assert library, "no libfaketime: tests/tools/install_packages.sh check"
    return ["env", f"LD_PRELOAD={library}", f"FAKETIME={seconds:+d}s", *(f"{k}={v}" for k, v in FAKETIME.items())]


@pytest.fixture(scope="module", params=[("file", HOUR), ("file", -HOUR), ("s3", HOUR), ("s3", -HOUR)], ids=lambda p: f"{p[0]}{p[1]:+d}s")
def hosts(request, tmp_path_factory):
    kind, offset = request.param
    place = tmp_path_factory.mktemp("store")
    os.makedirs(place / "store")
    config, server = store_config(place), None
    if kind == "s3":
        server = S3(place, program_or_fail())
        server.start()
        config |= {"symbfile_store": f"s3://{BUCKET}/store", "s3_credentials_file": server.credentials(), **server.settings()}
    with Stack(keys=True, daemons=2, config=config) as s:
        s.apart = SECOND if server else 0
        s.nodes[1].daemon.program = [*clock_off(offset), *s.daemon.program]
        s.nodes[1].restart()
        yield s
    if server:
        server.stop()


def names(hosts, ident):
    return [node.client().frames(["prog", ident], [0x1000])[0].get("function") for node in hosts.nodes]


@pytest.mark.slow
def test_of_equals_the_newer_answers_whoever_sent_it(hosts):
    ident = new_id()
    for node, name in ((1, "a"), (0, "b"), (1, "c"), (0, "d"), (1, "e"), (1, "f")):
        accepted(upload(hosts, "ranges", ident[1], write(ranges(name)), node=node))
        sent = time.monotonic()
        wait_for(lambda n=name: names(hosts, ident[0]) == [n, n], f"{name} to answer")
        wait_for(lambda at=sent: time.monotonic() - at > hosts.apart, "the store's clock to go on")
    assert [s["answers"] for s in listed(hosts, ident[0])["sets"]].count(True) == 1


def test_the_better_answers_before_the_newer(hosts):
    ident = new_id()
    poor = write([{"t": "range", "va": "0x1000", "len": 64, "depth": 0, "func": "poor"}])
    for node in (0, 1):
        accepted(upload(hosts, "ranges", ident[1], write(ranges("full")), node=node))
        accepted(upload(hosts, "ranges", ident[1], poor, node=1 - node))
        wait_for(lambda: names(hosts, ident[0]) == ["full", "full"], "the better one to answer")


@pytest.mark.parametrize("node", [0, 1])
def test_parts_of_a_set_without_a_name_are_one_set(hosts, node):
    """The host whose clock is ahead does not take the first parts for what was given up long ago."""
    ident = new_id()
    for part in range(3):
        accepted(upload(hosts, "ranges", ident[1], write(ranges(f"f{part}", 0x1000 * (part + 1))), part, 3, node=node))
    [one] = listed(hosts, ident[0])["sets"]
    assert one["complete"] and one["have"] == [0, 1, 2]


def test_times_are_those_of_the_store(hosts):
    ident = new_id()
    accepted(upload(hosts, "ranges", ident[1], write(ranges("f")), node=1))
    [one] = listed(hosts, ident[0])["sets"]
    stored = time.mktime(time.strptime(one["time"], "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
    assert abs(stored - time.time()) < 60


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES_OF_KEYS)
@pytest.mark.parametrize("offset, seconds, times", [(HOUR, 600, 1), (-HOUR, 4, 2)])
def test_keys_end_by_the_clock_of_who_gives_them(kind, offset, seconds, times, tmp_path, monkeypatch):
    """Where it is an hour later they are not over before they are used; where it is earlier they are renewed in time."""
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    asked = itertools.count()
    with KeyServices(seconds) as services, Watcher(module_line("keys.so", debug_id("keys")) + SAMPLE.encode()) as watcher:
        settings = keys_from(services, kind, tmp_path, monkeypatch)
        config = {"source": f"s3://{BUCKET}", "s3_endpoint": watcher.url, "bucket_retries": "0", **settings}
        with Stack(bucket=False, config=config) as s:
            s.daemon.program = [*clock_off(offset), *s.daemon.program]
            s.node.restart()
            assert s.client.frames(["keys.so", debug_id("keys")], [0x1014])[0]["function"] == SAMPLE_FRAMES[0x1014]["function"]

            def renewed():
                s.client.frames([f"other{next(asked)}.so", debug_id("keys")], [0x1014])
                return services.given >= times

            wait_for(renewed, "keys that were asked for again", pause=0.1)
    assert services.given == times or times > 1
