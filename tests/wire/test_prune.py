# SPDX-License-Identifier: Apache-2.0
"""symbtool prune: old uploads go from a store, a directory or a real S3 server, and nothing else does."""

import glob
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
from test_symbfile_store import ID, OTHER, Store, no_keys_around, s3, tool  # noqa: F401

SYMBTOOL = command_of("SYMBTOOL", os.path.join(os.path.dirname(DAEMON[-1]), "symbtool"))
pytestmark = pytest.mark.skipif(not os.path.exists(SYMBTOOL[-1]), reason="symbtool was not built")
DAY = 24 * 3600

numbers = iter(range(1000))


class Aged(Store):
    """A store whose objects are files below `root`, which can be made older."""

    def __init__(self, settings, root, tmp_path):
        super().__init__(settings)
        self.root = os.path.join(root, "symbfiles")
        self.config = tmp_path / "settings"
        self.config.write_text("".join(f"{k} = {v}\n" for k, v in settings.items()))

    def old(self, days, *key, ident=ID, data=b"x"):
        """A part that was stored so many days ago."""
        kind, name, part, parts = key
        self.put(data, *key, ident=ident)
        self.age(days, ident, kind, name, str(parts), str(part))

    def age(self, days, *path):
        """An object, and the one beside it that tells its time."""
        at = time.time() - days * DAY
        path = os.path.join(self.root, *path)
        os.utime(path, (at, at))
        for told in glob.glob(path + ".*"):
            os.rename(told, f"{path}.{round(at * 1e9)}")
            os.utime(f"{path}.{round(at * 1e9)}", (at, at))

    def claim(self, days, ident):
        path = ("build-ids", "abcd", "abcdef0123", ident, "400000")
        os.makedirs(os.path.join(self.root, *path[:-1]))
        with open(os.path.join(self.root, *path), "wb"):
            pass
        self.age(days, *path)
        return "/".join(path)

    def prune(self, *words, code=0):
        done = subprocess.run([*SYMBTOOL, "prune", "--config", str(self.config), *words], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, done
        return done.stdout.splitlines()

    def gone(self, *words):
        """The paths that a dry run tells of, which all stay; then those that go, which must be the same. The times of parts go
        with these, and are left out here."""
        before = self.files()
        *told, last = self.prune(*words)
        assert last.startswith("would delete") and last.endswith("nothing is deleted without --delete")
        assert self.files() == before
        *deleted, last = self.prune(*words, "--delete")
        assert deleted == told and last.startswith(f"deleted {len(told)} of {len(before)} objects")
        paths = {line.split(" ")[-1] for line in told}
        assert self.files() == before - paths
        times = {path for path in before if "." in path and path.rsplit(".", 1)[0] in before}
        assert paths & times == {path for path in times if path.rsplit(".", 1)[0] in paths}
        return paths - times

    def files(self):
        return {os.path.relpath(os.path.join(folder, name), self.root) for folder, _, names in os.walk(self.root) for name in names if "/.tmp" not in folder}


@pytest.fixture(params=["file", "s3"])
def aged(request, tmp_path):
    if request.param == "file":
        os.makedirs(tmp_path / "store")
        return Aged({"symbfile_store": f"file://{tmp_path}/store"}, f"{tmp_path}/store", tmp_path)
    server = request.getfixturevalue("s3")
    prefix = f"prune me/{next(numbers)}"
    settings = {"symbfile_store": f"s3://{BUCKET}/{urllib.parse.quote(prefix)}", "s3_credentials_file": server.credentials(), **server.settings()}
    return Aged(settings, os.path.join(server.root, BUCKET, prefix), tmp_path)


def test_the_newest_complete_versions_stay(aged):
    for days, name in ((40, "a"), (30, "b"), (20, "c")):
        for part in (0, 1):
            aged.old(days, "ranges", name, part, 2)
    aged.old(10, "ranges", "begun", 1, 2)  # and never ended
    aged.old(50, "returnpads", "a", 0, 1)  # the only one of its kind
    aged.old(60, "ranges", "other", 0, 1, ident=OTHER)
    assert aged.gone("--keep", "2") == {f"{ID}/ranges/{path}" for path in ("a/2/0", "a/2/1", "begun/2/1")}
    assert aged.gone("--keep", "1") == {f"{ID}/ranges/b/2/0", f"{ID}/ranges/b/2/1"}
    assert aged.gone("--keep", "1") == set()
    assert aged.get("ranges", "c", 1, 2) == b"x"


@pytest.mark.slow
def test_generations_keep_the_parts_that_they_share(aged):
    for part in range(3):
        aged.old(30, "ranges", "3", part, 3, data=b"old%d" % part)
    aged.old(20, "ranges", "3~1", 1, 3, data=b"new1")
    aged.old(20, "ranges", "3~1", 2, 3, data=b"new2")
    aged.old(15, "ranges", "3~2", 2, 3, data=b"newest")
    # 3~2 is its part 2, 1 of 3~1, and 0 of the first
    assert aged.gone("--keep", "1") == {f"{ID}/ranges/{path}" for path in ("3/3/1", "3/3/2", "3~1/3/2")}


def test_where_nothing_is_complete_the_newest_stays(aged):
    aged.old(30, "ranges", "a", 0, 2)
    aged.old(20, "ranges", "b", 0, 2)
    assert aged.gone("--keep", "1") == {f"{ID}/ranges/a/2/0"}


def test_what_is_old_goes_as_a_whole(aged):
    aged.old(40, "ranges", "a", 0, 1)
    aged.old(31, "returnpads", "a", 0, 1)
    aged.old(40, "ranges", "a", 0, 1, ident=OTHER)
    aged.old(29, "returnpads", "a", 0, 1, ident=OTHER)
    own, other = aged.claim(35, ID), aged.claim(35, OTHER)
    assert aged.gone("--older-than", "30") == {f"{ID}/ranges/a/1/0", f"{ID}/returnpads/a/1/0", own}
    assert other in aged.files()
    if aged.settings["symbfile_store"].startswith("file"):
        assert not os.path.exists(os.path.join(aged.root, ID))


def test_both_rules(aged):
    for days, name in ((9, "a"), (8, "b")):
        aged.old(days, "ranges", name, 0, 1)
    aged.old(40, "ranges", "a", 0, 1, ident=OTHER)
    assert aged.gone("--older-than", "30", "--keep", "1") == {f"{OTHER}/ranges/a/1/0", f"{ID}/ranges/a/1/0"}


def test_an_executable_of_today_stays_as_it_is(aged):
    aged.old(40, "ranges", "a", 0, 1)
    aged.old(30, "ranges", "b", 0, 1)
    aged.old(0.5, "ranges", "c", 0, 2)
    claim = aged.claim(0.5, OTHER)
    assert aged.gone("--keep", "1", "--older-than", "1") == set()
    assert claim in aged.files()
    aged.age(2, ID, "ranges", "c", "2", "0")
    assert aged.gone("--keep", "1", "--older-than", "3") == {f"{ID}/ranges/a/1/0", f"{ID}/ranges/c/2/0"}


def test_what_is_nobodys_stays(aged):
    aged.old(40, "ranges", "a", 0, 1)
    for path in ("README", "zz/ranges/a/1/0", f"{ID}/ranges/a/1/00"):
        os.makedirs(os.path.join(aged.root, os.path.dirname(path)), exist_ok=True)
        with open(os.path.join(aged.root, path), "wb"):
            pass
        aged.age(40, path)
    before = aged.files()
    aged.prune("--older-than", "30", "--delete")
    gone = before - aged.files()
    assert f"{ID}/ranges/a/1/0" in gone and all(path.startswith(f"{ID}/ranges/a/1/0") for path in gone) and len(gone) == 2, gone


def test_beside_a_server(tmp_path):
    """Asked all the time, and told to forget what it has, it answers from the version that stays."""
    os.makedirs(tmp_path / "store")
    with Stack(keys=True, config=store_config(tmp_path, revalidate_after="0s")) as s:
        ident, encoded = new_id()
        store = Aged({"symbfile_store": f"file://{tmp_path}/store"}, f"{tmp_path}/store", tmp_path)
        for version in range(20):
            accepted(upload(s, "ranges", encoded, write(ranges(f"version_{version}")), fileset=f"v{version}"))
            store.age(40 - version, ident, "ranges", f"v{version}", "1", "0")
        module, names, stop = ["prog", ident.upper()], [], threading.Event()

        def ask():
            while not stop.is_set():
                assert s.client.request("DELETE", f"/cache/{module[0]}/{module[1]}", headers={"Authorization": s.key}).status == 200
                names.append(s.client.frames(module, [0x1004])[0].get("function"))

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            for keep in (15, 10, 5, 1):
                assert len(store.gone("--keep", str(keep))) == 5 - (keep == 1)
        finally:
            stop.set()
            thread.join(60)
        assert set(names) == {"version_19"}, set(names)


@pytest.mark.parametrize("words,code,says", [
    (["--keep", "1"], 2, "which store"), (["--store", "file:///x"], 2, "remove what"), (["--store", "file:///x", "--keep", "0"], 2, "keep"),
    (["--store", "file:///x", "--older-than", "-1"], 2, "older-than"), (["--store", "file:///x", "--keep", "1", "x"], 2, "options only"),
    (["--store", "http://x/", "--keep", "1"], 1, "symbfile_store"), (["--store", "file:///no/such/place", "--keep", "1"], 1, "/no/such/place"),
    (["--config", "/no/such/file", "--keep", "1"], 1, "/no/such/file"), (["--config", "/dev/null", "--keep", "1"], 1, "/dev/null names no symbfile_store"),
    (["--store", "s3://b/x", "--keep", "1"], 1, "symbfile_store"),
])  # fmt: skip
def test_refusals(words, code, says, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    done = subprocess.run([*SYMBTOOL, "prune", *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code and says in done.stderr, done
    assert "would delete 1" not in done.stdout
