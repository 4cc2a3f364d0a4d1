#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the images of Containerfile with buildah and runs them as compose.yaml says, on a machine of its own.

    bare_root.py --boot 12 tests/tools/try_container.py

It wants root. buildah runs without a registry, a daemon and namespaces (chroot isolation, vfs): so what compose.yaml says of networks,
capabilities and the read-only root is not tried, and memcached is Debian's. Where no image can be pulled the base is this machine as it
was. The last line is "N passed, N failed, N skipped"."""

import glob
import json
import os
import signal
import subprocess
import sys

from trial import APT, ROOT, answers, ask, run_tests, shell, wait_for

BASE = "docker.io/library/debian:12-slim"
WORK = "/var/tmp/containers"  # with a socket folder for each responder
URL = "http://127.0.0.1:8080"
ASK = ask(URL)
MEMCACHED = "127.0.0.1:21221"

os.environ.update(BUILDAH_ISOLATION="chroot", STORAGE_DRIVER="vfs", BUILDAH_FORMAT="docker")
# What a container says where its service does not.
WHY = "for c in $(buildah containers --quiet); do buildah run $c -- sh -c 'id; ls -l /proc/self/fd/ /run; nginx -e stderr -t' 2>&1; done"
running = {}  # name: (process, container)


def services():
    """Of compose.yaml."""
    import yaml  # of python3-yaml, which the first test installs

    with open(os.path.join(ROOT, "compose.yaml"), encoding="utf-8") as f:
        return yaml.safe_load(f)["services"]


def image_settings(container):
    return json.loads(shell(f"buildah inspect {container}"))["Docker"]["config"]


def volumes(name):
    """The options for what compose.yaml mounts: folders and files of WORK, whose settings name the memcached that is here."""
    mounts = (volume.split(":", 1) for volume in services()[name]["volumes"])
    return [word for source, rest in mounts for word in ("-v", f"{WORK}/{os.path.basename(source)}:{rest}")]


def start(name):
    """Runs a service as its image says."""
    container = shell(f"buildah from --pull-never {services()[name]['image']}").strip()
    config = image_settings(container)
    command = [*(config["Entrypoint"] or []), *(config["Cmd"] or [])]
    extra = ["-v", f"{ROOT}/tests/data/symbols:/srv/symbols:ro"] if name != "nginx" else []
    process = subprocess.Popen(["buildah", "run", *volumes(name), *extra, container, "--", *command], stdin=subprocess.DEVNULL)
    running[name] = process, container
    return container


def healthy(name):
    container = running[name][1]
    kind, *command = image_settings(container)["Healthcheck"]["Test"]
    assert kind == "CMD"
    done = subprocess.run(["buildah", "run", *volumes(name), container, "--", *command], capture_output=True, check=False)
    return done.returncode == 0


def processes(name, program):
    """Ids below a service's buildah."""
    found, parents = [], [running[name][0].pid]
    while parents:
        children = []
        for path in glob.glob(f"/proc/{parents.pop()}/task/*/children"):
            with open(path, encoding="ascii") as f:
                children += [int(n) for n in f.read().split()]
        parents += children
        for child in children:
            if os.path.basename(os.readlink(f"/proc/{child}/exe")) == program:
                found.append(child)
    return found


# ---- what is tried, in this order ----


def test_a_base_is_there():
    shell(f"tar -c --one-file-system --exclude=./src --exclude=./tmp/* --exclude=./var/tmp/* --exclude=./var/cache/apt/archives/* -C / -f {WORK}.tar .")
    shell(f"apt-get update -q && {APT} buildah python3-yaml curl memcached iproute2")
    if subprocess.run(["timeout", "30", "buildah", "pull", "-q", BASE], capture_output=True, check=False).returncode:
        print(f"{BASE} CANNOT BE PULLED HERE: THE BASE IS THIS MACHINE AS IT WAS", flush=True)
        shell(f"""container=$(buildah from scratch)
            buildah add -q $container {WORK}.tar /
            buildah commit -q --rm $container {BASE}""")


def test_the_images_are_built():
    for name in ("symbolicated", "nginx"):
        image = next(s["image"] for s in services().values() if s.get("build", {}).get("target") == name)
        shell(f"buildah build -q --layers --pull-never --build-arg COMMIT=abc1234 --target {name} --tag {image} . >&2")


def test_they_answer_together():
    shell(f"""mkdir -p {WORK}
        install -d -o 900 -g www-data -m 0750 {WORK}/run-a {WORK}/run-b
        sed -E -e '/^(s3|symbfile)/d' -e 's,^source.*,source = file:///srv/symbols,' -e 's,^memcached.*,memcached = {MEMCACHED},' \\
            contrib/container/symbolicated.conf >{WORK}/symbolicated.conf""")
    host, port = MEMCACHED.split(":")
    running["memcached"] = subprocess.Popen(["memcached", "-u", "nobody", "-l", host, "-p", port, "-U", "0"]), None
    for name in ("a", "b", "nginx"):
        start(name)
    wait_for("an answer", lambda: answers(ASK))
    assert "abc1234" in shell(f"curl -sf {URL}/__version__")
    shell(f"curl -sf {URL}/symbolicate/ | cmp - web/index.html")


def test_nobody_is_root_and_the_sandbox_is_on():
    for name, program, uid in (("a", "symbolicated", 900), ("b", "symbolicated", 900), ("nginx", "nginx", 33)):
        found = processes(name, program)
        assert found, name
        for pid in found:
            with open(f"/proc/{pid}/status", encoding="ascii") as f:
                status = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
            assert set(status["Uid"].split()) == {str(uid)} and set(status["Gid"].split()) == {"33"}, (name, status)
            assert program == "nginx" or status["Seccomp"].strip() == "2", status["Seccomp"]
    assert oct(os.stat(f"{WORK}/run-a/symbolicated.sock").st_mode & 0o777) == "0o660"


def test_they_are_healthy_until_they_end():
    for name in ("a", "b", "nginx"):
        assert healthy(name), name
    (pid,) = processes("a", "symbolicated")
    os.kill(pid, signal.SIGTERM)
    assert running["a"][0].wait(60) == 0
    assert not healthy("a")
    for _ in range(20):
        assert answers(ASK)  # b does, also for requests that nginx gives to a first
    start("a")
    wait_for("the first to be healthy again", lambda: healthy("a"))


def stop():
    for name, (process, container) in running.items():
        for pid in processes(name, "nginx")[:1] + processes(name, "symbolicated") if container else []:
            os.kill(pid, signal.SIGTERM)
        if not container:
            process.terminate()
        process.wait(60)


def main():
    if os.getuid() != 0 or not os.path.isdir("/src/symbolicated"):
        sys.exit("try_container.py: it changes the machine: bare_root.py --boot 12 tests/tools/try_container.py")
    try:
        return run_tests(globals(), WHY)
    finally:
        stop()


if __name__ == "__main__":
    sys.exit(main())
