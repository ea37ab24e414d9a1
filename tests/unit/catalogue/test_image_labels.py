"""What is read of an image, by a program in Singularity's place that says what a real one was recorded saying."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modak_ansible.commands.catalogue.image import inspect_image
from modak_ansible.errors import ModakError

RECORDED = Path(__file__).parents[1] / "recorded" / "apptainer-1.4.5-inspect.json"
SINGULARITY = """#!/bin/sh
case "$1" in
    --version) echo "apptainer version 1.4.5" ;;
    *) {answer} ;;
esac
"""


@pytest.fixture
def image(tmp_path):
    made = tmp_path / "image.sif"
    made.write_bytes(b"SIF")
    return made


@pytest.fixture
def singularity(tmp_path, monkeypatch):
    def install(answer):
        program = tmp_path / "bin" / "singularity"
        program.parent.mkdir(exist_ok=True)
        program.write_text(SINGULARITY.format(answer=answer))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    return install


@pytest.mark.component
def test_an_image_of_ours(image, singularity):
    singularity(f"cat {RECORDED}")
    facts = inspect_image(image)
    assert set(facts.labels) == {
        "framework", "version", "compiler", "target", "definition-digest", "base-digest", "build-date", "licence"
    }  # fmt: skip
    assert facts.labels["version"] == "2.13.0"
    assert facts.definition.startswith("BootStrap: localimage\n")
    assert "import torch" in facts.test


@pytest.mark.component
def test_somebody_elses_image(image, singularity):
    singularity("""echo '{"data": {"attributes": {"labels": {"org.label": "x"}}}}'""")
    assert inspect_image(image).labels == {}
    singularity("""echo '{"data": {"attributes": {"runscript": "#!/bin/sh"}}}'""")  # what is empty is left out
    assert inspect_image(image).labels == {}


@pytest.mark.component
def test_what_is_no_image(image, singularity, tmp_path):
    singularity("echo 'FATAL: image format not recognized' >&2; exit 255")
    with pytest.raises(ModakError, match="image format not recognized"):
        inspect_image(image)
    with pytest.raises(ModakError, match="is not there"):
        inspect_image(tmp_path / "none.sif")


def test_without_singularity(image, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ModakError, match="singularity is not on this machine"):
        inspect_image(image)
