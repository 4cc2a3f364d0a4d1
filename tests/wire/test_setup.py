# SPDX-License-Identifier: Apache-2.0
"""What README, packages.txt, the units and the tarball promise to who sets it up. tests/tools/try_readme.py really does it all, on a
bare machine."""

import configparser
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import pytest

from stack import DAEMON, ROOT
from symbols import TOOLS

sys.path.insert(0, TOOLS)
import try_readme  # noqa: E402

BUILD = os.path.dirname(os.path.abspath(DAEMON[-1]))
# What a command of README is replaced by, where only its words are looked at.
SAYS_ITS_WORDS = 'sudo() { printf "%s " "$@"; echo; }\nautoreconf() { sudo autoreconf "$@"; }\nmake() { sudo make "$@"; }\n'


def packages(*kinds):
    with open(os.path.join(ROOT, "packages.txt"), encoding="utf-8") as f:
        return [line.split()[0] for line in f if not line.startswith("#") and line.split()[1] in kinds]


# docs/hosts.md


def planned(requests, symbols, *more):
    tool = os.path.join(ROOT, "contrib", "plan.py")
    return subprocess.run([sys.executable, tool, "--requests", requests, "--symbols", symbols, *more], capture_output=True, text=True, check=False)


def test_the_plans_of_hosts_md_are_what_plan_py_prints():
    with open(os.path.join(ROOT, "docs", "hosts.md"), encoding="utf-8") as f:
        rows = re.findall(r"^\| ([\d,]+)/s \| (\d+) GB \| (\d+) \| ([\d.]+) GB \| ([\d,]+) MB \| ([\d.]+) to ([\d,.]+) MB/s \|$", f.read(), re.M)
    assert len(rows) == 4
    for row in rows:
        requests, symbols, hosts, cache, memcached, warm, missing = (cell.replace(",", "") for cell in row)
        done = planned(requests, symbols)
        assert done.returncode == 0, done.stderr
        values = [line.split()[-1] if line.split()[-1].isdigit() else line.split()[-2] for line in done.stdout.split("\n\n")[0].splitlines()]
        assert values[0] == hosts and values[2] == cache and values[3] == memcached and values[5] == warm, done.stdout
        assert abs(float(values[6]) - float(missing)) <= 0.5, done.stdout
    assert "  the links" in planned("1e5", "100", "--gbit", "10").stdout


@pytest.mark.parametrize("wrong", [("0", "5"), ("1", "-5"), ("x", "5"), ("1", "5", "--cores", "0")])
def test_plan_py_refuses(wrong):
    done = planned(*wrong)
    assert done.returncode == 2 and "argument --" in done.stderr and not done.stdout


# Packages


def test_the_debian_packages_are_built_with_the_same_libraries():
    with open(os.path.join(ROOT, "debian", "control"), encoding="utf-8") as f:
        depends = re.search(r"^Build-Depends:(.*(?:\n .*)*)", f.read(), re.M).group(1)
    listed = {re.split(r"[ (\[<]", one.strip())[0] for one in depends.split(",")}
    wanted = {name for name in packages("build") if name.endswith("-dev")} - {"libc6-dev"}
    assert {name for name in listed if name.endswith("-dev")} - {"libcmocka-dev"} == wanted


# Versions


def checkout(folder):
    """A repository with configure.ac and version.sh alone; returns a function that runs git in it, and one that asks for the version."""
    os.makedirs(folder / "tests" / "tools")
    shutil.copy(os.path.join(TOOLS, "version.sh"), folder / "tests" / "tools")
    (folder / "configure.ac").write_text("AC_INIT([symbolicated], [7.8.9])\n")

    def git(*words, time="2026-11-28T14:57:59+01:00"):
        env = {**os.environ, "GIT_COMMITTER_DATE": time, "GIT_AUTHOR_DATE": time, "GIT_CONFIG_GLOBAL": "/dev/null"}
        who = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        return subprocess.run(["git", "-C", folder, *who, *words], env=env, capture_output=True, text=True, check=True).stdout.strip()

    def version(*words, **env):
        command = [folder / "tests" / "tools" / "version.sh", *words]
        return subprocess.run(command, cwd="/", env={**os.environ, **env}, capture_output=True, text=True, check=True).stdout.strip()

    return git, version


