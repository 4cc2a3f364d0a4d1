# SPDX-License-Identifier: Apache-2.0
"""symbtool: what it cuts out of executables, what a server then answers, and what it says of files."""

import base64
import glob
import gzip
import hashlib
import http.server
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading

import pytest

from stack import DAEMON, ROOT, Stack, die_with_parent, wait_for
from symbols import TOOLS

sys.path.insert(0, TOOLS)
import plain_symbfile  # noqa: E402

SYMBTOOL = os.environ.get("SYMBTOOL", os.path.join(os.path.dirname(os.path.abspath(DAEMON[-1])), "symbtool"))
DATA = os.path.join(ROOT, "tests", "data", "symbfile")
PROGRAM = os.path.join(DATA, "cpp-pie-x86_64", "cpp-pie-x86_64")
BOUND = 120  # seconds for one command

pytestmark = pytest.mark.skipif(not os.path.exists(SYMBTOOL), reason="symbtool was not built")

# Templates and inlined calls as the standard library has them, for a third of the time that the compiler takes for its headers.
SOURCE = """
extern "C" int printf(const char *, ...);

namespace tool {
struct part { int size; const char *name; };
template <typename T> class list {
	T *items = nullptr;
	unsigned count = 0, room = 0;
	void grow()
	{
		T *more = new T[room = room ? 2 * room : 4];
		for (unsigned i = 0; i < count; i++)
			more[i] = items[i];
		delete[] items;
		items = more;
	}
public:
	~list() { delete[] items; }
	void add(const T &one)
	{
		if (count == room)
			grow();
		items[count++] = one;
	}
	T *begin() const { return items; }
	T *end() const { return items + count; }
};
template <typename T> inline void exchange(T &a, T &b) { T c = a; a = b; b = c; }
template <typename T, typename Less> void sort(const list<T> &all, Less less)
{
	for (T *i = all.begin(); i < all.end(); i++)
		for (T *j = i; j > all.begin() && less(j[0], j[-1]); j--)
			exchange(j[0], j[-1]);
}
template <typename T, typename Value> inline int sum(const list<T> &all, Value value)
{
	int n = 0;
	for (const T &one : all)
		n += value(one);
	return n;
}
static inline __attribute__((always_inline)) int twice(int n) { return printf("%d\\n", n) * 2; }
inline __attribute__((always_inline)) bool before(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a < *b;
}
template <int N> struct round {
	static __attribute__((noinline)) int total(const list<part> &parts)
	{
		list<part> large;
		sort(parts, [](const part &a, const part &b) { return a.size % N == b.size % N ? before(a.name, b.name) : a.size < b.size; });
		for (const part &p : parts)
			if (p.size > N)
				large.add(p);
		return sum(large, [](const part &p) { return twice(p.size / N); }) + round<N - 1>::total(parts);
	}
};
template <> struct round<0> {
	static int total(const list<part> &parts) { return sum(parts, [](const part &p) { return twice(p.size); }); }
};
}

int main(int argc, char **argv)
{
	tool::list<tool::part> parts;
	for (int i = 0; i < argc; i++)
		parts.add({i * MARK, argv[i]});
	return tool::round<7>::total(parts) == 0;
}
"""


def run(*arguments, code=0, env=None, stdin=None):
    """Runs symbtool; its exit code must be this one."""
    done = subprocess.run(
        [SYMBTOOL, *map(str, arguments)], capture_output=True, text=True, timeout=BOUND, input=stdin, env={**os.environ, **(env or {})}
    )
    assert "\033" not in done.stderr  # no terminal, no progress line
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done


def file_id(data):
    """The FileID of a program in base64, from its definition."""
    digest = hashlib.sha256(data[:4096] + data[-4096:] + len(data).to_bytes(8, "big")).digest()
    return base64.urlsafe_b64encode(digest[:16]).decode().rstrip("=")


def compile_program(directory, name="program", mark=3, *options):
    source, program = os.path.join(directory, name + ".cpp"), os.path.join(directory, name)
    with open(source, "w", encoding="utf-8") as f:
        f.write(SOURCE.replace("MARK", str(mark)))
    subprocess.run(["g++", "-g", "-O2", *options, "-o", program, source], check=True, timeout=BOUND)
    return program


def code_addresses(program, step=7):
    """Addresses of the program's own .text, as objdump has them."""
    out = subprocess.run(["objdump", "-d", "-j", ".text", program], capture_output=True, text=True, check=True).stdout
    return [int(a, 16) for a in re.findall(r"^ +([0-9a-f]+):\t", out, re.M)][::step]


def addr2line(program, addresses):
    """{address: [(file, line), ...]}, innermost first; None where it has no line."""
    asked = "".join(f"{a:#x}\n" for a in addresses)
    out = subprocess.run(["addr2line", "-i", "-a", "-e", program], input=asked, capture_output=True, text=True, check=True).stdout
    answers = {}
    for line in out.splitlines():
        if line.startswith("0x"):
            frames = answers.setdefault(int(line, 16), [])
        else:
            place, number = line.split(" (discriminator")[0].rsplit(":", 1)
            frames.append((os.path.normpath(place), int(number) if number.isdigit() else 0))
    return answers


def shape(frame):
    chain = [*frame.get("inlines", []), frame] if "function" in frame else []
    return [(os.path.normpath(f["file"]), f.get("line", 0)) for f in chain if "file" in f]


def check_against_addr2line(program, frames):
    """Where addr2line knows the line, the same places; returns how many frames had inlined ones."""
    known, inlined = 0, 0
    truth = addr2line(program, [int(f["module_offset"], 16) for f in frames])
    for frame in frames:
        right = truth[int(frame["module_offset"], 16)]
        if right and right[0][1] > 0 and "function" in frame:
            assert shape(frame) == right, frame
            known += 1
            inlined += len(right) > 1
    assert known > 50 and inlined > 10, (known, inlined)


def v5_frames(output):
    return json.loads(output)["results"][0]["stacks"][0]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program(str(tmp_path_factory.mktemp("program")))


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    place = tmp_path_factory.mktemp("store")
    os.makedirs(place / "store")
    with Stack(keys=True, config={"symbfile_store": f"file://{place}/store", "revalidate_after": "1s"}) as s:
        s.place = place
        s.key_path = str(place / "key")
        with open(s.key_path, "w", encoding="utf-8") as f:
            f.write(s.key + "\n")
        yield s


def url(stack):
    return f"http://127.0.0.1:{stack.node.nginx.port}"


def pushing(stack):
    return ["push-symbols", "--url", url(stack), "--api-key-file", stack.key_path]


def push(stack, *arguments, code=0, **more):
    return run(*pushing(stack), *arguments, code=code, **more)


def pushed(stack, *arguments):
    return [json.loads(line) for line in push(stack, "--json", *arguments).stdout.splitlines()]


def ask(stack, *arguments, **more):
    return run("symbolicate", "--url", url(stack), *arguments, **more)


def fresh(tmp_path, mark):
    """A program that no server has."""
    return compile_program(str(tmp_path), f"program{mark}", mark)


# Push and back


def test_a_program_is_pushed_and_symbolicated(one, program):
    said = push(one, program).stdout
    assert "parts: 1 + 1; sent 2, " in said and run("file-id", program).stdout.split()[0] in said
    addresses = code_addresses(program)
    frames = v5_frames(ask(one, "--json", program, *map(hex, addresses)).stdout)
    assert [int(f["module_offset"], 16) for f in frames] == addresses
    check_against_addr2line(program, frames)


def test_text_has_a_line_for_each_inlined_call(one, program):
    push(one, program)
    deep = max(v5_frames(ask(one, "--json", program, *map(hex, code_addresses(program))).stdout), key=lambda f: len(f.get("inlines", [])))
    lines = ask(one, program, deep["module_offset"]).stdout.splitlines()
    assert len(lines) == len(deep["inlines"]) + 1
    assert lines[0].startswith(f"program+{deep['module_offset']}  {deep['inlines'][0]['function']} at ")
    assert all(line.strip().startswith("(inlined by) ") for line in lines[1:])
    assert lines[-1].endswith(f"{deep['function']} at {deep['file']}:{deep['line']}")


