#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the Debian packages and does with them what an administrator does, on a machine of its own: what it changes there it leaves so.

    bare_root.py --boot 12 tests/tools/try_package.py

It wants root, and systemd as process 1. The last line is "N passed, N failed, N skipped"."""

import glob
import os
import sys

from trial import APT, SETTINGS, SHOW, answers, ask, demand_a_machine, main_process, reload_nginx, run_tests, shell, state, wait_for

OUT = "/tmp/packages"
ASK = ask("http://localhost")


def package(name, folder=OUT):
    (path,) = glob.glob(f"{folder}/{name}_*.deb")
    return path


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
    assert shell(f"stat -c %U:%G:%a {SETTINGS}").strip() == "root:symbolicated:640"


def test_debians_nginx_answers_through_the_snippets():
    shell(f"""cp -r tests/data/symbols /srv/symbols
        printf 'source = file:///srv/symbols\\nmemcached = 127.0.0.1:11211\\n' >>{SETTINGS}
        systemctl enable --now symbolicated.socket symbolicated
        echo 'include snippets/symbolicated-http.conf;' >/etc/nginx/conf.d/symbolicated.conf
        sed -i '0,/server_name _;/s//&\\n\\tinclude snippets\\/symbolicated-server.conf;/' /etc/nginx/sites-available/default""")
    reload_nginx()
    wait_for("an answer", lambda: answers(ASK))
    for path in ("/symbolicate/", "/symbolicate/page/page.js"):
        shell(f"curl -sf http://localhost{path} | cmp - web/{os.path.basename(path) or 'index.html'}")


def test_an_upgrade_keeps_what_was_changed_and_restarts():
    shell("echo '# of mine' >>/etc/nginx/snippets/symbolicated-location.conf")
    before = main_process()
    shell(f"{APT} -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold {package('symbolicated')}")
    wait_for("another process", lambda: main_process() not in (0, before))
    wait_for("an answer", lambda: answers(ASK))
    shell(f"grep -q '^source = file' {SETTINGS} && grep -q '^# of mine' /etc/nginx/snippets/symbolicated-location.conf")
    package_version = shell("dpkg-query -W -f '${Version}' symbolicated")
    assert package_version in shell("symbolicated --version").split(), package_version


def test_an_upgrade_leaves_a_mode_alone_that_was_chosen():
    shell(f"chmod 0600 {SETTINGS} && chown symbolicated {SETTINGS} && {APT} --reinstall {package('symbolicated')}")
    assert shell(f"stat -c %U:%G:%a {SETTINGS}").strip() == "symbolicated:symbolicated:600"
    shell(f"chown root {SETTINGS} && chmod 0640 {SETTINGS}")
    wait_for("an answer", lambda: answers(ASK))


def test_logs_are_rotated():
    folder = "/var/log/symbolicated"
    shell(f"{APT} logrotate && echo 'log_file = {folder}/server.log' >>{SETTINGS} && systemctl restart symbolicated")
    wait_for("an answer", lambda: answers(ASK))
    shell("logrotate --force /etc/logrotate.d/symbolicated")
    wait_for("an answer and its line in the new file", lambda: answers(ASK) and "v5" in shell(f"cat {folder}/server.log || :"))
    shell(f"grep -q v5 {folder}/server.log.1 && sed -i '/^log_file/d' {SETTINGS} && systemctl restart symbolicated")
    wait_for("an answer", lambda: answers(ASK))


def test_symbtool_needs_no_server():
    shell(f"{APT} {package('symbtool')}")
    assert "symbtool" in shell("symbtool --help; man -w symbtool 2>/dev/null || ls /usr/share/man/man1/symbtool.1.gz")
    text = shell("symbtool symbolicate tests/data/symbols/libc.so.6/5AB31EC08E5A39B16F9FBD350E3169A50/libc.so.6.sym 277722")
    assert "str_to_mpn" in text, text


def test_the_man_pages_and_examples_are_there():
    for path in ("man/man8/symbolicated.8.gz", "man/man8/symbolicated-keys.8.gz", "man/man8/symbolicated-store.8.gz", "man/man8/symbolicated-extract.8.gz", "symbolicated/prometheus/alerts.yml"):
        assert os.path.exists("/usr/share/" + path), path


def test_removed_it_leaves_its_settings_alone():
    shell("rm /etc/nginx/conf.d/symbolicated.conf && sed -i '/symbolicated/d' /etc/nginx/sites-available/default")
    reload_nginx()
    shell("apt-get remove -q -y symbolicated symbtool")
    wait_for("its end", lambda: state("symbolicated") != "active" and state("symbolicated.socket") != "active")
    assert os.path.exists(SETTINGS) and not os.path.exists("/usr/bin/symbolicated")


def test_purged_it_leaves_nothing():
    shell("apt-get purge -q -y symbolicated symbtool && systemctl daemon-reload")
    found = left("*symbolicated*", "*symbtool*")
    assert not found, found


def main():
    demand_a_machine()
    return run_tests(globals(), SHOW)  # each needs what the one before did


if __name__ == "__main__":
    sys.exit(main())
