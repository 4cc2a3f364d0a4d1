# SPDX-License-Identifier: Apache-2.0
"""The documents against what they describe: settings, metrics, routes, limits and the examples."""

import fnmatch
import json
import os
import re
import subprocess

import pytest
import yaml

from stack import DAEMON, ROOT, Stack

SAMPLES = os.path.join(ROOT, "tests", "data", "symbols")
METRIC = re.compile(r"\b(?:symbolicated|process)_[a-z_]+[a-z]\b")
SUFFIXES = ("_bucket", "_sum", "_count")  # of a histogram's series


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
        return f.read()


def printed(option):
    return subprocess.run([*DAEMON, option], capture_output=True, text=True, check=True).stdout


def settings():
    """Every setting, and its default."""
    return dict(re.findall(r"^\| `(\w+)` \| `?(.*?)`? \|", printed("--print-config-markdown"), re.M))


@pytest.fixture(scope="module")
def one():
    with Stack(symbols=SAMPLES) as s:
        yield s


def none(what, found):
    """Nothing was found; the message names what was."""
    assert not found, f"{what}: {', '.join(sorted(found))}"


def same(left, right, names):
    """Two sets; the message names what only one has."""
    none(f"in {names[0]}, not in {names[1]}", set(left) - set(right))
    none(f"in {names[1]}, not in {names[0]}", set(right) - set(left))


def test_configuration_md_is_what_the_program_prints():
    assert read("docs", "configuration.md") == printed("--print-config-markdown"), "make it anew: symbolicated --print-config-markdown >docs/configuration.md"


def families(one):
    return set(re.findall(r"^# TYPE (\S+)", one.client.get("/__metrics__").text, re.M))


def test_each_metric_is_in_operation_md(one):
    named = set(re.findall(r"[`|](\w+)(?:\{[^`]*\})?`", read("docs", "operation.md")))
    none("metrics that operation.md lacks", families(one) - named)


def test_events_of_the_log_are_in_operation_md():
    """Those of the sources against the table; `crash` is written by hand, `log` where the log cannot be, `request` has a table of its own."""
    code = "\n".join(text for path, text in sources("src").items() if not path.startswith("src/symbtool/"))
    places = re.findall(r"\blog_(?:event|outcome)\(\s*([^;]*?,[^;]*?),\s", code)
    events = {word for place in places for word in re.findall(r'"([a-z ]+)"', place)} - {"check"}
    assert len(places) > 30
    table = read("docs", "operation.md").split("The other events have a `text`:")[1].split("\n## ")[0]
    told = {word for cell in re.findall(r"^\| (`[^|]+`) \|", table, re.M) for word in re.findall(r"`([a-z ]+)`", cell)}
    assert told == events | {"crash", "log"}


METRIC_NAMES_ELSEWHERE = re.compile(r"symbolicated_(server|http|location|errors|root|page|example|nginx\w*|hosts?|each)$")


@pytest.mark.parametrize(
    "path",
    ["docs/operation.md", "docs/runbook.md", "docs/memcached.md", "contrib/grafana/symbolicated.json", "contrib/prometheus/alerts.yml", "contrib/prometheus/recording.yml"],
)  # fmt: skip
def test_metrics_that_are_named_exist(one, path):
    known = families(one)
    if path.endswith((".yml", ".json")):
        known |= set(re.findall(r"counter (symbolicated_nginx\w+)", read("contrib", "mtail", "symbolicated-nginx.mtail")))
    missing = set()
    for name in METRIC.findall(read(*path.split("/"))):
        family = next((name[: -len(s)] for s in SUFFIXES if name.endswith(s) and name[: -len(s)] in known), name)
        if family not in known and not METRIC_NAMES_ELSEWHERE.match(name):
            missing.add(name)
    assert sorted(missing) == []


def sources(*folders):
    """What the C, Python and header files below the folders contain, by path."""
    paths = [os.path.join(folder, name) for top in folders for folder, _, names in os.walk(os.path.join(ROOT, top)) for name in names]
    here = os.path.abspath(__file__)
    return {os.path.relpath(path, ROOT): read(path) for path in paths if path.endswith((".c", ".h", ".py")) and os.path.abspath(path) != here}