def test_tls(one, program):
    tls = f"https://127.0.0.1:{one.node.nginx.tls_port}"
    ca = glob.glob(os.path.join(one.node.nginx.directory, "cert.pem"))[0]
    key = ["--api-key-file", one.key_path]
    refused = run("push-symbols", "--url", tls, *key, program, code=1).stderr
    assert "certificate" in refused and "trying again" not in refused
    run("push-symbols", "--url", tls, *key, "--ca-file", ca, program)
    assert "below first symbol" in run("symbolicate", "--url", tls, "--insecure", program, "0x1", code=1).stdout


@pytest.mark.slow
def test_several_parts(one, tmp_path):
    program = fresh(tmp_path, 17)
    first = pushed(one, "--part-size", "4K", program)[0]
    assert first["ranges_parts"] > 3 and first["returnpads_parts"] > 1
    assert first["sent"] == first["ranges_parts"] + first["returnpads_parts"]
    listed = one.client.get(f"/api/symbols/{first['file_id']}", Authorization=one.key).json()
    assert listed["ranges"] == {"parts": first["ranges_parts"], "have": list(range(first["ranges_parts"])), "set": first["ranges_set"]}
    stored = [os.path.join(where, name) for where, _, names in os.walk(one.place / "store") for name in names if name != "set.json"]
    sizes = [os.path.getsize(p) for p in stored if first["ranges_set"] in p or first["returnpads_set"] in p]
    assert len(sizes) == first["sent"] and max(sizes) <= 4096
    addresses = code_addresses(program)
    check_against_addr2line(program, v5_frames(ask(one, "--json", program, *map(hex, addresses)).stdout))


