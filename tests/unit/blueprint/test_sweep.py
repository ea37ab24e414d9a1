"""Sweeps: every point of the grid once, each a training with a digest of its own; mistakes have places."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.planning.service import check_blueprint, plan_all, plan_blueprint
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.reading.blueprint.sweep import Axis, point_name, points_of, with_point

ARGUMENTS = "          batch-size: 128\n"


def swept(blueprint, text, arguments=ARGUMENTS):
    return blueprint.replace(ARGUMENTS, arguments + f"        sweep: {text}\n")


def mistakes_of(blueprint):
    mistakes = Mistakes()
    check_blueprint(blueprint.service, Inputs(), mistakes)
    return [(mistake.location.line, mistake.location.column, mistake.message, mistake.hint) for mistake in mistakes]


def test_a_grid_is_a_training_for_every_point(blueprint):
    found = plan_all(swept(blueprint, "{ epochs: [ 1, 2 ], batch-size: [ 32, 64 ] }").service, Inputs())
    assert [planned.plan.training for planned in found] == [
        "training:epochs=1,batch-size=32", "training:epochs=1,batch-size=64",
        "training:epochs=2,batch-size=32", "training:epochs=2,batch-size=64",
    ]  # fmt: skip
    assert found[1].plan.application.arguments == (("epochs", "1"), ("batch-size", "64"))
    assert "--epochs 1\n    --batch-size 64\n" in found[1].plan.job.script
    assert (found[3].plan.application.work.epochs, found[3].plan.application.work.batch_size) == (2, 64)
    assert len({planned.plan.deployment for planned in found}) == 4
    assert {planned.node for planned in found} == {"training"}


def test_a_point_stays_the_same_when_others_come(blueprint):
    few = plan_all(swept(blueprint, "{ epochs: [ 1, 2 ] }").service, Inputs())
    more = plan_all(blueprint.replace("[ 1, 2 ]", "[ 0, 2, 1 ]").service, Inputs())
    digests = {planned.plan.training: planned.plan.digest for planned in more}
    assert [digests[planned.plan.training] for planned in few] == [planned.plan.digest for planned in few]


def test_one_point_is_planned_by_its_name(blueprint):
    service = swept(blueprint, "{ epochs: [ 1, 2 ] }").service
    assert plan_blueprint(service, Inputs(), "training:epochs=2").plan.training == "training:epochs=2"
    assert len(plan_all(service, Inputs(), "training")) == 2


def test_a_limit_changes_no_plan(blueprint):
    free = plan_all(swept(blueprint, "{ epochs: [ 1, 2 ] }").service, Inputs())
    limited = plan_all(blueprint.replace("        sweep:", "        parallel: 1\n        sweep:").service, Inputs())
    assert [planned.plan for planned in free] == [planned.plan for planned in limited]
    assert [planned.parallel for planned in limited] == [1, 1]


@pytest.mark.parametrize(
    ("text", "place", "words", "hint"),
    [
        ("{ epoch: [ 1 ] }", (42, 18), "epoch is swept, but is not an argument of training", "did you mean epochs?"),
        ("{ epochs: 3 }", (42, 26), "the values of epochs must be a list", "epochs: [ 3 ]"),
        ("{ epochs: [] }", (42, 26), "epochs has no values", "give at least one, or leave it out"),
        ("{ epochs: [ 1, 2, 1 ] }", (42, 34), "epochs has the value 1 twice", "leave one out"),
        ("{ epochs: [ [ 1 ] ] }", (42, 28), "a value of epochs must be a single value", ""),
        ("[ 1 ]", (42, 16), "sweep must be a mapping of names to values", ""),
    ],
)
def test_what_is_wrong_has_a_place(blueprint, text, place, words, hint):
    assert mistakes_of(swept(blueprint, text)) == [(*place, words, hint)]


def test_a_sweep_has_an_end(blueprint):
    values = list(range(101))
    ((line, _, words, _),) = mistakes_of(swept(blueprint, f"{{ epochs: {values}, batch-size: {values[1:]} }}"))
    assert (line, words) == (42, "the sweep has 10,100 points; 10,000 at most")


def test_a_job_that_waits_for_others_has_no_limit_of_its_own(blueprint):
    swept(blueprint, "{ epochs: [ 1, 2 ] }\n        parallel: 1\n        job_options: { job_dependency: 'afterok:7' }")
    ((line, _, words, _),) = mistakes_of(blueprint)
    assert (line, words) == (44, "after and parallel already say what the job waits for")


VALUES = st.one_of(st.booleans(), st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=60))
AXES = st.lists(
    st.tuples(st.from_regex(r"[a-z][a-z-]{0,8}", fullmatch=True), st.lists(VALUES, min_size=1, max_size=4)),
    min_size=1, max_size=3, unique_by=lambda axis: axis[0],
)  # fmt: skip


@given(AXES)
def test_every_combination_is_there_once_and_has_a_name_of_its_own(found):
    axes = tuple(
        Axis(name, tuple({str(value).lower() if value in (True, False) else value: value for value in values}.values()))
        for name, values in found
    )
    points = list(points_of(axes))
    assert len(points) == math.prod(len(axis.values) for axis in axes)
    names = [point_name("train", point) for point in points]
    assert len(set(names)) == len(names)
    assert all(name.startswith("train:") and " " not in name and name.isprintable() for name in names)
    usual = (*((axis.name, "usual") for axis in axes), ("other", "1"))
    for point in points:
        assert dict(with_point(usual, point)) == {**point, "other": "1"}
