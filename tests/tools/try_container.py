#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the images of Containerfile and runs all services of compose.yaml as it says, by podman.

    try_container.py [12|13]

Nothing is asked of a registry: the base is a root of this Debian made by debootstrap, memcached is Debian's, and the S3 server is that of
the other tests; each under the name that the files give it. Images, containers, networks and mounts are in a folder and in namespaces of
their own, and end with this program. That wants root; where something is missing all is skipped, and a line in capitals says what. The
last line is "N passed, N failed, N skipped"."""

import argparse
import ctypes
import glob
import os
import re
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile

import bare_root
import s3_server
from trial import APT, ROOT, answers, ask, run_tests, shell, wait_for

BASE = "docker.io/library/debian:12-slim"  # of Containerfile
URL = "http://127.0.0.1:8080"
ASK = ask(URL)
PROGRAMS = ("podman", "crun", "debootstrap", "unshare", "nsenter", "ip", "ss", "curl")
SYMBOLS = os.path.join(ROOT, "tests", "data", "symbols")
INSIDE = "SYMBOLICATED_CONTAINERS"  # the folder, for the program that runs in the namespaces
NEWNET = 0x40000000  # CLONE_NEWNET
WHY = "podman ps --all; for c in $(podman ps --all --quiet); do podman inspect --format '{{.Name}} {{.State.Error}}' $c; podman logs --tail 20 $c; done"
# As the registry's image has it: no documentation, and quick.
DPKG = "force-unsafe-io\npath-exclude /usr/share/doc/*\npath-exclude /usr/share/locale/*\npath-exclude /usr/share/man/*\n"
CONTAINERS_CONF = """\
[containers]
cgroups = "disabled"
default_ulimits = ["nofile={1}:{1}", "nproc={2}:{2}"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
tmp_dir = "{0}/tmp"
volume_path = "{0}/volumes"
[network]
network_backend = "netavark"
network_config_dir = "{0}/networks"
"""
STORAGE_CONF = '[storage]\ndriver = "overlay"\ngraphroot = "{0}/images"\nrunroot = "{0}/run"\n'


class Missing(Exception):
    """What is missing here."""


def podman(*arguments):
    done = subprocess.run(["podman", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"exit code {done.returncode} of podman {' '.join(arguments)}\n{done.stderr[-4000:]}"
    return done.stdout.strip()


def inspect(name, what):
    return podman("inspect", "--format", "{{" + what + "}}", name)


# ---- compose.yaml ----


def compose():
    import yaml  # of python3-yaml

    def variable(match):
        return os.environ[match[1]]

    with open(os.path.join(ROOT, "compose.yaml"), encoding="utf-8") as f:
        return yaml.safe_load(re.sub(r"\$\{(\w+):\?[^}]*\}", variable, f.read()))


def each(option):
    return lambda values: [word for value in values for word in (option, str(value))]


def volumes(values):
    """Files of this checkout, or volumes of compose's."""
    for value in values:
        source, rest = value.split(":", 1)
        yield "--volume"
        yield f"{os.path.join(ROOT, source) if source.startswith('./') else 'symbolicated_' + source}:{rest}"


def networks(values):
    for name in values:
        address = values[name].get("ipv4_address") if isinstance(values, dict) else None
        yield "--network"
        yield f"symbolicated_{name}" + (f":ip={address}" if address else "")


# What podman calls it.
OPTIONS = {
    "cap_drop": each("--cap-drop"),
    "environment": lambda values: each("--env")(f"{k}={v}" for k, v in values.items()),
    "networks": networks,
    "ports": each("--publish"),
    # What only podman would make writable is not.
    "read_only": lambda on: [f"--read-only={str(on).lower()}", "--read-only-tmpfs=false"],
    "restart": lambda policy: ["--restart", policy],
    "security_opt": each("--security-opt"),
    "stop_grace_period": lambda text: ["--stop-timeout", re.fullmatch(r"(\d+)s", text)[1]],
    "tmpfs": each("--tmpfs"),
    "volumes": volumes,
}
ELSEWHERE = {"build", "command", "depends_on", "image"}


def start(name, service):
    """Any other key is an error here: nothing that the file says goes untried."""
    options = [word for key in service if key not in ELSEWHERE for word in OPTIONS[key](service[key])]
    podman("run", "--detach", "--pull", "never", "--name", name, "--network-alias", name, *options, service["image"], *service.get("command", []))


def in_order(services):
    """Those that others depend on come first."""
    started = []
    while len(started) < len(services):
        ready = [n for n in services if n not in started and set(services[n].get("depends_on", [])) <= set(started)]
        assert ready, "depends_on goes in a circle"
        started += ready
    return started


# ---- what runs ----


def processes(name):
    """Ids of a container's."""
    found = [int(inspect(name, ".State.Pid"))]
    for pid in found:
        for path in glob.glob(f"/proc/{pid}/task/*/children"):
            with open(path, encoding="ascii") as f:
                found += [int(n) for n in f.read().split()]
    return found


def status(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return {key: rest.strip() for key, _, rest in (line.partition(":") for line in f)}


def mounts(pid):
    """{place: may it be written to}"""
    with open(f"/proc/{pid}/mountinfo", encoding="utf-8") as f:
        return {line.split()[4]: "rw" in line.split()[5].split(",") for line in f}


def address(name):
    pid = processes(name)[0]
    return re.findall(r" inet (10\.[0-9.]+)/", shell(f"nsenter --net=/proc/{pid}/ns/net ip -o -4 addr"))


def healthy(name):
    return subprocess.run(["podman", "healthcheck", "run", name], capture_output=True, check=False).returncode == 0


# ---- what is tried, in this order ----


def test_the_images_are_built():
    for target, image in {(s["build"]["target"], s["image"]) for s in compose()["services"].values() if "build" in s}:
        podman("build", "--quiet", "--pull=never", "--format", "docker", "--isolation", "chroot", "--build-arg", "COMMIT=abc1234", "--target", target, "--tag", image, ".")


def test_all_services_start_as_compose_says():
    # Packages came from the machine's own network; from here on there is none but what compose makes.
    assert ctypes.CDLL(None, use_errno=True).unshare(NEWNET) == 0, os.strerror(ctypes.get_errno())
    shell("ip link set lo up && mount -t sysfs sysfs /sys && mount -t cgroup2 cgroup2 /sys/fs/cgroup")
    settings = compose()
    for name, network in settings["networks"].items():
        podman("network", "create", "--subnet", network["ipam"]["config"][0]["subnet"], f"symbolicated_{name}")
    for name in in_order(settings["services"]):
        start(name, settings["services"][name])
    # Names are answered for on the networks' own addresses.
    published = shell("ss -Hltn4 'sport != :53' | awk '{ print $4 }'").split()
    assert published == ["127.0.0.1:8080"], published
    for name in settings["services"]:
        (own,) = address(name)
        assert own.startswith("10.78.0.") and (name != "memcached" or own == "10.78.0.21"), (name, own)


def test_modules_of_the_s3_server_are_answered_and_kept_in_memcached():
    (s3,) = address("s3")
    shell(f"""cd {SYMBOLS}
        find * -name '*.sym' | while read -r file; do
            set -- $(sha256sum "$file")
            curl -sSf --aws-sigv4 aws:amz:us-east-1:s3 --user "symbols:$S3_SECRET" --header "x-amz-content-sha256: $1" --upload-file "$file" "http://{s3}:7070/symbols/v1/$file"
        done""")
    wait_for("an answer", lambda: answers(ASK))
    wait_for("a page in memcached", lambda: "STAT curr_items 0" not in shell("printf 'stats\\nquit\\n' | curl -sS --max-time 5 telnet://10.78.0.21:11211"))
    assert "abc1234" in shell(f"curl -sf {URL}/__version__")
    shell(f"web/join.sh >/tmp/page.html && curl -sf {URL}/symbolicate/ | cmp - /tmp/page.html")
    podman("exec", "nginx", "curl", "-sSf", f"{URL}/__heartbeat__")


def test_nobody_may_more_than_compose_says():
    users = {"a": "900", "b": "900", "nginx": "33"}
    for name, service in compose()["services"].items():
        written = {*service["tmpfs"], *(v.split(":")[1] for v in service.get("volumes", []) if not v.endswith(":ro"))}
        for pid in processes(name):
            found = status(pid)
            assert {found[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}, (name, found)
            assert found["NoNewPrivs"] == "1", name
            # Its own filter, beside podman's.
            assert int(found["Seccomp_filters"]) >= (2 if name in ("a", "b") else 1), (name, found["Seccomp_filters"])
            if name in users:
                assert set(found["Uid"].split()) == {users[name]} and set(found["Gid"].split()) == {"33"}, (name, found)
            writable = {place for place, on in mounts(pid).items() if on and not re.match(r"/(proc|sys|dev|etc)/?|/run/\.containerenv$", place)}
            assert writable == written, (name, writable)
    folder = podman("volume", "inspect", "--format", "{{.Mountpoint}}", "symbolicated_run-a")
    assert oct(os.stat(f"{folder}/symbolicated.sock").st_mode & 0o777) == "0o660"


def test_they_are_healthy_until_they_end():
    for name in ("a", "b", "nginx"):
        wait_for(f"{name} to be healthy", lambda n=name: healthy(n))
    podman("stop", "a")
    assert inspect("a", ".State.ExitCode") == "0" and not healthy("a")
    for _ in range(20):
        assert answers(ASK)  # b does, also for requests that nginx gives to a first
    podman("start", "a")
    wait_for("the first to be healthy again", lambda: healthy("a"))
    (pid,) = processes("b")
    os.kill(pid, signal.SIGKILL)
    wait_for("the second to be started again", lambda: inspect("b", ".State.Running") == "true" and processes("b") != [pid] and healthy("b"))
    assert answers(ASK)
    podman("stop", "nginx")
    assert inspect("nginx", ".State.ExitCode") == "0"


# ---- the folder, the namespaces, the images of the registry ----


def release():
    with open("/etc/os-release", encoding="utf-8") as f:
        found = re.search(r'^VERSION_ID="?(\d+)', f.read(), re.M)
    return found[1] if found and found[1] in bare_root.RELEASES else "12"


def find_what_is_needed(folder, debian):
    """Returns the root of Debian and the S3 server's program. Raises Missing."""
    if os.getuid() != 0:
        raise Missing("that needs root")
    for program in PROGRAMS:
        if not shutil.which(program):
            raise Missing(f"there is no {program} here")
    needed = "mkdir l u w m && mount -t overlay o -o lowerdir=l,upperdir=u,workdir=w m && ip link add one type bridge"
    done = subprocess.run(["unshare", "--mount", "--pid", "--net", "--fork", "sh", "-c", needed], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"namespaces, bridges or overlays may not be made here: {done.stderr.strip()}")
    try:
        sources = bare_root.mirrors()
        name = bare_root.RELEASES[debian]
        url = f"{sources[0][0].rstrip('/')}/dists/{name}/InRelease"
        if subprocess.run(["/usr/lib/apt/apt-helper", "download-file", url, f"{folder}/InRelease"], capture_output=True, check=False).returncode:
            raise Missing(f"there is no {url}")
        root = f"{folder}/root"
        subprocess.run(["cp", "-a", "--reflink=auto", bare_root.make_base(name, sources), root], check=True)
        bare_root.set_up_apt(root, name, sources)
        bare_root.write(f"{root}/etc/dpkg/dpkg.cfg.d/quick", DPKG)
        return root, s3_server.program()
    except (SystemExit, s3_server.Unavailable) as e:
        raise Missing(str(e)) from None


def keep_resolver():
    """What podman keeps in memory is this program's own; names are resolved as before."""
    path = os.path.realpath("/etc/resolv.conf")
    with open(path, "rb") as f:
        text = f.read()
    shell("mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /dev/shm")
    if path.startswith("/run/"):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(text)


def make_images_of_the_registry(folder, root, server):
    settings = compose()["services"]
    # Quick to build, too: that the packages are right, optimised, is for try_package.py to see.
    options = "--quiet --change 'ENV DEB_BUILD_OPTIONS=noopt noautodbgsym'"
    shell(f"tar -c -C {root} --exclude=./var/cache/apt/archives/* --exclude=./usr/share/doc/* --exclude=./usr/share/locale/* --exclude=./usr/share/man/* . | podman import {options} - {BASE}")
    for image, text in (
        (settings["memcached"]["image"], f"FROM {BASE}\nRUN apt-get update -q && {APT} memcached\nUSER memcache\n"),
        (settings["s3"]["image"], 'FROM scratch\nCOPY server /app/versitygw\nENTRYPOINT ["/app/versitygw"]\n'),
    ):
        os.makedirs(f"{folder}/context", exist_ok=True)
        shutil.copy(server, f"{folder}/context/server")
        bare_root.write(f"{folder}/context/Containerfile", text)
        podman("build", "--quiet", "--pull=never", "--isolation", "chroot", "--tag", image, f"{folder}/context")


def run_inside(folder, root, server):
    """In the namespaces, as process 1."""
    keep_resolver()
    limits = (resource.getrlimit(limit)[1] for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
    settings = (folder, *limits)
    for name, text in (("CONTAINERS_CONF", CONTAINERS_CONF), ("CONTAINERS_STORAGE_CONF", STORAGE_CONF)):
        os.environ[name] = f"{folder}/{name}"
        bare_root.write(os.environ[name], text.format(*settings))
    # Without systemd podman does not ask for health by itself.
    os.environ.update(TMPDIR=folder, S3_SECRET=secrets.token_hex(16), DISABLE_HC_SYSTEMD="true")
    make_images_of_the_registry(folder, root, server)
    return run_tests(globals(), WHY)


def main():
    if INSIDE in os.environ:
        return run_inside(os.environ[INSIDE], *sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("debian", nargs="?", choices=bare_root.RELEASES, default=release())
    given = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    folder = tempfile.mkdtemp(prefix="sym-containers-", dir="/var/tmp")
    try:
        root, server = find_what_is_needed(folder, given.debian)
        command = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc", "--ipc", "--uts"]
        with subprocess.Popen([*command, sys.executable, os.path.abspath(__file__), root, server], env={**os.environ, INSIDE: folder}) as process:
            try:
                return process.wait()
            finally:
                process.kill()
    except Missing as e:
        tests = sum(name.startswith("test_") for name in globals())
        print(f"NO CONTAINER WAS TRIED: {e}\n0 passed, 0 failed, {tests} skipped")
        return 0
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` sends it twice
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
