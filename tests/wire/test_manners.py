# SPDX-License-Identifier: Apache-2.0
"""How symbtool behaves on a command line: what it reads, what it says, and with which exit code."""

import os
import pty
import re
import subprocess
import threading

import pytest

from stack import ROOT, Stack, less_when_watched
from symbols import debug_id, module_line
from test_filter import BOUND, LEAK, SYMBTOOL, compile_c, line_of, symbol_address

pytestmark = pytest.mark.skipif(not os.path.exists(SYMBTOOL), reason="symbtool was not built")

VERBS = ["push-symbols", "extract", "symbolicate", "dump", "check", "file-id", "list", "remove"]


def run(*arguments, code=0, stdin="", env=None):
    done = subprocess.run(
        [SYMBTOOL, *map(str, arguments)], input=stdin, capture_output=True, text=not isinstance(stdin, bytes), timeout=BOUND, env={**os.environ, **(env or {})}
    )
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_c(str(tmp_path_factory.mktemp("program")), "program", LEAK)


@pytest.fixture(scope="module")
def one():
    with Stack() as s:
        yield s


def url(stack):
    return f"http://127.0.0.1:{stack.node.nginx.port}"


# ---- why there is no name ----


def test_modules_that_are_missing_are_told_with_the_reason(one):
    good = one.symbols.add("good.so", "FUNC 1000 20 0 good\n")
    one.symbols.put("bad.so", debug_id("bad"), b"no symbol file\n")
    one.symbols.put("other.so", debug_id("other"), module_line("other.so", debug_id("another")) + b"FUNC 0 1 0 f\n")
    names = ["/".join(good), f"bad.so/{debug_id('bad')}", f"other.so/{debug_id('other')}", f"gone.so/{debug_id('gone')}"]
    done = run("symbolicate", "--url", url(one), *[f"{n}+0x1000" for n in names], code=1)
    assert [line.split("  ")[1] for line in done.stdout.splitlines()] == ["good", "??", "??", "??"]
    told = done.stderr.splitlines()
    assert f"symbtool: {names[1]}: corrupt: no MODULE line at the start" in told
    assert any(line.startswith(f"symbtool: {names[2]}: corrupt: ") for line in told)
    assert f"symbtool: {names[3]}: the server has no symbols for it" in told
    assert len(told) == 3
    # a module is told once, however many stacks ask for it
    done = run("symbolicate", "--url", url(one), "-", stdin=f"{names[3]}+1\n" * 20000, code=1)
    assert len(done.stderr.splitlines()) == 1 and done.stdout.count("??") == 20000


def test_decimal_by_habit_is_warned_of(one, program):
    """The address of a tool that prints hex without 0x; from files and from a server. One that says something is not doubted."""
    good = one.symbols.add("good3.so", "FUNC 1267 20 0 good\n")
    for where in (["--url", url(one), "/".join(good)], [program]):
        address = 1267 if len(where) > 1 else symbol_address(program, "main")
        digits = f"{address:x}" if len(where) == 1 else "1267"
        if not digits.isdigit():
            continue
        done = run("symbolicate", *where, digits, code=1)
        assert "  ??  " in done.stdout and f"0x{digits} is in " in done.stderr and "--hex" in done.stderr, done
    where = ["--url", url(one), "/".join(good)]
    assert "read as decimal: 0x1267; for 0x4711 write 0x" in run("symbolicate", *where, "4711").stderr
    assert "decimal" not in run("symbolicate", *where, "0x10", code=1).stderr
    assert run("symbolicate", *where, "-", stdin="1267\n1267 1268\n", code=1).stderr.count("decimal") == 1


def test_addresses_in_no_function_are_told(one, program):
    good = one.symbols.add("good2.so", "FUNC 1000 20 0 good\n")
    done = run("symbolicate", "--url", url(one), "/".join(good), "0x1000", "0x10", "0x20")
    assert done.stderr == "symbtool: addresses in no function: 2\n"
    done = run("symbolicate", program, "1", code=1)
    assert "in no function: 1" in done.stderr and done.stdout.endswith("  ??  no function\n")
    assert run("symbolicate", program, hex(symbol_address(program, "main"))).stderr == ""


