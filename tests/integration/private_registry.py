"""A registry of containers and an index of packages that want a login, over TLS, on the front end's own loopback.

It is run on the testbed with the login on its standard input, which nobody else can read, and lives until that is
closed. It prints its port, and at its end what it has seen of the login where anybody could have: in the list of
processes. Answers are slow enough for that to be looked at.
"""

import base64
import hashlib
import io
import json
import os
import ssl
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = sys.stdin.readline().strip()
ALLOWED = "Basic " + base64.b64encode(f"alice:{TOKEN}".encode()).decode()
FOLDER = sys.argv[1]


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def layer():
    """A shell, env and their libraries, and an interpreter that only says that it ran."""
    programs = {"bin/sh": "/bin/dash", "usr/bin/env": "/usr/bin/env"}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        libraries = set()
        for name, path in programs.items():
            archive.add(os.path.realpath(path), name)
            output = subprocess.run(["ldd", path], stdout=subprocess.PIPE, text=True, check=True).stdout
            libraries |= {word for word in output.split() if word.startswith("/")}
        for path in sorted(libraries):
            archive.add(os.path.realpath(path), path.lstrip("/"))
        info = tarfile.TarInfo("usr/bin/python")
        text = b"#!/bin/sh\necho trained\n"
        info.size, info.mode = len(text), 0o755
        archive.addfile(info, io.BytesIO(text))
    return buffer.getvalue()


def wheel():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("modak_planted.py", "VALUE = 1\n")
        folder = "modak_planted-1.0.dist-info"
        archive.writestr(f"{folder}/METADATA", "Metadata-Version: 2.1\nName: modak-planted\nVersion: 1.0\n")
        archive.writestr(
            f"{folder}/WHEEL", "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{folder}/RECORD", "")
    return buffer.getvalue()


LAYER = layer()
CONFIG = json.dumps(
    {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [digest(LAYER)]}}
).encode()
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
MANIFEST = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": digest(CONFIG),
            "size": len(CONFIG),
        },
        "layers": [
            {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest(LAYER), "size": len(LAYER)}
        ],
    }
).encode()
WHEEL_NAME = "modak_planted-1.0-py3-none-any.whl"
PAGES = {
    "/v2/": (b"{}", "application/json"),
    "/v2/small/manifests/1": (MANIFEST, MANIFEST_TYPE),
    f"/v2/small/manifests/{digest(MANIFEST)}": (MANIFEST, MANIFEST_TYPE),
    f"/v2/small/blobs/{digest(CONFIG)}": (CONFIG, "application/octet-stream"),
    f"/v2/small/blobs/{digest(LAYER)}": (LAYER, "application/octet-stream"),
    "/simple/modak-planted/": (f'<a href="/{WHEEL_NAME}">{WHEEL_NAME}</a>'.encode(), "text/html"),
    f"/{WHEEL_NAME}": (wheel(), "application/octet-stream"),
}


class Handler(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        if self.headers.get("Authorization") != ALLOWED:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="a test"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        time.sleep(0.7)
        body, kind = PAGES.get(self.path, (b"", "text/plain"))
        self.send_response(200 if self.path in PAGES else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if kind == MANIFEST_TYPE:
            self.send_header("Docker-Content-Digest", digest(MANIFEST))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *words):
        pass


def watch(command_lines, looks):
    """Looks for the token among the arguments of all processes."""
    while True:
        looks.append(1)
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read()
            except OSError:
                continue
            if TOKEN.encode() in words:
                command_lines.add(words.decode(errors="replace").replace("\0", " "))
        time.sleep(0.02)


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{FOLDER}/cert.pem", f"{FOLDER}/key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    command_lines, looks = set(), []
    threading.Thread(target=watch, args=(command_lines, looks), daemon=True).start()
    print(server.server_address[1], hashlib.sha256(PAGES[f"/{WHEEL_NAME}"][0]).hexdigest(), flush=True)
    sys.stdin.read()
    print(json.dumps({"seen": sorted(command_lines), "looks": len(looks)}), flush=True)


main()
