# SPDX-License-Identifier: Apache-2.0
"""Reports as real programs printed them (tests/data/text/crash, which has what made them): read by symbtool from symbol files, and by the
server over HTTP. The names are those of nm and addr2line."""

import html
import json
import os
import re
import shutil
import subprocess
import uuid

import pytest

from client import Client
from stack import ROOT, Stack
from symbols import debug_id
from test_filter import SYMBTOOL, compile_c, run_filter

pytestmark = pytest.mark.skipif(not os.path.exists(SYMBTOOL), reason="symbtool was not built")

CRASH = os.path.join(ROOT, "tests", "data", "text", "crash")
MODULES = ["libcrash.so", "app", "crash", "prog"]  # the last two are Windows programs
IDS = {module: debug_id(module)[:32] + "0" for module in MODULES}


def read(name):
    with open(os.path.join(CRASH, name), encoding="utf-8") as f:
        return f.read()


def places(*functions):
    """FUNCTION at FILE:LINE, by the marks in the sources."""
    out = []
    for function in functions:
        file = "app.c" if function in ("main", "middle") else "libcrash.c"
        line = next(i for i, text in enumerate(read(file).splitlines(), 1) if f"/* {function} */" in text)
        out.append(f"{function} at {file}:{line}")
    return out


# What is found in each, in the order of the text.
CRASHED = ["die", "twice", "crash", "middle", "main"]
SAMPLES = {
    "absl": ["die"],
    "ada": ["through", "around", "enter"],
    "backward": ["twice", "die"],
    "boost": ["through", "around"],
    "boost-handler": CRASHED[:2],
    "bpftrace": ["through", "around"],
    "coredumpctl": CRASHED,
    "d": ["through", "around"],
    "eu-stack": CRASHED[:2],
    "eu-stack-b": CRASHED[:2],
    "eu-unstrip": CRASHED[:2],
    "gdb": ["die", "twice", "middle", "main"],
    "gdb-full": CRASHED[:2],
    "gfortran": CRASHED[:3],
    "glog": ["die", "twice"],
    "hs_err": ["die", "die", "crash"],
    "jemalloc": ["through", "around", "enter"],
    "kernel": [],  # an offset in the file, and no symbol file says where that is loaded
    "lldb": ["die", "die", "twice", "middle", "main"],
    "lldb-handler": CRASHED[:2],
    "massif": ["through", "around"],
    "node": ["through", "around"],
    "node-report": ["through", "around"],
    "openmpi": CRASHED[:3],
    "perf-handler": CRASHED[:3],
    "perf-srcline": ["through", "around", "enter"],
    "python": CRASHED[:3],
    "redis": ["die", *CRASHED[:3]],
    "ruby": ["die", "twice"],
    "rust": ["through", "around"],
    "strace": CRASHED,
    "strace-handler": CRASHED[:3],
    "tcmalloc": ["through", "around", "enter"],
    "tor": ["die", *CRASHED[:3]],
    "torch": ["through", "around", "enter"],
    "valgrind": ["die", "twice", "die", "twice"],
    "wine": CRASHED,
    "zig": ["through", "around", "enter"],
}
PLACE = re.compile(r"\w+ at (?:libcrash|app)\.c:\d+")


def test_every_sample_is_tried():
    assert sorted(SAMPLES) == sorted(name[:-4] for name in os.listdir(CRASH) if name.endswith(".txt"))


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_by_symbtool(sample):
    text = read(sample + ".txt")
    modules = [word for module in MODULES for word in ("--module", f"{module}={os.path.join(CRASH, module.split('.')[0])}.sym")]
    out = run_filter(text, *modules).stdout.decode()
    assert PLACE.findall(out) == places(*SAMPLES[sample]), out


