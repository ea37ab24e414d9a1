"""Where a deployment's state is kept, and which testbed it means."""

from __future__ import annotations

import os

import pytest

from modak_ansible.errors import UsageError
from modak_ansible.store.project import (
    MODEL,
    RECORDS,
    blueprint_state,
    find_blueprint,
    has_unfitted_records,
    known_testbed,
    moved_with,
    no_script,
    project_root,
)
from modak_ansible.store.targets import target_file


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_a_project_is_the_nearest_folder_with_a_mark(tmp_path):
    inner = tmp_path / "project" / "mine"
    inner.mkdir(parents=True)
    (tmp_path / "project" / ".git").mkdir()
    assert project_root(inner) == tmp_path / "project"
    (inner / ".modak").mkdir()
    assert project_root(inner) == inner


def test_without_a_mark_a_project_is_the_nearest_one_of_pythons(tmp_path):
    inner = tmp_path / "project" / "mine"
    inner.mkdir(parents=True)
    assert project_root(inner) == inner
    (tmp_path / "project" / "pyproject.toml").write_text("")
    assert project_root(inner) == tmp_path / "project"
    (inner / "pyproject.toml").write_text("")
    assert project_root(inner) == inner
    (tmp_path / ".git").mkdir()
    assert project_root(inner) == tmp_path


def test_a_shipped_blueprint_is_deployed_from_where_the_user_is(elsewhere):
    blueprint = find_blueprint("mnist-pytorch-slurm")
    assert blueprint.name == "service.yaml"
    assert blueprint_state(blueprint) == elsewhere / ".modak"


def test_a_users_blueprint_keeps_its_state_beside_it(elsewhere, blueprint):
    assert blueprint_state(blueprint.service) == blueprint.path / ".modak"


def test_the_testbed_is_the_projects_or_the_one_at_hand(elsewhere, tmp_path):
    state = tmp_path / "project" / ".modak"
    assert known_testbed(state) == state / "testbed"
    (elsewhere / ".modak" / "testbed").mkdir(parents=True)
    assert known_testbed(state) == elsewhere / ".modak" / "testbed"
    (state / "testbed").mkdir(parents=True)
    assert known_testbed(state) == state / "testbed"


def test_a_blueprint_that_is_not_there(elsewhere):
    with pytest.raises(UsageError) as caught:
        find_blueprint("mnist-pytorch-slrum")
    assert caught.value.hint == "did you mean mnist-pytorch-slurm?"


ODD = ("a" * 300, f"{'a' * 300}/service.yaml", f"x/{'a' * 300}.csar", f"{'a' * 300}.py", "a\0b", "a\0b.py")


@pytest.mark.parametrize("text", ODD)
def test_a_name_that_no_file_can_have_is_not_there(elsewhere, text):
    """Its words may be long: a request may name a whole command line where a path belongs."""
    with pytest.raises(UsageError):
        find_blueprint(text)
    assert isinstance(no_script(elsewhere / text), UsageError)
    with pytest.raises(UsageError):
        target_file(text)


def test_a_name_of_a_folder_is_no_file(elsewhere):
    for name in ("mine.csar", "mine.py", "mine.yaml"):
        (elsewhere / name).mkdir()
        assert find_blueprint(name) == elsewhere.joinpath(name, "service.yaml").relative_to(elsewhere)
        with pytest.raises(UsageError):
            target_file(f"./{name}")
    assert "is a folder" in no_script(elsewhere / "mine.py").message


def test_what_a_deployment_noted_moves_with_its_project(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    deployment = new / ".modak" / "deployments" / "example-1"
    deployment.mkdir(parents=True)
    state = old / ".modak"
    assert moved_with(deployment, state, state) == new / ".modak"
    assert moved_with(deployment, state, old / "blueprints" / "service.yaml") == new / "blueprints" / "service.yaml"
    assert moved_with(deployment, state, tmp_path / "elsewhere") == tmp_path / "elsewhere"
    assert moved_with(deployment, new / ".modak", old / "service.yaml") == old / "service.yaml"
    assert moved_with(tmp_path / "plans" / "example-1", state, old / "service.yaml") == old / "service.yaml"


def test_what_no_model_was_fitted_to_is_known(tmp_path):
    assert not has_unfitted_records(tmp_path)
    records, model = tmp_path / RECORDS / "jobs.jsonl", tmp_path / MODEL
    records.parent.mkdir()
    records.write_text('{"outcome":"failed","reason":"nothing of it was measured"}\n')
    assert not has_unfitted_records(tmp_path)  # a plain Python script's
    records.write_text('{"outcome":"measured"}\n')
    assert has_unfitted_records(tmp_path)
    model.write_text("{}")
    os.utime(model, (2e9, 2e9))
    assert not has_unfitted_records(tmp_path)
    os.utime(records, (2.1e9, 2.1e9))
    assert has_unfitted_records(tmp_path)
