"""What programs print never holds a secret, wherever the stream is cut."""

from __future__ import annotations

import base64
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modak_ansible.target.images.logins import login_environment, registry_of, registry_of_layer
from modak_ansible.target.images.secrets import Hider, secret_words

SECRETS = {
    "logins": [{"registry": "registry.example", "username": "alice", "password": "s3cr&t word"}],
    "pip": {
        "index-url": "https://bob:t0k%40n@index.example/simple",
        "extra-index-url": "https://onlytoken@x/ https://y/",
    },
}


def test_every_form_of_a_secret_is_known():
    words = secret_words(SECRETS)
    login = base64.b64encode(b"alice:s3cr&t word")
    assert set(words) == {b"s3cr&t word", b"s3cr%26t%20word", login, b"t0k@n", b"t0k%40n", b"onlytoken"}
    assert secret_words({}) == ()


@pytest.mark.parametrize(
    "address",
    [
        "https://t0k%40n-for-all:x-oauth-basic@index.example/simple", "https://index.example/simple?token=t0k%40n-for-all",
        "https://index.example/simple?a=1&private=t0k%40n-for-all#x", "https://:t0k%40n-for-all@index.example",
    ],
)  # fmt: skip
def test_a_token_may_stand_elsewhere_in_an_address(address):
    words = secret_words({"pip": {"index-url": address}})
    assert {b"t0k@n-for-all", b"t0k%40n-for-all"} <= set(words)
    assert b"1" not in words


def test_an_address_that_is_none_is_hidden_whole():
    assert b"https://[bad:planted@h/s" in secret_words({"pip": {"index-url": "https://[bad:planted@h/s"}})


@settings(max_examples=200)
@given(
    words=st.lists(st.binary(min_size=4, max_size=8), min_size=1, max_size=3),
    parts=st.lists(st.one_of(st.binary(max_size=6), st.integers(0, 2)), max_size=12),
    data=st.data(),
)
def test_no_cut_lets_a_word_through(words, parts, data):
    text = b"".join(words[part % len(words)] if isinstance(part, int) else part for part in parts)
    hider, shown, at = Hider(words), b"", 0
    while at < len(text):
        size = data.draw(st.integers(1, 7))
        shown += hider.passed(text[at : at + size])
        at += size
    shown += hider.rest()
    plain = shown.replace(b"********", b"\0")
    assert not any(word in plain for word in words if b"\0" not in word and b"*" not in word)


def test_nothing_else_is_lost():
    hider = Hider([b"secret"])
    assert hider.passed(b"a sec") == b"a "
    assert hider.passed(b"ond secretsec") == b"second ********"
    assert hider.rest() == b"sec"


@pytest.mark.component
def test_a_program_is_run_without_showing_its_secret():
    code = (
        "from modak_ansible.target.images.secrets import run_hiding; import sys\n"
        "sys.exit(run_hiding(['sh', '-c', 'echo \"$WORD is $WORD\"; echo \"$WORD\" >&2; exit 3'],\n"
        "                    {'WORD': 'planted', 'PATH': '/usr/bin:/bin'}, [b'planted']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (3, "******** is ********\n********\n", "")


def test_the_registry_of_an_address():
    assert registry_of("docker://debian:trixie") == "docker.io"
    assert registry_of("docker://team/image") == "docker.io"
    assert registry_of("docker://registry.example:5000/team/image@sha256:abc") == "registry.example:5000"
    assert registry_of("oras://localhost/image:1") == "localhost"
    assert registry_of("library://team/image") == ""
    assert registry_of("/images/mine.sif") == ""


def test_a_login_is_told_to_its_own_registry_alone():
    given_one = {"kind": "pull", "source": "docker://registry.example/a", "definition": ""}
    hub = {"kind": "build", "source": "", "definition": "BootStrap: docker\nFrom: debian:trixie-slim\n%post\n true\n"}
    own = {"kind": "build", "source": "", "definition": "BootStrap: docker\nFrom: registry.example/base:1\n"}
    top = {"kind": "build", "source": "", "definition": "BootStrap: localimage\nFrom: {{ base }}\n"}
    assert [registry_of_layer(each) for each in (hub, own, top)] == ["docker.io", "registry.example", ""]
    expected = {"APPTAINER_DOCKER_USERNAME": "alice", "APPTAINER_DOCKER_PASSWORD": "s3cr&t word"}
    expected |= {name.replace("APPTAINER", "SINGULARITY"): value for name, value in expected.items()}
    assert login_environment(given_one, SECRETS) == login_environment(own, SECRETS) == expected
    assert login_environment(hub, SECRETS) == login_environment(top, SECRETS) == login_environment(own, {}) == {}
