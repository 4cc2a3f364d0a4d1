# SPDX-License-Identifier: Apache-2.0
"""What the tests themselves rely on."""

import os
import subprocess
import sys

FAILS = """
from stack import Stack

def test_that_fails():
    with Stack(memcached=0, nginx=False):
        assert False, "on purpose"
"""


def test_logs_of_a_stack_that_was_stopped_are_in_the_report(tmp_path):
    here = os.path.dirname(os.path.abspath(__file__))
    file = tmp_path / "test_fails.py"
    file.write_text(FAILS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", str(file)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": here}, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "on purpose" in done.stdout, done.stdout + done.stderr
    assert "symbolicated0" in done.stdout and '"event":"start"' in done.stdout, done.stdout
