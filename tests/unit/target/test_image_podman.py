"""Images that Podman makes: the same layers, stored as archives, by a program that takes Podman's place."""

from __future__ import annotations

import io
import json
import tarfile

import pytest
from image_builds import layer, make, put_in_place, wait

from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.images.image import ImageStore
from modak_ansible.target.images.publishing import PublishedImage
from modak_ansible.target.images.runtimes import forget_stored, runtime_of

PODMAN = """#!/bin/bash
echo "$*" >> "$CALLS"
case "$1" in
    build) folder=${@: -1}
        grep -q '^FROM scratch' "$folder/Containerfile" && [ ! -e "$folder/rootfs.tar" ] && exit 1
        cp "$folder/Containerfile" "$CALLS.$(grep -c ^build "$CALLS").txt" ;;
    save) [ "$2" != --quiet ] || echo "an image" > "$4" ;;
    load) echo "Loaded image: localhost/modak:$(basename "$(dirname "$4")" .part | tr -d .)" ;;
    image) [ "$2" != exists ] || { echo "$3" | grep -qf "$CALLS.known"; exit; }
        echo '{"modak.definition-digest": "base"}' ;;
    push) [[ $3 != docker-archive:* ]] || { echo "Error: unsupported transport \\"docker-archive\\"" >&2; exit 125; } ;;
    run) [ -z "${BREAK:-}" ] || { echo "ImportError: $BREAK"; exit 1; } ;;
esac
exit 0
"""
# Debian's calls a shell that knows no file descriptor beyond 9, which locks may be.
MMDEBSTRAP = """#!/bin/bash
for each in /proc/$$/fd/*; do [ "${each##*/}" -le 9 ] || [ "${each##*/}" = 255 ] || { echo "E: ${each##*/}"; exit 25; }; done
echo "$*" >> "$CALLS"
touch rootfs.tar
"""
ROOTFS = (
    "# mmdebstrap --mode=unshare --include=a,b trixie rootfs.tar {{ apt_mirror }}\nFROM scratch\nADD rootfs.tar /\n"
)


def archive(digest, definition, kind="build", **more):
    return layer(digest, definition, kind, path=f"images/{digest}.tar", **more)


BASE = archive("base", ROOTFS, probe=["python3", "-c", "import ssl"])
TOP = archive("top", 'FROM {{ base }}\nLABEL d="{{ definition_digest }}"\n', probe=["python3", "-c", "import torch"])


@pytest.fixture
def store_of(tmp_path, monkeypatch):
    put_in_place({"podman": PODMAN, "mmdebstrap": MMDEBSTRAP}, tmp_path, monkeypatch)

    def made(*layers, kind=ImageStore, workspace="w", **site):
        image = {"digest": layers[-1]["digest"], "layers": list(layers), "container_runtime": "podman"}
        given = {"apt_mirror": "http://mirror.example/debian/", **site}
        return kind(Workspace(str(tmp_path / workspace)), image, given)

    return made


def calls(tmp_path):
    return (tmp_path / "calls").read_text().splitlines()


@pytest.mark.component
def test_layers_stand_on_each_other_and_lie_in_the_workspace(store_of, tmp_path):
    store = store_of(BASE, TOP)
    assert make(store)["state"] == "done", (tmp_path / "w/images/top.log").read_text()
    assert store_of(BASE, TOP).missing() == []
    images = tmp_path / "w" / "images"
    assert {path.name for path in images.glob("*.tar")} == {"base.tar", "top.tar"}
    assert f"FROM docker-archive:{images}/base.tar\n" in (tmp_path / "calls.2.txt").read_text()
    assert 'd="top"' in (tmp_path / "calls.2.txt").read_text()
    said = calls(tmp_path)
    assert said[0] == "--mode=unshare --include=a,b trixie rootfs.tar http://mirror.example/debian/"
    builds = [line for line in said if line.startswith("build ")]
    assert all("--isolation chroot" in line and ":/.modak-site:ro" in line for line in builds)
    assert [line.rpartition("localhost/modak:")[2] for line in said if line.startswith("run ")] == [
        "base python3 -c import ssl", "top python3 -c import torch",
    ]  # fmt: skip


