# SPDX-License-Identifier: Apache-2.0
"""nginx/install.sh, which puts our nginx files beside an administrator's: fresh, after version 1.0, after changes, refused by nginx."""

import os
import re
import shutil
import signal
import subprocess

import pytest

from local_nginx import make_share
from stack import ROOT, wait_for
from test_nginx_errors import Front

OLD = os.path.join(ROOT, "tests", "data", "package-1.0.0", "etc", "nginx", "snippets")
OLD_FILES = sorted(os.listdir(OLD))
OURS = sorted(f"symbolicated-{name}.conf" for name in ("http", "location", "server", "page", "errors", "root", "each"))
THEIRS = sorted(os.listdir(os.path.join(ROOT, "nginx", "symbolicated.d")))
INCLUDES = {"http": "include snippets/symbolicated-http*.conf;", "server": "include snippets/symbolicated-server*.conf; include snippets/symbolicated-root*.conf;"}


class Host:
    """A folder like /etc/nginx, and what `make install` makes of the project's files."""

    def __init__(self, folder, version="9.8.7", **includes):
        self.folder, self.snippets = os.path.join(folder, "etc"), os.path.join(folder, "etc", "snippets")
        self.share = os.path.join(folder, "share")
        os.makedirs(self.snippets)
        self.is_version(version)
        self.configure(**{**INCLUDES, **includes})

    def is_version(self, version):
        self.program = make_share(self.share, version)

    def is_version_only(self, version):
        """The files stay as they are."""
        with open(self.program, encoding="utf-8") as f:
            text = re.sub("^version=.*", f"version={version}", f.read(), flags=re.M)
        with open(self.program, "w", encoding="utf-8") as f:
            f.write(text)

    def configure(self, http, server):
        with open(os.path.join(self.folder, "nginx.conf"), "w", encoding="utf-8") as f:
            f.write(f"pid {self.folder}/nginx.pid; error_log {self.folder}/error.log; events {{}}\nhttp {{ access_log off; {http}\nserver {{ listen 127.0.0.1:1; {server} }} }}\n")

    def install(self, *arguments, folder=None):
        command = [self.program, *arguments, folder or self.snippets]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def nginx_says(self):
        """What `nginx -t` has against the configuration; None: nothing."""
        done = subprocess.run(["nginx", "-t", "-c", os.path.join(self.folder, "nginx.conf"), "-e", "stderr"], capture_output=True, text=True, check=False)
        return done.stderr if done.returncode else None

    def path(self, name):
        return os.path.join(self.snippets, name)

    def files(self):
        """{name: text} of all."""
        found = {}
        for folder, _, names in os.walk(self.snippets):
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    found[os.path.relpath(os.path.join(folder, name), self.snippets)] = f.read()
        return found

    def append(self, name, text="# of mine\n"):
        with open(self.path(name), "a", encoding="utf-8") as f:
            f.write(text)


@pytest.fixture
def host(tmp_path):
    return Host(str(tmp_path))


def test_a_fresh_installation(host):
    assert host.nginx_says() is None  # includes of files that are not there yet
    done = host.install()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    files = host.files()
    assert sorted(files) == sorted(OURS + [f"symbolicated.d/{name}" for name in THEIRS])
    assert all(re.match(r"# symbolicated 9\.8\.7 sha256=[0-9a-f]{64}: ", files[name]) for name in OURS)
    assert f"alias {host.share}/web/;" in files["symbolicated-server.conf"] and "/usr/local" not in files["symbolicated-server.conf"]
    assert host.nginx_says() is None


def test_beside_nginx_conf(host):
    host.configure(http="include symbolicated-http*.conf;", server="include symbolicated-server*.conf;")
    assert host.install(folder=host.folder).returncode == 0
    assert host.nginx_says() is None and os.path.exists(os.path.join(host.folder, "symbolicated.d", "limits.conf"))


def test_an_upgrade_replaces_ours_and_leaves_theirs(host):
    host.install()
    host.append("symbolicated.d/limits.conf")
    os.remove(host.path("symbolicated.d/headers.conf"))
    before = host.files()
    host.is_version("9.9.0")
    assert host.install().returncode == 0
    after = host.files()
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == set(OURS)
    assert host.nginx_says() is None


