# SPDX-License-Identifier: Apache-2.0
"""Every sample in tests/data/text through the web page: what Chromium paints in each view, and what the copies hold, beside the server's
own replies."""

import itertools
import os
import re
import shutil

import pytest

from browser import CHROMIUM, DRIVER, Page, browser
from stack import ROOT, Stack
from test_filter import run_filter
from test_formats import CRASH, IDS, MODULES, PLACE, PREFIXES, SAMPLES, one, read  # noqa: F401
from test_windows_texts import ID, PLACES

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromium-driver are not installed")]

CORPUS = os.path.join(ROOT, "tests", "fuzz", "corpus", "stacks")
DATA = os.path.join(ROOT, "tests", "data", "text")
FOLDER = "/home/builder/src/project-1.0/library/core/"  # of the sources
FOLDERS = re.compile(r".*[/\\]")
FILES = sorted(os.path.join(folder, name) for folder in (DATA, CRASH) for name in os.listdir(folder) if name.endswith((".txt", ".json")))
WINDOWS = os.path.join(DATA, "windows")
FILES += sorted(os.path.join(WINDOWS, name) for name in PLACES)
FILES += sorted(os.path.join(CORPUS, name) for name in os.listdir(CORPUS))

# Asks, waits for the rows of both views, and returns of each row the text that is painted: the characters that lie within all boxes that
# clip them, before an ellipsis.
WALK = """
const [text, modules, done] = arguments;
const part = id => document.getElementById(id);
const until = async condition => { while (!condition()) await new Promise(next => setTimeout(next, 5)); };
const clips = node => {
    const out = [];
    for (let one = node.parentElement; one !== document.body; one = one.parentElement) {
        const style = getComputedStyle(one);
        if (style.overflowX === "visible" || style.display === "inline")
            continue;
        const { left, top, right, bottom } = one.getBoundingClientRect();
        const cut = style.textOverflow === "ellipsis" && one.scrollWidth > one.clientWidth ? parseFloat(style.fontSize) : 0;
        out.push({ left, top, bottom, right: right - cut });
    }
    return out;
};
const painted = element => {
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), range = document.createRange();
    let out = "";
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
        const boxes = clips(node);
        for (let i = 0; i < node.data.length; i++) {
            range.setStart(node, i);
            range.setEnd(node, i + 1);
            const at = range.getClientRects()[0], middle = at && (at.top + at.bottom) / 2;
            if (at?.width && boxes.every(one => at.left >= one.left - .5 && at.right <= one.right + .5 && middle > one.top && middle < one.bottom))
                out += node.data[i];
        }
        out += " ";
    }
    return element.scrollWidth > element.clientWidth ? out + "…" : out;
};
const view = async name => {
    part(`view-${name}`).click();
    await until(() => part(name).querySelector(".row"));
    return [...part(name).querySelectorAll(".row")].map(painted).filter(row => row.trim());
};
const copies = {};
navigator.clipboard.writeText = text => { copies.last = text; return Promise.resolve(); };
const copied = async kind => {
    copies.last = null;
    part(`copy-${kind}`).click();
    await until(() => copies.last !== null);
    return copies.last;
};
(async () => {
    part("clear").click();
    part("input").value = text;
    part("modules").value = modules;
    part("send").click();
    await until(() => document.body.classList.contains("answered") && part("cancel").hidden);
    if (part("result").hidden)
        return { none: part("unknown-title").textContent };
    part("fold").hidden || part("fold").click();
    return {
        long: part("report").classList.contains("long"), summary: part("summary").textContent,
        report: await view("report"), frames: await view("frames"), copy: await copied("report"), text: await copied("frames"),
    };
})().then(done, problem => done({ problem: String(problem) }));
"""


def sample(path):
    """As the page decodes it: Windows writes some in UTF-16."""
    with open(path, "rb") as f:
        data = f.read()
    return data.decode("utf-16" if data[:2] == b"\xff\xfe" else "utf-8", errors="replace").replace("\r\n", "\n")


def given(path):
    """What a person knows who has the symbols."""
    if os.path.dirname(path) == WINDOWS:
        return {module: ID for module in PLACES[os.path.basename(path)][0]}
    return {module: ident for module, ident in IDS.items() if os.path.dirname(path) == CRASH}


