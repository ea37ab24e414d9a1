"""Which digest a registry has for a tag, asked of a server on loopback that answers as registries do."""

from __future__ import annotations

import base64
import json
from http.server import BaseHTTPRequestHandler

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import answering

from modak_ansible.target.images.registry import NoDigest, by_digest, digest_of_tag, tag_of

DIGEST = f"sha256:{'a1' * 32}"
PLAIN = {"APPTAINER_NOHTTPS": "1"}
LOGIN = {"registry": "x", "username": "alice", "password": "right"}
BASIC = "Basic " + base64.b64encode(b"alice:right").decode()


@pytest.fixture
def registry():
    """A registry; gives its host, what it has by path, and what it was shown at each question."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def _answer(self, code, headers=(), body=b""):
            self.send_response(code)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_HEAD(self):
            shown = self.headers.get("Authorization", "")
            asked.append((self.path, shown))
            host = self.headers["Host"]
            if self.path == "/v2/team/open/manifests/1":
                assert "manifest.list" in self.headers["Accept"]
                self._answer(200, [("Docker-Content-Digest", DIGEST)])
            elif self.path == "/v2/team/basic/manifests/1" and shown != BASIC:
                self._answer(401, [("WWW-Authenticate", 'Basic realm="r"')])
            elif self.path == "/v2/team/token/manifests/1" and shown != "Bearer t0k":
                where = f'Bearer realm="http://{host}/token",service="s",scope="repository:team/token:pull"'
                self._answer(401, [("WWW-Authenticate", where)])
            elif self.path == "/v2/team/abroad/manifests/1":
                self._answer(401, [("WWW-Authenticate", 'Bearer realm="http://127.0.0.1:9/token",service="s"')])
            elif self.path == "/v2/team/moved/manifests/1":
                self._answer(307, [("Location", f"http://{host}/v2/team/open/manifests/1")])
            elif self.path == "/v2/team/odd/manifests/1":
                self._answer(200, [("Docker-Content-Digest", "sha256:0; rm -rf /")])
            elif self.path.startswith(("/v2/team/basic", "/v2/team/token")):
                self._answer(200, [("Docker-Content-Digest", DIGEST)])
            else:
                self._answer(404)

        def do_GET(self):
            asked.append((self.path, self.headers.get("Authorization", "")))
            self._answer(200, body=json.dumps({"token": "t0k"}).encode())

    asked = []
    with answering(Handler) as server:
        yield f"127.0.0.1:{server.server_port}", asked


@pytest.mark.parametrize(("name", "login"), [("open", None), ("basic", LOGIN), ("token", None), ("token", LOGIN)])
def test_the_digest_of_a_tag_is_told(registry, name, login):
    host, asked = registry
    assert digest_of_tag(f"docker://{host}/team/{name}:1", login, PLAIN) == DIGEST
    if name == "token":
        assert asked[1] == ("/token?service=s&scope=repository%3Ateam%2Ftoken%3Apull", BASIC if login else "")


@pytest.mark.parametrize(
    ("name", "login", "said"),
    [
        ("none", None, "it answers 404"),
        ("basic", None, "it answers 401"),
        ("basic", {**LOGIN, "password": "wrong"}, "it answers 401"),
        ("abroad", LOGIN, "it answers 401"),
        ("moved", LOGIN, "it answers 307"),
        ("odd", None, "it names no digest"),
    ],
)
def test_why_it_is_not_told(registry, name, login, said):
    """A login is shown neither in the open to another host, nor to where a registry sends on."""
    host, asked = registry
    with pytest.raises(NoDigest, match=said):
        digest_of_tag(f"docker://{host}/team/{name}:1", login, PLAIN)
    assert not any(path.startswith("/token") for path, _ in asked)


def test_without_a_word_for_it_nothing_is_asked_in_the_open(registry):
    with pytest.raises(NoDigest):
        digest_of_tag(f"docker://{registry[0]}/team/open:1", None, {})
    assert not registry[1]


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("docker://debian", ("docker.io", "library/debian", "latest")),
        ("docker://acme/torch:2.1", ("docker.io", "acme/torch", "2.1")),
        ("docker://docker.io/acme/torch:2.1", ("docker.io", "acme/torch", "2.1")),
        ("docker://r.example:5000/a/b/c:1", ("r.example:5000", "a/b/c", "1")),
        (f"docker://acme/torch@{DIGEST}", None),
        ("oras://r.example/a:1", None),
        ("/images/mine.sif", None),
    ],
)
def test_an_address_is_taken_apart(source, parts):
    assert tag_of(source) == parts
    if parts:
        assert tag_of(by_digest(source, DIGEST)) is None


@given(st.text(max_size=60))
def test_whatever_an_address_is(text):
    parts = tag_of(f"docker://{text}")
    assert parts is None or all(parts)