# As logs, terminals, mails and build servers have it: journalctl and syslog, docker, kubectl, GitHub, GitLab, TeamCity, Jenkins, git, ctest, grep,
# pytest, npm, Maven, glog and klog, logcat, Heroku, Ray, torchrun, mpirun, srun, pdsh, CloudWatch, Fly, Python's and Java's loggers, spdlog, Rust's,
# nginx, Apache, PostgreSQL, Redis, the kernel, Unreal, Chromium, foreman, pm2, Vagrant, lerna, multilog.
PREFIXES = [
    "Nov 26 18:56:33 host app[123]: ",
    "Nov 26 18:56:33 host app: ",
    "<13>Nov 26 18:56:33 host app[123]: ",
    "<165>1 2026-11-26T18:56:33.003Z host.example.com app 123 ID47 - ",
    "<165>1 2026-11-26T18:56:33.003Z host app - - [a@32473 b=\"3\"] ",
    "2026-11-26T18:56:33+0100 host app[123]: ",
    "2026-11-26T18:56:33.123456+01:00 host app[123]: ",
    "Nov 26 18:56:33.123456 host app[123]: ",
    "[ 1234.567890] host app[123]: ",
    "app[123]: ",
    "2026-11-26T18:56:33.123456789Z ",
    "web-1  | ",
    "[pod/web-1/app] ",
    "2026-11-26T18:56:33.123456789Z stderr F ",
    "web-1 app ",
    "2026-11-26T18:56:33+01:00 {app=\"web\"} ",
    "build\tRun tests\t2026-11-26T18:56:33.1234567Z ",
    "2026-11-26T18:56:33.123456Z 01O ",
    "[2026-11-26T18:56:33.123Z] ",
    "[18:56:33]W:\t [Step 1/2] ",
    "[18:56:33] ",
    "> ",
    ">> ",
    "| ",
    "# ",
    "// ",
    "    ",
    "remote: ",
    "12: ",
    "     12\t",
    "app.log:12:",
    "app.log-12-",
    "12:",
    "E   ",
    "npm ERR! ",
    "[ERROR] ",
    "[INFO] ",
    "I1126 18:56:33.123456   12345 main.go:123] ",
    "E20261126 18:56:33.123456 12345 main.cc:12] ",
    "F/DEBUG   (  123): ",
    "11-26 18:56:33.123   123   124 F DEBUG   : ",
    "11-26 18:56:33.123 F/DEBUG   (  123): ",
    "F libc    : ",
    "2026-11-26T18:56:33.123456+00:00 app[web.1]: ",
    "(RayWorker pid=1) ",
    "(RayWorker pid=1, ip=10.0.0.1) ",
    "[rank0]: ",
    "[default0]:",
    "[1,0]<stderr>:",
    "0: ",
    "host1: ",
    "host1\t",
    "2026-11-26T18:56:33.123000+00:00 web/app/3f2a ",
    "2026-11-26T18:56:33Z app[148ed] ams [info]",
    "2026-11-26 18:56:33,123 ERROR root: ",
    "ERROR:root:",
    "2026-11-26 18:56:33,123 [main] ERROR com.x.Y - ",
    "[2026-11-26 18:56:33.123] [error] ",
    "[2026-11-26T18:56:33Z ERROR app] ",
    "2026-11-26T18:56:33.123456Z ERROR app: ",
    "2026/11/26 18:56:33 [alert] 123#123: ",
    "[Thu Nov 26 18:56:33.123456 2026] [core:notice] [pid 123:tid 456] ",
    "2026-11-26 18:56:33.123 UTC [123] LOG:  ",
    "123:M 26 Nov 2026 18:56:33.123 # ",
    "[Thu Nov 26 18:56:33 2026] ",
    "<6>[ 1234.567890] ",
    "[2026.11.26-18.56.33:123][  0]LogCore: ",
    "[123:123:1126/185633.123456:ERROR:file.cc(12)] ",
    "18:56:33 web.1  | ",
    "0|app  | ",
    "==> default: ",
    "    default: ",
    "@scope/pkg: ",
    "\u001b[36mweb-1  | \u001b[0m",
    "@4000000067460f1b0a2b3c4d ",
    "2026-11-26T18:56:33.1234567Z \033[31m",
]  # fmt: skip


def behind_prefixes(sample, tmp_path):
    """The sample behind each prefix, with names, as symbtool gives it: each in a file of its own."""
    modules = [word for module in MODULES for word in ("--module", f"{module}={os.path.join(CRASH, module.split('.')[0])}.sym")]
    lines = read(sample + ".txt").splitlines(True)
    for i, prefix in enumerate(PREFIXES):
        (tmp_path / f"{i:03}").write_text("".join(prefix + line for line in lines) + "the end\n")
    out = run_filter("", *modules, *[str(tmp_path / f"{i:03}") for i in range(len(PREFIXES))]).stdout.decode()
    return out.split("the end\n")[:-1]


@pytest.mark.slow
@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_behind_the_prefix_of_a_log(sample, tmp_path):
    """It has the names that it has without, and each line keeps what stands before it."""
    texts = behind_prefixes(sample, tmp_path)
    assert len(texts) == len(PREFIXES)
    lost = [prefix for prefix, text in zip(PREFIXES, texts) if PLACE.findall(text) != places(*SAMPLES[sample])]
    assert not lost
    lines = len(read(sample + ".txt").splitlines())
    for prefix, text in zip(PREFIXES, texts):
        kept = text.splitlines()
        assert len(kept) == lines and all(line.startswith(prefix) for line in kept), prefix


def logged(text, whole):
    """As docker's json-file logs a program's output line by line, or a structured log a whole report."""
    if whole:
        return json.dumps({"level": "fatal", "msg": "crash", "stack": text}) + "\n"
    return "".join(json.dumps({"log": line, "stream": "stderr", "time": "2026-11-26T18:56:33.1+01:00"}) + "\n" for line in text.splitlines(True))


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True], ids=["lines", "whole"])
def test_samples_in_strings_of_json(whole):
    """Every sample has the names that it has outside, and what was JSON stays JSON."""
    modules = [word for module in MODULES for word in ("--module", f"{module}={os.path.join(CRASH, module.split('.')[0])}.sym")]
    lost = {}
    for sample, functions in SAMPLES.items():
        out = [json.loads(line) for line in run_filter(logged(read(sample + ".txt"), whole), *modules).stdout.decode().splitlines()]
        found = PLACE.findall("".join(line["stack" if whole else "log"] for line in out))
        if found != places(*functions):
            lost[sample] = found
    assert list(lost) == ["node-report"], lost  # JSON itself


