#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Debian as it is right after its installation, with a clean clone of this checkout, and one command in it.

    bare_root.py [--user] [--boot] [--ref COMMIT] [--keep] 12|13 [COMMAND...]

    bare_root.py 13                            ./check
    bare_root.py 12 ./check format unit        two parts of it
    bare_root.py --user 13 env LC_ALL=C ./check wire
    bare_root.py --boot 12 tests/tools/try_readme.py

COMMAND runs in the clone, in /src/symbolicated, and gives the exit code; without one it is ./check all. Uncommitted changes are not in
the clone. --user runs it as a user without sudo, after root installed the packages of ./check. --boot starts systemd first, so that
units run, and python3 is there. --keep leaves the root where it is, and says where.

It needs root and debootstrap. Mirrors, proxies and certificates are those that apt of this machine is set up with. The bare root is
made once, into $XDG_CACHE_HOME/symbolicated/roots or else build/cache/roots, as is one with systemd and python3, and copied for each
run; packages that were fetched, and what ccache keeps, stay beside it. What runs is in namespaces of its own: when the command ends,
or this program, its processes and mounts are gone, and so is the copy. Large symbol files, in SHARED_DATA or ../shared/data, are there
too, to be read."""

import argparse
import ctypes
import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RELEASES = {"12": "bookworm", "13": "trixie"}
PLACE = "/src/symbolicated"  # of the clone, in the root
SHARED = "/src/shared/data"
KEPT = {"archives": "/var/cache/apt/archives", "ccache": "/var/cache/ccache"}  # folders that later runs have, too
USER = "builder"
PASSED_ON = ("http_proxy", "https_proxy", "no_proxy", "GOPROXY", "GOSUMDB", "SEED")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
UNIT = """\
[Unit]
Description=What bare_root.py runs
After=multi-user.target
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
ExecStart=/bin/sh /command
StandardOutput=append:/output
StandardError=append:/output
[Install]
WantedBy=default.target
"""


def cache_directory():
    base = os.environ.get("XDG_CACHE_HOME")
    return os.path.join(base, "symbolicated") if base else os.path.join(ROOT, "build", "cache")


def mirrors():
    """(URL, suite) of each of Debian's sources that apt of this machine reads, the release itself first."""
    text = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = []
    for line in text.splitlines():
        url, suite, component = line.split()
        if component == "main" and suite.split("-")[0] in RELEASES.values() and "backports" not in suite:
            found.append((url, suite))
    if not found:
        sys.exit("bare_root.py: apt of this machine reads no sources of Debian 12 or 13; see /etc/apt/sources.list.d")
    return sorted(set(found), key=lambda source: ("-" in source[1], source))


def make_base(name, sources, boot=False):
    """The root right after debootstrap, or one that boots; returns its path."""
    folder = os.path.join(cache_directory(), "roots")
    base = os.path.join(folder, name + ("-boot" if boot else ""))
    os.makedirs(folder, exist_ok=True)
    with open(base + ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(base):
            print(f"making a root of Debian {name} in {base}", file=sys.stderr, flush=True)
            shutil.rmtree(base + ".new", ignore_errors=True)
            if boot:
                make_bootable(name, sources, base + ".new")
            else:
                bootstrap(name, sources, base + ".new")
            os.rename(base + ".new", base)
    return base


def bootstrap(name, sources, place):
    # Namespaces of its own here too: debootstrap mounts /proc.
    command = ["unshare", "--mount", "debootstrap", "--variant=minbase", name, place, sources[0][0]]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        sys.exit(f"bare_root.py: debootstrap failed; its log is {place}/debootstrap/debootstrap.log")


def make_bootable(name, sources, place):
    subprocess.run(["cp", "-a", "--reflink=auto", make_base(name, sources), place], check=True)
    set_up_apt(place, name, sources)
    write(f"{place}/command", "export DEBIAN_FRONTEND=noninteractive\napt-get update -q && apt-get install -q -y --no-install-recommends systemd systemd-sysv python3\n")
    write(f"{place}/output", "")
    if enter_and_run(place, name, boot=False, out=sys.stderr):
        sys.exit("bare_root.py: systemd and python3 cannot be installed")


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    os.chmod(path, mode)


def set_up_apt(root, name, sources):
    """The same servers, proxies and certificates as on this machine, for this release."""
    own = sources[0][1]
    write(f"{root}/etc/apt/sources.list", "".join(f"deb {url} {suite.replace(own, name, 1)} main\n" for url, suite in sources))
    settings = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    # nobody needs what is in it after a crash of this machine; and no index of man pages
    write(f"{root}/etc/dpkg/dpkg.cfg.d/bare-root", "force-unsafe-io\n")
    write(f"{root}/etc/apt/apt.conf.d/50bare-root", 'DPkg::Post-Invoke {"rm -f /var/lib/man-db/auto-update";};\n')
    wanted = ("Acquire::http", "Acquire::Check-", "Acquire::Retries", "Acquire::ForceIPv4")
    write(f"{root}/etc/apt/apt.conf.d/50host", "".join(f"{s}\n" for s in settings.splitlines() if s.startswith(wanted)))
    for path in ("etc/apt/auth.conf", "etc/apt/auth.conf.d", "usr/local/share/ca-certificates", "etc/ssl/certs/ca-certificates.crt"):
        if os.path.exists("/" + path):
            os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
            subprocess.run(["cp", "-aLT", "/" + path, f"{root}/{path}"], check=True)
    for path in ("/etc/resolv.conf", "/etc/hosts"):
        shutil.copyfile(path, root + path)


def clone(root, ref):
    place = root + PLACE
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, place], check=True)
    subprocess.run(["git", "-C", place, "checkout", "--quiet", "--detach", ref], check=True)


