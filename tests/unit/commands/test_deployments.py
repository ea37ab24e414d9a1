"""Which deployments a user means by a name, the beginning of one, or a blueprint."""

from __future__ import annotations

import json
import os
import zipfile

import pytest
from planned_once import planned_once

from modak_ansible.commands.plan import diff
from modak_ansible.commands.plan.differences import lines_again
from modak_ansible.commands.plan.packaging import package
from modak_ansible.commands.status import status
from modak_ansible.deployment import surface
from modak_ansible.errors import UsageError
from modak_ansible.planning.notebook import notebook_for
from modak_ansible.planning.service import plan_all, plan_blueprint, planned_from_file
from modak_ansible.planning.tracing import Tracing
from modak_ansible.planning.tuning.tuning import tuning_alone
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.store.deployments import (
    find_deployments,
    find_trainings,
    natural,
)
from modak_ansible.store.project import find_blueprint
from modak_ansible.target.core.files import write_json


def find_deployment(text):
    (found,) = find_trainings(text)
    return found.folder


@pytest.fixture
def deployed(blueprint, monkeypatch):
    """Two deployments of the example, seen from its folder."""
    (blueprint.path / ".modak").mkdir()
    monkeypatch.chdir(blueprint.path)
    return [planned_once(blueprint.service, Inputs(None, (("epochs", each),))).save() for each in ("2", "3")]


def test_by_name_and_by_its_beginning(deployed):
    for folder in deployed:
        assert find_deployment(folder.name) == folder
        assert find_deployment(folder.name[:-4]) == folder


def test_by_name_in_a_project_below_from_where_it_was_deployed(deployed, monkeypatch):
    """A folder that is in no repository is a project of its own, and what modak deploy FOLDER prints names this one."""
    monkeypatch.chdir(deployed[0].parents[3])
    assert find_deployment(deployed[0].name) == deployed[0]
    with pytest.raises(UsageError, match="there is no deployment example-0123456789ab"):
        find_deployment("example-0123456789ab")


def test_a_beginning_that_fits_two(deployed):
    with pytest.raises(UsageError, match="example- matches several deployments") as caught:
        find_deployment("example-")
    names = ", ".join(sorted(folder.name for folder in deployed))
    assert caught.value.hint == f"{names}; a blueprint means all of its trainings"


def test_an_empty_name_does_not_mean_what_lies_here(deployed):
    """As that of a variable that nobody has set: modak undeploy "$D"."""
    for find in (find_deployments, find_trainings, find_blueprint, surface.status):
        with pytest.raises(UsageError, match="the name is empty"):
            find("")


def test_a_beginning_that_fits_two_shows_both_and_acts_on_none(deployed, capsys):
    assert {store.folder for store in find_deployments("example-")} == set(deployed)
    status.command("example-", as_json=True, offline=True)
    assert {row["deployment"] for row in json.loads(capsys.readouterr().out)} == {each.name for each in deployed}
    with pytest.raises(UsageError, match="there is no deployment exampel"):
        find_deployments("exampel")


def test_all_of_a_blueprint(deployed, blueprint):
    assert {deployment.folder for deployment in find_deployments(str(blueprint.path))} == set(deployed)


def test_a_blueprint_that_was_not_deployed_is_no_beginning_of_a_name(deployed, blueprint):
    """A copy of a shipped blueprint keeps its name, and must not be taken for it."""
    blueprint.replace("template_name: example", "template_name: mnist-pytorch-slurm")
    planned_once(blueprint.service).save()
    with pytest.raises(UsageError, match="mnist-pytorch-slurm was not deployed from here") as caught:
        find_deployment("mnist-pytorch-slurm")
    assert caught.value.hint.startswith("of a copy there are mnist-pytorch-slurm-")


def test_the_newest_here(deployed, tmp_path, monkeypatch):
    assert [store.folder for store in find_trainings(None)] == [deployed[1]]
    write_json(deployed[1] / "state.json", {"updated": 2, "undeployed": True})
    assert [store.folder for store in find_trainings(None)] == [deployed[0]]
    (tmp_path / "other" / ".modak").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "other")
    with pytest.raises(UsageError, match="nothing was deployed from here"):
        find_trainings(None)


def test_what_is_not_there(deployed):
    with pytest.raises(UsageError, match="there is no deployment nothing"):
        find_deployment("nothing")


