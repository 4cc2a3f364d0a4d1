# SPDX-License-Identifier: Apache-2.0
"""Each state of the web page: a picture of it at the width of a desk and of a phone, light and dark; what axe finds in it; and that
nothing is wider than the screen."""

import json

import pytest

from browser import APP, BODY, CHROMIUM, DRIVER, SIZES, Page, axe, browser, front, served
from symbols import debug_id

from selenium.webdriver.common.keys import Keys

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromium-driver are not installed")]

SMALL = ("symbolicated.d/max-body.conf", r"client_max_body_size 32m", "client_max_body_size 32k")
SLOW_RATE = ("symbolicated-http.conf", r"rate=50r/s", "rate=1r/m")
NO_BURST = ("symbolicated.d/limits.conf", r" burst=200 nodelay", "")
NOBODY_ALLOWED = ("symbolicated.d/allow.conf", r"127\.0\.0\.0/8 1;", "127.0.0.0/8 0;")


@pytest.fixture(scope="module")
def stack():
    with served() as s:
        yield s


@pytest.fixture(scope="module")
def small(stack):
    with front(stack, "small", SMALL) as nginx:
        yield nginx


@pytest.fixture(scope="module")
def busy(stack):
    with front(stack, "busy", NOBODY_ALLOWED, SLOW_RATE, NO_BURST) as nginx:
        yield nginx


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("chromium")) as d:
        yield d


@pytest.fixture
def page(driver, stack):
    one = Page(driver, stack.node.nginx.port).open()
    yield one
    one.quiet()


def look_at(page, state):
    script = axe()
    if script:
        page.run(script)
    for scheme in ("light", "dark"):
        for size in SIZES:
            page.look(size, scheme)
            page.run("scrollTo(0, 0)")
            page.shot(f"{state}-{size}-{scheme}")
            assert page.fits(), (state, size)
            if script is None:
                continue
            found = page.driver.execute_async_script("axe.run().then(r => arguments[0](r.violations))")
            assert not found, json.dumps([(v["id"], [(n["html"], n["failureSummary"]) for n in v["nodes"]][:3]) for v in found], indent=1)
    if script is None:
        pytest.skip("the pictures are there, but npm is not installed, or does not have axe-core")


def test_empty(page):
    look_at(page, "empty")


def test_waiting(page, stack):
    slow = ["slow", debug_id("slow")]
    stack.symbols.add(slow[0], BODY, slow[1])
    stack.bucket.misbehave(slow, "stall")
    try:
        page.send(json.dumps({"memoryMap": [slow], "stacks": [[[0, 0x1000]]]}))
        page.wait("the word", lambda: "Waiting" in page.text("progress"))
        look_at(page, "waiting")
        page.click("cancel")
    finally:
        stack.bucket.reset()


def test_frames(page):
    page.sample("profile").result("PrimaryLogPG")
    look_at(page, "frames")


def test_several_stacks(page):
    page.sample("crash").result("order(")
    look_at(page, "stacks")


def test_report(page):
    page.sample("crash").result("order(")
    page.click("view-report")
    page.wait("the report", lambda: page.rows("report"))
    look_at(page, "report")


def test_missing_modules(page):
    page.sample("json").result("str_to_mpn")
    look_at(page, "missing")


def test_a_report_without_ids(page):
    page.send("==7==ERROR: AddressSanitizer: SEGV\n    #0 0x55d9c3a01014  (/opt/app+0x1014)\n    #1 0x7f3fa0e45249  (/opt/libextra.so+0x27249)\n")
    page.result("app+0x1014")
    look_at(page, "no-ids")


def test_an_unknown_format(page):
    page.send("Dear sir,\nthe program does not work since yesterday. It says:\n#1 plugin+0x1234 (unknown)\n")
    page.wait("the word", lambda: page.shows("unknown"))
    look_at(page, "unknown")


def test_an_error_in_the_input(page):
    page.send('{"memoryMap": [["a", "1"]],\n "stacks": [[[0, 1], [7, 2]]]}').error("module_index 7")
    look_at(page, "error")


def test_429(driver, busy):
    page = Page(driver, busy.port).open()
    page.ask(0x1000).result("main")
    page.click("send")
    page.wait("the countdown", lambda: "Too many requests: trying again in" in page.text("progress"))
    assert not page.shows("result")
    look_at(page, "429")


def test_413(driver, small):
    page = Page(driver, small.port).open()
    page.send("x" * 40_000).error("too large")
    look_at(page, "413")


def test_offline(driver, stack):
    with front(stack, "gone") as nginx:
        page = Page(driver, nginx.port).open()
        page.ask(0x1000).result("main")
    page.click("send").error("No answer from the server")
    assert not page.shows("result")
    look_at(page, "offline")


def test_sixty_thousand_frames(page):
    page.ask(*[0x1000 + i % 32 for i in range(60_000)])
    page.wait("the summary", lambda: "60,000 frames" in page.text("summary"))
    page.result("main")
    look_at(page, "sixty-thousand")


def test_by_keyboard_alone(page):
    """Tab reaches everything that can be used, and each place shows that it has the focus."""
    page.sample("crash").result("order(")
    page.run("document.activeElement.blur(); scrollTo(0, 0)")
    seen = {}
    want = {"input", "send", "open", "clear", "link", "view-frames", "view-report", "filter", "fold", "copy-report", "copy-frames", "copy-markdown", "copy-json", "2 frames of libc.so.6", "Give its id"}
    for _ in range(80):
        page.driver.switch_to.active_element.send_keys(Keys.TAB)
        name, style = page.run("const one = document.activeElement; return [one.id || one.innerText, getComputedStyle(one).outlineStyle]")
        seen[name] = style
        if want <= set(seen):
            break
    assert want <= set(seen), seen
    assert all(style != "none" for name, style in seen.items() if name in want), seen