def test_versions_can_be_told_apart(tmp_path):
    git, version = checkout(tmp_path)
    assert (version(), version("--commit")) == ("7.8.9", "")
    git("init", "-q")
    assert version() == "7.8.9"
    git("add", ".")
    git("commit", "-qm", "one")
    first = version()
    assert first == "7.8.9+git20261128.135759." + git("rev-parse", "--short=7", "HEAD")
    assert version("--commit") == git("rev-parse", "--short=12", "HEAD")
    git("commit", "--allow-empty", "-qm", "two", time="2026-11-28T15:00:00+01:00")
    for lower, higher in (("7.8.9", first), (first, version()), (version(), "7.8.10")):
        subprocess.run(["dpkg", "--compare-versions", lower, "lt", higher], check=True)
    git("tag", "v7.8.9")
    assert version() == "7.8.9"


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_the_version_of_another_users_checkout(tmp_path):
    git, version = checkout(tmp_path)
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    subprocess.run(["chown", "-R", "nobody:", tmp_path], check=True)
    assert version(HOME="/nonexistent").startswith("7.8.9+git2026")


def test_the_version_of_a_tarball(tmp_path):
    _, version = checkout(tmp_path)
    (tmp_path / "version").write_text("7.8.9+git1\n")
    (tmp_path / "commit").write_text("0123456789ab\n")
    assert (version(), version("--commit")) == ("7.8.9+git1", "0123456789ab")


def test_the_program_says_the_version():
    with open(os.path.join(BUILD, "config.h"), encoding="utf-8") as f:
        version = re.search(r'^#define FULL_VERSION "(.*)"$', f.read(), re.M)[1]
    with open(os.path.join(ROOT, "debian", "changelog"), encoding="utf-8") as f:
        released = re.match(r"symbolicated \((.*?)\)", f.read())[1]
    assert version.split("+")[0] == released
    assert subprocess.run([*DAEMON, "--version"], capture_output=True, text=True, check=True).stdout == f"symbolicated {version}\n"


# Kubernetes


def test_the_example_for_kubernetes_is_right():
    """Schemas are looked at where kubernetes-validate is; what they do not know is looked at here."""
    yaml = pytest.importorskip("yaml")
    with open(os.path.join(ROOT, "contrib", "kubernetes", "symbolicated.yaml"), encoding="utf-8") as f:
        found = {document["kind"]: document for document in yaml.safe_load_all(f)}
    pod = found["Deployment"]["spec"]["template"]["spec"]
    containers = {c["name"]: c for c in pod["containers"]}
    with open(os.path.join(ROOT, "compose.yaml"), encoding="utf-8") as f:
        images = {s["image"] for s in yaml.safe_load(f.read())["services"].values() if "build" in s}
    assert {c["image"] for c in containers.values()} == images
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    for selector in (found["Service"]["spec"]["selector"], *(found[kind]["spec"]["selector"]["matchLabels"] for kind in ("Deployment", "PodDisruptionBudget"))):
        assert selector.items() <= labels
    ports = {p["name"]: p["containerPort"] for p in containers["nginx"]["ports"]}
    assert ports == {"http": 8080} and found["Service"]["spec"]["ports"][0]["targetPort"] == "http"
    volumes = {v["name"] for v in pod["volumes"]}
    for container in containers.values():
        assert {m["name"] for m in container["volumeMounts"]} <= volumes and container["securityContext"]["readOnlyRootFilesystem"]
        for mount in container["volumeMounts"]:
            assert mount["name"] != "settings" or mount["subPath"] in found["ConfigMap"]["data"]
    assert {"/tmp", "/var/tmp"} <= {m["mountPath"] for m in containers["responder"]["volumeMounts"]}
    example = subprocess.run([*DAEMON, "--print-config-example"], check=True, capture_output=True, text=True).stdout
    settings = dict(re.findall(r"^#(\w+) = ?(.*)$", example, re.M))
    drain = containers["responder"]["lifecycle"]["preStop"]["exec"]["command"][-1]
    assert settings["drain_file"] in drain
    sleeps = int(re.search(r"sleep (\d+)", drain)[1])
    probe = containers["nginx"]["readinessProbe"]
    assert sleeps > probe["periodSeconds"] * probe["failureThreshold"]
    assert pod["terminationGracePeriodSeconds"] > sleeps + int(settings["shutdown_timeout"].removesuffix("s"))


def test_the_example_for_kubernetes_has_its_schema():
    validate = pytest.importorskip("kubernetes_validate")
    yaml = pytest.importorskip("yaml")
    with open(os.path.join(ROOT, "contrib", "kubernetes", "symbolicated.yaml"), encoding="utf-8") as f:
        for document in yaml.safe_load_all(f):
            validate.validate(document, validate.latest_version(), strict=True)


