"""A program that takes Apptainer's place, and stores of images that are built by it."""

from __future__ import annotations

import os
import time

import pytest

from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.images import image as image_module
from modak_ansible.target.images import probe as image_probe
from modak_ansible.target.images import runtimes
from modak_ansible.target.images.image import ImageStore

APPTAINER = """#!/bin/bash
# takes Apptainer's place: notes what it is asked, and makes a file where an image would be
case "$1" in
    --version) echo "apptainer version 1.4.5" ;;
    pull) [ "$2" != --disable-cache ] || shift; echo "pull $3" >> "$CALLS"; sleep "${PAUSE:-0}"; echo pulled > "$2" ;;
    build)
        [ "$2" = --help ] && { echo "  -B, --bind stringArray"; echo "  -T, --notest"
                             echo "      --disable-cache"; echo "      --mksquashfs-args string"; exit 0; }
        echo "$*" >> "$CALLS.options"
        image=${@: -2:1} definition=${@: -1}
        echo "build $(grep -m 1 '^From\\|^OSVersion' "$definition")" >> "$CALLS"
        cp "$definition" "$CALLS.$(grep -c . "$CALLS").def"
        sleep "${PAUSE:-0}"
        echo part > "$image"
        [ -n "${BREAK:-}" ] && { echo "FATAL: $BREAK" >&2; exit 255; }
        cat "$definition" > "$image" ;;
    test | exec)
        echo "$*" >> "$CALLS.probes"
        [ -z "${SAYS:-}" ] || grep -q "OSVersion" "${@: -1}" || { cat "$SAYS"; exit "$CODE"; } ;;
esac
"""


def put_in_place(programs, tmp_path, monkeypatch):
    """Has stores find some programs before any other, and ask the machine and registries nothing."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for program, text in programs.items():
        (folder / program).write_text(text)
        (folder / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setattr(image_module, "NEEDED_BYTES", 0)
    monkeypatch.setattr(runtimes, "NEEDED_BYTES", 0)
    monkeypatch.setattr(image_module, "check_fakeroot", lambda: None)
    monkeypatch.setattr(image_module, "require_release", lambda *arguments: None)
    monkeypatch.setattr(image_module, "require_keyring", lambda mirror: None)
    monkeypatch.setattr(image_probe, "_devices", list)
    monkeypatch.setattr(image_module, "digest_of_tag", lambda *_: "")


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    programs = {"apptainer": APPTAINER, "debootstrap": "#!/bin/sh\n", "mksquashfs": "#!/bin/sh\necho zstd >&2\n"}
    put_in_place(programs, tmp_path, monkeypatch)
    return tmp_path


def layer(digest, definition, kind="build", **more):
    return {"name": digest, "kind": kind, "digest": digest, "definition": definition, "path": f"images/{digest}.sif",
            "source": "", "checksum": "", **more}  # fmt: skip


BASE = layer("base", "Bootstrap: debootstrap\nOSVersion: bookworm\nMirrorURL: {{ apt_mirror }}\n")
TOP = layer("top", "Bootstrap: localimage\nFrom: {{ base }}\n%labels\n d {{ definition_digest }} {{ build_date }}\n")
OTHER = layer("other", "Bootstrap: localimage\nFrom: {{ base }}\n%post\n true\n")


def store_of(runtime, *layers, **more):
    image = {"digest": layers[-1]["digest"], "layers": list(layers), "container_runtime": "any", **more}
    return ImageStore(Workspace(str(runtime / "w")), image, {"apt_mirror": "http://mirror.example/debian/"})


def make(store):
    store._workspace.create()
    store.check()
    assert store.start()
    return wait(store)


def wait(store):
    deadline = time.monotonic() + 20
    while store.activity.is_alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    return store.activity.status()


def calls(runtime):
    return (runtime / "calls").read_text().splitlines()
