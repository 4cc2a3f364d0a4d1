#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stranger's walk with crashes of Windows: README's ten minutes, a bucket with the .sym of a PDB, and three texts that get their names by
the web page, curl and symbtool, as docs/stack-text.md, docs/api.md and docs/symbtool.md say. Each command is shown with what it prints.

    bare_root.py --boot 12 tests/tools/try_windows_texts.py

It wants root, and systemd as process 1, and it installs Debian's chromium and chromium-driver. The last line is "N passed, N failed, N skipped"."""

import base64
import json
import os
import re
import subprocess
import sys
import urllib.request
import zlib

from trial import APT, ROOT, SHOW, demand_a_machine, run_tests, shell, wait_for
from try_readme import answers, step

TEXTS = os.path.join("tests", "data", "text", "windows")
ID = "4C4C44445555314450444E4C204455441"
# of each: what a user tells, and the lines that are named
SAMPLES = {
    "event-1000-en.txt": (["app.dll"], [7]),
    "asan-preferred-base.txt": (["app.exe", "app.dll"], [6, 7, 7]),
    "module-ranges.txt": ([], [7, 7]),
}


def shown(command):
    """Runs it as it would be typed, and shows it with its output."""
    printed = shell(command)
    print(f"$ {command}\n{printed}", flush=True)
    return printed


def lines_named(text):
    return [int(line) for line in re.findall(r"crash_here (?:at )?c:\\src\\app\.c:(\d+)", text)]


def test_install_as_readme_says():
    shell(step(1) + step(2) + step(3) + step(4))
    wait_for("an answer", answers)


def test_the_bucket():
    """As docs/buckets.md has it: NAME/ID/NAME.sym. The name and the id stand in the first line of the file."""
    shown(f"head -1 {TEXTS}/app.sym")
    shown(f"mkdir -p /srv/symbols/app.pdb/{ID} && cp {TEXTS}/app.sym /srv/symbols/app.pdb/{ID}/")


def test_curl():
    for name, (modules, lines) in SAMPLES.items():
        query = "&".join(f"module={module}={ID}" for module in modules)
        assert lines_named(shown(f"curl -sS --data-binary @{TEXTS}/{name} 'http://localhost/symbolicate/text?{query}'")) == lines, name


def test_symbtool():
    for name, (modules, lines) in SAMPLES.items():
        options = "".join(f" --module {module}={ID}" for module in modules)
        printed = shown(f"symbtool symbolicate --filter --one-line --url http://localhost{options} {TEXTS}/{name} 2>&1")
        assert lines_named(printed) == lines, name


def link(text, modules):
    """As the page's button "Copy link" makes it: a text and the ids that were typed, which are looked up when the link is opened."""
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(json.dumps({"input": text, "modules": modules}).encode()) + packer.flush()
    return "http://localhost/symbolicate/#i=" + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def drive(method, path, body=None):
    """Asks chromedriver; returns the value of its answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:9515{path}", data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.load(reply)["value"]


def started():
    try:
        return drive("GET", "/status")["ready"]
    except OSError:
        return False


def rows_of(session, url):
    """What the rows of the page say once the answer is there."""
    rows = []

    def shown_rows():
        script = "return document.body.classList.contains('answered') ? [...document.querySelectorAll('#frames .row')].map(one => one.innerText) : []"
        rows[:] = [" ".join(row.split()) for row in drive("POST", f"/session/{session}/execute/sync", {"script": script, "args": []})]
        return rows

    drive("POST", f"/session/{session}/url", {"url": "about:blank"})
    drive("POST", f"/session/{session}/url", {"url": url})
    wait_for("rows", shown_rows)
    return rows


def test_the_page():
    """In Debian's Chromium, as a link opens it."""
    shell(f"{APT} chromium chromium-driver >/dev/null 2>&1")
    with subprocess.Popen(["chromedriver", "--port=9515", "--silent"]) as driver:
        try:
            wait_for("chromedriver", started)
            options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]}
            session = drive("POST", "/session", {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}})["sessionId"]
            for name, (modules, lines) in SAMPLES.items():
                with open(os.path.join(ROOT, TEXTS, name), encoding="utf-8") as f:
                    url = link(f.read(), "\n".join(f"{module} = {ID}" for module in modules))
                rows = rows_of(session, url)
                print(f"opened {url}\n" + "\n".join(rows) + "\n", flush=True)
                assert [int(line) for row in rows if "crash_here" in row for line in re.findall(r"app\.c:(\d+)", row)] == lines, name
            drive("DELETE", f"/session/{session}")
        finally:
            driver.terminate()


if __name__ == "__main__":
    demand_a_machine()
    sys.exit(run_tests(globals(), SHOW))
