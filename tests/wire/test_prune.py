# SPDX-License-Identifier: Apache-2.0
"""symbolicated-store prune: old uploads go from a store, a directory or a real S3 server, and nothing else does."""

import json
import os
import subprocess
import threading
import time
import urllib.parse

import pytest

from plain_symbfile import write
from s3 import BUCKET
from stack import DAEMON, Stack, command_of
from test_symbfile import accepted, new_id, ranges, store_config, upload
from test_symbfile_store import ID, LATE, OTHER, Liar, Store, no_keys_around, part_name, s3, tool  # noqa: F401

COMMAND = command_of("SYMBOLICATED_STORE", os.path.join(os.path.dirname(DAEMON[-1]), "symbolicated-store"))
DAY = 24 * 3600

numbers = iter(range(1000))


class Aged(Store):
    """A store whose objects are files below `root`, which can be made older. Paths are below the store's folder."""

    def __init__(self, settings, root, tmp_path):
        super().__init__(settings)
        self.root = os.path.join(root, "symbfiles")
        self.config = tmp_path / "settings"
        self.config.write_text("".join(f"{k} = {v}\n" for k, v in settings.items()))

    def set(self, days, kind, name, parts=1, have=None, ident=ID, **manifest):
        """A set that was stored so many days ago; with parts that are there, and a manifest if that is all of them. Returns the
        paths of its objects."""
        names = [part_name(i, parts) for i in range(parts)]
        paths = [f"{ident}/{kind}/{name}/{names[i]}" for i in (range(parts) if have is None else have)]
        for path in paths:
            self.put(b"x", path)
        if have is None:
            at = int((time.time() - days * DAY) * 1e9)
            text = {"version": 1, "time": at, "functions": 1, "lines": 1, "inlines": 0, "parts": names, **manifest}
            paths.append(f"{ident}/{kind}/{name}/" + ("forced.json" if manifest.get("forced") else "set.json"))
            self.put(json.dumps(text).encode(), paths[-1])
        for path in paths:
            self.age(days, path)
        return set(paths)

    def age(self, days, path):
        at = time.time() - days * DAY
        os.utime(os.path.join(self.root, path), (at, at))

    def claim(self, days, ident):
        path = f"build-ids/abcd/abcdef0123/{ident}/400000"
        self.put(b"", path)
        self.age(days, path)
        return path

    def prune(self, *words, code=0):
        done = subprocess.run([*COMMAND, "prune", "--config", str(self.config), *words], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, done
        return done.stdout.splitlines()

    def gone(self, *words):
        """The paths that a dry run tells of, which all stay; then those that go, which must be the same."""
        before = self.files()
        *told, last = self.prune(*words)
        assert last.startswith("would delete") and last.endswith("nothing is deleted without --delete")
        assert self.files() == before
        *deleted, last = self.prune(*words, "--delete")
        assert deleted == told and last.startswith(f"deleted {len(told)} of ")
        paths = {line.split(" ")[-1] for line in told}
        assert self.files() == before - paths
        return paths

    def files(self):
        return {os.path.relpath(os.path.join(folder, name), self.root) for folder, _, names in os.walk(self.root) for name in names}


@pytest.fixture(params=["file", "s3"])
def aged(request, tmp_path):
    if request.param == "file":
        os.makedirs(tmp_path / "store")
        return Aged({"symbfile_store": f"file://{tmp_path}/store"}, f"{tmp_path}/store", tmp_path)
    server = request.getfixturevalue("s3")
    prefix = f"prune me/{next(numbers)}"
    settings = {"symbfile_store": f"s3://{BUCKET}/{urllib.parse.quote(prefix)}", "s3_credentials_file": server.credentials(), **server.settings()}
    return Aged(settings, os.path.join(server.root, BUCKET, prefix), tmp_path)


@pytest.mark.in_turn
@pytest.mark.slow
def test_the_best_complete_sets_stay(aged):
    a = aged.set(40, "ranges", "a", 2, inlines=1)
    b, c = aged.set(30, "ranges", "b", 2), aged.set(20, "ranges", "c", 2)
    begun = aged.set(10, "ranges", "begun", 2, have=[1])  # and never ended
    aged.set(50, "returnpads", "a")  # the only one of its kind
    aged.set(60, "ranges", "other", ident=OTHER)
    assert aged.gone("--keep", "3") == begun
    assert aged.gone("--keep", "2") == b
    assert aged.gone("--keep", "1") == c
    assert aged.gone("--keep", "1") == set()
    assert aged.files() >= a


@pytest.mark.in_turn
def test_what_answers_because_it_was_forced_stays(aged):
    best = aged.set(20, "ranges", "best", inlines=1)
    aged.set(40, "ranges", "poor", lines=0, forced=True)
    assert aged.gone("--keep", "1") == best


@pytest.mark.in_turn
def test_a_part_that_its_set_does_not_name_goes(aged):
    """The content of the set was another one once."""
    aged.set(30, "ranges", "a", 2)
    stray = f"{ID}/ranges/a/{part_name(0, 2).replace('0123', '3210')}"
    aged.put(b"y", stray)
    aged.age(30, stray)
    assert aged.gone("--keep", "1") == {stray}


@pytest.mark.in_turn
def test_of_an_empty_store_nothing_goes(aged):
    assert aged.gone("--keep", "1") == set()


@pytest.mark.in_turn
def test_what_a_process_left_behind_goes_when_it_is_old(aged):
    aged.set(10, "ranges", "a")
    for days, name in ((2, "old"), (0.5, "young")):
        aged.put(b"x", f".tmp/{name}")
        aged.age(days, f".tmp/{name}")
    if aged.settings["symbfile_store"].startswith("s3"):
        assert aged.gone("--keep", "1") == {".tmp/old"}
    aged.prune("--keep", "1", "--delete")
    assert ".tmp/old" not in aged.files() and ".tmp/young" in aged.files()


@pytest.mark.in_turn
def test_what_is_old_goes_as_a_whole(aged):
    mine = aged.set(40, "ranges", "a") | aged.set(31, "returnpads", "a")
    aged.set(40, "ranges", "a", ident=OTHER)
    aged.set(29, "returnpads", "a", ident=OTHER)
    own, other = aged.claim(35, ID), aged.claim(35, OTHER)
    assert aged.gone("--older-than", "30") == mine | {own}
    assert other in aged.files()
    if aged.settings["symbfile_store"].startswith("file"):
        assert not os.path.exists(os.path.join(aged.root, ID))


@pytest.mark.in_turn
def test_both_rules(aged):
    a = aged.set(9, "ranges", "a")
    aged.set(8, "ranges", "b")
    other = aged.set(40, "ranges", "a", ident=OTHER)
    assert aged.gone("--older-than", "30", "--keep", "1") == a | other


@pytest.mark.in_turn
def test_an_executable_of_today_stays_as_it_is(aged):
    a = aged.set(40, "ranges", "a")
    aged.set(30, "ranges", "b")
    c = aged.set(0.5, "ranges", "c", 2, have=[0])
    claim = aged.claim(0.5, OTHER)
    assert aged.gone("--keep", "1", "--older-than", "1") == set()
    assert claim in aged.files()
    aged.age(2, *c)
    assert aged.gone("--keep", "1", "--older-than", "3") == a | c


@pytest.mark.in_turn
def test_what_is_nobodys_stays(aged):
    gone = aged.set(40, "ranges", "a")
    for path in ("README", "zz/ranges/a/1/0", f"{ID}/ranges/a/1/00", f"{ID}/ranges/a/readme"):
        aged.put(b"", path)
        aged.age(40, path)
    assert aged.gone("--older-than", "30") == gone
    gone = aged.set(40, "ranges", "a")
    aged.set(40, "ranges", "b", inlines=1)
    assert aged.gone("--keep", "1") == gone


def test_beside_a_server(tmp_path):
    """Asked all the time, and told to forget what it has, it answers from the version that stays."""
    os.makedirs(tmp_path / "store")
    with Stack(keys=True, config=store_config(tmp_path, revalidate_after="0s")) as s:
        ident, encoded = new_id()
        store = Aged({"symbfile_store": f"file://{tmp_path}/store"}, f"{tmp_path}/store", tmp_path)
        for version in range(20):
            accepted(upload(s, "ranges", encoded, write(ranges(f"version_{version}")), fileset=f"v{version}"))
            for name in os.listdir(os.path.join(store.root, ident, "ranges", f"v{version}")):
                store.age(40 - version, f"{ident}/ranges/v{version}/{name}")
        module, names, stop = ["prog", ident.upper()], [], threading.Event()

        def ask():
            while not stop.is_set():
                assert s.client.request("DELETE", f"/cache/{module[0]}/{module[1]}", headers={"Authorization": s.key}).status == 200
                names.append(s.client.frames(module, [0x1004])[0].get("function"))

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            for keep in (15, 10, 5, 1):
                assert len(store.gone("--keep", str(keep))) == 2 * (5 - (keep == 1))
        finally:
            stop.set()
            thread.join(60)
        assert set(names) == {"version_19"}, set(names)


@pytest.mark.in_turn
def test_tries_go_when_they_are_old(aged):
    """By age alone, with everything that a name may have; what was uploaded otherwise stays, however old."""
    place = aged.settings.pop("symbfile_store")
    aged.config.write_text("".join(f"{k} = {v}\n" for k, v in {**aged.settings, "sym_store": place}.items()))
    aged.root = os.path.dirname(aged.root)
    ident = "0123456789ABCDEF0123456789ABCDEF1"
    for days, path in (
        (40, f"try/.old é+ &<.pdb/{ident}/.old é+ &<.sym"), (20, f"try/young.so/{ident}/young.so.sym"), (40, f"kept.so/{ident}/kept.so.sym"), (40, f"try/{ident}/try.sym"),
    ):  # fmt: skip
        file = os.path.join(aged.root, path)
        os.makedirs(os.path.dirname(file))
        with open(file, "wb") as out:
            out.write(b"x" * days)
        aged.age(days, path)
    before = aged.files()
    told = aged.prune("--tries-older-than", "30")
    assert len(told) == 2 and told[0].endswith(f" 40 try/.old é+ &<.pdb/{ident}/.old é+ &<.sym") and aged.files() == before
    assert told[1] == "would delete 1 of 2 tries, 40 of 60 bytes; nothing is deleted without --delete"
    told = aged.prune("--tries-older-than", "30", "--delete")
    assert told[1] == "deleted 1 of 2 tries, 40 of 60 bytes"
    assert before - aged.files() == {f"try/.old é+ &<.pdb/{ident}/.old é+ &<.sym"}
    assert aged.prune("--tries-older-than", "30", "--delete") == ["deleted 0 of 1 tries, 0 of 20 bytes"]
    assert aged.prune("--tries-older-than", "19", "--delete")[-1] == "deleted 1 of 1 tries, 20 of 20 bytes"


@pytest.mark.in_turn
def test_help():
    done = subprocess.run([*COMMAND, "prune", "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout.startswith("Usage: ") and not done.stderr, done


@pytest.mark.parametrize("words,code,says", [
    (["--keep", "1"], 2, "no store"), (["--store", "file:///x"], 2, "nothing to remove"), (["--store", "file:///x", "--keep", "0"], 2, "keep"),
    (["--store", "file:///x", "--older-than", "-1"], 2, "older-than"), (["--store", "file:///x", "--keep", "1", "x"], 2, "only options"),
    (["--store", "http://x/", "--keep", "1"], 1, "symbfile_store"), (["--store", "file:///no/such/place", "--keep", "1"], 1, "/no/such/place"),
    (["--config", "/no/such/file", "--keep", "1"], 1, "/no/such/file"), (["--config", "/dev/null", "--keep", "1"], 1, "/dev/null does not set symbfile_store"),
    (["--store", "s3://b/x", "--keep", "1"], 1, "symbfile_store"), (["--store", "file:///x", "--tries-older-than", "1"], 1, "no sym_store: give --config FILE or --sym-store URL"),
    (["--sym-store", "file:///x", "--tries-older-than", "0"], 2, "tries-older-than"), (["--sym-store", "s3://b/x", "--tries-older-than", "1"], 1, "sym_store"),
])  # fmt: skip
@pytest.mark.in_turn
def test_refusals(words, code, says, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    done = subprocess.run([*COMMAND, "prune", *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code and says in done.stderr, done
    assert "would delete 1" not in done.stdout


@pytest.mark.in_turn
def test_how_old_uploads_are_is_told_by_the_clock_of_s3(tmp_path):
    """Which sets their times; the machine of the administrator may have another."""
    listing = "<ListBucketResult>%s</ListBucketResult>"
    path = f"{ID}/ranges/set/set.json"
    one = f"<Contents><Key>symbfiles/{path}</Key><LastModified>2026-11-21T15:17:30Z</LastModified><Size>6</Size></Contents>"
    with Liar([(200, (listing % found).encode(), {"Date": LATE}) for found in (one, one, "")]) as liar:
        config = tmp_path / "settings"
        config.write_text("".join(f"{k} = {v}\n" for k, v in liar.store.settings.items()))
        command = [*COMMAND, "prune", "--config", str(config), "--older-than", "1000"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0 and done.stdout.splitlines()[0] == f"2026-11-21            6 {path}", done
