"""Which files travel with a script, and what becomes of links among them."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from glob import escape

import pytest

from modak_ansible.commands.plan.packaging import package
from modak_ansible.errors import InvalidBlueprint
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.files import code_files, travels
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.sources.local import brought_files
from modak_ansible.sources.reader import DatasetDescription, read_dataset
from modak_ansible.stages.jobs.code import code_archive
from modak_ansible.store.project import COPIED


@pytest.fixture
def project(tmp_path):
    """A project with a script, and a library beside its folder."""
    for name in ("project/.git/config", "project/src/train.py", "project/lib/net/layers.py", "elsewhere/big.bin"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path / "project"


def travelling(project, *patterns):
    found = code_files(project / "src", list(patterns) or None, top=project, is_blueprint=False)
    return [source_file.path for source_file in found]


def link(project, name, to):
    (project / "src" / name).symlink_to(to)


def test_a_log_beside_the_script_travels_where_it_is_named_alone(project):
    """It is written while the plan is made: modak deploy . > deploy.log, which once changed the training itself."""
    for name in ("deploy.log", "slurm-17.out", "nohup.out", "data.out"):
        (project / "src" / name).write_text("planning")
    assert travelling(project) == ["data.out", "train.py"]
    assert travelling(project, "train.py", "*.log") == ["deploy.log", "train.py"]


def test_of_hidden_files_the_marker_travels_that_scripts_find_their_project_by(project):
    for name in (".project-root", ".zarray", ".env", ".gitignore"):
        (project / "src" / name).touch()
    assert travelling(project) == [".project-root", ".zarray", "train.py"]  # else a store of zarr is none
    assert travelling(project, "train.py") == ["train.py"]
    assert [travels(project / "src" / name, is_of_blueprint=False) for name in (".project-root", ".env")] == [
        True,
        False,
    ]


def test_a_name_that_no_plan_can_hold_is_refused(project):
    (project / "src" / os.fsdecode(b"caf\xe9.txt")).touch()
    (project / "src" / "café.txt").touch()
    with pytest.raises(ValueError, match=r"the name 'caf.udce9\.txt' is not in UTF-8: rename it"):
        travelling(project)
    assert travelling(project, "*.py", "café.txt") == ["café.txt", "train.py"]


def test_an_environment_beside_the_script_stays_whatever_it_is_called(project):
    for name, mark in (("venv", "pyvenv.cfg"), ("py311", "conda-meta/history")):
        (project / "src" / name / mark).parent.mkdir(parents=True)
        (project / "src" / name / mark).write_text("")
        (project / "src" / name / "python").symlink_to("/usr/bin/env")  # outside of the project
    assert travelling(project) == ["train.py"]


def test_a_copy_of_results_travels_where_it_is_named(project):
    """What modak results --to had copied beside the script made the next deploy another training."""
    (project / "src" / "out").mkdir()
    for name in (COPIED, "model.pt"):
        (project / "src" / "out" / name).touch()
    assert travelling(project) == ["train.py"]
    assert travelling(project, "*.py", "out") == ["out/model.pt", "train.py"]


def test_the_name_of_a_folder_stands_for_all_below_it_whatever_signs_it_has(project):
    (project / "src" / "part[1]" / "deep").mkdir(parents=True)
    (project / "src" / "part[1]" / "deep" / "x.csv").touch()
    assert [travelling(project, pattern) for pattern in ("part[1]", escape("part[1]"), "part?1?", "part[1]x")] == [
        ["part[1]/deep/x.csv"], ["part[1]/deep/x.csv"], ["part[1]/deep/x.csv"], [],
    ]  # fmt: skip


def test_a_link_to_a_folder_of_the_project_is_followed(project):
    link(project, "net", "../lib/net")
    link(project, "again", "net")  # a link to a link
    assert travelling(project) == ["again/layers.py", "net/layers.py", "train.py"]
    assert travelling(project, "net/*.py") == ["net/layers.py"]


def test_without_a_mark_of_a_project_the_blueprints_folder_is_it(project):
    (project / ".git" / "config").unlink()
    (project / ".git").rmdir()
    link(project, "net", "../lib/net")
    assert "net/layers.py" in travelling(project)


def test_hidden_files_and_caches_are_left_out_behind_a_link_too(project):
    for name in (".secret", "__pycache__/a.pyc", "node_modules/b.js"):
        (project / "lib" / name).parent.mkdir(exist_ok=True)
        (project / "lib" / name).touch()
    link(project, "lib", "../lib")
    assert travelling(project) == ["lib/net/layers.py", "train.py"]


@pytest.mark.parametrize(
    ("to", "said"),
    [
        (".", "other is a link to .*/project/src, in which it lies itself: remove it"),
        ("..", "other is a link to .*/project, in which it lies itself"),
        ("other", "other is a link to .*/src/other, which is not there: mend it, or remove it"),
        ("../gone", "other is a link to .*/project/gone, which is not there"),
        ("../../elsewhere", "other is a link to .*/elsewhere, outside of the project .*/project: copy it"),
        ("../../elsewhere/big.bin", "outside of the project"),
        ("../.git", r"other is a link to .*, in the hidden \.git"),
    ],
)
def test_what_cannot_travel_is_refused_where_it_is_named(project, to, said):
    link(project, "other", to)
    for patterns in ((), ("other",), ("*",), ("train.py", "o*")):
        with pytest.raises(ValueError, match=said):
            travelling(project, *patterns)
    assert travelling(project, "train.py") == ["train.py"]


def test_a_circle_of_several_links_is_found(project):
    link(project, "net", "../lib/net")
    (project / "lib" / "net" / "back").symlink_to("../../src")
    with pytest.raises(ValueError, match="net/back is a link to .*/project/src, in which it lies itself"):
        travelling(project)


def test_folders_behind_links_without_end_are_counted(project, monkeypatch):
    monkeypatch.setattr("modak_ansible.reading.blueprint.files.MAX_FILES", 500)
    below = project / "lib" / "l0"
    for number in range(1, 40):  # each holds the next one twice: 2^39 paths
        below.mkdir()
        (below / "file").touch()
        for name in "ab":
            (below / name).symlink_to(f"../l{number}")
        below = below.with_name(f"l{number}")
    below.mkdir()
    link(project, "many", "../lib/l0")
    with pytest.raises(ValueError, match="more than 500 files"):
        travelling(project)


def test_they_reach_the_target_and_the_package_as_files(blueprint):
    (blueprint.path / "lib").mkdir()
    (blueprint.path / "lib" / "net.py").write_text("layers = 2\n")
    (blueprint.path / "train" / "own").symlink_to("../lib")
    plan = plan_blueprint(blueprint.service, Inputs()).plan
    archive = code_archive(plan.model_dump(mode="json"), blueprint.path)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert tar.extractfile("code/own/net.py").read() == b"layers = 2\n"
    packed, names, _ = package(blueprint.service, Inputs(), "test")
    assert "train/own/net.py" in names
    assert zipfile.ZipFile(io.BytesIO(packed)).read("train/own/net.py") == b"layers = 2\n"


def test_a_link_that_cannot_travel_is_told_with_its_script(blueprint):
    (blueprint.path / "train" / "data").symlink_to("/nowhere")
    with pytest.raises(
        InvalidBlueprint, match=r"service\.yaml:\d+:\d+: script-files: .*data is a link to /nowhere, which is not"
    ):
        plan_blueprint(blueprint.service, Inputs())


def test_a_package_may_be_unpacked_in_a_hidden_folder_of_a_project(blueprint, tmp_path):
    """As opera does, in .opera of the folder that it was started in."""
    folder = tmp_path / "project" / ".opera" / "csars" / "csar"
    (tmp_path / "project" / ".modak").mkdir(parents=True)
    content, _, _ = package(blueprint.service, Inputs(), "test")
    zipfile.ZipFile(io.BytesIO(content)).extractall(folder)
    assert code_files(folder / "train", None, top=folder, is_blueprint=False)
    (folder / "train" / "other").symlink_to("../../..")
    with pytest.raises(ValueError, match=r"in the hidden \.opera"):
        code_files(folder / "train", None, top=folder, is_blueprint=False)


@pytest.mark.parametrize(
    ("said", "place", "travels"),
    [
        (["data"], "data", []), (["data"], "", ["data/read.py"]), (["data"], "elsewhere", ["data/read.py"]),
        (["data/a/*.bin"], "data/a", ["data/read.py", "data/words.txt"]),
        (["data/words.txt"], "data/words.txt", ["data/a/1.bin", "data/read.py"]),
        (["data/words.txt"], "", ["data/a/1.bin", "data/read.py"]), (["link"], "link", []),
        (["."], "", ["data/a/1.bin", "data/read.py", "data/words.txt"]),
    ],
)  # fmt: skip
def test_what_a_dataset_brings_does_not_travel_with_the_script_too(tmp_path, said, place, travels):
    for name in ("train.py", "data/a/1.bin", "data/words.txt", "data/read.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    if said == ["link"]:
        (tmp_path / "link").symlink_to("data")
    dataset = read_dataset(DatasetDescription(name="d", source=tuple(said), mount_as=place), tmp_path, lambda *_: None)
    data = brought_files([dataset], tmp_path, tmp_path)
    found = code_files(tmp_path, None, top=tmp_path, is_blueprint=True, data=data)
    assert [each.path for each in found if each.path != "train.py"] == travels
    named = code_files(tmp_path, ["*"], top=tmp_path, is_blueprint=True, data=data)
    assert "data/words.txt" in [each.path for each in named]  # whoever names a file has it travel


@pytest.mark.parametrize("form", ["blueprint", "request"])
def test_data_beside_the_script_is_planned_as_the_page_on_data_says_it(tmp_path, form):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "corpus.txt").write_text("to be or not to be")
    (tmp_path / "train.py").write_text("open('data/corpus.txt')\n")
    if form == "blueprint":
        path = tmp_path / "service.yaml"
        path.write_text(
            "tosca_definitions_version: tosca_simple_yaml_1_3\nmetadata: { template_name: corpus }\n"
            "imports: [ types/modak.yaml ]\ntopology_template:\n  node_templates:\n"
            "    cluster: { type: modak.nodes.Local }\n    corpus:\n      type: modak.nodes.Dataset\n      properties:\n"
            "        name: corpus\n        source: [ data/corpus.txt ]\n        mount_as: data/corpus.txt\n"
            "      requirements: [ { host: cluster } ]\n    training:\n      type: modak.nodes.Training\n"
            "      properties: { framework: python, script: train.py }\n"
            "      requirements: [ { host: cluster }, { dataset: corpus } ]\n"
        )
        plan = plan_blueprint(path, Inputs()).plan
    else:
        path = tmp_path / "request.json"
        data = {"location": "data/corpus.txt", "name": "corpus", "mount_as": "data/corpus.txt"}
        training = {"config": {"ai_framework": "python"}, "data": data}
        path.write_text(json.dumps({"job": {
            "application": {"executable": "train.py"}, "target": {"name": "local"},
            "optimisation": {"app_type-ai_training": training},
        }}))  # fmt: skip
        plan = plan_blueprint(path, Inputs()).plan
    assert [file.path for file in plan.application.files] == ["train.py"]
    assert plan.datasets[0].mounted_file == "corpus.txt"


def test_a_folder_travels_by_what_it_holds_or_links_to_and_by_nothing_that_is_left_out(tmp_path):
    for name in ("links", "hidden/.cache", "compiled/__pycache__", "deep/below", "shared"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "links/images").symlink_to(tmp_path / "shared")
    for name in ("hidden/.cache/index", "compiled/__pycache__/a.pyc", "deep/below/a.bin"):
        (tmp_path / name).touch()
    found = {each.name: travels(each, is_of_blueprint=False) for each in tmp_path.iterdir()}
    assert found == {"links": True, "hidden": False, "compiled": False, "deep": True, "shared": False}
