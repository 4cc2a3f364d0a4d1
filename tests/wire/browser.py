# SPDX-License-Identifier: Apache-2.0
"""The web page in headless Chromium, through nginx. Screenshots are kept in build/screenshots, or in SCREENSHOTS."""

import contextlib
import glob
import json
import os
import shutil
import subprocess
import tarfile

import pytest

from stack import ROOT, Nginx, Stack, wait_for
from symbols import debug_id

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.chrome.options import Options  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
BOUND = 90
SHOTS = os.environ.get("SCREENSHOTS", os.path.join(ROOT, "build", "screenshots"))
AXE = "4.10.2"
SIZES = {"wide": (1280, 900), "phone": (360, 780)}

HOSTILE = "<img src=x onerror=alert(1)>\u202eevil</script>&amp;" + "A" * 100_000
APP = ["app", debug_id("app")]
BODY = f"""\
FILE 0 src/main.c
FILE 1 src/inner.h
FILE 2 hg:hg.mozilla.org/mozilla-central:dom/A b.cpp:55c63a6c547f
FILE 3 git:github.com/owner/repository:src/a.rs:0123abc
FILE 4 /build/site/own.c
FILE 5 javascript:alert(1)
INLINE_ORIGIN 0 inner
FUNC 1000 20 0 main
INLINE 0 15 0 0 1010 10
1000 10 10 0
1010 10 7 1
FUNC 2000 10 0 {HOSTILE}
2000 10 99 0
FUNC 3000 40 0 linked
3000 10 1 2
3010 10 2 3
3020 10 3 4
3030 10 4 5
"""


def chromium(folder):
    options = Options()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars", f"--user-data-dir={folder}/profile",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_script_timeout(BOUND)
    return driver


@contextlib.contextmanager
def browser(folder):
    driver = chromium(folder)
    try:
        yield driver
    finally:
        driver.quit()


@contextlib.contextmanager
def served():
    """A server with the symbols of the page's samples, and with APP."""
    with Stack(symbols=None) as s:
        shutil.copytree(os.path.join(ROOT, "tests", "data", "symbols"), s.symbols.directory, dirs_exist_ok=True)
        s.symbols.add(APP[0], BODY, APP[1])
        yield s


@contextlib.contextmanager
def front(stack, name, *changes):
    """Another nginx before the same server."""
    nginx = Nginx(name, stack.directory, stack.node.daemon.socket, changes=list(changes))
    nginx.start()
    try:
        yield nginx
    finally:
        nginx.stop()


class Page:
    def __init__(self, driver, port):
        self.driver = driver
        self.origin = f"http://127.0.0.1:{port}"
        self.look("wide")

    def open(self, path="/symbolicate/", full=True):
        """full: names are shown whole, as the tests compare them."""
        # A new document, also where only the fragment differs, and nothing of an earlier one. From the same site, so that the browser
        # needs no new process.
        self.driver.get(self.origin + "/symbolicate/page/site.json")
        self.run("sessionStorage.clear(); localStorage.clear(); if (arguments[0]) localStorage.setItem('symbolicated-full-names', '1')", full)
        self.driver.get(self.origin + path)
        self.wait_ready()
        return self

    def wait_ready(self):
        self.wait("the page", lambda: self.run("return document.readyState === 'complete' && document.activeElement.id === 'input'"))

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def cdp(self, command, **arguments):
        return self.driver.execute_cdp_cmd(command, arguments)

    def part(self, ident):
        return self.driver.find_element(By.ID, ident)

    def click(self, ident):
        self.part(ident).click()
        return self

    def sample(self, name):
        self.driver.find_element(By.CSS_SELECTOR, f"[data-sample={name}]").click()
        return self

    def put(self, text, ident="input"):
        self.run("document.getElementById(arguments[1]).value = arguments[0]", text, ident)
        return self

    def send(self, text=None):
        if text is not None:
            if self.shows("clear"):
                self.click("clear")
            self.put(text)
        return self.click("send")

    def send_keep(self, text):
        """Beside the ids that are typed."""
        return self.put(text).click("send")

    def ask(self, *frames):
        """Frames of one stack of APP."""
        return self.send(json.dumps({"memoryMap": [APP], "stacks": [[[0, frame] for frame in frames]]}))

    def rows(self, view="frames", kind=""):
        return self.run("return [...document.querySelectorAll(arguments[0])].map(r => r.textContent)", f"#{view} .row{kind}")

    def cells(self, name):
        return self.run("return [...document.querySelectorAll(arguments[0])].map(r => r.textContent)", name)

    def wait(self, what, condition, bound=BOUND):
        try:
            return wait_for(condition, what, bound, 0.05)
        except AssertionError as e:
            raise AssertionError(f"{e}; the page says: {self.text('error')} {self.text('progress')} {self.rows()[:5]}") from None

    def text(self, ident):
        return self.run("return document.getElementById(arguments[0]).textContent", ident)

    def shows(self, ident):
        return self.part(ident).is_displayed()

    def result(self, *words):
        """The rows, when each word is in one of them and nothing is waited for."""
        self.wait(f"rows with {words}", lambda: not self.shows("cancel") and all(any(w in row for row in self.rows()) for w in words))
        return self.rows()

    def error(self, words):
        return self.wait(f"the error {words}", lambda: words in self.text("error") and self.text("error"))

    def copied(self, kind):
        """What a button copies."""
        self.run("window.taken = null; navigator.clipboard.writeText = text => { window.taken = text; return Promise.resolve(); }")
        self.click(kind)
        return self.wait(kind, lambda: self.run("return window.taken"))

    def look(self, size="wide", scheme="light"):
        """From now on, as on a screen of this size in this scheme of colours."""
        width, height = SIZES[size]
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=size == "phone")
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def shot(self, name):
        os.makedirs(SHOTS, exist_ok=True)
        self.driver.save_screenshot(os.path.join(SHOTS, name + ".png"))

    def fits(self):
        """Nothing is wider than the screen."""
        return self.run("return document.documentElement.scrollWidth <= innerWidth")

    def quiet(self):
        """Nothing on the console, and no request but to this server."""
        said = [e for e in self.driver.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
        assert not [e for e in said if "the server responded with a status of" not in e["message"] and "net::ERR_" not in e["message"]], said
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                assert url.startswith(("http://127.0.0.1:", "about:", "data:", "blob:", "chrome:")), url


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

# Of test files that use them by name.


@pytest.fixture(scope="module")
def stack():
    with served() as s:
        yield s


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("chromium")) as d:
        yield d


@pytest.fixture
def page(driver, stack):
    one = Page(driver, stack.node.nginx.port).open()
    yield one
    one.quiet()
