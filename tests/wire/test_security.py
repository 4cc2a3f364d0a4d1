# SPDX-License-Identifier: Apache-2.0
"""What hostile input must not reach, keyed values in memcached, and the sandbox."""

import base64
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import urllib.parse

import pytest

import stack as stacks
from client import job
from s3 import Watcher
from stack import DAEMON, Stack, seed_of, wait_for
from symbols import SAMPLE, TOOLS, Symbols, debug_id, differences, module_line, run_gensym

sys.path.insert(0, TOOLS)
from plain_symbfile import write  # noqa: E402

APP = ["app", debug_id("app")]


def works(stack, node=0, module=APP):
    assert stack.nodes[node].client().frames(module, [0x1000])[0]["function"] == "main"


# Names and ids of requests

PIECES = [
    ".", "..", "/", "\\", "%2e", "%2E%2e", "%2f", "%5c", "%00", "%", "%%", "a", "B", ".pdb", ".PDB", ".sym", " ", "+", "é", "е\u0301",
    "\u202e", "\u2024", "\uff0e\uff0e", "\uff0f", "\u2215", "\u2044", "\ufeff", "\u2028", "\x7f", "\x85", "?", "#", "&", ";", ":", "@",
    "http://127.0.0.1/", "//", "file:///etc/passwd", "etc", "passwd", "~", "$(id)", "`id`", "'", '"', "<script>", "{}", "[1-9]", "{a,b}",
    "\r\n", "\n", "\r", "\t", "\0", "\x1b[31m", "X-Injected: 1", " HTTP/1.1\r\nHost: x\r\n\r\n", "\ud800", "\udcff", "\U0001f4a3",
]  # fmt: skip


def hostile_name(rng):
    kind = rng.random()
    if kind < 0.15:
        return chr(rng.randrange(256)) * rng.randrange(1, 4)
    if kind < 0.3:
        return "".join(chr(rng.randrange(1, 256)) for _ in range(rng.randrange(1, 12)))
    if kind < 0.32:
        return rng.choice(["a/", "../", "é", "%2e"]) * rng.randrange(200, 2000)
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 7)))


def hostile_id(rng):
    if rng.random() < 0.75:
        return "".join(rng.choice("0123456789abcdefABCDEF") for _ in range(rng.randrange(1, 40)))
    return hostile_name(rng)


def hostile_modules(seed, count):
    """Every byte alone and between letters, then random ones. Ids of good form, so that it is the name that decides."""
    rng = random.Random(seed_of(seed))
    first = [[text.replace("_", chr(byte)), "AB%X" % byte] for byte in range(256) for text in ("_", "a_b")]
    return first + [[hostile_name(rng), hostile_id(rng)] for _ in range(count)]


def send(stack, modules):
    """All of them in requests of 250; each is answered with a frame for each module, in order, none of which has a name."""
    for at in range(0, len(modules), 250):
        part = modules[at : at + 250]
        reply = stack.client.post("/symbolicate/v5", job(part, [[i, 0x1000] for i in range(len(part))]))
        assert reply.status == 200, reply
        frames = reply.json()["results"][0]["stacks"][0]
        assert [frame["frame"] for frame in frames] == list(range(len(part)))
        assert all(frame["module_offset"] == "0x1000" and "function" not in frame for frame in frames), frames


SEGMENT = re.compile(r"(?:[A-Za-z0-9._~-]|%[0-9A-F]{2})+\Z")


def check_object(path, prefix, asked):
    """The path as it was sent is prefix, name, id, name.sym, each one segment, and of a module that was asked for."""
    assert path.startswith(prefix), path
    segments = path[len(prefix) :].split("/")
    assert len(segments) == 3, path
    decoded = []
    for segment in segments:
        assert SEGMENT.match(segment), path
        text = urllib.parse.unquote_to_bytes(segment).decode("utf-8")  # strict
        assert text not in ("", ".", "..") and not re.search(r"[/\\\x00-\x1f\x7f]", text), path
        decoded.append(text)
    name, ident, file = decoded
    assert re.fullmatch(r"[0-9A-Fa-f]+", ident), path
    stem = name[:-4] if name.lower().endswith(".pdb") else name
    assert file == stem + ".sym", path
    assert name in asked, path


