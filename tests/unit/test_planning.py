"""From the files of a blueprint to what it asks for."""

from __future__ import annotations

import pytest

from modak_ansible.blueprint.reader import Inputs
from modak_ansible.catalogue import load_catalogue
from modak_ansible.errors import InvalidBlueprint, UsageError
from modak_ansible.model.refusal import Refusal
from modak_ansible.planning import plan_blueprint, request_of
from modak_ansible.refusals import note_refusal


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
    entry = next(each for each in load_catalogue().entries if each.name == "pytorch-2.13-cpu")
    refusal = Refusal(
        entry=entry.name, entry_digest=entry.digest, architecture=request.target.processor.architecture,
        address=request.target.address, processor="Acme 9000", reason="it crashed", date="2026-11-21T13:00:00Z",
    )  # fmt: skip
    blueprint.replace("numerics: same", "entry: pytorch-2.13-cpu")
    assert plan_blueprint(blueprint.service, Inputs()).plan.image.entry == "pytorch-2.13-cpu"
    note_refusal(blueprint.path / ".modak", refusal)
    with pytest.raises(InvalidBlueprint, match="its probe failed on Acme 9000: it crashed") as caught:
        plan_blueprint(blueprint.service, Inputs())
    (mistake,) = caught.value.mistakes
    assert (mistake.rule, mistake.location.line) == ("cannot-plan", 44)
