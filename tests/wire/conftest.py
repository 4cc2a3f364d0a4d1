# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the wire tests, and what is looked at after each of them."""

import collections
import os

import pytest

import stack as stacks
from symbols import compile_gensym


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes a second or more; ./check without arguments leaves it out")
    config.addinivalue_line("markers", "quick: ./check without arguments runs it although it is slow, as the one of its kind")
    config.addinivalue_line("markers", "plain: a sanitizer has nothing new to see: it runs another of its kind, or it is about other programs")
    config.addinivalue_line("markers", "in_turn: one request after the other, as others that ThreadSanitizer runs: it has nothing new to see")


def pytest_collection_modifyitems(items):
    """Files with tests that need the S3 server come last: it may still be under way (tests/tools/check.py), and who needs it waits.
    Those with many slow tests come first, so that no worker is left alone with them at the end."""
    slow = collections.Counter(item.module for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: (hasattr(item.module, "program_or_fail"), -slow[item.module]))


@pytest.fixture(autouse=True)
def healthy():
    """No daemon may have ended by itself or reported through a sanitizer while a test ran."""
    yield
    for live in list(stacks.LIVE):
        live.check()


@pytest.fixture(scope="session")
def gensym(tmp_path_factory):
    return compile_gensym(str(tmp_path_factory.mktemp("gensym")))


@pytest.fixture(scope="session")
def shared_data():
    """The folder of large real inputs, or None where there is none."""
    folder = os.environ.get("SHARED_DATA", os.path.join(os.path.dirname(stacks.ROOT), "shared", "data"))
    return folder if os.path.isdir(folder) else None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for live in stacks.LIVE:
            report.sections += live.logs()
        report.sections += stacks.LEFT
    stacks.LEFT.clear()


def pytest_collection_finish(session):
    """One plain line instead of a thousand failures when nothing has been built."""
    binary = stacks.DAEMON[-1]
    wanted = any(hasattr(item.module, "Stack") for item in session.items)
    if wanted and not session.config.option.collectonly and not os.path.exists(binary):
        pytest.exit(f"{binary} is not there: build it, or name another one with SYMBOLICATED", returncode=2)
