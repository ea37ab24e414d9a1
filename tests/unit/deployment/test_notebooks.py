"""Where a notebook listens, and whether it answers, here and on a target."""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler

import pytest
from loopback import answering

from modak_ansible.deployment.notebooks import Listening, answers, listening
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.record import DeploymentRecord
from modak_ansible.transport.ssh import Connection

SAID = {"address": "10.0.0.7", "port": 20123, "token": "tell-nobody"}


@pytest.fixture
def store(tmp_path):
    made = DeploymentStore(tmp_path / "here" / "mine-notebook-012345678901")
    made.folder.mkdir(parents=True)
    DeploymentRecord(made.folder).update(target={"workspace": str(tmp_path / "a workspace")})
    return made


def said(store, text):
    path = store.folder.parents[1] / "a workspace" / "deployments" / store.name / "jupyter" / "connection.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_here_it_is_read_from_its_file(store):
    assert listening(store, Connection("")) is None
    said(store, json.dumps(SAID))
    assert listening(store, Connection("")) == Listening("10.0.0.7", 20123, "tell-nobody")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"address": "x"}', '{"address": "x", "port": "y", "token": "z"}']
)
def test_what_is_no_whole_word_is_none(store, text):
    said(store, text)
    assert listening(store, Connection("")) is None


@pytest.mark.component
def test_elsewhere_it_comes_through_ssh(store, tmp_path, monkeypatch):
    (tmp_path / "ssh").write_text(f'#!{sys.executable}\nimport os, sys\nos.execlp("sh", "sh", "-c", sys.argv[-1])\n')
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    said(store, json.dumps(SAID))
    assert listening(store, Connection("there", tmp_path / "config")) == Listening(**SAID)
    program = (tmp_path / "ssh").read_text().replace("\nos.exec", "\nos.write(1, b'Gr\\xfc\\xdfe {')\nos.exec")
    (tmp_path / "ssh").write_text(program)  # what a shell says when it starts
    assert listening(store, Connection("there", tmp_path / "config")) == Listening(**SAID)


class Jupyter(BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.path == "/api/status" and self.headers["Authorization"] == "token tell-nobody"
        self.send_response(200 if known else 403)
        self.end_headers()
        self.wfile.write(b'{"kernels": 0}')

    def log_message(self, *_):
        """Says nothing."""


def test_it_answers_who_has_its_token_whatever_leads_to_the_world(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with answering(Jupyter) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        assert answers(address, "tell-nobody")
        assert not answers(address, "guessed")
    assert not answers(address, "tell-nobody")
