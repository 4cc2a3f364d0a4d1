#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the Debian packages and does with them what an administrator does, on a machine of its own: what it changes there it leaves so.

    bare_root.py --boot 12 tests/tools/try_package.py

It wants root, and systemd as process 1. The last line is "N passed, N failed, N skipped"."""

import glob
import json
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = "/tmp/packages"
SETTINGS = "/etc/symbolicated/symbolicated.conf"
SAMPLE = '{"memoryMap":[["libc.so.6","EC61AC938E5A39B16F9FBD350E3169A50"]],"stacks":[[[0,277722]]]}'
APT = "apt-get install -q -y --no-install-recommends"
BOUND = 60  # seconds until something must have happened


def shell(text):
    """Runs commands; returns what they print."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(["bash", "-ec", text], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"exit code {done.returncode} of:\n{text}\n{done.stdout[-4000:]}")
    return done.stdout


def wait_for(what, condition):
    end = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < end, f"not within {BOUND} s: {what}"
        time.sleep(0.1)


def package(name, folder=OUT):
    (path,) = glob.glob(f"{folder}/{name}_*.deb")
    return path


def state(unit):
    return subprocess.run(["systemctl", "is-active", unit], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()


def answers():
    done = subprocess.run(
        ["curl", "-sf", "http://localhost/symbolicate/v5", "-d", SAMPLE], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        return False
    frame = json.loads(done.stdout)["results"][0]["stacks"][0][0]
    assert (frame["function"], frame["line"]) == ("str_to_mpn", 393), frame
    return True


def main_process():
    return int(shell("systemctl show --property MainPID --value symbolicated"))


def left(*names):
    """Files of these names that are there, but for this checkout and what the test made."""
    prune = " ".join(f"-path {p} -prune -o" for p in ("/proc", "/sys", "/dev", "/src", "/tmp", "/var/cache/apt", "/srv", "/root"))
    return shell(f"find / {prune} " + " -o ".join(f"-name '{name}' -print" for name in names)).split()


# ---- what is tried, in this order ----


def test_one_command_builds_them_and_lintian_has_nothing_to_say():
    shell(f"apt-get update -q && {APT} lintian curl git")
    shell(f"./package {OUT}")


def test_an_older_build_is_installed_and_waits_for_a_source():
    """The build before: a lower version, and another text of the settings' file."""
    shell(f"""mkdir -p /tmp/older && dpkg-deb -R {package('symbolicated')} /tmp/older/tree
        sed -i 's/^Version: .*/Version: 0.0.1/' /tmp/older/tree/DEBIAN/control
        echo '# an older text' >>/tmp/older/tree{SETTINGS}
        dpkg-deb -b /tmp/older/tree /tmp/older/symbolicated_0.0.1.deb
        {APT} /tmp/older/symbolicated_0.0.1.deb nginx memcached
        systemctl start nginx memcached""")
    assert (state("symbolicated.socket"), state("symbolicated.service")) == ("inactive", "inactive")
    shell("getent passwd symbolicated; ! systemctl --failed | grep symbolicated")


def test_debians_nginx_answers_through_the_snippets():
    shell(f"""cp -r tests/data/symbols /srv/symbols
        printf 'source = file:///srv/symbols\\nmemcached = 127.0.0.1:11211\\n' >>{SETTINGS}
        systemctl enable --now symbolicated.socket symbolicated
        echo 'include snippets/symbolicated-http.conf;' >/etc/nginx/conf.d/symbolicated.conf
        sed -i '0,/server_name _;/s//&\\n\\tinclude snippets\\/symbolicated-server.conf;/' /etc/nginx/sites-available/default
        nginx -t && systemctl reload nginx""")
    wait_for("an answer", answers)
    for path in ("/symbolicate/", "/symbolicate/page/page.js"):
        shell(f"curl -sf http://localhost{path} | cmp - web/{os.path.basename(path) or 'index.html'}")


def test_an_upgrade_keeps_what_was_changed_and_restarts():
    shell("echo '# of mine' >>/etc/nginx/snippets/symbolicated-location.conf")
    before = main_process()
    shell(f"{APT} -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold {package('symbolicated')}")
    wait_for("another process", lambda: main_process() not in (0, before))
    wait_for("an answer", answers)
    shell(f"grep -q '^source = file' {SETTINGS} && grep -q '^# of mine' /etc/nginx/snippets/symbolicated-location.conf")
    version = shell("symbolicated --version").split()
    assert any(word.startswith("0.1") or word.startswith("1.") for word in version), version


def test_symbtool_needs_no_server():
    shell(f"{APT} {package('symbtool')}")
    assert "symbtool" in shell("symbtool --help; man -w symbtool 2>/dev/null || ls /usr/share/man/man1/symbtool.1.gz")
    text = shell("symbtool lookup tests/data/symbols/libc.so.6/EC61AC938E5A39B16F9FBD350E3169A50/libc.so.6.sym 277722")
    assert "str_to_mpn" in text, text


def test_the_man_pages_and_examples_are_there():
    for path in ("man/man8/symbolicated.8.gz", "man/man8/symbolicated-keys.8.gz", "symbolicated/prometheus/alerts.yml"):
        assert os.path.exists("/usr/share/" + path), path


def test_removed_it_leaves_its_settings_alone():
    shell("rm /etc/nginx/conf.d/symbolicated.conf && sed -i '/symbolicated/d' /etc/nginx/sites-available/default")
    shell("systemctl reload nginx && apt-get remove -q -y symbolicated symbtool")
    wait_for("its end", lambda: state("symbolicated") != "active" and state("symbolicated.socket") != "active")
    assert os.path.exists(SETTINGS) and not os.path.exists("/usr/bin/symbolicated")


def test_purged_it_leaves_nothing():
    shell("apt-get purge -q -y symbolicated symbtool && systemctl daemon-reload")
    found = left("*symbolicated*", "*symbtool*")
    assert not found, found


def main():
    if os.getuid() != 0 or not os.path.isdir("/run/systemd/system"):
        sys.exit("try_package.py: it wants root and a systemd, and changes the machine: bare_root.py --boot 12 tests/tools/try_package.py")
    passed = failed = 0
    for name, test in list(globals().items()):
        if not name.startswith("test_"):
            continue
        print(f"== {name}", flush=True)
        try:
            test()
            passed += 1
        except AssertionError as e:
            failed += 1
            print(e, flush=True)
            subprocess.run("systemctl status --no-pager --lines 20 'symbolicated*' nginx; tail -n 5 /var/log/nginx/error.log", shell=True, check=False)
            break  # each needs what the one before did
    print(f"{passed} passed, {failed} failed, 0 skipped", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
