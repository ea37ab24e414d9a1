"""Where images unpack while they are made, and with what around them: room, a cache, modules of the user's own."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest
from image_builds import BASE, TOP, layer, make, put_in_place, runtime, store_of

from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.images import runtimes
from modak_ansible.target.images.image import ImageStore
from modak_ansible.target.images.runtimes import ACCELERATED_BYTES, NEEDED_BYTES, build_folder, room_needed

__all__ = ["runtime"]

HUB = layer("hub", "", kind="pull", source="docker://acme/torch:1", probe=["python3", "-c", "import torch"])


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files with 10 GB, and a place to say how it is mounted."""
    for name in ("APPTAINER_TMPDIR", "SINGULARITY_TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "tmp").mkdir()
    known, mounted = os.statvfs(tmp_path), SimpleNamespace(f_flag=0)
    for name in ("f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail"):
        setattr(mounted, name, getattr(known, name))
    monkeypatch.setattr(runtimes.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    monkeypatch.setattr(runtimes.os, "statvfs", lambda _: mounted)
    monkeypatch.setattr(runtimes, "free_bytes", lambda _: 10**10)
    return mounted


def test_images_unpack_where_there_is_room_and_programs_run(temporary, tmp_path):
    assert build_folder(tmp_path / "w") == tmp_path / "tmp"
    assert build_folder(tmp_path / "w", ACCELERATED_BYTES) == tmp_path / "w"
    temporary.f_flag = os.ST_NOEXEC
    assert build_folder(tmp_path / "w") == tmp_path / "w"


def test_images_unpack_where_the_user_says(temporary, tmp_path, monkeypatch):
    monkeypatch.setenv("SINGULARITY_TMPDIR", "/somewhere")
    assert str(build_folder(tmp_path)) == "/somewhere"


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({"definition": "    'nvidia-cublas-cu12==12.9.3.13 --hash=sha256:0'"}, ACCELERATED_BYTES),
        ({"source": "docker://rocm/pytorch:rocm7.2.4"}, ACCELERATED_BYTES),
        ({"source": "docker://tensorflow/tensorflow:2.1.0-gpu-py3"}, ACCELERATED_BYTES),
        ({"source": "docker://nvcr.io/nvidia/pytorch:25.01-py3"}, ACCELERATED_BYTES),
        ({"source": "docker://tensorflow/tensorflow:2.1.0-py3"}, NEEDED_BYTES),
        ({"definition": "os.path.exists('/proc/driver/nvidia/version')"}, NEEDED_BYTES),
    ],
)
def test_the_libraries_of_an_accelerator_need_more_room(changes, needed):
    assert room_needed([{**HUB, "source": "", **changes}, TOP]) == needed


@pytest.mark.component
def test_a_pull_works_where_a_build_does(runtime, temporary, monkeypatch):
    program = runtime / "bin" / "apptainer"
    told = 'echo "$APPTAINER_TMPDIR $*" >> "$CALLS.told"; '
    program.write_text(program.read_text().replace("pull) ", f"pull) {told}"))
    temporary.f_flag = os.ST_NOEXEC
    assert make(store_of(runtime, HUB))["state"] == "done"
    scratch = runtime / "w" / "images" / ".hub.part"
    told = f"{scratch} pull {scratch}/image.sif docker://acme/torch:1"
    assert (runtime / "calls.told").read_text() == f"{told}\n"


@pytest.mark.component
def test_enroot_unpacks_in_the_workspace(tmp_path, monkeypatch):
    enroot = '#!/bin/sh\n[ "$1" != import ] || echo "$ENROOT_TEMP_PATH" > "$3"\n'
    put_in_place({"enroot": enroot}, tmp_path, monkeypatch)
    whole = {"digest": "hub", "layers": [HUB], "container_runtime": "enroot"}
    assert make(ImageStore(Workspace(str(tmp_path / "w")), whole, {}))["state"] == "done"
    images = tmp_path / "w" / "images"
    assert (images / "hub.sif").read_text() == f"{images / '.hub.part'}\n"


@pytest.mark.component
def test_a_build_fills_no_cache(runtime):
    make(store_of(runtime, BASE))
    assert " --disable-cache " in (runtime / "calls.options").read_text()


@pytest.mark.component
def test_probes_see_no_modules_of_the_user_s_own(runtime, monkeypatch):
    program = runtime / "bin" / "apptainer"
    program.write_text(program.read_text().replace("exec)", 'exec) env > "$CALLS.env";'))
    monkeypatch.setenv("PYTHONPATH", "/home/alice/modules")
    monkeypatch.setenv("PYTHONHOME", "/home/alice/python")
    assert make(store_of(runtime, HUB))["state"] == "done"
    meant = ("PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE")
    seen = [line for line in (runtime / "calls.env").read_text().splitlines() if line.startswith(meant)]
    assert seen == ["PYTHONNOUSERSITE=1"]


@pytest.mark.component
def test_an_environment_is_made_without_modules_of_the_user_s_own(runtime, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/home/alice/modules")
    script = f'mkdir -p "$1"; {sys.executable} -c "import sys; print(sys.path, sys.flags.no_user_site)" > "$1/seen"\n'
    venv = layer("env", script, kind="venv", path="images/env.venv")
    assert make(store_of(runtime, venv, container_runtime="none"))["state"] == "done"
    seen = (runtime / "w" / "images" / "env.venv" / "seen").read_text()
    assert "/home/alice" not in seen
    assert seen.endswith(" 1\n")
