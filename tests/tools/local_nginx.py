# SPDX-License-Identifier: Apache-2.0
"""An nginx of one's own on loopback: the project's nginx files in a temporary directory, HTTP and TLS, as root or as anybody."""

import functools
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Files with paths in them: these are bytes, which the locale may take for other letters than UTF-8 does, or for none.
AS_BYTES = {"encoding": sys.getfilesystemencoding(), "errors": "surrogateescape"}
WEB = "/usr/local/share/symbolicated/web/"  # as the files have it
BACKUP = "server unix:/run/symbolicated/symbolicated.sock max_fails=0 backup;"

# Paths are relative to nginx's prefix, which is the directory. worker_shutdown_timeout bounds the end of a test.
CONF = """\
{user}
daemon off;
worker_processes {workers};
worker_shutdown_timeout 5s;
pid nginx.pid;
error_log error.log info;
events {{
	worker_connections {connections};
}}
http {{
	access_log access.log;
	default_type application/octet-stream;
	client_body_temp_path tmp-body;
	proxy_temp_path tmp-proxy;
	fastcgi_temp_path tmp-fastcgi;
	uwsgi_temp_path tmp-uwsgi;
	scgi_temp_path tmp-scgi;
	ssl_certificate cert.pem;
	ssl_certificate_key key.pem;
	{http}
	include symbolicated-http.conf;
	server {{
		listen {address}:{port} backlog=4096{listen};
		listen {address}:{tls_port} ssl{http2[0]} backlog=4096{listen};{http2[1]}
		include symbolicated-server.conf;
		{server}
	}}
}}
"""

# A server that is symbolicated's alone, as in symbolicated-example.conf.
OWN_SERVER = """include symbolicated-root.conf;
		include symbolicated-errors.conf;
		location / {
			return 404;
		}"""


def worker_user():
    """Who the workers of an nginx that root starts are; root itself where a user namespace has nobody else."""
    with open("/proc/self/uid_map", encoding="ascii") as f:
        if sum(int(line.split()[2]) for line in f) == 1:
            return "root"
    return "www-data" if any(p.pw_name == "www-data" for p in pwd.getpwall()) else "nobody"


@functools.cache
def http2():
    """How this nginx is told to speak HTTP/2: a word of `listen`, which later versions warn of, or a directive."""
    text = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=True).stderr
    version = tuple(map(int, re.search(r"nginx/(\d+)\.(\d+)\.(\d+)", text).groups()))
    return ("", " http2 on;") if version >= (1, 25, 1) else (" http2", "")


@functools.cache
def certificate():
    """{name of the file: text} of a key and its certificate: one for all that this process starts."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
             "-keyout", os.path.join(folder, "key.pem"), "-out", os.path.join(folder, "cert.pem")],
            check=True, capture_output=True,
        )  # fmt: skip
        found = {}
        for name in ("key.pem", "cert.pem"):
            with open(os.path.join(folder, name), encoding="ascii") as f:
                found[name] = f.read()
        return found


def write_page(folder):
    """What is installed of the page."""
    os.makedirs(folder, exist_ok=True)
    shutil.copy(os.path.join(ROOT, "web", "site.json"), folder)
    with open(os.path.join(folder, "index.html"), "wb") as out:
        subprocess.run([os.path.join(ROOT, "web", "join.sh")], stdout=out, check=True)


@functools.cache
def page():
    """A copy of the page that nginx's workers can read wherever the checkout lies: one for all that this process starts."""
    folder = tempfile.TemporaryDirectory(prefix="sym-web-")
    write_page(folder.name)
    os.chmod(folder.name, 0o755)
    return folder


def make_share(folder, version):
    """What `make install` makes of nginx's files and the page, of a version; returns the path of `install`."""
    shutil.copytree(os.path.join(ROOT, "nginx"), os.path.join(folder, "nginx"), dirs_exist_ok=True)
    write_page(os.path.join(folder, "web"))
    path = os.path.join(folder, "nginx", "install")
    with open(path + ".sh", encoding="utf-8") as f, open(path, "w", encoding="utf-8") as out:
        out.write(f.read().replace("@VERSION@", version))
    os.chmod(path, 0o755)
    return path


def write_certificate(directory):
    for name, text in certificate().items():
        # a key, which openssl leaves to its owner
        with open(os.path.join(directory, name), "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
            out.write(text)


def write_nginx(directory, sockets, port, tls_port, http="", server=OWN_SERVER, changes=(), workers=2, address="127.0.0.1", listen="", connections=2048):
    """Writes everything that nginx needs into directory; returns the path of nginx.conf. changes: (file, regular expression,
    replacement) triples, each of which must match, for what an administrator changes in the files. listen: more words for `listen`. connections:
    that each worker may have."""
    servers = "".join(f"server unix:{s} max_fails=0;\n" for s in sockets)
    # this machine may have one
    changes = [("symbolicated-http.conf", re.escape(BACKUP), ""), ("symbolicated.d/servers.conf", r"\Z", servers), *changes]
    shutil.copytree(os.path.join(ROOT, "nginx"), directory, dirs_exist_ok=True)
    changes = [("symbolicated-server.conf", re.escape(WEB), os.path.join(page().name, "")), *changes]
    for name, pattern, replacement in changes:
        path = os.path.join(directory, name)
        with open(path, **AS_BYTES) as f:
            text, count = re.subn(pattern, lambda _, r=replacement: r, f.read())
        if not count:
            raise ValueError(f"{name} has no {pattern}")
        with open(path, "w", **AS_BYTES) as f:
            f.write(text)
    write_certificate(directory)
    conf = os.path.join(directory, "nginx.conf")
    user = f"user {worker_user()};" if os.getuid() == 0 else ""
    with open(conf, "w", **AS_BYTES) as f:
        values = {"workers": workers, "address": address, "port": port, "tls_port": tls_port, "listen": listen and f" {listen}", "connections": connections}
        f.write(CONF.format(user=user, http=http, server=server, http2=http2(), **values))
    return conf


def nginx_command(directory, conf):
    return ["nginx", "-p", directory, "-c", conf, "-e", os.path.join(directory, "error.log")]