def test_a_package_is_known_by_what_it_holds(blueprint, tmp_path, monkeypatch):
    """opera unpacks it elsewhere, and both doors carry out the same plan."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / ".modak").mkdir()
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.csar"
    path.write_bytes(package(blueprint.service, Inputs(), "modak")[0])
    plan_blueprint(find_blueprint(str(path)), Inputs()).save()
    with zipfile.ZipFile(path) as packed:
        packed.extractall(tmp_path / ".opera" / "csars" / "csar")
    folder = plan_blueprint(tmp_path / ".opera" / "csars" / "csar" / "service.yaml", Inputs()).save()
    assert find_deployment(str(path)) == folder
    path.write_bytes(package(blueprint.service, Inputs(None, (("epochs", "9"),)), "modak")[0])
    with pytest.raises(UsageError, match="was not deployed from here"):
        find_deployment(str(path))


def test_a_blueprint_means_what_is_deployed_rather_than_what_was_undone_last(deployed, blueprint):
    write_json(deployed[0] / "state.json", {"updated": 1.0})
    write_json(deployed[1] / "state.json", {"updated": 2.0, "undeployed": 2.0})
    assert find_deployment(str(blueprint.path)) == deployed[0]
    write_json(deployed[0] / "state.json", {"updated": 3.0, "undeployed": 3.0})
    assert find_deployment(str(blueprint.path)) == deployed[1]


def test_who_only_looks_at_an_older_one_does_not_make_it_the_newest(deployed, blueprint):
    write_json(deployed[0] / "state.json", {"updated": 10.0**10})
    assert find_deployment(str(blueprint.path)) == deployed[1]
    plan_blueprint(blueprint.service, Inputs(None, (("epochs", "2"),))).save()
    assert find_deployment(str(blueprint.path)) == deployed[0]
    for folder in deployed:  # of an earlier version
        (folder / "saved").unlink()
        os.utime(folder / "plan.json", (10.0**9 + (folder == deployed[1]), 10.0**9 + (folder == deployed[1])))
    assert find_deployment(str(blueprint.path)) == deployed[1]


def trainings(found):
    return [each.plan["training"] for each in found]


def test_of_a_blueprint_with_one_training_the_newest(deployed, blueprint):
    (found,) = find_trainings(str(blueprint.path))
    assert found.folder == find_deployment(str(blueprint.path))


def test_of_a_sweep_the_newest_of_each_point(blueprint, monkeypatch):
    """Also those whose values are no longer swept, but for what was undeployed, or is no node any more."""
    (blueprint.path / ".modak").mkdir()
    monkeypatch.chdir(blueprint.path)
    sweep = "        sweep: { epochs: [ 2, 10 ] }\n"
    blueprint.replace("          batch-size: 128\n", "          batch-size: 128\n" + sweep)
    first = [planned.save() for planned in plan_all(blueprint.service, Inputs())]
    assert trainings(find_trainings(".")) == ["training:epochs=2", "training:epochs=10"]
    assert trainings(find_trainings(".", "training:epochs=10")) == ["training:epochs=10"]
    assert trainings(find_trainings(".", "training")) == ["training:epochs=2", "training:epochs=10"]
    assert trainings(find_trainings(first[0].name)) == ["training:epochs=2"]
    with pytest.raises(UsageError, match="has no deployment of a training trainin"):
        find_trainings(".", "trainin")
    blueprint.replace("epochs: [ 2, 10 ]", "epochs: [ 3, 10 ]")
    for planned in plan_all(blueprint.service, Inputs()):
        planned.save()
    assert len(find_trainings(".")) == 3
    write_json(first[0] / "state.json", {"undeployed": 1.0})
    assert trainings(find_trainings(".")) == ["training:epochs=3", "training:epochs=10"]
    text = blueprint.service.read_text().replace("    training:", "    learning:")
    blueprint.service.write_text(text.replace("[ training,", "[ learning,").replace("[training,", "[learning,"))
    for planned in plan_all(blueprint.service, Inputs()):
        planned.save()
    assert trainings(find_trainings(".")) == ["learning:epochs=3", "learning:epochs=10"]


@pytest.mark.parametrize("change", [Tracing(), tuning_alone, lambda request: notebook_for(request, 60)])
def test_what_stands_beside_a_training_is_not_meant_by_its_blueprint(blueprint, monkeypatch, change):
    (blueprint.path / ".modak").mkdir()
    monkeypatch.chdir(blueprint.path)
    aside = plan_blueprint(blueprint.service, Inputs(), None, change)
    aside.save()
    with pytest.raises(UsageError, match="no training of . was deployed from here") as caught:
        find_trainings(".")
    assert caught.value.hint == f"deployed from here: {aside.plan.deployment}"
    training = planned_once(blueprint.service)
    training.save()
    planned_from_file(aside.store.plan_file).save()  # again, and so it is the newest
    assert find_deployment(".") == find_deployment("./service.yaml") == training.folder
    assert find_deployment(aside.plan.deployment) == aside.folder
    assert [each.name for each in find_deployments(".")] == [training.plan.deployment, aside.plan.deployment]
    assert lines_again([plan_blueprint(blueprint.service, Inputs(None, (("epochs", "9"),)))]) == []
    diff.command(str(blueprint.path))
    write_json(training.folder / "state.json", {"undeployed": 2.0})
    assert find_deployment(".") == training.folder


def test_numbers_are_sorted_as_numbers():
    assert sorted(["a10", "a2", "a0.5", "b", ""], key=natural) == ["", "a0.5", "a2", "a10", "b"]
