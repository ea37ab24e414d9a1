"""Drafts for optimisations to act on, made of the example blueprint."""

from __future__ import annotations

import pytest

from modak_ansible.allocation.allocate import allocate
from modak_ansible.catalogue import load_catalogue
from modak_ansible.optimisations import optimisations
from modak_ansible.optimisations.base import Draft
from modak_ansible.planning.service import request_of
from modak_ansible.reading.blueprint.reader import Inputs


@pytest.fixture
def draft(blueprint):
    """Makes a draft: its build by name, and what differs in the request's parts."""

    def make(entry="pytorch-2.13-cpu", application=None, resources=None, target=None, processor=None, **preferences):
        catalogue = load_catalogue()
        request = request_of(blueprint.service, Inputs())
        known = next((each for each in catalogue.entries if each.name == entry), None)
        framework = {"framework": known.framework} if known else {}
        there = request.target.model_copy(update=target or {})
        update = {
            "application": request.application.model_copy(update={**framework, **(application or {})}),
            "resources": request.resources.model_copy(update=resources or {}),
            "target": there.model_copy(update={"processor": there.processor.model_copy(update=processor or {})}),
            "optimisation": request.optimisation.model_copy(update=preferences),
        }
        request = request.model_copy(update=update)
        job = allocate(request)
        made = Draft(job.request, catalogue, (), job.partition, job.layout)
        if known:
            matter("image").apply(made, known.name)
        return made

    return make


def matter(name):
    return next(optimisation for optimisation in optimisations() if optimisation.name == name)


def values(options):
    """The values that can be had."""
    return [option.value for option in options if not option.why_not]


def why_not(options, value):
    return next(option.why_not for option in options if option.value == value)