def ask(stack, path, text, **headers):
    query = "&".join(f"module={module}={ident}" for module, ident in given(path).items())
    reply = stack.client.post("/symbolicate/text?" + query, text, **headers)
    assert reply.status == 200
    return reply


@pytest.fixture(scope="module")
def stack():
    """With the symbols of the samples, under whichever ids they tell."""
    with Stack(symbols=None, config={"missing_ttl": "0"}) as s:
        shutil.copytree(os.path.join(ROOT, "tests", "data", "symbols"), s.symbols.directory, dirs_exist_ok=True)
        for path in FILES:
            for frame in ask(s, path, sample(path), Accept="application/json").json()["frames"]:
                symbols = os.path.join(os.path.dirname(path), frame.get("module", "").split(".")[0] + ".sym")
                if os.path.isfile(symbols) and frame.get("id"):
                    with open(symbols, encoding="utf-8") as f:
                        body = f.read().split("\n", 1)[1]
                    s.symbols.add(frame["module"], re.sub(r"^(FILE \d+ )", rf"\1{FOLDER}", body, flags=re.M), frame["id"])
        yield s


@pytest.fixture(scope="module")
def page(tmp_path_factory, stack):
    with browser(tmp_path_factory.mktemp("chromium")) as driver:
        one = Page(driver, stack.node.nginx.port).open()
        yield one
        one.quiet()


def bare(text):
    return re.sub(r"\s+", "", text)


def lost_in_report(seen, text):
    """Lines that are not painted as the server writes them; of a long text those in sight, of which the last may be cut."""
    lines = [line for line in map(bare, text.split("\n")) if line]
    rows = [bare(row) for row in seen["report"]]
    pairs = zip(lines, rows[:-1]) if seen["long"] else itertools.zip_longest(lines, rows)
    return [(line, row) for line, row in pairs if line != row]