def named(word, texts):
    return any(word in text and re.search(rf"(?<![\w]){re.escape(word)}(?![\w])", text) for text in texts)


def test_each_setting_has_a_row_a_reader_and_a_test():
    rows = dict(re.findall(r"^\s+\{\"(\w+)\", TYPE_\w+, AT\((\w+)\)", read("src/base/config_table.c"), re.M))
    same(rows, settings(), ("config_table.c", "what the program prints"))
    struct = re.sub(r"/\*.*?\*/", "", re.search(r"\nstruct config \{(.*?)\n\};", read("src/base/config.h"), re.S).group(1), flags=re.S)
    fields = [name for line in re.findall(r"[^;]+;", struct) for name in re.findall(r"\*?(\w+)(?=[,;])", line)]
    none("fields of struct config without a row in config_table.c", set(fields) - set(rows.values()) - {"read_by_all"})
    code = [text for path, text in sources("src").items() if not re.search(r"base/config(_\w+)?\.h|base/config_", path)]
    none("settings that no code reads", [key for key, field in rows.items() if not re.search(rf"(?:->|\.){field}\b", "\n".join(code))])
    tests = sources("tests").values()
    none("settings that no test names", [key for key in rows if not named(key, tests)])
    none("settings that tests/fuzz/config.dict lacks", rows.keys() - set(re.findall(r'^"(\w+)"$', read("tests/fuzz/config.dict"), re.M)))


def test_settings_that_sighup_changes_are_read_where_they_change():
    """A request has the settings in force, and main.c hands some on. The rest of the program has those of its start."""
    rows = re.findall(r"^\s+\{\"(\w+)\", TYPE_\w+, AT\((\w+)\),(?:(?!\},\n).)*?\b(true|false),", read("src/base/config_table.c"), re.M | re.S)
    assert len(rows) == len(settings())
    changing = [(key, field) for key, field, sighup in rows if sighup == "true"]
    assert len(changing) > 15
    elsewhere = {path: text for path, text in sources("src").items() if not re.match(r"src/(api/|front/|main\.c|base/config)", path)}
    none("changed by SIGHUP, but read elsewhere", [f"{key} ({path})" for key, field in changing for path, text in elsewhere.items() if re.search(rf"config(?:->|\.){field}\b|\bc->{field}\b", text)])


