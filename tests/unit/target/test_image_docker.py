"""Images that Docker makes: the same layers, stored as archives, by a program that takes Docker's place."""

from __future__ import annotations

import pytest
from image_builds import layer, make, put_in_place, wait

from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.images.image import ImageStore
from modak_ansible.target.images.publishing import PublishedImage
from modak_ansible.target.images.runtimes import forget_stored, runtime_of

# It knows no words of Podman's alone; an image that it does not know makes a build that names it fail.
DOCKER = """#!/bin/bash
echo "$*" >> "$CALLS"
fail() { echo "docker: $*" >&2; exit 1; }
case "$1" in
    build) while [ $# -gt 1 ]; do
            case "$1" in --file) file=$2 ;; --tag) tag=$2 ;; --isolation*|--volume*|--layers*|--format*) fail "unknown flag: $1" ;; esac
            shift
        done
        [ -n "$DOCKER_BUILDKIT" ] || fail "no BuildKit"
        below=$(sed -n 's/^FROM //p' "$file")
        [ "$below" = scratch ] || grep -qxF "$below" "$CALLS.store" || fail "pull access denied for $below"
        grep -q '^ADD rootfs.tar' "$file" && [ ! -e "$1/rootfs.tar" ] && fail "no rootfs.tar"
        cp "$file" "$CALLS.${tag##*:}.txt"
        echo "$tag" >> "$CALLS.store" ;;
    save) [ "$2" = --output ] && grep -qxF "$4" "$CALLS.store" && echo "$4" > "$3" ;;
    load) cat "$4" >> "$CALLS.store" && echo "Loaded image: $(cat "$4")" ;;
    pull) [ "${2#*://}" = "$2" ] || fail "invalid reference format"
        echo "$2" >> "$CALLS.store" ;;
    tag) grep -qxF "$2" "$CALLS.store" && echo "$3" >> "$CALLS.store" ;;
    push) grep -qxF "$3" "$CALLS.store" || fail "An image does not exist locally with the tag: $3" ;;
    image) [ "$2" = inspect ] || fail "'$2' is not a docker command"
        case "$3 $4" in
            "--format {{json .Config.Labels}}") echo "{\\"modak.definition-digest\\": \\"${5##*:}\\"}" ;;
            *) exit 1 ;;
        esac ;;
    run) [ -z "${BREAK:-}" ] || { echo "ImportError: $BREAK"; exit 1; } ;;
    rmi) [ "$2" != --ignore ] || fail "unknown flag: --ignore" ;;
esac
"""
MMDEBSTRAP = """#!/bin/bash
touch rootfs.tar
"""
ROOTFS = "# mmdebstrap --mode=unshare trixie rootfs.tar {{ apt_mirror }}\nFROM scratch\nADD rootfs.tar /\n\nRUN venv && \\\n    RUNS\n"


def archive(digest, definition, kind="build", **more):
    return layer(digest, definition, kind, path=f"images/{digest}.tar", **more)


BASE = archive("base", ROOTFS, probe=["python3", "-c", "import ssl"])
TOP = archive("top", "FROM {{ base }}\n\nRUN pip\nRUN rm\n", probe=["python3", "-c", "import torch"])


@pytest.fixture
def store_of(tmp_path, monkeypatch):
    put_in_place({"docker": DOCKER, "mmdebstrap": MMDEBSTRAP}, tmp_path, monkeypatch)
    (tmp_path / "calls.store").touch()
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")  # this machine's folders of packages are none of the test's

    def made(*layers, kind=ImageStore, **site):
        image = {"digest": layers[-1]["digest"], "layers": list(layers), "container_runtime": "docker", "entry": "top"}
        return kind(Workspace(str(tmp_path / "w")), image, {"apt_mirror": "http://mirror.example/debian/", **site})

    return made


def calls(tmp_path, word):
    return [line for line in (tmp_path / "calls").read_text().splitlines() if line.startswith(word)]


@pytest.mark.component
def test_layers_stand_on_each_other_and_lie_in_the_workspace(store_of, tmp_path):
    assert make(store_of(BASE, TOP))["state"] == "done", (tmp_path / "w/images/top.log").read_text()
    assert store_of(BASE, TOP).missing() == []
    images = tmp_path / "w" / "images"
    assert (images / "top.tar").read_text() == "localhost/modak:top\n"
    site = "--mount=type=bind,source=site,target=/.modak-site"
    written = (tmp_path / "calls.base.txt").read_text()
    assert f"RUN {site} venv && \\\n    RUNS\n" in written
    assert (tmp_path / "calls.top.txt").read_text() == f"FROM localhost/modak:base\n\nRUN {site} pip\nRUN {site} rm\n"
    assert f"load --quiet --input {images}/base.tar" in calls(tmp_path, "load")
    assert [line.partition(" -- ")[2].partition(" ")[2] for line in calls(tmp_path, "run")] == [
        "python3 -c import ssl", "python3 -c import torch",
    ]  # fmt: skip


@pytest.mark.component
def test_folders_of_the_sites_packages_are_mounted_in_each_step(store_of, tmp_path):
    (tmp_path / "wheels").mkdir()
    assert make(store_of(BASE, pip_find_links=[str(tmp_path / "wheels")]))["state"] == "done"
    (build,) = calls(tmp_path, "build")
    assert f"--build-context bound0={tmp_path}/wheels" in build
    assert "--mount=type=bind,from=bound0,target=/mnt/" in (tmp_path / "calls.base.txt").read_text()


@pytest.mark.component
def test_an_image_of_a_hub_is_pulled_and_stored(store_of, tmp_path):
    pulled = archive("hub", "FROM a/b:1\n", "pull", source="docker://a/b:1")
    assert make(store_of(pulled))["state"] == "done", (tmp_path / "w/images/hub.log").read_text()
    assert (tmp_path / "w" / "images" / "hub.tar").read_text() == "localhost/modak:hub\n"


@pytest.mark.component
def test_an_image_is_pushed_from_its_archive(store_of, tmp_path):
    assert make(store_of(BASE))["state"] == "done"
    store = store_of(BASE, kind=PublishedImage)
    assert store.start_push("docker://registry.example/team/images", ["python-3"])
    wait(store)
    assert calls(tmp_path, "push") == [
        "push --quiet registry.example/team/images:base", "push --quiet registry.example/team/images:python-3",
    ]  # fmt: skip


@pytest.mark.component
def test_what_the_engine_keeps_goes_with_an_archive(store_of, tmp_path):
    forget_stored(tmp_path / "w" / "images" / "top.tar")
    assert calls(tmp_path, "rmi") == ["rmi localhost/modak:top"]


@pytest.mark.component
def test_it_is_known_by_its_program(store_of, tmp_path):
    assert type(runtime_of(str(tmp_path / "bin" / "docker"))).__name__ == "Docker"
