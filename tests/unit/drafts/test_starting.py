"""Scripts that people start from their project's root, python src/train.py: a job starts where the script lies."""

from __future__ import annotations

import pytest
from script_files import written

from modak_ansible.reading.drafts.draft import draft_of

FLAGS = "import argparse, torch\np = argparse.ArgumentParser()\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project, where nothing is installed."""
    (tmp_path / "env" / "lib" / "python3.12" / "site-packages").mkdir(parents=True)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "env"))
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return tmp_path / "project"


def test_what_is_opened_and_lies_so_above_the_script_is_told_with_where(project):
    """People start python src/train.py where both lie."""
    written(project, src__train="import torch\nopen('conf/a.txt')\n")
    (project / "conf").mkdir()
    (project / "conf" / "a.txt").write_text("1\n")
    (note,) = draft_of(project / "src" / "train.py").notes
    start = 'import runpy, sys; sys.path.insert(0, "src"); runpy.run_path("src/train.py", run_name="__main__")'
    assert note == (
        "it opens conf/a.txt (train.py:2), which lies in ../conf/a.txt; a job starts where the script lies: give a "
        f"script that lies in {project} and starts it: {start}"
    )


def test_what_is_written_elsewhere_in_the_project_is_told_with_what_brings_it_back(project):
    text = "import torch\nfrom pathlib import Path\nROOT = Path(__file__).resolve().parents[1]\ntorch.save(1, ROOT / 'models' / 'm.pt')\n"
    written(project, src__train=text)
    (note,) = draft_of(project / "src" / "train.py").notes
    assert note.startswith("it writes to ../models/m.pt, outside of its folder, from where nothing comes back; a job")
    (project / "run.py").write_text(note.partition("starts it: ")[2])
    assert draft_of(project / "run.py").outputs == ["models/m.pt"]


def test_how_it_is_started_is_told_once(project):
    written(project, src__train="import torch\nopen('conf/a.txt')\nopen('conf/b.txt')\ntorch.save(1, '../m.pt')\n")
    (project / "conf").mkdir()
    for name in ("a", "b"):
        (project / "conf" / f"{name}.txt").write_text("1\n")
    notes = draft_of(project / "src" / "train.py").notes
    assert ["a job starts" in note for note in notes] == [True, False, False]
    assert notes[1] == "it opens conf/a.txt (train.py:2), which lies in ../conf/a.txt"


def test_a_script_that_is_run_by_its_path_is_read_with_the_one_that_runs_it(project):
    text = f"import lib.net, nets, torch\n{FLAGS}p.add_argument('--rows', required=True)\ntorch.save(1, 'm.pt')\n"
    written(project, src__train=text, lib__net="import einops\n", src__nets="import timm\n")
    (project / "run.py").write_text(
        'import runpy, sys\nsys.path.insert(0, "src")\nrunpy.run_path("src/train.py", run_name="__main__")\n'
    )
    draft = draft_of(project / "run.py")
    assert (draft.framework, draft.requirements, draft.outputs) == ("pytorch", ["einops", "timm"], ["m.pt"])
    assert draft.files == ["run.py", "lib/net.py", "src/nets.py", "src/train.py"]
    assert draft.missing == ["--rows"]


def test_a_configuration_of_hydra_s_above_the_script_is_brought_and_nothing_else_is_said_of_it(project):
    text = "import hydra, torch\n@hydra.main(config_path='../conf', config_name='a', version_base=None)\ndef main(c): ...\n"
    written(project, src__train=f"{text}main()\n")
    (project / "conf").mkdir()
    (project / "conf" / "a.yaml").write_text("x: 1\n")
    draft = draft_of(project / "src" / "train.py")
    assert [(each.source, each.mount_as) for each in draft.data] == [("../conf", "../conf")]
    assert draft.notes == []


def test_code_that_lies_above_is_found_by_a_script_that_starts_it_there(project):
    text = "from lib.net import Net\nprint(Net)\n"
    written(project, scripts__train=text, lib__net="import torch\nNet = 1\n")
    (note,) = draft_of(project / "scripts" / "train.py").notes
    assert note.startswith("lib, which train.py:1 imports, lies in ../lib; a job starts where the script lies: give a ")
    (project / "run.py").write_text(note.partition("starts it: ")[2])
    draft = draft_of(project / "run.py")
    assert (draft.framework, draft.notes) == ("pytorch", [])
    assert draft.files == ["run.py", "lib/net.py", "scripts/train.py"]
