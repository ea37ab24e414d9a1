"""Files behind WebDAV: a real server of it on loopback."""

from __future__ import annotations

import platform
import threading

import pytest
from cheroot.wsgi import Server
from hypothesis import given
from hypothesis import strategies as st
from wsgidav.wsgidav_app import WsgiDAVApp

from modak_ansible.errors import ModakError
from modak_ansible.sources.base import SourceProblem
from modak_ansible.sources.webdav import _place

platform.processor()  # which wsgidav asks for, and which starts a process once

FILES = {"a b#c.csv": b"x\n1\n", "deep/er/ä%20.bin": bytes(range(256)) * 3000, "deep/b.csv": b"y\n2\n"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    config = {
        "provider_mapping": {"/": str(folder / "open"), "/private": str(folder / "private")},
        "simple_dc": {"user_mapping": {"/": True, "/private": {"alice": {"password": "sesame"}}}},
        "http_authenticator": {"accept_basic": True, "accept_digest": False, "default_to_digest": False},
        "verbose": 0, "logging": {"enable": False},
    }  # fmt: skip
    for name in ("open", "private"):
        (folder / name).mkdir()
    running = Server(("127.0.0.1", 0), WsgiDAVApp(config))
    running.prepare()
    threading.Thread(target=running.serve, daemon=True).start()
    yield folder, f"webdav://127.0.0.1:{running.bind_addr[1]}"
    running.stop()


@pytest.fixture
def dav(server, sources, tmp_path, monkeypatch):
    folder = server[0]
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    (folder / "open" / "empty").mkdir(exist_ok=True)
    for place in ("open/data", "private/data"):
        for name, content in FILES.items():
            path = folder / place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return server


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/data", sorted(FILES)),
        ("/data/deep/", ["b.csv", "er/ä%20.bin"]),
        ("/data/**/*.csv", ["a b#c.csv", "deep/b.csv"]),
        ("/data/a%20b%23c.csv", ["a b#c.csv"]),
    ],
)
@pytest.mark.parametrize("reaches", [True, False])
def test_a_folder_a_pattern_or_a_file(dav, sources, tmp_path, path, names, reaches):
    _, source = sources.one(dav[1] + path)
    assert [file.name for file in source.files] == names
    found = sources.brought(source, sources.Carrier(tmp_path / "target", reaches=reaches))
    assert sorted(found) == names
    assert set(found.values()) <= set(FILES.values())


def test_a_login_of_netrc_is_used_and_written_nowhere(dav, sources, tmp_path):
    refused = sources.problem(f"{dav[1]}/private/data")
    assert "requires a login, and there is none in" in refused.reason
    assert "machine 127.0.0.1 login NAME password WORD" in refused.hint
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login alice password wrong\n")
    assert "refuses the login in" in sources.problem(f"{dav[1]}/private/data").reason
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login alice password sesame\n")
    _, source = sources.one(f"{dav[1]}/private/data")
    for reaches in (True, False):
        carrier = sources.Carrier(tmp_path / str(reaches), reaches=reaches)
        assert sources.brought(source, carrier) == FILES
        assert "sesame" not in source.model_dump_json() + "".join(carrier.lines)


def test_a_file_with_logins_in_another_encoding_is_told(dav, sources, tmp_path):
    (tmp_path / "netrc").write_bytes(b"machine 127.0.0.1 login alice password s\xe9same\n")
    found = sources.problem("webdavs://127.0.0.1:9/data")
    assert found.reason == f"the logins in {tmp_path / 'netrc'} cannot be read"


def test_a_login_goes_nowhere_in_the_clear(dav, sources, tmp_path):
    (tmp_path / "netrc").write_text("machine dav.example login alice password sesame\n")
    found = sources.problem("webdav://dav.example/data")
    assert "is not sent to webdav://" in found.reason
    (tmp_path / "netrc").write_text("machine 127.0.0.1 bogus sesame\n")
    found = sources.problem("webdavs://127.0.0.1:9/data")
    assert "cannot be read" in found.reason
    assert "sesame" not in found.reason


def test_a_login_within_an_address_is_not_repeated(sources):
    found = sources.problem("webdavs://alice:sesame@dav.example/data")
    assert (found.reason, found.hint) == (
        "the address holds a login",
        "machine HOST login NAME password WORD, in ~/.netrc",
    )


def test_what_changed_since_the_plan_is_said(dav, sources, tmp_path):
    _, source = sources.one(f"{dav[1]}/data")
    (dav[0] / "open" / "data" / "deep" / "b.csv").write_text("y\n22\n")
    with pytest.raises(ModakError, match="deep/b.csv has changed since the plan was made"):
        sources.brought(source, sources.Carrier(tmp_path, reaches=True))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}/dada", "there is no file or folder dada in http://127.0.0.1"),
        ("{}/data/*.none", "nothing matches data/*.none in http://127.0.0.1"),
        ("{}/empty", "there are no files in webdav://127.0.0.1"),
        ("webdav://", "names no server"),
        ("webdav://127.0.0.1:9/x", "cannot be asked: Connection refused"),
        ("{}/data/../../x", "leads out of its folder"),
    ],
)
def test_what_is_refused(dav, sources, text, reason):
    found = sources.problem(text.format(dav[1]))
    assert reason in found.reason
    assert "dada" not in reason or found.hint == "did you mean data?"


def test_a_server_that_speaks_no_webdav(sources, tmp_path, monkeypatch):
    from hub_server import hub_at_loopback

    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    with hub_at_loopback() as hub:
        assert "does not speak WebDAV" in sources.problem(hub.address.replace("http", "webdav")).reason


@given(st.text(max_size=30))
def test_any_text_is_a_place_or_is_refused(text):
    try:
        server, path = _place(f"webdavs://{text}")
    except SourceProblem:
        return
    assert server.startswith("https://")
    assert "@" not in server
    assert ".." not in path.split("/")