@pytest.fixture(scope="module")
def one():
    with Stack() as s:
        for module in MODULES:
            s.symbols.add(module, read(module.split(".")[0] + ".sym").split("\n", 1)[1], IDS[module])
        build_id = re.search(r" (\w+)@\w+ /opt/crash/libcrash.so", read("eu-unstrip.txt")).group(1)
        s.symbols.add("libcrash.so", read("libcrash.sym").split("\n", 1)[1], uuid.UUID(bytes_le=bytes.fromhex(build_id[:32])).hex.upper() + "0")
        yield s


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_by_the_server(one, sample):
    """The text itself tells the modules' ids, before or after the stack."""
    ids = "".join(f"MODULE Linux x86_64 {IDS[module]} {module}\n" for module in MODULES)
    for text in (ids + read(sample + ".txt"), read(sample + ".txt") + ids):
        reply = Client(one.node.nginx.port).request("POST", "/symbolicate/text", text.encode())
        assert reply.status == 200
        # lldb and eu-unstrip give the build ids themselves, of which nobody has uploaded lldb's
        assert PLACE.findall(reply.text) == (places(*SAMPLES[sample]) if not sample.startswith("lldb") else PLACE.findall(reply.text)), reply.text


def functions(one, text):
    """What the server puts into JSON leaves it JSON."""
    reply = Client(one.node.nginx.port).request("POST", "/symbolicate/text", text.encode())
    assert reply.status == 200
    return reply.text


@pytest.mark.parametrize("indent", [None, 2])
def test_a_sentry_event(one, indent):
    """In the form of Sentry's documentation of stack traces and debug images: the newest frame is the last, and has no return address."""
    ident = str(uuid.UUID(IDS["libcrash.so"][:32]))
    image = {"type": "elf", "code_file": "/opt/libcrash.so", "debug_id": ident, "image_addr": "0x7f0000000000", "image_size": 16384}
    frames = [{"instruction_addr": hex(0x7F0000000000 + at), "package": "/opt/libcrash.so"} for at in (0x1130, 0x1105, 0x10F9)]
    frames.insert(1, {"instruction_addr": "0x1234", "in_app": True, "registers": {}, "vars": {"list": [1, 2, None]}})
    event = {"exception": {"values": [{"type": "SIGSEGV", "stacktrace": {"frames": frames}}]}, "debug_meta": {"images": [image]}}
    event = json.loads(functions(one, json.dumps(event, indent=indent)))
    named = [(f.get("function"), f.get("filename"), f.get("lineno")) for f in event["exception"]["values"][0]["stacktrace"]["frames"]]
    crash, twice, die = [(name, *where.split(":")) for name, where in (place.split(" at ") for place in places("crash", "twice", "die"))]
    assert [n and (n[0], n[1], str(n[2])) for n in (named[0], named[2], named[3])] == [crash, twice, die] and named[1] == (None, None, None)


def test_a_sentry_event_of_windows(one):
    """Paths with backslashes, which are escaped in JSON."""
    ident = str(uuid.UUID(IDS["libcrash.so"][:32]))
    image = {"type": "pe", "code_file": "C:\\Program Files (x86)\\App\\app.exe", "debug_file": "D:\\build\\libcrash.so", "debug_id": ident, "image_addr": "0x140000000", "image_size": 16384}
    frames = [{"instruction_addr": hex(0x140000000 + at), "package": image["code_file"]} for at in (0x1130, 0x1105, 0x10F9)]
    event = {"exception": {"values": [{"stacktrace": {"frames": frames}}]}, "debug_meta": {"images": [image]}}
    named = json.loads(functions(one, json.dumps(event)))
    found = named["exception"]["values"][0]["stacktrace"]["frames"]
    assert frames_of_libcrash(found) == places("crash", "twice", "die")
    assert named["debug_meta"] == event["debug_meta"] and [f["package"] for f in found] == [image["code_file"]] * 3


def test_a_text_of_windows_is_named_by_a_server(one):
    """It names app.exe or app, and symbols are stored under app.pdb: the user tells both."""
    one.symbols.add("app.pdb", read("libcrash.sym").split("\n", 1)[1], IDS["libcrash.so"])
    text = "    #0 0x7ff7123410f9  (C:\\Program Files (x86)\\App\\app.exe+0x10f9)\n   at app!<BaseAddress>+0x10f9\n"
    told = f"app.pdb/{IDS['libcrash.so']}"
    query = f"/symbolicate/text?module=app.exe={told.replace('/', '%2F')}&module=app={told}"
    reply = Client(one.node.nginx.port).request("POST", query, text.encode())
    assert reply.status == 200 and len(re.findall(r"die", reply.text)) == 2, reply.text
    out = run_filter(text, "--url", f"http://127.0.0.1:{one.node.nginx.port}", "--module", f"app.exe={told}", "--module", f"app.pdb={IDS['libcrash.so']}").stdout.decode()
    assert out == reply.text
    assert Client(one.node.nginx.port).request("POST", "/symbolicate/text?module=app.exe=app.pdb/", text.encode()).status == 400


def test_no_word_of_a_path_is_cut_off():
    """The text without the names is the text."""
    text = "    #0 0x7ff7123410f9  (C:\\Program Files (x86)\\App\\libcrash.so+0x10f9)\n"
    out = run_filter(text, "--module", f"libcrash.so={CRASH}/libcrash.sym").stdout.decode()
    assert out.replace(f" in {places('die')[0].replace(' at ', ' ')} ", "  ") == text and out != text, out