@pytest.mark.parametrize("missing", [*THEIRS, "symbolicated.d"])
def test_nginx_needs_no_file_of_theirs(host, missing):
    host.install()
    path = host.path(os.path.join("symbolicated.d", missing)) if missing in THEIRS else host.path(missing)
    (os.remove if os.path.isfile(path) else shutil.rmtree)(path)
    assert host.nginx_says() is None


def keep_version_1_0(host):
    for name in OLD_FILES:
        shutil.copy(os.path.join(OLD, name), host.snippets)
    host.configure(http="include snippets/symbolicated-http.conf;", server="include snippets/symbolicated-server.conf; include snippets/symbolicated-root.conf;")
    assert host.nginx_says() is None


@pytest.mark.parametrize("changed", OLD_FILES)
def test_a_kept_file_of_version_1_0_does_not_stop_nginx(host, changed):
    """Version 1.0's package had them as files of settings: an upgrade replaced those that were not changed, and nginx stopped with
    `unknown "symbolicated_has_body" variable`."""
    keep_version_1_0(host)
    host.append(changed)
    before = host.files()
    done = host.install()
    assert done.returncode == 1 and host.path(changed) in done.stderr and "symbolicated.d" in done.stderr
    assert host.files() == before
    assert host.nginx_says() is None


def test_force_keeps_a_copy_of_version_1_0(host):
    keep_version_1_0(host)
    host.append("symbolicated-http.conf")
    assert host.install("--force").returncode == 0
    files = host.files()
    assert files["symbolicated-http.conf.old"].endswith("# of mine\n") and "# of mine" not in files["symbolicated-http.conf"]
    assert host.nginx_says() is None


@pytest.mark.parametrize("changed", OURS)
def test_a_change_in_ours_keeps_all(host, changed):
    host.install()
    host.append(changed)
    before = host.files()
    host.is_version("9.9.0")
    done = host.install()
    assert done.returncode == 1 and host.path(changed) in done.stderr and done.stderr.count(host.snippets + "/symbolicated-") == 1
    assert host.files() == before


def test_files_that_nginx_refuses_are_not_put_in_place(host):
    """Here the site has a location of the same name as a new one of ours."""
    host.install()
    before = host.files()
    host.is_version("9.9.0")
    host.append("../../share/nginx/symbolicated-server.conf", "location = /robots.txt { return 404; }\n")
    host.configure(http=INCLUDES["http"], server=INCLUDES["server"] + " location = /robots.txt { return 200; }")
    done = host.install()
    assert done.returncode == 1 and 'duplicate location "/robots.txt"' in done.stderr and host.folder in done.stderr, done.stderr
    assert host.files() == before and host.nginx_says() is None


def test_absolute_includes_are_tried_too(host):
    """Debian's nginx.conf includes sites by absolute paths."""
    host.install()
    host.append("../site", "location = /robots.txt { return 200; }\n")
    host.configure(http=INCLUDES["http"], server=f"include {host.snippets}/symbolicated-server.conf; include {host.folder}/site;")
    host.is_version("9.9.0")
    host.append("../../share/nginx/symbolicated-server.conf", "location = /robots.txt { return 404; }\n")
    assert "duplicate location" in host.install().stderr
    assert host.nginx_says() is None


def test_links_out_of_the_configuration_are_not_followed(host, tmp_path):
    """All that they lead to was copied: a site's files, or the whole machine."""
    os.makedirs(tmp_path / "site" / "conf")
    for i in range(3):
        with open(tmp_path / "site" / f"film{i}", "wb") as f:
            f.truncate(1 << 40)  # a copy of which has no room
    (tmp_path / "site" / "conf" / "more.conf").write_text("# of the site\n")
    (tmp_path / "available").write_text(f"include {host.snippets}/symbolicated-server*.conf;\n")
    os.symlink("../../site", os.path.join(host.snippets, "site"))
    os.symlink("../../site/film0", os.path.join(host.snippets, "film"))
    os.symlink("/", os.path.join(host.snippets, "machine"))
    os.symlink("../../available", os.path.join(host.snippets, "enabled"))
    os.symlink("nowhere", os.path.join(host.snippets, "dangling"))
    os.symlink("snippets", os.path.join(host.folder, "others"))
    host.configure(http="include others/symbolicated-http*.conf;", server="include snippets/enabled; include snippets/site/conf/*.conf;")
    assert host.nginx_says() is None
    assert host.install().returncode == 0
    host.is_version("9.9.0")
    done = host.install()
    assert (done.returncode, done.stderr) == (0, "")
    assert host.nginx_says() is None
    # the files in it are judged by the copy
    with open(os.path.join(host.share, "nginx", "symbolicated-server.conf"), "a", encoding="utf-8") as f:
        f.write("wrong;\n")
    host.is_version_only("9.9.1")
    assert host.install().returncode == 1


