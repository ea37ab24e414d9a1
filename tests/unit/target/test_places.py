"""Images of others: found by digest before anything is built, and what keeps one from being taken."""

from __future__ import annotations

import pytest
from image_builds import BASE, TOP, calls, layer, make, runtime, store_of, wait

from modak_ansible.errors import ModakError
from modak_ansible.target.images.image import ImageStore
from modak_ansible.target.images.logins import refused_image
from modak_ansible.target.images.publishing import PublishedImage

__all__ = ["runtime"]

# What takes Apptainer's place has a registry of its own: a folder, with a file for each tag.
REGISTRY = """#!/bin/bash
there="$REGISTRY/${3##*:}"
case "$1" in
    pull)
        if [ -n "$REFUSES" ]; then
            echo "FATAL:   While pulling image: failed to get checksum for $4: $REFUSES" >&2; exit 255
        fi
        cp "$REGISTRY/${4##*:}" "$3" 2> /dev/null || {
            echo "FATAL:   While pulling image: $4: GET https://x/v2/: MANIFEST_UNKNOWN: manifest unknown" >&2; exit 255; }
        echo "pull $4" >> "$CALLS" ;;
    push) cp "$3" "$REGISTRY/${4##*:}"; echo "push $4 ${APPTAINER_DOCKER_USERNAME}" >> "$CALLS" ;;
    inspect)
        digest=$(sed -n 's/^ d \\([a-z]*\\) .*/\\1/p' "$4")
        echo "{\\"data\\": {\\"attributes\\": {\\"labels\\": {\\"modak.definition-digest\\": \\"$digest\\"}}}}" ;;
    sign) [ "$2" = --help ] && { echo "  --key string"; exit 0; }; cat "$3.pub" >> "$4" ;;
    verify) grep -q -f "$3" "$4" || { echo "FATAL: no signature found" >&2; exit 255; } ;;
    *) exec "$(dirname "$0")/other" "$@" ;;
esac
"""
PLACE = "oras://registry.example/team/images"
LOGINS = {"logins": [{"registry": "registry.example", "username": "alice", "password": "secret"}]}


@pytest.fixture
def registry(runtime, monkeypatch):
    program = runtime / "bin" / "apptainer"
    program.rename(runtime / "bin" / "other")
    program.write_text(REGISTRY)
    program.chmod(0o755)
    folder = runtime / "registry"
    folder.mkdir()
    monkeypatch.setenv("REGISTRY", str(folder))
    monkeypatch.setenv("REFUSES", "")
    (runtime / "calls").touch()
    return folder


def from_places(runtime, *places, kind=ImageStore, workspace="w", layers=(BASE, TOP), **site):
    store = store_of(runtime, *layers)
    given = {"apt_mirror": "http://mirror.example/debian/", "image_sources": list(places), **site}
    store._workspace.root = runtime / workspace
    return kind(type(store._workspace)(str(runtime / workspace)), store._image, given, LOGINS)


def push(runtime, place, **more):
    make(store_of(runtime, BASE, TOP))
    store = from_places(runtime, kind=PublishedImage, **more)
    assert store.start_push(place, ["pytorch-2.13-x86_64-cpu"])
    status = wait(store)
    assert status["state"] == "done", status
    return status["told"]


@pytest.mark.component
@pytest.mark.parametrize("place", [PLACE, "shared", "$SHARED", "w"])
def test_an_image_that_somebody_pushed_is_found_and_nothing_is_built(runtime, registry, place, monkeypatch):
    monkeypatch.setenv("SHARED", str(runtime / "shared"))
    place = place if "://" in place or place.startswith("$") else str(runtime / place)
    if place.endswith("/w"):  # another workspace, as it is
        make(store_of(runtime, BASE, TOP))
    else:
        names = push(runtime, place)
        assert names[0].endswith(("/top.sif", ":top"))
        assert place == PLACE or names[0] == f"{runtime}/shared/top.sif"
    before = len(calls(runtime))
    store = from_places(runtime, "oras://registry.example/none" if place != PLACE else place, place, workspace="other")
    status = make(store)
    assert status["state"] == "done"
    assert not [line for line in calls(runtime)[before:] if line.startswith("build")]
    assert store.missing() == []
    assert store.describe()["found"] == place
    assert f"top was found in {place}" in status["told"]
    assert not (runtime / "other" / "images" / "base.sif").exists(), "what lies below is not needed"


@pytest.mark.component
def test_a_login_reaches_the_registry_that_it_is_for_and_both_tags_are_set(runtime, registry):
    assert push(runtime, PLACE) == [f"{PLACE}:top", f"{PLACE}:pytorch-2.13-x86_64-cpu"]
    assert calls(runtime)[-2:] == [f"push {PLACE}:top alice", f"push {PLACE}:pytorch-2.13-x86_64-cpu alice"]
    assert push(runtime, "oras://other.example/images")
    assert calls(runtime)[-1].endswith("cpu ")


def built_though(runtime, reason, *places, **site):
    store = from_places(runtime, *places, workspace="other", **site)
    status = make(store)
    assert status["state"] == "done", status
    (told,) = status["told"]
    assert told.startswith(f"top is not taken from {places[0]}: ")
    assert reason in told
    assert store.missing() == []
    assert "found" not in store.describe()
    assert [line.split()[0] for line in calls(runtime)][-2:] == ["build", "build"]


