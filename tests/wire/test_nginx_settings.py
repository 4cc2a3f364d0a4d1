# SPDX-License-Identifier: Apache-2.0
"""nginx's limits, times and paths fit the defaults of symbolicated's settings: read from the files, nothing is started."""

import glob
import os
import re
import subprocess

import pytest

from stack import DAEMON, ROOT

NGINX = os.path.join(ROOT, "nginx")
# The setting that bounds what a location of symbolicated takes; None: bodies are of no use to it.
BODIES = {
    "= /": "max_body",
    "^~ /symbolicate/": "max_body",
    "^~ /api/symbols": "max_upload",
    "^~ /cache/": None,
    "= /upload/": "max_sym_upload",
    "^~ /api/sym/": "max_sym_upload",
    "^~ /api/file/": "max_sym_upload",
    "= /upload/auth_info/": None,
    "= /api/missing": None,
    "= /asm/v1": None,
    "= /source/v1": None,
    "= /_symbolicated_small": None,
    r"~ ^/(?:try/)?(?:[^/]+/[0-9A-Fa-f]+/[^/]+\.sym|([^/]*)([^/])/[0-9A-Fa-f]+/\1(?:\2|_))$": None,
    "^~ /buildid/": None,
    "= /symbolicate": None,
    "= /cache": None,
    "= /api/sym": None,
    "= /upload": "max_sym_upload",
    "= /__lbheartbeat__": None,
    "= /__version__": None,
    "= /__heartbeat__": None,
    "= /__broken__": None,
    "= /__metrics__": None,
}
SECONDS = {"ms": 0.001, "": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def size(text):
    number, unit = re.fullmatch(r"(\d+)([kmgt]?)", text.lower()).groups()
    return int(number) << 10 * " kmgt".index(unit or " ")


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)([a-z]*)", text).groups()
    return int(number) * SECONDS[unit]


def tokens(file):
    with open(os.path.join(NGINX, file), encoding="utf-8") as f:
        found = re.findall(r"""#.*|"(?:\\.|[^"])*"|'(?:\\.|[^'])*'|[{};]|[^\s{};]+""", f.read())
    return [t for t in found if not t.startswith("#")]


def read(file):
    """Directives as lists [name, argument, ...]; the last item of one with braces is a list of those inside. Includes are
    replaced by what they include, which `install` may put into a folder snippets."""
    stack, words = [[]], []
    for token in tokens(file):
        if token == ";" and words[0] == "include":
            for name in sorted(glob.glob(words[1].removeprefix("snippets/"), root_dir=NGINX)):
                stack[-1] += read(name)
        elif token == ";":
            stack[-1].append(words)
        elif token == "{":
            stack[-1].append([*words, []])
            stack.append(stack[-1][-1][-1])
        elif token == "}":
            stack.pop()
        else:
            words.append(token)
            continue
        words = []
    assert len(stack) == 1 and not words, file
    return stack[0]


def blocks(directives, name):
    return [d for d in directives if d[0] == name and isinstance(d[-1], list)]


def value(directives, name):
    """Of a directive that is there once."""
    found = [d[1] for d in directives if d[0] == name and not isinstance(d[-1], list)]
    assert len(found) == 1, (name, found)
    return found[0]


@pytest.fixture(scope="module")
def conf():
    """All of the project's files, as the example puts them together."""
    return read("symbolicated-example.conf")


@pytest.fixture(scope="module")
def http(conf):
    return blocks(conf, "http")[0][-1]


@pytest.fixture(scope="module")
def locations(http):
    """Those that are symbolicated's, but for the question of nginx itself: by what stands between `location` and the brace."""
    found = {" ".join(d[1:-1]): d[-1] for server in blocks(http, "server") for d in blocks(server[-1], "location")}
    return {name: inside for name, inside in found.items() if any(d[0] == "fastcgi_pass" for d in inside) and name != "= /_symbolicated_key"}


@pytest.fixture(scope="module")
def settings():
    text = subprocess.run([*DAEMON, "--print-config-example"], check=True, capture_output=True, text=True).stdout
    return dict(re.findall(r"^#(\w+) = ?(.*)$", text, re.M))


@pytest.fixture(scope="module")
def units():
    """The settings of the systemd units."""
    text = ""
    for name in ("symbolicated.service", "symbolicated.socket"):
        with open(os.path.join(ROOT, "systemd", name), encoding="utf-8") as f:
            text += f.read()
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.M))


def test_every_location_is_known(locations):
    assert locations.keys() == BODIES.keys()


def test_nginx_passes_the_largest_body(locations, settings):
    for name, setting in BODIES.items():
        if setting:
            assert size(value(locations[name], "client_max_body_size")) >= size(settings[setting]), name


def test_nginx_keeps_no_reply_in_a_file(locations):
    for inside in locations.values():
        assert size(value(inside, "fastcgi_max_temp_file_size")) == 0


def test_a_late_answer_is_symbolicateds_own(locations, settings):
    for inside in locations.values():
        assert seconds(value(inside, "fastcgi_read_timeout")) > seconds(settings["request_timeout"])


def test_a_stop_does_not_wait_in_vain(http, settings, units):
    """Idle connections are gone before requests in hand are cut, and those before systemd kills."""
    (upstream,) = blocks(http, "upstream")
    assert seconds(value(upstream[-1], "keepalive_timeout")) < seconds(settings["shutdown_timeout"])
    assert seconds(settings["shutdown_timeout"]) < seconds(units["TimeoutStopSec"])


def test_the_socket_and_its_backlog(http, settings, units):
    (upstream,) = blocks(http, "upstream")
    assert [d[1] for d in upstream[-1] if d[0] == "server" and "down" not in d] == ["unix:" + units["ListenStream"]]
    assert units["Backlog"] == settings["listen_backlog"]
    backlogs = [re.search(r"backlog=(\d+)", " ".join(d)) for s in blocks(http, "server") for d in s[-1] if d[0] == "listen" and "ssl" in d]
    assert {b and b[1] for b in backlogs} == {settings["listen_backlog"]}


def test_nginx_has_a_descriptor_for_both_ends_of_a_request(conf):
    connections = int(value(blocks(conf, "events")[0][-1], "worker_connections"))
    assert int(value(conf, "worker_rlimit_nofile")) >= 2 * connections