def test_what_is_wrong_with_another_site_is_not_put_down_to_us(host):
    host.install()
    before = host.files()
    host.configure(http=INCLUDES["http"], server=INCLUDES["server"] + " of_another_site;")
    host.is_version("9.9.0")
    done = host.install()
    assert done.returncode == 1 and host.files() == before
    assert "wrong already" in done.stderr and "of_another_site" in done.stderr and "does not take" not in done.stderr, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_mixed_versions(host, tmp_path, number):
    host.install()
    host.is_version("9.9.0")
    # an mv that tells when the first file is in place, and takes its time
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mv").write_text(f"#!/bin/sh\n/bin/mv \"$@\"\n: >{tmp_path}/moved\nwhile [ ! -e {tmp_path}/told ]; do sleep 0.01; done\n")
    os.chmod(tmp_path / "bin" / "mv", 0o755)
    process = subprocess.Popen([host.program, host.snippets], env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    wait_for((tmp_path / "moved").exists, "the first file")
    process.send_signal(number)
    (tmp_path / "told").touch()
    process.wait(60)
    versions = {re.match(r"# symbolicated (\S+)", text)[1] for name, text in host.files().items() if name in OURS}
    assert len(versions) == 1 and not any(name.endswith(".new") for name in host.files()), versions


def test_no_room_leaves_no_mixed_versions(host, tmp_path):
    host.install()
    before = host.files()
    host.is_version("9.9.0")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cp").write_text('#!/bin/sh\ncase "$*" in *server.conf.new) echo no room >&2; exit 1 ;; esac\nexec /bin/cp "$@"\n')
    os.chmod(tmp_path / "bin" / "cp", 0o755)
    done = subprocess.run([host.program, host.snippets], env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "no room" in done.stderr
    assert host.files() == before


def test_an_nginx_that_was_wrong_before_does_not_keep_a_fresh_installation_away(host):
    host.configure(http=INCLUDES["http"], server=INCLUDES["server"] + " no_such_directive;")
    assert host.install().returncode == 0 and os.path.exists(host.path("symbolicated-http.conf"))


def test_a_prefix_is_kept(host):
    assert host.install("--prefix", "/symbols").returncode == 0
    host.is_version("9.9.0")
    assert host.install().returncode == 0
    files = host.files()
    assert "location ^~ /symbols/symbolicate/ {" in files["symbolicated-server.conf"] and "prefix=/symbols" in files["symbolicated-http.conf"]
    assert host.nginx_says() is None
    assert host.install("--prefix", "").returncode == 0
    assert "location ^~ /symbolicate/ {" in host.files()["symbolicated-server.conf"]


@pytest.mark.parametrize("wrong", ["symbols", "/symbols/", "/sym bols", "/a;b", "/", "/x{"])
def test_a_strange_prefix_is_refused(host, wrong):
    done = host.install("--prefix", wrong)
    assert done.returncode == 2 and "prefix" in done.stderr and not host.files()


def test_help_and_unknown_options(host):
    assert host.install("--help").stdout.startswith("install [--prefix PATH]")
    assert host.install("--bogus").returncode == 2 and not host.files()


def test_a_rollback_leaves_files_that_version_1_0_works_with():
    """It has no /api/key, and its answer to a large upload is passed on."""
    with Front("old") as front:
        reply = front.client.request("POST", "/upload/", bytes(3_000_000), {"Do": "status:404"})
        assert reply.status == 404 and "nginx" not in reply.text and reply.text != "no such page", reply