def test_each_turnstile_is_in_operation_md_and_named_by_its_setting():
    """The table has those of the metrics; a number in brackets is what the default gives."""
    names = set(re.findall(r'symbolicated_turnstile_inside", +"for=\\"(\w+)', read("src", "base", "metrics.h")))
    table = re.search(r"^\| turnstile .*\n\|.*\n((?:\|.*\n)+)", read("docs", "operation.md"), re.M)[1]
    rows = [line.strip("|").split("|") for line in table.splitlines()]
    same({n for row in rows for n in re.findall(r"`(\w+)`", row[0])}, names, "turnstiles of operation.md")
    means = dict(re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", read("docs", "configuration.md"), re.M))
    for name, places, _ in rows:
        for setting in re.findall(r"`(\w+)`", places):
            assert name.strip(" `") in re.findall(r"\w+", means[setting]), f"{setting} does not name {name}"
        for times, setting, number in re.findall(r"(?:(\d+) × )?`(\w+)` \((\d+)\)", places):
            assert int(times or 1) * int(settings()[setting]) == int(number), f"{setting}: {number}"


def test_each_metric_is_counted_and_tested():
    rows = re.findall(r"X\((\w+), (?:counter|gauge), \"(\w+)\"", read("src/base/metrics.h"))
    assert len(rows) > 50
    code = [text for path, text in sources("src").items() if path != "src/base/metrics.h"]
    none("metrics that no code counts", [name for name, _ in rows if not named(f"M_{name}", code)])
    tests = [re.sub(r"\nEXPECTED = \[.*?\]", "", text, flags=re.S) for text in sources("tests").values()]  # that is a list of names
    none("metrics that no test names", {family for name, family in rows if not named(family, tests) and not named(f"M_{name}", tests)})


# What only the server can know, and only symbtool. map/read.c and what replies say serve both.
OF_THE_SERVER = {"NO_INTEGER", "TOO_LARGE"}
OF_SYMBTOOL = {"OTHER_BUILD", "NO_FUNCTION", "NO_ANSWER"}


def test_each_reason_is_given_and_tested():
    rows = re.findall(r"\[REASON_(\w+)\] = \{\"([^\"]+)\"", read("src/base/reason.c"))

    def given(*folders):
        code = [re.sub(r"/\*.*?\*/|[!=]= REASON_\w+", "", text, flags=re.S) for text in sources(*folders).values()]
        return {name for name, _ in rows if named(f"REASON_{name}", code)}

    shared = given("src/map")
    same(given("src/api") | shared, {name for name, _ in rows} - OF_SYMBTOOL, ("src/api and src/map", "base/reason.c, but for OF_SYMBTOOL"))
    same(given("src/symbtool") | shared, {name for name, _ in rows} - OF_THE_SERVER, ("src/symbtool and src/map", "base/reason.c, but for OF_THE_SERVER"))
    tests = sources("tests").values()
    none("reasons that no test names", {word for name, word in rows if not named(word, tests) and not named(f"REASON_{name}", tests)})


def test_each_format_is_in_the_table_and_has_a_test():
    """The rows that the files of formats define against the table; each name once, and above a unit test."""
    table = re.findall(r"^\s+ROW\((\w+)\)", read("src/text/formats.h"), re.M)
    assert len(table) == len(set(table)) > 20
    same(re.findall(r"^TEXT_FORMAT\((\w+),", "".join(sources("src/text").values()), re.M), table, ("src/text", "TEXT_FORMATS"))
    assert len(text_formats()) == len(set(text_formats()))
    heads = " ".join(re.findall(r"^/\* ((?:(?!\*/).)*) \*/\nstatic void test_", read("tests/unit/test_stacks.c"), re.M | re.S))
    none("formats in no comment above a test of test_stacks.c", [name for name in text_formats() if not named(name, [re.sub(r"\n \* ", " ", heads)])])


def test_each_format_is_judged_by_a_wire_test():
    """The table of the samples' README: how, of those that are explained below it, and by which samples or tests, which exist."""
    text, samples = read("tests/data/text/crash/README"), os.listdir(os.path.join(ROOT, "tests", "data", "text", "crash"))
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text, re.M)[1:]
    same({name for formats, _ in rows for name in formats.split(":")[0].split(", ")}, text_formats(), ("crash/README", "the rows"))
    explained = {name for names in re.findall(r"^- (\*.+?\*):", text, re.M) for name in re.findall(r"\*(.+?)\*", names)}
    judges = [re.fullmatch(r"(.+?): (`.+`)", judge).groups() for _, column in rows for judge in column.split("; ")]
    same({how for how, _ in judges}, explained, ("the table of crash/README", "what explains it"))
    tests = {path: text for path, text in sources("tests").items() if path in ("tests/wire/test_filter.py", "tests/wire/test_formats.py", "tests/wire/test_server_stacks.py")}
    assert len(tests) == 3
    known = set(samples) | {name for text in tests.values() for name in re.findall(r"^def (test_\w+)", text, re.M)}
    none("named in crash/README, but neither a sample nor a test", {name for _, names in judges for name in re.findall(r"`(.+?)`", names)} - known)