def test_an_event_of_sentrys_sdk_for_rust(one):
    """Images by name, id and code_id; frames without a name are <unknown>, which leaves no second member of that name."""
    text = read("sentry.json")
    ident = next(image["id"] for image in json.loads(text)["debug_meta"]["images"] if image["name"].endswith("libcrash.so"))
    one.symbols.add("libcrash.so", read("libcrash.sym").split("\n", 1)[1], ident.replace("-", "").upper() + "0")
    pairs = []
    event = json.loads(functions(one, text), object_pairs_hook=lambda all: pairs.append([name for name, _ in all]) or dict(all))
    assert all(len(set(names)) == len(names) for names in pairs)
    frames = [f"{f['function']} at {f.get('filename')}:{f.get('lineno')}" for f in event["threads"]["values"][0]["stacktrace"]["frames"]]
    assert [frame for frame in frames if "libcrash.c" in frame] == places("around", "through"), frames


def test_the_json_of_minidump_stackwalk(one):
    """rust-minidump's, of a minidump that its minidump-writer made. Offsets are already those of calls."""
    text = read("minidump-stackwalk.json")
    one.symbols.add("libcrash.so", read("libcrash.sym").split("\n", 1)[1], json.loads(text)["modules"][0]["debug_id"])
    named = [f"{f['function']} at {f['file']}:{f['line']}" for f in json.loads(functions(one, text))["threads"][0]["frames"]]
    assert named == places("through", "around", "enter")


def test_apples_ips(one):
    """In the form of "Interpreting the JSON format of a crash report", pretty-printed as macOS does."""
    images = [{"source": "P", "base": 1, "size": 9, "path": "/x"}]
    images.append({"source": "P", "base": 4372152320, "size": 16384, "uuid": str(uuid.UUID(IDS["libcrash.so"][:32])), "path": "/opt/libcrash.so"})
    frames = [{"imageOffset": at, "imageIndex": 1} for at in (0x10F9, 0x1105, 0x1130)]
    body = json.dumps({"pid": 7, "threads": [{"id": 1, "frames": frames}], "usedImages": images}, indent=2).replace('": ', '" : ').replace("/", "\\/")
    head, body = functions(one, '{"app_name":"x","bug_type":"309"}\n' + body).split("\n", 1)
    named = [f"{f.get('symbol')} at {f.get('sourceFile')}:{f.get('sourceLine')}" for f in json.loads(body)["threads"][0]["frames"]]
    assert named == places("die", "twice", "crash") and json.loads(head)["app_name"] == "x"


def test_addresses_of_macos(one):
    """In the form of published reports of iOS: addresses that only the list of images explains."""
    at = [0x104B58000 + offset for offset in (0x10F9, 0x1105, 0x1130)]
    image = f"0x104b58000 - 0x104b5ffff libcrash.so arm64  <{IDS['libcrash.so'][:32].lower()}> /var/containers/App.app/libcrash.so\n"
    exception = f"Last Exception Backtrace:\n({' '.join(f'{address + (i == 0):#x}' for i, address in enumerate(at))})\n"
    threads = "Thread 0 Crashed:\n" + "".join(f"{i}   libcrash.so                   \t{address:#018x} <redacted> + 300\n" for i, address in enumerate(at))
    beside = f"3   libcrash.so                   \t{at[1]:#018x} 0x104b58000 + {0x1105} (libcrash.so + {0x1105})\n"
    named = functions(one, exception + threads + beside + "Binary Images:\n" + image)
    assert PLACE.findall(named) == places("die", "twice", "crash") * 2 + places("twice"), named
    assert re.sub(r" \(\w+ at [\w.:]+\)", "", named) == exception + threads + beside + "Binary Images:\n" + image


@pytest.mark.parametrize("order", [sorted, reversed])
def test_metrickit(one, order):
    """In the form of published payloads, whose members have no order: what calls a frame stands within it."""
    tree = []
    for at in (0x1130, 0x1105, 0x10F9):
        frame = {"binaryUUID": str(uuid.UUID(IDS["libcrash.so"][:32])).upper(), "binaryName": "libcrash.so", "address": 7170766264, "sampleCount": 1}
        frame |= {"offsetIntoBinaryTextSegment": at, "subFrames": tree}
        tree = [{key: frame[key] for key in order(list(sorted(frame)))}]
    named = json.loads(functions(one, json.dumps({"crashDiagnostics": [{"callStackTree": {"callStacks": [{"callStackRootFrames": tree}]}}]})))
    at, found = named["crashDiagnostics"][0]["callStackTree"]["callStacks"][0]["callStackRootFrames"], []
    while at:
        found.append(f"{at[0].get('function')} at {at[0].get('filename')}:{at[0].get('lineno')}")
        at = at[0]["subFrames"]
    assert found == places("die", "twice", "crash")


def test_swifts_backtrace(one):
    """In the form of swift's BacktraceFormatter: only what is marked [ra] is a return address."""
    build_id = uuid.UUID(IDS["libcrash.so"][:32]).bytes_le.hex() + "01234567"
    frames = ["0                    0x00007f00000010f9 <unknown> in libcrash.so", "1 [ra]               0x00007f0000001105 <unknown> in libcrash.so"]
    frames += ["2 [ra] [system]      0x00007f0000001130 crash + 14 in libcrash.so", "3 [ra]               0x00007f0000001130 <unknown> in libcrash.so"]
    images = ["0x000055c0ba2d0000–0x000055c0ba2d7000 <no build ID> app         /opt/app", f"0x00007f0000000000–0x00007f0000004000 {build_id} libcrash.so /opt/libcrash.so"]
    head = '*** Program crashed: Bad pointer dereference at 0x0000000000000000 ***\n\nThread 0 "app" crashed:\n\n'
    named = functions(one, head + "\n".join([*frames, "", "Images (only mentioned):", "", *images, ""]))
    assert PLACE.findall(named) == places("die", "twice", "crash") and f"{frames[2]}\n" in named, named


