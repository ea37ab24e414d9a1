"""No gain is promised of switches that no record has together."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.model.measured.prediction import Question
from modak_ansible.model.measured.work import Work
from modak_ansible.performance import load_model
from modak_ansible.performance.features import Facts
from modak_ansible.performance.together import Combinations, together
from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.service import request_of
from modak_ansible.reading.blueprint.reader import Inputs

MODEL = load_model()
PLACE = {"processor": "AMD EPYC", "architecture": "x86_64_v4", "threads": 1, "cores": 1, "node_cores": 2}
ENTRIES = {
    "pytorch 2.13": ["pytorch-2.13-cpu", "pytorch-2.13-cpu-ops", "pytorch-2.13-cpu-opt"],
    "tensorflow 2.21": ["tensorflow-2.21-cpu"],
}


def question(place, entry, settings, workload="mnist_cnn"):
    framework, _, version = place.partition(" ")
    work = Work(workload=workload, samples=60_000, epochs=12)
    return Question(framework=framework, version=version, entry=entry, settings=dict(settings), work=work, **PLACE)


def pairs():
    """Every two switches that have records alone, in every build; those without a record together."""
    for place, entries in ENTRIES.items():
        sets = [set(each) for each in MODEL.stored.together[place]]
        single = sorted(each for each in set().union(*sets) if not each.startswith("entry="))
        for entry in entries:
            for one, other in combinations(single, 2):
                if one.partition("=")[0] != other.partition("=")[0]:
                    known = any({one, other, f"entry={entry}"} <= each for each in sets)
                    yield pytest.param(place, entry, one, other, known, id=f"{entry}-{one}-{other}")


@pytest.mark.parametrize(("place", "entry", "one", "other", "known"), list(pairs()))
def test_two_switches_promise_no_more_than_a_record_has(place, entry, one, other, known):
    first, second = (tuple(each.split("=")) for each in (one, other))
    both = question(place, entry, [first, second])
    apart = MODEL.apart(MODEL.runs.of(both).facts)
    if known:
        assert not apart
        return
    stock = question(place, entry, [])
    alone = [MODEL.gain(stock, question(place, entry, [each])).ratio.middle for each in (first, second)]
    gain = MODEL.gain(stock, both)
    assert gain.ratio.middle < max(1.0, *alone) * 1.01  # rooflines are those of both; less is never worth a choice
    for each, ratio in zip((first, second), alone, strict=True):
        if ratio == max(alone):
            added = MODEL.gain(question(place, entry, [each]), both)
            assert not added.is_faster()
            assert added.apart in ("", apart)


def test_the_step_loop_and_the_tuning_of_tf_data_remove_one_loss():
    """They were promised at 7:43 together, where alone they take 11:44 and 11:17."""
    place, entry = "tensorflow 2.21", "tensorflow-2.21-cpu"
    off, whole = ("pipeline_tuning", "off"), ("step_loop", "whole")
    alone = [MODEL.predict(question(place, entry, [each])).seconds for each in (off, whole)]
    both = MODEL.predict(question(place, entry, [off, whole]))
    assert both.seconds.middle == pytest.approx(min(each.middle for each in alone), rel=0.01)
    assert both.seconds.low < min(each.low for each in alone)  # it may yet gain
    assert any("no record of" in doubt and "until they run together" in doubt for doubt in both.doubts)


def test_a_step_loop_of_its_own_leaves_tf_data_nothing_to_tune(blueprint):
    (blueprint.path / "train" / "workload.yaml").write_text(
        "name: mnist_cnn\ntitle: Work\nkind: training\ngflop_per_image: 0.0713\nparameters: 1199882\n"
        "scripts:\n  - { framework: tensorflow, script: train.py, switches: { step_loop: [plain, whole] } }\n"
    )
    blueprint.replace("framework: pytorch", "framework: tensorflow").replace("skylake_avx512", "x86_64_v4")
    request = request_of(blueprint.service, Inputs())
    processor = request.target.processor.model_copy(update={"model": "AMD EPYC", "cores": 2})
    request = request.model_copy(
        update={
            "target": request.target.model_copy(update={"processor": processor}),
            "resources": request.resources.model_copy(update={"cores_per_process": 1}),
            "optimisation": request.optimisation.model_copy(update={"numerics": "reassociation"}),
        }
    )
    made = make_plan(request, model=MODEL)
    taken = {choice.name: choice for choice in made.choices}
    assert taken["step_loop"].value == "whole"
    assert "pipeline_tuning" not in taken


names = st.sampled_from("abcdef")


@given(
    # sums of such fractions are exact: a gain that vanishes in the rounding is none
    st.dictionaries(names, st.integers(-64, 64).map(lambda effect: effect / 64), min_size=6),
    st.lists(st.sets(names), max_size=6),
    st.sets(names, min_size=1),
    st.booleans(),
)
def test_what_counts_ran_together_and_promises_no_more(effects, recorded, asked, has_version):
    """Of any effects, any records and any configuration."""

    def facts(switches, version="1.0"):
        return Facts("f", "e", "w", dict.fromkeys(sorted(switches), "on"), "m", version=version)

    def seconds(each):
        return math.fsum(effects[name] for name in each.switches)

    known = together(facts(each) for each in recorded)
    single = set().union(*recorded)
    wanted = facts(asked, "1.0" if has_version else "")
    left = set(Combinations(known).uncounted(wanted, seconds))
    counted = asked - left
    assert left <= single
    assert seconds(facts(counted)) >= seconds(wanted) - 1e-9
    gains = {name for name in counted & single if effects[name] < 0}
    assert len(gains) < 2 or any(gains <= each for each in recorded)  # nothing that no record has together
    if any(asked & single <= each for each in recorded):
        assert not left


def test_only_the_largest_sets_are_kept():
    found = [
        Facts("f", "e", "w", dict.fromkeys(each, "on"), "m", version="1.0") for each in ("a", "ab", "b", "c", "ab")
    ]
    assert together(found) == {"f 1.0": (("a=on", "b=on", "entry=e"), ("c=on", "entry=e"))}
    assert together(reversed(found)) == together(found)