def test_each_format_is_an_input_of_the_fuzzer():
    """A sample that tests/fuzz/run.sh takes, or a kept input with a word of the format in its name."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", read("tests/data/text/crash/README"), re.M)[1:]
    sampled = {name for formats, judge in rows if re.search(r"`[\w-]+\.(?:txt|json)`", judge) for name in formats.split(":")[0].split(", ")}
    kept = {word for name in os.listdir(os.path.join(ROOT, "tests", "fuzz", "corpus", "stacks")) for word in re.split("[-_.]", name)}
    assert "tests/data/text/crash" in read("tests/fuzz/run.sh")
    none("formats without an input in tests/fuzz/corpus/stacks", {name for name in set(text_formats()) - sampled if not kept & set(re.findall(r"[a-z]{3,}", name.lower()))})


def test_each_route_is_in_api_md():
    """The rows of the router's table against those of the document's."""
    routes = set(re.findall(r"^\s+\{\"(/[^\"]*)\", (?:true|false)", read("src", "api", "router.c"), re.M))
    assert len(routes) > 8
    api = read("docs", "api.md")
    rows = re.findall(r"^\| (?:\[)?(`/.*?)(?:\]\([^)]*\))? \| [A-Z, ]+ \|", api, re.M)
    told = {re.sub(r"<.*", "", path) for row in rows for path in re.findall(r"`([^`]+)`", row)}
    none("routes without a row in api.md", [route for route in routes if not {route, route + "/"} & told])


def test_each_route_is_in_openapi_yaml():
    """Paths, methods and statuses of docs/openapi.yaml against the router's table, and the flags by which it counts statuses."""
    router = read("src", "api", "router.c")
    rows = re.findall(r'^\s+\{(?:"(/[^"]*)"|(SYM_FILE)), (?:true|false), "\w+", ([A-Z_| 0]+),\s*\{(.*?)\}\},$', router, re.M | re.S)
    assert len(rows) > 15
    by_flag = {"BAD_BODY": {400, 413}, "BAD_KEY": {400, 401, 403}, "NO_STORE": {404}}
    routes = {}
    for path, sym, flags, actions in rows:
        statuses = {200, 405, 500, 503}.union(*(by_flag.get(flag, set()) for flag in flags.split(" | ")))
        for method in re.findall(r'\{"(\w+)"', actions):
            routes[sym or path, method] = statuses
    described = {}
    for path, methods in yaml.safe_load(read("docs", "openapi.yaml"))["paths"].items():
        fixed = "SYM_FILE" if path.startswith("/{") else re.sub(r"\{.*", "", path)
        route = max((r for r, _ in routes if fixed == r or (r.endswith("/") and len(r) > 1 and fixed.startswith(r))), key=len, default=fixed)
        for method, operation in methods.items():
            described.setdefault((route, method.upper()), set()).update(int(status) for status in operation["responses"])
    described["/__broken__", "GET"].add(200)  # never, but it is counted
    same({f"{method} {path}" for path, method in described}, {f"{method} {path}" for path, method in routes}, ("openapi.yaml", "router.c"))
    assert described == routes


def size(text):
    number, unit = re.fullmatch(r"([\d.,]+) ?([KMGT]?)(?:iB)?", text).groups()
    return int(float(number.replace(",", "")) * 1024 ** " KMGT".index(unit or " "))


# What the table of limits calls a setting.
LIMITS = {
    "body as sent": "max_body",
    "body inflated": "max_body_inflated",
    "reply, before gzip": "max_reply",
    "jobs": "max_jobs",
    "frames": "max_frames",
    "stacks": "max_stacks",
    "modules": "max_modules",
    "modules to load that are in no cache": "cold_modules",
}


@pytest.mark.parametrize("row", LIMITS)
def test_limits_of_api_md_are_the_defaults(row):
    told = re.search(rf"^\| {re.escape(row)} \| ([^|]+?) \|", read("docs", "api.md"), re.M).group(1)
    assert size(told) == size(settings()[LIMITS[row]])


def example(version):
    """The request of a section of api.md, and the reply that follows it."""
    text = read("docs", "api.md")
    request = text[text.index(f"```\nPOST /symbolicate/{version}\n\n") :]
    body = re.match(r"```\nPOST \S+\n\n(.*?)```", request, re.S).group(1)
    reply = re.search(r"```json\n(.*?)```", request, re.S).group(1)
    return body, json.loads(reply)


@pytest.mark.parametrize("version", ["v5", "v4"])
def test_examples_of_api_md(one, version):
    body, reply = example(version)
    assert one.client.post(f"/symbolicate/{version}", body).json() == reply


