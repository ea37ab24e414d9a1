"""modak notebook on a real cluster: opened through its tunnel, lost, gone back to, and over when nobody works with it."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from cluster import MODAK, run, wait_for

pytestmark = [pytest.mark.testbed, pytest.mark.thorough]


class Notebook:
    """The command, and the JupyterLab that it opens."""

    def __init__(self, project, *options):
        self.errors = project.temporary / "errors"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [MODAK, "notebook", project.write(), *options], cwd=project.path, text=True, stdout=subprocess.PIPE,
                stderr=errors, env={**os.environ, **project.environment},
            )  # fmt: skip
        self.lines = []
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if "lab?token=" in line:
                break
        assert "lab?token=" in self.lines[-1], (self.lines, self.errors.read_text())
        self.address, self.token = self.lines[-1].split("lab?token=")
        self.port = int(self.address.rstrip("/").rpartition(":")[2])

    def call(self, path, value=None, method=None, token=None):
        data = None if value is None else json.dumps(value).encode()
        headers = {"Authorization": f"token {token or self.token}"}
        asked = urllib.request.Request(self.address + path, data, headers, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=20) as response:
            return json.load(response)

    def answers(self):
        try:
            return self.call("api/status")
        except OSError:
            return None

    def run(self, code):
        """What a kernel prints of a piece of code, and its value, by the kernel's websocket."""
        kernel = self.call("api/kernels", {})["id"]
        header = {"msg_id": "1", "msg_type": "execute_request", "username": "", "session": "s", "version": "5.3"}
        content = {"code": code, "silent": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        found = []
        with socket.create_connection(("127.0.0.1", self.port), 60) as wire, wire.makefile("rb") as answer:
            key = base64.b64encode(os.urandom(16)).decode()
            wire.sendall(
                f"GET /api/kernels/{kernel}/channels HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nUpgrade: websocket\r\n"
                f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
                f"Authorization: token {self.token}\r\n\r\n".encode()
            )
            assert b" 101 " in answer.readline()
            while answer.readline().strip():
                pass
            text = json.dumps(message).encode()
            wire.sendall(bytes([0x81, 0x80 | 126]) + len(text).to_bytes(2, "big") + bytes(4) + text)
            while True:
                _, size = answer.read(2)
                size = int.from_bytes(answer.read({126: 2, 127: 8}[size]), "big") if size > 125 else size
                said = json.loads(answer.read(size) or "{}")
                kind, content = said.get("msg_type"), said.get("content", {})
                found += [content["text"]] if kind == "stream" else []
                found += [content["data"]["text/plain"]] if kind == "execute_result" else []
                if kind in ("execute_reply", "error"):
                    assert content.get("status") == "ok", content
                if (
                    kind == "status"
                    and content["execution_state"] == "idle"
                    and said["parent_header"].get("msg_id") == "1"
                ):
                    return found

    def end(self):
        self.process.send_signal(signal.SIGINT)
        out = self.process.communicate(timeout=60)[0]
        assert self.process.returncode == 0, self.errors.read_text()
        return out


def processes(testbed):
    """All command lines and environments of this machine that can be read, the testbed's nodes and front end included."""
    found = testbed.root("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2> /dev/null | tr '\\0' ' '; true")
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += path.read_text(errors="replace")
        except OSError:
            continue
    return found


@pytest.fixture
def opened(project):
    """Opens notebooks of the project; those that are open at the end are ended."""
    found = []

    def open_(*options):
        found.append(Notebook(project, *options))
        return found[-1]

    yield open_
    for each in found:
        each.process.kill()
        each.process.wait()


def test_a_notebook_is_opened_lost_gone_back_to_and_ends_when_idle(project, opened):
    project.script("import sys\n").training["resources"] = {"nodes": 2}
    project.training["distributed_training"] = True
    first = opened("--idle", "1m", "--keep")
    assert first.answers()["kernels"] == 0
    with pytest.raises(urllib.error.HTTPError, match="403"):
        first.call("api/contents", token="wrong")
    said = first.run("import os, torch; print(os.environ['SLURM_JOB_ID'], os.environ['SLURM_JOB_NUM_NODES'])\n1+1")
    assert said[1] == "2"
    job, nodes = said[0].split()
    assert nodes == "1"
    assert {each["name"] for each in first.call("api/contents")["content"]} == {"train.py"}
    page = {"type": "notebook", "content": {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}}
    first.call("api/contents/mine.ipynb", page, "PUT")
    there = processes(project.testbed)
    assert "modak_notebook.py" in there
    assert first.token not in there

    (folder,) = (project.path / ".modak" / "deployments").glob("*-notebook-*")
    closed = run("ssh", "-F", folder / "ssh_config", "-O", "exit", "testbed")
    assert closed.returncode == 0, closed.stderr
    wait_for(lambda: "the tunnel is open again" in first.errors.read_text(), 60)
    assert first.answers()["kernels"] == 1
    assert "keeps running until it is idle for 1m" in first.end()
    assert first.answers() is None

    second = opened("--idle", "1m", "--port", str(first.port))
    assert second.lines[0] == f"back to {folder.name}"
    assert (second.port, second.token) == (first.port, first.token)
    out = second.process.communicate(timeout=240)[0]
    assert second.process.returncode == 0, second.errors.read_text()
    assert "the notebook has ended: cancelled, by the notebook itself, idle for 60 s" in out
    assert (folder / "results" / "code" / "mine.ipynb").is_file()
    assert job not in project.testbed.ssh("squeue --noheader --format=%A").split()
    left = project.testbed.ssh(
        f"cd modak/deployments/{folder.name} && find . -user modak -name '*' -exec grep -lF -e {first.token} {{}} +; true"
    )
    assert left == ""