def test_call_graphs_of_macos(one):
    """As sample and spindump write them, in the form of published reports; what stands above deeper lines has a return address."""
    ident = str(uuid.UUID(IDS["libcrash.so"][:32])).upper()
    images = f"\nBinary Images:\n       0x1048e0000 -        0x1048e3fff +libcrash.so (0) <{ident}> /opt/libcrash.so\n"
    tree = "Call graph:\n    869 Thread_331472   DispatchQueue_1: com.apple.main-thread  (serial)\n    + 869 start  (in dyld) + 6992  [0x1804abe00]\n"
    unknown = "???  (in libcrash.so)  load address 0x1048e0000 + {0:#x}  [{1:#x}]\n"
    for depth, at in enumerate((0x1130, 0x1105, 0x10F9)):
        tree += "    + " + "  " * depth + "  869 " + unknown.format(at, 0x1048E0000 + at)
    tree += "    + 1 " + unknown.format(0x10FC, 0x1048E10FC) + "\nTotal number in stack (recursive counted multiple, when >=5):\n"
    assert [place.split(" ")[0] for place in PLACE.findall(functions(one, tree + images))] == ["crash", "twice", "die", "twice"]
    assert PLACE.findall(functions(one, tree + images))[:3] == places("crash", "twice", "die")
    spun = "".join(f"  {'  ' * depth}8  ??? (libcrash.so + {at}) [{0x1048E0000 + at:#x}] 1-8\n" for depth, at in enumerate((0x1130, 0x1105, 0x10F9)))
    assert PLACE.findall(functions(one, spun + "       *8  ??? [0xfffffff0071a86d4]\n" + images))[:2] == places("crash", "twice")
    assert PLACE.findall(functions(one, spun + images)) == places("crash", "twice", "die")
    flat = re.sub("^ +", "  ", spun, flags=re.M)
    assert functions(one, flat + images).count("??? (libcrash.so") == 2, "only of the last it is known that it has no callee"


def frames_of_libcrash(values):
    """Their names, files and lines."""
    return [f"{f.get('function')} at {f.get('filename')}:{f.get('lineno')}" for f in values]


def test_unreal_engine(one):
    """As published logs of Unreal Engine 4.24 to 5.7 on Linux have it: the first address is exact, the others are those of calls."""
    head = f"MODULE Linux x86_64 {IDS['libcrash.so']} libcrash.so\n[2023.02.18-09.15.37:112][  0]LogCore: === Critical error: ===\n\n"
    frame = "{}0x00007f04622e{:04x} {}!UnknownFunction({:#x})\n"
    for before in ("", "LogOutputDevice: Error: [Callstack] ", "[2026.10.01-09.09.08:436][  1]LogCore: "):
        stack = "".join(frame.format(before, at + 1, "libcrash.so", at) for at in (0x10F9, 0x1104, 0x112F))
        assert PLACE.findall(functions(one, head + stack)) == places("die", "twice", "crash")
    handled = "".join(frame.format("", at + 1, name, at) for name, at in (("libcrash.so", 0x112F), ("libc.so.6", 0x3C04F), ("libcrash.so", 0x10F8), ("libcrash.so", 0x1104)))
    assert PLACE.findall(functions(one, head + handled)) == places("crash", "die", "twice"), "the byte where a signal came, not the one before it"


def test_unity(one):
    """In the form of StackWalker's OnLoadModule and OnCallstackEntry, and of published logs: addresses in memory, the modules above them."""
    head = f"MODULE windows x86_64 {IDS['libcrash.so']} libcrash.so\nSymInit: Symbol-SearchPath: '.', symOptions: 530, UserName: 'me'\n"
    module = "D:\\My game (1)\\libcrash.so:libcrash.so (00007F0000000000), size: 16384 (result: 0), SymType: '-exported-', PDB: ''\n"
    error = "  ERROR: SymGetSymFromAddr64, GetLastError: 'Attempt to access invalid address.' (Address: {0:016X})\n"
    frame = error + "0x{0:016X} (libcrash) (function-name not available)\n"
    named = "0x00007F00000010F0 (libcrash) UnityMain\n"
    stack = "".join(frame.format(0x7F0000000000 + at) for at in (0x10F9, 0x1105)) + named + frame.format(0x7F0000001130)
    out = functions(one, head + module + "========== OUTPUTTING STACK TRACE ==================\n\n" + stack)
    assert PLACE.findall(out) == places("die", "twice", "crash") and named in out and f"(libcrash) {places('die')[0]}\n" in out, out
    thrown = "0x00007FF8A5C04F69 (ntdll) KiUserExceptionDispatcher\n" + frame.format(0x7F00000010F9) + frame.format(0x7F0000001105)
    assert PLACE.findall(functions(one, head + module + "0x00007FF8A5C04F60 (ntdll) RaiseException\n" + thrown)) == places("die", "twice")


