# SPDX-License-Identifier: Apache-2.0
"""The web page in headless Chromium, through nginx: what a person does with it, and what hostile names and texts may not do.
Screenshots are kept in build/screenshots, or in SCREENSHOTS."""

import base64
import contextlib
import glob
import json
import os
import shutil
import subprocess
import tarfile
import time

import pytest

from stack import ROOT, Stack, wait_for
from symbols import debug_id

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.chrome.options import Options  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromium-driver are not installed")
BOUND = 90
SHOTS = os.environ.get("SCREENSHOTS", os.path.join(ROOT, "build", "screenshots"))
AXE = "4.10.2"

HOSTILE = "<img src=x onerror=alert(1)>\u202eevil</script>&amp;" + "A" * 100_000
APP = ["app", debug_id("app")]
TEXT = """==7==ERROR: AddressSanitizer: heap-use-after-free
    #0 0x55d9c3a01014  (/opt/app+0x1014)
    #1 0x55d9c3a02000  (/opt/app+0x2000)
nothing to see here \u202e <b>bold</b>
"""
BODY = f"""\
FILE 0 src/main.c
FILE 1 src/inner.h
INLINE_ORIGIN 0 inner
FUNC 1000 20 0 main
INLINE 0 15 0 0 1010 10
1000 10 10 0
1010 10 7 1
FUNC 2000 10 0 {HOSTILE}
2000 10 99 0
"""


@pytest.fixture(scope="module")
def stack():
    with Stack(symbols=None) as s:
        shutil.copytree(os.path.join(ROOT, "tests", "data", "symbols"), s.symbols.directory, dirs_exist_ok=True)
        s.symbols.add(APP[0], BODY, APP[1])
        yield s


def chromium(tmp, *arguments):
    options = Options()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", f"--user-data-dir={tmp}/profile", *arguments,
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))