def test_files_that_documents_name_exist():
    """src/…, tests/… and the like; a name may leave out its ending."""
    tracked = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=False).stdout.split()
    if not tracked:
        pytest.skip("not a checkout")
    missing = set()
    for name in ["README", *(path for path in tracked if path.startswith("docs/") and path.endswith(".md"))]:
        for path in re.findall(r"(?<![\w/.-])((?:src|tests|contrib|nginx|systemd|web|man)/[\w./-]*\w)", read(*name.split("/"))):
            placeholder = re.search(r"[A-Z]{4}", path) and not path.endswith("README")
            elsewhere = path.startswith("src/shared/")  # systemd's
            if not placeholder and not elsewhere and not any(t.startswith(path) for t in tracked):
                missing.add(f"{name}: {path}")
    assert sorted(missing) == []


def test_programs_can_be_called_by_their_names():
    """A script begins with #! exactly if it is executable."""
    wrong = []
    for line in subprocess.run(["git", "-C", ROOT, "ls-files", "--stage", "*.py", "*.sh", ".ci", "check", "run", "package"], capture_output=True, text=True, check=False).stdout.splitlines():
        name = line.split("\t")[1]
        with open(os.path.join(ROOT, name), "rb") as f:
            if (f.read(2) == b"#!") != os.access(f.name, os.X_OK):
                wrong.append(name)
    assert wrong == []


def test_tools_of_the_tests_are_listed():
    listed = set(re.findall(r"\b\w+\.(?:py|sh|c)\b", read("docs", "development.md").partition("## Tools in")[2].partition("\n## ")[0]))
    there = {name for name in os.listdir(os.path.join(ROOT, "tests", "tools")) if name.endswith((".py", ".sh", ".c"))}
    assert there == listed