def test_an_address_in_memory_is_told(one, program):
    """Of a file only what the addresses need is read: a file that has symbols elsewhere is not stripped."""
    good = one.symbols.add("good3.so", "FUNC 1000 20 0 good\n")
    for where in ([program], ["--url", url(one), "/".join(good)]):
        done = run("symbolicate", *where, "0x55d0c0ffee12", code=1)
        assert done.stdout.endswith("  ??  wrong offset\n") and "Subtract the address" in done.stderr, done


def test_a_file_that_cannot_be_read_costs_its_own_frames(program, tmp_path):
    junk = tmp_path / "junk"
    junk.write_bytes(b"\x7fELFjunk")
    at = symbol_address(program, "main")
    done = run("symbolicate", f"{junk}+0x1", f"{program}+{at:#x}", f"{tmp_path}/none+0x1", code=1)
    assert [line.split("  ")[1].split(" at ")[0] for line in done.stdout.splitlines()] == ["??", "main", "??"]
    assert f"{junk}: " in done.stderr and "none: No such file" in done.stderr


# ---- what it reads ----


def test_a_bad_token_costs_its_line(program):
    at = symbol_address(program, "main")
    text = f"{at:#x}\n{at:#x} zz\n\n  \t\n0x11111111111111111\n{at:#x} {at:#x}"
    done = run("symbolicate", program, "-", stdin=text, code=1)
    assert [re.sub(r"^.*  main .*$", "main", line) for line in done.stdout.splitlines()] == ["main", "", "main", "main"]
    assert "standard input:2: zz: not an address" in done.stderr
    assert "standard input:5: 0x11111111111111111: an address is at most 0xffffffffffffffff" in done.stderr


