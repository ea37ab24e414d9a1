"""What programs print never holds a secret, wherever the stream is cut."""

from __future__ import annotations

import base64
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.target.images.logins import login_environment, refused_image, registry_of, registry_of_layer
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


def test_a_secret_is_hidden_as_the_user_has_quoted_it():
    """Tools print addresses as they are given: %2f is no other sign than %2F, and other bytes."""
    assert b"wo%2frd%21" in secret_words({"pip": {"index-url": "https://bob:wo%2frd%21@index.example/simple"}})


def test_an_address_that_is_none_is_hidden_whole():
    assert b"https://[bad:planted@h/s" in secret_words({"pip": {"index-url": "https://[bad:planted@h/s"}})


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


FAILED = "FATAL:   While making image from oci registry: error fetching image to cache: failed to get checksum for "


@pytest.mark.parametrize(
    ("line", "told", "hint"),
    [  # as Apptainer 1.4 says it
        (FAILED + "docker://r.example:5000/small:1: reading manifest 1 in r.example:5000/small: authentication required",
         "r.example:5000 wants a login for docker://r.example:5000/small:1", "MODAK_REGISTRY=r.example:5000"),
        (FAILED + 'docker://r.example/small:none: reading manifest none in r.example/small: StatusCode: 404, ""',
         "r.example has no image docker://r.example/small:none", "its tag"),
        (FAILED + "docker://acme/torch:9: reading manifest 9 in docker.io/acme/torch: manifest unknown",
         "docker.io has no image docker://acme/torch:9", "its tag"),
        (FAILED + "docker://acme/torch:9: reading manifest 9 in docker.io/acme/torch: errors: denied: requested access to "
         "the resource is denied", "docker.io wants a login for docker://acme/torch:9", "apptainer registry login"),
        (FAILED + "docker://debian:12: reading manifest 12 in docker.io/library/debian: toomanyrequests: You have reached your "
         "unauthenticated pull rate limit. https://www.docker.com/increase-rate-limit",
         "docker.io gives this machine's address no more images for some hours: ", "MODAK_REGISTRY=docker.io"),
        (FAILED + 'docker://r.example/a:1: pinging container registry r.example: Get "https://r.example/v2/": tls: failed '
         "to verify certificate: x509: certificate signed by unknown authority", "the certificate of r.example is not",
         "certificate_bundle"),
        (FAILED + 'docker://r.example/a:1: pinging container registry r.example: Get "https://r.example/v2/": http: server '
         "gave HTTP response to HTTPS client", "r.example answers without TLS", "APPTAINER_NOHTTPS"),
        (FAILED + 'docker://small:1: pinging container registry registry-1.docker.io: Get "https://registry-1.docker.io/v2/":'
         " dial tcp: lookup registry-1.docker.io on 10.0.0.53:53: no such host", "docker.io cannot be reached from the target",
         "copy the .sif file"),
        ("FATAL:   While pulling image from oci registry: error fetching image to cache: failed to get checksum for oras://"
         "r.example/a:none: GET https://r.example/v2/a/manifests/none: unexpected status code 404 Not Found",
         "r.example has no image oras://r.example/a:none", "its tag"),
        # and of Debian's docker-registry
        ("FATAL:   While pulling image from oci registry: error fetching image to cache: failed to get checksum for oras://"
         "r.example:5057/a:2: GET http://r.example:5057/v2/a/manifests/2: MANIFEST_UNKNOWN: manifest unknown; map[Tag:2]",
         "r.example:5057 has no image oras://r.example:5057/a:2", "its tag"),
        ("FATAL:   While pulling image from oci registry: error fetching image to cache: failed to get checksum for oras://"
         "r.example:5057/a:1: invalid layer mediatype: application/vnd.docker.image.rootfs.diff.tar.gzip",
         "oras://r.example:5057/a:1 does not hold an image for Apptainer", "docker:// pulls"),
        (FAILED + "docker://r.example/team/Hello:1: unable to parse image name docker://r.example/team/Hello:1: invalid "
         "reference format: repository name must be lowercase", "docker://r.example/team/Hello:1 is not the name of an image",
         "small letters"),
        ("FATAL:   Unable to get library client configuration: remote has no library client (see https://apptainer.org/"
         "docs/user/latest/endpoint.html#no-default-remote)", "the target's runtime has no server", "apptainer remote add"),
    ],
)  # fmt: skip
def test_what_a_registry_refuses_is_told_with_what_to_do(line, told, hint):
    error = refused_image(["INFO:    Starting", line, "INFO:    Cleaning up"])
    assert error.message.startswith(told)
    assert hint in error.hint


def test_another_end_of_a_build_is_no_registrys():
    assert refused_image(["FATAL:   While performing build: while running engine: exit status 1"]) is None
    assert refused_image([FAILED + "docker://r.example/a:1: no space left on device"]) is None
    assert refused_image([]) is None