@pytest.mark.component
@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ('Get "https://x/v2/": dial tcp: connection refused', "cannot be reached from the target"),
        ("unexpected status code 401 Unauthorized", "wants a login for"),
        ("tls: failed to verify certificate: x509: unknown authority", "is not trusted on the target"),
        ("", "has no image"),
    ],
)
def test_a_registry_that_has_none_or_cannot_be_asked_is_told_and_the_image_is_built(
    runtime, registry, monkeypatch, says, reason
):
    monkeypatch.setenv("REFUSES", says)
    built_though(runtime, reason, PLACE)


@pytest.mark.component
def test_an_image_of_another_definition_is_not_taken(runtime, registry):
    push(runtime, PLACE)
    (registry / "top").write_text("%labels\n d another 20\n")
    built_though(runtime, "was made from another, where top is wanted", PLACE)
    (registry / "top").write_text("nothing")
    (runtime / "other" / "images" / "top.sif").unlink()
    (runtime / "other" / "images" / "base.sif").unlink()
    built_though(runtime, "does not say what it was made from", PLACE)


@pytest.mark.component
def test_a_file_that_was_cut_or_may_not_be_read_is_not_taken(runtime, registry):
    shared = runtime / "shared"
    push(runtime, str(shared))
    (shared / "top.sif").write_text((shared / "top.sif").read_text() + "x")
    built_though(runtime, "has the SHA-256 ", str(shared))
    assert not list(shared.glob(".*"))


@pytest.mark.component
def test_a_folder_that_is_not_there_is_told(runtime, registry):
    built_though(runtime, "is not a folder on the target", str(runtime / "none"))


@pytest.mark.component
def test_only_images_of_a_signer_are_taken_where_one_is_named(runtime, registry):
    for name in ("mine", "yours"):
        (runtime / name).touch(mode=0o600)
        (runtime / f"{name}.pub").write_text(f"signature of {name}\n")
    push(runtime, PLACE)
    public = str(runtime / "mine.pub")
    built_though(runtime, f"is not signed with {public}", PLACE, image_signer=public)

    signing = from_places(runtime, kind=PublishedImage)
    with pytest.raises(ModakError, match="is not signed with"):
        signing.verify(public)
    assert signing.sign(str(runtime / "mine"))
    assert not signing.sign(str(runtime / "mine")), "it has that signature"
    signing.verify(public)
    assert signing.missing() == [], "it is sealed anew"
    push(runtime, PLACE)
    store = from_places(runtime, PLACE, workspace="third", image_signer=public)
    assert make(store)["state"] == "done"
    assert store.describe()["found"] == PLACE
    # who signs what it runs trusts no other, unless it says so
    built = from_places(runtime, PLACE, workspace="fourth", signing_key=str(runtime / "yours"))
    assert "is not signed with" in make(built)["told"][0]


@pytest.mark.component
def test_what_is_only_to_be_found_is_not_built(runtime, registry):
    store = from_places(runtime, PLACE, workspace="other")
    store._workspace.create()
    store.check()
    assert store.start(found_only=True)
    status = wait(store)
    assert status["state"] == "failed"
    assert status["message"].startswith("no image of top is available: top is not taken from oras://")
    assert calls(runtime) == []


@pytest.mark.component
def test_who_may_not_build_takes_what_is_there_and_learns_why_nothing_else_is(runtime, registry, monkeypatch):
    from modak_ansible.target.images import image as image_module

    push(runtime, PLACE)

    def refuse():
        raise ModakError("alice has no range in /etc/subuid", hint="ask the administrator")

    monkeypatch.setattr(image_module, "check_fakeroot", refuse)
    assert make(from_places(runtime, PLACE, workspace="other"))["state"] == "done"
    (registry / "top").unlink()
    status = make(from_places(runtime, PLACE, workspace="third"))
    assert (status["state"], status["message"]) == ("failed", "alice has no range in /etc/subuid")
    with pytest.raises(ModakError, match="no range in /etc/subuid"):
        from_places(runtime, workspace="fourth").check()


@pytest.mark.component
def test_what_is_not_there_or_was_never_built_is_not_pushed(runtime, registry):
    with pytest.raises(ModakError, match="the image of top is not on the target"):
        from_places(runtime, kind=PublishedImage).start_push(PLACE, [])
    given = layer("hub", "", kind="pull", source="docker://acme/torch:1")
    with pytest.raises(ModakError, match="is docker://acme/torch:1, not an image that is built"):
        from_places(runtime, kind=PublishedImage, layers=(given,)).start_push(PLACE, [])


@pytest.mark.component
def test_a_folder_that_nobody_may_write_into_is_told(runtime, registry):
    make(store_of(runtime, BASE, TOP))
    (runtime / "file").touch()
    store = from_places(runtime, kind=PublishedImage)
    store.start_push(str(runtime / "file" / "below"), [])
    assert "cannot be written" in wait(store)["message"]


def test_what_a_push_is_refused_with_is_about_its_address():
    line = (
        "FATAL:   Unable to push image to oci registry: HEAD https://r.example/v2/team/images/manifests/a: "
        "unexpected status code 401 Unauthorized (HEAD responses have no body, use GET for details)"
    )
    error = refused_image([line], "oras://r.example/team/images:a")
    assert error.message.startswith("r.example wants a login for oras://r.example/team/images:a, or refuses the one")
    assert refused_image([line]) is None
