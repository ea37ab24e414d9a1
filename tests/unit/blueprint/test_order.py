"""Which training comes after which: read, planned in that order, and told where it cannot be."""

from __future__ import annotations

import pytest

from modak_ansible.errors import InvalidBlueprint
from modak_ansible.planning import service
from modak_ansible.planning.service import check_blueprint, plan_all, plan_blueprint, plan_node, planned_from_file
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.reader import Inputs

NODE = """\
    {name}:
      type: modak.nodes.Training
      properties: {{ framework: pytorch, script: train/train.py, resources: {{ cores_per_process: 4 }}{more} }}
      requirements: [ {{ host: cluster }}{after} ]
"""


def add(blueprint, name, *after, more="", key="after"):
    node = NODE.format(name=name, more=more, after="".join(f", {{ {key}: {each} }}" for each in after))
    return blueprint.replace("\n  outputs:", f"\n{node}\n  outputs:")


def mistakes_of(blueprint):
    mistakes = Mistakes()
    check_blueprint(blueprint.service, Inputs(), mistakes)
    return [(mistake.rule, mistake.message) for mistake in mistakes]


def trainings(found):
    return [each.plan.training for each in found]


def test_each_comes_behind_those_that_it_comes_after(blueprint):
    add(add(add(blueprint, "evaluate", "fit"), "fit", "training", "clean"), "clean")
    found = plan_all(blueprint.service, Inputs())
    assert trainings(found) == ["clean", "training", "fit", "evaluate"] or trainings(found) == [
        "training", "clean", "fit", "evaluate"
    ]  # fmt: skip
    fit = next(planned.plan for planned in found if planned.plan.training == "fit")
    names = {planned.plan.training: planned.plan.deployment for planned in found}
    assert {each.training: each.deployments for each in fit.after} == {
        "training": (names["training"],), "clean": (names["clean"],)
    }  # fmt: skip


def test_what_comes_before_changes_the_digest_of_what_comes_after(blueprint):
    add(blueprint, "evaluate", "training")
    before = plan_blueprint(blueprint.service, Inputs(), "evaluate").plan
    after = plan_blueprint(blueprint.service, Inputs(None, (("epochs", "3"),)), "evaluate").plan
    assert before.digest != after.digest
    assert before.after[0].deployments != after.after[0].deployments


def test_a_training_that_comes_after_nothing_keeps_its_digest(blueprint):
    alone = plan_blueprint(blueprint.service, Inputs()).plan
    assert "after" not in alone.model_dump(mode="json")
    assert plan_blueprint(add(blueprint, "evaluate", "training").service, Inputs(), "training").plan == alone


def test_a_saved_plan_knows_what_it_comes_after(blueprint):
    planned = plan_blueprint(add(blueprint, "evaluate", "training").service, Inputs(), "evaluate")
    read = planned_from_file(planned.save() / "plan.json")
    assert (read.plan, read.node) == (planned.plan, "evaluate")


def test_the_script_finds_where_the_others_ran(blueprint):
    blueprint.replace("          batch-size: 128\n", "          batch-size: 128\n        sweep: { epochs: [ 1, 2 ] }\n")
    more = ', arguments: { weights: "{after:training}/x y" }'
    found = plan_all(add(blueprint, "eval-all", "training", more=more).service, Inputs())
    script, (first, second) = found[-1].plan.job.script, [planned.plan.deployment for planned in found[:2]]
    folders = f'"$workspace/deployments/{first}/code":"$workspace/deployments/{second}/code"'
    assert f"\nexport MODAK_AFTER_TRAINING={folders}\n" in script
    assert '\n    MODAK_AFTER_TRAINING="$MODAK_AFTER_TRAINING"\n' in script
    assert """\n    --weights "$MODAK_AFTER_TRAINING"'/x y'\n""" in script


def test_tosca_has_a_word_for_it_too(blueprint):
    found = plan_all(add(blueprint, "evaluate", "training", key="dependency").service, Inputs())
    assert found[-1].plan.after[0].training == "training"


def test_opera_gets_all_points_of_a_node(blueprint):
    blueprint.replace("          batch-size: 128\n", "          batch-size: 128\n        sweep: { epochs: [ 1, 2 ] }\n")
    add(blueprint, "evaluate", "training")
    assert trainings(plan_node(blueprint.service, Inputs(), "training")) == ["training:epochs=1", "training:epochs=2"]
    assert trainings(plan_node(blueprint.service, Inputs(), "evaluate")) == ["evaluate"]
    assert trainings(plan_node(blueprint.service, Inputs(), "digits")) == ["training:epochs=1", "training:epochs=2"]


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([("a", "a")], "a after a: a training cannot come after itself"),
        ([("a", "b"), ("b", "c"), ("c", "a")], "a after b after c after a: a training cannot come after itself"),
        ([("a", "b"), ("b", "a"), ("c", "a")], "a after b after a: a training cannot come after itself"),
    ],
)
def test_a_circle_is_told_once(blueprint, nodes, words):
    for name, *after in nodes:
        add(blueprint, name, *after)
    assert mistakes_of(blueprint) == [("circle", words)]
    with pytest.raises(InvalidBlueprint) as caught:
        plan_all(blueprint.service, Inputs())
    assert "after:" in blueprint.service.read_text().splitlines()[caught.value.mistakes[0].location.line - 1]


def test_what_is_no_training_is_nothing_to_come_after(blueprint):
    ((rule, words),) = mistakes_of(add(blueprint, "evaluate", "digits"))
    assert (rule, words) == (
        "requirement-target",
        "digits is a modak.nodes.Dataset, and after must be a modak.nodes.Training",
    )


def test_twice_is_once_too_often(blueprint):
    found = mistakes_of(add(blueprint, "evaluate", "training", "training"))
    assert found == [("duplicate-requirement", "evaluate requires after twice")]


def test_another_target_is_no_place_to_come_after(blueprint):
    machine = "    machine: { type: modak.nodes.Local, properties: { container_runtime: none } }\n"
    add(blueprint, "evaluate", "training").replace("\n    digits:\n", f"\n{machine}\n    digits:\n")
    text = blueprint.service.read_text()
    head, _, tail = text.partition("    evaluate:\n")
    blueprint.service.write_text(head + "    evaluate:\n" + tail.replace("host: cluster", "host: machine", 1))
    assert ("another-host", "training is on cluster, and evaluate on machine") in mistakes_of(blueprint)


def test_a_folder_is_known_of_those_before_only(blueprint):
    found = mistakes_of(add(blueprint, "evaluate", more=', arguments: { w: "{after:training}" }'))
    assert found == [("cannot-plan", "{after:training} is used, and the training does not come after training")]


def test_too_many_are_told(blueprint, monkeypatch):
    assert service._MOST_BEFORE == 500
    monkeypatch.setattr(service, "_MOST_BEFORE", 5)  # as many plans take seconds
    values = list(range(6))
    blueprint.replace(
        "          batch-size: 128\n", f"          batch-size: 128\n        sweep: {{ epochs: {values} }}\n"
    )
    found = mistakes_of(add(blueprint, "evaluate", "training"))
    assert found == [("cannot-plan", "evaluate comes after 6 trainings; 5 at most")]


def test_two_names_that_make_one_variable_are_told(blueprint):
    add(add(add(blueprint, "evaluate", "pre-1", "pre_1"), "pre-1"), "pre_1")
    assert mistakes_of(blueprint) == [("cannot-plan", "two trainings before evaluate would be MODAK_AFTER_PRE_1")]
