# SPDX-License-Identifier: Apache-2.0
"""Hosts with addresses of their own: network namespaces on a bridge, in a namespace that this process makes for itself and that ends
with it. Nothing of the machine's own network is touched."""

import os
import shutil
import subprocess
import sys

from stack import die_with_parent, wait_for

INSIDE = "SYMBOLICATED_HOSTS_INSIDE"  # set for the program that runs in the namespace
NETWORK = "10.77.0"
BRIDGE = "hosts"
NOBODY = "02:77:00:00:00:fe"  # no card has it
SHAPE = ["delay", "1ms", "rate", "1gbit"]  # netem
RATE = ["rate", "1gbit", "burst", "256kb", "latency", "50ms"]  # tbf, where the kernel has no netem


def why_not():
    """None where namespaces may be made, else what is missing."""
    for program in ("unshare", "nsenter", "ip", "tc", "haproxy"):
        if not shutil.which(program):
            return f"there is no {program} here"
    for command in enterings():
        if subprocess.run([*command, "ip", "link", "add", "one", "type", "veth", "peer", "name", "two"], capture_output=True, check=False).returncode == 0:
            return None
    return "network namespaces may not be made here"


def enterings():
    """Root's own, else one within a user namespace."""
    return ([["unshare", "--net"]] if os.getuid() == 0 else []) + [["unshare", "--user", "--map-root-user", "--net"]]


def enter():
    """Runs this program anew in a network namespace, unless it is in it already; why_not() is None."""
    if INSIDE in os.environ:
        return
    for command in enterings():
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
            os.execvpe(command[0], [*command, sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"


def make_bridge():
    """This process's own place on the network is number 1."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "addr", "add", f"{NETWORK}.1/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")


class Host:
    """A namespace that lives as long as a process in it."""

    def __init__(self, name, number):
        self.name, self.address = name, f"{NETWORK}.{number}"
        self.keeper = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], preexec_fn=die_with_parent)
        self.within = ["nsenter", f"--net=/proc/{self.keeper.pid}/ns/net", "--"]
        own = os.readlink("/proc/self/ns/net")
        wait_for(lambda: os.readlink(f"/proc/{self.keeper.pid}/ns/net") != own, f"the namespace of {name}")
        run("ip", "link", "add", "name", name, "type", "veth", "peer", "name", "eth0", "netns", str(self.keeper.pid))
        run("ip", "link", "set", "dev", name, "master", BRIDGE)
        self.run("ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "link", "set", "eth0", "up")
        self.connect()

    def run(self, *command):
        run(*self.within, *command)

    def shape(self, delay=SHAPE, rate=RATE):
        """Both directions; returns what the kernel could do."""
        for kind, options in (("netem", delay), ("tbf", rate)):
            commands = [["tc", "qdisc", "replace", "dev", self.name, "root", kind, *options], [*self.within, "tc", "qdisc", "replace", "dev", "eth0", "root", kind, *options]]
            if all(subprocess.run(c, capture_output=True, check=False).returncode == 0 for c in commands):
                return f"{kind} {' '.join(options)}"
        return "not at all"

    def cut_off(self):
        """The cable is pulled: what is sent vanishes, and nobody is told."""
        run("ip", "link", "set", "dev", self.name, "down")

    def connect(self):
        run("ip", "link", "set", "dev", self.name, "up")

    def lose(self, other):
        """What this host sends to the other one vanishes."""
        self.run("ip", "neigh", "replace", other.address, "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")

    def find(self, other):
        self.run("ip", "neigh", "del", other.address, "dev", "eth0")

    def stop(self):
        self.keeper.terminate()
        self.keeper.wait()
