"""Searches in a blueprint: ranges and choices of arguments; mistakes have places."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.model.search import Dimension
from modak_ansible.planning.service import check_blueprint, plan_all, plan_trials
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_files import parse_yaml
from modak_ansible.reading.blueprint.reader import Inputs
from modak_ansible.reading.blueprint.search import _dimension
from modak_ansible.stages.plan import check_no_search

ARGUMENTS = "          batch-size: 128\n"


def searched(blueprint, over, more=""):
    text = f"        search: {{ trials: 3, objective: val_loss, over: {over}{more} }}\n"
    return blueprint.replace(ARGUMENTS, ARGUMENTS + text)


def mistakes_of(blueprint):
    mistakes = Mistakes()
    check_blueprint(blueprint.service, Inputs(), mistakes)
    return [(mistake.location.line, mistake.location.column, mistake.message, mistake.hint) for mistake in mistakes]


def test_a_search_is_one_training_until_its_trials_are_chosen(blueprint):
    service = searched(blueprint, "{ batch-size: [ 32, 64 ], epochs: { from: 1, to: 9 } }").service
    (planned,) = plan_all(service, Inputs())
    assert planned.plan.training == planned.node == "training"
    assert planned.search.over == (
        Dimension(name="batch-size", choices=("32", "64")),
        Dimension(name="epochs", low=1, high=9, is_whole=True),
    )
    words = "3 trials for the lowest val_loss over batch-size (32, 64), epochs (1 to 9)"
    assert planned.search.words == words
    assert (planned.search.rising, planned.search.sampler, planned.search.prune) == (False, "tpe", "none")
    (trial,) = plan_trials(planned, [{"batch-size": "64", "epochs": "3"}])
    assert (trial.plan.training, trial.node, trial.search) == ("training:batch-size=64,epochs=3", "training", None)
    assert (trial.plan.application.work.epochs, trial.plan.application.work.batch_size) == (3, 64)


def test_more_trials_are_the_same_study_and_another_script_is_not(blueprint):
    searched(blueprint, "{ epochs: { from: 1, to: 9 } }")
    studies = [plan_all(blueprint.service, Inputs())[0].study]
    for old, new in (("trials: 3", "trials: 9"), ("to: 9", "to: 8"), ("val_loss", "accuracy")):
        studies.append(plan_all(blueprint.replace(old, new).service, Inputs())[0].study)
    assert studies[0] == studies[1]
    (blueprint.path / "train/train.py").write_text("print('another')\n")
    studies.append(plan_all(blueprint.service, Inputs())[0].study)
    assert len(set(studies)) == 4


def test_words_tell_studies_apart_but_for_those_that_vary(blueprint):
    searched(blueprint, "{ epochs: { from: 1, to: 9 } }")
    blueprint.replace("        search:", "        words: [ a.csv ]\n        search:")
    studies = [plan_all(blueprint.service, Inputs())[0].study]
    studies.append(plan_all(blueprint.replace("a.csv", "b.csv").service, Inputs())[0].study)
    (blueprint.path / "train/train.py").write_text("import hydra\n@hydra.main()\ndef main(cfg): pass\n")
    for old, new in (("b.csv", "b.csv"), ("batch-size: 128", "batch-size: 64"), ("default: 2", "default: 3")):
        studies.append(plan_all(blueprint.replace(old, new).service, Inputs())[0].study)
    assert len(set(studies)) == 4
    assert studies[-1] == studies[-2]  # of which the usual value of what is searched is another


@pytest.mark.parametrize(
    ("over", "place", "words", "hint"),
    [
        ("{}", 57, "nothing is searched over", "name arguments"),
        ("{ epoch: [ 1 ] }", 59, "epoch is searched over, but is not an argument of training", "did you mean epochs?"),
        ("{ epochs: 3 }", 67, "epochs has neither a range nor choices", "such as"),
        ("{ epochs: [] }", 67, "epochs has no values", "give at least one"),
        ("{ epochs: { from: 1 } }", 67, "the range of epochs has no to", "such as"),
        ("{ epochs: { from: 1, to: many } }", 82, "to of epochs is not a number: many", "such as"),
        ("{ epochs: { from: 1, to: .inf } }", 82, "to of epochs is not a number: .inf", "such as"),
        ("{ epochs: { from: 4, to: 4 } }", 82, "epochs goes from 4 to 4, which is not above it", "from: 1, to: 10"),
        ("{ epochs: { from: 0, to: 4, log: true } }", 75, "epochs is searched by orders of magnitude, and begins at 0",
         "begin above 0"),
        ("{ epochs: { from: 1, to: 4, step: 9 } }", 91, "the step of epochs is not between 0 and 3", "leave it out"),
        ("{ epochs: { from: 1, to: 4, log: 3 } }", 90, "log of epochs is true or false", ""),
        ("{ epochs: { from: 1, till: 4, to: 2 } }", 78, "a range has no till", ""),
        ("{ epochs: [ 1, 2 ] }, seed: -1", 85, "seed must lie between 0 and 4294967295, not -1", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_has_a_place(blueprint, over, place, words, hint):
    (found,) = mistakes_of(searched(blueprint, over))
    assert (found[:3], found[3][: len(hint)]) == ((42, place, words), hint)


def test_neither_a_sweep_nor_what_comes_after_goes_with_it(blueprint):
    searched(blueprint, "{ epochs: [ 1, 2 ] }")
    blueprint.replace("        search:", "        sweep: { epochs: [ 1, 2 ] }\n        search:")
    (found,) = mistakes_of(blueprint)
    assert found[2] == "training has a sweep and a search"


def test_nothing_comes_after_a_search(blueprint):
    searched(blueprint, "{ epochs: [ 1, 2 ] }")
    blueprint.replace("  outputs:\n", """\
    second:
      type: modak.nodes.Training
      properties: { framework: pytorch, script: train/train.py, walltime: "00:10:00" }
      requirements: [ { host: cluster }, { after: training } ]

  outputs:
""")  # fmt: skip
    (found,) = mistakes_of(blueprint)
    assert found[2].startswith("training is a search, and its trials are not known yet when second is")


def test_the_other_doors_refuse_it(blueprint):
    planned = plan_all(searched(blueprint, "{ epochs: [ 1, 2 ] }").service, Inputs())
    with pytest.raises(Exception, match="training is a search, and a playbook cannot choose its trials"):
        check_no_search(planned)


@given(st.text(alphabet="{}[]:,.- 0123456789einfrotlgsp", max_size=40))
def test_whatever_stands_there_is_read_or_noted(text):
    mistakes = Mistakes()
    item = parse_yaml(text or "0", "here", mistakes)
    if item is not None and not mistakes:
        found = _dimension("x", item, lambda each, _: each.text or None, mistakes)
        assert found is not None or mistakes
