# SPDX-License-Identifier: Apache-2.0
"""Each state of the web page: a picture of it at the width of a desk and of a phone, light and dark; what axe finds in it; and that
nothing is wider than the screen. PICTURES=FOLDER keeps twelve of them there, as docs/pictures has them."""

import base64
import json
import os

import pytest

from browser import APP, BODY, CHROMIUM, DRIVER, SIZES, Page, axe, driver, front, stack  # noqa: F401
from stack import ROOT
from symbols import debug_id

from selenium.webdriver.common.keys import Keys

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromium-driver are not installed")]

SMALL = ("symbolicated.d/max-body.conf", r"client_max_body_size 32m", "client_max_body_size 32k")
SLOW_RATE = ("symbolicated-http.conf", r"rate=50r/s", "rate=1r/m")
NO_BURST = ("symbolicated.d/limits.conf", r" burst=200 nodelay", "")
NOBODY_ALLOWED = ("symbolicated.d/allow.conf", r"127\.0\.0\.0/8 1;", "127.0.0.0/8 0;")


@pytest.fixture(scope="module")
def small(stack):
    with front(stack, "small", SMALL) as nginx:
        yield nginx


@pytest.fixture(scope="module")
def busy(stack):
    with front(stack, "busy", NOBODY_ALLOWED, SLOW_RATE, NO_BURST) as nginx:
        yield nginx


@pytest.fixture
def page(driver, stack):
    one = Page(driver, stack.node.nginx.port).open(full=False)
    yield one
    one.quiet()


# The pictures of docs/pictures, by state; that of a phone is a crash report's.
KEPT = {
    "empty": "empty", "stacks": "asan", "clickhouse": "clickhouse", "frames": "perf", "python": "python", "macos": "macos", "windows": "windows",
    "wide": "wide-cpp", "error": "error", "429": "429", "sixty-thousand": "60000-frames",
}  # fmt: skip


def keep(page, state, size, scheme):
    name = "phone" if state == "stacks" and size == "phone" else KEPT.get(state) if size == "wide" else None
    if name and os.environ.get("PICTURES"):
        os.makedirs(os.environ["PICTURES"], exist_ok=True)
        taken = page.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": 85})
        with open(os.path.join(os.environ["PICTURES"], f"{name}-{scheme}.webp"), "wb") as f:
            f.write(base64.b64decode(taken["data"]))


def look_at(page, state):
    script = axe()
    if script:
        page.run(script)
    for scheme in ("light", "dark"):
        for size in SIZES:
            page.look(size, scheme)
            page.run("scrollTo(0, 0)")
            page.shot(f"{state}-{size}-{scheme}")
            keep(page, state, size, scheme)
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


# Of programs whose symbols are not there, but that name frames themselves.
CLICKHOUSE = "".join(
    f"2023.08.08 05:58:02.2828{i:02d} [ 340 ] {{}} <Fatal> BaseDaemon: {3 + i}. {frame}\n" for i, frame in enumerate((
        "./src/Common/Exception.cpp:102: DB::Exception::Exception(DB::Exception::MessageMasked&&, int, bool) @ 0x000000000e5a1b2c in /usr/bin/clickhouse",
        "./src/Interpreters/executeQuery.cpp:711: DB::executeQueryImpl(char const*, std::shared_ptr<DB::Context>, bool) @ 0x0000000012f0 in /usr/bin/clickhouse",
        "? @ 0x000000000ea0704f in /usr/bin/clickhouse", "? @ 0x00007f9c96745609 in ?",
    ))
)  # fmt: skip
MACOS = """Process:  MyApp [4242]
Thread 0 Crashed:: Dispatch queue: com.apple.main-thread
0   libsystem_kernel.dylib        \t0x00007ff80f5c2e22 __pthread_kill + 10
1   libsystem_c.dylib             \t0x00007ff80f547cb4 abort + 123
2   MyApp                         \t0x0000000104b5c8d4 0x104b58000 + 18644
3   MyApp                         \t0x0000000104b5b120 0x104b58000 + 12576

Binary Images:
       0x104b58000 -        0x104b5ffff com.example.MyApp (1.0) <44e4ec8c-2f41-492b-9369-d6b9a059577c> /Applications/MyApp.app/MyApp
"""
WINDOWS = """ # Child-SP          RetAddr               Call Site
00 000000c8`2a0ff5c8 00007ff7`12341234     KERNELBASE!RaiseFailFastException+0x74
01 (Inline Function) --------`--------     app!ns::check<int>+0x12 [C:\\src\\app\\check.cpp @ 8]
02 000000c8`2a0ff5d0 00007ff7`12341240     app+0x20d90
03 000000c8`2a0ff6d0 00007ff7`12341280     app+0x1a2b
"""
MAP = "std::_Rb_tree<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, std::pair<std::__cxx11::basic_string<char> const, int> >"
WIDE = "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x6040000000b0\nREAD of size 4 at 0x6040000000b0 thread T0\n" + "".join(
    f"    #{i} 0x55d9c3a0{i}014 in {frame}\n" for i, frame in enumerate((
        f"{MAP}::_M_lower_bound(std::_Rb_tree_node_base*) /usr/include/c++/12/bits/stl_tree.h:1951:3", f"{MAP}::find(int const&) /usr/include/c++/12/bits/stl_tree.h:2530:7",
        "db::(anonymous namespace)::Arena<std::vector<int, std::allocator<int> >, db::Policy<8> >::allocate(unsigned long) /home/builder/src/project/db/arena.cc:204:3",
        "db::Memtable::add(db::Slice const&, db::Slice const&) /home/builder/src/project/db/memtable.cc:33:3",
        "db::run<int, std::function<void (int)> >(int)::{lambda(int, char const*)#1}::operator()(int, char const*) const /home/builder/src/project/db/run.cc:7:3",
        "main /home/builder/src/project/main.cc:3:1", "__libc_start_call_main (/lib/x86_64-linux-gnu/libc.so.6+0x27249)", "__libc_start_main_impl (/lib/x86_64-linux-gnu/libc.so.6+0x27304)",
    ))
)  # fmt: skip


@pytest.mark.parametrize("state", ["clickhouse", "python", "macos", "windows", "wide"])
def test_formats(page, state):
    with open(os.path.join(ROOT, "tests", "data", "text", "crash", "python.txt"), encoding="utf-8") as f:
        text = {"clickhouse": CLICKHOUSE, "python": f.read(), "macos": MACOS, "windows": WINDOWS, "wide": WIDE}[state]
    page.send(text)
    page.wait("the frames", lambda: not page.shows("cancel") and page.rows())
    look_at(page, state)


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
    want = {"input", "send", "open", "clear", "link", "view-frames", "view-report", "filter", "fold", "full", "copy-report", "copy-frames", "copy-json", "2 frames of libc.so.6", "Give its id"}
    for _ in range(80):
        page.driver.switch_to.active_element.send_keys(Keys.TAB)
        name, style = page.run("const one = document.activeElement; return [one.id || one.innerText, getComputedStyle(one).outlineStyle]")
        seen[name] = style
        if want <= set(seen):
            break
    assert want <= set(seen), seen
    assert all(style != "none" for name, style in seen.items() if name in want), seen