def test_the_settings_of_the_example_for_kubernetes_are_valid(tmp_path):
    yaml = pytest.importorskip("yaml")
    with open(os.path.join(ROOT, "contrib", "kubernetes", "symbolicated.yaml"), encoding="utf-8") as f:
        (data,) = [d["data"] for d in yaml.safe_load_all(f) if d["kind"] == "ConfigMap"]
    (tmp_path / "symbolicated.conf").write_text(data["symbolicated.conf"])
    subprocess.run([*DAEMON, "--config", tmp_path / "symbolicated.conf", "--check-config", "--listen", tmp_path / "socket"], check=True)
    for name in ("allow.conf", "servers.conf"):
        assert os.path.exists(os.path.join(ROOT, "nginx", "symbolicated.d", name))


# README


def test_readme_installs_the_packages_of_packages_txt(tmp_path):
    """Step 1, with shell functions in place of what it runs: no line of it may be a command of its own."""
    shutil.copy(os.path.join(ROOT, "packages.txt"), tmp_path)
    (tmp_path / "configure").write_text("#!/bin/sh\n")
    os.chmod(tmp_path / "configure", 0o755)
    command = ["bash", "-ec", SAYS_ITS_WORDS + try_readme.step(1)]
    out = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert not out.stderr
    lines = [line.split() for line in out.stdout.splitlines()]
    install = next(line for line in lines if line[:2] == ["apt-get", "install"])
    assert [word for word in install[2:] if not word.startswith("-")] == packages("build")
    assert ["make", "install"] in lines


@pytest.mark.slow
def test_packages_are_those_of_the_includes_and_libraries():
    """Each library that configure asks for has its package in the list of what is built with."""
    with open(os.path.join(ROOT, "configure.ac"), encoding="utf-8") as f:
        modules = re.findall(r"PKG_CHECK_MODULES\(\[\w+\], \[([^]]*)\]", f.read())
    names = {name for text in modules for name in re.sub(r">=\s*\S+", "", text).split()} - {"cmocka"}
    listed = packages("build")
    for name in names:
        found = subprocess.run(["pkg-config", "--variable=pcfiledir", name], stdout=subprocess.PIPE, text=True, check=True)
        owner = subprocess.run(["dpkg-query", "-S", f"{found.stdout.strip()}/{name}.pc"], capture_output=True, text=True, check=False)
        if owner.returncode == 0:  # else it is none of Debian's
            assert owner.stdout.split(":")[0] in listed, name


@pytest.mark.parametrize("number", range(1, 6))
def test_readme_is_a_shell_script(number):
    subprocess.run(["bash", "-n", "-c", try_readme.step(number)], check=True)


# The place


def complaint(name, folder=ROOT, **env):
    """What check_place.sh says, which ./run and ./check begin with; None: nothing."""
    command = ["sh", os.path.join(folder, "tests", "tools", "check_place.sh"), name]
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (done.stderr == ""), done
    return done.stderr or None


def test_run_and_check_look_at_the_place_first():
    for name in ("run", "check"):
        with open(os.path.join(ROOT, name), encoding="utf-8") as f:
            text = f.read()
        assert f'"$root/tests/tools/check_place.sh" {name}\n"$root/tests/tools/install_packages.sh" {name}\n' in text


