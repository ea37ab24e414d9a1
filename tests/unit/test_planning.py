"""From the files of a blueprint to what it asks for."""

from __future__ import annotations

import pytest

from modak_ansible.blueprint.reader import Inputs
from modak_ansible.errors import InvalidBlueprint, UsageError
from modak_ansible.planning import request_of


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
