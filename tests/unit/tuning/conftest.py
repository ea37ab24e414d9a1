"""A plan with a tuning, and a runner of candidates whose speeds are known."""

from __future__ import annotations

import random
import sys

import pytest

from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.service import request_of
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.runtime import FILES

sys.path.append(str(FILES))  # as PYTHONPATH has it in a job


@pytest.fixture
def tuned_request(blueprint):
    """A request that is tuned, with other preferences and other resources."""

    def make(*, resources=None, application=None, **preferences):
        request = request_of(blueprint.service, Inputs())
        preferences = {"autotuning": True, "numerics": "reassociation", **preferences}
        update = {
            "optimisation": request.optimisation.model_copy(update=preferences),
            "resources": request.resources.model_copy(update=resources or {}),
            "application": request.application.model_copy(update=application or {}),
        }
        return request.model_copy(update=update)

    return make


@pytest.fixture
def tuned_plan(tuned_request):
    def make(model=None, **changes):
        return make_plan(tuned_request(**changes), model=model)

    return make


class FakeRunner:
    """Runs candidates of known speed on a clock of its own.

    Args:
        speeds: seconds of a step, by name; an exception is raised instead.
        noise: relative, of each step.
        start: seconds until the first step ends, by name; 2 of those that are not named.
    """

    def __init__(self, speeds, noise=0.03, start=None, seed=0):
        self.now, self.runs = 0.0, []
        self._speeds, self._noise, self._start = speeds, noise, start or {}
        self._random = random.Random(seed)

    def clock(self):
        return self.now

    def __call__(self, candidate, steps, seconds):
        name = candidate["name"]
        self.runs.append((name, steps))
        speed = self._speeds[name]
        if isinstance(speed, BaseException):
            self.now += 1.0
            raise speed
        start = self._start.get(name, 2.0)
        count = min(steps, max(0, int((seconds - start) / speed) + 1)) if seconds > start else 0
        self.now += min(seconds, start + count * speed)
        drawn = sorted(speed * self._random.gauss(1, self._noise) for _ in range(max(0, count - 1)))
        return {
            "count": count,
            "first_seconds": start,
            "to_first_step_seconds": start,
            "median_seconds": drawn[len(drawn) // 2] if drawn else None,
            "p10_seconds": drawn[len(drawn) // 10] if drawn else None,
            "p90_seconds": drawn[9 * len(drawn) // 10] if drawn else None,
        }


@pytest.fixture(scope="session")
def fake_runner():
    return FakeRunner


def tuning_of(number, *, budget=600, total_steps=None, may_win=None):
    """The section of a plan with so many candidates."""
    return {
        "candidates": [
            {
                "name": f"c{each}", "title": f"candidate {each}", "settings": {}, "total_steps": total_steps,
                "work_per_step": 1.0, "parts": [], "may_win": True if may_win is None else may_win[each],
            }
            for each in range(number)
        ],
        "budget": budget, "first_rung": 0, "trains": False, "steps": 20, "reduction": 3, "rungs": 3,
    }  # fmt: skip


@pytest.fixture(scope="session")
def section():
    return tuning_of