class Page:
    def __init__(self, driver, stack):
        self.driver, self.stack = driver, stack
        self.origin = f"http://127.0.0.1:{stack.node.nginx.port}"

    def open(self, path="/symbolicate/"):
        # A new document, also where only the fragment differs.
        self.driver.get("about:blank")
        self.driver.get(self.origin + path)
        return self

    def part(self, ident):
        return self.driver.find_element(By.ID, ident)

    def put(self, text, ident="input"):
        self.driver.execute_script("document.getElementById(arguments[1]).value = arguments[0]", text, ident)

    def send(self, text=None):
        if text is not None:
            self.put(text)
        self.part("send").click()
        return self

    def rows(self, view="frames"):
        return self.driver.execute_script(f"return [...document.querySelectorAll('#{view} .row')].map(r => r.textContent)")

    def wait(self, what, condition, bound=BOUND):
        try:
            return wait_for(condition, what, bound, 0.05)
        except AssertionError as e:
            raise AssertionError(f"{e}; the page says: {self.text('error')} {self.text('progress')} {self.rows()[:5]}") from None

    def text(self, ident):
        return self.driver.execute_script(f"return document.getElementById('{ident}').textContent")

    def result(self, *words):
        self.wait(f"rows with {words}", lambda: all(any(w in row for row in self.rows()) for w in words))
        return self.rows()

    def shot(self, name):
        os.makedirs(SHOTS, exist_ok=True)
        self.driver.save_screenshot(os.path.join(SHOTS, name + ".png"))

    def quiet(self):
        """Nothing on the console, and no request but to this server."""
        said = [e for e in self.driver.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
        assert not [e for e in said if "the server responded with a status of" not in e["message"]], said
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                assert url.startswith((self.origin, "about:", "data:", "blob:", "chrome:")), url


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with contextlib.closing(chromium(tmp_path_factory.mktemp("chromium"))) as d:
        d.close = d.quit  # closing() ends the whole browser
        yield d


@pytest.fixture
def page(driver, stack):
    driver.set_window_size(1280, 900)
    one = Page(driver, stack).open()
    yield one
    one.quiet()


def test_the_sample(page):
    page.part("sample").click()
    rows = page.result("str_to_mpn", "__mpn_add_1")
    named = next(i for i, row in enumerate(rows) if "str_to_mpn" in row)
    assert "strtod_l.c:393" in rows[named] and "__mpn_add_1" in rows[named + 1]  # nested under it
    assert "missing.so" in page.text("missing")
    assert "with a name" in page.text("summary")
    page.driver.set_window_size(1000, 860)
    page.shot("page")  # docs/page.png is this one


@pytest.mark.slow
def test_pasted_text_with_a_module_that_is_given(page):
    page.part("form").find_element(By.TAG_NAME, "summary").click()
    page.put("app=" + APP[1], "modules")
    page.put(TEXT)
    page.part("input").send_keys(Keys.CONTROL, Keys.ENTER)
    rows = page.result("main", "inner")
    assert any("src/main.c:15" in row for row in rows) and any("src/inner.h:7" in row for row in rows)
    page.part("view-text").click()
    lines = page.wait("the text", lambda: page.rows("text"))
    assert lines[0].startswith("==7==ERROR") and "main" in lines[1] and "src/main.c:15" in lines[1]
    assert "\\u{202e} <b>bold</b>" in lines[3]
    # Nothing of a name became markup, nor is any mark of direction in the page.
    assert page.driver.execute_script("return document.querySelectorAll('img, b').length") == 0
    html = page.driver.execute_script("return document.body.textContent")
    assert "\u202e" not in page.driver.execute_script("return document.getElementById('text').textContent") and "evil" in html
    page.shot("text")


@pytest.mark.slow
@pytest.mark.parametrize("version", [4, 5])
def test_frames_of_a_request_say_why_they_have_no_name(page, stack, version):
    """Each by its own reason, as the frames of a text do."""
    corrupt, gone = ["corrupt", debug_id("corrupt")], ["gone", debug_id("gone")]
    stack.symbols.put(corrupt[0], corrupt[1], b"no symbol file <i>at</i> all\n")
    frames = [[0, 0x1000], [0, 0x9000], [1, 1], [2, 1], [-1, 7], [0, -1], [0, 1.5], [3, 5]]
    asked = {"memoryMap": [APP, gone, corrupt, ["", "12"]], "stacks": [frames]}
    page.send(json.dumps({"version": 4, **asked} if version == 4 else {"jobs": [{"memoryMap": [], "stacks": []}, asked]}))
    rows = page.result("#7 ")
    for row, words in zip(rows, ["main", "in no function", "no source", "cannot be used: ", "an address alone", "no offset", "no integer", "which build"]):
        assert words in row, rows
    missing = page.driver.execute_script("return [...document.querySelectorAll('#missing li')].map(i => i.textContent)")
    assert sorted(one.split("/")[0] for one in missing) == ["corrupt", "gone"]
    assert all(("cannot be used: " if one.startswith("corrupt/") else "no source") in one for one in missing), missing
    if version == 5:
        page.shot("reasons")


def test_a_dropped_file(page):
    page.driver.execute_script(
        """const data = new DataTransfer();
        data.items.add(new File([arguments[0]], "crash.txt"));
        document.getElementById("input").dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));""",
        f"MODULE Linux x86_64 {APP[1]} app\n#0 0x1 (/opt/app+0x1000)\n",
    )
    page.result("main")


def test_an_error_names_the_place_and_marks_it(page):
    page.send('{"memoryMap": [["a", "1"]],\n "stacks": [[[0, 1], [7, 2]]]}')
    page.wait("the error", lambda: "module_index 7" in page.text("error"))
    marked = "const i = document.getElementById('input'); return i.value.slice(i.selectionStart, i.selectionEnd)"
    assert page.driver.execute_script(marked) == "[7, 2]"
    assert page.part("input").get_attribute("aria-invalid") == "true"
    page.send('{"memoryMap": [}')
    page.wait("the other error", lambda: "byte" in page.text("error"))
    assert page.driver.execute_script(marked) == "}"
    page.send("")
    page.wait("the third", lambda: "nothing to look up" in page.text("error"))


@pytest.mark.slow
def test_a_503_counts_down_and_is_tried_again(page, stack):
    module = ["late", debug_id("late")]
    stack.symbols.add(module[0], BODY, module[1])
    stack.bucket.misbehave(module, "status:500", times=2)
    page.send(json.dumps({"memoryMap": [module], "stacks": [[[0, 0x1000]]]}))
    page.wait("the countdown", lambda: "trying again in" in page.text("progress"))
    page.result("main")


@pytest.mark.slow
def test_replies_never_overtake_each_other(page, stack):
    slow = ["slow", debug_id("slow")]
    stack.symbols.add(slow[0], BODY.replace(" main", " too_late"), slow[1])
    stack.bucket.misbehave(slow, "stall")
    page.send(json.dumps({"memoryMap": [slow], "stacks": [[[0, 0x1000]]]}))
    page.send(json.dumps({"memoryMap": [APP], "stacks": [[[0, 0x1000]]]}))
    page.result("main")
    stack.bucket.reset()
    time.sleep(1)  # the older reply has had time to come, if it comes
    assert not any("too_late" in row for row in page.rows())


@pytest.mark.slow
def test_sixty_thousand_frames_stay_fluid(page):
    page.driver.execute_script(
        "window.longest = 0; new PerformanceObserver(l => l.getEntries().forEach(e => window.longest = Math.max(window.longest, e.duration)))"
        ".observe({entryTypes: ['longtask']})"
    )
    page.put(json.dumps({"memoryMap": [APP], "stacks": [[[0, 0x1000 + i % 32] for i in range(60_000)]]}))
    page.send()
    page.wait("the summary", lambda: "60000 frames" in page.text("summary"))
    page.result("main")
    assert len(page.rows()) < 300
    page.driver.execute_script("const f = document.getElementById('frames'); f.scrollTop = f.scrollHeight")
    page.wait("the last rows", lambda: any(row.startswith("#59999 ") for row in page.rows()))
    longest = page.driver.execute_script("return window.longest")
    print(f"longest task {longest:.0f} ms")
    assert longest < 2000  # a page that makes all rows takes 58 s


def test_copies(page):
    page.driver.execute_cdp_cmd(
        "Browser.grantPermissions", {"origin": page.origin, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    page.send(json.dumps({"memoryMap": [APP], "stacks": [[[0, 0x1010], [0, 0x9000]]]}))
    page.result("inner", "in no function")
    taken = {}
    page.driver.execute_script("navigator.clipboard.writeText = text => { window.taken = text; return Promise.resolve(); }")
    for kind in ("text", "markdown", "json"):
        page.driver.execute_script("window.taken = null")
        page.part(f"copy-{kind}").click()
        taken[kind] = page.wait(kind, lambda: page.driver.execute_script("return window.taken"))
    assert taken["text"].startswith("#0 main  src/main.c:15") and "    inner  src/inner.h:7" in taken["text"]
    assert taken["markdown"] == f"```\n{taken['text']}```\n"
    assert json.loads(taken["json"])["results"][0]["stacks"][0] == page.stack.client.frames(APP, [0x1010, 0x9000])


def test_a_link_carries_the_input_and_never_reaches_the_server(page, stack):
    page.put(f"MODULE Linux x86_64 {APP[1]} app\n#0 0x1 (/opt/app+0x1000)\n")
    page.part("link").click()
    fragment = page.wait("the link", lambda: (u := page.driver.current_url).count("#i=") and u.split("#", 1)[1])
    page.open("/symbolicate/#" + fragment)
    page.result("main")
    with open(os.path.join(stack.node.nginx.directory, "access.log"), encoding="utf-8") as log:
        assert fragment[:40] not in log.read()


@pytest.mark.slow
@pytest.mark.parametrize("fragment", ["i=!!!", "i=AAAA", "i=" + base64.urlsafe_b64encode(b"\xff" * 50).decode()])
def test_a_damaged_link_is_told(page, fragment):
    page.open("/symbolicate/#" + fragment)
    page.wait("the error", lambda: "link is damaged" in page.text("error"))


@pytest.mark.slow
def test_on_a_phone_nothing_is_wider_than_the_screen(page):
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    )
    try:
        page.open()
        page.part("sample").click()
        page.result("str_to_mpn")
        assert page.driver.execute_script("return document.documentElement.scrollWidth") <= 390
        page.shot("phone")
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.slow
def test_by_keyboard_alone(page):
    seen = []
    for _ in range(30):
        seen.append(page.driver.switch_to.active_element.get_attribute("id"))
        page.driver.switch_to.active_element.send_keys(Keys.TAB)
    assert {"input", "send", "sample", "link"} <= set(seen), seen


@pytest.mark.slow
def test_the_status_view(page):
    page.open("/symbolicate/page/status.html")
    page.wait_state = lambda: "up for" in page.driver.execute_script("return document.getElementById('state').textContent")
    wait_for(page.wait_state, "the state", BOUND)
    assert page.stack.client.frames(APP, [0x1000])[0]["function"] == "main"
    wait_for(lambda: page.driver.execute_script("return document.querySelectorAll('.chart path').length") >= 3, "lines", BOUND)
    page.shot("status")


def axe():
    """axe-core, from npm into the cache; None where there is no npm."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = os.path.join(base, "symbolicated") if base else os.path.join(ROOT, "build", "cache")
    script = os.path.join(folder, f"axe-core-{AXE}.js")
    if not os.path.exists(script):
        if not shutil.which("npm"):
            return None
        os.makedirs(folder, exist_ok=True)
        done = subprocess.run(["npm", "pack", f"axe-core@{AXE}"], cwd=folder, capture_output=True, text=True, check=False, timeout=120)
        packed = glob.glob(os.path.join(folder, f"axe-core-{AXE}.tgz"))
        if done.returncode or not packed:
            return None
        with tarfile.open(packed[0]) as archive:
            text = archive.extractfile("package/axe.min.js").read()
        with open(script + ".new", "wb") as out:
            out.write(text)
        os.replace(script + ".new", script)
    with open(script, encoding="utf-8") as f:
        return f.read()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(page, scheme):
    text = axe()
    if text is None:
        pytest.skip("npm is not installed, or does not have axe-core")
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    for path, act in (("/symbolicate/", True), ("/symbolicate/page/status.html", False)):
        page.open(path)
        if act:
            page.part("sample").click()
            page.result("str_to_mpn")
            page.shot(scheme)
        page.driver.execute_script(text)
        found = page.driver.execute_async_script("axe.run().then(r => arguments[0](r.violations))")
        assert not found, json.dumps([(v["id"], [n["html"] for n in v["nodes"]][:3]) for v in found], indent=1)
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