def test_source_files_that_documents_name_exist():
    """`name.c`, `name*.c`: in whatever room."""
    names = {name for top in ("src", "tests") for _, _, names in os.walk(os.path.join(ROOT, top)) for name in names}
    docs = [name for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md")]
    named_in = {doc: re.findall(r"`(?:[\w/]+/)?([\w*]+\.[ch])`", read("docs", doc)) for doc in docs}
    assert len(named_in["design.md"]) > 60
    assert [f"{doc}: {name}" for doc, found in sorted(named_in.items()) for name in found if "NAME" not in name and not fnmatch.filter(names, name)] == []


def anchors(text):
    """Of the headings of a document, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_documents_lead_somewhere():
    docs = sorted(name for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md"))
    broken = []
    for name in docs:
        for target in re.findall(r"\]\(([^)\s]+)\)", read("docs", name)):
            file, _, anchor = target.partition("#")
            if "://" in target:
                continue
            path = os.path.join(ROOT, "docs", file or name)
            if not os.path.exists(path) or anchor and path.endswith(".md") and anchor not in anchors(read("docs", os.path.relpath(path, os.path.join(ROOT, "docs")))):
                broken.append(f"{name}: {target}")
    assert broken == []


def test_reasons_are_those_of_the_program():
    """The table of api.md, row by row, is that of src/base/reason.c; no word or sentence needs escaping."""
    rows = re.findall(r'\[REASON_\w+\] = \{"([^"]+)",\s*"([^"]+)",\s*"([^"]+)"\}', read("src/base/reason.c"))
    names = re.findall(r"^\tREASON_(\w+)(?:,| =)", read("src/base/reason.h"), re.M)
    same(names, ["NONE", *re.findall(r"\[REASON_(\w+)\] = \{\"[^\"]", read("src/base/reason.c"))], ("base/reason.h", "base/reason.c"))
    assert len({word for word, _, _ in rows}) == len(rows) == len(names) - 1
    table = read("docs/api.md").split("\n## Reasons\n")[1].split("\n## ")[0]
    told = re.findall(r"^\| `(.+?)` \| (.+?) \| (.+?) \|$", table, re.M)
    same([" | ".join(row) for row in told], [" | ".join(row) for row in rows], ("api.md", "base/reason.c"))
    assert told == rows, "in another order"
    assert all(text.isascii() and "\\" not in text for row in rows for text in row)


def text_formats():
    rows = re.findall(r"^TEXT_FORMAT\((.*?)\);$", "".join(sources("src/text").values()), re.M | re.S)
    names = [re.search(r"\.names = ((?:\"[^\"]*\"\s*)+)", row) for row in rows]
    return ", ".join("".join(re.findall(r'"([^"]*)"', match[1])) for match in names if match).split(", ")


def test_each_program_has_a_manual_page():
    programs = re.findall(r"^bin_PROGRAMS \+?= (.+)$", read("Makefile.am"), re.M)
    pages = {os.path.splitext(name)[0] for name in os.listdir(os.path.join(ROOT, "man"))}
    assert set(" ".join(programs).split()) == pages


def test_verbs_and_options_of_symbtool_are_in_its_manual_page():
    code = "\n".join(text for path, text in sources("src/symbtool").items())
    man = read("man", "symbtool.1")
    verbs = set(re.findall(r"\bverb_\w+ = \{\s*\"([a-z-]+)\"", code))
    synopsis = re.search(r"\n\.Sh SYNOPSIS\n(.*?)\n\.Sh ", man, re.S).group(1)
    assert {verb for line in re.findall(r"^\.Cm (.+)$", synopsis, re.M) for verb in line.split(" | ")} == verbs | {"help"}
    assert set(re.findall(r"^\.It Cm (\S+)$", man, re.M)) == verbs
    options = set(re.findall(r"\"(?:-\w, )?--([a-z-]+)[^\"]*\", OPTION_", code))
    assert len(options) > 25
    assert set(re.findall(r"\bFl Fl ([a-z-]+)", man)) == options | {"version"}


def test_formats_are_those_of_the_program():
    """The names in the table against --help, which lists them, and the first column of stack-text.md."""
    assert len(text_formats()) > 50
    tool = os.path.join(os.path.dirname(os.path.abspath(DAEMON[-1])), "symbtool")
    shown = subprocess.run([tool, "symbolicate", "--help"], capture_output=True, text=True, check=True).stdout
    listed = re.search(r"\nFormats of --filter:\n((?:  .*\n)+)", shown)[1]
    assert max(map(len, listed.splitlines())) <= 102
    same(re.split(r", |\n  ", listed.strip()), text_formats(), ("--help", "the rows"))
    rows = re.findall(r"^\| ([^|]+?) \| ", read("docs/stack-text.md").split("## Memory maps")[0], re.M)[1:]
    same([name for row in rows for name in row.split(":")[0].split(", ")], text_formats(), ("stack-text.md", "the rows"))


STUMBLED = [
    "of what was uploaded for the module",
    "whose build nothing tells",
    "without an answer of the server",
    "in no function of their modules",
    "it may have no memory for its size",
    "cannot be had",
    "which is safer; so is",
    "longest that this time becomes",
    "unless it sees that it may not",
    "who waits for memcached",
]


def test_plain_english():
    """No text has the phrases over which readers stumbled."""
    folders = [os.path.join(ROOT, name) for name in ("src", "web", "docs", "man", "nginx")]
    paths = [os.path.join(ROOT, "README"), *(os.path.join(at, name) for folder in folders for at, _, names in os.walk(folder) for name in names)]
    assert len(paths) > 200
    found = []
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as f:
            text = re.sub(r'\s+(?:\* |// )?|"\s+"', " ", f.read())
        found += [(os.path.relpath(path, ROOT), words) for words in STUMBLED if words in text]
    assert not found


def test_where_the_firefox_profiler_takes_a_symbol_server():
    """README and api.md say that it is for local hosts only, and what works for others."""
    readme, api = read("README"), read("docs", "api.md").split("## Firefox Profiler")[1].split("\n## ")[0]
    assert re.search(r"`\?symbolServer=URL`\s+for local hosts only: \[.*\]\(docs/api.md#firefox-profiler\)", readme)
    for words in ("only for a local host", "`localhost`", "a private address", "`*.local`", "without a dot", "proxy_pass", "symbolicator-cli"):
        assert words in api