def check_log(daemon):
    """One JSON object a line and no control character, whatever was asked for."""
    text = daemon.log_text()
    found = re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert not found, text[max(0, found.start() - 100) :][:200]
    for line in text.split("\n")[:-1]:
        assert isinstance(json.loads(line), dict), line


def asked_names(modules):
    """As a server may take them: in JSON two surrogates may make a pair, which is a character. A lone one is none, and stands for the
    replacement."""
    names = set()
    for name, _ in modules:
        names.add(re.sub("[\ud800-\udfff]", "\ufffd", json.loads(json.dumps(name))))
    return names


HOSTILE = {"corrupt_ttl": "0", "missing_ttl": "0", "request_timeout": "120s", "cold_modules": "5000"}


@pytest.mark.slow
def test_hostile_names_over_http():
    modules = hostile_modules("http", 3000)
    with Stack(config={**HOSTILE, "log_level": "debug"}) as s:
        s.symbols.add(APP[0], SAMPLE, APP[1])
        send(s, modules)
        paths = list(s.bucket.paths())
        asked = asked_names(modules)
        assert len(paths) > 1000
        for path in paths:
            check_object(path, "/", asked)
        # What could be one of the bucket's own requests by another spelling was asked for as well.
        assert any("%25" in path for path in paths) and any("%3F" in path for path in paths)
        works(s)
        s.node.settled()
        check_log(s.daemon)


@pytest.mark.slow
@pytest.mark.parametrize("keys", [False, True], ids=["unsigned", "signed"])
def test_hostile_names_over_s3(monkeypatch, tmp_path, keys):
    """Below the prefix of the bucket, and without a query that would ask for something else than an object."""
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    modules = hostile_modules("s3", 1000)
    with Watcher(status=404) as watcher:
        config = {**HOSTILE, "source": "s3://symbols/pre%20fix", "s3_endpoint": watcher.url}
        if keys:
            (tmp_path / "credentials").write_text("[default]\naws_access_key_id = tester\naws_secret_access_key = verysecret\n")
            config["s3_credentials_file"] = str(tmp_path / "credentials")
        with Stack(bucket=False, config=config) as s:
            send(s, modules)
            check_log(s.daemon)
        asked = asked_names(modules)
        assert len(watcher.requests) > 500
        for method, target, headers in watcher.requests:
            assert method == "GET" and headers["Host"] == watcher.url.split("//")[1]
            assert ("Authorization" in headers) == keys
            check_object(target, "/symbols/pre%20fix/", asked)


