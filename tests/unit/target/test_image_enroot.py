"""Images that Enroot pulls: one squashfs file each, by a program that takes its place."""

from __future__ import annotations

import pytest
from image_builds import layer, make, put_in_place

from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.images.image import ImageStore

ENROOT = """#!/bin/bash
echo "enroot $*" >> "$CALLS"
case "$1" in
    import) echo "$4" > "$3" ;;
    start) [ -z "${BREAK:-}" ] || { echo "ImportError: $BREAK"; exit 1; } ;;
esac
"""


@pytest.fixture
def pulled(tmp_path, monkeypatch):
    put_in_place({"enroot": ENROOT}, tmp_path, monkeypatch)

    def made(source, runtime="enroot"):
        more = {"source": source, "path": "images/top.sqsh", "probe": ["python3", "-c", "import torch"]}
        whole = {"digest": "top", "layers": [layer("top", "From: x\n", "pull", **more)], "container_runtime": runtime}
        return make(ImageStore(Workspace(str(tmp_path / "w")), whole, {}))

    return made


@pytest.mark.component
@pytest.mark.parametrize("runtime", ["enroot", "pyxis"])
@pytest.mark.parametrize(
    ("source", "address"),
    [
        ("docker://registry.example/team/images:abc", "docker://registry.example#team/images:abc"),
        ("docker://localhost:5000/images:abc", "docker://localhost:5000#images:abc"),
        ("docker://pytorch/pytorch:2.5", "docker://pytorch/pytorch:2.5"),
        ("docker://debian", "docker://debian"),
    ],
)
def test_an_image_of_a_registry_is_pulled_by_the_address_that_enroot_wants(pulled, tmp_path, source, address, runtime):
    assert pulled(source, runtime)["state"] == "done"
    assert (tmp_path / "w" / "images" / "top.sqsh").read_text() == f"{address}\n"
    asked = [line for line in (tmp_path / "calls").read_text().splitlines() if line.startswith("enroot start")]
    assert [line.rpartition("image.sif ")[2] for line in asked] == ["python3 -c import torch"]


@pytest.mark.component
def test_what_its_probe_refuses_is_no_image(pulled, tmp_path, monkeypatch):
    monkeypatch.setenv("BREAK", "no AVX here")
    assert pulled("docker://a/b:1")["state"] == "failed"
    assert not list((tmp_path / "w" / "images").glob("*.sqsh"))
