"""From the files of a blueprint to what it asks for."""

from __future__ import annotations

import os
import subprocess
import sys

import archspec.cpu
import pytest

from modak_ansible.catalogue import load_catalogue
from modak_ansible.commands.plan.table import trainings_table
from modak_ansible.errors import InvalidBlueprint, ModakError, UsageError
from modak_ansible.model.measured.refusal import Refusal
from modak_ansible.performance.features import FEATURES
from modak_ansible.performance.stored import SCHEMA, write_stored
from modak_ansible.planning import this_machine as here
from modak_ansible.planning.service import (
    ModelWarning,
    basis_of,
    model_of,
    plan_blueprint,
    plan_trainings,
    request_of,
)
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.store.lists.refusals import note_refusal


def test_a_request_is_the_first_trainings(blueprint):
    request = request_of(blueprint.service, Inputs())
    assert (request.training, request.target.name, request.dataset.name) == ("training", "cluster", "mnist")
    assert request_of(blueprint.service, Inputs(), "training") == request


def test_there_is_no_such_training(blueprint):
    with pytest.raises(UsageError, match="has no training trainig") as caught:
        request_of(blueprint.service, Inputs(), "trainig")
    assert caught.value.hint == "did you mean training?"


def test_a_broken_blueprint_has_no_request(blueprint):
    with pytest.raises(InvalidBlueprint, match="framework"):
        request_of(blueprint.replace("framework: pytorch", "framework: pytroch").service, Inputs())


def test_a_refused_build_is_no_longer_planned(blueprint):
    (blueprint.path / ".modak").mkdir()
    request = request_of(blueprint.service, Inputs())
    entry = next(entry for entry in load_catalogue().entries if entry.name == "pytorch-2.13-cpu")
    refusal = Refusal(
        entry=entry.name, entry_digest=entry.digest, architecture=request.target.processor.architecture,
        address=request.target.address, processor="Acme 9000", reason="it crashed", date="2026-11-21T13:00:00Z",
    )  # fmt: skip
    blueprint.replace("numerics: same", "entry: pytorch-2.13-cpu")
    assert plan_blueprint(blueprint.service, Inputs()).plan.image.entry == "pytorch-2.13-cpu"
    note_refusal(blueprint.path / ".modak", refusal)
    with pytest.raises(InvalidBlueprint, match="its probe failed on Acme 9000: it crashed") as caught:
        plan_blueprint(blueprint.service, Inputs(strict=True))
    (mistake,) = caught.value.mistakes
    assert (mistake.rule, mistake.location.line) == ("cannot-plan", 44)
    (note,) = plan_blueprint(blueprint.service, Inputs()).plan.notes
    assert (note.path, "its probe failed on Acme 9000" in note.reason) == ("optimisation.entry", True)


# --- the performance model


def test_the_projects_own_model_goes_before_the_one_that_ships(blueprint):
    state = blueprint.path / ".modak"
    state.mkdir()
    shipped = model_of(state)
    write_stored(shipped.stored.model_copy(update={"records": 7}), state / "model.json")
    assert model_of(state).stored.records == 7
    said = basis_of(state)
    assert said.startswith("the project's own model, fitted to 7 records")
    known = list(shipped.stored.workloads)
    assert f"workloads: {', '.join(known[:8])} and {len(known) - 8} more. " in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is damaged"),
        (f'{{"schema_version": "{SCHEMA}", "features": {FEATURES}, "records": "many"}}', "is damaged: records"),
    ],
)
def test_no_plan_is_made_with_a_model_that_failed_its_check(blueprint, text, words):
    state = blueprint.path / ".modak"
    state.mkdir()
    (state / "model.json").write_text(text)
    with pytest.raises(ModakError, match=words) as caught:
        plan_blueprint(blueprint.service, Inputs())
    assert str(state / "model.json") in str(caught.value)
    assert caught.value.hint == "modak model fit makes a new one"


