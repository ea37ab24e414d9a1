"""A release that the mirror has not got is told before the build; a mirror that does not answer stops nothing."""

from __future__ import annotations

import http.server

import pytest
from loopback import answering

from modak_ansible.errors import ModakError
from modak_ansible.target.core.site import Site
from modak_ansible.target.images.mirror import require_release


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A mirror on this machine that has trixie, and an older way of signing for bookworm."""
    for name in ("trixie/InRelease", "bookworm/Release"):
        (tmp_path / "debian" / "dists" / name).parent.mkdir(parents=True)
        (tmp_path / "debian" / "dists" / name).write_text("Suite: stable\n")

    class Handler(http.server.SimpleHTTPRequestHandler):
        refused = False

        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(tmp_path))

        def do_GET(self):
            if Handler.refused:
                self.send_error(403)
            else:
                super().do_GET()

        def log_message(self, *arguments):
            """Says nothing."""

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with answering(Handler) as server:
        yield f"http://127.0.0.1:{server.server_port}/debian", Handler


def definition(address, suite):
    return f"Bootstrap: debootstrap\nOSVersion: {suite}\nMirrorURL: {address}/\nInclude: python3\n"


@pytest.mark.parametrize("suite", ["trixie", "bookworm"])
def test_a_release_that_is_there(mirror, suite):
    require_release(definition(mirror[0], suite), "a-base", Site())


def test_a_release_that_left_the_mirror(mirror):
    with pytest.raises(ModakError, match="has no bullseye, which the base old-base is made of") as caught:
        require_release(definition(mirror[0], "bullseye"), "old-base", Site())
    assert "apt_mirror" in caught.value.hint


def test_a_mirror_that_cannot_be_asked_stops_nothing(mirror):
    require_release(definition("http://127.0.0.1:9/debian", "bullseye"), "old-base", Site())
    mirror[1].refused = True
    require_release(definition(mirror[0], "bullseye"), "old-base", Site())
    require_release("Bootstrap: docker\nFrom: debian:13\n", "old-base", Site())
