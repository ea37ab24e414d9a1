"""Images that Charliecloud makes: the same layers, stored as squashfs files, by programs that take its builders' place."""

from __future__ import annotations

import pytest
from image_builds import layer, make, put_in_place

from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.images.image import ImageStore
from modak_ansible.target.images.runtimes import runtime_of

# An image is a folder in the storage, and as a file the list of the steps that made it.
CH_IMAGE = """#!/bin/bash
echo "ch-image $*" >> "$CALLS"
storage=$CH_IMAGE_STORAGE
case "$1" in
    import) [ -e "$2" ] && mkdir -p "$storage" && echo "rootfs" > "$storage/$3" ;;
    pull) mkdir -p "$storage" && echo "$2" > "$storage/${3//\\//%}" ;;
    build) while [ $# -gt 1 ]; do [ "$1" != --tag ] || name=$2; [ "$1" != --file ] || file=$2; shift; done
        below=$(sed -n 's/^FROM //p' "$file")
        cat "$storage/$below" "$file" > "$storage/${name//\\//%}" ;;
esac
"""
CH_CONVERT = """#!/bin/bash
echo "ch-convert $*" >> "$CALLS"
storage=$CH_IMAGE_STORAGE
mkdir -p "$storage"
case "$4 $6" in
    "squash ch-image") cp "$7" "$storage/${8//\\//%}" ;;
    "ch-image squash") cp "$storage/${7//\\//%}" "$8" ;;
esac
"""
CH_RUN = """#!/bin/bash
echo "ch-run $*" >> "$CALLS"
[ "${@: -1}" != /ch/metadata.json ] || { echo '{"labels": {"modak.definition-digest": "base"}}'; exit; }
[ -z "${BREAK:-}" ] || { echo "ImportError: $BREAK"; exit 1; }
"""
MMDEBSTRAP = """#!/bin/bash
echo "mmdebstrap $*" >> "$CALLS"
touch rootfs.tar
"""
ROOTFS = "# mmdebstrap --mode=unshare trixie rootfs.tar {{ apt_mirror }}\nFROM scratch\nADD rootfs.tar /\n\nRUN venv\n"


def image(digest, definition, kind="build", **more):
    return layer(digest, definition, kind, path=f"images/{digest}.sqfs", **more)


BASE = image("base", ROOTFS, probe=["python3", "-c", "import ssl"])
TOP = image("top", 'FROM {{ base }}\n\nLABEL d="{{ definition_digest }}"\n', probe=["python3", "-c", "import torch"])
HUB = image("hub", "FROM debian@sha256:abc\n\nRUN venv\n", probe=["true"])


@pytest.fixture
def store_of(tmp_path, monkeypatch):
    programs = {"ch-image": CH_IMAGE, "ch-convert": CH_CONVERT, "ch-run": CH_RUN, "mmdebstrap": MMDEBSTRAP}
    put_in_place(programs, tmp_path, monkeypatch)

    def made(*layers):
        whole = {"digest": layers[-1]["digest"], "layers": list(layers), "container_runtime": "charliecloud"}
        return ImageStore(Workspace(str(tmp_path / "w")), whole, {"apt_mirror": "http://mirror.example/debian/"})

    return made


def calls(tmp_path):
    return (tmp_path / "calls").read_text().splitlines()


@pytest.mark.component
def test_layers_stand_on_each_other_and_lie_in_the_workspace(store_of, tmp_path):
    store = store_of(BASE, TOP)
    assert make(store)["state"] == "done", (tmp_path / "w/images/top.log").read_text()
    assert store_of(BASE, TOP).missing() == []
    images = tmp_path / "w" / "images"
    assert {path.name for path in images.iterdir() if path.name.startswith(("base.", "top.", ".top."))} >= {
        "base.sqfs", "top.sqfs",
    }  # fmt: skip
    assert not list(images.glob(".*.part")), "a build's storage goes with its folder"
    assert (images / "top.sqfs").read_text() == (
        "rootfs\n# mmdebstrap --mode=unshare trixie rootfs.tar http://mirror.example/debian/\nFROM modak-below\n\nRUN venv\n"
        'FROM modak-below\n\nLABEL d="top"\n'
    )
    said = calls(tmp_path)
    assert said[0] == "mmdebstrap --mode=unshare trixie rootfs.tar http://mirror.example/debian/"
    build = next(line for line in said if line.startswith("ch-image build"))
    assert f"--bind {images}/.base.part/site:/.modak-site " in build
    assert ":ro" not in build, "ch-run binds nothing read-only"
    assert [line.partition(" -- ")[2] for line in said if line.startswith("ch-run")] == [
        "python3 -c import ssl", "python3 -c import torch",
    ]  # fmt: skip


@pytest.mark.component
def test_what_its_probe_refuses_is_no_image(store_of, tmp_path, monkeypatch):
    monkeypatch.setenv("BREAK", "no AVX here")
    store = store_of(BASE)
    assert make(store)["state"] == "failed"
    assert not list((tmp_path / "w" / "images").glob("*.sqfs"))
    assert "no AVX here" in store_of(BASE).refusal()["refused"]


@pytest.mark.component
def test_an_image_of_a_hub_is_pulled_and_stored(store_of, tmp_path):
    pulled = image("hub", "Bootstrap: docker\nFrom: a/b:1\n", "pull", source="docker://a/b:1")
    assert make(store_of(pulled))["state"] == "done"
    assert (tmp_path / "w" / "images" / "hub.sqfs").read_text() == "a/b:1\n"


@pytest.mark.component
def test_labels_are_in_the_image(store_of, tmp_path):
    known = runtime_of(str(tmp_path / "bin" / "ch-run")).labels(tmp_path / "x.sqfs")
    assert known == {"modak.definition-digest": "base"}


@pytest.mark.component
def test_a_base_of_a_hub_takes_no_ids_but_the_users_own(store_of, monkeypatch):
    asked = []
    monkeypatch.setattr("modak_ansible.target.images.image.check_fakeroot", lambda: asked.append(True))
    store_of(HUB).check()
    assert not asked
    store_of(BASE).check()
    assert asked, "mmdebstrap does"