@pytest.mark.parametrize(
    "text", ["[]", '{"schema_version": "modak.model/0", "features": 1}', '{"schema_version": "modak.model/2"}']
)
def test_a_plan_goes_on_with_the_model_that_ships_where_another_version_fitted_the_projects_own(blueprint, text):
    state, planned = blueprint.path / ".modak", plan_blueprint(blueprint.service, Inputs())
    state.mkdir(exist_ok=True)
    (state / "model.json").write_text(text)
    with pytest.warns(ModelWarning, match="the shipped one is used until modak model fit makes a new one") as told:
        again = plan_blueprint(blueprint.service, Inputs())
    assert again.plan == planned.plan
    (said,) = {str(each.message) for each in told}
    assert said.startswith(f"{state / 'model.json'} was fitted by another version")
    assert "\n" not in said
    with pytest.warns(ModelWarning):
        assert basis_of(state).startswith("the shipped model, fitted to")


def test_a_target_that_is_this_machine_has_its_processor(blueprint, monkeypatch):
    monkeypatch.setattr(here, "_processor", lambda: ("Acme 9000", archspec.cpu.TARGETS["zen4"], ("avx512_bf16",)))
    remote = request_of(blueprint.service, Inputs()).target
    assert here.as_known_here(remote, blueprint.path) == remote
    known = here.as_known_here(remote.model_copy(update={"local": True}), blueprint.path).processor
    assert (known.model, known.features, known.architecture) == ("Acme 9000", ("avx512_bf16",), "skylake_avx512")
    open_one = remote.processor.model_copy(update={"architecture": "x86_64"})
    local = remote.model_copy(update={"local": True, "processor": open_one})
    assert here.as_known_here(local, blueprint.path).processor.architecture == "zen4"
    testbed = remote.model_copy(update={"address": "testbed"})
    assert here.as_known_here(testbed, blueprint.path) == testbed
    (blueprint.path / "ssh_config").write_text("")
    assert here.as_known_here(testbed, blueprint.path).processor.model == "Acme 9000"


# --- several trainings


def test_all_trainings_are_planned_or_the_one_that_is_named(blueprint):
    text = blueprint.service.read_text()
    node = text[text.index("    training:\n") : text.index("\n  outputs:")]
    blueprint.replace("\n  outputs:", "\n" + node.replace("    training:", "    second:", 1) + "\n  outputs:")
    found = plan_trainings(blueprint.service, Inputs())
    assert [planned.plan.training for planned in found] == ["training", "second"]
    assert [training.plan.training for training in plan_trainings(blueprint.service, Inputs(), "second")] == ["second"]
    assert plan_blueprint(blueprint.service, Inputs(), "second").plan == found[1].plan
    with pytest.raises(UsageError, match="has several trainings: training, second"):
        plan_blueprint(blueprint.service, Inputs())
    with pytest.raises(UsageError, match="has no training third"):
        plan_blueprint(blueprint.service, Inputs(), "third")
    table = trainings_table([planned.plan for planned in found], 80)
    assert table.startswith("example: 2 trainings\n")
    assert all(len(line) <= 80 for line in table.splitlines())


@pytest.mark.component
def test_a_plan_does_not_depend_on_the_order_of_sets(blueprint):
    """Strings are hashed anew in every process: what is summed in the order of a set differs in its last digits."""
    script = (
        "import sys; from pathlib import Path; from modak_ansible.reading.blueprint.reader import Inputs;"
        "from modak_ansible.planning.service import plan_blueprint; print(plan_blueprint(Path(sys.argv[1]), Inputs()).plan.digest)"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script, str(blueprint.service)],
            env={**os.environ, "PYTHONHASHSEED": seed}, cwd=blueprint.path, check=True, capture_output=True, text=True,
        ).stdout
        for seed in ("1", "2", "3", "4")
    }  # fmt: skip
    assert len(digests) == 1
