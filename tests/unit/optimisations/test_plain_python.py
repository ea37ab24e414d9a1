"""A script of no framework: what a plan can do around it, and what it does not claim."""

from __future__ import annotations

import pytest

from modak_ansible.catalogue import load_catalogue
from modak_ansible.commands.plan.facts import predicted
from modak_ansible.errors import InvalidBlueprint
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.recipes.environment import environment_script

ENTRIES = {entry.name: entry for entry in load_catalogue().entries}


def plan_of(blueprint):
    return plan_blueprint(blueprint.service, Inputs()).plan


@pytest.fixture
def plain(blueprint):
    return blueprint.replace("framework: pytorch", "framework: python")


def test_the_newest_python_is_taken_with_the_threads_of_all_libraries(plain):
    plan = plan_of(plain)
    assert plan.image.entry == "python-3.13"
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
    assert {plan.job.environment[name] for name in names} == {"4"}
    assert all(f"{name}=4" in plan.job.script or f"{name}='4'" in plan.job.script for name in names)


def test_a_version_takes_another(plain):
    assert (
        plan_of(plain.replace("framework: python", 'framework: python\n        version: "3.11"')).image.entry
        == "python-3.11"
    )


def test_nothing_is_predicted_and_nothing_claimed_of_its_code(plain):
    plan = plan_of(plain)
    assert predicted(plan).startswith("not predicted: ")
    assert "00:30:00" in predicted(plan)
    in_code = [choice for choice in plan.choices if choice.reaches == "code"]
    assert [(choice.name, choice.value, choice.rejected) for choice in in_code] == [("batch_size", "keep", ())]


def test_a_preference_for_its_code_is_a_note(plain):
    plan = plan_of(plain.replace("numerics: same", "compiler: inductor"))
    assert [note.path.rpartition(".")[2] for note in plan.notes] == ["compiler"]


def test_packages_are_a_layer_of_their_own(plain):
    plan = plan_of(
        plain.replace("framework: python", "framework: python\n        requirements_txt: [ scikit-learn, xgboost ]")
    )
    assert [layer.name for layer in plan.image.layers] == ["debian-trixie", "python-3.13", "requirements"]


def test_without_a_container_any_maintained_python_of_the_host_serves():
    script = environment_script(ENTRIES["python-3.13"], ["scikit-learn"], "3.13")
    assert "for each in python3.13 python3 python3.10" in script
    assert "    3.10 | 3.11 | 3.12 | 3.13 | 3.14)" in script


def test_without_a_container_no_version_can_be_asked_for(plain):
    plain.replace("framework: python", 'framework: python\n        version: "3.11"')
    plain.replace("username: alice", "username: alice\n        container_runtime: none")
    with pytest.raises(InvalidBlueprint, match="the host's own Python is used, whatever its version"):
        plan_of(plain)