def test_dart(one):
    """In the form that Dart's package native_stack_traces reads, and of published stacks, in which odd addresses of arm64 show that they are
    those of calls."""
    build_id = uuid.UUID(IDS["libcrash.so"][:32]).bytes_le.hex()
    one.symbols.add("libapp.so", read("libcrash.sym").split("\n", 1)[1], IDS["libcrash.so"])
    head = f"*** *** *** ***\npid: 8210, tid: 8210, name 1.ui\nos: linux arch: x64 comp: no sim: no\nbuild_id: '{build_id}'\nisolate_dso_base: 7420, vm_dso_base: 7420\n"
    frame = "    #{:02} abs 00007420000{:05x} virt {:016x} _kDart{}SnapshotInstructions+{:#x}{}\n"
    stack = "".join(frame.format(i, at, at, kind, at, tail) for i, (at, kind, tail) in enumerate(((0x10F9, "Isolate", ""), (0x1104, "Vm", "(.java)"), (0x112F, "Isolate", ""))))
    assert PLACE.findall(functions(one, head + stack)) == places("die", "twice", "crash")
    assert functions(one, stack) == stack and " at " not in functions(one, head + stack.replace(" virt ", " ")), "who knows of which program, or where"


def test_mongodb(one):
    """As published logs have it, and as MongoDB's mongosymb.py reads it; what stands below the trampoline is where a signal came."""
    base, library = 0x5609C75C7000, 0x7F0FBB3F9000
    frames = [{"a": f"{base + at:X}", "b": f"{base:X}", "o": f"{at:X}", **more} for at, more in ((0x1130, {"s": "_ZN5mongo15printStackTraceEv", "s+": "29"}), (0x1105, {}))]
    frames += [{"a": f"{library + 0x42520:X}", "b": f"{library:X}", "o": "42520", "s": "__sigaction", "s+": "50"}]
    frames += [{"a": f"{base + at:X}", "b": f"{base:X}", "o": f"{at:X}"} for at in (0x10F9, 0x1105)] + [{"a": "7FFD12345678"}]
    build_id = uuid.UUID(IDS["libcrash.so"][:32]).bytes_le.hex().upper() + "01234567"
    maps = [{"b": f"{base:X}", "path": "/opt/libcrash.so", "elfType": 3, "buildId": build_id}, {"b": f"{library:X}", "path": "/lib/libc.so.6", "elfType": 3}]
    report = {"backtrace": frames, "processInfo": {"mongodbVersion": "6.0.9", "uname": {"sysname": "Linux"}, "somap": maps}}
    line = {"t": {"$date": "2023-09-18T13:21:21.915+00:00"}, "s": "I", "c": "CONTROL", "id": 31380, "msg": "BACKTRACE", "attr": {"bt": report}}
    one_frame = {"t": {}, "s": "I", "c": "CONTROL", "id": 31427, "msg": "  Frame: {frame}", "attr": {"frame": frames[1]}}
    for text, inside in ((json.dumps(line), lambda j: j["attr"]["bt"]), (json.dumps(report), lambda j: j), ("2023-09-18 15:21:21 " + json.dumps(line), lambda j: j["attr"]["bt"])):
        out = functions(one, text + "\n" + json.dumps(one_frame) + "\n").splitlines()
        found = frames_of_libcrash(inside(json.loads(out[0][out[0].index("{") :]))["backtrace"])
        assert [f for f in found if "None" not in f] == places("crash", "twice", "die", "twice") and json.loads(out[1]) == one_frame
    moved = [{**maps[0], "b": f"{base - 0x1000:X}"}]
    assert "libcrash.c" not in functions(one, json.dumps({**report, "processInfo": {"somap": moved}})), "another base is another module"


@pytest.mark.parametrize("indent", [None, 4])
def test_abrt(one, indent):
    """In the form of satyr's core_unwind_elfutils.c, whose commas stand before the keys."""
    build_id = uuid.UUID(IDS["libcrash.so"][:32]).bytes_le.hex() + "01234567"
    frame = [{"address": 140000000000000 + at, "build_id": build_id, "build_id_offset": at, "file_name": "/opt/libcrash.so"} for at in (0x10F9, 0x1105, 0x1130)]
    handler = {"build_id": "00" * 20, "build_id_offset": 0x3C050, "function_name": "__restore_rt", "file_name": "/usr/lib64/libc.so.6"}
    threads = [{"crash_thread": True, "frames": [frame[1], handler, *frame]}, {"frames": frame}]
    text = json.dumps({"signal": 11, "executable": "/usr/bin/app", "stacktrace": threads}, indent=indent)
    text = re.sub(r",\n( *)", r"\n\1,   ", text) if indent else text
    stacks = [frames_of_libcrash(thread["frames"]) for thread in json.loads(functions(one, text))["stacktrace"]]
    die, twice, crash = places("die", "twice", "crash")
    assert stacks[1] == [die, twice, crash] and stacks[0][2:] == [die, twice, crash], stacks