def test_results_come_as_they_are_asked_for(program):
    at = symbol_address(program, "main")
    with subprocess.Popen([SYMBTOOL, "symbolicate", program, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        watchdog = threading.Timer(BOUND, p.kill)
        watchdog.start()
        for i in range(3):
            p.stdin.write(f"{at:#x}\n")
            p.stdin.flush()
            assert (i == 0 or p.stdout.readline() == "\n") and "  main at " in p.stdout.readline()
        p.stdin.close()
        assert p.wait(BOUND) == 0
        watchdog.cancel()


@pytest.mark.slow
def test_more_addresses_than_a_server_takes_at_once(one):
    good = one.symbols.add("many.so", "FUNC 1000 20 0 m\n")
    thousands = less_when_watched(401)
    done = run("symbolicate", "--url", url(one), "/".join(good), "-", stdin=("0x1000 " * 1000 + "\n") * thousands)
    assert done.stdout.count("  m\n") == thousands * 1000
    # as JSON each request has as much as a server takes
    thousands = less_when_watched(301)
    done = run("symbolicate", "--json", "--url", url(one), "/".join(good), "-", stdin=("0x1000 " * 1000 + "\n") * thousands)
    assert len(re.findall(r'"function": ?"m"', done.stdout)) == thousands * 1000


def test_hex_without_0x(program):
    at = symbol_address(program, "main")
    for text in (f"{at:016x}", "11af", "00"):
        assert f"{text}: if this is hex, write 0x{text} or give --hex" in run("symbolicate", program, text, code=2).stderr
        assert "if this is hex, write" in run("symbolicate", program, "-", stdin=text, code=1).stderr
    plain = run("symbolicate", program, hex(at)).stdout
    assert f"main at {program}.c:{line_of(LEAK, 'main') - 1}" in plain
    for form in (f"{at:016x}", f"{at:x}", hex(at), f"{program}+{at:x}"):
        assert run("symbolicate", "--hex", program, form).stdout == plain
    assert run("symbolicate", program, str(at)).stdout == plain


def test_standard_input_in_every_verb(program, tmp_path):
    data = open(program, "rb").read()
    ident = run("file-id", program).stdout.split()[0]
    assert run("file-id", "-", stdin=data).stdout.decode().split()[0] == ident
    with open(program, "rb") as f:
        assert subprocess.run([SYMBTOOL, "file-id", "-"], stdin=f, capture_output=True, text=True, check=True).stdout.split()[0] == ident
    sym = module_line("a.so", debug_id("a")) + b"FILE 0 a.c\nFUNC 1000 10 0 f\n1000 10 3 0\n"
    assert b"1" in run("check", "-", stdin=sym).stdout
    run("extract", "-o", tmp_path, program)
    part = next(p for p in os.listdir(tmp_path) if ".ranges." in p)
    ranges = open(tmp_path / part, "rb").read()
    assert run("dump", "-", stdin=ranges).stdout.decode() == run("dump", tmp_path / part).stdout


def test_a_url_of_the_route(one):
    good = one.symbols.add("route.so", "FUNC 1000 20 0 good\n")
    for tail in ("", "/", "/symbolicate/v5", "/symbolicate/v5/", "/symbolicate/v4"):
        assert "  good" in run("symbolicate", "--url", url(one) + tail, "/".join(good), "0x1000").stdout


# ---- what it says ----


def test_help_and_version():
    assert run("help").stdout == run("--help").stdout
    for verb in VERBS:
        assert run("help", verb).stdout == run(verb, "--help").stdout
    assert run("-V").stdout == run("--version").stdout
    assert "unknown verb" in run("help", "nothing", code=2).stderr


def test_ranges_are_named():
    assert "--retry-time: 86401 is not from 0 to 86400" in run("symbolicate", "--retry-time", "86401", "x", "1", code=2).stderr
    assert re.search(r"--threads: x is not from 1 to \d+|--threads: x is not a number", run("extract", "--threads", "x", "y", code=2).stderr)


def on_a_terminal(arguments, env):
    master, slave = pty.openpty()
    with subprocess.Popen([SYMBTOOL, *arguments], stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.PIPE, env=env) as p:
        os.close(slave)
        out = b""
        try:
            while data := os.read(master, 65536):
                out += data
        except OSError:
            pass  # how a terminal ends
        assert p.wait(BOUND) == 0, p.stderr.read()
    os.close(master)
    return out.decode()


def test_colour_on_a_terminal_alone(program, tmp_path):
    at = hex(symbol_address(program, "main"))
    log = tmp_path / "log"
    log.write_text(f"{program}+{at}\n")
    plain = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"}
    for arguments in (["symbolicate", program, at], ["symbolicate", "--filter", str(log)]):
        assert "\033[1m" in on_a_terminal(arguments, plain)
        assert "\033" not in on_a_terminal(arguments, plain | {"NO_COLOR": "1"})
        assert "\033" not in on_a_terminal(arguments, plain | {"TERM": "dumb"})
        assert "\033" not in run(*arguments, env={"TERM": "xterm"}).stdout
    log.write_text(f"    #0 0x1 ({program}+{at})\n")  # alone in its line
    assert re.fullmatch(r"    #0 0x1\033\[1m in main .*\033\[0m\(.*\)\r?\n", on_a_terminal(["symbolicate", "--filter", str(log)], plain))


def complete(*words):
    script = f'source "{ROOT}/completions/symbtool.bash"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _symbtool; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return subprocess.run(["bash", "-c", script, "bash", SYMBTOOL, *words], capture_output=True, text=True, check=True, timeout=BOUND).stdout.split()


def test_completion_in_bash(tmp_path):
    assert set(VERBS) <= set(complete("")) and complete("sym") == ["symbolicate"]
    assert complete("help", "fi") == ["file-id"]
    for verb in VERBS:
        options = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", run(verb, "--help").stdout, re.M))
        assert options <= set(complete(verb, "--"))
    assert complete("symbolicate", "--fil") == ["--filter"]
    (tmp_path / "file").touch()
    assert complete("dump", str(tmp_path / "fi")) == [str(tmp_path / "file")]
    assert complete("symbolicate", "--url", "") == []
