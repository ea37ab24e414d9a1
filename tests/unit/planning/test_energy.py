"""What a run may use is said where runs like it used something, and nowhere else."""

from __future__ import annotations

import json

import pytest

from modak_ansible.model.measured.prediction import Interval, Prediction
from modak_ansible.model.plan import Candidate
from modak_ansible.planning.costs.energy import RECORDS, predicted_energy
from modak_ansible.planning.service import plan_blueprint
from modak_ansible.reading.blueprint.reader import Inputs


@pytest.fixture
def plan(blueprint):
    made = plan_blueprint(blueprint.service, Inputs()).plan
    hour = Interval(middle=3600.0, low=3000.0, high=4000.0)
    prediction = Prediction.model_construct(known=True, seconds=hour)
    return made.model_copy(update={"candidates": (Candidate.model_construct(chosen=True, prediction=prediction),)})


def record_of(plan, **changes):
    job = plan.job
    size = {
        "nodes": job.nodes, "processes_per_node": job.processes_per_node, "cores_per_process": job.cores_per_process,
        "accelerators": job.accelerators,
    }  # fmt: skip
    return {
        "target": {"name": plan.target.name}, "framework": plan.application.framework, "allocation": size,
        "joules": 6000.0, "energy_seconds": 60.0, **changes,
    }  # fmt: skip


def told(plan, state, *records):
    (state / RECORDS).parent.mkdir(exist_ok=True)
    lines = [each if isinstance(each, str) else json.dumps(each, separators=(",", ":")) for each in records]
    (state / RECORDS).write_text("\n".join(lines))
    return predicted_energy(plan, state)


def test_the_power_of_runs_like_it_for_as_long_as_it_takes(plan, tmp_path):
    name = plan.target.name
    one = record_of(plan)
    assert told(plan, tmp_path, one) == f"about 360.0 kJ (100.0 Wh): 1 run of its size on {name} used 100 W"
    more = told(plan, tmp_path, one, record_of(plan, joules=12000.0))
    assert more == f"about 540.0 kJ (150.0 Wh): 2 runs of its size on {name} used 100 to 200 W"


def test_nothing_is_said_without_a_record_of_such_a_run(plan, tmp_path):
    assert predicted_energy(plan, tmp_path) == ""
    others = [
        record_of(plan, target={"name": "elsewhere"}), record_of(plan, joules=None), record_of(plan, energy_seconds=None),
        record_of(plan, framework="jax"), record_of(plan, allocation={"nodes": 64}), record_of(plan, allocation=None),
        '{"joules":5', '{"joules":"x","energy_seconds":1}', '["joules":]', "",
    ]  # fmt: skip
    assert told(plan, tmp_path, *others) == ""
    unknown = plan.candidates[0].prediction.model_copy(update={"known": False})
    for prediction in (None, unknown):
        made = plan.model_copy(
            update={"candidates": (plan.candidates[0].model_copy(update={"prediction": prediction}),)}
        )
        assert told(made, tmp_path, record_of(plan)) == ""