@pytest.mark.component
def test_what_its_probe_refuses_is_no_image(store_of, tmp_path, monkeypatch):
    monkeypatch.setenv("BREAK", "no AVX here")
    store = store_of(BASE)
    assert make(store)["state"] == "failed"
    assert not list((tmp_path / "w" / "images").glob("*.tar"))
    assert "no AVX here" in store_of(BASE).refusal()["refused"]


@pytest.mark.component
def test_an_image_of_a_hub_is_pulled_named_and_stored(store_of, tmp_path):
    store = store_of(archive("hub", "Bootstrap: docker\nFrom: a/b:1\n", "pull", source="docker://a/b:1"))
    assert make(store)["state"] == "done"
    assert [line.split()[0] for line in calls(tmp_path)] == ["pull", "tag", "save"]
    assert calls(tmp_path)[1] == "tag a/b:1 localhost/modak:hub"


@pytest.mark.component
def test_what_was_pushed_is_pulled_elsewhere_under_the_digest_of_what_it_is_made_from(store_of, tmp_path):
    place = "docker://registry.example/team/images"
    make(store_of(BASE))
    publisher = store_of(BASE, kind=PublishedImage)
    assert publisher.start_push(place, ["pytorch-2.13-x86_64-cpu"])
    done = wait(publisher)
    assert done["state"] == "done", done
    assert done["told"] == [f"{place}:base", f"{place}:pytorch-2.13-x86_64-cpu"]
    pushed = [line for line in calls(tmp_path) if line.startswith("push ")]
    # what the program in Podman's place calls an archive is its folder's name
    assert pushed[0] == f"push --quiet localhost/modak:images {place}:base"
    before = len(calls(tmp_path))
    elsewhere = store_of(BASE, workspace="other", image_sources=[place])
    assert make(elsewhere)["told"] == [f"base was found in {place}"]
    asked = calls(tmp_path)[before:]
    assert f"pull {place}:base" in asked
    assert not [line for line in asked if line.startswith("build ")]


@pytest.mark.component
def test_a_registry_of_apptainers_files_is_told_and_left_alone(store_of):
    store = store_of(BASE, image_sources=["oras://registry.example/team/images"])
    assert make(store)["told"] == [
        "base is not taken from oras://registry.example/team/images: podman cannot make or run images of "
        "oras://registry.example/team/images"
    ]


@pytest.mark.component
def test_what_an_engine_keeps_of_an_image_goes_with_its_archive(store_of, tmp_path):
    assert runtime_of(str(tmp_path / "bin" / "podman")).labels(tmp_path / "x.tar") == {
        "modak.definition-digest": "base"
    }
    forget_stored(tmp_path / "abc.tar")
    forget_stored(tmp_path / "abc.sif")
    assert [line for line in calls(tmp_path) if line.startswith("rmi")] == ["rmi --ignore localhost/modak:abc"]


@pytest.mark.component
@pytest.mark.parametrize("named", ["{}.json", "blobs/sha256/{}"])
def test_what_an_engine_has_of_an_archive_it_is_not_given_again(store_of, tmp_path, named):
    """Loading reads gigabytes; an archive tells the digest that its image has in every store."""
    digest, told = "ab" * 32, io.BytesIO()
    manifest = json.dumps([{"Config": named.format(digest)}]).encode()
    with tarfile.open(fileobj=told, mode="w") as archive:
        entry = tarfile.TarInfo("manifest.json")
        entry.size = len(manifest)
        archive.addfile(entry, io.BytesIO(manifest))
    (tmp_path / "x.tar").write_bytes(told.getvalue())
    podman = runtime_of(str(tmp_path / "bin" / "podman"))
    (tmp_path / "calls.known").write_text("none\n")
    assert podman.start(tmp_path / "x.tar", ["true"], [])[-2:] == ["localhost/modak:" + tmp_path.name, "true"]
    (tmp_path / "calls.known").write_text(digest + "\n")
    assert podman.start(tmp_path / "x.tar", ["true"], [])[-2:] == [digest, "true"]
    assert [line.split()[0] for line in calls(tmp_path)] == ["image", "load", "image"]


@pytest.mark.component
def test_words_of_a_program_are_none_of_podman_hpcs(tmp_path):
    words = runtime_of("/usr/bin/podman-hpc").start(tmp_path / "x.tar", ["python", "--gpu"], ["nvidia", "amd"])
    assert words[-5:] == ["--gpu", "--", "localhost/modak:none", "python", "--gpu"]