def test_windows_event_log(one):
    """Event 1000 of Application Error, as Microsoft's support pages show it."""
    head = f"MODULE windows x86_64 {IDS['crash']} crash\nMODULE Linux x86_64 {IDS['libcrash.so']} libcrash.so\n"
    event = "Faulting application name: app.exe, version: 1.0.0.0, time stamp: 0x55ba1876\nFaulting module name: {}, version: 1.0.0.0, time stamp: 0x55ba1876\n"
    event += "Exception code: 0xc0000005\nFault offset: 0x{:016x}\nFaulting process id: 0x26c0\nFaulting module path: C:\\app\\{}\n"
    named = functions(one, head + event.format("libcrash.so", 0x10F9, "libcrash.so") + event.format("unknown", 0x10F9, "unknown"))
    assert PLACE.findall(named) == places("die") and f"Fault offset: 0x00000000000010f9 ({places('die')[0]})\n" in named
    assert "(" not in functions(one, head + "Fault offset: 0x00000000000010f9\n")


def test_windbg(one):
    """As kb and !analyze print rows, in the form of published reports (microsoft/WinDbg-Feedback #361): the first has where the fault came."""
    head = f"MODULE windows x86_64 {IDS['libcrash.so']} libcrash.pdb\n"
    one.symbols.add("libcrash.pdb", read("libcrash.sym").split("\n", 1)[1], IDS["libcrash.so"])
    arguments = {"ChildEBP RetAddr  Args to Child": "0019e56c 0040c987 025805a8 0000003f 0019e5bc", "STACK_TEXT:  ": "00000016`f1f7b508 00007ffa`3672ecd1     : 00000000`00000000 :"}
    for heading, row in arguments.items():
        named = functions(one, head + heading + "\n" + "".join(f"{row} libcrash+0x{at:x}\n" for at in (0x10F9, 0x1105, 0x1130)))
        assert PLACE.findall(named) == places("die", "twice", "crash"), named


def test_simpleperf(one):
    """In the form of report-sample and report_sample.py, whose callers are lowered already."""
    head = f"MODULE Linux arm64 {IDS['libcrash.so']} libcrash.so\n"
    sample = "sample:\n  event_type: cpu-cycles:u\n" + "".join(f"  vaddr_in_file: {at:x}\n  file: /system/lib64/libcrash.so\n  symbol: libcrash.so[+{at:x}]\n" for at in (0x10F9, 0x1104, 0x112F))
    script = "app\t7 [000] 1.5: 10 cpu-cycles:\n" + "".join(f"\t      6e8ecb{at:x} libcrash.so[+{at:x}] (/system/lib64/libcrash.so)\n" for at in (0x10F9, 0x1104, 0x112F))
    for text in (sample, script):
        named = functions(one, head + text)
        assert PLACE.findall(named) == places("die", "twice", "crash"), named


def test_markup(one):
    """As LLVM's Symbolizer Markup Format describes it, of a library at 0x7f0000000000. The sanitizers lower addresses before."""
    ident = IDS["libcrash.so"]
    build_id = uuid.UUID(ident[:32]).bytes_le.hex() + "01234567"
    context = f"{{{{{{reset}}}}}}\n{{{{{{module:3:libcrash.so:elf:{build_id}}}}}}}\n{{{{{{mmap:0x7f0000001000:0x1000:load:3:rx:0x1000}}}}}}\n"
    frames = "{{{bt:0:0x7f00000010f9}}}\n{{{bt:1:0x7f0000001105}}}\nin {{{pc:0x7f0000001130:ra}}}\n"
    named = functions(one, context + frames)
    assert PLACE.findall(named) == places("die", "twice", "crash") and named.startswith(context), named
    assert PLACE.findall(functions(one, frames)) == []


def test_dotnet_native_aot(one):
    """In the form of DeveloperExperience.CreateStackTraceString. The first frame may be where a fault came."""
    head = f"MODULE Linux x86_64 {IDS['libcrash.so']} libcrash\n"
    one.symbols.add("libcrash", read("libcrash.sym").split("\n", 1)[1], IDS["libcrash.so"])
    frames = "".join(f"   at libcrash!<BaseAddress>+0x{at:x}\n" for at in (0x10F9, 0x1105, 0x1130))
    text = "Unhandled exception: System.NullReferenceException: Arg_NullReferenceException\n"
    named = functions(one, head + text + frames)
    assert PLACE.findall(named) == places("die", "twice", "crash"), named
    behind = "   at App.Program.Run(String) + 0x2b at offset 43 in file:line:column <filename unknown>:0:0\n"
    tail = "   at libcrash!<BaseAddress>+0x1105 at offset 9 in file:line:column <filename unknown>:0:0\n"
    assert functions(one, head + text + behind + tail).endswith(tail.replace(" at offset", f" ({places('twice')[0]}) at offset"))


def test_clickhouse(one):
    """In the form of published logs of 20.10 to 24.10: addresses in the file, behind the first those of returns. What has a name keeps it."""
    ident = f"MODULE Linux x86_64 {IDS['libcrash.so']} libcrash.so\n"
    lines = [f"2023.08.08 05:58:02.2828{i:02d} [ 340 ] {{}} <Fatal> BaseDaemon: {3 + i}. ? @ {at:#018x} in /opt/crash/libcrash.so" for i, at in enumerate((0x10F9, 0x1105, 0x1130))]
    lines.insert(1, "2023.08.08 05:58:02.282800 [ 340 ] {} <Fatal> BaseDaemon: 4.1. inlined from ./src/Common/a.cpp:12: DB::f()")
    lines += ["2023.08.08 05:58:02.282822 [ 340 ] {} <Fatal> BaseDaemon: 6. __clone @ 0x0000000000001130 in /opt/crash/libcrash.so"]
    named = functions(one, ident + "\n".join(lines) + "\n")
    assert PLACE.findall(named) == places("die", "twice", "crash") and named.endswith(lines[-1] + "\n"), named