def lost_in_frames(seen, reply):
    """Calls of which the name, or the file and line, is not painted in any row."""
    rows = [bare(row) for row in seen["frames"]]
    lost = []
    for frame in reply["frames"][: len(rows) // 2 if seen["long"] else None]:
        for call in [*frame.get("inlines", []), frame] if "function" in frame else []:
            place = f"{FOLDERS.sub('', call['file'])}:{call['line']}" if "line" in call else ""
            name = bare(call["function"])[:20]  # a row has one line
            if not any(name in row and place in row for row in rows):
                lost.append((call["function"], place))
    return lost


def counts_of(stack, path, text, seen, reply):
    """(frames, with a name), as each tells it."""
    frames = [frame for frame in reply["frames"] if "stack" in frame]
    counts = {"server": (len(frames), sum("reason" not in frame for frame in frames))}
    total, named = re.match(r"([\d,]+) frames?\b.* · (all|none|[\d,]+) with a name", seen["summary"]).groups()
    total = int(total.replace(",", ""))
    counts["page"] = total, total if named == "all" else 0 if named == "none" else int(named.replace(",", ""))
    rows = re.findall(r"^#\d", seen["text"], re.M)
    if reply["frames"] and text == sample(path):
        counts["copy"] = len(rows), counts["server"][1]
        arguments = [word for module, ident in given(path).items() for word in ("--module", f"{module}={ident}")]
        said = run_filter(text, "--url", f"http://127.0.0.1:{stack.node.nginx.port}", *arguments).stderr.decode()
        whole = re.search(r"all frames have names already: (\d+)", said)
        counts["symbtool"] = (int(whole[1]),) * 2 if whole else tuple(map(int, re.search(r"(\d+) frames?, (\d+) named", said).groups()))
    return counts


def walk(page, stack, path, text):
    """What is not painted, or not copied, by view."""
    seen = page.driver.execute_async_script(WALK, text, "\n".join(f"{module} = {ident}" for module, ident in given(path).items()))
    assert "problem" not in seen, seen
    written, reply = ask(stack, path, text).text, ask(stack, path, text, Accept="application/json").json()
    if "none" in seen:
        return {"none": seen["none"]} if reply["frames"] else {}
    counts = counts_of(stack, path, text, seen, reply)
    copied = [] if seen["copy"] == written else [seen["copy"][-200:]]
    return {
        "report": lost_in_report(seen, written), "frames": lost_in_frames(seen, reply), "copy": copied,
        "counts": [] if len(set(counts.values())) == 1 else [counts],
    }  # fmt: skip


def variants(text, reply):
    """Also cut behind its last frame, without a newline; and as so many rows that only those in sight are in the page."""
    lines = text.splitlines(True)
    last = reply["frames"][-1]["text_line"] if reply["frames"] else len(lines)
    return {"whole": text, "cut": "".join(lines[:last]).rstrip("\n"), "long": text * (1 + 2000 // len(lines))}


def test_every_sample_in_every_view(page, stack):
    lost = []
    for path in FILES:
        text = sample(path)
        whole = ask(stack, path, text, Accept="application/json").json()
        for kind, whole in (variants(text, whole) if os.path.dirname(path) != CORPUS else {"whole": text}).items():
            for view, bad in walk(page, stack, path, whole).items():
                if bad:
                    lost.append(f"{os.path.basename(path)} {kind} {view}: {len(bad)}, such as {bad[:2]}")
    assert not lost, "\n".join(lost)


# Asks as the page does, and makes of each reply what its Report shows, by the page's own modules: [text, JSON's frames] of each.
REPORTS = """
const [texts, modules, done] = arguments;
(async () => {
    const out = [];
    for (const text of texts) {
        const { url, body, headers } = use("request.js").requestOf(text, modules);
        const { frames } = await (await fetch(url, { method: "POST", body, headers })).json();
        out.push([new (use("annotated.js").Annotated)(body, frames).text(), frames]);
    }
    return out;
})().then(done, problem => done({ problem: String(problem) }));
"""


def named(frames):
    """What a reply in JSON has of each frame that was looked up: its calls, as PLACE finds them in a text."""
    calls = [[*frame.get("inlines", []), frame] for frame in frames if not frame.get("named")]
    return [[f"{one['function']} at {one['file']}:{one['line']}" for one in stack if "line" in one] for stack in calls]


# Of whose frames some are not found: "12:10: 0xf5144d  [node]" below "12: 9: 0x…" may have either number.
AMBIGUOUS = {"node": ["app.log:12:", "app.log-12-", "12:"]}


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_behind_prefixes_is_the_same_everywhere(sample, page, one, tmp_path):  # noqa: F811
    """Its frames, names and bytes in texts of the server, in JSON, in the page's Report and by symbtool."""
    modules = [f"{module}={IDS[module]}" for module in MODULES]
    lines = read(sample + ".txt").splitlines(True)
    texts = ["".join(prefix + line for line in lines) + "the end\n" for prefix in ["", *PREFIXES]]
    for i, text in enumerate(texts):
        (tmp_path / f"{i:03}").write_text(text)
    by_text = [one.client.post("/symbolicate/text?" + "&".join(f"module={module}" for module in modules), text.encode()).text for text in texts]
    page.driver.get(f"http://127.0.0.1:{one.node.nginx.port}/symbolicate/")
    replies = page.driver.execute_async_script(REPORTS, texts, "\n".join(modules))
    assert isinstance(replies, list), replies
    files = [str(tmp_path / f"{i:03}") for i in range(len(texts))]
    by_symbtool = run_filter("", "--url", f"http://127.0.0.1:{one.node.nginx.port}", *[word for module in modules for word in ("--module", module)], *files)
    assert [text for text, _ in replies] == by_text
    assert by_symbtool.stdout.decode() == "".join(by_text)
    found = [named(frames) for _, frames in replies]
    assert [prefix for prefix, frames in zip(PREFIXES, found[1:]) if frames != found[0]] == AMBIGUOUS.get(sample, [])
    assert [prefix for prefix, text in zip(PREFIXES, by_text[1:]) if PLACE.findall(text) != PLACE.findall(by_text[0])] == []
    assert PLACE.findall(by_text[0]) == PLACE.findall("\n".join(place for stack in found[0] for place in stack))
