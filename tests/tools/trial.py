# SPDX-License-Identifier: Apache-2.0
"""What try_readme.py, try_package.py and try_container.py share: commands as they are typed, and tests that follow each other on a
machine of their own."""

import json
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SETTINGS = "/etc/symbolicated/symbolicated.conf"
# README: sudo is not needed for root.
PREAMBLE = 'set -e\nsudo() { "$@"; }\nexport DEBIAN_FRONTEND=noninteractive\n'
APT = "apt-get install -q -y --no-install-recommends"
SAMPLE = '{"memoryMap":[["libc.so.6","5AB31EC08E5A39B16F9FBD350E3169A50"]],"stacks":[[[0,277722]]]}'
BOUND = 60  # seconds until something must have happened


def shell(text):
    """Runs commands in the checkout; returns what they print."""
    done = subprocess.run(["bash", "-c", PREAMBLE + text], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"exit code {done.returncode} of:\n{text}\n{done.stdout[-4000:]}")
    return done.stdout


def wait_for(what, condition):
    end = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < end, f"not within {BOUND} s: {what}"
        time.sleep(0.1)


def state(unit):
    return subprocess.run(["systemctl", "is-active", unit], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()


def main_process(unit="symbolicated"):
    return int(shell(f"systemctl show --property MainPID --value {unit}"))


def nginx_workers():
    return set(shell("pid=$(cat /run/nginx.pid) && cat /proc/$pid/task/$pid/children").split())


def reload_nginx():
    """Until no worker with the old configuration answers."""
    before = nginx_workers()
    shell("nginx -t && systemctl reload nginx")
    wait_for("nginx's new workers", lambda: nginx_workers() and not nginx_workers() & before)


def check_answer(text):
    """Of README's request."""
    frame = json.loads(text)["results"][0]["stacks"][0][0]
    assert (frame["function"], frame["line"]) == ("str_to_mpn", 393) and len(frame["inlines"]) == 1, frame


def ask(url):
    """The command that asks README's request."""
    return f"curl -sf {url}/symbolicate/v5 -d '{SAMPLE}'"


def answers(command):
    """Does this command print the answer by now?"""
    done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode == 0 and check_answer(done.stdout) is None


def run_tests(tests, show="", is_last=lambda name: True):
    """Runs the functions named test_… in their order; after a failure runs the commands `show`, and goes on unless is_last of its
    name. Prints the counts; returns the exit code."""
    passed = failed = 0
    for name, test in [(n, t) for n, t in tests.items() if n.startswith("test_")]:
        print(f"== {name}", flush=True)
        started = time.monotonic()
        try:
            test()
            passed += 1
        except AssertionError as e:
            failed += 1
            print(e, flush=True)
            subprocess.run(show, shell=True, check=False)
            if is_last(name):
                break
        finally:
            print(f"== {name}: {time.monotonic() - started:.0f} s", flush=True)
    print(f"{passed} passed, {failed} failed, 0 skipped", flush=True)
    return int(failed > 0)


def demand_a_machine():
    if os.getuid() != 0 or not os.path.isdir("/run/systemd/system"):
        program = os.path.basename(sys.argv[0])
        sys.exit(f"{program}: it wants root and a systemd, and changes the machine: bare_root.py --boot 12 tests/tools/{program}")


SHOW = "systemctl status --no-pager --lines 20 'symbolicated*' nginx; tail -n 5 /var/log/nginx/error.log"