def ref_of(name):
    return subprocess.run(["git", "-C", ROOT, "rev-parse", name], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def shared_data():
    folder = os.environ.get("SHARED_DATA", os.path.join(os.path.dirname(ROOT), "shared", "data"))
    return folder if os.path.isdir(folder) else None


def script(given):
    """What runs in the root, as root."""
    lines = ["set -eu", f"cd {PLACE}", "export DEBIAN_FRONTEND=noninteractive"]
    command = shlex.join(given.command or ["./check", "all"])
    if given.user:
        lines += [
            "tests/tools/install_packages.sh check",
            f"useradd --create-home {USER}",
            f"chown -R {USER}: {PLACE}",
            f"exec setpriv --reuid {USER} --regid {USER} --init-groups env HOME=/home/{USER} {command}",
        ]
    else:
        lines += [f"exec {command}"]
    return "\n".join(lines) + "\n"


def environment():
    """Nothing of this machine but the way out of it."""
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", **passed}


def prepare(root, given, sources):
    name = RELEASES[given.release]
    subprocess.run(["cp", "-a", "--reflink=auto", make_base(name, sources, given.boot) + "/.", root], check=True)
    os.chmod(root, 0o755)
    set_up_apt(root, name, sources)
    clone(root, ref_of(given.ref))
    command = script(given)
    if given.boot:
        variables = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment().items())
        write(f"{root}/etc/systemd/system/bare-root.service", UNIT)
        command = variables + command
    write(f"{root}/command", command, 0o755)
    write(f"{root}/output", "")


# ---- in the namespaces, as process 1 ----


def mount(source, target, *options):
    subprocess.run(["mount", *options, source, target], check=True)


def mount_all(root, kept, shared, boot):
    mount(root, root, "--bind")
    mount("proc", root + "/proc", "-t", "proc")
    mount("/dev", root + "/dev", "--rbind")
    for name, place in KEPT.items():
        os.makedirs(root + place, exist_ok=True)
        mount(f"{kept}-{name}", root + place, "--bind")
    mount("sysfs", root + "/sys", "-t", "sysfs", "-o", "ro")
    mount("cgroup2", root + "/sys/fs/cgroup", "-t", "cgroup2")
    if boot:
        for place in ("/run", "/tmp"):
            mount("tmpfs", root + place, "-t", "tmpfs", "-o", "mode=0755" if place == "/run" else "mode=1777")
    if shared:
        os.makedirs(root + SHARED, exist_ok=True)
        mount(shared, root + SHARED, "--bind")
        mount(root + SHARED, root + SHARED, "-o", "remount,bind,ro")


def enter(root):
    """The root becomes this process's, without a way back."""
    os.chdir(root)
    os.makedirs("old", exist_ok=True)
    if ctypes.CDLL(None, use_errno=True).syscall(155, b".", b"old") != 0:  # pivot_root of x86-64
        raise OSError(ctypes.get_errno(), "pivot_root")
    os.chdir("/")
    subprocess.run(["umount", "--lazy", "/old"], check=True)


def run(command):
    """As process 1: waits for whatever ends, until the command does."""
    child = os.posix_spawn(command[0], command, environment())
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status) & 0xFF


def first_process(root, kept, shared, boot):
    mount_all(root, kept, shared, boot)
    enter(root)
    if not boot:
        return run(["/bin/sh", "/command"])
    code = run(["/bin/sh", "-c", "systemctl enable bare-root >/output 2>&1"])
    if code == 0:
        os.execve("/lib/systemd/systemd", ["systemd"], {**environment(), "container": "bare-root"})
    return code


# ---- and outside of them ----


def follow(path, ended):
    """Shows a file as it grows."""
    with open(path, encoding="utf-8", errors="replace") as text:
        while True:
            last = ended.is_set()
            print(text.read(), end="", flush=True)
            if last:
                return
            ended.wait(0.5)


def enter_and_run(root, name, boot, out=None):
    """Runs /command in a root."""
    kept = os.path.join(cache_directory(), "roots", name)
    for folder in KEPT:
        os.makedirs(f"{kept}-{folder}", exist_ok=True)
    command = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--ipc", "--uts"]
    command += ["--cgroup"] if boot else []
    command += [sys.executable, os.path.abspath(__file__), "--first-process", root, kept, shared_data() or "", str(int(boot))]
    ended = threading.Event()
    shower = threading.Thread(target=follow, args=(root + "/output", ended), daemon=True)
    shower.start()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL if boot else out)
    try:
        return process.wait()
    finally:
        process.kill()
        process.wait()
        ended.set()
        shower.join()


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip(), description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("release", choices=RELEASES)
    parser.add_argument("--user", action="store_true")
    parser.add_argument("--boot", action="store_true")
    parser.add_argument("--ref", default="HEAD")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args()


def main():
    if sys.argv[1:2] == ["--first-process"]:
        root, kept, shared, boot = sys.argv[2:]
        return first_process(root, kept, shared, boot == "1")
    given = arguments()
    if os.getuid() != 0 or not shutil.which("debootstrap"):
        sys.exit("bare_root.py: it needs root, and the package debootstrap")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    root = tempfile.mkdtemp(prefix=f"debian-{given.release}-")
    try:
        prepare(root, given, mirrors())
        return enter_and_run(root, RELEASES[given.release], given.boot)
    except KeyboardInterrupt:
        return 1
    finally:
        if given.keep:
            print(f"the root is kept: {root}", file=sys.stderr)
        else:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
