#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the Debian packages and does with them what an administrator does, on a machine of its own: what it changes there it leaves so.

    bare_root.py --boot 12 tests/tools/try_package.py

It wants root, and systemd as process 1. The last line is "N passed, N failed, N skipped"."""

import glob
import os
import re
import shutil
import subprocess
import sys

from trial import APT, ROOT, SETTINGS, SHOW, answers, ask, demand_a_machine, main_process, reload_nginx, run_tests, shell, state, wait_for

OUT = "/tmp/packages"
OLD = "/tmp/symbolicated_1.0.0.deb"
OLD_FILES = os.path.join(ROOT, "tests", "data", "package-1.0.0")
SNIPPETS = "/etc/nginx/snippets"
OLD_SNIPPETS = sorted(os.listdir(f"{OLD_FILES}{SNIPPETS}"))
ASK = ask("http://localhost")
KEEP = "dpkg --force-confdef --force-confold -i"  # what dpkg proposes


def package(name, folder=OUT):
    (path,) = glob.glob(f"{folder}/{name}_*.deb")
    return path


def left(*names):
    """Files of these names that are there, but for this checkout and what the test made."""
    prune = " ".join(f"-path {p} -prune -o" for p in ("/proc", "/sys", "/dev", "/src", "/tmp", "/var/cache/apt", "/srv", "/root"))
    return shell(f"find / {prune} " + " -o ".join(f"-name '{name}' -print" for name in names)).split()


def make_old_package():
    """Version 1.0.0's package with this build's programs, whose libraries this Debian has."""
    tree, new = "/tmp/older", "/tmp/newer"
    shell(f"rm -rf {tree} {new} && dpkg-deb -R {package('symbolicated')} {new}")
    shutil.copytree(OLD_FILES, tree)
    os.remove(f"{tree}/README")
    units = os.path.dirname(shell(f"cd {new} && find . -name 'symbolicated@.service'").strip())
    if os.path.normpath(units) != "usr/lib/systemd/system":
        shell(f"cd {tree} && mkdir -p {units} && mv usr/lib/systemd/system/* {units} && rm -r usr/lib/systemd")
    shell(f"mkdir {tree}/usr/bin && cp -p {new}/usr/bin/* {tree}/usr/bin && chmod 0755 {tree}/DEBIAN/p* && chmod -R go-w {tree}")
    with open(f"{new}/DEBIAN/control", encoding="utf-8") as f:
        (depends,) = re.findall(r"^Depends: .*$", f.read(), re.M)
    with open(f"{tree}/DEBIAN/control", encoding="utf-8") as f:
        control, count = re.subn(r"^Depends: .*$", lambda _: depends, f.read(), flags=re.M)
    assert count == 1
    with open(f"{tree}/DEBIAN/control", "w", encoding="utf-8") as f:
        f.write(control)
    shell(f"dpkg-deb --root-owner-group -b {tree} {OLD}")


def old_again():
    """Version 1.0.0 as it is right after its installation, with a source."""
    shell(f"dpkg --purge symbolicated && rm -f {SNIPPETS}/symbolicated-* && {KEEP} {OLD}")
    set_up()


def set_up():
    """The includes are those that version 1.0.0 documented."""
    shell(f"""printf 'source = file:///srv/symbols\\nmemcached = 127.0.0.1:11211\\n' >>{SETTINGS}
        systemctl enable -q --now symbolicated.socket symbolicated
        echo 'include snippets/symbolicated-http.conf;' >/etc/nginx/conf.d/symbolicated.conf
        grep -q symbolicated /etc/nginx/sites-available/default ||
            sed -i '0,/server_name _;/s//&\\n\\tinclude snippets\\/symbolicated-server.conf;/' /etc/nginx/sites-available/default""")
    reload_nginx()
    wait_for("an answer", lambda: answers(ASK))


def upgrade():
    """Returns what it said."""
    before = main_process()
    said = shell(f"{KEEP} {package('symbolicated')} 2>&1")
    reload_nginx()
    wait_for("another process", lambda: main_process() not in (0, before))
    wait_for("an answer", lambda: answers(ASK))
    return said


def has_new_routes():
    return shell("curl -s -o /dev/null -w '%{content_type}' http://localhost/api/missing") == "application/json"


# ---- what is tried, in this order ----


def test_one_command_builds_them_and_lintian_has_nothing_to_say():
    shell(f"apt-get update -q && {APT} lintian curl git ccache")
    # a compiler that remembers what it made of the same sources, wherever they lay
    shell(f"PATH=/usr/lib/ccache:$PATH CCACHE_DIR=/var/cache/ccache CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=/tmp ./package {OUT}")


def test_version_1_0_is_installed_and_waits_for_a_source():
    make_old_package()
    shell(f"{APT} {OLD} nginx memcached && systemctl start nginx memcached && cp -r tests/data/symbols /srv/symbols")
    assert (state("symbolicated.socket"), state("symbolicated.service")) == ("inactive", "inactive")
    shell("getent passwd symbolicated; ! systemctl --failed | grep symbolicated")


def test_version_1_0_answers_through_debians_nginx():
    set_up()
    assert not has_new_routes()


def test_an_upgrade_from_version_1_0_brings_the_new_snippets():
    said = upgrade()
    assert SNIPPETS not in said, said
    assert has_new_routes()
    shell(f"grep -q '^source = file' {SETTINGS}")
    assert shell(f"stat -c %U:%G:%a {SETTINGS}").strip() == "root:symbolicated:640"
    package_version = shell("dpkg-query -W -f '${Version}' symbolicated")
    assert package_version in shell("symbolicated --version").split(), package_version
    shell("web/join.sh >/tmp/page.html && curl -sf http://localhost/symbolicate/ | cmp - /tmp/page.html")
    shell("curl -sf http://localhost/symbolicate/page/site.json | cmp - web/site.json")


def test_a_rollback_and_an_upgrade_again():
    shell(f"{KEEP} {OLD} 2>&1")
    reload_nginx()
    wait_for("an answer", lambda: answers(ASK))
    assert SNIPPETS not in upgrade() and has_new_routes()


def test_an_upgrade_keeps_each_file_of_version_1_0_that_was_changed():
    """nginx stopped for all sites, where symbolicated-http.conf was kept and the others replaced."""
    for name in OLD_SNIPPETS:
        old_again()
        shell(f"echo '# of mine' >>{SNIPPETS}/{name}")
        said = upgrade()
        changed = [file for file in OLD_SNIPPETS if f"  {SNIPPETS}/{file}\n" in said]
        assert changed == [name], said
        shell(f"grep -q '^# of mine' {SNIPPETS}/{name} && systemctl restart nginx")
        wait_for("an answer", lambda: answers(ASK))


def test_the_kept_files_are_taken_over():
    shell(f"/usr/share/symbolicated/nginx/install --force && grep -q '^# of mine' {SNIPPETS}/{OLD_SNIPPETS[-1]}.old")
    reload_nginx()
    wait_for("an answer", lambda: answers(ASK))
    assert has_new_routes()


def test_an_upgrade_keeps_each_file_that_is_to_be_changed():
    files = sorted(glob.glob(f"{SNIPPETS}/symbolicated.d/*.conf"))
    assert files
    for path in files:
        shell(f"echo '# of mine' >>{path}")
    upgrade()
    for path in files:
        shell(f"grep -q '^# of mine' {path}")


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


def socket_of(name):
    return f"/run/symbolicated-{name}/symbolicated.sock"


def test_two_responders_are_upgraded_one_after_the_other():
    """They went on with the old program."""
    shell(f"""systemctl disable -q --now symbolicated.socket symbolicated
        systemctl enable -q --now symbolicated@a symbolicated@b
        printf 'server unix:%s max_fails=0;\\n' {socket_of('a')} {socket_of('b')} >{SNIPPETS}/symbolicated.d/servers.conf""")
    wait_for("both", lambda: all(os.path.exists(socket_of(name)) for name in "ab"))
    reload_nginx()
    before = {name: main_process(f"symbolicated@{name}") for name in "ab"}
    asked = subprocess.Popen(["sh", "-c", f"while [ ! -e /tmp/enough ]; do {ASK} -o /dev/null || echo $?; done"], stdout=subprocess.PIPE, text=True)
    try:
        shell(f"{KEEP} {package('symbolicated')}")
    finally:
        shell("touch /tmp/enough")
        failures = asked.communicate()[0]
        os.remove("/tmp/enough")
    for name in "ab":
        assert main_process(f"symbolicated@{name}") not in (0, before[name])
    times = [int(shell(f"systemctl show --property ActiveEnterTimestampMonotonic --value symbolicated@{name}")) for name in "ab"]
    assert not failures, failures
    assert times[0] < times[1] and (state("symbolicated.socket"), state("symbolicated")) == ("inactive", "inactive")


def test_the_group_of_a_store_stays():
    """systemd changed the group of all that is in it whenever the other kind of unit was started."""
    path = "/var/lib/symbolicated/a/b"
    shell(f"install -d -o symbolicated -g symbolicated {os.path.dirname(path)} && install -o symbolicated -g symbolicated -m 0600 /dev/null {path}")
    before = os.stat(path).st_ctime_ns
    shell("systemctl restart symbolicated@a && systemctl start symbolicated && systemctl stop symbolicated.socket symbolicated && systemctl restart symbolicated@b")
    wait_for("both", lambda: all(os.path.exists(socket_of(name)) for name in "ab"))
    assert os.stat(path).st_ctime_ns == before
    shell("rm -r /var/lib/symbolicated/a")


def test_an_instance_may_write_its_log_and_its_store():
    pid = main_process("symbolicated@a")
    for folder in ("/var/lib/symbolicated", "/var/log/symbolicated"):
        words = f"nsenter -t {pid} -m setpriv --reuid symbolicated --regid www-data --clear-groups"
        shell(f"{words} touch {folder}/x && rm {folder}/x && ! {words} touch /var/lib/x 2>/dev/null")


def test_the_man_pages_and_examples_are_there():
    for path in ("man/man8/symbolicated.8.gz", "man/man8/symbolicated-keys.8.gz", "man/man8/symbolicated-store.8.gz", "man/man8/symbolicated-extract.8.gz", "symbolicated/prometheus/alerts.yml"):
        assert os.path.exists("/usr/share/" + path), path


def test_its_documents_have_no_dead_links():
    folder = "/usr/share/doc/symbolicated"
    texts = [f"{folder}/README", *glob.glob(f"{folder}/docs/*.md")]
    assert len(texts) > 10
    for path in texts:
        with open(path, encoding="utf-8") as f:
            links = re.findall(r"\]\(([^)#:\s]+)[^):]*\)", f.read())
        dead = [link for link in links if not os.path.exists(os.path.join(os.path.dirname(path), link))]
        assert not dead, (path, dead)


def test_removed_it_leaves_its_settings_alone():
    shell("apt-get remove -q -y symbolicated symbtool")
    units = ("symbolicated", "symbolicated.socket", "symbolicated@a", "symbolicated@b")
    wait_for("its end", lambda: all(state(unit) != "active" for unit in units))
    assert not shell("pgrep -x symbolicated || :") and not glob.glob("/etc/systemd/system/*.wants/symbolicated@*")
    assert os.path.exists(SETTINGS) and not os.path.exists("/usr/bin/symbolicated")
    shell("systemctl restart nginx && curl -s -o /dev/null http://localhost/")


def test_purged_it_leaves_an_nginx_that_starts():
    """Its includes are still there."""
    shell("apt-get purge -q -y symbolicated symbtool && systemctl daemon-reload && systemctl restart nginx && curl -s -o /dev/null http://localhost/")


def test_installed_again_it_answers():
    shell(f"{KEEP} {package('symbolicated')}")
    set_up()
    assert has_new_routes()


def test_purged_it_leaves_nothing():
    shell("rm /etc/nginx/conf.d/symbolicated.conf && sed -i '/symbolicated/d' /etc/nginx/sites-available/default")
    reload_nginx()
    shell("apt-get purge -q -y symbolicated && systemctl daemon-reload")
    found = left("*symbolicated*", "*symbtool*")
    assert not found, found


def main():
    demand_a_machine()
    return run_tests(globals(), SHOW)  # each needs what the one before did


if __name__ == "__main__":
    sys.exit(main())