def test_hostile_names_in_a_folder(tmp_path):
    """Nothing outside the root is read: not by names, nor by ids; links inside are followed."""
    root, ident = tmp_path / "root", debug_id("outside")
    inside, outside = Symbols(str(root)), Symbols(str(tmp_path / "outside"))
    inside.add("inside", SAMPLE, ident)
    os.rename(root / "inside", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", root / "inside")
    outside.add("secret", SAMPLE, ident)
    # What "..", without its own segment being refused, would name.
    (tmp_path / ident).mkdir()
    (tmp_path / ident / "...sym").write_bytes(module_line("..", ident) + SAMPLE.encode())
    ways = [
        "../outside/secret", "..", "../", "..\\outside\\secret", "%2e%2e/outside/secret", "%2e%2e", "./../outside/secret",
        f"{tmp_path}/outside/secret", "inside/../../outside/secret", "..%2foutside%2fsecret", "secret\0", "../outside\0",
        "\uff0e\uff0e", "..%00", ".", "", "~", "inside/..",
    ]  # fmt: skip
    with Stack(bucket=False, config={**HOSTILE, "source": f"file://{root}"}) as s:
        for name in ways:
            for one in (ident, f"../{ident}", f"{ident}/..", f"..\\{ident}", f"{ident}\0"):
                reply = s.client.post("/symbolicate/v5", job([[name, one]], [[0, 0x1000]]))
                assert reply.status in (200, 400), (name, one, reply)
                assert b'"function"' not in reply.body, (name, one, reply)
        send(s, hostile_modules("folder", 1500))
        works(s, module=["inside", ident])
        check_log(s.daemon)


def test_hostile_names_of_the_other_paths():
    """Names in the paths of DELETE, and in headers: nothing raw in the log."""
    rng = random.Random(seed_of("paths"))
    with Stack(keys=True, config={"log_level": "debug"}) as s:
        s.symbols.add(APP[0], SAMPLE, APP[1])
        for _ in range(300):
            path = "/cache/" + "/".join(urllib.parse.quote(hostile_name(rng).encode("utf-8", "replace")[:500], safe="") for _ in range(2))
            reply = s.client.request("DELETE", path, headers={"Authorization": s.key, "User-Agent": "x\x1b[31m\x85é"})
            assert reply.status in (200, 400, 404, 405), (path, reply)
        works(s)
        check_log(s.daemon)


def test_keys_are_in_no_log():
    with Stack(keys=True, config={"log_level": "debug"}) as s:
        ident, key = base64.b64decode(s.key.split()[1]).decode().split(":")
        wrong = "APIKey " + base64.b64encode(f"{ident}:{key[:-1]}_".encode()).decode()
        unknown = "APIKey " + base64.b64encode(f"nobody:{key}".encode()).decode()
        for header, status in ((s.key, 200), (wrong, 403), (unknown, 403), (s.key + "!", 401), ("Bearer " + key, 401)):
            reply = s.client.request("DELETE", "/cache/a/AB", headers={"Authorization": header})
            assert reply.status == status, (header, reply)
            assert key.encode() not in reply.raw
        with open(s.daemon.log, encoding="utf-8") as log:
            text = log.read()
        for secret in (key, key[:-1], s.key.split()[1], wrong.split()[1], unknown.split()[1]):
            assert secret not in text


# Keyed values


def secret_file(tmp_path, name, text, mode=0o600):
    path = tmp_path / name
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def invalid(stack, node=0):
    return stack.nodes[node].metrics()["symbolicated_pages_invalid_total"]


def restart_with(stack, node, **changes):
    daemon = stack.nodes[node].daemon
    daemon.stop()
    daemon.write_config(**changes)
    daemon.start()


def settled(stack):
    for node in stack.nodes:
        node.settled()


BIG = ["big.pdb", debug_id("big.pdb")]


@pytest.mark.slow
@pytest.mark.in_turn
def test_processes_with_different_secrets_do_not_believe_each_other(tmp_path, gensym):
    """One secret, another, none: whoever comes with other than the writer's loads anew; the writer's own is believed."""
    secrets = [secret_file(tmp_path, "one", "1" * 32 + "\n"), secret_file(tmp_path, "two", "2" * 32), None]
    with Stack(daemons=2) as s:
        answers = run_gensym(gensym, s.symbols, BIG, "-f", "1500", "-s", "1", answers=200)
        offsets = [int(a["offset"], 16) for a in answers]

        def right(node):
            assert differences(answers, s.nodes[node].client().frames(BIG, offsets)) == []
            s.nodes[node].settled()

        for writer in secrets:
            for reader in secrets:
                restart_with(s, 0, memcached_secret_file=writer)
                restart_with(s, 1, memcached_secret_file=reader)
                with s.memcached[0].raw() as raw:
                    for key in raw.keys():
                        raw.delete(key)
                s.bucket.reset()
                right(0)
                assert s.bucket.hits() == 1
                wait_for(s.stored_keys, "the map to be stored")
                right(1)
                if reader == writer:
                    assert (s.bucket.hits(), invalid(s, 1)) == (1, 0)
                else:
                    assert s.bucket.hits() == 2 and invalid(s, 1) >= 1


def test_a_forged_value_is_not_believed(tmp_path):
    """A process without the secret stands for somebody who can write to memcached: it plants the map of another file."""
    secret = secret_file(tmp_path, "secret", os.urandom(32).hex())
    with Stack(daemons=2) as s:
        s.symbols.add(APP[0], SAMPLE.replace("main", "evil"), APP[1])
        assert s.nodes[1].client().frames(APP, [0x1000])[0]["function"] == "evil"
        settled(s)
        s.symbols.add(APP[0], SAMPLE, APP[1])
        # Without a secret it is believed, which shows that the attack is one.
        assert s.client.frames(APP, [0x1000])[0]["function"] == "evil"
        restart_with(s, 0, memcached_secret_file=secret)
        works(s)
        assert invalid(s) >= 1


def check_config(tmp_path, *arguments):
    return subprocess.run(
        [*DAEMON, "--source", f"file://{tmp_path}", *arguments, "--check-config"], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("what", ["short", "long", "others may read it", "missing", "a folder", "good"])
def test_secret_files_that_are_refused(tmp_path, what):
    path = {
        "short": lambda: secret_file(tmp_path, "s", "tooshort-secret\n"),
        "long": lambda: secret_file(tmp_path, "s", "x" * 1025),
        "others may read it": lambda: secret_file(tmp_path, "s", "verysecret" * 4, 0o644),
        "missing": lambda: str(tmp_path / "none"),
        "a folder": lambda: str(tmp_path),
        "good": lambda: secret_file(tmp_path, "s", "verysecret" * 4, 0o640),
    }[what]()
    done = check_config(tmp_path, "--memcached-secret-file", path)
    assert (done.returncode == 0) == (what == "good"), done
    assert "verysecret" not in done.stdout + done.stderr and "tooshort" not in done.stdout + done.stderr
    assert what == "good" or path in done.stderr


# TLS


def test_a_certificate_that_nobody_vouches_for_is_refused():
    with Stack() as inner:
        with Stack(bucket=False, config={"source": f"https://127.0.0.1:{inner.node.nginx.tls_port}/"}) as s:
            s.client.post("/symbolicate/v5", job([APP], [[0, 0x1000]])).error(503)
            assert any("certificate" in str(line) for line in s.daemon.log_lines())


# The sandbox


def is_filtered(stack):
    """Every thread of the daemon runs under a filter of system calls, and can get no rights by starting a program."""
    tasks = f"/proc/{stack.daemon.process.pid}/task"
    states = set()
    for task in os.listdir(tasks):
        with contextlib.suppress(OSError), open(f"{tasks}/{task}/status", encoding="ascii") as status:  # some threads end soon
            states.add(tuple(re.findall(r"^(?:NoNewPrivs|Seccomp):\t(\d)", status.read(), re.M)))
    assert len(states) == 1, states
    return states == {("1", "2")}


@pytest.fixture(scope="module")
def can_filter():
    """Builds with sanitizers, and those that were told so, are without it."""
    done = subprocess.run(["ldd", DAEMON[-1]], capture_output=True, text=True, check=True)
    if "libseccomp" not in done.stdout:
        pytest.skip("built without seccomp")


def use_everything(tmp_path, **config):
    """Buckets by name, plain, gzip and in a folder; two memcached over TCP; uploads, invalidation, SIGHUP, the pages."""
    os.makedirs(tmp_path / "store")
    Symbols(str(tmp_path / "folder")).add("folder.so", SAMPLE, APP[1])
    config = {"symbfile_store": f"file://{tmp_path}/store", "revalidate_after": "0", **config}
    with Stack(keys=True, memcached=2, memcached_tcp=True, config=config) as s:
        s.symbols.add(APP[0], SAMPLE, APP[1])
        s.symbols.add("gzip.so", SAMPLE, APP[1], compress=True)
        # By name, so that the resolver works too.
        by_name = [b.source.replace("127.0.0.1", "localhost") for b in s.buckets]
        restart_with(s, 0, source=[f"file://{tmp_path}/folder", *by_name], log_file=str(tmp_path / "own.log"))
        assert is_filtered(s)
        for name in (APP[0], "gzip.so", "folder.so"):
            works(s, module=[name, APP[1]])
        settled(s)
        s.node.restart()
        s.bucket.reset()
        works(s)
        assert s.bucket.hits() == 0
        raw = bytes(range(16))
        body = write([{"t": "range", "va": "0x1000", "len": 64, "depth": 0, "func": "up", "file": "/a.c", "lines": [[0, 10]]}])
        headers = {"FileID": base64.urlsafe_b64encode(raw).decode().rstrip("="), "FilePart": "0", "FileParts": "1", "Authorization": s.key}
        reply = s.client.request("POST", "/api/symbols-ranges", body, headers)
        assert reply.status == 200, reply
        assert s.client.frames(["prog", raw.hex()], [0x1000])[0]["function"] == "up"
        assert s.client.request("DELETE", "/cache/" + "/".join(APP), headers={"Authorization": s.key}).status == 200
        works(s)
        os.rename(tmp_path / "own.log", tmp_path / "own.log.1")
        s.daemon.signal(signal.SIGHUP)
        wait_for((tmp_path / "own.log").exists, "the log to be opened again")
        wait_for(lambda: '"reload"' in (tmp_path / "own.log").read_text(), "the settings to be read again")
        assert s.client.get("/__heartbeat__").status == 200
        assert s.node.metrics()["symbolicated_loads_total"] >= 1
        assert is_filtered(s)


def test_everything_works_in_the_sandbox(can_filter, tmp_path):
    use_everything(tmp_path, seccomp="on")


def system_calls(group):
    """The members of a group as systemd has them, groups within it too."""
    done = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter", group], capture_output=True, text=True, check=True, timeout=60)
    out = set()
    for line in done.stdout.splitlines()[1:]:
        word = line.strip()
        if word.startswith("@"):
            out |= system_calls(word)
        elif word and not word.startswith("#"):
            out.add(word)
    return out


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze")
def test_everything_works_with_what_the_unit_allows(can_filter, tmp_path, monkeypatch):
    """The unit's list of system calls, families of sockets and rule about memory, on top of the process's own filter."""
    with open(os.path.join(stacks.ROOT, "systemd", "symbolicated.service"), encoding="utf-8") as unit:
        filters = re.findall(r"^SystemCallFilter=(~?)(.*)$", unit.read(), re.M)
    assert filters and not filters[0][0]
    allowed = set()
    for without, groups in filters:
        calls = set().union(*(system_calls(group) for group in groups.split()))
        allowed = allowed - calls if without else allowed | calls
    assert {"read", "setpriority"} <= allowed and not {"ptrace", "mount"} & allowed
    (tmp_path / "calls").write_text("\n".join(sorted(allowed)) + "\n")
    directory = os.path.dirname(DAEMON[-1]) or "."
    subprocess.run(["make", "-s", "-C", directory, "tests/tools/restrict"], check=True, stdout=subprocess.DEVNULL, timeout=300)
    monkeypatch.setattr(stacks, "DAEMON", [os.path.join(directory, "tests", "tools", "restrict"), str(tmp_path / "calls"), *DAEMON])
    use_everything(tmp_path, seccomp="on")


@pytest.mark.parametrize("setting, filtered", [("auto", True), ("off", False)])
def test_the_sandbox_is_a_setting(can_filter, setting, filtered):
    with Stack(config={"seccomp": setting}) as s:
        s.symbols.add(APP[0], SAMPLE, APP[1])
        works(s)
        assert is_filtered(s) == filtered