def test_crashlytics(one):
    """In the form of published reports of iOS: offsets in the image, with its UUID."""
    lines = [f"{i}  libcrash.so                    {at:#x} (Missing UUID {IDS['libcrash.so'][:32].lower()})" for i, at in enumerate((0x10F9, 0x1105, 0x1130))]
    text = "Crashed: com.apple.main-thread\n" + "\n".join(lines) + "\n3  libcrash.so                    0x1130 thread_start + 8\n"
    named = functions(one, text)
    assert PLACE.findall(named) == places("die", "twice", "crash"), named
    assert re.sub(r" \(\w+ at [\w.:]+\)", "", named) == text


def test_samples_copied_from_html():
    """Every sample has the names that it has without, and what was HTML stays HTML."""
    modules = [word for module in MODULES for word in ("--module", f"{module}={os.path.join(CRASH, module.split('.')[0])}.sym")]
    lost = {}
    for sample, functions in SAMPLES.items():
        text = read(sample + ".txt")
        out = run_filter(html.escape(text), *modules).stdout.decode()
        if PLACE.findall(html.unescape(out)) != places(*functions) or html.escape(html.unescape(out)) != out:
            lost[sample] = out
    assert list(lost) == ["node-report"], lost  # JSON itself


def test_callgrind(one):
    """As callgrind_annotate 3.19 printed it of a program that calls enter(), with --threshold=100 --inclusive=yes, and --tree=both: functions
    begin there."""
    at = {name: start for start, name in re.findall(r"^FUNC (\w+) \w+ 0 (\w+)$", read("libcrash.sym"), re.M)}
    lines = [" 27,858 (17.01%)  ???:enter [/opt/crash/libcrash.so]", f" 27,852 (17.01%)  ???:0x{at['around']:0>16} [/opt/crash/libcrash.so]"]
    lines += [f" 27,846 (17.00%)  >   ???:0x{at['through']:0>16} (1x) [/opt/crash/libcrash.so]", "     90 ( 0.05%)  ???:0x0000000000001040 [/opt/crash/libcrash.so]"]
    named = functions(one, f"MODULE Linux x86_64 {IDS['libcrash.so']} libcrash.so\n" + "\n".join(lines) + "\n").splitlines()[1:]
    assert [line[len(before) :].split(":")[0] for line, before in zip(named, lines)] == ["", " (around at libcrash.c", " (through at libcrash.c", ""], named


def test_a_map_of_another_process_is_not_used():
    """Two reports in a log, both of processes at the same addresses; the second has no map."""
    text = read("gdb.txt")
    start = text.index("Program received signal")
    second = text[start : text.index("process ", start)]
    modules = [word for module in MODULES for word in ("--module", f"{module}={os.path.join(CRASH, module.split('.')[0])}.sym")]
    out = run_filter(second + text + second, *modules).stdout.decode()
    assert PLACE.findall(out) == places(*SAMPLES["gdb"]) and out.startswith(second) and out.endswith(second)


LIBRARY = "int crash(int *p)\n{\n\treturn *p; /* crash */\n}\n__attribute__((visibility(\"hidden\"), noinline)) int inner(int *p)\n{\n\tint n = crash(p); /* inner */\n\treturn n + 1;\n}\n" "int outer(int *p)\n{\n\tint n = inner(p); /* outer */\n\treturn n + 1;\n}\n"


@pytest.mark.skipif(not shutil.which("gdb"), reason="gdb is not installed")
@pytest.mark.parametrize("tables", ["info proc mappings", "info sharedlibrary"])
@pytest.mark.parametrize("linker", ["-fuse-ld=bfd", "-Wl,-z,separate-code", "-Wl,-z,noseparate-code", "-fuse-ld=lld"])
def test_gdb_with_either_table(tmp_path, tables, linker):
    """However the linker puts code into the file. info sharedlibrary tells where .text is: the file itself says where that begins."""
    if "lld" in linker and not shutil.which("ld.lld"):
        pytest.skip("lld is not installed")
    library = compile_c(str(tmp_path), "libours.so", LIBRARY, "-shared", "-fPIC", "-O0", "-Wl,--build-id=sha1", linker)
    (tmp_path / "kept").mkdir()
    shutil.copy(library, tmp_path / "kept" / "copy")
    subprocess.run(["strip", library], check=True)
    (tmp_path / "m.c").write_text("int outer(int *); int main(void) { return outer(0); }\n")
    subprocess.run(["gcc", "-o", "m", "m.c", library, f"-Wl,-rpath,{tmp_path}"], cwd=tmp_path, check=True)
    shown = subprocess.run(["gdb", "-nx", "--batch", "-ex", "run", "-ex", "bt", "-ex", tables, "./m"], cwd=tmp_path, capture_output=True, text=True, timeout=60).stdout
    if "in ?? () from" not in shown or ".so" not in shown.split("main")[-1]:
        pytest.skip("gdb may not run programs here: " + shown[-200:])
    out = run_filter(shown, "--debug-dir", str(tmp_path / "kept")).stdout.decode()
    line = next(i for i, text in enumerate(LIBRARY.splitlines(), 1) if "/* inner */" in text)
    assert f" in inner at {library}.c:{line} from {library}" in out, out