@pytest.mark.parametrize("command", ["./run --bogus", "./run once", "./run --symbols", "./check --bogus", "./check nosuch", "./check unit --seed"])
def test_what_is_not_understood_is_refused_before_anything_is_installed(command):
    done = subprocess.run(command.split(), cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and "--help" in done.stderr and len(done.stderr.splitlines()) == 1, done


def test_check_knows_its_parts():
    with open(os.path.join(ROOT, "check"), encoding="utf-8") as f:
        text = f.read()
    with open(os.path.join(TOOLS, "check.py"), encoding="utf-8") as f:
        parts = re.findall(r'^    "(\w+)": ', re.search(r"^PARTS = \{.*?^\}", f.read(), re.S | re.M).group(), re.M)
    assert set(re.search(r"--seed=\* \| (.*)\) ;;", text)[1].split(" | ")) == {"all", *parts}


@pytest.mark.parametrize("name, works", [("plain", True), ("a b \u00e4", True), ("a'b", False), ('a"b', False), ("a$b", False), ("a\nb", False)])
def test_a_checkout_in_a_strange_path(tmp_path, name, works):
    shutil.copytree(TOOLS, tmp_path / name / "tests" / "tools")
    said = complaint("run", tmp_path / name)
    assert said is None if works else said.startswith("./run: cannot build in ")


def test_a_checkout_that_cannot_be_written_to(tmp_path):
    shutil.copytree(TOOLS, tmp_path / "tests" / "tools")
    (tmp_path / "build").write_text("no directory")  # root may write everywhere
    assert "cannot write to" in complaint("check", tmp_path)


def test_a_tmpdir_that_will_not_do(tmp_path):
    assert complaint("check", TMPDIR="/tmp") is None
    assert "no directory" in complaint("run", TMPDIR=str(tmp_path / "none"))
    long = tempfile.mkdtemp(suffix="x" * 90, dir="/tmp")
    try:
        assert "too long" in complaint("run", TMPDIR=long) and "too long" in complaint("check", TMPDIR=long)
    finally:
        os.rmdir(long)
    assert "has room for" in complaint("check", TMPDIR="/tmp", CHECK_PLACE_KIB=str(1 << 50))


def test_run_quotes_paths_by_their_bytes(tmp_path):
    """In a locale in which these bytes are no letters."""
    folder = os.path.join(os.fsencode(tmp_path), "\u00e4 \u4e2d".encode())
    os.makedirs(folder)
    env = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    command = [sys.executable, "-c", "import run_local, sys; print(run_local.source_of(sys.argv[1]))", folder]
    done = subprocess.run(command, cwd=TOOLS, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"file://{tmp_path}/%C3%A4%20%E4%B8%AD"


# Units


def unit(name):
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    with open(os.path.join(BUILD, name), encoding="utf-8") as f:
        parser.read_string(f.read())
    return parser


@pytest.mark.parametrize("name", ["symbolicated.service", "symbolicated.socket", "symbolicated@.service"])
def test_units_never_give_up_and_wait_for_settings(name):
    u = unit(name)["Unit"]
    assert u["StartLimitIntervalSec"] == "0"
    assert u["ConditionPathExists"].endswith("/symbolicated/symbolicated.conf")


def test_one_of_two_responders_keeps_its_groups_and_its_path():
    one, of_two = unit("symbolicated.service")["Service"], unit("symbolicated@.service")["Service"]
    assert (of_two["Group"], of_two["SupplementaryGroups"]) == ("www-data", one["Group"])
    assert of_two["ExecStart"] == one["ExecStart"] + " --listen /run/symbolicated-%i/symbolicated.sock"
    assert of_two["RuntimeDirectory"] == "symbolicated-%i"
    with open(os.path.join(BUILD, "symbolicated@.service"), encoding="utf-8") as f:
        assert "symbolicated.socket" not in f.read()


# The tarball


def make_tarball(place):
    """Of a checkout in which the tests were built where the sources are."""
    # A path with a blank and a letter that is not ASCII: so configure is called by a relative one.
    source, build = place / "a b \u00e4" / "source", place / "a b \u00e4" / "build"
    not_source = shutil.ignore_patterns(".git", "build", "build-*", "autom4te.cache", "__pycache__")
    shutil.copytree(ROOT, source, ignore=not_source, symlinks=True)
    for name in ("tests/unit/test_base", "tests/fuzz/fuzz_sym", "tests/tools/symlookup", "tests/bench/load"):
        shutil.copy("/bin/true", source / name)
        (source / (name + ".o")).write_bytes(b"\x7fELF")
        os.makedirs(source / os.path.dirname(name) / ".deps", exist_ok=True)
    os.makedirs(build)
    command = "(cd ../source && autoreconf -i) && ../source/configure COMMIT=0123456789ab && make dist GZIP_ENV=--fast"
    subprocess.run(["sh", "-ec", command], cwd=build, check=True, capture_output=True)
    return next(build.glob("*.tar.*"))


@pytest.mark.slow
def test_the_tarball_is_complete_without_compiled_programs_and_knows_its_commit(tmp_path):
    tarball = make_tarball(tmp_path / "dist")
    assert tarball.suffix == ".gz" and "xz-utils" not in packages("build", "run")
    with tarfile.open(tarball) as tar:
        names = tar.getnames()
        for member in tar.getmembers():
            if member.isfile() and "/tests/data/" not in member.name and "/corpus/" not in member.name:
                assert tar.extractfile(member).read(4) != b"\x7fELF", member.name
        tar.extractall(tmp_path / "again")
    assert not [n for n in names if ".deps" in n]
    for name in ("check", "run", "packages.txt", "README", "tests/unit/test_base.c", "tests/tools/build.sh"):
        assert any(n.endswith("/" + name) for n in names), name
    source = next((tmp_path / "again").iterdir())
    build = tmp_path / "build"
    build.mkdir()
    subprocess.run([source / "configure"], cwd=build, check=True, capture_output=True)
    assert '#define COMMIT "0123456789ab"' in (build / "config.h").read_text()
