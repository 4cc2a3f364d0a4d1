#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does what README and docs/nginx.md tell a person to do, word by word, on a machine of its own: what it changes there it leaves so.

    bare_root.py --boot 12 tests/tools/try_readme.py
    try_readme.py --commands SECTION     shows the commands of a section, "1" to "5" of README's ten minutes or a heading of nginx.md

It wants root, and systemd as process 1. The last line is "N passed, N failed, N skipped"."""

import os
import re
import sys

import trial
from trial import ROOT, SETTINGS, SHOW, check_answer, demand_a_machine, main_process, reload_nginx, run_tests, shell, state, wait_for


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        return f.read()


def indented(text, by):
    """The lines that are indented so far or further, as they are typed."""
    return "".join(line[by:] + "\n" for line in text.splitlines() if line.startswith(" " * by))


def step(number):
    """The commands of a step of README's ten minutes."""
    minutes = read("README").split("\nTen minutes", 1)[1].split("\nBuilding by hand", 1)[0]
    return indented(re.search(rf"^{number}\. .*?(?=^\S)", minutes, re.M | re.S).group(), 7)


def section(heading):
    """All commands below a heading of docs/nginx.md, and between two words where it has more than that."""
    return indented(read("docs/nginx.md").split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0], 4)


def commands(text, *starts):
    """Those lines of it that begin with one of the words."""
    return "".join(line + "\n" for line in text.splitlines() if line.startswith(starts))


def question():
    """The last step's, asked once."""
    return re.search(r"until (.*)\ndo ", step(5), re.S).group(1)


def answers():
    """Does the last step answer by now?"""
    return trial.answers(question())


# ---- what is tried, in this order ----


def test_a_fresh_install_without_settings_does_not_fail():
    shell(step(1))
    shell("systemctl daemon-reload && systemctl start symbolicated.socket symbolicated.service")
    assert (state("symbolicated.socket"), state("symbolicated.service")) == ("inactive", "inactive")


def test_all_steps_pasted_together():
    # what Debian does at the installation of a service, which policy-rc.d and the like may have kept it from
    shell("systemctl start memcached nginx")
    # nginx's old workers said 404, which curl told in red
    shell("{ " + step(2) + step(3) + step(4) + step(5).replace("curl ", "curl -o /tmp/answer ", 1) + "} 2>/tmp/errors")
    with open("/tmp/answer", encoding="utf-8") as f:
        check_answer(f.read())
    with open("/tmp/errors", encoding="utf-8") as f:
        assert "curl" not in (said := f.read()), said


def test_the_steps_twice_change_nothing():
    shell("sed -i 's/burst=200/burst=201/' /etc/nginx/snippets/symbolicated.d/limits.conf")
    shell("echo '# of mine' >>" + SETTINGS)
    shell(step(2) + step(3) + step(4))
    wait_for("an answer", answers)
    shell(f"grep -q burst=201 /etc/nginx/snippets/symbolicated.d/limits.conf && grep -q '^# of mine' {SETTINGS}")
    assert not os.path.exists("/srv/symbols/symbols")


def test_it_is_started_again_however_often_it_ends():
    for _ in range(12):
        pid = main_process("symbolicated")
        os.kill(pid, 9)
        wait_for("another process", lambda pid=pid: main_process("symbolicated") not in (0, pid))
    wait_for("an answer", answers)


def test_a_wrong_setting_is_not_tried_for_ever():
    """It was 34 times in 20 s, with 200 lines in the journal."""
    shell(f"echo 'no_such_setting = 1' >>{SETTINGS}; date +%s.%N >/tmp/since; systemctl restart symbolicated || :")
    wait_for("its end", lambda: state("symbolicated") == "failed")
    # each request is for the service, until the socket is closed
    wait_for("an end of the socket", lambda: not answers() and state("symbolicated.socket") == "failed")
    lines = shell("journalctl -u symbolicated -u symbolicated.socket -o cat --since @$(cat /tmp/since)").splitlines()
    assert sum("no_such_setting" in line for line in lines) <= 7 and len(lines) <= 60, lines
    shell(f"sed -i '/^no_such_setting/d' {SETTINGS} && systemctl restart symbolicated")
    wait_for("an answer", answers)
    assert state("symbolicated.socket") == "active"


def test_two_responders():
    text = section("Restarts")
    shell(commands(text, "systemctl disable", "systemctl enable"))
    with open("/etc/nginx/snippets/symbolicated.d/servers.conf", "a", encoding="utf-8") as f:
        f.write(commands(text, "server unix"))
    reload_nginx()
    wait_for("an answer", answers)
    shell(f"chgrp symbolicated {SETTINGS} && chmod 0640 {SETTINGS}")
    shell(commands(text, "systemctl restart", "timeout"))
    wait_for("both", lambda: all(os.path.exists(f"/run/symbolicated-{i}/symbolicated.sock") for i in "ab"))
    for other in "ab":
        shell(f"systemctl stop symbolicated@{other}")
        wait_for("an answer", answers)
        shell(f"systemctl start symbolicated@{other}")


def test_a_prefix_of_the_path():
    shell(section("Below a path of the site"))
    reload_nginx()
    with_prefix = question().replace("http://localhost/", "http://localhost/symbols/")
    check_answer(shell(with_prefix))


def main():
    if sys.argv[1:2] == ["--commands"]:
        print(step(sys.argv[2]) if sys.argv[2].isdigit() else section(sys.argv[2]), end="")
        return 0
    demand_a_machine()
    return run_tests(globals(), SHOW, lambda name: name == "test_a_fresh_install_without_settings_does_not_fail")


if __name__ == "__main__":
    sys.exit(main())