@pytest.mark.slow
def test_parts_are_small_and_say_the_same_as_one(program, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for place, size in ((whole, "32M"), (cut, "2K")):
        os.makedirs(place)
        run("extract", "-o", place, "--part-size", size, program)
    for kind in ("ranges", "returnpads"):
        one, parts = glob.glob(f"{whole}/*.{kind}.*"), sorted(glob.glob(f"{cut}/*.{kind}.*"), key=lambda p: int(p.split(".")[-2].split("-")[0]))
        assert len(one) == 1 and len(parts) > 2
        assert run("dump", "--json", *one).stdout == run("dump", "--json", *parts).stdout
        # A record that alone is larger may make a part of its own.
        assert sum(os.path.getsize(p) > 2048 for p in parts) < len(parts) / 2


def test_the_same_set_whatever_the_threads(program):
    sets = set()
    for threads in (1, 2, 3):
        o = json.loads(run("extract", "--dry-run", "--json", "--threads", threads, program).stdout)
        sets.add((o["ranges_set"], o["returnpads_set"]))
    assert len(sets) == 1 and all(re.fullmatch("[0-9a-f]{32}", s) for s in sets.pop())
    other = json.loads(run("extract", "--dry-run", "--json", "--part-size", "4K", program).stdout)
    assert other["ranges_set"] != o["ranges_set"]


@pytest.mark.slow
def test_what_is_there_is_not_sent_again(one, tmp_path):
    program = fresh(tmp_path, 19)
    assert pushed(one, program)[0]["sent"] == 2
    assert pushed(one, program)[0]["sent"] == 0
    assert "; 2 already there" in push(one, program).stdout
    assert pushed(one, "--force", program)[0]["sent"] == 2
    assert pushed(one, "--part-size", "4K", program)[0]["there"] == 0


@pytest.mark.slow
def test_stripped_copies_do_not_displace_the_full_one(one, tmp_path):
    """In no order; the poorest answers if it is forced. All have one build id."""
    full = compile_program(tmp_path, "copies", 47, "-rdynamic", "-Wl,--build-id=sha1")
    copies = {"full": full, "symbols": f"{full}-g", "dynamic": f"{full}-s"}
    subprocess.run(["strip", "-g", full, "-o", copies["symbols"]], check=True)
    subprocess.run(["strip", full, "-o", copies["dynamic"]], check=True)
    build_id = json.loads(run("file-id", "--json", full).stdout)["build_id"]

    def quality():
        reply = one.client.get(f"/api/symbols/{build_id}", Authorization=one.key).json()
        return [s["quality"] for s in reply["sets"] if s["answers"] and s["kind"] == "ranges"]

    expected = {"full": ["inlines"], "symbols": ["functions"], "dynamic": ["dynamic symbols"]}
    for name, best in (("dynamic", "dynamic"), ("symbols", "symbols"), ("full", "full"), ("dynamic", "full"), ("symbols", "full")):
        pushed(one, copies[name])
        assert quality() == expected[best], name
    pushed(one, "--force", copies["dynamic"])
    assert quality() == expected["dynamic"]
    pushed(one, "--force", copies["full"])
    assert quality() == expected["full"]


@pytest.mark.slow
def test_uploads_are_gzipped(one, tmp_path):
    program = fresh(tmp_path, 43)
    sizes = json.loads(run("extract", "--dry-run", "--json", program).stdout)
    first = pushed(one, program)[0]
    assert 0 < first["bytes"] < (sizes["ranges_bytes"] + sizes["returnpads_bytes"]) * 3 // 4
    stored = [os.path.join(where, name) for where, _, names in os.walk(one.place / "store") for name in names if name != "set.json"]
    kept = {kind: sum(os.path.getsize(p) for p in stored if first[kind + "_set"] in p) for kind in ("ranges", "returnpads")}
    assert kept == {kind: sizes[kind + "_bytes"] for kind in kept}


@pytest.mark.slow
def test_directories(one, tmp_path):
    program = fresh(tmp_path, 23)
    tree = tmp_path / "tree"
    os.makedirs(tree / "below")
    shutil.copy(program, tree / "below" / "program")
    os.link(tree / "below" / "program", tree / "same file")
    os.symlink(program, tree / "link")
    (tree / "text").write_text("no executable\n")
    (tree / "empty").write_bytes(b"")
    (tree / "damaged").write_bytes(b"\x7fELF" + b"\xff" * 100)
    subprocess.run(["objcopy", "--only-keep-debug", program, tree / "program.debug"], check=True)
    stripped = tree / "stripped"
    stripped.write_bytes(open(program, "rb").read())
    subprocess.run(["strip", "-R", ".dynsym", "-R", ".symtab", stripped], check=True)
    done = push(one, "--recursive", tree)
    last = done.stdout.splitlines()[-1]
    assert last == "2 files, 1 without symbols, 0 failed; 6 other files", done.stdout
    assert "tree: it is a directory: give --recursive" in push(one, tree, code=1).stderr
    for name in ("below/program", "same file"):
        os.remove(tree / name)
    subprocess.run(["cc", "-c", "-o", tree / "object.o", "-x", "c", "-"], input=b"int a;", check=True)
    (tree / "net.pdb").write_bytes(b"BSJB" + bytes(60))
    (tree / "packed.gz").write_bytes(b"\x1f\x8b\x08" + bytes(60))
    nothing = push(one, "--recursive", tree, code=1).stderr
    assert nothing == (
        "symbtool: push-symbols: nothing to push: 1 file without symbols, 1 ELF debug file without its program, 1 object file or archive, "
        "2 programs or debug files that cannot be read, 1 packed file, 1 text, 1 empty file, 1 link or unreadable file\n"
    )
    shutil.copy(program, tree / "below" / "program")
    for name in ("object.o", "net.pdb", "packed.gz", "link"):
        os.remove(tree / name)
    os.link(tree / "below" / "program", tree / "same file")
    os.symlink(program, tree / "link")
    os.symlink(tree, tmp_path / "link to it")
    assert push(one, "--recursive", tmp_path / "link to it").stdout.splitlines()[-1] == last


@pytest.mark.slow
def test_debug_file(one, tmp_path):
    program = fresh(tmp_path, 29)
    debug, stripped = str(tmp_path / "elsewhere.debug"), str(tmp_path / "stripped")
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", program, stripped], check=True)
    push(one, "--debug-file", debug, stripped)
    frames = v5_frames(ask(one, "--json", stripped, *map(hex, code_addresses(program))).stdout)
    check_against_addr2line(program, frames)
    assert "--debug-file" in push(one, "--debug-file", debug, stripped, program, code=2).stderr


# Refusals and failures


def test_a_wrong_key(one, program):
    key = "secret-id:very-secret"
    for arguments, env in (
        (["--api-key", key], None), ([], {"SYMBTOOL_API_KEY": key}), (["--api-key", one.key[:-8] + "AAAAAAA="], None),
    ):  # fmt: skip
        done = run("push-symbols", "--url", url(one), *arguments, program, code=1, env=env)
        found = re.search(r"403: .+ \(uuid ([0-9a-f-]{36})\)", done.stderr)
        assert found and found.group(1) in open(one.daemon.log).read(), done.stderr
        assert "very-secret" not in done.stderr + done.stdout and "trying again" not in done.stderr
    assert "no API key" in run("push-symbols", "--url", url(one), program, code=2, env={"SYMBTOOL_API_KEY": ""}).stderr


def test_keys_from_everywhere(one, program):
    pair = subprocess.run(["base64", "-d"], input=one.key.split()[1], capture_output=True, text=True, check=True).stdout
    run("push-symbols", "--url", url(one), program, env={"SYMBTOOL_API_KEY": pair})
    run("push-symbols", "--url", url(one), "--api-key", one.key, program)


def start(*arguments):
    """symbtool that runs beside the test."""
    return subprocess.Popen(
        [SYMBTOOL, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent
    )


def start_with_input(*arguments):
    return subprocess.Popen(
        [SYMBTOOL, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent
    )  # fmt: skip


def read_until(process, word):
    """Lines of its standard error up to the one with this word; symbtool gives up by itself, so that this ends."""
    out = ""
    for line in process.stderr:
        out += line
        if word in line:
            return out
    raise AssertionError(f"ended without {word}: {out}")


@pytest.mark.slow
def test_a_server_that_is_away_is_waited_for(one, tmp_path):
    program = fresh(tmp_path, 31)
    key = ["--api-key-file", one.key_path]
    one.daemon.terminate()
    one.daemon.wait()
    process = start("push-symbols", "--url", url(one), *key, "--retry-time", 60, "--json", program)
    try:
        assert re.search(r"50[234]", read_until(process, "trying again"))
        one.daemon.start()
        out, err = process.communicate(timeout=BOUND)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    assert json.loads(out)["sent"] == 2


@pytest.mark.slow
def test_a_terminal_shows_progress(one, tmp_path):
    program = fresh(tmp_path, 41)
    ours, theirs = pty.openpty()
    one.daemon.terminate()
    one.daemon.wait()
    process = subprocess.Popen(
        [SYMBTOOL, "push-symbols", "--url", url(one), "--api-key-file", one.key_path, "--force", "--retry-time", "60", program],
        stdout=subprocess.DEVNULL, stderr=theirs, preexec_fn=die_with_parent,
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    try:
        while chunk := read_terminal(ours):  # ends with the process, which ends by itself
            seen += chunk
            if not one.daemon.running and b"trying again" in seen:
                one.daemon.start()
        assert process.wait(BOUND) == 0, seen
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        if not one.daemon.running:
            one.daemon.start()
    assert re.search(rb"program41: \[[#.]{30}\] +\d+ % of \d+ bytes", seen), seen
    assert b"trying again" in seen and seen.endswith(b"\r\033[K"), seen


def read_terminal(fd):
    try:
        return os.read(fd, 4096)
    except OSError:  # the other side is closed
        return b""


def test_a_server_that_stays_away_is_given_up(one, program):
    done = run("push-symbols", "--url", "http://127.0.0.1:1", "--api-key", "a:b", "--retry-time", 1, program, code=1)
    assert "trying again" in done.stderr and "127.0.0.1:1" in done.stderr.splitlines()[-1]


def test_no_part_of_a_key_is_sent(tmp_path, program):
    key = tmp_path / "key"
    for length, code, said in ((1024, 2, f"{key}: the API key is too long"), (1023, 1, "127.0.0.1:1")):
        key.write_text("a:" + "b" * (length - 2))
        done = run("push-symbols", "--url", "http://127.0.0.1:1", "--api-key-file", key, "--retry-time", 0, program, code=code)
        assert said in done.stderr and "bbb" not in done.stderr, (length, done.stderr)


@pytest.mark.slow
def test_retry_after_is_honoured(tmp_path, program):
    """A server whose store is gone says 503 and Retry-After: 2."""
    os.mkdir(tmp_path / "store")
    with Stack(keys=True, config={"symbfile_store": f"file://{tmp_path}/store"}) as s:
        os.rmdir(tmp_path / "store")
        key = tmp_path / "key"
        key.write_text(s.key)
        done = run("push-symbols", "--url", url(s), "--api-key-file", key, "--retry-time", 3, program, code=1)
        assert "trying again in 2.0 s" in done.stderr
        last = done.stderr.splitlines()[-1]
        assert "503" in last and "symbfile_store" in last and "uuid" in last, done.stderr


def test_a_server_without_a_store_refuses_for_good(tmp_path, program):
    """symbtool sends nothing twice to a server that will never take it."""
    with Stack(keys=True) as s:
        key = tmp_path / "key"
        key.write_text(s.key)
        done = run("push-symbols", "--url", url(s), "--api-key-file", key, program, program, code=1)
        assert "trying again" not in done.stderr
        last = done.stderr.splitlines()[-1]
        assert "404" in last and "symbfile_store" in last and "uuid" in last, done.stderr


@pytest.mark.slow
def test_a_killed_push_is_completed_by_the_next(one, tmp_path):
    program = fresh(tmp_path, 37)
    arguments = ["push-symbols", "--url", url(one), "--api-key-file", one.key_path, "--part-size", "1K", "--parallel", 1, "--json", program]
    ident = run("file-id", program).stdout.split()[0]

    def have():
        listed = one.client.get(f"/api/symbols/{ident}", Authorization=one.key).json()
        return len(listed["ranges"]["have"]), listed["ranges"]["parts"]

    process = start(*arguments)
    try:
        wait_for(lambda: have()[0] > 0 or process.poll() is not None, "the first part")
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    before, parts = have()
    assert process.returncode == -signal.SIGKILL and 0 < before < parts, (before, parts)
    second = json.loads(run(*arguments).stdout)
    assert second["there"] >= before and second["sent"] + second["there"] == second["ranges_parts"] + second["returnpads_parts"]
    assert have() == (parts, parts)
    check_against_addr2line(program, v5_frames(ask(one, "--json", program, *map(hex, code_addresses(program))).stdout))


def interruptible():
    """In the child. What a shell starts in the background ignores SIGINT, and hands that on."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupt_leaves_no_file_that_is_not_whole(tmp_path, program):
    whole = set(os.listdir(extracted(tmp_path / "whole", program)))
    for i in range(5):
        folder = tmp_path / str(i)
        folder.mkdir()
        process = subprocess.Popen([SYMBTOOL, "extract", "-o", str(folder), "--part-size", "1K", program], stdout=subprocess.DEVNULL, preexec_fn=interruptible)
        try:
            wait_for(lambda: os.listdir(folder) or process.poll() is not None, "the first file")
            process.send_signal(signal.SIGINT)
            process.wait(BOUND)
        finally:
            process.kill()
        assert process.returncode in (-signal.SIGINT, 0)
        for name in os.listdir(folder):
            assert name in whole and (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def extracted(folder, program):
    folder.mkdir()
    run("extract", "-o", folder, "--part-size", "1K", program)
    return folder


@pytest.mark.parametrize("full", ["TMPDIR", "output"])
def test_a_full_folder_is_told_and_left_empty(full, tmp_path, program):
    """A small file system of the process's own."""
    small, large = tmp_path / "small", tmp_path / "large"
    small.mkdir()
    large.mkdir()
    temporary, output = (small, large) if full == "TMPDIR" else (large, small)
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=8k none "$1" || exit 77; TMPDIR=$2 "$3" extract -o "$4" "$5"; echo $?; ls -A "$1" "$4"',
         "sh", small, temporary, SYMBTOOL, output, program], capture_output=True, text=True, timeout=BOUND)  # fmt: skip
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no file system can be mounted: " + done.stderr)
    assert sorted(done.stdout.split()) == sorted(["1", f"{small}:", f"{output}:"]), done
    word = f"temporary folder {small}: No space left on device: choose a larger one with TMPDIR" if full == "TMPDIR" else "No space left on device"
    assert word in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_what_is_no_executable(one, tmp_path):
    text = tmp_path / "text"
    text.write_text("hello\n")
    done = push(one, text, tmp_path / "missing", PROGRAM, code=1)
    assert f"symbtool: {text}: " in done.stderr and f"symbtool: {tmp_path}/missing: No such file" in done.stderr
    assert "FileID" in done.stdout  # the others are pushed


def test_wrong_calls(program):
    for arguments, word in (
        ([], "Usage"), (["nothing"], "unknown verb; symbtool --help"), (["push-symbols", program], "--url"), (["push-symbols", "--url"], "needs a value"),
        (["push-symbols", "--url", "http://x"], "no file"), (["extract", "--threads", "x", program], "--threads"),
        (["extract", "--part-size", "1", program], "--part-size"), (["dump"], "no file"), (["dump", "--bad"], "--bad"),
        (["symbolicate", program, "zz"], "not an address"),
        (["push-symbols", "--url", "ftp://x", "--api-key", "a:b", program], "not an http"),
        (["list"], "--url"), (["list", "--url", "http://x", "--by-size", "00"], "cannot be combined with an ID"), (["remove", "--url", "http://x"], "no id"),
        (["remove", "--url", "http://x", "00"], "no API key"),
    ):  # fmt: skip
        assert word in run(*arguments, code=2).stderr, arguments


@pytest.mark.parametrize("verb", ["push-symbols", "extract", "symbolicate", "dump", "check", "file-id", "list", "remove"])
def test_help(verb):
    assert run(verb, "--help").stdout.startswith(f"Usage: symbtool {verb} ")
    assert verb in run("--help").stdout


# Without a server


def test_an_executable_of_its_own(program):
    addresses = code_addresses(program)
    check_against_addr2line(program, v5_frames(run("symbolicate", "--json", program, *map(hex, addresses)).stdout))


UNIT = """
static inline __attribute__((always_inline)) int twice_NAME(int a)
{
	return a * 2 + NUMBER;
}
int NAME(int a)
{
	for (int i = 0; i < a; i++)
		a += twice_NAME(i);
	return a;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", [
    pytest.param(["-gdwarf-4"], marks=pytest.mark.plain), ["-gdwarf-5"], ["-g", "-gsplit-dwarf"],
    pytest.param(["-g", "-flto"], marks=pytest.mark.plain), pytest.param(["-g0"], marks=pytest.mark.plain),
], ids=" ".join)  # fmt: skip
def test_addresses_alone_and_among_others(tmp_path, options):
    """Of a large executable only the units are read that the addresses need: each alone gets what all together get, and what a
    second batch gets, for which everything is read."""
    names = [f"unit{i}" for i in range(6)]
    for i, name in enumerate(names):
        (tmp_path / f"{name}.c").write_text(UNIT.replace("NAME", name).replace("NUMBER", str(i)))
    calls = " + ".join(f"{name}(argc)" for name in names)
    (tmp_path / "main.c").write_text("".join(f"int {name}(int);" for name in names) + f"int main(int argc, char **argv) {{ return {calls}; }}")
    program = str(tmp_path / "units")
    subprocess.run(["gcc", "-O1", *options, "-o", program, *(f"{name}.c" for name in [*names, "main"])], cwd=tmp_path, check=True, timeout=BOUND)
    addresses = code_addresses(program, 5)
    together = v5_frames(run("symbolicate", "--json", program, *map(hex, addresses)).stdout)
    assert {frame.get("function") for frame in together} >= {*names, "main"} or "-flto" in options
    for number, address in enumerate(addresses):
        alone = v5_frames(run("symbolicate", "--json", program, hex(address)).stdout)[0]
        assert {**alone, "frame": number} == together[number]
    # line by line: the first is answered before the next is read
    process = start_with_input("symbolicate", "--hex", program, "-")
    lines = []
    for address in addresses[:4]:
        process.stdin.write(f"{address:x}\n")
        process.stdin.flush()
        while not lines or not lines[-1].startswith(f"units+{address:#x} "):
            lines.append(process.stdout.readline())
            assert lines[-1], lines
    process.communicate(timeout=BOUND)
    assert process.returncode == 0


def lines_of(frame):
    """How a frame of a reply is printed."""
    head = f"{frame['module']}+{frame['module_offset']}  "
    chain = [*frame.get("inlines", []), frame]
    if "function" not in frame:
        return [head + "??"]
    places = [f["function"] + (f" at {f['file']}" if "file" in f else "") + (f":{f['line']}" if "line" in f else "") for f in chain]
    return [head + places[0], *(" " * len(head) + "(inlined by) " + place for place in places[1:])]


def test_text_from_a_file_says_what_the_reply_says(program, tmp_path):
    """Text from files is printed without a reply, but with one where an address has no 0x."""
    addresses = [*code_addresses(program), 1]
    frames = v5_frames(run("symbolicate", "--json", program, *map(hex, addresses)).stdout)
    want = [line for f in frames for line in lines_of(f)]
    nameless = sum("function" not in f for f in frames)
    for words in (map(hex, addresses), [str(addresses[0]), *map(hex, addresses[1:])]):
        done = run("symbolicate", program, *words)
        assert re.sub(r"  \?\?  [a-z ]+$", "  ??", done.stdout, flags=re.M).splitlines() == want
        assert f"addresses in no function: {nameless}\n" in done.stderr and nameless > 0
    # names that are escaped in replies
    sym = tmp_path / "quotes.sym"
    name = 'operator"" _s(\\, \t/)'
    sym.write_text(f"MODULE Linux x86_64 {'0' * 33} x\nFILE 1 C:\\x.c\nINLINE_ORIGIN 0 {name}\n"
                   f"FUNC 1000 10 0 {name}\nINLINE 0 4 1 0 1000 8\n1000 10 7 1\n")  # fmt: skip
    shown = name.replace("\t", r"\u0009")
    for address in ("0x1001", "4097"):
        lines = run("symbolicate", sym, address).stdout.splitlines()
        assert lines == [f"quotes.sym+0x1001  {shown} at C:\\x.c:7", " " * 19 + f"(inlined by) {shown} at C:\\x.c:4"]


def test_symbfiles_of_their_own(program, tmp_path):
    run("extract", "-o", tmp_path, program)
    ranges, pads = (glob.glob(f"{tmp_path}/*.{kind}.*")[0] for kind in ("ranges", "returnpads"))
    addresses = [hex(a) for a in code_addresses(program)]
    check_against_addr2line(program, v5_frames(run("symbolicate", "--json", ranges, *addresses).stdout))
    check_against_addr2line(program, v5_frames(run("symbolicate", "--json", pads, ranges, *addresses).stdout))


def test_the_answers_of_kept_symbfiles():
    """Several files of one executable, against what another reader says of ranges and pads."""
    folder = os.path.join(DATA, "cpp-pie-x86_64")
    files = [os.path.join(folder, name) for name in ("ranges.symbfile", "pads.symbfile")]
    with open(os.path.join(folder, "padlookups.jsonl"), encoding="utf-8") as f:
        truth = {int(o["addr"], 16): o["frames"] for o in map(json.loads, f) if o["frames"]}
    frames = v5_frames(run("symbolicate", "--json", *files, *map(hex, truth)).stdout)
    assert len(frames) == len(truth) > 20
    for frame in frames:
        chain = [*frame.get("inlines", []), frame]
        want = [(f["func"], f["file"] or None, (f["line"] or None) if f["file"] else None) for f in truth[int(frame["module_offset"], 16)]]
        assert [(f["function"], f.get("file"), f.get("line")) for f in chain] == want


def test_a_symbol_file_of_its_own(tmp_path):
    folder = os.path.join(ROOT, "tests", "data", "symbols", "libc.so.6", "5AB31EC08E5A39B16F9FBD350E3169A50")
    path = glob.glob(folder + "/*.sym*")[0]
    plain = tmp_path / "libc.sym"
    raw = open(path, "rb").read()
    plain.write_bytes(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    zipped = tmp_path / "libc.sym.gz"
    zipped.write_bytes(gzip.compress(plain.read_bytes()))
    for file in (plain, zipped):
        frame = v5_frames(run("symbolicate", "--json", file, 277722).stdout)[0]
        assert (frame["function"], frame["line"], len(frame["inlines"])) == ("str_to_mpn", 393, 1)


def test_stacks_from_standard_input(program):
    some = code_addresses(program)[:6]
    text = f"{some[0]:#x} {some[1]:#x}\n\n{program}+{some[2]:#x}\n{some[3]} {PROGRAM}+0x1970"
    result = json.loads(run("symbolicate", "--json", program, "-", stdin=text).stdout)["results"][0]
    assert [[int(f["module_offset"], 16) for f in stack] for stack in result["stacks"]] == [some[:2], [some[2]], [some[3], 0x1970]]
    assert [f["module"] for f in result["stacks"][2]] == ["program", "cpp-pie-x86_64"]
    less = json.loads(run("symbolicate", "--json", "--return-addresses", program, "-", stdin=text).stdout)["results"][0]
    assert [[int(f["module_offset"], 16) for f in s] for s in less["stacks"]] == [[some[0], some[1] - 1], [some[2]], [some[3], 0x196F]]


@pytest.mark.parametrize("packed", [gzip.compress, lambda text: text.decode().encode("utf-16")], ids=["gzip", "utf-16"])
def test_stacks_from_standard_input_that_is_packed_or_utf_16(program, packed):
    """As PowerShell writes what it redirects."""
    text = "".join(f"{address:#x}\n" for address in code_addresses(program)[:6]).encode()
    plain, other = (subprocess.run([SYMBTOOL, "symbolicate", program, "-"], input=data, capture_output=True, check=True, timeout=BOUND).stdout for data in (text, packed(text)))
    assert plain == other and plain.count(b"\n\n") == 5
    cut = subprocess.run([SYMBTOOL, "symbolicate", program, "-"], input=gzip.compress(text)[:-4], capture_output=True, check=False, timeout=BOUND)
    assert cut.returncode == 1 and b"standard input: gzip ends early" in cut.stderr


def test_names_and_ids_on_a_server(one, program):
    push(one, program)
    address = code_addresses(program)[40]
    ident = run("file-id", program).stdout.split()
    answers = [json.loads(ask(one, "--json", m, address).stdout)["results"][0]["stacks"] for m in (program, f"program/{ident[0]}")]
    assert answers[0] == answers[1]
    assert ask(one, ident[1], address).stdout.split("  ")[1] == ask(one, program, address).stdout.split("  ")[1] != "??"
    assert "neither NAME/ID" in ask(one, "no-such-module", "1", code=1).stderr


def test_file_ids_that_begin_with_a_dash(one, program, tmp_path):
    """One program in 64 has such an ID; here a byte behind the program sees to it."""
    with open(program, "rb") as f:
        data = f.read()
    copies = (data + b"\0" * i for i in range(1, 5000))
    copy = next(c for c in copies if file_id(c).startswith("-"))
    path, ident = tmp_path / "program", file_id(copy)
    path.write_bytes(copy)
    assert run("file-id", path).stdout.split()[1] == ident
    push(one, str(path))
    address = hex(code_addresses(program)[40])
    want = ask(one, path, address).stdout.split("  ")[1]
    assert want != "??"
    for words in ([ident, address], ["--", ident, address], [f"{ident}+{address}"], ["--", f"{ident}+{address}"]):
        assert ask(one, *words).stdout.split("  ")[1] == want
    # as a file's name, in all verbs that take files
    os.rename(path, tmp_path / ident)
    for words in (["file-id"], ["file-id", "--"], ["extract", "--dry-run"], ["symbolicate", "--json"]):
        command = [SYMBTOOL, *words, ident, *([address] if "--json" in words else [])]
        assert not subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stderr
    assert "unknown option -short" in run("symbolicate", "-short", address, code=2).stderr


# What is said of files

CONTROL = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f]")


def printed(*arguments, code=0):
    """What symbtool prints to a terminal, of which it is not let know that it is none."""
    done = subprocess.run([SYMBTOOL, *map(str, arguments)], capture_output=True, timeout=BOUND, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout.decode("utf-8", "replace") + done.stderr.decode("utf-8", "replace")


def test_control_characters_of_names_are_not_printed(tmp_path):
    hostile = "a\x1b]0;title\x07\x9b31mb\x7f"
    shown = r"a\u001b]0;title\u0007\u009b31mb\u007f"
    sym = tmp_path / "hostile.sym"
    lines = [f"MODULE Linux x86_64 {'0' * 33} x", f"FILE 1 {hostile}.c", f"FUNC 1000 10 0 {hostile}", "1000 10 7 1", hostile]
    sym.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    for words in (["symbolicate", sym, "0x1000"], ["symbolicate", "--json", sym, "0x1000"]):
        text = printed(*words)
        assert shown in text and shown + ".c" in text and not CONTROL.search(text)
    frame = json.loads(printed("symbolicate", "--json", sym, "0x1000"))["results"][0]["stacks"][0][0]
    assert (frame["function"], frame["file"]) == (hostile, hostile + ".c")
    assert not CONTROL.search(printed("check", sym, code=1)) and not CONTROL.search(printed("check", "--json", sym, code=1))
    # the same from a symbol table, whose letters may be any bytes, through extraction
    source, program = tmp_path / "hostile.s", tmp_path / "hostile\x1b[31m"
    text = '.globl "NAME"\n.type "NAME",@function\n"NAME": ret\n.size "NAME",1\n.globl _start\n_start: ret\n'
    source.write_bytes(text.encode().replace(b"NAME", b"a\033]0;title\007\233b"))
    subprocess.run(["gcc", "-nostdlib", "-static", "-o", program, source], check=True, timeout=BOUND)
    text = printed("extract", "-o", tmp_path, program) + printed("extract", "--dry-run", program) + printed("file-id", program)
    assert not CONTROL.search(text) and r"hostile\u001b[31m" in text
    ranges = glob.glob(glob.escape(str(tmp_path)) + "/*.ranges.*")
    for words in (["dump", *ranges], ["dump", "--json", *ranges]):
        text = printed(*words)
        assert r"]0;title\u0007" in text and not CONTROL.search(text), text
    assert not CONTROL.search(printed("dump", tmp_path / "no\x1b[31mfile", code=1))
    text = "#0 0x10 in f (/nowhere/a\x9b31mb.so+0x10) (BuildId: 0123456789abcdef)\n"
    told = run("symbolicate", "--filter", stdin=text).stderr
    assert r"(a\u009b31mb.so)" in told and not CONTROL.search(told)


def test_names_that_are_no_text_are_repaired_in_json(one, tmp_path):
    """Each byte that is not UTF-8 becomes U+FFFD, as in replies of servers; there is always an object."""
    folder = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(folder)
    with open(folder + b"/a.sym", "wb") as f:
        f.write(b"MODULE Linux x86_64 " + b"0" * 33 + b" a\nFUNC 1000 10 0 f\n")
    for name, source in ((b"/a", PROGRAM), (b"/a.symbfile", os.path.join(DATA, "cpp-pie-x86_64", "ranges.symbfile"))):
        shutil.copyfile(source, folder + name)
    for words, name in ((["check"], b"a.sym"), (["check"], b"a.symbfile"), (["file-id"], b"a"), (pushing(one), b"a")):
        done = subprocess.run([SYMBTOOL, *words, "--json", folder + b"/" + name], capture_output=True, timeout=BOUND, check=True)
        assert json.loads(done.stdout)["path"] == f"{tmp_path}/\ufffd/{name.decode()}", words


@pytest.mark.parametrize("name", ["cpp-pie-x86_64", "c-pie-aarch64", "nolibc-static-aarch64"])
def test_dumps(name):
    for kind in ("ranges", "pads"):
        with open(os.path.join(DATA, name, kind + ".jsonl"), encoding="utf-8") as f:
            want = [json.loads(line) for line in f]
        path = os.path.join(DATA, name, kind + ".symbfile")
        assert [json.loads(line) for line in run("dump", "--json", path).stdout.splitlines()] == want
        text = run("dump", path).stdout
        assert all(f" {r['va']}" in text for r in want)


def test_file_ids():
    folder = os.path.join(DATA, "fileid")
    with open(os.path.join(folder, "expect.jsonl"), encoding="utf-8") as f:
        want = {os.path.join(DATA, o["path"]): (o["hex"], o["b64url"]) for o in map(json.loads, f)}
    out = [json.loads(line) for line in run("file-id", "--json", *want).stdout.splitlines()]
    assert {o["path"]: (o["hex"], o["base64"]) for o in out} == want and len(want) > 5
    first = "{} {} {}\n".format(*next(iter(want.values())), next(iter(want)))
    assert run("file-id", next(iter(want))).stdout.startswith(first)
    assert "No such file" in run("file-id", "/nowhere", code=1).stderr


def debug_id(first_bytes, little=True):
    """As dump_syms makes it: the numbers of a GUID are swapped where the program is little-endian; the age is 0."""
    b = bytes(first_bytes[:16]).ljust(16, b"\0")
    if little:
        b = b[3::-1] + b[5:3:-1] + b[7:5:-1] + b[8:]
    return b.hex().upper() + "0"


def ids_of(program):
    return json.loads(run("file-id", "--json", program).stdout)


@pytest.mark.slow
def test_ids_of_programs_with_a_build_id(tmp_path):
    """The first is real: what dump_syms called ceph-osd of that build id."""
    for build_id, want in (
        ("fb66b3cec5f264a2f863d96fa875eb4a12345678", "CEB366FBF2C5A264F863D96FA875EB4A0"),
        ("fb66b3ce", "CEB366FB0000000000000000000000000"),
        ("0102030405060708090a0b0c0d0e0f10", debug_id(range(1, 17))),
    ):
        program = compile_program(tmp_path, "program", 3, f"-Wl,--build-id=0x{build_id}")
        ids = ids_of(program)
        assert (ids["build_id"], ids["debug_id"], "go_build_id" in ids) == (build_id, want, False)
        text = run("file-id", program).stdout
        assert text == f"{ids['hex']} {ids['base64']} {program}\n  build id     {build_id}\n  debug id     {want}\n"
    shutil.copy(program, tmp_path / "headless")
    with open(tmp_path / "headless", "r+b") as f:  # without section headers the notes are found by the program headers
        f.seek(0x28)
        f.write(bytes(8))
        f.seek(0x3A)
        f.write(bytes(6))
    assert ids_of(tmp_path / "headless")["build_id"] == build_id


def folded_text(program, tmp_path):
    """What Breakpad makes the id of a file without a build id of."""
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", program, tmp_path / "text"], check=True)
    folded = bytearray(16)
    for i, byte in enumerate((tmp_path / "text").read_bytes()[:4096]):
        folded[i % 16] ^= byte
    return folded


@pytest.mark.slow
def test_ids_of_programs_without_a_build_id(tmp_path):
    program = compile_program(tmp_path, "program", 5, "-Wl,--build-id=none")
    ids = ids_of(program)
    assert "build_id" not in ids and ids["debug_id"] == debug_id(folded_text(program, tmp_path))
    subprocess.run(["objcopy", "--only-keep-debug", program, tmp_path / "debug"], check=True)
    assert "debug_id" not in ids_of(tmp_path / "debug")
    (tmp_path / "even.s").write_text(".text\n.globl _start\n_start: .skip 8192, 0x90\n")
    subprocess.run(["gcc", "-nostdlib", "-Wl,--build-id=none", "-o", tmp_path / "even", tmp_path / "even.s"], check=True)
    assert set(ids_of(tmp_path / "even")) == {"hex", "base64", "path"}, "zeros are no id"
    (tmp_path / "text-file").write_text("no ELF")
    assert set(ids_of(tmp_path / "text-file")) == {"hex", "base64", "path"}


def test_what_file_id_prints_finds_a_program_without_a_build_id(one, tmp_path):
    """Its FileID; its debug id, also in lower case and without the age; and a stripped copy, which has the same."""
    program, stripped = compile_program(tmp_path, "program", 77, "-no-pie", "-Wl,--build-id=none"), str(tmp_path / "stripped")
    subprocess.run(["strip", "-o", stripped, program], check=True)
    addresses = code_addresses(program)[:20]
    want = [(f.get("function"), f.get("line")) for f in v5_frames(run("symbolicate", "--json", program, *map(hex, addresses)).stdout)]
    base = 0x400000
    push(one, program)
    ids, debug = ids_of(program), debug_id(folded_text(program, tmp_path))
    assert debug in run("file-id", program).stdout and debug in run("file-id", stripped).stdout
    for told in ids["hex"], ids["base64"], debug, debug.lower(), debug[:32]:
        of_image = 0 if told in (ids["hex"], ids["base64"]) else base
        frames = one.client.frames(["program", told], [a - of_image for a in addresses])
        assert [(f.get("function"), f.get("line")) for f in frames] == want and any(f for f, _ in want), told
        assert " ranges " in run("list", "--url", url(one), "--api-key-file", one.key_path, told).stdout, told
    frames = v5_frames(ask(one, "--json", stripped, *map(hex, addresses)).stdout)
    assert [(f.get("function"), f.get("line")) for f in frames] == want
    text = f"Module|program||program|{debug}|0x400000|0x401fff|1\n\n0|0|program||||{addresses[0] - base:#x}\n"
    assert want[0][0] in run("symbolicate", "--filter", "-e", program, stdin=text).stdout


def test_ids_of_a_big_endian_program(tmp_path):
    """Its numbers are in that order already."""
    def note(kind, name, value):
        return struct.pack(">III", len(name), len(value), kind) + name + value + bytes(-len(value) % 4)

    notes = note(3, b"GNU\0", bytes(range(20))) + note(4, b"Go\0\0", b"abc/def")
    header = b"\x7fELF\2\2\1".ljust(16, b"\0") + struct.pack(">HHIQQQIHHHHHH", 2, 21, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    segment = struct.pack(">IIQQQQQQ", 4, 4, 120, 0, 0, len(notes), len(notes), 4)
    (tmp_path / "big").write_bytes(header + segment + notes)
    ids = ids_of(tmp_path / "big")
    assert (ids["build_id"], ids["go_build_id"]) == (bytes(range(20)).hex(), "abc/def")
    assert ids["debug_id"] == debug_id(range(20), little=False)


@pytest.mark.slow
def test_check_of_corner_symbfiles():
    with open(os.path.join(DATA, "corner", "verdicts.jsonl"), encoding="utf-8") as f:
        verdicts = [json.loads(line) for line in f]
    wrong = 0
    told = run("check", *(os.path.join(DATA, "corner", v["file"]) for v in verdicts), code=1).stdout.splitlines()
    assert len(told) == len(verdicts)
    for v, line in zip(verdicts, told):
        done = run("check", "--json", os.path.join(DATA, "corner", v["file"]), code=0 if v["ok"] else 1)
        o = json.loads(done.stdout)
        assert (o["error"] is None) == v["ok"], v
        assert v["ok"] or re.match(r"byte \d+: ", o["error"]), o
        kinds = [r["t"] for r in v["records"]]
        assert (o["ranges"], o["returnpads"]) == (kinds.count("range"), kinds.count("pad")), v
        counts = [o[k] for k in ("ranges", "lines", "returnpads", "frames")]
        assert line.startswith(o["path"] + ": symbfile, ") and line.endswith(f": {o['error'] or 'sound'}"), line
        assert list(map(int, re.findall(r" (\d+) (?:ranges|lines|return pads|frames)", line)[:4])) == counts, line
        wrong += not v["ok"]
    assert wrong > 10 and wrong < len(verdicts)


DAMAGED = """MODULE Linux x86_64 ABC0 x
FILE 0 a.c
FILE x
FUNC 1000 10 0 f
1000 4 1 0
what is this
1004 y 1 0
INLINE 0 1
PUBLIC zz
1008 4 1 0
INLINE 0 1 0 0 1000 4
FUNC 1x
PUBLIC 2000 0 p
1000 4 5 0"""


def test_check_of_a_damaged_symbol_file(tmp_path):
    path = tmp_path / "damaged.sym"
    path.write_text(DAMAGED)
    done = run("check", path, code=1)
    numbers = [int(n) for n in re.findall(rf"^{re.escape(str(path))}:(\d+): ", done.stdout, re.M)]
    assert numbers == [3, 6, 7, 8, 9, 10, 11, 12, 14]
    assert f"{path}:10: a line record without a FUNC before it: 1008 4 1 0" in done.stdout
    assert "1 FUNC, 1 PUBLIC, 1 lines, 0 INLINE; 9 damaged" in done.stdout
    zipped = tmp_path / "damaged.sym.gz"
    zipped.write_bytes(gzip.compress(DAMAGED.encode()))
    o = json.loads(run("check", "--json", zipped, code=1).stdout)
    assert [d["line"] for d in o["damages"]] == numbers and o["damaged"] == 9
    path.write_text("\n".join(line for i, line in enumerate(DAMAGED.split("\n"), 1) if i not in numbers))
    assert "0 damaged" in run("check", path).stdout


def test_check_of_a_line_that_is_too_long(tmp_path):
    path = tmp_path / "long.sym"
    path.write_text("MODULE Linux x86_64 ABC0 x\nFUNC 1000 10 0 f\nFUNC 2000 10 0 " + "n" * 3_000_000 + "\n1000 4 1 0\nPUBLIC 1 0 p\nx")
    done = run("check", path, code=1)
    assert f"{path}:3: the line is too long: FUNC 2000 10 0 nnn" in done.stdout and len(done.stdout) < 2000
    assert [int(n) for n in re.findall(r"long.sym:(\d+): ", done.stdout)] == [3, 4, 6]


@pytest.mark.slow
def test_check_counts_what_the_reader_counts():
    """On all kept symbol files: as many damaged lines as their answers say."""
    seen = 0
    for path in sorted(glob.glob(os.path.join(ROOT, "tests", "data", "sym", "*.sym"))):
        if os.path.basename(path) == "corrupt-id.sym":
            continue  # sound, but not the one that was asked for
        with open(path[:-4] + ".answers.jsonl", encoding="utf-8") as f:
            head = json.loads(f.readline())
        done = subprocess.run([SYMBTOOL, "check", "--json", path], capture_output=True, text=True, timeout=BOUND)
        o = json.loads(done.stdout)
        assert done.returncode == int(bool(head["corrupt"] or head.get("damaged"))), path
        assert bool(o["error"]) == head["corrupt"], path
        if not head["corrupt"]:
            assert o["damaged"] == head["damaged"] == len(o["damages"]), path
        seen += 1
    assert seen > 20


def test_check_of_what_is_no_symbol_file(tmp_path):
    text = tmp_path / "text"
    text.write_text("hello\nworld\n")
    assert f"{text}:1: no MODULE line" in run("check", text, code=1).stdout
    text.write_text("MODULE Linux x86_64 ABC0 x\nFILE 0 a\n")
    assert f"{text}: neither FUNC nor PUBLIC" in run("check", text, code=1).stdout
    cut = tmp_path / "cut.gz"
    lines = "".join(f"PUBLIC {n:x} 0 {os.urandom(8).hex()}\n" for n in range(4000))
    cut.write_bytes(gzip.compress(f"MODULE Linux x86_64 ABC0 x\n{lines}".encode())[:-2000])
    assert re.search(rf"{cut}:\d+: gzip ends early", run("check", cut, code=1).stdout)
    assert "an ELF file" in run("check", PROGRAM, code=1).stderr


# What files of other kinds begin with, and a word of what is said of them.
OTHERS = {
    "empty": (b"", "but empty"),
    "text": (b"hello\n", "text"),
    "page": (b"<!DOCTYPE html><title>404</title>", "HTML"),
    "json": (b'{"error": 1}', "JSON"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    "net": (b"BSJB\1\0\1\0", "a portable PDB of .NET"),
    "pdb2": (b"Microsoft C/C++ program database 2.00\r\n\x1aJG", "a PDB of version 2.00"),
    "java": (bytes.fromhex("cafebabe00000041"), "a Java class"),
    "ppc": (bytes.fromhex("feedfacf01000012"), "a Mach-O file of a big-endian machine"),
    "minidump": (b"MDMP\x93\xa7\0\0", "a minidump"),
    "xz": (bytes.fromhex("fd377a585a0000"), "an xz file: unpack"),
    "zip": (b"PK\3\4\x14\0", "a ZIP file: unpack"),
    "deb": (b"!<arch>\ndebian-binary", "an ar archive"),
    "tar": (b"a.c".ljust(257, b"\0") + b"ustar\x0000", "a tar archive: unpack"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_a_file_is_instead(tmp_path, kind):
    """Each verb says what the file is, and what to do with it."""
    data, word = OTHERS[kind]
    path = tmp_path / "it"
    path.write_bytes(data)
    said = [run("extract", path, code=1).stderr, run("dump", path, code=1).stderr, run("symbolicate", path, "0x10", code=1).stderr]
    said.append(run("symbolicate", path, code=1, stdin="").stderr)  # before it waits for addresses
    if kind not in ("empty", "text"):  # in which the first line is what is wrong
        said.append(run("check", path, code=1).stderr)
    assert all(f"{path}: not a" in text and word in text for text in said), said
    kept = kind in ("empty", "text", "page", "json", "lfs")
    filtered = run("symbolicate", "--filter", path, code=0 if kept else 1)
    assert filtered.stdout == (data.decode() if kept else "") and kept is (word not in filtered.stderr)


def test_a_universal_program_is_no_java_class():
    """Both begin alike."""
    path = os.path.join(ROOT, "tests", "fuzz", "corpus", "view", "fat")
    assert run("symbolicate", path, stdin="0x1000\n", code=1).stdout == run("symbolicate", path, "0x1000", code=1).stdout == "fat+0x1000  ??  no function\n"
    run("symbolicate", "-e", path, "--filter", stdin="text\n")


def test_a_cut_program_of_windows_or_macos_is_told(tmp_path):
    """Its kind is known, and what is wrong with it."""
    starts = {"pe": b"MZ\x90\0", "pdb": b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0", "macho": bytes.fromhex("cffaedfe07000001")}
    for kind, data in starts.items():
        path = tmp_path / kind
        path.write_bytes(data)
        for arguments in (("extract", path), ("symbolicate", path, "0x10")):
            said = run(*arguments, code=1, stdin="").stderr
            assert re.search(f"{path}: .*(PE|PDB|Mach-O): .*(ends within|cut off)", said), said
        assert "symbtool extract, push-symbols and symbolicate read it" in run("check", path, code=1).stderr


def test_a_packed_executable_is_told(tmp_path):
    path = tmp_path / "it.gz"
    with open(PROGRAM, "rb") as f:
        path.write_bytes(gzip.compress(f.read()))
    for arguments in (("extract", path), ("symbolicate", path, "0x10"), ("symbolicate", path)):
        assert "not an executable, but a gzip file: unpack it first" in run(*arguments, code=1, stdin="").stderr
    assert "but an ELF file: symbtool extract" in run("check", path, code=1).stderr


@pytest.mark.parametrize("arguments", [["file-id", PROGRAM], ["symbolicate", PROGRAM, "0x1139"], ["symbolicate", "--filter", os.path.join(ROOT, "README.md")]])
def test_a_full_output_is_told(arguments):
    """With the system's reason, whenever the writing fails."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([SYMBTOOL, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=BOUND, check=False)
    assert done.returncode == 1 and "cannot write to standard output: No space left on device\n" in done.stderr, done.stderr


def test_the_plain_reader_reads_what_is_extracted(program, tmp_path):
    """Records survive: what dump says, written by another writer, gives the same dump."""
    run("extract", "-o", tmp_path, program)
    for path in glob.glob(f"{tmp_path}/*.symbfile"):
        dump = run("dump", "--json", path).stdout
        again = tmp_path / "again"
        again.write_bytes(plain_symbfile.write([json.loads(line) for line in dump.splitlines()]))
        assert run("dump", "--json", again).stdout == dump


# What was uploaded


def test_what_a_server_says_moves_no_cursor():
    hostile = {key: f"{key}\x1b[31m\x9b" for key in ("time", "kind", "quality", "uploader", "set")}

    class Lists(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps({"file_id": "\x1b[2J", "sets": [hostile]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Lists) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        line = printed("list", "--url", f"http://127.0.0.1:{server.server_port}", "--api-key", "a:b", "00" * 16)
        server.shutdown()
    assert not CONTROL.search(line) and all(f"{key}\\u001b[31m\\u009b" in line for key in hostile), line


@pytest.mark.slow
def test_list_and_remove(one, tmp_path):
    program = fresh(tmp_path, 53)
    ids = json.loads(run("file-id", "--json", program).stdout)
    pushed(one, program)
    env = {"SYMBTOOL_API_KEY": one.add_key("janitor", "read,remove")}
    one.daemon.reload()
    heading, *of_one = run("list", "--url", url(one), ids["hex"], env=env).stdout.splitlines()
    assert heading.split() == ["file", "id", "time", "kind", "bytes", "quality", "program", "uploader", "set"]
    assert len(of_one) == 2 and all(re.match(rf"[*] {ids['hex']} \S+Z +(ranges|returnpads) +\d+ inlines +{os.path.basename(program)} tester [0-9a-f]{{32}}$", line) for line in of_one)
    assert [s["file_id"] for s in map(json.loads, run("list", "--url", url(one), "--json", "--limit", 2, env=env).stdout.splitlines())] == [ids["hex"]] * 2
    assert len(run("list", "--url", url(one), "--by-size", "--uploader", "tester", "--limit", "1", env=env).stdout.splitlines()) == 2
    sets = of_one[0].split()[-1], of_one[1].split()[-1]
    assert re.search(rf"{ids['hex']}: removed 2 objects, \d+ bytes", run("remove", "--url", url(one), "--set", sets[0], ids["hex"], env=env).stdout)
    assert json.loads(run("remove", "--url", url(one), "--json", ids["build_id"], env=env).stdout)["objects"] == 2
    assert "nothing is stored" in run("remove", "--url", url(one), ids["hex"], env=env, code=1).stderr
    assert "nothing was uploaded" in run("list", "--url", url(one), ids["hex"], env=env, code=1).stderr
    assert "403" in run("remove", "--url", url(one), "--api-key-file", one.key_path, ids["hex"], code=1).stderr


# As other tools are asked


def first_word_gone(text):
    return [line.split("  ", 1)[-1].strip() for line in text.splitlines()]


@pytest.fixture(scope="module")
def asked(program):
    """(the program, an address in it, what it is named)"""
    address = next(a for a in code_addresses(program) if len(first_word_gone(run("symbolicate", program, hex(a)).stdout)) > 1)
    return program, address, first_word_gone(run("symbolicate", program, hex(address)).stdout)


@pytest.mark.parametrize(
    "arguments, line",
    [
        ([], "{program} {address:#x}"),  # llvm-symbolizer
        ([], "CODE {program} {address:#x}"),
        ([], '"{program}" {address:#x}'),
        (["{program}"], "{address:#x}"),
        (["-e", "{program}"], "{address:#x}"),  # addr2line
        (["--exe", "{program}", "--hex"], "{address:x}"),
        (["-e", "{program}"], "{symbol}+{distance:#x}"),  # eu-addr2line
    ],
)
def test_addresses_as_other_tools_take_them(asked, arguments, line):
    program, address, named = asked
    names = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    start, symbol = max((int(a, 16), name) for a, name in re.findall(r"^([0-9a-f]+) [Tt] (\S+)$", names, re.M) if int(a, 16) <= address)
    place = {"program": program, "address": address, "symbol": symbol, "distance": address - start}
    done = run("symbolicate", *(a.format(**place) for a in arguments), stdin=line.format(**place) + "\n")
    assert first_word_gone(done.stdout) == named
    assert len(named) > 1 and all(word.startswith("(inlined by)") or i == 0 for i, word in enumerate(named))


def test_an_address_that_was_meant_as_hex_is_told(program):
    """Without 0x it is decimal, where nothing is; as hex it is in a function."""
    named = (f for f in v5_frames(run("symbolicate", "--json", program, *map(hex, code_addresses(program))).stdout) if "function" in f)
    meant, function = next((f["module_offset"][2:], f["function"]) for f in named if f["module_offset"][2:].isdigit())
    done = run("symbolicate", program, meant, code=1)
    assert "??" in done.stdout and f"has no name; 0x{meant} is in {function}: write 0x, or give --hex" in done.stderr
    for words in ([f"0x{meant}"], ["--hex", meant]):
        done = run("symbolicate", program, *words)
        assert function in done.stdout and "decimal" not in done.stderr
    done = run("symbolicate", program, str(int(meant, 16)))
    assert function in done.stdout and f"read as decimal: 0x{meant}; for 0x{int(meant, 16)} write 0x" in done.stderr


def test_a_line_with_no_address_is_told(program):
    done = run("symbolicate", stdin=f"{program} zz\n{program} 0x0 nonsense\n", code=1)
    assert "standard input:1: " in done.stderr and "standard input:2: " in done.stderr and done.stdout == ""


def test_two_modules_are_not_asked_of_a_server(one, program):
    done = run("symbolicate", "--url", url(one), program, PROGRAM, "0x1000", code=2)
    assert "with --url, give one module" in done.stderr


def test_what_is_neither_a_function_nor_a_file_is_told(program):
    done = run("symbolicate", program, "nowhere+0x4", "main+0", code=1)
    assert f"symbtool: nowhere: neither a function of {program} nor a file\n" in done.stderr and "nowhere+0x4  ??\n" in done.stdout and "  main at " in done.stdout


# What only debug data name; their unit says where its addresses count from, and nothing else.
LOW_PC_ALONE = """.text
.globl code
.type code,@function
code: nop
nop
.size code,.-code
.section .debug_abbrev,"",@progbits
.byte 1,0x11,1,3,8,0x11,1,0,0
.byte 2,0x2e,0,3,8,0x11,1,0x12,6,0,0
.byte 0
.section .debug_info,"",@progbits
.long end-start
start: .short 4
.long 0
.byte 8,1
.asciz "a.c"
.quad 0
.byte 2
.asciz "described"
.quad code
.long 2
.byte 0
end:
"""


def build(directory, name, **sources):
    """A library without start-up code; a source ends in its language: a_c, a_s."""
    files = []
    for source, text in sources.items():
        files.append(os.path.join(directory, source.replace("_", ".")))
        with open(files[-1], "w", encoding="utf-8") as f:
            f.write(text)
    program = os.path.join(directory, name)
    subprocess.run(["gcc", "-g0", "-fPIC", "-shared", "-nostdlib", "-Wl,--build-id=sha1", "-o", program, *files], check=True, timeout=BOUND)
    return program


def test_a_unit_of_which_only_the_base_is_known(tmp_path):
    program = build(str(tmp_path), "alone", a_s=LOW_PC_ALONE)
    assert "  described" in run("symbolicate", program, *map(hex, code_addresses(program, 1))).stdout


def test_a_function_that_a_variable_of_another_file_is_called_like(tmp_path):
    variable = "static int handler; int *use(void) { return &handler; }\n"
    program = build(str(tmp_path), "alike", a_c=variable, b_c="int handler(int x) { return x + 1; }\n")
    assert run("symbolicate", program, "handler+0").stdout.endswith("  handler\n")


def test_an_address_in_an_indirect_function(tmp_path):
    source = "static int one(void) { return 1; }\nstatic int (*choose(void))(void) { return one; }\nint chosen(void) __attribute__((ifunc(\"choose\")));\n"
    assert run("symbolicate", build(str(tmp_path), "indirect", a_c=source), "chosen+0").stdout.endswith("  chosen\n")


def test_a_password_in_the_url_is_not_told(program):
    for address, code in ("http://me:hunter2@127.0.0.1:1", 1), ("ftp://me:hunter2@host", 2):
        done = run("symbolicate", "--retry-time", 0, "--url", address, program, "0x1000", code=code)
        assert "hunter2" not in done.stderr and "://***@" in done.stderr


def test_a_file_that_is_replaced_while_it_is_read(tmp_path):
    """Its FileID would be the old one's."""
    source = "int one(void) { return 1; }\nint two(void) { return one() + 1; }\n"
    program, other = build(str(tmp_path), "replaced", a_c=source), build(str(tmp_path), "other", b_c=source)

    class Replaces(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if os.path.exists(other):
                os.rename(other, program)
            self.send_error(404)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Replaces) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        env = {"DEBUGINFOD_URLS": f"http://127.0.0.1:{server.server_port}", "DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache")}
        assert "replaced: it changed while it was read" in run("extract", "-o", tmp_path, program, env=env, code=1).stderr
        server.shutdown()
    assert run("extract", "-o", tmp_path, program, env={"DEBUGINFOD_URLS": ""}).stdout
